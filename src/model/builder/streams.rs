//! Several residual streams, concatenated, `[n, streams * hidden]`. AltUp (arXiv 2301.13310): the blocks of a layer
//! compute the first stream; the others are predicted and corrected. Hyper-connections (arXiv 2409.19606): a block
//! reads a weighted sum of all streams and adds a weighted result to each.

use super::Builder;
use crate::error::{Error, Result};
use crate::graph::op::{Activation, Mix, Norm, NormKind, Op, TensorId};
use crate::graph::program::MAX_STREAMS;

/// Parameters of hyper-connections.
#[derive(Clone, Copy)]
pub struct Connections {
    /// Number of streams.
    n: usize,
    eps: f32,
    /// Maximum weight of a result.
    magnitude: f32,
    /// Rounds of Sinkhorn normalization of the matrix between streams; 0: no matrix, and `eps` is added to the weights
    /// of results.
    rounds: u32,
}

impl Builder<'_> {
    /// Returns `streams` streams: `x`, and its projections rescaled to the magnitude of `x`.
    pub fn streams(&mut self, x: TensorId, streams: usize) -> Result<TensorId> {
        let hidden = self.hyper.hidden;
        let others = self.project(x, "altup_proj", (streams - 1) * hidden)?;
        self.program.push(Op::Rescale { x: others, like: x });
        Ok(self.joined(x, others))
    }

    /// The mean of the streams, all but the first projected and rescaled to the first one's magnitude.
    pub fn mean_of_streams(&mut self, streams: TensorId) -> Result<TensorId> {
        let (hidden, all) = (self.hyper.hidden, self.program.width(streams));
        let (x, others) = (self.slice(streams, 0, hidden), self.slice(streams, hidden, all - hidden));
        let weight = self.matrix("altup_unembd_proj.weight", all - hidden, hidden)?;
        let out = self.program.tensor(all - hidden);
        self.program.push(Op::ProjectHeads { x: others, weight, heads: all / hidden - 1, out });
        self.program.push(Op::Rescale { x: out, like: x });
        self.sum_streams(out, x, 0);
        self.scale(x, hidden as f32 / all as f32);
        Ok(x)
    }

    /// AltUp's prediction: each stream plus a weighted sum of all streams, with weights by the router of the first.
    pub fn predicted_streams(&mut self, streams: TensorId) -> Result<TensorId> {
        let (hidden, all) = (self.hyper.hidden, self.program.width(streams));
        let active = self.slice(streams, 0, hidden);
        let route = self.stream_router(active, all / hidden)?;
        let by = self.project(route, "altup_predict_coef", (all / hidden) * (all / hidden))?;
        let out = self.program.tensor(all);
        self.program.push(Op::Mix(Mix { x: streams, by: Some(by), out, width: hidden, first: 0, adds: false }));
        self.add_scaled(out, streams, 1.0);
        Ok(out)
    }

    /// AltUp's correction: adds a multiple of `y - expected` to each stream, where `y` is the result for the first
    /// stream. Overwrites `y`.
    pub fn correct_streams(&mut self, streams: TensorId, expected: TensorId, y: TensorId) -> Result<()> {
        let n = self.program.width(streams) / self.hyper.hidden;
        let route = self.stream_router(y, n)?;
        let (mut shares, factor) = self.part("altup_correct_coef", n, 0..n, route)?;
        shares.bias = Some(self.vector(vec![1.0 / factor; n]));
        let [by] = self.push_projections(route, [(shares, factor)]);
        self.add_scaled(y, expected, -1.0);
        let width = self.hyper.hidden;
        self.program.push(Op::Mix(Mix { x: y, by: Some(by), out: streams, width, first: 0, adds: true }));
        Ok(())
    }

    /// `tanh(altup_router (x / rms(x) * altup_router_norm) / hidden)`
    fn stream_router(&mut self, x: TensorId, streams: usize) -> Result<TensorId> {
        let h = self.rms_norm(x, "altup_router_norm")?;
        let route = self.project(h, "altup_router", streams)?;
        self.scale(route, 1.0 / self.hyper.hidden as f32);
        self.activate(route, Activation::Tanh);
        Ok(route)
    }

    /// Adds the sum of the streams of `x` to each stream of `out` from value `first` on.
    pub fn sum_streams(&mut self, x: TensorId, out: TensorId, first: usize) {
        let width = self.hyper.hidden;
        self.program.push(Op::Mix(Mix { x, by: None, out, width, first, adds: true }));
    }

    /// Returns the file's hyper-connections.
    pub fn connections(&self) -> Result<Connections> {
        let (n, rounds) = ("hyper_connection.count", "hyper_connection.sinkhorn_iterations");
        let bounded = |key, most| match self.width(key)? {
            n if n <= most => Ok(n),
            _ => Err(self.keys.unsupported(key)),
        };
        let eps = self.keys.float("hyper_connection.epsilon")?.unwrap_or(0.0);
        let magnitude = self.keys.float("hyper_connection.magnitude")?.unwrap_or(2.0);
        let rounds = if self.keys.size(rounds)?.is_some() { bounded(rounds, 1000)? as u32 } else { 0 };
        let magnitude = if rounds > 0 { 2.0 } else { magnitude };
        let n = bounded(n, MAX_STREAMS)?;
        if self.keys.size("embedding_length_out")?.is_some_and(|all| all != n * self.hyper.hidden) {
            return Err(self.keys.unsupported("embedding_length_out"));
        }
        Ok(Connections { n, eps, magnitude, rounds })
    }

    /// `connections` of a network whose streams mix.
    pub fn mixing_connections(&self) -> Result<Connections> {
        let connections = self.connections()?;
        match connections.rounds {
            0 => Err(self.keys.unsupported("hyper_connection.sinkhorn_iterations")),
            _ => Ok(connections),
        }
    }

    /// The copies of `x` that hyper-connections begin with.
    pub fn copies(&mut self, x: TensorId, Connections { n, .. }: Connections) -> TensorId {
        self.repeated(x, n)
    }

    /// `n` concatenated copies of `x`.
    pub(super) fn repeated(&mut self, x: TensorId, n: usize) -> TensorId {
        let width = self.program.width(x);
        let out = self.program.tensor(n * width);
        self.program.push(Op::Mix(Mix { x, by: None, out, width, first: 0, adds: false }));
        out
    }

    /// Mixing logits: some rows of the projection of all streams, with their own scale and biases.
    fn logits_of_shares(
        &mut self,
        h: TensorId,
        part: &str,
        all: usize,
        rows: std::ops::Range<usize>,
        scale: f32,
    ) -> Result<TensorId> {
        if scale == 0.0 {
            return Err(Error::unsupported(format!("the tensor {} holds a 0", self.name(&format!("{part}_scale")))));
        }
        let bias = self.all_values(&format!("{part}_base.weight"), all)?;
        let (mut product, factor) = self.part(&format!("{part}_fn"), all, rows.clone(), h)?;
        product.bias = Some(self.vector(bias[rows].iter().map(|b| b / factor / scale).collect()));
        let [out] = self.push_projections(h, [(product, factor * scale)]);
        Ok(out)
    }

    /// `sum over i of (by[i] + eps) * streams[i]`
    fn sum_by(&mut self, streams: TensorId, by: TensorId, eps: f32) -> TensorId {
        let width = self.hyper.hidden;
        let out = self.program.tensor(width);
        self.program.push(Op::Mix(Mix { x: streams, by: Some(by), out, width, first: 0, adds: false }));
        if eps != 0.0 {
            let sum = self.program.tensor(width);
            self.program.push(Op::Mix(Mix { x: streams, by: None, out: sum, width, first: 0, adds: false }));
            self.add_scaled(out, sum, eps);
        }
        out
    }

    /// The streams after a block between two hyper-connections.
    pub fn connected(
        &mut self,
        streams: TensorId,
        part: &str,
        connections: Connections,
        block: impl FnOnce(&mut Self, TensorId) -> Result<TensorId>,
    ) -> Result<TensorId> {
        let Connections { n, eps, magnitude, rounds } = connections;
        let width = self.hyper.hidden;
        let all = if rounds > 0 { 2 * n + n * n } else { 2 * n };
        let scales = self.all_values(&format!("{part}_scale.weight"), if rounds > 0 { 3 } else { 2 })?;
        let h = self.bare_norm(NormKind::Rms, streams);
        let before = self.logits_of_shares(h, part, all, 0..n, scales[0])?;
        self.activate(before, Activation::Sigmoid);
        let after = self.logits_of_shares(h, part, all, n..2 * n, scales[1])?;
        self.activate(after, Activation::Sigmoid);
        self.scale(after, magnitude);
        let next = if rounds > 0 {
            let by = self.logits_of_shares(h, part, all, 2 * n..all, scales[2])?;
            self.program.push(Op::Sinkhorn { x: by, eps, rounds });
            let next = self.program.tensor(n * width);
            self.program.push(Op::Mix(Mix { x: streams, by: Some(by), out: next, width, first: 0, adds: false }));
            next
        } else {
            streams
        };
        let x = self.sum_by(streams, before, eps);
        let out = block(self, x)?;
        self.program.push(Op::Mix(Mix { x: out, by: Some(after), out: next, width, first: 0, adds: true }));
        if rounds == 0 && eps != 0.0 {
            let little = self.copy(out, width);
            self.scale(little, eps);
            self.sum_streams(little, next, 0);
        }
        Ok(next)
    }

    /// The weighted sum of the streams that ends a network.
    pub fn joined_streams(&mut self, streams: TensorId, connections: Connections) -> Result<TensorId> {
        let Connections { n, eps, .. } = connections;
        let scale = self.all_values("output_hc_scale.weight", 1)?;
        let h = self.bare_norm(NormKind::Rms, streams);
        let by = self.logits_of_shares(h, "output_hc", n, 0..n, scale[0])?;
        self.activate(by, Activation::Sigmoid);
        Ok(self.sum_by(streams, by, eps))
    }

    /// RMS norm of each stream with its own weights.
    pub fn normed_streams(&mut self, streams: TensorId, part: &str) -> Result<TensorId> {
        let all = self.program.width(streams);
        let weight = self.all_values(&format!("{part}.weight"), all)?;
        let weight = Some(self.vector(weight));
        let norm = Norm { kind: NormKind::Rms, weight, bias: None, eps: self.rms_eps, group: self.hyper.hidden };
        let out = self.program.tensor(all);
        self.program.push(Op::Norm { norm, x: streams, out });
        Ok(out)
    }

    /// Returns the normalized streams, and their mean after multiplication by the sigmoid of low-rank gates.
    pub fn gated_mean(&mut self, streams: TensorId, part: &str, rank: usize) -> Result<[TensorId; 2]> {
        let all = self.program.width(streams);
        let h = self.normed_streams(streams, &format!("{part}_norm"))?;
        let narrow = self.project(h, &format!("{part}_down"), rank)?;
        self.scale(narrow, self.hyper.hidden as f32 / all as f32);
        self.activate(narrow, Activation::Silu);
        let gate = self.project(narrow, &format!("{part}_up"), all)?;
        let gated = self.gate(gate, h, Activation::Sigmoid);
        Ok([h, self.mean_stream(gated)])
    }

    /// Adds the result of a block that reads the streams' `gated_mean` to the streams, weighted per stream.
    pub fn connect_by_gates(
        &mut self,
        streams: TensorId,
        part: &str,
        rank: usize,
        block: impl FnOnce(&mut Self, TensorId) -> Result<TensorId>,
    ) -> Result<()> {
        let width = self.hyper.hidden;
        let n = self.program.width(streams) / width;
        let [h, x] = self.gated_mean(streams, part, rank)?;
        let by = self.project(h, &format!("{part}_inject"), n)?;
        self.scale(by, 1.0 / n as f32);
        self.activate(by, Activation::Sigmoid);
        self.scale(by, 2.0);
        let x = block(self, x)?;
        self.program.push(Op::Mix(Mix { x, by: Some(by), out: streams, width, first: 0, adds: true }));
        Ok(())
    }

    /// The mean of the streams.
    pub fn mean_stream(&mut self, x: TensorId) -> TensorId {
        let (width, all) = (self.hyper.hidden, self.program.width(x));
        let out = self.program.tensor(width);
        self.program.push(Op::Mean { x, groups: all / width, out });
        out
    }

    /// The sum of concatenated streams and `last`, weighted by the softmax of their normalized dot products with a
    /// vector; in folders the vector is the product of a norm's and a projection's weights.
    pub fn mix_by_score(&mut self, streams: Option<TensorId>, last: TensorId, part: &str) -> Result<TensorId> {
        let is_whole = self.has(&format!("{part}_score.weight"));
        let mut values = |of: &str| self.all_values(&format!("{part}_{of}.weight"), self.hyper.hidden);
        let by = match is_whole {
            true => values("score")?,
            false => values("norm")?.iter().zip(values("proj")?).map(|(a, b)| a * b).collect(),
        };
        let Some(streams) = streams else { return Ok(last) };
        let (by, x) = (self.vector(by), self.with_tails(streams, Some(last), 1));
        let out = self.program.tensor(self.hyper.hidden);
        self.program.push(Op::MixByScore { x, by, eps: self.rms_eps, out });
        Ok(out)
    }

    /// `[x | tail]`
    pub fn joined(&mut self, x: TensorId, tail: TensorId) -> TensorId {
        let out = self.program.tensor(self.program.width(x) + self.program.width(tail));
        self.program.push(Op::JoinHeads { x, tail, heads: 1, out });
        out
    }

    /// `width` values of each row from `first` on.
    pub fn slice(&mut self, x: TensorId, first: usize, width: usize) -> TensorId {
        let out = self.program.tensor(width);
        self.program.push(Op::Slice { x, first, out });
        out
    }

    /// `x *= part`, elementwise.
    pub fn scale_columns(&mut self, x: TensorId, part: &str) -> Result<()> {
        let by = self.tensors.vector(&self.name(&format!("{part}.weight")), self.program.width(x))?;
        let by = self.vector(by);
        self.program.push(Op::ScaleColumns { x, by });
        Ok(())
    }
}
