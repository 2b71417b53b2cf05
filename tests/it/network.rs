//! Tiny random models of every architecture and tensor type compared with the float64 reference. Threads, prefill
//! chunks and other sequences of a batch must not change a bit.

mod drafts;
mod jobs;
mod threads_change;

use std::sync::Arc;

use realizar::cpu::kernels::Isa;
use realizar::engine::{self, CacheParams, LoadOptions, LoadParams, Model, Runtime, RuntimeParams, Session};
use realizar::error::Error;
use realizar::quant;
use realizar::tensor::DType;

use crate::support::models;
use crate::support::reference::relative_rms;
use crate::support::rope;
use crate::support::save::save;
use crate::support::tiny::{self, PROMPT, Tiny};

fn logits_one_by_one(model: &Arc<Model>, params: &CacheParams) -> Vec<Vec<f32>> {
    let mut session = Session::new(model, params).unwrap();
    PROMPT
        .iter()
        .map(|t| {
            session.prefill(&[*t], None).unwrap();
            session.logits().unwrap().to_vec()
        })
        .collect()
}

fn f32_cache() -> CacheParams {
    models::exact()
}

/// How far from the reference a good engine is, by type: rounding of sums, of halves, of activations to 8 bits.
fn limit(dtype: DType) -> f64 {
    match dtype {
        quant::F32 => 1e-5,
        quant::F16 => 2e-3,
        quant::BF16 => 1e-2,
        _ => 5e-2,
    }
}

fn check(name: &str, tiny: &Tiny) {
    let (_dir, path, reference) = save(tiny);
    let expected = reference();
    let model = models::load_threads(&path, 2);
    let got = logits_one_by_one(&model, &f32_cache());
    let difference = relative_rms(&expected, &got);
    println!("{name:28} {difference:.2e}");
    assert!(difference < limit(tiny.dtype), "{name}: {difference}");
}

#[test]
fn every_tensor_type_agrees_with_the_reference() {
    for format in quant::FORMATS {
        // Private types have no number in a GGUF file.
        if format.dtype.0 < 1 << 16 {
            check(format.name, &Tiny::new("llama", format.dtype));
        }
    }
}

#[test]
fn factors_on_products_of_4_bit_floats_count() {
    const PARTS: &[&str] = &["attn_q", "attn_output", "ffn_up", "ffn_down"];
    let known = tiny::architectures(|name| Tiny::new(name, quant::NVFP4));
    for (name, tiny) in known.into_iter().filter(|(name, _)| ["llama", "starcoder2"].contains(name)) {
        check(name, &tiny.change(|t| t.scales = PARTS));
    }
}

#[test]
fn types_may_be_mixed() {
    let types =
        vec![("attn_v", quant::Q6_K), ("ffn_down", quant::Q5_1), ("token_embd", quant::Q8_0), ("attn_k", quant::F16)];
    check("mixed", &Tiny::new("llama", quant::Q4_K).change(|t| (t.types, t.tied) = (types, false)));
}

#[test]
fn every_shape_agrees_with_the_reference() {
    let llama = |dtype| Tiny::new("llama", dtype);
    check("8:4 heads of 8, ffn 172", &llama(quant::F32).shape(64, 8, 4, 8, 172).layers(5));
    check("6:6 heads of 48", &llama(quant::Q5_0).shape(288, 6, 6, 48, 768));
    check("9:3 heads of 64", &llama(quant::Q4_1).shape(576, 9, 3, 64, 768).layers(1));
    check("4:1 heads of 64", &llama(quant::Q8_0).shape(256, 4, 1, 64, 512));
    check("4:2 heads of 80, untied", &llama(quant::Q4_0).shape(320, 4, 2, 80, 864).change(|t| t.tied = false));
    check("4:4 heads of 96", &llama(quant::Q5_1).shape(384, 4, 4, 96, 512));
    check("2:1 heads of 128", &llama(quant::Q4_K).shape(256, 2, 1, 128, 512));
    check("2:1 heads of 256", &llama(quant::Q6_K).shape(512, 2, 1, 256, 512).layers(1));
    check("1 head, F16", &llama(quant::F16).shape(64, 1, 1, 64, 100));
    check("q wider than the model", &llama(quant::Q8_0).shape(128, 4, 2, 128, 384));
}

#[test]
fn rotary_variants_agree_with_the_reference() {
    let base = Tiny::new("llama", quant::F32);
    check("base 500000", &base.clone().change(|t| t.rope_base = 500_000.0));
    let factors: Vec<f32> = (0..16).map(|i| 1.0 + 0.5 * i as f32).collect();
    check("rope_freqs", &base.clone().change(|t| t.rope_factors = Some(factors)));
    check(
        "linear",
        &base.clone().change(|t| {
            t.net.inv_freq = vec![rope::linear(10_000.0, 32, 4.0); 2];
            t.strings = vec![("rope.scaling.type", "linear")];
            t.floats = vec![("rope.scaling.factor", 4.0)];
        }),
    );
    // As short as the prompt, so that pairs of each kind turn.
    check(
        "llama3",
        &base.clone().change(|t| {
            t.net.inv_freq = vec![rope::llama3(10_000.0, 32, 8.0, 1.0, 4.0, 16.0); 2];
            t.strings = vec![("rope.scaling.type", "llama3")];
            t.floats = vec![
                ("rope.scaling.factor", 8.0),
                ("rope.scaling.low_freq_factor", 1.0),
                ("rope.scaling.high_freq_factor", 4.0),
            ];
            t.ints = vec![("rope.scaling.original_context_length", 16)];
        }),
    );
    let yarn = |fast, slow, attention: f32| {
        base.clone().change(move |t| {
            t.net.inv_freq = vec![rope::yarn(10_000.0, 32, 4.0, 32.0, f64::from(fast), f64::from(slow)); 2];
            t.net.rope_magnitude = f64::from(attention) * rope::yarn_magnitude(1.0, 4.0);
            t.strings = vec![("rope.scaling.type", "yarn")];
            t.floats = vec![
                ("rope.scaling.factor", 4.0),
                ("rope.scaling.attn_factor", attention),
                ("rope.scaling.yarn_beta_fast", fast),
                ("rope.scaling.yarn_beta_slow", slow),
            ];
            t.ints = vec![("rope.scaling.original_context_length", 32)];
        })
    };
    check("yarn", &yarn(32.0, 1.0, 1.0));
    check("yarn, narrow", &yarn(2.0, 0.5, 0.75));
    // Two numbers that the file leaves out.
    check("yarn, by default", &yarn(32.0, 1.0, 1.0).change(|t| t.floats.truncate(1)));
}

#[test]
fn longrope_turns_by_the_length_of_the_cache() {
    let divisors = |step: f32| (0..12).map(|i| 1.0 + step * i as f32).collect::<Vec<f32>>();
    let (short, long) = (divisors(0.25), divisors(1.5));
    for (capacity, used) in [(64, &short), (65, &long), (128, &long)] {
        let tiny = Tiny::new("phi3", quant::F32).change(|t| {
            (t.fused_qkv, t.fused_gate_up) = (true, true);
            // A part of each head turns.
            t.net.inv_freq = vec![rope::divided(10_000.0, 24, used); 2];
            t.net.rope_magnitude = rope::longrope_magnitude(128.0, 64.0);
            t.ints = vec![("rope.scaling.original_context_length", 64), ("rope.dimension_count", 24)];
            t.tensors = vec![("rope_factors_short.weight", short.clone()), ("rope_factors_long.weight", long.clone())];
        });
        let (_dir, path, reference) = save(&tiny);
        let expected = reference();
        let got = logits_one_by_one(&models::load_threads(&path, 2), &CacheParams { capacity, ..f32_cache() });
        let difference = relative_rms(&expected, &got);
        assert!(difference < 1e-5, "a cache of {capacity}: {difference}");
    }
}

/// The smallest that every tensor type divides evenly.
fn architectures(dtype: DType) -> Vec<(&'static str, Tiny)> {
    tiny::architectures(|name| Tiny::new(name, dtype))
}

#[test]
fn every_architecture_agrees_with_the_reference() {
    for dtype in [quant::F32, quant::Q8_0] {
        for (name, tiny) in architectures(dtype) {
            check(name, &tiny);
        }
    }
}

#[test]
fn neither_threads_nor_pieces_nor_neighbors_change_a_bit() {
    for (name, tiny) in architectures(quant::Q4_0).into_iter().chain(architectures(quant::F16)) {
        let (_dir, path, _) = save(&tiny);
        let model = models::load_threads(&path, 1);
        let expected = logits_one_by_one(&model, &CacheParams::default());
        for threads in [2, 3] {
            let got = logits_one_by_one(&models::load_threads(&path, threads), &CacheParams::default());
            assert!(got == expected, "{name}: {threads} threads");
        }
        for piece in [7, 64] {
            let mut session = models::session(&model);
            for (i, tokens) in PROMPT.chunks(piece).enumerate() {
                session.prefill(tokens, None).unwrap();
                let at = (i * piece + tokens.len()) - 1;
                assert!(session.logits().unwrap() == expected[at], "{name}: pieces of {piece}, position {at}");
            }
        }
        let mut sessions: Vec<Session> = (1..6).map(|_| models::session(&model)).collect();
        for (i, session) in sessions.iter_mut().enumerate() {
            session.prefill(&PROMPT[..=i], None).unwrap();
        }
        let tokens: Vec<u32> = (0..5).map(|i| PROMPT[i + 1]).collect();
        let mut next = [0; 5];
        let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
        engine::decode_batch(&mut together, &tokens, &mut [const { None }; 5], &mut next).unwrap();
        for (i, session) in sessions.iter().enumerate() {
            assert!(session.logits().unwrap() == expected[i + 1], "{name}: batch slot {i}");
        }
    }
}

#[test]
fn narrower_caches_stay_close_to_the_reference() {
    let tiny = Tiny::new("llama", quant::F32);
    let (_dir, path, reference) = save(&tiny);
    let expected = reference();
    let model = models::load_threads(&path, 2);
    for (dtype, limit) in [(quant::F32, 1e-5), (quant::F16, 2e-3), (quant::Q8_0, 3e-2), (quant::Q4_0, 2.5e-1)] {
        let params = CacheParams { k_type: dtype, v_type: dtype, ..Default::default() };
        let difference = relative_rms(&expected, &logits_one_by_one(&model, &params));
        assert!(difference < limit, "cache type {}: {difference}", dtype.0);
    }
}

#[test]
fn rewinding_and_forking_give_the_same_future() {
    let differing =
        |name: &str| ["llama", "openelm", "deci", "gemma4"].contains(&name) || name.starts_with("deepseek2");
    for (name, tiny) in architectures(quant::Q8_0).into_iter().filter(|(name, _)| differing(name)) {
        let (_dir, path, _) = save(&tiny);
        let model = models::load_threads(&path, 2);
        let expected = logits_one_by_one(&model, &CacheParams::default());
        let mut session = models::session(&model);
        session.prefill(&PROMPT[..10], None).unwrap();
        let mut fork = session.fork().unwrap();
        assert_eq!(fork.logits(), session.logits());
        session.prefill(&[7; 30], None).unwrap();
        session.truncate(10).unwrap();
        assert!(session.logits().is_none());
        for s in [&mut session, &mut fork] {
            s.prefill(&PROMPT[10..], None).unwrap();
            assert!(s.logits().unwrap() == expected[20], "{name}");
        }
    }
}

/// Forks of several depths, forks of forks and a text of its own make a step, whose shared memory is read once for all.
#[test]
fn forks_in_one_step_get_what_each_gets_alone() {
    let differing =
        |name: &str| ["llama", "gemma2", "gemma3", "bloom", "gpt-oss"].contains(&name) || name.starts_with("deepseek2");
    for (name, tiny) in architectures(quant::Q8_0).into_iter().filter(|(name, _)| differing(name)) {
        let (_dir, path, _) = save(&tiny);
        let ids: Vec<u32> = (0..900).map(|i| i * 37 % 300).collect();
        let params = CacheParams { capacity: 900, ..Default::default() };
        let alone = models::load_threads(&path, 1);
        for threads in [1, 3] {
            let model = models::load_threads(&path, threads);
            let read = |mut session: Session, ids: &[u32]| {
                session.prefill(ids, None).unwrap();
                session
            };
            let new = || Session::new(&model, &params).unwrap();
            let root = read(new(), &ids[..600]);
            let deeper = read(root.fork().unwrap(), &ids[700..890]);
            let mut back = root.fork().unwrap();
            back.truncate(300).unwrap();
            let back = read(back, &ids[2..4]);
            let last = read(deeper.fork().unwrap(), &ids[7..8]);
            let other = read(new(), &ids[1..520]);
            let forks = [root.fork().unwrap(), deeper.fork().unwrap(), other.fork().unwrap()];
            let mut sessions: Vec<Session> = [deeper, other, root, last, back].into_iter().chain(forks).collect();
            let tokens: Vec<u32> = (0..sessions.len() as u32).map(|i| 11 + i).collect();
            let mut next = vec![0; tokens.len()];
            for _ in 0..2 {
                let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
                engine::decode_batch(&mut together, &tokens, &mut [const { None }; 8], &mut next).unwrap();
            }
            for (i, session) in sessions.iter().enumerate() {
                let apart = read(Session::new(&alone, &params).unwrap(), session.tokens());
                assert!(session.logits() == apart.logits(), "{name}: {threads} threads, session {i}");
            }
        }
    }
}

/// The networks that cannot be rewound without computing tokens again.
fn recurrent(dtype: DType) -> Vec<(&'static str, Tiny)> {
    let mut all = architectures(dtype);
    all.retain(|(_, tiny)| !tiny.net.mixers.is_empty());
    assert!(all.len() >= 3);
    all
}

#[test]
fn recurrent_layers_survive_any_rewind_fork_and_batch() {
    for (name, tiny) in recurrent(quant::Q8_0) {
        let (_dir, path, _) = save(&tiny);
        let model = models::load_threads(&path, 2);
        let params = CacheParams { capacity: 128, ..Default::default() };
        let ids: Vec<u32> = (0..100).map(|i| i * 37 % 300).collect();
        let mut straight = Session::new(&model, &params).unwrap();
        let expected: Vec<Vec<f32>> = ids
            .iter()
            .map(|id| {
                straight.prefill(&[*id], None).unwrap();
                straight.logits().unwrap().to_vec()
            })
            .collect();
        // Rewinds by little and by much, after prompts and after single tokens, of which no checkpoint is left.
        let mut session = Session::new(&model, &params).unwrap();
        for (to, until) in [(0, 60), (59, 61), (61, 80), (33, 34), (34, 100), (99, 100), (7, 50), (0, 3), (2, 90)] {
            session.truncate(to).unwrap();
            let mut fork = session.fork().unwrap();
            for (piece, session) in [(64, &mut session), (5, &mut fork)] {
                ids[to as usize..until].chunks(piece).for_each(|ids| session.prefill(ids, None).unwrap());
                assert!(session.logits().unwrap() == expected[until - 1], "{name}: {to} to {until} by {piece}");
            }
            for id in [7, 8, 9, 10, 11, 12, 13].into_iter().take(100 - until) {
                session.decode(id, None).unwrap();
            }
            session.truncate(until as u32).unwrap();
        }
        // Sequences that were rewound, each to another place, in one step.
        let mut sessions: Vec<Session> = (0..3).map(|_| straight.fork().unwrap()).collect();
        for (session, to) in sessions.iter_mut().zip([5, 50, 98]) {
            session.truncate(to).unwrap();
        }
        let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
        let mut next = [0; 3];
        engine::decode_batch(&mut together, &[ids[5], ids[50], ids[98]], &mut [const { None }; 3], &mut next).unwrap();
        for (session, at) in sessions.iter().zip([5, 50, 98]) {
            assert!(session.logits().unwrap() == expected[at], "{name}: {at} in a batch");
        }
    }
}

#[test]
fn a_step_that_is_cancelled_leaves_recurrent_layers_as_they_were() {
    for (name, tiny) in recurrent(quant::F32) {
        let (_dir, path, _) = save(&tiny);
        let model = models::load_threads(&path, 1);
        let expected = logits_one_by_one(&model, &CacheParams::default());
        let cancel = Arc::new(engine::Cancel::default());
        let mut session = models::session(&model);
        session.prefill(&PROMPT[..9], None).unwrap();
        cancel.fire();
        for tokens in [&PROMPT[9..10], &PROMPT[9..]] {
            let stopped = session.prefill(tokens, Some(&cancel));
            assert!(matches!(stopped, Err(Error::Cancelled)), "{name}: {stopped:?}");
            assert_eq!(session.len(), 9);
        }
        session.prefill(&PROMPT[9..], None).unwrap();
        assert!(session.logits().unwrap() == expected[20], "{name}");
    }
}

#[test]
fn scratch_memory_counts_against_the_ceiling() {
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let run = |memory_limit| {
        let runtime = Runtime::new(RuntimeParams { memory_limit, threads: 1, ..Default::default() })?;
        let model = Model::load(&path, models::on(runtime, models::cpu()))?;
        let mut session = Session::new(&model, &CacheParams { capacity: 64, ..Default::default() })?;
        session.prefill(&PROMPT, None).inspect_err(|_| assert!(session.is_empty()))
    };
    let is_refused = |limit| match run(limit) {
        Ok(()) => None,
        Err(Error::Limit { what, .. }) => Some(what),
        Err(e) => panic!("{e}"),
    };
    // The least ceiling with which all goes well, to 4 KiB.
    let (mut refused, mut enough) = (0, 1 << 30);
    while enough - refused > 4096 {
        let middle = (refused + enough) / 2;
        *(if is_refused(middle).is_some() { &mut refused } else { &mut enough }) = middle;
    }
    assert_eq!(is_refused(refused), Some("scratch memory"));
}

#[test]
fn layers_with_a_window_keep_only_it_and_survive_any_rewind() {
    let tiny = architectures(quant::Q8_0).into_iter().find(|(name, _)| *name == "gemma3").unwrap().1;
    let (_dir, path, _) = save(&tiny);
    let model = models::load_threads(&path, 2);
    let capacity = |capacity| CacheParams { capacity, ..Default::default() };
    // Longer than the ring of a layer that sees 8 tokens, whatever the length of a step.
    let ids: Vec<u32> = (0..2000).map(|i| i * 7 % 300).collect();
    let mut straight = Session::new(&model, &capacity(2100)).unwrap();
    straight.prefill(&ids, None).unwrap();
    let expected = straight.logits().unwrap().to_vec();
    for keep in [0, 3, 400, 1300, 1999] {
        let mut session = Session::new(&model, &capacity(2100)).unwrap();
        session.prefill(&ids[..keep], None).unwrap();
        session.prefill(&[5; 100], None).unwrap();
        if keep < 1300 {
            session.prefill(&[6; 700], None).unwrap();
        }
        session.truncate(keep as u32).unwrap();
        let mut fork = session.fork().unwrap();
        for s in [&mut session, &mut fork] {
            s.prefill(&ids[keep..], None).unwrap();
            assert!(s.logits().unwrap() == expected, "rewound to {keep}");
        }
    }
}

#[test]
fn float_checkpoints_can_be_quantized_while_they_load() {
    let (_dir, path, reference) = save(&Tiny::new("llama", quant::BF16));
    let expected = reference();
    let load = |quantize| Model::load(&path, LoadOptions { quantize, device: 1, ..Default::default() }).unwrap();
    let [own, wide] = [None, Some(quant::F32)].map(load);
    assert!(wide.info().weight_bytes > own.info().weight_bytes * 3 / 2);
    let difference = relative_rms(&expected, &logits_one_by_one(&wide, &f32_cache()));
    assert!(difference < 1e-3, "F32: {difference}");
    for (dtype, limit) in [(quant::Q8_0, 5e-2), (quant::Q4_K, 0.5)] {
        let model = load(Some(dtype));
        let difference = relative_rms(&expected, &logits_one_by_one(&model, &f32_cache()));
        assert!(difference > 1e-3 && difference < limit, "{}: {difference}", dtype.0);
    }
}

/// FNV-1a over the bits of the logits after each token of the prompt, by architecture, of weights in F32, Q4_0 and F16.
const HASHES: &[(&str, [u64; 3])] = &[
    ("llama", [0x812609ae8cdf1d36, 0xb950a9909acf0ec1, 0x9bc71aa928554325]),
    ("llama with experts", [0x1b524018592cda98, 0x995723cf4a2c5372, 0x2f1c4965bcee7043]),
    ("qwen2", [0xb27b26df16646863, 0xcc52e729b64da1e3, 0xd8cb68cf0c57b380]),
    ("qwen3", [0x01ab7bd3f941cbf3, 0x04aa7a17e50d21ef, 0xe6ad2d03066d3c60]),
    ("qwen3moe", [0xc628a0a1b72bd6e0, 0x9469aa82857edf51, 0x39de9e6e9d363dd6]),
    ("gemma", [0x9d1f624ab92ed6d0, 0x86dd9373769284ff, 0xdcc6c4e0e40a1e14]),
    ("gemma2", [0xcc1ac0e6cd79bcae, 0x644425a40ca24139, 0x47829c600da732f1]),
    ("gemma3", [0xa963d7ebbf762533, 0x8fdfb362d4f210d9, 0x82f5e7f9dfa2d8b0]),
    ("phi3", [0x497c63e0780c20b6, 0x7b7fbab0ca9d9362, 0x5747c61a515f1195]),
    ("gpt2", [0x011e622e7e7b9c27, 0x58cf21a084a0ccf2, 0x0df6b5f798bc2034]),
    ("starcoder2", [0x8fc82bb5ce4f62f1, 0xc2169b7b0e474400, 0x9e8c34077c688650]),
    ("olmo2", [0xaaa72da4c31d4e24, 0x718f2019fd34b51f, 0xbd043f97edb69794]),
    ("granite", [0xc566c40b0a6334f2, 0x1698ff21fca5686e, 0xe46e3575155acf57]),
    ("smollm3", [0xe89e079fe49e787a, 0x98f326c0f2eae4e6, 0x87402dcb0f3ad943]),
    ("internlm2", [0x812609ae8cdf1d36, 0xb950a9909acf0ec1, 0x9bc71aa928554325]),
    ("seed_oss", [0xb27b26df16646863, 0xcc52e729b64da1e3, 0xd8cb68cf0c57b380]),
    ("orion", [0xb891efafc4955c19, 0x8bdd66c936b09bbb, 0xf89999afbe4be52d]),
    ("phi2", [0xddbae409bcf0310b, 0x21448e4f302354c8, 0x8b54962f49c74c56]),
    ("gptneox", [0x2549626270b05763, 0xf2675785cf77af52, 0x83447fc22e2909c6]),
    ("falcon", [0x9f6e1a1bbbae63dd, 0xff222d3da8d96bf4, 0xedf4b2fd476485b4]),
    ("plamo", [0x90f29bb1d8fbe044, 0x448985644ff75d13, 0xf2cf88272f83ede0]),
    ("cohere2", [0x8f0541e97f3468aa, 0x399e92e4283de787, 0x40784a3027cdb764]),
    ("hunyuan-dense", [0xf9606024781aea68, 0x4c804131d6a1f6b1, 0x0fa1e95f12ff34a8]),
    ("arcee", [0x9669d2456c5dd6e5, 0x2e5f042e88fcfa0b, 0x74e4136c8a764212]),
    ("nemotron", [0xa2dd88d77104ed32, 0xa872ad26552868c1, 0x62e084ca2fb6880d]),
    ("bloom", [0x439980e88fac3442, 0x745a2a3fe93c9b5e, 0x5b2776aae1663fdf]),
    ("mpt", [0x416cdd92e5ace417, 0x7158c4d6048bdeed, 0xdd6276e80ce5bca2]),
    ("olmo", [0xb09a1d2d11ae123b, 0xc25e6544bc1716fb, 0x37f52dd6ef8f015f]),
    ("exaone4", [0x44660c4fe3d1d7a1, 0xab3de81d9b9ce052, 0xce917c4481dc44f4]),
    ("glm4", [0xf4d4157ab0085e74, 0xc038aa52fea885cb, 0x5176b25dfba591b5]),
    ("stablelm", [0xb891efafc4955c19, 0x8bdd66c936b09bbb, 0xf89999afbe4be52d]),
    ("mistral3", [0xc119a9921c459461, 0x9547e4d11f2d3a5e, 0xd994a8111af4884a]),
    ("ernie4_5-moe", [0x19f161952abd4194, 0x0adb7d84cb9f162b, 0xfe2b3e2fefa55db8]),
    ("qwen2moe", [0x351306892b8522b1, 0x0ed676bf014bd754, 0xddcd2bb537114f09]),
    ("glm4moe", [0xe0da89562733d93d, 0x38e51503c921b49f, 0x946a4e95e0592a54]),
    ("olmoe", [0xdd7e3f3205e28281, 0xcd8f99aa736fc3db, 0xb3fd37907a0322af]),
    ("gpt-oss", [0x2dfc1647388eb71c, 0xb870d7beb84381f0, 0x69f133c79780d8a5]),
    ("llama4", [0x80f4d220bff7ddeb, 0x23a7b2d01d78cf06, 0x288f03d5f1f33500]),
    ("openelm", [0xde4c01d6734b1ed9, 0x2f061835f419392f, 0xab0db91472a8de37]),
    ("deci", [0x0bf5364a101cfde8, 0x70d543ec74f05d97, 0x29f451bf0caec1bd]),
    ("deepseek2", [0xcda036f523fc47fa, 0x9aaebb1e71b7c3c0, 0xc805acd22c0c4b11]),
    ("deepseek2 with one tensor for keys and values", [0xea93c9ddf19c3905, 0x5976a5a84c706564, 0x5fd91693fe07b85d]),
    ("minicpm3", [0x4abca6cd9d229db5, 0xc1d47fed300e11f8, 0xdcaf0a47e3e49f9f]),
    ("gemma4", [0x6804d367e3ce429b, 0x740c901dc3ef09f9, 0x5425dd7fd68915a6]),
    ("qwen35", [0xe7e7b289356541b9, 0xcfb2d219c003f9a5, 0x21bb027f43878d0d]),
    ("lfm2", [0xf87956a3b637bc08, 0xf14dfaf8dec1315f, 0x91f12256c4743a17]),
    ("mamba2", [0xe6ac669870e0bc47, 0x3fe4460a416a0e43, 0xf524d0b6495ffee9]),
];

/// Computes the hash of a network, the same on every instruction set of this machine.
fn hash(tiny: &Tiny) -> u64 {
    let (_dir, path, _) = save(tiny);
    let hashes = Isa::available().into_iter().map(|isa| {
        let params = LoadParams { isa: Some(isa), options: models::cpu(), ..Default::default() };
        let logits = logits_one_by_one(&Model::load(&path, params).unwrap(), &CacheParams::default());
        let bytes = logits.iter().flatten().flat_map(|x| x.to_bits().to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    });
    let hashes: Vec<u64> = hashes.collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{}: {hashes:x?}", tiny.architecture);
    hashes[0]
}

/// Whatever moves inside the engine changes no bit of a result, nor does the instruction set.
#[test]
fn logits_are_the_same_bits_as_ever() {
    let networks = [quant::F32, quant::Q4_0, quant::F16].map(architectures);
    let [floats, quants, halves] = &networks;
    let mut found = Vec::new();
    for (((name, a), (_, b)), (_, c)) in floats.iter().zip(quants).zip(halves) {
        found.push((*name, [hash(a), hash(b), hash(c)]));
    }
    for (name, hashes) in &found {
        println!("    ({name:?}, [{:#018x}, {:#018x}, {:#018x}]),", hashes[0], hashes[1], hashes[2]);
    }
    assert_eq!(found, HASHES);
}
