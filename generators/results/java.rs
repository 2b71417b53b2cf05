//! Writes enums and the readers of results in Java; the records are members of other classes.

use super::super::bindings::Header;
use super::super::header::Value;
use super::super::options::camel;
use super::ENUMS;

/// Structs, their records, additional values of the records, and the components of the records: fields, or names of
/// additional values.
const RECORDS: [(&str, &str, &str, &str); 10] = [
    ("rz_device_info", "Device", "", "index id name kind available isa memory_total memory_free unavailable"),
    (
        "rz_model_info",
        "Model.Info",
        ", List<Integer> devices, List<Integer> layers",
        "architecture name n_layers hidden_dim vocab_size context_length bos_token eos_token n_params weight_bytes device \
         devices layers chat_template n_unknown capabilities embedding_dim pooling n_scores",
    ),
    (
        "rz_model_plan",
        "Plan",
        ", List<Plan.OnDevice> devices, Plan.Experts experts",
        "gpu_layers weights_host weights_device cache_host cache_device cache_token scratch_host scratch_device \
         load_peak_host total_host total_device devices experts",
    ),
    ("rz_model_plan_device", "Plan.OnDevice", "", "device n_layers weights cache scratch total"),
    (
        "rz_encoder_info",
        "Encoder.Info",
        "",
        "projector is_mutual row_dim n_layers tile_side grain min_rows max_rows weight_bytes scratch_bytes kinds \
         sample_rate device",
    ),
    (
        "rz_encoder_plan",
        "Encoder.Plan",
        "",
        "max_rows weights_host scratch_host row weights_device scratch_device device",
    ),
    (
        "rz_media_info",
        "Media.Info",
        "",
        "kind n_rows n_tokens row_dim columns lines tile_columns tile_lines has_overview width height seen_width \
         seen_height bytes encode_ns hash pairs",
    ),
    (
        "rz_store_info",
        "Store.Info",
        "",
        "n_entries n_files memory_bytes disk_bytes hits misses reused_tokens n_unwritten",
    ),
    (
        "rz_conversation_info",
        "Conversation.Info",
        "",
        "n_messages first_in_prompt state end_reason stopped prompt_tokens reused_tokens prompt_done n_tokens \
         reasoning_tokens drafted accepted cache_len cache_capacity n_media prompt_ns tokens_ns first_token_ns",
    ),
    (
        "rz_backend_metrics",
        "Model.Work",
        "",
        "dispatches bytes latency_sum_ns latency_min_ns latency_max_ns latency_mean_ns latency_variance_ns2 \
         latency_histogram",
    ),
];

/// Fields that are not numbers or texts in Java: the expression that converts the value read, `{}`.
const MADE: [(&str, &str); 15] = [
    ("available", "{} != 0"),
    ("rz_device_info.kind", "Device.Kind.values()[{} - 1]"),
    ("rz_media_info.kind", "Media.Kind.of({})"),
    ("kinds", "({} & Header.RZ_MEDIA_AUDIO) != 0"),
    ("chat_template", "({} & Header.RZ_TEMPLATE_PRESENT) != 0"),
    ("is_mutual", "{} != 0"),
    ("has_overview", "{} != 0"),
    ("capabilities", "Model.Capability.of({})"),
    ("pooling", "Model.Pooling.values()[{}]"),
    ("state", "Conversation.State.values()[{}]"),
    ("end_reason", "Generation.End.of({})"),
    ("stopped", "Generation.stopped({})"),
    ("rz_conversation_info.prompt_ns", "Duration.ofNanos({})"),
    ("rz_conversation_info.tokens_ns", "Duration.ofNanos({})"),
    ("rz_conversation_info.first_token_ns", "Duration.ofNanos({})"),
];

const HEAD: &str = "\
package realizar;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Reads what calls return. The build writes this file: make header. */
final class Results {
    private Results() {}
";

pub fn filter(header: &Header) -> String {
    let of = ENUMS.iter().find(|one| one.name == "Filter").expect("an enum of filters");
    let members = of.constants(header).map(|(end, constant)| {
        let option = camel(&end.replace("XTC", "XTC_PROBABILITY").to_lowercase());
        format!("    /** {{@link Options#{option}}}. */\n    {end}(Header.{})", constant.name)
    });
    let members = members.collect::<Vec<_>>().join(",\n");
    format!(
        "package realizar;\n\n/** {} The build writes this file: make header. */\npublic enum Filter {{\n{members};\n\n    \
        final int number;\n\n    Filter(int number) {{\n        this.number = number;\n    }}\n}}\n",
        of.doc
    )
}

/// Methods that call the library, and methods that read the structs it has written.
pub fn results(header: &Header) -> String {
    let mut text = HEAD.to_owned();
    for (structure, record, others, components) in RECORDS {
        let (_, fields) = *header.structs.iter().find(|(found, _)| *found == structure).expect(structure);
        let name = camel(structure.trim_start_matches("rz_"));
        let component = |name: &str| match fields.iter().find(|field| field.name == name) {
            Some(_) if others.contains(&format!(" {name},")) || others.ends_with(&format!(" {name}")) => {
                name.to_owned()
            }
            Some(field) => read(structure, field),
            None => name.to_owned(),
        };
        let components = components.split(' ').map(|name| format!("\n            {}", component(name)));
        text += &format!(
            "\n    static {record} {name}(Memory c{others}) {{\n        var struct = Header.{structure};\n        return new \
            {record}({});\n    }}\n",
            components.collect::<Vec<_>>().join(",")
        );
        let getter = format!("{structure}_get");
        let Some(getter) = header.functions.iter().find(|one| one.name == getter && others.is_empty()) else {
            continue;
        };
        let inputs = &getter.parameters[..getter.parameters.len() - 2];
        let kind = |value: &Value| if value.pointers > 0 { "Memory" } else { "int" };
        let parameters = inputs.iter().map(|value| format!(", {} {}", kind(value), value.name)).collect::<String>();
        let arguments = inputs.iter().map(|value| value.name.clone() + ", ").collect::<String>();
        text += &format!(
            "\n    static {record} {name}(Arena arena{parameters}) {{\n        var c = Native.sized(arena, \
            Header.{structure});\n        Native.check(arena, e -> Header.{}({arguments}c, e));\n        return \
            {name}(c);\n    }}\n",
            getter.name
        );
    }
    text + "}\n"
}

/// Returns the expression that reads a field.
fn read(structure: &str, field: &Value) -> String {
    let read = |how: &str| format!("Native.{how}(c, struct, \"{}\")", field.name);
    let value = match (field.base.as_str(), field.length.is_some()) {
        ("char", true) => read("text"),
        ("uint8_t", true) => read("part") + ".bytes()",
        ("uint64_t", true) => format!("Arrays.stream({}.longs()).boxed().collect(Collectors.toList())", read("part")),
        ("uint64_t", false) => read("number"),
        ("double", false) => read("precise"),
        _ => read("integer"),
    };
    let own = format!("{structure}.{}", field.name);
    let made = MADE.iter().find(|(name, _)| *name == own || *name == field.name);
    made.map_or(value.clone(), |(_, made)| made.replace("{}", &value))
}
