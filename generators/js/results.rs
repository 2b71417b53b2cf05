//! Writes the code that converts results of calls to JavaScript values.

use super::{ABSENT, BOOLS, SETS, SPLIT, found, group_of, name_of, names, wrap};
use crate::bindings::Header;
use crate::header::Value;
use crate::options::{plain, wrapped};

/// Returns the expression of a value that a call has written.
pub fn result(owner: &str, value: &Value, from: &str) -> String {
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

fn is_told(field: &Value) -> bool {
    field.name != "struct_size" && !field.name.starts_with("reserved")
}

/// Returns the function that converts a struct to an object.
pub fn object(structure: &str, fields: &[Value]) -> String {
    let mut text = format!("\nstatic napi_value value_{structure}(napi_env env, const void *at) {{\n");
    text += &format!("    const {structure} *from = at;\n    napi_value object = object_value(env);\n");
    for field in fields.iter().filter(|field| is_told(field)) {
        let from = format!("from->{}", field.name);
        let set = |name: &str, value: String| format!("set_member(env, object, \"{name}\", {value});");
        if let Some(bits) = found(&SPLIT, structure, &field.name) {
            for (name, bit) in bits {
                text += &wrap(&set(name, format!("bool_value(env, {from} & {bit})")), "    ");
            }
            continue;
        }
        let absent = found(&ABSENT, structure, &field.name);
        let condition = absent.map_or(String::new(), |none| format!("if ({from} != {none}) "));
        let value = result(structure, field, &from);
        text += &wrap(&(condition + &set(&name_of(structure, &field.name), value)), "    ");
    }
    text + "    return object;\n}\n"
}

/// Structs that are results themselves, with their TypeScript names and comments.
const TYPES: [(&str, &str, &str); 8] = [
    ("rz_device_info", "Device", "A device that models can be loaded to."),
    ("rz_model_plan", "LoadPlan", "Memory that a model and its sessions will take, in bytes."),
    ("rz_model_info", "ModelFacts", "What the file of a model contains, and where it was loaded."),
    ("rz_encoder_info", "EncoderFacts", "What an encoder accepts, and what it makes of it."),
    ("rz_encoder_plan", "EncoderPlan", "Memory that an encoder will take in addition to its model, in bytes."),
    ("rz_media_info", "MediaInfo", "Description of media."),
    ("rz_store_info", "StoreInfo", "The state of a store."),
    ("rz_conversation_info", "ConversationInfo", "The state of a conversation and of its last reply."),
];

/// Comments that replace the header's, which mention C.
const DOCS: [(&str, &str); 31] = [
    ("rz_device_info.kind", "Kind of the device."),
    ("bos_token", "The token that begins a text; absent: none."),
    ("eos_token", "A token that ends a text; absent: none."),
    ("weight_bytes", "Bytes of weights in memory."),
    ("chatTemplate", "True if the model has a chat template."),
    ("templateWritesBos", "True if the chat template writes the token that begins a text."),
    ("n_unknown", "Number of keys and tensors that `allowUnknown` ignored."),
    ("reads_source", "True for an encoder-decoder model."),
    (
        "rz_model_info.experts_copied_from",
        "Minimum tokens of a step that copies experts from the CPU to the GPU; absent: never.",
    ),
    ("capabilities", "Features of its conversations, and \"generate\"."),
    ("embedding_dim", "Numbers of the embedding of a text (`embed`); 0: the model makes none."),
    ("pooling", "The default pooling; absent: the file names none, and `embed` needs one."),
    ("n_scores", "Classifier outputs (pooling \"rank\"); 0: no classifier."),
    ("is_mutual", "True if the rows of an image attend to each other, so that one step must compute them all."),
    ("rz_encoder_info.row_dim", "Numbers of a row, as many as the embeddings of the model have."),
    ("kinds", "Kinds of media that it encodes."),
    ("rz_media_info.kind", "Kind of media."),
    ("has_overview", "True if there is a tile of the whole image too."),
    ("first_in_prompt", "Index of the first message in prompts, > 0 after turns were left out (overflow \"forget\")."),
    ("state", "Phase of the reply; null before the first one."),
    ("end_reason", "Why the reply has ended; null if it has not."),
    ("stopped", "The reason why its steps are stopped, though it has not ended."),
    ("first_token_ns", "Time to first token in nanoseconds."),
    ("available", "True if models can be loaded to it."),
    ("rz_device_info.index", "Number of the device, for `LoadOptions.device`; the CPU is 1."),
    ("experts_host_layers", "The number of layers up to the last one whose experts are on the CPU."),
    ("rz_model_plan.experts_host", "Experts (MoE) on the CPU."),
    ("rz_model_plan.experts_device", "Experts on GPUs."),
    ("vocab_size", "Number of token ids, which begin at 0."),
    ("memory_limit", "Ceilings in bytes on prefixes in memory, and on files."),
    ("disk_limit", "Ceiling in bytes on files."),
];

/// Returns the results as TypeScript types.
pub fn types(header: &Header) -> String {
    let mut text = "// The results of calls. The build writes this file: make header.\n".to_owned();
    text += "import type { Pooling } from \"./options\";\n";
    for (structure, name, doc) in TYPES {
        let (_, fields) = header.structs.iter().find(|(found, _)| *found == structure).expect(structure);
        text += &format!("\n/** {doc} */\nexport interface {name} {{\n");
        // Instead of the number of devices, JavaScript has their list.
        for field in fields.iter().filter(|field| is_told(field) && field.name != "n_devices") {
            let optional = if found(&ABSENT, structure, &field.name).is_some() { "?" } else { "" };
            let union = |begin| {
                names(header, begin).into_iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(" | ")
            };
            let set = found(&SETS, structure, &field.name);
            let kind = match (set, group_of(structure, &field.name)) {
                (Some(begin), _) => format!("({})[]", union(begin)),
                (None, Some(begin)) if structure == "rz_conversation_info" => format!("{} | null", union(begin)),
                (None, Some("RZ_POOLING_")) => "Pooling".to_owned(),
                (None, Some(begin)) => union(begin),
                _ if BOOLS.contains(&field.name.as_str()) => "boolean".to_owned(),
                _ => match (field.base.as_str(), &field.length) {
                    ("char", Some(_)) => "string".to_owned(),
                    (_, Some(_)) => "Uint8Array".to_owned(),
                    _ => "number".to_owned(),
                },
            };
            let members = match found(&SPLIT, structure, &field.name) {
                Some(bits) => bits.iter().map(|(name, _)| ((*name).to_owned(), "boolean".to_owned())).collect(),
                None => vec![(name_of(structure, &field.name), kind)],
            };
            for (name, kind) in members {
                let own = found(&DOCS, structure, &field.name).or_else(|| found(&DOCS, structure, &name));
                let doc = own.map_or_else(|| plain(&field.doc), str::to_owned);
                assert!(!doc.is_empty(), "{structure}.{name} has no comment without terms of C; DOCS needs one");
                let doc = wrapped(&doc, "   * ").join("\n");
                text += &format!("  /** {} */\n  {name}{optional}: {kind};\n", doc.trim_start_matches("   * "));
            }
        }
        text += "}\n";
    }
    text
}
