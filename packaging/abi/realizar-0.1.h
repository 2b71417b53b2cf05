/* realizar: language models inside your own process.
 *
 * A model is loaded from a file and immutable from then on. A cache is one timeline of it: the tokens so far, and what
 * the network remembers of them. Prefill appends a prompt, decode appends one token and names the next.
 *
 *   #include <realizar.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     rz_error err;
 *     rz_model *model = NULL;
 *     rz_cache *cache = NULL;
 *     rz_textstream *stream = NULL;
 *     uint32_t tokens[64], token;
 *     char text[256];
 *     size_t n, len;
 *     if (rz_model_load("model.gguf", NULL, &model, &err) < 0) goto fail;
 *     if (rz_cache_new(model, NULL, &cache, &err) < 0) goto fail;
 *     if (rz_textstream_new(model, &stream, &err) < 0) goto fail;
 *     if (rz_tokenize_into(model, "Once upon", 9, RZ_TOKENIZE_ADD_SPECIAL, tokens, 64, &n, &err) < 0) goto fail;
 *     if (rz_prefill(cache, tokens, n, NULL, &err) < 0) goto fail;
 *     if (rz_sample(cache, NULL, &token, &err) < 0) goto fail;
 *     for (int i = 0; i < 100 && !rz_token_is_end(model, token); i++) {
 *       if (rz_textstream_push_into(stream, token, text, sizeof text, &len, &err) < 0) goto fail;
 *       fwrite(text, 1, len, stdout);
 *       if (rz_decode_token(cache, token, NULL, &token, &err) < 0) goto fail;
 *     }
 *   fail:
 *     if (err.code < 0) fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
 *     rz_textstream_free(stream);
 *     rz_cache_free(cache);
 *     rz_model_free(model);
 *     return err.code < 0;
 *   }
 *
 * What holds for every function:
 *
 * - A function that can fail returns an rz_status: 0 is success, positive is progress, negative is failure. Its last
 *   argument is an rz_error of the caller's, or NULL. Nothing is kept per thread.
 * - Results are written on success only, and a call that fails leaves its handles as they were. The exception: with
 *   RZ_ERR_BUFFER_TOO_SMALL the needed count is written.
 * - Any function may be called from any thread. A handle passed as const may be used by any number of calls at once;
 *   one that is not const belongs to one call at a time, and a second call gets RZ_ERR_BUSY at once.
 * - What _new, _load or _fork gives, the matching _free takes back; NULL is fine. Handles are freed in any order,
 *   because each keeps alive what it needs. With the last one the library's last thread ends.
 * - Strings are UTF-8 with a length in bytes; only paths, keys and chat messages end with a NUL.
 * - A parameter struct begins with struct_size, which the caller sets to the struct's sizeof; every other zero means
 *   the default. Begin with {0}: later versions append fields. A field or a flag that the library is too old for is
 *   RZ_ERR_VERSION.
 * - A struct that is written to begins with struct_size too, from 4 to 4096; the rest of it may be uninitialised. Fields
 *   that the library does not know become zero.
 * - Structs without struct_size, such as rz_error and rz_chat_message, never change.
 * - A handle that was freed, or is of another kind than the function wants, is RZ_ERR_INVALID_ARGUMENT in most cases;
 *   no program may rely on it.
 * - A file that is damaged, or made to do damage, costs a status and a message. The exceptions are told where they
 *   apply: RZ_MODEL_MMAP, and pointers that do not point where this header says.
 * - Nothing is printed, no environment variable is read, no signal handler is set. On threads of the program no destructor
 *   of the library is left, so that it can be unloaded (dlclose) once all handles are freed; a GPU's driver may stay. */

#ifndef REALIZAR_H
#define REALIZAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * Status codes and errors
 * ------------------------------------------------------------------------------------------------ */

/* Outcome of a call: 0 is success, a positive number is progress, a negative one is failure. */
typedef int32_t rz_status;

/* Record of a failure, in memory of the caller: on the stack, uninitialised, is fine. Its layout never changes.
 *
 * Every function with an `rz_error *` as its last argument takes NULL there too, and otherwise fills the
 * record in on every return: on success with the status, 0 and an empty message. Since 0.1.0. */
typedef struct rz_error {
  int32_t code;         /* The status that was returned. */
  int32_t system_code;  /* `errno` of the system call that failed, else 0. */
  /* The reason, then the file: UTF-8, NUL-terminated, free of control characters. The middle of one that is too long
   * is left out. */
  char message[504];
} rz_error;

#define RZ_OK 0                           /* Success. */
#define RZ_AGAIN 1                        /* Progress, and work is left: call again. */
#define RZ_DONE 2                         /* Generation has ended. */
#define RZ_ERR_INVALID_ARGUMENT (-1)      /* An argument can never work: NULL, out of range, not UTF-8. */
#define RZ_ERR_BUSY (-2)                  /* The handle is in use by another call right now. */
#define RZ_ERR_OUT_OF_MEMORY (-3)         /* The host's memory ran out. */
#define RZ_ERR_DEVICE_OUT_OF_MEMORY (-4)  /* A device's memory ran out. */
#define RZ_ERR_LIMIT (-5)                 /* A ceiling set by the caller would be passed. */
#define RZ_ERR_IO (-6)                    /* A file could not be opened or read. */
#define RZ_ERR_FORMAT (-7)                /* A file is damaged or hostile. */
#define RZ_ERR_UNSUPPORTED (-8)           /* The request is valid, but this library does not implement it. */
#define RZ_ERR_VERSION (-9)               /* A field or a flag that this library is too old for. */
#define RZ_ERR_CANCELLED (-10)            /* An `rz_cancel` was fired, or a callback asked to stop. */
#define RZ_ERR_DEADLINE (-11)             /* The time allowed has passed. */
#define RZ_ERR_CONTEXT_FULL (-12)         /* The cache has no room for the tokens. */
#define RZ_ERR_BUFFER_TOO_SMALL (-13)     /* The buffer is too small; the needed count was written. */
#define RZ_ERR_DEVICE_UNAVAILABLE (-14)   /* The device cannot be used; the message says why. */
#define RZ_ERR_DEVICE_LOST (-15)          /* The device failed and its work is lost. */
#define RZ_ERR_MISMATCH (-16)             /* Things of different models in one call. */
#define RZ_ERR_PANIC (-17)                /* A bug of this library, caught. Please report the message. */
#define RZ_ERR_POISONED (-18)             /* A call on this handle ended in RZ_ERR_PANIC: free it. */

/* ------------------------------------------------------------------------------------------------
 * Version
 * ------------------------------------------------------------------------------------------------ */

/* Version of this header. */
#define RZ_VERSION_MAJOR 0
#define RZ_VERSION_MINOR 1
#define RZ_VERSION_PATCH 0

/* The number of the interface, the one in the SONAME of the library too. It grows with every change that a program
 * built against an older header could notice, so a program that loads the library at run time compares it first:
 * rz_abi_version() == RZ_ABI_VERSION. Functions that are added leave it as it is: whoever wants to run with older
 * libraries too looks such a one up with dlsym, or compares rz_version(). */
#define RZ_ABI_VERSION 1

/* RZ_ABI_VERSION of the header that the library was built with; a program works with a library that has its own.
 * Any thread. Since 0.1.0. */
uint32_t rz_abi_version(void);

/* Version of the library, such as "0.1.0"; RZ_VERSION_MAJOR, RZ_VERSION_MINOR and RZ_VERSION_PATCH are those of the
 * header. The string is static. Any thread. Since 0.1.0. */
const char *rz_version(void);

/* Name of a status, such as "RZ_ERR_FORMAT". The string is static; an unknown number is "RZ_UNKNOWN", never NULL.
 * Any thread. Since 0.1.0. */
const char *rz_status_name(rz_status status);

/* ------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------ */

#define RZ_DEVICE_CPU 1   /* `rz_device_info.kind`: the processors of the host. */
#define RZ_DEVICE_CUDA 2  /* `rz_device_info.kind`: an NVIDIA GPU. */

/* A device. Since 0.1.0. */
typedef struct rz_device_info {
  uint32_t struct_size;   /* sizeof(rz_device_info), set by the caller. */
  uint32_t index;         /* Index of the device. */
  char name[64];          /* Name, such as "cuda:0 NVIDIA H200". */
  uint32_t kind;          /* RZ_DEVICE_CPU or RZ_DEVICE_CUDA. */
  uint32_t available;     /* 1 when models can be loaded to it, else 0. */
  char isa[32];           /* Instruction set or compute capability, such as "avx512vnni" or "sm_90". */
  uint64_t memory_total;  /* Bytes of memory in all; 0 where unknown. */
  uint64_t memory_free;   /* Bytes of memory free right now; 0 where unknown. */
  char unavailable[256];  /* Reason why the device cannot be used; empty for one that can. */
} rz_device_info;

/* Number of devices, the unavailable ones included. Their indices run from 1 to this number; 1 is always the CPU.
 * Wherever a device is asked for, 0 stands for "choose for me". Any thread. Since 0.1.0. */
uint32_t rz_device_count(void);

/* Describes device `index`, or with 0 the one that would be chosen.
 *
 * `out->struct_size` is set by the caller. A device that cannot be used is described too, with the reason.
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for an index beyond rz_device_count(). Since 0.1.0. */
rz_status rz_device_info_get(uint32_t index, rz_device_info *out, rz_error *err);

/* ------------------------------------------------------------------------------------------------
 * Runtime: worker threads, log, ceilings
 * ------------------------------------------------------------------------------------------------ */

#define RZ_LOG_ERROR 1    /* Log level: a call failed with RZ_ERR_PANIC or RZ_ERR_DEVICE_LOST. */
#define RZ_LOG_WARNING 2  /* Log level: something is worse than the caller may expect. */
#define RZ_LOG_INFO 3     /* Log level: what a model is and where it was loaded to. */

/* Worker threads, a log and ceilings on memory, shared by the models that are loaded with it. Immutable: any
 * number of threads may use it at once. A model that is loaded without one gets its own, with all defaults. */
typedef struct rz_runtime rz_runtime;

/* Receives a log message: UTF-8 of `len` bytes, not NUL-terminated, valid during the call only. Comes from any
 * thread, several at once. It must return normally: no longjmp, no C++ exception. */
typedef void (*rz_log_callback)(int32_t level, const char *message, size_t len, void *user);

/* Parameters of an rz_runtime. Zero in a field, or NULL for all of them, stands for the default. Since 0.1.0. */
typedef struct rz_runtime_params {
  uint32_t struct_size;  /* sizeof(rz_runtime_params). */
  /* Threads that compute: n are the calling one and n - 1 workers, so 1 makes no thread at all.
   * 0: one a processor core. */
  uint32_t threads;
  /* Ceiling in bytes on weights and caches in host memory, what lies on a GPU not counted; 0: none. Beyond it calls
   * fail with RZ_ERR_LIMIT. */
  uint64_t memory_limit;
  /* Processors (as the system numbers them) to which the workers are bound, one each in turn; NULL: none.
   * Copied. The calling thread is never bound. */
  const uint32_t *cpus;
  size_t n_cpus;  /* Number of `cpus`. */
  /* Receives what the library has to say, until the last handle that uses the runtime is freed; NULL: nobody. */
  rz_log_callback log;
  void *log_user;  /* Handed to `log` as it is. */
} rz_runtime_params;

/* Makes a runtime and starts its workers; they sleep while there is no work.
 *
 * `params` may be NULL. `*out` is freed with rz_runtime_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (too
 * many threads, a processor that does not exist), RZ_ERR_IO (the system gives no more threads),
 * RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
rz_status rz_runtime_new(const rz_runtime_params *params, rz_runtime **out, rz_error *err);

/* Frees the handle; NULL is fine. Models that were loaded with it keep the runtime alive; with the last of them the
 * workers end and are joined. Any thread. Since 0.1.0. */
void rz_runtime_free(rz_runtime *runtime);

/* ------------------------------------------------------------------------------------------------
 * Cancelling
 * ------------------------------------------------------------------------------------------------ */

/* A flag that stops the calls it was given to, and every call on the caches it was set for (rz_cache_cancel_set). May
 * be fired and reset from any thread while calls use it. */
typedef struct rz_cancel rz_cancel;

/* Makes a flag that is not fired. `*out` is freed with rz_cancel_free. Any thread. Since 0.1.0. */
rz_status rz_cancel_new(rz_cancel **out, rz_error *err);

/* Frees the handle; NULL is fine. Any thread, except while another one fires it. Since 0.1.0. */
void rz_cancel_free(rz_cancel *cancel);

/* Asks the calls that heed `cancel` to stop, which they do with RZ_ERR_CANCELLED after the layer at hand: within
 * milliseconds for one token, some tens of them for the long prompt of a large model. Calls that begin later stop at
 * once, until rz_cancel_reset. NULL is fine. Any thread, a signal handler included. Since 0.1.0. */
void rz_cancel_fire(rz_cancel *cancel);

/* Makes a fired flag fit for use again. NULL is fine. Any thread. Since 0.1.0. */
void rz_cancel_reset(rz_cancel *cancel);

/* ------------------------------------------------------------------------------------------------
 * Models
 * ------------------------------------------------------------------------------------------------ */

/* Load flag: results do not depend on the number of threads, nor on how a prompt was cut into pieces, nor on the other
 * caches of a batch. On the CPU they never do. On a GPU the flag costs speed, most of it where one token is decoded at a
 * time; results still differ between devices, and with the number of layers that are on them. */
#define RZ_MODEL_DETERMINISTIC 1

/* Load flag: map the weights and use them in place instead of reading them into memory, which loads at once and
 * generates several times slower. A mapped file that somebody shortens while it is in use ends the process with SIGBUS;
 * that is why it is the caller's choice. */
#define RZ_MODEL_MMAP 2

/* Load flag: metadata, tokenizer and chat template only. A file without weights will do, and no cache can be made. */
#define RZ_MODEL_TEXT_ONLY 4

/* Load flag: measure the parts of each step on a GPU, for rz_metrics_get. Steps take longer, and none begins before the
 * one ahead of it has ended. */
#define RZ_MODEL_PROFILE 8

#define RZ_TEMPLATE_PRESENT 1  /* Bit of rz_model_info.chat_template: rz_chat_render_into works. */

/* Bit of rz_model_info.chat_template: the template writes the token that begins a text itself, so that what it has
 * rendered is tokenized without RZ_TOKENIZE_ADD_SPECIAL. */
#define RZ_TEMPLATE_WRITES_BOS 2

#define RZ_TOKEN_NONE UINT32_MAX  /* Instead of a token id: the model names none. */

/* Weights, tokenizer and metadata of one model. Immutable once it is loaded: any number of threads, caches and text
 * streams may use it at once. Counts its users, so it may be freed before them. */
typedef struct rz_model rz_model;

/* Receives the progress of a load in bytes, on the thread that loads. Non-zero stops the load with RZ_ERR_CANCELLED.
 * It must return normally: no longjmp, no C++ exception. */
typedef int32_t (*rz_progress_callback)(uint64_t done, uint64_t total, void *user);

/* Parameters of a load. Zero in a field, or NULL for all of them, stands for the default. Since 0.1.0. */
typedef struct rz_model_params {
  uint32_t struct_size;  /* sizeof(rz_model_params). */
  uint32_t device;       /* Index of a device; 0: choose for me. */
  /* Workers, log and ceilings to use; NULL: a runtime of its own. The caller may free its handle afterwards. */
  const rz_runtime *runtime;
  uint32_t flags;  /* RZ_MODEL_... flags, or-ed together. */
  /* Layers to be placed on a GPU, where `device` is one: the last ones, and the output matrix with them. The others are
   * computed on the CPU, their part of each cache lies there. 0: as many as fit into the free memory of the device,
   * beside a cache of default capacity and the scratch of a step. More layers than there are stand for all. */
  uint32_t gpu_layers;
  /* GGML type id to which matrices of floats are converted while they are loaded; 0: none, keep the file's types. */
  uint32_t quantize;
  uint32_t reserved;              /* 0. */
  rz_progress_callback progress;  /* Told how far the load is; NULL: nobody. */
  void *progress_user;            /* Handed to `progress` as it is. */
  const rz_cancel *cancel;        /* Stops the load when fired; NULL: nothing does. */
} rz_model_params;

/* Description of a model. Since 0.1.0. */
typedef struct rz_model_info {
  uint32_t struct_size;     /* sizeof(rz_model_info), set by the caller. */
  char architecture[32];    /* Family of the network, such as "llama" or "qwen3". */
  char name[64];            /* The model's own name; empty where the file gives none. */
  uint32_t n_layers;        /* Transformer layers. */
  uint32_t hidden_dim;      /* Width of the residual stream, in values. */
  uint32_t ffn_dim;         /* Width of the feed-forward block, in values. */
  uint32_t n_heads;         /* Query heads. */
  uint32_t n_kv_heads;      /* Key and value heads. */
  uint32_t head_dim;        /* Values of a head. */
  uint32_t vocab_size;      /* Token ids run from 0 to vocab_size - 1; also the number of logits. */
  uint32_t context_length;  /* Tokens the model was made for, as the file declares. */
  uint32_t device;          /* Index of the device it was loaded to. */
  uint32_t bos_token;       /* Token that begins a text, or RZ_TOKEN_NONE. */
  uint32_t eos_token;       /* Token that ends a text, or RZ_TOKEN_NONE. There may be more: see rz_token_is_end. */
  uint64_t n_params;        /* Parameters. */
  uint64_t weight_bytes;    /* Bytes of weights in memory; 0 for a model loaded with RZ_MODEL_TEXT_ONLY. */
  uint32_t gpu_layers;      /* Layers on a GPU; the others are computed on the CPU. */
  uint32_t chat_template;   /* RZ_TEMPLATE_... bits, or-ed together; 0: no template that works. */
} rz_model_info;

/* Loads a model.
 *
 * `path`, NUL-terminated, names a .gguf file (the first one of a split set too), a .safetensors file, or a folder
 * with a config.json. `params` may be NULL. `*out` is freed with rz_model_free. Any thread; takes as long as
 * reading the file does. Errors: RZ_ERR_IO (missing, unreadable, or not a regular file), RZ_ERR_FORMAT (damaged),
 * RZ_ERR_UNSUPPORTED (an architecture or tensor type that is not implemented), RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY,
 * RZ_ERR_CANCELLED, RZ_ERR_DEVICE_UNAVAILABLE, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_INVALID_ARGUMENT, RZ_ERR_VERSION
 * (unknown flags). Since 0.1.0. */
rz_status rz_model_load(const char *path, const rz_model_params *params, rz_model **out, rz_error *err);

/* Frees the handle; NULL is fine. Caches and text streams of the model stay usable; the weights go with the last of
 * them. Any thread. Since 0.1.0. */
void rz_model_free(rz_model *model);

/* Describes a model. `out->struct_size` is set by the caller. The first call runs the chat template, on a thread that ends
 * with the call. Any thread. Errors: RZ_ERR_IO (the system gives no thread). Since 0.1.0. */
rz_status rz_model_info_get(const rz_model *model,
                            rz_model_info *out,
                            rz_error *err);

/* Writes a value of the model's metadata as text, such as that of the NUL-terminated `key` "general.name"; of an array
 * its length and kind, such as "[24 integers]".
 *
 * `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` (0 and a NULL `out` to ask for
 * the size) the result is RZ_ERR_BUFFER_TOO_SMALL and `*len` the bytes needed. Any thread. Errors:
 * RZ_ERR_INVALID_ARGUMENT for a key that the model does not have. Since 0.1.0. */
rz_status rz_model_meta_into(const rz_model *model,
                             const char *key,
                             char *out,
                             size_t capacity,
                             size_t *len,
                             rz_error *err);

/* Writes key `index` of the model's metadata, in alphabetical order; keys are asked for from 0 until
 * RZ_ERR_INVALID_ARGUMENT.
 *
 * `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT beyond the last key. Since 0.1.0. */
rz_status rz_model_meta_key_into(const rz_model *model,
                                 size_t index,
                                 char *out,
                                 size_t capacity,
                                 size_t *len,
                                 rz_error *err);

/* Writes element `index` of the array under the NUL-terminated `key` of the model's metadata as text; elements are asked
 * for from 0 until RZ_ERR_INVALID_ARGUMENT.
 *
 * `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (no such key, no array, beyond the last element),
 * RZ_ERR_UNSUPPORTED for an array that only the tokenizer keeps: see rz_token_bytes_into. Since 0.1.0. */
rz_status rz_model_meta_element_into(const rz_model *model,
                                     const char *key,
                                     size_t index,
                                     char *out,
                                     size_t capacity,
                                     size_t *len,
                                     rz_error *err);

/* ------------------------------------------------------------------------------------------------
 * Text and tokens
 * ------------------------------------------------------------------------------------------------ */

/* Flag of rz_tokenize_into: add the tokens that begin and end a text, as the model asks. */
#define RZ_TOKENIZE_ADD_SPECIAL 1

/* Flag of rz_tokenize_into: "<|im_end|>" in the text becomes its token. Not for text that users typed. */
#define RZ_TOKENIZE_PARSE_SPECIAL 2

#define RZ_DETOKENIZE_SPECIAL 1  /* Flag of rz_detokenize_into: write special tokens too. */
#define RZ_TOKEN_NORMAL 1        /* Attribute of a token: reached by cutting text into tokens. */

/* Attribute of a token: steers the model, such as "<|im_end|>"; texts are written without it. */
#define RZ_TOKEN_CONTROL 2

#define RZ_TOKEN_USER 4  /* Attribute of a token: found as a whole in any text. */
#define RZ_TOKEN_BYTE 8  /* Attribute of a token: stands for one byte. */
#define RZ_TOKEN_END 16  /* Attribute of a token: ends a turn or a text, as rz_token_is_end says. */

/* Flag of rz_chat_render_into: end with the opening of the assistant's turn. */
#define RZ_CHAT_ADD_GENERATION_PROMPT 1

/* Turns tokens into text as they come, holding back the bytes of an unfinished character. Mutable, so one call at a
 * time. */
typedef struct rz_textstream rz_textstream;

/* One message of a chat; NUL-terminated UTF-8. The simple form: it never grows. Since 0.1.0. */
typedef struct rz_chat_message {
  const char *role;     /* Role of the speaker, such as "system", "user" or "assistant". */
  const char *content;  /* Text of the message. */
} rz_chat_message;

/* Turns `text`, UTF-8 of `text_len` bytes, into token ids.
 *
 * `*n` receives their number. With too small a `capacity` (0 and a NULL `out` to ask for it) the result is
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (not UTF-8),
 * RZ_ERR_VERSION (unknown flags), RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented). Since 0.1.0. */
rz_status rz_tokenize_into(const rz_model *model,
                           const char *text,
                           size_t text_len,
                           uint32_t flags,
                           uint32_t *out,
                           size_t capacity,
                           size_t *n,
                           rz_error *err);

/* Turns `n` token ids into text.
 *
 * `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` (0 and a NULL `out` to ask for
 * it) the result is RZ_ERR_BUFFER_TOO_SMALL. Bytes that are no UTF-8, such as half a character at the end, become
 * U+FFFD; for a text that arrives token by token use an rz_textstream. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT
 * (a token outside the vocabulary), RZ_ERR_VERSION (unknown flags), RZ_ERR_UNSUPPORTED. Since 0.1.0. */
rz_status rz_detokenize_into(const rz_model *model,
                             const uint32_t *tokens,
                             size_t n,
                             uint32_t flags,
                             char *out,
                             size_t capacity,
                             size_t *len,
                             rz_error *err);

/* 1 when `token` ends a turn or a text of this model, else 0 (also for NULL and for a token outside the vocabulary).
 * Any thread. Since 0.1.0. */
int32_t rz_token_is_end(const rz_model *model, uint32_t token);

/* Writes the bytes of one token, which may be a part of a character; those of a control token spell its name. Behind each
 * other the bytes of tokens make a text, but for a space at its beginning that some tokenizers put there.
 *
 * `*len` receives their number and `*attributes` RZ_TOKEN_NORMAL and the like, or-ed together; `attributes` may be NULL.
 * With too small a `capacity` (0 and a NULL `out` to ask for it) the result is RZ_ERR_BUFFER_TOO_SMALL. Any thread.
 * Errors: RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary), RZ_ERR_UNSUPPORTED (a tokenizer that is not
 * implemented). Since 0.1.0. */
rz_status rz_token_bytes_into(const rz_model *model,
                              uint32_t token,
                              void *out,
                              size_t capacity,
                              size_t *len,
                              uint32_t *attributes,
                              rz_error *err);

/* Makes a text stream for the tokens of a model. `*out` is freed with rz_textstream_free, before or after the model.
 * Any thread. Errors: RZ_ERR_UNSUPPORTED (a tokenizer that is not implemented). Since 0.1.0. */
rz_status rz_textstream_new(const rz_model *model, rz_textstream **out, rz_error *err);

/* Adds a token and writes the text that is complete with it: whole UTF-8 characters, often none.
 *
 * `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` the result is
 * RZ_ERR_BUFFER_TOO_SMALL and the token was not added: call again with more room. Any thread. Errors:
 * RZ_ERR_INVALID_ARGUMENT (a token outside the vocabulary), RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
rz_status rz_textstream_push_into(rz_textstream *stream,
                                  uint32_t token,
                                  char *out,
                                  size_t capacity,
                                  size_t *len,
                                  rz_error *err);

/* Ends the text: writes what was held back, with U+FFFD for an unfinished character, and makes the stream fit for
 * another text. Sizes and errors are those of rz_textstream_push_into. Any thread. Since 0.1.0. */
rz_status rz_textstream_flush_into(rz_textstream *stream, char *out, size_t capacity, size_t *len, rz_error *err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
void rz_textstream_free(rz_textstream *stream);

/* Writes `n` messages as the text that the model was trained on, by the chat template in its file.
 *
 * `*len` receives its bytes; it is not NUL-terminated. With too small a `capacity` (0 and a NULL `out` to ask for
 * it) the result is RZ_ERR_BUFFER_TOO_SMALL. Tokenize it with RZ_TOKENIZE_PARSE_SPECIAL, and with
 * RZ_TOKENIZE_ADD_SPECIAL too unless rz_model_info.chat_template says RZ_TEMPLATE_WRITES_BOS. Special tokens that
 * somebody spells in a message become real ones then. The template runs on a thread that ends with the call. Any thread.
 * Errors: RZ_ERR_UNSUPPORTED (no template, or one that uses what is not implemented), RZ_ERR_INVALID_ARGUMENT (the
 * template refuses the messages), RZ_ERR_VERSION (unknown flags), RZ_ERR_IO (the system gives no thread), RZ_ERR_LIMIT.
 * Since 0.1.0. */
rz_status rz_chat_render_into(const rz_model *model,
                              const rz_chat_message *messages,
                              size_t n,
                              uint32_t flags,
                              char *out,
                              size_t capacity,
                              size_t *len,
                              rz_error *err);

/* ------------------------------------------------------------------------------------------------
 * Choosing tokens
 * ------------------------------------------------------------------------------------------------ */

/* Chooses tokens from logits, with a random number generator of its own: mutable, so one call at a time. Usable with
 * caches of any model. */
typedef struct rz_sampler rz_sampler;

/* Added to one logit before anything else; -INFINITY forbids the token. Never grows. Since 0.1.0. */
typedef struct rz_logit_bias {
  /* Token id. Calls with a model whose vocabulary is too small for it get RZ_ERR_INVALID_ARGUMENT. */
  uint32_t token;
  float bias;  /* Number to add to the logit. */
} rz_logit_bias;

/* Parameters of a choice. Zero in a field switches it off, so all zeros, or NULL, choose the most likely token.
 *
 * In this order: biases, penalties, then top_k, top_p and min_p on what the temperature leaves. Since 0.1.0. */
typedef struct rz_sampler_params {
  uint32_t struct_size;         /* sizeof(rz_sampler_params). */
  float temperature;            /* Divides the logits; 0: always the most likely token. */
  uint32_t top_k;               /* Keep the k most likely tokens. */
  float top_p;                  /* Keep the most likely tokens that together reach this probability. */
  float min_p;                  /* Drop tokens less likely than this share of the likeliest one. */
  float repeat_penalty;         /* Logits of recent tokens are divided by it, or multiplied where negative. */
  float presence_penalty;       /* Taken from the logit of every recent token. */
  float frequency_penalty;      /* Taken from the logit of a recent token as often as it occurred. */
  uint32_t penalty_window;      /* Number of the last tokens that count as recent; 0: 64. */
  uint32_t flags;               /* RZ_SAMPLER_..., or-ed. */
  uint64_t seed;                /* Seed of the random numbers; 0 is one like any other. */
  const rz_logit_bias *biases;  /* Copied; NULL: none. */
  size_t n_biases;              /* Number of `biases`. */
} rz_sampler_params;

/* Makes a sampler. `params` may be NULL; `*out` is freed with rz_sampler_free. Any thread.
 * Errors: RZ_ERR_INVALID_ARGUMENT for a value that is not a number or out of its range. Since 0.1.0. */
rz_status rz_sampler_new(const rz_sampler_params *params, rz_sampler **out, rz_error *err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
void rz_sampler_free(rz_sampler *sampler);

/* ------------------------------------------------------------------------------------------------
 * Caches
 * ------------------------------------------------------------------------------------------------ */

/* Element type of a cache: 16 bits a value, the default (GGML type id 1). Half precision on a GPU; on the CPU integers of
 * 14 bits with scales, which it multiplies faster. */
#define RZ_CACHE_TYPE_F16 1

#define RZ_CACHE_TYPE_Q8_0 8  /* Element type of a cache: blocks of 32 values with 8 bits each (GGML type id 8). */

/* Element type of a cache: single precision. Its GGML type id, 0, stands for the default. */
#define RZ_CACHE_TYPE_F32 256

/* One timeline of a model: its tokens, their keys and values, and the logits after the last one. Mutable, so one
 * call at a time: a second one gets RZ_ERR_BUSY. Caches of one model work side by side. */
typedef struct rz_cache rz_cache;

/* Parameters of a cache. Zero in a field, or NULL for all of them, stands for the default. Since 0.1.0. */
typedef struct rz_cache_params {
  uint32_t struct_size;  /* sizeof(rz_cache_params). */
  /* Tokens; 0: the model's context_length, but at most 8192. More than the model was made for is logged as a warning. */
  uint32_t capacity;
  uint32_t k_type;  /* Type of the keys, RZ_CACHE_TYPE_...; 0: F16. */
  uint32_t v_type;  /* Type of the values, RZ_CACHE_TYPE_...; 0: F16. */
} rz_cache_params;

/* Makes an empty cache. `params` may be NULL; `*out` is freed with rz_cache_free, before or after the model. Any
 * thread. Errors: RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT, and RZ_ERR_INVALID_ARGUMENT for
 * an unknown type or a model without weights. Since 0.1.0. */
rz_status rz_cache_new(const rz_model *model, const rz_cache_params *params, rz_cache **out, rz_error *err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
void rz_cache_free(rz_cache *cache);

/* Tokens in the cache; while a call is changing it, those before that call. 0 for NULL. Any thread, at any time.
 * Since 0.1.0. */
uint32_t rz_cache_len(const rz_cache *cache);

/* Tokens that the cache has room for. 0 for NULL. Any thread, at any time. Since 0.1.0. */
uint32_t rz_cache_capacity(const rz_cache *cache);

/* Rewinds to the first `len` tokens; 0 clears. There are no logits until the next token is appended. Any thread.
 * Errors: RZ_ERR_INVALID_ARGUMENT where `len` is more than there are, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
rz_status rz_cache_truncate(rz_cache *cache, uint32_t len, rz_error *err);

/* Has every call on the cache heed `cancel`, beside the one that the call itself is given: prefill, decode, batches,
 * and the calls that ask for logits. NULL takes it back. The cache keeps the flag alive; forks that are made later heed
 * it too. A batch stops when that of any of its caches is fired. Any thread. Errors: RZ_ERR_BUSY while a call changes
 * `cache`, RZ_ERR_POISONED. Since 0.1.0. */
rz_status rz_cache_cancel_set(rz_cache *cache, const rz_cancel *cancel, rz_error *err);

/* Makes a second cache with the same past, capacity, logits and cancel; from here on the two go their own ways. `*out`
 * is freed with rz_cache_free. Any thread. Errors: RZ_ERR_BUSY while a call changes `cache`, RZ_ERR_POISONED,
 * RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_LIMIT. Since 0.1.0. */
rz_status rz_cache_fork(const rz_cache *cache, rz_cache **out, rz_error *err);

/* ------------------------------------------------------------------------------------------------
 * Generating
 * ------------------------------------------------------------------------------------------------ */

/* Appends `n` tokens, at least one; afterwards the logits of the last one are available.
 *
 * `cancel` may be NULL; it counts beside that of rz_cache_cancel_set. A call that fails leaves the cache as it was. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT
 * (no token, or one outside the vocabulary), RZ_ERR_CONTEXT_FULL, RZ_ERR_CANCELLED, RZ_ERR_BUSY, RZ_ERR_POISONED,
 * RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST. Since 0.1.0. */
rz_status rz_prefill(rz_cache *cache,
                     const uint32_t *tokens,
                     size_t n,
                     const rz_cancel *cancel,
                     rz_error *err);

/* Appends `token` and writes the one that follows to `*next`: the most likely one where `sampler` is NULL, which
 * on a GPU brings back four bytes only.
 *
 * A call that fails leaves the cache as it was. Any thread. Errors: those of rz_prefill. Since 0.1.0. */
rz_status rz_decode_token(rz_cache *cache, uint32_t token, rz_sampler *sampler, uint32_t *next, rz_error *err);

/* Appends `token`, then each token that it writes to `out` but the last, until `capacity` tokens are written
 * (RZ_OK) or one of them ends a turn or the text (RZ_DONE; that token is in `out`). One call, so that a GPU can
 * run ahead.
 *
 * `*n` receives the number of tokens written. To go on, call again with the last one. A call that fails on the way,
 * by a cancel too, keeps the tokens it has made: they are in `out`, counted in `*n`, and all but the last are in the
 * cache. `sampler` and `cancel` may be NULL. Any thread. Errors: those of rz_prefill. Since 0.1.0. */
rz_status rz_generate_into(rz_cache *cache,
                           uint32_t token,
                           rz_sampler *sampler,
                           uint32_t *out,
                           size_t capacity,
                           size_t *n,
                           const rz_cancel *cancel,
                           rz_error *err);

/* `rz_decode_token` for `n` caches of one model at once, in one pass over the weights: token i is appended to
 * cache i, and the one that follows is written to next[i].
 *
 * `samplers` may be NULL, and so may each of its `n` entries; `next` may be `tokens`. No cache and no sampler may
 * occur twice. A call that fails leaves all caches as they were. Any thread. Errors: those of rz_prefill, and
 * RZ_ERR_MISMATCH for caches of different models. Since 0.1.0. */
rz_status rz_decode_batch(rz_cache *const *caches,
                          const uint32_t *tokens,
                          size_t n,
                          rz_sampler *const *samplers,
                          uint32_t *next,
                          rz_error *err);

/* Copies the logits after the last token, one f32 for each entry of the vocabulary.
 *
 * `*n` receives their number. With too small a `capacity` (0 and a NULL `out` to ask for it) the result is
 * RZ_ERR_BUFFER_TOO_SMALL. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT where there are none, before the first
 * token and after a rewind; RZ_ERR_CANCELLED, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
rz_status rz_logits_into(rz_cache *cache, float *out, size_t capacity, size_t *n, rz_error *err);

/* Chooses a token from the current logits of `cache`, the most likely one where `sampler` is NULL, without
 * appending it.
 *
 * Any thread. Errors: those of rz_logits_into, RZ_ERR_CANCELLED. Since 0.1.0. */
rz_status rz_sample(rz_cache *cache, rz_sampler *sampler, uint32_t *token, rz_error *err);

/* ------------------------------------------------------------------------------------------------
 * Embeddings
 * ------------------------------------------------------------------------------------------------ */

#define RZ_POOLING_MODEL 0  /* Pooling: the one that the model was made with. */
#define RZ_POOLING_NONE 1   /* Pooling: none, a vector for each token. */
#define RZ_POOLING_MEAN 2   /* Pooling: the mean over all tokens. */
#define RZ_POOLING_CLS 3    /* Pooling: the vector of the first token. */
#define RZ_POOLING_LAST 4   /* Pooling: the vector of the last token. */

/* Pooling: the scores of the model's classifier, for rerankers. They are never normalised. */
#define RZ_POOLING_RANK 5

/* Flag of rz_embed_params: vectors keep their lengths, instead of having the length 1 (L2). */
#define RZ_EMBED_RAW 1

/* Parameters of rz_embed_into. Zero in a field, or NULL for all of them, stands for the default. Since 0.1.0. */
typedef struct rz_embed_params {
  uint32_t struct_size;  /* sizeof(rz_embed_params). */
  uint32_t pooling;      /* RZ_POOLING_...; 0: that of the model. */
  uint32_t flags;        /* RZ_EMBED_..., or-ed together. */
  uint32_t reserved;     /* 0. */
} rz_embed_params;

/* Turns `n` texts, text i being `lengths[i]` tokens at `tokens[i]`, into embeddings, or into scores with
 * RZ_POOLING_RANK.
 *
 * `out` receives `[n][dims]` floats, text by text; with RZ_POOLING_NONE `[tokens][dims]`, those of all tokens of the
 * first text, then those of the second. dims is the width of the network (rz_model_info.hidden_dim), that of the last
 * layer behind its pooling where it has one, or the number of the classifier's scores. `*written` receives the number
 * of floats. With too small a `capacity` (0 and a NULL `out` to ask for it) the result is RZ_ERR_BUFFER_TOO_SMALL and
 * nothing is computed. On any other failure neither changes.
 *
 * Tokens are taken as they are: let rz_tokenize_into add what the model wants at both ends of a text
 * (RZ_TOKENIZE_ADD_SPECIAL), such as the end token that RZ_POOLING_LAST reads. A pair of texts for a reranker is one list
 * of tokens, as the model's makers write it. A text must fit the model's context_length. An embedding depends on the
 * tokens of its own text alone, to the bit: not on the others, their order, or the number of threads. No rz_cache is used
 * or changed. The model is only read; the memory that the call takes grows with the longest text and is given back.
 *
 * `params` and `cancel` may be NULL. Any thread, any number at once. Errors: RZ_ERR_INVALID_ARGUMENT (a text without
 * tokens, one longer than the context, a token outside the vocabulary, an unknown pooling), RZ_ERR_VERSION (unknown
 * flags), RZ_ERR_UNSUPPORTED (the model names no pooling, has no classifier, or has layers on a GPU),
 * RZ_ERR_CANCELLED, RZ_ERR_LIMIT, RZ_ERR_OUT_OF_MEMORY. Since 0.1.0. */
rz_status rz_embed_into(const rz_model *model,
                        const rz_embed_params *params,
                        const uint32_t *const *tokens,
                        const size_t *lengths,
                        size_t n,
                        float *out,
                        size_t capacity,
                        size_t *written,
                        const rz_cancel *cancel,
                        rz_error *err);

/* ------------------------------------------------------------------------------------------------
 * Metrics
 * ------------------------------------------------------------------------------------------------ */

/* Number and duration of the calls of one kind. Never grows. Since 0.1.0. */
typedef struct rz_phase_metrics {
  uint64_t count;   /* Calls. */
  uint64_t sum_ns;  /* Sum of their times, in nanoseconds. */
} rz_phase_metrics;

/* The phases of a model's work since it was loaded or rz_metrics_reset was called. Since 0.1.0. */
typedef struct rz_metrics {
  uint32_t struct_size;         /* sizeof(rz_metrics), set by the caller. */
  uint32_t reserved;            /* 0. */
  rz_phase_metrics load;        /* Loading the model. */
  rz_phase_metrics tokenize;    /* Text to tokens. */
  rz_phase_metrics prefill;     /* Appending prompts. */
  rz_phase_metrics decode;      /* Appending one token at a time, choosing the next one included. */
  rz_phase_metrics sample;      /* Choosing tokens. */
  rz_phase_metrics detokenize;  /* Tokens to text. */
  /* Matrix products of layers on the GPU, with the norms and sums beside them; counted with RZ_MODEL_PROFILE only, as
   * are the fields below. */
  rz_phase_metrics gpu_products;
  rz_phase_metrics gpu_attention;  /* Rotation, cache and attention. */
  rz_phase_metrics gpu_experts;    /* The choice of experts, and experts. */
  rz_phase_metrics gpu_head;       /* Logits and the most likely token. */
  rz_phase_metrics gpu_other;      /* Embeddings, and norms, sums and gates that stand alone. */
} rz_metrics;

/* The work of one kind of device since the model was loaded or rz_metrics_reset was called. A dispatch is one pass
 * through its layers of the network, for one token or many: where layers are divided between devices, each counts its
 * own part. Since 0.1.0. */
typedef struct rz_backend_metrics {
  uint32_t struct_size;         /* sizeof(rz_backend_metrics), set by the caller. */
  uint32_t device_kind;         /* RZ_DEVICE_..., as asked for. */
  uint64_t dispatches;          /* Dispatches; where it is 0 so is all below. */
  uint64_t bytes;               /* Bytes that they read and wrote. */
  uint64_t latency_sum_ns;      /* Sum of their latencies, in nanoseconds. */
  uint64_t latency_min_ns;      /* The shortest, in nanoseconds. */
  uint64_t latency_max_ns;      /* The longest, in nanoseconds. */
  double latency_mean_ns;       /* Their mean, in nanoseconds. */
  double latency_variance_ns2;  /* Mean squared distance from the mean, in square nanoseconds. */
  /* Entry 0 counts latencies under 1 microsecond, entry i those from 2^(i-1) to below 2^i microseconds, the last
   * one all that are longer. */
  uint64_t latency_histogram[32];
} rz_backend_metrics;

/* Reads the counters of a model's phases. `out->struct_size` is set by the caller. Counting goes on meanwhile, so numbers
 * may be apart by a call in progress. Any thread. Since 0.1.0. */
rz_status rz_metrics_get(const rz_model *model,
                         rz_metrics *out,
                         rz_error *err);

/* Reads the counters of one kind of device, RZ_DEVICE_CPU or RZ_DEVICE_CUDA. `out->struct_size` is set by the caller.
 * Any thread. Errors: RZ_ERR_INVALID_ARGUMENT for an unknown kind. Since 0.1.0. */
rz_status rz_backend_metrics_get(const rz_model *model, uint32_t device_kind, rz_backend_metrics *out, rz_error *err);

/* Sets the counters of a model to zero. NULL is fine. Any thread. Since 0.1.0. */
void rz_metrics_reset(const rz_model *model);

/* ------------------------------------------------------------------------------------------------
 * Kernels on memory of the caller
 * ------------------------------------------------------------------------------------------------ */

/* Keys and values in the memory of a device, without a model. Mutable, so one call at a time. */
typedef struct rz_kv rz_kv;

/* Shape of rz_attention_gqa_into. Since 0.1.0. */
typedef struct rz_attention_params {
  uint32_t struct_size;  /* sizeof(rz_attention_params). */
  uint32_t n_heads;      /* Query heads, a multiple of `n_kv_heads`. */
  uint32_t n_kv_heads;   /* Key and value heads. */
  uint32_t head_dim;     /* Values of a head: an even number up to 4096. */
  float scale;           /* Factor on the scores; 0: 1 / sqrt(head_dim). */
  /* Index of a device; 0: choose for me, which never opens a GPU. To a GPU all inputs go with each call:
   * rz_kv_attend_into keeps them there. */
  uint32_t device;
} rz_attention_params;

/* Shape of an rz_kv. Since 0.1.0. */
typedef struct rz_kv_params {
  uint32_t struct_size;  /* sizeof(rz_kv_params). */
  uint32_t n_layers;     /* Layers, each with keys and values of its own. */
  uint32_t n_heads;      /* Query heads, a multiple of `n_kv_heads`. */
  uint32_t n_kv_heads;   /* Key and value heads. */
  uint32_t head_dim;     /* Values of a head: an even number up to 4096. */
  uint32_t capacity;     /* Positions to make room for. */
  uint32_t type;         /* RZ_CACHE_TYPE_...; 0: F16. */
  uint32_t device;       /* Index of a device; 0: choose for me. */
} rz_kv_params;

/* Attention of one new position over `cache_len` earlier ones and itself: out = softmax(scale * q k^T) v, head by
 * head.
 *
 * `q`, `out`: [n_heads * head_dim]; `k_cache`, `v_cache`: [cache_len][n_kv_heads * head_dim]; `current_k`,
 * `current_v`: [n_kv_heads * head_dim]; all f32. Query head i reads key and value head i * n_kv_heads /
 * n_heads. `cache_len` may be 0, and the caches NULL then. `out` overlaps none of the inputs.
 *
 * A GPU multiplies in half precision, sums in single, and stays open for the next call of the same shape. From then on
 * calls of this shape that name no device take the faster of the two, as measured for such lengths with all transfers,
 * so that equal inputs may give results that differ by the rounding of half precision. Named, each device gives the
 * same bits every time. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT; with a GPU named, RZ_ERR_DEVICE_UNAVAILABLE,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY, RZ_ERR_DEVICE_LOST. Since 0.1.0. */
rz_status rz_attention_gqa_into(const rz_attention_params *params,
                                const float *q,
                                const float *k_cache,
                                const float *v_cache,
                                size_t cache_len,
                                const float *current_k,
                                const float *current_v,
                                float *out,
                                rz_error *err);

/* y = weights * x on the CPU, on the calling thread.
 *
 * `weights`: `rows` rows of `cols` values in blocks of GGML type `type`, one row behind the other, at any
 * alignment; `x`: [cols], `y`: [rows], f32. `cols` is a multiple of the type's block. `y` overlaps none of the
 * inputs. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_UNSUPPORTED for an unknown type. Since 0.1.0. */
rz_status rz_matvec_into(uint32_t type,
                         const void *weights,
                         size_t rows,
                         size_t cols,
                         const float *x,
                         float *y,
                         rz_error *err);

/* Expands blocks of GGML type `type` to f32.
 *
 * `n_values` is a multiple of the values in a block; `blocks` holds as many, at any alignment; `out`: [n_values],
 * not overlapping `blocks`. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_UNSUPPORTED for an unknown type.
 * Since 0.1.0. */
rz_status rz_dequantize_into(uint32_t type, const void *blocks, size_t n_values, float *out, rz_error *err);

/* Makes an empty store. `*out` is freed with rz_kv_free. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT (a zero in the
 * shape, heads that do not divide, an unknown type), RZ_ERR_OUT_OF_MEMORY, RZ_ERR_DEVICE_UNAVAILABLE,
 * RZ_ERR_DEVICE_OUT_OF_MEMORY. Since 0.1.0. */
rz_status rz_kv_new(const rz_kv_params *params, rz_kv **out, rz_error *err);

/* Appends one position to `layer` and attends from it over all positions of that layer, itself included.
 *
 * `q`, `out`: [n_heads * head_dim]; `k`, `v`: [n_kv_heads * head_dim]; f32; `out` overlaps none of the inputs.
 * `*new_len` receives the positions of the layer. Layers are filled one position at a time, in any order. Any
 * thread. Errors: RZ_ERR_INVALID_ARGUMENT, RZ_ERR_CONTEXT_FULL, RZ_ERR_BUSY, RZ_ERR_POISONED, RZ_ERR_DEVICE_LOST.
 * Since 0.1.0. */
rz_status rz_kv_attend_into(rz_kv *kv,
                            uint32_t layer,
                            const float *q,
                            const float *k,
                            const float *v,
                            float *out,
                            uint32_t *new_len,
                            rz_error *err);

/* Rewinds every layer to its first `len` positions; 0 clears. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT where
 * `len` is more than there are, RZ_ERR_BUSY, RZ_ERR_POISONED. Since 0.1.0. */
rz_status rz_kv_truncate(rz_kv *kv, uint32_t len, rz_error *err);

/* Frees the handle; NULL is fine. Any thread. Since 0.1.0. */
void rz_kv_free(rz_kv *kv);

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

/* Entry `index` of the table of all structs of this header: of each first the whole, then its fields in order.
 *
 * `out->struct_size` is set by the caller. A binding that writes these structs down in another language asks for the
 * entries from 0 until RZ_ERR_INVALID_ARGUMENT and compares. Any thread. Errors: RZ_ERR_INVALID_ARGUMENT beyond the
 * last entry. Since 0.1.0. */
rz_status rz_layout_get(uint32_t index, rz_layout *out, rz_error *err);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* REALIZAR_H */
