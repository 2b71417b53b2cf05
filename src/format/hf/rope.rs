//! RoPE of a configuration (`rope_parameters`, `rope_scaling` and related keys) as GGUF keys and tensors. Formulas as
//! in `modeling_rope_utils.py` of the `transformers` package.

use super::known;
use super::members::Members;
use super::translator::{HEADS, Translator, WIDTH, signed};
use crate::error::{Error, Result, try_vec};
use crate::format::TensorInfo;
use crate::format::json::Json;
use crate::format::storage::TensorStorage;
use crate::format::value::{narrow, whole};
use crate::quant;
use crate::tensor::Shape;

pub(super) fn translate(t: &mut Translator) -> Result<()> {
    let nothing = Json::Null;
    let sets = match t.config.find(&["rope_parameters", "rope_scaling"]) {
        Some((_, sets @ Json::Object(_))) => sets,
        Some((name, _)) => return Err(t.config.wrong(name, "an object")),
        None => &nothing,
    };
    // Full and sliding-window layers may each have an object of their own.
    let kinds = ["full_attention", "sliding_attention"];
    let [full, windowed] = if kinds.iter().any(|kind| sets.get(kind).is_some()) {
        let both = Members::new(t.path, sets, &nothing);
        both.skip(&kinds);
        if kind(&both)? != "default" {
            return Err(t.config.unsupported("a type of rope beside those of the layers"));
        }
        known::check_rope(&both, &t.passed)?;
        kinds.map(|kind| sets.get(kind).unwrap_or(&nothing))
    } else {
        [sets, &nothing]
    };
    let (full, windowed) = (Members::new(t.path, full, &nothing), Members::new(t.path, windowed, &nothing));
    // These may be in the object or next to it.
    let number = |set: &Members, name: &str| {
        let outer = t.number(&[name])?;
        set.number(&[name]).map(|in_set| in_set.or(outer))
    };
    let base = number(&full, "rope_theta")?.or(t.number(&["rotary_emb_base"])?);
    let outer = t.number(t.family.rotary_part)?;
    let [partial, local] = [&full, &windowed].map(|set| set.number(&["partial_rotary_factor"]));
    let (partial, local) = (partial?.or(outer), local?);
    let trained = number(&full, "original_max_position_embeddings")?;
    if let Some(dims) = t.int(&["rotary_dim"])? {
        t.set("rope.dimension_count", Some(dims));
    } else if let Some(partial) = partial.filter(|&p| p != 1.0 && t.facts.latent == [0; 2]) {
        let dims = (head_dim(t)? as f64 * partial).floor();
        t.set("rope.dimension_count", whole(dims));
    }
    if t.family.windowed_part {
        let dims = (head_dim(t)? as f64 * local.unwrap_or(1.0)).floor();
        t.set("rope.dimension_count_swa", whole(dims));
    } else if local.is_some_and(|local| local != partial.unwrap_or(1.0)) {
        return Err(t.config.unsupported("two values of \"partial_rotary_factor\""));
    }
    t.set("rope.freq_base", base);
    sections(t, &full)?;
    if t.family.windowed_base {
        let outer = t.number(&["rope_local_base_freq"])?;
        t.set("rope.freq_base_swa", windowed.number(&["rope_theta"])?.or(outer));
    } else if windowed.number(&["rope_theta"])?.is_some_and(|theta| Some(theta) != base) {
        return Err(t.config.unsupported("another rope_theta in layers with a window"));
    }
    if kind(&windowed)? != "default" {
        return Err(t.config.unsupported("scaled rope in layers with a window"));
    }
    scaling(t, &full, trained)?;
    known::check_rope(&full, &t.passed)?;
    known::check_rope(&windowed, &t.passed)
}

/// M-RoPE sections.
fn sections(t: &mut Translator, set: &Members) -> Result<()> {
    let (interleaved, Some(list)) = (set.bool(&["mrope_interleaved", "interleaved"])?, set.list(&["mrope_section"])?)
    else {
        return Ok(());
    };
    let pairs = list.iter().map(Json::as_u64).try_fold(0u64, |sum, n| sum.checked_add(n?));
    match (t.family.sections)(t, interleaved, pairs)? {
        true => {
            let mut sizes = try_vec("sections", list.len())?;
            sizes.extend(list.iter().filter_map(Json::as_u64).map(signed));
            t.set("rope.dimension_sections", Some(sizes));
            Ok(())
        }
        false => Err(t.config.unsupported("\"mrope_section\" of another network or length")),
    }
}

pub(super) fn kind<'a>(set: &Members<'a>) -> Result<&'a str> {
    let newer = set.text(&["rope_type"])?;
    let older = set.text(&["type"])?;
    // YaRN by another name.
    Ok(newer.or(older).map_or("default", |kind| if kind == "deepseek_yarn" { "yarn" } else { kind }))
}

/// `trained`: the context length before scaling.
pub(super) fn scaling(t: &mut Translator, set: &Members, trained: Option<f64>) -> Result<()> {
    let kind = kind(set)?;
    let context = t.number(&["max_position_embeddings"])?;
    let path = t.path;
    let needed = |x: Option<f64>, what| x.ok_or_else(|| Error::format(path, format!("{kind} rope without {what}")));
    let stretch = || -> Result<Option<f64>> {
        Ok(set.number(&["factor"])?.or(trained.zip(context).map(|(trained, context)| context / trained)))
    };
    match kind {
        "default" => {}
        kind if (t.family.own_rope)(t, set, kind)? => {}
        "linear" | "llama3" | "yarn" => {
            let stretch = needed(stretch()?, "factor")?;
            t.set("rope.scaling.type", Some(kind));
            t.set("rope.scaling.factor", Some(stretch));
            if kind != "linear" {
                t.set("rope.scaling.original_context_length", trained.or(context).and_then(whole));
            }
            if kind == "llama3" {
                t.set("rope.scaling.low_freq_factor", set.number(&["low_freq_factor"])?);
                t.set("rope.scaling.high_freq_factor", set.number(&["high_freq_factor"])?);
            }
            if kind == "yarn" {
                yarn(t, set, stretch)?;
            }
        }
        "longrope" | "su" => {
            for (name, tensor) in
                [("long_factor", "rope_factors_long.weight"), ("short_factor", "rope_factors_short.weight")]
            {
                let values = set.list(&[name])?.unwrap_or_default();
                let values: Option<Vec<f32>> = values.iter().map(|v| v.as_f64().map(narrow)).collect();
                let values = values.filter(|v| !v.is_empty()).ok_or_else(|| set.wrong(name, "a list of numbers"))?;
                t.made.push(tensor_of(tensor, &values)?);
            }
            let trained = needed(trained, "original_max_position_embeddings")?;
            let stretch = needed(stretch()?, "max_position_embeddings")?;
            let prescribed = if stretch > 1.0 { (1.0 + libm::log(stretch) / libm::log(trained)).sqrt() } else { 1.0 };
            // For context lengths within the trained one, and beyond.
            let own = match [set.number(&["short_mscale"])?, set.number(&["long_mscale"])?] {
                [short, long] if short == long => short,
                _ => return Err(t.config.unsupported("\"short_mscale\" and \"long_mscale\" unless they are alike")),
            };
            let attention = own.or(set.number(&["attention_factor"])?).unwrap_or(prescribed);
            t.set("rope.scaling.type", Some("longrope"));
            t.set("rope.scaling.original_context_length", whole(trained));
            t.set("rope.scaling.attn_factor", Some(attention));
        }
        other => return Err(t.config.unsupported(&format!("rope of type {other:?}"))),
    }
    Ok(())
}

fn yarn(t: &mut Translator, set: &Members, stretch: f64) -> Result<()> {
    /// YaRN's magnitude for a multiplier of the logarithm.
    fn magnitude(multiplier: f64, stretch: f64) -> f64 {
        if stretch > 1.0 { 1.0 + 0.1 * multiplier * libm::log(stretch) } else { 1.0 }
    }
    let multipliers = set.number(&["mscale"])?.zip(set.number(&["mscale_all_dim"])?);
    let multipliers = multipliers.filter(|(a, b)| *a != 0.0 && *b != 0.0);
    let ratio = multipliers.map(|(m, all)| magnitude(m, stretch) / magnitude(all, stretch));
    let is_latent = t.facts.latent != [0; 2];
    if is_latent {
        // The magnitude of scores; the magnitude of angles is 1 if the multipliers are equal.
        let Some((multiplier, _)) = multipliers.filter(|(m, all)| m == all) else {
            return Err(t
                .config
                .unsupported("the rope parameters \"mscale\" and \"mscale_all_dim\" unless they are alike"));
        };
        t.set("rope.scaling.yarn_log_multiplier", Some(0.1 * multiplier));
    }
    let attention = set.number(&["attention_factor"])?.or(ratio);
    let beta = set.number(&["llama_4_scaling_beta"])?;
    if beta.is_some() && !t.family.growing_queries {
        return Err(t.config.unsupported("\"llama_4_scaling_beta\""));
    }
    t.set("attention.temperature_scale", beta);
    t.set("rope.scaling.yarn_truncate", set.bool(&["truncate"])?);
    t.set("rope.scaling.yarn_beta_fast", set.number(&["beta_fast"])?);
    t.set("rope.scaling.yarn_beta_slow", set.number(&["beta_slow"])?);
    // GGUF files store the magnitude relative to YaRN's, configurations the whole magnitude.
    if is_latent && attention.is_some_and(|factor| factor != 1.0) {
        return Err(t.config.unsupported("the rope parameter \"attention_factor\" with latent attention"));
    }
    let common = if is_latent { 1.0 } else { magnitude(1.0, stretch) };
    t.set("rope.scaling.attn_factor", attention.map(|f| f / common));
    Ok(())
}

pub(super) fn head_dim(t: &Translator) -> Result<u64> {
    let given = t.int(&["head_dim"])?;
    let width = t.int(WIDTH)?.unwrap_or(0);
    let derived = t.int(HEADS)?.and_then(|heads| width.checked_div(heads));
    given.or(derived).ok_or_else(|| t.config.wrong("head_dim", "given, or hidden_size and num_attention_heads"))
}

/// Returns a vector that is in no file.
pub(super) fn tensor_of(name: &str, values: &[f32]) -> Result<TensorInfo> {
    let mut bytes = try_vec("rope factors", values.len().saturating_mul(4))?;
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    Ok(TensorInfo {
        name: name.into(),
        dtype: quant::F32,
        shape: Shape::new(&[values.len() as u64])?,
        bytes: bytes.len() as u64,
        storage: TensorStorage::Made(bytes),
    })
}
