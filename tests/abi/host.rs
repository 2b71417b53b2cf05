//! A program that uses the library: a model, a cache, and calls that compare their status.

use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::generate::*;
use realizar::ffi::model::*;
use realizar::ffi::status::*;

pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stories260K-f32.gguf");
pub const BOS: u32 = 1;

pub fn no_error() -> rz_error {
    // As a C program would: not initialised to anything in particular.
    rz_error { code: 0x5555, system_code: 0x5555, message: [0x55; 504] }
}

pub fn text_of(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    String::from_utf8(bytes).expect("UTF-8")
}

/// Calls with an error record and compares the status; gives the message.
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

#[track_caller]
pub fn refused(what: &str, call: impl FnOnce(*mut rz_error) -> rz_status) {
    let message = expect(RZ_ERR_INVALID_ARGUMENT, call);
    assert!(message.contains(what), "{message:?} does not name {what:?}");
}

pub fn load_with(path: &str, params: *const rz_model_params) -> *mut rz_model {
    let path = CString::new(path).expect("no NUL");
    let mut model = null_mut();
    expect(RZ_OK, |err| unsafe { rz_model_load(path.as_ptr(), params, &mut model, err) });
    model
}

pub fn load() -> *mut rz_model {
    load_with(MODEL, null())
}

/// Without its weights.
pub fn load_text() -> *mut rz_model {
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_TEXT_ONLY);
    load_with(MODEL, &params)
}

pub fn new_cache(model: *const rz_model, capacity: u32) -> *mut rz_cache {
    let params = rz_cache_params { struct_size: 16, capacity, k_type: 0, v_type: 0 };
    let mut cache = null_mut();
    expect(RZ_OK, |err| unsafe { rz_cache_new(model, &params, &mut cache, err) });
    cache
}

pub fn zeroed<T>() -> T {
    // Every struct of the header has all zeros among its values: that is the rule it is made by.
    unsafe { std::mem::zeroed() }
}

/// A model, a cache and what else a call needs; freed at the end, in an order of its own for each test.
pub struct Host {
    pub model: *mut rz_model,
    pub cache: *mut rz_cache,
}

impl Host {
    pub fn new(capacity: u32) -> Host {
        let model = load();
        Host { model, cache: new_cache(model, capacity) }
    }

    pub fn len(&self) -> u32 {
        unsafe { rz_cache_len(self.cache) }
    }

    pub fn prefill(&self, tokens: &[u32]) {
        expect(RZ_OK, |err| unsafe { rz_prefill(self.cache, tokens.as_ptr(), tokens.len(), null(), err) });
    }

    pub fn logits(&self) -> Vec<f32> {
        let mut logits = vec![0.0; 512];
        let mut n = 0;
        expect(RZ_OK, |err| unsafe { rz_logits_into(self.cache, logits.as_mut_ptr(), logits.len(), &mut n, err) });
        assert_eq!(n, 512);
        logits
    }

    pub fn decode(&self, token: u32) -> u32 {
        let mut next = u32::MAX;
        expect(RZ_OK, |err| unsafe { rz_decode_token(self.cache, token, null_mut(), &mut next, err) });
        next
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        unsafe {
            rz_model_free(self.model);
            rz_cache_free(self.cache);
        }
    }
}

/// The model with a chat template among its metadata.
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
    // Spaces in a comment keep the tensors where the alignment of 32 wants them.
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
