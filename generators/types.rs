//! Writes the enums of element types for the bindings that have them, and all enums of Go.

use super::bindings::Header;
use super::options::go::{Field, HEAD as GO_HEAD, declared, pascal};
use super::options::{CACHE_TYPES, TYPES, choices_of, plain, wrapped};
use super::results::{self, ENUMS};

/// A function that writes the types in a language.
type Writer = fn(&[Enum]) -> String;

/// Paths of the generated files, relative to the root.
pub const FILES: [(&str, Writer); 5] = [
    ("bindings/java/realizar/ElementType.java", |enums| java(&enums[0])),
    ("bindings/java/realizar/CacheType.java", |enums| java(&enums[1])),
    ("bindings/csharp/Realizar/Types.cs", |enums| csharp(&enums[..2])),
    ("bindings/swift/Sources/Realizar/Types.swift", |enums| swift(&enums[..2])),
    ("bindings/go/types.go", go),
];

/// An enum of element types, or an enum that only Go needs.
pub struct Enum {
    name: &'static str,
    doc: &'static str,
    /// The type of the Go constants, and the prefix of their names.
    go: (&'static str, &'static str),
    types: Vec<Type>,
}

struct Type {
    /// In lower case.
    name: String,
    constant: String,
    value: String,
    doc: String,
}

/// Comments that replace the header's, which mention GGML and C.
const DOCS: [(&str, &str, &str); 6] = [
    ("ElementType", "default", "The types of the file."),
    ("ElementType", "f32", "Single precision."),
    ("CacheType", "default", "The same as F16."),
    ("CacheType", "f32", "Single precision, 32 bits per value."),
    ("CacheType", "f16", "Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value."),
    ("CacheType", "q4_0", "4.5 bits per value; better for values than for keys."),
];

/// Returns the enums of all languages.
pub fn all(header: &Header) -> Vec<Enum> {
    let of = |name, doc, begin| {
        let (_, choices) = choices_of(header, begin);
        let types = choices.into_iter().map(|(end, constant)| {
            let at = header.constants.iter().position(|one| one.name == constant).expect("a constant");
            // A comment also applies to the following constants without a comment.
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
        let go = if begin == TYPES { "Type" } else { "Cache" };
        Enum { name, doc, go: ("uint32", go), types: types.collect() }
    };
    let mut enums = vec![
        of("ElementType", "A type that a load can quantize float matrices to.", TYPES),
        of("CacheType", "The element type of the keys or the values of a KV cache.", CACHE_TYPES),
    ];
    enums.extend(ENUMS.iter().filter(|of| !of.go[0].is_empty()).map(|of| go_enum(header, of)));
    enums
}

/// Comments of constants that replace the header's, which use terms of C, and comments of enums, by prefix.
const GO_DOCS: [(&str, &str); 17] = [
    ("RZ_CAN_", "A set of bits for features of a model and its conversations: info.Capabilities&CanTools != 0."),
    ("RZ_FILTER_", "A filter of tokens, by the option of [Sampling], or the temperature."),
    ("RZ_LOG_ERROR", "A call failed with ErrPanic or ErrDeviceLost."),
    ("RZ_FILTER_TOP_N_SIGMA", ""),
    ("RZ_CAN_SWITCH_REASONING", "ReasoningOn and ReasoningOff work."),
    ("RZ_GRAMMAR_GBNF", "A GBNF grammar, as in llama.cpp."),
    ("RZ_GRAMMAR_TOOLS", "The reply to a [Transcript] in JSON: text, or tool calls."),
    ("RZ_PIXELS_RGBA8", "Four bytes, red first, then alpha."),
    ("RZ_GRAMMAR_FLAG_BEST_EFFORT", "Ignores and logs keywords of a GrammarJSONSchema that cannot be compiled."),
    ("RZ_MEDIA_VIDEO", "Frames of a video."),
    ("RZ_DRAFT_MODEL", "A draft model: a small model with the same vocabulary, or a draft head."),
    ("RZ_END_FAILED", "Its own error: Job.Err, Conversation.Err."),
    ("RZ_OVERFLOW_FORGET", "Whole turns are left out of its prompt, the oldest first."),
    ("RZ_DRAFT_MTP", "The model's multi-token prediction (MTP) head, loaded with LoadOptions.MTP."),
    ("RZ_END_LENGTH", "The maximum number of tokens."),
    ("RZ_END_CANCELLED", "Conversation.Stop, or discarded with ReplyOptions.Keep."),
    ("RZ_OVERFLOW_FAIL", "The reply fails with ErrContextFull."),
];

fn go_enum(header: &Header, of: &results::Enum) -> Enum {
    let own = |name: &str| GO_DOCS.iter().find(|(of, _)| *of == name).map(|(_, doc)| *doc);
    let types = of.constants(header).map(|(end, one)| {
        let own = own(one.name);
        let doc = own.map_or_else(|| what(one.doc), str::to_owned);
        let is_told = one.doc.is_empty() || own.is_some() || !doc.is_empty();
        assert!(is_told, "{} needs a comment in GO_DOCS of generators/types.rs", one.name);
        Type { name: end.to_lowercase(), constant: one.name.to_owned(), value: one.value.to_owned(), doc }
    });
    let [name, kind, begin] = of.go;
    Enum { name, doc: own(of.begin).unwrap_or(of.doc), go: (kind, begin), types: types.collect() }
}

/// Returns the comment of a constant without the kind at its beginning, such as "End reason:".
fn what(doc: &str) -> String {
    let is_kind = |kind: &str| !kind.contains(". ") && !kind.contains("peculati") && !kind.contains("decoding");
    let text = doc.split_once(": ").filter(|(kind, _)| is_kind(kind)).map_or(doc, |(_, text)| text);
    let text = plain(text);
    text.get(..1).map_or(String::new(), |first| first.to_uppercase() + &text[1..])
}

impl Type {
    /// Returns `Default` for `default`, and other names in upper case.
    fn pascal(&self) -> String {
        if self.name == "default" { "Default".to_owned() } else { self.name.to_uppercase() }
    }

    /// Returns the name in Go: in upper case for element types, in camel case for other constants.
    fn go(&self) -> String {
        if self.constant.starts_with(TYPES) { self.pascal() } else { pascal(&self.name) }
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
    let mut text = GO_HEAD.to_owned();
    for of in enums {
        let (name, doc) = (of.name, of.doc[..1].to_lowercase() + &of.doc[1..]);
        let (kind, begin) = of.go;
        text += &format!("\n// {name} is {doc}\ntype {name} {kind}\n\n// The values of {name}.\nconst (\n");
        let values = of.types.iter().map(|one| Field {
            doc: one.doc.clone(),
            name: format!("{begin}{}", one.go()),
            kind: format!("{name} = {}", one.constant.replacen("RZ_", "rz_", 1)),
        });
        text += &declared(values.collect());
        text += ")\n";
    }
    text
}
