//! Saved caches: a loaded cache continues bit-identically in every network; damaged, truncated and foreign state is
//! rejected. The oracle is the cache that was never saved, shifted or released.

use std::path::Path;
use std::sync::Arc;

use realizar::engine::saved::RestoreParams;
use realizar::engine::{CacheParams, LoadOptions, Model, Runtime, RuntimeParams, Session};
use realizar::error::Error;
use realizar::quant;
use realizar::tensor::DType;

use crate::support::models;
use crate::support::reference::relative_rms;
use crate::support::save::{ENDED, restored, save, saved_bytes};
use crate::support::tiny::{self, PROMPT, Rng, Tiny};

fn load(path: &Path, threads: u32, mmap: bool) -> Arc<Model> {
    let runtime = models::runtime(threads);
    Model::load(path, models::on(runtime, LoadOptions { device: 1, mmap, ..Default::default() })).unwrap()
}

fn bits(session: &Session) -> Vec<u32> {
    session.logits().expect("logits").iter().map(|x| x.to_bits()).collect()
}

/// A text longer than the windows of the tiny networks.
fn text(n: u32) -> Vec<u32> {
    (0..n).map(|i| i * 37 % 300).collect()
}

fn networks(dtype: DType) -> Vec<(&'static str, Tiny)> {
    tiny::architectures(|name| Tiny::new(name, dtype))
}

/// The oracle is the network written out in f64.
#[test]
fn a_cache_that_is_saved_and_loaded_behind_each_token_computes_the_network() {
    for (name, tiny) in networks(quant::F32) {
        let (_dir, path, reference) = save(&tiny);
        let expected = reference();
        let model = load(&path, 1, false);
        let params = models::exact();
        let mut session = Session::new(&model, &params).unwrap();
        let got = PROMPT.map(|token| {
            session.prefill(&[token], None).unwrap();
            session = restored(&model, &RestoreParams::default(), &saved_bytes(&session)).unwrap();
            session.logits().unwrap().to_vec()
        });
        let difference = relative_rms(&expected, &got);
        assert!(difference < 1e-5, "{name}: {difference}");
    }
}

#[test]
fn a_loaded_cache_goes_on_to_the_same_bits() {
    let ids = text(40);
    for (name, tiny) in networks(quant::Q8_0) {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, 2, false);
        let params = CacheParams { capacity: 64, ..Default::default() };
        let mut original = Session::new(&model, &params).unwrap();
        original.prefill(&ids[..17], None).unwrap();
        for id in &ids[17..20] {
            original.decode(*id, None).unwrap();
        }
        let bytes = saved_bytes(&original);
        // By a model that was loaded anew, mapped, in another process as it were; with more room; after a rewind.
        let other = load(&path, 1, true);
        for (model, capacity, rewind) in [(&model, None, 20), (&other, Some(100), 20), (&other, None, 9)] {
            let mut expected = original.fork().unwrap();
            let mut session = restored(model, &RestoreParams { capacity, ..Default::default() }, &bytes).unwrap();
            assert_eq!((session.tokens(), session.capacity()), (&ids[..20], capacity.unwrap_or(64) as usize), "{name}");
            assert!(bits(&session) == bits(&expected), "{name}: the logits that were saved");
            for session in [&mut session, &mut expected] {
                session.truncate(rewind).unwrap();
                session.prefill(&ids[rewind as usize..30], None).unwrap();
                session.decode(ids[30], None).unwrap();
            }
            assert!(bits(&session) == bits(&expected), "{name}: {capacity:?}, rewound to {rewind}");
            if capacity.is_none() {
                let again = restored(model, &RestoreParams::default(), &saved_bytes(&session)).unwrap();
                assert!(bits(&again) == bits(&expected), "{name}: saved again");
            }
        }
    }
}

/// Windows whose rings have gone round, and caches of all types.
#[test]
fn rings_and_every_type_are_saved() {
    let ids: Vec<u32> = (0..1500).map(|i| (i * i + 7 * i) % 300).collect();
    for (name, tiny) in networks(quant::Q4_0).into_iter().filter(|(_, tiny)| tiny.net.window.iter().any(|w| *w > 0)) {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, 2, false);
        for (dtype, rewind) in [(quant::F32, 0), (quant::F16, 40), (quant::Q8_0, 900), (quant::Q4_0, 300)] {
            let params = CacheParams { capacity: 2000, k_type: dtype, v_type: dtype };
            let mut original = Session::new(&model, &params).unwrap();
            if original.prefill(&ids, None).is_err() {
                continue; // Positions are learned, and fewer.
            }
            original.truncate(1500 - rewind).unwrap();
            let params = RestoreParams { capacity: Some(1600), ..Default::default() };
            let mut session = restored(&model, &params, &saved_bytes(&original)).unwrap();
            for session in [&mut session, &mut original] {
                session.prefill(&PROMPT, None).unwrap();
            }
            assert!(bits(&session) == bits(&original), "{name}: type {}, rewound by {rewind}", dtype.0);
        }
    }
}

#[test]
fn what_was_shifted_or_released_is_what_it_would_have_been() {
    let ids = text(40);
    for (name, tiny) in networks(quant::Q4_0) {
        let (_dir, path, _) = save(&tiny);
        let model = load(&path, 2, false);
        let params = CacheParams { capacity: 64, ..Default::default() };
        let filled = |tokens: &[u32]| {
            let mut session = Session::new(&model, &params).unwrap();
            session.prefill(tokens, None).unwrap();
            session
        };
        for (keep, drop) in [(4, 9), (0, 29), (10, 20), (0, 30), (30, 0)] {
            let rest = [&ids[..keep], &ids[keep + drop..30]].concat();
            let mut shifted = filled(&ids[..30]);
            shifted.shift(keep as u32, drop as u32).unwrap();
            assert_eq!(shifted.tokens(), rest);
            let saved = restored(&model, &RestoreParams::default(), &saved_bytes(&shifted)).unwrap();
            let [mut fetched, mut forked] = [(); 2].map(|()| shifted.fork().unwrap());
            if drop > 0 && keep + drop < 30 {
                fetched.fetch_logits().unwrap();
                assert!(bits(&fetched) == bits(&filled(&rest)), "{name}: logits without {keep}..{}", keep + drop);
            }
            let mut expected = filled(&[&rest[..], &ids[30..]].concat());
            expected.decode(5, None).unwrap();
            forked.release().unwrap();
            let resaved = restored(&model, &RestoreParams::default(), &saved_bytes(&forked)).unwrap();
            let mut twice = forked.fork().unwrap();
            twice.truncate(twice.len() as u32 / 2).unwrap();
            twice.prefill(&rest[twice.len()..], None).unwrap_or_else(|e| assert!(rest.is_empty(), "{e}"));
            for mut session in [shifted, fetched, saved, forked, resaved, twice] {
                session.prefill(&ids[30..], None).unwrap();
                session.decode(5, None).unwrap();
                assert!(bits(&session) == bits(&expected), "{name}: without {keep}..{}", keep + drop);
            }
        }
        let mut session = filled(&ids);
        assert!(session.shift(30, 11).is_err() && session.shift(u32::MAX, u32::MAX).is_err());
        let before = bits(&session);
        session.release().unwrap();
        session.release().unwrap();
        assert!(bits(&session) == before, "logits stay");
        assert_eq!((session.matching(&ids), session.tokens()), (0, &ids[..]));
    }
}

/// A ceiling counts what is set aside, and no more once that was given back.
#[test]
fn a_released_cache_does_not_count() {
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32));
    let memory_limit = load(&path, 1, false).info().weight_bytes + (6 << 20);
    let runtime = Runtime::new(RuntimeParams { threads: 1, memory_limit, ..Default::default() }).unwrap();
    let params = models::on(runtime, models::cpu());
    let model = Model::load(&path, params).unwrap();
    // Two layers of two heads of 32, keys and values of somewhat more than 16 bits: 1 MiB holds 2,000 tokens.
    let params = CacheParams { capacity: 2000, ..Default::default() };
    let mut sessions: Vec<Session> = Vec::new();
    let full = loop {
        match Session::new(&model, &params) {
            Ok(session) => sessions.push(session),
            Err(e) => break e,
        }
    };
    assert!(matches!(full, Error::Limit { .. }) && sessions.len() > 1, "{full}: {}", sessions.len());
    sessions[0].release().unwrap();
    let second = Session::new(&model, &params).unwrap();
    assert!(matches!(sessions[0].prefill(&PROMPT, None), Err(Error::Limit { .. })));
    assert!(sessions[0].is_empty());
    drop(second);
    // Scratch of a step takes more than one cache.
    sessions.truncate(1);
    sessions[0].prefill(&PROMPT, None).unwrap();
}

#[test]
fn a_match_is_as_long_as_a_rewind_for_nothing() {
    let ids = text(30);
    for (name, tiny) in networks(quant::Q4_0) {
        let (_dir, path, _) = save(&tiny);
        let mut session = Session::new(&load(&path, 1, false), &CacheParams::default()).unwrap();
        assert_eq!(session.matching(&ids), 0);
        session.prefill(&ids[..20], None).unwrap();
        assert_eq!(
            (session.matching(&ids), session.matching(&ids[..20]), session.matching(&[])),
            (20, 20, 0),
            "{name}"
        );
        let mut other = ids.clone();
        other[12] = 299;
        let expected = if tiny.net.mixers.is_empty() { 12 } else { 0 };
        assert_eq!(session.matching(&other), expected, "{name}");
    }
}

#[test]
fn damaged_states_are_refused() {
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q4_0).shape(64, 2, 1, 32, 64).layers(1));
    let model = load(&path, 1, false);
    let mut session = Session::new(&model, &CacheParams { capacity: 64, ..Default::default() }).unwrap();
    session.prefill(&PROMPT, None).unwrap();
    let whole = saved_bytes(&session);
    assert!(restored(&model, &RestoreParams::default(), &whole).is_ok());
    for n in 0..whole.len() {
        let error = restored(&model, &RestoreParams::default(), &whole[..n]).err().expect("cut off");
        assert!(matches!(error, Error::Io { system_code: ENDED, .. }), "{n} bytes: {error}");
    }
    let mut random = Rng(5);
    for change in 0..10_000 {
        let mut bytes = whole.clone();
        // The head, of which every byte decides, as often as all the rest.
        let most = if change % 2 == 0 { 200 } else { bytes.len() };
        let at = random.next() as usize % most;
        bytes[at] ^= (random.next() % 255 + 1) as u8;
        let error = restored(&model, &RestoreParams::default(), &bytes).err().expect("damaged");
        assert!(matches!(error, Error::Format { .. }), "byte {at}: {error}");
    }
}

#[test]
fn a_cache_of_another_model_or_shape_is_refused() {
    let tiny = Tiny::new("llama", quant::Q4_0);
    let (_dir, path, _) = save(&tiny);
    let model = load(&path, 1, false);
    let mut session = Session::new(&model, &CacheParams { capacity: 64, ..Default::default() }).unwrap();
    session.prefill(&PROMPT, None).unwrap();
    let bytes = saved_bytes(&session);
    let changes: [fn(&mut Tiny); 3] = [|t| t.seed = 2, |t| t.dtype = quant::Q4_1, |t| t.net.eps = 1e-6];
    for change in changes {
        let (_dir, path, _) = save(&tiny.clone().change(change));
        let error = restored(&load(&path, 1, false), &RestoreParams::default(), &bytes).err().expect("another model");
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
    }
    let refused = |params: RestoreParams| restored(&model, &params, &bytes).err().expect("refused");
    let wider = refused(RestoreParams { k_type: Some(quant::F32), ..Default::default() });
    assert!(matches!(&wider, Error::Mismatch(what) if what.contains("keys")), "{wider}");
    let small = refused(RestoreParams { capacity: Some(20), ..Default::default() });
    assert!(matches!(small, Error::ContextFull { what: "the saved text", held: 0, more: 21, capacity: 20 }), "{small}");
    let long = Tiny::new("phi3", quant::F32).change(|t| {
        (t.fused_qkv, t.fused_gate_up) = (true, true);
        t.net.inv_freq = vec![tiny::inv_freq(10_000.0, 24); 2];
        t.ints = vec![("rope.scaling.original_context_length", 64), ("rope.dimension_count", 24)];
        let divisors = vec![1.0; 12];
        t.tensors = vec![("rope_factors_short.weight", divisors.clone()), ("rope_factors_long.weight", divisors)];
    });
    let (_dir, path, _) = save(&long);
    let model = load(&path, 1, false);
    let session = Session::new(&model, &CacheParams { capacity: 64, ..Default::default() }).unwrap();
    let params = RestoreParams { capacity: Some(65), ..Default::default() };
    let error = restored(&model, &params, &saved_bytes(&session)).err().expect("another rotation");
    assert!(matches!(&error, Error::Mismatch(what) if what.contains("different sides")), "{error}");
}

/// The bytes of a saved cache are those of its tokens, its logits, and of keys and values in whole blocks of 32
/// positions.
#[test]
fn a_saved_cache_is_as_large_as_what_it_holds() {
    let (_dir, path, _) = save(&Tiny::new("llama", quant::F32));
    let model = load(&path, 1, false);
    let mut session = Session::new(&model, &CacheParams { capacity: 640, ..Default::default() }).unwrap();
    let empty = saved_bytes(&session).len();
    session.prefill(&[7; 320], None).unwrap();
    // Keys and values of 32 numbers: 16 bits each and a scale of 32.
    let token = 2 * 2 * 2 * (32 * 2 + 4);
    assert_eq!(saved_bytes(&session).len() - empty, 320 * (4 + token) + 4 * 300);
}
