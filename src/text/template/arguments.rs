//! Arguments of a call in a template, bound to parameters as in Python.

use minijinja::value::{Kwargs, from_args};
use minijinja::{Error, State, Value};

use crate::text::template::error::refuse;

/// A callable of a template; the first argument of a filter or test is its value.
pub type Builtin = fn(&mut State, &Arguments) -> Result<Value, Error>;

/// The arguments of a filter, test, function or method. Except for functions, the first one is the subject.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The name of the callable.
    pub name: String,
    pub placed: Vec<Value>,
    pub named: Vec<(String, Value)>,
}

impl Arguments {
    pub fn new(name: &str, values: &[Value]) -> Result<Arguments, Error> {
        let (placed, options): (&[Value], Kwargs) = from_args(values)?;
        let named = options.args().map(|key| Ok((key.to_owned(), options.get::<Value>(key)?)));
        Ok(Arguments { name: name.to_owned(), placed: placed.to_vec(), named: named.collect::<Result<_, Error>>()? })
    }

    pub fn all(&self) -> impl Iterator<Item = &Value> {
        self.placed.iter().chain(self.named.iter().map(|(_, value)| value))
    }

    /// Returns the same call with other values.
    pub fn map(&self, change: impl Fn(&Value) -> Value) -> Arguments {
        Arguments {
            name: self.name.clone(),
            placed: self.placed.iter().map(&change).collect(),
            named: self.named.iter().map(|(name, value)| (name.clone(), change(value))).collect(),
        }
    }

    /// Returns the subject of the call.
    pub fn subject(&self) -> Result<&Value, Error> {
        self.placed.first().ok_or_else(|| refuse(format!("{}() needs an argument", self.name)))
    }

    /// Returns the only argument of the call.
    pub fn alone(&self) -> Result<&Value, Error> {
        match (self.placed.as_slice(), self.named.as_slice()) {
            ([value], []) => Ok(value),
            _ => Err(refuse(format!("{}() takes no further arguments", self.name))),
        }
    }

    /// Returns a value for each parameter; the first `required` must be given.
    pub fn bind<const N: usize>(&self, parameters: [&str; N], required: usize) -> Result<[Option<Value>; N], Error> {
        let name = &self.name;
        if self.placed.len() > N {
            return Err(refuse(format!("{name}() takes at most {N} arguments ({} given)", self.placed.len())));
        }
        let mut bound = parameters.map(|_| None);
        for (slot, value) in bound.iter_mut().zip(&self.placed) {
            *slot = Some(value.clone());
        }
        for (key, value) in &self.named {
            match parameters.iter().position(|parameter| parameter == key) {
                Some(i) if bound[i].is_none() => bound[i] = Some(value.clone()),
                Some(_) => return Err(refuse(format!("{name}() got multiple values for argument '{key}'"))),
                None => return Err(refuse(format!("{name}() got an unexpected keyword argument '{key}'"))),
            }
        }
        match bound[..required].iter().position(Option::is_none) {
            Some(i) => Err(refuse(format!("{name}() missing the required argument '{}'", parameters[i]))),
            None => Ok(bound),
        }
    }
}

pub fn text<'v>(value: &'v Value, what: &str) -> Result<&'v str, Error> {
    value.as_str().ok_or_else(|| refuse(format!("{what} is no text")))
}

/// Returns a count; `None` for Python's None and for a missing value.
pub fn count(value: Option<&Value>, what: &str) -> Result<Option<i64>, Error> {
    match value {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => {
            let is_whole = value.is_integer() || value.kind() == minijinja::value::ValueKind::Bool;
            let number = i64::try_from(value.clone()).ok().filter(|_| is_whole);
            number.map(Some).ok_or_else(|| refuse(format!("{what} is no integer")))
        }
    }
}
