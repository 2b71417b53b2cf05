//! Saved sessions and conversations.

pub mod cache;
pub mod conversation;
pub mod media;
pub(super) mod parts;

pub use cache::{RestoreParams, load, save};
