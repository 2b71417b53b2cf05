//! Launches of attention, and of the preceding ops on heads: norms, RoPE, and storing keys and values in the KV cache.
//!
//! Relies on `fuse` for the ops that a launch combines.

use crate::cuda::args::{
    self, ATTEND_ROWS, ATTEND_WARPS, AttendArgs, AttendSingleArgs, GroupKind, HadamardArgs, HeadsArgs, KV_RING_BYTES,
    PROMPT_TOKENS, SELECT_KEYS, SelectArgs, StepArgs,
};
use crate::cuda::inputs::Tiling;
use crate::cuda::launch::CudaKernel;
use crate::cuda::lower::Lowering;
use crate::cuda::scratch::{AttentionShape, select_room, select_shared};
use crate::cuda::variants::AttentionKernels;
use crate::error::Result;
use crate::gpu::fuse::HeadOps;
use crate::graph::op::{Attend, Groups, Half, Mask, Norm, RopeChoice, Select, TensorId};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::RopePairs;

/// Returns the bytes of shared memory for queries of heads with up to `dim` dimensions. Wide heads need 16 steps of 512
/// bytes for each warp of a block.
fn query_bytes(dim: usize) -> usize {
    if dim > 128 { ATTEND_WARPS * 16 * 512 } else { 0 }
}

impl<'a> Lowering<'a> {
    /// Launches norms of heads, RoPE, and the store of keys and values in the KV cache.
    pub(crate) fn heads(&mut self, ops: &HeadOps) -> Result<()> {
        const WARPS: usize = 4;
        let args = self.heads_args(ops);
        let heads = args.heads + if args.v == 0 { 1 } else { 2 } * args.kv_heads;
        let blocks = (heads as usize).div_ceil(WARPS);
        self.launch(&self.model.device.kernels.heads, [blocks, self.shape.n, 1], 32 * WARPS as u32, 0, &args)
    }

    fn heads_args(&self, ops: &HeadOps) -> HeadsArgs {
        let (program, weights) = (self.program, &self.model.weights);
        let count = |tensor: Option<TensorId>| tensor.map_or(0, |tensor| program.width(tensor) / ops.head_dim);
        let address = |tensor: Option<TensorId>| tensor.map_or(0, |tensor| self.tensor(tensor));
        let own = |norm: Option<&Norm>| u32::from(norm.is_some_and(|norm| self.own_weights(norm) > 1));
        let values = ops.store.and_then(|(_, v)| v);
        let mut args = HeadsArgs {
            step: self.step.args,
            q: address(ops.q),
            k: address(ops.k),
            v: address(values),
            q_norm: self.norm(ops.q_norm),
            k_norm: self.norm(ops.k_norm),
            inv_freq: 0,
            axes: 0,
            n_pairs: 0,
            adjacent: 0,
            magnitude: 1.0,
            first: ops.first as u32,
            heads: count(ops.q) as u32,
            kv_heads: count(ops.k) as u32,
            head_dim: ops.head_dim as u32,
            value_dim: ops.store.map_or(0, |(layer, _)| program.kv_layers[layer.0 as usize].value_dim) as u32,
            store: u32::from(ops.store.is_some()),
            own_norms: own(ops.q_norm) + 2 * own(ops.k_norm),
            position_offset: 0,
            pad: 0,
            layer: ops.store.map(|(layer, _)| self.kv_places[layer.0 as usize]).unwrap_or_default(),
        };
        if let Some(RopeChoice { table, long }) = ops.rope {
            let table = match long {
                Some((above, long)) if self.shape.longer_than.is_some_and(|bound| bound >= above) => long,
                _ => table,
            };
            let rope = weights.rope(table);
            (args.inv_freq, args.axes, args.n_pairs) = (rope.inv_freq, rope.axes, rope.pairs as u32);
            args.adjacent = u32::from(rope.order == RopePairs::Adjacent);
            (args.magnitude, args.position_offset) = (rope.magnitude, rope.position_offset);
        }
        args
    }

    /// Attention to keys and values that may have been rotated by the Hadamard transform.
    pub(crate) fn attend(&mut self, op: &Attend, heads: Option<HeadOps>) -> Result<()> {
        let KvLayer { is_latent, head_dim, value_dim, .. } = self.program.kv_layers[op.layer.0 as usize];
        let [keys, values] = self.shape.fours.map(|is_four| is_four && !is_latent);
        if keys {
            self.hadamard_heads(op.q, head_dim, false)?;
        }
        self.attend_transformed(op, heads)?;
        // Restores the queries, which later ops may read.
        if keys {
            self.hadamard_heads(op.q, head_dim, false)?;
        }
        if values { self.hadamard_heads(op.out, value_dim, true) } else { Ok(()) }
    }

    fn hadamard_heads(&mut self, x: TensorId, dim: usize, by_values: bool) -> Result<()> {
        let heads = self.program.width(x) / dim;
        let args = HadamardArgs {
            x: self.tensor(x),
            slots: self.step.args.slots,
            kvs: self.step.args.kvs,
            heads: heads as u32,
            dim: dim as u32,
            by_values: u32::from(by_values),
            pad: 0,
        };
        let blocks = [heads.div_ceil(4), self.shape.n, 1];
        self.launch(&self.model.device.kernels.hadamard_heads, blocks, 128, 0, &args)
    }

    /// Attention, fused with norms of heads, RoPE and the KV cache if each token is the only one of its sequence.
    fn attend_transformed(&mut self, op: &Attend, heads: Option<HeadOps>) -> Result<()> {
        let (d, s, shape) = (self.dims, self.shape, AttentionShape::new(self.program, op));
        let [prompt, few] = [PROMPT_TOKENS, shape.tile_tokens()].map(|tokens| self.step.tilings[d.tiling(tokens)]);
        let narrow = self.narrow_attention(&shape);
        let of_prompts = |n, tiling: Tiling| {
            let narrow = narrow.as_ref().filter(|_| !s.separate);
            narrow.filter(|_| d.is_prompt(&shape, n, tiling.n as usize))
        };
        let n_long = s.n - self.step.n_short;
        let [long, _] = prompt.split();
        if let Some(kernels) = of_prompts(n_long, long) {
            self.attend_prompt(op, &shape, kernels, long, n_long)?;
            // Short sequences do not use prompt tiles, where one block per KV head would read all positions of a
            // sequence.
            let [_, short] = few.split();
            return if short.n > 0 { self.attend_few(op, &shape, short, None) } else { Ok(()) };
        }
        if let Some(kernels) = of_prompts(s.n, prompt) {
            return self.attend_prompt(op, &shape, kernels, prompt, s.n);
        }
        self.attend_few(op, &shape, few, heads)
    }

    /// Returns the arguments of attention for some tiles. `splits`: number of position splits that keeps the device
    /// busy.
    fn attend_args(&self, op: &Attend, shape: &AttentionShape, tiling: Tiling, splits: usize) -> AttendArgs {
        // Splits beyond one per 64 positions of the window would be idle.
        let splits = match op.mask.span() {
            0 => splits,
            window => splits.min(window.div_ceil(64).next_power_of_two()),
        };
        let top = op.among.map_or(0, |among| self.program.width(among));
        let splits = if top > 0 { splits.min(top.div_ceil(64).next_power_of_two()) } else { splits };
        let (mask, window) = match op.mask {
            Mask::Causal | Mask::Past => (args::Mask::Newest, 0),
            Mask::Window(n) => (args::Mask::Newest, n),
            Mask::Chunk(n) => (args::Mask::OwnChunk, n),
            Mask::All => (args::Mask::Around, u32::MAX),
            Mask::Spans => (args::Mask::Spans, 0),
            Mask::Source => (args::Mask::Source, 0),
            Mask::AfterSpan => (args::Mask::AfterSpan, 0),
            Mask::Around(n) => (args::Mask::Around, n),
        };
        let spans = if op.mask.heeds_spans() { self.step.args.spans } else { 0 };
        let weights = &self.model.weights;
        AttendArgs {
            step: StepArgs { tiles: tiling.address, n_tiles: tiling.n, spans, ..self.step.args },
            q: self.tensor(op.q),
            out: self.tensor(op.out),
            partials: self.scratch.partials,
            counters: self.scratch.attention_counters,
            slopes: weights.vector(op.slopes),
            sinks: weights.vector(op.sinks),
            distances: weights.vector(op.distances),
            among: op.among.map_or(0, |among| self.tensor(among)),
            sums_before: if let Some(Half::Second(sums)) = op.half { self.tensor(sums) } else { 0 },
            sums: if let Some(Half::First(sums)) = op.half { self.tensor(sums) } else { 0 },
            distance_reach: op.distances.map_or(0, |table| weights.vector_len(table) / shape.heads / 2) as u32,
            top: top as u32,
            heads: shape.heads as u32,
            kv_heads: shape.kv_heads as u32,
            head_dim: shape.head_dim as u32,
            value_dim: shape.value_dim as u32,
            layer: self.kv_places[op.layer.0 as usize],
            first_tile: 0,
            mask: mask as u32,
            window,
            splits: splits as u32,
            scale: op.scale,
            softcap: op.softcap,
        }
    }

    /// Attention of `n` tokens in tiles of a prompt.
    fn attend_prompt(
        &mut self,
        op: &Attend,
        shape: &AttentionShape,
        kernels: &AttentionKernels,
        tiling: Tiling,
        n: usize,
    ) -> Result<()> {
        let n_tiles = tiling.n as usize;
        let splits = self.dims.prompt_splits(shape, n, n_tiles, self.shape.reach);
        let args = self.attend_args(op, shape, tiling, splits);
        let blocks = n_tiles * shape.prompt_blocks(n) * args.splits as usize;
        // Shared memory after the queries: two stages of keys and values with 64 positions (32 for wide heads), and a
        // flag.
        let planes = 2 * 2 * 64 * 2 * kernels.dim.min(128) + 16;
        self.launch(
            kernels.many_tokens.of(self.shape.halves),
            [blocks, shape.kv_heads, 1],
            2 * shape.prompt_rows() as u32,
            query_bytes(kernels.dim) + planes,
            &args,
        )
    }

    /// Attention in tiles of few tokens; `heads`: ops that are fused with the attention.
    fn attend_few(
        &mut self,
        op: &Attend,
        shape: &AttentionShape,
        tiling: Tiling,
        heads: Option<HeadOps>,
    ) -> Result<()> {
        let (d, s) = (self.dims, self.shape);
        // Tokens that are computed separately have as many splits as a single token.
        let splits = d.splits(shape, if s.separate { 1 } else { tiling.n as usize }, s.reach);
        let args = self.attend_args(op, shape, tiling, splits);
        let k = &self.model.device.kernels;
        let widest = shape.head_dim.max(shape.value_dim);
        let grid = [tiling.n as usize, shape.rows()];
        // Every GPU with asynchronous copies has room for the ring and 32 KiB of queries and heads.
        let has_room = self.model.device.context.properties.shared_per_block as usize >= KV_RING_BYTES + (32 << 10);
        let has_bias = op.slopes.is_some() || op.distances.is_some();
        let is_plain = s.halves && has_room && op.softcap == 0.0 && !has_bias;
        let ring = if is_plain { KV_RING_BYTES } else { 0 };
        // Partial results of four warps with `rows` rows each, which overwrite the ring.
        let parts = |rows: usize| 4 * ATTEND_WARPS * rows * (2 + shape.value_dim);
        let single = k.attention_single().into_iter().find(|(dim, _)| widest <= *dim);
        if let (Some(heads), Some((dim, kernels))) = (heads, single) {
            let args = AttendSingleArgs { attend: args, heads: self.heads_args(&heads) };
            // Shared memory: queries as MMA operands; the ring; unnormalized heads with sines and cosines; a flag.
            // Partial results overwrite the ring and the heads.
            let pairs = args.heads.n_pairs as usize;
            let as_they_are = 4 * ((shape.group() + 1) * shape.head_dim + 2 * pairs);
            let shared = 32 * dim + (ring + as_they_are).max(parts(shape.group())) + 16;
            let of = |attend| AttendSingleArgs { attend, ..args };
            return self.attend_tiles(kernels.of(is_plain), grid, shared, args.attend, of);
        }
        let Some(kernels) = self.narrow_attention(shape) else {
            // Shared memory: queries, [32 dimensions][1024 bytes], two stages of scores, and a flag.
            let shared = 1024 * (shape.head_dim.div_ceil(32) + 8) + 16;
            let kernel = match (shape.is_selective, s.halves) {
                (true, _) => &k.attend_among,
                (false, true) => &k.attend_wide,
                (false, false) => &k.attend_wide_any,
            };
            return self.attend_tiles(kernel, grid, shared, args, |args| args);
        };
        let shared = query_bytes(kernels.dim) + ring.max(parts(ATTEND_ROWS)) + 16;
        self.attend_tiles(kernels.few_tokens.of(is_plain), grid, shared, args, |args| args)
    }

    /// Returns the kernels for heads that fit in the registers of a warp; `None` for wider heads, and if tokens have
    /// lists of visible keys.
    fn narrow_attention(&self, shape: &AttentionShape) -> Option<AttentionKernels<'a>> {
        let widest = shape.head_dim.max(shape.value_dim);
        let kernels = self.model.device.kernels.attention();
        kernels.into_iter().find(|kernels| widest <= kernels.dim && !shape.is_selective)
    }

    /// Selects the keys that tokens attend to.
    pub(crate) fn select(&mut self, op: &Select) -> Result<()> {
        let head_dim = self.program.kv_layers[op.layer.0 as usize].head_dim;
        let (top, size, heads) = (self.program.width(op.out), op.groups.size(), self.program.width(op.weights));
        let (kind, local) = match op.groups {
            Groups::One | Groups::Pools(_) => (GroupKind::Pools, 0),
            Groups::Blocks { local, .. } => (GroupKind::Blocks, local),
        };
        let splits = self.dims.select_splits(self.shape.n, self.shape.reach);
        let room = select_room(top / size);
        let args = SelectArgs {
            step: self.step.args,
            q: self.tensor(op.q),
            weights: self.tensor(op.weights),
            out: self.tensor(op.out),
            found: self.scratch.partials,
            counters: self.scratch.attention_counters,
            heads: heads as u32,
            dim: head_dim as u32,
            top: top as u32,
            groups: (top / size) as u32,
            size: size as u32,
            kind: kind as u32,
            local,
            splits: splits as u32,
            room: room as u32,
            pad: 0,
            layer: self.kv_places[op.layer.0 as usize],
        };
        let shared = select_shared(top / size, heads, head_dim);
        let kernel = &self.model.device.kernels.choose_keys;
        self.launch(kernel, [self.shape.n * splits, 1, 1], SELECT_KEYS as u32, shared, &args)
    }

    /// Attends to tiles of few tokens, on a grid of tiles and rows per tile. If tiles are split, each launch has as
    /// many tiles as there is memory for their partial results. `whole` converts `AttendArgs` to the kernel's
    /// arguments.
    fn attend_tiles<A: Copy>(
        &mut self,
        kernel: &CudaKernel<A>,
        [n_tiles, rows]: [usize; 2],
        shared: usize,
        args: AttendArgs,
        whole: impl Fn(AttendArgs) -> A,
    ) -> Result<()> {
        let splits = args.splits as usize;
        let room = if splits == 1 { n_tiles } else { self.dims.max_parts / (splits * rows) };
        for first in (0..n_tiles).step_by(room.max(1)) {
            let (n, args) = (room.max(1).min(n_tiles - first), AttendArgs { first_tile: first as u32, ..args });
            self.launch(kernel, [n * splits, rows, 1], 128, shared, &whole(args))?;
        }
        Ok(())
    }
}
