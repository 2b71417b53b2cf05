//! The options in JavaScript: tables of the addon and types of TypeScript.

use super::{Group, Kind, camel, choice_groups, literal, wrapped};

pub fn js_c(groups: &[Group]) -> String {
    let mut text = "/* The options of structs of realizar.h. The build writes this file: make header. */\n\n#include \
        \"internal.h\"\n"
        .to_owned();
    for begin in choice_groups() {
        text += &format!("\nconst choice {begin}NAMES[] = {{\n");
        for (name, constant) in groups[0].choices(begin) {
            text += &format!("    {{\"{}\", {constant}}},\n", js_choice(begin, &name));
        }
        text += "    {NULL, 0},\n};\n";
    }
    for group in groups {
        let structure = group.structure;
        text += &format!("\nvoid set_{structure}(task *t, napi_value options, {structure} *params) {{\n");
        text += "    params->struct_size = sizeof *params;\n";
        for setting in group.of_js() {
            let name = &setting.name;
            text += &match setting.kind {
                Kind::Whole if setting.value.base == "int32_t" => {
                    format!("    params->{name} = int_member(t, options, \"{name}\");\n")
                }
                Kind::Whole if setting.value.base == "uint32_t" => format!("    U32(t, options, params, {name});\n"),
                Kind::Whole => format!("    U64(t, options, params, {name});\n"),
                Kind::OrNone => format!("    params->{name} = or_none_member(t, options, \"{name}\");\n"),
                Kind::Real => format!("    F32(t, options, params, {name});\n"),
                Kind::Choice(begin) => {
                    format!("    params->{name} = choice_member(t, options, \"{name}\", {begin}NAMES);\n")
                }
                Kind::Flag(constant) => {
                    format!("    if (bool_member(t, options, \"{name}\")) params->flags |= {constant};\n")
                }
                Kind::Sequences | Kind::Biases | Kind::Choices(_) => continue,
            };
        }
        text += "}\n";
    }
    text
}

pub fn js_h(groups: &[Group]) -> String {
    let mut text = "/* The options of structs of realizar.h. The build writes this file: make header. */\n".to_owned();
    for begin in choice_groups() {
        text += &format!("extern const choice {begin}NAMES[];\n");
    }
    for group in groups {
        let structure = group.structure;
        text += &format!("void set_{structure}(task *t, napi_value options, {structure} *params);\n");
    }
    text
}

/// The names of filters are those of options.
fn js_choice(begin: &str, name: &str) -> String {
    if begin == "RZ_FILTER_" { camel(name) } else { name.to_owned() }
}

pub fn js(groups: &[Group]) -> String {
    let mut text =
        "// The names of options. The build writes this file: make header.\n\"use strict\";\n\nmodule.exports = \
        {\n"
        .to_owned();
    for group in groups {
        let names: Vec<String> = group.of_js().map(|setting| format!("\"{}\"", camel(&setting.name))).collect();
        text += &wrapped(&format!("{}: [{}],", camel(&group.name.to_lowercase()), names.join(", ")), "  ").join("\n");
        text += "\n";
    }
    text + "};\n"
}

pub fn js_types(groups: &[Group]) -> String {
    let mut text = "// The options of calls. The build writes this file: make header.\n".to_owned();
    for begin in choice_groups() {
        let names: Vec<String> =
            groups[0].choices(begin).map(|(name, _)| format!("\"{}\"", js_choice(begin, &name))).collect();
        let begin = literal(begin);
        text +=
            &format!("\nexport type {begin} =\n{};\n", wrapped(&format!("| {}", names.join(" | ")), "  ").join("\n"));
    }
    for group in groups {
        text += &format!("\nexport interface {}Params {{\n", group.name);
        for setting in group.of_js() {
            let doc = group.doc(setting, camel);
            if !doc.is_empty() {
                text += &format!("  /** {} */\n", wrapped(&doc, "   * ").join("\n").trim_start_matches("   * "));
            }
            let kind = match setting.kind {
                Kind::Whole | Kind::OrNone | Kind::Real => "number".to_owned(),
                Kind::Flag(_) => "boolean".to_owned(),
                Kind::Choice(begin) => literal(begin),
                Kind::Choices(begin) => format!("{}[]", literal(begin)),
                Kind::Sequences => "(Uint32Array | number[])[]".to_owned(),
                Kind::Biases => "[token: number, bias: number][]".to_owned(),
            };
            text += &format!("  {}?: {kind};\n", camel(&setting.name));
        }
        text += "}\n";
    }
    text
}
