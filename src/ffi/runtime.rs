//! Workers, log and ceilings that several models share.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use crate::engine::{LogLevel, Role, Runtime, RuntimeParams, Share};
use crate::error::{Result, try_vec};

use super::arguments::{Call, User};
use super::guard::{guarded, guarded_or};
use super::handle::Handle;
use super::status::{RZ_OK, rz_error, rz_status};
use super::structs::count;

/// Worker threads, a log and a ceiling on memory, shared by the models that are loaded with it. Any number of threads
/// may use it at once. rz_runtime_threads_set and rz_runtime_memory_limit_set alone change it. A model that is loaded
/// without one gets its own, with all defaults.
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
/// Log level: what a model is and where it was loaded to.
pub const RZ_LOG_INFO: i32 = 3;

/// Receives a log message: UTF-8 of `len` bytes, not NUL-terminated, valid during the call only. Comes from any
/// thread, several at once. It may call the library; a call on a handle in use gets RZ_ERR_BUSY. It must return
/// normally: no longjmp, no C++ exception.
pub type rz_log_callback =
    Option<unsafe extern "C" fn(level: i32, message: *const c_char, len: usize, user: *mut c_void)>;

/// Computes chunk `i` of a step, below the `n` of rz_parallel_callback, whose `context` it takes. Called by the host,
/// from any thread.
pub type rz_chunk_callback = Option<unsafe extern "C" fn(i: u32, context: *mut c_void)>;

/// Calls `chunk(i, context)` for each i below `n` once, in any order, any number of them at once, on any threads, one
/// or the caller's own among them, and returns when all have returned: 0, or another number where it could not, which
/// makes the call that it works for fail with RZ_ERR_INVALID_ARGUMENT, and so does a return that comes too soon. Comes
/// from the threads that call the library, hundreds of times a token, one at a time of a runtime. A host whose threads
/// may all be waiting in calls of the library has the calling one help. It must return normally: no longjmp, no C++
/// exception.
///
/// Whatever else it runs on the calling thread meanwhile, as schedulers do that hand tasks to a thread that waits, may
/// not compute with the same runtime: such a call would wait for itself, and gets RZ_ERR_BUSY at once (rz_prefill,
/// rz_decode_token, rz_job_step and all others that wait for the workers). Another runtime may be used, and handles may
/// be made and freed.
pub type rz_parallel_callback =
    Option<unsafe extern "C" fn(n: u32, chunk: rz_chunk_callback, context: *mut c_void, user: *mut c_void) -> i32>;

/// Role of a thread: it computes tokens.
pub const RZ_THREAD_COMPUTE: u32 = 1;
/// Role of a thread: it reads, packs or hashes weights; it ends with the call, a load or the first save or store of a
/// model with mapped weights.
pub const RZ_THREAD_LOAD: u32 = 2;
/// Role of a thread: it renders chat templates and compiles grammars.
pub const RZ_THREAD_TEMPLATE: u32 = 3;
/// Role of a thread: it writes the files of an rz_store.
pub const RZ_THREAD_STORE: u32 = 4;

/// Runs on each thread that the library starts for the runtime: with `starts` 1 before the thread does anything else,
/// and with 0 as the last thing that it does. `role` is RZ_THREAD_..., `index` the number of the thread within its
/// role: from 1 for RZ_THREAD_COMPUTE, whose number 0 is the calling thread, else from 0. The callback does not run on
/// threads of the host, nor on threads of calls in a child made with fork().
///
/// For hosts that attach threads to a virtual machine or a profiler, or give them a name, a priority or processors: the
/// callback changes those of the thread that it runs on. All signals are blocked there. Threads are joined, and their
/// ends told, before the call returns that ends them: rz_runtime_threads_set, a load, the first save or store of a
/// model with mapped weights, and the rz_..._free that frees the last handle with the runtime. Several threads call at
/// once. It must not call the library, and must return normally: no longjmp, no C++ exception.
pub type rz_thread_callback = Option<unsafe extern "C" fn(role: u32, index: u32, starts: i32, user: *mut c_void)>;

/// Parameters of an rz_runtime. Zero in a field, or NULL for all of them, stands for the default. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_runtime_params {
    /// sizeof(rz_runtime_params).
    pub struct_size: u32,
    /// Threads that compute: the calling one and `threads` - 1 workers, so 1 makes no worker. 0: one per processor
    /// that the process may use (hardware threads of one core are several processors), or one per fast core if cores
    /// differ. At most 1024.
    ///
    /// The first load of a model with a tokenizer starts as many further threads, at most four and at least one. They
    /// render chat templates and compile grammars, one call at a time each in the order of arrival, and sleep
    /// otherwise; each has 64 MiB of stack, most of which is never touched. If the system gives none, that load fails
    /// with RZ_ERR_RESOURCES. Later calls start no threads, except rz_runtime_threads_set, rz_store_new with a folder,
    /// loads, and the first save or store of a model with mapped weights; the threads of the last two end with the
    /// call, and with one thread there are none. In a child made with fork(), which has none of these threads, a call
    /// with a template or a grammar starts a thread for itself, or fails with RZ_ERR_RESOURCES.
    pub threads: u32,
    /// Ceiling in bytes on weights, caches and scratch memory in host memory, what lies on a GPU not counted; 0: none.
    /// Beyond it calls fail with RZ_ERR_LIMIT: a load, a new cache, a first step.
    /// rz_runtime_memory_limit_set changes it.
    pub memory_limit: u64,
    /// Processors (as the system numbers them) to which the workers are bound, one each in turn; NULL: none.
    /// Copied. The calling thread is never bound.
    pub cpus: *const u32,
    /// Number of `cpus`.
    pub n_cpus: usize,
    /// Receives what the library has to say, until the last handle that uses the runtime is freed; NULL: nobody.
    pub log: rz_log_callback,
    /// Handed to `log` as it is.
    pub log_user: *mut c_void,
    /// Runs the computation on the host's threads instead of workers; the library then starts no worker, and one
    /// thread for chat templates and grammars. `threads` is the number of shares of a job, and `cpus` must be NULL.
    /// NULL: workers.
    pub parallel: rz_parallel_callback,
    /// Handed to `parallel` as it is.
    pub parallel_user: *mut c_void,
    /// Runs on each thread of the library as it starts and as it ends; NULL: nothing does.
    pub on_thread: rz_thread_callback,
    /// Handed to `on_thread` as it is.
    pub on_thread_user: *mut c_void,
}

/// Makes a runtime and starts its workers; they sleep while there is no work.
///
/// `params` may be NULL. `*out` is freed with rz_runtime_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too many
/// threads, a processor that does not exist), RZ_ERR_UNSUPPORTED (`cpus` where the system binds no threads),
/// RZ_ERR_RESOURCES (the system gives no more threads), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0.
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

/// Frees the handle; NULL is fine. Models that were loaded with it keep the runtime alive; with the last of them the
/// workers end and are joined. Any thread. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_runtime_free(runtime: *mut rz_runtime) {
    guarded_or!((), |call| call.release(runtime))
}

/// Changes the number of threads that compute, from the next step on; 0: as for rz_runtime_params.threads. A step that
/// runs now keeps those it has. Results do not depend on it. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too many
/// threads), RZ_ERR_RESOURCES (the system gives no more threads; those there are stay), RZ_ERR_OUT_OF_MEMORY. Since
/// 0.1.0.
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

/// Changes the ceiling in bytes on weights and caches in host memory (rz_runtime_params.memory_limit); 0: none.
///
/// It may be less than what is in use, as when the system asks programs to use less: what is there stays, and calls
/// that need more fail with RZ_ERR_LIMIT until enough was freed, also steps that need more scratch memory.
/// rz_cache_release, rz_store_clear and the functions that free handles give memory back. Any thread, while other calls
/// run. Since 0.1.0.
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

/// The state of a runtime. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_runtime_info {
    /// sizeof(rz_runtime_info), set by the caller.
    pub struct_size: u32,
    /// Threads that compute from the next step on, the calling one among them; with rz_runtime_params.parallel the
    /// number of shares of a job.
    pub threads: u32,
    /// Threads for chat templates and grammars; 0 before the first load of a model with a tokenizer.
    pub template_threads: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of host memory that count against the ceiling now: weights, caches, scratch memory.
    pub memory_used: u64,
    /// The most that memory_used was since the runtime was made.
    pub memory_peak: u64,
    /// The ceiling; 0: none.
    pub memory_limit: u64,
}

/// Fills in `*out`, whose `struct_size` the caller has set. Any thread, while other calls run. Since 0.1.0.
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
