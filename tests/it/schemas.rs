//! JSON schemas written by libraries. `tests/data/schemas/published.json` has 287 schemas from zod, pydantic,
//! typescript-json-schema, schemars and .NET, with values that Python's `jsonschema` accepts or rejects;
//! `patterns.json` has patterns, and texts that match them or not according to Node.js.

use realizar::engine::{Grammar, GrammarKind, GrammarText, on_new_thread};
use realizar::error::Error;
use serde_json::{Value as Json, json};

use crate::support::save::MODEL;

const PUBLISHED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/schemas/published.json"));
const AGENTS: &str = include_str!("../data/schemas/agents.json");
const PATTERNS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/schemas/patterns.json"));

fn compile(schema: &Json, best_effort: bool) -> Result<Grammar, Error> {
    let text = schema.to_string();
    on_new_thread(|| MODEL.grammar(&GrammarText { best_effort, ..GrammarText::new(GrammarKind::JsonSchema, &text) }))
}

fn exact(schema: &Json) -> Grammar {
    compile(schema, false).unwrap_or_else(|e| panic!("{schema}: {e}"))
}

/// True if a whole text matches a grammar; each byte is a token.
fn takes(grammar: &Grammar, text: &str) -> bool {
    let tokens: Vec<u32> = text.bytes().map(|b| 3 + u32::from(b)).collect();
    let mut matcher = grammar.matcher().unwrap();
    matcher.admits(&[], &tokens).unwrap() == tokens.len()
        && matcher.allowed(&tokens).unwrap().has(MODEL.tokenizer().unwrap().eos().unwrap())
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

/// With best effort, every schema compiles and accepts valid values. Schemas that compile without omissions reject
/// every invalid value, and few schemas compile with omissions.
#[test]
fn published_schemas_are_accepted_and_held() {
    let (n, n_loose) = held(PUBLISHED);
    assert!(n > 200 && n_loose < 45, "{n_loose} of {n} are loose");
}

/// The same of schemas as frameworks of agents write them, and of values made of valid ones by small changes, which the
/// Python package `jsonschema` has judged.
#[test]
fn schemas_of_agents_are_accepted_and_held() {
    let (n, n_loose) = held(AGENTS);
    assert!(n > 60 && n_loose < 5, "{n_loose} of {n} are loose");
}

/// Compares the grammars of schemas with what a validator says of values. Returns the number of schemas, and of those
/// that compile with omissions.
fn held(cases: &str) -> (usize, usize) {
    let cases: Json = serde_json::from_str(cases).unwrap();
    let (mut wrong, mut loose, mut n) = (Vec::new(), Vec::new(), 0);
    for case in list(&cases) {
        let (name, schema) = (case["name"].as_str().unwrap(), &case["schema"]);
        let grammar = match compile(schema, true) {
            Ok(grammar) => grammar,
            Err(e) => {
                wrong.push(format!("{name}: {e}"));
                continue;
            }
        };
        n += 1;
        for value in list(&case["valid"]).iter().filter(|value| !takes(&grammar, &value.to_string())) {
            wrong.push(format!("{name} refuses {value}: {schema}"));
        }
        if !grammar.notes().is_empty() {
            loose.push(name);
            assert!(grammar.notes().iter().all(|note| note.len() < 1000), "{:?}", grammar.notes());
            let error = compile(schema, false).err().map(|e| e.to_string()).unwrap_or_default();
            if !["\"#/", "not found", "patternProperty"].iter().any(|word| error.contains(word)) {
                wrong.push(format!("{name}: {:?}: {error:?} names no place", grammar.notes()));
            }
            continue;
        }
        for value in list(&case["invalid"]).iter().filter(|value| takes(&grammar, &value.to_string())) {
            wrong.push(format!("{name} takes {value}: {schema}"));
        }
        if let Err(e) = compile(schema, false) {
            wrong.push(format!("{name}, of which nothing was left out: {e}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}\n{loose:?} are loose", wrong.len(), wrong.join("\n"));
    (n, loose.len())
}

/// Patterns are read as node reads them.
#[test]
fn patterns_match_as_in_node() {
    let cases: Json = serde_json::from_str(PATTERNS).unwrap();
    let mut wrong = Vec::new();
    for case in list(&cases) {
        let schema = json!({"type": "string", "pattern": case[0]});
        let found = compile(&schema, false);
        if list(case).len() == 1 {
            if !matches!(found, Err(Error::InvalidArgument(_))) {
                wrong.push(format!("{schema} is taken"));
            }
            continue;
        }
        let (is_possible, grammar) = match found {
            Ok(grammar) => (true, Some(grammar)),
            Err(e) if e.to_string().contains("Unsatisfiable") => (false, None),
            Err(e) => {
                wrong.push(format!("{schema}: {e}"));
                continue;
            }
        };
        for (texts, want) in [(&case[1], true), (&case[2], false)] {
            for text in list(texts) {
                // JSON has no characters that are written with \u alone here.
                let is_odd = text.as_str().unwrap().contains(|c: char| c < ' ' && !"\u{8}\t\n\u{c}\r".contains(c));
                let got = is_possible && grammar.as_ref().is_some_and(|grammar| takes(grammar, &text.to_string()));
                if got != want && !is_odd {
                    wrong.push(format!("{schema}: {text} is {}", if got { "taken" } else { "refused" }));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Look-ahead at the beginning of a pattern is enforced; all other look-around is an error that names its place, or is
/// left out with best effort.
#[test]
fn look_around_is_written_or_named() {
    let password = exact(&json!({"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d).{4,8}$"}));
    for (text, want) in [("Abc1", true), ("abc1", false), ("Abcd", false), ("A1", false), ("12345A78", true)] {
        assert_eq!(takes(&password, &json!(text).to_string()), want, "{text}");
    }
    for (pattern, text, other) in [
        (r"^(?!\.)[a-z.]+$", ".a", "A"),
        (r"^[a-z]+(?<!x)$", "x", "X"),
        (r"^(a|b)\1$", "ab", "c"),
        (r"\bend$", "bend", "x"),
        (r"^(?=a)b|c$", "b", "d"),
    ] {
        let schema = json!({"type": "object", "properties": {"p": {"type": "string", "pattern": pattern}}});
        let error = compile(&schema, false).err().unwrap_or_else(|| panic!("{pattern} is taken"));
        assert!(matches!(&error, Error::Unsupported(what) if what.contains("#/properties/p/pattern")), "{error}");
        let grammar = compile(&schema, true).unwrap();
        assert!(grammar.notes()[0].contains("\"#/properties/p/pattern\""), "{:?}", grammar.notes());
        assert!(takes(&grammar, &json!({"p": text}).to_string()), "{pattern}");
        assert!(!takes(&grammar, &json!({"p": other}).to_string()), "{pattern}");
    }
}

/// Numbers within bounds are accepted and all others rejected; the oracle compares the numbers.
#[test]
fn bounds_of_numbers_are_exact() {
    let bounds = [
        0.99, 0.5, 0.25, 1.5, 2.75, 10.05, -0.5, -1.25, -0.99, 0.1, 100.5, 3.0, 0.001, 12.34, -12.34, 0.95, 0.0, -3.0,
        1.0, 10.0, -0.05, 999.999, 0.15, 0.55, -100.0,
    ];
    let values = [
        "0", "0.9", "0.99", "0.95", "0.5", "0.2", "0.25", "1", "1.5", "1.2", "2.7", "2.75", "10", "10.0", "10.05",
        "10.1", "-0.5", "-0.4", "-1", "-1.2", "-1.25", "-1.3", "-0.9", "-0.99", "0.1", "0.001", "0.01", "12.3",
        "12.34", "12", "-12.3", "-12.34", "-12", "100", "100.5", "3", "2", "-3", "0.9999", "1.0", "5", "3.5", "-3.5",
        "3.0001", "-3.001", "0.0001", "-0.0001", "999.9", "1000", "-100", "-99.9", "0.50", "0.51",
    ];
    let mut schemas = Vec::new();
    let names = [
        ("minimum", "maximum"),
        ("exclusiveMinimum", "exclusiveMaximum"),
        ("minimum", "exclusiveMaximum"),
        ("exclusiveMinimum", "maximum"),
    ];
    for a in bounds {
        for name in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
            schemas.push(json!({"type": "number", name: a}));
        }
    }
    for (i, a) in bounds.iter().enumerate() {
        for (j, b) in bounds.iter().enumerate().filter(|pair| a < pair.1) {
            let (low, high) = names[(i + j) % 4];
            schemas.push(json!({"type": "number", low: a, high: b}));
            if (i + j) % 3 == 0 {
                schemas.push(json!({"type": "integer", low: a, high: b}));
                schemas.push(json!({"allOf": [{"type": "number", low: a}, {high: b}]}));
            }
        }
    }
    let mut wrong = Vec::new();
    for schema in &schemas {
        let judge = jsonschema::validator_for(schema).unwrap();
        let grammar = match compile(schema, false) {
            Ok(grammar) => Some(grammar),
            Err(e) if e.to_string().contains("Unsatisfiable") => None,
            Err(e) => panic!("{schema}: {e}"),
        };
        for text in values {
            let value: Json = serde_json::from_str(text).unwrap();
            let mut want = judge.is_valid(&value);
            // Integers have no decimals.
            want &= schema["type"] != "integer" || !text.contains('.');
            let got = grammar.as_ref().is_some_and(|grammar| takes(grammar, text));
            // One way to write a number is enough.
            let is_spare = text.contains('.') && text.ends_with('0');
            if got != want && !(want && is_spare) {
                wrong.push(format!("{schema}: {text} is {}", if got { "taken" } else { "refused" }));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), schemas.len(), wrong.join("\n"));
}

/// Multiples are accepted and other numbers rejected, with any number of decimals. The oracle computes with integers.
#[test]
fn multiples_of_fractions_are_exact() {
    const UNITS: i64 = 10_000;
    let units = |text: &str| {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let size: i64 = format!("{}{fraction:0<4}", whole.trim_start_matches('-')).parse().unwrap();
        if text.starts_with('-') { -size } else { size }
    };
    let decimals = |n: i64, digits: u32| {
        let (sign, scale, n) = (if n < 0 { "-" } else { "" }, 10i64.pow(digits), n.abs());
        match digits {
            0 => format!("{sign}{n}"),
            _ => format!("{sign}{}.{:0width$}", n / scale, n % scale, width = digits as usize),
        }
    };
    let mut texts: Vec<String> =
        (0..=3).flat_map(|digits| (-30..60).map(move |n| (n, digits))).map(|(n, digits)| decimals(n, digits)).collect();
    texts.extend(
        ["0.0625", "1.0625", "0.0626", "12.5", "99.75", "0.3125", "1.25", "1.75", "0.155", "0.15"].map(str::to_owned),
    );
    let ranges = [
        json!({}),
        json!({"minimum": 0, "maximum": 1}),
        json!({"exclusiveMinimum": -0.15, "maximum": 0.155}),
        json!({"minimum": 0.1}),
    ];
    let mut wrong = Vec::new();
    for step in ["0.25", "0.05", "0.5", "0.125", "0.75", "0.0625", "0.07", "1.5", "2.5", "12.5", "0.01", "3"] {
        for kind in ["number", "integer"] {
            for range in &ranges {
                let mut schema = json!({"type": kind, "multipleOf": step.parse::<f64>().unwrap()});
                schema.as_object_mut().unwrap().extend(range.as_object().unwrap().clone());
                let grammar = match compile(&schema, false) {
                    Ok(grammar) => Some(grammar),
                    Err(e) if e.to_string().contains("Unsatisfiable") => None,
                    Err(e) => panic!("{schema}: {e}"),
                };
                let bound = |name: &str| range.get(name).map(|bound| units(&bound.to_string()));
                for text in &texts {
                    let value = units(text);
                    let is_within = bound("minimum").is_none_or(|least| value >= least)
                        && bound("exclusiveMinimum").is_none_or(|least| value > least)
                        && bound("maximum").is_none_or(|most| value <= most);
                    let is_written = kind == "number" || !text.contains('.');
                    let want = is_within && is_written && value % units(step) == 0;
                    let got = grammar.as_ref().is_some_and(|grammar| takes(grammar, text));
                    // One way to write a number is enough.
                    let is_spare = text.starts_with("-0") && value == 0 || text.contains('.') && text.ends_with('0');
                    if got != want && !(want && is_spare) {
                        wrong.push(format!("{schema}: {text} is {}", if got { "taken" } else { "refused" }));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(UNITS, units("1"));
    // Whole numbers with a point have all their digits, and the parser has no more than some.
    let large = compile(&json!({"type": "number", "multipleOf": 3_000_000.0}), false).err().unwrap();
    assert!(matches!(&large, Error::TooComplex(what) if what.contains("3000000")), "{large}");
    for step in [0.000_000_001, 0.53] {
        let error = compile(&json!({"type": "number", "multipleOf": step}), false).err().unwrap();
        assert!(matches!(&error, Error::Unsupported(what) if what.contains("\"#/multipleOf\"")), "{error}");
    }
}

/// Keywords that others can express exactly are rewritten, not left out.
#[test]
fn names_and_what_is_not_evaluated_are_held() {
    let values = [
        json!({}),
        json!({"a": 1}),
        json!({"a": "x"}),
        json!({"b": 1}),
        json!({"x-1": 1}),
        json!({"x-1": "x"}),
        json!({"long name": 1}),
        json!({"a": 1, "b": 1}),
        json!({"a": 1, "c": 1}),
        json!({"a": 1, "b": 1, "c": 1}),
        json!("a"),
    ];
    let base = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    for schema in [
        json!({"propertyNames": {"type": "string"}}),
        json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "propertyNames": {"const": "a"}}),
        json!({"type": "object", "propertyNames": {"pattern": "^x-"}, "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "propertyNames": {"maxLength": 2}}),
        json!({"type": "object", "propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": ["b"]}}}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "long name": {}}, "propertyNames": {"maxLength": 2}}),
        json!({"type": "object", "properties": {"a": {}}, "unevaluatedProperties": false}),
        json!({"allOf": [base], "type": "object", "properties": {"b": {}}, "unevaluatedProperties": false}),
        json!({"$ref": "#/$defs/b", "properties": {"b": {}}, "unevaluatedProperties": {"type": "string"}, "$defs": {"b": base}}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}, "unevaluatedProperties": false}),
        json!({"type": "string", "uniqueItems": true, "maxLength": 2.0}),
        json!({"type": "array", "uniqueItems": true, "maxItems": 1.0}),
    ] {
        let judge = jsonschema::validator_for(&schema).unwrap();
        let grammar = exact(&schema);
        for value in &values {
            assert_eq!(takes(&grammar, &value.to_string()), judge.is_valid(value), "{schema}: {value}");
        }
    }
}

/// Texts about a schema are no part of its grammar: they neither count nor cost.
#[test]
fn annotations_do_not_count() {
    let long = "a sentence about it. ".repeat(20_000);
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": long, "description": long,
        "type": "object", "examples": [long], "$comment": long, "default": {"a": long}, "x-vendor": long,
        "properties": {"a": {"type": "integer", "description": long}, "description": {"type": "integer"}},
        "$defs": {"unused": {"enum": [long]}}, "required": ["a"], "additionalProperties": false});
    let grammar = exact(&schema);
    assert!(takes(&grammar, r#"{"a":1}"#) && takes(&grammar, r#"{"a":1,"description":2}"#));
    assert!(!takes(&grammar, r#"{"description":2}"#) && grammar.notes().is_empty());
    let large = json!({"enum": [long]});
    let error = compile(&large, false).err().unwrap();
    assert!(matches!(&error, Error::TooComplex(what) if what.contains("must have at most 262144")), "{error}");
    // References into what would be an annotation.
    let odd = json!({"$ref": "#/components/schemas/a", "components": {"schemas": {"a": {"const": 1}}}});
    assert!(takes(&exact(&odd), "1") && !takes(&exact(&odd), "2"));
}

/// Python's `ipaddress` says which are addresses.
#[test]
fn addresses_may_end_in_those_of_version_4() {
    let grammar = exact(&json!({"type": "string", "format": "ipv6"}));
    for (text, want) in [
        ("::", true),
        ("::1", true),
        ("1::", true),
        ("2001:db8::1", true),
        ("1:2:3:4:5:6:7:8", true),
        ("::ffff:192.0.2.128", true),
        ("1:2:3:4:5:6:192.0.2.1", true),
        ("64:ff9b::192.0.2.33", true),
        ("1:2:3:4:5:6:7::", true),
        ("::2:3:4:5:6:7:8", true),
        ("1:2:3:4:5::192.0.2.1", true),
        ("::192.0.2.1", true),
        ("1:2:3:4:5:6:7:192.0.2.1", false),
        ("1:2:3:4:5:6:7:8::", false),
        ("::192.0.2.256", false),
        ("1::2::3", false),
        ("192.0.2.1", false),
        ("1:2:3", false),
        ("12345::", false),
        ("::1.2.3", false),
        (":::", false),
        ("", false),
        ("1:2:3:4:5:6::192.0.2.1", false),
        ("::192.0.2.1:1", false),
    ] {
        assert_eq!(takes(&grammar, &json!(text).to_string()), want, "{text}");
    }
}

/// A slash stands for itself, however the schema's text writes it.
#[test]
fn escaped_slashes_of_a_schema_are_slashes() {
    for schema in [r#"{"const": "a\/b"}"#, r#"{"enum": ["a\/b", "c"]}"#, r#"{"type": "string", "pattern": "^a\\/b$"}"#]
    {
        let grammar = on_new_thread(|| MODEL.grammar(&GrammarText::new(GrammarKind::JsonSchema, schema))).unwrap();
        assert!(takes(&grammar, r#""a/b""#), "{schema}");
        assert!(!takes(&grammar, r#""a""#), "{schema}");
    }
}

/// Schemas that no grammar can enforce become looser step by step, and a note says so.
#[test]
fn best_effort_ends_with_what_compiles() {
    let huge = |n: usize| json!({"type": "string", "pattern": format!("^(?:(a|b)*a(a|b){{{n}}})$")});
    for (schema, word) in [
        (json!({"type": "object", "properties": {"a": {"type": "strin"}, "b": {"type": "integer"}}}), "names"),
        (
            json!({"type": "object", "properties": {"a": huge(400)}, "patternProperties": {"^a": {}, "b$": {}}}),
            "patterns",
        ),
        (json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}), "$ref"),
        (json!({"type": "object", "minProperties": "2"}), "minProperties"),
        (json!({"type": "object", "properties": {"a": {"const": 18446744073709551615u64}}}), "const"),
    ] {
        assert!(compile(&schema, false).is_err(), "{schema}");
        let grammar = compile(&schema, true).unwrap_or_else(|e| panic!("{schema}: {e}"));
        assert!(grammar.notes()[0].contains(word) && grammar.notes().len() == 1, "{schema}: {:?}", grammar.notes());
        assert!(takes(&grammar, "{}") && !takes(&grammar, "1"), "{schema}");
    }
    let regex = GrammarText { best_effort: true, ..GrammarText::new(GrammarKind::Regex, "a") };
    assert!(matches!(on_new_thread(|| MODEL.grammar(&regex)), Err(Error::InvalidArgument(_))));
}

/// Counts of members that the parser cannot hold are left out of closed objects too, and empty keywords say nothing.
#[test]
fn counts_of_closed_objects_leave_them_writable() {
    let filter =
        json!({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false, "minProperties": 2});
    let schema = json!({"type": "object", "properties": {"filter": filter}, "additionalProperties": false});
    let grammar = compile(&schema, true).unwrap();
    assert!(takes(&grammar, r#"{"filter":{"a":1,"b":2}}"#) && !takes(&grammar, r#"{"filter":{"c":1}}"#));
    assert!(
        grammar.notes().iter().any(|note| note.contains("#/properties/filter/minProperties")),
        "{:?}",
        grammar.notes()
    );
    for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false, keyword: {}});
        let grammar = compile(&schema, false).unwrap_or_else(|e| panic!("{keyword}: {e}"));
        assert!(takes(&grammar, r#"{"a":1}"#) && !takes(&grammar, r#"{"a":"b"}"#), "{keyword}");
    }
}

/// Schemas that make rewriting expensive end with a status, and those of the usual size compile.
#[test]
fn the_work_of_a_schema_is_bounded() {
    let names = |n: usize| (0..n).map(|i| (format!("name{i}"), json!({"type": "string", "title": "t"})));
    let members: serde_json::Map<String, Json> = names(10_000).collect();
    let listed: Vec<String> = names(10_000).map(|(name, _)| name).collect();
    let diamond = |keyword: &str, n: usize| {
        let level = |i: usize| {
            (
                format!("d{i}"),
                json!({keyword: [{"$ref": format!("#/$defs/d{}", i + 1)}, {"$ref": format!("#/$defs/d{}", i + 1)}]}),
            )
        };
        let mut definitions: serde_json::Map<String, Json> = (0..n).map(level).collect();
        definitions.insert(format!("d{n}"), json!({"type": "object", "properties": {"a": {"type": "integer"}}}));
        definitions
    };
    let by_name =
        |schema: Json| (0..3000).map(|i| (format!("n{i}"), schema.clone())).collect::<serde_json::Map<_, _>>();
    let references: serde_json::Map<String, Json> =
        (0..5000).map(|i| (format!("d{i}"), json!({"title": "t", "$ref": format!("#/$defs/d{}", i + 1)}))).collect();
    let options: Vec<Json> =
        (0..400).map(|i| json!({"type": "string", "enum": listed[i..i + 200], "minLength": i % 7})).collect();
    for (what, schema) in [
        ("properties", json!({"type": "object", "properties": members, "additionalProperties": false})),
        ("names", json!({"type": "object", "properties": members, "propertyNames": {"enum": listed}})),
        ("a long pattern", json!({"type": "object", "propertyNames": {"pattern": "(a|b)*c".repeat(30_000)}})),
        (
            "characters",
            json!({"type": "object", "propertyNames": {"pattern": r"\p{L}".repeat(40_000)}, "properties": {"a": {}}}),
        ),
        ("characters", json!({"type": "string", "pattern": r"[^\P{L}]".repeat(30_000)})),
        (
            "patterns",
            json!({"properties": by_name(json!({"propertyNames": {"pattern": r"^\w{1,99}$"}, "properties": {"a": {}}}))}),
        ),
        (
            "copies",
            json!({"properties": by_name(json!({"propertyNames": {"enum": listed[..99]}, "additionalProperties": {"enum": listed[..30]}}))}),
        ),
        ("allOf", json!({"$ref": "#/$defs/d0", "$defs": diamond("allOf", 40)})),
        ("anyOf", json!({"not": {"$ref": "#/$defs/d0"}, "$defs": diamond("anyOf", 40)})),
        ("oneOf", json!({"$ref": "#/$defs/d0", "$defs": diamond("oneOf", 40)})),
        (
            "unevaluated",
            json!({"allOf": [{"$ref": "#/$defs/d0"}], "unevaluatedProperties": false, "$defs": diamond("allOf", 40)}),
        ),
        ("references", json!({"$ref": "#/$defs/d0", "$defs": references})),
        ("options", json!({"oneOf": options})),
    ] {
        for best_effort in [false, true] {
            match compile(&schema, best_effort) {
                Ok(grammar) => assert!(grammar.notes().iter().all(|note| note.len() < 1000), "{what}"),
                Err(Error::TooComplex(_) | Error::Unsupported(_) | Error::InvalidArgument(_)) if !best_effort => {}
                Err(e) => panic!("{what}: {e}"),
            }
        }
    }
}
