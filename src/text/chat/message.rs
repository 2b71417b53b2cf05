//! Messages of a conversation in the JSON of servers: the allowed members and their types.

use serde_json::{Map, Value as Json, json};

use crate::error::{Error, Result};

/// Names of a message's reasoning, the common one first.
pub const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// Members of messages in OpenAI's schema, plus the members for reasoning and for the finish reason.
const MEMBERS: [&str; 13] = [
    "role",
    "content",
    "name",
    "refusal",
    "annotations",
    "audio",
    "function_call",
    "tool_calls",
    "tool_call_id",
    REASONING[0],
    REASONING[1],
    REASONING[2],
    "finish_reason",
];

/// Validates messages like `message`.
pub fn messages(list: Vec<Json>, n_media: Option<usize>) -> Result<Vec<Json>> {
    let checked = |(i, json)| message(&format!("messages[{i}]"), json, n_media);
    list.into_iter().enumerate().map(checked).collect()
}

/// A part of a message that is not text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartKind {
    Picture,
    Sound,
    Video,
}

impl PartKind {
    /// The types of parts; templates know the first name of each.
    const TYPES: [(PartKind, [&str; 2]); 3] = [
        (PartKind::Picture, ["image", "image_url"]),
        (PartKind::Sound, ["audio", "input_audio"]),
        (PartKind::Video, ["video", "video_url"]),
    ];

    pub fn of(kind: &str) -> Option<PartKind> {
        Self::TYPES.iter().find(|(_, types)| types.contains(&kind)).map(|(kind, _)| *kind)
    }

    /// Returns the type name that templates know.
    pub fn name(self) -> &'static str {
        Self::TYPES[self as usize].1[0]
    }
}

/// Reads the content part for one of `n_media` media.
fn media_part(place: &str, part: &Json, kind: &str, n_media: usize) -> Result<Json> {
    match part["media"].as_u64() {
        Some(number) if number < n_media as u64 => Ok(json!({"type": kind, "media": number})),
        Some(number) => Err(Error::invalid(format!("{place}.media is {number}, there are {n_media} media"))),
        None => Err(Error::invalid(format!("{place}.media is not the number of a media item"))),
    }
}

/// Validates a message, and joins the parts of its content, unless some are media. `n_media`: as in `parse_with_media`.
pub fn message(place: &str, mut message: Json, n_media: Option<usize>) -> Result<Json> {
    let wrong = |what: &str| Err(Error::invalid(format!("{place}{what}")));
    let Some(members) = message.as_object_mut() else { return wrong(" is no object") };
    if !members.get("role").is_some_and(Json::is_string) {
        return wrong(".role is no text");
    }
    members.retain(|name, value| name == "content" || !value.is_null());
    let mut content = members.entry("content").or_insert(Json::Null).take();
    match &mut content {
        Json::Null | Json::String(_) => {}
        Json::Array(parts) => {
            if let Some(text) = read_parts(place, parts, n_media)? {
                content = Json::from(text);
            }
        }
        _ => return wrong(".content is neither a text nor a list of parts"),
    }
    // A template may read reasoning under its own name.
    let thought = REASONING.iter().find_map(|name| members.get(*name)).cloned();
    if let Some(thought) = &thought {
        members.insert("reasoning_content".to_owned(), thought.clone());
        members.entry("thinking").or_insert_with(|| thought.clone());
    }
    check_calls(place, members)?;
    for (name, instead) in [("function_call", "tool_calls"), ("audio", "content")] {
        if members.contains_key(name) {
            return Err(Error::unsupported(format!("{place}.{name} is not supported; {instead} takes its place")));
        }
    }
    if content.is_null() {
        content = match (members.get("refusal"), members.contains_key("tool_calls")) {
            (Some(refusal @ Json::String(_)), _) => refusal.clone(),
            (_, true) => Json::Null,
            _ if thought.is_some() => Json::from(""),
            _ => return wrong(".content is null; it must be a text or a list of parts, unless there are tool_calls"),
        };
    }
    members["content"] = content;
    Ok(message)
}

/// Validates the parts of a content, and returns their text, unless some are media.
fn read_parts(place: &str, parts: &mut [Json], n_media: Option<usize>) -> Result<Option<String>> {
    let (mut text, mut media) = (String::new(), false);
    for (i, part) in parts.iter_mut().enumerate() {
        let place = format!("{place}.content[{i}]");
        let kind = part["type"].as_str().and_then(PartKind::of);
        if let (Some(kind), Some(n_media)) = (kind, n_media) {
            (*part, media) = (media_part(&place, part, kind.name(), n_media)?, true);
            continue;
        }
        match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text"), Some(part)) => text.push_str(part),
            (Some("text") | None, _) => return Err(Error::invalid(format!("{place} is no part with a text"))),
            (Some(other), _) => {
                return Err(Error::unsupported(format!("{place} is of type {other:?}; only text is supported")));
            }
        }
    }
    Ok((!media).then_some(text))
}

/// Validates the tool calls of a message; an empty list counts as no calls.
fn check_calls(place: &str, members: &mut Map<String, Json>) -> Result<()> {
    let wrong = |what: &str| Err(Error::invalid(format!("{place}.tool_calls{what}")));
    let calls = match members.get("tool_calls") {
        None => return Ok(()),
        Some(Json::Array(calls)) => calls,
        Some(_) => return wrong(" is no list"),
    };
    for (i, call) in calls.iter().enumerate() {
        let function = &call["function"];
        if !function["name"].is_string() {
            return wrong(&format!("[{i}].function.name is no text"));
        }
        if !function["arguments"].is_string() && !function["arguments"].is_object() {
            return wrong(&format!("[{i}].function.arguments is neither a text nor an object"));
        }
    }
    if calls.is_empty() {
        members.shift_remove("tool_calls");
    }
    Ok(())
}

/// Rejects members that are neither known nor read by the template.
pub fn check_members(messages: &[Json], reads: impl Fn(&str) -> bool) -> Result<()> {
    for (i, message) in messages.iter().enumerate() {
        for name in message.as_object().into_iter().flat_map(Map::keys) {
            if !MEMBERS.contains(&name.as_str()) && !reads(name) {
                let name: String = name.chars().take(40).collect();
                let what = "it must be one of OpenAI's messages or one that the chat template reads";
                return Err(Error::invalid(format!("messages[{i}] has the unknown member {name:?}; {what}")));
            }
        }
    }
    Ok(())
}

/// Rejects tool results whose "tool_call_id" is not the id of an earlier tool call: in the same list, or in `before`,
/// the messages before it. Calls without an id match any result.
pub fn check_results(before: &[Json], messages: &[Json]) -> Result<()> {
    for (i, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "tool") {
        let Some(given) = message["tool_call_id"].as_str() else { continue };
        let ahead = || before.iter().chain(&messages[..i]).rev().filter_map(|message| message["tool_calls"].as_array());
        if ahead().flatten().any(|call| call["id"].as_str().is_none_or(|id| id == given)) {
            continue;
        }
        let quoted = |id: &str| format!("{:?}", id.chars().take(40).collect::<String>());
        let last = ahead().next().into_iter().flatten().filter_map(|call| call["id"].as_str()).take(16);
        let known: Vec<String> = last.map(quoted).collect();
        let known = match known.is_empty() {
            true => "no message has any".to_owned(),
            false => format!("the last ones are {}", known.join(", ")),
        };
        let given = quoted(given);
        return Err(Error::invalid(format!(
            "messages[{i}].tool_call_id is {given}; it must be the id of a tool call in a message before it: {known}"
        )));
    }
    Ok(())
}

/// Counts the tool calls without a result in the last message that has tool calls. A result is a `tool` message after
/// it.
pub fn open_calls(messages: &[Json]) -> usize {
    let mut results = 0;
    for message in messages.iter().rev() {
        if let Some(calls) = message["tool_calls"].as_array().filter(|calls| !calls.is_empty()) {
            return calls.len().saturating_sub(results);
        }
        results += usize::from(message["role"] == "tool");
    }
    0
}

/// Returns a message without the members that `message` has added.
pub fn as_given(message: &Json) -> Json {
    let mut message = message.clone();
    if let Some(members) = message.as_object_mut()
        && members.get("thinking").is_some_and(|thought| Some(thought) == members.get("reasoning_content"))
    {
        members.remove("thinking");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: Json) -> Result<Json> {
        message("messages[0]", json, None)
    }

    #[test]
    fn a_message_says_something() {
        for (given, word) in [
            (json!({"role": "user"}), ".content is null"),
            (json!({"role": "user", "contents": "a"}), ".content is null"),
            (json!({"role": "assistant", "content": null, "tool_calls": []}), ".content is null"),
            (json!({"role": "assistant", "content": "", "function_call": {"name": "f"}}), ".function_call"),
            (json!({"role": "assistant", "content": "", "audio": {"id": "a"}}), ".audio"),
        ] {
            let error = read(given.clone()).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(word), "{given}: {error}");
        }
        for (given, content) in [
            (json!({"role": "assistant", "content": null, "refusal": "No."}), json!("No.")),
            (json!({"role": "assistant", "content": null, "reasoning": "Hm"}), json!("")),
            (json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}), Json::Null),
            (json!({"role": "user", "content": "a", "audio": null, "function_call": null}), json!("a")),
        ] {
            let message = read(given).unwrap();
            assert_eq!(message["content"], content);
            assert!(message.get("audio").is_none() && message.get("function_call").is_none());
        }
    }

    #[test]
    fn results_of_unknown_calls_are_named() {
        let calls = |ids: &[&str]| {
            let call = |id: &&str| json!({"id": id, "function": {"name": "f", "arguments": {}}});
            json!({"role": "assistant", "tool_calls": ids.iter().map(call).collect::<Json>()})
        };
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
        let before = [calls(&["a"]), result("a"), calls(&["b", "c"])];
        for list in [vec![result("b"), result("c")], vec![result("a")], vec![calls(&["d"]), result("d")]] {
            assert!(check_results(&before, &list).is_ok(), "{list:?}");
        }
        for (list, word) in [
            (vec![result("b"), result("d")], "messages[1].tool_call_id is \"d\""),
            (vec![result("d")], "the last ones are \"b\", \"c\""),
            (vec![result("d"), calls(&["d"])], "messages[0]"),
        ] {
            let error = check_results(&before, &list).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(word), "{list:?}: {error}");
        }
        let error = check_results(&[], &[result("a")]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("no message has any"), "{error}");
        let unnamed = json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]});
        assert!(check_results(&[unnamed], &[result("a"), json!({"role": "tool", "content": "r"})]).is_ok());
    }

    #[test]
    fn members_that_nobody_reads_are_named() {
        let message = json!({"role": "user", "content": "a", "name": "n", "annotations": [], "own": 1, "nmae": "b"});
        let check = |reads: &[&str]| check_members(std::slice::from_ref(&message), |name| reads.contains(&name));
        let error = check(&["own"]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("messages[0]") && error.contains("\"nmae\""), "{error}");
        assert!(check(&["own", "nmae"]).is_ok());
    }
}
