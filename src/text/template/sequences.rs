//! Jinja2's filters that sort, group and add up the items of a sequence.

use std::cmp::Ordering;
use std::collections::HashSet;

use minijinja::{Error, State, Value};

use crate::text::template::arguments::{Arguments, count};
use crate::text::template::error::refuse;
use crate::text::template::items::item;
use crate::text::template::lists::sort_keyed;
use crate::text::template::marks::marks_of;
use crate::text::template::operators::{Number, add, equal, order};
use crate::text::template::values::{Form, Kind, Sequence, int, items, kind, pairs, show, tuple, type_name};

/// The keys for comparing items: attributes, comma-separated if several, in lower case by default, without marks.
pub struct Keys {
    paths: Vec<Vec<Value>>,
    default: Option<Value>,
    folds_case: bool,
}

impl Keys {
    pub fn new(attribute: Option<&Value>, several: bool, default: Option<Value>, case: Option<Value>) -> Keys {
        let part = |part: &str| part.parse::<i64>().map_or_else(|_| Value::from(part), Value::from);
        let path = |path: &str| path.split('.').map(part).collect();
        let paths = match attribute.filter(|attribute| !attribute.is_none()) {
            None => vec![Vec::new()],
            Some(attribute) => match attribute.as_str() {
                Some(paths) if several => paths.split(',').map(path).collect(),
                Some(whole) => vec![path(whole)],
                None => vec![vec![attribute.clone()]],
            },
        };
        let default = default.filter(|default| !default.is_none());
        Keys { paths, default, folds_case: !case.is_some_and(|case| case.is_true()) }
    }

    /// Returns the value at the first path.
    pub fn find(&self, state: &mut State, value: &Value) -> Result<Value, Error> {
        self.paths.first().map_or_else(|| Ok(value.clone()), |path| self.walk(state, value, path))
    }

    fn walk(&self, state: &mut State, value: &Value, path: &[Value]) -> Result<Value, Error> {
        let marks = marks_of(state)?;
        let mut value = value.clone();
        for key in path {
            value = item(&value, &marks.item(&value, key))?;
            if let (true, Some(default)) = (value.is_undefined(), &self.default) {
                value = default.clone();
            }
        }
        Ok(value)
    }

    fn key(&self, state: &mut State, value: &Value) -> Result<Value, Error> {
        let mut keys = Vec::new();
        for path in &self.paths {
            let found = self.walk(state, value, path)?;
            let found = marks_of(state)?.unmarked(&found);
            keys.push(match found.as_str() {
                Some(text) if self.folds_case => Value::from(text.to_lowercase()),
                _ => found,
            });
        }
        Ok(if let [_] = keys.as_slice() { keys.remove(0) } else { Value::from(keys) })
    }

    /// Returns the items with their keys, sorted by key.
    fn sorted(&self, state: &mut State, items: Vec<Value>, reverses: bool) -> Result<Vec<(Value, Value)>, Error> {
        let mut keyed = Vec::new();
        for item in items {
            keyed.push((self.key(state, &item)?, item));
        }
        sort_keyed(&mut keyed, reverses)?;
        Ok(keyed)
    }
}

pub fn sort(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, reverse, case, attribute] = args.bind(["value", "reverse", "case_sensitive", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), true, None, case);
    let mut sorted = Vec::new();
    for item in items(&value.unwrap_or_default())? {
        // Each key is within a list, so that equal keys are not compared with `<`, which None does not support.
        let key = keys.key(state, &item)?;
        sorted.push((Value::from(vec![key]), item));
    }
    sort_keyed(&mut sorted, reverse.is_some_and(|is| is.is_true()))?;
    Ok(Value::from(sorted.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

pub fn dictsort(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, case, by, reverse] = args.bind(["value", "case_sensitive", "by", "reverse"], 1)?;
    let at = match by.as_ref().map_or(Some("key"), |by| by.as_str()) {
        Some("key") => 0,
        Some("value") => 1,
        _ => return Err(refuse("You can only sort by either \"key\" or \"value\"")),
    };
    let value = value.unwrap_or_default();
    if !matches!(kind(&value), Kind::Dict) {
        return Err(refuse(format!("'{}' object has no items to sort", type_name(&value))));
    }
    let all = pairs(&value).into_iter().map(|(key, value)| tuple(vec![key, value])).collect();
    let keys = Keys::new(Some(&Value::from(at)), false, None, case);
    let sorted = keys.sorted(state, all, reverse.is_some_and(|is| is.is_true()))?;
    Ok(Value::from(sorted.into_iter().map(|(_, item)| item).collect::<Vec<_>>()))
}

pub fn groupby(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, attribute, default, case] = args.bind(["value", "attribute", "default", "case_sensitive"], 2)?;
    let keys = Keys::new(attribute.as_ref(), false, default, case);
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in keys.sorted(state, items(&value.unwrap_or_default())?, false)? {
        match groups.last_mut() {
            Some((last, group)) if equal(last, &key) => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let mut out = Vec::new();
    for (_, group) in groups {
        let key = group.first().map_or(Ok(Value::UNDEFINED), |first| keys.find(state, first))?;
        out.push(tuple(vec![key, Value::from(group)]));
    }
    Ok(Value::from(out))
}

pub fn unique(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, case, attribute] = args.bind(["value", "case_sensitive", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, case);
    let (mut seen, mut out) = (HashSet::new(), Vec::new());
    for item in items(&value.unwrap_or_default())? {
        let key = keys.key(state, &item)?;
        // Equal numbers are one key.
        let key = match Number::of(&key) {
            Some(Number::Int(n)) => int(n),
            _ if matches!(kind(&key), Kind::List | Kind::Dict) => {
                return Err(refuse(format!("unhashable type: '{}'", type_name(&key))));
            }
            _ => key,
        };
        if seen.insert(key) {
            out.push(item);
        }
    }
    Ok(Sequence::generator(out))
}

pub fn least(state: &mut State, args: &Arguments, wanted: Ordering) -> Result<Value, Error> {
    let [value, case, attribute] = args.bind(["value", "case_sensitive", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, case);
    let mut best: Option<(Value, Value)> = None;
    for item in items(&value.unwrap_or_default())? {
        let key = keys.key(state, &item)?;
        let is_better = best.as_ref().map_or(Ok(true), |(of, _)| Ok::<_, Error>(order(&key, of)? == Some(wanted)))?;
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

pub fn sum(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, attribute, start] = args.bind(["iterable", "attribute", "start"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, None);
    let mut sum = start.unwrap_or_else(|| Value::from(0));
    if sum.as_str().is_some() {
        return Err(refuse("sum() can't sum strings [use ''.join(seq) instead]"));
    }
    for item in items(&value.unwrap_or_default())? {
        sum = add(&sum, &keys.find(state, &item)?)?;
    }
    Ok(sum)
}

pub fn join(state: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, by, attribute] = args.bind(["value", "d", "attribute"], 1)?;
    let keys = Keys::new(attribute.as_ref(), false, None, None);
    let by = by.map_or_else(|| Ok(String::new()), |by| show(&by))?;
    let mut out = String::new();
    for (i, item) in items(&value.unwrap_or_default())?.iter().enumerate() {
        out.push_str(if i > 0 { &by } else { "" });
        out.push_str(&show(&keys.find(state, item)?)?);
    }
    Ok(Value::from(out))
}

pub fn reverse(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let value = args.alone()?;
    let mut all = items(value).map_err(|_| refuse("argument must be iterable"))?;
    all.reverse();
    Ok(match kind(value) {
        Kind::Str(text) => Value::from(text.chars().rev().collect::<String>()),
        Kind::Sequence(Sequence { form: Form::Generator, .. }) => Value::from(all),
        _ => Sequence::generator(all),
    })
}

pub fn batch(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, size, fill] = args.bind(["value", "linecount", "fill_with"], 2)?;
    let size = usize::try_from(count(size.as_ref(), "linecount")?.unwrap_or(0)).unwrap_or(0).max(1);
    let mut rows: Vec<Vec<Value>> = items(&value.unwrap_or_default())?.chunks(size).map(<[Value]>::to_vec).collect();
    if let (Some(fill), Some(last)) = (fill.filter(|fill| !fill.is_none()), rows.last_mut()) {
        last.resize(size, fill);
    }
    Ok(Sequence::generator(rows.into_iter().map(Value::from).collect()))
}

pub fn slice(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let [value, slices, fill] = args.bind(["value", "slices", "fill_with"], 2)?;
    let all = items(&value.unwrap_or_default())?;
    let slices = usize::try_from(count(slices.as_ref(), "slices")?.unwrap_or(0)).unwrap_or(0);
    let (each, longer) = (all.len().checked_div(slices).unwrap_or(0), all.len().checked_rem(slices).unwrap_or(0));
    let fill = fill.filter(|fill| !fill.is_none());
    let mut rest = all.into_iter();
    let mut out = Vec::new();
    for i in 0..slices {
        let mut part: Vec<Value> = rest.by_ref().take(each + usize::from(i < longer)).collect();
        part.extend(fill.clone().filter(|_| i >= longer));
        out.push(Value::from(part));
    }
    Ok(Sequence::generator(out))
}
