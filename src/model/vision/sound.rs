//! The host's work for audio encoders: division of audio into parts, and the inputs of each part.

use super::inputs::{Piece, TileInputs, text};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::media::{HOP, LogMel, Spectrogram};

/// Frames on each side that two convolutions reach, and in total.
const REACH: usize = 2;
const TAPS: usize = 2 * REACH + 1;

/// How a family divides audio into parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cutting {
    /// Parts with a spectrogram each, the last padded with silence. Hidden states of silence are masked, and a row
    /// needs a complete stack of hidden states.
    Each,
    /// Parts of one spectrogram, the last padded with silence, which is not masked.
    Filled,
    /// Parts of one spectrogram, the last one shorter; its last row uses the remaining hidden states.
    Cut,
    /// Parts of one spectrogram, the last one shorter; remaining hidden states form no row.
    Windows,
    /// Parts of one spectrogram, the last one shorter. A part has several chunks of `frames` frames; convolutions
    /// compute the hidden states of each chunk, zero-padded at its ends. Short audio is padded.
    Chunks { frames: usize, per_part: usize },
}

/// Minimum samples of audio in chunks; shorter audio is padded.
const FEWEST_SAMPLES: usize = 8_000;

/// Frames or bins after three convolutions with stride 2.
pub fn halved(n: usize) -> usize {
    n.div_ceil(2).div_ceil(2).div_ceil(2)
}

/// Properties of an audio encoder for the host.
pub struct SoundFacts {
    /// Number of values of a frame.
    pub bins: usize,
    /// Number of hidden states per row.
    pub stack: usize,
    pub cutting: Cutting,
    /// Names of the tokens before and after the rows.
    pub around: [&'static str; 2],
    /// Position embeddings, `[places, width]`; a part has two frames per place.
    pub(super) table: Vec<f32>,
    pub(super) width: usize,
}

/// A part of audio, in frames and hidden states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SoundPart {
    /// First frame in the spectrogram, and number of frames.
    first: usize,
    frames: usize,
    /// Number of hidden states, and of unmasked ones.
    pub n: usize,
    seen: usize,
    pub rows: usize,
}

/// A part with its frames, `[frames, bins]`; missing ones at the end are zeros.
pub struct AudioPart {
    pub part: SoundPart,
    frames: Vec<f32>,
}

/// Preprocessing of the parts of audio.
pub struct AudioParts {
    mel: LogMel,
    parts: Vec<SoundPart>,
    /// The spectrogram in progress: of the whole audio, or of the next part.
    spectrogram: Option<Spectrogram>,
    /// The finished spectrogram of the whole audio.
    whole: Vec<f32>,
    /// The finished parts.
    pub done: Vec<AudioPart>,
}

impl AudioParts {
    /// Continues with the same audio until complete, and returns true, or until `pauses` returns true, and returns
    /// false.
    pub fn advance(&mut self, facts: &SoundFacts, samples: &[f32], pauses: &mut dyn FnMut() -> bool) -> Result<bool> {
        let padded = facts.padded(samples.len());
        while let Some(part) = self.parts.get(self.done.len()) {
            let own = match padded {
                Some(_) => samples,
                None => {
                    let own = samples.get(part.first * HOP..).unwrap_or_default();
                    &own[..own.len().min(facts.part_samples())]
                }
            };
            if self.whole.is_empty() {
                let length = padded.unwrap_or_else(|| facts.part_samples());
                let mut work = self.spectrogram.take().map_or_else(|| self.mel.begin(length), Ok)?;
                if !self.mel.advance(&mut work, own, pauses) {
                    self.spectrogram = Some(work);
                    return Ok(false);
                }
                self.whole = work.finish();
            }
            let frames = match padded {
                None => std::mem::take(&mut self.whole),
                Some(_) => {
                    let from = self.whole.get(part.first * facts.bins..).unwrap_or_default();
                    let from = &from[..from.len().min(part.frames * facts.bins)];
                    let mut frames = try_vec("a spectrogram", from.len())?;
                    frames.extend_from_slice(from);
                    frames
                }
            };
            self.done.push(AudioPart { part: part.clone(), frames });
        }
        Ok(true)
    }
}

impl SoundFacts {
    /// Returns the number of samples of a part.
    pub fn part_samples(&self) -> usize {
        HOP * self.part_frames()
    }

    fn part_frames(&self) -> usize {
        match self.cutting {
            Cutting::Chunks { frames, per_part } => frames * per_part,
            _ => 2 * self.places(),
        }
    }

    fn places(&self) -> usize {
        self.table.len() / self.width.max(1)
    }

    /// Returns the maximum number of samples with up to `rows` rows.
    pub fn most_samples(&self, rows: usize) -> usize {
        // A last row, or a last part, may be incomplete.
        let part = match self.cutting {
            Cutting::Chunks { frames, per_part } => halved(frames) * per_part,
            _ => (self.places() / self.stack.max(1)).max(1),
        };
        let of_part = self.part_samples();
        (rows / part).saturating_add(1).saturating_mul(of_part)
    }

    /// Returns the number of rows of the shortest valid audio.
    pub fn fewest_rows(&self) -> usize {
        match self.cutting {
            Cutting::Filled => self.places() / self.stack.max(1),
            Cutting::Chunks { .. } => halved(FEWEST_SAMPLES / HOP),
            Cutting::Each | Cutting::Cut | Cutting::Windows => 1,
        }
    }

    /// Returns the text around `rows` rows.
    pub fn pieces(&self, rows: usize) -> Vec<Piece> {
        let [ahead, after] = self.around.map(|name| (!name.is_empty()).then(|| text(name)));
        ahead.into_iter().chain([Piece::Rows(rows)]).chain(after).collect()
    }

    /// Divides `samples` samples into parts; fails if they have no row.
    pub fn parts(&self, samples: usize) -> Result<Vec<SoundPart>> {
        let (per, places, stack) = (self.part_frames(), self.places(), self.stack.max(1));
        let frames = match self.cutting {
            Cutting::Chunks { .. } => samples.max(FEWEST_SAMPLES) / HOP,
            Cutting::Each | Cutting::Filled | Cutting::Windows => samples.div_ceil(HOP),
            // The minimum length.
            Cutting::Cut => samples.div_ceil(HOP).max(2),
        };
        let mut parts = try_vec("parts of a sound", frames.div_ceil(per.max(1)))?;
        for first in (0..frames).step_by(per.max(1)) {
            let given = per.min(frames - first);
            if let Cutting::Chunks { frames: of_chunk, .. } = self.cutting {
                let n = given / of_chunk * halved(of_chunk) + halved(given % of_chunk);
                parts.push(SoundPart { first, frames: given, n, seen: n, rows: n });
                continue;
            }
            let seen = if self.cutting == Cutting::Filled { places } else { given.div_ceil(2) };
            let rows = if self.cutting == Cutting::Cut { seen.div_ceil(stack) } else { seen / stack };
            // The last row of a later part uses masked hidden states too.
            let continues = self.cutting == Cutting::Cut && first > 0;
            let n = if continues { places.min(rows * stack) } else { seen };
            let ends = self.cutting == Cutting::Windows || self.cutting == Cutting::Cut && !continues;
            let frames = if ends { given } else { per };
            if rows > 0 {
                parts.push(SoundPart { first, frames, n, seen, rows });
            }
        }
        if parts.is_empty() {
            return Err(Error::invalid(format!("a sound of {samples} samples is too short for a row")));
        }
        Ok(parts)
    }

    /// Returns the parts of audio with their frames.
    pub fn split(&self, samples: &[f32]) -> Result<Vec<AudioPart>> {
        let mut splitting = self.begin(samples.len())?;
        splitting.advance(self, samples, &mut || false)?;
        Ok(splitting.done)
    }

    /// Begins the work of `split` for `samples` samples.
    pub fn begin(&self, samples: usize) -> Result<AudioParts> {
        let parts = self.parts(samples)?;
        Ok(AudioParts {
            mel: LogMel::new(self.bins),
            done: try_vec("parts of a sound", parts.len())?,
            parts,
            spectrogram: None,
            whole: Vec::new(),
        })
    }

    /// Returns the number of samples of the common spectrogram, including appended silence; `None` if each part has its
    /// own.
    fn padded(&self, samples: usize) -> Option<usize> {
        match self.cutting {
            Cutting::Each => None,
            Cutting::Filled => Some(samples.next_multiple_of(self.part_samples().max(1))),
            Cutting::Cut => Some(samples.max(2 * HOP).next_multiple_of(HOP)),
            // Appended silence.
            Cutting::Windows => Some((samples + 3 * HOP).next_multiple_of(HOP)),
            Cutting::Chunks { .. } => Some(samples.max(FEWEST_SAMPLES)),
        }
    }

    /// Returns the width of the encoder's input: the frames of a hidden state, and two flags that are 0 if its first or
    /// last neighbor does not exist.
    pub(super) fn input_width(bins: usize) -> usize {
        TAPS * bins + 2
    }

    /// Returns the encoder's inputs for a part.
    pub fn inputs(&self, audio: &AudioPart) -> Result<TileInputs> {
        let (part, bins) = (&audio.part, self.bins);
        let n = part.n;
        if let Cutting::Chunks { frames: of_chunk, .. } = self.cutting {
            let mut frames = try_filled("frames", part.frames.next_multiple_of(of_chunk.max(1)) * bins, 0f32)?;
            frames.iter_mut().zip(&audio.frames).for_each(|(to, from)| *to = *from);
            let mut places = try_vec("places of frames", n.saturating_mul(self.width))?;
            places.extend(self.table.iter().cycle().take(n * self.width));
            return Ok(TileInputs { n, frames, places, rows: (0..part.rows).collect(), ..TileInputs::default() });
        }
        let mut columns = try_vec("frames", n.saturating_mul(Self::input_width(bins)))?;
        for t in 0..n {
            for at in (2 * t..2 * t + TAPS).map(|at| at.checked_sub(REACH)) {
                let from = at.filter(|at| *at < part.frames).and_then(|at| audio.frames.get(at * bins..)?.get(..bins));
                match from {
                    Some(frame) => columns.extend_from_slice(frame),
                    None => columns.extend(std::iter::repeat_n(0.0, bins)),
                }
            }
            columns.extend([t > 0, 2 * t + 1 < part.frames].map(|exists| f32::from(u8::from(exists))));
        }
        let mut places = try_vec("places of frames", n.saturating_mul(self.width))?;
        places.extend_from_slice(self.table.get(..n * self.width).unwrap_or_default());
        let spans = if part.seen < n { try_filled("spans", n, [0, part.seen as u32])? } else { Vec::new() };
        let rows = (0..part.rows).collect();
        Ok(TileInputs { n, patches: columns, places, spans, rows, ..TileInputs::default() })
    }

    /// Chunk number `i` of the frames of a part, and its number of hidden states; `None` after the last one, or without
    /// chunks.
    pub fn chunk(&self, frames: &[f32], i: usize) -> Result<Option<(Grid, usize)>> {
        let Some([times, bins]) = self.chunk_size() else { return Ok(None) };
        let Some(chunk) = frames.chunks_exact((times * bins).max(1)).nth(i) else { return Ok(None) };
        let mut values = try_vec("frames", chunk.len())?;
        values.extend_from_slice(chunk);
        Ok(Some((Grid { times, bins, values }, halved(times))))
    }

    /// Returns the number of frames of a chunk, and of bins.
    pub fn chunk_size(&self) -> Option<[usize; 2]> {
        if let Cutting::Chunks { frames, .. } = self.cutting { Some([frames, self.bins]) } else { None }
    }
}

/// Values by time and bin, `[times, bins, channels]`.
#[derive(Default)]
pub struct Grid {
    pub times: usize,
    pub bins: usize,
    pub values: Vec<f32>,
}

impl Grid {
    /// Returns the im2col columns of a 3x3 convolution with stride 2: `[times / 2, bins / 2, 3 bins, 3 times,
    /// channels]`, zero-padded at the edges.
    pub fn columns(&self) -> Result<Grid> {
        let channels = self.values.len() / (self.times * self.bins).max(1);
        let [times, bins] = [self.times, self.bins].map(|n| n.div_ceil(2));
        let mut values = try_vec("columns", times * bins * 9 * channels)?;
        for (time, bin) in (0..times).flat_map(|time| (0..bins).map(move |bin| (time, bin))) {
            for (y, x) in (0..3).flat_map(|y| (0..3).map(move |x| (y, x))) {
                let inside = |at: usize, n: usize| at.checked_sub(1).filter(|at| *at < n);
                let at = inside(2 * time + x, self.times).zip(inside(2 * bin + y, self.bins));
                match at.and_then(|(time, bin)| self.values.get((time * self.bins + bin) * channels..)?.get(..channels))
                {
                    Some(numbers) => values.extend_from_slice(numbers),
                    None => values.extend(std::iter::repeat_n(0.0, channels)),
                }
            }
        }
        Ok(Grid { times, bins, values })
    }
}
