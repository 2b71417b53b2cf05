//! Calls of the C interface with checks of their status, and the model that they use.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::ffi::c_char;

use realizar::ffi::status::*;

pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf");

pub fn no_error() -> rz_error {
    // As in a C program: not initialized to any particular value.
    rz_error { code: 0x5555, system_code: 0x5555, needed: 0x5555, message: [0x55; 496] }
}

pub fn text_of(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    String::from_utf8(bytes).expect("UTF-8")
}

/// Calls with an error record, compares the status, and returns the message.
#[track_caller]
pub fn expect(status: rz_status, call: impl FnOnce(*mut rz_error) -> rz_status) -> String {
    let mut err = no_error();
    let got = call(&mut err);
    let message = text_of(&err.message);
    assert_eq!(got, status, "{message}");
    assert_eq!(err.code, got, "the record holds the status");
    assert_eq!(message.is_empty(), got >= 0, "a failure says what happened, a success nothing: {message:?}");
    message
}

pub fn zeroed<T>() -> T {
    // Zeros are valid for every struct of the header, by its rule.
    unsafe { std::mem::zeroed() }
}

/// Returns a struct of the header that begins with its size; everything else is zero.
pub fn sized<T>() -> T {
    assert!(size_of::<T>() >= 4 && align_of::<T>() >= 4);
    let mut value: T = zeroed();
    // The first field of such a struct is `uint32_t struct_size`.
    unsafe { (&raw mut value).cast::<u32>().write(size_of::<T>() as u32) };
    value
}

/// Returns the model with a chat template in its metadata.
pub fn with_template(template: &str) -> tempfile::NamedTempFile {
    let whole = std::fs::read(MODEL).expect("the model");
    let (header, rest) = whole.split_at(24);
    let mut bytes = header.to_vec();
    bytes[16] += 1; // one more key
    let mut text = |text: &str| {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    };
    text("tokenizer.chat_template");
    let key_end = 24 + 8 + "tokenizer.chat_template".len();
    // Spaces in a comment keep the tensors aligned to 32 bytes.
    let len = key_end + 4 + 8 + template.len() + "{##}".len();
    let template = format!("{template}{{#{}#}}", " ".repeat((32 - (len - 24) % 32) % 32));
    bytes.extend_from_slice(&8u32.to_le_bytes());
    bytes.extend_from_slice(&(template.len() as u64).to_le_bytes());
    bytes.extend_from_slice(template.as_bytes());
    bytes.extend_from_slice(rest);
    let file = tempfile::Builder::new().suffix(".gguf").tempfile().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("a file");
    file
}
