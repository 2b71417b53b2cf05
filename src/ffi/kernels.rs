//! Single operations on caller-owned memory, and a KV cache without a model, for programs with their own engine.

use std::ffi::c_void;

use crate::engine;
use crate::engine::kernels::{self, GqaInputs, GqaParams, KvStore};
use crate::error::Error;

use super::arguments::Span;
use super::element::{cache_type, named_type};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::lock::Lock;
use super::status::{RZ_OK, rz_error, rz_status};

/// Shape of rz_attention_gqa_into. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_attention_params {
    /// sizeof(rz_attention_params).
    pub struct_size: u32,
    /// Query heads, a multiple of `n_kv_heads`.
    pub n_heads: u32,
    /// Key and value heads.
    pub n_kv_heads: u32,
    /// Values of a head: an even number up to 4096.
    pub head_dim: u32,
    /// Scale of the scores; 0: 1 / sqrt(head_dim).
    pub scale: f32,
    /// Index of a device; 0: automatic choice, which never opens a GPU. A GPU receives all inputs with each call;
    /// rz_kv_attend_into keeps them on the device.
    pub device: u32,
}

/// Attention of one new position over `cache_len` earlier ones and itself: out = softmax(scale * q k^T) v, per head.
///
/// `q`, `out`: [n_heads * head_dim]; `k_cache`, `v_cache`: [cache_len][n_kv_heads * head_dim]; `current_k`,
/// `current_v`: [n_kv_heads * head_dim]; all f32. Query head i reads key and value head i * n_kv_heads / n_heads.
/// `cache_len` may be 0; the caches may be NULL then. `out` must not overlap the inputs.
///
/// A GPU multiplies in half precision, sums in single precision, and stays open for the next call of the same shape.
/// From then on, a call of this shape with `device` 0 uses the device that was faster for similar lengths, including
/// transfers. Equal inputs may then give results that differ by half-precision rounding. A named device gives
/// bit-identical results each time. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT; with a named GPU
/// RZ_ERR_DEVICE_UNAVAILABLE, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_attention_gqa_into(
    params: *const rz_attention_params,
    q: *const f32,
    k_cache: *const f32,
    v_cache: *const f32,
    cache_len: usize,
    current_k: *const f32,
    current_v: *const f32,
    out: *mut f32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let params: rz_attention_params = call.params(params)?;
        let params = GqaParams {
            n_heads: params.n_heads as usize,
            n_kv_heads: params.n_kv_heads as usize,
            head_dim: params.head_dim as usize,
            scale: params.scale,
            device: params.device,
        };
        params.check()?;
        let (n_q, n_kv) = (params.q_len(), params.kv_len());
        let n_cache = n_kv.checked_mul(cache_len).ok_or_else(|| Error::invalid("cache_len is too large"))?;
        let q = call.slice(q, n_q, "q")?;
        let k_cache = call.slice(k_cache, n_cache, "k_cache")?;
        let v_cache = call.slice(v_cache, n_cache, "v_cache")?;
        let k = call.slice(current_k, n_kv, "current_k")?;
        let v = call.slice(current_v, n_kv, "current_v")?;
        let inputs = [
            Span::of("q", q),
            Span::of("k_cache", k_cache),
            Span::of("v_cache", v_cache),
            Span::of("current_k", k),
            Span::of("current_v", v),
        ];
        let out = call.slice_mut(out, n_q, "out", &inputs)?;
        kernels::attention_gqa(&params, GqaInputs { q, k_cache, v_cache, current_k: k, current_v: v }, out)?;
        Ok(RZ_OK)
    })
}

/// Matrix-vector product (GEMV) y = weights * x on the CPU, on the calling thread.
///
/// `weights`: `rows` contiguous rows of `cols` values in blocks of `weight_type`, at any alignment; `x`: [cols], `y`:
/// [rows], f32. `weight_type` is any RZ_TYPE_... except RZ_TYPE_DEFAULT, and `cols` is a multiple of the values in its
/// block. `y` must not overlap the inputs. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_matvec_into(
    weight_type: u32,
    weights: *const c_void,
    rows: usize,
    cols: usize,
    x: *const f32,
    y: *mut f32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let dtype = named_type(weight_type, "weight_type")?;
        let weights = call.slice(weights.cast::<u8>(), kernels::matrix_bytes(dtype, rows, cols)?, "weights")?;
        let x = call.slice(x, cols, "x")?;
        let y = call.slice_mut(y, rows, "y", &[Span::of("weights", weights), Span::of("x", x)])?;
        kernels::matvec(dtype, weights, x, y)?;
        Ok(RZ_OK)
    })
}

/// Dequantizes blocks of `weight_type`, any RZ_TYPE_... except RZ_TYPE_DEFAULT, to f32.
///
/// `n_values` is a multiple of the values in a block; `blocks` has the blocks of `n_values` values, at any alignment;
/// `out`: [n_values], not overlapping `blocks`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_dequantize_into(
    weight_type: u32,
    blocks: *const c_void,
    n_values: usize,
    out: *mut f32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let dtype = named_type(weight_type, "weight_type")?;
        let blocks = call.slice(blocks.cast::<u8>(), kernels::matrix_bytes(dtype, 1, n_values)?, "blocks")?;
        let out = call.slice_mut(out, n_values, "out", &[Span::of("blocks", blocks)])?;
        kernels::dequantize(dtype, blocks, out)?;
        Ok(RZ_OK)
    })
}

/// KV cache in the memory of a device, without a model. Mutable: one call at a time.
pub struct rz_kv(Lock<KvStore>);

impl Handle for rz_kv {
    const NAME: &'static str = "kv";
}

/// Shape of an rz_kv. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_kv_params {
    /// sizeof(rz_kv_params).
    pub struct_size: u32,
    /// Number of layers, each with its own keys and values.
    pub n_layers: u32,
    /// Query heads, a multiple of `n_kv_heads`.
    pub n_heads: u32,
    /// Key and value heads.
    pub n_kv_heads: u32,
    /// Values of a head: an even number up to 4096.
    pub head_dim: u32,
    /// Capacity in positions.
    pub capacity: u32,
    /// Element type of keys and values, as in rz_cache_params; RZ_TYPE_DEFAULT: RZ_TYPE_F16.
    pub kv_type: u32,
    /// Index of a device; 0: the CPU.
    pub device: u32,
}

/// Creates an empty KV cache. The caller frees `*out` with rz_kv_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a
/// zero in the shape, an `n_heads` that is not a multiple of `n_kv_heads`, an unknown type), RZ_ERR_OUT_OF_MEMORY,
/// RZ_ERR_DEVICE_UNAVAILABLE, RZ_ERR_DEVICE_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_kv_new(params: *const rz_kv_params, out: *mut *mut rz_kv, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let out = call.out(out, "out")?;
        let params: rz_kv_params = call.params(params)?;
        let shape = GqaParams {
            n_heads: params.n_heads as usize,
            n_kv_heads: params.n_kv_heads as usize,
            head_dim: params.head_dim as usize,
            scale: 0.0,
            device: params.device,
        };
        let dtype = cache_type(params.kv_type, "rz_kv_params.kv_type")?.unwrap_or(engine::F16);
        let store = KvStore::new(&shape, params.n_layers as usize, params.capacity as usize, dtype)?;
        out.set_handle(rz_kv(Lock::new(store)));
        Ok(RZ_OK)
    })
}

/// Appends one position to `layer`, and computes its attention over all positions of that layer, including itself.
///
/// `q`, `out`: [n_heads * head_dim]; `k`, `v`: [n_kv_heads * head_dim]; f32; `out` must not overlap the inputs.
/// `*new_len` receives the number of positions of the layer. Layers are filled one position at a time, in any order.
/// Any thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_CONTEXT_FULL, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_DEVICE_LOST.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_kv_attend_into(
    kv: *mut rz_kv,
    layer: u32,
    q: *const f32,
    k: *const f32,
    v: *const f32,
    out: *mut f32,
    new_len: *mut u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let kv = call.handle(kv)?;
        let mut kv = kv.0.take(rz_kv::NAME)?;
        let (n_q, n_kv) = (kv.params().q_len(), kv.params().kv_len());
        let q = call.slice(q, n_q, "q")?;
        let k = call.slice(k, n_kv, "k")?;
        let v = call.slice(v, n_kv, "v")?;
        let out = call.slice_mut(out, n_q, "out", &[Span::of("q", q), Span::of("k", k), Span::of("v", v)])?;
        let new_len = call.out(new_len, "new_len")?;
        new_len.set(kv.attend(layer, q, k, v, out)?);
        Ok(RZ_OK)
    })
}

/// Rewinds every layer to its first `len` positions; 0 clears the cache. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT if
/// `len` is greater than the number of positions, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_kv_truncate(kv: *mut rz_kv, len: u32, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        call.handle(kv)?.0.take(rz_kv::NAME)?.truncate(len)?;
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_kv_free(kv: *mut rz_kv) {
    guarded_or!((), |call| call.release(kv))
}
