//! Grammars of replies with tools: schemas that no grammar can enforce in full, many schemas, and schemas next to a
//! grammar for the content.

use std::sync::Arc;

use realizar::error::Error;
use realizar::grammar::{Grammar, GrammarText, Grammars, Kind};
use realizar::text::{Chat, ChatTemplate, Reply, find_reply_form};
use serde_json::{Value as Json, json};

use crate::support::save::MODEL;

/// Templates with calls in JSON, as tagged arguments, and in Python, each with reasoning.
const TEMPLATES: [&str; 3] = [
    "{% for t in m.tool_calls %}\n<tool_call>\n{{ '{\"name\": \"' ~ t.function.name ~ '\", \"arguments\": ' }}{{ t.function.arguments | tojson }}{{ '}' }}\n</tool_call>{% endfor %}",
    "{% for t in m.tool_calls %}\n<tool_call>\n<function={{ t.function.name }}>\n{% for k, v in t.function.arguments | items %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}",
    "<|calls|>[{% for t in m.tool_calls %}{{ t.function.name }}({% for k, v in t.function.arguments | items %}{{ k }}={% if v is string %}'{{ v }}'{% else %}{{ v }}{% endif %}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if not loop.last }}{% endfor %}]<|end_calls|>",
];

fn reply(calls: &str, chat: Json) -> Reply {
    let source = format!(
        "{{{{ tools | tojson if tools }}}}{{% for m in messages %}}{{% if m.role == 'assistant' %}}{{{{ '[A]' }}}}{{% if m.reasoning_content %}}<think>\n{{{{ \
         m.reasoning_content }}}}\n</think>\n\n{{% endif %}}{{{{ m.content or '' }}}}{{% if m.tool_calls %}}{calls}{{% endif \
         %}}[/A]\n{{% else %}}[U]{{{{ m.content }}}}[/U]\n{{% endif %}}{{% endfor %}}{{% if add_generation_prompt %}}{{{{ \
         '[A]' }}}}{{% endif %}}"
    );
    let template = ChatTemplate::new(&source, "<s>".into(), "</s>".into());
    let mut whole = json!({"messages": [{"role": "user", "content": "Hi"}]});
    whole.as_object_mut().unwrap().extend(chat.as_object().unwrap().clone());
    let chat = Chat::parse(&whole.to_string(), true).unwrap();
    let prompt = template.render(&chat).unwrap();
    Reply::new(Arc::new(find_reply_form(&template).unwrap()), &chat, &prompt).unwrap()
}

fn compiled(reply: &Reply, content: Option<&GrammarText>) -> Result<Grammar, Error> {
    let tokenizer = MODEL.tokenizer().unwrap();
    Grammars::new(tokenizer, tokenizer.n_vocab()).unwrap().compile_reply(reply, content, false, tokenizer)
}

fn takes(grammar: &Grammar, text: &str) -> bool {
    let tokens: Vec<u32> = text.bytes().map(|b| 3 + u32::from(b)).collect();
    let mut matcher = grammar.matcher().unwrap();
    matcher.admits(&[], &tokens).unwrap() == tokens.len()
        && matcher.allowed(&tokens).unwrap().has(MODEL.tokenizer().unwrap().eos().unwrap())
}

fn tool(name: &str, parameters: &Json) -> Json {
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}})
}

fn strict(mut tool: Json) -> Json {
    tool["function"]["strict"] = json!(true);
    tool
}

/// A keyword that no grammar can enforce fails only a strict tool, and the error names tool, place and keyword. The
/// schemas of all libraries are accepted in every form of tool calls.
#[test]
fn tools_that_are_not_strict_are_best_effort() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/schemas/published.json");
    let cases: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let all: Vec<(String, &Json)> =
        cases.as_array().unwrap().iter().enumerate().map(|(i, case)| (format!("t{i}"), &case["schema"])).collect();
    for (form, calls) in TEMPLATES.iter().enumerate() {
        for some in all.chunks(50) {
            let tools: Vec<Json> = some.iter().map(|(name, schema)| tool(name, schema)).collect();
            compiled(&reply(calls, json!({"tools": tools})), None).unwrap_or_else(|e| panic!("form {form}: {e}"));
        }
    }
    let held = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    for (keyword, value, place) in [
        ("uniqueItems", json!({"type": "array", "uniqueItems": true}), "uniqueItems"),
        ("contains", json!({"type": "array", "contains": {"const": 1}}), "contains"),
        (
            "a pattern",
            json!({"type": "object", "properties": {"x": {"pattern": "(?!a)b", "type": "string"}}}),
            "properties/x/pattern",
        ),
        ("a format", json!({"type": "array", "items": {"type": "string", "format": "iri"}}), "items/format"),
    ] {
        let odd = json!({"type": "object", "properties": {"v": value}});
        let tools = json!([tool("other", &held), tool("odd", &odd)]);
        let grammar = compiled(&reply(TEMPLATES[0], json!({"tools": tools})), None).unwrap();
        let note = &grammar.notes()[0];
        assert!(
            note.contains("the tool \"odd\"") && note.contains(&format!("\"#/properties/v/{place}\"")),
            "{keyword}: {note}"
        );
        let call = |name: &str, arguments: &str| {
            format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
        };
        assert!(takes(&grammar, &call("other", "{\"n\": 1}")) && !takes(&grammar, &call("other", "{\"n\": \"1\"}")));
        assert!(takes(&grammar, &call("odd", "{}")) && !takes(&grammar, &call("odd", "{\"v\": 1}")), "{keyword}");
        for (i, calls) in TEMPLATES.iter().enumerate().take(2) {
            let tools = json!([tool("other", &held), strict(tool("odd", &odd))]);
            let error = compiled(&reply(calls, json!({"tools": tools})), None).err();
            let what = error.as_ref().map(ToString::to_string).unwrap_or_default();
            let is_named =
                what.starts_with("the tool \"odd\": ") && what.contains(&format!("\"#/properties/v/{place}\""));
            assert!(matches!(error, Some(Error::Unsupported(_))) && is_named, "form {i}, {keyword}: {what}");
        }
    }
    // Strict is no part of what the model reads, and stays in the conversation's JSON.
    let chat = json!({"messages": [{"role": "user", "content": "a"}], "tools": [strict(tool("t", &held))]}).to_string();
    let chat = Chat::parse(&chat, true).unwrap();
    assert!(chat.is_strict("t") && chat.tools()[0]["function"].get("strict").is_none());
    assert!(Chat::parse(&chat.to_json(), true).unwrap().is_strict("t"));
    let wrong = json!({"messages": [], "tools": [{"function": {"name": "t"}, "strict": "yes"}]}).to_string();
    assert!(Chat::parse(&wrong, true).err().unwrap().to_string().contains("tools[0].strict is \"yes\""));
}

/// Sixty tools of six kilobytes, as an agent with several servers of tools sends them: all are held.
#[test]
fn many_large_tools_compile() {
    let tools: Vec<Json> = (0..60)
        .map(|i| {
            let member = |j: usize| match j % 5 {
                0 => json!({"type": "string", "description": "What it is for, in words. ".repeat(12), "minLength": 1}),
                1 => json!({"enum": ["first", "second", format!("third{i}")], "description": "One of some. ".repeat(18)}),
                2 => json!({"type": "array", "items": {"type": "object", "required": ["key"], "properties": {
                    "key": {"type": "string"}, "value": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}}}),
                3 => json!({"type": "integer", "minimum": j, "maximum": 1000 + i, "title": "Title"}),
                _ => json!({"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"type": "string"}}),
            };
            let members: serde_json::Map<String, Json> = (0..30).map(|j| (format!("member_{j}"), member(j))).collect();
            let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "properties": members, "required": ["member_0", "member_3"], "additionalProperties": false});
            assert!(schema.to_string().len() > 5500, "{}", schema.to_string().len());
            tool(&format!("tool_{i}"), &schema)
        })
        .collect();
    for (form, calls) in TEMPLATES.iter().enumerate() {
        let grammar =
            compiled(&reply(calls, json!({"tools": tools})), None).unwrap_or_else(|e| panic!("form {form}: {e}"));
        assert!(grammar.notes().is_empty(), "form {form}: {:?}", grammar.notes());
    }
    // A grammar that is too large is a limit error, not an out-of-memory error.
    let texts: Vec<String> = (0..40_000).map(|i| format!("a value of its own, number {i}")).collect();
    let large = strict(tool("large", &json!({"type": "object", "properties": {"v": {"enum": texts}}})));
    let error = compiled(&reply(TEMPLATES[0], json!({"tools": [large]})), None).err().unwrap();
    assert!(matches!(&error, Error::TooComplex(what) if what.contains("large") || what.contains("bytes")), "{error}");
}

/// As many tools as are taken can all be called; more are rejected before any work.
#[test]
fn the_number_of_tools_is_bounded() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    let tools = |n: usize| (0..n).map(|i| tool(&format!("tool_{i}"), &schema)).collect::<Vec<Json>>();
    for (form, calls) in TEMPLATES.iter().enumerate() {
        let grammar = compiled(&reply(calls, json!({"tools": tools(900)})), None).unwrap();
        assert!(grammar.notes().is_empty());
        let call = match form {
            0 => "<tool_call>\n{\"name\": \"tool_7\", \"arguments\": {}}\n</tool_call>",
            1 => "<tool_call>\n<function=tool_899>\n</function>\n</tool_call>",
            _ => "<|calls|>[tool_88(n=1)]<|end_calls|>",
        };
        assert!(takes(&grammar, call), "{call}");
        assert!(takes(&grammar, "Hello"));
    }
    let error = compiled(&reply(TEMPLATES[0], json!({"tools": tools(901)})), None).err().unwrap();
    assert!(matches!(&error, Error::TooComplex(what) if what.contains("has 901 tools")), "{error}");
}

/// A reply may be a tool call, or content that follows its grammar, after reasoning.
#[test]
fn tools_stand_next_to_a_form_of_the_content() {
    let tools = json!([tool(
        "get",
        &json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false})
    )]);
    let calls = [
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"q\": \"a\"}}\n</tool_call>",
        "<tool_call>\n<function=get>\n<parameter=q>\na\n</parameter>\n</function>\n</tool_call>",
        "<|calls|>[get(q='a')]<|end_calls|>",
    ];
    let schema = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}"#;
    let thought = "<think>\nHm, {\"n\": 2}?\n</think>\n\n";
    for (calls, call) in TEMPLATES.iter().zip(calls) {
        for (choice, may_call, may_say) in [("auto", true, true), ("none", false, true), ("required", true, false)] {
            let reply = reply(calls, json!({"tools": tools, "tool_choice": choice}));
            let content = GrammarText::new(Kind::JsonSchema, schema);
            let grammar = compiled(&reply, Some(&content)).unwrap();
            for before in ["", thought] {
                assert_eq!(takes(&grammar, &format!("{before}{call}")), may_call, "{choice}: {call}");
                assert_eq!(takes(&grammar, &format!("{before}{{\"n\":1}}")), may_say, "{choice}");
                for other in ["Hello", "{\"n\":\"a\"}", "", &format!("Yes. {call}"), &format!("{{\"n\":1}}{call}")] {
                    assert!(!takes(&grammar, &format!("{before}{other}")), "{choice}: {other}");
                }
            }
        }
    }
    // Each part is best effort by itself, and the error names the part that is wrong.
    let auto = reply(TEMPLATES[0], json!({"tools": tools}));
    let odd = GrammarText::new(Kind::JsonSchema, r#"{"type": "array", "uniqueItems": true}"#);
    assert!(compiled(&auto, Some(&odd)).err().unwrap().to_string().contains("#/uniqueItems"));
    let grammar = compiled(&auto, Some(&GrammarText { best_effort: true, ..odd })).unwrap();
    assert!(takes(&grammar, "[1,1]") && takes(&grammar, calls[0]) && grammar.notes().len() == 1);
    for (kind, text, said) in [
        (Kind::Regex, "[a-c]+", "abc"),
        (Kind::Choices, "[\"yes\"]", "yes"),
        (Kind::Gbnf, "root ::= \"x\"", "x"),
        (Kind::Json, "", "{}"),
    ] {
        let grammar = compiled(&auto, Some(&GrammarText::new(kind, text))).unwrap();
        assert!(takes(&grammar, said) && takes(&grammar, calls[0]) && !takes(&grammar, "No."), "{kind:?}");
    }
}

/// Arguments of roots that are references or options can be written in every form.
#[test]
fn roots_of_options_have_their_arguments() {
    let branch = |name: &str| json!({"type": "object", "properties": {"kind": {"const": name}, name: {"type": "integer"}}, "required": ["kind"]});
    for (calls, call) in TEMPLATES.iter().zip([
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"kind\": \"b\", \"b\": 1}}\n</tool_call>",
        "<tool_call>\n<function=f>\n<parameter=kind>\nb\n</parameter>\n<parameter=b>\n1\n</parameter>\n</function>\n</tool_call>",
        "<|calls|>[f(kind='b', b=1)]<|end_calls|>",
    ]) {
        for schema in [
            json!({"type": "object", "anyOf": [branch("b")]}),
            json!({"$ref": "#/$defs/r", "$defs": {"r": branch("b")}}),
            json!({"allOf": [{"$ref": "#/$defs/r"}], "$defs": {"r": branch("b")}}),
        ] {
            let grammar = compiled(&reply(calls, json!({"tools": [tool("f", &schema)]})), None).unwrap();
            assert!(takes(&grammar, call), "{schema}: {call}");
        }
    }
}

/// An optional argument that no value satisfies is left out, and every other argument is held.
#[test]
fn arguments_that_cannot_be_are_left_out() {
    let held = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    for never in [json!(false), json!({"not": {}}), json!({"not": true})] {
        let odd = json!({"type": "object", "properties": {"v": never, "n": {"type": "integer"}}, "additionalProperties": false});
        for (form, calls) in TEMPLATES.iter().enumerate() {
            let tools = json!([strict(tool("other", &held)), strict(tool("odd", &odd))]);
            let grammar = compiled(&reply(calls, json!({"tools": tools})), None);
            let grammar = grammar.unwrap_or_else(|e| panic!("form {form}, {never}: {e}"));
            assert!(grammar.notes().is_empty(), "form {form}: {:?}", grammar.notes());
            let call = |name: &str, value: &str| match form {
                0 => format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{\"n\": {value}}}}}\n</tool_call>"),
                1 => format!(
                    "<tool_call>\n<function={name}>\n<parameter=n>\n{value}\n</parameter>\n</function>\n</tool_call>"
                ),
                _ => format!("<|calls|>[{name}(n={value})]<|end_calls|>"),
            };
            for name in ["other", "odd"] {
                assert!(takes(&grammar, &call(name, "1")), "form {form}: {}", call(name, "1"));
                assert!(!takes(&grammar, &call(name, "x")), "form {form}: {}", call(name, "x"));
            }
        }
    }
}

/// What a form of calls cannot hold fails a strict tool, by the place of the keyword, and is a note otherwise.
#[test]
fn forms_that_are_not_json_hold_schemas_or_say_so() {
    let of = |value: &Json| json!({"type": "object", "properties": {"v": value}, "required": ["v"], "additionalProperties": false});
    let called = |form: usize, value: &str| match form {
        0 => format!("<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"v\": {value}}}}}\n</tool_call>"),
        1 => format!(
            "<tool_call>\n<function=f>\n<parameter=v>\n{}\n</parameter>\n</function>\n</tool_call>",
            value.trim_matches('"')
        ),
        _ => format!("<|calls|>[f(v={})]<|end_calls|>", value.replace('"', "'")),
    };
    // Forms that hold each schema, a value of it, and one that is not.
    for (schema, holding, good, bad) in [
        (json!({"type": "string", "minLength": 2, "maxLength": 3}), &[0, 1, 2][..], "\"ab\"", "\"abcd\""),
        (json!({"type": "string", "pattern": "^a+$"}), &[0], "\"aa\"", "\"b\""),
        (json!({"type": "string", "format": "date"}), &[0], "\"2024-02-29\"", "\"2024\""),
        (json!({"type": "string", "format": "color"}), &[0, 1, 2], "\"red\"", "1"),
        (json!({"type": "integer", "minimum": 3, "maximum": 20}), &[0, 1, 2], "12", "2"),
        (json!({"type": "number", "multipleOf": 0.5}), &[0, 1, 2], "1.5", "1.3"),
        (json!({"type": "array", "items": {"type": "integer"}, "maxItems": 2}), &[0, 1], "[1, 2]", "[1, 2, 3]"),
        (json!({"type": ["string", "null"], "enum": ["a", null]}), &[0, 1, 2], "\"a\"", "\"b\""),
    ] {
        for (form, calls) in TEMPLATES.iter().enumerate() {
            let tools = json!([strict(tool("f", &of(&schema)))]);
            match compiled(&reply(calls, json!({"tools": tools})), None) {
                Ok(grammar) => {
                    assert!(holding.contains(&form) && grammar.notes().is_empty(), "form {form}: {schema}");
                    assert!(takes(&grammar, &called(form, good)), "form {form}: {}", called(form, good));
                    let is_wrong = takes(&grammar, &called(form, bad));
                    assert!(!is_wrong || form == 1 && bad == "1", "form {form}: {}", called(form, bad));
                }
                Err(error) => {
                    let what = error.to_string();
                    assert!(!holding.contains(&form), "form {form}: {what}");
                    assert!(what.starts_with("the tool \"f\": ") && what.contains("\"#/properties/v/"), "{what}");
                }
            }
            let tools = json!([tool("f", &of(&schema))]);
            let grammar = compiled(&reply(calls, json!({"tools": tools})), None).unwrap();
            assert!(takes(&grammar, &called(form, good)), "form {form}: {}", called(form, good));
            assert_eq!(grammar.notes().is_empty(), holding.contains(&form), "form {form}: {:?}", grammar.notes());
        }
    }
    // Options at the root are held in JSON only; each of their members can be written in every form.
    let option =
        |name: &str| json!({"properties": {"kind": {"const": name}, "v": {"type": "integer"}}, "required": ["kind"]});
    let root = json!({"type": "object", "oneOf": [option("a"), option("b")]});
    for (form, calls) in TEMPLATES.iter().enumerate() {
        let held = compiled(&reply(calls, json!({"tools": [strict(tool("f", &root))]})), None);
        assert_eq!(
            held.as_ref().err().is_none_or(|e| !e.to_string().contains("\"#/oneOf\"")),
            form == 0,
            "form {form}"
        );
        let grammar = compiled(&reply(calls, json!({"tools": [tool("f", &root)]})), None).unwrap();
        for name in ["a", "b"] {
            let call = match form {
                0 => format!(
                    "<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"kind\": \"{name}\", \"v\": 1}}}}\n</tool_call>"
                ),
                1 => format!(
                    "<tool_call>\n<function=f>\n<parameter=kind>\n{name}\n</parameter>\n</function>\n</tool_call>"
                ),
                _ => format!("<|calls|>[f(kind='{name}', v=1)]<|end_calls|>"),
            };
            assert!(takes(&grammar, &call), "form {form}: {call}");
        }
    }
}

/// A tool that is too complex is loosened, and no other one; its note names it.
#[test]
fn only_tools_that_do_not_compile_are_loosened() {
    let plain = json!({"type": "object", "properties": {"v": {"type": "string", "maxLength": 3}}, "required": ["v"], "additionalProperties": false});
    let heavy =
        json!({"type": "object", "properties": {"v": {"type": "string", "pattern": r"[^\P{L}]".repeat(30_000)}}});
    let tools = json!([tool("one", &plain), tool("heavy", &heavy), tool("two", &plain)]);
    let call = |name: &str, value: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{\"v\": \"{value}\"}}}}\n</tool_call>")
    };
    let grammar = compiled(&reply(TEMPLATES[0], json!({"tools": tools})), None).unwrap();
    assert!(grammar.notes().len() == 1 && grammar.notes()[0].contains("\"heavy\""), "{:?}", grammar.notes());
    for name in ["one", "two"] {
        assert!(takes(&grammar, &call(name, "abc")) && !takes(&grammar, &call(name, "abcd")), "{name}");
    }
    assert!(takes(&grammar, &call("heavy", "abxaybc")));
    let error =
        compiled(&reply(TEMPLATES[0], json!({"tools": [tool("one", &plain), strict(tool("heavy", &heavy))]})), None);
    let error = error.err().unwrap();
    assert!(matches!(&error, Error::TooComplex(what) if what.contains("\"heavy\"")), "{error}");
    // Schemas that refer to each other without end, and those of too many bytes, name their tool.
    let option = |to: usize| json!({"$ref": format!("#/$defs/d{to}")});
    let wide: serde_json::Map<String, Json> = (0..12)
        .map(|i| (format!("d{i}"), json!({"anyOf": (0..10).map(|_| option((i + 1) % 12)).collect::<Vec<_>>()})))
        .collect();
    let wide = json!({"type": "object", "anyOf": [option(0)], "$defs": wide});
    let long = json!({"type": "object", "properties": {"v": {"type": "string", "description": "x".repeat(5 << 20)}}});
    for (what, schema) in [("wide", &wide), ("long", &long)] {
        for calls in &TEMPLATES[1..] {
            let error =
                compiled(&reply(calls, json!({"tools": [tool("one", &plain), strict(tool(what, schema))]})), None);
            let error = error.err().unwrap().to_string();
            assert!(error.starts_with(&format!("the tool \"{what}\": ")), "{error}");
            assert!(
                compiled(&reply(calls, json!({"tools": [tool("one", &plain), tool("wide", &wide)]})), None).is_ok()
            );
        }
    }
}
