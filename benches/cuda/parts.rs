//! The parts of a network by number of tokens and depth: launches, products, attention, prompts, batches.

use std::sync::Arc;

use realizar::error::Result;
use realizar::graph::op::{TensorId, Weight};
use realizar::graph::program::Program;

use crate::bench::{Bench, STEP, Tokens, Work};
use crate::network::{Layer, Shape, Writer};

/// Numbers of tokens per step: each has its own kernels.
const ROWS: [usize; 5] = [1, 4, 16, 64, STEP];
/// Numbers of tokens in the cache.
const DEPTHS: [usize; 3] = [512, 8192, 32_000];
const BATCHES: [usize; 4] = [1, 4, 16, 64];
/// Number of consecutive norms, each of which is a launch that waits for the previous one.
const CHAIN: usize = 256;

/// Prints the table. Depths beyond `context` are left out.
pub fn measure(bench: &mut Bench, context: usize) -> Result<()> {
    let depths: Vec<usize> = DEPTHS.into_iter().filter(|d| *d <= context).collect();
    println!("  part              tokens");
    chain(bench)?;
    products(bench)?;
    let mut filled = 0;
    for &depth in &depths {
        bench.fill(filled, depth)?;
        filled = depth;
        attention(bench, depth)?;
    }
    for n in [STEP / 4, STEP] {
        println!("  prompt of {n}: {:.0} tok/s", bench.prompt(Tokens { n, from: 0 })?);
    }
    // In descending order of depth, because a step overwrites the positions after it.
    for &depth in depths.iter().rev() {
        println!("  prompt of {STEP} behind {depth}: {:.0} tok/s", bench.prompt(Tokens { n: STEP, from: depth })?);
        let (rate, bytes) = (bench.decode(depth)?, bench.bytes_per_token() + cache_bytes(bench, depth));
        let share = 100.0 * rate * bytes as f64 / bench.roofs.read;
        println!("  one sequence behind {depth}: {rate:.0} tok/s, {share:.0} % of the memory's rate");
    }
    for n in BATCHES {
        println!("  {n} sequences behind {STEP}: {:.0} tok/s", bench.batch(n, STEP)?);
    }
    Ok(())
}

/// The last norm of a chain would be fused with its consumer, and there is no consumer.
fn chain(bench: &mut Bench) -> Result<()> {
    let hidden = bench.network.shape.hidden;
    for n in [1, CHAIN] {
        let program = bench.network.program(|w| {
            let mut x = w.embed(bench.network.embedding);
            (0..=n).for_each(|_| x = w.norm(x));
            vec![]
        });
        let work = Work { bytes: (8 * hidden * n) as u64, operations: (4 * hidden * n) as f64 };
        bench.part(&format!("norms in a row: {n}"), work, &program, Tokens { n: 1, from: 0 })?;
    }
    Ok(())
}

/// The products of all layers, and the head. Inputs are computed from the embedding, with at most one additional
/// product, because some devices multiply zeros faster.
fn products(bench: &mut Bench) -> Result<()> {
    type Ops = fn(&mut Writer, &[Layer], TensorId);
    type Matrices = fn(&Layer) -> Vec<Weight>;
    let parts: [(&str, Matrices, Ops); 4] = [
        (
            "norm, q, k, v",
            |l| l.qkv.to_vec(),
            |w, layers, x| {
                layers.iter().for_each(|layer| _ = w.qkv(layer, x));
            },
        ),
        (
            "output and sum",
            |l| vec![l.output],
            |w, layers, x| {
                let [a, ..] = w.qkv(&layers[0], x);
                layers.iter().for_each(|layer| w.sum(layer.output, a, x, 1e-3));
            },
        ),
        (
            "norm, gate, up",
            |l| l.gate_up.to_vec(),
            |w, layers, x| {
                layers.iter().for_each(|layer| _ = w.gate_up(layer, x));
            },
        ),
        (
            "down and sum",
            |l| vec![l.down],
            |w, layers, x| {
                let gate = w.gate_up(&layers[0], x);
                layers.iter().for_each(|layer| w.sum(layer.down, gate, x, 1e-3));
            },
        ),
    ];
    for (name, matrices, ops) in parts {
        let weights: Vec<Weight> = bench.network.layers.iter().flat_map(matrices).collect();
        let values: usize = weights.iter().map(|w| bench.network.values(*w)).sum();
        let program = bench.network.program(|w| {
            let x = w.embed(bench.network.embedding);
            ops(w, &bench.network.layers, x);
            vec![]
        });
        for n in ROWS {
            let work =
                Work { bytes: bench.bytes_of(weights.iter().copied()), operations: 2.0 * values as f64 * n as f64 };
            bench.part(name, work, &program, Tokens { n, from: 0 })?;
        }
    }
    let head = bench.network.head;
    let program = bench.network.program(|w| {
        let x = w.embed(bench.network.embedding);
        w.head(head, x);
        vec![]
    });
    let work = Work { bytes: bench.bytes_of([head]), operations: 2.0 * bench.network.values(head) as f64 };
    bench.part("norm, head, arg-max", work, &program, Tokens { n: 1, from: 0 })
}

/// Keys and values of all layers.
fn cache_bytes(bench: &Bench, positions: usize) -> u64 {
    let Shape { kv_heads, head_dim, layers, .. } = *bench.network.shape;
    (2 * 2 * kv_heads * head_dim * layers * positions) as u64
}

fn attention(bench: &mut Bench, depth: usize) -> Result<()> {
    let Shape { heads, head_dim, layers, .. } = *bench.network.shape;
    let program: Arc<Program> = bench.network.program(|w| {
        let x = w.embed(bench.network.embedding);
        let qkv = w.qkv(&bench.network.layers[0], x);
        (0..bench.network.layers.len()).for_each(|i| _ = w.attend(i, qkv, 0.1));
        vec![]
    });
    for n in [1, STEP] {
        let positions = depth + n.div_ceil(2);
        let operations = 4.0 * (n * positions * heads * head_dim * layers) as f64;
        let work = Work { bytes: cache_bytes(bench, depth + n), operations };
        bench.part(&format!("attention at {depth}"), work, &program, Tokens { n, from: depth })?;
    }
    Ok(())
}
