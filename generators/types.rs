//! Writes the element types that options take in the languages of bindings that have an enum for them.

use super::bindings::Header;
use super::options::{CACHE_TYPES, TYPES, choices_of, wrapped};

/// What writes the types in a language.
type Writer = fn(&[Enum]) -> String;

/// Paths of the generated files, below the root.
pub const FILES: [(&str, Writer); 5] = [
    ("bindings/java/realizar/ElementType.java", |enums| java(&enums[0])),
    ("bindings/java/realizar/CacheType.java", |enums| java(&enums[1])),
    ("bindings/csharp/Realizar/Types.cs", csharp),
    ("bindings/swift/Sources/Realizar/Types.swift", swift),
    ("bindings/go/types.go", go),
];

/// An enum of element types.
pub struct Enum {
    name: &'static str,
    doc: &'static str,
    types: Vec<Type>,
}

struct Type {
    /// In small letters.
    name: String,
    constant: String,
    value: String,
    doc: String,
}

/// Comments in place of the header's, which speak of GGML and of C.
const DOCS: [(&str, &str, &str); 6] = [
    ("ElementType", "default", "The types of the file."),
    ("ElementType", "f32", "Single precision."),
    ("CacheType", "default", "The same as F16."),
    ("CacheType", "f32", "Single precision, 32 bits per value."),
    ("CacheType", "f16", "Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value."),
    ("CacheType", "q4_0", "4.5 bits per value; better for values than for keys."),
];

/// The enums of all languages.
pub fn all(header: &Header) -> Vec<Enum> {
    let of = |name, doc, begin| {
        let (_, choices) = choices_of(header, begin);
        let types = choices.into_iter().map(|(end, constant)| {
            let at = header.constants.iter().position(|one| one.name == constant).expect("a constant");
            // A comment is about the constants without one that follow, too.
            let told = header.constants[..=at].iter().rev().find(|one| !one.doc.is_empty()).expect("a comment").doc;
            let told = told.split("\n\n").next().unwrap_or_default().replace('\n', " ");
            let told = told.strip_prefix("Element type: ").unwrap_or(&told);
            let own =
                DOCS.iter().find(|(of, field, _)| *of == name && *field == end).map(|(.., doc)| (*doc).to_owned());
            let doc = own.unwrap_or_else(|| told[..1].to_uppercase() + &told[1..]);
            assert!(
                !doc.contains("RZ_"),
                "{constant} has no comment without terms of C; DOCS of generators/types.rs needs one"
            );
            let value = header.constants[at].value.to_owned();
            Type { name: end, constant: constant.to_owned(), value, doc }
        });
        Enum { name, doc, types: types.collect() }
    };
    vec![
        of("ElementType", "A type that a load can quantize float matrices to.", TYPES),
        of("CacheType", "The element type of the keys or the values of a KV cache.", CACHE_TYPES),
    ]
}

impl Type {
    /// `default` as `Default`, and other names in capitals.
    fn pascal(&self) -> String {
        if self.name == "default" { "Default".to_owned() } else { self.name.to_uppercase() }
    }
}

fn java(of: &Enum) -> String {
    let mut text = format!("package realizar;\n\n/** {} The build writes this file: make header. */\n", of.doc);
    text += &format!("public enum {} {{\n", of.name);
    for (i, one) in of.types.iter().enumerate() {
        let end = if i + 1 == of.types.len() { ";" } else { "," };
        let doc = wrapped(&one.doc, "     * ").join("\n");
        text += &format!("    /** {} */\n", doc.trim_start().trim_start_matches("* "));
        text += &format!("    {}(Header.{}){end}\n", one.name.to_uppercase(), one.constant);
    }
    let name = of.name;
    text + &format!("\n    final int number;\n\n    {name}(int number) {{\n        this.number = number;\n    }}\n}}\n")
}

fn csharp(enums: &[Enum]) -> String {
    let mut text = "// The element types that options take. The build writes this file: make header.\nnamespace \
        Realizar\n{\n"
        .to_owned();
    for (i, of) in enums.iter().enumerate() {
        text += if i == 0 { "" } else { "\n" };
        text += &format!("    /// <summary>{}</summary>\n    public enum {}\n    {{\n", of.doc, of.name);
        for one in &of.types {
            text += &wrapped(&format!("<summary>{}</summary>", one.doc), "        /// ").join("\n");
            text += &format!("\n        {} = Native.{},\n", one.pascal(), one.constant);
        }
        text += "    }\n";
    }
    text + "}\n"
}

fn swift(enums: &[Enum]) -> String {
    let mut text = "// The element types that options take. The build writes this file: make header.\n".to_owned();
    for of in enums {
        text += &format!("\n/// {}\npublic enum {}: UInt32, Sendable {{\n", of.doc, of.name);
        for one in &of.types {
            let name = if one.name == "default" { "`default`" } else { &one.name };
            text += &wrapped(&one.doc, "    /// ").join("\n");
            text += &format!("\n    case {name} = {}\n", one.value);
        }
        text += "}\n";
    }
    text
}

fn go(enums: &[Enum]) -> String {
    let mut text =
        "// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.\n\npackage realizar\n"
            .to_owned();
    for of in enums {
        let (name, doc) = (of.name, of.doc[..1].to_lowercase() + &of.doc[1..]);
        let begin = name.replace("ElementType", "Type").replace("CacheType", "Cache");
        text += &format!("\n// {name} is {doc}\ntype {name} uint32\n\n// The values of {name}.\nconst (\n");
        for one in &of.types {
            text += &wrapped(&one.doc, "\t// ").join("\n");
            let constant = one.constant.replacen("RZ_", "rz_", 1);
            text += &format!("\n\t{begin}{} {name} = {constant}\n", one.pascal());
        }
        text += ")\n";
    }
    text
}
