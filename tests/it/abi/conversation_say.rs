//! A message and its whole reply in one call, with reply parameters. The oracle is the same reply made in steps:
//! rz_conversation_add_text, rz_conversation_reply, rz_conversation_step.

use super::conversation::*;
use super::host::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

use realizar::ffi::cancel::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_say::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
use realizar::ffi::reply::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use serde_json::json;

const TOOLS: &str = r#"{"tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
    "additionalProperties": false}}}], "tool_choice": "required", "parallel_tool_calls": false}"#;

/// Says `text` with parameters of a reply; the status, the message of an error, and what the callback has heard.
fn say(talk: &Talk, text: &str, params: &rz_reply_params) -> (rz_status, String, String) {
    let (mut heard, mut err, text) = ((Vec::new(), i32::MAX), no_error(), CString::new(text).expect("no NUL"));
    let user = (&raw mut heard).cast();
    let status = unsafe { rz_conversation_say(talk.handle, text.as_ptr(), params, Some(collect), user, &mut err) };
    (status, text_of(&err.message), String::from_utf8(heard.0).expect("UTF-8"))
}

#[test]
fn say_takes_the_parameters_of_a_reply() {
    let sampler = rz_sampler_params {
        struct_size: size::<rz_sampler_params>(),
        temperature: 1.5,
        top_k: 50,
        seed: 7,
        ..zeroed()
    };
    let sampled = rz_reply_params { sampler: &sampler, logprobs: 1, ..reply_params(24) };
    let by_steps = |json: &str, params| {
        let talk = Talk::new(json, 256, RZ_OVERFLOW_FAIL);
        talk.add("user", "Hi");
        let parts = talk.reply(params);
        (text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT), talk)
    };
    // The stop string is a piece of the same reply without one.
    let whole = by_steps("", sampled).0;
    let stop: String = whole.chars().skip(9).take(3).collect();
    let stop = CString::new(stop).expect("no NUL");
    let stops = [stop.as_ptr()];
    let stopped = rz_reply_params { stops: stops.as_ptr(), n_stops: 1, ..sampled };
    let tools = rz_reply_params { json: TOOLS.as_ptr().cast(), json_len: TOOLS.len(), ..sampled };
    let off = RZ_REASONING_OFF;
    let grammar = rz_reply_params {
        grammar_kind: RZ_GRAMMAR_REGEX,
        grammar: c"[a-f]{4,8}".as_ptr(),
        grammar_len: 10,
        reasoning: off,
        ..sampled
    };
    for (what, params, end) in [
        ("sampled", sampled, RZ_END_LENGTH),
        ("greedy", reply_params(5), RZ_END_LENGTH),
        ("stopped", stopped, RZ_END_STOP),
        ("tools", rz_reply_params { reasoning: off, max_tokens: 0, ..tools }, RZ_END_GRAMMAR),
        ("grammar", grammar, RZ_END_GRAMMAR),
    ] {
        let (text, steps) = by_steps("", params);
        let said = Talk::new("", 256, RZ_OVERFLOW_FAIL);
        let (status, message, heard) = say(&said, "Hi", &params);
        assert_eq!((status, &heard), (RZ_OK, &text), "{what}: {message}");
        assert_eq!(said.messages(0), steps.messages(0), "{what}");
        let of = |talk: &Talk| {
            let info = talk.info();
            (info.state, info.end_reason, info.n_tokens, info.prompt_tokens, info.cache_len)
        };
        assert_eq!(of(&said), of(&steps), "{what}");
        assert_eq!(said.info().end_reason, end, "{what}");
        let rows = |talk: &Talk| {
            let (mut tokens, mut logprobs, mut n) = ([0; 500], [0f32; 500], 0);
            expect(RZ_OK, |e| unsafe {
                let (tokens, logprobs) = (tokens.as_mut_ptr(), logprobs.as_mut_ptr());
                rz_conversation_logprobs_into(talk.handle, tokens, logprobs, 500, &mut n, e)
            });
            (tokens[..n].to_vec(), logprobs[..n].to_vec())
        };
        let kept = rows(&said);
        assert_eq!(&kept, &rows(&steps), "{what}");
        assert_eq!(kept.0.is_empty(), params.logprobs == 0, "{what}");
    }
    assert_ne!(by_steps("", reply_params(24)).0, whole, "the sampler has an effect");
    let (text, called) = by_steps("", rz_reply_params { reasoning: off, max_tokens: 0, ..tools });
    assert_eq!((text.as_str(), &called.messages(1)[0]["finish_reason"]), ("", &json!("tool_calls")));
}

#[test]
fn say_with_wrong_parameters_changes_nothing() {
    let talk = Talk::new("", 256, RZ_OVERFLOW_FAIL);
    talk.add("user", "Hi");
    talk.reply(reply_params(4));
    talk.add("user", "More");
    let state = |talk: &Talk| {
        let info = talk.info();
        (talk.messages(0), info.state, info.n_tokens, info.cache_len)
    };
    // Without an unfinished reply, and with one.
    for has_begun in [false, true] {
        if has_begun {
            talk.begin(reply_params(9));
            expect(RZ_AGAIN, |e| unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, e) });
        }
        let before = state(&talk);
        let stops = [c"".as_ptr()];
        let regex = rz_reply_params { grammar_kind: RZ_GRAMMAR_REGEX, ..reply_params(9) };
        for (params, status, word) in [
            (rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, "CONTINUE"),
            (rz_reply_params { flags: 8, ..reply_params(9) }, RZ_ERR_VERSION, "flags"),
            (rz_reply_params { struct_size: 3, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, "struct_size"),
            (rz_reply_params { stops: stops.as_ptr(), n_stops: 1, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, "stop"),
            (rz_reply_params { stops: null(), n_stops: 1, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, "stops"),
            (rz_reply_params { reasoning: 9, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, "reasoning"),
            (rz_reply_params { logprobs: 33, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, "32"),
            (rz_reply_params { draft: RZ_DRAFT_MTP, ..reply_params(9) }, RZ_ERR_UNSUPPORTED, ""),
            (rz_reply_params { grammar: c"(".as_ptr(), grammar_len: 1, ..regex }, RZ_ERR_INVALID_ARGUMENT, ""),
            (rz_reply_params { json: c"{".as_ptr(), json_len: 1, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT, ""),
        ] {
            let (got, message, heard) = say(&talk, "And", &params);
            assert_eq!((got, heard.as_str()), (status, ""), "{message}");
            assert!(message.contains(word), "{message}");
            assert_eq!(state(&talk), before, "{message}");
        }
        // A text that is no text.
        let params = reply_params(3);
        for text in [null(), c"\xff".as_ptr()] {
            expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe {
                rz_conversation_say(talk.handle, text, &params, None, null_mut(), e)
            });
        }
        assert_eq!(state(&talk), before);
    }
    // Then it says it, in place of the unfinished reply.
    let (status, message, heard) = say(&talk, "And", &reply_params(3));
    assert_eq!((status, talk.info().n_messages, talk.info().n_tokens), (RZ_OK, 5, 3), "{message}");
    assert_eq!(talk.messages(4)[0]["content"], heard);
}
