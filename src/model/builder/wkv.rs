//! RWKV blocks: token shift, the recurrence, and channel mixing.

use super::Builder;
use crate::error::{Error, Result};
use crate::graph::op::{Activation, Conv, Norm, NormKind, Op, TensorId, Vector, Wkv};
use crate::graph::program::{MAX_KEY_DIM, STATE_ALIGN};

/// The heads of a recurrence.
#[derive(Clone, Copy)]
pub struct Heads {
    pub n: usize,
    pub dim: usize,
}

impl Builder<'_> {
    /// Returns the heads of width `wkv.head_size`. Files do not declare their number; declared ranks are ignored,
    /// because tensors determine them.
    pub fn wkv_heads(&self) -> Result<Heads> {
        ["attention.", "rope.", "time_mix_extra_dim", "time_decay_extra_dim"].iter().for_each(|p| self.keys.ignore(p));
        let dim = self.width("wkv.head_size")?;
        match dim <= MAX_KEY_DIM && dim.is_multiple_of(STATE_ALIGN) && self.hyper.hidden.is_multiple_of(dim) {
            true => Ok(Heads { n: self.hyper.hidden / dim, dim }),
            false => Err(self.keys.unsupported("wkv.head_size")),
        }
    }

    /// Returns the values of a tensor of any shape.
    pub fn all_values(&mut self, part: &str, len: usize) -> Result<Vec<f32>> {
        let name = self.name(part);
        let rows = self.tensors.rows(&name)?.max(1);
        let cols = if len.is_multiple_of(rows) { len / rows } else { len };
        self.tensors.values(&name, rows, cols)
    }

    /// `before * (previous token's x) + now * x`, per channel.
    fn over_two(&mut self, x: TensorId, before: &[f32], now: impl Fn(f32) -> f32) -> TensorId {
        let width = self.program.width(x);
        let kernel = self.vector(before.iter().copied().chain(before.iter().map(|c| now(*c))).collect());
        let recurrent = self.program.recurrent(width);
        let x = self.copy(x, width);
        self.program.push(Op::Conv(Conv { recurrent, x, kernel, bias: None, taps: 2, silu: false }));
        x
    }

    /// Token shift: the previous token's `x` minus `x`; 0 before the first token.
    pub fn shift(&mut self, x: TensorId) -> TensorId {
        let ones = vec![1.0; self.program.width(x)];
        self.over_two(x, &ones, |_| -1.0)
    }

    /// `x + shares * shift(x)`.
    pub fn lerp(&mut self, x: TensorId, shares: &[f32]) -> TensorId {
        self.over_two(x, shares, |c| 1.0 - c)
    }

    /// `lerp` by a tensor.
    pub fn lerp_by(&mut self, x: TensorId, part: &str) -> Result<TensorId> {
        let shares = self.all_values(part, self.program.width(x))?;
        Ok(self.lerp(x, &shares))
    }

    /// Returns the fractions of `shift(x)` in all inputs, from one tensor or from one each.
    pub fn shares_of_shift(&mut self, parts: &[&str]) -> Result<Vec<f32>> {
        let (fused, hidden) = ("time_mix_lerp_fused.weight", self.hyper.hidden);
        if self.has(fused) {
            return self.all_values(fused, parts.len() * hidden);
        }
        let each = parts.iter().map(|part| self.all_values(&format!("time_mix_lerp_{part}.weight"), hidden));
        Ok(each.collect::<Result<Vec<_>>>()?.concat())
    }

    /// `second activation(first x)`, with a bias of the second product if any.
    pub fn low_rank(
        &mut self,
        x: TensorId,
        [first, second]: [&str; 2],
        activation: Activation,
        bias: Option<&str>,
    ) -> Result<TensorId> {
        let narrow = self.project_all(x, first)?;
        if activation != Activation::Identity {
            self.activate(narrow, activation);
        }
        let [mut product] = self.split(narrow, second, [self.hyper.hidden])?;
        if let Some(part) = bias {
            let values = self.all_values(part, self.hyper.hidden)?.into_iter().map(|b| b / product.1).collect();
            product.0.bias = Some(self.vector(values));
        }
        let [out] = self.push_projections(narrow, [product]);
        Ok(out)
    }

    /// Products of consecutive parts of `x` with consecutive parts of a matrix, each with its biases.
    pub fn products_of_parts<const N: usize>(
        &mut self,
        x: TensorId,
        part: &str,
        biases: &[f32],
    ) -> Result<[TensorId; N]> {
        let (each, hidden) = (self.program.width(x) / N, self.hyper.hidden);
        let mut outs = [x; N];
        for ((i, out), bias) in outs.iter_mut().enumerate().zip(biases.chunks(hidden)) {
            let narrow = self.slice(x, i * each, each);
            let (mut product, factor) = self.part(part, N * hidden, i * hidden..(i + 1) * hidden, narrow)?;
            product.bias = Some(self.vector(bias.iter().map(|b| b / factor).collect()));
            [*out] = self.push_projections(narrow, [(product, factor)]);
        }
        Ok(outs)
    }

    /// The recurrence; `rest` sets uncommon fields of `Wkv`.
    pub fn wkv(
        &mut self,
        [r, k, v, dt]: [TensorId; 4],
        heads: Heads,
        rest: impl FnOnce(Wkv) -> Wkv,
    ) -> Result<TensorId> {
        let keys = self.program.width(k) / heads.dim;
        if keys == 0 || !heads.n.is_multiple_of(keys) || self.program.width(k) != keys * heads.dim {
            return Err(Error::unsupported(format!(
                "{keys} heads of keys are not supported for {} of {}",
                heads.n, heads.dim
            )));
        }
        let (dim, moved, rate) = (heads.dim, None, None);
        let recurrent = self.program.recurrent(self.hyper.hidden * dim);
        let out = self.program.tensor(self.hyper.hidden);
        let op = Wkv { recurrent, r, k, v, dt, rate, moved, out, dim, before: false, fades: false };
        self.program.push(Op::Wkv(rest(op)));
        Ok(out)
    }

    /// `(r . (u k)) v`, per head.
    pub fn by_agreement(&mut self, [r, k, v]: [TensorId; 3], u: Vector, heads: Heads) -> TensorId {
        let x = self.copy(r, self.hyper.hidden);
        self.program.push(Op::ScaleColumns { x, by: u });
        let out = self.program.tensor(heads.n);
        self.program.push(Op::Dot { x, y: k, out });
        let v = self.copy(v, self.hyper.hidden);
        self.program.push(Op::Gate { x: v, gate: out, sigmoid: false });
        v
    }

    /// LayerNorm per head, with RWKV's constant epsilon.
    pub fn norm_of_heads(&mut self, x: TensorId, part: &str, heads: Heads) -> Result<()> {
        let mut values = |ending: &str| self.all_values(&format!("{part}.{ending}"), self.hyper.hidden);
        let [weight, bias] = [values("weight")?, values("bias")?].map(|values| Some(self.vector(values)));
        let norm = Norm { kind: NormKind::Layer, weight, bias, eps: 64e-5, group: heads.dim };
        self.program.push(Op::Norm { norm, x, out: x });
        Ok(())
    }

    /// `channel_mix_value max(channel_mix_key (x + shares * shift(x)), 0)^2`, gated in RWKV 6.
    pub fn channel_mix(&mut self, x: TensorId) -> Result<TensorId> {
        let k = self.lerp_by(x, "channel_mix_lerp_k.weight")?;
        let k = self.project_all(k, "channel_mix_key")?;
        self.activate(k, Activation::Relu2);
        let out = self.project(k, "channel_mix_value", self.hyper.hidden)?;
        if self.has("channel_mix_receptance.weight") {
            let r = self.lerp_by(x, "channel_mix_lerp_r.weight")?;
            let gate = self.project(r, "channel_mix_receptance", self.hyper.hidden)?;
            self.gate_by_sigmoid(out, gate);
        }
        Ok(out)
    }
}
