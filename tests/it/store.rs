//! Stores of prefixes: what is taken goes on to the same bits in every network, from memory and from files. The oracle
//! is a session that computed all tokens by itself.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use realizar::engine::{CacheParams, LoadParams, Model, Runtime, RuntimeParams, Session, Store, StoreParams};
use realizar::error::Error;
use realizar::quant;

use crate::support::save::save;
use crate::support::tiny::{self, Tiny};

fn load(path: &Path) -> Arc<Model> {
    let runtime = Runtime::new(RuntimeParams { threads: 2, ..Default::default() }).unwrap();
    Model::load(path, LoadParams { runtime: Some(runtime), device: 1, ..Default::default() }).unwrap()
}

fn bits(session: &Session) -> Vec<u32> {
    session.logits().expect("logits").iter().map(|x| x.to_bits()).collect()
}

fn text(first: u32, n: u32) -> Vec<u32> {
    (0..n).map(|i| (first + i * 37) % 300).collect()
}

fn cache(capacity: u32) -> CacheParams {
    CacheParams { capacity, ..Default::default() }
}

fn prefilled(model: &Arc<Model>, capacity: u32, tokens: &[u32]) -> Session {
    let mut session = Session::new(model, &cache(capacity)).unwrap();
    session.prefill(tokens, None).unwrap();
    session
}

/// Takes a prefix, computes the rest and compares with a session that computed all.
fn goes_on(name: &str, store: &Store, capacity: u32, tokens: &[u32], least: usize) {
    let (mut session, common) = store.take(tokens, 0, &cache(capacity)).unwrap().expect(name);
    assert!(common >= least && common < tokens.len(), "{name}: {common} of {} tokens", tokens.len());
    assert_eq!((session.tokens(), session.capacity()), (&tokens[..common], capacity as usize), "{name}");
    session.prefill(&tokens[common..], None).unwrap();
    assert!(bits(&session) == bits(&prefilled(store.model(), capacity, tokens)), "{name}");
}

#[test]
fn a_prefix_goes_on_to_the_same_bits_in_every_network() {
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::Q8_0)) {
        let (dir, path, _) = save(&tiny);
        let model = load(&path);
        let folder = dir.path().join("prefixes");
        let params = StoreParams { min_tokens: 4, path: Some(folder.clone()), ..Default::default() };
        let store = Store::new(&model, params.clone()).unwrap();
        let ids = text(0, 40);
        store.put(&prefilled(&model, 64, &ids[..20])).unwrap();
        let longer: Vec<u32> = ids[..20].iter().copied().chain(text(5, 9)).collect();
        goes_on(name, &store, 64, &longer, 20);
        // Another end, and another capacity. A recurrence can be rewound to few places only.
        let other: Vec<u32> = ids[..11].iter().copied().chain(text(3, 9)).collect();
        for tokens in [&other, &ids[..20].to_vec()] {
            if let Some((_, common)) = store.take(tokens, 0, &cache(64)).unwrap() {
                goes_on(name, &store, 64, tokens, common);
                goes_on(name, &store, 100, tokens, common);
            }
        }
        let info = store.info();
        assert_eq!((info.entries, info.files), (1, 0), "{name}");
        drop(store);
        // As by another process.
        let store = Store::new(&load(&path), params).unwrap();
        assert_eq!((store.info().entries, store.info().files), (0, 1), "{name}");
        goes_on(name, &store, 64, &longer, 20);
        goes_on(name, &store, 80, &longer, 20);
        assert!(store.info().disk_bytes > 0);
        store.clear();
        assert!(store.take(&longer, 0, &cache(64)).unwrap().is_none(), "{name}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{name}");
    }
}

fn llama(dir: &tempfile::TempDir) -> (Arc<Model>, StoreParams) {
    let (_kept, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let params = StoreParams { min_tokens: 4, path: Some(dir.path().join("prefixes")), ..Default::default() };
    (load(&path), params)
}

#[test]
fn what_was_not_used_for_longest_goes_first() {
    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let store = Store::new(&model, params.clone()).unwrap();
    store.put(&prefilled(&model, 64, &text(0, 20))).unwrap();
    let entry = store.info().memory_bytes;
    assert!(entry > 0);
    drop(store);
    let store = Store::new(&model, StoreParams { memory_limit: 2 * entry, ..params.clone() }).unwrap();
    store.clear();
    for first in [0, 1, 2] {
        store.put(&prefilled(&model, 64, &text(first, 20))).unwrap();
        // The first one is used each time.
        goes_on("the first", &store, 64, &text(0, 20), 19);
    }
    let info = store.info();
    assert_eq!((info.entries, info.files), (2, 1));
    assert!(info.memory_bytes <= 2 * entry);
    for first in [0, 1, 2] {
        goes_on("from memory or a file", &store, 64, &text(first, 20), 19);
    }
    // What goes on from another takes its place, and adds only what is new.
    let longer: Vec<u32> = (0..25).map(|i| i * 37 % 300).collect();
    let (mut session, common) = store.take(&longer, 0, &cache(64)).unwrap().expect("a prefix");
    session.prefill(&longer[common..], None).unwrap();
    store.put(&session).unwrap();
    assert_eq!(store.info().entries, 2);
    assert!(store.info().memory_bytes < 2 * entry);
    drop(store);
    // A limit on files.
    let bytes = Store::new(&model, params.clone()).unwrap().info().disk_bytes;
    let limit = StoreParams { memory_limit: 1, disk_limit: bytes / 2, ..params };
    let store = Store::new(&model, limit).unwrap();
    store.put(&prefilled(&model, 64, &text(9, 20))).unwrap();
    assert!(store.info().disk_bytes <= bytes / 2 && store.info().files > 0);
}

#[test]
fn damaged_and_foreign_files_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let folder = params.path.clone().unwrap();
    drop({
        let store = Store::new(&model, params.clone()).unwrap();
        store.put(&prefilled(&model, 64, &text(0, 20))).unwrap();
        store
    });
    let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&file).unwrap();
    for foreign in ["notes.txt", "0123456789abcdef-0000000000000000.rzprefix"] {
        fs::write(folder.join(foreign), "somebody else's").unwrap();
    }
    for cut in [0, 10, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        let store = Store::new(&model, params.clone()).unwrap();
        assert!(store.take(&text(0, 30), 0, &cache(64)).unwrap().is_none(), "{cut} bytes");
        assert!(!file.exists(), "{cut} bytes");
    }
    for at in (0..whole.len()).step_by(whole.len() / 31) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&file, damaged).unwrap();
        let store = Store::new(&model, params.clone()).unwrap();
        if let Some((mut session, common)) = store.take(&text(0, 30), 0, &cache(64)).unwrap() {
            panic!("byte {at}: {common} tokens {:?}", session.fetch_logits());
        }
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "what is not the store's stays");
    // A folder that cannot be one; a model of other weights; adapters are tested with the C interface.
    let error = Store::new(&model, StoreParams { path: Some(folder.join("notes.txt")), ..params.clone() });
    assert!(matches!(error, Err(Error::Io { .. })));
    let (_kept, path, _) = save(&Tiny::new("qwen2", quant::Q8_0));
    let store = Store::new(&model, params).unwrap();
    assert!(matches!(store.put(&prefilled(&load(&path), 64, &text(0, 20))), Err(Error::Mismatch(_))));
}

#[test]
fn threads_share_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let store = Store::new(&model, StoreParams { memory_limit: 20_000, ..params }).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (store, model) = (&store, &model);
            scope.spawn(move || {
                for round in 0..12 {
                    let tokens = text((thread + round) % 5, 24);
                    let (mut session, common) = match store.take(&tokens, 0, &cache(64)).unwrap() {
                        Some(taken) => taken,
                        None => (Session::new(model, &cache(64)).unwrap(), 0),
                    };
                    session.prefill(&tokens[common..], None).unwrap();
                    assert!(bits(&session) == bits(&prefilled(model, 64, &tokens)));
                    store.put(&session).unwrap();
                }
            });
        }
    });
    assert!(store.info().hits > 0);
}
