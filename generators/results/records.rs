//! Writes the library's result structs as structs of Go and Swift, with the code that reads them: names, types and
//! comments.

use crate::bindings::Header;
use crate::header::Value;
use crate::options::go::{Field, HEAD, declared, pascal};
use crate::options::{camel, plain, wrapped};

/// C structs with their names in Go and in Swift, and comments. Swift reads structs without a name by methods.
const STRUCTS: [(&str, &str, &str, &str); 14] = [
    ("rz_device_info", "Device", "Device", "a CPU or GPU"),
    ("rz_runtime_info", "RuntimeInfo", "", "the state of a runtime"),
    ("rz_model_info", "Info", "ModelInfo", "the description of a model"),
    ("rz_model_plan", "Plan", "Plan", "the memory that a model and its sessions take, in bytes"),
    ("rz_model_plan_device", "PlanDevice", "", "the part of a plan that is on one GPU, in bytes"),
    ("rz_encoder_info", "EncoderInfo", "EncoderInfo", "the description of an encoder"),
    (
        "rz_encoder_plan",
        "EncoderPlan",
        "EncoderPlan",
        "the memory that an encoder takes in addition to its model's, in bytes",
    ),
    ("rz_media_info", "MediaInfo", "MediaInfo", "the description of media"),
    ("rz_job_info", "JobInfo", "", "the state of a job"),
    ("rz_store_info", "StoreInfo", "StoreInfo", "the state of a store"),
    (
        "rz_conversation_info",
        "ConversationInfo",
        "ConversationInfo",
        "the state of a conversation and of its last reply",
    ),
    ("rz_phase_metrics", "Phase", "Phase", "the number and the total time of the calls of one kind"),
    ("rz_metrics", "Metrics", "Metrics", "a model's work by phases, since it was loaded or its metrics were reset"),
    (
        "rz_backend_metrics",
        "DeviceMetrics",
        "Work",
        "the work of one kind of device, in dispatches: passes of tokens through its layers",
    ),
];

/// Names of fields in Go and Swift, for all structs or for one struct, if they differ from the C name without `n_` and
/// `_ns`; empty: the field is left out.
const NAMES: [(&str, &str, &str); 45] = [
    ("rz_device_info.index", "Index", "index"),
    ("available", "Available", "isAvailable"),
    ("template_threads", "", ""),
    ("rz_model_info.n_layers", "NLayers", "layers"),
    ("rz_encoder_info.n_layers", "NLayers", "layers"),
    ("ffn_dim", "FFNDim", ""),
    ("n_heads", "NHeads", ""),
    ("n_kv_heads", "NKVHeads", ""),
    ("head_dim", "HeadDim", ""),
    ("bos_token", "BOS", "bosToken"),
    ("eos_token", "EOS", "eosToken"),
    ("n_params", "NParams", "parameters"),
    ("n_scores", "NScores", "scores"),
    ("rz_model_info.gpu_layers", "GPULayers", ""),
    ("chat_template", "", "hasChatTemplate"),
    ("rz_model_info.experts_host_first", "", ""),
    ("rz_model_info.experts_host", "", ""),
    ("rz_model_info.experts_device", "", ""),
    ("rz_model_info.experts_host_layers", "", ""),
    ("experts_copied_from", "", ""),
    ("n_devices", "", ""),
    ("reads_source", "ReadsSource", ""),
    ("rz_model_info.isa", "ISA", ""),
    ("experts_host_first", "FirstExpertsHost", ""),
    ("experts_host_layers", "NExpertsHost", ""),
    ("is_mutual", "Mutual", "isMutual"),
    ("has_overview", "Overview", "hasOverview"),
    ("encode_ns", "EncodeTime", "encodeNanoseconds"),
    ("prompt_ns", "PromptTime", "promptTime"),
    ("tokens_ns", "TokensTime", "tokensTime"),
    ("prompt_total", "Prompt", ""),
    ("rz_store_info.memory_limit", "", ""),
    ("rz_store_info.disk_limit", "", ""),
    ("state", "", "state"),
    ("end_reason", "End", "end"),
    ("stopped", "", "stopped"),
    ("prompt_tokens", "Prompt", "promptTokens"),
    ("rz_conversation_info.reused_tokens", "Reused", "reusedTokens"),
    ("rz_job_info.cache_len", "", ""),
    ("cache_len", "Len", "cacheCount"),
    ("cache_capacity", "Capacity", "cacheCapacity"),
    ("n_media", "MediaCount", "media"),
    ("sum_ns", "Time", "nanoseconds"),
    ("device_kind", "", ""),
    ("latency_variance_ns2", "", "latencyVariance"),
];

/// Types that do not follow from the C types: in Go, with the conversion, and in Swift.
const TYPES: [(&str, [&str; 4]); 14] = [
    ("rz_device_info.index", ["uint32", "{}", "Int", "Int({})"]),
    ("rz_device_info.kind", ["DeviceKind", "DeviceKind({})", "Kind?", "Kind(rawValue: {})"]),
    ("kind", ["MediaKind", "MediaKind({})", "MediaKind", "MediaKind(rawValue: {}) ?? .image"]),
    ("kinds", ["[]MediaKind", "kinds({})", "[MediaKind]", "MediaKind.allCases.filter { c.kinds & $0.rawValue != 0 }"]),
    ("device", ["uint32", "{}", "Int", "Int({})"]),
    ("bos_token", ["uint32", "{}", "UInt32?", "{} == .max ? nil : {}"]),
    ("eos_token", ["uint32", "{}", "UInt32?", "{} == .max ? nil : {}"]),
    ("capabilities", ["Capabilities", "Capabilities({})", "Capabilities", "Capabilities(rawValue: {})"]),
    ("pooling", ["Pooling", "Pooling({})", "Pooling", "Pooling(rawValue: {}) ?? .model"]),
    ("end_reason", ["EndReason", "EndReason({})", "Job.End?", "Job.End(rawValue: {})"]),
    ("state", ["", "", "State", "State(rawValue: {}) ?? .none"]),
    ("stopped", ["", "", "RealizarError.Code?", "RealizarError.Code(stopped: {})"]),
    ("chat_template", ["", "", "Bool", "{} & UInt32(RZ_TEMPLATE_PRESENT) != 0"]),
    ("latency_mean_ns", ["time.Duration", "time.Duration({})", "Double", "{}"]),
];

/// Comments that replace the header's, which use terms of C.
pub const DOCS: [(&str, &str); 25] = [
    ("rz_device_info.kind", "Kind of the device."),
    (
        "rz_runtime_info.threads",
        "Number of compute threads from the next step on, including the calling \
         thread.",
    ),
    ("bos_token", "Token that begins a text (BOS); {none}: none."),
    ("eos_token", "Token that ends a text (EOS); {none}: none. There may be more."),
    ("rz_model_info.weight_bytes", "Bytes of weights in memory; 0 if no weights were loaded."),
    ("n_unknown", "Number of unknown keys and tensors that the load ignored."),
    (
        "reads_source",
        "True if the model is an encoder-decoder, which generates from a source text \
         (Model.MediaFromTokens).",
    ),
    ("chat_template", "True if the model has a usable chat template."),
    ("capabilities", "What the model and its conversations support."),
    ("embedding_dim", "Number of floats in a text embedding; 0: the model computes no embeddings."),
    (
        "rz_model_info.pooling",
        "Pooling of embeddings; the zero value: the file declares none, so that the caller must \
         choose.",
    ),
    ("n_scores", "Number of scores of the model's classifier (reranking); 0: it has no classifier."),
    ("rz_model_plan_device.weights", "Weights."),
    ("rz_model_plan_device.cache", "Part of one KV cache."),
    ("rz_model_plan_device.scratch", "Scratch memory."),
    ("rz_model_plan_device.total", "Total GPU memory."),
    ("rz_encoder_info.row_dim", "Number of floats per row."),
    ("kinds", "Kinds of media that the encoder accepts."),
    ("rz_media_info.kind", "Kind of the media."),
    ("end_reason", "Why the text has ended, once it has."),
    ("first_token_ns", "Time to first token (TTFT) in nanoseconds; 0 before the first token."),
    ("first_in_prompt", "Index of the first message in prompts; 0 unless turns were left out."),
    ("state", "State of the reply."),
    ("stopped", "Cancelled or deadline, if one of them stopped the reply."),
    (
        "gpu_products",
        "Matrix products of layers on the GPU, with adjacent norms and sums; all phases of GPUs are \
         counted only if the load asked for a profile.",
    ),
];

/// Fields in Go and in Swift that bindings fill in from other calls.
const OWN: [(&str, &str, &str); 4] = [
    (
        "rz_model_info",
        "\
\tDevices           []uint32 // GPUs that have layers, in layer order
\tDeviceLayers      []int    // number of layers on each of Devices
\tHasTemplate       bool     // RenderChat works
\tTemplateWritesBOS bool     // so tokenize its output without BOS
",
        "    /// GPUs that have layers, in layer order.
    public internal(set) var devices: [Int] = []
    /// Number of layers on each of `devices`.
    public internal(set) var deviceLayers: [Int] = []
",
    ),
    (
        "rz_model_plan",
        "\tDevices []PlanDevice // memory on each GPU that has layers\n",
        "    /// Range from the first to the last GPU layer whose experts are on the CPU.
    public internal(set) var expertLayersHost = 0..<0
    /// Memory on each GPU that has layers.
    public internal(set) var devices: [OnDevice] = []
",
    ),
    ("rz_job_info", "\tStopped error // context error that stopped an unfinished job; else nil\n", ""),
    (
        "rz_conversation_info",
        "\
\tUnfinished bool  // true during a reply
\tStopped    error // context error that stopped an unfinished reply; else nil
",
        "",
    ),
];

/// A struct.
struct Record<'a> {
    structure: &'a str,
    /// Names in Go and Swift.
    names: [&'a str; 2],
    doc: &'a str,
    fields: &'a [Value],
}

fn all<'a>(header: &Header<'a>) -> Vec<Record<'a>> {
    let of = |(structure, go, swift, doc)| {
        let (_, fields) = *header.structs.iter().find(|(name, _)| *name == structure).expect(structure);
        Record { structure, names: [go, swift], doc, fields }
    };
    STRUCTS.map(of).into()
}

const GO: usize = 0;
const SWIFT: usize = 1;

impl Record<'_> {
    /// Returns a table's entry for a field, of this struct or of all structs.
    fn entry<'t, T>(&self, table: &'t [T], field: &str, key: impl Fn(&T) -> &str) -> Option<&'t T> {
        let own = format!("{}.{field}", self.structure);
        table.iter().find(|row| key(row) == own).or_else(|| table.iter().find(|row| key(row) == field))
    }

    /// Returns the name of a field; `None`: the field is left out.
    fn name(&self, field: &str, language: usize) -> Option<String> {
        let is_profile = self.structure == "rz_metrics" && field.starts_with("gpu_");
        if field == "struct_size" || field == "reserved" || is_profile && language == GO {
            return None;
        }
        let plain = field.strip_prefix("n_").unwrap_or(field);
        let plain = plain.strip_suffix("_ns").unwrap_or(plain);
        match self.entry(&NAMES, field, |row| row.0) {
            Some((_, go, swift)) => {
                Some([go, swift][language]).filter(|name| !name.is_empty()).map(|name| name.to_string())
            }
            None => Some([pascal(plain), camel(plain)][language].clone()),
        }
    }

    /// Returns the type of a field, and the expression that reads it.
    fn kind(&self, field: &Value, language: usize) -> (String, String) {
        let value = format!("c.{}", field.name);
        if let Some((_, types)) = self.entry(&TYPES, &field.name, |row| row.0) {
            return (types[2 * language].to_owned(), types[2 * language + 1].replace("{}", &value));
        }
        let is_time = field.name.ends_with("_ns");
        let is_flag = field.doc.starts_with("1 if") || field.doc.starts_with("1:");
        let both = match (field.base.as_str(), &field.length) {
            ("char", Some(_)) => [
                ("string".to_owned(), format!("stringOf({value}[:])")),
                ("String".to_owned(), format!("text({value})")),
            ],
            ("uint8_t", Some(length)) => [
                (format!("[{length}]byte"), value.clone()),
                ("[UInt8]".to_owned(), format!("numbers({value}, UInt8.self)")),
            ],
            ("uint64_t", Some(length)) => [
                (format!("[{length}]uint64"), value.clone()),
                ("[UInt64]".to_owned(), format!("numbers({value}, UInt64.self)")),
            ],
            ("rz_phase_metrics", None) => {
                [("Phase".to_owned(), format!("{value}.value()")), ("Phase".to_owned(), format!("Phase({value})"))]
            }
            ("uint64_t", None) if is_time => {
                [("time.Duration".to_owned(), format!("time.Duration({value})")), ("UInt64".to_owned(), value)]
            }
            ("uint64_t", None) => [("uint64".to_owned(), value.clone()), ("UInt64".to_owned(), value)],
            ("double", None) => [("float64".to_owned(), value.clone()), ("Double".to_owned(), value)],
            _ if is_flag => {
                [("bool".to_owned(), format!("{value} != 0")), ("Bool".to_owned(), format!("{value} != 0"))]
            }
            _ => [("int".to_owned(), format!("int({value})")), ("Int".to_owned(), format!("Int({value})"))],
        };
        both[language].clone()
    }

    fn doc(&self, field: &Value, language: usize) -> String {
        let own = self.entry(&DOCS, &field.name, |row| row.0);
        let mut doc =
            own.map_or_else(|| plain(&field.doc), |(_, doc)| doc.replace("{none}", ["NoToken", "nil"][language]));
        // Times in Go have a unit.
        if language == GO && field.name.ends_with("_ns") {
            doc = doc.replace(" in nanoseconds", "");
        }
        if let Some(rest) = doc.strip_prefix("1 if ").or_else(|| doc.strip_prefix("1: ")) {
            doc = format!("True if {}", rest.replace(", else 0.", "."));
        }
        assert!(field.doc.is_empty() || !doc.is_empty(), "{}.{} needs a comment in DOCS", self.structure, field.name);
        for other in self.fields.iter().filter(|other| other.name.contains('_')) {
            if let Some(name) = self.name(&other.name, language) {
                doc = doc.replace(&other.name, &name);
            }
        }
        doc
    }

    /// Returns the fields that a language has, with their names.
    fn shown(&self, language: usize) -> impl Iterator<Item = (&Value, String)> {
        self.fields.iter().filter_map(move |field| Some((field, self.name(&field.name, language)?)))
    }

    fn own(&self, language: usize) -> &'static str {
        let own = OWN.iter().find(|(structure, ..)| *structure == self.structure);
        own.map_or("", |(_, go, swift)| [go, swift][language])
    }
}

pub fn go(header: &Header) -> String {
    let mut text = HEAD.to_owned() + "\nimport \"time\"\n";
    for record in all(header) {
        let name = record.names[GO];
        let fields = record.shown(GO).map(|(field, name)| Field {
            doc: record.doc(field, GO),
            name,
            kind: record.kind(field, GO).0,
        });
        let fields = declared(fields.collect());
        let own = match record.own(GO) {
            "" => String::new(),
            own => format!("\n{own}"),
        };
        let sets: String =
            record.shown(GO).map(|(field, name)| format!("\tv.{name} = {}\n", record.kind(field, GO).1)).collect();
        text += "\n";
        text += &wrapped(&format!("{name} is {}.", record.doc), "// ").join("\n");
        text += &format!(
            "\ntype {name} struct {{\n{fields}{own}}}\n\nfunc (c *{}) value() (v {name}) {{\n{sets}\treturn v\n}}\n",
            record.structure
        );
    }
    text
}

pub fn swift(header: &Header) -> String {
    let mut text =
        "// What the library fills in. The build writes this file: make header.\nimport CRealizar\n".to_owned();
    for record in all(header).iter().filter(|record| !record.names[SWIFT].is_empty()) {
        let name = record.names[SWIFT];
        text += &format!(
            "\n/// {}{}.\npublic struct {name}: Sendable, Hashable {{\n",
            record.doc[..1].to_uppercase(),
            &record.doc[1..]
        );
        let mut sets = String::new();
        for (field, name) in record.shown(SWIFT) {
            let (kind, value) = record.kind(field, SWIFT);
            let doc = record.doc(field, SWIFT);
            if !doc.is_empty() {
                text += &wrapped(&doc, "    /// ").join("\n");
                text += "\n";
            }
            text += &format!("    public let {name}: {kind}\n");
            sets += &format!("        {name} = {value}\n");
        }
        text += &format!("{}\n    init(_ c: {}) {{\n{sets}    }}\n}}\n", record.own(SWIFT), record.structure);
    }
    text
}
