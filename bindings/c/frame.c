/*
 * Generates inside a frame loop:  frame model.gguf "a text to continue" [frames]
 *
 * Sixty frames a second, of which the model has 2 milliseconds each. The text goes to standard output as it comes, and
 * at the end a histogram of how far the steps went beyond their budget to standard error.
 */
#include <realizar.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUDGET_US = 2000, FRAME_US = 16667, FRAMES = 3600, BUCKETS = 8 };

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void sleep_until(double us) {
    double left = us - now_us();
    if (left > 0) {
        struct timespec t = {0, (long)(1e3 * left)};
        nanosleep(&t, NULL);
    }
}

int main(int argc, char **argv) {
    rz_error err;
    rz_model *model = NULL;
    rz_cache *cache = NULL;
    rz_job *job = NULL;
    uint32_t tokens[2048];
    char text[4096];
    size_t n, len;
    /* Steps that ended in time, and those that were late by less than 50, 100, 200 ... microseconds. */
    long histogram[BUCKETS] = {0};
    double worst = 0;
    int exit_status = 1;

    if (argc < 3) {
        fprintf(stderr, "usage: %s model.gguf \"a text to continue\" [frames]\n", argv[0]);
        return 2;
    }
    const long frames = argc > 3 ? atol(argv[3]) : FRAMES;
    if (rz_model_load(argv[1], NULL, &model, &err) < 0 || rz_cache_new(model, NULL, &cache, &err) < 0 ||
        rz_tokenize_into(model, argv[2], strlen(argv[2]), RZ_TOKENIZE_ADD_SPECIAL, tokens, 2048, &n, NULL, &err) < 0)
        goto failed;
    const rz_job_params params = {.struct_size = sizeof params, .tokens = tokens, .n_tokens = n};
    if (rz_job_new(cache, &params, &job, &err) < 0)
        goto failed;

    rz_status status = RZ_AGAIN;
    long frame = 0;
    for (double start = now_us(); status != RZ_DONE && frame < frames; frame++, start += FRAME_US) {
        sleep_until(start);
        /* ... the game's own work ... */
        const double begun = now_us();
        status = rz_job_step(job, BUDGET_US, &err);
        const double late = now_us() - begun - BUDGET_US;
        if (status < 0 || rz_job_text_into(job, text, sizeof text, &len, &err) < 0)
            goto failed;
        fwrite(text, 1, len, stdout);
        fflush(stdout);
        int bucket = 0;
        while (bucket < BUCKETS - 1 && late >= (bucket ? 50 << (bucket - 1) : 0))
            bucket++;
        histogram[bucket]++;
        worst = late > worst ? late : worst;
    }
    putchar('\n');

    rz_job_info info = {.struct_size = sizeof info};
    if (rz_job_info_get(job, &info, &err) < 0)
        goto failed;
    fprintf(stderr, "%ld frames, %u tokens of the prompt, %u made; overshoot of %d us:\n", frame, info.prompt_done,
            info.n_tokens, BUDGET_US);
    fprintf(stderr, "  in time    %6ld\n", histogram[0]);
    for (int bucket = 1; bucket < BUCKETS - 1; bucket++)
        fprintf(stderr, "  < %4d us  %6ld\n", 50 << (bucket - 1), histogram[bucket]);
    fprintf(stderr, "  more       %6ld\n", histogram[BUCKETS - 1]);
    fprintf(stderr, "  worst      %6.0f us\n", worst);
    exit_status = 0;

failed:
    if (exit_status)
        fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
    rz_job_free(job);
    rz_cache_free(cache);
    rz_model_free(model);
    return exit_status;
}
