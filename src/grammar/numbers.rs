//! Number bounds in the form that the parser takes. The parser incorrectly rejects numbers whose decimals are a prefix
//! of a bound's (0.9 below 0.95), and accepts an excluded integer if the other bound is less than one away.

use serde_json::{Map, Value as Json, json};

use super::keywords::allows_type;

/// Maximum number of decimals of a bound that the parser reads exactly.
const MAX_DECIMALS: usize = 15;
/// Number of decimal digits that a double represents exactly.
const EXACT_DIGITS: i32 = 15;

const BOUNDS: [&str; 4] = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];

/// An inclusive or exclusive bound of a number.
#[derive(Clone, Copy)]
struct Bound {
    value: f64,
    is_excluded: bool,
}

impl Bound {
    /// Returns the opposite bound, for the negated numbers.
    fn negated(self) -> Bound {
        Bound { value: -self.value, ..self }
    }

    /// Returns the lowest lower bound, not below this one, with only as many decimals as the parser reads exactly.
    fn shortened(self) -> Bound {
        match format!("{}", self.value).split_once('.') {
            Some((_, decimals)) if decimals.len() > MAX_DECIMALS => {
                let scale = 10f64.powi(MAX_DECIMALS as i32);
                Bound { value: (self.value * scale).ceil() / scale, ..self }
            }
            _ => self,
        }
    }
}

/// True if a schema has number bounds.
pub fn has_bounds(members: &Map<String, Json>) -> bool {
    BOUNDS.iter().any(|name| members.contains_key(*name))
}

/// Removes the number bounds from a schema and returns equivalent alternatives; `None` if the bounds stay.
pub fn alternatives(members: &mut Map<String, Json>) -> Option<Json> {
    let is_listed = members.contains_key("const") || members.contains_key("enum");
    // The parser reports values that are not bounds.
    let is_wrong = |name: &&str| members.get(*name).is_some_and(|value| !value.is_number() && !value.is_boolean());
    if is_listed || !has_bounds(members) || BOUNDS.iter().any(is_wrong) || !allows_type(members, "number") {
        return None;
    }
    let low = tightest(members, "minimum", "exclusiveMinimum", 1.0);
    let high = tightest(members, "maximum", "exclusiveMaximum", -1.0).map(Bound::negated);
    for name in BOUNDS {
        members.shift_remove(name);
    }
    let low_cut = low.map(Bound::shortened);
    let high_cut = high.map(|bound| bound.negated().shortened().negated());
    let mut out = Vec::new();
    for [low, high] in pieces(low_cut, high_cut) {
        let mut option = Map::new();
        for (bound, name, excluded) in [(low, "minimum", "exclusiveMinimum"), (high, "maximum", "exclusiveMaximum")] {
            if let Some(bound) = bound {
                option.insert(if bound.is_excluded { excluded } else { name }.to_owned(), json!(bound.value));
            }
        }
        out.push(Json::Object(option));
    }
    let is_within = |x: f64| {
        low.is_none_or(|bound| x > bound.value || x == bound.value && !bound.is_excluded)
            && high.is_none_or(|bound| x < bound.value || x == bound.value && !bound.is_excluded)
    };
    let mut points: Vec<f64> =
        [low_cut, high_cut].into_iter().flatten().flat_map(|bound| beginnings(bound.value)).collect();
    points.retain(|x| is_within(*x));
    points.sort_by(f64::total_cmp);
    points.dedup();
    out.extend(points.into_iter().map(|x| json!({"type": "number", "minimum": x, "maximum": x})));
    if let [Json::Object(only)] = &out[..] {
        members.extend(only.clone());
        return None;
    }
    Some(json!({"anyOf": out}))
}

/// Returns the tighter of a schema's bounds on one side, multiplied by `sign`.
fn tightest(members: &Map<String, Json>, name: &str, excluded: &str, sign: f64) -> Option<Bound> {
    let value = |name: &str| members.get(name).and_then(Json::as_f64).map(|x| x * sign);
    let is_flag = members.get(excluded) == Some(&json!(true));
    let bounds = [
        value(name).map(|value| Bound { value, is_excluded: is_flag }),
        value(excluded).map(|value| Bound { value, is_excluded: true }),
    ];
    bounds.into_iter().flatten().max_by(|a, b| a.value.total_cmp(&b.value).then(a.is_excluded.cmp(&b.is_excluded)))
}

/// Returns ranges that together contain the numbers between two bounds. No range both excludes an integer and has its
/// other bound less than one away. Omits numbers closer to an excluded integer than a double can represent.
fn pieces(low: Option<Bound>, high: Option<Bound>) -> Vec<[Option<Bound>; 2]> {
    let step = |n: f64| 10f64.powi(format!("{}", n.abs()).len() as i32 - EXACT_DIGITS);
    let is_integer = |bound: &Bound| bound.is_excluded && bound.value.fract() == 0.0;
    let at = |value: f64| Some(Bound { value, is_excluded: false });
    let mut out = Vec::new();
    let (mut from, mut to) = (low, high);
    if let Some(bound) = low.filter(|bound| is_integer(bound) && bound.value >= 0.0) {
        let (first, next) = (bound.value + step(bound.value), bound.value + 1.0);
        let end = high.filter(|high| high.value < next).or(Some(Bound { value: next, is_excluded: true }));
        out.push([at(first), end]);
        from = at(next);
    }
    if let Some(bound) = high.filter(|bound| is_integer(bound) && bound.value <= 0.0) {
        let (last, before) = (bound.value - step(bound.value), bound.value - 1.0);
        let start = low.filter(|low| low.value > before).or(Some(Bound { value: before, is_excluded: true }));
        out.push([start, at(last)]);
        to = at(before);
    }
    out.push([from, to]);
    out.retain(|[low, high]| match (low, high) {
        (Some(low), Some(high)) => {
            low.value < high.value || low.value == high.value && !low.is_excluded && !high.is_excluded
        }
        _ => true,
    });
    if out.is_empty() {
        // The parser reports that the range is empty.
        out.push([low, high]);
    }
    out
}

/// Returns the numbers whose decimals are a prefix of the decimals of `bound`.
fn beginnings(bound: f64) -> Vec<f64> {
    let text = format!("{bound}");
    let Some((whole, decimals)) = text.split_once('.') else { return Vec::new() };
    let ends = 0..decimals.len();
    let numbers = ends.map(|n| format!("{whole}.{}0", &decimals[..n]).parse::<f64>());
    // Adding 0 turns -0 into 0.
    numbers.filter_map(Result::ok).map(|x| x + 0.0).collect()
}
