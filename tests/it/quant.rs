//! The reference codecs compared with the `gguf` Python package: `data/make_quant_vectors.py` describes the vectors.

use proptest::prelude::*;
use realizar::quant::{self, FORMATS, Format};
use realizar::tensor::DType;

static VECTORS: &[u8] = include_bytes!("../data/quant_vectors.bin");
const HASHED: usize = 128;

struct Reader(&'static [u8]);

impl Reader {
    fn bytes(&mut self, n: usize) -> &'static [u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }

    fn u32(&mut self) -> usize {
        u32::from_le_bytes(self.bytes(4).try_into().unwrap()) as usize
    }

    fn f32s(&mut self, n: usize) -> Vec<f32> {
        self.bytes(4 * n).as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
    }
}

/// SplitMix64 from state `seed`, its outputs as bytes.
fn random_bytes(seed: u64, n: usize) -> Vec<u8> {
    let words = (1..=n as u64 / 8 + 1).map(|i| {
        let z = seed.wrapping_add(0x9E3779B97F4A7C15u64.wrapping_mul(i));
        let z = (z ^ z >> 30).wrapping_mul(0xBF58476D1CE4E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D049BB133111EB);
        z ^ z >> 31
    });
    words.flat_map(u64::to_le_bytes).take(n).collect()
}

fn fnv1a(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes());
    bytes.fold(0xCBF29CE484222325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100000001B3))
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn codecs_agree_with_gguf_in_every_bit() {
    let mut r = Reader(VECTORS);
    let n_types = r.u32();
    assert_eq!(n_types, FORMATS.iter().filter(|f| f.dtype.0 < quant::FIRST_PRIVATE).count());
    for _ in 0..n_types {
        let format = quant::format(DType(r.u32() as u32)).unwrap();
        let name = format.name;
        assert_eq!((format.block_len, format.block_bytes), (r.u32(), r.u32()), "{name}");

        let n = r.u32();
        let blocks = r.bytes(n * format.block_bytes);
        let expected = r.f32s(n * format.block_len);
        let mut found = vec![f32::NAN; expected.len()];
        quant::dequantize(format.dtype, blocks, &mut found).unwrap();
        assert_eq!(bits(&found), bits(&expected), "{name}");

        let mut blocks = random_bytes(format.dtype.0.into(), HASHED * format.block_bytes);
        for _ in 0..r.u32() {
            let offset = r.u32();
            blocks.chunks_exact_mut(format.block_bytes).for_each(|b| b[offset] &= 0xBF);
        }
        let mut found = vec![f32::NAN; HASHED * format.block_len];
        quant::dequantize(format.dtype, &blocks, &mut found).unwrap();
        let expected = u64::from_le_bytes(r.bytes(8).try_into().unwrap());
        assert_eq!(fnv1a(&found), expected, "{name}, random blocks");
    }

    let n_rows = r.u32();
    let rows = r.f32s(n_rows * 32);
    for _ in 0..r.u32() {
        let format = quant::format(DType(r.u32() as u32)).unwrap();
        let n_bytes = r.u32();
        let expected = r.bytes(n_bytes);
        let mut found = vec![0xAA; n_bytes];
        quant::quantize(format.dtype, &rows, &mut found).unwrap();
        let row_bytes = n_bytes / n_rows;
        for (i, (found, expected)) in found.chunks(row_bytes).zip(expected.chunks(row_bytes)).enumerate() {
            assert_eq!(found, expected, "{} of row {i}", format.name);
        }
    }
    assert!(r.0.is_empty());
}

#[test]
fn lengths_are_checked() {
    for format in FORMATS {
        let (len, bytes) = (format.block_len, format.block_bytes);
        assert!(quant::dequantize(format.dtype, &vec![0; bytes], &mut vec![0.0; len]).is_ok());
        assert!(quant::dequantize(format.dtype, &[], &mut []).is_ok());
        for (b, l) in [(bytes - 1, len), (bytes + 1, len), (bytes, 2 * len), (2 * bytes, len), (0, len), (bytes, 0)] {
            let message = quant::dequantize(format.dtype, &vec![0; b], &mut vec![0.0; l]).unwrap_err().to_string();
            assert!(message.contains(format.name), "{message}");
        }
        if len > 1 {
            assert!(quant::dequantize(format.dtype, &vec![0; bytes], &mut vec![0.0; len - 1]).is_err());
        }
        if format.quantize.is_some() {
            assert!(quant::quantize(format.dtype, &vec![0.0; len], &mut vec![0; bytes + 1]).is_err());
        }
    }
    let error = quant::dequantize(DType(4), &[0], &mut [0.0]).unwrap_err();
    assert!(matches!(error, realizar::error::Error::Unsupported(_)), "{error}");
}

#[test]
fn any_bytes_decode() {
    for format in FORMATS {
        for fill in [0x00, 0x7F, 0x80, 0xFF] {
            let mut out = vec![0.0; 2 * format.block_len];
            quant::dequantize(format.dtype, &vec![fill; 2 * format.block_bytes], &mut out).unwrap();
        }
        let blocks = random_bytes(7, 64 * format.block_bytes);
        quant::dequantize(format.dtype, &blocks, &mut vec![0.0; 64 * format.block_len]).unwrap();
    }
}

fn round_trip(format: &Format, values: &[f32]) -> Vec<f32> {
    let mut blocks = vec![0xAA; format.row_bytes(values.len() as u64).unwrap() as usize];
    quant::quantize(format.dtype, values, &mut blocks).unwrap();
    let mut out = vec![f32::NAN; values.len()];
    quant::dequantize(format.dtype, &blocks, &mut out).unwrap();
    out
}

fn encoders() -> impl Iterator<Item = &'static Format> {
    FORMATS.iter().filter(|f| f.quantize.is_some())
}

/// Sums of twelve uniform numbers, close to a normal distribution.
fn normal(seed: u64, n: usize) -> Vec<f32> {
    random_bytes(seed, 24 * n)
        .chunks_exact(24)
        .map(|b| b.as_chunks().0.iter().map(|&u| f32::from(u16::from_le_bytes(u)) / 65536.0).sum::<f32>() - 6.0)
        .collect()
}

/// Root-mean-square error over the root mean square of normally distributed values. The limits are about a twentieth
/// above what GGML's encoders reach.
#[test]
fn encoders_lose_little() {
    for (dtype, limit) in [
        (quant::F32, 0.0),
        (quant::F16, 2.2e-4),
        (quant::BF16, 1.8e-3),
        (quant::Q4_0, 0.09),
        (quant::Q4_1, 0.083),
        (quant::Q5_0, 0.045),
        (quant::Q5_1, 0.04),
        (quant::Q8_0, 0.0057),
        (quant::Q4_K, 0.075),
        (quant::Q5_K, 0.038),
        (quant::Q6_K, 0.0185),
    ] {
        let format = quant::format(dtype).unwrap();
        for size in [1e-3, 1.0, 1e3] {
            let x: Vec<f32> = normal(3, 1 << 14).iter().map(|x| x * size).collect();
            let y = round_trip(&format, &x);
            let error: f32 = x.iter().zip(&y).map(|(x, y)| (x - y).powi(2)).sum();
            let error = (error / x.iter().map(|x| x * x).sum::<f32>()).sqrt();
            assert!(error <= limit, "{} at {size}: {error}", format.name);
        }
    }
}

#[test]
fn encoders_keep_what_is_simple() {
    for format in encoders() {
        assert_eq!(round_trip(format, &[0.0; 256]), [0.0; 256], "{}", format.name);
        for c in [1.0, -1.0, 0.37, -250.0] {
            for y in round_trip(format, &[c; 256]) {
                assert!((y - c).abs() <= 0.005 * c.abs(), "{}: {c} became {y}", format.name);
            }
        }
        // One value far from the others keeps its size.
        let mut x = normal(4, 256);
        x[77] = -1000.0;
        assert!((round_trip(format, &x)[77] + 1000.0).abs() < 20.0, "{}", format.name);
    }
}

#[test]
fn k_encoders_stay_finite() {
    for format in [quant::Q4_K, quant::Q5_K, quant::Q6_K].map(|t| quant::format(t).unwrap()) {
        for c in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45] {
            let mut x = normal(5, 256);
            x[200] = c;
            assert!(round_trip(&format, &x).iter().all(|y| y.is_finite()), "{} with {c}", format.name);
            assert!(round_trip(&format, &[c; 256]).iter().all(|y| y.is_finite()), "{} of {c}", format.name);
        }
    }
}

proptest! {
    #[test]
    fn any_values_encode(bits in prop::collection::vec(any::<u32>(), 256)) {
        let x: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        encoders().for_each(|format| drop(round_trip(format, &x)));
    }
}
