//! Video input: frame pairs within the caller's bounds, their rows, the tokens around and between them, and the
//! timestamps in the prompt.

use sha2::{Digest, Sha256};

use super::bounds::{MOST_ROWS, PictureBounds};
use super::encoder::Encoder;
use super::item::{MediaHash, MediaLayout};
use super::picture::{made_by, media_parts};
use crate::engine::cancel::Cancel;
use crate::error::{Error, Result, try_vec};
use crate::media::{Layout, Narrow, Picture, Sizing};
use crate::model::vision::{Pace, Video};

/// Maximum time of a frame, in seconds.
const LAST_SECOND: f64 = 1e6;

/// Frames of a video. Each is requested once, in order.
pub struct Frames<'a> {
    /// Time of each frame in seconds from the beginning.
    pub times: &'a [f64],
    pub frame: &'a mut dyn FnMut(usize) -> Result<Picture>,
}

/// The resized frames, and the layout of their rows.
pub(super) struct Cut {
    pub tiles: Vec<Picture>,
    pub tile_layout: Layout,
    pub layout: MediaLayout,
    pub hash: MediaHash,
}

fn facts(encoder: &Encoder) -> Result<Video> {
    let what = || {
        format!(
            "cannot encode a video with an encoder of the kind {:?}; give it frames as pictures",
            encoder.facts().projector
        )
    };
    encoder.facts().video.ok_or_else(|| Error::unsupported(what()))
}

/// Returns the sizing rule for frames, and the layout of `n` frames.
fn fitted(encoder: &Encoder, [width, height]: [usize; 2], n: usize, bounds: PictureBounds) -> Result<(Sizing, Layout)> {
    let (facts, Video { pixels: [least, most], pace }) = (encoder.facts(), facts(encoder)?);
    let Sizing::Area { grain, filter, .. } = facts.sizing else {
        return Err(Error::unsupported("cannot encode a video: the encoder cuts pictures into tiles"));
    };
    let (pairs, most_rows) = (n.div_ceil(2), if bounds.max_rows == 0 { MOST_ROWS } else { bounds.max_rows });
    // Converts bounds in rows to bounds in pixels. The sizing rule counts the pixels of one frame, or of all frames.
    let (frames, narrow, counted) = match pace {
        Pace::Apart => (n, Narrow::Cut, (n as f64 / 2.0).round_ties_even() as usize * 2),
        Pace::Pairs | Pace::Seconds(_) => (1, Narrow::Own, 1),
    };
    let pixels = |rows: usize| (rows as u128 * (grain * grain * counted) as u128 / pairs as u128) as usize;
    let most = most.min(pixels(most_rows)).max(1);
    let least = least.max(pixels(bounds.min_rows)).min(most);
    let sizing = Sizing::Area { grain, least, most, frames, narrow, filter };
    let layout = sizing.layout(width, height)?;
    let rows = facts.n_rows(&layout).saturating_mul(pairs);
    if rows > most_rows {
        let what =
            format!("a video of {n} frames of {width} x {height} has {rows} rows; it must have at most {most_rows}");
        return Err(Error::TooComplex(what));
    }
    Ok((sizing, layout.repeated(pairs)?))
}

/// Resizes frames for the encoder.
pub(super) fn cut(encoder: &Encoder, frames: Frames, bounds: PictureBounds, cancel: Option<&Cancel>) -> Result<Cut> {
    let Frames { times, frame } = frames;
    check_times(times)?;
    let pace = facts(encoder)?.pace;
    let first = frame(0)?;
    let size = [first.width, first.height];
    let (sizing, layout) = fitted(encoder, size, times.len(), bounds)?;
    let mut tiles = try_vec("frames", 2 * layout.pairs)?;
    let mut hash = Sha256::new();
    hash.update(format!("video {} {layout:?} {pace:?}", made_by(encoder)));
    let mut next = Some(first);
    for i in 0..times.len() {
        Cancel::check(&[cancel])?;
        let picture = next.take().map_or_else(|| frame(i), Ok)?;
        if [picture.width, picture.height] != size {
            let what = format!(
                "it has {} x {} pixels; it must have {} x {} as the first one",
                picture.width, picture.height, size[0], size[1]
            );
            return Err(Error::invalid(what).of_entry(i));
        }
        tiles.push(picture.resize_frame(layout.tile_width, layout.tile_height, sizing.filter())?);
    }
    if let Some(last) = tiles.last().filter(|_| times.len() % 2 == 1) {
        // An odd last frame is repeated.
        tiles.push(last.clone());
    }
    tiles.iter().for_each(|tile| hash.update(&tile.rgb));
    times.iter().for_each(|time| hash.update(time.to_le_bytes()));
    let pieces = encoder.facts().video_pieces(&layout, &times_of_pairs(times), pace);
    let [columns, lines] = encoder.facts().tile_grid(&layout);
    Ok(Cut {
        layout: MediaLayout {
            columns,
            lines,
            size,
            seen: [layout.seen_width, layout.seen_height],
            pairs: layout.pairs,
            times: positions(times, layout.pairs, pace),
            parts: media_parts(encoder.runs_of(pieces)?),
            ..MediaLayout::default()
        },
        tiles,
        tile_layout: layout,
        hash: hash.finalize().into(),
    })
}

fn check_times(times: &[f64]) -> Result<()> {
    if times.len() < 2 {
        return Err(Error::invalid(format!("the video has {} frames; it must have at least 2", times.len())));
    }
    let is_time = |time: &f64| (0.0..=LAST_SECOND).contains(time);
    if let Some(i) = times.iter().position(|time| !is_time(time)) {
        return Err(Error::invalid(format!("the time is {}; it must be from 0 to {LAST_SECOND}", times[i])).of_entry(i));
    }
    match times.windows(2).position(|two| two[1] < two[0]) {
        Some(i) => Err(Error::invalid("the time is before that of the last frame; it must not be").of_entry(i + 1)),
        None => Ok(()),
    }
}

/// Returns the mean time of each pair.
fn times_of_pairs(times: &[f64]) -> Vec<f64> {
    times.chunks(2).map(|pair| (pair[0] + pair.last().unwrap_or(&pair[0])) / 2.0).collect()
}

/// Returns the M-RoPE time positions of pairs, in f32 like the reference implementation.
fn positions(times: &[f64], pairs: usize, pace: Pace) -> Vec<u32> {
    match pace {
        Pace::Pairs => (0..pairs as u32).collect(),
        Pace::Seconds(per_second) => {
            let first = times.first().copied().unwrap_or(0.0);
            let position = |time: &f64| ((time - first) * f64::from(per_second)) as f32 as u32;
            times.iter().step_by(2).map(position).collect()
        }
        Pace::Apart => Vec::new(),
    }
}
