//! RoPE of queries and keys.

use crate::cpu::kernels::{Isa, elementwise};
use crate::cpu::memory::Floats;
use crate::error::Result;
use crate::graph::weights::{Rope, RopePairs};

/// Sines and cosines of a rotary table for the positions of a step, computed on first use.
pub struct Angles {
    /// `[max_tokens, width]`
    cos: Floats,
    sin: Floats,
    width: usize,
    made: bool,
}

impl Angles {
    pub fn new(rope: &Rope, max_tokens: usize) -> Result<Angles> {
        let width = match rope.pairs {
            RopePairs::Halves => rope.inv_freq.len(),
            RopePairs::Adjacent => 2 * rope.inv_freq.len(),
        };
        let table = || Floats::new("rotary tables", max_tokens, width);
        Ok(Angles { cos: table()?, sin: table()?, width, made: false })
    }

    /// Clears the positions.
    pub fn clear(&mut self) {
        self.made = false;
    }

    /// Computes the angles of the positions, or of the M-RoPE positions if any, unless already computed. The table must
    /// have at least one frequency.
    pub fn compute(&mut self, rope: &Rope, positions: &[u32], rope_positions: &[[u32; 3]]) {
        if self.made {
            return;
        }
        self.made = true;
        let tokens = self.cos.chunks_exact_mut(self.width).zip(self.sin.chunks_exact_mut(self.width));
        for (t, ((cos, sin), &position)) in tokens.zip(positions).enumerate() {
            let rotary = rope_positions.get(t).copied().unwrap_or([position; 3]);
            for (i, &inv_freq) in rope.inv_freq.iter().enumerate() {
                let axis = rope.axes.get(i).map_or(0, |axis| usize::from(*axis));
                let (s, c) = libm::sincos(f64::from(rotary[axis].saturating_sub(rope.position_offset)) * inv_freq);
                let (s, c) = ((s * f64::from(rope.magnitude)) as f32, (c * f64::from(rope.magnitude)) as f32);
                match rope.pairs {
                    RopePairs::Halves => (cos[i], sin[i]) = (c, s),
                    RopePairs::Adjacent => {
                        cos[2 * i..2 * i + 2].copy_from_slice(&[c, c]);
                        sin[2 * i..2 * i + 2].copy_from_slice(&[-s, s]);
                    }
                }
            }
        }
    }

    /// Rotates a head of token `t` from element `first` on.
    pub fn rotate(&self, isa: Isa, pairs: RopePairs, t: usize, first: usize, head: &mut [f32]) {
        let row = t * self.width..(t + 1) * self.width;
        let (cos, sin) = (&self.cos[row.clone()], &self.sin[row]);
        match pairs {
            RopePairs::Halves => elementwise::rope_halves(isa, &mut head[first..], cos, sin),
            RopePairs::Adjacent => elementwise::rope_adjacent(isa, &mut head[first..], cos, sin),
        }
    }
}
