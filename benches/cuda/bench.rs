//! Speed of the CUDA backend on models of well-known shapes with random weights, beside the rate at which the device
//! copies memory. Needs no files.
//!
//! `cargo bench --bench cuda [-- --model NAME] [--context N] [--repeat N] [--image FATBIN] [--driver LIBRARY]`
//!
//! Decoding has to read every weight once a token; its roof is the copy rate over those bytes. Below each model stand
//! its products alone, all layers in one step, so that weights come from memory and not from a cache. Hashes are those
//! of the bits of the last logits.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use realizar::cuda::{self, CudaDevice, Driver};
use realizar::device::Batch;
use realizar::device::sequence::Sequence;
use realizar::device::{Backend, Executor, StepBudget};
use realizar::error::Result;
use realizar::gpu::GpuDevice;
use realizar::graph::load_options::LoadOptions;
use realizar::graph::op::{
    Activation, Attend, Index, KvLayerId, Norm, NormKind, Op, Projection, RopeChoice, RopeTable, TensorId, Vector,
    Weight,
};
use realizar::graph::program::{Program, ProgramBuilder};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::{CHOSEN_BEFORE, StepInputs, StepLimits};
use realizar::graph::weights::{MatrixSource, Rope, RopePairs, Weights};
use realizar::quant;
use realizar::tensor::DType;

struct Shape {
    name: &'static str,
    layers: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    ffn: usize,
    vocab: usize,
    tied: bool,
    qk_norm: bool,
}

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    Shape { name: "qwen3-0.6b", layers: 28, hidden: 1024, heads: 16, kv_heads: 8, head_dim: 128, ffn: 3072, vocab: 151_936, tied: true, qk_norm: true },
    Shape { name: "llama-3.2-1b", layers: 16, hidden: 2048, heads: 32, kv_heads: 8, head_dim: 64, ffn: 8192, vocab: 128_256, tied: true, qk_norm: false },
    Shape { name: "llama-3.1-8b", layers: 32, hidden: 4096, heads: 32, kv_heads: 8, head_dim: 128, ffn: 14_336, vocab: 128_256, tied: false, qk_norm: false },
    Shape { name: "tiny", layers: 2, hidden: 256, heads: 4, kv_heads: 2, head_dim: 64, ffn: 256, vocab: 500, tied: true, qk_norm: false },
];

/// Tokens of a step, at most.
const STEP: usize = 512;

struct Options {
    model: Option<String>,
    context: usize,
    repeat: usize,
    image: Option<String>,
    driver: Option<String>,
}

fn options() -> Option<Options> {
    let mut options = Options { model: None, context: 512, repeat: 5, image: None, driver: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What cargo adds.
            "--bench" => {}
            "--model" => options.model = Some(args.next()?),
            "--context" => options.context = args.next()?.parse().ok()?,
            "--repeat" => options.repeat = args.next()?.parse().ok()?,
            "--image" => options.image = Some(args.next()?),
            "--driver" => options.driver = Some(args.next()?),
            _ => return None,
        }
    }
    (options.context > 0 && options.repeat > 0).then_some(options)
}

pub fn main() {
    let Some(options) = options() else {
        eprintln!(
            "usage: cargo bench --bench cuda -- [--model NAME] [--context N] [--repeat N] [--image F] [--driver F]"
        );
        std::process::exit(2);
    };
    if let Err(e) = run(&options) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn open(options: &Options) -> std::result::Result<Arc<CudaDevice>, Box<dyn std::error::Error>> {
    let driver = match &options.driver {
        Some(file) => Driver::open(&[file])?,
        None => Driver::system()?,
    };
    Ok(match &options.image {
        Some(file) => CudaDevice::open(&driver, 0, std::fs::read(file)?.leak(), &LoadOptions::default())?,
        None if options.driver.is_some() => CudaDevice::open(&driver, 0, b"", &LoadOptions::default())?,
        None => cuda::open(0, &LoadOptions::default())?,
    })
}

fn run(options: &Options) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = &cuda::devices()[0];
    if options.driver.is_none() && !device.unavailable.is_empty() {
        println!("SKIPPED: the speed of a GPU, because there is none: {}", device.unavailable);
        return Ok(());
    }
    let cuda = open(options)?;
    // Large enough that no cache holds it.
    let bytes = (cuda.info().memory_free / 8).min(2 << 30) as usize;
    let copy = (0..3).map(|_| cuda.copy_rate(bytes)).collect::<Result<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
    println!("{}, {}: copies {:.0} GB/s, read and written", cuda.info().name, cuda.info().isa, copy / 1e9);
    drop(cuda);
    let wanted = |s: &&Shape| options.model.as_ref().map_or(s.name != "tiny", |m| m == s.name);
    for shape in SHAPES.iter().filter(wanted) {
        model(shape, options, copy)?;
    }
    Ok(())
}

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
struct Network<'a> {
    shape: &'a Shape,
    sources: Vec<Random>,
    embedding: Weight,
    head: Weight,
    layers: Vec<Layer>,
}

struct Layer {
    qkv: [Weight; 3],
    output: Weight,
    gate_up: [Weight; 2],
    down: Weight,
}

impl Network<'_> {
    fn new(s: &Shape) -> Network<'_> {
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

    fn weights(&self) -> Weights<'_> {
        let s = self.shape;
        let base = f64::from(10_000.0f32);
        let inv_freq = (0..s.head_dim / 2).map(|i| base.powf(-2.0 * i as f64 / s.head_dim as f64)).collect();
        Weights {
            matrices: self.sources.iter().map(|s| s as &dyn MatrixSource).collect(),
            vectors: vec![vec![1.0; s.hidden], vec![1.0; s.head_dim]],
            ropes: vec![Rope { pairs: RopePairs::Halves, inv_freq, axes: vec![], magnitude: 1.0, position_offset: 0 }],
        }
    }

    /// Some ops as a program, for caches of the whole network.
    fn program(&self, ops: impl FnOnce(&mut Writer) -> Vec<TensorId>) -> Arc<Program> {
        let mut writer = Writer { shape: self.shape, b: ProgramBuilder::default() };
        for _ in &self.layers {
            let Shape { kv_heads, head_dim, .. } = *self.shape;
            writer.b.kv_layer(KvLayer::new(kv_heads, head_dim, 0));
        }
        let kept = ops(&mut writer);
        Arc::new(writer.b.finish(self.shape.vocab, &kept))
    }

    fn whole(&self) -> Arc<Program> {
        self.program(|w| {
            let (s, out) = (self.shape, w.b.tensor(self.shape.hidden));
            w.b.push(Op::Embed { table: self.embedding, rows: s.vocab, index: Index::Id, scale: 1.0, out });
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
struct Writer<'a> {
    shape: &'a Shape,
    b: ProgramBuilder,
}

impl Writer<'_> {
    fn norm(&mut self, x: TensorId) -> TensorId {
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

    fn qkv(&mut self, layer: &Layer, x: TensorId) -> [TensorId; 3] {
        let h = self.norm(x);
        self.project(h, layer.qkv, self.heads())
    }

    fn attend(&mut self, layer: usize, [q, k, v]: [TensorId; 3], scale: f32) -> TensorId {
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
    fn sum(&mut self, weight: Weight, input: TensorId, x: TensorId, scale: f32) {
        let [delta] = self.project(input, [weight], [self.shape.hidden]);
        self.b.push(Op::Add { x, delta, scale });
    }

    fn gate_up(&mut self, layer: &Layer, x: TensorId) -> TensorId {
        let h = self.norm(x);
        let [gate, up] = self.project(h, layer.gate_up, [self.shape.ffn; 2]);
        self.b.push(Op::Glu { gate, up: Some(up), activation: Activation::Silu });
        gate
    }

    fn head(&mut self, head: Weight, x: TensorId) {
        let h = self.norm(x);
        self.b.push(Op::Logits { x: h, head, bias: None, scale: 1.0, softcap: 0.0 });
    }
}

struct Bench {
    backend: Backend,
    program: Arc<Program>,
    executor: Executor,
    state: Sequence,
    repeat: usize,
}

/// Queues a step of a program from position `from` on.
fn queue(executor: &mut Executor, program: &Program, state: &mut Sequence, ids: &[u32], from: usize) -> Result<()> {
    let positions: Vec<u32> = (from as u32..).take(ids.len()).collect();
    let (slots, last) = (vec![0; ids.len()], [ids.len() as u32 - 1]);
    let batch = &mut Batch {
        inputs: StepInputs { ids, positions: &positions, outputs: &last, sequences: &slots, ..Default::default() },
        sequences: &mut [state],
    };
    executor.begin(batch, 0..program.ops.len())?;
    executor.advance(batch, &StepBudget::unlimited()).map(|_| ())
}

impl Bench {
    /// One step; seconds and the next token.
    fn forward(&mut self, ids: &[u32], from: usize) -> Result<(f64, u32)> {
        let start = Instant::now();
        queue(&mut self.executor, &self.program, &mut self.state, ids, from)?;
        let next = self.executor.token(0)?;
        self.executor.end()?;
        Ok((start.elapsed().as_secs_f64(), next))
    }

    /// Generates `n` tokens from position `from` as the engine does, steps being submitted ahead; seconds.
    fn generate(&mut self, n: usize, from: usize) -> Result<f64> {
        let start = Instant::now();
        let mut sent = 0;
        for done in 0..n {
            while sent < n && sent - done < self.executor.ahead() {
                let ids = [if sent == 0 { 1 } else { CHOSEN_BEFORE }];
                queue(&mut self.executor, &self.program, &mut self.state, &ids, from + sent)?;
                self.executor.submit()?;
                sent += 1;
            }
            self.executor.collect(&mut [0])?;
        }
        self.executor.end()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn hash(&mut self) -> Result<u64> {
        let mut logits = vec![f32::NAN; self.program.vocab];
        self.executor.read_logits(0, &mut logits)?;
        assert!(logits.iter().all(|x| x.is_finite()), "logits that are no numbers");
        let mix = |h: u64, x: &f32| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3);
        Ok(logits.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Median of several runs after two that warm up.
    fn median(&mut self, mut run: impl FnMut(&mut Bench) -> Result<f64>) -> Result<f64> {
        run(self)?;
        run(self)?;
        let mut times = (0..self.repeat).map(|_| run(self)).collect::<Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// A program of one token: time and, where it reads weights, bytes a second.
    fn part(&mut self, name: &str, (bytes, copy): (u64, f64), program: Arc<Program>, from: usize) -> Result<()> {
        let mut executor = self.backend.new_executor(&program, StepLimits { max_tokens: 1, max_outputs: 1 })?;
        let seconds = self.median(|b| {
            let start = Instant::now();
            queue(&mut executor, &program, &mut b.state, &[1], from)?;
            executor.end()?;
            Ok(start.elapsed().as_secs_f64())
        })?;
        let rate = bytes as f64 / seconds;
        println!(
            "    {name:28} {:8.1} us {:7.1} MB {:6.0} GB/s {:4.0} % of the copy rate",
            seconds * 1e6,
            bytes as f64 / 1e6,
            rate / 1e9,
            100.0 * rate / copy
        );
        Ok(())
    }
}

fn model(shape: &Shape, options: &Options, copy: f64) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let cuda = open(options)?;
    let start = Instant::now();
    let network = Network::new(shape);
    let (weights, program) = (network.weights(), network.whole());
    program.check(&weights)?;
    let of_one = |m: &&dyn MatrixSource| cuda.weight_bytes(&Weights { matrices: vec![*m], ..Default::default() });
    let bytes = weights.matrices.iter().map(of_one).collect::<Result<Vec<u64>>>()?;
    let of = |weights: &[Weight]| weights.iter().map(|w| bytes[w.0 as usize]).sum::<u64>();
    let total: u64 = bytes.iter().sum();
    // A token reads one row of the embedding.
    let read = total - if shape.tied { 0 } else { of(&[network.embedding]) };
    let backend = Backend::Gpu(cuda.clone().load(&program, &weights, &mut |_, _| Ok(()))?);
    println!(
        "{}: {:.0} MB of weights, uploaded in {:.1} s",
        shape.name,
        total as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    let capacity = options.context.max(STEP) + 256;
    let (k_type, v_type) = (quant::F16, quant::F16);
    let spec =
        SequenceSpec { layers: program.kv_layers.clone(), recurrent: vec![], capacity, k_type, v_type, max_step: STEP };
    let executor = backend.new_executor(&program, StepLimits { max_tokens: STEP, max_outputs: 4 })?;
    let state = backend.new_sequence(&spec)?;
    let mut bench = Bench { backend, program, executor, state, repeat: options.repeat };

    let ids: Vec<u32> = (0..STEP as u32).map(|i| i.wrapping_mul(2_654_435_761) % shape.vocab as u32).collect();
    let seconds = bench.median(|b| Ok(b.forward(&ids, 0)?.0))?;
    println!("  prompt of {STEP}: {:.0} tok/s, {:016x}", STEP as f64 / seconds, bench.hash()?);
    for from in (STEP..options.context).step_by(STEP) {
        bench.forward(&ids[..STEP.min(options.context - from)], from)?;
    }
    const TOKENS: usize = 64;
    let mut hashes = Vec::new();
    let seconds = bench.median(|b| {
        let (mut token, mut sum) = (1, 0.0);
        for i in 0..TOKENS {
            let (seconds, next) = b.forward(&[token], options.context + i)?;
            (token, sum) = (next, sum + seconds);
        }
        hashes.push(b.hash()?);
        Ok(sum)
    })?;
    assert!(hashes.iter().all(|h| *h == hashes[0]), "the same tokens gave other logits: {hashes:x?}");
    let ahead = bench.median(|b| b.generate(TOKENS, options.context))?;
    for (name, seconds) in [("step by step", seconds), ("steps ahead", ahead)] {
        let rate = TOKENS as f64 / seconds;
        println!(
            "  decoding at {}, {name}: {rate:.0} tok/s, {:.0} % of the copy rate over {:.0} MB, {:016x}",
            options.context,
            100.0 * rate * read as f64 / copy,
            read as f64 / 1e6,
            hashes[0]
        );
    }
    let layers = |f: &dyn Fn(&Layer) -> Vec<Weight>| of(&network.layers.iter().flat_map(f).collect::<Vec<_>>());
    let all = |w: &mut Writer, part: &dyn Fn(&mut Writer, usize, &Layer)| {
        network.layers.iter().enumerate().for_each(|(i, layer)| part(w, i, layer));
    };
    let program = network.program(|w| {
        let x = w.b.tensor(shape.hidden);
        all(w, &|w, _, layer| {
            w.qkv(layer, x);
        });
        vec![x]
    });
    bench.part("norm, q, k, v", (layers(&|l| l.qkv.to_vec()), copy), program, 0)?;
    let program = network.program(|w| {
        let qkv = w.heads().map(|width| w.b.tensor(width));
        all(w, &|w, i, _| {
            w.attend(i, qkv, 0.1);
        });
        qkv.to_vec()
    });
    let cache = (2 * 2 * shape.kv_heads * shape.head_dim * shape.layers * (options.context + 1)) as u64;
    bench.part("heads, attention", (cache, copy), program, options.context)?;
    let program = network.program(|w| {
        let (x, a) = (w.b.tensor(shape.hidden), w.b.tensor(w.heads()[0]));
        all(w, &|w, _, layer| w.sum(layer.output, a, x, 1e-3));
        vec![x, a]
    });
    bench.part("output and sum", (layers(&|l| vec![l.output]), copy), program, 0)?;
    let program = network.program(|w| {
        let x = w.b.tensor(shape.hidden);
        all(w, &|w, _, layer| {
            w.gate_up(layer, x);
        });
        vec![x]
    });
    bench.part("norm, gate, up", (layers(&|l| l.gate_up.to_vec()), copy), program, 0)?;
    let program = network.program(|w| {
        let (x, gate) = (w.b.tensor(shape.hidden), w.b.tensor(shape.ffn));
        all(w, &|w, _, layer| w.sum(layer.down, gate, x, 1e-3));
        vec![x, gate]
    });
    bench.part("down and sum", (layers(&|l| vec![l.down]), copy), program, 0)?;
    let program = network.program(|w| {
        let x = w.b.tensor(shape.hidden);
        w.head(network.head, x);
        vec![]
    });
    bench.part("norm, head, arg-max", (of(&[network.head]), copy), program, 0)?;
    Ok(())
}
