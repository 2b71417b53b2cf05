//! Lowers ops to kernel launches, with a short function per op.
//!
//! Relies on `Program::check` for shapes, and on `WgpuDevice::supports`, which rejects ops that no kernel computes.

mod attention;
mod experts;
pub mod lacking;
mod products;
mod recurrent;
mod rows;

use std::sync::atomic::{AtomicUsize, Ordering};

use super::adapter::StepAdapter;
use super::draws::Draw;
use super::inputs::{Masks, Placed, Tokens};
use super::kernels::{Kernel, Kernels, Launch, MAX_GRID, WORDS};
use super::scratch::Scratch;
use super::sequence::StepCache;
use super::weights::DeviceWeights;
use crate::error::{Error, Result};
use crate::graph::op::{Activation, Index, Op, TensorId};
use crate::graph::program::Program;

/// Maximum number of multiplications of a launch of a product or of attention, unless a few rows need more. A device
/// that computes 10^11 per second is busy for less than 0.1 seconds; drivers end launches that take seconds.
static MOST_WORK: AtomicUsize = AtomicUsize::new(1 << 33);

/// Sets `MOST_WORK`, for tests.
pub fn limit_work(most: usize) {
    MOST_WORK.store(most, Ordering::Relaxed);
}

/// Returns the number of rows per launch if each row takes `work` multiplications: a multiple of `least`.
fn rows_per_launch(work: usize, least: usize) -> usize {
    (MOST_WORK.load(Ordering::Relaxed) / work.max(1) / least * least).max(least)
}

pub struct Lowering<'a> {
    pub kernels: &'a Kernels,
    pub weights: &'a DeviceWeights,
    pub program: &'a Program,
    pub scratch: &'a Scratch,
    pub masks: &'a Masks,
    pub placed: &'a Placed,
    pub caches: &'a [StepCache],
    pub adapters: &'a [StepAdapter],
    /// Sampling rules of the outputs.
    pub draws: &'a [Option<Draw>],
    /// True if activations hold only output rows.
    pub is_kept: bool,
    /// True if work must be divided in the same way for every batch.
    pub is_batch_invariant: bool,
    /// Capacity of the sequences, in positions.
    pub capacity: usize,
    pub launches: &'a mut Vec<Launch>,
}

/// An argument of a launch.
pub(super) trait Word {
    fn word(self) -> u32;
}

impl Word for u32 {
    fn word(self) -> u32 {
        self
    }
}

impl Word for usize {
    fn word(self) -> u32 {
        self as u32
    }
}

impl Word for f32 {
    fn word(self) -> u32 {
        self.to_bits()
    }
}

impl Word for bool {
    fn word(self) -> u32 {
        u32::from(self)
    }
}

/// The words of a kernel's parameter struct `P`, in order.
macro_rules! words {
    ($($value:expr),* $(,)?) => { &[$($crate::wgpu::lower::Word::word($value)),*] };
}
pub(super) use words;

/// Returns the code of an activation function in the kernels, and its limits.
fn activation_code(activation: Activation) -> (u32, [f32; 2]) {
    match activation {
        Activation::Identity => (0, [0.0; 2]),
        Activation::Sigmoid => (1, [0.0; 2]),
        Activation::SignedRoot => (2, [0.0; 2]),
        Activation::Softplus => (3, [0.0; 2]),
        Activation::Tanh => (4, [0.0; 2]),
        Activation::Silu => (5, [0.0; 2]),
        Activation::Gelu => (6, [0.0; 2]),
        Activation::GeluErf => (7, [0.0; 2]),
        Activation::QuickGelu => (8, [0.0; 2]),
        Activation::Relu => (9, [0.0; 2]),
        Activation::Relu2 => (10, [0.0; 2]),
        Activation::ClampedSwiglu => (11, [0.0; 2]),
        Activation::SwigluOfClamped(limit) => (12, [limit, 0.0]),
        Activation::SwigluThenClamped(limit) => (13, [limit, 0.0]),
        Activation::TanhSwiglu(limits) => (14, limits),
    }
}

impl Lowering<'_> {
    /// Appends the launches of an op; returns the number of ops that are done.
    pub fn lower(&mut self, at: usize) -> Result<usize> {
        let program = self.program;
        if let Op::OfMedia { ops } = program.ops[at] {
            return Ok(if self.placed.has_media { 1 } else { 1 + ops });
        }
        match &program.ops[at] {
            Op::Embed { table, index, scale, out, .. } => self.embed(*table, *index, *scale, *out)?,
            Op::Norm { norm, x, out } => self.norm(norm, *x, *out)?,
            Op::Project { x, projections } => self.project(*x, projections)?,
            Op::Logits { x, head, bias, scale, softcap } => self.logits(*x, *head, *bias, *scale, *softcap)?,
            Op::Rope { rope, head_dim, first, q, k } => {
                let table = self.table(*rope);
                for x in [Some(*q), *k].into_iter().flatten() {
                    self.rotate(table, x, *head_dim, *first)?;
                }
            }
            Op::StoreKv { layer, k, v } => self.store(*layer, *k, *v)?,
            Op::Attend(attend) => self.attend(attend)?,
            Op::KeepOutputs { moves } => {
                for [from, to] in moves {
                    self.keep(*from, *to)?;
                }
                self.is_kept = true;
            }
            Op::Experts(experts) => self.experts(experts)?,
            Op::ProjectHeads { x, weight, heads, out } => self.project_heads([*x, *out], *weight, *heads)?,
            Op::Conv(conv) => self.conv(conv)?,
            Op::DeltaRule(rule) => self.delta_rule(rule)?,
            Op::Scan(scan) => self.scan(scan)?,
            Op::Wkv(wkv) => self.wkv(wkv)?,
            op => self.rows(op)?,
        }
        Ok(1)
    }

    /// The tokens that have rows in the activations.
    fn tokens(&self) -> &Tokens {
        if self.is_kept { &self.placed.kept } else { &self.placed.all }
    }

    fn n(&self) -> usize {
        self.tokens().n
    }

    fn tensor(&self, tensor: TensorId) -> u32 {
        self.scratch.tensors[tensor.0 as usize]
    }

    fn width(&self, tensor: TensorId) -> usize {
        self.program.width(tensor)
    }

    /// Returns the offset of the array of table rows that the tokens look up.
    fn ids(&self, index: Index) -> u32 {
        match index {
            Index::Id | Index::Token => self.tokens().ids,
            Index::Position => self.tokens().positions,
            Index::Zero => self.placed.zeros,
        }
    }

    /// Appends a launch, unless its grid is empty.
    fn launch(&mut self, kernel: &Kernel, weights: usize, grid: [usize; 3], words: &[u32]) -> Result<()> {
        self.launch_on(kernel, weights, None, grid, words)
    }

    fn launch_on(
        &mut self,
        kernel: &Kernel,
        weights: usize,
        cache: Option<usize>,
        grid: [usize; 3],
        words: &[u32],
    ) -> Result<()> {
        if grid.contains(&0) {
            return Ok(());
        }
        if grid.iter().any(|n| *n > MAX_GRID) || words.len() > WORDS {
            return Err(Error::unsupported(format!(
                "{} of {grid:?} workgroups; {MAX_GRID} are supported",
                kernel.name
            )));
        }
        let mut all = [0; WORDS];
        all[..words.len()].copy_from_slice(words);
        self.launches.push(Launch {
            name: kernel.name,
            pipeline: self.kernels.pipeline(kernel)?,
            weights,
            cache,
            words: all,
            n_words: words.len(),
            grid: grid.map(|n| n as u32),
        });
        Ok(())
    }

    /// Returns the offset of a vector, and its stride between groups of `group` values (0 if all groups use the same
    /// values).
    fn grouped(&self, vector: Option<crate::graph::op::Vector>, group: usize) -> (u32, u32) {
        let len = vector.map_or(0, |vector| self.weights.vector_len(vector));
        (self.weights.vector(vector), if len > group { group as u32 } else { 0 })
    }
}
