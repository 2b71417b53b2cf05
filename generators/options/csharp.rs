//! The options in C#.

use super::{Group, Kind, SIGNED, camel, longer, sampling, wrapped};

const CSHARP_HEAD: &str = "\
// The options of calls. The build writes this file: make header.
using System.Collections.Generic;

namespace Realizar
{
    /// <summary>Sampling parameters. Zero switches a parameter off; all zeros choose the most likely token.</summary>
    public sealed partial class Sampling
    {
";

pub fn csharp(groups: &[Group]) -> String {
    let load = groups.iter().find(|group| group.name == "Load").expect("options of a load");
    let second = "\n    public sealed partial class LoadOptions\n    {\n";
    format!("{CSHARP_HEAD}{}{second}{}}}\n", csharp_members(sampling(groups)), csharp_members(load))
}

fn csharp_members(group: &Group) -> String {
    let pascal: fn(&str) -> String = |name| {
        let name = longer(&camel(name));
        name[..1].to_uppercase() + &name[1..]
    };
    let (mut text, mut sets, mut flags) = (String::new(), String::new(), Vec::new());
    for setting in &group.settings {
        let (field, name) = (&setting.name, pascal(&setting.name));
        let doc = group.doc(setting, pascal).replace('&', "&amp;").replace('<', "&lt;");
        let doc = doc.replace("absent:", "null:");
        if !doc.is_empty() {
            text += &wrapped(&format!("<summary>{doc}</summary>"), "        /// ").join("\n");
            text += "\n";
        }
        let is_long = setting.value.base == "uint64_t";
        let (kind, default, value) = match setting.kind {
            Kind::Whole if is_long => ("ulong", "", name.clone()),
            Kind::Whole => ("int", "", format!("Native.Whole({name}, nameof({name}))")),
            Kind::OrNone => ("int?", "", format!("Native.OrNone({name}, nameof({name}))")),
            Kind::Real => {
                let check = if SIGNED.contains(&field.as_str()) { "Real" } else { "NotNegative" };
                ("float", "", format!("Native.{check}({name}, nameof({name}))"))
            }
            Kind::Choice(_) => ("ElementType", "", format!("(uint){name}")),
            Kind::Flag(constant) => {
                flags.push(format!("({name} ? Native.{constant} : 0u)"));
                text += &format!("        public bool {name};\n");
                continue;
            }
            Kind::Sequences => ("IReadOnlyList<uint[]>", " = new uint[0][]", String::new()),
            Kind::Biases => ("IReadOnlyDictionary<uint, float>", " = new Dictionary<uint, float>()", String::new()),
            Kind::Choices(_) => ("IReadOnlyList<Filter>", " = new Filter[0]", String::new()),
        };
        text += &format!("        public {kind} {name}{default};\n");
        if !value.is_empty() {
            sets += &format!("            {field} = {value},\n");
        }
    }
    let structure = group.structure;
    text + &format!(
        "\n        internal unsafe {structure} Numbers() => new {structure} {{\n            struct_size = \
        (uint)sizeof({structure}),\n{sets}            flags = {},\n        }};\n    }}\n",
        flags.join(" | ")
    )
}
