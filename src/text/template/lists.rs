//! Lists created by a template. The template may modify them, but not the lists of the conversation.
//!
//! A list that is modified could come to contain itself, or become too deep. Therefore every value that is put into a
//! list is searched for that list, and every list has a level at least one above the lists that it contains.

use std::cmp::Ordering;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr};
use minijinja::{Error, Value};

use crate::text::marks::Marks;
use crate::text::template::arguments::{Arguments, count};
use crate::text::template::error::{refuse, unsupported};
use crate::text::template::operators::{equal, order};
use crate::text::template::values::{Kind, items, kind, pairs, tuple};

const MAX_LEVEL: usize = 100;

#[derive(Debug)]
pub struct List {
    items: Mutex<Vec<Value>>,
    level: AtomicUsize,
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.locked().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.locked().clone())
    }
}

impl List {
    pub fn value(items: Vec<Value>) -> Value {
        Value::from_object(List { items: Mutex::new(items), level: AtomicUsize::new(0) })
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Value>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a value before it is put into this list.
    fn admit(&self, value: &Value) -> Result<(), Error> {
        self.admit_at(value, self.level.load(Relaxed) + 1)
    }

    fn admit_at(&self, value: &Value, level: usize) -> Result<(), Error> {
        if level > MAX_LEVEL {
            return Err(refuse(format!("lists are nested more than {MAX_LEVEL} deep")));
        }
        if let Some(list) = value.downcast_object_ref::<List>() {
            if std::ptr::eq(list, self) {
                return Err(refuse("a list cannot contain itself"));
            }
            list.level.fetch_max(level, Relaxed);
        }
        match kind(value) {
            Kind::Dict => pairs(value).iter().try_for_each(|(key, value)| {
                self.admit_at(key, level + 1)?;
                self.admit_at(value, level + 1)
            }),
            Kind::List | Kind::Tuple => items(value)?.iter().try_for_each(|item| self.admit_at(item, level + 1)),
            Kind::Sequence(sequence) => sequence.items.iter().try_for_each(|item| self.admit_at(item, level + 1)),
            Kind::Other => Err(refuse("a list cannot contain a function, a loop or a namespace")),
            _ => Ok(()),
        }
    }
}

/// True for a constant that contains lists.
pub fn has_lists(value: &Value) -> bool {
    match kind(value) {
        Kind::List => true,
        Kind::Tuple => items(value).is_ok_and(|items| items.iter().any(has_lists)),
        Kind::Dict => pairs(value).iter().any(|(_, value)| has_lists(value)),
        _ => false,
    }
}

/// Copies a constant with new lists, so that each evaluation gets its own.
pub fn fresh(value: &Value) -> Result<Value, Error> {
    let all = || items(value)?.iter().map(fresh).collect::<Result<Vec<_>, _>>();
    Ok(match kind(value) {
        Kind::List => List::value(all()?),
        Kind::Tuple => tuple(all()?),
        Kind::Dict if has_lists(value) => {
            let mut members = Vec::new();
            for (key, member) in pairs(value) {
                members.push((key, fresh(&member)?));
            }
            match value.is_kwargs() {
                true => {
                    let named = members.into_iter().map(|(key, member)| (key.to_string(), member));
                    Value::from(named.collect::<Kwargs>())
                }
                false => Value::from_pairs(members),
            }
        }
        _ => value.clone(),
    })
}

/// Calls a method that modifies `list`, which is the first argument.
pub fn change(list: &List, args: &Arguments, marks: &Marks) -> Result<Value, Error> {
    let place = |at: Option<Value>, len: usize| -> Result<i64, Error> {
        let at = count(at.as_ref(), "index")?.unwrap_or(-1);
        Ok(if at < 0 { at.saturating_add(i64::try_from(len).unwrap_or(i64::MAX)) } else { at })
    };
    let none = Value::from(());
    match args.name.as_str() {
        "append" => {
            let [_, item] = args.bind(["self", "object"], 2)?;
            let item = item.unwrap_or_default();
            list.admit(&item)?;
            list.locked().push(item);
        }
        "extend" => {
            let [_, more] = args.bind(["self", "iterable"], 2)?;
            let more = items(&more.unwrap_or_default())?;
            more.iter().try_for_each(|item| list.admit(item))?;
            list.locked().extend(more);
        }
        "insert" => {
            let [_, at, item] = args.bind(["self", "index", "object"], 3)?;
            let item = item.unwrap_or_default();
            list.admit(&item)?;
            let mut all = list.locked();
            let at = usize::try_from(place(at, all.len())?.max(0)).unwrap_or(usize::MAX).min(all.len());
            all.insert(at, item);
        }
        "pop" => {
            let [_, at] = args.bind(["self", "index"], 1)?;
            let mut all = list.locked();
            let at = usize::try_from(place(at, all.len())?).unwrap_or(usize::MAX);
            if at >= all.len() {
                return Err(refuse(if all.is_empty() { "pop from empty list" } else { "pop index out of range" }));
            }
            return Ok(all.remove(at));
        }
        "remove" => {
            let [_, item] = args.bind(["self", "value"], 2)?;
            let item = marks.unmarked(&item.unwrap_or_default());
            let mut all = list.locked();
            let at = all.iter().position(|other| equal(&marks.unmarked(other), &item));
            all.remove(at.ok_or_else(|| refuse("list.remove(x): x not in list"))?);
        }
        "clear" => {
            args.alone()?;
            list.locked().clear();
        }
        "reverse" => {
            args.alone()?;
            list.locked().reverse();
        }
        "sort" => {
            let [_, key, reverse] = args.bind(["self", "key", "reverse"], 1)?;
            if key.is_some_and(|key| !key.is_none()) {
                return Err(unsupported("a key of list.sort"));
            }
            let mut all = list.locked();
            let mut keyed: Vec<(Value, Value)> = all.drain(..).map(|item| (marks.unmarked(&item), item)).collect();
            sort_keyed(&mut keyed, reverse.is_some_and(|reverse| reverse.is_true()))?;
            all.extend(keyed.into_iter().map(|(_, item)| item));
        }
        name => return Err(unsupported(&format!("list.{name}"))),
    }
    Ok(none)
}

/// Sorts items by their keys.
pub fn sort_keyed(keyed: &mut [(Value, Value)], reverses: bool) -> Result<(), Error> {
    let mut failed = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let (a, b) = if reverses { (b, a) } else { (a, b) };
        order(a, b).unwrap_or_else(|e| failed.replace(e).and(None)).unwrap_or(Ordering::Equal)
    });
    failed.map_or(Ok(()), Err)
}
