//! Networks of well-known shapes with random weights, whole and in parts.

use std::ops::Range;
use std::sync::Arc;

use realizar::cuda::CudaDevice;
use realizar::error::Result;
use realizar::gpu::GpuDevice;
use realizar::graph::op::{
    Activation, Attend, Index, KvLayerId, Norm, NormKind, Op, Projection, RopeChoice, RopeTable, TensorId, Vector,
    Weight,
};
use realizar::graph::program::{Program, ProgramBuilder};
use realizar::graph::sequence_spec::KvLayer;
use realizar::graph::weights::{MatrixSource, Rope, RopePairs, Weights};
use realizar::quant;
use realizar::tensor::DType;

/// Sizes of a network of the Llama family.
pub struct Shape {
    pub name: &'static str,
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub ffn: usize,
    pub vocab: usize,
    pub tied: bool,
    pub qk_norm: bool,
}

#[rustfmt::skip]
pub const SHAPES: &[Shape] = &[
    Shape { name: "qwen3-0.6b", layers: 28, hidden: 1024, heads: 16, kv_heads: 8, head_dim: 128, ffn: 3072, vocab: 151_936, tied: true, qk_norm: true },
    Shape { name: "llama-3.2-1b", layers: 16, hidden: 2048, heads: 32, kv_heads: 8, head_dim: 64, ffn: 8192, vocab: 128_256, tied: true, qk_norm: false },
    Shape { name: "llama-3.1-8b", layers: 32, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128, ffn: 14_336, vocab: 128_256, tied: false, qk_norm: false },
    Shape { name: "tiny", layers: 2, hidden: 256, heads: 4, kv_heads: 2, head_dim: 64, ffn: 256, vocab: 500, tied: true, qk_norm: false },
];

/// Rows of random blocks with values of the size that keeps activations near 1.
struct Random {
    dtype: DType,
    rows: usize,
    cols: usize,
    blocks: Vec<u8>,
}

impl Random {
    fn new(dtype: DType, rows: usize, cols: usize, seed: u64) -> Random {
        let format = quant::format(dtype).expect("a known type");
        // A prime number of blocks, so that rows differ.
        let mut blocks = vec![0; 1021 * format.block_bytes];
        let mut state = seed | 1;
        for b in &mut blocks {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *b = (state >> 56) as u8;
        }
        let half = |x: f32| {
            let mut b = [0; 2];
            quant::quantize(quant::F16, &[x], &mut b).map(|()| b).expect("one value")
        };
        let size = 1.0 / (cols as f32).sqrt();
        for block in blocks.chunks_exact_mut(format.block_bytes) {
            match dtype {
                // Scales and minima around 32 of 63, quants around 7.5.
                quant::Q4_K => {
                    block[..2].copy_from_slice(&half(size / 150.0));
                    block[2..4].copy_from_slice(&half(size / 150.0 * 7.5));
                }
                // Scales of either sign up to 127, quants up to 32.
                _ => block[208..].copy_from_slice(&half(size / 1400.0)),
            }
        }
        Random { dtype, rows, cols, blocks }
    }
}

impl MatrixSource for Random {
    fn name(&self) -> &str {
        "random"
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
        let mut from = rows.start * 97 % 1021 * (self.blocks.len() / 1021);
        let mut rest = out;
        while !rest.is_empty() {
            let n = rest.len().min(self.blocks.len() - from);
            let (now, behind) = rest.split_at_mut(n);
            now.copy_from_slice(&self.blocks[from..from + n]);
            (rest, from) = (behind, 0);
        }
        Ok(())
    }
}

/// The matrices of a network in the mix of types called `Q4_K_M`.
pub struct Network<'a> {
    pub shape: &'a Shape,
    sources: Vec<Random>,
    pub embedding: Weight,
    pub head: Weight,
    pub layers: Vec<Layer>,
}

pub struct Layer {
    pub qkv: [Weight; 3],
    pub output: Weight,
    pub gate_up: [Weight; 2],
    pub down: Weight,
}

impl Network<'_> {
    pub fn new(s: &Shape) -> Network<'_> {
        let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let mut sources: Vec<Random> = Vec::new();
        let mut add = |dtype, rows, cols| {
            sources.push(Random::new(dtype, rows, cols, sources.len() as u64 * 2 + 1));
            Weight(sources.len() as u32 - 1)
        };
        let more = |layer: usize| layer < s.layers / 8 || layer >= 7 * s.layers / 8 || (layer - s.layers / 8) % 3 == 2;
        let embedding = add(if s.tied { quant::Q6_K } else { quant::Q4_K }, s.vocab, s.hidden);
        let head = if s.tied { embedding } else { add(quant::Q6_K, s.vocab, s.hidden) };
        let mut layer = |i| {
            let rich = if more(i) { quant::Q6_K } else { quant::Q4_K };
            Layer {
                qkv: [add(quant::Q4_K, q, s.hidden), add(quant::Q4_K, kv, s.hidden), add(rich, kv, s.hidden)],
                output: add(quant::Q4_K, s.hidden, q),
                gate_up: [(); 2].map(|()| add(quant::Q4_K, s.ffn, s.hidden)),
                down: add(rich, s.hidden, s.ffn),
            }
        };
        let layers = (0..s.layers).map(&mut layer).collect();
        Network { shape: s, sources, embedding, head, layers }
    }

    pub fn weights(&self) -> Weights<'_> {
        let s = self.shape;
        let base = f64::from(10_000.0f32);
        let inv_freq = (0..s.head_dim / 2).map(|i| base.powf(-2.0 * i as f64 / s.head_dim as f64)).collect();
        Weights {
            matrices: self.sources.iter().map(|s| s as &dyn MatrixSource).collect(),
            vectors: vec![vec![1.0; s.hidden], vec![1.0; s.head_dim]],
            ropes: vec![Rope { pairs: RopePairs::Halves, inv_freq, axes: vec![], magnitude: 1.0, position_offset: 0 }],
        }
    }

    /// Bytes of each matrix on the device.
    pub fn matrix_bytes(&self, device: &Arc<CudaDevice>) -> Result<Vec<u64>> {
        let of_one = |m: &Random| device.weight_bytes(&Weights { matrices: vec![m], ..Default::default() });
        self.sources.iter().map(of_one).collect()
    }

    /// Number of values of a matrix.
    pub fn values(&self, weight: Weight) -> usize {
        let Random { rows, cols, .. } = self.sources[weight.0 as usize];
        rows * cols
    }

    /// Some ops as a program, for caches of the whole network.
    pub fn program(&self, ops: impl FnOnce(&mut Writer) -> Vec<TensorId>) -> Arc<Program> {
        let mut writer = Writer { shape: self.shape, b: ProgramBuilder::default() };
        for _ in &self.layers {
            let Shape { kv_heads, head_dim, .. } = *self.shape;
            writer.b.kv_layer(KvLayer::new(kv_heads, head_dim, 0));
        }
        let kept = ops(&mut writer);
        Arc::new(writer.b.finish(self.shape.vocab, &kept))
    }

    pub fn whole(&self) -> Arc<Program> {
        self.program(|w| {
            let (s, out) = (self.shape, w.embed(self.embedding));
            for (i, layer) in self.layers.iter().enumerate() {
                let qkv = w.qkv(layer, out);
                let a = w.attend(i, qkv, 1.0 / (s.head_dim as f32).sqrt());
                w.sum(layer.output, a, out, 1.0);
                let gate = w.gate_up(layer, out);
                w.sum(layer.down, gate, out, 1.0);
            }
            w.head(self.head, out);
            vec![]
        })
    }
}

/// Writes the parts of a layer.
pub struct Writer<'a> {
    shape: &'a Shape,
    b: ProgramBuilder,
}

impl Writer<'_> {
    pub fn embed(&mut self, table: Weight) -> TensorId {
        let out = self.b.tensor(self.shape.hidden);
        self.b.push(Op::Embed { table, rows: self.shape.vocab, index: Index::Id, scale: 1.0, out });
        out
    }

    pub fn norm(&mut self, x: TensorId) -> TensorId {
        let (group, out) = (self.shape.hidden, self.b.tensor(self.shape.hidden));
        let norm = Norm { kind: NormKind::Rms, weight: Some(Vector(0)), bias: None, eps: 1e-5, group };
        self.b.push(Op::Norm { norm, x, out });
        out
    }

    fn project<const N: usize>(&mut self, x: TensorId, weights: [Weight; N], widths: [usize; N]) -> [TensorId; N] {
        let outs = widths.map(|width| self.b.tensor(width));
        let projections = weights.into_iter().zip(outs);
        let projections = projections.map(|(weight, out)| Projection { weight, bias: None, out }).collect();
        self.b.push(Op::Project { x, projections });
        outs
    }

    fn heads(&self) -> [usize; 3] {
        let Shape { heads, kv_heads, head_dim, .. } = *self.shape;
        [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
    }

    pub fn qkv(&mut self, layer: &Layer, x: TensorId) -> [TensorId; 3] {
        let h = self.norm(x);
        self.project(h, layer.qkv, self.heads())
    }

    pub fn attend(&mut self, layer: usize, [q, k, v]: [TensorId; 3], scale: f32) -> TensorId {
        let (head_dim, stored) = (self.shape.head_dim, KvLayerId(layer as u32));
        let norm = Norm { kind: NormKind::Rms, weight: Some(Vector(1)), bias: None, eps: 1e-5, group: head_dim };
        for x in [q, k].into_iter().filter(|_| self.shape.qk_norm) {
            self.b.push(Op::Norm { norm, x, out: x });
        }
        let rope = RopeChoice { table: RopeTable(0), long: None };
        self.b.push(Op::Rope { rope, head_dim, first: 0, q, k: Some(k) });
        self.b.push(Op::StoreKv { layer: stored, k, v: Some(v) });
        let out = self.b.tensor(self.heads()[0]);
        self.b.push(Op::Attend(Attend::new(stored, q, out, scale)));
        out
    }

    /// A product and its sum with the residual stream.
    pub fn sum(&mut self, weight: Weight, input: TensorId, x: TensorId, scale: f32) {
        let [delta] = self.project(input, [weight], [self.shape.hidden]);
        self.b.push(Op::Add { x, delta, scale });
    }

    pub fn gate_up(&mut self, layer: &Layer, x: TensorId) -> TensorId {
        let h = self.norm(x);
        let [gate, up] = self.project(h, layer.gate_up, [self.shape.ffn; 2]);
        self.b.push(Op::Glu { gate, up: Some(up), activation: Activation::Silu });
        gate
    }

    pub fn head(&mut self, head: Weight, x: TensorId) {
        let h = self.norm(x);
        self.b.push(Op::Logits { x: h, head, bias: None, scale: 1.0, softcap: 0.0 });
    }
}
