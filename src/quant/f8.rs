//! 8-bit floats without blocks, as in safetensors files.

use super::block::{Decode, block};

block! {
    /// E4M3FN: 1 sign, 4 exponent (bias 7) and 3 mantissa bits; no infinities, all ones is NaN. Micikevicius et al.,
    /// "FP8 Formats for Deep Learning", 2022.
    F8E4m3: 1 bytes { bits: 1 }
}

impl Decode for F8E4m3 {
    const LEN: usize = 1;

    fn decode(&self, y: &mut [f32]) {
        let [bits] = self.bits;
        let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
        let magnitude = match (exponent, bits & 7) {
            (15, 7) => f32::NAN,
            (0, _) => mantissa / 512.0,
            _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
        };
        y[0] = if bits & 0x80 == 0 { magnitude } else { -magnitude };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's table: smallest and largest subnormal, smallest and largest normal, one, and negative numbers.
    #[test]
    fn notable_values_are_those_of_the_paper() {
        for (bits, value) in [
            (0x00, 0.0),
            (0x01, 2f32.powi(-9)),
            (0x07, 0.875 * 2f32.powi(-6)),
            (0x08, 2f32.powi(-6)),
            (0x38, 1.0),
            (0x39, 1.125),
            (0x7e, 448.0),
            (0xfe, -448.0),
            (0xb8, -1.0),
        ] {
            let mut y = [9.0];
            F8E4m3 { bits: [bits] }.decode(&mut y);
            assert_eq!(y[0], value, "{bits:#x}");
        }
        for bits in [0x7f, 0xff] {
            let mut y = [0.0];
            F8E4m3 { bits: [bits] }.decode(&mut y);
            assert!(y[0].is_nan());
        }
    }
}
