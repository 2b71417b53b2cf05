//! The inputs of an encoder, and the pieces of the sequence in which its rows stand.

use std::borrow::Cow;

/// A part of the sequence in which a picture or a sound stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Tokens of the model, of which those for control are written by their names.
    Text(Cow<'static, str>),
    /// So many of the next rows.
    Rows(usize),
}

/// `Piece::Text`
pub fn text(text: &'static str) -> Piece {
    Piece::Text(Cow::Borrowed(text))
}

/// The inputs of an encoder for a tile, or for a part of a sound.
#[derive(Default)]
pub struct TileInputs {
    /// Number of patches, the class token and queries among them.
    pub n: usize,
    /// `[n, 3 * patch * patch]`, or as wide as the encoder of a sound takes them.
    pub patches: Vec<f32>,
    /// Frames of whole chunks, of which convolutions make patches; empty where there are none.
    pub frames: Vec<f32>,
    /// `[n, width]`; empty where nothing is added.
    pub places: Vec<f32>,
    /// `[n, width of a query]`; empty where there are no queries.
    pub queries: Vec<f32>,
    /// `[n]`, as `StepInputs` has them.
    pub turns: Vec<[u32; 3]>,
    pub spans: Vec<[u32; 2]>,
    /// Number of the row, from the left and line by line, that each block becomes.
    pub rows: Vec<usize>,
    /// Hidden states ahead of those that blocks are made of.
    pub first: usize,
}
