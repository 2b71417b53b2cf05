//! The options in Java.

use super::{Group, Kind, REFERENCES, Reference, Setting, TYPES, camel, literal, longer, wrapped};

/// A base class: its group of options, its name, its own base class, the groups of the structs to which its options are
/// written, and its comment.
struct Class {
    group: &'static str,
    name: &'static str,
    parent: Option<&'static str>,
    writes: &'static [&'static str],
    doc: &'static str,
}

const CLASSES: [Class; 6] = [
    Class {
        group: "Sampling",
        name: "SamplingOptions",
        parent: None,
        writes: &["Sampling"],
        doc: "Sampling parameters. Zero turns a feature off; all zeros choose the most likely token (greedy decoding).",
    },
    Class {
        group: "Reply",
        name: "TextOptions",
        parent: Some("SamplingOptions"),
        writes: &["Job", "Reply"],
        doc: "Options of a text that is generated.",
    },
    Class { group: "Load", name: "LoadOptions", parent: None, writes: &["Load"], doc: "Options of a load." },
    Class {
        group: "Encoder",
        name: "EncoderOptions",
        parent: None,
        writes: &["Encoder"],
        doc: "Options of a load of an encoder.",
    },
    Class { group: "Media", name: "MediaOptions", parent: None, writes: &["Media"], doc: "Options of a media item." },
    Class { group: "Store", name: "StoreOptions", parent: None, writes: &["Store"], doc: "Options of a store." },
];

/// Options that a hand-written method sets together with others, or under another name.
const BY_HAND: [&str; 2] = ["draft_max", "background"];

/// Returns the class of a group of options.
pub fn java(groups: &[Group], name: &str) -> String {
    let class = CLASSES.iter().find(|class| class.name == name).expect(name);
    let of = |name: &str| groups.iter().find(|group| group.name == name).expect("a group");
    let group = of(class.group);
    let is_sampling = class.group == "Sampling";
    let returns = if is_sampling { "sampled()" } else { "self()" };
    let (mut fields, mut setters) = (String::new(), String::new());
    for setting in &group.settings {
        let member = Member::of(group, setting, is_sampling);
        if let Some((kind, default)) = member.field {
            fields += &format!("    {kind} {}{default};\n", member.name);
        }
        if BY_HAND.contains(&setting.name.as_str()) {
            continue;
        }
        let doc = group
            .doc(setting, camel)
            .replace("absent:", "not set:")
            .replace("\"model\"", "MODEL")
            .replace('&', "&amp;")
            .replace('<', "&lt;");
        if !doc.is_empty() {
            setters += &format!("\n    /** {} */", wrapped(&doc, "     * ").join("\n").trim_start_matches("     * "));
        }
        let (name, parameter, sets) = (&member.name, member.parameter, member.sets);
        setters +=
            &format!("\n    public T {name}({parameter}) {{\n        {sets};\n        return {returns};\n    }}\n");
    }
    for (_, field, reference, doc) in REFERENCES.iter().filter(|(of, ..)| *of == class.group) {
        let (name, kind) = (camel(field), nullable(*reference));
        fields += &format!("    {kind} {name};\n");
        let doc = wrapped(doc, "     * ").join("\n");
        setters += &format!(
            "\n    /** {} */\n    public T {name}({kind} {name}) {{\n        this.{name} = {name};\n        return \
            self();\n    }}\n",
            doc.trim_start_matches("     * ")
        );
    }
    if !is_sampling && group.settings.iter().any(|setting| matches!(setting.kind, Kind::Flag(_))) {
        fields += "    int flags;\n";
    }
    let writes = class.writes.iter().map(|write| {
        let method = if class.writes.len() > 1 { format!("set{write}") } else { "set".to_owned() };
        let sets = sets(of(write), is_sampling);
        format!("\n    /** Writes the numbers of the struct. */\n    void {method}(Memory params) {{\n{sets}    }}\n")
    });
    let writes = writes.collect::<String>();
    let mut head = format!("{} Each method sets one and returns the object; a number out of range throws", class.doc);
    head += " an IllegalArgumentException that names it. The build writes this file: make header.";
    let head = wrapped(&head, " * ").join("\n");
    let extends = class.parent.map_or_else(String::new, |parent| format!(" extends {parent}<T>"));
    let imports = ["java.nio.file.Path", "java.util.List", "java.util.Map", "org.jspecify.annotations.Nullable"];
    let is_used = |import: &&&str| {
        let name = import.rsplit('.').next().expect("a name");
        fields.contains(&format!("{name} ")) || fields.contains(&format!("{name}<"))
    };
    let imports = imports.iter().filter(is_used).map(|import| format!("import {import};\n")).collect::<String>();
    let imports = if imports.is_empty() { imports } else { format!("{imports}\n") };
    let own = match (class.parent, is_sampling) {
        (Some(_), _) => String::new(),
        (None, true) => SELF.to_owned() + SAMPLED,
        (None, false) => SELF.to_owned(),
    };
    let sampled = if is_sampling { "    /** Whether one of them was given. */\n    boolean isSampled;\n" } else { "" };
    format!(
        "package realizar;\n\n{imports}/** {} */\npublic abstract class {name}<T extends {name}<T>>{extends} \
        {{\n{sampled}{fields}\n    {name}() {{}}\n{own}{setters}{writes}}}\n",
        head.trim_start_matches(" * ")
    )
}

/// Returns the type of a value that may be null.
fn nullable(of: Reference) -> &'static str {
    match of {
        Reference::Runtime => "@Nullable RealizarRuntime",
        Reference::Path => "@Nullable Path",
        Reference::Text => "@Nullable String",
        Reference::Progress => "Model.Load.@Nullable Progress",
        Reference::Cancel => "@Nullable Cancel",
    }
}

/// An option: a field and the method that sets it.
struct Member {
    name: String,
    /// The type and the initial value; `None` for a switch that is a bit of a field.
    field: Option<(String, String)>,
    parameter: String,
    sets: String,
}

impl Member {
    fn of(group: &Group, setting: &Setting, is_sampling: bool) -> Self {
        let name = longer(&camel(&setting.name)).replace("continue", "continuing");
        let checked = |check: &str| format!("Native.{check}({name}, \"{name}\")");
        let is_long = setting.value.base == "uint64_t";
        let (kind, default, parameter, value) = match setting.kind {
            Kind::Whole if is_long && setting.name == "seed" => ("long", String::new(), "long", name.clone()),
            Kind::Whole if is_long => ("long", String::new(), "long", checked("whole")),
            Kind::Whole if setting.value.base == "int32_t" => ("int", String::new(), "int", name.clone()),
            Kind::Whole => ("int", String::new(), "int", checked("whole")),
            Kind::OrNone => ("@Nullable Integer", String::new(), "int", checked("whole")),
            Kind::Real => ("float", String::new(), "double", format!("Native.finite((float) {name}, \"{name}\")")),
            Kind::Flag(constant) if !is_sampling => {
                let sets = format!("flags |= Header.{constant}");
                return Self { name, field: None, parameter: String::new(), sets };
            }
            Kind::Flag(_) => ("boolean", String::new(), "boolean", name.clone()),
            Kind::Sequences => ("List<int[]>", " = List.of()".to_owned(), "int[]...", checked("sequences")),
            Kind::Biases => ("Map<Integer, Float>", " = Map.of()".to_owned(), "Map<Integer, Float>", checked("biases")),
            Kind::Choices(_) => {
                ("List<Filter>", " = List.of()".to_owned(), "Filter...", format!("Native.all(\"{name}\", {name})"))
            }
            Kind::Choice(begin) => {
                let kind = if begin == TYPES { literal(begin) } else { format!("Options.{}", literal(begin)) };
                let (first, _) = group.choices(begin).next().expect("a choice");
                let (default, sets) = (format!(" = {kind}.{}", first.to_uppercase()), checked("given"));
                let (parameter, sets) = (format!("{kind} {name}"), format!("this.{name} = {sets}"));
                return Self { name, field: Some((kind, default)), parameter, sets };
            }
        };
        let (parameter, sets) = (format!("{parameter} {name}"), format!("this.{name} = {value}"));
        Self { name, field: Some((kind.to_owned(), default)), parameter, sets }
    }
}

/// Returns the lines that write the numbers of a group to its struct.
fn sets(group: &Group, is_sampling: bool) -> String {
    let (mut text, mut flags) = (String::new(), Vec::new());
    let line = |set: &str, field: &str, value: &str| {
        format!("        Native.{set}(params, Header.{}, \"{field}\", {value});\n", group.structure)
    };
    for setting in &group.settings {
        let (field, name) = (&setting.name, longer(&camel(&setting.name)));
        text += &match setting.kind {
            Kind::Whole if setting.value.base == "size_t" => line("set", field, &format!("(long) {name}")),
            Kind::OrNone => line("setOrNone", field, &name),
            Kind::Whole | Kind::Real => line("set", field, &name),
            Kind::Choice(TYPES) => line("set", field, &format!("{name}.number")),
            Kind::Choice(_) => line("set", field, &format!("{name}.ordinal()")),
            Kind::Flag(constant) => {
                flags.push(format!("({name} ? Header.{constant} : 0)"));
                String::new()
            }
            Kind::Sequences | Kind::Biases | Kind::Choices(_) => String::new(),
        };
    }
    if flags.is_empty() {
        return text;
    }
    text + &line("set", "flags", &if is_sampling { flags.join(" | ") } else { "flags".to_owned() })
}

const SELF: &str = "
    @SuppressWarnings(\"unchecked\")
    final T self() {
        return (T) this;
    }
";

const SAMPLED: &str = "
    private T sampled() {
        isSampled = true;
        return self();
    }
";
