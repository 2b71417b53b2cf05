//! Writes the addon for Node: for each function of the header that the package calls, a JavaScript function that reads
//! its arguments, calls the header's function on this thread or on a thread of the pool, and returns the results.
//!
//! Types and names of parameters and fields determine how most values are passed; tables have the exceptions.

#[path = "js/calls.rs"]
mod calls;
#[path = "js/results.rs"]
mod results;
#[path = "js/structs.rs"]
mod structs;

use super::bindings::Header;
use super::header::Value;
use super::options::{CACHE_TYPES, CHOICES, TYPES, camel, choices_of, wrapped};

/// A function that writes a file.
type Writer = fn(&Header) -> String;

/// Paths of the generated files, relative to the root.
pub const FILES: [(&str, Writer); 6] = [
    ("bindings/js/src/interface.h", interface),
    ("bindings/js/src/kinds.c", kinds),
    ("bindings/js/src/options.h", structs::declarations),
    ("bindings/js/src/options.c", structs::definitions),
    ("bindings/js/src/calls.c", calls::calls),
    ("bindings/js/results.d.ts", results::types),
];

/// Handles with objects in JavaScript, and their names in error messages.
const KINDS: [(&str, &str); 13] = [
    ("rz_model", "model"),
    ("rz_cancel", "cancel"),
    ("rz_store", "store"),
    ("rz_adapter", "adapter"),
    ("rz_conversation", "conversation"),
    ("rz_cache", "session"),
    ("rz_job", "job"),
    ("rz_encoder", "encoder"),
    ("rz_media", "media item"),
    ("rz_prompt", "prompt"),
    ("rz_runtime", "runtime"),
    ("rz_grammar", "grammar"),
    ("rz_sampler", "sampler"),
];

/// Functions that are called on the thread of the environment.
const HERE: &str = "
    rz_cache_adapters_set rz_cache_capacity rz_cache_fork rz_cache_len rz_cache_match rz_cache_match_prompt
    rz_cache_new rz_cache_tokens_into rz_cache_truncate rz_cancel_fire rz_cancel_new rz_conversation_adapters_set
    rz_conversation_add rz_conversation_add_text rz_conversation_capacity_set rz_conversation_fork
    rz_conversation_info_get rz_conversation_json_into rz_conversation_logprobs_into rz_conversation_media
    rz_conversation_new rz_conversation_next_into rz_conversation_overflow_set rz_conversation_release
    rz_conversation_rewind rz_conversation_store_set rz_detokenize_into rz_device_count rz_device_info_get
    rz_encoder_info_get rz_hub_choose_into rz_job_info_get rz_job_text_into rz_media_from_rows rz_media_info_get
    rz_media_measure rz_media_rows_into rz_model_device_get rz_model_info_get rz_model_meta_into
    rz_model_sampling_get rz_prompt_from_chat rz_prompt_len rz_prompt_new rz_prompt_tokens_into rz_runtime_new
    rz_sampler_new rz_store_info_get rz_tokenize_into";

/// Functions that take long and are called on a thread of the pool; JavaScript gets a promise.
const POOL: &str = "
    rz_adapter_load rz_cache_load rz_cache_save rz_conversation_load rz_conversation_read rz_conversation_reply
    rz_conversation_save rz_conversation_step rz_conversations_step rz_embed_into rz_embed_prompts_into
    rz_encoder_load rz_encoder_load_from rz_encoder_plan_get rz_grammar_new rz_job_new rz_job_step rz_media_from_audio
    rz_media_from_frames rz_media_from_image rz_media_from_pixels rz_media_from_samples rz_media_load rz_media_save
    rz_media_step rz_model_load rz_model_load_from rz_model_plan_get rz_store_clear rz_store_new rz_tokenize_into";

/// Functions that only the addon itself calls.
const OWN: [&str; 4] = ["rz_abi_version", "rz_layout_get", "rz_status_name", "rz_version"];

/// Parameters and fields with a fixed value, and parameters and fields that JavaScript does not set.
const FIXED: [(&str, &str); 10] = [
    ("rz_adapter_load.params", "NULL"),
    ("rz_prompt_from_chat.flags", "RZ_CHAT_ADD_GENERATION_PROMPT"),
    ("rz_placement.what", "RZ_PLACED_EXPERTS"),
    ("rz_runtime_params.cpus", ""),
    ("rz_job_params.chat", ""),
    ("rz_job_params.flags", ""),
    ("rz_reply_params.compiled_grammar", ""),
    ("rz_tokenize_into.cancel", "NULL"),
    ("rz_media_load.cancel", "NULL"),
    ("rz_conversation_params.cancel", ""),
];

/// Pointers that are NULL if the argument is absent. A cancel always is.
const OPTIONAL: [&str; 4] = [
    "rz_model_plan_get.path",
    "rz_encoder_plan_get.path",
    "rz_hub_choose_into.listing",
    "rz_conversation_store_set.store",
];

/// Numbers that are computed from other arguments: an object of switches, or a member that is a name.
enum Bits {
    Switch(&'static str, &'static str),
    Choice(&'static str, &'static str),
}

const BITS: [(&str, &[Bits]); 8] = [
    (
        "rz_encoder_params.flags",
        &[Bits::Choice("kind", "RZ_ENCODER_"), Bits::Switch("allowUnknown", "RZ_MODEL_ALLOW_UNKNOWN")],
    ),
    ("rz_media_params.flags", &[Bits::Switch("inSteps", "RZ_ENCODE_STEPS")]),
    ("rz_reply_params.grammar_flags", &[Bits::Switch("whitespace", "RZ_GRAMMAR_FLAG_WHITESPACE")]),
    ("rz_grammar_new.flags", &[Bits::Switch("whitespace", "RZ_GRAMMAR_FLAG_WHITESPACE")]),
    (
        "rz_tokenize_into.flags",
        &[Bits::Switch("special", "RZ_TOKENIZE_ADD_SPECIAL"), Bits::Switch("parse", "RZ_TOKENIZE_PARSE_SPECIAL")],
    ),
    ("rz_detokenize_into.flags", &[Bits::Switch("special", "RZ_DETOKENIZE_SPECIAL")]),
    ("rz_prompt_new.flags", &[Bits::Switch("bare", "RZ_PROMPT_BARE")]),
    ("rz_hub_choose_into.flags", &[Bits::Switch("isCached", "RZ_HUB_CACHED")]),
];

/// Numbers with names, in addition to the options: the prefix of their constants.
const NAMED: [(&str, &str); 14] = [
    ("overflow", "RZ_OVERFLOW_"),
    ("rz_conversation_overflow_set.mode", "RZ_OVERFLOW_"),
    ("draft", "RZ_DRAFT_"),
    ("grammar_kind", "RZ_GRAMMAR_"),
    ("rz_grammar_new.kind", "RZ_GRAMMAR_"),
    ("place", "RZ_PLACE_"),
    ("format", "RZ_PIXELS_"),
    ("rz_media_from_rows.kind", "RZ_MEDIA_"),
    ("rz_media_info.kind", "RZ_MEDIA_"),
    ("rz_device_info.kind", "RZ_DEVICE_"),
    ("rz_conversation_next_into.kind", "RZ_CHAT_EVENT_"),
    ("state", "RZ_STATE_"),
    ("end_reason", "RZ_END_"),
    ("stopped", "RZ_ERR_"),
];

/// Results that are bits, with the prefix of their constants, and Boolean results.
const SETS: [(&str, &str); 4] = [
    ("capabilities", "RZ_CAN_"),
    ("rz_encoder_info.kinds", "RZ_MEDIA_"),
    ("advised", "RZ_SAMPLING_"),
    ("rz_conversation_next_into.flags", "RZ_CHAT_EVENT_FLAG_"),
];
const BOOLS: [&str; 4] = ["available", "reads_source", "has_overview", "is_mutual"];

/// Results that are absent if they have this value.
const ABSENT: [(&str, &str); 4] = [
    ("bos_token", "RZ_TOKEN_NONE"),
    ("eos_token", "RZ_TOKEN_NONE"),
    ("rz_model_info.experts_copied_from", "RZ_NONE"),
    ("rz_model_info.pooling", "RZ_POOLING_MODEL"),
];

/// Results whose bits are members.
const SPLIT: [(&str, &[(&str, &str)]); 1] = [(
    "rz_model_info.chat_template",
    &[("chatTemplate", "RZ_TEMPLATE_PRESENT"), ("templateWritesBos", "RZ_TEMPLATE_WRITES_BOS")],
)];

/// Names in JavaScript that differ from the header's: of members, and of arguments in error messages.
const NAMES: [(&str, &str); 19] = [
    ("device_split", "shares"),
    ("rz_reply_params.sampler", "sampling"),
    ("rz_placement.n_layers", "layers"),
    ("rz_conversation_info.end_reason", "end"),
    ("rz_job_info.end_reason", "end"),
    ("rz_model_load.path", "source"),
    ("rz_model_plan_get.path", "source"),
    ("rz_model_load_from.sources", "source"),
    ("rz_model_plan_get.sources", "source"),
    ("sources", "file"),
    ("rz_adapter_load.path", "file"),
    ("rz_encoder_load.path", "file"),
    ("rz_encoder_plan_get.path", "file"),
    ("rz_cache_truncate.len", "length"),
    ("rz_conversation_add.json", "messages"),
    ("rz_model_plan_get.n_caches", "sessions"),
    ("rz_conversation_rewind.n_messages", "count"),
    ("rz_conversation_capacity_set.capacity", "tokens"),
    ("rz_embed_into.tokens", "texts"),
];

/// Lists with one element for each element of another list, which comes first.
const BESIDE: [(&str, &str); 3] =
    [("device_split", "devices"), ("scales", "adapters"), ("rz_media_from_frames.times", "frames")];

/// Checks that read several arguments, as statements.
const CHECKS: [(&str, &str); 2] = [
    ("rz_pixels", "check_pixels(t, params, n_data);"),
    ("rz_media_from_rows", "c->n_rows = rows_of(t, c->n_rows, c->row_dim);"),
];

/// Returns the entry of a member of a struct or a function, otherwise the entry for all members of this name.
fn found<T: Copy>(table: &[(&str, T)], owner: &str, name: &str) -> Option<T> {
    let own = format!("{owner}.{name}");
    let of = |name: &str| table.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    of(&own).or_else(|| of(name))
}

/// Returns the prefix of a number's constants.
fn group_of(owner: &str, name: &str) -> Option<&'static str> {
    found(&NAMED, owner, name).or_else(|| found(&CHOICES, owner, name))
}

fn name_of(owner: &str, name: &str) -> String {
    found(&NAMES, owner, name).map_or_else(|| camel(name), str::to_owned)
}

fn kind_of(base: &str) -> String {
    base.trim_start_matches("rz_").to_uppercase()
}

/// Returns the prefixes of all groups of names.
fn groups() -> Vec<&'static str> {
    let bits = BITS.iter().flat_map(|(_, bits)| bits.iter());
    let choices = bits.filter_map(|bit| if let Bits::Choice(_, begin) = bit { Some(*begin) } else { None });
    let named = CHOICES.iter().chain(&NAMED).chain(&SETS).map(|(_, begin)| *begin);
    let mut groups: Vec<_> = named.chain(choices).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Returns the names of a group, as in JavaScript, with their constants.
fn names<'a>(header: &Header<'a>, begin: &'static str) -> Vec<(String, &'a str)> {
    let of = |(name, constant): (String, &'a str)| {
        let is_other = name.starts_with("flag_") || name.starts_with("max") || begin == "RZ_DEVICE_" && name == "auto";
        let is_stop = ["cancelled", "deadline"].contains(&name.as_str());
        let name = match (begin, name.as_str()) {
            (TYPES | CACHE_TYPES, _) => name,
            ("RZ_END_", "token") => "end".to_owned(),
            _ => camel(&name),
        };
        (!is_other && (begin != "RZ_ERR_" || is_stop)).then_some((name, constant))
    };
    choices_of(header, begin).1.into_iter().filter_map(of).collect()
}

const HEAD: &str = "The build writes this file: make header. */\n";

/// Returns the functions and structs, each as arguments of a macro, and the kinds of handles.
fn interface(header: &Header) -> String {
    let mut text = format!("/* What the addon uses of realizar.h, for macros. {HEAD}\n");
    let mut list = |name: &str, parameters: &str, lines: Vec<String>| {
        text += &format!("#define {name}({parameters})");
        lines.iter().for_each(|line| text += &format!(" \\\n    {line}"));
        text += "\n";
    };
    let mut functions: Vec<String> =
        HERE.split_whitespace().chain(POOL.split_whitespace()).chain(OWN).map(str::to_owned).collect();
    functions.extend(KINDS.iter().map(|(handle, _)| format!("{handle}_free")));
    functions.sort_unstable();
    functions.dedup();
    list("FUNCTIONS", "FUNCTION", functions.iter().map(|name| format!("FUNCTION({name})")).collect());
    let fields = |(structure, fields): &(&str, &[Value])| {
        let fields = fields.iter().map(|field| format!("FIELD({structure}, {})", field.name));
        [format!("STRUCT({structure})")].into_iter().chain(fields).collect::<Vec<_>>()
    };
    list("STRUCTS", "STRUCT, FIELD", header.structs.iter().flat_map(fields).collect());
    let kinds: Vec<String> = KINDS.iter().map(|(handle, _)| kind_of(handle)).collect();
    text + &format!("\ntypedef enum kind {{ {} }} kind;\n", kinds.join(", "))
}

fn kinds(_: &Header) -> String {
    let mut text =
        format!("/* Kinds of handles. {HEAD}\n#include \"internal.h\"\n\nconst char *kind_name(kind k) {{\n");
    let names: Vec<String> = KINDS.iter().map(|(_, name)| format!("\"{name}\"")).collect();
    text += &wrap(&format!("static const char *const names[] = {{{}}};", names.join(", ")), "    ");
    text +=
        "    return names[k];\n}\n\nvoid free_pointer(const library *lib, kind k, void *pointer) {\n    switch (k) {\n";
    for (handle, _) in KINDS {
        text += &format!("    case {}: lib->{handle}_free(pointer); break;\n", kind_of(handle));
    }
    text + "    }\n}\n"
}

/// Wraps a statement at 120 columns.
fn wrap(statement: &str, indent: &str) -> String {
    if indent.len() + statement.len() <= 120 {
        return format!("{indent}{statement}\n");
    }
    let lines = wrapped(statement, &format!("{indent}    ")).join("\n");
    format!("{indent}{}\n", lines.trim_start())
}
