//! Replies that models write differently from their templates: compared with the parsers of other servers, with calls
//! within reasoning and without tags, control tokens in texts, and calls that JSON readers reject.

use std::sync::Arc;

use realizar::grammar::Grammars;
use realizar::text::{Chat, ChatTemplate, Reply, find_reply_form};
use serde_json::{Value as Json, json};

use crate::support::replies::{Got, parsed, parsed_with, tokens_with, tools, user, with_controls};

/// A turn in the published way: the text of reasoning `r` and the calls, before its end.
fn source(think: &str, calls: &str, prompt: &str) -> String {
    format!(
        "{{{{ tools | tojson }}}}{{% for m in messages %}}{{% if m.role == 'assistant' %}}[A]{{% set r = m.reasoning_content %}}\
        {think}{{{{ m.content or '' }}}}{{% for t in m.tool_calls or [] %}}{{% set c = t.function %}}{calls}{{% endfor %}}[/A]\n\
        {{% else %}}[U]{{{{ m.content }}}}[/U]\n{{% endif %}}{{% endfor %}}{{% if add_generation_prompt %}}[A]{prompt}{{% endif %}}"
    )
}

const THINK: &str = "{% if r %}<think>\n{{ r }}\n</think>\n\n{% endif %}";
const JSON: &str = "<tool_call>\n{{ '{\"name\": \"' ~ c.name ~ '\", \"arguments\": ' }}{{ c.arguments | tojson }}{{ '}' }}\n</tool_call>\n";
const BARE: &str = "{{ '{\"name\": \"' ~ c.name ~ '\", \"parameters\": ' }}{{ c.arguments | tojson }}{{ '}' }}\
    {{ raise_exception('one call') if m.tool_calls[1] }}";

/// Calls with a tag after the name, in a section.
const SECTION: &str = "{{ '<calls>' if loop.first }}<call>{{ c.name }}<sep>{{ c.arguments | tojson }}<end>\
    {{ '</calls>' if loop.last }}";

/// The reply to a question, in the form of a template.
fn reply(source: &str, choice: &str) -> Arc<Reply> {
    let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
    let chat = json!({"messages": [user()], "tools": tools(), "tool_choice": choice,
        "variables": {"enable_thinking": true, "thinking": true}});
    let chat = Chat::parse(&chat.to_string(), true).unwrap();
    let prompt = template.render(&chat).unwrap();
    Arc::new(Reply::new(Arc::new(find_reply_form(&template).unwrap()), &chat, &prompt).unwrap())
}

fn json_of(got: &Got) -> Vec<(String, Json)> {
    got.calls.iter().map(|(name, json)| (name.clone(), serde_json::from_str(json).unwrap_or_default())).collect()
}

fn get(query: &str) -> (String, Json) {
    ("get".to_owned(), json!({"query": query}))
}

fn data(name: &str) -> Json {
    let path = format!("{}/tests/data/text/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// True where the grammar of a reply takes a text and its end.
fn accepts(reply: &Reply, names: &[&str], text: &str) -> bool {
    let tokenizer = with_controls(names);
    let grammars = Grammars::new(&tokenizer, tokenizer.n_vocab()).unwrap();
    let mut matcher = grammars.compile_reply(reply, None, false, &tokenizer).unwrap().matcher().unwrap();
    let mut line = Vec::new();
    for token in tokens_with(names, text) {
        if !matcher.allowed(&line).unwrap().has(token) {
            return false;
        }
        line.push(token);
    }
    matcher.allowed(&line).unwrap().has(tokenizer.eos().unwrap())
}

#[test]
fn replies_are_read_as_other_servers_read_them() {
    let published = data("published.json");
    type Row = (String, String, String, String, Vec<(String, Json)>);
    let rows: Vec<Row> = serde_json::from_value(data("replies.json")).unwrap();
    assert!(rows.len() > 25);
    for (name, text, reasoning, content, calls) in rows {
        let source = match published["templates"].get(&name) {
            Some(template) => template["source"].as_str().unwrap().to_owned(),
            None if name == "bare" => source("", &format!("{BARE}{{# <|python_tag|> #}}"), ""),
            None => format!("{{# {name} #}}{}", source("", "{{ raise_exception('no calls') }}", "")),
        };
        let got = parsed(&reply(&source, "auto"), &text);
        let have = (got.reasoning.trim(), got.content.trim(), json_of(&got), got.end);
        assert_eq!(have, (&reasoning[..], &content[..], calls, Some(false)), "{name}: {text}: {got:?}");
    }
}

/// White space that vLLM's expressions of the same forms take.
#[test]
fn white_space_in_calls_is_the_models() {
    let published = data("published.json");
    let of = |name: &str| reply(published["templates"][name]["source"].as_str().unwrap(), "auto");
    let tagged = "</think><tool_call>get\n<arg_key>query</arg_key>\n<arg_value>a</arg_value>\n</tool_call>";
    let nemo = of("mistralai-Mistral-Nemo-Instruct-2407");
    let object = "{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}";
    for (reply, text, n) in [
        (&of("GLM-4.7-Flash"), tagged.to_owned(), 1),
        (&of("GLM-4.7-Flash"), tagged.replace('\n', " \n "), 1),
        (&nemo, format!("[TOOL_CALLS]\n[\n  {object} ]"), 1),
        (&nemo, format!("[TOOL_CALLS] [{object} , {object}\n]"), 2),
        (&nemo, format!("[TOOL_CALLS][ {object},{object}]"), 2),
    ] {
        let got = parsed(reply, &text);
        assert_eq!((json_of(&got), got.end), (vec![get("a"); n], Some(false)), "{text}: {got:?}");
        assert_eq!(got.content.trim(), "", "{text}");
    }
}

/// The tags of Kimi K3 are several tokens each, and one of them ends every reply; Nemotron Nano writes other white
/// space after calls than after content.
#[test]
fn tags_of_several_tokens_and_ends_of_turns_are_none_of_the_texts() {
    let kind =
        "{{ 'string' if v is string else 'boolean' if v is boolean else 'number' if v is number else 'object' }}";
    let argument = format!(
        "<|open|>argument key=\"{{{{ k }}}}\" type=\"{kind}\"<|sep|>{{{{ v if v is string else v | tojson }}}}<|close|>argument<|sep|>"
    );
    let several = format!(
        "{{{{ tools | tojson }}}}{{% for m in messages %}}<|open|>message role=\"{{{{ m.role }}}}\"<|sep|>{{% if m.role == 'assistant' %}}\
        <|open|>think<|sep|>{{{{ m.reasoning_content }}}}<|close|>think<|sep|><|open|>response<|sep|>{{{{ m.content or '' }}}}<|close|>response<|sep|>\
        {{% if m.tool_calls %}}<|open|>tools<|sep|>{{% for t in m.tool_calls %}}<|open|>call tool=\"{{{{ t.function.name }}}}\" index=\"{{{{ loop.index }}}}\"<|sep|>\
        {{% for k, v in t.function.arguments | items %}}{argument}{{% endfor %}}<|close|>call<|sep|>{{% endfor %}}<|close|>tools<|sep|>{{% endif %}}\
        {{% else %}}{{{{ m.content }}}}{{% endif %}}<|close|>message<|sep|><|end_of_msg|>{{% endfor %}}\
        {{% if add_generation_prompt %}}<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>{{% endif %}}"
    );
    let said = |text: &str| format!("Hm.<|close|>think<|sep|><|open|>response<|sep|>{text}<|close|>response<|sep|>");
    let argument = |key: &str, kind: &str, value: &str| {
        format!("<|open|>argument key=\"{key}\" type=\"{kind}\"<|sep|>{value}<|close|>argument<|sep|>")
    };
    let call = |name: &str, n: usize, arguments: &str| {
        format!("<|open|>call tool=\"{name}\" index=\"{n}\"<|sep|>{arguments}<|close|>call<|sep|>")
    };
    let weather =
        argument("city", "string", "17") + &argument("far", "boolean", "true") + &argument("days", "number", "3");
    let calls = call("get_weather", 1, &weather) + &call("get", 2, &argument("query", "string", "<b> a"));
    let want = vec![("get_weather".to_owned(), json!({"city": "17", "far": true, "days": 3})), get("<b> a")];
    let end = "<|close|>message<|sep|>";
    let controls = ["<|open|>", "<|close|>", "<|sep|>"];
    for names in [&controls[..], &[]] {
        let (auto, required) = (reply(&several, "auto"), reply(&several, "required"));
        for (text, content, calls) in [
            (said("It is."), "It is.", vec![]),
            (said("") + "<|open|>tools<|sep|>" + &calls + "<|close|>tools<|sep|>", "", want.clone()),
            (said("I look.") + "<|open|>tools<|sep|>" + &calls + "<|close|>tools<|sep|>", "I look.", want.clone()),
        ] {
            for text in [text.clone(), text.clone() + end] {
                let got = parsed_with(&with_controls(names), names, &auto, &text, true);
                assert_eq!((&got.content[..], json_of(&got)), (content, calls.clone()), "{text}: {got:?}");
                assert_eq!((&got.reasoning[..], got.end), ("Hm.", Some(false)), "{text}");
                assert!(accepts(&auto, names, &text), "{text}");
                let is_call = !calls.is_empty() && content.is_empty();
                assert!(!is_call || accepts(&required, names, &text), "{text}");
            }
        }
    }

    let list = "{% if m.tool_calls %}<TOOLCALL>[{% for t in m.tool_calls %}{{ '{\"name\": \"' ~ t.function.name ~ '\", \"arguments\": ' }}\
        {{ t.function.arguments | tojson }}{{ '}' }}{{ ', ' if not loop.last }}{% endfor %}]</TOOLCALL><END>\n\n{% else %}{{ m.content }}\n<END>\n{% endif %}";
    let ends = format!(
        "{{{{ tools | tojson }}}}{{% for m in messages %}}[{{{{ m.role | upper }}}}]{{% if m.role == 'assistant' %}}{list}{{% else %}}{{{{ m.content }}}}{{% endif %}}\
        {{% endfor %}}{{% if add_generation_prompt %}}[ASSISTANT]{{% endif %}}"
    );
    let text = "<TOOLCALL>[{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}]</TOOLCALL>";
    let auto = reply(&ends, "auto");
    let got = parsed(&auto, text);
    assert_eq!((json_of(&got), &got.content[..], got.end), (vec![get("a")], "", Some(false)), "{got:?}");
    assert!(accepts(&auto, &[], text) && accepts(&reply(&ends, "required"), &[], text));
}

/// Reasoning that is never closed and ends with a call: the call counts. What closes it after the call makes it a part
/// of the reasoning, as does any other text.
#[test]
fn a_call_within_reasoning_counts_if_the_reply_ends_with_it() {
    let call = |query: &str| {
        format!("<tool_call>\n{{\"name\": \"get\", \"arguments\": {{\"query\": \"{query}\"}}}}\n</tool_call>")
    };
    let two = format!("{}\n{}", call("a"), call("b"));
    let half = call("a")[..40].to_owned();
    let closed = format!("I could write {} here.\n</think>\n\n{}", call("a"), call("b"));
    for prompt in ["", "<think>\n"] {
        let source = source(THINK, JSON, prompt);
        let (auto, before) = (reply(&source, "auto"), if prompt.is_empty() { "<think>\n" } else { "" });
        for (text, reasoning, content, calls, is_flagged) in [
            (format!("Hm.\n{}", call("a")), "Hm.", "", vec![get("a")], false),
            (format!("Hm.\n{}\n", call("</b>")), "Hm.", "", vec![get("</b>")], false),
            (format!("Hm.\n{two}"), "Hm.", "", vec![get("a"), get("b")], false),
            (format!("The <tool_call> tag.\n{}", call("a")), "The <tool_call> tag.", "", vec![get("a")], false),
            (
                format!("Hm.\n{}\n</think>\n\nIt is.", call("a")),
                &format!("Hm.\n{}", call("a")),
                "It is.",
                vec![],
                false,
            ),
            (closed.clone(), &format!("I could write {} here.", call("a")), "", vec![get("b")], false),
            (format!("Hm.\n{} So", call("a")), &format!("Hm.\n{} So", call("a")), "", vec![], false),
            (format!("Hm.\n{half}"), &format!("Hm.\n{half}"), "", vec![], true),
            (
                format!("Hm.\n{}", call("a").replace("get", "put")),
                &format!("Hm.\n{}", call("a").replace("get", "put")),
                "",
                vec![],
                false,
            ),
        ] {
            let text = format!("{before}{text}");
            let got = parsed(&auto, &text);
            assert_eq!(
                (&got.reasoning[..], &got.content[..], json_of(&got)),
                (reasoning, content, calls),
                "{text}: {got:?}"
            );
            assert_eq!(got.end, Some(is_flagged), "{text}");
        }
        if prompt.is_empty() {
            continue;
        }
        for (text, is_allowed) in [
            // Tags in plain text may be said in reasoning, so that the grammar has reasoning closed.
            (format!("Hm.\n{}", call("a")), false),
            (format!("{closed}\n"), true),
            ("Hm.\n</think>\n\nIt is.".to_owned(), true),
            ("Hm.".to_owned(), false),
        ] {
            assert_eq!(accepts(&auto, &[], &format!("{before}{text}")), is_allowed, "{text}");
        }
    }
    // Tags that are control tokens, as Kimi K2 Thinking's.
    let kimi = source("{% if r %}<think>{{ r }}</think>{% endif %}", "{{ raise_exception('no calls') }}", "<think>");
    let kimi = format!("{{# <|tool_call_argument_begin|> #}}{kimi}");
    let names = [
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ];
    let section = |query: &str| {
        format!("{}{}functions.get:0{}{{\"query\": \"{query}\"}}{}{}", names[0], names[1], names[2], names[3], names[4])
    };
    let auto = reply(&kimi, "auto");
    let read = |text: &str| parsed_with(&with_controls(&names), &names, &auto, text, true);
    let got = read(&format!("Hm. {}", section("a")));
    assert_eq!((&got.reasoning[..], json_of(&got), got.end), ("Hm.", vec![get("a")], Some(false)), "{got:?}");
    let rehearsed = format!("Hm. {} So.</think>It is.", section("a"));
    let got = read(&rehearsed);
    assert_eq!((format!("{}</think>{}", got.reasoning, got.content), got.end), (rehearsed, Some(true)), "{got:?}");
    for choice in ["auto", "required"] {
        let reply = reply(&kimi, choice);
        assert!(accepts(&reply, &names, &format!("Hm. {}", section("a"))), "{choice}");
        assert!(accepts(&reply, &names, &format!("Hm.</think>{}", section("a"))), "{choice}");
        assert!(!accepts(&reply, &names, &format!("Hm. {}", section("a").replace("query", "other"))), "{choice}");
        assert!(!accepts(&reply, &names, "Hm."), "{choice}");
    }
}

/// Control tokens that are no tags stay where they were written, in reasoning and in content, with the white space
/// around them.
#[test]
fn control_tokens_stay_in_their_place() {
    let names = ["[X]", "[TOOL_CALLS]", "[ARGS]", "<channel|>"];
    let calls = "[TOOL_CALLS]{{ c.name }}[ARGS]{{ c.arguments | tojson }}";
    let think = "{% if r %}[THINK]{{ r }}[/THINK]{% endif %}";
    let named = reply(&source(think, calls, ""), "auto");
    for (text, reasoning, content, unparsed) in [
        ("[THINK]a [X] b[/THINK]c", "a [X] b", "c", ""),
        ("[THINK]a\n[X]\nb[/THINK]c", "a\n[X]\nb", "c", ""),
        ("[THINK][X]a[/THINK]c", "[X]a", "c", ""),
        ("[THINK]a [TOOL_CALLS] b[/THINK]c", "a [TOOL_CALLS] b", "c", ""),
        ("[THINK]a [ARGS] b[/THINK]c", "a [ARGS] b", "c", ""),
        ("[THINK]a[/THINK]c\n[X]\nd", "a", "c\n\nd", "[X]"),
        ("text\n[ARGS]", "", "text\n", "[ARGS]"),
    ] {
        let got = parsed_with(&with_controls(&names), &names, &named, text, true);
        assert_eq!((&got.reasoning[..], &got.content[..], &got.unparsed[..]), (reasoning, content, unparsed), "{text}");
        assert_eq!(got.end, Some(true), "{text}");
    }
    // In the order in which they came.
    let tokenizer = with_controls(&names);
    let mut parser = realizar::text::ReplyParser::new(named.clone(), Default::default());
    for token in tokens_with(&names, "text\n[TOOL_CALLS]") {
        parser.push(&tokenizer, token).unwrap();
    }
    parser.end(true).unwrap();
    let mut all = String::new();
    while let Some(text) = parser.next(|event| Ok(event.text.clone())).unwrap() {
        all += &text;
    }
    assert_eq!(all, "text\n[TOOL_CALLS]");
    // The end of reasoning that has not begun says nothing.
    let channel = "{% if r %}<|channel>thought\n{{ r }}<channel|>{% endif %}";
    let gemma = reply(&source(channel, JSON, ""), "auto");
    for text in ["It<channel|> is.", "<channel|>It is.", "It is.<channel|>"] {
        let got = parsed_with(&tokenizer, &names, &gemma, text, true);
        assert_eq!((&got.content[..], got.end), ("It is.", Some(false)), "{text}: {got:?}");
    }
}

/// A tag of reasoning that the model repeats after the prompt's, and replies that break off after a whole closing tag.
#[test]
fn repeated_and_last_tags_are_tags() {
    let open = reply(&source(THINK, JSON, "<think>\n"), "auto");
    for text in ["<think>\nHm.\n</think>\n\nIt is.", "\n<think>Hm.</think>It is.", "Hm.\n</think>\nIt is."] {
        let got = parsed(&open, text);
        assert_eq!((&got.reasoning[..], &got.content[..], got.end), ("Hm.", "It is.", Some(false)), "{text}: {got:?}");
    }
    assert_eq!(parsed(&open, "Say <think> twice.</think>x").reasoning, "Say <think> twice.");
    let published = data("published.json");
    let seed = reply(published["templates"]["ByteDance-Seed-OSS"]["source"].as_str().unwrap(), "auto");
    let call = "<seed:tool_call>\n<function=get>\n<parameter=query>a</parameter>\n</function>\n</seed:tool_call>";
    for text in [call.to_owned(), format!("{call}\n")] {
        let got = parsed_with(&with_controls(&[]), &[], &seed, &text, false);
        assert_eq!((json_of(&got), got.end, &got.tag[..]), (vec![get("a")], Some(false), ""), "{text}: {got:?}");
    }
}

/// A call without tags that is the whole reply, as small models write it: only of a tool that there is, with arguments
/// that it takes, and where calls may be.
#[test]
fn a_call_without_tags_is_the_whole_reply() {
    let of = |choice| reply(&source(THINK, JSON, ""), choice);
    let published = data("published.json");
    let coder = reply(published["templates"]["Qwen3-Coder"]["source"].as_str().unwrap(), "auto");
    let pretty = "{\n  \"name\": \"get\",\n  \"arguments\": {\n    \"query\": \"a\"\n  }\n}";
    let short = "{\"name\":\"get\",\"arguments\":{\"query\":\"a\"}}";
    for object in [
        pretty,
        short,
        &pretty.replace("arguments", "parameters"),
        "{\"arguments\": {\"query\": \"a\"}, \"name\": \"get\"}",
    ] {
        for text in [
            object.to_owned(),
            format!("\n{object}\n"),
            format!("```json\n{object}\n```"),
            format!("```\n{object}\n```\n"),
            format!("```json\n{object}"),
        ] {
            for reply in [&of("auto"), &coder] {
                let got = parsed(reply, &text);
                let have = (json_of(&got), got.content.trim(), got.end);
                assert_eq!(have, (vec![get("a")], "", Some(false)), "{text}: {got:?}");
            }
            assert_eq!(parsed(&of("none"), &text).content, text);
        }
    }
    for text in [
        "{\n  \"name\": \"put\",\n  \"arguments\": {\"query\": \"a\"}}",
        "{\n  \"name\": \"get\",\n  \"id\": 1}",
        "```json\n{\"name\": \"get\", \"arguments\": {\"other\": \"a\"}}\n```",
        "```json\n{\"name\": \"get\", \"arguments\": {\"query\": 1}}\n```",
        "```json\n{\"name\": \"get\", \"arguments\": {}}\n```",
        "```json\n{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}\n```\nThis asks for a.",
        "```python\nprint({\"name\": \"get\"})\n```",
        "```json\n{\"name\": \"Lily\", \"age\": 5}\n```",
        "{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}, \"version\": \"1.0.0\"}",
        "{\"name\": \"get\", \"query\": \"a\"}",
        "{\"city\": \"Bonn\"}",
        "Call:\n```json\n{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}\n```",
        "`get`",
        "{",
        "```",
    ] {
        let got = parsed(&coder, text);
        assert_eq!((&got.content[..], got.calls.len(), got.end), (text, 0, Some(false)), "{text}: {got:?}");
    }
}

/// Arguments that are complete, and that readers of JSON refuse, are handed on as they were written, with a flag.
#[test]
fn arguments_that_readers_of_json_refuse_are_kept() {
    let tags = reply(&source(THINK, JSON, ""), "auto");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for value in ["1e400", "-1e999", &deep] {
        let arguments = format!("{{\"query\": {value}}}");
        let object = format!("{{\"name\": \"get\", \"arguments\": {arguments}}}");
        let text = format!("{{\"name\": \"get\", \"arguments\": {}}}", Json::from(&arguments[..]));
        for object in [object, text] {
            let got = parsed(&tags, &format!("<tool_call>\n{object}\n</tool_call>"));
            assert_eq!(got.calls, [("get".to_owned(), arguments.clone())], "{object}");
            assert_eq!((&got.unparsed[..], got.end), ("", Some(true)), "{object}");
        }
    }
}

/// A model whose messages have a header each, with a word in it that is no control token.
#[test]
fn headers_with_words_are_written_and_read() {
    let call = "<atem:function_calls>\n<atem:invoke name=\"{{ t.function.name }}\">\n{% for k, v in t.function.arguments | items %}\
        <atem:parameter name=\"{{ k }}\">{{ v if v is string else v | tojson }}</atem:parameter>\n{% endfor %}</atem:invoke>\n</atem:function_calls>";
    let source = format!(
        "{{{{ tools | tojson }}}}{{% for m in messages %}}{{% if m.role == 'assistant' %}}\
        {{% if m.reasoning_content %}}<|start|>assistant to=self<|message|>{{{{ m.reasoning_content }}}}<|eom|>{{% endif %}}\
        {{% if m.tool_calls %}}{{% for t in m.tool_calls %}}<|start|>assistant to={{{{ t.function.name }}}}<|message|>{call}\
        {{{{ '<|eot|>' if loop.last else '<|eom|>' }}}}{{% endfor %}}{{% else %}}<|start|>assistant to=user<|message|>{{{{ m.content }}}}<|eot|>{{% endif %}}\
        {{% else %}}<|start|>{{{{ m.role }}}}<|message|>{{{{ m.content }}}}<|eot|>{{% endif %}}{{% endfor %}}{{% if add_generation_prompt %}}<|start|>assistant{{% endif %}}"
    );
    let names = ["<|start|>", "<|message|>", "<|eom|>"];
    let one = |name: &str, query: &str| {
        format!(
            " to={name}<|message|><atem:function_calls>\n<atem:invoke name=\"{name}\">\n<atem:parameter name=\"query\">{query}</atem:parameter>\n\
            </atem:invoke>\n</atem:function_calls>"
        )
    };
    let thought = " to=self<|message|>Hm.<|eom|><|start|>assistant";
    let two = format!("{}<|eom|><|start|>assistant{}", one("get", "a"), one("get", "b"));
    let (auto, required) = (reply(&source, "auto"), reply(&source, "required"));
    for before in ["", thought] {
        for (text, content, calls) in [
            (" to=user<|message|>It is.".to_owned(), "It is.", vec![]),
            (one("get", "a"), "", vec![get("a")]),
            (two.clone(), "", vec![get("a"), get("b")]),
        ] {
            let (is_call, text) = (!calls.is_empty(), format!("{before}{text}"));
            let got = parsed_with(&with_controls(&names), &names, &auto, &text, true);
            assert_eq!((json_of(&got), &got.content[..], got.end), (calls, content, Some(false)), "{text}: {got:?}");
            assert_eq!(got.reasoning, if before.is_empty() { "" } else { "Hm." }, "{text}");
            assert!(accepts(&auto, &names, &text), "{text}");
            assert_eq!(accepts(&required, &names, &text), is_call, "{text}");
        }
    }
    assert!(!accepts(&required, &names, ""));
}

/// Calls with small faults, as the parsers of vLLM 0.33 or of the models' owners read them; the flag if a part of the
/// call is missing.
#[test]
fn calls_with_small_faults_are_read() {
    let published = data("published.json");
    let of = |name: &str| reply(published["templates"][name]["source"].as_str().unwrap(), "auto");
    let tags = |object: &str| format!("<tool_call>\n{object}\n</tool_call>");
    let (qwen, coder) = (of("Qwen-Qwen2.5-7B-Instruct"), of("Qwen3-Coder"));
    let empty = || vec![("get".to_owned(), json!({}))];
    for (reply, text, calls, is_flagged) in [
        (&qwen, tags("{\"name\": \"get\", \"arguments\": {\"query\": \"a\",}}"), vec![get("a")], false),
        (&qwen, tags("{\"name\": \"get\", \"arguments\": {\"query\": \"a\" , \n},\n}"), vec![get("a")], false),
        (&qwen, tags("{\"name\": \"get\", \"arguments\": null}"), empty(), false),
        (&qwen, tags("{\"arguments\": \"\", \"name\": \"get\"}"), empty(), false),
        (&qwen, tags("{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}"), vec![get("a")], true),
        (&qwen, tags("{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}}"), vec![get("a")], true),
        (&qwen, tags("{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}]}"), vec![get("a")], true),
        (
            &reply(&format!("{{# List of tools:  #}}{}", source("", "{{ raise_exception('') }}", "")), "auto"),
            "<|tool_call_start|>[get(query='a',), get(query='b' , )]<|tool_call_end|>".to_owned(),
            vec![get("a"), get("b")],
            false,
        ),
        (
            &of("Apertus-8B-Instruct"),
            "<|tools_prefix|>{\"get\": {\"query\": \"a\"}}<|tools_suffix|>".to_owned(),
            vec![get("a")],
            false,
        ),
        (
            &of("mistralai-Mistral-Nemo-Instruct-2407"),
            "[TOOL_CALLS] {\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}".to_owned(),
            vec![get("a")],
            false,
        ),
        (&coder, tags("<function=get>\n<parameter=query>\nnull\n</parameter>\n</function>"), vec![get("null")], false),
    ] {
        let got = parsed(reply, &text);
        assert_eq!((json_of(&got), got.end, &got.content[..]), (calls, Some(is_flagged), ""), "{text}: {got:?}");
        assert_eq!(got.unparsed, "", "{text}");
    }
    // Values that are not of their types.
    let dsml = of("deepseek-ai-DeepSeek-V3.2");
    for (name, value, want) in [
        ("days", "null", json!(null)),
        ("days", "007", json!(7)),
        ("days", "true", json!(true)),
        ("days", "three", json!("three")),
        ("far", "TRUE", json!(true)),
        ("far", "None", json!(null)),
        ("options", "[1]", json!([1])),
        ("city", "[1]", json!("[1]")),
    ] {
        let text = tags(&format!("<function=get_weather>\n<parameter={name}>\n{value}\n</parameter>\n</function>"));
        assert_eq!(json_of(&parsed(&coder, &text)), [("get_weather".to_owned(), json!({name: want}))], "{text}");
    }
    for (value, is_text, want) in
        [("null", false, json!(null)), ("{\"a\": 1}", false, json!({"a": 1})), ("null", true, json!("null"))]
    {
        let text = format!(
            "</think>\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get\">\n<｜DSML｜parameter name=\"query\" string=\"{is_text}\">{value}\
            </｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
        );
        assert_eq!(json_of(&parsed(&dsml, &text)), [("get".to_owned(), json!({"query": want}))], "{text}");
    }
    // A value that breaks off belongs to the arguments.
    let text = "<tool_call>\n<function=get_weather>\n<parameter=days>\n12";
    let got = parsed_with(&with_controls(&[]), &[], &coder, text, false);
    assert_eq!((&got.calls[0].1[..], &got.content[..], &got.unparsed[..]), ("{\"days\": 12", "", ""), "{got:?}");
    assert_eq!(got.end, Some(true));
}

/// What `mistral-common` 1.13 takes for calls, which its templates do not write: no id, no arguments, arguments within
/// a text. The same in the forms of other owners.
#[test]
fn arguments_after_a_name_may_be_a_text_or_null() {
    let published = data("published.json");
    let of = |name: &str| reply(published["templates"][name]["source"].as_str().unwrap(), "auto");
    let (v11, v13) = (of("Mistral-Small-3.2-24B-Instruct-2506"), of("mistralai-Ministral-3-14B-Reasoning-2512"));
    let section = reply(&source("", SECTION, ""), "auto");
    let harmony = of("openai-gpt-oss-120b");
    let in_text = |text: &str| Json::from(text).to_string();
    let quoted = "{\"query\": \"\\\"a\\\" \\u00fc\\ud83d\\ude42\\n\", \"n\": [1, {}]}";
    let want: Json = serde_json::from_str(quoted).unwrap();
    for (arguments, want) in [
        ("null".to_owned(), json!({})),
        ("\"\"".to_owned(), json!({})),
        ("{}".to_owned(), json!({})),
        (in_text("{\"query\": \"a\"}"), json!({"query": "a"})),
        (in_text("{\"query\": \"a\"}\n"), json!({"query": "a"})),
        (in_text(quoted), want.clone()),
        (in_text(quoted).replace('ü', "\\u00fc"), want),
    ] {
        for (reply, open, close) in [
            (&v11, "[TOOL_CALLS]get[ARGS]", ""),
            (&v11, "[TOOL_CALLS]get[CALL_ID]aB3456789[ARGS]", ""),
            (&v13, "[TOOL_CALLS]get[ARGS]", ""),
            (&v13, "[TOOL_CALLS] get [ARGS] \n", ""),
            (&section, "<calls><call>get<sep>", "<end></calls>"),
            (&harmony, "<|channel|>commentary to=functions.get<|message|>", "<|call|>"),
        ] {
            let text = format!("{open}{arguments}{close}");
            let got = parsed(reply, &text);
            let have = (json_of(&got), &got.content[..], &got.unparsed[..], got.end);
            assert_eq!(have, (vec![("get".to_owned(), want.clone())], "", "", Some(false)), "{text}: {got:?}");
        }
    }
    // Two calls of which one has an id, and no object.
    let two = "[TOOL_CALLS]get[ARGS]{\"query\": \"a\"}[TOOL_CALLS]get[CALL_ID]aB3456789[ARGS]{\"query\": \"b\"}";
    let got = parsed(&v11, two);
    assert_eq!((json_of(&got), got.end), (vec![get("a"), get("b")], Some(false)));
    assert_eq!(got.ids, ["call00000", "aB3456789"]);
    for (reply, text) in [
        (&v11, "[TOOL_CALLS]get[ARGS]\"Paris\""),
        (&v13, "[TOOL_CALLS]get[ARGS][1]"),
        (&v13, "[TOOL_CALLS]get[ARGS]nul"),
        (&v13, "[TOOL_CALLS]get[ARGS]17"),
        (&v13, "[TOOL_CALLS]get[ARGS]"),
    ] {
        let got = parsed(reply, text);
        assert_eq!((got.calls.len(), &got.unparsed[..], got.end), (0, text, Some(true)), "{text}: {got:?}");
    }
    let got = parsed(&harmony, "<|channel|>commentary to=functions.get<|message|>\"Paris\"<|call|>");
    assert_eq!((&got.calls[0].1[..], &got.unparsed[..], got.end), ("", "\"Paris\"", Some(true)), "{got:?}");
    // A reply that breaks off has what has come of the arguments.
    let text = format!("[TOOL_CALLS]get[ARGS]{}", in_text("{\"query\": \"a\"}"));
    let cut = |n: usize| parsed_with(&with_controls(&[]), &[], &v13, &text[..n], false);
    let (mut last, head) = (0, "[TOOL_CALLS]get[ARGS]\"{".len());
    for n in 1..text.len() {
        let got = cut(n);
        assert_eq!((&got.content[..], &got.unparsed[..], got.end), ("", "", Some(true)), "{n}: {got:?}");
        if n < head {
            assert_eq!((got.calls.len(), &got.tag[..]), (0, &text[..n]), "{n}");
        } else {
            let arguments = &got.calls[0].1;
            assert!("{\"query\": \"a\"}".starts_with(&arguments[..]) && arguments.len() >= last, "{n}: {arguments}");
            last = arguments.len();
        }
    }
    assert_eq!(last, "{\"query\": \"a\"}".len());
    let broken = "<tool_call>\n{\"name\": \"get\", \"arguments\": \"{\\\"query\\\": \\\"a";
    let got = parsed_with(&with_controls(&[]), &[], &of("Qwen-Qwen2.5-7B-Instruct"), broken, false);
    assert_eq!((&got.calls[0].1[..], &got.unparsed[..], got.end), ("{\"query\": \"a", "", Some(true)), "{got:?}");
}

/// Lists and sections without calls hold none, as `mistral-common` 1.13 and vLLM 0.33 read them.
#[test]
fn lists_without_calls_hold_none() {
    let published = data("published.json");
    let of = |name: &str| reply(published["templates"][name]["source"].as_str().unwrap(), "auto");
    let nemo = of("mistralai-Mistral-Nemo-Instruct-2407");
    let object = "{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}";
    for (reply, text, content, n) in [
        (&nemo, "[TOOL_CALLS][]".to_owned(), "", 0),
        (&nemo, "[TOOL_CALLS] [ ]\n".to_owned(), "", 0),
        (&nemo, "I look. [TOOL_CALLS] []".to_owned(), "I look.", 0),
        (&nemo, format!("[TOOL_CALLS][][TOOL_CALLS][{object}]"), "", 1),
        (&nemo, format!("[TOOL_CALLS][{object}][TOOL_CALLS][]"), "", 1),
        (&nemo, "[]".to_owned(), "[]", 0),
        (&reply(&source("", SECTION, ""), "auto"), "Hm.<calls>\n</calls>".to_owned(), "Hm.", 0),
        (&of("Apertus-8B-Instruct"), "<|tools_prefix|>[]<|tools_suffix|>".to_owned(), "", 0),
    ] {
        let got = parsed(reply, &text);
        let have = (json_of(&got), got.content.trim(), &got.unparsed[..], got.end);
        assert_eq!(have, (vec![get("a"); n], content, "", Some(false)), "{text}: {got:?}");
    }
    let got = parsed(&nemo, "[TOOL_CALLS][");
    assert_eq!((&got.unparsed[..], got.end), ("[TOOL_CALLS][", Some(true)));
}

/// The forms of Command R7B, R+ and Hunyuan 3: lists of objects with an id or none, a fence around them or none, and a
/// list of calls whose last tag is the token that ends the reply.
#[test]
fn lists_of_calls_are_read_with_and_without_their_signs() {
    let list = |open: &str, call: &str, close: &str| {
        source(
            "",
            &format!("{{{{ '{open}[' if loop.first else ',' }}}}\n    {call}{{{{ '\\n]{close}' if loop.last }}}}"),
            "",
        )
    };
    let member = "\"tool_name\": \"{{ c.name }}\", \"parameters\": {{ c.arguments | tojson }}}";
    let r7b =
        list("<|START_ACTION|>", &format!("{{\"tool_call_id\": \"{{{{ loop.index0 }}}}\", {member}"), "<|END_ACTION|>");
    let plus = list("Action:\\n```json\\n", &format!("{{{member}"), "```");
    let object = "{\"tool_name\": \"get\", \"parameters\": {\"query\": \"a\"}}";
    let with_id = object.replace('{', "{\"tool_call_id\": \"0\", ").replace(": {\"tool_call_id\": \"0\", ", ": {");
    for (source, text, n) in [
        (&r7b, format!("<|START_ACTION|>[\n    {with_id},\n    {object}\n]<|END_ACTION|>"), 2),
        (&r7b, format!("<|START_ACTION|>[{object}]<|END_ACTION|>"), 1),
        (&r7b, format!("<|START_ACTION|>{with_id}<|END_ACTION|>"), 1),
        (&r7b, format!("<|START_ACTION|>\n{object}\n<|END_ACTION|>"), 1),
        (&r7b, format!("<|START_ACTION|>[{object}]"), 1),
        (&plus, format!("Action:\n```json\n[\n    {object},\n    {object}\n]```"), 2),
        (&plus, format!("Action: ```json\n[\n    {object}\n]\n```"), 1),
        (&plus, format!("Action:\n```\n[{object}]\n```"), 1),
        (&plus, format!("Action:\n```json\n{object}\n```"), 1),
        (&plus, format!("Action: [{object}]"), 1),
    ] {
        let got = parsed(&reply(source, "auto"), &text);
        let have = (json_of(&got), &got.content[..], &got.unparsed[..], got.end);
        assert_eq!(have, (vec![get("a"); n], "", "", Some(false)), "{text}: {got:?}");
    }
    let text = "Action: {walk}, then Action: run.";
    assert_eq!(parsed(&reply(&plus, "auto"), text).content, text);

    let call = format!("{{{{ '<calls>' if loop.first }}}}{JSON}{{{{ '</calls><|eos|>' if loop.last }}}}");
    let ends = reply(&source("", &call, "").replace("[/A]\n", ""), "auto");
    let text = "<calls><tool_call>\n{\"name\": \"get\", \"arguments\": {\"query\": \"a\"}}\n</tool_call>\n</calls>";
    for names in [&["<|eos|>"][..], &[]] {
        let got = parsed_with(&with_controls(names), names, &ends, text, true);
        let have = (json_of(&got), &got.content[..], &got.unparsed[..], got.end);
        assert_eq!(have, (vec![get("a")], "", "", Some(false)), "{got:?}");
    }
}

/// A model whose reasoning tags are control tokens may reason again after content.
#[test]
fn control_tokens_open_reasoning_behind_content() {
    let published = data("published.json");
    let source = published["templates"]["mistralai-Ministral-3-14B-Reasoning-2512"]["source"].as_str().unwrap();
    let text = "[THINK]Hm.[/THINK]It. [THINK]Ho.[/THINK] So.";
    let names = ["[THINK]", "[/THINK]"];
    let got = parsed_with(&with_controls(&names), &names, &reply(source, "auto"), text, true);
    assert_eq!((&got.reasoning[..], &got.content[..], got.end), ("Hm.Ho.", "It.So.", Some(false)), "{got:?}");
    let got = parsed(&reply(source, "auto"), text);
    assert_eq!((&got.reasoning[..], &got.content[..]), ("Hm.", "It. [THINK]Ho.[/THINK] So."), "{got:?}");
}

/// Ids that models write around names are those of their calls, unless another call has the same.
#[test]
fn ids_that_models_write_are_those_of_the_calls() {
    let published = data("published.json");
    let mistral = published["templates"]["Mistral-Small-3.2-24B-Instruct-2506"]["source"].as_str().unwrap();
    let kimi = format!("{{# <|tool_call_argument_begin|> #}}{}", source("", "{{ raise_exception('') }}", ""));
    let own = source("", "<call>{{ t.id }}<name>{{ c.name }}<args>{{ c.arguments | tojson }}</call>", "");
    let plain = source("", "<call>{{ c.name }}<args>{{ c.arguments | tojson }}</call>", "");
    let of_mistral = |id: &str| format!("[TOOL_CALLS]get[CALL_ID]{id}[ARGS]{{\"query\": \"a\"}}");
    let nemo = published["templates"]["mistralai-Mistral-Nemo-Instruct-2407"]["source"].as_str().unwrap();
    let of_list = |members: &str| format!("[TOOL_CALLS][{{{members}, \"arguments\": {{\"query\": \"a\"}}}}]");
    let of_kimi =
        |id: &str| format!("<|tool_call_begin|>{id}<|tool_call_argument_begin|>{{\"query\": \"a\"}}<|tool_call_end|>");
    let section = |calls: String| format!("<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>");
    let of_own = |id: &str| format!("<call>{id}<name>get<args>{{\"query\": \"a\"}}</call>");
    for (source, text, ids) in [
        (mistral, of_mistral("aB3456789") + &of_mistral("aB3456789"), ["aB3456789", "call00001"]),
        (mistral, of_mistral("aB") + &of_mistral("bC3456789"), ["call00000", "bC3456789"]),
        (&kimi, section(of_kimi("functions.get:7") + &of_kimi("get:8")), ["functions.get:7", "functions.get:8"]),
        (
            &kimi,
            section(of_kimi("functions.get:7") + &of_kimi("functions.get:7")),
            ["functions.get:7", "functions.get:1"],
        ),
        (&own, of_own("x-1") + &of_own("x-2"), ["x-1", "x-2"]),
        (&own, of_own("x 1") + &of_own("x_2"), ["call00000", "x_2"]),
        (
            nemo,
            of_list("\"id\": \"aB3456789\", \"name\": \"get\"") + &of_list("\"id\": \"aB3456789\", \"name\": \"get\""),
            ["aB3456789", "call00001"],
        ),
        (
            nemo,
            of_list("\"id\": 7, \"name\": \"get\"") + &of_list("\"id\": \"short\", \"name\": \"get\""),
            ["call00000", "call00001"],
        ),
        (
            nemo,
            of_list("\"type\": \"function\", \"id\": \"bC3456789\", \"name\": \"get\"")
                + &of_list("\"name\": \"get\", \"id\": \"aB3456789\""),
            ["bC3456789", "call00001"],
        ),
        (
            &plain,
            "<call>get<args>{\"query\": \"a\"}</call><call>get<args>{\"query\": \"a\"}</call>".to_owned(),
            ["call00000", "call00001"],
        ),
    ] {
        let got = parsed(&reply(source, "auto"), &text);
        assert_eq!(
            (got.ids.iter().map(String::as_str).collect::<Vec<_>>(), got.end),
            (ids.to_vec(), Some(false)),
            "{text}: {got:?}"
        );
        assert_eq!(json_of(&got), [get("a"), get("a")], "{text}");
    }
}
