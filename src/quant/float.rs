//! The types without blocks: IEEE 754 binary32 and binary16, and bfloat16.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

pub(super) fn decode_f32(blocks: &[u8], out: &mut [f32]) {
    for (y, &b) in out.iter_mut().zip(blocks.as_chunks().0) {
        *y = f32::from_le_bytes(b);
    }
}

pub(super) fn encode_f32(values: &[f32], blocks: &mut [u8]) {
    for (x, b) in values.iter().zip(blocks.as_chunks_mut().0) {
        *b = x.to_le_bytes();
    }
}

pub(super) fn decode_f16(blocks: &[u8], out: &mut [f32]) {
    // Through a buffer, because `half` detects CPU features once per slice.
    let mut halves = [f16::ZERO; 64];
    for (ys, bs) in out.chunks_mut(64).zip(blocks.as_chunks().0.chunks(64)) {
        for (h, &b) in halves.iter_mut().zip(bs) {
            *h = f16::from_le_bytes(b);
        }
        halves[..ys.len()].convert_to_f32_slice(ys);
    }
}

pub(super) fn encode_f16(values: &[f32], blocks: &mut [u8]) {
    let mut halves = [f16::ZERO; 64];
    for (xs, bs) in values.chunks(64).zip(blocks.as_chunks_mut().0.chunks_mut(64)) {
        halves[..xs.len()].convert_from_f32_slice(xs);
        for (b, h) in bs.iter_mut().zip(&halves) {
            *b = h.to_le_bytes();
        }
    }
}

pub(super) fn decode_bf16(blocks: &[u8], out: &mut [f32]) {
    for (y, &b) in out.iter_mut().zip(blocks.as_chunks().0) {
        *y = f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16);
    }
}

pub(super) fn encode_bf16(values: &[f32], blocks: &mut [u8]) {
    for (&x, b) in values.iter().zip(blocks.as_chunks_mut().0) {
        *b = bf16::from_f32(x).to_le_bytes();
    }
}

/// Returns a scale as stored in a block.
pub(super) fn scale(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

/// Returns the nearest scale that a block can hold; infinity beyond the range of FP16.
pub(super) fn scale_bytes(x: f32) -> [u8; 2] {
    f16::from_f32(x).to_le_bytes()
}
