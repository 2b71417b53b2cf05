//! Saved media, alone or among the tokens of a saved session. The input may be damaged or hostile: reading never
//! allocates more memory than the input has bytes.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use twox_hash::XxHash64;

use super::parts::{PIECE, Read, Write, bytes_of, damaged, read_floats, read_words};
use crate::engine::media::item::{Media, MediaHash, MediaKind, MediaLayout, MediaPart};
use crate::engine::media::make::{self, MediaRows};
use crate::engine::model::Model;
use crate::engine::runs::{MediaRuns, Run};
use crate::error::{Error, Result, try_vec};
use crate::graph::step::MEDIA_ROW;

const MAGIC: u64 = u64::from_le_bytes(*b"rz_media");
const VERSION: u64 = 2;

/// Marks a part that is rows.
const ROWS: u64 = 1 << 32;
/// Number of values read and allocated at once.
const NUMBERS: usize = 1 << 16;

/// Writes a media item.
pub fn save(model: &Model, media: &Media, write: Write) -> Result<()> {
    bytes_of(&[MAGIC, VERSION, model.fingerprint()?], u64::to_ne_bytes, write)?;
    let mut hash = XxHash64::with_seed(0);
    write_media(media, &mut |bytes| {
        hash.write(bytes);
        write(bytes)
    })?;
    write(&hash.finish().to_ne_bytes())
}

/// Restores a media item.
pub fn load(model: &Model, read: Read) -> Result<Arc<Media>> {
    let [magic, version, fingerprint] = read_words(read)?;
    if magic != MAGIC {
        return Err(damaged("it does not begin like a saved media item"));
    }
    if version != VERSION {
        return Err(Error::Version(format!("the media item has version {version}, this library reads {VERSION}")));
    }
    if fingerprint != model.fingerprint()? {
        return Err(Error::Mismatch("the media item was saved for another model".to_owned()));
    }
    let mut hash = XxHash64::with_seed(0);
    let media = read_media(model, &mut |bytes| {
        bytes.chunks_mut(PIECE).try_for_each(|piece| {
            read(piece)?;
            hash.write(piece);
            Ok(())
        })
    });
    let media = media?;
    match read_words(read)? == [hash.finish()] {
        true => Ok(media),
        false => Err(damaged("the checksum is wrong")),
    }
}

fn write_media(media: &Media, write: Write) -> Result<()> {
    let MediaLayout { columns, lines, tile_columns, tile_lines, has_overview, size, seen, pairs, times, parts } =
        media.layout();
    let numbers = [*columns, *lines, *tile_columns, *tile_lines, usize::from(*has_overview), size[0], size[1], seen[0]];
    let numbers =
        numbers.into_iter().chain([seen[1], media.row_dim(), *pairs, times.len(), parts.len()]).map(|n| n as u64);
    let head = [media.kind() as u64, u64::try_from(media.encoding().as_nanos()).unwrap_or(u64::MAX)];
    bytes_of(&head.into_iter().chain(numbers).collect::<Vec<_>>(), u64::to_ne_bytes, write)?;
    write(media.hash())?;
    bytes_of(times, u32::to_ne_bytes, write)?;
    let part = |part: &MediaPart| match *part {
        MediaPart::Token(id) => u64::from(id),
        MediaPart::Rows(n) => ROWS + n as u64,
    };
    bytes_of(&parts.iter().map(part).collect::<Vec<_>>(), u64::to_ne_bytes, write)?;
    bytes_of(media.rows(), f32::to_ne_bytes, write)
}

fn read_media(model: &Model, read: Read) -> Result<Arc<Media>> {
    let [kind, encoding, columns, lines, tile_columns, tile_lines, overview, width, height, seen_width, rest @ ..] =
        read_words::<15>(read)?;
    let [seen_height, row_dim, pairs, n_times, n_parts] = rest;
    let kinds = [MediaKind::Image, MediaKind::Audio, MediaKind::Text, MediaKind::Vector, MediaKind::Video];
    let kind = kinds.into_iter().find(|known| *known as u64 == kind);
    let kind = kind.ok_or_else(|| damaged("a media item has an unknown kind"))?;
    let expected = make::row_dim(model, kind)?;
    if row_dim != expected as u64 {
        return Err(damaged(format!("rows of {row_dim} numbers, the model takes {expected}")));
    }
    let mut hash: MediaHash = [0; 32];
    read(&mut hash)?;
    let mut times = Vec::new();
    for _ in 0..n_times {
        let mut time = [0; 4];
        read(&mut time)?;
        times.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "a media item", bytes: n_times })?;
        times.push(u32::from_ne_bytes(time));
    }
    let vocab = model.network()?.program.vocab as u64;
    let mut parts = Vec::new();
    for _ in 0..n_parts {
        let [part] = read_words(read)?;
        parts.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "a media item", bytes: n_parts })?;
        parts.push(match part.checked_sub(ROWS) {
            Some(n) => MediaPart::Rows(n as usize),
            None if part < vocab => MediaPart::Token(part as u32),
            None => return Err(damaged(format!("token {part} is outside the vocabulary of {vocab}"))),
        });
    }
    let [columns, lines] = [columns, lines].map(|n| n as usize);
    let layout = MediaLayout {
        columns,
        lines,
        tile_columns: tile_columns as usize,
        tile_lines: tile_lines as usize,
        has_overview: overview != 0,
        size: [width as usize, height as usize],
        seen: [seen_width as usize, seen_height as usize],
        pairs: pairs as usize,
        times,
        parts,
    };
    let n = layout.n_rows().checked_mul(expected).ok_or_else(|| damaged("more rows than memory has"))?;
    let mut rows = Vec::new();
    while rows.len() < n {
        let (before, more) = (rows.len(), (n - rows.len()).min(NUMBERS));
        rows.try_reserve(more).map_err(|_| Error::OutOfMemory { what: "a media item", bytes: 4 * n as u64 })?;
        rows.resize(before + more, 0.0);
        read_floats(&mut rows[before..], read)?;
    }
    let media = make::make(model, MediaRows { kind, layout, rows, hash, encoding: Duration::from_nanos(encoding) });
    media.map_err(|e| match e {
        Error::InvalidArgument(what) => damaged(what),
        other => other,
    })
}

/// Writes the media of a text and their places.
pub(super) fn write_runs(runs: &MediaRuns, write: Write) -> Result<()> {
    let mut media: Vec<&Arc<Media>> = Vec::new();
    let mut list = Vec::new();
    for run in runs.iter() {
        let known = media.iter().position(|media| media.hash() == run.media.hash());
        let number = known.unwrap_or(media.len());
        if known.is_none() {
            media.push(&run.media);
        }
        list.extend([run.place, run.first, run.len, number].map(|n| n as u64));
    }
    bytes_of(&[media.len() as u64], u64::to_ne_bytes, write)?;
    media.into_iter().try_for_each(|media| write_media(media, write))?;
    bytes_of(&[list.len() as u64 / 4], u64::to_ne_bytes, write)?;
    bytes_of(&list, u64::to_ne_bytes, write)
}

/// Reads the media of `tokens`.
pub(super) fn read_runs(model: &Model, tokens: &[u32], read: Read) -> Result<MediaRuns> {
    let n_rows = tokens.iter().filter(|id| **id == MEDIA_ROW).count();
    let up_to = |n: u64| {
        usize::try_from(n).ok().filter(|n| *n <= n_rows).ok_or_else(|| damaged(format!("{n} media are too many")))
    };
    let [n] = read_words(read)?;
    let mut media = try_vec("media", up_to(n)?)?;
    for _ in 0..n {
        media.push(read_media(model, read)?);
    }
    let [n] = read_words(read)?;
    let mut runs: Vec<Run> = try_vec("runs of media", up_to(n)?)?;
    let (mut next, mut found) = (0, 0);
    for _ in 0..n {
        let [place, first, len, number] = read_words(read)?.map(|n: u64| usize::try_from(n).unwrap_or(usize::MAX));
        let end = place.saturating_add(len);
        let is_rows = tokens.get(place..end).is_some_and(|tokens| tokens.iter().all(|id| *id == MEDIA_ROW));
        let item = media.get(number).filter(|media| media.kind() != MediaKind::Vector);
        let item = item.filter(|media| first.saturating_add(len) <= media.layout().n_rows());
        let Some(media) = item.filter(|_| place >= next && len > 0 && is_rows) else {
            return Err(damaged(format!("rows {first} of media item {number} at places {place} to {end}")));
        };
        runs.push(Run { media: media.clone(), first, place, len });
        (next, found) = (end, found + len);
    }
    match found == n_rows {
        true => Ok(MediaRuns::new(runs)),
        false => Err(damaged(format!("{found} of {n_rows} media rows are there"))),
    }
}
