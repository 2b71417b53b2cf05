//! The choice of the next token.

use std::sync::Mutex;

use crate::engine::{Chooser, SamplerParams};
use crate::error::{Result, try_vec};

use super::arguments::{Call, Plain};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::{layout, versioned};

/// Chooses tokens from logits, with a random number generator of its own: mutable, so one call at a time. Usable with
/// caches of any model.
pub struct rz_sampler(pub(super) Mutex<Chooser>);

impl Handle for rz_sampler {
    const NAME: &'static str = "sampler";
}

/// Added to one logit before anything else; -INFINITY forbids the token. Never grows. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_logit_bias {
    /// Token id. Calls with a model whose vocabulary is too small for it get RZ_ERR_INVALID_ARGUMENT.
    pub token: u32,
    /// Number to add to the logit.
    pub bias: f32,
}

layout!(rz_logit_bias { token, bias });
// SAFETY: an integer and a float.
unsafe impl Plain for rz_logit_bias {}

/// Parameters of a choice. Zero in a field switches it off, so all zeros, or NULL, choose the most likely token.
///
/// In this order, that of llama.cpp's default chain: biases, penalties, then top_k, top_p and min_p on the distribution that these
/// leave, and last the temperature. So a higher temperature flattens what the filters keep, and lets no further token in. With
/// RZ_SAMPLER_TEMPERATURE_FIRST the temperature comes ahead of the three filters, as in transformers. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_sampler_params {
    /// sizeof(rz_sampler_params).
    pub struct_size: u32,
    /// Divides the logits of the tokens that the filters keep; 0: always the most likely token.
    pub temperature: f32,
    /// Keep the k most likely tokens.
    pub top_k: u32,
    /// Keep the most likely tokens that together reach this probability.
    pub top_p: f32,
    /// Drop tokens less likely than this share of the likeliest one.
    pub min_p: f32,
    /// Logits of recent tokens are divided by it, or multiplied where negative.
    pub repeat_penalty: f32,
    /// Taken from the logit of every recent token.
    pub presence_penalty: f32,
    /// Taken from the logit of a recent token as often as it occurred.
    pub frequency_penalty: f32,
    /// Number of the last tokens that count as recent; 0: 64.
    pub penalty_window: u32,
    /// RZ_SAMPLER_..., or-ed.
    pub flags: u32,
    /// Seed of the random numbers; 0 is one like any other.
    pub seed: u64,
    /// Copied; NULL: none.
    pub biases: *const rz_logit_bias,
    /// Number of `biases`.
    pub n_biases: usize,
}

versioned!(rz_sampler_params {
    struct_size,
    temperature,
    top_k,
    top_p,
    min_p,
    repeat_penalty,
    presence_penalty,
    frequency_penalty,
    penalty_window,
    flags,
    seed,
    biases,
    n_biases,
});

/// Flag of a sampler: top_p and min_p see the distribution that the temperature leaves. What makers advise for their models, and
/// sampling in transformers, is in this order. On a GPU the host chooses then, from logits that are copied for each token.
pub const RZ_SAMPLER_TEMPERATURE_FIRST: u32 = 1;

/// Makes a sampler. `params` may be NULL; `*out` is freed with rz_sampler_free. Any thread.
/// Errors: RZ_ERR_INVALID_ARGUMENT for a value that is not a number or out of its range. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_sampler_new(
    params: *const rz_sampler_params,
    out: *mut *mut rz_sampler,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out(out, "out")?;
        let params = sampler_params(call, params)?;
        out.set_handle(rz_sampler(Mutex::new(Chooser::new(params)?)));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_sampler_free(sampler: *mut rz_sampler) {
    guarded_or!((), |call| call.release(sampler))
}

pub(super) fn sampler_params(call: &Call, params: *const rz_sampler_params) -> Result<SamplerParams> {
    let params: rz_sampler_params = call.params(params)?;
    call.flags(params.flags, RZ_SAMPLER_TEMPERATURE_FIRST, "rz_sampler_params.flags")?;
    let biases = call.slice(params.biases, params.n_biases, "rz_sampler_params.biases")?;
    let mut logit_biases = try_vec("logit biases", biases.len())?;
    logit_biases.extend(biases.iter().map(|b| (b.token, b.bias)));
    Ok(SamplerParams {
        temperature: params.temperature,
        top_k: params.top_k,
        top_p: params.top_p,
        min_p: params.min_p,
        repeat_penalty: params.repeat_penalty,
        presence_penalty: params.presence_penalty,
        frequency_penalty: params.frequency_penalty,
        penalty_window: params.penalty_window,
        seed: params.seed,
        logit_biases,
        temperature_first: params.flags & RZ_SAMPLER_TEMPERATURE_FIRST != 0,
    })
}
