//! The values of latent attention (MLA), which are the first numbers of their keys: converted from key layout to value
//! layout, once for all queries that read them. Owns the reading of key panels dimension by dimension.
#![allow(unsafe_code)]

use crate::cpu::kernels::attention::kv_storage::{BLOCK, KEY_LINE, SCALES, Storage, padded};
use crate::cpu::kernels::simd::{LANES, Simd};
use crate::cpu::kernels::{Isa, dispatch};

/// Writes the first `value_dim` numbers of the first `n` keys to rows of `padded(value_dim)` f32, in whole panels of 16
/// rows.
pub fn values_of_keys(
    isa: Isa,
    storage: Storage,
    keys: &[u8],
    head_dim: usize,
    value_dim: usize,
    n: usize,
    out: &mut [f32],
) {
    let panels = n.div_ceil(LANES);
    assert!(value_dim <= head_dim && keys.len() >= panels * storage.key_panel_bytes(head_dim));
    assert!(out.len() >= panels * LANES * padded(value_dim));
    assert!(keys.as_ptr().addr().is_multiple_of(4));
    dispatch!(
        isa,
        values_of_keys_lanes(
            storage: Storage,
            keys: &[u8],
            head_dim: usize,
            value_dim: usize,
            n: usize,
            out: &mut [f32],
        )
    )
}

#[inline(always)]
fn values_of_keys_lanes<S: Simd>(
    s: S,
    storage: Storage,
    keys: &[u8],
    head_dim: usize,
    value_dim: usize,
    n: usize,
    out: &mut [f32],
) {
    let (dims, panel) = (padded(value_dim), storage.key_panel_bytes(head_dim));
    let panels = keys.chunks_exact(panel).zip(out.chunks_exact_mut(LANES * dims)).take(n.div_ceil(LANES));
    for (panel, rows) in panels {
        for first in (0..dims).step_by(LANES) {
            let mut block = [s.splat(0.0); LANES];
            for (i, dim) in block.iter_mut().zip(first..value_dim) {
                // SAFETY: the panel holds `head_dim` dimensions, of which this is one.
                *i = unsafe { dimension(s, storage, panel.as_ptr(), head_dim, dim) };
            }
            for (row, values) in rows.chunks_exact_mut(dims).zip(s.transpose(block)) {
                s.store_slice(values, &mut row[first..first + LANES]);
            }
        }
    }
}

/// Reads one dimension of the sixteen keys of a panel.
///
/// # Safety
/// `panel` must be a panel of keys of `head_dim` dimensions, aligned to 4 bytes, and `dim` must be below `head_dim`.
#[inline(always)]
unsafe fn dimension<S: Simd>(s: S, storage: Storage, panel: *const u8, head_dim: usize, dim: usize) -> S::F {
    let block = dim / BLOCK;
    // SAFETY: the offsets follow from the panel layout, by this function's contract.
    unsafe {
        match storage {
            Storage::F32 => s.load_f32(panel.add(4 * LANES * dim).cast()),
            Storage::I8 | Storage::I4 => {
                let each = if storage == Storage::I8 { 4 } else { 8 };
                let start = panel.add(block * (BLOCK / each * KEY_LINE + SCALES));
                let units = (head_dim - block * BLOCK).min(BLOCK).div_ceil(each);
                let unit = s.load_bytes(start.add(dim % BLOCK / each * KEY_LINE));
                let byte = 8 * (dim % 4) as i32;
                let number = if each == 4 {
                    s.shift(s.shift(unit, 24 - byte), -24)
                } else {
                    s.add_i32(s.bits(unit, byte + (dim % 8 / 4 * 4) as i32, 15), s.splat_i32(-8))
                };
                s.mul(s.to_f32(number), s.load_bf16(start.add(units * KEY_LINE)))
            }
            Storage::I16 => {
                let start = panel.add(block * (BLOCK / 2 + 1) * KEY_LINE);
                let pairs = (head_dim - block * BLOCK).div_ceil(2).min(BLOCK / 2);
                let pair = s.load_bytes(start.add(dim % BLOCK / 2 * KEY_LINE));
                let wide = if dim.is_multiple_of(2) { s.shift(s.shift(pair, 16), -16) } else { s.shift(pair, -16) };
                s.mul(s.to_f32(wide), s.load_f32(start.add(pairs * KEY_LINE).cast()))
            }
        }
    }
}
