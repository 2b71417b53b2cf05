//! Proofs about JSON schemas: that no value satisfies several of them, and negations. Gives up rather than be wrong,
//! and after a number of steps.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value as Json, json};

use super::effort::Steps;

/// Number of value comparisons per step.
const COMPARED: usize = 32;
/// Maximum depth of members and references in a proof or a negation.
const MAX_DEPTH: usize = 24;
/// Maximum characters of all prefixes of excluded texts, which the complement's regular expression contains.
const MAX_BEGINNINGS: usize = 20_000;
/// Integers up to this one are equal as text, as a double, and to validators.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Constraining keywords that are not negated.
#[rustfmt::skip]
const NOT_NEGATED: [&str; 27] = [
    "$dynamicRef", "$recursiveRef", "additionalItems", "additionalProperties", "contains", "contentEncoding",
    "contentMediaType", "contentSchema", "dependencies", "dependentRequired", "dependentSchemas", "else", "format", "if",
    "items", "maxContains", "minContains", "multipleOf", "oneOf", "pattern", "patternProperties", "prefixItems",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
];

/// The types of values, a bit each.
const TYPES: [(&str, u8); 7] = [
    ("null", 1),
    ("boolean", 2),
    ("number", INTEGER | FRACTION),
    ("integer", INTEGER),
    ("string", STRING),
    ("array", ARRAY),
    ("object", OBJECT),
];
const INTEGER: u8 = 4;
const FRACTION: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;
const ALL: u8 = 127;

/// Access to the schemas of one document.
pub struct Logic<'s> {
    root: &'s Json,
    /// Year of the draft, or its number for older ones.
    draft: u32,
    steps: Steps,
}

impl<'s> Logic<'s> {
    /// `steps`: the steps that proofs and negations may take.
    pub fn new(root: &'s Json, steps: Steps) -> Logic<'s> {
        let draft = match root["$schema"].as_str() {
            Some(name) if name.contains("draft-04") => 4,
            Some(name) if name.contains("draft-06") => 6,
            Some(name) if name.contains("draft-07") => 7,
            Some(name) if name.contains("2019-09") => 2019,
            _ => 2020,
        };
        Logic { root, draft, steps }
    }

    /// True if the document's draft is the one that the parser assumes.
    pub fn is_latest(&self) -> bool {
        self.draft == 2020
    }

    /// True for keywords defined by the document's draft.
    pub fn knows(&self, keyword: &str) -> bool {
        let since = match keyword {
            "const" | "contains" | "propertyNames" => 6,
            "if" => 7,
            "dependentRequired"
            | "dependentSchemas"
            | "maxContains"
            | "minContains"
            | "unevaluatedItems"
            | "unevaluatedProperties" => 2019,
            "$recursiveRef" => 2019,
            "$dynamicRef" => 2020,
            _ => 0,
        };
        self.draft >= since
    }

    /// Takes `n` steps. Returns false if not enough are left.
    pub fn take(&self, n: usize) -> bool {
        self.steps.take(n)
    }

    /// Returns the schema that a reference names, in this document only.
    pub fn target(&self, members: &Map<String, Json>) -> Option<&'s Json> {
        self.root.pointer(members.get("$ref")?.as_str()?.strip_prefix('#')?.trim_end_matches('/'))
    }

    /// Drafts up to 7 ignore keywords next to a reference.
    fn is_only_reference(&self, members: &Map<String, Json>) -> bool {
        self.draft <= 7 && members.contains_key("$ref")
    }

    /// True if provably no value satisfies all of `schemas`.
    pub fn is_empty(&self, schemas: &[&Json]) -> bool {
        self.excludes(schemas, &[], 0)
    }

    /// `split`: disjunctions that were already split; `schemas` contains one option of each.
    fn excludes(&self, schemas: &[&Json], split: &[&[Json]], depth: usize) -> bool {
        let Some(all) = self.conjuncts(schemas) else { return true };
        if depth > MAX_DEPTH {
            return false;
        }
        let value_lists: Vec<Vec<&Json>> = all.iter().flat_map(|members| self.values(members)).collect();
        let n_others = value_lists.iter().skip(1).map(Vec::len).sum::<usize>() + all.len();
        if !self.take(value_lists.first().map_or(0, |first| first.len().saturating_mul(n_others) / COMPARED)) {
            return false;
        }
        if let Some((first, others)) = value_lists.split_first() {
            let is_possible = |value: &&&Json| {
                others.iter().all(|list| list.iter().any(|other| are_same(value, other)))
                    && all.iter().all(|members| may_hold(members, value))
            };
            if !first.iter().any(|value| is_possible(&value)) {
                return true;
            }
        } else {
            let mut types = all.iter().fold(ALL, |types, members| types & allowed_types(members));
            let bounds = |least, most| is_crossed(&all, least, most);
            if is_range_empty(&all) {
                types &= !(INTEGER | FRACTION);
            }
            if bounds("minLength", "maxLength") {
                types &= !STRING;
            }
            if bounds("minItems", "maxItems") {
                types &= !ARRAY;
            }
            if types & OBJECT != 0 && (bounds("minProperties", "maxProperties") || self.no_object(&all, depth)) {
                types &= !OBJECT;
            }
            if types == 0 {
                return true;
            }
        }
        let options = all.iter().flat_map(|members| ["anyOf", "oneOf"].map(|name| members.get(name)));
        let options = options.filter_map(|list| list?.as_array());
        let Some(options) = options.into_iter().find(|list| !split.iter().any(|other| std::ptr::eq(*other, &list[..])))
        else {
            return false;
        };
        let split: Vec<&[Json]> = split.iter().copied().chain([&options[..]]).collect();
        options.iter().all(|option| {
            let with: Vec<&Json> = schemas.iter().copied().chain([option]).collect();
            self.excludes(&with, &split, depth + 1)
        })
    }

    /// Returns the schemas that a value must satisfy, including reference targets; `None` if one of them is `false`.
    /// Omissions make a proof harder, but never wrong.
    fn conjuncts<'a>(&self, schemas: &[&'a Json]) -> Option<Vec<&'a Map<String, Json>>>
    where
        's: 'a,
    {
        let (mut pending, mut out): (Vec<&'a Json>, Vec<&'a Map<String, Json>>) = (schemas.to_vec(), Vec::new());
        let mut seen: HashSet<*const Map<String, Json>> = HashSet::new();
        while let Some(schema) = pending.pop() {
            match schema {
                Json::Bool(false) => return None,
                Json::Object(members) if seen.insert(members) => {
                    if !self.take(1) {
                        break;
                    }
                    pending.extend(self.target(members));
                    if !self.is_only_reference(members) {
                        pending.extend(members.get("allOf").and_then(Json::as_array).into_iter().flatten());
                        out.push(members);
                    }
                }
                _ => {}
            }
        }
        Some(out)
    }

    /// Returns the lists of allowed values in a schema.
    fn values<'a>(&self, members: &'a Map<String, Json>) -> Vec<Vec<&'a Json>> {
        let one = members.get("const").filter(|_| self.knows("const")).map(|value| vec![value]);
        let some = members.get("enum").and_then(Json::as_array).map(|values| values.iter().collect());
        one.into_iter().chain(some).collect()
    }

    /// Schemas of all values except the given ones.
    fn other_values(&self, values: &[Json]) -> std::result::Result<Vec<Json>, String> {
        let out = other_values(values)?;
        let mut texts = out.iter().filter_map(|schema| schema["pattern"].as_str());
        let is_left = self.take(values.len()) && texts.all(|text| self.steps.take_bytes(text.len()));
        if is_left { Ok(out) } else { Err("so many values".to_owned()) }
    }

    /// True if a required member can have no value, or too many members are required.
    fn no_object(&self, all: &[&Map<String, Json>], depth: usize) -> bool {
        let mut required: Vec<&str> = all.iter().copied().flat_map(required).collect();
        required.sort_unstable();
        required.dedup();
        let most = all.iter().filter_map(|members| members.get("maxProperties")?.as_u64()).min();
        let is_too_many = most.is_some_and(|most| required.len() as u64 > most);
        is_too_many
            || required.into_iter().any(|name| {
                let schemas =
                    all.iter().filter_map(|members| match members.get("properties").and_then(|p| p.get(name)) {
                        Some(schema) => Some(schema),
                        None if members.contains_key("patternProperties") => None,
                        None => members.get("additionalProperties"),
                    });
                let schemas: Vec<&Json> = schemas.collect();
                !schemas.is_empty() && self.excludes(&schemas, &[], depth + 1)
            })
    }

    /// Returns the schema of all values that do not satisfy `schema`, or why it cannot be written.
    pub fn negation(&self, schema: &Json) -> std::result::Result<Json, String> {
        self.negated(schema, 0).map_err(|keyword| format!(" needs the negation of {keyword}, which is not written"))
    }

    fn negated(&self, schema: &Json, depth: usize) -> std::result::Result<Json, String> {
        let members = match schema {
            Json::Bool(all) => return Ok(Json::Bool(!all)),
            Json::Object(members) => members,
            _ => return Err("a schema that is none".to_owned()),
        };
        if depth > MAX_DEPTH || !self.take(1 + members.len()) {
            return Err("$ref".to_owned());
        }
        // A value must violate one of the keywords.
        let mut options = Vec::new();
        for (key, value) in members {
            if self.is_only_reference(members) && key != "$ref" {
                continue;
            }
            let all = |list: &Json| -> std::result::Result<Vec<Json>, String> {
                list.as_array().into_iter().flatten().map(|part| self.negated(part, depth + 1)).collect()
            };
            let is_flag = |name: &str| members.get(name) == Some(&Json::Bool(true));
            match key.as_str() {
                "$ref" => {
                    let target = self.target(members).ok_or("$ref")?;
                    options.push(self.negated(target, depth + 1)?);
                }
                "type" => options.push(other_types(value)?),
                "const" if self.knows("const") => options.extend(self.other_values(std::slice::from_ref(value))?),
                "enum" => options.extend(self.other_values(value.as_array().ok_or("enum")?)?),
                "allOf" => options.extend(all(value)?),
                "anyOf" => options.push(json!({"allOf": all(value)?})),
                "not" => options.push(value.clone()),
                "required" => options.extend(required(members).map(absent)),
                "properties" => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        let member = self.negated(schema, depth + 1)?;
                        options.push(json!({"type": "object", "required": [name], "properties": {name: member}}));
                    }
                }
                "minimum" if is_flag("exclusiveMinimum") => options.push(json!({"type": "number", "maximum": value})),
                "maximum" if is_flag("exclusiveMaximum") => options.push(json!({"type": "number", "minimum": value})),
                "minimum" => options.push(json!({"type": "number", "exclusiveMaximum": value})),
                "maximum" => options.push(json!({"type": "number", "exclusiveMinimum": value})),
                "exclusiveMinimum" if value.is_number() => options.push(json!({"type": "number", "maximum": value})),
                "exclusiveMaximum" if value.is_number() => options.push(json!({"type": "number", "minimum": value})),
                "minLength" | "minItems" | "minProperties" | "maxLength" | "maxItems" | "maxProperties" => {
                    let n = value.as_u64().ok_or(key)?;
                    let (side, what) = key.split_at(3);
                    let kind = match what {
                        "Length" => "string",
                        "Items" => "array",
                        _ => "object",
                    };
                    match side {
                        "min" if n == 0 => {}
                        "min" => options.push(json!({"type": kind, format!("max{what}"): n - 1})),
                        _ => options.push(json!({"type": kind, format!("min{what}"): n.checked_add(1).ok_or(key)?})),
                    }
                }
                _ if NOT_NEGATED.contains(&key.as_str()) && !says_nothing(key, value) => return Err(key.clone()),
                _ => {}
            }
        }
        options.retain(|option| *option != json!(false));
        Ok(match options.len() {
            0 => json!(false),
            1 => options.remove(0),
            _ => json!({"anyOf": options}),
        })
    }
}

/// Objects without a member.
fn absent(name: &str) -> Json {
    json!({"type": "object", "properties": {name: false}})
}

/// True for a keyword with a value that all values satisfy.
fn says_nothing(keyword: &str, value: &Json) -> bool {
    let is_of_parts = ["Items", "Properties", "items", "Names"].iter().any(|end| keyword.ends_with(end));
    match keyword {
        "uniqueItems" => *value == json!(false),
        _ => is_of_parts && (*value == json!(true) || *value == json!({})),
    }
}

fn required(members: &Map<String, Json>) -> impl Iterator<Item = &str> {
    members.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}

fn types_named(names: &Json) -> u8 {
    let bits = |name: &Json| TYPES.iter().find(|(known, _)| name == known).map_or(ALL, |(_, bits)| *bits);
    names.as_array().map_or_else(|| bits(names), |names| names.iter().fold(0, |types, name| types | bits(name)))
}

fn allowed_types(members: &Map<String, Json>) -> u8 {
    members.get("type").map_or(ALL, types_named)
}

/// Returns the possible types of a value: drafts differ in what 1.0 is.
fn type_of(value: &Json) -> u8 {
    match value {
        Json::Null => 1,
        Json::Bool(_) => 2,
        Json::Number(n) if n.as_f64().is_some_and(|n| n.fract() != 0.0) => FRACTION,
        Json::Number(_) => INTEGER | FRACTION,
        Json::String(_) => STRING,
        Json::Array(_) => ARRAY,
        Json::Object(_) => OBJECT,
    }
}

/// Numbers are equal whatever their text.
fn are_same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| are_same(a, b)))
        }
        _ => a == b,
    }
}

/// False if a value violates a schema by its type or size.
fn may_hold(members: &Map<String, Json>, value: &Json) -> bool {
    let count = |name: &str| members.get(name).and_then(Json::as_u64);
    let is_within = |n: usize, what: &str| {
        count(&format!("min{what}")).is_none_or(|least| n as u64 >= least)
            && count(&format!("max{what}")).is_none_or(|most| n as u64 <= most)
    };
    allowed_types(members) & type_of(value) != 0
        && match value {
            Json::Number(_) => !is_range_empty(&[members, &only_number(value)]),
            Json::String(text) => is_within(text.chars().count(), "Length"),
            Json::Array(items) => is_within(items.len(), "Items"),
            Json::Object(value) => {
                is_within(value.len(), "Properties") && required(members).all(|name| value.contains_key(name))
            }
            _ => true,
        }
}

fn only_number(value: &Json) -> Map<String, Json> {
    Map::from_iter(["minimum", "maximum"].map(|name| (name.to_owned(), value.clone())))
}

/// True if the largest minimum is above the smallest maximum.
fn is_crossed(all: &[&Map<String, Json>], least: &str, most: &str) -> bool {
    let bound = |name: &'_ str| all.iter().filter_map(|members| members.get(name)?.as_u64()).collect::<Vec<_>>();
    bound(least).into_iter().max() > bound(most).into_iter().min().or(Some(u64::MAX))
}

/// True if no number is within all bounds.
fn is_range_empty(all: &[&Map<String, Json>]) -> bool {
    // The tighter of two bounds has the larger number, or the same number but exclusive.
    let tightest = |name: &str, exclusive: &str, sign: f64| {
        let bounds = all.iter().flat_map(|members| {
            let number = |name: &str| members.get(name).and_then(Json::as_f64).map(|n| n * sign);
            let is_flag = members.get(exclusive) == Some(&Json::Bool(true));
            [number(name).map(|n| (n, is_flag)), number(exclusive).map(|n| (n, true))]
        });
        bounds.flatten().max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
    };
    match (tightest("minimum", "exclusiveMinimum", 1.0), tightest("maximum", "exclusiveMaximum", -1.0)) {
        (Some((low, low_excluded)), Some((high, high_excluded))) => match low.partial_cmp(&-high) {
            Some(Ordering::Less) => false,
            Some(Ordering::Equal) => low_excluded || high_excluded,
            _ => true,
        },
        _ => false,
    }
}

fn other_types(named: &Json) -> std::result::Result<Json, String> {
    let types = types_named(named);
    if types & (INTEGER | FRACTION) == INTEGER {
        return Err("type \"integer\"".to_owned());
    }
    Ok(types_except(types))
}

fn types_except(types: u8) -> Json {
    let rest: Vec<&str> =
        TYPES.iter().filter(|(name, bits)| types & bits == 0 && *name != "integer").map(|(name, _)| *name).collect();
    if rest.is_empty() { json!(false) } else { json!({"type": rest}) }
}

/// Schemas of all values except the given ones, one schema per type.
fn other_values(values: &[Json]) -> std::result::Result<Vec<Json>, String> {
    let types = values.iter().fold(0, |types, value| types | type_of(value));
    if types & (ARRAY | OBJECT) != 0 {
        return Err("a list or an object as a value".to_owned());
    }
    let mut numbers: Vec<&Json> = values.iter().filter(|value| value.is_number()).collect();
    let number = |value: &Json| value.as_f64().unwrap_or(f64::INFINITY);
    if numbers.iter().any(|value| number(value).abs() > MAX_EXACT) {
        return Err("a number of more than 53 bits".to_owned());
    }
    let numeric = if numbers.is_empty() { 0 } else { INTEGER | FRACTION };
    let mut out = vec![types_except(types | numeric)];
    if let [Json::Bool(one)] = values.iter().filter(|value| value.is_boolean()).collect::<Vec<_>>()[..] {
        out.push(json!({"enum": [!one]}));
    }
    numbers.sort_by(|a, b| number(a).total_cmp(&number(b)));
    if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
        out.push(json!({"type": "number", "exclusiveMaximum": first}));
        for pair in numbers.windows(2).filter(|pair| number(pair[0]) < number(pair[1])) {
            out.push(json!({"type": "number", "exclusiveMinimum": pair[0], "exclusiveMaximum": pair[1]}));
        }
        out.push(json!({"type": "number", "exclusiveMinimum": last}));
    }
    let texts: Vec<Vec<char>> = values.iter().filter_map(|v| Some(v.as_str()?.chars().collect())).collect();
    if texts.iter().map(|text| text.len() * text.len() / 2).sum::<usize>() > MAX_BEGINNINGS {
        return Err("so much text".to_owned());
    }
    if !texts.is_empty() {
        let texts: Vec<&[char]> = texts.iter().map(|text| &text[..]).collect();
        out.push(json!({"type": "string", "pattern": format!("^(?:{})$", other_texts(&texts))}));
    }
    Ok(out)
}

/// Returns a regular expression of all texts except the given ones: texts that end, or continue differently, after a
/// prefix.
fn other_texts(texts: &[&[char]]) -> String {
    let mut beginnings: BTreeMap<&[char], BTreeSet<char>> = BTreeMap::new();
    for text in texts {
        for at in 0..=text.len() {
            beginnings.entry(&text[..at]).or_default().extend(text.get(at));
        }
    }
    let escaped = |chars: &mut dyn Iterator<Item = &char>| -> String {
        chars.map(|c| format!("\\u{{{:x}}}", u32::from(*c))).collect()
    };
    let options = beginnings.iter().map(|(beginning, next)| {
        let start = escaped(&mut beginning.iter());
        let other = if next.is_empty() { "(?s:.)".to_owned() } else { format!("[^{}]", escaped(&mut next.iter())) };
        let end = if texts.contains(beginning) { String::new() } else { format!("|{start}") };
        format!("{start}{other}(?s:.)*{end}")
    });
    options.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Json> {
        let small = prop::sample::select(vec![
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(1.0),
            json!(1.5),
            json!(-2),
            json!(7),
            json!(""),
            json!("a"),
            json!("ab"),
            json!("b\n"),
            json!("abc"),
            json!([]),
            json!({}),
        ]);
        small.prop_recursive(2, 6, 3, |inner| {
            let names = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
                prop::collection::vec((names, inner), 0..3)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    fn schema() -> impl Strategy<Value = Json> {
        let types = prop::sample::subsequence(TYPES.map(|(name, _)| name).to_vec(), 1..4);
        let names = || prop::sample::subsequence(vec!["a", "b", "c"], 1..3);
        let bound = prop::sample::select(vec![
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
        ]);
        let leaf = prop_oneof![
            any::<bool>().prop_map(Json::Bool),
            types.prop_map(|types| json!({"type": types})),
            value().prop_map(|value| json!({"const": value})),
            prop::collection::vec(value(), 1..4).prop_map(|values| json!({"enum": values})),
            (bound, 0..4u8).prop_map(|(name, n)| json!({name: n})),
            names().prop_map(|names| json!({"required": names})),
            any::<bool>().prop_map(|unique| json!({"uniqueItems": unique})),
            (0..4u8, 0..4u8).prop_map(|(n, more)| json!({"minimum": n, "exclusiveMaximum": n + more})),
            Just(json!({"$ref": "#/$defs/text"})),
            Just(json!({"$ref": "#/$defs/named"})),
        ];
        leaf.prop_recursive(3, 12, 3, move |inner| {
            let list = || prop::collection::vec(inner.clone(), 1..3);
            prop_oneof![
                list().prop_map(|list| json!({"allOf": list})),
                list().prop_map(|list| json!({"anyOf": list})),
                list().prop_map(|list| json!({"oneOf": list})),
                inner.clone().prop_map(|one| json!({"not": one})),
                inner.clone().prop_map(|one| json!({"items": one})),
                inner.clone().prop_map(|one| json!({"contains": one})),
                inner.clone().prop_map(|one| json!({"additionalProperties": one})),
                (names(), inner.clone(), inner.clone(), any::<bool>()).prop_map(|(required, a, b, is_open)| {
                    let mut schema = json!({"type": "object", "properties": {"a": a, "b": b}, "required": required});
                    if !is_open {
                        schema["additionalProperties"] = json!(false);
                    }
                    schema
                }),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| {
                    let (mut a, b) = (a, b);
                    if let (Json::Object(a), Json::Object(b)) = (&mut a, b) {
                        a.extend(b);
                    }
                    a
                }),
            ]
        })
    }

    fn document(schema: &Json) -> Json {
        json!({"allOf": [schema], "$defs": {"text": {"type": "string", "minLength": 1},
            "named": {"type": "object", "required": ["a"], "properties": {"a": {"enum": ["a", 1]}}}}})
    }

    fn judge(schema: &Json) -> jsonschema::Validator {
        jsonschema::validator_for(&document(schema)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn nothing_satisfies_what_is_proved_empty(a in schema(), b in schema(), values in prop::collection::vec(value(), 60)) {
            let root = document(&json!(true));
            if Logic::new(&root, Steps::default()).is_empty(&[&a, &b]) {
                let (in_a, in_b) = (judge(&a), judge(&b));
                for value in values {
                    prop_assert!(!(in_a.is_valid(&value) && in_b.is_valid(&value)), "{} {} {}", a, b, value);
                }
            }
        }

        #[test]
        fn a_negation_holds_where_its_schema_does_not(a in schema(), values in prop::collection::vec(value(), 60)) {
            let root = document(&json!(true));
            if let Ok(b) = Logic::new(&root, Steps::default()).negation(&a) {
                let (in_a, in_b) = (judge(&a), judge(&b));
                for value in values {
                    prop_assert!(in_a.is_valid(&value) != in_b.is_valid(&value), "{} {} {}", a, b, value);
                }
            }
        }
    }

    #[test]
    fn schemas_that_exclude_each_other() {
        let root = json!({"$defs": {
            "cat": {"type": "object", "properties": {"kind": {"const": "cat"}}, "required": ["kind"]},
            "dog": {"allOf": [{"type": "object", "required": ["kind"]}, {"properties": {"kind": {"enum": ["dog", "wolf"]}}}]},
            "text": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/word"}]},
            "word": {"enum": ["a", "b"]},
            "tree": {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/tree"}}}}});
        let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let logic = Logic::new(&root, Steps::default());
        let object = json!({"type": "object"});
        for (a, b, want) in [
            (reference("cat"), reference("dog"), true),
            (reference("cat"), json!({"type": "null"}), true),
            (reference("text"), json!({"type": ["null", "array"]}), true),
            (reference("text"), reference("text"), false),
            (reference("tree"), reference("tree"), false),
            (reference("none"), json!({"type": "null"}), false),
            (json!({"type": "integer"}), json!({"type": "number"}), false),
            (json!({"type": "integer"}), json!({"const": 1.5}), true),
            (json!({"enum": [1, 2]}), json!({"enum": [3, 1.0]}), false),
            (json!({"type": "number", "maximum": 3}), json!({"type": "number", "exclusiveMinimum": 3}), true),
            (json!({"type": "number", "maximum": 3}), json!({"type": "number", "minimum": 3}), false),
            (json!({"maximum": 3}), json!({"minimum": 4}), false),
            (json!({"required": ["a"]}), json!({"properties": {"b": {}}, "additionalProperties": false}), false),
            (
                json!({"allOf": [object, {"required": ["a"]}]}),
                json!({"properties": {"b": {}}, "additionalProperties": false}),
                true,
            ),
            (
                json!({"type": "object", "required": ["a"]}),
                json!({"patternProperties": {"^a": {}}, "additionalProperties": false}),
                false,
            ),
        ] {
            assert_eq!(logic.is_empty(&[&a, &b]), want, "{a} {b}");
            assert_eq!(logic.is_empty(&[&b, &a]), want, "{a} {b}");
        }
        // Drafts before `const` ignore it.
        let root = json!({"$schema": "http://json-schema.org/draft-04/schema#"});
        let kind =
            |name: &str| json!({"type": "object", "required": ["kind"], "properties": {"kind": {"const": name}}});
        assert!(!Logic::new(&root, Steps::default()).is_empty(&[&kind("a"), &kind("b")]));
    }

    #[test]
    fn texts_except_some() {
        let texts = ["", "a", "ab", "b]^", "é\n"];
        let all: Vec<Vec<char>> = texts.iter().map(|text| text.chars().collect()).collect();
        let all: Vec<&[char]> = all.iter().map(|text| &text[..]).collect();
        let others = regex_automata::meta::Regex::new(&format!("^(?:{})$", other_texts(&all))).unwrap();
        for text in ["abc", "b", "b]", "b]^^", "c", "é", "é\n\n", "\n", "aa"] {
            assert!(others.is_match(text), "{text:?}");
        }
        assert!(!texts.into_iter().any(|text| others.is_match(text)));
    }
}
