//! Limits of memory, time and stack for rendering a chat template, which is untrusted.
//!
//! `minijinja` counts steps, but a step may double a string. Therefore every render also has a `Budget`, to which every
//! operation that makes a value is charged. Functions and filters, all registered here, charge their results. The
//! compiled program is copied (`guarded`). In the copy, a filter with Python's semantics (`template/values.rs`)
//! replaces each computing instruction; the `match` names every instruction. Operations whose result may be much larger
//! than their operands, such as a product or a join, are checked before they run. No value is larger than `largest`,
//! counted as a tree, which bounds one instruction. All values ever made together are at most `made`, which bounds
//! memory. All values ever read together are at most `read`, which bounds time. No value nests deeper than
//! `MAX_NESTING` or contains something that can change after counting (a loop, a namespace), so that showing or
//! dropping it recurses little. Only lists may change; `template/lists.rs` bounds their depth.
//!
//! Each limit is a constant plus a multiple of the conversation's bytes: the constant is small because a template is
//! run several times for probing (`find_text_form`); the multiple allows iterating over all messages for each message.

use std::sync::Arc;

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value};

use crate::memory::is_short;
use crate::text::marks::Marks;
use crate::text::template::arguments::{Arguments, Builtin};
use crate::text::template::error::{MAX_OUTPUT, refuse, unsupported};
use crate::text::template::filters::{FILTERS, TESTS};
use crate::text::template::functions::{Cycler, FUNCTIONS};
use crate::text::template::lists::{self, List};
use crate::text::template::marks::{RenderMarks, marks_of};
use crate::text::template::values::{self, BoundMethod, Kind, Sequence, kind, type_name};
use crate::text::template::{format, items, methods, operators};

/// Maximum number of executed instructions.
const STEPS: u64 = 100_000;
const STEPS_TIMES: u64 = 32;
/// Maximum bytes of the values that a template makes.
const MADE: usize = 64 << 20;
const MADE_TIMES: usize = 512;
/// Maximum bytes of the values that a template reads.
const READ: usize = 64 << 20;
const READ_TIMES: usize = 16_384;
/// Bytes of a value in addition to its text: itself, its slot in a list or map, its allocation. Includes a number's
/// text.
const NODE: usize = 64;
/// Bytes of a macro's closure, which lives until the end of the render.
const CLOSURE: usize = 1024;
/// Maximum bytes of a character escaped for HTML, JSON, or quotes inside of lists.
const ESCAPED: usize = 6;
const MAX_NESTING: usize = 200;

// Names that no template can write.
const BEGIN: &str = "!begin";
const MAKE: &str = "!make";
const FRESH: &str = "!fresh";
const KEEP: &str = "!keep";
const SPEND: &str = "!spend";
const ATTRIBUTE: &str = "!attribute";
const ITEM: &str = "!item";
const SLICE: &str = "!slice";
const ITERATE: &str = "!iterate";
const UNPACK: &str = "!unpack";
const CONCAT: &str = "!concat";
const NEGATE: &str = "!negate";
const FUNCTION: &str = "!function";
const METHOD: &str = "!method";
const OBJECT: &str = "!object";
/// Operators and the filters that compute them. Comparisons: the interpreter's name, the operator, its filter, and the
/// filter that keeps the right operand for the next comparison of a chain.
const ARITHMETIC: [(&str, &str); 7] =
    [("+", "!+"), ("-", "!-"), ("*", "!*"), ("/", "!/"), ("//", "!//"), ("%", "!%"), ("**", "!**")];
const COMPARISONS: [(&str, &str, &str, &str); 8] = [
    ("Eq", "==", "!==", "!chain=="),
    ("Ne", "!=", "!!=", "!chain!="),
    ("Lt", "<", "!<", "!chain<"),
    ("Lte", "<=", "!<=", "!chain<="),
    ("Gt", ">", "!>", "!chain>"),
    ("Gte", ">=", "!>=", "!chain>="),
    ("In", "in", "!in", "!chainin"),
    ("NotIn", "not in", "!not in", "!chainnot in"),
];

fn too_much(what: &str, bound: usize) -> Error {
    refuse(format!("{what} more than {bound} bytes"))
}

/// The remaining budget of a render, and the marks of its conversation.
struct Budget {
    marks: Arc<Marks>,
    made: usize,
    read: usize,
    largest: usize,
}

#[derive(Default)]
struct Size {
    nodes: usize,
    text: usize,
}

impl Size {
    fn bytes(&self) -> usize {
        self.nodes.saturating_mul(NODE).saturating_add(self.text)
    }

    /// Adds a value as a tree, and stops beyond `largest`. `depth`: depth of its container.
    fn add(&mut self, value: &Value, depth: usize, largest: usize) -> Result<(), Error> {
        self.nodes += 1;
        self.text += value.as_bytes().map_or(0, <[u8]>::len);
        if self.bytes() > largest {
            return Err(too_much("a value has", largest));
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        let kind = object.type_name();
        let (is_loop, is_namespace) = (kind.ends_with("::Loop"), kind.ends_with("::Namespace"));
        if depth > 0 && (is_loop || is_namespace) {
            return Err(refuse("a loop or a namespace cannot be inside another value"));
        }
        if depth >= MAX_NESTING {
            return Err(refuse(format!("values are nested more than {MAX_NESTING} deep")));
        }
        let held = match (value.downcast_object_ref::<BoundMethod>(), value.downcast_object_ref::<Cycler>()) {
            (Some(method), _) => std::slice::from_ref(&method.value),
            (_, Some(cycler)) => &cycler.items,
            _ => &[],
        };
        held.iter().try_for_each(|value| self.add(value, depth + 1, largest))?;
        match object.repr() {
            ObjectRepr::Map if !is_loop => {
                for (key, value) in object.try_iter_pairs().into_iter().flatten() {
                    self.add(&key, depth + 1, largest)?;
                    self.add(&value, depth + 1, largest)?;
                }
            }
            ObjectRepr::Seq | ObjectRepr::Iterable => {
                for value in object.try_iter().into_iter().flatten() {
                    self.add(&value, depth + 1, largest)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Budget {
    fn of<'s>(state: &'s mut State) -> Result<&'s mut Budget, Error> {
        state.get_extension_mut().ok_or_else(|| refuse("no budget"))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        if is_short() {
            return Err(refuse("out of memory"));
        }
        self.made = self.made.checked_sub(bytes).ok_or_else(|| refuse("the template makes too much"))?;
        Ok(())
    }

    fn look(&mut self, bytes: usize) -> Result<(), Error> {
        self.read = self.read.checked_sub(bytes).ok_or_else(|| refuse("the template takes too long"))?;
        Ok(())
    }

    fn read(&mut self, value: &Value) -> Result<Size, Error> {
        let mut size = Size::default();
        let result = size.add(value, 0, self.largest);
        self.look(size.bytes())?;
        result.map(|()| size)
    }

    /// Charges a new value. A lazy one is evaluated now, because laziness could hide nesting.
    fn make(&mut self, value: Value) -> Result<Value, Error> {
        let size = self.read(&value)?;
        self.spend(size.nodes * NODE + value.as_bytes().map_or(0, <[u8]>::len))?;
        match value.as_object() {
            // The template may modify it.
            Some(object)
                if matches!(kind(&value), Kind::List)
                    && value.downcast_object_ref::<Sequence>().is_none()
                    && value.downcast_object_ref::<List>().is_none() =>
            {
                Ok(object.try_iter().map_or(value.clone(), |items| List::value(items.collect())))
            }
            _ => Ok(value),
        }
    }

    /// Charges the arguments of a call, and rejects a call whose result could be larger than `largest`.
    fn call(&mut self, call: &Arguments) -> Result<(), Error> {
        let (mut text, mut first) = (0, None);
        for value in call.all() {
            text += self.read(value)?.text;
            first = first.or(Some(text));
        }
        let args = call.placed.as_slice();
        // A text is a list of its characters; a value that is neither list nor text has a short text.
        let count = |value: &Value| match value.as_object() {
            Some(object) => object.enumerator_len().unwrap_or(0),
            None => value.as_str().map_or(NODE, str::len),
        };
        let len = args.first().map_or(0, count);
        let bytes = match (call.name.as_str(), args) {
            ("replace", [s, from, to, ..]) => {
                let (s, from) = (s.as_str().map_or(text, str::len), from.as_str().map_or(1, str::len).max(1));
                s.saturating_add((s / from + 1).saturating_mul(to.as_str().map_or(text + NODE, str::len)))
            }
            ("replace", _) => text.saturating_mul(text),
            // The filter joins its first argument, the method its second; the other one is the separator, as a text.
            ("join", [_, other, ..]) => {
                let first = first.unwrap_or(0);
                let (filter, method) = (len.saturating_mul(text - first), count(other).saturating_mul(first));
                filter.max(method).saturating_add(text)
            }
            ("join", _) => len.saturating_mul(text - first.unwrap_or(0)).saturating_add(text),
            ("split" | "rsplit", [s, by, ..]) if by.as_str().is_some_and(|by| !by.is_empty()) => {
                let (s, by) = (s.as_str().unwrap_or_default(), by.as_str().unwrap_or_default());
                s.matches(by).count() * NODE
            }
            ("split" | "rsplit" | "splitlines", [s, ..]) => s.as_str().map_or(0, |s| s.len() / 2 * NODE),
            (
                "list" | "map" | "select" | "reject" | "sort" | "unique" | "reverse" | "first" | "last" | "batch"
                | "slice" | "min" | "max" | "items",
                [s, rest @ ..],
            ) if s.as_str().is_some() || !rest.is_empty() && matches!(call.name.as_str(), "batch" | "slice") => {
                let n = rest.first().and_then(Value::as_usize).unwrap_or(0);
                (n + text).saturating_mul(NODE)
            }
            ("trim" | "strip" | "lstrip" | "rstrip", [s, chars, ..]) => {
                let len = |v: &Value| v.as_str().map_or(0, str::len);
                self.look(len(s).saturating_mul(len(chars)))?;
                0
            }
            ("sum", _) => {
                self.look(len.saturating_mul(text + NODE))?;
                0
            }
            ("indent" | "wordwrap" | "tojson", _) => 0,
            _ => 0,
        };
        if bytes > self.largest { Err(too_much(&format!("{:?} makes", call.name), self.largest)) } else { Ok(()) }
    }
}

/// Calls a builtin, charging for the values that it reads and makes.
fn call_builtin(state: &mut State, args: &Arguments, f: Builtin) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    budget.call(args)?;
    let value = budget.marks.clone().call(args, |args| f(state, args))?;
    Budget::of(state)?.make(value)
}

/// Wraps a builtin for the interpreter. `name`: as in `template/marks.rs`.
pub fn charged(name: String, f: Builtin) -> impl Fn(&mut State, Rest<ValueOrKwargs>) -> Result<Value, Error> {
    move |state, args| call_builtin(state, &Arguments::new(&name, &args.into_values())?, f)
}

/// Charges the operands of an operation.
fn read_all(state: &mut State, operands: Rest<ValueOrKwargs>) -> Result<Vec<Value>, Error> {
    let operands = operands.into_values();
    let budget = Budget::of(state)?;
    operands.iter().try_for_each(|value| budget.read(value).map(drop))?;
    Ok(operands)
}

/// Wraps an operation on positional values, which are charged first.
fn operation(
    f: impl Fn(&mut State, &[Value]) -> Result<Value, Error>,
) -> impl Fn(&mut State, Rest<ValueOrKwargs>) -> Result<Value, Error> {
    move |state, operands| {
        let operands = read_all(state, operands)?;
        let value = f(state, &operands)?;
        Budget::of(state)?.make(value)
    }
}

fn arithmetic(state: &mut State, op: &str, a: &Value, b: &Value) -> Result<Value, Error> {
    match (op, kind(a)) {
        // HTML-safe text stays HTML-safe, and the other operand is escaped.
        ("+", Kind::Str(text)) if b.is_safe() && !a.is_safe() => {
            operators::add(&Value::from_safe_string(marks_of(state)?.escaped(text)), b)
        }
        ("+", Kind::Str(_)) if a.is_safe() && !b.is_safe() => match b.as_str() {
            Some(text) => operators::add(a, &Value::from_safe_string(marks_of(state)?.escaped(text))),
            None => operators::add(a, b),
        },
        ("+", _) => operators::add(a, b),
        ("*", _) => {
            let budget = Budget::of(state)?;
            let mut bytes = 1usize;
            for value in [a, b] {
                let size = budget.read(value)?.bytes();
                bytes = value.as_usize().or(value.as_str().map(str::len)).unwrap_or(size).saturating_mul(bytes);
            }
            if bytes > budget.largest && !(a.is_number() && b.is_number()) {
                return Err(too_much("\"*\" makes", budget.largest));
            }
            operators::mul(a, b)
        }
        ("%", Kind::Str(_)) => {
            let args = Arguments::new("format", &[a.clone(), b.clone()])?;
            marks_of(state)?
                .call(&args, |args| format::percent(args.placed[0].as_str().unwrap_or_default(), &args.placed[1]))
        }
        _ => operators::arithmetic(op, a, b),
    }
}

/// Calls a method of the first of `all`.
fn call_method(state: &mut State, name: &str, all: &[Value]) -> Result<Value, Error> {
    let Some((value, rest)) = all.split_first() else { return Err(refuse("a method of nothing")) };
    if items::has_method(value, name) {
        return call_builtin(state, &Arguments::new(name, all)?, |_, args| methods::call(args));
    }
    if value.is_undefined() {
        return Err(values::undefined(&format!("the value of which {name:?} is called")));
    }
    if let Some(list) = value.downcast_object_ref::<List>().filter(|_| items::is_unsafe_method(value, name)) {
        let budget = Budget::of(state)?;
        let read = if name == "append" { rest } else { all };
        let nodes = read.iter().try_fold(0, |nodes, value| Ok::<_, Error>(nodes + budget.read(value)?.nodes))?;
        budget.spend(nodes.saturating_mul(NODE))?;
        return lists::change(list, &Arguments::new(name, all)?, &budget.marks);
    }
    if items::is_unsafe_method(value, name) {
        let kind = type_name(value);
        return Err(refuse(format!("access to attribute '{name}' of '{kind}' object is unsafe")));
    }
    let own = value.downcast_object_ref::<Cycler>().is_some() || value.as_object().is_some_and(methods::is_loop);
    if own {
        // Loops compare a value with the previous call's, and keep it.
        let kept = Budget::of(state)?.make(Value::from(rest.to_vec()))?;
        let kept: Vec<Value> = marks_of(state)?.unmarked(&kept).try_iter()?.collect();
        let args = if name == "changed" { &kept } else { rest };
        return match value.call_method(state, name, args) {
            Ok(value) => Budget::of(state)?.make(value),
            Err(e) => Err(e),
        };
    }
    let found = items::attr(value, name)?;
    if found.is_undefined() {
        let what = format!("'{} object' has no attribute '{name}'", type_name(value));
        return Err(Error::new(ErrorKind::UnknownMethod, what));
    }
    call_value(state, &found, rest)
}

/// Calls a macro, a function or a method that was looked up before.
fn call_value(state: &mut State, function: &Value, args: &[Value]) -> Result<Value, Error> {
    if let Some(method) = function.downcast_object::<BoundMethod>() {
        let all: Vec<Value> = std::iter::once(&method.value).chain(args).cloned().collect();
        return call_method(state, &method.name, &all);
    }
    if function.is_undefined() {
        return Err(values::undefined("what is called"));
    }
    let is_macro = function.as_object().is_some_and(|object| values::is_named(object, "::Macro"));
    let collected = if is_macro { collected(function, args)? } else { None };
    let value = function.call(state, collected.as_deref().unwrap_or(args))?;
    Budget::of(state)?.make(value)
}

/// Returns the arguments of a macro with `varargs` and `kwargs`, which `template/source.rs` adds.
fn collected(function: &Value, args: &[Value]) -> Result<Option<Vec<Value>>, Error> {
    let names: Vec<Value> = function.get_attr("arguments")?.try_iter()?.collect();
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let (takes_placed, takes_named) = (names.contains(&"varargs"), names.contains(&"kwargs"));
    if !takes_placed && !takes_named {
        return Ok(None);
    }
    let own = names.len() - usize::from(takes_placed) - usize::from(takes_named);
    let Arguments { mut placed, named, .. } = Arguments::new("macro", args)?;
    let is_own = |name: &str| names[..own].contains(&name) || name == "caller";
    let (mut options, others): (Vec<_>, Vec<_>) = named.into_iter().partition(|(name, _)| is_own(name) || !takes_named);
    if takes_placed {
        let more = placed.split_off(own.min(placed.len()));
        options.push(("varargs".to_owned(), values::tuple(more)));
    } else if placed.len() > own {
        return Err(refuse(format!("macro takes not more than {own} argument(s)")));
    }
    if takes_named {
        let others = others.into_iter().map(|(name, value)| (Value::from(name), value));
        options.push(("kwargs".to_owned(), Value::from_pairs(others)));
    }
    placed.push(Value::from(options.into_iter().collect::<Kwargs>()));
    Ok(Some(placed))
}

/// Returns the environment of a template: Jinja2's filters, tests and functions, and those that `guarded` calls.
pub fn environment() -> Environment<'static> {
    let mut e = Environment::empty();
    for (name, f) in FILTERS {
        e.add_filter(*name, charged((*name).to_owned(), *f));
    }
    for (name, f) in TESTS {
        e.add_test(*name, charged(format!("is {name}"), *f));
    }
    for (name, f) in FUNCTIONS {
        e.add_function(*name, charged((*name).to_owned(), *f));
    }
    // A constant that the compiler does not fold.
    e.add_filter("factor", |value: Value| value);
    e.add_filter(BEGIN, begin);
    e.add_filter(MAKE, |state: &mut State, value: Value| Budget::of(state)?.make(value));
    e.add_filter(FRESH, |state: &mut State, value: Value| Budget::of(state)?.make(lists::fresh(&value)?));
    e.add_filter(SPEND, |state: &mut State, bytes: usize| Budget::of(state)?.spend(bytes));
    e.add_filter(KEEP, |state: &mut State, value: Value| {
        Budget::of(state)?.read(&Value::from(vec![value.clone()])).map(|_| value)
    });
    for (op, name) in ARITHMETIC {
        e.add_filter(name, operation(move |state, operands| arithmetic(state, op, &operands[0], &operands[1])));
    }
    for (_, op, name, chain) in COMPARISONS {
        e.add_filter(name, operation(move |state, operands| compare(state, op, operands).map(Value::from)));
        // The result ends on top of the stack.
        e.add_filter(chain, move |state: &mut State, operands: Rest<ValueOrKwargs>| {
            let operands = read_all(state, operands)?;
            let result = compare(state, op, &operands)?;
            Ok::<_, Error>(vec![Value::from(result), operands[1].clone()])
        });
    }
    e.add_filter(CONCAT, operation(concat));
    e.add_filter(NEGATE, operation(|_, operands| operators::neg(&operands[0])));
    e.add_filter(
        SLICE,
        operation(|_, operands| items::slice(&operands[0], [&operands[1], &operands[2], &operands[3]])),
    );
    e.add_filter(ATTRIBUTE, |_: &mut State, value: Value, name: &str| items::attr(&value, name));
    e.add_filter(ITEM, item);
    e.add_filter(ITERATE, iterate);
    e.add_filter(UNPACK, unpack);
    e.add_filter(FUNCTION, |state: &mut State, args: Value, name: &str| {
        let function = state.lookup(name);
        let function = function.ok_or_else(|| Error::new(ErrorKind::UnknownFunction, format!("{name} is unknown")))?;
        call_value(state, &function, &args.try_iter()?.collect::<Vec<_>>())
    });
    e.add_filter(METHOD, |state: &mut State, args: Value, name: &str| {
        call_method(state, name, &args.try_iter()?.collect::<Vec<_>>())
    });
    e.add_filter(OBJECT, |state: &mut State, args: Value| {
        let all: Vec<Value> = args.try_iter()?.collect();
        let (function, args) = all.split_first().ok_or_else(|| refuse("a call of nothing"))?;
        call_value(state, function, args)
    });
    e.set_formatter(format);
    e
}

/// Gives a render its budget. `input`: bytes of its initial variables.
fn begin(state: &mut State, marks: Value, input: usize) -> Result<usize, Error> {
    let marks = marks.downcast_object::<Begin>().ok_or_else(|| refuse("no marks"))?;
    state.get_or_insert_extension_with(|| RenderMarks(marks.0.clone()));
    state.get_or_insert_extension_with(|| Budget {
        marks: marks.0.clone(),
        made: input.saturating_mul(MADE_TIMES).saturating_add(MADE),
        read: input.saturating_mul(READ_TIMES).saturating_add(READ),
        largest: input.saturating_mul(2).saturating_add(MAX_OUTPUT),
    });
    Ok(input)
}

fn compare(state: &mut State, op: &str, operands: &[Value]) -> Result<bool, Error> {
    let marks = marks_of(state)?;
    operators::compare(op, &marks.unmarked(&operands[0]), &marks.unmarked(&operands[1]))
}

fn concat(state: &mut State, operands: &[Value]) -> Result<Value, Error> {
    let marks = marks_of(state)?;
    let part = |value: &Value| values::show(&marks.shown(value)?);
    Ok(Value::from(part(&operands[0])? + &part(&operands[1])?))
}

fn item(state: &mut State, value: Value, key: Value) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    budget.look(value.as_str().map_or(0, str::len))?;
    budget.read(&key)?;
    let key = budget.marks.item(&value, &key);
    items::item(&value, &key)
}

/// Returns the iterable of a loop.
fn iterate(state: &mut State, value: Value) -> Result<Value, Error> {
    match kind(&value) {
        Kind::Sequence(_) => {
            let items = values::items(&value)?;
            Budget::of(state)?.make(Value::from(items))
        }
        Kind::Undefined | Kind::Str(_) | Kind::List | Kind::Tuple | Kind::Dict => Ok(value),
        _ => Err(refuse(format!("'{}' object is not iterable", type_name(&value)))),
    }
}

fn unpack(state: &mut State, value: Value) -> Result<Value, Error> {
    let budget = Budget::of(state)?;
    budget.spend(value.as_str().map_or(0, str::len).saturating_mul(NODE))?;
    budget.make(Value::from(values::items(&value)?))
}

/// Charges a value, and writes it like Python.
fn format(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let escapes = !matches!(state.auto_escape(), AutoEscape::None) && !value.is_safe();
    let budget = Budget::of(state)?;
    let size = budget.read(value)?;
    let factor = if !escapes && value.as_str().is_some() { 1 } else { ESCAPED };
    budget.spend(size.nodes * NODE + size.text.saturating_mul(factor))?;
    let shown = budget.marks.shown(value)?;
    let text = match shown.as_str() {
        Some(text) if !escapes => return out.write_str(text).map_err(Into::into),
        _ => values::show(&shown)?,
    };
    let text = if escapes { values::escaped(&text) } else { text };
    out.write_str(&text).map_err(Into::into)
}

/// Passes the marks to the program.
#[derive(Debug)]
struct Begin(Arc<Marks>);

impl Object for Begin {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// Copies a program and adds the charges; also returns the number of steps that it may take. `input`: its initial
/// variables, whose texts have `marks`.
///
/// # Errors
/// A program that needs other templates.
pub fn guarded<'s>(
    program: &Instructions<'s>,
    input: &Value,
    marks: &Arc<Marks>,
) -> Result<(Instructions<'s>, u64), Error> {
    use Instruction as I;
    let mut size = Size::default();
    size.add(input, 0, usize::MAX)?;
    let steps = (size.bytes() as u64).saturating_mul(STEPS_TIMES).saturating_add(STEPS);
    let mut out = Instructions::new(program.name(), program.source());
    let marks = I::LoadConst(Value::from_object(Begin(marks.clone())));
    for instruction in [marks, I::LoadConst(size.bytes().into()), I::ApplyFilter(BEGIN, Some(2), !0), I::DiscardTop] {
        out.add(instruction);
    }
    let mut places = Vec::new();
    while let Some(instruction) = program.get(places.len() as u32) {
        let at = places.len() as u32;
        let first = guard(instruction)?.into_iter().map(|instruction| match program.get_line(at) {
            Some(line) => out.add_with_line(instruction, line as u16),
            None => out.add(instruction),
        });
        places.push(first.fold(u32::MAX, u32::min));
    }
    let end = (4..).find(|&i| out.get(i).is_none()).unwrap_or(u32::MAX);
    for i in 0..end {
        if let Some(
            I::Jump(to)
            | I::JumpIfFalse(to)
            | I::JumpIfFalseOrPop(to)
            | I::JumpIfTrueOrPop(to)
            | I::Iterate(to)
            | I::BuildMacro(_, to, _),
        ) = out.get_mut(i)
        {
            *to = places.get(*to as usize).copied().unwrap_or(end);
        }
    }
    Ok((out, steps))
}

/// Returns the instructions that replace one of a template's.
fn guard<'s>(instruction: &Instruction<'s>) -> Result<Vec<Instruction<'s>>, Error> {
    use Instruction as I;
    let with = |name, n| I::ApplyFilter(name, Some(n), !0);
    let filter = |name| with(name, 1);
    let arithmetic = |op: &str| {
        let name = ARITHMETIC.iter().find(|(of, _)| *of == op).map_or(MAKE, |(_, name)| name);
        vec![with(name, 2)]
    };
    let comparison = |op: &str| COMPARISONS.iter().find(|(of, ..)| *of == op).map_or((MAKE, MAKE), |op| (op.2, op.3));
    let compared = |op: &str| vec![with(comparison(op).0, 2)];
    let text = |text: &str| I::LoadConst(Value::from(text));
    let spend =
        |bytes: usize| vec![I::LoadConst(Value::from(bytes)), filter(SPEND), I::DiscardTop, instruction.clone()];
    let itself = || instruction.clone();
    let one = |instruction| vec![instruction];
    let list = |n: &Option<u16>| match n {
        Some(n) => Ok(I::BuildList(Some(usize::from(*n)))),
        None => Err(unsupported("a call with arguments from a list or a map")),
    };
    Ok(match instruction {
        I::BuildMap(_) | I::BuildList(_) | I::BuildTuple(_) => vec![itself(), filter(MAKE)],
        I::Add => arithmetic("+"),
        I::Sub => arithmetic("-"),
        I::Mul => arithmetic("*"),
        I::Div => arithmetic("/"),
        I::IntDiv => arithmetic("//"),
        I::Rem => arithmetic("%"),
        I::Pow => arithmetic("**"),
        I::Eq => compared("Eq"),
        I::Ne => compared("Ne"),
        I::Lt => compared("Lt"),
        I::Lte => compared("Lte"),
        I::Gt => compared("Gt"),
        I::Gte => compared("Gte"),
        I::In => compared("In"),
        // The operator's type cannot be named outside of the interpreter.
        I::CompareAndPreserve(op) => vec![with(comparison(&format!("{op:?}")).1, 2), I::UnpackList(2)],
        I::Neg => one(filter(NEGATE)),
        I::StringConcat => one(with(CONCAT, 2)),
        I::Slice => one(with(SLICE, 4)),
        I::GetAttr(name) => vec![text(name), with(ATTRIBUTE, 2)],
        I::GetItem => one(with(ITEM, 2)),
        // A recursive call of a loop iterates a new value.
        I::CallFunction("loop", Some(1)) => vec![filter(ITERATE), itself(), filter(MAKE)],
        I::FastRecurse => vec![filter(ITERATE), itself()],
        I::Lookup("self") => return Err(unsupported("\"self\"")),
        I::CallFunction(name, n) => vec![list(n)?, text(name), with(FUNCTION, 2)],
        I::CallMethod(name, n) => vec![list(n)?, text(name), with(METHOD, 2)],
        I::CallObject(n) => vec![list(n)?, filter(OBJECT)],
        I::PushLoop(_) => vec![filter(ITERATE), itself()],
        I::UnpackList(_) => vec![filter(UNPACK), itself()],
        I::BuildKwargs(n) => spend(n * 2 * NODE),
        I::Enclose(_) => spend(CLOSURE),
        I::BuildMacro(..) => vec![filter(MAKE), itself()],
        I::SetAttr(name) if name.starts_with('_') => {
            return Err(refuse(format!("{name} begins with an underscore, which a namespace cannot store")));
        }
        I::SetAttr(_) => vec![I::Swap, filter(KEEP), I::Swap, itself()],
        // Emits the text through the formatter.
        I::EmitRaw(text) => vec![I::LoadConst(Value::from_safe_string((*text).to_owned())), I::Emit],
        I::UnpackLists(_) | I::MergeKwargs(_) => one(list(&None)?),
        I::FastSuper | I::CallBlock(_) | I::LoadBlocks | I::Include(_) | I::ExportLocals => {
            return Err(unsupported("a block or another template"));
        }
        // Charged by the function that they call.
        I::ApplyFilter(..) | I::PerformTest(..) | I::Emit => one(itself()),
        // Values that exist already.
        I::LoadConst(value) if lists::has_lists(value) => vec![itself(), filter(FRESH)],
        I::Not | I::IsUndefined | I::StoreLocal(_) | I::Lookup(_) | I::LoadConst(_) => one(itself()),
        I::DupTop | I::DiscardTop | I::Swap | I::GetClosure | I::PushDidNotIterate => one(itself()),
        // Frames, whose number is bounded, and jumps.
        I::PushWith | I::Iterate(_) | I::PopFrame | I::PopLoopFrame => one(itself()),
        I::PushAutoEscape | I::PopAutoEscape | I::BeginCapture(_) | I::EndCapture => one(itself()),
        I::Jump(_) | I::JumpIfFalse(_) | I::JumpIfFalseOrPop(_) | I::JumpIfTrueOrPop(_) => one(itself()),
        I::Return => one(itself()),
    })
}
