//! Writes results in Python: named tuples, whose fields have the C names.

use super::records::DOCS;
use crate::bindings::Header;
use crate::header::Value;
use crate::options::{plain, wrapped};

const HEAD: &str = r#""""The results of calls. The build writes this file: `make header`."""

import builtins
from typing import TYPE_CHECKING, FrozenSet, NamedTuple, Optional, Tuple

from ._options import Pooling

if TYPE_CHECKING:
    from ._models import Capability
"#;

/// Structs with their classes, comments and fields, in the order of the tuples.
const RECORDS: [(&str, &str, &str, &str); 12] = [
    (
        "rz_device_info",
        "Device",
        "What models can be loaded to.",
        "index name kind isa memory_total memory_free unavailable id available",
    ),
    ("rz_runtime_info", "RuntimeInfo", "The state of a runtime.", "threads memory_used memory_peak memory_limit"),
    (
        "rz_model_info",
        "ModelInfo",
        "Description of a model: what its file contains, and where it was loaded.",
        "architecture name n_layers hidden_dim ffn_dim n_heads n_kv_heads head_dim vocab_size context_length device \
         bos_token eos_token n_params weight_bytes gpu_layers devices device_layers has_chat_template \
         template_writes_bos n_unknown reads_source isa capabilities embedding_dim pooling n_scores \
         experts_host_first experts_host_layers experts_host experts_device experts_copied_from",
    ),
    ("rz_phase_metrics", "Phase", "Calls of one kind.", "count sum_ns"),
    (
        "rz_backend_metrics",
        "Work",
        "Counters of one kind of device; times in nanoseconds.",
        "dispatches bytes latency_sum_ns latency_min_ns latency_max_ns latency_mean_ns latency_variance_ns2 \
         latency_histogram",
    ),
    (
        "rz_model_plan_device",
        "PlanDevice",
        "Memory on one GPU, in bytes.",
        "device n_layers weights cache scratch total",
    ),
    (
        "rz_model_plan",
        "Plan",
        "Memory that a model and its sessions take, in bytes.",
        "gpu_layers weights_host weights_device cache_host cache_device cache_token scratch_host scratch_device \
         load_peak_host total_host total_device devices experts_host_first experts_host_layers experts_host \
         experts_device",
    ),
    (
        "rz_encoder_info",
        "EncoderInfo",
        "What an encoder is.",
        "projector is_mutual row_dim n_layers tile_side grain min_rows max_rows weight_bytes scratch_bytes kinds \
         sample_rate device",
    ),
    (
        "rz_encoder_plan",
        "EncoderPlan",
        "Memory that an encoder takes in addition to its model's, in bytes.",
        "max_rows weights_host scratch_host row weights_device scratch_device device",
    ),
    (
        "rz_media_info",
        "MediaInfo",
        "Description of an encoded image, video or audio.",
        "kind n_rows n_tokens row_dim columns lines tile_columns tile_lines has_overview width height seen_width \
         seen_height bytes encode_ns hash pairs",
    ),
    (
        "rz_store_info",
        "StoreInfo",
        "The state of a store.",
        "n_entries n_files memory_bytes disk_bytes hits misses reused_tokens n_unwritten memory_limit disk_limit",
    ),
    (
        "rz_conversation_info",
        "ConversationInfo",
        "The state of a conversation and of its last reply.",
        "n_messages first_in_prompt state end stopped prompt_tokens reused_tokens prompt_done n_tokens \
         reasoning_tokens drafted accepted cache_len cache_capacity n_media prompt_ns tokens_ns first_token_ns",
    ),
];

/// Fields whose type or comment differs from C's; an empty type means the C type.
const OWN: [(&str, &str, &str); 28] = [
    ("rz_device_info.index", "", "Index of the device, for loads; the CPU is 1. It may differ between processes."),
    ("rz_device_info.kind", "str", "\"cpu\" or \"gpu\"."),
    ("rz_device_info.available", "bool", "True if models can be loaded onto the device."),
    (
        "rz_device_info.id",
        "",
        "Identifier that is equal in every process on this machine: \"cpu\", or the UUID of a GPU; empty if unknown.",
    ),
    ("rz_model_info.bos_token", "Optional[int]", "The token that begins a text; None if there is none."),
    ("rz_model_info.eos_token", "Optional[int]", "The token that ends a text; None if there is none."),
    ("rz_model_info.devices", "Tuple[int, ...]", "GPUs that have layers, in the order of the layers."),
    ("rz_model_info.device_layers", "Tuple[int, ...]", "Number of layers on each of `devices`."),
    ("rz_model_info.has_chat_template", "bool", "True if there is a chat template."),
    ("rz_model_info.template_writes_bos", "bool", "True if the chat template writes BOS."),
    ("rz_model_info.n_unknown", "", "Number of keys and tensors that `allow_unknown` ignored."),
    (
        "rz_model_info.reads_source",
        "bool",
        "True for an encoder-decoder model, whose sessions begin with `Media.from_tokens`.",
    ),
    (
        "rz_model_info.isa",
        "",
        "Instruction set of matrix products on the CPU, such as \"avx2\" or \"amx-bf16\"; empty if it has none.",
    ),
    (
        "rz_model_info.capabilities",
        "\"FrozenSet[Capability]\"",
        "Features: \"system\", \"tools\", \"reason\", \"switch_reasoning\", \"images\", \"audio\", \"video\", \
         \"generate\".",
    ),
    ("rz_model_info.embedding_dim", "", "Embedding dimension (`Model.embed`); 0: not an embedding model."),
    (
        "rz_model_info.pooling",
        "Optional[Pooling]",
        "The default pooling; None: the file names none, and `Model.embed` needs one.",
    ),
    ("rz_model_info.n_scores", "", "Classifier outputs (pooling \"rank\"); 0: no classifier."),
    (
        "rz_model_info.experts_copied_from",
        "Optional[int]",
        "Minimum tokens of a step that copies experts from the CPU to the GPU; None: never.",
    ),
    (
        "rz_backend_metrics.latency_histogram",
        "",
        "Latencies under 1 microsecond, from 1 to below 2, from 2 to below 4, and so on.",
    ),
    ("rz_model_plan.devices", "Tuple[PlanDevice, ...]", "Memory on each GPU that has layers."),
    ("rz_encoder_info.is_mutual", "bool", ""),
    (
        "rz_encoder_info.kinds",
        "Tuple[str, ...]",
        "The kinds of media that it encodes: \"image\", \"audio\", \"vector\" or \"video\".",
    ),
    ("rz_media_info.kind", "str", "\"image\", \"audio\" or \"video\"."),
    ("rz_media_info.has_overview", "bool", ""),
    ("rz_media_info.hash", "\"builtins.bytes\"", ""),
    (
        "rz_conversation_info.state",
        "Optional[str]",
        "Phase of the reply: \"prompt\", \"tokens\", \"ended\"; None before the first one and after one without a \
         message.",
    ),
    ("rz_conversation_info.end", "Optional[str]", "End reason of the reply, as `Job.end`."),
    (
        "rz_conversation_info.stopped",
        "Optional[str]",
        "The reason why its steps are stopped: \"cancelled\" or \"deadline\".",
    ),
];

/// Returns the named tuples.
pub fn python(header: &Header) -> String {
    let mut text = HEAD.to_owned();
    for (structure, class, doc, names) in RECORDS {
        let (_, fields) = *header.structs.iter().find(|(name, _)| *name == structure).expect(structure);
        text += &format!("\n\nclass {class}(NamedTuple):\n    \"\"\"{doc}\"\"\"\n\n");
        for name in names.split(' ') {
            let key = format!("{structure}.{name}");
            let own = OWN.iter().find(|(of, ..)| *of == key);
            let field = fields.iter().find(|field| field.name == name);
            let kind = match (own, field) {
                (Some((_, kind, _)), _) if !kind.is_empty() => *kind,
                (_, Some(field)) => kind_of(field),
                (_, None) => panic!("{key} is no field; OWN of generators/results/python.rs needs its type"),
            };
            let doc = own.map(|(.., doc)| (*doc).to_owned()).filter(|doc| !doc.is_empty());
            let doc = doc.unwrap_or_else(|| doc_of(&key, field.expect("a field")));
            assert!(!doc.is_empty(), "{key} has no comment; OWN of generators/results/python.rs needs one");
            // Tuples have methods of these names.
            let ignored = if ["index", "count"].contains(&name) { "  # type: ignore[assignment]" } else { "" };
            let space = if doc.starts_with('"') { " " } else { "" };
            text += &format!("    {name}: {kind}{ignored}\n");
            text += &(wrapped(&format!("\"\"\"{space}{doc}\"\"\""), "    ").join("\n") + "\n");
        }
    }
    text
}

fn kind_of(field: &Value) -> &'static str {
    match (field.base.as_str(), &field.length) {
        ("char", Some(_)) => "str",
        (_, Some(_)) => "Tuple[int, ...]",
        ("double", None) => "float",
        _ => "int",
    }
}

fn doc_of(key: &str, field: &Value) -> String {
    let own = DOCS.iter().find(|(of, _)| *of == key).or_else(|| DOCS.iter().find(|(of, _)| *of == field.name));
    let doc = own.map_or_else(|| plain(&field.doc), |(_, doc)| doc.replace("{none}", "None"));
    match doc.strip_prefix("1 if ").or_else(|| doc.strip_prefix("1: ")) {
        Some(rest) => format!("True if {}", rest.replace(", else 0.", ".")),
        None => doc,
    }
}
