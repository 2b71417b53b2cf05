//! Self-test of sampling on a GPU: rules of every kind, also pipelined, with the same logits and random numbers as on
//! the host.

use crate::device::batch::Batch;
use crate::device::executor::Executor;
use crate::device::sequence::Sequence;
use crate::error::{Result, try_filled, try_vec};
use crate::gpu::GpuDevice;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::step::{CHOSEN_BEFORE, StepInputs};
use crate::graph::step_budget::StepBudget;
use crate::sampling::{NO_TOKEN, SamplerParams, SamplingRule, Scratch, choose};

/// Scale of the input row of each rule: logits that are far apart, close together, or all equal.
pub const FACTORS: [f32; 14] = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 8.0, 1.0, 0.25, 1.0, 0.0, 0.0, 1.0, 1.0];
const ROWS: usize = FACTORS.len();

/// Number of consecutive steps with the same logits: the second one replays the first one's graph, and the third one
/// sees two new recent tokens.
const STEPS: usize = 3;

/// Number of known tokens per rule: the most likely ones, except for rule `UNLIKELY`, which has the least likely ones,
/// whose logits are negative.
const KNOWN: usize = 9;
const UNLIKELY: usize = 1;

/// Sampling parameters of the rules, with names for messages.
fn parameters(vocab: usize, biases: &[(u32, f32)]) -> [(&'static str, SamplerParams); ROWS] {
    let draw = || SamplerParams { temperature: 1.0, ..Default::default() };
    let likely = SamplerParams::default;
    let penalties = || SamplerParams {
        repeat_penalty: 1.3,
        presence_penalty: 0.4,
        frequency_penalty: 0.2,
        penalty_window: 5,
        ..draw()
    };
    let vocab = vocab as u32;
    [
        ("equal biases", SamplerParams { logit_biases: biases.to_vec(), ..likely() }),
        ("penalties", SamplerParams { temperature: 0.0, ..penalties() }),
        ("a mask", likely()),
        ("banned tokens", likely()),
        ("a temperature", SamplerParams { temperature: 0.8, ..draw() }),
        ("min_p", SamplerParams { min_p: 0.05, temperature: 1.5, ..draw() }),
        ("a low temperature", SamplerParams { temperature: 0.05, ..draw() }),
        ("top_k", SamplerParams { top_k: 40, ..draw() }),
        ("top_p", SamplerParams { top_p: 0.9, temperature: 0.7, ..draw() }),
        ("top_k, top_p and min_p", SamplerParams { top_k: 200, top_p: 0.95, min_p: 0.01, ..penalties() }),
        ("top_k of equal logits", SamplerParams { top_k: vocab.saturating_sub(3), top_p: 0.999, ..draw() }),
        ("top_p of equal logits", SamplerParams { top_p: 0.99, ..draw() }),
        ("penalties and a temperature", SamplerParams { logit_biases: biases.to_vec(), ..penalties() }),
        ("a mask without tokens", draw()),
    ]
}

/// Returns the rules, after some of the known tokens. Masks allow every third token, the unlikely ones, or none.
fn rules<'a>(
    params: &'a [(&'static str, SamplerParams); ROWS],
    known: &'a [[Vec<u32>; 2]],
    [third, unlikely, empty]: [&'a [u32]; 3],
) -> [SamplingRule<'a>; ROWS] {
    let mut i = 0;
    params.each_ref().map(|(name, params)| {
        let row = i;
        i += 1;
        SamplingRule {
            params,
            random: (row as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95),
            recent: [&known[row][1], &[]],
            banned: if *name == "banned tokens" { &known[row][0] } else { &[] },
            allowed: match *name {
                "penalties" => Some(unlikely),
                "a mask" | "a low temperature" | "top_k, top_p and min_p" => Some(third),
                "a mask without tokens" => Some(empty),
                _ => None,
            },
            none: NO_TOKEN,
            ..Default::default()
        }
    })
}

/// Samples from an output matrix, for which `rows` has inputs of `FACTORS.len()` rows. Returns the sampling kernels,
/// and a message for samples that differ from the host's.
pub fn check(
    device: &dyn GpuDevice,
    executor: &mut Executor,
    program: &Program,
    sequence: &mut Sequence,
    rows: &[(TensorId, Vec<f32>)],
) -> Result<(Vec<&'static str>, Option<String>)> {
    let vocab = program.vocab;
    let (numbers, outputs) = ([0; ROWS], std::array::from_fn::<u32, ROWS, _>(|i| i as u32));
    let mut step = |executor: &mut Executor, id: u32, ahead: u32, rules: &[Option<SamplingRule>]| {
        let (ids, positions) = ([id; ROWS], outputs.map(|i| i + ahead));
        let inputs = StepInputs {
            ids: &ids,
            positions: &positions,
            sequences: &numbers,
            outputs: &outputs,
            rules,
            ..Default::default()
        };
        let batch = &mut Batch { inputs, sequences: &mut [&mut *sequence] };
        executor.begin(batch, 0..program.ops.len())?;
        rows.iter().try_for_each(|(tensor, values)| executor.write(*tensor, values))?;
        executor.advance(batch, &StepBudget::unlimited()).map(|_| ())
    };
    step(executor, 0, 0, &[])?;
    let plain = executor.kernels();
    let mut logits = try_filled("logits", ROWS * vocab, f32::NAN)?;
    for (i, row) in logits.chunks_exact_mut(vocab).enumerate() {
        executor.read_logits(i, row)?;
    }
    executor.end()?;

    let mut known = try_vec("tokens", ROWS)?;
    for (i, row) in logits.chunks_exact(vocab).enumerate() {
        let mut ids: Vec<u32> = try_vec("tokens", vocab)?;
        ids.extend(0..vocab as u32);
        ids.sort_unstable_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]));
        if i == UNLIKELY {
            ids.reverse();
        }
        ids.truncate(KNOWN);
        let recent = [3, 4, 1, 0, 2, 0, 1].map(|nth| ids[nth % ids.len()]);
        known.push([ids, recent.to_vec()]);
    }
    // Biases so large that logits are lost in rounding.
    let at = [7, 3, 5, 3].map(|nth| (vocab - 1) as u32 * nth / 8);
    let biases: Vec<(u32, f32)> = at.iter().zip([1e30, 5e29, 1e30, 5e29]).map(|(id, bias)| (*id, bias)).collect();
    let mut masks = [0x4924_9249, 0, 0].map(|word| vec![word; vocab.div_ceil(32)]);
    known[UNLIKELY][0].iter().for_each(|id| masks[1][*id as usize / 32] |= 1 << (id % 32));
    let params = parameters(vocab, &biases);
    let rules = rules(&params, &known, [&masks[0], &masks[1], &masks[2]]);

    // A device may sample by some rules only, and may not pipeline steps.
    let on_device = rules.map(|rule| device.chooses(&rule).then_some(rule));
    let steps = if executor.ahead() > 1 { STEPS } else { 1 };
    step(executor, 0, 0, &on_device)?;
    let all = executor.kernels();
    let mut got = [[0; ROWS]; STEPS];
    if steps == 1 {
        got[0].iter_mut().enumerate().try_for_each(|(i, token)| executor.token(i).map(|found| *token = found))?;
    } else {
        executor.submit()?;
        for ahead in 1..STEPS {
            step(executor, CHOSEN_BEFORE, ahead as u32, &[])?;
            executor.submit()?;
        }
        got.iter_mut().try_for_each(|tokens| executor.collect(tokens))?;
    }
    executor.end()?;

    let same = plain.iter().zip(&all).take_while(|(a, b)| a == b).count();
    let mut scratch = Scratch::default();
    for (i, (row, rule)) in logits.chunks_exact(vocab).zip(on_device).enumerate() {
        let rule = rule.unwrap_or_default();
        let (mut random, mut expected) = (rule.random, [0; STEPS]);
        for n in 0..steps {
            let recent = [rule.recent[0], &expected[..n]];
            let choice = choose(&SamplingRule { random, recent, ..rule }, row, &mut scratch)?;
            (expected[n], random) = (choice.token.unwrap_or(rule.none), choice.random);
        }
        let chosen = got.map(|tokens| tokens[i]);
        if chosen != expected {
            let name = params[i].0;
            let what = format!("by {name}, tokens {chosen:?} are chosen, {expected:?} by the CPU");
            return Ok((all[same..].to_vec(), Some(what)));
        }
    }
    Ok((all[same..].to_vec(), None))
}
