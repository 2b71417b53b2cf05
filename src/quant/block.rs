//! Declaration, reading and writing of block structs: byte fields in file order, without padding or `unsafe`.

/// A block as the bytes of a file; `size_of` is its length there.
pub trait BlockBytes: Copy {
    /// Reads the first block of `bytes`; also returns the rest; `None` if there are too few bytes.
    fn take(bytes: &[u8]) -> Option<(Self, &[u8])>;
    /// Writes the block to the front of `bytes` and returns the rest; `None` if it does not fit.
    fn put(self, bytes: &mut [u8]) -> Option<&mut [u8]>;
}

/// A block that can be dequantized.
pub trait Decode: BlockBytes {
    /// Number of values in a block.
    const LEN: usize = 256;
    /// `y: [LEN]`
    fn decode(&self, y: &mut [f32]);
}

/// A block that can be quantized.
pub trait Encode: Decode {
    /// `x: [LEN]`. Any values; must not panic.
    fn encode(x: &[f32]) -> Self;
}

pub fn decode_all<B: Decode>(mut blocks: &[u8], out: &mut [f32]) {
    for y in out.chunks_exact_mut(B::LEN) {
        let Some((block, rest)) = B::take(blocks) else { return };
        block.decode(y);
        blocks = rest;
    }
}

pub fn encode_all<B: Encode>(values: &[f32], mut blocks: &mut [u8]) {
    for x in values.chunks_exact(B::LEN) {
        let Some(rest) = B::encode(x).put(blocks) else { return };
        blocks = rest;
    }
}

/// Declares a block struct: its total bytes, and each field with its bytes.
macro_rules! block {
    ($(#[$doc:meta])* $name:ident: $bytes:literal bytes { $($(#[$field_doc:meta])* $field:ident: $n:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: [u8; $n]),* }

        const _: () = assert!(size_of::<$name>() == $bytes);

        impl $crate::quant::block::BlockBytes for $name {
            fn take(bytes: &[u8]) -> Option<(Self, &[u8])> {
                $(let ($field, bytes) = bytes.split_first_chunk::<$n>()?;)*
                Some(($name { $($field: *$field),* }, bytes))
            }

            fn put(self, bytes: &mut [u8]) -> Option<&mut [u8]> {
                $(let ($field, bytes) = bytes.split_first_chunk_mut::<$n>()?;
                *$field = self.$field;)*
                Some(bytes)
            }
        }
    };
}
pub(super) use block;
