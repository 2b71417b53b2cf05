//! Dimensions of an executor and the scratch memory of its steps.
//!
//! Owns the limits due to grids and kernels, and the layout of every intermediate result in one allocation. Relies on
//! `arena` for sizes that cannot overflow.

use super::adapted::{ADAPTERS, AdapterPlaces, RANK};
use super::args::{
    ATTEND_ROWS, Draw, GEMV_ROWS, INPUT_STEP, MAX_SEGMENTS, PICK_PARTS, PROMPT_ROWS, PROMPT_TOKENS, RING_BYTES,
    RING_COLUMNS, RING_THREADS, RouteArgs, SELECT_KEYS, SMALL_BATCH_CHUNK, Segment, WARP,
};
use crate::error::{Error, Result};
use crate::gpu::Address;
use crate::gpu::activations::places;
use crate::gpu::arena::Arena;
use crate::gpu::planes::{Plane, planes};
use crate::graph::op::{Attend, OnHost, Op};
use crate::graph::plain_op;
use crate::graph::program::Program;
use crate::graph::sequence_spec::KvLayer;
use crate::graph::step::StepLimits;
use crate::quant;
use crate::tensor::DType;

/// Number of position splits per tile in batch-invariant mode.
const FIXED_SPLITS: usize = 8;

/// Number of blocks that search the largest logit of an output.
pub const ARGMAX_BLOCKS: usize = 32;

/// Maximum number of input rows that each block of a product prepares for itself.
pub const OWN_ROWS: usize = 2;

/// Maximum number of tokens per step that rarely share an expert.
pub const FEW_TOKENS: usize = 8;

/// Maximum grid dimensions x and y.
const GRID_X: usize = i32::MAX as usize;
pub const GRID_Y: usize = 65_535;

/// Returns the number of columns of a prepared row of `cols` values.
pub fn padded(cols: usize) -> usize {
    cols.next_multiple_of(INPUT_STEP)
}

/// Returns the number of groups that a block of `choose_keys` keeps.
pub fn select_room(groups: usize) -> usize {
    groups.saturating_add(SELECT_KEYS).next_power_of_two()
}

/// Returns the shared memory of a block of `choose_keys` in bytes, for a selection of `groups` groups by `heads` heads.
pub fn select_shared(groups: usize, heads: usize, dim: usize) -> usize {
    let (heads, row) = (heads.next_multiple_of(8), 64 * dim.div_ceil(32) + 32);
    8 * select_room(groups) + heads.saturating_mul(row + 4) + 4 * SELECT_KEYS + 8
}

/// Returns the shared memory of a GEMV with `rows` rows of `cols` values, in bytes: f32 rows for `plain` matrices,
/// 8-bit rows with scales for block matrices.
pub fn gemv_shared(rows: usize, cols: usize, plain: bool, blocks: bool) -> usize {
    let padded = padded(cols);
    128 + rows * (if plain { 4 * padded } else { 0 } + if blocks { padded + padded / 32 * 16 } else { 0 })
}

/// Returns the shared memory of a `Selection` of `router.cuh` in bytes.
pub fn route_shared(route: &RouteArgs) -> usize {
    4 * (route.n_experts + route.groups + 2 * route.n_used) as usize
}

/// Returns the shared memory of a block of `gemv_picks.cu` in bytes, for `used` rows of `cols` values.
pub fn picks_shared(dtype: DType, used: usize, cols: usize) -> usize {
    let unit = match dtype {
        quant::F32 => 4,
        quant::F16 | quant::BF16 => 8,
        quant::Q8_0 => 16,
        _ => 32,
    };
    let all = used.saturating_mul(cols);
    let input = gemv_shared(1, all, is_plain(dtype), !is_plain(dtype));
    input.saturating_add(8 * (all / unit) + 4 * PICK_PARTS.max(all.div_ceil(unit * WARP)))
}

/// Returns the shared memory of a block of `gemv_ring.cu` in bytes; `None` for types and widths that it does not read.
pub fn ring_shared(dtype: DType, cols: usize) -> Option<usize> {
    const WARPS: usize = RING_THREADS / WARP;
    let format = quant::format(dtype).ok().filter(|_| !is_plain(dtype) && cols.is_multiple_of(256))?;
    // Bytes of a piece of a row; planes with less than 16 bytes per 256 columns are copied in words.
    let size = |plane: &Plane| {
        let per_block = plane.bytes * 256 / format.block_len;
        per_block * (RING_COLUMNS / 256) + if per_block.is_multiple_of(16) { 0 } else { 16 }
    };
    let stage = 2 * planes(dtype)?.iter().map(size).sum::<usize>();
    let stages = (RING_BYTES / (WARPS * stage)).max(2);
    // Sums of warps, parts of pairs of rows, the input.
    Some(WARPS * stages * stage + 4 * WARP + 16 * WARPS + cols + cols / 32 * 16)
}

/// Divides `blocks` blocks of `gemv_ring.cu`, or more if there are fewer than matrices, among matrices in proportion to
/// their bytes; each gets at least one.
pub fn ring_blocks(segments: &[Segment], blocks: usize) -> [u32; MAX_SEGMENTS] {
    let bytes = |s: &Segment| {
        let row = quant::format(s.w.dtype()).and_then(|format| format.row_bytes(s.w.cols.into()));
        row.map_or(0, |row| row as usize * s.w.rows as usize)
    };
    let (all, blocks) = (segments.iter().map(bytes).sum::<usize>(), blocks.max(segments.len()));
    let (mut divided, mut before, mut taken) = ([0; MAX_SEGMENTS], 0, 0);
    for (i, segment) in segments.iter().enumerate() {
        before += bytes(segment);
        // Every later matrix has a block left.
        let end = (blocks * before / all.max(1)).clamp(taken + 1, blocks - (segments.len() - 1 - i));
        (divided[i], taken) = ((end - taken) as u32, end);
    }
    divided
}

/// True for types without blocks, which are multiplied with floats.
pub fn is_plain(dtype: DType) -> bool {
    [quant::F32, quant::F16, quant::BF16].contains(&dtype)
}

/// Maximum width of a key or value that fits in the registers of a warp.
const REGISTER_DIM: usize = 256;

/// Tokens per tile of the tiling with one tile per sequence.
pub const WHOLE: usize = usize::MAX;

/// Head shape of an attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub value_dim: usize,
    /// True if tokens have lists of visible keys: selected keys, pooled keys, or keys of two layers.
    pub is_selective: bool,
}

impl AttentionShape {
    pub fn new(program: &Program, op: &Attend) -> AttentionShape {
        let KvLayer { n_kv_heads: kv_heads, head_dim, value_dim, .. } = program.kv_layers[op.layer.0 as usize];
        let is_selective = op.among.is_some() || op.half.is_some();
        AttentionShape { heads: program.width(op.q) / head_dim, kv_heads, head_dim, value_dim, is_selective }
    }

    /// Returns the maximum number of query heads per KV head.
    pub fn group(&self) -> usize {
        self.heads.div_ceil(self.kv_heads)
    }

    /// True if the kernel that fuses head ops with attention fits: a block has rows for all query heads of a KV head.
    pub fn is_of_heads(&self) -> bool {
        self.group() <= ATTEND_ROWS && !self.is_wide()
    }

    /// Returns the number of tokens whose query heads fit in the rows of a tile.
    pub fn tile_tokens(&self) -> usize {
        if self.is_selective { 1 } else { (ATTEND_ROWS / self.group()).max(1) }
    }

    /// Returns the second dimension of the grid.
    pub fn rows(&self) -> usize {
        self.kv_heads * self.group().div_ceil(ATTEND_ROWS)
    }

    /// Returns the number of rows of a block that attends to many tokens.
    pub fn prompt_rows(&self) -> usize {
        if self.head_dim.max(self.value_dim) > 128 { PROMPT_ROWS / 2 } else { PROMPT_ROWS }
    }

    /// Returns the number of blocks for the rows of a prompt tile, in a step of `n` tokens.
    pub fn prompt_blocks(&self, n: usize) -> usize {
        (n.min(PROMPT_TOKENS) * self.group()).div_ceil(self.prompt_rows())
    }

    /// True if the warps of a block divide the dimensions of a head instead of the positions.
    pub fn is_wide(&self) -> bool {
        self.is_selective || self.head_dim.max(self.value_dim) > REGISTER_DIM
    }
}

/// Dimensions that are fixed for an executor.
pub struct ExecutorDims {
    pub limits: StepLimits,
    /// Tokens per tile in each tiling that ops request.
    pub tilings: Vec<usize>,
    /// Width of the widest attention value.
    value_dim: usize,
    /// Maximum number of groups that a token selects.
    chosen: usize,
    /// Number of multiprocessors of the device.
    pub processors: usize,
    /// Capacity for partial results of attention, one per (tile, grid row, split).
    pub max_parts: usize,
    /// True if positions are divided in the same way for every batch.
    is_batch_invariant: bool,
    experts: ExpertDims,
}

/// Maximum dimensions over all ops with experts.
#[derive(Default)]
struct ExpertDims {
    n: usize,
    used: usize,
    ffn: usize,
    /// Width of the product with `gate`, or with `gate` and `up` if both are one matrix.
    gate: usize,
    hidden: usize,
    /// True if some experts have a separate column order, with one input row per pick.
    ordered: bool,
}

impl ExecutorDims {
    /// Checks the dimensions against the limits of the kernels and of a device with `multiprocessors` multiprocessors.
    pub fn new(
        program: &Program,
        limits: StepLimits,
        multiprocessors: u32,
        is_batch_invariant: bool,
    ) -> Result<ExecutorDims> {
        let (mut tilings, mut value_dim, mut attention_rows, mut chosen) = (Vec::new(), 0, 0, 0);
        let mut experts = ExpertDims::default();
        for op in &program.ops {
            match op {
                Op::Attend(a) => {
                    let shape = AttentionShape::new(program, a);
                    tilings.push(shape.tile_tokens());
                    tilings.extend((!is_batch_invariant && !shape.is_wide()).then_some(PROMPT_TOKENS));
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
        // In batch-invariant mode, or with few tokens, each selected expert of a token is a grid row.
        let rows = if is_batch_invariant { max_tokens } else { max_tokens.min(FEW_TOKENS) };
        if rows.saturating_mul(experts.used) > GRID_X {
            return Err(Error::unsupported(format!(
                "{} experts per token are not supported on a GPU for {rows} tokens",
                experts.used
            )));
        }
        tilings.sort_unstable();
        tilings.dedup();
        // Two blocks per multiprocessor for every result of `splits`; with fixed splits, at least one tile.
        let processors = multiprocessors as usize;
        let parts = 4 * processors;
        let max_parts = if is_batch_invariant { parts.max(FIXED_SPLITS * attention_rows) } else { parts };
        Ok(ExecutorDims { limits, tilings, value_dim, chosen, processors, max_parts, is_batch_invariant, experts })
    }

    /// Returns the index of the tiling with `tokens` tokens per tile.
    pub fn tiling(&self, tokens: usize) -> usize {
        self.tilings.binary_search(&tokens).unwrap_or_default()
    }

    /// Returns the maximum number of splits that the longest context of a step keeps busy; a power of two, because each
    /// number needs a separate CUDA graph.
    pub fn reach(&self, longest: u32) -> usize {
        let reach = (longest as usize).div_ceil(64).next_power_of_two();
        if self.is_batch_invariant { FIXED_SPLITS } else { reach.min(self.max_parts / 2) }
    }

    /// Returns the number of results of `reach`.
    pub fn reaches(&self) -> usize {
        if self.is_batch_invariant { 1 } else { self.max_parts.ilog2() as usize + 1 }
    }

    /// Returns the number of splits per tile that keeps every multiprocessor busy.
    pub fn splits(&self, shape: &AttentionShape, n_tiles: usize, reach: usize) -> usize {
        let blocks = n_tiles * shape.rows();
        if self.is_batch_invariant { FIXED_SPLITS } else { reach.min((self.max_parts / 2).div_ceil(blocks.max(1))) }
    }

    /// True if `n` tokens in `n_tiles` prompt tiles use the prompt kernels: if other kernels would read each position
    /// more than twice. Results of prompt kernels are not bit-identical to single-token results.
    pub fn is_prompt(&self, shape: &AttentionShape, n: usize, n_tiles: usize) -> bool {
        !self.is_batch_invariant && !shape.is_wide() && n * shape.group() > 2 * ATTEND_ROWS * n_tiles
    }

    /// Returns the number of splits per token of the keys to select from.
    pub fn select_splits(&self, n: usize, reach: usize) -> usize {
        (self.max_parts / (2 * n)).min(reach.div_ceil(4)).max(1)
    }

    /// Returns the number of position splits of prompt tiles, so that there is at most one block per multiprocessor.
    pub fn prompt_splits(&self, shape: &AttentionShape, n: usize, n_tiles: usize, reach: usize) -> usize {
        let blocks = n_tiles * shape.prompt_blocks(n) * shape.kv_heads;
        (self.processors / blocks.max(1)).min(reach / 4).max(1)
    }

    /// Returns the number of counters of attention, products and argmax.
    pub fn counters(&self) -> usize {
        self.max_parts + self.product_tiles() + self.limits.max_outputs
    }

    /// Returns the maximum number of tiles of a product whose columns are split: two blocks per multiprocessor.
    fn product_tiles(&self) -> usize {
        2 * self.processors
    }

    /// Returns the number of column splits that keeps every multiprocessor busy, for `blocks` tiles and `resident`
    /// blocks per multiprocessor. At most `most`, so that a split is at least as long as a block's pipeline.
    pub fn column_splits(&self, blocks: usize, resident: usize, most: usize) -> usize {
        (resident * self.processors / blocks).min(most).max(1)
    }
}

/// Addresses of all intermediate results of a step.
pub struct DeviceScratch {
    /// Addresses of activations by `TensorId`, in steps with tokens that are not outputs.
    dropping: Vec<Address>,
    /// The same for steps whose tokens are all outputs: `KeepOutputs` copies nothing, and each of its pairs shares a
    /// buffer.
    keeping: Vec<Address>,
    /// `[rows of products without tiles, widest input]`
    pub prepared: Address,
    /// `[max(tokens, outputs), widest input]` or `[tokens, used, expert_ffn]` in binary16, or in bytes with scales,
    /// which need less memory.
    pub halves: Address,
    /// One scale per row of `halves`.
    pub row_scales: Address,
    /// `[tokens, used]`, the picks sorted by expert.
    pub expert_order: Address,
    /// `[n_experts + 1]`, the first pick of each expert in `expert_order`.
    pub expert_starts: Address,
    /// `[tokens, used]`
    pub experts: Address,
    pub expert_weights: Address,
    /// `[tokens, used, expert_ffn]`, or twice as many columns, followed by the columns of `up`.
    pub expert_gate: Address,
    pub expert_up: Address,
    /// `[tokens, used, hidden]`
    pub expert_out: Address,
    /// `[parts, 16, 2 + value_dim]`; for prompts `[processors, 128, 2 + value_dim]`; for selections `[parts, groups]`
    /// of 64 bits.
    pub partials: Address,
    /// Partial sums of a product: 128 rows by 256 tokens per multiprocessor, or as many values in narrower tiles.
    pub product_parts: Address,
    /// `[parts]` for attention, then `[tiles]` for products, then `[outputs]` for argmax; zero between launches.
    pub attention_counters: Address,
    pub product_counters: Address,
    pub argmax_counters: Address,
    /// `[outputs, vocab]`
    pub logits: Address,
    /// `[outputs, ARGMAX_BLOCKS]`
    pub best: Address,
    pub best_at: Address,
    /// `[outputs]`, intermediate results of the sampling kernels.
    pub draws: Address,
    /// `[outputs]`, the token sampled after each output, which the next step reads.
    pub tokens: Address,
    /// `[max_tokens, media_width]`, media rows.
    pub media: Address,
    pub adapters: AdapterPlaces,
}

impl DeviceScratch {
    /// Lays out the results from `base` on; returns their addresses and total size in bytes.
    pub fn at(base: Address, dims: &ExecutorDims, program: &Program) -> Result<(DeviceScratch, usize)> {
        let StepLimits { max_tokens, max_outputs } = dims.limits;
        let e = &dims.experts;
        let (rows, picks) = (max_tokens.max(max_outputs), max_tokens.saturating_mul(e.used));
        let (widest, expert_halves) =
            (program.widest_input().next_multiple_of(SMALL_BATCH_CHUNK), e.ffn.next_multiple_of(SMALL_BATCH_CHUNK));
        let rows_of_inputs = if e.ordered { rows.max(picks) } else { rows };
        let few = if dims.is_batch_invariant { rows } else { rows.min(GEMV_ROWS) };
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

    /// Returns the addresses of activations by `TensorId`; `keeps_all`: for a step whose tokens are all outputs.
    pub fn tensors(&self, keeps_all: bool) -> &[Address] {
        if keeps_all { &self.keeping } else { &self.dropping }
    }
}
