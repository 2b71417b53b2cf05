//! Correct and wrong calls of kernels on memory of the caller.

use super::header::{code, constants};
use super::host::*;
use std::collections::BTreeMap;
use std::ptr::{null, null_mut};

use realizar::ffi::element::*;
use realizar::ffi::kernels::*;
use realizar::ffi::status::*;
use realizar::quant;

#[test]
fn kernels_refuse_what_does_not_fit() {
    let shape = rz_attention_params { n_heads: 2, n_kv_heads: 1, head_dim: 4, ..sized() };
    let (q, k, v, mut out) = ([1f32; 8], [1f32; 4], [2f32; 4], [0f32; 8]);
    let attend = |params: *const rz_attention_params, cache_len: usize, out: *mut f32, e| unsafe {
        rz_attention_gqa_into(params, q.as_ptr(), null(), null(), cache_len, k.as_ptr(), v.as_ptr(), out, e)
    };
    expect(RZ_OK, |e| attend(&shape, 0, out.as_mut_ptr(), e));
    assert_eq!(out, [2.0; 8], "alone, a position sees its own value");
    refused("k_cache", |e| attend(&shape, 1, out.as_mut_ptr(), e));
    refused("cache_len", |e| attend(&shape, usize::MAX, out.as_mut_ptr(), e));
    refused("out overlaps q", |e| attend(&shape, 0, q.as_ptr().cast_mut(), e));
    refused("head", |e| attend(&rz_attention_params { n_heads: 3, n_kv_heads: 2, ..shape }, 0, out.as_mut_ptr(), e));
    for broken in [
        rz_attention_params { n_heads: 0, ..shape },
        rz_attention_params { n_kv_heads: 0, ..shape },
        rz_attention_params { head_dim: 0, ..shape },
        rz_attention_params { n_heads: u32::MAX, head_dim: u32::MAX, ..shape },
        rz_attention_params { scale: f32::NAN, ..shape },
        rz_attention_params { device: 99, ..shape },
    ] {
        expect(RZ_ERR_INVALID_ARGUMENT, |e| attend(&broken, 0, out.as_mut_ptr(), e));
    }
    refused("n_heads is 0", |e| attend(null(), 0, out.as_mut_ptr(), e));

    let weights = [1f32, 2.0, 3.0, 4.0];
    let (x, mut y) = ([10f32, 100.0], [0f32; 2]);
    unsafe {
        expect(RZ_OK, |e| rz_matvec_into(RZ_TYPE_F32, weights.as_ptr().cast(), 2, 2, x.as_ptr(), y.as_mut_ptr(), e));
        assert_eq!(y, [210.0, 430.0]);
        for (unknown, message) in [(0, "weight_type is RZ_TYPE_DEFAULT"), (4, "weight_type is 4"), (999, "is 999")] {
            refused(message, |e| rz_matvec_into(unknown, weights.as_ptr().cast(), 2, 2, x.as_ptr(), y.as_mut_ptr(), e));
        }
        refused("multiple", |e| {
            rz_matvec_into(RZ_TYPE_Q8_0, weights.as_ptr().cast(), 1, 2, x.as_ptr(), y.as_mut_ptr(), e)
        });
        for (rows, cols) in [(usize::MAX, 2), (1 << 62, 4), (2, usize::MAX)] {
            expect(RZ_ERR_INVALID_ARGUMENT, |e| {
                rz_matvec_into(RZ_TYPE_F32, weights.as_ptr().cast(), rows, cols, x.as_ptr(), y.as_mut_ptr(), e)
            });
        }
        refused("weights", |e| rz_matvec_into(RZ_TYPE_F32, null(), 2, 2, x.as_ptr(), y.as_mut_ptr(), e));
        expect(RZ_OK, |e| rz_dequantize_into(RZ_TYPE_F32, weights.as_ptr().cast(), 2, y.as_mut_ptr(), e));
        assert_eq!(y, [1.0, 2.0]);
        expect(RZ_OK, |e| rz_dequantize_into(RZ_TYPE_F32, null(), 0, null_mut(), e));
        refused("overlaps blocks", |e| rz_dequantize_into(RZ_TYPE_F32, y.as_ptr().cast(), 2, y.as_mut_ptr(), e));
        refused("weight_type is 4", |e| rz_dequantize_into(4, weights.as_ptr().cast(), 2, y.as_mut_ptr(), e));
    }
}

/// Every type that the library reads has a constant of its name and number, and these are all that there are.
#[test]
fn element_types_have_one_numbering() {
    let code = code();
    let constants: BTreeMap<&str, u32> = constants(&code)
        .filter_map(|(name, value)| Some((name.strip_prefix("RZ_TYPE_")?, value.parse().expect("a number"))))
        .collect();
    let own = |format: &quant::Format| match format.dtype {
        quant::F32 => 256,
        quant::F8_E4M3 => 257,
        dtype => dtype.0,
    };
    let mut expected: BTreeMap<&str, u32> = quant::FORMATS.iter().map(|format| (format.name, own(format))).collect();
    expected.insert("DEFAULT", 0);
    assert_eq!(constants, expected);
    for format in quant::FORMATS {
        let (bytes, mut values) = (vec![0u8; format.block_bytes], vec![1f32; format.block_len]);
        let (number, n) = (own(format), values.len());
        expect(RZ_OK, |e| unsafe { rz_dequantize_into(number, bytes.as_ptr().cast(), n, values.as_mut_ptr(), e) });
        let mut same = vec![2f32; format.block_len];
        quant::dequantize(format.dtype, &bytes, &mut same).unwrap();
        assert_eq!(values, same, "{}", format.name);
    }
}

#[test]
fn a_kv_store_fills_up() {
    let shape = rz_kv_params {
        struct_size: size_of::<rz_kv_params>() as u32,
        n_layers: 2,
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 4,
        capacity: 2,
        kv_type: RZ_TYPE_F32,
        device: 0,
    };
    let mut kv = null_mut();
    for broken in [
        rz_kv_params { n_layers: 0, ..shape },
        rz_kv_params { n_heads: 0, ..shape },
        rz_kv_params { n_heads: 3, n_kv_heads: 2, ..shape },
        rz_kv_params { head_dim: 0, ..shape },
        rz_kv_params { capacity: 0, ..shape },
        rz_kv_params { kv_type: 5, ..shape },
        rz_kv_params { device: 99, ..shape },
    ] {
        expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_kv_new(&broken, &mut kv, e) });
    }
    let narrow = rz_kv_params { kv_type: RZ_TYPE_Q6_K, ..shape };
    refused("rz_kv_params.kv_type is RZ_TYPE_Q6_K", |e| unsafe { rz_kv_new(&narrow, &mut kv, e) });
    let huge = rz_kv_params { n_layers: u32::MAX, capacity: u32::MAX, head_dim: 1 << 16, ..shape };
    let mut err = no_error();
    let status = unsafe { rz_kv_new(&huge, &mut kv, &mut err) };
    assert!(status == RZ_ERR_OUT_OF_MEMORY || status == RZ_ERR_INVALID_ARGUMENT, "{}", text_of(&err.message));
    assert!(kv.is_null());

    let (q, k, mut out, mut len) = ([0f32; 8], [1f32; 4], [0f32; 8], 0);
    unsafe {
        expect(RZ_OK, |e| rz_kv_new(&shape, &mut kv, e));
        let mut attend = |layer, value: f32, status| {
            let v = [value; 4];
            let call =
                |e| rz_kv_attend_into(kv, layer, q.as_ptr(), k.as_ptr(), v.as_ptr(), out.as_mut_ptr(), &mut len, e);
            let message = expect(status, call);
            (out[0], len, message)
        };
        assert_eq!(attend(0, 1.0, RZ_OK).1, 1);
        let (mean, filled, _) = attend(0, 3.0, RZ_OK);
        assert_eq!((mean, filled), (2.0, 2), "equal scores, so the mean");
        attend(0, 5.0, RZ_ERR_CONTEXT_FULL);
        assert_eq!(attend(1, 7.0, RZ_OK).1, 1, "the other layer has room");
        assert!(attend(2, 0.0, RZ_ERR_INVALID_ARGUMENT).2.contains("layer is 2"));
        refused("", |e| rz_kv_truncate(kv, 3, e));
        expect(RZ_OK, |e| rz_kv_truncate(kv, 1, e));
        let v = [5f32; 4];
        expect(RZ_OK, |e| rz_kv_attend_into(kv, 0, q.as_ptr(), k.as_ptr(), v.as_ptr(), out.as_mut_ptr(), &mut len, e));
        assert_eq!((out[0], len), (3.0, 2));
        rz_kv_free(kv);
    }
}
