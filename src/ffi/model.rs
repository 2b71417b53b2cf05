//! Loading a model, its metadata and its recommended sampling parameters.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::engine::{Abilities, CPU_DEVICE, LoadOptions, LoadParams, MAX_GPUS, Model, Runtime, RuntimeParams};
use crate::error::{Error, Result};

use super::arguments::Call;
use super::cancel::{flag, rz_cancel};
use super::element::target_type;
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::placement::{copied, placement, rz_placement};
use super::runtime::rz_runtime;
use super::status::{RZ_NONE, RZ_OK, rz_error, rz_status};

/// Weights, tokenizer and metadata of one model. Immutable after the load: any number of threads, caches and text
/// streams may use it at once. Reference-counted: it may be freed before the objects that use it.
pub struct rz_model(pub(super) Arc<Model>, pub(super) Abilities);

impl Handle for rz_model {
    const NAME: &'static str = "model";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.0.runtime())
    }
}

/// Load flag: deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was
/// split into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs speed,
/// mostly in prefill. Results still differ between devices, and depend on the number of layers on each device.
pub const RZ_MODEL_DETERMINISTIC: u32 = 1;
/// Load flag: map the weights (mmap) and use them in place instead of reading them into memory. The load is immediate
/// and takes no memory, but token generation is several times slower, because weights are repacked for each token. With
/// rz_model_params.packed_path, loads after the first one are short too, and token generation is not slower. If another
/// program truncates the mapped file while it is in use, the process dies of SIGBUS; therefore the flag is never a
/// default.
pub const RZ_MODEL_MMAP: u32 = 2;
/// Load flag: metadata, tokenizer and chat template only. The file needs no weights, and no cache can be created.
pub const RZ_MODEL_TEXT_ONLY: u32 = 4;
/// Load flag: measure the parts of each step on a GPU, for rz_metrics_get. Steps take longer, and no step begins before
/// the previous one has ended.
pub const RZ_MODEL_PROFILE: u32 = 8;
/// Load flag: also load the multi-token prediction (MTP) head (arXiv 2412.19437, section 2.2), for speculative decoding
/// by jobs with RZ_DRAFT_MTP. If the file has several heads, only the first is loaded. Its weights count as weights
/// of the model, prefill computes all positions of the last layer, and saved caches are not interchangeable
/// with saved caches of a model without the flag. With several devices the head is on the last device.
/// RZ_ERR_UNSUPPORTED for a file without MTP heads, or for an architecture whose heads are not supported. Supported
/// models: GLM 4.5 to 4.7, DeepSeek V3 and its derivatives, Qwen 3.5, Qwen 3 Next, and Hunyuan 3 in GGUF files.
pub const RZ_MODEL_MTP: u32 = 16;
/// Load flag: ignore unknown keys in the model's configuration or metadata and unknown tensors, instead of
/// RZ_ERR_UNSUPPORTED. The log has a warning for the first ignored item, and rz_model_info.n_unknown has the number of
/// ignored items. Results are only correct if the ignored items do not matter. A known key with an unsupported value is
/// still rejected.
pub const RZ_MODEL_ALLOW_UNKNOWN: u32 = 32;

/// Load flag: computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with
/// AMX-BF16. The first load with the flag in a process times a matrix product; the flag takes effect only if BF16 is
/// faster than the default arithmetic with exact integer sums. In this case rz_model_info.isa is "amx-bf16"; otherwise,
/// and for layers on GPUs, the flag has no effect.
///
/// Prefill takes less time, because a tile of weights is rounded once for hundreds of tokens, and sums need no scaling.
/// The cost: weights of all types but F32, and the activations that they are multiplied with, have eight significant
/// bits, so results differ from results without the flag and from results on other processors. Results still depend
/// neither on threads, nor on prompt chunks, nor on other sequences of a batch. Decode, on the other hand, takes more
/// work: it is slower with few threads, and equally fast if memory bandwidth is the limit. Saved caches are not
/// interchangeable with saved caches of a model with exact sums. The load asks the system for permission to use AMX,
/// which makes signal frames 8 KiB larger; if a thread has an alternative signal stack that is too small for them, the
/// system refuses and the flag has no effect.
pub const RZ_MODEL_BF16_PRODUCTS: u32 = 64;

/// Maximum number of GPUs of one model.
pub const RZ_DEVICES_MAX: u32 = 16;

/// Instead of a token id: the model defines no such token.
pub const RZ_TOKEN_NONE: u32 = u32::MAX;

/// Receives the progress of a load in bytes. A non-zero result stops the load with RZ_ERR_CANCELLED. Runs on the
/// loading thread, during the call. It may call the library. It must return normally: no longjmp, no C++ exception.
pub type rz_progress_callback = Option<unsafe extern "C" fn(done: u64, total: u64, user: *mut c_void) -> i32>;

/// Parameters of a load. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_model_params {
    /// sizeof(rz_model_params).
    pub struct_size: u32,
    /// Index of a device; 0: automatic choice, which rz_model_info.device reports. The automatic choice is the CPU,
    /// unless the whole model and a cache of default capacity fit on a GPU, and the GPU would generate tokens faster.
    /// To estimate that, the library measures the memory bandwidth of both once per process (tens of milliseconds), and
    /// halves the bandwidth of the GPU to be safe. If the model does not fit on one GPU, all GPUs together count as
    /// one. The choice never considers a GPU for weights below 256 MiB, for a model without logits, or with
    /// `packed_path`, `gpu_layers`, `placements` or RZ_MODEL_MMAP. It skips a GPU that fails. Layers without GPU
    /// kernels stay on the CPU. Any GPU, named or chosen, is self-tested first: each kind of operation that the model
    /// needs runs on the GPU and on the CPU, once per process (see `tested_path`), within milliseconds. If a result
    /// differs, the device is unavailable from then on: loads fail with RZ_ERR_DEVICE_UNAVAILABLE and a message that
    /// names the operation.
    pub device: u32,
    /// Runtime to use; NULL: a new one. The caller may free its handle after the load.
    pub runtime: *const rz_runtime,
    /// RZ_MODEL_... flags, combined with |.
    pub flags: u32,
    /// Number of layers to offload to GPUs, if `device` is a GPU or `devices` are set: the last layers, together with
    /// the output matrix. The CPU computes the other layers and holds their part of each KV cache. 0: as many layers as
    /// fit into the free memory of the devices, in addition to a cache of default capacity and the scratch memory of a
    /// step. A number above the layer count means all layers. RZ_NONE: none; the whole model is on the CPU, whatever
    /// `device` and `devices` are.
    pub gpu_layers: u32,
    /// Element type to which float matrices are quantized during the load: RZ_TYPE_F32, _F16, _BF16, _Q4_0, _Q4_1,
    /// _Q5_0, _Q5_1, _Q8_0, _Q4_K, _Q5_K or _Q6_K; RZ_TYPE_DEFAULT: the matrices keep the types of the file.
    pub quantize: u32,
    /// Maximum number of prompt tokens that a batch step of rz_jobs_step or rz_conversations_step computes together
    /// with tokens of jobs that are past their prompt (mixed prefill and decode); 0: 64. A larger number shortens the
    /// time to first token of new requests and lengthens the inter-token latency of all other requests, because a step
    /// with more tokens takes longer. The limit never exceeds the size of a step, and does not apply to steps that have
    /// only prompt tokens. On a CPU results do not depend on it.
    pub mixed_prefill_tokens: u32,
    /// Load progress callback; may be NULL.
    pub progress: rz_progress_callback,
    /// Passed to `progress`.
    pub progress_user: *mut c_void,
    /// Cancels the load when fired; may be NULL.
    pub cancel: *const rz_cancel,
    /// Path of a file for packed weights, NUL-terminated; NULL: weights are packed into memory.
    ///
    /// The first load packs the weights, which takes their size in memory, and writes the file, which takes the same
    /// size on the disk. Later loads map the file instead of packing. Each load reads the whole file once, on all
    /// threads, to verify its checksum; a damaged file is replaced. Processes share one copy in memory, which the
    /// system may evict and read again; token generation is as fast as without the file. The library replaces a file
    /// that was made from another model, from another version of this model or by another release of the library, and a
    /// file that was truncated or is all zeros. Any other file is left unchanged, and the load fails with
    /// RZ_ERR_FORMAT. A file that cannot be read or written does not fail the load: the weights are in memory then, and
    /// the log has the reason. Processes and containers may share the folder: each process writes under a temporary
    /// name and renames the complete file. Models are identified by the sizes and times of their files, and by three
    /// rows of each matrix. If another process changes or truncates the file while it is in use, this process may die.
    /// With layers on GPUs the file holds only the layers and experts on the host (`placements`). The library replaces
    /// the file if a load puts other layers or experts on the host, and neither reads nor writes the file if a load
    /// puts none there. A load with both this file and RZ_MODEL_MMAP fails with RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
    pub packed_path: *const c_char,
    /// Indices of `n_devices` different GPUs over which the layers are split in this order; NULL: only `device` counts.
    /// With `devices`, `device` must be 0. Copied.
    ///
    /// If `gpu_layers` or the free memory does not allow all layers on GPUs, the first layers are on the CPU. The next
    /// layers are on the first GPU, and so on; the last GPU has the output matrix. Each part of a KV cache is where its
    /// layers are. The GPUs work one after the other, so several GPUs hold a larger model but are not faster than one.
    /// Activations pass directly between devices that can access each other's memory, otherwise through page-locked
    /// host memory. If one device fails, the model loses all of them. Since 0.1.0.
    pub devices: *const u32,
    /// Number of `devices`, at most RZ_DEVICES_MAX.
    pub n_devices: usize,
    /// Relative sizes of the parts of `devices`: `n_devices` positive numbers; NULL: in proportion to free memory, and
    /// a device that is not needed gets no layers. With a split each device gets layers. If that is impossible, the
    /// load fails with RZ_ERR_UNSUPPORTED, and the message says why: too few layers, or layers that share their KV
    /// cache. Copied.
    pub device_split: *const f32,
    /// Expert offload: parts of the model on another device than their layers, `n_placements` elements; NULL: every
    /// part is on the device of its layer. Copied.
    ///
    /// Layers on the CPU (the first ones, by `gpu_layers`) always have their experts on the CPU. With `placements` and
    /// without `devices`, `device` 0 does not choose a device: it means the CPU, as 1 does. Errors, before weights are
    /// read: RZ_ERR_INVALID_ARGUMENT for layers that the model does not have, for fewer MoE layers than
    /// rz_placement.n_layers, and for RZ_PLACE_GPU without a named GPU; RZ_ERR_LIMIT if the memory limit of the runtime
    /// is too low. With experts on the CPU, each step begins after the previous step has ended.
    pub placements: *const rz_placement,
    /// Number of `placements`.
    pub n_placements: usize,
    /// Path of a file that records passed GPU self-tests of the model and of its encoders, NUL-terminated; NULL: the
    /// record lasts as long as the process.
    ///
    /// The first load on a GPU creates the file; later loads in any process skip the recorded tests and add new ones. A
    /// record applies to the same device, driver and release of the library only. A damaged file is replaced; a file of
    /// another kind is left unchanged. If the file is unusable or cannot be written, the load does not fail; it only
    /// runs the tests again. Failures are not recorded: each process tests such devices again. Since 0.1.0.
    pub tested_path: *const c_char,
    /// Chat template in Jinja, `chat_template_len` bytes, that replaces the model's own in all conversations and
    /// rz_chat_* functions: for a base model, which has none, or for a model whose template uses unsupported features.
    /// It gets the variables of Hugging Face's chat templates (`messages`, `tools`, `add_generation_prompt`,
    /// `bos_token` ...). Reasoning and tool calls in replies are parsed in the format that this template writes. NULL:
    /// the model's own. Copied. If the template does not compile, the load fails with RZ_ERR_INVALID_ARGUMENT before
    /// weights are read, and the message names the line; for a model without a tokenizer it fails with
    /// RZ_ERR_UNSUPPORTED. rz_model_meta_into still returns the model's own template.
    pub chat_template: *const c_char,
    pub chat_template_len: usize,
    /// Steps of at least this number of tokens, such as prefill steps, copy the experts from the CPU to the GPU, a few
    /// at a time, and multiply there. 0: the smallest number for which this takes less time than computing on the CPU,
    /// as measured by the load; RZ_NONE: no step copies. rz_model_info.experts_copied_from has the number in effect.
    ///
    /// The scratch memory of a step on a GPU then includes two buffers for the copies, of at most 32 MiB each, or of
    /// one expert's largest matrix if that is larger. Models loaded with RZ_MODEL_DETERMINISTIC copy no
    /// experts, and experts without GPU kernels are never copied.
    pub experts_copied_from: u32,
    /// 0.
    pub reserved: u32,
}

/// Loads a model.
///
/// `path`, NUL-terminated, names a .gguf file (the first one of a split model), a .safetensors file, or a folder with a
/// config.json. `params` may be NULL. The caller frees `*out` with rz_model_free. Any thread; blocks while the file is
/// read. Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_RESOURCES (the system cannot create a
/// thread, see rz_runtime_params.threads), RZ_ERR_FORMAT (damaged), RZ_ERR_UNSUPPORTED (an architecture or tensor type
/// that is not implemented), RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_DEVICE_UNAVAILABLE,
/// RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT, RZ_ERR_VERSION (unknown flags). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_load(
    path: *const c_char,
    params: *const rz_model_params,
    out: *mut *mut rz_model,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out(out, "out")?;
        let path = call.path(path, "path")?;
        out.set_handle(load(call, params, |params| Model::load(path, params))?);
        Ok(RZ_OK)
    })
}

/// Loads a model with the parameters of a caller.
pub(super) fn load(
    call: &Call,
    params: *const rz_model_params,
    load: impl FnOnce(LoadParams) -> Result<Arc<Model>>,
) -> Result<rz_model> {
    with_params(call, params, |params| {
        let cancel = params.cancel;
        let model = load(params)?;
        let abilities = Abilities::find(&model, cancel)?;
        Ok(rz_model(model, abilities))
    })
}

const _: () = assert!(RZ_DEVICES_MAX as usize == MAX_GPUS);

/// Reads the parameters of a load and passes them to a function.
pub(super) fn with_params<T>(
    call: &Call,
    params: *const rz_model_params,
    load: impl FnOnce(LoadParams) -> Result<T>,
) -> Result<T> {
    let params: rz_model_params = call.params(params)?;
    let known = RZ_MODEL_DETERMINISTIC | RZ_MODEL_MMAP | RZ_MODEL_TEXT_ONLY | RZ_MODEL_PROFILE | RZ_MODEL_MTP;
    let known = known | RZ_MODEL_ALLOW_UNKNOWN | RZ_MODEL_BF16_PRODUCTS;
    call.flags(params.flags, known, "rz_model_params.flags")?;
    let runtime = match call.optional(params.runtime)? {
        Some(runtime) => runtime.0.clone(),
        None => Runtime::new(RuntimeParams::default())?,
    };
    let cancel = call.optional(params.cancel)?;
    let packed_path = match params.packed_path.is_null() {
        true => None,
        false => Some(call.path(params.packed_path, "rz_model_params.packed_path")?),
    };
    let placement = placement(call, params.placements, params.n_placements)?;
    let tested_path = match params.tested_path.is_null() {
        true => None,
        false => Some(call.path(params.tested_path, "rz_model_params.tested_path")?),
    };
    let chat_template = match params.chat_template.is_null() && params.chat_template_len == 0 {
        true => None,
        false => Some(call.text(params.chat_template, params.chat_template_len, "rz_model_params.chat_template")?),
    };
    let devices = call.slice(params.devices, params.n_devices, "rz_model_params.devices")?;
    let shares = match params.device_split.is_null() {
        true => &[],
        false => call.slice(params.device_split, params.n_devices, "rz_model_params.device_split")?,
    };
    let is_twice = |(i, device): &(usize, &u32)| devices.iter().take(*i).any(|before| before == *device);
    if let Some((_, twice)) = devices.iter().enumerate().find(is_twice) {
        return Err(Error::invalid(format!("rz_model_params.devices names device {twice} twice")));
    }
    let (device, devices, shares) = match params.gpu_layers {
        RZ_NONE => (CPU_DEVICE, &[][..], &[][..]),
        _ => (params.device, devices, shares),
    };
    let user = params.progress_user;
    let mut progress = params.progress.map(|progress| {
        // SAFETY: the header asks for a function that may be called so during the load.
        move |done: u64, total: u64| unsafe { progress(done, total, user) == 0 }
    });
    let options = LoadOptions {
        device,
        devices,
        shares,
        deterministic: params.flags & RZ_MODEL_DETERMINISTIC != 0,
        mmap: params.flags & RZ_MODEL_MMAP != 0,
        text_only: params.flags & RZ_MODEL_TEXT_ONLY != 0,
        profile: params.flags & RZ_MODEL_PROFILE != 0,
        mtp: params.flags & RZ_MODEL_MTP != 0,
        allow_unknown: params.flags & RZ_MODEL_ALLOW_UNKNOWN != 0,
        bf16_products: params.flags & RZ_MODEL_BF16_PRODUCTS != 0,
        gpu_layers: params.gpu_layers,
        placement,
        copied: copied(params.experts_copied_from),
        mixed_prefill_tokens: params.mixed_prefill_tokens,
        quantize: target_type(params.quantize, "rz_model_params.quantize")?,
        packed_path,
        tested_path,
        chat_template,
        plan: false,
    };
    load(LoadParams {
        runtime: Some(runtime),
        options,
        isa: None,
        progress: progress.as_mut().map(|progress| progress as &mut dyn FnMut(u64, u64) -> bool),
        cancel: flag(&cancel),
    })
}

/// Frees the handle; NULL is fine. Caches and text streams of the model stay usable; freeing the last of them frees the
/// weights. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_free(model: *mut rz_model) {
    guarded_or!((), |call| call.release(model))
}

/// Bits of rz_model_sampling.advised: the model's authors recommend the field.
pub const RZ_SAMPLING_TEMPERATURE: u32 = 1;
pub const RZ_SAMPLING_TOP_K: u32 = 2;
pub const RZ_SAMPLING_TOP_P: u32 = 4;
pub const RZ_SAMPLING_MIN_P: u32 = 8;
pub const RZ_SAMPLING_REPEAT_PENALTY: u32 = 16;
pub const RZ_SAMPLING_PENALTY_WINDOW: u32 = 32;

/// Sampling parameters that the model's authors recommend, in the terms of rz_sampler_params. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_model_sampling {
    /// sizeof(rz_model_sampling), set by the caller.
    pub struct_size: u32,
    /// RZ_SAMPLING_... bits of the recommended fields, combined with |; 0: no recommendation.
    pub advised: u32,
    /// 0: greedy. 1 if the authors recommend no temperature. A reply without a sampler uses this field, unless
    /// `advised` is 0: then the reply is greedy.
    pub temperature: f32,
    /// 0 if the authors do not recommend the field, as in all fields below.
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub penalty_window: u32,
}

/// Returns the sampling parameters that the model's authors recommend: the `general.sampling` keys of a GGUF file, or
/// generation_config.json of a folder, where `do_sample: false` is a temperature of 0. Replies of conversations without
/// a sampler use the recommendations; a sampler created by the caller never applies them by itself.
///
/// The caller sets `out->struct_size`. Recommendations out of range are left out, with a line in the log. Any thread.
/// Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_sampling_get(
    model: *const rz_model,
    out: *mut rz_model_sampling,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out_struct(out)?;
        let advice = model.0.advice();
        let bits = [
            (advice.temperature.is_some(), RZ_SAMPLING_TEMPERATURE),
            (advice.top_k.is_some(), RZ_SAMPLING_TOP_K),
            (advice.top_p.is_some(), RZ_SAMPLING_TOP_P),
            (advice.min_p.is_some(), RZ_SAMPLING_MIN_P),
            (advice.repeat_penalty.is_some(), RZ_SAMPLING_REPEAT_PENALTY),
            (advice.penalty_window.is_some(), RZ_SAMPLING_PENALTY_WINDOW),
        ];
        out.set(rz_model_sampling {
            struct_size: 0,
            advised: bits.iter().filter(|(is_advised, _)| *is_advised).map(|(_, bit)| bit).sum(),
            temperature: advice.temperature.unwrap_or(1.0),
            top_k: advice.top_k.unwrap_or(0),
            top_p: advice.top_p.unwrap_or(0.0),
            min_p: advice.min_p.unwrap_or(0.0),
            repeat_penalty: advice.repeat_penalty.unwrap_or(0.0),
            penalty_window: advice.penalty_window.unwrap_or(0),
        });
        Ok(RZ_OK)
    })
}

/// Writes the metadata value of `key` (NUL-terminated, such as "general.name") as text; for an array its length and
/// element type, such as "[24 integers]".
///
/// `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND for a key that the model does not have. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_meta_into(
    model: *const rz_model,
    key: *const c_char,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let key = call.c_str(key, "key")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let value = model
            .0
            .metadata()
            .render(key)
            .ok_or_else(|| Error::not_found(format!("the model has no metadata key {key:?}")))?;
        out.fill(value.as_bytes())?;
        Ok(RZ_OK)
    })
}

/// Writes metadata key `index` of the model, in alphabetical order; callers iterate from 0 until RZ_ERR_NOT_FOUND.
///
/// `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND beyond the last key. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_meta_key_into(
    model: *const rz_model,
    index: usize,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let mut keys = model.0.metadata().iter().map(|(key, _)| key);
        let count = keys.len();
        let key = keys.nth(index).ok_or_else(|| {
            Error::not_found(format!("index is {index}; it must be below the number of keys, {count}"))
        })?;
        out.fill(key.as_bytes())?;
        Ok(RZ_OK)
    })
}

/// Writes element `index` of the metadata array `key` (NUL-terminated) as text; callers iterate from 0 until
/// RZ_ERR_NOT_FOUND.
///
/// `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
/// RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND (no such key, beyond the last element),
/// RZ_ERR_INVALID_ARGUMENT (not an array), RZ_ERR_UNSUPPORTED for an array whose elements only the
/// tokenizer stores, such as the vocabulary: see rz_token_bytes_into. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_meta_element_into(
    model: *const rz_model,
    key: *const c_char,
    index: usize,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let key = call.c_str(key, "key")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let value = model
            .0
            .metadata()
            .get(key)
            .ok_or_else(|| Error::not_found(format!("the model has no metadata key {key:?}")))?;
        out.fill(value.render_element(index)?.as_bytes())?;
        Ok(RZ_OK)
    })
}
