//! Common parts of the conversions: values of the configuration files, and parts of the output.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::Metadata;
use crate::format::json::Json;

/// Returns the class of the tokenizer, without implementation suffixes.
pub fn class<'c>(config: &'c Json) -> &'c str {
    let class = config.get("tokenizer_class").and_then(Json::as_str).unwrap_or_default();
    class.strip_suffix("Fast").unwrap_or(class)
}

pub fn flag(config: &Json, name: &str, default: bool) -> Result<bool> {
    let wrong = || Error::format(Path::new("tokenizer_config.json"), format!("{name:?} is no boolean"));
    config.get(name).map_or(Ok(default), |value| value.as_bool().ok_or_else(wrong))
}

/// Names a special token, unless the configuration files have.
pub fn name(m: &mut Metadata, key: &str, text: &str) {
    let key = format!("tokenizer.huggingface.{key}_token");
    if m.get(&key).is_none() && !text.is_empty() {
        m.set(&key, text);
    }
}

/// Returns a text as JSON.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns an entry of `added_tokens`.
pub fn added(id: usize, content: &str, special: bool) -> String {
    let content = quoted(content);
    format!(
        r#"{{"id":{id},"content":{content},"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":{special}}}"#
    )
}

/// Returns a post-processor that begins or ends a text with a token.
pub fn around(before: Option<(&str, usize)>, after: Option<(&str, usize)>) -> String {
    let special = |(text, _): (&str, usize)| format!(r#"{{"SpecialToken":{{"id":{},"type_id":0}}}}"#, quoted(text));
    let single: Vec<String> = before
        .map(special)
        .into_iter()
        .chain([r#"{"Sequence":{"id":"A","type_id":0}}"#.to_owned()])
        .chain(after.map(special))
        .collect();
    let tokens = before.into_iter().chain(after).map(|(text, id)| {
        let text = quoted(text);
        format!(r#"{text}:{{"id":{text},"ids":[{id}],"tokens":[{text}]}}"#)
    });
    let tokens: Vec<String> = tokens.collect();
    format!(
        r#"{{"type":"TemplateProcessing","single":[{}],"pair":[],"special_tokens":{{{}}}}}"#,
        single.join(","),
        tokens.join(",")
    )
}
