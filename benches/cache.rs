//! KV cache types compared with the default type, and BF16 products compared with exact products: how much the
//! predictions for a text change, and how fast a model generates after a long context, for one sequence and for a batch
//! of forks of one context.
//!
//! `cargo bench --bench cache -- FILE [--text FILE] [--tokens N] [--depth N] [--forks N,...] [--threads N] [--types
//! K/V,...]`
//!
//! The distance is the Kullback-Leibler divergence of the distribution of the next token from that with a 16-bit cache,
//! in nats, after each of the first `--tokens` tokens of the text. If the processor has BF16 products, a further row
//! has them, with a 16-bit cache.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use realizar::cpu::kernels::Isa;
use realizar::engine::{CacheParams, LoadParams, Model, Runtime, RuntimeParams, Session, decode_batch};
use realizar::error::{Error, Result};
use realizar::quant;
use realizar::tensor::DType;

const USAGE: &str = "FILE [--text FILE] [--tokens N] [--depth N] [--forks N,...] [--threads N] [--types K/V,...]";
/// Number of generated tokens per repetition, and number of repetitions.
const FEW: usize = 16;
const TURNS: usize = 5;
const TYPES: [(&str, DType); 4] =
    [("f16", quant::F16), ("f32", quant::F32), ("q8_0", quant::Q8_0), ("q4_0", quant::Q4_0)];

struct Options {
    file: PathBuf,
    text: Option<PathBuf>,
    tokens: usize,
    depth: usize,
    forks: Vec<usize>,
    threads: u32,
    types: Vec<(String, DType, DType)>,
}

/// Parses "KEYS/VALUES,...".
fn types(list: &str) -> Option<Vec<(String, DType, DType)>> {
    let dtype = |name: &str| TYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    list.split(',')
        .map(|name| {
            let (k, v) = name.split_once('/')?;
            Some((name.to_owned(), dtype(k)?, dtype(v)?))
        })
        .collect()
}

fn options() -> Option<Options> {
    let mut options = Options {
        file: PathBuf::new(),
        text: None,
        tokens: 1024,
        depth: 0,
        forks: Vec::new(),
        threads: 0,
        types: types("f16/f16,q8_0/q8_0,q8_0/q4_0,q4_0/q4_0")?,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What cargo adds.
            "--bench" => {}
            "--text" => options.text = Some(args.next()?.into()),
            "--tokens" => options.tokens = args.next()?.parse().ok()?,
            "--depth" => options.depth = args.next()?.parse().ok()?,
            "--forks" => options.forks = args.next()?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
            "--threads" => options.threads = args.next()?.parse().ok()?,
            "--types" => options.types = types(&args.next()?)?,
            _ if arg.starts_with('-') => return None,
            _ => options.file = arg.into(),
        }
    }
    Some(options)
}

fn main() {
    let Some(options) = options() else {
        eprintln!("usage: cargo bench --bench cache -- {USAGE}");
        std::process::exit(2);
    };
    if options.file.as_os_str().is_empty() {
        println!("SKIPPED: types of caches, because no model was named: {USAGE}");
        return;
    }
    if let Err(e) = run(&options) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn run(options: &Options) -> Result<()> {
    let runtime = Runtime::new(RuntimeParams { threads: options.threads, ..Default::default() })?;
    let load = |isa| {
        let runtime = Some(runtime.clone());
        Model::load(&options.file, LoadParams { runtime, isa, ..Default::default() })
    };
    let model = load(None)?;
    if let Some(text) = &options.text {
        let text = std::fs::read_to_string(text).map_err(|e| Error::invalid(format!("{}: {e}", text.display())))?;
        let in_bf16 = Isa::in_bf16().into_iter().map(|isa| Ok((isa.name(), load(Some(isa))?)));
        distances(options, &model, &in_bf16.collect::<Result<Vec<_>>>()?, &text)?;
    }
    if options.depth > 0 {
        speeds(options, &model)?;
        for (name, k_type, v_type) in options.types.iter().filter(|_| !options.forks.is_empty()) {
            forks(options, &model, name, [*k_type, *v_type])?;
        }
    }
    Ok(())
}

fn prompt(options: &Options, model: &Model) -> Vec<u32> {
    (0..options.depth as u32).map(|i| i.wrapping_mul(2_654_435_761) % model.info().vocab_size).collect()
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Returns the tokens per second of a batch of forks of one context, `FEW` tokens each, and a hash of their logits.
fn forks(options: &Options, model: &Arc<Model>, name: &str, [k_type, v_type]: [DType; 2]) -> Result<()> {
    let capacity = (options.depth + FEW) as u32;
    let mut origin = Session::new(model, &CacheParams { capacity, k_type, v_type })?;
    origin.prefill(&prompt(options, model), None)?;
    let mut rates = vec![Vec::new(); options.forks.len()];
    let mut hashes = vec![0u64; options.forks.len()];
    // In turns, so that a busy neighbor disturbs all.
    for _ in 0..TURNS {
        for ((&n, rates), hash) in options.forks.iter().zip(&mut rates).zip(&mut hashes) {
            let mut forks = (0..n).map(|_| origin.fork()).collect::<Result<Vec<_>>>()?;
            let mut forks: Vec<&mut Session> = forks.iter_mut().collect();
            let mut choosers: Vec<_> = (0..n).map(|_| None).collect();
            let mut tokens: Vec<u32> = (0..n as u32).collect();
            let mut next = vec![0; n];
            // Copies the chunk that the forks write to.
            decode_batch(&mut forks, &tokens, &mut choosers, &mut next)?;
            let start = Instant::now();
            for _ in 1..FEW {
                tokens.copy_from_slice(&next);
                decode_batch(&mut forks, &tokens, &mut choosers, &mut next)?;
            }
            rates.push(((FEW - 1) * n) as f64 / start.elapsed().as_secs_f64());
            let logits = forks.iter().flat_map(|fork| fork.logits().unwrap_or_default());
            *hash =
                logits.fold(0xcbf2_9ce4_8422_2325, |h, x| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3));
        }
    }
    let first = median(&mut rates[0].clone());
    for ((n, rates), hash) in options.forks.iter().zip(&mut rates).zip(hashes) {
        let rate = median(rates);
        println!(
            "{name:10} {n:3} forks of {}: {rate:7.1} tok/s ({:.1} to {:.1}), {:.2} times the first, {hash:016x}",
            options.depth,
            rates[0],
            rates[TURNS - 1],
            rate / first
        );
    }
    Ok(())
}

/// Returns the log probabilities.
fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let peak = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let sum: f64 = logits.iter().map(|&x| f64::from(x - peak).exp()).sum();
    logits.iter().map(|&x| f64::from(x - peak) - sum.ln()).collect()
}

fn distances(options: &Options, model: &Arc<Model>, others: &[(&str, Arc<Model>)], text: &str) -> Result<()> {
    let mut tokens = Vec::new();
    model.tokenizer()?.encode(text, true, false, &mut tokens)?;
    tokens.truncate(options.tokens);
    let session =
        |model, k_type, v_type| Session::new(model, &CacheParams { capacity: tokens.len() as u32, k_type, v_type });
    let mut reference = session(model, quant::F16, quant::F16)?;
    let mut sessions = Vec::new();
    for (name, k_type, v_type) in &options.types {
        sessions.push((name.as_str(), session(model, *k_type, *v_type)?, Vec::new(), 0));
    }
    for (name, model) in others {
        sessions.push((name, session(model, quant::F16, quant::F16)?, Vec::new(), 0));
    }
    let mut surprise = 0.0;
    for (i, &token) in tokens.iter().enumerate() {
        let likeliest = reference.decode(token, None)?;
        let expected = log_softmax(reference.logits().unwrap_or_default());
        surprise -= tokens.get(i + 1).map_or(0.0, |&next| expected[next as usize]);
        for (_, session, distances, alike) in &mut sessions {
            *alike += usize::from(session.decode(token, None)? == likeliest);
            let got = log_softmax(session.logits().unwrap_or_default());
            distances.push(expected.iter().zip(got).map(|(p, q)| p.exp() * (p - q)).sum::<f64>());
        }
    }
    let n = tokens.len() as f64;
    println!("{} tokens, perplexity {:.3} with f16/f16", tokens.len(), (surprise / (n - 1.0)).exp());
    for (name, _, distances, alike) in &mut sessions {
        let mean = distances.iter().sum::<f64>() / n;
        distances.sort_by(f64::total_cmp);
        let at = |share: f64| distances[((n - 1.0) * share) as usize];
        println!(
            "{name:10} mean divergence {mean:.6}, median {:.6}, 99 % below {:.6}, {:5.2} % choose the same token",
            at(0.5),
            at(0.99),
            100.0 * *alike as f64 / n
        );
    }
    Ok(())
}

/// Returns the tokens per second of `FEW` tokens after `depth` tokens.
fn speeds(options: &Options, model: &Arc<Model>) -> Result<()> {
    let prompt = prompt(options, model);
    let mut sessions = Vec::new();
    for (name, k_type, v_type) in &options.types {
        let capacity = (options.depth + FEW) as u32;
        let mut session = Session::new(model, &CacheParams { capacity, k_type: *k_type, v_type: *v_type })?;
        let start = Instant::now();
        session.prefill(&prompt, None)?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{name:10} prompt of {}: {seconds:.1} s, {:.0} tok/s", prompt.len(), prompt.len() as f64 / seconds);
        sessions.push((name, session, Vec::new()));
    }
    // In turns, so that a busy neighbor disturbs all.
    for _ in 0..TURNS {
        for (_, session, rates) in &mut sessions {
            session.truncate(options.depth as u32)?;
            let start = Instant::now();
            let mut token = prompt[0];
            (0..FEW).try_for_each(|_| session.decode(token, None).map(|next| token = next))?;
            rates.push(FEW as f64 / start.elapsed().as_secs_f64());
        }
    }
    let first: Vec<f64> = sessions[0].2.clone();
    for (name, _, rates) in &mut sessions {
        let mut gains: Vec<f64> = rates.iter().zip(&first).map(|(rate, first)| rate / first).collect();
        let rate = median(rates);
        println!(
            "{name:10} behind {}: {rate:7.1} tok/s ({:.1} to {:.1}), {:.2} times the first",
            options.depth,
            rates[0],
            rates[TURNS - 1],
            median(&mut gains)
        );
    }
    Ok(())
}
