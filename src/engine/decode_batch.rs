//! One token of each of several sessions in one step.

use std::sync::Arc;
use std::time::Instant;

use super::chooser::{Chooser, DeviceRules};
use super::metrics::Phase;
use super::network::Network;
use super::session::{Logits, Session};
use super::step::Step;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::step::StepLimits;

/// One token for each of several sessions of one model, in one pass over the weights.
pub fn decode_batch(
    sessions: &mut [&mut Session],
    tokens: &[u32],
    choosers: &mut [Option<&mut Chooser>],
    next: &mut [u32],
) -> Result<()> {
    let n = sessions.len();
    if tokens.len() != n || choosers.len() != n || next.len() != n {
        return Err(Error::invalid("a batch needs as many tokens, samplers and results as caches"));
    }
    let Some(first) = sessions.first() else { return Ok(()) };
    let model = first.model().clone();
    let first_is_long = first.is_long();
    for (i, (session, token)) in sessions.iter().zip(tokens).enumerate() {
        if !Arc::ptr_eq(session.model(), &model) {
            return Err(Error::Mismatch("the caches of a batch belong to different models".to_owned()));
        }
        if session.is_long() != first_is_long {
            let what =
                "the caches of a batch are on different sides of the context length that the model was trained for";
            return Err(Error::Mismatch(what.to_owned()));
        }
        session.check(std::slice::from_ref(token)).map_err(|e| e.of_entry(i))?;
    }
    let network = first.network().clone();
    let vocab = network.program.vocab;
    for (i, chooser) in choosers.iter().enumerate() {
        chooser.as_ref().map_or(Ok(()), |chooser| chooser.check_vocab(vocab)).map_err(|e| e.of_entry(i))?;
    }
    let started = Instant::now();
    let StepLimits { max_tokens, max_outputs } = network.limits;
    let width = max_outputs.min(max_tokens);
    let mut there = try_filled("tokens", n, None)?;
    let mut done = 0;
    let mut result = Ok(());
    for (i, (group, tokens)) in sessions.chunks_mut(width).zip(tokens.chunks(width)).enumerate() {
        let group_of = i * width..i * width + group.len();
        result = step_batch(&network, group, tokens, &mut choosers[group_of.clone()], &mut there[group_of]);
        if result.is_err() {
            break;
        }
        done += group.len();
    }
    if result.is_ok() {
        for (i, (((session, chooser), there), next)) in
            sessions.iter_mut().zip(choosers).zip(there).zip(next).enumerate()
        {
            let chooser = chooser.as_deref_mut();
            match session.choose(there, chooser) {
                Ok(token) => *next = token,
                Err(e) => result = result.and(Err(e.of_entry(i))),
            }
        }
    }
    if result.is_err() {
        for session in &mut sessions[..done] {
            session.rewind(session.len() - 1);
        }
    }
    model.metrics().record_phase(Phase::Decode, started.elapsed());
    result
}

/// `there`: the tokens that the device has chosen.
fn step_batch(
    network: &Network,
    sessions: &mut [&mut Session],
    tokens: &[u32],
    choosers: &mut [Option<&mut Chooser>],
    there: &mut [Option<u32>],
) -> Result<()> {
    let n = sessions.len();
    let (mut sequences, mut logits) = (try_vec("caches", n)?, try_vec("logits", n)?);
    let (mut cancels, mut rules) = (try_vec("cancels", n)?, try_vec("rules", n)?);
    for ((session, chooser), token) in sessions.iter_mut().zip(&mut *choosers).zip(tokens) {
        session.restore(None)?;
        if let Some(chooser) = chooser {
            session.prepare_mask(chooser, std::slice::from_ref(token))?;
        }
    }
    for (((session, chooser), token), there) in sessions.iter_mut().zip(&*choosers).zip(tokens).zip(&mut *there) {
        let (sequence, held, own, cancel) = session.parts_of_step();
        let device_rules = DeviceRules::new(network, chooser.as_deref());
        *there = device_rules.map(|_| 0);
        rules.push(device_rules.and_then(|rules| rules.rule([held, std::slice::from_ref(token)], 0)));
        sequences.push(sequence);
        logits.push(own);
        cancels.push(cancel);
    }
    let mut step = Step::new(n)?;
    tokens.iter().for_each(|token| step.add(std::slice::from_ref(token), 1));
    network.forward(&mut step, &mut sequences, &rules, &cancels, |executor| {
        logits.iter_mut().zip(&mut *there).enumerate().try_for_each(|(i, (own, there))| {
            match there {
                Some(token) => *token = executor.token(i)?,
                None => {
                    executor.read_logits(i, own)?;
                    network.suppress(own);
                }
            }
            Ok(())
        })
    })?;
    for ((session, token), there) in sessions.iter_mut().zip(tokens).zip(there) {
        let logits_at = if there.is_some() { Logits::OnDevice } else { Logits::OnHost };
        session.commit(std::slice::from_ref(token), logits_at);
    }
    Ok(())
}
