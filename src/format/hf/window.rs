//! Sliding windows of a configuration, and the layers that have them, as GGUF keys.

use super::translator::{LAYERS, MAX_LAYERS, Translator};
use crate::error::{Result, try_vec};
use crate::format::Value;

/// Sets the window and the pattern of its layers.
pub(super) fn translate(t: &mut Translator) -> Result<()> {
    let window = t.int(&["sliding_window"])?;
    let windowed = windowed_layers(t)?;
    let period = t.int(&["sliding_window_pattern", "_sliding_window_pattern"])?;
    let full = t.int(&["max_window_layers"])?;
    let used = t.bool(&["use_sliding_window"])?;
    let Some(window) = window.filter(|_| used != Some(false)) else {
        if windowed.is_some_and(|list| list.contains(&true)) && used != Some(false) {
            return Err(t.config.wrong("sliding_window", "given, because layer_types names it"));
        }
        return Ok(());
    };
    let pattern = if let Some(windowed) = windowed {
        if !windowed.contains(&true) {
            // Explicit, because some architectures have windows unless the file says otherwise.
            t.set("attention.sliding_window_pattern", Some(Value::Bools(windowed)));
            return Ok(());
        }
        Some(period_of(&windowed).map_or(Value::Bools(windowed), Value::from))
    } else if let Some(period) = period {
        Some(period.into())
    } else if let Some(full) = full {
        // The first layers have full attention.
        let layers = t.int(LAYERS)?.unwrap_or(0);
        if layers > MAX_LAYERS {
            return Err(t.config.wrong("num_hidden_layers", "at most 1024"));
        }
        Some(Value::Bools((0..layers).map(|i| i >= full).collect()))
    } else {
        None
    };
    t.set("attention.sliding_window", Some(window));
    t.set("attention.sliding_window_pattern", pattern);
    Ok(())
}

/// `layer_types` as one boolean per layer.
fn windowed_layers(t: &Translator) -> Result<Option<Vec<bool>>> {
    let Some(types) = t.config.list(&["layer_types"])? else { return Ok(None) };
    if t.int(LAYERS)?.is_some_and(|n| n != types.len() as u64) {
        return Err(t.config.wrong("layer_types", "one for each layer"));
    }
    let mut windowed = try_vec("layers", types.len())?;
    for kind in types {
        windowed.push(match kind.as_str() {
            Some("sliding_attention") => true,
            Some("full_attention") => false,
            _ => return Err(t.config.unsupported(&format!("\"layer_types\" with the value {kind}"))),
        });
    }
    Ok(Some(windowed))
}

/// Returns the `n` if all layers but each `n`th have a window; `None` otherwise, also if all have.
fn period_of(windowed: &[bool]) -> Option<u64> {
    let n = windowed.iter().position(|w| !w)? + 1;
    windowed.iter().zip(1..).all(|(&w, i)| w == (i % n != 0)).then_some(n as u64)
}
