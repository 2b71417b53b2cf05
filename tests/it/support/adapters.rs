//! Low-rank adapters with random factors, and the weights of the reference with them merged in.

use super::reference::Weights;
use super::tiny::Rng;

/// The factors of one tensor.
#[derive(Clone)]
pub struct Factors {
    /// The tensor of the model's file.
    pub name: String,
    /// Weights of the reference that its rows are, and their numbers of rows.
    pub parts: Vec<(String, usize)>,
    pub cols: usize,
    pub rank: usize,
    /// `[rank, cols]` and `[rows, rank]`
    pub a: Vec<f32>,
    pub b: Vec<f32>,
}

impl Factors {
    /// Factors whose product is about as large as half of the weights.
    pub fn new(name: &str, parts: &[(String, usize)], cols: usize, rank: usize, rng: &mut Rng) -> Factors {
        let rows: usize = parts.iter().map(|part| part.1).sum();
        let mut values = |n: usize, deviation: f64| -> Vec<f32> {
            (0..n).map(|_| half::f16::from_f64(rng.normal() * deviation).to_f32()).collect()
        };
        let (a, b) = (values(rank * cols, 1.0 / (cols as f64).sqrt()), values(rows * rank, 0.3 / (rank as f64).sqrt()));
        Factors { name: name.to_owned(), parts: parts.to_vec(), cols, rank, a, b }
    }
}

/// Adds `scale * B A` of each to the weights of a reference.
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
