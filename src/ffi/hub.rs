//! The choice of a model's files in a repository of the Hugging Face Hub.

use std::ffi::c_char;

use serde_json::{Value, json};

use crate::engine::{HubChoice, HubFile, HubModel};
use crate::error::secured;

use super::guard::guarded;
use super::status::{RZ_OK, rz_error, rz_status};

/// Flag of rz_hub_choose_into: `listing` describes the files in a local cache. It needs neither "sha" nor digests. If
/// the cache has no complete model of this name, "files" is empty.
pub const RZ_HUB_CACHED: u32 = 1;

/// Maximum bytes of memory that parsing takes per byte of a listing.
const VALUE: usize = 128;

/// Chooses the files of a model of the Hugging Face Hub, as the bindings do before they fetch them. Reads only its
/// arguments.
///
/// `model` is `model_len` bytes of UTF-8: "hf:owner/name" or "hf:owner/name:quantization". The quantization may also be
/// the name of a file in the repository, or "mmproj" for the vision or audio encoder. `listing` is the Hub's answer to
/// GET /api/models/OWNER/NAME/revision/main?blobs=true: `listing_len` bytes of JSON, at most 64 MiB, which need not be
/// trusted. Files without a digest, and files whose names lead out of the folder, are ignored. If `model` names no
/// quantization, the call chooses the largest one that has at most 8 bits per weight and fits into `memory` bytes (0:
/// no limit).
///
/// Writes JSON, `*len` bytes, not NUL-terminated:
///
/// {"repository": "owner/name", "quantization": "", "encoder": "hf:owner/name:mmproj", "commit": "...", "load":
/// "m-Q8_0.gguf", "size": 5000, "files": [{"name": "m-Q8_0.gguf", "size": 5000, "digest": "..."}]}
///
/// "encoder" is the string to pass as `model` to choose the encoder of the same repository. "load" is the file to pass
/// to rz_model_load, which finds the other parts of a split model; if it is "", load the folder of all files. "size" is
/// the total size. "digest" is the SHA-256 of the file, or the SHA-1 of its git blob. If `listing` is NULL, the call
/// writes only the first three members, which follow from `model`.
///
/// If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT
/// (`model` is malformed, or several files match it), RZ_ERR_NOT_FOUND (no file matches it, or the repository has no
/// model), RZ_ERR_OUT_OF_MEMORY (no model fits into `memory`; the message says what to do), RZ_ERR_FORMAT (a listing
/// that is not the Hub's), RZ_ERR_LIMIT (a listing that is too long or nested too deeply), RZ_ERR_VERSION (unknown
/// flags). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_hub_choose_into(
    model: *const c_char,
    model_len: usize,
    listing: *const c_char,
    listing_len: usize,
    memory: u64,
    flags: u32,
    out: *mut c_char,
    capacity: usize,
    len: *mut usize,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let model = HubModel::parse(call.text(model, model_len, "model")?)?;
        call.flags(flags, RZ_HUB_CACHED, "flags")?;
        let out = call.buffer(out.cast::<u8>(), capacity, len, ["out", "len"])?;
        let json = if listing.is_null() {
            secured("the choice", VALUE * model_len, || Ok(named(&model).to_string()))?
        } else {
            let listing = call.text(listing, listing_len, "listing")?;
            secured("the listing", VALUE * listing_len, || {
                let choice = match flags & RZ_HUB_CACHED {
                    0 => model.choose(listing, memory)?,
                    _ => model.find(listing, memory)?,
                };
                Ok(chosen(&model, &choice).to_string())
            })?
        };
        out.fill(json.as_bytes())?;
        Ok(RZ_OK)
    })
}

fn named(model: &HubModel) -> Value {
    json!({"repository": model.repository, "quantization": model.quantization, "encoder": model.encoder()})
}

fn chosen(model: &HubModel, choice: &HubChoice) -> Value {
    let file = |file: &HubFile| json!({"name": file.name, "size": file.size, "digest": file.digest});
    json!({
        "repository": model.repository,
        "quantization": model.quantization,
        "encoder": model.encoder(),
        "commit": choice.commit,
        "load": choice.load(),
        "size": choice.size(),
        "files": choice.files.iter().map(file).collect::<Vec<_>>(),
    })
}
