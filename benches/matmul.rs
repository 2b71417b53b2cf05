//! Matrix products compared with the limits of the machine (roofline), measured in the same run: the rate at which all
//! threads read a buffer of large pages, and the rate of dot product instructions on registers.
//!
//! `cargo bench --bench matmul [-- [--threads N] [--isa NAME [--beside NAME]] [--shape ROWSxCOLS] [TYPE ...]]`
//!
//! With `--beside` the products of another instruction set are measured alternately, and a row shows their time divided
//! by the time of the first: `--isa amx --beside avx512-vbmi` shows the gain of AMX.
//!
//! For one token a row shows the percentage of the read bandwidth, for more tokens the percentage of the dot product
//! rate. The matrices are larger than any cache unless `--hot` is given.

mod support;

use std::hint::black_box;
use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::cpu::matmul::matrix::WeightMatrix;
use realizar::cpu::matmul::multiply;
use realizar::cpu::matmul::plan::{MatmulJob, MatmulWorkspace};
use realizar::cpu::threads::pool::{Pool, Team};
use realizar::quant::{self, Format};
use support::{Pages, dot_roof, fastest, read_roof};

const BYTES: usize = 256 << 20;
const TOKENS: [usize; 4] = [1, 8, 64, 512];
/// Number of measurements of each of two instruction sets.
const TURNS: usize = 3;

struct Options {
    threads: usize,
    isa: Isa,
    beside: Option<Isa>,
    shapes: Vec<(usize, usize)>,
    types: Vec<String>,
    hot: bool,
}

fn options() -> Options {
    let (isa, shapes, types) = (Isa::detect(), Vec::new(), Vec::new());
    let mut options = Options { threads: 0, isa, beside: None, shapes, types, hot: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--threads" => options.threads = value().parse().expect("a number of threads"),
            "--isa" => options.isa = named(&value()),
            "--beside" => options.beside = Some(named(&value())),
            "--shape" => {
                let shape = value();
                let (rows, cols) = shape.split_once('x').expect("ROWSxCOLS");
                options.shapes.push((rows.parse().expect("rows"), cols.parse().expect("columns")));
            }
            "--hot" => options.hot = true,
            "--bench" => {}
            _ => options.types.push(arg),
        }
    }
    if options.shapes.is_empty() {
        options.shapes = vec![(576, 1536), (1536, 576), (2048, 8192)];
    }
    options
}

fn named(name: &str) -> Isa {
    let isa = Isa::available().into_iter().chain(Isa::in_bf16()).find(|isa| isa.name() == name);
    isa.unwrap_or_else(|| panic!("this machine has no {name}"))
}

/// Returns the time in seconds of a product of one matrix and `tokens` tokens, measured over as many copies of the
/// matrix as `pages` hold.
fn time(team: &Team, isa: Isa, matrix: WeightMatrix, pages: &[u8], copies: usize, tokens: usize) -> f64 {
    let cols = matrix.cols();
    let x: Vec<f32> = (0..tokens * cols).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let mut out = vec![0f32; tokens * matrix.rows];
    let mut workspace = MatmulWorkspace::new(team.threads(), tokens, cols).expect("memory");
    // Short repetitions, each on from where the last one stopped, so that all copies come from memory.
    let calls = (1_000_000_000 / (matrix.rows * cols * (tokens + 20))).clamp(1, copies);
    let mut copy = 0;
    let seconds = fastest(0.3, || {
        for _ in 0..calls {
            let bytes = &pages[copy * matrix.bytes().next_multiple_of(64)..][..matrix.bytes()];
            let mut jobs = [MatmulJob::new(matrix, bytes, None, &mut out)];
            multiply(team, isa, &mut workspace, &x, tokens, &mut jobs);
            copy = (copy + 1) % copies;
        }
    });
    black_box(&out);
    seconds / calls as f64
}

/// Fills the pages with copies of a matrix of small random blocks, and returns the number of copies.
fn fill(format: &Format, matrix: &WeightMatrix, pages: &mut [u8], hot: bool) -> usize {
    let mut raw = vec![0u8; matrix.rows * matrix.row_bytes()];
    let mut state = 1u64;
    let mut values = vec![0f32; format.block_len];
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    while blocks.len() < 8 {
        let mut block = vec![0u8; format.block_bytes];
        for byte in &mut block {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (state >> 56) as u8;
        }
        format.dequantize(&block, &mut values);
        if values.iter().all(|v| v.abs() < 10.0) {
            blocks.push(block);
        }
    }
    for (i, out) in raw.chunks_exact_mut(format.block_bytes).enumerate() {
        out.copy_from_slice(&blocks[i * 7 % 8]);
    }
    let bytes = matrix.bytes().next_multiple_of(64);
    let copies = if hot { 1 } else { (pages.len() / bytes).max(1) };
    let (first, rest) = pages.split_at_mut(bytes);
    matrix.pack(Isa::detect(), &raw, &mut first[..matrix.bytes()]);
    for copy in rest.chunks_exact_mut(bytes).take(copies - 1) {
        copy.copy_from_slice(first);
    }
    copies
}

fn main() {
    let options = options();
    let pool = Arc::new(Pool::new(options.threads).expect("threads"));
    let team = pool.enter().expect("workers");
    let mut pages = Pages::new(BYTES);
    pages.bytes().fill(1);
    let isa = options.isa;
    let read = read_roof(&team, pages.bytes());
    let dot = dot_roof(&team, isa);
    println!(
        "{}, {} threads; reads {:.1} GB/s, dot products {:.0} GMAC/s",
        isa.name(),
        team.threads(),
        read / 1e9,
        dot.unwrap_or(0.0) / 1e9
    );
    println!(
        "{:8} {:>11} | {:>16} | tokens: GMAC/s (share of the dot product rate)",
        "type", "shape", "1: GB/s (share)"
    );
    for format in quant::FORMATS {
        if !options.types.is_empty() && !options.types.iter().any(|name| name == format.name) {
            continue;
        }
        for &(rows, cols) in &options.shapes {
            let Ok(matrix) = WeightMatrix::packed(format.dtype, rows, cols) else { continue };
            let copies = fill(format, &matrix, pages.bytes(), options.hot);
            print!("{:8} {:>11} |", format.name, format!("{rows}x{cols}"));
            for tokens in TOKENS {
                let mut run = |isa| time(&team, isa, matrix, pages.bytes(), copies, tokens);
                let (mut seconds, mut others) = (run(isa), f64::INFINITY);
                for other in options.beside.iter().flat_map(|other| [*other; TURNS]) {
                    others = others.min(run(other));
                    seconds = seconds.min(run(isa));
                }
                if tokens == 1 {
                    let rate = matrix.bytes() as f64 / seconds;
                    print!(" {:8.1} ({:3.0} %) |", rate / 1e9, 100.0 * rate / read);
                } else {
                    let rate = (rows * cols * tokens) as f64 / seconds;
                    print!(" {tokens}: {:.0} ({:.0} %)  ", rate / 1e9, 100.0 * rate / dot.unwrap_or(f64::NAN));
                }
                if let Some(other) = options.beside {
                    print!("[{}: {:.2}] ", other.name(), others / seconds);
                }
            }
            println!();
        }
    }
}
