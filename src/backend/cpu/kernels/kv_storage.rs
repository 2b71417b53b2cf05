//! The order of keys and values of one head in memory. Owns the sizes of the formats; `cpu/kv.rs` writes them, `attend` reads
//! them.

use super::simd::LANES;

/// Number of dimensions that share a scale, and of positions in a panel of values.
pub const BLOCK: usize = 32;

/// A format of keys and values, for heads of `d` dimensions and `p = padded(d)`.
///
/// | | panel of 16 keys | panel of 32 values |
/// |---|---|---|
/// | `F32` | `[d][16]` f32 | `[32][p]` f32 |
/// | `I16` | for each 32 dimensions: `[16 or fewer][16][2]` i16, `[16]` f32 scales | `[16][p][2]` i16, `[32]` f32 scales |
/// | `I8` | `[d][16]` i8, then `[ceil(d / 32)][16]` f32 scales | `[32]` rows: `[p]` i8, `[ceil(p / 32)]` f32 scales |
///
/// A pair of i16 holds two dimensions of a key, the last one 0 where `d` is odd, or two positions of values. Panels of keys
/// are padded to a multiple of 64 bytes. All memory is 4-byte aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    F32,
    I16,
    I8,
}

/// Returns the dimensions of a value row: whole vectors.
pub const fn padded(head_dim: usize) -> usize {
    head_dim.next_multiple_of(LANES)
}

impl Storage {
    /// Returns the bytes of a panel of keys.
    pub fn key_panel_bytes(self, head_dim: usize) -> usize {
        let bytes = match self {
            Storage::F32 => 4 * LANES * head_dim,
            Storage::I16 => KEY_LINE * (head_dim.div_ceil(2) + head_dim.div_ceil(BLOCK)),
            Storage::I8 => LANES * head_dim + 4 * LANES * head_dim.div_ceil(BLOCK),
        };
        bytes.next_multiple_of(64)
    }

    /// Returns the bytes of a panel of values, divided by its positions.
    pub fn value_bytes(self, head_dim: usize) -> usize {
        let dims = padded(head_dim);
        match self {
            Storage::F32 => 4 * dims,
            Storage::I16 => 2 * dims + 4,
            Storage::I8 => dims + 4 * dims.div_ceil(BLOCK),
        }
    }
}

/// Bytes of two dimensions of a panel of `Storage::I16`, and of the scales of 32.
pub const KEY_LINE: usize = 64;

/// The keys and values of one head from a position that is a multiple of 32 onwards.
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
    /// Bytes from a position's values to the next, on average over a panel.
    pub value_stride: usize,
}
