//! Speed of attention, compared with the time of its reads and multiplications alone. Prints a hash of each result.
//!
//! `cargo bench --bench attention [-- THREADS] [MODEL] [PASTxTOKENS]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use realizar::cpu::attention::{AttentionScratch, Heads, LayerSource, Scoring, attend};
use realizar::cpu::kernels::Isa;
use realizar::cpu::kv::CpuKv;
use realizar::cpu::threads::pool::{Pool, Team};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::quant;
use realizar::tensor::DType;

fn values(n: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Returns the median time of some runs in seconds.
fn median(mut run: impl FnMut()) -> f64 {
    run();
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the bytes per second that all threads together read from a buffer of this size.
fn read_rate(team: &Team, bytes: usize) -> f64 {
    let data = vec![1u64; bytes / 8];
    let partition = team.partition(data.len(), 64);
    let repeat = (64 << 20) / bytes + 1;
    let seconds = median(|| {
        for _ in 0..repeat {
            team.run(|share| {
                // Eight sums, so that loads and not additions are the limit.
                let mut sums = [0u64; 64];
                for line in data[partition.range(share)].as_chunks::<64>().0 {
                    for (sum, x) in sums.iter_mut().zip(line) {
                        *sum ^= x;
                    }
                }
                black_box(sums);
            });
        }
    });
    (repeat * bytes) as f64 / seconds
}

fn hash(x: &[f32]) -> u64 {
    x.iter().fold(0xcbf2_9ce4_8422_2325, |h, x| (h ^ u64::from(x.to_bits())).wrapping_mul(0x100_0000_01b3))
}

/// One key of 576 numbers per position; its first 512 numbers are the value.
fn latent(queries: usize) -> Heads {
    Heads { queries, kv: 1, dim: 576, value_dim: 512, is_latent: true }
}

fn main() {
    let threads = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(0);
    let pool = Arc::new(Pool::new(threads).expect("threads"));
    let isa = Isa::detect();
    println!("{} threads, {}", pool.threads(), isa.name());
    let models = [
        ("SmolLM2-135M", Heads::new(9, 3, 64), 30),
        ("gemma-3-270m", Heads::new(4, 1, 256), 18),
        ("Llama-3.2-1B", Heads::new(32, 8, 64), 16),
        ("Llama-3.1-8B", Heads::new(32, 8, 128), 4),
        ("DeepSeek-V2-L.", latent(16), 27),
        ("DeepSeek-V3", latent(128), 4),
    ];
    // One model by a part of its name, or all.
    let wanted = std::env::args().skip(1).find(|arg| arg.starts_with(|c: char| c.is_ascii_alphabetic()));
    let models = models.into_iter().filter(|(name, ..)| wanted.as_ref().is_none_or(|wanted| name.contains(wanted)));
    let given = std::env::args().find_map(|arg| {
        let (past, n) = arg.split_once('x')?;
        Some((past.parse().ok()?, n.parse().ok()?))
    });
    for (name, heads, layers) in models {
        for (past, n) in given.map_or(vec![(1024, 1), (8192, 1), (0, 512), (8192, 512)], |one| vec![one]) {
            for (kind, dtype) in [("f16", quant::F16), ("q8_0", quant::Q8_0), ("q4_0", quant::Q4_0)] {
                measure(&pool, isa, name, heads, layers, past, n, kind, dtype);
            }
        }
    }
}

fn measure(
    pool: &Arc<Pool>,
    isa: Isa,
    name: &str,
    heads: Heads,
    layers: usize,
    past: usize,
    n: usize,
    kind: &str,
    dtype: DType,
) {
    let len = past + n;
    let Heads { kv: n_kv_heads, dim: head_dim, value_dim, is_latent, .. } = heads;
    let shapes = vec![KvLayer { n_kv_heads, head_dim, value_dim, is_latent, window: 0, pool: 1 }; layers];
    let spec =
        SequenceSpec { layers: shapes, recurrent: vec![], capacity: len, k_type: dtype, v_type: dtype, max_step: n };
    let mut cache = CpuKv::new(&spec).expect("a cache");
    let width = heads.kv * heads.dim;
    let rows = values(len + width);
    for (layer, position) in (0..layers).flat_map(|l| (0..len).map(move |p| (l, p))) {
        let row = &rows[position..position + width];
        cache.write(isa, layer, position, row, if is_latent { &[] } else { row }).unwrap();
    }
    let bytes = cache.bytes() as usize;
    let q = values(n * heads.queries * heads.dim);
    let mut out = vec![0.0; n * heads.queries * value_dim];
    let positions: Vec<u32> = (past as u32..len as u32).collect();
    let sequences = vec![0; n];
    let scoring = Scoring::new(0.1);
    let mut scratch = AttentionScratch::new(heads, n, pool.threads(), false).expect("memory");
    let team = pool.enter().expect("workers");
    let layers = if n == 1 { layers } else { 1 };
    let seconds = median(|| {
        for layer in 0..layers {
            let source = LayerSource::new(isa, layer, |_| &cache);
            attend(&team, isa, &scoring, &positions, &sequences, &source, &q, [&mut out, &mut []], &mut scratch);
        }
    });
    print!("{name:14} {kind:5} {n:4} tokens after {past:5}: ");
    if n == 1 {
        let rate = bytes as f64 / seconds;
        print!(
            "{:8.1} us a token, {:6.2} GB/s, {:3.0} % of reading",
            seconds * 1e6,
            rate / 1e9,
            100.0 * rate / read_rate(&team, bytes)
        );
    } else {
        let products: usize =
            positions.iter().map(|&p| (p as usize + 1) * heads.queries * (head_dim + value_dim)).sum();
        print!("{:8.2} ms a layer, {:6.1} G multiply-adds/s", seconds * 1e3, products as f64 / seconds / 1e9);
    }
    println!(", {:016x}", hash(&out));
}
