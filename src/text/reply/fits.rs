//! Compares arguments with a tool's schema by the common keywords: types, members, items and enumerations. Other
//! keywords are ignored.

use serde_json::Value as Json;

/// Maximum number of visited schemas, and maximum depth.
const MAX_SCHEMAS: usize = 1000;
const MAX_DEPTH: usize = 128;

/// True for a value that a schema allows; false beyond the limits. `root`: the schema that references refer to.
pub fn fits(value: &Json, schema: &Json, root: &Json) -> bool {
    fits_within(value, schema, root, MAX_DEPTH, &mut { MAX_SCHEMAS })
}

fn fits_within(value: &Json, schema: &Json, root: &Json, depth: usize, left: &mut usize) -> bool {
    if *left == 0 || depth == 0 || *schema == false {
        return false;
    }
    *left -= 1;
    let depth = depth - 1;
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    let has_type = match &schema["type"] {
        Json::String(name) => is(name),
        Json::Array(names) => names.iter().filter_map(Json::as_str).any(is),
        _ => true,
    };
    let is_listed = schema["enum"].as_array().is_none_or(|list| list.contains(value))
        && schema.get("const").is_none_or(|only| only == value);
    let target = schema["$ref"].as_str().and_then(|target| root.pointer(target.strip_prefix('#')?));
    let parts = schema["allOf"].as_array();
    if !has_type
        || !is_listed
        || !target
            .into_iter()
            .chain(parts.into_iter().flatten())
            .all(|part| fits_within(value, part, root, depth, left))
    {
        return false;
    }
    let has_option = ["anyOf", "oneOf"].iter().all(|name| match schema[name].as_array() {
        Some(list) => list.iter().any(|option| fits_within(value, option, root, depth, left)),
        None => true,
    });
    let members = value.as_object().is_none_or(|members| {
        let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        required.all(|name| members.contains_key(name))
            && members.iter().all(|(name, member)| match schema["properties"].get(name) {
                Some(of) => fits_within(member, of, root, depth, left),
                None => schema["additionalProperties"] != false,
            })
    });
    let items = match (value.as_array(), schema.get("items")) {
        (Some(items), Some(of)) => items.iter().all(|item| fits_within(item, of, root, depth, left)),
        _ => true,
    };
    has_option && members && items
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_fit_or_not() {
        let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false,
            "$defs": {"n": {"type": "integer"}},
            "properties": {"a": {"type": ["string", "null"]}, "n": {"$ref": "#/$defs/n"}, "e": {"enum": ["x", 2]},
                "l": {"type": "array", "items": {"anyOf": [{"type": "boolean"}, {"const": "z"}]}}}});
        for (value, want) in [
            (json!({"a": "b"}), true),
            (json!({"a": null, "n": 2.0, "e": 2, "l": [true, "z"]}), true),
            (json!({"n": 1}), false),
            (json!({"a": 1}), false),
            (json!({"a": "b", "n": 1.5}), false),
            (json!({"a": "b", "e": "y"}), false),
            (json!({"a": "b", "l": ["y"]}), false),
            (json!({"a": "b", "other": 1}), false),
            (json!([]), false),
        ] {
            assert_eq!(fits(&value, &schema, &schema), want, "{value}");
        }
        let options: Vec<Json> = (0..9).map(|_| json!({"$ref": "#"})).collect();
        let many = json!({"anyOf": options});
        assert!(!fits(&json!(1), &many, &many));
        let endless = json!({"$ref": "#/properties/a", "properties": {"a": {"$ref": "#"}}});
        assert!(!fits(&json!({"a": {"a": {}}}), &endless, &endless));
        let tree = json!({"allOf": [{"type": "object"}, {"required": ["a"]}], "properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
        for (value, want) in
            [(json!({"a": {"a": null}}), true), (json!({"a": {"a": 1}}), false), (json!({"a": {}}), false)]
        {
            assert_eq!(fits(&value, &tree, &tree), want, "{value}");
        }
    }
}
