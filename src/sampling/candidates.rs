//! The candidate tokens of a choice, the filters that drop some, and the draw of one.

use std::cmp::Ordering;

use super::arithmetic::{SplitMix64, exp, fixed, unit};
use super::filter::Filter;
use super::params::SamplerParams;
use super::rule::{Choice, SamplingRule};
use crate::error::{Error, Result};

/// Logits this far below a bound are dropped without computing their exponential. The margin covers rounding and
/// platform differences of `ln`, so that neither affects a choice.
const MARGIN: f64 = 1.0;

/// Number of weights that a draw skips at once.
const CHUNK: usize = 64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
}

impl Candidate {
    pub fn is_possible(&self) -> bool {
        self.logit > f32::NEG_INFINITY
    }

    /// Larger logits first, ties by lower id.
    fn order(a: &Self, b: &Self) -> Ordering {
        b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
    }
}

/// Unnormalized probabilities of logits.
#[derive(Clone, Copy, Debug)]
struct Softmax {
    /// The logit with weight 1.
    max: f64,
    /// 1 over the temperature.
    inverse: f64,
    /// Scale of integer weights.
    unit: f64,
}

impl Softmax {
    /// Returns the probability of a token relative to the most probable one.
    fn weight(&self, c: &Candidate) -> f64 {
        exp((f64::from(c.logit) - self.max) * self.inverse)
    }

    fn fixed(&self, c: &Candidate) -> u64 {
        fixed(self.weight(c), self.unit)
    }

    /// Returns a logit certainly below all logits with a weight of at least `weight`.
    fn floor(&self, weight: f64) -> f64 {
        self.max + (libm::log(weight) - MARGIN) / self.inverse
    }

    /// Returns the information of a token minus that of the most probable one, within the range of `exp`.
    fn information(&self, c: &Candidate) -> f64 {
        ((self.max - f64::from(c.logit)) * self.inverse).min(700.0)
    }
}

/// The remaining tokens with their logits, in the order of the vocabulary or of the last filter.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub list: Vec<Candidate>,
    /// Unnormalized probabilities of the candidates as scaled integers.
    weights: Vec<u64>,
}

impl Candidates {
    pub fn reserve(&mut self, vocab: usize) -> Result<()> {
        reserve(&mut self.list, vocab)?;
        reserve(&mut self.weights, vocab)
    }

    pub fn best(&self) -> Option<Candidate> {
        self.list.iter().copied().reduce(|a, b| if b.logit > a.logit { b } else { a })
    }

    /// Filters the candidates, of which `best` is the most likely, and draws from them.
    pub fn choose_one(&mut self, rule: &SamplingRule, best: Candidate, vocab: usize) -> Choice {
        let params = rule.params;
        // Without infinities, differences of logits are never NaN.
        self.list.iter_mut().for_each(|c| c.logit = c.logit.min(f32::MAX));
        let mut softmax = Softmax { max: best.logit.min(f32::MAX).into(), inverse: 1.0, unit: unit(vocab) };
        let mut random = SplitMix64(rule.random);
        for filter in params.order().iter().filter(|filter| params.is_on(**filter)) {
            match filter {
                Filter::TopNSigma => self.keep_top_n_sigma(params.top_n_sigma.into(), &softmax),
                Filter::TopK => self.keep_top_k(params.top_k as usize, vocab),
                Filter::TypicalP => self.keep_typical(params.typical_p.into(), &softmax),
                Filter::TopP => self.keep_top_p(params.top_p.into(), &softmax),
                Filter::MinP => self.keep_min_p(params.min_p.into(), &softmax),
                Filter::Xtc => self.exclude_top(params, &softmax, &mut random),
                // A product with 0 stays 0, not NaN.
                Filter::Temperature => softmax.inverse = (1.0 / self.temperature(params, &softmax)).min(f64::MAX),
            }
            // Typical sampling and XTC may drop the most probable token.
            if matches!(filter, Filter::TypicalP | Filter::Xtc) {
                softmax.max = self.best().map_or(softmax.max, |best| best.logit.into());
            }
        }
        let is_mirostat = params.mirostat_tau > 0.0;
        if is_mirostat {
            self.keep_unsurprising(rule.bound, &softmax);
        }
        let (drawn, total) = self.draw(&softmax, &mut random);
        let mut choice = Choice { token: Some(drawn.id), random: random.0, bound: rule.bound };
        if is_mirostat {
            let surprise = libm::log2(total as f64 / softmax.fixed(&drawn) as f64);
            choice.bound -= f64::from(params.mirostat_eta) * (surprise - f64::from(params.mirostat_tau));
        }
        choice
    }

    fn keep_top_n_sigma(&mut self, n: f64, softmax: &Softmax) {
        let count = self.list.len() as f64;
        let mean = self.list.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
        let variance = self.list.iter().map(|c| (f64::from(c.logit) - mean).powi(2)).sum::<f64>() / count;
        let floor = softmax.max - n * variance.sqrt();
        self.list.retain(|c| f64::from(c.logit) >= floor);
    }

    fn keep_top_k(&mut self, k: usize, vocab: usize) {
        let n = self.list.len();
        if k >= vocab {
            return;
        }
        if k < n {
            // The k-th largest of a part is at most the k-th largest of all, so one pass drops most of the others.
            let part = &mut self.list[..k.saturating_mul(n).isqrt()];
            let floor = part.select_nth_unstable_by(k - 1, Candidate::order).1.logit;
            self.list.retain(|c| c.logit >= floor);
        }
        self.sort_first(k, Candidate::order);
        self.list.truncate(k);
    }

    fn keep_top_p(&mut self, top_p: f64, softmax: &Softmax) {
        let target = (top_p * self.weigh(softmax) as f64).ceil() as u64;
        // Tokens with less than (1 - top_p) / n of the largest probability add up to at most 1 - top_p, so the kept
        // tokens are among the others.
        let floor = softmax.floor((1.0 - top_p) / self.list.len() as f64);
        self.list.retain(|c| f64::from(c.logit) >= floor);
        self.keep_mass(target, softmax, Candidate::order);
    }

    fn keep_typical(&mut self, typical_p: f64, softmax: &Softmax) {
        let total = self.weigh(softmax);
        let target = (typical_p * total as f64).ceil() as u64;
        let mean = self.mean_information(total, softmax);
        let distance = |c: &Candidate| (softmax.information(c) - mean).abs();
        self.keep_mass(target, softmax, |a, b| distance(a).total_cmp(&distance(b)).then(a.id.cmp(&b.id)));
    }

    /// Keeps the first candidates, by `order`, whose weights together reach `target`.
    fn keep_mass(&mut self, target: u64, softmax: &Softmax, order: impl Fn(&Candidate, &Candidate) -> Ordering + Copy) {
        // Usually few tokens are kept, so increasingly many are sorted until they suffice.
        let mut sorted = 64;
        loop {
            self.sort_first(sorted, order);
            let mut sum = 0;
            let kept = self.list.iter().take(sorted).position(|c| {
                sum += softmax.fixed(c);
                sum >= target
            });
            match kept {
                Some(last) => return self.list.truncate(last + 1),
                None if sorted >= self.list.len() => return,
                None => sorted *= 8,
            }
        }
    }

    fn keep_min_p(&mut self, min_p: f64, softmax: &Softmax) {
        let floor = softmax.floor(min_p);
        self.list.retain(|c| f64::from(c.logit) >= floor && softmax.weight(c) >= min_p);
    }

    /// With the configured probability, drops all tokens above the threshold except the least probable of them.
    fn exclude_top(&mut self, params: &SamplerParams, softmax: &Softmax, random: &mut SplitMix64) {
        if random.share() >= f64::from(params.xtc_probability) {
            return;
        }
        let floor = f64::from(params.xtc_threshold) * self.weigh(softmax) as f64;
        let is_top = |c: &Candidate| softmax.fixed(c) as f64 >= floor;
        let last = self.list.iter().copied().filter(is_top).max_by(Candidate::order);
        self.list.retain(|c| !is_top(c) || last.is_some_and(|last| last.id == c.id));
    }

    /// Keeps the tokens with a surprise of at most `bits` bits, and always the most probable token.
    fn keep_unsurprising(&mut self, bits: f64, softmax: &Softmax) {
        let floor = (self.weigh(softmax) as f64 * libm::exp2(-bits)).min(softmax.unit);
        self.list.retain(|c| softmax.fixed(c) as f64 >= floor);
    }

    /// Returns the temperature, which depends on the entropy if a range is set.
    fn temperature(&mut self, params: &SamplerParams, softmax: &Softmax) -> f64 {
        let (temperature, range) = (f64::from(params.temperature), f64::from(params.temperature_range));
        if range == 0.0 || self.list.len() == 1 {
            return temperature;
        }
        let total = self.weigh(softmax);
        let entropy = libm::log(total as f64 / softmax.unit) + self.mean_information(total, softmax);
        let share = (entropy / libm::log(self.list.len() as f64)).clamp(0.0, 1.0);
        let least = (temperature - range).max(0.0);
        least + (temperature + range - least) * libm::pow(share, params.temperature_exponent.into())
    }

    /// Returns the mean information relative to the most probable token. `total`: sum of the weights. Products of
    /// weight and information are at most 1 / e, and summed as integers, independent of order.
    fn mean_information(&self, total: u64, softmax: &Softmax) -> f64 {
        let product = |c: &Candidate| fixed(softmax.weight(c) * softmax.information(c), softmax.unit);
        self.list.iter().map(product).sum::<u64>() as f64 / total as f64
    }

    /// Moves the first `n` by `order` to the front, and sorts them.
    fn sort_first(&mut self, n: usize, order: impl Fn(&Candidate, &Candidate) -> Ordering + Copy) {
        if n < self.list.len() {
            self.list.select_nth_unstable_by(n, order);
        }
        let n = n.min(self.list.len());
        self.list[..n].sort_unstable_by(order);
    }

    /// Draws a token by its weight; also returns the sum of all weights.
    fn draw(&mut self, softmax: &Softmax, random: &mut SplitMix64) -> (Candidate, u64) {
        let total = self.weigh(softmax);
        let mut left = random.below(total);
        // Whole chunks are skipped by their sums.
        let chunk = self.weights.chunks(CHUNK).position(|chunk| {
            let sum: u64 = chunk.iter().sum();
            let is_here = left < sum;
            left -= if is_here { 0 } else { sum };
            is_here
        });
        let first = chunk.map_or(0, |chunk| chunk * CHUNK);
        let drawn = self.weights[first..].iter().position(|weight| {
            let is_it = left < *weight;
            left = left.wrapping_sub(*weight);
            is_it
        });
        (self.list[first + drawn.unwrap_or(0)], total)
    }

    /// Fills `weights` and returns their sum.
    fn weigh(&mut self, softmax: &Softmax) -> u64 {
        self.weights.clear();
        self.weights.extend(self.list.iter().map(|c| softmax.fixed(c)));
        self.weights.iter().sum()
    }
}

#[cfg(test)]
impl Candidates {
    pub fn probabilities(&self) -> impl Iterator<Item = (u32, f64)> {
        let total = self.weights.iter().sum::<u64>() as f64;
        self.list.iter().zip(&self.weights).map(move |(c, weight)| (c.id, *weight as f64 / total))
    }
}

/// Reserves capacity for `len` values.
pub(super) fn reserve<T>(v: &mut Vec<T>, len: usize) -> Result<()> {
    v.try_reserve(len.saturating_sub(v.len()))
        .map_err(|_| Error::OutOfMemory { what: "sampler", bytes: (len as u64).saturating_mul(size_of::<T>() as u64) })
}
