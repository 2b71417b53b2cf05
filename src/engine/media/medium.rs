//! The rows of a picture, a sound or a source text, as a network takes them among its tokens. *Invariant:* immutable,
//! and its hash says what it is.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::runtime::Reservation;
use crate::graph::program::Program;

/// SHA-256 of all that a medium was made of.
pub type MediaHash = [u8; 32];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaKind {
    Image,
    Audio,
    /// The source of a decoder.
    Text,
    /// The vector of a picture, which is compared with those of texts and stands in no prompt.
    Vector,
    /// Frames of a video, in pairs.
    Video,
}

/// A part of a medium as prompts write it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaPart {
    /// One of the model's tokens around and between rows.
    Token(u32),
    /// So many of the next rows.
    Rows(usize),
}

/// The order of the rows, and the sizes of the picture that they came of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MediaLayout {
    /// Rows of a line and number of lines, of the whole where it is one tile, else of a tile.
    pub columns: usize,
    pub lines: usize,
    /// Number of tiles beside and above one another; 0 where there is one.
    pub tile_columns: usize,
    pub tile_lines: usize,
    pub has_overview: bool,
    /// Pixels of the picture, and of all tiles together as the network sees them; samples and 0 of a sound.
    pub size: [usize; 2],
    pub seen: [usize; 2],
    /// Pairs of frames of a video, each of which has `lines` lines.
    pub pairs: usize,
    /// Positions of time of the pairs, from the first on; empty where each pair is a picture of its own.
    pub times: Vec<u32>,
    pub parts: Vec<MediaPart>,
}

impl MediaLayout {
    pub fn n_rows(&self) -> usize {
        let rows = |part: &MediaPart| if let MediaPart::Rows(n) = part { *n } else { 0 };
        self.parts.iter().map(rows).fold(0, usize::saturating_add)
    }

    /// Number of tokens that it takes with those around and between.
    pub fn n_tokens(&self) -> usize {
        let tokens = |part: &&MediaPart| matches!(part, MediaPart::Token(_));
        self.n_rows() + self.parts.iter().filter(tokens).count()
    }
}

pub struct Media {
    pub(in crate::engine) kind: MediaKind,
    pub(in crate::engine) layout: MediaLayout,
    /// Numbers of a row.
    pub(super) row_dim: usize,
    /// `[n_rows, row_dim]`
    pub(super) rows: Vec<f32>,
    /// The rows of a part see each other, so that one step computes them.
    pub(in crate::engine) is_mutual: bool,
    pub(in crate::engine) hash: MediaHash,
    /// Time that its encoding took.
    pub(super) encoding: Duration,
    /// The program of the model that it is for.
    pub(in crate::engine) program: Arc<Program>,
    pub(super) _memory: Reservation,
}

impl Media {
    pub fn kind(&self) -> MediaKind {
        self.kind
    }

    pub fn layout(&self) -> &MediaLayout {
        &self.layout
    }

    pub fn row_dim(&self) -> usize {
        self.row_dim
    }

    pub fn rows(&self) -> &[f32] {
        &self.rows
    }

    pub fn hash(&self) -> &MediaHash {
        &self.hash
    }

    pub fn encoding(&self) -> Duration {
        self.encoding
    }

    /// Rows of a pair of frames; of other media all.
    pub(in crate::engine) fn rows_of_pair(&self) -> usize {
        match self.kind {
            MediaKind::Video => self.layout.columns.saturating_mul(self.layout.lines).max(1),
            _ => usize::MAX,
        }
    }

    /// True where a run of rows ends ahead of this one, whatever stands between.
    pub(in crate::engine) fn begins_run(&self, row: usize) -> bool {
        self.layout.times.is_empty() && row.is_multiple_of(self.rows_of_pair())
    }

    pub(in crate::engine) fn row(&self, i: usize) -> &[f32] {
        &self.rows[i * self.row_dim..][..self.row_dim]
    }
}
