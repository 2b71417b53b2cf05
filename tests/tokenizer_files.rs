//! Tokenizers of folders as they are published, against the libraries of their owners: what files beside `tokenizer.json`
//! add to it. `tests/data/text` holds the folders, what the libraries make of texts, and the scripts.

use std::fs;

use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::text::{TokenKind, Tokenizer};
use serde_json::{Value as Json, json};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(config: &str) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.put("config.json", config);
        folder
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Folder {
        fs::write(self.0.path().join(name), bytes).unwrap();
        self
    }

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
    let json: Json = serde_json::from_str(include_str!("data/text/huggingface.json")).unwrap();
    let all = json["tokenizers"].as_array().unwrap();
    all.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}"))["tokenizer"].clone()
}

#[test]
fn files_beside_a_tokenizer_add_what_transformers_adds() {
    let json: Json = serde_json::from_str(include_str!("data/text/added.json")).unwrap();
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
