//! Chat templates: Jinja programs that render a conversation as text, run by `minijinja` with the extensions of Hugging
//! Face's `transformers`.
//!
//! Templates are untrusted: source, steps and output are limited here; memory, time and nesting in
//! `template/budget.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::DateTime;
use chrono::format::StrftimeItems;
use minijinja::machinery::{eval, get_compiled_template, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, Value};
use serde_json::{Map, Value as Json, json};

use crate::error::{Error, Result, secured};
use crate::format::Metadata;
use crate::memory;
use crate::text::Tokenizer;
use crate::text::chat::form::Form;
use crate::text::chat::ids::CallIds;
use crate::text::chat::{Chat, INSTEAD_OF_TOOLS, each_text};
use crate::text::marks::{MarkedText, Marks};
use crate::text::template::arguments::text;
use crate::text::template::budget::{self, charged, guarded};
use crate::text::template::error::{MAX_OUTPUT, refuse};
use crate::text::template::marks::marked_value;
use crate::text::template::source::prepared;

const MAX_SOURCE: usize = 1 << 20;
const MAX_DEPTH: usize = 100;

/// Name and source of the template of RWKV models, whose metadata has only the name. A blank line ends each message.
const RWKV_WORLD: (&str, &str) = (
    "rwkv-world",
    "{%- for m in messages -%}\
     {{- {'system': 'System: ', 'assistant': 'Assistant: '}.get(m.role, 'User: ') ~ m.content|trim ~ '\\n\\n' -}}\
     {%- endfor -%}{%- if add_generation_prompt -%}{{- 'Assistant:' -}}{%- endif -%}",
);

const NAME: &str = "chat_template";
/// The id of a tool call in the form of other servers.
const FOREIGN_ID: &str = "call_7QxZ2mN4kP8sR1tV6wY3bC5d";

/// A template; an invalid one disables chats, not the model.
pub struct ChatTemplate {
    source: String,
    /// Compiled by the first `run`.
    environment: OnceLock<Result<Environment<'static>, String>>,
    bos: String,
    eos: String,
    /// The form for conversations without tool calls, found by probes on first use.
    text_form: OnceLock<Form>,
    call_form: OnceLock<Form>,
    /// The template for conversations with tools, if the model has a separate one.
    with_tools: Option<Box<ChatTemplate>>,
}

/// Penalty for a form that loses the name of a tool call, larger than any count of unwanted words.
const NO_NAME: usize = 1 << 20;

/// Maximum bytes of the interpreter for a short conversation and all probes.
const WORKING: usize = 8 << 20;

impl ChatTemplate {
    /// Returns the template in a model's metadata, if any. If the metadata also has a template named `tool_use`,
    /// conversations with tools use that template.
    ///
    /// # Errors
    /// `Format` if the key is not a text. An invalid template only fails in `run`.
    pub fn from_metadata(m: &Metadata, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let spelled = |source| if source == RWKV_WORLD.0 { RWKV_WORLD.1 } else { source };
        let template = |source| ChatTemplate::of_vocabulary(spelled(source), tokenizer);
        let Some(source) = m.str("tokenizer.chat_template")? else { return Ok(None) };
        let with_tools = m.str("tokenizer.chat_template.tool_use")?.map(|source| Box::new(template(source)));
        Ok(Some(ChatTemplate { with_tools, ..template(source) }))
    }

    /// Compiles a template that replaces the model's own. Recurses deeply.
    ///
    /// # Errors
    /// `InvalidArgument` with the line of a syntax error.
    pub fn given(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let template = ChatTemplate::of_vocabulary(source, tokenizer);
        secured("the chat template", WORKING + 64 * source.len(), || match template.environment()? {
            Ok(_) => Ok(()),
            Err(why) => Err(Error::invalid(format!("cannot use the chat template of rz_model_params: {why}"))),
        })?;
        Ok(template)
    }

    fn of_vocabulary(source: &str, tokenizer: &Tokenizer) -> ChatTemplate {
        let text = |id: Option<u32>| {
            let bytes = id.and_then(|id| tokenizer.decode_token(id, true).ok());
            bytes.map_or_else(String::new, |b| String::from_utf8_lossy(&b).into_owned())
        };
        ChatTemplate::new(source, text(tokenizer.bos()), text(tokenizer.eos()))
    }

    /// Returns the compiled template, or why there is none.
    fn environment(&self) -> Result<Result<&Environment<'static>, &String>> {
        let compile = || caught(|| compile(&self.source)).and_then(|result| result);
        Ok(found(&self.environment, compile)?.as_ref())
    }

    /// Returns a template with `bos_token` and `eos_token`, not yet compiled.
    pub fn new(source: &str, bos: String, eos: String) -> ChatTemplate {
        ChatTemplate {
            source: source.to_owned(),
            environment: OnceLock::new(),
            bos,
            eos,
            text_form: OnceLock::new(),
            call_form: OnceLock::new(),
            with_tools: None,
        }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    /// True for a name that occurs in the source as a word, so that the template may read members of that name.
    pub fn reads(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let is_word = |(at, _): (usize, &str)| {
            !self.source[..at].ends_with(is_part) && !self.source[at + name.len()..].starts_with(is_part)
        };
        !name.is_empty() && self.source.match_indices(name).any(is_word)
            || self.with_tools.as_ref().is_some_and(|with_tools| with_tools.reads(name))
    }

    /// Renders a conversation, whose texts are marked in the result.
    ///
    /// # Errors
    /// The errors of `run`, `InvalidArgument` for unknown members of messages, and `Unsupported` for calls, results or
    /// tools that the template omits.
    pub fn render(&self, chat: &Chat) -> Result<MarkedText> {
        chat.check_members(|name| self.reads(name))?;
        let text = self.render_unchecked(chat)?;
        if let Some((traced, traces)) = chat.traced() {
            // If the template rejects these substituted texts, the given ones may still be valid.
            match self.render_unchecked(&traced).and_then(|text| text.plain()) {
                Ok(text) => {
                    if let Some((_, what)) = traces.iter().find(|(trace, _)| !text.contains(trace.as_str())) {
                        return Err(Error::unsupported(format!(
                            "the chat template leaves out {what}; {INSTEAD_OF_TOOLS}"
                        )));
                    }
                }
                Err(e @ Error::OutOfMemory { .. }) => return Err(e),
                Err(_) => {}
            }
        }
        Ok(text)
    }

    /// Returns the number of bytes reserved while rendering, in addition to 16 per byte of the conversation's texts.
    pub fn reserve(&self) -> usize {
        let own = WORKING + 64 * self.source.len();
        self.with_tools.as_ref().map_or(own, |with_tools| own.max(with_tools.reserve()))
    }

    /// Like `render`, without checking for omitted parts.
    pub fn render_unchecked(&self, chat: &Chat) -> Result<MarkedText> {
        if let Some(with_tools) = self.with_tools.as_ref().filter(|_| !chat.tools().is_empty()) {
            return with_tools.render_unchecked(chat);
        }
        secured("the chat template", self.reserve() + 16 * chat.text_bytes(), || {
            let served = memory::served();
            let text = self.render_in_its_form(chat);
            text.map_err(|e| if memory::served() == served { e } else { out_of_memory() })
        })
    }

    fn render_in_its_form(&self, chat: &Chat) -> Result<MarkedText> {
        // A template that cannot run at all reports that in `run`.
        let text = *found(&self.text_form, || self.find_text_form())?;
        let call = if chat.has_calls() { self.form_of_calls()? } else { text };
        // Forms of system messages matter only for conversations with a system message.
        let (any, later) = (chat.has_system(0), chat.has_system(1));
        let folds_system = text.folds_system && any;
        let folds_later_system = text.folds_later_system && later;
        self.run(&chat.in_form(Form { folds_system, folds_later_system, ..call }))
    }

    /// Returns the form that messages must have for the template to write tool calls.
    fn form_of_calls(&self) -> Result<Form> {
        let text = *found(&self.text_form, || self.find_text_form())?;
        found(&self.call_form, || self.find_call_form(text)).copied()
    }

    /// True if the template supports system messages.
    pub fn has_system(&self) -> Result<bool> {
        found(&self.text_form, || self.find_text_form()).map(|form| !form.folds_system)
    }

    /// Returns the form of tool call ids that the template accepts.
    pub fn call_ids(&self) -> Result<CallIds> {
        self.with_tools.as_deref().unwrap_or(self).form_of_calls().map(|form| form.call_ids)
    }

    /// True if the template omits tool calls in every form.
    pub fn loses_calls(&self) -> Result<bool> {
        self.with_tools.as_deref().unwrap_or(self).form_of_calls().map(|form| form.loses_calls)
    }

    /// Finds the form that messages must have for the template to write system and user messages.
    fn find_text_form(&self) -> Form {
        let (system, user, next) = (("system", "probe 5y5"), ("user", "probe u5r"), ("user", "probe v8v"));
        // A template for conversations with tools may fail without them.
        let needs_tools = self.run(&Chat::new(&[user], true).in_form(Form::default())).is_err();
        let arrive = |messages: &[(&str, &str)], form: Form| {
            let mut variables = Chat::new(messages, true).in_form(form);
            if needs_tools {
                variables.insert("tools".to_owned(), probe_tools());
            }
            let text = self.run(&variables).and_then(|text| text.plain());
            text.is_ok_and(|text| messages.iter().all(|(_, content)| text.contains(content)))
        };
        let parts = Form { wants_parts: true, ..Form::default() };
        let form = if !arrive(&[user], Form::default()) && arrive(&[user], parts) { parts } else { Form::default() };
        let developer_is_system = !arrive(&[("developer", "probe d4d"), user], form);
        let joins_users = !arrive(&[user, next], form);
        let (again, reply) = (("system", "probe 7y7"), ("assistant", "probe r3r"));
        let after = |content| [user, ("assistant", content), next];
        let fills_empty = !arrive(&after(""), form) && arrive(&after(" "), form);
        let form = Form { developer_is_system, joins_users, fills_empty, ..form };
        let form = Form { folds_system: !arrive(&[system, user], form), ..form };
        let folds_later_system =
            !arrive(&[system, again, user], form) || !arrive(&[system, user, reply, again, next], form);
        Form { folds_later_system, ..form }
    }

    /// Finds the form that messages must have for the template to write tool calls, based on `form`.
    fn find_call_form(&self, form: Form) -> Form {
        let render = |chat: &Chat, form: Form| self.run(&chat.in_form(form)).and_then(|text| text.plain()).ok();
        let none = Json::Null;
        let (Some(chat), Some(other)) = (probe_call("f5n", &none, &none), probe_call("g5n", &none, &none)) else {
            return form;
        };
        // The number of unwanted words in the rendered tool call; `None` if its arguments are missing.
        let spoilt = |form: &Form| {
            let text = render(&chat, *form)?;
            // A Python literal of an object, or JSON within a quoted text, does not count as arguments.
            let is_written = text.contains("v5v") && ["'a5k': 'v5v'", "\\\"v5v"].iter().all(|not| !text.contains(not));
            // If the template never writes the name, all forms get the same penalty.
            let lacks_name = is_written && render(&other, *form).is_some_and(|other| other == text);
            let words = text.matches("None").count() + text.matches("null").count();
            is_written.then_some(words + if lacks_name { NO_NAME } else { 0 })
        };
        let mut best = None;
        'forms: for call_ids in [CallIds::Any, CallIds::Short, CallIds::Numbered] {
            for (arguments_as_text, empty_content) in [(false, false), (false, true), (true, false), (true, true)] {
                let form = Form { arguments_as_text, empty_content, call_ids, ..form };
                let Some(spoilt) = spoilt(&form) else { continue };
                if best.is_none_or(|(least, _)| spoilt < least) {
                    best = Some((spoilt, form));
                }
                if spoilt == 0 {
                    break 'forms;
                }
            }
        }
        let Some((_, mut form)) = best else { return Form { loses_calls: true, ..form } };
        // Some templates number tool calls themselves, and write the ids of results unchanged.
        if render(&chat, form).is_some_and(|text| text.contains("functions.f5n:0")) {
            form.call_ids = CallIds::Numbered;
        }
        let takes = |content: &str, thought: Json| {
            let chat = probe_call("f5n", &Json::from(content), &thought);
            chat.is_some_and(|chat| render(&chat, form).is_some())
        };
        form.content_is_thought = !takes("c4c", json!("t4t")) && takes("c4c", Json::Null) && takes("", json!("t4t"));
        form
    }

    /// Runs the template with variables, whose texts are marked in the result.
    ///
    /// # Errors
    /// `Unsupported` for a template that does not compile, `InvalidArgument` for one that rejects the conversation,
    /// fails, or exceeds a limit.
    pub fn run(&self, variables: &Map<String, Json>) -> Result<MarkedText> {
        let environment =
            self.environment()?.map_err(|why| Error::unsupported(format!("cannot use the chat template: {why}")))?;
        let mut texts = Vec::new();
        variables.values().for_each(|value| each_text(value, &mut |text| texts.push(text)));
        let marks = Arc::new(Marks::new(&self.source, texts.into_iter())?);
        let own = [("bos_token", Value::from(self.bos.as_str())), ("eos_token", Value::from(self.eos.as_str()))];
        // Transformers always passes these.
        let absent = ["tools", "documents"].into_iter().filter(|name| !variables.contains_key(*name));
        let absent = absent.map(|name| (name, Value::from(())));
        let given = variables.iter().map(|(name, value)| (name.as_str(), marked_value(value, &marks)));
        let variables = Value::from_pairs(own.into_iter().chain(absent).chain(given));
        let text = caught(|| {
            let template = environment.get_template(NAME).map_err(innermost)?;
            let instructions = &get_compiled_template(&template).instructions;
            let (program, steps) = guarded(instructions, &variables, &marks).map_err(innermost)?;
            let (mut text, blocks) = (String::new(), BTreeMap::new());
            let mut out = make_string_output(&mut text);
            let mut bounded = environment.clone();
            bounded.set_fuel(Some(steps));
            eval(&bounded, &program, variables, &blocks, &mut out, AutoEscape::None).map_err(innermost)?;
            // A marked character has four bytes.
            match text.len() > 4 * MAX_OUTPUT {
                true => Err(Failure::Failed(format!("more than {MAX_OUTPUT} bytes of text"))),
                false => Ok(text),
            }
        });
        let said = |why: &str| format!("the chat template: {}", marks.unmark(why));
        let text = text.map_err(Failure::Failed).and_then(|result| result).map_err(|why| match why {
            Failure::Unsupported(why) => Error::unsupported(said(&why)),
            Failure::Failed(why) => Error::invalid(said(&why)),
        })?;
        Ok(MarkedText { text, marks })
    }
}

/// Returns a conversation with a call and its result.
fn probe_call(name: &str, content: &Json, thought: &Json) -> Option<Chat> {
    let function = json!({"name": name, "arguments": {"a5k": "v5v"}});
    let call = json!({"id": FOREIGN_ID, "type": "function", "function": function});
    let said = json!({"role": "assistant", "content": content, "reasoning_content": thought, "tool_calls": [call]});
    let result = json!({"role": "tool", "name": "f5n", "tool_call_id": FOREIGN_ID, "content": "r"});
    let messages = json!([{"role": "user", "content": "?"}, said, result]);
    Chat::parse(&json!({"messages": messages, "tools": probe_tools()}).to_string(), false).ok()
}

/// Returns the tools of a conversation that probes a template.
fn probe_tools() -> Json {
    let parameters =
        json!({"type": "object", "properties": {"a5k": {"type": "string", "description": "d"}}, "required": ["a5k"]});
    let tool =
        |name| json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}});
    json!([tool("f5n"), tool("g5n")])
}

/// Returns the value of a cell, computed on first use; not stored if a lack of memory may have affected it.
fn found<T>(cell: &OnceLock<T>, find: impl FnOnce() -> T) -> Result<&T> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let served = memory::served();
    let value = find();
    if memory::served() == served { Ok(cell.get_or_init(|| value)) } else { Err(out_of_memory()) }
}

/// Turns a panic into an error: a panic in the interpreter means an invalid template.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| "the interpreter failed on it".to_owned())
}

/// Returns the innermost cause of an error, because errors of `raise_exception` are wrapped in other errors. The result
/// is `Unsupported` for features that are not implemented.
fn innermost(e: minijinja::Error) -> Failure {
    let mut inner = &e;
    while let Some(next) = std::error::Error::source(inner).and_then(|e| e.downcast_ref::<minijinja::Error>()) {
        inner = next;
    }
    let line = inner.line().map_or_else(String::new, |line| format!(" (in {NAME}:{line})"));
    match (inner.kind(), inner.detail()) {
        (ErrorKind::NonPrimitive, Some(what)) => Failure::Unsupported(format!("{what} is not supported{line}")),
        (
            ErrorKind::UnknownFilter
            | ErrorKind::UnknownTest
            | ErrorKind::UnknownFunction
            | ErrorKind::UnknownMethod
            | ErrorKind::SyntaxError,
            _,
        ) => Failure::Unsupported(inner.to_string()),
        _ => Failure::Failed(inner.to_string()),
    }
}

/// The reason why a template was not rendered.
enum Failure {
    /// The template uses an unsupported feature.
    Unsupported(String),
    /// The template rejects the conversation, or fails.
    Failed(String),
}

impl Failure {
    fn what(self) -> String {
        match self {
            Failure::Unsupported(what) | Failure::Failed(what) => what,
        }
    }
}

fn out_of_memory() -> Error {
    Error::OutOfMemory { what: "the chat template", bytes: 0 }
}

fn compile(source: &str) -> Result<Environment<'static>, String> {
    if source.len() > MAX_SOURCE {
        return Err(format!("{} bytes, at most {MAX_SOURCE} are supported", source.len()));
    }
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| e.to_string())?;
    let source = prepared(source, &syntax)?;
    let mut environment = budget::environment();
    environment.set_syntax(syntax);
    environment.set_recursion_limit(MAX_DEPTH);
    environment.add_function(
        "strftime_now",
        charged("strftime_now".to_owned(), |_, args| {
            let format = text(args.subject()?, "the format of a date")?;
            match format.len() {
                0..1024 => Ok(Value::from(strftime(format, SystemTime::now()))),
                _ => Err(refuse("the format of a date is too long")),
            }
        }),
    );
    environment.add_template_owned(NAME, source).map_err(|e| innermost(e).what())?;
    Ok(environment)
}

/// Formats a UTC time like C's `strftime` in the C locale; unknown codes stand for themselves.
fn strftime(format: &str, time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let date = i64::try_from(seconds).ok().and_then(|s| DateTime::from_timestamp(s, 0)).unwrap_or_default();
    let mut text = String::new();
    // Writing to a string in a leniently parsed format cannot fail.
    let _ = fmt::Write::write_fmt(
        &mut text,
        format_args!("{}", date.format_with_items(StrftimeItems::new_lenient(format))),
    );
    text
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate").field("error", &self.environment.get().map(|e| e.as_ref().err())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Expected values from Python's `datetime`.
    #[test]
    fn dates_agree_with_python() {
        let all = "%Y-%m-%d %H:%M:%S %j %A %a %B %b %I %p %y %-d %F %T %% %D %e %R %w %s %z %Z %-I|%Q %";
        for (seconds, want) in [
            (
                0,
                "1970-01-01 00:00:00 001 Thursday Thu January Jan 12 AM 70 1 1970-01-01 00:00:00 % 01/01/70  1 00:00 4 0 +0000 UTC 12|%Q %",
            ),
            (
                951_782_399,
                "2000-02-28 23:59:59 059 Monday Mon February Feb 11 PM 00 28 2000-02-28 23:59:59 % 02/28/00 28 23:59 1 951782399 +0000 UTC 11|%Q %",
            ),
            (
                1_709_210_096,
                "2024-02-29 12:34:56 060 Thursday Thu February Feb 12 PM 24 29 2024-02-29 12:34:56 % 02/29/24 29 12:34 4 1709210096 +0000 UTC 12|%Q %",
            ),
            (
                4_102_444_799,
                "2099-12-31 23:59:59 365 Thursday Thu December Dec 11 PM 99 31 2099-12-31 23:59:59 % 12/31/99 31 23:59 4 4102444799 +0000 UTC 11|%Q %",
            ),
        ] {
            assert_eq!(strftime(all, UNIX_EPOCH + Duration::from_secs(seconds)), want);
        }
    }
}
