//! Tokenizers compared with an independent reference. `tests/data/text` has two small vocabularies (the first merges of
//! SmolLM2's, and that of stories260K, each with a few tokens of other kinds) and the ids of a Python implementation
//! that follows the definitions without the data structures used here.

use proptest::prelude::*;
use realizar::error::Error;
use realizar::format::{Metadata, Strings, Value};
use realizar::text::{Chat, ChatTemplate, TextStream, Tokenizer};
use serde_json::Value as Json;

const BPE: &str = include_str!("../data/text/bpe.json");
const SPM: &str = include_str!("../data/text/spm.json");

fn strings(json: &Json) -> Vec<String> {
    json.as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect()
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

fn metadata(json: &Json, more: &[(&str, Value)]) -> Metadata {
    let list = |key: &str| Value::from(strings(&json[key]).iter().collect::<Strings>());
    let types: Vec<i64> = json["types"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
    let mut m = Metadata::from_iter([("tokenizer.ggml.tokens", list("tokens"))]);
    m.set("tokenizer.ggml.token_type", types);
    if let Some(scores) = json["scores"].as_array() {
        m.set("tokenizer.ggml.model", "llama");
        m.set("tokenizer.ggml.scores", scores.iter().map(|n| n.as_f64().unwrap() as f32).collect::<Vec<f32>>());
    } else {
        m.set("tokenizer.ggml.model", "gpt2");
        m.set("tokenizer.ggml.merges", list("merges"));
    }
    for (key, value) in more {
        m.set(&format!("tokenizer.ggml.{key}"), value.clone());
    }
    m
}

fn bpe(more: &[(&str, Value)]) -> Tokenizer {
    Tokenizer::from_metadata(&mut metadata(&serde_json::from_str(BPE).unwrap(), more)).unwrap()
}

fn spm(more: &[(&str, Value)]) -> Tokenizer {
    Tokenizer::from_metadata(&mut metadata(&serde_json::from_str(SPM).unwrap(), more)).unwrap()
}

fn encode(t: &Tokenizer, text: &str, add_special: bool, parse_special: bool) -> Vec<u32> {
    let mut out = Vec::new();
    t.encode(text, add_special, parse_special, &mut out).unwrap();
    out
}

fn compare(t: &Tokenizer, texts: &Json, want: &Json, parse_special: bool) {
    for (text, want) in strings(texts).iter().zip(want.as_array().unwrap()) {
        let got = encode(t, text, false, parse_special);
        assert_eq!(got, ids(want), "{text:?}");
        assert_eq!(t.decode(&got, true).unwrap(), text.as_bytes());
    }
}

#[test]
fn byte_level_bpe_makes_the_tokens_of_the_reference() {
    let json: Json = serde_json::from_str(BPE).unwrap();
    // The reference composes no characters; this name has the pattern of Qwen 2 and does not either.
    let name = |pre: &str| if pre == "qwen2" { "grok-2".to_owned() } else { pre.to_owned() };
    for (pre, want) in json["ids"].as_object().unwrap() {
        compare(&bpe(&[("pre", name(pre).into())]), &json["texts"], want, false);
    }
    compare(&bpe(&[("pre", name("qwen2").into())]), &json["texts"], &json["special_ids"], true);
}

/// Files do not say that a tokenizer composes characters; the name of its pre-tokenizer does.
#[test]
fn texts_are_normalized_as_the_name_of_the_pre_tokenizer_tells() {
    let composed = "Åström naïve ệ 가";
    let decomposed = "A\u{30a}stro\u{308}m nai\u{308}ve e\u{323}\u{302} \u{1100}\u{1161}";
    for name in ["qwen2", "qwen35", "command-r", "deepseek-r1-qwen", "stablelm2", "hunyuan", "mpt", "olmo", "tiny_aya"]
    {
        let t = bpe(&[("pre", name.into())]);
        assert_eq!(encode(&t, decomposed, false, false), encode(&t, composed, false, false), "{name}");
    }
    for name in ["gpt-2", "llama-bpe", "smollm", "deepseek-v3", "tekken", "gpt-4o", "glm4"] {
        let t = bpe(&[("pre", name.into())]);
        let tokens = encode(&t, decomposed, false, false);
        assert_eq!(t.decode(&tokens, false).unwrap(), decomposed.as_bytes(), "{name}");
    }
}

#[test]
fn what_a_load_assumes_is_noted() {
    // Some texts are twice in this vocabulary.
    let mut json: Json = serde_json::from_str(BPE).unwrap();
    let notes = |json: &Json, more: &[(&str, Value)]| {
        Tokenizer::from_metadata(&mut metadata(json, more)).unwrap().notes().to_vec()
    };
    let found = notes(&json, &[]);
    let [missing, repeated] = &found[..] else { panic!("{found:?}") };
    assert!(missing.contains("tokenizer.ggml.pre is missing"), "{missing}");
    assert!(repeated.contains("\"    \" is 2 tokens, 296 and 960"), "{repeated}");
    json["tokens"][960] = "¤¤¤".into();
    let rest = notes(&json, &[("pre", "qwen2".into())]);
    assert!(matches!(&rest[..], [note] if note.contains("is 2 tokens") && !note.contains("960")), "{rest:?}");
}

#[test]
fn sentencepiece_makes_the_tokens_of_the_reference() {
    let json: Json = serde_json::from_str(SPM).unwrap();
    for (prefix, want) in json["ids"].as_object().unwrap() {
        let t = spm(&[("add_space_prefix", (prefix == "true").into())]);
        for (text, want) in strings(&json["texts"]).iter().zip(want.as_array().unwrap()) {
            let got = encode(&t, text, false, false);
            assert_eq!(got, ids(want), "{text:?}");
            // A prefixed space is put after every added token too; U+2581 and the space are one and the same.
            if prefix == "false" {
                assert_eq!(t.decode(&got, false).unwrap(), text.replace('\u{2581}', " ").as_bytes(), "{text:?}");
            }
        }
    }
}

/// The markers of Phi 3 take the white space after them along, as its own tokenizer's `rstrip` says; what GGUF files
/// have no key for follows from the architecture.
#[test]
fn turn_markers_of_phi_3_take_the_white_space_behind_them() {
    let load = |architecture: &str| {
        let mut json: Json = serde_json::from_str(SPM).unwrap();
        for marker in ["<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>"] {
            for (list, value) in [("tokens", marker.into()), ("types", 3.into()), ("scores", 0.0.into())] {
                json[list].as_array_mut().unwrap().push(value);
            }
        }
        let mut m = metadata(&json, &[("add_space_prefix", false.into())]);
        m.set("general.architecture", architecture);
        Tokenizer::from_metadata(&mut m).unwrap()
    };
    let (phi, llama) = (load("phi3"), load("llama"));
    let ids = |t: &Tokenizer, text: &str| encode(t, text, false, true);
    let marker = |text: &str| ids(&llama, text)[0];
    let [user, assistant, end, text_end] = ["<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>"].map(marker);
    let (once, spaced) = (ids(&phi, "once"), ids(&phi, " \n once"));
    assert_eq!(spaced, ids(&llama, " \n once"));
    let chat = "<|user|> \n once<|end|>\n\u{a0}\t<|assistant|>\n";
    assert_eq!(ids(&phi, chat), [&[user][..], &once, &[end, assistant]].concat());
    assert!(ids(&llama, chat).len() > ids(&phi, chat).len());
    // Those that mark no turn leave it, and so does all where markers are not looked for.
    for (kept, id) in [("<s>", 1), ("<|endoftext|>", text_end)] {
        assert_eq!(ids(&phi, &format!("{kept} \n once")), [&[id][..], &spaced].concat());
    }
    assert_eq!(encode(&phi, chat, false, false), encode(&llama, chat, false, false));
}

#[test]
fn special_tokens_are_added_and_hidden_as_asked() {
    let t = spm(&[]);
    assert_eq!((t.bos(), t.eos(), t.is_end(2)), (Some(1), Some(2), true));
    let tokens = encode(&t, "once", true, false);
    assert_eq!(tokens[0], 1);
    assert_eq!(t.decode(&tokens, false).unwrap(), b"once");
    assert_eq!(t.decode(&tokens, true).unwrap(), b"<s> once");
    let t = spm(&[("add_bos_token", false.into()), ("add_eos_token", true.into())]);
    let tokens = encode(&t, "once", true, false);
    assert!(tokens[0] != 1 && tokens.ends_with(&[2]));

    let t = bpe(&[("pre", "gpt-2".into()), ("eos_token_id", 0u32.into())]);
    assert_eq!(encode(&t, "a", true, false), encode(&t, "a", false, false));
    assert!(t.is_end(0) && !t.is_end(1) && t.is_end(2), "<|im_end|> ends a turn although no key says so");
}

#[test]
fn what_cannot_work_is_refused_with_a_reason() {
    let refusal = |more: &[(&str, Value)]| {
        Tokenizer::from_metadata(&mut metadata(&serde_json::from_str(BPE).unwrap(), more)).err().unwrap()
    };
    assert!(matches!(refusal(&[("pre", "xyz".into())]), Error::Unsupported(what) if what.contains("xyz")));
    assert!(matches!(refusal(&[("model", "xyz".into())]), Error::Unsupported(what) if what.contains("xyz")));
    for wrong in [
        ("eos_token_id", Value::from(70_000u32)),
        ("add_bos_token", true.into()),
        ("token_type", vec![1i64].into()),
        ("tokens", "none".into()),
        ("merges", 1u32.into()),
    ] {
        assert!(matches!(refusal(std::slice::from_ref(&wrong)), Error::Format { .. }), "{wrong:?}");
    }
    for (types, what) in [(7i64, "token 5 has the type 7"), (-1, "token 5 has the type -1")] {
        let mut m = metadata(&serde_json::from_str(BPE).unwrap(), &[]);
        let mut all = m.i64s("tokenizer.ggml.token_type").unwrap().unwrap().to_vec();
        all[5] = types;
        m.set("tokenizer.ggml.token_type", all);
        let refused = Tokenizer::from_metadata(&mut m).err().unwrap();
        assert!(matches!(&refused, Error::Format { .. }) && refused.to_string().contains(what), "{refused}");
    }
    for (score, what) in [(f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf"), (f32::NAN, "NaN")] {
        for model in ["llama", "t5"] {
            let mut m = metadata(&serde_json::from_str(SPM).unwrap(), &[("model", model.into())]);
            let mut all = m.f32s("tokenizer.ggml.scores").unwrap().unwrap().into_owned();
            all[300] = score;
            m.set("tokenizer.ggml.scores", all);
            let refused = Tokenizer::from_metadata(&mut m).err().unwrap().to_string();
            assert!(refused.contains(&format!("token 300 has the score {what}")), "{model}: {refused}");
        }
    }
    // A byte is spelt by two digits, and a token that is none is no byte.
    for spelling in ["<0x+F>", "<0x-1>", "<0x0F"] {
        let mut json: Json = serde_json::from_str(SPM).unwrap();
        assert_eq!(json["types"][18], 6);
        json["tokens"][18] = spelling.into();
        let refused = Tokenizer::from_metadata(&mut metadata(&json, &[])).err().unwrap().to_string();
        assert!(refused.contains("token 18 should be a byte"), "{refused}");
    }
    let t = bpe(&[]);
    let message = t.decode_token(99_999, true).unwrap_err().to_string();
    assert!(message.contains("99999") && message.contains(&t.n_vocab().to_string()), "{message}");
}

fn huggingface(tokenizer: &Json) -> Result<Tokenizer, Error> {
    let text = Value::from(serde_json::to_string(tokenizer).unwrap());
    Tokenizer::from_metadata(&mut Metadata::from_iter([("tokenizer.huggingface.json", text)]))
}

#[test]
fn a_tokenizer_json_makes_the_tokens_of_its_own_library() {
    let json: Json = serde_json::from_str(include_str!("../data/text/huggingface.json")).unwrap();
    let texts = strings(&json["texts"]);
    for entry in json["tokenizers"].as_array().unwrap() {
        let t = huggingface(&entry["tokenizer"]).unwrap();
        for (text, case) in texts.iter().zip(entry["cases"].as_array().unwrap()) {
            let got = encode(&t, text, true, true);
            assert_eq!(got, ids(&case[0]), "{}: {text:?}", entry["name"]);
            if let Some(decoded) = case[1].as_str() {
                assert_eq!(String::from_utf8_lossy(&t.decode(&got, false).unwrap()), decoded, "{}", entry["name"]);
            }
        }
    }
}

#[test]
fn a_part_of_a_tokenizer_json_that_is_not_known_is_named() {
    let json: Json = serde_json::from_str(include_str!("../data/text/huggingface.json")).unwrap();
    let good = &json["tokenizers"][0]["tokenizer"];
    for (part, value, named) in [
        ("normalizer", serde_json::json!({"type": "Nmt"}), "Nmt"),
        ("normalizer", serde_json::json!({"type": "Precompiled", "precompiled_charsmap": ""}), "precompiled_charsmap"),
        ("normalizer", serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "?"}), "no base64"),
        ("pre_tokenizer", serde_json::json!({"type": "UnicodeScripts"}), "UnicodeScripts"),
        ("pre_tokenizer", serde_json::json!({"type": "Split", "pattern": {"Regex": "a(?=b)"}}), "look-around"),
        ("pre_tokenizer", serde_json::json!({"type": "Split", "pattern": {"Regex": "\\p{L}++"}}), "give nothing up"),
        ("decoder", serde_json::json!({"type": "CTC"}), "CTC"),
        ("post_processor", serde_json::json!({"type": "Other"}), "Other"),
        ("model", serde_json::json!({"type": "WordLevel", "vocab": {}}), "WordLevel"),
    ] {
        let mut bad = good.clone();
        bad[part] = value;
        match huggingface(&bad) {
            Err(Error::Unsupported(what)) => assert!(what.contains(named), "{what}"),
            other => panic!("{part}: {:?}", other.err()),
        }
    }
    for (part, value) in [
        ("model", serde_json::json!({"type": "BPE", "vocab": {"a": -1}, "merges": []})),
        ("model", serde_json::json!({"type": "BPE", "vocab": {"a": 0}, "merges": [1]})),
        ("model", serde_json::json!({"type": "BPE", "merges": []})),
        ("added_tokens", serde_json::json!([{"id": 1}])),
    ] {
        let mut bad = good.clone();
        bad[part] = value;
        assert!(matches!(huggingface(&bad), Err(Error::Format { .. })), "{part}");
    }
}

fn encoders() -> Json {
    serde_json::from_str(include_str!("../data/text/encoders.json")).unwrap()
}

#[test]
fn wordpiece_makes_the_tokens_of_its_own_library() {
    let json = encoders();
    let texts = strings(&json["texts"]);
    for entry in json["tokenizers"].as_array().unwrap() {
        let t = huggingface(&entry["tokenizer"]).unwrap();
        for (text, case) in texts.iter().zip(entry["cases"].as_array().unwrap()) {
            let got = encode(&t, text, true, true);
            assert_eq!(got, ids(&case[0]), "{}: {text:?}", entry["name"]);
            let decoded = t.decode(&got, false).unwrap();
            assert_eq!(String::from_utf8_lossy(&decoded), case[1].as_str().unwrap(), "{}", entry["name"]);
        }
    }
}

/// The vocabulary of a `tokenizer.json` as GGUF files have it: a mark before each token that begins a word.
fn wordpiece(more: &[(&str, Value)]) -> Metadata {
    let tokenizer = &encoders()["tokenizers"][0]["tokenizer"];
    let mut tokens: Vec<(u64, String)> = vec![];
    for (text, id) in tokenizer["model"]["vocab"].as_object().unwrap() {
        let id = id.as_u64().unwrap();
        let text = match text.strip_prefix("##") {
            _ if id < 5 => text.clone(),
            Some(part) => part.to_owned(),
            None => format!("\u{2581}{text}"),
        };
        tokens.push((id, text));
    }
    tokens.sort_unstable();
    let mut m = Metadata::from_iter([("tokenizer.ggml.model", Value::from("bert"))]);
    m.set("tokenizer.ggml.token_type", tokens.iter().map(|(id, _)| if *id < 5 { 3 } else { 1 }).collect::<Vec<i64>>());
    m.set("tokenizer.ggml.tokens", tokens.iter().map(|(_, text)| text).collect::<Strings>());
    for (name, id) in [("unknown", 1u32), ("bos", 2), ("seperator", 3)] {
        m.set(&format!("tokenizer.ggml.{name}_token_id"), id);
    }
    for (key, value) in more {
        m.set(&format!("tokenizer.ggml.{key}"), value.clone());
    }
    m
}

#[test]
fn a_gguf_file_has_wordpiece_too() {
    let json = encoders();
    let texts = strings(&json["texts"]);
    let cases: [(&[(&str, Value)], usize); 2] = [(&[], 0), (&[("normalizer.lowercase", false.into())], 1)];
    for (more, entry) in cases {
        let t = Tokenizer::from_metadata(&mut wordpiece(more)).unwrap();
        for (text, case) in texts.iter().zip(json["tokenizers"][entry]["cases"].as_array().unwrap()) {
            let got = encode(&t, text, true, true);
            assert_eq!(got, ids(&case[0]), "{entry}: {text:?}");
            assert_eq!(String::from_utf8_lossy(&t.decode(&got, false).unwrap()), case[1].as_str().unwrap());
        }
        // Control tokens in a text are text, and all of them are written where they are asked for.
        let plain = encode(&t, "[CLS] a [SEP]", false, false);
        assert!(!plain.contains(&2) && !plain.contains(&3));
        assert_eq!(t.decode(&encode(&t, "a, b", true, false), true).unwrap(), b"[CLS] a, b [SEP]");
    }
}

fn unigram(more: &[(&str, Value)]) -> Metadata {
    let json = &encoders()["unigram"];
    let ints = |key: &str| json[key].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect::<Vec<i64>>();
    let scores = json["scores"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32);
    let mut m = Metadata::from_iter([("tokenizer.ggml.model", Value::from("t5"))]);
    m.set("tokenizer.ggml.tokens", strings(&json["tokens"]).iter().collect::<Strings>());
    m.set("tokenizer.ggml.token_type", ints("types"));
    m.set("tokenizer.ggml.scores", scores.collect::<Vec<f32>>());
    m.set("tokenizer.ggml.unknown_token_id", 0u32);
    m.set("tokenizer.ggml.remove_extra_whitespaces", true);
    let mut map = vec![];
    let sextets = json["map"].as_str().unwrap().bytes().filter(|b| *b != b'=').map(|b| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|c| *c == b).unwrap()
    });
    for four in sextets.collect::<Vec<_>>().chunks(4) {
        let bits = four.iter().fold(0, |bits, six| bits << 6 | six) << (6 * (4 - four.len()));
        map.extend((0..four.len() - 1).map(|i| (bits >> (16 - 8 * i) & 255) as i64));
    }
    m.set("tokenizer.ggml.precompiled_charsmap", map);
    for (key, value) in more {
        m.set(&format!("tokenizer.ggml.{key}"), value.clone());
    }
    m
}

#[test]
fn unigram_of_a_gguf_file_makes_the_tokens_of_sentencepiece() {
    let json = &encoders()["unigram"];
    let t = Tokenizer::from_metadata(&mut unigram(&[])).unwrap();
    for (text, want) in strings(&json["texts"]).iter().zip(json["cases"].as_array().unwrap()) {
        assert_eq!(encode(&t, text, false, false), ids(want), "{text:?}");
    }
    assert_eq!(t.decode(&encode(&t, "  BAR  of\tit ", false, false), false).unwrap(), b"baR of it");
    // A text ends with the end token unless the file says otherwise; such files begin it too.
    assert_eq!(encode(&t, "a", true, false).last(), Some(&1));
    let marked = unigram(&[("add_bos_token", true.into()), ("bos_token_id", 2u32.into())]);
    let ids = encode(&Tokenizer::from_metadata(&mut { marked }).unwrap(), "a", true, false);
    assert!(ids[0] == 2 && ids[ids.len() - 1] == 1);
    let damaged = |map: Vec<i64>| Tokenizer::from_metadata(&mut unigram(&[("precompiled_charsmap", map.into())]));
    for map in [vec![1, 2, 3], vec![255; 40], vec![4, 0, 0, 0, 1, 1, 1, 1, 255]] {
        assert!(matches!(damaged(map), Err(Error::Unsupported(what)) if what.contains("precompiled_charsmap")));
    }
}

#[test]
fn greedy_tokens_are_those_of_rwkv() {
    let json: Json = serde_json::from_str(include_str!("../data/text/rwkv.json")).unwrap();
    let tokens = strings(&json["tokens"]);
    let mut types = vec![1i64; tokens.len()];
    types[0] = 3;
    let mut m = Metadata::from_iter([("tokenizer.ggml.model", Value::from("rwkv"))]);
    m.set("tokenizer.ggml.tokens", tokens.iter().collect::<Strings>());
    m.set("tokenizer.ggml.token_type", types);
    m.set("tokenizer.chat_template", "rwkv-world");
    let mut bare = m.clone();
    let t = Tokenizer::from_metadata(&mut m).unwrap();
    compare(&t, &json["texts"], &json["cases"], false);
    assert_eq!(encode(&t, "<s>a", true, true), [&[0], &encode(&t, "a", false, false)[..]].concat());
    // The template that files name by a word.
    let turns = [("system", "Be brief. "), ("user", "Hi"), ("assistant", "Hello."), ("user", "Bye\n")];
    let template = ChatTemplate::from_metadata(&m, &t).unwrap().unwrap();
    let text = template.render(&Chat::new(&turns, true)).unwrap().plain().unwrap();
    assert_eq!(text, "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello.\n\nUser: Bye\n\nAssistant:");
    // Bytes that no token has are left out if no token stands for them.
    bare.set("tokenizer.ggml.tokens", ["<s>", "a", "aa"].iter().collect::<Strings>());
    bare.set("tokenizer.ggml.token_type", vec![3i64, 1, 1]);
    let few = Tokenizer::from_metadata(&mut bare.clone()).unwrap();
    assert_eq!(encode(&few, "aaaba", false, false), [2, 1, 1]);
    bare.set("tokenizer.ggml.unknown_token_id", 0u32);
    let few = Tokenizer::from_metadata(&mut bare.clone()).unwrap();
    assert_eq!(encode(&few, "aaaba", false, false), [2, 1, 0, 1]);
}

/// The same tokens as lines of Python, in both forms in which folders have them.
#[test]
fn vocabularies_of_rwkv_in_folders_are_those_of_files() {
    let json: Json = serde_json::from_str(include_str!("../data/text/rwkv.json")).unwrap();
    let tokens = strings(&json["tokens"]);
    let length = |token: &str| {
        let (mut rest, mut n) = (token, 0);
        while !rest.is_empty() {
            let escape = if rest.starts_with("\\x") { 4 } else { 2 };
            rest = &rest[if rest.starts_with('\\') { escape } else { 1 }..];
            n += 1;
        }
        n
    };
    let numbered = |(i, token): (usize, &String)| format!("{i} b'{token}' {}\n", length(token));
    let newer: String = tokens.iter().enumerate().skip(1).map(numbered).collect();
    let older: String = tokens.iter().map(|token| format!("b'{token}'\n")).collect();
    let load = |text: &str| {
        let mut m = Metadata::from_iter([("tokenizer.huggingface.rwkv", Value::from(text))]);
        m.set("tokenizer.ggml.eos_token_id", 2u32);
        Tokenizer::from_metadata(&mut m).map(|t| (t, m))
    };
    for text in [&newer, &older] {
        let (t, m) = load(text).unwrap();
        compare(&t, &json["texts"], &json["cases"], false);
        let template = ChatTemplate::from_metadata(&m, &t).unwrap().unwrap();
        let said = template.render(&Chat::new(&[("user", "Hi")], true)).unwrap().plain().unwrap();
        assert_eq!(said, "User: Hi\n\nAssistant:");
        assert_eq!(encode(&t, "<s>", true, true), [0]);
    }
    // A literal of text has characters where one of bytes has bytes.
    let (t, _) = load("1 '\u{e9}\\x80\\u200b' 7\n2 b'\\xe9' 1\n").unwrap();
    assert_eq!(encode(&t, "\u{e9}\u{80}\u{200b}", false, false), [1]);
    for wrong in ["1 'a' 2", "2 'a' 1", "1 'a 1", "1 'a\\q' 1", "'a'", "1 b'\\x8' 1", "1 '\\ud800' 3", ""] {
        let error = load(&format!("{wrong}\n")).err().unwrap().to_string();
        assert!(error.contains("line 1 is no token of RWKV"), "{wrong}: {error}");
    }
}

#[test]
fn gemma_4_merges_characters_between_newlines() {
    let tokens =
        ["<bos>", "<eos>", "<0x21>", "\u{2581}", "a", "b", "\n", "\n\n", "ab", "\u{2581}ab", "\u{2581}\u{2581}"];
    let mut m = Metadata::from_iter([("tokenizer.ggml.model", Value::from("gemma4"))]);
    m.set("tokenizer.ggml.tokens", tokens.iter().collect::<Strings>());
    m.set("tokenizer.ggml.token_type", vec![3i64, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1]);
    let merges = ["a b", "\u{2581} ab", "\u{2581} \u{2581}"];
    m.set("tokenizer.ggml.merges", merges.iter().collect::<Strings>());
    m.set("tokenizer.ggml.bos_token_id", 0u32);
    m.set("tokenizer.ggml.add_bos_token", false);
    m.set("tokenizer.ggml.suppress_tokens", vec![3i64, -1, 99, 10]);
    let t = Tokenizer::from_metadata(&mut m).unwrap();
    assert_eq!(t.suppressed(), [3, 10]);
    assert_eq!(encode(&t, "ab ab\n\nab  b!", true, false), [0, 8, 9, 7, 8, 10, 5, 2]);
    assert_eq!(encode(&t, "\n\n\n", false, false), [6, 6, 6]);
    assert_eq!(t.decode(&[8, 9, 7, 10, 5, 2], false).unwrap(), b"ab ab\n\n  b!");
}

/// A heap in place of a search over all pairs; the quadratic way would take hours.
#[test]
fn a_megabyte_of_one_letter_is_quick() {
    let text = "a".repeat(1 << 20);
    for t in [bpe(&[("pre", "gpt-2".into())]), spm(&[])] {
        assert_eq!(t.decode(&encode(&t, &text, false, false), false).unwrap(), text.as_bytes());
    }
}

#[test]
fn a_stream_hands_on_whole_characters_only() {
    let t = bpe(&[]);
    let mut stream = TextStream::new();
    let text = "déjà 🦙 ";
    let mut whole = String::new();
    for id in encode(&t, text, false, false) {
        stream.push(&t, id, &mut whole).unwrap();
        assert!(text.starts_with(&whole));
    }
    stream.flush(&mut whole);
    assert_eq!(whole, text);

    // A character that breaks off: one replacement for its bytes so far, and the next one is kept.
    let llama = encode(&t, "🦙", false, false);
    let mut out = String::new();
    stream.push(&t, llama[0], &mut out).unwrap();
    assert_eq!(out, "");
    let a = encode(&t, "a", false, false)[0];
    stream.push(&t, a, &mut out).unwrap();
    assert_eq!(out, "\u{fffd}a");
    stream.push(&t, llama[0], &mut out).unwrap();
    stream.flush(&mut out);
    assert_eq!(out, "\u{fffd}a\u{fffd}");
    assert!(stream.push(&t, 99_999, &mut out).is_err());
}

#[test]
fn a_stream_drops_the_space_that_sentencepiece_adds() {
    let t = spm(&[]);
    let mut stream = TextStream::new();
    let mut out = String::new();
    for id in encode(&t, "Once upon a time", true, false) {
        stream.push(&t, id, &mut out).unwrap();
    }
    assert_eq!(out, "Once upon a time");
}

#[test]
fn a_stream_that_goes_on_with_a_text_keeps_the_space() {
    let t = spm(&[]);
    let prompt = encode(&t, "Once upon a", true, false);
    let all = encode(&t, "Once upon a time", true, false);
    let reply = &all[prompt.len()..];
    assert!(all.starts_with(&prompt) && t.decode(reply, false).unwrap() == b"time");
    let text = |before: &[&[u32]]| {
        let (mut stream, mut out) = (TextStream::new(), String::new());
        before.iter().for_each(|tokens| stream.follow(&t, tokens));
        reply.iter().for_each(|&id| stream.push(&t, id, &mut out).unwrap());
        out
    };
    assert_eq!(text(&[&prompt]), " time");
    assert_eq!(text(&[&prompt[..2], &prompt[2..]]), " time");
    // What begins a text has none itself, and neither has a token that the vocabulary lacks.
    for nothing in [&[][..], &[1], &[1, 99_999]] {
        assert_eq!(text(&[nothing]), "time", "{nothing:?}");
    }
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(text in "\\PC*|[ \\t\\r\\n'a-z0-9<|>_]*", special: bool) {
        for pre in ["gpt-2", "llama-bpe"] {
            let t = bpe(&[("pre", pre.into())]);
            prop_assert_eq!(t.decode(&encode(&t, &text, false, special), true).unwrap(), text.as_bytes());
        }
        let t = spm(&[("add_space_prefix", false.into())]);
        let text = text.replace('\u{2581}', "");
        prop_assert_eq!(t.decode(&encode(&t, &text, false, false), true).unwrap(), text.as_bytes());
    }

    /// Any file is rejected, or works.
    #[test]
    fn no_metadata_is_a_panic(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..30),
        types in prop::collection::vec(0i64..8, 30),
        merges in prop::collection::vec(prop::sample::select(MERGES), 0..20),
        pre in prop::sample::select(
            &["default", "gpt-2", "llama-bpe", "deepseek-llm", "viking", "superbpe", "jais-2", "gemma4", "whitespace"][..]
        ),
        model in prop::sample::select(&["llama", "gpt2", "bert", "t5", "gemma4", "whitespace", "rwkv"][..]),
        map in prop::collection::vec(0i64..256, 0..40),
        with_types: bool,
        scores in prop::collection::vec(-2.0f32..2.0, 30),
        special in prop::collection::vec(0u32..34, 3),
        text in "[a-c <s>\u{2581}é日]{0,20}|\\PC{0,10}",
    ) {
        let n = tokens.len();
        let mut m = Metadata::from_iter([
            ("tokenizer.ggml.model", Value::from(model)),
            ("tokenizer.ggml.pre", pre.into()),
            ("tokenizer.ggml.tokens", tokens.iter().collect::<Strings>().into()),
            ("tokenizer.ggml.merges", merges.iter().collect::<Strings>().into()),
            ("tokenizer.ggml.scores", scores[..n].to_vec().into()),
        ]);
        if map.len() > 20 {
            m.set("tokenizer.ggml.precompiled_charsmap", [vec![16i64, 0, 0, 0], map].concat());
        }
        if with_types {
            m.set("tokenizer.ggml.token_type", types[..n].to_vec());
        }
        for (name, id) in ["bos", "eos", "unknown"].iter().zip(special) {
            if id < 30 {
                m.set(&format!("tokenizer.ggml.{name}_token_id"), id);
            }
        }
        if let Ok(t) = Tokenizer::from_metadata(&mut m) {
            let mut out = Vec::new();
            t.encode(&text, true, true, &mut out).unwrap();
            prop_assert!(out.iter().all(|&id| (id as usize) < n));
            t.decode(&out, true).unwrap();
            let mut stream = TextStream::new();
            for id in 0..n as u32 {
                stream.push(&t, id, &mut String::new()).unwrap();
            }
        }
    }

    #[test]
    fn a_stream_agrees_with_the_whole(ids in prop::collection::vec(0u32..900, 0..40)) {
        let t = bpe(&[]);
        let (mut stream, mut out) = (TextStream::new(), String::new());
        for &id in &ids {
            stream.push(&t, id, &mut out).unwrap();
        }
        stream.flush(&mut out);
        let whole = t.decode(&ids, false).unwrap();
        prop_assert_eq!(out, String::from_utf8_lossy(&whole));
    }

    /// After any beginning, a stream writes the same text as a stream that was given all tokens.
    #[test]
    fn a_stream_that_follows_agrees_with_the_whole(
        ids in prop::collection::vec(0u32..512, 0..12),
        at: [prop::sample::Index; 2],
    ) {
        let mut at = at.map(|at| at.index(ids.len() + 1));
        at.sort_unstable();
        for t in [bpe(&[]), spm(&[])] {
            let (mut whole, mut before) = (TextStream::new(), String::new());
            ids[..at[1]].iter().for_each(|&id| whole.push(&t, id, &mut before).unwrap());
            let mut stream = TextStream::new();
            stream.follow(&t, &ids[..at[0]]);
            stream.follow(&t, &ids[at[0]..at[1]]);
            let rest = |mut stream: TextStream| {
                let mut text = String::new();
                ids[at[1]..].iter().for_each(|&id| stream.push(&t, id, &mut text).unwrap());
                stream.flush(&mut text);
                text
            };
            prop_assert_eq!(rest(stream), rest(whole));
        }
    }
}

const TOKENS: &[&[u8]] = &[
    b"",
    b"a",
    b"b",
    b"c",
    b"ab",
    b"abc",
    "\u{120}".as_bytes(),
    "\u{120}a".as_bytes(),
    "\u{2581}".as_bytes(),
    "\u{2581}a".as_bytes(),
    "a\u{2581}".as_bytes(),
    b"<s>",
    b"</s>",
    b"<0x41>",
    b"<0xZZ>",
    b"\xff",
    b"\xe6\x97",
    "\u{e9}".as_bytes(),
    b" ",
    b"  ",
    b"<|im_end|>",
    b"<|end|>",
    b"<|return|>",
    b"<|call|>",
    b"s",
    b"<",
];

const MERGES: &[&[u8]] = &[b"", b" ", b"a", b"a b", b"ab c", b" a", b"a ", b"a  b", b"b c", b"\xff a", b"a b c"];
