//! The authors' recommended sampling parameters, from the `general.sampling` keys of a GGUF file. The keys of a
//! folder's `generation_config.json` are translated to these keys. Values that no sampler supports are logged and
//! dropped.

use crate::error::Result;
use crate::format::{Metadata, Value};
use crate::sampling::{Filter, SamplerParams};

/// The largest accepted value.
const MOST: f32 = 100.0;

/// Recommended sampling parameters; `None` if not given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Advice {
    /// 0: greedy.
    pub temperature: Option<f32>,
    pub top_k: Option<u32>,
    pub top_p: Option<f32>,
    pub min_p: Option<f32>,
    pub repeat_penalty: Option<f32>,
    pub penalty_window: Option<u32>,
}

impl Advice {
    /// Reads the recommendations; `note` gets a message for each that is dropped.
    pub fn read(metadata: &Metadata, note: &mut dyn FnMut(String)) -> Result<Advice> {
        let mut number = |name: &str, least: f32, most: f32| -> Result<Option<f32>> {
            let key = format!("general.sampling.{name}");
            let Some(value) = metadata.get(&key) else { return Ok(None) };
            let advised = match value {
                Value::Int(_) | Value::Float(_) => metadata.f32(&key)?.filter(|x| (least..=most).contains(x)),
                _ => None,
            };
            if advised.is_none() {
                note(format!("{key} is {}, which is no advice from {least} to {most}", value.render()));
            }
            Ok(advised)
        };
        let whole = |x: f32| (x.fract() == 0.0).then_some(x as u32);
        let advice = Advice {
            temperature: number("temp", 0.0, MOST)?,
            // -1 keeps all tokens, as 0 does.
            top_k: number("top_k", -1.0, 1e6)?.and_then(|k| whole(k.max(0.0))),
            top_p: number("top_p", 0.0, 1.0)?,
            min_p: number("min_p", 0.0, 1.0)?,
            repeat_penalty: number("penalty_repeat", 1.0 / MOST, MOST)?,
            penalty_window: number("penalty_last_n", 0.0, 1e6)?.and_then(whole),
        };
        for other in ["xtc_probability", "mirostat"] {
            let key = format!("general.sampling.{other}");
            if metadata.get(&key).is_some_and(|value| !matches!(value.render().as_str(), "0" | "-1" | "false")) {
                note(format!("{key} is advised, which is not told"));
            }
        }
        Ok(advice)
    }
}

impl Advice {
    /// Returns a sampler with the recommended parameters, temperature before the filters, as authors intend. Without a
    /// recommendation it is greedy.
    pub fn sampler(&self, seed: u64) -> SamplerParams {
        if *self == Advice::default() {
            return SamplerParams::default();
        }
        SamplerParams {
            seed,
            temperature: self.temperature.unwrap_or(1.0),
            top_k: self.top_k.unwrap_or(0),
            top_p: self.top_p.unwrap_or(0.0),
            min_p: self.min_p.unwrap_or(0.0),
            repeat_penalty: self.repeat_penalty.unwrap_or(0.0),
            penalty_window: self.penalty_window.unwrap_or(0),
            order: Filter::TEMPERATURE_FIRST.to_vec(),
            ..SamplerParams::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(keys: &[(&str, Value)]) -> (Advice, Vec<String>) {
        let metadata = keys.iter().map(|(key, value)| (format!("general.sampling.{key}"), value.clone())).collect();
        let mut notes = vec![];
        (Advice::read(&metadata, &mut |note| notes.push(note)).unwrap(), notes)
    }

    #[test]
    fn advice_is_handed_on_and_nonsense_is_noted() {
        assert_eq!(read(&[]), (Advice::default(), vec![]));
        let (advice, notes) = read(&[
            ("temp", 0.6f32.into()),
            ("top_k", 20u32.into()),
            ("top_p", 0.95f64.into()),
            ("min_p", 0u32.into()),
            ("penalty_repeat", 1.05f32.into()),
            ("penalty_last_n", 64u32.into()),
            ("mirostat", 0u32.into()),
        ]);
        let expected = Advice {
            temperature: Some(0.6),
            top_k: Some(20),
            top_p: Some(0.95),
            min_p: Some(0.0),
            repeat_penalty: Some(1.05),
            penalty_window: Some(64),
        };
        assert_eq!((advice, notes.len()), (expected, 0));
        assert_eq!(read(&[("top_k", (-1i32).into())]).0.top_k, Some(0));
        for (key, value) in [
            ("temp", Value::from(f32::NAN)),
            ("temp", (-1.0f32).into()),
            ("temp", 1e30f32.into()),
            ("temp", "hot".into()),
            ("top_k", (-2i32).into()),
            ("top_p", 1.5f32.into()),
            ("min_p", f32::INFINITY.into()),
            ("penalty_repeat", 0.0f32.into()),
            ("xtc_probability", 0.5f32.into()),
        ] {
            let (advice, notes) = read(&[(key, value)]);
            assert_eq!(advice, Advice::default(), "{key}");
            assert!(notes.len() == 1 && notes[0].contains(key), "{notes:?}");
        }
    }
}
