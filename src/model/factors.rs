//! Scales and bounds of activations. Extends `builder` and follows its rules.

use super::builder::Builder;
use crate::error::Result;
use crate::graph::op::{Norm, NormKind, Op, TensorId};

impl Builder<'_> {
    /// Returns a soft-cap; 0 means none in a folder, absent in a GGUF file.
    pub fn softcap(&self, key: &str, default: f32) -> Result<f32> {
        let declared = self.keys.float(key)?;
        let off = self.is_folder() && self.keys.is_present(key);
        Ok(declared.unwrap_or(if off { 0.0 } else { default }))
    }

    /// `x *= 1 + slope * ln(floor((position + offset) / length) + 1)`, unless the slope is 0.
    pub fn scale_by_position(&mut self, x: TensorId, slope: f32, length: usize, offset: u32) {
        if slope != 0.0 {
            self.program.push(Op::ScaleByPosition { x, slope, length: length as u32, offset });
        }
    }

    /// `x = min(max(x, -limit), limit)`
    pub fn clamp(&mut self, x: TensorId, limit: f32) {
        self.program.push(Op::Clamp { x, low: -limit, high: limit });
    }

    /// `x += factor * delta` for the one value of a tensor.
    pub fn add_by_factor(&mut self, x: TensorId, delta: TensorId, part: &str) -> Result<()> {
        let name = self.weight_name(part);
        let factor = self.tensors.vector(&name, 1)?[0];
        self.add_scaled(x, delta, factor);
        Ok(())
    }

    /// In-place RMS norm per head, times a tensor's value for the head.
    pub fn rms_norm_heads_by_factor(&mut self, x: TensorId, part: &str, head_dim: usize) -> Result<()> {
        let name = self.weight_name(part);
        let factors = self.tensors.vector(&name, self.program.width(x) / head_dim)?;
        let weight = factors.into_iter().flat_map(|factor| vec![factor; head_dim]).collect();
        let (kind, weight) = (NormKind::Rms, Some(self.vector(weight)));
        let norm = Norm { kind, weight, bias: None, eps: self.rms_eps, group: head_dim };
        self.program.push(Op::Norm { norm, x, out: x });
        Ok(())
    }

    /// In-place RMS norm of the whole row, with an epsilon that files do not declare.
    pub fn rms_norm_with_eps(&mut self, x: TensorId, part: &str, eps: f32) -> Result<()> {
        let group = self.program.width(x);
        let norm = Norm { eps, ..self.norm(NormKind::Rms, part, 1, group)? };
        self.program.push(Op::Norm { norm, x, out: x });
        Ok(())
    }
}
