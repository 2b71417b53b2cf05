//! The options in C#.

use super::{Group, Kind, REFERENCES, Reference, SIGNED, Setting, camel, literal, longer, wrapped};

const CSHARP_HEAD: &str = "\
// The options of calls. The build writes this file: make header.
using System;
using System.Collections.Generic;

namespace Realizar
{
";

/// The groups, the classes that have their options, the classes that write them to their structs, and comments of
/// classes that have no comment elsewhere.
const CLASSES: [(&str, &str, &str, &str); 7] = [
    (
        "Sampling",
        "Sampling",
        "Sampling",
        "Sampling parameters. Zero switches a parameter off; all zeros choose the most likely token.",
    ),
    ("Load", "LoadOptions", "LoadOptions", ""),
    ("Encoder", "EncoderOptions", "EncoderOptions", ""),
    ("Media", "MediaOptions", "MediaOptions", ""),
    ("Store", "StoreOptions", "StoreOptions", "Limits of a store. Zero stands for the default."),
    ("Job", "TextOptions", "JobOptions", ""),
    ("Reply", "ReplyOptions", "ReplyOptions", ""),
];

pub fn csharp(groups: &[Group]) -> String {
    let of = |name: &str| groups.iter().find(|group| group.name == name).expect("a group");
    let mut text = CSHARP_HEAD.to_owned();
    for (name, options, writes, doc) in CLASSES {
        let inherited = if name == "Reply" { &of("Job").settings[..] } else { &[] };
        let (members, numbers) = csharp_members(of(name), inherited);
        let kind = if options == writes { "sealed" } else { "abstract" };
        let second = match options == writes {
            true => "\n".to_owned(),
            false => format!("    }}\n\n    public sealed partial class {writes}\n    {{\n"),
        };
        let doc = if doc.is_empty() { String::new() } else { format!("    /// <summary>{doc}</summary>\n") };
        text +=
            &format!("\n{doc}    public {kind} partial class {options}\n    {{\n{members}{second}{numbers}    }}\n");
    }
    text.replacen("{\n\n", "{\n", 1) + "}\n"
}

/// Returns the members that are not inherited, and the method that writes all members.
fn csharp_members(group: &Group, inherited: &[Setting]) -> (String, String) {
    let pascal: fn(&str) -> String = |name| {
        let name = longer(&camel(name));
        name[..1].to_uppercase() + &name[1..]
    };
    let (mut text, mut sets, mut flags) = (String::new(), String::new(), Vec::new());
    for setting in &group.settings {
        let (field, name) = (&setting.name, pascal(&setting.name));
        let doc = group.doc(setting, pascal).replace('&', "&amp;").replace('<', "&lt;");
        let doc = doc.replace("absent:", "null:").replace("\"model\"", "Model");
        let is_own = inherited.iter().all(|other| other.name != *field);
        if is_own && !doc.is_empty() {
            text += &wrapped(&format!("<summary>{doc}</summary>"), "        /// ").join("\n");
            text += "\n";
        }
        let is_long = setting.value.base == "uint64_t";
        let number = |kind: &str, value: String| (kind.to_owned(), "", value);
        let (kind, default, value) = match setting.kind {
            Kind::Whole if setting.value.base == "int32_t" => number("int", name.clone()),
            Kind::Whole if field == "background" => number("uint", name.clone()),
            Kind::Whole if setting.value.base == "size_t" => {
                number("int", format!("(UIntPtr)Native.Whole({name}, nameof({name}))"))
            }
            Kind::Whole if is_long => number("ulong", name.clone()),
            Kind::Whole => number("int", format!("Native.Whole({name}, nameof({name}))")),
            Kind::OrNone => number("int?", format!("Native.OrNone({name}, nameof({name}))")),
            Kind::Real => {
                let check = if SIGNED.contains(&field.as_str()) { "Real" } else { "NotNegative" };
                number("float", format!("Native.{check}({name}, nameof({name}))"))
            }
            Kind::Choice(begin) => number(&literal(begin), format!("Native.Choice({name}, nameof({name}))")),
            Kind::Flag(constant) => {
                flags.push(format!("({name} ? Native.{constant} : 0u)"));
                text += &format!("        public bool {name};\n");
                continue;
            }
            Kind::Sequences => ("IReadOnlyList<uint[]>".to_owned(), " = new uint[0][]", String::new()),
            Kind::Biases => {
                ("IReadOnlyDictionary<uint, float>".to_owned(), " = new Dictionary<uint, float>()", String::new())
            }
            Kind::Choices(_) => ("IReadOnlyList<Filter>".to_owned(), " = new Filter[0]", String::new()),
        };
        if is_own {
            text += &format!("        public {kind} {name}{default};\n");
        }
        if !value.is_empty() {
            sets += &format!("            {field} = {value},\n");
        }
    }
    for (_, field, reference, doc) in REFERENCES.iter().filter(|(of, ..)| *of == group.name) {
        let kind = match reference {
            Reference::Runtime => "Runtime",
            Reference::Path | Reference::Text => "string",
            Reference::Progress => "Action<ulong, ulong>",
            // The C functions take tokens.
            Reference::Cancel => continue,
        };
        text += &wrapped(&format!("<summary>{doc} May be null.</summary>"), "        /// ").join("\n");
        text += &format!("\n        public {kind}? {};\n", pascal(field));
    }
    if !flags.is_empty() {
        sets += &format!("            flags = {},\n", flags.join(" | "));
    }
    let structure = group.structure;
    let numbers = format!(
        "        internal unsafe {structure} Numbers() => new {structure} {{\n            struct_size = \
        (uint)sizeof({structure}),\n{sets}        }};\n"
    );
    (text, numbers)
}
