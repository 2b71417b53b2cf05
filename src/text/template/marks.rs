//! Template operations on marked text (`marks.rs`): marked values of a conversation, and calls that examine a text.
//! Lists the filters, tests and methods that need no treatment, because they only move characters.

use std::collections::HashMap;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Serde, ValueKind};
use minijinja::{Error, State, Value};
use serde_json::Value as Json;

use crate::text::marks::Marks;
use crate::text::template::arguments::{Arguments, count};
use crate::text::template::error::refuse;
use crate::text::template::methods::is_space;
use crate::text::template::values::{Sequence, escaped, show, tuple};

/// Filters, tests, functions and methods that only move characters, ignore them, or handle marks themselves. All others
/// examine texts.
const MOVERS: &[&str] = &[
    "attr",
    "batch",
    "copy",
    "cycler",
    "d",
    "default",
    "dict",
    "dictsort",
    "first",
    "groupby",
    "items",
    "joiner",
    "keys",
    "last",
    "length",
    "list",
    "map",
    "max",
    "min",
    "namespace",
    "range",
    "reject",
    "rejectattr",
    "reverse",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "sum",
    "unique",
    "values",
    "is boolean",
    "is callable",
    "is defined",
    "is divisibleby",
    "is escaped",
    "is even",
    "is false",
    "is float",
    "is integer",
    "is iterable",
    "is mapping",
    "is none",
    "is number",
    "is odd",
    "is sameas",
    "is sequence",
    "is string",
    "is true",
    "is undefined",
];

/// Roles that templates write as a part of special tokens. Others are marked like any other text.
const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool", "function", "ipython", "observation"];

/// Returns a value of a conversation with its texts marked.
pub fn marked_value(json: &Json, marks: &Arc<Marks>) -> Value {
    match json {
        Json::String(text) => Value::from(marks.mark(text)),
        Json::Array(items) => Value::from(items.iter().map(|item| marked_value(item, marks)).collect::<Vec<_>>()),
        Json::Object(members) => {
            let keys = members.keys().map(|name| Value::from(marks.mark(name))).collect();
            let is_role =
                |name: &str, value: &Json| name == "role" && value.as_str().is_some_and(|value| ROLES.contains(&value));
            let values = members.iter().map(|(name, value)| {
                let marked = if is_role(name, value) { Value::from(Serde(value)) } else { marked_value(value, marks) };
                (name.clone(), marked)
            });
            let values = values.collect();
            Value::from_object(Members { keys, values, marks: marks.clone() })
        }
        other => Value::from(Serde(other)),
    }
}

/// An object of a conversation: its keys have marks, and are found without them.
#[derive(Debug)]
struct Members {
    keys: Vec<Value>,
    values: HashMap<String, Value>,
    marks: Arc<Marks>,
}

impl Object for Members {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.values.get(&*self.marks.unmark(key.as_str()?)).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.values.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys.clone())
    }
}

impl Marks {
    fn is_marked(&self, value: &Value) -> bool {
        match (value.as_str(), value.as_object()) {
            (Some(text), _) => self.has_marks(text),
            (_, Some(object)) => match object.repr() {
                ObjectRepr::Map => object
                    .try_iter_pairs()
                    .is_some_and(|mut pairs| pairs.any(|(k, v)| self.is_marked(&k) || self.is_marked(&v))),
                ObjectRepr::Plain => false,
                _ => object.try_iter().is_some_and(|mut items| items.any(|item| self.is_marked(&item))),
            },
            _ => false,
        }
    }

    /// Returns a value with all its texts changed; unchanged if it has no marks.
    fn each_text(&self, value: &Value, change: &impl Fn(&str) -> String) -> Value {
        match (value.as_str(), value.as_object()) {
            (Some(text), _) if value.is_safe() => Value::from_safe_string(change(text)),
            (Some(text), _) => Value::from(change(text)),
            (_, Some(object)) => match (object.repr(), object.try_iter_pairs()) {
                (ObjectRepr::Map, Some(pairs)) => {
                    Value::from_pairs(pairs.map(|(k, v)| (self.each_text(&k, change), self.each_text(&v, change))))
                }
                (ObjectRepr::Seq | ObjectRepr::Iterable, _) => match object.try_iter() {
                    Some(items) => {
                        let items = items.map(|item| self.each_text(&item, change)).collect::<Vec<_>>();
                        match value.downcast_object_ref::<Sequence>() {
                            Some(sequence) => Sequence::value(sequence.form, items),
                            None if value.is_tuple() => tuple(items),
                            None => Value::from(items),
                        }
                    }
                    None => value.clone(),
                },
                _ => value.clone(),
            },
            _ => value.clone(),
        }
    }

    /// Returns text escaped for HTML; the replacements have the marks of their characters.
    pub fn escaped(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            let plain = self.unmark_char(c);
            let escape = escaped(plain.encode_utf8(&mut [0; 4]));
            out.push_str(&if plain == c { escape } else { self.mark(&escape) });
        }
        out
    }

    /// Returns a value without marks.
    pub fn unmarked(&self, value: &Value) -> Value {
        match self.is_marked(value) {
            true => self.each_text(value, &|text| self.unmark(text).into_owned()),
            false => value.clone(),
        }
    }

    /// Returns the text of a value: a string with its marks, otherwise marked as a whole if one of its parts is.
    pub fn shown(&self, value: &Value) -> Result<Value, Error> {
        match value.kind() {
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable if self.is_marked(value) => {
                Ok(Value::from(self.mark(&show(&self.unmarked(value))?)))
            }
            _ => Ok(value.clone()),
        }
    }

    /// Returns the key for `container[key]`. A key is looked up without marks, unless the template created the key with
    /// marks.
    pub fn item(&self, container: &Value, key: &Value) -> Value {
        let plain = self.unmarked(key);
        let is_found = |key: &Value| container.get_item(key).is_ok_and(|value| !value.is_undefined());
        if is_found(&plain) || !is_found(key) { plain } else { key.clone() }
    }

    /// Calls a filter, a test, a function or a method.
    pub fn call(
        &self,
        args: &Arguments,
        call: impl FnOnce(&Arguments) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        let Some(subject) = args.placed.first() else { return call(args) };
        match (args.name.as_str(), subject.as_str()) {
            ("trim" | "strip" | "lstrip" | "rstrip", Some(text)) if self.has_marks(text) => {
                return self.trimmed(text, args, call);
            }
            ("replace", Some(text)) if args.all().any(|arg| self.is_marked(arg)) => {
                let [_, from, to, most] = args.bind(["s", "old", "new", "count"], 3)?;
                return match (from.as_ref().and_then(Value::as_str), to.as_ref().and_then(Value::as_str)) {
                    (Some(from), Some(to)) => {
                        let most = count(most.as_ref(), "count")?.and_then(|n| usize::try_from(n).ok());
                        Ok(Value::from(self.replaced(text, from, to, most.unwrap_or(usize::MAX))))
                    }
                    _ => self.read(args, call),
                };
            }
            // The key; a map's values keep their marks.
            ("get", None) => {
                let mut plain = args.clone();
                if let [map, key, ..] = plain.placed.as_mut_slice() {
                    *key = self.item(map, key);
                }
                return call(&plain);
            }
            ("string", Some(_)) => return call(args),
            // `join` only moves characters if it joins strings and numbers.
            ("join", _) if args.all().all(is_text_or_number) => return call(args),
            ("format", Some(text))
                if !self.has_marks(text)
                    && !["!r", "%r"].iter().any(|form| text.contains(form))
                    && args.all().all(is_text_or_number) =>
            {
                return call(args);
            }
            _ => {}
        }
        if MOVERS.contains(&args.name.as_str()) { call(args) } else { self.read(args, call) }
    }

    /// Calls a function that examines its arguments. If an argument has marks, the whole result is marked.
    fn read(&self, args: &Arguments, call: impl FnOnce(&Arguments) -> Result<Value, Error>) -> Result<Value, Error> {
        if !args.all().any(|arg| self.is_marked(arg)) {
            return call(args);
        }
        Ok(self.each_text(&call(&args.map(|arg| self.unmarked(arg)))?, &|text| self.mark(text)))
    }

    /// Trims as many characters at the ends of a text as the call trims from the unmarked text.
    fn trimmed(
        &self,
        text: &str,
        args: &Arguments,
        call: impl FnOnce(&Arguments) -> Result<Value, Error>,
    ) -> Result<Value, Error> {
        let plain = args.map(|arg| self.unmarked(arg));
        let before = self.unmark(text).chars().count();
        let result = call(&plain)?;
        let left = result.as_str().unwrap_or_default().chars().count();
        // Number of characters trimmed on the left.
        let chars: Vec<char> = text.chars().collect();
        let gone = match args.name.as_str() {
            "lstrip" => before - left,
            "rstrip" => 0,
            _ => {
                let [_, drop] = plain.bind(["self", "chars"], 1)?;
                let drop: Option<Vec<char>> = drop.as_ref().and_then(Value::as_str).map(|s| s.chars().collect());
                let goes = |c: char| drop.as_ref().map_or_else(|| is_space(c), |drop| drop.contains(&c));
                chars.iter().take_while(|c| goes(self.unmark_char(**c))).count().min(before - left)
            }
        };
        Ok(Value::from(chars[gone..gone + left].iter().collect::<String>()))
    }

    /// `text` with the first `most` occurrences of `from` replaced by `to`, all with their marks.
    fn replaced(&self, text: &str, from: &str, to: &str, most: usize) -> String {
        let (plain, from) = (self.unmark(text), self.unmark(from));
        let mut out = String::with_capacity(text.len());
        let mut rest = text.chars();
        let mut at = 0;
        for (found, matched) in plain.match_indices(&*from).take(most) {
            out.extend(rest.by_ref().take(plain[at..found].chars().count()));
            rest.by_ref().take(matched.chars().count()).for_each(drop);
            out.push_str(to);
            at = found + matched.len();
        }
        out.extend(rest);
        out
    }
}

/// True for texts, numbers and lists of them.
fn is_text_or_number(value: &Value) -> bool {
    let is_plain = |value: &Value| value.as_str().is_some() || value.is_number();
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().is_ok_and(|mut items| items.all(|item| is_plain(&item)))
        }
        _ => is_plain(value),
    }
}
/// The marks of the rendered conversation, stored in the interpreter's state.
pub struct RenderMarks(pub Arc<Marks>);

/// Returns the marks of the rendered conversation.
pub fn marks_of(state: &State) -> Result<Arc<Marks>, Error> {
    let marks = state.get_extension::<RenderMarks>().ok_or_else(|| refuse("no conversation"))?;
    Ok(marks.0.clone())
}
