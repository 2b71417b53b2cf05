/* realizar: language models inside your own process.
 *
 * A model is loaded from a file and immutable from then on. A conversation holds messages with it, and streams its
 * replies; each line that this program reads is a question:
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
 * A conversation keeps its tokens in a cache, which can be used by itself: one text of a model, the tokens so far
 * and what the network remembers of them. Prefill appends a prompt, decode appends one token and names the next.
 *
 * What holds for every function:
 *
 * - A function that can fail returns an rz_status: 0 is success, positive is progress, negative is failure. Its last
 *   argument is an rz_error of the caller's, or NULL. Nothing is kept per thread.
 * - Results are written on success only, and a call that fails leaves its handles as they were. The exceptions: with
 *   RZ_ERR_BUFFER_TOO_SMALL the needed count is written; rz_generate_into keeps the tokens that it has made before it
 *   fails: in the cache, in `out`, and counted in `*n`; and a cancelled rz_conversation_say keeps what was said.
 * - An output of many values is an array, its `capacity`, and the place of their count (`*n`, for text `*len`).
 *   NULL with a capacity of 0 asks for the count: the result is RZ_OK, the count is written, and nothing is taken from
 *   the handle or changes. rz_generate_into makes no token then.
 * - Any function may be called from any thread. A handle passed as const may be used by any number of such calls at
 *   once; one that is not const belongs to one call at a time, and a second call gets RZ_ERR_BUSY at once. While it
 *   runs, a call that takes the handle as const gets RZ_ERR_BUSY too, if its errors name it; functions that read state,
 *   such as rz_job_info_get and rz_conversation_json_into, succeed at any moment.
 * - A handle that a function writes, whatever the function is called, is given back to the _free of its type
 *   (rz_model_free for an rz_model); NULL is fine. Handles are freed in any order, because each keeps alive what it
 *   needs. With the last one the library's last thread ends.
 * - Strings are UTF-8. One that is given with its length in bytes (`len`, `json_len`) needs no NUL; every other one,
 *   such as a path, a key, a role or a stop string, ends with a NUL. A text in a buffer of the caller's has its length
 *   in `*len` and no NUL; texts in structs that are written and texts that are returned end with one.
 * - A parameter struct begins with struct_size, which the caller sets to the struct's sizeof; every other zero means
 *   the default. RZ_INIT(rz_model_params, params) declares one so, in C and C++: later versions append fields. A field
 *   or a flag that the library is too old for is RZ_ERR_VERSION.
 * - A struct that is written to begins with struct_size too, from 4 to 4096; the rest of it may be uninitialised.
 *   Fields that the library does not know become zero.
 * - A time that the caller gives is in microseconds (us_from_now, budget_us), where 0 says that no time is left and
 *   RZ_NO_LIMIT that there is no limit. A time that was measured is in nanoseconds, as its name says (sum_ns), and 0
 *   where nothing was measured.
 * - Structs without struct_size, such as rz_error and rz_part, never change.
 * - Constants are enumerators, fields fixed-width integers. g++ -Wextra warns in C++ if one of each are the two results
 *   of `?:`, as in `ended ? info.end_reason : RZ_END_LENGTH`: write uint32_t(RZ_END_LENGTH) there.
 * - A handle that was freed, or is of another kind than the function wants, is RZ_ERR_INVALID_ARGUMENT in most cases;
 *   no program may rely on it.
 * - A result is never NaN or infinite. If weights are NaN, or so large that sums overflow, the results that depend on
 *   them are RZ_ERR_FORMAT: logits, tokens and values computed from logits, embeddings, ranking scores and rows of
 *   media. The message names the position of the token, the text or the row. Only the affected job or reply fails; a
 *   call for several caches fails as a whole.
 * - A file that is damaged, or made to do damage, costs a status and a message. The exceptions are told where they
 *   apply: RZ_MODEL_MMAP, and pointers that do not point where this header says. Damage is what makes no sense, such
 *   as a count beyond the end, or weights that are not finite; weights with other finite values are not recognized.
 * - Nothing is printed, no environment variable is read, no signal handler is set. On threads of the program no
 *   destructor of the library is left, so that it can be unloaded (dlclose) once all handles are freed; a GPU's driver
 *   may stay.
 * - A call needs 64 KiB of its thread's stack.
 * - A child made with fork() may go on with models, and what was made of them, that no other thread was calling with at
 *   that moment; the library's threads stay behind, so that calls compute on their caller's alone. A GPU stays with the
 *   parent.
 *
 * What waits for what: the workers of a runtime compute one step at a time. Calls of several threads, on one model or
 * on several of a runtime, take turns in the order in which they came: a step that goes on for some milliseconds while
 * another call waits lets that one go first, between two shares of its work, so that a token never waits for the whole
 * of somebody's prompt. Steps of jobs with a budget go ahead of other calls, every second turn at most. Prompts of
 * several threads are read a piece at a time in turn. While a call waits it heeds its cancels, deadlines and budget as
 * it does at work, within some milliseconds. A runtime with one thread has no workers: nothing waits, and each call
 * computes on its own thread. A call on a handle in use never waits, it gets RZ_ERR_BUSY. Many requests are answered
 * fastest by one thread with rz_jobs_step or rz_decode_batch, which read the weights once for all of them; threads
 * share the time, and nothing else. Calls beside one another each take scratch memory of their own, on the CPU up to
 * nine times that of one step, within rz_runtime_params.memory_limit. */

