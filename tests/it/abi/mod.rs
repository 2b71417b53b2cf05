//! The C interface: its header, its arguments, and C programs that use it.

// Calling `extern "C"` functions is what these tests are for.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

mod adapters;
mod arguments;
mod c;
mod caches;
mod cancels;
mod capabilities;
mod compiled_grammar;
mod conversation;
mod conversation_ends;
mod conversation_say;
mod conversation_set;
mod embed;
mod encoding;
mod grammar;
mod header;
mod history;
mod host;
mod hub;
mod jobs;
mod kernels;
mod layouts;
mod logits;
mod media;
#[cfg(target_os = "linux")]
mod out_of_memory;
mod own_template;
mod paths;
mod picture_talks;
mod pictures;
#[cfg(unix)]
mod programs;
mod queries;
mod readers;
mod reply;
mod runtime;
mod saved;
mod sentences;
mod sounds;
mod sources;
mod text;
mod types;
mod vectors;
mod videos;
mod waiting;
