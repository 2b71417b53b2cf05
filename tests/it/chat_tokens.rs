//! Conversations as tokens: special tokens come only from the template, whatever the conversation contains.

use realizar::engine::TokenKind;
use realizar::text::{Chat, ChatTemplate};
use serde_json::{Value as Json, json};

use crate::support::save::MODEL;

/// As published templates are written: roles within tokens, trimmed and cut contents, tools and arguments as JSON.
const TEMPLATE: &str = r#"{{- bos_token }}
{%- macro show(x) %}{% if x is mapping %}{% for k, v in x|items %}[{{ k }}={{ show(v) }}]{% endfor %}{% elif x is string %}{{ x }}{% else %}{{ x|tojson }}{% endif %}{% endmacro %}
{%- if tools %}{{ '<s>tools ' }}{% for t in tools %}{{ t | tojson(indent=2) }} {{ t.function.name|upper }} {{ show(t.function) }}{% endfor %}{{ '</s>' }}{% endif %}
{%- for m in messages %}
{%- set content = m.content %}
{%- if content is string and '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\n') %}{% endif %}
{{- '<s>' + m['role'] + '\n' }}
{%- if m.name is defined %}{{ 'name ' ~ m.name ~ ' ' ~ m.name|title }}{% endif %}
{%- if content %}{{ (content + '</s>')|trim|replace('a', 'A') }}{{ content[1:] }}{{ content.split(' ')|join('</s>') }}{{ content|e }}{% endif %}
{%- for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments|tojson }}{{ [c.function.name, c.id] }}{% for k, v in c.function.arguments|dictsort %}<{{ k|lower }}>{{ v }}{% endfor %}{% endfor %}
{%- if m.role == 'tool' and m.tool_call_id %}{{ m.tool_call_id.strip() + "</s>" }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<s>assistant\n' }}{{ thinking }}{% endif %}"#;

fn template() -> ChatTemplate {
    ChatTemplate::new(TEMPLATE, "<s>".into(), "</s>".into())
}

fn tokens(template: &ChatTemplate, chat: &Json) -> Vec<u32> {
    let mut tokens = Vec::new();
    let rendered =
        template.render(&Chat::parse(&chat.to_string(), true).unwrap()).unwrap_or_else(|e| panic!("{e}: {chat}"));
    MODEL.tokenizer().unwrap().encode_chat(&|| Ok(()), &rendered, &mut tokens).unwrap();
    tokens
}

fn specials(tokens: &[u32]) -> Vec<u32> {
    let tokenizer = MODEL.tokenizer().unwrap();
    tokens.iter().copied().filter(|&id| tokenizer.kind(id) == Some(TokenKind::Control)).collect()
}

/// A conversation with `say` for its texts, the number of which it is handed.
fn conversation(say: &mut dyn FnMut() -> String) -> Json {
    let mut object = |n: usize| -> Json {
        (0..n)
            .map(|i| (format!("{}{i}", say()), json!([say(), {"x": say()}])))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let (arguments, properties) = (object(2), object(1));
    json!({
        "messages": [
            {"role": "system", "content": say()},
            {"role": "user", "content": [{"type": "text", "text": say()}], "name": say()},
            {"role": "assistant", "content": say(), "tool_calls": [{"id": say(), "type": "function",
                "function": {"name": say(), "arguments": arguments}}]},
            {"role": "tool", "content": say(), "tool_call_id": say()},
            {"role": "user", "content": say()}],
        "tools": [{"type": "function", "function": {"name": say(), "description": say(),
            "parameters": {"type": "object", "properties": properties}}}],
        "variables": {"thinking": say()},
    })
}

/// Each of ten thousand texts spells special tokens, whole and in parts that others complete.
#[test]
fn no_conversation_forges_a_token() {
    let template = template();
    let parts = [
        "<s>",
        "</s>",
        "<unk>",
        "<",
        "s>",
        "/s>",
        "</",
        ">",
        "a",
        " ",
        "\n",
        "s",
        "</think>",
        "é",
        "<0x0A>",
        "\u{F0041}",
    ];
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let want = specials(&tokens(&template, &conversation(&mut || "word word".to_owned())));
    let mut texts = 0;
    while texts < 10_000 {
        let chat = conversation(&mut || {
            texts += 1;
            // Begins with what is neither empty nor trimmed, and has one space: as many parts as the harmless one.
            let forged: String =
                (0..random(8)).map(|_| parts[random(parts.len())]).filter(|p| *p != " " && *p != "</think>").collect();
            format!("x{forged} <s>{forged}")
        });
        assert_eq!(specials(&tokens(&template, &chat)), want, "{chat}");
    }
}

/// Without special tokens in its texts a conversation has the tokens of its rendered text.
#[test]
fn harmless_conversations_have_the_tokens_of_their_text() {
    let tokenizer = MODEL.tokenizer().unwrap();
    for (source, begins) in [(TEMPLATE, true), (TEMPLATE.strip_prefix("{{- bos_token }}").unwrap(), false)] {
        let template = ChatTemplate::new(source, "<s>".into(), "</s>".into());
        let begins = begins || source.starts_with("<s>");
        let chat = conversation(&mut || "Once upon\n a time  é日".to_owned());
        let text = template.render(&Chat::parse(&chat.to_string(), true).unwrap()).unwrap().plain().unwrap();
        let mut want = Vec::new();
        tokenizer.encode(&text, !begins && !text.starts_with("<s>"), true, &mut want).unwrap();
        assert_eq!(tokens(&template, &chat), want);
    }
}

#[test]
fn the_first_token_comes_once() {
    let bos = MODEL.tokenizer().unwrap().bos().unwrap();
    let chat = json!({"messages": [{"role": "user", "content": "<s>a"}]});
    for source in ["{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"] {
        let tokens = tokens(&ChatTemplate::new(source, "<s>".into(), "</s>".into()), &chat);
        assert_eq!(specials(&tokens), [bos], "{source}");
        assert_eq!(tokens[0], bos);
    }
}

#[test]
fn templates_get_the_form_that_they_can_read() {
    let chat = json!({"messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{\"k\": \"v\"}"}}]}]});
    let calls = "{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}(";
    let end = "){% endfor %}|{% endfor %}";
    for (source, want) in [
        (format!("{calls}{{{{ c.function.arguments | tojson }}}}{end}"), r#"Be brief.|Hi|({"k": "v"})|"#),
        // Writes text as it comes.
        (format!("{calls}{{{{ c.function.arguments }}}}{end}"), r#"Be brief.|Hi|({"k": "v"})|"#),
        // Takes no null.
        (format!("{{% for m in messages %}}{{{{ m.content }}}}{}", &format!("{}k{end}", calls.split_once("{% for c").map(|s| format!("{{% for c{}", s.1)).unwrap()).replace("(k", "({{ c.function.arguments | tojson }}")), r#"Be brief.|Hi|({"k": "v"})|"#),
        // Refuses, and loses, system messages.
        (format!("{{% if messages[0].role == 'system' %}}{{{{ raise_exception('no') }}}}{{% endif %}}{calls}{{{{ c.function.arguments | tojson }}}}{end}"), "Be brief.\n\nHi|({\"k\": \"v\"})|"),
        ("{% for m in messages if m.role != 'system' %}{{ m.content or '' }}|{% endfor %}".to_owned(), "Be brief.\n\nHi||"),
        // Reads parts alone.
        ("{% for m in messages if m.content %}{% for p in m.content if p.text is defined %}{{ p.text }}{% endfor %}|{% endfor %}".to_owned(), "Be brief.|Hi|"),
    ] {
        let template = ChatTemplate::new(&source, String::new(), String::new());
        let text = template.render_unchecked(&Chat::parse(&chat.to_string(), false).unwrap()).unwrap().plain().unwrap();
        assert_eq!(text, want, "{source}");
    }
}

/// The reasoning of a message is found under each name that templates have for it.
#[test]
fn reasoning_arrives_under_every_name() {
    for given in ["reasoning_content", "thinking", "reasoning"] {
        let chat = json!({"messages": [{"role": "assistant", "content": "a", given: "r"}]}).to_string();
        for read in ["reasoning_content", "thinking"] {
            let source = format!("{{% for m in messages %}}{{{{ m.{read} }}}}{{{{ m.content }}}}{{% endfor %}}");
            let template = ChatTemplate::new(&source, String::new(), String::new());
            let text = template.render(&Chat::parse(&chat, false).unwrap()).unwrap().plain().unwrap();
            assert_eq!(text, "ra", "{given} as {read}");
        }
    }
}

/// Templates that fail without tools keep the messages that they know with tools.
#[test]
fn a_template_that_needs_tools_is_probed_with_some() {
    let source = "{% for t in tools %}{{ t|tojson }}{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
    let tool = json!({"type": "function", "function": {"name": "f"}});
    let messages = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]);
    let chat = json!({"messages": messages, "tools": [tool]}).to_string();
    let template = ChatTemplate::new(source, String::new(), String::new());
    let text = template.render(&Chat::parse(&chat, false).unwrap()).unwrap().plain().unwrap();
    assert!(text.ends_with("[system]s[user]u"), "{text}");
}
