//! Latency of a decode step while other threads prefill prompts with the same model, compared with its latency without
//! them.
//!
//! `cargo bench --bench waiting -- FILE [--threads N] [--readers N] [--prompt N] [--seconds N]`

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use realizar::engine::{CacheParams, LoadParams, Model, Runtime, RuntimeParams, Session};
use realizar::error::Result;

const USAGE: &str = "FILE [--threads N] [--readers N] [--prompt N] [--seconds N]";

struct Options {
    file: PathBuf,
    /// Number of threads of the runtime; 0: one per processor.
    threads: u32,
    /// Number of threads that prefill prompts.
    readers: usize,
    prompt: u32,
    seconds: u64,
}

fn options() -> Option<Options> {
    let mut options = Options { file: PathBuf::new(), threads: 0, readers: 1, prompt: 1000, seconds: 5 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // What cargo adds.
            "--bench" => {}
            "--threads" => options.threads = args.next()?.parse().ok()?,
            "--readers" => options.readers = args.next()?.parse().ok()?,
            "--prompt" => options.prompt = args.next()?.parse().ok()?,
            "--seconds" => options.seconds = args.next()?.parse().ok()?,
            _ if arg.starts_with('-') => return None,
            _ => options.file = arg.into(),
        }
    }
    Some(options)
}

fn main() {
    let Some(options) = options() else {
        eprintln!("usage: cargo bench --bench waiting -- {USAGE}");
        std::process::exit(2);
    };
    if options.file.as_os_str().is_empty() {
        println!("SKIPPED: waiting, because no model was named: {USAGE}");
        return;
    }
    if let Err(e) = run(&options) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

fn run(options: &Options) -> Result<()> {
    let runtime = Runtime::new(RuntimeParams { threads: options.threads, ..Default::default() })?;
    let model = Model::load(&options.file, LoadParams { runtime: Some(runtime), ..Default::default() })?;
    let time = Duration::from_secs(options.seconds);
    let ids = model.info().vocab_size.min(1000);
    let prompt: Vec<u32> = (0..options.prompt).map(|i| i * 7 % ids).collect();
    print("alone", &mut tokens(&model, time)?);
    let (ended, read) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (beside, taken) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..options.readers)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut session =
                        Session::new(&model, &CacheParams { capacity: options.prompt, ..Default::default() })?;
                    while !ended.load(Ordering::Relaxed) {
                        session.truncate(0)?;
                        session.prefill(&prompt, None)?;
                        read.fetch_add(prompt.len(), Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let started = Instant::now();
        let beside = tokens(&model, time);
        ended.store(true, Ordering::Relaxed);
        let result = readers.into_iter().try_for_each(|reader| reader.join().expect("a reader that returns"));
        (result.and(beside), started.elapsed())
    });
    print(&format!("beside {} readers of {} tokens", options.readers, options.prompt), &mut beside?);
    println!("{:.0} tokens of prompts a second meanwhile", read.into_inner() as f64 / taken.as_secs_f64());
    Ok(())
}

/// Returns the times of single tokens, one after the other.
fn tokens(model: &Arc<Model>, time: Duration) -> Result<Vec<f64>> {
    let mut session = Session::new(model, &CacheParams { capacity: 512, ..Default::default() })?;
    let (started, mut times, mut token) = (Instant::now(), Vec::new(), 1);
    while started.elapsed() < time {
        if session.len() == session.capacity() {
            session.truncate(0)?;
        }
        let began = Instant::now();
        token = session.decode(token, None)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

fn print(what: &str, ms: &mut [f64]) {
    ms.sort_by(f64::total_cmp);
    let (n, at) = (ms.len(), |i: usize| ms.get(i).copied().unwrap_or(f64::NAN));
    let mean = ms.iter().sum::<f64>() / n as f64;
    let (p95, most) = (at(n * 95 / 100), at(n.saturating_sub(1)));
    println!("{what}: {n} tokens, mean {mean:.1} ms, p95 {p95:.1} ms, most {most:.1} ms");
}
