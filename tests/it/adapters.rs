//! LoRA adapters compared with a float64 reference with merged weights. Threads, instruction sets, prefill chunks and
//! sequences with other adapters must not change a bit.

mod hostile;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::engine::{
    self, Adapter, Job, JobParams, Model, Request, Runtime, RuntimeParams, Session, saved, step_jobs,
};
use realizar::error::Error;
use realizar::quant;
use realizar::tensor::DType;

use crate::support::adapter_file::gguf;
use crate::support::adapters::{Factors, all_factors, merge};
use crate::support::models;
use crate::support::reference::{Weights, relative_rms};
use crate::support::tiny::{self, PROMPT, Tiny};

/// A model and adapters of it, in a folder.
struct Case {
    dir: tempfile::TempDir,
    tiny: Tiny,
}

impl Case {
    fn new(tiny: Tiny) -> Case {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("tiny.gguf"), tiny.build().0).unwrap();
        Case { dir, tiny }
    }

    fn load(&self, threads: u32, isa: Option<Isa>) -> Arc<Model> {
        models::load_isa(&self.dir.path().join("tiny.gguf"), threads, isa)
    }

    fn adapter(&self, model: &Arc<Model>, list: &[Factors], alpha: f32, dtype: DType) -> Arc<Adapter> {
        let path = self.dir.path().join("adapter.gguf");
        fs::write(&path, gguf(self.tiny.architecture, list, alpha, dtype).build().0).unwrap();
        Adapter::load(model, &path, None).unwrap()
    }

    /// Logits of the reference after each token of the prompt.
    fn reference(&self, change: impl FnOnce(&mut Weights)) -> Vec<Vec<f64>> {
        let (_, net, mut weights) = self.tiny.build();
        change(&mut weights);
        net.forward(&weights, &PROMPT)
    }
}

fn session(model: &Arc<Model>, adapters: &[Arc<Adapter>], scales: &[f32]) -> Session {
    let mut session = models::session(model);
    session.set_adapters(adapters, scales).unwrap();
    session
}

fn exact(model: &Arc<Model>, adapters: &[Arc<Adapter>], scales: &[f32]) -> Session {
    let params = models::exact();
    let mut session = Session::new(model, &params).unwrap();
    session.set_adapters(adapters, scales).unwrap();
    session
}

#[test]
fn every_architecture_agrees_with_merged_weights() {
    for (i, (name, tiny)) in tiny::architectures(|name| Tiny::new(name, quant::F32)).into_iter().enumerate() {
        let case = Case::new(tiny);
        let (rank, alpha) = ([8, 3, 16, 20][i % 4], 12.0);
        let list = all_factors(&case.tiny, rank, 7 + i as u64);
        let model = case.load(1 + i as u32 % 2, None);
        let adapter = case.adapter(&model, &list, alpha, quant::F32);
        let expected = case.reference(|weights| merge(weights, &list, f64::from(alpha) / rank as f64 * 0.5));
        let found = models::logits_in_pieces(&mut exact(&model, std::slice::from_ref(&adapter), &[0.5]), 1);
        let difference = relative_rms(&expected, &found);
        let plain = relative_rms(&expected, &models::logits_in_pieces(&mut exact(&model, &[], &[]), 1));
        println!("{name:44} {} tensors, rank {rank}: {difference:.1e}, without {plain:.2}", list.len());
        assert!(difference < 1e-5, "{name}: {difference}");
        assert!(plain > 0.05, "{name}: the adapter changes little, {plain}");
    }
}

#[test]
fn factors_of_other_types_are_as_close_as_weights_of_them() {
    let case = Case::new(Tiny::new("llama", quant::F32));
    let model = case.load(2, None);
    for (rank, dtype, limit) in
        [(32, quant::F16, 1e-3), (8, quant::F16, 1e-3), (32, quant::BF16, 1e-2), (32, quant::Q8_0, 2e-2)]
    {
        let mut list = all_factors(&case.tiny, rank, 3);
        let adapter = match dtype {
            quant::Q8_0 => {
                let path = case.dir.path().join("adapter.gguf");
                let mut file = gguf("llama", &list, 16.0, quant::F32);
                let format = quant::format(dtype).unwrap();
                for (tensor, values) in file.tensors.iter_mut().zip(list.iter_mut().flat_map(|f| [&mut f.a, &mut f.b]))
                {
                    let mut bytes = vec![0; values.len() / 32 * format.block_bytes];
                    quant::quantize(dtype, values, &mut bytes).unwrap();
                    quant::dequantize(dtype, &bytes, values).unwrap();
                    (tensor.dtype, tensor.data) = (dtype.0, bytes);
                }
                fs::write(&path, file.build().0).unwrap();
                Adapter::load(&model, &path, None).unwrap()
            }
            _ => case.adapter(&model, &list, 16.0, dtype),
        };
        let expected = case.reference(|weights| merge(weights, &list, 16.0 / rank as f64));
        let difference = relative_rms(&expected, &models::logits_in_pieces(&mut exact(&model, &[adapter], &[1.0]), 1));
        println!("type {}, rank {rank}: {difference:.1e}", dtype.0);
        assert!(difference < limit, "type {}: {difference}", dtype.0);
    }
}

#[test]
fn several_adapters_add_up_and_scales_count() {
    let case = Case::new(Tiny::new("qwen2", quant::F32).change(|t| t.biases = &["attn_q", "attn_k", "attn_v"]));
    let model = case.load(2, None);
    let lists = [all_factors(&case.tiny, 4, 1), all_factors(&case.tiny, 9, 2)];
    let [first, second] = [&lists[0], &lists[1]].map(|list| case.adapter(&model, list, 6.0, quant::F32));
    let none = models::logits_in_pieces(&mut exact(&model, &[], &[]), 1);
    let check = |scales: [f32; 2]| {
        let expected = case.reference(|weights| {
            merge(weights, &lists[0], 6.0 / 4.0 * f64::from(scales[0]));
            merge(weights, &lists[1], 6.0 / 9.0 * f64::from(scales[1]));
        });
        let found = models::logits_in_pieces(&mut exact(&model, &[first.clone(), second.clone()], &scales), 1);
        assert!(relative_rms(&expected, &found) < 1e-5, "{scales:?}");
        found
    };
    check([0.7, 0.4]);
    check([-0.5, 0.25]);
    let alone = models::logits_in_pieces(&mut exact(&model, std::slice::from_ref(&second), &[0.4]), 1);
    assert!(check([0.0, 0.4]) == alone, "a scale of 0 leaves an adapter out");
    assert!(check([0.0, -0.0]) == none, "scales of 0 leave all out");
    // The same one twice.
    let twice = models::logits_in_pieces(&mut exact(&model, &[second.clone(), second.clone()], &[0.3, 0.1]), 1);
    let expected = case.reference(|weights| merge(weights, &lists[1], 6.0 / 9.0 * 0.4));
    assert!(relative_rms(&expected, &twice) < 1e-5);
    let mut session = exact(&model, &[], &[]);
    for scales in [&[f32::NAN][..], &[f32::INFINITY], &[]] {
        let refused = session.set_adapters(std::slice::from_ref(&first), scales);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))));
    }
    let other = case.load(1, None);
    let mut session = exact(&other, &[], &[]);
    session.prefill(&PROMPT[..3], None).unwrap();
    assert!(matches!(session.set_adapters(&[second], &[1.0]), Err(Error::Mismatch(_))));
    assert_eq!(session.len(), 3, "a call that fails changes nothing");
}

/// Networks whose steps differ: attention, fused projections, experts, recurrences, windows.
fn differing(dtype: DType) -> impl Iterator<Item = (&'static str, Tiny)> {
    let names = ["llama", "llama with experts", "phi3", "gemma3", "gpt2", "qwen35", "mamba2", "deepseek2"];
    tiny::architectures(move |name| Tiny::new(name, dtype)).into_iter().filter(move |(name, _)| names.contains(name))
}

#[test]
fn neither_threads_nor_pieces_nor_instruction_sets_change_a_bit() {
    for (dtype, factors) in [(quant::Q4_0, quant::F32), (quant::F16, quant::F16)] {
        for (name, tiny) in differing(dtype) {
            let case = Case::new(tiny);
            let list = all_factors(&case.tiny, 16, 5);
            let of = |threads, isa, piece| {
                let model = case.load(threads, isa);
                let adapter = case.adapter(&model, &list, 8.0, factors);
                models::logits_in_pieces(&mut session(&model, &[adapter], &[1.0]), piece)
            };
            let expected = of(1, None, 1);
            for isa in Isa::available() {
                assert!(of(2, Some(isa), 1) == expected, "{name}: {}", isa.name());
            }
            for (threads, piece) in [(3, 1), (1, 7), (2, 64)] {
                for (i, found) in of(threads, None, piece).iter().enumerate() {
                    let at = (i * piece + piece).min(PROMPT.len()) - 1;
                    assert!(*found == expected[at], "{name}: {threads} threads, pieces of {piece}, position {at}");
                }
            }
        }
    }
}

#[test]
fn neighbors_with_other_adapters_change_no_bit() {
    for (name, tiny) in differing(quant::Q8_0) {
        let case = Case::new(tiny);
        let model = case.load(2, None);
        let [a, b] = [(4, 1), (16, 2)]
            .map(|(rank, seed)| case.adapter(&model, &all_factors(&case.tiny, rank, seed), 6.0, quant::F32));
        // Sets by number: none, one, the other, both, the first with another scale.
        let set = |i: usize| match i % 5 {
            0 => (vec![], vec![]),
            1 => (vec![a.clone()], vec![1.0f32]),
            2 => (vec![b.clone()], vec![1.0]),
            3 => (vec![a.clone(), b.clone()], vec![0.5, 1.0]),
            _ => (vec![a.clone()], vec![-1.5]),
        };
        let make = |i: usize| session(&model, &set(i).0, &set(i).1);
        let alone: Vec<Vec<Vec<f32>>> = (0..5).map(|i| models::logits_in_pieces(&mut make(i), 1)).collect();
        for i in 0..5 {
            assert!((0..i).all(|j| alone[i] != alone[j]), "{name}: sets {i} and another do the same");
        }
        // Nine of them, those with the same set apart from one another, each at its own place.
        let mut sessions: Vec<Session> = (0..9).map(make).collect();
        for (i, session) in sessions.iter_mut().enumerate() {
            session.prefill(&PROMPT[..=i], None).unwrap();
        }
        for step in 0..3 {
            let tokens: Vec<u32> = (0..9).map(|i| PROMPT[i + 1 + step]).collect();
            let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
            engine::decode_batch(&mut together, &tokens, &mut [const { None }; 9], &mut [0; 9]).unwrap();
            for (i, session) in sessions.iter().enumerate() {
                assert!(session.logits().unwrap() == alone[i % 5][i + 1 + step], "{name}: set {} at {i}", i % 5);
            }
        }
        // Swapped, while the others go on.
        for i in [1, 4, 7] {
            sessions[i].set_adapters(&set(i + 1).0, &set(i + 1).1).unwrap();
            assert!(sessions[i].is_empty() && sessions[i].logits().is_none());
            sessions[i].prefill(&PROMPT[..4], None).unwrap();
        }
        let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
        let tokens: Vec<u32> = (0..9).map(|i| if [1, 4, 7].contains(&i) { PROMPT[4] } else { PROMPT[i + 4] }).collect();
        engine::decode_batch(&mut together, &tokens, &mut [const { None }; 9], &mut [0; 9]).unwrap();
        for (i, session) in sessions.iter().enumerate() {
            let (set, at) = if [1, 4, 7].contains(&i) { (i + 1, 4) } else { (i, i + 4) };
            assert!(session.logits().unwrap() == alone[set % 5][at], "{name}: slot {i} after a swap");
        }
    }
}

#[test]
fn an_adapter_of_any_projections_leaves_each_row_of_a_batch_as_it_is_alone() {
    let kinds = ["attn_q.", "attn_k.", "attn_v.", "attn_output.", "ffn_gate.", "ffn_up.", "ffn_down.", "output.weight"];
    let case = Case::new(Tiny::new("llama", quant::Q8_0));
    let model = case.load(2, None);
    let all = all_factors(&case.tiny, 4, 11);
    let is_of = |factors: &Factors, kind: &str| match kind {
        "output.weight" => factors.name == kind,
        _ => factors.name.contains(&format!(".{kind}")),
    };
    assert!(kinds.iter().all(|kind| all.iter().any(|factors| is_of(factors, kind))), "a name of a tensor has changed");
    let plain = session(&model, &[], &[]);
    for subset in 1..1usize << kinds.len() {
        let has =
            |factors: &&Factors| (0..).zip(kinds).any(|(bit, kind)| subset >> bit & 1 == 1 && is_of(factors, kind));
        let list: Vec<Factors> = all.iter().filter(has).cloned().collect();
        let adapter = case.adapter(&model, &list, 6.0, quant::F32);
        let adapted = session(&model, &[adapter], &[1.0]);
        let alone = [&plain, &adapted].map(|session| {
            let mut session = session.fork().unwrap();
            session.prefill(&PROMPT[..3], None).unwrap();
            let mut after = session.fork().unwrap();
            after.decode(PROMPT[3], None).unwrap();
            (session, after.logits().unwrap().to_vec())
        });
        assert!(alone[0].1 != alone[1].1, "{subset:#b}: the adapter changes nothing");
        // Rows with and without the adapter, in every order.
        for order in 1..7usize {
            let is_adapted: [bool; 3] = std::array::from_fn(|row| order >> row & 1 == 1);
            let mut sessions = is_adapted.map(|adapted| alone[usize::from(adapted)].0.fork().unwrap());
            let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
            engine::decode_batch(&mut together, &[PROMPT[3]; 3], &mut [const { None }; 3], &mut [0; 3]).unwrap();
            for (row, adapted) in is_adapted.into_iter().enumerate() {
                let same = sessions[row].logits().unwrap() == alone[usize::from(adapted)].1;
                assert!(same, "projections {subset:#b}: row {row} of {is_adapted:?}");
            }
        }
    }
}

#[test]
fn jobs_with_adapters_make_the_tokens_of_calls() {
    for (name, tiny) in differing(quant::Q8_0) {
        let case = Case::new(tiny.change(|t| t.eos = 299));
        let model = case.load(2, None);
        let list = all_factors(&case.tiny, 8, 1);
        let adapter = case.adapter(&model, &list, 6.0, quant::F32);
        let make = |i: usize| match i % 2 {
            0 => session(&model, &[], &[]),
            _ => session(&model, std::slice::from_ref(&adapter), &[i as f32 / 3.0]),
        };
        let prompt = |i: usize| &PROMPT[..PROMPT.len() - i];
        let wanted = |i: usize| {
            let mut session = make(i);
            session.prefill(prompt(i), None).unwrap();
            let mut tokens = vec![session.sample(None).unwrap()];
            while tokens.len() < 8 && *tokens.last().unwrap() != 299 {
                tokens.push(session.decode(*tokens.last().unwrap(), None).unwrap());
            }
            tokens
        };
        let job = |i: usize| {
            let (session, params) = (make(i), JobParams { max_tokens: 8, ..Default::default() });
            let request = Request::new(&session, prompt(i), params).unwrap();
            Job::new(session, request)
        };
        for budget in [None, Some(0), Some(50), Some(2000)] {
            let mut jobs: Vec<Job> = (0..5).map(job).collect();
            let budget = budget.map(std::time::Duration::from_micros);
            while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), budget).unwrap() {}
            for (i, job) in jobs.iter_mut().enumerate() {
                let made = job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap();
                assert_eq!(made, wanted(i), "{name}: job {i}, {budget:?}");
            }
        }
    }
}

#[test]
fn adapters_belong_to_a_session() {
    let case = Case::new(Tiny::new("llama", quant::Q8_0));
    let model = case.load(1, None);
    let adapter = case.adapter(&model, &all_factors(&case.tiny, 8, 1), 6.0, quant::F32);
    let expected = models::logits_in_pieces(&mut session(&model, std::slice::from_ref(&adapter), &[1.0]), 1);
    let plain = models::logits_in_pieces(&mut session(&model, &[], &[]), 1);
    let mut one = session(&model, &[], &[]);
    one.prefill(&PROMPT[..5], None).unwrap();
    one.set_adapters(std::slice::from_ref(&adapter), &[1.0]).unwrap();
    // Freed at any time: the session keeps it.
    drop(adapter);
    assert!(one.is_empty() && one.logits().is_none() && one.matching(&PROMPT) == 0);
    one.prefill(&PROMPT[..10], None).unwrap();
    let mut fork = one.fork().unwrap();
    one.release().unwrap();
    for session in [&mut one, &mut fork] {
        session.prefill(&PROMPT[10..15], None).unwrap();
        assert!(session.logits().unwrap() == expected[14], "a fork and a session that was released");
        session.truncate(12).unwrap();
        session.prefill(&PROMPT[12..], None).unwrap();
        assert!(session.logits().unwrap() == expected[20]);
    }
    let error = saved::save(&fork, &mut |_| Ok(())).unwrap_err();
    assert!(matches!(&error, Error::Unsupported(what) if what.contains("adapters")), "{error}");
    fork.set_adapters(&[], &[]).unwrap();
    assert!(models::logits_in_pieces(&mut fork, 1) == plain);
    saved::save(&fork, &mut |_| Ok(())).unwrap();
    one.truncate(0).unwrap();
    assert!(models::logits_in_pieces(&mut one, 1) == expected, "the other session has kept its own");
}

#[test]
fn factors_count_against_the_ceiling() {
    let case = Case::new(Tiny::new("llama", quant::Q8_0));
    let path = case.dir.path().join("adapter.gguf");
    let list = all_factors(&case.tiny, 128, 1);
    fs::write(&path, gguf("llama", &list, 8.0, quant::F16).build().0).unwrap();
    let bytes: usize = list.iter().map(|f| 2 * (f.a.len() + f.b.len())).sum();
    let load = |memory_limit| {
        let runtime = Runtime::new(RuntimeParams { memory_limit, threads: 1, ..Default::default() }).unwrap();
        let params = models::on(runtime, models::cpu());
        Model::load(&case.dir.path().join("tiny.gguf"), params)
    };
    let weights = load(0).unwrap().info().weight_bytes;
    assert!(bytes > 2 << 20);
    let model = load(weights + bytes as u64 + (2 << 20)).unwrap();
    let first = Adapter::load(&model, &path, None).unwrap();
    assert!(matches!(Adapter::load(&model, &path, None), Err(Error::Limit { what: "the adapter", .. })));
    drop(first);
    Adapter::load(&model, &path, None).unwrap();
}

fn refusal(model: &Arc<Model>, path: &Path) -> Error {
    Adapter::load(model, path, None).err().expect("a refusal")
}
