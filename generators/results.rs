//! Writes the enums and the results of calls in the languages of bindings: names, types, comments, and the code that
//! reads the structs.

#[path = "results/csharp.rs"]
mod csharp;
#[path = "results/java.rs"]
mod java;
#[path = "results/python.rs"]
mod python;
#[path = "results/records.rs"]
mod records;

use super::bindings::{Constant, Header};
use super::options::plain;

/// A function that writes enums and results in a language.
type Writer = fn(&Header) -> String;

/// Paths of the generated files, relative to the root.
pub const FILES: [(&str, Writer); 7] = [
    ("bindings/csharp/Realizar/Enums.cs", csharp::enums),
    ("bindings/csharp/Realizar/Results.cs", csharp::results),
    ("bindings/java/realizar/Filter.java", java::filter),
    ("bindings/java/realizar/Results.java", java::results),
    ("bindings/python/realizar/_results.py", python::python),
    ("bindings/go/results.go", records::go),
    ("bindings/swift/Sources/Realizar/Results.swift", records::swift),
];

/// An enum of C# and Go; other languages have some of these enums.
pub struct Enum {
    /// Prefix of its constants.
    pub begin: &'static str,
    /// Its name in each language; empty if a language has no such enum.
    name: &'static str,
    /// Its name and type in Go, and the prefix of its constants there.
    pub go: [&'static str; 3],
    pub doc: &'static str,
}

const fn of(begin: &'static str, name: &'static str, go: [&'static str; 3], doc: &'static str) -> Enum {
    Enum { begin, name, go, doc }
}

const UINT: &str = "uint32";

pub const ENUMS: [Enum; 16] = [
    of("RZ_LOG_", "LogLevel", ["LogLevel", "int32", "Log"], "The level of a log message."),
    of("RZ_DEVICE_", "", ["DeviceKind", UINT, ""], "The kind of a device."),
    of("RZ_PLACE_", "Place", ["Place", UINT, "Place"], "A memory location for a part of a model."),
    of("RZ_CAN_", "Capabilities", ["Capabilities", UINT, "Can"], "Features of a model and its conversations."),
    of("RZ_FILTER_", "Filter", ["Filter", UINT, "Filter"], "A filter of tokens, or the temperature."),
    of("RZ_GRAMMAR_FLAG_", "", ["GrammarFlags", UINT, "Grammar"], "A set of bits that change a grammar."),
    of("RZ_GRAMMAR_", "GrammarKind", ["GrammarKind", UINT, "Grammar"], "The language in which a grammar is written."),
    of(
        "RZ_CHAT_EVENT_",
        "PartKind",
        ["PartKind", UINT, "Part"],
        "The kind of a part of a reply. A tool call consists of its id, its name, and pieces of its arguments.",
    ),
    of("RZ_PIXELS_", "PixelFormat", ["PixelFormat", UINT, "Pixels"], "The order of the bytes of a pixel."),
    of("RZ_MEDIA_", "MediaKind", ["MediaKind", UINT, ""], "The kind of media that rows represent."),
    of(
        "RZ_DRAFT_",
        "Draft",
        ["Draft", UINT, "Draft"],
        "The source of draft tokens for speculative decoding, which changes the speed only.",
    ),
    of("RZ_END_", "JobEnd", ["EndReason", UINT, "End"], "Why a text has ended."),
    of("RZ_STATE_", "ReplyState", ["", UINT, ""], "The state of a reply."),
    of(
        "RZ_OVERFLOW_",
        "Overflow",
        ["Overflow", UINT, "Overflow"],
        "What happens if messages and a reply exceed the context.",
    ),
    of("RZ_REASONING_", "Reasoning", ["Reasoning", UINT, "Reasoning"], "Whether a reply begins with reasoning."),
    of(
        "RZ_POOLING_",
        "Pooling",
        ["Pooling", UINT, "Pooling"],
        "How the vectors of the tokens become the embedding of a text.",
    ),
];

/// Comments of the value 0 of enums that have no constant for it.
const NONE: [(&str, &str); 3] = [
    ("RZ_CAN_", "None of these."),
    ("RZ_END_", "The text has not ended."),
    ("RZ_STATE_", "There was no reply, or it was abandoned."),
];

/// Comments that replace the header's, which mention C functions.
const DOCS: [(&str, &str); 26] = [
    ("RZ_LOG_INFO", "Information."),
    ("RZ_END_LENGTH", "The maximum number of tokens."),
    ("RZ_END_FAILED", "An error of this text only: no token could be sampled, or its grammar exceeded a limit."),
    ("RZ_END_CANCELLED", "The caller stopped or abandoned the text."),
    ("RZ_GRAMMAR_GBNF", "GBNF, without tokens."),
    ("RZ_GRAMMAR_TOOLS", "Tool calls, given as the JSON of a conversation."),
    ("RZ_OVERFLOW_FORGET", "The oldest turns are left out of the prompt."),
    ("RZ_MEDIA_VIDEO", "Frames of a video."),
    ("rz_phase_metrics", "Number and time of the calls of one kind."),
    (
        "gpu_products",
        "Matrix products of layers on the GPU, with adjacent norms and sums; all phases of GPUs are counted only with \
         RZ_MODEL_PROFILE.",
    ),
    ("rz_metrics", "Number and time of the calls of a model, by kind."),
    ("rz_backend_metrics", "Work of one kind of device; times are in nanoseconds."),
    ("IsGpu", "True for a GPU."),
    ("HasChatTemplate", "The model has a chat template that works."),
    ("TemplateWritesBos", "The chat template writes the token that begins a text."),
    ("capabilities", "What the model and its conversations can do."),
    ("embedding_dim", "Number of floats in the embedding of a text; 0: the model computes none."),
    ("pooling", "Pooling of embeddings; RZ_POOLING_MODEL: the file declares none, so that the caller must choose."),
    ("NDevices", "Number of GPUs that have layers."),
    ("kind", "The kind of the media item."),
    ("kinds", "The kinds of media that the encoder accepts."),
    ("row_dim", "Number of floats per row."),
    ("state", "The state of the reply."),
    ("end_reason", "Why the reply has ended."),
    ("stopped", "RZ_ERR_CANCELLED or RZ_ERR_DEADLINE if steps fail because of a cancel or a deadline; else null."),
    ("first_token_ns", "Time to first token (TTFT) in nanoseconds; 0 before the first token."),
];

/// Returns the enums of languages other than Go.
fn enums() -> impl Iterator<Item = &'static Enum> {
    ENUMS.iter().filter(|of| !of.name.is_empty())
}

impl Enum {
    /// Returns the constants, with their names without the prefix.
    pub fn constants<'a>(&self, header: &'a Header) -> impl Iterator<Item = (&'a str, &'a Constant<'a>)> {
        let of = header.constants.iter().filter_map(|one| Some((one.name.strip_prefix(self.begin)?, one)));
        // Excludes groups with a longer prefix.
        of.filter(|(end, _)| !end.starts_with("FLAG_"))
    }
}

/// Returns the comment of a constant or a field, with C's names replaced by the names of a language.
fn doc_of(names: [&str; 2], doc: &str, term: impl Fn(&str) -> Option<String>) -> String {
    let doc = DOCS.iter().find(|(of, _)| names.contains(of)).map_or(doc, |(_, own)| own);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.`".contains(c);
    let translated = |piece: &str| {
        let word = piece.trim_end_matches(|c| !is_name(c) || c == '.');
        term(word).unwrap_or_else(|| word.to_owned()) + &piece[word.len()..]
    };
    let doc = doc.replace(" Since 0.1.0.", "");
    plain(&doc.split_inclusive(|c| !is_name(c)).map(translated).collect::<String>())
}

/// Returns the text with a capital first letter.
fn sentence(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}
