//! Products of every type compared to the reference codec in f64, and compared bit by bit across instruction sets.
#![cfg(test)]

use std::sync::Arc;

use super::*;
use crate::cpu::kernels::activations::InputType;
use crate::cpu::matmul::plan::OpChunk;
use crate::cpu::threads::pool::Pool;
use crate::quant::grouped::{self, Grouped};
use crate::quant::{FORMATS, Format};

fn formats() -> impl Iterator<Item = Format> {
    let grouped = grouped::samples().map(|grouped| quant::format(grouped.dtype()).unwrap());
    FORMATS.iter().copied().chain(grouped)
}

/// Maximum error of a product, relative to the sum of the magnitudes of its terms.
const TOLERANCE: f64 = 2e-5;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns values with a wide spread of magnitudes.
    fn activations(&mut self, n: usize) -> Vec<f32> {
        let mut unit = || self.next() as f32 / u64::MAX as f32 - 0.5;
        (0..n).map(|_| unit() * (8.0 * unit()).exp()).collect()
    }

    /// Returns random blocks with values of realistic size.
    fn blocks(&mut self, format: &Format, n: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut values = vec![0f32; format.block_len];
        while out.len() < n * format.block_bytes {
            let block: Vec<u8> = (0..format.block_bytes).map(|_| self.next() as u8).collect();
            format.dequantize(&block, &mut values);
            let max = values.iter().fold(0f32, |m, v| if v.is_nan() || m.is_nan() { f32::NAN } else { m.max(v.abs()) });
            if (0.001..100.0).contains(&max) {
                out.extend(block);
            }
        }
        out
    }
}

struct Product {
    format: Format,
    raw: Vec<u8>,
    rows: usize,
    cols: usize,
    x: Vec<f32>,
    tokens: usize,
    bias: Vec<f32>,
}

impl Product {
    fn new(format: Format, rows: usize, cols: usize, tokens: usize) -> Product {
        let mut random = Random(u64::from(format.dtype.0) << 32 | (rows + cols + tokens) as u64);
        Product {
            format,
            raw: random.blocks(&format, rows * cols / format.block_len),
            rows,
            cols,
            x: random.activations(tokens * cols),
            tokens,
            bias: random.activations(rows),
        }
    }

    /// Returns the products in f64 from the reference codec, with activations and 16-bit weights rounded as `multiply`
    /// documents, and the sum of the magnitudes of their terms.
    fn expected(&self) -> Vec<(f64, f64)> {
        let row_bytes = self.raw.len() / self.rows;
        let mut w = vec![0f32; self.cols];
        let matrix = WeightMatrix::mapped(self.format.dtype, self.rows, self.cols).unwrap();
        let input = match JobKernels::of(Isa::Scalar.matmul(), &matrix) {
            JobKernels::Blocks(kernels) => Some(kernels.input),
            _ => None,
        };
        let most = match input {
            Some(InputType::I8) => 127.0,
            Some(InputType::I16) => 8191.0,
            None | Some(InputType::Bf16) => f32::INFINITY,
        };
        let max = |group: &[f32]| group.iter().fold(0f32, |m, v| m.max(v.abs()));
        // Computed in f32, so that values close to a tie are rounded the same way.
        let round = |group: &[f32], inverse: f32, step: f64| -> Vec<f64> {
            let round = |v: f32| if step > 0.0 { step * f64::from((v * inverse).round_ties_even()) } else { v.into() };
            group.iter().map(|&v| round(v)).collect()
        };
        let quantize = |group: &[f32]| round(group, most / max(group), f64::from(max(group) / most));
        let x: Vec<f64> = self.x.chunks(32).flat_map(quantize).collect();
        // Tables and 8-bit floats become 14-bit integers before scaling.
        let is_early = Grouped::of(self.format.dtype).is_some_and(|g| !matches!(g.code, grouped::Code::Int(_)));
        let mut out = vec![(0.0, 0.0); self.tokens * self.rows];
        for row in 0..self.rows {
            self.format.dequantize(&self.raw[row * row_bytes..(row + 1) * row_bytes], &mut w);
            let quantize = |group: &[f32]| {
                let power = max(group).log2().floor().exp2();
                let step = if input == Some(InputType::I16) && !is_early { power / 4096.0 } else { 0.0 };
                round(group, 4096.0 / power, f64::from(step))
            };
            let most: Vec<f64> = w.chunks(32).flat_map(|group| [f64::from(max(group)); 32]).collect();
            let w: Vec<f64> = w.chunks(32).flat_map(quantize).collect();
            for token in 0..self.tokens {
                let x = &x[token * self.cols..][..self.cols];
                let products = w.iter().zip(x).map(|(w, x)| w * x);
                let bias = f64::from(self.bias[row]);
                let rounded: f64 = most.iter().zip(x).map(|(most, x)| most * x.abs() / 8191.0).sum();
                let magnitude = products.clone().map(f64::abs).sum::<f64>() + bias.abs();
                let magnitude = magnitude + if is_early { rounded / TOLERANCE } else { 0.0 };
                out[token * self.rows + row] = (products.sum::<f64>() + bias, magnitude);
            }
        }
        out
    }

    fn run(&self, isa: Isa, threads: usize, mapped: bool) -> Vec<f32> {
        let (dtype, rows, cols) = (self.format.dtype, self.rows, self.cols);
        let matrix =
            if mapped { WeightMatrix::mapped(dtype, rows, cols) } else { WeightMatrix::packed(dtype, rows, cols) }
                .unwrap();
        let mut bytes = vec![0; matrix.bytes()];
        matrix.pack(isa, &self.raw, &mut bytes);
        let mut out = vec![f32::NAN; self.tokens * rows];
        let mut workspace = MatmulWorkspace::new(threads, self.tokens, cols).unwrap();
        let pool = Arc::new(Pool::new(threads).unwrap());
        let mut jobs = [MatmulJob::new(matrix, &bytes, Some(&self.bias), &mut out)];
        let op_chunk = if threads > 1 { OpChunk::Short } else { OpChunk::Whole };
        let (team, mut cursor) = (pool.enter().unwrap(), ProductCursor { op_chunk, ..Default::default() });
        while !multiply_chunk(&team, isa, &mut workspace, &self.x, self.tokens, &mut jobs, &mut cursor) {}
        out
    }
}

/// Returns groups of bit-identical instruction sets of this machine.
fn families() -> impl Iterator<Item = Vec<Isa>> {
    [Isa::available(), Isa::in_bf16()].into_iter().filter(|isas| !isas.is_empty())
}

fn bits(v: &[f32]) -> Vec<u32> {
    v.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn products_agree_with_the_reference_codec() {
    for format in formats() {
        let cases = [(1, 1, 1), (40, 3, 1), (48, 5, 3), (35, 4, 7), (70, 2, 13)];
        let columns: &[usize] = if format.block_len == 1 { &[32, 43] } else { &[format.block_len] };
        for ((rows, blocks, tokens), columns) in cases.iter().flat_map(|&case| columns.iter().map(move |c| (case, c))) {
            let cols = columns * blocks;
            let case = Product::new(format, rows, cols, tokens);
            let found = case.run(Isa::detect(), 1, false);
            for (i, (found, (expected, magnitude))) in found.iter().zip(case.expected()).enumerate() {
                // Some hundred roundings to f32; an activation on a tie may be rounded either way.
                let tolerance = TOLERANCE * magnitude;
                assert!(
                    (f64::from(*found) - expected).abs() <= tolerance,
                    "{} {rows} x {cols}, {tokens} tokens, result {i}: {found}, {expected} expected",
                    format.name
                );
            }
        }
    }
}

/// Groups of 32 columns in BF16: the first and the last sixteen products are summed separately.
#[test]
fn products_in_bf16_are_those_of_rounded_numbers() {
    let round = |x: f32| half::bf16::from_f32(x).to_f32();
    // Types whose reference codec rounds a value once.
    for dtype in [quant::Q4_0, quant::Q8_0, quant::Q6_K, quant::IQ4_NL, quant::MXFP4, quant::NVFP4] {
        let case = Product::new(quant::format(dtype).unwrap(), 35, 768, 21);
        let mut expected = vec![0f32; 21 * 35];
        let mut w = vec![0f32; 768];
        for row in 0..35 {
            case.format.dequantize(&case.raw[row * case.raw.len() / 35..][..case.raw.len() / 35], &mut w);
            for (token, x) in case.x.chunks_exact(768).enumerate() {
                let y = &mut expected[token * 35 + row];
                for (w, x) in w.chunks_exact(32).zip(x.chunks_exact(32)) {
                    let mut sums = [0f32; 2];
                    for (i, (w, x)) in w.iter().zip(x).enumerate() {
                        sums[i / 16] = libm::fmaf(round(*w), round(*x), sums[i / 16]);
                    }
                    *y += sums[0] + sums[1];
                }
                *y += case.bias[row];
            }
        }
        for isa in Isa::in_bf16() {
            assert!(bits(&case.run(isa, 1, false)) == bits(&expected), "{} {}", case.format.name, isa.name());
        }
    }
}

/// Both factors have eight significant bits; 16-bit weights are first converted to 14-bit integers.
#[test]
fn products_in_bf16_are_near_those_of_the_reference_codec() {
    for format in formats() {
        for (rows, tokens) in [(1, 1), (35, 7), (70, 18)] {
            let cols = if format.block_len == 1 { 32 * 3 } else { format.block_len * 2 };
            let case = Product::new(format, rows, cols, tokens);
            let mut w = vec![0f32; cols];
            for isa in Isa::in_bf16() {
                let found = case.run(isa, 2, false);
                for (row, raw) in case.raw.chunks_exact(case.raw.len() / rows).enumerate() {
                    format.dequantize(raw, &mut w);
                    let most = w.chunks(32).map(|group| group.iter().fold(0f32, |m, v| m.max(v.abs())));
                    let most: Vec<f32> = most.flat_map(|most| [most; 32]).collect();
                    for (token, x) in case.x.chunks_exact(cols).enumerate() {
                        let (mut expected, mut error) = (f64::from(case.bias[row]), 0.0);
                        for ((w, x), most) in w.iter().zip(x).zip(&most) {
                            let [w, x, most] = [*w, *x, *most].map(f64::from);
                            expected += w * x;
                            error += (w * x).abs() / 127.0 + (most * x).abs() / 8191.0;
                        }
                        let found = f64::from(found[token * rows + row]);
                        let name = format.name;
                        assert!((found - expected).abs() <= error + 1e-6, "{name} {row} {token}: {found}, {expected}");
                    }
                }
            }
        }
    }
}

/// 16-bit sums of the smallest and the largest six-bit values with the largest activations.
#[test]
fn the_largest_sums_fit() {
    for (quants, x) in [(0, 1.0), (0, -1.0), (255, 1.0), (255, -1.0)] {
        let block = [[quants; 192].as_slice(), &[127; 16], &[0, 0x3c]].concat();
        let format = quant::format(quant::Q6_K).unwrap();
        let case = Product { raw: block.repeat(2 * 16), x: vec![x; 4 * 512], ..Product::new(format, 16, 512, 4) };
        let expected = bits(&case.run(Isa::Scalar, 1, false));
        let sum = x * 512.0 * 127.0 * if quants == 0 { -32.0 } else { 31.0 };
        assert!(
            case.run(Isa::Scalar, 1, false)
                .iter()
                .zip(case.bias.iter().cycle())
                .all(|(y, b)| (y - b - sum).abs() < 4.0)
        );
        for isa in Isa::available() {
            assert!(bits(&case.run(isa, 1, false)) == expected, "{} {quants} {x}", isa.name());
        }
    }
}

/// Results are bit-identical for every instruction set, number of threads, batch and weight layout.
#[test]
fn nothing_changes_a_bit() {
    for format in formats() {
        let cols = if format.block_len == 256 { 1024 } else { 1024 - format.block_len.max(32) };
        let case = Product::new(format, 83, cols, 14);
        for isas in families() {
            let expected = bits(&case.run(isas[0], 1, false));
            for isa in isas {
                for (threads, mapped) in [(1, false), (3, false), (2, true)] {
                    let found = bits(&case.run(isa, threads, mapped));
                    assert!(found == expected, "{} {} {threads} threads, mapped {mapped}", format.name, isa.name());
                }
                for tokens in [1, 2, 3, 5, 8, 9] {
                    let part =
                        Product { x: case.x[..tokens * cols].to_vec(), tokens, ..Product::new(format, 83, cols, 14) };
                    for mapped in [false, true] {
                        let found = bits(&part.run(isa, 2, mapped));
                        assert!(found == expected[..tokens * 83], "{} {} {tokens} tokens", format.name, isa.name());
                    }
                }
            }
        }
        let expected = bits(&case.run(Isa::Scalar, 1, false));
        let mut y = vec![0f32; 83];
        matvec_raw(Isa::detect(), format.dtype, &case.raw, 83, &case.x[..cols], &mut y).unwrap();
        y.iter_mut().zip(&case.bias).for_each(|(y, b)| *y += b);
        assert!(bits(&y) == expected[..83], "{} raw", format.name);
    }
}

/// Full tiles of every size of an instruction set, for each kind of scales and mins.
#[test]
fn tiles_of_many_tokens_have_the_bits_of_few() {
    for dtype in [quant::Q4_0, quant::Q8_0, quant::Q4_K, quant::Q6_K, quant::Q2_K, quant::BF16, quant::F32] {
        let format = quant::format(dtype).unwrap();
        let few = Product::new(format, 40, 512, 4);
        for tokens in [18, 31, 32, 45] {
            let x = few.x.iter().cycle().take(tokens * 512).copied().collect();
            let many = Product { x, tokens, ..Product::new(format, 40, 512, 4) };
            for isas in families() {
                let expected = few.run(isas[0], 1, false).repeat(tokens.div_ceil(4));
                for isa in isas {
                    let found = bits(&many.run(isa, 1, false));
                    assert!(found == bits(&expected[..tokens * 40]), "{} {} {tokens}", format.name, isa.name());
                }
            }
        }
    }
}

#[test]
fn matrices_that_share_an_input_are_multiplied_together() {
    let formats = [quant::Q4_1, quant::F16, quant::Q6_K, quant::IQ3_S, quant::Q8_0];
    let cases: Vec<Product> = formats
        .iter()
        .enumerate()
        .map(|(i, &dtype)| Product::new(quant::format(dtype).unwrap(), 16 + 37 * i, 512, 9))
        .collect();
    let x = &cases[0].x;
    for tokens in [1, 9] {
        let matrices: Vec<WeightMatrix> =
            cases.iter().map(|c| WeightMatrix::packed(c.format.dtype, c.rows, 512).unwrap()).collect();
        let bytes: Vec<Vec<u8>> = cases
            .iter()
            .zip(&matrices)
            .map(|(case, matrix)| {
                let mut bytes = vec![0; matrix.bytes()];
                matrix.pack(Isa::detect(), &case.raw, &mut bytes);
                bytes
            })
            .collect();
        let mut outs: Vec<Vec<f32>> = cases.iter().map(|c| vec![0.0; tokens * c.rows]).collect();
        let mut jobs: Vec<MatmulJob> = outs
            .iter_mut()
            .enumerate()
            .map(|(i, out)| MatmulJob::new(matrices[i], &bytes[i], Some(&cases[i].bias), out))
            .collect();
        let mut workspace = MatmulWorkspace::new(3, 9, 512).unwrap();
        let pool = Arc::new(Pool::new(3).unwrap());
        multiply(&pool.enter().unwrap(), Isa::detect(), &mut workspace, &x[..tokens * 512], tokens, &mut jobs);
        for (case, out) in cases.iter().zip(&outs) {
            let single =
                Product { x: x[..tokens * 512].to_vec(), tokens, ..Product::new(case.format, case.rows, 512, 9) };
            assert_eq!(bits(&single.run(Isa::detect(), 1, false)), bits(out), "{}", case.format.name);
        }
    }
}

/// Products of one column, which are not quantized.
#[test]
fn every_8_bit_float_is_read() {
    let raw: Vec<u8> = (0..=255).collect();
    let mut expected = vec![0f32; 256];
    quant::dequantize(quant::F8_E4M3, &raw, &mut expected).unwrap();
    for isa in Isa::available() {
        let mut found = vec![0f32; 256];
        matvec_raw(isa, quant::F8_E4M3, &raw, 256, &[1.0], &mut found).unwrap();
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{found}, {expected} expected");
        }
    }
}

#[test]
fn values_that_are_not_finite_show() {
    for bad in [f32::NAN, f32::INFINITY] {
        let format = quant::format(quant::Q4_0).unwrap();
        let mut case = Product::new(format, 16, 64, 2);
        case.x[64 + 40] = bad;
        for isa in families().flatten() {
            let out = case.run(isa, 1, false);
            let shows = out[..16].iter().all(|y| y.is_finite()) && out[16..].iter().all(|y| !y.is_finite());
            assert!(shows, "{}", isa.name());
        }
    }
}

#[test]
fn zeros_and_tiny_activations_give_the_bias() {
    let format = quant::format(quant::Q8_0).unwrap();
    for x in [0.0, 1e-30, -1e-42] {
        let mut case = Product::new(format, 16, 64, 1);
        case.x.fill(x);
        assert_eq!(case.run(Isa::detect(), 1, false), case.bias);
    }
}
