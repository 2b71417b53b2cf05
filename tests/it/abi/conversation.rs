//! Conversations through the C interface. The oracle does the same by hand: renders, tokenizes, computes every token in
//! an empty cache, samples, and parses the reply.

use super::host::*;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_saved::*;
use realizar::ffi::conversation_say::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::reply::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::store::*;
use realizar::ffi::text::*;
use serde_json::Value as Json;

/// A template with reasoning, which forgets that of earlier turns, and calls.
pub const TEMPLATE: &str = "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<{{ m.role }}>\
    {% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}\
    {% for c in m.tool_calls or [] %}<call>{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' }}\
    {{ c.function.arguments | tojson }}{{ '}' }}</call>{% endfor %}{% endfor %}\
    {% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}";

pub struct Talk {
    pub model: *mut rz_model,
    pub handle: *mut rz_conversation,
}

impl Drop for Talk {
    fn drop(&mut self) {
        unsafe {
            rz_conversation_free(self.handle);
            rz_model_free(self.model);
        }
    }
}

fn model() -> *mut rz_model {
    let file = with_template(TEMPLATE);
    load_with(file.path().to_str().expect("UTF-8"), null())
}

pub fn size<T>() -> u32 {
    size_of::<T>() as u32
}

pub fn reply_params(max_tokens: u32) -> rz_reply_params {
    rz_reply_params { struct_size: size::<rz_reply_params>(), max_tokens, ..zeroed() }
}

impl Talk {
    pub fn new(json: &str, capacity: u32, overflow: u32) -> Talk {
        Talk::of(model(), json, capacity, overflow)
    }

    pub fn of(model: *mut rz_model, json: &str, capacity: u32, overflow: u32) -> Talk {
        let cache = rz_cache_params { struct_size: size::<rz_cache_params>(), capacity, k_type: 0, v_type: 0 };
        let params = rz_conversation_params {
            struct_size: size::<rz_conversation_params>(),
            overflow,
            json: if json.is_empty() { null() } else { json.as_ptr().cast() },
            json_len: json.len(),
            cache: &cache,
            ..zeroed()
        };
        let mut handle = null_mut();
        expect(RZ_OK, |e| unsafe { rz_conversation_new(model, &params, &mut handle, e) });
        Talk { model, handle }
    }

    pub fn fork(&self) -> Talk {
        let mut handle = null_mut();
        expect(RZ_OK, |e| unsafe { rz_conversation_fork(self.handle, &mut handle, e) });
        Talk { model: null_mut(), handle }
    }

    pub fn add(&self, role: &str, text: &str) {
        let role = CString::new(role).expect("no NUL");
        let call =
            |e| unsafe { rz_conversation_add_text(self.handle, role.as_ptr(), text.as_ptr().cast(), text.len(), e) };
        expect(RZ_OK, call);
    }

    pub fn begin(&self, params: rz_reply_params) {
        expect(RZ_OK, |e| unsafe { rz_conversation_reply(self.handle, &params, e) });
    }

    pub fn next(&self) -> Option<(u32, u32, String)> {
        let (mut kind, mut flags, mut index, mut text, mut len, mut err) = (0, 0, 0, [0u8; 4096], 0, no_error());
        let out = text.as_mut_ptr().cast();
        let status = unsafe {
            rz_conversation_next_into(self.handle, &mut kind, &mut flags, &mut index, out, 4096, &mut len, &mut err)
        };
        assert!([RZ_OK, RZ_AGAIN, RZ_DONE].contains(&status));
        (status == RZ_OK).then(|| (kind, index, String::from_utf8(text[..len].to_vec()).expect("UTF-8")))
    }

    /// The parts of a whole reply, neighbors of one kind joined.
    pub fn reply(&self, params: rz_reply_params) -> Vec<(u32, u32, String)> {
        self.begin(params);
        let mut parts: Vec<(u32, u32, String)> = Vec::new();
        loop {
            let status = unsafe { rz_conversation_step(self.handle, RZ_NO_LIMIT, null_mut()) };
            while let Some(part) = self.next() {
                match parts.last_mut() {
                    Some(last) if (last.0, last.1) == (part.0, part.1) => last.2.push_str(&part.2),
                    _ => parts.push(part),
                }
            }
            match status {
                RZ_AGAIN => {}
                RZ_DONE => return parts,
                other => panic!("{other}"),
            }
        }
    }

    pub fn messages(&self, first: u32) -> Json {
        let (mut out, mut len) = (vec![0u8; 1 << 16], 0);
        let pointer = out.as_mut_ptr().cast::<c_char>();
        expect(RZ_OK, |e| unsafe { rz_conversation_json_into(self.handle, first, pointer, out.len(), &mut len, e) });
        serde_json::from_slice(&out[..len]).expect("JSON")
    }

    pub fn info(&self) -> rz_conversation_info {
        let mut info = rz_conversation_info { struct_size: size::<rz_conversation_info>(), ..zeroed() };
        expect(RZ_OK, |e| unsafe { rz_conversation_info_get(self.handle, &mut info, e) });
        info
    }

    pub fn say(&self, text: &str, on_text: rz_text_callback, user: *mut c_void) -> rz_status {
        let text = CString::new(text).expect("no NUL");
        unsafe { rz_conversation_say(self.handle, text.as_ptr(), null(), on_text, user, null_mut()) }
    }
}

/// The tokens of messages as a prompt.
pub fn prompt(model: *mut rz_model, messages: &Json, thinking: Option<bool>) -> Vec<u32> {
    let variables = thinking.map_or(serde_json::json!({}), |on| serde_json::json!({"enable_thinking": on}));
    let chat = serde_json::json!({"messages": messages, "variables": variables}).to_string();
    let (mut tokens, mut n) = (vec![0; 4096], 0);
    expect(RZ_OK, |e| unsafe {
        let flags = RZ_CHAT_ADD_GENERATION_PROMPT;
        rz_chat_tokenize_into(
            model,
            chat.as_ptr().cast(),
            chat.len(),
            flags,
            tokens.as_mut_ptr(),
            4096,
            &mut n,
            null(),
            e,
        )
    });
    tokens.truncate(n);
    tokens
}

/// The `n` likeliest tokens after some, up to one that ends a text.
pub fn greedy(model: *mut rz_model, tokens: &[u32], n: usize) -> Vec<u32> {
    let host = Host { model: null_mut(), cache: new_cache(model, 512) };
    host.prefill(&tokens[..tokens.len() - 1]);
    let (mut token, mut out) = (tokens[tokens.len() - 1], Vec::new());
    while out.len() < n {
        token = host.decode(token);
        out.push(token);
    }
    out
}

/// The content of a reply of these tokens to a conversation.
pub fn parsed(model: *mut rz_model, chat: &str, tokens: &[u32], kind: u32) -> String {
    let (mut parser, mut out) = (null_mut(), String::new());
    unsafe {
        expect(RZ_OK, |e| rz_chat_parser_new(model, chat.as_ptr().cast(), chat.len(), null(), &mut parser, e));
        for &token in tokens {
            expect(RZ_OK, |e| rz_chat_parser_push(parser, token, e));
        }
        expect(RZ_OK, |e| rz_chat_parser_end(parser, e));
        loop {
            let (mut which, [mut flags, mut index], mut text, mut len) = (0, [0; 2], [0u8; 4096], 0);
            let (to, err) = (text.as_mut_ptr().cast(), null_mut());
            match rz_chat_parser_next_into(parser, &mut which, &mut flags, &mut index, to, 4096, &mut len, err) {
                RZ_DONE => break,
                _ if which == kind => out.push_str(std::str::from_utf8(&text[..len]).expect("UTF-8")),
                _ => {}
            }
        }
        rz_chat_parser_free(parser);
    }
    out
}

pub fn text_of_kind(parts: &[(u32, u32, String)], kind: u32) -> String {
    parts.iter().filter(|part| part.0 == kind).map(|part| &part.2[..]).collect()
}

#[test]
fn a_reply_is_what_a_host_makes_by_hand() {
    let talk = Talk::new("", 256, 0);
    talk.add("system", "Be brief.");
    for (i, question) in ["Hi", "And <think> now?"].into_iter().enumerate() {
        talk.add("user", question);
        let messages = talk.messages(0);
        let tokens = prompt(talk.model, &messages, None);
        let chat = serde_json::json!({"messages": messages}).to_string();
        let want = greedy(talk.model, &tokens, 12);
        let before = talk.info();
        let parts = talk.reply(reply_params(12));
        for kind in [RZ_CHAT_EVENT_CONTENT, RZ_CHAT_EVENT_REASONING] {
            assert_eq!(text_of_kind(&parts, kind), parsed(talk.model, &chat, &want, kind), "{question} {kind}");
        }
        assert_eq!(parts.last().map(|part| part.0), Some(RZ_CHAT_EVENT_END));
        let info = talk.info();
        assert_eq!((info.state, info.end_reason), (RZ_STATE_ENDED, RZ_END_LENGTH));
        assert_eq!((info.prompt_tokens as usize, info.n_tokens), (tokens.len(), 12));
        assert_eq!(info.cache_len as usize, tokens.len() + 11);
        // All that was rendered before is there, but the opening of the reply, which the template writes again.
        assert!(i == 0 || info.reused_tokens >= before.prompt_tokens, "{} tokens", info.reused_tokens);
        let last = &talk.messages(1 + 2 * i as u32)[1];
        assert_eq!((last["role"].as_str(), last["finish_reason"].as_str()), (Some("assistant"), Some("length")));
        assert_eq!(last["content"].as_str(), Some(&text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT)[..]));
    }
    assert_eq!(talk.info().n_messages, 5);
}

pub unsafe extern "C" fn collect(text: *const c_char, len: usize, user: *mut c_void) -> i32 {
    let (out, left) = unsafe { &mut *user.cast::<(Vec<u8>, i32)>() };
    out.extend_from_slice(unsafe { std::slice::from_raw_parts(text.cast(), len) });
    *left -= 1;
    i32::from(*left == 0)
}

#[test]
fn say_hands_the_content_on_and_ends_where_it_is_told() {
    let talk = Talk::new("", 128, 0);
    let mut heard = (Vec::new(), i32::MAX);
    assert_eq!(talk.say("Hi", Some(collect), (&raw mut heard).cast()), RZ_OK);
    assert_eq!(talk.messages(0)[1]["content"].as_str().map(str::as_bytes), Some(&heard.0[..]));
    assert!(!heard.0.is_empty());

    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 0, e) });
    let mut begun = (Vec::new(), 3);
    assert_eq!(talk.say("Hi", Some(collect), (&raw mut begun).cast()), RZ_OK);
    let messages = talk.messages(0);
    assert_eq!(messages[1]["finish_reason"], "cancelled");
    assert_eq!(messages[1]["content"].as_str().map(str::as_bytes), Some(&begun.0[..]));
    assert!(heard.0.starts_with(&begun.0) && begun.0.len() < heard.0.len());

    // What does not fit leaves no trace.
    assert_eq!(talk.say(&"long ".repeat(99), None, null_mut()), RZ_ERR_CONTEXT_FULL);
    assert_eq!(talk.messages(0), messages);
}

#[test]
fn a_reply_that_was_cut_goes_on() {
    let whole = Talk::new("", 256, 0);
    whole.add("user", "Hi");
    whole.reply(reply_params(24));
    let cut = Talk::of(whole.model, "", 256, 0);
    cut.add("user", "Hi");
    let mut parts = cut.reply(reply_params(7));
    for n in [1, 16] {
        parts.pop();
        parts.extend(cut.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(n) }));
        assert_eq!(cut.info().n_messages, 2);
    }
    assert_eq!(cut.messages(0), whole.messages(0));
    let said = text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT);
    assert_eq!(whole.messages(1)[0]["content"], said, "{parts:?}");
    assert!(!said.is_empty());
    // Without the flag there is a message more.
    cut.reply(reply_params(3));
    assert_eq!((cut.info().n_messages, &cut.messages(0)[1]), (3, &whole.messages(1)[0]));
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(cut.handle, 2, e) });
    // One that was given up and kept goes on too, another leaves nothing.
    cut.add("user", "More");
    cut.begin(reply_params(20));
    unsafe { rz_conversation_step(cut.handle, RZ_NO_LIMIT, null_mut()) };
    cut.begin(rz_reply_params { flags: RZ_REPLY_KEEP, ..reply_params(20) });
    assert_eq!(cut.info().n_messages, 3);
    for _ in 0..4 {
        unsafe { rz_conversation_step(cut.handle, RZ_NO_LIMIT, null_mut()) };
    }
    cut.begin(reply_params(1));
    assert_eq!((cut.info().n_messages, cut.messages(3)[0]["finish_reason"].as_str()), (4, Some("cancelled")));
    cut.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(16) });
    whole.add("user", "More");
    whole.reply(reply_params(20));
    assert_eq!(cut.messages(0), whole.messages(0));
    whole.add("user", "x");
    refused("cannot be continued", |e| unsafe {
        rz_conversation_reply(whole.handle, &rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(1) }, e)
    });
}

#[test]
fn reasoning_has_a_bound_after_which_the_model_answers() {
    let talk = Talk::new("", 256, 0);
    talk.add("user", "Hi");
    let messages = talk.messages(0);
    let on = rz_reply_params { reasoning: RZ_REASONING_ON, reasoning_tokens: 5, ..reply_params(30) };
    let tokens = prompt(talk.model, &messages, Some(true));
    let (mut closing, mut n) = ([0; 16], 0);
    let tag = "</think>";
    expect(RZ_OK, |e| unsafe {
        rz_tokenize_into(talk.model, tag.as_ptr().cast(), tag.len(), 0, closing.as_mut_ptr(), 16, &mut n, null(), e)
    });
    let mut all = tokens.clone();
    all.extend(greedy(talk.model, &tokens, 5));
    all.extend(&closing[..n]);
    let rest = 30 - 5 - n;
    all.extend(greedy(talk.model, &all, rest));
    let chat = serde_json::json!({"messages": messages, "variables": {"enable_thinking": true}}).to_string();
    for draft in [RZ_DRAFT_NONE, RZ_DRAFT_LOOKUP] {
        let parts = talk.reply(rz_reply_params { draft, ..on });
        let info = talk.info();
        assert_eq!((info.n_tokens, info.reasoning_tokens, info.end_reason), (30, 5, RZ_END_LENGTH));
        for kind in [RZ_CHAT_EVENT_CONTENT, RZ_CHAT_EVENT_REASONING] {
            let want = parsed(talk.model, &chat, &all[tokens.len()..], kind);
            assert_eq!(text_of_kind(&parts, kind), want, "{kind}");
            assert!(!want.is_empty());
        }
        let message = &talk.messages(1)[0];
        assert_eq!(message["reasoning_content"], text_of_kind(&parts, RZ_CHAT_EVENT_REASONING));
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    }
    // In slices of time, beside another.
    let other = Talk::of(talk.model, "", 256, 0);
    other.add("user", "You");
    talk.begin(on);
    other.begin(reply_params(30));
    let both = [talk.handle, other.handle];
    while unsafe { rz_conversations_step(both.as_ptr(), 2, 200, null_mut()) } == RZ_AGAIN {}
    assert_eq!(talk.messages(1)[0]["content"], parsed(talk.model, &chat, &all[tokens.len()..], RZ_CHAT_EVENT_CONTENT));
    assert_eq!(talk.info().reasoning_tokens, 5);
    // Off is what the template writes without it.
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    talk.reply(rz_reply_params { reasoning: RZ_REASONING_OFF, ..reply_params(4) });
    assert_eq!(talk.info().prompt_tokens as usize, prompt(talk.model, &messages, Some(false)).len());
    std::mem::forget(other);
}

/// A bound that falls within a character waits for its end: any tokens, most of them bytes, with and without a grammar.
#[test]
fn a_bound_of_reasoning_waits_for_the_end_of_a_character() {
    let talk = Talk::new("", 256, 0);
    talk.add("user", "Hi");
    let schema = r#"{"type": "integer", "minimum": 0, "maximum": 9}"#;
    let mut waited = 0;
    for seed in 0..240 {
        // So hot that all tokens are alike.
        let sampler =
            rz_sampler_params { struct_size: size::<rz_sampler_params>(), temperature: 1000.0, seed, ..zeroed() };
        let bound = 1 + (seed % 12) as u32;
        let mut params = rz_reply_params {
            sampler: &sampler,
            reasoning: RZ_REASONING_ON,
            reasoning_tokens: bound,
            ..reply_params(40)
        };
        if seed % 3 > 0 {
            params.grammar_kind = RZ_GRAMMAR_JSON_SCHEMA;
            params.grammar = schema.as_ptr().cast();
            params.grammar_len = schema.len();
        }
        let parts = talk.reply(params);
        let info = talk.info();
        assert!(info.reasoning_tokens <= bound + 3, "{seed}: {} of {bound}", info.reasoning_tokens);
        waited += u32::from(info.reasoning_tokens > bound);
        if seed % 3 > 0 {
            let reasoning = text_of_kind(&parts, RZ_CHAT_EVENT_REASONING);
            assert!(!reasoning.contains('\u{fffd}'), "{seed}: {reasoning}");
            let content = text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT);
            let is_digit = content.len() == 1 && content.as_bytes()[0].is_ascii_digit();
            assert!(is_digit || info.end_reason == RZ_END_LENGTH, "{seed}: {content}");
        }
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    }
    assert!(waited > 20, "{waited}");
}

#[test]
fn grammars_bind_the_content_after_reasoning() {
    let talk = Talk::new("", 256, 0);
    talk.add("user", "Hi");
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": false}"#;
    for reasoning in [RZ_REASONING_MODEL, RZ_REASONING_ON] {
        let params = rz_reply_params {
            grammar_kind: RZ_GRAMMAR_JSON_SCHEMA,
            grammar: schema.as_ptr().cast(),
            grammar_len: schema.len(),
            reasoning,
            reasoning_tokens: 6,
            logprobs: 2,
            ..reply_params(60)
        };
        let parts = talk.reply(params);
        let content = text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT);
        let json: Json = serde_json::from_str(&content).expect("JSON");
        assert!(json["n"].as_u64().is_some_and(|n| n < 10), "{content}");
        assert!(reasoning != RZ_REASONING_ON || !text_of_kind(&parts, RZ_CHAT_EVENT_REASONING).is_empty());
        // A row for each token of the content, and for none else.
        let (mut tokens, mut logprobs, mut n) = ([0; 300], [0f32; 300], 0);
        expect(RZ_OK, |e| unsafe {
            let (tokens, logprobs) = (tokens.as_mut_ptr(), logprobs.as_mut_ptr());
            rz_conversation_logprobs_into(talk.handle, tokens, logprobs, 300, &mut n, e)
        });
        let chosen: Vec<u32> = tokens[..n].chunks(3).map(|row| row[0]).collect();
        let (mut text, mut len) = ([0u8; 200], 0);
        expect(RZ_OK, |e| unsafe {
            let out = text.as_mut_ptr().cast();
            rz_detokenize_into(talk.model, chosen.as_ptr(), chosen.len(), 0, out, 200, &mut len, e)
        });
        assert_eq!(std::str::from_utf8(&text[..len]).expect("UTF-8").trim_start(), content);
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    }
}

#[test]
fn calls_and_their_results_are_messages() {
    let json = r#"{"tool_choice": "required", "parallel_tool_calls": false, "messages": [{"role": "user", "content": "Go"}],
        "tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": false}}}]}"#;
    let talk = Talk::new(json, 400, 0);
    for turn in 0..3 {
        let parts = talk.reply(rz_reply_params { reasoning: RZ_REASONING_OFF, ..reply_params(0) });
        assert_eq!(text_of_kind(&parts, RZ_CHAT_EVENT_TOOL_NAME), "go");
        let message = &talk.messages(1 + 2 * turn)[0];
        assert_eq!((&message["finish_reason"], &message["content"]), (&"tool_calls".into(), &Json::Null));
        let call = &message["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], text_of_kind(&parts, RZ_CHAT_EVENT_TOOL_ARGUMENTS));
        assert_eq!(call["id"], format!("call{turn:05}"));
        assert_eq!((call["id"].as_str(), parts[0].0), (Some(&parts[0].2[..]), RZ_CHAT_EVENT_TOOL_ID));
        let result = serde_json::json!({"role": "tool", "tool_call_id": call["id"], "content": "done"}).to_string();
        // The template of these tests has no place for results that it could lose.
        let result = result.replace("\"tool\"", "\"user\"");
        expect(RZ_OK, |e| unsafe {
            rz_conversation_add(talk.handle, result.as_ptr().cast(), result.len(), null(), 0, e)
        });
    }
}

#[test]
fn old_turns_are_forgotten_whole() {
    let talk = Talk::new(r#"{"messages": [{"role": "system", "content": "S"}]}"#, 128, RZ_OVERFLOW_FORGET);
    let mut forgot = false;
    for i in 0..12 {
        talk.add("user", &format!("Question {i} of some length"));
        let messages = talk.messages(0);
        talk.reply(reply_params(8));
        let info = talk.info();
        let first = info.first_in_prompt as usize;
        forgot |= first > 0;
        let kept = |(n, m): (usize, &Json)| (n >= first || m["role"] == "system").then(|| m.clone());
        let list: Json = messages.as_array().expect("a list").iter().enumerate().filter_map(kept).collect();
        assert!(first == 0 || messages[first]["role"] == "user", "turns begin with a user's message");
        assert_eq!(info.prompt_tokens as usize, prompt(talk.model, &list, None).len());
        assert!(info.prompt_tokens + 8 <= 128);
    }
    assert!(forgot);
    assert_eq!(talk.info().n_messages, 25);
    // One message that is too long by itself is rejected.
    talk.add("user", &"x".repeat(300));
    let message = expect(RZ_ERR_CONTEXT_FULL, |e| unsafe { rz_conversation_reply(talk.handle, null(), e) });
    assert!(message.contains("128"), "{message}");
}

unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), n) };
    unsafe { &mut *user.cast::<(Vec<u8>, usize)>() }.0.extend_from_slice(bytes);
    0
}

unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let (file, at) = unsafe { &mut *user.cast::<(Vec<u8>, usize)>() };
    let Some(bytes) = file.get(*at..*at + n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    *at += n;
    0
}

#[test]
fn forks_and_saved_conversations_go_on_alike() {
    let talk = Talk::new(r#"{"messages": [{"role": "system", "content": "S"}], "variables": {"a": 1}}"#, 256, 0);
    talk.add("user", "Hi");
    talk.reply(reply_params(9));
    let fork = talk.fork();
    let mut file = (Vec::<u8>::new(), 0usize);
    let user = (&raw mut file).cast::<c_void>();
    expect(RZ_OK, |e| unsafe { rz_conversation_save(talk.handle, Some(write), user, null(), e) });
    let load = |status| {
        let mut handle = null_mut();
        expect(status, |e| unsafe { rz_conversation_load(talk.model, null(), Some(read), user, &mut handle, e) });
        Talk { model: null_mut(), handle }
    };
    let loaded = load(RZ_OK);
    // What happens at the end of the cache may be chosen anew: the rest of what is saved is the same.
    file.1 = 0;
    let params = rz_conversation_params { overflow: RZ_OVERFLOW_FORGET, ..sized() };
    let mut handle = null_mut();
    expect(RZ_OK, |e| unsafe { rz_conversation_load(talk.model, &params, Some(read), user, &mut handle, e) });
    let mut again = (Vec::<u8>::new(), 0usize);
    expect(RZ_OK, |e| unsafe { rz_conversation_save(handle, Some(write), (&raw mut again).cast(), null(), e) });
    unsafe { rz_conversation_free(handle) };
    let forgets = |file: &[u8]| String::from_utf8_lossy(file).contains("\"forgets\":true");
    assert!(forgets(&again.0) && !forgets(&file.0));
    for other in [&talk, &fork, &loaded] {
        other.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(5) });
        other.add("user", "Go on");
        other.reply(reply_params(9));
        assert!(other.info().reused_tokens > 20);
    }
    assert_eq!(talk.messages(0), fork.messages(0));
    assert_eq!(talk.messages(0), loaded.messages(0));
    talk.begin(reply_params(9));
    expect(RZ_ERR_BUSY, |e| unsafe { rz_conversation_save(talk.handle, Some(write), user, null(), e) });
    assert_eq!(talk.fork().messages(0), talk.messages(0));
    // Every damaged byte is found.
    for at in (0..file.0.len()).step_by(file.0.len() / 97) {
        file.0[at] ^= 1;
        file.1 = 0;
        let mut handle = null_mut();
        let status = unsafe { rz_conversation_load(talk.model, null(), Some(read), user, &mut handle, null_mut()) };
        assert!(status < 0 && handle.is_null(), "byte {at}");
        file.0[at] ^= 1;
    }
}

#[test]
fn many_conversations_reply_as_each_does_alone() {
    let first = Talk::new("", 128, 0);
    let talks: Vec<Talk> = (0..6).map(|_| Talk::of(first.model, "", 128, 0)).collect();
    for (i, talk) in talks.iter().enumerate() {
        talk.add("user", &format!("Question {}", "?".repeat(i)));
        talk.begin(reply_params(6 + i as u32));
    }
    let handles: Vec<_> = talks.iter().map(|talk| talk.handle).collect();
    let twice = [handles[0], handles[0]];
    refused("occurs twice", |e| unsafe { rz_conversations_step(twice.as_ptr(), 2, 0, e) });
    while unsafe { rz_conversations_step(handles.as_ptr(), handles.len(), RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    for (i, talk) in talks.iter().enumerate() {
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(first.handle, 0, e) });
        first.add("user", &format!("Question {}", "?".repeat(i)));
        first.reply(reply_params(6 + i as u32));
        assert_eq!(talk.messages(0), first.messages(0));
    }
    talks.into_iter().for_each(|mut talk| talk.model = null_mut());
}

#[test]
fn replies_of_the_higher_priority_go_first() {
    let first = Talk::new("", 512, 0);
    let second = Talk::of(first.model, "", 512, 0);
    let third = Talk::of(first.model, "", 512, 0);
    let talks = [&first, &second, &third];
    for (talk, priority) in talks.iter().zip([-3, 0, 3]) {
        talk.add("user", &"Once upon a time. ".repeat(30));
        talk.begin(rz_reply_params { priority, ..reply_params(20) });
        assert!(talk.info().prompt_tokens > 130);
    }
    let handles = talks.map(|talk| talk.handle);
    let mut order = Vec::new();
    while order.len() < 3 {
        expect(RZ_AGAIN, |e| unsafe { rz_conversations_step(handles.as_ptr(), 3, RZ_NO_LIMIT, e) });
        order.extend((0..3).filter(|i| !order.contains(i) && talks[*i].info().n_tokens > 0).collect::<Vec<_>>());
    }
    assert_eq!(order, [2, 1, 0]);
    while unsafe { rz_conversations_step(handles.as_ptr(), 3, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    assert_eq!(first.messages(1), third.messages(1));
    [second, third].into_iter().for_each(|mut talk| talk.model = null_mut());
}

#[test]
fn conversations_share_what_a_store_remembers() {
    let system = format!(r#"{{"messages": [{{"role": "system", "content": "{}"}}]}}"#, "Be brief and kind. ".repeat(9));
    let model = model();
    let (mut store, mut err) = (null_mut(), no_error());
    let params = rz_store_params { struct_size: size::<rz_store_params>(), min_tokens: 30, ..zeroed() };
    expect(RZ_OK, |e| unsafe { rz_store_new(model, &params, &mut store, e) });
    let talk = |question: &str, store: *const rz_store| {
        let cache = rz_cache_params { struct_size: size::<rz_cache_params>(), capacity: 400, k_type: 0, v_type: 0 };
        let params = rz_conversation_params {
            struct_size: size::<rz_conversation_params>(),
            json: system.as_ptr().cast(),
            json_len: system.len(),
            cache: &cache,
            store,
            ..zeroed()
        };
        let mut handle = null_mut();
        expect(RZ_OK, |e| unsafe { rz_conversation_new(model, &params, &mut handle, e) });
        let talk = Talk { model: null_mut(), handle };
        talk.add("user", question);
        talk.reply(reply_params(20));
        talk
    };
    for (i, question) in ["One?", "Two?", "Three?", "One?"].into_iter().enumerate() {
        let (with, without) = (talk(question, store), talk(question, null()));
        assert_eq!(with.messages(0), without.messages(0), "{question}");
        let (reused, prompt) = (with.info().reused_tokens, with.info().prompt_tokens);
        assert!(if i == 0 { reused == 0 } else { reused > 60 }, "{question}: {reused} of {prompt}");
        assert!(i < 3 || reused == prompt - 1);
    }
    let mut info = rz_store_info { struct_size: size::<rz_store_info>(), ..zeroed() };
    expect(RZ_OK, |e| unsafe { rz_store_info_get(store, &mut info, e) });
    assert_eq!((info.hits, info.misses, info.n_files, info.n_entries), (3, 1, 0, 3));
    unsafe {
        // By hand.
        let (mut cache, mut common) = (null_mut(), 77);
        let tokens: Vec<u32> = (3..99).collect();
        expect(RZ_OK, |e| rz_store_take(store, tokens.as_ptr(), 96, null(), null(), &mut cache, &mut common, e));
        assert_eq!((common, rz_cache_len(cache)), (0, 0));
        expect(RZ_OK, |e| rz_prefill(cache, tokens.as_ptr(), 60, null(), e));
        expect(RZ_OK, |e| rz_store_put(store, cache, e));
        rz_cache_free(cache);
        expect(RZ_OK, |e| rz_store_take(store, tokens.as_ptr(), 96, null(), null(), &mut cache, &mut common, e));
        assert_eq!((common, rz_cache_len(cache)), (60, 60));
        rz_cache_free(cache);
        expect(RZ_OK, |e| rz_store_clear(store, e));
        expect(RZ_OK, |e| rz_store_info_get(store, &mut info, e));
        assert_eq!((info.n_entries, info.memory_bytes), (0, 0));
        // A store of another model.
        let other = load_with(with_template(TEMPLATE).path().to_str().expect("UTF-8"), null());
        let mut handle = null_mut();
        let params = rz_conversation_params { struct_size: size::<rz_conversation_params>(), store, ..zeroed() };
        assert_eq!(rz_conversation_new(other, &params, &mut handle, &mut err), RZ_ERR_MISMATCH);
        rz_model_free(other);
        rz_store_free(store);
        rz_model_free(model);
    }
}

#[test]
fn a_cancelled_reply_goes_on_or_leaves_no_trace() {
    let talk = Talk::new("", 128, 0);
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    talk.add("user", "Hi");
    talk.begin(rz_reply_params { cancel, ..reply_params(9) });
    unsafe {
        expect(RZ_AGAIN, |e| rz_conversation_step(talk.handle, RZ_NO_LIMIT, e));
        rz_cancel_fire(cancel);
        expect(RZ_ERR_CANCELLED, |e| rz_conversation_step(talk.handle, RZ_NO_LIMIT, e));
        assert_eq!(talk.info().stopped, RZ_ERR_CANCELLED);
        rz_cancel_reset(cancel);
        while rz_conversation_step(talk.handle, RZ_NO_LIMIT, null_mut()) == RZ_AGAIN {}
        assert_eq!(talk.info().n_messages, 2);
        expect(RZ_OK, |e| rz_conversation_rewind(talk.handle, 1, e));
        talk.begin(rz_reply_params { cancel, ..reply_params(9) });
        rz_cancel_fire(cancel);
        expect(RZ_ERR_CANCELLED, |e| rz_conversation_step(talk.handle, RZ_NO_LIMIT, e));
        expect(RZ_OK, |e| rz_conversation_rewind(talk.handle, 1, e));
        assert_eq!((talk.info().n_messages, talk.info().state), (1, 0));
        // An empty list gives a reply up, and no more.
        rz_cancel_reset(cancel);
        talk.begin(rz_reply_params { flags: RZ_REPLY_KEEP, ..reply_params(9) });
        expect(RZ_AGAIN, |e| rz_conversation_step(talk.handle, RZ_NO_LIMIT, e));
        expect(RZ_OK, |e| rz_conversation_add(talk.handle, c"[]".as_ptr(), 2, null(), 0, e));
        assert_eq!((talk.info().n_messages, talk.info().state), (2, RZ_STATE_ENDED));
        talk.reply(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(3) });
        rz_cancel_free(cancel);
    }
}

#[test]
fn a_call_that_fails_leaves_the_reply_that_is_being_made() {
    let undisturbed = Talk::new("", 128, 0);
    undisturbed.add("user", "Hi");
    let expected = undisturbed.reply(reply_params(9));
    let talk = Talk::new("", 128, 0);
    talk.add("user", "Hi");
    for flags in [0, RZ_REPLY_KEEP] {
        talk.begin(rz_reply_params { flags, ..reply_params(9) });
        let mut text = String::new();
        for _ in 0..4 {
            expect(RZ_AGAIN, |e| unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, e) });
            text.extend(std::iter::from_fn(|| talk.next()).map(|(_, _, text)| text));
        }
        let (before, messages) = (talk.info().n_tokens, talk.messages(0));
        let regex = rz_reply_params { grammar_kind: RZ_GRAMMAR_REGEX, ..reply_params(9) };
        let [wrong, impossible] =
            ["(", "a"].map(|text| rz_reply_params { grammar: text.as_ptr().cast(), grammar_len: text.len(), ..regex });
        for (params, status) in [
            (wrong, RZ_ERR_INVALID_ARGUMENT),
            (
                rz_reply_params { stops: [c"".as_ptr()].as_ptr(), n_stops: 1, ..reply_params(9) },
                RZ_ERR_INVALID_ARGUMENT,
            ),
            (rz_reply_params { logprobs: 33, ..reply_params(9) }, RZ_ERR_INVALID_ARGUMENT),
            (rz_reply_params { draft: RZ_DRAFT_MTP, ..reply_params(9) }, RZ_ERR_UNSUPPORTED),
            (rz_reply_params { flags: 8, ..impossible }, RZ_ERR_VERSION),
        ] {
            expect(status, |e| unsafe { rz_conversation_reply(talk.handle, &params, e) });
        }
        // A whole reply that has no room.
        let long = "a b ".repeat(200);
        let status = talk.say(&long, None, null_mut());
        assert_eq!(status, RZ_ERR_CONTEXT_FULL);
        assert_eq!((talk.info().n_tokens, talk.messages(0)), (before, messages));
        while unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
        text.extend(std::iter::from_fn(|| talk.next()).map(|(_, _, text)| text));
        let whole: String = expected.iter().map(|(_, _, text)| text.as_str()).collect();
        assert_eq!(text, whole);
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
    }
    // One that succeeds gives it up, and keeps what was said where that was asked for.
    talk.begin(rz_reply_params { flags: RZ_REPLY_KEEP, ..reply_params(9) });
    expect(RZ_AGAIN, |e| unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, e) });
    talk.begin(rz_reply_params { flags: RZ_REPLY_CONTINUE, ..reply_params(3) });
    assert_eq!(talk.messages(1)[0]["finish_reason"], "cancelled");
}

#[test]
fn what_is_wrong_is_named_and_changes_nothing() {
    let talk = Talk::new("", 64, 0);
    talk.add("user", "Hi");
    let before = talk.messages(0);
    let add = |json: &str, word: &str, status| {
        let call = |e| unsafe { rz_conversation_add(talk.handle, json.as_ptr().cast(), json.len(), null(), 0, e) };
        let message = expect(status, call);
        assert!(message.contains(word), "{message}");
    };
    add("", "EOF", RZ_ERR_INVALID_ARGUMENT);
    add("[1]", "messages[0]", RZ_ERR_INVALID_ARGUMENT);
    add(r#"[{"role": "user", "content": "a"}, {"content": "b"}]"#, "messages[1].role", RZ_ERR_INVALID_ARGUMENT);
    add(
        r#"{"role": "user", "content": [{"type": "image_url"}]}"#,
        "content[0].media is not the number of a media item",
        RZ_ERR_INVALID_ARGUMENT,
    );
    add(r#"{"role": "user", "content": [{"type": "file"}]}"#, "\"file\"; only text", RZ_ERR_UNSUPPORTED);
    add(&"[".repeat(100_000), "nested", RZ_ERR_LIMIT);
    let reply = |params: rz_reply_params, word: &str, status| {
        let message = expect(status, |e| unsafe { rz_conversation_reply(talk.handle, &params, e) });
        assert!(message.contains(word), "{message}");
    };
    let ok = reply_params(4);
    reply(rz_reply_params { reasoning: 7, ..ok }, "reasoning is 7", RZ_ERR_INVALID_ARGUMENT);
    reply(rz_reply_params { flags: 8, ..ok }, "flags", RZ_ERR_VERSION);
    reply(rz_reply_params { draft: 9, ..ok }, "draft is 9", RZ_ERR_INVALID_ARGUMENT);
    reply(rz_reply_params { logprobs: 33, ..ok }, "at most 32", RZ_ERR_INVALID_ARGUMENT);
    reply(rz_reply_params { grammar_kind: 99, ..ok }, "99", RZ_ERR_INVALID_ARGUMENT);
    reply(rz_reply_params { grammar_kind: RZ_GRAMMAR_TOOLS, ..ok }, "RZ_GRAMMAR_TOOLS", RZ_ERR_INVALID_ARGUMENT);
    let text = "x";
    let grammar = rz_reply_params { grammar: text.as_ptr().cast(), grammar_len: 1, ..ok };
    reply(grammar, "grammar_kind is 0", RZ_ERR_INVALID_ARGUMENT);
    reply(rz_reply_params { grammar_flags: 1, ..ok }, "grammar_kind is 0", RZ_ERR_INVALID_ARGUMENT);
    let regex = rz_reply_params { grammar_kind: RZ_GRAMMAR_REGEX, ..grammar };
    reply(rz_reply_params { grammar_flags: 4, ..regex }, "grammar_flags has bits 0x4", RZ_ERR_VERSION);
    reply(rz_reply_params { grammar_flags: 1, ..regex }, "RZ_GRAMMAR_FLAG_WHITESPACE needs", RZ_ERR_INVALID_ARGUMENT);
    let (unique, grammar_kind) = (r#"{"type": "array", "uniqueItems": true}"#, RZ_GRAMMAR_JSON_SCHEMA);
    let list = rz_reply_params { grammar_kind, grammar: unique.as_ptr().cast(), grammar_len: unique.len(), ..ok };
    reply(list, "uniqueItems", RZ_ERR_UNSUPPORTED);
    talk.fork().begin(rz_reply_params { grammar_flags: RZ_GRAMMAR_FLAG_BEST_EFFORT, ..list });
    let sampler = rz_sampler_params { struct_size: size::<rz_sampler_params>(), top_p: 2.0, ..zeroed() };
    reply(rz_reply_params { sampler: &sampler, ..ok }, "top_p", RZ_ERR_INVALID_ARGUMENT);
    let mut handle = null_mut();
    let params = |json: &'static str, overflow| rz_conversation_params {
        struct_size: size::<rz_conversation_params>(),
        overflow,
        json: json.as_ptr().cast(),
        json_len: json.len(),
        ..zeroed()
    };
    refused("overflow is 5", |e| unsafe { rz_conversation_new(talk.model, &params("{}", 5), &mut handle, e) });
    refused("unknown member", |e| unsafe {
        rz_conversation_new(talk.model, &params(r#"{"x": 1}"#, 0), &mut handle, e)
    });
    let plain = load();
    expect(RZ_ERR_UNSUPPORTED, |e| unsafe { rz_conversation_new(plain, null(), &mut handle, e) });
    refused("it can't be rewound", |e| unsafe { rz_conversation_rewind(talk.handle, 2, e) });
    refused("conversation", |e| unsafe { rz_conversation_step(null_mut(), 0, e) });
    expect(RZ_DONE, |e| unsafe { rz_conversation_step(talk.handle, 0, e) });
    assert!(talk.next().is_none());
    assert_eq!(talk.messages(0), before);
    unsafe { rz_model_free(plain) };
}
