//! Keys of networks whose layers have a recurrence, in all of them or in some: what the layers are, and the numbers of their
//! mixers.

use super::translator::Translator;
use crate::error::{Result, try_vec};

/// Sets the layers with a recurrence, by 1, and without one, by 0.
fn recurrent_layers(t: &mut Translator, layers: impl ExactSizeIterator<Item = bool>) -> Result<()> {
    let mut list = try_vec("layers", layers.len())?;
    list.extend(layers.map(i64::from));
    // A list of zeros would be an unset one.
    if !list.contains(&1) {
        t.set("full_attention_interval", Some(1u64));
    }
    t.set("attention.recurrent_layers", Some(list));
    Ok(())
}

/// Qwen 3 Next and Qwen 3.5: gated delta nets, and attention in each fourth layer.
pub(super) fn delta_nets(t: &mut Translator) -> Result<()> {
    let interval = t.size("full_attention_interval")?;
    match t.layers("layer_types", &["full_attention", "linear_attention"])? {
        Some(kinds) => recurrent_layers(t, kinds.into_iter().map(|kind| kind == 1))?,
        None => {
            let n = usize::try_from(t.n_layers()?).unwrap_or(0);
            recurrent_layers(t, (0..n).map(|i| !(i as u64 + 1).is_multiple_of(interval)))?;
        }
    }
    let [heads, key_heads] = [t.size("linear_num_value_heads")?, t.size("linear_num_key_heads")?];
    let width = t.size("linear_key_head_dim")?;
    if t.size("linear_value_head_dim")? != width {
        return Err(t.config.unsupported("a \"linear_value_head_dim\" other than \"linear_key_head_dim\""));
    }
    t.set("ssm.conv_kernel", t.int(&["linear_conv_kernel_dim"])?);
    t.set("ssm.inner_size", heads.checked_mul(width));
    t.set("ssm.state_size", Some(width));
    t.set("ssm.time_step_rank", Some(heads));
    t.set("ssm.group_count", Some(key_heads));
    t.expect("attn_output_gate", true)
}
