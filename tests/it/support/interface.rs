//! The declarations of the header as data, from this build's build script.

use std::collections::BTreeSet;

use serde_json::Value as Json;

pub const GENERATED: &str = include_str!(concat!(env!("OUT_DIR"), "/header.json"));

/// Returns all declarations of a kind: "constant", "handle", "struct", "alias", "callback", "function".
pub fn items(kind: &str) -> Vec<Json> {
    let header: Json = serde_json::from_str(GENERATED).expect("JSON");
    let groups = header["groups"].as_array().expect("groups");
    let items = groups.iter().flat_map(|group| group["items"].as_array().expect("items"));
    items.filter(|item| item["kind"] == kind).cloned().collect()
}

/// Returns the names of all declarations of a kind.
pub fn names(kind: &str) -> BTreeSet<String> {
    items(kind).iter().map(|item| text(item, "name").to_owned()).collect()
}

/// Returns a text member of an item.
pub fn text<'a>(item: &'a Json, member: &str) -> &'a str {
    item[member].as_str().expect(member)
}
