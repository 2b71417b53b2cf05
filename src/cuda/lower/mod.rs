//! Lowers ops to launches: a short function per op, and one per set of ops that share a kernel.
//!
//! One or two rows use GEMV kernels; few rows and many rows have separate kernels. Relies on `Program::check` for
//! shapes and on `fuse` for intermediate results that may stay unwritten.

mod adapt;
mod attention;
mod choose;
mod experts;
mod rows;
mod shape;

use std::ffi::CStr;
use std::ops::Range;

pub use shape::{SampledTokens, StepShape, TileCounts};

use super::adapted::Adapted;
use super::args::{
    self, BYTE_CHUNK, BYTE_STAGES, ColumnOrder, DeviceNorm, EmbedArgs, Epilogue, GEMV_ROWS, GEMV_THREADS, GROUP_STAGES,
    GluArgs, HalvesArgs, KeepRowsArgs, KvPlace, MAX_SEGMENTS, Modification, NormArgs, PrepareArgs, ProjectArgs,
    RING_THREADS, SMALL_BATCH_CHUNK, SMALL_BATCH_ROWS, Segment, WARP,
};
use super::device::{CudaDevice, CudaModel, PromptKernel};
use super::inputs::SentTokens;
use super::launch::{CudaKernel, Current, Grid, Stream};
use super::profile::Profile;
use super::rules::StepRules;
use super::scratch::{DeviceScratch, ExecutorDims, OWN_ROWS, gemv_shared, is_plain, padded, ring_blocks, route_shared};
use crate::error::Result;
use crate::gpu::Address;
use crate::gpu::fuse::{Fusion, Fusions, HeadOps};
use crate::graph::device_info::Part;
use crate::graph::op::{Activation, Index, Mix, Norm, NormKind, Op, Projection, TensorId, Vector, Weight};
use crate::graph::program::Program;
use crate::quant;

/// Number of input rows up to which products use blocks of `small_batch.cu`, in several passes.
const SEVERAL_BATCHES: usize = 3 * SMALL_BATCH_ROWS;

/// Warps per block of `gemv.cu`.
const WARPS: usize = GEMV_THREADS / WARP;

pub struct Lowering<'a> {
    pub model: &'a CudaModel,
    pub program: &'a Program,
    pub fusions: &'a Fusions,
    pub dims: &'a ExecutorDims,
    pub scratch: &'a DeviceScratch,
    /// Addresses of activations by `TensorId`.
    pub tensors: &'a [Address],
    pub current: &'a Current<'a>,
    pub stream: &'a Stream,
    /// Shape, arguments and tiles of the tokens that activations hold now.
    pub shape: StepShape,
    pub step: SentTokens,
    /// Arguments and tiles of only the outputs.
    pub kept_step: SentTokens,
    pub sampled: SampledTokens,
    pub rules: StepRules,
    pub adapted: &'a Adapted,
    /// Locations of layers in KV caches, by `KvLayerId`.
    pub kv_places: &'a [KvPlace],
    /// Offsets of recurrent states in a buffer, by `RecurrentId`.
    pub recurrent_offsets: &'a [u64],
    /// True if a kernel precedes the next launch, which may then start early (programmatic dependent launch).
    pub follows: bool,
    pub profile: Option<&'a mut Profile>,
    /// Names of the launched kernels.
    pub launched: &'a mut Vec<&'static CStr>,
}

/// An activation as the input of a product.
#[derive(Clone, Copy)]
pub(crate) struct ProductInput {
    pub address: Address,
    pub width: usize,
    /// Distance between rows in values.
    pub stride: usize,
    pub norm: DeviceNorm,
}

/// Returns the kernels' code of an activation function, and its limits.
pub(crate) fn activation_code(activation: Activation) -> (u32, [f32; 2]) {
    let (code, limits) = match activation {
        Activation::Silu => (args::Activation::Silu, [0.0; 2]),
        Activation::Gelu => (args::Activation::Gelu, [0.0; 2]),
        Activation::GeluErf => (args::Activation::GeluErf, [0.0; 2]),
        Activation::QuickGelu => (args::Activation::QuickGelu, [0.0; 2]),
        Activation::Relu => (args::Activation::Relu, [0.0; 2]),
        Activation::Relu2 => (args::Activation::Relu2, [0.0; 2]),
        Activation::ClampedSwiglu => (args::Activation::ClampedSwiglu, [0.0; 2]),
        Activation::SwigluOfClamped(limit) => (args::Activation::SwigluOfClamped, [limit, 0.0]),
        Activation::SwigluThenClamped(limit) => (args::Activation::SwigluThenClamped, [limit, 0.0]),
        Activation::Identity => (args::Activation::Identity, [0.0; 2]),
        Activation::Sigmoid => (args::Activation::Sigmoid, [0.0; 2]),
        Activation::Softplus => (args::Activation::Softplus, [0.0; 2]),
        Activation::Tanh => (args::Activation::Tanh, [0.0; 2]),
        Activation::SignedRoot => (args::Activation::SignedRoot, [0.0; 2]),
        Activation::TanhSwiglu(limits) => (args::Activation::TanhSwiglu, limits),
    };
    (code as u32, limits)
}

/// Returns the part of a step to which the time of an op is attributed.
fn part(fusion: Fusion, op: &Op) -> Part {
    match (fusion, op) {
        (Fusion::Heads(_) | Fusion::Attention { .. }, _)
        | (_, Op::Rope { .. } | Op::StoreKv { .. } | Op::Attend(_)) => Part::Attention,
        (_, Op::Project { .. }) => Part::Products,
        (_, Op::Experts(_)) => Part::Experts,
        (_, Op::Logits { .. }) => Part::Head,
        _ => Part::Other,
    }
}

/// True if all matrices of a product have types with blocks.
fn has_blocks(args: &ProjectArgs) -> bool {
    !args.segments[..args.n_segments as usize].iter().any(|s| is_plain(s.w.dtype()))
}

/// A kernel for products in tiles of 128 matrix rows.
pub(crate) struct Tile<'a> {
    kernel: &'a CudaKernel<ProjectArgs>,
    /// Number of input rows per block.
    tokens: usize,
    /// Blocks per multiprocessor among which tiles may be split.
    resident: usize,
    threads: u32,
    /// Shared memory in bytes.
    shared: usize,
    /// Column order of the input, and the multiple to which its column count is padded.
    order: ColumnOrder,
    step: usize,
}

impl<'a> Tile<'a> {
    /// Returns the best kernel for `usual` input rows; `is_batch_invariant` restricts the choice to batch-invariant
    /// kernels. `has_blocks`: all matrices have types with blocks.
    pub fn new(device: &'a CudaDevice, usual: usize, is_batch_invariant: bool, has_blocks: bool) -> Tile<'a> {
        let k = &device.kernels;
        let few = |kernel, tokens, resident| Tile {
            kernel,
            tokens,
            resident,
            threads: 256,
            // Four stages of the input.
            shared: 4 * SMALL_BATCH_CHUNK * 2 * tokens,
            order: ColumnOrder::ForOperands,
            step: SMALL_BATCH_CHUNK,
        };
        // Four stages of the input and two of the weights.
        let many = |kernel, threads| Tile {
            kernel,
            tokens: 256,
            resident: 1,
            threads,
            shared: 64 * (4 * 256 + 2 * 128),
            order: ColumnOrder::AsTheyAre,
            step: 32,
        };
        // Two blocks per multiprocessor; stages of the input, aligned to 1,024 bytes.
        let few_by_wgmma = |kernel, tokens| {
            let tile = few(kernel, tokens, 2);
            Tile { shared: 1024 + tile.shared, ..tile }
        };
        // Only one kind of instruction is known to give the same bits for every number of tokens.
        let optional = |kernel: &'a Option<CudaKernel<ProjectArgs>>| {
            if is_batch_invariant { None } else { device.optional(kernel) }
        };
        match usual {
            0..=16 => return few(&k.small_batch_16, 16, 2),
            17..=32 => match optional(&k.wgmma_32) {
                Some(kernel) => return few_by_wgmma(kernel, 32),
                None => return few(&k.small_batch_32, 32, 2),
            },
            // Two blocks per multiprocessor, as above, so that columns are split the same way.
            _ if is_batch_invariant => return few(&k.small_batch_64, SMALL_BATCH_ROWS, 2),
            // Reading the weights up to three times is faster than a partially filled tile of 256 tokens.
            33..=SEVERAL_BATCHES => match optional(&k.wgmma_64) {
                Some(kernel) => return few_by_wgmma(kernel, SMALL_BATCH_ROWS),
                None => return few(&k.small_batch_64, SMALL_BATCH_ROWS, 1),
            },
            _ => {}
        }
        match device.prompt_kernel() {
            // Stages of the input, aligned to 512 bytes; the offset of each input row.
            Some(PromptKernel::Wgmma(kernel)) => Tile {
                shared: 512 + GROUP_STAGES * SMALL_BATCH_CHUNK * 2 * 256 + 4 * 256,
                order: ColumnOrder::ForOperands,
                step: SMALL_BATCH_CHUNK,
                ..many(kernel, 256)
            },
            // Stages of the input, each token of which has a scale and a sum per 32 columns; two stages of the weights,
            // each row of which has 16 bytes per 32 columns in addition; the offset of each input row.
            Some(PromptKernel::Bytes(kernel)) if has_blocks => Tile {
                shared: BYTE_STAGES * (BYTE_CHUNK + 16) * 256 + 2 * (BYTE_CHUNK + 32) * 128 + 4 * 256,
                order: ColumnOrder::Bytes,
                step: BYTE_CHUNK,
                ..many(kernel, 256)
            },
            _ => many(&k.gemm_256, 512),
        }
    }
}

impl ProductInput {
    /// True if columns come in groups of four and the norm has neither a mean nor a bias: `PrepareArgs::simple`.
    fn is_simple(&self) -> bool {
        self.width.is_multiple_of(4) && self.norm.kind != 2 && self.norm.bias == 0
    }
}

impl Lowering<'_> {
    /// Launches ops in order until none is left or `stop`, called between launches, returns true; returns the first
    /// remaining op.
    pub fn run(&mut self, ops: Range<usize>, stop: &dyn Fn() -> bool) -> Result<usize> {
        let mut at = ops.start;
        while at < ops.end && !stop() {
            at += match self.program.ops[at] {
                Op::OfMedia { ops } if self.step.args.media == 0 => 1 + ops,
                _ => self.next(at, ops.end)?,
            };
        }
        self.mark(None)?;
        Ok(at.min(ops.end))
    }

    fn mark(&mut self, part: Option<Part>) -> Result<()> {
        let Some(profile) = &mut self.profile else { return Ok(()) };
        // With an early start, this kernel's time would be attributed to the previous kernel.
        self.follows = false;
        profile.mark(self.current, self.stream, part)
    }

    /// Launches the ops that are executed together from op `at` on, before `end`, and returns their number.
    fn next(&mut self, at: usize, end: usize) -> Result<usize> {
        let (program, fusion) = (self.program, self.fusions.at(at..end, self.shape.single_tokens));
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
            (Fusion::NormSum, [Op::Norm { norm, x: delta, .. }, Op::Add { x, scale, .. }]) => {
                self.add_normed(*x, norm, *delta, *scale)?;
            }
            (Fusion::ExpertsSum, [Op::Experts(experts), Op::Add { x, scale, .. }]) => {
                self.experts(experts, Some((*x, *scale)))?;
            }
            (Fusion::ProductSum, [Op::Project { x: input, projections }, Op::Add { x, scale, .. }]) => {
                let args = ProjectArgs { epilogue: Epilogue::Add as u32, scale: *scale, ..Default::default() };
                let projections = [Projection { out: *x, ..projections[0] }];
                self.project(*input, &projections, args)?;
                self.adapt(*input, &projections, *scale)?;
            }
            (Fusion::ProductGate, [Op::Project { x, projections }, Op::Glu { activation, .. }]) => {
                let (activation, [softcap, _]) = activation_code(*activation);
                let epilogue = Epilogue::Glu as u32;
                let args = ProjectArgs { epilogue, activation, softcap, ..Default::default() };
                self.project(*x, projections, args)?;
            }
            (Fusion::Attention { .. }, [ops @ .., Op::Attend(attend)]) => {
                if let Some(Op::KeepOutputs { moves }) = ops.last() {
                    self.keep_outputs(moves)?;
                }
                self.attend(attend, HeadOps::new(program, ops))?;
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
            Op::Scale { x, factor } => self.modify(*x, Modification::Scale, *factor, |_| {}),
            Op::Clamp { x, low, high } => self.modify(*x, Modification::Limit, *high, |args| args.slope = *low),
            Op::Mean { x, groups, out } => {
                let width = self.program.width(*out);
                let mix = Mix { x: *x, by: None, out: *out, width, first: 0, adds: false };
                self.mix(&mix, 1.0 / *groups as f32)
            }
            Op::Mix(mix) => self.mix(mix, 1.0),
            Op::Threshold { x, deviations } => self.rescale(*x, None, *deviations),
            Op::Rescale { x, like } => self.rescale(*x, Some(*like), 0.0),
            Op::MixByScore { x, by, eps, out } => self.mix_by_score([*x, *out], *by, *eps),
            Op::Sinkhorn { x, eps, rounds } => self.sinkhorn(*x, *eps, *rounds),
            Op::Dot { x, y, out } => self.dot([*x, *y, *out]),
            Op::AddMedia { x, part } => self.add_media(*x, *part),
            Op::ScaleColumns { x, by } => {
                let by = self.model.weights.vector(Some(*by));
                self.modify(*x, Modification::ByColumn, 0.0, |args| args.by = by)
            }
            Op::ScaleByPosition { x, slope, length, offset } => {
                self.modify(*x, Modification::ByPosition, *slope, |args| {
                    (args.length, args.offset) = (*length, *offset)
                })
            }
            Op::Xielu { x, curve } => self.modify(*x, Modification::Xielu, curve.rise, |args| {
                (args.fall, args.slope, args.eps) = (curve.fall, curve.slope, curve.eps)
            }),
            Op::Gate { x, gate, sigmoid } => {
                let (by, each) = (self.tensor(*gate), self.program.width(*x) / self.program.width(*gate));
                let kind = if *sigmoid { Modification::BySigmoid } else { Modification::ByGate };
                self.modify(*x, kind, 0.0, |args| (args.by, args.length) = (by, each as u32))
            }
            Op::JoinHeads { x, tail, heads, out } => self.join([*x, *out], 0, Some(*tail), *heads, None),
            Op::Slice { x, first, out } => self.join([*x, *out], *first, None, 1, None),
            Op::Gather { x, by, out } => self.join([*x, *out], 0, None, 1, Some(*by)),
            Op::ProjectHeads { x, weight, heads, out } => self.project_heads([*x, *out], *weight, *heads),
            Op::Conv(op) => self.conv(op),
            Op::DeltaRule(op) => self.delta_rule(op),
            Op::Scan(op) => self.scan(op),
            Op::Wkv(op) => self.wkv(op),
            Op::Project { x, projections } => projections.chunks(MAX_SEGMENTS).try_for_each(|p| {
                self.project(*x, p, ProjectArgs::default())?;
                self.adapt(*x, p, 1.0)
            }),
            Op::KeepOutputs { moves } => self.keep_outputs(moves),
            Op::Attend(attend) => self.attend(attend, None),
            Op::Glu { gate, up, activation } => {
                let n = self.shape.n * self.program.width(*gate);
                self.glu(self.tensor(*gate), up.map_or(0, |up| self.tensor(up)), n, *activation)
            }
            Op::Experts(experts) => self.experts(experts, None),
            Op::Logits { x, head, bias, scale, softcap } => self.logits(*x, *head, *bias, *scale, *softcap),
            Op::Pool(op) => self.pool(op),
            Op::Select(op) => self.select(op),
            Op::EmbedNgrams(op) => self.embed_ngrams(op),
            // The first two are part of `HeadOps`; `run` and the caller handle the others.
            Op::Rope { .. } | Op::StoreKv { .. } => Ok(()),
            Op::OfMedia { .. } | Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. } => Ok(()),
        }
    }

    // ---- operands

    pub(crate) fn tensor(&self, tensor: TensorId) -> Address {
        self.tensors[tensor.0 as usize]
    }

    pub(crate) fn input(&self, tensor: TensorId) -> ProductInput {
        let (tensor, norm) = match self.fusions.delayed(tensor) {
            Some((norm, x)) => (x, self.norm(Some(&norm))),
            None => (tensor, DeviceNorm::default()),
        };
        let width = self.program.width(tensor);
        ProductInput { address: self.tensor(tensor), width, stride: width, norm }
    }

    pub(crate) fn norm(&self, norm: Option<&Norm>) -> DeviceNorm {
        let Some(norm) = norm else { return DeviceNorm::default() };
        let weights = &self.model.weights;
        let kind = match norm.kind {
            NormKind::Rms => args::NormKind::Rms,
            NormKind::Layer => args::NormKind::Layer,
        };
        let (weight, bias) = (weights.vector(norm.weight), weights.vector(norm.bias));
        DeviceNorm { weight, bias, eps: norm.eps, kind: kind as u32 }
    }

    /// Returns the number of consecutive groups of a norm with their own weights.
    pub(crate) fn own_weights(&self, norm: &Norm) -> usize {
        norm.weight.map_or(1, |weight| self.model.weights.vector_len(weight) / norm.group)
    }

    // ---- launches

    pub(crate) fn launch<A: Copy>(
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
        self.launched.push(kernel.name());
        self.current.launch(self.stream, kernel, grid, args)
    }

    fn embed(&mut self, table: Weight, index: Index, scale: f32, x: TensorId, accumulate: bool) -> Result<()> {
        let rows = match index {
            Index::Id | Index::Token => self.step.args.ids,
            Index::Position => self.step.args.positions,
            Index::Zero => 0,
        };
        let args = EmbedArgs {
            table: self.model.weights.matrix(table),
            rows,
            following: self.scratch.tokens,
            media: if index == Index::Id { self.step.args.media } else { 0 },
            x: self.tensor(x),
            width: self.program.width(x) as u32,
            accumulate: u32::from(accumulate),
            scale,
            media_width: self.step.args.media_width,
        };
        self.launch(&self.model.device.kernels.embed, [self.shape.n, 1, 1], 128, 0, &args)
    }

    /// `x += scale * delta`, then the norm of `x` into another activation.
    fn add_norm(&mut self, x: TensorId, delta: Option<(TensorId, f32)>, norm: Option<(&Norm, TensorId)>) -> Result<()> {
        let width = self.program.width(x);
        let group = norm.map_or(width, |(norm, _)| norm.group);
        let own = norm.map_or(1, |(norm, _)| self.own_weights(norm));
        let args = NormArgs {
            norm: self.norm(norm.map(|(norm, _)| norm)),
            x: self.tensor(x),
            delta: delta.map_or(0, |(delta, _)| self.tensor(delta)),
            out: norm.map_or(0, |(_, out)| self.tensor(out)),
            group: group as u32,
            own: own as u32,
            scale: delta.map_or(0.0, |(_, scale)| scale),
            of_delta: 0,
        };
        let blocks = [self.shape.n * width / group, 1, 1];
        self.launch(&self.model.device.kernels.add_norm, blocks, 256, 128, &args)
    }

    /// `x += scale * norm(delta)`
    fn add_normed(&mut self, x: TensorId, norm: &Norm, delta: TensorId, scale: f32) -> Result<()> {
        let args = NormArgs {
            norm: self.norm(Some(norm)),
            x: self.tensor(x),
            delta: self.tensor(delta),
            out: 0,
            group: norm.group as u32,
            own: self.own_weights(norm) as u32,
            scale,
            of_delta: 1,
        };
        let blocks = [self.shape.n * self.program.width(x) / norm.group, 1, 1];
        self.launch(&self.model.device.kernels.add_norm, blocks, 256, 128, &args)
    }

    fn glu(&mut self, gate: Address, up: Address, n: usize, activation: Activation) -> Result<()> {
        let (activation, [limit, up_limit]) = activation_code(activation);
        let args = GluArgs { gate, up, n: n as u64, activation, limit, up_limit, pad: 0 };
        self.launch(&self.model.device.kernels.glu, [n.div_ceil(256).min(4096), 1, 1], 256, 0, &args)
    }

    /// Computes the products of an activation with matrices; `args` has the epilogue.
    fn project(&mut self, input: TensorId, projections: &[Projection], args: ProjectArgs) -> Result<()> {
        let mut segments = [Segment::default(); MAX_SEGMENTS];
        for (segment, p) in segments.iter_mut().zip(projections) {
            let weights = &self.model.weights;
            *segment = Segment { w: weights.matrix(p.weight), out: self.tensor(p.out), bias: weights.vector(p.bias) };
        }
        self.products(self.input(input), ProjectArgs { segments, n_segments: projections.len() as u32, ..args })
    }

    fn products(&mut self, input: ProductInput, args: ProjectArgs) -> Result<()> {
        let (n, model) = (self.shape.n, self.model);
        let is_batch_invariant = model.device.is_batch_invariant;
        let mut args = ProjectArgs { cols: input.width as u32, n: n as u32, ..args };
        let all = args.segments;
        let is_plain = |s: &&Segment| match is_batch_invariant {
            true => s.w.dtype() == quant::F32,
            false => n <= GEMV_ROWS && model.device.kernels.gemv_rows(s.w.dtype()).is_some(),
        };
        let (plain, tiled): (Vec<Segment>, Vec<Segment>) = all[..args.n_segments as usize].iter().partition(is_plain);
        // Each separate row has the blocks, tiles and warps of a single-row product.
        let together = if self.shape.separate { 1 } else { n };
        if together <= OWN_ROWS
            && (!is_batch_invariant || tiled.is_empty())
            && self.fits_blocks(input, together, &mut args)
        {
            (args.x, args.x_stride, args.x_divisor, args.norm) = (input.address, input.width as u32, 1, input.norm);
            return self.gemv(&mut args, [n / together.max(1), together]);
        }
        if !tiled.is_empty() {
            args.take(&tiled);
            let tile = Tile::new(&model.device, n, is_batch_invariant, has_blocks(&args));
            self.halves(input, tiled[0].w.cols, n, &tile)?;
            self.gemm(&mut args, &tile, [n, 1])?;
        }
        if !plain.is_empty() {
            args.take(&plain);
            self.few_rows(input, args)?;
        }
        Ok(())
    }

    /// True if a block can prepare its own input rows; sets `args.forms` to the forms of a row that the matrices read.
    pub(crate) fn fits_blocks(&self, input: ProductInput, rows: usize, args: &mut ProjectArgs) -> bool {
        let segments = &args.segments[..args.n_segments as usize];
        let is_plain = |s: &Segment| is_plain(s.w.dtype());
        let (plain, blocks) = (segments.iter().any(is_plain), !segments.iter().all(is_plain));
        args.forms = u32::from(plain) + 2 * u32::from(blocks);
        let needed = gemv_shared(rows, segments[0].w.cols as usize, plain, blocks);
        input.is_simple() && needed <= self.model.device.context.properties.shared_per_block as usize
    }

    /// Products of non-block matrices with few input rows at a time.
    fn few_rows(&mut self, input: ProductInput, mut args: ProjectArgs) -> Result<()> {
        let (n, all) = (self.shape.n, args.segments);
        args.prepared = self.scratch.prepared;
        let prepare = PrepareArgs {
            x: input.address,
            rows: args.prepared,
            norm: input.norm,
            cols: args.cols,
            padded: padded(all[0].w.cols as usize) as u32,
            simple: u32::from(input.is_simple()),
            pad: 0,
        };
        self.launch(&self.model.device.kernels.prepare, [n, 1, 1], 32 * WARPS as u32, 128, &prepare)?;
        let mut left = &all[..args.n_segments as usize];
        while let [first, ..] = left {
            // Adjacent matrices of one type, such as queries and keys.
            let (of_type, others) = left.split_at(left.iter().take_while(|s| s.w.dtype == first.w.dtype).count());
            left = others;
            args.take(of_type);
            let blocks = self.distribute_rows(&mut args, 2, 1, n.div_ceil(GEMV_ROWS));
            if let Some(kernel) = self.model.device.kernels.gemv_rows(first.w.dtype()) {
                self.launch(kernel, blocks, 32 * WARPS as u32, 0, &args)?;
            }
        }
        Ok(())
    }

    /// Converts `rows` input rows to binary16 or bytes, for products in tiles.
    pub(crate) fn halves(&mut self, input: ProductInput, cols: u32, rows: usize, tile: &Tile) -> Result<()> {
        let halves = HalvesArgs {
            x: input.address,
            halves: self.scratch.halves,
            row_scales: self.scratch.row_scales,
            norm: input.norm,
            cols: input.width as u32,
            padded: cols.next_multiple_of(tile.step as u32),
            x_stride: input.stride as u32,
            order: tile.order as u32,
        };
        let k = &self.model.device.kernels;
        let in_fours = input.stride.is_multiple_of(4) && input.address.is_multiple_of(16);
        // Batch-invariant results need the same order of sums for any number of rows.
        let is_wide = rows <= SMALL_BATCH_ROWS && !self.model.device.is_batch_invariant;
        let (kernel, threads) = match in_fours && input.is_simple() {
            false => (&k.to_halves_any, 128),
            true if is_wide => (&k.to_halves_wide, 512),
            true => (&k.to_halves, 128),
        };
        self.launch(kernel, [rows, 1, 1], threads, 128, &halves)
    }

    /// GEMM in tiles, for `most` input rows in each of `z` groups.
    pub(crate) fn gemm(&mut self, args: &mut ProjectArgs, tile: &Tile, [most, z]: [usize; 2]) -> Result<()> {
        (args.halves, args.row_scales) = (self.scratch.halves, self.scratch.row_scales);
        (args.parts, args.counters) = (self.scratch.product_parts, self.scratch.product_counters);
        let segments = args.segments;
        let segments = &segments[..args.n_segments as usize];
        let cols = segments[0].w.cols as usize;
        // With `Glu`, a tile has 64 rows of the gate and 64 of up.
        let tiles: usize = match args.epilogue == Epilogue::Glu as u32 {
            true => (segments[0].w.rows as usize).div_ceil(64),
            false => segments.iter().map(|s| (s.w.rows as usize).div_ceil(128)).sum(),
        };
        (args.whole, args.tiles) = (0, tiles as u32);
        let few = tile.tokens <= SMALL_BATCH_ROWS;
        // `small_batch.cu` may get more rows than one block handles; they take several launches.
        let at_once = match few && args.order == 0 {
            true => tile.tokens,
            false => most,
        };
        args.splits = 1;
        args.types = segments.iter().fold(0, |types, s| types | 1 << s.w.dtype);
        for first in (0..most).step_by(at_once) {
            let n = at_once.min(most - first);
            let y = n.div_ceil(tile.tokens);
            let blocks = match args.order {
                // `small_batch.cu` divides pairs of stages of all tiles among its blocks, with 32-bit counters.
                0 if few => {
                    let pairs = tiles * cols.div_ceil(2 * SMALL_BATCH_CHUNK);
                    [(tile.resident * self.dims.processors).min(pairs).min((u32::MAX as usize / pairs).max(1)), y, z]
                }
                // Tiles of the last, partial wave are split so that every multiprocessor has work.
                0 => {
                    let (all, processors) = (tiles * y, tile.resident * self.dims.processors);
                    let whole = all - all % processors;
                    let splits = self.dims.column_splits((all - whole).max(1), tile.resident, cols / (4 * tile.step));
                    (args.whole, args.splits) = (whole as u32, splits as u32);
                    [whole + (all - whole) * splits, 1, 1]
                }
                _ => [tiles, y, z],
            };
            self.launch(tile.kernel, blocks, tile.threads, tile.shared, args)?;
            if first + n == most {
                break;
            }
            args.n -= n as u32;
            args.halves += (n * cols.next_multiple_of(tile.step) * 2) as Address;
            args.row_scales += 4 * n as Address;
            for segment in &mut args.segments[..segments.len()] {
                segment.out += (4 * n * segment.w.rows as usize) as Address;
            }
        }
        Ok(())
    }

    /// GEMV with `rows` input rows for each of `columns` grid columns; `fits_blocks` must have returned true for the
    /// inputs.
    pub(crate) fn gemv(&mut self, args: &mut ProjectArgs, [columns, rows]: [usize; 2]) -> Result<()> {
        let kernels = &self.model.device.kernels;
        let segments = &args.segments[..args.n_segments as usize];
        let dtype = segments[0].w.dtype();
        let is_uniform = segments.iter().all(|s| s.w.dtype() == dtype);
        // The experts of a token have few rows each, for which rings would not fill.
        if rows == 1
            && args.experts == 0
            && let Some((kernel, shared)) = self.model.device.ring(segments)
        {
            let blocks = self.distribute_rows(args, 2, 1, 1)[1];
            args.ring_blocks = ring_blocks(&args.segments[..args.n_segments as usize], blocks);
            let blocks = args.ring_blocks.iter().sum::<u32>() as usize;
            return self.launch(kernel, [columns, blocks, 1], RING_THREADS as u32, shared, args);
        }
        let kernels = match is_uniform {
            true => kernels.gemv(dtype),
            false => [&kernels.gemv_mixed, &kernels.gemv_mixed_2],
        };
        let shared = gemv_shared(rows, segments[0].w.cols as usize, args.forms & 1 != 0, args.forms & 2 != 0)
            + route_shared(&args.route);
        // Blocks per multiprocessor, as in the kernels' launch bounds.
        let resident = if rows == 1 { 2 } else { 1 };
        let blocks = self.distribute_rows(args, 1, resident, columns);
        self.launch(kernels[rows - 1], blocks, 32 * WARPS as u32, shared, args)
    }

    /// Distributes matrix rows, `each` at a time (or gate-up pairs), over warps; each of `columns` grid columns gets
    /// its part of `resident` blocks per multiprocessor.
    fn distribute_rows(&self, args: &mut ProjectArgs, each: usize, resident: usize, columns: usize) -> [usize; 3] {
        let segments = &args.segments[..args.n_segments as usize];
        let row_groups: usize = match args.epilogue == Epilogue::Glu as u32 {
            true => segments[0].w.rows as usize,
            false => segments.iter().map(|s| (s.w.rows as usize).div_ceil(each)).sum(),
        };
        let fill = (resident * self.model.device.context.properties.multiprocessors as usize).div_ceil(columns);
        let blocks = row_groups.div_ceil(WARPS).min(fill);
        (args.row_groups, args.warps) = (row_groups as u32, (WARPS * blocks) as u32);
        [columns, blocks, 1]
    }

    /// Copies output rows, the only rows that later ops compute; skips pairs of activations that share a buffer.
    fn keep_outputs(&mut self, moves: &[[TensorId; 2]]) -> Result<()> {
        let moves = moves.iter().filter(|[from, to]| self.tensor(*from) != self.tensor(*to));
        let moves: Vec<&[TensorId; 2]> = moves.collect();
        for moves in moves.chunks(2) {
            let mut args = KeepRowsArgs { from: [0; 2], to: [0; 2], rows: self.step.args.outputs, widths: [0; 2] };
            for (i, [from, to]) in moves.iter().enumerate() {
                (args.from[i], args.to[i]) = (self.tensor(*from), self.tensor(*to));
                args.widths[i] = self.program.width(*from) as u32;
            }
            let blocks = [self.shape.n_outputs, moves.len(), 1];
            self.launch(&self.model.device.kernels.keep_rows, blocks, 256, 0, &args)?;
        }
        (self.shape, self.step) = (self.shape.kept(), self.kept_step);
        Ok(())
    }

    /// Computes the logits of the remaining rows, and samples the token after each.
    fn logits(&mut self, x: TensorId, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()> {
        let weights = &self.model.weights;
        let (w, bias) = (weights.matrix(head), weights.vector(bias));
        let is_adapted = self.adapts_logits();
        let mut args =
            ProjectArgs { n_segments: 1, epilogue: Epilogue::Cap as u32, scale, softcap, ..Default::default() };
        if is_adapted {
            (args.scale, args.softcap) = (1.0, 0.0);
        }
        args.segments[0] = Segment { w, out: self.scratch.logits, bias };
        self.products(self.input(x), args)?;
        if is_adapted {
            self.adapt_logits(x, scale, softcap)?;
        }
        self.choose()
    }
}
