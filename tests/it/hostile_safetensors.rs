//! Damaged and malicious safetensors files and Hugging Face folders: each is rejected with a status and a message that
//! names problem and position.

use std::fs;
use std::path::Path;
use std::process::Command;

use realizar::error::Error;
use realizar::format::{Access, FileFormat, Source};
use realizar::quant;

use crate::support::safetensors::{self, Folder, file, with_header};

fn open(path: &Path) -> Result<Source, Error> {
    let source = Source::open(path, Access::Read)?;
    source.passed().check("RZ_MODEL_ALLOW_UNKNOWN")?;
    Ok(source)
}

fn sample() -> Vec<u8> {
    file(&[
        ("a", "F32", &[2, 3], (0..24).collect()),
        ("empty", "F16", &[0, 7], vec![]),
        ("b", "BF16", &[5], (0..10).collect()),
        ("c", "F8_E4M3", &[1, 3], vec![1, 2, 3]),
    ])
}

/// Checks that a file is rejected as damaged, with a message that names it and contains `word`.
fn assert_refused(bytes: &[u8], word: &str) {
    let folder = Folder::empty();
    match open(&folder.file("bad.safetensors", bytes)) {
        Err(Error::Format { path, what }) => {
            assert!(path.ends_with("bad.safetensors"));
            assert!(what.contains(word), "{what:?} does not say {word:?}");
        }
        other => panic!("expected a format error about {word:?}, found {other:?}"),
    }
}

#[test]
fn a_file_alone_has_its_own_names() {
    let folder = Folder::empty();
    let path = folder.file("x", sample());
    for access in [Access::Read, Access::Map] {
        let source = Source::open(&path, access).unwrap();
        assert_eq!((source.format(), source.path()), (FileFormat::Safetensors, path.as_path()));
        assert_eq!(source.tensors().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "empty", "b", "c"]);
        let c = source.tensor("c").unwrap();
        assert_eq!((c.dtype, c.shape.dims(), c.bytes), (quant::F8_E4M3, &[1, 3][..], 3));
        let mut bytes = [0; 2];
        source.read(c, 1, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 3]);
        let b = source.tensor("b").unwrap();
        if let Some((mapping, range)) = source.mapped(b) {
            assert_eq!(mapping.as_ref().as_ref()[range], (0..10).collect::<Vec<u8>>());
        } else {
            assert_eq!(access, Access::Read);
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sample();
    for len in 0..bytes.len() {
        assert_refused(&bytes[..len], "");
    }
}

#[test]
fn no_damaged_byte_does_harm() {
    let folder = Folder::empty();
    let bytes = sample();
    let header = bytes.len() - 37;
    let mut refused = 0;
    for at in 0..header {
        for wrong in [!bytes[at], 0xff, 0, b'"', b'9', b'{', bytes[at] ^ 1] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            match open(&folder.file("damaged.safetensors", &bytes)) {
                Ok(_) => {}
                Err(e @ (Error::Format { .. } | Error::Unsupported(_))) => {
                    assert!(e.to_string().contains("damaged.safetensors"), "byte {at}: {e}");
                    refused += 1;
                }
                Err(e) => panic!("byte {at}: {e:?}"),
            }
        }
    }
    assert!(refused > 4 * header);
}

/// Whatever the list says of weights and their scales, what can be opened can be read.
#[test]
fn damaged_scales_do_no_harm() {
    let folder = Folder::empty();
    folder.file("config.json", r#"{"model_type":"qwen3_moe","quantization_config":{"quant_method":"fp8"}}"#);
    let names: Vec<[String; 2]> = ["self_attn.q_proj", "mlp.experts.0.up_proj", "mlp.experts.1.up_proj"]
        .map(|part| ["weight", "weight_scale_inv"].map(|leaf| format!("layers.0.{part}.{leaf}")))
        .to_vec();
    let mut tensors: Vec<safetensors::Tensor> = vec![];
    for [weight, scale] in &names {
        tensors.push((weight, "F8_E4M3", &[2, 130], vec![0x39; 260]));
        tensors.push((scale, "F32", &[1, 2], vec![0x3f; 8]));
    }
    let bytes = file(&tensors);
    let (mut opened, mut refused) = (0, 0);
    for at in 8..bytes.len() - 3 * 268 {
        for wrong in [b'0', b'9', bytes[at] ^ 1] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            folder.file("model.safetensors", &bytes);
            let Ok(source) = open(folder.0.path()) else {
                refused += 1;
                continue;
            };
            for tensor in source.tensors() {
                let mut out = vec![0; tensor.bytes as usize];
                source.read(tensor, 0, &mut out).unwrap();
            }
            opened += 1;
        }
    }
    assert!(opened > 20 && refused > opened, "{opened} {refused}");
}

#[test]
fn headers_are_checked() {
    let one = |entry: &str| with_header(&format!("{{\"t\":{entry}}}"), &[0; 8]);
    let sound = r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#;
    assert!(open(&Folder::empty().file("x", one(sound))).is_ok());
    for (entry, word) in [
        ("3", "dtype"),
        (r#"{"shape":[2],"data_offsets":[0,8]}"#, "dtype"),
        (r#"{"dtype":"F32","data_offsets":[0,8]}"#, "shape"),
        (r#"{"dtype":"F32","shape":[2]}"#, "data_offsets"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}"#, "data_offsets"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}"#, "negative"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#, "ends before"),
        (r#"{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}"#, "dimension"),
        (r#"{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}"#, "dimension"),
        (r#"{"dtype":"F32","shape":[3],"data_offsets":[0,8]}"#, "12 bytes"),
        (r#"{"dtype":"F16","shape":[2],"data_offsets":[0,8]}"#, "4 bytes"),
        (r#"{"dtype":"F32","shape":[2],"data_offsets":[4,12]}"#, "begins at 4"),
        (r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#, "the file holds 8"),
        (r#"{"dtype":"F32","shape":[4],"data_offsets":[0,16]}"#, "the file holds 8"),
        (r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}"#, "too many"),
        (r#"{"dtype":"F32","shape":[0,9223372036854775807,9223372036854775807],"data_offsets":[0,8]}"#, "too many"),
        (r#"{"dtype":"F32","shape":[1,1,1,1,2],"data_offsets":[0,8]}"#, "5 dimensions"),
        (r#"{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}"#, "9 dimensions"),
    ] {
        assert_refused(&one(entry), word);
    }
    assert_refused(&with_header(&format!(r#"{{"t":{sound},"t":{sound}}}"#), &[0; 8]), "occurs twice");
    assert_refused(&with_header(&format!(r#"{{"t":{sound},"u":{sound}}}"#), &[0; 8]), "begins at 0, expected 8");
    assert_refused(&with_header("{}", &[0; 8]), "take 0 bytes");
    let deep = open(&Folder::empty().file("bad.safetensors", with_header(&"{\"a\":".repeat(100_000), &[])));
    assert!(
        matches!(&deep, Err(Error::TooComplex(what)) if what.contains("64 deep") && what.contains("bad.safetensors"))
    );
    assert_refused(&[&u32::MAX.to_le_bytes()[..], &[0, 0, 0, 0, b'{']].concat(), "a header of");
    assert_refused(&[&[0xff; 8][..], b"{}"].concat(), "neither");
    let folder = Folder::empty();
    for dtype in ["F64", "I32", "BOOL", "F4", "NEW"] {
        let entry = format!(r#"{{"dtype":"{dtype}","shape":[8],"data_offsets":[0,8]}}"#);
        match open(&folder.file("x", one(&entry))) {
            Err(Error::Unsupported(what)) => assert!(what.contains(dtype) && what.contains("\"t\""), "{what}"),
            // The number of bytes does not fit.
            Err(Error::Format { .. }) => assert!(["F64", "I32"].contains(&dtype)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn too_many_tensors_are_refused() {
    let entry = r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
    let members: Vec<String> = (0..70_000).map(|i| format!("\"t{i}\":{entry}")).collect();
    assert_refused(&with_header(&format!("{{{}}}", members.join(",")), &[]), "limit is 65536");
}

const CONFIG: &str = r#"{"model_type":"llama","hidden_size":2,"num_attention_heads":1,"num_hidden_layers":1}"#;

/// Two shards of one tensor each.
fn put_set(folder: &Folder) {
    folder.file("config.json", CONFIG);
    folder.file("s1.safetensors", file(&[("model.embed_tokens.weight", "F32", &[2, 2], vec![1; 16])]));
    folder.file("s2.safetensors", file(&[("model.norm.weight", "F32", &[2], vec![2; 8])]));
    put_index(folder, "s1.safetensors", "s2.safetensors");
}

fn put_index(folder: &Folder, first: &str, second: &str) {
    let map = format!(r#"{{"model.embed_tokens.weight":"{first}","model.norm.weight":"{second}"}}"#);
    folder.file("model.safetensors.index.json", format!(r#"{{"weight_map":{map}}}"#));
}

#[test]
fn a_set_is_one_source_from_its_folder_or_any_file() {
    let folder = Folder::empty();
    put_set(&folder);
    for path in [folder.0.path(), &folder.0.path().join("s2.safetensors")] {
        let source = open(path).unwrap();
        assert_eq!(source.path(), path);
        for (name, value) in [("token_embd.weight", 1), ("output_norm.weight", 2)] {
            let mut bytes = [0; 8];
            source.read(source.tensor(name).unwrap(), 0, &mut bytes).unwrap();
            assert_eq!(bytes, [value; 8]);
        }
    }
    let other = folder.file("other.safetensors", file(&[("model.norm.weight", "F32", &[2], vec![2; 8])]));
    assert_eq!(open(&other).unwrap().tensors().len(), 1);
}

#[test]
fn a_broken_set_is_refused() {
    let refused = |spoil: &dyn Fn(&Folder), word: &str| {
        let folder = Folder::empty();
        put_set(&folder);
        spoil(&folder);
        let error = open(folder.0.path()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        error
    };
    let missing = refused(&|f| fs::remove_file(f.0.path().join("s2.safetensors")).unwrap(), "s2.safetensors");
    assert!(matches!(missing, Error::Io { .. }));
    for name in ["", ".", "..", "../s2.safetensors", "/etc/passwd", "a/b", "a\\\\b", "a\\u0000b"] {
        let error = refused(&|f| put_index(f, "s1.safetensors", name), "plain file name");
        assert!(matches!(error, Error::Format { .. }));
    }
    refused(&|f| put_index(f, "s1.safetensors", "s1.safetensors"), "should be in \"s1.safetensors\"");
    refused(&|f| put_index(f, "s2.safetensors", "s1.safetensors"), "where it is not");
    refused(
        &|f| drop(fs::copy(f.0.path().join("s1.safetensors"), f.0.path().join("s2.safetensors"))),
        "where it is not",
    );
    let both: [safetensors::Tensor; 2] =
        [("model.embed_tokens.weight", "F32", &[2, 2], vec![1; 16]), ("model.norm.weight", "F32", &[2], vec![2; 8])];
    refused(&|f| drop(f.file("s2.safetensors", file(&both))), "occurs twice");
    refused(&|f| drop(f.file("model.safetensors.index.json", "{}")), "weight_map");
    refused(&|f| drop(f.file("model.safetensors.index.json", r#"{"weight_map":{"a":1}}"#)), "plain file name");
    refused(&|f| drop(f.file("s1.safetensors", b"GGUF")), "s1.safetensors");
    let fifo = |f: &Folder| {
        fs::remove_file(f.0.path().join("s1.safetensors")).unwrap();
        assert!(Command::new("mkfifo").arg(f.0.path().join("s1.safetensors")).status().unwrap().success());
    };
    if cfg!(unix) {
        assert!(matches!(refused(&fifo, "regular"), Error::Io { .. }));
    }
}

#[test]
fn broken_configurations_are_refused() {
    let whole = file(&[("model.norm.weight", "F32", &[2], vec![2; 8])]);
    let refused = |name: &str, content: &[u8], word: &str| {
        let folder = Folder::empty();
        folder.file("config.json", CONFIG);
        folder.file("model.safetensors", &whole);
        assert!(open(folder.0.path()).is_ok());
        folder.file(name, content);
        let error = open(folder.0.path()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        error
    };
    let config = |json: &str, word: &str| {
        let error = refused("config.json", json.as_bytes(), word);
        assert!(error.to_string().contains("config.json"), "{error}");
        error
    };
    config("", "JSON");
    config("[]", "model_type");
    config(r#"{"model_type":3}"#, "model_type");
    assert!(matches!(config(r#"{"model_type":"blip"}"#, "\"blip\""), Error::Unsupported(_)));
    for (member, word) in [
        (r#""hidden_size":-1"#, "hidden_size"),
        (r#""hidden_size":"8""#, "hidden_size"),
        (r#""hidden_size":1e400"#, "out of range"),
        (r#""rms_norm_eps":true"#, "rms_norm_eps"),
        (r#""rope_scaling":"linear""#, "rope_scaling"),
        (r#""rope_scaling":{"type":"linear"}"#, "without factor"),
        (r#""rope_scaling":{"type":"dynamic","factor":2}"#, "\"dynamic\""),
        (r#""rope_scaling":{"type":"longrope"}"#, "long_factor"),
        (r#""hidden_act":"relu""#, "\"relu\""),
        (r#""quantization_config":{"quant_method":"aqlm"}"#, "aqlm"),
        (r#""tie_word_embeddings":false"#, "lm_head"),
        (r#""eos_token_id":"x""#, "eos_token_id"),
        (r#""eos_token_id":[1,4294967296]"#, "eos_token_id"),
        (r#""sliding_window":4,"layer_types":["odd"]"#, "odd"),
        (r#""layer_types":["linear_attention"]"#, "linear_attention"),
        (r#""layer_types":["sliding_attention"]"#, "sliding_window"),
        (r#""layer_types":["full_attention"],"num_hidden_layers":2"#, "layer_types"),
        (r#""attn_logit_softcapping":50.0"#, "\"attn_logit_softcapping\" with the value 50"),
        (r#""magic":"on""#, "\"magic\" with the value \"on\""),
        (r#""sliding_window":4,"max_window_layers":1,"num_hidden_layers":9223372036854775807"#, "1024"),
    ] {
        let error = refused("config.json", format!(r#"{{"model_type":"llama",{member}}}"#).as_bytes(), word);
        assert!(matches!(error, Error::Format { .. } | Error::Unsupported(_)), "{error:?}");
    }
    config(&" ".repeat((4 << 20) + 1), "limit");
    let many: Vec<String> = (0..200_000).map(|i| format!("\"k{i}\":{i}")).collect();
    config(&format!("{{\"model_type\":\"llama\",{}}}", many.join(",")), "members");
    refused("generation_config.json", b"{", "generation_config.json");
    refused("tokenizer_config.json", b"\xff", "tokenizer_config.json");
    refused("tokenizer_config.json", br#"{"add_bos_token":1}"#, "add_bos_token");
    refused("tokenizer.json", b"\xff", "tokenizer.json");
    let strange = file(&[("model.strange.weight", "I64", &[1], vec![2; 8])]);
    assert!(matches!(refused("model.safetensors", &strange, "model.strange.weight"), Error::Unsupported(_)));
}

#[test]
fn a_folder_without_a_configuration_is_an_io_error() {
    let folder = Folder::empty();
    let error = open(folder.0.path()).unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("config.json"), "{error}");
    folder.file("config.json", CONFIG);
    assert_eq!(open(folder.0.path()).unwrap().tensors().len(), 0);
}
