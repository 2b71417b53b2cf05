//! Damaged and malicious GGUF files: each is rejected with a status and a message that names problem and position,
//! without a panic, a hang, or memory out of proportion to the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use realizar::error::Error;
use realizar::format::{Access, FileFormat, Source};
use realizar::quant::{F32, PQ2_0, Q2_0, Q8_0};

use crate::support::gguf::Gguf;
use crate::support::safetensors::Folder;

const F32_TYPE: u32 = F32.0;
const Q8_0_TYPE: u32 = Q8_0.0;

/// A key of every kind, tensors of two types, one of them empty.
fn sample() -> Gguf {
    Gguf::new()
        .key("general.architecture", "llama")
        .key("u8", 200u8)
        .key("i8", -3i8)
        .key("u16", 60_000u16)
        .key("i16", -300i16)
        .key("u32", 4_000_000_000u32)
        .key("i32", -70_000i32)
        .key("u64", u64::MAX)
        .key("i64", i64::MIN)
        .key("f32", 0.5f32)
        .key("f64", 0.1f64)
        .key("bool", true)
        .key("tokens", vec![&b"a"[..], b"\xe2\x82", b""])
        .key("scores", vec![0.5f32, -1.0])
        .key("types", vec![1i32, -6])
        .key("flags", vec![true, false])
        .key("none", Vec::<u8>::new())
        .tensor("a", F32_TYPE, &[2, 3], &(0..24).collect::<Vec<u8>>())
        .tensor("empty", F32_TYPE, &[0, 3], &[])
        .tensor("b", Q8_0_TYPE, &[64], &[7; 68])
        .tensor("scalar", F32_TYPE, &[], &[1, 2, 3, 4])
}

fn open(path: &Path) -> Result<Source, Error> {
    Source::open(path, Access::Read)
}

/// Checks that the file is rejected as damaged, with a message that names the file and contains `word`.
fn assert_refused(file: &Gguf, word: &str) {
    let folder = Folder::empty();
    let path = folder.file("bad.gguf", &file.build().0);
    match open(&path) {
        Err(Error::Format { path: named, what }) => {
            assert_eq!(named, path.display().to_string());
            assert!(what.contains(word), "{what:?} does not say {word:?}");
        }
        other => panic!("expected a format error about {word:?}, found {other:?}"),
    }
}

/// Runs a test in its own process, so that the memory of the process is the memory of the test.
fn with_little_memory(test: &str, work: impl FnOnce()) {
    const APART: &str = "REALIZAR_TEST_APART";
    if std::env::var_os(APART).is_none() {
        let mut own = Command::new(std::env::current_exe().unwrap());
        let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
        let ended = own.args(["--exact", &name, "--test-threads", "1"]).env(APART, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    work();
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return };
    for (field, gibibytes) in [("VmHWM:", 1), ("VmPeak:", 8)] {
        let Some(peak) = status.lines().find_map(|l| l.strip_prefix(field)) else { continue };
        let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kib < gibibytes << 20, "{field} {kib} KiB");
    }
}

#[test]
fn a_sound_file_reads_as_it_was_written() {
    for version in [2, 3] {
        let folder = Folder::empty();
        let path = folder.file("model", &Gguf { version, ..sample() }.build().0);
        for access in [Access::Read, Access::Map] {
            let s = Source::open(&path, access).unwrap();
            assert_eq!(s.format(), FileFormat::Gguf);
            assert_eq!(s.path(), path);
            let m = &s.metadata;
            assert_eq!(m.str("general.architecture").unwrap(), Some("llama"));
            for (key, value) in
                [("u8", 200), ("i8", -3), ("u16", 60_000), ("i16", -300), ("i32", -70_000), ("i64", i64::MIN)]
            {
                assert_eq!(m.i64(key).unwrap(), Some(value), "{key}");
            }
            assert_eq!(m.u32("u32").unwrap(), Some(4_000_000_000));
            assert_eq!(m.u64("u64").unwrap(), Some(u64::MAX));
            assert_eq!(m.f32("f32").unwrap(), Some(0.5));
            assert_eq!(m.get("f64"), Some(&realizar::format::Value::Float(0.1)));
            assert_eq!(m.bool("bool").unwrap(), Some(true));
            assert_eq!(m.strs("tokens").unwrap().unwrap().iter().collect::<Vec<_>>(), [&b"a"[..], b"\xe2\x82", b""]);
            assert_eq!(m.f32s("scores").unwrap().as_deref(), Some(&[0.5, -1.0][..]));
            assert_eq!(m.i64s("types").unwrap(), Some(&[1, -6][..]));
            assert_eq!(m.get("flags"), Some(&realizar::format::Value::Bools(vec![true, false])));
            assert_eq!(m.u32s("none").unwrap(), Some(vec![]));
            assert_eq!(m.iter().len(), 17);

            assert_eq!(s.tensors().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "empty", "b", "scalar"]);
            let a = s.tensor("a").unwrap();
            assert_eq!((a.shape.dims(), a.dtype, a.bytes), (&[2, 3][..], F32, 24));
            let mut middle = [0; 3];
            s.read(a, 21, &mut middle).unwrap();
            assert_eq!(middle, [21, 22, 23]);
            assert!(matches!(s.read(a, 22, &mut middle), Err(Error::InvalidArgument(_))));
            assert!(matches!(s.read(a, u64::MAX, &mut middle), Err(Error::InvalidArgument(_))));
            assert_eq!(s.tensor("empty").unwrap().bytes, 0);
            let mut scalar = [0; 4];
            s.read(s.tensor("scalar").unwrap(), 0, &mut scalar).unwrap();
            assert_eq!(scalar, [1, 2, 3, 4]);
            assert!(s.tensor("c").is_none());
            let mapped = s.mapped(s.tensor("b").unwrap());
            assert_eq!(mapped.is_some(), access == Access::Map);
            if let Some((mapping, range)) = mapped {
                assert_eq!(mapping.as_ref().as_ref()[range], [7; 68]);
            }
        }
    }
}

#[test]
fn a_file_without_tensors_is_a_vocabulary() {
    let folder = Folder::empty();
    let path = folder.file("vocabulary.gguf", &Gguf::new().key("k", 1u8).build().0);
    assert_eq!(open(&path).unwrap().tensors().len(), 0);
}

#[test]
fn every_truncation_is_refused() {
    let folder = Folder::empty();
    let (bytes, _) = sample().build();
    for len in 0..bytes.len() {
        let path = folder.file("short.gguf", &bytes[..len]);
        assert!(matches!(open(&path), Err(Error::Format { .. })), "{len} bytes");
    }
}

#[test]
fn no_damaged_byte_does_harm() {
    with_little_memory("no_damaged_byte_does_harm", || {
        let folder = Folder::empty();
        let (bytes, header) = sample().build();
        let mut refused = 0;
        for at in 0..header {
            for wrong in [!bytes[at], 0xff, 0, bytes[at] ^ 0x80, bytes[at].wrapping_add(1)] {
                let mut bytes = bytes.clone();
                bytes[at] = wrong;
                let path = folder.file("damaged.gguf", &bytes);
                match open(&path) {
                    Ok(_) => {}
                    Err(e @ (Error::Format { .. } | Error::Unsupported(_))) => {
                        assert!(e.to_string().contains("damaged.gguf"), "byte {at}: {e}");
                        refused += 1;
                    }
                    Err(e) => panic!("byte {at}: {e:?}"),
                }
            }
        }
        assert!(refused > header);
    });
}

#[test]
fn claimed_counts_are_checked_before_memory_is_taken() {
    with_little_memory("claimed_counts_are_checked_before_memory_is_taken", || {
        for n in [4, 65_536, 65_537, 1 << 32, 1 << 60, 1 << 63, u64::MAX] {
            let word = if n > 65_536 { "limit" } else { "ends" };
            assert_refused(&Gguf { n_keys: Some(n), ..Gguf::new() }, word);
            assert_refused(&Gguf { n_tensors: Some(n), ..Gguf::new() }, word);
            let string = [&8u32.to_le_bytes()[..], &n.to_le_bytes(), b"abc"].concat();
            let mut file = Gguf::new();
            file.keys.push(("k".into(), string));
            assert_refused(&file, if n > 16 << 20 { "limit" } else { "ends" });
            for element in 0..13u32 {
                let array = [&9u32.to_le_bytes()[..], &element.to_le_bytes(), &n.to_le_bytes()].concat();
                let mut file = Gguf::new();
                file.keys.push(("k".into(), array));
                assert_refused(
                    &file,
                    if element == 9 && n <= 4 << 20 {
                        "nested"
                    } else if n > 4 << 20 {
                        "limit"
                    } else {
                        "ends"
                    },
                );
            }
        }
    });
}

#[test]
fn long_strings_have_limits() {
    assert_refused(&Gguf::new().key("tokens", vec![&[b'a'; 65_537][..]]), "limit");
    assert_refused(&Gguf::new().key(&"k".repeat(65_536), 1u8), "limit");
    let long = "x".repeat(1 << 20);
    let folder = Folder::empty();
    let path = folder.file("long.gguf", &Gguf::new().key("k", long.as_str()).key("after", 5u8).build().0);
    let source = open(&path).unwrap();
    assert_eq!(source.metadata.str("k").unwrap(), Some(long.as_str()));
    assert_eq!(source.metadata.u64("after").unwrap(), Some(5));
}

#[test]
fn many_small_arrays_do_not_add_up_to_much() {
    with_little_memory("many_small_arrays_do_not_add_up_to_much", || {
        // 4 Mi bytes in the file are 32 MiB of integers each, so that the 17th passes 512 MiB.
        let mut file = Gguf::new();
        for i in 0..17 {
            file = file.key(&format!("k{i}"), vec![1u8; 4 << 20]);
        }
        assert_refused(&file, "metadata has more than");
    });
}

#[test]
fn names_and_keys_are_unique() {
    assert_refused(&Gguf::new().key("k", 1u8).key("l", 1u8).key("k", 2u32), "\"k\" occurs twice");
    let twice = Gguf::new().tensor("t", F32_TYPE, &[8], &[0; 32]).tensor("t", F32_TYPE, &[8], &[0; 32]);
    assert_refused(&twice, "\"t\" occurs twice");
}

#[test]
fn values_match_their_types() {
    let raw = |bytes: &[u8]| {
        let mut file = Gguf::new();
        file.keys.push(("k".into(), bytes.to_vec()));
        file
    };
    assert_refused(&raw(&[7, 0, 0, 0, 2]), "\"k\" holds a value");
    assert_refused(&raw(&[13, 0, 0, 0, 2]), "type 13");
    assert_refused(&Gguf::new().key("k", vec![vec![1u8]]), "nested");
    assert_refused(&Gguf::new().key("k", vec![1 << 63, 0u64]), "\"k\" holds a value");
    // A value that is not text is ignored with a note; a reader that needs the text fails.
    let folder = Folder::empty();
    let source = open(&folder.file("k.gguf", &Gguf::new().key("k", &b"\xff"[..]).build().0)).unwrap();
    assert_eq!(source.passed().notes, ["the key \"k\" holds a string that is not UTF-8"]);
    assert!(source.metadata.str("k").is_err());
    let mut deep = 9u32.to_le_bytes().to_vec();
    for _ in 0..100_000 {
        deep.extend(9u32.to_le_bytes());
        deep.extend(1u64.to_le_bytes());
    }
    assert_refused(&raw(&deep), "nested");
    let mut file = Gguf::new();
    file.keys.push(("k".into(), vec![4, 0, 0, 0, 1, 0, 0, 0]));
    file.keys.push(("general.alignment".into(), vec![8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    assert_refused(&file, "general.alignment");
}

#[test]
fn alignment_is_honored_and_checked() {
    let folder = Folder::empty();
    let wide = Gguf { alignment: 128, ..sample() }.key("general.alignment", 128u32);
    let source = open(&folder.file("wide.gguf", &wide.build().0)).unwrap();
    let mut b = [0; 68];
    source.read(source.tensor("b").unwrap(), 0, &mut b).unwrap();
    assert_eq!(b, [7; 68]);
    for wrong in [0u32, 1, 24, 33, 1 << 31] {
        assert_refused(&sample().key("general.alignment", wrong), "alignment");
    }
}

#[test]
fn tensors_lie_where_they_must() {
    let with_offset = |i: usize, offset: u64| {
        let mut file = sample();
        file.tensors[i].offset = Some(offset);
        file
    };
    // Overlapping, misaligned, with a gap, past the end, wrapping round.
    for offset in [0, 31, 33, 64, 1 << 40, u64::MAX - 7] {
        assert_refused(&with_offset(2, offset), "the tensor \"b\" has offset");
    }
    assert_refused(&with_offset(0, 32), "the tensor \"a\" has offset 32, expected 0");
}

#[test]
fn shapes_are_checked() {
    let shaped = |dims: &[u64]| Gguf::new().tensor("t", F32_TYPE, dims, &[0; 32]);
    assert_refused(&shaped(&[1, 1, 1, 1, 8]), "5 dimensions");
    assert_refused(&shaped(&[1 << 32, 1 << 32]), "too many elements");
    assert_refused(&shaped(&[u64::MAX]), "too many elements");
    assert_refused(&shaped(&[1 << 62]), "too long");
    assert_refused(&shaped(&[1 << 62, 1]), "too large");
    assert_refused(&shaped(&[1 << 40]), "the file ends");
    assert_refused(&Gguf::new().tensor("t", Q8_0_TYPE, &[2, 16], &[0; 34]), "multiple of the 32 values");
    let mut many = shaped(&[8]);
    many.tensors[0].dims = vec![1; 1000];
    assert_refused(&many, "1000 dimensions");
}

#[test]
fn unknown_versions_and_types_are_unsupported() {
    let folder = Folder::empty();
    let unsupported = |file: &Gguf| match open(&folder.file("new.gguf", &file.build().0)) {
        Err(Error::Unsupported(what)) => what,
        other => panic!("{other:?}"),
    };
    for dtype in [4, 5, 31, 38, 1000, u32::MAX] {
        let what = unsupported(&Gguf::new().tensor("strange", dtype, &[8], &[0; 32]));
        assert!(what.contains("\"strange\"") && what.contains(&dtype.to_string()), "{what}");
    }
    for version in [0, 1, 4] {
        assert!(unsupported(&Gguf { version, ..sample() }).contains(&format!("version {version}")));
    }
    assert!(unsupported(&Gguf { version: 3 << 24, ..sample() }).contains("big-endian"));
}

/// The first files of this type have blocks of 128 values, later ones of 64.
#[test]
fn the_offsets_tell_the_blocks_of_type_42() {
    let folder = Folder::empty();
    let file =
        |bytes: usize| Gguf::new().tensor("a", Q2_0.0, &[4096], &vec![1; bytes]).tensor("b", F32_TYPE, &[1], &[0; 4]);
    for (bytes, dtype) in [(64 * 18, Q2_0), (32 * 34, PQ2_0)] {
        let source = open(&folder.file("pairs.gguf", &file(bytes).build().0)).unwrap();
        assert_eq!(source.tensor("a").unwrap().dtype, dtype);
    }
    assert_refused(&file(1000), "within the tensor \"a\": 1152 bytes");
    let either = Gguf::new().tensor("a", Q2_0.0, &[128], &[1; 36]);
    match open(&folder.file("either.gguf", &either.build().0)) {
        Err(Error::Unsupported(what)) => assert!(what.contains("64 or 128"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn rotated_weights_are_refused() {
    let folder = Folder::empty();
    match open(&folder.file("rotated.gguf", &sample().key("prism.hadamard.block_size", 128u32).build().0)) {
        Err(Error::Unsupported(what)) => assert!(what.contains("\"prism.hadamard.block_size\""), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_regular_files_are_opened() {
    let folder = Folder::empty();
    let fifo = folder.0.path().join("fifo");
    let devices = if cfg!(unix) {
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        [&fifo, Path::new("/dev/zero"), Path::new("/dev/null")]
    } else {
        [Path::new("NUL"), Path::new("CON"), Path::new(r"\\.\pipe\absent")]
    };
    for path in devices.into_iter().chain([folder.0.path(), &folder.0.path().join("absent")]) {
        match open(path) {
            Err(Error::Io { system_code, .. }) => assert_ne!(system_code, 0),
            other => panic!("{path:?}: {other:?}"),
        }
    }
    for content in [&b""[..], b"GGU", b"GGUF", b"not a model at all"] {
        assert!(matches!(open(&folder.file("file", content)), Err(Error::Format { .. })));
    }
}

#[test]
fn paths_are_long_and_in_any_script_and_files_are_shared() {
    let folder = Folder::empty();
    let mut path = folder.0.path().to_owned();
    for name in ["größe", "模型", "модель"] {
        path.push(format!("{name}{}", "-".repeat(100)));
    }
    fs::create_dir_all(&path).unwrap();
    path.push("größe.gguf");
    fs::write(&path, sample().build().0).unwrap();
    let writer = fs::File::options().append(true).open(&path).unwrap();
    let source = open(&path).unwrap();
    let moved = path.with_file_name("gone.gguf");
    fs::rename(&path, &moved).unwrap();
    fs::remove_file(&moved).unwrap();
    drop(writer);
    source.read(source.tensor("b").unwrap(), 0, &mut [0; 68]).unwrap();
}

#[test]
fn a_file_that_shrinks_is_an_error() {
    let folder = Folder::empty();
    let path = folder.file("shrinks.gguf", &sample().build().0);
    let source = open(&path).unwrap();
    fs::write(&path, b"GGUF").unwrap();
    let b = source.tensor("b").unwrap();
    assert!(matches!(source.read(b, 0, &mut [0; 68]), Err(Error::Format { .. })));
}

/// File `no` of a set of three, one tensor each.
fn shard(no: u16) -> Gguf {
    Gguf::new().key("split.no", no).key("split.count", 3u16).key("split.tensors.count", 3i32).tensor(
        &format!("t{no}"),
        F32_TYPE,
        &[8],
        &[no as u8; 32],
    )
}

fn put_set(folder: &Folder) -> PathBuf {
    for no in 0..3 {
        folder.file(&format!("m-{:05}-of-00003.gguf", no + 1), &shard(no).build().0);
    }
    folder.0.path().join("m-00001-of-00003.gguf")
}

#[test]
fn a_set_is_one_source() {
    let folder = Folder::empty();
    let source = Source::open(&put_set(&folder), Access::Map).unwrap();
    for no in 0..3u8 {
        let t = source.tensor(&format!("t{no}")).unwrap();
        let mut bytes = [0; 32];
        source.read(t, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [no; 32]);
        let (mapping, range) = source.mapped(t).unwrap();
        assert_eq!(mapping.as_ref().as_ref()[range], [no; 32]);
    }
}

#[test]
fn a_broken_set_is_refused() {
    let refused = |spoil: &dyn Fn(&Folder), word: &str| {
        let folder = Folder::empty();
        let first = put_set(&folder);
        spoil(&folder);
        let error = open(&first).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        error
    };
    let second = "m-00002-of-00003.gguf";
    let missing = refused(&|f| fs::remove_file(f.0.path().join(second)).unwrap(), second);
    assert!(matches!(missing, Error::Io { .. }));
    refused(&|f| drop(f.file(second, &shard(0).build().0)), "split.no 1");
    refused(&|f| drop(f.file(second, &Gguf::new().build().0)), "split.no 1");
    refused(&|f| drop(f.file(second, b"GGUF")), second);
    refused(&|f| drop(f.file(second, &Gguf { tensors: shard(0).tensors, ..shard(1) }.build().0)), "occurs twice");
    refused(&|f| drop(f.file(second, &Gguf { tensors: vec![], ..shard(1) }.build().0)), "split.tensors.count");

    let folder = Folder::empty();
    put_set(&folder);
    let error = open(&folder.0.path().join(second)).unwrap_err();
    assert!(error.to_string().contains("open the first"), "{error}");
    let error = open(&folder.file("renamed.gguf", &shard(0).build().0)).unwrap_err();
    assert!(error.to_string().contains("-00001-of-00003.gguf"), "{error}");
    let many = Gguf::new().key("split.no", 0u16).key("split.count", 65_535u16);
    let error = open(&folder.file("m-00001-of-65535.gguf", &many.build().0)).unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}
