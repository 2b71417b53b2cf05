//! The tests that need no process of their own. `cargo test --test it families::` runs one module.

// The targets of `fuzz` look for their macro in a crate of this name.
extern crate self as libfuzzer_sys;

mod style;
mod support;

mod abi;
mod adapters;
mod architectures;
mod assistants;
mod bindings;
mod chat_pictures;
mod chat_template;
mod chat_tokens;
mod cpu_ops;
#[cfg(cuda)]
mod cuda;
mod embed;
mod families;
mod folder_variants;
mod folders;
mod fuzz;
mod gbnf;
mod gpu_seam;
mod grammar;
mod heads;
mod hostile_gguf;
mod hostile_safetensors;
mod huggingface;
mod hybrid_folders;
mod hybrid_media;
mod layering;
mod media;
mod media_bounds;
mod mtp;
mod nan;
mod network;
mod packed_file;
mod program_checks;
mod published_folders;
mod quant;
mod quantized;
#[cfg(cuda)]
mod recurrences;
mod reply;
mod reply_published;
mod reply_variants;
mod saved;
mod schemas;
#[cfg(cuda)]
mod self_test;
mod silence;
mod sound;
mod store;
mod t5;
mod text;
#[cfg(cuda)]
mod tiles;
mod tokenizer_files;
mod tool_schemas;
mod towers;
mod turns;
mod videos;
mod vision;
mod waits;
mod wasm;
mod words;
