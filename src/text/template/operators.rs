//! Operators with Python's semantics: arithmetic, comparisons and `in`.

use std::cmp::Ordering;

use minijinja::{Error, ErrorKind, Value};

use crate::text::template::error::refuse;
use crate::text::template::values::{
    Form, Kind, escaped, int, is_named, items, kind, pairs, tuple, type_name, undefined,
};

#[derive(Clone, Copy)]
pub enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Number> {
        match kind(value) {
            Kind::Bool(b) => Some(Number::Int(i128::from(b))),
            Kind::Int(n) => Some(Number::Int(n)),
            Kind::Float(x) => Some(Number::Float(x)),
            _ => None,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Number::Int(n) => n as f64,
            Number::Float(x) => x,
        }
    }
}

fn unsupported(op: &str, a: &Value, b: &Value) -> Error {
    if matches!(kind(a), Kind::Undefined) || matches!(kind(b), Kind::Undefined) {
        return undefined(&format!("an operand of {op}"));
    }
    refuse(format!("unsupported operand type(s) for {op}: '{}' and '{}'", type_name(a), type_name(b)))
}

fn overflow() -> Error {
    Error::new(ErrorKind::NonPrimitive, "integers of more than 127 bits are not supported")
}

/// Computes `a op b`, except for texts and lists (`add`, `mul`).
pub fn arithmetic(op: &str, a: &Value, b: &Value) -> Result<Value, Error> {
    let (Some(x), Some(y)) = (Number::of(a), Number::of(b)) else { return Err(unsupported(op, a, b)) };
    if let (Number::Int(x), Number::Int(y)) = (x, y) {
        let floored = |x: i128, y: i128| x.checked_div(y).map(|q| q - i128::from(x % y != 0 && (x < 0) != (y < 0)));
        let result = match op {
            "+" => x.checked_add(y),
            "-" => x.checked_sub(y),
            "*" => x.checked_mul(y),
            "//" | "%" | "/" if y == 0 => return Err(refuse("division by zero")),
            "//" => floored(x, y),
            "%" => floored(x, y).and_then(|q| x.checked_sub(q.checked_mul(y)?)),
            "**" if y >= 0 => match x {
                0 | 1 => Some(if y == 0 { 1 } else { x }),
                -1 => Some(if y % 2 == 0 { 1 } else { -1 }),
                _ => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
            },
            "**" if x == 0 => return Err(refuse("0.0 cannot be raised to a negative power")),
            _ => return Ok(Value::from(float_arithmetic(op, x as f64, y as f64)?)),
        };
        return result.map(int).ok_or_else(overflow);
    }
    float_arithmetic(op, x.float(), y.float()).map(Value::from)
}

fn float_arithmetic(op: &str, x: f64, y: f64) -> Result<f64, Error> {
    Ok(match op {
        "+" => x + y,
        "-" => x - y,
        "*" => x * y,
        "/" | "//" | "%" if y == 0.0 => return Err(refuse("float division by zero")),
        "/" => x / y,
        "//" => floor_division(x, y).0,
        "%" => floor_division(x, y).1,
        _ if x == 0.0 && y < 0.0 => return Err(refuse("0.0 cannot be raised to a negative power")),
        _ if x < 0.0 && y.fract() != 0.0 => return Err(refuse("complex numbers are not supported")),
        _ => {
            let power = libm::pow(x, y);
            if power.is_infinite() && x.is_finite() && y.is_finite() {
                return Err(refuse("a power that is too large"));
            }
            power
        }
    })
}

/// Returns Python's `divmod` of floats.
fn floor_division(x: f64, y: f64) -> (f64, f64) {
    let mut remainder = x % y;
    let mut quotient = (x - remainder) / y;
    if remainder == 0.0 {
        remainder = 0.0f64.copysign(y);
    } else if (y < 0.0) != (remainder < 0.0) {
        remainder += y;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0f64.copysign(x / y), remainder);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, remainder)
}

pub fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    match (kind(a), kind(b)) {
        (Kind::Str(x), Kind::Str(y)) if a.is_safe() || b.is_safe() => {
            let part = |value: &Value, text: &str| if value.is_safe() { text.to_owned() } else { escaped(text) };
            Ok(Value::from_safe_string(part(a, x) + &part(b, y)))
        }
        (Kind::Str(x), Kind::Str(y)) => Ok(Value::from([x, y].concat())),
        (Kind::List, Kind::List) => Ok(Value::from([items(a)?, items(b)?].concat())),
        (Kind::Tuple, Kind::Tuple) => Ok(tuple([items(a)?, items(b)?].concat())),
        _ => arithmetic("+", a, b),
    }
}

/// Computes a product, whose size has been bounded.
pub fn mul(a: &Value, b: &Value) -> Result<Value, Error> {
    let (list, n) = match (kind(a), kind(b)) {
        (Kind::Int(_) | Kind::Bool(_), Kind::Str(_) | Kind::List | Kind::Tuple) => (b, a),
        _ => (a, b),
    };
    let times = match kind(n) {
        Kind::Int(n) => usize::try_from(n.max(0)).unwrap_or(usize::MAX),
        Kind::Bool(n) => usize::from(n),
        _ => return arithmetic("*", a, b),
    };
    match kind(list) {
        Kind::Str(text) => Ok(Value::from(text.repeat(if text.is_empty() { 0 } else { times }))),
        Kind::List | Kind::Tuple => {
            let items = items(list)?;
            let len = items.len().saturating_mul(times);
            let items = items.into_iter().cycle().take(len).collect();
            Ok(if list.is_tuple() { tuple(items) } else { Value::from(items) })
        }
        _ => arithmetic("*", a, b),
    }
}

pub fn neg(value: &Value) -> Result<Value, Error> {
    match Number::of(value) {
        Some(Number::Int(n)) => n.checked_neg().map(int).ok_or_else(overflow),
        Some(Number::Float(x)) => Ok(Value::from(-x)),
        None => Err(refuse(format!("bad operand type for unary -: '{}'", type_name(value)))),
    }
}

pub fn equal(a: &Value, b: &Value) -> bool {
    match (kind(a), kind(b)) {
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => match (items(a), items(b)) {
            (Ok(a), Ok(b)) => a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| equal(a, b)),
            _ => false,
        },
        (Kind::Dict, Kind::Dict) => {
            let of_a = pairs(a);
            Some(of_a.len()) == b.len()
                && of_a.iter().all(|(key, value)| b.get_item(key).is_ok_and(|other| equal(value, &other)))
        }
        (Kind::Sequence(a), Kind::Sequence(b)) => match (a.form, b.form) {
            (Form::Range { .. }, Form::Range { .. }) => a.items == b.items,
            _ => std::ptr::eq(a, b),
        },
        (Kind::Sequence(_), _) | (_, Kind::Sequence(_)) => false,
        (Kind::List | Kind::Tuple | Kind::Dict, _) | (_, Kind::List | Kind::Tuple | Kind::Dict) => false,
        _ => a == b,
    }
}

/// Returns the order of two values, or `None` if one is not a number.
pub fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Error> {
    match (kind(a), kind(b)) {
        (Kind::Str(a), Kind::Str(b)) => Ok(Some(a.cmp(b))),
        (Kind::List, Kind::List) | (Kind::Tuple, Kind::Tuple) => {
            let (a, b) = (items(a)?, items(b)?);
            match a.iter().zip(&b).find(|(a, b)| !equal(a, b)) {
                Some((a, b)) => order(a, b),
                None => Ok(Some(a.len().cmp(&b.len()))),
            }
        }
        _ => match (Number::of(a), Number::of(b)) {
            (Some(Number::Int(a)), Some(Number::Int(b))) => Ok(Some(a.cmp(&b))),
            (Some(a), Some(b)) => Ok(a.float().partial_cmp(&b.float())),
            _ => Err(unsupported("<", a, b)),
        },
    }
}

/// Computes a comparison by its operator.
pub fn compare(op: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(match op {
        "==" => equal(a, b),
        "!=" => !equal(a, b),
        "in" => contains(b, a)?,
        "not in" => !contains(b, a)?,
        "<" => order(a, b)? == Some(Ordering::Less),
        ">" => order(a, b)? == Some(Ordering::Greater),
        "<=" => order(a, b)?.is_some_and(Ordering::is_le),
        _ => order(a, b)?.is_some_and(Ordering::is_ge),
    })
}

fn contains(container: &Value, item: &Value) -> Result<bool, Error> {
    match (kind(container), kind(item)) {
        (Kind::Str(text), Kind::Str(part)) => Ok(text.contains(part)),
        (Kind::Str(_), _) => {
            Err(refuse(format!("'in <string>' requires string as left operand, not {}", type_name(item))))
        }
        (Kind::Dict, _) => Ok(container.get_item(item).is_ok_and(|value| !value.is_undefined())
            || pairs(container).iter().any(|(key, _)| equal(key, item))),
        (Kind::Other, _) if container.as_object().is_some_and(|object| is_named(object, "::Namespace")) => {
            Err(refuse("argument of type 'Namespace' is not iterable"))
        }
        _ => Ok(items(container)?.iter().any(|other| equal(other, item))),
    }
}
