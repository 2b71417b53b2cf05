//! Writes what makes values of JavaScript out of what calls wrote.

use super::{ABSENT, BOOLS, SETS, SPLIT, found, group_of, name_of, wrap};
use crate::header::Value;

/// The expression of a value that a call wrote.
pub fn result(owner: &str, value: &Value, from: &str) -> String {
    let name = value.name.as_str();
    if let Some(begin) = found(&SETS, owner, name) {
        return format!("names_value(env, {begin}NAMES, {from})");
    }
    if let Some(begin) = group_of(owner, name) {
        return format!("string_value(env, choice_name({begin}NAMES, (uint32_t){from}), NAPI_AUTO_LENGTH)");
    }
    match (value.base.as_str(), &value.length) {
        _ if BOOLS.contains(&name) => format!("bool_value(env, {from})"),
        ("char", Some(_)) => format!("string_value(env, {from}, NAPI_AUTO_LENGTH)"),
        (_, Some(_)) => format!("bytes_value(env, {from}, sizeof {from})"),
        _ => format!("number_value(env, {from})"),
    }
}

/// The function that makes an object of a struct.
pub fn object(structure: &str, fields: &[Value]) -> String {
    let mut text = format!("\nstatic napi_value value_{structure}(napi_env env, const void *at) {{\n");
    text += &format!("    const {structure} *from = at;\n    napi_value object = object_value(env);\n");
    let is_told = |field: &&Value| field.name != "struct_size" && !field.name.starts_with("reserved");
    for field in fields.iter().filter(is_told) {
        let from = format!("from->{}", field.name);
        let set = |name: &str, value: String| format!("set_member(env, object, \"{name}\", {value});");
        if let Some(bits) = found(&SPLIT, structure, &field.name) {
            for (name, bit) in bits {
                text += &wrap(&set(name, format!("bool_value(env, {from} & {bit})")), "    ");
            }
            continue;
        }
        let absent = found(&ABSENT, structure, &field.name);
        let condition = absent.map_or(String::new(), |none| format!("if ({from} != {none}) "));
        let value = result(structure, field, &from);
        text += &wrap(&(condition + &set(&name_of(structure, &field.name), value)), "    ");
    }
    text + "    return object;\n}\n"
}
