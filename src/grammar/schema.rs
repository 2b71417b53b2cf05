//! JSON schemas as the parser takes them: within bounds, with the keywords that it lacks written in those that it has, where
//! that is exact. Relies on `logic` for what follows from a schema.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::logic::Logic;
use crate::error::{Error, Result};

/// Most names in one list of required members; time grows with their square.
const MAX_REQUIRED: usize = 2000;
/// Levels of objects and lists that references reach one behind another: each is a level of recursion.
const MAX_LEVELS: usize = 4000;

/// The formats that JSON Schema defines. Any other is a note, which validators pass over.
#[rustfmt::skip]
const FORMATS: [&str; 19] = [
    "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex",
];

/// A schema for the parser. `left` gets an error for the first keyword that cannot be rewritten exactly and stays where it is,
/// because the parser may not need it.
///
/// # Errors
/// `InvalidArgument` for what is no schema, `Unsupported` for a reference to a part that is rewritten, `TooComplex` beyond the
/// bounds.
pub fn prepared(schema: Json, left: &mut Option<Error>) -> Result<Json> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(Error::invalid("the schema is neither an object nor a boolean"));
    }
    let mut schema = rewritten(schema, left)?;
    check_bounds(&schema)?;
    // Without a bound small models write white space for ever.
    if let Some(members) = schema.as_object_mut() {
        members.entry("x-guidance").or_insert_with(|| json!({"whitespace_pattern": r"[\x20\x0A\x0D\x09]{1,40}"}));
    }
    Ok(schema)
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
        if members.get("format").and_then(Json::as_str).is_some_and(|name| !FORMATS.contains(&name)) {
            members.remove("format");
        }
        if let Some(target) = members.get("$ref").and_then(|target| target.as_str()?.strip_prefix('#')) {
            self.targets.push(target.trim_end_matches('/').to_owned());
        }
        let context = Json::Object(members.clone());
        let mut all = Vec::new();
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
        Ok(())
    }

    fn condition(&self, condition: &Json, members: &Json) -> std::result::Result<Vec<Json>, String> {
        let broken = self.logic.negation(condition).map_err(|why| format!("\"if\"{why}"))?;
        let [met, unmet] = ["then", "else"].map(|name| members.get(name).cloned().unwrap_or(json!(true)));
        Ok(vec![json!({"anyOf": [{"allOf": [condition, met]}, {"allOf": [broken, unmet]}]})])
    }

    /// Options of which a value satisfies any one where it satisfies exactly one of the given. `members`: the schema around
    /// them, which it satisfies as well.
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
