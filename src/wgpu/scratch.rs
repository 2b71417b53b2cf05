//! Layout of the intermediate results of a step in one buffer, in words.

use super::draws::Parts;
use super::kernels::MAX_GRID;
use crate::error::{Error, Result};
use crate::gpu::activations::places;
use crate::gpu::weight_layout::COLS;
use crate::graph::op::Op;
use crate::graph::plain_op;
use crate::graph::program::Program;
use crate::graph::step::StepLimits;

/// Maximum number of workgroups among which the positions of one token's attention are divided.
pub const MAX_SPLITS: usize = 32;

/// Number of these workgroups if work must be divided in the same way for every batch.
pub const FIXED_SPLITS: usize = 8;

/// Number of values reserved for `A x` of LoRA adapters: per row, and in addition to all rows.
const RANK: usize = 64;
const LARGEST_RANK: usize = 4096;

/// Alignment of arrays in words.
const ALIGN: usize = 64;

pub struct Scratch {
    /// Offsets of activations, indexed by `TensorId`.
    pub tensors: Vec<u32>,
    /// `[rows, widest input]` as bytes.
    pub quants: u32,
    /// `[rows, widest input / 32, 2]`
    pub groups: u32,
    /// `[tokens, used]`
    pub picks: u32,
    pub pick_weights: u32,
    /// `[tokens, used, ffn]`, or twice as wide.
    pub expert_gate: u32,
    pub expert_up: u32,
    /// `[tokens, used, hidden]`
    pub expert_out: u32,
    /// `[tokens, heads, splits, 2 + value_dim]`
    pub parts: u32,
    pub part_words: usize,
    /// `[rows, rank]`, `A x` of a LoRA adapter.
    pub inner: u32,
    pub inner_words: usize,
    /// `[outputs, vocab]`
    pub logits: u32,
    /// `[outputs]`
    pub best: u32,
    /// `[outputs, candidate_words]`, candidates of sampling.
    pub candidates: u32,
    pub candidate_words: usize,
    pub words: usize,
}

impl Scratch {
    pub fn new(program: &Program, limits: StepLimits, is_batch_invariant: bool) -> Result<Scratch> {
        let StepLimits { max_tokens, max_outputs } = limits;
        let rows = max_tokens.max(max_outputs);
        if rows > MAX_GRID {
            let what = format!("a step has {rows} rows; on this GPU it must have at most {MAX_GRID}");
            return Err(Error::unsupported(what));
        }
        let (mut words, mut picks, mut gate, mut up, mut out, mut ffn) = (0usize, 0, 0, 0, 0, 0);
        let mut part_words = 0usize;
        for op in &program.ops {
            match op {
                Op::Experts(e) => {
                    let n = max_tokens.saturating_mul(e.routing.n_used);
                    picks = picks.max(n);
                    ffn = ffn.max(e.ffn);
                    let width = if e.gate == Some(e.up) { 2 * e.ffn } else { e.ffn };
                    gate = gate.max(n.saturating_mul(width));
                    up = up.max(n.saturating_mul(e.ffn));
                    out = out.max(n.saturating_mul(program.width(e.out)));
                }
                Op::Attend(a) => {
                    let layer = program.kv_layers[a.layer.0 as usize];
                    let heads = program.width(a.q) / layer.head_dim;
                    let tokens =
                        if is_batch_invariant { FIXED_SPLITS * max_tokens } else { max_tokens.max(MAX_SPLITS) };
                    part_words = part_words.max(tokens.saturating_mul(heads * (2 + layer.value_dim)));
                }
                plain_op!()
                | Op::Add { .. }
                | Op::StoreKv { .. }
                | Op::Select(_)
                | Op::Conv(_)
                | Op::Pool(_)
                | Op::DeltaRule(_)
                | Op::Scan(_)
                | Op::Wkv(_)
                | Op::OnHost(_)
                | Op::Embed { .. }
                | Op::EmbedNgrams(_)
                | Op::Project { .. }
                | Op::ProjectHeads { .. }
                | Op::Logits { .. } => {}
            }
        }
        let mut add = |count: usize, each: usize| {
            let start = words;
            let end = count.checked_mul(each).and_then(|n| n.checked_next_multiple_of(ALIGN)?.checked_add(words));
            words = end.filter(|end| *end <= u32::MAX as usize).ok_or_else(too_large)?;
            Ok::<u32, Error>(start as u32)
        };
        let (widths, [copied, _]) = places(program);
        let buffers = widths.iter().map(|width| add(rows, *width)).collect::<Result<Vec<u32>>>()?;
        let candidate_words = if program.vocab > 0 { Parts::new(program.vocab).words() } else { 0 };
        let inner_words = rows.saturating_mul(RANK).saturating_add(LARGEST_RANK);
        let widest = program.widest_input().next_multiple_of(COLS);
        let ffn = ffn.next_multiple_of(COLS);
        let values = rows.saturating_mul(widest).max(picks.saturating_mul(ffn));
        let scratch = Scratch {
            tensors: copied.iter().map(|buffer| buffers.get(*buffer).copied().unwrap_or(0)).collect(),
            quants: add(values.div_ceil(4), 1)?,
            groups: add(values / COLS, 2)?,
            picks: add(picks, 1)?,
            pick_weights: add(picks, 1)?,
            expert_gate: add(gate, 1)?,
            expert_up: add(up, 1)?,
            expert_out: add(out, 1)?,
            parts: add(part_words, 1)?,
            part_words,
            inner: add(inner_words, 1)?,
            inner_words,
            logits: add(max_outputs, program.vocab)?,
            best: add(max_outputs, 1)?,
            candidates: add(max_outputs, candidate_words)?,
            candidate_words,
            words: 0,
        };
        Ok(Scratch { words, ..scratch })
    }
}

fn too_large() -> Error {
    Error::unsupported("the intermediate results of a step are too large for a GPU")
}
