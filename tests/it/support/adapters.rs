//! LoRA adapters with random factors, and the reference's weights with the adapters merged in.

use super::reference::Weights;
use super::tiny::{Rng, Tiny};

/// The factors of one tensor.
#[derive(Clone)]
pub struct Factors {
    /// The tensor in the model's file.
    pub name: String,
    /// The reference's weights in the tensor's rows, with their numbers of rows.
    pub parts: Vec<(String, usize)>,
    pub cols: usize,
    pub rank: usize,
    /// `[rank, cols]` and `[rows, rank]`
    pub a: Vec<f32>,
    pub b: Vec<f32>,
}

impl Factors {
    /// Creates factors whose product is about half as large as the weights.
    pub fn new(name: &str, parts: &[(String, usize)], cols: usize, rank: usize, rng: &mut Rng) -> Factors {
        let rows: usize = parts.iter().map(|part| part.1).sum();
        let mut values = |n: usize, deviation: f64| -> Vec<f32> {
            (0..n).map(|_| half::f16::from_f64(rng.normal() * deviation).to_f32()).collect()
        };
        let (a, b) = (values(rank * cols, 1.0 / (cols as f64).sqrt()), values(rows * rank, 0.3 / (rank as f64).sqrt()));
        Factors { name: name.to_owned(), parts: parts.to_vec(), cols, rank, a, b }
    }
}

/// Adds `scale * B A` of each factor pair to the weights of a reference.
pub fn merge(weights: &mut Weights, adapter: &[Factors], scale: f64) {
    for factors in adapter {
        let mut row = 0;
        for (name, rows) in &factors.parts {
            if name == "output.weight" && !weights.contains_key(name) {
                weights.insert(name.clone(), weights["token_embd.weight"].clone());
            }
            let values = weights.get_mut(name).unwrap_or_else(|| panic!("no {name}"));
            for (i, value) in values.iter_mut().enumerate() {
                let (b, column) = (&factors.b[(row + i / factors.cols) * factors.rank..], i % factors.cols);
                let product = |k: usize| f64::from(b[k]) * f64::from(factors.a[k * factors.cols + column]);
                *value += scale * (0..factors.rank).map(product).sum::<f64>();
            }
            row += rows;
        }
    }
}

/// Parts of the names of tensors that are not plain matrices.
const NO_PLACE: &[&str] =
    &["token_embd", "position_embd", "_exps.", "conv", "attn_k_b.", "attn_v_b.", "ssm_a", "norm", "ssm_d.", "_ssm"];

/// Creates factors for every matrix of a network in a file, including the output head.
pub fn all_factors(tiny: &Tiny, rank: usize, seed: u64) -> Vec<Factors> {
    let (file, net, weights) = tiny.file();
    let rng = &mut Rng(seed);
    let mut list = Vec::new();
    for tensor in &file.tensors {
        let (name, &[rows, cols]) = (&tensor.name, &tensor.dims[..]) else { continue };
        let (rows, cols) = (rows as usize, cols as usize);
        if name == "output.weight" || !name.ends_with(".weight") || NO_PLACE.iter().any(|part| name.contains(part)) {
            continue;
        }
        let fused = |from: &str, parts: &[&str]| -> Vec<(String, usize)> {
            let names = parts.iter().map(|part| name.replace(from, part));
            names.map(|name| (name.clone(), weights[&name].len() / cols)).collect()
        };
        let parts = match weights.get(name) {
            None => fused("attn_qkv", &["attn_q", "attn_k", "attn_v"]),
            Some(values) if values.len() < rows * cols => fused("ffn_up", &["ffn_gate", "ffn_up"]),
            Some(_) => vec![(name.clone(), rows)],
        };
        list.push(Factors::new(name, &parts, cols, rank, rng));
    }
    list.push(Factors::new("output.weight", &[("output.weight".into(), net.vocab)], net.hidden, rank, rng));
    list
}
