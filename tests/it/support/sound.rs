//! Encoders of sounds in the tests' data, a model for them, and sounds that follow from their lengths.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use realizar::device::StepBudget;
use realizar::engine::{Encoder, Encoding, Model};
use serde_json::Value;

use super::vision;

pub const FAMILIES: [&str; 5] = ["qwen2.5o", "qwen2a", "qwen3a", "voxtral", "ultravox"];
/// The control tokens of sounds, and of pictures of Qwen2.5-Omni, after the vocabulary of pictures.
pub const TOKENS: [&str; 11] = [
    "<|audio_bos|>",
    "<|audio_eos|>",
    "<|AUDIO|>",
    "[BEGIN_AUDIO]",
    "[AUDIO]",
    "<|audio|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<|vision_bos|>",
    "<|vision_eos|>",
];
/// A template that knows sounds, as Qwen's does, and pictures.
pub const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{% if m.content is string %}{{ m.content }}\
    {% else %}{% for p in m.content %}{% if p.type == 'audio' %}Audio: <|audio_bos|><|AUDIO|><|audio_eos|>\
    {% elif p.type == 'image' %}<|image_pad|>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}\
    <|im_end|>{% endfor %}";

pub fn at(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sound").join(name)
}

pub fn data(name: &str) -> Value {
    serde_json::from_slice(&fs::read(at(&format!("{name}.json"))).unwrap()).unwrap()
}

pub fn model(folder: &Path) -> Arc<Model> {
    vision::model_with(folder, "", 64, &TOKENS, TEMPLATE)
}

/// `sound` of make.py.
pub fn sound(n: usize) -> Vec<f32> {
    let sample = |i: usize| (i * (i % 97 + 3) * 37 + i / 5) % 4001;
    (0..n).map(|i| if i / 4000 % 3 == 2 { 0.0 } else { (sample(i) as f32 - 2000.0) / 4096.0 }).collect()
}

/// The rows of a sound at the rate of encoders.
pub fn rows(encoder: &Encoder, samples: &[f32]) -> Vec<f32> {
    let mut encoding = encoding(encoder, samples);
    assert!(encoding.advance(encoder, &StepBudget::unlimited()).unwrap());
    encoding.rows
}

pub fn encoding(encoder: &Encoder, samples: &[f32]) -> Encoding {
    let facts = encoder.facts().sound.as_ref().unwrap();
    Encoding::of_sound(encoder, facts.split(samples).unwrap()).unwrap()
}
