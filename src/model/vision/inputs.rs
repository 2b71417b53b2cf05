//! The inputs of an encoder, and the parts of the token sequence around its rows.

use std::borrow::Cow;

/// A part of the token sequence of an image or audio.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Text to tokenize, with special tokens by name.
    Text(Cow<'static, str>),
    /// Number of rows.
    Rows(usize),
}

/// `Piece::Text`
pub fn text(text: &'static str) -> Piece {
    Piece::Text(Cow::Borrowed(text))
}

/// The inputs of an encoder for a tile or an audio part.
#[derive(Default)]
pub struct TileInputs {
    /// Number of patches, including class token and queries.
    pub n: usize,
    /// `[n, 3 * patch * patch]`, or as wide as an audio encoder's input.
    pub patches: Vec<f32>,
    /// Frames of whole chunks, from which convolutions compute patches; empty without convolutions.
    pub frames: Vec<f32>,
    /// Position embeddings, `[n, width]`; empty if none are added.
    pub places: Vec<f32>,
    /// `[n, width of a query]`; empty without queries.
    pub queries: Vec<f32>,
    /// `[n]`, as in `StepInputs`.
    pub rope_positions: Vec<[u32; 3]>,
    pub spans: Vec<[u32; 2]>,
    /// The row index of each block, in row-major order of the tile.
    pub rows: Vec<usize>,
    /// Number of hidden states before those of blocks.
    pub first: usize,
}
