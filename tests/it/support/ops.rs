//! Programs of a few ops with weights in memory, and a step that executes them on the CPU.

use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::cpu::threads::pool::Pool;
use realizar::device::{Backend, CPU_DEVICE, Executor, Load};
use realizar::error::Result;
use realizar::graph::load_options::LoadOptions;
use realizar::graph::op::{KvLayerId, Op, Projection, RecurrentId, RopeTable, TensorId, Vector, Weight};
use realizar::graph::program::{Program, ProgramBuilder};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::StepLimits;
use realizar::graph::weights::{MatrixSource, Progress, Rope, Weights};
use realizar::quant;

use super::matrix::Matrix;

pub const HIDDEN: usize = 44;
pub const VOCAB: usize = 515;
pub const LAYER: KvLayer = KvLayer::new(2, 10, 0);

pub fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// A program of a few ops and its weights.
pub struct Model {
    builder: ProgramBuilder,
    pub program: Arc<Program>,
    tensors: Vec<TensorId>,
    sources: Vec<Matrix>,
    pub vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
    /// The instruction set to load for; `None`: the best.
    pub isa: Option<Isa>,
}

impl Model {
    /// The KV cache has one layer, which few programs use.
    pub fn new(layer: KvLayer) -> Model {
        let mut builder = ProgramBuilder::default();
        assert_eq!(builder.kv_layer(layer), KvLayerId(0));
        let (tensors, sources, vectors, ropes) = (vec![], vec![], vec![], vec![]);
        Model { builder, program: Arc::default(), tensors, sources, vectors, ropes, isa: None }
    }

    pub fn tensors<const N: usize>(&mut self, widths: [usize; N]) -> [TensorId; N] {
        let tensors = widths.map(|width| self.builder.tensor(width));
        self.tensors.extend(tensors);
        tensors
    }

    pub fn source(&mut self, source: Matrix) -> Weight {
        self.sources.push(source);
        Weight(self.sources.len() as u32 - 1)
    }

    pub fn matrix(&mut self, rows: usize, cols: usize, seed: u64) -> (Weight, Vec<f32>) {
        let values = values(rows * cols, seed);
        (self.source(Matrix::new(quant::F32, rows, cols, &values)), values)
    }

    pub fn vector(&mut self, n: usize, seed: u64) -> (Vector, Vec<f32>) {
        self.vectors.push(values(n, seed));
        (Vector(self.vectors.len() as u32 - 1), values(n, seed))
    }

    /// Adds a vector of indices within rows.
    pub fn places(&mut self, places: impl Iterator<Item = usize>) -> Vector {
        self.vectors.push(places.map(|place| place as f32).collect());
        Vector(self.vectors.len() as u32 - 1)
    }

    /// Adds a KV layer.
    pub fn layer(&mut self, layer: KvLayer) -> KvLayerId {
        self.builder.kv_layer(layer)
    }

    /// Adds a recurrent state.
    pub fn recurrent(&mut self, values: usize) -> RecurrentId {
        self.builder.recurrent(values)
    }

    pub fn rope(&mut self, rope: Rope) -> RopeTable {
        self.ropes.push(rope);
        RopeTable(self.ropes.len() as u32 - 1)
    }

    /// Finishes the program. Activations have separate buffers, except those that are not `kept`.
    pub fn finish_with(mut self, ops: Vec<Op>, vocab: usize, kept: &[TensorId]) -> Model {
        ops.into_iter().for_each(|op| self.builder.push(op));
        self.program = Arc::new(std::mem::take(&mut self.builder).finish(vocab, kept));
        self
    }

    pub fn finish(self, ops: Vec<Op>) -> Model {
        let kept = self.tensors.clone();
        self.finish_with(ops, 0, &kept)
    }

    pub fn weights(&self) -> Weights<'_> {
        let matrices = self.sources.iter().map(|s| s as &dyn MatrixSource).collect();
        Weights { matrices, vectors: self.vectors.clone(), ropes: self.ropes.clone() }
    }

    pub fn spec(&self, capacity: usize) -> SequenceSpec {
        let (layers, k_type, v_type) = (self.program.kv_layers.clone(), quant::F32, quant::F32);
        SequenceSpec { layers, recurrent: self.program.recurrent.clone(), capacity, k_type, v_type, max_step: 512 }
    }

    pub fn load_with(&self, threads: usize, host_bytes: u64, progress: &mut Progress) -> Result<Backend> {
        let limits = StepLimits { max_tokens: 1, max_outputs: 1 };
        let options = LoadOptions { device: CPU_DEVICE, ..Default::default() };
        let load = Load { isa: self.isa, host_bytes, ..Load::new(&options, limits, self.spec(1)) };
        Backend::load(&self.program, &self.weights(), &Arc::new(Pool::new(threads).unwrap()), &load, progress)
    }

    pub fn load(&self, threads: usize) -> Backend {
        self.load_with(threads, u64::MAX, &mut |_, _| Ok(())).unwrap()
    }

    pub fn executor(&self, backend: &Backend, max_tokens: usize, max_outputs: usize) -> Executor {
        backend.new_executor(&self.program, StepLimits { max_tokens, max_outputs }).unwrap()
    }

    pub fn read(&self, executor: &mut Executor, tensor: TensorId, rows: usize) -> Vec<f32> {
        let mut out = vec![0.0; rows * self.program.width(tensor)];
        executor.read(tensor, &mut out).unwrap();
        out
    }
}

pub fn project(x: TensorId, parts: &[(Weight, Option<Vector>, TensorId)]) -> Op {
    let projections = parts.iter().map(|&(weight, bias, out)| Projection { weight, bias, out }).collect();
    Op::Project { x, projections }
}
