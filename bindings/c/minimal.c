/* Asks a model one question:  minimal model.gguf "a question" */
#include <realizar.h>
#include <stdio.h>

/* Prints a piece of the answer; what is not 0 would end it. */
static int32_t print(const char *text, size_t len, void *user) {
    (void)user;
    return fwrite(text, 1, len, stdout) < len || fflush(stdout) != 0;
}

int main(int argc, char **argv) {
    rz_error err;
    rz_model *model = NULL;
    rz_conversation *chat = NULL;

    if (argc != 3) {
        fprintf(stderr, "usage: %s model.gguf \"a question\"\n", argv[0]);
        return 2;
    }
    /* NULL parameters mean the defaults; a status below 0 is an error. */
    int failed = rz_model_load(argv[1], NULL, &model, &err) < 0 ||
                 rz_conversation_new(model, NULL, &chat, &err) < 0 ||
                 rz_conversation_say(chat, argv[2], NULL, print, NULL, &err) < 0;
    if (failed)
        fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
    else
        putchar('\n');
    rz_conversation_free(chat); /* NULL is fine, and so is any order */
    rz_model_free(model);
    return failed;
}
