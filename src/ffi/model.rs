//! Loading a model and asking what it is.

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

/// Weights, tokenizer and metadata of one model. Immutable once it is loaded: any number of threads, caches and text
/// streams may use it at once. Counts its users, so it may be freed before them.
pub struct rz_model(pub(super) Arc<Model>, pub(super) Abilities);

impl Handle for rz_model {
    const NAME: &'static str = "model";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(self.0.runtime())
    }
}

/// Load flag: results do not depend on the number of threads, nor on how a prompt was cut into pieces, nor on the other
/// caches of a batch. On the CPU they never do. On a GPU the flag costs speed, most of it in prompts; results still
/// differ between devices, and with the number of layers that are on them.
pub const RZ_MODEL_DETERMINISTIC: u32 = 1;
/// Load flag: map the weights and use them in place instead of reading them into memory, which loads at once, takes no
/// memory of its own, and generates several times slower, because they are packed anew for each token;
/// rz_model_params.packed_path has the first two without the third. A mapped file that somebody shortens while it is in
/// use ends the process with SIGBUS; that is why it is the caller's choice.
pub const RZ_MODEL_MMAP: u32 = 2;
/// Load flag: metadata, tokenizer and chat template only. A file without weights will do, and no cache can be made.
pub const RZ_MODEL_TEXT_ONLY: u32 = 4;
/// Load flag: measure the parts of each step on a GPU, for rz_metrics_get. Steps take longer, and none begins before
/// the one ahead of it has ended.
pub const RZ_MODEL_PROFILE: u32 = 8;
/// Load flag: load the layer that predicts a further token too (multi-token prediction, arXiv 2412.19437, section 2.2),
/// for drafts of jobs by RZ_DRAFT_MTP; of several such layers the first. Its weights count as the model's, prompts go
/// through the last layer of the network as a whole, and saved caches are told from those of a model without the flag.
/// Of several devices the last has it. RZ_ERR_UNSUPPORTED for a file without such layers, and for an architecture whose
/// layers are not supported. Supported are GLM 4.5 to 4.7, DeepSeek V3 and others of its architecture, Qwen 3.5 and
/// Qwen 3 Next, and GGUF files of Hunyuan 3.
pub const RZ_MODEL_MTP: u32 = 16;
/// Load flag: a key of the model's configuration or metadata, or a tensor, that nothing here knows is passed over, with
/// a warning in the log for the first of them and their number in rz_model_info.n_unknown, instead of
/// RZ_ERR_UNSUPPORTED. The results are those of the model only if what was passed over changes none. A known key with a
/// value that is not supported is refused all the same.
pub const RZ_MODEL_ALLOW_UNKNOWN: u32 = 32;

/// Load flag: products on the CPU are in BF16 where that is faster for prompts: on processors with AMX for BF16, if a
/// product that the first such load of a process measures takes less time than with exact sums. rz_model_info.isa is
/// "amx-bf16" then; else, and for layers on GPUs, the flag changes nothing.
///
/// Prompts take less time, because a tile of weights is rounded once for hundreds of tokens and no sum is scaled. The
/// price: weights of all types but F32, and what they are multiplied with, have eight significant bits, so that
/// results are others than without the flag and than on other processors. They still depend neither on threads, nor on
/// how a prompt is cut, nor on other caches of a batch. Tokens one after the other take more work as well: slower where
/// few threads generate, hidden where memory is the limit. Saved caches are told from those of a model with exact sums.
/// The system lets the process use AMX, and makes its signal frames 8 KiB larger; where a thread has an alternative
/// stack for signals that is too small for them, it does not, and the flag changes nothing.
pub const RZ_MODEL_BF16_PRODUCTS: u32 = 64;

/// GPUs of one model, at most.
pub const RZ_DEVICES_MAX: u32 = 16;

/// Instead of a token id: the model names none.
pub const RZ_TOKEN_NONE: u32 = u32::MAX;

/// Receives the progress of a load in bytes. Non-zero stops the load with RZ_ERR_CANCELLED. Comes on the thread that
/// loads, during the call. It may call the library. It must return normally: no longjmp, no C++ exception.
pub type rz_progress_callback = Option<unsafe extern "C" fn(done: u64, total: u64, user: *mut c_void) -> i32>;

/// Parameters of a load. Zero in a field, or NULL for all of them, stands for the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_model_params {
    /// sizeof(rz_model_params).
    pub struct_size: u32,
    /// Index of a device; 0: choose for me, which rz_model_info.device tells. The choice is the CPU, unless a GPU takes
    /// the whole model, beside a cache of default capacity, and a token of it would take less time there: by the rates
    /// at which both read memory, which are measured once a process in some tens of milliseconds, that of the GPU
    /// counted at half. If no single GPU has room for it, all of them together count as one. No GPU is asked for
    /// weights below 256 MiB, for a model without logits, with `packed_path`, `gpu_layers`, `placements` or
    /// RZ_MODEL_MMAP, and one that fails costs the load nothing but time. Layers that a GPU has no kernels for stay on
    /// the CPU. Named or chosen, a GPU is first tested: each kind of operation that the model needs runs on it and on
    /// the CPU, once a process (see `tested_path`), which takes milliseconds. One that differs is
    /// RZ_ERR_DEVICE_UNAVAILABLE from then on, with a message that names the operation.
    pub device: u32,
    /// Workers, log and ceilings to use; NULL: a runtime of its own. The caller may free its handle afterwards.
    pub runtime: *const rz_runtime,
    /// RZ_MODEL_... flags, or-ed together.
    pub flags: u32,
    /// Layers to be placed on GPUs, where `device` is one or `devices` are: the last ones, and the output matrix with
    /// them. The others are computed on the CPU, their part of each cache lies there. 0: as many as fit into the free
    /// memory of the devices, beside a cache of default capacity and the scratch of a step. More layers than there are
    /// stand for all. RZ_NONE: none; the whole model is on the CPU, whatever `device` and `devices` are.
    pub gpu_layers: u32,
    /// Element type to which float matrices are quantized during the load: RZ_TYPE_F32, _F16, _BF16, _Q4_0, _Q4_1,
    /// _Q5_0, _Q5_1, _Q8_0, _Q4_K, _Q5_K or _Q6_K; RZ_TYPE_DEFAULT: the matrices keep the types of the file.
    pub quantize: u32,
    /// Tokens of prompts, at most, that a pass of rz_jobs_step or rz_conversations_step computes beside tokens of jobs
    /// that are past theirs; 0: 64. More of them bring the first token of newcomers sooner and make all others wait
    /// longer for each of theirs, because a pass takes longer the more tokens it has. A number beyond the room of a
    /// step counts as that, and passes without tokens of others are not bounded. On a CPU no result depends on it.
    pub mixed_prefill_tokens: u32,
    /// Told how far the load is; NULL: nobody.
    pub progress: rz_progress_callback,
    /// Handed to `progress` as it is.
    pub progress_user: *mut c_void,
    /// Stops the load when fired; NULL: nothing does.
    pub cancel: *const rz_cancel,
    /// Path of a file for packed weights, NUL-terminated; NULL: they are packed into memory.
    ///
    /// The first load packs the weights, which takes their size in memory, and writes the file, which takes as much on
    /// the disk. Later loads map the file, so that they take as long as their vocabulary. Processes share one copy in
    /// memory, which the system may evict and read again; the speed of token generation is the same as without the
    /// file. The library replaces a file that was made from another model, from another version of this model or by
    /// another release of the library, and a file that was cut or is zeros. Any other file is RZ_ERR_FORMAT, and stays.
    /// A file that cannot be read or written fails no load: the weights are in memory then, and the log says why.
    /// Processes and containers may share the folder: each writes under a temporary name and renames the file when it
    /// is complete. Models are identified by the sizes and times of their files, and by three rows of each matrix. Each
    /// load reads the whole file and compares a checksum; a damaged file is replaced. If another process changes or
    /// shortens the file while it is in use, this process may end. With layers on GPUs the file has the layers and
    /// experts that stay on the host (`placements`), and is replaced if others stay; if none stay, it is neither read
    /// nor made. Not with RZ_MODEL_MMAP. Since 0.1.0.
    pub packed_path: *const c_char,
    /// Indices of `n_devices` GPUs over which the layers are divided in this order, each once; NULL: `device` alone
    /// counts, and has to be 0 otherwise. Copied.
    ///
    /// The first layers are on the CPU, where `gpu_layers` or the free memory leave it some, those behind them on the
    /// first GPU, and so on; the last GPU has the output matrix. Each part of a cache lies where its layers are. A GPU
    /// waits for the one before it, so that several take a larger model and are no faster than one. What passes from
    /// one to the next goes directly where the devices reach each other, else by way of page-locked memory of the host.
    /// A fault of one of them costs the model all of them. Since 0.1.0.
    pub devices: *const u32,
    /// Number of `devices`, at most RZ_DEVICES_MAX.
    pub n_devices: usize,
    /// Sizes of the parts of `devices`, `n_devices` positive numbers that count in relation to one another; NULL: in
    /// proportion to free memory, and a device that is not needed has no layers. With shares each has some, and
    /// RZ_ERR_UNSUPPORTED says why that cannot be: fewer layers, or layers that share keys and values. Copied.
    pub device_split: *const f32,
    /// Parts of the model that are on another device than their layers (expert offload), `n_placements` elements; NULL:
    /// every part is on the device of its layer. Copied.
    ///
    /// Layers on the CPU (the first ones, by `gpu_layers`) always have their experts on the CPU. With `placements` and
    /// without `devices`, a `device` of 0 is the CPU, like 1. Errors, before a weight is read: RZ_ERR_INVALID_ARGUMENT
    /// for layers that the model does not have, for fewer layers with experts than rz_placement.n_layers, and for
    /// RZ_PLACE_GPU without a named GPU; RZ_ERR_LIMIT for more memory than the runtime's limit. With experts on the
    /// CPU, each step begins after the previous step has ended.
    pub placements: *const rz_placement,
    /// Number of `placements`.
    pub n_placements: usize,
    /// Path of a file in which the tests that GPUs have passed are kept, NUL-terminated; NULL: they are forgotten with
    /// the process.
    ///
    /// The first load on a GPU makes it, later ones in any process start without the tests that it has, and add theirs.
    /// A test counts for the same device, driver and release of the library alone. A damaged file is replaced, one that
    /// is something else stays, and neither it nor one that cannot be written costs more than the test. Devices that
    /// have failed are not kept: each process tests them again. Since 0.1.0.
    pub tested_path: *const c_char,
    /// Chat template in Jinja, `chat_template_len` bytes, that replaces the model's own in all conversations and
    /// rz_chat_* functions: for a base model, which has none, or for a model whose template uses features that are not
    /// implemented. It gets the variables of Hugging Face's chat templates (`messages`, `tools`,
    /// `add_generation_prompt`, `bos_token` ...). Reasoning and tool calls of replies are parsed in the form that this
    /// template writes. NULL: the model's own. Copied. A template that cannot be compiled is RZ_ERR_INVALID_ARGUMENT
    /// before a weight is read, and the message names the line; a model without a tokenizer is RZ_ERR_UNSUPPORTED.
    /// rz_model_meta_into still returns the model's own template.
    pub chat_template: *const c_char,
    pub chat_template_len: usize,
    /// Steps of at least this many tokens, such as prefill steps, copy the experts that are on the CPU to the GPU, a
    /// few at a time, and multiply there; 0: from the number of tokens at which this takes less time than the CPU,
    /// which the load measures; RZ_NONE: no step does. rz_model_info.experts_copied_from has the number in effect.
    ///
    /// Each executor takes GPU memory for the copies, two buffers of at most 32 MiB, or of one matrix of the largest
    /// expert if that is larger. No step copies experts in a model with RZ_MODEL_DETERMINISTIC, or experts that the GPU
    /// has no kernels for.
    pub experts_copied_from: u32,
    /// 0.
    pub reserved: u32,
}

/// Loads a model.
///
/// `path`, NUL-terminated, names a .gguf file (the first one of a split set too), a .safetensors file, or a folder with
/// a config.json. `params` may be NULL. `*out` is freed with rz_model_free. Any thread; takes as long as reading the
/// file does. Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_RESOURCES (the system gives no
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

/// Reads the parameters of a load for a function.
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

/// Frees the handle; NULL is fine. Caches and text streams of the model stay usable; the weights go with the last of
/// them. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_free(model: *mut rz_model) {
    guarded_or!((), |call| call.release(model))
}

/// Bits of rz_model_sampling.advised: the makers advise the field.
pub const RZ_SAMPLING_TEMPERATURE: u32 = 1;
pub const RZ_SAMPLING_TOP_K: u32 = 2;
pub const RZ_SAMPLING_TOP_P: u32 = 4;
pub const RZ_SAMPLING_MIN_P: u32 = 8;
pub const RZ_SAMPLING_REPEAT_PENALTY: u32 = 16;
pub const RZ_SAMPLING_PENALTY_WINDOW: u32 = 32;

/// What the makers of a model advise for sampling, in the terms of rz_sampler_params. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_model_sampling {
    /// sizeof(rz_model_sampling), set by the caller.
    pub struct_size: u32,
    /// RZ_SAMPLING_... bits of the fields that are advised, or-ed together; 0: there is no advice.
    pub advised: u32,
    /// 0: always the most likely token. 1 where it is not advised.
    pub temperature: f32,
    /// This and the fields below are 0 where they are not advised.
    pub top_k: u32,
    pub top_p: f32,
    pub min_p: f32,
    pub repeat_penalty: f32,
    pub penalty_window: u32,
}

/// Tells what the makers of a model advise for sampling: the `general.sampling` keys of a GGUF file, or
/// generation_config.json of a folder, where `do_sample: false` is a temperature of 0. Replies of
/// conversations without a sampler follow it; for a sampler of the caller nothing of it takes effect by itself.
///
/// `out->struct_size` is set by the caller. Advice out of its range is not told; the log has a line for it. Any thread.
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
            advised: bits.iter().filter(|(is_told, _)| *is_told).map(|(_, bit)| bit).sum(),
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

/// Writes a value of the model's metadata as text, such as that of the NUL-terminated `key` "general.name"; of an array
/// its length and kind, such as "[24 integers]".
///
/// `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
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

/// Writes key `index` of the model's metadata, in alphabetical order; keys are asked for from 0 until
/// RZ_ERR_NOT_FOUND.
///
/// `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
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

/// Writes element `index` of the array under the NUL-terminated `key` of the model's metadata as text; elements are
/// asked for from 0 until RZ_ERR_NOT_FOUND.
///
/// `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
/// RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND (no such key, beyond the last element),
/// RZ_ERR_INVALID_ARGUMENT (no array), RZ_ERR_UNSUPPORTED for an array that only the tokenizer keeps: see
/// rz_token_bytes_into. Since 0.1.0.
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
