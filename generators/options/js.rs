//! Writes the options for JavaScript: names and TypeScript types.

use super::{Group, Kind, camel, choice_groups, literal, wrapped};

/// Returns the name of a choice; filters have the names of their options.
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
