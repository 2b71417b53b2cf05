//! The rows of an image, audio, video or source text, in the form in which a network reads them. *Invariant:* immutable
//! and identified by its hash.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::runtime::Reservation;
use crate::graph::program::Program;

/// SHA-256 of everything that a media item was made of.
pub type MediaHash = [u8; 32];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaKind {
    Image,
    Audio,
    /// Encoder output for an encoder-decoder model.
    Text,
    /// The embedding of an image, for comparison with text embeddings; not usable in prompts.
    Vector,
    /// Frame pairs of a video.
    Video,
}

/// A part of a media item in a prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaPart {
    /// A token of the model around or between rows.
    Token(u32),
    /// Number of rows.
    Rows(usize),
}

/// The order of the rows, and the image sizes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MediaLayout {
    /// Rows per line and number of lines: of the whole image if it is one tile, otherwise of a tile.
    pub columns: usize,
    pub lines: usize,
    /// Number of tiles in each direction; 0 for a single tile.
    pub tile_columns: usize,
    pub tile_lines: usize,
    pub has_overview: bool,
    /// Image size in pixels, and size of all tiles that the network sees. For audio: samples, and 0.
    pub size: [usize; 2],
    pub seen: [usize; 2],
    /// Number of frame pairs of a video; each has `lines` lines.
    pub pairs: usize,
    /// M-RoPE time positions of the pairs, starting at the first; empty if each pair is positioned like an image.
    pub times: Vec<u32>,
    pub parts: Vec<MediaPart>,
}

impl MediaLayout {
    pub fn n_rows(&self) -> usize {
        let rows = |part: &MediaPart| if let MediaPart::Rows(n) = part { *n } else { 0 };
        self.parts.iter().map(rows).fold(0, usize::saturating_add)
    }

    /// Returns the number of tokens, including those around and between rows.
    pub fn n_tokens(&self) -> usize {
        let tokens = |part: &&MediaPart| matches!(part, MediaPart::Token(_));
        self.n_rows() + self.parts.iter().filter(tokens).count()
    }
}

pub struct Media {
    pub(in crate::engine) kind: MediaKind,
    pub(in crate::engine) layout: MediaLayout,
    /// Number of values of a row.
    pub(super) row_dim: usize,
    /// `[n_rows, row_dim]`
    pub(super) rows: Vec<f32>,
    /// True if the rows of a part attend to each other in both directions, which needs a single step.
    pub(in crate::engine) is_mutual: bool,
    pub(in crate::engine) hash: MediaHash,
    /// Encoding time.
    pub(super) encoding: Duration,
    /// The program of its model.
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

    /// Rows of a frame pair; for other media, all rows.
    pub(in crate::engine) fn rows_of_pair(&self) -> usize {
        match self.kind {
            MediaKind::Video => self.layout.columns.saturating_mul(self.layout.lines).max(1),
            _ => usize::MAX,
        }
    }

    /// True if a run of rows begins at this row, even without tokens between this run and the previous one.
    pub(in crate::engine) fn begins_run(&self, row: usize) -> bool {
        self.layout.times.is_empty() && row.is_multiple_of(self.rows_of_pair())
    }

    pub(in crate::engine) fn row(&self, i: usize) -> &[f32] {
        &self.rows[i * self.row_dim..][..self.row_dim]
    }
}
