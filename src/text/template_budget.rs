//! The budget of memory, time and stack within which a chat template, a stranger's program, is rendered.
//!
//! `minijinja` counts steps, but a step may double a string. So every render has a `Budget`, and everything that makes
//! a value passes it: functions and filters, which are all registered here, charge what they make, and the compiled
//! program is copied (`guarded`) with a charge beside each instruction that grows something, in a match that names
//! every instruction there is. Operations that make much of little, a product or a join, are refused before they run. So
//! no value is larger than `largest`, counted as a tree, which bounds what one instruction can do; all values ever made
//! are together within `made`, and with them what is alive; all that was ever looked at is within `read`, and with it
//! the time. No value nests deeper than `MAX_NESTING` or holds what can change after it was counted (a loop, a
//! namespace), so that nothing recurses far to show or drop it.

use std::sync::Arc;

use minijinja::functions::{self, Function};
use minijinja::machinery::{Instruction, Instructions, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{FunctionArgs, FunctionResult, Object, ObjectRepr, Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, Value, escape_formatter, filters, tests};

use super::marks::Marks;
use crate::memory::is_short;

/// Longest text that a template may write.
pub const MAX_OUTPUT: usize = 16 << 20;
/// Bytes of the values that a template may make: a constant, and a multiple of its conversation.
const MADE: usize = 64 << 20;
const MADE_TIMES: usize = 512;
/// Bytes of the values that a template may read: a constant, and a multiple of its conversation.
const READ: usize = 1 << 30;
const READ_TIMES: usize = 16_384;
/// Bytes of a value besides its text: itself, its place in a list or a map, its allocation. Enough for a number's text.
const NODE: usize = 64;
/// A closure of a macro, which lives as long as the render.
const CLOSURE: usize = 1024;
/// Bytes that a character becomes at most in HTML, in JSON and in quotes inside of lists.
const ESCAPED: usize = 6;
const MAX_NESTING: usize = 200;
/// Largest number of operators in one tag and of `elif`s in a template. The parser nests each in the one before; published templates
/// have up to 35 and 20.
const MAX_CHAIN: usize = 200;

// Names that no template can write.
const BEGIN: &str = "!begin";
const MAKE: &str = "!make";
const KEEP: &str = "!keep";
const SPEND: &str = "!spend";
const OPERANDS: &str = "!operands";
const ITEM: &str = "!item";
const TIMES: &str = "!times";
const COMPARED: &str = "!compared";
const SHOWN: &str = "!shown";

pub fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.into())
}

fn too_much(what: &str, bound: usize) -> Error {
    refuse(format!("{what} more than {bound} bytes"))
}

/// Refuses a source with chains that are too long for the parser, which recurses into them, and keeps it from
/// multiplying constants while it compiles.
pub fn bounded(source: &str, syntax: &SyntaxConfig) -> Result<String, String> {
    let too_long = |what: &str| Err(format!("more than {MAX_CHAIN} {what}"));
    let mut out = String::with_capacity(source.len());
    let (mut copied, mut operators, mut elifs, mut before) = (0, 0, 0, None);
    for token in tokenize(source, false, syntax.clone()) {
        // The parser will say what is wrong.
        let Ok((token, span)) = token else { break };
        let opens = matches!(before, Some(Token::ParenOpen | Token::Comma));
        match &token {
            Token::VariableStart | Token::BlockStart => operators = 0,
            Token::Mul | Token::Pow if opens => return Err("arguments from a list or a map".to_owned()),
            Token::Mul => {
                let here = span.start_offset as usize;
                out.extend([&source[copied..here], "|factor "]);
                copied = here;
                operators += 1;
            }
            Token::Ident("elif") => elifs += 1,
            Token::Ident("and" | "or" | "not" | "if" | "is" | "in") => operators += 1,
            Token::Ident(_) | Token::Str(_) | Token::String(_) => {}
            Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            Token::TemplateData(_) | Token::VariableEnd | Token::BlockEnd | Token::Comma | Token::Colon => {}
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {}
            _ => operators += 1,
        }
        if elifs > MAX_CHAIN {
            return too_long("\"elif\"s");
        }
        if operators > MAX_CHAIN {
            return too_long("operators in one tag");
        }
        before = Some(token);
    }
    out.push_str(&source[copied..]);
    Ok(out)
}

/// The rest of a render's budget, and the marks of its conversation.
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

    /// Adds a value as a tree, and stops beyond `largest`. `depth`: of what holds it.
    fn add(&mut self, value: &Value, depth: usize, largest: usize) -> Result<(), Error> {
        self.nodes += 1;
        self.text += value.as_bytes().map_or(0, <[u8]>::len);
        if self.bytes() > largest {
            return Err(too_much("a value of", largest));
        }
        let Some(object) = value.as_object() else { return Ok(()) };
        let kind = object.type_name();
        let (is_loop, is_namespace) = (kind.ends_with("::Loop"), kind.ends_with("::Namespace"));
        if depth > 0 && (is_loop || is_namespace) {
            return Err(refuse("a loop or a namespace inside of another value"));
        }
        if depth >= MAX_NESTING {
            return Err(refuse(format!("values nested more than {MAX_NESTING} deep")));
        }
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

    /// Charges a new value. A lazy one is computed now, because laziness could nest without being seen.
    fn make(&mut self, value: Value) -> Result<Value, Error> {
        let size = self.read(&value)?;
        self.spend(size.nodes * NODE + value.as_bytes().map_or(0, <[u8]>::len))?;
        match value.as_object() {
            Some(object) if object.repr() == ObjectRepr::Iterable => {
                Ok(object.try_iter().map_or(value.clone(), |items| Value::from(items.collect::<Vec<_>>())))
            }
            _ => Ok(value),
        }
    }

    /// Charges the arguments of a filter or method, and refuses a call that would make much of little.
    fn call(&mut self, name: &str, args: &[Value]) -> Result<(), Error> {
        let (mut text, mut first) = (0, None);
        for value in args {
            text += self.read(value)?.text;
            first = first.or(Some(text));
        }
        // A text is a list of its characters.
        let len = args.first().map_or(0, |value| match value.as_object() {
            Some(object) => object.enumerator_len().unwrap_or(0),
            None => text,
        });
        let bytes = match (name, args) {
            ("replace", [s, from, to, ..]) => {
                let (s, from) = (s.as_str().map_or(text, str::len), from.as_str().map_or(1, str::len).max(1));
                s.saturating_add((s / from + 1).saturating_mul(to.as_str().map_or(text + NODE, str::len)))
            }
            ("join", _) => len.saturating_mul(text - first.unwrap_or(0)).saturating_add(text),
            ("format", [s, ..]) => {
                let s = s.as_str().unwrap_or_default();
                let long = |field: &str| field.as_bytes().windows(4).any(|w| w.iter().all(u8::is_ascii_digit));
                if s.split('{').skip(1).any(|rest| long(rest.split('}').next().unwrap_or_default())) {
                    return Err(too_much("\"format\" makes", self.largest));
                }
                (s.matches('{').count() + 1).saturating_mul(text + 1000)
            }
            ("split", [s, by, ..]) if by.as_str().is_some() => {
                let (s, by) = (s.as_str().unwrap_or_default(), by.as_str().unwrap_or_default());
                s.matches(by).count() * NODE
            }
            ("split", [s, ..]) => s.as_str().map_or(0, |s| s.split_whitespace().count() * NODE),
            ("splitlines", [s, ..]) => s.as_str().map_or(0, |s| s.lines().count() * NODE),
            ("list" | "map" | "select" | "reject" | "sort" | "unique", [s, ..]) if s.as_str().is_some() => text * NODE,
            ("batch" | "slice", [_, n, ..]) => (n.as_usize().unwrap_or(0) + text).saturating_mul(NODE),
            ("trim" | "strip" | "lstrip" | "rstrip", [s, chars, ..]) => {
                let len = |v: &Value| v.as_str().map_or(0, str::len);
                self.look(len(s).saturating_mul(len(chars)))?;
                0
            }
            ("sum", _) => {
                self.look(len.saturating_mul(text))?;
                0
            }
            _ => 0,
        };
        if bytes > self.largest { Err(too_much(&format!("{name:?} makes"), self.largest)) } else { Ok(()) }
    }
}

/// Wraps a function so that it charges for the values that it reads and makes.
pub fn charged<F, R, A>(name: &'static str, f: F) -> impl Fn(&mut State, Rest<ValueOrKwargs>) -> Result<Value, Error>
where
    F: Function<R, A>,
    R: FunctionResult,
    A: for<'a> FunctionArgs<'a>,
{
    let f = Value::from_function(f);
    move |state, args| {
        let args = args.into_values();
        let budget = Budget::of(state)?;
        budget.call(name, &args)?;
        let value = budget.marks.clone().call(name, &args, |args| f.call(state, args))?;
        Budget::of(state)?.make(value)
    }
}

macro_rules! add {
    ($environment:ident.$add:ident, $from:ident: $($name:literal = $f:ident,)*) => {
        $($environment.$add($name, charged($name, $from::$f));)*
    };
}

/// The environment of a template: filters and tests of Jinja2, functions, and those that `guarded` calls.
pub fn environment() -> Environment<'static> {
    let mut e = Environment::empty();
    add!(e.add_filter, filters:
        "safe" = safe, "escape" = escape, "e" = escape, "lower" = lower, "upper" = upper, "title" = title,
        "capitalize" = capitalize, "replace" = replace, "dictsort" = dictsort, "items" = items, "reverse" = reverse,
        "trim" = trim, "join" = join, "round" = round, "abs" = abs, "int" = int, "float" = float, "attr" = attr,
        "first" = first, "last" = last, "min" = min, "max" = max, "sort" = sort, "list" = list, "string" = string,
        "batch" = batch, "slice" = slice, "sum" = sum, "select" = select, "reject" = reject,
        "selectattr" = selectattr, "rejectattr" = rejectattr, "map" = map, "groupby" = groupby, "unique" = unique,
    );
    add!(e.add_test, tests:
        "undefined" = is_undefined, "defined" = is_defined, "none" = is_none, "safe" = is_safe, "escaped" = is_safe,
        "boolean" = is_boolean, "odd" = is_odd, "even" = is_even, "divisibleby" = is_divisibleby,
        "number" = is_number, "integer" = is_integer, "int" = is_integer, "float" = is_float, "string" = is_string,
        "sequence" = is_sequence, "iterable" = is_iterable, "mapping" = is_mapping, "lower" = is_lower,
        "upper" = is_upper, "sameas" = is_sameas, "eq" = is_eq, "equalto" = is_eq, "==" = is_eq, "ne" = is_ne,
        "!=" = is_ne, "lt" = is_lt, "lessthan" = is_lt, "<" = is_lt, "le" = is_le, "<=" = is_le, "gt" = is_gt,
        "greaterthan" = is_gt, ">" = is_gt, "ge" = is_ge, ">=" = is_ge, "in" = is_in, "true" = is_true,
        "false" = is_false, "filter" = is_filter, "test" = is_test,
    );
    e.add_function("range", functions::range);
    e.add_function("dict", functions::dict);
    e.add_function("namespace", functions::namespace);
    e.set_unknown_method_callback(|state, value, method, args| {
        let mut all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
        // A method of what the filter takes second.
        if method == "join" {
            all.reverse();
        }
        let budget = Budget::of(state)?;
        budget.call(method, &all)?;
        if method == "join" {
            all.reverse();
        }
        budget.marks.clone().call(method, &all, |all| match all {
            [value, args @ ..] => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
            [] => Err(ErrorKind::UnknownMethod.into()),
        })
    });
    e.add_filter("factor", |value: Value| value);
    e.add_filter(BEGIN, |state: &mut State, marks: Value, input: usize| {
        let marks = marks.downcast_object::<Begin>().ok_or_else(|| refuse("no marks"))?;
        state.get_or_insert_extension_with(|| Budget {
            marks: marks.0.clone(),
            made: input.saturating_mul(MADE_TIMES).saturating_add(MADE),
            read: input.saturating_mul(READ_TIMES).saturating_add(READ),
            largest: input.saturating_mul(2).saturating_add(MAX_OUTPUT),
        });
        Ok::<_, Error>(input)
    });
    e.add_filter(MAKE, |state: &mut State, value: Value| Budget::of(state)?.make(value));
    e.add_filter(SPEND, |state: &mut State, bytes: usize| Budget::of(state)?.spend(bytes));
    e.add_filter(KEEP, |state: &mut State, value: Value| {
        Budget::of(state)?.read(&Value::from(vec![value.clone()])).map(|_| value)
    });
    e.add_filter(OPERANDS, |state: &mut State, mut operands: Vec<Value>| {
        let budget = Budget::of(state)?;
        operands.iter().try_for_each(|value| budget.read(value).map(|_| ()))?;
        operands.reverse();
        Ok::<_, Error>(operands)
    });
    e.add_filter(COMPARED, |state: &mut State, mut operands: Vec<Value>| {
        let budget = Budget::of(state)?;
        for value in &mut operands {
            budget.read(value)?;
            *value = budget.marks.unmarked(value);
        }
        operands.reverse();
        Ok::<_, Error>(operands)
    });
    e.add_filter(SHOWN, |state: &mut State, mut operands: Vec<Value>| {
        let budget = Budget::of(state)?;
        for value in &mut operands {
            budget.read(value)?;
            *value = budget.marks.shown(value);
        }
        operands.reverse();
        Ok::<_, Error>(operands)
    });
    e.add_filter(ITEM, |state: &mut State, mut operands: Vec<Value>| {
        let budget = Budget::of(state)?;
        if let [value, key] = operands.as_mut_slice() {
            budget.look(value.as_str().map_or(0, str::len))?;
            budget.read(key)?;
            *key = budget.marks.item(value, key);
        }
        operands.reverse();
        Ok::<_, Error>(operands)
    });
    e.add_filter(TIMES, |state: &mut State, mut operands: Vec<Value>| {
        let budget = Budget::of(state)?;
        let mut bytes = 1;
        for value in &operands {
            let size = budget.read(value)?.bytes();
            bytes = value.as_usize().or(value.as_str().map(str::len)).unwrap_or(size).saturating_mul(bytes);
        }
        if bytes > budget.largest && !operands.iter().all(Value::is_number) {
            return Err(too_much("\"*\" makes", budget.largest));
        }
        operands.reverse();
        Ok(operands)
    });
    e.set_formatter(format);
    e
}

/// Writes a value as Python does, after charging it.
fn format(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let plain = matches!(state.auto_escape(), AutoEscape::None) && value.as_str().is_some();
    let budget = Budget::of(state)?;
    let size = budget.read(value)?;
    budget.spend(size.nodes * NODE + size.text.saturating_mul(if plain { 1 } else { ESCAPED }))?;
    match value.kind() {
        ValueKind::None => out.write_str("None").map_err(Into::into),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }).map_err(Into::into),
        _ => {
            let shown = budget.marks.shown(value);
            escape_formatter(out, state, &shown)
        }
    }
}

/// The marks on their way into the program.
#[derive(Debug)]
struct Begin(Arc<Marks>);

impl Object for Begin {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// Copies a program and adds the charges. `input`: the variables it starts with, whose texts have `marks`.
///
/// # Errors
/// A program that needs other templates than this one.
pub fn guarded<'s>(program: &Instructions<'s>, input: &Value, marks: &Arc<Marks>) -> Result<Instructions<'s>, Error> {
    use Instruction as I;
    let mut size = Size::default();
    size.add(input, 0, usize::MAX)?;
    let filter = |name| I::ApplyFilter(name, Some(1), !0);
    let constant = |n: usize| I::LoadConst(Value::from(n));
    let operands = |name, n| vec![I::BuildList(Some(n)), filter(name), I::UnpackList(n)];
    let mut out = Instructions::new(program.name(), program.source());
    let marks = I::LoadConst(Value::from_object(Begin(marks.clone())));
    for instruction in [marks, constant(size.bytes()), I::ApplyFilter(BEGIN, Some(2), !0), I::DiscardTop] {
        out.add(instruction);
    }
    let mut places = Vec::new();
    while let Some(instruction) = program.get(places.len() as u32) {
        let (before, after) = match instruction {
            I::BuildMap(_) | I::BuildList(_) | I::BuildTuple(_) => (vec![], Some(filter(MAKE))),
            I::StringConcat => (operands(SHOWN, 2), Some(filter(MAKE))),
            I::Add | I::CallFunction(..) | I::CallObject(_) => (vec![], Some(filter(MAKE))),
            I::CallMethod("changed", Some(n @ 2..)) => {
                let n = usize::from(*n) - 1;
                let kept = vec![I::BuildList(Some(n)), filter(MAKE), filter(OPERANDS), I::UnpackList(n)];
                (kept, Some(filter(MAKE)))
            }
            I::CallMethod(..) => (vec![], Some(filter(MAKE))),
            I::Slice => (operands(OPERANDS, 4), Some(filter(MAKE))),
            I::Mul => (operands(TIMES, 2), Some(filter(MAKE))),
            I::GetItem => (operands(ITEM, 2), None),
            I::Eq | I::Ne | I::Gt | I::Gte | I::Lt | I::Lte | I::In => (operands(COMPARED, 2), None),
            I::CompareAndPreserve(_) => (operands(COMPARED, 2), None),
            I::BuildKwargs(n) => (vec![constant(n * 2 * NODE), filter(SPEND), I::DiscardTop], None),
            I::Enclose(_) => (vec![constant(CLOSURE), filter(SPEND), I::DiscardTop], None),
            I::BuildMacro(..) => (vec![filter(MAKE)], None),
            I::SetAttr(_) => (vec![I::Swap, filter(KEEP), I::Swap], None),
            // Its text, through the formatter.
            I::EmitRaw(text) => (vec![I::LoadConst(Value::from_safe_string((*text).to_owned()))], None),
            I::UnpackLists(_) | I::MergeKwargs(_) => return Err(refuse("arguments from a list or a map")),
            I::FastSuper | I::CallBlock(_) | I::LoadBlocks | I::Include(_) | I::ExportLocals => {
                return Err(refuse("blocks and other templates"));
            }
            // Charged by the function that they call.
            I::ApplyFilter(..) | I::PerformTest(..) | I::Emit => (vec![], None),
            // Numbers, or values that exist already.
            I::Sub | I::Div | I::IntDiv | I::Rem | I::Pow | I::Neg | I::Not | I::IsUndefined => (vec![], None),
            I::StoreLocal(_) | I::Lookup(_) | I::GetAttr(_) | I::LoadConst(_) | I::UnpackList(_) => (vec![], None),
            I::DupTop | I::DiscardTop | I::Swap | I::GetClosure | I::PushDidNotIterate => (vec![], None),
            // Frames, whose number is bounded, and jumps.
            I::PushLoop(_) | I::PushWith | I::Iterate(_) | I::PopFrame | I::PopLoopFrame => (vec![], None),
            I::PushAutoEscape | I::PopAutoEscape | I::BeginCapture(_) | I::EndCapture => (vec![], None),
            I::Jump(_) | I::JumpIfFalse(_) | I::JumpIfFalseOrPop(_) | I::JumpIfTrueOrPop(_) => (vec![], None),
            I::FastRecurse | I::Return => (vec![], None),
        };
        let at = places.len() as u32;
        let itself = if matches!(instruction, I::EmitRaw(_)) { I::Emit } else { instruction.clone() };
        let first = before.into_iter().chain([itself]).chain(after).map(|instruction| match program.get_line(at) {
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
    Ok(out)
}
