//! Wrong calls of every function, as a C program may make them: each gets the right status and a message that names the
//! argument and the problem, and changes nothing.

use super::host::*;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::device::*;
use realizar::ffi::generate::*;
use realizar::ffi::kernels::*;
use realizar::ffi::layout::*;
use realizar::ffi::metrics::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::placement::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;
use realizar::ffi::version::*;

#[test]
fn the_library_says_which_one_it_is() {
    assert_eq!(rz_abi_version(), RZ_ABI_VERSION);
    let version = unsafe { CStr::from_ptr(rz_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    let name = |status| unsafe { CStr::from_ptr(rz_status_name(status)) }.to_str().expect("UTF-8");
    assert_eq!(name(RZ_ERR_FORMAT), "RZ_ERR_FORMAT");
    assert_eq!(name(i32::MIN), "RZ_UNKNOWN");
}

#[test]
fn freeing_nothing_is_fine() {
    unsafe {
        rz_runtime_free(null_mut());
        rz_model_free(null_mut());
        rz_cache_free(null_mut());
        rz_sampler_free(null_mut());
        rz_textstream_free(null_mut());
        rz_cancel_free(null_mut());
        rz_cancel_fire(null_mut());
        rz_cancel_reset(null_mut());
        rz_kv_free(null_mut());
        rz_metrics_reset(null());
        assert_eq!(rz_cache_len(null()), 0);
        assert_eq!(rz_cache_capacity(null()), 0);
        assert_eq!(rz_token_is_end(null(), 2), 0);
    }
}

/// Each pointer that must not be NULL, one after the other.
#[test]
fn a_missing_pointer_is_named() {
    let host = Host::new(8);
    let Host { model, cache } = host;
    let (m, c) = (model.cast_const(), cache.cast_const());
    let (mut n, mut token, mut text, mut logits) = (0usize, 0u32, [0 as c_char; 8], [0f32; 8]);
    let tokens = [BOS];
    let key = c"general.name".as_ptr();
    unsafe {
        refused("out", |e| rz_runtime_new(null(), null_mut(), e));
        refused("rz_device_info", |e| rz_device_info_get(1, null_mut(), e));
        refused("path", |e| rz_model_load(null(), null(), &mut null_mut(), e));
        refused("out", |e| rz_model_load(c"x".as_ptr(), null(), null_mut(), e));
        refused("model", |e| rz_model_info_get(null(), &mut zeroed(), e));
        refused("rz_model_info", |e| rz_model_info_get(m, null_mut(), e));
        refused("model", |e| rz_model_sampling_get(null(), &mut zeroed(), e));
        refused("rz_model_sampling", |e| rz_model_sampling_get(m, null_mut(), e));
        refused("model", |e| rz_model_meta_into(null(), key, text.as_mut_ptr(), 8, &mut n, e));
        refused("key", |e| rz_model_meta_into(m, null(), text.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_model_meta_into(m, key, null_mut(), 8, &mut n, e));
        refused("len", |e| rz_model_meta_into(m, key, text.as_mut_ptr(), 8, null_mut(), e));
        refused("model", |e| rz_cache_new(null(), null(), &mut null_mut(), e));
        refused("out", |e| rz_cache_new(m, null(), null_mut(), e));
        refused("cache", |e| rz_cache_truncate(null_mut(), 0, e));
        refused("cache", |e| rz_cache_fork(null(), &mut null_mut(), e));
        refused("out", |e| rz_cache_fork(c, null_mut(), e));
        refused("cache", |e| rz_prefill(null_mut(), tokens.as_ptr(), 1, null(), e));
        refused("tokens", |e| rz_prefill(cache, null(), 1, null(), e));
        refused("tokens", |e| rz_prefill(cache, null(), 0, null(), e));
        refused("cache", |e| rz_decode_token(null_mut(), BOS, null_mut(), &mut token, e));
        refused("next", |e| rz_decode_token(cache, BOS, null_mut(), null_mut(), e));
        refused("cache", |e| rz_generate_into(null_mut(), BOS, null_mut(), &mut token, 1, &mut n, null(), e));
        refused("out", |e| rz_generate_into(cache, BOS, null_mut(), null_mut(), 1, &mut n, null(), e));
        refused("n is", |e| rz_generate_into(cache, BOS, null_mut(), &mut token, 1, null_mut(), null(), e));
        refused("caches", |e| rz_decode_batch(null(), tokens.as_ptr(), 1, null(), &mut token, e));
        expect(RZ_OK, |e| rz_decode_batch(null(), null(), 0, null(), null_mut(), e));
        refused("tokens", |e| rz_decode_batch(&cache, null(), 1, null(), &mut token, e));
        refused("next", |e| rz_decode_batch(&cache, tokens.as_ptr(), 1, null(), null_mut(), e));
        refused("entry 1: cache", |e| {
            rz_decode_batch([cache, null_mut()].as_ptr(), [BOS; 2].as_ptr(), 2, null(), [0; 2].as_mut_ptr(), e)
        });
        refused("cache", |e| rz_logits_into(null_mut(), logits.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_logits_into(cache, null_mut(), 8, &mut n, e));
        refused("n is", |e| rz_logits_into(cache, logits.as_mut_ptr(), 8, null_mut(), e));
        refused("cache", |e| rz_sample(null_mut(), null_mut(), &mut token, e));
        refused("token", |e| rz_sample(cache, null_mut(), null_mut(), e));
        refused("out", |e| rz_sampler_new(null(), null_mut(), e));
        refused("model", |e| rz_tokenize_into(null(), c"a".as_ptr(), 1, 0, &mut token, 1, &mut n, null(), e));
        refused("text", |e| rz_tokenize_into(m, null(), 1, 0, &mut token, 1, &mut n, null(), e));
        refused("out", |e| rz_tokenize_into(m, c"a".as_ptr(), 1, 0, null_mut(), 1, &mut n, null(), e));
        refused("n is", |e| rz_tokenize_into(m, c"a".as_ptr(), 1, 0, &mut token, 1, null_mut(), null(), e));
        refused("model", |e| rz_detokenize_into(null(), &token, 1, 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("tokens", |e| rz_detokenize_into(m, null(), 1, 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("out", |e| rz_detokenize_into(m, &token, 1, 0, null_mut(), 8, &mut n, e));
        refused("len", |e| rz_detokenize_into(m, &token, 1, 0, text.as_mut_ptr(), 8, null_mut(), e));
        refused("model", |e| rz_textstream_new(null(), &mut null_mut(), e));
        refused("out", |e| rz_textstream_new(m, null_mut(), e));
        refused("text stream", |e| rz_textstream_push_into(null_mut(), BOS, text.as_mut_ptr(), 8, &mut n, e));
        refused("text stream", |e| rz_textstream_flush_into(null_mut(), text.as_mut_ptr(), 8, &mut n, e));
        refused("model", |e| rz_chat_render_into(null(), null(), 0, 0, text.as_mut_ptr(), 8, &mut n, null(), e));
        refused("json", |e| rz_chat_render_into(m, null(), 1, 0, text.as_mut_ptr(), 8, &mut n, null(), e));
        refused("out", |e| rz_cancel_new(null_mut(), e));
        refused("out", |e| rz_kv_new(null(), null_mut(), e));
        refused("kv", |e| rz_kv_truncate(null_mut(), 0, e));
        refused("model", |e| rz_metrics_get(null(), &mut zeroed(), e));
        refused("rz_metrics", |e| rz_metrics_get(m, null_mut(), e));
        refused("model", |e| rz_backend_metrics_get(null(), RZ_DEVICE_CPU, &mut zeroed(), e));
        refused("rz_backend_metrics", |e| rz_backend_metrics_get(m, RZ_DEVICE_CPU, null_mut(), e));
        refused("cache", |e| rz_cache_cancel_set(null_mut(), null(), e));
        refused("model", |e| rz_model_meta_key_into(null(), 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("key", |e| rz_model_meta_element_into(m, null(), 0, text.as_mut_ptr(), 8, &mut n, e));
        refused("model", |e| rz_token_bytes_into(null(), BOS, text.as_mut_ptr().cast(), 8, &mut n, null_mut(), e));
        refused("rz_layout", |e| rz_layout_get(0, null_mut(), e));
    }
    assert_eq!(host.len(), 0);
}

#[test]
fn a_call_without_an_error_record_works_and_fails_as_with_one() {
    let mut cancel = null_mut();
    unsafe {
        assert_eq!(rz_cancel_new(&mut cancel, null_mut()), RZ_OK);
        rz_cancel_free(cancel);
        assert_eq!(rz_cancel_new(null_mut(), null_mut()), RZ_ERR_INVALID_ARGUMENT);
        assert_eq!(rz_model_load(c"/nowhere".as_ptr(), null(), &mut null_mut(), null_mut()), RZ_ERR_IO);
    }
}

#[test]
fn pointers_that_no_value_can_have_are_refused() {
    let host = Host::new(8);
    let mut n = 0;
    let odd = |address: usize| std::ptr::without_provenance_mut::<u8>(address);
    unsafe {
        refused("aligned", |e| rz_prefill(host.cache, odd(0x1001).cast(), 1, null(), e));
        refused("aligned", |e| rz_logits_into(host.cache, odd(0x1002).cast(), 512, &mut n, e));
        refused("aligned", |e| rz_cache_truncate(odd(0x1003).cast(), 0, e));
        refused("larger than memory", |e| rz_prefill(host.cache, odd(0x1000).cast(), usize::MAX, null(), e));
        refused("larger than memory", |e| rz_prefill(host.cache, odd(0x1000).cast(), usize::MAX / 4, null(), e));
    }
}

/// The rule for structs that grow: the smaller of the two sizes counts, and nothing is passed over in silence.
#[test]
fn parameter_structs_follow_their_size() {
    let model = load();
    let new = |size: u32, capacity: u32| {
        // Room after the struct, as a newer header would have.
        let mut bytes = [0u32; 16];
        (bytes[0], bytes[1]) = (size, capacity);
        bytes
    };
    let cache = |bytes: &[u32; 16], status, expected: u32| {
        let mut cache = null_mut();
        let message = expect(status, |e| unsafe { rz_cache_new(model, bytes.as_ptr().cast(), &mut cache, e) });
        assert_eq!(cache.is_null(), status != RZ_OK);
        if status == RZ_OK {
            assert_eq!(unsafe { rz_cache_capacity(cache) }, expected);
        }
        unsafe { rz_cache_free(cache) };
        message
    };
    // Exact, longer with a zero tail, shorter: fields after the end are defaults, and so is one that is cut in two.
    cache(&new(16, 7), RZ_OK, 7);
    cache(&new(64, 7), RZ_OK, 7);
    cache(&new(8, 7), RZ_OK, 7);
    cache(&new(4, 7), RZ_OK, 512);
    cache(&new(6, 7), RZ_OK, 512);
    let mut cut = new(12, 7);
    cut[3] = 999;
    cache(&cut, RZ_OK, 7);
    // Sizes that cannot be.
    for size in [0, 3, 4097, u32::MAX] {
        let message = cache(&new(size, 7), RZ_ERR_INVALID_ARGUMENT, 0);
        assert!(message.contains("struct_size") && message.contains("rz_cache_params"), "{message}");
    }
    // A field of the future.
    let mut newer = new(64, 7);
    newer[15] = 1;
    let message = cache(&newer, RZ_ERR_VERSION, 0);
    assert!(message.contains("rz_cache_params"), "{message}");
    newer[0] = 60;
    cache(&newer, RZ_OK, 7);
    unsafe { rz_model_free(model) };
}

#[test]
fn output_structs_follow_their_size() {
    let model = load();
    let mut info = [0xaaaa_aaaau32; 128];
    let mut get = |size: u32, tail: u32, status| {
        info.fill(0xaaaa_aaaa);
        info[0] = size;
        info[40..].fill(tail);
        let message = expect(status, |e| unsafe { rz_model_info_get(model, info.as_mut_ptr().cast(), e) });
        (info, message)
    };
    let (whole, _) = get(160, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(whole[0], 160, "struct_size stays as it was set");
    assert_eq!(whole[25..33], [5, 64, 172, 8, 4, 8, 512, 512], "layers, widths, heads, vocabulary, context");
    assert_eq!(whole[33..36], [1, 1, 2], "device, bos, eos");
    assert!(whole[42..].iter().all(|&w| w == 0xaaaa_aaaa));
    // An older header: what it does not know stays untouched.
    let (older, _) = get(108, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(older[25..27], [5, 64]);
    assert!(older[27..].iter().all(|&w| w == 0xaaaa_aaaa));
    // A field that is cut in two is not written.
    let (cut, _) = get(106, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(cut[25..27], [5, 0xaaaa_aaaa]);
    // A newer header: what the library does not know is zero, whatever the memory held.
    let (newer, _) = get(512, 0xaaaa_aaaa, RZ_OK);
    assert_eq!(newer[25..27], [5, 64]);
    assert!(newer[size_of::<rz_model_info>() / 4..].iter().all(|&w| w == 0));
    get(0, 0, RZ_ERR_INVALID_ARGUMENT);
    get(u32::MAX, 0, RZ_ERR_INVALID_ARGUMENT);
    unsafe { rz_model_free(model) };
}

#[test]
fn unknown_values_of_closed_sets_are_refused() {
    let model = load_text();
    let (mut n, mut token) = (0, 0);
    let mut cache = null_mut();
    for id in [3, 7, 9, 255, 257, u32::MAX] {
        let params = rz_cache_params { struct_size: 16, capacity: 0, k_type: id, v_type: 0 };
        refused("k_type", |e| unsafe { rz_cache_new(model, &params, &mut cache, e) });
        let params = rz_cache_params { k_type: 0, v_type: id, ..params };
        refused("v_type", |e| unsafe { rz_cache_new(model, &params, &mut cache, e) });
    }
    let mut params: rz_model_params = zeroed();
    let path = CString::new(MODEL).expect("no NUL");
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_MTP);
    let message = expect(RZ_ERR_UNSUPPORTED, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    assert!(message.contains("multi-token prediction: the file has no layers for it"), "{message}");
    params.flags = 128;
    unsafe {
        let messages = [
            expect(RZ_ERR_VERSION, |e| rz_model_load(path.as_ptr(), &params, &mut null_mut(), e)),
            expect(RZ_ERR_VERSION, |e| rz_tokenize_into(model, c"a".as_ptr(), 1, 4, &mut token, 1, &mut n, null(), e)),
            expect(RZ_ERR_VERSION, |e| rz_detokenize_into(model, &token, 1, 2, null_mut(), 0, &mut n, e)),
            expect(RZ_ERR_VERSION, |e| rz_chat_render_into(model, null(), 0, 2, null_mut(), 0, &mut n, null(), e)),
        ];
        assert!(messages.iter().all(|message| message.contains("flags has bits")), "{messages:?}");
        rz_model_free(model);
    }
}

#[test]
fn the_cpu_is_device_one() {
    let count = rz_device_count();
    assert!(count >= 1);
    let describe = |index| {
        let mut info: rz_device_info = sized();
        expect(RZ_OK, |e| unsafe { rz_device_info_get(index, &mut info, e) });
        assert_eq!(info.available == 1, text_of(&info.unavailable).is_empty());
        assert!(!text_of(&info.name).is_empty());
        info
    };
    let cpu = describe(1);
    assert_eq!((cpu.index, cpu.kind, cpu.available), (1, RZ_DEVICE_CPU, 1));
    assert_eq!(text_of(&cpu.id), "cpu");
    assert!(cpu.memory_total >= cpu.memory_free);
    let chosen = describe(0);
    assert!(chosen.available == 1 && (1..=count).contains(&chosen.index));
    for index in 1..=count {
        assert_eq!(describe(index).index, index);
    }
    let mut info: rz_device_info = sized();
    for index in [count + 1, u32::MAX] {
        fails(RZ_ERR_NOT_FOUND, "number of devices", |e| unsafe { rz_device_info_get(index, &mut info, e) });
    }
    let path = CString::new(MODEL).expect("no NUL");
    let mut params: rz_model_params = sized();
    params.device = count + 1;
    refused("device", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });

    params.device = 0;
    params.n_devices = 1;
    refused("devices", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    let (list, shares) = ([2, 2], [1.0, 0.0]);
    (params.devices, params.n_devices) = (list.as_ptr(), 2);
    refused("device 2 twice", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    (params.n_devices, params.device) = (1, 2);
    refused("devices are set", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    (params.device, params.device_split) = (0, shares[1..].as_ptr());
    refused("a share of 0", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    let only = [1];
    (params.devices, params.device_split) = (only.as_ptr(), null());
    let experts = rz_placement { what: RZ_PLACED_EXPERTS, place: RZ_PLACE_CPU, ..sized() };
    for (placement, why) in [
        (rz_placement { n_layers: 1, ..experts }, "experts of 1 layers from layer 0 on: 0 layers have experts there"),
        (rz_placement { first_layer: 5, ..experts }, "is 5; it must be below the number of layers, 5"),
        (rz_placement { what: 0, ..experts }, "rz_model_params.placements[0].what is 0; it must be RZ_PLACED_EXPERTS"),
        (rz_placement { what: 2, ..experts }, "placements[0].what is 2"),
        (rz_placement { place: 3, ..experts }, "placements[0].place is 3; it must be RZ_PLACE_AUTO"),
        (rz_placement { bytes: 8, ..experts }, "placements[0].bytes is 8; it must be 0 unless"),
        (
            rz_placement { place: RZ_PLACE_AUTO, n_layers: 1, ..experts },
            "n_layers is 1; it must be 0 with RZ_PLACE_AUTO",
        ),
        (rz_placement { place: RZ_PLACE_GPU, ..experts }, "placements[0].bytes is 0; it must be positive"),
        (rz_placement { place: RZ_PLACE_GPU, first_layer: 1, bytes: 8, ..experts }, "first_layer is 1; it must be 0"),
        (rz_placement { place: RZ_PLACE_GPU, bytes: 8, ..experts }, "no GPU is named"),
        (rz_placement { struct_size: 3, ..experts }, "placements[0]: rz_placement.struct_size is 3"),
    ] {
        (params.placements, params.n_placements) = (&placement, 1);
        refused(why, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    }
    let later = rz_placement { reserved: 1, ..experts };
    params.placements = &later;
    fails(RZ_ERR_VERSION, "reserved", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    let two = [experts; 2];
    for (n, why) in [(2, "placements[1] is the second one"), (17, "n_placements is 17; it must be at most 16")] {
        (params.placements, params.n_placements) = (two.as_ptr(), n);
        refused(why, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    }
    (params.placements, params.n_placements) = (null(), 1);
    refused("rz_placement is NULL", |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut null_mut(), e) });
    // No layer on a GPU means the CPU, whatever device is named. Nothing to place is no mistake unless layers are
    // named.
    (params.gpu_layers, params.devices, params.n_devices, params.device) = (RZ_NONE, null(), 0, 2);
    params.experts_copied_from = RZ_NONE;
    (params.placements, params.n_placements) = (&experts, 1);
    let mut model = null_mut();
    expect(RZ_OK, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut model, e) });
    let mut info: rz_model_info = sized();
    expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
    assert_eq!((info.device, info.gpu_layers, info.n_devices), (1, 0, 0));
    let mut device = sized::<rz_model_device>();
    for index in [0, 1, u32::MAX] {
        let get = |e: *mut rz_error| unsafe { rz_model_device_get(model, index, &mut device, e) };
        fails(RZ_ERR_NOT_FOUND, "below the number of GPUs that have layers, 0", get);
    }
    assert_eq!((info.experts_host_layers, info.experts_host, info.experts_device), (0, 0, 0));
    assert_eq!(info.experts_copied_from, RZ_NONE);
    assert_eq!(text_of(&info.isa), text_of(&cpu.isa));
    unsafe { rz_model_free(model) };
    // Where no product in BF16 is faster, those of the model are what they always are.
    params.flags = RZ_MODEL_BF16_PRODUCTS;
    expect(RZ_OK, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut model, e) });
    expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
    let isa = text_of(&info.isa);
    assert!(isa == text_of(&cpu.isa) || isa == "amx-bf16", "{isa}");
    unsafe { rz_model_free(model) };
}

#[test]
fn advice_for_sampling_and_unknown_keys_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    let path = CString::new(folder.path().to_str().expect("UTF-8")).expect("no NUL");
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_TEXT_ONLY);
    put("config.json", r#"{"model_type":"llama","magic_norm":true}"#);
    let mut model = null_mut();
    let load = |params: &rz_model_params, model: &mut *mut rz_model, status| {
        expect(status, |e| unsafe { rz_model_load(path.as_ptr(), params, model, e) })
    };
    let message = load(&params, &mut model, RZ_ERR_UNSUPPORTED);
    assert!(message.contains("magic_norm") && message.contains("RZ_MODEL_ALLOW_UNKNOWN"), "{message}");
    params.flags |= RZ_MODEL_ALLOW_UNKNOWN;
    let advised = RZ_SAMPLING_TEMPERATURE | RZ_SAMPLING_TOP_K | RZ_SAMPLING_TOP_P;
    for (text, told, temperature, top_k) in [
        (r#"{"temperature":0.5,"top_k":20,"top_p":0.75,"min_p":NaN}"#, advised, 0.5, 20),
        (r#"{"do_sample":false}"#, RZ_SAMPLING_TEMPERATURE, 0.0, 0),
        (r#"{"top_k":40}"#, RZ_SAMPLING_TOP_K, 1.0, 40),
        ("{}", 0, 1.0, 0),
    ] {
        put("generation_config.json", text);
        load(&params, &mut model, RZ_OK);
        let mut sampling = sized::<rz_model_sampling>();
        expect(RZ_OK, |e| unsafe { rz_model_sampling_get(model, &mut sampling, e) });
        assert_eq!((sampling.advised, sampling.temperature, sampling.top_k), (told, temperature, top_k), "{text}");
        assert_eq!(sampling.top_p, if told & RZ_SAMPLING_TOP_P != 0 { 0.75 } else { 0.0 });
        let mut info = sized::<rz_model_info>();
        expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
        assert_eq!(info.n_unknown, 1);
        unsafe { rz_model_free(model) };
    }
}

#[test]
fn what_is_no_model_is_told_apart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    };
    let whole = std::fs::read(MODEL).expect("the model");
    let mut bad_magic = whole.clone();
    bad_magic[0] ^= 1;
    let fails = |path: &Path, status: rz_status| {
        let name = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        let mut model = null_mut();
        let message = expect(status, |e| unsafe { rz_model_load(name.as_ptr(), null(), &mut model, e) });
        assert!(model.is_null(), "outputs are written on success only");
        assert!(message.ends_with(path.to_str().expect("UTF-8")), "the reason comes first: {message}");
    };
    fails(&folder.path().join("missing.gguf"), RZ_ERR_IO);
    fails(&file("empty.gguf", b""), RZ_ERR_FORMAT);
    fails(&file("magic.gguf", &bad_magic), RZ_ERR_FORMAT);
    fails(&file("cut.gguf", &whole[..whole.len() / 2]), RZ_ERR_FORMAT);
    #[cfg(unix)]
    {
        let fifo = folder.path().join("fifo.gguf");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        if made.is_ok_and(|status| status.success()) {
            fails(&fifo, RZ_ERR_IO);
        }
        fails(Path::new("/dev/zero"), RZ_ERR_IO);
    }
    unsafe { refused("path is empty", |e| rz_model_load(c"".as_ptr(), null(), &mut null_mut(), e)) };
}

#[test]
fn a_sampler_refuses_what_is_no_number() {
    let mut sampler = null_mut();
    let valid: rz_sampler_params = sized();
    let bias = rz_logit_bias { token: 5, bias: f32::NAN };
    let wrong = [
        rz_sampler_params { temperature: f32::NAN, ..valid },
        rz_sampler_params { temperature: -1.0, ..valid },
        rz_sampler_params { top_p: 1.5, ..valid },
        rz_sampler_params { min_p: -0.1, ..valid },
        rz_sampler_params { repeat_penalty: f32::INFINITY, ..valid },
        rz_sampler_params { biases: &bias, n_biases: 1, ..valid },
        rz_sampler_params { typical_p: f32::NAN, ..valid },
        rz_sampler_params { top_n_sigma: -1.0, ..valid },
        rz_sampler_params { dry_base: 0.5, ..valid },
        rz_sampler_params { no_repeat_ngram_size: 5000, ..valid },
    ];
    for params in &wrong {
        expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_sampler_new(params, &mut sampler, e) });
    }
    let params = rz_sampler_params { biases: null(), n_biases: 1, ..valid };
    refused("biases", |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    let (top_p, temperature) = (RZ_FILTER_TOP_P, RZ_FILTER_TEMPERATURE);
    for (what, order) in [
        ("order has 8, which is no filter", &[top_p, 8, temperature][..]),
        ("order has top_p twice", &[top_p, temperature, top_p]),
        ("temperature is on, but not in order", &[top_p]),
    ] {
        let params = rz_sampler_params { temperature: 0.5, order: order.as_ptr(), n_order: order.len(), ..valid };
        refused(what, |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    }
    let first = rz_sampler_params { flags: RZ_SAMPLER_TEMPERATURE_FIRST, order: &top_p, n_order: 1, ..valid };
    refused("both", |e| unsafe { rz_sampler_new(&first, &mut sampler, e) });
    let empty = rz_token_sequence { tokens: null(), n_tokens: 0 };
    let params = rz_sampler_params { banned_sequences: &empty, n_banned_sequences: 1, ..valid };
    refused("banned_sequences[0]", |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    let lost = rz_token_sequence { tokens: null(), n_tokens: 3 };
    let params = rz_sampler_params { dry_breakers: &lost, n_dry_breakers: 1, ..valid };
    refused("dry_breakers.tokens is NULL", |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    assert!(sampler.is_null());
}

#[test]
fn a_runtime_refuses_what_no_machine_has() {
    let mut runtime = null_mut();
    let cpus = [u32::MAX];
    let valid = sized::<rz_runtime_params>();
    unsafe {
        refused("cpus", |e| rz_runtime_new(&rz_runtime_params { n_cpus: 1, ..valid }, &mut runtime, e));
        let params = rz_runtime_params { cpus: cpus.as_ptr(), n_cpus: 1, threads: 2, ..valid };
        expect(RZ_ERR_INVALID_ARGUMENT, |e| rz_runtime_new(&params, &mut runtime, e));
        expect(RZ_ERR_INVALID_ARGUMENT, |e| {
            rz_runtime_new(&rz_runtime_params { threads: u32::MAX, ..valid }, &mut runtime, e)
        });
        assert!(runtime.is_null());
    }
}
