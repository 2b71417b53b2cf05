/*
 * Turns a text into JSON of a given form.
 *
 *   extract model.gguf schema.json < text.txt
 *
 * The JSON, which is valid by the schema whatever the model is, goes to standard output. Where it does not end within the
 * room of the model the result is 1.
 */
#include <realizar.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(rz_status status, const rz_error *err) {
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s\n", rz_status_name(status), err->message);
    exit(1);
}

static void *allocate(void *old, size_t bytes) {
    void *memory = realloc(old, bytes);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

static char *read_all(FILE *file, size_t *len) {
    size_t capacity = 1 << 12, n;
    char *text = allocate(NULL, capacity);
    for (*len = 0; (n = fread(text + *len, 1, capacity - *len, file)) > 0;)
        if ((*len += n) == capacity)
            text = allocate(text, capacity *= 2);
    return text;
}

/* Writes a text as JSON; `out` has room for six bytes a byte, and two. */
static size_t quote(char *out, const char *text, size_t len) {
    char *at = out;
    *at++ = '"';
    for (size_t i = 0; i < len; i++)
        if (text[i] == '"' || text[i] == '\\' || (unsigned char)text[i] < 0x20)
            at += sprintf(at, "\\u%04x", (unsigned)text[i]);
        else
            *at++ = text[i];
    *at++ = '"';
    return (size_t)(at - out);
}

int main(int argc, char **argv) {
    static const char *task = "Extract the data from the text as JSON.";
    rz_model *model;
    rz_cache *cache;
    rz_grammar *grammar;
    rz_sampler *sampler;
    rz_textstream *stream;
    rz_error err;
    size_t schema_len, text_len, n, len;

    FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: extract model.gguf schema.json < text\n");
        return 2;
    }
    char *schema = read_all(file, &schema_len), *text = read_all(stdin, &text_len);
    fclose(file);

    check(rz_model_load(argv[1], NULL, &model, &err), &err);
    check(rz_grammar_new(model, RZ_GRAMMAR_JSON_SCHEMA, schema, schema_len, &grammar, &err), &err);
    check(rz_sampler_new(NULL, &sampler, &err), &err);
    check(rz_sampler_grammar_set(sampler, grammar, &err), &err);
    check(rz_cache_new(model, NULL, &cache, &err), &err);
    check(rz_textstream_new(model, &stream, &err), &err);

    char *json = allocate(NULL, 6 * text_len + 256), *end = json;
    end += sprintf(end, "{\"messages\": [{\"role\": \"system\", \"content\": \"%s\"}, {\"role\": \"user\", \"content\": ", task);
    end += quote(end, text, text_len);
    end += sprintf(end, "}]}");

    /* A conversation of three parts, of which only the template's can steer the model. */
    size_t capacity = rz_cache_capacity(cache);
    uint32_t *tokens = allocate(NULL, capacity * sizeof *tokens), token;
    check(rz_chat_tokenize_into(model, json, (size_t)(end - json), RZ_CHAT_ADD_GENERATION_PROMPT, tokens, capacity, &n, &err),
          &err);
    check(rz_textstream_follow(stream, tokens, n, &err), &err);
    check(rz_prefill(cache, tokens, n, NULL, &err), &err);

    rz_status status = rz_sample(cache, sampler, &token, &err);
    while (status == RZ_OK && !rz_token_is_end(model, token)) {
        char piece[256];
        check(rz_textstream_push_into(stream, token, piece, sizeof piece, &len, &err), &err);
        fwrite(piece, 1, len, stdout);
        status = rz_decode_token(cache, token, sampler, &token, &err);
    }
    putchar('\n');
    check(status, &err);

    rz_textstream_free(stream);
    rz_cache_free(cache);
    rz_sampler_free(sampler);
    rz_grammar_free(grammar);
    rz_model_free(model);
    free(tokens);
    free(json);
    free(text);
    free(schema);
    return 0;
}
