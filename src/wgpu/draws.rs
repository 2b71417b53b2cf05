//! Sampling with `top_k`, or of the likeliest token: the device selects candidates, and the host applies the rule to
//! these alone. WGSL has neither 64-bit floats nor exact divisions, with which the rule is defined.
//!
//! The candidates are the `top_k + n` largest logits and the `n` tokens whose logits the rule changes. All other tokens
//! have at least `top_k` unchanged logits before them.

use crate::error::{Result, try_vec};
use crate::graph::program::Program;
use crate::sampling::{SamplerParams, SamplingRule, Scratch, choose_of};

/// Maximum number of the largest logits that are selected per row.
pub const MOST: usize = 128;

/// Number of logits per workgroup of `top.wgsl`, and maximum number of workgroups per row.
const SPAN: usize = 4096;
const PARTS: usize = 64;

/// The rule of an output.
pub struct Draw {
    params: SamplerParams,
    random: u64,
    recent: Vec<u32>,
    banned: Vec<u32>,
    none: u32,
    /// Tokens whose logits the rule changes, in ascending order.
    pub changed: Vec<u32>,
    /// Number of the largest logits to select.
    pub count: usize,
    pub allowed: Option<Vec<u32>>,
}

/// The parts of a row of logits, and the words of their candidates.
#[derive(Clone, Copy)]
pub struct Parts {
    pub span: usize,
    pub n: usize,
}

impl Parts {
    pub fn new(vocab: usize) -> Parts {
        let span = SPAN.max(vocab.div_ceil(PARTS));
        Parts { span, n: vocab.div_ceil(span) }
    }

    /// Returns the words of a part: number of candidates, then ids and logits.
    pub fn part_words(count: usize) -> usize {
        1 + 2 * count
    }

    /// Returns the maximum words of the candidates of a row.
    pub fn words(self) -> usize {
        self.n * Parts::part_words(MOST) + MOST
    }
}

/// Returns the maximum words of the inputs of a rule: changed tokens, and the mask of allowed ones.
pub fn input_words(program: &Program) -> usize {
    MOST + program.vocab.div_ceil(32)
}

/// Returns the number of candidates that a rule needs; `None`: all tokens.
fn candidates(rule: &SamplingRule) -> Option<usize> {
    match (rule.params.temperature == 0.0, rule.params.top_k) {
        (true, _) => Some(1),
        (false, 0) => None,
        (false, top_k) => Some(top_k as usize),
    }
}

/// True if steps can sample by a rule.
pub fn supports(rule: &SamplingRule) -> bool {
    let count = candidates(rule).map(|count| count.saturating_add(rule.entries()));
    rule.params.suits_devices() && count.is_some_and(|count| count <= MOST)
}

impl Draw {
    /// Returns the rule of an output; `None` if it is the likeliest token.
    pub fn new(rule: &SamplingRule, vocab: usize) -> Result<Option<Draw>> {
        if rule.params.temperature == 0.0 && rule.entries() == 0 && rule.allowed.is_none() {
            return Ok(None);
        }
        let recent: Vec<u32> = rule.newest().collect();
        let biased = rule.params.logit_biases.iter().map(|(id, _)| *id);
        let mut changed: Vec<u32> = biased.chain(recent.iter().chain(rule.banned).copied()).collect();
        changed.retain(|id| (*id as usize) < vocab);
        changed.sort_unstable();
        changed.dedup();
        let allowed = rule.allowed.map(|bits| {
            let mut words = try_vec("a mask of tokens", vocab.div_ceil(32))?;
            words.extend((0..vocab.div_ceil(32)).map(|word| bits.get(word).copied().unwrap_or(0)));
            Ok::<Vec<u32>, crate::error::Error>(words)
        });
        Ok(Some(Draw {
            params: rule.params.clone(),
            random: rule.random,
            recent,
            banned: rule.banned.to_vec(),
            none: rule.none,
            count: candidates(rule).unwrap_or(MOST).saturating_add(changed.len()).min(MOST),
            changed,
            allowed: allowed.transpose()?,
        }))
    }

    /// Returns the words of the candidates of a row.
    pub fn words(&self, vocab: usize) -> usize {
        Parts::new(vocab).n * Parts::part_words(self.count) + self.changed.len()
    }

    /// Samples a token from the candidates that `top.wgsl` and `pick.wgsl` have written.
    pub fn choose(&self, words: &[u32], vocab: usize, scratch: &mut Scratch) -> Result<u32> {
        let (parts, changed) = words.split_at(words.len() - self.changed.len());
        let is_allowed = |id: u32| {
            let bit = |bits: &Vec<u32>| bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
            self.allowed.as_ref().is_none_or(bit)
        };
        let picked = self.changed.iter().zip(changed).map(|(id, logit)| (*id, f32::from_bits(*logit)));
        let mut found: Vec<(u32, f32)> = picked.filter(|(id, _)| is_allowed(*id)).collect();
        for part in parts.chunks_exact(Parts::part_words(self.count)) {
            let n = (part[0] as usize).min(self.count);
            found.extend(part[1..].as_chunks::<2>().0.iter().take(n).map(|[id, logit]| (*id, f32::from_bits(*logit))));
        }
        // In the order of the vocabulary, each once.
        found.sort_unstable_by_key(|(id, _)| *id);
        found.dedup_by_key(|(id, _)| *id);
        let (ids, logits): (Vec<u32>, Vec<f32>) = found.into_iter().unzip();
        let at = |id: &u32| ids.binary_search(id).ok().map(|at| at as u32);
        let mut params = self.params.clone();
        params.logit_biases = params.logit_biases.iter().filter_map(|(id, bias)| Some((at(id)?, *bias))).collect();
        // Recent tokens without a logit still count as positions of the window.
        let recent: Vec<u32> = self.recent.iter().map(|id| at(id).unwrap_or(u32::MAX)).collect();
        let banned: Vec<u32> = self.banned.iter().filter_map(at).collect();
        let rule = SamplingRule {
            params: &params,
            random: self.random,
            recent: [&recent, &[]],
            banned: &banned,
            none: self.none,
            ..SamplingRule::default()
        };
        let choice = choose_of(&rule, &logits, vocab, scratch)?;
        Ok(choice.token.and_then(|token| ids.get(token as usize).copied()).unwrap_or(self.none))
    }
}
