//! Changes of a conversation between replies: tools and variables of one reply, prefill before a question, the
//! parameters of its creation, and its memory. The oracle is a conversation that was created with the new settings.

use super::conversation::{TEMPLATE, Talk, prompt, reply_params, size};
use super::host::*;
use std::ptr::{null, null_mut};

use realizar::ffi::cancel::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_say::*;
use realizar::ffi::conversation_set::*;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::status::*;

/// One call of few tokens; the model reasons first.
const CALLS: &str = r#"{"tool_choice": "required", "parallel_tool_calls": false, "variables": {"enable_thinking": true},
    "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": false}}}]}"#;

fn model() -> *mut rz_model {
    let file = with_template(TEMPLATE);
    load_with(file.path().to_str().expect("UTF-8"), null())
}

fn talk(json: &str) -> Talk {
    let talk = Talk::of(model(), json, 512, RZ_OVERFLOW_FAIL);
    talk.add("user", "one two");
    talk
}

fn with_json(params: rz_reply_params, json: &str) -> rz_reply_params {
    rz_reply_params { json: json.as_ptr().cast(), json_len: json.len(), ..params }
}

fn step(talk: &Talk) {
    let status = |budget| unsafe { rz_conversation_step(talk.handle, budget, null_mut()) };
    while status(RZ_NO_LIMIT) == RZ_AGAIN {}
    assert_eq!(status(0), RZ_DONE);
}

fn calls(talk: &Talk) -> usize {
    let all = talk.messages(0);
    let last = all.as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    last["tool_calls"].as_array().map_or(0, Vec::len)
}

/// A conversation whose "tool_choice" was "required" called a tool in each reply, for ever.
#[test]
fn tools_and_variables_are_chosen_for_each_reply() {
    let (of_life, plain) = (talk(CALLS), talk(""));
    let whole = rz_reply_params { reasoning_tokens: 5, ..reply_params(0) };
    of_life.reply(whole);
    plain.reply(with_json(whole, CALLS));
    assert_eq!((calls(&plain), plain.messages(0)), (1, of_life.messages(0)));
    assert!(plain.messages(1)[0]["reasoning_content"].is_string(), "{}", plain.messages(1));
    // The next reply is the conversation's own again; one of the conversation with tools may be without.
    for (talk, json) in [(&plain, "{}"), (&of_life, r#"{"tools": [], "tool_choice": "auto"}"#)] {
        talk.add("user", "three");
        talk.reply(with_json(reply_params(6), json));
        assert_eq!(calls(talk), 0);
    }
    // What the conversation has stays as it was.
    of_life.add("user", "four");
    of_life.reply(whole);
    assert_eq!(calls(&of_life), 1);
}

#[test]
fn wrong_members_of_a_reply_are_named_and_change_nothing() {
    let talk = talk("");
    talk.begin(reply_params(8));
    expect(RZ_AGAIN, |e| unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, e) });
    for (json, what) in [
        (r#"{"messages": []}"#, "have \"messages\""),
        (r#"{"tool_choice": "required"}"#, "there are no tools"),
        (r#"{"tool": []}"#, "unknown member \"tool\""),
        (r#"{"variables": {"messages": 1}}"#, "variables.messages"),
        ("[]", "no JSON object"),
        ("{", "JSON: EOF"),
    ] {
        let params = with_json(reply_params(8), json);
        let message = expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_conversation_reply(talk.handle, &params, e) });
        assert!(message.contains(what), "{json}: {message}");
        assert_eq!((talk.info().state, talk.info().n_tokens), (RZ_STATE_TOKENS, 1), "{json}");
    }
}

#[test]
fn messages_are_read_ahead_of_the_reply() {
    let (read, plain) = (talk(""), talk(""));
    let begin = |talk: &Talk| {
        expect(RZ_OK, |e| unsafe { rz_conversation_read(talk.handle, null(), e) });
        assert_eq!((talk.info().state, talk.info().n_tokens), (RZ_STATE_PROMPT, 0));
    };
    begin(&read);
    step(&read);
    let info = read.info();
    assert_eq!((info.state, info.end_reason, info.n_tokens, info.n_messages), (RZ_STATE_ENDED, RZ_END_LENGTH, 0, 1));
    assert_eq!((info.prompt_done, info.cache_len), (info.prompt_tokens, info.prompt_tokens));
    assert!(read.next().is_none());
    read.reply(reply_params(12));
    plain.reply(reply_params(12));
    // All but the last token of the prompt was there.
    assert_eq!(read.info().reused_tokens + 1, read.info().prompt_tokens);
    assert_eq!((plain.info().reused_tokens, read.messages(0)), (0, plain.messages(0)));
    // One that is not read to its end leaves what it has read.
    read.add("user", "and so on, and so on");
    begin(&read);
    read.reply(reply_params(12));
    plain.add("user", "and so on, and so on");
    plain.reply(reply_params(12));
    assert_eq!(read.messages(0), plain.messages(0));
}

#[test]
fn memory_that_was_given_back_and_another_capacity_change_no_token() {
    let (changed, plain) = (talk(""), talk(""));
    for words in ["three four", "five", "six"] {
        for talk in [&changed, &plain] {
            talk.reply(reply_params(9));
        }
        match words {
            "three four" => {
                expect(RZ_OK, |e| unsafe { rz_conversation_release(changed.handle, e) });
                assert_eq!(changed.info().cache_len, 0);
            }
            _ => {
                expect(RZ_OK, |e| unsafe { rz_conversation_capacity_set(changed.handle, 300, e) });
                assert_eq!((changed.info().cache_capacity, changed.info().cache_len), (300, 0));
            }
        }
        for talk in [&changed, &plain] {
            talk.add("user", words);
        }
    }
    for talk in [&changed, &plain] {
        talk.reply(reply_params(9));
    }
    assert_eq!(changed.messages(0), plain.messages(0));
    // A full one has room afterwards.
    let small = Talk::of(model(), "", 16, RZ_OVERFLOW_FAIL);
    small.add("user", "one two three four five six seven eight nine ten");
    let reply = |e| unsafe { rz_conversation_reply(small.handle, null(), e) };
    expect(RZ_ERR_CONTEXT_FULL, reply);
    expect(RZ_OK, |e| unsafe { rz_conversation_capacity_set(small.handle, 256, e) });
    expect(RZ_OK, reply);
}

#[test]
fn a_cancel_an_overflow_and_a_store_are_replaced() {
    let talk = talk("");
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    unsafe { rz_cancel_fire(cancel) };
    expect(RZ_OK, |e| unsafe { rz_conversation_cancel_set(talk.handle, cancel, e) });
    let step = |status| expect(status, |e| unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, e) });
    unsafe { rz_cancel_reset(cancel) };
    talk.begin(reply_params(4));
    unsafe { rz_cancel_fire(cancel) };
    step(RZ_ERR_CANCELLED);
    // The reply has the cancel; it goes on, and the next one is without.
    expect(RZ_ERR_BUSY, |e| unsafe { rz_conversation_cancel_set(talk.handle, null(), e) });
    unsafe { rz_cancel_reset(cancel) };
    step(RZ_AGAIN);
    assert_eq!(talk.info().n_tokens, 1);
    expect(RZ_ERR_BUSY, |e| unsafe { rz_conversation_release(talk.handle, e) });
    expect(RZ_ERR_BUSY, |e| unsafe { rz_conversation_capacity_set(talk.handle, 64, e) });
    expect(RZ_ERR_BUSY, |e| unsafe { rz_conversation_adapters_set(talk.handle, null(), null(), 0, e) });
    while unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    expect(RZ_OK, |e| unsafe { rz_conversation_cancel_set(talk.handle, null(), e) });
    unsafe { rz_cancel_fire(cancel) };
    talk.add("user", "more");
    talk.reply(reply_params(4));
    unsafe { rz_cancel_free(cancel) };
    expect(RZ_OK, |e| unsafe { rz_conversation_overflow_set(talk.handle, RZ_OVERFLOW_FORGET, e) });
    expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_conversation_overflow_set(talk.handle, 9, e) });
    expect(RZ_OK, |e| unsafe { rz_conversation_store_set(talk.handle, null(), e) });
    expect(RZ_OK, |e| unsafe { rz_conversation_adapters_set(talk.handle, null(), null(), 0, e) });
    assert_eq!(talk.info().cache_len, 0);
}

/// A message that is left out of prompts is in one again once the reason is gone; else a reply would not see it.
#[test]
fn turns_that_were_left_out_come_back() {
    let long = |i: usize| format!("Question {i} of some length that fills a cache");
    let forgetful = || {
        let talk = Talk::of(model(), "", 128, RZ_OVERFLOW_FORGET);
        for i in 0.. {
            talk.add("user", &long(i));
            talk.reply(reply_params(4));
            if talk.info().first_in_prompt > 0 {
                break;
            }
        }
        talk
    };
    // The prompt of a conversation with the same messages that never left one out.
    let whole = |talk: &Talk| {
        let json = format!("{{\"messages\": {}}}", talk.messages(0));
        let fresh = Talk::of(model(), &json, 1024, RZ_OVERFLOW_FAIL);
        fresh.reply(reply_params(1));
        fresh.info().prompt_tokens
    };
    let asked = |talk: &Talk| {
        let whole = whole(talk);
        talk.reply(reply_params(1));
        assert_eq!((talk.info().first_in_prompt, talk.info().prompt_tokens), (0, whole));
    };
    let rewound = forgetful();
    let first = rewound.info().first_in_prompt;
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(rewound.handle, first + 1, e) });
    assert_eq!(rewound.info().first_in_prompt, first, "a turn of the prompt is left");
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(rewound.handle, 1, e) });
    asked(&rewound);
    let larger = forgetful();
    expect(RZ_OK, |e| unsafe { rz_conversation_capacity_set(larger.handle, 1024, e) });
    larger.add("user", "More");
    asked(&larger);
    let refusing = forgetful();
    expect(RZ_OK, |e| unsafe { rz_conversation_overflow_set(refusing.handle, RZ_OVERFLOW_FAIL, e) });
    refusing.add("user", &long(99));
    let message = expect(RZ_ERR_CONTEXT_FULL, |e| unsafe { rz_conversation_reply(refusing.handle, null(), e) });
    assert!(message.contains("128"), "{message}");
}

/// What a call needs that finds no room, and the message that says so.
fn needs(call: impl FnOnce(*mut rz_error) -> rz_status) -> (u64, String) {
    let mut err = no_error();
    let status = call(&mut err);
    assert_eq!((status, err.code, err.system_code), (RZ_ERR_CONTEXT_FULL, status, 0), "{}", text_of(&err.message));
    (err.needed, text_of(&err.message))
}

#[test]
fn a_prompt_without_room_says_what_it_needs() {
    let talk = Talk::of(model(), "", 48, RZ_OVERFLOW_FAIL);
    talk.add("user", "Hi");
    talk.reply(reply_params(3));
    talk.add("user", &"one two ".repeat(20));
    // The oracle is what the tokenizer counts.
    let n = prompt(talk.model, &talk.messages(0), None).len();
    let says = |needed: usize, capacity: usize| {
        let text = format!("the prompt is {needed} tokens; it must be at most {capacity}, the capacity of the cache");
        (needed as u64, text)
    };
    assert_eq!(needs(|e| unsafe { rz_conversation_reply(talk.handle, null(), e) }), says(n, 48));
    assert_eq!(needs(|e| unsafe { rz_conversation_read(talk.handle, null(), e) }), says(n, 48));
    let longer = Talk::of(model(), "", 48, RZ_OVERFLOW_FAIL);
    let text = std::ffi::CString::new("one two ".repeat(30)).expect("no NUL");
    let said = |e| unsafe { rz_conversation_say(longer.handle, text.as_ptr(), null(), None, null_mut(), e) };
    let message = serde_json::json!([{"role": "user", "content": text.to_str().expect("UTF-8")}]);
    assert_eq!(needs(said), says(prompt(longer.model, &message, None).len(), 48));
    assert_eq!(longer.info().n_messages, 0);
    // One token less is too few, and so many are enough.
    expect(RZ_OK, |e| unsafe { rz_conversation_capacity_set(talk.handle, n as u32 - 1, e) });
    assert_eq!(needs(|e| unsafe { rz_conversation_reply(talk.handle, null(), e) }), says(n, n - 1));
    expect(RZ_OK, |e| unsafe { rz_conversation_capacity_set(talk.handle, n as u32, e) });
    talk.reply(reply_params(9));
    assert_eq!((talk.info().prompt_tokens as usize, talk.info().end_reason), (n, RZ_END_CONTEXT));

    // Where turns may be left out, the last one counts.
    let forgetful = Talk::of(model(), "", 48, RZ_OVERFLOW_FORGET);
    forgetful.add("user", "Hi");
    forgetful.reply(reply_params(3));
    forgetful.add("user", &"one two ".repeat(20));
    let last = prompt(forgetful.model, &forgetful.messages(2), None).len();
    assert_eq!(needs(|e| unsafe { rz_conversation_reply(forgetful.handle, null(), e) }), says(last, 48));
}

#[test]
fn a_cache_without_room_says_what_it_would_need() {
    let host = Host::new(8);
    let job = |tokens: &[u32]| {
        let struct_size = size::<rz_job_params>();
        let params = rz_job_params { struct_size, tokens: tokens.as_ptr(), n_tokens: tokens.len(), ..zeroed() };
        let mut job = null_mut();
        needs(|e| unsafe { rz_job_new(host.cache, &params, &mut job, e) })
    };
    let empty = "the prompt is 9 tokens; it must be at most 8, the capacity of the cache";
    assert_eq!(job(&[BOS; 9]), (9, empty.to_owned()));
    let text = "the text is 10 tokens; it must be at most 8, the capacity of the cache";
    assert_eq!(needs(|e| unsafe { rz_prefill(host.cache, [BOS; 10].as_ptr(), 10, null(), e) }), (10, text.to_owned()));
    host.prefill(&[BOS, 403, 407]);
    let more = "the cache holds 3 of 8 tokens, and 9 more need a capacity of 12";
    assert_eq!(job(&[403; 9]), (12, more.to_owned()));
    assert_eq!(needs(|e| unsafe { rz_prefill(host.cache, [BOS; 9].as_ptr(), 9, null(), e) }), (12, more.to_owned()));
    // A buffer says its size there too; any other failure says 0.
    let mut err = no_error();
    let (mut out, mut n) = ([0f32; 4], 0);
    let status = unsafe { rz_logits_into(host.cache, out.as_mut_ptr(), 4, &mut n, &mut err) };
    assert_eq!((status, err.needed, n), (RZ_ERR_BUFFER_TOO_SMALL, 512, 512));
    let status = unsafe { rz_prefill(host.cache, [512].as_ptr(), 1, null(), &mut err) };
    assert_eq!((status, err.needed), (RZ_ERR_INVALID_ARGUMENT, 0));
    expect(RZ_OK, |e| {
        err.needed = 7;
        let status = unsafe { rz_prefill(host.cache, [403].as_ptr(), 1, null(), &mut err) };
        assert_eq!((status, err.needed, err.code), (RZ_OK, 0, RZ_OK));
        unsafe { rz_prefill(host.cache, [403].as_ptr(), 1, null(), e) }
    });
}
