//! Sampling of one token by a rule: biases, penalties, filters, temperature, a draw. Deterministic across machines:
//! uses only operations that IEEE 754 defines exactly, and the functions of `arithmetic`. Probabilities are summed as
//! integers, independent of order, so that `kernels/sample.cu` samples the same tokens.

use super::argmax;
use super::candidates::{Candidate, Candidates, reserve};
use super::repetitions::{Repetitions, dry_penalty, ends_with, length_after};
use super::rule::{Choice, SamplingRule};
use crate::error::Result;

/// Scratch memory, allocated for a vocabulary on first use.
#[derive(Debug, Default)]
pub struct Scratch {
    candidates: Candidates,
    /// Number of occurrences, or longest repetition, of each token in a window; all 0 between calls. `[vocab]`
    counts: Vec<u32>,
    repetitions: Repetitions,
}

/// Samples a token by a rule. `logits: [vocab]`; NaN counts as negative infinity, which is never sampled.
pub fn choose(rule: &SamplingRule, logits: &[f32], scratch: &mut Scratch) -> Result<Choice> {
    choose_of(rule, logits, logits.len(), scratch)
}

/// Like `choose`, for the logits of some tokens of a vocabulary of `vocab`, in its order; ids of the rule and of the
/// result are indices into these tokens.
pub fn choose_of(rule: &SamplingRule, logits: &[f32], vocab: usize, scratch: &mut Scratch) -> Result<Choice> {
    let params = rule.params;
    let best = if params.temperature == 0.0 && rule.is_plain() {
        let id = argmax(logits);
        logits.get(id as usize).map(|&logit| Candidate { id, logit }).filter(Candidate::is_possible)
    } else {
        scratch.adjust(rule, logits)?;
        scratch.candidates.best()
    };
    match best {
        Some(best) if params.temperature > 0.0 => Ok(scratch.candidates.choose_one(rule, best, vocab)),
        best => Ok(Choice { token: best.map(|best| best.id), random: rule.random, bound: rule.bound }),
    }
}

impl Scratch {
    /// Collects the candidates with biased and penalized logits.
    fn adjust(&mut self, rule: &SamplingRule, logits: &[f32]) -> Result<()> {
        let params = rule.params;
        self.candidates.reserve(logits.len())?;
        let list = &mut self.candidates.list;
        list.clear();
        list.extend((0..).zip(logits).map(|(id, &logit)| Candidate { id, logit }));
        for &(id, bias) in &params.logit_biases {
            list[id as usize].logit += bias;
        }
        rule.banned.iter().for_each(|&id| forbid(list, id));
        if params.penalizes() || params.dry_multiplier > 0.0 {
            reserve(&mut self.counts, logits.len())?;
            self.counts.resize(logits.len(), 0);
        }
        if params.penalizes() {
            self.penalize(rule);
        }
        if params.forbids_repetitions() {
            self.repetitions.reserve()?;
            self.forbid_repetitions(rule);
        }
        self.candidates.list.retain(|c| c.is_possible() && rule.allows(c.id));
        Ok(())
    }

    fn penalize(&mut self, rule: &SamplingRule) {
        let params = rule.params;
        for id in rule.newest() {
            if let Some(count) = self.counts.get_mut(id as usize) {
                *count += 1;
            }
        }
        for id in rule.newest() {
            let Some(count) = self.counts.get_mut(id as usize).map(std::mem::take) else { continue };
            if count > 0 {
                let logit = &mut self.candidates.list[id as usize].logit;
                if params.repeat_penalty > 0.0 {
                    *logit = if *logit > 0.0 { *logit / params.repeat_penalty } else { *logit * params.repeat_penalty };
                }
                *logit -= params.presence_penalty + count as f32 * params.frequency_penalty;
            }
        }
    }

    fn forbid_repetitions(&mut self, rule: &SamplingRule) {
        let (params, recent) = (rule.params, rule.recent);
        if params.dry_multiplier > 0.0 {
            self.penalize_repetitions(rule);
        }
        let list = &mut self.candidates.list;
        if let Some(before) = (params.no_repeat_ngram_size as usize).checked_sub(1) {
            self.repetitions.each(recent, usize::MAX, before, |id, length| {
                if length as usize == before {
                    forbid(list, id);
                }
            });
        }
        for sequence in &params.banned_sequences {
            if let Some((&last, before)) = sequence.split_last()
                && ends_with(recent, 0, before)
            {
                forbid(list, last);
            }
        }
    }

    /// Applies DRY: a token that extends a repetition gets a penalty, which grows with the length of the repetition.
    fn penalize_repetitions(&mut self, rule: &SamplingRule) {
        let params = rule.params;
        let window = if params.dry_window == 0 { usize::MAX } else { params.dry_window as usize };
        let longest = length_after(&params.dry_breakers, rule.recent, window);
        self.repetitions.each(rule.recent, window, longest, |id, length| {
            if let Some(most) = self.counts.get_mut(id as usize) {
                *most = length.max(*most);
            }
        });
        let is_breaker = |id: u32| params.dry_breakers.iter().any(|breaker| breaker[..] == [id]);
        for id in rule.last(window) {
            let Some(length) = self.counts.get_mut(id as usize).map(std::mem::take) else { continue };
            if length >= params.dry_allowed_length && !is_breaker(id) {
                self.candidates.list[id as usize].logit -= dry_penalty(params, length);
            }
        }
    }
}

#[cfg(test)]
impl Scratch {
    /// Returns the tokens of the last draw, and their probabilities.
    pub(super) fn probabilities(&self) -> impl Iterator<Item = (u32, f64)> {
        self.candidates.probabilities()
    }
}

fn forbid(list: &mut [Candidate], id: u32) {
    if let Some(candidate) = list.get_mut(id as usize) {
        candidate.logit = f32::NEG_INFINITY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::sampling::{Filter, Sampler, SamplerParams};
    use proptest::prelude::*;

    fn sampler(params: SamplerParams) -> Sampler {
        Sampler::new(params).unwrap()
    }

    fn warm() -> SamplerParams {
        SamplerParams { temperature: 1.0, ..Default::default() }
    }

    #[test]
    fn argmax_takes_the_first_of_the_largest() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(argmax(&[f32::NAN, -5.0, f32::NAN, -4.0]), 3);
        assert_eq!(argmax(&[f32::NEG_INFINITY, f32::INFINITY]), 1);
        assert_eq!(argmax(&[f32::NAN; 3]), 0);
        assert_eq!(argmax(&[]), 0);
    }

    /// These ids, computed independently in Python, may change only with the major version.
    #[test]
    fn a_seed_gives_these_tokens() {
        let logits: Vec<f32> = (0..1000).map(|i| ((i * 7919 % 1000) as f32 - 500.0) / 100.0).collect();
        let draw = |params| {
            let mut s = sampler(params);
            let mut history = Vec::new();
            for _ in 0..12 {
                let id = s.sample(&logits, &history, None).unwrap();
                history.push(id);
            }
            history
        };
        let plain = SamplerParams { seed: 42, ..warm() };
        assert_eq!(draw(plain.clone()), GOLDEN_PLAIN);
        assert_eq!(draw(plain), GOLDEN_PLAIN);
        let full = SamplerParams {
            seed: 7,
            temperature: 0.7,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.05,
            repeat_penalty: 1.1,
            presence_penalty: 0.2,
            frequency_penalty: 0.1,
            ..Default::default()
        };
        assert_eq!(draw(full), GOLDEN_FULL);
    }

    const GOLDEN_PLAIN: [u32; 12] = [741, 173, 284, 338, 39, 877, 224, 804, 335, 618, 210, 495];
    const GOLDEN_FULL: [u32; 12] = [852, 321, 914, 741, 136, 889, 99, 173, 605, 420, 284, 766];

    /// Pearson's chi-square over the tokens, each expected at least five times.
    fn chi_square(params: SamplerParams, logits: &[f32], expected: &[f64]) -> f64 {
        const N: usize = 50_000;
        let mut s = sampler(params);
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..N {
            counts[s.sample(logits, &[], None).unwrap() as usize] += 1.0;
        }
        let terms = counts.iter().zip(expected).map(|(found, p): (&f64, _)| {
            let expected = p * N as f64;
            if *p == 0.0 {
                assert_eq!(*found, 0.0);
                return 0.0;
            }
            (found - expected).powi(2) / expected
        });
        terms.sum()
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let max = logits.iter().fold(f32::MIN, |m, &l| m.max(l));
        let weights: Vec<f64> = logits.iter().map(|&l| (f64::from(l - max) / temperature).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    #[test]
    fn draws_follow_the_distribution() {
        let logits = [0.5, -1.0, 2.0, 1.0, f32::NEG_INFINITY, 0.0, f32::NAN, 1.9, -0.5, 0.25];
        let clean = logits.map(|l| if l.is_nan() { f32::NEG_INFINITY } else { l });
        // 7 degrees of freedom: one in ten thousand seeds exceeds 29.9.
        for temperature in [0.5, 1.0, 1.5] {
            let expected = softmax(&clean, f64::from(temperature));
            for seed in 0..3 {
                let params = SamplerParams { temperature, seed, ..Default::default() };
                let x = chi_square(params, &logits, &expected);
                assert!(x < 29.9, "temperature {temperature}, seed {seed}: {x}");
            }
        }
        // The filter sees the untempered distribution: 2.0, 1.9, 1.0 and 0.5 have 0.85 of it.
        let kept = [2, 7, 3, 0];
        let survivors: [f32; 10] =
            std::array::from_fn(|i| if kept.contains(&i) { clean[i] } else { f32::NEG_INFINITY });
        let params = SamplerParams { temperature: 2.0, top_p: 0.83, seed: 5, ..Default::default() };
        let x = chi_square(params, &logits, &softmax(&survivors, 2.0));
        assert!(x < 21.1, "top_p: {x}");
    }

    /// Compares filters after the temperature with their definition in f64.
    #[test]
    fn filters_see_the_distribution_that_they_are_told() {
        let logits: [f32; 10] = [0.5, -1.0, 2.0, 1.0, -3.0, 0.0, 3.0, 1.9, -0.5, 0.25];
        for (temperature, top_p, min_p) in
            [(0.5, 0.9, 0.0), (2.0, 0.8, 0.0), (2.0, 0.0, 0.3), (0.7, 0.0, 0.1), (1.7, 0.95, 0.2), (1.0, 0.7, 0.1)]
        {
            for filters in [Vec::new(), Filter::TEMPERATURE_FIRST.to_vec()] {
                let seen = softmax(&logits, if !filters.is_empty() { f64::from(temperature) } else { 1.0 });
                let mut order: Vec<usize> = (0..10).collect();
                order.sort_by(|a, b| seen[*b].total_cmp(&seen[*a]));
                let mut sum = 0.0;
                let n = order.iter().position(|&i| (sum += seen[i], sum >= f64::from(top_p)).1).map_or(10, |i| i + 1);
                let n = if top_p == 0.0 { 10 } else { n };
                let is_kept = |i: &usize| seen[*i] >= f64::from(min_p) * seen[order[0]];
                let kept: Vec<usize> = order[..n].iter().copied().filter(is_kept).collect();
                let left: [f32; 10] =
                    std::array::from_fn(|i| if kept.contains(&i) { logits[i] } else { f32::NEG_INFINITY });
                let params =
                    SamplerParams { temperature, top_p, min_p, order: filters.clone(), seed: 3, ..Default::default() };
                let x = chi_square(params, &logits, &softmax(&left, f64::from(temperature)));
                assert!(x < 29.9, "{temperature}, {top_p}, {min_p}, {filters:?}: {x} of {kept:?}");
            }
        }
    }

    #[test]
    fn penalties_and_biases_are_as_defined() {
        let logits = [2.0, -1.0, 0.5, 1.0, 4.0];
        let adjusted = |params: SamplerParams, history: &[u32]| {
            let mut scratch = Scratch::default();
            let params = params.checked().unwrap();
            let rule = SamplingRule { params: &params, recent: [history, &[]], ..Default::default() };
            scratch.adjust(&rule, &logits).unwrap();
            scratch.adjust(&rule, &logits).unwrap(); // leaves nothing behind
            scratch.candidates.list.iter().map(|c| c.logit).collect::<Vec<_>>()
        };
        let history = [4, 0, 1, 0, 99];
        let repeat = SamplerParams { repeat_penalty: 2.0, ..warm() };
        assert_eq!(adjusted(repeat.clone(), &history), [1.0, -2.0, 0.5, 1.0, 2.0]);
        assert_eq!(adjusted(SamplerParams { penalty_window: 4, ..repeat }, &history), [1.0, -2.0, 0.5, 1.0, 4.0]);
        let others = SamplerParams { presence_penalty: 0.5, frequency_penalty: 0.25, ..warm() };
        assert_eq!(adjusted(others.clone(), &history), [1.0, -1.75, 0.5, 1.0, 3.25]);
        let biased = SamplerParams { logit_biases: vec![(3, 2.0), (3, 1.0), (0, f32::NEG_INFINITY)], ..others };
        assert_eq!(adjusted(biased, &history), [-1.75, 0.5, 4.0, 3.25]);
        // By default all tokens count.
        let mut long = vec![3; 65];
        long[0] = 2;
        let all = SamplerParams { presence_penalty: 1.0, ..warm() };
        assert_eq!(adjusted(all.clone(), &long), [2.0, -1.0, -0.5, 0.0, 4.0]);
        assert_eq!(adjusted(SamplerParams { penalty_window: 64, ..all }, &long), [2.0, -1.0, 0.5, 0.0, 4.0]);
    }

    #[test]
    fn greedy_needs_no_random_number() {
        let mut s = sampler(SamplerParams { seed: 3, ..Default::default() });
        assert_eq!(s.sample(&[1.0, 5.0, 5.0, f32::NAN], &[], None).unwrap(), 1);
        assert_eq!(s.random, 3);
        let mut s = sampler(SamplerParams { logit_biases: vec![(1, -10.0)], ..Default::default() });
        assert_eq!(s.sample(&[1.0, 5.0, 5.0, f32::NAN], &[], None).unwrap(), 2);
    }

    #[test]
    fn hopeless_logits_are_an_error() {
        for params in [SamplerParams::default(), warm(), SamplerParams { top_p: 0.5, min_p: 0.1, top_k: 3, ..warm() }] {
            for logits in [&[][..], &[f32::NAN; 4], &[f32::NEG_INFINITY; 4], &[f32::NAN, f32::NEG_INFINITY]] {
                let mut s = sampler(params.clone());
                assert!(matches!(s.sample(logits, &[0, 1], None), Err(Error::InvalidArgument(_))));
                assert_eq!(s.random, 0);
            }
            let mut s = sampler(params);
            assert_eq!(s.sample(&[0.0, f32::INFINITY, f32::NAN, 1e38], &[], None).unwrap(), 1);
        }
    }

    #[test]
    fn parameters_are_checked_by_name() {
        let bad = [
            ("temperature", SamplerParams { temperature: -0.1, ..Default::default() }),
            ("temperature", SamplerParams { temperature: f32::NAN, ..Default::default() }),
            ("temperature", SamplerParams { temperature: f32::INFINITY, ..Default::default() }),
            ("top_p", SamplerParams { top_p: 1.5, ..Default::default() }),
            ("top_p", SamplerParams { top_p: f32::NAN, ..Default::default() }),
            ("min_p", SamplerParams { min_p: -1.0, ..Default::default() }),
            ("repeat_penalty", SamplerParams { repeat_penalty: -1.0, ..Default::default() }),
            ("presence_penalty", SamplerParams { presence_penalty: f32::INFINITY, ..Default::default() }),
            ("frequency_penalty", SamplerParams { frequency_penalty: f32::NAN, ..Default::default() }),
            ("token 8", SamplerParams { logit_biases: vec![(8, f32::NAN)], ..Default::default() }),
        ];
        for (name, params) in bad {
            let message = Sampler::new(params).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
        let mut s = sampler(SamplerParams { logit_biases: vec![(2, 1.0), (7, 1.0)], ..Default::default() });
        assert!(s.check_vocab(8).is_ok());
        assert!(s.check_vocab(7).unwrap_err().to_string().contains("token 7"));
        assert!(s.sample(&[0.0; 7], &[], None).is_err());
    }

    #[test]
    fn memory_is_kept_between_calls() {
        let logits: Vec<f32> = (0..5000).map(|i| (i % 97) as f32 / 10.0).collect();
        let mut s = sampler(SamplerParams { top_p: 0.99, min_p: 0.001, repeat_penalty: 1.1, ..warm() });
        let memory = |s: &Sampler| {
            (s.scratch.candidates.list.as_ptr(), s.scratch.candidates.list.capacity(), s.scratch.counts.as_ptr())
        };
        s.sample(&logits, &[], None).unwrap();
        let first = memory(&s);
        let history: Vec<u32> = (0..500).collect();
        for n in 0..500 {
            s.sample(&logits, &history[..n], None).unwrap();
        }
        assert_eq!(memory(&s), first);
    }

    /// Ids that the filters keep, by their definitions over a full sort. `None` if a sum is so close to `top_p` that
    /// rounding decides.
    fn kept_by_definition(logits: &[f32], top_k: usize, top_p: f64, min_p: f64) -> Option<Vec<u32>> {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        ids.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        if top_k > 0 {
            ids.truncate(top_k);
        }
        let left: Vec<f32> = ids.iter().map(|&id| logits[id as usize]).collect();
        let p = softmax(&left, 1.0);
        if top_p > 0.0 && top_p < 1.0 {
            let sums = p.iter().scan(0.0, |sum, p| {
                *sum += p;
                Some(*sum)
            });
            let sums: Vec<f64> = sums.collect();
            if sums.iter().any(|s| (s - top_p).abs() < 1e-12) {
                return None;
            }
            ids.truncate(1 + sums.iter().take_while(|&&s| s < top_p).count());
        }
        ids.retain(|&id| {
            let rank = f64::from(logits[id as usize] - left[0]).exp();
            rank >= min_p
        });
        ids.sort_unstable();
        Some(ids)
    }

    proptest! {
        #[test]
        fn filters_keep_what_their_definitions_say(
            steps in prop::collection::vec(-40i32..40, 1..900),
            spread in 0.01f32..0.9,
            top_k in prop_oneof![Just(0usize), 1usize..1000],
            top_p in prop_oneof![Just(0.0f32), Just(1.0f32), 0.0f32..1.0],
            min_p in prop_oneof![Just(0.0f32), 0.0f32..1.0],
        ) {
            // Few distinct values, so that ties are common.
            let logits: Vec<f32> = steps.iter().map(|&s| s as f32 * spread).collect();
            let Some(expected) = kept_by_definition(&logits, top_k, top_p.into(), min_p.into()) else { return Ok(()) };
            let mut s = sampler(SamplerParams { top_k: top_k as u32, top_p, min_p, ..warm() });
            let drawn = s.sample(&logits, &[], None).unwrap();
            let mut kept: Vec<u32> = s.scratch.candidates.list.iter().map(|c| c.id).collect();
            kept.sort_unstable();
            prop_assert_eq!(&kept, &expected);
            prop_assert!(kept.contains(&drawn));
        }

        #[test]
        fn any_bits_are_taken(
            bits in prop::collection::vec(any::<u32>(), 0..40),
            history in prop::collection::vec(0u32..60, 0..80),
            fields in prop::collection::vec(any::<f32>(), 6),
            small in 0.0f32..1.0,
        ) {
            let logits: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
            let params = SamplerParams {
                temperature: fields[0].abs(),
                top_p: small,
                min_p: small / 2.0,
                repeat_penalty: fields[1].abs(),
                presence_penalty: fields[2],
                frequency_penalty: fields[3],
                penalty_window: fields[4] as u32,
                top_k: fields[5] as u32 % 50,
                ..Default::default()
            };
            if let Ok(id) = Sampler::new(params).and_then(|mut s| s.sample(&logits, &history, None)) {
                prop_assert!((id as usize) < logits.len());
            }
        }
    }
}
