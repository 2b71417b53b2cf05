//! Audio input: its parts, their rows and the tokens around them.

use super::bounds::most_rows;
use super::encoder::Encoder;
use super::item::MediaLayout;
use super::picture::media_parts;
use crate::error::{Error, Result};
use crate::media::Sound;
use crate::model::vision::SoundFacts;

pub(super) fn facts(encoder: &Encoder) -> Result<&SoundFacts> {
    encoder
        .facts()
        .sound
        .as_ref()
        .ok_or_else(|| Error::unsupported("cannot encode a sound: the encoder is one of pictures"))
}

/// Returns the maximum number of samples, at the encoder's rate, of audio with at most `max_rows` rows; 0: the default
/// bound.
pub fn most_samples(encoder: &Encoder, max_rows: usize) -> Result<usize> {
    Ok(facts(encoder)?.most_samples(most_rows(max_rows)))
}

/// Returns the layout of audio with `samples` samples at the encoder's rate.
pub fn measure(encoder: &Encoder, samples: usize, max_rows: usize) -> Result<MediaLayout> {
    let (facts, most) = (facts(encoder)?, most_rows(max_rows));
    let allowed = facts.most_samples(most);
    if samples > allowed {
        return Err(Error::TooComplex(format!("the sound has {samples} samples; it must have at most {allowed}")));
    }
    let rows = facts.parts(samples)?.iter().map(|part| part.rows).sum();
    if rows > most {
        return Err(Error::TooComplex(format!(
            "a sound of {samples} samples has {rows} rows; it must have at most {most}"
        )));
    }
    let parts = media_parts(encoder.runs_of(facts.pieces(rows))?);
    Ok(MediaLayout { columns: rows, lines: 1, size: [samples, 0], seen: [samples, 0], parts, ..MediaLayout::default() })
}

/// Returns the layout of audio with `given` samples per channel, and `samples` at the encoder's rate.
pub(super) fn layout(encoder: &Encoder, [given, samples]: [usize; 2], max_rows: usize) -> Result<MediaLayout> {
    Ok(MediaLayout { size: [given, 0], ..measure(encoder, samples, max_rows)? })
}

/// Returns the text that is hashed before the samples, so that audio with different rows has different hashes.
pub(super) fn hash_beginning(encoder: &Encoder, sound: &Sound) -> Result<String> {
    let facts = facts(encoder)?;
    let made_by = (&encoder.facts().projector, facts.bins, facts.stack, facts.cutting, encoder.facts().row_dim);
    Ok(format!("sound {} {made_by:?} {}", encoder.identity(), sound.samples.len()))
}

/// Returns the number of parts of audio with `samples` samples.
pub(super) fn n_parts(encoder: &Encoder, samples: usize) -> Result<usize> {
    Ok(facts(encoder)?.parts(samples)?.len())
}
