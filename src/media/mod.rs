//! Pictures and sound: from files, pixels or samples of the host to the numbers that an encoder takes. Knows sizes, no
//! models.

mod bmp;
mod chunks;
mod decode;
mod exif;
mod patches;
mod picture;
mod resample;
mod sizing;
mod sound;
mod spectrogram;
mod wav;

pub use patches::patches;
pub use picture::{MAX_SIDE, Part, Picture, PixelFormat};
pub use resample::Filter;
pub use sizing::{Grids, Layout, Narrow, Sizing};
pub use sound::{SAMPLE_RATE, Sound};
pub use spectrogram::{HOP, LogMel};
