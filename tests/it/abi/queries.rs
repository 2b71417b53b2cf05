//! Size queries (NULL with a capacity of 0) of every function of the header that has an array, its capacity and a
//! count.

use super::conversation::{Talk, reply_params, size};
use super::host::*;
use super::media::{Medium, Prompt, text};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::RZ_NO_LIMIT;
use realizar::ffi::chat::*;
use realizar::ffi::conversation::*;
use realizar::ffi::embed::*;
use realizar::ffi::generate::*;
use realizar::ffi::hub::*;
use realizar::ffi::job::*;
use realizar::ffi::media::*;
use realizar::ffi::model::*;
use realizar::ffi::plan::*;
use realizar::ffi::prompt::*;
use realizar::ffi::reply::*;
use realizar::ffi::runtime::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;
use serde_json::Value as Json;

use crate::support::interface;

/// Functions that return the number of generated values, which a query with a NULL buffer does not generate.
const GENERATING: [&str; 1] = ["rz_generate_into"];

/// A call with an array, its capacity and the place of its count.
type Into<'a> = Box<dyn Fn(*mut c_void, usize, *mut usize, *mut rz_error) -> rz_status + 'a>;

/// The functions of the header that have an array, its capacity and the place of its count.
fn declared() -> BTreeSet<String> {
    let has_capacity = |function: &Json| {
        let parameters = function["parameters"].as_array().expect("parameters");
        parameters
            .windows(2)
            .any(|pair| pair[0]["name"] == "capacity" && pair[1]["type"] == "size_t *" && pair[1]["direction"] == "out")
    };
    let functions = interface::items("function");
    let names = functions.iter().filter(|item| has_capacity(item)).map(|item| interface::text(item, "name").to_owned());
    // Its array is one of structs that say how long they are.
    names.filter(|name| name != "rz_model_plan_get").collect()
}

/// A reply of three tokens that waits to be taken.
fn talk(params: rz_reply_params) -> Talk {
    let talk = Talk::new("", 256, 0);
    talk.add("user", "Once");
    talk.begin(params);
    while unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    talk
}

fn job(cache: *mut rz_cache, params: rz_job_params) -> *mut rz_job {
    let (tokens, mut job) = ([BOS, 403, 407], null_mut());
    let params = rz_job_params {
        struct_size: size::<rz_job_params>(),
        max_tokens: 3,
        tokens: tokens.as_ptr(),
        n_tokens: 3,
        ..params
    };
    unsafe {
        expect(RZ_OK, |e| rz_job_new(cache, &params, &mut job, e));
        while rz_job_step(job, RZ_NO_LIMIT, null_mut()) == RZ_AGAIN {}
    }
    job
}

#[test]
fn a_query_writes_the_count_and_takes_nothing() {
    const CHAT: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
    let talk = talk(rz_reply_params { logprobs: 1, ..reply_params(3) });
    let (model, said) = (talk.model, talk.handle);
    let caches = [(); 3].map(|()| new_cache(model, 64));
    let jobs = [
        job(caches[0], rz_job_params { logprobs: 1, ..zeroed() }),
        job(caches[1], rz_job_params { chat: CHAT.as_ptr().cast(), chat_len: CHAT.len(), ..zeroed() }),
    ];
    let host = Host { model: null_mut(), cache: caches[2] };
    host.prefill(&[BOS, 403, 407]);
    let medium = Medium::of(model, &[403, 407]);
    let prompt = Prompt::new(model, &[text(&[BOS, 403])]);
    let (mut stream, mut parser) = (null_mut(), null_mut());
    unsafe {
        expect(RZ_OK, |e| rz_textstream_new(model, &mut stream, e));
        expect(RZ_OK, |e| rz_chat_parser_new(model, CHAT.as_ptr().cast(), CHAT.len(), null(), &mut parser, e));
        // The end alone, a part without text.
        expect(RZ_OK, |e| rz_chat_parser_end(parser, e));
    }
    let (ids, lengths) = ([BOS, 403], [2]);
    let (texts, prompts) = ([ids.as_ptr()], [prompt.0]);
    let (list, crab) = (c"tokenizer.ggml.scores", (3 + 0xf0, 403));
    let embedding = rz_embed_params { struct_size: 16, pooling: RZ_POOLING_MEAN, flags: 0, reserved: 0 };
    let (json, json_len) = (CHAT.as_ptr().cast(), CHAT.len());
    macro_rules! rows {
        ($($name:ident($($first:expr),*; $($last:expr),*)),* $(,)?) => {
            [$((stringify!($name), Box::new(|out: *mut c_void, capacity: usize, n: *mut usize, e: *mut rz_error| unsafe {
                $name($($first,)* out.cast(), capacity, n, $($last,)* e)
            }) as Into)),*]
        };
    }
    macro_rules! parts {
        ($($name:ident($handle:expr)),* $(,)?) => {
            [$((stringify!($name), Box::new(|out: *mut c_void, capacity: usize, n: *mut usize, e: *mut rz_error| unsafe {
                let (mut kind, mut flags, mut index) = (0, 77, 77);
                let status = $name($handle, &mut kind, &mut flags, &mut index, out.cast(), capacity, n, e);
                assert!(status != RZ_OK || kind != 0 && flags < 2 && index == 0, stringify!($name));
                status
            }) as Into)),*]
        };
    }
    macro_rules! pairs {
        ($($name:ident($handle:expr)),* $(,)?) => {
            [$((stringify!($name), Box::new(|out: *mut c_void, capacity: usize, n: *mut usize, e: *mut rz_error| unsafe {
                let mut values = vec![0f32; capacity];
                let to = if out.is_null() { null_mut() } else { values.as_mut_ptr() };
                $name($handle, out.cast(), to, capacity, n, e)
            }) as Into)),*]
        };
    }
    let rows: Vec<(&str, Into)> = rows![
        rz_model_meta_into(model, c"general.architecture".as_ptr();),
        rz_model_meta_key_into(model, 0;),
        rz_model_meta_element_into(model, list.as_ptr(), 1;),
        rz_hub_choose_into(c"hf:owner/name".as_ptr(), 13, null(), 0, 0, 0;),
        rz_tokenize_into(model, json, json_len, 0; null()),
        rz_detokenize_into(model, ids.as_ptr(), 2, RZ_DETOKENIZE_SPECIAL;),
        rz_token_bytes_into(model, 403; null_mut()),
        rz_textstream_push_into(stream, crab.1;),
        rz_chat_render_into(model, json, json_len, 0; null()),
        rz_chat_tokenize_into(model, json, json_len, 0; null()),
        rz_cache_tokens_into(host.cache;),
        rz_logits_into(host.cache;),
        rz_media_rows_into(medium.0;),
        rz_prompt_tokens_into(prompt.0;),
        rz_job_text_into(jobs[0];),
        rz_job_tokens_into(jobs[0];),
        rz_conversation_json_into(said, 0;),
        rz_embed_into(model, &embedding, texts.as_ptr(), lengths.as_ptr(), 1; null()),
        rz_embed_prompts_into(model, &embedding, prompts.as_ptr(), 1; null()),
        // After the first byte of a character.
        rz_textstream_flush_into(stream;),
        rz_generate_into(host.cache, 403, null_mut(); null()),
    ]
    .into_iter()
    .chain(parts![rz_chat_parser_next_into(parser), rz_job_next_into(jobs[1]), rz_conversation_next_into(said)])
    .chain(pairs![rz_job_logprobs_into(jobs[0]), rz_conversation_logprobs_into(said)])
    .collect();

    assert_eq!(rows.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>(), declared());
    for (name, call) in &rows {
        if *name == "rz_textstream_flush_into" {
            let mut none = 0;
            let push =
                |e| unsafe { rz_textstream_push_into(stream, crab.0, [0i8; 8].as_mut_ptr().cast(), 8, &mut none, e) };
            expect(RZ_OK, push);
        }
        let mut counts = [usize::MAX; 3];
        for count in &mut counts[..2] {
            expect(RZ_OK, |e| call(null_mut(), 0, count, e));
        }
        let capacity = if GENERATING.contains(name) { 2 } else { counts[0] };
        let mut values = vec![0u64; capacity.max(1)];
        expect(RZ_OK, |e| call(values.as_mut_ptr().cast(), capacity, &mut counts[2], e));
        let made = if GENERATING.contains(name) { [0, 0, 2] } else { [counts[2]; 3] };
        assert_eq!(counts, made, "{name}");
        assert!(counts[2] > 0 || *name == "rz_chat_parser_next_into", "{name} had nothing to write");
        if counts[2] > 1 {
            let mut needed = 0;
            let status = call(values.as_mut_ptr().cast(), 0, &mut needed, null_mut());
            // What hands on what is new has nothing or something else to hand on.
            assert!([RZ_ERR_BUFFER_TOO_SMALL, RZ_OK, RZ_DONE].contains(&status), "{name}: {status}");
        }
    }
    // NULL with a capacity is a mistake.
    refused("out is NULL", |e| unsafe { rz_cache_tokens_into(host.cache, null_mut(), 1, &mut 0, e) });
    unsafe {
        rz_chat_parser_free(parser);
        rz_textstream_free(stream);
        for job in jobs {
            rz_job_free(job);
        }
        rz_cache_free(caches[0]);
        rz_cache_free(caches[1]);
    }
}

/// The array of GPUs of a plan, which is empty here, and arrays that cannot be.
#[test]
fn a_plan_has_an_array_of_its_devices() {
    let path = std::ffi::CString::new(MODEL).expect("no NUL");
    let mut out = rz_model_plan { struct_size: size::<rz_model_plan>(), ..zeroed() };
    let mut parts = [rz_model_plan_device { struct_size: size::<rz_model_plan_device>(), ..zeroed() }; 3];
    let mut n = usize::MAX;
    let out = &raw mut out;
    let plan = |devices: *mut rz_model_plan_device, capacity: usize, n: *mut usize, e: *mut rz_error| unsafe {
        rz_model_plan_get(path.as_ptr(), null(), 0, null(), null(), 1, out, devices, capacity, n, e)
    };
    expect(RZ_OK, |e| plan(null_mut(), 0, null_mut(), e));
    expect(RZ_OK, |e| plan(null_mut(), 0, &mut n, e));
    assert_eq!(n, 0);
    n = usize::MAX;
    expect(RZ_OK, |e| plan(parts.as_mut_ptr(), 3, &mut n, e));
    assert_eq!((n, parts[2].device), (0, 0));
    refused("devices[0]: rz_model_plan_device is NULL", |e| plan(null_mut(), 3, &mut n, e));
    refused("n_devices is NULL", |e| plan(parts.as_mut_ptr(), 3, null_mut(), e));
    refused("capacity is 4097", |e| plan(parts.as_mut_ptr(), 4097, &mut n, e));
    parts[1].struct_size = 8;
    refused("devices[1].struct_size is 8; it must be that of the first, 48", |e| {
        plan(parts.as_mut_ptr(), 3, &mut n, e)
    });
    parts[0].struct_size = 2;
    refused("devices[0]", |e| plan(parts.as_mut_ptr(), 3, &mut n, e));
}

/// What a plan needs may pass the ceiling of the runtime: it has the same numbers, takes nothing of the ceiling, and
/// only the load or the cache is rejected.
#[test]
fn a_plan_beyond_the_ceiling_has_its_numbers() {
    let path = std::ffi::CString::new(MODEL).expect("no NUL");
    let cache = rz_cache_params { struct_size: size::<rz_cache_params>(), capacity: 4096, ..zeroed() };
    let plan = |runtime: *mut rz_runtime, cache: &rz_cache_params| {
        let params = rz_model_params { struct_size: size::<rz_model_params>(), runtime, ..zeroed() };
        let mut out = rz_model_plan { struct_size: size::<rz_model_plan>(), ..zeroed() };
        expect(RZ_OK, |e| unsafe {
            rz_model_plan_get(path.as_ptr(), null(), 0, &params, cache, 2, &mut out, null_mut(), 0, null_mut(), e)
        });
        out
    };
    let limited = |memory_limit, call: &mut dyn FnMut(*mut rz_runtime)| {
        let mut runtime = null_mut();
        let params =
            rz_runtime_params { struct_size: size::<rz_runtime_params>(), threads: 1, memory_limit, ..zeroed() };
        expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
        call(runtime);
        let mut info = rz_runtime_info { struct_size: size::<rz_runtime_info>(), ..zeroed() };
        expect(RZ_OK, |e| unsafe { rz_runtime_info_get(runtime, &mut info, e) });
        unsafe { rz_runtime_free(runtime) };
        info
    };
    let numbers = |plan: &rz_model_plan| {
        [plan.weights_host, plan.cache_host, plan.cache_token, plan.scratch_host, plan.load_peak_host, plan.total_host]
    };
    let mut free = None;
    limited(0, &mut |runtime| free = Some(plan(runtime, &cache)));
    let free = free.expect("a plan");
    // Less than the weights, than one cache next to them, than a step next to both.
    let [weights, with_cache] = [free.weights_host, free.weights_host + free.cache_host];
    for memory_limit in [1, weights - 1, weights + free.cache_host / 2, with_cache + free.scratch_host / 2] {
        let info = limited(memory_limit, &mut |runtime| {
            assert_eq!(numbers(&plan(runtime, &cache)), numbers(&free), "a ceiling of {memory_limit}");
        });
        assert_eq!((info.memory_used, info.memory_peak), (0, 0), "a plan takes nothing of the ceiling");
        limited(memory_limit, &mut |runtime| {
            let params = rz_model_params { struct_size: size::<rz_model_params>(), runtime, ..zeroed() };
            let (mut model, mut made) = (null_mut(), null_mut());
            let status = unsafe { rz_model_load(path.as_ptr(), &params, &mut model, null_mut()) };
            assert_eq!(status, if memory_limit < weights { RZ_ERR_LIMIT } else { RZ_OK });
            if status == RZ_OK && memory_limit < with_cache {
                expect(RZ_ERR_LIMIT, |e| unsafe { rz_cache_new(model, &cache, &mut made, e) });
            }
            unsafe { rz_model_free(model) };
        });
    }
    // A cache beyond the ceiling and beyond this machine.
    let huge = rz_cache_params { capacity: u32::MAX - 64, ..cache };
    let mut told = Vec::new();
    for memory_limit in [0, 1] {
        limited(memory_limit, &mut |runtime| told.push(plan(runtime, &huge).cache_host));
    }
    assert_eq!(told[0], told[1]);
}

/// A reply has no part right now, or it has ended and all were taken.
#[test]
fn a_reply_without_a_part_goes_on_or_has_ended() {
    const CHAT: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;
    let talk = Talk::new("", 256, 0);
    let model = talk.model;
    let (mut numbers, mut text, mut len) = ([0; 3], [0u8; 256], 0);
    let mut take = |call: &dyn Fn(*mut u32, *mut u8, *mut usize, *mut rz_error) -> rz_status| {
        let status = call(numbers.as_mut_ptr(), text.as_mut_ptr(), &mut len, null_mut());
        (status, if status == RZ_OK { numbers[0] } else { 0 })
    };
    let of_talk = |to: *mut u32, out: *mut u8, len: *mut usize, e: *mut rz_error| unsafe {
        rz_conversation_next_into(talk.handle, to, to.add(1), to.add(2), out.cast(), 256, len, e)
    };
    assert_eq!(take(&of_talk).0, RZ_DONE, "no reply");
    talk.add("user", "Once");
    talk.begin(reply_params(3));
    assert_eq!(take(&of_talk).0, RZ_AGAIN);
    let mut last = 0;
    while unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {
        while let (RZ_OK, kind) = take(&of_talk) {
            last = kind;
        }
        assert_eq!(take(&of_talk).0, RZ_AGAIN);
    }
    while let (RZ_OK, kind) = take(&of_talk) {
        last = kind;
    }
    assert_eq!((take(&of_talk).0, last), (RZ_DONE, RZ_CHAT_EVENT_END));

    let mut parser = null_mut();
    expect(RZ_OK, |e| unsafe { rz_chat_parser_new(model, CHAT.as_ptr().cast(), CHAT.len(), null(), &mut parser, e) });
    let of_parser = |to: *mut u32, out: *mut u8, len: *mut usize, e: *mut rz_error| unsafe {
        rz_chat_parser_next_into(parser, to, to.add(1), to.add(2), out.cast(), 256, len, e)
    };
    assert_eq!(take(&of_parser).0, RZ_AGAIN);
    expect(RZ_OK, |e| unsafe { rz_chat_parser_end(parser, e) });
    assert_eq!([take(&of_parser), take(&of_parser)], [(RZ_OK, RZ_CHAT_EVENT_END), (RZ_DONE, 0)]);
    unsafe { rz_chat_parser_free(parser) };

    let cache = new_cache(model, 64);
    let params = rz_job_params {
        struct_size: size::<rz_job_params>(),
        max_tokens: 2,
        tokens: [BOS].as_ptr(),
        n_tokens: 1,
        chat: CHAT.as_ptr().cast(),
        chat_len: CHAT.len(),
        ..zeroed()
    };
    let mut job = null_mut();
    expect(RZ_OK, |e| unsafe { rz_job_new(cache, &params, &mut job, e) });
    let of_job = |to: *mut u32, out: *mut u8, len: *mut usize, e: *mut rz_error| unsafe {
        rz_job_next_into(job, to, to.add(1), to.add(2), out.cast(), 256, len, e)
    };
    assert_eq!(take(&of_job).0, RZ_AGAIN);
    while unsafe { rz_job_step(job, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    let mut last = 0;
    while let (RZ_OK, kind) = take(&of_job) {
        last = kind;
    }
    assert_eq!((take(&of_job).0, last), (RZ_DONE, RZ_CHAT_EVENT_END));
    unsafe {
        rz_job_free(job);
        rz_cache_free(cache);
    }
}
