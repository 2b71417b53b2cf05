//! Chat templates: the Jinja programs in which models say how a conversation becomes text, run by `minijinja` with
//! what Hugging Face's `transformers` adds to the language. Knows nothing of tokens but the texts of two.
//!
//! A template is a stranger's program. Bounded here: source, nesting, length of expressions (`fence`), steps, output,
//! and what a single filter or method makes. Not bounded, because `minijinja` has no hook for it: memory that grows
//! by steps, as in doubling a string forty times, and values that wrap themselves into one another.

use std::fmt;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{ArgType, Kwargs, Serde, ValueKind};
use minijinja::{Environment, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value as Json, json};

use super::Tokenizer;
use super::clock::strftime;
use crate::error::{Error, Result};
use crate::format::Metadata;

const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 16 << 20;
const MAX_DEPTH: usize = 100;
const MAX_STEPS: u64 = 10_000_000;
/// Operators of one tag and `elif`s of a template. The parser nests each in the one before; published templates
/// have up to 35 and 20.
const MAX_CHAIN: usize = 200;

const NAME: &str = "chat_template";

/// A compiled template, or why there is none: a bad template stops chats, not the model.
pub struct ChatTemplate {
    environment: Result<Environment<'static>, String>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// The template of a model's metadata, if it has one.
    ///
    /// # Errors
    /// `Format` where the key holds something else than text. What the text says is looked at by `render` alone.
    pub fn from_metadata(m: &Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let text = |id: Option<u32>| {
            let bytes = id.and_then(|id| tokenizer.decode_token(id, true).ok());
            bytes.map_or_else(String::new, |b| String::from_utf8_lossy(&b).into_owned())
        };
        let source = m.str("tokenizer.chat_template")?;
        Ok(source.map(|source| ChatTemplate::new(source, text(tokenizer.bos()), text(tokenizer.eos()))))
    }

    /// `bos` and `eos`: what the template sees as `bos_token` and `eos_token`.
    pub fn new(source: &str, bos: String, eos: String) -> ChatTemplate {
        ChatTemplate { environment: caught(|| compile(source)).and_then(|result| result), bos, eos }
    }

    /// The text of a conversation. `messages`: role and content of each. `extra`: more variables, such as `tools`,
    /// or `messages` whole in place of the ones given.
    ///
    /// # Errors
    /// `Unsupported` for a template that cannot be compiled, `InvalidArgument` for one that refuses this conversation
    /// or fails on it; passing a bound is such a failure.
    pub fn render(
        &self,
        messages: &[(&str, &str)],
        add_generation_prompt: bool,
        extra: &Map<String, Json>,
    ) -> Result<String> {
        let environment =
            self.environment.as_ref().map_err(|why| Error::unsupported(format!("the chat template: {why}")))?;
        let messages: Json = messages.iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        let given = [
            ("messages", Value::from(Serde(&messages))),
            ("add_generation_prompt", Value::from(add_generation_prompt)),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
        ];
        let extra = extra.iter().map(|(name, value)| (name.as_str(), Value::from(Serde(value))));
        let variables = Value::from_pairs(given.into_iter().chain(extra));
        let mut out = Bounded(Vec::new());
        let result = caught(|| {
            let template = environment.get_template(NAME).map_err(innermost)?;
            template.render_captured_to(variables, &mut out).map(|_| ()).map_err(innermost)
        });
        result
            .and_then(|result| result)
            .and_then(|()| String::from_utf8(out.0).map_err(|e| e.to_string()))
            .map_err(|why| Error::invalid(format!("the chat template: {why}")))
    }
}

/// The language of templates and everything in it comes from elsewhere: a panic there is a bad template here.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| "the interpreter failed on it".to_owned())
}

/// The innermost reason says most: `raise_exception` arrives wrapped.
fn innermost(e: minijinja::Error) -> String {
    let mut why = e.to_string();
    let mut next = std::error::Error::source(&e);
    while let Some(e) = next {
        why = e.to_string();
        next = e.source();
    }
    why
}

fn refuse(why: impl Into<String>) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, why.into())
}

fn compile(source: &str) -> Result<Environment<'static>, String> {
    if source.len() > MAX_SOURCE {
        return Err(format!("{} bytes, at most {MAX_SOURCE} are supported", source.len()));
    }
    let source = adapted(source);
    fence(&source)?;
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| e.to_string())?;
    environment.set_syntax(syntax);
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_unknown_method_callback(|state, value, method, args| {
        let long = value.as_str().is_some_and(|s| match (method, args) {
            ("replace", [from, to, ..]) => replaced_len(s, from, to) > MAX_OUTPUT,
            ("format", _) => has_long_number(s),
            ("zfill" | "center" | "ljust" | "rjust", [width, ..]) => width.as_i64().is_some_and(|w| w > 1 << 10),
            _ => false,
        });
        if long {
            return Err(refuse(format!("more than {MAX_OUTPUT} bytes from {method:?}")));
        }
        minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
    });
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::None => out.write_str("None").map_err(Into::into),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }).map_err(Into::into),
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_function("raise_exception", |why: String| -> Result<Value, minijinja::Error> { Err(refuse(why)) });
    environment.add_function("strftime_now", |format: String| strftime(&format, SystemTime::now()));
    environment.add_filter("tojson", to_json);
    environment.add_filter("replace", |s: String, from: Value, to: Value| {
        if replaced_len(&s, &from, &to) > MAX_OUTPUT {
            return Err(refuse(format!("more than {MAX_OUTPUT} bytes from \"replace\"")));
        }
        Ok(s.replace(&from.to_string(), &to.to_string()))
    });
    environment.add_filter("indent", indent);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
    environment.add_filter("length", length);
    environment.add_filter("count", length);
    // Widths and precisions without a bound.
    environment.remove_filter("format");
    environment.add_template_owned(NAME, source).map_err(innermost)?;
    Ok(environment)
}

/// What the interpreter does not know: one kind of line end, and `{% generation %}`, which only marks its contents.
fn adapted(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(open) = rest.find("{%") {
        let (before, tag) = rest.split_at(open + 2);
        out.push_str(before);
        let word = tag.trim_start_matches(['-', '+']).trim_start();
        let mark = &tag[..tag.len() - word.len()];
        rest = match (word.strip_prefix("generation"), word.strip_prefix("endgeneration")) {
            (Some(after), _) => {
                out.extend([mark, "if true"]);
                after
            }
            (_, Some(after)) => {
                out.extend([mark, "endif"]);
                after
            }
            _ => tag,
        };
    }
    out.push_str(rest);
    out
}

/// Refuses chains so long that the parser, which recurses into them, could run out of stack.
fn fence(source: &str) -> Result<(), String> {
    let too_long = |what: &str| Err(format!("more than {MAX_CHAIN} {what}"));
    if source.matches("elif").count() > MAX_CHAIN {
        return too_long("\"elif\"s");
    }
    let mut rest = source;
    while let Some(open) = rest.find(['{']) {
        rest = &rest[open + 1..];
        if let Some(comment) = rest.strip_prefix('#') {
            rest = comment.find("#}").map_or("", |end| &comment[end..]);
        }
        let Some(tag) = rest.strip_prefix(['{', '%']) else { continue };
        let (mut operators, mut brackets, mut quote, mut end) = (0, 0usize, None, tag.len());
        let (mut before, mut word) = (' ', 0);
        for (i, c) in tag.char_indices() {
            if quote.is_none() && !c.is_alphanumeric() && c != '_' {
                operators += usize::from(matches!(&tag[word..i], "and" | "or" | "not" | "if" | "is" | "in"));
                word = i + c.len_utf8();
            }
            match (quote, c) {
                (Some(q), _) if c == q && before != '\\' => {
                    quote = None;
                    word = i + 1;
                }
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(c),
                (None, '}') if brackets == 0 && matches!(before, '}' | '%') => {
                    end = i;
                    break;
                }
                (None, '(' | '[' | '{') => {
                    brackets += 1;
                    operators += 1;
                }
                (None, ')' | ']' | '}') => brackets = brackets.saturating_sub(1),
                (None, '+' | '-' | '*' | '/' | '%' | '~' | '.' | '|' | '<' | '>' | '=') => operators += 1,
                (None, _) => {}
            }
            // An escaped backslash escapes nothing.
            before = if (before, c) == ('\\', '\\') { ' ' } else { c };
        }
        if operators > MAX_CHAIN {
            return too_long("operators in one tag");
        }
        rest = &tag[end..];
    }
    Ok(())
}

fn replaced_len(s: &str, from: &Value, to: &Value) -> usize {
    let from = from.as_str().map_or(1, str::len).max(1);
    let to = to.as_str().map_or(64, str::len);
    s.len().saturating_add((s.len() / from + 1).saturating_mul(to))
}

/// A width of four digits or more in a format.
fn has_long_number(s: &str) -> bool {
    s.as_bytes().windows(4).any(|w| w.iter().all(u8::is_ascii_digit))
}

/// An argument by its place or else by its name.
fn option<'a, T: ArgType<'a, Output = T>>(
    placed: Option<T>,
    options: &'a Kwargs,
    name: &'static str,
) -> Result<Option<T>, minijinja::Error>
where
    Option<T>: ArgType<'a, Output = Option<T>>,
{
    Ok(options.get::<Option<T>>(name)?.or(placed))
}

/// Spaces before every line that is not empty, the first one on request.
fn indent(
    s: String,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, minijinja::Error> {
    let width = option(width, &options, "width")?.unwrap_or(4);
    let first = option(first, &options, "first")?.unwrap_or(false);
    let blank = option(blank, &options, "blank")?.unwrap_or(false);
    options.assert_all_used()?;
    let lines = s.matches('\n').count() + 1;
    if width.saturating_mul(lines) > MAX_OUTPUT {
        return Err(refuse(format!("more than {MAX_OUTPUT} bytes from \"indent\"")));
    }
    let pad = " ".repeat(width);
    let line = |(i, line): (usize, &str)| {
        if if i == 0 { first } else { blank || !line.is_empty() } { format!("{pad}{line}") } else { line.to_owned() }
    };
    Ok(s.split('\n').enumerate().map(line).collect::<Vec<_>>().join("\n"))
}

/// `other` for an undefined value, and on request for one that is false.
fn default(value: Value, other: Option<Value>, lax: Option<bool>, options: Kwargs) -> Result<Value, minijinja::Error> {
    let other = option(other, &options, "default_value")?.unwrap_or_else(|| Value::from(""));
    let lax = option(lax, &options, "boolean")?.unwrap_or(false);
    options.assert_all_used()?;
    Ok(if value.is_undefined() || lax && !value.is_true() { other } else { value })
}

/// Of an undefined value 0.
fn length(value: Value) -> Result<usize, minijinja::Error> {
    match value.len() {
        Some(n) => Ok(n),
        None if value.is_undefined() => Ok(0),
        None => Err(refuse(format!("the length of a value of type {}", value.kind()))),
    }
}

/// `json.dumps(value, ensure_ascii=False, indent=…, separators=…, sort_keys=…)`.
fn to_json(value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let failed = |e: serde_json::Error| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string());
    let indent = options.get::<Option<usize>>("indent")?;
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    options.assert_all_used()?;
    if value.is_undefined() {
        return Err(refuse("an undefined value cannot become JSON"));
    }
    let mut json = serde_json::to_value(&value).map_err(failed)?;
    if sort_keys {
        json.sort_all_objects();
    }
    let mut out = Bounded(Vec::new());
    match (indent, separators.as_deref()) {
        (Some(n), _) => {
            let spaces = [b' '; 16];
            let pretty = PrettyFormatter::with_indent(&spaces[..n.min(16)]);
            json.serialize(&mut Serializer::with_formatter(&mut out, pretty))
        }
        (None, Some([comma, colon])) => {
            json.serialize(&mut Serializer::with_formatter(&mut out, OneLine { comma, colon }))
        }
        (None, _) => json.serialize(&mut Serializer::with_formatter(&mut out, OneLine { comma: ", ", colon: ": " })),
    }
    .map_err(failed)?;
    let text = String::from_utf8_lossy(&out.0);
    Ok(Value::from_safe_string(if ascii { escaped(&text) } else { text.into_owned() }))
}

/// JSON with `\\uNNNN` for all that is not ASCII.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

struct OneLine<'s> {
    comma: &'s str,
    colon: &'s str,
}

impl Formatter for OneLine<'_> {
    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(self.comma.as_bytes()) }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(self.comma.as_bytes()) }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(self.colon.as_bytes())
    }
}

/// Output that stays below its bound.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT || self.0.try_reserve(bytes.len()).is_err() {
            return Err(io::Error::other(format!("more than {MAX_OUTPUT} bytes of text")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("error", &self.environment.as_ref().err()).finish()
    }
}
