//! The grammar of a reply with calls of tools, in Lark: the tags of the model's own form, as its template writes them,
//! around arguments that follow the JSON schema of each tool. Relies on `text` for the form.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::Value as Json;

use crate::error::{Error, Result};
use crate::text::{
    ANY, Argument, Body, CallForm, Dialect, KEY, NAME, Reply, Tokenizer, Tool, ToolChoice, is_bare, is_key, is_text,
    options, resolved,
};

/// Levels of objects and lists in arguments that are not written in JSON.
const MAX_DEPTH: usize = 16;
/// Bytes of a grammar with such arguments.
const MAX_LARK: usize = 64 << 10;

/// Longest bound on the length of a text between tags.
const MAX_LENGTH: u64 = 2000;

/// White space after reasoning, and in front of a call that has to come.
const SPACE: &str = r"(/[ \n]{1,4}/)?";

/// Writes the grammar of a reply. `schema`: checks a JSON schema, and adds what every schema has.
///
/// # Errors
/// `Unsupported` for schemas that arguments in another form than JSON cannot follow, those of `schema`.
pub fn to_lark(reply: &Reply, tokenizer: &Tokenizer, schema: &mut dyn FnMut(Json) -> Result<Json>) -> Result<String> {
    let mut writer = Writer { reply, tokenizer, schema, lark: String::new(), rules: 0 };
    let start = writer.reply()?;
    Ok(format!("start: {start}\n{}", writer.lark))
}

/// Writes the grammar of a reply whose content is the grammar `content`.
pub fn around_content(reply: &Reply, tokenizer: &Tokenizer, content: &str) -> Result<String> {
    let mut writer = Writer { reply, tokenizer, schema: &mut Ok, lark: String::new(), rules: 0 };
    let start = match reply.form.has_headers {
        true => {
            let (before, head) = (writer.messages_before()?, writer.tag("<|channel|>final<|message|>", "")?);
            format!("{before} {head} @{content}")
        }
        false => {
            let thought = writer.thought()?;
            let [open, close] = writer.content_tags()?;
            format!("{thought}{open} @{content} {close}")
        }
    };
    Ok(format!("start: {start}\n{}", writer.lark))
}

struct Writer<'r> {
    reply: &'r Reply,
    tokenizer: &'r Tokenizer,
    schema: &'r mut dyn FnMut(Json) -> Result<Json>,
    lark: String,
    rules: usize,
}

impl Writer<'_> {
    fn reply(&mut self) -> Result<String> {
        let form = &self.reply.form;
        if form.has_headers {
            return self.messages();
        }
        let thought = self.thought()?;
        let text = format!("{}?", self.rule("/(?s:.+)/"));
        let [open, close] = self.content_tags()?;
        let content = self.rule(&format!("{open} {text} {close}"));
        let Some(calls) = form.calls.as_ref().filter(|_| !self.reply.tools.is_empty()) else {
            return Ok(format!("{thought}{content}"));
        };
        let first = format!("{}{}", calls.open, calls.before);
        let (head, rest) = (self.first_tag(&first)?, self.calls(calls)?);
        let empty = match [self.tag(&form.content.open, "")?, self.tag(&form.content.close, "")?] {
            [open, close] if !open.is_empty() && !close.is_empty() => format!("({open} {close})?"),
            _ => String::new(),
        };
        // Its own white space would leave no choice of other tags.
        let must = format!("{empty} {SPACE} {} {rest}", self.first_tag(first.trim_start())?);
        Ok(match &self.reply.choice {
            ToolChoice::Required | ToolChoice::Named(_) => format!("{thought}{must}"),
            // A tag of content is in front of content, so that calls differ from it.
            _ if !form.content.open.is_empty() => format!("{thought}({content} | {content}? {head} {rest})"),
            // Nothing but the object itself is in front of a call.
            _ if first.trim().is_empty() => {
                let other = self.rule(r"/[^\s{](?s:.*)/");
                format!("{thought}({other}? | {head} {rest})")
            }
            _ => {
                let until = self.until_first(first.trim_start())?;
                format!("{thought}({content} | {until} {rest})")
            }
        })
    }

    /// Reasoning ahead of the rest, if there is any; empty, or with a space at its end.
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
            false => format!("({SPACE} {} {until} {SPACE} {filler})? ", self.tag(&tags.open, "")?),
        })
    }

    /// What a template writes around content, each of which may be absent.
    fn content_tags(&mut self) -> Result<[String; 2]> {
        let content = &self.reply.form.content;
        let around = |tag: String| if tag.is_empty() { tag } else { format!("({tag})?") };
        Ok([around(self.tag(&content.open, "")?), around(self.tag(&self.less_end(&content.close), "")?)])
    }

    /// A reply of messages with headers: reasoning, what is said ahead of a call, and a call or the answer.
    fn messages(&mut self) -> Result<String> {
        let before = self.messages_before()?;
        let text = self.rule("/(?s:.+)/");
        let answer = format!("{} {text}?", self.tag("<|channel|>final<|message|>", "")?);
        let mut calls = Vec::new();
        let kind = format!(r#"(" json" | " " {} "json")?"#, self.tag("<|constrain|>", "")?);
        for tool in &self.reply.tools {
            let name = &tool.name;
            let heads = [
                format!("<|channel|>commentary to=functions.{name}"),
                format!(" to=functions.{name}<|channel|>commentary"),
            ];
            let [first, second] = heads.map(|head| self.tag(&head, ""));
            let (message, json) = (self.tag("<|message|>", "")?, self.json(tool.parameters.clone(), tool)?);
            calls.push(self.rule(&format!("({} | {}) {kind} {message} {json}", first?, second?)));
        }
        let calls = calls.join(" | ");
        Ok(match &self.reply.choice {
            _ if self.reply.tools.is_empty() => format!("{before} {answer}"),
            ToolChoice::Required | ToolChoice::Named(_) => format!("{before} ({calls})"),
            _ => format!("{before} ({answer} | {calls})"),
        })
    }

    /// The messages ahead of the answer or a call, each of which may be absent.
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

    /// The rest of the first call, more calls, and the end.
    fn calls(&mut self, calls: &CallForm) -> Result<String> {
        let mut bodies = Vec::new();
        for tool in &self.reply.tools {
            let body = self.body(calls, tool)?;
            bodies.push(self.rule(&body));
        }
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

    fn body(&mut self, calls: &CallForm, tool: &Tool) -> Result<String> {
        Ok(match &calls.body {
            Body::Object { head, tail, .. } => {
                let json = self.json(tool.parameters.clone(), tool)?;
                format!("{} {json} {}", self.tag(head, &tool.name)?, self.tag(tail, &tool.name)?)
            }
            Body::Named { middle, dialect } => {
                let arguments = match dialect {
                    Dialect::Json => self.json(tool.parameters.clone(), tool)?,
                    _ => self.members(&tool.parameters, *dialect, tool, 0)?,
                };
                let name = self.tag(&format!("{}{middle}", tool.name), &tool.name)?;
                format!("{name} {arguments}")
            }
            Body::Tagged { middle, argument } => {
                let name = self.tag(&format!("{}{middle}", tool.name), &tool.name)?;
                let mut out = name;
                let parameters = &tool.parameters;
                for (key, schema) in parameters["properties"].as_object().into_iter().flatten() {
                    let value = self.argument(argument, key, schema, tool)?;
                    let optional = if is_required(parameters, key) { "" } else { "?" };
                    let _ = write!(out, " ({value}){optional}");
                }
                out
            }
        })
    }

    /// An argument with tags of its own.
    fn argument(&mut self, argument: &Argument, key: &str, schema: &Json, tool: &Tool) -> Result<String> {
        if !is_key(argument, key) {
            return Err(unwritable(key));
        }
        any_of(options(&resolved(schema, &tool.parameters)), |schema| self.tagged(argument, key, schema, tool))
    }

    fn tagged(&mut self, argument: &Argument, key: &str, schema: &Json, tool: &Tool) -> Result<String> {
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
                let length = |name: &str| schema[name].as_u64().filter(|&n| n <= MAX_LENGTH);
                let (least, most) = (length("minLength").unwrap_or(0), length("maxLength"));
                let most = most.map_or(String::new(), |n| n.max(least).to_string());
                self.text_until(&close, least, &most)?
            }
            // Templates of this form show them as Python does.
            (false, _) if schema["type"] == "boolean" => {
                format!("(\"true\" | \"false\" | \"True\" | \"False\") {after}")
            }
            (false, _) if let Some(mark) = &argument.nested => {
                format!("{} {after}", self.nested(schema, mark, tool, 0)?)
            }
            (false, _) => {
                let json = self.json(schema.clone(), tool)?;
                let literal = argument.in_python.then(|| self.dialect_value(schema, Dialect::Repr, tool, 0));
                match literal {
                    None | Some(Err(Error::Unsupported(_))) => format!("{json} {after}"),
                    Some(literal) => format!("({json} | {}) {after}", literal?),
                }
            }
        };
        Ok(format!("{front} {value}"))
    }

    /// A value that is no text, whose members stand between tags after `mark`.
    fn nested(&mut self, schema: &Json, mark: &str, tool: &Tool, depth: usize) -> Result<String> {
        self.check_size(depth)?;
        let member = |writer: &mut Self, name: &str, schema: &Json| -> Result<String> {
            let argument = Argument {
                before: format!("{mark}<"),
                text: ">".to_owned(),
                after: format!("{mark}</{KEY}>"),
                ..Default::default()
            };
            let value = any_of(options(&resolved(schema, &tool.parameters)), |schema| match is_text(schema) {
                true => writer.tagged(&argument, name, schema, tool),
                false => {
                    let value = writer.nested(schema, mark, tool, depth + 1)?;
                    let [open, close] =
                        [format!("{mark}<{name}>"), argument.close(name)].map(|tag| writer.tag(&tag, ""));
                    Ok(format!("{} {value} {}", open?, close?))
                }
            });
            Ok(writer.rule(&value?))
        };
        Ok(match schema["type"].as_str() {
            Some("array") if schema["items"].is_object() => {
                let item = member(self, "item", &schema["items"])?;
                format!("({item})*")
            }
            Some("object") if schema["properties"].is_object() => {
                let mut out = String::new();
                for (name, value) in schema["properties"].as_object().into_iter().flatten() {
                    if name.is_empty() || !name.chars().all(is_bare) {
                        return Err(unwritable(name));
                    }
                    let optional = if is_required(schema, name) { "" } else { "?" };
                    let _ = write!(out, " ({}){optional}", member(self, name, value)?);
                }
                out
            }
            Some("array" | "object") | None if schema.get("enum").is_none() => {
                return Err(Error::unsupported("lists and objects of any kind in the arguments of this model's calls"));
            }
            _ => self.json(schema.clone(), tool)?,
        })
    }

    fn check_size(&self, depth: usize) -> Result<()> {
        match depth > MAX_DEPTH || self.lark.len() > MAX_LARK {
            true => Err(Error::TooComplex("arguments nested too deep, or of too many kinds".to_owned())),
            false => Ok(()),
        }
    }

    /// A value by a schema that is a part of the tool's.
    fn json(&mut self, mut schema: Json, tool: &Tool) -> Result<String> {
        if let Some(members) = schema.as_object_mut() {
            for name in ["$defs", "definitions"] {
                if let Some(defs) = tool.parameters.get(name) {
                    members.entry(name).or_insert_with(|| defs.clone());
                }
            }
        }
        let schema = (self.schema)(schema)?;
        Ok(self.rule(&format!("%json {schema}")))
    }

    /// An object in another form than JSON.
    fn members(&mut self, schema: &Json, dialect: Dialect, tool: &Tool, depth: usize) -> Result<String> {
        let ((open, close), (equals, comma)) = match dialect {
            Dialect::Python => (("(", ")"), ("=", ", ")),
            Dialect::Repr => (("{", "}"), (": ", ", ")),
            _ => (("{", "}"), (":", ",")),
        };
        // The members from each on, after none and after one.
        let (mut rest, mut more) = (String::new(), String::new());
        for (key, value) in schema["properties"].as_object().into_iter().flatten().rev() {
            let is_written = match dialect {
                Dialect::Repr => key.chars().all(|c| !c.is_control() && c != '\'' && c != '\\'),
                _ => !key.is_empty() && key.chars().all(is_bare),
            };
            if !is_written {
                return Err(unwritable(key));
            }
            let value = self.dialect_value(value, dialect, tool, depth + 1)?;
            let key_text = if dialect == Dialect::Repr { format!("'{key}'") } else { key.clone() };
            let member = self.rule(&format!("{} ({value})", quoted(&format!("{key_text}{equals}"))));
            let (first, next) = (format!("{member} {more}"), format!("{} {member} {more}", quoted(comma)));
            (rest, more) = match is_required(schema, key) {
                true => (self.rule(&first), self.rule(&next)),
                false => {
                    let (skip, end) = (or_empty(&rest), or_empty(&more));
                    (self.rule(&format!("{first} | {skip}")), self.rule(&format!("{next} | {end}")))
                }
            };
        }
        Ok(format!("{} {rest} {}", quoted(open), quoted(close)))
    }

    /// A value in another form than JSON.
    fn dialect_value(&mut self, schema: &Json, dialect: Dialect, tool: &Tool, depth: usize) -> Result<String> {
        self.check_size(depth)?;
        any_of(options(&resolved(schema, &tool.parameters)), |schema| self.dialect_option(schema, dialect, tool, depth))
    }

    fn dialect_option(&mut self, schema: &Json, dialect: Dialect, tool: &Tool, depth: usize) -> Result<String> {
        let is_python = dialect != Dialect::Bare;
        if let Some(values) = schema["enum"].as_array() {
            let scalar = |value: &Json| match value {
                Json::String(text) if !is_python => Some(format!("{WIDE_QUOTE}{text}{WIDE_QUOTE}")),
                Json::String(text) => {
                    Some(format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n")))
                }
                Json::Number(n) => Some(n.to_string()),
                Json::Bool(true) => Some(if is_python { "True" } else { "true" }.to_owned()),
                Json::Bool(false) => Some(if is_python { "False" } else { "false" }.to_owned()),
                Json::Null => Some(if is_python { "None" } else { "null" }.to_owned()),
                Json::Array(_) | Json::Object(_) => None,
            };
            let texts = values.iter().map(scalar).collect::<Option<Vec<_>>>();
            let texts = texts
                .ok_or_else(|| Error::unsupported("\"enum\" of lists or objects in arguments that are not JSON"))?;
            let texts: Result<Vec<String>> = texts.iter().map(|text| self.tag(text, "")).collect();
            return Ok(format!("({})", texts?.join(" | ")));
        }
        Ok(match (schema["type"].as_str(), dialect) {
            (Some("string"), Dialect::Bare) => format!("{} {}", self.tag(WIDE_QUOTE, "")?, self.until(WIDE_QUOTE)?),
            (Some("string"), _) => self.rule(r#"/'([^'\\\n]|\\.)*'|"([^"\\\n]|\\.)*"/"#),
            (Some("integer"), _) => self.rule("/-?(0|[1-9][0-9]{0,17})/"),
            (Some("number"), _) => self.rule(r"/-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,3})?/"),
            (Some("boolean"), _) if is_python => "(\"True\" | \"False\")".to_owned(),
            (Some("boolean"), _) => "(\"true\" | \"false\")".to_owned(),
            (Some("null"), _) => quoted(if is_python { "None" } else { "null" }),
            (Some("array"), _) if schema["items"].is_object() => {
                let inner = if is_python { Dialect::Repr } else { dialect };
                let item = self.dialect_value(&schema["items"], inner, tool, depth + 1)?;
                let item = self.rule(&item);
                format!("\"[\" ({item} (/, ?/ {item})*)? \"]\"")
            }
            (Some("object"), Dialect::Bare | Dialect::Repr) if schema["properties"].is_object() => {
                let members = self.members(schema, dialect, tool, depth + 1)?;
                self.rule(&members)
            }
            (Some("object"), Dialect::Python) => self.json(schema.clone(), tool)?,
            (other, _) => {
                return Err(Error::unsupported(format!(
                    "a schema of type {} in arguments that this model does not write as JSON",
                    other.unwrap_or("any")
                )));
            }
        })
    }

    /// A new rule, by its name.
    fn rule(&mut self, body: &str) -> String {
        let name = format!("r{}", self.rules);
        self.rules += 1;
        let _ = writeln!(self.lark, "{name}: {body}");
        name
    }

    /// A tag as tokens that control the model and texts between them. `name`: what stands for `NAME` in it.
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

    /// `tag` in front of the name of any tool.
    fn first_tag(&mut self, tag: &str) -> Result<String> {
        if !tag.contains(NAME) {
            return self.tag(tag, "");
        }
        let names: Result<Vec<String>> = self.reply.tools.iter().map(|tool| self.tag(tag, &tool.name)).collect();
        Ok(format!("({})", names?.join(" | ")))
    }

    /// Any text, and the tag that ends it.
    fn until(&mut self, tag: &str) -> Result<String> {
        self.until_first(tag.trim())
    }

    fn until_first(&mut self, tag: &str) -> Result<String> {
        self.text_until(tag, 0, "")
    }

    /// A text of some characters, and the tag that ends it. No `most`: as many as there are.
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

    /// A tag without the tokens at its end that end the reply.
    fn less_end(&self, tag: &str) -> String {
        let mut tag = tag.trim_end();
        let ends: HashSet<String> = self.tokenizer.end_texts().collect();
        while let Some(rest) = ends.iter().find_map(|end| tag.strip_suffix(end.as_str())) {
            tag = rest.trim_end();
        }
        tag.to_owned()
    }
}

/// The quote of texts in objects with bare keys.
const WIDE_QUOTE: &str = "<|\"|>";

/// Alternatives for some schemas, of which those that cannot be written are left out where there are others.
fn any_of(schemas: Vec<Json>, mut write: impl FnMut(&Json) -> Result<String>) -> Result<String> {
    let (mut out, mut refused) = (Vec::new(), None);
    for schema in &schemas {
        match write(schema) {
            Ok(value) => out.push(value),
            Err(e @ Error::Unsupported(_)) => refused = Some(e),
            Err(e) => return Err(e),
        }
    }
    match refused {
        Some(e) if out.is_empty() => Err(e),
        _ => Ok(out.join(" | ")),
    }
}

fn unwritable(key: &str) -> Error {
    Error::unsupported(format!("the form of this model's calls cannot hold an argument with the name {key:?}"))
}

fn is_required(schema: &Json, key: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key))
}

fn or_empty(rule: &str) -> String {
    if rule.is_empty() { "\"\"".to_owned() } else { rule.to_owned() }
}

/// A text as Lark has it, which is as in JSON.
fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}
