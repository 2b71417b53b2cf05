//! Replies taken apart, and grammars of calls, through the C interface.

use super::host::*;
use std::ptr::{null, null_mut};

use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::model::*;
use realizar::ffi::reply::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;

const TEMPLATE: &str = "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}\
    {{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' }}\
    {{ c.function.arguments | tojson }}{{ '}' }}</call>{% endfor %}{% endfor %}";

const CHAT: &str = r#"{"messages": [{"role": "user", "content": "Hi"}], "tool_choice": "required", "parallel_tool_calls": false,
    "tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {
        "by": {"enum": ["car", "bus"]}, "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["by", "n"],
        "additionalProperties": false, "x-guidance": {"whitespace_flexible": false}}}}]}"#;

fn push(parser: *mut rz_chat_parser, text: &str) {
    for byte in text.bytes() {
        expect(RZ_OK, |e| unsafe { rz_chat_parser_push(parser, 3 + u32::from(byte), e) });
    }
}

/// The parts that can be taken now.
fn parts(parser: *mut rz_chat_parser) -> Vec<(u32, u32, String)> {
    let mut parts = Vec::new();
    loop {
        let (mut kind, mut index, mut text, mut len, mut err) = (77, 77, [0u8; 256], 0, no_error());
        let status = unsafe {
            rz_chat_parser_next_into(parser, &mut kind, &mut index, text.as_mut_ptr().cast(), 256, &mut len, &mut err)
        };
        if status == RZ_DONE {
            assert_eq!((kind, index), (77, 77));
            return parts;
        }
        assert_eq!(status, RZ_OK);
        parts.push((kind, index, String::from_utf8(text[..len].to_vec()).expect("UTF-8")));
    }
}

#[test]
fn a_generated_call_is_taken_apart() {
    let file = with_template(TEMPLATE);
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let host = Host { model, cache: new_cache(model, 256) };
    let (mut grammar, mut sampler, mut parser) = (null_mut(), null_mut(), null_mut());
    let (mut tokens, mut n) = ([0u32; 200], 0);
    unsafe {
        expect(RZ_OK, |e| rz_grammar_new(model, RZ_GRAMMAR_TOOLS, CHAT.as_ptr().cast(), CHAT.len(), &mut grammar, e));
        expect(RZ_OK, |e| rz_sampler_new(null(), &mut sampler, e));
        expect(RZ_OK, |e| rz_sampler_grammar_set(sampler, grammar, e));
        let status = rz_generate_into(host.cache, BOS, sampler, tokens.as_mut_ptr(), 200, &mut n, null(), null_mut());
        assert_eq!(status, RZ_DONE);
        expect(RZ_OK, |e| rz_chat_parser_new(model, CHAT.as_ptr().cast(), CHAT.len(), &mut parser, e));
        for &token in &tokens[..n] {
            expect(RZ_OK, |e| rz_chat_parser_push(parser, token, e));
        }
        let parts = parts(parser);
        assert_eq!(parts[0], (RZ_CHAT_EVENT_TOOL_NAME, 0, "go".to_owned()));
        let arguments: serde_json::Value = serde_json::from_str(&parts[1].2).expect("JSON");
        assert!(["car", "bus"].contains(&arguments["by"].as_str().expect("a text")), "{arguments}");
        assert!(arguments["n"].as_u64() < Some(10), "{arguments}");
        assert_eq!((parts[1].0, parts[2].0, parts.len()), (RZ_CHAT_EVENT_TOOL_ARGUMENTS, RZ_CHAT_EVENT_END, 3));
        rz_chat_parser_free(parser);
        rz_grammar_free(grammar);
        rz_sampler_free(sampler);
    }
}

#[test]
fn parts_wait_until_there_is_room() {
    let file = with_template(TEMPLATE);
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let mut parser = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_chat_parser_new(model, CHAT.as_ptr().cast(), CHAT.len(), &mut parser, e));
        rz_model_free(model);
        push(parser, "é <call>no");
        let (mut kind, mut index, mut len) = (0, 0, 0);
        let mut out = [0u8; 2];
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| {
            rz_chat_parser_next_into(parser, &mut kind, &mut index, out.as_mut_ptr().cast(), 1, &mut len, e)
        });
        assert_eq!((kind, index, len), (0, 0, 2));
        expect(RZ_OK, |e| {
            rz_chat_parser_next_into(parser, &mut kind, &mut index, out.as_mut_ptr().cast(), 2, &mut len, e)
        });
        assert_eq!((kind, index, len, &out), (RZ_CHAT_EVENT_CONTENT, 0, 2, &[0xc3, 0xa9]));
        let unparsed = RZ_CHAT_EVENT_CONTENT | RZ_CHAT_EVENT_UNPARSED;
        push(parser, " \n");
        assert_eq!(parts(parser), [(unparsed, 0, " <call>no".to_owned())]);
        expect(RZ_OK, |e| rz_chat_parser_end(parser, e));
        expect(RZ_OK, |e| rz_chat_parser_end(parser, e));
        let end = (RZ_CHAT_EVENT_END | RZ_CHAT_EVENT_UNPARSED, 0, String::new());
        assert_eq!(parts(parser), [(unparsed, 0, " \n".to_owned()), end]);
        assert!(parts(parser).is_empty());
        refused("behind the end", |e| rz_chat_parser_push(parser, 5, e));
        rz_chat_parser_free(parser);
    }
}

#[test]
fn bad_arguments_are_refused() {
    let (model, file) = (load_text(), with_template("{{ messages[0].content }}"));
    let loses = load_with(file.path().to_str().expect("UTF-8"), null());
    let (mut parser, mut grammar) = (null_mut(), null_mut());
    let (mut kind, mut index, mut len) = (0, 0, 0);
    let (json, n) = (CHAT.as_ptr().cast(), CHAT.len());
    unsafe {
        refused("model", |e| rz_chat_parser_new(null(), json, n, &mut parser, e));
        refused("json is NULL", |e| rz_chat_parser_new(model, null(), 1, &mut parser, e));
        refused("out is NULL", |e| rz_chat_parser_new(model, json, n, null_mut(), e));
        refused("EOF", |e| rz_chat_parser_new(model, null(), 0, &mut parser, e));
        refused("no \"messages\"", |e| rz_chat_parser_new(loses, "{}".as_ptr().cast(), 2, &mut parser, e));
        expect(RZ_ERR_UNSUPPORTED, |e| rz_chat_parser_new(model, json, n, &mut parser, e));
        expect(RZ_ERR_UNSUPPORTED, |e| rz_grammar_new(model, RZ_GRAMMAR_TOOLS, json, n, &mut grammar, e));
        let message = expect(RZ_ERR_UNSUPPORTED, |e| rz_chat_parser_new(loses, json, n, &mut parser, e));
        assert!(message.contains("tools[0]"), "{message}");
        refused("chat parser", |e| rz_chat_parser_push(null_mut(), 0, e));
        refused("chat parser", |e| rz_chat_parser_end(null_mut(), e));
        refused("chat parser", |e| {
            rz_chat_parser_next_into(null_mut(), &mut kind, &mut index, null_mut(), 0, &mut len, e)
        });
        let plain = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
        expect(RZ_OK, |e| rz_chat_parser_new(loses, plain.as_ptr().cast(), plain.len(), &mut parser, e));
        refused("kind is NULL", |e| {
            rz_chat_parser_next_into(parser, null_mut(), &mut index, null_mut(), 0, &mut len, e)
        });
        refused("token 512", |e| rz_chat_parser_push(parser, 512, e));
        rz_chat_parser_free(parser);
        rz_chat_parser_free(null_mut());
        rz_model_free(loses);
        rz_model_free(model);
    }
}
