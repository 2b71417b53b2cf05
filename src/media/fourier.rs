//! The Fourier transform of windows of 400 real numbers, four windows at once. The tables come from `libm` and the
//! order of each sum is fixed, so that the results are bit-identical on all processors.

use std::f64::consts::PI;

/// Samples per window; next, number of frequencies of its transform.
pub const WINDOW: usize = 400;
pub const FREQUENCIES: usize = WINDOW / 2 + 1;

/// Number of windows that are transformed together; next, one value per window.
pub const LANES: usize = 4;
pub type Lanes = [f64; LANES];

/// Complex numbers per window: each is a pair of neighboring samples.
const HALF: usize = WINDOW / 2;

/// The radices of the transform's stages; their product is `HALF`.
const RADICES: [usize; 4] = [5, 5, 4, 2];

#[derive(Clone, Copy)]
struct Complex {
    re: Lanes,
    im: Lanes,
}

const ZERO: Complex = Complex { re: [0.0; LANES], im: [0.0; LANES] };

impl Complex {
    /// Adds `other` times a complex number that is the same for all windows.
    fn add(&mut self, other: &Complex, [re, im]: [f64; 2]) {
        self.re = std::array::from_fn(|i| self.re[i] + (other.re[i] * re - other.im[i] * im));
        self.im = std::array::from_fn(|i| self.im[i] + (other.re[i] * im + other.im[i] * re));
    }
}

pub struct Transform {
    /// The `HALF`-th roots of unity, clockwise.
    twiddles: Vec<[f64; 2]>,
    /// The first `FREQUENCIES` of the `WINDOW`-th roots of unity, clockwise.
    fine: Vec<[f64; 2]>,
    x: Vec<Complex>,
    y: Vec<Complex>,
}

impl Transform {
    pub fn new() -> Transform {
        let root = |i: usize, n: usize| {
            let angle = 2.0 * PI * i as f64 / n as f64;
            [libm::cos(angle), -libm::sin(angle)]
        };
        Transform {
            twiddles: (0..HALF).map(|i| root(i, HALF)).collect(),
            fine: (0..FREQUENCIES).map(|i| root(i, WINDOW)).collect(),
            x: vec![ZERO; HALF],
            y: vec![ZERO; HALF],
        }
    }

    /// Computes the squared magnitudes of the transforms of `LANES` windows.
    pub fn power(&mut self, windows: &[Lanes; WINDOW], power: &mut [Lanes; FREQUENCIES]) {
        for (x, pair) in self.x.iter_mut().zip(windows.chunks_exact(2)) {
            *x = Complex { re: pair[0], im: pair[1] };
        }
        let mut stride = 1;
        for radix in RADICES {
            self.stage(radix, stride);
            stride *= radix;
        }
        // A window's transform is the transform of its even samples plus the transform of its odd samples times a
        // twiddle factor.
        for (k, power) in power.iter_mut().enumerate() {
            let (a, b, [re, im]) = (&self.x[k % HALF], &self.x[(HALF - k) % HALF], self.fine[k]);
            *power = std::array::from_fn(|i| {
                let (even_re, even_im) = (a.re[i] + b.re[i], a.im[i] - b.im[i]);
                let (odd_re, odd_im) = (a.im[i] + b.im[i], b.re[i] - a.re[i]);
                let whole_re = even_re + odd_re * re - odd_im * im;
                let whole_im = even_im + odd_re * im + odd_im * re;
                0.25 * (whole_re * whole_re + whole_im * whole_im)
            });
        }
    }

    /// Runs one stage of the Stockham algorithm, which needs no reordering pass. Previous stages have made transforms
    /// of `stride` numbers.
    fn stage(&mut self, radix: usize, stride: usize) {
        let groups = HALF / stride / radix;
        for (group, lane) in (0..groups).flat_map(|group| (0..stride).map(move |lane| (group, lane))) {
            for k in 0..radix {
                let mut sum = ZERO;
                for j in 0..radix {
                    let twiddle = self.twiddles[j * k % radix * (HALF / radix)];
                    sum.add(&self.x[lane + stride * (group + groups * j)], twiddle);
                }
                let out = &mut self.y[lane + stride * (radix * group + k)];
                *out = ZERO;
                out.add(&sum, self.twiddles[group * k * stride % HALF]);
            }
        }
        std::mem::swap(&mut self.x, &mut self.y);
    }
}
