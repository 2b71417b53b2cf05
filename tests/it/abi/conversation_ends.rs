//! Replies that are ended early: stopped, cancelled, failed, or with a full context; and what remains of them. The
//! oracle is the same reply without an early end.

use super::conversation::{TEMPLATE, Talk, reply_params, size, text_of_kind};
use super::host::*;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use realizar::ffi::cancel::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_set::*;
use realizar::ffi::job::*;
use realizar::ffi::reply::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use serde_json::{Value as Json, json};

/// One tool, which has to be called.
const TOOLS: &str = r#"{"tool_choice": "required", "parallel_tool_calls": false, "tools": [{"type": "function",
    "function": {"name": "go", "parameters": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0,
    "maximum": 9}}, "required": ["n"], "additionalProperties": false}}}]}"#;

fn talk(json: &str, capacity: u32) -> Talk {
    let talk = Talk::new(json, capacity, RZ_OVERFLOW_FAIL);
    talk.add("user", "Hi");
    talk
}

/// Calls of tools alone.
fn calling(max_tokens: u32) -> rz_reply_params {
    rz_reply_params { reasoning: RZ_REASONING_OFF, ..reply_params(max_tokens) }
}

fn step(talk: &Talk) -> rz_status {
    unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, null_mut()) }
}

fn stop(talk: &Talk) {
    expect(RZ_OK, |e| unsafe { rz_conversation_stop(talk.handle, e) });
}

fn parts(talk: &Talk) -> Vec<(u32, u32, String)> {
    std::iter::from_fn(|| talk.next()).collect()
}

fn end(talk: &Talk) -> (u32, u32) {
    (talk.info().state, talk.info().end_reason)
}

fn error(talk: &Talk) -> (rz_status, String) {
    let mut err = no_error();
    let status = unsafe { rz_conversation_error(talk.handle, &mut err) };
    (status, text_of(&err.message))
}

#[test]
fn a_stopped_reply_is_a_message_that_goes_on() {
    let whole = talk("", 256);
    whole.reply(reply_params(20));
    let stopped = talk("", 256);
    // There is nothing to keep without a reply, or before its first token.
    stop(&stopped);
    assert_eq!((end(&stopped), stopped.info().n_messages), ((0, 0), 1));
    stopped.begin(reply_params(20));
    stop(&stopped);
    assert_eq!((end(&stopped), stopped.info().n_messages), ((RZ_STATE_ENDED, RZ_END_CANCELLED), 1));
    for flags in [0, RZ_REPLY_KEEP] {
        stopped.begin(rz_reply_params { flags, ..reply_params(20) });
        assert_eq!([step(&stopped), step(&stopped)], [RZ_AGAIN; 2]);
        let mut said = parts(&stopped);
        assert_eq!([step(&stopped), step(&stopped), step(&stopped)], [RZ_AGAIN; 3]);
        stop(&stopped);
        assert_eq!((end(&stopped), stopped.info().n_tokens), ((RZ_STATE_ENDED, RZ_END_CANCELLED), 5));
        assert_eq!(error(&stopped), (RZ_OK, String::new()));
        // What was not taken yet comes, and the end.
        said.extend(parts(&stopped));
        assert_eq!(said.last().map(|part| part.0), Some(RZ_CHAT_EVENT_END));
        let message = &stopped.messages(1)[0];
        assert_eq!(
            (&message["finish_reason"], &message["content"]),
            (&json!("cancelled"), &json!(text_of_kind(&said, RZ_CHAT_EVENT_CONTENT)),)
        );
        assert_eq!((step(&stopped), stopped.info().n_messages), (RZ_DONE, 2));
        stop(&stopped);
        stopped.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(15) });
        assert_eq!(stopped.messages(0), whole.messages(0));
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(stopped.handle, 1, e) });
    }
    // A continued reply that is stopped at once is the message that it was.
    stopped.reply(reply_params(5));
    let before = stopped.messages(1)[0]["content"].clone();
    stopped.begin(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(15) });
    stop(&stopped);
    let message = &stopped.messages(1)[0];
    assert_eq!((&message["content"], &message["finish_reason"]), (&before, &json!("cancelled")));
    stopped.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(15) });
    assert_eq!(stopped.messages(0), whole.messages(0));
    // Reading leaves no message.
    stopped.add("user", "More");
    expect(RZ_OK, |e| unsafe { rz_conversation_read(stopped.handle, null(), e) });
    stop(&stopped);
    assert_eq!((end(&stopped), stopped.info().n_messages), ((RZ_STATE_ENDED, RZ_END_CANCELLED), 3));
}

/// What a callback has heard, and the cancel that it fires at the third piece.
struct Heard {
    text: Vec<u8>,
    pieces: usize,
    cancel: *mut rz_cancel,
}

unsafe extern "C" fn hear(text: *const c_char, len: usize, user: *mut c_void) -> i32 {
    let heard = unsafe { &mut *user.cast::<Heard>() };
    heard.text.extend_from_slice(unsafe { std::slice::from_raw_parts(text.cast(), len) });
    heard.pieces += 1;
    if heard.pieces == 3 {
        unsafe { rz_cancel_fire(heard.cancel) };
    }
    0
}

#[test]
fn say_keeps_what_was_shown_when_it_is_cancelled() {
    let talk = Talk::new("", 128, RZ_OVERFLOW_FAIL);
    let mut heard = Heard { text: Vec::new(), pieces: 0, cancel: null_mut() };
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut heard.cancel, e) });
    expect(RZ_OK, |e| unsafe { rz_conversation_cancel_set(talk.handle, heard.cancel, e) });
    // Ahead of its first piece it leaves no trace, as any other error.
    unsafe { rz_cancel_fire(heard.cancel) };
    assert_eq!(talk.say("Hi", Some(hear), (&raw mut heard).cast()), RZ_ERR_CANCELLED);
    assert_eq!((talk.info().n_messages, heard.pieces), (0, 0));
    unsafe { rz_cancel_reset(heard.cancel) };
    assert_eq!(talk.say("Hi", Some(hear), (&raw mut heard).cast()), RZ_ERR_CANCELLED);
    let messages = talk.messages(0);
    assert_eq!((&messages[0]["content"], &messages[1]["finish_reason"]), (&json!("Hi"), &json!("cancelled")));
    assert_eq!(messages[1]["content"].as_str().map(str::as_bytes), Some(&heard.text[..]));
    assert_eq!((talk.info().n_messages, end(&talk)), (2, (RZ_STATE_ENDED, RZ_END_CANCELLED)));
    // It takes the place of an unfinished reply, and goes on.
    unsafe { rz_cancel_reset(heard.cancel) };
    heard.pieces = 0;
    talk.begin(reply_params(9));
    assert_eq!([step(&talk), step(&talk)], [RZ_AGAIN; 2]);
    assert_eq!(talk.say("More", Some(hear), (&raw mut heard).cast()), RZ_ERR_CANCELLED);
    assert_eq!((talk.info().n_messages, &talk.messages(2)[0]["content"]), (4, &json!("More")));
    unsafe { rz_cancel_reset(heard.cancel) };
    talk.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(2) });
    assert_eq!(talk.messages(3)[0]["finish_reason"], "length");
    unsafe { rz_cancel_free(heard.cancel) };
}

#[test]
fn the_error_of_a_reply_is_told() {
    let talk = talk("", 128);
    assert_eq!(error(&talk), (RZ_OK, String::new()));
    let biases: Vec<_> = (0..512).map(|token| rz_logit_bias { token, bias: f32::NEG_INFINITY }).collect();
    let sampler = rz_sampler_params {
        struct_size: size::<rz_sampler_params>(),
        temperature: 1.0,
        biases: biases.as_ptr(),
        n_biases: biases.len(),
        ..zeroed()
    };
    talk.begin(rz_reply_params { sampler: &sampler, ..reply_params(9) });
    assert_eq!(error(&talk), (RZ_OK, String::new()));
    let all = [talk.handle];
    while unsafe { rz_conversations_step(all.as_ptr(), 1, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    assert_eq!(end(&talk), (RZ_STATE_ENDED, RZ_END_FAILED));
    let mut err = no_error();
    let status = unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, &mut err) };
    assert!(status < 0);
    assert_eq!(error(&talk), (status, text_of(&err.message)));
    // The question stays, and another reply has no error.
    assert_eq!(talk.info().n_messages, 1);
    talk.reply(reply_params(2));
    assert_eq!((error(&talk), talk.info().n_messages), ((RZ_OK, String::new()), 2));
    refused("conversation", |e| unsafe { rz_conversation_error(null(), e) });
}

#[test]
fn a_reply_that_fills_the_cache_says_so() {
    let small = Talk::new("", 40, RZ_OVERFLOW_FAIL);
    assert_eq!(small.say("Hi", None, null_mut()), RZ_OK);
    assert_eq!(end(&small), (RZ_STATE_ENDED, RZ_END_CONTEXT));
    assert_eq!(small.messages(1)[0]["finish_reason"], "context");
    let n = small.info().n_tokens;
    // With more room it goes on.
    expect(RZ_OK, |e| unsafe { rz_conversation_capacity_set(small.handle, 256, e) });
    small.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(9) });
    let whole = talk("", 256);
    whole.reply(reply_params(n + 9));
    assert_eq!(small.messages(0), whole.messages(0));
}

#[test]
fn a_result_of_an_unknown_call_is_refused() {
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "done"}).to_string();
    let talk = talk(TOOLS, 256);
    let add = |json: &str, status, word: &str| {
        let message = expect(status, |e| unsafe {
            rz_conversation_add(talk.handle, json.as_ptr().cast(), json.len(), null(), 0, e)
        });
        assert!(message.contains(word), "{message}");
    };
    add(&result("a"), RZ_ERR_INVALID_ARGUMENT, "messages[0].tool_call_id is \"a\"");
    talk.reply(calling(0));
    let call = talk.messages(1)[0]["tool_calls"][0]["id"].as_str().expect("an id").to_owned();
    add(&result("a"), RZ_ERR_INVALID_ARGUMENT, &call);
    add(&result(&"a".repeat(9999)), RZ_ERR_INVALID_ARGUMENT, &"a".repeat(40));
    assert_eq!(talk.info().n_messages, 2);
    add(&result(&call), RZ_OK, "");
    // It is among the messages that a conversation begins with too.
    let begin = format!(r#"{{"messages": [{{"role": "user", "content": "Hi"}}, {}]}}"#, result("a"));
    let params = rz_conversation_params {
        struct_size: size::<rz_conversation_params>(),
        json: begin.as_ptr().cast(),
        json_len: begin.len(),
        ..zeroed()
    };
    let mut handle = null_mut();
    refused("messages[1].tool_call_id", |e| unsafe { rz_conversation_new(talk.model, &params, &mut handle, e) });
    // A rewind takes the call away.
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    add(&result(&call), RZ_ERR_INVALID_ARGUMENT, "no message has any");
}

/// A result without an id is the result of the only call that has none yet.
#[test]
fn a_result_without_an_id_needs_one_open_call() {
    let talk = talk(TOOLS, 256);
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let add = |json: &serde_json::Value| {
        let json = json.to_string();
        expect(RZ_OK, |e| unsafe { rz_conversation_add(talk.handle, json.as_ptr().cast(), json.len(), null(), 0, e) });
    };
    let add_text = |status, n: u32| {
        let message = expect(status, |e| unsafe {
            rz_conversation_add_text(talk.handle, c"tool".as_ptr(), c"done".as_ptr(), 4, e)
        });
        assert_eq!(talk.info().n_messages, n, "{message}");
        message
    };
    add(&json!({"role": "assistant", "content": null, "tool_calls": [call("a"), call("b"), call("c")]}));
    let message = add_text(RZ_ERR_INVALID_ARGUMENT, 2);
    assert!(message.contains("3 tool calls") && message.contains("rz_conversation_add"), "{message}");
    add(&json!({"role": "tool", "tool_call_id": "b", "content": "done"}));
    let message = add_text(RZ_ERR_INVALID_ARGUMENT, 3);
    assert!(message.contains("2 tool calls"), "{message}");
    add(&json!({"role": "tool", "tool_call_id": "a", "content": "done"}));
    add_text(RZ_OK, 5);
    // Any other role goes on, and so does a result where no call is.
    talk.add("user", "Hi");
    add_text(RZ_OK, 7);
}

#[test]
fn what_is_kept_ends_at_a_rewind() {
    let talk = talk("", 128);
    let keep = rz_reply_params { flags: RZ_REPLY_KEEP, ..reply_params(9) };
    let rewind = || expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    // Nothing was said.
    talk.begin(keep);
    expect(RZ_OK, |e| unsafe { rz_conversation_add(talk.handle, c"[]".as_ptr(), 2, null(), 0, e) });
    assert_eq!((talk.info().n_messages, end(&talk)), (1, (0, 0)));
    // The message comes after the messages that stay.
    talk.begin(keep);
    assert_eq!([step(&talk), step(&talk)], [RZ_AGAIN; 2]);
    rewind();
    assert_eq!(talk.info().n_messages, 1);
    // A stop before it makes the message one of those.
    talk.begin(keep);
    assert_eq!([step(&talk), step(&talk)], [RZ_AGAIN; 2]);
    stop(&talk);
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 2, e) });
    assert_eq!(talk.info().n_messages, 2);
}

#[test]
fn a_call_in_which_a_reply_breaks_off_is_completed_later() {
    let whole = talk(TOOLS, 256);
    whole.reply(calling(0));
    let (n, message) = (whole.info().n_tokens, whole.messages(1)[0].clone());
    assert_eq!(message["tool_calls"].as_array().map(Vec::len), Some(1));
    let function = &message["tool_calls"][0]["function"];
    for (tokens, stops) in [(n - 12, false), (n / 2, false), (n / 2, true)] {
        let cut = talk(TOOLS, 256);
        let mut said = if stops {
            cut.begin(calling(0));
            while cut.info().n_tokens < tokens {
                assert_eq!(step(&cut), RZ_AGAIN);
            }
            stop(&cut);
            parts(&cut)
        } else {
            cut.reply(calling(tokens))
        };
        let broken = &cut.messages(1)[0];
        assert_eq!((&broken["tool_calls"], &broken["content"]), (&Json::Null, &json!("")), "{tokens}");
        assert_eq!(broken["finish_reason"], if stops { "cancelled" } else { "length" });
        assert_eq!(said.last().map(|part| part.0), Some(RZ_CHAT_EVENT_END), "{said:?}");
        said.extend(cut.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..calling(0) }));
        let completed = &cut.messages(1)[0];
        assert_eq!(
            (&completed["tool_calls"][0]["function"], completed["finish_reason"].as_str()),
            (function, Some("tool_calls"))
        );
        assert_eq!(function["arguments"], text_of_kind(&said, RZ_CHAT_EVENT_TOOL_ARGUMENTS), "{said:?}");
    }
}

#[test]
fn a_model_without_tools_is_told_of_the_other_way() {
    let plain = TEMPLATE.replace("{% for t in tools or [] %}{{ t.function.name }}{% endfor %}", "");
    let file = with_template(&plain);
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let talk = Talk::of(model, TOOLS, 128, RZ_OVERFLOW_FAIL);
    talk.add("user", "Hi");
    let call = |e| unsafe { rz_conversation_reply(talk.handle, null(), e) };
    fails(RZ_ERR_UNSUPPORTED, "leaves out tools[0]; a model without tools can answer by a JSON schema", call);
}
