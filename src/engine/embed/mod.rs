//! Embeddings.

mod embed;
pub(super) mod vectors;

pub use embed::EmbedParams;
