/* realizar: an embeddable LLM inference library (GGUF and safetensors models, CPU and GPU).
 *
 * A model is loaded from a file and immutable after that. A conversation holds the messages of a chat and streams the
 * replies of the model. This program answers each line that it reads:
 *
 *   #include <realizar.h>
 *   #include <stdio.h>
 *   #include <string.h>
 *
 *   static int32_t print(const char *text, size_t len, void *user) {
 *     (void)user;
 *     return fwrite(text, 1, len, stdout) < len || fflush(stdout) != 0;
 *   }
 *
 *   int main(int argc, char **argv) {
 *     rz_error err;
 *     rz_model *model = NULL;
 *     rz_conversation *chat = NULL;
 *     char line[1000];
 *     int failed = rz_model_load(argc > 1 ? argv[1] : "model.gguf", NULL, &model, &err) < 0 ||
 *                  rz_conversation_new(model, NULL, &chat, &err) < 0;
 *     while (!failed && fgets(line, sizeof line, stdin)) {
 *       line[strcspn(line, "\n")] = '\0';
 *       failed = rz_conversation_say(chat, line, NULL, print, NULL, &err) < 0;
 *       putchar('\n');
 *     }
 *     if (failed) fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
 *     rz_conversation_free(chat);
 *     rz_model_free(model);
 *     return failed;
 *   }
 *
 * A conversation keeps its tokens in an rz_cache: the KV cache of one text, with its tokens and the state of recurrent
 * layers. Programs that need more control use a cache directly: rz_prefill appends a prompt, rz_decode_token appends
 * one token and returns the next.
 *
 * Rules for every function:
 *
 * - Results. A function that can fail returns an rz_status: 0 is success, a positive number is progress, a negative
 *   number is failure. Its last argument is a caller-owned rz_error, or NULL. The library keeps no per-thread state.
 * - Failure. Results are written only on success, and a call that fails leaves its handles unchanged. Exceptions:
 *   RZ_ERR_BUFFER_TOO_SMALL writes the needed count; rz_generate_into keeps the tokens it generated before the failure
 *   (in the cache, in `out`, and counted in `*n`); a cancelled rz_conversation_say keeps the text generated so far.
 * - Arrays. An output of many values takes an array, its `capacity` and a pointer to the count (`*n`; `*len` for text).
 *   NULL with a capacity of 0 queries the count: the call returns RZ_OK, writes the count and changes nothing.
 *   rz_generate_into generates no token in this case.
 * - Threads. Any function may be called from any thread. Any number of calls may use a handle passed as const at once.
 *   A handle that is not const serves one call at a time; a second call gets RZ_ERR_BUSY at once. While the first call
 *   runs, calls that take the handle as const get RZ_ERR_BUSY too if their errors list it; functions that read state,
 *   such as rz_job_info_get and rz_conversation_json_into, always succeed.
 * - Ownership. The caller frees every handle that a function writes with the _free function of its type (rz_model_free
 *   for an rz_model); NULL is fine. Handles are reference-counted inside and may be freed in any order. Freeing the
 *   last handle ends the last thread of the library.
 * - Strings are UTF-8. A string passed with its length in bytes (`len`, `json_len`) needs no NUL; every other string,
 *   such as a path, a key, a role or a stop sequence, is NUL-terminated. Text in a caller's buffer has its length in
 *   `*len` and no NUL. Text in struct fields, and strings that a function returns, are NUL-terminated.
 * - Parameter structs begin with struct_size, which the caller sets to sizeof the struct; zero in every other field is
 *   the default. RZ_INIT(rz_model_params, params) declares such a struct, in C and C++. Later versions append fields.
 *   If a call sets a field or flag that the library is too old to know, it fails with RZ_ERR_VERSION.
 * - Result structs begin with struct_size too, which must be from 4 to 4096; their other fields may be uninitialized.
 *   Fields that the library does not know become zero.
 * - Times that the caller passes are in microseconds (us_from_now, budget_us): 0 means that no time is left,
 *   RZ_NO_LIMIT means no limit. Measured times are in nanoseconds (sum_ns), and 0 if nothing was measured.
 * - Structs without struct_size, such as rz_error and rz_part, never change.
 * - Constants are enumerators; fields have fixed-width integer types. g++ -Wextra warns in C++ if the two results of
 *   `?:` mix them, as in `ended ? info.end_reason : RZ_END_LENGTH`: write uint32_t(RZ_END_LENGTH) there.
 * - A freed handle, or a handle of another type, usually gives RZ_ERR_INVALID_ARGUMENT; programs must not rely on it.
 * - A result is never NaN or infinite. If weights are NaN, or so large that sums overflow, calls whose results depend
 *   on these weights fail with RZ_ERR_FORMAT. This applies to logits, tokens and values computed from logits,
 *   embeddings, reranking scores and rows of media. The message names the position of the token, the text or the row.
 *   Only the affected job or reply fails; a call for several caches fails as a whole.
 * - A damaged or hostile file gives a status and a message. Exceptions are documented where they apply: RZ_MODEL_MMAP,
 *   and pointers that do not point to what this header says. Damage means data that makes no sense, such as a count
 *   beyond the end of the file or weights that are not finite; other wrong weights are not detected.
 * - Side effects. The library prints nothing, reads no environment variable and sets no signal handler. It leaves no
 *   thread-local destructor behind, so a program can unload it (dlclose) after freeing all handles; a GPU driver may
 *   stay loaded.
 * - A call needs 64 KiB of stack.
 * - fork(). The child may use a model, and the objects made from it, if no other thread was using them at the time of
 *   the fork. Worker threads do not survive a fork, so calls in the child compute on the calling thread only. Only the
 *   parent can use GPUs.
 *
 * Scheduling: the workers of a runtime compute one step at a time. Concurrent calls of several threads, on one or
 * several models of a runtime, are served in the order of arrival. If another call waits, a step yields to that call
 * after a few milliseconds, between two chunks of work: a token never waits for the whole prompt of another caller. A
 * job step with a budget is served before other waiting calls, but never twice in a row while other calls wait.
 * Prefills of several threads advance in chunks, in turn. A waiting call checks its rz_cancel flags, deadline and
 * budget as often as a computing call, every few milliseconds. A runtime with one thread has no workers: no call waits,
 * and each call computes on its own thread. A call on a handle in use never waits; it gets RZ_ERR_BUSY. For the highest
 * throughput, one thread runs many requests with rz_jobs_step or rz_decode_batch (continuous batching), which read the
 * weights once for all of them. Concurrent calls do not share scratch memory. On the CPU, all of them together take up
 * to nine times the scratch memory of one step; it counts against rz_runtime_params.memory_limit. */

#ifndef REALIZAR_H
#define REALIZAR_H

#include <stddef.h>
#include <stdint.h>

/* Declares a struct of parameters or results: all zeros but struct_size. */
#ifdef __cplusplus
#define RZ_INIT(type, name) type name = {}; name.struct_size = sizeof(name)
#else
#define RZ_INIT(type, name) type name = {0}; name.struct_size = sizeof(name)
#endif

/* Marks the functions of the library. On Windows a program that is linked with the DLL may define RZ_SHARED before it
 * includes this header: its calls then go to the DLL directly. Without RZ_SHARED, calls work with the static library
 * and with the DLL, by way of the import library. */
#ifndef RZ_API
#if defined(_WIN32) && defined(RZ_SHARED)
#define RZ_API __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define RZ_API __attribute__((visibility("default")))
#else
#define RZ_API
#endif
#endif

/* The calling convention of functions and callbacks. */
#ifdef _WIN32
#define RZ_CALL __cdecl
#else
#define RZ_CALL
#endif

/* RZ_NULLABLE marks a pointer that may be NULL, RZ_NONNULL a pointer that must not be NULL. In this header a pointer
 * without a mark must not be NULL. Clang knows both marks and passes them on to Swift and Zig. */
#ifdef __clang__
#define RZ_NULLABLE _Nullable
#define RZ_NONNULL _Nonnull
#else
#define RZ_NULLABLE
#define RZ_NONNULL
#endif

/* Marks functions whose results in the caller's memory are only valid if the returned status says so, and functions
 * whose status says whether to call again. A program may define it as nothing before it includes this header. */
#ifndef RZ_WARN_UNUSED
#ifdef __GNUC__
#define RZ_WARN_UNUSED __attribute__((warn_unused_result))
#else
#define RZ_WARN_UNUSED
#endif
#endif

/* Marks functions that have a better successor, which `text` names. */
#if defined(__GNUC__)
#define RZ_DEPRECATED(text) __attribute__((deprecated(text)))
#elif defined(_MSC_VER)
#define RZ_DEPRECATED(text) __declspec(deprecated(text))
#else
#define RZ_DEPRECATED(text)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-extension"
#pragma clang diagnostic ignored "-Wnullability-completeness"
#pragma clang assume_nonnull begin
#endif

/* ------------------------------------------------------------------------------------------------
 * Status codes and errors
 * ------------------------------------------------------------------------------------------------ */

/* Explicit zero (none) for 32-bit fields whose value 0 means the default. Only fields whose comments name RZ_NONE
 * accept it. */
#define RZ_NONE 0xFFFFFFFFu

/* Result of a call: 0 is success, a positive number is progress, a negative number is failure. */
typedef int32_t rz_status;

/* Error record in caller-owned memory, which may be uninitialized (on the stack, for example). Its layout never
 * changes.
 *
 * Every function whose last argument is an `rz_error *` accepts NULL there. Otherwise it fills in the record on every
 * return: on success with the status, zeros and an empty message. Since 0.1.0. */
typedef struct rz_error {
  int32_t code;  /* Returned status. */
  /* `errno` of the failed system call, on Windows the value of GetLastError; 0 if there is none. */
  int32_t system_code;
  /* Sufficient capacity: for RZ_ERR_BUFFER_TOO_SMALL the size of the buffer, for RZ_ERR_CONTEXT_FULL the capacity of
   * the cache in tokens, not counting the reply; else 0. */
  uint64_t needed;
  /* Message: the reason, followed by the name of the file. UTF-8, NUL-terminated, without control characters. The
   * middle of a message that is too long is left out. */
  char message[496];
} rz_error;

enum rz_status_code {
  RZ_OK = 0,                         /* Success. */
  RZ_AGAIN = 1,                      /* Progress: call again for more. A reply may have no new part after a step. */
  RZ_DONE = 2,                       /* Completed: there is nothing more to come. */
  RZ_ERR_INVALID_ARGUMENT = -1,      /* An argument is NULL, out of range, not UTF-8, or otherwise never valid. */
  RZ_ERR_BUSY = -2,                  /* Another call is using the handle. */
  RZ_ERR_OUT_OF_MEMORY = -3,         /* Host memory is exhausted. */
  RZ_ERR_DEVICE_OUT_OF_MEMORY = -4,  /* Device memory is exhausted. */
  RZ_ERR_LIMIT = -5,                 /* The call would exceed a limit set by the caller, or a bound of this library. */
  RZ_ERR_IO = -6,                    /* A file could not be read or written. */
  RZ_ERR_FORMAT = -7,                /* A file is damaged, or the weights of a model make a result NaN or infinite. */
  RZ_ERR_UNSUPPORTED = -8,           /* The request is valid, but this library does not implement it. */
  RZ_ERR_VERSION = -9,               /* A field or a flag needs a newer library. */
  RZ_ERR_CANCELLED = -10,            /* An `rz_cancel` was fired, or a callback asked to stop. */
  RZ_ERR_DEADLINE = -11,             /* The deadline has passed. */
  RZ_ERR_CONTEXT_FULL = -12,         /* The tokens do not fit into the context window (the capacity of the cache). */
  RZ_ERR_BUFFER_TOO_SMALL = -13,     /* The buffer is too small; the needed count was written. */
  RZ_ERR_DEVICE_UNAVAILABLE = -14,   /* The device cannot be used; the message says why. */
  /* The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable, including its layers
   * on other devices. The CPU and other models continue to work, on the same device too, because each model has its own
   * context. According to NVIDIA's documentation some kernel faults, such as error 700 (illegal address), make CUDA
   * unusable in the whole process: then every model on a GPU returns this status, and only a new process can use the
   * devices again. */
  RZ_ERR_DEVICE_LOST = -15,
  RZ_ERR_MISMATCH = -16,  /* One call combines objects of different models. */
  RZ_ERR_PANIC = -17,     /* Caught bug of this library. Please report the message. */
  /* An earlier call on this handle ended with RZ_ERR_PANIC, whose message this error repeats. Free the handle. */
  RZ_ERR_POISONED = -18,
  /* Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the last entry. */
  RZ_ERR_NOT_FOUND = -19,
  /* Another call must come first: there are no logits before a prefill, and no rows of media before their encoding is
   * done. */
  RZ_ERR_NOT_READY = -20,
  /* The system cannot create a thread or another resource; the same call may succeed later. */
  RZ_ERR_RESOURCES = -21,
};

/* ------------------------------------------------------------------------------------------------
 * Version
 * ------------------------------------------------------------------------------------------------ */

#define RZ_VERSION_MAJOR 0  /* The major version of this header. */
#define RZ_VERSION_MINOR 1  /* The minor version of this header. */
#define RZ_VERSION_PATCH 0  /* The patch version of this header. */
/* 1,000,000 times the major, 1,000 times the minor, and the patch version of this header. */
#define RZ_VERSION_NUMBER 1000

/* Version of the interface, also part of the library's SONAME. It grows with every change that a program built against
 * an older header could notice. A program that loads the library at run time checks it first: rz_abi_version() ==
 * RZ_ABI_VERSION. New functions do not change it: a program that also runs with older libraries looks a new function
 * up with dlsym, or compares rz_version(). */
#define RZ_ABI_VERSION 1

enum rz_feature {
  RZ_FEATURE_GPU = 1,  /* Bit of rz_features: the library contains CUDA kernels, for NVIDIA GPUs. */
  /* Bit of rz_features: the library decodes PNG, JPEG, WebP and GIF files; without it only BMP files. */
  RZ_FEATURE_IMAGES = 2,
  /* Bit of rz_features: the library decodes MP3, FLAC and Ogg Vorbis files; without it only WAV files. */
  RZ_FEATURE_SOUNDS = 4,
  /* Bit of rz_features: the library starts threads; without it all work runs on the calling thread. */
  RZ_FEATURE_THREADS = 8,
  /* Bit of rz_features: the library contains the wgpu backend, for GPUs with Vulkan, Metal or DX12. */
  RZ_FEATURE_WGPU = 16,
};

/* Returns RZ_ABI_VERSION of the header that the library was built with. A program can use a library only if this
 * function returns the RZ_ABI_VERSION of the header that the program was built with. Any thread. Since 0.1.0. */
RZ_API uint32_t RZ_CALL
rz_abi_version(void);

/* Returns the version of the library, such as "0.1.0"; RZ_VERSION_MAJOR, RZ_VERSION_MINOR and RZ_VERSION_PATCH are the
 * version of the header. The string is static. Any thread. Since 0.1.0. */
RZ_API const char *RZ_CALL
rz_version(void);

/* Returns the version of the library as a number in the form of RZ_VERSION_NUMBER: 1,000,000 times the major, 1,000
 * times the minor and the patch version. 0.1.0 is 1000; a newer version has a greater number. Any thread. Since
 * 0.1.0. */
RZ_API uint32_t RZ_CALL
rz_version_number(void);

/* Returns the features of this build: RZ_FEATURE_... combined with |. rz_device_info_get tells whether a device is
 * usable. Any thread. Since 0.1.0. */
RZ_API uint32_t RZ_CALL
rz_features(void);

/* Returns the name of a status, such as "RZ_ERR_FORMAT". The string is static; for an unknown number it is
 * "RZ_UNKNOWN", never NULL. Any thread. Since 0.1.0. */
RZ_API const char *RZ_CALL
rz_status_name(rz_status status);

/* ------------------------------------------------------------------------------------------------
 * Memory allocation
 * ------------------------------------------------------------------------------------------------ */

/* Returns `size` bytes (never 0) aligned to `align` (a power of two), or NULL if there is no memory. Several threads
 * may call it at once. The callback must not call the library and must return normally: no longjmp, no C++
 * exception. */
typedef void *RZ_NULLABLE (RZ_CALL *rz_alloc_callback)(size_t size, size_t align, void *RZ_NULLABLE user);

/* Frees memory from rz_alloc_callback, with the same size and alignment. Several threads may call it at once. The
 * callback must not call the library and must return normally: no longjmp, no C++ exception. */
typedef void (RZ_CALL *rz_free_callback)(void *ptr, size_t size, size_t align, void *RZ_NULLABLE user);

/* An allocator. Since 0.1.0. */
typedef struct rz_allocator {
  uint32_t struct_size;                 /* sizeof(rz_allocator). */
  uint32_t reserved;                    /* 0. */
  rz_alloc_callback RZ_NULLABLE alloc;  /* Allocates memory. */
  rz_free_callback RZ_NULLABLE free;    /* Frees memory. */
  void *RZ_NULLABLE user;               /* Passed to both callbacks; valid as long as the library is loaded. */
} rz_allocator;

/* Sets the allocator for all memory of the library: the heap, weights, KV caches and scratch memory. The call must
 * come before any other call except rz_abi_version, rz_version, rz_status_name and rz_layout_get; a repeated call with
 * the same values changes nothing.
 *
 * Without a custom allocator the library uses malloc, and for large blocks anonymous mappings, whose pages use no
 * memory until they are touched. With a custom allocator the library fills large blocks with zeros. The allocator does
 * not serve thread stacks, mapped files (RZ_MODEL_MMAP), the C library and the GPU driver.
 *
 * If the allocator returns NULL or a misaligned pointer, the call fails with RZ_ERR_OUT_OF_MEMORY. The first call
 * reserves about 256 KiB, so that a call that runs out of memory can clean up; freeing the last handle frees this
 * reserve. Work that cannot stop midway first reserves a larger block per thread, which it uses only if memory runs
 * out and frees afterwards: 8 MiB to tokenize a text or to render a chat template, 16 MiB to sample with a grammar, 64
 * MiB to compile a grammar. Any thread. Errors: RZ_ERR_BUSY (after another call), RZ_ERR_INVALID_ARGUMENT (also if
 * another allocator is set), RZ_ERR_OUT_OF_MEMORY (`alloc` cannot provide the first reserve, or misaligns it; the call
 * then sets no allocator). Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_allocator_set(const rz_allocator *allocator, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------ */

enum rz_device_kind {
  RZ_DEVICE_CPU = 1,  /* `rz_device_info.kind`: the processors of the host. */
  RZ_DEVICE_GPU = 2,  /* `rz_device_info.kind`: a GPU. */
};

/* A device. Since 0.1.0. */
typedef struct rz_device_info {
  uint32_t struct_size;  /* sizeof(rz_device_info), set by the caller. */
  uint32_t index;        /* Index of the device; it may differ between processes. */
  /* Identifier, equal in every process on this machine: "cpu", or the UUID of a GPU, such as
   * "8d4f7a0e-2c31-4b7e-9d55-0f6e1a2b3c4d", which NVIDIA's tools print after "GPU-" or "MIG-"; empty if unknown. Two
   * GPUs of the same model have different ids. */
  char id[64];
  char name[64];          /* Name, such as "cuda:0 NVIDIA H200". */
  uint32_t kind;          /* RZ_DEVICE_CPU or RZ_DEVICE_GPU. */
  uint32_t available;     /* 1 if models can be loaded onto the device, else 0. */
  char isa[32];           /* Instruction set or compute capability, such as "avx512vnni" or "sm_90". */
  uint64_t memory_total;  /* Total memory in bytes; 0 if unknown. */
  uint64_t memory_free;   /* Free memory in bytes; 0 if unknown. */
  char unavailable[256];  /* Reason why the device cannot be used; empty if it can. */
} rz_device_info;

/* Returns the number of devices, including unavailable ones. Their indices run from 1 to this number; 1 is always the
 * CPU. Wherever a device is asked for, 0 means "choose for me", as rz_model_params.device explains. Any thread. Since
 * 0.1.0. */
RZ_API uint32_t RZ_CALL
rz_device_count(void);

/* Describes device `index`; index 0 is the CPU here, because an automatic choice depends on the model (see
 * rz_model_info.device).
 *
 * The caller sets `out->struct_size`. Devices that cannot be used are described too, with the reason: for example, a
 * missing driver, or a self-test whose results differed from the CPU. Any thread. Errors: RZ_ERR_NOT_FOUND for an
 * index beyond rz_device_count(). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_device_info_get(uint32_t index, rz_device_info *out, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Runtime: thread pool, log, memory ceiling
 * ------------------------------------------------------------------------------------------------ */

enum rz_log_level {
  RZ_LOG_ERROR = 1,    /* Log level: a call failed with RZ_ERR_PANIC or RZ_ERR_DEVICE_LOST. */
  RZ_LOG_WARNING = 2,  /* Log level: something is worse than the caller may expect. */
  RZ_LOG_INFO = 3,     /* Log level: description of a model and where it was loaded. */
};

enum rz_thread_kind {
  RZ_THREAD_COMPUTE = 1,  /* Thread role: computes tokens. */
  /* Thread role: reads, packs or hashes weights. The thread ends with the call: a load, or, for a model with mapped
   * weights, the first rz_cache_save, rz_conversation_save or use of an rz_store. */
  RZ_THREAD_LOAD = 2,
  RZ_THREAD_TEMPLATE = 3,  /* Thread role: renders chat templates and compiles grammars. */
  RZ_THREAD_STORE = 4,     /* Thread role: writes the files of an rz_store. */
};

/* Thread pool, log and memory limit, shared by the models that are loaded with it. Any number of threads may use a
 * runtime at once. Only rz_runtime_threads_set and rz_runtime_memory_limit_set change it. A model that is loaded
 * without a runtime gets its own, with defaults. */
typedef struct rz_runtime rz_runtime;

/* Receives a log message: UTF-8 of `len` bytes, not NUL-terminated, valid during the call only. Several threads may
 * call it at once. The callback may call the library; a call on a handle in use gets RZ_ERR_BUSY. It must return
 * normally: no longjmp, no C++ exception. */
typedef void (RZ_CALL *rz_log_callback)(int32_t level, const char *message, size_t len, void *RZ_NULLABLE user);

/* Computes chunk `i` of a step; `i` is less than the `n` of rz_parallel_callback, which also passes `context`. The
 * host calls it, from any thread. */
typedef void (RZ_CALL *rz_chunk_callback)(uint32_t i, void *context);

/* Calls `chunk(i, context)` exactly once for each i less than `n`, in any order, with any number of calls at once, on
 * any threads (a single thread and the calling thread included), and returns after all calls have returned. Returns 0
 * on success and another number on failure. If the callback fails, or returns before all calls of `chunk` have
 * returned, the library call fails with RZ_ERR_INVALID_ARGUMENT. The library invokes the callback on threads that call
 * the library, hundreds of times per token, and never twice at once for the same runtime. If all threads of the host
 * may be waiting in library calls, the calling thread must compute chunks too. The callback must return normally: no
 * longjmp, no C++ exception.
 *
 * Schedulers often run other tasks on a thread that waits. Such a task must not compute with the same runtime, because
 * it would wait for itself: rz_prefill, rz_decode_token, rz_job_step and all other calls that need the workers get
 * RZ_ERR_BUSY at once. It may use another runtime, and create and free handles. */
typedef int32_t (RZ_CALL *rz_parallel_callback)(uint32_t n,
                                                rz_chunk_callback chunk,
                                                void *context,
                                                void *RZ_NULLABLE user);

/* Runs on each thread that the library starts for the runtime: with `starts` 1 as the first action of the thread, and
 * with 0 as the last. `role` is RZ_THREAD_..., `index` the number of the thread within its role: from 1 for
 * RZ_THREAD_COMPUTE (0 is the calling thread), from 0 for the other roles. The callback does not run on threads of the
 * host, nor on threads in a child made with fork().
 *
 * The callback allows hosts to attach threads to a virtual machine or a profiler, and to set the name, priority or
 * processors of threads. All signals are blocked on these threads. Threads end within rz_runtime_threads_set, within a
 * load, within the first save or the first use of an rz_store of a model with mapped weights, and within the
 * rz_..._free that frees the last handle of the runtime. These calls return after the callback has run and the thread
 * was joined. Several threads may call it at once. It must not call the library and must return normally: no longjmp,
 * no C++ exception. */
typedef void (RZ_CALL *rz_thread_callback)(uint32_t role, uint32_t index, int32_t starts, void *RZ_NULLABLE user);

/* Parameters of an rz_runtime. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_runtime_params {
  uint32_t struct_size;  /* sizeof(rz_runtime_params). */
  /* Number of compute threads: the calling thread and `threads` - 1 workers; 1 creates no worker. 0: one per
   * processor that the process may use (hardware threads of a core count separately), or one per fast core if cores
   * differ. At most 1024.
   *
   * The first load of a model with a tokenizer starts one to four further threads, depending on `threads`. They
   * render chat templates and compile grammars, one call per thread in the order of arrival, and sleep otherwise;
   * each has a stack of 64 MiB, most of which is never touched. If the system cannot create any of them, the load
   * fails with RZ_ERR_RESOURCES. Later, threads are started only by rz_runtime_threads_set, rz_store_new with a
   * folder, loads, and, for a model with mapped weights, the first save or the first use of an rz_store. The threads
   * of loads, saves and this first use end with the call; a runtime with one thread starts no such threads. In a
   * child made with fork(), which has none of these threads, a call with a template or a grammar starts a thread for
   * itself, or fails with RZ_ERR_RESOURCES. */
  uint32_t threads;
  /* Maximum bytes of host memory for weights, KV caches and scratch memory (GPU memory does not count); 0: no limit.
   * Calls that would exceed the limit fail with RZ_ERR_LIMIT: a load, a new cache, a first step.
   * rz_runtime_memory_limit_set changes it. */
  uint64_t memory_limit;
  /* Processors (as the system numbers them) to which the workers are pinned, each worker to one processor, round
   * robin; NULL: workers are not pinned. Copied. The calling thread is never pinned. */
  const uint32_t *RZ_NULLABLE cpus;
  size_t n_cpus;  /* Number of `cpus`. */
  /* Receives log messages until the last handle that uses the runtime is freed; NULL: no log. */
  rz_log_callback RZ_NULLABLE log;
  void *RZ_NULLABLE log_user;  /* Passed to `log`. */
  /* Runs the computation on the host's threads instead of workers. The library then starts no workers, only one
   * thread for chat templates and grammars. `threads` is the maximum number of chunks of a call, and `cpus` must be
   * NULL. NULL: workers. */
  rz_parallel_callback RZ_NULLABLE parallel;
  void *RZ_NULLABLE parallel_user;  /* Passed to `parallel`. */
  /* Runs on each thread of the library when it starts and ends; NULL: no callback. */
  rz_thread_callback RZ_NULLABLE on_thread;
  void *RZ_NULLABLE on_thread_user;  /* Passed to `on_thread`. */
} rz_runtime_params;

/* State of a runtime. Since 0.1.0. */
typedef struct rz_runtime_info {
  uint32_t struct_size;  /* sizeof(rz_runtime_info), set by the caller. */
  /* Number of compute threads from the next step on, including the calling thread; with rz_runtime_params.parallel
   * the maximum number of chunks of a call. */
  uint32_t threads;
  /* Number of threads for chat templates and grammars; 0 before the first load of a model with a tokenizer. */
  uint32_t template_threads;
  uint32_t reserved;  /* 0. */
  /* Bytes of host memory that count against the limit now: weights, KV caches, scratch memory. */
  uint64_t memory_used;
  uint64_t memory_peak;   /* Peak of memory_used since the runtime was created. */
  uint64_t memory_limit;  /* Memory limit in bytes; 0: no limit. */
} rz_runtime_info;

/* Creates a runtime and starts its workers, which sleep while there is no work.
 *
 * `params` may be NULL. The caller frees `*out` with rz_runtime_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too
 * many threads, a processor that does not exist), RZ_ERR_UNSUPPORTED (`cpus` on a system that cannot pin threads),
 * RZ_ERR_RESOURCES (the system cannot create the threads), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_runtime_new(const rz_runtime_params *RZ_NULLABLE params, rz_runtime **out, rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Models loaded with the runtime keep it alive; freeing the last of these models ends
 * and joins the workers. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_runtime_free(rz_runtime *RZ_NULLABLE runtime);

/* Changes the number of compute threads from the next step on; 0 as in rz_runtime_params.threads. A running step keeps
 * its threads. Results do not depend on the number of threads. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too many
 * threads), RZ_ERR_RESOURCES (the system cannot create more threads; the existing ones stay), RZ_ERR_OUT_OF_MEMORY.
 * Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_runtime_threads_set(rz_runtime *runtime, uint32_t threads, rz_error *RZ_NULLABLE err);

/* Changes the limit on host memory, in bytes (rz_runtime_params.memory_limit); 0: no limit.
 *
 * The limit may be below the memory in use, for example when the system asks programs to use less memory: allocations
 * stay, and calls that need more memory, including steps that need more scratch memory, fail with RZ_ERR_LIMIT until
 * enough was freed. rz_cache_release, rz_store_clear and the functions that free handles free memory. Any thread, also
 * while other calls run. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_runtime_memory_limit_set(rz_runtime *runtime, uint64_t memory_limit, rz_error *RZ_NULLABLE err);

/* Fills in `*out`, whose `struct_size` the caller has set. Any thread, also while other calls run. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_runtime_info_get(const rz_runtime *runtime, rz_runtime_info *out, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Cancellation and deadlines
 * ------------------------------------------------------------------------------------------------ */

/* No limit, for times in microseconds: rz_cancel_deadline and every step with a budget. 0 means that no time is
 * left. */
#define RZ_NO_LIMIT 0xFFFFFFFFFFFFFFFFu

/* Cancellation flag: stops the calls that it is passed to, and every call on the caches that it is set for
 * (rz_cache_cancel_set). Any thread may fire and reset it while calls use it. */
typedef struct rz_cancel rz_cancel;

/* Creates a flag that is not fired. The caller frees `*out` with rz_cancel_free. Any thread. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cancel_new(rz_cancel **out, rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread, except while another thread fires it. Since 0.1.0. */
RZ_API void RZ_CALL
rz_cancel_free(rz_cancel *RZ_NULLABLE cancel);

/* Cancels the calls that use `cancel`. They stop generation and return RZ_ERR_CANCELLED: on a CPU within milliseconds,
 * whether they compute or wait for their turn (exception: rz_media_from_image); on a GPU after the queued step, which
 * is one token or a prefill chunk of at most 512 tokens. Later calls fail at once, until rz_cancel_reset. NULL is
 * fine. Any thread, also from a signal handler. Since 0.1.0. */
RZ_API void RZ_CALL
rz_cancel_fire(rz_cancel *RZ_NULLABLE cancel);

/* Sets a deadline: `cancel` fires by itself `us_from_now` microseconds from now; 0 fires at once. Once the deadline
 * has passed, calls return RZ_ERR_DEADLINE. RZ_NO_LIMIT removes the deadline, and so does rz_cancel_reset. No timer
 * thread is involved: calls check the clock whenever they check the flag. Any thread. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cancel_deadline(rz_cancel *cancel, uint64_t us_from_now, rz_error *RZ_NULLABLE err);

/* Resets a fired flag and removes its deadline. NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_cancel_reset(rz_cancel *RZ_NULLABLE cancel);

/* Returns 1 if `cancel` was fired or its deadline has passed, and it was not reset since; else 0, also for NULL. Any
 * thread, also from a signal handler. Since 0.1.0. */
RZ_API int32_t RZ_CALL
rz_cancel_is_fired(const rz_cancel *RZ_NULLABLE cancel);

/* ------------------------------------------------------------------------------------------------
 * Element types
 * ------------------------------------------------------------------------------------------------ */

enum rz_element_type {
  /* In a field that takes an element type: the default, or none, as the comment of the field says.
   *
   * All element types share one numbering. It is GGML's, except for RZ_TYPE_F32 and for types that GGML does not have,
   * which are numbered from 256; RZ_TYPE_PQ2_0 and RZ_TYPE_PTQ1_0 have PrismML's numbers. The comment of each field
   * says which types it takes; any other type fails with RZ_ERR_INVALID_ARGUMENT, and the message names the type. */
  RZ_TYPE_DEFAULT = 0,
  RZ_TYPE_F32 = 256,      /* Element type: single precision. GGML's number for it, 0, is RZ_TYPE_DEFAULT here. */
  RZ_TYPE_F16 = 1,        /* Element type: half precision. */
  RZ_TYPE_BF16 = 30,      /* Element type: bfloat16. */
  RZ_TYPE_F8_E4M3 = 257,  /* Element type: 8-bit floats E4M3 (OCP); GGML has no such type. */
  RZ_TYPE_Q4_0 = 2,       /* Element type: blocks of 32 values with 4 bits each and a scale, 4.5 bits per value. */
  /* Element type: blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value. */
  RZ_TYPE_Q4_1 = 3,
  RZ_TYPE_Q5_0 = 6,  /* Element type: blocks of 32 values with 5 bits each and a scale, 5.5 bits per value. */
  /* Element type: blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value. */
  RZ_TYPE_Q5_1 = 7,
  RZ_TYPE_Q8_0 = 8,  /* Element type: blocks of 32 values with 8 bits each and a scale, 8.5 bits per value. */
  /* Element type: K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a
   * minimum; the digit is the number of bits per value. */
  RZ_TYPE_Q2_K = 10,
  RZ_TYPE_Q3_K = 11,
  RZ_TYPE_Q4_K = 12,
  RZ_TYPE_Q5_K = 13,
  RZ_TYPE_Q6_K = 14,
  /* Element type: I-quants: blocks of 256 values as entries of fixed grids; the digit is the approximate number of bits
   * per value. */
  RZ_TYPE_IQ1_S = 19,
  RZ_TYPE_IQ1_M = 29,
  RZ_TYPE_IQ2_XXS = 16,
  RZ_TYPE_IQ2_XS = 17,
  RZ_TYPE_IQ2_S = 22,
  RZ_TYPE_IQ3_XXS = 18,
  RZ_TYPE_IQ3_S = 21,
  /* Element type: blocks of 32 values with a scale; each value is a 4-bit index into a table of 16 numbers. */
  RZ_TYPE_IQ4_NL = 20,
  RZ_TYPE_IQ4_XS = 23,  /* Element type: as RZ_TYPE_IQ4_NL, in blocks of 256 values. */
  RZ_TYPE_TQ1_0 = 34,   /* Element type: blocks of 256 ternary values with a scale. */
  RZ_TYPE_TQ2_0 = 35,
  RZ_TYPE_MXFP4 = 39,  /* Element type: blocks of 32 4-bit floats with a power of two as scale (OCP microscaling). */
  RZ_TYPE_NVFP4 = 40,  /* Element type: blocks of 64 4-bit floats with an 8-bit scale for each 16 values. */
  RZ_TYPE_Q1_0 = 41,   /* Element type: blocks of 128 signs with a scale. */
  RZ_TYPE_Q2_0 = 42,   /* Element type: blocks of 64 values with 2 bits each and a scale. */
  /* Element type of PrismML's files: blocks of 128 values that share a scale; a value has 2 bits (PQ2_0) or is ternary
   * (PTQ1_0). */
  RZ_TYPE_PQ2_0 = 142,
  RZ_TYPE_PTQ1_0 = 143,
};

/* ------------------------------------------------------------------------------------------------
 * Expert offload
 * ------------------------------------------------------------------------------------------------ */

enum rz_placed {
  RZ_PLACED_EXPERTS = 1,  /* `rz_placement.what`: the experts of mixture-of-experts layers (MoE). */
};

enum rz_place {
  /* `rz_placement.place`: the experts of the last layers are on GPUs, as many layers as fit in addition to everything
   * else, including a cache of default capacity. The experts of the other layers are on the CPU. */
  RZ_PLACE_AUTO = 0,
  RZ_PLACE_CPU = 1,  /* `rz_placement.place`: on the CPU. */
  /* `rz_placement.place`: the experts of the last layers are on GPUs, for as many layers as possible while these
   * experts take at most `bytes` in total. The experts of the other layers are on the CPU. */
  RZ_PLACE_GPU = 2,
};

/* Part of a model and its place (rz_model_params.placements). Since 0.1.0.
 *
 * For a layer whose experts are on the CPU, the GPU computes attention, router and shared expert, the CPU computes the
 * chosen experts, and the GPU adds their sum. The GPUs then need memory only for the weights that every token uses, so
 * the model can be several times as large as the GPUs' memory. */
typedef struct rz_placement {
  uint32_t struct_size;  /* sizeof(rz_placement), the same in all elements of an array. */
  uint32_t what;         /* RZ_PLACED_..., a different one in each element of the array. */
  uint32_t place;        /* RZ_PLACE_... */
  /* With RZ_PLACE_CPU: first layer that the placement applies to, from 0. With another `place`: 0. */
  uint32_t first_layer;
  /* With RZ_PLACE_CPU: number of MoE layers, from `first_layer` on, that the placement applies to; 0: all of them.
   * For a model with experts in all layers, 16 is llama.cpp's --n-cpu-moe 16. With another `place`: 0. */
  uint32_t n_layers;
  uint32_t reserved;  /* 0. */
  /* With RZ_PLACE_GPU: maximum bytes of experts on all GPUs together, not 0. With another `place`: 0. */
  uint64_t bytes;
} rz_placement;

/* ------------------------------------------------------------------------------------------------
 * Models
 * ------------------------------------------------------------------------------------------------ */

enum rz_model_flag {
  /* Load flag: deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was
   * split into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs speed,
   * mostly in prefill. Results still differ between devices, and depend on the number of layers on each device. */
  RZ_MODEL_DETERMINISTIC = 1,
  /* Load flag: map the weights (mmap) and use them in place instead of reading them into memory. The load is immediate
   * and takes no memory, but token generation is several times slower, because weights are repacked for each token.
   * With rz_model_params.packed_path, loads after the first one are short too, and token generation is not slower. If
   * another program truncates the mapped file while it is in use, the process dies of SIGBUS; therefore the flag is
   * never a default. */
  RZ_MODEL_MMAP = 2,
  /* Load flag: metadata, tokenizer and chat template only. The file needs no weights, and no cache can be created. */
  RZ_MODEL_TEXT_ONLY = 4,
  /* Load flag: measure the parts of each step on a GPU, for rz_metrics_get. Steps take longer, and no step begins
   * before the previous one has ended. */
  RZ_MODEL_PROFILE = 8,
  /* Load flag: also load the multi-token prediction (MTP) head (arXiv 2412.19437, section 2.2), for speculative
   * decoding by jobs with RZ_DRAFT_MTP. If the file has several heads, only the first is loaded. Its weights count as
   * weights of the model, prefill computes all positions of the last layer, and saved caches are not interchangeable
   * with saved caches of a model without the flag. With several devices the head is on the last device.
   * RZ_ERR_UNSUPPORTED for a file without MTP heads, or for an architecture whose heads are not supported. Supported
   * models: GLM 4.5 to 4.7, DeepSeek V3 and its derivatives, Qwen 3.5, Qwen 3 Next, and Hunyuan 3 in GGUF files. */
  RZ_MODEL_MTP = 16,
  /* Load flag: ignore unknown keys in the model's configuration or metadata and unknown tensors, instead of
   * RZ_ERR_UNSUPPORTED. The log has a warning for the first ignored item, and rz_model_info.n_unknown has the number of
   * ignored items. Results are only correct if the ignored items do not matter. A known key with an unsupported value
   * is still rejected. */
  RZ_MODEL_ALLOW_UNKNOWN = 32,
  /* Load flag: computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with
   * AMX-BF16. The first load with the flag in a process times a matrix product; the flag takes effect only if BF16 is
   * faster than the default arithmetic with exact integer sums. In this case rz_model_info.isa is "amx-bf16";
   * otherwise, and for layers on GPUs, the flag has no effect.
   *
   * Prefill takes less time, because a tile of weights is rounded once for hundreds of tokens, and sums need no
   * scaling. The cost: weights of all types but F32, and the activations that they are multiplied with, have eight
   * significant bits, so results differ from results without the flag and from results on other processors. Results
   * still depend neither on threads, nor on prompt chunks, nor on other sequences of a batch. Decode, on the other
   * hand, takes more work: it is slower with few threads, and equally fast if memory bandwidth is the limit. Saved
   * caches are not interchangeable with saved caches of a model with exact sums. The load asks the system for
   * permission to use AMX, which makes signal frames 8 KiB larger; if a thread has an alternative signal stack that is
   * too small for them, the system refuses and the flag has no effect. */
  RZ_MODEL_BF16_PRODUCTS = 64,
};

enum rz_limit {
  RZ_DEVICES_MAX = 16,  /* Maximum number of GPUs of one model. */
};

#define RZ_TOKEN_NONE 0xFFFFFFFFu  /* Instead of a token id: the model defines no such token. */

enum rz_sampling_flag {
  RZ_SAMPLING_TEMPERATURE = 1,  /* Bits of rz_model_sampling.advised: the model's authors recommend the field. */
  RZ_SAMPLING_TOP_K = 2,
  RZ_SAMPLING_TOP_P = 4,
  RZ_SAMPLING_MIN_P = 8,
  RZ_SAMPLING_REPEAT_PENALTY = 16,
  RZ_SAMPLING_PENALTY_WINDOW = 32,
};

/* Weights, tokenizer and metadata of one model. Immutable after the load: any number of threads, caches and text
 * streams may use it at once. Reference-counted: it may be freed before the objects that use it. */
typedef struct rz_model rz_model;

/* Receives the progress of a load in bytes. A non-zero result stops the load with RZ_ERR_CANCELLED. Runs on the
 * loading thread, during the call. It may call the library. It must return normally: no longjmp, no C++ exception. */
typedef int32_t (RZ_CALL *rz_progress_callback)(uint64_t done, uint64_t total, void *RZ_NULLABLE user);

/* Parameters of a load. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_model_params {
  uint32_t struct_size;  /* sizeof(rz_model_params). */
  /* Index of a device; 0: automatic choice, which rz_model_info.device reports. The automatic choice is the CPU,
   * unless the whole model and a cache of default capacity fit on a GPU, and the GPU would generate tokens faster.
   * To estimate that, the library measures the memory bandwidth of both once per process (tens of milliseconds), and
   * halves the bandwidth of the GPU to be safe. If the model does not fit on one GPU, all GPUs together count as
   * one. The choice never considers a GPU for weights below 256 MiB, for a model without logits, or with
   * `packed_path`, `gpu_layers`, `placements` or RZ_MODEL_MMAP. It skips a GPU that fails. Layers without GPU
   * kernels stay on the CPU. Any GPU, named or chosen, is self-tested first: each kind of operation that the model
   * needs runs on the GPU and on the CPU, once per process (see `tested_path`), within milliseconds. If a result
   * differs, the device is unavailable from then on: loads fail with RZ_ERR_DEVICE_UNAVAILABLE and a message that
   * names the operation. */
  uint32_t device;
  /* Runtime to use; NULL: a new one. The caller may free its handle after the load. */
  const rz_runtime *RZ_NULLABLE runtime;
  uint32_t flags;  /* RZ_MODEL_... flags, combined with |. */
  /* Number of layers to offload to GPUs, if `device` is a GPU or `devices` are set: the last layers, together with
   * the output matrix. The CPU computes the other layers and holds their part of each KV cache. 0: as many layers as
   * fit into the free memory of the devices, in addition to a cache of default capacity and the scratch memory of a
   * step. A number above the layer count means all layers. RZ_NONE: none; the whole model is on the CPU, whatever
   * `device` and `devices` are. */
  uint32_t gpu_layers;
  /* Element type to which float matrices are quantized during the load: RZ_TYPE_F32, _F16, _BF16, _Q4_0, _Q4_1,
   * _Q5_0, _Q5_1, _Q8_0, _Q4_K, _Q5_K or _Q6_K; RZ_TYPE_DEFAULT: the matrices keep the types of the file. */
  uint32_t quantize;
  /* Maximum number of prompt tokens that a batch step of rz_jobs_step or rz_conversations_step computes together
   * with tokens of jobs that are past their prompt (mixed prefill and decode); 0: 64. A larger number shortens the
   * time to first token of new requests and lengthens the inter-token latency of all other requests, because a step
   * with more tokens takes longer. The limit never exceeds the size of a step, and does not apply to steps that have
   * only prompt tokens. On a CPU results do not depend on it. */
  uint32_t mixed_prefill_tokens;
  rz_progress_callback RZ_NULLABLE progress;  /* Load progress callback; may be NULL. */
  void *RZ_NULLABLE progress_user;            /* Passed to `progress`. */
  const rz_cancel *RZ_NULLABLE cancel;        /* Cancels the load when fired; may be NULL. */
  /* Path of a file for packed weights, NUL-terminated; NULL: weights are packed into memory.
   *
   * The first load packs the weights, which takes their size in memory, and writes the file, which takes the same
   * size on the disk. Later loads map the file instead of packing. Each load reads the whole file once, on all
   * threads, to verify its checksum; a damaged file is replaced. Processes share one copy in memory, which the
   * system may evict and read again; token generation is as fast as without the file. The library replaces a file
   * that was made from another model, from another version of this model or by another release of the library, and a
   * file that was truncated or is all zeros. Any other file is left unchanged, and the load fails with
   * RZ_ERR_FORMAT. A file that cannot be read or written does not fail the load: the weights are in memory then, and
   * the log has the reason. Processes and containers may share the folder: each process writes under a temporary
   * name and renames the complete file. Models are identified by the sizes and times of their files, and by three
   * rows of each matrix. If another process changes or truncates the file while it is in use, this process may die.
   * With layers on GPUs the file holds only the layers and experts on the host (`placements`). The library replaces
   * the file if a load puts other layers or experts on the host, and neither reads nor writes the file if a load
   * puts none there. A load with both this file and RZ_MODEL_MMAP fails with RZ_ERR_INVALID_ARGUMENT. Since 0.1.0. */
  const char *RZ_NULLABLE packed_path;
  /* Indices of `n_devices` different GPUs over which the layers are split in this order; NULL: only `device` counts.
   * With `devices`, `device` must be 0. Copied.
   *
   * If `gpu_layers` or the free memory does not allow all layers on GPUs, the first layers are on the CPU. The next
   * layers are on the first GPU, and so on; the last GPU has the output matrix. Each part of a KV cache is where its
   * layers are. The GPUs work one after the other, so several GPUs hold a larger model but are not faster than one.
   * Activations pass directly between devices that can access each other's memory, otherwise through page-locked
   * host memory. If one device fails, the model loses all of them. Since 0.1.0. */
  const uint32_t *RZ_NULLABLE devices;
  size_t n_devices;  /* Number of `devices`, at most RZ_DEVICES_MAX. */
  /* Relative sizes of the parts of `devices`: `n_devices` positive numbers; NULL: in proportion to free memory, and
   * a device that is not needed gets no layers. With a split each device gets layers. If that is impossible, the
   * load fails with RZ_ERR_UNSUPPORTED, and the message says why: too few layers, or layers that share their KV
   * cache. Copied. */
  const float *RZ_NULLABLE device_split;
  /* Expert offload: parts of the model on another device than their layers, `n_placements` elements; NULL: every
   * part is on the device of its layer. Copied.
   *
   * Layers on the CPU (the first ones, by `gpu_layers`) always have their experts on the CPU. With `placements` and
   * without `devices`, `device` 0 does not choose a device: it means the CPU, as 1 does. Errors, before weights are
   * read: RZ_ERR_INVALID_ARGUMENT for layers that the model does not have, for fewer MoE layers than
   * rz_placement.n_layers, and for RZ_PLACE_GPU without a named GPU; RZ_ERR_LIMIT if the memory limit of the runtime
   * is too low. With experts on the CPU, each step begins after the previous step has ended. */
  const rz_placement *RZ_NULLABLE placements;
  size_t n_placements;  /* Number of `placements`. */
  /* Path of a file that records passed GPU self-tests of the model and of its encoders, NUL-terminated; NULL: the
   * record lasts as long as the process.
   *
   * The first load on a GPU creates the file; later loads in any process skip the recorded tests and add new ones. A
   * record applies to the same device, driver and release of the library only. A damaged file is replaced; a file of
   * another kind is left unchanged. If the file is unusable or cannot be written, the load does not fail; it only
   * runs the tests again. Failures are not recorded: each process tests such devices again. Since 0.1.0. */
  const char *RZ_NULLABLE tested_path;
  /* Chat template in Jinja, `chat_template_len` bytes, that replaces the model's own in all conversations and
   * rz_chat_* functions: for a base model, which has none, or for a model whose template uses unsupported features.
   * It gets the variables of Hugging Face's chat templates (`messages`, `tools`, `add_generation_prompt`,
   * `bos_token` ...). Reasoning and tool calls in replies are parsed in the format that this template writes. NULL:
   * the model's own. Copied. If the template does not compile, the load fails with RZ_ERR_INVALID_ARGUMENT before
   * weights are read, and the message names the line; for a model without a tokenizer it fails with
   * RZ_ERR_UNSUPPORTED. rz_model_meta_into still returns the model's own template. */
  const char *RZ_NULLABLE chat_template;
  size_t chat_template_len;
  /* Steps of at least this number of tokens, such as prefill steps, copy the experts from the CPU to the GPU, a few
   * at a time, and multiply there. 0: the smallest number for which this takes less time than computing on the CPU,
   * as measured by the load; RZ_NONE: no step copies. rz_model_info.experts_copied_from has the number in effect.
   *
   * The scratch memory of a step on a GPU then includes two buffers for the copies, of at most 32 MiB each, or of
   * one expert's largest matrix if that is larger. Models loaded with RZ_MODEL_DETERMINISTIC copy no
   * experts, and experts without GPU kernels are never copied. */
  uint32_t experts_copied_from;
  uint32_t reserved;  /* 0. */
} rz_model_params;

/* Sampling parameters that the model's authors recommend, in the terms of rz_sampler_params. Since 0.1.0. */
typedef struct rz_model_sampling {
  uint32_t struct_size;  /* sizeof(rz_model_sampling), set by the caller. */
  uint32_t advised;      /* RZ_SAMPLING_... bits of the recommended fields, combined with |; 0: no recommendation. */
  /* 0: greedy. 1 if the authors recommend no temperature. A reply without a sampler uses this field, unless
   * `advised` is 0: then the reply is greedy. */
  float temperature;
  uint32_t top_k;  /* 0 if the authors do not recommend the field, as in all fields below. */
  float top_p;
  float min_p;
  float repeat_penalty;
  uint32_t penalty_window;
} rz_model_sampling;

/* Loads a model.
 *
 * `path`, NUL-terminated, names a .gguf file (the first one of a split model), a .safetensors file, or a folder with a
 * config.json. `params` may be NULL. The caller frees `*out` with rz_model_free. Any thread; blocks while the file is
 * read. Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_RESOURCES (the system cannot create a
 * thread, see rz_runtime_params.threads), RZ_ERR_FORMAT (damaged), RZ_ERR_UNSUPPORTED (an architecture or tensor type
 * that is not implemented), RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_DEVICE_UNAVAILABLE,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT, RZ_ERR_VERSION (unknown flags). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_load(const char *path, const rz_model_params *RZ_NULLABLE params, rz_model **out, rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Caches and text streams of the model stay usable; freeing the last of them frees the
 * weights. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_model_free(rz_model *RZ_NULLABLE model);

/* Returns the sampling parameters that the model's authors recommend: the `general.sampling` keys of a GGUF file, or
 * generation_config.json of a folder, where `do_sample: false` is a temperature of 0. Replies of conversations without
 * a sampler use the recommendations; a sampler created by the caller never applies them by itself.
 *
 * The caller sets `out->struct_size`. Recommendations out of range are left out, with a line in the log. Any thread.
 * Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_sampling_get(const rz_model *model, rz_model_sampling *out, rz_error *RZ_NULLABLE err);

/* Writes the metadata value of `key` (NUL-terminated, such as "general.name") as text; for an array its length and
 * element type, such as "[24 integers]".
 *
 * `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND for a key that the model does not have. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_meta_into(const rz_model *model,
                   const char *key,
                   char *RZ_NULLABLE out,
                   size_t capacity,
                   size_t *len,
                   rz_error *RZ_NULLABLE err);

/* Writes metadata key `index` of the model, in alphabetical order; callers iterate from 0 until RZ_ERR_NOT_FOUND.
 *
 * `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND beyond the last key. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_meta_key_into(const rz_model *model,
                       size_t index,
                       char *RZ_NULLABLE out,
                       size_t capacity,
                       size_t *len,
                       rz_error *RZ_NULLABLE err);

/* Writes element `index` of the metadata array `key` (NUL-terminated) as text; callers iterate from 0 until
 * RZ_ERR_NOT_FOUND.
 *
 * `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_NOT_FOUND (no such key, beyond the last element),
 * RZ_ERR_INVALID_ARGUMENT (not an array), RZ_ERR_UNSUPPORTED for an array whose elements only the
 * tokenizer stores, such as the vocabulary: see rz_token_bytes_into. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_meta_element_into(const rz_model *model,
                           const char *key,
                           size_t index,
                           char *RZ_NULLABLE out,
                           size_t capacity,
                           size_t *len,
                           rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Model information
 * ------------------------------------------------------------------------------------------------ */

enum rz_template_flag {
  RZ_TEMPLATE_PRESENT = 1,  /* Bit of rz_model_info.chat_template: rz_chat_render_into works. */
  /* Bit of rz_model_info.chat_template: the template itself writes the token that begins a text (BOS). Tokenize
   * rendered text without RZ_TOKENIZE_ADD_SPECIAL. */
  RZ_TEMPLATE_WRITES_BOS = 2,
};

enum rz_capability {
  /* Bit of rz_model_info.capabilities: the model computes logits and can generate tokens. Not set for embedding models,
   * nor with RZ_MODEL_TEXT_ONLY. */
  RZ_CAN_GENERATE = 1,
  /* Bit of rz_model_info.capabilities: the chat template supports system messages. Without the bit their text is merged
   * into user messages (rz_chat_render_into). */
  RZ_CAN_SYSTEM = 2,
  /* Bit of rz_model_info.capabilities: tool calling (function calling): the chat template renders "tools", and the
   * format of the model's tool calls is known. */
  RZ_CAN_TOOLS = 4,
  RZ_CAN_REASON = 8,  /* Bit of rz_model_info.capabilities: replies may begin with reasoning. */
  /* Bit of rz_model_info.capabilities: reasoning can be switched with RZ_REASONING_ON and RZ_REASONING_OFF. */
  RZ_CAN_SWITCH_REASONING = 16,
  /* Bit of rz_model_info.capabilities: the chat template supports images in user messages. Images need an encoder
   * (rz_encoder_load). Models whose template has no placeholder accept images too if they have an encoder. */
  RZ_CAN_IMAGES = 32,
  RZ_CAN_AUDIO = 64,   /* Bit of rz_model_info.capabilities: the same for audio. */
  RZ_CAN_VIDEO = 128,  /* Bit of rz_model_info.capabilities: the same for video. */
};

/* Description of a model. Since 0.1.0. */
typedef struct rz_model_info {
  uint32_t struct_size;         /* sizeof(rz_model_info), set by the caller. */
  char architecture[32];        /* Family of the network, such as "llama" or "qwen3". */
  char name[64];                /* Name of the model; empty if the file has none. */
  uint32_t n_layers;            /* Transformer layers. */
  uint32_t hidden_dim;          /* Width of the residual stream, in values. */
  uint32_t ffn_dim;             /* Width of the feed-forward block, in values. */
  uint32_t n_heads;             /* Query heads. */
  uint32_t n_kv_heads;          /* Key and value heads. */
  uint32_t head_dim;            /* Values per head. */
  uint32_t vocab_size;          /* Number of token ids, which run from 0 to vocab_size - 1; also the number of logits. */
  uint32_t context_length;      /* Context length in tokens that the model was trained for, as declared in the file. */
  uint32_t device;              /* Index of the device that the model was loaded to; with several GPUs the first. */
  uint32_t bos_token;           /* Token that begins a text, or RZ_TOKEN_NONE. */
  uint32_t eos_token;           /* Token that ends a text, or RZ_TOKEN_NONE. There may be more: see rz_token_is_end. */
  uint64_t n_params;            /* Number of parameters. */
  uint64_t weight_bytes;        /* Bytes of weights in memory; 0 for a model loaded with RZ_MODEL_TEXT_ONLY. */
  uint32_t gpu_layers;          /* Number of layers on GPUs; the CPU computes the other layers, which come first. */
  uint32_t chat_template;       /* RZ_TEMPLATE_... bits, combined with |; 0: no usable template. */
  uint32_t n_unknown;           /* Number of keys and tensors that RZ_MODEL_ALLOW_UNKNOWN ignored. */
  uint32_t experts_host_first;  /* First GPU layer whose experts are on the CPU, from 0. */
  uint64_t experts_host;        /* Bytes of experts on the host that belong to layers on GPUs. */
  uint64_t experts_device;      /* Bytes of experts on GPUs. */
  /* Number of layers from `experts_host_first` to the last layer whose experts are on the CPU; 0: none. */
  uint32_t experts_host_layers;
  /* 1 if the model is an encoder-decoder (it generates from a source text: rz_media_from_tokens), else 0. */
  uint32_t reads_source;
  /* Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if no product is computed
   * there. */
  char isa[32];
  /* Minimum number of tokens of a step that copies the experts from the CPU to the GPU; RZ_NONE: no step copies. */
  uint32_t experts_copied_from;
  /* RZ_CAN_... bits, combined with |: what conversations of the model support, and whether the model generates. */
  uint32_t capabilities;
  /* Number of floats in a text embedding from rz_embed_into; 0: the model computes no embeddings. */
  uint32_t embedding_dim;
  /* Pooling of the model's embeddings, RZ_POOLING_...; RZ_POOLING_MODEL: the file declares none, so the caller must
   * choose. */
  uint32_t pooling;
  /* Number of scores of the model's classifier (RZ_POOLING_RANK, reranking); 0: it has no classifier. */
  uint32_t n_scores;
  uint32_t n_devices;  /* Number of GPUs that have layers (rz_model_device_get). */
} rz_model_info;

/* A GPU that has layers of a model. Since 0.1.0. */
typedef struct rz_model_device {
  uint32_t struct_size;  /* sizeof(rz_model_device), set by the caller. */
  uint32_t device;       /* Index of the device. */
  uint32_t n_layers;     /* Number of layers on the GPU. */
} rz_model_device;

/* Describes a model, with values computed by the load. The caller sets `out->struct_size`. Any thread. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_info_get(const rz_model *model, rz_model_info *out, rz_error *RZ_NULLABLE err);

/* Describes one of the GPUs that have layers of the model: `index` runs from 0 to rz_model_info.n_devices - 1, in the
 * order of the layers. The caller sets `out->struct_size`. Any thread. Errors: RZ_ERR_NOT_FOUND beyond the last. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_device_get(const rz_model *model, uint32_t index, rz_model_device *out, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Models from memory, file descriptors and callbacks
 * ------------------------------------------------------------------------------------------------ */

enum rz_source_kind {
  RZ_SOURCE_MEMORY = 1,  /* Kind of a source: `size` bytes at `data`. */
  /* Kind of a source: `size` bytes, from `offset` on, of the regular file open at `fd`; size 0: up to the end of the
   * file. */
  RZ_SOURCE_FD = 2,
  RZ_SOURCE_READER = 3,  /* Kind of a source: `size` bytes, delivered by `read`. */
};

/* Fills `out` with `n` bytes from `offset` on, all of which lie within the size of the source. Returns 0;
 * RZ_ERR_FORMAT if the file ends before the last of these bytes (the load then fails with RZ_ERR_FORMAT), or an errno
 * (the load then fails with RZ_ERR_IO). Several threads may call it at once, during the load only. It may call the
 * library. It must return normally: no longjmp, no C++ exception. */
typedef int32_t (RZ_CALL *rz_source_callback)(uint64_t offset, void *out, size_t n, void *RZ_NULLABLE user);

/* Bytes of one file of a model. Since 0.1.0. */
typedef struct rz_source {
  uint32_t struct_size;  /* sizeof(rz_source), the same in all sources of a call. */
  uint32_t kind;         /* RZ_SOURCE_... */
  /* Name of the file, NUL-terminated, as in the folder of the model ("config.json", "model-00001-of-00002.gguf").
   * May be NULL if there is only one source. */
  const char *RZ_NULLABLE name;
  const void *RZ_NULLABLE data;  /* The bytes of RZ_SOURCE_MEMORY. */
  uint64_t size;                 /* Number of bytes. */
  /* Open file descriptor of RZ_SOURCE_FD, which remains the caller's. Its position is neither used nor changed. */
  int32_t fd;
  uint32_t reserved;                    /* 0. */
  uint64_t offset;                      /* Offset of the bytes in the file of RZ_SOURCE_FD. */
  rz_source_callback RZ_NULLABLE read;  /* Callback of RZ_SOURCE_READER. */
  void *RZ_NULLABLE user;               /* Passed to `read`. */
} rz_source;

/* Like rz_model_load, for a model from caller-provided bytes: a .gguf file (all files of a split model), a
 * .safetensors file, or the needed files of a folder, such as config.json, tokenizer.json and the weights.
 *
 * If there are several sources, each must have the name of its file, by which other files refer to it. Sources are
 * only read during the call: memory, descriptors and the target of `user` may be released afterwards.
 *
 * With RZ_MODEL_MMAP all sources must be of the kind RZ_SOURCE_FD; other kinds fail with RZ_ERR_UNSUPPORTED. Their
 * bytes are mapped in place, at any offset, and used without a copy; a source can be, for example, an uncompressed
 * asset in an Android package. The mapping outlives the descriptor. `params` may be NULL. The caller frees `*out` with
 * rz_model_free. Any thread. Errors: as for rz_model_load; RZ_ERR_FORMAT also if a file is shorter than `offset` +
 * `size` of its source, or if `read` returns RZ_ERR_FORMAT; RZ_ERR_IO also for an errno of `read`, and for a file of
 * the model that is not among the sources. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_load_from(const rz_source *RZ_NULLABLE sources,
                   size_t n,
                   const rz_model_params *RZ_NULLABLE params,
                   rz_model **out,
                   rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Models of the Hugging Face Hub
 * ------------------------------------------------------------------------------------------------ */

enum rz_hub_flag {
  /* Flag of rz_hub_choose_into: `listing` describes the files in a local cache. It needs neither "sha" nor digests. If
   * the cache has no complete model of this name, "files" is empty. */
  RZ_HUB_CACHED = 1,
};

/* Chooses the files of a model of the Hugging Face Hub, as the bindings do before they fetch them. Reads only its
 * arguments.
 *
 * `model` is `model_len` bytes of UTF-8: "hf:owner/name" or "hf:owner/name:quantization". The quantization may also be
 * the name of a file in the repository, or "mmproj" for the vision or audio encoder. `listing` is the Hub's answer to
 * GET /api/models/OWNER/NAME/revision/main?blobs=true: `listing_len` bytes of JSON, at most 64 MiB, which need not be
 * trusted. Files without a digest, and files whose names lead out of the folder, are ignored. If `model` names no
 * quantization, the call chooses the largest one that has at most 8 bits per weight and fits into `memory` bytes (0:
 * no limit).
 *
 * Writes JSON, `*len` bytes, not NUL-terminated:
 *
 * {"repository": "owner/name", "quantization": "", "encoder": "hf:owner/name:mmproj", "commit": "...", "load":
 * "m-Q8_0.gguf", "size": 5000, "files": [{"name": "m-Q8_0.gguf", "size": 5000, "digest": "..."}]}
 *
 * "encoder" is the string to pass as `model` to choose the encoder of the same repository. "load" is the file to pass
 * to rz_model_load, which finds the other parts of a split model; if it is "", load the folder of all files. "size" is
 * the total size. "digest" is the SHA-256 of the file, or the SHA-1 of its git blob. If `listing` is NULL, the call
 * writes only the first three members, which follow from `model`.
 *
 * If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT
 * (`model` is malformed, or several files match it), RZ_ERR_NOT_FOUND (no file matches it, or the repository has no
 * model), RZ_ERR_OUT_OF_MEMORY (no model fits into `memory`; the message says what to do), RZ_ERR_FORMAT (a listing
 * that is not the Hub's), RZ_ERR_LIMIT (a listing that is too long or nested too deeply), RZ_ERR_VERSION (unknown
 * flags). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_hub_choose_into(const char *RZ_NULLABLE model,
                   size_t model_len,
                   const char *RZ_NULLABLE listing,
                   size_t listing_len,
                   uint64_t memory,
                   uint32_t flags,
                   char *RZ_NULLABLE out,
                   size_t capacity,
                   size_t *len,
                   rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Tokenization
 * ------------------------------------------------------------------------------------------------ */

enum rz_tokenize_flag {
  /* Flag of rz_tokenize_into: add the special tokens at the beginning and end of a text (BOS, EOS) that the model asks
   * for. */
  RZ_TOKENIZE_ADD_SPECIAL = 1,
  /* Flag of rz_tokenize_into: parse special tokens: "<|im_end|>" in the text becomes its token. Not for text from
   * users. */
  RZ_TOKENIZE_PARSE_SPECIAL = 2,
};

enum rz_detokenize_flag {
  RZ_DETOKENIZE_SPECIAL = 1,  /* Flag of rz_detokenize_into: write special tokens too. */
};

enum rz_token_attribute {
  RZ_ATTR_NORMAL = 1,   /* Attribute of a token: an ordinary token of tokenized text. */
  RZ_ATTR_CONTROL = 2,  /* Attribute of a token: control token, such as "<|im_end|>"; left out of texts. */
  RZ_ATTR_USER = 4,     /* Attribute of a token: matched as a whole in any text (an added token). */
  RZ_ATTR_BYTE = 8,     /* Attribute of a token: stands for one byte. */
  RZ_ATTR_END = 16,     /* Attribute of a token: ends a turn or a text, as in rz_token_is_end. */
};

/* Incremental detokenizer: converts tokens to text as they arrive, and holds back the bytes of an incomplete
 * character. Mutable: one call at a time. */
typedef struct rz_textstream rz_textstream;

/* Tokenizes `text`, UTF-8 of `text_len` bytes.
 *
 * `*n` receives the number of token ids. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL.
 * `cancel`, which stops the call within milliseconds, may be NULL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (not
 * UTF-8), RZ_ERR_VERSION (unknown flags), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented), RZ_ERR_CANCELLED,
 * RZ_ERR_DEADLINE, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_tokenize_into(const rz_model *model,
                 const char *RZ_NULLABLE text,
                 size_t text_len,
                 uint32_t flags,
                 uint32_t *RZ_NULLABLE out,
                 size_t capacity,
                 size_t *n,
                 const rz_cancel *RZ_NULLABLE cancel,
                 rz_error *RZ_NULLABLE err);

/* Detokenizes `n` token ids; the first one begins a text.
 *
 * `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL. Invalid UTF-8, such as half a character at the end, becomes U+FFFD; for streaming use an
 * rz_textstream. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary), RZ_ERR_VERSION (unknown
 * flags), RZ_ERR_UNSUPPORTED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_detokenize_into(const rz_model *model,
                   const uint32_t *RZ_NULLABLE tokens,
                   size_t n,
                   uint32_t flags,
                   char *RZ_NULLABLE out,
                   size_t capacity,
                   size_t *len,
                   rz_error *RZ_NULLABLE err);

/* Returns 1 if `token` ends a turn or a text of this model, else 0 (also for NULL and for a token outside the
 * vocabulary). Any thread. Since 0.1.0. */
RZ_API int32_t RZ_CALL
rz_token_is_end(const rz_model *RZ_NULLABLE model, uint32_t token);

/* Writes the bytes of one token, which may be part of a character; for a control token its name. Concatenating the
 * bytes of all tokens gives the text, except for a leading space that some tokenizers add.
 *
 * `*len` receives the number of bytes, `*attributes` RZ_ATTR_... bits combined with |; `attributes` may be NULL. If
 * `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a
 * token outside the vocabulary), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_token_bytes_into(const rz_model *model,
                    uint32_t token,
                    void *RZ_NULLABLE out,
                    size_t capacity,
                    size_t *len,
                    uint32_t *RZ_NULLABLE attributes,
                    rz_error *RZ_NULLABLE err);

/* Creates a text stream for tokens of a model that begin a text: a leading space that the tokenizer adds is removed.
 * For tokens that continue a text, call rz_textstream_follow before the first token. The caller frees `*out` with
 * rz_textstream_free, before or after the model. Any thread. Errors: RZ_ERR_UNSUPPORTED (a tokenizer that is not
 * implemented). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_textstream_new(const rz_model *model, rz_textstream **out, rz_error *RZ_NULLABLE err);

/* Sets the `n` tokens that precede the text, such as the earlier contents of the cache and the prompt, without writing
 * their text. The stream then writes text as it appears after those tokens: a space at the start of a word is kept,
 * and a character that those tokens leave incomplete is completed.
 *
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary, which changes nothing), RZ_ERR_BUSY,
 * RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_textstream_follow(rz_textstream *stream, const uint32_t *RZ_NULLABLE tokens, size_t n, rz_error *RZ_NULLABLE err);

/* Adds a token and writes the text that it completes: whole UTF-8 characters, often none.
 *
 * `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL and does not add the token: call again with a larger buffer. Any thread. Errors:
 * RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary), RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_textstream_push_into(rz_textstream *stream,
                        uint32_t token,
                        char *RZ_NULLABLE out,
                        size_t capacity,
                        size_t *len,
                        rz_error *RZ_NULLABLE err);

/* Ends the text: writes the bytes held back, with U+FFFD for an incomplete character, and resets the stream for the
 * next text. Sizes and errors as for rz_textstream_push_into. Any thread. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_textstream_flush_into(rz_textstream *stream,
                         char *RZ_NULLABLE out,
                         size_t capacity,
                         size_t *len,
                         rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_textstream_free(rz_textstream *RZ_NULLABLE stream);

/* ------------------------------------------------------------------------------------------------
 * Chat templates
 * ------------------------------------------------------------------------------------------------ */

enum rz_chat_flag {
  /* Flag of rz_chat_render_into and rz_chat_tokenize_into: append the generation prompt, which opens the assistant's
   * turn. */
  RZ_CHAT_ADD_GENERATION_PROMPT = 1,
};

/* Renders a conversation with the model's chat template, as the text that the model was trained on. The conversation
 * is JSON, `json_len` bytes of UTF-8, in the form that servers take:
 *
 * {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...], "variables": {...},
 * "add_generation_prompt": true, "response_format": {...}}
 *
 * All but "messages" may be absent. A message has a "role", a "content" (a text or a list of parts of type "text";
 * null or absent only next to "tool_calls", "reasoning_content" or "refusal") and the other members of OpenAI's
 * messages: "name", "refusal", "annotations", "tool_call_id" and "tool_calls". "function.arguments" of a tool call may
 * be an object or its JSON as a text. A message may also have "reasoning_content" (or its synonyms "reasoning" and
 * "thinking"), "finish_reason" and every name that the template reads; other members are an error unless they are
 * null. Ids of tool calls may be any text: if a template requires a form, they are replaced in calls and results
 * alike. If a template leaves tool calls out and the form of the model's calls is known, the calls are written into
 * the text of their message. "variables" are handed to the template, such as "enable_thinking".
 * "add_generation_prompt" overrides the flag. "tool_choice" ("auto", "none", "required", or {"function": {"name":
 * "..."}}) and "parallel_tool_calls" (true by default) have an effect in rz_chat_parser_new and in grammars of the
 * kind RZ_GRAMMAR_TOOLS.
 *
 * If a template rejects or loses system messages (all of them, or all after the first message), their text moves into
 * a user message: the next message if its role is user, otherwise the previous user message. If the assistant has
 * already answered that user message, the text becomes a new user message. If a template rejects two user messages in
 * a row, they are joined. "developer" messages become system messages for a template that does not know that role. The
 * template runs on a thread of the runtime (rz_runtime_params.threads); `cancel` ends the wait for that thread, and
 * may be NULL.
 *
 * `*len` receives the bytes of the text; it is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL. The text is for display and logs: in this text, a special token that a message spells out
 * looks the same as a special token of the template. For a prompt, use rz_chat_tokenize_into. Any thread. Errors:
 * RZ_ERR_UNSUPPORTED (no template, a template with a feature that is not implemented, a part that is not text, an
 * integer of more than 64 bits, or tool calls, tool results or tools that the template leaves out),
 * RZ_ERR_INVALID_ARGUMENT (the template rejects the messages, or a member is unknown or of the wrong type; the message
 * names it), RZ_ERR_VERSION (unknown flags), RZ_ERR_RESOURCES (rz_runtime_params.threads), RZ_ERR_CANCELLED,
 * RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_chat_render_into(const rz_model *model,
                    const char *RZ_NULLABLE json,
                    size_t json_len,
                    uint32_t flags,
                    char *RZ_NULLABLE out,
                    size_t capacity,
                    size_t *len,
                    const rz_cancel *RZ_NULLABLE cancel,
                    rz_error *RZ_NULLABLE err);

/* Renders and tokenizes a conversation in the JSON of rz_chat_render_into.
 *
 * Only the template can produce special tokens: messages, names, arguments and tools are plain text, even if they
 * spell "<|im_end|>". The tokens that begin a text (BOS) occur once, whether or not the template writes these tokens.
 * `*n` receives the number of tokens. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. `cancel`
 * stops the call and may be NULL. Any thread. Errors: as for rz_chat_render_into. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_chat_tokenize_into(const rz_model *model,
                      const char *RZ_NULLABLE json,
                      size_t json_len,
                      uint32_t flags,
                      uint32_t *RZ_NULLABLE out,
                      size_t capacity,
                      size_t *n,
                      const rz_cancel *RZ_NULLABLE cancel,
                      rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Reply parsing: reasoning and tool calls
 * ------------------------------------------------------------------------------------------------ */

enum rz_chat_event_kind {
  RZ_CHAT_EVENT_REASONING = 1,  /* Kind of a part of a reply: reasoning before the answer. */
  RZ_CHAT_EVENT_CONTENT = 2,    /* Kind of a part of a reply: text of the answer. */
  /* Kind of a part of a reply: complete name of the called tool; it follows the id of the tool call. */
  RZ_CHAT_EVENT_TOOL_NAME = 3,
  /* Kind of a part of a reply: fragment of the arguments of a tool call. All fragments together are a JSON object. */
  RZ_CHAT_EVENT_TOOL_ARGUMENTS = 4,
  /* Kind of a part of a reply: end. Its text is a partial tag, or a tool call without a name, if the reply broke off
   * there; otherwise it is empty. */
  RZ_CHAT_EVENT_END = 5,
  /* Kind of a part of a reply: complete id of a tool call; it begins the call. The message in the conversation has the
   * same id. It differs from the ids of all other calls in the conversation and has the form that the chat template
   * requires; an id that the model wrote before the arguments is kept. */
  RZ_CHAT_EVENT_TOOL_ID = 6,
};

enum rz_chat_event_flag {
  /* Flag of a part of a reply. With content or reasoning: the text begins like a tool call or has a control token, and
   * could not be parsed. With RZ_CHAT_EVENT_END: the reply has such a text, half a tag, a call whose arguments are
   * incomplete, or a call whose arguments are complete but rejected by JSON readers (a number such as 1e400, more than
   * 127 levels). */
  RZ_CHAT_EVENT_FLAG_UNPARSED = 1,
};

/* Parses the reply to a conversation into reasoning, content and tool calls, in any format that models use. Mutable:
 * one call at a time. */
typedef struct rz_chat_parser rz_chat_parser;

/* Creates a parser for the reply to a conversation (the JSON of rz_chat_tokenize_into, `json_len` bytes) whose tokens
 * were the prompt. The caller frees `*out` with rz_chat_parser_free, before or after the model.
 *
 * The format of reasoning and tool calls is inferred from the model's chat template. Tool calls are parsed if the
 * conversation has "tools" and its "tool_choice" is not "none", and only for those tools. Runs on a thread of the
 * runtime; `cancel` ends the wait for that thread, and may be NULL. Any thread. Errors: as for rz_chat_tokenize_into,
 * and RZ_ERR_UNSUPPORTED if there are tools and the format of tool calls cannot be inferred from the template. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_chat_parser_new(const rz_model *model,
                   const char *RZ_NULLABLE json,
                   size_t json_len,
                   const rz_cancel *RZ_NULLABLE cancel,
                   rz_chat_parser **out,
                   rz_error *RZ_NULLABLE err);

/* Adds a token of the reply. A token that ends a turn or a text ends the reply like rz_chat_parser_end.
 *
 * Any thread. Errors, which change nothing: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary or after the end),
 * RZ_ERR_LIMIT (16 MiB of parts were not taken yet), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_BUSY, RZ_ERR_POISONED. Since
 * 0.1.0. */
RZ_API rz_status RZ_CALL
rz_chat_parser_push(rz_chat_parser *parser, uint32_t token, rz_error *RZ_NULLABLE err);

/* Ends a reply that no token has ended, for example at the maximum number of tokens. Text held back as a possible tag
 * becomes the text of RZ_CHAT_EVENT_END. A repeated call does nothing. Any thread. Errors: RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_chat_parser_end(rz_chat_parser *parser, rz_error *RZ_NULLABLE err);

/* Takes the next part of the reply. `*kind` receives RZ_CHAT_EVENT_..., `*flags` RZ_CHAT_EVENT_FLAG_... bits or 0,
 * `*index` the number of the part's tool call, from 0 (0 for other kinds), and `out` the text of `*len` bytes: whole
 * characters, not NUL-terminated. RZ_OK: a part was taken. RZ_AGAIN: no part is available yet. RZ_DONE: the reply has
 * ended, and all parts were taken.
 *
 * Reasoning, content and tool calls come in any order. A tool call is its id, its name and then fragments of its
 * arguments, as JSON in every format; if the format is untyped, values get the types of the tool's schema. Tags and
 * adjacent white space are left out. All other text is passed on, with RZ_CHAT_EVENT_FLAG_UNPARSED if it could not be
 * parsed. Tool calls within reasoning count as tool calls only if the reply ends with them; if more text follows, they
 * are returned as reasoning. If there are tools, a reply that is only an object with the name and the arguments of a
 * tool, fenced or not, is a tool call.
 *
 * If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL, and the part remains; a part may have any
 * length. `out` NULL with a `capacity` of 0 queries the part: the call returns RZ_OK, writes `*kind`, `*flags`,
 * `*index` and `*len`, and the part remains. Because such a query never takes a part, a loop must pass a buffer (not
 * NULL) from its first call, even for parts without text. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_chat_parser_next_into(rz_chat_parser *parser,
                         uint32_t *kind,
                         uint32_t *flags,
                         uint32_t *index,
                         char *RZ_NULLABLE out,
                         size_t capacity,
                         size_t *len,
                         rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_chat_parser_free(rz_chat_parser *RZ_NULLABLE parser);

/* ------------------------------------------------------------------------------------------------
 * Sampling
 * ------------------------------------------------------------------------------------------------ */

enum rz_filter {
  /* RZ_FILTER_... constants: filters of a sampler, and the temperature, for rz_sampler_params.order. */
  RZ_FILTER_TOP_N_SIGMA = 1,
  RZ_FILTER_TOP_K = 2,
  RZ_FILTER_TYPICAL_P = 3,
  RZ_FILTER_TOP_P = 4,
  RZ_FILTER_MIN_P = 5,
  RZ_FILTER_XTC = 6,
  RZ_FILTER_TEMPERATURE = 7,
};

enum rz_sampler_flag {
  /* Flag of a sampler: the temperature comes before the filters, which keep their default order. Recommendations of
   * models' authors, and sampling in transformers, use this order. Not together with `order`. */
  RZ_SAMPLER_TEMPERATURE_FIRST = 1,
};

/* Samples tokens from logits with its own random number generator. Mutable: one call at a time, except that any number
 * of rz_job_new calls may copy it at once. Works with caches of any model. */
typedef struct rz_sampler rz_sampler;

/* Logit bias, added to one logit after rz_sampler_params.edit_logits and before all filters; -INFINITY forbids the
 * token. The layout of this struct never changes. Since 0.1.0. */
typedef struct rz_logit_bias {
  /* Token id. Calls with a model whose vocabulary is too small for it fail with RZ_ERR_INVALID_ARGUMENT. */
  uint32_t token;
  float bias;  /* Number to add to the logit. */
} rz_logit_bias;

/* Sequence of tokens. The layout of this struct never changes. Since 0.1.0. */
typedef struct rz_token_sequence {
  const uint32_t *RZ_NULLABLE tokens;
  size_t n_tokens;  /* Number of `tokens`, at least 1. */
} rz_token_sequence;

/* Logits callback (a logits processor): edits logits before a token is chosen from them, for example for a custom
 * sampler, a watermark or classifier-free guidance. `logits`: `n_logits` numbers, one per token of the vocabulary,
 * which the callback may change; `tokens`: the `n_tokens` tokens of the text so far, as rz_cache_tokens_into gives
 * them. Both are valid only during the callback.
 *
 * Runs before biases, penalties, grammar, filters, temperature and draw, once per sampled token: for each token that a
 * job, a reply or rz_generate_into generates, for each rz_sample and rz_decode_token, and for each cache of
 * rz_decode_batch. -INFINITY or NaN forbids a token; INFINITY at one token forces that token, unless a grammar or a
 * ban forbids it. A logit that was -INFINITY before stays -INFINITY. If all tokens are forbidden, the call fails, as
 * does every call for which no token is possible. rz_logits_into and log-probabilities (rz_job_logprobs_into) use the
 * model's logits, not the edited logits.
 *
 * Returns 0. If it returns another number, no token is chosen: rz_sample, rz_decode_token, rz_decode_batch and
 * rz_generate_into fail with RZ_ERR_INVALID_ARGUMENT, and the message contains the returned number. In rz_job_step,
 * rz_jobs_step, rz_conversation_step and rz_conversations_step only the job or the reply with this sampler ends, with
 * RZ_END_FAILED, and rz_job_error or rz_conversation_error returns this status; all other jobs and replies continue.
 *
 * Runs on the thread that calls the library, never concurrently within one call. A job or reply has a copy of its
 * sampler with the same `edit_logits_user`, so calls on several threads may run the callback with that pointer at the
 * same time. It may call the library, but calls on the caches, jobs, conversations and samplers of the running call
 * get RZ_ERR_BUSY. It must return normally: no longjmp, no C++ exception. */
typedef int32_t (RZ_CALL *rz_logits_callback)(float *logits,
                                              size_t n_logits,
                                              const uint32_t *tokens,
                                              size_t n_tokens,
                                              void *RZ_NULLABLE user);

/* Sampling parameters. Zero in a field turns the feature off, or has the meaning that the comment of the field gives.
 * All zeros, or NULL, choose the most likely token (greedy decoding).
 *
 * `edit_logits` comes first, then biases, penalties (repeat, presence, frequency, DRY), no_repeat_ngram_size and
 * banned_sequences. The filters and the temperature come next, in the order of `order`, each on the distribution that
 * the previous ones left. The default order is llama.cpp's: top_n_sigma, top_k, typical_p, top_p, min_p, XTC, the
 * temperature. So a higher temperature flattens the distribution of the tokens that the filters keep, and adds no
 * tokens. With RZ_SAMPLER_TEMPERATURE_FIRST the temperature comes before all filters, as in transformers and vLLM. The
 * draw comes last. With a temperature of 0 there are no filters and no draw: the most likely of the remaining tokens
 * is chosen.
 *
 * A GPU samples if only biases, penalties other than DRY, top_k, top_p, min_p and the temperature are on, in the
 * default order, and if `n_biases` plus `penalty_window` is at most 512. A `penalty_window` of 0 exceeds this limit if
 * penalties are on. Otherwise the host samples with the same arithmetic, from logits that are copied for each token.
 * Since 0.1.0. */
typedef struct rz_sampler_params {
  uint32_t struct_size;     /* sizeof(rz_sampler_params). */
  float temperature;        /* Divides the logits; 0: always the most likely token. */
  uint32_t top_k;           /* Keeps the k most likely tokens. */
  float top_p;              /* Keeps the most likely tokens that together reach this probability. */
  float min_p;              /* Drops tokens whose probability is below this fraction of the most likely token's. */
  float repeat_penalty;     /* Divides positive logits of recent tokens, multiplies negative ones. */
  float presence_penalty;   /* Subtracted from the logit of every recent token. */
  float frequency_penalty;  /* Subtracted from the logit of a recent token once per occurrence. */
  /* Number of the last tokens, including tokens of the prompt, that count as recent; 0: all. */
  uint32_t penalty_window;
  uint32_t flags;                           /* RZ_SAMPLER_... bits, combined with |. */
  uint64_t seed;                            /* Seed of the random number generator; 0 is a seed like any other. */
  const rz_logit_bias *RZ_NULLABLE biases;  /* Logit biases, which are copied; NULL: none. */
  size_t n_biases;                          /* Number of `biases`. */
  /* Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
   * reach this probability; 1: off. */
  float typical_p;
  /* Drops logits more than this number of standard deviations (of the remaining logits) below the largest. */
  float top_n_sigma;
  /* XTC: probability of a cut. A cut drops all tokens whose probability is at least xtc_threshold, except the least
   * likely one of them. */
  float xtc_probability;
  /* XTC: probability from which a cut drops tokens; 0 means the default, 0.1. At most one token reaches a threshold
   * above 0.5, so XTC then drops none. */
  float xtc_threshold;
  /* Dynamic temperature: the temperature rises from `temperature` - `temperature_range` (at least 0) to
   * `temperature` + `temperature_range` with the entropy of the distribution, relative to the entropy of the uniform
   * distribution. */
  float temperature_range;
  /* Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1. */
  float temperature_exponent;
  /* Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a bound,
   * which begins at twice this value and is corrected after each draw. Filters that are on apply before Mirostat;
   * llama.cpp applies no filters with Mirostat. */
  float mirostat_tau;
  /* Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1. */
  float mirostat_eta;
  /* DRY: if the last n tokens occurred before (with the largest such n, at least dry_allowed_length), the logit of
   * the token that followed the earlier occurrence is reduced by dry_multiplier * dry_base ^ (n -
   * dry_allowed_length). n above 4096 counts as 4096. */
  float dry_multiplier;
  float dry_base;               /* At least 1; 0 means the default, 1.75. */
  uint32_t dry_allowed_length;  /* Minimum number of repeated tokens that DRY penalizes; 0 means the default, 2. */
  /* Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all. */
  uint32_t dry_window;
  /* No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token that
   * would complete such a repetition is not chosen. At most 4096. */
  uint32_t no_repeat_ngram_size;
  uint32_t reserved;  /* 0. */
  /* DRY breakers, which are copied; NULL: none. DRY considers only repetitions after the last breaker, and never
   * penalizes repetitions of a single token. llama.cpp's defaults are the tokens whose text contains a line feed, a
   * colon, a quotation mark or an asterisk. */
  const rz_token_sequence *RZ_NULLABLE dry_breakers;
  size_t n_dry_breakers;  /* Number of `dry_breakers`. */
  /* Banned sequences, which are copied; NULL: none. If the tokens of a cache, including the prompt, end with the
   * first n - 1 tokens of a banned sequence of n tokens, the sequence's last token is not sampled. A sequence of one
   * token therefore bans this token. The same text may still occur as other tokens. */
  const rz_token_sequence *RZ_NULLABLE banned_sequences;
  size_t n_banned_sequences;  /* Number of `banned_sequences`. */
  /* Order of filters and temperature: RZ_FILTER_..., each at most once. The order must contain all filters that are
   * on. NULL: the default order. */
  const uint32_t *RZ_NULLABLE order;
  size_t n_order;  /* Number of `order`. */
  /* Edits the logits before each token is sampled; NULL: none. With a callback the CPU samples, even if the model is
   * on a GPU. The callback works with speculative decoding: its `tokens` never include rejected draft tokens. */
  rz_logits_callback RZ_NULLABLE edit_logits;
  /* Passed to `edit_logits` unchanged. It must stay valid until the sampler and the jobs that copied it have
   * been freed. Replies that copied it must also have ended, or their conversations must have been freed. */
  void *RZ_NULLABLE edit_logits_user;
} rz_sampler_params;

/* Creates a sampler. `params` may be NULL. The caller frees `*out` with rz_sampler_free. Any thread. Errors:
 * RZ_ERR_INVALID_ARGUMENT for a value that is NaN or out of range, and for an `order` that has an unknown filter, has
 * one twice, or lacks one that is on. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_sampler_new(const rz_sampler_params *RZ_NULLABLE params, rz_sampler **out, rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_sampler_free(rz_sampler *RZ_NULLABLE sampler);

/* ------------------------------------------------------------------------------------------------
 * Constrained decoding: grammars and JSON schemas
 * ------------------------------------------------------------------------------------------------ */

enum rz_grammar_kind {
  /* Kind of a grammar: a JSON schema, draft 4 to 2020-12. The whole schema is enforced: a keyword that cannot be
   * compiled fails with RZ_ERR_UNSUPPORTED, and the message names the keyword's place, unless
   * RZ_GRAMMAR_FLAG_BEST_EFFORT is set. "oneOf", "not" and "if" fail unless they can be rewritten exactly. A "format"
   * that JSON Schema does not define is an annotation and has no effect. Patterns are ECMA-262 regular expressions.
   * Dates and times are RFC 3339 with "T" and "Z", without leap seconds and the year 0. Annotations, such as
   * descriptions, have no effect; a schema may have 256 KiB without them and 4 MiB with them. */
  RZ_GRAMMAR_JSON_SCHEMA = 1,
  /* Kind of a grammar: a regular expression that the whole text matches, without look-around and back references. */
  RZ_GRAMMAR_REGEX = 2,
  /* Kind of a grammar: llguidance's dialect of Lark; the rule "start" is the whole text. A name between angle brackets,
   * such as <|im_end|>, is the token with this name. */
  RZ_GRAMMAR_LARK = 3,
  /* Kind of a grammar: llama.cpp's GBNF, except its syntax for tokens (<[id]>, <name>), which is rejected. Every text
   * that the rules derive is allowed, whatever its tokenization. */
  RZ_GRAMMAR_GBNF = 4,
  RZ_GRAMMAR_JSON = 5,     /* Kind of a grammar: any JSON value. Takes no text. */
  RZ_GRAMMAR_CHOICES = 6,  /* Kind of a grammar: one of several texts, given as a JSON array of strings. */
  /* Kind of a grammar: a reply in a conversation. `text` is the conversation, in the JSON of rz_chat_tokenize_into. The
   * reply is text or tool calls in the form of the model's chat template, with arguments that follow each tool's JSON
   * schema. "tool_choice" selects what follows the reasoning, if any: "auto" allows text, tool calls, or text followed
   * by tool calls; "none" allows only text; "required" or the name of a tool allows only tool calls.
   * "parallel_tool_calls": false allows one call. The schema of a tool with "strict": true, within the tool or its
   * "function", is enforced as with RZ_GRAMMAR_JSON_SCHEMA, and an error names the tool and the place. All other tools
   * are best effort, as with RZ_GRAMMAR_FLAG_BEST_EFFORT. Arguments come in the order of the schema. If a model writes
   * string arguments between tags instead of in quotes, "enum", "minLength" and "maxLength" (up to 2000) are enforced
   * for these strings; "pattern" and "format" are not. */
  RZ_GRAMMAR_TOOLS = 7,
};

enum rz_grammar_flag {
  /* Flag of a grammar, for RZ_GRAMMAR_JSON_SCHEMA, _JSON and _TOOLS: allows up to 40 characters of white space,
   * including line breaks, between the parts of JSON. Without the flag, JSON has no white space, which saves tokens;
   * with RZ_GRAMMAR_TOOLS it has at most one space after commas and colons, as templates write it. */
  RZ_GRAMMAR_FLAG_WHITESPACE = 1,
  /* Flag of a grammar, for RZ_GRAMMAR_JSON_SCHEMA: keywords that cannot be compiled are left out and named once in the
   * log (rz_runtime_params.log); they do not fail with RZ_ERR_UNSUPPORTED, RZ_ERR_INVALID_ARGUMENT or RZ_ERR_LIMIT.
   * Schemas that libraries generate contain keywords that usually cannot be enforced, such as "uniqueItems"; servers
   * treat a "response_format" that is not strict in the same way. With RZ_GRAMMAR_TOOLS each tool selects best effort
   * or strict itself, with "strict". */
  RZ_GRAMMAR_FLAG_BEST_EFFORT = 2,
};

/* Compiled grammar for constrained decoding (structured output). Immutable: any number of samplers, jobs and replies
 * (rz_reply_params.compiled_grammar) may use it at once, with caches of any model with the same vocabulary. */
typedef struct rz_grammar rz_grammar;

/* Compiles a grammar of `kind` (RZ_GRAMMAR_...) with `flags` (RZ_GRAMMAR_FLAG_... bits, or 0) from `len` bytes of
 * UTF-8. The caller frees `*out` with rz_grammar_free, before or after the model. If the model has a chat template,
 * the call also compiles a grammar of the whole reply (reasoning and content), for rz_reply_params.compiled_grammar.
 *
 * For any text, the call takes less than a second and 64 MiB, or fails with RZ_ERR_LIMIT because the text is too large
 * or too complex. Another call with the same text fails too, so a server should answer with status 400. Best effort
 * compiles again with fewer keywords as long as compiling fails. The first grammar of a model prepares its vocabulary,
 * which takes tens of milliseconds. Runs on a thread of the runtime (rz_runtime_params.threads); `cancel` ends the
 * wait for that thread, and may be NULL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (an unknown kind, a flag that the
 * kind does not take, a grammar that cannot be parsed or that no text matches; the message says where),
 * RZ_ERR_UNSUPPORTED (a feature that is not implemented, or a model without a tokenizer or without a token that ends a
 * text), RZ_ERR_LIMIT (too complex), RZ_ERR_VERSION (unknown flags), RZ_ERR_RESOURCES (no thread), RZ_ERR_CANCELLED,
 * RZ_ERR_DEADLINE, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_grammar_new(const rz_model *model,
               uint32_t kind,
               uint32_t flags,
               const char *RZ_NULLABLE text,
               size_t len,
               const rz_cancel *RZ_NULLABLE cancel,
               rz_grammar **out,
               rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Samplers, jobs and replies that use the grammar keep it. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_grammar_free(rz_grammar *RZ_NULLABLE grammar);

/* Constrains `sampler` to texts that match `grammar`, beginning at the start of the grammar: it chooses only tokens
 * that can continue such a text. `grammar` may be NULL, which removes the constraint.
 *
 * When a token is next sampled with this sampler, the grammar is bound to the cache from which it is sampled; the text
 * starts at the current end of this cache. The grammar follows the cache: appended tokens advance the grammar, a
 * rewind takes it back, and a rewind to before the start of the text restarts it. So sampling may be repeated, and the
 * caller may append its own tokens if the grammar allows them; otherwise the next sampling fails with
 * RZ_ERR_INVALID_ARGUMENT. When the text is complete, tokens that end a text are allowed too. When the text cannot
 * continue, only those tokens are allowed, so rz_generate_into ends with RZ_DONE. For the next text, set the grammar
 * again. With a grammar, sampling a token allocates memory and usually takes tens of microseconds; it fails with
 * RZ_ERR_LIMIT if the work exceeds its bounds. Calls with a cache of another vocabulary fail with RZ_ERR_MISMATCH. Any
 * thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_sampler_grammar_set(rz_sampler *sampler, const rz_grammar *RZ_NULLABLE grammar, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * KV caches
 * ------------------------------------------------------------------------------------------------ */

/* KV cache of one text (its context): the tokens, their keys and values, recurrent state, and the logits after the
 * last token. Mutable: one call at a time; a second call gets RZ_ERR_BUSY. Different caches of a model work
 * concurrently. */
typedef struct rz_cache rz_cache;

/* Parameters of a cache. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_cache_params {
  uint32_t struct_size;  /* sizeof(rz_cache_params). */
  /* Capacity (context window) in tokens; 0: the model's context_length, but at most 8192. A capacity above the
   * model's context_length is logged as a warning. */
  uint32_t capacity;
  /* Element type of the keys (KV cache quantization): RZ_TYPE_F16, RZ_TYPE_Q8_0, RZ_TYPE_Q4_0 or RZ_TYPE_F32;
   * RZ_TYPE_DEFAULT: RZ_TYPE_F16.
   *
   * RZ_TYPE_F16 takes 16 bits per number: half precision on a GPU; on the CPU 14-bit integers with scales, because
   * the CPU multiplies integers faster. RZ_TYPE_Q8_0 takes 8.5 bits per number; on the CPU a Hadamard transform
   * rotates each head first, and the queries and the attention weights are rounded to 8 bits too. RZ_TYPE_Q4_0 takes
   * 4.5 bits per number; the CPU rotates and rounds as for RZ_TYPE_Q8_0, and a GPU rotates each block of 32 numbers
   * separately. Use RZ_TYPE_Q4_0 for `v_type` rather than for `k_type`: with 4-bit keys, small models choose other
   * tokens. */
  uint32_t k_type;
  uint32_t v_type;  /* Element type of the values; the same types as for `k_type`. */
} rz_cache_params;

/* Creates an empty cache. `params` may be NULL. The caller frees `*out` with rz_cache_free, before or after the model.
 * Any thread. Errors: RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT, and RZ_ERR_INVALID_ARGUMENT for
 * an unknown type or a model without weights. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cache_new(const rz_model *model,
             const rz_cache_params *RZ_NULLABLE params,
             rz_cache **out,
             rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_cache_free(rz_cache *RZ_NULLABLE cache);

/* Returns the number of tokens in the cache; while a call changes it, the number before that call. 0 for NULL. Any
 * thread, at any time. Since 0.1.0. */
RZ_API uint32_t RZ_CALL
rz_cache_len(const rz_cache *RZ_NULLABLE cache);

/* Returns the capacity of the cache in tokens. 0 for NULL. Any thread, at any time. Since 0.1.0. */
RZ_API uint32_t RZ_CALL
rz_cache_capacity(const rz_cache *RZ_NULLABLE cache);

/* Rewinds to the first `len` tokens; 0 clears the cache. There are no logits until the next token is appended. Any
 * thread. Errors: RZ_ERR_INVALID_ARGUMENT if `len` is greater than the number of tokens, RZ_ERR_BUSY, RZ_ERR_POISONED.
 * Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cache_truncate(rz_cache *cache, uint32_t len, rz_error *RZ_NULLABLE err);

/* Sets a cancellation flag that every call on the cache (prefill, decode, batches, calls that ask for logits) checks
 * in addition to the flag that is passed to the call. `cancel` may be NULL, which removes the flag. The cache keeps
 * the flag alive; later forks use it too. A batch stops if the flag of any of its caches is fired. Any thread. Errors:
 * RZ_ERR_BUSY while a call changes `cache`, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cache_cancel_set(rz_cache *cache, const rz_cancel *RZ_NULLABLE cancel, rz_error *RZ_NULLABLE err);

/* Creates a copy with the same tokens, capacity, logits, cancellation flag and adapters, independent from then on. On
 * the CPU the two caches share the memory of keys and values copy-on-write, in blocks of 256 tokens; each cache counts
 * with its whole capacity against rz_runtime_params.memory_limit. The caller frees `*out` with rz_cache_free. Any
 * thread. Errors: RZ_ERR_BUSY while a call changes `cache`, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cache_fork(const rz_cache *cache, rz_cache **out, rz_error *RZ_NULLABLE err);

/* Compares the cache with `n` tokens. `*common` receives the length of the longest common prefix to which the cache
 * can be rewound without recomputation. Recurrent layers, and sliding-window layers after a long text, can only be
 * rewound to some positions; a released cache has no such prefix.
 *
 * To continue with these tokens, call rz_cache_truncate with `*common`, then rz_prefill with the remaining tokens; if
 * no tokens remain, rewind by one more token, because the logits after the last token must be computed. Any thread.
 * Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_INVALID_ARGUMENT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cache_match(const rz_cache *cache,
               const uint32_t *RZ_NULLABLE tokens,
               size_t n,
               uint32_t *common,
               rz_error *RZ_NULLABLE err);

/* Copies the tokens of the cache.
 *
 * `*n` receives their number. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread.
 * Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cache_tokens_into(const rz_cache *cache,
                     uint32_t *RZ_NULLABLE out,
                     size_t capacity,
                     size_t *n,
                     rz_error *RZ_NULLABLE err);

/* Context shift: removes `drop` tokens after the first `keep`, to free capacity in a long conversation; later tokens
 * move `drop` positions toward the beginning.
 *
 * The cache is then bit-identical to one that never contained the removed tokens. The keys and values of a token
 * depend on all tokens before it, so the next call that needs the keys and values of the moved tokens recomputes them,
 * which takes as long as a prefill. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT if there are fewer tokens,
 * RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cache_shift(rz_cache *cache, uint32_t keep, uint32_t drop, rz_error *RZ_NULLABLE err);

/* Frees the memory of keys and values, which then no longer counts against rz_runtime_params.memory_limit. Keeps the
 * tokens and the logits. The next call that needs keys and values allocates memory again and recomputes them, which
 * takes as long as a prefill; on the CPU they are bit-identical. Because it allocates memory, that call can also fail
 * with RZ_ERR_OUT_OF_MEMORY or RZ_ERR_LIMIT. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cache_release(rz_cache *cache, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * LoRA adapters
 * ------------------------------------------------------------------------------------------------ */

/* LoRA adapter of one model (low-rank adaptation, arXiv 2106.09685): it has two low-rank factors A and B for each of
 * some weight matrices W, and the product `W x` becomes `W x + scale * alpha / rank * B (A x)`. The model's weights do
 * not change. Immutable: any number of threads and caches may use it at once. Reference-counted: it may be freed
 * before the objects that use it. */
typedef struct rz_adapter rz_adapter;

/* Parameters of rz_adapter_load and rz_adapter_load_from. Zero in a field, or NULL instead of the struct, means the
 * default. Since 0.1.0. */
typedef struct rz_adapter_params {
  uint32_t struct_size;                 /* sizeof(rz_adapter_params). */
  uint32_t flags;                       /* 0. */
  const rz_cancel *RZ_NULLABLE cancel;  /* Cancels the load when fired; may be NULL. */
} rz_adapter_params;

/* Loads a LoRA adapter for `model`.
 *
 * `path`, NUL-terminated, names a GGUF file of an adapter, or a PEFT folder with adapter_config.json and
 * adapter_model.safetensors; the format may differ from the model's. Every key of the configuration and every tensor
 * is checked: anything that would change a result and is not implemented is rejected, and the error names it. Factors
 * of embeddings and of experts are not implemented.
 *
 * Factors keep their types in memory, with one exception: single-precision factors become half precision, unless the
 * weight itself is single precision. Factors and some scratch memory count against rz_runtime_params.memory_limit.
 * `params` may be NULL. The caller frees `*out` with rz_adapter_free, before or after the model and the caches that
 * use it. Any thread; blocks while the file is read.
 *
 * Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_FORMAT (damaged, not an adapter, one of two
 * factors missing, values that are not finite), RZ_ERR_MISMATCH (an adapter of another model; the message names the
 * tensor, the expected and the actual shape), RZ_ERR_UNSUPPORTED (not implemented, such as DoRA or trained biases),
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST and RZ_ERR_DEVICE_UNAVAILABLE (failed self-test of adapter products)
 * for layers on a GPU, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT
 * for a model without weights, RZ_ERR_VERSION (unknown flags). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_adapter_load(const rz_model *model,
                const char *path,
                const rz_adapter_params *RZ_NULLABLE params,
                rz_adapter **out,
                rz_error *RZ_NULLABLE err);

/* Like rz_adapter_load, but reads `n` sources, as rz_model_load_from does: one GGUF file, or the files of a PEFT
 * folder under their names, adapter_config.json and adapter_model.safetensors. `params` may be NULL. The caller frees
 * `*out` with rz_adapter_free. Any thread. Errors: as for rz_adapter_load and rz_model_load_from. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_adapter_load_from(const rz_model *model,
                     const rz_source *RZ_NULLABLE sources,
                     size_t n,
                     const rz_adapter_params *RZ_NULLABLE params,
                     rz_adapter **out,
                     rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Caches that use the adapter keep it. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_adapter_free(rz_adapter *RZ_NULLABLE adapter);

/* Sets the LoRA adapters of a cache for all later steps: `n` adapters, each with a scale. An `n` of 0 removes all
 * adapters. If `scales` is NULL, each scale is 1. A scale may be negative, and a scale of 0 turns its adapter off.
 *
 * Clears the cache, because its contents were computed with other adapters. Later forks use the adapters too, and the
 * cache keeps the adapters alive. Caches with different adapters, or with none, can share one batch: rz_decode_batch
 * and rz_jobs_step group them. Results depend neither on other sequences of a batch nor on threads nor on prompt
 * chunks. A cache with adapters cannot be saved. Any thread.
 *
 * Errors: RZ_ERR_BUSY while a call changes the cache or a job holds it, RZ_ERR_MISMATCH for an adapter of another
 * model, RZ_ERR_INVALID_ARGUMENT for a scale that is not finite, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cache_adapters_set(rz_cache *cache,
                      rz_adapter *const *RZ_NULLABLE adapters,
                      const float *RZ_NULLABLE scales,
                      size_t n,
                      rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Saved KV caches
 * ------------------------------------------------------------------------------------------------ */

/* Receives the next `n` bytes of saved state. Returns 0, or an errno (the call then fails with RZ_ERR_IO). Runs on the
 * saving thread, during the call. It may call the library; a call that changes the saved object gets RZ_ERR_BUSY. It
 * must return normally: no longjmp, no C++ exception. */
typedef int32_t (RZ_CALL *rz_write_callback)(const void *data, size_t n, void *RZ_NULLABLE user);

/* Fills `out` with the next `n` bytes of saved state. Returns 0; RZ_ERR_FORMAT if the file ends before the last of
 * these bytes (the call then fails with RZ_ERR_FORMAT); or an errno (the call then fails with RZ_ERR_IO). Runs on the
 * loading thread, during the call. It may call the library. It must return normally: no longjmp, no C++ exception. */
typedef int32_t (RZ_CALL *rz_read_callback)(void *out, size_t n, void *RZ_NULLABLE user);

/* Saves the cache through `write`, in chunks of at most 256 KiB, on this thread: the tokens, the logits, and the KV
 * cache and recurrent state as they are in memory. A released cache (rz_cache_release) is saved without keys and
 * values.
 *
 * The saved state can be loaded by this version of the library, on a machine of the same byte order, with the same
 * model and the same division of its layers among CPU and GPUs. A fingerprint of the weights and their types
 * identifies both. A checksum detects damage. If the model is loaded with RZ_MODEL_MMAP, its fingerprint is computed
 * when it is first needed, which reads the whole model.
 *
 * Only reads the cache: several such calls may run at once. `cancel` ends the call before the next chunk, and may be
 * NULL. Any thread. Errors: RZ_ERR_IO (`write` returned an errno: rz_error.system_code), RZ_ERR_UNSUPPORTED for a
 * cache with adapters, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since
 * 0.1.0. */
RZ_API rz_status RZ_CALL
rz_cache_save(const rz_cache *cache,
              rz_write_callback write,
              void *RZ_NULLABLE user,
              const rz_cancel *RZ_NULLABLE cancel,
              rz_error *RZ_NULLABLE err);

/* Creates a cache from the state that rz_cache_save has written; `read` returns it in the same order, in chunks of any
 * size, on this thread. The new cache continues bit-identically to the saved cache.
 *
 * `params` may be NULL; zero in one of its fields means the saved value. Another capacity must be large enough for the
 * tokens; types other than the saved types are rejected. `cancel` ends the call before the next chunk, and may be
 * NULL. The caller frees `*out` with rz_cache_free, before or after the model. Any thread. Errors: RZ_ERR_IO (`read`
 * returned an errno), RZ_ERR_FORMAT (not a saved cache, or a damaged or truncated one), RZ_ERR_VERSION (saved by
 * another version), RZ_ERR_MISMATCH (another model, other types, or a capacity for which the model scales its rotary
 * positions differently), RZ_ERR_CONTEXT_FULL, RZ_ERR_INVALID_ARGUMENT, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE,
 * RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cache_load(const rz_model *model,
              const rz_cache_params *RZ_NULLABLE params,
              rz_read_callback read,
              void *RZ_NULLABLE user,
              const rz_cancel *RZ_NULLABLE cancel,
              rz_cache **out,
              rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Memory planning
 * ------------------------------------------------------------------------------------------------ */

/* Memory that a model and its caches take, in bytes. Since 0.1.0. */
typedef struct rz_model_plan {
  uint32_t struct_size;     /* sizeof(rz_model_plan), set by the caller. */
  uint32_t gpu_layers;      /* Number of layers on GPUs. */
  uint64_t weights_host;    /* Weights in host memory, as they are packed. */
  uint64_t weights_device;  /* Weights on GPUs. */
  uint64_t cache_host;      /* Host memory of one KV cache at full capacity: keys, values, tokens and logits. */
  uint64_t cache_device;    /* GPU memory of one KV cache at full capacity. */
  uint64_t cache_token;     /* Bytes that one more token of capacity adds to a cache. */
  /* Scratch memory of one full-size step. With several threads, a model runs one such step at a time; up to eight
   * concurrent steps of at most 16 tokens take less in addition. In a runtime with one thread, each concurrent step
   * takes this much. */
  uint64_t scratch_host;
  uint64_t scratch_device;  /* Scratch memory on GPUs. */
  uint64_t load_peak_host;  /* Peak host memory during the load. */
  uint64_t total_host;      /* Total host memory: the model, its tokenizer, scratch memory and all caches. */
  /* Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates when it records
   * repeated steps of one token (CUDA graphs). */
  uint64_t total_device;
  uint32_t experts_host_first;  /* First GPU layer whose experts are on the CPU, from 0. */
  /* Number of layers from `experts_host_first` to the last layer whose experts are on the CPU; 0: none. */
  uint32_t experts_host_layers;
  uint64_t experts_host;    /* Part of weights_host: experts of layers on GPUs. */
  uint64_t experts_device;  /* Part of weights_device: experts. */
} rz_model_plan;

/* Part of a plan on one GPU, in bytes. Since 0.1.0. */
typedef struct rz_model_plan_device {
  uint32_t struct_size;  /* sizeof(rz_model_plan_device), set by the caller in every element of the array. */
  uint32_t device;       /* Index of the device. */
  uint32_t n_layers;     /* Number of layers on the GPU. */
  uint32_t reserved;     /* 0. */
  uint64_t weights;      /* Part of rz_model_plan.weights_device. */
  uint64_t cache;        /* Part of rz_model_plan.cache_device. */
  uint64_t scratch;      /* Part of rz_model_plan.scratch_device. */
  uint64_t total;        /* Part of rz_model_plan.total_device. */
} rz_model_plan_device;

/* Computes the memory that a load with these parameters and `n_caches` caches will take, before weights are read. The
 * call reads metadata and tokenizer, and temporarily reserves the scratch memory of a step and one cache on the host.
 * On a GPU it reserves nothing, but it creates a context, which takes memory for the driver. Layers are placed by the
 * memory that is free now: a later load that finds less memory places fewer layers, or fails with
 * RZ_ERR_DEVICE_OUT_OF_MEMORY if rz_model_params.gpu_layers was set.
 *
 * The model is either `path` (NUL-terminated, as for rz_model_load) or `n` sources (as for rz_model_load_from, with
 * `path` NULL). `path`, `params` and `cache_params` may be NULL. The caller sets `out->struct_size`.
 *
 * `devices`, an array of `capacity` elements whose struct_size the caller has set, receives one element for each GPU
 * that has layers, in the order of the layers. `*n_devices` receives the number of these GPUs, at most RZ_DEVICES_MAX.
 * `devices` and `n_devices` may be NULL with a `capacity` of 0; otherwise, if `capacity` is too small, the call
 * returns RZ_ERR_BUFFER_TOO_SMALL.
 *
 * The plan counts KV cache pages that no token has reached yet, and page-locked host memory. It does not count thread
 * stacks, the C library, and the driver. The numbers may exceed the memory of this machine or
 * rz_runtime_params.memory_limit: a plan reserves nothing. A memory limit of `total_host` suffices for the load and
 * the caches; `load_peak_host` does not count against the limit. Any thread. Errors: as for rz_model_load and
 * rz_cache_new except RZ_ERR_LIMIT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_model_plan_get(const char *RZ_NULLABLE path,
                  const rz_source *RZ_NULLABLE sources,
                  size_t n,
                  const rz_model_params *RZ_NULLABLE params,
                  const rz_cache_params *RZ_NULLABLE cache_params,
                  uint32_t n_caches,
                  rz_model_plan *RZ_NULLABLE out,
                  rz_model_plan_device *RZ_NULLABLE devices,
                  size_t capacity,
                  size_t *RZ_NULLABLE n_devices,
                  rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Generation: prefill and decode
 * ------------------------------------------------------------------------------------------------ */

/* Prefill: appends `n` prompt tokens, at least one, and computes the logits after the last one.
 *
 * `cancel` may be NULL; it applies in addition to rz_cache_cancel_set. A call that fails leaves the cache unchanged.
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (no token, or one outside the vocabulary), RZ_ERR_CONTEXT_FULL,
 * RZ_ERR_CANCELLED, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_prefill(rz_cache *cache,
           const uint32_t *RZ_NULLABLE tokens,
           size_t n,
           const rz_cancel *RZ_NULLABLE cancel,
           rz_error *RZ_NULLABLE err);

/* Decode: appends `token` and writes the next token to `*next`. `sampler` may be NULL, for the most likely token
 * (greedy decoding). A GPU samples the token, with the same result as the host, and transfers only the token id, under
 * the conditions in rz_sampler_params; otherwise the host samples. If the program asks for logits after a GPU has
 * sampled, the last token is computed again.
 *
 * A call that fails leaves the cache unchanged. Any thread. Errors: as for rz_prefill. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_decode_token(rz_cache *cache,
                uint32_t token,
                rz_sampler *RZ_NULLABLE sampler,
                uint32_t *next,
                rz_error *RZ_NULLABLE err);

/* Generates tokens: appends `token`, then each token that it writes to `out` except the last, until `capacity` tokens
 * are written (RZ_OK) or a token ends a turn or the text (RZ_DONE; that token is in `out`). With one call for many
 * tokens, a GPU can begin a step before the host has received the previous token.
 *
 * `*n` receives the number of tokens written. To continue, call again with the last token. A call that fails midway,
 * or is cancelled, keeps the tokens it generated: they are in `out`, counted in `*n`, and all but the last are in the
 * cache. `sampler` and `cancel` may be NULL. Any thread. Errors: as for rz_prefill. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_generate_into(rz_cache *cache,
                 uint32_t token,
                 rz_sampler *RZ_NULLABLE sampler,
                 uint32_t *RZ_NULLABLE out,
                 size_t capacity,
                 size_t *n,
                 const rz_cancel *RZ_NULLABLE cancel,
                 rz_error *RZ_NULLABLE err);

/* Batched decode: `rz_decode_token` for `n` caches of one model in one pass over the weights. Appends token i to cache
 * i, and writes its next token to next[i].
 *
 * `samplers` may be NULL, and so may each of its `n` entries; `next` may be `tokens`. With `n` 0 the call does
 * nothing, and all pointers may be NULL. Each cache and each sampler may occur only once. A call that fails leaves all
 * caches unchanged. Any thread. Errors: as for rz_prefill, and RZ_ERR_MISMATCH for caches of different models. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_decode_batch(rz_cache *const *RZ_NULLABLE caches,
                const uint32_t *RZ_NULLABLE tokens,
                size_t n,
                rz_sampler *const *RZ_NULLABLE samplers,
                uint32_t *next,
                rz_error *RZ_NULLABLE err);

/* Copies the logits after the last token, one float for each token of the vocabulary. Logits on a GPU are fetched
 * first, so the cache is not const.
 *
 * `*n` receives their number. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread.
 * Errors: RZ_ERR_NOT_READY if there are no logits: before the first token and after a rewind; RZ_ERR_CANCELLED,
 * RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_logits_into(rz_cache *cache, float *RZ_NULLABLE out, size_t capacity, size_t *n, rz_error *RZ_NULLABLE err);

/* Samples a token from the current logits of `cache` without appending it. `sampler` may be NULL, for the most likely
 * token.
 *
 * Any thread. Errors: as for rz_logits_into, RZ_ERR_CANCELLED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_sample(rz_cache *cache, rz_sampler *RZ_NULLABLE sampler, uint32_t *token, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Multimodal input
 * ------------------------------------------------------------------------------------------------ */

enum rz_media_kind {
  RZ_MEDIA_IMAGE = 1,  /* Kind of media: an image. */
  RZ_MEDIA_AUDIO = 2,  /* Kind of media: audio. */
  RZ_MEDIA_TEXT = 4,   /* Kind of media: the source text of an encoder-decoder model. */
  /* Kind of media: an image embedding from a CLIP or SigLIP encoder. It has one row of length 1, with as many floats as
   * an embedding of rz_embed_into by the same model; the dot product of the two embeddings is the similarity of image
   * and text. Prompts reject it (RZ_ERR_UNSUPPORTED), and rz_media_from_rows does not create it. Since 0.1.0. */
  RZ_MEDIA_VECTOR = 8,
  /* Kind of media: frames of a video (rz_media_from_frames). rz_media_from_rows does not create it. Since 0.1.0. */
  RZ_MEDIA_VIDEO = 16,
};

/* Stands for a row of an image, audio, video or source text in lists of token ids that the library returns; no call
 * accepts it as a token. */
#define RZ_TOKEN_MEDIA 0xFFFFFFFEu

/* Encoded image, audio, video or source text: rows of embeddings that take the place of tokens. Created once, used in
 * any number of prompts, caches and jobs. Immutable once rz_media_step is done: any number of calls may use it at
 * once. */
typedef struct rz_media rz_media;

/* Description of a media item. Since 0.1.0. */
typedef struct rz_media_info {
  uint32_t struct_size;  /* sizeof(rz_media_info), set by the caller. */
  uint32_t kind;         /* RZ_MEDIA_... */
  uint32_t n_rows;       /* Number of rows, each of which takes the place of a token in a cache. */
  /* Number of prompt tokens that the media item takes: its rows, and the model's tokens around and between the rows. */
  uint32_t n_tokens;
  uint32_t row_dim;  /* Number of floats per row. */
  /* Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of video frames. */
  uint32_t columns;
  uint32_t lines;         /* Number of lines of a tile. */
  uint32_t tile_columns;  /* Number of tiles horizontally; 0 if the image is one tile. */
  uint32_t tile_lines;    /* Number of tiles vertically; 0 if the image is one tile. */
  uint32_t has_overview;  /* 1 if an additional tile shows the whole image. */
  /* Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a media item that
   * was created from rows. */
  uint32_t width;
  uint32_t height;  /* Height in pixels; 0 for audio and for a media item that was created from rows. */
  /* Width in pixels of all tiles together, as the model sees them. Programs need it to convert coordinates in the
   * model's output to pixels of the image. For audio the number of samples at the rate of the encoder. */
  uint32_t seen_width;
  uint32_t seen_height;  /* Height in pixels of all tiles together; 0 for audio. */
  uint64_t bytes;        /* Bytes of memory. */
  uint64_t encode_ns;    /* Time of the encoding in nanoseconds. */
  /* Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may use it as a cache
   * key. */
  uint8_t hash[32];
  /* Number of frame pairs of a video, each of which has `lines` lines of `columns` rows; 0 for other media. */
  uint32_t pairs;
  uint32_t reserved;  /* 0. */
} rz_media_info;

/* Creates a media item from the output of the caller's own encoder: `n_rows` rows of `row_dim` floats, which are
 * copied. The rows are one image or one audio clip, according to `kind` (RZ_MEDIA_...).
 *
 * `columns` times `lines` is `n_rows`, for models with two-dimensional positions; 0 for both: one line. `row_dim` is
 * rz_model_info.hidden_dim, or a multiple of it for a model that also adds rows to deeper layers (DeepStack): one more
 * hidden_dim for each of these layers. The caller frees `*out` with rz_media_free, before or after the model. Any
 * thread. Errors: RZ_ERR_INVALID_ARGUMENT (no rows, rows of another width, a value that is not finite, an unknown
 * kind), RZ_ERR_UNSUPPORTED (a model without media input), RZ_ERR_LIMIT (also if the rows attend to each other
 * (bidirectional attention) and one step cannot take all of them), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_rows(const rz_model *model,
                   uint32_t kind,
                   const float *RZ_NULLABLE rows,
                   size_t n_rows,
                   uint32_t row_dim,
                   uint32_t columns,
                   uint32_t lines,
                   rz_media **out,
                   rz_error *RZ_NULLABLE err);

/* Creates a media item from a source text: `n` tokens for an encoder-decoder model (T5, Flan-T5, mT5;
 * rz_model_info.reads_source), which generates another text from it, such as a translation.
 *
 * The encoder processes all tokens in one step, unchanged: let rz_tokenize_into add the end token
 * (RZ_TOKENIZE_ADD_SPECIAL). The media item consists of the encoder's output rows and the start token of the decoder,
 * so a job or rz_prefill_prompt needs only a prompt with this one part (rz_prompt_new). A cache of such a model begins
 * with one source text, whose rows count as tokens of the cache's capacity. The cache keeps this source until it is
 * rewound to 0; prompts of another form fail with RZ_ERR_INVALID_ARGUMENT. The caller frees `*out` with rz_media_free,
 * before or after the model. `cancel` may be NULL. Any thread. Errors: RZ_ERR_UNSUPPORTED (not an encoder-decoder
 * model), RZ_ERR_INVALID_ARGUMENT (no tokens, more than the model's context_length, a token outside the vocabulary),
 * RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_tokens(const rz_model *model,
                     const uint32_t *RZ_NULLABLE tokens,
                     size_t n,
                     const rz_cancel *RZ_NULLABLE cancel,
                     rz_media **out,
                     rz_error *RZ_NULLABLE err);

/* Describes a media item. The caller sets `out->struct_size`. Before rz_media_step is done, encode_ns covers the steps
 * so far, and the hash is zero until pixels or samples are prepared for the encoder. Any thread, also during a step.
 * Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_info_get(const rz_media *media, rz_media_info *out, rz_error *RZ_NULLABLE err);

/* Copies the rows of a media item, `[n_rows][row_dim]`.
 *
 * `*n` receives the number of floats. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any
 * thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_NOT_READY (before rz_media_step is done). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_rows_into(const rz_media *media,
                   float *RZ_NULLABLE out,
                   size_t capacity,
                   size_t *n,
                   rz_error *RZ_NULLABLE err);

/* Saves a media item through `write`, like rz_cache_save; `cancel` may be NULL. Any thread. Errors: RZ_ERR_IO (`write`
 * returned an errno), RZ_ERR_INVALID_ARGUMENT, RZ_ERR_NOT_READY (before rz_media_step is done), RZ_ERR_CANCELLED,
 * RZ_ERR_DEADLINE, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_media_save(const rz_media *media,
              rz_write_callback write,
              void *RZ_NULLABLE user,
              const rz_cancel *RZ_NULLABLE cancel,
              rz_error *RZ_NULLABLE err);

/* Creates a media item from the state that rz_media_save has written, like rz_cache_load; no encoder is needed.
 * `cancel` may be NULL. The caller frees `*out` with rz_media_free. Any thread. Errors: RZ_ERR_IO (`read` returned an
 * errno), RZ_ERR_FORMAT (not a saved media item, or a damaged one), RZ_ERR_VERSION, RZ_ERR_MISMATCH (saved for another
 * model), RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_load(const rz_model *model,
              rz_read_callback read,
              void *RZ_NULLABLE user,
              const rz_cancel *RZ_NULLABLE cancel,
              rz_media **out,
              rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Prompts and caches that use the media item keep it. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_media_free(rz_media *RZ_NULLABLE media);

/* ------------------------------------------------------------------------------------------------
 * Vision and audio encoders, images
 * ------------------------------------------------------------------------------------------------ */

enum rz_encoder_flag {
  RZ_ENCODER_IMAGE = 1,  /* Encoder flag: the vision encoder of a file that has an audio encoder too. */
  RZ_ENCODER_AUDIO = 2,  /* Encoder flag: the audio encoder of a file that has a vision encoder too. */
};

enum rz_pixel_format {
  RZ_PIXELS_RGB8 = 1,  /* Format of pixels: three bytes, red first. */
  /* Format of pixels: four bytes, red first, then alpha: transparent pixels show rz_media_params.background. */
  RZ_PIXELS_RGBA8 = 2,
  RZ_PIXELS_BGRA8 = 3,  /* Format of pixels: four bytes, blue first, then alpha. */
  RZ_PIXELS_GRAY8 = 4,  /* Format of pixels: one byte. */
};

enum rz_encode_flag {
  RZ_ENCODE_STEPS = 1,  /* Flag of a media item: only prepare it; rz_media_step encodes it in time slices. */
};

/* Vision or audio encoder of a multimodal model, with the projector (mmproj) that maps its output to the width of the
 * model's embeddings. Immutable: any number of calls may use it at once. */
typedef struct rz_encoder rz_encoder;

/* Parameters of an encoder. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_encoder_params {
  uint32_t struct_size;  /* sizeof(rz_encoder_params). */
  /* RZ_ENCODER_... and RZ_MODEL_ALLOW_UNKNOWN, combined with |. Without RZ_ENCODER_... the vision encoder is loaded,
   * or the audio encoder if there is no vision encoder. */
  uint32_t flags;
  /* Index of a device: the CPU or a GPU, which need not be a device of the model; 0: automatic choice, which
   * rz_encoder_info.device reports. The automatic choice is the model's first GPU if the encoder, an image or audio
   * clip of `max_rows` rows, and a cache of default capacity and a step of the model fit into its free memory;
   * otherwise, and if the GPU fails in any way, the CPU. On a GPU that is named here, a lack of memory fails the
   * load, or later the call that encodes, with RZ_ERR_DEVICE_OUT_OF_MEMORY. An encoder without GPU kernels stays on
   * the CPU in either case, and the log has the reason. */
  uint32_t device;
  /* Element type to which float matrices are quantized, as rz_model_params.quantize; RZ_TYPE_DEFAULT: the matrices
   * keep the types of the file. */
  uint32_t quantize;
  /* Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096. */
  uint32_t max_rows;
  uint32_t reserved;                          /* 0. */
  rz_progress_callback RZ_NULLABLE progress;  /* Load progress callback, in bytes; may be NULL. */
  void *RZ_NULLABLE progress_user;            /* Passed to `progress`. */
  const rz_cancel *RZ_NULLABLE cancel;        /* Cancels the load when fired; may be NULL. */
} rz_encoder_params;

/* Description of an encoder. Since 0.1.0. */
typedef struct rz_encoder_info {
  uint32_t struct_size;  /* sizeof(rz_encoder_info), set by the caller. */
  /* 1: the rows of an image attend to each other (bidirectional attention), so one step of the model must compute
   * all of them. */
  uint32_t is_mutual;
  char projector[32];  /* Kind of the projector, such as "qwen3vl_merger" or "voxtral". */
  /* Number of floats per row: the model's hidden_dim, plus hidden_dim for each deeper layer to which rows are added
   * (DeepStack); for RZ_MEDIA_VECTOR the dimension of an embedding from rz_embed_into. */
  uint32_t row_dim;
  uint32_t n_layers;  /* Layers of the encoder. */
  /* Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an audio encoder. */
  uint32_t tile_side;
  uint32_t grain;         /* The sides of tiles are multiples of this number of pixels; 0 for audio. */
  uint32_t min_rows;      /* Minimum number of rows of an image or an audio clip. */
  uint32_t max_rows;      /* Maximum number of rows of an image or an audio clip. */
  uint64_t weight_bytes;  /* Bytes of weights in memory, on the CPU or the GPU. */
  /* Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio clip. */
  uint64_t scratch_bytes;
  uint32_t kinds;        /* Kinds of media that the encoder encodes: RZ_MEDIA_... bits, combined with |. */
  uint32_t sample_rate;  /* Sample rate in Hz to which audio is resampled; 0 for images. */
  uint32_t device;       /* Index of the device that the encoder was loaded to. */
  uint32_t reserved;     /* 0. */
} rz_encoder_info;

/* Memory that an encoder takes in addition to its model, in bytes. Since 0.1.0. */
typedef struct rz_encoder_plan {
  uint32_t struct_size;     /* sizeof(rz_encoder_plan), set by the caller. */
  uint32_t max_rows;        /* Number of rows of the largest image, or of the longest audio clip. */
  uint64_t weights_host;    /* Weights in host memory, as they are packed. */
  uint64_t scratch_host;    /* Maximum scratch memory of a call that encodes an image or an audio clip. */
  uint64_t row;             /* One row of a media item. */
  uint64_t weights_device;  /* Weights on a GPU. */
  /* Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder keeps the scratch
   * memory of one call for the next one; calls at the same time take this much each. */
  uint64_t scratch_device;
  uint32_t device;    /* Index of the device that the load would choose. */
  uint32_t reserved;  /* 0. */
} rz_encoder_plan;

/* Image in memory, top row first. Since 0.1.0. */
typedef struct rz_pixels {
  uint32_t struct_size;          /* sizeof(rz_pixels). */
  uint32_t format;               /* RZ_PIXELS_... */
  uint32_t width;                /* Width in pixels, 1 to 65535. */
  uint32_t height;               /* Height in pixels, 1 to 65535. */
  size_t stride;                 /* Bytes from one row to the next; 0: rows are contiguous. */
  const void *RZ_NULLABLE data;  /* First byte. Read during the call only. */
} rz_pixels;

/* Parameters for encoding media. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_media_params {
  uint32_t struct_size;  /* sizeof(rz_media_params). */
  /* Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the model's. */
  uint32_t min_rows;
  /* Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's. */
  uint32_t max_rows;
  uint32_t max_tiles;  /* Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image. */
  /* Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million. */
  uint32_t max_pixels;
  uint32_t flags;  /* RZ_ENCODE_STEPS, or 0. */
  /* Progress callback: finished tiles and their total, several times per second; may be NULL. With RZ_ENCODE_STEPS
   * rz_media_step calls it. */
  rz_progress_callback RZ_NULLABLE progress;
  void *RZ_NULLABLE progress_user;  /* Passed to `progress`. */
  /* Cancels the call when fired; may be NULL. With RZ_ENCODE_STEPS it cancels the steps of the media item, which
   * keeps it alive. */
  const rz_cancel *RZ_NULLABLE cancel;
  uint32_t background;  /* Background color of transparent pixels, 0xffRRGGBB; 0: white. */
  uint32_t reserved;    /* 0. */
} rz_media_params;

/* Loads the vision or audio encoder of `model`.
 *
 * `path`, NUL-terminated, names the .gguf file with the projector ("mmproj-..."), or a folder with a config.json: the
 * model's own folder if it contains both. Weights in host memory count against rz_runtime_params.memory_limit; the
 * encoder uses the model's thread pool, and a GPU context of its own. `params` may be NULL. The caller frees `*out`
 * with rz_encoder_free, before or after the model. Any thread; blocks while the files are read. Errors: RZ_ERR_IO,
 * RZ_ERR_FORMAT (damaged, or inconsistent sizes), RZ_ERR_UNSUPPORTED (no encoder, a projector that is not implemented,
 * which the message names), RZ_ERR_MISMATCH (the encoder's row width does not fit the model, or the model's vocabulary
 * lacks the tokens around images or audio), RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_UNAVAILABLE,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_INVALID_ARGUMENT (a model without weights, a device that does
 * not exist), RZ_ERR_VERSION. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_encoder_load(const rz_model *model,
                const char *path,
                const rz_encoder_params *RZ_NULLABLE params,
                rz_encoder **out,
                rz_error *RZ_NULLABLE err);

/* Like rz_encoder_load, but reads `n` sources, as rz_model_load_from does. The caller frees `*out` with
 * rz_encoder_free. Any thread. Errors: as for rz_encoder_load and rz_model_load_from. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_encoder_load_from(const rz_model *model,
                     const rz_source *RZ_NULLABLE sources,
                     size_t n,
                     const rz_encoder_params *RZ_NULLABLE params,
                     rz_encoder **out,
                     rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Media that it encoded stay usable. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_encoder_free(rz_encoder *RZ_NULLABLE encoder);

/* Describes an encoder. The caller sets `out->struct_size`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_encoder_info_get(const rz_encoder *encoder, rz_encoder_info *out, rz_error *RZ_NULLABLE err);

/* Computes the memory that rz_encoder_load of the NUL-terminated `path`, or rz_encoder_load_from of `n` sources (with
 * `path` NULL), would take, without reading weights. `path` and `params` may be NULL. The caller sets
 * `out->struct_size`. The call succeeds even if the plan exceeds rz_runtime_params.memory_limit. Any thread. Errors:
 * as for rz_encoder_load except RZ_ERR_LIMIT, and RZ_ERR_INVALID_ARGUMENT for both a path and sources. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_encoder_plan_get(const rz_model *model,
                    const char *RZ_NULLABLE path,
                    const rz_source *RZ_NULLABLE sources,
                    size_t n,
                    const rz_encoder_params *RZ_NULLABLE params,
                    rz_encoder_plan *out,
                    rz_error *RZ_NULLABLE err);

/* Encodes an image in memory.
 *
 * The image is resized, tiled and normalized as in the model's reference implementation. The result depends neither on
 * threads nor on other calls; on a GPU it differs by rounding from the CPU's. `params` may be NULL. The caller frees
 * `*out` with rz_media_free, before or after the encoder. Rows count against rz_runtime_params.memory_limit, and so
 * does scratch memory until the call is done. Any thread, any number at once. Errors: RZ_ERR_INVALID_ARGUMENT (no
 * pixels, a stride that is too small, an aspect ratio that the model does not accept), RZ_ERR_UNSUPPORTED (an audio
 * encoder), RZ_ERR_LIMIT (also too many rows), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST,
 * RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_VERSION. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_pixels(const rz_encoder *encoder,
                     const rz_pixels *pixels,
                     const rz_media_params *RZ_NULLABLE params,
                     rz_media **out,
                     rz_error *RZ_NULLABLE err);

/* Like rz_media_from_pixels, for `size` bytes of a PNG, JPEG, WebP, GIF or BMP file. The first bytes of the file
 * identify its format. Only the first frame of an animation is encoded.
 *
 * The image is turned upright by the orientation in the file (EXIF or XMP). Transparent pixels show `background`,
 * 16-bit samples become 8-bit, and colors are not converted. A fired rz_cancel or a passed deadline ends the call, but
 * only before or after the decoding of a WebP or progressive JPEG file, which takes up to 1.7 s for 64 million pixels.
 * A truncated file is rejected; changed bits within its data can go unnoticed. The caller frees `*out` with
 * rz_media_free. Any thread. Errors: as for rz_media_from_pixels, and RZ_ERR_FORMAT (damaged), RZ_ERR_UNSUPPORTED
 * (another format, such as HEIC, AVIF, TIFF or SVG, which the message names), RZ_ERR_LIMIT (more than `max_pixels`).
 * Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_image(const rz_encoder *encoder,
                    const void *RZ_NULLABLE data,
                    size_t size,
                    const rz_media_params *RZ_NULLABLE params,
                    rz_media **out,
                    rz_error *RZ_NULLABLE err);

/* Computes the rz_media_info of an image of `width` by `height` pixels without encoding it: rows, tokens, tiles and
 * sizes; time and hash are 0. With an audio encoder `width` is the number of samples per channel at the rate of the
 * encoder, and `height` 0. `params` may be NULL. The caller sets `out->struct_size`. Any thread. Errors: as for
 * rz_media_from_pixels, or rz_media_from_samples. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_measure(const rz_encoder *encoder,
                 uint32_t width,
                 uint32_t height,
                 const rz_media_params *RZ_NULLABLE params,
                 rz_media_info *out,
                 rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Audio
 * ------------------------------------------------------------------------------------------------ */

/* Encodes audio: `n` interleaved samples of `channels` channels, with a full scale from -1 to 1, at `rate` Hz.
 *
 * Several channels are averaged, as in the models' reference implementations when they load files. Audio is resampled
 * to rz_encoder_info.sample_rate. Long audio is encoded in parts, of 30 seconds in most models. Of `params`, which may
 * be NULL, only `max_rows`, `flags`, `progress` (in parts) and `cancel` apply. The result depends neither on threads
 * nor on other calls. The caller frees `*out` with rz_media_free, before or after the encoder. Rows count against
 * rz_runtime_params.memory_limit, and so does scratch memory until the call is done. Any thread, any number at once.
 * Errors: RZ_ERR_INVALID_ARGUMENT (no samples, too few samples for a row, a sample that is not finite or above a
 * million, channels other than 1 to 64 or of unequal length, a rate outside of 4000 to 384000), RZ_ERR_UNSUPPORTED (a
 * vision encoder), RZ_ERR_LIMIT (also too many rows), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE,
 * RZ_ERR_VERSION. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_samples(const rz_encoder *encoder,
                      const float *RZ_NULLABLE samples,
                      size_t n,
                      uint32_t channels,
                      uint32_t rate,
                      const rz_media_params *RZ_NULLABLE params,
                      rz_media **out,
                      rz_error *RZ_NULLABLE err);

/* Like rz_media_from_samples, for `size` bytes of a WAV file (integers of up to 32 bits, floats, A-law, mu-law or
 * ADPCM), an MP3, a FLAC or an Ogg file (Vorbis or FLAC). The first bytes of the file identify its format.
 *
 * Several channels are averaged. A truncated WAV or FLAC file is rejected, unless its header leaves the length open.
 * Even with RZ_ENCODE_STEPS the file is decoded within this call, because its length determines the rows; a fired
 * rz_cancel or a passed deadline ends the call. The caller frees `*out` with rz_media_free. Any thread. Errors: as for
 * rz_media_from_samples, and RZ_ERR_FORMAT (damaged), RZ_ERR_UNSUPPORTED (another format, such as MP4, Opus or AIFF,
 * which the message names). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_audio(const rz_encoder *encoder,
                    const void *RZ_NULLABLE data,
                    size_t size,
                    const rz_media_params *RZ_NULLABLE params,
                    rz_media **out,
                    rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Video
 * ------------------------------------------------------------------------------------------------ */

/* Encodes a video: `n` frames (at least two) of the same size, and for each frame its time in seconds from the
 * beginning of the video, in ascending order.
 *
 * The host decodes the video and selects frames; most models were trained with two frames per second. Frames are
 * encoded in pairs; an odd last frame is repeated. Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen 3.5 accept videos (see
 * rz_encoder_info.kinds); for other models, pass frames as images. `frames` is an array of structs with equal
 * `struct_size`. Of `params`, which may be NULL, `max_tiles` and `max_pixels` do not apply, and the other limits are
 * for all frames together; `progress` counts pairs. With RZ_ENCODE_STEPS the number of rows is known before the work
 * is done (rz_media_info_get). The result depends neither on threads nor on other calls. The caller frees `*out` with
 * rz_media_free, before or after the encoder. Frames are read during the call only. Any thread, any number at once.
 * Errors: as for rz_media_from_pixels, RZ_ERR_INVALID_ARGUMENT (also fewer than two frames, frames of different sizes,
 * times that decrease, are negative or above a million; the message has the number of the frame), RZ_ERR_UNSUPPORTED
 * (an encoder without video input). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_from_frames(const rz_encoder *encoder,
                     const rz_pixels *RZ_NULLABLE frames,
                     const double *RZ_NULLABLE times,
                     size_t n,
                     const rz_media_params *RZ_NULLABLE params,
                     rz_media **out,
                     rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Media in time slices
 * ------------------------------------------------------------------------------------------------ */

/* Works for about `budget_us` microseconds on a media item that was created with RZ_ENCODE_STEPS: with 0 for one chunk
 * of work, with RZ_NO_LIMIT until the media item is done. RZ_AGAIN: more work remains; RZ_DONE: the media item is
 * ready, like media created without the flag. Before that, prompts reject the media item.
 *
 * A step pauses between two chunks of work; the pauses do not change the rows. A fired rz_cancel, a passed deadline or
 * a non-zero result of `progress` also pauses the step. The next rz_media_step continues the work; after a fired
 * rz_cancel or a passed deadline, only once rz_cancel_reset was called. Any thread, one call at a time. Errors:
 * RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_FORMAT
 * (weights have made a row NaN or infinite), RZ_ERR_INVALID_ARGUMENT. After an error other than the first four the
 * media item is unusable. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_media_step(rz_media *media, uint64_t budget_us, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Multimodal prompts
 * ------------------------------------------------------------------------------------------------ */

enum rz_prompt_flag {
  /* Flag of rz_prompt_new: only the rows of media, without the model's tokens around and between them. */
  RZ_PROMPT_BARE = 1,
};

/* Sequence of tokens and media. Immutable: any number of calls may use it at once. */
typedef struct rz_prompt rz_prompt;

/* Part of a prompt: either tokens or a media item; the other is NULL. The layout of this struct never changes. Since
 * 0.1.0. */
typedef struct rz_part {
  const uint32_t *RZ_NULLABLE tokens;  /* Tokens, which are copied; NULL for a media item. */
  size_t n_tokens;                     /* Number of `tokens`. */
  /* A media item, which the prompt keeps alive; NULL for tokens. It may occur several times. */
  const rz_media *RZ_NULLABLE media;
} rz_part;

/* Creates a prompt of `n` parts. The caller frees `*out` with rz_prompt_free, before or after the model and its media.
 *
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a part with both tokens and a media item, or neither, a token outside
 * the vocabulary; the message has the number of the part), RZ_ERR_NOT_READY (a media item whose rz_media_step is not
 * done), RZ_ERR_MISMATCH (a media item of another model), RZ_ERR_UNSUPPORTED (a media item of the kind
 * RZ_MEDIA_VECTOR), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_VERSION (unknown flags). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_prompt_new(const rz_model *model,
              const rz_part *RZ_NULLABLE parts,
              size_t n,
              uint32_t flags,
              rz_prompt **out,
              rz_error *RZ_NULLABLE err);

/* Creates a prompt from a conversation in the JSON of rz_chat_render_into. The content of a message may also have
 * parts of the types "image", "audio" and "video" with a member "media", the number of one of the `n_media` media:
 *
 * {"role": "user", "content": [{"type": "image", "media": 0}, {"type": "text", "text": "What is this?"}]}
 *
 * "image_url" is read as "image", "input_audio" as "audio" and "video_url" as "video"; other members of such a part
 * are ignored. Each media item must occur in at least one part. The media item replaces the placeholder that the
 * template writes. The call adds the model's tokens around media unless the template writes them itself. For a
 * template without support for parts the content is a text, and the media item takes the place of its part.
 * Placeholders that messages spell are plain text, like all special tokens (rz_chat_tokenize_into). `flags` are the
 * flags of rz_chat_tokenize_into, and the prompt begins with the same tokens. `cancel` stops the call and may be NULL.
 * The caller frees `*out` with rz_prompt_free. Any thread. Errors: as for rz_chat_render_into and rz_prompt_new;
 * RZ_ERR_INVALID_ARGUMENT (a part without a media item or with a media item of another kind, a media item without a
 * part), RZ_ERR_NOT_READY (a media item whose rz_media_step is not done), RZ_ERR_UNSUPPORTED (the template leaves a
 * media item out). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_prompt_from_chat(const rz_model *model,
                    const char *RZ_NULLABLE json,
                    size_t json_len,
                    uint32_t flags,
                    rz_media *const *RZ_NULLABLE media,
                    size_t n_media,
                    const rz_cancel *RZ_NULLABLE cancel,
                    rz_prompt **out,
                    rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_prompt_free(rz_prompt *RZ_NULLABLE prompt);

/* Returns the number of tokens of the prompt, where each row of a media item counts as one. 0 for NULL. Any thread.
 * Since 0.1.0. */
RZ_API size_t RZ_CALL
rz_prompt_len(const rz_prompt *RZ_NULLABLE prompt);

/* Copies the tokens of the prompt, with RZ_TOKEN_MEDIA for each row of a media item.
 *
 * `*n` receives their number. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL. Any thread.
 * Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_prompt_tokens_into(const rz_prompt *prompt,
                      uint32_t *RZ_NULLABLE out,
                      size_t capacity,
                      size_t *n,
                      rz_error *RZ_NULLABLE err);

/* Like rz_cache_match, for a prompt. Rows are equal if their media have the same hash. If the rows of an image attend
 * to each other, the result is never between two rows of that image. Any thread. Errors: as for rz_cache_match,
 * RZ_ERR_MISMATCH (a prompt of another model). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_cache_match_prompt(const rz_cache *cache, const rz_prompt *prompt, uint32_t *common, rz_error *RZ_NULLABLE err);

/* Prefill of a prompt: appends its tokens from number `first` on, at least one. `first` is 0, or the result of
 * rz_cache_match_prompt after the cache was rewound to it.
 *
 * The cache keeps media alive as long as it has rows of them. It can be rewound, shifted, released, forked and saved
 * like any other cache; a saved cache includes its media. If the rows of an image attend to each other, they are
 * computed in one step. Therefore rz_cache_truncate to a position between these rows fails with
 * RZ_ERR_INVALID_ARGUMENT, and rz_cache_shift removes such images as a whole or not at all. `cancel` may be NULL. Any
 * thread. Errors: as for rz_prefill, RZ_ERR_MISMATCH (a prompt of another model), RZ_ERR_INVALID_ARGUMENT (`first` is
 * beyond the last token, or between rows that attend to each other). Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_prefill_prompt(rz_cache *cache,
                  const rz_prompt *prompt,
                  size_t first,
                  const rz_cancel *RZ_NULLABLE cancel,
                  rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Jobs: time slices, continuous batching, speculative decoding
 * ------------------------------------------------------------------------------------------------ */

enum rz_draft_kind {
  RZ_DRAFT_NONE = 0,  /* No speculative decoding, except for tokens that a grammar forces. */
  /* Prompt lookup decoding (n-gram speculation): drafts the tokens that followed an earlier occurrence of the last
   * tokens. For answers that repeat the prompt, such as edited text, code and summaries. */
  RZ_DRAFT_LOOKUP = 1,
  /* Speculative decoding with `draft_model`: a small model, or a draft head from a file of its own. The job creates a
   * cache of at most 1,024 tokens for a small model; if the text is longer, the draft model first processes only the
   * last 256 tokens. A draft head must have been trained for the model of the job's cache. Two kinds are supported:
   * EAGLE-3 (arXiv 2503.01840), as a GGUF file ("eagle3") or as a folder of EAGLE, SpecForge or speculators; and the
   * assistant of a Gemma 4, as a GGUF file ("gemma4-assistant") or as its folder. rz_model_load loads a draft head like
   * a model; only jobs accept it, and all other calls reject it with RZ_ERR_UNSUPPORTED. Steps of jobs with a draft
   * head take additional scratch memory. EAGLE-3 processes the hidden states of the tokens that the job itself appends,
   * and has a cache as with RZ_DRAFT_MTP. An assistant attends to the job's cache and has no cache of its own. The
   * assistant is loaded on the CPU (device 0 or 1). If the job's model is on a GPU, a copy of the assistant drafts on
   * that GPU; if the model is on several GPUs, the copy is on the last of them. The first job that needs the copy
   * creates it. The copy is freed when the assistant or the model is freed and no job uses the copy. */
  RZ_DRAFT_MODEL = 2,
  /* Speculative decoding with the model's multi-token prediction (MTP) head, loaded by RZ_MODEL_MTP. The head has its
   * own cache, with one layer and the capacity of the job's cache. This cache belongs to the job, and covers only the
   * tokens that the job itself appends. */
  RZ_DRAFT_MTP = 3,
};

enum rz_reply_state {
  RZ_STATE_PROMPT = 1,  /* State of a job: prefill of the prompt. */
  RZ_STATE_TOKENS = 2,  /* State of a job: token generation. */
  RZ_STATE_ENDED = 3,   /* State of a job: ended. */
};

enum rz_end_reason {
  RZ_END_TOKEN = 1,    /* End reason: a token that ends a turn or the text. */
  RZ_END_LENGTH = 2,   /* End reason: `max_tokens` tokens. */
  RZ_END_STOP = 3,     /* End reason: a stop sequence. */
  RZ_END_CONTEXT = 4,  /* End reason: the cache is full. */
  RZ_END_GRAMMAR = 5,  /* End reason: the grammar is complete. */
  /* End reason: an error of the job itself: no token could be sampled, or the work of the grammar exceeded a bound.
   * rz_job_error returns the error. */
  RZ_END_FAILED = 6,
  /* End reason of a reply in a conversation: it was stopped by rz_conversation_stop, by the callback or an rz_cancel of
   * rz_conversation_say, or abandoned with RZ_REPLY_KEEP. */
  RZ_END_CANCELLED = 7,
};

/* Generation in time slices: a prompt and the tokens that follow it (a request of a server, for example). Mutable: one
 * call at a time; a second call gets RZ_ERR_BUSY. The job holds its cache until rz_job_free: other calls on the cache
 * get RZ_ERR_BUSY, except rz_cache_len, rz_cache_capacity and rz_cache_free.
 *
 * A job generates the same tokens as rz_prefill, rz_sample and rz_generate_into, whatever the budgets and pauses. On a
 * CPU, or on a GPU with RZ_MODEL_DETERMINISTIC, other jobs in the batch do not change these tokens. */
typedef struct rz_job rz_job;

/* Parameters of a job. Zero in a field means the default. Either `tokens` and `n_tokens` or `prompt` must be set.
 * Since 0.1.0. */
typedef struct rz_job_params {
  uint32_t struct_size;                /* sizeof(rz_job_params). */
  uint32_t max_tokens;                 /* Maximum number of tokens to generate; 0: until the cache is full. */
  const uint32_t *RZ_NULLABLE tokens;  /* Prompt, appended to the contents of the cache. Copied. */
  size_t n_tokens;                     /* Number of `tokens`, at least one. */
  /* Sampler; NULL: always the most likely token (greedy decoding). Copied in its current state, so that several jobs
   * may share one sampler and still draw independently. */
  const rz_sampler *RZ_NULLABLE sampler;
  /* Grammar that constrains the generated text (constrained decoding); NULL: the sampler's grammar, if any. */
  const rz_grammar *RZ_NULLABLE grammar;
  /* Stop sequences: strings that end the text, UTF-8 and NUL-terminated, not empty. Copied. The text ends before the
   * first complete stop sequence, independent of token boundaries. If two stop sequences end at the same character,
   * the text ends before the longer stop sequence. */
  const char *const *RZ_NULLABLE stops;
  size_t n_stops;  /* Number of `stops`. */
  /* Cancels steps of the job while it is fired, in addition to rz_cache_cancel_set; may be NULL. The job keeps it
   * alive. */
  const rz_cancel *RZ_NULLABLE cancel;
  uint32_t flags;      /* 0. */
  uint32_t reserved;   /* 0. */
  uint32_t draft;      /* Source of draft tokens for speculative decoding, RZ_DRAFT_... */
  uint32_t draft_max;  /* Maximum number of draft tokens per step; values above 32 count as 32; 0: 16. */
  /* With RZ_DRAFT_MODEL: a draft model of the same vocabulary, or a draft head of the cache's model; otherwise
   * ignored. The job keeps it alive. */
  const rz_model *RZ_NULLABLE draft_model;
  /* Number of most likely tokens to keep with each generated token, for rz_job_logprobs_into, at most 32; RZ_NONE:
   * only the log probability of the token itself; 0: none. */
  uint32_t logprobs;
  /* Scheduling priority among the jobs of rz_jobs_step: higher first; may be negative; 0: normal. */
  int32_t priority;
  /* Conversation whose reply the job generates, as the JSON of rz_chat_tokenize_into (`chat_len` bytes). The prompt
   * must end with the tokens of this conversation. The job returns its reply in parts, with rz_job_next_into instead
   * of rz_job_text_into, and `stops` apply only to the content of the reply, not to reasoning, tool calls and tags.
   * NULL: the job returns a text. */
  const char *RZ_NULLABLE chat;
  size_t chat_len;
  /* Prompt, instead of `tokens`, which must then be NULL; NULL: the prompt is `tokens`. The job keeps its media
   * alive. */
  const rz_prompt *RZ_NULLABLE prompt;
  size_t prompt_first;  /* Index of the first token of `prompt` to append, as `first` of rz_prefill_prompt. */
} rz_job_params;

/* State of a job. Since 0.1.0. */
typedef struct rz_job_info {
  uint32_t struct_size;  /* sizeof(rz_job_info), set by the caller. */
  uint32_t state;        /* RZ_STATE_... */
  /* Reason of the end: RZ_END_TOKEN, _LENGTH, _STOP, _CONTEXT, _GRAMMAR or _FAILED; 0 if the job has not ended. */
  uint32_t end_reason;
  int32_t stopped;        /* RZ_ERR_CANCELLED or RZ_ERR_DEADLINE while steps fail with this status; else 0. */
  uint32_t prompt_total;  /* Number of tokens of the prompt. */
  uint32_t prompt_done;   /* Number of prompt tokens that are in the cache. */
  uint32_t n_tokens;      /* Number of generated tokens, including a token that ends the text. */
  uint32_t cache_len;     /* Tokens in the cache. */
  /* Total time in nanoseconds of the job's prefill steps, and of its decode steps (including drafting). */
  uint64_t prompt_ns;
  uint64_t tokens_ns;
  uint64_t first_token_ns;  /* Time to first token: nanoseconds from rz_job_new to the first token; 0 before that. */
  /* Number of draft tokens verified, including tokens forced by a grammar, and number of draft tokens accepted. */
  uint32_t drafted;
  uint32_t accepted;
} rz_job_info;

/* Creates a job that appends a prompt to `cache` and generates. It computes nothing yet.
 *
 * `params` is required. The caller frees `*out` with rz_job_free, before or after the cache. Any thread. Errors:
 * RZ_ERR_INVALID_ARGUMENT (no prompt, two prompts, a token outside the vocabulary, an empty stop sequence),
 * RZ_ERR_CONTEXT_FULL (the prompt does not fit: rz_error.needed is the capacity that it needs), RZ_ERR_UNSUPPORTED
 * (stop sequences with a model that has no tokenizer), RZ_ERR_MISMATCH (a grammar of another vocabulary, a prompt of
 * another model), RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY, and with `chat` the errors of
 * rz_chat_parser_new, RZ_ERR_CANCELLED and RZ_ERR_DEADLINE (while it waits for a thread that runs the template). Since
 * 0.1.0.
 *
 * Speculative decoding: one step verifies several draft tokens, which on a CPU takes little more time than a step of
 * one token. The job samples each token as it would without drafts, with the same random numbers, and discards
 * rejected draft tokens. Tokens, text and cache are bit-identical to a job without drafts. With layers on a GPU and
 * without RZ_MODEL_DETERMINISTIC, this holds only if the job is stepped alone. A job drafts the tokens that its
 * grammar forces, and tokens from the source `draft`. It measures the speedup, and stops drafting when there is none.
 * A recurrent network recomputes the accepted tokens of a partially accepted draft. Errors: RZ_ERR_MISMATCH (a draft
 * model of another vocabulary, or a head of another model; the message names the difference), RZ_ERR_UNSUPPORTED
 * (RZ_DRAFT_MTP with a model loaded without RZ_MODEL_MTP; a head for a model whose layers pass on more than one hidden
 * state, or a head that reads KV caches on several devices), RZ_ERR_LIMIT (the cache of a draft model or of
 * RZ_DRAFT_MTP). With time slices, a step drafts at most as many tokens as it can process in a tenth of a slice. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_new(rz_cache *cache, const rz_job_params *RZ_NULLABLE params, rz_job **out, rz_error *RZ_NULLABLE err);

/* Works on a job for about `budget_us` microseconds; with 0 for one chunk of work; with RZ_NO_LIMIT until it has
 * generated a token or ended. RZ_AGAIN: more work remains; RZ_DONE: the job has ended.
 *
 * A step pauses between two chunks of work if the next chunk would take longer than the remaining time. On a CPU it
 * can pause within a layer, a large matrix product or a mixture of experts. If the workers become free in time (see
 * "Scheduling" above), the step computes at least one chunk; if other calls use the workers for the whole budget, it
 * computes none. On a GPU a prefill step can pause between two kernels; the decode of one token is one chunk. A
 * recurrent layer is one chunk, whatever the number of tokens.
 *
 * A paused job keeps its scratch memory, which counts against rz_runtime_params.memory_limit. Other calls on the model
 * continue. A fired rz_cancel or a passed deadline also pauses a step: the call fails with RZ_ERR_CANCELLED or
 * RZ_ERR_DEADLINE, no work is lost, and the next step after rz_cancel_reset continues the job. Any thread. Errors:
 * RZ_ERR_CANCELLED, RZ_ERR_DEADLINE, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_DEVICE_LOST, and for a failed job (RZ_END_FAILED) the error of the job, each time. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_step(rz_job *job, uint64_t budget_us, rz_error *RZ_NULLABLE err);

/* Continuous batching: `rz_job_step` for `n` jobs of one model. Each batch step reads the weights once and computes
 * one token for each of up to 64 jobs in generation, and prompt chunks of other jobs. With RZ_NO_LIMIT the call
 * returns when one job has generated a token. RZ_DONE: all jobs have ended, or `n` is 0 (`jobs` may be NULL then).
 * Jobs that had ended before are skipped.
 *
 * Jobs may join and leave between any two calls. A paused batch step continues when all its jobs are passed again; if
 * one of them is missing or was freed, the step restarts without it. No job may occur twice.
 *
 * Places in a batch step go to jobs by rz_job_params.priority, then by waiting time. Prompt tokens
 * (rz_model_params.mixed_prefill_tokens) go by priority, then to the prompt with the fewest remaining tokens. No job
 * starves: a job that had no place in 16 steps goes before jobs of every priority; of several such jobs, the job that
 * has waited longest goes first. Such jobs get up to a quarter of the places; one such job per step gets up to a
 * quarter of the prompt tokens. A job thus waits for at most 16 steps, plus one for each other job that waits as long.
 *
 * A failing job does not stop other jobs. Only the failing job ends: its state is RZ_STATE_ENDED with RZ_END_FAILED,
 * and rz_job_error returns the reason. A job whose rz_cancel is fired or whose deadline has passed is left out from
 * the next step on (see rz_job_info.stopped). If all jobs that have not ended are cancelled or past their deadlines,
 * the call fails with the status of the first one, RZ_ERR_CANCELLED or RZ_ERR_DEADLINE. Any thread. Errors: as for
 * rz_job_step except the errors of failed jobs, RZ_ERR_INVALID_ARGUMENT, and RZ_ERR_MISMATCH for jobs of different
 * models. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_jobs_step(rz_job *const *RZ_NULLABLE jobs, size_t n, uint64_t budget_us, rz_error *RZ_NULLABLE err);

/* Returns the status of the error with which a job ended (RZ_END_FAILED), and its message in `err`; RZ_OK for any
 * other job. Any thread, also while another call works on the job. Errors in addition to the error of the job:
 * RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_job_error(const rz_job *job, rz_error *RZ_NULLABLE err);

/* Copies the text generated since the last successful call: whole characters, without a NUL, without stop sequences.
 * The text continues the text of the cache and the prompt, so a space before its first word is kept. Text that may
 * become a stop sequence is held back until that is decided, or the job has ended. End tokens, control tokens and
 * tokens that the tokenizer does not know add no text.
 *
 * `*len` receives the number of bytes, 0 if there is nothing new. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL and the text stays. Any thread. Errors: RZ_ERR_UNSUPPORTED for a model without a tokenizer,
 * RZ_ERR_INVALID_ARGUMENT for a job with rz_job_params.chat, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_text_into(rz_job *job, char *RZ_NULLABLE out, size_t capacity, size_t *len, rz_error *RZ_NULLABLE err);

/* Takes the next part of the reply of a job with rz_job_params.chat, like rz_chat_parser_next_into. Text that may
 * become a stop sequence is held back until that is decided; if a stop sequence ends the reply, all text before it and
 * RZ_CHAT_EVENT_END are still returned. `out` NULL with a `capacity` of 0 queries the size and takes nothing.
 *
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for a job without rz_job_params.chat, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_BUSY,
 * RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_next_into(rz_job *job,
                 uint32_t *kind,
                 uint32_t *flags,
                 uint32_t *index,
                 char *RZ_NULLABLE out,
                 size_t capacity,
                 size_t *len,
                 rz_error *RZ_NULLABLE err);

/* Copies the tokens generated since the last successful call, including a token that ends the text and the tokens of a
 * stop sequence.
 *
 * `*n` receives their number, 0 if there is nothing new. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL and the tokens stay. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_tokens_into(rz_job *job, uint32_t *RZ_NULLABLE out, size_t capacity, size_t *n, rz_error *RZ_NULLABLE err);

/* Copies the log probabilities (logprobs) of the tokens generated since the last successful call, for a job with
 * rz_job_params.logprobs. Each token has a row of rz_job_params.logprobs + 1 entries, or of one entry with RZ_NONE: in
 * `tokens` the token itself, then the most likely tokens at its position in descending order; in `logprobs` the
 * natural logarithms of their probabilities. The probabilities are the softmax of the model's logits, before any
 * sampler, as in rz_top_logprobs. Rows are shorter if the vocabulary has fewer tokens.
 *
 * `*n` receives the number of entries in each array, 0 if there is nothing new. If `capacity` is too small, the call
 * returns RZ_ERR_BUFFER_TOO_SMALL and the entries stay. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for a job without
 * logprobs, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_logprobs_into(rz_job *job,
                     uint32_t *RZ_NULLABLE tokens,
                     float *RZ_NULLABLE logprobs,
                     size_t capacity,
                     size_t *n,
                     rz_error *RZ_NULLABLE err);

/* Fills in `*out`, whose `struct_size` the caller has set. Any thread. While another call works on the job, the counts
 * are those after the last step. Errors: RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_job_info_get(const rz_job *job, rz_job_info *out, rz_error *RZ_NULLABLE err);

/* Frees the job, at any time; NULL is fine. Its cache is usable again and keeps the complete tokens: prompt chunks
 * that were computed, and all generated tokens but the last. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_job_free(rz_job *RZ_NULLABLE job);

/* ------------------------------------------------------------------------------------------------
 * Prefix cache (prompt cache)
 * ------------------------------------------------------------------------------------------------ */

/* Prefix cache (prompt cache): keeps the KV caches of prompts for any later prompt of the model that begins with the
 * same tokens, so that a shared prefix is computed only once: across conversations, and with a folder also across
 * processes. Any number of threads may use it at once, and empty it with rz_store_clear. A hit does not change results
 * by a single bit. */
typedef struct rz_store rz_store;

/* Parameters of a store. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_store_params {
  uint32_t struct_size;  /* sizeof(rz_store_params). */
  uint32_t min_tokens;   /* Minimum length in tokens of prefixes to keep and to look up; 0: 64. */
  /* Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that a
   * prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take additional
   * memory: up to a quarter of the limit, or one larger prefix. */
  uint64_t memory_limit;
  /* Path of a folder for files, NUL-terminated. A missing folder is created, accessible by this user only. NULL:
   * prefixes that do not fit in memory are dropped. Each prefix is written about two seconds after it was stored, so
   * that it survives a crash and other processes see it. The file of a longer prefix replaces the file of a shorter
   * prefix that it contains; other processes then find the shorter prefix in the longer file. A prefix that cannot
   * be written stays in memory, with a line in the log. Several stores and processes of one user may share the
   * folder, also for different models. Files in the folder influence answers: on Unix a folder is rejected if
   * another user owns it, or if its group or others may write to it. A store with a folder has its own writer
   * thread, whatever the number of threads of the runtime, so rz_store_put and steps do not wait until a prefix is
   * written. Lookups (rz_store_take, the start of a reply) read files, and rz_store_free writes the prefixes that
   * are left. In a child made with fork(), which lacks that thread, rz_store_put and steps of conversations write
   * the prefixes themselves, unless a prefix was written less than two seconds ago. */
  const char *RZ_NULLABLE path;
  size_t max_entries;  /* Maximum number of prefixes in memory; 0: 1,024. */
  /* Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of the
   * free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that are being
   * written. */
  uint64_t disk_limit;
} rz_store_params;

/* State of a store. Since 0.1.0. */
typedef struct rz_store_info {
  uint32_t struct_size;  /* sizeof(rz_store_info), set by the caller. */
  uint32_t n_entries;    /* Number of prefixes in memory. */
  uint32_t n_files;      /* Number of prefixes in files of the model. */
  /* Number of prefixes dropped because they could not be written (on a full disk, for example), since the store was
   * created. The log has the reason. */
  uint32_t n_unwritten;
  uint64_t memory_bytes;   /* Bytes in memory. */
  uint64_t disk_bytes;     /* Bytes in files. */
  uint64_t hits;           /* Number of lookups that found a prefix, since the store was created. */
  uint64_t misses;         /* Number of lookups that found no prefix. */
  uint64_t reused_tokens;  /* Number of tokens that needed no prefill because of hits. */
  uint64_t memory_limit;   /* Limit of memory_bytes in effect. */
  uint64_t disk_limit;     /* Limit of disk_bytes in effect; 0 without a folder. */
} rz_store_info;

/* Creates a store. `params` may be NULL. The caller frees `*out` with rz_store_free, before or after the model and the
 * conversations that use it.
 *
 * Files in the folder have the format of rz_cache_save, with checksums, and are found by their first tokens. A file is
 * written under a temporary name and then renamed. A file that is damaged or of another version is removed when it is
 * found, with a line in the log; a file that a process left unfinished is removed by the next store. Links and pipes
 * are ignored, and so are, on Unix, files that another user owns or may write to. Each file has a fingerprint of its
 * model. If the model is loaded with RZ_MODEL_MMAP, the first store or saved cache of the model computes this
 * fingerprint, which reads the whole model once. Any thread. Errors: RZ_ERR_IO (the folder cannot be created, or is
 * rejected), RZ_ERR_RESOURCES (the system cannot create more threads), RZ_ERR_INVALID_ARGUMENT (a model without
 * weights), RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_store_new(const rz_model *model,
             const rz_store_params *RZ_NULLABLE params,
             rz_store **out,
             rz_error *RZ_NULLABLE err);

/* Creates a cache for a prompt of `n` tokens from the longest stored prefix. `*common` receives the length of this
 * prefix: the cache holds the first `*common` tokens, at most `n` - 1, because the logits of the last token must be
 * computed; 0 if no prefix is stored. The caller appends the remaining tokens as to any cache.
 *
 * The cache has no adapters, and prefixes computed with adapters are not used. A conversation with adapters needs no
 * such call: it looks up prefixes computed with the same adapters itself. `params` may be NULL; the element types of
 * keys and values must match. If the stored cache has another capacity, the prefix is copied. `cancel` stops reading a
 * file before the next chunk, and may be NULL. The caller frees `*out` with rz_cache_free. Any thread. Errors: as for
 * rz_cache_new, RZ_ERR_CANCELLED, RZ_ERR_DEADLINE. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_store_take(const rz_store *store,
              const uint32_t *RZ_NULLABLE tokens,
              size_t n,
              const rz_cache_params *RZ_NULLABLE params,
              const rz_cancel *RZ_NULLABLE cancel,
              rz_cache **out,
              uint32_t *common,
              rz_error *RZ_NULLABLE err);

/* Like rz_store_take, for a prompt with media. Media rows are equal if the hashes of their media are equal;
 * rz_prefill_prompt appends the remaining tokens, from token `*common` on. `params` and `cancel` may be NULL. The
 * caller frees `*out` with rz_cache_free. Any thread. Errors: as for rz_store_take, RZ_ERR_MISMATCH (a prompt of
 * another model). Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_store_take_prompt(const rz_store *store,
                     const rz_prompt *prompt,
                     const rz_cache_params *RZ_NULLABLE params,
                     const rz_cancel *RZ_NULLABLE cancel,
                     rz_cache **out,
                     uint32_t *common,
                     rz_error *RZ_NULLABLE err);

/* Stores the tokens of a cache. The cache stays usable; store and cache share memory copy-on-write. The call changes
 * nothing if the cache has fewer tokens than rz_store_params.min_tokens, or if the store already has them.
 *
 * A prefix computed with adapters is only used for adapters with the same factors and scales in the same order. The
 * call only reads the cache. A prefix that exceeds the memory limit is written to the folder after the call; if it
 * cannot be written, it is dropped (rz_store_info.n_unwritten). Each prefix counts toward
 * rz_runtime_params.memory_limit with the bytes of all its tokens, even shared ones. Any thread. Errors:
 * RZ_ERR_MISMATCH (a cache of another model), RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since
 * 0.1.0. */
RZ_API rz_status RZ_CALL
rz_store_put(const rz_store *store, const rz_cache *cache, rz_error *RZ_NULLABLE err);

/* Drops all prefixes, and removes the files of the model from the folder. Any thread. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_store_clear(rz_store *store, rz_error *RZ_NULLABLE err);

/* Fills in `*out`, whose `struct_size` the caller has set. Any thread. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_store_info_get(const rz_store *store, rz_store_info *out, rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. The store stays alive until no conversation uses it. The call that ends the store
 * writes the prefixes in memory to the folder, if there is one; call rz_store_clear first to drop them instead, with
 * the files of the model. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_store_free(rz_store *RZ_NULLABLE store);

/* ------------------------------------------------------------------------------------------------
 * Conversations
 * ------------------------------------------------------------------------------------------------ */

enum rz_overflow {
  /* Context overflow: a prompt that does not fit fails with RZ_ERR_CONTEXT_FULL; a full cache ends the reply
   * (RZ_END_CONTEXT). */
  RZ_OVERFLOW_FAIL = 0,
  /* Context overflow: if the prompt leaves less than a quarter of the cache to the reply (or less than max_tokens, if
   * that is smaller), rz_conversation_reply leaves out the oldest turns, so that the remaining turns take at most half
   * of the cache. System messages stay. A turn lasts until the next user message and is never cut; if it does not fit,
   * the call fails with RZ_ERR_CONTEXT_FULL. A reply that fills the cache ends with RZ_END_CONTEXT; RZ_REPLY_CONTINUE
   * continues it, and leaves out older turns too. The messages stay in the conversation. */
  RZ_OVERFLOW_FORGET = 1,
};

enum rz_reasoning {
  RZ_REASONING_MODEL = 0,  /* Reasoning of a reply: the chat template's default. */
  /* Reasoning of a reply: none. RZ_ERR_UNSUPPORTED if the template has no switch for it ("enable_thinking" or
   * "thinking"). */
  RZ_REASONING_OFF = 1,
  /* Reasoning of a reply: the model may reason before its answer. RZ_ERR_UNSUPPORTED if the template has no
   * reasoning. */
  RZ_REASONING_ON = 2,
};

enum rz_reply_flag {
  /* Flag of a reply: if the reply is abandoned, its tokens so far become a message with "finish_reason": "cancelled"; a
   * reply without tokens leaves no message. Without the flag, an abandoned reply leaves no message.
   * rz_conversation_stop does not need the flag. */
  RZ_REPLY_KEEP = 1,
  /* Flag of a reply: continues the last message, which must be a reply with the "finish_reason" "length", "context" or
   * "cancelled". rz_conversation_next_into returns only the new parts. If that reply broke off within a tool call, the
   * call is completed. */
  RZ_REPLY_CONTINUE = 2,
};

/* Chat with a model: messages, their KV cache, and the reply in progress. Mutable: one call at a time; a second call
 * gets RZ_ERR_BUSY. Any number of threads may read its state, messages and media at any time, also while another call
 * works on it (rz_conversation_info_get, _json_into, _media). Different conversations of a model work concurrently.
 *
 * The prompt of a reply is the whole conversation rendered by the model's chat template, which decides whether earlier
 * reasoning is kept or removed. Only tokens that the cache does not hold are computed, usually the tokens of the new
 * messages. */
typedef struct rz_conversation rz_conversation;

/* Parameters of a conversation. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_conversation_params {
  uint32_t struct_size;  /* sizeof(rz_conversation_params). */
  uint32_t overflow;     /* RZ_OVERFLOW_... */
  /* Initial state: the JSON of rz_chat_tokenize_into, `json_len` bytes; "messages" may be absent. NULL: empty. */
  const char *RZ_NULLABLE json;
  size_t json_len;
  const rz_cache_params *RZ_NULLABLE cache;  /* Parameters of the cache; NULL: the defaults. */
  /* LoRA adapters of every reply, which the conversation keeps alive, and their scales; `scales` NULL: 1 each. */
  rz_adapter *const *RZ_NULLABLE adapters;
  const float *RZ_NULLABLE scales;
  size_t n_adapters;  /* Number of `adapters`. */
  /* Cancels every call that computes, also on forks; may be NULL. The conversation keeps it alive. */
  const rz_cancel *RZ_NULLABLE cancel;
  /* Prefix cache; may be NULL. The conversation and its forks look up prompts in it, and store all replies and every
   * prompt with at least rz_store_params.min_tokens new tokens. The conversation keeps it alive. Prefixes are shared
   * only between conversations with equal adapters and scales. */
  const rz_store *RZ_NULLABLE store;
} rz_conversation_params;

/* Parameters of a reply. Zero in a field, or NULL instead of the struct, means the default. All parameters are copied.
 * Since 0.1.0. */
typedef struct rz_reply_params {
  uint32_t struct_size;  /* sizeof(rz_reply_params). */
  uint32_t max_tokens;   /* Maximum number of tokens to generate, including reasoning; 0: until the cache is full. */
  /* Sampler. NULL: the recommendation of the model's authors (rz_model_sampling_get), with the temperature before
   * the filters and the number of the reply as seed; greedy if the authors recommend nothing. */
  const rz_sampler_params *RZ_NULLABLE sampler;
  /* Kind of the grammar for the content, which comes after the reasoning: RZ_GRAMMAR_..., except RZ_GRAMMAR_TOOLS;
   * 0: any text. The first grammar of a model takes tens of milliseconds more than later grammars (rz_grammar_new).
   * If the conversation has tools and its "tool_choice" is not "none", tool calls follow the grammar of
   * RZ_GRAMMAR_TOOLS. With a grammar for the content too, the reply is either tool calls or that content; "required"
   * and a named tool allow only tool calls. */
  uint32_t grammar_kind;
  uint32_t grammar_flags;           /* Flags of the grammar: RZ_GRAMMAR_FLAG_... bits, combined with |. */
  uint32_t flags;                   /* RZ_REPLY_... bits, combined with |. */
  uint32_t reserved;                /* 0. */
  const char *RZ_NULLABLE grammar;  /* Text of the grammar, `grammar_len` bytes. */
  size_t grammar_len;
  /* Grammar from rz_grammar_new, instead of `grammar`; NULL: none. It is either a grammar for the content, or a
   * grammar of RZ_GRAMMAR_TOOLS for the whole reply, compiled for the same tools, "tool_choice" and
   * "parallel_tool_calls" as the reply has. rz_conversation_reply then compiles nothing, with two exceptions: tools
   * in addition to a content grammar, and a `reasoning` that is not the default. Each of these is compiled once; the
   * grammar keeps the last four results. Any number of conversations may use it at once. It may be freed when
   * rz_conversation_reply has returned. */
  const rz_grammar *RZ_NULLABLE compiled_grammar;
  /* Stop sequences that end the content, UTF-8 and NUL-terminated, as in rz_job_params. */
  const char *const *RZ_NULLABLE stops;
  size_t n_stops;      /* Number of `stops`. */
  uint32_t reasoning;  /* RZ_REASONING_... */
  /* Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
   * tokens that complete a character, the library inserts the end of reasoning, and the model continues with its
   * answer. Ignored for a model that does not reason, and if `max_tokens` leaves no tokens for an answer. */
  uint32_t reasoning_tokens;
  uint32_t draft;  /* Speculative decoding, as in rz_job_params. */
  uint32_t draft_max;
  const rz_model *RZ_NULLABLE draft_model;
  /* Number of most likely tokens to keep with each token of content, for rz_conversation_logprobs_into, at most 32;
   * RZ_NONE: only the log probability of the token itself; 0: none. */
  uint32_t logprobs;
  int32_t priority;  /* Scheduling priority among the replies of rz_conversations_step, as in rz_job_params. */
  /* Cancels steps of the reply while it is fired, in addition to the conversation's; may be NULL. */
  const rz_cancel *RZ_NULLABLE cancel;
  /* Tools and template variables for this reply only: a JSON object of `json_len` bytes with the members that
   * rz_chat_tokenize_into takes, except "messages". "tools" replaces the tools of the conversation; [] means no
   * tools, and then "tool_choice" must be set too if the conversation's is "required" or names a tool. "tool_choice"
   * and "parallel_tool_calls" replace the conversation's. "variables" are set in addition to the conversation's.
   * NULL: as in the conversation. */
  const char *RZ_NULLABLE json;
  size_t json_len;
} rz_reply_params;

/* State of a conversation and of its last reply. Since 0.1.0. */
typedef struct rz_conversation_info {
  uint32_t struct_size;  /* sizeof(rz_conversation_info), set by the caller. */
  uint32_t n_messages;   /* Number of messages. */
  /* Index of the first message of the oldest turn in prompts; 0 unless turns were left out (RZ_OVERFLOW_FORGET). */
  uint32_t first_in_prompt;
  /* State of the reply: RZ_STATE_...; 0 before the first reply, and after a reply was abandoned without a message. */
  uint32_t state;
  /* Why the reply has ended: RZ_END_TOKEN, _LENGTH, _STOP, _CONTEXT, _GRAMMAR, _FAILED, _CANCELLED; 0: not ended. */
  uint32_t end_reason;
  int32_t stopped;            /* RZ_ERR_CANCELLED or RZ_ERR_DEADLINE while steps fail with this status; else 0. */
  uint32_t prompt_tokens;     /* Number of tokens of the reply's prompt. */
  uint32_t reused_tokens;     /* Number of prompt tokens that the cache already held (cached tokens). */
  uint32_t prompt_done;       /* Number of prompt tokens that had to be computed and are in the cache by now. */
  uint32_t n_tokens;          /* Number of generated tokens, including a token that ends the reply. */
  uint32_t reasoning_tokens;  /* Number of reasoning tokens among the generated tokens. */
  uint32_t drafted;           /* Number of draft tokens verified. */
  uint32_t accepted;          /* Number of draft tokens accepted. */
  uint32_t cache_len;         /* Number of tokens in the cache. */
  uint32_t cache_capacity;    /* Capacity of the cache in tokens. */
  uint32_t n_media;           /* Number of media in the messages. */
  uint64_t prompt_ns;         /* Total time in nanoseconds of the reply's prefill steps. */
  uint64_t tokens_ns;         /* Total time in nanoseconds of the reply's decode steps. */
  /* Time to first token: nanoseconds from rz_conversation_reply to the first token; 0 before that. */
  uint64_t first_token_ns;
} rz_conversation_info;

/* Creates a conversation. `params` may be NULL. The caller frees `*out` with rz_conversation_free, before or after the
 * model.
 *
 * Any thread. Errors: RZ_ERR_UNSUPPORTED (a model without a tokenizer or a chat template), RZ_ERR_INVALID_ARGUMENT
 * (JSON of another form, a model without weights), RZ_ERR_MISMATCH (an adapter or a store of another model),
 * RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_new(const rz_model *model,
                    const rz_conversation_params *RZ_NULLABLE params,
                    rz_conversation **out,
                    rz_error *RZ_NULLABLE err);

/* Appends messages in JSON: one entry of "messages" as in rz_chat_render_into, or a list of entries: user and system
 * messages, tool results, or replies from elsewhere. The "tool_call_id" of a tool result must be the id of a call in
 * an earlier message. An unfinished reply is abandoned first (rz_conversation_reply).
 *
 * A content may have media parts, as in rz_prompt_from_chat: each part has the number of one of the `n_media` media,
 * and each media item must be in at least one part. Without media, `media` may be NULL and `n_media` is 0. The
 * conversation keeps the media alive until rz_conversation_rewind removes their messages; it keeps only one copy of
 * media with equal hashes. In rz_conversation_json_into a part has the number of its media item in the conversation
 * (rz_conversation_media). Media rows that are in the cache already are not computed again.
 *
 * The call computes nothing. Any thread. Errors, which change nothing: RZ_ERR_INVALID_ARGUMENT (JSON of another form,
 * an unknown "tool_call_id", a part without a media item or with a media item of another kind, a media item without a
 * part), RZ_ERR_MISMATCH (a media item of another model), RZ_ERR_NOT_READY (a media item whose rz_media_step is not
 * done), RZ_ERR_UNSUPPORTED, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. The template runs later, in
 * rz_conversation_reply, which fails with RZ_ERR_UNSUPPORTED if the template leaves an image out, for instance. Since
 * 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_add(rz_conversation *conversation,
                    const char *RZ_NULLABLE json,
                    size_t len,
                    rz_media *const *RZ_NULLABLE media,
                    size_t n_media,
                    rz_error *RZ_NULLABLE err);

/* Like rz_conversation_add, for one message with the NUL-terminated `role`, such as "user" or "system", and `len`
 * bytes of text. A message of the role "tool" is the result of the only tool call that has no result yet. If several
 * tool calls have no result, the function fails: add their results with rz_conversation_add, each with its
 * "tool_call_id".
 *
 * Any thread. Errors: as for rz_conversation_add. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_add_text(rz_conversation *conversation,
                         const char *role,
                         const char *RZ_NULLABLE text,
                         size_t len,
                         rz_error *RZ_NULLABLE err);

/* Begins a reply to the messages: renders and tokenizes the prompt, which takes longer for longer conversations.
 * Computes nothing yet. `params` may be NULL.
 *
 * The template runs on a thread of the runtime (rz_runtime_params.threads). The same thread compiles the grammar of
 * tools or of the content (rz_grammar_new), unless it is rz_reply_params.compiled_grammar or one of the last four
 * grammars of the conversation and its forks. rz_conversation_step generates the reply, and rz_conversation_next_into
 * returns its parts. When the reply has ended, it is a message of the conversation. Before that, rz_conversation_add,
 * _reply, _read, _rewind and _say abandon the reply (RZ_REPLY_KEEP), and rz_conversation_stop ends it and keeps the
 * tokens generated so far. If a reply cannot be begun or fails, the added messages stay: begin another reply, or
 * remove them with rz_conversation_rewind. While the call waits for the thread, it checks the rz_cancel flags of the
 * conversation and of `params`.
 *
 * Any thread. Errors, which change nothing, so an unfinished reply continues: RZ_ERR_INVALID_ARGUMENT (the template
 * rejects the messages, a wrong parameter, RZ_REPLY_CONTINUE after a reply that was complete), RZ_ERR_CONTEXT_FULL
 * (rz_error.needed is the number of tokens of the prompt, without the turns that RZ_OVERFLOW_FORGET leaves out: the
 * minimum capacity for this prompt), RZ_ERR_UNSUPPORTED (messages that the template leaves out, RZ_REASONING_... that
 * it does not support, a grammar, speculative decoding), RZ_ERR_MISMATCH (a draft model of another vocabulary),
 * RZ_ERR_VERSION (unknown flags), RZ_ERR_RESOURCES (the system cannot create a thread), RZ_ERR_CANCELLED,
 * RZ_ERR_DEADLINE, RZ_ERR_LIMIT, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_reply(rz_conversation *conversation,
                      const rz_reply_params *RZ_NULLABLE params,
                      rz_error *RZ_NULLABLE err);

/* Works on the reply for about `budget_us` microseconds, like rz_job_step; with RZ_NO_LIMIT until it has generated a
 * token or ended. RZ_AGAIN: more work remains; RZ_DONE: the reply has ended, or there is no reply.
 *
 * A fired rz_cancel or a passed deadline pauses the reply; the next step after rz_cancel_reset continues it. Any
 * thread. Errors: as for rz_job_step; the error of a failed reply, until the next reply begins. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_step(rz_conversation *conversation, uint64_t budget_us, rz_error *RZ_NULLABLE err);

/* Continuous batching: rz_conversation_step for `n` conversations of one model, like rz_jobs_step: each batch step
 * reads the weights once and computes tokens of many replies. RZ_DONE: all replies have ended, or there are no
 * replies. If a reply fails, only that reply ends: its state is RZ_STATE_ENDED, its end_reason RZ_END_FAILED, and
 * rz_conversation_error returns its error. Any thread. Errors: as for rz_jobs_step. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversations_step(rz_conversation *const *RZ_NULLABLE conversations,
                      size_t n,
                      uint64_t budget_us,
                      rz_error *RZ_NULLABLE err);

/* Takes the next part of the reply (streaming), like rz_chat_parser_next_into. RZ_AGAIN: no part is available yet.
 * RZ_DONE: the reply has ended, possibly with an error, and all its parts were taken, or there is no reply. Text that
 * may become a stop sequence is held back until that is decided. Consecutive text of one kind that was generated since
 * the last call is one part, of any length. `out` NULL with a `capacity` of 0 queries the size and takes nothing. A
 * whole reply, in C:
 *
 *     rz_status speak(rz_conversation *chat, rz_error *err) {
 *       size_t room = 4096, len;
 *       char *text = malloc(room), *more;
 *       uint32_t kind, flags, index;
 *       rz_status next, status = text ? rz_conversation_reply(chat, NULL, err) : RZ_ERR_OUT_OF_MEMORY;
 *       while (status == RZ_OK || status == RZ_AGAIN) {
 *         status = rz_conversation_step(chat, RZ_NO_LIMIT, err);
 *         while ((next = rz_conversation_next_into(chat, &kind, &flags, &index, text, room, &len, NULL)) <= RZ_OK) {
 *           if (next == RZ_OK) {
 *             if (kind == RZ_CHAT_EVENT_CONTENT) fwrite(text, 1, len, stdout);
 *           } else if (next == RZ_ERR_BUFFER_TOO_SMALL && (more = realloc(text, len)) != NULL) {
 *             text = more, room = len;
 *           } else {
 *             status = next;
 *             break;
 *           }
 *         }
 *       }
 *       if (status < 0) rz_conversation_stop(chat, NULL); // Keeps the text of a cancelled reply.
 *       free(text);
 *       return status; // RZ_DONE; rz_conversation_info.end_reason says why the reply has ended.
 *     }
 *
 * Any thread. Errors: RZ_ERR_BUFFER_TOO_SMALL (`*len` is the needed size, the part stays), RZ_ERR_BUSY,
 * RZ_ERR_POISONED. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_next_into(rz_conversation *conversation,
                          uint32_t *kind,
                          uint32_t *flags,
                          uint32_t *index,
                          char *RZ_NULLABLE out,
                          size_t capacity,
                          size_t *len,
                          rz_error *RZ_NULLABLE err);

/* Stops generation: ends an unfinished reply at once. Its tokens so far become a message with "finish_reason":
 * "cancelled", also without RZ_REPLY_KEEP; a reply without tokens leaves no message. The state of the reply is then
 * RZ_STATE_ENDED, its end_reason RZ_END_CANCELLED. rz_conversation_next_into still returns the parts that were not
 * taken, RZ_CHAT_EVENT_END last. RZ_REPLY_CONTINUE continues the message. Without a reply, nothing changes.
 *
 * While another thread steps the reply, the call returns RZ_ERR_BUSY: fire the reply's rz_cancel, wait for the step to
 * return, then stop the reply. Any thread. Errors: RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_stop(rz_conversation *conversation, rz_error *RZ_NULLABLE err);

/* Returns the error with which the last reply has failed (RZ_END_FAILED), with its message in `err`; RZ_OK if the last
 * reply has not failed, or if there is no reply. Any thread, also while another call works on the conversation. Since
 * 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_error(const rz_conversation *conversation, rz_error *RZ_NULLABLE err);

/* Copies the log probabilities of the content tokens generated since the last successful call, for a reply with
 * rz_reply_params.logprobs: rows, sizes and errors as for rz_job_logprobs_into; `*n` is 0 for a reply without
 * logprobs. Any thread. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_logprobs_into(rz_conversation *conversation,
                              uint32_t *RZ_NULLABLE tokens,
                              float *RZ_NULLABLE logprobs,
                              size_t capacity,
                              size_t *n,
                              rz_error *RZ_NULLABLE err);

/* Writes the messages from number `first` on as a JSON array: messages as they were added, and replies with "content",
 * "reasoning_content", "tool_calls" with unique ids, and "finish_reason": "stop", "tool_calls", "length" (max_tokens),
 * "context" (full cache) or "cancelled". An unfinished reply is not included. If a reply broke off within a tool call,
 * that call is not in its message, because no template can write an incomplete call: rz_conversation_next_into returns
 * its parts, and a reply with RZ_REPLY_CONTINUE completes it.
 *
 * `*len` receives the number of bytes; the text is not NUL-terminated. If `capacity` is too small, the call returns
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread, also while another call works on the conversation. Errors: RZ_ERR_POISONED,
 * RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_json_into(const rz_conversation *conversation,
                          uint32_t first,
                          char *RZ_NULLABLE out,
                          size_t capacity,
                          size_t *len,
                          rz_error *RZ_NULLABLE err);

/* Removes the messages after the first `n_messages`, to edit a message or to answer again. The cache keeps the tokens
 * of the remaining messages. An unfinished reply is abandoned first and leaves no message, even with RZ_REPLY_KEEP,
 * because that message would come after the first `n_messages`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (there are
 * fewer messages), RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_rewind(rz_conversation *conversation, uint32_t n_messages, rz_error *RZ_NULLABLE err);

/* Creates a copy of the conversation with the same messages, which shares the cache copy-on-write (rz_cache_fork).
 * Each of the two counts with its whole capacity against rz_runtime_params.memory_limit. A reply in progress is not
 * copied. The caller frees `*out` with rz_conversation_free.
 *
 * Any thread. Errors: RZ_ERR_BUSY (while a call changes the conversation), RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_fork(const rz_conversation *conversation, rz_conversation **out, rz_error *RZ_NULLABLE err);

/* Fills in `*out`, whose `struct_size` the caller has set. Any thread. During another call, the counts are those after
 * the last step, and `state` is RZ_STATE_ENDED only once the reply is a message. Errors: RZ_ERR_POISONED. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_info_get(const rz_conversation *conversation, rz_conversation_info *out, rz_error *RZ_NULLABLE err);

/* Frees the conversation, at any time; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_conversation_free(rz_conversation *RZ_NULLABLE conversation);

/* ------------------------------------------------------------------------------------------------
 * A message and its reply in one call
 * ------------------------------------------------------------------------------------------------ */

/* Receives a piece of the content of a reply: whole characters, `len` bytes, valid during the call, not
 * NUL-terminated. A non-zero result ends the reply, which keeps its text so far. Runs on the calling thread, during
 * the call. It may call the library; a call with the conversation gets RZ_ERR_BUSY. It must return normally: no
 * longjmp, no C++ exception. */
typedef int32_t (RZ_CALL *rz_text_callback)(const char *text, size_t len, void *RZ_NULLABLE user);

/* Adds the NUL-terminated `text` as a user message, and generates the whole reply. `params`, which may be NULL, has
 * the parameters of the reply, as for rz_conversation_reply, without RZ_REPLY_CONTINUE. `on_text`, which may be NULL,
 * receives the reply's content in pieces as it is generated (streaming), on this thread; reasoning and tool calls are
 * only in the message (rz_conversation_json_into).
 *
 * If `on_text` returns non-zero, the reply ends and keeps its text so far, with "finish_reason": "cancelled", and the
 * call returns RZ_OK. If the reply fills the cache, the call also returns RZ_OK: rz_conversation_info.end_reason is
 * RZ_END_CONTEXT, and the message has "finish_reason": "context". If an rz_cancel is fired or a deadline passes after
 * the first piece, the reply keeps its text so far, and the call returns RZ_ERR_CANCELLED or RZ_ERR_DEADLINE.
 * RZ_REPLY_KEEP changes nothing.
 *
 * Any thread. Errors: the errors of rz_conversation_add_text, _reply and _step. Except in the case above, a failed
 * call leaves the messages and an unfinished reply unchanged. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_say(rz_conversation *conversation,
                    const char *text,
                    const rz_reply_params *RZ_NULLABLE params,
                    rz_text_callback RZ_NULLABLE on_text,
                    void *RZ_NULLABLE user,
                    rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Conversations between replies
 * ------------------------------------------------------------------------------------------------ */

/* Begins a prefill of the messages without generating a reply, which shortens the time to first token (TTFT) of the
 * next reply, for example after a long document or the description of a game world was added. rz_conversation_step and
 * rz_conversations_step do the work; rz_conversation_info.state has the same values as during a reply. RZ_DONE: all
 * messages are in the cache, and rz_conversation_info.end_reason is RZ_END_LENGTH. No message is added.
 *
 * `params` are the parameters of the reply that will follow; NULL: the defaults. Only `json`, `reasoning`, `priority`
 * and `cancel` have an effect. An unfinished reply is abandoned, as by rz_conversation_reply. Any thread. Errors: as
 * for rz_conversation_reply. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_read(rz_conversation *conversation,
                     const rz_reply_params *RZ_NULLABLE params,
                     rz_error *RZ_NULLABLE err);

/* Frees the memory of the cache, which then does not count against rz_runtime_params.memory_limit, for example when an
 * app goes to the background. The messages stay; the next reply computes the tokens of the messages again, or finds
 * them in the store. Any thread. Errors: RZ_ERR_BUSY (also while a reply is unfinished), RZ_ERR_POISONED. Since
 * 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_release(rz_conversation *conversation, rz_error *RZ_NULLABLE err);

/* Sets the capacity of the cache to `capacity` tokens; 0: the default of rz_cache_params. Clears the cache; the next
 * reply computes the messages again, including turns that RZ_OVERFLOW_FORGET has left out, as far as they fit. Any
 * thread. Errors, which change nothing: RZ_ERR_BUSY (also while a reply is unfinished), RZ_ERR_POISONED, RZ_ERR_LIMIT,
 * RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_capacity_set(rz_conversation *conversation, uint32_t capacity, rz_error *RZ_NULLABLE err);

/* Sets what later replies do if the messages do not fit in the cache; `mode`: RZ_OVERFLOW_... With RZ_OVERFLOW_FAIL,
 * messages that were left out are in prompts again. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_BUSY,
 * RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_overflow_set(rz_conversation *conversation, uint32_t mode, rz_error *RZ_NULLABLE err);

/* Replaces the cancellation flag of the conversation, which all calls that compute check. The conversation keeps the
 * flag alive; `cancel` may be NULL, for none. Earlier forks keep their own flag. Any thread. Errors: RZ_ERR_BUSY (also
 * while a reply is unfinished), RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_cancel_set(rz_conversation *conversation,
                           const rz_cancel *RZ_NULLABLE cancel,
                           rz_error *RZ_NULLABLE err);

/* Sets the LoRA adapters of later replies, as rz_cache_adapters_set does, and clears the cache. `adapters` may be
 * NULL, for none; `scales` may be NULL, for scales of 1. The conversation keeps the adapters alive. Any thread.
 * Errors, which change nothing: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_MISMATCH (adapters of another model), RZ_ERR_BUSY
 * (also while a reply is unfinished), RZ_ERR_POISONED, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_adapters_set(rz_conversation *conversation,
                             rz_adapter *const *RZ_NULLABLE adapters,
                             const float *RZ_NULLABLE scales,
                             size_t n_adapters,
                             rz_error *RZ_NULLABLE err);

/* Replaces the store (prefix cache) that later replies read and write. The conversation keeps the store alive; `store`
 * may be NULL, for none. Any thread. Errors: RZ_ERR_MISMATCH (a store of another model), RZ_ERR_BUSY, RZ_ERR_POISONED.
 * Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_store_set(rz_conversation *conversation, const rz_store *RZ_NULLABLE store, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Saved conversations
 * ------------------------------------------------------------------------------------------------ */

/* Saves the conversation through `write`: its messages and its cache, as rz_cache_save does; `cancel` may be NULL. Any
 * thread. Errors: as for rz_cache_save, and RZ_ERR_BUSY while a reply is unfinished. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_conversation_save(const rz_conversation *conversation,
                     rz_write_callback write,
                     void *RZ_NULLABLE user,
                     const rz_cancel *RZ_NULLABLE cancel,
                     rz_error *RZ_NULLABLE err);

/* Creates a conversation from the state that rz_conversation_save has written, as rz_cache_load does; the new
 * conversation continues bit-identically to the saved conversation. `params` may be NULL. Of its fields, `cache`,
 * `cancel` (which also cancels this call), `store` and `overflow` have an effect; 0 in `overflow` or in a field of
 * `cache` means the saved value. `json` and `adapters` must be absent.
 *
 * The caller frees `*out` with rz_conversation_free. Any thread. Errors: as for rz_cache_load, RZ_ERR_INVALID_ARGUMENT
 * for other parameters. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_load(const rz_model *model,
                     const rz_conversation_params *RZ_NULLABLE params,
                     rz_read_callback read,
                     void *RZ_NULLABLE user,
                     rz_conversation **out,
                     rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Media of conversations
 * ------------------------------------------------------------------------------------------------ */

/* Returns a new handle of media item `number` (0 to rz_conversation_info.n_media - 1) of a conversation; the caller
 * frees it with rz_media_free. Any thread. Errors: RZ_ERR_NOT_FOUND (no such media item), RZ_ERR_POISONED. Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_conversation_media(const rz_conversation *conversation, uint32_t number, rz_media **out, rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Log probabilities
 * ------------------------------------------------------------------------------------------------ */

/* Writes the `k` most likely next tokens, in descending order, to `tokens`, and the natural logarithms of their
 * probabilities (log probabilities) to `logprobs`; both have a capacity of `k`. Of equally likely tokens the lowest id
 * comes first.
 *
 * `*n` receives their number: `k`, or the size of the vocabulary if that is smaller. Probabilities are the softmax of
 * the logits of rz_logits_into, summed in double precision; a token that is never chosen has minus infinity. Any
 * thread. Errors: as for rz_logits_into, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_top_logprobs(rz_cache *cache,
                uint32_t k,
                uint32_t *RZ_NULLABLE tokens,
                float *RZ_NULLABLE logprobs,
                size_t *n,
                rz_error *RZ_NULLABLE err);

/* Appends `n` tokens, at least one, like rz_prefill, and writes the log probability of tokens[i] given all tokens
 * before it to logprobs[i]. The first token of an empty cache gets 0.
 *
 * Probabilities are as in rz_top_logprobs. The call takes longer than a prefill, because it computes the logits after
 * every token. `cancel` may be NULL. A call that fails leaves the cache unchanged. Any thread. Errors: as for
 * rz_prefill. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_score(rz_cache *cache,
         const uint32_t *RZ_NULLABLE tokens,
         size_t n,
         float *RZ_NULLABLE logprobs,
         const rz_cancel *RZ_NULLABLE cancel,
         rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Embeddings and reranking
 * ------------------------------------------------------------------------------------------------ */

enum rz_pooling {
  RZ_POOLING_MODEL = 0,  /* Pooling: the pooling that the model was trained with. */
  RZ_POOLING_NONE = 1,   /* Pooling: none, a vector for each token. */
  RZ_POOLING_MEAN = 2,   /* Pooling: the mean over all tokens. */
  RZ_POOLING_CLS = 3,    /* Pooling: the vector of the first token. */
  RZ_POOLING_LAST = 4,   /* Pooling: the vector of the last token. */
  /* Pooling: the scores of the model's classifier, for reranking. They are never normalized. */
  RZ_POOLING_RANK = 5,
};

enum rz_embed_flag {
  /* Flag of rz_embed_params: embeddings keep their length, instead of L2 normalization to length 1. */
  RZ_EMBED_RAW = 1,
};

/* Parameters of rz_embed_into. Zero in a field, or NULL instead of the struct, means the default. Since 0.1.0. */
typedef struct rz_embed_params {
  uint32_t struct_size;  /* sizeof(rz_embed_params). */
  uint32_t pooling;      /* RZ_POOLING_...; 0: the model's. */
  uint32_t flags;        /* RZ_EMBED_..., combined with |. */
  uint32_t reserved;     /* 0. */
} rz_embed_params;

/* Computes the embeddings of `n_texts` texts, or with RZ_POOLING_RANK their reranking scores. Text i is `lengths[i]`
 * tokens at `tokens[i]`.
 *
 * `out` receives `[n_texts][dims]` floats, text by text; with RZ_POOLING_NONE `[tokens][dims]` floats, for all tokens
 * of the first text, then of the second. dims is the width of the network (rz_model_info.hidden_dim), the width of the
 * last layer after the pooling if the model has such a layer, or the number of scores of the classifier. `*n` receives
 * the number of floats. If `capacity` is too small, the call returns RZ_ERR_BUFFER_TOO_SMALL and computes nothing.
 * After any other failure `out` and `*n` are unchanged.
 *
 * Tokens are used unchanged: let rz_tokenize_into add the special tokens at both ends of a text
 * (RZ_TOKENIZE_ADD_SPECIAL), such as the end token that RZ_POOLING_LAST needs. A pair of texts for a reranker is one
 * list of tokens, in the form that the model's authors define. A text must fit the model's context_length; texts for
 * SigLIP are padded to this length, unless RZ_POOLING_NONE asks for one vector per token. An embedding depends only on
 * the tokens of its own text, not on the other texts, their order or the number of threads. On the CPU, and on a GPU
 * with RZ_MODEL_DETERMINISTIC, this holds bit for bit. The call uses no rz_cache. It only reads the model; its memory
 * grows with the longest text and is freed at the end.
 *
 * `params` and `cancel` may be NULL. Any thread, any number at once. Errors: RZ_ERR_INVALID_ARGUMENT (a text without
 * tokens, one longer than the context length, a token outside the vocabulary, an unknown pooling), RZ_ERR_VERSION
 * (unknown flags), RZ_ERR_UNSUPPORTED (the model declares no pooling, or has no classifier), RZ_ERR_DEVICE_LOST,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_CANCELLED, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_embed_into(const rz_model *model,
              const rz_embed_params *RZ_NULLABLE params,
              const uint32_t *const *tokens,
              const size_t *lengths,
              size_t n_texts,
              float *RZ_NULLABLE out,
              size_t capacity,
              size_t *n,
              const rz_cancel *RZ_NULLABLE cancel,
              rz_error *RZ_NULLABLE err);

/* Like rz_embed_into, for `n_prompts` prompts, which may have media, for multimodal embedding models. For
 * Qwen3-VL-Embedding a prompt is a conversation (rz_prompt_from_chat). Rows of media count as tokens. `params` and
 * `cancel` may be NULL. Any thread. Errors: as for rz_embed_into, RZ_ERR_MISMATCH (a prompt of another model). Since
 * 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_embed_prompts_into(const rz_model *model,
                      const rz_embed_params *RZ_NULLABLE params,
                      rz_prompt *const *RZ_NULLABLE prompts,
                      size_t n_prompts,
                      float *RZ_NULLABLE out,
                      size_t capacity,
                      size_t *n,
                      const rz_cancel *RZ_NULLABLE cancel,
                      rz_error *RZ_NULLABLE err);

/* ------------------------------------------------------------------------------------------------
 * Metrics
 * ------------------------------------------------------------------------------------------------ */

/* Number and duration of the calls of one kind. The layout of this struct never changes. Since 0.1.0. */
typedef struct rz_phase_metrics {
  uint64_t count;   /* Number of calls. */
  uint64_t sum_ns;  /* Total time in nanoseconds. */
} rz_phase_metrics;

/* Phases of a model's work since it was loaded or rz_metrics_reset was called. Since 0.1.0. */
typedef struct rz_metrics {
  uint32_t struct_size;         /* sizeof(rz_metrics), set by the caller. */
  uint32_t reserved;            /* 0. */
  rz_phase_metrics load;        /* Load. */
  rz_phase_metrics tokenize;    /* Tokenization. */
  rz_phase_metrics prefill;     /* Prefill. */
  rz_phase_metrics decode;      /* Decode: one token at a time, including sampling of the next one. */
  rz_phase_metrics sample;      /* Sampling. */
  rz_phase_metrics detokenize;  /* Detokenization. */
  /* Matrix products of layers on the GPU, with adjacent norms and sums; only counted with RZ_MODEL_PROFILE, like all
   * fields whose names begin with gpu_. */
  rz_phase_metrics gpu_products;
  rz_phase_metrics gpu_attention;  /* Rotary positions, KV cache and attention. */
  rz_phase_metrics gpu_experts;    /* Routing, and experts. */
  rz_phase_metrics gpu_head;       /* Logits and the most likely token. */
  rz_phase_metrics gpu_other;      /* Embeddings, and separate norms, sums and gates. */
  /* Encoding of images, from their pixels to the rows of a media item. A media item created with RZ_ENCODE_STEPS
   * counts once its encoding is done. */
  rz_phase_metrics encode;
} rz_metrics;

/* Work of one kind of device since the model was loaded or rz_metrics_reset was called. A dispatch is one pass of one
 * or many tokens through the layers on the device; if layers are split between devices, each device counts its own
 * part. Since 0.1.0. */
typedef struct rz_backend_metrics {
  uint32_t struct_size;         /* sizeof(rz_backend_metrics), set by the caller. */
  uint32_t device_kind;         /* RZ_DEVICE_..., as requested. */
  uint64_t dispatches;          /* Number of dispatches; if 0, all values below are 0. */
  uint64_t bytes;               /* Bytes read and written by dispatches. */
  uint64_t latency_sum_ns;      /* Total latency in nanoseconds. */
  uint64_t latency_min_ns;      /* Minimum latency in nanoseconds. */
  uint64_t latency_max_ns;      /* Maximum latency in nanoseconds. */
  double latency_mean_ns;       /* Mean latency in nanoseconds. */
  double latency_variance_ns2;  /* Variance of the latency in square nanoseconds. */
  /* Entry 0 counts latencies under 1 microsecond, entry i counts latencies from 2^(i-1) to below 2^i microseconds,
   * and the last entry counts all longer latencies. */
  uint64_t latency_histogram[32];
} rz_backend_metrics;

/* Reads the phase counters of a model. The caller sets `out->struct_size`. Counting continues during the call, so the
 * numbers may or may not include a call in progress. Any thread. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_metrics_get(const rz_model *model, rz_metrics *out, rz_error *RZ_NULLABLE err);

/* Reads the counters of one kind of device, RZ_DEVICE_CPU or RZ_DEVICE_GPU. The caller sets `out->struct_size`. Any
 * thread. Errors: RZ_ERR_INVALID_ARGUMENT for an unknown kind. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_backend_metrics_get(const rz_model *model, uint32_t device_kind, rz_backend_metrics *out, rz_error *RZ_NULLABLE err);

/* Sets the counters of a model to zero. NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_metrics_reset(const rz_model *RZ_NULLABLE model);

/* ------------------------------------------------------------------------------------------------
 * Kernels on caller-owned memory
 * ------------------------------------------------------------------------------------------------ */

/* KV cache in the memory of a device, without a model. Mutable: one call at a time. */
typedef struct rz_kv rz_kv;

/* Shape of rz_attention_gqa_into. Since 0.1.0. */
typedef struct rz_attention_params {
  uint32_t struct_size;  /* sizeof(rz_attention_params). */
  uint32_t n_heads;      /* Query heads, a multiple of `n_kv_heads`. */
  uint32_t n_kv_heads;   /* Key and value heads. */
  uint32_t head_dim;     /* Values of a head: an even number up to 4096. */
  float scale;           /* Scale of the scores; 0: 1 / sqrt(head_dim). */
  /* Index of a device; 0: automatic choice, which never opens a GPU. A GPU receives all inputs with each call;
   * rz_kv_attend_into keeps them on the device. */
  uint32_t device;
} rz_attention_params;

/* Shape of an rz_kv. Since 0.1.0. */
typedef struct rz_kv_params {
  uint32_t struct_size;  /* sizeof(rz_kv_params). */
  uint32_t n_layers;     /* Number of layers, each with its own keys and values. */
  uint32_t n_heads;      /* Query heads, a multiple of `n_kv_heads`. */
  uint32_t n_kv_heads;   /* Key and value heads. */
  uint32_t head_dim;     /* Values of a head: an even number up to 4096. */
  uint32_t capacity;     /* Capacity in positions. */
  uint32_t kv_type;      /* Element type of keys and values, as in rz_cache_params; RZ_TYPE_DEFAULT: RZ_TYPE_F16. */
  uint32_t device;       /* Index of a device; 0: the CPU. */
} rz_kv_params;

/* Attention of one new position over `cache_len` earlier ones and itself: out = softmax(scale * q k^T) v, per head.
 *
 * `q`, `out`: [n_heads * head_dim]; `k_cache`, `v_cache`: [cache_len][n_kv_heads * head_dim]; `current_k`,
 * `current_v`: [n_kv_heads * head_dim]; all f32. Query head i reads key and value head i * n_kv_heads / n_heads.
 * `cache_len` may be 0; the caches may be NULL then. `out` must not overlap the inputs.
 *
 * A GPU multiplies in half precision, sums in single precision, and stays open for the next call of the same shape.
 * From then on, a call of this shape with `device` 0 uses the device that was faster for similar lengths, including
 * transfers. Equal inputs may then give results that differ by half-precision rounding. A named device gives
 * bit-identical results each time. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT; with a named GPU
 * RZ_ERR_DEVICE_UNAVAILABLE, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_attention_gqa_into(const rz_attention_params *RZ_NULLABLE params,
                      const float *q,
                      const float *k_cache,
                      const float *v_cache,
                      size_t cache_len,
                      const float *current_k,
                      const float *current_v,
                      float *out,
                      rz_error *RZ_NULLABLE err);

/* Matrix-vector product (GEMV) y = weights * x on the CPU, on the calling thread.
 *
 * `weights`: `rows` contiguous rows of `cols` values in blocks of `weight_type`, at any alignment; `x`: [cols], `y`:
 * [rows], f32. `weight_type` is any RZ_TYPE_... except RZ_TYPE_DEFAULT, and `cols` is a multiple of the values in its
 * block. `y` must not overlap the inputs. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_matvec_into(uint32_t weight_type,
               const void *weights,
               size_t rows,
               size_t cols,
               const float *x,
               float *y,
               rz_error *RZ_NULLABLE err);

/* Dequantizes blocks of `weight_type`, any RZ_TYPE_... except RZ_TYPE_DEFAULT, to f32.
 *
 * `n_values` is a multiple of the values in a block; `blocks` has the blocks of `n_values` values, at any alignment;
 * `out`: [n_values], not overlapping `blocks`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_dequantize_into(uint32_t weight_type, const void *blocks, size_t n_values, float *out, rz_error *RZ_NULLABLE err);

/* Creates an empty KV cache. The caller frees `*out` with rz_kv_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a
 * zero in the shape, an `n_heads` that is not a multiple of `n_kv_heads`, an unknown type), RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_DEVICE_UNAVAILABLE, RZ_ERR_DEVICE_OUT_OF_MEMORY. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_kv_new(const rz_kv_params *RZ_NULLABLE params, rz_kv **out, rz_error *RZ_NULLABLE err);

/* Appends one position to `layer`, and computes its attention over all positions of that layer, including itself.
 *
 * `q`, `out`: [n_heads * head_dim]; `k`, `v`: [n_kv_heads * head_dim]; f32; `out` must not overlap the inputs.
 * `*new_len` receives the number of positions of the layer. Layers are filled one position at a time, in any order.
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_CONTEXT_FULL, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_DEVICE_LOST.
 * Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_kv_attend_into(rz_kv *kv,
                  uint32_t layer,
                  const float *q,
                  const float *k,
                  const float *v,
                  float *out,
                  uint32_t *new_len,
                  rz_error *RZ_NULLABLE err);

/* Rewinds every layer to its first `len` positions; 0 clears the cache. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT if
 * `len` is greater than the number of positions, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
RZ_API rz_status RZ_CALL
rz_kv_truncate(rz_kv *kv, uint32_t len, rz_error *RZ_NULLABLE err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
RZ_API void RZ_CALL
rz_kv_free(rz_kv *RZ_NULLABLE kv);

/* ------------------------------------------------------------------------------------------------
 * Layouts of structs
 * ------------------------------------------------------------------------------------------------ */

/* Offset and size of a field of a struct, or size of a whole struct. Since 0.1.0. */
typedef struct rz_layout {
  uint32_t struct_size;  /* sizeof(rz_layout), set by the caller. */
  uint32_t offset;       /* Bytes before the field; 0 for a whole struct. */
  uint32_t size;         /* Bytes of the field, or of the struct. */
  char struct_name[32];  /* Name of the struct, such as "rz_model_info". */
  char field_name[32];   /* Name of the field, such as "n_layers"; empty for the whole struct. */
} rz_layout;

/* Returns entry `index` of the table of all structs of this header: for each struct an entry for the whole struct,
 * then its fields in order.
 *
 * The caller sets `out->struct_size`. A binding that declares these structs in another language iterates from 0 until
 * RZ_ERR_NOT_FOUND and compares. Any thread. Errors: RZ_ERR_NOT_FOUND beyond the last entry. Since 0.1.0. */
RZ_API RZ_WARN_UNUSED rz_status RZ_CALL
rz_layout_get(uint32_t index, rz_layout *out, rz_error *RZ_NULLABLE err);

#ifdef __clang__
#pragma clang assume_nonnull end
#pragma clang diagnostic pop
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* REALIZAR_H */
