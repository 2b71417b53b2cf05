//! The form (format of reasoning, content and tool calls) of a model's replies, derived from the chat template: a
//! conversation with marked reasoning, content and calls is rendered, and the template's text around the marks gives
//! the tags. Uses `template`; does not depend on the tokenizer.

use serde_json::{Value as Json, json};

use crate::error::Result;
use crate::text::chat::Chat;
use crate::text::chat::ids::CallIds;
use crate::text::reply::literal::Literal;
use crate::text::reply::tags::{
    ANY, KEY, NAME, any_of, common_prefix, common_suffix, first_tag, last_tag, merged, tag_end, tag_start,
};
use crate::text::template::chat_template::ChatTemplate;

/// The tags before and after a part of a reply; empty if absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    pub open: String,
    pub close: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyForm {
    pub reasoning: Option<Around>,
    pub content: Around,
    /// Strings between parts that belong to no part.
    pub fillers: Vec<String>,
    /// The tag that ends every reply, before the end token.
    pub end: String,
    pub calls: Option<CallForm>,
    /// True if a reply consists of messages with headers (OpenAI's Harmony). Such a reply begins within the first
    /// header.
    pub has_headers: bool,
    /// The form of tool call ids that the template accepts.
    pub call_ids: CallIds,
}

/// The form of calls: `open call between call ... close`. Each call is `before`, the body, and `after`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallForm {
    pub open: String,
    /// `None` if the template writes only one call.
    pub between: Option<String>,
    pub close: String,
    pub before: String,
    pub after: String,
    pub body: Body,
    /// Alternative tags: `Around::open` stands for `CallForm::open` and `before` together; `Around::close`, unless
    /// empty, stands for the text after the name.
    pub others: Vec<Around>,
    /// True if the text around the name contains the id of the call, or its trailing number.
    pub has_ids: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A JSON object. `head` and `tail` are the template's text before and after the arguments; one of them contains
    /// `NAME`.
    Object { name: Member, arguments: String, head: String, tail: String },
    /// The name, `middle`, and the arguments as an object.
    Named { middle: String, dialect: Dialect },
    /// The name, `middle`, and each argument separately.
    Tagged { middle: String, argument: Argument },
}

impl Default for Body {
    fn default() -> Self {
        Body::Named { middle: String::new(), dialect: Dialect::Json }
    }
}

/// The notation of an object of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Json,
    /// Bare keys, and strings between `<|"|>`.
    Bare,
    /// Keyword arguments of a Python call.
    Python,
    /// A value as written by Python's `repr`.
    Repr,
}

/// The position of the tool's name in the JSON object of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Value(String),
    /// The name is the only key, and the arguments are the value of this key.
    Key,
}

/// The form of one argument: `before key between value after`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    pub before: String,
    /// The text between the key and a string value.
    pub text: String,
    /// The text between the key and a value of another type, if it differs.
    pub other: Option<String>,
    pub after: String,
    /// If objects and lists are written as nested tags: the text before each of these tags. The tag of an object member
    /// is named by its key; the tag of a list item is `item`.
    pub nested: Option<String>,
    /// True if some strings are in CDATA sections, as in XML.
    pub in_cdata: bool,
    /// True if objects and lists are written as in Python.
    pub in_python: bool,
}

impl Argument {
    /// Returns the tag after the value of an argument.
    pub fn close(&self, key: &str) -> String {
        self.after.replace(KEY, key)
    }
}

/// Reasoning tags that a rendering does not reveal: pairs of end tag and start tag.
const REASONING: [(&str, &str); 3] = [
    ("[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:"),
    ("<|inner_suffix|>", "<|inner_prefix|>"),
    ("<|eom|>", "to=self<|message|>"),
];

/// Maximum length of a probed reply, and of a tag; templates are untrusted programs.
const MAX_TEXT: usize = 16 << 10;
const MAX_TAG: usize = 500;

const ASKED: &str = "U5U";
const SAID: &str = "C5C";
const THOUGHT: &str = "R5R";
const IDS: [[&str; 2]; 2] = [["q4r5t6y7u", "p0o9i8k3j"], ["functions.f5n:0", "functions.g5n:1"]];

/// Derives the form from a template.
///
/// # Errors
/// `OutOfMemory`. An unusable template gives a form without calls.
pub fn find(template: &ChatTemplate) -> Result<ReplyForm> {
    let mut form = find_parts(template)?;
    if form.calls.is_some() {
        // Some templates of Moonshot's models do not write the ids of calls.
        let is_kimi = template.source().contains(KIMI);
        form.call_ids = if is_kimi { CallIds::Numbered } else { template.call_ids()? };
    }
    Ok(form)
}

/// Finds the tags around reasoning, content and calls.
fn find_parts(template: &ChatTemplate) -> Result<ReplyForm> {
    if template.source().contains("<|channel|>") && template.source().contains("<|message|>") {
        return Ok(harmony());
    }
    let probe = Probe { template };
    let prompt = probe.render(&[], true)?;
    let plain = probe.render(&[json!({"role": "assistant", "content": SAID})], false)?;
    let (reasoning, after_reasoning) = probe.reasoning()?;
    let reasoning = reasoning.filter(|tags| are_sound(&[&tags.open, &tags.close], 0));
    let mut form = ReplyForm { reasoning, ..Default::default() };
    let (Some(prompt), Some(plain)) = (prompt, plain) else { return Ok(form) };

    // The reply begins where the renderings with and without the reply diverge.
    let start = |text: &str| tag_start(text, common_prefix(&prompt, text));
    let plain_start = start(&plain);
    let Some(said) = plain[plain_start..].find(SAID).map(|at| plain_start + at) else { return Ok(form) };
    let following = &plain[said + SAID.len()..];
    form.content.open = form.without_reasoning(&plain[plain_start..said]).trim().to_owned();
    // In a reply of several messages, the header of the next message is between reasoning and content.
    let filler = after_reasoning.strip_suffix(&form.content.open).unwrap_or_default().trim();
    if !filler.is_empty() {
        form.fillers.push(filler.to_owned());
    }

    for ids in IDS {
        for n in [2, 1] {
            let mut message = json!({"role": "assistant", "content": null, "tool_calls": calls(ids, n)});
            let mut text = probe.render(std::slice::from_ref(&message), false)?;
            if text.as_ref().is_some_and(|text| text[start(text)..].contains("None")) {
                // The template writes `None` for absent content.
                message["content"] = Json::from("");
                text = probe.render(&[message], false)?;
            }
            let Some(text) = text else { continue };
            let has_ids = text.contains(ids[0]);
            let text = ids.iter().fold(text[start(&text)..].to_owned(), |text, id| {
                if id.contains('.') { text } else { text.replace(id, &ANY.to_string()) }
            });
            let read = (text.len() <= MAX_TEXT).then(|| read_calls(&text, n, following, &form)).flatten();
            if let Some(form_of_calls) = read.filter(CallForm::is_sound) {
                form.calls = Some(CallForm { has_ids, ..form_of_calls });
                break;
            }
        }
        if form.calls.is_some() {
            break;
        }
    }
    form.content.close = probe.content_close(following, &form)?;
    form.end = end_tag(following, &form.content.close).to_owned();
    let Around { open, close } = &form.content;
    if !are_sound(&[open, close, &form.end], 0) {
        form.content = Around::default();
        form.end.clear();
    }
    form.fillers.retain(|filler| are_sound(&[filler], 0));
    // If the template writes the closing tag of content even without content, this tag is not part of the opening tag
    // of calls.
    if let Some(calls) = &mut form.calls
        && let Some(rest) = calls.open.trim_start().strip_prefix(&form.content.close)
    {
        calls.open = rest.to_owned();
    }
    if let Some(CallForm { body: Body::Tagged { argument, .. }, .. }) = &mut form.calls {
        argument.in_cdata = template.source().contains("<![CDATA[");
    }
    if form.calls.is_none() {
        form.calls = published(template.source());
    }
    if let Some(calls) = &mut form.calls
        && template.source().contains("<|python_tag|>")
    {
        calls.others.push(Around { open: "<|python_tag|>".to_owned(), close: String::new() });
    }
    Ok(form)
}

impl CallForm {
    /// Moves outer tags of each tagged call to the tags of the list, because models omit the outer tags or write them
    /// around several calls.
    fn part_tags(&mut self) {
        let Body::Tagged { .. } = &self.body else { return };
        let outer = self.before.rfind('<').unwrap_or(0);
        let after = self.after.trim_start();
        let inner = self.after.len() - after.len() + first_tag(after).map_or(0, str::len);
        if self.before[..outer].trim().is_empty() || self.after[inner..].trim().is_empty() {
            return;
        }
        let (open, close) = (self.before[..outer].to_owned(), self.after.split_off(inner));
        self.before.drain(..outer);
        self.between = self.between.take().map(|between| format!("{close}{between}{open}"));
        self.open.push_str(&open);
        self.close.insert_str(0, &close);
    }

    /// Returns the id of a call, or the part of the id that the model wrote, from the text before the arguments.
    pub fn written_id<'t>(&self, name: &str, text: &'t str) -> Option<&'t str> {
        let middle = match &self.body {
            Body::Named { middle, .. } | Body::Tagged { middle, .. } if self.has_ids => middle,
            Body::Named { .. } | Body::Tagged { .. } | Body::Object { .. } => return None,
        };
        let tag = match middle.contains(ANY) {
            true => format!("{name}{middle}"),
            false => format!("{}{name}", self.before),
        };
        text.char_indices().find_map(|(at, _)| any_of(&tag, &text[at..]))
    }

    /// Returns the form of arguments between tags.
    pub fn argument(&self) -> Option<&Argument> {
        if let Body::Tagged { argument, .. } = &self.body { Some(argument) } else { None }
    }

    /// True if the tags are short and contain few wildcards.
    fn is_sound(&self) -> bool {
        let mut tags = vec![&self.open, &self.close, &self.before, &self.after];
        tags.extend(&self.between);
        match &self.body {
            Body::Object { head, tail, .. } => {
                if !are_sound(&[head, tail], 4) {
                    return false;
                }
            }
            Body::Named { middle, .. } => tags.push(middle),
            Body::Tagged { middle, argument } => {
                tags.extend([middle, &argument.before, &argument.text, &argument.after]);
                tags.extend(&argument.other);
            }
        }
        are_sound(&tags, 2)
    }
}

fn are_sound(tags: &[&String], most: usize) -> bool {
    let any = tags.iter().map(|tag| tag.matches([ANY, NAME]).count()).sum::<usize>();
    any <= most && tags.iter().all(|tag| tag.len() <= MAX_TAG)
}

impl ReplyForm {
    /// Returns the text after any leading reasoning.
    fn without_reasoning<'t>(&self, text: &'t str) -> &'t str {
        let close = self.reasoning.as_ref().map(|around| around.close.as_str());
        match close.and_then(|close| text.rfind(close).map(|at| at + close.len())) {
            Some(at) => &text[at..],
            None => text,
        }
    }
}

/// Returns the tag after the closing tag of content if the returned tag is followed by another tag, otherwise an empty
/// string.
fn end_tag<'t>(following: &'t str, close: &str) -> &'t str {
    let following = following.trim_start();
    let following = following.strip_prefix(close).unwrap_or(following).trim_start();
    match first_tag(following) {
        Some(tag) if first_tag(following[tag.len()..].trim_start()).is_some() => tag,
        _ => "",
    }
}

const KIMI: &str = "<|tool_call_argument_begin|>";

/// Returns the form of calls for models whose templates do not reveal it. A string in the template identifies the
/// model. The models are LFM2 and Granite 3 (their conversations cannot contain calls), Kimi K2 (some templates modify
/// lists, which the interpreter does not support), and MiniMax M3.
fn published(source: &str) -> Option<CallForm> {
    let list = |open: &str, close: &str, body: Body| CallForm {
        open: open.to_owned(),
        between: Some(", ".to_owned()),
        close: close.to_owned(),
        body,
        ..Default::default()
    };
    if source.contains(KIMI) {
        return Some(kimi());
    }
    if source.contains(MINIMAX) {
        return Some(minimax());
    }
    if source.contains("List of tools: ") {
        let body = Body::Named { middle: String::new(), dialect: Dialect::Python };
        return Some(list("<|tool_call_start|>[", "]<|tool_call_end|>", body));
    }
    let body = Body::Object {
        name: Member::Value("name".to_owned()),
        arguments: "arguments".to_owned(),
        head: format!("{{\"name\": \"{NAME}\", \"arguments\": "),
        tail: "}".to_owned(),
    };
    source.contains("<|tool_call|> followed by a JSON list").then(|| list("<|tool_call|>[", "]", body))
}

const MINIMAX: &str = "]<]minimax[>[";

/// Returns the form of MiniMax M3, whose arguments have tags at every level.
fn minimax() -> CallForm {
    let argument = Argument {
        before: format!("{MINIMAX}<"),
        text: ">".to_owned(),
        other: None,
        after: format!("{MINIMAX}</{KEY}>"),
        nested: Some(MINIMAX.to_owned()),
        in_cdata: false,
        in_python: false,
    };
    CallForm {
        open: format!("{MINIMAX}<tool_call>\n"),
        between: Some("\n".to_owned()),
        close: format!("\n{MINIMAX}</tool_call>"),
        before: format!("{MINIMAX}<invoke name=\""),
        after: format!("{MINIMAX}</invoke>"),
        body: Body::Tagged { middle: "\">".to_owned(), argument },
        ..Default::default()
    }
}

fn kimi() -> CallForm {
    CallForm {
        open: "<|tool_calls_section_begin|>".to_owned(),
        between: Some(String::new()),
        close: "<|tool_calls_section_end|>".to_owned(),
        before: "<|tool_call_begin|>functions.".to_owned(),
        after: "<|tool_call_end|>".to_owned(),
        body: Body::Named { middle: format!(":{ANY}{KIMI}"), dialect: Dialect::Json },
        others: Vec::new(),
        has_ids: true,
    }
}

/// Returns the form of OpenAI's Harmony: a reply is several messages, each with a header that names its channel and
/// recipient (github.com/openai/harmony, docs/format.md).
fn harmony() -> ReplyForm {
    let around = |open: &str, close: &str| Around { open: open.to_owned(), close: close.to_owned() };
    ReplyForm {
        reasoning: Some(around("<|channel|>analysis<|message|>", "<|end|>")),
        content: around("<|channel|>final<|message|>", "<|end|>"),
        fillers: vec!["<|start|>assistant".to_owned()],
        end: String::new(),
        calls: Some(CallForm {
            before: " to=functions.".to_owned(),
            after: "<|call|>".to_owned(),
            body: Body::Named { middle: "<|channel|>commentary json<|message|>".to_owned(), dialect: Dialect::Json },
            ..Default::default()
        }),
        has_headers: true,
        ..Default::default()
    }
}

struct Probe<'t> {
    template: &'t ChatTemplate,
}

impl Probe<'_> {
    /// Renders the user's message and then `messages`; `None` if the template rejects them.
    fn render(&self, messages: &[Json], prompt: bool) -> Result<Option<String>> {
        let schema = |name: &str, properties: Json| {
            json!({"type": "function", "function": {"name": name, "description": "d", "parameters":
                {"type": "object", "properties": properties, "required": []}}})
        };
        let typed = |name: &str| json!({"type": name, "description": "d", "additionalProperties": true});
        let all: Vec<Json> = [json!({"role": "user", "content": ASKED})].into_iter().chain(messages.to_vec()).collect();
        let chat = json!({"messages": all, "add_generation_prompt": prompt,
            "tools": [schema("f5n", json!({"a5k": typed("string"), "n5k": typed("integer"), "o5k": typed("object")})),
                schema("g5n", json!({"c5k": typed("string")}))],
            "variables": {"enable_thinking": true, "thinking": true}});
        let chat = Chat::parse(&chat.to_string(), prompt)?;
        match self.template.render_unchecked(&chat).and_then(|text| text.plain()) {
            Ok(text) => Ok(Some(text)),
            Err(e @ crate::error::Error::OutOfMemory { .. }) => Err(e),
            Err(_) => Ok(None),
        }
    }

    /// Returns the tags of reasoning, and the text between reasoning and content.
    fn reasoning(&self) -> Result<(Option<Around>, String)> {
        let source = self.template.source();
        let mut message = json!({"role": "assistant", "content": SAID, "reasoning_content": THOUGHT, "reasoning": THOUGHT,
            "thinking": THOUGHT});
        let mut text = self.render(std::slice::from_ref(&message), false)?.unwrap_or_default();
        if !text.contains(THOUGHT) {
            // Some templates render reasoning only in messages with calls.
            message["tool_calls"] = calls(IDS[0], 1);
            text = self.render(&[message], false)?.unwrap_or_default();
        }
        let around = |(close, open): (&str, &str)| Around { open: open.to_owned(), close: close.to_owned() };
        let known = |&&(close, open): &&(&str, &str)| source.contains(close) && source.contains(open);
        if let Some(at) = text.rfind(THOUGHT) {
            let (before, following) = (text[..at].trim_end(), text[at + THOUGHT.len()..].trim_start());
            let known = REASONING.iter().find(|(close, open)| following.starts_with(close) && before.ends_with(open));
            let read = || Some((first_tag(following)?, last_tag(before)?));
            if let Some((close, open)) = known.copied().or_else(read) {
                let between = following[close.len()..].split_once(SAID).map_or("", |(between, _)| between);
                let between = if between.contains("f5n") { "" } else { between };
                return Ok((Some(around((close, open))), between.trim().to_owned()));
            }
        }
        // Templates that drop the reasoning of earlier turns contain its end tag.
        let tags = [("</think>", "<think>"), ("[/THINK]", "[THINK]"), ("<|END_THINKING|>", "<|START_THINKING|>")];
        let named = tags.iter().find(|(close, _)| source.contains(close)).or_else(|| REASONING.iter().find(known));
        Ok((named.map(|tags| around(*tags)), String::new()))
    }

    /// Returns the closing tag of content: the text that follows content both with and without calls.
    fn content_close(&self, following: &str, form: &ReplyForm) -> Result<String> {
        let message = json!({"role": "assistant", "content": SAID, "tool_calls": calls(IDS[0], 1)});
        let text = self.render(&[message], false)?.unwrap_or_default();
        let close = match text.rfind(SAID).map(|at| &text[at + SAID.len()..]) {
            Some(rest) if rest.contains("f5n") => &rest[..tag_start(rest, common_prefix(rest, following))],
            _ if form.content.open.is_empty() => "",
            _ => first_tag(following.trim_start()).unwrap_or_default(),
        };
        Ok(close.trim().to_owned())
    }
}

fn calls(ids: [&str; 2], n: usize) -> Json {
    let function = |name: &str, arguments: Json| json!({"name": name, "arguments": arguments});
    let call = |(id, function): (&str, Json)| json!({"id": id, "type": "function", "function": function});
    let functions = [function("f5n", arguments(0)), function("g5n", arguments(1))];
    ids.into_iter().zip(functions).take(n).map(call).collect()
}

fn arguments(call: usize) -> Json {
    if call == 0 { json!({"a5k": "v5v", "n5k": 17, "o5k": {"x5k": "y5v"}}) } else { json!({"c5k": "w5w"}) }
}

/// Byte indices of a call in a text.
struct Found {
    /// The start of the object or the name.
    start: usize,
    end: usize,
    name_end: usize,
    /// Start and end of the arguments; tagged arguments start at the first key.
    arguments: (usize, usize),
    kind: Kind,
}

enum Kind {
    Object { name: Member, arguments: String },
    Named(Dialect),
    Tagged,
}

/// Returns the first occurrence after `from` of call number `call` (0 or 1) of the probe (see `calls`).
fn find_call(text: &str, from: usize, call: usize) -> Option<Found> {
    let (name, first_key) = [("f5n", "a5k"), ("g5n", "c5k")][call];
    let arguments = arguments(call);
    let key = from + text[from..].find(first_key)?;

    let braces = |range: std::ops::Range<usize>| {
        text[range.clone()].match_indices(['{', '(']).map(move |(i, _)| range.start + i)
    };
    for start in braces(from..key) {
        let Some((Json::Object(members), end)) = json_at(text, start) else { continue };
        let Some(inner) = braces(start + 1..end).find_map(|i| match json_at(text, i) {
            Some((value, end)) if value == arguments => Some((i, end)),
            _ => None,
        }) else {
            continue;
        };
        let member = |value: &Json| members.iter().find(|(_, v)| *v == value).map(|(name, _)| name.clone());
        let kind = match (member(&Json::from(name)), member(&arguments)) {
            (Some(name), Some(arguments)) => Kind::Object { name: Member::Value(name), arguments },
            (None, Some(key)) if key == name && members.len() == 1 => {
                Kind::Object { name: Member::Key, arguments: key }
            }
            _ => continue,
        };
        return Some(Found { start, end, name_end: start, arguments: inner, kind });
    }

    let start = from + text[from..key].rfind(name)?;
    let name_end = start + name.len();
    for at in braces(name_end..key) {
        let (mut literal, mut json) = (Literal::new(), String::new());
        let taken =
            text[at..].char_indices().take_while(|(_, c)| !literal.is_done() && literal.push(*c, &mut json).is_ok());
        let end = taken.last().map_or(at, |(i, c)| at + i + c.len_utf8());
        if serde_json::from_str::<Json>(&json).is_ok_and(|json| json == arguments) {
            let dialect = match json_at(text, at) {
                Some(_) => Dialect::Json,
                None if text[at..].starts_with('(') => Dialect::Python,
                None => Dialect::Bare,
            };
            return Some(Found { start, end, name_end, arguments: (at, end), kind: Kind::Named(dialect) });
        }
    }

    let end = if call == 0 {
        let object = key + text[key..].find("o5k")?;
        object + text[object..].find('}')? + 1
    } else {
        key + text[key..].find("w5w")? + 3
    };
    Some(Found { start, end, name_end, arguments: (key, end), kind: Kind::Tagged })
}

/// Returns the JSON that begins at an index of a text, and the index after it.
fn json_at(text: &str, start: usize) -> Option<(Json, usize)> {
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter();
    let value = values.next()?.ok()?;
    Some((value, start + values.byte_offset()))
}

/// Derives the form of calls from the text of a reply with `n` calls (1 or 2). `following`: the text after the content
/// of a reply without calls.
fn read_calls(text: &str, n: usize, following: &str, form: &ReplyForm) -> Option<CallForm> {
    let first = find_call(text, 0, 0)?;
    let second = if n == 2 { Some(find_call(text, first.end, 1)?) } else { None };
    let last = second.as_ref().unwrap_or(&first);

    // The texts before, between and after the calls, without the end of the reply.
    let named = |text: &str| text.replace("f5n", &NAME.to_string()).replace("g5n", &NAME.to_string());
    let head = form.without_reasoning(&text[..first.start]);
    let head = match form.content.open.as_str() {
        "" => head,
        open => head.rfind(open).map_or(head, |at| &head[at + open.len()..]),
    };
    // A reply with calls ends like any other, with different white space in some templates.
    let tail = text[last.end..].trim_end();
    let tail = &tail[..tag_end(tail, tail.len() - common_suffix(tail, following.trim_end()))];
    let (mut head, mut tail) = (named(head), named(tail));
    let mut between = second.as_ref().map(|second| named(&text[first.end..second.start]));

    let body = match &first.kind {
        Kind::Object { name, arguments } => {
            let part = |found: &Found| {
                let (start, end) = found.arguments;
                (named(&text[found.start..start]), named(&text[end..found.end]))
            };
            let (mut head, mut tail) = part(&first);
            if let Some((second_head, second_tail)) = second.as_ref().map(part) {
                (head, tail) = (merged(&head, &second_head), merged(&tail, &second_tail));
            }
            Body::Object { name: name.clone(), arguments: arguments.clone(), head, tail }
        }
        Kind::Named(dialect) => {
            let middle = |found: &Found| named(&text[found.name_end..found.arguments.0]);
            let first = middle(&first);
            Body::Named {
                middle: second.as_ref().map_or(first.clone(), |second| merged(&first, &middle(second))),
                dialect: *dialect,
            }
        }
        Kind::Tagged => {
            let following = between.as_deref().unwrap_or(&tail);
            let (middle, argument) = read_argument(text, &first, second.as_ref(), following)?;
            let strip = |text: &String| text.strip_prefix(&*argument.after).map(str::to_owned);
            tail = strip(&tail)?;
            if let Some(between) = &mut between {
                *between = strip(between)?;
            }
            Body::Tagged { middle: named(&middle), argument }
        }
    };

    let mut calls = CallForm { body, ..Default::default() };
    match between {
        Some(between) => {
            calls.after = between[..tag_start(&between, common_prefix(&between, &tail))].to_owned();
            let rest = &between[calls.after.len()..];
            let at = rest.len() - common_suffix(rest, &head);
            calls.before = rest[tag_end(rest, at)..].to_owned();
            calls.between = Some(rest[..rest.len() - calls.before.len()].to_owned());
            calls.close = tail.split_off(calls.after.len());
            head.truncate(head.len() - calls.before.len());
            calls.open = head;
        }
        None => {
            calls.before = head;
            calls.after = tail;
        }
    }
    calls.part_tags();
    Some(calls)
}

/// Derives the text between a name and the first argument, and the form of an argument, from one or two calls.
/// `following`: the text after the last argument.
fn read_argument(text: &str, first: &Found, second: Option<&Found>, following: &str) -> Option<(String, Argument)> {
    let key = |name: &str| text[first.start..].find(name).map(|at| first.start + at);
    let (a, n, o, v) = (key("a5k")?, key("n5k")?, key("o5k")?, key("v5v")?);
    let after_value = text.get(v + 3..n)?;
    let after = &after_value[..tag_start(after_value, common_prefix(after_value, following))];
    let before = &after_value[after.len()..];
    let middle = text[first.name_end..a].strip_suffix(before)?;
    let middle = match second {
        Some(second) => merged(middle, text[second.name_end..second.arguments.0].strip_suffix(before)?),
        None => middle.to_owned(),
    };
    let number = text.get(n + 3..o)?.strip_suffix(before)?.strip_suffix(after)?.strip_suffix("17")?;
    let (in_front, object) = (text.get(a + 3..v)?, &text[o + 3..o + text[o..].find('{')?]);
    let argument = Argument {
        before: before.to_owned(),
        text: in_front.to_owned(),
        other: (number != in_front).then(|| merged(number, object)),
        after: after.to_owned(),
        nested: None,
        in_cdata: false,
        in_python: text[o..].contains("{'x5k': 'y5v'}"),
    };
    Some((middle, argument))
}
