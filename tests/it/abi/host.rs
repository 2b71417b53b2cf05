//! A program that uses the library: a model, a cache, and calls on it.

use std::ffi::CString;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::generate::*;
use realizar::ffi::model::*;
use realizar::ffi::status::*;

pub use crate::support::calls::*;

pub const BOS: u32 = 1;

#[track_caller]
pub fn refused(what: &str, call: impl FnOnce(*mut rz_error) -> rz_status) {
    fails(RZ_ERR_INVALID_ARGUMENT, what, call);
}

/// Expects a failure whose message names `what`.
pub fn fails(status: rz_status, what: &str, call: impl FnOnce(*mut rz_error) -> rz_status) {
    let message = expect(status, call);
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
