//! Ids of tool calls: generated ones, and foreign ids converted to the form that a template accepts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

/// The form of tool call ids that a template accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallIds {
    #[default]
    Any,
    /// Nine letters and digits (Mistral).
    Short,
    /// `functions.NAME:N` (Moonshot), written instead of the name.
    Numbered,
}

impl CallIds {
    /// Returns the id of tool call number `n` of a conversation, for the tool `name`.
    fn id(self, name: &str, n: usize) -> String {
        match self {
            CallIds::Any | CallIds::Short => format!("call{}", in_base_36(n as u64, 5)),
            CallIds::Numbered => format!("functions.{name}:{n}"),
        }
    }

    fn takes(self, id: &str, name: &str) -> bool {
        match self {
            CallIds::Any => true,
            CallIds::Short => id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            CallIds::Numbered => {
                let number = id.strip_prefix("functions.").and_then(|id| id.strip_prefix(name)?.strip_prefix(':'));
                number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
            }
        }
    }

    /// Returns the accepted id for `id`, which a model wrote as a whole id or as the trailing number of an id; `None`
    /// if there is none.
    fn written(self, name: &str, id: &str) -> Option<String> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match self {
            CallIds::Any => Some(id.to_owned()).filter(|id| !id.is_empty() && id.chars().all(is_word)),
            CallIds::Short => Some(id.to_owned()),
            CallIds::Numbered => Some(format!("functions.{name}:{id}")),
        }
        .filter(|id| self.takes(id, name))
    }

    /// Returns `given` if the template accepts it, otherwise a hash of it, or for `Numbered` the id of call number `n`.
    fn instead_of(self, given: &str, name: &str, n: usize) -> String {
        match self {
            _ if self.takes(given, name) => given.to_owned(),
            CallIds::Any | CallIds::Short => in_base_36(hash(given), 9),
            CallIds::Numbered => self.id(name, n),
        }
    }

    /// Replaces the ids of tool calls and of their results by accepted ones. A call without an id gets one; results
    /// without an id belong to the preceding calls, in order.
    pub fn write(self, messages: &mut [Json]) {
        let (mut n, mut written, mut open) = (0, HashMap::new(), Vec::<(String, String)>::new());
        for message in messages {
            if let Some(calls) = message.get_mut("tool_calls").and_then(Json::as_array_mut) {
                open.clear();
                for call in calls {
                    let name = call["function"]["name"].as_str().unwrap_or_default();
                    let given = call["id"].as_str();
                    let mut id = given.map_or_else(|| self.id(name, n), |given| self.instead_of(given, name, n));
                    // Some servers give the calls of a message equal ids.
                    if open.iter().any(|(_, other)| *other == id) {
                        id = self.id(name, n);
                    }
                    let given = given.unwrap_or(&id).to_owned();
                    written.insert(given.clone(), id.clone());
                    call["id"] = Json::from(id.as_str());
                    open.push((given, id));
                    n += 1;
                }
            } else if message["role"] == "tool" {
                // The first open call with this id, or the first open call if the result has no id.
                let given = message["tool_call_id"].as_str();
                let waiting = open.iter().position(|(of_call, _)| given.is_none_or(|given| given == of_call));
                let id = match (given, waiting) {
                    (_, Some(at)) => open.remove(at).1,
                    (None, None) => continue,
                    (Some(given), None) => match written.get(given) {
                        Some(id) => id.clone(),
                        None => self.instead_of(given, message["name"].as_str().unwrap_or_default(), n),
                    },
                };
                message["tool_call_id"] = Json::from(id);
            }
        }
    }
}

/// Ids for the tool calls of a reply, unique within the conversation.
#[derive(Clone, Default)]
pub struct NewIds {
    form: CallIds,
    /// The ids in the messages of the conversation.
    taken: Arc<HashSet<String>>,
    /// The ids of the reply so far.
    given: HashSet<String>,
    n: usize,
}

impl NewIds {
    pub fn new(form: CallIds, messages: &[Json]) -> NewIds {
        let calls = || messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
        let taken = calls().filter_map(|call| call["id"].as_str()).map(str::to_owned).collect();
        NewIds { form, taken: Arc::new(taken), given: HashSet::new(), n: calls().count() }
    }

    /// Returns the id of the next tool call, for the tool `name`. `written`: the id that the model wrote, or its
    /// trailing number, used unless it belongs to another call.
    pub fn next(&mut self, name: &str, written: Option<&str>) -> String {
        let written = written.and_then(|id| self.form.written(name, id));
        if let Some(id) = written.filter(|id| self.is_free(id)) {
            self.n += 1;
            self.given.insert(id.clone());
            return id;
        }
        loop {
            let id = self.form.id(name, self.n);
            self.n += 1;
            if self.is_free(&id) {
                self.given.insert(id.clone());
                return id;
            }
        }
    }

    fn is_free(&self, id: &str) -> bool {
        !self.taken.contains(id) && !self.given.contains(id)
    }
}

/// Returns the last `len` digits of a number.
fn in_base_36(mut n: u64, len: usize) -> String {
    let mut digits = vec![b'0'; len];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize];
        n /= 36;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

/// 64-bit FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(id: Json) -> Json {
        json!({"id": id, "function": {"name": "f", "arguments": {}}})
    }

    fn ids(form: CallIds, mut messages: Vec<Json>) -> Vec<Json> {
        form.write(&mut messages);
        let of_calls =
            |m: &Json| m["tool_calls"].as_array().into_iter().flatten().map(|call| call["id"].clone()).collect();
        let of = |m: &Json| if m["role"] == "tool" { vec![m["tool_call_id"].clone()] } else { of_calls(m) };
        messages.iter().flat_map(of).collect()
    }

    #[test]
    fn calls_of_one_message_with_the_same_id_are_told_apart() {
        for given in ["", "call_0"] {
            let result = || json!({"role": "tool", "tool_call_id": given, "content": "r"});
            let calls = json!({"role": "assistant", "tool_calls": [call(json!(given)), call(json!(given))]});
            for form in [CallIds::Any, CallIds::Short, CallIds::Numbered] {
                let ids = ids(form, vec![calls.clone(), result(), result()]);
                assert!(ids[0] != ids[1] && ids[..2] == ids[2..], "{form:?}: {ids:?}");
            }
        }
    }

    #[test]
    fn ids_from_elsewhere_take_the_form_of_the_template() {
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "r"});
        let messages = || {
            vec![
                json!({"role": "assistant", "tool_calls": [call(json!("toolu_01A")), call(json!("call00007"))]}),
                result("call00007"),
                result("toolu_01A"),
                json!({"role": "assistant", "tool_calls": [call(json!("functions.f:2"))]}),
                result("functions.f:2"),
                result("nobody's"),
            ]
        };
        assert_eq!(
            ids(CallIds::Any, messages()),
            ["toolu_01A", "call00007", "call00007", "toolu_01A", "functions.f:2", "functions.f:2", "nobody's"]
        );
        let f = ["functions.f:0", "functions.f:1", "functions.f:2"];
        assert_eq!(ids(CallIds::Numbered, messages())[..6], [f[0], f[1], f[1], f[0], f[2], f[2]]);
        let short = ids(CallIds::Short, messages());
        let short: Vec<&str> = short.iter().filter_map(Json::as_str).collect();
        assert!(short.iter().all(|id| CallIds::Short.takes(id, "")), "{short:?}");
        assert_eq!((short[1], short[2]), ("call00007", "call00007"));
        assert_eq!((short[0], short[4]), (short[3], short[5]));
        assert_eq!(short.iter().collect::<HashSet<_>>().len(), 4);
    }

    #[test]
    fn calls_and_results_without_ids_find_each_other() {
        let result = json!({"role": "tool", "content": "r"});
        let calls = json!({"role": "assistant", "tool_calls": [call(Json::Null), call(json!(7))]});
        let messages = vec![result.clone(), calls, result.clone(), result.clone(), result];
        let id = json!("call00000");
        let other = json!("call00001");
        assert_eq!(ids(CallIds::Any, messages), [Json::Null, id.clone(), other.clone(), id, other, Json::Null]);
    }

    #[test]
    fn new_ids_are_those_of_no_other_call() {
        let messages = [json!({"role": "assistant", "tool_calls": [call(json!("x")), call(json!("call00003"))]})];
        let mut new = NewIds::new(CallIds::Short, &messages);
        assert_eq!([new.next("f", None), new.next("f", None)], ["call00002", "call00004"]);
        let mut new = NewIds::new(CallIds::Numbered, &messages);
        assert_eq!([new.next("f", None), new.next("g", None)], ["functions.f:2", "functions.g:3"]);
    }

    #[test]
    fn ids_that_models_write_are_kept() {
        let messages = [json!({"role": "assistant", "tool_calls": [call(json!("functions.f:0"))]})];
        let mut new = NewIds::new(CallIds::Numbered, &messages);
        let mut next = |id: &str| new.next("f", Some(id));
        // Ids of other calls, and non-numbers.
        assert_eq!(["7", "0", "7", "x", ""].map(&mut next), [7, 2, 3, 4, 5].map(|n| format!("functions.f:{n}")));
        let mut new = NewIds::new(CallIds::Short, &messages);
        let mut next = |id: &str| new.next("f", Some(id));
        assert_eq!(["aB3456789", "aB3456789", "short"].map(&mut next), ["aB3456789", "call00002", "call00003"]);
        let mut new = NewIds::new(CallIds::Any, &messages);
        let mut next = |id: &str| new.next("f", Some(id));
        assert_eq!(["a-7", "functions.f:0", "a b", ""].map(&mut next), ["a-7", "call00002", "call00003", "call00004"]);
    }
}
