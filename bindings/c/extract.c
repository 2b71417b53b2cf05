/*
 * Turns a text into JSON of a given form.
 *
 *   extract model.gguf schema.json < text.txt
 *
 * The JSON, which is valid by the schema whatever the model is, goes to standard output. Where it does not end within
 * the room of the model the result is 1.
 */
#include <realizar.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rz_error err;

static int check(rz_status status) {
    if (status < 0)
        exit((fprintf(stderr, "%s: %s\n", rz_status_name(status), err.message), 1));
    return status;
}

static char *read_all(FILE *file, size_t *len) {
    size_t capacity = 1 << 12, n;
    char *text = malloc(capacity);
    for (*len = 0; text && (n = fread(text + *len, 1, capacity - *len, file)) > 0;)
        if ((*len += n) == capacity)
            text = realloc(text, capacity *= 2);
    if (!text)
        exit((fprintf(stderr, "out of memory\n"), 1));
    return text;
}

int main(int argc, char **argv) {
    static const char task[] = "Extract the data from the text as JSON.";
    rz_model *model;
    rz_conversation *conversation;
    rz_sampler_params likeliest = {.struct_size = sizeof likeliest};
    rz_reply_params reply = {.struct_size = sizeof reply, .sampler = &likeliest, .grammar_kind = RZ_GRAMMAR_JSON_SCHEMA};
    rz_conversation_info info = {.struct_size = sizeof info};
    rz_status status;
    size_t len;

    FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
    if (!file)
        exit((fprintf(stderr, "usage: extract model.gguf schema.json < text\n"), 2));
    char *schema = read_all(file, &reply.grammar_len), *text = read_all(stdin, &len), part[1 << 16];
    reply.grammar = schema;
    fclose(file);

    check(rz_model_load(argv[1], NULL, &model, &err));
    check(rz_conversation_new(model, NULL, &conversation, &err));
    check(rz_conversation_add_text(conversation, "system", task, strlen(task), &err));
    check(rz_conversation_add_text(conversation, "user", text, len, &err));
    check(rz_conversation_reply(conversation, &reply, &err));
    do {
        uint32_t kind, flags, call;
        status = check(rz_conversation_step(conversation, RZ_NO_LIMIT, &err));
        while (check(rz_conversation_next_into(conversation, &kind, &flags, &call, part, sizeof part, &len, &err)) == RZ_OK)
            if (kind == RZ_CHAT_EVENT_CONTENT)
                fwrite(part, 1, len, stdout);
    } while (status != RZ_DONE);
    putchar('\n');
    check(rz_conversation_info_get(conversation, &info, &err));

    rz_conversation_free(conversation);
    rz_model_free(model);
    free(text);
    free(schema);
    return info.end_reason == RZ_END_CONTEXT;
}
