//! A tool with the part of its schema that a grammar enforces.

use std::cell::RefCell;

use serde_json::Value as Json;

use super::super::effort::{Effort, Steps};
use super::super::schema::{self, Looseness};
use crate::error::{Error, Result};
use crate::text::Tool;

/// Maximum depth of objects and lists in arguments that are not JSON.
pub const MAX_DEPTH: usize = 16;

/// Maximum bytes of a tool's argument schema, with descriptions.
const MAX_PARAMETERS: usize = 4 << 20;

/// A tool, the enforced form of its schema, and the omitted keywords.
pub struct ToolSchema {
    pub name: String,
    pub parameters: Json,
    pub effort: RefCell<Effort>,
    /// Bytes of the schema's shared definitions.
    pub shared: usize,
}

impl ToolSchema {
    /// Creates a tool with a part of its schema; `effort` collects its omitted keywords. `steps`: the steps of the
    /// whole grammar.
    pub fn new(tool: &Tool, looseness: Looseness, steps: &Steps) -> Result<ToolSchema> {
        let effort = Effort::new(!tool.is_strict).with(steps.next());
        let mut parameters = looseness.of(tool.parameters.clone());
        let bytes = schema::length(&parameters);
        if bytes > MAX_PARAMETERS {
            return Err(Error::TooComplex(format!(
                "the schema has {bytes} bytes; it must have at most {MAX_PARAMETERS}"
            )));
        }
        schema::share_targets(&mut parameters, true, &effort)?;
        let shared = ["$defs", "definitions"].into_iter().filter_map(|name| parameters.get(name));
        let shared = shared.map(schema::length).sum();
        Ok(ToolSchema { name: tool.name.clone(), parameters, effort: RefCell::new(effort), shared })
    }
}
