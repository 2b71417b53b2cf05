//! Grammars and conversations in JSON through the C interface.

use super::host::*;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;

fn new_grammar(model: *const rz_model, kind: u32, text: &str) -> *mut rz_grammar {
    let mut grammar = null_mut();
    expect(RZ_OK, |e| unsafe {
        rz_grammar_new(model, kind, 0, text.as_ptr().cast(), text.len(), null(), &mut grammar, e)
    });
    grammar
}

fn new_sampler() -> *mut rz_sampler {
    let mut sampler = null_mut();
    expect(RZ_OK, |e| unsafe { rz_sampler_new(null(), &mut sampler, e) });
    sampler
}

/// Returns the text that the model generates greedily after the first token, and the end reason.
fn generate(host: &Host, sampler: *mut rz_sampler) -> (rz_status, String) {
    let (mut tokens, mut n, mut text, mut len) = ([0u32; 200], 0, [0u8; 2000], 0);
    unsafe {
        expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
        let mut err = no_error();
        let status = rz_generate_into(host.cache, BOS, sampler, tokens.as_mut_ptr(), 200, &mut n, null(), &mut err);
        expect(RZ_OK, |e| {
            rz_detokenize_into(host.model, tokens.as_ptr(), n, 0, text.as_mut_ptr().cast(), text.len(), &mut len, e)
        });
        (status, String::from_utf8(text[..len].to_vec()).expect("UTF-8"))
    }
}

fn expect_step(job: *mut rz_job) -> rz_status {
    let mut err = no_error();
    unsafe { rz_job_step(job, RZ_NO_LIMIT, &mut err) }
}

#[test]
fn generation_ends_where_the_grammar_does() {
    let host = Host::new(256);
    let schema = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "n": {"type": "integer",
        "minimum": 0, "maximum": 99}}, "required": ["name", "n"], "additionalProperties": false,
        "x-guidance": {"whitespace_flexible": false}}"#;
    let grammar = new_grammar(host.model, RZ_GRAMMAR_JSON_SCHEMA, schema);
    let sampler = new_sampler();
    unsafe {
        expect(RZ_OK, |e| rz_sampler_grammar_set(sampler, grammar, e));
        let (status, text) = generate(&host, sampler);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(status == RZ_DONE && value["name"].is_string() && value["n"].as_u64() < Some(100), "{text}");
        // A rewind to before its start begins the grammar again; a sampler outlives it.
        rz_grammar_free(grammar);
        assert_eq!(generate(&host, sampler), (status, text));
        // Without it the text is another one.
        expect(RZ_OK, |e| rz_sampler_grammar_set(sampler, null(), e));
        assert!(generate(&host, sampler).1.contains("Once upon"));
        let batch = new_grammar(host.model, RZ_GRAMMAR_CHOICES, r#"["a"]"#);
        expect(RZ_OK, |e| rz_sampler_grammar_set(sampler, batch, e));
        expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
        let mut next = BOS;
        expect(RZ_OK, |e| rz_decode_batch(&host.cache, &next, 1, &sampler, &mut next, e));
        let mut again = 0;
        expect(RZ_OK, |e| rz_sample(host.cache, sampler, &mut again, e));
        assert_eq!(next, again);
        refused("the grammar does not allow token 400", |e| rz_decode_token(host.cache, 400, sampler, &mut next, e));
        assert_eq!(host.len(), 1);
        expect(RZ_OK, |e| rz_decode_token(host.cache, again, sampler, &mut next, e));
        assert_eq!(rz_token_is_end(host.model, next), 1);
        // A job begins at the grammar's start, whatever the sampler's is.
        expect(RZ_OK, |e| rz_cache_truncate(host.cache, 0, e));
        let struct_size = size_of::<rz_job_params>() as u32;
        let params = rz_job_params { struct_size, tokens: &BOS, n_tokens: 1, sampler, grammar: batch, ..zeroed() };
        let (mut job, mut n, mut text) = (null_mut(), 0, [0u8; 8]);
        expect(RZ_OK, |e| rz_job_new(host.cache, &params, &mut job, e));
        while expect_step(job) == RZ_AGAIN {}
        expect(RZ_OK, |e| rz_job_text_into(job, text.as_mut_ptr().cast(), text.len(), &mut n, e));
        assert_eq!(&text[..n], b"a");
        let mut info = sized::<rz_job_info>();
        expect(RZ_OK, |e| rz_job_info_get(job, &mut info, e));
        assert_eq!(info.end_reason, RZ_END_GRAMMAR);
        rz_job_free(job);
        rz_grammar_free(batch);
        rz_sampler_free(sampler);
    }
}

#[test]
fn bad_grammars_are_refused() {
    let model = load_text();
    let mut grammar = null_mut();
    unsafe {
        refused("model", |e| rz_grammar_new(null(), 1, 0, null(), 0, null(), &mut grammar, e));
        refused("out is NULL", |e| rz_grammar_new(model, RZ_GRAMMAR_JSON, 0, null(), 0, null(), null_mut(), e));
        refused("text is NULL", |e| rz_grammar_new(model, RZ_GRAMMAR_REGEX, 0, null(), 1, null(), &mut grammar, e));
        refused("not UTF-8", |e| {
            rz_grammar_new(model, RZ_GRAMMAR_REGEX, 0, c"\xff".as_ptr(), 1, null(), &mut grammar, e)
        });
        refused("kind is 8", |e| rz_grammar_new(model, 8, 0, null(), 0, null(), &mut grammar, e));
        // A flag is no part of a kind.
        refused("kind is 257", |e| {
            rz_grammar_new(model, RZ_GRAMMAR_JSON_SCHEMA | 256, 0, null(), 0, null(), &mut grammar, e)
        });
        let message =
            expect(RZ_ERR_VERSION, |e| rz_grammar_new(model, RZ_GRAMMAR_JSON, 4, null(), 0, null(), &mut grammar, e));
        assert!(message.contains("flags has bits 0x4"), "{message}");
        for (kind, flags, what) in [
            (RZ_GRAMMAR_REGEX, RZ_GRAMMAR_FLAG_WHITESPACE, "RZ_GRAMMAR_FLAG_WHITESPACE needs"),
            (RZ_GRAMMAR_JSON, RZ_GRAMMAR_FLAG_BEST_EFFORT, "RZ_GRAMMAR_FLAG_BEST_EFFORT needs"),
            (RZ_GRAMMAR_TOOLS, RZ_GRAMMAR_FLAG_BEST_EFFORT, "RZ_GRAMMAR_FLAG_BEST_EFFORT needs"),
        ] {
            refused(what, |e| rz_grammar_new(model, kind, flags, c"a".as_ptr(), 1, null(), &mut grammar, e));
        }
        refused("kind is 0", |e| rz_grammar_new(model, 0, 0, null(), 0, null(), &mut grammar, e));
        refused("schema", |e| rz_grammar_new(model, RZ_GRAMMAR_JSON_SCHEMA, 0, null(), 0, null(), &mut grammar, e));
        refused("root", |e| rz_grammar_new(model, RZ_GRAMMAR_GBNF, 0, null(), 0, null(), &mut grammar, e));
        refused("conversation", |e| rz_grammar_new(model, RZ_GRAMMAR_TOOLS, 0, null(), 0, null(), &mut grammar, e));
        let long = " ".repeat(300_000);
        expect(RZ_ERR_LIMIT, |e| {
            rz_grammar_new(model, RZ_GRAMMAR_LARK, 0, long.as_ptr().cast(), long.len(), null(), &mut grammar, e)
        });
        refused("sampler", |e| rz_sampler_grammar_set(null_mut(), null(), e));
        assert!(grammar.is_null());
        rz_grammar_free(null_mut());
        rz_model_free(model);
    }
}

#[test]
fn conversations_in_json_become_text_and_tokens() {
    let file = with_template(
        "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ tools[0].function.name }}{{ x }}",
    );
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let json = r#"{"messages": [{"role": "user", "content": "Hi</s>"}], "variables": {"x": 1},
        "tools": [{"type": "function", "function": {"name": "f<s>"}}]}"#;
    let (mut text, mut tokens, mut n) = ([0u8; 64], [0u32; 64], 0);
    unsafe {
        expect(RZ_OK, |e| {
            rz_chat_render_into(
                model,
                json.as_ptr().cast(),
                json.len(),
                1,
                text.as_mut_ptr().cast(),
                64,
                &mut n,
                null(),
                e,
            )
        });
        assert_eq!(&text[..n], b"<s>Hi</s>f<s>1");
        expect(RZ_OK, |e| {
            rz_chat_tokenize_into(model, json.as_ptr().cast(), json.len(), 0, null_mut(), 0, &mut n, null(), e)
        });
        let needed = n;
        expect(RZ_OK, |e| {
            rz_chat_tokenize_into(
                model,
                json.as_ptr().cast(),
                json.len(),
                0,
                tokens.as_mut_ptr(),
                64,
                &mut n,
                null(),
                e,
            )
        });
        assert!(
            n == needed && tokens[0] == BOS && !tokens[1..n].contains(&BOS) && !tokens[..n].contains(&2),
            "{tokens:?}"
        );
        for (json, what) in [("", "EOF"), ("{\"a\": 1}", "\"a\""), ("{\"messages\": [{}]}", "messages[0].role")] {
            refused(what, |e| {
                rz_chat_tokenize_into(model, json.as_ptr().cast(), json.len(), 0, null_mut(), 0, &mut n, null(), e)
            });
        }
        refused("json is NULL", |e| rz_chat_render_into(model, null(), 5, 0, null_mut(), 0, &mut n, null(), e));
        refused("len is NULL", |e| {
            rz_chat_render_into(model, json.as_ptr().cast(), json.len(), 0, null_mut(), 0, null_mut(), null(), e)
        });
        expect(RZ_ERR_VERSION, |e| {
            rz_chat_tokenize_into(model, json.as_ptr().cast(), json.len(), 2, null_mut(), 0, &mut n, null(), e)
        });
        rz_model_free(model);
    }
}
