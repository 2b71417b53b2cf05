//! Grammars: for any logits, output under a schema is valid according to the crate `jsonschema`, and output under a
//! regular expression matches according to `regex-automata`. Hostile grammars end with an error.

use std::time::Instant;

use realizar::engine::{Chooser, GrammarKind, GrammarText, SamplerParams, on_new_thread};
use realizar::error::Error;
use serde_json::{Value as Json, json};

use crate::support::save::MODEL;

fn grammar(kind: GrammarKind, text: &str) -> Result<realizar::engine::Grammar, Error> {
    on_new_thread(|| MODEL.grammar(&GrammarText::new(kind, text)))
}

/// True where a text, a token a byte, matches a grammar as a whole.
fn takes(grammar: &realizar::engine::Grammar, text: &str) -> bool {
    let tokens: Vec<u32> = text.bytes().map(|b| 3 + u32::from(b)).collect();
    let mut matcher = grammar.matcher().unwrap();
    matcher.admits(&[], &tokens).unwrap() == tokens.len()
        && matcher.allowed(&tokens).unwrap().has(MODEL.tokenizer().unwrap().eos().unwrap())
}

struct Random(u64);

impl Random {
    fn next(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A text chosen by random logits, in which what ends a text, a list or an object grows likelier as it gets longer.
fn write(kind: GrammarKind, text: &str, seed: u64) -> String {
    let tokenizer = MODEL.tokenizer().unwrap();
    let mut random = Random(seed);
    let mut sampler = Chooser::new(SamplerParams { temperature: 1.0, seed, ..Default::default() }).unwrap();
    sampler.set_grammar(Some(grammar(kind, text).unwrap_or_else(|e| panic!("{text}: {e}")).matcher().unwrap()));
    let closes = |id: u32| {
        tokenizer.is_end(id) || [b"\"", b"}", b"]"].iter().any(|c| *tokenizer.decode_token(id, true).unwrap() == **c)
    };
    let closing: Vec<u32> = (0..512).filter(|&id| closes(id)).collect();
    let mut tokens = vec![1, 400, 401];
    for n in 0..4000 {
        let mut logits: Vec<f32> = (0..512).map(|_| random.next(1000) as f32 / 250.0).collect();
        closing.iter().for_each(|&id| logits[id as usize] += n as f32 / 10.0);
        let token = sampler.sample(&logits, &tokens).unwrap();
        if tokenizer.is_end(token) {
            return String::from_utf8(tokenizer.decode(&tokens[3..], false).unwrap()).unwrap();
        }
        tokens.push(token);
    }
    let text = tokenizer.decode(&tokens[3..], false).unwrap();
    panic!("{} has no end", String::from_utf8_lossy(&text));
}

/// Reads JSON. Its numbers may be larger than those that `serde_json` has: these lose their exponents here.
fn parsed(text: &str) -> Json {
    let exponent = regex_automata::meta::Regex::new(r"[0-9][eE][+-]?[0-9]{3,}").unwrap();
    let mut smaller = text.to_owned();
    while serde_json::from_str::<Json>(&smaller).is_err_and(|e| e.to_string().contains("out of range")) {
        let found = exponent.find(&smaller).unwrap_or_else(|| panic!("{text}")).range();
        smaller.replace_range(found.start + 1..found.end, "");
    }
    serde_json::from_str(&smaller).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// One of many schemas; `depth`: levels of objects and lists that may be added.
fn schema(random: &mut Random, depth: usize) -> Json {
    let small = random.next(5);
    match random.next(if depth == 0 { 10 } else { 18 }) {
        0 => json!({"type": "string", "minLength": small, "maxLength": small + random.next(20)}),
        1 => json!({"type": "integer", "minimum": -(small as i64), "maximum": random.next(1000)}),
        2 => json!({"type": "number", "exclusiveMinimum": small, "maximum": 10.5}),
        3 => json!({"type": "boolean"}),
        4 => json!({"enum": ["red", "gr\"een", 3, null, {"a": [1]}]}),
        5 => json!({"const": {"kind": "x", "n": small}}),
        6 => json!({"type": "string", "pattern": "^[a-f]{2,5}-\\d+$"}),
        7 => {
            let format = ["date", "uuid", "ipv4", "ipv6", "date"][small];
            json!({"type": "string", "format": format})
        }
        8 => json!({"type": ["null", "integer"]}),
        9 => json!({"type": ["string", "integer"], "maxLength": 9, "not": {"enum": ["", "a", small, "ab\"", 100]}}),
        10 => {
            json!({"type": "array", "items": schema(random, depth - 1), "minItems": small % 3, "maxItems": small + 1})
        }
        11 => {
            json!({"type": "array", "prefixItems": [schema(random, depth - 1), schema(random, 0)], "items": false, "minItems": 2})
        }
        12 => json!({"anyOf": [schema(random, depth - 1), schema(random, 0)]}),
        13 => {
            let kind = |name: &str, more| {
                json!({"type": "object", "required": ["kind"], "additionalProperties": false,
                "properties": {"kind": {"const": name}, "of": more}})
            };
            json!({"oneOf": [{"type": "null"}, kind("a\"", schema(random, depth - 1)), kind("b", schema(random, 0))]})
        }
        14 => {
            let (a, b) = (schema(random, depth - 1), schema(random, 0));
            json!({"type": "object", "properties": {"a": a, "b": b, "c": {"type": "null"}}, "additionalProperties": false,
                "oneOf": [{"required": ["a"]}, {"required": ["b", "c"]}], "not": {"required": ["a", "c"]}})
        }
        15 => {
            let (a, b) = (schema(random, depth - 1), schema(random, 0));
            json!({"type": "object", "properties": {"kind": {"enum": ["x", "y", "z"]}, "v": {}, "w": b}, "required": ["kind"],
                "additionalProperties": false, "dependentRequired": {"w": ["v"]},
                "if": {"properties": {"kind": {"const": "y"}}}, "then": {"properties": {"v": a}, "required": ["v"]},
                "else": {"properties": {"v": {"type": "boolean"}}}})
        }
        16 => json!({"$defs": {"node": {"type": "object", "required": ["v"], "additionalProperties": false,
                "properties": {"v": schema(random, 0), "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}}},
            "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}),
        _ => {
            let names = ["a", "name", "größe", "with space", "q\"uote"];
            let members: serde_json::Map<_, _> =
                names[..small + 1].iter().map(|name| ((*name).to_owned(), schema(random, depth - 1))).collect();
            let required: Vec<&str> = names[..random.next(small + 2)].to_vec();
            let more = if random.next(3) == 0 { json!({"type": "integer"}) } else { json!(false) };
            json!({"type": "object", "properties": members, "required": required, "additionalProperties": more})
        }
    }
}

#[test]
fn a_thousand_texts_under_two_hundred_schemas_are_valid() {
    let mut random = Random(7);
    for i in 0..200 {
        let schema = schema(&mut random, 3);
        let judge = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for seed in 0..5 {
            let text = write(GrammarKind::JsonSchema, &schema.to_string(), i * 5 + seed);
            let value = parsed(&text);
            assert!(judge.is_valid(&value), "{schema}: {text}");
        }
    }
}

/// All orders of the members of an object; any other value itself.
fn orders(value: &Json) -> Vec<Json> {
    let Some(members) = value.as_object().filter(|members| members.len() > 1) else { return vec![value.clone()] };
    let mut out = Vec::new();
    for (name, first) in members {
        let mut rest = members.clone();
        rest.shift_remove(name);
        for rest in orders(&Json::Object(rest)) {
            let mut members = serde_json::Map::from_iter([(name.clone(), first.clone())]);
            members.extend(rest.as_object().unwrap().clone());
            out.push(Json::Object(members));
        }
    }
    out
}

/// True where a grammar allows a value in some order of its members.
fn accepts(grammar: &realizar::engine::Grammar, value: &Json) -> bool {
    orders(value).iter().any(|value| takes(grammar, &value.to_string()))
}

/// Keywords that the parser lacks are rewritten exactly: the grammar allows what validates and nothing else.
#[test]
fn options_conditions_and_negations_are_exact() {
    let values: Vec<Json> = {
        let mut simple: Vec<Json> =
            ["null", "true", "false", "0", "1", "1.5", "2", "-7", "12", r#""""#, r#""a""#, r#""ab""#]
                .map(|text| serde_json::from_str(text).unwrap())
                .into();
        simple.extend([json!("cat"), json!("é\n"), json!([]), json!(["a"]), json!([1, 2]), json!({})]);
        let names = ["a", "b", "c"];
        let some = [json!(1), json!("a"), json!("cat"), json!(true), json!({"a": 1})];
        for (i, a) in names.iter().enumerate() {
            for x in &some {
                simple.push(json!({*a: x}));
                for b in &names[i + 1..] {
                    for y in &some[..3] {
                        simple.push(json!({*a: x, *b: y}));
                    }
                }
            }
        }
        simple.push(json!({"a": 1, "b": 1, "c": 1}));
        simple.push(json!({"a": "cat", "b": "a", "c": 1}));
        simple
    };
    let object = |more: Json| {
        let mut schema =
            json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "additionalProperties": false});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let kind = |name: &str, more: &str| {
        json!({"type": "object", "properties": {"a": {"const": name}, more: {"type": "integer"}}, "required": ["a", more],
            "additionalProperties": false})
    };
    let required = |names: &[&str]| json!({"required": names});
    let (old, new) = ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema");
    for schema in [
        json!({"oneOf": [{"type": "string"}, {"type": ["null", "integer"]}, {"type": "array", "items": {"type": "string"}}]}),
        json!({"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}], "$defs": {"a": kind("a", "b"), "b": kind("cat", "c")}}),
        json!({"oneOf": [kind("a", "b"), kind("a", "c")]}),
        json!({"oneOf": [{"type": "number", "maximum": 1}, {"type": "number", "exclusiveMinimum": 1, "maximum": 5}]}),
        json!({"oneOf": [{"type": "number", "maximum": 2}, {"type": "number", "minimum": 1}]}),
        json!({"oneOf": [{"enum": ["a", "cat", 1]}, {"enum": ["ab", 2, true]}]}),
        json!({"oneOf": [{"enum": ["a", "cat", 1]}, {"enum": ["a", "ab", 2, true]}]}),
        json!({"oneOf": [{"type": "string", "minLength": 2}, {"type": "string", "maxLength": 2}]}),
        object(json!({"oneOf": [required(&["a"]), required(&["b"])]})),
        object(json!({"oneOf": [required(&["a", "b"]), required(&["b", "c"]), required(&["a"])]})),
        object(json!({"anyOf": [required(&["a"]), required(&["b"])], "oneOf": [required(&["c"]), required(&["b"])]})),
        object(json!({"not": required(&["a"])})),
        object(json!({"not": required(&["a", "b"])})),
        object(
            json!({"not": {"anyOf": [required(&["a"]), {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}}),
        ),
        object(json!({"dependentRequired": {"a": ["b"], "c": ["a", "b"]}})),
        object(json!({"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}, "required": ["b"]}}})),
        object(json!({"$schema": old, "dependencies": {"a": ["b"], "b": {"properties": {"a": {"type": "string"}}}}})),
        object(
            json!({"$schema": new, "if": {"properties": {"a": {"const": "cat"}}, "required": ["a"]}, "then": required(&["b"]), "else": required(&["c"])}),
        ),
        object(json!({"if": {"properties": {"a": {"enum": [1, "a"]}}}, "then": required(&["b"])})),
        // Keywords that this draft does not have.
        object(
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "if": required(&["a"]), "then": required(&["b"])}),
        ),
        json!({"not": {"const": "cat"}}),
        json!({"not": {"enum": ["", "a", 1, 2, null, true]}}),
        json!({"type": ["string", "integer"], "not": {"enum": ["a", 1, "ab"]}}),
        json!({"not": {"type": ["object", "array", "number"]}}),
        json!({"type": "number", "not": {"minimum": 1, "maximum": 2}}),
        json!({"type": "string", "not": {"not": {"minLength": 1}}}),
        json!({"type": "array", "not": {"maxItems": 1}}),
        json!({"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"const": 1}]}, "b": {"not": {"type": "string"}}}}),
        // Names of members that are keywords, and values that look like schemas.
        json!({"type": "object", "properties": {"not": {"type": "string"}, "oneOf": {"const": {"oneOf": [1]}}, "a": {"enum": [{"a": 1}]}}}),
    ] {
        let judge = jsonschema::validator_for(&schema).unwrap();
        let grammar = grammar(GrammarKind::JsonSchema, &schema.to_string()).unwrap_or_else(|e| panic!("{schema}: {e}"));
        for value in &values {
            assert_eq!(accepts(&grammar, value), judge.is_valid(value), "{schema}: {value}");
        }
        for seed in 0..6 {
            let text = write(GrammarKind::JsonSchema, &schema.to_string(), seed);
            assert!(judge.is_valid(&parsed(&text)), "{schema}: {text}");
        }
    }
}

#[test]
fn what_cannot_be_rewritten_exactly_is_named() {
    let overlapping = json!({"oneOf": [{"type": "integer"}, {"type": "null"}, {"type": "number"}]});
    let pattern = json!({"type": "string", "pattern": "^a"});
    let branch =
        json!({"type": "object", "properties": {"x": {"oneOf": [pattern, {"type": "string", "format": "date"}]}}});
    let deep = json!({"$defs": {"a/b": {}, "n": {"not": {"items": {"type": "null"}}}}, "type": "array", "items": {"$ref": "#/$defs/n"}});
    for (schema, words) in [
        (overlapping, ["/oneOf\": options 0 and 2 may", "\"integer\""]),
        (branch, ["\"#/properties/x/oneOf\": options 0 and 1", "negation of"]),
        (deep, ["\"#/$defs/n/not\": it needs", "negation of items"]),
        (json!({"if": {"contains": {}}, "then": {"type": "array"}}), ["\"#/if\": it needs", "contains"]),
    ] {
        let error = grammar(GrammarKind::JsonSchema, &schema.to_string()).err();
        let what = error.as_ref().map(ToString::to_string).unwrap_or_default();
        let has_all = words.iter().all(|word| what.contains(word));
        assert!(matches!(error, Some(Error::Unsupported(_))) && has_all, "{schema}: {what}");
    }
    // One that nothing refers to is in nobody's way.
    let unused = json!({"type": "null", "$defs": {"n": {"not": {"items": {"type": "null"}}}}});
    assert_eq!(write(GrammarKind::JsonSchema, &unused.to_string(), 1), "null");
}

#[test]
fn other_kinds_of_grammars() {
    for seed in 0..50 {
        parsed(&write(GrammarKind::Json, "", seed));
        let choices = ["yes", "no (maybe)", "größer|kleiner", "a\nb\\"];
        let text = write(GrammarKind::Choices, &json!(choices).to_string(), seed);
        assert!(choices.contains(&text.as_str()), "{text:?}");
        let expression = r"(ab|c+){2,4}[^x-z]\.\d{3}( [A-Z]\w*)?";
        let text = write(GrammarKind::Regex, expression, seed);
        let judge = regex_automata::meta::Regex::new(&format!("^(?s:{expression})$")).unwrap();
        assert!(judge.is_match(&text), "{text:?}");
        parsed(&write(GrammarKind::Gbnf, GBNF, seed));
        let sum = "start: term (\"+\" term)*\nterm: NUMBER | \"(\" start \")\"\nNUMBER: /[0-9]{1,3}/\n";
        let text = write(GrammarKind::Lark, sum, seed);
        let mut open = 0;
        for c in text.chars() {
            assert!("0123456789+()".contains(c), "{text}");
            open += i32::from(c == '(') - i32::from(c == ')');
            assert!(open >= 0, "{text}");
        }
        assert_eq!(open, 0, "{text}");
    }
}

/// Names that JSON Schema does not define are notes, in schemas; in values they are a part of these.
#[test]
fn formats_without_a_meaning_are_passed_over() {
    for name in ["path", "color", "int64"] {
        parsed(&write(
            GrammarKind::JsonSchema,
            &json!({"type": "string", "format": name, "maxLength": 9}).to_string(),
            1,
        ));
        let properties = json!({"format": {"type": "integer", "maximum": 9}});
        let schema =
            json!({"type": "object", "properties": properties, "required": ["format"], "additionalProperties": false});
        assert!(parsed(&write(GrammarKind::JsonSchema, &schema.to_string(), 1))["format"].is_i64());
        for keyword in ["const", "enum"] {
            let value = json!({"format": name});
            let allowed = if keyword == "enum" { json!([value]) } else { value.clone() };
            let text = write(GrammarKind::JsonSchema, &json!({keyword: allowed}).to_string(), 1);
            assert_eq!(parsed(&text), value, "{keyword}");
        }
    }
    let date = parsed(&write(GrammarKind::JsonSchema, r#"{"type": "string", "format": "date"}"#, 1));
    assert_eq!(date.as_str().map(str::len), Some(10));
    for name in ["regex", "idn-email", "iri"] {
        let error = grammar(GrammarKind::JsonSchema, &json!({"type": "string", "format": name}).to_string()).err();
        assert!(matches!(&error, Some(Error::Unsupported(what)) if what.contains(name)), "{error:?}");
    }
}

/// JSON as such grammars are usually written, with rules that match nothing, ranges and counts.
const GBNF: &str = r#"
root   ::= ws value # all of it
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws (
             value ("," ws value)*
           )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,1})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"#;

/// The grammar follows the session that it is shown, wherever that goes.
#[test]
fn a_matcher_goes_where_the_text_goes() {
    let grammar = grammar(GrammarKind::Regex, "abc|abd|x").unwrap();
    let tokenizer = MODEL.tokenizer().unwrap();
    let tokens = |text: &str| -> Vec<u32> {
        text.bytes().map(|b| (0..512).find(|&id| *tokenizer.decode_token(id, true).unwrap() == [b]).unwrap()).collect()
    };
    let (a, b, c, d, x) = {
        let t = tokens("abcdx");
        (t[0], t[1], t[2], t[3], t[4])
    };
    let end = tokenizer.eos().unwrap();
    let mut matcher = grammar.matcher().unwrap();
    let mut allowed = |tokens: &[u32]| -> Vec<u32> {
        let allowed = matcher.allowed(tokens).unwrap();
        [a, b, c, d, x, end].into_iter().filter(|&id| allowed.has(id)).collect()
    };
    assert_eq!(allowed(&[5, 6]), [a, x]);
    assert_eq!(allowed(&[5, 6]), [a, x]);
    assert_eq!(allowed(&[5, 6, a, b]), [c, d]);
    assert_eq!(allowed(&[5, 6, a, b, c]), [end]);
    assert_eq!(allowed(&[5, 6, a, b, c, end]), [end]);
    assert_eq!(allowed(&[5, 6, a, b, d]), [end]);
    assert_eq!(allowed(&[5, 6, x]), [end]);
    assert_eq!(allowed(&[5, 6]), [a, x]);
    assert_eq!(allowed(&[5]), [a, x]);
    assert_eq!(allowed(&[5, a]), [b]);
    let error = matcher.allowed(&[5, a, x]).err().unwrap();
    assert!(matches!(&error, Error::InvalidArgument(what) if what.contains("position 2")), "{error}");
    assert!(matcher.allowed(&[5, a, u32::MAX]).is_err());
    assert!(matcher.allowed(&[5, a, b]).unwrap().has(d));

    let mut sampler = Chooser::new(SamplerParams::default()).unwrap();
    sampler.set_grammar(Some(grammar.matcher().unwrap()));
    assert!(matches!(sampler.sample(&[0.0; 511], &[]), Err(Error::Mismatch(_))));
    assert_eq!(sampler.sample(&[0.0; 512], &[]).unwrap(), a.min(x));
}

#[test]
fn what_cannot_be_a_grammar_says_why() {
    use GrammarKind::*;
    for (kind, text, word) in [
        (JsonSchema, "{", "EOF"),
        (JsonSchema, "[]", "neither"),
        (JsonSchema, r#"{"type": "strin"}"#, "strin"),
        (JsonSchema, r#"{"type": "string", "not": {}}"#, "Unsatisfiable"),
        (JsonSchema, r#"{"type": "array", "uniqueItems": true}"#, "uniqueItems"),
        (JsonSchema, r##"{"$ref": "#/$defs/none"}"##, "none"),
        (JsonSchema, r##"{"$ref": "#"}"##, "no token"),
        (Regex, "(", "regex"),
        (Regex, r"(a)\1", "regex"),
        (Choices, "[]", "choices"),
        (Choices, r#"["a", 1]"#, "choices"),
        (Json, "{}", "no text"),
        (Lark, "start: nothing", "nothing"),
        (Lark, "", "start"),
        (Lark, "start: %json {}", "%json"),
        (Lark, "start: text \".\"\ntext[max_tokens=3]: /[a-z]*/", "max_tokens"),
        (Lark, "start: text \".\"\ntext[stop=\",\"]: /[a-z]*/", "stop"),
    ] {
        let error = grammar(kind, text).err().unwrap_or_else(|| panic!("{text} is taken"));
        assert!(matches!(error, Error::InvalidArgument(_) | Error::Unsupported(_)), "{text}: {error:?}");
        assert!(error.to_string().contains(word) && error.to_string().len() < 300, "{text}: {error}");
    }
}

#[test]
fn hostile_grammars_are_bounded() {
    use GrammarKind::*;
    let joined = |n: usize, f: &dyn Fn(usize) -> String| (0..n).map(f).collect::<String>();
    let refs = |n: usize| {
        let one =
            |i| format!(r##""a{i}": {{"type": "object", "properties": {{"x": {{"$ref": "#/$defs/a{}"}}}}}},"##, i + 1);
        format!(r##"{{"$ref": "#/$defs/a0", "$defs": {{{} "a{n}": {{}}}}}}"##, joined(n, &one))
    };
    let name = |i: usize| {
        [i / 676, i / 26 % 26, i % 26].map(|digit| char::from(b'a' + digit as u8)).iter().collect::<String>()
    };
    let deep = |n: usize, open: &str, close: &str| {
        let rule = |i| format!("{}:{open}{}{close}\n", name(i), name(i + 1));
        format!("start:{}\n{}{}:\"x\"\n", name(0), joined(n, &rule), name(n))
    };
    let terminals = |lark: String| lark.to_uppercase().replace("START", "start");
    let doubling = joined(30, &|i| format!("A{i}: A{0} A{0}\n", i + 1));
    let all_of = |n| joined(n, &|i| format!(r#"{{"properties": {{"k{i}": {{"type": "integer"}}}}}},"#));
    let must_fail = [
        (JsonSchema, "[".repeat(100_000)),
        (JsonSchema, format!(r#"{{"not": {{"const": "{}"}}}}"#, "a".repeat(250_000))),
        (JsonSchema, refs(3000)),
        (JsonSchema, format!(r#"{{"required": [{}"z"]}}"#, joined(10_000, &|i| format!("\"v{i}\",")))),
        (JsonSchema, format!(r#"{{"allOf": [{}{{}}]}}"#, all_of(3000))),
        (Regex, "(".repeat(100_000)),
        (Regex, "a".repeat(300_000)),
        (Lark, format!("start: {}\"a\"{}", "(".repeat(50_000), ")".repeat(50_000))),
        (Lark, deep(17_500, "", "")),
        (Lark, terminals(deep(17_500, "", ""))),
        (Lark, deep(4000, "((((((((", "))))))))")),
        (Lark, format!("start: A0\n{doubling}A30: \"x\"\n")),
    ];
    for (kind, text) in must_fail {
        let started = Instant::now();
        let error = grammar(kind, &text).err().unwrap_or_else(|| panic!("{} is taken", &text[..60]));
        let took = started.elapsed().as_secs_f64();
        assert!(took < 20.0 && error.to_string().len() < 300, "{}: {took} s, {error}", &text[..60]);
    }
    // The time and memory of one step of the parser are quadratic in the optional parts in a row.
    let optional = joined(16, &|i| format!("A{}: A{i} A{i}\n", i + 1));
    let in_a_row = "optional parts in a row; one must have at most 2000";
    // So are they in the levels of what begins with one another.
    let nested = |n: usize, level: &str| {
        let levels = joined(n, &|i| format!("A{}: {}\n", i + 1, level.replace('A', &format!("A{i}"))));
        format!("start: A{n}\nA0: /[ab]c?/\n{levels}")
    };
    let levels = "levels of sequences and repetitions that begin with one another; one must have at most 400";
    for (kind, text, named) in [
        (Regex, "a?".repeat(16_000), in_a_row),
        (Regex, "(a|b)*".repeat(4000), in_a_row),
        (Regex, format!("x({}){{2}}|y", "[ab]{0,9}c?".repeat(1500)), in_a_row),
        (JsonSchema, json!({"type": "string", "pattern": format!("^{}$", "[ab]?".repeat(4000))}).to_string(), in_a_row),
        (Lark, format!("start: /{}/", "a*b?".repeat(2000)), in_a_row),
        (Lark, format!("start: A16\nA0: /a?/\n{optional}"), in_a_row),
        (Lark, format!("start: A16\nA0: \"a\"*\n{optional}"), in_a_row),
        (Lark, nested(1000, "(A \"x\")+"), levels),
        (Lark, nested(1000, "(A | A \"x\")*"), levels),
        (Lark, nested(2000, "(A \"x\"?)*"), levels),
        (Lark, nested(1000, "A \"x\" | \"y\""), levels),
    ] {
        let error = grammar(kind, &text).err().unwrap_or_else(|| panic!("{} is taken", &text[..30]));
        assert!(matches!(&error, Error::TooComplex(what) if what.ends_with(named)), "{}: {error}", &text[..30]);
    }
    // Large, and within the bounds.
    for (kind, text) in [
        (Regex, "([a-z]+,)?".repeat(1900)),
        (Lark, nested(190, "(A \"x\")+")),
        (Lark, nested(3000, "\"x\" A")),
        (Lark, nested(1500, "\"x\" A?")),
        (Regex, "((a{1000}){1000}){1000}".to_owned()),
        (JsonSchema, r#"{"type": "string", "pattern": "^((a{1000}){1000}){1000}$"}"#.to_owned()),
        (JsonSchema, r#"{"type": "string", "minLength": 100000000}"#.to_owned()),
        (Lark, "start: \"a\"~1000000000".to_owned()),
        (JsonSchema, format!(r#"{{"required": [{}"z"]}}"#, joined(1500, &|i| format!("\"v{i}\",")))),
        // As deep as the bounds let them be.
        (JsonSchema, refs(1330)),
        (JsonSchema, format!(r#"{{"type": "string", "not": {{"const": "{}"}}}}"#, "a".repeat(200))),
        (Lark, deep(7990, "", "")),
        (Lark, terminals(deep(7990, "", ""))),
        (Lark, deep(1300, "(((((", ")))))")),
        (Lark, terminals(deep(1300, "(((((", ")))))"))),
        (Lark, deep(1300, "[[[[[", "]]]]]")),
        (Regex, "a?b".repeat(20_000)),
        (Regex, "(.*a.{500})".to_owned()),
        (Lark, "start: start start | \"a\" |".to_owned()),
    ] {
        let mut matcher = grammar(kind, &text).unwrap_or_else(|e| panic!("{}: {e}", &text[..60])).matcher().unwrap();
        let mut tokens = vec![1];
        for i in 0..100 {
            let Ok(allowed) = matcher.allowed(&tokens) else { break };
            let some: Vec<u32> = (3..512).filter(|&id| allowed.has(id)).collect();
            let Some(&token) = some.get(i * 31 % some.len().max(1)) else { break };
            tokens.push(token);
        }
    }
}

fn refusal(kind: GrammarKind, text: &str) -> Error {
    grammar(kind, text).err().unwrap_or_else(|| panic!("{text} is taken"))
}

/// The automaton of a number has a state for each remainder: these are counted before they are made.
#[test]
fn multiples_are_bounded_before_they_are_made() {
    let of = |n: u64| format!(r#"{{"type":"integer","multipleOf":{n}}}"#);
    for n in [2, 7, 60, 1000, 1024, 4096] {
        let text = write(GrammarKind::JsonSchema, &of(n), n);
        let digits = text.trim().trim_start_matches('-').bytes().map(|digit| u64::from(digit - b'0'));
        assert_eq!(digits.fold(0, |rest, digit| (rest * 10 + digit) % n), 0, "{text}");
    }
    assert!(grammar(GrammarKind::JsonSchema, r#"{"type":"number","multipleOf":0.01}"#).is_ok());
    let members: Vec<String> = (0..20).map(|i| format!(r#""a{i}":{}"#, of(4001 + i))).collect();
    let hostile = [
        of(1_000_003),
        of(99_999_989),
        r#"{"type":"number","multipleOf":1.000003}"#.into(),
        format!(r#"{{"allOf":[{},{},{}]}}"#, of(997), of(991), of(983)),
        format!(r#"{{"type":"integer","multipleOf":997,"anyOf":[{},{}]}}"#, of(991), of(7)),
        format!(r##"{{"$defs":{{"a":{}}},"type":"integer","multipleOf":991,"$ref":"#/$defs/a"}}"##, of(997)),
        format!(r#"{{"type":"object","properties":{{{}}}}}"#, members.join(",")),
    ];
    // One that refers to itself in many ways, and has no multiples.
    let options = |name: &str| {
        format!(r##"{{"anyOf":[{}{{"type":"null"}}]}}"##, format!(r##"{{"$ref":"#/$defs/{name}"}},"##).repeat(8))
    };
    let circle = format!(
        r##"{{"$ref":"#/$defs/a","$defs":{{"a":{{"type":"object","properties":{{"b":{}}}}}}}}}"##,
        options("a")
    );
    let started = Instant::now();
    let _ = grammar(GrammarKind::JsonSchema, &circle);
    let knot = format!(r##"{{"$ref":"#/$defs/a","$defs":{{"a":{},"b":{}}}}}"##, options("b"), options("a"));
    let _ = grammar(GrammarKind::JsonSchema, &knot);
    let multiples = format!(
        r##"{{"$ref":"#/$defs/a","$defs":{{"a":{},"b":{},"c":{},"d":{}}}}}"##,
        options("b"),
        options("a"),
        of(997),
        of(991)
    );
    let _ = grammar(GrammarKind::JsonSchema, &multiples);
    assert!(started.elapsed().as_secs() < 20);
    for text in hostile {
        let started = Instant::now();
        let error = refusal(GrammarKind::JsonSchema, &text);
        assert!(matches!(error, Error::TooComplex(_)) && error.to_string().contains("multipleOf"), "{text}: {error}");
        assert!(started.elapsed().as_secs() < 5, "{text}");
    }
}

/// Every character that a text, a set or a choice may have means itself.
#[test]
fn every_character_means_itself() {
    let odd = "\u{a0}\u{301}é漢\u{1f600}\u{200d}".chars();
    for c in (' '..='~').chain(odd) {
        let choice = json!([format!("a{c}b")]).to_string();
        assert_eq!(write(GrammarKind::Choices, &choice, 1), format!("a{c}b"));
        let text = if matches!(c, '"' | '\\') { format!("\\{c}") } else { c.to_string() };
        assert_eq!(write(GrammarKind::Gbnf, &format!("root ::= \"a{text}b\""), 1), format!("a{c}b"));
        let text = if matches!(c, '[' | ']' | '\\' | '^' | '-') { format!("\\{c}") } else { c.to_string() };
        assert_eq!(write(GrammarKind::Gbnf, &format!("root ::= \"a\" [{text}] \"b\""), 1), format!("a{c}b"));
    }
}

/// Numbers that the parser would round, and formats that are not checked, are rejected with their position.
#[test]
fn what_would_be_written_wrong_is_refused_by_its_place() {
    for (text, place) in [
        (r#"{"const": 18446744073709551615}"#, "#/const"),
        (r#"{"properties": {"a": {"enum": [1, 9007199254740993]}}}"#, "#/properties/a/enum"),
        (r#"{"type": "integer", "maximum": 18446744073709551615}"#, "#/maximum"),
        (r#"{"type": "integer", "minimum": -99999999999999999999}"#, "#/minimum"),
        (r#"{"type": "string", "format": "iri"}"#, "#/format"),
    ] {
        let error = refusal(GrammarKind::JsonSchema, text);
        assert!(matches!(error, Error::Unsupported(_)) && error.to_string().contains(place), "{text}: {error}");
    }
    for text in [
        r#"{"const": 9007199254740992}"#,
        r#"{"type": "integer", "format": "int64", "minimum": -9007199254740992}"#,
        r#"{"type": "object", "properties": {"const": {"maxLength": 3}, "minimum": {"type": "null"}}}"#,
    ] {
        assert!(grammar(GrammarKind::JsonSchema, text).is_ok(), "{text}");
    }
}

/// References are JSON pointers in fragments: RFC 6901, section 6.
#[test]
fn references_may_be_escaped() {
    let definitions = json!({"a/b": {"const": 1}, "c~d": {"const": 2}, "e f": {"const": 3}, "g%h": {"const": 4}});
    for (target, value) in [("a~1b", 1), ("c~0d", 2), ("e%20f", 3), ("g%25h", 4), ("a%7E1b", 1)] {
        let schema = json!({"$defs": definitions, "$ref": format!("#/$defs/{target}")}).to_string();
        assert_eq!(write(GrammarKind::JsonSchema, &schema, 1).trim(), value.to_string(), "{target}");
    }
    let error = refusal(GrammarKind::JsonSchema, r##"{"$ref": "#/$defs/a~1b"}"##);
    assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains("#/$defs/a~1b"), "{error}");
}

/// A regular expression that is wrong is an invalid argument, one that is too large a limit, and the message says why.
#[test]
fn expressions_that_fail_say_why() {
    for (text, is_limit, why) in [
        ("a{5,3}", false, "repetition"),
        ("a\\", false, "escape"),
        ("(a", false, "unclosed group"),
        ("[b-a]", false, "range"),
        (&format!("{}a{}", "(".repeat(500), ")".repeat(500)), true, "nest"),
    ] {
        let error = refusal(GrammarKind::Regex, text);
        let kind =
            if is_limit { matches!(error, Error::TooComplex(_)) } else { matches!(error, Error::InvalidArgument(_)) };
        assert!(kind && error.to_string().contains(why), "{}: {error:?}", &text[..text.len().min(10)]);
    }
}

/// A pattern speaks of the text that the JSON stands for, not of its escapes.
#[test]
fn patterns_speak_of_the_text_itself() {
    let letters = ["\"", "\\", "a", "x", "\n", "é", " ", "]", "-"];
    let mut texts: Vec<String> = letters.iter().map(|c| (*c).to_owned()).collect();
    texts.extend(letters.iter().flat_map(|a| letters.map(|b| format!("{a}{b}"))));
    texts.push(String::new());
    for pattern in [
        r#"^[^"]*$"#,
        r"^[^\\]+$",
        r#"^[^"\\]{2}$"#,
        r#"^a?[^a"]$"#,
        r"^[^\x22]*$",
        r#"^[^\n"]+$"#,
        r#"^[^\]"-]$"#,
        r#"^([^"]|\\a)$"#,
        r"^[\x00-\x21a-\x7f]$",
        r"^.+$",
        r"^\W$",
        r"^\S+$",
        r"^\D$",
        r"^[^x]$",
        r#"[^"]"#,
        r"^\P{Po}$",
        r"^\p{Cc}$",
        r"^(\P{Po}|\p{L})$",
        r#"^(?:[^"]|\x01)*$"#,
        r#"^(?:[^"\x01]|\x01)$"#,
        r#"^([^"\x01]|(\x01))a?$"#,
        r#"^[^[\]"]+$"#,
        r"^[[x]$",
        r"^[a&&-]$",
        r"^[a\-~~]+$",
        r"^[^\d\\]$",
    ] {
        let schema = json!({"type": "string", "pattern": pattern});
        let judge = jsonschema::validator_for(&schema).unwrap();
        let named =
            json!({"type": "object", "patternProperties": {pattern: {"type": "null"}}, "additionalProperties": false});
        let judge_of_names = jsonschema::validator_for(&named).unwrap();
        let grammars = [&schema, &named].map(|schema| grammar(GrammarKind::JsonSchema, &schema.to_string()).unwrap());
        for text in &texts {
            let value = json!(text);
            assert_eq!(takes(&grammars[0], &value.to_string()), judge.is_valid(&value), "{pattern}: {value}");
            let value = json!({text: null});
            assert_eq!(takes(&grammars[1], &value.to_string()), judge_of_names.is_valid(&value), "{pattern}: {value}");
        }
        for seed in 0..10 {
            let text = write(GrammarKind::JsonSchema, &schema.to_string(), seed);
            assert!(judge.is_valid(&parsed(&text)), "{pattern}: {text}");
        }
    }
}

/// Sets that are empty or full in ECMA-262.
#[test]
fn sets_of_patterns_may_be_empty_or_full() {
    for (pattern, is_taken) in [("^[^]$", true), ("^[]$", false), ("^(a|[])$", true), ("^[^]]$", false)] {
        let taken = grammar(GrammarKind::JsonSchema, &json!({"type": "string", "pattern": pattern}).to_string());
        assert_eq!(taken.is_ok_and(|grammar| takes(&grammar, "\"a\"")), is_taken, "{pattern}");
    }
}

/// A name has one spelling, so that no member passes by the schema that its name has, and members are counted by their
/// names.
#[test]
fn names_of_members_are_spelled_plainly() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "string"}});
    let grammar_of = |schema: &Json| grammar(GrammarKind::JsonSchema, &schema.to_string());
    let grammar = grammar_of(&schema).unwrap();
    for (text, is_taken) in [
        (r#"{"a":1}"#, true),
        (r#"{"b":"x"}"#, true),
        (r#"{"é\n":"x"}"#, true),
        (r#"{"\u0061":"x"}"#, false),
        (r#"{"\u0062":"x"}"#, false),
        (r#"{"a":1,"\u0061":"x"}"#, false),
        (r#"{"a":1,"a":"x"}"#, false),
    ] {
        assert_eq!(takes(&grammar, text), is_taken, "{text}");
    }
    // Names and values that look like keywords.
    for value in [json!({"pattern": "[^\"]"}), json!({"patternProperties": {"[^\"]": 1}})] {
        for schema in [json!({"const": value}), json!({"enum": [value]})] {
            assert!(takes(&grammar_of(&schema).unwrap(), &value.to_string()), "{schema}");
        }
    }
    let noted = json!({"description": "\u{1}", "type": "object", "properties": {"a": {"type": "integer"}}});
    assert!(!takes(&grammar_of(&noted).unwrap(), r#"{"\u0061":"x"}"#));
    let open = json!({"type": "object", "properties": {"a": {"const": "\u{1}"}}});
    assert!(matches!(grammar_of(&open).err(), Some(Error::Unsupported(what)) if what.contains("control characters")));
    let control = grammar_of(&json!({"const": "a\u{1}"})).unwrap();
    assert!(takes(&control, r#""a\u0001""#) && !takes(&control, r#""a""#));

    let least = |n: usize, more: Json| {
        let mut schema = json!({"type": "object", "minProperties": n});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        grammar_of(&schema)
    };
    for refused in [
        json!({}),
        json!({"required": ["a"], "minProperties": 3}),
        json!({"required": ["a", "a"], "minProperties": 3}),
        json!({"patternProperties": {"^a": {}}}),
    ] {
        let error = least(2, refused.clone()).err().unwrap_or_else(|| panic!("{refused} is taken"));
        assert!(matches!(&error, Error::Unsupported(what) if what.contains("#/minProperties")), "{error}");
    }
    for (n, more) in [
        (1, json!({})),
        (0, json!({})),
        (2, json!({"required": ["a"]})),
        (3, json!({"required": ["a", "b"], "properties": {"a": {}, "b": {}}})),
        (2, json!({"required": ["a", "b"], "properties": {"a": {}, "b": {}}, "additionalProperties": false})),
    ] {
        let grammar = least(n, more.clone()).unwrap();
        let mut all = serde_json::Map::new();
        for name in ["a", "b", "c", "d"] {
            let schema = json!({"type": "object", "minProperties": n});
            let mut schema = schema;
            schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let value = Json::Object(all.clone());
            let is_valid = jsonschema::validator_for(&schema).unwrap().is_valid(&value);
            assert_eq!(takes(&grammar, &value.to_string()), is_valid, "{schema}: {value}");
            all.insert(name.to_owned(), json!(1));
        }
    }
}

/// Days are those of the calendar, by the crate `chrono`.
#[test]
fn dates_have_the_days_of_their_month() {
    let of = |format: &str| {
        let schema = json!({"type": "string", "format": format}).to_string();
        grammar(GrammarKind::JsonSchema, &schema).unwrap()
    };
    let (date, time, both) = (of("date"), of("time"), of("date-time"));
    for year in [1, 4, 99, 100, 399, 400, 1900, 1904, 1996, 2000, 2023, 2024, 2096, 2100, 2400, 9996, 9999] {
        for (month, day) in [(2, 28), (2, 29), (2, 30), (4, 30), (4, 31), (12, 31), (12, 32), (13, 1), (1, 0), (1, 1)] {
            let text = format!("{year:04}-{month:02}-{day:02}");
            let is_day = chrono::NaiveDate::from_ymd_opt(year, month, day).is_some();
            assert_eq!(takes(&date, &json!(text).to_string()), is_day, "{text}");
            let text = format!("{text}T23:59:59.25+01:30");
            assert_eq!(takes(&both, &json!(text).to_string()), is_day, "{text}");
            assert_eq!(chrono::DateTime::parse_from_rfc3339(&text).is_ok(), is_day, "{text}");
        }
    }
    for (text, is_time) in [
        ("00:00:00Z", true),
        ("23:59:59.123-23:59", true),
        ("24:00:00Z", false),
        ("12:60:00Z", false),
        ("12:00:60Z", false),
        ("12:00:00", false),
        ("12:00:00.Z", false),
        ("12:00:00+24:00", false),
    ] {
        assert_eq!(takes(&time, &json!(text).to_string()), is_time, "{text}");
    }
    // Beside other keywords of a text.
    let schema = json!({"type": "string", "format": "date", "pattern": "^2024", "minLength": 10});
    let grammar = grammar(GrammarKind::JsonSchema, &schema.to_string()).unwrap();
    assert!(takes(&grammar, "\"2024-02-29\"") && !takes(&grammar, "\"2020-02-29\""));
}

#[test]
fn json_has_white_space_where_it_is_asked_for() {
    let texts = [
        ("{\"a\":[1,2]}", true),
        ("{\"a\": [1, 2]}", false),
        ("{\n  \"a\" :[1,2] }", false),
        ("[]", true),
        ("[ ]", false),
    ];
    for (kind, source) in [(GrammarKind::Json, ""), (GrammarKind::JsonSchema, "{}")] {
        let [compact, free] = [false, true].map(|free| {
            on_new_thread(|| MODEL.grammar(&GrammarText { white_space: free, ..GrammarText::new(kind, source) }))
                .unwrap()
        });
        for (text, is_compact) in texts {
            assert_eq!((takes(&compact, text), takes(&free, text)), (is_compact, true), "{text}");
        }
        assert!(!takes(&free, &format!("[{}]", " ".repeat(41))));
    }
    let own = r#"{"x-guidance": {"whitespace_pattern": " ?"}}"#;
    assert!(takes(&grammar(GrammarKind::JsonSchema, own).unwrap(), "[ 1 , 2 ]"));
    let refused = on_new_thread(|| {
        MODEL.grammar(&GrammarText { white_space: true, ..GrammarText::new(GrammarKind::Regex, "a") })
    })
    .err();
    assert!(matches!(refused, Some(Error::InvalidArgument(_))), "{refused:?}");
}

/// Names between angle brackets are tokens, wherever a grammar may have one.
#[test]
fn tokens_of_a_lark_grammar_go_by_their_names() {
    let bytes = |text: &str| text.bytes().map(|b| 3 + u32::from(b)).collect::<Vec<u32>>();
    let admits = |text: &str, tokens: &[u32]| {
        let grammar = grammar(GrammarKind::Lark, text).unwrap_or_else(|e| panic!("{text}: {e}"));
        grammar.matcher().unwrap().admits(&[], tokens).unwrap()
    };
    let begin = [&bytes("a")[..], &[1], &bytes("b")].concat();
    assert_eq!(admits("start: \"a\" <s> \"b\"", &begin), 3);
    assert_eq!(admits("start: \"a\" <[1]> \"b\"", &begin), 3);
    assert_eq!(admits("start: \"a\" <s> \"b\"", &bytes("ab")), 1);
    // In texts, expressions and comments they are what they are.
    let text = "start: \"<s>\\\"\" /<s>[\"<]\\/?/ // <none>\n# <none>\n";
    assert_eq!(admits(text, &bytes("<s>\"<s><")), 9 - 1);
    for (text, line) in
        [("start: <none>", "line 1"), ("start: a\na: \"x\"\n  | <|im_end|>", "line 3"), ("start: <sé>", "line 1")]
    {
        let error = refusal(GrammarKind::Lark, text);
        assert!(matches!(&error, Error::InvalidArgument(what) if what.contains(line)), "{text}: {error}");
    }
    for text in [
        "start: <",
        "start: <>",
        "start: <a",
        "start: \"<",
        "start: /<",
        "start: <[",
        "start: <[]>",
        "start: <[99999999]>",
        "start: <[5-1]>",
        "start: <[*]>x",
    ] {
        let _ = refusal(GrammarKind::Lark, text);
    }
}

/// What is wrong, what is not implemented and what is too large are distinguished, with the reason.
#[test]
fn hostile_grammars_have_the_status_of_their_fault() {
    use GrammarKind::*;
    let many = |n: usize, text: &str| text.repeat(n);
    let schema = |text: &str| (JsonSchema, text.to_owned());
    let lark = |text: &str| (Lark, text.to_owned());
    let gbnf = |text: &str| (Gbnf, text.to_owned());
    let regex = |text: &str| (Regex, text.to_owned());
    let wrong = [
        schema(""),
        schema("nul"),
        schema("{\"type\": 1}"),
        schema("{\"type\": []}"),
        schema("{\"pattern\": \"(\"}"),
        schema("{\"pattern\": \"a{5,3}\"}"),
        schema("{\"minLength\": -1}"),
        schema("{\"minLength\": \"a\"}"),
        schema("{\"type\": \"string\", \"minLength\": 5, \"maxLength\": 3}"),
        schema("{\"enum\": []}"),
        schema("{\"enum\": 1}"),
        schema("{\"$ref\": \"#/a/b\"}"),
        schema("{\"$ref\": 5}"),
        schema("{\"required\": [1]}"),
        schema("{\"properties\": []}"),
        schema("{\"items\": 5}"),
        schema("{\"anyOf\": []}"),
        schema("{\"anyOf\": {}}"),
        schema("false"),
        schema("{\"a\": \"\\ud800\"}"),
        schema("{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 4}"),
        schema("{\"type\": \"integer\", \"multipleOf\": 0}"),
        schema("{\"type\": \"integer\", \"multipleOf\": -2}"),
        regex("a{5,3}"),
        regex("\\"),
        regex("(?P<a"),
        regex("[z-a]"),
        regex("*"),
        regex("a**b("),
        regex("\\p{None}"),
        lark("start: b"),
        lark("start: \"a"),
        lark("start: /a"),
        lark("start"),
        lark("b: \"a\""),
        lark("start: \"a\"\nstart: \"b\""),
        lark("start: \"a\"~-1"),
        lark("start: %none"),
        lark("\0"),
        lark("start: /a{5,3}/"),
        lark("start: @other"),
        gbnf(""),
        gbnf("root"),
        gbnf("root ::= a"),
        gbnf("root ::= \"a"),
        gbnf("root ::= [a"),
        gbnf("root ::= [z-a]"),
        gbnf("root ::= \"a\"{5,3}"),
        gbnf("root ::= ("),
        gbnf("a ::= \"b\""),
        gbnf("root ::= \"\\q\""),
        (Choices, "[".into()),
        (Choices, "{}".into()),
        (Choices, "[[]]".into()),
        (Choices, "null".into()),
        (Json, " ".into()),
    ];
    let absent = [
        regex("(?=a)b"),
        regex("(a)\\1"),
        regex("(?<=a)b"),
        regex("a\\b"),
        schema("{\"type\": \"array\", \"uniqueItems\": true}"),
        schema("{\"type\": \"array\", \"contains\": {\"type\": \"null\"}}"),
        schema("{\"type\": \"object\", \"propertyNames\": {\"maxLength\": 3, \"pattern\": \"a\"}}"),
        schema("{\"pattern\": \"(?=a)b\"}"),
        schema("{\"pattern\": \"(a)\\\\1\"}"),
        schema("{\"$ref\": \"https://example.org/a.json\"}"),
        schema("{\"anyOf\": [{\"properties\": {}}], \"unevaluatedProperties\": false}"),
        lark("start: /(?=a)b/"),
        lark("start: %json {}"),
    ];
    let large = [
        regex(&format!("{}a{}", many(500, "("), many(500, ")"))),
        regex(&many(300_000, "a")),
        schema(&format!("{{\"pattern\": \"{}a{}\"}}", many(500, "("), many(500, ")"))),
        schema(&many(200, "[")),
        lark(&format!("start: {}\"a\"{}", many(9000, "("), many(9000, ")"))),
        gbnf("root ::= \"a\"{1000000000}"),
        gbnf(&format!("root ::= {}\"a\"{}", many(9000, "("), many(9000, ")"))),
        (Choices, format!("[\"{}\"]", many(300_000, "a"))),
    ];
    let mut failed = Vec::new();
    for (list, name) in [(&wrong[..], "wrong"), (&absent, "absent"), (&large, "large")] {
        for (kind, text) in list {
            let (started, short) = (Instant::now(), text.chars().take(60).collect::<String>());
            let error = grammar(*kind, text).err();
            let found = match &error {
                Some(Error::InvalidArgument(_)) => "wrong",
                Some(Error::Unsupported(_)) => "absent",
                Some(Error::TooComplex(_)) => "large",
                _ => "taken",
            };
            let what = error.map(|e| e.to_string()).unwrap_or_default();
            if found != name || what.len() > 300 || what.len() < 15 || started.elapsed().as_secs() >= 10 {
                failed.push(format!("{kind:?} {short}: {found} for {name}: {what}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
