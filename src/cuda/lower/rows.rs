//! The launches of ops that modify, copy or multiply rows part by part, and of recurrent ops.

use crate::cuda::args::{
    CHUNK_SIZE, CHUNK_THREADS, ConvArgs, DeltaArgs, DotArgs, HEAD_TOKENS, JoinArgs, MixArgs, MixByScoreArgs,
    Modification, ModifyArgs, NGRAM, NGRAM_HEADS, NgramArgs, NgramHead, PoolArgs, ProjectHeadsArgs, RescaleArgs,
    SCAN_COLUMNS, ScanArgs, SinkhornArgs, StepArgs, WkvArgs,
};
use crate::cuda::inputs::{SentTokens, Tiling};
use crate::cuda::lower::Lowering;
use crate::cuda::scratch::WHOLE;
use crate::error::Result;
use crate::gpu::Address;
use crate::graph::op::{Conv, DeltaRule, EmbedNgrams, Mix, Pool, Scan, TensorId, Vector, Weight, Wkv};

/// Minimum number of tokens per sequence for which chunks are faster than single steps.
const CHUNK_PAYS: usize = 16;

impl Lowering<'_> {
    /// Modifies the rows of an activation; `set` completes the arguments.
    pub(crate) fn modify(
        &mut self,
        x: TensorId,
        kind: Modification,
        factor: f32,
        set: impl FnOnce(&mut ModifyArgs),
    ) -> Result<()> {
        let width = self.program.width(x);
        let mut args = ModifyArgs {
            x: self.tensor(x),
            by: 0,
            ids: self.step.args.ids,
            positions: self.step.args.positions,
            width: width as u32,
            kind: kind as u32,
            factor,
            length: 1,
            offset: 0,
            fall: 0.0,
            slope: 0.0,
            eps: 0.0,
        };
        set(&mut args);
        let blocks = [self.shape.n, width.div_ceil(1024), 1];
        self.launch(&self.model.device.kernels.modify, blocks, 256, 0, &args)
    }

    /// Sums of streams, times a factor.
    pub(crate) fn mix(&mut self, op: &Mix, factor: f32) -> Result<()> {
        let width = |tensor: TensorId| self.program.width(tensor);
        let from = width(op.x) / op.width;
        let to = (width(op.out) - op.first) / op.width;
        let args = MixArgs {
            x: self.tensor(op.x),
            by: op.by.map_or(0, |by| self.tensor(by)),
            out: self.tensor(op.out),
            width: op.width as u32,
            from: from as u32,
            to: to as u32,
            first: op.first as u32,
            out_width: width(op.out) as u32,
            adds: u32::from(op.adds),
            factor,
            pad: 0,
        };
        let blocks = [self.shape.n, (to * op.width).div_ceil(1024), 1];
        self.launch(&self.model.device.kernels.mix, blocks, 256, 0, &args)
    }

    /// Rescales each part of `x` with the width of `like`, or thresholds rows at `deviations` standard deviations above
    /// their mean.
    pub(crate) fn rescale(&mut self, x: TensorId, like: Option<TensorId>, deviations: f32) -> Result<()> {
        let width = |tensor: TensorId| self.program.width(tensor);
        let part = width(like.unwrap_or(x));
        let parts = width(x) / part;
        let args = RescaleArgs {
            x: self.tensor(x),
            like: like.map_or(0, |like| self.tensor(like)),
            width: part as u32,
            parts: parts as u32,
            deviations,
            pad: 0,
        };
        self.launch(&self.model.device.kernels.rescale, [self.shape.n * parts, 1, 1], 256, 128, &args)
    }

    /// The sum of the streams of `x`, weighted by a softmax of their scores.
    pub(crate) fn mix_by_score(&mut self, [x, out]: [TensorId; 2], by: Vector, eps: f32) -> Result<()> {
        let width = self.program.width(out);
        let args = MixByScoreArgs {
            x: self.tensor(x),
            by: self.model.weights.vector(Some(by)),
            out: self.tensor(out),
            width: width as u32,
            streams: (self.program.width(x) / width) as u32,
            eps,
            pad: 0,
        };
        self.launch(&self.model.device.kernels.mix_by_score, [self.shape.n, 1, 1], 256, 128, &args)
    }

    /// Sinkhorn normalization of square matrices of logits, transposed.
    pub(crate) fn sinkhorn(&mut self, x: TensorId, eps: f32, rounds: u32) -> Result<()> {
        let values = self.program.width(x);
        let args = SinkhornArgs { x: self.tensor(x), size: values.isqrt() as u32, rounds, eps, pad: 0 };
        let threads = values.next_multiple_of(32);
        self.launch(&self.model.device.kernels.sinkhorn, [self.shape.n, 1, 1], threads as u32, 4 * threads, &args)
    }

    pub(crate) fn dot(&mut self, [x, y, out]: [TensorId; 3]) -> Result<()> {
        const WARPS: usize = 4;
        let heads = self.program.width(out);
        let [first, second, to] = [x, y, out].map(|tensor| self.tensor(tensor));
        let dim = (self.program.width(x) / heads) as u32;
        let args = DotArgs { x: first, y: second, out: to, heads: heads as u32, dim };
        let blocks = [heads.div_ceil(WARPS), self.shape.n, 1];
        self.launch(&self.model.device.kernels.dot, blocks, 32 * WARPS as u32, 0, &args)
    }

    /// `x += part of the media row`, for tokens that are media rows; a step may have none.
    pub(crate) fn add_media(&mut self, x: TensorId, part: usize) -> Result<()> {
        let StepArgs { media, media_width, .. } = self.step.args;
        if media == 0 {
            return Ok(());
        }
        let by = media + (4 * part * self.program.width(x)) as Address;
        self.modify(x, Modification::AddMedia, 0.0, |args| (args.by, args.length) = (by, media_width))
    }

    /// Copies the heads of `x`, from value `first` of each row on, each followed by `tail`; or the values at the
    /// indices `by` of each row.
    pub(crate) fn join(
        &mut self,
        [x, out]: [TensorId; 2],
        first: usize,
        tail: Option<TensorId>,
        heads: usize,
        by: Option<Vector>,
    ) -> Result<()> {
        let width = |tensor: TensorId| self.program.width(tensor);
        let (to, tail_width) = (width(out) / heads, tail.map_or(0, width));
        let args = JoinArgs {
            x: self.tensor(x) + 4 * first as Address,
            tail: tail.map_or(0, |tail| self.tensor(tail)),
            out: self.tensor(out),
            heads: heads as u32,
            part: (to - tail_width) as u32,
            x_stride: (width(x) / heads) as u32,
            tail_width: tail_width as u32,
            by: self.model.weights.vector(by),
        };
        let blocks = [self.shape.n * heads, to.div_ceil(1024), 1];
        self.launch(&self.model.device.kernels.join, blocks, 256, 0, &args)
    }

    pub(crate) fn project_heads(&mut self, [x, out]: [TensorId; 2], weight: Weight, heads: usize) -> Result<()> {
        const WARPS: usize = 4;
        let w = self.model.weights.matrix(weight);
        let [from, to] = [x, out].map(|tensor| self.program.width(tensor) / heads);
        let rows = w.rows as usize / heads;
        let args = ProjectHeadsArgs {
            w,
            x: self.tensor(x),
            out: self.tensor(out),
            n: self.shape.n as u32,
            heads: heads as u32,
            rows: rows as u32,
            // The other columns are copied after the products.
            cols: (from + rows - to) as u32,
            from: from as u32,
            to: to as u32,
        };
        // One lane per eight columns of a row, up to a warp.
        let lanes = (w.cols as usize / 8).next_power_of_two().min(32);
        let blocks = [rows.div_ceil(WARPS * 32 / lanes), heads, self.shape.n.div_ceil(HEAD_TOKENS)];
        self.launch(&self.model.device.kernels.project_heads, blocks, 32 * WARPS as u32, 0, &args)
    }

    /// Returns the arguments of a step whose tiles are whole sequences.
    fn sequences(&self) -> StepArgs {
        let SentTokens { args, tilings, .. } = self.step;
        let Tiling { address: tiles, n: n_tiles, .. } = tilings[self.dims.tiling(WHOLE)];
        StepArgs { tiles, n_tiles, ..args }
    }

    pub(crate) fn conv(&mut self, op: &Conv) -> Result<()> {
        let (weights, width) = (&self.model.weights, self.program.width(op.x));
        let args = ConvArgs {
            step: self.sequences(),
            x: self.tensor(op.x),
            kernel: weights.vector(Some(op.kernel)),
            bias: weights.vector(op.bias),
            recurrent: self.recurrent_offsets[op.recurrent.0 as usize],
            width: width as u32,
            taps: op.taps as u32,
            silu: u32::from(op.silu),
            pad: 0,
        };
        let k = &self.model.device.kernels;
        let kernel = if op.taps <= 4 { &k.conv_4 } else { &k.conv_16 };
        self.launch(kernel, [width.div_ceil(128), args.step.n_tiles as usize, 1], 128, 0, &args)
    }

    /// Embeds rows of a table by hashes of the last ids.
    pub(crate) fn embed_ngrams(&mut self, op: &EmbedNgrams) -> Result<()> {
        let (table, stride) = (self.model.weights.matrix(op.table), self.program.width(op.out));
        let width = stride / op.heads.len().max(1);
        let mut multipliers = [0; NGRAM];
        multipliers.iter_mut().zip(&op.multipliers).for_each(|(to, from)| *to = *from);
        for (i, chunk) in op.heads.chunks(NGRAM_HEADS).enumerate() {
            let mut heads = [NgramHead::default(); NGRAM_HEADS];
            for (to, from) in heads.iter_mut().zip(chunk) {
                *to = NgramHead { first: from.first, rows: from.rows, n: from.n as u32, pad: 0 };
            }
            let args = NgramArgs {
                step: self.step.args,
                table,
                following: self.scratch.tokens,
                out: self.tensor(op.out) + (4 * i * NGRAM_HEADS * width) as Address,
                recurrent: self.recurrent_offsets[op.recurrent.0 as usize],
                multipliers,
                heads,
                width: width as u32,
                stride: stride as u32,
                kept: op.multipliers.len() as u32 - 1,
                end: op.end,
                keeps: u32::from(i == 0),
                pad: 0,
            };
            self.launch(&self.model.device.kernels.ngrams, [self.shape.n, chunk.len(), 1], 128, 0, &args)?;
        }
        Ok(())
    }

    /// Sums of the groups of positions that end at the step's tokens.
    pub(crate) fn pool(&mut self, op: &Pool) -> Result<()> {
        let [width, out_width] = [op.x, op.out].map(|tensor| self.program.width(tensor));
        let args = PoolArgs {
            step: self.sequences(),
            gate: self.tensor(op.gate),
            x: self.tensor(op.x),
            bias: self.model.weights.vector(Some(op.bias)),
            out: self.tensor(op.out),
            recurrent: self.recurrent_offsets[op.recurrent.0 as usize],
            width: width as u32,
            out_width: out_width as u32,
            size: op.size as u32,
            pad: 0,
        };
        let blocks = [width.div_ceil(128), args.step.n_tiles as usize, 1];
        self.launch(&self.model.device.kernels.pool, blocks, 128, 0, &args)
    }

    /// Returns the number of input chunks that fit in shared memory, and that memory in bytes; `None` if the step uses
    /// single steps instead. `dim`: key width; `columns`: value width.
    fn chunks(&self, n_sequences: usize, dim: usize, columns: usize) -> Option<(u32, usize)> {
        let device = &self.model.device;
        if device.is_batch_invariant
            || self.shape.n < CHUNK_PAYS * n_sequences
            || !dim.is_multiple_of(4)
            || !columns.is_multiple_of(4)
        {
            return None;
        }
        // The layout of `ChunkMemory` and `ChunkStage`; the last term is the decays of eight warps.
        let (dim, column_stride, token_stride) = (dim.next_multiple_of(16), CHUNK_SIZE + 8, CHUNK_SIZE + 4);
        let kept = dim * column_stride + 2 * CHUNK_SIZE * token_stride + CHUNK_SIZE * column_stride + 8 * CHUNK_SIZE;
        let stage = 2 * CHUNK_SIZE * (dim + 4) + CHUNK_SIZE * (column_stride + 2);
        let bytes = |stages: u32| 4 * (kept + stages as usize * stage);
        let room = device.context.properties.shared_per_block as usize;
        [2, 1].into_iter().find(|stages| bytes(*stages) <= room).map(|stages| (stages, bytes(stages)))
    }

    pub(crate) fn delta_rule(&mut self, op: &DeltaRule) -> Result<()> {
        let width = |tensor: TensorId| self.program.width(tensor);
        let (heads, values) = (width(op.beta), width(op.v));
        let step = self.sequences();
        let by_row = width(op.dt) > heads;
        let chunks = self.chunks(step.n_tiles as usize, op.key_dim, values / heads).filter(|_| !by_row);
        let args = DeltaArgs {
            step,
            q: self.tensor(op.q),
            k: self.tensor(op.k),
            v: self.tensor(op.v),
            dt: self.tensor(op.dt),
            beta: self.tensor(op.beta),
            rate: self.model.weights.vector(Some(op.rate)),
            out: self.tensor(op.out),
            recurrent: self.recurrent_offsets[op.recurrent.0 as usize],
            heads: heads as u32,
            key_heads: (width(op.k) / op.key_dim) as u32,
            key_dim: op.key_dim as u32,
            value_dim: (values / heads) as u32,
            by_row: u32::from(by_row),
            tiled: u32::from(op.tiled),
            stages: chunks.map_or(0, |(stages, _)| stages),
            pad: 0,
        };
        let k = &self.model.device.kernels;
        if let Some((_, shared)) = chunks {
            let kernel = if op.key_dim <= 128 { &k.delta_chunks_128 } else { &k.delta_chunks_256 };
            let blocks = [heads * (values / heads).div_ceil(CHUNK_SIZE), args.step.n_tiles as usize, 1];
            return self.launch(kernel, blocks, CHUNK_THREADS as u32, shared, &args);
        }
        let kernel = match op.key_dim {
            ..=64 => &k.delta_64,
            65..=128 => &k.delta_128,
            _ => &k.delta_256,
        };
        self.launch(kernel, [values / SCAN_COLUMNS, args.step.n_tiles as usize, 1], 64, 0, &args)
    }

    pub(crate) fn scan(&mut self, op: &Scan) -> Result<()> {
        let (weights, width) = (&self.model.weights, |tensor: TensorId| self.program.width(tensor));
        let (channels, heads) = (width(op.x), width(op.dt));
        let step = self.sequences();
        let by_state = weights.vector_len(op.rate) > heads;
        let chunks = self.chunks(step.n_tiles as usize, op.state, channels / heads).filter(|_| !by_state);
        let args = ScanArgs {
            step,
            x: self.tensor(op.x),
            dt: self.tensor(op.dt),
            b: self.tensor(op.b),
            c: self.tensor(op.c),
            rate: weights.vector(Some(op.rate)),
            skip: weights.vector(Some(op.skip)),
            out: self.tensor(op.out),
            recurrent: self.recurrent_offsets[op.recurrent.0 as usize],
            heads: heads as u32,
            head_dim: (channels / heads) as u32,
            groups: (width(op.b) / op.state) as u32,
            state: op.state as u32,
            by_state: u32::from(by_state),
            stages: chunks.map_or(0, |(stages, _)| stages),
        };
        let k = &self.model.device.kernels;
        if let Some((_, shared)) = chunks {
            let kernel = if op.state <= 128 { &k.scan_chunks_128 } else { &k.scan_chunks_256 };
            let blocks = [heads * (channels / heads).div_ceil(CHUNK_SIZE), args.step.n_tiles as usize, 1];
            return self.launch(kernel, blocks, CHUNK_THREADS as u32, shared, &args);
        }
        let kernel = match op.state {
            ..=16 => &k.scan_16,
            17..=128 => &k.scan_128,
            _ => &k.scan_256,
        };
        self.launch(kernel, [channels / SCAN_COLUMNS, args.step.n_tiles as usize, 1], 64, 0, &args)
    }

    pub(crate) fn wkv(&mut self, op: &Wkv) -> Result<()> {
        let (width, dim) = (self.program.width(op.r), op.dim);
        let args = WkvArgs {
            step: self.sequences(),
            r: self.tensor(op.r),
            k: self.tensor(op.k),
            v: self.tensor(op.v),
            dt: self.tensor(op.dt),
            moved: op.moved.map_or([0; 2], |moved| moved.map(|tensor| self.tensor(tensor))),
            out: self.tensor(op.out),
            recurrent: self.recurrent_offsets[op.recurrent.0 as usize],
            heads: (width / dim) as u32,
            key_heads: (self.program.width(op.k) / dim) as u32,
            dim: dim as u32,
            by_rate: u32::from(op.rate.is_some()),
            rate: op.rate.unwrap_or(0.0),
            before: u32::from(op.before),
            fades: u32::from(op.fades),
            pad: 0,
        };
        let k = &self.model.device.kernels;
        let kernel = match dim {
            ..=64 => &k.wkv_64,
            65..=128 => &k.wkv_128,
            _ => &k.wkv_256,
        };
        self.launch(kernel, [width / SCAN_COLUMNS, args.step.n_tiles as usize, 1], 64, 0, &args)
    }
}
