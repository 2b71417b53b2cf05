//! Replies with reasoning and tool calls: the output of templates of each form for an assistant turn is parsed back,
//! cut at every token and every byte, and the grammar of the same form accepts it; text that is no call stays text.

use std::sync::Arc;

use proptest::prelude::*;
use realizar::error::Error;
use realizar::grammar::Grammars;
use realizar::text::{Chat, ChatTemplate, Reply, ReplyParser, Stops, find_reply_form};
use serde_json::{Value as Json, json};

use crate::support::replies::{Got, bytes, parse, parsed, parsed_with, take, tokenizer, tools, user, with_controls};

/// A template in the published way, around the text of calls (`c` is one, `loop` over them). `think`: the text of `r`,
/// reasoning.
fn source(think: &str, calls: &str) -> String {
    let turn = "{% for m in messages %}{% if m.role == 'assistant' %}{{ '[A]' }}{% set r = m.reasoning_content %}THINK\
        {{ m.content or '' }}{% if m.tool_calls %}CALLS{% endif %}[/A]\n{% else %}[U]{{ m.content }}[/U]\n{% endif %}{% endfor %}";
    let turn = turn.replace("THINK", think).replace("CALLS", calls);
    format!("{{{{ tools | tojson }}}}{turn}{{% if add_generation_prompt %}}{{{{ '[A]' }}}}PROMPT{{% endif %}}")
        .replace("PROMPT", if think.contains("PROMPT") { "<think>\n" } else { "" })
}

const EACH: &str = "{% for t in m.tool_calls %}{% set c = t.function %}";
const THINK: &str = "{% if r %}<think>\n{{ r }}\n</think>\n\n{% endif %}";

/// The forms of calls that models were published with.
fn forms() -> Vec<(&'static str, String)> {
    let each = |one: &str| format!("{EACH}{one}{{% endfor %}}");
    let json = "{{ '{\"name\": \"' ~ c.name ~ '\", \"arguments\": ' }}{{ c.arguments | tojson }}{{ '}' }}";
    let comma = "{{ ', ' if not loop.last }}";
    let tagged = |open: &str, key: &str, close: &str, end: &str| {
        each(&format!(
            "{open}{{% for k, v in c.arguments | items %}}{key}{{{{ v if v is string else v | tojson }}}}{close}{{% endfor %}}{end}"
        ))
    };
    vec![
        ("tag with JSON", each(&format!("\n<tool_call>\n{json}\n</tool_call>"))),
        ("list of JSON", format!("[TOOL_CALLS] [{}]", each(&format!("{json}{comma}")))),
        ("list with ids", format!("[TOOL_CALLS] [{}]", each(&format!("{}{comma}", json.replace("{{ '}' }}", "{{ ', \"id\": \"' ~ t.id ~ '\"}' }}"))))),
        ("name in a tag", each("[TOOL_CALLS]{{ c.name }}[CALL_ID]{{ t.id }}[ARGS]{{ c.arguments | tojson }}")),
        ("bare JSON", "{% set c = m.tool_calls[0].function %}{{ raise_exception('one call') if m.tool_calls[1] }}{{ '{\"name\": \"' ~ c.name ~ '\", \"parameters\": ' }}{{ c.arguments | tojson }}{{ '}' }}".to_owned()),
        ("the name as a key", format!("<|calls|>[{}]<|end_calls|>", each(&format!("{{{{ '{{\"' ~ c.name ~ '\": ' }}}}{{{{ c.arguments | tojson }}}}{{{{ '}}' }}}}{comma}")))),
        ("arguments first", each("<tool_call>{{ '{\"arguments\": ' ~ c.arguments | tojson ~ ', \"name\": \"' ~ c.name ~ '\"}' }}</tool_call>")),
        ("fenced JSON", format!("<|calls|>{}<|end_calls|>", each("<|call|>function<|sep|>{{ c.name }}\n```json\n{{ c.arguments | tojson }}\n```<|end_call|>{{ '\n' if not loop.last }}"))),
        ("a function", each("<function={{ c.name }}>{{ c.arguments | tojson }}</function>")),
        ("numbered", format!("<|calls|>{}<|end_calls|>", each("<|call|>functions.{{ c.name }}:{{ loop.index0 }}<|args|>{{ c.arguments | tojson }}<|end_call|>"))),
        ("tagged arguments", tagged("\n<tool_call>\n<function={{ c.name }}>\n", "<parameter={{ k }}>\n", "\n</parameter>\n", "</function>\n</tool_call>")),
        ("keys and values", tagged("<tool_call>{{ c.name }}\n", "<arg_key>{{ k }}</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>")),
        ("typed arguments", tagged("<invoke name=\"{{ c.name }}\">\n", "<parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' }}\">", "</parameter>\n", "</invoke>\n")),
        ("bare keys", each("<|tool_call>call:{{ c.name }}{{ '{' }}{% for k, v in c.arguments | items %}{{ k }}:{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}{% for a, b in v | items %}{{ a }}:<|\"|>{{ b }}<|\"|>{% endfor %}{{ '}' }}{% else %}{{ v | tojson }}{% endif %}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}<tool_call|>")),
        ("Python", format!("<|calls|>[{}]<|end_calls|>", each("{{ c.name }}({% for k, v in c.arguments | items %}{{ k }}={% if v is string %}'{{ v }}'{% elif v is mapping %}{{ v | tojson }}{% else %}{{ v }}{% endif %}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if not loop.last }}"))),
        ("tags at every level", format!("{{% macro value(v) %}}{{% if v is mapping %}}{{% for a, b in v | items %}}{{{{ ns }}}}<{{{{ a }}}}>{{{{ value(b) }}}}{{{{ ns }}}}</{{{{ a }}}}>{{% endfor %}}{{% elif v is iterable and v is not string %}}{{% for b in v %}}{{{{ ns }}}}<item>{{{{ value(b) }}}}{{{{ ns }}}}</item>{{% endfor %}}{{% elif v is boolean %}}{{{{ v | tojson }}}}{{% else %}}{{{{ v }}}}{{% endif %}}{{% endmacro %}}{{% set ns = ']<]minimax[>[' %}}{{{{ ns }}}}<tool_call>\n{}{{{{ ns }}}}</tool_call>", each("{{ ns }}<invoke name=\"{{ c.name }}\">{% for k, v in c.arguments | items %}{{ ns }}<{{ k }}>{{ value(v) }}{{ ns }}</{{ k }}>{% endfor %}{{ ns }}</invoke>\n"))),
        ("Python's values in tags", each("<function name=\"{{ c.name }}\">{% for k, v in c.arguments | items %}<param name=\"{{ k }}\">{{ v }}</param>{% endfor %}</function>{{ '\n' if not loop.last }}")),
    ]
}

fn chat(messages: &[Json], prompt: bool, choice: &str) -> Chat {
    let all: Vec<&Json> = messages.iter().collect();
    let chat = json!({"messages": all, "tools": tools(), "add_generation_prompt": prompt, "tool_choice": choice});
    Chat::parse(&chat.to_string(), prompt).unwrap()
}

struct Case {
    template: ChatTemplate,
    reply: Arc<Reply>,
    prompt: String,
}

fn case(source: &str, choice: &str) -> Case {
    let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
    let form = Arc::new(find_reply_form(&template).unwrap());
    let chat = chat(&[user()], true, choice);
    let prompt = template.render(&chat).unwrap();
    let reply = Reply::new(form, &chat, &prompt).unwrap_or_else(|e| panic!("{e}: {source}"));
    Case { template, reply: Arc::new(reply), prompt: prompt.plain().unwrap() }
}

impl Case {
    /// The template's text of an assistant's turn, without its end.
    fn written(&self, message: Json) -> String {
        let text = self.template.render(&chat(&[user(), message], false, "auto")).unwrap().plain().unwrap();
        text.strip_prefix(&self.prompt).unwrap().strip_suffix("[/A]\n").unwrap().to_owned()
    }
}

fn calls(n: usize) -> Json {
    let call = |id: &str, name: &str, arguments: Json| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let weather = json!({"city": "Zürich \"<b>\" \\ </tool> {日", "far": true, "options": {"units": "C"}, "days": 3});
    [call("abc123xyz", "get_weather", weather), call("def456uvw", "get", json!({"query": "17"}))]
        .into_iter()
        .take(n)
        .collect()
}

fn accepts(case: &Case, text: &str) -> bool {
    let grammars = Grammars::new(tokenizer(), tokenizer().n_vocab()).unwrap();
    let mut matcher = grammars.compile_reply(&case.reply, None, false, tokenizer()).unwrap().matcher().unwrap();
    let mut line = Vec::new();
    for token in bytes(text.as_bytes()) {
        if !matcher.allowed(&line).unwrap().has(token) {
            return false;
        }
        line.push(token);
    }
    matcher.allowed(&line).unwrap().has(tokenizer().eos().unwrap())
}

#[test]
fn what_templates_write_is_read_back() {
    for (name, form) in forms() {
        let source = source(THINK, &form);
        let (auto, required) = (case(&source, "auto"), case(&source, "required"));
        let n = if name == "bare JSON" { 1 } else { 2 };
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls(n)});
        let text = auto.written(message.clone());
        let got = parsed(&auto.reply, &text);
        let want: Vec<(String, Json)> = calls(n)
            .as_array()
            .unwrap()
            .iter()
            .map(|call| (call["function"]["name"].as_str().unwrap().to_owned(), call["function"]["arguments"].clone()))
            .collect();
        let json = |got: &Got| -> Vec<(String, Json)> {
            got.calls.iter().map(|(name, text)| (name.clone(), serde_json::from_str(text).unwrap())).collect()
        };
        assert_eq!(json(&got), want, "{name}: {text}");
        assert_eq!((got.end, got.content.as_str(), got.unparsed.as_str()), (Some(false), "", ""), "{name}: {text}");
        assert!(accepts(&auto, &text), "{name}: {text}");
        assert!(accepts(&required, &text), "{name}: {text}");
        assert!(accepts(&auto, "It is.") && !accepts(&required, "It is."), "{name}");

        let mut message = message;
        message["reasoning_content"] = json!("So: {\"name\": 1} <tool");
        let text = auto.written(message.clone());
        let got = parsed(&auto.reply, &text);
        assert_eq!((got.reasoning.as_str(), json(&got)), ("So: {\"name\": 1} <tool", want.clone()), "{name}: {text}");
        assert!(accepts(&auto, &text) && accepts(&required, &text), "{name}: {text}");

        if name != "bare JSON" {
            message["content"] = json!("Let me see,  a < b.");
            let text = auto.written(message);
            let got = parsed(&auto.reply, &text);
            assert_eq!((got.content.as_str(), json(&got)), ("Let me see,  a < b.", want), "{name}: {text}");
            assert!(accepts(&auto, &text), "{name}: {text}");
        }
    }
}

/// A conversation with its own tools: what the template writes of a call of the first of them.
fn with_tools(source: &str, tools: &Json, arguments: &Json) -> Result<(Case, String), Error> {
    let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
    let form = Arc::new(find_reply_form(&template).unwrap());
    let parse = |messages: Json, prompt: bool| {
        let chat = json!({"messages": messages, "tools": tools, "tool_choice": "required"});
        Chat::parse(&chat.to_string(), prompt).unwrap()
    };
    let chat = parse(json!([user()]), true);
    let prompt = template.render(&chat).unwrap();
    let reply = Arc::new(Reply::new(form, &chat, &prompt)?);
    let case = Case { template, reply, prompt: prompt.plain().unwrap() };
    let call = json!({"id": "abc123xyz", "type": "function", "function": {"name": tools[0]["function"]["name"], "arguments": arguments}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let text = case.template.render(&parse(json!([user(), message]), false)).unwrap().plain().unwrap();
    let text = text.strip_prefix(&case.prompt).unwrap().strip_suffix("[/A]\n").unwrap().to_owned();
    Ok((case, text))
}

fn tool(name: &str, parameters: Json) -> Json {
    json!([{"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}])
}

/// Arguments by schemas with references, options and lists, tools without any, and names beyond ASCII.
#[test]
fn all_kinds_of_parameters_are_written_and_read() {
    let parameters = json!({"type": "object", "required": ["city"], "additionalProperties": false,
        "$defs": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}, "place": {"type": "object",
            "properties": {"name": {"$ref": "#/$defs/city"}}, "required": ["name"], "additionalProperties": false}},
        "properties": {"city": {"$ref": "#/$defs/city", "description": "where"},
            "unit": {"allOf": [{"$ref": "#/$defs/unit"}], "default": "C"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "level": {"type": ["integer", "string"]},
            "grid": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
            "any": {"description": "whatever"}, "fixed": {"const": "x y"}, "mode": {"enum": ["on", 2, true]},
            "or": {"type": ["string", "null"], "enum": ["on", null]},
            "place": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]}}});
    for (name, form) in forms() {
        let source = source(THINK, &form);
        for arguments in [
            json!({"city": "Zürich, 1"}),
            json!({"city": "", "unit": "F", "note": "null and void", "level": 3, "grid": [[1, -2], []], "mode": 2}),
            json!({"city": "17", "note": "it", "level": "high", "any": "as you like", "fixed": "x y", "mode": "on", "or": "on"}),
            json!({"city": "a", "grid": [], "any": 2.5, "place": {"name": "here"}}),
        ] {
            let (case, text) = with_tools(&source, &tool("größe_日-1.x/y:z", parameters.clone()), &arguments).unwrap();
            let got = parsed(&case.reply, &text);
            let [(called, found)] = &got.calls[..] else { panic!("{name}: {text}: {got:?}") };
            assert_eq!((&called[..], got.end), ("größe_日-1.x/y:z", Some(false)), "{name}: {text}");
            assert_eq!(serde_json::from_str::<Json>(found).unwrap(), arguments, "{name}: {text}");
            assert!(accepts(&case, &text), "{name}: {text}");
        }
        let (case, _) = with_tools(&source, &tool("go", parameters.clone()), &json!({"city": "a"})).unwrap();
        for wrong in [
            json!({"city": "a", "unit": "K"}),
            json!({"city": "a", "grid": [["b"]]}),
            json!({"city": "a", "fixed": "y"}),
        ] {
            let (_, text) = with_tools(&source, &tool("go", parameters.clone()), &wrong).unwrap();
            assert!(!accepts(&case, &text), "{name}: {text}");
        }
        for none in [Json::Null, json!({}), json!({"type": "object", "properties": {}, "additionalProperties": false})]
        {
            let (case, text) = with_tools(&source, &tool("go", none), &json!({})).unwrap();
            let got = parsed(&case.reply, &text);
            assert_eq!(
                (&got.calls[..], got.end),
                (&[("go".to_owned(), "{}".to_owned())][..], Some(false)),
                "{name}: {text}"
            );
            assert!(accepts(&case, &text), "{name}: {text}");
        }
        // Names of arguments that the form can hold, or a refusal that names them.
        for key in ["größe", "with space", "q\"uote", "a>b", "it's"] {
            let parameters = json!({"type": "object", "properties": {key: {"type": "integer"}}, "required": [key]});
            let mut strict = tool("go", parameters);
            strict[0]["function"]["strict"] = json!(true);
            let (case, text) = with_tools(&source, &strict, &json!({key: 7})).unwrap();
            let grammars = Grammars::new(tokenizer(), tokenizer().n_vocab()).unwrap();
            match grammars.compile_reply(&case.reply, None, false, tokenizer()) {
                Ok(_) => {
                    let got = parsed(&case.reply, &text);
                    let found = got.calls.first().map(|(_, json)| serde_json::from_str::<Json>(json).unwrap());
                    assert_eq!(found, Some(json!({key: 7})), "{name}: {text}");
                    assert!(accepts(&case, &text), "{name}: {text}");
                }
                Err(Error::Unsupported(why)) => {
                    let named = why.contains(&format!("{key:?}")) && why.starts_with("the tool \"go\": ");
                    assert!(named && key != "größe", "{name}: {why}")
                }
                Err(e) => panic!("{name}: {e}"),
            }
        }
        for no_name in ["a b", "a\"b", "<x>", "f(", "\u{7}"] {
            let refused = with_tools(&source, &tool(no_name, json!({})), &json!({})).err();
            assert!(
                matches!(&refused, Some(Error::InvalidArgument(why)) if why.contains("no name of a tool")),
                "{no_name}: {refused:?}"
            );
        }
    }
}

/// Hostile schemas of tools end with an error, soon.
#[test]
fn parameters_that_recurse_or_explode_are_bounded() {
    let recursive = json!({"$defs": {"n": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}]},
        "m": {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/m"}, "c": {"$ref": "#/$defs/m"}}}},
        "properties": {"x": {"$ref": "#/$defs/m"}, "y": {"$ref": "#/$defs/n"}}, "required": ["x"]});
    let itself = json!({"properties": {"x": {"$ref": "#/properties/x"}}, "required": ["x"]});
    let wide: Vec<Json> = (0..300).map(|_| json!({"$ref": "#/$defs/w"})).collect();
    let wide = json!({"$defs": {"w": {"anyOf": wide}}, "properties": {"x": {"$ref": "#/$defs/w"}}, "required": ["x"]});
    let grammars = Grammars::new(tokenizer(), tokenizer().n_vocab()).unwrap();
    for (name, form) in forms() {
        for parameters in [&recursive, &itself, &wide] {
            let started = std::time::Instant::now();
            let (case, _) =
                with_tools(&source(THINK, &form), &tool("go", parameters.clone()), &json!({"x": {"a": "b"}})).unwrap();
            match grammars.compile_reply(&case.reply, None, false, tokenizer()) {
                Ok(_) | Err(Error::Unsupported(_) | Error::TooComplex(_) | Error::InvalidArgument(_)) => {}
                Err(e) => panic!("{name}: {e}"),
            }
            assert!(started.elapsed().as_secs() < 20, "{name}: {:?}", started.elapsed());
        }
    }
}

/// Models whose templates write no calls: the texts are those that their cards show.
#[test]
fn forms_that_no_template_writes_are_known() {
    for (mark, text) in [
        (
            "List of tools: [",
            "<|tool_call_start|>[get_weather(city=\"Bonn\", days=2), get(query='a')]<|tool_call_end|>",
        ),
        (
            "respond only with <|tool_call|> followed by a JSON list of tools used",
            "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bonn\", \"days\": 2}}, {\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}]",
        ),
    ] {
        let calls = "{{ raise_exception('no calls') if m.tool_calls }}";
        let case = case(&format!("{mark}{}", source("", calls)), "required");
        let got = parsed(&case.reply, text);
        let found: Vec<(&str, Json)> =
            got.calls.iter().map(|(name, text)| (&name[..], serde_json::from_str(text).unwrap())).collect();
        let wanted = [("get_weather", json!({"city": "Bonn", "days": 2})), ("get", json!({"query": "a"}))];
        assert_eq!((&found[..], got.end, &got.content[..]), (&wanted[..], Some(false), ""), "{text}");
        assert!(accepts(&case, text), "{text}");
        assert_eq!(parsed(&case.reply, "No calls.").content, "No calls.");
    }
}

#[test]
fn the_choice_of_tools_is_heeded() {
    let source = source("", &forms()[0].1);
    let call = |name: &str, arguments: &str| {
        format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
    };
    let (get, weather) = (call("get", "{\"query\": \"a\"}"), call("get_weather", "{\"city\": \"a\"}"));
    let none = case(&source, "none");
    assert_eq!(parsed(&none.reply, &get).content, get);
    assert!(accepts(&case(&source, "required"), &(get.clone() + &weather)));
    let json = |more: Json| {
        let mut chat = json!({"messages": [user()], "tools": tools()});
        chat.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        chat.to_string()
    };
    let with = |more: Json| {
        let mut case = case(&source, "auto");
        let chat = Chat::parse(&json(more), true).unwrap();
        let prompt = case.template.render(&chat).unwrap();
        case.reply = Arc::new(Reply::new(case.reply.form.clone(), &chat, &prompt).unwrap());
        case
    };
    let named = with(json!({"tool_choice": {"type": "function", "function": {"name": "get"}}}));
    assert!(accepts(&named, &get) && !accepts(&named, &weather) && !accepts(&named, "a"));
    let single = with(json!({"parallel_tool_calls": false}));
    assert!(accepts(&single, &get) && !accepts(&single, &(get.clone() + &weather)));
    // Arguments follow the schemas.
    let auto = case(&source, "auto");
    assert!(!accepts(&auto, &call("get", "{\"query\": 1}")) && !accepts(&auto, &call("get", "{}")));
    assert!(!accepts(&auto, &call("other", "{}")));
    // Texts between tags are as long as they may be.
    let mut tagged = case(&self::source("", &forms()[10].1), "auto");
    let tool = json!({"type": "function", "function": {"name": "get", "parameters": {"type": "object",
        "properties": {"query": {"type": "string", "minLength": 2, "maxLength": 3}}, "required": ["query"]}}});
    let short = Chat::parse(&json!({"messages": [user()], "tools": [tool]}).to_string(), true).unwrap();
    let prompt = tagged.template.render(&short).unwrap();
    tagged.reply = Arc::new(Reply::new(tagged.reply.form.clone(), &short, &prompt).unwrap());
    for (query, fits) in [("a", false), ("ab", true), ("aé", true), ("abc", true), ("abcd", false)] {
        let call =
            format!("<tool_call>\n<function=get>\n<parameter=query>\n{query}\n</parameter>\n</function>\n</tool_call>");
        assert_eq!(accepts(&tagged, &call), fits, "{query}");
    }
    for (more, word) in [
        (json!({"tool_choice": "some"}), "tool_choice"),
        (json!({"tool_choice": {"function": {"name": "x"}}}), "\"x\""),
        (json!({"parallel_tool_calls": 1}), "parallel_tool_calls"),
    ] {
        let error = Chat::parse(&json(more), true).err().unwrap().to_string();
        assert!(error.contains(word), "{error}");
    }
    assert!(Chat::parse(r#"{"messages": [], "tool_choice": "required"}"#, true).is_err());
}

#[test]
fn reasoning_that_the_prompt_began_is_reasoning() {
    let open = source("{# PROMPT #}{% if r %}<think>\n{{ r }}\n</think>\n{% endif %}", &forms()[0].1);
    let case = case(&open, "auto");
    assert!(case.reply.begins_in_reasoning);
    let got = parsed(&case.reply, "Hm, <tool_call> no.\n</think>\n\nYes.\n");
    assert_eq!((got.reasoning.as_str(), got.content.as_str(), got.end), ("Hm, <tool_call> no.", "Yes.\n", Some(false)));
    let text = "Hm.\n</think>\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"query\": \"\"}}\n</tool_call>";
    assert_eq!(parsed(&case.reply, text).calls, [("get".to_owned(), "{\"query\": \"\"}".to_owned())]);
    assert!(accepts(&case, text));
    assert_eq!(parsed(&case.reply, "Hm").reasoning, "Hm");
}

#[test]
fn what_is_no_call_stays_text() {
    let forms = forms();
    let of = |name: &str| case(&source(THINK, &forms.iter().find(|form| form.0 == name).unwrap().1), "auto").reply;
    let (json, tagged, bare, named) =
        (of("tag with JSON"), of("tagged arguments"), of("bare JSON"), of("name in a tag"));
    // Text, the part of it that is not understood, and the arguments that came before.
    for (reply, text, unparsed, arguments) in [
        (&json, "<tool_call>\nno JSON\n</tool_call> more", "<tool_call>\nno JSON\n</tool_call> more", ""),
        (
            &json,
            "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
            "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
            "",
        ),
        (&json, "<tool_call>{\"name\": \"get\"", "", ""),
        (&json, "<tool_call>{\"name\": \"ge", "<tool_call>{\"name\": \"ge", ""),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": {\"query\": \"a", "", "{\"query\": \"a"),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": {\"query\" x}}", "x}}", "{\"query\" "),
        (
            &json,
            "<tool_call>{\"name\": \"get\", \"arguments\": {\"query\": \"</tool_call>\"}}</tool_call>",
            "",
            "{\"query\": \"</tool_call>\"}",
        ),
        (
            &json,
            "<tool_call>{\"name\": \"get\", \"arguments\": \"{\\\"query\\\": 1}\"}</tool_call>",
            "",
            "{\"query\": 1}",
        ),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": {}} and more", "and more", "{}"),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": {}, \"name\": \"get\"}", "\"get\"}", "{}"),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": \"{ word", "", "{ \"word"),
        (&bare, "{\"name\": \"get\", \"id\": \"7\", \"arguments\": {\"query\": \"a\"}}", "", "{\"query\": \"a\"}"),
        (&bare, "{\"name\": \"get\", \"input\": {\"query\": \"a\"}}", "{\"query\": \"a\"}}", ""),
        (
            &tagged,
            "<tool_call>\n<function=get>\n<parameter=query>\na </parameter> b\n</parameter>\n</function>\n</tool_call>",
            "",
            "{\"query\": \"a </parameter> b\"}",
        ),
        (&tagged, "<tool_call>\n<function=get>\n<parameter=query>\na", "", "{\"query\": \"a"),
        (&tagged, "<tool_call>\n<function=get>\nwhat?", "<tool_call>\n<function=get>\nwhat?", ""),
        (&tagged, "<tool_call>\n<function=none>\n", "<tool_call>\n<function=none>\n", ""),
        (&named, "[TOOL_CALLS]none[CALL_ID]a[ARGS]{}", "[TOOL_CALLS]none[CALL_ID]a[ARGS]{}", ""),
        (&named, "[TOOL_CALLS]get[CALL_ID]abc[ARGS]{]", "]", "{"),
    ] {
        let got = parsed(reply, text);
        let have = got.calls.first().map_or("", |call| &call.1);
        assert_eq!((got.unparsed.as_str(), have), (unparsed, arguments), "{text}");
        let is_whole = serde_json::from_str::<Json>(have).is_ok() && unparsed.is_empty();
        assert_eq!(got.end, Some(!is_whole), "{text}");
    }
    for text in [
        "",
        " ",
        "\n\n",
        "a < b",
        "<tool_cal",
        "</think",
        "<",
        "Say {\"name\": \"get\", \"parameters\": {}}.",
        "é日🦀",
        "a \n",
        "</tool_call>",
        "<b>\n</b>",
    ] {
        for reply in [&json, &tagged, &bare, &named] {
            let got = parsed(reply, text);
            assert_eq!((got.content.as_str(), got.end), (text, Some(false)), "{text:?}");
        }
    }
    let object = "{\"name\": \"Lily\", \"age\": 5}";
    assert_eq!(parsed(&bare, object).unparsed, object);
}

/// White space of several bytes, and of another length than a tag's, is cut between characters.
#[test]
fn white_space_may_be_other_than_that_of_tags() {
    let forms = forms();
    let of = |name: &str| case(&source("", &forms.iter().find(|form| form.0 == name).unwrap().1), "auto").reply;
    let (tagged, typed) = (of("tagged arguments"), of("typed arguments"));
    let wide = source("", &forms[10].1.replace("<parameter={{ k }}>\n", "<parameter={{ k }}>\n\n"));
    let wide = case(&wide, "auto").reply;
    for (reply, query, text) in [
        (
            &tagged,
            "a\u{3000}",
            "<tool_call>\n<function=get>\n<parameter=query>\na\u{3000}\n</parameter>\n</function>\n</tool_call>",
        ),
        (
            &tagged,
            "\u{200a}",
            "<tool_call>\n<function=get>\n<parameter=query>\n\u{200a}</parameter>\n</function>\n</tool_call>",
        ),
        (&typed, "a", "<invoke name=\"get\">\u{3000}<parametername=\"query\" string=\"true\">a</parameter>\n</invoke>"),
        (&typed, "a", "<invoke name=\"get\"><parameter\u{3000}name=\"query\" string=\"true\">a</parameter></invoke>"),
        (&wide, "a", "<tool_call><function=get>\n<parameter=query>\n\na\n</parameter>\n</function>\n</tool_call>"),
        (&wide, "\na", "<tool_call><function=get>\n<parameter=query>\n\n\na\n</parameter>\n</function>\n</tool_call>"),
        (&wide, "", "<tool_call><function=get>\n<parameter=query>\n\n</parameter>\n</function>\n</tool_call>"),
    ] {
        let got = parsed(reply, text);
        let [(_, arguments)] = &got.calls[..] else { panic!("{text}: {got:?}") };
        assert_eq!(serde_json::from_str::<Json>(arguments).unwrap(), json!({"query": query}), "{text}");
        assert_eq!((got.content.as_str(), got.end), ("", Some(false)), "{text}");
    }
}

#[test]
fn hostile_replies_cost_little() {
    let forms = forms();
    let started = std::time::Instant::now();
    for (i, (_, form)) in forms.iter().enumerate() {
        let case = case(&source(THINK, form), "auto");
        // A megabyte for one of each kind.
        let n = if [0, 10].contains(&i) { 1 << 16 } else { 1 << 12 };
        let call = case.written(json!({"role": "assistant", "content": null, "tool_calls": calls(1)}));
        let (open, _) = call.split_once("Zürich").unwrap();
        for text in [
            format!("{open}{}", "x".repeat(16 * n)),
            format!("{open}{}", "[".repeat(n)),
            format!("{open}{}", "</".repeat(n)),
            "<".repeat(n),
            "<think>".repeat(n / 8),
            " \n".repeat(n),
            "{\"name\": ".repeat(n / 16),
            "<tool_call>".repeat(n / 16),
            "[TOOL_CALLS]get".repeat(n / 16),
            format!("<tool_call>\n{{\"arguments\": {}", "{\"a\":".repeat(n / 16)),
        ] {
            let got = parse(&case.reply, &bytes(text.as_bytes()), true);
            assert!(got.end.is_some());
        }
    }
    assert!(started.elapsed().as_secs() < 200, "{:?}", started.elapsed());

    let case = case(&source("", &forms[0].1), "auto");
    let mut parser = ReplyParser::new(case.reply.clone(), Stops::default());
    let mut got = Got::default();
    for byte in [0xffu8, 0xf0, 0x9f, b'a', 0xc3] {
        parser.push(tokenizer(), 3 + u32::from(byte)).unwrap();
    }
    take(&mut parser, &mut got);
    assert_eq!(got.content, "\u{fffd}\u{fffd}a");
    assert!(matches!(parser.push(tokenizer(), 1 << 20), Err(Error::InvalidArgument(_))));
    parser.push(tokenizer(), tokenizer().eos().unwrap()).unwrap();
    take(&mut parser, &mut got);
    assert_eq!((got.content.as_str(), got.end), ("\u{fffd}\u{fffd}a\u{fffd}", Some(false)));
    assert!(matches!(parser.push(tokenizer(), 300), Err(Error::InvalidArgument(_))));
    parser.end(true).unwrap();
    assert!(parser.next(|_| Ok(())).unwrap().is_none());

    // A control token that is no tag is reported, and what nobody takes is bounded.
    let mut parser = ReplyParser::new(case.reply.clone(), Stops::default());
    for token in [3 + u32::from(b'a'), 1, 3 + u32::from(b'b')] {
        parser.push(tokenizer(), token).unwrap();
    }
    let mut got = Got::default();
    take(&mut parser, &mut got);
    assert_eq!((got.content.as_str(), got.unparsed.as_str()), ("ab", "<s>"));
    let longest =
        (0..tokenizer().n_vocab() as u32).max_by_key(|&id| tokenizer().decode_token(id, false).unwrap().len());
    let refused = (0..20 << 20).find_map(|_| parser.push(tokenizer(), longest.unwrap()).err());
    assert!(matches!(refused, Some(Error::TooComplex(_))));
    take(&mut parser, &mut got);
    parser.push(tokenizer(), 300).unwrap();
}

/// Templates are strangers' programs: whatever they write, a form is found or none.
#[test]
fn hostile_templates_have_a_form_or_none() {
    let started = std::time::Instant::now();
    let any = "\u{F8FE}\u{F8FF}".repeat(40);
    for calls in [
        format!("{EACH}{{{{ c.name }}}} o5k n5k a5k v5v 17 c5k w5w }} {{{{ c.arguments }}}}{{% endfor %}}"),
        format!("{EACH}{{{{ c.name }}}} a5k v5v {{{{ c.arguments | tojson }}}} n5k o5k c5k w5w{{% endfor %}}"),
        format!("{any}{EACH}{any}{{{{ c.name }}}}{any}{{{{ c.arguments | tojson }}}}{any}{{% endfor %}}{any}"),
        format!(
            "{EACH}{{{{ t.id * 30 }}}}{{{{ c.name }}}}{{{{ t.id * 30 }}}}{{{{ c.arguments | tojson }}}}{{% endfor %}}"
        ),
        format!("{EACH}{{{{ '{{\"a\": ' * 3000 }}}}{{{{ c.name }}}}{{{{ c.arguments | tojson }}}}{{% endfor %}}"),
        format!("{{{{ '{{}}' * 100000 }}}}{EACH}{{{{ c.name ~ c.arguments | tojson }}}}{{% endfor %}}"),
        format!("{EACH}{{{{ c.arguments | tojson ~ c.name }}}}{{% endfor %}}"),
        format!("{EACH}<{{{{ c.name }}}}<{{{{ c.arguments | tojson }}}}<{{% endfor %}}日"),
    ] {
        for think in [THINK, "<{{ r }}>", "{{ r }}", &any] {
            let template = ChatTemplate::new(&source(think, &calls), String::new(), String::new());
            let form = Arc::new(find_reply_form(&template).unwrap());
            let Ok(prompt) = template.render(&chat(&[user()], true, "auto")) else { continue };
            let Ok(reply) = Reply::new(form, &chat(&[user()], true, "auto"), &prompt) else { continue };
            let got = parse(&Arc::new(reply), &bytes(format!("{any} get get_weather {{}} {calls}").as_bytes()), false);
            assert!(got.end.is_some());
        }
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn conversations_that_a_template_would_lose_are_refused() {
    let without = |template: &str, word: &str| {
        let template = ChatTemplate::new(template, String::new(), String::new());
        let messages = [
            user(),
            json!({"role": "assistant", "content": null, "tool_calls": calls(1)}),
            json!({"role": "tool", "tool_call_id": "abc123xyz", "content": "warm"}),
        ];
        let error = template.render(&chat(&messages, true, "auto")).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(word) && error.is_empty() == word.is_empty(), "{error}");
        // Without any the conversation goes on as before.
        let plain = template.render(&Chat::new(&[("user", "a"), ("assistant", "b")], true)).unwrap().plain().unwrap();
        assert!(plain.contains('a') && plain.contains('b'));
    };
    let tools = "{{ tools | tojson if tools }}";
    let messages = "{% for m in messages %}{{ m.role }}{{ m.content or '' }}{% for c in m.tool_calls or [] %}NAME ARGUMENTS{% endfor %}{% endfor %}";
    let name = messages.replace("NAME", "{{ c.function.name }}");
    let all = name.replace("ARGUMENTS", "{{ c.function.arguments | tojson }}");
    without(&format!("{tools}{all}"), "");
    without(&all, "tools[0]");
    without(&format!("{tools}{name}"), "the arguments of messages[1].tool_calls[0]");
    without(&format!("{tools}{messages}"), "the name in messages[1].tool_calls[0]");
    let results = all.replace("{{ m.content or '' }}", "{{ m.content if m.role != 'tool' else '' }}");
    without(&format!("{tools}{results}"), "the content of messages[2]");
}

/// The control tokens of the vocabulary o200k_harmony.
const HARMONY: [&str; 8] = [
    "<|startoftext|>",
    "<|endoftext|>",
    "<|return|>",
    "<|constrain|>",
    "<|channel|>",
    "<|start|>",
    "<|end|>",
    "<|message|>",
];

/// Replies of gpt-oss as openai-harmony reads them.
#[test]
fn harmony_is_read_as_its_owner_does() {
    let source = "{{ tools | tojson }}{# <|channel|> #}{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content or '' }}\
        {% for t in m.tool_calls or [] %}{{ t.function.name ~ t.function.arguments | tojson }}{% endfor %}<|end|>{% endfor %}\
        {% if add_generation_prompt %}<|start|>assistant{% endif %}";
    let case = case(source, "auto");
    let controls = [&HARMONY[..], &["<|call|>"]].concat();
    let tokenizer = with_controls(&controls);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/text/harmony.json");
    type Message = (Option<String>, Option<String>, String);
    let table: Vec<(String, Vec<Message>)> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for (text, messages) in table {
        let mut want = Got::default();
        let mut other = String::new();
        let add =
            |to: &mut String, text: &str| *to = if to.is_empty() { text.to_owned() } else { format!("{to}\n{text}") };
        for (channel, to, text) in messages {
            // Its parser takes the type of a content without a recipient for one.
            let to = to.filter(|to| to != "json" && !to.starts_with("<|constrain|>"));
            let name = to.as_deref().and_then(|to| to.strip_prefix("functions."));
            match (channel.as_deref(), to.as_deref(), name) {
                (_, _, Some(name @ ("get" | "get_weather"))) => {
                    want.calls.push((name.to_owned(), text.trim().to_owned()))
                }
                (Some("analysis"), None, _) => add(&mut want.reasoning, &text),
                (Some("final" | "commentary") | None, None, _) => add(&mut want.content, &text),
                _ => other = text,
            }
        }
        want.end = Some(!other.is_empty());
        let mut with_names = parsed(&case.reply, &text);
        for got in [&mut parsed_with(&tokenizer, &controls, &case.reply, &text, false), &mut with_names] {
            got.calls.iter_mut().for_each(|(_, json)| *json = json.trim().to_owned());
            assert!(got.unparsed.contains(&other), "{text}: {got:?}");
            got.unparsed.clear();
            got.ids.clear();
            assert_eq!(got, &want, "{text}");
        }
    }
    let required = self::case(source, "required");
    let thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
    let said = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant";
    for (head, is_call) in [
        ("<|channel|>commentary to=functions.get <|constrain|>json<|message|>", true),
        (" to=functions.get<|channel|>commentary json<|message|>", true),
        ("<|channel|>commentary to=functions.get<|message|>", true),
        ("<|channel|>commentary to=functions.other json<|message|>", false),
        ("<|channel|>final<|message|>", false),
    ] {
        for before in ["", thought, said, &format!("{thought}{said}")] {
            let text = format!("{before}{head}{{\"query\":\"a\"}}");
            let is_content = head.contains("final");
            assert_eq!((accepts(&case, &text), accepts(&required, &text)), (is_call || is_content, is_call), "{text}");
            assert!(!is_call || !accepts(&case, &text.replace("query", "other")), "{text}");
        }
    }
    // What is no header, and control tokens within texts and calls, are reported.
    let call = "<|channel|>commentary to=functions.get<|message|>";
    for (text, content, unparsed, arguments, tag) in [
        ("to=5", "", "", "", "to=5"),
        ("Plain.", "Plain.", "", "", ""),
        ("<|channel|>final<|message|>a <|constrain|> b<|message|>c", "a  bc", "<|constrain|><|message|>", "", ""),
        (&format!("{call}{{\"query\": \"a<|constrain|>b\"}}<|call|>"), "", "<|constrain|>b\"}", "{\"query\": \"a", ""),
        (
            &format!("{call}{{\"query\": <|end|><|start|>assistant<|channel|>final<|message|>x"),
            "x",
            "<|end|>",
            "{\"query\": ",
            "",
        ),
        ("<|channel|>final<|message|>a<|startoftext|>b", "ab", "<|startoftext|>", "", ""),
        ("<|channel|>analysis to=func", "", "", "", "<|channel|>analysis to=func"),
        ("<|start|>user<|message|>I ask", "", "<|start|>user<|message|>I ask", "", ""),
    ] {
        let got = parsed_with(&tokenizer, &controls, &case.reply, text, false);
        let have = got.calls.first().map_or("", |call| &call.1);
        assert_eq!(
            (&got.content[..], &got.unparsed[..], have, &got.tag[..]),
            (content, unparsed, arguments, tag),
            "{text}"
        );
        assert_eq!(got.end, Some(text != "Plain."), "{text}");
    }
}

/// Calls that servers of the models' owners read, though the template writes them otherwise.
#[test]
fn calls_are_read_as_models_write_them() {
    let forms = forms();
    let of = |name: &str| case(&source(THINK, &forms.iter().find(|form| form.0 == name).unwrap().1), "auto").reply;
    let (json, tagged, pairs, named, numbered, fenced, typed) = (
        of("tag with JSON"),
        of("tagged arguments"),
        of("keys and values"),
        of("name in a tag"),
        of("numbered"),
        of("fenced JSON"),
        of("typed arguments"),
    );
    let get = |query: &str| ("get", json!({"query": query}));
    let weather = |city: &str, days: i32| ("get_weather", json!({"city": city, "days": days}));
    let function = |query: &str| format!("<function=get>\n<parameter=query>\n{query}\n</parameter>\n</function>");
    for (reply, text, content, want) in [
        (&tagged, function("a"), "", vec![get("a")]),
        (&tagged, format!("Sure.\n\n{}", function("a")), "Sure.", vec![get("a")]),
        (&tagged, format!("<tool_call>\n{}\n{}\n</tool_call>", function("a"), function("b")), "", vec![get("a"), get("b")]),
        (&tagged, format!("{}\n{}", function("a"), function("b")), "", vec![get("a"), get("b")]),
        (&tagged, format!("<tool_call>{}</tool_call>{}", function("a"), function("b")), "", vec![get("a"), get("b")]),
        (&tagged, "<tool_call>\n<function=get_weather>\n<parameter=city>\nBonn\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>".into(), "", vec![weather("Bonn", 2)]),
        (&tagged, "<tool_call>\n<function=get_weather>\n<parameter=days>\n2\n<parameter=city>\nBonn\n</function>\n</tool_call>".into(), "", vec![weather("Bonn", 2)]),
        (&tagged, "<tool_call>\n<function= get >\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>".into(), "", vec![get("a")]),
        // A value that holds the tag of an argument that there is not, or of one that has come.
        (&tagged, function("see <parameter=other> and <parameter=query>"), "", vec![get("see <parameter=other> and <parameter=query>")]),
        (&pairs, "<tool_call>get\n<arg_key>query</arg_key>\n<arg_value>a\n</tool_call>".into(), "", vec![get("a")]),
        (&pairs, "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Bonn\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>".into(), "", vec![weather("Bonn", 2)]),
        (&typed, "<invoke name=\"get_weather\">\n<parameter name=\"city\" string=\"true\">Bonn\n<parameter name=\"days\" string=\"false\">2</parameter>\n</invoke>\n".into(), "", vec![weather("Bonn", 2)]),
        (&json, "{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}".into(), "", vec![get("a")]),
        (&json, "\n{\"name\":\"get\",\"arguments\":{\"query\":\"a\"}}\n{\"name\":\"get\",\"arguments\":{\"query\":\"b\"}}".into(), "", vec![get("a"), get("b")]),
        (&json, "{\"name\": \"Lily\", \"age\": 5}".into(), "{\"name\": \"Lily\", \"age\": 5}", vec![]),
        (&json, "{\"name\": \"get\", \"value\": 5}".into(), "{\"name\": \"get\", \"value\": 5}", vec![]),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": {\"query\": \"\\ud83d x \\ude00\\ud83d\\ude00\\ud83d\"}}</tool_call>".into(), "", vec![get("\u{fffd} x \u{fffd}😀\u{fffd}")]),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": \"{\\\"query\\\": \\\"\\\\ud83d\\\"}\"}</tool_call>".into(), "", vec![get("\u{fffd}")]),
        (&named, "[TOOL_CALLS] get [CALL_ID] abc [ARGS] {\"query\": \"a\"}".into(), "", vec![get("a")]),
        (&named, "[TOOL_CALLS]get[CALL_ID]abc[ARGS]\n{\"query\": \"a\"}".into(), "", vec![get("a")]),
        (&numbered, "<|calls|><|call|>functions.get:0<|args|> \n{\"query\": \"a\"}<|end_call|><|end_calls|>".into(), "", vec![get("a")]),
        (&fenced, "<|calls|><|call|>function<|sep|> get\n```json\n\n {\"query\": \"a\"}\n```<|end_call|><|end_calls|>".into(), "", vec![get("a")]),
    ] {
        let got = parsed(reply, &text);
        let calls: Vec<(&str, Json)> =
            got.calls.iter().map(|(name, text)| (&name[..], serde_json::from_str(text).unwrap())).collect();
        assert_eq!((calls, &got.content[..], &got.unparsed[..], got.end), (want, content, "", Some(false)), "{text}");
    }
}

/// A reply that breaks off within a tag tells of it with its end, and where the model ended it that is text.
#[test]
fn half_a_tag_comes_with_the_end() {
    let forms = forms();
    let of = |name: &str| case(&source(THINK, &forms.iter().find(|form| form.0 == name).unwrap().1), "auto").reply;
    let (json, tagged) = (of("tag with JSON"), of("tagged arguments"));
    let call = "<tool_call>\n<function=get>\n<parameter=query>\n";
    for (reply, text, handed_on, tag) in [
        (&json, "Hello <tool_c", "Hello ", "<tool_c"),
        (&json, "Hello </thin", "Hello </thin", ""),
        (&json, "<think>Hm.\n</thin", "Hm.", "</thin"),
        (&json, "a <", "a ", "<"),
        (&json, "a < b", "a < b", ""),
        (&json, "{\"name\": \"ge", "", "{\"name\": \"ge"),
        (&json, "Hello\n<tool_call>\n{\"name\": \"ge", "Hello", "<tool_call>\n{\"name\": \"ge"),
        (&json, "<tool_call> ", "", "<tool_call> "),
        (
            &json,
            "<tool_call>{\"arguments\": {\"query\": 1}, \"na",
            "",
            "<tool_call>{\"arguments\": {\"query\": 1}, \"na",
        ),
        (&json, "<tool_call>{\"name\": \"get\", \"arguments\": {}}\n</tool", "{}", "</tool"),
        (&tagged, &format!("{call}a\n</param"), "{\"query\": \"a", "</param"),
        (&tagged, &format!("{call}a\n</parameter>\n</funct"), "{\"query\": \"a\"", "</funct"),
        (&tagged, "<tool_call>\n<function=get>\n<para", "", "<tool_call>\n<function=get>\n<para"),
        (&tagged, "<tool_call>\n<functio", "", "<tool_call>\n<functio"),
    ] {
        let (mut parser, mut got) = (ReplyParser::new(reply.clone(), Stops::default()), Got::default());
        for token in bytes(text.as_bytes()) {
            parser.push(tokenizer(), token).unwrap();
        }
        parser.end(false).unwrap();
        take(&mut parser, &mut got);
        let all = got.reasoning + &got.content + got.calls.first().map_or("", |call| &call.1);
        assert_eq!((all.trim_end(), &got.unparsed[..], &got.tag[..]), (handed_on.trim_end(), "", tag), "{text}");
        let is_complete = tag.is_empty();
        assert_eq!(got.end, Some(!is_complete), "{text}");
        assert!(parse(reply, &bytes(text.as_bytes()), true).tag.is_empty(), "{text}");
    }
}

#[test]
fn stops_end_the_content_alone() {
    let reply = case(&source(THINK, &forms()[0].1), "auto").reply;
    let call = "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"query\": \"END\"}}\n</tool_call>";
    for (text, content, is_stopped) in [
        ("one END two", "one ", true),
        ("oEND", "o", true),
        ("END", "", true),
        ("one EN", "one EN", false),
        ("one EN\nD", "one EN\nD", false),
        ("<think>END</think>\nyes ENDED", "yes ", true),
        (&format!("see\n{call}"), "see", false),
        (&format!("EN{call}"), "EN", false),
        ("a\n\nb", "a", true),
        (&format!("a\n\n{call}"), "a", false),
        ("a END <tool_call>{", "a ", true),
        ("aENaEND", "aENa", true),
    ] {
        for at_once in [false, true] {
            let stops = Stops::new(&["END", "\n\n"]).unwrap();
            let (mut parser, mut got) = (ReplyParser::new(reply.clone(), stops), Got::default());
            for token in bytes(text.as_bytes()) {
                if !parser.is_stopped() {
                    parser.push(tokenizer(), token).unwrap();
                }
                if !at_once {
                    take(&mut parser, &mut got);
                    assert!(content.starts_with(&got.content), "{text}: {got:?}");
                }
            }
            parser.end(true).unwrap();
            take(&mut parser, &mut got);
            assert_eq!((&got.content[..], parser.is_stopped(), got.end), (content, is_stopped, Some(false)), "{text}");
        }
    }
}

proptest! {
    /// However a reply is cut, its parts are the same, and no text is lost but that of tags.
    #[test]
    fn any_reply_is_taken_apart(parts in prop::collection::vec(prop::sample::select(PARTS), 0..24), form in 0usize..17) {
        let case = case(&source(THINK, &forms()[form].1), "auto");
        let text = parts.concat();
        let got = parsed(&case.reply, &text);
        prop_assert!(got.end.is_some());
        // Words that are no part of tags, in the order in which they came within each kind.
        let all = format!("{}{}{}{:?}", got.reasoning, got.content, got.unparsed, got.calls);
        for word in ["word1", "word2"] {
            prop_assert_eq!(text.matches(word).count(), all.matches(word).count(), "{:?}: {:?}", text, got);
        }
    }
}

const PARTS: &[&str] = &[
    "word1",
    "word2",
    " ",
    "\n",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[CALL_ID]a",
    "get",
    "get_weather",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "'",
    "\\",
    "{\"name\": \"get\", \"arguments\": ",
    "{\"query\": \"word1\"}",
    "{\"name\": \"get\", \"parameters\": {}}",
    "<function=get>",
    "</function>",
    "<parameter=query>\n",
    "\n</parameter>\n",
    "<|calls|>",
    "<|end_calls|>",
    "<|call|>",
    "<|sep|>",
    "function",
    "\n```json\n",
    "\n```",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<|tool_call>call:get{",
    "<tool_call|>",
    "<|\"|>",
    "query:",
    "é",
    "🦀",
    "1",
    "-",
    "true",
    "None",
    "<",
];
