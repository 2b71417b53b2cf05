//! Verbs become launches.
//!
//! Verbs are gathered and lowered together, so that neighbours can share a kernel: a norm is applied where its result is
//! read, a sum with the residual stream and a gated activation where a product ends, and norm, rotation and cache of
//! queries and keys in one pass. One token takes matrix-times-vector kernels, several take matrix-times-matrix.
//! Refuses to know when a step runs and whether it is recorded.

use super::device::Cuda;
use super::launch::{CudaKernel, Current, Grid, Stream};
use super::module::{
    ArgmaxArgs, AttendArgs, CombineArgs, DeviceMatrix, DeviceNorm, EmbedArgs, Epilogue, GluArgs, GroupArgs, HalvesArgs,
    HeadsArgs, KeepRowsArgs, KvLayer, NormArgs, ProjectArgs, RouteArgs, Segment, StepArgs,
};
use super::probe::Address;
use super::profile::Profile;
use super::scratch::{ACTS, ARGMAX_BLOCKS, DeviceScratch, ExecutorDims, TILE_ROWS};
use crate::backend::{
    Act, Activation, Attention, Experts, Norm, NormKind, Part, Projection, RopePairs, RopeTable, Routing, Vector,
    Weight,
};
use crate::error::{Error, Result};
use crate::quant;

/// A verb of `Exec` with all that it was given.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verb {
    Embed {
        table: Weight,
        scale: f32,
    },
    EmbedPositions {
        table: Weight,
    },
    Norm {
        norm: Norm,
        input: Act,
        out: Act,
    },
    Add {
        x: Act,
        delta: Act,
        scale: f32,
    },
    AddNorm {
        x: Act,
        delta: Act,
        scale: f32,
        norm: Norm,
        out: Act,
    },
    Project(Projections),
    Rope(RopeTable),
    KvWrite {
        layer: usize,
    },
    /// There are fewer outputs than tokens.
    KeepOutputs,
    Attend(Attention),
    Glu {
        activation: Activation,
        gated: bool,
    },
    Route(Routing),
    Experts(Experts),
    Logits {
        head: Weight,
        bias: Option<Vector>,
        scale: f32,
        softcap: f32,
    },
}

/// Matrices that one launch takes.
pub const MAX_SEGMENTS: usize = 4;

/// Up to `MAX_SEGMENTS` projections of one input; the rest of the array repeats the first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Projections {
    pub input: Act,
    pub n: usize,
    pub all: [Projection; MAX_SEGMENTS],
}

impl Projections {
    fn list(&self) -> &[Projection] {
        &self.all[..self.n]
    }
}

/// Numbers that launches depend on besides verbs and memory: equal shapes launch equal grids.
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
}

impl StepShape {
    /// The shape of the outputs alone.
    pub fn kept(self) -> StepShape {
        StepShape { n: self.n_outputs, n_tiles: self.kept_tiles, splits: self.kept_splits, ..self }
    }
}

/// Places and widths of the activations between two verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivationState {
    /// Present addresses, indexed by `Act`.
    pub acts: [Address; ACTS],
    /// Only the outputs have rows.
    pub kept: bool,
    /// Values a row, indexed by `Act`; a layer may be narrower than the widest.
    pub widths: [usize; ACTS],
    /// One bit for each activation that a shared kernel did not write.
    pub skipped: u16,
    /// Outputs with logits.
    pub outputs: usize,
}

impl ActivationState {
    /// The state at the beginning of a step.
    pub fn new(dims: &ExecutorDims, scratch: &DeviceScratch) -> ActivationState {
        ActivationState { acts: scratch.acts, kept: false, widths: dims.max_widths, skipped: 0, outputs: 0 }
    }
}

pub struct Lowering<'a> {
    pub cuda: &'a Cuda,
    pub dims: &'a ExecutorDims,
    pub scratch: &'a DeviceScratch,
    pub current: &'a Current<'a>,
    pub stream: &'a Stream,
    /// Shape of the tokens that activations have rows for.
    pub shape: StepShape,
    pub step: StepArgs,
    /// Arguments for the outputs alone.
    pub kept_step: StepArgs,
    /// Address of the address that arg-maxes are written to.
    pub answers: Address,
    /// Layers of the caches, the same in all of them.
    pub kv_layers: &'a [KvLayer],
    pub state: ActivationState,
    /// Neighbouring verbs may share kernels.
    pub fuse: bool,
    /// The norm of `X` that `H` stands for and that is not computed yet.
    pub pending: Option<Norm>,
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
    /// Address of the numbers of the rows, or null for all.
    rows: Address,
}

fn mismatch<T>(what: String) -> Result<T> {
    Err(Error::Mismatch(what))
}

fn activation_code(activation: Activation) -> u32 {
    match activation {
        Activation::Silu => 0,
        Activation::Gelu => 1,
        Activation::GeluErf => 2,
        Activation::Relu => 3,
    }
}

/// Part of a step that the time of the first verb of a list is counted in.
fn part(verbs: &[Verb]) -> Part {
    match verbs[0] {
        Verb::Project(_) => Part::Products,
        Verb::Norm { out: Act::Q | Act::K, .. } | Verb::Rope(_) | Verb::KvWrite { .. } | Verb::Attend(_) => {
            Part::Attention
        }
        Verb::Route(_) | Verb::Experts(_) => Part::Experts,
        Verb::Logits { .. } => Part::Head,
        _ => Part::Other,
    }
}

impl Lowering<'_> {
    pub fn run(&mut self, verbs: &[Verb]) -> Result<()> {
        let mut rest = verbs;
        while !rest.is_empty() {
            self.mark(Some(part(rest)))?;
            let taken = self.next(if self.fuse { rest } else { &rest[..1] })?;
            rest = &rest[taken..];
        }
        self.mark(None)?;
        if self.pending.is_some() {
            self.skip(Act::H);
        }
        Ok(())
    }

    fn mark(&mut self, part: Option<Part>) -> Result<()> {
        let Some(profile) = &mut self.profile else { return Ok(()) };
        // What starts early would be measured with what is ahead of it.
        self.follows = false;
        profile.mark(self.current, self.stream, part)
    }

    /// Launches the first verbs of a list that is not empty and returns their number.
    fn next(&mut self, verbs: &[Verb]) -> Result<usize> {
        if let Some(taken) = self.shared(verbs)? {
            return Ok(taken);
        }
        match verbs[0] {
            Verb::Embed { table, scale } => self.embed(table, self.step.ids, scale, false)?,
            Verb::EmbedPositions { table } => self.embed(table, self.step.positions, 1.0, true)?,
            Verb::Norm { norm, input, out } => {
                self.resolve(input)?;
                self.changes(out)?;
                self.narrow(out, self.width(input))?;
                self.add_norm(input, None, 0.0, Some((&norm, out)))?;
            }
            Verb::Add { x, delta, scale } => {
                self.resolve(x)?;
                self.resolve(delta)?;
                self.changes(x)?;
                self.add_norm(x, Some(delta), scale, None)?;
            }
            Verb::AddNorm { x, delta, scale, norm, out } => {
                self.resolve(x)?;
                self.resolve(delta)?;
                self.changes(out)?;
                self.changes(x)?;
                if x == delta || delta == out || x == out {
                    self.add_norm(x, Some(delta), scale, None)?;
                    self.narrow(out, self.width(x))?;
                    self.add_norm(x, None, 0.0, Some((&norm, out)))?;
                } else {
                    self.narrow(out, self.width(x))?;
                    self.add_norm(x, Some(delta), scale, Some((&norm, out)))?;
                }
            }
            Verb::Project(p) => {
                let input = self.input(p.input)?;
                let mut segments = [Segment::default(); MAX_SEGMENTS];
                for (i, (segment, projection)) in segments.iter_mut().zip(p.list()).enumerate() {
                    if projection.out == self.reads(p.input)
                        || p.list()[..i].iter().any(|other| other.out == projection.out)
                    {
                        return Err(Error::invalid(format!("{:?} twice in one verb", projection.out)));
                    }
                    *segment = self.segment(projection, input.width)?;
                }
                for projection in p.list() {
                    self.changes(projection.out)?;
                }
                self.project(input, &segments[..p.n], self.shape.n, ProjectArgs::default())?;
            }
            Verb::Glu { activation, gated } => {
                if gated && self.width(Act::U) != self.width(Act::G) {
                    return mismatch(format!("a gate of {} for {}", self.width(Act::G), self.width(Act::U)));
                }
                let up = if gated { self.act(Act::U) } else { 0 };
                self.glu(self.act(Act::G), up, self.shape.n * self.width(Act::G), activation)?;
            }
            Verb::KeepOutputs => self.keep_outputs()?,
            Verb::Attend(attention) => self.attend(&attention)?,
            Verb::Route(routing) => self.route(&routing)?,
            Verb::Experts(experts) => self.experts(&experts)?,
            Verb::Logits { head, bias, scale, softcap } => self.logits(head, bias, scale, softcap)?,
            Verb::Rope(_) | Verb::KvWrite { .. } => return Err(Error::invalid("rotation without heads")),
        }
        Ok(1)
    }

    /// Verbs that one kernel performs together; `None` where the first stands alone.
    fn shared(&mut self, verbs: &[Verb]) -> Result<Option<usize>> {
        match *verbs {
            [Verb::Norm { norm, input: Act::X, out: Act::H }, ..] if self.fuse && norm.group == self.width(Act::X) => {
                self.delay(norm)?;
                Ok(Some(1))
            }
            [Verb::Project(p), Verb::Add { x, delta, scale }, ..] if self.ends_in_sum(&p, x, delta) => {
                self.changes(x)?;
                self.project_into(&p, x, scale)?;
                Ok(Some(2))
            }
            [Verb::Project(p), Verb::AddNorm { x: Act::X, delta, scale, norm, out: Act::H }, ..]
                if self.ends_in_sum(&p, Act::X, delta) && norm.group == self.width(Act::X) =>
            {
                self.project_into(&p, Act::X, scale)?;
                self.delay(norm)?;
                Ok(Some(2))
            }
            [Verb::Project(p), Verb::Glu { activation, gated: true }, ..] if self.is_gate(&p)? => {
                let input = self.input(p.input)?;
                let gate = self.segment(&p.all[0], input.width)?;
                let up = self.segment(&p.all[1], input.width)?;
                let args = ProjectArgs {
                    epilogue: Epilogue::Glu as u32,
                    activation: activation_code(activation),
                    ..Default::default()
                };
                self.changes(Act::G)?;
                self.project(input, &[gate, up], 1, args)?;
                self.skip(Act::U);
                Ok(Some(2))
            }
            _ => self.heads(verbs),
        }
    }

    /// A single product whose result is only added to `x`, and that does not read `x` while it is changed.
    fn ends_in_sum(&self, p: &Projections, x: Act, delta: Act) -> bool {
        let rows = self.cuda.weight(p.all[0].weight).map_or(0, |w| w.matrix.rows as usize);
        p.n == 1 && p.all[0].out == delta && delta != x && self.reads(p.input) != x && rows == self.width(x)
    }

    fn project_into(&mut self, p: &Projections, x: Act, scale: f32) -> Result<()> {
        let input = self.input(p.input)?;
        let delta = p.all[0].out;
        let mut segment = self.segment(&p.all[0], input.width)?;
        segment.out = self.act(x);
        let args = ProjectArgs { epilogue: Epilogue::Add as u32, scale, ..Default::default() };
        self.project(input, &[segment], self.shape.n, args)?;
        self.skip(delta);
        Ok(())
    }

    /// Gate and up of one token and of one type and shape.
    fn is_gate(&self, p: &Projections) -> Result<bool> {
        let [gate, up, ..] = p.all;
        if self.shape.n != 1
            || self.cuda.fixed
            || p.n != 2
            || (gate.out, up.out) != (Act::G, Act::U)
            || p.input == Act::G
        {
            return Ok(false);
        }
        let (gate, up) = (self.cuda.weight(gate.weight)?, self.cuda.weight(up.weight)?);
        Ok((gate.matrix.dtype, gate.matrix.rows) == (up.matrix.dtype, up.matrix.rows))
    }

    // ---- activations

    fn act(&self, act: Act) -> Address {
        self.state.acts[act as usize]
    }

    fn width(&self, act: Act) -> usize {
        self.state.widths[act as usize]
    }

    fn narrow(&mut self, act: Act, width: usize) -> Result<()> {
        let max = self.dims.max_widths[act as usize];
        if width > max {
            return mismatch(format!("{width} values for {act:?}, which is {max} wide"));
        }
        self.state.widths[act as usize] = width;
        Ok(())
    }

    fn skip(&mut self, act: Act) {
        self.state.skipped |= 1 << act as u16;
    }

    /// `H` becomes a norm of `X` that is applied where it is read.
    fn delay(&mut self, norm: Norm) -> Result<()> {
        self.narrow(Act::H, self.width(Act::X))?;
        self.norm_arg(Some(&norm), self.width(Act::X))?;
        self.pending = Some(norm);
        Ok(())
    }

    /// Computes `act` if it was put off.
    fn resolve(&mut self, act: Act) -> Result<()> {
        match self.pending {
            Some(norm) if act == Act::H => {
                self.changes(Act::H)?;
                self.add_norm(Act::X, None, 0.0, Some((&norm, Act::H)))
            }
            _ => Ok(()),
        }
    }

    /// `act` is about to be written.
    fn changes(&mut self, act: Act) -> Result<()> {
        self.state.skipped &= !(1 << act as u16);
        match act {
            Act::X => self.resolve(Act::H),
            Act::H => {
                self.pending = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The activation that a product with the input `act` reads.
    fn reads(&self, act: Act) -> Act {
        if act == Act::H && self.pending.is_some() { Act::X } else { act }
    }

    fn input(&self, act: Act) -> Result<ProductInput> {
        let (width, rows) = (self.width(act), 0);
        match &self.pending {
            Some(norm) if act == Act::H => {
                Ok(ProductInput { address: self.act(Act::X), width, norm: self.norm_arg(Some(norm), width)?, rows })
            }
            _ => Ok(ProductInput { address: self.act(act), width, norm: DeviceNorm::default(), rows }),
        }
    }

    /// A norm for kernels; its weights are checked against the rows that it is applied to.
    fn norm_arg(&self, norm: Option<&Norm>, width: usize) -> Result<DeviceNorm> {
        let Some(norm) = norm else { return Ok(DeviceNorm::default()) };
        let (weight, len) = self.cuda.vector(norm.weight)?;
        let (bias, bias_len) = match norm.bias {
            Some(bias) => self.cuda.vector(bias)?,
            None => (0, norm.group),
        };
        if norm.group == 0 || !width.is_multiple_of(norm.group) || len != norm.group || bias_len != norm.group {
            return mismatch(format!("{norm:?} of {len} weights over rows of {width}"));
        }
        let kind = match norm.kind {
            NormKind::Rms => 1,
            NormKind::Layer => 2,
        };
        Ok(DeviceNorm { weight, bias, eps: norm.eps, kind })
    }

    /// A matrix and where its product goes.
    fn segment(&mut self, projection: &Projection, cols: usize) -> Result<Segment> {
        let held = self.cuda.weight(projection.weight)?;
        let rows = held.matrix.rows as usize;
        let bias = match projection.bias {
            Some(bias) => self.cuda.vector(bias)?,
            None => (0, rows),
        };
        if held.cols != cols || bias.1 != rows {
            return mismatch(format!("{projection:?} is {rows} by {}, its input is {cols} wide", held.cols));
        }
        self.narrow(projection.out, rows)?;
        Ok(Segment { w: held.matrix, out: self.act(projection.out), bias: bias.0 })
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
        let available = self.cuda.context.properties.shared_per_block as usize;
        if shared > available {
            return Err(Error::unsupported(format!(
                "{shared} bytes of shared memory for one block, {} has {available}: the model is too wide",
                self.cuda.context.device
            )));
        }
        let early = self.follows && self.cuda.early_launch;
        let grid = Grid { blocks: blocks.map(|n| n as u32), threads, shared: shared as u32, early };
        self.follows = true;
        self.current.launch(self.stream, kernel, grid, args)
    }

    fn embed(&mut self, table: Weight, rows: Address, scale: f32, accumulate: bool) -> Result<()> {
        self.changes(Act::X)?;
        let (cuda, width) = (self.cuda, self.width(Act::X));
        let held = cuda.weight(table)?;
        if held.cols != width {
            return mismatch(format!("rows of {} values for {width}", held.cols));
        }
        let args = EmbedArgs {
            table: held.matrix,
            rows,
            following: self.scratch.tokens,
            x: self.act(Act::X),
            width: width as u32,
            accumulate: u32::from(accumulate),
            scale,
            pad: 0,
        };
        self.launch(&cuda.kernels.embed, [self.shape.n, 1, 1], 128, 0, &args)
    }

    /// `x += scale * delta`, then the norm of `x` into another activation.
    fn add_norm(&mut self, x: Act, delta: Option<Act>, scale: f32, norm: Option<(&Norm, Act)>) -> Result<()> {
        let (cuda, width) = (self.cuda, self.width(x));
        if let Some(delta) = delta.filter(|&delta| self.width(delta) != width) {
            return mismatch(format!("a sum of rows of {width} and {}", self.width(delta)));
        }
        let group = norm.map_or(width, |(norm, _)| norm.group);
        let args = NormArgs {
            norm: self.norm_arg(norm.map(|(norm, _)| norm), width)?,
            x: self.act(x),
            delta: delta.map_or(0, |delta| self.act(delta)),
            out: norm.map_or(0, |(_, out)| self.act(out)),
            group: group as u32,
            scale,
        };
        self.launch(&cuda.kernels.add_norm, [self.shape.n * width / group, 1, 1], 256, 128, &args)
    }

    /// Products of `rows` input rows with matrices; `args` says what follows them.
    fn project(&mut self, input: ProductInput, segments: &[Segment], rows: usize, args: ProjectArgs) -> Result<()> {
        let mut args =
            ProjectArgs { n_segments: segments.len() as u32, cols: input.width as u32, n: rows as u32, ..args };
        args.segments[..segments.len()].copy_from_slice(segments);
        if rows == 1 && !self.cuda.fixed {
            args.norm = input.norm;
            (args.x, args.x_rows, args.x_stride, args.x_divisor) = (input.address, input.rows, input.width as u32, 1);
            return self.gemv(&mut args, 1);
        }
        self.halves(input, segments[0].w.cols, rows)?;
        self.gemm(&mut args, rows, [rows, 1])
    }

    /// `rows` rows of an input in binary16.
    fn halves(&mut self, input: ProductInput, padded: u32, rows: usize) -> Result<()> {
        let cuda = self.cuda;
        let halves = HalvesArgs {
            x: input.address,
            x_rows: input.rows,
            halves: self.scratch.halves,
            row_scales: self.scratch.row_scales,
            norm: input.norm,
            cols: input.width as u32,
            padded,
            x_stride: input.width as u32,
            pad: 0,
        };
        self.launch(&cuda.kernels.to_halves, [rows, 1, 1], 256, 128, &halves)
    }

    /// Matrix times matrix in tiles that suit `usual` rows of input, for `most` rows in each of `z` groups.
    fn gemm(&mut self, args: &mut ProjectArgs, usual: usize, [most, z]: [usize; 2]) -> Result<()> {
        let cuda = self.cuda;
        (args.halves, args.row_scales) = (self.scratch.halves, self.scratch.row_scales);
        let segments = &args.segments[..args.n_segments as usize];
        let tiles = segments.iter().map(|s| (s.w.rows as usize).div_ceil(128)).sum();
        let (kernel, tokens) = match usual {
            0..=16 => (&cuda.kernels.gemm_16, 16),
            17..=64 => (&cuda.kernels.gemm_64, 64),
            _ => (&cuda.kernels.gemm_128, 128),
        };
        // Four stages of 32 columns in binary16.
        self.launch(kernel, [tiles, most.div_ceil(tokens), z], 128, 4 * 64 * tokens, args)
    }

    /// Matrix times vector for `y` rows of the grid.
    fn gemv(&mut self, args: &mut ProjectArgs, y: usize) -> Result<()> {
        const WARPS: usize = 8;
        let cuda = self.cuda;
        let segments = &args.segments[..args.n_segments as usize];
        let is_plain = |m: &DeviceMatrix| [quant::F32, quant::F16, quant::BF16].contains(&m.dtype());
        let plain = segments.iter().any(|s| is_plain(&s.w));
        let blocks = segments.iter().any(|s| !is_plain(&s.w));
        args.forms = u32::from(plain) + 2 * u32::from(blocks);
        let padded = (segments[0].w.cols as usize).next_multiple_of(128);
        let shared = 128 + if plain { 4 * padded } else { 0 } + if blocks { padded + padded / 32 * 8 } else { 0 };
        let turns: usize = match args.epilogue == Epilogue::Glu as u32 {
            true => segments[0].w.rows as usize,
            false => segments.iter().map(|s| (s.w.rows as usize).div_ceil(2)).sum(),
        };
        // Two blocks a processor fill it; more would only prepare the input more often.
        let fill = (2 * cuda.context.properties.multiprocessors as usize / y).max(1);
        self.launch(&cuda.kernels.gemv, [turns.div_ceil(WARPS).min(fill), y, 1], 32 * WARPS as u32, shared, args)
    }

    fn glu(&mut self, gate: Address, up: Address, n: usize, activation: Activation) -> Result<()> {
        let cuda = self.cuda;
        let args = GluArgs { gate, up, n: n as u64, activation: activation_code(activation), pad: 0 };
        self.launch(&cuda.kernels.glu, [n.div_ceil(256).min(4096), 1, 1], 256, 0, &args)
    }

    /// Norms of heads, rotation and the cache, as many of them as follow one another.
    fn heads(&mut self, verbs: &[Verb]) -> Result<Option<usize>> {
        let (cuda, d) = (self.cuda, self.dims);
        let mut args = HeadsArgs {
            step: self.step,
            q: self.act(Act::Q),
            k: self.act(Act::K),
            v: self.act(Act::V),
            q_norm: DeviceNorm::default(),
            k_norm: DeviceNorm::default(),
            inv_freq: 0,
            n_pairs: 0,
            adjacent: 0,
            magnitude: 1.0,
            heads: d.heads as u32,
            kv_heads: d.kv_heads as u32,
            head_dim: d.head_dim as u32,
            store: 0,
            layer: KvLayer::default(),
        };
        let mut taken = 0;
        for verb in verbs {
            match verb {
                Verb::Norm { norm, input, out } if input == out && norm.group == d.head_dim && args.inv_freq == 0 => {
                    let place = match input {
                        Act::Q if args.q_norm.kind == 0 => &mut args.q_norm,
                        Act::K if args.k_norm.kind == 0 => &mut args.k_norm,
                        _ => break,
                    };
                    *place = self.norm_arg(Some(norm), d.head_dim)?;
                }
                Verb::Rope(table) if args.inv_freq == 0 => {
                    let rope = cuda.rope(*table)?;
                    if 2 * rope.pairs > d.head_dim {
                        return mismatch(format!("a rotary table of {} pairs for heads of {}", rope.pairs, d.head_dim));
                    }
                    args.inv_freq = rope.inv_freq;
                    args.n_pairs = rope.pairs as u32;
                    args.adjacent = u32::from(rope.order == RopePairs::Adjacent);
                    args.magnitude = rope.magnitude;
                }
                Verb::KvWrite { layer } => {
                    (args.layer, args.store) = (self.kv_layer(*layer)?, 1);
                    taken += 1;
                    break;
                }
                _ => break,
            }
            taken += 1;
        }
        if taken == 0 {
            return Ok(None);
        }
        let widths = [Act::Q, Act::K, Act::V].map(|act| self.width(act));
        if widths != [d.heads * d.head_dim, d.kv_heads * d.head_dim, d.kv_heads * d.head_dim] {
            return mismatch(format!("{widths:?} values for {} and {} heads of {}", d.heads, d.kv_heads, d.head_dim));
        }
        const WARPS: usize = 4;
        let blocks = (d.heads + 2 * d.kv_heads).div_ceil(WARPS);
        self.launch(&cuda.kernels.heads, [blocks, self.shape.n, 1], 32 * WARPS as u32, 0, &args)?;
        Ok(Some(taken))
    }

    /// Rows of the outputs become the only ones of `X` and `Q`, in the places of `O` and `A`, which are free here.
    fn keep_outputs(&mut self) -> Result<()> {
        let (cuda, moves) = (self.cuda, [(Act::X, Act::O), (Act::Q, Act::A)]);
        let args = KeepRowsArgs {
            from: moves.map(|(from, _)| self.act(from)),
            to: moves.map(|(_, to)| self.act(to)),
            rows: self.step.outputs,
            widths: moves.map(|(from, _)| self.width(from) as u32),
        };
        self.launch(&cuda.kernels.keep_rows, [self.shape.n_outputs, 2, 1], 256, 0, &args)?;
        self.pending = None;
        self.skip(Act::H);
        for (from, to) in moves {
            self.narrow(to, self.width(from))?;
            self.state.acts.swap(from as usize, to as usize);
            self.skip(to);
        }
        (self.shape, self.step) = (self.shape.kept(), self.kept_step);
        self.state.kept = true;
        Ok(())
    }

    fn kv_layer(&self, layer: usize) -> Result<KvLayer> {
        match self.kv_layers.get(layer) {
            Some(kv_layer) => Ok(*kv_layer),
            None => mismatch(format!("layer {layer} of a cache of {}", self.kv_layers.len())),
        }
    }

    fn attend(&mut self, attention: &Attention) -> Result<()> {
        let (cuda, d, s) = (self.cuda, self.dims, self.shape);
        let layer = self.kv_layer(attention.layer)?;
        if self.width(Act::Q) != d.heads * d.head_dim {
            return mismatch(format!("{} values for {} heads of {}", self.width(Act::Q), d.heads, d.head_dim));
        }
        // A window is soon dealt out.
        let splits = match attention.window as usize {
            0 => s.splits,
            window => s.splits.min(window.div_ceil(64).next_power_of_two()),
        };
        self.changes(Act::A)?;
        self.narrow(Act::A, d.heads * d.head_dim)?;
        let args = AttendArgs {
            step: self.step,
            q: self.act(Act::Q),
            out: self.act(Act::A),
            partials: self.scratch.partials,
            counters: self.scratch.attention_counters,
            heads: d.heads as u32,
            kv_heads: d.kv_heads as u32,
            head_dim: d.head_dim as u32,
            layer,
            first_tile: 0,
            window: attention.window,
            splits: splits as u32,
            scale: attention.scale,
            softcap: attention.softcap,
        };
        let k = &cuda.kernels;
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
        let tiles = (self.dims.max_parts / (splits * d.attention_rows())).max(1);
        for first in (0..s.n_tiles).step_by(tiles) {
            let (n, args) = (tiles.min(s.n_tiles - first), AttendArgs { first_tile: first as u32, ..args });
            self.launch(kernel, [n * splits, d.attention_rows(), 1], 128, shared, &args)?;
        }
        Ok(())
    }

    fn route(&mut self, routing: &Routing) -> Result<()> {
        let (cuda, n_experts) = (self.cuda, self.width(Act::R));
        if routing.n_used == 0 || routing.n_used > n_experts || routing.n_used != self.dims.widths.n_experts_used {
            return mismatch(format!("{routing:?} with {n_experts} experts"));
        }
        let args = RouteArgs {
            scores: self.act(Act::R),
            experts: self.scratch.experts,
            weights: self.scratch.expert_weights,
            n_experts: n_experts as u32,
            n_used: routing.n_used as u32,
            softmax_first: u32::from(routing.softmax_first),
            renormalise: u32::from(routing.renormalise),
        };
        self.launch(&cuda.kernels.route, [self.shape.n, 1, 1], 32, 4 * n_experts, &args)
    }

    /// Each chosen expert of each token is a matrix times a vector.
    fn experts(&mut self, experts: &Experts) -> Result<()> {
        let (cuda, used) = (self.cuda, self.dims.widths.n_experts_used);
        let y = self.shape.n * used;
        let input = self.input(Act::H)?;
        let ffn = cuda.weight(experts.down)?.cols;
        let one = |weight: Weight, rows: usize, cols: usize, out: Address| {
            let held = cuda.weight(weight)?;
            if held.cols != cols || Some(held.matrix.rows as usize) != experts.n_experts.checked_mul(rows) {
                return mismatch(format!("{experts:?}: {} by {} for {rows} by {cols}", held.matrix.rows, held.cols));
            }
            Ok(Segment { w: DeviceMatrix { rows: rows as u32, ..held.matrix }, out, bias: 0 })
        };
        let gate = one(experts.gate, ffn, input.width, self.scratch.expert_gate)?;
        let up = one(experts.up, ffn, input.width, self.scratch.expert_up)?;
        let down = one(experts.down, input.width, ffn, self.scratch.expert_out)?;
        let widths = &self.dims.widths;
        if ffn > widths.expert_ffn || experts.n_experts > widths.n_experts || y > 65_535 {
            return mismatch(format!("{experts:?} of {ffn} values for {y} rows"));
        }
        let activation = activation_code(experts.activation);
        let first = ProjectArgs {
            segments: [gate, up, Segment::default(), Segment::default()],
            n_segments: 2,
            cols: input.width as u32,
            activation,
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
        // A few tokens rarely share an expert.
        if self.shape.n > 8 && !cuda.fixed {
            self.gathered(input, first, second, experts)?;
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
                self.glu(gate.out, up.out, y * ffn, experts.activation)?;
            }
            let (x, x_stride) = (gate.out, ffn as u32);
            self.gemv(&mut ProjectArgs { x, x_stride, experts: self.scratch.experts, ..second }, y)?;
        }
        self.changes(Act::O)?;
        self.narrow(Act::O, input.width)?;
        let args = CombineArgs {
            parts: down.out,
            weights: self.scratch.expert_weights,
            out: self.act(Act::O),
            width: input.width as u32,
            n_used: used as u32,
        };
        self.launch(&cuda.kernels.combine, [input.width.div_ceil(256), self.shape.n, 1], 256, 0, &args)
    }

    /// Each expert is a matrix times the rows of all tokens that chose it.
    fn gathered(
        &mut self,
        input: ProductInput,
        first: ProjectArgs,
        second: ProjectArgs,
        experts: &Experts,
    ) -> Result<()> {
        let (cuda, n, n_experts) = (self.cuda, self.shape.n, experts.n_experts);
        let picks = n * self.dims.widths.n_experts_used;
        let (order, starts) = (self.scratch.expert_order, self.scratch.expert_starts);
        let args = GroupArgs { experts: self.scratch.experts, order, starts, picks: picks as u32, pad: 0 };
        self.launch(&cuda.kernels.group, [n_experts, 1, 1], 256, 2 * 256 * 4, &args)?;
        // No token chooses an expert twice.
        let (usual, grid) = (picks.div_ceil(n_experts), [n, n_experts]);
        self.halves(input, first.segments[0].w.cols, n)?;
        self.gemm(&mut ProjectArgs { order, starts, ..first }, usual, grid)?;
        let (gate, up) = (first.segments[0].out, first.segments[1].out);
        let width = second.cols as usize;
        self.glu(gate, up, picks * width, experts.activation)?;
        let input = ProductInput { address: gate, width, norm: DeviceNorm::default(), rows: 0 };
        self.halves(input, second.segments[0].w.cols, picks)?;
        self.gemm(&mut ProjectArgs { order, starts, ..second }, usual, grid)
    }

    fn logits(&mut self, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()> {
        let (cuda, vocab, m) = (self.cuda, self.dims.widths.vocab, self.shape.n_outputs);
        if m == 0 {
            return Ok(());
        }
        let rows = if self.state.kept { 0 } else { self.step.outputs };
        let input = ProductInput { rows, ..self.input(Act::H)? };
        let held = cuda.weight(head)?;
        let (bias, bias_len) = match bias {
            Some(bias) => cuda.vector(bias)?,
            None => (0, vocab),
        };
        if (held.matrix.rows as usize, held.cols, bias_len) != (vocab, input.width, vocab) {
            return mismatch(format!(
                "a head of {} by {}, {vocab} by {} expected",
                held.matrix.rows, held.cols, input.width
            ));
        }
        let segment = Segment { w: held.matrix, out: self.scratch.logits, bias };
        let args = ProjectArgs { epilogue: Epilogue::Cap as u32, scale, softcap, ..Default::default() };
        self.project(input, &[segment], m, args)?;
        self.state.outputs = m;
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
        let blocks = vocab.div_ceil(1024).min(ARGMAX_BLOCKS);
        self.launch(&cuda.kernels.argmax, [blocks, m, 1], 256, 2 * 128 + 16, &args)
    }
}
