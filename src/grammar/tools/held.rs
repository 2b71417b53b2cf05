//! The part of a schema that non-JSON call arguments enforce. The rest is omitted and reported by name.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};

use super::super::formats::{self, Format};
use super::super::keywords::{constrains, is_true};
use super::parameters::{MAX_DEPTH, ToolSchema};
use crate::error::{Error, Result};

/// Prefix of schema errors that name their place.
const NAMED: &str = "the grammar, ";

/// Maximum enforced length of a text between tags.
const MAX_LENGTH: u64 = 2000;

/// Alternatives for the options of the schema at a place. Options that cannot be written are omitted if others remain.
pub(super) fn any_of(
    tool: &ToolSchema,
    place: &str,
    schemas: Vec<Json>,
    mut write: impl FnMut(&Json) -> Result<String>,
) -> Result<String> {
    let (mut out, mut refused) = (Vec::new(), None);
    for schema in &schemas {
        match write(schema) {
            Ok(value) => out.push(value),
            Err(Error::Unsupported(why)) => refused = Some(why),
            Err(e) => return Err(e),
        }
    }
    match refused {
        Some(why) if out.is_empty() => return Err(Error::Unsupported(why)),
        Some(why) => leave_out(tool, place, why)?,
        None => {}
    }
    Ok(out.join(" | "))
}

/// Omits the schema at a place, which cannot be written.
///
/// # Errors
/// `Unsupported`, with the reason `why`, if the tool is strict.
pub(super) fn leave_out(tool: &ToolSchema, place: &str, why: String) -> Result<()> {
    let mut effort = tool.effort.borrow_mut();
    if !effort.is_best() && why.starts_with(NAMED) {
        return Err(Error::Unsupported(why));
    }
    let (folder, name) = place.rsplit_once('/').unwrap_or(("", place));
    effort.omit(folder, name, &why)
}

/// The keywords enforced for objects whose members are written one by one, without other members.
pub(super) const MEMBERS: [&str; 4] = ["properties", "required", "additionalProperties", "unevaluatedProperties"];

/// Omits the keywords of a schema of one type that the form of arguments does not enforce.
pub(super) fn omit_unheld(schema: &Json, kind: &str, held: &[&str], place: &str, tool: &ToolSchema) -> Result<()> {
    for (name, value) in schema.as_object().into_iter().flatten() {
        let is_note = name == "format"
            && value.as_str().is_none_or(|name| matches!(formats::find(name), Format::Annotation))
            || (name == "not" || name.ends_with("Of")) && value.as_array().is_some_and(Vec::is_empty);
        if constrains(name, kind) && !held.contains(&&name[..]) && !is_note {
            let why = "arguments in the form of this model's calls are not held to it";
            tool.effort.borrow_mut().omit(place, name, why)?;
        }
    }
    Ok(())
}

/// Returns the minimum and maximum length of a text; no maximum: "". Omits other keywords of texts.
pub(super) fn lengths(schema: &Json, place: &str, tool: &ToolSchema) -> Result<(u64, String)> {
    let length = |name: &str| schema[name].as_u64().filter(|&n| n <= MAX_LENGTH);
    let (least, most) = (length("minLength"), length("maxLength"));
    let held: Vec<&str> =
        [("minLength", least), ("maxLength", most)].into_iter().filter_map(|(name, n)| n.map(|_| name)).collect();
    omit_unheld(schema, "string", &held, place, tool)?;
    let least = least.unwrap_or(0);
    Ok((least, most.map_or(String::new(), |n| n.max(least).to_string())))
}

/// Returns all members of an object that a schema and its subschemas name, for forms that write each member separately.
/// Members of only some options of the schema are optional.
pub(super) fn flattened(tool: &ToolSchema) -> Result<Json> {
    let mut flat =
        Flat { tool, properties: Map::new(), certain: HashSet::new(), required: Vec::new(), seen: HashSet::new() };
    flat.add(&tool.parameters, "", true, MAX_DEPTH)?;
    Ok(json!({"properties": flat.properties, "required": flat.required}))
}

struct Flat<'t> {
    tool: &'t ToolSchema,
    properties: Map<String, Json>,
    /// Members whose schemas apply whatever options are chosen.
    certain: HashSet<String>,
    required: Vec<Json>,
    /// The added schemas, and whether they were certain.
    seen: HashSet<(*const Json, bool)>,
}

impl Flat<'_> {
    /// `is_certain`: the schema is not an option of another one. `left`: levels of references and options.
    fn add(&mut self, schema: &Json, place: &str, is_certain: bool, left: usize) -> Result<()> {
        if !self.seen.insert((std::ptr::from_ref(schema), is_certain)) {
            return Ok(());
        }
        let tool = self.tool;
        let omit = |name: &str, why: &str| tool.effort.borrow_mut().omit(place, name, why);
        let properties = schema["properties"].as_object();
        tool.effort.borrow().step(1 + properties.map_or(0, Map::len), place)?;
        let Some(left) = left.checked_sub(1) else { return omit("$ref", "its references are nested too deep") };
        let parts = ["$ref", "allOf", "anyOf", "oneOf"];
        let held: Vec<&str> = MEMBERS.into_iter().chain(parts).collect();
        omit_unheld(schema, "object", &held, place, tool)?;
        for (name, member) in properties.into_iter().flatten() {
            self.member(name, member, place, is_certain)?;
        }
        if is_certain {
            let names = schema["required"].as_array().into_iter().flatten();
            names.for_each(|name| self.required.push(name.clone()));
        }
        let target = schema["$ref"].as_str().and_then(|target| tool.parameters.pointer(target.strip_prefix('#')?));
        for part in target.into_iter().chain(schema["allOf"].as_array().into_iter().flatten()) {
            self.add(part, place, is_certain, left)?;
        }
        for name in ["anyOf", "oneOf"] {
            let options = schema[name].as_array().map_or(&[][..], Vec::as_slice);
            if options.len() > 1 {
                omit(name, "arguments in the form of this model's calls may be of several of its options")?;
            }
            for part in options {
                self.add(part, place, is_certain && options.len() == 1, left)?;
            }
        }
        Ok(())
    }

    fn member(&mut self, name: &str, schema: &Json, place: &str, is_certain: bool) -> Result<()> {
        let known = match self.properties.get_mut(name) {
            Some(known) if *known != *schema && !is_true(schema) => known,
            Some(_) => return Ok(()),
            None => {
                self.properties.insert(name.to_owned(), schema.clone());
                if is_certain {
                    self.certain.insert(name.to_owned());
                }
                return Ok(());
            }
        };
        match (is_certain, self.certain.contains(name)) {
            (true, true) => {
                let why = "arguments in the form of this model's calls follow one schema each";
                self.tool.effort.borrow_mut().omit(&format!("{place}/properties"), name, why)?;
            }
            // The options are omitted already.
            (false, true) => {}
            (true, false) => {
                *known = schema.clone();
                self.certain.insert(name.to_owned());
            }
            (false, false) => {
                let is_union = known.as_object().is_some_and(|members| members.len() == 1);
                let mut options = match known.get_mut("anyOf").filter(|_| is_union) {
                    Some(Json::Array(options)) => std::mem::take(options),
                    _ => vec![known.clone()],
                };
                if !options.contains(schema) {
                    options.push(schema.clone());
                }
                *known = json!({"anyOf": options});
            }
        }
        Ok(())
    }
}
