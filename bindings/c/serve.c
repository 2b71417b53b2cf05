/*
 * Many conversations over one model:  serve model.gguf [conversations]
 *
 * Sixteen at a time, each on a fork of one cache that holds what all begin with, some 500 tokens that are computed
 * once. They come and go at random, and whatever there is to do is done in common passes over the weights. Prints the
 * tokens made a second by all together, beside those of one conversation alone.
 */
#include <realizar.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOGETHER = 16, CONVERSATIONS = 64, PREFIX = 500, QUESTION = 24, ANSWER = 48, BUDGET_US = 10000 };

static rz_model *model;
static rz_cache *prefix;
static uint32_t words[PREFIX + QUESTION];
static rz_error err;

struct guest {
    rz_cache *cache;
    rz_job *job;
};

static void check(rz_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", rz_status_name(status), err.message);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint32_t chance(uint32_t below) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static struct guest come(uint32_t n_question, uint32_t n_answer) {
    struct guest guest = {NULL, NULL};
    const rz_job_params params = {.struct_size = sizeof params,
                                  .max_tokens = n_answer,
                                  .tokens = words + chance(PREFIX),
                                  .n_tokens = n_question};
    check(rz_cache_fork(prefix, &guest.cache, &err));
    check(rz_job_new(guest.cache, &params, &guest.job, &err));
    return guest;
}

/* Frees a conversation, whether it has ended or not; the number of tokens that it has made. */
static uint32_t leave(struct guest *guest) {
    rz_job_info info = {.struct_size = sizeof info};
    check(rz_job_info_get(guest->job, &info, &err));
    rz_job_free(guest->job);
    rz_cache_free(guest->cache);
    memset(guest, 0, sizeof *guest);
    return info.n_tokens;
}

/* Serves so many conversations, at most `together` at a time; tokens made a second. */
static double serve(size_t conversations, size_t together) {
    struct guest guests[TOGETHER];
    rz_job *jobs[TOGETHER];
    size_t n = 0, begun = 0;
    uint64_t made = 0;
    const double start = now();
    while (begun < conversations || n > 0) {
        while (n < together && begun < conversations && (n == 0 || chance(2))) {
            guests[n++] = come(1 + chance(QUESTION), 1 + chance(ANSWER));
            begun++;
        }
        for (size_t i = 0; i < n; i++)
            jobs[i] = guests[i].job;
        check(rz_jobs_step(jobs, n, BUDGET_US, &err));
        for (size_t i = 0; i < n;) {
            char text[4096];
            size_t len;
            rz_job_info info = {.struct_size = sizeof info};
            check(rz_job_text_into(guests[i].job, text, sizeof text, &len, &err));
            check(rz_job_info_get(guests[i].job, &info, &err));
            if (info.end_reason == RZ_END_FAILED && rz_job_error(guests[i].job, &err) < 0) /* it alone */
                fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
            /* Here the text would go to its reader, who hangs up now and then. */
            if (info.state == RZ_STATE_ENDED || chance(500) == 0) {
                made += leave(&guests[i]);
                guests[i] = guests[--n];
            } else {
                i++;
            }
        }
    }
    return (double)made / (now() - start);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s model.gguf [conversations]\n", argv[0]);
        return 2;
    }
    const size_t conversations = argc > 2 ? (size_t)atol(argv[2]) : CONVERSATIONS;
    const rz_cache_params params = {.struct_size = sizeof params, .capacity = PREFIX + QUESTION + ANSWER};
    const char *sentence = "A little girl had a red ball and a friend who liked to play. ";
    size_t n = 0, len;

    check(rz_model_load(argv[1], NULL, &model, &err));
    while (n < PREFIX + QUESTION) {
        uint32_t tokens[64];
        check(rz_tokenize_into(model, sentence, strlen(sentence), 0, tokens, 64, &len, NULL, &err));
        for (size_t i = 0; i < len && n < PREFIX + QUESTION; i++)
            words[n++] = tokens[i];
    }
    check(rz_cache_new(model, &params, &prefix, &err));
    check(rz_prefill(prefix, words, PREFIX, NULL, &err));

    const double alone = serve(conversations / 8 + 1, 1);
    const double all = serve(conversations, TOGETHER);
    printf("%d conversations together: %.1f tokens/s; one alone: %.1f tokens/s; %.2f times as many\n", TOGETHER, all, alone,
           all / alone);
    rz_cache_free(prefix);
    rz_model_free(model);
    return 0;
}
