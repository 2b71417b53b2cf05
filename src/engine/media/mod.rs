//! Image, audio and video input: from files to rows for a model.

pub(super) mod bounds;
pub(super) mod convolutions;
pub(super) mod encoder;
pub(super) mod item;
pub(super) mod make;
pub(super) mod picture;
pub(super) mod preparing;
pub(super) mod sound;
pub(super) mod stage;
pub(super) mod video;
pub(super) mod work;
mod working;
