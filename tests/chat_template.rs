//! Chat templates: the language against Python's jinja2 (`tests/data/text/jinja.json` holds templates and what
//! jinja2 3.1 makes of them, set up as `transformers` does), and templates that mean harm.

use proptest::prelude::*;
use realizar::error::{Error, Result};
use realizar::text::{Chat, ChatTemplate};
use serde_json::{Value as Json, json};

fn render(source: &str, variables: &Json) -> Result<String> {
    let text = ChatTemplate::new(source, "<s>".into(), "</s>".into()).run(variables.as_object().unwrap());
    text.and_then(|text| text.plain())
}

#[test]
fn the_language_is_that_of_jinja2() {
    let json: Json = serde_json::from_str(include_str!("data/text/jinja.json")).unwrap();
    for case in json["cases"].as_array().unwrap() {
        let (source, want) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        assert_eq!(render(source, &json["variables"]).unwrap(), want, "{source}");
    }
}

#[test]
fn a_conversation_is_rendered() {
    let template = ChatTemplate::new(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}\
         <{{ m.role }}>{{ m.content | trim }}{{ eos_token }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
        "<s>".into(),
        "</s>".into(),
    );
    let messages = [("user", " hi "), ("assistant", "{{ 1 }}")];
    assert_eq!(
        template.render(&Chat::new(&messages, true)).unwrap().plain().unwrap(),
        "<s><user>hi</s>\n<assistant>{{ 1 }}</s>\n<assistant>"
    );
    let refusal = template.render(&Chat::new(&[("tool", "")], false)).err().unwrap();
    assert!(matches!(&refusal, Error::InvalidArgument(what) if what.contains("no tools")), "{refusal}");
}

#[test]
fn a_bad_template_says_why_and_only_when_it_is_rendered() {
    for (source, why) in
        [("{% if %}", "chat_template:1"), ("a\n{{ 'a", "chat_template:2"), ("{% for x in y %}", "chat_template:1")]
    {
        match render(source, &json!({})) {
            Err(Error::Unsupported(what)) => assert!(what.contains(why), "{what}"),
            other => panic!("{source:?}: {other:?}"),
        }
    }
    assert!(matches!(render("{{ 1 | nosuch }}", &json!({})), Err(Error::InvalidArgument(_) | Error::Unsupported(_))));
    assert!(matches!(render(&" ".repeat(2 << 20), &json!({})), Err(Error::Unsupported(_))));
}

/// Each would use up the memory, the stack or the patience of a host, were it let.
#[test]
fn harm_is_refused() {
    let deep = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    let tag = |inside: String| format!("{{{{ {inside} }}}}");
    let hostile = [
        "{{ 'a' * 99999999999 }}".to_owned(),
        "{{ 'a'|indent(99999999999999) }}".to_owned(),
        "{{ '%0999999999999d'|format(1) }}".to_owned(),
        "{{ '{:>999999999999}'.format('a') }}".to_owned(),
        "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x|replace('a', 'aa') %}{% endfor %}"
            .to_owned(),
        "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}"
            .to_owned(),
        "{{ range(99999999999) }}".to_owned(),
        "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}".to_owned(),
        "{% for i in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' * 99 }}{% endfor %}"
            .to_owned(),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        "{% for item in [[]] recursive %}{{ loop([[[]]]) }}{% endfor %}".to_owned(),
        "{% include 'chat_template' %}".to_owned(),
        "{{ 2 ** 9999 }}".to_owned(),
        "{{ 1 / 0 }}{{ 1 // 0 }}".to_owned(),
        tag(deep("(", ")", 100_000)),
        tag(deep("[", "]", 100_000)),
        tag(deep("f(", ")", 100_000)),
        tag(deep("{'a':", "}", 100_000)),
        tag(deep("1 if 1 else ", "", 50_000)),
        tag(deep("1 + ", "", 100_000)),
        tag(deep("- ", "", 100_000)),
        tag(deep("not ", "", 100_000)),
        tag(format!("'}}}}' ~ '\\'' ~ {}", deep("not ", "", 100_000))),
        tag(format!("a{}", ".b".repeat(100_000))),
        tag(format!("a{}", "|upper".repeat(100_000))),
        tag(format!("a{}", " is b".repeat(100_000))),
        deep("{% if 1 %}", "{% endif %}", 30_000),
        deep("{% for x in y %}", "{% endfor %}", 30_000),
        deep("{% macro m() %}", "{% endmacro %}", 30_000),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}x".repeat(50_000)),
    ];
    for source in hostile {
        let error = render(&source, &json!({})).err().map(|e| e.to_string());
        let shown = &source[..source.len().min(80)];
        assert!(error.is_some_and(|e| e.len() < 1000), "{shown}");
    }
}

proptest! {
    /// Nothing that can be written is a panic.
    #[test]
    fn any_source_is_rendered_or_refused(parts in prop::collection::vec(prop::sample::select(PARTS), 0..40)) {
        let _ = render(&parts.concat(), &json!({"x": [1, "a", null, {"k": 2.5}], "s": "aé日 b", "n": -3}));
    }
}

const PARTS: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "-",
    "+",
    "{{-",
    "-}}",
    "{%-",
    "-%}",
    " ",
    "\n",
    "if ",
    "else",
    "elif ",
    "{% endif %}",
    "{% endfor %}",
    "for ",
    " in ",
    "set ",
    "=",
    "x",
    "s",
    "n",
    ".",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "|",
    "~",
    "*",
    "**",
    "//",
    "%",
    "/",
    "==",
    "<",
    " and ",
    " or ",
    " not ",
    " is ",
    "1",
    "0",
    "2.5",
    "'a'",
    "\"é",
    "\\",
    "loop",
    ".index",
    "range(3)",
    "{% for i in x %}",
    "{% if n %}",
    "{{ s }}",
    "tojson",
    "upper",
    "split",
    "join",
    "[::-1]",
    "[1:]",
    "macro m(a)",
    "{% endmacro %}",
    "namespace(a=1)",
    "'%s'",
    ".format",
    "items",
    "{{ s[",
    "raw %}",
    "é",
];
