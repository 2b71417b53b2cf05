//! Ops become launches: a short function an op, and one for each set of ops that share a kernel.
//!
//! One row takes matrix-times-vector kernels, several take matrix-times-matrix. Relies on `Program::check` for shapes and on
//! `fuse` for what may be left unwritten. Refuses to know when a step runs and whether it is recorded.

use std::ops::Range;

use super::device::CudaModel;
use super::fuse::{Fusion, Fusions, HeadOps};
use super::launch::{CudaKernel, Current, Grid, Stream};
use super::module::{
    ArgmaxArgs, AttendArgs, CombineArgs, DeviceMatrix, DeviceNorm, EmbedArgs, Epilogue, GluArgs, GroupArgs, HalvesArgs,
    HeadsArgs, KeepRowsArgs, KvPlace, NormArgs, ProjectArgs, RouteArgs, ScaleArgs, Segment, StepArgs,
};
use super::probe::Address;
use super::profile::Profile;
use super::scratch::{ARGMAX_BLOCKS, DeviceScratch, ExecutorDims, FEW_TOKENS, TILE_ROWS, gemv_shared};
use crate::backend::Part;
use crate::backend::op::{
    Act, Activation, Attend, Experts, Index, Norm, NormKind, Op, Projection, RopeChoice, RouterScore, Routing, Vector,
    Weight,
};
use crate::backend::program::Program;
use crate::backend::weights::RopePairs;
use crate::error::{Error, Result};
use crate::quant;

/// Matrices that one launch takes.
const MAX_SEGMENTS: usize = 4;

/// Numbers that launches depend on besides ops and memory: equal shapes launch equal grids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepShape {
    pub n: usize,
    pub n_outputs: usize,
    pub n_tiles: usize,
    pub n_slots: usize,
    /// Shares of a tile's positions; 0 where a warp takes a whole tile.
    pub splits: usize,
    /// `n_tiles` and `splits` for the outputs alone.
    pub kept_tiles: usize,
    pub kept_splits: usize,
    /// All caches hold F16.
    pub halves: bool,
    /// The largest bound of a rotation that the room of the caches is above.
    pub longer_than: Option<usize>,
}

impl StepShape {
    /// The shape of the outputs alone.
    pub fn kept(self) -> StepShape {
        StepShape { n: self.n_outputs, n_tiles: self.kept_tiles, splits: self.kept_splits, ..self }
    }
}

pub struct Lowering<'a> {
    pub model: &'a CudaModel,
    pub program: &'a Program,
    pub fusions: &'a Fusions,
    pub dims: &'a ExecutorDims,
    pub scratch: &'a DeviceScratch,
    /// Addresses of activations by `Act`.
    pub acts: &'a [Address],
    pub current: &'a Current<'a>,
    pub stream: &'a Stream,
    /// Shape and arguments of the tokens that activations have rows for.
    pub shape: StepShape,
    pub step: StepArgs,
    /// Arguments for the outputs alone.
    pub kept_step: StepArgs,
    /// Address of the address that arg-maxes are written to.
    pub answers: Address,
    /// Places of layers in caches, by `StateId`.
    pub kv_places: &'a [KvPlace],
    /// The next launch has a kernel ahead of it, so that it may start early.
    pub follows: bool,
    pub profile: Option<&'a mut Profile>,
}

/// An activation as the input of a product.
#[derive(Clone, Copy)]
struct ProductInput {
    address: Address,
    width: usize,
    norm: DeviceNorm,
}

fn activation_code(activation: Activation) -> u32 {
    match activation {
        Activation::Silu => 0,
        Activation::Gelu => 1,
        Activation::GeluErf => 2,
        Activation::Relu => 3,
        Activation::Relu2 => 4,
        Activation::ClampedSwiglu => 5,
        // `CudaDevice::supports` refuses them.
        Activation::Identity | Activation::Sigmoid | Activation::Softplus => u32::MAX,
    }
}

/// Part of a step that the time of ops is counted in.
fn part(fusion: Fusion, op: &Op) -> Part {
    match (fusion, op) {
        (Fusion::Heads(_), _) | (_, Op::Rope { .. } | Op::StoreKv { .. } | Op::Attend(_)) => Part::Attention,
        (_, Op::Project { .. }) => Part::Products,
        (_, Op::Experts(_)) => Part::Experts,
        (_, Op::Logits { .. }) => Part::Head,
        _ => Part::Other,
    }
}

impl Lowering<'_> {
    /// Launches ops in order until none is left or `stop`, asked between launches, says so; returns the first one left.
    pub fn run(&mut self, ops: Range<usize>, stop: &dyn Fn() -> bool) -> Result<usize> {
        let mut at = ops.start;
        while at < ops.end && !stop() {
            at += self.next(at)?;
        }
        self.mark(None)?;
        Ok(at)
    }

    fn mark(&mut self, part: Option<Part>) -> Result<()> {
        let Some(profile) = &mut self.profile else { return Ok(()) };
        // What starts early would be measured with what is ahead of it.
        self.follows = false;
        profile.mark(self.current, self.stream, part)
    }

    /// Launches the ops that are executed together from op `at` on, and returns their number.
    fn next(&mut self, at: usize) -> Result<usize> {
        let (program, fusion) = (self.program, self.fusions.at(at, self.shape.n));
        let ops = &program.ops[at..at + fusion.ops()];
        if fusion != Fusion::Delayed {
            self.mark(Some(part(fusion, &ops[0])))?;
        }
        match (fusion, ops) {
            (Fusion::Delayed, _) => {}
            (Fusion::EmbedSum, [Op::Embed { table, index, scale, .. }, Op::Add { x, scale: factor, .. }]) => {
                self.embed(*table, *index, scale * factor, *x, true)?;
            }
            (Fusion::SumNorm, [Op::Add { x, delta, scale }, Op::Norm { norm, out, .. }]) => {
                self.add_norm(*x, Some((*delta, *scale)), Some((norm, *out)))?;
            }
            (Fusion::ProductSum, [Op::Project { x: input, projections }, Op::Add { x, scale, .. }]) => {
                let args = ProjectArgs { epilogue: Epilogue::Add as u32, scale: *scale, ..Default::default() };
                self.project(*input, &[Projection { out: *x, ..projections[0] }], args)?;
            }
            (Fusion::ProductGate, [Op::Project { x, projections }, Op::Glu { activation, .. }]) => {
                let (epilogue, activation) = (Epilogue::Glu as u32, activation_code(*activation));
                self.project(*x, projections, ProjectArgs { epilogue, activation, ..Default::default() })?;
            }
            (_, ops) => match HeadOps::new(program, ops) {
                Some(heads) => self.heads(&heads)?,
                None => self.execute(&ops[0])?,
            },
        }
        Ok(ops.len())
    }

    fn execute(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Embed { table, index, scale, out, .. } => self.embed(*table, *index, *scale, *out, false),
            Op::Norm { norm, x, out } => self.add_norm(*x, None, Some((norm, *out))),
            Op::Add { x, delta, scale } => self.add_norm(*x, Some((*delta, *scale)), None),
            Op::Scale { x, factor } => self.scale(*x, *factor),
            Op::Project { x, projections } => {
                projections.chunks(MAX_SEGMENTS).try_for_each(|p| self.project(*x, p, ProjectArgs::default()))
            }
            Op::KeepOutputs { moves } => self.keep_outputs(moves),
            Op::Attend(attend) => self.attend(attend),
            Op::Glu { gate, up, activation } => {
                let n = self.shape.n * self.program.width(*gate);
                self.glu(self.act(*gate), up.map_or(0, |up| self.act(up)), n, *activation)
            }
            Op::Experts(experts) => {
                self.route(experts.scores, &experts.routing)?;
                self.experts(experts)
            }
            Op::Logits { x, head, bias, scale, softcap } => self.logits(*x, *head, *bias, *scale, *softcap),
            // `HeadOps` has the first two; `CudaDevice::supports` refuses the others.
            Op::Rope { .. }
            | Op::StoreKv { .. }
            | Op::ScaleColumns { .. }
            | Op::ScaleByPosition { .. }
            | Op::Clamp { .. }
            | Op::Gate { .. }
            | Op::Conv(_)
            | Op::DeltaRule(_)
            | Op::Scan(_) => Ok(()),
            Op::ProjectHeads { .. } | Op::JoinHeads { .. } | Op::Slice { .. } => Ok(()),
        }
    }

    // ---- operands

    fn act(&self, act: Act) -> Address {
        self.acts[act.0 as usize]
    }

    fn input(&self, act: Act) -> ProductInput {
        let (act, norm) = match self.fusions.delayed(act) {
            Some((norm, x)) => (x, self.norm(Some(&norm))),
            None => (act, DeviceNorm::default()),
        };
        ProductInput { address: self.act(act), width: self.program.width(act), norm }
    }

    fn norm(&self, norm: Option<&Norm>) -> DeviceNorm {
        let Some(norm) = norm else { return DeviceNorm::default() };
        let weights = &self.model.weights;
        let kind = match norm.kind {
            NormKind::Rms => 1,
            NormKind::Layer => 2,
        };
        let (weight, bias) = (weights.vector(norm.weight), weights.vector(norm.bias));
        DeviceNorm { weight, bias, eps: norm.eps, kind }
    }

    // ---- launches

    fn launch<A: Copy>(
        &mut self,
        kernel: &CudaKernel<A>,
        blocks: [usize; 3],
        threads: u32,
        shared: usize,
        args: &A,
    ) -> Result<()> {
        let early = self.follows && self.model.device.early_launch;
        let grid = Grid { blocks: blocks.map(|n| n as u32), threads, shared: shared as u32, early };
        self.follows = true;
        self.current.launch(self.stream, kernel, grid, args)
    }

    fn embed(&mut self, table: Weight, index: Index, scale: f32, x: Act, accumulate: bool) -> Result<()> {
        let rows = match index {
            Index::Id => self.step.ids,
            Index::Position => self.step.positions,
            Index::Zero => return Err(Error::unsupported("the embedding of a type of tokens on a GPU")),
        };
        let args = EmbedArgs {
            table: self.model.weights.matrix(table),
            rows,
            following: self.scratch.tokens,
            x: self.act(x),
            width: self.program.width(x) as u32,
            accumulate: u32::from(accumulate),
            scale,
            pad: 0,
        };
        self.launch(&self.model.device.kernels.embed, [self.shape.n, 1, 1], 128, 0, &args)
    }

    /// `x += scale * delta`, then the norm of `x` into another activation.
    fn add_norm(&mut self, x: Act, delta: Option<(Act, f32)>, norm: Option<(&Norm, Act)>) -> Result<()> {
        let width = self.program.width(x);
        let group = norm.map_or(width, |(norm, _)| norm.group);
        let args = NormArgs {
            norm: self.norm(norm.map(|(norm, _)| norm)),
            x: self.act(x),
            delta: delta.map_or(0, |(delta, _)| self.act(delta)),
            out: norm.map_or(0, |(_, out)| self.act(out)),
            group: group as u32,
            scale: delta.map_or(0.0, |(_, scale)| scale),
        };
        let blocks = [self.shape.n * width / group, 1, 1];
        self.launch(&self.model.device.kernels.add_norm, blocks, 256, 128, &args)
    }

    fn scale(&mut self, x: Act, factor: f32) -> Result<()> {
        let n = self.shape.n * self.program.width(x);
        let args = ScaleArgs { x: self.act(x), n: n as u64, factor, pad: 0 };
        self.launch(&self.model.device.kernels.scale, [n.div_ceil(256).min(4096), 1, 1], 256, 0, &args)
    }

    fn glu(&mut self, gate: Address, up: Address, n: usize, activation: Activation) -> Result<()> {
        let args = GluArgs { gate, up, n: n as u64, activation: activation_code(activation), pad: 0 };
        self.launch(&self.model.device.kernels.glu, [n.div_ceil(256).min(4096), 1, 1], 256, 0, &args)
    }

    /// Products of an activation with matrices; `args` says what follows them.
    fn project(&mut self, input: Act, projections: &[Projection], args: ProjectArgs) -> Result<()> {
        let mut segments = [Segment::default(); MAX_SEGMENTS];
        for (segment, p) in segments.iter_mut().zip(projections) {
            let weights = &self.model.weights;
            *segment = Segment { w: weights.matrix(p.weight), out: self.act(p.out), bias: weights.vector(p.bias) };
        }
        self.products(self.input(input), ProjectArgs { segments, n_segments: projections.len() as u32, ..args })
    }

    fn products(&mut self, input: ProductInput, args: ProjectArgs) -> Result<()> {
        let n = self.shape.n;
        let mut args = ProjectArgs { cols: input.width as u32, n: n as u32, ..args };
        if n == 1 && !self.model.device.fixed {
            (args.x, args.x_stride, args.x_divisor, args.norm) = (input.address, input.width as u32, 1, input.norm);
            return self.gemv(&mut args, 1);
        }
        self.halves(input, args.segments[0].w.cols, n)?;
        self.gemm(&mut args, n, [n, 1])
    }

    /// `rows` rows of an input in binary16.
    fn halves(&mut self, input: ProductInput, padded: u32, rows: usize) -> Result<()> {
        let halves = HalvesArgs {
            x: input.address,
            halves: self.scratch.halves,
            row_scales: self.scratch.row_scales,
            norm: input.norm,
            cols: input.width as u32,
            padded,
            x_stride: input.width as u32,
            pad: 0,
        };
        self.launch(&self.model.device.kernels.to_halves, [rows, 1, 1], 256, 128, &halves)
    }

    /// Matrix times matrix in tiles that suit `usual` rows of input, for `most` rows in each of `z` groups.
    fn gemm(&mut self, args: &mut ProjectArgs, usual: usize, [most, z]: [usize; 2]) -> Result<()> {
        let k = &self.model.device.kernels;
        (args.halves, args.row_scales) = (self.scratch.halves, self.scratch.row_scales);
        let segments = &args.segments[..args.n_segments as usize];
        let tiles = segments.iter().map(|s| (s.w.rows as usize).div_ceil(128)).sum();
        let (kernel, tokens) = match usual {
            0..=16 => (&k.gemm_16, 16),
            17..=64 => (&k.gemm_64, 64),
            _ => (&k.gemm_128, 128),
        };
        // Four stages of 32 columns in binary16.
        self.launch(kernel, [tiles, most.div_ceil(tokens), z], 128, 4 * 64 * tokens, args)
    }

    /// Matrix times vector for `y` rows of the grid.
    fn gemv(&mut self, args: &mut ProjectArgs, y: usize) -> Result<()> {
        const WARPS: usize = 8;
        let device = &self.model.device;
        let segments = &args.segments[..args.n_segments as usize];
        let is_plain = |m: &DeviceMatrix| [quant::F32, quant::F16, quant::BF16].contains(&m.dtype());
        let plain = segments.iter().any(|s| is_plain(&s.w));
        let blocks = segments.iter().any(|s| !is_plain(&s.w));
        args.forms = u32::from(plain) + 2 * u32::from(blocks);
        let shared = gemv_shared(segments[0].w.cols as usize, plain, blocks);
        let turns: usize = match args.epilogue == Epilogue::Glu as u32 {
            true => segments[0].w.rows as usize,
            false => segments.iter().map(|s| (s.w.rows as usize).div_ceil(2)).sum(),
        };
        // Two blocks a processor fill it; more would only prepare the input more often.
        let fill = (2 * device.context.properties.multiprocessors as usize / y).max(1);
        self.launch(&device.kernels.gemv, [turns.div_ceil(WARPS).min(fill), y, 1], 32 * WARPS as u32, shared, args)
    }

    /// Norms of heads, rotation and the cache.
    fn heads(&mut self, ops: &HeadOps) -> Result<()> {
        let (program, weights) = (self.program, &self.model.weights);
        let count = |act: Option<Act>| act.map_or(0, |act| program.width(act) / ops.head_dim);
        let address = |act: Option<Act>| act.map_or(0, |act| self.act(act));
        let mut args = HeadsArgs {
            step: self.step,
            q: address(ops.q),
            k: address(ops.k),
            v: address(ops.store.map(|(_, v)| v)),
            q_norm: self.norm(ops.q_norm),
            k_norm: self.norm(ops.k_norm),
            inv_freq: 0,
            n_pairs: 0,
            adjacent: 0,
            magnitude: 1.0,
            heads: count(ops.q) as u32,
            kv_heads: count(ops.k) as u32,
            head_dim: ops.head_dim as u32,
            store: u32::from(ops.store.is_some()),
            layer: ops.store.map(|(state, _)| self.kv_places[state.0 as usize]).unwrap_or_default(),
        };
        if let Some(RopeChoice { table, long }) = ops.rope {
            let table = match long {
                Some((above, long)) if self.shape.longer_than.is_some_and(|bound| bound >= above) => long,
                _ => table,
            };
            let rope = weights.rope(table);
            (args.inv_freq, args.n_pairs) = (rope.inv_freq, rope.pairs as u32);
            args.adjacent = u32::from(rope.order == RopePairs::Adjacent);
            args.magnitude = rope.magnitude;
        }
        const WARPS: usize = 4;
        let blocks = (count(ops.q) + 2 * count(ops.k)).div_ceil(WARPS);
        self.launch(&self.model.device.kernels.heads, [blocks, self.shape.n, 1], 32 * WARPS as u32, 0, &args)
    }

    /// Copies the rows of the outputs, which are the only ones from here on, unless all are and lie where they shall.
    fn keep_outputs(&mut self, moves: &[[Act; 2]]) -> Result<()> {
        let moves = moves.iter().filter(|[from, to]| self.act(*from) != self.act(*to));
        let moves: Vec<&[Act; 2]> = moves.collect();
        for moves in moves.chunks(2) {
            let mut args = KeepRowsArgs { from: [0; 2], to: [0; 2], rows: self.step.outputs, widths: [0; 2] };
            for (i, [from, to]) in moves.iter().enumerate() {
                (args.from[i], args.to[i]) = (self.act(*from), self.act(*to));
                args.widths[i] = self.program.width(*from) as u32;
            }
            let blocks = [self.shape.n_outputs, moves.len(), 1];
            self.launch(&self.model.device.kernels.keep_rows, blocks, 256, 0, &args)?;
        }
        (self.shape, self.step) = (self.shape.kept(), self.kept_step);
        Ok(())
    }

    fn attend(&mut self, op: &Attend) -> Result<()> {
        let (d, s) = (self.dims, self.shape);
        // A window is soon dealt out.
        let splits = match op.mask.span() {
            0 => s.splits,
            window => s.splits.min(window.div_ceil(64).next_power_of_two()),
        };
        let args = AttendArgs {
            step: self.step,
            q: self.act(op.q),
            out: self.act(op.out),
            partials: self.scratch.partials,
            counters: self.scratch.attention_counters,
            heads: d.heads as u32,
            kv_heads: d.kv_heads as u32,
            head_dim: d.head_dim as u32,
            layer: self.kv_places[op.state.0 as usize],
            first_tile: 0,
            window: op.mask.span() as u32,
            splits: splits as u32,
            scale: op.scale,
            softcap: op.softcap,
        };
        let k = &self.model.device.kernels;
        let (kernel, queries) = match (d.head_dim, s.halves) {
            (..=64, true) => (&k.attend_64, 0),
            (..=64, false) => (&k.attend_64_any, 0),
            (..=128, true) => (&k.attend_128, 0),
            (..=128, false) => (&k.attend_128_any, 0),
            // Queries of heads this long wait in shared memory: 16 steps of 512 bytes for each of four warps.
            (_, true) => (&k.attend_256, 4 * 16 * 512),
            (_, false) => (&k.attend_256_any, 4 * 16 * 512),
        };
        if splits == 0 {
            return self.launch(kernel, [s.n_tiles.div_ceil(4), d.attention_rows(), 1], 128, queries, &args);
        }
        let shared = queries + 4 * TILE_ROWS * (2 + d.head_dim) * 4 + 16;
        // As many tiles at a time as there is room for their parts.
        let tiles = (d.max_parts / (splits * d.attention_rows())).max(1);
        for first in (0..s.n_tiles).step_by(tiles) {
            let (n, args) = (tiles.min(s.n_tiles - first), AttendArgs { first_tile: first as u32, ..args });
            self.launch(kernel, [n * splits, d.attention_rows(), 1], 128, shared, &args)?;
        }
        Ok(())
    }

    fn route(&mut self, scores: Act, routing: &Routing) -> Result<()> {
        let n_experts = self.program.width(scores);
        let args = RouteArgs {
            scores: self.act(scores),
            experts: self.scratch.experts,
            weights: self.scratch.expert_weights,
            n_experts: n_experts as u32,
            n_used: routing.n_used as u32,
            softmax_first: u32::from(routing.score == RouterScore::Softmax),
            renormalise: u32::from(routing.renormalise),
        };
        self.launch(&self.model.device.kernels.route, [self.shape.n, 1, 1], 32, 4 * n_experts, &args)
    }

    /// Each chosen expert of each token is a matrix times a vector.
    fn experts(&mut self, op: &Experts) -> Result<()> {
        let (used, ffn, input) = (op.routing.n_used, op.ffn, self.input(op.x));
        let y = self.shape.n * used;
        let one = |weight: Weight, rows: usize, out: Address| {
            let w = DeviceMatrix { rows: rows as u32, ..self.model.weights.matrix(weight) };
            Segment { w, out, bias: 0 }
        };
        let gate = one(op.gate.unwrap_or(op.up), ffn, self.scratch.expert_gate);
        let up = one(op.up, ffn, self.scratch.expert_up);
        let down = one(op.down, input.width, self.scratch.expert_out);
        let first = ProjectArgs {
            segments: [gate, up, Segment::default(), Segment::default()],
            n_segments: 2,
            cols: input.width as u32,
            activation: activation_code(op.activation),
            x_divisor: used as u32,
            ..Default::default()
        };
        let second = ProjectArgs {
            segments: [down, Segment::default(), Segment::default(), Segment::default()],
            n_segments: 1,
            cols: ffn as u32,
            x_divisor: 1,
            ..Default::default()
        };
        if self.shape.n > FEW_TOKENS && !self.model.device.fixed {
            self.gathered(input, first, second, op)?;
        } else {
            let together = gate.w.dtype == up.w.dtype;
            let mut args = ProjectArgs {
                epilogue: if together { Epilogue::Glu } else { Epilogue::Store } as u32,
                x: input.address,
                x_stride: input.width as u32,
                experts: self.scratch.experts,
                norm: input.norm,
                ..first
            };
            self.gemv(&mut args, y)?;
            if !together {
                self.glu(gate.out, up.out, y * ffn, op.activation)?;
            }
            let (x, x_stride) = (gate.out, ffn as u32);
            self.gemv(&mut ProjectArgs { x, x_stride, experts: self.scratch.experts, ..second }, y)?;
        }
        let args = CombineArgs {
            parts: down.out,
            weights: self.scratch.expert_weights,
            out: self.act(op.out),
            width: input.width as u32,
            n_used: used as u32,
        };
        let blocks = [input.width.div_ceil(256), self.shape.n, 1];
        self.launch(&self.model.device.kernels.combine, blocks, 256, 0, &args)
    }

    /// Each expert is a matrix times the rows of all tokens that chose it.
    fn gathered(&mut self, input: ProductInput, first: ProjectArgs, second: ProjectArgs, op: &Experts) -> Result<()> {
        let (n, n_experts) = (self.shape.n, op.n_experts);
        let picks = n * op.routing.n_used;
        let (order, starts) = (self.scratch.expert_order, self.scratch.expert_starts);
        let args = GroupArgs { experts: self.scratch.experts, order, starts, picks: picks as u32, pad: 0 };
        self.launch(&self.model.device.kernels.group, [n_experts, 1, 1], 256, 2 * 256 * 4, &args)?;
        // No token chooses an expert twice.
        let (usual, grid) = (picks.div_ceil(n_experts), [n, n_experts]);
        self.halves(input, first.segments[0].w.cols, n)?;
        self.gemm(&mut ProjectArgs { order, starts, ..first }, usual, grid)?;
        let (gate, up) = (first.segments[0].out, first.segments[1].out);
        let width = second.cols as usize;
        self.glu(gate, up, picks * width, op.activation)?;
        let input = ProductInput { address: gate, width, norm: DeviceNorm::default() };
        self.halves(input, second.segments[0].w.cols, picks)?;
        self.gemm(&mut ProjectArgs { order, starts, ..second }, usual, grid)
    }

    /// Logits of the rows that are left, and the arg-max of each.
    fn logits(&mut self, x: Act, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()> {
        let (weights, vocab) = (&self.model.weights, self.program.vocab);
        let (w, bias) = (weights.matrix(head), weights.vector(bias));
        let mut args =
            ProjectArgs { n_segments: 1, epilogue: Epilogue::Cap as u32, scale, softcap, ..Default::default() };
        args.segments[0] = Segment { w, out: self.scratch.logits, bias };
        self.products(self.input(x), args)?;
        let args = ArgmaxArgs {
            values: self.scratch.logits,
            best: self.scratch.best,
            at: self.scratch.best_at,
            counters: self.scratch.argmax_counters,
            answers: self.answers,
            tokens: self.scratch.tokens,
            width: vocab as u32,
            pad: 0,
        };
        let blocks = [vocab.div_ceil(1024).min(ARGMAX_BLOCKS), self.shape.n, 1];
        self.launch(&self.model.device.kernels.argmax, blocks, 256, 2 * 128 + 16, &args)
    }
}
