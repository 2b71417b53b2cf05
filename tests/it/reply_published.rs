//! Replies of published templates: the output of each template for an assistant turn is parsed back, cut at every
//! position, and with other white space between its tags; the grammar of the same form accepts it.

use std::sync::Arc;

use realizar::grammar::Grammars;
use realizar::text::{Chat, ChatTemplate, Reply, ReplyForm, find_reply_form};
use serde_json::{Value as Json, json};

use crate::support::replies::{Got, parsed_with, tools, user, with_controls};

const SAID: &str = "Let me see,  a < b.";
const THOUGHT: &str = "So: {\"name\": 1} hm";

struct Published {
    name: String,
    template: ChatTemplate,
    form: Arc<ReplyForm>,
    prompt: String,
    reply: Arc<Reply>,
    /// What follows every reply.
    end: String,
}

fn chat(messages: &[Json], prompt: bool) -> Chat {
    let chat = json!({"messages": messages, "tools": tools(), "add_generation_prompt": prompt,
        "variables": {"enable_thinking": true, "thinking": true}});
    Chat::parse(&chat.to_string(), prompt).unwrap()
}

/// The templates that take tools.
fn published() -> Vec<Published> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/text/published.json");
    let table: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let read = |(name, of): (&String, &Json)| {
        let template = ChatTemplate::new(of["source"].as_str().unwrap(), "<s>".into(), "</s>".into());
        let form = Arc::new(find_reply_form(&template).unwrap());
        let chat = chat(&[user()], true);
        let prompt = template.render(&chat).ok()?;
        let reply = Arc::new(Reply::new(form.clone(), &chat, &prompt).ok()?);
        let mut published = Published {
            name: name.clone(),
            template,
            form,
            prompt: prompt.plain().unwrap(),
            reply,
            end: String::new(),
        };
        let plain = published.rendered(&json!({"role": "assistant", "content": SAID}))?;
        published.end = plain[plain.rfind(SAID)? + SAID.len()..].trim().to_owned();
        Some(published)
    };
    table["templates"].as_object().unwrap().iter().filter_map(read).collect()
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum()
}

impl Published {
    fn rendered(&self, message: &Json) -> Option<String> {
        self.template.render(&chat(&[user(), message.clone()], false)).ok()?.plain().ok()
    }

    /// The text that a model writes for a message; `None` where the template has no way to write it.
    fn written(&self, message: &Json) -> Option<String> {
        let text = self.rendered(message)?;
        let same = common_prefix(&self.prompt, &text);
        let open = text[..same].rfind(['<', '[']).filter(|at| !text[*at..same].contains(['>', ']', '{', ' ']));
        let mut text = text[open.unwrap_or(same)..].to_owned();
        let tags = self.form.reasoning.clone().unwrap_or_default();
        if self.reply.begins_in_reasoning {
            text = text.strip_prefix(&tags.open).map(str::to_owned).unwrap_or(text);
            if !text.contains(&tags.close) {
                // The turn is one without reasoning.
                text = format!("{}\n{text}", tags.close);
            }
        }
        let text = text.trim_end();
        let text = text.strip_suffix(&self.end).unwrap_or(text).trim_end();
        // Other ends than that of a text: those after calls.
        let ends = ["<|call|>", "<|im_end|>", "<|eom_id|>"];
        Some(ends.iter().fold(text, |text, end| text.strip_suffix(end).unwrap_or(text)).to_owned())
    }

    /// Messages of each kind that the template writes, with what the model writes for them.
    fn cases(&self) -> Vec<(Json, String)> {
        let call = |id: &str, name: &str, arguments: Json| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let weather = json!({"city": "Zürich \"<b>\" \\ {日", "far": true, "options": {"units": "C"}, "days": 3});
        let calls = [call("abc123xyz", "get_weather", weather), call("def456uvw", "get", json!({"query": "17"}))];
        let mut cases = Vec::new();
        for (content, thought, n) in [
            (SAID, "", 0),
            (SAID, THOUGHT, 0),
            ("", "", 1),
            ("", "", 2),
            (SAID, "", 1),
            ("", THOUGHT, 1),
            (SAID, THOUGHT, 2),
        ] {
            let mut message = json!({"role": "assistant", "content": content});
            if !thought.is_empty() {
                message["reasoning_content"] = Json::from(thought);
            }
            if n > 0 {
                message["tool_calls"] = Json::from(calls[..n].to_vec());
            }
            let Some(text) = self.written(&message) else { continue };
            let has_all = text.contains(thought)
                && text.contains(content)
                && calls[..n].iter().all(|call| text.contains(call["function"]["name"].as_str().unwrap()));
            if has_all && n > 0 && self.form.has_headers && !content.is_empty() {
                // The template of such a model writes what is said before a call as reasoning.
                (message["content"], message["reasoning_content"]) = (json!(""), json!(content));
            }
            if has_all {
                cases.push((message, text));
            }
        }
        cases
    }

    /// The control tokens of its vocabulary: the tags that look like some.
    fn controls(&self, texts: &[(Json, String)]) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for (_, text) in texts {
            for (at, _) in text.match_indices("<|").chain(text.match_indices("<｜")) {
                let end = text[at..].find("|>").map(|end| end + 2).or(text[at..].find("｜>").map(|end| end + 4));
                let tag = end.map(|end| &text[at..at + end]).filter(|tag| tag.len() < 40 && !tag.contains([' ', '"']));
                out.extend(tag.filter(|tag| !out.iter().any(|known| known == tag)).map(str::to_owned));
            }
        }
        if self.form.has_headers {
            // They end the replies of a model in whose vocabulary `<|end|>` ends a message.
            out.extend(["<|return|>", "<|call|>"].map(str::to_owned));
        }
        out
    }
}

fn json_of(got: &Got) -> Vec<(String, Json)> {
    got.calls.iter().map(|(name, json)| (name.clone(), serde_json::from_str(json).unwrap_or_default())).collect()
}

fn calls_of(message: &Json) -> Vec<(String, Json)> {
    let of =
        |call: &Json| (call["function"]["name"].as_str().unwrap().to_owned(), call["function"]["arguments"].clone());
    message["tool_calls"].as_array().into_iter().flatten().map(of).collect()
}

/// Asserts that a text is read as a message.
fn assert_read(got: &Got, message: &Json, what: &str) {
    let thought = message["reasoning_content"].as_str().unwrap_or_default();
    let content = message["content"].as_str().unwrap();
    assert_eq!((got.reasoning.trim(), got.content.trim()), (thought, content), "{what}: {got:?}");
    assert_eq!((json_of(got), got.end), (calls_of(message), Some(false)), "{what}: {got:?}");
}

#[test]
fn what_published_templates_write_is_read_back_and_allowed() {
    let mut n = 0;
    for published in published() {
        let cases = published.cases();
        for names in [Vec::new(), published.controls(&cases)] {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let tokenizer = with_controls(&names);
            let grammars = Grammars::new(&tokenizer, tokenizer.n_vocab()).unwrap();
            let grammar = grammars.compile_reply(&published.reply, None, false, &tokenizer).unwrap();
            for (message, text) in &cases {
                let what = format!("{}, {} control tokens: {text}", published.name, names.len());
                assert_read(&parsed_with(&tokenizer, &names, &published.reply, text, true), message, &what);
                // A reply that breaks off after its last tag is complete.
                let got = parsed_with(&tokenizer, &names, &published.reply, text, false);
                assert!(got.end == Some(false) || message["tool_calls"].is_null(), "{what}: {got:?}");
                let (mut matcher, mut line) = (grammar.matcher().unwrap(), Vec::new());
                for token in crate::support::replies::tokens_with(&names, text) {
                    assert!(matcher.allowed(&line).unwrap().has(token), "{what}: token {} of it", line.len());
                    line.push(token);
                }
                assert!(matcher.allowed(&line).unwrap().has(tokenizer.eos().unwrap()), "{what}: its end");
                n += 1;
            }
        }
    }
    assert!(n > 200, "{n}");
}

/// Cut anywhere, a reply says nothing that the whole one does not say.
#[test]
fn published_replies_may_break_off_anywhere() {
    for published in published() {
        let cases = published.cases();
        let names = published.controls(&cases);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tokenizer = with_controls(&names);
        let (message, text) = cases.last().unwrap();
        let whole = parsed_with(&tokenizer, &names, &published.reply, text, true);
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let got = parsed_with(&tokenizer, &names, &published.reply, &text[..at], false);
            let what = format!("{}: {}", published.name, &text[..at]);
            assert!(got.end.is_some(), "{what}");
            assert!(whole.reasoning.starts_with(got.reasoning.trim_end()), "{what}: {got:?}");
            let is_begun = got.content.is_empty() || whole.content.starts_with(got.content.trim_end());
            // Without its first tag a name is a word.
            assert!(is_begun || got.calls.is_empty() && message["content"] == "", "{what}: {got:?}");
            for ((name, json), (whole_name, whole_json)) in got.calls.iter().zip(&whole.calls) {
                assert!(name == whole_name && whole_json.starts_with(json.as_str()), "{what}: {got:?}");
            }
        }
    }
}

/// White space between tags, and in front of an object, is the model's affair.
#[test]
fn white_space_between_tags_says_nothing() {
    for published in published() {
        let cases = published.cases();
        let tokenizer = with_controls(&[]);
        for (message, text) in cases.iter().filter(|(message, _)| message["tool_calls"].is_array()) {
            for space in ["\n", " ", "\n\n"] {
                for pair in ["><", ">[", ">{", "][", "]<"] {
                    // Within a value the characters are text.
                    let (left, right) = pair.split_at(1);
                    let other = text.replace(pair, &format!("{left}{space}{right}"));
                    if other == *text || published.form.has_headers {
                        continue;
                    }
                    let got = parsed_with(&tokenizer, &[], &published.reply, &other, true);
                    assert_eq!(json_of(&got), calls_of(message), "{}: {other}: {got:?}", published.name);
                }
            }
        }
    }
}
