/* Asks a model one question:  minimal model.gguf "a question" */
#include <realizar.h>
#include <stdio.h>

int main(int argc, char **argv) {
    rz_error err;
    rz_model *model = NULL;
    rz_cache *cache = NULL;
    rz_textstream *stream = NULL;
    char text[8192], piece[256];
    uint32_t tokens[2048], token;
    size_t len, n;
    int status = 1;

    if (argc != 3) {
        fprintf(stderr, "usage: %s model.gguf \"a question\"\n", argv[0]);
        return 2;
    }
    const rz_chat_message question = {"user", argv[2]};
    rz_model_info info = {.struct_size = sizeof info};
    /* The question is the caller's own; what others write may hold special tokens: rz_chat_tokenize_into takes them as text. */
    uint32_t flags = RZ_TOKENIZE_PARSE_SPECIAL;

    /* RZ_OK is 0; NULL parameters mean the defaults. */
    if (rz_model_load(argv[1], NULL, &model, &err) < 0 ||
        rz_model_info_get(model, &info, &err) < 0)
        goto failed;
    /* The token that begins a text comes once: from the template or from the tokenizer. */
    if (!(info.chat_template & RZ_TEMPLATE_WRITES_BOS))
        flags |= RZ_TOKENIZE_ADD_SPECIAL;
    if (rz_cache_new(model, NULL, &cache, &err) < 0 ||
        rz_textstream_new(model, &stream, &err) < 0 ||
        rz_chat_render_into(model, &question, 1, RZ_CHAT_ADD_GENERATION_PROMPT, text, sizeof text, &len, &err) < 0 ||
        rz_tokenize_into(model, text, len, flags, tokens, 2048, &n, &err) < 0 ||
        rz_textstream_follow(stream, tokens, n, &err) < 0 || /* so that the answer begins as it goes on with the prompt */
        rz_prefill(cache, tokens, n, NULL, &err) < 0 ||
        rz_sample(cache, NULL, &token, &err) < 0) /* no sampler: the most likely token */
        goto failed;

    while (!rz_token_is_end(model, token)) {
        if (rz_textstream_push_into(stream, token, piece, sizeof piece, &len, &err) < 0)
            goto failed;
        fwrite(piece, 1, len, stdout);
        fflush(stdout);
        if (rz_decode_token(cache, token, NULL, &token, &err) < 0)
            goto failed;
    }
    putchar('\n');
    status = 0;

failed:
    if (status)
        fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
    rz_textstream_free(stream); /* NULL is fine, and so is any order */
    rz_cache_free(cache);
    rz_model_free(model);
    return status;
}
