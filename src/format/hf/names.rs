//! Names of tensors in Hugging Face files, translated to those of GGUF, and what has to be done to their bytes.

use std::borrow::Cow;
use std::path::Path;

use super::family::PLAIN;
use super::parts;
use super::translator::{Family, Translator};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::format::TensorInfo;
use crate::format::contents::owned;
use crate::format::file::InputFile;
use crate::format::passed::Passed;
use crate::format::safetensors::Entry;
use crate::format::storage::TensorStorage;
use crate::quant;
use crate::tensor::Shape;

/// Modules outside of layers; `*` is the number of one among several.
const TOP: &[(&str, &str)] = &[
    ("embed_tokens", "token_embd"),
    ("wte", "token_embd"),
    ("wpe", "position_embd"),
    ("norm", "output_norm"),
    ("ln_f", "output_norm"),
    ("lm_head", "output"),
    ("embed_in", "token_embd"),
    ("tok_embeddings", "token_embd"),
    ("word_embeddings", "token_embd"),
    ("word_embeddings_layernorm", "token_embd_norm"),
    ("final_layernorm", "output_norm"),
    ("final_layer_norm", "output_norm"),
    ("norm_f", "output_norm"),
    ("embedding_norm", "token_embd_norm"),
    ("embed_out", "output"),
    ("output", "output"),
    ("embeddings", "token_embd"),
    ("embed_tokens_per_layer", "per_layer_token_embd"),
    ("per_layer_model_projection", "per_layer_model_proj"),
    ("per_layer_projection_norm", "per_layer_proj_norm"),
    ("altup_projections.*", "altup_proj"),
    ("altup_unembed_projections.*", "altup_unembd_proj"),
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.LayerNorm", "token_embd_norm"),
    ("embeddings.token_embedding", "token_embd"),
    ("embeddings.position_embedding", "position_embd"),
    ("text_projection", "dense_2"),
    ("pooler.dense", "cls"),
    ("shared", "token_embd"),
    ("encoder.final_layer_norm", "enc.output_norm"),
    ("decoder.final_layer_norm", "dec.output_norm"),
    ("classifier", "cls.output"),
];

/// Modules of a layer; `*` is the number of an expert.
const LAYER: &[(&str, &str)] = &[
    ("input_layernorm", "attn_norm"),
    ("ln_1", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("attn.c_attn", "attn_qkv"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("attn.c_proj", "attn_output"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("ln_2", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.c_proj", "ffn_down"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
    ("mlp.gate", "ffn_gate_inp"),
    ("mlp.experts.*.gate_proj", "ffn_gate_exps"),
    ("mlp.experts.*.up_proj", "ffn_up_exps"),
    ("mlp.experts.*.down_proj", "ffn_down_exps"),
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
    ("block_sparse_moe.experts.*.w1", "ffn_gate_exps"),
    ("block_sparse_moe.experts.*.w3", "ffn_up_exps"),
    ("block_sparse_moe.experts.*.w2", "ffn_down_exps"),
    // Norms.
    ("attention_norm", "attn_norm"),
    ("ffn_norm", "ffn_norm"),
    ("operator_norm", "attn_norm"),
    ("ln_mlp", "attn_norm"),
    ("ln_attn", "attn_norm_2"),
    ("norm_1", "attn_norm"),
    ("norm_2", "ffn_norm"),
    ("post_self_attn_layernorm", "post_attention_norm"),
    ("post_mlp_layernorm", "post_ffw_norm"),
    ("self_attn.query_layernorm", "attn_q_norm"),
    ("self_attn.key_layernorm", "attn_k_norm"),
    ("self_attn.q_layernorm", "attn_q_norm"),
    ("self_attn.k_layernorm", "attn_k_norm"),
    ("self_attn.q_layernorm.norms.*", "attn_q_norm"),
    ("self_attn.k_layernorm.norms.*", "attn_k_norm"),
    // Attention.
    ("self_attn.W_pack", "attn_qkv"),
    ("self_attn.dense", "attn_output"),
    ("self_attn.out_proj", "attn_output"),
    ("attention.query_key_value", "attn_qkv"),
    ("attention.dense", "attn_output"),
    ("self_attention.query_key_value", "attn_qkv"),
    ("self_attention.dense", "attn_output"),
    ("attention.wqkv", "attn_qkv"),
    ("attention.wo", "attn_output"),
    ("attn.Wqkv", "attn_qkv"),
    ("attn.out_proj", "attn_output"),
    // Recurrences; `mixer` stands for `linear_attn` and `mamba` as well.
    ("norm", "attn_norm"),
    ("mixer.in_proj", "ssm_in"),
    ("mixer.in_proj_qkvz", "ssm_in"),
    ("mixer.in_proj_ba", "ssm_ba"),
    ("mixer.in_proj_qkv", "attn_qkv"),
    ("mixer.in_proj_z", "attn_gate"),
    ("mixer.in_proj_b", "ssm_beta"),
    ("mixer.in_proj_a", "ssm_alpha"),
    ("mixer.conv1d", "ssm_conv1d"),
    ("mixer.x_proj", "ssm_x"),
    ("mixer.dt_proj", "ssm_dt"),
    ("mixer.norm", "ssm_norm"),
    ("mixer.out_proj", "ssm_out"),
    // Latent attention.
    ("self_attn.q_a_proj", "attn_q_a"),
    ("self_attn.q_a_layernorm", "attn_q_a_norm"),
    ("self_attn.q_b_proj", "attn_q_b"),
    ("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    ("self_attn.kv_a_layernorm", "attn_kv_a_norm"),
    ("self_attn.kv_b_proj", "attn_kv_b"),
    ("self_attn.indexer.wq_b", "indexer.attn_q_b"),
    ("self_attn.indexer.wk", "indexer.attn_k"),
    ("self_attn.indexer.k_norm", "indexer.k_norm"),
    ("self_attn.indexer.weights_proj", "indexer.proj"),
    // Nemotron H, Jamba and Falcon H1.
    ("mixer.q_proj", "attn_q"),
    ("mixer.k_proj", "attn_k"),
    ("mixer.v_proj", "attn_v"),
    ("mixer.o_proj", "attn_output"),
    ("mixer.up_proj", "ffn_up"),
    ("mixer.down_proj", "ffn_down"),
    ("mixer.gate", "ffn_gate_inp"),
    ("mixer.experts.*.up_proj", "ffn_up_exps"),
    ("mixer.experts.*.down_proj", "ffn_down_exps"),
    ("mixer.shared_experts.up_proj", "ffn_up_shexp"),
    ("mixer.shared_experts.down_proj", "ffn_down_shexp"),
    ("mixer.fc1_latent_proj", "ffn_latent_down"),
    ("mixer.fc2_latent_proj", "ffn_latent_up"),
    ("mixer.dt_layernorm", "ssm_dt_norm"),
    ("mixer.b_layernorm", "ssm_b_norm"),
    ("mixer.c_layernorm", "ssm_c_norm"),
    ("pre_ff_layernorm", "ffn_norm"),
    ("feed_forward.experts.*.gate_proj", "ffn_gate_exps"),
    ("feed_forward.experts.*.up_proj", "ffn_up_exps"),
    ("feed_forward.experts.*.down_proj", "ffn_down_exps"),
    // Gemma 3n and 4.
    ("pre_feedforward_layernorm_2", "pre_ffw_norm_2"),
    ("post_feedforward_layernorm_1", "post_ffw_norm_1"),
    ("post_feedforward_layernorm_2", "post_ffw_norm_2"),
    ("router.proj", "ffn_gate_inp"),
    ("per_layer_input_gate", "inp_gate"),
    ("per_layer_projection", "proj"),
    ("post_per_layer_input_norm", "post_norm"),
    ("laurel.linear_left", "laurel_l"),
    ("laurel.linear_right", "laurel_r"),
    ("laurel.post_laurel_norm", "laurel_post_norm"),
    ("altup.modality_router", "altup_router"),
    ("altup.router_norm", "altup_router_norm"),
    ("altup.prediction_coefs", "altup_predict_coef"),
    ("altup.correction_coefs", "altup_correct_coef"),
    // T5, whose decoder has a further block in each layer.
    ("layer.0.layer_norm", "attn_norm"),
    ("layer.0.SelfAttention.q", "attn_q"),
    ("layer.0.SelfAttention.k", "attn_k"),
    ("layer.0.SelfAttention.v", "attn_v"),
    ("layer.0.SelfAttention.o", "attn_o"),
    ("layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"),
    ("cross.layer_norm", "cross_attn_norm"),
    ("cross.EncDecAttention.q", "cross_attn_q"),
    ("cross.EncDecAttention.k", "cross_attn_k"),
    ("cross.EncDecAttention.v", "cross_attn_v"),
    ("cross.EncDecAttention.o", "cross_attn_o"),
    ("cross.EncDecAttention.relative_attention_bias", "cross_attn_rel_b"),
    ("layer.1.layer_norm", "ffn_norm"),
    ("layer.1.DenseReluDense.wi", "ffn_up"),
    ("layer.1.DenseReluDense.wi_0", "ffn_gate"),
    ("layer.1.DenseReluDense.wi_1", "ffn_up"),
    ("layer.1.DenseReluDense.wo", "ffn_down"),
    // Layers that predict further tokens.
    ("eh_proj", "nextn.eh_proj"),
    ("enorm", "nextn.enorm"),
    ("hnorm", "nextn.hnorm"),
    ("embed_tokens", "nextn.embed_tokens"),
    ("shared_head.norm", "nextn.shared_head_norm"),
    ("shared_head.head", "nextn.shared_head_head"),
    // Short convolutions.
    ("conv.in_proj", "shortconv.in_proj"),
    ("conv.conv", "shortconv.conv"),
    ("conv.out_proj", "shortconv.out_proj"),
    // Dense feed-forward blocks.
    ("layer_norm1", "attn_norm"),
    ("layer_norm2", "ffn_norm"),
    ("mlp.fc1", "ffn_up"),
    ("mlp.fc2", "ffn_down"),
    ("mlp.dense_h_to_4h", "ffn_up"),
    ("mlp.dense_4h_to_h", "ffn_down"),
    ("ffn.up_proj", "ffn_up"),
    ("ffn.down_proj", "ffn_down"),
    ("feed_forward.w1", "ffn_gate"),
    ("feed_forward.w3", "ffn_up"),
    ("feed_forward.w2", "ffn_down"),
    ("feed_forward.gate_proj", "ffn_gate"),
    ("feed_forward.up_proj", "ffn_up"),
    ("feed_forward.down_proj", "ffn_down"),
    // Experts.
    ("mlp.router", "ffn_gate_inp"),
    ("mlp.gate.wg", "ffn_gate_inp"),
    ("feed_forward.router", "ffn_gate_inp"),
    ("feed_forward.gate", "ffn_gate_inp"),
    ("feed_forward.experts.*.w1", "ffn_gate_exps"),
    ("feed_forward.experts.*.w3", "ffn_up_exps"),
    ("feed_forward.experts.*.w2", "ffn_down_exps"),
    ("block_sparse_moe.router.layer", "ffn_gate_inp"),
    ("block_sparse_moe.input_linear", "ffn_gate_up_exps"),
    ("block_sparse_moe.output_linear", "ffn_down_exps"),
    ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    ("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
    ("mlp.shared_experts.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_experts.up_proj", "ffn_up_shexp"),
    ("mlp.shared_experts.down_proj", "ffn_down_shexp"),
    ("mlp.shared_mlp.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_mlp.up_proj", "ffn_up_shexp"),
    ("mlp.shared_mlp.down_proj", "ffn_down_shexp"),
    ("feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"),
    ("feed_forward.shared_expert.up_proj", "ffn_up_shexp"),
    ("feed_forward.shared_expert.down_proj", "ffn_down_shexp"),
    // Experts in one tensor, as MLX has them.
    ("mlp.switch_mlp.gate_proj", "ffn_gate_exps"),
    ("mlp.switch_mlp.up_proj", "ffn_up_exps"),
    ("mlp.switch_mlp.down_proj", "ffn_down_exps"),
    ("mlp.experts.gate_proj", "ffn_gate_exps"),
    ("mlp.experts.up_proj", "ffn_up_exps"),
    ("mlp.experts.down_proj", "ffn_down_exps"),
    ("block_sparse_moe.switch_mlp.gate_proj", "ffn_gate_exps"),
    ("block_sparse_moe.switch_mlp.up_proj", "ffn_up_exps"),
    ("block_sparse_moe.switch_mlp.down_proj", "ffn_down_exps"),
    ("feed_forward.switch_mlp.gate_proj", "ffn_gate_exps"),
    ("feed_forward.switch_mlp.up_proj", "ffn_up_exps"),
    ("feed_forward.switch_mlp.down_proj", "ffn_down_exps"),
    ("experts.switch_glu.gate_proj", "ffn_gate_exps"),
    ("experts.switch_glu.up_proj", "ffn_up_exps"),
    ("experts.switch_glu.down_proj", "ffn_down_exps"),
    // A product for keys and values of all heads, taken apart.
    ("self_attn.embed_q", "attn_k_b"),
    ("self_attn.unembed_out", "attn_v_b"),
    ("shared_mlp.input_linear", "ffn_gate_up_shexp"),
    ("shared_mlp.output_linear", "ffn_down_shexp"),
];

/// Tensors of a layer whose names have no ending of their own.
const ENDLESS: &[(&str, &str)] = &[
    ("self_attn.sinks", "attn_sinks.weight"),
    ("mixer.A_log", "ssm_a"),
    ("mixer.D", "ssm_d"),
    ("mixer.dt_bias", "ssm_dt.bias"),
    ("layer_scalar", "layer_output_scale.weight"),
    ("altup.correct_output_scale", "altup_correct_scale.weight"),
    ("router.scale", "ffn_gate_inp.scale"),
    ("router.per_expert_scale", "ffn_down_exps.scale"),
    ("experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    ("experts.down_proj", "ffn_down_exps.weight"),
    ("mlp.gate.e_score_correction_bias", "exp_probs_b.bias"),
    ("mixer.gate.e_score_correction_bias", "exp_probs_b.bias"),
    ("mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"),
    ("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"),
    ("feed_forward.expert_bias", "exp_probs_b.bias"),
    ("mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    ("mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias"),
    ("mlp.experts.down_proj", "ffn_down_exps.weight"),
    ("mlp.experts.down_proj_bias", "ffn_down_exps.bias"),
    ("feed_forward.experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    ("feed_forward.experts.down_proj", "ffn_down_exps.weight"),
];

/// Modules of a network of its own that predicts further tokens, `mtp.`, as the first layer after the trunk names them.
const MTP: &[(&str, &str)] = &[
    ("fc", "eh_proj"),
    ("pre_fc_norm_embedding", "enorm"),
    ("pre_fc_norm_hidden", "hnorm"),
    ("embed_tokens", "embed_tokens"),
    ("norm", "shared_head.norm"),
];

/// The networks around the text model.
const WRAPPERS: &[&str] = &[
    "model.",
    "language_model.",
    // Models that speak too, and MiniCPM-V.
    "thinker.",
    "llm.",
    "text_model.",
    "transformer.",
    "gpt_neox.",
    "bert.",
    "roberta.",
    "backbone.",
    "rwkv.",
    // Training: the base of an adapter, and models of several devices.
    "base_model.",
    "module.",
];

/// Modules of training programs around others, anywhere in a name, and one of Hunyuan 4 that transformers moves.
const WITHIN: &[&str] = &["_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "hc_pre."];

/// Other names of mixers.
const MIXERS: &[&str] = &["linear_attn.", "mamba."];

/// A part of a name, without its wrappers, that tells its meaning.
enum Mark {
    Starts(&'static str),
    Ends(&'static str),
    /// `Ends`, in a quantised folder.
    EndsQuantised(&'static str),
    /// `Starts`, in a model that is no classifier.
    StartsUnclassified(&'static str),
    /// `Starts`, in a model that may have an encoder and a decoder.
    StartsEncoder(&'static str),
    /// `Starts`, in a text tower beside one of pictures.
    StartsTower(&'static str),
}
use Mark::{Ends, EndsQuantised, Starts, StartsEncoder, StartsTower, StartsUnclassified};

/// Tensors without effect on text, and why.
const EFFECTLESS: &[(Mark, &str)] = &[
    (Ends(".rotary_emb.inv_freq"), "computed from the configuration"),
    (Ends(".attn.bias"), "the causal mask of GPT-2"),
    (Ends(".attn.masked_bias"), "the score of what the causal mask hides"),
    (Ends(".attention.bias"), "the causal mask of GPT-NeoX"),
    (Ends(".attention.masked_bias"), "the score of what the causal mask hides"),
    (Ends("embeddings.position_ids"), "the numbers from 0 on"),
    (StartsUnclassified("pooler.dense."), "read by classifiers alone"),
    (Starts("head.dense."), "guesses masked tokens"),
    (Starts("head.norm."), "guesses masked tokens"),
    (Starts("decoder.bias"), "guesses masked tokens"),
    (StartsEncoder("encoder.embed_tokens."), "the shared embedding again"),
    (StartsEncoder("decoder.embed_tokens."), "the shared embedding again"),
    (Starts("vision_tower."), "sees pictures"),
    (Starts("vision_model."), "sees pictures"),
    (Starts("visual_projection."), "sees pictures"),
    (StartsTower("logit_scale"), "the scale of a comparison"),
    (StartsTower("logit_bias"), "the scale of a comparison"),
    (Starts("embed_vision."), "sees pictures"),
    (Starts("vision_embedder."), "sees pictures"),
    (Starts("vision_encoder."), "sees pictures"),
    (Starts("vision_projection."), "sees pictures"),
    (Starts("mlp_AR."), "sees pictures"),
    (Starts("image_newline"), "sees pictures"),
    (Starts("audio_tower."), "hears"),
    (Starts("apm."), "hears"),
    (Starts("audio_projection_layer."), "hears"),
    (Starts("vpm."), "sees pictures"),
    (Starts("resampler."), "sees pictures"),
    (Starts("talker."), "speaks"),
    (Starts("token2wav."), "speaks"),
    (Starts("code2wav."), "speaks"),
    (Starts("tts."), "speaks"),
    (Starts("embed_audio."), "hears"),
    (Starts("visual."), "sees pictures"),
    (Starts("mtp_"), "predicts further tokens"),
    (Starts("mtp."), "predicts further tokens"),
    (Starts("multi_modal_projector."), "sees pictures"),
    (Starts("connector."), "sees pictures"),
    (Starts("patch_merge_mlp."), "sees pictures"),
    (Starts("mm_projector."), "sees pictures"),
    (EndsQuantised(".input_scale"), "how another program rounds activations"),
    (EndsQuantised(".output_scale"), "how another program rounds activations"),
    (EndsQuantised(".k_scale"), "how another program rounds keys"),
    (EndsQuantised(".v_scale"), "how another program rounds values"),
];

enum Meaning {
    Tensor {
        name: String,
        expert: Option<u32>,
    },
    Effectless,
    /// A name that no table has.
    Unknown,
}

/// Name, number of the expert, and where it lies.
type Named = (String, Option<u32>, Entry);

/// The tensors of a folder as a GGUF file would have them. One whose name has no translation keeps its own, by which
/// the builder of the network refuses it.
pub(super) fn translate(
    path: &Path,
    t: &mut Translator,
    files: &[InputFile],
    mut entries: Vec<Entry>,
) -> Result<Vec<TensorInfo>> {
    if t.family.arch == "t5" {
        share_embedding(path, files, &mut entries)?;
    }
    let mut named = try_vec("tensors", entries.len())?;
    let mut unknown = try_vec("tensors", entries.len())?;
    for entry in entries {
        match meaning(&entry.name, t) {
            Meaning::Tensor { name, expert } => match name.strip_prefix("key:") {
                Some(key) => t.set(key, Some(integers(path, files, &entry)?)),
                None => named.push((name, expert, entry)),
            },
            Meaning::Effectless => {}
            Meaning::Unknown => match entry.tensor(path, owned(&entry.name)?) {
                Ok(tensor) => unknown.push(tensor),
                Err(why) => t.passed.get_mut().unknown(why.to_string()),
            },
        }
    }
    named.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    match t.facts.tied {
        Some(true) => tie(path, files, &mut named, t.passed.get_mut())?,
        Some(false) if !named.is_empty() && find(&named, HEAD).is_none() => {
            if !t.facts.embeds {
                return Err(Error::format(path, "lm_head.weight is missing, and tie_word_embeddings is false"));
            }
            t.passed.get_mut().note("there is no lm_head.weight: the model gives embeddings alone");
            t.keys.push(("realizar.headless".into(), true.into()));
        }
        _ => {}
    }
    let t = &*t;
    let mut read = |(name, _, entry): &Named| {
        let tensor = entry.tensor(path, name.clone())?;
        match t.facts.quantised && tensor.dtype == quant::F8_E4M3 {
            true => Err(Error::format(path, format!("the tensor {:?} has no scale", entry.name))),
            false => Ok(tensor),
        }
    };
    let mut tensors = try_vec("tensors", named.len() + unknown.len() + t.made.len())?;
    for group in named.chunk_by(|a, b| a.0 == b.0 && a.1.is_some() && b.1.is_some()) {
        let Some(one @ (_, expert, first)) = group.first() else { continue };
        let mut tensor = read(one)?;
        if expert.is_some() {
            stack(path, &mut tensor, group, &mut read)?;
        } else if parts::is_transposed(path, t, &tensor)? {
            tensor = parts::transposed(path, tensor, first)?;
        }
        parts::push(path, t, tensor, &mut tensors)?;
    }
    tensors.append(&mut unknown);
    tensors.extend(t.made.iter().cloned());
    Ok(tensors)
}

/// Names the one embedding of an encoder and a decoder where a file has it under the name of either alone.
fn share_embedding(path: &Path, files: &[InputFile], entries: &mut [Entry]) -> Result<()> {
    let place = |name: &str| entries.iter().position(|entry| entry.name == name);
    let [shared, encoder, decoder] =
        ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"].map(place);
    if shared.is_some() {
        return Ok(());
    }
    if let [Some(a), Some(b)] = [encoder, decoder].map(|at| at.and_then(|at| entries.get(at)))
        && !same_values(path, files, a, b)?
    {
        return Err(Error::unsupported(format!("{}: {:?} differs from {:?}", path.display(), a.name, b.name)));
    }
    if let Some(one) = encoder.or(decoder).and_then(|at| entries.get_mut(at)) {
        one.name = "shared.weight".to_owned();
    }
    Ok(())
}

const EMBEDDING: &str = "token_embd.weight";
const HEAD: &str = "output.weight";

/// The place of a tensor among those that are sorted by name.
fn find(named: &[Named], name: &str) -> Option<usize> {
    named.binary_search_by(|n| n.0.as_str().cmp(name)).ok()
}

/// One matrix for both ends, as `transformers` ties them: whichever the file has, and one of two that are equal. Two
/// that differ stay two, whatever the configuration says.
fn tie(path: &Path, files: &[InputFile], named: &mut Vec<Named>, passed: &mut Passed) -> Result<()> {
    match (find(named, EMBEDDING), find(named, HEAD)) {
        (Some(embedding), Some(head)) => {
            let ends = [embedding, head].map(|at| named.get(at).map(|(_, _, entry)| entry));
            let [Some(embedding), Some(lm_head)] = ends else { return Ok(()) };
            if same_values(path, files, embedding, lm_head)? {
                named.remove(head);
            } else {
                let what = "differ although the configuration ties them (tie_word_embeddings): both are used";
                passed.note(format!("{} and {} {what}", lm_head.name, embedding.name));
            }
        }
        (None, Some(head)) => {
            // The embedding's name sorts after the head's.
            let mut one = named.remove(head);
            one.0 = EMBEDDING.to_owned();
            named.push(one);
            named.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        }
        _ => {}
    }
    Ok(())
}

/// Compares the bytes of two tensors up to the first difference.
fn same_values(path: &Path, files: &[InputFile], a: &Entry, b: &Entry) -> Result<bool> {
    let is_made = a.made.is_some() || b.made.is_some();
    if is_made || (&a.dtype, &a.dims, a.bytes) != (&b.dtype, &b.dims, b.bytes) {
        return Ok(false);
    }
    let file =
        |entry: &Entry| files.get(entry.place.file).ok_or_else(|| Error::format(path, "a tensor without a file"));
    let (in_a, in_b) = (file(a)?, file(b)?);
    let piece = usize::try_from(a.bytes.min(COMPARED)).unwrap_or(0);
    let (mut of_a, mut of_b) = (try_filled("an embedding", piece, 0u8)?, try_filled("an embedding", piece, 0u8)?);
    let mut at = 0;
    while at < a.bytes {
        let n = usize::try_from((a.bytes - at).min(COMPARED)).unwrap_or(0);
        of_a.truncate(n);
        of_b.truncate(n);
        in_a.read_at(a.place.offset + at, &mut of_a)?;
        in_b.read_at(b.place.offset + at, &mut of_b)?;
        if of_a != of_b {
            return Ok(false);
        }
        at += n as u64;
    }
    Ok(true)
}

/// Bytes that are compared at once.
const COMPARED: u64 = 1 << 20;

/// A short list of integers, which a GGUF file has as a key.
fn integers(path: &Path, files: &[InputFile], entry: &Entry) -> Result<Vec<i64>> {
    let what = || Error::format(path, format!("the tensor {:?} is no short list of integers of 64 bits", entry.name));
    let file = files.get(entry.place.file).filter(|_| entry.dtype == "I64" && entry.bytes <= COMPARED);
    let file = file.ok_or_else(what)?;
    let mut bytes = try_filled("integers", usize::try_from(entry.bytes).map_err(|_| what())?, 0u8)?;
    file.read_at(entry.place.offset, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|integer| i64::from_le_bytes(*integer)).collect())
}

/// Makes one tensor `[experts, ...]` of those in `group`, which are sorted by the number of the expert.
fn stack(
    path: &Path,
    tensor: &mut TensorInfo,
    group: &[Named],
    read: &mut impl FnMut(&Named) -> Result<TensorInfo>,
) -> Result<()> {
    let mut parts: Vec<TensorStorage> = try_vec("experts", group.len())?;
    parts.push(tensor.storage.clone());
    for (one, i) in group.iter().zip(0u32..) {
        let part = if i == 0 { tensor.clone() } else { read(one)? };
        if one.1 != Some(i) || part.shape != tensor.shape || part.dtype != tensor.dtype {
            let what = format!("{}: {:?} does not fit the experts before it", one.0, one.2.name);
            return Err(Error::format(path, what));
        }
        if i > 0 {
            parts.push(part.storage);
        }
    }
    let (n, [rows, cols]) = (parts.len() as u64, [tensor.shape.rows(), tensor.shape.cols()]);
    let too_large = || Error::format(path, format!("{}: the experts are too large", tensor.name));
    let part_bytes = tensor.bytes;
    tensor.bytes = part_bytes.checked_mul(n).ok_or_else(too_large)?;
    tensor.shape = Shape::new(&[n, rows, cols]).map_err(|_| too_large())?;
    tensor.storage = TensorStorage::Stacked { parts, part_bytes };
    Ok(())
}

/// A name without those of the networks around the text model.
fn unwrapped(mut name: &str) -> &str {
    while let Some(inner) = WRAPPERS.iter().find_map(|wrapper| name.strip_prefix(wrapper)) {
        name = inner;
    }
    name
}

/// A name without the modules of training programs within it.
fn without_training(name: &str) -> Cow<'_, str> {
    let mut name = Cow::Borrowed(name);
    for module in WITHIN {
        if name.contains(module) {
            name = Cow::Owned(name.replace(module, ""));
        }
    }
    name
}

/// The tensor of a module's weights, and the number of the expert whose they are.
pub(super) fn weight_of(module: &str) -> Option<(String, Option<u32>)> {
    translated(&format!("{}.weight", unwrapped(module)), &PLAIN)
}

fn meaning(full: &str, t: &Translator) -> Meaning {
    let mut full = without_training(full);
    if t.family.arch == "siglip-text" && full.starts_with("text_model.head.") {
        full = Cow::Owned(full.replacen("head", "text_projection", 1));
    }
    let mut name = unwrapped(&full);
    let behind = name.strip_prefix("mtp.").and_then(|name| behind_trunk(name, t));
    name = behind.as_deref().unwrap_or(name);
    let is_effectless = |(mark, _): &(Mark, _)| match mark {
        Starts(start) => name.starts_with(start),
        Ends(end) => name.ends_with(end),
        EndsQuantised(end) => t.facts.quantised && name.ends_with(end),
        StartsUnclassified(start) => !t.facts.classifies && name.starts_with(start),
        StartsEncoder(start) => t.family.arch == "t5" && name.starts_with(start),
        StartsTower(start) => ["clip-text", "siglip-text"].contains(&t.family.arch) && name.starts_with(start),
    };
    if EFFECTLESS.iter().any(is_effectless) {
        return Meaning::Effectless;
    }
    // Layers after the trunk predict further tokens.
    let layer = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')).and_then(|(layer, _)| number(layer));
    let is_behind = layer.is_some_and(|layer| u64::from(layer) >= t.facts.n_layers);
    let is_first = t.facts.n_predicting > 0 && layer.is_some_and(|layer| u64::from(layer) == t.facts.n_layers);
    if is_behind && t.facts.predicts && t.facts.n_predicting == 0 {
        return Meaning::Effectless;
    }
    match translated(name, t.family) {
        Some((name, expert)) => Meaning::Tensor { name, expert },
        // It matters to those alone who ask for that layer.
        None if is_first => Meaning::Tensor { name: name.replacen("layers", "blk", 1), expert: None },
        None if is_behind && t.facts.n_predicting > 0 => Meaning::Effectless,
        None => Meaning::Unknown,
    }
}

/// The name of a tensor of the network that predicts further tokens as one of a layer after the trunk.
fn behind_trunk(name: &str, t: &Translator) -> Option<String> {
    let first = t.facts.n_layers;
    if t.facts.n_predicting == 0 {
        return None;
    }
    if let Some((layer, rest)) = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')) {
        return Some(format!("layers.{}.{rest}", first.checked_add(number(layer)?.into())?));
    }
    let (module, leaf) = name.rsplit_once('.').unwrap_or((name, ""));
    let ours = MTP.iter().find(|(theirs, _)| *theirs == module).map_or(module, |(_, ours)| *ours);
    Some(format!("layers.{first}.{ours}.{leaf}"))
}

fn translated(name: &str, family: &Family) -> Option<(String, Option<u32>)> {
    let look_up = |table: &[(&str, &'static str)], name: &str| table.iter().find(|row| row.0 == name).map(|row| row.1);
    let own = |name: &str| family.names.iter().find_map(|table| look_up(table, name));
    let layers = ["layers.", "h.", "blocks.", "encoder.layer.", "encoder.layers."].map(|prefix| (prefix, "blk"));
    let layers = layers.iter().chain(&[("encoder.block.", "enc.blk"), ("decoder.block.", "dec.blk")]);
    let (prefix, rest) = match layers.copied().find_map(|(theirs, ours)| Some((name.strip_prefix(theirs)?, ours))) {
        Some((rest, ours)) => {
            let (layer, part) = rest.split_once('.')?;
            (format!("{ours}.{}.", number(layer)?), part)
        }
        None => (String::new(), name),
    };
    let mixer = MIXERS.iter().find_map(|mixer| rest.strip_prefix(mixer)).map(|rest| format!("mixer.{rest}"));
    let rest = mixer.as_deref().unwrap_or(rest);
    // The second block of a layer of T5's decoder is the one that its encoder lacks.
    let is_decoder = prefix.starts_with("dec.");
    let decoder = is_decoder.then(|| rest.replacen("layer.1.", "cross.", 1).replacen("layer.2.", "layer.1.", 1));
    let rest = decoder.as_deref().unwrap_or(rest);
    let within = |ours: &str| ours.strip_prefix('/').map_or_else(|| format!("{prefix}{ours}"), str::to_owned);
    if let Some(tensor) = own(rest).or(look_up(ENDLESS, rest).filter(|_| !prefix.is_empty())) {
        return Some((within(tensor), None));
    }
    let (part, leaf) = rest.rsplit_once('.')?;
    let leaf = match leaf {
        "weight" | "bias" => leaf,
        // The first checkpoints of BERT.
        "gamma" if part.ends_with("LayerNorm") => "weight",
        "beta" if part.ends_with("LayerNorm") => "bias",
        // The factor on a product, as `quantised` names it.
        "outer_scale" => "scale",
        _ => return None,
    };
    if prefix.is_empty() {
        let one = part.rsplit_once('.').and_then(|(of, member)| Some((format!("{of}.*"), number(member)?)));
        let (part, member) = one.map_or((Cow::Borrowed(part), None), |(of, member)| (Cow::Owned(of), Some(member)));
        return Some((format!("{}.{leaf}", own(&part).or_else(|| look_up(TOP, &part))?), member));
    }
    if part == "post_attention_layernorm" {
        let norm = if family.post_norms { "post_attention_norm" } else { "ffn_norm" };
        return Some((format!("{prefix}{norm}.{leaf}"), None));
    }
    let module = |part: &str| own(part).or_else(|| look_up(LAYER, part)).map(within);
    if let Some(part) = module(part) {
        return Some((format!("{part}.{leaf}"), None));
    }
    let (part, member) =
        match [".experts.", ".norms.", ".shard_"].iter().find_map(|of| Some((of, part.split_once(of)?))) {
            Some((of, (around, member))) => {
                let (member, rest) = member.split_at(member.find('.').unwrap_or(member.len()));
                (format!("{around}{of}*{rest}"), Some(number(member)?))
            }
            None => (part.to_owned(), None),
        };
    Some((format!("{}.{leaf}", module(&part)?), member))
}

/// Decimal without leading zeros, so that two names never mean the same.
fn number(text: &str) -> Option<u32> {
    let n: u32 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}
