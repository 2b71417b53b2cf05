//! The inputs of an audio encoder: spectrograms, and position embeddings.

use super::{EncoderBuilder, tensors_damaged};
use crate::error::{Result, try_vec};
use crate::graph::op::TensorId;
use crate::model::vision::sound::SoundFacts;

impl EncoderBuilder<'_> {
    /// Declares the input of an audio encoder: `width` values per row; the first program has one row per place.
    pub fn audio_input(&mut self, width: usize, facts: SoundFacts) -> TensorId {
        let x = self.b.program.tensor(width);
        self.b.program.input(x);
        (self.patches, self.sound) = (Some(x), Some(facts));
        x
    }

    /// Position embeddings of an audio part: the first `n` of the file, or all; sinusoidal if the file has none.
    pub fn sound_places(&mut self, n: Option<usize>) -> Result<Vec<f32>> {
        const MAX_PLACES: usize = 1 << 16;
        let (name, width) = ("a.position_embd.weight", self.width());
        if let Some(n) = n.filter(|_| !self.b.has(name)) {
            return waves(n, width).ok_or_else(|| self.b.keys.unsupported("embedding_length"))?;
        }
        let rows = self.b.tensors.rows(name)?;
        let n = n.unwrap_or(rows);
        if !(1..=MAX_PLACES).contains(&rows) || rows < n {
            return Err(tensors_damaged(&self.b, format!("it has {rows} vectors of places; it must have {n} or more")));
        }
        let mut table = self.b.tensors.values(name, rows, width)?;
        table.truncate(n * width);
        Ok(table)
    }
}

/// `n` sinusoidal vectors, sines then cosines, with wavelengths up to 10,000 times the shortest; `None` for an odd
/// width.
fn waves(n: usize, width: usize) -> Option<Result<Vec<f32>>> {
    let half = Some(width / 2).filter(|half| *half > 1 && half * 2 == width)?;
    Some(try_vec("places of frames", n * width).map(|mut table| {
        for place in 0..n {
            let angle = |i: usize| place as f64 * libm::exp(-libm::log(10_000.0) / (half - 1) as f64 * i as f64);
            table.extend((0..half).map(|i| libm::sin(angle(i)) as f32));
            table.extend((0..half).map(|i| libm::cos(angle(i)) as f32));
        }
        table
    }))
}
