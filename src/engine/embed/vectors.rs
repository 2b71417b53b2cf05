//! Pooling of hidden states into vectors, the dense layers after it, and normalization. Sums run over the tokens of a
//! text in order, in f64.

use crate::cpu::nan::all_finite;
use crate::engine::model::Model;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::model::pooling::{Dense, DenseActivation, EmbeddingHead, Pooling};

/// The vectors of a call; the last one may be incomplete.
pub struct Vectors<'a> {
    model: &'a Model,
    head: &'a EmbeddingHead,
    pooling: Pooling,
    raw: bool,
    pub values: Vec<f32>,
    /// `[hidden]`, the pooled tokens so far.
    pooled: Vec<f64>,
    n_tokens: usize,
    /// Number of finished texts.
    n_texts: usize,
    /// Index of the text's first token with a NaN or infinite hidden state.
    nan_at: Option<usize>,
}

impl<'a> Vectors<'a> {
    /// Creates an empty list with capacity for `len` values.
    pub fn new(
        model: &'a Model,
        head: &'a EmbeddingHead,
        pooling: Pooling,
        raw: bool,
        len: usize,
    ) -> Result<Vectors<'a>> {
        let pooled = try_filled("an embedding", head.hidden, 0.0)?;
        let (values, n_tokens, n_texts, nan_at) = (try_vec("embeddings", len)?, 0, 0, None);
        Ok(Vectors { model, head, pooling, raw, values, pooled, n_tokens, n_texts, nan_at })
    }

    /// Returns the pooling to apply. For ranking, this is the pooling that the classifier needs.
    fn way(&self) -> Pooling {
        match (self.pooling, &self.head.ranker) {
            (Pooling::Rank, Some(ranker)) => ranker.pooling,
            (pooling, _) => pooling,
        }
    }

    /// Returns the dense layers before pooling, and the dense layers after pooling.
    fn layers(&self) -> (&'a [Dense], &'a [Dense]) {
        match (self.pooling, &self.head.ranker) {
            (Pooling::Rank, Some(ranker)) => ranker.layers.split_at(ranker.ahead),
            _ => (&[], &self.head.dense),
        }
    }

    /// Adds the hidden states of more tokens of a text.
    pub fn add(&mut self, rows: &[f32]) -> Result<()> {
        let (way, ahead) = (self.way(), self.layers().0);
        for row in rows.chunks_exact(self.head.hidden) {
            let is_first = self.n_tokens == 0;
            self.n_tokens += 1;
            if way == Pooling::Cls && !is_first {
                continue;
            }
            if !all_finite(row) {
                self.nan_at.get_or_insert(self.n_tokens - 1);
            }
            let mut x = try_vec("an embedding", row.len())?;
            x.extend(row.iter().copied().map(f64::from));
            for layer in ahead {
                x = apply(layer, &x)?;
            }
            for (pooled, x) in self.pooled.iter_mut().zip(x) {
                let before = if way == Pooling::Mean && !is_first { *pooled } else { 0.0 };
                *pooled = before + x;
            }
            if way == Pooling::None {
                push(&mut self.values, &self.pooled, !self.raw);
                self.check(self.pooled.len())?;
            }
        }
        Ok(())
    }

    pub fn finish(&mut self) -> Result<()> {
        let n_tokens = std::mem::take(&mut self.n_tokens) as f64;
        if self.pooling == Pooling::None {
            self.n_texts += 1;
            return Ok(());
        }
        if self.way() == Pooling::Mean {
            self.pooled.iter_mut().for_each(|x| *x /= n_tokens);
        }
        let mut x = try_vec("an embedding", self.head.hidden)?;
        x.extend_from_slice(&self.pooled);
        for layer in self.layers().1 {
            x = apply(layer, &x)?;
        }
        if self.pooling == Pooling::Rank && self.head.ranker.as_ref().is_some_and(|ranker| ranker.softmax) {
            let peak = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            x.iter_mut().for_each(|x| *x = libm::exp(*x - peak));
            let sum: f64 = x.iter().sum();
            x.iter_mut().for_each(|x| *x /= sum);
        }
        push(&mut self.values, &x, !self.raw && self.pooling != Pooling::Rank);
        self.check(x.len())?;
        self.n_texts += 1;
        self.nan_at = None;
        Ok(())
    }

    /// Fails if the last vector, of `n` values, is not finite.
    fn check(&self, n: usize) -> Result<()> {
        if all_finite(&self.values[self.values.len() - n..]) {
            return Ok(());
        }
        let from = self.nan_at.map_or(String::new(), |token| format!(", from its token {token} on"));
        let what = format!("the embedding of text {} is NaN or infinite{from}", self.n_texts);
        Err(Error::format(self.model.metadata().path(), what))
    }
}

/// Appends a vector, normalized if requested and nonzero.
fn push(values: &mut Vec<f32>, x: &[f64], normalize: bool) {
    let by = if normalize { length(x.iter().copied()) } else { 1.0 };
    values.extend(x.iter().map(|x| (x / by) as f32));
}

/// Normalizes a vector to length 1, unless its length is 0.
pub fn normalize(x: &mut [f32]) {
    let by = length(x.iter().map(|x| f64::from(*x)));
    x.iter_mut().for_each(|x| *x = (f64::from(*x) / by) as f32);
}

/// Returns the length of a vector; 1 instead of 0.
fn length(x: impl Iterator<Item = f64>) -> f64 {
    match x.map(|x| x * x).sum::<f64>().sqrt() {
        length if length > 0.0 => length,
        _ => 1.0,
    }
}

fn apply(layer: &Dense, x: &[f64]) -> Result<Vec<f64>> {
    let mut y = try_vec("an embedding", layer.rows)?;
    y.extend(
        layer.weight.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>()),
    );
    if let Some(bias) = &layer.bias {
        y.iter_mut().zip(bias).for_each(|(y, b)| *y += f64::from(*b));
    }
    match layer.activation {
        None => {}
        Some(DenseActivation::Tanh) => y.iter_mut().for_each(|y| *y = libm::tanh(*y)),
        Some(DenseActivation::Relu) => y.iter_mut().filter(|y| **y <= 0.0).for_each(|y| *y = 0.0),
        Some(DenseActivation::GeluErf) => {
            y.iter_mut().for_each(|y| *y *= 0.5 * (1.0 + erf(*y * std::f64::consts::FRAC_1_SQRT_2)));
        }
    }
    if let Some((weight, eps)) = &layer.norm {
        let mean = y.iter().sum::<f64>() / y.len() as f64;
        let variance = y.iter().map(|y| (y - mean) * (y - mean)).sum::<f64>() / y.len() as f64;
        let by = 1.0 / (variance + f64::from(*eps)).sqrt();
        y.iter_mut().zip(weight).for_each(|(y, w)| *y = (*y - mean) * by * f64::from(*w));
    }
    Ok(y)
}

/// Returns the error function, by a series with only positive terms.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-x * x) * sum
}

#[cfg(test)]
mod tests {
    use super::erf;

    #[test]
    fn the_error_function() {
        for (x, y) in [
            (0.0, 0.0),
            (0.5, 0.520_499_877_813_046_5),
            (-1.5, -0.966_105_146_475_310_7),
            (3.0, 0.999_977_909_503_001_4),
            (7.0, 1.0),
        ] {
            assert!((erf(x) - y).abs() < 1e-14, "{x}");
        }
    }
}
