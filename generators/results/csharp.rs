//! Writes enums and results in C#.

use super::super::bindings::{Header, csharp_handle};
use super::super::header::{Signature, Value};
use super::super::options::{FLAGS, STRUCTS, camel, wrapped};
use super::{Enum, NONE, doc_of, enums as all, sentence};

/// The structs that calls return, and the classes that hold them.
const RESULTS: [(&str, &str); 13] = [
    ("rz_device_info", "class Device"),
    ("rz_model_info", "class ModelInfo"),
    ("rz_model_device", "internal struct ModelDevice"),
    ("rz_model_plan", "class Plan"),
    ("rz_model_plan_device", "struct Plan.OnDevice"),
    ("rz_encoder_info", "class EncoderInfo"),
    ("rz_encoder_plan", "class EncoderPlan"),
    ("rz_media_info", "class MediaInfo"),
    ("rz_store_info", "class StoreInfo"),
    ("rz_conversation_info", "class ConversationInfo"),
    ("rz_phase_metrics", "struct Phase"),
    ("rz_metrics", "class Metrics"),
    ("rz_backend_metrics", "class Work"),
];

/// Names that differ from the header's, types other than numbers, and the expressions that read them.
const NAMES: [(&str, &str, &str, &str); 23] = [
    ("rz_device_info.kind", "IsGpu", "bool", "c->kind == Native.RZ_DEVICE_GPU"),
    ("available", "IsAvailable", "bool", "c->available != 0"),
    ("rz_device_info.isa", "InstructionSet", "", ""),
    ("n_params", "Parameters", "", ""),
    ("n_devices", "NDevices", "", ""),
    ("chat_template", "HasChatTemplate", "bool", "(c->chat_template & Native.RZ_TEMPLATE_PRESENT) != 0"),
    ("chat_template", "TemplateWritesBos", "bool", "(c->chat_template & Native.RZ_TEMPLATE_WRITES_BOS) != 0"),
    ("capabilities", "Capabilities", "Capabilities", "(Capabilities)c->capabilities"),
    ("pooling", "Pooling", "Pooling", "(Pooling)c->pooling"),
    ("experts_host_first", "FirstExpertsHost", "", ""),
    ("experts_host_layers", "NExpertsHost", "", ""),
    ("kinds", "Kinds", "IReadOnlyList<MediaKind>", "Native.Kinds(c->kinds)"),
    ("kind", "Kind", "MediaKind", "(MediaKind)c->kind"),
    ("encode_ns", "EncodeNanoseconds", "", ""),
    ("state", "State", "ReplyState", "(ReplyState)c->state"),
    ("end_reason", "End", "JobEnd", "(JobEnd)c->end_reason"),
    ("stopped", "Stopped", "Status?", "c->stopped == 0 ? (Status?)null : (Status)c->stopped"),
    ("cache_len", "CacheLength", "", ""),
    ("prompt_ns", "PromptTime", "", ""),
    ("tokens_ns", "TokensTime", "", ""),
    ("first_token_ns", "FirstTokenTime", "", ""),
    ("sum_ns", "Nanoseconds", "", ""),
    ("latency_variance_ns2", "LatencyVariance", "", ""),
];

/// Fields that callers do not need, or that bindings read without these properties.
const LEFT_OUT: [&str; 4] = ["struct_size", "reserved", "device_kind", "reads_source"];

const HEAD: &str = "The build writes this file: make header.\nusing System;\nusing System.Collections.Generic;\n\nnamespace Realizar\n{";

pub fn enums(header: &Header) -> String {
    let mut text = format!("// Kinds, states and reasons. {}", HEAD.replace("using System.Collections.Generic;\n", ""));
    for of in all() {
        let flags = if of.name == "Capabilities" { "    [Flags]\n" } else { "" };
        text += &format!("\n{}{flags}    public enum {}\n    {{\n", summary(of.doc, "    "), of.name);
        if let Some((_, none)) = NONE.iter().find(|(begin, _)| *begin == of.begin) {
            text += &format!("{}        None,\n", summary(none, "        "));
        }
        // Sources of encoders and decoders are not offered yet.
        for (end, constant) in of.constants(header).filter(|(_, one)| one.name != "RZ_MEDIA_TEXT") {
            let doc = match of.name {
                "Filter" => format!("Sampling.{}.", pascal(&end.replace("XTC", "XTC_PROBABILITY"))),
                _ => member_doc(header, constant.name, constant.doc),
            };
            assert!(!doc.is_empty(), "{} has no comment; DOCS of generators/results.rs needs one", constant.name);
            let member = pascal(end);
            text += &format!("{}        {member} = Native.{},\n", summary(&doc, "        "), constant.name);
        }
        text += "    }\n";
    }
    text + "}\n"
}

/// Returns the comment of a constant without the name of its group.
fn member_doc(header: &Header, name: &str, doc: &str) -> String {
    let doc = match doc.split_once(": ") {
        Some((group, rest)) if !group.contains('\n') && group.split(' ').count() < 10 => rest,
        Some(_) | None => doc,
    };
    let doc = doc_of([name; 2], doc, |word| term(header, word));
    if doc.is_empty() { doc } else { sentence(&doc) }
}

pub fn results(header: &Header) -> String {
    let mut text = format!("// What calls return. {HEAD}");
    for (structure, class) in RESULTS {
        let (kind, class) = class.rsplit_once(' ').expect("class or struct");
        let (outer, name) = class.split_once('.').map_or((None, class), |(outer, name)| (Some(outer), name));
        let (_, fields) = *header.structs.iter().find(|(found, _)| *found == structure).expect(structure);
        let fields = fields.iter().filter(|field| !is_left_out(structure, &field.name));
        let mut body = summary(&doc_of([structure; 2], header.doc(structure), |word| term(header, word)), "    ");
        let kind = if kind == "class" { "public sealed partial class" } else { kind };
        let kind = if kind == "struct" { "public struct" } else { kind };
        body += &format!("    {kind} {name}\n    {{\n");
        let mut reads = String::new();
        for (field, (own, kind, read)) in
            fields.flat_map(|field| properties(structure, field).map(move |one| (field, one)))
        {
            let doc = field.doc.replacen("1 if ", "True if ", 1).replacen("1: ", "True: ", 1).replace(", else 0", "");
            let doc = doc_of([&own, &field.name], &doc, |word| term(header, word));
            assert!(
                !doc.is_empty(),
                "{structure}.{} has no comment; DOCS of generators/results.rs needs one",
                field.name
            );
            let is_reference = kind.starts_with("string") || kind.ends_with(['>', ']']);
            let value = if is_reference { " = null!;" } else { "" }; // `Of` sets all
            body +=
                &format!("{}        public {kind} {own} {{ get; internal set; }}{value}\n", summary(&doc, "        "));
            reads += &format!("            {own} = {read},\n");
        }
        body += &format!(
            "\n        internal static unsafe {name} Of({structure}* c) => new {name} {{\n{reads}        }};\n"
        );
        if let Some(getter) = header.functions.iter().find(|function| function.name == getter_of(structure)) {
            body += &get(name, structure, getter);
        }
        body += "    }\n";
        text += &match outer {
            Some(outer) => {
                let body =
                    body.lines().map(|line| if line.is_empty() { line.to_owned() } else { format!("    {line}") });
                let body = body.collect::<Vec<_>>().join("\n");
                format!("\n    public sealed partial class {outer}\n    {{\n{body}\n    }}\n")
            }
            None => format!("\n{body}"),
        };
    }
    text + "}\n"
}

fn is_left_out(structure: &str, field: &str) -> bool {
    LEFT_OUT.contains(&field) || LEFT_OUT.contains(&format!("{structure}.{field}").as_str())
}

fn getter_of(structure: &str) -> String {
    if structure.ends_with("_plan") { String::new() } else { format!("{structure}_get") }
}

/// Returns a method that calls the library.
fn get(name: &str, structure: &str, getter: &Signature) -> String {
    let inputs = &getter.parameters[..getter.parameters.len() - 2];
    let kind = |value: &Value| if value.pointers > 0 { csharp_handle(&value.base) } else { "uint".to_owned() };
    let parameters =
        inputs.iter().map(|value| format!("{} {}", kind(value), value.name)).collect::<Vec<_>>().join(", ");
    let arguments = inputs.iter().map(|value| value.name.clone() + ", ").collect::<String>();
    format!(
        "\n        internal static unsafe {name} Get({parameters})\n        {{\n            var c = new {structure} {{ \
        struct_size = (uint)sizeof({structure}) }};\n            rz_error err;\n            \
        RealizarException.Check(Native.{}({arguments}&c, &err), &err);\n            return Of(&c);\n        }}\n",
        getter.name
    )
}

/// Returns the properties of a field: name, type, and the expression that reads it.
fn properties(structure: &str, field: &Value) -> impl Iterator<Item = (String, String, String)> {
    let own = format!("{structure}.{}", field.name);
    let is_own = NAMES.iter().any(|(name, ..)| *name == own);
    let key = if is_own { own } else { field.name.clone() };
    let usual = pascal(field.name.trim_start_matches("n_").trim_end_matches("_ns"));
    let (kind, read) = usual_kind(field);
    let found = NAMES.into_iter().filter(|(name, ..)| *name == key).map(|(_, name, own, how)| match own {
        "" => (name.to_owned(), kind.clone(), read.clone()),
        _ => (name.to_owned(), own.to_owned(), how.to_owned()),
    });
    let found = found.collect::<Vec<_>>();
    if found.is_empty() { vec![(usual, kind, read)] } else { found }.into_iter()
}

fn usual_kind(field: &Value) -> (String, String) {
    let c = format!("c->{}", field.name);
    let is_switch = ["1 if ", "1: "].iter().any(|begin| field.doc.starts_with(begin));
    let (kind, read) = match (field.base.as_str(), field.length.as_ref()) {
        ("char", Some(_)) => ("string", format!("Native.Text({c})")),
        ("uint8_t", Some(length)) => ("byte[]", format!("new ReadOnlySpan<byte>({c}, {length}).ToArray()")),
        ("uint64_t", Some(length)) => ("ulong[]", format!("new ReadOnlySpan<ulong>({c}, {length}).ToArray()")),
        ("uint64_t", None) => ("ulong", c),
        ("double", None) => ("double", c),
        ("rz_phase_metrics", None) => ("Phase", format!("Phase.Of(&{c})")),
        _ if field.doc.contains("RZ_TOKEN_NONE") => {
            ("uint?", format!("{c} == Native.RZ_TOKEN_NONE ? (uint?)null : {c}"))
        }
        _ if field.doc.contains("RZ_NONE") => ("int?", format!("{c} == Native.RZ_NONE ? (int?)null : (int){c}")),
        _ if is_switch => ("bool", format!("{c} != 0")),
        _ => ("int", format!("(int){c}")),
    };
    (kind.to_owned(), read)
}

/// Returns the name in C# for a name of C.
fn term(header: &Header, word: &str) -> Option<String> {
    if let Some(field) = word.strip_prefix('`') {
        let field = field.trim_end_matches('`');
        return term(header, field).or_else(|| Some(pascal(field)));
    }
    let group = |structure: &str| {
        STRUCTS.iter().find(|(found, _)| *found == structure).map(|(_, name)| match *name {
            "Sampling" => "Sampling".to_owned(),
            name => format!("{name}Options"),
        })
    };
    if let Some((structure, field)) = word.split_once('.') {
        let class =
            RESULTS.iter().find(|(found, _)| *found == structure).and_then(|(_, class)| class.rsplit(' ').next());
        let class = class.map(str::to_owned).or_else(|| group(structure))?;
        let fields = header.structs.iter().find(|(found, _)| *found == structure).map(|(_, fields)| *fields);
        let value = fields?.iter().find(|value| value.name == field)?;
        return Some(format!("{class}.{}", properties(structure, value).next()?.0));
    }
    if let Some(value) = (header.structs.iter().filter(|(name, _)| RESULTS.iter().any(|(found, _)| found == name)))
        .find_map(|(structure, fields)| Some((structure, fields.iter().find(|field| field.name == word)?)))
        .filter(|_| word.contains('_'))
    {
        return Some(properties(value.0, value.1).next()?.0);
    }
    if ["RZ_NONE", "RZ_TOKEN_NONE", "NULL"].contains(&word) {
        return Some("null".to_owned());
    }
    if let Some(end) = word.strip_prefix("RZ_ERR_") {
        return Some(format!("Status.{}", pascal(end)));
    }
    let of = |Enum { name, begin, .. }: &Enum| Some(format!("{name}.{}", pascal(word.strip_prefix(begin)?)));
    let flag = |(structure, begin): &(&str, &str)| {
        Some(format!("{}.{}", group(structure)?, pascal(word.strip_prefix(begin)?)))
    };
    if word.ends_with('_') || word.contains("_FLAG_") {
        return None;
    }
    all().find_map(of).or_else(|| FLAGS.iter().find_map(flag))
}

/// Returns `TopK` for `TOP_K` and `top_k`.
fn pascal(name: &str) -> String {
    sentence(&camel(&name.to_lowercase()))
}

fn summary(doc: &str, begin: &str) -> String {
    let doc = doc.replace('&', "&amp;").replace('<', "&lt;");
    wrapped(&format!("<summary>{doc}</summary>"), &format!("{begin}/// ")).join("\n") + "\n"
}
