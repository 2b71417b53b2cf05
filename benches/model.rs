//! Speed of a model: prefill, and token generation in an empty context, compared with the limits of the processors
//! (roofline), measured in the same run, and on request alternately with llama.cpp.
//!
//! `cargo bench --bench model -- FILE [--threads N] [--prompt N] [--generate N] [--sequences N] [--depth N] [--repeat
//! N] [--device N] [--placement EXPERTS] [--isa NAME] [--peer LLAMA_BENCH]`
//!
//! `--sequences N`: also generates for N sequences in one batch. `--depth N`: also generates after N tokens, so that
//! each token reads their keys and values too.
//!
//! Generation reads every weight once per token (of experts only the chosen ones), and reads and writes recurrent
//! states. Prefill multiplies by every weight once per token; only the last token needs the output matrix and the part
//! of the last layer after its keys and values. The limits are the rates at which the processors read and multiply when
//! they do nothing else. The hash is computed from the bits of the last logits, which depend only on the model and the
//! prompt.

#[path = "../tests/it/support/placement.rs"]
mod placement;
mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use realizar::cpu::kernels::Isa;
use realizar::cpu::threads::pool::Pool;
use realizar::engine::{
    CacheParams, Copied, DeviceKind, LoadOptions, LoadParams, Model, Placement, Runtime, RuntimeParams, Session,
    decode_batch, devices,
};
use realizar::error::Error;
use realizar::format::{Access, Source, TensorInfo};
use support::{Pages, dot_roof, read_roof};

struct Options {
    file: PathBuf,
    threads: u32,
    prompt: usize,
    generate: usize,
    sequences: usize,
    depth: usize,
    repeat: usize,
    /// Index of the device, and placement of experts, as in `rz_model_params`.
    device: u32,
    placement: (Placement, Copied),
    isa: Option<Isa>,
    peer: Option<PathBuf>,
}

const USAGE: &str = "FILE [--threads N] [--prompt N] [--generate N] [--sequences N] [--depth N] [--repeat N] [--device N] \
                     [--placement EXPERTS] [--isa NAME] [--peer LLAMA_BENCH]";
/// Number of generated tokens of a sequence in a batch, or at a depth.
const FEW: usize = 32;

fn options() -> Option<Options> {
    let mut options = Options {
        file: PathBuf::new(),
        threads: 0,
        prompt: 512,
        generate: 128,
        sequences: 0,
        depth: 0,
        repeat: 5,
        device: 0,
        placement: Default::default(),
        isa: None,
        peer: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What cargo adds.
            "--bench" => {}
            "--threads" => options.threads = args.next()?.parse().ok()?,
            "--prompt" => options.prompt = args.next()?.parse().ok()?,
            "--generate" => options.generate = args.next()?.parse().ok()?,
            "--sequences" => options.sequences = args.next()?.parse().ok()?,
            "--depth" => options.depth = args.next()?.parse().ok()?,
            "--repeat" => options.repeat = args.next()?.parse().ok()?,
            "--device" => options.device = args.next()?.parse().ok()?,
            "--placement" => options.placement = placement::placement(&args.next()?)?,
            "--isa" => {
                let name = args.next()?;
                options.isa = Some(Isa::available().into_iter().chain(Isa::in_bf16()).find(|isa| isa.name() == name)?);
            }
            "--peer" => options.peer = Some(args.next()?.into()),
            _ if arg.starts_with('-') => return None,
            _ => options.file = arg.into(),
        }
    }
    (options.prompt > 0 && options.generate > 0 && options.repeat > 0).then_some(options)
}

fn main() {
    let Some(options) = options() else {
        eprintln!("usage: cargo bench --bench model -- {USAGE}");
        std::process::exit(2);
    };
    if options.file.as_os_str().is_empty() {
        println!("SKIPPED: the speed of a model, because none was named: {USAGE}");
        return;
    }
    if let Err(e) = run(&options) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let threads = Pool::new(options.threads as usize)?.threads();
    let start = Instant::now();
    let runtime = Runtime::new(RuntimeParams { threads: options.threads, ..Default::default() })?;
    let model = Model::load(
        &options.file,
        LoadParams {
            runtime: Some(runtime),
            isa: options.isa,
            options: LoadOptions {
                device: options.device,
                placement: options.placement.0,
                copied: options.placement.1,
                ..Default::default()
            },
            ..Default::default()
        },
    )?;
    let load = start.elapsed();
    let info = model.info();
    let device = &devices()[info.device as usize - 1];
    println!(
        "{}: {}, {:.0} M parameters, {:.1} MB of weights, {threads} threads, {} ({})",
        options.file.file_name().unwrap_or_default().to_string_lossy(),
        info.architecture,
        info.n_params as f64 / 1e6,
        info.weight_bytes as f64 / 1e6,
        device.name,
        options.isa.map_or(device.isa.as_str(), |isa| isa.name())
    );
    let memory = resident().map_or(String::new(), |m| {
        format!(", resident memory {:.2} times the weights", m as f64 / info.weight_bytes as f64)
    });
    println!("loaded in {:.0} ms{memory}", load.as_secs_f64() * 1e3);
    let mut roofs = match device.kind {
        DeviceKind::Cpu => Some(Roofs::new(options, &model)?),
        DeviceKind::Gpu => None,
    };
    if let Some(roofs) = &roofs {
        println!(
            "the processors read {:.1} GB/s{}; a token reads {:.1} MB of weights",
            roofs.read / 1e9,
            roofs.dot.map_or(String::new(), |d| format!(" and multiply {:.0} G 8-bit numbers a second", d / 1e9)),
            roofs.token_bytes / 1e6
        );
    }

    let session =
        |capacity: usize| Session::new(&model, &CacheParams { capacity: capacity as u32, ..Default::default() });
    let ids =
        |n: usize| -> Vec<u32> { (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) % info.vocab_size).collect() };
    let (mut one, prompt) = (session(options.prompt + options.generate)?, ids(options.prompt));
    let mut several = Vec::new();
    for _ in 0..options.sequences {
        several.push(session(FEW + 1)?);
    }
    let mut deep = session(options.depth + FEW)?;
    if options.depth > 0 {
        let seconds = time(|| deep.prefill(&ids(options.depth), None))?;
        println!("a prompt of {} in {seconds:.1} s, {:.0} tok/s", options.depth, options.depth as f64 / seconds);
    }

    let on_gpu = roofs.is_none();
    let peer = options.peer.as_deref().map(|program| Peer { program, file: &options.file, threads, on_gpu });
    let mut prompts = Test::new(format!("prompt of {}", options.prompt), options.prompt, "the peer's");
    // Recurrent states are read and written.
    let recurrent = 2.0 * one.recurrent_bytes() as f64;
    let mut answers = Test::new(format!("{} tokens", options.generate), options.generate, "the peer's");
    let mut batches = Test::new(format!("{} sequences", options.sequences), options.sequences * FEW, "one sequence's");
    let kv = f64::from(info.n_layers * info.n_kv_heads * info.head_dim) * 2.0 * 2.0;
    let mut behind = Test::new(format!("behind {}", options.depth), FEW, "one near the beginning's");
    // One turn to warm up, then the roof, ours and the peer's alternate, so that a busy neighbor disturbs all.
    for turn in 0..=options.repeat {
        if let Some(roofs) = &mut roofs {
            roofs.measure_read()?;
        }
        let roofs = roofs.as_ref();
        one.truncate(0)?;
        let seconds = time(|| one.prefill(&prompt, None))?;
        prompts.record(turn, seconds, &one, roofs.and_then(|roofs| roofs.prompt(options.prompt)));
        prompts.peer(turn, &peer, &["-p", &options.prompt.to_string(), "-n", "0"])?;

        one.truncate(0)?;
        let mut token = prompt[0];
        let seconds =
            time(|| (0..options.generate).try_for_each(|_| one.decode(token, None).map(|next| token = next)))?;
        answers.record(turn, seconds, &one, roofs.map(|roofs| roofs.token(recurrent)));
        answers.peer(turn, &peer, &["-p", "0", "-n", &options.generate.to_string()])?;

        let near = answers.ours.last().copied();
        if options.sequences > 0 {
            several.iter_mut().try_for_each(|session| session.truncate(0))?;
            let mut tokens = ids(options.sequences);
            let mut next = tokens.clone();
            let mut sessions: Vec<&mut Session> = several.iter_mut().collect();
            let mut samplers: Vec<_> = sessions.iter().map(|_| None).collect();
            let seconds = time(|| {
                (0..FEW).try_for_each(|_| {
                    decode_batch(&mut sessions, &tokens, &mut samplers, &mut next)?;
                    tokens.copy_from_slice(&next);
                    Ok(())
                })
            })?;
            let roof = roofs.map(|roofs| options.sequences as f64 * roofs.token(0.0));
            batches.record(turn, seconds, &several[0], roof);
            batches.theirs.extend(near);
        }
        if options.depth > 0 {
            deep.truncate(options.depth as u32)?;
            let mut token = prompt[0];
            let seconds = time(|| (0..FEW).try_for_each(|_| deep.decode(token, None).map(|next| token = next)))?;
            let roof = roofs.map(|roofs| roofs.token(recurrent + kv * options.depth as f64));
            behind.record(turn, seconds, &deep, roof);
            behind.theirs.extend(near);
        }
    }
    prompts.print();
    answers.print();
    if options.sequences > 0 {
        batches.print();
    }
    if options.depth > 0 {
        behind.print();
    }
    Ok(())
}

fn time(work: impl FnOnce() -> realizar::error::Result<()>) -> realizar::error::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Returns the bytes of this process in memory; `None` if the system does not report them.
fn resident() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Limits of the processors (roofline).
struct Roofs {
    /// Bytes per second.
    read: f64,
    /// Multiply-accumulates of 8-bit numbers per second.
    dot: Option<f64>,
    /// Bytes of weights that a token needs, including the output matrix.
    token_bytes: f64,
    /// Multiply-accumulates with weights that every token of a prompt needs.
    token_products: f64,
    /// Multiply-accumulates that only the last token needs: with the last layer's weights after keys and values, and
    /// with the output matrix.
    last_products: f64,
    pool: Arc<Pool>,
    pages: Pages,
}

impl Roofs {
    fn new(options: &Options, model: &Arc<Model>) -> realizar::error::Result<Roofs> {
        let info = model.info();
        let source = Source::open(&options.file, Access::Read)?;
        let table = f64::from(info.vocab_size) * f64::from(info.hidden_dim);
        let untied = source.tensor("output.weight").is_some();
        let last_layer = format!("blk.{}.", info.n_layers - 1);
        let needed_by_all = |name: &str| ["attn_k.", "attn_v.", "attn_qkv."].iter().any(|part| name.contains(part));
        let of_last = source.tensors().filter(|t| t.name.starts_with(&last_layer) && !needed_by_all(&t.name));
        let number = |key: &str| {
            let name = format!("{}.{key}", info.architecture);
            Ok::<_, Error>(source.metadata.u32s(&name)?.and_then(|list| list.first().copied()).map(f64::from))
        };
        // The share of a tensor that a token chooses: some experts, a row of a table.
        let used = number("expert_used_count")?.unwrap_or(1.0) / number("expert_count")?.unwrap_or(1.0).max(1.0);
        let chosen = |name: &str| match name {
            "per_layer_token_embd.weight" => 0.0,
            "token_embd.weight" if untied => 0.0,
            _ if name.contains("_exps.") => used,
            _ => 1.0,
        };
        let idle = |of: &dyn Fn(&TensorInfo) -> f64| -> f64 {
            source.tensors().map(|t| (1.0 - chosen(&t.name)) * of(t)).sum()
        };
        let last_products = table + of_last.map(|t| chosen(&t.name) * t.shape.n_elements() as f64).sum::<f64>();
        let pool = Arc::new(Pool::new(options.threads as usize)?);
        let mut pages = Pages::new(info.weight_bytes as usize);
        pages.bytes().fill(1);
        let dot = dot_roof(&pool.enter()?, options.isa.unwrap_or_else(Isa::detect));
        let mut roofs = Roofs {
            read: 0.0,
            dot,
            token_bytes: info.weight_bytes as f64 - idle(&|t| t.bytes as f64),
            token_products: info.n_params as f64 - last_products - idle(&|t| t.shape.n_elements() as f64),
            last_products,
            pool,
            pages,
        };
        roofs.measure_read()?;
        Ok(roofs)
    }

    /// Measures the read rate again, because the speed of shared memory changes within seconds.
    fn measure_read(&mut self) -> realizar::error::Result<()> {
        self.read = read_roof(&self.pool.enter()?, self.pages.bytes());
        Ok(())
    }

    /// Returns the maximum tokens per second for a prompt of `n` tokens.
    fn prompt(&self, n: usize) -> Option<f64> {
        self.dot.map(|dot| dot / (self.token_products + self.last_products / n as f64))
    }

    /// Returns the maximum tokens per second of one sequence, whose tokens read `more` bytes in addition to the
    /// weights.
    fn token(&self, more: f64) -> f64 {
        self.read / (self.token_bytes + more)
    }
}

/// The runs of one test, in tokens per second.
struct Test {
    name: String,
    tokens: usize,
    ours: Vec<f64>,
    /// The limits, measured together with our runs.
    roofs: Vec<f64>,
    theirs: Vec<f64>,
    /// What the program of `theirs` is called in the output.
    beside: &'static str,
    hash: Option<u64>,
}

impl Test {
    fn new(name: String, tokens: usize, beside: &'static str) -> Test {
        Test { name, tokens, ours: Vec::new(), roofs: Vec::new(), theirs: Vec::new(), beside, hash: None }
    }

    fn record(&mut self, turn: usize, seconds: f64, session: &Session, roof: Option<f64>) {
        let logits = session.logits().unwrap_or_default();
        let hash = logits
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |h: u64, x| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3));
        assert_eq!(*self.hash.get_or_insert(hash), hash, "the same tokens gave other logits");
        if turn > 0 {
            self.ours.push(self.tokens as f64 / seconds);
            self.roofs.extend(roof);
        }
    }

    fn peer(&mut self, turn: usize, peer: &Option<Peer>, test: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
        if let Some(peer) = peer.as_ref().filter(|_| turn > 0) {
            self.theirs.push(peer.measure(test)?);
        }
        Ok(())
    }

    fn print(&mut self) {
        let over = |others: &[f64]| -> Vec<f64> { self.ours.iter().zip(others).map(|(a, b)| a / b).collect() };
        let (mut shares, mut ratios) = (over(&self.roofs), over(&self.theirs));
        let (least, median, most) = spread(&mut self.ours);
        print!("{:14} {median:8.1} tok/s ({least:.1} to {most:.1})", self.name);
        if !shares.is_empty() {
            print!(", {:.0} % of {:.0}", 100.0 * spread(&mut shares).1, spread(&mut self.roofs).1);
        }
        if !ratios.is_empty() {
            print!(", {:.2} times {} {:.1}", spread(&mut ratios).1, self.beside, spread(&mut self.theirs).1);
        }
        println!(", logits {:016x}", self.hash.unwrap_or(0));
    }
}

/// Returns minimum, median and maximum.
fn spread(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}

/// llama.cpp's `llama-bench` on the same file.
struct Peer<'a> {
    program: &'a Path,
    file: &'a Path,
    threads: usize,
    on_gpu: bool,
}

impl Peer<'_> {
    /// Returns tokens per second.
    fn measure(&self, test: &[&str]) -> Result<f64, Box<dyn std::error::Error>> {
        let output = Command::new(self.program)
            .arg("-m")
            .arg(self.file)
            .args(["-t", &self.threads.to_string(), "-ngl", if self.on_gpu { "99" } else { "0" }])
            .args(["-r", "1", "-o", "json"])
            .args(test)
            .output()
            .map_err(|e| format!("{}: {e}", self.program.display()))?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        report[0]["avg_ts"].as_f64().ok_or_else(|| format!("{} printed no avg_ts", self.program.display()).into())
    }
}
