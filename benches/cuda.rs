//! Speed of the CUDA backend on models of well-known shapes with random weights, beside the rate at which the device
//! copies memory. Needs no files.
//!
//! `cargo bench --bench cuda [-- --model NAME] [--context N] [--repeat N] [--image FATBIN] [--driver LIBRARY]`
//!
//! Decoding has to read every weight once a token; its roof is the copy rate over those bytes. Below each model stand its
//! products alone, all layers in one step, so that weights come from memory and not from a cache. Hashes are those of the
//! bits of the last logits.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use realizar::backend::cuda::{self, Cuda, Driver};
use realizar::backend::{
    Act, Activation, Attention, Backend, Batch, Exec, FOLLOWING, Kv, KvSpec, MatrixSource, Norm, NormKind, Projection,
    Rope, RopePairs, Weight, Widths,
};
use realizar::error::Result;
use realizar::model::config::{Config, LayerConfig, Positions, QkNorm, RopeConfig, RopeScaling};
use realizar::model::decoder::Forward;
use realizar::model::weights::{Ffn, Layer, Network};
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

fn main() {
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

fn open(options: &Options) -> std::result::Result<Cuda, Box<dyn std::error::Error>> {
    let driver = match &options.driver {
        Some(file) => Driver::open(&[file])?,
        None => Driver::system()?,
    };
    Ok(match &options.image {
        Some(file) => Cuda::open(&driver, 0, std::fs::read(file)?.leak())?,
        None if options.driver.is_some() => Cuda::open(&driver, 0, b"")?,
        None => cuda::open(0)?,
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
    let bytes = (cuda.device().memory_free / 8).min(2 << 30) as usize;
    let copy = (0..3).map(|_| cuda.copy_rate(bytes)).collect::<Result<Vec<_>>>()?.into_iter().fold(0.0, f64::max);
    println!("{}, {}: copies {:.0} GB/s, read and written", cuda.device().name, cuda.device().isa, copy / 1e9);
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

/// A network in the mix of types called `Q4_K_M`, and the bytes of each matrix.
fn network(shape: &Shape, cuda: &mut Cuda) -> Result<(Network, Vec<u64>)> {
    let s = shape;
    let (q, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
    let mut sources: Vec<Random> = Vec::new();
    let mut add = |dtype, rows, cols| {
        sources.push(Random::new(dtype, rows, cols, sources.len() as u64 * 2 + 1));
        Weight(sources.len() as u32 - 1)
    };
    let more = |layer: usize| layer < s.layers / 8 || layer >= 7 * s.layers / 8 || (layer - s.layers / 8) % 3 == 2;
    let embedding = add(if s.tied { quant::Q6_K } else { quant::Q4_K }, s.vocab, s.hidden);
    let head = if s.tied { embedding } else { add(quant::Q6_K, s.vocab, s.hidden) };
    let ones = cuda.upload_vector(&vec![1.0; s.hidden])?;
    let head_ones = cuda.upload_vector(&vec![1.0; s.head_dim])?;
    let norm = Norm { kind: NormKind::Rms, weight: ones, bias: None, eps: 1e-5, group: s.hidden };
    let head_norm = s.qk_norm.then_some(Norm { weight: head_ones, group: s.head_dim, ..norm });
    let project = |weight, out| Projection { weight, bias: None, out };
    let layers = (0..s.layers)
        .map(|i| {
            let rich = if more(i) { quant::Q6_K } else { quant::Q4_K };
            Layer {
                attention_norm: Some(norm),
                qkv: [
                    project(add(quant::Q4_K, q, s.hidden), Act::Q),
                    project(add(quant::Q4_K, kv, s.hidden), Act::K),
                    project(add(rich, kv, s.hidden), Act::V),
                ],
                q_norm: head_norm,
                k_norm: head_norm,
                output: project(add(quant::Q4_K, s.hidden, q), Act::O),
                post_attention_norm: None,
                ffn_norm: Some(norm),
                ffn: Ffn::Dense {
                    up: vec![
                        project(add(quant::Q4_K, s.ffn, s.hidden), Act::G),
                        project(add(quant::Q4_K, s.ffn, s.hidden), Act::U),
                    ],
                    down: project(add(rich, s.hidden, s.ffn), Act::O),
                },
                post_ffn_norm: None,
            }
        })
        .collect();
    let sources: Vec<&dyn MatrixSource> = sources.iter().map(|s| s as &dyn MatrixSource).collect();
    let bytes = sources.iter().map(|s| cuda.upload_bytes(&[*s])).collect::<Result<_>>()?;
    cuda.upload(&sources, &mut |_, _| Ok(()))?;
    let base = 10_000.0f32;
    let inv_freq = (0..s.head_dim / 2).map(|i| f64::from(base).powf(-2.0 * i as f64 / s.head_dim as f64)).collect();
    let rope = cuda.upload_rope(&Rope { pairs: RopePairs::Halves, inv_freq, magnitude: 1.0 })?;
    let config = Config {
        architecture: s.name.into(),
        name: s.name.into(),
        hidden: s.hidden,
        ffn: s.ffn,
        n_heads: s.heads,
        n_kv_heads: s.kv_heads,
        head_dim: s.head_dim,
        vocab: s.vocab,
        context_length: 1 << 20,
        norm: NormKind::Rms,
        norm_eps: 1e-5,
        norm_offset: 0.0,
        pre_norm: true,
        post_norm: false,
        qk_norm: if s.qk_norm { QkNorm::Head } else { QkNorm::None },
        activation: Activation::Silu,
        gated: true,
        fused_qkv: false,
        fused_gate_up: false,
        positions: Positions::Rope,
        embedding_scale: 1.0,
        residual_scale: 1.0,
        attention_scale: 1.0 / (s.head_dim as f32).sqrt(),
        attention_softcap: 0.0,
        logit_scale: 1.0,
        logit_softcap: 0.0,
        ropes: vec![RopeConfig { base, n_dims: s.head_dim, pairs: RopePairs::Halves, scaling: RopeScaling::None }],
        long_rope_above: None,
        layers: vec![LayerConfig { rope: 0, window: 0, moe: false }; s.layers],
        moe: None,
    };
    let network = Network {
        config,
        embedding,
        positions: None,
        layers,
        ropes: vec![rope],
        output_norm: norm,
        head,
        head_bias: None,
    };
    Ok((network, bytes))
}

struct Bench {
    network: Network,
    exec: Box<dyn Exec>,
    kv: Box<dyn Kv>,
    repeat: usize,
}

impl Bench {
    /// Runs `verbs` as a step of `ids` from position `from`; seconds.
    fn step(
        &mut self,
        ids: &[u32],
        from: usize,
        verbs: impl FnOnce(&Network, &mut dyn Exec, &mut Batch) -> Result<()>,
    ) -> Result<f64> {
        let positions: Vec<u32> = (from as u32..).take(ids.len()).collect();
        let (slots, last) = (vec![0; ids.len()], [ids.len() as u32 - 1]);
        let mut kvs = [self.kv.as_mut()];
        let batch = &mut Batch { ids, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &last };
        let start = Instant::now();
        self.exec.begin(batch)?;
        verbs(&self.network, self.exec.as_mut(), batch)?;
        self.exec.end()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// The whole network; seconds and the next token.
    fn forward(&mut self, ids: &[u32], from: usize) -> Result<(f64, u32)> {
        let positions: Vec<u32> = (from as u32..).take(ids.len()).collect();
        let (slots, last) = (vec![0; ids.len()], [ids.len() as u32 - 1]);
        let mut kvs = [self.kv.as_mut()];
        let batch = &mut Batch { ids, positions: &positions, slots: &slots, kvs: &mut kvs, outputs: &last };
        let start = Instant::now();
        let mut forward = Forward::begin(&self.network, self.exec.as_mut(), batch)?;
        while forward.step(self.exec.as_mut(), batch)? {}
        let next = self.exec.argmax(0)?;
        self.exec.end()?;
        Ok((start.elapsed().as_secs_f64(), next))
    }

    /// Generates `n` tokens from position `from` as the engine does, steps being submitted ahead; seconds.
    fn generate(&mut self, n: usize, from: usize) -> Result<f64> {
        let start = Instant::now();
        let mut sent = 0;
        for done in 0..n {
            while sent < n && sent - done < self.exec.ahead() {
                let (ids, positions) = ([if sent == 0 { 1 } else { FOLLOWING }], [(from + sent) as u32]);
                let mut kvs = [self.kv.as_mut()];
                let batch = &mut Batch { ids: &ids, positions: &positions, slots: &[0], kvs: &mut kvs, outputs: &[0] };
                let mut forward = Forward::begin(&self.network, self.exec.as_mut(), batch)?;
                while forward.step(self.exec.as_mut(), batch)? {}
                self.exec.submit()?;
                sent += 1;
            }
            self.exec.collect()?;
        }
        self.exec.end()?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn hash(&mut self) -> Result<u64> {
        let mut logits = vec![f32::NAN; self.network.config.vocab];
        self.exec.read_logits(0, &mut logits)?;
        assert!(logits.iter().all(|x| x.is_finite()), "logits that are no numbers");
        let mix = |h: u64, x: &f32| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3);
        Ok(logits.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Median of several runs behind two that warm up.
    fn median(&mut self, mut run: impl FnMut(&mut Bench) -> Result<f64>) -> Result<f64> {
        run(self)?;
        run(self)?;
        let mut times = (0..self.repeat).map(|_| run(self)).collect::<Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// Verbs of one token over all layers: time and, where they read weights, bytes a second.
    fn part(
        &mut self,
        name: &str,
        (bytes, copy): (u64, f64),
        verbs: impl Fn(&Network, &mut dyn Exec, &mut Batch) -> Result<()>,
        from: usize,
    ) -> Result<()> {
        let seconds = self.median(|b| b.step(&[1], from, &verbs))?;
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
    let mut cuda = open(options)?;
    let start = Instant::now();
    let (network, bytes) = network(shape, &mut cuda)?;
    let of = |weights: &[Weight]| weights.iter().map(|w| bytes[w.0 as usize]).sum::<u64>();
    let total: u64 = bytes.iter().sum();
    // A token reads one row of the embedding.
    let read = total - if shape.tied { 0 } else { of(&[network.embedding]) };
    println!(
        "{}: {:.0} MB of weights, uploaded in {:.1} s",
        shape.name,
        total as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    let capacity = options.context.max(STEP) + 256;
    let spec = KvSpec {
        layers: shape.layers,
        n_kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        capacity,
        k_type: quant::F16,
        v_type: quant::F16,
        rings: Vec::new(),
    };
    let (q, kv) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    let (hidden, ffn, vocab) = (shape.hidden, shape.ffn, shape.vocab);
    let widths = Widths { hidden, q, kv, ffn, vocab, n_experts: 0, n_experts_used: 0, expert_ffn: 0 };
    let cuda: Arc<dyn Backend> = Arc::new(cuda);
    let exec = cuda.clone().new_exec(&widths, shape.head_dim, STEP, 4)?;
    let mut bench = Bench { network, exec, kv: cuda.new_kv(&spec)?, repeat: options.repeat };

    let ids: Vec<u32> = (0..STEP as u32).map(|i| i.wrapping_mul(2_654_435_761) % vocab as u32).collect();
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
    let layers = |n: &Network, f: &dyn Fn(&Layer) -> Vec<Weight>| of(&n.layers.iter().flat_map(f).collect::<Vec<_>>());
    let qkv = layers(&bench.network, &|l| l.qkv.iter().map(|p| p.weight).collect());
    let o = layers(&bench.network, &|l| vec![l.output.weight]);
    let dense = |l: &Layer| match &l.ffn {
        Ffn::Dense { up, down } => (up.clone(), *down),
        Ffn::Experts { .. } => (Vec::new(), l.output),
    };
    let up = layers(&bench.network, &|l| dense(l).0.iter().map(|p| p.weight).collect());
    let down = layers(&bench.network, &|l| vec![dense(l).1.weight]);
    let head = of(&[bench.network.head]);
    let cache = (2 * 2 * kv * shape.layers * (options.context + 1)) as u64;
    bench.part(
        "norm, q, k, v",
        (qkv, copy),
        |n, e, _| {
            n.layers.iter().try_for_each(|l| {
                e.norm(&n.output_norm, Act::X, Act::H)?;
                e.project(Act::H, &l.qkv)
            })
        },
        0,
    )?;
    bench.part(
        "heads, attention",
        (cache, copy),
        |n, e, b| {
            (0..n.layers.len()).try_for_each(|layer| {
                e.rope(n.ropes[0])?;
                e.kv_write(b, layer)?;
                e.attend(b, &Attention { layer, scale: 0.1, softcap: 0.0, window: 0 })
            })
        },
        options.context,
    )?;
    bench.part(
        "output and sum",
        (o, copy),
        |n, e, _| {
            n.layers.iter().try_for_each(|l| {
                e.project(Act::A, &[l.output])?;
                e.add(Act::X, Act::O, 1e-3)
            })
        },
        0,
    )?;
    bench.part(
        "norm, gate, up",
        (up, copy),
        |n, e, _| {
            n.layers.iter().try_for_each(|l| {
                e.norm(&n.output_norm, Act::X, Act::H)?;
                e.project(Act::H, &dense(l).0)?;
                e.glu(Activation::Silu, true)
            })
        },
        0,
    )?;
    bench.part(
        "down and sum",
        (down, copy),
        |n, e, _| {
            n.layers.iter().try_for_each(|l| {
                e.project(Act::G, &[dense(l).1])?;
                e.add(Act::X, Act::O, 1e-3)
            })
        },
        0,
    )?;
    bench.part(
        "norm, head, arg-max",
        (head, copy),
        |n, e, b| {
            e.norm(&n.output_norm, Act::X, Act::H)?;
            e.logits(b, n.head, None, 1.0, 0.0)
        },
        0,
    )?;
    Ok(())
}
