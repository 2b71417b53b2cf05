/* Asks a model about a picture:  see model.gguf mmproj.gguf picture.png "a question" */
#include <realizar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rz_error err;

/* The bytes of a file; NULL where it cannot be read. */
static unsigned char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes = NULL;
    long length = -1;
    if (file && fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = malloc((size_t)length + 1);
    *size = bytes ? fread(bytes, 1, (size_t)length, file) : 0;
    if (file)
        fclose(file);
    return bytes;
}

/* A conversation in JSON: the picture, and the question as a JSON string. */
static char *conversation(const char *question) {
    static const char head[] = "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}, "
                               "{\"type\": \"text\", \"text\": \"";
    char *json = malloc(sizeof head + 6 * strlen(question) + 16), *to = json;
    if (!json)
        return NULL;
    to += sprintf(to, "%s", head);
    for (; *question; question++) {
        if ((unsigned char)*question < 0x20 || *question == '"' || *question == '\\')
            to += sprintf(to, "\\u%04x", (unsigned char)*question);
        else
            *to++ = *question;
    }
    strcpy(to, "\"}]}]}");
    return json;
}

/* Writes the answer as it comes. */
static rz_status answer(rz_job *job) {
    char text[4096];
    size_t len;
    rz_status status;
    do {
        status = rz_job_step(job, RZ_NO_LIMIT, &err);
        if (status < 0 || rz_job_text_into(job, text, sizeof text, &len, &err) < 0)
            return err.code;
        fwrite(text, 1, len, stdout);
        fflush(stdout);
    } while (status != RZ_DONE);
    putchar('\n');
    return RZ_OK;
}

int main(int argc, char **argv) {
    rz_model *model = NULL;
    rz_encoder *encoder = NULL;
    rz_media *picture = NULL;
    rz_prompt *prompt = NULL;
    rz_cache *cache = NULL;
    rz_job *job = NULL;
    size_t size = 0;
    if (argc != 5) {
        fprintf(stderr, "usage: %s model.gguf mmproj.gguf picture \"a question\"\n", argv[0]);
        return 2;
    }
    unsigned char *file = read_all(argv[3], &size);
    char *json = conversation(argv[4]);
    if (!file || !json) {
        fprintf(stderr, "%s cannot be read\n", argv[3]);
        free(file);
        free(json);
        return 1;
    }
    rz_job_params params = {.struct_size = sizeof params};
    rz_status status = rz_model_load(argv[1], NULL, &model, &err);
    if (status >= 0)
        status = rz_encoder_load(model, argv[2], NULL, &encoder, &err);
    if (status >= 0)
        status = rz_media_from_image(encoder, file, size, NULL, &picture, &err);
    if (status >= 0)
        status = rz_prompt_from_chat(model, json, strlen(json), RZ_CHAT_ADD_GENERATION_PROMPT, &picture, 1, NULL,
                                     &prompt, &err);
    if (status >= 0)
        status = rz_cache_new(model, NULL, &cache, &err);
    params.prompt = prompt;
    if (status >= 0)
        status = rz_job_new(cache, &params, &job, &err); /* no sampler: always the most likely token */
    if (status >= 0)
        status = answer(job);
    if (status < 0)
        fprintf(stderr, "%s: %s\n", rz_status_name(status), err.message);
    rz_job_free(job); /* NULL is fine, and so is any order */
    rz_cache_free(cache);
    rz_prompt_free(prompt);
    rz_media_free(picture);
    rz_encoder_free(encoder);
    rz_model_free(model);
    free(json);
    free(file);
    return status < 0;
}
