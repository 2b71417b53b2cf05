//! Rewrites JSON schema keywords that are unsupported, or without effect, as supported ones, if the result is exact.
//! Uses `logic` for references.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::logic::Logic;
use super::pattern;

/// Keywords that constrain a value, or contain schemas that do; all others are annotations.
#[rustfmt::skip]
pub const KEYWORDS: [&str; 46] = [
    "$defs", "$dynamicRef", "$recursiveRef", "$ref", "$schema", "additionalItems", "additionalProperties", "allOf",
    "anyOf", "const", "contains", "definitions", "dependencies", "dependentRequired", "dependentSchemas", "else",
    "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength",
    "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
    "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required",
    "then", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
];

/// Keywords whose value is a number of characters, items or members.
#[rustfmt::skip]
pub const COUNTS: [&str; 8] = [
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
];

/// Unsupported keywords that are not rewritten, each with the type that it constrains.
pub const NOT_WRITTEN: [(&str, &str); 9] = [
    ("$dynamicRef", ""),
    ("$recursiveRef", ""),
    ("contains", "array"),
    ("maxContains", "array"),
    ("minContains", "array"),
    ("propertyNames", "object"),
    ("unevaluatedItems", "array"),
    ("unevaluatedProperties", "object"),
    ("uniqueItems", "array"),
];

/// Keywords that apply schemas to the value itself.
const IN_PLACE: [&str; 9] =
    ["$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies"];

/// Maximum bytes of copies of a schema for the names of one `propertyNames`.
const MAX_COPIED: usize = 32 << 10;
/// Maximum bytes of the automaton that matches names against a pattern.
const MAX_AUTOMATON: usize = 1 << 20;
/// Number of steps for building this automaton.
const JUDGE_STEPS: usize = 3000;
/// Maximum depth of references that are followed to find the members that a schema evaluates.
const MAX_DEPTH: usize = 24;

/// True if members may have names that the schema does not list.
pub fn has_open_names(members: &Map<String, Json>) -> bool {
    members.get("additionalProperties") != Some(&json!(false)) || members.contains_key("patternProperties")
}

/// True if the schema's `type` allows values of type `name`; "" stands for any type.
pub fn allows_type(members: &Map<String, Json>, name: &str) -> bool {
    match members.get("type") {
        Some(Json::String(only)) => name.is_empty() || only == name,
        Some(Json::Array(types)) => name.is_empty() || types.iter().any(|other| other == name),
        _ => true,
    }
}

/// True for a keyword that may constrain values of a type.
pub fn constrains(keyword: &str, kind: &str) -> bool {
    let of = match keyword {
        "$defs" | "$schema" | "definitions" | "type" | "then" | "else" => return false,
        "pattern" | "format" | "minLength" | "maxLength" => "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
        "additionalItems" | "contains" | "items" | "maxContains" | "maxItems" | "minContains" | "minItems"
        | "prefixItems" | "unevaluatedItems" | "uniqueItems" => "array",
        "additionalProperties"
        | "dependencies"
        | "dependentRequired"
        | "dependentSchemas"
        | "maxProperties"
        | "minProperties"
        | "patternProperties"
        | "properties"
        | "propertyNames"
        | "required"
        | "unevaluatedProperties" => "object",
        _ => return KEYWORDS.contains(&keyword),
    };
    of == kind
}

/// True for a schema that all values satisfy.
pub fn is_true(schema: &Json) -> bool {
    match schema {
        Json::Bool(all) => *all,
        Json::Object(members) => members.keys().all(|name| !KEYWORDS.contains(&&name[..])),
        _ => false,
    }
}

/// Removes keywords without effect, and rewrites unsupported ones if the result is exact.
pub fn simplify(members: &mut Map<String, Json>, logic: &Logic) {
    for (name, kind) in NOT_WRITTEN {
        if !logic.knows(name) || !allows_type(members, kind) {
            members.shift_remove(name);
        }
    }
    if members.get("uniqueItems").is_some_and(|unique| *unique == json!(false))
        || members.get("maxItems").and_then(Json::as_u64).is_some_and(|most| most <= 1)
    {
        members.shift_remove("uniqueItems");
    }
    if !members.contains_key("contains") || members.get("minContains") == Some(&json!(0)) {
        members.shift_remove("minContains");
        if !members.contains_key("maxContains") {
            members.shift_remove("contains");
        }
    }
    if !members.contains_key("contains") {
        members.shift_remove("maxContains");
    }
    if !members.contains_key("if") {
        members.shift_remove("then");
        members.shift_remove("else");
    }
    if let Some(names) = members.get("propertyNames").cloned()
        && write_names(members, names, logic).is_some()
    {
        members.shift_remove("propertyNames");
    }
    if members.contains_key("unevaluatedProperties") && write_unevaluated(members, logic).is_some() {
        members.shift_remove("unevaluatedProperties");
    }
    if let Some(items) = members.get("unevaluatedItems").cloned() {
        let is_evaluated = is_true(&items) || members.contains_key("items") && !members["items"].is_array();
        let is_plain = IN_PLACE.iter().all(|name| !members.contains_key(*name)) && !members.contains_key("contains");
        if is_evaluated || is_plain {
            members.shift_remove("unevaluatedItems");
        }
        if is_plain && !is_evaluated {
            let name = if members.contains_key("items") { "additionalItems" } else { "items" };
            members.insert(name.to_owned(), items);
        }
    }
}

/// Rewrites `propertyNames` as properties, or as a pattern of their names; `None` if impossible.
fn write_names(members: &mut Map<String, Json>, names: Json, logic: &Logic) -> Option<()> {
    if is_true(&names) {
        return Some(());
    }
    let mut names = names.as_object()?;
    if names.keys().all(|name| name == "$ref" || !KEYWORDS.contains(&&name[..])) {
        names = logic.target(names)?.as_object()?;
    }
    let says: Vec<&str> = names.keys().map(String::as_str).filter(|name| KEYWORDS.contains(name)).collect();
    if says == ["type"] && allows_type(names, "string") {
        return Some(());
    }
    let additional = members.get("additionalProperties").cloned().unwrap_or(json!(true));
    if !allows_type(names, "string") || members.contains_key("patternProperties") {
        return None;
    }
    let says: Vec<&str> = says.into_iter().filter(|name| *name != "type").collect();
    if let ["enum" | "const"] = says[..] {
        let listed = names.get("enum").cloned().unwrap_or_else(|| json!([names["const"]]));
        let listed: Vec<&str> = listed_texts(&listed)?;
        let known: HashSet<&str> = listed.iter().copied().collect();
        let copied = listed.len() * additional.to_string().len();
        if copied > MAX_COPIED || !logic.take(1 + listed.len() + copied / 32) {
            return None;
        }
        let properties = properties_of(members)?;
        for (name, schema) in properties.iter_mut() {
            if !known.contains(&name[..]) {
                *schema = json!(false);
            }
        }
        for name in listed {
            properties.entry(name).or_insert_with(|| additional.clone());
        }
        members.insert("additionalProperties".to_owned(), json!(false));
        return Some(());
    }
    let text = match says[..] {
        ["pattern"] => names["pattern"].as_str()?.to_owned(),
        ["minLength"] | ["maxLength"] | ["minLength", "maxLength"] | ["maxLength", "minLength"] => {
            let length = |name: &str| names.get(name).map(|n| n.as_u64().map(|n| n.to_string())).unwrap_or_default();
            let most = if names.contains_key("maxLength") { length("maxLength")? } else { String::new() };
            format!("^[^]{{{},{most}}}$", length("minLength").unwrap_or_else(|| "0".to_owned()))
        }
        _ => return None,
    };
    if !logic.take(pattern::cost(&text)) {
        return None;
    }
    let judge = pattern::prepared(&text, false).ok().filter(|pattern| pattern.ahead.is_empty())?;
    let properties = properties_of(members)?;
    if !properties.is_empty() {
        if !logic.take(JUDGE_STEPS + properties.len()) {
            return None;
        }
        let bounds = regex_automata::meta::Config::new().nfa_size_limit(Some(MAX_AUTOMATON));
        let judge = regex_automata::meta::Builder::new().configure(bounds).build(&judge.text).ok()?;
        for (name, schema) in properties.iter_mut() {
            match judge.is_match(name.as_bytes()) {
                // Named members must satisfy the schemas of patterns too.
                true if !is_true(&additional) => return None,
                true => {}
                false => *schema = json!(false),
            }
        }
    }
    members.insert("patternProperties".to_owned(), json!({text: additional}));
    members.insert("additionalProperties".to_owned(), json!(false));
    Some(())
}

fn listed_texts(list: &Json) -> Option<Vec<&str>> {
    Some(list.as_array()?.iter().filter_map(Json::as_str).collect())
}

fn properties_of(members: &mut Map<String, Json>) -> Option<&mut Map<String, Json>> {
    members.entry("properties").or_insert_with(|| json!({})).as_object_mut()
}

/// Rewrites `unevaluatedProperties` as `additionalProperties`; `None` if impossible.
fn write_unevaluated(members: &mut Map<String, Json>, logic: &Logic) -> Option<()> {
    let unevaluated = members["unevaluatedProperties"].clone();
    if is_true(&unevaluated) {
        return Some(());
    }
    let mut names = Vec::new();
    if !evaluated(members, logic, 0, &mut names)? {
        let properties = properties_of(members)?;
        for name in names {
            properties.entry(name).or_insert(json!(true));
        }
        members.insert("additionalProperties".to_owned(), unevaluated);
    }
    Some(())
}

/// Collects the names of members that a schema evaluates in every object; returns true if it evaluates all of them,
/// `None` if that depends on the object.
fn evaluated(members: &Map<String, Json>, logic: &Logic, depth: usize, names: &mut Vec<String>) -> Option<bool> {
    let n = members.get("properties").and_then(Json::as_object).map_or(0, Map::len);
    if depth > MAX_DEPTH || !logic.take(1 + n) {
        return None;
    }
    if members.contains_key("additionalProperties") || depth > 0 && members.contains_key("unevaluatedProperties") {
        return Some(true);
    }
    let depends = |name: &str| !["$ref", "allOf"].contains(&name) && members.contains_key(name);
    if IN_PLACE.into_iter().any(depends) || members.contains_key("patternProperties") {
        return None;
    }
    names.extend(
        members.get("properties").and_then(Json::as_object).into_iter().flatten().map(|(name, _)| name.clone()),
    );
    let mut parts: Vec<&Json> = members.get("allOf").and_then(Json::as_array).into_iter().flatten().collect();
    if members.contains_key("$ref") {
        parts.push(logic.target(members)?);
    }
    let mut all = false;
    for part in parts {
        if let Json::Object(part) = part {
            all |= evaluated(part, logic, depth + 1, names)?;
        }
    }
    Some(all)
}
