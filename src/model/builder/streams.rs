//! Several residual streams side by side, `[n, streams * hidden]`: AltUp (arXiv 2301.13310), in which the blocks of a
//! layer compute the first stream, and the others follow by what it was expected to be and became.

use super::Builder;
use crate::error::Result;
use crate::graph::op::{Activation, Mix, Op, TensorId};

impl Builder<'_> {
    /// The first of `streams` streams, and products with it of its own size.
    pub fn streams(&mut self, x: TensorId, streams: usize) -> Result<TensorId> {
        let hidden = self.hyper.hidden;
        let others = self.project(x, "altup_proj", (streams - 1) * hidden)?;
        self.program.push(Op::Rescale { x: others, like: x });
        let out = self.program.tensor(streams * hidden);
        self.program.push(Op::JoinHeads { x, tail: others, heads: 1, out });
        Ok(out)
    }

    /// The mean of the streams, of which all but the first are products of their own, as large as the first.
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

    /// The streams that a layer is expected to give: their sums with sums of all by the router of the first.
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

    /// Corrects streams by what their first one, `expected`, has become: each by a share of the difference, which takes
    /// the place of `y`.
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

    /// `width` values of each row from `first` on.
    pub fn slice(&mut self, x: TensorId, first: usize, width: usize) -> TensorId {
        let out = self.program.tensor(width);
        self.program.push(Op::Slice { x, first, out });
        out
    }

    /// `x *= part`, which has a value for each of `x`.
    pub fn scale_columns(&mut self, x: TensorId, part: &str) -> Result<()> {
        let by = self.tensors.vector(&self.name(&format!("{part}.weight")), self.program.width(x))?;
        let by = self.vector(by);
        self.program.push(Op::ScaleColumns { x, by });
        Ok(())
    }
}
