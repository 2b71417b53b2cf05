//! Limits of time and memory: of a JSON schema, checked before the parser reads it, and of the regular expressions of
//! any grammar, checked before the parser computes with them.

use std::cell::Cell;

use llguidance::derivre::raw::ExprSet;
use llguidance::derivre::{ExprRef, RegexBuilder};
use serde_json::{Map, Value as Json};

use super::multiples::{MAX_MULTIPLE, coefficient};
use crate::error::{Error, Result};

/// Maximum names in a list of required members; time is quadratic in them.
const MAX_REQUIRED: usize = 2000;
/// Maximum named members of an object; time is quadratic in them.
const MAX_MEMBERS: usize = 2000;
/// Maximum depth of objects and lists along a chain of references: each is a level of recursion.
const MAX_LEVELS: usize = 4000;

/// Maximum sum over a schema of the least common multiple of each number's `multipleOf` constraints.
const MAX_MULTIPLES: u64 = 20_000;
/// Maximum number of schemas visited to find these multiples: a self-referential schema recurses once per visit.
const MAX_STEPS: usize = 4000;

/// Maximum optional parts in a row, such as `a?` and `b*`, of one regular expression. The first character may be in any
/// of them, so the parser takes memory and time that are quadratic in their number, in one step that it does not bound.
const MAX_OPTIONAL: usize = 2000;
/// Maximum depth of sequences and repetitions that begin with one another, such as `((a*b)*c)*`: the parser copies the
/// rest of the outer ones at each level, which is quadratic too. The first levels are free.
const MAX_NESTED: usize = 400;
const FREE_NESTED: usize = 8;

/// Rejects regular expressions whose first step would take too long.
pub fn check_expressions(expressions: &ExprSet) -> Result<()> {
    // The tags of sequences, repetitions, and literals before a rest, which the crate does not export.
    let mut sample = RegexBuilder::new();
    let mut tag = |text: &str| Some(sample.mk_regex(text).ok()?).map(|id| sample.exprset().get_tag(id));
    let (Some(sequence), Some(repetition), Some(literal)) = (tag("[ab][cd]"), tag("[ab]*"), tag("ab[cd]")) else {
        return Ok(());
    };
    // The parts of an expression come before it. A sequence is a pair of its first part and its rest.
    let (mut in_a_row, mut nested) = (vec![0usize; expressions.len()], vec![0usize; expressions.len()]);
    let (mut of_rows, mut of_levels) = (0usize, 0usize);
    for id in 1..expressions.len() {
        let expression = ExprRef::new(id as u32);
        let (parts, tag) = (expressions.get_args(expression), expressions.get_tag(expression));
        in_a_row[id] = usize::from(expressions.is_nullable(expression));
        nested[id] = parts.iter().map(|part| nested[part.as_usize()]).max().unwrap_or(0);
        match *parts {
            [first, rest] if tag == sequence => {
                nested[id] = 1 + nested[first.as_usize()];
                let of_first = in_a_row[first.as_usize()];
                if of_first > 0 {
                    nested[id] = nested[id].max(nested[rest.as_usize()]);
                    in_a_row[id] = of_first.saturating_add(in_a_row[rest.as_usize()]);
                    of_rows = of_rows.saturating_add(in_a_row[id]);
                }
            }
            // The rest begins after it, so the parser copies nothing of the outer ones.
            [_] if tag == literal => nested[id] = 0,
            [inner] if tag == repetition => nested[id] = 1 + nested[inner.as_usize()],
            _ => continue,
        }
        of_levels = of_levels.saturating_add(nested[id].saturating_sub(FREE_NESTED));
    }
    // Half the square each: the sum over the ends of one row, and over the levels of one expression.
    for (sum, most, what) in [
        (of_rows, MAX_OPTIONAL, "optional parts in a row"),
        (of_levels, MAX_NESTED, "levels of sequences and repetitions that begin with one another"),
    ] {
        if sum > most * most / 2 {
            let what =
                format!("the grammar has regular expressions with too many {what}; one must have at most {most}");
            return Err(Error::TooComplex(what));
        }
    }
    Ok(())
}

/// Rejects schemas with too many members in an object or too deep references.
pub fn check_bounds(schema: &Json) -> Result<()> {
    let (mut targets, mut most_required, mut most_members) = (Vec::new(), 0, 0);
    visit(schema, &mut |members| {
        if let Some(target) = members.get("$ref").and_then(Json::as_str) {
            targets.push(target);
        }
        most_required = most_required.max(members.get("required").and_then(Json::as_array).map_or(0, Vec::len));
        most_members = most_members.max(members.get("properties").and_then(Json::as_object).map_or(0, Map::len));
    });
    targets.sort_unstable();
    targets.dedup();
    let places = targets.iter().filter_map(|target| schema.pointer(target.strip_prefix('#')?));
    let levels = height(schema) + places.map(height).sum::<usize>();
    for (n, most, what) in [
        (most_required, MAX_REQUIRED, "required members"),
        (most_members, MAX_MEMBERS, "members of one object"),
        (levels, MAX_LEVELS, "levels of references"),
    ] {
        if n > most {
            return Err(Error::TooComplex(format!("the schema has {n} {what}; it must have at most {most}")));
        }
    }
    Ok(())
}

/// Rejects `multipleOf` constraints with too large a least common multiple, before the parser makes a state per
/// remainder.
pub fn check_multiples(schema: &Json) -> Result<()> {
    // Most schemas have no such constraints, or so small ones that any of them may apply together.
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
            let what = format!("the schema has \"multipleOf\" of {n} for {what}; it must be at most {limit}");
            return Err(Error::TooComplex(what));
        }
    }
    Ok(())
}

/// Returns an upper bound of the least common multiple of the `multipleOf` constraints of a schema and all schemas that
/// apply together with it; `u64::MAX` once no steps are left.
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

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// Calls `each` for every object; the depth of JSON is bounded.
pub fn visit<'j>(json: &'j Json, each: &mut impl FnMut(&'j Map<String, Json>)) {
    match json {
        Json::Object(members) => {
            each(members);
            members.values().for_each(|value| visit(value, each));
        }
        Json::Array(items) => items.iter().for_each(|item| visit(item, each)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// Returns the depth of objects and lists.
fn height(json: &Json) -> usize {
    match json {
        Json::Object(members) => 1 + members.values().map(height).max().unwrap_or(0),
        Json::Array(items) => 1 + items.iter().map(height).max().unwrap_or(0),
        _ => 0,
    }
}
