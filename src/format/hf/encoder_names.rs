//! Translates tensor names of encoders in Hugging Face files to GGUF's.

use std::path::Path;

use super::parts;
use crate::error::{Error, Result, try_vec};
use crate::format::TensorInfo;
use crate::format::contents::owned;
use crate::format::safetensors::Entry;
use crate::format::storage::{Function, Picked, TensorStorage};
use crate::quant;
use crate::tensor::Shape;

/// Wrappers of encoders, the longest first, and prefixes of all other tensors that belong to them.
const ENCODERS: &[&str] = &[
    "vision_tower.vision_model.",
    "visual.vision_model.",
    "vpm.",
    "vision_tower.",
    "vision_encoder.",
    "vision_model.",
    "visual.",
];
const PROJECTORS: &[&str] = &[
    "multi_modal_projector.",
    "vision_projection.",
    "connector.",
    "embed_vision.",
    "vision_embedder.",
    "mlp_AR.",
    "mlp1.",
    "image_newline",
    "projector.",
    "mm_projector.",
    "resampler.",
    "visual_projection.",
];

/// Prefixes of layers.
const LAYERS: &[&str] =
    &["encoder.layers.", "encoder.layer.", "transformer.layers.", "model.layers.", "encoder.blocks.", "blocks."];

/// Modules of a layer.
const LAYER: &[(&str, &str)] = &[
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.out_proj", "attn_out"),
    ("layer_norm1", "ln1"),
    ("layer_norm2", "ln2"),
    ("mlp.fc1", "ffn_up"),
    ("mlp.fc2", "ffn_down"),
    // Gemma 4.
    ("self_attn.o_proj", "attn_out"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("input_layernorm", "ln1"),
    ("post_attention_layernorm", "attn_post_norm"),
    ("pre_feedforward_layernorm", "ln2"),
    ("post_feedforward_layernorm", "ffn_post_norm"),
    // InternVL.
    ("attention.q_proj", "attn_q"),
    ("attention.k_proj", "attn_k"),
    ("attention.v_proj", "attn_v"),
    ("attention.q_norm", "attn_q_norm"),
    ("attention.k_norm", "attn_k_norm"),
    ("attention.projection_layer", "attn_out"),
    ("layernorm_before", "ln1"),
    ("layernorm_after", "ln2"),
    // Pixtral.
    ("attention.o_proj", "attn_out"),
    ("attention_norm", "ln1"),
    ("ffn_norm", "ln2"),
    ("feed_forward.gate_proj", "ffn_gate"),
    ("feed_forward.up_proj", "ffn_up"),
    ("feed_forward.down_proj", "ffn_down"),
    // Qwen.
    ("norm1", "ln1"),
    ("norm2", "ln2"),
    ("attn.qkv", "attn_qkv"),
    ("attn.q", "attn_q"),
    ("attn.k", "attn_k"),
    ("attn.v", "attn_v"),
    ("attn.proj", "attn_out"),
    ("attn.q_norm", "attn_q_norm"),
    ("attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.linear_fc1", "ffn_up"),
    ("mlp.linear_fc2", "ffn_down"),
    // Kimi.
    ("norm0", "ln1"),
    ("wqkv", "attn_qkv"),
    ("wo", "attn_out"),
    ("mlp.fc0", "ffn_up"),
];

/// Modules of an encoder outside of its layers.
const TOP: &[(&str, &str)] = &[
    ("embeddings.patch_embedding", "v.patch_embd"),
    ("embeddings.position_embedding", "v.position_embd"),
    ("pre_layrnorm", "v.pre_ln"),
    ("post_layernorm", "v.post_ln"),
    ("embeddings.patch_embeddings.projection", "v.patch_embd"),
    ("patch_conv", "v.patch_embd"),
    ("ln_pre", "v.pre_ln"),
    ("patch_embed.proj", "v.patch_embd"),
    ("patch_embedder.input_proj", "v.patch_embd"),
    // GLM.
    ("post_conv_layernorm", "v.norm_embd"),
    ("downsample", "mm.patch_merger"),
    ("merger.proj", "mm.model.fc"),
    ("merger.post_projection_norm", "mm.post_norm"),
    ("merger.gate_proj", "mm.gate"),
    ("merger.up_proj", "mm.up"),
    ("merger.down_proj", "mm.down"),
    ("pos_embed", "v.position_embd"),
    ("merger.ln_q", "v.post_ln"),
    ("merger.norm", "v.post_ln"),
    ("merger.mlp.0", "mm.0"),
    ("merger.mlp.2", "mm.2"),
    ("merger.linear_fc1", "mm.0"),
    ("merger.linear_fc2", "mm.2"),
    // Kimi.
    ("patch_embed.pos_emb", "v.position_embd"),
    ("encoder.final_layernorm", "v.post_ln"),
    // Llama 4.
    ("patch_embedding", "v.patch_embd"),
    ("layernorm_pre", "v.pre_ln"),
    ("layernorm_post", "v.post_ln"),
];

/// Tensors without a suffix, in a layer and outside.
const ENDLESS: &[(&str, &str)] = &[
    ("lambda_1", "ls1.weight"),
    ("ls1", "ls1.weight"),
    ("ls2", "ls2.weight"),
    ("lambda_2", "ls2.weight"),
    ("embeddings.class_embedding", "v.class_embd"),
    ("embeddings.cls_token", "v.class_embd"),
    ("class_embedding", "v.class_embd"),
    ("positional_embedding_vlm", "v.position_embd.weight"),
    ("embeddings.position_embeddings", "v.position_embd.weight"),
    ("embeddings.position_embedding", "v.position_embd.weight"),
    ("patch_embedder.position_embedding_table", "v.position_embd.weight"),
    ("vision_embedder.pos_embedding", "v.position_embd.weight"),
    ("image_newline", "v.image_newline"),
    ("resampler.query", "resampler.query"),
    ("resampler.proj", "resampler.proj.weight"),
    ("resampler.attn.in_proj_weight", "resampler.attn.qkv.weight"),
    ("resampler.attn.in_proj_bias", "resampler.attn.qkv.bias"),
    ("std_bias", "v.std_bias"),
    ("head.probe", "v.head.probe"),
    ("head.attention.in_proj_weight", "v.head.attn_qkv.weight"),
    ("head.attention.in_proj_bias", "v.head.attn_qkv.bias"),
    ("std_scale", "v.std_scale"),
    ("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"),
];

/// Modules of projectors, by kind of projector if several share a name, and layer modules with another meaning than in
/// `LAYER`.
const PROJECTOR: &[(&str, &str, &str)] = &[
    ("", "connector.modality_projection.proj", "mm.model.fc"),
    ("", "multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm"),
    ("", "embed_vision.embedding_projection", "mm.input_projection"),
    ("", "vision_embedder.patch_dense", "v.patch_embd"),
    ("", "vision_embedder.patch_ln1", "v.patch_norm.1"),
    ("", "vision_embedder.patch_ln2", "v.patch_norm.2"),
    ("", "vision_embedder.pos_norm", "v.patch_norm.3"),
    ("mlp", "multi_modal_projector.linear_1", "mm.0"),
    ("mlp", "multi_modal_projector.linear_2", "mm.2"),
    ("resampler", "resampler.kv_proj", "resampler.kv"),
    ("resampler", "resampler.attn.out_proj", "resampler.attn.out"),
    ("resampler", "resampler.ln_q", "resampler.ln_q"),
    ("resampler", "resampler.ln_kv", "resampler.ln_kv"),
    ("resampler", "resampler.ln_post", "resampler.ln_post"),
    ("clip", "visual_projection", "mm.fc"),
    ("siglip", "head.attention.out_proj", "v.head.attn_out"),
    ("siglip", "head.layernorm", "v.head.ln"),
    ("siglip", "head.mlp.fc1", "v.head.ffn_up"),
    ("siglip", "head.mlp.fc2", "v.head.ffn_down"),
    ("llama4", "post_attention_layernorm", "ln2"),
    ("llama4", "vision_adapter.mlp.fc1", "mm.model.mlp.1"),
    ("llama4", "vision_adapter.mlp.fc2", "mm.model.mlp.2"),
    ("llama4", "multi_modal_projector.linear_1", "mm.model.fc"),
    ("internvl", "multi_modal_projector.layer_norm", "mm.model.mlp.0"),
    ("internvl", "multi_modal_projector.linear_1", "mm.model.mlp.1"),
    ("internvl", "mlp1.0", "mm.model.mlp.0"),
    ("internvl", "mlp1.1", "mm.model.mlp.1"),
    ("internvl", "mlp1.3", "mm.model.mlp.3"),
    ("internvl", "multi_modal_projector.linear_2", "mm.model.mlp.3"),
    ("pixtral", "multi_modal_projector.linear_1", "mm.1"),
    ("pixtral", "multi_modal_projector.linear_2", "mm.2"),
    ("pixtral", "multi_modal_projector.norm", "mm.input_norm"),
    ("pixtral", "multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger"),
    ("lightonocr", "vision_projection.linear_1", "mm.1"),
    ("lightonocr", "vision_projection.linear_2", "mm.2"),
    ("lightonocr", "vision_projection.norm", "mm.input_norm"),
    ("lightonocr", "vision_projection.patch_merger.merging_layer", "mm.patch_merger"),
    ("lfm2", "multi_modal_projector.layer_norm", "mm.input_norm"),
    ("lfm2", "multi_modal_projector.linear_1", "mm.1"),
    ("lfm2", "multi_modal_projector.linear_2", "mm.2"),
    ("paddleocr", "mlp_AR.pre_norm", "mm.input_norm"),
    ("paddleocr", "mlp_AR.linear_1", "mm.1"),
    ("paddleocr", "mlp_AR.linear_2", "mm.2"),
    ("paddleocr", "projector.pre_norm", "mm.input_norm"),
    ("paddleocr", "projector.linear_1", "mm.1"),
    ("paddleocr", "projector.linear_2", "mm.2"),
    ("kimivl", "norm1", "ln2"),
    ("kimivl", "mlp.fc1", "ffn_down"),
    ("kimivl", "multi_modal_projector.pre_norm", "mm.input_norm"),
    ("kimivl", "multi_modal_projector.linear_1", "mm.1"),
    ("kimivl", "multi_modal_projector.linear_2", "mm.2"),
    ("kimik25", "norm1", "ln2"),
    ("kimik25", "mlp.fc1", "ffn_down"),
    ("kimik25", "mm_projector.pre_norm", "mm.input_norm"),
    ("kimik25", "mm_projector.proj.0", "mm.1"),
    ("kimik25", "mm_projector.proj.2", "mm.2"),
    ("dots_ocr", "patch_embed.patchifier.proj", "v.patch_embd"),
    ("dots_ocr", "patch_embed.patchifier.norm", "v.pre_ln"),
    ("dots_ocr", "mlp.fc1", "ffn_gate"),
    ("dots_ocr", "mlp.fc2", "ffn_down"),
    ("dots_ocr", "mlp.fc3", "ffn_up"),
    ("dots_ocr", "post_trunk_norm", "mm.post_norm"),
    ("dots_ocr", "merger.ln_q", "mm.input_norm"),
];

/// Returns the tensors of an encoder and its projector, without the text model's. An untranslated tensor keeps its
/// name, by which the builder rejects it.
pub(super) fn translate(
    path: &Path,
    projector: &str,
    deepstack: &[u64],
    entries: Vec<Entry>,
) -> Result<Vec<TensorInfo>> {
    let mut tensors = try_vec("tensors", entries.len().saturating_add(1))?;
    for mut entry in entries {
        let starts = ["model.", "thinker."];
        let name = starts.iter().find_map(|start| entry.name.strip_prefix(start)).unwrap_or(&entry.name);
        let is_projector = PROJECTORS.iter().any(|start| name.starts_with(start));
        let inner = ENCODERS.iter().find_map(|start| name.strip_prefix(start));
        if inner.is_none() && !is_projector || name.ends_with("embeddings.position_ids") {
            continue;
        }
        let ours = named(inner.unwrap_or(name), projector, deepstack);
        let ours = ours.map_or_else(|| owned(&entry.name), Ok)?;
        // A kernel over two frames, `[out, 3, 2, p, p]`, is two of one frame.
        if let (true, [out, 3, 2, height, width]) = (ours == "v.patch_embd.weight", &entry.dims[..]) {
            let (out, height, width) = (*out, *height, *width);
            entry.dims = vec![out, 6, height, width];
            let both = entry.tensor(path, ours)?;
            for frame in 0..2 {
                tensors.push(frame_of(path, &both, frame)?);
            }
            continue;
        }
        let tensor = entry.tensor(path, ours)?;
        // Gemma stores norm weights minus 1, but not its encoder's.
        tensors.push(match tensor.name == "mm.soft_emb_norm.weight" {
            true => parts::computed(path, tensor, Function::OnePlus)?,
            false => tensor,
        });
    }
    Ok(tensors)
}

/// Returns one frame of a kernel `[out, 3 * 2, p, p]`.
fn frame_of(path: &Path, both: &TensorInfo, frame: u64) -> Result<TensorInfo> {
    let format = quant::format(both.dtype)?;
    let &[out, _, height, width] = both.shape.dims() else {
        return Err(Error::format(path, "a kernel must have four dimensions"));
    };
    let unit = format.block_bytes as u64 * height * width;
    let storage = TensorStorage::Picked(Picked {
        source: Box::new(both.storage.clone()),
        source_bytes: both.bytes,
        unit,
        run: 1,
        stride: 2,
        first: frame,
    });
    let name = if frame == 0 { "v.patch_embd.weight" } else { "v.patch_embd.weight.1" };
    let shape = Shape::new(&[out, 3, height, width])?;
    Ok(TensorInfo { name: name.into(), dtype: both.dtype, shape, bytes: both.bytes / 2, storage })
}

/// Returns the name of a tensor in a GGUF file.
fn named(name: &str, projector: &str, deepstack: &[u64]) -> Option<String> {
    let of_kind =
        |part: &str| PROJECTOR.iter().find(|row| [projector, ""].contains(&row.0) && row.1 == part).map(|row| row.2);
    let look_up = |table: &[(&str, &'static str)], name: &str| table.iter().find(|row| row.0 == name).map(|row| row.1);
    if let Some((layer, part)) = LAYERS.iter().find_map(|start| name.strip_prefix(start)?.split_once('.')) {
        let layer = number(layer)?;
        if let Some(tensor) = look_up(ENDLESS, part) {
            return Some(format!("v.blk.{layer}.{tensor}"));
        }
        let (part, leaf) = parts(part)?;
        return Some(format!("v.blk.{layer}.{}.{leaf}", of_kind(part).or(look_up(LAYER, part))?));
    }
    if let Some(tensor) = look_up(ENDLESS, name) {
        return Some(tensor.to_owned());
    }
    let (part, leaf) = parts(name)?;
    let mergers = ["deepstack_merger_list.", "merger_list."];
    if let Some((merger, part)) = mergers.iter().find_map(|start| part.strip_prefix(start)?.split_once('.')) {
        let layer = deepstack.get(usize::try_from(number(merger)?).ok()?)?;
        let parts = [("norm", "norm"), ("linear_fc1", "fc1"), ("linear_fc2", "fc2")];
        let of_omni = [("ln_q", "norm"), ("mlp.0", "fc1"), ("mlp.2", "fc2")];
        let part = look_up(&parts, part).or(look_up(&of_omni, part))?;
        return Some(format!("v.deepstack.{layer}.{part}.{leaf}"));
    }
    let ours = of_kind(part).or(look_up(TOP, part))?;
    Some(format!("{ours}.{leaf}"))
}

/// Returns the module and the suffix of a name.
fn parts(name: &str) -> Option<(&str, &str)> {
    const ENDINGS: [&str; 6] = ["weight", "bias", "input_min", "input_max", "output_min", "output_max"];
    let (module, leaf) = name.rsplit_once('.').filter(|(_, leaf)| ENDINGS.contains(leaf))?;
    Some((module.strip_suffix(".linear").unwrap_or(module), leaf))
}

/// Decimal without leading zeros, so that names are unique.
fn number(text: &str) -> Option<u64> {
    let n: u64 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}
