//! The launches that sample a token after each output: `kernels/sample.cu`.

use crate::cuda::args::{BINS, ChooseArgs, LISTED, SAMPLE_THREADS};
use crate::cuda::lower::Lowering;
use crate::cuda::rules::StepRules;
use crate::cuda::scratch::ARGMAX_BLOCKS;
use crate::error::Result;
use crate::sampling::MAX_ENTRIES;

/// Number of blocks that draw a token.
const DRAW_BLOCKS: usize = 64;

const THREADS: u32 = SAMPLE_THREADS as u32;

/// Shared memory of `weigh` (bins) and of `keep` (the list and one sum per thread), each with a few words.
const WEIGH_SHARED: usize = 12 * BINS + 16;
const KEEP_SHARED: usize = 8 * (LISTED + SAMPLE_THREADS) + 32;

impl Lowering<'_> {
    /// Samples a token for each row of logits.
    pub(crate) fn choose(&mut self) -> Result<()> {
        let (vocab, rows) = (self.program.vocab, self.shape.n);
        let StepRules { rules, states } = self.rules;
        let s = self.scratch;
        let args = ChooseArgs {
            logits: s.logits,
            rules,
            states,
            draws: s.draws,
            best: s.best,
            at: s.best_at,
            counters: s.argmax_counters,
            sampled: self.sampled.address,
            tokens: s.tokens,
            ids: self.step.args.ids,
            positions: self.step.args.positions,
            unit: unit(vocab),
            width: vocab as u32,
            slots: self.sampled.slots,
            stride: self.sampled.stride,
            pad: 0,
        };
        let (needs, kernels) = (self.shape.needs, &self.model.device.kernels);
        if needs.changes {
            self.launch(&kernels.adjust, [rows, 1, 1], THREADS, 8 * MAX_ENTRIES, &args)?;
        }
        let blocks = |most: usize| [vocab.div_ceil(1024).min(most), rows, 1];
        self.launch(&kernels.argmax, blocks(ARGMAX_BLOCKS), THREADS, 2 * 128 + 16, &args)?;
        if needs.draws {
            self.launch(&kernels.weigh, blocks(DRAW_BLOCKS), THREADS, WEIGH_SHARED, &args)?;
        }
        if needs.ranks {
            self.launch(&kernels.keep, blocks(DRAW_BLOCKS), THREADS, KEEP_SHARED, &args)?;
        }
        Ok(())
    }
}

/// `unit` of `sampling/arithmetic.rs`: a power of two that keeps the weight sum of `n` tokens below 2^63.
fn unit(n: usize) -> f64 {
    let bits = (usize::BITS - n.leading_zeros()).clamp(12, 62);
    (1u64 << (63 - bits)) as f64
}
