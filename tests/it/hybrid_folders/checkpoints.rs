//! The tensors of GGUF files in the form of checkpoints: other names, other orders, other numbers.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::safetensors;

/// A tensor's name, dimensions and values.
pub type Tensor = (String, Vec<u64>, Vec<f32>);

/// A network: the tensors of its GGUF file, what its folder says and how it names them, and the logits.
pub struct Case {
    pub name: &'static str,
    pub tensors: Vec<Tensor>,
    pub config: Value,
    pub prefix: &'static str,
    /// Ours, with an ending or without, and theirs.
    pub names: &'static [(&'static str, &'static str)],
    pub expected: Vec<Vec<f64>>,
}

pub const COMMON: &[(&str, &str)] = &[
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
    ("attn_norm", "input_layernorm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("ffn_gate_inp", "mlp.gate"),
    ("exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    ("ffn_gate_exps", "mlp.experts.*.gate_proj"),
    ("ffn_up_exps", "mlp.experts.*.up_proj"),
    ("ffn_down_exps", "mlp.experts.*.down_proj"),
    ("ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_experts.up_proj"),
    ("ffn_down_shexp", "mlp.shared_experts.down_proj"),
    ("nextn.eh_proj", "eh_proj"),
    ("nextn.enorm", "enorm"),
    ("nextn.hnorm", "hnorm"),
    ("nextn.shared_head_norm", "shared_head.norm"),
];

pub const QWEN: &[(&str, &str)] = &[
    ("attn_qkv", "linear_attn.in_proj_qkv"),
    ("attn_gate", "linear_attn.in_proj_z"),
    ("ssm_in", "linear_attn.in_proj_qkvz"),
    ("ssm_ba", "linear_attn.in_proj_ba"),
    ("ssm_beta", "linear_attn.in_proj_b"),
    ("ssm_alpha", "linear_attn.in_proj_a"),
    ("ssm_conv1d", "linear_attn.conv1d"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("ssm_a", "linear_attn.A_log"),
    ("ssm_norm", "linear_attn.norm"),
    ("ssm_out", "linear_attn.out_proj"),
    ("ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    ("ffn_up_shexp", "mlp.shared_expert.up_proj"),
    ("ffn_down_shexp", "mlp.shared_expert.down_proj"),
    ("ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
];

/// The block of Mamba where it is the only one of a layer.
pub const MAMBA: &[(&str, &str)] = &[
    ("token_embd", "backbone.embeddings"),
    ("output_norm", "backbone.norm_f"),
    ("attn_norm", "norm"),
    ("ssm_in", "mixer.in_proj"),
    ("ssm_conv1d", "mixer.conv1d"),
    ("ssm_x", "mixer.x_proj"),
    ("ssm_dt", "mixer.dt_proj"),
    ("ssm_a", "mixer.A_log"),
    ("ssm_d", "mixer.D"),
    ("ssm_norm", "mixer.norm"),
    ("ssm_out", "mixer.out_proj"),
];

pub const MAMBA2: &[(&str, &str)] = &[
    ("token_embd", "backbone.embeddings"),
    ("output_norm", "backbone.norm_f"),
    ("attn_norm", "norm"),
    ("ssm_in", "mixer.in_proj"),
    ("ssm_conv1d", "mixer.conv1d"),
    ("ssm_dt.bias", "mixer.dt_bias"),
    ("ssm_a", "mixer.A_log"),
    ("ssm_d", "mixer.D"),
    ("ssm_norm", "mixer.norm"),
    ("ssm_out", "mixer.out_proj"),
    ("attn_q", "mixer.q_proj"),
    ("attn_k", "mixer.k_proj"),
    ("attn_v", "mixer.v_proj"),
    ("attn_output", "mixer.o_proj"),
    ("ffn_up", "mixer.up_proj"),
    ("ffn_down", "mixer.down_proj"),
    ("ffn_gate_inp", "mixer.gate"),
    ("exp_probs_b.bias", "mixer.gate.e_score_correction_bias"),
    ("ffn_up_exps", "mixer.experts.*.up_proj"),
    ("ffn_down_exps", "mixer.experts.*.down_proj"),
    ("ffn_up_shexp", "mixer.shared_experts.up_proj"),
    ("ffn_down_shexp", "mixer.shared_experts.down_proj"),
];

/// The block of Mamba beside other blocks.
pub const HYBRID: &[(&str, &str)] = &[
    ("ssm_in", "mamba.in_proj"),
    ("ssm_conv1d", "mamba.conv1d"),
    ("ssm_x", "mamba.x_proj"),
    ("ssm_dt.weight", "mamba.dt_proj.weight"),
    ("ssm_a", "mamba.A_log"),
    ("ssm_d", "mamba.D"),
    ("ssm_norm", "mamba.norm"),
    ("ssm_out", "mamba.out_proj"),
    ("ssm_dt_norm", "mamba.dt_layernorm"),
    ("ssm_b_norm", "mamba.b_layernorm"),
    ("ssm_c_norm", "mamba.c_layernorm"),
];

pub const GRANITE: &[(&str, &str)] = &[
    ("ssm_dt.bias", "mamba.dt_bias"),
    ("ffn_gate_up", "shared_mlp.input_linear"),
    ("ffn_down", "shared_mlp.output_linear"),
];

pub const FALCON: &[(&str, &str)] = &[
    ("ssm_dt.bias", "mamba.dt_bias"),
    ("output_norm", "model.final_layernorm"),
    ("ffn_norm", "pre_ff_layernorm"),
    ("ffn_gate", "feed_forward.gate_proj"),
    ("ffn_up", "feed_forward.up_proj"),
    ("ffn_down", "feed_forward.down_proj"),
];

pub const JAMBA: &[(&str, &str)] = &[
    ("ssm_dt.bias", "mamba.dt_proj.bias"),
    ("output_norm", "model.final_layernorm"),
    ("ffn_norm", "pre_ff_layernorm"),
    ("ffn_gate", "feed_forward.gate_proj"),
    ("ffn_up", "feed_forward.up_proj"),
    ("ffn_down", "feed_forward.down_proj"),
    ("ffn_gate_inp", "feed_forward.router"),
    ("ffn_gate_exps", "feed_forward.experts.*.gate_proj"),
    ("ffn_up_exps", "feed_forward.experts.*.up_proj"),
    ("ffn_down_exps", "feed_forward.experts.*.down_proj"),
];

pub const DEEPSEEK: &[(&str, &str)] = &[
    ("attn_q_a", "self_attn.q_a_proj"),
    ("attn_q_a_norm", "self_attn.q_a_layernorm"),
    ("attn_q_b", "self_attn.q_b_proj"),
    ("attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
    ("attn_kv_a_norm", "self_attn.kv_a_layernorm"),
    ("attn_kv_b", "self_attn.kv_b_proj"),
];

pub const GEMMA: &[(&str, &str)] = &[
    ("per_layer_token_embd", "model.embed_tokens_per_layer"),
    ("per_layer_model_proj", "model.per_layer_model_projection"),
    ("per_layer_proj_norm", "model.per_layer_projection_norm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
    ("post_ffw_norm_1", "post_feedforward_layernorm_1"),
    ("pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
    ("post_ffw_norm_2", "post_feedforward_layernorm_2"),
    ("inp_gate", "per_layer_input_gate"),
    ("proj", "per_layer_projection"),
    ("post_norm", "post_per_layer_input_norm"),
    ("layer_output_scale.weight", "layer_scalar"),
    ("ffn_gate_inp", "router.proj"),
    ("ffn_gate_inp.scale", "router.scale"),
    ("ffn_gate_up_exps.weight", "experts.gate_up_proj"),
    ("ffn_down_exps.weight", "experts.down_proj"),
];

/// Those of all layers that have the part, taken out.
pub fn take(tensors: &mut Vec<Tensor>, part: &str) -> Vec<Tensor> {
    tensors
        .extract_if(.., |t| t.0.strip_prefix("blk.").is_some_and(|rest| rest.split_once('.').unwrap().1 == part))
        .collect()
}

/// Puts tensors together, layer by layer: `[a, b, ...] -> c`.
pub fn join(tensors: &mut Vec<Tensor>, parts: &[&str], to: &str, f: impl Fn(&[&Tensor]) -> (Vec<u64>, Vec<f32>)) {
    let all: Vec<Vec<Tensor>> = parts.iter().map(|part| take(tensors, part)).collect();
    for i in 0..all[0].len() {
        let (dims, values) = f(&all.iter().map(|part| &part[i]).collect::<Vec<_>>());
        tensors.push((all[0][i].0.replace(parts[0], to), dims, values));
    }
}

pub fn change(tensors: &mut [Tensor], ending: &str, f: impl Fn(&[u64], Vec<f32>) -> (Vec<u64>, Vec<f32>)) {
    for (name, dims, values) in tensors.iter_mut().filter(|t| t.0.ends_with(ending)) {
        let _ = name;
        (*dims, *values) = f(dims, std::mem::take(values));
    }
}

/// The differences that all blocks of Mamba have, and delta nets.
pub fn undo_recurrence(tensors: &mut [Tensor]) {
    let flat = |dims: &[u64], values| (vec![dims.iter().product()], values);
    change(tensors, ".ssm_a", |dims, values| {
        let dims = if dims.last() == Some(&1) { vec![dims[0]] } else { dims.to_vec() };
        (dims, values.iter().map(|a| (-a).ln()).collect())
    });
    change(tensors, ".ssm_d", flat);
    change(tensors, ".ssm_norm.weight", flat);
    change(tensors, ".ssm_conv1d.weight", |dims, values| (vec![dims[0], 1, dims[1]], values));
}

/// Units of value heads in turn put so that those of a key head stand together.
pub fn grouped(values: &[f32], key_heads: usize, heads: usize) -> Vec<f32> {
    let (unit, each) = (values.len() / heads, heads / key_heads);
    (0..heads).flat_map(|j| &values[(j % each * key_heads + j / each) * unit..][..unit]).copied().collect()
}

pub fn undo_qwen(tensors: &mut Vec<Tensor>, [key_heads, heads, dim]: [usize; 3], packed: bool) {
    let keys = 2 * key_heads * dim;
    let tail = |values: Vec<f32>, n: usize| [&values[..n], &grouped(&values[n..], key_heads, heads)].concat();
    for part in [".attn_gate.weight", ".ssm_beta.weight", ".ssm_alpha.weight", ".ssm_dt.bias", ".ssm_a"] {
        change(tensors, part, |dims, values| (dims.to_vec(), tail(values, 0)));
    }
    change(tensors, ".attn_qkv.weight", |d, values| (d.to_vec(), tail(values, keys * d[1] as usize)));
    change(tensors, ".ssm_conv1d.weight", |d, values| (d.to_vec(), tail(values, keys * d[1] as usize)));
    change(tensors, ".ssm_out.weight", |d, values| {
        (d.to_vec(), values.chunks(d[1] as usize).flat_map(|row| grouped(row, key_heads, heads)).collect())
    });
    for (name, _, values) in tensors.iter_mut() {
        if name.contains("norm") && !name.contains("ssm_norm") {
            values.iter_mut().for_each(|v| *v -= 1.0);
        }
    }
    if packed {
        let heads_of = |t: &Tensor, first: usize, n: usize, head: usize| {
            let cols = t.1[1] as usize;
            t.2[(first + head * n) * cols..][..n * cols].to_vec()
        };
        let each = heads / key_heads;
        join(tensors, &["attn_qkv.weight", "attn_gate.weight"], "ssm_in.weight", |t| {
            let (qkv, z) = (t[0], t[1]);
            let of = |k| {
                let values = heads_of(qkv, keys, each * dim, k);
                [heads_of(qkv, 0, dim, k), heads_of(qkv, keys / 2, dim, k), values, heads_of(z, 0, each * dim, k)]
                    .concat()
            };
            (vec![qkv.1[0] + z.1[0], qkv.1[1]], (0..key_heads).flat_map(of).collect())
        });
        join(tensors, &["ssm_beta.weight", "ssm_alpha.weight"], "ssm_ba.weight", |t| {
            let of = |k| [heads_of(t[0], 0, each, k), heads_of(t[1], 0, each, k)].concat();
            (vec![2 * t[0].1[0], t[0].1[1]], (0..key_heads).flat_map(of).collect())
        });
    }
}

/// Both products of latent attention: the rows of each head for keys, then for values.
pub fn undo_latent(tensors: &mut Vec<Tensor>) {
    join(tensors, &["attn_k_b.weight", "attn_v_b.weight"], "attn_kv_b.weight", |t| {
        let ([heads, rank, still], values) = (t[0].1[..].try_into().unwrap(), t[1].1[1]);
        let (rank, still): (usize, usize) = (rank as usize, still as usize);
        let of = |head: usize| {
            let of_keys = &t[0].2[head * rank * still..][..rank * still];
            let columns = (0..still).flat_map(|c| of_keys.iter().skip(c).step_by(still).copied());
            let of_values = &t[1].2[head * rank * values as usize..][..rank * values as usize];
            columns.chain(of_values.iter().copied()).collect::<Vec<f32>>()
        };
        (vec![heads * (still as u64 + values), rank as u64], (0..heads as usize).flat_map(of).collect())
    });
}

pub fn rows_after_rows(t: &[&Tensor]) -> (Vec<u64>, Vec<f32>) {
    (vec![t[0].1[0] + t[1].1[0], t[0].1[1]], [&t[0].2[..], &t[1].2].concat())
}

/// Gates and ups of each expert after one another.
pub fn experts_together(t: &[&Tensor]) -> (Vec<u64>, Vec<f32>) {
    let n = t[0].2.len() / t[0].1[0] as usize;
    let both = t[0].2.chunks(n).zip(t[1].2.chunks(n)).flat_map(|(gate, up)| [gate, up].concat());
    (vec![t[0].1[0], 2 * t[0].1[1], t[0].1[2]], both.collect())
}

/// The tensors under the names of a checkpoint; experts that are named one by one are.
pub fn renamed(case: &Case) -> Vec<Tensor> {
    let mut out = vec![];
    for (name, dims, values) in &case.tensors {
        let (layer, rest) = match name.strip_prefix("blk.") {
            Some(rest) => rest.split_once('.').map(|(layer, rest)| (format!("{}{layer}.", case.prefix), rest)).unwrap(),
            None => (String::new(), &name[..]),
        };
        let find = |ours: &str| case.names.iter().chain(COMMON).find(|row| row.0 == ours).map(|row| row.1.to_owned());
        let by_part = || rest.rsplit_once('.').and_then(|(part, leaf)| Some(format!("{}.{leaf}", find(part)?)));
        let theirs = find(rest).or_else(by_part).unwrap_or_else(|| panic!("{}: {name}", case.name));
        if theirs.contains('*') {
            for (e, one) in values.chunks(values.len() / dims[0] as usize).enumerate() {
                out.push((format!("{layer}{}", theirs.replace('*', &e.to_string())), dims[1..].to_vec(), one.to_vec()));
            }
        } else {
            out.push((format!("{layer}{theirs}"), dims.clone(), values.clone()));
        }
    }
    out
}

pub fn put_folder(folder: &Path, config: &Value, tensors: &[Tensor]) {
    let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let tensors: Vec<safetensors::Tensor> =
        tensors.iter().map(|(name, dims, values)| (name.as_str(), "F32", &dims[..], bytes(values))).collect();
    put(folder, config, &tensors);
}

pub fn put(folder: &Path, config: &Value, tensors: &[safetensors::Tensor]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string().replace("\"INFINITY\"", "Infinity")).unwrap();
    fs::write(folder.join("model.safetensors"), safetensors::file(tensors)).unwrap();
}
