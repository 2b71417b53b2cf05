//! Sampling rules in the memory of a step.

use super::args::{DeviceRule, RuleKind, RuleState};
use crate::gpu::Address;
use crate::gpu::writer::{ALIGN, Writer};
use crate::sampling::{MAX_ENTRIES, SamplingRule};

/// The kernels that the rules of a step need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// True if there are biases or penalties.
    pub changes: bool,
    pub draws: bool,
    /// True if tokens are ranked.
    pub ranks: bool,
}

/// Addresses of the rules of a step and of their states.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepRules {
    pub rules: Address,
    pub states: Address,
}

/// Returns `top_k` and `top_p`, or 0 for a filter that keeps all of `vocab` tokens.
fn filters(rule: &SamplingRule, vocab: usize) -> (u32, f32) {
    let top_k = if (rule.params.top_k as usize) < vocab { rule.params.top_k } else { 0 };
    let top_p = if rule.params.top_p < 1.0 { rule.params.top_p } else { 0.0 };
    (top_k, top_p)
}

fn kind(rule: &SamplingRule, vocab: usize) -> RuleKind {
    match filters(rule, vocab) {
        _ if rule.params.temperature == 0.0 => RuleKind::Likeliest,
        (0, 0.0) => RuleKind::InOrder,
        _ => RuleKind::ByRank,
    }
}

impl Needs {
    pub fn of(rules: &[Option<SamplingRule>], vocab: usize) -> Needs {
        let mut needs = Needs::default();
        for rule in rules.iter().flatten() {
            needs.changes |= rule.entries() > 0;
            needs.draws |= kind(rule, vocab) != RuleKind::Likeliest;
            needs.ranks |= kind(rule, vocab) == RuleKind::ByRank;
        }
        needs
    }
}

fn mask_words(vocab: usize) -> usize {
    vocab.div_ceil(32)
}

/// Returns the size of the rules of some outputs in bytes.
pub fn bytes(outputs: usize, vocab: usize) -> usize {
    let entry = size_of::<(u32, f32)>() + 4;
    let lists = MAX_ENTRIES * entry + 4 * mask_words(vocab) + 3 * ALIGN;
    2 * ALIGN + outputs * (size_of::<DeviceRule>() + size_of::<RuleState>() + lists)
}

/// Writes the rules of `n` outputs; an output without a rule gets greedy decoding. `slot`: slot of the step.
pub fn write(writer: &mut Writer, rules: &[Option<SamplingRule>], n: usize, slot: usize, vocab: usize) -> StepRules {
    // Fixed-size arrays come first, so that their addresses depend only on the shape of the step.
    let places = StepRules {
        rules: writer.reserve(n * size_of::<DeviceRule>()),
        states: writer.reserve(n * size_of::<RuleState>()),
    };
    for i in 0..n {
        let rule = rules.get(i).copied().flatten().unwrap_or_default();
        let biases = writer.array();
        let banned = rule.banned.iter().map(|&id| (id, f32::NEG_INFINITY));
        for (id, value) in rule.params.logit_biases.iter().copied().chain(banned) {
            writer.put(id.to_le_bytes());
            writer.put(value.to_le_bytes());
        }
        let (recent, mut n_recent) = (writer.reserve(4 * rule.window()), 0);
        for id in rule.newest() {
            writer.put_at(recent + 4 * n_recent, id.to_le_bytes());
            n_recent += 1;
        }
        let allowed = rule.allowed.map_or(0, |bits| {
            let address = writer.array();
            (0..mask_words(vocab)).for_each(|word| writer.put(bits.get(word).unwrap_or(&0).to_le_bytes()));
            address
        });
        let (top_k, top_p) = filters(&rule, vocab);
        let device = DeviceRule {
            inverse: 1.0 / f64::from(rule.params.temperature),
            biases,
            recent,
            allowed,
            kind: kind(&rule, vocab) as u32,
            n_biases: (rule.params.logit_biases.len() + rule.banned.len()) as u32,
            window: rule.window() as u32,
            none: rule.none,
            repeat: rule.params.repeat_penalty,
            presence: rule.params.presence_penalty,
            frequency: rule.params.frequency_penalty,
            top_k,
            top_p,
            min_p: rule.params.min_p,
        };
        writer.put_at(places.rules + (i * size_of::<DeviceRule>()) as Address, device.to_bytes());
        let next = if n_recent < rule.window() as Address { n_recent as u32 } else { 0 };
        let state = RuleState { random: rule.random, n_recent: n_recent as u32, next, slot: slot as u32, pad: 0 };
        writer.put_at(places.states + (i * size_of::<RuleState>()) as Address, state.to_bytes());
    }
    places
}
