//! The launches of LoRA adapters: their additions to products, for the rows of sequences that use them.

use crate::cuda::args::{AdaptArgs, AdaptSegment, HEAD_TOKENS, MAX_SEGMENTS, Modification, ModifyArgs};
use crate::cuda::lower::Lowering;
use crate::error::Result;
use crate::gpu::Address;
use crate::graph::op::{Projection, TensorId};
use crate::graph::weights::AdapterTarget;

const WARPS: usize = 4;

impl Lowering<'_> {
    /// Adds to the results of at most `MAX_SEGMENTS` projections, times `scale`.
    pub(crate) fn adapt(&mut self, x: TensorId, projections: &[Projection], scale: f32) -> Result<()> {
        let mut products = [(AdapterTarget::Logits, 0); MAX_SEGMENTS];
        for (product, p) in products.iter_mut().zip(projections) {
            *product = (AdapterTarget::Project(p.weight), self.tensor(p.out));
        }
        self.adapt_each(x, &products[..projections.len()], scale)
    }

    /// Adds to logits, then applies the scale and softcap that the kernel of the product omitted.
    pub(crate) fn adapt_logits(&mut self, x: TensorId, scale: f32, softcap: f32) -> Result<()> {
        let logits = self.scratch.logits;
        self.adapt_each(x, &[(AdapterTarget::Logits, logits)], 1.0)?;
        if (scale, softcap) == (1.0, 0.0) {
            return Ok(());
        }
        let width = self.program.vocab;
        let args = ModifyArgs {
            x: logits,
            width: width as u32,
            kind: Modification::Softcap as u32,
            factor: scale,
            eps: softcap,
            ..ModifyArgs::default()
        };
        let blocks = [self.shape.n, width.div_ceil(1024), 1];
        self.launch(&self.model.device.kernels.modify, blocks, 256, 0, &args)
    }

    /// True if an adapter of the step adds to the logits.
    pub(crate) fn adapts_logits(&self) -> bool {
        self.adapted.adapters.iter().any(|adapter| adapter.for_target(AdapterTarget::Logits).is_some())
    }

    fn adapt_each(&mut self, x: TensorId, products: &[(AdapterTarget, Address)], scale: f32) -> Result<()> {
        let adapted = self.adapted;
        let places = adapted.places(self.scratch.adapters);
        let (width, n_slots) = (self.program.width(x), self.shape.n_slots);
        let mut input = None;
        for (i, adapter) in adapted.adapters.iter().enumerate() {
            let (mut first, mut second) =
                ([AdaptSegment::default(); MAX_SEGMENTS], [AdaptSegment::default(); MAX_SEGMENTS]);
            let mut n = 0;
            for &(target, out) in products {
                let Some(product) = adapter.for_target(target) else { continue };
                let x = match input {
                    Some(input) => input,
                    None => *input.insert(self.normalized(x)?),
                };
                let [a, b] = [product.a, product.b].map(|factor| adapter.factors().matrix_at(factor));
                let inner = places.inner + 4 * (n * places.stride) as Address;
                first[n] = AdaptSegment { w: a, x, out: inner, cols: width as u32, factor: 1.0 };
                let factor = (product.factor * f64::from(scale)) as f32;
                second[n] = AdaptSegment { w: b, x: inner, out, cols: a.rows, factor };
                n += 1;
            }
            if n == 0 {
                continue;
            }
            let factors = places.factors + 4 * (i * n_slots) as Address;
            for (segments, adds) in [(first, false), (second, true)] {
                let args = AdaptArgs {
                    segments,
                    slots: self.step.args.slots,
                    factors,
                    n: self.shape.n as u32,
                    adds: u32::from(adds),
                };
                // One lane per eight columns of a row, at least four and at most a warp.
                let blocks = |s: &AdaptSegment| {
                    let lanes = (s.w.cols as usize / 8).next_power_of_two().clamp(4, 32);
                    (s.w.rows as usize).div_ceil(WARPS * 32 / lanes)
                };
                let rows = segments[..n].iter().map(blocks).max().unwrap_or(1);
                let blocks = [rows, n, self.shape.n.div_ceil(HEAD_TOKENS)];
                self.launch(&self.model.device.kernels.adapt, blocks, 32 * WARPS as u32, 0, &args)?;
            }
        }
        Ok(())
    }

    /// Returns the address of an input of products. If the products apply a norm themselves, writes the normalized
    /// input to its activation, which is otherwise unused until the last product.
    fn normalized(&mut self, x: TensorId) -> Result<Address> {
        if let Some((norm, from)) = self.fusions.delayed(x) {
            self.add_norm(from, None, Some((&norm, x)))?;
        }
        Ok(self.tensor(x))
    }
}
