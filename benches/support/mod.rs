//! The limits of this machine (roofline), with which speed is compared: how fast all threads together read and
//! multiply.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use realizar::cpu::kernels::Isa;
use realizar::cpu::threads::pool::Team;

/// Zeroed memory, in pages of 2 MiB if the system grants them.
pub struct Pages {
    start: *mut u8,
    len: usize,
}

impl Pages {
    pub fn new(len: usize) -> Pages {
        const HUGE: usize = 2 << 20;
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping; it is never unmapped.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len + HUGE, prot, flags, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        let start = start.cast::<u8>().wrapping_add(start.addr().wrapping_neg() % HUGE);
        // SAFETY: inside the mapping.
        unsafe { libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE) };
        Pages { start, len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: zeroed memory that this value owns.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// Returns the time of the fastest of many repetitions in seconds: on a shared machine, slower ones measure other
/// programs.
pub fn fastest(budget: f64, mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    work();
    while best == f64::INFINITY || begin.elapsed().as_secs_f64() < budget {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Returns the bytes per second at which the threads read `data`, each thread its own part.
pub fn read_roof(team: &Team, data: &[u8]) -> f64 {
    let (lines, _) = data.as_chunks::<64>();
    let each = lines.len() / team.threads();
    let time = fastest(0.5, || {
        team.run(|share| {
            let mut sums = [0u64; 8];
            for line in &lines[share * each..(share + 1) * each] {
                for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
                    *sum ^= u64::from_ne_bytes(*word);
                }
            }
            black_box(sums);
        });
    });
    data.len() as f64 / time
}

/// Returns the multiply-accumulates per second of 8-bit products on registers, all threads together; `None` if the
/// instruction set has no such instruction.
#[cfg(target_arch = "x86_64")]
pub fn dot_roof(team: &Team, isa: Isa) -> Option<f64> {
    use std::arch::x86_64::*;

    const ROUNDS: usize = 1 << 16;
    const CHAINS: usize = 12;

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn zmm(a: i32, b: i32) -> i32 {
        let (a, b) = (_mm512_set1_epi32(a), _mm512_set1_epi32(b));
        let mut acc = [_mm512_setzero_si512(); CHAINS];
        for _ in 0..ROUNDS {
            for acc in &mut acc {
                *acc = _mm512_dpbusd_epi32(*acc, a, b);
            }
        }
        let sum = acc.into_iter().fold(_mm512_setzero_si512(), |sum, acc| _mm512_add_epi32(sum, acc));
        _mm_cvtsi128_si32(_mm512_castsi512_si128(sum))
    }

    #[target_feature(enable = "avx2,avxvnni")]
    fn ymm(a: i32, b: i32) -> i32 {
        let (a, b) = (_mm256_set1_epi32(a), _mm256_set1_epi32(b));
        let mut acc = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..ROUNDS {
            for acc in &mut acc {
                *acc = _mm256_dpbusd_avx_epi32(*acc, a, b);
            }
        }
        let sum = acc.into_iter().fold(_mm256_setzero_si256(), |sum, acc| _mm256_add_epi32(sum, acc));
        _mm_cvtsi128_si32(_mm256_castsi256_si128(sum))
    }

    /// Products of bytes, added in 16 bits, which is possible with 4-bit weights.
    #[target_feature(enable = "avx2")]
    fn products(a: i32, b: i32) -> i32 {
        let (a, b) = (_mm256_set1_epi32(a), _mm256_set1_epi32(b));
        let mut acc = [_mm256_setzero_si256(); CHAINS];
        for _ in 0..ROUNDS {
            for acc in &mut acc {
                // SAFETY: operations on registers.
                unsafe {
                    std::arch::asm!(
                        "vpmaddubsw {p}, {a}, {b}", "vpaddw {acc}, {acc}, {p}",
                        p = out(ymm_reg) _, a = in(ymm_reg) a, b = in(ymm_reg) b, acc = inout(ymm_reg) *acc,
                        options(pure, nomem, nostack)
                    );
                }
            }
        }
        let sum = acc.into_iter().fold(_mm256_setzero_si256(), |sum, acc| _mm256_add_epi32(sum, acc));
        _mm256_extract_epi32::<0>(sum)
    }

    let (bytes, kernel): (usize, fn(i32, i32) -> i32) = match isa.name() {
        // SAFETY: the machine has this instruction set, for `isa` is a proof of it.
        "avx512-vnni" | "avx512-vbmi" => (64, |a, b| unsafe { zmm(a, b) }),
        // SAFETY: as above.
        "avx2-vnni" => (32, |a, b| unsafe { ymm(a, b) }),
        // SAFETY: as above.
        "avx2" => (32, |a, b| unsafe { products(a, b) }),
        _ => return None,
    };
    let time = fastest(0.3, || team.run(|share| _ = black_box(kernel(black_box(share as i32), black_box(3)))));
    Some((ROUNDS * CHAINS * bytes * team.threads()) as f64 / time)
}

#[cfg(not(target_arch = "x86_64"))]
pub fn dot_roof(_: &Team, _: Isa) -> Option<f64> {
    None
}
