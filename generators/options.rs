//! Writes the options of the header's parameter structs in the languages of bindings: names, types, checks and
//! comments. Bindings convert pointers in structs (lists, texts, handles) themselves.

#[path = "options/csharp.rs"]
mod csharp;
#[path = "options/go.rs"]
pub mod go;
#[path = "options/java.rs"]
mod java;
#[path = "options/js.rs"]
mod js;
#[path = "options/python.rs"]
mod python;
#[path = "options/swift.rs"]
mod swift;

use super::bindings::{Constant, Header};
use super::header::Value;

/// A function that writes the options in a language.
type Writer = fn(&[Group]) -> String;

/// Paths of the generated files, relative to the root.
pub const FILES: &[(&str, Writer)] = &[
    ("bindings/python/realizar/_options.py", python::python),
    ("bindings/js/options.js", js::js),
    ("bindings/js/options.d.ts", js::js_types),
    ("bindings/java/realizar/SamplingOptions.java", |groups| java::java(groups, "SamplingOptions")),
    ("bindings/java/realizar/TextOptions.java", |groups| java::java(groups, "TextOptions")),
    ("bindings/java/realizar/LoadOptions.java", |groups| java::java(groups, "LoadOptions")),
    ("bindings/java/realizar/EncoderOptions.java", |groups| java::java(groups, "EncoderOptions")),
    ("bindings/java/realizar/MediaOptions.java", |groups| java::java(groups, "MediaOptions")),
    ("bindings/java/realizar/StoreOptions.java", |groups| java::java(groups, "StoreOptions")),
    ("bindings/csharp/Realizar/Options.cs", csharp::csharp),
    ("bindings/go/options.go", go::go),
    ("bindings/swift/Sources/Realizar/Options.swift", swift::swift),
];

/// The structs whose fields are options, with the names of their groups in types.
pub const STRUCTS: [(&str, &str); 10] = [
    ("rz_runtime_params", "Runtime"),
    ("rz_model_params", "Load"),
    ("rz_sampler_params", "Sampling"),
    ("rz_cache_params", "Cache"),
    ("rz_encoder_params", "Encoder"),
    ("rz_media_params", "Media"),
    ("rz_job_params", "Job"),
    ("rz_store_params", "Store"),
    ("rz_reply_params", "Reply"),
    ("rz_embed_params", "Embed"),
];

/// Fields that bindings set from other arguments.
const DERIVED: [(&str, &str); 8] = [
    ("rz_encoder_params", "flags"),
    ("rz_job_params", "flags"),
    ("rz_job_params", "prompt_first"),
    ("rz_job_params", "draft"),
    ("rz_media_params", "flags"),
    ("rz_reply_params", "draft"),
    ("rz_reply_params", "grammar_kind"),
    ("rz_reply_params", "grammar_flags"),
];

/// Fields whose values are names, with the prefix of their constants; the name is the rest of the constant.
pub const CHOICES: [(&str, &str); 6] = [
    ("quantize", TYPES),
    ("k_type", CACHE_TYPES),
    ("v_type", CACHE_TYPES),
    ("reasoning", "RZ_REASONING_"),
    ("pooling", "RZ_POOLING_"),
    ("order", "RZ_FILTER_"),
];

/// A pointer in a struct, whose target the caller provides.
#[derive(Clone, Copy, PartialEq)]
enum Reference {
    Runtime,
    Path,
    Text,
    Progress,
    Cancel,
}

/// References of groups, for languages whose options are classes, with their comments.
const REFERENCES: [(&str, &str, Reference, &str); 11] = [
    (
        "Load",
        "runtime",
        Reference::Runtime,
        "The runtime (threads, log, memory limit), which several models may share.",
    ),
    (
        "Load",
        "packed_path",
        Reference::Path,
        "File of packed weights, made by the first load and mapped by later ones.",
    ),
    (
        "Load",
        "tested_path",
        Reference::Path,
        "File that records the self-tests that GPUs have passed, so that later processes skip them.",
    ),
    ("Load", "chat_template", Reference::Text, "Chat template in Jinja, in place of the model's own."),
    (
        "Load",
        "progress",
        Reference::Progress,
        "Receives the number of bytes loaded so far and in total, on the thread that loads. An exception ends the \
         load, which rethrows it.",
    ),
    ("Load", "cancel", Reference::Cancel, "Stops the load."),
    (
        "Encoder",
        "progress",
        Reference::Progress,
        "Receives the number of bytes loaded so far and in total, on the thread that loads. An exception ends the \
         load, which rethrows it.",
    ),
    ("Encoder", "cancel", Reference::Cancel, "Stops the load."),
    (
        "Media",
        "progress",
        Reference::Progress,
        "Receives the number of tiles encoded so far and in total. An exception ends the call, which rethrows it.",
    ),
    ("Media", "cancel", Reference::Cancel, "Stops the call."),
    ("Store", "path", Reference::Path, "Folder for files that outlive the process; it is created if it is missing."),
];

/// The element types to which matrices are quantized, and the element types of caches: the constants that the comment
/// of a field lists.
pub const TYPES: &str = "RZ_TYPE_";
pub const CACHE_TYPES: &str = "RZ_CACHE_TYPE_";
const TYPE_FIELDS: [(&str, &str, &str); 2] =
    [(TYPES, "rz_model_params", "quantize"), (CACHE_TYPES, "rz_cache_params", "k_type")];

/// Structs whose field `flags` is a set of switches, with the prefix of their constants.
pub const FLAGS: [(&str, &str); 4] = [
    ("rz_model_params", "RZ_MODEL_"),
    ("rz_sampler_params", "RZ_SAMPLER_"),
    ("rz_reply_params", "RZ_REPLY_"),
    ("rz_embed_params", "RZ_EMBED_"),
];

/// Floats that may be negative.
const SIGNED: [&str; 2] = ["presence_penalty", "frequency_penalty"];

/// Options without a result in JavaScript: times of steps, and log probabilities outside of conversations.
pub const NOT_IN_JS: [(&str, &str); 2] = [("rz_model_params", "profile"), ("rz_job_params", "logprobs")];

/// Comments that replace the header's, which use terms of C: for a field of all structs, or for `STRUCT.FIELD`.
const DOCS: [(&str, &str); 28] = [
    (
        "rz_encoder_params.device",
        "Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the CPU.",
    ),
    ("device", "Index of a device; 0: chosen by the library."),
    ("gpu_layers", "Number of layers on GPUs; 0: none; absent: as many as fit."),
    (
        "experts_copied_from",
        "Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and computed there; \
         0: no step; absent: measured by the load.",
    ),
    (
        "mixed_prefill_tokens",
        "Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to first token and \
         raises the inter-token latency.",
    ),
    (
        "mmap",
        "Uses the weights in place in the memory-mapped file; token generation is several times slower. The process \
         dies if the file is truncated while it is mapped.",
    ),
    (
        "text_only",
        "Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can be created.",
    ),
    ("profile", "Measures the parts of each step on GPUs, which slows it down."),
    ("mtp", "Also loads the multi-token prediction (MTP) head, for speculative decoding."),
    ("allow_unknown", "Ignores unknown keys and tensors, and counts them."),
    ("quantize", "Element type to which float matrices are quantized during the load."),
    ("capacity", "Context length in tokens; 0: the model's, at most 8192."),
    ("k_type", "Element type of the keys."),
    ("v_type", "Element type of the values."),
    ("biases", "Added to the logits of tokens; negative infinity forbids a token."),
    ("xtc_threshold", "Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no token."),
    ("dry_base", "Base of the DRY penalty, at least 1; 0: 1.75."),
    ("dry_allowed_length", "Minimum length of repetitions that DRY penalizes; 0: 2."),
    ("dry_breakers", "Sequences of tokens across which DRY does not look for repetitions."),
    (
        "banned_sequences",
        "Token sequences that are never generated: the last token of a sequence is not sampled after the other tokens.",
    ),
    ("order", "The order of the filters and the temperature; empty: the default order."),
    ("draft_max", "Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32."),
    (
        "logprobs",
        "Number of most likely tokens to return with each token, at most 32; 0: only the log probability of the token \
         itself; absent: none.",
    ),
    ("reasoning", "Whether a reply begins with reasoning; \"model\": as the chat template decides."),
    ("priority", "Scheduling priority: higher first, may be negative; 0: normal."),
    ("pooling", "How the vectors of a text's tokens become one embedding."),
    ("raw", "Keeps the length of embeddings; otherwise they are normalized to length 1."),
    ("keep", "Keeps the text of an abandoned reply as a message; otherwise the text is removed."),
];

/// Returns the element types that a field accepts, from the first paragraph of its comment: "RZ_TYPE_F32, _F16 or
/// RZ_TYPE_Q8_0".
fn element_types(doc: &str) -> Vec<String> {
    let paragraph = doc.split("\n\n").next().unwrap_or_default();
    let words = paragraph.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter_map(|word| word.strip_prefix(TYPES).or_else(|| word.strip_prefix('_')));
    names.map(str::to_lowercase).collect()
}

/// Returns the names of a group of choices, with their constants.
pub fn choices_of<'a>(header: &Header<'a>, begin: &'static str) -> Choices<'a> {
    let of = TYPE_FIELDS.iter().find(|(group, ..)| *group == begin);
    let offered = of.map(|(_, structure, field)| {
        let (_, fields) = header.structs.iter().find(|(name, _)| name == structure).expect(structure);
        let types = element_types(&fields.iter().find(|value| value.name == *field).expect(field).doc);
        assert!(types.len() > 2, "the comment of {structure}.{field} lists no element types");
        types
    });
    let begins = if of.is_some() { TYPES } else { begin };
    let named = header.constants.iter().filter_map(|constant| {
        let name = constant.name.strip_prefix(begins)?.to_lowercase();
        offered.as_ref().is_none_or(|offered| offered.contains(&name)).then_some((name, constant.name))
    });
    (begin, named.collect())
}

/// Prefix of a group's constants, and names with their constants.
pub type Choices<'a> = (&'static str, Vec<(String, &'a str)>);

/// The kind of an option's value.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind<'a> {
    /// An integer in the range of the field's type.
    Whole,
    /// The same, except that 0 is a valid number, and an absent option means the default.
    OrNone,
    Real,
    /// A name: a constant without this prefix.
    Choice(&'a str),
    /// A switch that sets this constant.
    Flag(&'a str),
    /// Lists of tokens.
    Sequences,
    /// Tokens with logit biases.
    Biases,
    /// Names: constants without this prefix.
    Choices(&'a str),
}

pub struct Setting<'a> {
    pub name: String,
    pub kind: Kind<'a>,
    /// The field.
    pub value: &'a Value,
    doc: String,
}

/// The options of a struct.
pub struct Group<'a> {
    structure: &'a str,
    /// Name of the group in types.
    name: &'a str,
    settings: Vec<Setting<'a>>,
    choices: Vec<Choices<'a>>,
}

/// Returns the options of all structs.
pub fn groups<'a>(header: &Header<'a>) -> Vec<Group<'a>> {
    let choices: Vec<Choices> = choice_groups().into_iter().map(|begin| choices_of(header, begin)).collect();
    let group = |(structure, name)| {
        let (structure, fields) = *header.structs.iter().find(|(found, _)| *found == structure).expect(structure);
        let settings = fields.iter().flat_map(|value| settings(header, structure, fields, value)).collect();
        Group { structure, name, settings, choices: choices.clone() }
    };
    STRUCTS.map(group).into()
}

/// Returns the options that set a field.
fn settings<'a>(header: &Header<'a>, structure: &str, fields: &[Value], value: &'a Value) -> Vec<Setting<'a>> {
    let name = value.name.as_str();
    let counts = |field: &Value| {
        field.pointers > 0 && [format!("n_{}", field.name), format!("{}_len", field.name)].contains(&value.name)
    };
    let begin =
        |table: &[(&str, &'static str)], key: &str| table.iter().find(|(of, _)| *of == key).map(|(_, begin)| *begin);
    if name == "struct_size" || name == "reserved" || DERIVED.contains(&(structure, name)) || fields.iter().any(counts)
    {
        return Vec::new();
    }
    if name == "flags" {
        let begin = begin(&FLAGS, structure).unwrap_or_else(|| panic!("{structure} has flags of no name"));
        let flags = header.constants.iter().filter(|constant| constant.name.starts_with(begin));
        let flag = |constant: &Constant<'a>| {
            let name = constant.name[begin.len()..].to_lowercase();
            let doc = doc_of(structure, &name, constant.doc);
            Setting { name, kind: Kind::Flag(constant.name), value, doc }
        };
        return flags.map(flag).collect();
    }
    let kind = match (value.base.as_str(), value.pointers, begin(&CHOICES, name)) {
        ("rz_token_sequence", 1, _) => Kind::Sequences,
        ("rz_logit_bias", 1, _) => Kind::Biases,
        (_, 1, Some(begin)) => Kind::Choices(begin),
        (_, 0, Some(begin)) => Kind::Choice(begin),
        ("float" | "double", 0, None) => Kind::Real,
        (_, 0, None) if value.is_callback() => return Vec::new(),
        (_, 0, None) if value.doc.contains("RZ_NONE") => Kind::OrNone,
        (_, 0, None) => Kind::Whole,
        // Other pointers are texts and handles.
        (_, 1.., _) => return Vec::new(),
    };
    vec![Setting { name: name.to_owned(), kind, value, doc: doc_of(structure, name, &value.doc) }]
}

fn doc_of(structure: &str, name: &str, doc: &str) -> String {
    let own = format!("{structure}.{name}");
    let found = |name: &str| DOCS.iter().find(|(field, _)| *field == name);
    found(&own).or_else(|| found(name)).map_or_else(|| plain(doc), |(_, doc)| doc.to_string())
}

/// Returns the first sentences of a comment, up to a sentence that mentions something that exists only in C.
pub fn plain(doc: &str) -> String {
    let paragraph = doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let is_plain = |text: &str| !["RZ_", "rz_", "NULL", "llama.cpp"].iter().any(|word| text.contains(word));
    let text: String = paragraph.split_inclusive(". ").take_while(|sentence| is_plain(sentence)).collect();
    // The comment of a constant begins with its kind.
    let text = match text.split_once(": ") {
        Some((what, rest)) if what.contains("lag") => rest[..1].to_uppercase() + &rest[1..],
        Some(_) | None => text,
    };
    let text = text.trim();
    if text.is_empty() || text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

impl<'a> Group<'a> {
    /// Returns constants by the rest of their names, in lower case.
    fn choices(&self, begin: &str) -> impl Iterator<Item = (String, &'a str)> {
        let found = self.choices.iter().find(|(group, _)| *group == begin).expect("a group of choices");
        found.1.iter().cloned()
    }

    fn of_js(&self) -> impl Iterator<Item = &Setting<'a>> {
        self.settings.iter().filter(|setting| !NOT_IN_JS.contains(&(self.structure, setting.name.as_str())))
    }

    /// Returns the comment of an option, with the names of other options as in a language.
    fn doc(&self, setting: &Setting, name: fn(&str) -> String) -> String {
        let mut doc = setting.doc.replace('`', "");
        for other in self.settings.iter().filter(|other| other.name.contains('_')) {
            doc = doc.replace(&other.name, &name(&other.name));
        }
        doc
    }
}

/// Returns the groups of constants that are values of options.
fn choice_groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> = CHOICES.iter().map(|(_, begin)| *begin).collect();
    groups.dedup();
    groups
}

/// Returns `maxTokens` for `max_tokens`.
pub fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| text + &word[..1].to_uppercase() + &word[1..])
}

/// Wraps a comment at 120 columns, each line after `begin`.
pub fn wrapped(text: &str, begin: &str) -> Vec<String> {
    let mut lines = vec![begin.to_owned()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("a line");
        if last.len() + 1 + word.len() > 115 && last.len() > begin.len() {
            lines.push(format!("{begin}{word}"));
        } else {
            if last.len() > begin.len() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// Returns the sampling options.
fn sampling<'a, 'b>(groups: &'b [Group<'a>]) -> &'b Group<'a> {
    groups.iter().find(|group| group.name == "Sampling").expect("options of sampling")
}

/// Returns the name of an option, which is longer than in C for some options.
fn longer(name: &str) -> String {
    name.replace("biases", "logitBias")
}

/// Returns the type of the names of a group's constants.
fn literal(begin: &str) -> String {
    let word = begin.trim_start_matches("RZ_").trim_end_matches('_').to_lowercase();
    match begin {
        TYPES => "ElementType".to_owned(),
        CACHE_TYPES => "CacheType".to_owned(),
        _ => word[..1].to_uppercase() + &word[1..],
    }
}
