//! Writes the names of numbers, and the code that converts objects to parameter structs.

use super::{BESIDE, BITS, Bits, CHECKS, FIXED, HEAD, found, group_of, groups, kind_of, name_of, names, wrap};
use crate::bindings::Header;
use crate::header::Value;
use crate::options::{FLAGS, NOT_IN_JS, camel};

pub fn declarations(header: &Header) -> String {
    let mut text = format!("/* Names of numbers, and structs out of objects. {HEAD}\n");
    groups().iter().for_each(|begin| text += &format!("extern const choice {begin}NAMES[];\n"));
    for (structure, _) in read_structs(header) {
        text += &format!("void set_{structure}(task *t, napi_value options, void *at);\n");
    }
    text
}

/// Structs to which arguments are converted.
fn read_structs<'a>(header: &'a Header<'a>) -> impl Iterator<Item = (&'a str, &'a [Value])> {
    let unused = ["rz_adapter_params"];
    let others = ["rz_placement", "rz_pixels", "rz_part"];
    header
        .structs
        .iter()
        .copied()
        .filter(move |(name, _)| name.ends_with("_params") && !unused.contains(name) || others.contains(name))
}

pub fn definitions(header: &Header) -> String {
    let mut text = format!("/* Names of numbers, and structs out of objects. {HEAD}\n#include \"internal.h\"\n");
    for begin in groups() {
        text += &format!("\nconst choice {begin}NAMES[] = {{\n");
        for (name, constant) in names(header, begin) {
            text += &format!("    {{\"{name}\", {constant}}},\n");
        }
        text += "    {NULL, 0},\n};\n";
    }
    for (structure, fields) in read_structs(header) {
        text += &format!(
            "\nvoid set_{structure}(task *t, napi_value options, void *at) {{\n    {structure} *params = at;\n"
        );
        for field in fields {
            setting(header, structure, fields, field).iter().for_each(|line| text += &wrap(line, "    "));
        }
        if let Some(check) = found(&CHECKS, "", structure) {
            text += &format!("    {check}\n");
        }
        text += "}\n";
    }
    text
}

/// Returns the statements that set a field from the members of an object.
fn setting(header: &Header, structure: &str, fields: &[Value], field: &Value) -> Vec<String> {
    let name = field.name.as_str();
    let fixed = found(&FIXED, structure, name);
    let counts = |array: &Value| {
        array.pointers > 0 && [format!("n_{}", array.name), format!("{}_len", array.name)].contains(&field.name)
    };
    // The progress callback is set together with the cancel.
    if fixed.is_some_and(str::is_empty)
        || field.is_callback()
        || name.starts_with("reserved")
        || field.is_user()
        || fields.iter().any(counts)
        || NOT_IN_JS.contains(&(structure, name))
    {
        return Vec::new();
    }
    let of_bits = bits(header, structure, name, "options").map(|bits| {
        let line = |(condition, bit): (String, String)| format!("if ({condition}) params->{name} |= {bit};");
        bits.into_iter().map(line).collect()
    });
    if let Some(lines) = of_bits {
        return lines;
    }
    let member = name_of(structure, name);
    let value = format!("member_of(t, options, \"{member}\")");
    let counted = |number: &str| fields.iter().any(|field| field.name == number);
    let count = format!("n_{name}");
    let group = group_of(structure, name);
    let set = match (field.base.as_str(), field.pointers) {
        _ if name == "struct_size" => "sizeof *params".to_owned(),
        _ if fixed.is_some() => fixed.unwrap_or_default().to_owned(),
        ("uint32_t", 0) if group.is_some() => {
            format!("choice_member(t, options, \"{member}\", {}NAMES)", group.unwrap_or_default())
        }
        ("uint32_t", 0) if field.doc.contains("RZ_NONE") => format!("or_none_member(t, options, \"{member}\")"),
        ("uint32_t", 0) => format!("(uint32_t)uint_member(t, options, \"{member}\", UINT32_MAX)"),
        ("int32_t", 0) => format!("int_member(t, options, \"{member}\")"),
        ("float", 0) => format!("float_member(t, options, \"{member}\")"),
        (_, 0) => format!("uint_member(t, options, \"{member}\", MOST)"),
        ("rz_cancel", 1) => {
            let mut lines = vec![format!("params->cancel = task_use_optional(t, {value}, CANCEL);")];
            if counted("progress") {
                lines.push("params->progress_user = params->cancel ? t->uses[t->n_uses - 1].handle : NULL;".to_owned());
                lines.push("params->progress = params->cancel ? on_progress : NULL;".to_owned());
            }
            return lines;
        }
        ("char", 1) if counted(&format!("{name}_len")) => {
            format!("string_member(t, options, \"{member}\", &params->{name}_len)")
        }
        ("char", 1) => format!("terminated_member(t, options, \"{member}\")"),
        ("void", 1) => {
            let read = format!("bytes_of(t, {value}, \"{member}\", &n_{name});");
            return vec![format!("size_t n_{name} = 0;"), format!("params->{name} = {read}")];
        }
        (base, pointers) => {
            let list = list(header, base, pointers, &value, &member, group);
            match (list, found(&BESIDE, structure, name)) {
                (Some(list), Some(of)) => {
                    let display = camel(of);
                    return vec![
                        format!("size_t n_{name} = 0;"),
                        format!("params->{name} = {}", list.replace("COUNT", &format!("n_{name}")) + ";"),
                        format!(
                            "check_count(t, params->{name}, \"{member}\", n_{name}, params->n_{of}, \"{display}\");"
                        ),
                    ];
                }
                (Some(list), None) if counted(&count) => list.replace("COUNT", &format!("params->{count}")),
                _ if header.is_handle(field) => format!("task_use_optional(t, {value}, {})", kind_of(base)),
                _ => format!("struct_of(t, {value}, sizeof({base}), set_{base})"),
            }
        }
    };
    vec![format!("params->{name} = {set};")]
}

/// Returns the expression that reads a list and stores its length in COUNT.
pub fn list(
    header: &Header,
    base: &str,
    pointers: usize,
    value: &str,
    name: &str,
    group: Option<&str>,
) -> Option<String> {
    let is_handle = header.handles.contains(base);
    Some(match (base, pointers) {
        ("uint32_t", 1) if group.is_some() => {
            format!("choices_of(t, {value}, \"{name}\", {}NAMES, &COUNT)", group.unwrap_or_default())
        }
        ("uint32_t", 1) => format!("tokens_of(t, {value}, \"{name}\", &COUNT)"),
        ("float", 1) => format!("floats_of(t, {value}, \"{name}\", &COUNT)"),
        ("double", 1) => format!("doubles_of(t, {value}, \"{name}\", &COUNT)"),
        ("char", 2) => format!("texts_of(t, {value}, \"{name}\", &COUNT)"),
        _ if is_handle && pointers == 2 => format!("handles_of(t, {value}, \"{name}\", {}, &COUNT)", kind_of(base)),
        _ if !is_handle && pointers == 1 && base.starts_with("rz_") => {
            format!("structs_of(t, {value}, \"{name}\", sizeof({base}), set_{base}, &COUNT)")
        }
        _ => return None,
    })
}

/// Returns the conditions and bits of a number that consists of switches.
pub fn bits(header: &Header, owner: &str, name: &str, from: &str) -> Option<Vec<(String, String)>> {
    if let Some(bits) = found(&BITS, owner, name) {
        let of = |bit: &Bits| match bit {
            Bits::Switch(member, constant) => (format!("bool_member(t, {from}, \"{member}\")"), (*constant).to_owned()),
            Bits::Choice(member, begin) => (
                format!("member_of(t, {from}, \"{member}\")"),
                format!("choice_member(t, {from}, \"{member}\", {begin}NAMES)"),
            ),
        };
        return Some(bits.iter().map(of).collect());
    }
    let (_, begin) = FLAGS.iter().find(|(structure, _)| *structure == owner && name == "flags")?;
    let flags = header
        .constants
        .iter()
        .filter_map(|constant| Some((constant.name.strip_prefix(begin)?.to_lowercase(), constant.name)));
    let flags = flags.filter(|(flag, _)| !NOT_IN_JS.contains(&(owner, flag)));
    Some(
        flags
            .map(|(flag, constant)| (format!("bool_member(t, {from}, \"{}\")", camel(&flag)), constant.to_owned()))
            .collect(),
    )
}
