//! Prefix caches: a session taken from a store continues bit-identically in every network, from memory and from files.
//! The oracle is a session that computed all tokens.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use realizar::cpu::kernels::Isa;
use realizar::engine::{
    Adapter, Adapters, CacheParams, Cancel, Chat, Conversation, ConversationParams, HostParallel, LoadParams, Model,
    ReplyParams, Runtime, RuntimeParams, Session, Share, Store, StoreInfo, StoreParams,
};
use realizar::error::{Error, Result};
use realizar::quant;

use crate::support::adapter_file::gguf;
use crate::support::adapters::Factors;
use crate::support::calls::{MODEL, with_template};
use crate::support::models;
use crate::support::save::save;
use crate::support::tiny::{self, Rng, Tiny};

/// Lines of a log.
type Lines = Arc<Mutex<Vec<String>>>;

/// A model, and the lines of its log.
fn load_with(path: &Path, threads: u32, isa: Option<Isa>) -> (Arc<Model>, Lines) {
    let lines = Lines::default();
    let kept = lines.clone();
    let log = Box::new(move |_, line: &str| kept.lock().unwrap().push(line.to_owned()));
    let runtime = Runtime::new(RuntimeParams { threads, log: Some(log), ..Default::default() }).unwrap();
    let params = LoadParams { runtime: Some(runtime), isa, options: models::cpu(), ..Default::default() };
    (Model::load(path, params).unwrap(), lines)
}

fn take(store: &Store, tokens: &[u32], capacity: u32) -> Result<Option<(Session, usize)>> {
    store.take(tokens, 0, &cache(capacity), &Adapters::default(), &[])
}

/// The state of a store as soon as its thread has written what is expected.
fn info_when(store: &Store, is_wanted: impl Fn(&StoreInfo) -> bool) -> StoreInfo {
    for _ in 0..1000 {
        let info = store.info();
        if is_wanted(&info) {
            return info;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?}", store.info())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
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
    let (mut session, common) = take(store, tokens, capacity).unwrap().expect(name);
    assert!(common >= least && common < tokens.len(), "{name}: {common} of {} tokens", tokens.len());
    assert_eq!((session.tokens(), session.capacity()), (&tokens[..common], capacity as usize), "{name}");
    session.prefill(&tokens[common..], None).unwrap();
    assert!(bits(&session) == bits(&prefilled(store.model(), capacity, tokens)), "{name}");
}

#[test]
fn a_prefix_goes_on_to_the_same_bits_in_every_network() {
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::Q8_0)) {
        let (dir, path, _) = save(&tiny);
        let model = models::load_threads(&path, 2);
        let folder = dir.path().join("prefixes");
        let params =
            StoreParams { min_tokens: 4, write_delay: Duration::MAX, path: Some(folder.clone()), ..Default::default() };
        let store = Store::new(&model, params.clone()).unwrap();
        let ids = text(0, 40);
        store.put(&prefilled(&model, 64, &ids[..20])).unwrap();
        let longer: Vec<u32> = ids[..20].iter().copied().chain(text(5, 9)).collect();
        goes_on(name, &store, 64, &longer, 20);
        // Another end, and another capacity. A recurrence can be rewound to few places only.
        let other: Vec<u32> = ids[..11].iter().copied().chain(text(3, 9)).collect();
        for tokens in [&other, &ids[..20].to_vec()] {
            if let Some((_, common)) = take(&store, tokens, 64).unwrap() {
                goes_on(name, &store, 64, tokens, common);
                goes_on(name, &store, 100, tokens, common);
            }
        }
        let info = store.info();
        assert_eq!((info.entries, info.files), (1, 0), "{name}");
        drop(store);
        // As by another process.
        let store = Store::new(&models::load_threads(&path, 2), params).unwrap();
        assert_eq!((store.info().entries, store.info().files), (0, 1), "{name}");
        goes_on(name, &store, 64, &longer, 20);
        goes_on(name, &store, 80, &longer, 20);
        assert!(store.info().disk_bytes > 0);
        store.clear();
        assert!(take(&store, &longer, 64).unwrap().is_none(), "{name}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{name}");
    }
}

fn llama(dir: &tempfile::TempDir) -> (Arc<Model>, StoreParams) {
    let (_kept, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let params = StoreParams {
        min_tokens: 4,
        write_delay: Duration::MAX,
        path: Some(dir.path().join("prefixes")),
        ..Default::default()
    };
    (models::load_threads(&path, 2), params)
}

/// A file that is not read because of a cancel stays, and is read by the next call.
#[test]
fn a_cancel_ends_the_reading_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let ids = text(0, 20);
    let store = Store::new(&model, params.clone()).unwrap();
    store.put(&prefilled(&model, 64, &ids)).unwrap();
    drop(store);
    let longer: Vec<u32> = ids.iter().copied().chain(text(5, 9)).collect();
    // The first store has yet to look into the file, the second one knows what it begins with.
    for is_known in [false, true] {
        let store = Store::new(&model, params.clone()).unwrap();
        assert!(!is_known || store.info().files == 1);
        let cancel = Cancel::default();
        let take = || store.take(&longer, 0, &cache(64), &Adapters::default(), &[None, Some(&cancel)]);
        cancel.fire();
        assert!(matches!(take(), Err(Error::Cancelled)), "{is_known}");
        cancel.reset();
        cancel.set_deadline(Some(Duration::ZERO));
        assert!(matches!(take(), Err(Error::Deadline)), "{is_known}");
        let info = store.info();
        assert_eq!((info.files, info.hits, info.misses), (1, 0, 0), "{is_known}");
        cancel.reset();
        let (session, common) = take().unwrap().expect("a prefix");
        assert_eq!((common, session.len()), (20, 20), "{is_known}");
    }
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
    let info = info_when(&store, |info| (info.entries, info.files) == (2, 1));
    assert!(info.memory_bytes <= 2 * entry);
    for first in [0, 1, 2] {
        goes_on("from memory or a file", &store, 64, &text(first, 20), 19);
    }
    // An entry that goes on from another takes its place.
    let longer: Vec<u32> = (0..25).map(|i| i * 37 % 300).collect();
    let (mut session, common) = take(&store, &longer, 64).unwrap().expect("a prefix");
    session.prefill(&longer[common..], None).unwrap();
    store.put(&session).unwrap();
    assert_eq!(store.info().entries, 2);
    assert!(store.info().memory_bytes <= 2 * entry);
    drop(store);
    // A limit on files.
    let bytes = Store::new(&model, params.clone()).unwrap().info().disk_bytes;
    let limit = StoreParams { memory_limit: 1, disk_limit: bytes / 2, ..params.clone() };
    let store = Store::new(&model, limit).unwrap();
    store.put(&prefilled(&model, 64, &text(9, 20))).unwrap();
    let info = info_when(&store, |info| info.entries == 0);
    assert!(info.disk_bytes <= bytes / 2 && info.files > 0 && info.unwritten == 0);
    drop(store);
    // A store that finds files does not use them, but one that takes from them does.
    let path = Some(dir.path().join("used"));
    let used = StoreParams { path, ..params.clone() };
    for first in [3, 4] {
        let store = Store::new(&model, used.clone()).unwrap();
        store.put(&prefilled(&model, 64, &text(first, 20))).unwrap();
        drop(store);
        // A file system may count time in hundredths of a second.
        std::thread::sleep(Duration::from_millis(30));
    }
    let two = Store::new(&model, used.clone()).unwrap().info().disk_bytes;
    let store = Store::new(&model, StoreParams { disk_limit: two * 5 / 4, ..used.clone() }).unwrap();
    goes_on("the older file", &store, 64, &text(3, 30), 20);
    std::thread::sleep(Duration::from_millis(30));
    store.put(&prefilled(&model, 64, &text(5, 20))).unwrap();
    drop(store);
    let store = Store::new(&model, used).unwrap();
    for (first, is_there) in [(3, true), (4, false), (5, true)] {
        assert_eq!(take(&store, &text(first, 30), 64).unwrap().is_some(), is_there, "{first}");
    }
    // One that is larger than the limit by itself displaces nothing.
    let small = StoreParams {
        memory_limit: 1,
        disk_limit: 1000,
        ..StoreParams { path: Some(dir.path().join("small")), ..params }
    };
    let store = Store::new(&model, small).unwrap();
    store.put(&prefilled(&model, 64, &text(9, 20))).unwrap();
    info_when(&store, |info| (info.entries, info.files, info.unwritten) == (0, 0, 1));
    assert!(names(&dir.path().join("small")).is_empty());
}

#[test]
fn what_entries_share_counts_once_and_as_long_as_one_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let params = StoreParams { path: None, ..params };
    let store = Store::new(&model, params.clone()).unwrap();
    let begin = text(0, 512);
    let ends: Vec<Vec<u32>> = (0..4).map(|i| begin.iter().copied().chain(text(50 + i, 20)).collect()).collect();
    store.put(&prefilled(&model, 600, &ends[0])).unwrap();
    let alone = store.info().memory_bytes;
    store.clear();
    assert_eq!(store.info().memory_bytes, 0);
    store.put(&prefilled(&model, 600, &begin)).unwrap();
    let of_begin = store.info().memory_bytes;
    for end in &ends {
        let (mut session, common) = take(&store, end, 600).unwrap().unwrap();
        assert_eq!(common, 512);
        session.prefill(&end[common..], None).unwrap();
        store.put(&session).unwrap();
    }
    let info = store.info();
    assert_eq!(info.entries, 4);
    assert!(info.memory_bytes < alone + of_begin, "{info:?}, {alone} alone, {of_begin} their beginning");
    // The last one has the beginning by itself.
    let one = Store::new(&model, StoreParams { max_entries: 1, ..params }).unwrap();
    for end in &ends {
        one.put(&take(&store, &[&end[..], &[1]].concat(), 600).unwrap().unwrap().0).unwrap();
    }
    assert_eq!((one.info().entries, one.info().memory_bytes), (1, alone));
}

/// Adapters of the tiny model, of which the first two are equal.
fn adapters(model: &Arc<Model>, tiny: &Tiny, folder: &Path) -> Vec<Arc<Adapter>> {
    let (file, ..) = tiny.file();
    let name = "blk.0.ffn_down.weight";
    let dims = &file.tensors.iter().find(|tensor| tensor.name == name).unwrap().dims;
    let (rows, cols) = (dims[0] as usize, dims[1] as usize);
    let load = |(i, seed)| {
        let factors = Factors::new(name, &[(name.to_owned(), rows)], cols, 4, &mut Rng(seed));
        let path = folder.join(format!("adapter{i}.gguf"));
        fs::write(&path, gguf(tiny.architecture, &[factors], 8.0, quant::F32).build().0).unwrap();
        Adapter::load(model, &path, None).unwrap()
    };
    [5, 5, 6].into_iter().enumerate().map(load).collect()
}

#[test]
fn prefixes_belong_to_equal_adapters() {
    let tiny = Tiny::new("llama", quant::Q8_0);
    let (dir, path, _) = save(&tiny);
    let params = StoreParams {
        min_tokens: 4,
        write_delay: Duration::MAX,
        path: Some(dir.path().join("prefixes")),
        ..Default::default()
    };
    let tokens = text(0, 24);
    // Numbers of adapters and their scales. Those of the first of a row are equal.
    let sets: [&[(&[usize], &[f32])]; 5] = [
        &[(&[], &[]), (&[0], &[0.0])],
        &[(&[0], &[1.0]), (&[1], &[1.0]), (&[2, 1], &[0.0, 1.0])],
        &[(&[0], &[0.5])],
        &[(&[2], &[1.0])],
        &[(&[0, 2], &[1.0, 1.0]), (&[1, 2], &[1.0, 1.0])],
    ];
    let mut all = HashMap::new();
    for round in 0..2 {
        let model = models::load_threads(&path, 2);
        let loaded = adapters(&model, &tiny, dir.path());
        let of = |(numbers, scales): (&[usize], &[f32])| {
            let chosen: Vec<_> = numbers.iter().map(|i| loaded[*i].clone()).collect();
            let mut session = Session::new(&model, &cache(64)).unwrap();
            session.set_adapters(&chosen, scales).unwrap();
            (Adapters::new(&model, &chosen, scales).unwrap(), session)
        };
        let store = Store::new(&model, params.clone()).unwrap();
        for (i, set) in sets.iter().enumerate() {
            for (j, &equal) in set.iter().enumerate() {
                let (adapters, mut whole) = of(equal);
                let taken = store.take(&tokens, 0, &cache(64), &adapters, &[]).unwrap();
                assert_eq!(taken.is_some(), round > 0 || j > 0, "set {i}.{j}");
                whole.prefill(&tokens, None).unwrap();
                if let Some((mut session, common)) = taken {
                    assert_eq!(common, 20);
                    session.prefill(&tokens[common..], None).unwrap();
                    assert!(bits(&session) == bits(&whole), "set {i}.{j}");
                }
                assert_eq!(all.entry(i).or_insert_with(|| bits(&whole)), &bits(&whole), "set {i}.{j} by itself");
                whole.truncate(20).unwrap();
                store.put(&whole).unwrap();
            }
        }
        assert_eq!(store.info().entries, sets.len());
        // Entries keep no adapter in memory.
        let counts: Vec<usize> = loaded.iter().map(Arc::strong_count).collect();
        assert_eq!(counts, [1; 3]);
    }
    let different: std::collections::HashSet<_> = all.values().collect();
    assert_eq!(different.len(), sets.len());
    let store = Store::new(&models::load_threads(&path, 2), params).unwrap();
    assert_eq!(store.info().files, sets.len());
    store.clear();
    assert_eq!(names(&dir.path().join("prefixes")), [""; 0]);
}

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% endif %}";

/// A conversation with a reply to one question that is begun.
fn asked(
    model: &Arc<Model>,
    store: Option<&Arc<Store>>,
    adapter: Option<&Arc<Adapter>>,
    question: &str,
) -> Conversation {
    let adapters: Vec<_> = adapter.into_iter().cloned().collect();
    let scales = vec![1.0; adapters.len()];
    let params = ConversationParams {
        cache: cache(256),
        adapters: &adapters,
        scales: &scales,
        store: store.cloned(),
        ..Default::default()
    };
    let mut talk = Conversation::new(model, Chat::new(&[], true), params).unwrap();
    talk.add_text("system", &"Be brief and kind. ".repeat(3)).unwrap();
    talk.add_text("user", question).unwrap();
    talk.reply(ReplyParams { max_tokens: 12, ..Default::default() }).unwrap();
    talk
}

/// The messages of a conversation with one question.
fn replied(model: &Arc<Model>, store: Option<&Arc<Store>>, adapter: Option<&Arc<Adapter>>, question: &str) -> String {
    let mut talk = asked(model, store, adapter, question);
    while !talk.step(None).unwrap() {}
    talk.view().past().chat.to_json()
}

#[test]
fn a_prompt_is_kept_before_its_reply_where_much_of_it_is_new() {
    let file = with_template(TEMPLATE);
    let model = models::load_threads(file.path(), 2);
    let store = Arc::new(Store::new(&model, StoreParams { min_tokens: 32, ..Default::default() }).unwrap());
    let mut at_first_token = Vec::new();
    for question in ["One?", "One!"] {
        let mut talk = asked(&model, Some(&store), None, question);
        while talk.info().job.is_none_or(|job| job.tokens == 0) {
            assert!(!talk.step(Some(std::time::Duration::ZERO)).unwrap());
        }
        at_first_token.push((store.info().entries, talk.info().prompt - talk.info().reused));
        while !talk.step(None).unwrap() {}
    }
    let [(1, first), (1, second)] = at_first_token[..] else { panic!("{at_first_token:?}") };
    assert!(first >= 32 && second < 32, "{first} and {second} new tokens");
    // A reply that has ended is kept with its prompt.
    assert_eq!(store.info().entries, 2);

    // What a conversation holds may be new to a store that it is given later.
    let mut talk = asked(&model, None, None, "Tell me of a different thing, at length, please.");
    while !talk.step(None).unwrap() {}
    talk.set_store(Some(store.clone())).unwrap();
    talk.add_text("user", "So?").unwrap();
    talk.reply(ReplyParams { max_tokens: 12, ..Default::default() }).unwrap();
    while talk.info().job.is_none_or(|job| job.tokens == 0) {
        assert!(!talk.step(Some(std::time::Duration::ZERO)).unwrap());
    }
    assert!(talk.info().prompt - talk.info().reused < 32);
    assert_eq!(store.info().entries, 3);
}

#[test]
fn conversations_with_equal_adapters_share_prefixes() {
    let file = with_template(TEMPLATE);
    let model = models::load_threads(file.path(), 2);
    let (name, dir) = ("blk.1.ffn_down.weight", tempfile::tempdir().unwrap());
    let info = model.info();
    let (rows, cols) = (info.hidden_dim as usize, info.ffn_dim as usize);
    let load = |seed| {
        let factors = Factors::new(name, &[(name.to_owned(), rows)], cols, 4, &mut Rng(seed));
        let path = dir.path().join("adapter.gguf");
        fs::write(&path, gguf("llama", &[factors], 64.0, quant::F32).build().0).unwrap();
        Adapter::load(&model, &path, None).unwrap()
    };
    let adapters = [None, Some(load(3)), Some(load(3)), Some(load(4))];
    let store = Arc::new(Store::new(&model, StoreParams { min_tokens: 16, ..Default::default() }).unwrap());
    for (i, adapter) in adapters.iter().enumerate() {
        for question in ["One?", "Two?"] {
            let hits = store.info().hits;
            let with = replied(&model, Some(&store), adapter.as_ref(), question);
            assert_eq!(with, replied(&model, None, adapter.as_ref(), question), "{i}: {question}");
            let is_known = question == "Two?" || i == 2;
            assert_eq!(store.info().hits - hits, u64::from(is_known), "{i}: {question}");
        }
    }
}

#[test]
fn a_prefix_of_another_instruction_set_is_as_good() {
    let (dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let params = StoreParams {
        min_tokens: 4,
        write_delay: Duration::MAX,
        path: Some(dir.path().join("prefixes")),
        ..Default::default()
    };
    let scalar = load_with(&path, 1, Some(Isa::Scalar)).0;
    Store::new(&scalar, params.clone()).unwrap().put(&prefilled(&scalar, 64, &text(0, 20))).unwrap();
    let store = Store::new(&models::load_threads(&path, 2), params).unwrap();
    goes_on("another instruction set", &store, 64, &text(0, 30), 20);
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
    // Of another version, and of a machine with another order of bytes: their heads are whole.
    for change in [|head: &mut [u8]| head[8] += 1, |head: &mut [u8]| head.chunks_mut(8).for_each(<[u8]>::reverse)] {
        let mut other = whole.clone();
        change(&mut other[..128]);
        let checksum = twox_hash::XxHash64::oneshot(0, &other[..128]);
        other[128..136].copy_from_slice(&checksum.to_ne_bytes());
        fs::write(&file, other).unwrap();
        let store = Store::new(&model, params.clone()).unwrap();
        assert_eq!((store.info().files, file.exists()), (0, false));
    }
    for cut in [0, 10, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        let store = Store::new(&model, params.clone()).unwrap();
        assert!(take(&store, &text(0, 30), 64).unwrap().is_none(), "{cut} bytes");
        assert!(!file.exists(), "{cut} bytes");
    }
    for at in (0..whole.len()).step_by(whole.len() / 31) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&file, damaged).unwrap();
        let store = Store::new(&model, params.clone()).unwrap();
        if let Some((mut session, common)) = take(&store, &text(0, 30), 64).unwrap() {
            panic!("byte {at}: {common} tokens {:?}", session.fetch_logits());
        }
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "what is not the store's stays");
    // A folder that cannot be one; a model of other weights, also where its file has a name of this one.
    let error = Store::new(&model, StoreParams { path: Some(folder.join("notes.txt")), ..params.clone() });
    assert!(matches!(error, Err(Error::Io { .. })));
    let (_kept, path, _) = save(&Tiny::new("qwen2", quant::Q8_0));
    let other = models::load_threads(&path, 2);
    let store = Store::new(&model, params.clone()).unwrap();
    assert!(matches!(store.put(&prefilled(&other, 64, &text(0, 20))), Err(Error::Mismatch(_))));
    drop(store);
    let before = names(&folder);
    Store::new(&other, params.clone()).unwrap().put(&prefilled(&other, 64, &text(0, 20))).unwrap();
    let of_other = names(&folder).into_iter().find(|name| !before.contains(name)).unwrap();
    fs::rename(folder.join(of_other), &file).unwrap();
    assert!(take(&Store::new(&model, params).unwrap(), &text(0, 30), 64).unwrap().is_none());
    assert_eq!(names(&folder), before);
}

/// The first file of a store that has remembered `text(0, 20)`.
#[cfg(unix)]
fn left(model: &Arc<Model>, params: &StoreParams) -> PathBuf {
    let store = Store::new(model, params.clone()).unwrap();
    store.put(&prefilled(model, 64, &text(0, 20))).unwrap();
    drop(store);
    let folder = params.path.as_ref().unwrap();
    folder.join(&names(folder)[0])
}

#[cfg(unix)]
#[test]
fn what_others_may_have_written_decides_nothing() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let folder = params.path.clone().unwrap();
    let file = left(&model, &params);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let is_passed_over = |why: &str| {
        let store = Store::new(&model, params.clone()).unwrap();
        assert!(take(&store, &text(0, 30), 64).unwrap().is_none() && store.info().files == 0, "{why}");
        store.clear();
        assert!(fs::symlink_metadata(&file).is_ok(), "{why}: it is not the store's to remove");
    };
    let is_refused = |why: &str| match Store::new(&model, params.clone()) {
        Err(Error::Io { path, what, .. }) => {
            assert!(path == folder.to_str().unwrap() && what.contains("another user"), "{why}: {path}: {what}");
        }
        other => panic!("{why}: {:?}", other.err()),
    };
    for wide in [0o620, 0o602, 0o666] {
        set_mode(&file, wide);
        is_passed_over("a file that others may write to");
    }
    set_mode(&file, 0o600);
    for wide in [0o720, 0o702, 0o1777] {
        set_mode(&folder, wide);
        is_refused("a folder that others may write to");
    }
    set_mode(&folder, 0o755);
    assert_eq!(Store::new(&model, params.clone()).unwrap().info().files, 1);
    // SAFETY: asks for a number.
    #[allow(unsafe_code)]
    if unsafe { libc::geteuid() } == 0 {
        chown(&file, Some(12345), None).unwrap();
        is_passed_over("a file of another user");
        chown(&file, Some(0), None).unwrap();
        chown(&folder, Some(12345), None).unwrap();
        is_refused("a folder of another user");
        chown(&folder, Some(0), None).unwrap();
    } else {
        eprintln!("skipped: files of another user, which only root can make");
    }
    // A link to a file that is as good as ever, a pipe, which would wait for a writer, and a folder.
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    is_passed_over("a link");
    // A prefix of that name takes its place and leaves what it led to alone.
    assert_eq!(left(&model, &params), file);
    assert!(fs::symlink_metadata(&file).unwrap().is_file() && elsewhere.exists());
    fs::remove_file(&file).unwrap();
    assert!(
        Command::new("mkfifo")
            .args([&file, &folder.join("a.rzprefix.00000000000000ff.part")])
            .status()
            .unwrap()
            .success()
    );
    is_passed_over("a pipe");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    is_passed_over("a folder");
    let store = Store::new(&model, StoreParams { memory_limit: 1, ..params.clone() }).unwrap();
    store.put(&prefilled(&model, 64, &text(0, 20))).unwrap();
    info_when(&store, |info| info.unwritten == 1);
}

#[cfg(unix)]
#[test]
fn a_full_disk_costs_what_has_no_room_in_memory() {
    let Some((_, model, log, params)) = work(2) else {
        let (dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
        let test = "store::a_full_disk_costs_what_has_no_room_in_memory";
        assert!(at_work(test, "put", &path, &dir.path().join("prefixes")).wait().unwrap().success());
        return;
    };
    let folder = params.path.clone().unwrap();
    let store = Store::new(&model, StoreParams { max_entries: 2, memory_limit: 0, ..params }).unwrap();
    // The system lets no file grow beyond this, as it does where a disk is full.
    #[allow(unsafe_code)]
    // SAFETY: numbers alone; no thread of this process minds the signal or the limit.
    let limit = |bytes| unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    };
    limit(1000);
    for first in [0, 1, 2] {
        store.put(&prefilled(&model, 64, &text(first, 20))).unwrap();
    }
    info_when(&store, |info| (info.entries, info.files, info.unwritten) == (2, 0, 1));
    assert_eq!(names(&folder), [""; 0]);
    assert!(
        log.lock().unwrap().iter().any(|line| line.contains("cannot write a prefix, which is forgotten: cannot write"))
    );
    for first in [1, 2] {
        goes_on("from memory", &store, 64, &text(first, 30), 20);
    }
    assert!(take(&store, &text(0, 30), 64).unwrap().is_none());
    limit(libc::RLIM_INFINITY);
    drop(store);
    assert_eq!(names(&folder).len(), 2);
}

/// Work of a process that this test starts, in a folder and with a model.
const WORK: &str = "REALIZAR_STORE_WORK";

fn at_work(test: &str, work: &str, path: &Path, folder: &Path) -> Child {
    command_of(test, work, path, folder).stdout(Stdio::piped()).spawn().unwrap()
}

/// `at_work` for a process that goes on when a line comes.
fn start_at_work(test: &str, work: &str, path: &Path, folder: &Path) -> Child {
    command_of(test, work, path, folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn command_of(test: &str, work: &str, path: &Path, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(WORK, work).env("STORE_MODEL", path).env("STORE_FOLDER", folder);
    command
}

/// Returns the work of such a process, with its model, log and store; the folder has room for some files of 20 tokens.
fn work(threads: u32) -> Option<(String, Arc<Model>, Lines, StoreParams)> {
    let work = std::env::var(WORK).ok()?;
    let (model, log) = load_with(&PathBuf::from(std::env::var_os("STORE_MODEL")?), threads, None);
    let path = std::env::var_os("STORE_FOLDER").map(PathBuf::from);
    let params = StoreParams { min_tokens: 4, write_delay: Duration::MAX, memory_limit: 1, path, ..Default::default() };
    Some((work, model, log, params))
}

#[test]
fn processes_share_a_folder() {
    if let Some((work, model, log, params)) = work(2) {
        let (first, disk_limit) = work.split_once(' ').unwrap();
        let (first, disk_limit): (u32, u64) = (first.parse().unwrap(), disk_limit.parse().unwrap());
        let store = Store::new(&model, StoreParams { disk_limit, ..params }).unwrap();
        let whole: Vec<Vec<u32>> = (0..6).map(|i| bits(&prefilled(&model, 64, &text(i, 24)))).collect();
        for round in first..first + 60 {
            let (tokens, whole) = (text(round % 6, 24), &whole[round as usize % 6]);
            let taken = take(&store, &tokens, 64).unwrap();
            let (mut session, common) = taken.unwrap_or_else(|| (Session::new(&model, &cache(64)).unwrap(), 0));
            session.prefill(&tokens[common..], None).unwrap();
            assert!(bits(&session) == *whole, "round {round}");
            store.put(&session).unwrap();
        }
        assert_eq!(
            *log.lock().unwrap().iter().filter(|line| line.contains("stored prefix")).collect::<Vec<_>>(),
            [""; 0]
        );
        return;
    }
    let (dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let folder = dir.path().join("prefixes");
    let params =
        StoreParams { min_tokens: 4, write_delay: Duration::MAX, path: Some(folder.clone()), ..Default::default() };
    let model = models::load_threads(&path, 2);
    Store::new(&model, params.clone()).unwrap().put(&prefilled(&model, 64, &text(0, 24))).unwrap();
    let limit = Store::new(&model, params).unwrap().info().disk_bytes * 7 / 2;
    let mut all: Vec<Child> = (0..3)
        .map(|first| at_work("store::processes_share_a_folder", &format!("{first} {limit}"), &path, &folder))
        .collect();
    for child in &mut all {
        assert!(child.wait().unwrap().success());
    }
    let sizes: Vec<u64> = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).collect();
    assert!(sizes.len() <= 3 && sizes.iter().sum::<u64>() <= limit, "{sizes:?} of {limit}");
    assert!(names(&folder).iter().all(|name| name.ends_with(".rzprefix")) && !sizes.is_empty());
}

#[test]
fn a_process_that_is_killed_leaves_nothing_wrong() {
    if let Some((_, model, _, params)) = work(1) {
        let store = Store::new(&model, params).unwrap();
        let mut session = prefilled(&model, 600, &text(0, 400));
        store.clear();
        println!("ready");
        loop {
            for len in (100..400).rev() {
                session.truncate(len).unwrap();
                store.put(&session).unwrap();
            }
            // Files stay meanwhile.
            session = prefilled(&model, 600, &text(0, 400));
            store.clear();
        }
    }
    let (dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let folder = dir.path().join("prefixes");
    let (model, log) = load_with(&path, 2, None);
    let tokens = text(0, 410);
    let whole = bits(&prefilled(&model, 600, &tokens));
    let (mut hits, mut unfinished) = (0, 0);
    for round in 0..60 {
        // On a slow machine the first processes are killed before a file is complete.
        if round >= 12 && hits > 0 {
            break;
        }
        let mut child = at_work("store::a_process_that_is_killed_leaves_nothing_wrong", "put", &path, &folder);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(|line| line.ok()).any(|line| line.contains("ready")));
        std::thread::sleep(Duration::from_millis(3 + 7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        unfinished += names(&folder).iter().filter(|name| name.ends_with(".part")).count();
        let params =
            StoreParams { min_tokens: 4, write_delay: Duration::MAX, path: Some(folder.clone()), ..Default::default() };
        let store = Store::new(&model, params).unwrap();
        assert!(names(&folder).iter().all(|name| name.ends_with(".rzprefix")), "{:?}", names(&folder));
        if let Some((mut session, common)) = take(&store, &tokens, 600).unwrap() {
            session.prefill(&tokens[common..], None).unwrap();
            assert!(bits(&session) == whole, "round {round}");
            hits += 1;
        }
    }
    println!("{hits} hits, {unfinished} unfinished files");
    assert!(hits > 0);
    assert_eq!(*log.lock().unwrap().iter().filter(|line| line.contains("stored prefix")).collect::<Vec<_>>(), [""; 0]);
}

/// Without limits a store takes a tenth of what the system's own tools say is free, as on a phone, and no more than a
/// large machine can spare.
#[cfg(target_os = "linux")]
#[test]
fn a_store_without_limits_takes_a_part_of_what_is_free() {
    let model = models::load_threads(Path::new(MODEL), 2);
    let folder = tempfile::tempdir().unwrap();
    let params = StoreParams { path: Some(folder.path().join("prefixes")), ..Default::default() };
    let info = Store::new(&model, params).unwrap().info();
    let number = |text: &str| text.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap();
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let free = 1024 * number(memory.lines().find(|line| line.starts_with("MemAvailable")).unwrap());
    let df = Command::new("df").args(["-B1", "--output=avail"]).arg(folder.path()).output().unwrap();
    let disk = number(&String::from_utf8(df.stdout).unwrap());
    // Other programs take and free some meanwhile.
    let is_near =
        |limit: u64, free: u64, most: u64| limit <= most && limit.abs_diff((free / 10).min(most)) <= free / 40;
    assert!(is_near(info.memory_limit, free, 1 << 30), "{} of {free}", info.memory_limit);
    assert!(is_near(info.disk_limit, disk, 16 << 30), "{} of {disk}", info.disk_limit);
    let given = StoreParams { memory_limit: 7 << 30, ..Default::default() };
    let info = Store::new(&model, given).unwrap().info();
    assert_eq!((info.memory_limit, info.disk_limit), (7 << 30, 0));
}

/// A stored prefix is on the disk within seconds, while the process continues, and stays when the process is killed; a
/// text that grew has one file. The same with a runtime of one thread.
#[test]
fn what_was_put_outlives_a_killed_process() {
    let test = "store::what_was_put_outlives_a_killed_process";
    for threads in [1, 2] {
        if let Some((work, model, _, params)) = work(threads) {
            if work != threads.to_string() {
                continue;
            }
            let params = StoreParams { memory_limit: 0, write_delay: Duration::ZERO, ..params };
            let store = Store::new(&model, params).unwrap();
            let mut session = prefilled(&model, 600, &text(0, 300));
            store.put(&session).unwrap();
            println!("put");
            for line in std::io::stdin().lines() {
                // More of the same text, as a conversation puts it.
                assert_eq!(line.unwrap(), "more");
                session.prefill(&text(0, 400)[300..], None).unwrap();
                store.put(&session).unwrap();
                println!("more");
            }
            return;
        }
    }
    let (dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let model = models::load_threads(&path, 2);
    let (tokens, longer) = (text(0, 310), text(0, 410));
    let [whole, whole_longer] = [&tokens, &longer].map(|tokens| bits(&prefilled(&model, 600, tokens)));
    for threads in ["1", "2"] {
        let folder = dir.path().join(threads);
        let mut child = start_at_work(test, threads, &path, &folder);
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map_while(|line| line.ok());
        assert!(said.any(|line| line.contains("put")));
        let params = StoreParams { min_tokens: 4, path: Some(folder.clone()), ..Default::default() };
        let others = Store::new(&model, params.clone()).unwrap();
        info_when(&others, |info| info.files == 1);
        assert_eq!(child.try_wait().unwrap(), None, "it goes on");
        let (mut session, common) = take(&others, &tokens, 600).unwrap().unwrap();
        assert_eq!(common, 300);
        session.prefill(&tokens[common..], None).unwrap();
        assert!(bits(&session) == whole);
        let first = names(&folder);
        // Beyond the pause after the first file.
        std::thread::sleep(Duration::from_millis(2100));
        writeln!(child.stdin.as_ref().unwrap(), "more").unwrap();
        assert!(said.any(|line| line.contains("more")));
        for _ in 0..1000 {
            if names(&folder).len() == 1 && names(&folder) != first {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(names(&folder).len() == 1 && names(&folder) != first, "{:?}", names(&folder));
        let (mut session, common) = take(&Store::new(&model, params).unwrap(), &longer, 600).unwrap().unwrap();
        assert_eq!(common, 400);
        session.prefill(&longer[common..], None).unwrap();
        assert!(bits(&session) == whole_longer);
    }
}

/// Prefixes of a runtime with one thread, or with threads of the host, are written by the store's thread and at its
/// end, not by the calls that put them.
#[test]
fn no_call_writes_files_and_the_end_writes_the_rest() {
    #[allow(unsafe_code)]
    let run: HostParallel = Box::new(|n, share: Share, context| {
        // SAFETY: each share is called once, with the context of its call.
        (0..n).for_each(|i| unsafe { share(i, context) });
        0
    });
    for parallel in [None, Some(run)] {
        let (dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
        let runtime = Runtime::new(RuntimeParams { threads: 1, parallel, ..Default::default() }).unwrap();
        let params = models::on(runtime, models::cpu());
        let model = Model::load(&path, params).unwrap();
        let folder = dir.path().join("prefixes");
        let params = StoreParams { min_tokens: 4, path: Some(folder.clone()), ..Default::default() };
        let store = Store::new(&model, params).unwrap();
        let sessions = [0, 1].map(|first| prefilled(&model, 64, &text(first, 20)));
        sessions.iter().for_each(|session| store.put(session).unwrap());
        assert_eq!(names(&folder), [""; 0]);
        drop(store);
        assert_eq!(names(&folder).len(), 2);
    }
}

/// Nothing is written twice, and entries that `clear` forgets leave no file, no matter when they were written.
#[test]
fn files_that_are_written_behind_are_those_of_entries() {
    let dir = tempfile::tempdir().unwrap();
    let (model, params) = llama(&dir);
    let folder = params.path.clone().unwrap();
    let store = Store::new(&model, StoreParams { write_delay: Duration::from_millis(1), ..params }).unwrap();
    let until = |is_wanted: &dyn Fn(&[String]) -> bool| {
        let wait = || std::thread::sleep(Duration::from_millis(10));
        let found = (0..1000).map(|_| names(&folder)).find(|names| is_wanted(names) || (wait(), false).1);
        found.unwrap_or_else(|| panic!("{:?}", names(&folder)))
    };
    let put = |first, n| store.put(&prefilled(&model, 64, &text(first, n))).unwrap();
    put(0, 20);
    let first = until(&|names| matches!(names, [name] if name.ends_with(".rzprefix")));
    put(1, 20);
    until(&|names| names.len() == 2 && names.iter().all(|name| name.ends_with(".rzprefix")));
    put(0, 30);
    until(&|names| names.len() == 2 && !names.contains(&first[0]));
    assert_eq!((store.info().entries, store.info().files, store.info().unwritten), (2, 2, 0));
    put(3, 20);
    store.clear();
    until(&|names| names.is_empty());
    put(2, 20);
    let file = until(&|names| matches!(names, [name] if name.ends_with(".rzprefix")));
    drop(store);
    assert_eq!(names(&folder), file);
}

#[test]
fn threads_take_put_clear_and_free_while_conversations_go_on() {
    let file = with_template(TEMPLATE);
    let (model, log) = load_with(file.path(), 2, None);
    let dir = tempfile::tempdir().unwrap();
    let path = Some(dir.path().join("prefixes"));
    let params = StoreParams { min_tokens: 16, memory_limit: 1 << 20, path, ..Default::default() };
    let new = || Arc::new(Store::new(&model, params.clone()).unwrap());
    let questions = ["One?", "Two?", "Three?"];
    let expected = questions.map(|question| replied(&model, None, None, question));
    let whole: Vec<Vec<u32>> = (0..3).map(|i| bits(&prefilled(&model, 64, &text(i, 40)))).collect();
    let store = RwLock::new(new());
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (store, model, expected, whole, new) = (&store, &model, &expected, &whole, &new);
            scope.spawn(move || {
                for round in 0..8 {
                    let i = (thread + round) % 3;
                    let now = store.read().unwrap().clone();
                    if thread % 2 == 0 {
                        assert_eq!(replied(model, Some(&now), None, questions[i]), expected[i]);
                    } else {
                        let tokens = text(i as u32, 40);
                        let taken = take(&now, &tokens, 64).unwrap();
                        let (mut session, n) = taken.unwrap_or_else(|| (Session::new(model, &cache(64)).unwrap(), 0));
                        session.prefill(&tokens[n..], None).unwrap();
                        assert!(bits(&session) == whole[i]);
                        now.put(&session).unwrap();
                    }
                    match (thread, round) {
                        (1, 3) | (2, 5) => now.clear(),
                        (3, 2 | 6) => *store.write().unwrap() = new(),
                        _ => assert!(now.info().memory_bytes < 2 << 20),
                    }
                }
            });
        }
    });
    drop(store);
    assert_eq!(*log.lock().unwrap().iter().filter(|line| line.contains("stored prefix")).collect::<Vec<_>>(), [""; 0]);
    assert!(names(&dir.path().join("prefixes")).iter().all(|name| name.ends_with(".rzprefix")));
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
                    let (mut session, common) = match take(store, &tokens, 64).unwrap() {
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
