//! Rewrites JSON schemas: removes annotations, and expresses unsupported keywords by supported ones if the result is
//! exact. Uses `logic` for proofs.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value as Json, json};

use super::effort::Effort;
use super::formats::{self, Format};
use super::keywords::{COUNTS, KEYWORDS, NOT_WRITTEN, allows_type, has_open_names, simplify};
use super::limits::visit;
use super::logic::Logic;
use super::{multiples, numbers, pattern};
use crate::error::{Error, Result};

/// The largest integer up to which the parser is exact.
const MAX_EXACT: u64 = 1 << 53;

/// Number of steps for a pair of name patterns.
const PATTERNS: usize = 20;

/// Rewrites a schema and the schemas it refers to, in place.
pub fn rewritten(schema: Json, effort: &mut Effort) -> Result<Json> {
    let mut out = schema.clone();
    let mut references = BTreeSet::new();
    visit(&schema, &mut |members| {
        let target = members.get("$ref").and_then(|target| target.as_str()?.strip_prefix('#'));
        references.extend(target.map(|target| format!("{target}/")));
    });
    let logic = Logic::new(&schema, effort.steps.clone());
    let mut rewriter = Rewriter { logic, references, targets: vec![String::new()], effort };
    let mut seen = HashSet::new();
    while let Some(target) = rewriter.targets.pop() {
        if !seen.insert(target.clone()) {
            continue;
        }
        match out.pointer_mut(&target) {
            Some(part) => rewriter.rewrite(part, &target)?,
            // The parser reports references without a target.
            None if schema.pointer(&target).is_none() => {}
            None => {
                let what = format!("the schema refers to \"#{target}\", which is part of a keyword that is rewritten");
                return Err(Error::Unsupported(what));
            }
        }
    }
    prune(&mut out, &seen);
    Ok(out)
}

/// Removes unreferenced shared definitions.
fn prune(schema: &mut Json, seen: &HashSet<String>) {
    for folder in ["$defs", "definitions"] {
        let Some(Json::Object(definitions)) = schema.get_mut(folder) else { continue };
        let names = seen.iter().filter_map(|target| target.strip_prefix('/')?.strip_prefix(folder)?.strip_prefix('/'));
        let needed: HashSet<&str> = names.map(|name| name.split_once('/').map_or(name, |(name, _)| name)).collect();
        definitions.retain(|name, _| needed.contains(&name[..]));
    }
}

/// Returns the first number of a value that is not exact as a double.
fn inexact(value: &Json) -> Option<&serde_json::Number> {
    match value {
        Json::Number(n) if !is_exact(n) => Some(n),
        Json::Array(items) => items.iter().find_map(inexact),
        Json::Object(members) => members.values().find_map(inexact),
        _ => None,
    }
}

fn is_exact(n: &serde_json::Number) -> bool {
    let integer = n.as_i64().map(i64::unsigned_abs).or(n.as_u64());
    integer.map_or_else(|| n.as_f64().is_some_and(|x| x.abs() <= MAX_EXACT as f64), |n| n <= MAX_EXACT)
}

struct Rewriter<'s, 'e> {
    logic: Logic<'s>,
    /// All reference targets of the document, with a trailing slash.
    references: BTreeSet<String>,
    /// Referenced places.
    targets: Vec<String>,
    effort: &'e mut Effort,
}

impl Rewriter<'_, '_> {
    fn rewrite(&mut self, schema: &mut Json, place: &str) -> Result<()> {
        let Json::Object(members) = schema else { return Ok(()) };
        self.effort.step(1 + members.len(), place)?;
        self.strip(members, place);
        self.check_numbers(members, place)?;
        let mut all = Vec::new();
        self.format(members, place, &mut all)?;
        self.pattern(members, place, &mut all)?;
        self.read_counts(members, place)?;
        simplify(members, &self.logic);
        self.effort.step(0, place)?;
        for (name, _) in NOT_WRITTEN {
            if members.contains_key(name) {
                self.effort.omit(place, name, "the keyword is not supported")?;
                members.shift_remove(name);
            }
        }
        self.check_counts(members, place)?;
        self.reference(members, place)?;
        self.rewrite_logic(members, place, &mut all)?;
        if !all.is_empty()
            && let Json::Array(list) = members.entry("allOf").or_insert_with(|| json!([]))
        {
            list.extend(all);
        }
        self.rewrite_parts(members, place)?;
        if numbers::has_bounds(members) {
            self.effort.step(20, place)?;
        }
        let multiples = multiples::taken(members).or_else(|why| {
            members.shift_remove("multipleOf");
            self.effort.omit(place, "multipleOf", &why).map(|()| None)
        })?;
        let bounds = numbers::alternatives(members);
        let numbers = match multiples {
            Some(multiples) => Some(multiples.within(bounds)),
            None => bounds,
        };
        if let Some(numbers) = numbers
            && let Json::Array(list) = members.entry("allOf").or_insert_with(|| json!([]))
        {
            list.push(numbers);
        }
        Ok(())
    }

    /// Removes keywords that do not constrain values, unless something refers to a part of them.
    fn strip(&self, members: &mut Map<String, Json>, place: &str) {
        let is_needed = |name: &str| {
            let within = format!("{place}/{name}/");
            let target = self.references.range(within.clone()..).next();
            place.is_empty() && name == "x-guidance" || target.is_some_and(|target| target.starts_with(&within))
        };
        members.retain(|name, _| match &name[..] {
            "$schema" => place.is_empty() && !self.logic.is_latest(),
            "$defs" | "definitions" => is_needed(name),
            name => KEYWORDS.contains(&name) || is_needed(name),
        });
    }

    fn format(&mut self, members: &mut Map<String, Json>, place: &str, all: &mut Vec<Json>) -> Result<()> {
        let Some(name) = members.get("format").and_then(Json::as_str) else { return Ok(()) };
        match formats::find(name) {
            Format::Known if allows_type(members, "string") => return Ok(()),
            Format::Pattern(pattern) => all.push(json!({"pattern": pattern})),
            Format::NotWritten if allows_type(members, "string") => {
                self.effort.omit(place, "format", &format!("the format {name:?} is not supported"))?;
            }
            Format::Known | Format::NotWritten | Format::Annotation => {}
        }
        members.shift_remove("format");
        Ok(())
    }

    /// Records the target of a reference.
    fn reference(&mut self, members: &mut Map<String, Json>, place: &str) -> Result<()> {
        let Some(target) = members.get("$ref").and_then(Json::as_str) else { return Ok(()) };
        let is_found = self.logic.target(members).is_some();
        if let Some(target) = target.strip_prefix('#')
            && (is_found || !self.effort.is_best())
        {
            self.targets.push(target.trim_end_matches('/').to_owned());
        } else if self.effort.is_best() {
            self.effort.omit(place, "$ref", "the reference is not found")?;
            members.shift_remove("$ref");
        }
        Ok(())
    }

    /// Rejects numbers that the parser would round, and multiples of 0.
    fn check_numbers(&mut self, members: &mut Map<String, Json>, place: &str) -> Result<()> {
        for name in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const", "enum"] {
            let Some(value) = members.get(name) else { continue };
            if name == "multipleOf" && value.as_f64().is_some_and(|n| n <= 0.0) && !self.effort.is_best() {
                let place = self.effort.place(&format!("{place}/{name}"));
                return Err(Error::invalid(format!("the grammar, {place:?} is {value}; it must be above 0")));
            }
            let is_wrong = name == "multipleOf" && value.as_f64().is_none_or(|n| n <= 0.0);
            // Such a bound allows every double.
            let (is_minimum, is_maximum) = (name.ends_with("inimum"), name.ends_with("aximum"));
            let is_wide = value.as_f64().is_some_and(|n| is_minimum && n <= -f64::MAX || is_maximum && n >= f64::MAX);
            if let Some(number) = inexact(value)
                && !is_wide
            {
                let why = format!("the number {number}, beyond 2^53, would be rounded");
                self.effort.omit(place, name, &why)?;
            } else if is_wrong && self.effort.is_best() {
                self.effort.omit(place, name, "it is no positive number")?;
            } else if !is_wide {
                continue;
            }
            members.shift_remove(name);
        }
        Ok(())
    }

    /// Reads counts written as `2.0`.
    fn read_counts(&mut self, members: &mut Map<String, Json>, place: &str) -> Result<()> {
        for name in COUNTS {
            let Some(value) = members.get_mut(name) else { continue };
            if let Some(n) = value.as_f64().filter(|n| value.is_f64() && n.fract() == 0.0 && (0.0..1e15).contains(n)) {
                *value = json!(n as u64);
            }
            if !value.is_u64() {
                if !self.effort.is_best() {
                    let place = self.effort.place(&format!("{place}/{name}"));
                    return Err(Error::invalid(format!(
                        "the grammar, {place:?} is {value}; it must be a whole number of at least 0"
                    )));
                }
                self.effort.omit(place, name, "it is no count")?;
                members.shift_remove(name);
            }
        }
        Ok(())
    }

    /// Rejects member counts that the parser could reach by repeating a name, or cannot count.
    fn check_counts(&mut self, members: &mut Map<String, Json>, place: &str) -> Result<()> {
        let count = |name: &str| members.get(name).and_then(Json::as_u64);
        let (least, most) = (count("minProperties").unwrap_or(0), count("maxProperties"));
        let required: HashSet<&str> =
            members.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        let n = required.len() as u64;
        let properties = members.get("properties").and_then(Json::as_object);
        let mut optional = properties.into_iter().flatten().filter(|(name, _)| !required.contains(&name[..]));
        // In a best-effort grammar, the parser decides which members cannot occur.
        let is_optional = |(_, schema): (&String, &Json)| self.effort.is_best() || *schema != json!(false);
        let has_optional = optional.any(is_optional);
        if has_open_names(members) && least > n + 1 {
            let why = "more than one member beyond those in \"required\", which could repeat a name";
            self.effort.omit(place, "minProperties", why)?;
            members.insert("minProperties".to_owned(), json!(n + 1));
        }
        let least = if has_open_names(members) { least.min(n + 1) } else { least }.saturating_sub(n);
        let is_counted = least <= 1 && most.is_none_or(|most| most.saturating_sub(n) == 1) && !has_open_names(members);
        if has_optional && (least > 0 || most.is_some()) && !is_counted {
            for name in ["minProperties", "maxProperties"] {
                if members.shift_remove(name).is_some() {
                    self.effort.omit(place, name, "members that are not required are not counted")?;
                }
            }
        }
        Ok(())
    }

    /// Rewrites conditions, negations, dependencies and exclusive options.
    fn rewrite_logic(&mut self, members: &mut Map<String, Json>, place: &str, all: &mut Vec<Json>) -> Result<()> {
        const REWRITTEN: [&str; 6] = ["dependencies", "dependentRequired", "dependentSchemas", "if", "not", "oneOf"];
        if !REWRITTEN.iter().any(|keyword| members.contains_key(*keyword)) {
            return Ok(());
        }
        let context = Json::Object(members.clone());
        self.effort.step(size(&context), place)?;
        for keyword in REWRITTEN {
            let Some(value) = context.get(keyword).filter(|_| self.logic.knows(keyword)) else { continue };
            let rewritten = match keyword {
                "if" => self.condition(value, &context),
                "not" => self.logic.negation(value).map(|schema| vec![schema]).map_err(|why| format!("it{why}")),
                "oneOf" => self.one_of(value, &context),
                _ => Ok(dependencies(value)),
            };
            self.effort.step(1, place)?;
            let is_if = keyword == "if";
            match rewritten {
                Ok(schemas) if !schemas.is_empty() => {
                    all.extend(schemas);
                    members.shift_remove(keyword);
                    if is_if {
                        members.shift_remove("then");
                        members.shift_remove("else");
                    }
                }
                // An empty object constrains nothing.
                Ok(_) if value.as_object().is_some_and(Map::is_empty) => _ = members.shift_remove(keyword),
                Ok(_) => {}
                Err(what) if self.effort.is_best() => {
                    self.effort.omit(place, keyword, &what)?;
                    members.shift_remove(keyword);
                    if is_if {
                        members.shift_remove("then");
                        members.shift_remove("else");
                    } else if keyword == "oneOf" {
                        all.push(json!({"anyOf": value}));
                    }
                }
                Err(what) => {
                    let place = self.effort.place(&format!("{place}/{keyword}"));
                    let error = || Error::Unsupported(format!("the grammar, {place:?}: {what}"));
                    self.effort.left.get_or_insert_with(error);
                }
            }
        }
        Ok(())
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
        self.name_patterns(members, place)
    }

    /// Translates a pattern for the parser.
    fn pattern(&mut self, members: &mut Map<String, Json>, place: &str, all: &mut Vec<Json>) -> Result<()> {
        let Some(text) = members.get("pattern").and_then(Json::as_str) else { return Ok(()) };
        self.effort.step(pattern::cost(text), place)?;
        match pattern::prepared(text, self.effort.is_best()) {
            Ok(pattern) => {
                all.extend(pattern.ahead.into_iter().map(|text| json!({"pattern": text})));
                members.insert("pattern".to_owned(), pattern.text.into());
                match pattern.weaker {
                    Some(why) => self.effort.omit(place, "pattern", why),
                    None => Ok(()),
                }
            }
            Err(error) if self.effort.is_best() => {
                members.shift_remove("pattern");
                self.effort.omit(place, "pattern", &error.to_string())
            }
            Err(error) => Err(error.of(&format!("the grammar, {:?}", self.effort.place(&format!("{place}/pattern"))))),
        }
    }

    /// Translates name patterns for the parser. If one is omitted, unnamed members may have any value.
    fn name_patterns(&mut self, members: &mut Map<String, Json>, place: &str) -> Result<()> {
        let Some(Json::Object(by_pattern)) = members.get_mut("patternProperties") else { return Ok(()) };
        let parts = std::mem::take(by_pattern);
        // The parser compares each pattern with every other one.
        self.effort.step(PATTERNS * parts.len() * parts.len(), place)?;
        let mut is_weaker = false;
        let mut written = Map::new();
        for (text, schema) in parts {
            self.effort.step(pattern::cost(&text), place)?;
            match pattern::prepared(&text, false) {
                Ok(pattern) if pattern.ahead.is_empty() => _ = written.insert(pattern.text, schema),
                Ok(_) => {
                    self.effort.omit(place, "patternProperties", "look-ahead in patterns of names is not supported")?;
                    is_weaker = true;
                }
                Err(error) if self.effort.is_best() => {
                    self.effort.omit(place, "patternProperties", &error.to_string())?;
                    is_weaker = true;
                }
                Err(error) => {
                    let place = self.effort.place(&format!("{place}/patternProperties"));
                    return Err(error.of(&format!("the grammar, {place:?}")));
                }
            }
        }
        if is_weaker {
            members.shift_remove("additionalProperties");
        }
        match written.is_empty() {
            true => _ = members.shift_remove("patternProperties"),
            false => _ = members.insert("patternProperties".to_owned(), written.into()),
        }
        Ok(())
    }

    fn condition(&self, condition: &Json, members: &Json) -> std::result::Result<Vec<Json>, String> {
        let broken = self.logic.negation(condition).map_err(|why| format!("it{why}"))?;
        let [met, unmet] = ["then", "else"].map(|name| members.get(name).cloned().unwrap_or(json!(true)));
        Ok(vec![json!({"anyOf": [{"allOf": [condition, met]}, {"allOf": [broken, unmet]}]})])
    }

    /// Rewrites `oneOf` as `anyOf` over disjoint options. `members`: the schema that contains the `oneOf`, which values
    /// must satisfy too.
    fn one_of(&self, options: &Json, members: &Json) -> std::result::Result<Vec<Json>, String> {
        let options = options.as_array().map_or(&[][..], |list| list);
        let mut others = vec![Vec::new(); options.len()];
        for (i, a) in options.iter().enumerate() {
            if !self.logic.take(options.len() - i) {
                break;
            }
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
                // The caller reports that no steps are left.
                if !self.logic.take(1) {
                    return Err(String::new());
                }
                all.push(self.logic.negation(&options[j]).map_err(|why| {
                    let (first, second) = (i.min(j), i.max(j));
                    format!("options {first} and {second} may hold at once, so it{why}")
                })?);
            }
            Ok(if all.len() == 1 { all.remove(0) } else { json!({"allOf": all}) })
        };
        let options = others.iter().enumerate().map(option).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(if options.is_empty() { options } else { vec![json!({"anyOf": options})] })
    }
}

/// Returns the number of objects, lists and other values.
fn size(json: &Json) -> usize {
    match json {
        Json::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        Json::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => 1,
    }
}

/// Returns alternatives: an object either lacks a member, or satisfies what depends on that member.
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
