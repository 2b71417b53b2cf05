//! Dimensions of an executor and the memory that its steps compute in.
//!
//! Owns the limits that follow from grids and kernels, and the layout of every intermediate result in one allocation.
//! Relies on `arena` for sizes that cannot overflow.

use super::adapted::{ADAPTERS, AdapterPlaces, RANK};
use super::args::{
    ATTEND_ROWS, Draw, GEMV_ROWS, INPUT_STEP, PROMPT_ROWS, PROMPT_TOKENS, SELECT_KEYS, SMALL_BATCH_TURN,
};
use crate::error::{Error, Result};
use crate::gpu::Address;
use crate::gpu::activations::places;
use crate::gpu::arena::Arena;
use crate::graph::op::{Attend, OnHost, Op};
use crate::graph::plain_op;
use crate::graph::program::Program;
use crate::graph::sequence_spec::KvLayer;
use crate::graph::step::StepLimits;

/// Shares of a tile's positions where they must be the same for every tile.
const FIXED_SPLITS: usize = 8;

/// Blocks that look for the largest logit of an output.
pub const ARGMAX_BLOCKS: usize = 32;

/// Rows of input that each block of a product prepares for itself, at most.
pub const OWN_ROWS: usize = 2;

/// Tokens of a step that rarely share an expert.
pub const FEW_TOKENS: usize = 8;

/// The first and the second dimension of a grid, at most.
const GRID_X: usize = i32::MAX as usize;
pub const GRID_Y: usize = 65_535;

/// Columns of a prepared row of `cols` values.
pub fn padded(cols: usize) -> usize {
    cols.next_multiple_of(INPUT_STEP)
}

/// Groups that a block of `choose_keys` keeps.
pub fn select_room(groups: usize) -> usize {
    groups.saturating_add(SELECT_KEYS).next_power_of_two()
}

/// Bytes of shared memory of a block of `choose_keys`, for a choice of so many groups by so many heads.
pub fn select_shared(groups: usize, heads: usize, dim: usize) -> usize {
    let (heads, row) = (heads.next_multiple_of(8), 64 * dim.div_ceil(32) + 32);
    8 * select_room(groups) + heads.saturating_mul(row + 4) + 4 * SELECT_KEYS + 8
}

/// Shared memory of a product with some rows of `cols` values, in bytes: the rows in f32 for `plain` matrices, in 8
/// bits with scales for those of blocks.
pub fn gemv_shared(rows: usize, cols: usize, plain: bool, blocks: bool) -> usize {
    let padded = padded(cols);
    128 + rows * (if plain { 4 * padded } else { 0 } + if blocks { padded + padded / 32 * 16 } else { 0 })
}

/// Values of the longest key or value that the registers of a warp have room for.
const REGISTER_DIM: usize = 256;

/// Tokens of a tile that has all of a sequence.
pub const WHOLE: usize = usize::MAX;

/// Heads of an attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub value_dim: usize,
    /// Tokens have lists of the keys that they see: chosen ones, those of several positions, or of two layers.
    pub is_among: bool,
}

impl AttentionShape {
    pub fn new(program: &Program, op: &Attend) -> AttentionShape {
        let KvLayer { n_kv_heads: kv_heads, head_dim, value_dim, .. } = program.kv_layers[op.layer.0 as usize];
        let is_among = op.among.is_some() || op.half.is_some();
        AttentionShape { heads: program.width(op.q) / head_dim, kv_heads, head_dim, value_dim, is_among }
    }

    /// Most query heads that share a key-value head.
    pub fn group(&self) -> usize {
        self.heads.div_ceil(self.kv_heads)
    }

    /// Tells whether the kernel of norms, rotation and storing can attend too: a block has rows for the query heads
    /// that share a key.
    pub fn is_of_heads(&self) -> bool {
        self.group() <= ATTEND_ROWS && !self.is_wide()
    }

    /// Tokens whose query heads fit into the rows of a tile.
    pub fn tile_tokens(&self) -> usize {
        if self.is_among { 1 } else { (ATTEND_ROWS / self.group()).max(1) }
    }

    /// Second dimension of the grid.
    pub fn rows(&self) -> usize {
        self.kv_heads * self.group().div_ceil(ATTEND_ROWS)
    }

    /// Rows of a block that attends to many tokens.
    pub fn prompt_rows(&self) -> usize {
        if self.head_dim.max(self.value_dim) > 128 { PROMPT_ROWS / 2 } else { PROMPT_ROWS }
    }

    /// Blocks of the rows of a tile of a prompt, in a step of `n` tokens.
    pub fn prompt_blocks(&self, n: usize) -> usize {
        (n.min(PROMPT_TOKENS) * self.group()).div_ceil(self.prompt_rows())
    }

    /// The warps of a block share the dimensions of a head, and not the positions.
    pub fn is_wide(&self) -> bool {
        self.is_among || self.head_dim.max(self.value_dim) > REGISTER_DIM
    }
}

/// Dimensions that are fixed for an executor.
pub struct ExecutorDims {
    pub limits: StepLimits,
    /// Tokens of a tile in each tiling that ops ask for.
    pub tilings: Vec<usize>,
    /// Width of the widest value of attention.
    value_dim: usize,
    /// Most groups that a token chooses.
    chosen: usize,
    /// Multiprocessors of the device.
    pub processors: usize,
    /// Parts of attention, one for each (tile, row of the grid, split), that there is memory for.
    pub max_parts: usize,
    /// Positions are divided in one way, whatever the batch.
    fixed: bool,
    experts: ExpertDims,
}

/// The largest dimensions of all ops with experts.
#[derive(Default)]
struct ExpertDims {
    n: usize,
    used: usize,
    ffn: usize,
    /// Results of the product with `gate`, and with `up` where both are one matrix.
    gate: usize,
    hidden: usize,
    /// Some read their inputs in an order of their own, a row for each pick.
    ordered: bool,
}

impl ExecutorDims {
    /// Checks the dimensions against the limits of the kernels and of a device with so many multiprocessors.
    pub fn new(program: &Program, limits: StepLimits, multiprocessors: u32, fixed: bool) -> Result<ExecutorDims> {
        let (mut tilings, mut value_dim, mut attention_rows, mut chosen) = (Vec::new(), 0, 0, 0);
        let mut experts = ExpertDims::default();
        for op in &program.ops {
            match op {
                Op::Attend(a) => {
                    let shape = AttentionShape::new(program, a);
                    tilings.push(shape.tile_tokens());
                    tilings.extend((!fixed && !shape.is_wide()).then_some(PROMPT_TOKENS));
                    (value_dim, attention_rows) = (value_dim.max(shape.value_dim), attention_rows.max(shape.rows()));
                }
                Op::Select(s) => chosen = chosen.max(program.width(s.out) / s.groups.size()),
                Op::Conv(_) | Op::Pool(_) | Op::DeltaRule(_) | Op::Scan(_) | Op::Wkv(_) => tilings.push(WHOLE),
                Op::Experts(e) | Op::OnHost(OnHost { experts: e, .. }) => {
                    experts.n = experts.n.max(e.n_experts);
                    experts.used = experts.used.max(e.routing.n_used);
                    experts.ffn = experts.ffn.max(e.ffn);
                    experts.gate = experts.gate.max(if e.gate == Some(e.up) { 2 * e.ffn } else { e.ffn });
                    experts.hidden = experts.hidden.max(program.width(e.x));
                    experts.ordered |= e.orders != [None; 3];
                }
                plain_op!()
                | Op::Embed { .. }
                | Op::EmbedNgrams(_)
                | Op::Add { .. }
                | Op::Project { .. }
                | Op::ProjectHeads { .. }
                | Op::StoreKv { .. }
                | Op::Logits { .. } => {}
            }
        }
        let StepLimits { max_tokens, max_outputs } = limits;
        if max_tokens == 0 || max_tokens > GRID_Y || max_outputs > GRID_Y {
            let what = format!("{max_tokens} tokens and {max_outputs} outputs a step, 1 to {GRID_Y} are possible");
            return Err(Error::invalid(what));
        }
        // Where results must be the same bits, or tokens are few, each chosen expert of a token is a row of a grid.
        let rows = if fixed { max_tokens } else { max_tokens.min(FEW_TOKENS) };
        if rows.saturating_mul(experts.used) > GRID_X {
            return Err(Error::unsupported(format!(
                "{} experts per token are not supported on a GPU for {rows} tokens",
                experts.used
            )));
        }
        tilings.sort_unstable();
        tilings.dedup();
        // Two blocks a processor, in every way to divide them that `splits` chooses; at least one tile where that is
        // fixed.
        let processors = multiprocessors as usize;
        let parts = 4 * processors;
        let max_parts = if fixed { parts.max(FIXED_SPLITS * attention_rows) } else { parts };
        Ok(ExecutorDims { limits, tilings, value_dim, chosen, processors, max_parts, fixed, experts })
    }

    /// The tiling of tiles of so many tokens.
    pub fn tiling(&self, tokens: usize) -> usize {
        self.tilings.binary_search(&tokens).unwrap_or_default()
    }

    /// The shares that the longest context of a step has work for. A power of two, because each number needs a recorded
    /// step.
    pub fn reach(&self, longest: u32) -> usize {
        let reach = (longest as usize).div_ceil(64).next_power_of_two();
        if self.fixed { FIXED_SPLITS } else { reach.min(self.max_parts / 2) }
    }

    /// Shares into which the positions of a tile are divided, so that every processor has work.
    pub fn splits(&self, shape: &AttentionShape, n_tiles: usize, reach: usize) -> usize {
        let blocks = n_tiles * shape.rows();
        if self.fixed { FIXED_SPLITS } else { reach.min((self.max_parts / 2).div_ceil(blocks.max(1))) }
    }

    /// Tells whether `n` tokens in so many tiles of prompts are attended to as such: where the same positions would
    /// else be read more than twice. Rows of prompts have other bits than single tokens.
    pub fn is_prompt(&self, shape: &AttentionShape, n: usize, n_tiles: usize) -> bool {
        !self.fixed && !shape.is_wide() && n * shape.group() > 2 * ATTEND_ROWS * n_tiles
    }

    /// Shares into which the keys of each of `n` tokens are divided where some of them are chosen.
    pub fn select_splits(&self, n: usize, reach: usize) -> usize {
        (self.max_parts / (2 * n)).min(reach.div_ceil(4)).max(1)
    }

    /// Shares into which the positions of tiles of prompts are divided: some steps each, and at most a block for each
    /// processor.
    pub fn prompt_splits(&self, shape: &AttentionShape, n: usize, n_tiles: usize, reach: usize) -> usize {
        let blocks = n_tiles * shape.prompt_blocks(n) * shape.kv_heads;
        (self.processors / blocks.max(1)).min(reach / 4).max(1)
    }

    /// Number of counters of attention, of products and of the arg-max.
    pub fn counters(&self) -> usize {
        self.max_parts + self.product_tiles() + self.limits.max_outputs
    }

    /// Tiles of a product whose columns may be divided: there are at most as many as blocks, two a processor.
    fn product_tiles(&self) -> usize {
        2 * self.processors
    }

    /// Shares into which the columns of a product are divided, so that every processor has work: `blocks` tiles of so
    /// many tokens, of which a processor has room for `resident`. A share is at least as long as the pipeline of a
    /// block.
    pub fn column_splits(&self, blocks: usize, resident: usize, cols: usize) -> usize {
        (resident * self.processors / blocks).min(cols / (4 * 32)).max(1)
    }
}

/// Addresses of everything that a step computes.
pub struct DeviceScratch {
    /// Addresses of activations by `TensorId`, in steps of which some rows are dropped.
    dropping: Vec<Address>,
    /// The same in steps whose tokens are all outputs, where `KeepOutputs` copies nothing: the buffers of each of its
    /// pairs have changed places after it.
    keeping: Vec<Address>,
    /// `[rows that products take without tiles, widest input]`
    pub prepared: Address,
    /// `[max(tokens, outputs), widest input]` or `[tokens, used, expert_ffn]` in binary16.
    pub halves: Address,
    /// One scale a row of `halves`.
    pub row_scales: Address,
    /// `[tokens, used]`, the picks sorted by expert.
    pub expert_order: Address,
    /// `[n_experts + 1]`, the first pick of each expert in `expert_order`.
    pub expert_starts: Address,
    /// `[tokens, used]`
    pub experts: Address,
    pub expert_weights: Address,
    /// `[tokens, used, expert_ffn]`, or twice as many columns with those of `up` after them
    pub expert_gate: Address,
    pub expert_up: Address,
    /// `[tokens, used, hidden]`
    pub expert_out: Address,
    /// `[parts, 16, 2 + value_dim]`, of prompts `[processors, 128, 2 + value_dim]`, or of choices `[parts, groups]` of
    /// 64 bits
    pub partials: Address,
    /// Sums of the shares of a product's columns: 128 rows by 256 tokens a processor, or as many by fewer.
    pub product_parts: Address,
    /// `[parts]` for attention, then `[tiles]` for products, then `[outputs]` for the arg-max; zero between launches.
    pub attention_counters: Address,
    pub product_counters: Address,
    pub argmax_counters: Address,
    /// `[outputs, vocab]`
    pub logits: Address,
    /// `[outputs, ARGMAX_BLOCKS]`
    pub best: Address,
    pub best_at: Address,
    /// `[outputs]`, what the kernels of a choice hand on.
    pub draws: Address,
    /// `[outputs]`, the token chosen after each, which the next step reads.
    pub tokens: Address,
    /// `[max_tokens, media_width]`, rows of media.
    pub media: Address,
    pub adapters: AdapterPlaces,
}

impl DeviceScratch {
    /// Lays the results out from `base` on; returns their addresses and the bytes that they take.
    pub fn at(base: Address, dims: &ExecutorDims, program: &Program) -> Result<(DeviceScratch, usize)> {
        let StepLimits { max_tokens, max_outputs } = dims.limits;
        let e = &dims.experts;
        let (rows, picks) = (max_tokens.max(max_outputs), max_tokens.saturating_mul(e.used));
        let (widest, expert_halves) =
            (program.widest_input().next_multiple_of(SMALL_BATCH_TURN), e.ffn.next_multiple_of(SMALL_BATCH_TURN));
        let rows_of_inputs = if e.ordered { rows.max(picks) } else { rows };
        let few = if dims.fixed { rows } else { rows.min(GEMV_ROWS) };
        let mut arena = Arena::default();
        let mut add = |count: usize, size: usize| Ok::<_, Error>(base + arena.add(count, size)? as Address);
        let (widths, places) = places(program);
        let mut buffers = Vec::with_capacity(widths.len());
        for width in widths {
            buffers.push(add(max_tokens.saturating_mul(width), 4)?);
        }
        let counters = add(dims.counters(), 4)?;
        let [dropping, keeping] =
            places.map(|tensors| tensors.into_iter().map(|i| buffers.get(i).copied().unwrap_or(0)).collect());
        let scratch = DeviceScratch {
            dropping,
            keeping,
            prepared: add(few.saturating_mul(padded(program.widest_input())), 4)?,
            halves: add(rows_of_inputs.saturating_mul(widest).max(picks.saturating_mul(expert_halves)), 2)?,
            row_scales: add(rows.max(picks), 4)?,
            expert_order: add(picks, 4)?,
            expert_starts: add(e.n + 1, 4)?,
            experts: add(picks, 4)?,
            expert_weights: add(picks, 4)?,
            expert_gate: add(picks.saturating_mul(e.gate), 4)?,
            expert_up: add(picks.saturating_mul(e.ffn), 4)?,
            expert_out: add(picks.saturating_mul(e.hidden), 4)?,
            partials: add(
                ((dims.max_parts * ATTEND_ROWS).max(dims.processors * PROMPT_ROWS) * (2 + dims.value_dim))
                    .max(dims.max_parts.saturating_mul(2 * dims.chosen)),
                4,
            )?,
            product_parts: add(dims.processors, 128 * 256 * 4)?,
            attention_counters: counters,
            product_counters: counters + 4 * dims.max_parts as Address,
            argmax_counters: counters + 4 * (dims.max_parts + dims.product_tiles()) as Address,
            logits: add(max_outputs.saturating_mul(program.vocab), 4)?,
            best: add(max_outputs * ARGMAX_BLOCKS, 4)?,
            best_at: add(max_outputs * ARGMAX_BLOCKS, 4)?,
            draws: add(max_outputs, size_of::<Draw>())?,
            tokens: add(max_outputs, 4)?,
            media: add(max_tokens.saturating_mul(program.media_width()), 4)?,
            adapters: AdapterPlaces::new(max_tokens, [ADAPTERS, RANK], add)?,
        };
        Ok((scratch, arena.bytes()))
    }

    /// Addresses of activations by `TensorId`; `keeps_all`: of a step whose tokens are all outputs.
    pub fn tensors(&self, keeps_all: bool) -> &[Address] {
        if keeps_all { &self.keeping } else { &self.dropping }
    }
}
