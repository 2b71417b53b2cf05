//! Runtimes and loads: progress, memory limits, log, metrics.

use super::host::*;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::device::*;
use realizar::ffi::generate::*;
use realizar::ffi::metrics::*;
use realizar::ffi::model::*;
use realizar::ffi::runtime::*;
use realizar::ffi::status::*;
use realizar::ffi::version::*;

extern "C" fn count_progress(done: u64, total: u64, user: *mut c_void) -> i32 {
    let seen = unsafe { &*user.cast::<AtomicU64>() };
    assert!(done <= total && total > 0);
    // It may call the library.
    assert!(rz_device_count() > 0);
    seen.fetch_add(1, Ordering::Relaxed);
    0
}

extern "C" fn stop(_done: u64, _total: u64, _user: *mut c_void) -> i32 {
    1
}

#[test]
fn a_load_tells_its_progress_and_can_be_stopped() {
    let seen = AtomicU64::new(0);
    let mut params: rz_model_params = sized();
    params.progress = Some(count_progress);
    params.progress_user = (&raw const seen).cast_mut().cast();
    let model = load_with(MODEL, &params);
    unsafe { rz_model_free(model) };
    assert!(seen.load(Ordering::Relaxed) > 0);

    let path = CString::new(MODEL).expect("no NUL");
    let mut model = null_mut();
    params.progress = Some(stop);
    expect(RZ_ERR_CANCELLED, |e| unsafe { rz_model_load(path.as_ptr(), &params, &mut model, e) });
    let mut cancel = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        rz_cancel_fire(cancel);
        (params.progress, params.cancel) = (None, cancel);
        expect(RZ_ERR_CANCELLED, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        rz_cancel_free(cancel);
    }
    assert!(model.is_null());
}

/// A ceiling holds for weights and caches together.
#[test]
fn a_ceiling_of_memory_holds() {
    let path = CString::new(MODEL).expect("no NUL");
    let (mut runtime, mut model, mut cache) = (null_mut(), null_mut(), null_mut());
    let runtime_with = |limit: u64, runtime: &mut *mut rz_runtime| {
        let mut params: rz_runtime_params = zeroed();
        (params.struct_size, params.threads, params.memory_limit) = (size_of::<rz_runtime_params>() as u32, 1, limit);
        expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, runtime, e) });
    };
    let mut params: rz_model_params = sized();
    unsafe {
        runtime_with(100_000, &mut runtime);
        params.runtime = runtime;
        let message = expect(RZ_ERR_LIMIT, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        assert!(message.contains("bytes are needed, 100000 of the limit of 100000 are left"), "{message}");
        rz_runtime_free(runtime);
        runtime_with(4 << 20, &mut runtime);
        params.runtime = runtime;
        expect(RZ_OK, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        let params = rz_cache_params { struct_size: 16, capacity: 1 << 20, k_type: 0, v_type: 0 };
        let message = expect(RZ_ERR_LIMIT, |e| rz_cache_new(model, &params, &mut cache, e));
        assert!(message.contains("of the limit of 4194304 are left"), "{message}");
        assert!(cache.is_null());
        rz_runtime_free(runtime);
        rz_model_free(model);
    }
}

fn state(runtime: *const rz_runtime) -> rz_runtime_info {
    let mut state = sized::<rz_runtime_info>();
    expect(RZ_OK, |e| unsafe { rz_runtime_info_get(runtime, &mut state, e) });
    state
}

/// A runtime says what it takes; its ceiling can go below that, and then only what needs more fails.
#[test]
fn a_ceiling_of_memory_can_be_changed_while_it_is_in_use() {
    let (mut runtime, mut cache) = (null_mut(), null_mut());
    let size = size_of::<rz_runtime_params>() as u32;
    let params = rz_runtime_params { struct_size: size, threads: 2, memory_limit: 64 << 20, ..zeroed() };
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
    let empty = state(runtime);
    assert_eq!((empty.threads, empty.template_threads, empty.memory_used, empty.memory_peak), (2, 0, 0, 0));
    assert_eq!(empty.memory_limit, 64 << 20);
    let params = rz_model_params { runtime, ..sized() };
    let model = load_with(MODEL, &params);
    let loaded = state(runtime);
    // Weights of 4 bytes each.
    assert!((1..=2).contains(&loaded.template_threads) && loaded.memory_used >= 260_000 * 4, "{}", loaded.memory_used);
    let host = Host { model, cache: new_cache(model, 512) };
    host.prefill(&[BOS, 403, 407]);
    let used = state(runtime);
    // The keys and values of 512 tokens, 5 layers, 4 heads of 8 values in F16.
    assert!(used.memory_used >= loaded.memory_used + 512 * 5 * 4 * 8 * 2 * 2);
    assert!(used.memory_peak >= used.memory_used);

    unsafe {
        expect(RZ_OK, |e| rz_runtime_memory_limit_set(runtime, 1000, e));
        assert_eq!((state(runtime).memory_limit, state(runtime).memory_used), (1000, used.memory_used));
        let message = expect(RZ_ERR_LIMIT, |e| rz_cache_new(model, null(), &mut cache, e));
        assert!(message.contains("0 of the limit of 1000 are left"), "{message}");
        // What is there works on.
        host.decode(261);
        expect(RZ_OK, |e| rz_runtime_memory_limit_set(runtime, 0, e));
        assert_eq!(state(runtime).memory_limit, 0);
        expect(RZ_OK, |e| rz_cache_new(model, null(), &mut cache, e));
        let most = state(runtime).memory_used;
        rz_cache_free(cache);
        assert!(state(runtime).memory_used < most && state(runtime).memory_peak >= most);
        expect(RZ_OK, |e| rz_runtime_threads_set(runtime, 3, e));
        assert_eq!(state(runtime).threads, 3);
        drop(host);
        assert_eq!(state(runtime).memory_used, 0);
        refused("runtime", |e| rz_runtime_memory_limit_set(null_mut(), 1, e));
        refused("runtime", |e| rz_runtime_info_get(null(), &mut zeroed(), e));
        refused("rz_runtime_info", |e| rz_runtime_info_get(runtime, null_mut(), e));
        rz_runtime_free(runtime);
    }
}

/// Role, number, whether it starts, and the thread that says so.
type Threads = Mutex<Vec<(u32, u32, i32, std::thread::ThreadId)>>;

extern "C" fn name_thread(role: u32, index: u32, starts: i32, user: *mut c_void) {
    let threads = unsafe { &*user.cast::<Threads>() };
    threads.lock().expect("no panic").push((role, index, starts, std::thread::current().id()));
    #[cfg(target_os = "linux")]
    if starts == 1 {
        let name = CString::new(format!("host-{role}-{index}")).expect("no NUL");
        unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    }
}

/// The host's function runs on each thread, may name it, and runs at its end before the call that ends it returns.
#[test]
fn a_function_of_the_host_runs_on_threads_as_they_start_and_end() {
    let threads = Threads::default();
    let of = |starts: i32| {
        let mut of: Vec<_> = threads.lock().expect("no panic").iter().filter(|t| t.2 == starts).copied().collect();
        of.sort_unstable_by_key(|t| (t.0, t.1));
        of.into_iter().map(|(role, index, _, thread)| (role, index, thread)).collect::<Vec<_>>()
    };
    let roles = |starts: i32| of(starts).into_iter().map(|(role, index, _)| (role, index)).collect::<Vec<_>>();
    let params = rz_runtime_params {
        threads: 3,
        on_thread: Some(name_thread),
        on_thread_user: (&raw const threads).cast_mut().cast(),
        ..sized()
    };
    let mut runtime = null_mut();
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
    let params = rz_model_params { runtime, ..sized() };
    let model = load_with(MODEL, &params);
    let load = [(RZ_THREAD_LOAD, 0), (RZ_THREAD_LOAD, 1), (RZ_THREAD_LOAD, 2)];
    assert_eq!(roles(0), load, "the threads of the load have ended");
    let here = (0..3).map(|i| (RZ_THREAD_TEMPLATE, i));
    let all: Vec<_> = [(RZ_THREAD_COMPUTE, 1), (RZ_THREAD_COMPUTE, 2)].into_iter().chain(load).chain(here).collect();
    // Workers may still be about to start.
    let begun = std::time::Instant::now();
    while roles(1).len() < all.len() && begun.elapsed().as_secs() < 60 {
        std::thread::yield_now();
    }
    assert_eq!(roles(1), all);
    #[cfg(target_os = "linux")]
    {
        let task = |entry: std::io::Result<std::fs::DirEntry>| {
            std::fs::read_to_string(entry.expect("a task").path().join("comm")).unwrap_or_default()
        };
        let names: Vec<String> = std::fs::read_dir("/proc/self/task").expect("tasks").map(task).collect();
        for name in ["host-1-1", "host-1-2", "host-3-0", "host-3-2"] {
            assert!(names.iter().any(|of| of.trim() == name), "{name}: {names:?}");
        }
    }
    unsafe {
        rz_model_free(model);
        rz_runtime_free(runtime);
    }
    assert_eq!(of(0), of(1), "each thread has told of its own end");
    assert!(of(1).iter().all(|(_, _, thread)| *thread != std::thread::current().id()));
}

#[test]
fn a_cancel_tells_whether_it_was_fired() {
    let mut cancel = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_cancel_new(&mut cancel, e));
        let is_fired = || rz_cancel_is_fired(cancel);
        assert_eq!(is_fired(), 0);
        rz_cancel_fire(cancel);
        assert_eq!(is_fired(), 1);
        rz_cancel_reset(cancel);
        assert_eq!(is_fired(), 0);
        for (us, fired) in [(u64::MAX - 1, 0), (0, 1), (RZ_NO_LIMIT, 0)] {
            expect(RZ_OK, |e| rz_cancel_deadline(cancel, us, e));
            assert_eq!(is_fired(), fired, "{us}");
        }
        assert_eq!(rz_cancel_is_fired(null()), 0);
        rz_cancel_free(cancel);
    }
}

/// The number of a version orders versions, and the features are those that decoders and devices have.
#[test]
fn a_build_tells_its_version_and_features() {
    let parts: Vec<u32> = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().expect("a number")).collect();
    assert_eq!(rz_version_number(), parts.iter().fold(0, |number, part| 1000 * number + part));
    let has = |feature| rz_features() & feature != 0;
    assert_eq!(has(RZ_FEATURE_IMAGES), cfg!(feature = "images"));
    assert_eq!(has(RZ_FEATURE_SOUNDS), cfg!(feature = "sounds"));
    assert_eq!(has(RZ_FEATURE_THREADS), cfg!(not(target_family = "wasm")));
    assert_eq!(has(RZ_FEATURE_WGPU), cfg!(feature = "wgpu"));
    assert_eq!(rz_features() & !31, 0);
}

#[test]
fn packed_weights_are_kept_in_a_file() {
    let (path, dir) = (CString::new(MODEL).expect("no NUL"), tempfile::tempdir().expect("a folder"));
    let packed = dir.path().join("weights");
    let name = CString::new(packed.to_str().expect("UTF-8")).expect("no NUL");
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.packed_path) = (size_of::<rz_model_params>() as u32, name.as_ptr());
    let mut expected = None;
    for _ in 0..2 {
        let model = load_with(MODEL, &params);
        let cache = new_cache(model, 16);
        let mut token = 0;
        unsafe {
            expect(RZ_OK, |e| rz_prefill(cache, [BOS, 403, 407].as_ptr(), 3, null(), e));
            expect(RZ_OK, |e| rz_sample(cache, null_mut(), &mut token, e));
            rz_cache_free(cache);
            rz_model_free(model);
        }
        assert_eq!(*expected.get_or_insert(token), token);
    }
    let mut model = null_mut();
    unsafe {
        params.flags = RZ_MODEL_MMAP;
        expect(RZ_ERR_INVALID_ARGUMENT, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        params.flags = 0;
        std::fs::write(&packed, "a letter").expect("written");
        let message = expect(RZ_ERR_FORMAT, |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
        assert!(message.contains("no file of packed weights") && message.contains("weights"), "{message}");
        params.packed_path = c"".as_ptr();
        refused("packed_path is empty", |e| rz_model_load(path.as_ptr(), &params, &mut model, e));
    }
    assert!(model.is_null());
}

#[test]
fn what_was_done_is_counted() {
    let host = Host::new(16);
    let read = || {
        let mut metrics: rz_metrics = sized();
        expect(RZ_OK, |e| unsafe { rz_metrics_get(host.model, &mut metrics, e) });
        metrics
    };
    let on = |device_kind| {
        let mut metrics: rz_backend_metrics = sized();
        expect(RZ_OK, |e| unsafe { rz_backend_metrics_get(host.model, device_kind, &mut metrics, e) });
        assert_eq!(metrics.device_kind, device_kind);
        metrics
    };
    assert_eq!((read().load.count, on(RZ_DEVICE_CPU).dispatches), (1, 0));
    host.prefill(&[BOS, 403, 407]);
    host.decode(261);
    host.decode(BOS);
    let (metrics, cpu) = (read(), on(RZ_DEVICE_CPU));
    assert_eq!((cpu.dispatches, on(RZ_DEVICE_GPU).dispatches), (3, 0));
    assert_eq!((metrics.prefill.count, metrics.decode.count), (1, 2));
    assert_eq!(cpu.latency_histogram.iter().sum::<u64>(), 3);
    assert!(cpu.latency_min_ns <= cpu.latency_max_ns && cpu.latency_sum_ns >= cpu.latency_max_ns && cpu.bytes > 0);
    assert!((cpu.latency_mean_ns - cpu.latency_sum_ns as f64 / 3.0).abs() < 1.0);
    for kind in [0, 3, u32::MAX] {
        refused("device_kind", |e| unsafe { rz_backend_metrics_get(host.model, kind, &mut zeroed(), e) });
    }
    unsafe { rz_metrics_reset(host.model) };
    assert_eq!((on(RZ_DEVICE_CPU).dispatches, read().load.count, read().decode.sum_ns), (0, 0, 0));
}

type Heard = Mutex<Vec<(i32, String)>>;

extern "C" fn hear(level: i32, message: *const c_char, len: usize, user: *mut c_void) {
    let message = unsafe { std::slice::from_raw_parts(message.cast::<u8>(), len) };
    let heard = unsafe { &*user.cast::<Heard>() };
    // It may call the library.
    assert!(rz_device_count() > 0);
    heard.lock().expect("no panic").push((level, String::from_utf8(message.to_vec()).expect("UTF-8")));
}

/// A load says what it has loaded and where to, a cache that it is larger than the model was made for.
#[test]
fn the_log_says_what_a_host_would_ask() {
    let heard = Heard::default();
    let params =
        rz_runtime_params { threads: 1, log: Some(hear), log_user: (&raw const heard).cast_mut().cast(), ..sized() };
    let mut runtime = null_mut();
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
    let params = rz_model_params { runtime, ..sized() };
    let model = load_with(MODEL, &params);
    let said = std::mem::take(&mut *heard.lock().expect("no panic"));
    let [(RZ_LOG_INFO, text)] = &said[..] else { panic!("{said:?}") };
    assert!(text.starts_with("llama, 5 layers, 47 F32 on ") && text.ends_with("stories260K-f32.gguf"), "{text}");

    let caches = [512, 513].map(|capacity| new_cache(model, capacity));
    let said = std::mem::take(&mut *heard.lock().expect("no panic"));
    let [(RZ_LOG_WARNING, text)] = &said[..] else { panic!("{said:?}") };
    assert!(text.contains("513") && text.contains("512"), "{text}");
    unsafe {
        caches.into_iter().for_each(|cache| rz_cache_free(cache));
        rz_model_free(model);
        rz_runtime_free(runtime);
    }
}

/// Threads that a limit of the process refuses have their own status, in each call that starts some.
#[cfg(target_os = "linux")]
#[test]
fn threads_that_the_system_refuses_have_their_own_status() {
    const WORK: &str = "REALIZAR_REFUSED_THREADS";
    if std::env::var_os(WORK).is_none() {
        let test = "abi::runtime::threads_that_the_system_refuses_have_their_own_status";
        let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
        let child = command.args([test, "--exact", "--nocapture"]).env(WORK, "1").output().expect("a process");
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        return;
    }
    let (mut runtime, mut other) = (null_mut(), null_mut());
    let params = |threads| rz_runtime_params { threads, ..sized() };
    unsafe { expect(RZ_OK, |e| rz_runtime_new(&params(1), &mut runtime, e)) };
    // No room for the stacks of 63 threads.
    let pages = std::fs::read_to_string("/proc/self/statm").expect("sizes");
    let bytes = 4096 * pages.split(' ').next().and_then(|n| n.parse::<u64>().ok()).expect("a number");
    let limit = libc::rlimit { rlim_cur: bytes + (32 << 20), rlim_max: libc::RLIM_INFINITY };
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    for call in [0, 1] {
        let mut err = no_error();
        let status = unsafe {
            match call {
                0 => rz_runtime_new(&params(64), &mut other, &mut err),
                _ => rz_runtime_threads_set(runtime, 64, &mut err),
            }
        };
        assert_eq!((status, err.system_code), (RZ_ERR_RESOURCES, libc::EAGAIN), "{}", text_of(&err.message));
        assert!(text_of(&err.message).starts_with("cannot start thread "), "{}", text_of(&err.message));
    }
    assert!(other.is_null());
    unsafe { rz_runtime_free(runtime) };
}
