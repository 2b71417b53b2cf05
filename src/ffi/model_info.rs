//! Description and capabilities of a model.

use std::ffi::c_char;

use crate::error::Error;

use super::embed::pooling_number;
use super::field::write_text;
use super::guard::guarded;
use super::model::{RZ_TOKEN_NONE, rz_model};
use super::status::{RZ_NONE, RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Bit of rz_model_info.chat_template: rz_chat_render_into works.
pub const RZ_TEMPLATE_PRESENT: u32 = 1;
/// Bit of rz_model_info.chat_template: the template itself writes the token that begins a text (BOS). Tokenize rendered
/// text without RZ_TOKENIZE_ADD_SPECIAL.
pub const RZ_TEMPLATE_WRITES_BOS: u32 = 2;

/// Bit of rz_model_info.capabilities: the model computes logits and can generate tokens. Not set for embedding models,
/// nor with RZ_MODEL_TEXT_ONLY.
pub const RZ_CAN_GENERATE: u32 = 1;
/// Bit of rz_model_info.capabilities: the chat template supports system messages. Without the bit their text is merged
/// into user messages (rz_chat_render_into).
pub const RZ_CAN_SYSTEM: u32 = 2;
/// Bit of rz_model_info.capabilities: tool calling (function calling): the chat template renders "tools", and the
/// format of the model's tool calls is known.
pub const RZ_CAN_TOOLS: u32 = 4;
/// Bit of rz_model_info.capabilities: replies may begin with reasoning.
pub const RZ_CAN_REASON: u32 = 8;
/// Bit of rz_model_info.capabilities: reasoning can be switched with RZ_REASONING_ON and RZ_REASONING_OFF.
pub const RZ_CAN_SWITCH_REASONING: u32 = 16;
/// Bit of rz_model_info.capabilities: the chat template supports images in user messages. Images need an encoder
/// (rz_encoder_load). Models whose template has no placeholder accept images too if they have an encoder.
pub const RZ_CAN_IMAGES: u32 = 32;
/// Bit of rz_model_info.capabilities: the same for audio.
pub const RZ_CAN_AUDIO: u32 = 64;
/// Bit of rz_model_info.capabilities: the same for video.
pub const RZ_CAN_VIDEO: u32 = 128;

/// Description of a model. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_model_info {
    /// sizeof(rz_model_info), set by the caller.
    pub struct_size: u32,
    /// Family of the network, such as "llama" or "qwen3".
    pub architecture: [c_char; 32],
    /// Name of the model; empty if the file has none.
    pub name: [c_char; 64],
    /// Transformer layers.
    pub n_layers: u32,
    /// Width of the residual stream, in values.
    pub hidden_dim: u32,
    /// Width of the feed-forward block, in values.
    pub ffn_dim: u32,
    /// Query heads.
    pub n_heads: u32,
    /// Key and value heads.
    pub n_kv_heads: u32,
    /// Values per head.
    pub head_dim: u32,
    /// Number of token ids, which run from 0 to vocab_size - 1; also the number of logits.
    pub vocab_size: u32,
    /// Context length in tokens that the model was trained for, as declared in the file.
    pub context_length: u32,
    /// Index of the device that the model was loaded to; with several GPUs the first.
    pub device: u32,
    /// Token that begins a text, or RZ_TOKEN_NONE.
    pub bos_token: u32,
    /// Token that ends a text, or RZ_TOKEN_NONE. There may be more: see rz_token_is_end.
    pub eos_token: u32,
    /// Number of parameters.
    pub n_params: u64,
    /// Bytes of weights in memory; 0 for a model loaded with RZ_MODEL_TEXT_ONLY.
    pub weight_bytes: u64,
    /// Number of layers on GPUs; the CPU computes the other layers, which come first.
    pub gpu_layers: u32,
    /// RZ_TEMPLATE_... bits, combined with |; 0: no usable template.
    pub chat_template: u32,
    /// Number of keys and tensors that RZ_MODEL_ALLOW_UNKNOWN ignored.
    pub n_unknown: u32,
    /// First GPU layer whose experts are on the CPU, from 0.
    pub experts_host_first: u32,
    /// Bytes of experts on the host that belong to layers on GPUs.
    pub experts_host: u64,
    /// Bytes of experts on GPUs.
    pub experts_device: u64,
    /// Number of layers from `experts_host_first` to the last layer whose experts are on the CPU; 0: none.
    pub experts_host_layers: u32,
    /// 1 if the model is an encoder-decoder (it generates from a source text: rz_media_from_tokens), else 0.
    pub reads_source: u32,
    /// Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if no product is computed
    /// there.
    pub isa: [c_char; 32],
    /// Minimum number of tokens of a step that copies the experts from the CPU to the GPU; RZ_NONE: no step copies.
    pub experts_copied_from: u32,
    /// RZ_CAN_... bits, combined with |: what conversations of the model support, and whether the model generates.
    pub capabilities: u32,
    /// Number of floats in a text embedding from rz_embed_into; 0: the model computes no embeddings.
    pub embedding_dim: u32,
    /// Pooling of the model's embeddings, RZ_POOLING_...; RZ_POOLING_MODEL: the file declares none, so the caller must
    /// choose.
    pub pooling: u32,
    /// Number of scores of the model's classifier (RZ_POOLING_RANK, reranking); 0: it has no classifier.
    pub n_scores: u32,
    /// Number of GPUs that have layers (rz_model_device_get).
    pub n_devices: u32,
}

/// Describes a model, with values computed by the load. The caller sets `out->struct_size`. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_info_get(
    model: *const rz_model,
    out: *mut rz_model_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out_struct(out)?;
        let (from, can) = (model.0.info(), &model.1);
        let mut info = rz_model_info {
            struct_size: 0,
            architecture: [0; 32],
            name: [0; 64],
            n_layers: from.n_layers,
            hidden_dim: from.hidden_dim,
            ffn_dim: from.ffn_dim,
            n_heads: from.n_heads,
            n_kv_heads: from.n_kv_heads,
            head_dim: from.head_dim,
            vocab_size: from.vocab_size,
            context_length: from.context_length,
            device: from.device,
            bos_token: from.bos_token.unwrap_or(RZ_TOKEN_NONE),
            eos_token: from.eos_token.unwrap_or(RZ_TOKEN_NONE),
            n_params: from.n_params,
            weight_bytes: from.weight_bytes,
            gpu_layers: from.gpu_layers,
            chat_template: or([(can.has_template, RZ_TEMPLATE_PRESENT), (can.writes_bos, RZ_TEMPLATE_WRITES_BOS)]),
            n_unknown: from.n_unknown,
            experts_host_first: from.experts.0.start,
            experts_host: from.experts.1[0],
            experts_device: from.experts.1[1],
            experts_host_layers: count(from.experts.0.len()),
            reads_source: u32::from(from.reads_source),
            isa: [0; 32],
            experts_copied_from: from.experts_copied_from.unwrap_or(RZ_NONE),
            capabilities: or([
                (from.generates, RZ_CAN_GENERATE),
                (can.system, RZ_CAN_SYSTEM),
                (can.tools, RZ_CAN_TOOLS),
                (can.reasoning, RZ_CAN_REASON),
                (can.reasoning_switch, RZ_CAN_SWITCH_REASONING),
                (can.images, RZ_CAN_IMAGES),
                (can.audio, RZ_CAN_AUDIO),
                (can.video, RZ_CAN_VIDEO),
            ]),
            embedding_dim: count(from.embedding_dim),
            pooling: pooling_number(from.pooling),
            n_scores: count(from.n_scores),
            n_devices: count(from.gpus.len()),
        };
        write_text(&mut info.architecture, format_args!("{}", from.architecture));
        write_text(&mut info.name, format_args!("{}", from.name));
        write_text(&mut info.isa, format_args!("{}", from.isa));
        out.set(info);
        Ok(RZ_OK)
    })
}

/// A GPU that has layers of a model. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_model_device {
    /// sizeof(rz_model_device), set by the caller.
    pub struct_size: u32,
    /// Index of the device.
    pub device: u32,
    /// Number of layers on the GPU.
    pub n_layers: u32,
}

/// Describes one of the GPUs that have layers of the model: `index` runs from 0 to rz_model_info.n_devices - 1, in the
/// order of the layers. The caller sets `out->struct_size`. Any thread. Errors: RZ_ERR_NOT_FOUND beyond the last. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_device_get(
    model: *const rz_model,
    index: u32,
    out: *mut rz_model_device,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = call.handle(model)?;
        let out = call.out_struct(out)?;
        let gpus = &model.0.info().gpus;
        let &(device, n_layers) = gpus.get(index as usize).ok_or_else(|| {
            let n = gpus.len();
            Error::not_found(format!("index is {index}; it must be below the number of GPUs that have layers, {n}"))
        })?;
        out.set(rz_model_device { struct_size: 0, device, n_layers });
        Ok(RZ_OK)
    })
}

/// Combines the bits whose condition is true.
fn or<const N: usize>(bits: [(bool, u32); N]) -> u32 {
    bits.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit)
}
