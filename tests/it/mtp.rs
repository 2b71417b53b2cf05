//! Multi-token prediction: the layer's logits compared with the float64 reference, and drafts, which have the
//! acceptance rate of the reference and do not change the output.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use realizar::engine::{
    CacheParams, Chooser, DraftParams, DraftSource, Job, JobParams, LoadOptions, Model, Plan, Request, SamplerParams,
    step_jobs,
};
use realizar::error::Error;
use realizar::quant;

use crate::support::drafts::{job, passes, read};
use crate::support::models;
use crate::support::predictor::predict;
use crate::support::reference::relative_rms;
use crate::support::save::save;
use crate::support::tiny::{self, PROMPT, Rng, Tiny};

/// The architectures whose layers are supported, made from what `new` gives for their names.
fn networks(new: impl Fn(&'static str) -> Tiny) -> Vec<(&'static str, Tiny)> {
    let mut all = tiny::architectures(new);
    all.retain(|(name, _)| ["glm4moe", "deepseek2", "qwen35"].contains(name));
    let glm = all.iter().find(|(name, _)| *name == "glm4moe").unwrap().1.clone();
    for name in ["hy_v3", "bailingmoe2"] {
        let change = |t: &mut Tiny| {
            (t.architecture, t.net.ffn_norm, t.biases) = (name, "ffn_norm", &[]);
            // A sigmoid.
            t.ints.push(("expert_gating_func", 2));
        };
        all.push((name, glm.clone().change(change)));
    }
    all.into_iter().map(|(name, tiny)| (name, tiny.predicting())).collect()
}

fn load(path: &Path, threads: u32, mtp: bool) -> Result<Arc<Model>, Error> {
    load_with(path, threads, LoadOptions { mtp, ..Default::default() })
}

fn load_with(path: &Path, threads: u32, options: LoadOptions) -> Result<Arc<Model>, Error> {
    let runtime = models::runtime(threads);
    Model::load(path, models::on(runtime, options))
}

#[test]
fn the_layer_agrees_with_the_reference() {
    let mut seen = 0;
    // Roundings of the network and of the layer, twice.
    for (dtype, limit) in [(quant::F32, 1e-5), (quant::Q8_0, 8e-2)] {
        let mut all = networks(|name| Tiny::new(name, dtype));
        // The layer has an output matrix of its own, and both have a factor.
        let own = |t: &mut Tiny| (t.tied, t.scales) = (false, &["output", "nextn.shared_head_head"]);
        let (name, tiny) = all[0].clone();
        all.push((name, tiny.change(own)));
        for (name, tiny) in all {
            let (_dir, path, network) = save(&tiny);
            let (_, net, weights) = tiny.build();
            let [first, second] =
                [(&PROMPT[..], 0), (&[&PROMPT[..], &[9]].concat(), 1)].map(|(ids, n)| net.predict(&weights, ids, n));
            for (expected, found) in [network(), first, second].iter().zip(predict(&path, &PROMPT, 9)) {
                let difference = relative_rms(expected, &found);
                println!("{name:12} {} {difference:.2e}", dtype.0);
                assert!(expected.len() == found.len() && difference < limit, "{name}, {}: {difference}", dtype.0);
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 12);
}

/// Networks small enough for many passes of the reference, and a prompt for them.
fn small() -> (Vec<(&'static str, Tiny)>, Vec<u32>) {
    let new = |name| Tiny::new(name, quant::F32).shape(64, 4, 2, 16, 96).change(|t| t.net.vocab = 24);
    let prompt = PROMPT.iter().cycle().take(40).enumerate().map(|(i, id)| (id + i as u32 / 21) % 24).collect();
    (networks(new), prompt)
}

fn mtp(most: usize) -> DraftParams {
    DraftParams { source: Some(DraftSource::Mtp), most, always: true }
}

#[test]
fn drafts_are_those_of_the_reference() {
    let (networks, prompt) = small();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let (mut drafted, mut accepted) = (0, 0);
    for (i, (name, tiny)) in networks.into_iter().enumerate() {
        let (bytes, net, weights) = tiny.build();
        std::fs::write(&path, bytes).unwrap();
        let model = load(&path, 1 + i as u32 % 2, true).unwrap();
        for most in [1, 3] {
            let max_tokens = 40;
            let params = || JobParams { max_tokens, ..Default::default() };
            let (made, none) = passes(job(&model, &prompt, params()));
            assert!(none.iter().all(|pass| *pass == [0, 0]));
            let found = passes(job(&model, &prompt, JobParams { draft: mtp(most), ..params() }));
            assert_eq!(found.0, made, "{name}");

            let (mut expected, mut n): (Vec<[usize; 2]>, usize) = (vec![], 1);
            while n < made.len() {
                let behind = matches!(expected.last(), Some([drafted, accepted]) if accepted < drafted);
                let room = match behind && !net.mixers.is_empty() {
                    // A recurrence computes what was right again.
                    true => 0,
                    false => most.min(max_tokens - n - 1),
                };
                let mut ids = [&prompt[..], &made[..n]].concat();
                for drafted in 0..room {
                    let logits = net.predict(&weights, &ids, drafted).pop().unwrap();
                    let best = (0..net.vocab).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap() as u32;
                    if best == tiny.eos {
                        break;
                    }
                    ids.push(best);
                }
                let draft = &ids[prompt.len() + n..];
                let right = draft.iter().zip(&made[n..]).take_while(|(a, b)| a == b).count();
                expected.push([draft.len(), right]);
                n += right + 1;
            }
            assert_eq!(found.1, expected, "{name}, {most}");
            drafted += expected.iter().map(|pass| pass[0]).sum::<usize>();
            accepted += expected.iter().map(|pass| pass[1]).sum::<usize>();
        }
    }
    println!("{accepted} of {drafted}");
    assert!(accepted > 10 && drafted > 5 * accepted);
}

/// The file of a network that chooses all tokens but the end in turn, each after the one before it. Its layer tells
/// the choice by the token that it reads, or by the hidden state of the one before alone.
fn takes_turns(tiny: &Tiny, by_state: bool) -> Vec<u8> {
    let (mut file, net, _) = tiny.clone().change(|t| t.tied = false).file();
    let (d, eos) = (net.hidden, tiny.eos as usize);
    let is_next = |after: usize, token: usize| token != eos && after == next(token as u32, eos as u32) as usize;
    for tensor in &mut file.tensors {
        let n = tensor.data.len() / 4;
        let mut fill = |f: &dyn Fn(usize) -> bool| {
            tensor.data = (0..n).flat_map(|i| f32::from(u8::from(f(i))).to_le_bytes()).collect();
        };
        // Blocks add nothing to the residual stream; each token has its own dimension.
        match &tensor.name[..] {
            name if ["attn_output", "ffn_down", "ssm_out"].iter().any(|part| name.contains(part)) => fill(&|_| false),
            "token_embd.weight" => fill(&|i| i / d == i % d),
            "output.weight" => fill(&|i| is_next(i / d, i % d)),
            name if name.ends_with("eh_proj.weight") => fill(&|i| match (i / (2 * d), i % (2 * d)) {
                (out, from) if by_state => from >= d && is_next(out, from - d),
                (out, from) => out == from,
            }),
            name if ["nextn.", "output_norm"].iter().any(|part| name.contains(part)) => fill(&|_| true),
            _ => {}
        }
    }
    file.build().0
}

fn next(token: u32, eos: u32) -> u32 {
    let next = (token + 1) % 24;
    if next == eos { (next + 1) % 24 } else { next }
}

#[test]
fn a_network_that_looks_at_one_token_predicts_itself() {
    let (networks, prompt) = small();
    for (name, tiny) in networks {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tiny.gguf");
        std::fs::write(&path, takes_turns(&tiny, false)).unwrap();
        let model = load(&path, 2, true).unwrap();
        let params = JobParams { max_tokens: 41, draft: mtp(4), ..Default::default() };
        let (made, found) = passes(job(&model, &prompt, params));
        assert_eq!(found, [[4, 4]; 8], "{name}: {made:?}");
    }
}

/// Jobs whose rows stand after those of others in a pass, and which have some tokens computed again, draft by the
/// hidden states of their own tokens.
#[test]
fn rows_in_the_middle_of_a_pass_are_those_of_their_tokens() {
    let (networks, prompt) = small();
    let (mut all, mut partly) = (0, 0);
    for (name, tiny) in networks {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tiny.gguf");
        std::fs::write(&path, takes_turns(&tiny, true)).unwrap();
        let model = load(&path, 2, true).unwrap();
        // Tokens that are drafted, and are not chosen.
        let logit_biases: Vec<_> = [tiny.eos, 11, 19].map(|id| (id, f32::NEG_INFINITY)).into();
        let params = |max_tokens, draft| {
            let choice = SamplerParams { logit_biases: logit_biases.clone(), ..Default::default() };
            JobParams { max_tokens, draft, chooser: Some(Chooser::new(choice).unwrap()), ..Default::default() }
        };
        let (most, max_tokens) = (4, 60);
        let new = |n: usize, draft| job(&model, &prompt[..n], params(max_tokens, draft));
        let lengths = [40, 33, 21];
        let mut jobs: Vec<Job> = lengths.map(|n| new(n, mtp(most))).into();
        let mut found = vec![vec![]; jobs.len()];
        for call in 0.. {
            // The last one comes while the others generate.
            let n = if call < 4 { 2 } else { 3 };
            let count = |job: &Job| [job.info().tokens, job.info().drafted, job.info().accepted];
            let before: Vec<_> = jobs.iter().map(count).collect();
            let mut some: Vec<&mut Job> = jobs.iter_mut().take(n).filter(|job| job.info().end.is_none()).collect();
            if some.is_empty() {
                break;
            }
            step_jobs(&mut some, None).unwrap();
            for ((found, before), job) in found.iter_mut().zip(before).zip(&jobs) {
                let after = count(job);
                if before[0] > 0 && after[0] > before[0] {
                    found.push([after[1] - before[1], after[2] - before[2]]);
                }
            }
        }
        for ((n, mut job), found) in lengths.into_iter().zip(jobs).zip(found) {
            let made = passes(new(n, DraftParams::default())).0;
            assert_eq!(read(&mut job), made, "{name}");
            let ids = [&prompt[..n], &made[..]].concat();
            let (mut expected, mut at): (Vec<[usize; 2]>, usize) = (vec![], n + 1);
            while at < ids.len() {
                let behind = matches!(expected.last(), Some([drafted, accepted]) if accepted < drafted);
                let is_again = behind && name == "qwen35";
                let room = if is_again { 0 } else { most.min(ids.len() - at - 1) };
                assert_ne!(ids[at - 2], tiny.eos);
                let turns = std::iter::successors(Some(next(ids[at - 2], tiny.eos)), |id| Some(next(*id, tiny.eos)));
                let right = turns.skip(1).take(room).zip(&ids[at..]).take_while(|(a, b)| a == *b).count();
                expected.push([room, right]);
                at += right + 1;
            }
            assert_eq!(found, expected, "{name}, {n}");
            all += expected.iter().filter(|pass| pass[0] > 0 && pass[0] == pass[1]).count();
            partly += expected.iter().filter(|pass| pass[0] > pass[1]).count();
        }
    }
    println!("{all} drafts right, {partly} in part");
    assert!(all > 20 && partly > 20, "{all}, {partly}");
}

#[test]
fn drafts_change_nothing_wherever_they_are_paused() {
    let mut rng = Rng(1);
    let mut accepted = 0;
    let (networks, _) = small();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    for (name, tiny) in networks {
        std::fs::write(&path, tiny.build().0).unwrap();
        let plain = load(&path, 2, false).unwrap();
        let mut models = vec![load(&path, 2, true).unwrap()];
        let plan = |mtp| {
            let params = LoadOptions { mtp, ..Default::default() };
            Plan::of_path(&path, params, &CacheParams::default(), 1).unwrap()
        };
        let weights = [false, true].map(|mtp| plan(mtp).weights.host);
        assert_eq!(weights, [&plain, &models[0]].map(|model| model.info().weight_bytes));
        assert!(weights[0] < weights[1] && plan(false).scratch < plan(true).scratch);
        let packed = dir.path().join("packed");
        for (mmap, packed_path) in [(true, None), (false, Some(&*packed))] {
            models
                .push(load_with(&path, 2, LoadOptions { mtp: true, mmap, packed_path, ..Default::default() }).unwrap());
        }
        let prompt: Vec<u32> = (0..310).map(|_| rng.next() as u32 % 24).collect();
        for round in 0..8 {
            let temperature = if round % 2 == 0 { 0.0 } else { 0.6 };
            let logit_biases = vec![(tiny.eos, f32::NEG_INFINITY)];
            let choice = SamplerParams { seed: round, temperature, logit_biases, ..Default::default() };
            let run = |model, draft: DraftParams, budget: &mut dyn FnMut() -> u64| {
                let sampler = Some(Chooser::new(choice.clone()).unwrap());
                let params = JobParams { max_tokens: 60, chooser: sampler, draft: draft.clone(), ..Default::default() };
                let mut job = job(model, &prompt[..310 - 40 * round as usize], params);
                while !step_jobs(&mut [&mut job], Some(Duration::from_micros(budget()))).unwrap() {}
                let (mut made, mut accepted) = (read(&mut job), job.info().accepted);
                // Another job continues after a part of the first job's tokens.
                let mut session = job.into_session();
                session.truncate(session.len() as u32 - 20).unwrap();
                let sampler = Some(Chooser::new(choice.clone()).unwrap());
                let params = JobParams { max_tokens: 20, chooser: sampler, draft, ..Default::default() };
                let request = Request::new(&session, &[5, 7], params).unwrap();
                let mut job = Job::new(session, request);
                while !step_jobs(&mut [&mut job], Some(Duration::from_micros(budget()))).unwrap() {}
                made.extend(read(&mut job));
                accepted += job.info().accepted;
                let session = job.into_session();
                let logits: Vec<u32> = session.logits().expect("logits").iter().map(|x| x.to_bits()).collect();
                ((made, session.tokens().to_vec(), logits), accepted)
            };
            let wanted = run(&plain, DraftParams::default(), &mut || 1_000_000);
            let draft = DraftParams { always: round % 4 != 3, ..mtp(1 + round as usize) };
            let found =
                run(&models[round as usize % 3], draft, &mut || [0, 1, 1, 20, 100, 300, 2000][rng.next() as usize % 7]);
            assert!(found.0 == wanted.0, "{name}, {round}");
            accepted += found.1;
        }
    }
    assert!(accepted > 20, "{accepted}");
}

#[test]
fn what_is_missing_is_refused_by_name() {
    let refused = |result: Result<(), Error>, what: &str| match result {
        Err(Error::Unsupported(why)) => assert!(why.contains(what), "{why}"),
        other => panic!("{other:?}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    let (networks, prompt) = small();
    let (_, tiny) = &networks[0];
    std::fs::write(&path, tiny.build().0).unwrap();
    let model = load(&path, 1, false).unwrap();
    let session = models::session(&model);
    let params = JobParams { draft: mtp(1), ..Default::default() };
    refused(Request::new(&session, &prompt, params).map(drop), "RZ_MODEL_MTP");
    // No such layer, and those of an architecture that has none.
    for name in ["glm4moe", "llama"] {
        let all = tiny::architectures(|name| Tiny::new(name, quant::F32));
        let (_, tiny) = all.into_iter().find(|(found, _)| *found == name).unwrap();
        std::fs::write(&path, tiny.build().0).unwrap();
        refused(load(&path, 1, true).map(drop), "no layers");
    }
    let tiny = Tiny::new("llama", quant::F32).predicting();
    std::fs::write(&path, tiny.build().0).unwrap();
    for predicts in [false, true] {
        refused(load(&path, 1, predicts).map(drop), "llama.nextn_predict_layers");
    }
    // A tensor of the layer without a place.
    let (mut file, _, _) = networks[0].1.file();
    file = file.tensor("blk.3.nextn.extra.weight", quant::F32.0, &[1], &[0; 4]);
    std::fs::write(&path, file.build().0).unwrap();
    assert!(load(&path, 1, false).is_ok());
    refused(load(&path, 1, true).map(drop), "nextn.extra");
}
