//! The configuration of a folder that sees pictures, and what tells the kinds of encoders apart.

use std::path::Path;

use super::lists;
use super::members::Members;
use crate::error::{Error, Result};
use crate::format::file::{Files, InputFile};
use crate::format::json::Json;
use crate::format::passed::Passed;
use crate::format::value::whole;
use crate::format::{TensorInfo, Value};

/// The encoders whose configurations and checkpoints are alike.
pub struct Kind {
    /// `model_type` of a configuration, and of its `vision_config` where that tells several apart.
    pub model_types: &'static [&'static str],
    pub encoder: Option<&'static str>,
    /// `clip.projector_type` of a GGUF file.
    pub projector: &'static str,
    /// Values of keys that configurations leave out, `key=number` each.
    pub defaults: &'static str,
    /// Activations that the encoder may have, the first where a configuration names none.
    pub activations: &'static [&'static str],
    /// Pillow's number of the filter where the folder names none.
    pub resample: u64,
    /// Sets the keys that are no plain translation.
    pub extras: fn(&mut Config) -> Result<()>,
}

/// One encoder of a folder, before its keys are metadata.
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
    /// The configuration of the model, or of the part of it that sees and hears where another part speaks.
    pub config: &'a Json<'a>,
    /// There are encoders of both kinds, so that one file may describe pixels and spectrograms.
    pub has_both: bool,
}

/// A configuration, and the keys that it has become so far.
pub struct Config<'a> {
    pub kind: &'static Kind,
    /// The model's, that of its encoder, and that of the pixels.
    pub top: Members<'a>,
    pub vision: Members<'a>,
    pub pixels: Members<'a>,
    pub pixels_path: &'a Path,
    /// The configuration of videos, where the folder has one.
    pub video: Option<Members<'a>>,
    pub keys: Vec<(String, Value)>,
    /// Layers whose hidden states go into the decoder as well.
    pub deepstack: Vec<u64>,
}

impl Config<'_> {
    pub fn default(&self, names: &[&str]) -> Option<f64> {
        lists::number(self.kind.defaults, names)
    }

    /// A number of the encoder's configuration, or that which it has without one.
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

    /// A side in pixels: a number, or the member of an object.
    pub fn side(&self, name: &str, member: &str) -> Result<Option<u64>> {
        let Some((_, value)) = self.pixels.find(&[name]) else { return Ok(None) };
        let side = value.as_u64().or_else(|| value.get(member)?.as_u64());
        side.map(Some).ok_or_else(|| self.pixels.wrong(name, &format!("a number or an object with {member}")))
    }

    pub fn require_side(&self, name: &str, member: &str) -> Result<u64> {
        let missing = || Error::format(self.pixels_path, format!("{name}.{member} is missing"));
        self.side(name, member)?.ok_or_else(missing)
    }

    /// Refuses a text of the model's configuration other than `expected`.
    pub fn expect(&self, name: &str, expected: &str) -> Result<()> {
        match self.top.text(&[name])? {
            Some(told) if told != expected => Err(self.top.unsupported(&format!("{name:?} with the value {told:?}"))),
            _ => Ok(()),
        }
    }

    /// Refuses hidden states of another layer than the last, and a choice of them other than `expected`.
    pub fn expect_last_layer(&self, expected: &str) -> Result<()> {
        self.expect("vision_feature_select_strategy", expected)?;
        match self.top.find(&["vision_feature_layer"]) {
            Some((name, layer)) if *layer != Json::Int(-1) => {
                Err(self.top.unsupported(&format!("{name:?} with the value {layer}")))
            }
            _ => Ok(()),
        }
    }

    /// Sets bounds on areas in pixels, whatever their names say, of so many frames, and the side of blocks under its
    /// key.
    pub fn bounds(&mut self, frames: u64, merge_key: &str) -> Result<()> {
        let merge = self.require(&["spatial_merge_size"])?;
        let of = |name: &str, edge: &str| self.pixels.int(&[name])?.map_or_else(|| self.require_side("size", edge), Ok);
        let (least, most) = (of("min_pixels", "shortest_edge")?, of("max_pixels", "longest_edge")?);
        self.set("image_min_pixels", least.div_ceil(frames));
        self.set("image_max_pixels", most / frames);
        self.set(merge_key, merge);
        Ok(())
    }

    /// The base of a rotation by rows and columns, where the folder has one.
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

    /// Refuses a rotation other than that of all encoders.
    pub fn expect_rotation(&self) -> Result<()> {
        match self.rotary_base()? {
            Some(base) if base != 10_000.0 => {
                Err(self.vision.unsupported(&format!("\"rope_theta\" with the value {base}")))
            }
            _ => Ok(()),
        }
    }
}
