//! Helpers for recurrent layers: parts of fused projections, convolutions, Mamba blocks, and per-layer properties of
//! hybrid networks. They extend `builder` and follow its rules.

use super::builder::Builder;
use super::hyper::HeadShape;
use super::tensors::RowRuns;
use crate::error::{Error, Result};
use crate::graph::op::{Activation, Conv, DeltaRule, Norm, NormKind, Op, Projection, Scan, TensorId, Vector, Xielu};
use crate::graph::program::{MAX_KEY_DIM, MAX_TAPS, STATE_ALIGN};

/// Bound of a file's widths, far above any real network.
const MAX_WIDTH: usize = 1 << 20;

/// A matrix product that is not emitted yet, and its scale.
pub type Product = (Projection, f32);

/// The sizes of a Mamba block.
#[derive(Clone, Copy)]
pub struct MambaShape {
    /// Inner width of the block.
    pub inner: usize,
    /// State size per channel.
    pub state: usize,
    /// Number of heads (Mamba 2), or rank of the step projection (Mamba 1).
    pub rank: usize,
    pub groups: usize,
    pub taps: usize,
    /// Scales of the five parts of Mamba 2's input projection.
    pub factors: [f32; 5],
}

/// The inputs of a delta rule, named as in `DeltaRule`.
pub struct DeltaInputs {
    pub q: TensorId,
    pub k: TensorId,
    pub v: TensorId,
    /// Steps before their activation, `of_steps`.
    pub dt: TensorId,
    pub of_steps: Activation,
    pub beta: TensorId,
    pub rate: Vector,
    pub key_dim: usize,
    pub tiled: bool,
    /// Epsilon of the norms of queries and keys; `None`: the default of the file format.
    pub eps: Option<f32>,
}

/// The inputs of a scan, named as in `Scan`.
struct ScanInputs {
    x: TensorId,
    dt: TensorId,
    b: TensorId,
    c: TensorId,
    rate: Vector,
    skip: Vector,
    state: usize,
}

impl Builder<'_> {
    /// Treats tensors with these names, in any layer, as absent, because the network does not use them.
    pub fn leave_out(&mut self, parts: &'static [&'static str]) {
        self.tensors.leave_out(parts);
    }

    /// `ignore` for a dense feed-forward block next to experts.
    pub fn ignore_dense_ffn(&mut self) {
        ["gate", "up", "down"].into_iter().for_each(|part| self.ignore(&format!("ffn_{part}.weight")));
    }

    /// Returns a width that the file must declare.
    pub fn width(&self, key: &str) -> Result<usize> {
        match self.keys.require_size(key)? {
            n if n <= MAX_WIDTH => Ok(n),
            _ => Err(self.keys.unsupported(key)),
        }
    }

    /// Returns one number per layer, 0 if not set.
    pub fn per_layer(&self, key: &str) -> Result<Vec<usize>> {
        let n = self.hyper.n_layers;
        Ok(self.keys.per_layer_sizes(key, n)?.unwrap_or_else(|| vec![0; n]))
    }

    /// Returns the heads of each layer; `None` for layers without attention, which have 0 KV heads.
    pub fn heads_per_layer(&self) -> Result<Vec<Option<HeadShape>>> {
        let (n_heads, n_kv_heads) =
            (self.per_layer("attention.head_count")?, self.per_layer("attention.head_count_kv")?);
        // Converters write the list that follows from the heads.
        let key = "attention.recurrent_layers";
        let recurrent = self.per_layer(key)?;
        let differs = recurrent.iter().zip(&n_kv_heads).any(|(layer, heads)| (*layer > 0) != (*heads == 0));
        if self.keys.get(key).is_some() && differs {
            return Err(self.keys.unsupported(key));
        }
        let heads = |(n_heads, n_kv_heads): (usize, usize)| match n_kv_heads {
            0 => Ok(None),
            _ if n_heads > 0 && n_heads.is_multiple_of(n_kv_heads) => {
                Ok(Some(HeadShape { n_heads, n_kv_heads, ..self.hyper.heads }))
            }
            _ => Err(self.keys.unsupported("attention.head_count_kv")),
        };
        n_heads.into_iter().zip(n_kv_heads).map(heads).collect()
    }

    /// True for recurrent layers: as listed in the file, otherwise all but the last of each interval. The file's
    /// interval overrides `interval`.
    pub fn recurrent_layers(&self, interval: usize) -> Result<Vec<bool>> {
        let (key, n) = ("attention.recurrent_layers", self.hyper.n_layers);
        let interval = self.keys.size("full_attention_interval")?.unwrap_or(interval);
        match self.keys.get(key) {
            Some(_) => Ok(self.per_layer(key)?.into_iter().map(|layer| layer > 0).collect()),
            None => Ok((0..n).map(|i| !(i + 1).is_multiple_of(interval)).collect()),
        }
    }

    /// Returns the `ssm.*` keys of a Mamba block.
    pub fn mamba_shape(&self) -> Result<MambaShape> {
        let [inner, state, rank] =
            [self.width("ssm.inner_size")?, self.width("ssm.state_size")?, self.width("ssm.time_step_rank")?];
        let groups = self.keys.size("ssm.group_count")?.unwrap_or(1);
        let shape = MambaShape { inner, state, rank, groups, taps: self.taps("ssm.conv_kernel")?, factors: [1.0; 5] };
        match inner.is_multiple_of(groups.max(1) * STATE_ALIGN) && state.saturating_mul(groups) <= MAX_WIDTH {
            true => Ok(shape),
            false => Err(self.keys.unsupported("ssm.inner_size")),
        }
    }

    /// Returns the number of taps of a convolution.
    pub fn taps(&self, key: &str) -> Result<usize> {
        match self.keys.require_size(key)? {
            taps if (2..=MAX_TAPS).contains(&taps) => Ok(taps),
            _ => Err(self.keys.unsupported(key)),
        }
    }

    // ---- elementwise

    /// `x *= sigmoid(gate)`
    pub fn gate_by_sigmoid(&mut self, x: TensorId, gate: TensorId) {
        self.program.push(Op::Gate { x, gate, sigmoid: true });
    }

    /// `x * activation(gate)`, each value of which scales several values of `x`.
    pub fn gate_by(&mut self, x: TensorId, gate: TensorId, activation: Activation) -> TensorId {
        if self.program.width(x) == self.program.width(gate) {
            return self.gate(gate, x, activation);
        }
        self.activate(gate, activation);
        self.program.push(Op::Gate { x, gate, sigmoid: false });
        x
    }

    /// `x = max(x - mean(x) - deviations * deviation(x), 0)`
    pub fn threshold(&mut self, x: TensorId, deviations: f32) {
        self.program.push(Op::Threshold { x, deviations });
    }

    /// `x = curve(x)`
    pub fn bend(&mut self, x: TensorId, curve: Xielu) {
        self.program.push(Op::Xielu { x, curve });
    }

    /// `gate = activation(gate) * x`
    pub fn gate(&mut self, gate: TensorId, x: TensorId, activation: Activation) -> TensorId {
        self.program.push(Op::Glu { gate, up: Some(x), activation });
        gate
    }

    /// `x = activation(x)`
    pub fn activate(&mut self, x: TensorId, activation: Activation) {
        self.program.push(Op::Glu { gate: x, up: None, activation });
    }

    /// `scale * x / sqrt(sum(x^2) + eps)` per `group` values, as an RMS norm with the mean replaced by the sum.
    pub fn l2_norm(&mut self, x: TensorId, group: usize, scale: f32, eps: f32) {
        let n = group as f32;
        let weight = Some(self.vector(vec![scale / n.sqrt(); group]));
        let norm = Norm { kind: NormKind::Rms, weight, bias: None, eps: eps / n, group };
        self.program.push(Op::Norm { norm, x, out: x });
    }

    /// `x *= by`, a vector of the file, each value of which scales several columns.
    pub fn scale_parts(&mut self, x: TensorId, part: &str, parts: usize) -> Result<()> {
        let values = self.tensors.vector(&self.name(part), parts)?;
        let each = self.program.width(x) / parts;
        let by = self.vector(values.into_iter().flat_map(|value| std::iter::repeat_n(value, each)).collect());
        self.program.push(Op::ScaleColumns { x, by });
        Ok(())
    }

    /// The first `width` columns of `x`.
    pub fn copy(&mut self, x: TensorId, width: usize) -> TensorId {
        let out = self.program.tensor(width);
        self.program.push(Op::Slice { x, first: 0, out });
        out
    }

    /// `x = values`
    pub fn fill(&mut self, x: TensorId, values: Vec<f32>) {
        let group = values.len();
        let (weight, bias) = (Some(self.vector(vec![0.0; group])), Some(self.vector(values)));
        let norm = Norm { kind: NormKind::Rms, weight, bias, eps: 1.0, group };
        self.program.push(Op::Norm { norm, x, out: x });
    }

    // ---- projections

    /// Products with consecutive rows of a tensor, not yet emitted.
    pub fn split<const N: usize>(&mut self, x: TensorId, part: &str, widths: [usize; N]) -> Result<[Product; N]> {
        self.split_heads(x, part, 1, widths)
    }

    /// Products with interleaved rows: for each head its parts, by their widths.
    pub fn split_heads<const N: usize>(
        &mut self,
        x: TensorId,
        part: &str,
        heads: usize,
        widths: [usize; N],
    ) -> Result<[Product; N]> {
        let stride: usize = widths.iter().sum();
        let (mut first, mut products) = (0, [const { None }; N]);
        for (product, run) in products.iter_mut().zip(widths) {
            *product = Some(self.part(part, heads * stride, RowRuns { first, run, stride, count: heads }, x)?);
            first += run;
        }
        Ok(products.map(|product| product.expect("each was set")))
    }

    /// A product with all rows of a tensor.
    pub fn project_all(&mut self, x: TensorId, part: &str) -> Result<TensorId> {
        let rows = self.tensors.rows(&self.name(&format!("{part}.weight")))?;
        self.project(x, part, rows)
    }

    /// `x += y` within a branch.
    pub fn join(&mut self, x: TensorId, y: TensorId) {
        self.program.push(Op::Add { x, delta: y, scale: 1.0 });
    }

    /// Returns a product with a bias of another name.
    pub fn with_bias(&mut self, product: Product, part: &str) -> Result<Product> {
        let (projection, factor) = product;
        let mut bias = self.tensors.vector(&self.name(part), self.program.width(projection.out))?;
        // The scale follows as a separate op.
        bias.iter_mut().for_each(|b| *b /= factor);
        Ok((Projection { bias: Some(self.vector(bias)), ..projection }, factor))
    }

    // ---- recurrences

    /// Returns a small vector of the file.
    pub fn numbers(&mut self, part: &str, len: usize) -> Result<Vector> {
        let name = self.name(part);
        let values = self.tensors.vector(&name, len)?;
        Ok(self.vector(values))
    }

    /// Convolves activations whose channels are consecutive in one tensor, with the file's bias if any.
    pub fn conv<const N: usize>(&mut self, xs: [TensorId; N], part: &str, taps: usize, silu: bool) -> Result<()> {
        self.dilated_conv(xs, part, taps, 1, silu)
    }

    /// Like `conv`, dilated.
    pub fn dilated_conv<const N: usize>(
        &mut self,
        xs: [TensorId; N],
        part: &str,
        taps: usize,
        dilation: usize,
        silu: bool,
    ) -> Result<()> {
        let widths = xs.map(|x| self.program.width(x));
        let all = widths.iter().sum();
        let kernel = self.tensors.values(&self.name(&format!("{part}.weight")), all, taps)?;
        let bias = self.tensors.vector_if_present(&self.name(&format!("{part}.bias")), all)?;
        let mut first = 0;
        for (x, width) in xs.into_iter().zip(widths) {
            let channels = first..first + width;
            first += width;
            // Tap by tap, so that channels are contiguous.
            let all = (taps - 1) * dilation + 1;
            let by_tap = (0..all).flat_map(|j| channels.clone().map(move |c| (c, j)));
            let at = |(c, j): (usize, usize)| if j % dilation == 0 { kernel[c * taps + j / dilation] } else { 0.0 };
            let kernel = self.vector(by_tap.map(at).collect());
            let bias = bias.as_ref().map(|bias| bias[channels.clone()].to_vec()).map(|bias| self.vector(bias));
            let recurrent = self.program.recurrent((all - 1) * width);
            self.program.push(Op::Conv(Conv { recurrent, x, kernel, bias, taps: all, silu }));
        }
        Ok(())
    }

    /// The gated delta rule, with L2 norms of queries and keys per head.
    pub fn delta_rule(&mut self, inputs: DeltaInputs) -> Result<TensorId> {
        let DeltaInputs { q, k, v, dt, of_steps, beta, rate, key_dim, tiled, eps } = inputs;
        if key_dim > MAX_KEY_DIM {
            return Err(Error::unsupported(format!("a delta rule with keys of {key_dim}, {MAX_KEY_DIM} are the most")));
        }
        // In GGUF files the epsilon of the norms applies, in checkpoints a constant.
        let eps = eps.unwrap_or(if self.is_folder() { 1e-6 } else { self.rms_eps });
        self.l2_norm(q, key_dim, 1.0 / (key_dim as f32).sqrt(), eps);
        self.l2_norm(k, key_dim, 1.0, eps);
        self.activate(dt, of_steps);
        let width = self.program.width(v);
        let recurrent = self.program.recurrent(width * key_dim);
        let out = self.program.tensor(width);
        self.program.push(Op::DeltaRule(DeltaRule { recurrent, q, k, v, dt, beta, out, rate, key_dim, tiled }));
        Ok(out)
    }

    /// Lightning attention: `S = exp(rate) S + k v^T; out = S^T q`, per head.
    pub fn lightning_attention(&mut self, [q, k, v]: [TensorId; 3], rates: Vec<f32>) -> Result<TensorId> {
        let heads = rates.len();
        let state = self.program.width(k) / heads.max(1);
        if heads == 0 || heads > self.program.width(v) || !state.is_multiple_of(STATE_ALIGN) {
            return Err(Error::unsupported(format!(
                "lightning attention of {heads} heads of {state} is not supported"
            )));
        }
        // It is Mamba 2's scan with steps of 1.
        let ones = self.copy(v, heads);
        self.fill(ones, vec![1.0; heads]);
        let rate = self.vector(rates);
        let skip = self.vector(vec![0.0; heads]);
        Ok(self.scan(ScanInputs { x: v, dt: ones, b: k, c: q, rate, skip, state }))
    }

    fn scan(&mut self, inputs: ScanInputs) -> TensorId {
        let ScanInputs { x, dt, b, c, rate, skip, state } = inputs;
        let width = self.program.width(x);
        let recurrent = self.program.recurrent(width * state);
        let out = self.program.tensor(width);
        self.program.push(Op::Scan(Scan { recurrent, x, dt, b, c, out, rate, skip, state }));
        out
    }

    /// The Mamba 2 block; with `norm` its norm must be present.
    pub fn mamba2(&mut self, h: TensorId, shape: MambaShape, norm: bool) -> Result<TensorId> {
        let MambaShape { inner, state, rank: heads, groups, taps, factors } = shape;
        if !inner.is_multiple_of(heads) || !heads.is_multiple_of(groups) {
            return Err(self.keys.unsupported("ssm.time_step_rank"));
        }
        let grouped = groups * state;
        let mut parts = self.split(h, "ssm_in", [inner, inner, grouped, grouped, heads])?;
        parts.iter_mut().zip(factors).for_each(|(part, factor)| part.1 *= factor);
        let [z, x, b, c, dt] = parts;
        let dt = self.with_bias(dt, "ssm_dt.bias")?;
        let [z, x, b, c, dt] = self.push_projections(h, [z, x, b, c, dt]);
        self.conv([x, b, c], "ssm_conv1d", taps, true)?;
        self.activate(dt, Activation::Softplus);
        let y = self.scan_heads(x, dt, [b, c], state)?;
        let y = self.gate(z, y, Activation::Silu);
        if norm || self.has("ssm_norm.weight") {
            self.rms_norm_groups(y, "ssm_norm", inner / groups)?;
        }
        self.project(y, "ssm_out", self.hyper.hidden)
    }

    /// The scan with a rate per head.
    pub fn scan_heads(&mut self, x: TensorId, dt: TensorId, [b, c]: [TensorId; 2], state: usize) -> Result<TensorId> {
        let heads = self.program.width(dt);
        let (rate, skip) = (self.numbers("ssm_a", heads)?, self.numbers("ssm_d", heads)?);
        Ok(self.scan(ScanInputs { x, dt, b, c, rate, skip, state }))
    }

    /// The Mamba 1 block. `plain_norms`: epsilon of unweighted norms of steps and both matrices.
    pub fn mamba1(&mut self, h: TensorId, shape: MambaShape, plain_norms: Option<f32>) -> Result<TensorId> {
        let MambaShape { inner, state, rank, taps, .. } = shape;
        let parts = self.split(h, "ssm_in", [inner, inner])?;
        let [x, z] = self.push_projections(h, parts);
        self.conv([x], "ssm_conv1d", taps, true)?;
        let parts = self.split(x, "ssm_x", [rank, state, state])?;
        let [dt, b, c] = self.push_projections(x, parts);
        for (x, part, width) in [(dt, "ssm_dt_norm", rank), (b, "ssm_b_norm", state), (c, "ssm_c_norm", state)] {
            if let Some(eps) = plain_norms {
                let norm = Norm { kind: NormKind::Rms, weight: None, bias: None, eps, group: width };
                self.program.push(Op::Norm { norm, x, out: x });
            } else if self.has(part) || self.has(&format!("{part}.weight")) {
                self.rms_norm_groups(x, part, width)?;
            }
        }
        let dt = self.project(dt, "ssm_dt", inner)?;
        self.activate(dt, Activation::Softplus);
        // The file has rates by channel and state, the op needs them by state and channel.
        let rates = self.tensors.values(&self.name("ssm_a"), inner, state)?;
        let rates =
            (0..state).flat_map(|n| (0..inner).map(move |i| (i, n))).map(|(i, n)| rates[i * state + n]).collect();
        let (rate, skip) = (self.vector(rates), self.numbers("ssm_d", inner)?);
        let y = self.scan(ScanInputs { x, dt, b, c, rate, skip, state });
        let y = self.gate(z, y, Activation::Silu);
        self.project(y, "ssm_out", self.hyper.hidden)
    }
}
