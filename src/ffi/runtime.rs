//! Workers, log and memory limit that several models share.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::engine::{LogLevel, Role, Runtime, RuntimeParams, Share};
use crate::error::{Result, try_vec};

use super::arguments::{Call, User};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Thread pool, log and memory limit, shared by the models that are loaded with it. Any number of threads may use a
/// runtime at once. Only rz_runtime_threads_set and rz_runtime_memory_limit_set change it. A model that is loaded
/// without a runtime gets its own, with defaults.
pub struct rz_runtime(pub(super) Arc<Runtime>);

impl Handle for rz_runtime {
    const NAME: &'static str = "runtime";

    fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(&self.0)
    }
}

/// Log level: a call failed with RZ_ERR_PANIC or RZ_ERR_DEVICE_LOST.
pub const RZ_LOG_ERROR: i32 = 1;
/// Log level: something is worse than the caller may expect.
pub const RZ_LOG_WARNING: i32 = 2;
/// Log level: description of a model and where it was loaded.
pub const RZ_LOG_INFO: i32 = 3;

/// Receives a log message: UTF-8 of `len` bytes, not NUL-terminated, valid during the call only. Several threads may
/// call it at once. The callback may call the library; a call on a handle in use gets RZ_ERR_BUSY. It must return
/// normally: no longjmp, no C++ exception.
pub type rz_log_callback =
    Option<unsafe extern "C" fn(level: i32, message: *const c_char, len: usize, user: *mut c_void)>;

/// Computes chunk `i` of a step; `i` is less than the `n` of rz_parallel_callback, which also passes `context`. The
/// host calls it, from any thread.
pub type rz_chunk_callback = Option<unsafe extern "C" fn(i: u32, context: *mut c_void)>;

/// Calls `chunk(i, context)` exactly once for each i less than `n`, in any order, with any number of calls at once, on
/// any threads (a single thread and the calling thread included), and returns after all calls have returned. Returns 0
/// on success and another number on failure. If the callback fails, or returns before all calls of `chunk` have
/// returned, the library call fails with RZ_ERR_INVALID_ARGUMENT. The library invokes the callback on threads that call
/// the library, hundreds of times per token, and never twice at once for the same runtime. If all threads of the host
/// may be waiting in library calls, the calling thread must compute chunks too. The callback must return normally: no
/// longjmp, no C++ exception.
///
/// Schedulers often run other tasks on a thread that waits. Such a task must not compute with the same runtime, because
/// it would wait for itself: rz_prefill, rz_decode_token, rz_job_step and all other calls that need the workers get
/// RZ_ERR_BUSY at once. It may use another runtime, and create and free handles.
pub type rz_parallel_callback =
    Option<unsafe extern "C" fn(n: u32, chunk: rz_chunk_callback, context: *mut c_void, user: *mut c_void) -> i32>;

/// Thread role: computes tokens.
pub const RZ_THREAD_COMPUTE: u32 = 1;
/// Thread role: reads, packs or hashes weights. The thread ends with the call: a load, or, for a model with mapped
/// weights, the first rz_cache_save, rz_conversation_save or use of an rz_store.
pub const RZ_THREAD_LOAD: u32 = 2;
/// Thread role: renders chat templates and compiles grammars.
pub const RZ_THREAD_TEMPLATE: u32 = 3;
/// Thread role: writes the files of an rz_store.
pub const RZ_THREAD_STORE: u32 = 4;

/// Runs on each thread that the library starts for the runtime: with `starts` 1 as the first action of the thread, and
/// with 0 as the last. `role` is RZ_THREAD_..., `index` the number of the thread within its role: from 1 for
/// RZ_THREAD_COMPUTE (0 is the calling thread), from 0 for the other roles. The callback does not run on threads of the
/// host, nor on threads in a child made with fork().
///
/// The callback allows hosts to attach threads to a virtual machine or a profiler, and to set the name, priority or
/// processors of threads. All signals are blocked on these threads. Threads end within rz_runtime_threads_set, within a
/// load, within the first save or the first use of an rz_store of a model with mapped weights, and within the
/// rz_..._free that frees the last handle of the runtime. These calls return after the callback has run and the thread
/// was joined. Several threads may call it at once. It must not call the library and must return normally: no longjmp,
/// no C++ exception.
pub type rz_thread_callback = Option<unsafe extern "C" fn(role: u32, index: u32, starts: i32, user: *mut c_void)>;

/// Parameters of an rz_runtime. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_runtime_params {
    /// sizeof(rz_runtime_params).
    pub struct_size: u32,
    /// Number of compute threads: the calling thread and `threads` - 1 workers; 1 creates no worker. 0: one per
    /// processor that the process may use (hardware threads of a core count separately), or one per fast core if cores
    /// differ. At most 1024.
    ///
    /// The first load of a model with a tokenizer starts one to four further threads, depending on `threads`. They
    /// render chat templates and compile grammars, one call per thread in the order of arrival, and sleep otherwise;
    /// each has a stack of 64 MiB, most of which is never touched. If the system cannot create any of them, the load
    /// fails with RZ_ERR_RESOURCES. Later, threads are started only by rz_runtime_threads_set, rz_store_new with a
    /// folder, loads, and, for a model with mapped weights, the first save or the first use of an rz_store. The threads
    /// of loads, saves and this first use end with the call; a runtime with one thread starts no such threads. In a
    /// child made with fork(), which has none of these threads, a call with a template or a grammar starts a thread for
    /// itself, or fails with RZ_ERR_RESOURCES.
    pub threads: u32,
    /// Maximum bytes of host memory for weights, KV caches and scratch memory (GPU memory does not count); 0: no limit.
    /// Calls that would exceed the limit fail with RZ_ERR_LIMIT: a load, a new cache, a first step.
    /// rz_runtime_memory_limit_set changes it.
    pub memory_limit: u64,
    /// Processors (as the system numbers them) to which the workers are pinned, each worker to one processor, round
    /// robin; NULL: workers are not pinned. Copied. The calling thread is never pinned.
    pub cpus: *const u32,
    /// Number of `cpus`.
    pub n_cpus: usize,
    /// Receives log messages until the last handle that uses the runtime is freed; NULL: no log.
    pub log: rz_log_callback,
    /// Passed to `log`.
    pub log_user: *mut c_void,
    /// Runs the computation on the host's threads instead of workers. The library then starts no workers, only one
    /// thread for chat templates and grammars. `threads` is the maximum number of chunks of a call, and `cpus` must be
    /// NULL. NULL: workers.
    pub parallel: rz_parallel_callback,
    /// Passed to `parallel`.
    pub parallel_user: *mut c_void,
    /// Runs on each thread of the library when it starts and ends; NULL: no callback.
    pub on_thread: rz_thread_callback,
    /// Passed to `on_thread`.
    pub on_thread_user: *mut c_void,
}

/// Creates a runtime and starts its workers, which sleep while there is no work.
///
/// `params` may be NULL. The caller frees `*out` with rz_runtime_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too
/// many threads, a processor that does not exist), RZ_ERR_UNSUPPORTED (`cpus` on a system that cannot pin threads),
/// RZ_ERR_RESOURCES (the system cannot create the threads), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_runtime_new(
    params: *const rz_runtime_params,
    out: *mut *mut rz_runtime,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out(out, "out")?;
        let params = runtime_params(call, params)?;
        out.set_handle(rz_runtime(Runtime::new(params)?));
        Ok(RZ_OK)
    })
}

/// Frees the handle; NULL is fine. Models loaded with the runtime keep it alive; freeing the last of these models ends
/// and joins the workers. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_runtime_free(runtime: *mut rz_runtime) {
    guarded_or!((), |call| call.release(runtime))
}

/// Changes the number of compute threads from the next step on; 0 as in rz_runtime_params.threads. A running step keeps
/// its threads. Results do not depend on the number of threads. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too many
/// threads), RZ_ERR_RESOURCES (the system cannot create more threads; the existing ones stay), RZ_ERR_OUT_OF_MEMORY.
/// Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_runtime_threads_set(
    runtime: *mut rz_runtime,
    threads: u32,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let runtime = call.handle(runtime)?;
        runtime.0.set_threads(threads)?;
        Ok(RZ_OK)
    })
}

/// Changes the limit on host memory, in bytes (rz_runtime_params.memory_limit); 0: no limit.
///
/// The limit may be below the memory in use, for example when the system asks programs to use less memory: allocations
/// stay, and calls that need more memory, including steps that need more scratch memory, fail with RZ_ERR_LIMIT until
/// enough was freed. rz_cache_release, rz_store_clear and the functions that free handles free memory. Any thread, also
/// while other calls run. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_runtime_memory_limit_set(
    runtime: *mut rz_runtime,
    memory_limit: u64,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        call.handle(runtime)?.0.set_memory_limit(memory_limit);
        Ok(RZ_OK)
    })
}

/// State of a runtime. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_runtime_info {
    /// sizeof(rz_runtime_info), set by the caller.
    pub struct_size: u32,
    /// Number of compute threads from the next step on, including the calling thread; with rz_runtime_params.parallel
    /// the maximum number of chunks of a call.
    pub threads: u32,
    /// Number of threads for chat templates and grammars; 0 before the first load of a model with a tokenizer.
    pub template_threads: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of host memory that count against the limit now: weights, KV caches, scratch memory.
    pub memory_used: u64,
    /// Peak of memory_used since the runtime was created.
    pub memory_peak: u64,
    /// Memory limit in bytes; 0: no limit.
    pub memory_limit: u64,
}

/// Fills in `*out`, whose `struct_size` the caller has set. Any thread, also while other calls run. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_runtime_info_get(
    runtime: *const rz_runtime,
    out: *mut rz_runtime_info,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let runtime = call.handle(runtime)?;
        let out = call.out_struct(out)?;
        let info = runtime.0.info();
        out.set(rz_runtime_info {
            struct_size: 0,
            threads: count(info.threads),
            template_threads: count(info.template_threads),
            reserved: 0,
            memory_used: info.memory_used,
            memory_peak: info.memory_peak,
            memory_limit: info.memory_limit,
        });
        Ok(RZ_OK)
    })
}

fn runtime_params(call: &Call, params: *const rz_runtime_params) -> Result<RuntimeParams> {
    let params: rz_runtime_params = call.params(params)?;
    let from = call.slice(params.cpus, params.n_cpus, "rz_runtime_params.cpus")?;
    let mut cpus = try_vec("processors", from.len())?;
    cpus.extend_from_slice(from);
    let (user, parallel_user) = (User::new(params.log_user), User::new(params.parallel_user));
    let thread_user = User::new(params.on_thread_user);
    Ok(RuntimeParams {
        threads: params.threads,
        cpus,
        memory_limit: params.memory_limit,
        parallel: params.parallel.map(|parallel| {
            Box::new(move |n: u32, share: Share, context: *mut c_void| {
                // SAFETY: the header asks for a function that may be called so.
                unsafe { parallel(n, Some(share), context, parallel_user.get()) }
            }) as _
        }),
        on_thread: params.on_thread.map(|on_thread| {
            Arc::new(move |role: Role, index: usize, starts: bool| {
                let role = match role {
                    Role::Compute => RZ_THREAD_COMPUTE,
                    Role::Load => RZ_THREAD_LOAD,
                    Role::Template => RZ_THREAD_TEMPLATE,
                    Role::Store => RZ_THREAD_STORE,
                };
                // SAFETY: the header asks for a function that may be called so from any thread.
                unsafe { on_thread(role, count(index), i32::from(starts), thread_user.get()) };
            }) as _
        }),
        log: params.log.map(|log| {
            Box::new(move |level: LogLevel, message: &str| {
                let level = match level {
                    LogLevel::Error => RZ_LOG_ERROR,
                    LogLevel::Warning => RZ_LOG_WARNING,
                    LogLevel::Info => RZ_LOG_INFO,
                };
                // SAFETY: the header asks for a function that may be called so from any thread.
                unsafe { log(level, message.as_ptr().cast(), message.len(), user.get()) };
            }) as _
        }),
    })
}
