//! An exponential function and random numbers that are bit-identical on every machine.

/// `e^x` for `x <= 0`, at least `e^-700`, to about one ULP: `x = k ln 2 + r`, a Taylor polynomial for `e^r`, `k` added
/// to its exponent. The platforms' own `exp` differ in the last bit.
pub(super) fn exp(x: f64) -> f64 {
    // ln 2 in two parts, the first with few enough bits that its product with k is exact.
    const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
    // 1.5 * 2^52: after the addition the low bits of the mantissa are the integer.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    const INVERSE_FACTORIALS: [f64; 14] = {
        let mut inverse = [1.0; 14];
        let (mut n, mut factorial) = (1, 1.0);
        while n < 14 {
            factorial *= n as f64;
            inverse[n] = 1.0 / factorial;
            n += 1;
        }
        inverse
    };
    let x = x.max(-700.0);
    let shifted = x * std::f64::consts::LOG2_E + SHIFT;
    let k = shifted - SHIFT;
    let r = x - k * LN2_HIGH - k * LN2_LOW;
    let power = INVERSE_FACTORIALS.iter().rev().fold(0.0, |sum, c| sum * r + c);
    f64::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 52))
}

/// Scale of integers that represent numbers up to 1: a power of two so that `n` of them sum below 2^63.
pub(super) fn unit(n: usize) -> f64 {
    let bits = (usize::BITS - n.leading_zeros()).clamp(12, 62);
    (1u64 << (63 - bits)) as f64
}

/// Returns a number from 0 to 1 as a scaled integer, rounded to nearest even.
pub(super) fn fixed(x: f64, unit: f64) -> u64 {
    // After the addition the low bits of the mantissa are the integer.
    const SHIFT: f64 = (1u64 << 52) as f64;
    (x * unit + SHIFT).to_bits() - SHIFT.to_bits()
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. The state is the seed plus a constant
/// per draw.
#[derive(Clone, Debug)]
pub(super) struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the state after `draws` draws.
    pub fn after(&self, draws: u64) -> u64 {
        self.0.wrapping_add(draws.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.after(1);
        let z = self.0;
        let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Uniform in `[0, 1)`.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`, up to a bias of `n / 2^64`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_the_last_places() {
        for i in 0..200_000 {
            let x = -700.0 * f64::from(i) / 200_000.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 5e-16, "exp({x}) = {} rather than {}", exp(x), x.exp());
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), exp(-700.0));
    }

    /// The first outputs for seed 1234567 as published with the reference implementation.
    #[test]
    fn random_numbers_are_split_mix_64() {
        let mut rng = SplitMix64(1234567);
        let found = [rng.next(), rng.next(), rng.next()];
        assert_eq!(found, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
        assert!((0..1000).all(|_| rng.below(7) < 7));
    }

    #[test]
    fn fixed_numbers_are_rounded_to_nearest() {
        assert_eq!([0, 4095, 4096, 151_936, 1 << 20].map(|n| unit(n).log2()), [51.0, 51.0, 50.0, 45.0, 42.0]);
        let unit = unit(151_936);
        for i in 0..100_000 {
            let x = exp(-f64::from(i) / 2500.0);
            assert!((fixed(x, unit) as f64 - x * unit).abs() <= 0.5);
        }
        assert_eq!((fixed(1.0, unit) as f64, fixed(0.0, unit), fixed(exp(f64::NEG_INFINITY), unit)), (unit, 0, 0));
        assert_eq!([0.5, 1.5, 2.5].map(|x| fixed(x / unit, unit)), [0, 2, 2]);
    }
}
