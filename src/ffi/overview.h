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

