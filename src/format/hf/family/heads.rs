//! Draft heads in folders of their own.

use super::common::PLAIN;
use crate::error::Result;
use crate::format::Value;
use crate::format::hf::members::Members;
use crate::format::hf::translator::KeyType::{Bool, Int};
use crate::format::hf::translator::{Family, Key, Translator, signed};

const EAGLE3: &[Key] = &[
    ("target_hidden_size", Int, &["target_hidden_size"]),
    ("norm_before_residual", Bool, &["norm_before_residual"]),
    ("fc_norm", Bool, &["fc_norm"]),
    ("norm_output", Bool, &["norm_output"]),
];

/// Modules outside of layers, and tensors with other names or absent in a GGUF file.
const EAGLE3_NAMES: &[(&str, &str)] = &[
    ("fc", "fc"),
    ("fc_norm.*", "fc_norm"),
    ("input_norm", "enc.output_norm"),
    ("hidden_norm", "attn_norm_2"),
    ("d2t", "d2t"),
];

pub const ALL: &[Family] = &[Family {
    model_types: &["eagle3"],
    arch: "eagle3",
    epsilon: 1e-6,
    keys: &[EAGLE3],
    effectless: "draft_vocab_size embed_requires_grad has_no_defaults_at_init speculators_config \
                 speculators_version",
    extras: eagle3,
    names: &[EAGLE3_NAMES],
    ..PLAIN
}];

/// Untranslated members of `eagle_config`, and the values that such heads have.
const NEUTRAL: &[(&str, bool)] = &[
    ("use_aux_hidden_state", true),
    ("use_input_layernorm_in_first_layer", true),
    ("use_last_layernorm", true),
    ("use_mtp_layernorm", false),
];

/// Sets the layers whose inputs are read. `eagle_config` declares layers whose outputs are.
fn eagle3(t: &mut Translator) -> Result<()> {
    let nested = t.part("eagle_config");
    t.config.skip(&["eagle_config"]);
    for (name, value) in NEUTRAL {
        if nested.bool(&[name])?.is_some_and(|declared| declared != *value) {
            return Err(t.config.unsupported(&format!("\"eagle_config\" with {name:?} of {}", !value)));
        }
    }
    let name = ["eagle_aux_hidden_state_layer_ids"];
    let layers = |members: &Members, behind: u64| {
        let list = members.list(&name)?.filter(|list| !list.is_empty());
        let layer = |layer: &_| Some(signed(crate::format::json::Json::as_u64(layer)?.checked_add(behind)?));
        let wrong = || members.wrong(name[0], "a list of numbers of layers");
        list.map(|list| list.iter().map(layer).collect::<Option<Vec<i64>>>().ok_or_else(wrong)).transpose()
    };
    let layers = match layers(&t.config, 0)? {
        Some(layers) => Some(layers),
        None => layers(&nested, 1)?,
    };
    t.set("target_layers", layers.map(Value::Ints));
    let name = ["norm_before_fc"];
    t.set("norm_before_fc", t.config.bool(&name)?.or(nested.bool(&name)?));
    if let Some((name, value)) = nested.unread().next() {
        return Err(t.config.unsupported(&format!("\"eagle_config\" with {name:?} of {value}")));
    }
    Ok(())
}
