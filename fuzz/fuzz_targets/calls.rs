//! Calls of the C interface in any order, on a few caches and jobs of the tiny model, each argument within its type.
//! Two bytes are a call: the function and its argument.
#![no_main]

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use realizar::ffi::cache::*;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::model::*;
use realizar::ffi::saved::*;
use realizar::ffi::text::*;

const CACHES: usize = 3;

struct Loaded(*mut rz_model);
// SAFETY: a model may be used by any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

static MODEL: LazyLock<Loaded> = LazyLock::new(|| {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let path = above.find_map(|folder| folder.join("tests/data/stories260K-f32.gguf").canonicalize().ok());
    let path = path.expect("the tiny model").into_os_string().into_encoded_bytes();
    let path = CString::new(path).expect("no NUL");
    let mut model = null_mut();
    // SAFETY: a NUL-terminated path, and a location for the handle.
    assert_eq!(unsafe { rz_model_load(path.as_ptr(), null(), &mut model, null_mut()) }, 0);
    Loaded(model)
});

unsafe extern "C" fn keep(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    // SAFETY: `user` is the vector that the caller gave, `data` has `n` bytes.
    let (out, data) = unsafe { (&mut *user.cast::<Vec<u8>>(), std::slice::from_raw_parts(data.cast(), n)) };
    out.extend_from_slice(data);
    i32::from(out.len() > 1 << 20)
}

fuzz_target!(|data: &[u8]| {
    let model = MODEL.0;
    let (mut caches, mut jobs) = ([null_mut::<rz_cache>(); CACHES], [null_mut::<rz_job>(); CACHES]);
    let tokens: Vec<u32> = data.iter().take(64).map(|&byte| u32::from(byte) * 3).collect();
    let (mut ids, mut text) = ([0u32; 64], [0u8; 256]);
    for call in data.chunks_exact(2).take(200) {
        let (i, argument) = (usize::from(call[0]) % CACHES, u32::from(call[1]));
        let (cache, job, n) = (caches[i], jobs[i], tokens.len().min(argument as usize % 9));
        let (mut token, mut written) = (0u32, 0usize);
        // SAFETY: pointers are live handles or NULL, and arrays have the given lengths.
        unsafe {
            match call[0] / CACHES as u8 % 20 {
                0 if cache.is_null() => {
                    let params =
                        rz_cache_params { struct_size: 16, capacity: argument % 40, k_type: argument / 100, v_type: 0 };
                    rz_cache_new(model, &params, &mut caches[i], null_mut());
                }
                1 => {
                    rz_cache_free(cache);
                    caches[i] = null_mut();
                }
                2 => drop(rz_prefill(cache, tokens.as_ptr(), n, null(), null_mut())),
                3 => drop(rz_decode_token(cache, argument * 3, null_mut(), &mut token, null_mut())),
                4 => drop(rz_cache_truncate(cache, argument % 48, null_mut())),
                5 if caches[(i + 1) % CACHES].is_null() => {
                    rz_cache_fork(cache, &mut caches[(i + 1) % CACHES], null_mut());
                }
                6 => drop(rz_sample(cache, null_mut(), &mut token, null_mut())),
                7 => drop(rz_cache_match(cache, tokens.as_ptr(), n, &mut token, null_mut())),
                8 => drop(rz_cache_shift(cache, argument % 8, argument / 8, null_mut())),
                9 => drop(rz_cache_release(cache, null_mut())),
                10 => drop(rz_cache_tokens_into(cache, ids.as_mut_ptr(), n, &mut written, null_mut())),
                11 => drop(rz_generate_into(
                    cache,
                    argument,
                    null_mut(),
                    ids.as_mut_ptr(),
                    n,
                    &mut written,
                    null(),
                    null_mut(),
                )),
                12 => drop(rz_decode_batch(
                    [cache, caches[(i + 1) % CACHES]].as_ptr(),
                    tokens.as_ptr(),
                    n.min(2),
                    null(),
                    ids.as_mut_ptr(),
                    null_mut(),
                )),
                13 if job.is_null() => {
                    let params = rz_job_params {
                        struct_size: size_of::<rz_job_params>() as u32,
                        max_tokens: argument % 16,
                        tokens: tokens.as_ptr(),
                        n_tokens: n,
                        ..std::mem::zeroed()
                    };
                    rz_job_new(cache, &params, &mut jobs[i], null_mut());
                }
                14 => drop(rz_job_step(job, u64::from(argument), null_mut())),
                15 => drop(rz_jobs_step(jobs.as_ptr().cast(), n.min(CACHES), u64::from(argument), null_mut())),
                16 => {
                    rz_job_text_into(job, text.as_mut_ptr().cast(), argument as usize, &mut written, null_mut());
                }
                17 => {
                    rz_job_free(job);
                    jobs[i] = null_mut();
                }
                18 => {
                    let mut out = Vec::<u8>::new();
                    rz_cache_save(cache, Some(keep), (&raw mut out).cast(), null(), null_mut());
                }
                _ => drop(rz_tokenize_into(
                    model,
                    text.as_ptr().cast(),
                    argument as usize,
                    argument % 4,
                    ids.as_mut_ptr(),
                    n,
                    &mut written,
                    null(),
                    null_mut(),
                )),
            }
        }
    }
    for (cache, job) in caches.into_iter().zip(jobs) {
        // SAFETY: live handles or NULL, which are not used again.
        unsafe {
            rz_job_free(job);
            rz_cache_free(cache);
        }
    }
});
