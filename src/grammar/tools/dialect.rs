//! Tool call arguments in forms other than JSON: Python keyword arguments, and objects with bare keys.

use std::fmt::Write;

use serde_json::Value as Json;

use super::super::keywords::{KEYWORDS, constrains};
use super::held::{MEMBERS, any_of, leave_out, lengths, omit_unheld};
use super::parameters::ToolSchema;
use super::{Writer, is_never, is_required, or_empty, quoted, unwritable};
use crate::error::{Error, Result};
use crate::text::{Dialect, is_bare, options, resolved};

/// The quote of texts in objects with bare keys.
const WIDE_QUOTE: &str = "<|\"|>";

/// A Python string; next, a number.
const PYTHON_TEXT: &str = r#"/'([^'\\\n]|\\.)*'|"([^"\\\n]|\\.)*"/"#;
const NUMBER: &str = r"/-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][-+]?[0-9]{1,3})?/";

impl Writer<'_> {
    /// Returns an object in a form other than JSON.
    pub(super) fn members(
        &mut self,
        schema: &Json,
        dialect: Dialect,
        place: &str,
        tool: &ToolSchema,
        depth: usize,
    ) -> Result<String> {
        let ((open, close), (equals, comma)) = match dialect {
            Dialect::Python => (("(", ")"), ("=", ", ")),
            Dialect::Repr => (("{", "}"), (": ", ", ")),
            _ => (("{", "}"), (":", ",")),
        };
        // The members from the current one on: `rest` if no member precedes, `more` if one does.
        let (mut rest, mut more) = (String::new(), String::new());
        for (key, value) in schema["properties"].as_object().into_iter().flatten().rev() {
            let is_written = match dialect {
                Dialect::Repr => key.chars().all(|c| !c.is_control() && c != '\'' && c != '\\'),
                _ => !key.is_empty() && key.chars().all(is_bare),
            };
            let properties = format!("{place}/properties");
            if !is_written {
                tool.effort.borrow_mut().omit(&properties, key, &unwritable(key))?;
                continue;
            }
            if is_never(value) && !is_required(schema, key) {
                continue;
            }
            let value = self.dialect_value(value, dialect, &format!("{properties}/{key}"), tool, depth + 1)?;
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

    /// Returns a value in a form other than JSON.
    pub(super) fn dialect_value(
        &mut self,
        schema: &Json,
        dialect: Dialect,
        place: &str,
        tool: &ToolSchema,
        depth: usize,
    ) -> Result<String> {
        self.check_size(depth)?;
        let written = any_of(tool, place, options(&resolved(schema, &tool.parameters)), |schema| {
            self.dialect_option(schema, dialect, place, tool, depth)
        });
        match written {
            Err(Error::Unsupported(why)) => {
                leave_out(tool, place, why)?;
                Ok(self.any_value(dialect)?.value)
            }
            written => written,
        }
    }

    fn dialect_option(
        &mut self,
        schema: &Json,
        dialect: Dialect,
        place: &str,
        tool: &ToolSchema,
        depth: usize,
    ) -> Result<String> {
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
            let texts = texts.ok_or_else(|| {
                Error::unsupported("the form of this model's calls cannot hold \"enum\" of lists or objects")
            })?;
            let texts: Result<Vec<String>> = texts.iter().map(|text| self.tag(text, "")).collect();
            return Ok(format!("({})", texts?.join(" | ")));
        }
        Ok(match (schema["type"].as_str(), dialect) {
            (Some("string"), Dialect::Bare) => {
                let (least, most) = lengths(schema, place, tool)?;
                format!("{} {}", self.tag(WIDE_QUOTE, "")?, self.text_until(WIDE_QUOTE, least, &most)?)
            }
            (Some("string"), _) => {
                let text = match lengths(schema, place, tool)? {
                    (0, most) if most.is_empty() => PYTHON_TEXT.to_owned(),
                    (least, most) => counted_text(least, &most),
                };
                self.rule(&text)
            }
            // JSON writes numbers in the same way.
            (Some("integer" | "number"), _) if has_bounds(schema) => self.json(schema.clone(), place, tool)?,
            (Some("integer"), _) => self.rule("/-?(0|[1-9][0-9]{0,17})/"),
            (Some("number"), _) => self.rule(NUMBER),
            (Some("boolean"), _) if is_python => "(\"True\" | \"False\")".to_owned(),
            (Some("boolean"), _) => "(\"true\" | \"false\")".to_owned(),
            (Some("null"), _) => quoted(if is_python { "None" } else { "null" }),
            (Some("array"), _) if schema["items"].is_object() => {
                omit_unheld(schema, "array", &["items"], place, tool)?;
                let inner = if is_python { Dialect::Repr } else { dialect };
                let item = self.dialect_value(&schema["items"], inner, &format!("{place}/items"), tool, depth + 1)?;
                let item = self.rule(&item);
                format!("\"[\" ({item} (/, ?/ {item})*)? \"]\"")
            }
            (Some("object"), Dialect::Bare | Dialect::Repr) if schema["properties"].is_object() => {
                omit_unheld(schema, "object", &MEMBERS, place, tool)?;
                let members = self.members(schema, dialect, place, tool, depth + 1)?;
                self.rule(&members)
            }
            (Some("array"), _) if says_only_type(schema) => self.any_value(dialect)?.list,
            (Some("object"), Dialect::Bare | Dialect::Repr) if says_only_type(schema) => {
                self.any_value(dialect)?.object
            }
            (Some("object"), Dialect::Python) => self.json(schema.clone(), place, tool)?,
            (other, _) => {
                return Err(Error::unsupported(format!(
                    "the form of this model's calls cannot hold a schema of type {}",
                    other.unwrap_or("any")
                )));
            }
        })
    }

    /// Returns the rules of values of any kind.
    fn any_value(&mut self, dialect: Dialect) -> Result<AnyValue> {
        let value = format!("r{}", self.rules);
        self.rules += 1;
        let (text, constants, key) = match dialect {
            Dialect::Bare => {
                let text = format!("{} {}", self.tag(WIDE_QUOTE, "")?, self.until(WIDE_QUOTE)?);
                let key = self.rule(r"/[\p{L}\p{N}_.$\-]+/");
                (self.rule(&text), r#""true" | "false" | "null""#, key)
            }
            Dialect::Json | Dialect::Python | Dialect::Repr => {
                let text = self.rule(PYTHON_TEXT);
                (text.clone(), r#""True" | "False" | "None""#, text)
            }
        };
        let number = self.rule(NUMBER);
        let list = self.rule(&format!("\"[\" ({value} (/, ?/ {value})*)? \"]\""));
        let object = self.rule(&format!("\"{{\" ({key} /: ?/ {value} (/, ?/ {key} /: ?/ {value})*)? \"}}\""));
        let _ = writeln!(self.lark, "{value}: {text} | {number} | {constants} | {list} | {object}");
        Ok(AnyValue { value, list, object })
    }
}

/// Returns a Python string with a bounded length, with escapes of one character.
fn counted_text(least: u64, most: &str) -> String {
    let text = |quote: char| format!(r"{quote}([^{quote}\\\n]|\\[abfnrtv0\\'\x22]){{{least},{most}}}{quote}");
    format!("/{}|{}/", text('\''), text('"'))
}

/// True for a schema that constrains numbers beyond their type.
fn has_bounds(schema: &Json) -> bool {
    schema.as_object().into_iter().flatten().any(|(name, _)| constrains(name, "number"))
}

/// Names of the rules of any value, any list and any object.
struct AnyValue {
    value: String,
    list: String,
    object: String,
}

/// True for a schema that constrains only the type of its values.
fn says_only_type(schema: &Json) -> bool {
    let members = schema.as_object();
    members.is_some_and(|members| members.keys().all(|name| name == "type" || !KEYWORDS.contains(&&name[..])))
}
