//! JSON schemas as the parser takes them: within bounds, with the keywords that it lacks written in those that it has,
//! where that is exact. Relies on `logic` for what follows from a schema.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value as Json, json};

use super::logic::Logic;
use super::pattern;
use crate::error::{Error, Result};

/// Most names in one list of required members; time grows with their square.
const MAX_REQUIRED: usize = 2000;
/// Levels of objects and lists that references reach one after another: each is a level of recursion.
const MAX_LEVELS: usize = 4000;

/// The largest least common multiple that a number is bound to, and the sum of all of a schema: the automaton of a
/// number has a state for each remainder.
const MAX_MULTIPLE: u64 = 4096;
const MAX_MULTIPLES: u64 = 20_000;
/// Schemas that are looked at to find them: each is a level of recursion where one refers to itself.
const MAX_STEPS: usize = 4000;
/// The largest integer up to which the parser computes exactly.
const MAX_EXACT: u64 = 1 << 53;

/// The formats that JSON Schema defines.
#[rustfmt::skip]
const FORMATS: [&str; 19] = [
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex",
];

/// Formats of OpenAPI's registry and of Pydantic, which say how a program keeps or shows a value: notes, which
/// validators pass over.
#[rustfmt::skip]
const NOTES: [&str; 28] = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float", "double", "decimal", "decimal128",
    "double-int", "char", "byte", "binary", "base64", "base64url", "password", "html", "commonmark", "media-range", "http-date",
    "color", "path", "file-path", "directory-path", "json-string",
];

/// A schema for the parser. `left` gets an error for the first keyword that cannot be rewritten exactly and stays where
/// it is, because the parser may not need it.
///
/// # Errors
/// `InvalidArgument` for what is no schema, `Unsupported` for a reference to a part that is rewritten, `TooComplex`
/// beyond the bounds.
pub fn prepared(schema: Json, space: Space, left: &mut Option<Error>) -> Result<Json> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(Error::invalid("the schema is neither an object nor a boolean"));
    }
    let mut schema = schema;
    resolve_escapes(&mut schema)?;
    check_numbers(&schema, "#")?;
    let mut schema = rewritten(schema, left)?;
    check_bounds(&schema)?;
    check_multiples(&schema)?;
    let has_controls = check_controls(&schema)?;
    if let Some(members) = schema.as_object_mut()
        && let Json::Object(options) = members.entry("x-guidance").or_insert_with(|| match space {
            Space::None => json!({"whitespace_flexible": false}),
            Space::One => json!({"whitespace_flexible": false, "item_separator": ", ?", "key_separator": ": ?"}),
            // Without a bound small models write white space for ever.
            Space::Free => json!({"whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,40}"}),
        })
        // Names could be written in a second way, and pass by the schemas that the first one has.
        && !has_controls
    {
        options.entry("json_allowed_escapes").or_insert_with(|| json!(r#"nrbtf\""#));
    }
    Ok(schema)
}

/// True where values or names of members have control characters that are written with `\u` alone. Refuses them where a
/// member may have any name: what is written with `\u` could be that of another.
fn check_controls(schema: &Json) -> Result<bool> {
    let (mut has_controls, mut is_open) = (false, false);
    let mut look = |text: &str| {
        has_controls |= text.contains(|c| c < ' ' && !"\u{8}\t\n\u{c}\r".contains(c) || c == '\x7f');
    };
    visit(schema, &mut |members| {
        ["const", "enum", "required"]
            .iter()
            .filter_map(|name| members.get(*name))
            .for_each(|value| each_text(value, &mut look));
        let names = members.get("properties").and_then(Json::as_object);
        names.into_iter().flat_map(Map::keys).for_each(|name| look(name));
        is_open |= names.is_some_and(|names| !names.is_empty()) && has_open_names(members);
    });
    match has_controls && is_open {
        true => Err(Error::unsupported(
            "the grammar: control characters in a schema whose objects may have further members",
        )),
        false => Ok(has_controls),
    }
}

/// True where members may have names that the schema does not list.
fn has_open_names(members: &Map<String, Json>) -> bool {
    members.get("additionalProperties") != Some(&json!(false)) || members.contains_key("patternProperties")
}

/// The white space between the parts of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Space {
    None,
    /// One space or none after commas and colons.
    One,
    Free,
}

/// Hands on all texts, names of members included.
fn each_text(json: &Json, each: &mut impl FnMut(&str)) {
    match json {
        Json::String(text) => each(text),
        Json::Array(items) => items.iter().for_each(|item| each_text(item, each)),
        Json::Object(members) => members.iter().for_each(|(name, value)| {
            each(name);
            each_text(value, each);
        }),
        _ => {}
    }
}

fn check_bounds(schema: &Json) -> Result<()> {
    let (mut targets, mut most_required) = (Vec::new(), 0);
    visit(schema, &mut |members| {
        if let Some(target) = members.get("$ref").and_then(Json::as_str) {
            targets.push(target);
        }
        most_required = most_required.max(members.get("required").and_then(Json::as_array).map_or(0, Vec::len));
    });
    targets.sort_unstable();
    targets.dedup();
    let places = targets.iter().filter_map(|target| schema.pointer(target.strip_prefix('#')?));
    let levels = height(schema) + places.map(height).sum::<usize>();
    for (n, most, what) in
        [(most_required, MAX_REQUIRED, "required members"), (levels, MAX_LEVELS, "levels of references")]
    {
        if n > most {
            return Err(Error::TooComplex(format!("the schema has {n} {what}, at most {most} are supported")));
        }
    }
    Ok(())
}

/// Has references whose places are escaped (RFC 6901, and percent signs of a fragment) name copies of them that need no
/// escapes, because the parser reads none.
fn resolve_escapes(schema: &mut Json) -> Result<()> {
    let mut escaped = Vec::new();
    visit(schema, &mut |members| {
        let target = members.get("$ref").and_then(Json::as_str).and_then(|target| target.strip_prefix('#'));
        escaped.extend(target.filter(|target| target.contains(['~', '%'])).map(str::to_owned));
    });
    escaped.sort_unstable();
    escaped.dedup();
    let mut names = HashMap::new();
    for (i, target) in escaped.into_iter().enumerate() {
        let place = unescaped(&target).and_then(|place| schema.pointer(&place)).cloned();
        let place = place.ok_or_else(|| Error::invalid(format!("the schema: \"#{target}\" is not found")))?;
        let name = format!("escaped-{i}");
        let definitions = schema.as_object_mut().map(|members| members.entry("$defs").or_insert_with(|| json!({})));
        if let Some(definitions) = definitions.and_then(Json::as_object_mut) {
            definitions.insert(name.clone(), place);
        }
        names.insert(format!("#{target}"), format!("#/$defs/{name}"));
    }
    if !names.is_empty() {
        rename(schema, &names);
    }
    Ok(())
}

/// Decodes the percent signs of a fragment.
fn unescaped(fragment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = fragment.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits =
            std::str::from_utf8(after.get(..2)?).ok().filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

fn rename(json: &mut Json, names: &HashMap<String, String>) {
    match json {
        Json::Object(members) => {
            if let Some(Json::String(target)) = members.get_mut("$ref")
                && let Some(name) = names.get(target)
            {
                target.clone_from(name);
            }
            members.values_mut().for_each(|value| rename(value, names));
        }
        Json::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        _ => {}
    }
}

/// A pattern of what RFC 3339 calls a date or a time, without leap seconds, of which the day decides, and the year 0.
fn time_pattern(format: &str) -> Option<String> {
    let long = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])";
    let short = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)";
    let year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
    let leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
    let date = format!("(?:{year}-(?:{long}|{short}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{leap_year}-02-29)");
    let time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    match format {
        "date" => Some(format!("^{date}$")),
        "time" => Some(format!("^{time}$")),
        "date-time" => Some(format!("^{date}T{time}$")),
        _ => None,
    }
}

/// Refuses a number of members that the parser would reach by one name twice.
fn check_least_members(members: &Map<String, Json>, place: &str) -> Result<()> {
    let Some(least) = members.get("minProperties") else { return Ok(()) };
    let place = format!("\"#{place}/minProperties\"");
    let least = least.as_u64().ok_or_else(|| Error::invalid(format!("the grammar, {place}: {least} members")))?;
    let required = members.get("required").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let n = required.iter().filter_map(Json::as_str).collect::<HashSet<_>>().len() as u64;
    match has_open_names(members) && least > n + 1 {
        true => Err(Error::unsupported(format!(
            "the grammar, {place}: more than one member beyond those in \"required\", which could repeat a name"
        ))),
        false => Ok(()),
    }
}

/// Refuses numbers beyond those that the parser has exactly, which it would round, and multiples of none.
fn check_numbers(json: &Json, place: &str) -> Result<()> {
    const BOUNDS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
    match json {
        Json::Object(members) => members.iter().try_for_each(|(name, value)| {
            let place = format!("{place}/{name}");
            if name == "multipleOf" && value.as_f64().is_some_and(|n| n <= 0.0) {
                return Err(Error::invalid(format!("the grammar, {place:?}: multiples of {value}")));
            }
            let is_value = name == "const" || name == "enum" && value.is_array();
            match is_value || value.is_number() && BOUNDS.contains(&name.as_str()) {
                true => check_exact(value, &place),
                false => check_numbers(value, &place),
            }
        }),
        Json::Array(items) => items.iter().try_for_each(|item| check_numbers(item, place)),
        _ => Ok(()),
    }
}

fn is_exact(n: &serde_json::Number) -> bool {
    let integer = n.as_i64().map(i64::unsigned_abs).or(n.as_u64());
    integer.map_or_else(|| n.as_f64().is_some_and(|x| x.abs() <= MAX_EXACT as f64), |n| n <= MAX_EXACT)
}

fn check_exact(value: &Json, place: &str) -> Result<()> {
    match value {
        Json::Number(n) if !is_exact(n) => {
            Err(Error::unsupported(format!("the grammar, {place:?}: the number {n}, beyond 2^53, would be rounded")))
        }
        Json::Array(items) => items.iter().try_for_each(|item| check_exact(item, place)),
        Json::Object(members) => members.values().try_for_each(|item| check_exact(item, place)),
        _ => Ok(()),
    }
}

/// Refuses numbers that have to be multiples of too much, before the parser makes a state for each remainder.
fn check_multiples(schema: &Json) -> Result<()> {
    // Most schemas have none, or such that it does not matter which of them hold together.
    let mut all = 1u64;
    visit(schema, &mut |members| all = all.saturating_mul(members.get("multipleOf").map_or(1, coefficient)));
    if all <= MAX_MULTIPLE {
        return Ok(());
    }
    let (mut most, mut sum, steps) = (0u64, 0u64, Cell::new(MAX_STEPS));
    visit(schema, &mut |members| {
        let multiple = multiple_of(schema, members, &steps);
        most = most.max(multiple);
        sum = sum.saturating_add(if multiple > 1 { multiple } else { 0 });
    });
    for (n, limit, what) in [(most, MAX_MULTIPLE, "a number"), (sum, MAX_MULTIPLES, "all numbers together")] {
        if n > limit {
            let what = format!("the schema has \"multipleOf\" of {n} for {what}, at most {limit} are supported");
            return Err(Error::TooComplex(what));
        }
    }
    Ok(())
}

/// The least common multiple that a schema and those that hold together with it ask for, at most; without any steps
/// left, too much.
fn multiple_of(root: &Json, members: &Map<String, Json>, steps: &Cell<usize>) -> u64 {
    let Some(left) = steps.get().checked_sub(1) else { return u64::MAX };
    steps.set(left);
    let own = members.get("multipleOf").map_or(1, coefficient);
    let of = |schema: &Json| schema.as_object().map_or(1, |members| multiple_of(root, members, steps));
    let list = |name: &str| members.get(name).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let all = list("allOf").iter().map(of).fold(own, lcm);
    let any = |name: &str| list(name).iter().map(of).max().unwrap_or(1);
    let target = members.get("$ref").and_then(|target| root.pointer(target.as_str()?.strip_prefix('#')?));
    let other = ["if", "then", "else", "not"].into_iter().filter_map(|name| members.get(name)).map(of).fold(1, lcm);
    [any("anyOf"), any("oneOf"), target.map_or(1, of), other].into_iter().fold(all, lcm)
}

/// The digits of a number without its point.
fn coefficient(number: &Json) -> u64 {
    let text = number.to_string();
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let zeros = exponent.parse::<i32>().unwrap_or(0).max(0) as usize;
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = match digits.parse::<u64>() {
        Ok(n) if text.contains('.') => n.to_string().trim_end_matches('0').to_owned(),
        _ => digits + &"0".repeat(zeros.min(30)),
    };
    digits.parse().unwrap_or(u64::MAX).max(1)
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// Hands on every object; the depth of JSON is bounded.
fn visit<'j>(json: &'j Json, each: &mut impl FnMut(&'j Map<String, Json>)) {
    match json {
        Json::Object(members) => {
            each(members);
            members.values().for_each(|value| visit(value, each));
        }
        Json::Array(items) => items.iter().for_each(|item| visit(item, each)),
        _ => {}
    }
}

/// Number of levels of objects and lists.
fn height(json: &Json) -> usize {
    match json {
        Json::Object(members) => 1 + members.values().map(height).max().unwrap_or(0),
        Json::Array(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        _ => 0,
    }
}

/// Rewrites a schema and those that it refers to, each where it stands.
fn rewritten(schema: Json, left: &mut Option<Error>) -> Result<Json> {
    let mut out = schema.clone();
    let mut rewriter = Rewriter { logic: Logic::new(&schema), targets: vec![String::new()], left };
    let mut seen = HashSet::new();
    while let Some(target) = rewriter.targets.pop() {
        if !seen.insert(target.clone()) {
            continue;
        }
        match out.pointer_mut(&target) {
            Some(part) => rewriter.rewrite(part, &target)?,
            // The parser names references to nothing.
            None if schema.pointer(&target).is_none() => {}
            None => {
                let what = format!("a reference to {:?}, a part of what is rewritten", format!("#{target}"));
                return Err(Error::Unsupported(what));
            }
        }
    }
    Ok(out)
}

struct Rewriter<'s> {
    logic: Logic<'s>,
    /// Places that are referred to.
    targets: Vec<String>,
    left: &'s mut Option<Error>,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, schema: &mut Json, place: &str) -> Result<()> {
        let Json::Object(members) = schema else { return Ok(()) };
        let mut all = Vec::new();
        match members.get("format").and_then(Json::as_str) {
            Some(name) if NOTES.contains(&name) => drop(members.shift_remove("format")),
            Some(name) if let Some(pattern) = time_pattern(name) => {
                all.push(json!({"pattern": pattern}));
                members.shift_remove("format");
            }
            Some(name) if !FORMATS.contains(&name) => {
                return Err(Error::unsupported(format!("the grammar, \"#{place}/format\": the format {name:?}")));
            }
            _ => {}
        }
        check_least_members(members, place)?;
        if let Some(target) = members.get("$ref").and_then(|target| target.as_str()?.strip_prefix('#')) {
            self.targets.push(target.trim_end_matches('/').to_owned());
        }
        let context = Json::Object(members.clone());
        for keyword in ["dependencies", "dependentRequired", "dependentSchemas", "if", "not", "oneOf"] {
            let Some(value) = context.get(keyword).filter(|_| self.logic.knows(keyword)) else { continue };
            let rewritten = match keyword {
                "if" => self.condition(value, &context),
                "not" => self.logic.negation(value).map(|schema| vec![schema]).map_err(|why| format!("\"not\"{why}")),
                "oneOf" => self.one_of(value, &context),
                _ => Ok(dependencies(value)),
            };
            self.logic.check()?;
            match rewritten {
                Ok(schemas) if !schemas.is_empty() => {
                    all.extend(schemas);
                    members.shift_remove(keyword);
                    if keyword == "if" {
                        members.shift_remove("then");
                        members.shift_remove("else");
                    }
                }
                Ok(_) => {}
                Err(what) => {
                    let error = || Error::Unsupported(format!("the grammar, \"#{place}\": {what}"));
                    self.left.get_or_insert_with(error);
                }
            }
        }
        if !all.is_empty()
            && let Json::Array(list) = members.entry("allOf").or_insert_with(|| json!([]))
        {
            list.extend(all);
        }
        self.rewrite_parts(members, place)
    }

    fn rewrite_parts(&mut self, members: &mut Map<String, Json>, place: &str) -> Result<()> {
        if let Some(Json::String(text)) = members.get_mut("pattern") {
            *text = pattern::prepared(text);
        }
        for name in ["additionalProperties", "additionalItems", "items", "prefixItems", "allOf", "anyOf", "oneOf"] {
            match members.get_mut(name) {
                Some(Json::Array(list)) => {
                    for (i, schema) in list.iter_mut().enumerate() {
                        self.rewrite(schema, &format!("{place}/{name}/{i}"))?;
                    }
                }
                Some(schema) => self.rewrite(schema, &format!("{place}/{name}"))?,
                None => {}
            }
        }
        for name in ["properties", "patternProperties"] {
            for (key, schema) in members.get_mut(name).and_then(Json::as_object_mut).into_iter().flatten() {
                self.rewrite(schema, &format!("{place}/{name}/{key}"))?;
            }
        }
        if let Some(Json::Object(by_pattern)) = members.get_mut("patternProperties") {
            let parts = std::mem::take(by_pattern).into_iter();
            *by_pattern = parts.map(|(text, schema)| (pattern::prepared(&text), schema)).collect();
        }
        Ok(())
    }

    fn condition(&self, condition: &Json, members: &Json) -> std::result::Result<Vec<Json>, String> {
        let broken = self.logic.negation(condition).map_err(|why| format!("\"if\"{why}"))?;
        let [met, unmet] = ["then", "else"].map(|name| members.get(name).cloned().unwrap_or(json!(true)));
        Ok(vec![json!({"anyOf": [{"allOf": [condition, met]}, {"allOf": [broken, unmet]}]})])
    }

    /// Options of which a value satisfies any one where it satisfies exactly one of the given. `members`: the schema
    /// around them, which it satisfies as well.
    fn one_of(&self, options: &Json, members: &Json) -> std::result::Result<Vec<Json>, String> {
        let options = options.as_array().map_or(&[][..], |list| list);
        let mut others = vec![Vec::new(); options.len()];
        for (i, a) in options.iter().enumerate() {
            for (j, b) in options.iter().enumerate().skip(i + 1) {
                if !self.logic.is_empty(&[members, a, b]) {
                    others[i].push(j);
                    others[j].push(i);
                }
            }
        }
        let option = |(i, others): (usize, &Vec<usize>)| -> std::result::Result<Json, String> {
            let mut all = vec![options[i].clone()];
            for &j in others {
                all.push(self.logic.negation(&options[j]).map_err(|why| {
                    let (first, second) = (i.min(j), i.max(j));
                    format!("\"oneOf\", whose options {first} and {second} may hold at once,{why}")
                })?);
            }
            Ok(if all.len() == 1 { all.remove(0) } else { json!({"allOf": all}) })
        };
        let options = others.iter().enumerate().map(option).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(if options.is_empty() { options } else { vec![json!({"anyOf": options})] })
    }
}

/// Objects either lack a member, or have those or satisfy the schema that depend on it.
fn dependencies(by_name: &Json) -> Vec<Json> {
    let rewritten = |(name, dependent): (&String, &Json)| {
        let has = json!({"type": "object", "required": [name]});
        let dependent = match dependent {
            Json::Array(_) => json!({"required": dependent}),
            Json::Object(_) | Json::Bool(_) => dependent.clone(),
            _ => return None,
        };
        Some(json!({"anyOf": [{"properties": {name: false}}, {"allOf": [has, dependent]}]}))
    };
    by_name.as_object().into_iter().flatten().map(rewritten).collect::<Option<_>>().unwrap_or_default()
}
