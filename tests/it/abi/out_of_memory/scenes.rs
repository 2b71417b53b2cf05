//! Scenes of calls. A scene frees what it has made at its end; a call that fails ends the scene.

use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::thread::sleep;
use std::time::Duration;

use realizar::ffi::adapter::*;
use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_media::*;
use realizar::ffi::conversation_saved::*;
use realizar::ffi::conversation_say::*;
use realizar::ffi::conversation_set::*;
use realizar::ffi::device::*;
use realizar::ffi::element::*;
use realizar::ffi::embed::*;
use realizar::ffi::encoder::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::hub::*;
use realizar::ffi::job::*;
use realizar::ffi::kernels::*;
use realizar::ffi::media::*;
use realizar::ffi::media_steps::*;
use realizar::ffi::metrics::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::plan::*;
use realizar::ffi::prompt::*;
use realizar::ffi::reply::*;
use realizar::ffi::runtime::*;
use realizar::ffi::sampler::*;
use realizar::ffi::saved::*;
use realizar::ffi::score::*;
use realizar::ffi::sound::*;
use realizar::ffi::source::*;
use realizar::ffi::status::*;
use realizar::ffi::store::*;
use realizar::ffi::text::*;
use realizar::ffi::video::*;

use super::super::conversation::{TEMPLATE, reply_params, size};
use super::super::host::*;
use super::super::pictures::{file, params, pixels};
use super::Calls;
use crate::support::published::file_of;
use crate::{sound, videos, vision};

/// A scene; `None` if a call has failed.
type Scene = fn(&mut Calls, &Fixture) -> Option<()>;

pub const SCENES: &[(&str, Scene)] = &[
    ("loads", loads),
    ("texts", texts),
    ("grammars", grammars),
    ("caches", caches),
    ("jobs", jobs),
    ("conversations", conversations),
    ("stores", stores),
    ("pictures", pictures),
    ("sounds", sounds),
    ("kernels", kernels),
];

/// A handle that is freed at its end, while allocations fail too.
struct Owned<T> {
    p: *mut T,
    free: unsafe extern "C" fn(*mut T),
    arm: extern "C" fn(c_int),
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        (self.arm)(1);
        unsafe { (self.free)(self.p) };
        (self.arm)(0);
    }
}

/// Makes a call whose last argument is the error record; the scene ends if the call fails.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $calls.make(stringify!($name), |e| unsafe { $name($($argument,)* e) })?
    };
}

/// Makes a handle by a call whose last arguments are the out pointer and the error record.
macro_rules! new {
    ($calls:expr, $free:ident, $name:ident($($argument:expr),* $(,)?)) => {{
        let mut p = null_mut();
        $calls.make(stringify!($name), |e| unsafe { $name($($argument,)* &mut p, e) })?;
        Owned { p, free: $free, arm: $calls.malloc.arm }
    }};
}

/// Models and files that scenes begin with.
pub struct Fixture {
    folder: tempfile::TempDir,
    _files: Vec<tempfile::NamedTempFile>,
    text_path: CString,
    adapter: CString,
    /// A model that talks, with two threads and with one.
    text: [*mut rz_model; 2],
    /// Caches with a long prompt, whose buffers the reserve does not serve.
    long: [*mut rz_cache; 2],
    prompt: Vec<u32>,
    bytes: Vec<u8>,
    sees: *mut rz_model,
    sees_encoder: CString,
    hears: *mut rz_model,
    hears_encoder: CString,
    translates: *mut rz_model,
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().expect("UTF-8")).expect("no NUL")
}

fn load_at(path: &Path, threads: u32) -> *mut rz_model {
    let runtime = rz_runtime_params { struct_size: size::<rz_runtime_params>(), threads, ..zeroed() };
    let (mut handle, mut params) = (null_mut(), zeroed::<rz_model_params>());
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&runtime, &mut handle, e) });
    (params.struct_size, params.runtime) = (size::<rz_model_params>(), handle);
    let model = load_with(path.to_str().expect("UTF-8"), &params);
    unsafe { rz_runtime_free(handle) };
    model
}

impl Fixture {
    /// `has_long`: with caches of a prompt whose buffers are larger than the reserve.
    pub fn new(has_long: bool) -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let text = with_template(TEMPLATE);
        let at = |name: &str| -> PathBuf { folder.path().join(name) };
        for name in ["sees", "hears"] {
            std::fs::create_dir(at(name)).expect("a folder");
        }
        vision::model(&at("sees"), "qwen25", 64);
        sound::model(&at("hears"));
        let data = [("sees", vision::data("qwen25")), ("hears", sound::data("qwen2a"))];
        for (name, data) in &data {
            std::fs::write(at(name).join("mmproj.gguf"), vision::gguf(data).build().0).expect("a file");
        }
        let t5 = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures/t5-gated.json");
        let t5 = serde_json::from_slice(&std::fs::read(t5).expect("data")).expect("JSON");
        std::fs::write(at("t5.gguf"), file_of(&t5).build().0).expect("a file");
        let models = [load_at(text.path(), 2), load_at(text.path(), 1)];
        let prompt: Vec<u32> = (0..if has_long { 5000 } else { 90 }).map(|i| 3 + i * 7 % 400).collect();
        let long = models.map(|model| {
            let cache = new_cache(model, 5001);
            expect(RZ_OK, |e| unsafe { rz_prefill(cache, prompt.as_ptr(), prompt.len(), null(), e) });
            cache
        });
        Fixture {
            text_path: c(text.path()),
            adapter: c(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/story-adapter.gguf")),
            text: models,
            long,
            prompt,
            bytes: std::fs::read(MODEL).expect("the model"),
            sees: load_at(&at("sees").join("model.gguf"), 2),
            sees_encoder: c(&at("sees").join("mmproj.gguf")),
            hears: load_at(&at("hears").join("model.gguf"), 2),
            hears_encoder: c(&at("hears").join("mmproj.gguf")),
            translates: load_at(&at("t5.gguf"), 2),
            _files: vec![text],
            folder,
        }
    }
}

/// Saved data, in memory that is allocated at the beginning.
struct Saved {
    bytes: Vec<u8>,
    at: usize,
}

impl Saved {
    fn new() -> Saved {
        Saved { bytes: Vec::with_capacity(16 << 20), at: 0 }
    }

    fn user(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}

unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let saved = unsafe { &mut *user.cast::<Saved>() };
    if saved.bytes.len() + n > saved.bytes.capacity() {
        return 28;
    }
    saved.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), n) });
    0
}

unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let saved = unsafe { &mut *user.cast::<Saved>() };
    let Some(bytes) = saved.bytes.get(saved.at..saved.at + n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    saved.at += n;
    0
}

fn loads(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let params = rz_runtime_params { struct_size: size::<rz_runtime_params>(), threads: 2, ..zeroed() };
    let runtime = new!(calls, rz_runtime_free, rz_runtime_new(&params));
    let (mut params, mut plan) = (zeroed::<rz_model_params>(), zeroed::<rz_model_plan>());
    (params.struct_size, params.runtime, plan.struct_size) =
        (size::<rz_model_params>(), runtime.p, size::<rz_model_plan>());
    call!(
        calls,
        rz_model_plan_get(f.text_path.as_ptr(), null(), 0, &params, null(), 1, &mut plan, null_mut(), 0, null_mut())
    );
    drop(new!(calls, rz_model_free, rz_model_load(f.text_path.as_ptr(), &params)));
    call!(calls, rz_runtime_threads_set(runtime.p, 3));
    call!(calls, rz_runtime_memory_limit_set(runtime.p, 1 << 30));
    let mut state = rz_runtime_info { struct_size: size::<rz_runtime_info>(), ..zeroed() };
    call!(calls, rz_runtime_info_get(runtime.p, &mut state));
    let packed = c(&f.folder.path().join("packed"));
    for _ in 0..2 {
        params.packed_path = packed.as_ptr();
        drop(new!(calls, rz_model_free, rz_model_load(f.text_path.as_ptr(), &params)));
        params.packed_path = null();
    }
    let _ = std::fs::remove_file(f.folder.path().join("packed"));
    let source = rz_source {
        struct_size: size::<rz_source>(),
        kind: RZ_SOURCE_MEMORY,
        data: f.bytes.as_ptr().cast(),
        size: f.bytes.len() as u64,
        ..zeroed()
    };
    drop(new!(calls, rz_model_free, rz_model_load_from(&source, 1, &params)));
    let mut plan = rz_encoder_plan { struct_size: size::<rz_encoder_plan>(), ..zeroed() };
    call!(calls, rz_encoder_plan_get(f.sees, f.sees_encoder.as_ptr(), null(), 0, null(), &mut plan));
    let bytes = std::fs::read(f.sees_encoder.to_str().expect("UTF-8")).expect("a file");
    let source = rz_source { data: bytes.as_ptr().cast(), size: bytes.len() as u64, ..source };
    drop(new!(calls, rz_encoder_free, rz_encoder_load_from(f.sees, &source, 1, null())));
    drop(new!(calls, rz_encoder_free, rz_encoder_load(f.hears, f.hears_encoder.as_ptr(), null())));
    Some(())
}

const CHAT: &str = r#"{"messages": [{"role": "system", "content": "Short."}, {"role": "user", "content": "Once upon"},
    {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "c1", "function":
    {"name": "look", "arguments": {"at": "a tree", "n": 2}}}]}, {"role": "tool", "tool_call_id": "c1", "content": "green"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties":
    {"at": {"type": "string"}, "n": {"type": "integer"}}, "required": ["at"]}}}], "variables": {"enable_thinking": true}}"#;

fn texts(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let (model, mut text, mut n, mut tokens) = (f.text[0], [0; 4096], 0, [0; 600]);
    let out = text.as_mut_ptr();
    for i in 0..calls.quietly(|| rz_device_count()) {
        let mut device = rz_device_info { struct_size: size::<rz_device_info>(), ..zeroed() };
        call!(calls, rz_device_info_get(i, &mut device));
    }
    let mut info = rz_model_info { struct_size: size::<rz_model_info>(), ..zeroed() };
    call!(calls, rz_model_info_get(model, &mut info));
    let mut device = rz_model_device { struct_size: size::<rz_model_device>(), ..zeroed() };
    // A model on the CPU has none.
    calls.quietly(|| unsafe { rz_model_device_get(model, 0, &mut device, null_mut()) });
    let mut sampling = rz_model_sampling { struct_size: size::<rz_model_sampling>(), ..zeroed() };
    call!(calls, rz_model_sampling_get(model, &mut sampling));
    call!(calls, rz_model_meta_into(model, c"general.architecture".as_ptr(), out, 4096, &mut n));
    call!(calls, rz_model_meta_key_into(model, 0, out, 4096, &mut n));
    // The tokenizer keeps the one list that the model has.
    calls.make("rz_model_meta_element_into", |e| unsafe {
        match rz_model_meta_element_into(model, c"tokenizer.ggml.tokens".as_ptr(), 5, out, 4096, &mut n, e) {
            RZ_ERR_UNSUPPORTED => RZ_OK,
            status => status,
        }
    })?;
    let listing = r#"{"sha": "5555555555555555555555555555555555555555", "siblings": [{"rfilename": "m-Q8_0.gguf",
        "size": 9, "blobId": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]}"#;
    call!(
        calls,
        rz_hub_choose_into(c"hf:o/n".as_ptr(), 6, listing.as_ptr().cast(), listing.len(), 0, 0, out, 4096, &mut n)
    );
    let mut metrics = rz_metrics { struct_size: size::<rz_metrics>(), ..zeroed() };
    call!(calls, rz_metrics_get(model, &mut metrics));
    let mut metrics = rz_backend_metrics { struct_size: size::<rz_backend_metrics>(), ..zeroed() };
    call!(calls, rz_backend_metrics_get(model, RZ_DEVICE_CPU, &mut metrics));
    calls.quietly(|| unsafe { rz_metrics_reset(model) });

    let said = c"Once upon a time, there was a little girl named Lily.";
    call!(
        calls,
        rz_tokenize_into(model, said.as_ptr(), said.count_bytes(), 1, tokens.as_mut_ptr(), 600, &mut n, null())
    );
    let some = tokens[..n].to_vec();
    call!(calls, rz_detokenize_into(model, some.as_ptr(), some.len(), 0, out, 4096, &mut n));
    call!(calls, rz_token_bytes_into(model, 403, out.cast(), 4096, &mut n, null_mut()));
    calls.quietly(|| unsafe { rz_token_is_end(model, 2) });
    let stream = new!(calls, rz_textstream_free, rz_textstream_new(model));
    call!(calls, rz_textstream_follow(stream.p, some.as_ptr(), 3));
    call!(calls, rz_textstream_push_into(stream.p, 403, out, 4096, &mut n));
    call!(calls, rz_textstream_flush_into(stream.p, out, 4096, &mut n));

    let (json, json_len) = (CHAT.as_ptr().cast(), CHAT.len());
    call!(calls, rz_chat_render_into(model, json, json_len, 1, out, 4096, &mut n, null()));
    call!(calls, rz_chat_tokenize_into(model, json, json_len, 1, tokens.as_mut_ptr(), 600, &mut n, null()));
    let parser = new!(calls, rz_chat_parser_free, rz_chat_parser_new(model, json, json_len, null()));
    let reply = c"a thought</think>Hello <call>{\"name\": \"look\", \"arguments\": {\"at\": \"x\"}}</call>";
    call!(
        calls,
        rz_tokenize_into(model, reply.as_ptr(), reply.count_bytes(), 0, tokens.as_mut_ptr(), 600, &mut n, null())
    );
    for token in &tokens[..n] {
        call!(calls, rz_chat_parser_push(parser.p, *token));
    }
    call!(calls, rz_chat_parser_end(parser.p));
    let (mut kind, mut flags, mut index) = (0, 0, 0);
    while call!(calls, rz_chat_parser_next_into(parser.p, &mut kind, &mut flags, &mut index, out, 4096, &mut n))
        == RZ_OK
    {}
    let cancel = new!(calls, rz_cancel_free, rz_cancel_new());
    call!(calls, rz_cancel_deadline(cancel.p, 1_000_000_000));
    calls.quietly(|| unsafe {
        rz_cancel_fire(cancel.p);
        assert_eq!(rz_cancel_is_fired(cancel.p), 1);
        rz_cancel_reset(cancel.p);
    });
    Some(())
}

fn grammars(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let schema = r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$"},
        "n": {"type": "integer", "minimum": 3}}, "required": ["a"]}"#;
    for (kind, flags, text) in [
        (RZ_GRAMMAR_REGEX, 0, " (red|blue|gr[e-u]+n)+"),
        (RZ_GRAMMAR_LARK, 0, "start: \" a\" | \" b\" start"),
        (RZ_GRAMMAR_GBNF, 0, "root ::= \" \" (\"yes\" | \"no\")+"),
        (RZ_GRAMMAR_CHOICES, 0, "[\" red\", \" blue\"]"),
        (RZ_GRAMMAR_JSON_SCHEMA, RZ_GRAMMAR_FLAG_WHITESPACE, schema),
        (RZ_GRAMMAR_JSON, 0, ""),
        (RZ_GRAMMAR_TOOLS, 0, CHAT),
    ] {
        // The vocabulary is prepared once for a model.
        let at = text.as_ptr().cast();
        let grammar = new!(calls, rz_grammar_free, rz_grammar_new(f.text[0], kind, flags, at, text.len(), null()));
        let cold = rz_sampler_params { struct_size: size::<rz_sampler_params>(), ..zeroed() };
        let sampler = new!(calls, rz_sampler_free, rz_sampler_new(&cold));
        call!(calls, rz_sampler_grammar_set(sampler.p, grammar.p));
        let cache = new!(calls, rz_cache_free, rz_cache_new(f.text[0], null()));
        call!(calls, rz_prefill(cache.p, [1u32, 403].as_ptr(), 2, null()));
        let mut token = 0;
        call!(calls, rz_sample(cache.p, sampler.p, &mut token));
        for _ in 0..3 {
            call!(calls, rz_decode_token(cache.p, token, sampler.p, &mut token));
            if calls.quietly(|| unsafe { rz_token_is_end(f.text[0], token) }) != 0 {
                break;
            }
        }
    }
    Some(())
}

fn caches(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let (model, prompt, mut n, mut common) = (f.text[0], [1u32, 403, 261, 7], 0, 0);
    let (mut out, mut floats, mut saved) = ([0u32; 64], [0f32; 512], Saved::new());
    let cache = new!(calls, rz_cache_free, rz_cache_new(model, null()));
    let cancel = new!(calls, rz_cancel_free, rz_cancel_new());
    call!(calls, rz_cache_cancel_set(cache.p, cancel.p));
    call!(calls, rz_prefill(cache.p, prompt.as_ptr(), 4, null()));
    calls.quietly(|| unsafe { rz_cache_len(cache.p) + rz_cache_capacity(cache.p) });
    call!(calls, rz_cache_match(cache.p, prompt.as_ptr(), 3, &mut common));
    call!(calls, rz_cache_tokens_into(cache.p, out.as_mut_ptr(), 64, &mut n));
    call!(calls, rz_logits_into(cache.p, floats.as_mut_ptr(), 512, &mut n));
    call!(calls, rz_generate_into(cache.p, 261, null_mut(), out.as_mut_ptr(), 8, &mut n, null()));
    call!(calls, rz_cache_truncate(cache.p, 6));
    let fork = new!(calls, rz_cache_free, rz_cache_fork(cache.p));
    let (both, mut next) = ([cache.p, fork.p], [0; 2]);
    call!(calls, rz_decode_batch(both.as_ptr(), [1u32, 2].as_ptr(), 2, null(), next.as_mut_ptr()));
    call!(calls, rz_cache_shift(fork.p, 2, 3));
    call!(calls, rz_cache_release(cache.p));
    call!(calls, rz_score(fork.p, [5u32, 7, 9].as_ptr(), 3, floats.as_mut_ptr(), null()));
    call!(calls, rz_top_logprobs(fork.p, 8, out.as_mut_ptr(), floats.as_mut_ptr(), &mut n));
    let user = saved.user();
    call!(calls, rz_cache_save(fork.p, Some(write), user, null()));
    drop(new!(calls, rz_cache_free, rz_cache_load(model, null(), Some(read), user, null())));
    let adapter = new!(calls, rz_adapter_free, rz_adapter_load(model, f.adapter.as_ptr(), null()));
    let file = std::fs::read(Path::new(f.adapter.to_str().ok()?)).ok()?;
    let (struct_size, kind, data) = (size::<rz_source>(), RZ_SOURCE_MEMORY, file.as_ptr().cast());
    let source = rz_source { struct_size, kind, data, size: file.len() as u64, ..zeroed() };
    drop(new!(calls, rz_adapter_free, rz_adapter_load_from(model, &source, 1, null())));
    call!(calls, rz_cache_adapters_set(fork.p, [adapter.p].as_ptr(), null(), 1));
    call!(calls, rz_prefill(fork.p, prompt.as_ptr(), 4, null()));
    let mean = rz_embed_params { struct_size: 16, pooling: RZ_POOLING_MEAN, flags: 0, reserved: 0 };
    let (texts, lengths, values) = ([prompt.as_ptr()], [4], floats.as_mut_ptr());
    call!(calls, rz_embed_into(model, &mean, texts.as_ptr(), lengths.as_ptr(), 1, values, 512, &mut n, null()));
    Some(())
}

fn jobs(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let (model, prompt, mut n, mut text) = (f.text[0], [1u32, 403, 261, 7, 403, 261], 0, [0; 1024]);
    let (mut tokens, mut logprobs, out) = ([0u32; 256], [0f32; 256], text.as_mut_ptr());
    let stops = [c"girl".as_ptr(), c"!!".as_ptr()];
    let hot = rz_sampler_params { struct_size: size::<rz_sampler_params>(), temperature: 0.8, top_k: 9, ..zeroed() };
    let sampler = new!(calls, rz_sampler_free, rz_sampler_new(&hot));
    let plain = rz_job_params {
        struct_size: size::<rz_job_params>(),
        tokens: prompt.as_ptr(),
        n_tokens: prompt.len(),
        max_tokens: 12,
        ..zeroed()
    };
    let drafting = rz_job_params { draft: RZ_DRAFT_MODEL, draft_model: model, ..plain };
    let looking = rz_job_params { draft: RZ_DRAFT_LOOKUP, stops: stops.as_ptr(), n_stops: 2, ..plain };
    let chatting = rz_job_params { chat: CHAT.as_ptr().cast(), chat_len: CHAT.len(), logprobs: 3, ..plain };
    let sampled = rz_job_params { sampler: sampler.p, ..plain };
    let (mut kept, mut handles) = (Vec::new(), Vec::new());
    for params in [plain, drafting, looking, chatting, sampled] {
        let cache = new!(calls, rz_cache_free, rz_cache_new(model, null()));
        let job = new!(calls, rz_job_free, rz_job_new(cache.p, &params));
        handles.push(job.p);
        // The cache may go before its job.
        kept.push((job, cache));
    }
    while call!(calls, rz_jobs_step(handles.as_ptr(), 5, RZ_NO_LIMIT)) != RZ_DONE {}
    for job in handles {
        call!(calls, rz_job_step(job, RZ_NO_LIMIT));
        calls.quietly(|| unsafe { rz_job_error(job, null_mut()) });
        let mut info = rz_job_info { struct_size: size::<rz_job_info>(), ..zeroed() };
        call!(calls, rz_job_info_get(job, &mut info));
        call!(calls, rz_job_tokens_into(job, tokens.as_mut_ptr(), 256, &mut n));
    }
    call!(calls, rz_job_text_into(kept[0].0.p, out, 1024, &mut n));
    let (mut kind, mut flags, mut index, chat) = (0, 0, 0, kept[3].0.p);
    while call!(calls, rz_job_next_into(chat, &mut kind, &mut flags, &mut index, out, 1024, &mut n)) == RZ_OK {}
    call!(calls, rz_job_logprobs_into(chat, tokens.as_mut_ptr(), logprobs.as_mut_ptr(), 256, &mut n));
    Some(())
}

unsafe extern "C" fn hear(_: *const std::ffi::c_char, _: usize, _: *mut c_void) -> i32 {
    0
}

fn conversations(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let (model, mut n, mut text, mut saved) = (f.text[0], 0, [0; 8192], Saved::new());
    let (mut tokens, mut logprobs, out) = ([0u32; 512], [0f32; 512], text.as_mut_ptr());
    let (mut kind, mut flags, mut index) = (0, 0, 0);
    let params = rz_conversation_params {
        struct_size: size::<rz_conversation_params>(),
        overflow: RZ_OVERFLOW_FAIL,
        json: CHAT.as_ptr().cast(),
        json_len: CHAT.len(),
        ..zeroed()
    };
    let talk = new!(calls, rz_conversation_free, rz_conversation_new(model, &params));
    let more = r#"{"role": "user", "content": "And then?"}"#;
    call!(calls, rz_conversation_add(talk.p, more.as_ptr().cast(), more.len(), null(), 0));
    call!(calls, rz_conversation_add_text(talk.p, c"user".as_ptr(), c"Then".as_ptr(), 4));
    let choices = "[\" red and then\", \" blue\"]";
    let mut reply = rz_reply_params { logprobs: 2, grammar_kind: RZ_GRAMMAR_CHOICES, ..reply_params(8) };
    (reply.grammar, reply.grammar_len) = (choices.as_ptr().cast(), choices.len());
    call!(calls, rz_conversation_reply(talk.p, &reply));
    while call!(calls, rz_conversation_step(talk.p, RZ_NO_LIMIT)) != RZ_DONE {}
    while call!(calls, rz_conversation_next_into(talk.p, &mut kind, &mut flags, &mut index, out, 8192, &mut n)) == RZ_OK
    {
    }
    call!(calls, rz_conversation_logprobs_into(talk.p, tokens.as_mut_ptr(), logprobs.as_mut_ptr(), 512, &mut n));
    let fork = new!(calls, rz_conversation_free, rz_conversation_fork(talk.p));
    call!(calls, rz_conversation_reply(fork.p, &reply_params(5)));
    let both = [fork.p];
    while call!(calls, rz_conversations_step(both.as_ptr(), 1, RZ_NO_LIMIT)) != RZ_DONE {}
    call!(calls, rz_conversation_rewind(fork.p, 2));
    call!(calls, rz_conversation_read(fork.p, null()));
    call!(calls, rz_conversation_stop(fork.p));
    call!(calls, rz_conversation_error(fork.p));
    call!(calls, rz_conversation_release(fork.p));
    call!(calls, rz_conversation_capacity_set(fork.p, 128));
    call!(calls, rz_conversation_overflow_set(fork.p, RZ_OVERFLOW_FORGET));
    call!(calls, rz_conversation_cancel_set(fork.p, null()));
    call!(calls, rz_conversation_adapters_set(fork.p, null(), null(), 0));
    call!(calls, rz_conversation_store_set(fork.p, null()));
    let short = rz_conversation_params { json: null(), json_len: 0, ..params };
    let other = new!(calls, rz_conversation_free, rz_conversation_new(model, &short));
    // Stops after some text, or with the context.
    calls.make("rz_conversation_say", |e| unsafe {
        match rz_conversation_say(other.p, c"Once".as_ptr(), null(), Some(hear), null_mut(), e) {
            RZ_ERR_CONTEXT_FULL => RZ_OK,
            status => status,
        }
    })?;
    call!(calls, rz_conversation_json_into(talk.p, 0, out, 8192, &mut n));
    let mut info = rz_conversation_info { struct_size: size::<rz_conversation_info>(), ..zeroed() };
    call!(calls, rz_conversation_info_get(talk.p, &mut info));
    let user = saved.user();
    call!(calls, rz_conversation_save(talk.p, Some(write), user, null()));
    drop(new!(calls, rz_conversation_free, rz_conversation_load(model, &short, Some(read), user)));
    Some(())
}

fn stores(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let prompt = &f.prompt;
    let cache_params = rz_cache_params { struct_size: size::<rz_cache_params>(), capacity: 5001, k_type: 0, v_type: 0 };
    for ((model, cache), place) in f.text.iter().zip(&f.long).zip(["two", "one"]) {
        let folder = f.folder.path().join(place);
        let path = c(&folder);
        let mut params = rz_store_params { struct_size: size::<rz_store_params>(), ..zeroed() };
        (params.path, params.memory_limit) = (path.as_ptr(), 1);
        let store = new!(calls, rz_store_free, rz_store_new(*model, &params));
        call!(calls, rz_store_put(store.p, *cache));
        let mut info = rz_store_info { struct_size: size::<rz_store_info>(), ..zeroed() };
        // The store's thread writes meanwhile.
        calls.quietly(|| sleep(Duration::from_millis(3)));
        call!(calls, rz_store_info_get(store.p, &mut info));
        let (mut taken, mut common) = (null_mut(), 0);
        let tokens = prompt.as_ptr();
        call!(calls, rz_store_take(store.p, tokens, prompt.len(), &cache_params, null(), &mut taken, &mut common));
        drop(Owned { p: taken, free: rz_cache_free, arm: calls.malloc.arm });
        let part = rz_part { tokens, n_tokens: prompt.len(), media: null() };
        let whole = new!(calls, rz_prompt_free, rz_prompt_new(*model, &part, 1, 0));
        call!(calls, rz_store_take_prompt(store.p, whole.p, &cache_params, null(), &mut taken, &mut common));
        drop(Owned { p: taken, free: rz_cache_free, arm: calls.malloc.arm });
        let params = rz_conversation_params {
            struct_size: size::<rz_conversation_params>(),
            json: CHAT.as_ptr().cast(),
            json_len: CHAT.len(),
            store: store.p,
            ..zeroed()
        };
        for _ in 0..2 {
            let talk = new!(calls, rz_conversation_free, rz_conversation_new(*model, &params));
            call!(calls, rz_conversation_reply(talk.p, &reply_params(4)));
            while call!(calls, rz_conversation_step(talk.p, RZ_NO_LIMIT)) != RZ_DONE {}
        }
        drop(store);
        // Another one finds what was left.
        let params = rz_store_params { struct_size: size::<rz_store_params>(), path: path.as_ptr(), ..zeroed() };
        let store = new!(calls, rz_store_free, rz_store_new(*model, &params));
        call!(calls, rz_store_take(store.p, tokens, prompt.len(), &cache_params, null(), &mut taken, &mut common));
        drop(Owned { p: taken, free: rz_cache_free, arm: calls.malloc.arm });
        call!(calls, rz_store_clear(store.p));
    }
    Some(())
}

fn pictures(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let (model, mut n, mut saved) = (f.sees, 0, Saved::new());
    let (mut tokens, mut floats) = ([0u32; 2048], vec![0f32; 1 << 18]);
    let encoder = new!(calls, rz_encoder_free, rz_encoder_load(model, f.sees_encoder.as_ptr(), null()));
    let mut info = rz_encoder_info { struct_size: size::<rz_encoder_info>(), ..zeroed() };
    call!(calls, rz_encoder_info_get(encoder.p, &mut info));
    let mut about = rz_media_info { struct_size: size::<rz_media_info>(), ..zeroed() };
    call!(calls, rz_media_measure(encoder.p, 60, 40, null(), &mut about));
    let picture = vision::picture([60, 40]);
    let steps = rz_media_params { flags: RZ_ENCODE_STEPS, ..params() };
    let in_rgb = pixels(RZ_PIXELS_RGB8, [60, 40], &picture.rgb);
    let medium = new!(calls, rz_media_free, rz_media_from_pixels(encoder.p, &in_rgb, &steps));
    while call!(calls, rz_media_step(medium.p, 1)) != RZ_DONE {}
    // Large ones have buffers that no reserve serves.
    let names = ["420.jpg", "gray-alpha.png", "animated.webp", "bits.bmp"];
    for file in names.iter().map(|name| file(name)).chain([large_bmp()]) {
        let (at, len) = (file.as_ptr().cast(), file.len());
        drop(new!(calls, rz_media_free, rz_media_from_image(encoder.p, at, len, null())));
    }
    let frames: Vec<_> = (0..2).map(|i| videos::frame([60, 40], i).rgb).collect();
    let listed: Vec<_> = frames.iter().map(|rgb| pixels(RZ_PIXELS_RGB8, [60, 40], rgb)).collect();
    let times = [0.0, 0.5];
    drop(new!(calls, rz_media_free, rz_media_from_frames(encoder.p, listed.as_ptr(), times.as_ptr(), 2, null())));
    call!(calls, rz_media_info_get(medium.p, &mut about));
    call!(calls, rz_media_rows_into(medium.p, floats.as_mut_ptr(), floats.len(), &mut n));
    let user = saved.user();
    call!(calls, rz_media_save(medium.p, Some(write), user, null()));
    drop(new!(calls, rz_media_free, rz_media_load(model, Some(read), user, null())));
    let own = floats.as_ptr();
    drop(new!(calls, rz_media_free, rz_media_from_rows(model, RZ_MEDIA_IMAGE, own, 4, info.row_dim, 0, 0)));
    let source = [5u32, 9, 60, 1];
    drop(new!(calls, rz_media_free, rz_media_from_tokens(f.translates, source.as_ptr(), 4, null())));

    let json = r#"{"messages": [{"role": "user", "content": [{"type": "image", "media": 0}]}]}"#;
    let (at, len, handles) = (json.as_ptr().cast(), json.len(), [medium.p]);
    let prompt = new!(calls, rz_prompt_free, rz_prompt_from_chat(model, at, len, 0, handles.as_ptr(), 1, null()));
    calls.quietly(|| unsafe { rz_prompt_len(prompt.p) });
    call!(calls, rz_prompt_tokens_into(prompt.p, tokens.as_mut_ptr(), 2048, &mut n));
    let cache = new!(calls, rz_cache_free, rz_cache_new(model, null()));
    call!(calls, rz_prefill_prompt(cache.p, prompt.p, 0, null()));
    let mut common = 0;
    call!(calls, rz_cache_match_prompt(cache.p, prompt.p, &mut common));
    let mean = rz_embed_params { struct_size: 16, pooling: RZ_POOLING_MEAN, flags: 0, reserved: 0 };
    let (prompts, values, room) = ([prompt.p], floats.as_mut_ptr(), floats.len());
    call!(calls, rz_embed_prompts_into(model, &mean, prompts.as_ptr(), 1, values, room, &mut n, null()));
    let params = rz_conversation_params { struct_size: size::<rz_conversation_params>(), ..zeroed() };
    let talk = new!(calls, rz_conversation_free, rz_conversation_new(model, &params));
    let message = r#"{"role": "user", "content": [{"type": "image", "media": 0}]}"#;
    let (at, len) = (message.as_ptr().cast(), message.len());
    call!(calls, rz_conversation_add(talk.p, at, len, handles.as_ptr(), 1));
    drop(new!(calls, rz_media_free, rz_conversation_media(talk.p, 0)));
    Some(())
}

/// A picture of 200 x 120, in a file that every decoder reads.
fn large_bmp() -> Vec<u8> {
    let picture = vision::picture([200, 120]);
    let mut file = b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
    [200u32, 120].iter().for_each(|side| file.extend(side.to_le_bytes()));
    file.extend([1, 0, 24, 0]);
    file.extend([0; 24]);
    file.extend(&picture.rgb);
    file
}

fn sounds(calls: &mut Calls, f: &Fixture) -> Option<()> {
    let encoder = new!(calls, rz_encoder_free, rz_encoder_load(f.hears, f.hears_encoder.as_ptr(), null()));
    let samples = sound::sound(40_000);
    drop(new!(calls, rz_media_free, rz_media_from_samples(encoder.p, samples.as_ptr(), 20_000, 2, 8000, null())));
    let data: Vec<u8> = samples.iter().flat_map(|x| ((x * 30_000.0) as i16).to_le_bytes()).collect();
    let mut wav = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data".to_vec();
    wav[4..8].copy_from_slice(&(36 + data.len() as u32).to_le_bytes());
    wav.extend((data.len() as u32).to_le_bytes());
    wav.extend(data);
    drop(new!(calls, rz_media_free, rz_media_from_audio(encoder.p, wav.as_ptr().cast(), wav.len(), null())));
    Some(())
}

fn kernels(calls: &mut Calls, _: &Fixture) -> Option<()> {
    let params = rz_attention_params {
        struct_size: size::<rz_attention_params>(),
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 4,
        ..zeroed()
    };
    let (q, k, v, mut out, mut len) = ([1f32; 8], [1f32; 4], [2f32; 4], [0f32; 8], 0);
    let (q, k, v, out) = (q.as_ptr(), k.as_ptr(), v.as_ptr(), out.as_mut_ptr());
    call!(calls, rz_attention_gqa_into(&params, q, null(), null(), 0, k, v, out));
    let (weights, x, mut y) = ([1f32, 2.0, 3.0, 4.0], [10f32, 100.0], [0f32; 2]);
    call!(calls, rz_matvec_into(RZ_TYPE_F32, weights.as_ptr().cast(), 2, 2, x.as_ptr(), y.as_mut_ptr()));
    call!(calls, rz_dequantize_into(RZ_TYPE_F32, weights.as_ptr().cast(), 2, y.as_mut_ptr()));
    let params = rz_kv_params {
        struct_size: size::<rz_kv_params>(),
        n_layers: 2,
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 4,
        capacity: 4,
        kv_type: RZ_TYPE_F32,
        device: 0,
    };
    let kv = new!(calls, rz_kv_free, rz_kv_new(&params));
    for layer in 0..2 {
        call!(calls, rz_kv_attend_into(kv.p, layer, q, k, v, out, &mut len));
    }
    call!(calls, rz_kv_truncate(kv.p, 0));
    Some(())
}
