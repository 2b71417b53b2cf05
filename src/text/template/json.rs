//! Python's `json.dumps`, which is the filter `tojson`.

use minijinja::{Error, Value};

use crate::text::template::error::refuse;
use crate::text::template::format::Bounded;
use crate::text::template::operators::order;
use crate::text::template::values::{Form, Kind, Sequence, float_text, items, kind, pairs, type_name};

/// The arguments of `json.dumps`.
pub struct Style {
    pub ascii: bool,
    /// Indentation per level; if set, each member is on a line of its own.
    pub indent: Option<String>,
    pub comma: String,
    pub colon: String,
    pub sorts: bool,
}

pub fn to_json(value: &Value, style: &Style) -> Result<Value, Error> {
    let mut out = Bounded::default();
    write(value, style, 0, &mut out)?;
    Ok(out.value())
}

fn line(style: &Style, depth: usize, out: &mut Bounded) -> Result<(), Error> {
    let Some(indent) = &style.indent else { return Ok(()) };
    out.push("\n")?;
    (0..depth).try_for_each(|_| out.push(indent))
}

fn write(value: &Value, style: &Style, depth: usize, out: &mut Bounded) -> Result<(), Error> {
    match kind(value) {
        Kind::None => out.push("null"),
        Kind::Bool(b) => out.push(if b { "true" } else { "false" }),
        Kind::Int(n) => out.push(&n.to_string()),
        Kind::Float(x) => out.push(&number(x)),
        Kind::Str(text) => string(text, style.ascii, out),
        Kind::List | Kind::Tuple => {
            let items = items(value)?;
            out.push("[")?;
            for (i, item) in items.iter().enumerate() {
                out.push(if i > 0 { &style.comma } else { "" })?;
                line(style, depth + 1, out)?;
                write(item, style, depth + 1, out)?;
            }
            if !items.is_empty() {
                line(style, depth, out)?;
            }
            out.push("]")
        }
        Kind::Dict => {
            let mut members = pairs(value);
            if style.sorts {
                sort(&mut members)?;
            }
            out.push("{")?;
            for (i, (key, value)) in members.iter().enumerate() {
                out.push(if i > 0 { &style.comma } else { "" })?;
                line(style, depth + 1, out)?;
                match kind(key) {
                    Kind::Str(text) => string(text, style.ascii, out)?,
                    Kind::None => out.push("\"null\"")?,
                    Kind::Bool(b) => out.push(if b { "\"true\"" } else { "\"false\"" })?,
                    Kind::Int(n) => out.push(&format!("\"{n}\""))?,
                    Kind::Float(x) => out.push(&format!("\"{}\"", number(x)))?,
                    _ => return Err(refuse(format!("keys of JSON must be texts, not {}", type_name(key)))),
                }
                out.push(&style.colon)?;
                write(value, style, depth + 1, out)?;
            }
            if !members.is_empty() {
                line(style, depth, out)?;
            }
            out.push("}")
        }
        Kind::Sequence(Sequence { form: Form::Generator, .. }) | Kind::Undefined | Kind::Sequence(_) | Kind::Other => {
            Err(refuse(format!("Object of type {} is not JSON serializable", type_name(value))))
        }
    }
}

/// Sorts members by their keys, all of which must be comparable.
fn sort(members: &mut [(Value, Value)]) -> Result<(), Error> {
    let mut failed = None;
    members.sort_by(|(a, _), (b, _)| {
        order(a, b).unwrap_or_else(|e| failed.replace(e).and(None)).unwrap_or(std::cmp::Ordering::Equal)
    });
    failed.map_or(Ok(()), Err)
}

fn number(x: f64) -> String {
    match x {
        _ if x.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => float_text(x),
    }
}

fn string(text: &str, ascii: bool, out: &mut Bounded) -> Result<(), Error> {
    out.push("\"")?;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let escape = match c {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\0'..='\x1f' => format!("\\u{:04x}", u32::from(c)),
            _ if ascii && !(' '..='~').contains(&c) => {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }
            _ => continue,
        };
        out.push(&text[from..at])?;
        out.push(&escape)?;
        from = at + c.len_utf8();
    }
    out.push(&text[from..])?;
    out.push("\"")
}
