//! The possible replies to a conversation: the form in which its model writes, the tools that it may call, and the
//! texts that begin and end the parts. Uses `form`; the reply itself is parsed elsewhere.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use crate::error::{Error, Result};
use crate::text::chat::ids::NewIds;
use crate::text::chat::{Chat, INSTEAD_OF_TOOLS, ToolChoice};
use crate::text::marks::MarkedText;
use crate::text::reply::form::{Body, CallForm, Dialect, ReplyForm};
use crate::text::reply::literal::Literal;
use crate::text::reply::tags::{ANY, Match, NAME, first_tag, last_tag, matches};

/// Ends the header of a message.
pub(crate) const MESSAGE: &str = "<|message|>";
/// Maximum length of a tool's name.
const MAX_NAME: usize = 256;
/// Characters that end a name in some form of calls.
const NO_NAME: &str = "\"'`\\<>{}()[]=,";
/// Encloses code in Markdown.
const FENCE: &str = "```";
/// Maximum length of a chain of references.
const MAX_REFERENCES: usize = 8;
/// Maximum number of inlined references and options of their targets.
const MAX_RESOLVED: usize = 200;
/// Keywords that allow all values.
const NOTES: [&str; 6] = ["title", "description", "default", "examples", "deprecated", "$comment"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Reasoning,
    Content,
    /// The id of a call; the first event of the call.
    ToolId,
    ToolName,
    /// A part of the arguments' JSON.
    ToolArguments,
    End,
}

/// A part of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub call: u32,
    /// True for text that begins like a call or tag but is neither; in the end event, true if any such text occurred.
    pub unparsed: bool,
    /// The text of the part; in the end event, an incomplete tag if the reply was cut within one.
    pub text: String,
}

#[derive(Clone, PartialEq)]
pub struct Tool {
    pub name: String,
    /// JSON schema of its arguments, an object.
    pub parameters: Json,
    /// True if arguments must satisfy the whole schema.
    pub is_strict: bool,
}

/// The possible replies to a conversation.
pub struct Reply {
    pub form: Arc<ReplyForm>,
    /// Empty if the reply may not contain calls; only the named tool if the choice names one.
    pub tools: Vec<Tool>,
    pub choice: ToolChoice,
    pub parallel_calls: bool,
    /// The ids of its calls.
    pub ids: NewIds,
    /// True if the prompt ends within reasoning.
    pub begins_in_reasoning: bool,
    /// True if a grammar allows reasoning at the beginning.
    pub may_reason: bool,
    /// Triggers in content, in reasoning (only calls), and after a call.
    pub(crate) in_content: Triggers,
    pub(crate) in_reasoning: Triggers,
    pub(crate) after_call: Triggers,
}

/// The part that a text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Content,
    Reasoning,
    /// A call; of this tool, if the text contained its name.
    Call(Option<usize>),
    /// A call of an unknown tool.
    Unknown,
    /// The header of a message.
    Header,
}

/// A text that begins a part of a reply.
#[derive(Clone, Debug)]
struct Trigger {
    tag: String,
    /// The beginning of `tag` that is consumed; the rest belongs to the part.
    head: String,
    /// True if only white space may precede it.
    at_start: bool,
    then: Then,
}

/// What follows the received text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Possibly more.
    More,
    /// Nothing, because the reply broke off.
    Cut,
    /// Nothing, because the reply is complete: an incomplete tag at its end is text.
    End,
}

/// The first trigger in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    None,
    /// More text is needed from this index on.
    Incomplete(usize),
    /// Start and end index.
    At(usize, usize, Then),
}

#[derive(Debug, Default)]
pub(crate) struct Triggers {
    list: Vec<Trigger>,
    firsts: Vec<char>,
}

impl Triggers {
    /// Adds a trigger: `head` followed by `follow`; only `head` is consumed.
    fn add(&mut self, head: &str, follow: &str, at_start: bool, then: Then) {
        let tag = format!("{head}{follow}").trim().to_owned();
        if let Some(first) = tag.chars().next() {
            self.list.push(Trigger { tag, head: head.trim_start().to_owned(), at_start, then });
            if !self.firsts.contains(&first) {
                self.firsts.push(first);
            }
        }
    }

    /// Returns the triggers of calls that begin with a tag.
    fn calls(&self) -> Triggers {
        let is_call = |trigger: &&Trigger| matches!(trigger.then, Then::Call(_)) && !trigger.at_start;
        let list: Vec<Trigger> = self.list.iter().filter(is_call).cloned().collect();
        let firsts = list.iter().filter_map(|trigger| trigger.tag.chars().next()).collect();
        Triggers { list, firsts }
    }

    /// Returns the first trigger in a text. `at_start`: only white space precedes the text.
    pub fn find(&self, text: &str, at_start: bool, following: After) -> Found {
        let blank = text.len() - text.trim_start().len();
        for (at, c) in text.char_indices() {
            if self.firsts.contains(&c) {
                match self.at(&text[at..], at_start && at <= blank, following) {
                    Found::None => {}
                    Found::Incomplete(_) => return Found::Incomplete(at),
                    Found::At(_, end, then) => return Found::At(at, at + end, then),
                }
            }
        }
        Found::None
    }

    /// Returns the first trigger that begins a text.
    pub fn at(&self, text: &str, at_start: bool, following: After) -> Found {
        let mut is_cut = false;
        for trigger in self.list.iter().filter(|trigger| at_start || !trigger.at_start) {
            match matches(&trigger.tag, text) {
                Match::No => {}
                Match::Partial if following == After::End => {}
                // If the reply is cut, a complete tag wins over a longer incomplete tag.
                Match::Partial if following == After::Cut => is_cut = true,
                Match::Partial => return Found::Incomplete(0),
                // The incomplete tag wins if more text follows the complete tag, or if that begins a call of an unknown
                // tool.
                Match::Full(n) if is_cut && (trigger.then == Then::Unknown || !text[n..].trim().is_empty()) => {}
                Match::Full(n) => {
                    let end = if let Match::Full(head) = matches(&trigger.head, text) { head } else { n };
                    return Found::At(0, end, trigger.then);
                }
            }
        }
        if is_cut { Found::Incomplete(0) } else { Found::None }
    }

    /// Adds the triggers that begin a call. `lead`: text before the name or the object; `middle`: text after the name.
    fn add_calls(&mut self, lead: &str, middle: &str, calls: &CallForm, tools: &[Tool]) {
        let at_start = lead.trim().is_empty();
        let follows: Vec<&str> = match &calls.body {
            Body::Object { .. } if at_start => return self.add("", "{", true, Then::Call(None)),
            Body::Object { .. } => return self.add(lead, "", false, Then::Call(None)),
            Body::Named { dialect: Dialect::Python, .. } => vec!["("],
            // Without a tag after the name, a word could be a part of the name.
            Body::Named { .. } if middle.trim().is_empty() => vec!["{"],
            Body::Named { .. } => vec!["{", "\"{", "\"\"", "null"],
            Body::Tagged { argument, .. } => vec![argument.before.trim(), calls.after.trim()],
        };
        let idless = if calls.has_ids { without_id(middle) } else { None };
        for (i, tool) in tools.iter().enumerate() {
            for middle in [Some(middle), idless.as_deref()].into_iter().flatten() {
                for follow in &follows {
                    // Models write white space around the name that their templates do not.
                    let head = format!("{} {} {middle} ", lead.replace(NAME, &tool.name), tool.name);
                    self.add(&head, follow, at_start, Then::Call(Some(i)));
                }
            }
        }
        if lead.trim().len() > 2 && !lead.contains(NAME) {
            self.add(lead, "", false, Then::Unknown);
        }
    }

    /// Adds the triggers of messages with headers.
    fn add_headers(&mut self) {
        for head in ["<|start|>", "<|channel|>"] {
            self.add(head, "", false, Then::Header);
        }
        self.add("", "to=", true, Then::Header);
        self.add(MESSAGE, "", true, Then::Content);
        for end in ["<|end|>", "<|call|>", "<|return|>"] {
            self.add(end, "", false, Then::Content);
        }
    }
}

impl Reply {
    /// True if the reply is only content, without reasoning, tool calls or surrounding tags.
    pub fn is_content(&self) -> bool {
        let ReplyForm { reasoning, content, end, has_headers, .. } = &*self.form;
        let may_reason = self.may_reason && reasoning.is_some();
        let has_tags = *has_headers || ![&content.open, &content.close, end].iter().all(|tag| tag.is_empty());
        self.tools.is_empty() && !may_reason && !has_tags
    }

    /// Returns the possible replies to a conversation whose rendering is `prompt`.
    ///
    /// # Errors
    /// `Unsupported` if there are tools, and the template does not reveal how calls are written.
    pub fn new(form: Arc<ReplyForm>, chat: &Chat, prompt: &MarkedText) -> Result<Reply> {
        let mut tools = Vec::new();
        for (i, tool) in chat.tools().iter().enumerate() {
            let name = tool["function"]["name"].as_str().unwrap_or_default();
            let is_name = |c: char| !c.is_whitespace() && !c.is_control() && ![ANY, NAME].contains(&c);
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(|c| is_name(c) && !NO_NAME.contains(c)) {
                return Err(Error::invalid(format!(
                    "tools[{i}].function.name is {name:?}, which is no name of a tool"
                )));
            }
            let is_asked = match &chat.tool_choice {
                ToolChoice::None => false,
                ToolChoice::Named(asked) => asked == name,
                _ => true,
            };
            if is_asked {
                let (parameters, is_strict) = (parameters(&tool["function"]["parameters"]), chat.is_strict(name));
                tools.push(Tool { name: name.to_owned(), parameters, is_strict });
            }
        }
        if form.calls.is_none() && !tools.is_empty() {
            return Err(Error::unsupported(format!(
                "cannot call tools: the chat template shows no form of calls; {INSTEAD_OF_TOOLS}"
            )));
        }
        // The template's own text at the end.
        let last = prompt.text.char_indices().rev().find(|(_, c)| prompt.marks.is_mark(*c));
        let prompt = &prompt.text[last.map_or(0, |(i, c)| i + c.len_utf8())..];
        let begins_in_reasoning = form.reasoning.as_ref().is_some_and(|tags| {
            prompt.rfind(&tags.open).is_some_and(|at| !prompt[at + tags.open.len()..].contains(&tags.close))
        });
        let (in_content, after_call) = triggers(&form, &tools);
        let in_reasoning = in_content.calls();
        let (choice, parallel_calls) = (chat.tool_choice.clone(), chat.parallel_calls);
        Ok(Reply {
            ids: NewIds::new(form.call_ids, chat.messages()),
            form,
            tools,
            choice,
            parallel_calls,
            begins_in_reasoning,
            may_reason: true,
            in_reasoning,
            in_content,
            after_call,
        })
    }

    /// True for the tag that ends reasoning, in replies without headers.
    pub(crate) fn is_reasoning_close(&self, text: &str) -> bool {
        !self.form.has_headers && self.form.reasoning.as_ref().is_some_and(|tags| tags.close.trim() == text)
    }

    /// True for a text that is a part of some tag.
    pub(crate) fn is_tag(&self, text: &str) -> bool {
        let reasoning = self.form.reasoning.iter().map(|tags| tags.close.as_str());
        let mut tags: Vec<&str> = reasoning.collect();
        if self.form.has_headers {
            tags.extend([MESSAGE, "<|constrain|>"]);
        }
        for triggers in [&self.in_content, &self.after_call] {
            tags.extend(triggers.list.iter().map(|trigger| trigger.tag.as_str()));
        }
        if let Some(calls) = self.form.calls.as_ref().filter(|_| !self.tools.is_empty()) {
            tags.extend([calls.after.as_str(), calls.close.as_str()]);
            match &calls.body {
                Body::Object { tail, .. } => tags.push(tail),
                // The quote of texts.
                Body::Named { .. } => tags.push("<|\"|>"),
                Body::Tagged { argument, .. } => {
                    tags.extend([argument.before.as_str(), argument.text.as_str(), argument.after.as_str()]);
                    tags.extend(argument.other.as_deref());
                }
            }
        }
        tags.iter().any(|tag| tag.contains(text))
    }
}

/// Variants of the text before a call: without a trailing word that ends in a dot, or without a fence or its language.
fn shortened(lead: &str) -> Vec<String> {
    if let Some(text) = lead.trim_end().strip_suffix('.') {
        let short = text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_');
        let is_shorter = short.len() < text.len() && !short.trim().is_empty();
        return is_shorter.then(|| short.to_owned()).into_iter().collect();
    }
    let Some((before, following)) = lead.split_once(FENCE) else { return Vec::new() };
    let following = following.strip_prefix("json").unwrap_or(following);
    vec![format!("{before}{FENCE}{following}"), format!("{before}{following}")]
}

/// `middle` without the id and the tag before the id; `None` unless the id is between tags.
fn without_id(middle: &str) -> Option<String> {
    let (front, following) = middle.split_once(ANY)?;
    let tag = last_tag(front.trim_end()).filter(|tag| first_tag(tag) == Some(*tag))?;
    first_tag(following.trim_start())?;
    Some(format!("{}{following}", front.trim_end().strip_suffix(tag)?))
}

fn triggers(form: &ReplyForm, tools: &[Tool]) -> (Triggers, Triggers) {
    let (mut in_content, mut after_call) = (Triggers::default(), Triggers::default());
    if form.has_headers {
        in_content.add_headers();
        after_call.add_headers();
        return (in_content, after_call);
    }
    if let Some(calls) = form.calls.as_ref().filter(|_| !tools.is_empty()) {
        let middle = match &calls.body {
            Body::Object { .. } => "",
            Body::Named { middle, .. } | Body::Tagged { middle, .. } => middle,
        };
        let (open, before) = (&calls.open, &calls.before);
        let first = format!("{open}{before}");
        let next = calls.between.as_ref().map(|between| format!("{between}{before}"));
        if open.trim().chars().count() > 2 && !open.contains([ANY, NAME]) && !calls.close.trim().is_empty() {
            // An empty list of calls.
            in_content.add(&format!("{open}{}", calls.close), "", false, Then::Content);
        }
        for other in &calls.others {
            let middle = if other.close.is_empty() { middle } else { &other.close };
            in_content.add_calls(&other.open, middle, calls, tools);
            after_call.add_calls(&other.open, middle, calls, tools);
        }
        in_content.add_calls(&first, middle, calls, tools);
        // Models omit a word before the name, or a fence around the object.
        for first in shortened(&first) {
            in_content.add_calls(&first, middle, calls, tools);
        }
        if let Some(next) = &next {
            // A mere comma between calls begins no call in content.
            if next.trim().chars().count() > 2 && next.trim() != first.trim() {
                in_content.add_calls(next, middle, calls, tools);
            }
            after_call.add_calls(next, middle, calls, tools);
        }
        for next in next.iter().flat_map(|next| shortened(next)) {
            after_call.add_calls(&next, middle, calls, tools);
        }
        if next.is_none_or(|next| next.trim() != first.trim()) {
            after_call.add_calls(&first, middle, calls, tools);
        }
        for triggers in [&mut in_content, &mut after_call] {
            match &calls.body {
                // A call without the surrounding tags.
                Body::Tagged { .. } if before.trim().chars().count() > 2 => {
                    triggers.add_calls(before, middle, calls, tools);
                }
                Body::Object { head, .. } if !first.trim().is_empty() && head.contains(NAME) => {
                    for tool in tools {
                        let head = format!("{}{{", head.replace(NAME, &tool.name));
                        triggers.add("", &head, true, Then::Call(None));
                    }
                }
                _ => {}
            }
        }
        if calls.between.is_none() && first.trim().is_empty() {
            // Llama 3 writes several calls like this, although its templates do not.
            after_call.add("; ", "{", true, Then::Call(None));
        }
        if let Body::Object { .. } = &calls.body
            && let Some(tag) = first.trim_end().strip_suffix('[').filter(|tag| tag.trim().len() > 2)
        {
            // One call without the brackets of the list.
            in_content.add(tag, "{", false, Then::Call(None));
            after_call.add(calls.close.trim_start().trim_start_matches(']'), "", false, Then::Content);
        }
        after_call.add(&calls.close, "", false, Then::Content);
        after_call.add(&calls.close.replace(FENCE, ""), "", false, Then::Content);
        // The last tag may be the token that ends the reply.
        if let Some(last) = last_tag(calls.close.trim_end()) {
            after_call.add(calls.close.trim_end().strip_suffix(last).unwrap_or_default(), "", false, Then::Content);
        }
        after_call.add(&form.end, "", false, Then::Content);
    }
    if let Some(tags) = &form.reasoning {
        in_content.add(&tags.open, "", true, Then::Reasoning);
        in_content.add(&tags.close, "", true, Then::Content);
    }
    let at_start = |tag: &str| !tag.contains(|c: char| c.is_ascii_punctuation());
    for tag in [&form.content.open, &form.content.close, &form.end].into_iter().chain(&form.fillers) {
        in_content.add(tag, "", at_start(tag), Then::Content);
    }
    (in_content, after_call)
}

/// Returns the schema of a tool's arguments; an empty object if it has none.
fn parameters(given: &Json) -> Json {
    let mut out = match given {
        Json::Object(members) if !members.is_empty() => given.clone(),
        _ => json!({"properties": {}, "additionalProperties": false}),
    };
    if out.get("type").is_none() {
        out["type"] = json!("object");
    }
    out
}

/// Inlines the references of a schema and of its options, unless a reference has constraining keywords next to it.
pub fn resolved(schema: &Json, root: &Json) -> Json {
    resolve(schema, root, MAX_REFERENCES, &mut { MAX_RESOLVED })
}

/// `left`: maximum length of a chain of references; `all`: maximum number of references and options.
fn resolve(schema: &Json, root: &Json, left: usize, all: &mut usize) -> Json {
    let Json::Object(members) = schema else { return schema.clone() };
    let mut out = members.clone();
    let is_only_member = |keyword: &str| members.keys().all(|name| name == keyword || NOTES.contains(&&name[..]));
    let target = members.get("$ref").and_then(|target| root.pointer(target.as_str()?.strip_prefix('#')?));
    let only = members.get("allOf").and_then(Json::as_array).filter(|list| list.len() == 1).map(|list| &list[0]);
    for (name, part) in [("$ref", target), ("allOf", only)] {
        let n = part.map_or(0, |part| {
            1 + ["anyOf", "oneOf"].map(|name| part[name].as_array().map_or(0, Vec::len)).iter().sum::<usize>()
        });
        let Some(part) = part.filter(|_| is_only_member(name) && left > 0 && *all >= n) else { continue };
        *all -= n;
        if let Json::Object(more) = resolve(part, root, left - 1, all) {
            out.shift_remove(name);
            more.into_iter().for_each(|(name, value)| _ = out.entry(name).or_insert(value));
        }
    }
    for name in ["anyOf", "oneOf"] {
        for part in out.get_mut(name).and_then(Json::as_array_mut).into_iter().flatten() {
            *part = resolve(part, root, left, all);
        }
    }
    Json::Object(out)
}

/// Splits a resolved schema into schemas of one type each, if possible; string enumerations lose other constraints.
pub fn options(schema: &Json) -> Vec<Json> {
    let Json::Object(members) = schema else { return vec![schema.clone()] };
    let says = |name: &str| members.contains_key(name);
    let with = |name: &str, value: Json| {
        let mut members = members.clone();
        members.insert(name.to_owned(), value);
        Json::Object(members)
    };
    let values = members.get("enum").and_then(Json::as_array).cloned();
    if let Some(values) = values.or_else(|| Some(vec![members.get("const")?.clone()])) {
        let (texts, others): (Vec<Json>, Vec<Json>) = values.into_iter().partition(Json::is_string);
        let has_texts = types(&json!({"type": members.get("type")})).is_none_or(|types| types.contains(&"string"));
        let texts = (has_texts && !texts.is_empty()).then(|| json!({"type": "string", "enum": texts}));
        let others = (!others.is_empty()).then(|| with("enum", others.into()));
        return texts.into_iter().chain(others).collect();
    }
    if let Some((name, parts)) =
        ["anyOf", "oneOf"].into_iter().find_map(|name| Some((name, members.get(name)?.as_array()?)))
    {
        let is_only_member = members.keys().all(|other| other == name || NOTES.contains(&&other[..]));
        let kinds = parts.iter().map(types).collect::<Option<Vec<_>>>().map(|types| types.concat());
        let mut seen = HashSet::new();
        let excludes =
            kinds.is_some_and(|types| types.iter().all(|name| seen.insert(name.replace("integer", "number"))));
        let is_any = is_only_member && (name == "anyOf" || excludes);
        return if is_any { parts.iter().flat_map(options).collect() } else { vec![schema.clone()] };
    }
    let types = match members.get("type") {
        Some(Json::Array(types)) => types.clone(),
        None if !["$ref", "allOf", "not", "if", "properties", "items"].into_iter().any(says) => {
            ["string", "number", "boolean", "null", "array", "object"].map(Json::from).into()
        }
        _ => return vec![schema.clone()],
    };
    types.into_iter().map(|name| with("type", name)).collect()
}

/// Returns the types that a schema allows; `None` if it does not restrict them.
fn types(schema: &Json) -> Option<Vec<&str>> {
    let of_value = |value: &Json| match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    match &schema["type"] {
        Json::String(name) => return Some(vec![name]),
        Json::Array(names) => return names.iter().map(Json::as_str).collect(),
        _ => {}
    }
    if let Some(values) = schema["enum"].as_array() {
        return Some(values.iter().map(of_value).collect());
    }
    if let Some(value) = schema.get("const") {
        return Some(vec![of_value(value)]);
    }
    let parts = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array())?;
    parts.iter().map(types).collect::<Option<Vec<_>>>().map(|types| types.concat())
}

/// True if a schema allows only text.
pub fn is_text(schema: &Json) -> bool {
    types(schema).is_some_and(|types| !types.is_empty() && types.iter().all(|name| *name == "string"))
}

/// Converts an unquoted value to JSON by its schema. If the schema allows no string, JSON of a wrong type is kept.
pub(crate) fn value(text: &str, schema: &Json) -> String {
    let allowed = types(schema);
    let allows = |names: &[&str]| allowed.as_ref().is_none_or(|types| types.iter().any(|name| names.contains(name)));
    let is_text = allows(&["string"]);
    if !is_text {
        // As Python's `int` and `lower` do.
        let small = text.trim().to_lowercase();
        match (small.as_str(), small.parse::<i64>()) {
            ("true" | "false", _) if allows(&["boolean"]) => return small,
            (_, Ok(number)) if allows(&["integer", "number"]) => return number.to_string(),
            _ => {}
        }
    }
    let json = [Some(text.trim().to_owned()), Literal::convert(text)].into_iter().flatten();
    for json in json {
        let fits = match serde_json::from_str(&json) {
            Ok(Json::Null) => allows(&["null"]),
            Ok(Json::Bool(_)) => allows(&["boolean"]),
            Ok(Json::Number(_)) => allows(&["number", "integer"]),
            Ok(Json::Array(_)) => allows(&["array"]),
            Ok(Json::Object(_)) => allows(&["object"]),
            Ok(Json::String(_)) | Err(_) => continue,
        };
        if fits || !is_text {
            return json;
        }
    }
    Json::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_divided_by_the_kinds_of_values() {
        let text = json!({"type": "string", "enum": ["a"]});
        let (one, two) = (json!({"type": "integer", "title": "n"}), json!({"type": "number"}));
        for (schema, want) in [
            (
                json!({"type": ["string", "null"], "enum": ["a", null]}),
                vec![text.clone(), json!({"type": ["string", "null"], "enum": [null]})],
            ),
            (json!({"type": "integer", "enum": ["a", 1]}), vec![json!({"type": "integer", "enum": [1]})]),
            (json!({"const": "a"}), vec![text.clone()]),
            (json!({"oneOf": [one.clone(), text.clone()], "title": "x"}), vec![one.clone(), text]),
            (json!({"anyOf": [one.clone(), two.clone()]}), vec![one.clone(), two.clone()]),
            // If both may hold, the schema is unchanged.
            (json!({"oneOf": [one.clone(), two.clone()]}), vec![json!({"oneOf": [one.clone(), two]})]),
            (json!({"anyOf": [one.clone()], "minimum": 2}), vec![json!({"anyOf": [one], "minimum": 2})]),
        ] {
            assert_eq!(options(&schema), want, "{schema}");
        }
        assert_eq!(options(&json!({"maxLength": 3})).len(), 6);
        let root = json!({"$defs": {"a": {"$ref": "#/$defs/b", "title": "t"}, "b": {"type": "null"}, "c": {"$ref": "#/$defs/c"}}});
        let of = |name: &str| resolved(&json!({"$ref": format!("#/$defs/{name}")}), &root);
        assert_eq!(of("a"), json!({"title": "t", "type": "null"}));
        assert_eq!((of("c"), of("d")), (json!({"$ref": "#/$defs/c"}), json!({"$ref": "#/$defs/d"})));
    }

    #[test]
    fn values_have_the_types_of_their_schema() {
        for (text, schema, want) in [
            ("17", json!({"type": "integer"}), "17"),
            ("17", json!({"type": "string"}), "\"17\""),
            ("17", json!({}), "17"),
            ("True", json!({"type": "boolean"}), "true"),
            ("null", json!({"type": ["string", "null"]}), "null"),
            ("null", json!({"type": "integer"}), "null"),
            ("None", json!({"type": "object"}), "null"),
            ("null", json!({"type": "string"}), "\"null\""),
            ("17", json!({"type": ["string", "null"]}), "\"17\""),
            ("{'a': None}", json!({"type": "object"}), "{\"a\": null}"),
            ("red", json!({"enum": ["red", 1]}), "\"red\""),
            ("[1, 2", json!({"type": "array"}), "\"[1, 2\""),
            ("[1]", json!({"type": "object"}), "[1]"),
            ("[1]", json!({"type": ["object", "string"]}), "\"[1]\""),
            ("true", json!({"type": "integer"}), "true"),
            ("TRUE", json!({"type": "boolean"}), "true"),
            ("007", json!({"type": "integer"}), "7"),
            ("007", json!({"type": "string"}), "\"007\""),
            ("seven", json!({"type": "integer"}), "\"seven\""),
            ("7", json!({"anyOf": [{"type": "number"}, {"type": "string"}]}), "7"),
        ] {
            assert_eq!(value(text, &schema), want, "{text} {schema}");
        }
    }
}
