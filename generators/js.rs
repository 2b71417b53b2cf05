//! Writes the addon for Node: for each function of the header that the package calls, a function of JavaScript that
//! reads its arguments, makes the call, here or on a thread of the pool, and returns what the call wrote.
//!
//! Types and names of parameters and fields tell how most values are passed; the tables have what they do not tell.

use super::bindings::Header;
use super::header::{Signature, Value};
use super::options::{CACHE_TYPES, CHOICES, FLAGS, NOT_IN_JS, TYPES, camel, choices_of, wrapped};

/// What writes a file.
type Writer = fn(&Header) -> String;

/// Paths of the generated files, below the root.
pub const FILES: [(&str, Writer); 5] = [
    ("bindings/js/src/interface.h", interface),
    ("bindings/js/src/kinds.c", kinds),
    ("bindings/js/src/options.h", options_h),
    ("bindings/js/src/options.c", options_c),
    ("bindings/js/src/calls.c", calls),
];

/// Handles that JavaScript has objects for, and what messages call them.
const KINDS: [(&str, &str); 13] = [
    ("rz_model", "model"),
    ("rz_cancel", "cancel"),
    ("rz_store", "store"),
    ("rz_adapter", "adapter"),
    ("rz_conversation", "conversation"),
    ("rz_cache", "session"),
    ("rz_job", "job"),
    ("rz_encoder", "encoder"),
    ("rz_media", "medium"),
    ("rz_prompt", "prompt"),
    ("rz_runtime", "runtime"),
    ("rz_grammar", "grammar"),
    ("rz_sampler", "sampler"),
];

/// Functions that the thread of the environment calls.
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

/// Functions that take long, which a thread of the pool calls: JavaScript gets a promise.
const POOL: &str = "
    rz_adapter_load rz_cache_load rz_cache_save rz_conversation_load rz_conversation_read rz_conversation_reply
    rz_conversation_save rz_conversation_step rz_conversations_step rz_embed_into rz_embed_prompts_into
    rz_encoder_load rz_encoder_load_from rz_encoder_plan_get rz_grammar_new rz_job_new rz_job_step rz_media_from_audio
    rz_media_from_frames rz_media_from_image rz_media_from_pixels rz_media_from_samples rz_media_load rz_media_save
    rz_media_step rz_model_load rz_model_load_from rz_model_plan_get rz_store_clear rz_store_new rz_tokenize_into";

/// Functions that the addon calls by itself.
const OWN: [&str; 4] = ["rz_abi_version", "rz_layout_get", "rz_status_name", "rz_version"];

/// Parameters and fields that have one value, and those that JavaScript does not set.
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

/// Numbers made of other arguments: an object with switches, or a member with a name.
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

/// Numbers that have names, next to those of options: what their constants begin with.
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

/// Results of bits, with what their constants begin with, and results that are true or false.
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

/// Other names in JavaScript than those of the header: of members, and of arguments in messages.
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

/// Lists whose elements belong to those of another list, which comes before them.
const BESIDE: [(&str, &str); 3] =
    [("device_split", "devices"), ("scales", "adapters"), ("rz_media_from_frames.times", "frames")];

/// Checks that read several arguments, as statements.
const CHECKS: [(&str, &str); 2] = [
    ("rz_pixels", "check_pixels(t, params, n_data);"),
    ("rz_media_from_rows", "c->n_rows = rows_of(&t, c->n_rows, c->row_dim);"),
];

/// Structs that are read by hand.
const BY_HAND: [&str; 2] = ["rz_logit_bias", "rz_token_sequence"];

/// The entry of a member of a struct or a function, else of all members of this name.
fn found<T: Copy>(table: &[(&str, T)], owner: &str, name: &str) -> Option<T> {
    let own = format!("{owner}.{name}");
    let of = |name: &str| table.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    of(&own).or_else(|| of(name))
}

/// What the constants of a number begin with.
fn group_of(owner: &str, name: &str) -> Option<&'static str> {
    found(&NAMED, owner, name).or_else(|| found(&CHOICES, owner, name))
}

fn name_of(owner: &str, name: &str) -> String {
    found(&NAMES, owner, name).map_or_else(|| camel(name), str::to_owned)
}

fn kind_of(base: &str) -> String {
    base.trim_start_matches("rz_").to_uppercase()
}

/// All groups of names.
fn groups() -> Vec<&'static str> {
    let bits = BITS.iter().flat_map(|(_, bits)| bits.iter());
    let choices = bits.filter_map(|bit| if let Bits::Choice(_, begin) = bit { Some(*begin) } else { None });
    let named = CHOICES.iter().chain(&NAMED).chain(&SETS).map(|(_, begin)| *begin);
    let mut groups: Vec<_> = named.chain(choices).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// The names of a group with their constants, as JavaScript has them.
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

/// Functions and structs, each in parentheses of a macro, and the kinds of handles.
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

fn options_h(header: &Header) -> String {
    let mut text = format!("/* Names of numbers, and structs out of objects. {HEAD}\n");
    groups().iter().for_each(|begin| text += &format!("extern const choice {begin}NAMES[];\n"));
    for (structure, _) in read_structs(header) {
        text += &format!("void set_{structure}(task *t, napi_value options, void *at);\n");
    }
    text
}

/// Structs that arguments are made into.
fn read_structs<'a>(header: &'a Header<'a>) -> impl Iterator<Item = (&'a str, &'a [Value])> {
    let unused = ["rz_adapter_params"];
    let others = ["rz_placement", "rz_pixels", "rz_part"];
    header
        .structs
        .iter()
        .copied()
        .filter(move |(name, _)| name.ends_with("_params") && !unused.contains(name) || others.contains(name))
}

fn options_c(header: &Header) -> String {
    let mut text = format!("/* Names of numbers, and structs out of objects. {HEAD}\n#include \"internal.h\"\n");
    for begin in groups() {
        text += &format!("\nconst choice {begin}NAMES[] = {{\n");
        for (name, constant) in names(header, begin) {
            text += &format!("    {{\"{name}\", {constant}}},\n");
        }
        text += "    {NULL, 0},\n};\n";
    }
    for (structure, fields) in read_structs(header) {
        text += &format!(
            "\nvoid set_{structure}(task *t, napi_value options, void *at) {{\n    {structure} *params = at;\n"
        );
        for field in fields {
            setting(header, structure, fields, field).iter().for_each(|line| text += &format!("    {line}\n"));
        }
        if let Some(check) = found(&CHECKS, "", structure) {
            text += &format!("    {check}\n");
        }
        text += "}\n";
    }
    text
}

/// The statements that set a field out of the members of an object.
fn setting(header: &Header, structure: &str, fields: &[Value], field: &Value) -> Vec<String> {
    let name = field.name.as_str();
    let fixed = found(&FIXED, structure, name);
    let counts = |array: &Value| {
        array.pointers > 0 && [format!("n_{}", array.name), format!("{}_len", array.name)].contains(&field.name)
    };
    if fixed.is_some_and(str::is_empty)
        || name.starts_with("reserved")
        || field.is_user()
        || fields.iter().any(counts)
        || NOT_IN_JS.contains(&(structure, name))
    {
        return Vec::new();
    }
    if field.is_callback() {
        // A cancel is a field of the same struct, and has the progress.
        return Vec::new();
    }
    let of_bits = bits(header, structure, name, "options").map(|bits| {
        let line = |(condition, bit): (String, String)| format!("if ({condition}) params->{name} |= {bit};");
        bits.into_iter().map(line).collect()
    });
    if let Some(lines) = of_bits {
        return lines;
    }
    let member = name_of(structure, name);
    let value = format!("member_of(t, options, \"{member}\")");
    let counted = |number: &str| fields.iter().any(|field| field.name == number);
    let count = format!("n_{name}");
    let group = group_of(structure, name);
    let set = match (field.base.as_str(), field.pointers) {
        _ if name == "struct_size" => "sizeof *params".to_owned(),
        _ if fixed.is_some() => fixed.unwrap_or_default().to_owned(),
        ("uint32_t", 0) if group.is_some() => {
            format!("choice_member(t, options, \"{member}\", {}NAMES)", group.unwrap_or_default())
        }
        ("uint32_t", 0) if field.doc.contains("RZ_NONE") => format!("or_none_member(t, options, \"{member}\")"),
        ("uint32_t", 0) => format!("(uint32_t)uint_member(t, options, \"{member}\", UINT32_MAX)"),
        ("int32_t", 0) => format!("int_member(t, options, \"{member}\")"),
        ("float", 0) => format!("float_member(t, options, \"{member}\")"),
        (_, 0) => format!("uint_member(t, options, \"{member}\", MOST)"),
        ("rz_cancel", 1) => {
            let mut lines = vec![format!("params->cancel = task_use_optional(t, {value}, CANCEL);")];
            if counted("progress") {
                lines.push("params->progress_user = params->cancel ? t->uses[t->n_uses - 1].handle : NULL;".to_owned());
                lines.push("params->progress = params->cancel ? on_progress : NULL;".to_owned());
            }
            return lines;
        }
        ("char", 1) if counted(&format!("{name}_len")) => {
            format!("string_member(t, options, \"{member}\", &params->{name}_len)")
        }
        ("char", 1) => format!("terminated_member(t, options, \"{member}\")"),
        ("void", 1) => {
            let read = format!("bytes_of(t, {value}, \"{member}\", &n_{name});");
            return vec![format!("size_t n_{name} = 0;"), format!("params->{name} = {read}")];
        }
        (base, pointers) => {
            let list = list(header, base, pointers, &value, &member, group);
            match (list, found(&BESIDE, structure, name)) {
                (Some(list), Some(of)) => {
                    let display = camel(of);
                    return vec![
                        format!("size_t n_{name} = 0;"),
                        format!("params->{name} = {}", list.replace("COUNT", &format!("n_{name}")) + ";"),
                        format!(
                            "check_count(t, params->{name}, \"{member}\", n_{name}, params->n_{of}, \"{display}\");"
                        ),
                    ];
                }
                (Some(list), None) if counted(&count) => list.replace("COUNT", &format!("params->{count}")),
                _ if header.is_handle(field) => format!("task_use_optional(t, {value}, {})", kind_of(base)),
                _ => format!("struct_of(t, {value}, sizeof({base}), set_{base})"),
            }
        }
    };
    vec![format!("params->{name} = {set};")]
}

/// The expression that reads a list, whose number of elements goes to COUNT.
fn list(header: &Header, base: &str, pointers: usize, value: &str, name: &str, group: Option<&str>) -> Option<String> {
    let is_handle = header.handles.contains(base);
    Some(match (base, pointers) {
        ("uint32_t", 1) if group.is_some() => {
            format!("choices_of(t, {value}, \"{name}\", {}NAMES, &COUNT)", group.unwrap_or_default())
        }
        ("uint32_t", 1) => format!("tokens_of(t, {value}, \"{name}\", &COUNT)"),
        ("float", 1) => format!("floats_of(t, {value}, \"{name}\", &COUNT)"),
        ("double", 1) => format!("doubles_of(t, {value}, \"{name}\", &COUNT)"),
        ("char", 2) => format!("texts_of(t, {value}, \"{name}\", &COUNT)"),
        _ if is_handle && pointers == 2 => format!("handles_of(t, {value}, \"{name}\", {}, &COUNT)", kind_of(base)),
        _ if !is_handle && pointers == 1 && base.starts_with("rz_") => {
            format!("structs_of(t, {value}, \"{name}\", sizeof({base}), set_{base}, &COUNT)")
        }
        _ => return None,
    })
}

/// Conditions and bits of a number that switches make.
fn bits(header: &Header, owner: &str, name: &str, from: &str) -> Option<Vec<(String, String)>> {
    if let Some(bits) = found(&BITS, owner, name) {
        let of = |bit: &Bits| match bit {
            Bits::Switch(member, constant) => (format!("bool_member(t, {from}, \"{member}\")"), (*constant).to_owned()),
            Bits::Choice(member, begin) => (
                format!("member_of(t, {from}, \"{member}\")"),
                format!("choice_member(t, {from}, \"{member}\", {begin}NAMES)"),
            ),
        };
        return Some(bits.iter().map(of).collect());
    }
    let (_, begin) = FLAGS.iter().find(|(structure, _)| *structure == owner && name == "flags")?;
    let flags = header
        .constants
        .iter()
        .filter_map(|constant| Some((constant.name.strip_prefix(begin)?.to_lowercase(), constant.name)));
    let flags = flags.filter(|(flag, _)| !NOT_IN_JS.contains(&(owner, flag)));
    Some(
        flags
            .map(|(flag, constant)| (format!("bool_member(t, {from}, \"{}\")", camel(&flag)), constant.to_owned()))
            .collect(),
    )
}

/// A function of the addon.
#[derive(Default)]
struct Call {
    /// Names of the arguments, for the comment.
    arguments: Vec<String>,
    /// Declarations of what it keeps.
    fields: Vec<String>,
    /// Statements that read the arguments.
    reads: Vec<String>,
    /// Statements ahead of each attempt.
    before: Vec<String>,
    after: Vec<String>,
    /// Arguments in C.
    passed: Vec<String>,
    has_capacity: bool,
    /// Names and expressions of what it returns.
    results: Vec<(String, String)>,
    /// The expression of a struct that the results are members of.
    object: Option<String>,
}

impl Call {
    fn of(header: &Header, function: &Signature) -> Self {
        let mut call = Self::default();
        let parameters = &function.parameters;
        let capacity = parameters.iter().position(|value| value.name == "capacity" && value.pointers == 0);
        let capacity = capacity.filter(|_| function.name.ends_with("_into") || function.name == "rz_model_plan_get");
        let is_buffer = |i: usize| {
            let end = capacity.unwrap_or(0);
            i < end
                && parameters[i].pointers == 1
                && (i + 1 == end
                    || i + 2 == end && parameters[i].name.ends_with('s') && parameters[i + 1].name.ends_with('s'))
                && parameters[i].name != "flags"
        };
        for (i, value) in parameters.iter().enumerate() {
            let name = value.name.as_str();
            let fixed = found(&FIXED, &function.name, name);
            if value.base == "rz_error" {
                call.passed.push("&t->error".to_owned());
            } else if let Some(fixed) = fixed {
                call.passed.push(fixed.to_owned());
            } else if capacity == Some(i) {
                call.fields.push("size_t capacity;".to_owned());
                call.passed.push("c->capacity".to_owned());
            } else if is_buffer(i) {
                call.buffer(function, value, &parameters[capacity.unwrap_or(0) + 1].name);
            } else if value.is_user() {
                call.passed.push(format!("&c->{}", parameters[i - 1].name));
            } else if function.direction(i, &header.handles()) == "in" {
                call.argument(header, function, i);
            } else {
                call.output(header, function, value, capacity.is_some_and(|at| at + 1 == i));
            }
        }
        call
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.trim_end_matches(';').rsplit([' ', '*']).next() == Some(name))
    }

    /// An array that is made larger until it suffices.
    fn buffer(&mut self, function: &Signature, value: &Value, count: &str) {
        let (name, base) = (&value.name, &value.base);
        self.fields.push(format!("{base} *{name};"));
        self.before.push(format!("c->{name} = task_alloc(t, c->capacity * sizeof *c->{name});"));
        self.passed.push(format!("c->{name}"));
        let result = match base.as_str() {
            "char" => format!("string_value(env, c->{name}, c->{count})"),
            "uint32_t" => format!("tokens_value(env, c->{name}, c->{count})"),
            "float" => format!("floats_value(env, c->{name}, c->{count})"),
            _ => {
                self.before.push(format!("for (size_t i = 0; c->{name} && i < c->capacity; i++) c->{name}[i].struct_size = sizeof *c->{name};"));
                format!("list_value(env, c->{name}, c->{count}, sizeof *c->{name}, value_{base})")
            }
        };
        self.has_capacity = true;
        self.results.push((name_of(&function.name, name), result));
    }

    fn output(&mut self, header: &Header, function: &Signature, value: &Value, is_count: bool) {
        let (name, base) = (&value.name, &value.base);
        if value.pointers == 2 {
            self.fields.push(format!("{base} *{name};"));
            self.after.push(format!("t->made = t->status < 0 ? NULL : c->{name};"));
            self.after.push(format!("t->made_kind = {};", kind_of(base)));
            self.results.push((name.clone(), "task_made(t)".to_owned()));
        } else {
            self.fields.push(format!("{base} {name};"));
            if header.structs.iter().any(|(structure, _)| structure == base) {
                self.before.push(format!("c->{name}.struct_size = sizeof c->{name};"));
                self.object = Some(format!("value_{base}(env, &c->{name})"));
            } else if !is_count {
                let result = result(&function.name, value, &format!("c->{name}"));
                self.results.push((name_of(&function.name, name), result));
            }
        }
        self.passed.push(format!("&c->{name}"));
    }

    fn argument(&mut self, header: &Header, function: &Signature, i: usize) {
        let (owner, value) = (function.name.as_str(), &function.parameters[i]);
        let (name, base) = (value.name.as_str(), value.base.as_str());
        if self.has(name) {
            self.passed.push(format!("c->{name}")); // the count of an array before it
            return;
        }
        let given = format!("arguments[{}]", self.arguments.len());
        let shown = name_of(owner, name);
        let group = group_of(owner, name);
        let is_optional = name == "cancel" || OPTIONAL.contains(&format!("{owner}.{name}").as_str());
        let count = function.count(i, &header.handles()).map(str::to_owned);
        let mut passed = format!("c->{name}");
        let read = match (base, value.pointers) {
            ("rz_read_callback", _) => {
                self.fields.push(format!("reader {name};"));
                self.reads.push(format!("c->{name}.bytes = bytes_of(t, {given}, \"bytes\", &c->{name}.len);"));
                self.arguments.push("bytes".to_owned());
                self.passed.push("on_read".to_owned());
                return;
            }
            ("rz_write_callback", _) => {
                self.fields.push(format!("writer {name};"));
                self.after.push(format!("if (t->status < 0) writer_free(&c->{name});"));
                self.results.push((name.to_owned(), format!("writer_value(env, &c->{name})")));
                self.passed.push("on_write".to_owned());
                return;
            }
            ("uint32_t", 0) if bits(header, owner, name, &given).is_some() => {
                for (condition, bit) in bits(header, owner, name, &given).unwrap_or_default() {
                    self.reads.push(format!("if ({condition}) c->{name} |= {bit};"));
                }
                String::new()
            }
            ("uint32_t", 0) if group.is_some() => {
                format!("choice_of(t, {given}, \"{shown}\", {}NAMES)", group.unwrap_or_default())
            }
            ("uint32_t", 0) => format!("(uint32_t)uint_of(t, {given}, \"{shown}\", UINT32_MAX)"),
            ("uint64_t", 0) if name == "budget_us" => {
                format!("is_given(env, {given}) ? uint_of(t, {given}, \"the budget\", MOST) : RZ_NO_LIMIT")
            }
            (_, 0) => format!("uint_of(t, {given}, \"{shown}\", MOST)"),
            ("char", 1) => {
                let read = match &count {
                    Some(count) => format!("string_of(t, {given}, \"{shown}\", &c->{count})"),
                    None => format!("terminated_of(t, {given}, \"{shown}\")"),
                };
                if is_optional { format!("is_given(env, {given}) ? {read} : NULL") } else { read }
            }
            ("void", 1) => format!("bytes_of(t, {given}, \"{shown}\", &c->{})", count.clone().unwrap_or_default()),
            ("rz_source", 1) => format!("source_of(t, {given}, \"{shown}\", &c->n)"),
            ("uint32_t", 2) => format!("token_lists_of(t, {given}, \"{shown}\", &c->lengths, &c->n_texts)"),
            (_, 1) if header.handles.contains(base) => {
                let end = if is_optional { "_optional" } else { "" };
                format!("task_use{end}(t, {given}, {})", kind_of(base))
            }
            (base, 1) if base.starts_with("rz_") && count.is_none() => {
                self.fields.push(format!("{base} {name};"));
                self.reads.push(format!("set_{base}(t, {given}, &c->{name});"));
                passed = format!("&c->{name}");
                String::new()
            }
            (base, pointers) => list(header, base, pointers, &given, &shown, group).expect("a list"),
        };
        if let Some(beside) = found(&BESIDE, owner, name) {
            let of = function.parameters.iter().position(|value| value.name == beside).expect("a list");
            let of = function.count(of, &header.handles()).expect("a number");
            self.reads.push(format!("size_t n_{name} = 0;"));
            self.reads.push(format!("c->{name} = {};", read.replace("COUNT", &format!("n_{name}"))));
            self.reads.push(format!("check_count(t, c->{name}, \"{shown}\", n_{name}, c->{of}, \"{beside}\");"));
        } else if !read.is_empty() {
            let count = count.clone().unwrap_or_default();
            self.reads.push(format!("c->{name} = {};", read.replace("COUNT", &format!("c->{count}"))));
        }
        if !self.has(name) {
            let code = &value.code;
            self.fields.push(if code.ends_with('*') { format!("{code}{name};") } else { format!("{code} {name};") });
        }
        match base {
            "uint32_t" if value.pointers == 2 => {
                self.fields.push("const size_t *lengths;".to_owned());
                self.fields.push("size_t n_texts;".to_owned());
            }
            "rz_source" => self.fields.push("size_t n;".to_owned()),
            _ => {}
        }
        if let Some(count) = count.filter(|count| !self.fields.contains(&format!("size_t {count};"))) {
            self.fields.push(format!("size_t {count};"));
        }
        self.arguments.push(shown);
        self.passed.push(passed);
    }

    fn code(&self, function: &Signature, is_pool: bool, name: &str) -> String {
        let own = function.name.trim_start_matches("rz_");
        let mut text = String::new();
        let later = if name.ends_with("Later") { "_later" } else { "" };
        if later.is_empty() {
            text += &format!("\n/* {name}({}). */\n", self.arguments.join(", "));
            text += &format!("typedef struct {own} {{\n");
            self.fields.iter().for_each(|field| text += &format!("    {field}\n"));
            text += if self.fields.is_empty() { "    char none;\n" } else { "" };
            text += &format!("}} {own};\n\nstatic void run_{own}(task *t) {{\n    {own} *c = t->data;\n");
            text += &self.attempts(function);
            self.after.iter().for_each(|line| text += &format!("    {line}\n"));
            let finish = self.finish(function);
            text += &format!("}}\n\nstatic napi_value finish_{own}(task *t) {{\n");
            text += &if finish.contains("c->") { format!("    {own} *c = t->data;\n") } else { String::new() };
            text += if finish.contains("(env") { "    napi_env env = t->env;\n" } else { "" };
            text += &format!("{finish}}}\n");
        }
        text += &format!("\nstatic napi_value call_{own}{later}(napi_env env, napi_callback_info info) {{\n");
        text += "    napi_value arguments[MAX_ARGUMENTS];\n    task begun = task_begin(env, info, arguments), *t = &begun;\n";
        text +=
            &format!("    {own} *c = t->data = task_alloc(t, sizeof *c);\n    if (!c) return task_return(t, NULL);\n");
        self.reads.iter().for_each(|line| text += &wrap(line, "    "));
        if let Some(check) = found(&CHECKS, "", &function.name) {
            text += &format!("    {}\n", check.replace("&t", "t"));
        }
        let how = if is_pool { "task_start" } else { "task_now" };
        text + &format!("    return {how}(t, run_{own}, finish_{own});\n}}\n")
    }

    /// The statements that call the function, until its buffers suffice.
    fn attempts(&self, function: &Signature) -> String {
        let passed = self.passed.join(", ");
        let call = format!("t->lib->{}({passed});", function.name);
        let is_status = function.result.base == "rz_status";
        let mut text = String::new();
        let line = |line: &str, indent: &str| wrap(line, indent);
        if self.has_capacity {
            let count =
                self.fields.iter().find_map(|field| field.strip_prefix("size_t ").filter(|name| *name != "capacity;"));
            let count = count.map_or("0", |name| name.trim_end_matches(';'));
            let count = if self.reads.iter().any(|read| read.contains(&format!("&c->{count}"))) {
                format!(" + c->{count}")
            } else {
                String::new()
            };
            let is_text = self.fields.iter().any(|field| field.starts_with("char *"));
            let first = match (is_text, function.name.as_str()) {
                (_, "rz_model_plan_get") => "RZ_DEVICES_MAX".to_owned(),
                (true, _) => format!("4096{}", count.replace("+ ", "+ 8 * ")),
                (false, _) => format!("256{count}"),
            };
            text += &format!("    c->capacity = {first};\n    do {{\n");
            self.before.iter().for_each(|before| text += &line(before, "        "));
            text += &line(&format!("if (t->status >= 0) t->status = {call}"), "        ");
            let last = &function.parameters
                [function.parameters.iter().position(|value| value.name == "capacity").unwrap_or(0) + 1];
            return text + &format!("    }} while (task_repeats(t, &c->capacity, c->{}));\n", last.name);
        }
        self.before.iter().for_each(|before| text += &line(before, "    "));
        let result = if is_status {
            "t->status = "
        } else if function.is_void() {
            ""
        } else {
            "c->result = "
        };
        text + &line(&format!("{result}{call}"), "    ")
    }

    fn finish(&self, function: &Signature) -> String {
        let mut text = String::new();
        if function.name.ends_with("_step") {
            return "    return number_value(t->env, t->status);\n".to_owned();
        }
        text += if function.result.base == "rz_status" {
            "    if (t->status > 0) return undefined_value(t->env);\n"
        } else {
            ""
        };
        match (&self.object, self.results.as_slice()) {
            (None, []) => return "    return undefined_value(t->env);\n".to_owned(),
            (Some(object), []) => text += &format!("    return {object};\n"),
            (None, [(_, result)]) => text += &format!("    return {result};\n"),
            (object, results) => {
                let object = object.clone().unwrap_or_else(|| "object_value(env)".to_owned());
                text += &format!("    napi_value object = {object};\n");
                for (name, result) in results {
                    text += &wrap(&format!("set_member(env, object, \"{name}\", {result});"), "    ");
                }
                text += "    return object;\n";
            }
        }
        text
    }
}

/// A statement in lines of at most 120 columns.
fn wrap(statement: &str, indent: &str) -> String {
    if indent.len() + statement.len() <= 120 {
        return format!("{indent}{statement}\n");
    }
    let lines = wrapped(statement, &format!("{indent}    ")).join("\n");
    format!("{indent}{}\n", lines.trim_start())
}

/// The expression of a value that a call wrote.
fn result(owner: &str, value: &Value, from: &str) -> String {
    let name = value.name.as_str();
    if let Some(begin) = found(&SETS, owner, name) {
        return format!("names_value(env, {begin}NAMES, {from})");
    }
    if let Some(begin) = group_of(owner, name) {
        return format!("string_value(env, choice_name({begin}NAMES, (uint32_t){from}), NAPI_AUTO_LENGTH)");
    }
    match (value.base.as_str(), &value.length) {
        _ if BOOLS.contains(&name) => format!("bool_value(env, {from})"),
        ("char", Some(_)) => format!("string_value(env, {from}, NAPI_AUTO_LENGTH)"),
        (_, Some(_)) => format!("bytes_value(env, {from}, sizeof {from})"),
        _ => format!("number_value(env, {from})"),
    }
}

/// Structs that calls write.
fn written<'a>(header: &'a Header<'a>, calls: &[Call]) -> Vec<(&'a str, &'a [Value])> {
    let all = calls
        .iter()
        .flat_map(|call| call.object.iter().cloned().chain(call.results.iter().map(|(_, result)| result.clone())))
        .collect::<String>();
    header
        .structs
        .iter()
        .copied()
        .filter(|(name, _)| all.contains(&format!("value_{name}(")) || all.contains(&format!("value_{name})")))
        .collect()
}

fn calls(header: &Header) -> String {
    let mut text =
        format!("/* The functions that JavaScript calls. {HEAD}\n#include \"internal.h\"\n#include <stdlib.h>\n");
    let named = |name: &str| {
        *header.functions.iter().find(|function| function.name == name).unwrap_or_else(|| panic!("no function {name}"))
    };
    let here = HERE.split_whitespace().map(|name| (name, false));
    let pool = POOL.split_whitespace().map(|name| (name, true));
    let mut made: Vec<_> =
        here.chain(pool).map(|(name, is_pool)| (named(name), is_pool, Call::of(header, named(name)))).collect();
    for (function, _, call) in &mut made {
        if function.result.base != "rz_status" && !function.is_void() {
            call.fields.push(format!("{} result;", function.result.base));
            call.results.push(("result".to_owned(), "number_value(env, c->result)".to_owned()));
        }
    }
    let only: Vec<Call> = made
        .iter()
        .map(|(_, _, call)| Call { results: call.results.clone(), object: call.object.clone(), ..Call::default() })
        .collect();
    for (structure, fields) in written(header, &only) {
        text += &format!(
            "\nstatic napi_value value_{structure}(napi_env env, const void *at) {{\n    const {structure} *from = at;\n    napi_value object = object_value(env);\n"
        );
        for field in fields.iter().filter(|field| field.name != "struct_size" && !field.name.starts_with("reserved")) {
            let from = format!("from->{}", field.name);
            if let Some(bits) = found(&SPLIT, structure, &field.name) {
                for (name, constant) in bits {
                    text += &wrap(
                        &format!("set_member(env, object, \"{name}\", bool_value(env, {from} & {constant}));"),
                        "    ",
                    );
                }
                continue;
            }
            let absent =
                found(&ABSENT, structure, &field.name).map_or(String::new(), |none| format!("if ({from} != {none}) "));
            let set = format!(
                "{absent}set_member(env, object, \"{}\", {});",
                name_of(structure, &field.name),
                result(structure, field, &from)
            );
            text += &wrap(&set, "    ");
        }
        text += "    return object;\n}\n";
    }
    let mut exports = String::new();
    for (function, is_pool, call) in &made {
        let own = function.name.trim_start_matches("rz_").trim_end_matches("_into").trim_end_matches("_get");
        let is_both = *is_pool && HERE.split_whitespace().any(|name| name == function.name);
        let name = camel(own) + if is_both { "Later" } else { "" };
        text += &call.code(function, *is_pool, &name);
        let (own, later) = (function.name.trim_start_matches("rz_"), if is_both { "_later" } else { "" });
        exports += &format!("    export_function(env, exports, \"{name}\", call_{own}{later});\n");
    }
    text + &format!("\nvoid export_calls(napi_env env, napi_value exports) {{\n{exports}}}\n")
}
