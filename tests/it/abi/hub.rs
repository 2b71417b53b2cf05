//! Models of the Hugging Face Hub: every fact of tests/data/hub.json about names, choices and encoders, and hostile
//! listings.

use std::ffi::c_char;
use std::fs;
use std::ptr::{null, null_mut};

use realizar::ffi::hub::*;
use realizar::ffi::status::*;
use serde_json::{Value, json};

use super::host::*;

const COMMIT: &str = "5555555555555555555555555555555555555555";
const DIGEST: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn facts(name: &str) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/hub.json");
    let all: Value = serde_json::from_str(&fs::read_to_string(path).expect("the facts")).expect("JSON");
    all[name].as_array().expect("a list").clone()
}

/// The status, and the choice or the message.
fn choose(model: &str, listing: Option<&str>, memory: u64, flags: u32) -> (rz_status, Value) {
    let (mut out, mut err, mut len) = (vec![0 as c_char; 1 << 20], no_error(), usize::MAX);
    let (at, n) = listing.map_or((null(), 0), |text| (text.as_ptr(), text.len()));
    let status = unsafe {
        let (model, at) = ((model.as_ptr().cast(), model.len()), at.cast());
        rz_hub_choose_into(model.0, model.1, at, n, memory, flags, out.as_mut_ptr(), out.len(), &mut len, &mut err)
    };
    match status {
        RZ_OK => (RZ_OK, serde_json::from_str(&text_of(&out[..len])).expect("JSON")),
        status => (status, text_of(&err.message).into()),
    }
}

fn listing(files: &Value) -> String {
    let file = |(name, size): (&String, &Value)| json!({"rfilename": name, "size": size, "blobId": DIGEST});
    let siblings = files.as_object().expect("files").iter().map(file).collect::<Vec<_>>();
    json!({"sha": COMMIT, "siblings": siblings}).to_string()
}

fn names(choice: &Value) -> Vec<&str> {
    choice["files"].as_array().expect("files").iter().map(|file| file["name"].as_str().expect("a name")).collect()
}

#[test]
fn names_are_checked() {
    let cases = facts("names");
    assert!(cases.len() >= 6);
    for case in cases {
        let model = case["model"].as_str().expect("a name");
        assert_eq!(choose(model, None, 0, 0), (RZ_ERR_INVALID_ARGUMENT, case["error"].clone()));
    }
    for model in ["", "a/b", "hf:a/b:x\ny", "hf:a/b:\0", "hf:/b", "hf:-a/b", "hf:a/b..c", "hf:a\u{e4}/b"] {
        assert_eq!(choose(model, None, 0, 0).0, RZ_ERR_INVALID_ARGUMENT, "{model}");
    }
}

#[test]
fn files_are_chosen_as_the_facts_say() {
    let cases = facts("choices");
    assert!(cases.len() >= 30);
    for case in cases {
        let quantization = case["quantization"].as_str().map_or(String::new(), |name| format!(":{name}"));
        let memory = case["free"].as_u64().expect("a number");
        let (status, choice) = choose(&format!("hf:o/n{quantization}"), Some(&listing(&case["files"])), memory, 0);
        if let Some(error) = case.get("error") {
            assert_eq!(&choice, error, "{case}");
            let is_memory = error.as_str().is_some_and(|text| text.contains("of memory are free"));
            let is_several = error.as_str().is_some_and(|text| text.contains("several files"));
            let kind = if is_several { RZ_ERR_INVALID_ARGUMENT } else { RZ_ERR_NOT_FOUND };
            assert_eq!(status, if is_memory { RZ_ERR_OUT_OF_MEMORY } else { kind }, "{case}");
            continue;
        }
        assert_eq!((status, json!(names(&choice))), (RZ_OK, case["chosen"].clone()), "{case}");
        let sizes = names(&choice).into_iter().map(|name| case["files"][name].as_u64().expect("a size"));
        assert_eq!((choice["size"].as_u64(), choice["commit"].as_str()), (Some(sizes.sum()), Some(COMMIT)), "{case}");
        let first = names(&choice)[0];
        assert_eq!(choice["load"], if first.ends_with(".gguf") { first } else { "" }, "{case}");
        assert_eq!(choice["files"][0]["digest"], DIGEST);
    }
}

#[test]
fn encoders_have_names() {
    let cases = facts("encoders");
    assert!(cases.len() >= 5);
    for case in cases {
        let (status, choice) = choose(case["model"].as_str().expect("a name"), None, 0, 0);
        assert_eq!((status, &choice["encoder"]), (RZ_OK, &case["encoder"]));
        assert!(choice.get("files").is_none());
    }
    let (_, choice) = choose("hf:o/n:Q4_K_M", None, 0, 0);
    assert_eq!(choice, json!({"repository": "o/n", "quantization": "Q4_K_M", "encoder": "hf:o/n:mmproj"}));
}

/// A cache has no digests; what is not complete there has no files, and memory does not matter.
#[test]
fn files_of_a_cache_are_found() {
    let files = [("m-Q8_0.gguf", 9_000_000_000_u64), ("m-Q4_0.gguf", 4_000_000_000)];
    let siblings = files.map(|(name, size)| json!({"rfilename": name, "size": size}));
    let listing = json!({"siblings": siblings}).to_string();
    let found = |model: &str, memory| {
        let (status, choice) = choose(model, Some(&listing), memory, RZ_HUB_CACHED);
        assert_eq!(status, RZ_OK, "{choice}");
        choice
    };
    assert_eq!(names(&found("hf:o/n", 0)), ["m-Q8_0.gguf"]);
    assert_eq!(names(&found("hf:o/n", 8_000_000_000)), ["m-Q4_0.gguf"]);
    assert_eq!(names(&found("hf:o/n", 1)), ["m-Q4_0.gguf"]);
    assert_eq!(names(&found("hf:o/n:Q8_0", 1)), ["m-Q8_0.gguf"]);
    for model in ["hf:o/n:Q5_0", "hf:o/n:mmproj"] {
        assert_eq!((names(&found(model, 0)).len(), &found(model, 0)["load"]), (0, &json!("")));
    }
    assert_eq!(choose("hf:o/n", Some(&listing), 0, 0).0, RZ_ERR_FORMAT, "without the flag digests are needed");
}

#[test]
fn labels_end_where_words_do() {
    for (file, label) in [
        ("m-Q4_K_M-imat", "Q4_K_M"),
        ("m-Q4_K_M+x", "Q4_K"),
        ("m-Q4x", ""),
        ("Q8_0", "Q8_0"),
        ("m_iq2_xxs", "IQ2_XXS"),
        ("m-UD-IQ1_S", "UD-IQ1_S"),
        ("m-mxfp4_moe", "MXFP4_MOE"),
        ("m-MXFP4_MOX", "MXFP4"),
        ("m.tq1_0.f16-", "F16"),
        ("BF16/m-Q9_0", "BF16"),
        ("m-Q4_0-Q5_1", "Q5_1"),
    ] {
        let listing = listing(&json!({format!("{file}.gguf"): 10, "other-NVFP4.gguf": 5}));
        let (_, message) = choose("hf:o/n:none", Some(&listing), 0, 0);
        let mut labels = [if label.is_empty() { file } else { label }, "NVFP4"];
        labels.sort_unstable();
        assert_eq!(message, format!("o/n has no none: take one of {}", labels.join(", ")), "{file}");
    }
}

#[test]
fn hostile_listings_are_refused() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = " ".repeat((1 << 26) + 1);
    let many = format!("[{}0]", "0,".repeat(1 << 21));
    let named = |name: &str| json!({"sha": COMMIT, "siblings": [{"rfilename": name}]}).to_string();
    let wrong = [
        "",
        "null",
        "{}",
        "<html>",
        "{\"sha\": 5, \"siblings\": []}",
        "{\"siblings\": []}",
        "{\"sha\": \"5\", \"siblings\": []}",
        &json!({"sha": COMMIT, "siblings": {}}).to_string(),
        &json!({"sha": COMMIT, "siblings": [{"size": 5}]}).to_string(),
        &json!({"sha": COMMIT, "siblings": [5]}).to_string(),
    ];
    for listing in wrong {
        let (status, message) = choose("hf:o/n", Some(listing), 0, 0);
        assert_eq!(status, RZ_ERR_FORMAT, "{}: {message}", &listing[..listing.len().min(80)]);
    }
    for listing in [&deep, &long, &many] {
        assert_eq!(choose("hf:o/n", Some(listing), 0, 0).0, RZ_ERR_LIMIT);
    }
    // What leads out of the folder, or has no size or digest, is not there.
    for name in
        ["../m-Q8_0.gguf", "/m-Q8_0.gguf", "a//m.gguf", "a/./m.gguf", "a\\m.gguf", "c:m.gguf", "a\nm.gguf", "m.gguf"]
    {
        assert_eq!(choose("hf:o/n", Some(&named(name)), 0, 0).0, RZ_ERR_NOT_FOUND, "{name}");
    }
    let file = json!({"rfilename": "m.gguf", "size": 5, "blobId": DIGEST, "lfs": {"size": 130}});
    let pointer = json!({"sha": COMMIT, "siblings": [file]}).to_string();
    assert_eq!(choose("hf:o/n", Some(&pointer), 0, 0).0, RZ_ERR_NOT_FOUND, "a pointer has no digest of its file");
    // Sizes that overflow.
    let files = |n| format!("m-Q8_0-0000{n}-of-00003.gguf");
    let large = listing(&json!({files(1): i64::MAX, files(2): i64::MAX, files(3): i64::MAX}));
    let (status, choice) = choose("hf:o/n:Q8_0", Some(&large), 1, 0);
    assert_eq!((status, choice["size"].as_u64()), (RZ_OK, Some(u64::MAX)));
    assert_eq!(choose("hf:o/n", Some(&large), 1, 0).0, RZ_ERR_OUT_OF_MEMORY);
}

#[test]
fn sizes_and_arguments_are_checked() {
    let (mut len, mut out) = (0, [0x55 as c_char; 8]);
    let (model, n) = (c"hf:o/n".as_ptr(), 6);
    unsafe {
        expect(RZ_OK, |e| rz_hub_choose_into(model, n, null(), 0, 0, 0, null_mut(), 0, &mut len, e));
        assert!(len > 50);
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| {
            rz_hub_choose_into(model, n, null(), 0, 0, 0, out.as_mut_ptr(), 8, &mut len, e)
        });
        assert_eq!(out, [0x55; 8]);
        refused("model is NULL", |e| rz_hub_choose_into(null(), n, null(), 0, 0, 0, null_mut(), 0, &mut len, e));
        refused("len is NULL", |e| rz_hub_choose_into(model, n, null(), 0, 0, 0, null_mut(), 0, null_mut(), e));
        fails(RZ_ERR_VERSION, "flags", |e| rz_hub_choose_into(model, n, null(), 0, 0, 2, null_mut(), 0, &mut len, e));
        refused("listing is not UTF-8", |e| {
            rz_hub_choose_into(model, n, c"\xff".as_ptr(), 1, 0, 0, null_mut(), 0, &mut len, e)
        });
    }
}
