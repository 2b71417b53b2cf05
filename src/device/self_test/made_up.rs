//! Synthetic weights and inputs of a self-test, functions of row and column.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::graph::op::{Op, TensorId, Vector, Weight};
use crate::graph::plain_op;
use crate::graph::weights::{MatrixSource, Weights};
use crate::quant;
use crate::tensor::DType;

/// Rows of the output matrix: more than one block of the arg-max, and more than a candidate list.
const VOCAB: usize = 2111;

/// Initial values of an activation.
#[derive(Clone, Copy)]
pub enum Input {
    /// Multiples of 1/64 that are exact in 8 bits, times a factor.
    Values(f32),
    /// The same without signs.
    Positive,
    /// Expert scores, all different within a row.
    Scores,
    /// Every second position.
    Places,
}

impl Input {
    pub fn of(self, row: usize, i: usize, width: usize) -> f32 {
        let value = if i.is_multiple_of(32) { 127.0 } else { (scatter(row * 31 + 7, i) % 255) as f32 - 127.0 } / 64.0;
        match self {
            Input::Values(factor) => factor * value,
            Input::Positive => value.abs() / 2.0,
            Input::Places => 2.0 * i as f32,
            // Multiples of the golden ratio are well separated.
            Input::Scores => ((i + 3 * row) % width) as f32 * 0.618_034 % 1.0 * 4.0 - 2.0,
        }
    }
}

/// Returns a pseudo-random number.
fn scatter(a: usize, b: usize) -> u64 {
    let mut x = (a as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (b as u64).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 32)
}

/// A matrix that repeats a few blocks.
pub struct MadeUp {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    /// Empty until the test runs.
    pub blocks: Vec<u8>,
}

/// Number of different blocks of a matrix, a prime.
const BLOCKS: usize = 61;

impl MadeUp {
    /// Creates the blocks.
    pub fn fill(&mut self) -> Result<()> {
        if self.blocks.is_empty() {
            let format = quant::format(self.dtype)?;
            // Products are then around 1, in the nonlinear range of activation functions.
            let unit = (self.cols.ilog2() / 2).min(5);
            let value = |i| ((scatter(5, i) % 255) as f32 - 127.0) / 64.0 / (1 << unit) as f32;
            let values: Vec<f32> = (0..BLOCKS * format.block_len).map(value).collect();
            self.blocks = vec![0; BLOCKS * format.block_bytes];
            quant::quantize(self.dtype, &values, &mut self.blocks)?;
        }
        Ok(())
    }
}

impl MatrixSource for MadeUp {
    fn name(&self) -> &str {
        "a matrix of a self-test"
    }
    fn dtype(&self) -> DType {
        self.dtype
    }
    fn rows(&self) -> usize {
        self.rows
    }
    fn cols(&self) -> usize {
        self.cols
    }
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        let bytes = self.blocks.len() / BLOCKS;
        let row_bytes = quant::format(self.dtype)?.row_bytes(self.cols as u64)? as usize;
        for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes)) {
            for (i, block) in out.chunks_exact_mut(bytes).enumerate() {
                let from = scatter(row, i) as usize % BLOCKS * bytes;
                block.copy_from_slice(&self.blocks[from..from + bytes]);
            }
        }
        Ok(())
    }
}

/// Initial values of an activation of some ops, in the range expected by recurrent layers and routers.
pub fn input_of(ops: &[Op], tensor: TensorId) -> Input {
    ops.iter().find_map(|op| own_input(op, tensor)).unwrap_or(Input::Values(1.0))
}

/// Returns the values that an op needs for an activation; `None` if any will do.
fn own_input(op: &Op, tensor: TensorId) -> Option<Input> {
    match op {
        Op::Experts(e) => (e.scores == tensor).then_some(Input::Scores),
        Op::Attend(a) => (a.among == Some(tensor)).then_some(Input::Places),
        Op::DeltaRule(d) if [d.dt, d.beta].contains(&tensor) => Some(Input::Positive),
        Op::DeltaRule(d) => [d.q, d.k].contains(&tensor).then(|| Input::Values(0.5 / (d.key_dim as f32).sqrt())),
        Op::Scan(s) => (s.dt == tensor).then_some(Input::Positive),
        // Positive steps keep the state from growing.
        Op::Wkv(w) if w.dt == tensor && w.rate.is_some() => Some(Input::Positive),
        Op::Wkv(w) => {
            let is_moved = w.moved.is_some_and(|moved| moved.contains(&tensor));
            is_moved.then(|| Input::Values(0.5 / (w.dim as f32).sqrt()))
        }
        // A query equal to the key at its position would attend to that position only.
        Op::StoreKv { k, .. } => (*k == tensor).then_some(Input::Values(-1.0)),
        plain_op!()
        | Op::Embed { .. }
        | Op::EmbedNgrams(_)
        | Op::Add { .. }
        | Op::Project { .. }
        | Op::ProjectHeads { .. }
        | Op::Select(_)
        | Op::Conv(_)
        | Op::Pool(_)
        | Op::OnHost(_)
        | Op::Logits { .. } => None,
    }
}

/// Synthetic weights of a test.
pub struct Made<'a> {
    pub device: &'a dyn GpuDevice,
    pub weights: &'a Weights<'a>,
    /// True for norm weights of 1 and -1.
    pub signs: bool,
    pub matrices: Vec<MadeUp>,
    pub vectors: Vec<Vec<f32>>,
}

impl Made<'_> {
    /// Gives an op weights of the shapes that its activations require.
    pub fn weights_of(&mut self, op: &mut Op, width: &dyn Fn(TensorId) -> usize) -> Result<()> {
        let Made { device, weights, signs, matrices, vectors } = self;
        let mut matrix = |weight: &mut Weight, rows: usize, cols: usize| {
            let dtype = weights.matrices[weight.0 as usize].dtype();
            matrices.push(MadeUp { dtype: device.stored_type(dtype)?, rows, cols, blocks: Vec::new() });
            *weight = Weight(matrices.len() as u32 - 1);
            Ok::<_, Error>(())
        };
        // Decay rates are negative; other factors are around 1.
        let sign = if matches!(op, Op::DeltaRule(_) | Op::Scan(_)) { -1.0 } else { 1.0 };
        let is_sign = *signs && matches!(op, Op::Norm { .. });
        let mut vector = |vector: &mut Vector, len: usize| {
            let value = |i| match scatter(vectors.len(), i) % 1024 {
                random if is_sign => 1.0 - (random % 2) as f32 * 2.0,
                random => sign * (0.5 + random as f32 / 1024.0),
            };
            vectors.push((0..len).map(value).collect());
            *vector = Vector(vectors.len() as u32 - 1);
        };
        match op {
            Op::Embed { table, rows, out, .. } => matrix(table, *rows, width(*out))?,
            Op::EmbedNgrams(e) => {
                let rows = e.heads.iter().map(|head| head.first + head.rows).max().unwrap_or(1);
                matrix(&mut e.table, rows as usize, width(e.out) / e.heads.len().max(1))?;
            }
            Op::Norm { norm, x, .. } => {
                for v in norm.weight.iter_mut().chain(&mut norm.bias) {
                    // One per group, or one for all.
                    let is_own = weights.vector(*v)?.len() != norm.group && width(*x) != norm.group;
                    vector(v, if is_own { width(*x) } else { norm.group });
                }
            }
            Op::Project { x, projections } => {
                for p in projections.iter_mut() {
                    matrix(&mut p.weight, width(p.out), width(*x))?;
                    p.bias.iter_mut().for_each(|bias| vector(bias, width(p.out)));
                }
            }
            Op::ProjectHeads { x, weight, heads, out } => {
                let cols = weights.shape(*weight)?.1;
                // The rest of a head is unchanged.
                matrix(weight, *heads * (width(*out) / *heads + cols - width(*x) / *heads), cols)?;
            }
            Op::Experts(e) => {
                let (n, hidden) = (e.n_experts, width(e.x));
                let (inner, outer, stack) = (e.stack() * e.ffn, e.stack() * hidden, e.stack());
                let both = if e.gate == Some(e.up) { 2 } else { 1 };
                matrix(&mut e.up, both * inner, hidden)?;
                match &mut e.gate {
                    Some(gate) if both == 2 => *gate = e.up,
                    Some(gate) => matrix(gate, inner, hidden)?,
                    None => {}
                }
                matrix(&mut e.down, outer, e.ffn)?;
                e.routing.bias.iter_mut().for_each(|v| vector(v, n));
                let lengths = [inner, inner, outer];
                e.biases.iter_mut().zip(lengths).for_each(|(v, len)| v.iter_mut().for_each(|v| vector(v, len)));
                e.scales.iter_mut().flatten().for_each(|v| vector(v, stack));
                for (order, width) in e.orders.iter_mut().zip([hidden, hidden, e.ffn]) {
                    // A permutation of the inputs that differs between experts.
                    let place = |i: usize| ((i % width) * 7 + i / width) % width;
                    let Some(order) = order else { continue };
                    vectors.push((0..stack * width).map(|i| place(i) as f32).collect());
                    *order = Vector(vectors.len() as u32 - 1);
                }
            }
            Op::Logits { x, head, bias, .. } => {
                let vocab = weights.shape(*head)?.0.min(VOCAB);
                matrix(head, vocab, width(*x))?;
                bias.iter_mut().for_each(|v| vector(v, vocab));
            }
            // `Gather` keeps the model's indices.
            Op::Gather { by, .. } => {
                vectors.push(weights.vector(*by)?.to_vec());
                *by = Vector(vectors.len() as u32 - 1);
            }
            op => {
                let mut failed = Ok(());
                op.map_vectors(|mut v| {
                    match weights.vector(v) {
                        Ok(values) => vector(&mut v, values.len()),
                        Err(e) => failed = Err(e),
                    }
                    v
                });
                failed?;
            }
        }
        Ok(())
    }
}
