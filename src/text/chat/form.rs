//! The forms in which templates accept a conversation. Some reject system messages, some require alternating roles,
//! some take the arguments of a tool call as text, and some take lists of parts instead of texts.

use serde_json::{Value as Json, json};

use crate::text::chat::ids::CallIds;
use crate::text::chat::message::REASONING;

/// The form in which a template accepts a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// True if the template rejects or loses system messages. Their text then moves to a user message.
    pub folds_system: bool,
    /// True if the template rejects or loses system messages after the first message.
    pub folds_later_system: bool,
    /// True if the template rejects or loses developer messages. They then become system messages.
    pub developer_is_system: bool,
    /// True if the template rejects or loses one of two user messages in a row. They are then joined.
    pub joins_users: bool,
    /// True if the template rejects a reply without text and without tool calls. The text of such a reply is then a
    /// space.
    pub fills_empty: bool,
    /// True if the template loses string contents but accepts lists of parts.
    pub wants_parts: bool,
    /// True if the template takes the arguments of a tool call as text, not as an object.
    pub arguments_as_text: bool,
    /// True if the content of a message with only tool calls must be "", not null.
    pub empty_content: bool,
    /// True if the template rejects reasoning next to the content of a message with tool calls: both become reasoning.
    pub content_is_thought: bool,
    pub call_ids: CallIds,
    /// True if the template omits tool calls in every form.
    pub loses_calls: bool,
}

impl Form {
    /// Converts messages to this form.
    pub fn of(self, mut messages: Vec<Json>) -> Vec<Json> {
        for message in messages.iter_mut().filter(|m| self.developer_is_system && m["role"] == "developer") {
            message["role"] = Json::from("system");
        }
        if self.folds_system || self.folds_later_system {
            messages = folded(messages, usize::from(!self.folds_system));
        }
        if self.joins_users {
            messages = joined(messages);
        }
        self.call_ids.write(&mut messages);
        for message in &mut messages {
            for call in message.get_mut("tool_calls").and_then(Json::as_array_mut).into_iter().flatten() {
                let Some(arguments) = call.pointer_mut("/function/arguments") else { continue };
                if self.arguments_as_text && !arguments.is_string() {
                    *arguments = Json::from(arguments.to_string());
                } else if !self.arguments_as_text
                    && let Some(Ok(object @ Json::Object(_))) = arguments.as_str().map(serde_json::from_str)
                {
                    *arguments = object;
                }
            }
            if self.content_is_thought {
                join_thought(message);
            }
            let is_empty_reply = message["role"] == "assistant" && message.get("tool_calls").is_none();
            let Some(content) = message.get_mut("content") else { continue };
            if self.fills_empty && is_empty_reply && content == "" {
                *content = Json::from(" ");
            }
            if self.wants_parts && content.is_string() {
                *content = json!([{"type": "text", "text": content}]);
            } else if self.empty_content && content.is_null() {
                *content = Json::from("");
            }
        }
        messages
    }
}

/// Moves the text of system messages, from index `first` on, into user messages: into the next message if it is a
/// user's, otherwise by `append`.
fn folded(messages: Vec<Json>, first: usize) -> Vec<Json> {
    let mut out = Vec::new();
    let mut waiting = String::new();
    for (i, mut message) in messages.into_iter().enumerate() {
        if i >= first && message["role"] == "system" {
            waiting.push_str(if waiting.is_empty() { "" } else { "\n\n" });
            waiting.push_str(&text_of(&message));
            continue;
        }
        let ahead = std::mem::take(&mut waiting);
        if message["role"] != "user" {
            append(&mut out, &ahead);
        } else if !ahead.is_empty() {
            put(&mut message, 0, &format!("{ahead}\n\n"));
        }
        out.push(message);
    }
    append(&mut out, &waiting);
    out
}

/// Appends a text to the last user message, or adds one if the assistant has answered that message. Tool calls and
/// results do not count as answers.
fn append(messages: &mut Vec<Json>, text: &str) {
    let is_between = |m: &&mut Json| m["role"] == "tool" || m["role"] == "assistant" && m["tool_calls"].is_array();
    match messages.iter_mut().rev().find(|message| !is_between(message)) {
        _ if text.is_empty() => {}
        Some(user) if user["role"] == "user" => put(user, usize::MAX, &format!("\n\n{text}")),
        _ => messages.push(json!({"role": "user", "content": text})),
    }
}

/// Joins consecutive user messages.
fn joined(messages: Vec<Json>) -> Vec<Json> {
    let mut out: Vec<Json> = Vec::new();
    for mut message in messages {
        match out.last_mut() {
            Some(last) if last["role"] == "user" && message["role"] == "user" => {
                put(last, usize::MAX, "\n\n");
                match message["content"].take() {
                    Json::Array(mut parts) => {
                        if last["content"].is_string() {
                            parts.insert(0, json!({"type": "text", "text": last["content"]}));
                            last["content"] = Json::Array(parts);
                        } else if let Some(before) = last["content"].as_array_mut() {
                            before.append(&mut parts);
                        }
                    }
                    content => put(last, usize::MAX, content.as_str().unwrap_or_default()),
                }
            }
            _ => out.push(message),
        }
    }
    out
}

/// Moves the content of a message with tool calls into its reasoning, if any.
fn join_thought(message: &mut Json) {
    let content = text_of(message);
    if content.is_empty() || !message["tool_calls"].is_array() {
        return;
    }
    let mut joined = false;
    for name in REASONING {
        if let Some(Json::String(thought)) = message.get_mut(name) {
            thought.extend(["\n\n", &content]);
            joined = true;
        }
    }
    if joined {
        message["content"] = Json::from("");
    }
}

fn text_of(message: &Json) -> String {
    message["content"].as_str().unwrap_or_default().to_owned()
}

/// Inserts a text at the beginning of a message (`at` is 0) or at its end.
fn put(message: &mut Json, at: usize, text: &str) {
    match message["content"].as_array_mut() {
        Some(parts) => parts.insert(at.min(parts.len()), json!({"type": "text", "text": text})),
        None if at == 0 => message["content"] = Json::from(text.to_owned() + &text_of(message)),
        None => message["content"] = Json::from(text_of(message) + text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(messages: Vec<Json>) -> Vec<[String; 2]> {
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        messages.iter().map(|m| [text(&m["role"]), text(&m["content"])]).collect()
    }

    /// Builds a conversation from the first letters of its roles; "c" is an assistant message with tool calls.
    fn conversation(roles: &str) -> Vec<Json> {
        let message = |(i, role): (usize, char)| {
            let name = match role {
                's' => "system",
                'd' => "developer",
                'u' => "user",
                't' => "tool",
                _ => "assistant",
            };
            let mut message = json!({"role": name, "content": format!("{role}{i}")});
            if role == 'c' {
                message["tool_calls"] = json!([{"id": "x", "function": {"name": "f", "arguments": {}}}]);
            }
            message
        };
        roles.chars().enumerate().map(message).collect()
    }

    #[test]
    fn late_system_messages_go_to_the_user() {
        let form = Form { folds_later_system: true, developer_is_system: true, ..Form::default() };
        let all = Form { folds_system: true, ..form };
        for (form, roles, want) in [
            (form, "dsuas", "system d0|user s1\n\nu2|assistant a3|user s4"),
            (form, "sus", "system s0|user u1\n\ns2"),
            (form, "suss", "system s0|user u1\n\ns2\n\ns3"),
            (form, "susau", "system s0|user u1\n\ns2|assistant a3|user u4"),
            (form, "sucts", "system s0|user u1\n\ns4|assistant c2|tool t3"),
            (form, "suctsct", "system s0|user u1\n\ns4|assistant c2|tool t3|assistant c5|tool t6"),
            (form, "suasau", "system s0|user u1|assistant a2|user s3|assistant a4|user u5"),
            (all, "su", "user s0\n\nu1"),
            (all, "s", "user s0"),
            (all, "sau", "user s0|assistant a1|user u2"),
        ] {
            let messages = texts(form.of(conversation(roles))).iter().map(|m| m.join(" ")).collect::<Vec<_>>();
            assert_eq!(messages.join("|"), want, "{roles}");
        }
    }

    #[test]
    fn messages_of_the_user_in_a_row_become_one() {
        let form = Form { joins_users: true, ..Form::default() };
        let mut messages = conversation("uuauu");
        let picture = json!([{"type": "image", "media": 0}]);
        messages[4]["content"] = picture.clone();
        let joined = form.of(messages);
        let parts = json!([{"type": "text", "text": "u3\n\n"}, picture[0]]);
        assert_eq!(joined.len(), 3);
        assert_eq!((&joined[0]["content"], &joined[2]["content"]), (&json!("u0\n\nu1"), &parts));
        let mut messages = conversation("uu");
        messages[0]["content"] = picture;
        let text = |text: &str| json!({"type": "text", "text": text});
        let want = json!([{"type": "image", "media": 0}, text("\n\n"), text("u1")]);
        assert_eq!(form.of(messages)[0]["content"], want);
    }
}
