//! The configuration of a folder with a vision encoder, and how kinds of encoders differ.

use std::path::Path;

use super::lists;
use super::members::Members;
use crate::error::{Error, Result};
use crate::format::file::{Files, InputFile};
use crate::format::json::Json;
use crate::format::passed::Passed;
use crate::format::value::whole;
use crate::format::{TensorInfo, Value};

/// Encoders with similar configurations and checkpoints.
pub struct Kind {
    /// `model_type` of a configuration, and of its `vision_config` if that distinguishes kinds.
    pub model_types: &'static [&'static str],
    pub encoder: Option<&'static str>,
    /// `clip.projector_type` of a GGUF file.
    pub projector: &'static str,
    /// Defaults of keys, `key=number` each.
    pub defaults: &'static str,
    /// Allowed activation functions; the first one is the default.
    pub activations: &'static [&'static str],
    /// Pillow's number of the default filter.
    pub resample: u64,
    /// Sets keys that are not plain translations.
    pub extras: fn(&mut Config) -> Result<()>,
}

/// One encoder of a folder, before its keys become metadata.
pub struct Part {
    pub keys: Vec<(String, Value)>,
    pub files: Vec<InputFile>,
    pub tensors: Vec<TensorInfo>,
    pub passed: Passed,
}

/// A folder with encoders.
pub struct Place<'a> {
    pub files: Files<'a>,
    pub folder: &'a Path,
    /// The file of the configuration, for messages.
    pub path: &'a Path,
    /// `model_type` of the whole model.
    pub model_type: &'a str,
    /// The configuration of the model, or of its understanding part if another part generates speech.
    pub config: &'a Json<'a>,
    /// True if there are encoders of both kinds, so that one file may describe pixels and spectrograms.
    pub has_both: bool,
}

/// A configuration, and its translated keys so far.
pub struct Config<'a> {
    pub kind: &'static Kind,
    /// The configurations of the model, of its encoder, and of the pixels.
    pub top: Members<'a>,
    pub vision: Members<'a>,
    pub pixels: Members<'a>,
    pub pixels_path: &'a Path,
    /// The configuration of videos, if any.
    pub video: Option<Members<'a>>,
    pub keys: Vec<(String, Value)>,
    /// Layers whose hidden states also go into the decoder (DeepStack).
    pub deepstack: Vec<u64>,
}

impl Config<'_> {
    pub fn default(&self, names: &[&str]) -> Option<f64> {
        lists::number(self.kind.defaults, names)
    }

    /// Returns a number of the encoder's configuration, or its default.
    pub fn int(&self, names: &[&str]) -> Result<Option<u64>> {
        Ok(self.vision.int(names)?.or(self.default(names).and_then(whole)))
    }

    pub fn require(&self, names: &[&str]) -> Result<u64> {
        let n = self.int(names)?.filter(|n| (1..=1 << 20).contains(n));
        n.ok_or_else(|| self.vision.wrong(names.first().unwrap_or(&""), "a number from 1 to 2^20"))
    }

    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.push((format!("clip.vision.{key}"), value.into()));
    }

    /// Returns a side in pixels: a number, or the member of an object.
    pub fn side(&self, name: &str, member: &str) -> Result<Option<u64>> {
        let Some((_, value)) = self.pixels.find(&[name]) else { return Ok(None) };
        let side = value.as_u64().or_else(|| value.get(member)?.as_u64());
        side.map(Some).ok_or_else(|| self.pixels.wrong(name, &format!("a number or an object with {member}")))
    }

    pub fn require_side(&self, name: &str, member: &str) -> Result<u64> {
        let missing = || Error::format(self.pixels_path, format!("{name}.{member} is missing"));
        self.side(name, member)?.ok_or_else(missing)
    }

    /// Fails if a text of the model's configuration differs from `expected`.
    pub fn expect(&self, name: &str, expected: &str) -> Result<()> {
        match self.top.text(&[name])? {
            Some(declared) if declared != expected => {
                Err(self.top.unsupported(&format!("{name:?} with the value {declared:?}")))
            }
            _ => Ok(()),
        }
    }

    /// Fails unless the encoder's last layer is used, with a selection of rows named `expected`.
    pub fn expect_last_layer(&self, expected: &str) -> Result<()> {
        self.expect("vision_feature_select_strategy", expected)?;
        match self.top.find(&["vision_feature_layer"]) {
            Some((name, layer)) if *layer != Json::Int(-1) => {
                Err(self.top.unsupported(&format!("{name:?} with the value {layer}")))
            }
            _ => Ok(()),
        }
    }

    /// Sets the minimum and maximum area of an image in pixels, from bounds on `frames` frames (whatever their names
    /// suggest), and the side of merged blocks under `merge_key`.
    pub fn bounds(&mut self, frames: u64, merge_key: &str) -> Result<()> {
        let merge = self.require(&["spatial_merge_size"])?;
        let of = |name: &str, edge: &str| self.pixels.int(&[name])?.map_or_else(|| self.require_side("size", edge), Ok);
        let (least, most) = (of("min_pixels", "shortest_edge")?, of("max_pixels", "longest_edge")?);
        self.set("image_min_pixels", least.div_ceil(frames));
        self.set("image_max_pixels", most / frames);
        self.set(merge_key, merge);
        Ok(())
    }

    /// Returns the base of 2D RoPE, if any.
    pub fn rotary_base(&self) -> Result<Option<f64>> {
        let rope = self.vision.find(&["rope_parameters"]).map(|(_, rope)| rope);
        if let Some(kind) = rope.and_then(|rope| rope.get("rope_type")?.as_str())
            && !["axial", "default"].contains(&kind)
        {
            return Err(self.vision.unsupported(&format!("\"rope_type\" with the value {kind:?}")));
        }
        let base = rope.and_then(|rope| rope.get("rope_theta")?.as_f64());
        Ok(base.or(self.vision.number(&["rope_theta"])?))
    }

    /// Fails for a RoPE base other than the common one.
    pub fn expect_rotation(&self) -> Result<()> {
        match self.rotary_base()? {
            Some(base) if base != 10_000.0 => {
                Err(self.vision.unsupported(&format!("\"rope_theta\" with the value {base}")))
            }
            _ => Ok(()),
        }
    }
}
