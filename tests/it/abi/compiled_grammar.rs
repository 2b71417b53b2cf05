//! Compiled grammars of replies. The oracle of a reply is the same reply with the text of the grammar.

use super::conversation::{TEMPLATE, Talk, reply_params, text_of_kind};
use super::host::*;
use std::ptr::{null, null_mut};

use realizar::ffi::cancel::*;
use realizar::ffi::conversation::*;
use realizar::ffi::grammar::*;
use realizar::ffi::model::*;
use realizar::ffi::reply::*;
use realizar::ffi::status::*;

const SCHEMA: &str = r#"{"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9},
    "color": {"enum": ["red", "blue"]}}, "required": ["n", "color"], "additionalProperties": false}"#;
const TOOLS: &str = r#"{"messages": [{"role": "user", "content": "Hi"}], "tool_choice": "required",
    "parallel_tool_calls": false, "tools": [{"type": "function", "function": {"name": "go", "parameters":
    {"type": "object", "properties": {"by": {"enum": ["car", "bus"]}}, "required": ["by"],
    "additionalProperties": false}}}]}"#;

fn compiled(model: *const rz_model, kind: u32, flags: u32, text: &str) -> *mut rz_grammar {
    let mut grammar = null_mut();
    expect(RZ_OK, |e| unsafe {
        rz_grammar_new(model, kind, flags, text.as_ptr().cast(), text.len(), null(), &mut grammar, e)
    });
    grammar
}

/// Reasoning, if there is any, is short.
fn base() -> rz_reply_params {
    rz_reply_params { reasoning_tokens: 6, ..reply_params(120) }
}

fn of_text(kind: u32, text: &str) -> rz_reply_params {
    rz_reply_params { grammar_kind: kind, grammar: text.as_ptr().cast(), grammar_len: text.len(), ..base() }
}

fn of_grammar(compiled_grammar: *const rz_grammar) -> rz_reply_params {
    rz_reply_params { compiled_grammar, ..base() }
}

/// A model whose replies are content alone, and one whose replies may have reasoning and calls.
fn models() -> [*mut rz_model; 2] {
    let plain = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
    [plain, TEMPLATE].map(|template| load_with(with_template(template).path().to_str().expect("UTF-8"), null()))
}

/// A conversation with a question, without its own model.
fn talk(model: *mut rz_model, json: &str) -> Talk {
    let mut talk = Talk::of(model, json, 256, 0);
    talk.model = null_mut();
    if json.is_empty() {
        talk.add("user", "Hi");
    }
    talk
}

#[test]
fn a_compiled_grammar_makes_the_reply_of_its_text() {
    let texts =
        [(RZ_GRAMMAR_JSON_SCHEMA, SCHEMA), (RZ_GRAMMAR_REGEX, "[a-f]{3} [0-9]+!"), (RZ_GRAMMAR_CHOICES, "[\"a\"]")];
    for model in models() {
        for (kind, text) in texts {
            let grammar = compiled(model, kind, 0, text);
            // Templates without reasoning have none to switch on.
            for reasoning in [RZ_REASONING_MODEL, RZ_REASONING_ON] {
                let with = |params| rz_reply_params { reasoning, ..params };
                let talks = [(); 2].map(|()| talk(model, ""));
                let begun =
                    |talk: &Talk, params| unsafe { rz_conversation_reply(talk.handle, &with(params), null_mut()) };
                if begun(&talks[0], of_text(kind, text)) == RZ_ERR_UNSUPPORTED {
                    assert_eq!(begun(&talks[1], of_grammar(grammar)), RZ_ERR_UNSUPPORTED);
                    continue;
                }
                let wanted = talks[0].reply(with(of_text(kind, text)));
                assert_eq!(talks[1].reply(with(of_grammar(grammar))), wanted, "{text}");
                let content = text_of_kind(&wanted, RZ_CHAT_EVENT_CONTENT);
                assert!(kind != RZ_GRAMMAR_CHOICES || content == "a", "{content}");
            }
            unsafe { rz_grammar_free(grammar) };
        }
        unsafe { rz_model_free(model) };
    }
}

/// A conversation keeps the grammars of its last replies.
#[test]
fn replies_in_turn_follow_their_own_grammars() {
    for model in models() {
        let talk = talk(model, "");
        for (kind, text) in ["b", "c", "d", "e", "f", "b"].map(|c| (RZ_GRAMMAR_CHOICES, format!("[\"{c}\"]"))) {
            for flags in [0, RZ_REPLY_KEEP] {
                let parts = talk.reply(rz_reply_params { flags, ..of_text(kind, &text) });
                assert_eq!(text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT), text[2..3]);
                expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 1, e) });
            }
        }
        let (text, fork) = ("[\"\"]", talk.fork());
        assert_eq!(text_of_kind(&fork.reply(of_text(RZ_GRAMMAR_CHOICES, text)), RZ_CHAT_EVENT_CONTENT), "");
        // The same text as another kind.
        let parts = talk.reply(of_text(RZ_GRAMMAR_REGEX, text));
        assert_eq!(text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT), "\"");
        unsafe { rz_model_free(model) };
    }
}

#[test]
fn two_conversations_use_one_grammar_at_once() {
    for model in models() {
        let wanted = talk(model, "").reply(of_text(RZ_GRAMMAR_JSON_SCHEMA, SCHEMA));
        let grammar = compiled(model, RZ_GRAMMAR_JSON_SCHEMA, 0, SCHEMA);
        // In common steps, and on their own threads; the grammar and the model are freed first.
        let together = [(); 2].map(|()| talk(model, ""));
        let apart = [(); 2].map(|()| talk(model, ""));
        std::thread::scope(|scope| {
            for talk in together.iter().chain(&apart) {
                let (handle, grammar) = (talk.handle as usize, grammar as usize);
                scope.spawn(move || {
                    let params = of_grammar(grammar as *const rz_grammar);
                    expect(RZ_OK, |e| unsafe { rz_conversation_reply(handle as *mut rz_conversation, &params, e) });
                });
            }
        });
        unsafe {
            rz_grammar_free(grammar);
            rz_model_free(model);
            let handles = together.each_ref().map(|talk| talk.handle);
            while rz_conversations_step(handles.as_ptr(), 2, RZ_NO_LIMIT, null_mut()) == RZ_AGAIN {}
        }
        std::thread::scope(|scope| {
            for talk in &apart {
                let handle = talk.handle as usize;
                scope.spawn(move || unsafe {
                    while rz_conversation_step(handle as *mut rz_conversation, RZ_NO_LIMIT, null_mut()) == RZ_AGAIN {}
                });
            }
        });
        for talk in together.iter().chain(&apart) {
            let content = talk.messages(1)[0]["content"].clone();
            assert_eq!(content, text_of_kind(&wanted, RZ_CHAT_EVENT_CONTENT));
        }
    }
}

#[test]
fn a_grammar_of_tools_is_that_of_the_whole_reply() {
    let [plain, model] = models();
    let grammar = compiled(model, RZ_GRAMMAR_TOOLS, 0, TOOLS);
    let wanted = talk(model, TOOLS).reply(base());
    assert_eq!(text_of_kind(&wanted, RZ_CHAT_EVENT_TOOL_NAME), "go");
    for reasoning in [RZ_REASONING_MODEL, RZ_REASONING_ON] {
        let talk = talk(model, TOOLS);
        let parts = talk.reply(rz_reply_params { reasoning, ..of_grammar(grammar) });
        assert!(reasoning == RZ_REASONING_ON || parts == wanted);
        let call = &talk.messages(1)[0]["tool_calls"][0]["function"];
        let arguments = call["arguments"].as_str().expect("arguments");
        assert!(call["name"] == "go" && arguments.contains("\"by\""), "{call}");
    }
    // White space of calls is a flag of the grammar alone.
    let spaced = compiled(model, RZ_GRAMMAR_TOOLS, RZ_GRAMMAR_FLAG_WHITESPACE, TOOLS);
    let parts = talk(model, TOOLS).reply(of_grammar(spaced));
    assert_eq!(text_of_kind(&parts, RZ_CHAT_EVENT_TOOL_NAME), "go");
    // Of a conversation with other tools, or none.
    for json in [String::new(), TOOLS.replace("car", "cab"), TOOLS.replace("\"required\",", "\"none\",")] {
        let talk = talk(model, &json);
        refused("rz_reply_params.compiled_grammar is of other tools", |e| unsafe {
            rz_conversation_reply(talk.handle, &of_grammar(grammar), e)
        });
    }
    unsafe {
        rz_grammar_free(grammar);
        rz_grammar_free(spaced);
        rz_model_free(model);
        rz_model_free(plain);
    }
}

#[test]
fn a_compiled_grammar_and_a_text_are_refused_together() {
    let [plain, model] = models();
    let (talk, grammar) = (talk(model, ""), compiled(model, RZ_GRAMMAR_JSON_SCHEMA, 0, SCHEMA));
    for params in [
        rz_reply_params { compiled_grammar: grammar, ..of_text(RZ_GRAMMAR_JSON_SCHEMA, SCHEMA) },
        rz_reply_params { grammar_kind: RZ_GRAMMAR_JSON, ..of_grammar(grammar) },
        rz_reply_params { grammar_flags: RZ_GRAMMAR_FLAG_WHITESPACE, ..of_grammar(grammar) },
    ] {
        refused("both set", |e| unsafe { rz_conversation_reply(talk.handle, &params, e) });
    }
    // A grammar made with another model binds content all the same.
    let other = compiled(plain, RZ_GRAMMAR_JSON_SCHEMA, 0, SCHEMA);
    let content = |params| text_of_kind(&talk.fork().reply(params), RZ_CHAT_EVENT_CONTENT);
    assert_eq!(content(of_grammar(other)), content(of_grammar(grammar)));
    unsafe {
        rz_grammar_free(grammar);
        rz_grammar_free(other);
        rz_model_free(model);
        rz_model_free(plain);
    }
}
