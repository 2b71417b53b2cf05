//! Packed weights files: bit-identical to weights packed in memory (the oracle), written once, rewritten if the model
//! changes; files of other programs are never replaced.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use realizar::engine::saved::{self, RestoreParams};
use realizar::engine::{CacheParams, LoadOptions, LoadParams, LogLevel, Model, Plan, Runtime, RuntimeParams};
use realizar::error::{Error, Result};
use realizar::quant;

use crate::support::models;
use crate::support::reference::relative_rms;
use crate::support::save::{logits_of, save};
use crate::support::tiny::{self, PROMPT, Tiny};

fn load(path: &Path, packed_path: Option<&Path>) -> Result<Arc<Model>> {
    Model::load(path, LoadOptions { device: 1, packed_path, ..Default::default() })
}

/// A model on disk, and a path for its packed weights.
fn model(dtype: realizar::tensor::DType) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (dir, path, _) = save(&Tiny::new("llama", dtype));
    let packed = dir.path().join("weights.rzpacked");
    (dir, path, packed)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn weights_of_a_file_are_those_of_memory() {
    for dtype in [quant::F32, quant::Q4_0] {
        for (name, tiny) in tiny::architectures(|name| Tiny::new(name, dtype)) {
            let (dir, path, reference) = save(&tiny);
            let reference = reference();
            let packed = dir.path().join("weights.rzpacked");
            let expected = logits_of(&load(&path, None).unwrap());
            let difference = relative_rms(&reference[PROMPT.len() - 1..], std::slice::from_ref(&expected));
            assert!(difference < if dtype == quant::F32 { 1e-5 } else { 0.2 }, "{name}: {difference}");
            for _ in 0..2 {
                assert_eq!(logits_of(&load(&path, Some(&packed)).unwrap()), expected, "{name}");
            }
            assert_eq!(names(dir.path()), ["tiny.gguf", "weights.rzpacked"], "{name}");
        }
    }
}

#[test]
fn a_file_is_made_once_and_takes_no_memory() {
    let (_dir, path, packed) = model(quant::Q8_0);
    let in_memory = load(&path, None).unwrap().info().weight_bytes;
    load(&path, Some(&packed)).unwrap();
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&packed).unwrap().set_modified(old).unwrap();
    let mut steps = 0;
    let mut progress = |_, _| {
        steps += 1;
        true
    };
    let params = LoadParams {
        progress: Some(&mut progress),
        options: LoadOptions { device: 1, packed_path: Some(&packed), ..Default::default() },
        ..Default::default()
    };
    let mapped = Model::load(&path, params).unwrap();
    assert_eq!(fs::metadata(&packed).unwrap().modified().unwrap(), old);
    assert_eq!(steps, 0, "nothing was packed");
    assert!(mapped.info().weight_bytes < in_memory / 10);

    // A ceiling that has no room for the weights.
    let memory_limit = in_memory / 2;
    let runtime = || Runtime::new(RuntimeParams { memory_limit, ..Default::default() }).unwrap();
    let params = |packed_path| models::on(runtime(), LoadOptions { device: 1, packed_path, ..Default::default() });
    assert!(matches!(Model::load(&path, params(None)), Err(Error::Limit { .. })));
    Model::load(&path, params(Some(&packed))).unwrap();
}

/// The plan counts the weights where they are packed, and only while they are.
#[test]
fn a_plan_knows_whether_there_is_a_file() {
    let (_dir, path, packed) = model(quant::F32);
    let plan = |packed_path| {
        let params = LoadOptions { device: 1, packed_path, ..Default::default() };
        Plan::of_path(&path, params, &CacheParams::default(), 1).unwrap()
    };
    let (memory, first) = (plan(None), plan(Some(&packed)));
    assert!(!packed.exists(), "a plan makes no file");
    load(&path, Some(&packed)).unwrap();
    let later = plan(Some(&packed));
    assert!(first.load_peak >= memory.load_peak && later.load_peak < memory.load_peak);
    assert!(first.total < memory.total && first.total.host.abs_diff(later.total.host) < 4096);
}

#[test]
fn a_cache_of_one_is_that_of_the_other() {
    let (_dir, path, packed) = model(quant::Q4_0);
    let in_memory = load(&path, None).unwrap();
    load(&path, Some(&packed)).unwrap();
    let mapped = load(&path, Some(&packed)).unwrap();
    let mut session = models::session(&in_memory);
    session.prefill(&PROMPT, None).unwrap();
    let mut bytes = Vec::new();
    saved::save(&session, &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    let mut rest = bytes.as_slice();
    let restored = saved::load(&mapped, &RestoreParams::default(), &mut |out| {
        let (now, behind) = rest.split_at(out.len());
        out.copy_from_slice(now);
        rest = behind;
        Ok(())
    })
    .unwrap();
    assert_eq!(restored.logits().unwrap(), session.logits().unwrap());
}

#[test]
fn a_model_that_changed_has_its_file_made_anew() {
    let (dir, path, packed) = model(quant::F32);
    let first = logits_of(&load(&path, Some(&packed)).unwrap());
    let (_other_dir, other, _) = save(&Tiny::new("llama", quant::F32).change(|t| t.seed += 1));
    for (why, change) in [
        ("another model", &(|| assert!(fs::copy(&other, &path).is_ok())) as &dyn Fn()),
        ("a later time", &|| {
            let time = SystemTime::now() + Duration::from_secs(10);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }),
    ] {
        let before = fs::read(&packed).unwrap();
        change();
        let expected = logits_of(&load(&path, None).unwrap());
        assert_eq!(logits_of(&load(&path, Some(&packed)).unwrap()), expected, "{why}");
        assert_ne!(fs::read(&packed).unwrap(), before, "{why}");
    }
    // Converted weights are others.
    let params =
        LoadOptions { device: 1, packed_path: Some(&packed), quantize: Some(quant::Q8_0), ..Default::default() };
    let converted = logits_of(&Model::load(&path, params).unwrap());
    assert_ne!(converted, first);
    assert_eq!(names(dir.path()).len(), 2);
}

#[test]
fn a_damaged_file_is_made_anew_and_another_one_stays() {
    let (dir, path, packed) = model(quant::Q8_0);
    let expected = logits_of(&load(&path, Some(&packed)).unwrap());
    let good = fs::read(&packed).unwrap();
    for (why, bytes) in [
        ("cut", good[..good.len() - 1].to_vec()),
        ("longer", [good.as_slice(), b"x"].concat()),
        ("the head alone", good[..4096].to_vec()),
        ("cut within the head", good[..4095].to_vec()),
        ("cut within the stamp", good[..9].to_vec()),
        ("cut within the magic", good[..5].to_vec()),
        ("empty", Vec::new()),
        ("a byte of zero", vec![0]),
        ("zeros alone", vec![0; good.len()]),
        ("more zeros", vec![0; good.len() + 5000]),
        ("a first page of zeros", [&[0; 4096], &good[4096..]].concat()),
    ] {
        fs::write(&packed, bytes).unwrap();
        assert_eq!(logits_of(&load(&path, Some(&packed)).unwrap()), expected, "{why}");
        assert_eq!(fs::read(&packed).unwrap(), good, "{why}");
    }
    for at in (8..40).chain([40, 4095]) {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&packed, bytes).unwrap();
        load(&path, Some(&packed)).unwrap();
        assert!(fs::read(&packed).unwrap() == good, "byte {at}");
    }
    let zeros_and_text = [&[0; 4095][..], b"text"].concat();
    let image_of_a_disk = [&[0; 32 << 10][..], &b"CD001".repeat(5000)].concat();
    for bytes in [
        b"a letter".to_vec(),
        vec![b'x'; good.len()],
        fs::read(&path).unwrap(),
        b"RZPACKE".repeat(2),
        zeros_and_text,
        image_of_a_disk,
    ] {
        fs::write(&packed, &bytes).unwrap();
        assert!(matches!(load(&path, Some(&packed)), Err(Error::Format { .. })));
        assert!(fs::read(&packed).unwrap() == bytes);
    }
    assert!(matches!(load(&path, Some(dir.path())), Err(Error::Format { .. })));
    assert_eq!(names(dir.path()).len(), 2, "nothing was left over");
}

/// If the file cannot be written, the weights are in memory, and one message says so.
#[test]
fn a_file_that_cannot_be_written_fails_no_load() {
    let (dir, path, _) = model(quant::Q8_0);
    let expected = logits_of(&load(&path, None).unwrap());
    let in_memory = load(&path, None).unwrap().info().weight_bytes;
    let file_as_folder = dir.path().join("a file");
    fs::write(&file_as_folder, "text").unwrap();
    for (place, is_absent) in [
        (dir.path().join("absent/weights"), true),
        (file_as_folder.join("weights"), false),
        (PathBuf::from("/proc/weights"), true),
        (dir.path().join("n".repeat(250)), true),
    ] {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = lines.clone();
        let log = Box::new(move |level, line: &str| {
            if level == LogLevel::Warning {
                kept.lock().unwrap().push(line.to_owned());
            }
        });
        let runtime = Runtime::new(RuntimeParams { log: Some(log), ..Default::default() }).unwrap();
        let params = models::on(runtime, LoadOptions { device: 1, packed_path: Some(&place), ..Default::default() });
        let model = Model::load(&path, params).unwrap();
        assert_eq!(logits_of(&model), expected, "{place:?}");
        assert_eq!(model.info().weight_bytes, in_memory);
        let lines = lines.lock().unwrap();
        let said = if is_absent { "cannot write" } else { "cannot" };
        assert!(matches!(&lines[..], [line] if line.contains("in memory") && line.contains(said)), "{lines:?}");
    }
    assert_eq!(names(dir.path()).len(), 2, "nothing was left over");
}

/// Containers that share a folder all have process 1, and one may be killed while it writes.
#[test]
fn what_killed_processes_left_is_removed_and_what_is_written_stays() {
    let (dir, path, packed) = model(quant::Q4_0);
    let part = |end: &str| dir.path().join(format!("weights.rzpacked.{end}"));
    let being_written = fs::File::create(part("00000000000000aa.part")).unwrap();
    being_written.lock().unwrap();
    let others = [
        part("part"),
        part("notes.part"),
        part("1-0.part"),
        part("00.part"),
        dir.path().join("other.00000000000000bb.part"),
    ];
    for file in others.iter().chain([&part("00000000000000bb.part")]) {
        fs::write(file, "text").unwrap();
    }
    load(&path, Some(&packed)).unwrap();
    assert!(packed.exists() && part("00000000000000aa.part").exists() && others.iter().all(|file| file.exists()));
    assert!(!part("00000000000000bb.part").exists());
    drop(being_written);
    fs::remove_file(&packed).unwrap();
    load(&path, Some(&packed)).unwrap();
    assert!(!part("00000000000000aa.part").exists());
}

/// A weight that was changed at rest never changes a result: the file is made anew.
#[test]
fn weights_that_were_damaged_are_packed_anew() {
    let (_dir, path, packed) = model(quant::Q8_0);
    let expected = logits_of(&load(&path, None).unwrap());
    load(&path, Some(&packed)).unwrap();
    let good = fs::read(&packed).unwrap();
    let step = (good.len() - 4096) / 40;
    for at in (4096..good.len()).step_by(step).chain([good.len() - 1]) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        fs::write(&packed, bytes).unwrap();
        assert_eq!(logits_of(&load(&path, Some(&packed)).unwrap()), expected, "byte {at}");
        assert!(fs::read(&packed).unwrap() == good, "byte {at}");
    }
    // A plan reads no weights.
    fs::write(&packed, &good).unwrap();
    let params = LoadOptions { device: 1, packed_path: Some(&packed), ..Default::default() };
    Plan::of_path(&path, params, &CacheParams::default(), 1).unwrap();
}

/// A cache beyond the memory of any machine is a number all the same, which smaller ones tell.
#[test]
fn a_plan_beyond_the_memory_of_this_machine_is_a_number() {
    for tiny in [Tiny::new("llama", quant::F32), tiny_of("gemma3"), tiny_of("gpt-oss")] {
        let (_dir, path, _) = save(&tiny);
        let plan = |capacity, n_caches| {
            let params = models::cpu();
            Plan::of_path(&path, params, &CacheParams { capacity, ..Default::default() }, n_caches).unwrap()
        };
        // Beyond all windows each token takes the same, whether it fits or not, and its number takes 4 bytes.
        let (small, huge) = (plan(65_536, 1), plan(u32::MAX - 64, 1));
        let expected = small.cache.host + u64::from(u32::MAX - 64 - 65_536) * (small.cache_token + 4);
        let error = huge.cache.host.abs_diff(expected) as f64 / expected as f64;
        assert!(error < 1e-3, "{}: {} bytes, {expected} expected", tiny.architecture, huge.cache.host);
        assert!(huge.total.host > huge.cache.host && huge.load_peak < 1 << 30);
        assert_eq!(huge.cache_token, small.cache_token);
        assert!(plan(u32::MAX - 64, u32::MAX).total.host >= huge.total.host);
    }
}

fn tiny_of(name: &str) -> Tiny {
    let all = tiny::architectures(|name| Tiny::new(name, quant::F32));
    all.into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn a_load_that_is_stopped_leaves_nothing() {
    let (dir, path, packed) = model(quant::F16);
    for most in 0..4 {
        let mut left = most;
        let mut progress = |_, _| {
            left -= 1;
            left >= 0
        };
        let params = LoadParams {
            progress: Some(&mut progress),
            options: LoadOptions { device: 1, packed_path: Some(&packed), ..Default::default() },
            ..Default::default()
        };
        match Model::load(&path, params) {
            Err(Error::Cancelled) => assert_eq!(names(dir.path()).len(), 1),
            result => assert!(result.is_ok() && most > 2 && packed.exists()),
        }
    }
}

#[test]
fn loads_at_once_agree() {
    let (dir, path, packed) = model(quant::Q4_0);
    let expected = logits_of(&load(&path, None).unwrap());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| logits_of(&load(&path, Some(&packed)).unwrap()))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), expected);
        }
    });
    assert_eq!(names(dir.path()).len(), 2);
}

#[test]
fn mapped_twice_is_refused() {
    let (_dir, path, packed) = model(quant::Q4_0);
    let params = LoadOptions { device: 1, mmap: true, packed_path: Some(&packed), ..Default::default() };
    assert!(matches!(Model::load(&path, params), Err(Error::InvalidArgument(_))));
    assert!(!packed.exists());
}
