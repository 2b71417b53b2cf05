//! The C interface: every `extern "C"` function, one file per group of the header, in the header's order (see
//! `build.rs`). Parses arguments, calls the engine, writes outputs on success only.
//!
//! Doc comments of public items here are the text of `include/realizar.h`, so they are written for C programmers.

#![allow(unsafe_code, non_camel_case_types)]
// The requirements on pointers are stated only in the header's overview and at `guard::guard`.
#![allow(clippy::missing_safety_doc)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::cast_possible_truncation
    )
)]

mod arguments;
mod faults;
mod field;
mod guard;
mod handle;
mod lock;
mod media_work;
mod structs;

pub mod adapter;
pub mod allocator;
pub mod cache;
pub mod cancel;
pub mod chat;
pub mod conversation;
pub mod conversation_media;
pub mod conversation_saved;
pub mod conversation_say;
pub mod conversation_set;
pub mod device;
pub mod element;
pub mod embed;
pub mod encoder;
pub mod generate;
pub mod grammar;
pub mod hub;
pub mod job;
pub mod kernels;
pub mod layout;
pub mod media;
pub mod media_steps;
pub mod metrics;
pub mod model;
pub mod model_info;
pub mod placement;
pub mod plan;
pub mod prompt;
pub mod reply;
pub mod runtime;
pub mod sampler;
pub mod saved;
pub mod score;
pub mod sound;
pub mod source;
pub mod status;
pub mod store;
pub mod text;
pub mod version;
pub mod video;
