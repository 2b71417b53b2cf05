//! Arguments whose objects and lists have tagged members, `<name>value</name>`, each tag after a marker that no value
//! contains; list items are named `item`. Uses `replies` for untagged values.

use serde_json::Value as Json;

use crate::text::reply::replies::{resolved, value};

/// Maximum depth of members.
const MAX_DEPTH: usize = 32;

/// Returns the number of opening member tags in a text, minus closing ones.
pub fn balance(text: &str, mark: &str) -> isize {
    let count = |tag: &str| text.matches(&format!("{mark}{tag}")).count() as isize;
    count("<") - 2 * count("</")
}

/// Converts a value to JSON by its schema. What is not understood is text. `root`: the schema that references refer to.
pub fn json(text: &str, mark: &str, schema: &Json, root: &Json) -> String {
    nested(text, mark, schema, root, 0).unwrap_or_else(|| Json::from(text)).to_string()
}

fn nested(text: &str, mark: &str, schema: &Json, root: &Json, depth: usize) -> Option<Json> {
    let schema = resolved(schema, root);
    if depth > MAX_DEPTH {
        return None;
    }
    let kind = |name: &str| {
        let is_so = |schema: &Json| schema["type"] == name;
        is_so(&schema) || ["anyOf", "oneOf"].iter().any(|list| schema[list].as_array().into_iter().flatten().any(is_so))
    };
    let mut rest = text.trim();
    if !rest.starts_with(&format!("{mark}<")) {
        return match (rest.is_empty(), kind("string")) {
            (true, false) if kind("array") => Some(Json::Array(Vec::new())),
            (true, false) if kind("object") => Some(Json::Object(Default::default())),
            _ => serde_json::from_str(&value(text, &schema)).ok(),
        };
    }
    // The schema of a member: from the first option that has one.
    let of = |name: &str| {
        let options = ["anyOf", "oneOf"].into_iter().filter_map(|list| schema[list].as_array()).flatten();
        let of = |schema: &Json| match schema.get("items") {
            Some(items) if name == "item" => Some(items.clone()),
            _ => schema["properties"].get(name).cloned(),
        };
        std::iter::once(&schema).chain(options).find_map(of).unwrap_or_default()
    };
    let (mut members, mut is_list) = (Vec::new(), !kind("object") || kind("array"));
    while !rest.is_empty() {
        let (name, following) = rest.strip_prefix(mark)?.strip_prefix('<')?.split_once('>')?;
        let (inner, following) = split(following, mark)?;
        members.push((name, nested(inner, mark, &of(name), root, depth + 1)?));
        is_list &= name == "item";
        rest = following.strip_prefix(name)?.strip_prefix('>')?.trim_start();
    }
    Some(match is_list {
        true => members.into_iter().map(|(_, value)| value).collect(),
        false => members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Json>(),
    })
}

/// Splits a text at the tag that closes its member; the second part begins with the name in the tag.
fn split<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let mut open = 0;
    for (at, _) in text.match_indices(mark) {
        let tag = &text[at + mark.len()..];
        match tag.strip_prefix("</") {
            Some(name) if open == 0 => return Some((&text[..at], name)),
            Some(_) => open -= 1,
            None => open += usize::from(tag.starts_with('<')),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_become_json() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string"}}, "o": {"$ref": "#"}}});
        let read = |text: &str| json(text, "|", &schema, &schema);
        assert_eq!(read("|<n>7|</n> |<t>7|</t>"), r#"{"n":7,"t":"7"}"#);
        assert_eq!(
            read("|<l>|<item>1|</item>|<item>|</item>|</l>|<o>|<o>|<n>1|</n>|</o>|</o>"),
            r#"{"l":["1",""],"o":{"o":{"n":1}}}"#
        );
        assert_eq!((read(""), read("|<l>|</l>").as_str()), ("{}".to_owned(), r#"{"l":[]}"#));
        for text in ["|<n>7", "|<n>7|</t>", "|<n>7|</n>x", "|<", "|<n>|<t>|</n>|</t>"] {
            assert_eq!(read(text), Json::from(text).to_string());
        }
        let deep = format!("{}{}", "|<o>".repeat(200_000), "|</o>".repeat(200_000));
        assert_eq!(read(&deep), Json::from(&deep[..]).to_string());
    }
}
