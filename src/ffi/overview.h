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
 *     if (rz_textstream_follow(stream, tokens, n, &err) < 0) goto fail;
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
 *   of the library is left, so that it can be unloaded (dlclose) once all handles are freed; a GPU's driver may stay.
 * - A child made with fork() may go on with models, and what was made of them, that no other thread was calling with at that
 *   moment; the library's threads stay behind, so that calls compute on their caller's alone. A GPU stays with the parent. */

