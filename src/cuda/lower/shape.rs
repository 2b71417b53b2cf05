//! The shape of a step: what determines its launches besides ops and memory, and the key of its CUDA graph.

use crate::cuda::inputs::{SentTokens, TILINGS};
use crate::cuda::rules::Needs;
use crate::gpu::Address;

/// Numbers that determine the launches, in addition to ops and memory: equal shapes launch equal grids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepShape {
    pub n: usize,
    pub n_outputs: usize,
    /// Numbers of tiles of each tiling, for all tokens and for only the outputs.
    pub tiles: TileCounts,
    pub kept_tiles: TileCounts,
    pub n_slots: usize,
    /// True if some of the rows may be padding.
    pub padded: bool,
    /// True if every sequence has one token, all tokens are outputs (or the step has only one token), and no cache has
    /// 4-bit keys.
    pub single_tokens: bool,
    /// Maximum number of position splits that the longest context keeps busy.
    pub reach: usize,
    /// True if all KV caches hold F16.
    pub halves: bool,
    /// True if any KV cache holds keys in 4 bits; true if any holds values in 4 bits.
    pub fours: [bool; 2],
    /// The largest RoPE context-length bound below the capacity of the caches.
    pub longer_than: Option<usize>,
    /// True if the step has M-RoPE positions.
    pub has_rope_positions: bool,
    /// True if tokens have spans.
    pub spans: bool,
    /// True if tokens of one sequence must be computed as in separate steps: `StepInputs::separate`.
    pub separate: bool,
    /// Kernels needed by the sampling rules.
    pub needs: Needs,
    /// `Adapted::key`.
    pub adapters: u64,
}

/// Number of tiles per tiling: `all`, and `short` for tiles of short sequences; next, the tokens of short sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TileCounts {
    pub all: [u32; TILINGS],
    pub short: [u32; TILINGS],
    pub short_tokens: usize,
}

impl TileCounts {
    pub fn of(tokens: &SentTokens) -> TileCounts {
        TileCounts {
            all: tokens.tilings.map(|tiling| tiling.n),
            short: tokens.tilings.map(|tiling| tiling.n_short),
            short_tokens: tokens.n_short,
        }
    }
}

/// Host memory for the sampled tokens, `[slots, stride]`.
#[derive(Clone, Copy)]
pub struct SampledTokens {
    pub address: Address,
    pub slots: u32,
    pub stride: u32,
}

impl StepShape {
    /// True if all tokens are outputs.
    pub fn keeps_all(&self) -> bool {
        self.n == self.n_outputs
    }

    /// Returns the shape for only the outputs.
    pub fn kept(self) -> StepShape {
        StepShape { n: self.n_outputs, tiles: self.kept_tiles, ..self }
    }
}
