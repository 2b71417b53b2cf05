//! Tokenizers of folders as published, compared with their reference libraries: what files next to `tokenizer.json`
//! add. `tests/data/text` has the folders, the results of the libraries, and the scripts.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use realizar::engine::{Cancel, LoadOptions, LoadParams, LogLevel, Model, Runtime, RuntimeParams};
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::text::{TokenKind, Tokenizer};
use serde_json::{Value as Json, json};

use crate::support::safetensors::Folder;

impl Folder {
    fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::from_metadata(&mut Source::open(self.0.path(), Access::Map)?.metadata)
    }

    fn refusal(&self) -> Error {
        self.tokenizer().err().expect("a refusal")
    }
}

const LLAMA: &str = r#"{"model_type":"llama"}"#;

fn encode(t: &Tokenizer, text: &str, add_special: bool) -> Vec<u32> {
    let mut out = Vec::new();
    t.encode(text, add_special, true, &mut out).unwrap();
    out
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// The small tokenizers of `huggingface.json` by their names.
fn base(name: &str) -> Json {
    let json: Json = serde_json::from_str(include_str!("../data/text/huggingface.json")).unwrap();
    let all = json["tokenizers"].as_array().unwrap();
    all.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}"))["tokenizer"].clone()
}

#[test]
fn files_beside_a_tokenizer_add_what_transformers_adds() {
    let json: Json = serde_json::from_str(include_str!("../data/text/added.json")).unwrap();
    for (i, entry) in json["folders"].as_array().unwrap().iter().enumerate() {
        let folder = Folder::new(LLAMA);
        folder.put("tokenizer.json", base(entry["base"].as_str().unwrap()).to_string());
        for (name, content) in entry["files"].as_object().unwrap() {
            folder.put(name, content.to_string());
        }
        let t = folder.tokenizer().unwrap();
        let of = |name: &str| entry[name].as_u64().map(|id| id as u32);
        let place = format!("{i}: {} {:?}", entry["base"], entry["files"]);
        assert_eq!((t.bos(), t.eos()), (of("bos"), of("eos")), "{place}");
        assert_eq!(Some(t.n_vocab() as u32), of("size"), "{place}");
        let special: Vec<u32> = (0..t.n_vocab() as u32).filter(|&id| t.kind(id) == Some(TokenKind::Control)).collect();
        assert_eq!(special, ids(&entry["special"]), "{place}");
        for (text, want) in json["texts"].as_array().unwrap().iter().zip(entry["cases"].as_array().unwrap()) {
            let text = text.as_str().unwrap();
            assert_eq!(encode(&t, text, false), ids(want), "{place}: {text:?}");
        }
    }
}

#[test]
fn special_tokens_are_found_wherever_a_folder_tells_them() {
    let load = |files: &[(&str, Json)]| {
        let folder = Folder::new(LLAMA);
        folder.put("tokenizer.json", base("llama3").to_string());
        for (name, content) in files {
            folder.put(name, content.to_string());
        }
        folder.tokenizer().map(|t| (t.bos(), t.eos()))
    };
    let (config, map) = ("tokenizer_config.json", "special_tokens_map.json");
    let named = json!({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}});
    let decoder = json!({"0": {"content": "<s>", "special": true}});
    for (files, want) in [
        (vec![(map, named.clone())], (Some(0), Some(1))),
        (vec![(config, json!({"bos_token": "</s>"})), (map, named.clone())], (Some(0), Some(1))),
        // A folder that lists its tokens says what it means; what it leaves out the older file may tell.
        (
            vec![(config, json!({"added_tokens_decoder": decoder, "bos_token": null})), (map, named.clone())],
            (None, Some(1)),
        ),
        (vec![(config, json!({"eos_token": null})), (map, named)], (Some(0), Some(1))),
    ] {
        assert_eq!(load(&files).unwrap(), want, "{files:?}");
    }
    for (file, content, what) in [
        (config, json!({"added_tokens_decoder": {"x": {"content": "a"}}}), "token \"x\" has no id"),
        (config, json!({"added_tokens_decoder": {"5": {"special": true}}}), "a token without a text"),
        (config, json!({"added_tokens_decoder": {"5": {"content": "a", "lstrip": 1}}}), "\"lstrip\" is no boolean"),
        (config, json!({"extra_special_tokens": [1]}), "\"extra_special_tokens\" holds a token without a text"),
        ("added_tokens.json", json!({"<a>": -1}), "token \"<a>\" has no id"),
        ("added_tokens.json", json!({"<a>": 1u64 << 40}), "token \"<a>\" has no id"),
    ] {
        let error = load(&[(file, content)]).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(file), "{error}");
    }
}

#[test]
fn added_tokens_without_a_row_are_left_out_and_noted() {
    let load = |rows: u32| {
        let folder = Folder::new(&format!(r#"{{"model_type":"llama","vocab_size":{rows}}}"#));
        folder.put("tokenizer.json", base("llama3").to_string());
        folder.put("added_tokens.json", r#"{"[PAD]": 285, "[END]": 286}"#);
        folder.tokenizer().unwrap()
    };
    let (all, some) = (load(287), load(286));
    assert_eq!((all.n_vocab(), all.notes().len()), (287, 0));
    assert_eq!(encode(&all, "[END]", false), [286]);
    assert_eq!(some.n_vocab(), 286);
    assert!(matches!(some.notes(), [note] if note.contains("\"[END]\" with the id 286")), "{:?}", some.notes());
    assert_eq!(some.decode(&encode(&some, "[END][PAD]", false), false).unwrap(), b"[END][PAD]");
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut n) = (vec![], 0u32, 0);
    for c in text.bytes().filter(|&c| c != b'=') {
        bits = bits << 6 | digits.iter().position(|&digit| digit == c).unwrap() as u32;
        n += 6;
        if n >= 8 {
            n -= 8;
            bytes.push((bits >> n) as u8);
        }
    }
    bytes
}

/// The folders of `files.json` by their names: those of the files that stand in place of `tokenizer.json`.
fn published(name: &str) -> (Folder, Json) {
    let json: Json = serde_json::from_str(include_str!("../data/text/files.json")).unwrap();
    let entry = json["tokenizers"].as_array().unwrap().iter().find(|t| t["name"] == name).unwrap().clone();
    let model_type = if name.starts_with("Bert") { "bert" } else { "llama" };
    let folder = Folder::new(&format!(r#"{{"model_type":"{model_type}"}}"#));
    for (file, content) in entry["files"].as_object().unwrap() {
        let content = content.as_str().unwrap();
        let is_binary = entry["binary"].as_array().unwrap().contains(&Json::from(file.as_str()));
        folder.put(file, if is_binary { from_base64(content) } else { content.into() });
    }
    (folder, entry)
}

#[test]
fn files_in_place_of_tokenizer_json_make_the_tokens_of_their_owners() {
    let json: Json = serde_json::from_str(include_str!("../data/text/files.json")).unwrap();
    let mut wrong = vec![];
    for entry in json["tokenizers"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let (folder, entry) = published(name);
        let t = folder.tokenizer().unwrap_or_else(|e| panic!("{name}: {e}"));
        // SentencePiece was asked for a text alone.
        let add_special = entry["decoded"].is_null();
        for (i, text) in json["texts"].as_array().unwrap().iter().enumerate() {
            let text = text.as_str().unwrap();
            let got = encode(&t, text, add_special);
            if got != ids(&entry["cases"][i]) {
                wrong.push(format!("{name}: {text:?}: {got:?}, not {}", entry["cases"][i]));
            }
            // SentencePiece has a picture for what it does not know.
            if let Some(decoded) = entry["decoded"][i].as_str().filter(|text| !text.contains('⁇'))
                && t.decode(&got, true).unwrap() != decoded.as_bytes()
            {
                let got = String::from_utf8_lossy(&t.decode(&got, true).unwrap()).into_owned();
                wrong.push(format!("{name}: {text:?} comes back as {got:?}, not {decoded:?}"));
            }
        }
        let of = |name: &str| entry[name].as_u64().map(|id| id as u32);
        if !name.starts_with("Bert") && (t.bos(), t.eos()) != (of("bos"), of("eos")) {
            wrong.push(format!("{name}: {:?} {:?}, not {} {}", t.bos(), t.eos(), entry["bos"], entry["eos"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A model of SentencePiece with other settings, as fields that come later and count more.
fn settings(name: &str, more: &[u8]) -> Folder {
    let (folder, entry) = published(name);
    let model = from_base64(entry["files"]["tokenizer.model"].as_str().unwrap());
    folder.put("tokenizer.model", [&model[..], more].concat());
    folder
}

#[test]
fn what_a_model_of_sentencepiece_declares_and_is_not_known_is_named() {
    // A piece with a type that is none, and one without a text.
    let (bad_type, no_text) = ([0x0a, 5, 0x0a, 1, b'q', 0x18, 9], [0x0a, 5, 0x15, 0, 0, 0, 0]);
    let infinite = [0x0a, 8, 0x0a, 1, b'q', 0x15, 0, 0, 0x80, 0x7f];
    for (more, what) in [
        (&[0x12, 2, 0x18, 3][..], "the model_type 3"),
        (&[0x12, 3, 0xc0, 0x01, 1], "treat_whitespace_as_suffix"),
        (&[0x1a, 2, 0x28, 0], "escape_whitespaces with the value false"),
        (&[0x1a, 2, 0x38, 1], "the field 7 of normalizer_spec"),
        (&[0x2a, 3, 0x12, 1, b'x'], "a denormalizer_spec"),
        (&[0x3a, 0], "tokenizer.model has the field 7"),
        (&bad_type, "has a type that is none"),
        (&no_text, "has the text \"\""),
        (&infinite, "the score inf"),
        (&[0x0a, 200, 1], "is damaged"),
        (&[0x0b], "is damaged"),
        (&[0x80; 11], "is damaged"),
    ] {
        let error = settings("bpe with bytes", more).refusal().to_string();
        assert!(error.contains(what), "{error}, not {what}");
    }
    let (folder, _) = published("unigram");
    folder.put("tokenizer_config.json", r#"{"tokenizer_class":"XLMRobertaTokenizer"}"#);
    assert!(folder.refusal().to_string().contains("XLMRobertaTokenizer"));
    folder.put("tokenizer_config.json", "{}");
    assert!(folder.put("tokenizer.model", "").refusal().to_string().contains("has no pieces"));
    // A file that is truncated anywhere is either rejected or read.
    let (folder, entry) = published("bpe with symbols");
    let model = from_base64(entry["files"]["tokenizer.model"].as_str().unwrap());
    for end in (0..model.len()).step_by(37) {
        let _ = folder.put("tokenizer.model", &model[..end]).tokenizer();
    }
}

#[test]
fn settings_beside_a_model_of_sentencepiece_are_heeded() {
    let load = |config: Json| {
        let (folder, _) = published("bpe with bytes");
        folder.put("tokenizer_config.json", config.to_string());
        folder.tokenizer().unwrap()
    };
    let x = json!({"content": "<x>", "lstrip": false, "rstrip": false, "normalized": true, "special": false});
    let decoder = json!({"20": {"content": "<first>", "special": true}, "500": x});
    let (old, new) = (
        load(json!({"added_tokens_decoder": decoder, "legacy": true})),
        load(json!({"added_tokens_decoder": decoder, "legacy": false, "add_bos_token": false, "add_eos_token": true})),
    );
    let x = old.n_vocab() as u32 - 1;
    // After an added token a text gets a space of its own only in the older way.
    assert_eq!(encode(&old, "a<x>a", true)[2..], [x, encode(&old, "a", false)[0]]);
    let plain = encode(&new, "a<x>a", true);
    assert!(plain[1] == x && plain[2] != plain[0] && plain.ends_with(&[2]), "{plain:?}");
    assert_eq!(encode(&old, "a", true)[0], 1);
    // A piece that the configuration names otherwise.
    assert_eq!(encode(&old, "<first>", false), [20]);
    assert_eq!(old.decode_token(20, true).unwrap(), &b"<first>"[..]);
}

#[test]
fn lists_of_tokens_are_read_or_refused_by_name() {
    for (file, name, content, what) in [
        ("merges.txt", "GPT2Tokenizer {}", "#version: 0.2\na b\na\n", "line 3 is no pair"),
        ("vocab.json", "GPT2Tokenizer {}", "{", "vocab.json"),
        ("tokenizer_config.json", "GPT2Tokenizer {}", r#"{"tokenizer_class":"WhisperTokenizer"}"#, "WhisperTokenizer"),
        ("vocab.txt", "BertTokenizer {}", "a\nb\n", "lacks one of the tokens [UNK]"),
        ("tokenizer_config.json", "BertTokenizer {}", r#"{"tokenizer_class":"LukeTokenizer"}"#, "LukeTokenizer"),
        ("tekken.json", "tekken v7", "{}", "no \"config\""),
        ("tekken.json", "tekken v7", r#"{"config":{"pattern":"a","default_vocab_size":9},"vocab":[]}"#, "contradict"),
        (
            "tekken.json",
            "tekken v7",
            r#"{"config":{"pattern":"a","default_num_special_tokens":20},"vocab":[{"rank":1,"token_bytes":"AA=="}]}"#,
            "entry 0",
        ),
        (
            "tekken.json",
            "tekken v7",
            r#"{"config":{"pattern":"a(?=b)"},"vocab":[{"rank":0,"token_bytes":"AA=="}]}"#,
            "look-around",
        ),
        ("tokenizer.model", "tiktoken", "AAAA 0\nAAAB 2\n", "line 2 is no token"),
    ] {
        let (folder, _) = published(name);
        let error = folder.put(file, content).refusal().to_string();
        assert!(error.contains(what), "{name}: {error}, not {what}");
    }
    let long = format!("AAAA 0\n{} 1\n", "AAAA".repeat(100));
    let (folder, _) = published("tiktoken");
    let error = folder.put("tokenizer.model", long).refusal().to_string();
    assert!(error.contains("a token of 300 bytes"), "{error}");
    // Between the tokens of the file and those that are named, some are reserved.
    let config = r#"{"added_tokens_decoder":{"4":{"content":"<|end|>","special":true}},"eos_token":"<|end|>"}"#;
    let t = folder.put("tokenizer.model", "AAAA 0\nAAAB 1\n").put("tokenizer_config.json", config).tokenizer().unwrap();
    assert_eq!((t.n_vocab(), t.eos(), encode(&t, "<|end|>", false)), (5, Some(4), vec![4]));
    assert_eq!(t.decode_token(3, true).unwrap(), &b"<|reserved_token_3|>"[..]);
}

/// The shapes in which families publish what stands beside a tokenizer, each on the same small one.
#[test]
fn configurations_of_published_families_are_read() {
    let families: Json = serde_json::from_str(include_str!("../data/text/configs.json")).unwrap();
    let mut wrong = vec![];
    for entry in families.as_array().unwrap() {
        let folder = Folder::new(LLAMA);
        folder.put("tokenizer.json", base("llama3").to_string());
        for (name, content) in entry["files"].as_object().unwrap() {
            folder.put(name, content.to_string());
        }
        let t = match folder.tokenizer() {
            Ok(t) => t,
            Err(e) => {
                wrong.push(format!("{}: {e}", entry["family"]));
                continue;
            }
        };
        let of = |name: &str| entry[name].as_u64().map(|id| id as u32);
        let found = (t.bos(), t.eos(), Some(t.n_vocab() as u32));
        if found != (of("bos"), of("eos"), of("size")) {
            wrong.push(format!("{}: {found:?}", entry["family"]));
        }
        let found = encode(&t, entry["text"].as_str().unwrap(), false);
        if found != ids(&entry["ids"]) {
            wrong.push(format!("{}: {:?} is {found:?}, not {}", entry["family"], entry["text"], entry["ids"]));
        }
    }
    assert!(wrong.is_empty() && families.as_array().unwrap().len() >= 60, "{}", wrong.join("\n"));
    // A text of nothing names no token.
    let folder = Folder::new(LLAMA);
    folder.put("tokenizer.json", base("llama3").to_string());
    folder.put("tokenizer_config.json", r#"{"bos_token":"","eos_token":"","unk_token":"","model_max_length":1e30}"#);
    let t = folder.tokenizer().unwrap();
    assert_eq!((t.bos(), t.eos()), (None, None));
}

/// Loads a folder's texts, and returns what the log says.
fn load(folder: &Folder, cancel: Option<&Cancel>) -> (Result<Arc<Model>>, Vec<String>) {
    let said = Arc::new(Mutex::new(vec![]));
    let log = said.clone();
    let log = Box::new(move |level: LogLevel, message: &str| log.lock().unwrap().push(format!("{level:?}: {message}")));
    let runtime = Runtime::new(RuntimeParams { threads: 1, log: Some(log), ..Default::default() }).unwrap();
    let params = LoadParams {
        runtime: Some(runtime),
        cancel,
        options: LoadOptions { text_only: true, ..Default::default() },
        ..Default::default()
    };
    let model = Model::load(folder.0.path(), params);
    let said = said.lock().unwrap().clone();
    (model, said)
}

#[test]
fn the_log_tells_what_a_load_assumes() {
    let folder = Folder::new(r#"{"model_type":"llama","vocab_size":285}"#);
    folder.put("tokenizer.json", base("llama3").to_string()).put("added_tokens.json", r#"{"[PAD]":285,"[END]":286}"#);
    let (model, said) = load(&folder, None);
    assert!(model.unwrap().tokenizer().is_ok());
    let what = "left out, because the model has 285: 2, \"[PAD]\" with the id 285";
    assert!(said.iter().any(|line| line.starts_with("Warning") && line.contains(what)), "{said:?}");
}

/// A token that repeats one letter is rejected by name, whatever kind of file names it, and a load that was cancelled
/// ends.
#[test]
fn long_added_tokens_are_refused_at_once() {
    let folder = Folder::new(LLAMA);
    folder.put("tokenizer.json", base("llama3").to_string());
    let long = json!({"added_tokens_decoder": {"285": {"content": "a".repeat(64 << 10), "special": true}}});
    folder.put("tokenizer_config.json", long.to_string());
    let started = Instant::now();
    let (model, said) = load(&folder, None);
    let why = model.unwrap().tokenizer().err().unwrap().to_string();
    assert!(why.contains("the special token 285 of 65536 bytes, at most 512"), "{why}");
    assert!(said.iter().any(|line| line.contains("no tokenizer: the special token 285")), "{said:?}");
    assert!(started.elapsed().as_secs_f64() < 5.0, "{:?}", started.elapsed());
    let cancel = Cancel::default();
    cancel.fire();
    assert!(matches!(load(&folder, Some(&cancel)).0, Err(Error::Cancelled)));
}

/// Any damaged file is rejected, or works.
#[test]
fn damaged_files_do_no_harm() {
    let json: Json = serde_json::from_str(include_str!("../data/text/files.json")).unwrap();
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut read = 0;
    for entry in json["tokenizers"].as_array().unwrap() {
        let (folder, entry) = published(entry["name"].as_str().unwrap());
        let files: Vec<&String> = entry["files"].as_object().unwrap().keys().collect();
        let whole: Vec<Vec<u8>> = files.iter().map(|name| fs::read(folder.0.path().join(name)).unwrap()).collect();
        for _ in 0..60 {
            let i = random(files.len());
            let mut bytes = whole[i].clone();
            for _ in 0..1 + random(3) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes[at] = random(256) as u8,
                    1 => bytes[at] ^= 1 << random(8),
                    2 => drop(bytes.drain(at..(at + random(20)).min(bytes.len()))),
                    _ => bytes.insert(at, b"09\"{}[],:-"[random(10)]),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            folder.put(files[i], bytes);
            if let Ok(t) = folder.tokenizer() {
                read += 1;
                let tokens = encode(&t, "Once upon <sym> a time\n\u{e9} \u{65e5} <|end|>  [INST]x", true);
                assert!(tokens.iter().all(|&id| (id as usize) < t.n_vocab()));
                t.decode(&tokens, true).unwrap();
            }
            folder.put(files[i], &whole[i]);
        }
    }
    assert!(read > 100, "{read}");
}

/// Without a class the network tells how a text is cut, where it has but one kind of tokenizer.
#[test]
fn lists_of_byte_pairs_without_a_class() {
    let load = |model_type: &str| {
        let (folder, entry) = published("Qwen2Tokenizer {}");
        fs::remove_file(folder.0.path().join("tokenizer_config.json")).unwrap();
        folder.put("config.json", format!(r#"{{"model_type":"{model_type}"}}"#));
        (folder.tokenizer(), entry)
    };
    let json: Json = serde_json::from_str(include_str!("../data/text/files.json")).unwrap();
    for (model_type, name) in
        [("qwen2", "Qwen2Tokenizer {}"), ("qwen3", "Qwen2Tokenizer {}"), ("gpt2", "GPT2Tokenizer {}")]
    {
        let (t, entry) = (load(model_type).0.unwrap(), published(name).1);
        for (i, text) in json["texts"].as_array().unwrap().iter().enumerate() {
            assert_eq!(encode(&t, text.as_str().unwrap(), true), ids(&entry["cases"][i]), "{model_type}: {text}");
        }
        let bos = (model_type == "gpt2").then_some(0);
        assert_eq!((t.bos(), t.eos(), t.kind(0)), (bos, Some(0), Some(TokenKind::Control)), "{model_type}");
    }
    let refused = load("mistral").0.err().unwrap().to_string();
    assert!(refused.contains("the tokenizer class \"\"") && refused.contains("\"llama\""), "{refused}");
}
