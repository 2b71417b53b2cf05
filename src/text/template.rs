//! Chat templates: the Jinja programs in which models say how a conversation becomes text, run as Hugging Face's
//! `transformers` runs them. A template is a stranger's program, so its size, depth, steps and output are bounded.
//! Knows nothing of tokens.

use std::io::{self, Write};
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Environment, ErrorKind, Value};
use serde_json::{Map, Value as Json};

use super::Tokenizer;
use super::clock::strftime;
use crate::error::{Error, Result};
use crate::format::Metadata;

const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 16 << 20;
const MAX_DEPTH: usize = 100;
const MAX_STEPS: u64 = 10_000_000;

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
        let text = |id: Option<u32>| match id.map(|id| tokenizer.decode_token(id, true)) {
            Some(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            _ => String::new(),
        };
        Ok(m.str("tokenizer.chat_template")?
            .map(|source| ChatTemplate::new(source, &text(tokenizer.bos()), &text(tokenizer.eos()))))
    }

    /// `bos` and `eos`: what the template sees as `bos_token` and `eos_token`.
    pub fn new(source: &str, bos: &str, eos: &str) -> ChatTemplate {
        ChatTemplate { environment: compile(source), bos: bos.to_owned(), eos: eos.to_owned() }
    }

    /// The text of a conversation. `messages`: role and content of each. `extra`: more variables, such as `tools`;
    /// they come before the ones that this function sets, so that `messages` may be given whole.
    ///
    /// # Errors
    /// `Unsupported` for a template that cannot be compiled, `InvalidArgument` for one that refuses this conversation
    /// or fails on it, passing a bound included.
    pub fn render(
        &self,
        messages: &[(&str, &str)],
        add_generation_prompt: bool,
        extra: &Map<String, Json>,
    ) -> Result<String> {
        let environment = self.environment.as_ref().map_err(|why| Error::unsupported(why.clone()))?;
        let message = |&(role, content): &(&str, &str)| {
            Value::from_iter([("role", Value::from(role)), ("content", Value::from(content))])
        };
        let mut variables: Vec<(&str, Value)> = vec![
            ("messages", messages.iter().map(message).collect()),
            ("add_generation_prompt", add_generation_prompt.into()),
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
        ];
        variables.extend(extra.iter().map(|(name, value)| (name.as_str(), Value::from(Serde(value)))));
        let mut out = Bounded(Vec::new());
        let failed = |e: minijinja::Error| {
            // The innermost reason says most: `raise_exception` arrives wrapped.
            let mut why = String::new();
            let mut next: Option<&dyn std::error::Error> = Some(&e);
            while let Some(e) = next {
                why = e.to_string();
                next = e.source();
            }
            Error::invalid(format!("the chat template: {why}"))
        };
        environment
            .get_template(NAME)
            .and_then(|t| t.render_captured_to(Value::from_iter(variables), &mut out).map(|_| ()))
            .map_err(failed)?;
        String::from_utf8(out.0).map_err(|_| Error::invalid("the chat template wrote broken UTF-8"))
    }
}

fn compile(source: &str) -> Result<Environment<'static>, String> {
    let refuse = |why: String| format!("the chat template: {why}");
    if source.len() > MAX_SOURCE {
        return Err(refuse(format!("{} bytes, at most {MAX_SOURCE} are supported", source.len())));
    }
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| refuse(e.to_string()))?,
    );
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::None => out.write_str("None").map_err(Into::into),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }).map_err(Into::into),
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_function("raise_exception", |why: String| -> Result<Value, minijinja::Error> {
        Err(minijinja::Error::new(ErrorKind::InvalidOperation, why))
    });
    environment.add_function("strftime_now", |format: String| strftime(&format, SystemTime::now()));
    environment.add_filter("tojson", to_json);
    environment.add_template_owned(NAME, source.to_owned()).map_err(|e| refuse(e.to_string()))?;
    Ok(environment)
}

/// `json.dumps(value, ensure_ascii=False, indent=indent)`.
fn to_json(value: Value, options: Kwargs) -> Result<Value, minijinja::Error> {
    let failed = |e: serde_json::Error| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string());
    let indent: Option<usize> = options.get("indent")?;
    let _: Option<bool> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let mut out = Bounded(Vec::new());
    let spaces = [b' '; 16];
    match indent {
        Some(n) => {
            let pretty = serde_json::ser::PrettyFormatter::with_indent(&spaces[..n.min(16)]);
            serde::Serialize::serialize(&value, &mut serde_json::Serializer::with_formatter(&mut out, pretty))
        }
        None => serde::Serialize::serialize(&value, &mut serde_json::Serializer::with_formatter(&mut out, OneLine)),
    }
    .map_err(failed)?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&out.0).into_owned()))
}

/// Python's separators on one line.
struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, w: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
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
