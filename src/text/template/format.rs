//! Python's string formatting: `str.format` with its format specifications, and `%`.

use minijinja::{Error, Value};

use crate::text::template::error::{MAX_OUTPUT, refuse};
use crate::text::template::items::item;
use crate::text::template::operators::Number;
use crate::text::template::values::{Kind, items, kind, repr, show, type_name};

/// Maximum digits after the point; no float has more nonzero ones.
const MAX_PRECISION: usize = 1100;

/// A text limited to `MAX_OUTPUT`.
#[derive(Default)]
pub struct Bounded(String);

impl Bounded {
    pub fn push(&mut self, text: &str) -> Result<(), Error> {
        self.reserve(text.len())?;
        self.0.push_str(text);
        Ok(())
    }

    pub fn pad(&mut self, fill: char, n: usize) -> Result<(), Error> {
        self.reserve(n.saturating_mul(fill.len_utf8()))?;
        self.0.extend(std::iter::repeat_n(fill, n));
        Ok(())
    }

    fn reserve(&self, bytes: usize) -> Result<(), Error> {
        match self.0.len().saturating_add(bytes) {
            ..=MAX_OUTPUT => Ok(()),
            _ => Err(refuse(format!("the text exceeds {MAX_OUTPUT} bytes"))),
        }
    }

    pub fn value(self) -> Value {
        Value::from(self.0)
    }
}

/// The specification after the colon of a field, or between `%` and the type.
#[derive(Clone, Copy, Debug)]
struct Spec {
    fill: char,
    /// One of `<>^=`, or none.
    align: Option<char>,
    /// `+`, `-` or a space.
    sign: char,
    alternate: bool,
    width: usize,
    /// Separator of groups of digits.
    comma: Option<char>,
    precision: Option<usize>,
    /// The type, or none.
    form: Option<char>,
}

const NO_SPEC: Spec =
    Spec { fill: ' ', align: None, sign: '-', alternate: false, width: 0, comma: None, precision: None, form: None };

fn digits(chars: &mut std::iter::Peekable<impl Iterator<Item = char>>) -> Result<Option<usize>, Error> {
    let mut n = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        n = Some(n.unwrap_or(0usize).saturating_mul(10).saturating_add(digit as usize));
    }
    match n {
        Some(n) if n > MAX_OUTPUT => Err(refuse(format!("a width exceeds {MAX_OUTPUT}"))),
        n => Ok(n),
    }
}

impl Spec {
    /// Parses `[[fill]align][sign][#][0][width][,][.precision][type]`.
    fn parse(text: &str) -> Result<Spec, Error> {
        let all: Vec<char> = text.chars().collect();
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>^=".contains(*c));
        let mut spec = NO_SPEC;
        let mut from = 0;
        if is_align(all.get(1)) {
            (spec.fill, spec.align, from) = (all[0], Some(all[1]), 2);
        } else if is_align(all.first()) {
            (spec.align, from) = (Some(all[0]), 1);
        }
        let mut chars = all[from..].iter().copied().peekable();
        if let Some(sign) = chars.next_if(|c| "+- ".contains(*c)) {
            spec.sign = sign;
        }
        spec.alternate = chars.next_if_eq(&'#').is_some();
        if chars.next_if_eq(&'0').is_some() && spec.align.is_none() {
            (spec.fill, spec.align) = ('0', Some('='));
        }
        spec.width = digits(&mut chars)?.unwrap_or(0);
        spec.comma = chars.next_if(|c| ",_".contains(*c));
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(&mut chars)?.ok_or_else(|| refuse("Format specifier missing precision"))?);
        }
        spec.form = chars.next();
        match chars.next() {
            None => Ok(spec),
            Some(_) => Err(refuse(format!("Invalid format specifier '{text}'"))),
        }
    }

    /// Writes `body` with its sign, `prefix` and padding.
    fn pad(&self, sign: &str, prefix: &str, body: &str, align: char, out: &mut Bounded) -> Result<(), Error> {
        let missing = self.width.saturating_sub([sign, prefix, body].iter().map(|s| s.chars().count()).sum());
        let (left, inner, right) = match self.align.unwrap_or(align) {
            '<' => (0, 0, missing),
            '^' => (missing / 2, 0, missing - missing / 2),
            '=' => (0, missing, 0),
            _ => (missing, 0, 0),
        };
        out.pad(self.fill, left)?;
        out.push(sign)?;
        out.push(prefix)?;
        out.pad(self.fill, inner)?;
        out.push(body)?;
        out.pad(self.fill, right)
    }

    fn sign_of(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.sign) {
            (true, _) => "-",
            (_, '+') => "+",
            (_, ' ') => " ",
            _ => "",
        }
    }

    fn text(&self, text: &str, out: &mut Bounded) -> Result<(), Error> {
        let cut: String = text.chars().take(self.precision.unwrap_or(usize::MAX)).collect();
        self.pad("", "", &cut, '<', out)
    }

    fn int(&self, n: i128, form: char, out: &mut Bounded) -> Result<(), Error> {
        if self.precision.is_some() {
            return Err(refuse("Precision not allowed in integer format specifier"));
        }
        let size = n.unsigned_abs();
        let (prefix, body) = match form {
            'b' => ("0b", format!("{size:b}")),
            'o' => ("0o", format!("{size:o}")),
            'x' => ("0x", format!("{size:x}")),
            'X' => ("0X", format!("{size:X}")),
            'c' => {
                let c = u32::try_from(n).ok().and_then(char::from_u32);
                return self.text(&c.ok_or_else(|| refuse("%c arg not in range(0x110000)"))?.to_string(), out);
            }
            _ => ("", size.to_string()),
        };
        let prefix = if self.alternate { prefix } else { "" };
        self.pad(self.sign_of(n < 0), prefix, &grouped(&body, self.comma), '>', out)
    }

    fn float(&self, x: f64, out: &mut Bounded) -> Result<(), Error> {
        let precision = self.precision.unwrap_or(6);
        if precision > MAX_PRECISION {
            return Err(refuse(format!("a precision exceeds {MAX_PRECISION}")));
        }
        let size = x.abs();
        let body = match self.form {
            _ if !x.is_finite() => (if x.is_nan() { "nan" } else { "inf" }).to_owned(),
            Some('e' | 'E') => exponential(size, precision),
            Some('f' | 'F') => format!("{size:.precision$}"),
            Some('%') => format!("{:.precision$}%", size * 100.0),
            Some('g' | 'G' | 'n') => general(size, precision, self.alternate, false),
            None if self.precision.is_some() => general(size, precision, false, true),
            None => crate::text::template::values::float_text(size),
            Some(form) => return Err(refuse(format!("Unknown format code '{form}' for object of type 'float'"))),
        };
        let body = if self.form.is_some_and(char::is_uppercase) { body.to_uppercase() } else { body };
        let is_negative = x.is_sign_negative() && !x.is_nan();
        self.pad(self.sign_of(is_negative), "", &grouped(&body, self.comma), '>', out)
    }
}

/// Returns a number with `comma` between groups of three digits before the point.
fn grouped(body: &str, comma: Option<char>) -> String {
    let Some(comma) = comma else { return body.to_owned() };
    let end = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
    let mut out = String::new();
    for (i, c) in body[..end].chars().enumerate() {
        if i > 0 && (end - i).is_multiple_of(3) {
            out.push(comma);
        }
        out.push(c);
    }
    out + &body[end..]
}

fn exponential(x: f64, precision: usize) -> String {
    let text = format!("{x:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Returns the format `g`: `precision` digits, exponential for large or small exponents. `of_repr`: at least one digit
/// after the point, and exponential one power earlier.
fn general(x: f64, precision: usize, keeps_zeros: bool, of_repr: bool) -> String {
    let precision = precision.max(1);
    let text = exponential(x, precision - 1);
    let exponent: i64 = text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= precision as i64 - i64::from(of_repr) {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{exponent}", trimmed(mantissa));
    }
    let after = usize::try_from(precision as i64 - 1 - exponent).unwrap_or(0);
    let text = trimmed(&format!("{x:.after$}"));
    if of_repr && !text.contains('.') { text + ".0" } else { text }
}

/// `format(value, spec)`.
fn format_value(value: &Value, spec: &str, out: &mut Bounded) -> Result<(), Error> {
    if spec.is_empty() {
        return out.push(&show(value)?);
    }
    let spec = Spec::parse(spec)?;
    match (kind(value), spec.form) {
        (Kind::Str(text), None | Some('s')) if spec.align != Some('=') => spec.text(text, out),
        // `0` before a width pads texts on the right.
        (Kind::Str(text), None | Some('s')) if spec.fill == '0' => Spec { align: Some('<'), ..spec }.text(text, out),
        (Kind::Bool(_), None) => spec.text(&show(value)?, out),
        (Kind::Int(_) | Kind::Bool(_) | Kind::Float(_), form) => match (Number::of(value), form) {
            (Some(Number::Int(n)), None) => spec.int(n, 'd', out),
            (Some(Number::Int(n)), Some(form @ ('b' | 'c' | 'd' | 'n' | 'o' | 'x' | 'X'))) => spec.int(n, form, out),
            (Some(number), _) => spec.float(number.float(), out),
            (None, _) => Ok(()),
        },
        (_, form) => Err(refuse(match form {
            Some(form) => format!("Unknown format code '{form}' for object of type '{}'", type_name(value)),
            None => format!("unsupported format string passed to {}.__format__", type_name(value)),
        })),
    }
}

/// `text.format(*args, **named)`.
pub fn str_format(text: &str, args: &[Value], named: &[(String, Value)]) -> Result<Value, Error> {
    let mut out = Bounded::default();
    let mut rest = text;
    let mut next = Some(0);
    while let Some(at) = rest.find(['{', '}']) {
        out.push(&rest[..at])?;
        let doubled = rest[at..].starts_with("{{") || rest[at..].starts_with("}}");
        if doubled {
            out.push(&rest[at..at + 1])?;
            rest = &rest[at + 2..];
            continue;
        }
        let Some(field) = rest[at..].strip_prefix('{') else {
            return Err(refuse("Single '}' encountered in format string"));
        };
        let end = field.find('}').ok_or_else(|| refuse("expected '}' before end of string"))?;
        rest = &field[end + 1..];
        let (name, spec) = field[..end].split_once(':').unwrap_or((&field[..end], ""));
        if spec.contains('{') {
            return Err(refuse("fields within a format specifier are not supported"));
        }
        let (name, conversion) = name.split_once('!').unwrap_or((name, ""));
        let value = field_value(name, &mut next, args, named)?;
        let value = match conversion {
            "" => value,
            "s" => Value::from(show(&value)?),
            "r" => Value::from(repr(&value)?),
            other => return Err(refuse(format!("Unknown conversion specifier '{other}'"))),
        };
        format_value(&value, spec, &mut out)?;
    }
    out.push(rest)?;
    Ok(out.value())
}

/// Returns the value of a field's name, such as `0[key]`. `next`: the index of the next field without one.
fn field_value(
    name: &str,
    next: &mut Option<usize>,
    args: &[Value],
    named: &[(String, Value)],
) -> Result<Value, Error> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut path) = name.split_at(end);
    let at = match first {
        "" => {
            let at = next.ok_or_else(|| refuse("fields cannot mix numbers and no numbers"))?;
            *next = Some(at + 1);
            Some(at)
        }
        _ => first.parse().ok(),
    };
    if !first.is_empty() && at.is_some() {
        *next = None;
    }
    let mut value = match at {
        Some(at) => args.get(at).ok_or_else(|| refuse("Replacement index out of range"))?.clone(),
        None => match named.iter().find(|(name, _)| name == first) {
            Some((_, value)) => value.clone(),
            None => return Err(refuse(format!("no argument {first:?} for a field"))),
        },
    };
    while !path.is_empty() {
        let Some(key) = path.strip_prefix('[') else {
            return Err(refuse("attributes in a format string are not supported"));
        };
        let (key, rest) = key.split_once(']').ok_or_else(|| refuse("Missing ']' in format string"))?;
        let key = key.parse::<i64>().map_or_else(|_| Value::from(key), Value::from);
        value = item(&value, &key)?;
        path = rest;
    }
    Ok(value)
}

/// `text % args`.
pub fn percent(text: &str, args: &Value) -> Result<Value, Error> {
    let is_tuple = matches!(kind(args), Kind::Tuple);
    let all = if is_tuple { items(args)? } else { vec![args.clone()] };
    let mut left = all.iter();
    let mut by_name = false;
    let mut out = Bounded::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c.encode_utf8(&mut [0; 4]))?;
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push("%")?;
            continue;
        }
        let has_key = chars.next_if_eq(&'(').is_some();
        let key = has_key.then(|| chars.by_ref().take_while(|&c| c != ')').collect::<String>());
        let mut spec = NO_SPEC;
        while let Some(flag) = chars.next_if(|c| "#0- +".contains(*c)) {
            match flag {
                '#' => spec.alternate = true,
                '0' if spec.align.is_none() => (spec.fill, spec.align) = ('0', Some('=')),
                '-' => (spec.fill, spec.align) = (' ', Some('<')),
                '+' => spec.sign = '+',
                ' ' if spec.sign != '+' => spec.sign = ' ',
                _ => {}
            }
        }
        let mut next = || left.next().cloned().ok_or_else(|| refuse("not enough arguments for format string"));
        let mut star = |chars: &mut std::iter::Peekable<std::str::Chars>| match chars.next_if_eq(&'*') {
            Some(_) => match next()?.as_usize() {
                Some(n @ ..=MAX_OUTPUT) => Ok(Some(n)),
                _ => Err(refuse("a width or precision that is no number in bounds")),
            },
            None => digits(chars),
        };
        spec.width = star(&mut chars)?.unwrap_or(0);
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(star(&mut chars)?.unwrap_or(0));
        }
        spec.form = chars.next();
        let value = match &key {
            Some(key) => {
                by_name = true;
                let value = item(args, &Value::from(key.as_str()))?;
                if value.is_undefined() {
                    return Err(refuse(format!("no member {key:?} for a field")));
                }
                value
            }
            None => next()?,
        };
        percent_value(&value, spec, &mut out)?;
    }
    if left.next().is_some() && (is_tuple || !by_name && !matches!(kind(args), Kind::Dict | Kind::List)) {
        return Err(refuse("not all arguments converted during string formatting"));
    }
    Ok(out.value())
}

fn percent_value(value: &Value, spec: Spec, out: &mut Bounded) -> Result<(), Error> {
    // Texts are padded with spaces, on the left unless left-aligned.
    let text = |text: &str, out: &mut Bounded| {
        let align = if spec.align == Some('<') { '<' } else { '>' };
        Spec { fill: ' ', align: Some(align), ..spec }.text(text, out)
    };
    let number = Number::of(value);
    match (spec.form, number) {
        (Some('s'), _) => text(&show(value)?, out),
        (Some('r'), _) => text(&repr(value)?, out),
        (Some('c'), _) if value.as_str().is_some_and(|text| text.chars().count() == 1) => {
            text(value.as_str().unwrap_or_default(), out)
        }
        (Some('c'), Some(Number::Int(n))) => spec.int(n, 'c', out),
        (Some('d' | 'i' | 'u'), Some(number)) => {
            let n = match number {
                Number::Int(n) => n,
                Number::Float(x) if x.abs() < 1e38 => x.trunc() as i128,
                Number::Float(_) => return Err(refuse("a float that is too large for %d")),
            };
            whole(spec, n, 'd', out)
        }
        (Some(form @ ('x' | 'X' | 'o')), Some(Number::Int(n))) => whole(spec, n, form, out),
        (Some('e' | 'E' | 'f' | 'F' | 'g' | 'G'), Some(number)) => spec.float(number.float(), out),
        (Some(form @ ('d' | 'i' | 'u' | 'x' | 'X' | 'o' | 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | 'c')), _) => {
            Err(refuse(format!("%{form} format: a number is required, not {}", type_name(value))))
        }
        (Some(form), _) => Err(refuse(format!("unsupported format character '{form}'"))),
        (None, _) => Err(refuse("incomplete format")),
    }
}

/// An integer with leading zeros up to its precision.
fn whole(spec: Spec, n: i128, form: char, out: &mut Bounded) -> Result<(), Error> {
    let Some(precision) = spec.precision else { return spec.int(n, form, out) };
    let mut digits = Bounded::default();
    Spec { width: precision, fill: '0', align: Some('='), ..NO_SPEC }.int(
        i128::try_from(n.unsigned_abs()).unwrap_or(i128::MAX),
        form,
        &mut digits,
    )?;
    spec.pad(spec.sign_of(n < 0), "", &digits.0, '>', out)
}
