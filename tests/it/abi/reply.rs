//! Parsing of replies, and grammars of tool calls, through the C interface.

use super::host::*;
use std::ffi::c_char;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
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

type NextInto<T> = unsafe extern "C" fn(
    *mut T,
    *mut u32,
    *mut u32,
    *mut u32,
    *mut c_char,
    usize,
    *mut usize,
    *mut rz_error,
) -> rz_status;

/// A part: its kind, its flags and its text.
type Part = (u32, u32, String);

/// The parts that can be taken now.
fn parts(parser: *mut rz_chat_parser) -> Vec<Part> {
    parts_of(parser, rz_chat_parser_next_into)
}

fn parts_of<T>(handle: *mut T, next: NextInto<T>) -> Vec<Part> {
    let mut parts = Vec::new();
    loop {
        let ([mut kind, mut flags, mut index], mut text, mut len, mut err) = ([77; 3], [0u8; 256], 0, no_error());
        let out = text.as_mut_ptr().cast();
        let status = unsafe { next(handle, &mut kind, &mut flags, &mut index, out, 256, &mut len, &mut err) };
        if [RZ_AGAIN, RZ_DONE].contains(&status) {
            assert_eq!([kind, flags, index], [77; 3]);
            return parts;
        }
        assert_eq!((status, index), (RZ_OK, 0));
        parts.push((kind, flags, String::from_utf8(text[..len].to_vec()).expect("UTF-8")));
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
        expect(RZ_OK, |e| {
            rz_grammar_new(model, RZ_GRAMMAR_TOOLS, 0, CHAT.as_ptr().cast(), CHAT.len(), null(), &mut grammar, e)
        });
        expect(RZ_OK, |e| rz_sampler_new(null(), &mut sampler, e));
        expect(RZ_OK, |e| rz_sampler_grammar_set(sampler, grammar, e));
        let status = rz_generate_into(host.cache, BOS, sampler, tokens.as_mut_ptr(), 200, &mut n, null(), null_mut());
        assert_eq!(status, RZ_DONE);
        expect(RZ_OK, |e| rz_chat_parser_new(model, CHAT.as_ptr().cast(), CHAT.len(), null(), &mut parser, e));
        for &token in &tokens[..n] {
            expect(RZ_OK, |e| rz_chat_parser_push(parser, token, e));
        }
        let parts = parts(parser);
        assert_eq!(parts[0], (RZ_CHAT_EVENT_TOOL_ID, 0, "call00000".to_owned()));
        assert_eq!(parts[1], (RZ_CHAT_EVENT_TOOL_NAME, 0, "go".to_owned()));
        let arguments: serde_json::Value = serde_json::from_str(&parts[2].2).expect("JSON");
        assert!(["car", "bus"].contains(&arguments["by"].as_str().expect("a text")), "{arguments}");
        assert!(arguments["n"].as_u64() < Some(10), "{arguments}");
        assert_eq!((parts[2].0, parts[3].0, parts.len()), (RZ_CHAT_EVENT_TOOL_ARGUMENTS, RZ_CHAT_EVENT_END, 4));
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
        expect(RZ_OK, |e| rz_chat_parser_new(model, CHAT.as_ptr().cast(), CHAT.len(), null(), &mut parser, e));
        rz_model_free(model);
        push(parser, "é <call>no");
        let ([mut kind, mut flags, mut index], mut len, mut out) = ([7; 3], 0, [0u8; 2]);
        let to = out.as_mut_ptr().cast();
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| {
            rz_chat_parser_next_into(parser, &mut kind, &mut flags, &mut index, to, 1, &mut len, e)
        });
        assert_eq!((kind, flags, index, len), (7, 7, 7, 2));
        expect(RZ_OK, |e| rz_chat_parser_next_into(parser, &mut kind, &mut flags, &mut index, to, 2, &mut len, e));
        assert_eq!((kind, flags, index, len, &out), (RZ_CHAT_EVENT_CONTENT, 0, 0, 2, &[0xc3, 0xa9]));
        let unparsed = |kind, text: &str| (kind, RZ_CHAT_EVENT_FLAG_UNPARSED, text.to_owned());
        push(parser, " \n");
        assert_eq!(parts(parser), [unparsed(RZ_CHAT_EVENT_CONTENT, " <call>no")]);
        expect(RZ_OK, |e| rz_chat_parser_end(parser, e));
        expect(RZ_OK, |e| rz_chat_parser_end(parser, e));
        assert_eq!(parts(parser), [unparsed(RZ_CHAT_EVENT_CONTENT, " \n"), unparsed(RZ_CHAT_EVENT_END, "")]);
        assert!(parts(parser).is_empty());
        refused("after the end", |e| rz_chat_parser_push(parser, 5, e));
        rz_chat_parser_free(parser);
    }
}

/// A job with a conversation, stepped to its end, and the reason why that came.
fn reply_of_job(model: *mut rz_model, chat: &str, params: rz_job_params) -> (Vec<Part>, u32) {
    let cache = new_cache(model, 256);
    let (struct_size, stop) = (size_of::<rz_job_params>() as u32, RZ_NO_LIMIT);
    let prompt = [BOS];
    let params = rz_job_params {
        struct_size,
        tokens: prompt.as_ptr(),
        n_tokens: 1,
        chat: chat.as_ptr().cast(),
        chat_len: chat.len(),
        ..params
    };
    let (mut job, mut parts, mut len) = (null_mut(), Vec::new(), 0);
    let mut info = sized::<rz_job_info>();
    unsafe {
        expect(RZ_OK, |e| rz_job_new(cache, &params, &mut job, e));
        refused("makes parts of a reply", |e| rz_job_text_into(job, null_mut(), 0, &mut len, e));
        while rz_job_step(job, stop, null_mut()) == RZ_AGAIN {
            parts.extend(parts_of(job, rz_job_next_into));
        }
        parts.extend(parts_of(job, rz_job_next_into));
        expect(RZ_OK, |e| rz_job_info_get(job, &mut info, e));
        rz_job_free(job);
        rz_cache_free(cache);
    }
    (parts, info.end_reason)
}

fn joined(parts: &[Part], kind: u32) -> String {
    parts.iter().filter(|part| part.0 == kind).map(|part| &part.2[..]).collect()
}

#[test]
fn stops_of_a_job_act_on_the_content_of_its_reply() {
    let file = with_template(TEMPLATE);
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let plain = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
    let limited = rz_job_params { max_tokens: 40, ..zeroed() };
    let (all, end) = reply_of_job(model, plain, limited);
    let text = joined(&all, RZ_CHAT_EVENT_CONTENT);
    assert!(end == RZ_END_LENGTH && text.len() > 20 && all.last().map(|part| part.0) == Some(RZ_CHAT_EVENT_END));

    // A stop string that begins and ends within tokens.
    let stop = std::ffi::CString::new(&text[11..17]).expect("no NUL");
    let stops = [stop.as_ptr()];
    let stopped = rz_job_params { stops: stops.as_ptr(), n_stops: 1, ..limited };
    let (parts, end) = reply_of_job(model, plain, stopped);
    let at = text.find(&text[11..17]).expect("it is there");
    assert_eq!((joined(&parts, RZ_CHAT_EVENT_CONTENT), end), (text[..at].to_owned(), RZ_END_STOP));
    assert_eq!(parts.last(), Some(&(RZ_CHAT_EVENT_END, 0, String::new())));

    // It stands in a call, and the job goes on.
    let mut grammar = null_mut();
    expect(RZ_OK, |e| unsafe {
        rz_grammar_new(model, RZ_GRAMMAR_TOOLS, 0, CHAT.as_ptr().cast(), CHAT.len(), null(), &mut grammar, e)
    });
    let stops = [c"\"n\"".as_ptr(), c"go".as_ptr(), c"call".as_ptr()];
    let within = rz_job_params { stops: stops.as_ptr(), n_stops: 3, grammar, ..zeroed() };
    let (parts, end) = reply_of_job(model, CHAT, within);
    assert_eq!((parts[1].clone(), end), ((RZ_CHAT_EVENT_TOOL_NAME, 0, "go".to_owned()), RZ_END_GRAMMAR));
    let arguments = joined(&parts, RZ_CHAT_EVENT_TOOL_ARGUMENTS);
    assert!(serde_json::from_str::<serde_json::Value>(&arguments).expect("JSON")["n"].is_u64(), "{arguments}");
    unsafe {
        rz_grammar_free(grammar);
        rz_model_free(model);
    }
}

#[test]
fn bad_arguments_are_refused() {
    let (model, file) = (load_text(), with_template("{{ messages[0].content }}"));
    let loses = load_with(file.path().to_str().expect("UTF-8"), null());
    let (mut parser, mut grammar) = (null_mut(), null_mut());
    let ([mut kind, mut flags, mut index], mut len) = ([0; 3], 0);
    let (json, n) = (CHAT.as_ptr().cast(), CHAT.len());
    unsafe {
        refused("model", |e| rz_chat_parser_new(null(), json, n, null(), &mut parser, e));
        refused("json is NULL", |e| rz_chat_parser_new(model, null(), 1, null(), &mut parser, e));
        refused("out is NULL", |e| rz_chat_parser_new(model, json, n, null(), null_mut(), e));
        refused("EOF", |e| rz_chat_parser_new(model, null(), 0, null(), &mut parser, e));
        refused("no \"messages\"", |e| rz_chat_parser_new(loses, "{}".as_ptr().cast(), 2, null(), &mut parser, e));
        expect(RZ_ERR_UNSUPPORTED, |e| rz_chat_parser_new(model, json, n, null(), &mut parser, e));
        expect(RZ_ERR_UNSUPPORTED, |e| rz_grammar_new(model, RZ_GRAMMAR_TOOLS, 0, json, n, null(), &mut grammar, e));
        let message = expect(RZ_ERR_UNSUPPORTED, |e| rz_chat_parser_new(loses, json, n, null(), &mut parser, e));
        assert!(message.contains("tools[0]"), "{message}");
        refused("chat parser", |e| rz_chat_parser_push(null_mut(), 0, e));
        refused("chat parser", |e| rz_chat_parser_end(null_mut(), e));
        refused("chat parser", |e| {
            rz_chat_parser_next_into(null_mut(), &mut kind, &mut flags, &mut index, null_mut(), 0, &mut len, e)
        });
        let plain = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}";
        expect(RZ_OK, |e| rz_chat_parser_new(loses, plain.as_ptr().cast(), plain.len(), null(), &mut parser, e));
        refused("kind is NULL", |e| {
            rz_chat_parser_next_into(parser, null_mut(), &mut flags, &mut index, null_mut(), 0, &mut len, e)
        });
        refused("flags is NULL", |e| {
            rz_chat_parser_next_into(parser, &mut kind, null_mut(), &mut index, null_mut(), 0, &mut len, e)
        });
        refused("token 512", |e| rz_chat_parser_push(parser, 512, e));
        rz_chat_parser_free(parser);
        let (cache, mut job) = (new_cache(loses, 16), null_mut());
        let struct_size = size_of::<rz_job_params>() as u32;
        let params = rz_job_params { struct_size, tokens: &BOS, n_tokens: 1, max_tokens: 1, ..zeroed() };
        let with = |chat, chat_len| rz_job_params { chat, chat_len, ..params };
        let message = expect(RZ_ERR_UNSUPPORTED, |e| rz_job_new(cache, &with(json, n), &mut job, e));
        assert!(message.contains("tools[0]"), "{message}");
        refused("EOF", |e| rz_job_new(cache, &with(json, 0), &mut job, e));
        refused("rz_job_params.chat", |e| rz_job_new(cache, &with(null(), 1), &mut job, e));
        expect(RZ_OK, |e| rz_job_new(cache, &params, &mut job, e));
        for (job, what) in [(job, "makes a text"), (null_mut(), "job")] {
            refused(what, |e| rz_job_next_into(job, &mut kind, &mut flags, &mut index, null_mut(), 0, &mut len, e));
        }
        rz_job_free(job);
        rz_cache_free(cache);
        rz_chat_parser_free(null_mut());
        rz_model_free(loses);
        rz_model_free(model);
    }
}
