//! The grammar of a reply with tool calls, in Lark: the model's own tags, as its template writes them, around arguments
//! that follow each tool's JSON schema. Uses `text` for the form.

mod dialect;
mod held;
mod parameters;

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::{Value as Json, json};

use super::limits::visit;
use super::schema::{self, Space};
use crate::error::{Error, Result};
use crate::text::{
    ANY, Argument, Body, CallForm, Dialect, KEY, NAME, Reply, Tokenizer, ToolChoice, is_bare, is_key, is_text, options,
    resolved,
};
use held::{MEMBERS, any_of, flattened, leave_out, lengths, omit_unheld};
use parameters::MAX_DEPTH;
pub use parameters::ToolSchema;

/// Maximum bytes of a tool's grammar if its arguments are not JSON.
const MAX_LARK: usize = 64 << 10;

/// Maximum bytes of a tool's argument schema, without descriptions.
const MAX_SCHEMA: usize = 256 << 10;

/// Optional white space after reasoning and before tags.
const SPACE: &str = r"(/[ \n]{1,4}/)?";

/// An error of a tool, by index, or of all tools together.
#[derive(Debug)]
pub struct Failed {
    pub tool: Option<usize>,
    pub error: Error,
}

/// Writes the grammar of a reply. `content`: name of the grammar of its content; `None` for any text.
///
/// # Errors
/// `Unsupported` for schemas that non-JSON arguments cannot follow, and the errors of `schema::prepared`.
pub fn to_lark(
    reply: &Reply,
    tools: &[ToolSchema],
    content: Option<&str>,
    space: Space,
    tokenizer: &Tokenizer,
) -> std::result::Result<String, Failed> {
    let lark = String::new();
    let mut writer = Writer { reply, tools, content, space, tokenizer, lark, rules: 0, tool: None, start: 0 };
    match writer.reply() {
        Ok(start) => Ok(format!("start: {start}\n{}", writer.lark)),
        Err(error) => Err(Failed { tool: writer.tool, error }),
    }
}

struct Writer<'r> {
    reply: &'r Reply,
    tools: &'r [ToolSchema],
    content: Option<&'r str>,
    space: Space,
    tokenizer: &'r Tokenizer,
    lark: String,
    rules: usize,
    /// The current tool, and the index of its first rule.
    tool: Option<usize>,
    start: usize,
}

impl Writer<'_> {
    fn reply(&mut self) -> Result<String> {
        let form = &self.reply.form;
        if form.has_headers {
            return self.messages();
        }
        let thought = self.thought()?;
        let text = self.text();
        let [open, close, end] = self.content_tags()?;
        let content = self.rule(&format!("{open} {text} {close}"));
        let Some(calls) = form.calls.as_ref().filter(|_| !self.tools.is_empty()) else {
            return Ok(format!("{thought}{content} {end}"));
        };
        let first = format!("{}{}", calls.open, calls.before);
        let (head, rest) = (self.first_tag(&first)?, self.calls(calls)?);
        let [open, close] = [form.content.open.clone(), self.less_end(&form.content.close)];
        let empty = match [self.tag(&open, "")?, self.tag(&close, "")?] {
            [open, close] if !open.is_empty() && !close.is_empty() => format!("({open} {close})?"),
            _ => String::new(),
        };
        // The tag's own white space is trimmed, because it would exclude other tags.
        let must = format!("{empty} {} {rest}", self.spaced(first.trim_start())?);
        let answer = match &self.reply.choice {
            ToolChoice::Required | ToolChoice::Named(_) => must,
            _ if self.content.is_some() => format!("({content} | {must})"),
            // Content has an opening tag, which distinguishes it from calls.
            _ if !form.content.open.is_empty() => format!("({content} | {content}? {head} {rest})"),
            // The call begins with the object itself, so other content must not begin with a brace.
            _ if first.trim().is_empty() => {
                let other = self.rule(r"/[^\s{](?s:.*)/");
                format!("({other}? | {head} {rest})")
            }
            _ => {
                let until = self.until_first(first.trim_start())?;
                format!("({content} | {until} {rest})")
            }
        };
        let unclosed = self.unclosed(calls, &rest)?;
        Ok(match unclosed.is_empty() {
            true => format!("{thought}{answer} {end}"),
            false => format!("({thought}{answer} | {unclosed}) {end}"),
        })
    }

    /// Unclosed reasoning that ends with calls; empty if not possible. Without control tokens, a call looks like one
    /// that reasoning only mentions; then reasoning must be closed.
    fn unclosed(&mut self, calls: &CallForm, rest: &str) -> Result<String> {
        let tags = self.reply.form.reasoning.as_ref().filter(|_| self.reply.may_reason);
        let first = format!("{}{}", calls.open, calls.before);
        let first = first.trim_start();
        let has_control = self.begins_with_control(first)?;
        let Some(tags) = tags.filter(|_| has_control) else { return Ok(String::new()) };
        let open = match self.reply.begins_in_reasoning {
            true => String::new(),
            false => self.spaced(&tags.open)?,
        };
        let text = self.rule("/(?s:.+)/");
        Ok(format!("{open} {text}? {} {rest}", self.first_tag(first)?))
    }

    /// True for a tag whose first part is a control token.
    fn begins_with_control(&self, tag: &str) -> Result<bool> {
        let mut first = None;
        self.tokenizer.split_control(tag, |part| {
            first = first.or(Some(part.is_ok()));
            Ok(())
        })?;
        Ok(first.unwrap_or(false))
    }

    /// Returns a tag with or without preceding white space. If the tag begins with a word, both forms are one lexeme
    /// each, because only later characters distinguish texts with the same beginning.
    fn spaced(&mut self, tag: &str) -> Result<String> {
        let other = self.first_tag(tag)?;
        Ok(match tag.starts_with(char::is_alphabetic) {
            true => format!("({other} | {})", self.first_tag(&format!(" {tag}"))?),
            false => format!("{SPACE} {other}"),
        })
    }

    /// Returns the text of the content.
    fn text(&mut self) -> String {
        match self.content {
            Some(name) => format!("@{name}"),
            None => format!("{}?", self.rule("/(?s:.+)/")),
        }
    }

    /// Optional reasoning before the rest; empty, or with a space at its end.
    fn thought(&mut self) -> Result<String> {
        let form = &self.reply.form;
        let Some(tags) = form.reasoning.as_ref().filter(|_| self.reply.may_reason) else { return Ok(String::new()) };
        let until = self.until(&tags.close)?;
        let filler = match form.fillers.first() {
            Some(filler) => format!("({})?", self.tag(filler, "")?),
            None => String::new(),
        };
        Ok(match self.reply.begins_in_reasoning {
            true => format!("{until} {SPACE} {filler} "),
            false => format!("({} {until} {SPACE} {filler})? ", self.spaced(&tags.open)?),
        })
    }

    /// Returns the optional tags of a template around content and at the end of every reply.
    fn content_tags(&mut self) -> Result<[String; 3]> {
        let form = &self.reply.form;
        let tags = [form.content.open.clone(), self.less_end(&form.content.close), self.less_end(&form.end)];
        let optional = |tag: String| if tag.is_empty() { tag } else { format!("({tag})?") };
        let [open, close, end] = tags.map(|tag| match tag.starts_with(char::is_alphabetic) {
            true => self.spaced(&tag),
            false => self.tag(&tag, ""),
        });
        Ok([optional(open?), optional(close?), optional(end?)])
    }

    /// Returns a reply of messages with headers: reasoning, text before a call, and a call or the answer.
    fn messages(&mut self) -> Result<String> {
        let before = self.messages_before()?;
        let text = self.text();
        let answer = format!("{} {text}", self.tag("<|channel|>final<|message|>", "")?);
        let mut calls = Vec::new();
        let kind = format!(r#"(" json" | " " {} "json")?"#, self.tag("<|constrain|>", "")?);
        for (i, tool) in self.tools.iter().enumerate() {
            self.begin(i);
            let name = &tool.name;
            let heads = [
                format!("<|channel|>commentary to=functions.{name}"),
                format!(" to=functions.{name}<|channel|>commentary"),
            ];
            let [first, second] = heads.map(|head| self.tag(&head, ""));
            let (message, json) = (self.tag("<|message|>", "")?, self.json(tool.parameters.clone(), "", tool)?);
            calls.push(self.rule(&format!("({} | {}) {kind} {message} {json}", first?, second?)));
        }
        self.tool = None;
        let calls = calls.join(" | ");
        Ok(match &self.reply.choice {
            _ if self.tools.is_empty() => format!("{before} {answer}"),
            ToolChoice::Required | ToolChoice::Named(_) => format!("{before} ({calls})"),
            _ => format!("{before} ({answer} | {calls})"),
        })
    }

    /// Returns the optional messages before the answer or a call.
    fn messages_before(&mut self) -> Result<String> {
        let message = |writer: &mut Self, channel: &str| -> Result<String> {
            let head = writer.tag(&format!("<|channel|>{channel}<|message|>"), "")?;
            let rest = format!("{} {}", writer.until("<|end|>")?, writer.tag("<|start|>assistant", "")?);
            Ok(if channel == "analysis" && writer.reply.begins_in_reasoning {
                rest
            } else {
                format!("({head} {rest})?")
            })
        };
        Ok(format!("{} {}", message(self, "analysis")?, message(self, "commentary")?))
    }

    /// Returns the rest of the first call, more calls, and the end.
    fn calls(&mut self, calls: &CallForm) -> Result<String> {
        let mut bodies = Vec::new();
        for (i, tool) in self.tools.iter().enumerate() {
            self.begin(i);
            let body = self.body(calls, tool)?;
            bodies.push(self.rule(&body));
        }
        self.tool = None;
        let is_last = calls.between.is_none() || !self.reply.parallel_calls;
        let after = if calls.close.is_empty() && is_last { self.less_end(&calls.after) } else { calls.after.clone() };
        let after = self.tag(&after, "")?;
        let body = format!("({}) {after}", bodies.join(" | "));
        let more = match &calls.between {
            Some(between) if self.reply.parallel_calls => {
                let next = self.first_tag(&format!("{between}{}", calls.before))?;
                format!("({next} {body})*")
            }
            _ => String::new(),
        };
        let close = self.tag(&self.less_end(&calls.close), "")?;
        Ok(self.rule(&format!("{body} {more} {close}")))
    }

    /// Begins the rules of a tool.
    fn begin(&mut self, tool: usize) {
        (self.tool, self.start) = (Some(tool), self.lark.len());
    }

    fn body(&mut self, calls: &CallForm, tool: &ToolSchema) -> Result<String> {
        Ok(match &calls.body {
            Body::Object { head, tail, .. } => {
                let json = self.json(tool.parameters.clone(), "", tool)?;
                format!("{} {json} {}", self.tag(head, &tool.name)?, self.tag(tail, &tool.name)?)
            }
            Body::Named { middle, dialect } => {
                let arguments = match dialect {
                    Dialect::Json => self.json(tool.parameters.clone(), "", tool)?,
                    _ => self.members(&flattened(tool)?, *dialect, "", tool, 0)?,
                };
                let name = self.tag(&format!("{}{middle}", tool.name), &tool.name)?;
                format!("{name} {arguments}")
            }
            Body::Tagged { middle, argument } => {
                let name = self.tag(&format!("{}{middle}", tool.name), &tool.name)?;
                let mut out = name;
                let parameters = flattened(tool)?;
                for (key, schema) in parameters["properties"].as_object().into_iter().flatten() {
                    if !is_key(argument, key) {
                        tool.effort.borrow_mut().omit("/properties", key, &unwritable(key))?;
                        continue;
                    }
                    if is_never(schema) && !is_required(&parameters, key) {
                        continue;
                    }
                    let value = self.argument(argument, key, schema, tool)?;
                    let optional = if is_required(&parameters, key) { "" } else { "?" };
                    let _ = write!(out, " ({value}){optional}");
                }
                out
            }
        })
    }

    /// Returns an argument with its own tags.
    fn argument(&mut self, argument: &Argument, key: &str, schema: &Json, tool: &ToolSchema) -> Result<String> {
        let place = format!("/properties/{key}");
        let written = any_of(tool, &place, options(&resolved(schema, &tool.parameters)), |schema| {
            self.tagged(argument, key, schema, &place, tool)
        });
        match written {
            Err(Error::Unsupported(why)) => {
                leave_out(tool, &place, why)?;
                let front = self.tag(&format!("{}{key}{}", argument.before, argument.text), &tool.name)?;
                Ok(format!("{front} {}", self.text_until(&argument.close(key), 0, "")?))
            }
            written => written,
        }
    }

    fn tagged(
        &mut self,
        argument: &Argument,
        key: &str,
        schema: &Json,
        place: &str,
        tool: &ToolSchema,
    ) -> Result<String> {
        let is_text = is_text(schema);
        let front = match &argument.other {
            Some(other) if !is_text => other,
            _ => &argument.text,
        };
        let front = self.tag(&format!("{}{key}{front}", argument.before), &tool.name)?;
        let texts = schema["enum"].as_array().map(|texts| texts.iter().filter_map(Json::as_str).collect::<Vec<_>>());
        let close = argument.close(key);
        let after = self.tag(&close, "")?;
        let value = match (is_text, texts) {
            (true, Some(texts)) => {
                let texts: Vec<String> = texts.into_iter().map(quoted).collect();
                format!("({}) {after}", texts.join(" | "))
            }
            (true, None) => {
                let (least, most) = lengths(schema, place, tool)?;
                self.text_until(&close, least, &most)?
            }
            // Templates of this form write booleans like Python.
            (false, _) if schema["type"] == "boolean" => {
                format!("(\"true\" | \"false\" | \"True\" | \"False\") {after}")
            }
            (false, _) if let Some(mark) = &argument.nested => {
                format!("{} {after}", self.nested(schema, mark, place, tool, 0)?)
            }
            (false, _) => {
                let json = self.json(schema.clone(), place, tool)?;
                // The Python form is only written for schemas that it enforces completely.
                let is_best = tool.effort.borrow_mut().replace_best(false);
                let literal = argument.in_python.then(|| self.dialect_value(schema, Dialect::Repr, place, tool, 0));
                tool.effort.borrow_mut().replace_best(is_best);
                match literal {
                    None | Some(Err(Error::Unsupported(_))) => format!("{json} {after}"),
                    Some(literal) => format!("({json} | {}) {after}", literal?),
                }
            }
        };
        Ok(format!("{front} {value}"))
    }

    /// Returns a value other than a text, whose members are between tags after `mark`.
    fn nested(&mut self, schema: &Json, mark: &str, place: &str, tool: &ToolSchema, depth: usize) -> Result<String> {
        self.check_size(depth)?;
        let member = |writer: &mut Self, name: &str, schema: &Json| -> Result<String> {
            let place = if name == "item" { format!("{place}/items") } else { format!("{place}/properties/{name}") };
            let argument = Argument {
                before: format!("{mark}<"),
                text: ">".to_owned(),
                after: format!("{mark}</{KEY}>"),
                ..Default::default()
            };
            let options = options(&resolved(schema, &tool.parameters));
            let value = any_of(tool, &place, options, |schema| match is_text(schema) {
                true => writer.tagged(&argument, name, schema, &place, tool),
                false => {
                    let value = writer.nested(schema, mark, &place, tool, depth + 1)?;
                    let [open, close] =
                        [format!("{mark}<{name}>"), argument.close(name)].map(|tag| writer.tag(&tag, ""));
                    Ok(format!("{} {value} {}", open?, close?))
                }
            });
            Ok(writer.rule(&value?))
        };
        Ok(match schema["type"].as_str() {
            Some("array") if schema["items"].is_object() => {
                omit_unheld(schema, "array", &["items"], place, tool)?;
                let item = member(self, "item", &schema["items"])?;
                format!("({item})*")
            }
            Some("object") if schema["properties"].is_object() => {
                omit_unheld(schema, "object", &MEMBERS, place, tool)?;
                let mut out = String::new();
                for (name, value) in schema["properties"].as_object().into_iter().flatten() {
                    if name.is_empty() || !name.chars().all(is_bare) {
                        return Err(Error::unsupported(unwritable(name)));
                    }
                    let optional = if is_required(schema, name) { "" } else { "?" };
                    let _ = write!(out, " ({}){optional}", member(self, name, value)?);
                }
                out
            }
            Some("array" | "object") | None if schema.get("enum").is_none() => {
                return Err(Error::unsupported(
                    "the form of this model's calls needs the type of items or the names of members",
                ));
            }
            _ => self.json(schema.clone(), place, tool)?,
        })
    }

    fn check_size(&self, depth: usize) -> Result<()> {
        let bytes = self.lark.len() - self.start;
        match depth > MAX_DEPTH || bytes > MAX_LARK {
            true => Err(Error::TooComplex(format!(
                "the arguments are nested {depth} deep and take {bytes} bytes of the grammar; they must have at most \
                 {MAX_DEPTH} levels and {MAX_LARK} bytes"
            ))),
            false => Ok(()),
        }
    }

    /// Returns the rule of a JSON value for `schema`, which is the part of the tool's schema at `place`.
    fn json(&mut self, mut schema: Json, place: &str, tool: &ToolSchema) -> Result<String> {
        let mut has_references = false;
        visit(&schema, &mut |members| has_references |= members.contains_key("$ref"));
        if let Some(members) = schema.as_object_mut().filter(|_| has_references) {
            tool.effort.borrow().step(1 + tool.shared / 32, place)?;
            for name in ["$defs", "definitions"] {
                if let Some(defs) = tool.parameters.get(name) {
                    members.entry(name).or_insert_with(|| defs.clone());
                }
            }
        }
        let mut effort = tool.effort.borrow_mut();
        effort.base = place.to_owned();
        let prepared = schema::prepared(schema, self.space, &mut effort);
        effort.base.clear();
        let schema = prepared?.to_string();
        match schema.len() {
            0..=MAX_SCHEMA => Ok(self.rule(&format!("%json {schema}"))),
            n => Err(Error::TooComplex(format!(
                "the schema has {n} bytes without its descriptions; it must have at most {MAX_SCHEMA}"
            ))),
        }
    }

    /// Adds a rule and returns its name.
    fn rule(&mut self, body: &str) -> String {
        let name = format!("r{}", self.rules);
        self.rules += 1;
        let _ = writeln!(self.lark, "{name}: {body}");
        name
    }

    /// Returns a tag as control tokens and texts between them. `name` replaces `NAME`.
    fn tag(&self, tag: &str, name: &str) -> Result<String> {
        let mut parts = Vec::new();
        self.tokenizer.split_control(&tag.replace(NAME, name), |part| {
            match part {
                Ok(token) => parts.push(format!("<[{token}]>")),
                Err(text) => {
                    for (i, text) in text.split(ANY).enumerate() {
                        if i > 0 {
                            parts.push(r"/[0-9A-Za-z_.:\-]{1,40}/".to_owned());
                        }
                        if !text.is_empty() {
                            parts.push(quoted(text));
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(parts.join(" "))
    }

    /// `tag` before the name of any tool.
    fn first_tag(&mut self, tag: &str) -> Result<String> {
        if !tag.contains(NAME) {
            return self.tag(tag, "");
        }
        let names: Result<Vec<String>> = self.tools.iter().map(|tool| self.tag(tag, &tool.name)).collect();
        Ok(format!("({})", names?.join(" | ")))
    }

    /// Any text, and the tag that ends it.
    fn until(&mut self, tag: &str) -> Result<String> {
        self.until_first(tag.trim())
    }

    fn until_first(&mut self, tag: &str) -> Result<String> {
        self.text_until(tag, 0, "")
    }

    /// Returns a text with a bounded length, and the tag that ends it. `most` empty: unbounded.
    fn text_until(&mut self, tag: &str, least: u64, most: &str) -> Result<String> {
        let (mut first, mut rest) = (None, String::new());
        self.tokenizer.split_control(tag, |part| {
            if first.is_none() {
                first = Some(match part {
                    Ok(_) => String::new(),
                    Err(text) => text.split([ANY, NAME]).next().unwrap_or_default().to_owned(),
                });
            }
            Ok(())
        })?;
        let first = first.unwrap_or_default();
        let _ = write!(rest, "{}", self.first_tag(&tag[first.len()..])?);
        if first.is_empty() {
            let text = self.rule(&format!("/(?s:.{{{},{most}}})/", least.max(1)));
            let optional = if least == 0 { "?" } else { "" };
            return Ok(if most == "0" { rest } else { format!("{text}{optional} {rest}") });
        }
        let name = format!("r{}", self.rules);
        self.rules += 1;
        let _ = writeln!(self.lark, "{name}[suffix={}]: /(?s:.{{{least},{most}}})/", quoted(&first));
        Ok(format!("{name} {rest}"))
    }

    /// Returns a tag without its trailing end-of-turn tokens.
    fn less_end(&self, tag: &str) -> String {
        let mut tag = tag.trim_end();
        let ends: HashSet<String> = self.tokenizer.end_texts().collect();
        while let Some(rest) = ends.iter().find_map(|end| tag.strip_suffix(end.as_str())) {
            tag = rest.trim_end();
        }
        tag.to_owned()
    }
}

/// True for the two usual forms of a schema that no value satisfies.
fn is_never(schema: &Json) -> bool {
    *schema == Json::Bool(false) || schema.get("not").is_some_and(|not| *not == json!({}) || *not == Json::Bool(true))
}

/// Returns why an argument cannot be written.
fn unwritable(key: &str) -> String {
    format!("the form of this model's calls cannot hold an argument with the name {key:?}")
}

fn is_required(schema: &Json, key: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key))
}

fn or_empty(rule: &str) -> String {
    if rule.is_empty() { "\"\"".to_owned() } else { rule.to_owned() }
}

/// Returns a quoted text for Lark, as in JSON.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}
