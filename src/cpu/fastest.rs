//! The instruction set of a process: if the machine has several candidates, the one with the fastest matrix product,
//! measured once. All candidates are bit-identical, so that results do not depend on the choice. An instruction set
//! with products in BF16 is not, and is measured only if a caller allows a model to use it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::kernels::Isa;
use super::matmul::matrix::WeightMatrix;
use super::matmul::multiply_on_caller;
use super::matmul::plan::{MatmulJob, MatmulWorkspace};
use crate::error::{Result, try_filled};
use crate::quant;

/// Shape of the measured product, which takes some hundred microseconds with AVX2.
const ROWS: usize = 256;
const COLS: usize = 1024;
const TOKENS: usize = 32;
/// Number of tokens of a prompt, for which BF16 products reuse weights.
const PROMPT: usize = 256;
/// Number of products per instruction set, interleaved; the first ones wake up a processor unit.
const ROUNDS: usize = 6;

/// Returns the fastest instruction set of this machine.
pub fn fastest() -> Isa {
    static FOUND: OnceLock<Isa> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let candidates = Isa::candidates();
        match candidates[..] {
            [only] => only,
            _ => measure(&candidates, TOKENS).unwrap_or_else(|_| Isa::detect()),
        }
    })
}

/// Returns the instruction set with products in BF16 if its prefill is faster than `fastest`'s.
pub fn fastest_in_bf16() -> Option<Isa> {
    static FOUND: OnceLock<Option<Isa>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // On a tie the later candidate, `fastest`, is taken: its sums are exact.
        let candidates = [Isa::in_bf16().last().copied()?, fastest()];
        measure(&candidates, PROMPT).ok().filter(|found| found.is_in_bf16())
    })
}

/// Returns the instruction set with the fastest product of packed weights with some tokens.
fn measure(candidates: &[Isa], tokens: usize) -> Result<Isa> {
    let matrix = WeightMatrix::packed(quant::Q4_K, ROWS, COLS)?;
    let (weights, x) =
        (try_filled("a measurement", matrix.bytes(), 1u8)?, try_filled("a measurement", tokens * COLS, 1f32)?);
    let mut out = try_filled("a measurement", tokens * ROWS, 0f32)?;
    let mut workspace = MatmulWorkspace::new(1, tokens, COLS)?;
    Ok(choose(candidates, |isa| {
        let started = Instant::now();
        multiply_on_caller(isa, &mut workspace, &x, tokens, &mut [MatmulJob::new(matrix, &weights, None, &mut out)]);
        started.elapsed()
    }))
}

/// Returns the last candidate whose minimum time is within a sixteenth of the overall minimum. Later candidates are
/// usually faster in ways that this product does not show.
fn choose(candidates: &[Isa], mut time: impl FnMut(Isa) -> Duration) -> Isa {
    let mut least = [Duration::MAX; Isa::MOST];
    for _ in 0..ROUNDS {
        for (isa, least) in candidates.iter().zip(&mut least) {
            *least = time(*isa).min(*least);
        }
    }
    let best = least.iter().min().copied().unwrap_or_default();
    let found = candidates.iter().zip(&least).rev().find(|(_, least)| **least <= best + best / 16);
    found.map_or_else(Isa::detect, |(isa, _)| *isa)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_decides_and_the_later_one_of_two_alike() {
        let all = Isa::available();
        let (first, last) = (all[0], all[all.len() - 1]);
        let micros = |isa, times: [u64; 2]| Duration::from_micros(if isa == last { times[1] } else { times[0] });
        if first != last {
            assert_eq!(choose(&[first, last], |isa| micros(isa, [100, 120])), first);
            assert_eq!(choose(&[first, last], |isa| micros(isa, [100, 104])), last);
            // A slow start must not count.
            let mut calls = 0;
            let starts = |isa| {
                calls += 1;
                if calls == 2 { Duration::from_secs(1) } else { micros(isa, [100, 50]) }
            };
            assert_eq!(choose(&[first, last], starts), last);
        }
        assert_eq!(choose(&[first], |_| Duration::ZERO), first);
    }

    #[test]
    fn a_measured_one_is_a_candidate() {
        let all = Isa::available();
        assert!(all.contains(&measure(&all, TOKENS).unwrap()));
        assert!(all.contains(&fastest()));
        assert!(fastest_in_bf16().is_none_or(|isa| Isa::in_bf16().contains(&isa)));
    }
}
