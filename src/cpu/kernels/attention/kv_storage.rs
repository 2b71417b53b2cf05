//! The memory layout of keys and values of one head. Owns the sizes of the formats; `cpu/kv.rs` writes them, the
//! attention kernels read them.

use crate::cpu::kernels::simd::LANES;

/// Number of dimensions that share a scale, and of positions in a panel of values.
pub const BLOCK: usize = 32;

/// A format of keys and values, for heads of `d` dimensions and `p = padded(d)`.
///
/// | | panel of 16 keys | panel of 32 values |
/// |---|---|---|
/// | `F32` | `[d][16]` f32 | `[32][p]` f32 |
/// | `I16` | per 32 dimensions: `[16 or fewer][16][2]` i16, `[16]` f32 scales | `[16][p][2]` i16, `[32]` f32 scales |
/// | `I8` | per 32 dimensions: `[8 or fewer][16][4]` i8, `[16]` bf16 | `[8][p][4]` i8, `[blocks][32]` bf16 scales |
/// | `I4` | per 32 dimensions: `[4 or fewer][16][4]` u8, `[16]` bf16 | `[4][p][4]` u8, `[blocks][32]` bf16 scales |
///
/// Keys have their fields per 32 dimensions; bf16 numbers are scales; `blocks` is `ceil(p / 32)`. A pair of i16 holds
/// two dimensions of a key (the last one 0 if `d` is odd) or two positions of values. Four bytes of `I8` hold four
/// numbers. In `I4` the low nibbles of four bytes hold four numbers and the high nibbles the next four, each with an
/// offset of 8. Panels of keys are padded to a multiple of 64 bytes. All memory is 4-byte aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    F32,
    I16,
    I8,
    I4,
}

/// Returns the number of dimensions of a value row: whole vectors.
pub const fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(LANES)
}

impl Storage {
    /// True if rows are rotated before they are quantized, unless values are part of the keys: see `hadamard`.
    pub fn is_rotated(self) -> bool {
        matches!(self, Storage::I8 | Storage::I4)
    }

    pub fn key_panel_bytes(self, head_dim: usize) -> usize {
        let bytes = match self {
            Storage::F32 => 4 * LANES * head_dim,
            Storage::I16 => KEY_LINE * (head_dim.div_ceil(2) + head_dim.div_ceil(BLOCK)),
            Storage::I8 => KEY_LINE * head_dim.div_ceil(4) + SCALES * head_dim.div_ceil(BLOCK),
            Storage::I4 => KEY_LINE * head_dim.div_ceil(8) + SCALES * head_dim.div_ceil(BLOCK),
        };
        bytes.next_multiple_of(64)
    }

    /// Returns the size of a panel of values in bytes, divided by its positions.
    pub fn value_bytes(self, head_dim: usize) -> usize {
        let dims = padded(head_dim);
        match self {
            Storage::F32 => 4 * dims,
            Storage::I16 => 2 * dims + 4,
            Storage::I8 => dims + 2 * dims.div_ceil(BLOCK),
            Storage::I4 => dims / 2 + 2 * dims.div_ceil(BLOCK),
        }
    }
}

/// Bytes of two dimensions of a panel of `Storage::I16`, of the scales of 32 dimensions, or of four or eight
/// dimensions.
pub const KEY_LINE: usize = 64;

/// Bytes of the scales of a block of keys of `Storage::I8` and `Storage::I4`.
pub const SCALES: usize = 2 * LANES;

/// The keys and values of one head from a position that is a multiple of 32.
#[derive(Clone, Copy)]
pub struct KvView<'a> {
    pub head_dim: usize,
    pub value_dim: usize,
    pub key_storage: Storage,
    /// Whole panels.
    pub keys: &'a [u8],
    pub value_storage: Storage,
    /// Whole panels, except for f32.
    pub values: &'a [u8],
    /// Average bytes per position of values over a panel.
    pub value_stride: usize,
}
