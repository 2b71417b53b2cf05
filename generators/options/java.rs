//! The options in Java.

use super::{Group, Kind, camel, longer, sampling, wrapped};

pub fn java(groups: &[Group]) -> String {
    let group = sampling(groups);
    let (mut fields, mut setters, mut sets, mut flags) = (String::new(), String::new(), String::new(), Vec::new());
    for setting in &group.settings {
        let (field, name) = (&setting.name, longer(&camel(&setting.name)));
        let is_long = setting.value.base == "uint64_t";
        let (kind, default, parameter, value) = match setting.kind {
            Kind::Whole | Kind::OrNone if is_long => ("long", "", "long", name.clone()),
            Kind::Whole | Kind::OrNone | Kind::Choice(_) => {
                ("int", "", "int", format!("Native.whole({name}, \"{name}\")"))
            }
            Kind::Real => ("float", "", "double", format!("Native.finite((float) {name}, \"{name}\")")),
            Kind::Flag(_) => ("boolean", "", "boolean", name.clone()),
            Kind::Sequences => {
                ("List<int[]>", " = List.of()", "int[]...", format!("Native.sequences({name}, \"{name}\")"))
            }
            Kind::Biases => (
                "Map<Integer, Float>",
                " = Map.of()",
                "Map<Integer, Float>",
                format!("Native.biases({name}, \"{name}\")"),
            ),
            Kind::Choices(_) => {
                ("List<Filter>", " = List.of()", "Filter...", format!("Native.all(\"{name}\", {name})"))
            }
        };
        fields += &format!("    {kind} {name}{default};\n");
        let doc = group.doc(setting, camel);
        if !doc.is_empty() {
            setters += &format!("\n    /** {} */", wrapped(&doc, "     * ").join("\n").trim_start_matches("     * "));
        }
        setters += &format!(
            "\n    public T {name}({parameter} {name}) {{\n        this.{name} = {value};\n        return sampled();\n    }}\n"
        );
        match setting.kind {
            Kind::Whole | Kind::OrNone | Kind::Real | Kind::Choice(_) => {
                sets += &format!("        Native.set(params, Header.{}, \"{field}\", {name});\n", group.structure);
            }
            Kind::Flag(constant) => {
                flags.push(format!("({name} ? Header.{constant} : 0)"));
            }
            Kind::Sequences | Kind::Biases | Kind::Choices(_) => {}
        }
    }
    if !flags.is_empty() {
        sets += &format!("        Native.set(params, Header.{}, \"flags\", {});\n", group.structure, flags.join(" | "));
    }
    format!(
        "{JAVA_HEAD}{fields}{JAVA_CHECKS}{setters}\n    /** Sets the numbers of a sampler. */\n    void set(Memory params) {{\n{sets}    }}\n}}\n"
    )
}

const JAVA_HEAD: &str = "\
package realizar;

import java.util.List;
import java.util.Map;

/** How tokens are chosen. Zero switches a part off, so that all zeros choose the most likely token. A number that does
 * not fit is refused by its setter, with an IllegalArgumentException that names it. The build writes this file: make
 * header. */
public abstract class SamplingOptions<T extends SamplingOptions<T>> {
    /** Whether one of them was given. */
    boolean isSampled;
";

const JAVA_CHECKS: &str = "
    SamplingOptions() {}

    @SuppressWarnings(\"unchecked\")
    private T sampled() {
        isSampled = true;
        return (T) this;
    }
";
