//! A conversation in the JSON of OpenAI-style chat APIs. `chat/message.rs` validates its messages, `chat/form.rs` has
//! the forms that templates accept. Uses `format` for bounds on JSON; independent of templates.

pub mod form;
pub mod ids;
pub mod message;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::error::{Error, Result};
use crate::format::json;
use crate::text::chat::form::Form;
use crate::text::chat::message::{PartKind, as_given, check_members, message, messages};

/// Members of a conversation that are template variables of the same name.
const VARIABLES: &[&str] = &["messages", "tools", "add_generation_prompt", "response_format"];

/// Advice for models whose template has no tools.
pub const INSTEAD_OF_TOOLS: &str = "a model without tools can answer by a JSON schema as the grammar of its reply, with the tools described in a message";

/// The tool calls that a reply may contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Calls are optional.
    #[default]
    Auto,
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Named(String),
}

/// A conversation and the other variables of a template.
#[derive(Clone)]
pub struct Chat {
    variables: Map<String, Json>,
    pub tool_choice: ToolChoice,
    /// True if a reply may contain several calls.
    pub parallel_calls: bool,
    /// Names of the tools with `"strict": true`; templates do not get this member.
    strict: Vec<String>,
}

impl Chat {
    /// Returns a conversation of texts; `messages`: role and content of each.
    pub fn new(messages: &[(&str, &str)], add_generation_prompt: bool) -> Chat {
        let messages: Json = messages.iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        let mut variables = Map::new();
        variables.insert("messages".to_owned(), messages);
        variables.insert("add_generation_prompt".to_owned(), Json::from(add_generation_prompt));
        Chat { variables, tool_choice: ToolChoice::Auto, parallel_calls: true, strict: Vec::new() }
    }

    /// Parses a conversation. `add_generation_prompt`: the default for the member of that name.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the place, for invalid JSON or JSON of another form; `Unsupported` for content other
    /// than text.
    pub fn parse(text: &str, add_generation_prompt: bool) -> Result<Chat> {
        Chat::parse_with_media(text, add_generation_prompt, None)
    }

    /// Like `parse`, for messages whose parts may refer to `n_media` media by index; `None`: only texts.
    pub fn parse_with_media(text: &str, add_generation_prompt: bool, n_media: Option<usize>) -> Result<Chat> {
        let (chat, has_messages) = Chat::read(text, add_generation_prompt, n_media)?;
        match has_messages {
            true => Ok(chat),
            false => Err(Error::invalid("the conversation has no \"messages\"")),
        }
    }

    /// Like `parse_with_media`, for the beginning of a conversation, which may lack messages.
    pub fn begun(text: &str, n_media: Option<usize>) -> Result<Chat> {
        Ok(Chat::read(text, true, n_media)?.0)
    }

    /// Parses a conversation; returns whether it has messages.
    fn read(text: &str, add_generation_prompt: bool, n_media: Option<usize>) -> Result<(Chat, bool)> {
        let members = members_of("the conversation", text)?;
        let has_messages = members.get("messages").is_some_and(|list| !list.is_null());
        let mut chat = Chat::new(&[], add_generation_prompt);
        chat.set(members, n_media)?;
        Ok((chat, has_messages))
    }

    /// Returns the conversation with the tools, tool choice and variables of `text`, a JSON object like a conversation
    /// without messages. Given tools replace the conversation's tools; variables are added.
    pub fn with_members(&self, text: &str) -> Result<Chat> {
        let members = members_of("the members of the reply", text)?;
        if members.get("messages").is_some_and(|list| !list.is_null()) {
            return Err(Error::invalid("the members of the reply have \"messages\", which belong to the conversation"));
        }
        let mut chat = self.clone();
        if members.get("tools").is_some_and(|list| !list.is_null()) {
            chat.variables.shift_remove("tools");
            chat.strict.clear();
        }
        chat.set(members, None)?;
        Ok(chat)
    }

    /// Sets members of a conversation.
    fn set(&mut self, members: Map<String, Json>, n_media: Option<usize>) -> Result<()> {
        let (chat, mut more) = (self, Map::new());
        for (name, value) in members {
            match (name.as_str(), value) {
                (_, Json::Null) => {}
                ("messages", Json::Array(list)) => {
                    chat.variables.insert(name, Json::Array(messages(list, n_media)?));
                }
                ("tools", Json::Array(mut list)) => {
                    for (i, tool) in list.iter_mut().enumerate() {
                        chat.strict.extend(take_strict(i, tool)?);
                    }
                    // Templates that only test whether `tools` is defined treat an empty list as tools.
                    if !list.is_empty() {
                        chat.variables.insert(name, Json::Array(list));
                    }
                }
                ("add_generation_prompt", value @ Json::Bool(_)) | ("response_format", value @ Json::Object(_)) => {
                    chat.variables.insert(name, value);
                }
                ("variables", Json::Object(members)) => more = members,
                ("tool_choice", value) => chat.tool_choice = tool_choice(&value)?,
                ("parallel_tool_calls", Json::Bool(value)) => chat.parallel_calls = value,
                (
                    "messages"
                    | "tools"
                    | "add_generation_prompt"
                    | "response_format"
                    | "variables"
                    | "parallel_tool_calls",
                    _,
                ) => {
                    return Err(Error::invalid(format!(
                        "{name:?} of the conversation has another type than it should"
                    )));
                }
                _ => return Err(Error::invalid(format!("the conversation has an unknown member {name:?}"))),
            }
        }
        for (name, value) in more {
            if VARIABLES.contains(&name.as_str()) || ["bos_token", "eos_token"].contains(&name.as_str()) {
                return Err(Error::invalid(format!("variables.{name} is not the caller's to set")));
            }
            chat.variables.insert(name, value);
        }
        if let ToolChoice::Named(name) = &chat.tool_choice
            && !chat.tools().iter().any(|tool| tool["function"]["name"] == name.as_str())
        {
            return Err(Error::invalid(format!("tool_choice names {name:?}, which is not among the tools")));
        }
        if chat.tool_choice == ToolChoice::Required && chat.tools().is_empty() {
            return Err(Error::invalid("tool_choice is \"required\", and there are no tools"));
        }
        Ok(())
    }

    /// Parses a message, or a list of messages, for `extend`; `n_media` as in `parse_with_media`.
    ///
    /// # Errors
    /// The errors of `parse`.
    pub fn read_messages(text: &str, n_media: Option<usize>) -> Result<Vec<Json>> {
        match exact_json("the messages", text)? {
            Json::Array(list) => messages(list, n_media),
            one => messages(vec![one], n_media),
        }
    }

    /// Rejects members of messages that are neither OpenAI's nor read by the template, according to `reads`.
    pub fn check_members(&self, reads: impl Fn(&str) -> bool) -> Result<()> {
        check_members(self.messages(), reads)
    }

    /// Appends parsed messages, in which media item `i` becomes media item `numbers[i]`.
    pub fn extend(&mut self, mut list: Vec<Json>, numbers: &[usize]) {
        for part in list.iter_mut().filter_map(|m| m["content"].as_array_mut()).flatten() {
            if let Some(number) = part["media"].as_u64().and_then(|i| numbers.get(i as usize)) {
                part["media"] = Json::from(*number);
            }
        }
        self.change_messages(|messages| messages.extend(list));
    }

    /// Appends a valid message of texts.
    pub fn push(&mut self, new: Json) -> Result<()> {
        let new = message("the message", new, None)?;
        self.change_messages(|messages| messages.push(new));
        Ok(())
    }

    /// Removes the messages after the first `n`.
    pub fn truncate(&mut self, n: usize) {
        self.change_messages(|messages| messages.truncate(n));
    }

    fn change_messages(&mut self, change: impl FnOnce(&mut Vec<Json>)) {
        if let Some(Json::Array(list)) = self.variables.get_mut("messages") {
            change(list);
        }
    }

    /// Returns the messages from index `first` on, in JSON, without additions for templates.
    pub fn messages_json(&self, first: usize) -> String {
        Json::from(self.messages().iter().skip(first).map(as_given).collect::<Vec<_>>()).to_string()
    }

    /// Returns the conversation in the JSON that `parse` accepts.
    pub fn to_json(&self) -> String {
        let (mut out, mut variables) = (Map::new(), Map::new());
        for (name, value) in &self.variables {
            match name.as_str() {
                "messages" => _ = out.insert(name.clone(), self.messages().iter().map(as_given).collect()),
                "tools" => {
                    _ = out.insert(name.clone(), self.tools().iter().map(|tool| self.as_given_tool(tool)).collect())
                }
                name if VARIABLES.contains(&name) => _ = out.insert(name.to_owned(), value.clone()),
                name => _ = variables.insert(name.to_owned(), value.clone()),
            }
        }
        out.insert("variables".to_owned(), variables.into());
        out.insert("parallel_tool_calls".to_owned(), self.parallel_calls.into());
        let choice = match &self.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::None => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Named(name) => json!({"function": {"name": name}}),
        };
        out.insert("tool_choice".to_owned(), choice);
        Json::Object(out).to_string()
    }

    /// Returns a prompt for the assistant: messages `from..end` and the system and developer messages before `from`,
    /// with `switches` as variables.
    pub fn prompt(&self, from: usize, end: usize, switches: &[(&str, bool)]) -> Chat {
        let mut chat = self.clone();
        let mut i = 0;
        chat.change_messages(|messages| {
            messages.retain(|message| {
                i += 1;
                i <= end && (i > from || is_system(message))
            });
        });
        chat.variables.insert("add_generation_prompt".to_owned(), Json::from(true));
        chat.variables.extend(switches.iter().map(|&(name, value)| (name.to_owned(), Json::from(value))));
        chat
    }

    /// Returns the indices of the messages that begin a turn: a user's after another role.
    pub fn turns(&self) -> Vec<usize> {
        let is_user = |m: &Json| m["role"] == "user";
        let begins = |i: usize, m: &[Json]| is_user(&m[i]) && (i == 0 || !is_user(&m[i - 1]));
        (0..self.messages().len()).filter(|&i| begins(i, self.messages())).collect()
    }

    /// Returns the tools, each with `function.name`.
    pub fn tools(&self) -> &[Json] {
        self.variables.get("tools").and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }

    /// True for a tool whose calls must satisfy its whole schema.
    pub fn is_strict(&self, tool: &str) -> bool {
        self.strict.iter().any(|name| name == tool)
    }

    fn as_given_tool(&self, tool: &Json) -> Json {
        let mut tool = tool.clone();
        if tool["function"]["name"].as_str().is_some_and(|name| self.is_strict(name)) {
            tool["function"]["strict"] = Json::from(true);
        }
        tool
    }

    /// Returns the messages as given, except that text parts are joined.
    pub fn messages(&self) -> &[Json] {
        self.variables.get("messages").and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns the indices of the media in the parts of messages, in order, with the kind of each part.
    pub fn media_of(messages: &[Json]) -> Vec<(usize, PartKind)> {
        let parts = messages.iter().flat_map(|m| m["content"].as_array().into_iter().flatten());
        let of = |part: &Json| Some((part["media"].as_u64()? as usize, PartKind::of(part["type"].as_str()?)?));
        parts.filter_map(of).collect()
    }

    /// Returns the conversation for templates that support parts; each media item is reduced to its type.
    pub fn with_bare_media(&self) -> Chat {
        let mut chat = self.clone();
        chat.each_parts(|content| {
            for part in content.as_array_mut().into_iter().flatten() {
                part.as_object_mut().map(|part| part.remove("media"));
            }
        });
        chat
    }

    /// Returns the conversation with texts only: each media item replaced by a marker that does not occur otherwise.
    pub fn with_markers(&self) -> (Chat, String) {
        let mut chat = self.clone();
        let marker = self.free_characters().next().unwrap_or('\u{e000}').to_string();
        chat.each_parts(|content| {
            let text = |part: &Json| part["text"].as_str().unwrap_or(&marker).to_owned();
            let texts: String = content.as_array().into_iter().flatten().map(text).collect();
            *content = Json::from(texts);
        });
        (chat, marker)
    }

    /// Private-use characters that do not occur in the conversation.
    pub fn free_characters(&self) -> impl Iterator<Item = char> + use<> {
        let mut taken = HashSet::new();
        self.variables.values().for_each(|value| each_text(value, &mut |text| taken.extend(text.chars())));
        ('\u{e000}'..='\u{f8ff}').filter(move |c| !taken.contains(c))
    }

    /// Returns the conversation with the tool calls of each message appended to its content as text; `None` if `write`
    /// returns `None`.
    pub fn with_calls_as_text(&self, mut write: impl FnMut(&[Json]) -> Option<String>) -> Option<Chat> {
        let mut chat = self.clone();
        let mut all = true;
        chat.change_messages(|messages| {
            for message in messages.iter_mut().filter_map(Json::as_object_mut) {
                let Some(Json::Array(calls)) = message.shift_remove("tool_calls") else { continue };
                let Some(text) = write(&calls) else {
                    all = false;
                    continue;
                };
                match message.get_mut("content") {
                    Some(Json::Array(parts)) => parts.push(json!({"type": "text", "text": text})),
                    Some(Json::String(content)) => content.push_str(&text),
                    _ => _ = message.insert("content".to_owned(), Json::from(text)),
                }
            }
        });
        all.then_some(chat)
    }

    /// Changes contents that are lists of parts.
    fn each_parts(&mut self, change: impl Fn(&mut Json)) {
        self.change_messages(|messages| {
            messages.iter_mut().map(|m| &mut m["content"]).filter(|content| content.is_array()).for_each(change);
        });
    }

    /// True for a conversation with a system or developer message from index `first` on.
    pub fn has_system(&self, first: usize) -> bool {
        self.messages().iter().skip(first).any(is_system)
    }

    pub fn text_bytes(&self) -> usize {
        let mut len = 0;
        self.variables.values().for_each(|value| each_text(value, &mut |text| len += text.len()));
        len
    }

    /// True for a conversation with tool calls, results, or tools.
    pub fn has_tools(&self) -> bool {
        !self.tools().is_empty() || self.has_calls() || self.messages().iter().any(|m| m["role"] == "tool")
    }

    pub fn has_calls(&self) -> bool {
        self.messages().iter().any(|m| m["tool_calls"].is_array())
    }

    /// Replaces each call's name and arguments, each tool result and each tool's name by a unique text (a trace), so
    /// that the template's output shows what the template writes. Also returns each trace with a description of its
    /// place. `None` without tools.
    pub fn traced(&self) -> Option<(Chat, Vec<(String, String)>)> {
        if !self.has_tools() {
            return None;
        }
        let mut traces = Vec::new();
        let mut trace = |what: String| {
            let text = format!("q7{}w", traces.len());
            traces.push((text.clone(), what));
            text
        };
        let (mut messages, mut ids) = (self.messages().to_vec(), HashMap::new());
        for (i, message) in messages.iter_mut().enumerate() {
            for (j, call) in
                message.get_mut("tool_calls").and_then(Json::as_array_mut).into_iter().flatten().enumerate()
            {
                let place = format!("messages[{i}].tool_calls[{j}]");
                let name = trace(format!("the name in {place}"));
                // Some templates write the id, which contains the name.
                let given = call["function"]["name"].as_str().unwrap_or_default().to_owned();
                if let Some(id) = call["id"].as_str().filter(|_| !given.is_empty()) {
                    let traced = id.replace(&given, &name);
                    ids.insert(id.to_owned(), traced.clone());
                    call["id"] = Json::from(traced);
                }
                call["function"]["name"] = Json::from(name);
                call["function"]["arguments"] = json!({"k": trace(format!("the arguments of {place}"))});
            }
            if let Some(id) = message.get("tool_call_id").and_then(Json::as_str).and_then(|id| ids.get(id)) {
                message["tool_call_id"] = Json::from(id.as_str());
            }
            if message["role"] == "tool" && message["content"].as_str().is_some_and(|text| !text.trim().is_empty()) {
                message["content"] = Json::from(trace(format!("the content of messages[{i}], which is a tool's")));
            }
        }
        let mut tools = self.tools().to_vec();
        for (i, tool) in tools.iter_mut().enumerate() {
            tool["function"]["name"] = Json::from(trace(format!("tools[{i}]")));
        }
        let mut variables = self.variables.clone();
        variables.insert("messages".to_owned(), Json::Array(messages));
        if !tools.is_empty() {
            variables.insert("tools".to_owned(), Json::Array(tools));
        }
        Some((Chat { variables, tool_choice: self.tool_choice.clone(), strict: self.strict.clone(), ..*self }, traces))
    }

    /// Returns the variables for a template that requires this form.
    pub fn in_form(&self, form: Form) -> Map<String, Json> {
        let mut variables = self.variables.clone();
        variables.insert("messages".to_owned(), Json::Array(form.of(self.messages().to_vec())));
        variables
    }
}

/// Returns the members of a JSON object; `what`: its name in error messages.
fn members_of(what: &str, text: &str) -> Result<Map<String, Json>> {
    match exact_json(what, text)? {
        Json::Object(members) => Ok(members),
        _ => Err(Error::invalid(format!("{what} is no JSON object"))),
    }
}

fn is_system(message: &Json) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}

/// Removes "strict" from a tool; returns the tool's name if it was true.
fn take_strict(i: usize, tool: &mut Json) -> Result<Option<String>> {
    let Some(name) = tool["function"]["name"].as_str().map(str::to_owned) else {
        return Err(Error::invalid(format!("tools[{i}].function.name is no text")));
    };
    let places = [tool.as_object_mut().and_then(|tool| tool.shift_remove("strict")), {
        tool["function"].as_object_mut().and_then(|function| function.shift_remove("strict"))
    }];
    let mut is_strict = false;
    for value in places.into_iter().flatten() {
        match value {
            Json::Bool(value) => is_strict |= value,
            Json::Null => {}
            _ => return Err(Error::invalid(format!("tools[{i}].strict is {value}; it must be true or false"))),
        }
    }
    Ok(is_strict.then_some(name))
}

fn tool_choice(value: &Json) -> Result<ToolChoice> {
    match (value.as_str(), value["function"]["name"].as_str()) {
        (Some("auto"), _) => Ok(ToolChoice::Auto),
        (Some("none"), _) => Ok(ToolChoice::None),
        (Some("required"), _) => Ok(ToolChoice::Required),
        (None, Some(name)) => Ok(ToolChoice::Named(name.to_owned())),
        _ => Err(Error::invalid(
            "tool_choice is neither \"auto\", \"none\", \"required\" nor an object with function.name",
        )),
    }
}

/// Calls `each` for every text of a value, including member names.
pub fn each_text<'j>(json: &'j Json, each: &mut impl FnMut(&'j str)) {
    match json {
        Json::String(text) => each(text),
        Json::Array(items) => items.iter().for_each(|item| each_text(item, each)),
        Json::Object(members) => {
            for (name, value) in members {
                each(name);
                each_text(value, each);
            }
        }
        _ => {}
    }
}

/// Parses untrusted JSON.
pub fn parse_json(what: &str, text: &str) -> Result<Json> {
    // `json::Json` enforces limits and rejects duplicate names.
    json::Json::parse(Path::new(what), text.as_bytes()).map_err(|e| match e {
        Error::Format { path, what } => Error::invalid(format!("{path}: {what}")),
        other => other,
    })?;
    serde_json::from_str(text).map_err(|e| Error::invalid(format!("{what}: {e}")))
}

/// Parses JSON whose integers all have their exact value.
fn exact_json(what: &str, text: &str) -> Result<Json> {
    let json = parse_json(what, text)?;
    match wide_integer(text) {
        None => Ok(json),
        Some(number) => {
            Err(Error::unsupported(format!("{what} has the integer {number}; it must have at most 64 bits")))
        }
    }
}

/// Returns a JSON integer that would lose digits as a float, truncated if long.
fn wide_integer(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(string) = rest.strip_prefix('"') {
            let mut escaped = false;
            let end = string.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })?;
            rest = &string[end + 1..];
            continue;
        }
        let (number, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        let is_whole = !number.contains(['.', 'e', 'E']);
        if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
            return Some(&number[..number.len().min(40)]);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, word) in [
            ("", "EOF"),
            ("[]", "no JSON object"),
            ("{}", "no \"messages\""),
            (r#"{"messages": null}"#, "no \"messages\""),
            (r#"{"messages": 1}"#, "\"messages\""),
            (r#"{"messages": [], "messages": []}"#, "twice"),
            (r#"{"temperature": 1}"#, "\"temperature\""),
            (r#"{"messages": [1]}"#, "messages[0] is no object"),
            (r#"{"messages": [{"content": "a"}]}"#, "messages[0].role"),
            (r#"{"messages": [{"role": "user", "content": 1}]}"#, "messages[0].content"),
            (r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#, "\"image_url\""),
            (r#"{"messages": [{"role": "user", "content": [{"type": "text"}]}]}"#, "content[0]"),
            (r#"{"messages": [{"role": "assistant", "tool_calls": [{}]}]}"#, "tool_calls[0].function.name"),
            (r#"{"messages": [{"role": "assistant", "tool_calls": 1}]}"#, "tool_calls is no list"),
            (r#"{"tools": [{}]}"#, "tools[0].function.name"),
            (r#"{"variables": {"messages": []}}"#, "variables.messages"),
            (
                r#"{"messages": [], "variables": {"a\\\"": [1, -18446744073709551616]}}"#,
                "the integer -18446744073709551616; it must have at most 64 bits",
            ),
            (r#"{"variables": {"18446744073709551616": 18446744073709551615, "b": 1e30}}"#, "no \"messages\""),
        ] {
            let error = Chat::parse(text, true).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(word), "{text}: {error}");
        }
        assert!(Chat::parse(&"[".repeat(100_000), true).is_err());
    }

    #[test]
    fn conversations_take_the_form_that_a_template_wants() {
        let text = r#"{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "u"}]},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": 1}"}}]}]}"#;
        let chat = Chat::parse(text, true).unwrap();
        let plain = chat.in_form(Form::default());
        assert_eq!(plain["messages"][1]["content"], "u");
        assert_eq!(plain["messages"][2]["tool_calls"][0]["function"]["arguments"], json!({"a": 1}));
        assert_eq!(plain["messages"][2]["content"], Json::Null);
        let form = Form {
            folds_system: true,
            wants_parts: true,
            arguments_as_text: true,
            empty_content: true,
            ..Form::default()
        };
        let other = chat.in_form(form);
        assert_eq!(other["messages"][0]["content"], json!([{"type": "text", "text": "s\n\nu"}]));
        assert_eq!(other["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
        assert_eq!(other["messages"][1]["content"], "");
    }
}
