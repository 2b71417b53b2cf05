//! Quants ("codes") of 1 to 8 bits with a scale per group of consecutive columns, as in safetensors folders. A block is
//! a group: scale, offset, then the codes, 32 columns at a time. A type's number encodes code, group size and number
//! types, so that every combination is a type.
//!
//! The codes of 32 columns are bit planes of 8, 4, 2 and 1 bits, as needed for their width, the widest first and with
//! the lowest bits. In a plane of `p` bits, column `4 j + b` is in byte `b` of word `j p / 8`, from bit `j p % 8` on.

use half::{bf16, f16};

use super::block::{BlockBytes, Decode};
use super::f8::F8E4m3;
use crate::tensor::DType;

/// The meaning of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// An unsigned integer of 1 to 8 bits.
    Int(u8),
    /// An index into bitsandbytes' `NF4`.
    Nf4,
    /// An index into bitsandbytes' `FP4`.
    Fp4,
    /// An 8-bit float, E4M3.
    E4m3,
}

/// The type of scales and offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    F16,
    Bf16,
    F32,
}

/// Formula of a value from its code `q` and the scale `s`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offset {
    /// `s q`
    None,
    /// `s (q - z)`, where `z` is a byte
    Zero,
    /// `s (q - z)`, where `z` has the scale's type
    ZeroNumber,
    /// `s q + b`, where `b` has the scale's type
    Bias,
    /// `s (q - c) + b`, where `c` is half of the number of codes
    CenteredBias,
}

/// A type of such blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grouped {
    pub code: Code,
    /// Columns in a group: 32, 64, 128 or 256.
    pub columns: usize,
    pub scale: Number,
    pub offset: Offset,
}

/// The quantiles of a normal distribution (Dettmers et al., "QLoRA", 2023), as rounded by bitsandbytes.
#[expect(clippy::excessive_precision, reason = "the digits of the package")]
pub const NF4: [f32; 16] = [
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
];

/// bitsandbytes' 4-bit floats, in the order of their codes.
pub const FP4: [f32; 16] = {
    let twelfths = [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0];
    let (mut table, mut i) = ([0.0; 16], 1);
    while i < 8 {
        (table[i], table[i + 8]) = (twelfths[i] / 12.0, -twelfths[i] / 12.0);
        i += 1;
    }
    table
};

impl Code {
    /// Bits of a code.
    pub const fn bits(self) -> usize {
        match self {
            Code::Int(bits) => bits as usize,
            Code::Nf4 | Code::Fp4 => 4,
            Code::E4m3 => 8,
        }
    }

    /// Returns the values of codes that are indices.
    pub const fn table(self) -> Option<&'static [f32; 16]> {
        match self {
            Code::Nf4 => Some(&NF4),
            Code::Fp4 => Some(&FP4),
            Code::Int(_) | Code::E4m3 => None,
        }
    }
}

impl Number {
    pub const fn bytes(self) -> usize {
        match self {
            Number::F16 | Number::Bf16 => 2,
            Number::F32 => 4,
        }
    }

    /// Reads a number at the front of `bytes`; 0 if there are too few.
    pub fn read(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Number::F16, [a, b, ..]) => f16::from_le_bytes([*a, *b]).to_f32(),
            (Number::Bf16, [a, b, ..]) => bf16::from_le_bytes([*a, *b]).to_f32(),
            (Number::F32, [a, b, c, d, ..]) => f32::from_le_bytes([*a, *b, *c, *d]),
            _ => 0.0,
        }
    }
}

/// First number of these types, beyond GGML's.
const FIRST: u32 = 0x1001_0000;
const NUMBERS: [Number; 3] = [Number::F16, Number::Bf16, Number::F32];
const OFFSETS: [Offset; 5] = [Offset::None, Offset::Zero, Offset::ZeroNumber, Offset::Bias, Offset::CenteredBias];
const NAMES: [&str; 12] =
    ["", "INT1", "INT2", "INT3", "INT4", "INT5", "INT6", "INT7", "INT8", "BNB_NF4", "BNB_FP4", "F8_SCALED"];

impl Grouped {
    /// Returns the type of a number, if it is one of these.
    pub fn of(dtype: DType) -> Option<Grouped> {
        let number = dtype.0.checked_sub(FIRST).filter(|n| *n < 1 << 16)?;
        let code = match number >> 8 {
            bits @ 1..=8 => Code::Int(bits as u8),
            9 => Code::Nf4,
            10 => Code::Fp4,
            11 => Code::E4m3,
            _ => return None,
        };
        let columns = 32 << (number >> 4 & 3);
        let (scale, offset) = (number >> 6 & 3, number & 15);
        Some(Grouped { code, columns, scale: *NUMBERS.get(scale as usize)?, offset: *OFFSETS.get(offset as usize)? })
    }

    pub fn dtype(self) -> DType {
        let code = match self.code {
            Code::Int(bits) => u32::from(bits),
            Code::Nf4 => 9,
            Code::Fp4 => 10,
            Code::E4m3 => 11,
        };
        DType(
            FIRST
                + (code << 8 | (self.scale as u32) << 6 | (self.columns / 32).trailing_zeros() << 4)
                + self.offset as u32,
        )
    }

    pub fn name(self) -> &'static str {
        NAMES[match self.code {
            Code::Int(bits) => usize::from(bits),
            Code::Nf4 => 9,
            Code::Fp4 => 10,
            Code::E4m3 => 11,
        }]
    }

    /// Returns half of the number of codes.
    pub fn center(self) -> f32 {
        f32::from(1u8 << (self.code.bits() - 1))
    }

    pub const fn offset_bytes(self) -> usize {
        match self.offset {
            Offset::None => 0,
            Offset::Zero => 1,
            Offset::ZeroNumber | Offset::Bias | Offset::CenteredBias => self.scale.bytes(),
        }
    }

    /// Returns the number of bytes of the codes of 32 columns.
    pub const fn chunk_bytes(self) -> usize {
        4 * self.code.bits()
    }

    pub const fn block_bytes(self) -> usize {
        self.scale.bytes() + self.offset_bytes() + self.columns / 32 * self.chunk_bytes()
    }

    /// Dequantizes whole blocks.
    pub fn decode(self, blocks: &[u8], out: &mut [f32]) {
        let header = self.scale.bytes() + self.offset_bytes();
        for (block, out) in blocks.chunks_exact(self.block_bytes()).zip(out.chunks_exact_mut(self.columns)) {
            let (numbers, codes) = block.split_at(header);
            let (scale, offset) = numbers.split_at(self.scale.bytes());
            let scale = self.scale.read(scale);
            let offset = match self.offset {
                Offset::Zero => f32::from(offset[0]),
                _ => self.scale.read(offset),
            };
            for (codes, out) in codes.chunks_exact(self.chunk_bytes()).zip(out.chunks_exact_mut(32)) {
                let mut q = [0; 32];
                unpack(codes, self.code.bits(), &mut q);
                for (y, q) in out.iter_mut().zip(q) {
                    let value = match self.code {
                        Code::Int(_) => f32::from(q),
                        Code::Nf4 => NF4[usize::from(q & 15)],
                        Code::Fp4 => FP4[usize::from(q & 15)],
                        Code::E4m3 => e4m3(q),
                    };
                    *y = match self.offset {
                        Offset::None => scale * value,
                        Offset::Zero | Offset::ZeroNumber => (value - offset) * scale,
                        Offset::Bias => scale * value + offset,
                        Offset::CenteredBias => scale * (value - self.center()) + offset,
                    };
                }
            }
        }
    }
}

fn e4m3(bits: u8) -> f32 {
    let mut value = [0.0];
    if let Some((block, _)) = F8E4m3::take(&[bits]) {
        block.decode(&mut value);
    }
    value[0]
}

/// Returns the bit planes of codes of `bits` bits: the width of each plane, and the first bit of a code in it.
fn planes(bits: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    [8, 4, 2, 1].into_iter().filter(move |plane| bits & plane != 0).map(move |plane| {
        at += plane;
        (plane, at - plane)
    })
}

/// Packs 32 codes in the order of a block.
pub fn pack(codes: &[u8; 32], bits: usize, out: &mut [u8]) {
    out.fill(0);
    let mut start = 0;
    for (plane, at) in planes(bits) {
        let mask = (1u16 << plane) - 1;
        for (column, code) in codes.iter().enumerate() {
            let (j, b) = (column / 4, column % 4);
            let part = (u16::from(*code) >> at & mask) << (j * plane % 8);
            out[start + 4 * (j * plane / 8) + b] |= part as u8;
        }
        start += 4 * plane;
    }
}

/// Unpacks 32 codes in the order of a block.
fn unpack(bytes: &[u8], bits: usize, codes: &mut [u8; 32]) {
    let mut start = 0;
    for (plane, at) in planes(bits) {
        let mask = (1u16 << plane) - 1;
        for (column, code) in codes.iter_mut().enumerate() {
            let (j, b) = (column / 4, column % 4);
            let byte = bytes[start + 4 * (j * plane / 8) + b];
            *code |= ((u16::from(byte) >> (j * plane % 8) & mask) << at) as u8;
        }
        start += 4 * plane;
    }
}

/// Returns some types with each code, number and offset, for tests.
pub fn samples() -> impl Iterator<Item = Grouped> {
    let ints = (1..=8).map(Code::Int).flat_map(|code| {
        let row = move |columns, scale, offset| Grouped { code, columns, scale, offset };
        [
            row(32, Number::F16, Offset::Zero),
            row(64, Number::Bf16, Offset::Bias),
            row(128, Number::F32, Offset::None),
            row(256, Number::F16, Offset::ZeroNumber),
            row(32, Number::Bf16, Offset::CenteredBias),
        ]
    });
    let others = [Code::Nf4, Code::Fp4, Code::E4m3].into_iter().flat_map(|code| {
        let row = move |columns, scale| Grouped { code, columns, scale, offset: Offset::None };
        [row(64, Number::F32), row(128, Number::Bf16)]
    });
    ints.chain(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_tells_its_type() {
        for grouped in samples() {
            assert_eq!(Grouped::of(grouped.dtype()), Some(grouped));
        }
        assert!([0, FIRST - 1, FIRST, FIRST + 0xfff].iter().all(|n| Grouped::of(DType(*n)).is_none()));
    }

    #[test]
    fn codes_survive_their_planes() {
        for bits in 1..=8 {
            let codes: [u8; 32] = std::array::from_fn(|i| (i * 37 % (1 << bits)) as u8);
            let (mut packed, mut found) = (vec![0xaa; 4 * bits], [0; 32]);
            pack(&codes, bits, &mut packed);
            unpack(&packed, bits, &mut found);
            assert_eq!(codes, found, "{bits} bits");
        }
    }
}
