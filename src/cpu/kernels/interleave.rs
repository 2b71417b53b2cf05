//! Transposition of words for packing weights, with the registers of every x86-64. On other processors the caller moves
//! words one by one.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use super::PANEL_ROWS;

/// Interleaves the words of sixteen rows, which begin `stride` bytes apart in `rows`: word 0 of all rows, then word 1,
/// and so on until `out` is full. Returns the number of bytes per row that are done.
#[cfg(target_arch = "x86_64")]
pub fn interleave_words(rows: &[u8], stride: usize, out: &mut [u8]) -> usize {
    use std::arch::x86_64::*;
    const WORDS: usize = 4;
    let parts = out.as_chunks_mut::<{ 4 * WORDS * PANEL_ROWS }>().0;
    let done = 4 * WORDS * parts.len();
    assert!(rows.len() >= (PANEL_ROWS - 1) * stride + done);
    for (i, out) in parts.iter_mut().enumerate() {
        let (from, out) = (rows[4 * WORDS * i..].as_ptr(), out.as_mut_ptr());
        for r in (0..PANEL_ROWS).step_by(4) {
            // SAFETY: 16 bytes of rows `r..r + 4` each, as asserted; 16 bytes of each of the four words of sixteen
            // rows. Every x86-64 has these instructions.
            unsafe {
                let [a, b, c, d] = [0, 1, 2, 3].map(|n| _mm_loadu_si128(from.add((r + n) * stride).cast()));
                let [low, high] = [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)];
                let [low2, high2] = [_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d)];
                let words = [
                    _mm_unpacklo_epi64(low, low2),
                    _mm_unpackhi_epi64(low, low2),
                    _mm_unpacklo_epi64(high, high2),
                    _mm_unpackhi_epi64(high, high2),
                ];
                for (word, four_rows) in words.into_iter().enumerate() {
                    _mm_storeu_si128(out.add(4 * (PANEL_ROWS * word + r)).cast(), four_rows);
                }
            }
        }
    }
    done
}

#[cfg(not(target_arch = "x86_64"))]
pub fn interleave_words(_rows: &[u8], _stride: usize, _out: &mut [u8]) -> usize {
    0
}
