//! Speed of the CUDA backend on networks of well-known shapes with random weights, compared with the rate at which the
//! device copies memory. Needs no files.
//!
//! `cargo bench --bench cuda [-- parts] [--model NAME] [--context N] [--repeat N] [--read GB/S] [--multiply TFLOP/S]
//! [--image FATBIN] [--driver LIBRARY]`
//!
//! Decode reads every weight once per token, so its upper bound is the memory rate divided by the bytes of all weights.
//! `parts` prints the time of each part of a network, all layers in one step, so that weights come from memory and not
//! from a cache, with the percentage of the lower of two limits: the rate of `--read` for bytes, the rate of
//! `--multiply` for operations (see `roofs.cu`). Without these options the copy rate is the only limit. Hashes are
//! computed from the bits of the last logits.

use std::sync::Arc;
use std::time::Instant;

use realizar::cuda::{self, CudaDevice, Driver};
use realizar::device::sequence::Sequence;
use realizar::device::{Backend, Batch, Executor, StepBudget};
use realizar::error::Result;
use realizar::gpu::GpuDevice;
use realizar::graph::load_options::LoadOptions;
use realizar::graph::program::Program;
use realizar::graph::sequence_spec::SequenceSpec;
use realizar::graph::step::{CHOSEN_BEFORE, StepInputs, StepLimits};
use realizar::quant;

use crate::network::{Network, SHAPES, Shape};
use crate::parts;

/// Maximum number of tokens per step.
pub const STEP: usize = 512;

/// Number of generated tokens per measurement.
const TOKENS: usize = 64;

pub type AnyResult<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Options {
    parts: bool,
    model: Option<String>,
    context: usize,
    repeat: usize,
    read: Option<f64>,
    multiply: Option<f64>,
    image: Option<String>,
    driver: Option<String>,
}

fn options() -> Option<Options> {
    let mut options = Options {
        parts: false,
        model: None,
        context: 512,
        repeat: 5,
        read: None,
        multiply: None,
        image: None,
        driver: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What cargo adds.
            "--bench" => {}
            "parts" => options.parts = true,
            "--model" => options.model = Some(args.next()?),
            "--context" => options.context = args.next()?.parse().ok()?,
            "--repeat" => options.repeat = args.next()?.parse().ok()?,
            "--read" => options.read = Some(args.next()?.parse().ok()?),
            "--multiply" => options.multiply = Some(args.next()?.parse().ok()?),
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
            "usage: cargo bench --bench cuda -- [parts] [--model NAME] [--context N] [--repeat N] [--read GB/S] \
             [--multiply TFLOP/S] [--image F] [--driver F]"
        );
        std::process::exit(2);
    };
    if let Err(e) = run(&options) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn open(options: &Options) -> AnyResult<Arc<CudaDevice>> {
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

fn run(options: &Options) -> AnyResult<()> {
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
    let roofs = Roofs { read: options.read.map_or(copy, |r| r * 1e9), multiply: options.multiply.map(|r| r * 1e12) };
    let by_default = |s: &Shape| if options.parts { s.name == "llama-3.1-8b" } else { s.name != "tiny" };
    let wanted = |s: &&Shape| options.model.as_ref().map_or_else(|| by_default(s), |m| m == s.name);
    for shape in SHAPES.iter().filter(wanted) {
        let mut bench = Bench::new(shape, options, roofs)?;
        if options.parts { parts::measure(&mut bench, options.context)? } else { bench.whole(options.context)? }
    }
    Ok(())
}

/// Limits of the device: bytes per second, floating-point operations per second.
#[derive(Clone, Copy)]
pub struct Roofs {
    pub read: f64,
    pub multiply: Option<f64>,
}

/// Bytes and operations of a step.
#[derive(Clone, Copy)]
pub struct Work {
    pub bytes: u64,
    pub operations: f64,
}

/// The tokens of a step: `n` in each sequence, from the same position on.
#[derive(Clone, Copy)]
pub struct Tokens {
    pub n: usize,
    pub from: usize,
}

pub struct Bench<'a> {
    pub network: Network<'a>,
    pub backend: Backend,
    pub roofs: Roofs,
    pub spec: SequenceSpec,
    program: Arc<Program>,
    executor: Executor,
    state: Sequence,
    repeat: usize,
    /// Bytes of each matrix on the device.
    bytes: Vec<u64>,
}

/// Queues a step of a program, in which each sequence has the tokens `ids` from position `from` on and the last one has
/// logits.
pub fn queue(
    executor: &mut Executor,
    program: &Program,
    sequences: &mut [&mut Sequence],
    ids: &[u32],
    from: usize,
) -> Result<()> {
    let (n, each) = (sequences.len(), ids.len());
    let positions: Vec<u32> = (0..n).flat_map(|_| (from as u32..).take(each)).collect();
    let slots: Vec<u32> = (0..n as u32).flat_map(|s| std::iter::repeat_n(s, each)).collect();
    let outputs: Vec<u32> = (1..=n).map(|s| (s * each) as u32 - 1).collect();
    let ids = ids.repeat(n);
    let inputs =
        StepInputs { ids: &ids, positions: &positions, outputs: &outputs, sequences: &slots, ..Default::default() };
    let batch = &mut Batch { inputs, sequences };
    executor.begin(batch, 0..program.ops.len())?;
    executor.advance(batch, &StepBudget::unlimited()).map(|_| ())
}

impl<'a> Bench<'a> {
    fn new(shape: &'a Shape, options: &Options, roofs: Roofs) -> AnyResult<Bench<'a>> {
        let cuda = open(options)?;
        let start = Instant::now();
        let network = Network::new(shape);
        let (weights, program) = (network.weights(), network.whole());
        program.check(&weights)?;
        let bytes = network.matrix_bytes(&cuda)?;
        let backend = Backend::Gpu(cuda.load(&program, &weights, &mut |_, _| Ok(()))?);
        let total = bytes.iter().sum::<u64>() as f64 / 1e6;
        println!("{}: {total:.0} MB of weights, uploaded in {:.1} s", shape.name, start.elapsed().as_secs_f64());
        let capacity = options.context.max(STEP) + STEP;
        let spec = SequenceSpec {
            layers: program.kv_layers.clone(),
            recurrent: vec![],
            capacity,
            k_type: quant::F16,
            v_type: quant::F16,
            max_step: STEP,
        };
        let executor = backend.new_executor(&program, StepLimits { max_tokens: STEP, max_outputs: 1 })?;
        let state = backend.new_sequence(&spec)?;
        drop(weights);
        Ok(Bench { network, backend, roofs, spec, program, executor, state, repeat: options.repeat, bytes })
    }

    /// Bytes of some matrices on the device.
    pub fn bytes_of(&self, weights: impl IntoIterator<Item = realizar::graph::op::Weight>) -> u64 {
        weights.into_iter().map(|w| self.bytes[w.0 as usize]).sum()
    }

    /// Returns the bytes that a token reads: only one row of the embedding table, unless the table is the head too.
    pub fn bytes_per_token(&self) -> u64 {
        let embedding = if self.network.shape.tied { 0 } else { self.bytes_of([self.network.embedding]) };
        self.bytes.iter().sum::<u64>() - embedding
    }

    pub fn ids(&self, n: usize) -> Vec<u32> {
        (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) % self.network.shape.vocab as u32).collect()
    }

    /// Runs one step of the whole network; returns its time in seconds and the next token.
    fn forward(&mut self, ids: &[u32], from: usize) -> Result<(f64, u32)> {
        let start = Instant::now();
        queue(&mut self.executor, &self.program, &mut [&mut self.state], ids, from)?;
        let next = self.executor.token(0)?;
        self.executor.end()?;
        Ok((start.elapsed().as_secs_f64(), next))
    }

    /// Fills the cache from position `from` to `to`.
    pub fn fill(&mut self, from: usize, to: usize) -> Result<()> {
        for at in (from..to).step_by(STEP) {
            let ids = self.ids(STEP.min(to - at));
            self.forward(&ids, at)?;
        }
        Ok(())
    }

    /// Returns prompt tokens per second, with `from` tokens in the cache.
    pub fn prompt(&mut self, tokens: Tokens) -> Result<f64> {
        let ids = self.ids(tokens.n);
        let seconds = self.median(|b| Ok(b.forward(&ids, tokens.from)?.0))?;
        Ok(tokens.n as f64 / seconds)
    }

    /// Generates `n` tokens from position `from` with pipelined steps, as the engine does; returns the time in seconds.
    fn generate(&mut self, n: usize, from: usize) -> Result<f64> {
        let start = Instant::now();
        let mut sent = 0;
        for done in 0..n {
            while sent < n && sent - done < self.executor.ahead() {
                let ids = [if sent == 0 { 1 } else { CHOSEN_BEFORE }];
                queue(&mut self.executor, &self.program, &mut [&mut self.state], &ids, from + sent)?;
                self.executor.submit()?;
                sent += 1;
            }
            self.executor.collect(&mut [0])?;
        }
        self.executor.end()?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Returns generated tokens per second after `from` tokens, with pipelined steps.
    pub fn decode(&mut self, from: usize) -> Result<f64> {
        Ok(TOKENS as f64 / self.median(|b| b.generate(TOKENS, from))?)
    }

    /// Returns generated tokens per second of a batch of `n` sequences, each after `from` tokens.
    pub fn batch(&mut self, n: usize, from: usize) -> Result<f64> {
        let mut executor = self.backend.new_executor(&self.program, StepLimits { max_tokens: STEP, max_outputs: n })?;
        let spec = SequenceSpec { capacity: from + STEP, ..self.spec.clone() };
        let mut states = (0..n).map(|_| self.backend.new_sequence(&spec)).collect::<Result<Vec<_>>>()?;
        let ids = self.ids(STEP);
        for state in &mut states {
            for at in (0..from).step_by(STEP) {
                let n = STEP.min(from - at);
                queue(&mut executor, &self.program, &mut [&mut *state], &ids[..n], at)?;
                executor.end()?;
            }
        }
        let program = self.program.clone();
        let seconds = self.median(|_| {
            let mut states: Vec<&mut Sequence> = states.iter_mut().collect();
            let start = Instant::now();
            queue(&mut executor, &program, &mut states, &ids[..1], from)?;
            executor.token(0)?;
            executor.end()?;
            Ok(start.elapsed().as_secs_f64())
        })?;
        Ok(n as f64 / seconds)
    }

    fn hash(&mut self) -> Result<u64> {
        let mut logits = vec![f32::NAN; self.program.vocab];
        self.executor.read_logits(0, &mut logits)?;
        assert!(logits.iter().all(|x| x.is_finite()), "logits that are no numbers");
        let mix = |h: u64, x: &f32| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3);
        Ok(logits.iter().fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// Returns the median of several runs after two warm-up runs.
    fn median(&mut self, mut run: impl FnMut(&mut Bench<'a>) -> Result<f64>) -> Result<f64> {
        run(self)?;
        run(self)?;
        let mut times = (0..self.repeat).map(|_| run(self)).collect::<Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// Prints the time of a part of the network, and the percentage of the lower limit.
    pub fn part(&mut self, name: &str, work: Work, program: &Arc<Program>, tokens: Tokens) -> Result<()> {
        let limits = StepLimits { max_tokens: tokens.n, max_outputs: 1 };
        let mut executor = self.backend.new_executor(program, limits)?;
        let ids = self.ids(tokens.n);
        let seconds = self.median(|b| {
            let start = Instant::now();
            queue(&mut executor, program, &mut [&mut b.state], &ids, tokens.from)?;
            executor.end()?;
            Ok(start.elapsed().as_secs_f64())
        })?;
        let by_products = self.roofs.multiply.map_or(0.0, |rate| work.operations / rate);
        let floor = by_products.max(work.bytes as f64 / self.roofs.read);
        println!(
            "  {name:20} {:4} {:8.1} us {:8.1} MB {:6.0} GB/s {:7.1} TFLOP/s {:4.0} % of the roof",
            tokens.n,
            seconds * 1e6,
            work.bytes as f64 / 1e6,
            work.bytes as f64 / seconds / 1e9,
            work.operations / seconds / 1e12,
            100.0 * floor / seconds
        );
        Ok(())
    }

    /// Prints the speed of the whole network.
    fn whole(&mut self, context: usize) -> AnyResult<()> {
        let rate = self.prompt(Tokens { n: STEP, from: 0 })?;
        println!("  prompt of {STEP}: {rate:.0} tok/s, {:016x}", self.hash()?);
        self.fill(0, context)?;
        let mut hashes = Vec::new();
        let seconds = self.median(|b| {
            let (mut token, mut sum) = (1, 0.0);
            for i in 0..TOKENS {
                let (seconds, next) = b.forward(&[token], context + i)?;
                (token, sum) = (next, sum + seconds);
            }
            hashes.push(b.hash()?);
            Ok(sum)
        })?;
        assert!(hashes.iter().all(|h| *h == hashes[0]), "the same tokens gave other logits: {hashes:x?}");
        let (read, ahead) = (self.bytes_per_token() as f64, self.decode(context)?);
        for (name, rate) in [("step by step", TOKENS as f64 / seconds), ("steps ahead", ahead)] {
            println!(
                "  decoding at {context}, {name}: {rate:.0} tok/s, {:.0} % of the memory's rate over {:.0} MB, {:016x}",
                100.0 * rate * read / self.roofs.read,
                read / 1e6,
                hashes[0]
            );
        }
        Ok(())
    }
}
