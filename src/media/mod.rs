//! Image and audio preprocessing: from files, or the host's pixels and samples, to the input of a vision or audio
//! encoder. Depends on sizes, not on models.

mod adpcm;
mod bmp;
mod bounds;
mod chunks;
mod compressed;
mod decode;
mod exif;
mod fourier;
mod grids;
mod patches;
mod picture;
mod rates;
mod resample;
mod sizing;
mod sound;
mod spectrogram;
mod tiling;
#[cfg(feature = "sounds")]
mod vorbis;
#[cfg(feature = "images")]
mod watched;
mod wav;

pub use compressed::Compressed;
pub use patches::patches;
pub use picture::{MAX_SIDE, Part, Picture, PixelFormat, Pixels, WHITE};
pub use rates::SAMPLE_RATE;
pub use resample::Filter;
pub use sizing::{Grids, Layout, MAX_COLUMNS, Narrow, Sizing};
pub use sound::{Resampling, Sound};
pub use spectrogram::{HOP, LogMel, Spectrogram};
pub use tiling::Tiling;
