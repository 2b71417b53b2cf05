//! The options in Swift.

use super::{Group, Kind, camel, longer, sampling, wrapped};

const SWIFT_HEAD: &str = "\
// The options of sampling. The build writes this file: make header.
import CRealizar

/// Choices for tokens; zero switches a part off, so that all zeros choose the most likely token.
public struct Sampling: Sendable, Equatable {
";

const SWIFT_INIT: &str = "
    public init(temperature: Float = 0, topP: Float = 0, seed: UInt64 = 0) {
        self.temperature = temperature
        self.topP = topP
        self.seed = seed
    }

    /// The numbers as the library takes them.
";

pub fn swift(groups: &[Group]) -> String {
    let group = sampling(groups);
    let (mut text, mut sets) = (SWIFT_HEAD.to_owned(), String::new());
    for setting in &group.settings {
        let (field, name) = (&setting.name, longer(&camel(&setting.name)));
        let doc = group.doc(setting, camel);
        if !doc.is_empty() {
            text += &wrapped(&doc, "    /// ").join("\n");
            text += "\n";
        }
        let (declared, value) = match setting.kind {
            Kind::Whole if setting.value.base == "uint64_t" => (": UInt64 = 0", name.clone()),
            Kind::Whole | Kind::OrNone | Kind::Choice(_) => (" = 0", format!("try whole({name}, \"{name}\")")),
            Kind::Real => (": Float = 0", format!("try real({name}, \"{name}\")")),
            Kind::Flag(constant) => {
                sets += &format!("        if {name} {{ params.flags |= UInt32({constant}) }}\n");
                text += &format!("    public var {name} = false\n");
                continue;
            }
            Kind::Sequences => (": [[UInt32]] = []", String::new()),
            Kind::Biases => (": [UInt32: Float] = [:]", String::new()),
            Kind::Choices(_) => (": [Filter] = []", String::new()),
        };
        text += &format!("    public var {name}{declared}\n");
        if !value.is_empty() {
            sets += &format!("        params.{field} = {value}\n");
        }
    }
    let structure = group.structure;
    format!(
        "{text}{SWIFT_INIT}    func numbers() throws -> {structure} {{\n        var params = sizedStruct({structure}())\n{sets}        return params\n    }}\n}}\n"
    )
}
