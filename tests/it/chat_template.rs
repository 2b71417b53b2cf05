//! Chat templates: the language compared with Python's jinja2 (`tests/data/text/jinja.json` has templates and the
//! results of jinja2 3.1, set up as in `transformers`), and malicious templates.

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
    let json: Json = serde_json::from_str(include_str!("../data/text/jinja.json")).unwrap();
    for case in json["cases"].as_array().unwrap() {
        let (source, want) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        assert_eq!(render(source, &json["variables"]).unwrap(), want, "{source}");
    }
}

/// Keys of maps that are equal and of different types: they stay apart, unless their hashes meet.
const BY_CHANCE: &[&str] = &["{{ {1: 'a', true: 'b'} }}", "{{ {1: 'a', none: 'b', true: 'c', 1.5: 'd'}|tojson }}"];

/// Templates of `jinja_table.json` that have another result here, and why: they are rejected by name, or the text
/// differs.
const DIFFERENT: &[(&str, &str)] = &[
    ("{{ 'a'.encode() }}", "refused: there are no bytes"),
    ("{{ (255).to_bytes(2) }}", "refused: there are no bytes"),
    ("{{ 'a'.translate({97: 'b'}) }}", "refused: not in any template"),
    ("{{ n.bit_length() }}", "refused: methods of numbers"),
    ("{{ f.is_integer() }}", "refused: methods of numbers"),
    ("{{ n.real }}", "refused: attributes of numbers"),
    ("{{ '<p>a  b</p> <!-- c -->d'|striptags }}", "refused: a filter for HTML"),
    ("{{ 'a b/c?d=é'|urlencode }}", "refused: a filter for HTML"),
    ("{{ {'a': 1, 'b': 'x y'}|urlencode }}", "refused: a filter for HTML"),
    ("{{ {'a': 1, 'b': none, 'c': true}|xmlattr }}", "refused: a filter for HTML"),
    ("{{ 'aaaa-bbbb cc'|wordwrap(6) }}", "refused: words that would be cut at hyphens"),
    ("{{ 1000|filesizeformat }}", "refused: not in any template"),
    ("{{ 1048576|filesizeformat(true) }}", "refused: not in any template"),
    ("{{ 1|filesizeformat }}", "refused: not in any template"),
    ("{{ 1500000|filesizeformat }}", "refused: not in any template"),
    ("{{ [1, [2]]|pprint }}", "refused: not in any template"),
    ("{{ joiner }}", "refused: the text of a function holds an address"),
    ("{{ self }}", "refused: inheritance"),
    ("{{ 2 ** 127 }}", "refused: integers of more than 127 bits"),
    ("{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "refused: defaults that read another parameter"),
    ("{% block a %}x{% endblock %}", "refused: inheritance"),
    ("{% set dd = dict(d, **{'q': 2}) %}{{ dd.q }}", "refused: arguments from a list or a map"),
    ("{{ dict(**d).a }}", "refused: arguments from a list or a map"),
    ("{{ '{} {}'.format(*[1, 2]) }}", "refused: arguments from a list or a map"),
    (
        "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1, 'b': 2}) }}",
        "refused: arguments from a list or a map",
    ),
    ("{% for x in l %}{{ loop }}{% endfor %}", "refused: the text of a loop"),
];

/// Each of a thousand expressions and small templates gives what jinja2 gives, or fails where jinja2 fails.
#[test]
fn the_table_is_that_of_jinja2() {
    let json: Json = serde_json::from_str(include_str!("../data/text/jinja_table.json")).unwrap();
    let mut wrong = Vec::new();
    let (mut equal, mut fail) = (0, 0);
    for case in json["cases"].as_array().unwrap() {
        let source = case[0].as_str().unwrap();
        if BY_CHANCE.contains(&source) {
            continue;
        }
        let result = render(source, &json["variables"]);
        let is_right = match (&result, case[1].as_str()) {
            (Ok(text), Some(want)) => text == want,
            (Err(_), None) => true,
            _ => false,
        };
        *(if result.is_ok() { &mut equal } else { &mut fail }) += usize::from(is_right);
        let is_refused = matches!(&result, Err(Error::Unsupported(_)));
        let is_meant = |(meant, why): &(&str, &str)| *meant == source && why.starts_with("refused") == is_refused;
        let is_meant = DIFFERENT.iter().any(is_meant);
        if is_right == is_meant {
            let result = result.unwrap_or_else(|e| format!("error: {e}"));
            wrong.push(format!(
                "{source}\n   is {result:?}\n want {}",
                if case[1].is_null() { &case[2] } else { &case[1] }
            ));
        }
    }
    let refused = DIFFERENT.iter().filter(|(_, why)| why.starts_with("refused")).count();
    println!("{equal} equal, {fail} fail in both, {refused} refused, {} different", DIFFERENT.len() - refused);
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// FNV-1a of 64 bits.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Published templates make the same text of each conversation as in jinja2, to the byte, or fail where they fail
/// there.
#[test]
fn published_templates_make_the_same_texts() {
    let json: Json = serde_json::from_str(include_str!("../data/text/published.json")).unwrap();
    let conversations = json["conversations"].as_object().unwrap();
    let (mut equal, mut fail, mut wrong) = (0, 0, Vec::new());
    for (name, template) in json["templates"].as_object().unwrap() {
        let source = template["source"].as_str().unwrap();
        for ((title, conversation), want) in conversations.iter().zip(template["results"].as_array().unwrap()) {
            let mut variables = conversation.clone();
            let more = variables.as_object_mut().unwrap().remove("variables").unwrap();
            variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let result = render(source, &variables);
            let is_right = match &result {
                Ok(text) => *want == json!([text.len(), hash(text)]),
                Err(_) => want.is_null(),
            };
            *(if result.is_ok() { &mut equal } else { &mut fail }) += usize::from(is_right);
            if !is_right {
                let result = result.unwrap_or_else(|e| format!("error: {e}"));
                wrong.push(format!("{name}, {title}: {want}\n   is {} {result:?}", result.len()));
            }
        }
    }
    println!("{equal} equal, {fail} fail in both");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// Many long texts are joined, by the filter and by the method; a text with itself between its characters is rejected.
#[test]
fn long_texts_are_joined() {
    let lines: Vec<String> = (0..400).map(|i| format!("line {i} {}", "x".repeat(50))).collect();
    let text = "y".repeat(10_000);
    let variables = json!({"lines": lines, "text": text});
    for (source, want) in [
        ("{{ lines|join('\\n') }}", lines.join("\n")),
        ("{{ '\\n'.join(lines) }}", lines.join("\n")),
        ("{{ lines|join }}", lines.concat()),
        ("{{ text|join('-') }}", vec!["y"; text.len()].join("-")),
        (
            "{% set ns = namespace(all=[]) %}{% for l in lines %}{% set ns.all = ns.all + [[l, l]|join('\\n')] %}{% endfor %}{{ ns.all|join('\\n') }}",
            lines.iter().map(|line| format!("{line}\n{line}")).collect::<Vec<_>>().join("\n"),
        ),
    ] {
        assert_eq!(render(source, &variables).unwrap(), want, "{source}");
    }
    for source in ["{{ text|join(text) }}", "{{ text.join(text) }}", "{{ lines|join(text * 100) }}"] {
        assert!(render(source, &variables).is_err(), "{source}");
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

/// Messages of developers and later system messages arrive, whatever a template knows.
#[test]
fn no_message_is_lost() {
    let knows_both = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let loses_developers = "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}";
    let takes_a_first_system_message = "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}\
        {% for m in messages if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let refuses_later_ones = "{% for m in messages %}{% if m.role == 'system' and not loop.first %}\
        {{ raise_exception('a late system message') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let conversation =
        [("developer", "D"), ("system", "S"), ("user", "U"), ("assistant", "A"), ("system", "T"), ("user", "V")];
    for (source, expected) in [
        (knows_both, "<developer>D<system>S<user>U<assistant>A<system>T<user>V"),
        (loses_developers, "<system>D<system>S<user>U<assistant>A<system>T<user>V"),
        (takes_a_first_system_message, "<system>D<user>S\n\nU<assistant>A<user>T\n\nV"),
        (refuses_later_ones, "<developer>D<user>S\n\nU<assistant>A<user>T\n\nV"),
    ] {
        let template = ChatTemplate::new(source, String::new(), String::new());
        let text = template.render(&Chat::new(&conversation, true)).unwrap().plain().unwrap();
        assert_eq!(text, expected, "{source}");
    }
    // What the owner's library hands over in any case.
    let template = ChatTemplate::new("{{ tools is none }} {{ documents is defined }}", String::new(), String::new());
    assert_eq!(template.render(&Chat::new(&[("user", "U")], true)).unwrap().plain().unwrap(), "True True");
}
