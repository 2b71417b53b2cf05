//! Jinja2's functions, and the objects that they create.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use minijinja::functions;
use minijinja::value::{Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value};

use crate::text::template::arguments::{Arguments, Builtin, count};
use crate::text::template::error::refuse;
use crate::text::template::marks::marks_of;
use crate::text::template::values::{Kind, Sequence, items, kind, pairs, show};

pub const FUNCTIONS: &[(&str, Builtin)] = &[
    ("cycler", |_, args| match args.placed.as_slice() {
        [] => Err(refuse("at least one item has to be provided")),
        items => Ok(Value::from_object(Cycler { items: items.to_vec(), at: AtomicUsize::new(0) })),
    }),
    ("dict", |_, args| dict(args).map(Value::from_pairs)),
    ("joiner", |_, args| {
        let [by] = args.bind(["sep"], 0)?;
        let by = by.map_or_else(|| Ok(", ".to_owned()), |by| show(&by))?;
        Ok(Value::from_object(Joiner { by, used: AtomicBool::new(false) }))
    }),
    ("lipsum", |_, args| Err(Error::new(ErrorKind::UnknownFunction, args.name.clone()))),
    ("namespace", |state, args| {
        let mut members = dict(args)?;
        for (name, _) in &mut members {
            // Attributes are looked up by the name in the template's own text.
            *name = marks_of(state)?.unmarked(name);
            if name.as_str().is_some_and(|name| name.starts_with('_')) {
                return Err(refuse(format!("{name} begins with an underscore, which a namespace cannot store")));
            }
        }
        Value::from_function(functions::namespace).call(state, &[Value::from_pairs(members)])
    }),
    ("raise_exception", |_, args| Err(refuse(show(args.alone()?)?))),
    ("range", range),
];

/// `dict(mapping or pairs, **named)`.
fn dict(args: &Arguments) -> Result<Vec<(Value, Value)>, Error> {
    let mut all = match args.placed.as_slice() {
        [] => Vec::new(),
        [map] if matches!(kind(map), Kind::Dict) => pairs(map),
        [list] => {
            let pair = |pair: Value| match items(&pair)?.as_slice() {
                [key, value] => Ok((key.clone(), value.clone())),
                _ => Err(refuse("dictionary update sequence element has another length than 2")),
            };
            items(list)?.into_iter().map(pair).collect::<Result<_, _>>()?
        }
        _ => return Err(refuse(format!("{} expected at most 1 argument, got {}", args.name, args.placed.len()))),
    };
    all.extend(args.named.iter().map(|(name, value)| (Value::from(name.as_str()), value.clone())));
    Ok(all)
}

/// Maximum length of a range in Jinja2's sandbox.
const MAX_RANGE: i64 = 100_000;

fn range(_: &mut State, args: &Arguments) -> Result<Value, Error> {
    let whole = |value: &Value| {
        count(Some(value), "a bound of a range")?.ok_or_else(|| refuse("a bound of a range is no integer"))
    };
    let (start, stop, step) = match (args.placed.as_slice(), args.named.as_slice()) {
        ([stop], []) => (0, whole(stop)?, 1),
        ([start, stop], []) => (whole(start)?, whole(stop)?, 1),
        ([start, stop, step], []) => (whole(start)?, whole(stop)?, whole(step)?),
        _ => return Err(refuse("range expects one to three arguments")),
    };
    let span = if step > 0 { stop.checked_sub(start) } else { start.checked_sub(stop) };
    match span {
        _ if step == 0 => Err(refuse("range() arg 3 must not be zero")),
        Some(span) if span <= 0 || (span.unsigned_abs() - 1) / step.unsigned_abs() < MAX_RANGE.unsigned_abs() => {
            Ok(Sequence::range(start, stop, step))
        }
        _ => Err(refuse(format!("Range too big. At most {MAX_RANGE} numbers are supported."))),
    }
}

/// Cycles through its items.
#[derive(Debug)]
pub struct Cycler {
    pub items: Vec<Value>,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.items[self.at.load(Relaxed)].clone())
    }

    fn call_method(self: &Arc<Self>, _: &mut State, name: &str, _: &[Value]) -> Result<Value, Error> {
        match name {
            "next" => {
                let at = self.at.load(Relaxed);
                self.at.store((at + 1) % self.items.len(), Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(ErrorKind::UnknownMethod.into()),
        }
    }
}

/// Writes nothing the first time, and then the separator.
#[derive(Debug)]
struct Joiner {
    by: String,
    used: AtomicBool,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State, _: &[Value]) -> Result<Value, Error> {
        Ok(Value::from(if self.used.swap(true, Relaxed) { self.by.as_str() } else { "" }))
    }
}
