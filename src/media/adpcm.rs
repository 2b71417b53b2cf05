//! ADPCM in WAV files: samples as 4-bit differences in independently decodable blocks, in Microsoft's and IMA's
//! formats.

#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use crate::error::{Error, Result};

/// The coefficients of Microsoft's predictors, in 256ths.
pub const PREDICTORS: [[i32; 2]; 7] = [[256, 0], [512, -256], [0, 0], [192, 64], [240, 0], [460, -208], [392, -232]];

/// Factors for Microsoft's step size after each difference, in 256ths.
const FACTORS: [i32; 16] = [230, 230, 230, 230, 307, 409, 512, 614, 768, 614, 512, 409, 307, 230, 230, 230];

/// IMA's step sizes.
const STEPS: [i32; 89] = [
    7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107,
    118, 130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796, 876, 963,
    1060, 1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894,
    6484, 7132, 7845, 8630, 9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794,
    32767,
];

/// Change of the step index by the size of a difference.
const MOVES: [i32; 8] = [-1, -1, -1, -1, 2, 4, 6, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adpcm {
    Microsoft,
    Ima,
}

impl Adpcm {
    /// Returns the header size of a block in bytes per channel.
    pub fn header(self) -> usize {
        match self {
            Adpcm::Microsoft => 7,
            Adpcm::Ima => 4,
        }
    }

    /// Returns the number of samples per channel in a block of `bytes`.
    pub fn frames(self, bytes: usize, channels: usize) -> usize {
        let data = bytes.saturating_sub(self.header() * channels);
        match self {
            Adpcm::Microsoft if bytes < self.header() * channels => 0,
            Adpcm::Microsoft => 2 + 2 * data / channels.max(1),
            Adpcm::Ima if bytes < self.header() * channels => 0,
            Adpcm::Ima => 1 + data / (4 * channels.max(1)) * 8,
        }
    }

    /// Appends the samples of a block to `out`, interleaved, from -32,768 to 32,767.
    pub fn decode(self, block: &[u8], channels: usize, out: &mut Vec<i16>) -> Result<()> {
        let frames = self.frames(block.len(), channels);
        let from = out.len();
        let samples = frames.saturating_mul(channels);
        out.try_reserve(samples).map_err(|_| Error::OutOfMemory { what: "samples", bytes: 2 * samples as u64 })?;
        out.resize(from + samples, 0);
        let out = out.get_mut(from..).unwrap_or_default();
        for channel in 0..channels {
            let own = out.iter_mut().skip(channel).step_by(channels.max(1));
            match self {
                Adpcm::Microsoft => microsoft(block, channel, channels, own)?,
                Adpcm::Ima => ima(block, channel, channels, own),
            }
        }
        Ok(())
    }
}

fn byte(block: &[u8], at: usize) -> u8 {
    block.get(at).copied().unwrap_or(0)
}

fn short(block: &[u8], at: usize) -> i32 {
    i16::from_le_bytes([byte(block, at), byte(block, at + 1)]).into()
}

fn clamped(sample: i32) -> i16 {
    sample.clamp(-32_768, 32_767) as i16
}

/// Decodes one channel. A block has the headers of all channels field by field, then one 4-bit number per channel in
/// turn, the upper half of each byte first.
fn microsoft<'a>(block: &[u8], channel: usize, channels: usize, out: impl Iterator<Item = &'a mut i16>) -> Result<()> {
    let predictor = byte(block, channel);
    let Some([first, second]) = PREDICTORS.get(usize::from(predictor)) else {
        let what = format!("the predictor of a block is {predictor}; it must be from 0 to 6");
        return Err(Error::Format { path: "the WAV file".to_owned(), what });
    };
    let [mut step, mut last, mut before] =
        [0, 1, 2].map(|field| short(block, channels + 2 * (field * channels + channel)));
    for (i, place) in out.enumerate() {
        let sample = match i {
            0 => before,
            1 => last,
            _ => {
                let at = (i - 2) * channels + channel;
                let both = byte(block, 7 * channels + at / 2);
                let code = i32::from(if at.is_multiple_of(2) { both >> 4 } else { both & 15 });
                let difference = if code < 8 { code } else { code - 16 };
                let sample = clamped(((last * first + before * second) >> 8) + difference * step);
                let factor = FACTORS.get(code as usize).copied().unwrap_or(256);
                // Truncated to 16 bits, as in libsndfile; a step that is too large wraps and becomes the minimum.
                step = i32::from(((step * factor) >> 8) as i16).max(16);
                (before, last) = (last, sample.into());
                sample.into()
            }
        };
        *place = clamped(sample);
    }
    Ok(())
}

/// Decodes one channel. A block has four header bytes per channel, then four bytes per channel in turn, the lower half
/// of each byte first.
fn ima<'a>(block: &[u8], channel: usize, channels: usize, out: impl Iterator<Item = &'a mut i16>) {
    let mut sample = short(block, 4 * channel);
    let mut index = i32::from(byte(block, 4 * channel + 2)).min(88);
    for (i, place) in out.enumerate() {
        if let Some(at) = i.checked_sub(1) {
            let both = byte(block, 4 * (channels * (1 + at / 8) + channel) + at % 8 / 2);
            let code = if at.is_multiple_of(2) { both & 15 } else { both >> 4 };
            let step = STEPS.get(index as usize).copied().unwrap_or(7);
            let parts = [(4, step), (2, step >> 1), (1, step >> 2)];
            let size = parts.iter().filter(|(bit, _)| code & bit != 0).map(|(_, part)| part).sum::<i32>() + (step >> 3);
            sample = clamped(sample + if code & 8 == 0 { size } else { -size }).into();
            index = (index + MOVES.get(usize::from(code & 7)).copied().unwrap_or(0)).clamp(0, 88);
        }
        *place = clamped(sample);
    }
}
