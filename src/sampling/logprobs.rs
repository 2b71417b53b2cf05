//! Logprobs: natural logarithms of the softmax of logits, summed in f64. NaN counts as negative infinity.

use super::arithmetic::exp;
use crate::error::{Result, try_vec};

fn value(logit: f32) -> f64 {
    if logit.is_nan() { f64::NEG_INFINITY } else { f64::from(logit) }
}

/// Returns the logarithm of the sum of exponentials; infinite if every logit is negative infinity, or one is positive
/// infinity.
fn log_sum(logits: &[f32]) -> f64 {
    let peak = logits.iter().map(|x| value(*x)).fold(f64::NEG_INFINITY, f64::max);
    if peak.is_infinite() {
        return peak;
    }
    let sum: f64 = logits.iter().map(|x| value(*x) - peak).filter(|x| *x > f64::NEG_INFINITY).map(exp).sum();
    peak + libm::log(sum)
}

/// Returns a token's logprob; tokens of positive infinity have probability 1.
fn share(logit: f32, log_sum: f64) -> f32 {
    let logit = value(logit);
    (if logit == log_sum { 0.0 } else { logit - log_sum }) as f32
}

/// Returns the logprob of a token; negative infinity outside the vocabulary.
pub fn logprob(logits: &[f32], token: u32) -> f32 {
    match logits.get(token as usize) {
        Some(&logit) if value(logit) > f64::NEG_INFINITY => share(logit, log_sum(logits)),
        _ => f32::NEG_INFINITY,
    }
}

/// Returns the `k` most likely tokens (or all) with their logprobs, descending; ties by lower id.
pub fn likeliest(logits: &[f32], k: usize) -> Result<(Vec<u32>, Vec<f32>)> {
    let k = k.min(logits.len());
    let mut order = try_vec("tokens", logits.len())?;
    let (mut tokens, mut logprobs) = (try_vec("tokens", k)?, try_vec("probabilities", k)?);
    likeliest_into(logits, k, &mut order, &mut tokens, &mut logprobs);
    Ok((tokens, logprobs))
}

/// Appends the result of `likeliest` to lists with enough capacity. `order` needs capacity for the vocabulary.
pub fn likeliest_into(logits: &[f32], k: usize, order: &mut Vec<u32>, tokens: &mut Vec<u32>, logprobs: &mut Vec<f32>) {
    order.clear();
    order.extend(0..logits.len() as u32);
    let logit = |token: &u32| value(logits[*token as usize]);
    let descending = |a: &u32, b: &u32| logit(b).total_cmp(&logit(a)).then(a.cmp(b));
    if k < order.len() {
        order.select_nth_unstable_by(k, descending);
        order.truncate(k);
    }
    order.sort_unstable_by(descending);
    let log_sum = log_sum(logits);
    tokens.extend_from_slice(order);
    logprobs.extend(order.iter().map(|token| match logit(token) {
        f64::NEG_INFINITY => f32::NEG_INFINITY,
        _ => share(logits[*token as usize], log_sum),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logprobs_are_those_of_a_plain_softmax() {
        let logits: Vec<f32> = (0..1000u32).map(|i| (i.wrapping_mul(2654435761) >> 20) as f32 / 100.0 - 20.0).collect();
        let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
        let expected = |t: u32| (f64::from(logits[t as usize]).exp() / sum).ln();
        let (tokens, logprobs) = likeliest(&logits, 10).unwrap();
        let mut all: Vec<u32> = (0..1000).collect();
        all.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
        assert_eq!(tokens, all[..10]);
        for (token, found) in tokens.iter().zip(&logprobs) {
            assert!((f64::from(*found) - expected(*token)).abs() < 1e-5, "{token}");
            assert_eq!(*found, logprob(&logits, *token));
        }
        assert_eq!(likeliest(&logits, 5000).unwrap().0, all);
    }

    #[test]
    fn odd_logits_have_their_place() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let (tokens, logprobs) = likeliest(&[nan, 1.0, -inf, 1.0], 4).unwrap();
        assert_eq!(tokens, [1, 3, 0, 2]);
        assert!((logprobs[0] + 2f32.ln()).abs() < 1e-6 && logprobs[2..] == [-inf, -inf]);
        assert_eq!((logprob(&[nan, 1.0], 0), logprob(&[1.0], 1), logprob(&[-inf], 0)), (-inf, -inf, -inf));
        assert_eq!((logprob(&[inf, 1.0], 0), logprob(&[inf, 1.0], 1)), (0.0, -inf));
        assert_eq!(likeliest(&[], 3).unwrap(), (vec![], vec![]));
    }
}
