//! NaN weights: every result that depends on them is an error that names the token, for all caches, instruction sets
//! and architectures; other results do not change. IEEE 754 defines the expected results.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::engine::{self, CacheParams, EmbedParams, Job, JobParams, Model, Pooling, Request, Session, step_jobs};
use realizar::error::{Error, Result};
use realizar::quant;
use realizar::tensor::DType;

use crate::support::encoders;
use crate::support::models;
use crate::support::tiny::{self, PROMPT, Tiny};

/// A token that is not in the prompt.
const NAN_TOKEN: u32 = 123;

const CACHES: [DType; 4] = [quant::F16, quant::F32, quant::Q8_0, quant::Q4_0];

/// Saves a file with one NaN weight: number `at` of a tensor of F32, F16 or BF16.
fn save(tiny: &Tiny, tensor: &str, at: usize) -> (tempfile::TempDir, PathBuf) {
    let (mut file, ..) = tiny.file();
    let found = file.tensors.iter_mut().find(|t| t.name == tensor).unwrap_or_else(|| panic!("no {tensor}"));
    match DType(found.dtype) {
        quant::F32 => found.data[4 * at..][..4].copy_from_slice(&f32::NAN.to_le_bytes()),
        quant::F16 => found.data[2 * at..][..2].copy_from_slice(&[0x00, 0x7e]),
        quant::BF16 => found.data[2 * at..][..2].copy_from_slice(&[0xc0, 0x7f]),
        other => panic!("no NaN of type {}", other.0),
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tiny.gguf");
    fs::write(&path, file.build().0).unwrap();
    (dir, path)
}

fn session(model: &Arc<Model>, cache: DType) -> Session {
    Session::new(model, &CacheParams { k_type: cache, v_type: cache, ..Default::default() }).unwrap()
}

/// Asserts that a result is the error about a token.
fn assert_nan<T: std::fmt::Debug>(result: Result<T>, position: usize, what: &str) {
    let named = format!("position {position} is NaN or infinite");
    match result {
        Err(Error::Format { what: message, .. }) => assert!(message.contains(&named), "{what}: {message}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// A llama with its own head, whose embedding of `NAN_TOKEN` is NaN.
fn with_nan_token() -> (tempfile::TempDir, Arc<Model>) {
    let tiny = Tiny::new("llama", quant::F32).change(|t| t.tied = false);
    let (dir, path) = save(&tiny, "token_embd.weight", NAN_TOKEN as usize * tiny.net.hidden + 3);
    let model = models::load_isa(&path, 2, None);
    (dir, model)
}

#[test]
fn a_weight_that_is_nan_reaches_the_logits() {
    let tensors = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let names = tensors.map(|tensor| format!("blk.0.{tensor}.weight")).into_iter().chain(["output.weight".into()]);
    for (i, name) in names.enumerate() {
        let dtype = [quant::F32, quant::BF16, quant::F16][i % 3];
        let tiny = Tiny::new("llama", dtype).change(|t| t.tied = false);
        let (_dir, path) = save(&tiny, &name, 5);
        for isa in Isa::available() {
            let model = models::load_isa(&path, 2, Some(isa));
            for cache in CACHES {
                let what = format!("{name}, {}, cache type {}", isa.name(), cache.0);
                let mut s = session(&model, cache);
                assert_nan(s.prefill(&PROMPT[..6], None), 5, &what);
                assert!(s.is_empty() && s.logits().is_none(), "{what}");
                assert_nan(s.decode(PROMPT[0], None), 0, &what);
            }
        }
    }
}

#[test]
fn a_token_that_is_nan_reaches_those_after_it_in_every_architecture() {
    let mut untied = 0;
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::F32)) {
        // With a separate head if the architecture supports one; otherwise the head has the NaN too.
        let heads = [false, true].into_iter().find_map(|tied| {
            let tiny = tiny.clone().change(|t| t.tied = tied);
            let (file, ..) = tiny.file();
            let hidden = file.tensors.iter().find(|t| t.name == "token_embd.weight").map(|t| t.dims[1] as usize)?;
            let (dir, path) = save(&tiny, "token_embd.weight", NAN_TOKEN as usize * hidden + 1);
            let model = Model::load(&path, models::cpu()).ok()?;
            Some((dir, model, tied))
        });
        let (_dir, model, tied) = heads.unwrap_or_else(|| panic!("{name} does not load"));
        untied += usize::from(!tied);
        let tokens = [PROMPT[0], NAN_TOKEN, PROMPT[1], PROMPT[2]];
        for cache in [quant::F16, quant::Q8_0] {
            let mut s = session(&model, cache);
            assert_nan(s.prefill(&tokens, None), 3, name);
            assert_eq!(s.len(), 0, "{name}");
        }
    }
    assert!(untied > 40, "{untied}");
}

#[test]
fn a_call_that_finds_nan_leaves_the_session_as_it_was() {
    let (_dir, model) = with_nan_token();
    for cache in CACHES {
        let what = format!("cache type {}", cache.0);
        let expected: Vec<Vec<f32>> = {
            let mut s = session(&model, cache);
            PROMPT
                .iter()
                .map(|token| s.prefill(&[*token], None).map(|()| s.logits().unwrap().to_vec()).unwrap())
                .collect()
        };
        let mut s = session(&model, cache);
        // The forgotten tokens have been in the cache.
        let spoiled = [PROMPT[5], NAN_TOKEN, NAN_TOKEN, PROMPT[6], PROMPT[7]];
        assert_nan(s.prefill(&spoiled, None), 4, &what);
        s.prefill(&PROMPT[..4], None).unwrap();
        assert_nan(s.prefill(&spoiled, None), 8, &what);
        let check = |s: &mut Session, why: &str| {
            assert_eq!(s.tokens(), &PROMPT[..4], "{what}, {why}");
            s.fetch_logits().unwrap();
            assert!(s.logits() == Some(&expected[3][..]), "{what}, {why}: other logits");
        };
        check(&mut s, "a prompt");
        assert_nan(s.decode(NAN_TOKEN, None), 4, &what);
        check(&mut s, "a token");
        let (mut out, mut n) = ([0; 4], 9);
        assert_nan(s.generate(NAN_TOKEN, None, &mut out, &mut n, None), 4, &what);
        assert_eq!(n, 0);
        check(&mut s, "a generation");
        assert_nan(s.score(&[PROMPT[4], NAN_TOKEN, PROMPT[5]], &mut [0.0; 3], None), 5, &what);
        check(&mut s, "scores");
        let mut fork = s.fork().unwrap();
        for s in [&mut fork, &mut s] {
            for (token, logits) in PROMPT.iter().zip(&expected).skip(4) {
                s.prefill(&[*token], None).unwrap();
                assert!(s.logits() == Some(&logits[..]), "{what}: what NaN left behind is seen");
            }
        }
    }
}

#[test]
fn a_sequence_that_is_nan_leaves_those_beside_it_alone() {
    let (_dir, model) = with_nan_token();
    for cache in CACHES {
        let start = |n: usize| {
            let mut s = session(&model, cache);
            s.prefill(&PROMPT[..n], None).unwrap();
            s
        };
        let alone = [2, 5, 9].map(|n| {
            let mut s = start(n);
            s.decode(PROMPT[n], None).unwrap();
            s.logits().unwrap().to_vec()
        });
        let mut sessions = [2, 5, 9].map(start);
        let decode = |sessions: &mut [Session; 3], tokens: [u32; 3]| {
            let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
            engine::decode_batch(&mut together, &tokens, &mut [const { None }; 3], &mut [0; 3])
        };
        let failed = decode(&mut sessions, [PROMPT[2], NAN_TOKEN, PROMPT[9]]);
        assert!(failed.as_ref().is_err_and(|e| e.to_string().contains("entry 1")), "{failed:?}");
        assert_nan(failed, 5, "a batch");
        assert_eq!(sessions.each_ref().map(Session::len), [2, 5, 9]);
        decode(&mut sessions, [PROMPT[2], PROMPT[5], PROMPT[9]]).unwrap();
        for (s, alone) in sessions.iter().zip(&alone) {
            assert!(s.logits() == Some(&alone[..]), "cache type {}", cache.0);
        }

        let params = || JobParams { max_tokens: 6, ..Default::default() };
        let job = |prompt: &[u32]| {
            let s = session(&model, cache);
            let request = Request::new(&s, prompt, params()).unwrap();
            Job::new(s, request)
        };
        let made = |job: &mut Job| job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap();
        let prompts = [&PROMPT[..4], &[PROMPT[0], NAN_TOKEN, PROMPT[1]], &PROMPT[3..11]];
        let expected = [0, 2].map(|i| {
            let mut job = job(prompts[i]);
            while !step_jobs(&mut [&mut job], None).unwrap() {}
            made(&mut job)
        });
        let mut jobs = prompts.map(job);
        while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), None).unwrap() {}
        let failure = jobs[1].failure().cloned();
        assert_nan(failure.map_or(Ok(()), Err), 2, "a job");
        assert_eq!([0, 2].map(|i| made(&mut jobs[i])), expected, "cache type {}", cache.0);
    }
}

#[test]
fn embeddings_that_are_nan_name_text_and_token() {
    let (_dir, model) = with_nan_token();
    let sound: &[u32] = &PROMPT[..3];
    let texts: [&[u32]; 2] = [sound, &[PROMPT[0], NAN_TOKEN, PROMPT[1]]];
    for pooling in [Pooling::Mean, Pooling::Last, Pooling::None] {
        let params = EmbedParams { pooling: Some(pooling), raw: false };
        let error = model.embed(&texts, params, None).unwrap_err();
        assert!(
            matches!(&error, Error::Format { what, .. }
            if what.contains("embedding of text 1") && what.contains("token 1 ")),
            "{error}"
        );
        assert!(model.embed(&[sound], params, None).unwrap().iter().all(|x| x.is_finite()));
    }
    // The first token does not see the second one.
    let params = EmbedParams { pooling: Some(Pooling::Cls), raw: false };
    assert!(model.embed(&texts, params, None).unwrap().iter().all(|x| x.is_finite()));
}

/// The score of a classifier, by every activation of its first layer, from weights that are NaN in the network before
/// it and in the embedding of one token. Its own weights are rejected when they are loaded.
#[test]
fn ranks_that_are_nan_name_their_text() {
    let bert = encoders::all().into_iter().find(|e| e.architecture == "bert" && e.head.is_empty()).unwrap();
    let width = encoders::HIDDEN;
    let head = vec![
        ("cls.weight", width, width),
        ("cls.bias", 1, width),
        ("cls.output.weight", 1, width),
        ("cls.output.bias", 1, 1),
    ];
    let encoder = encoders::Encoder { pooling: 4, head, ..bert };
    let (nan_token, texts) = (7usize, [&[1u32, 2, 3][..], &[4, 7, 5]]);
    let rank = EmbedParams { pooling: Some(Pooling::Rank), raw: false };
    for activation in ["relu", "tanh", "gelu"] {
        let load = |spoiled: Option<(&str, usize)>| {
            let mut file = encoder.file().0.key("bert.classifier.activation", activation);
            if let Some((name, at)) = spoiled {
                let tensor = file.tensors.iter_mut().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"));
                tensor.data[4 * at..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
            }
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("tiny.gguf");
            fs::write(&path, file.build().0).unwrap();
            models::load_isa(&path, 2, None)
        };
        let expected = load(None).embed(&texts[..1], rank, None).unwrap();
        assert!(expected.len() == 1 && expected[0].is_finite());
        for (name, at) in [("blk.1.attn_q.weight", 5), ("blk.2.ffn_down.weight", 5)] {
            let error = load(Some((name, at))).embed(&texts, rank, None).unwrap_err().to_string();
            assert!(error.contains("text 0 is NaN or infinite"), "{activation} {name}: {error}");
        }
        // Tokens see each other in their own text alone.
        let model = load(Some(("token_embd.weight", nan_token * width)));
        let error = model.embed(&texts, rank, None).unwrap_err().to_string();
        assert!(error.contains("text 1 is NaN or infinite"), "{activation}: {error}");
        assert_eq!(model.embed(&texts[..1], rank, None).unwrap(), expected, "{activation}");
    }
}
