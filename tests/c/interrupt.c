/* Interrupts generations at random moments and counts what that costs; whatever happens, tokens are those of calls that
 * nothing interrupted.
 *
 *   interrupt model.gguf cancels N     N cancels and deadlines during steps of jobs, prefills and generations, and N / 10 jobs
 *                                      freed midway: how late calls end
 *   interrupt model.gguf overshoot N [US...]   N steps of a job for each of some budgets: how much longer they take
 *   interrupt model.gguf together N    N tokens of each of eight conversations, by rz_jobs_step and by rz_decode_batch */
#include <pthread.h>
#include <realizar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { MOST_PROMPT = 1000, MOST_MADE = 200, TOGETHER = 8 };

static rz_error err;
static rz_model *model;
static uint32_t prompt[MOST_PROMPT], expected[MOST_MADE];
static size_t n_prompt, n_made;
static double plain_us;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static uint32_t chance(uint32_t below) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33) % below;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_times(const char *what, double *us, size_t n) {
  qsort(us, n, sizeof *us, compare);
  if (n > 0) printf("%-26s %6zu: p50 %5.0f us, p99 %5.0f us, most %5.0f us\n", what, n, us[n / 2], us[n * 99 / 100], us[n - 1]);
}

static rz_cache *new_cache(void) {
  rz_cache_params params = {0};
  rz_cache *cache = NULL;
  params.struct_size = sizeof params;
  params.capacity = MOST_PROMPT + MOST_MADE;
  CALL(rz_cache_new(model, &params, &cache, &err));
  return cache;
}

static rz_job *new_job(rz_cache *cache, const rz_cancel *cancel) {
  rz_job_params params = {0};
  rz_job *job = NULL;
  params.struct_size = sizeof params;
  params.tokens = prompt;
  params.n_tokens = n_prompt;
  params.max_tokens = (uint32_t)n_made;
  params.cancel = cancel;
  CALL(rz_job_new(cache, &params, &job, &err));
  return job;
}

/* Frees a job that has ended, with the right tokens. */
static void finish(rz_job *job) {
  uint32_t tokens[MOST_MADE];
  size_t n;
  CALL(rz_job_tokens_into(job, tokens, MOST_MADE, &n, &err));
  CHECK(n == n_made && memcmp(tokens, expected, n * sizeof *tokens) == 0);
  rz_job_free(job);
}

/* Chooses the lengths, and what is expected by calls that nothing interrupts. */
static void prepare(size_t wanted_prompt, size_t wanted_made) {
  const char *sentence = "Once there was a little girl who had a red ball. ";
  rz_model_info info = {0};
  rz_cache *cache = new_cache();
  size_t len, n, i;
  double start;
  info.struct_size = sizeof info;
  CALL(rz_model_info_get(model, &info, &err));
  if (info.context_length < wanted_prompt + wanted_made) {
    wanted_prompt = info.context_length / 2;
    wanted_made = info.context_length / 8;
  }
  for (n_prompt = 0; n_prompt < wanted_prompt;) {
    uint32_t tokens[64];
    CALL(rz_tokenize_into(model, sentence, strlen(sentence), 0, tokens, 64, &len, NULL, &err));
    for (i = 0; i < len && n_prompt < wanted_prompt; i++) prompt[n_prompt++] = tokens[i];
  }
  for (i = 0; i < 2; i++) {
    CALL(rz_cache_truncate(cache, 0, &err));
    start = now_us();
    CALL(rz_prefill(cache, prompt, n_prompt, NULL, &err));
    CALL(rz_sample(cache, NULL, &expected[0], &err));
    CALL(rz_generate_into(cache, expected[0], NULL, expected + 1, wanted_made - 1, &n, NULL, &err));
    plain_us = now_us() - start;
  }
  n_made = n + 1;
  rz_cache_free(cache);
}

/* A thread that fires a cancel at a moment, and tells when it did. */
static rz_cancel *cancel;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static double fire_at, fired_at;
static int ended;

static void *fire(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    while (fire_at == 0 && !ended) pthread_cond_wait(&changed, &mutex);
    if (ended) break;
    while (now_us() < fire_at) {
      const struct timespec t = {0, 20000};
      nanosleep(&t, NULL);
    }
    fired_at = now_us();
    rz_cancel_fire(cancel);
    fire_at = 0;
    pthread_cond_signal(&changed);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

/* Has the next call be stopped so many microseconds from now. */
static void arm(int by_deadline, double us) {
  if (by_deadline) {
    fired_at = now_us() + us;
    CALL(rz_cancel_deadline(cancel, (uint64_t)us, &err));
    return;
  }
  pthread_mutex_lock(&mutex);
  fire_at = now_us() + us;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
}

/* The time by which a call was late, or -1 where it had ended before. */
static double late(rz_status status, int by_deadline) {
  const double returned = now_us();
  if (status < 0) CHECK(status == (by_deadline ? RZ_ERR_DEADLINE : RZ_ERR_CANCELLED));
  if (by_deadline) {
    CALL(rz_cancel_deadline(cancel, RZ_NO_LIMIT, &err));
  } else {
    pthread_mutex_lock(&mutex);
    while (fire_at != 0) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
  }
  rz_cancel_reset(cancel);
  return status < 0 ? returned - fired_at : -1;
}

/* Calls are stopped after up to `most` microseconds. */
static void cancels(size_t n, double most) {
  static const char *const kinds[] = {"steps of a job", "prefills", "generations"};
  double *us[3];
  size_t count[3] = {0}, kind, made = 0, freed = 0, i;
  rz_cache *of_job = new_cache(), *read = new_cache(), *generated = new_cache();
  rz_job *job;
  pthread_t thread;
  for (kind = 0; kind < 3; kind++) CHECK((us[kind] = malloc(n * sizeof **us)) != NULL);
  CALL(rz_cancel_new(&cancel, &err));
  CHECK(pthread_create(&thread, NULL, fire, NULL) == 0);
  job = new_job(of_job, cancel);
  CALL(rz_prefill(generated, prompt, n_prompt, NULL, &err));
  while (count[0] + count[1] + count[2] < n) {
    const int by_deadline = chance(2) == 0;
    const double after = 1 + most * chance(1000) / 1000;
    rz_status status;
    double took;
    uint32_t tokens[MOST_MADE];
    size_t some = 0;
    /* Where a job goes on, other calls begin again. */
    kind = chance(4) > 0 ? 0 : 1 + chance(2);
    arm(by_deadline, after);
    if (kind == 0) {
      status = rz_job_step(job, 1000000, &err);
    } else if (kind == 1) {
      status = rz_prefill(read, prompt, n_prompt, cancel, &err);
    } else {
      status = rz_generate_into(generated, expected[made], NULL, tokens, n_made - 1 - made, &some, cancel, &err);
    }
    took = late(status, by_deadline);
    if (took >= 0) us[kind][count[kind]++] = took;
    if (kind == 0 && status == RZ_DONE) {
      finish(job);
      CALL(rz_cache_truncate(of_job, 0, &err));
      job = new_job(of_job, cancel);
    } else if (kind == 1) {
      uint32_t first = 0;
      if (status >= 0 || chance(50) == 0) {
        CHECK(status >= 0 || rz_cache_len(read) < n_prompt);
        if (status < 0) CALL(rz_prefill(read, prompt + rz_cache_len(read), n_prompt - rz_cache_len(read), NULL, &err));
        CALL(rz_sample(read, NULL, &first, &err));
        CHECK(first == expected[0]);
      }
      CALL(rz_cache_truncate(read, 0, &err));
    } else if (kind == 2) {
      /* What was made before the cancel stays. */
      some = rz_cache_len(generated) - n_prompt - made;
      if (status < 0 && chance(10) == 0 && made + some < n_made - 1) {
        uint32_t next;
        CALL(rz_decode_token(generated, expected[made + some], NULL, &next, &err));
        CHECK(next == expected[made + some + 1]);
        some++;
      }
      made += some;
      if (status >= 0 || made >= n_made - 1) {
        CALL(rz_cache_truncate(generated, (uint32_t)n_prompt - 1, &err));
        CALL(rz_prefill(generated, prompt + n_prompt - 1, 1, NULL, &err));
        made = 0;
      }
    }
  }
  while (rz_job_step(job, RZ_NO_LIMIT, &err) != RZ_DONE) CHECK(err.code >= 0);
  finish(job);
  /* Jobs that are freed midway; now and then one goes on with what the cache kept. */
  for (freed = 0; freed < n / 10; freed++) {
    CALL(rz_cache_truncate(of_job, 0, &err));
    job = new_job(of_job, NULL);
    for (i = chance(4); i > 0; i--) CALL(rz_job_step(job, 1 + chance((uint32_t)most), &err));
    rz_job_free(job);
    if (chance(20) == 0) {
      uint32_t next;
      const uint32_t kept = rz_cache_len(of_job);
      if (kept >= n_prompt) {
        CALL(rz_cache_truncate(of_job, (uint32_t)n_prompt - 1, &err));
        CALL(rz_prefill(of_job, prompt + n_prompt - 1, 1, NULL, &err));
      } else {
        CALL(rz_prefill(of_job, prompt + kept, n_prompt - kept, NULL, &err));
      }
      CALL(rz_sample(of_job, NULL, &next, &err));
      CHECK(next == expected[0]);
    }
  }
  for (kind = 0; kind < 3; kind++) {
    print_times(kinds[kind], us[kind], count[kind]);
    free(us[kind]);
  }
  printf("%zu jobs freed midway\n", freed);
  pthread_mutex_lock(&mutex);
  ended = 1;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&mutex);
  CHECK(pthread_join(thread, NULL) == 0);
  rz_cancel_free(cancel);
  rz_cache_free(of_job);
  rz_cache_free(read);
  rz_cache_free(generated);
}

static void overshoot(size_t n, char **budgets) {
  size_t i;
  double *us = malloc(n * sizeof *us);
  CHECK(us != NULL);
  printf("%zu tokens of a prompt, %zu made; without interruptions %.0f ms\n", n_prompt, n_made, plain_us / 1e3);
  for (; *budgets != NULL; budgets++) {
    const unsigned budget = (unsigned)atol(*budgets);
    rz_cache *cache = new_cache();
    rz_job *job = new_job(cache, NULL);
    double of_job = 0, whole = 0;
    size_t jobs = 0;
    char what[64];
    for (i = 0; i < n; i++) {
      const double start = now_us();
      const rz_status status = rz_job_step(job, budget, &err);
      const double took = now_us() - start;
      CALL(status);
      of_job += took;
      us[i] = took - budget < 0 || status == RZ_DONE ? 0 : took - budget;
      if (status == RZ_DONE) {
        finish(job);
        CALL(rz_cache_truncate(cache, 0, &err));
        job = new_job(cache, NULL);
        jobs++;
        whole += of_job;
        of_job = 0;
      }
    }
    rz_job_free(job);
    rz_cache_free(cache);
    snprintf(what, sizeof what, "beyond %u us", budget);
    print_times(what, us, n);
    if (jobs > 0) printf("    %zu jobs, each in %.0f ms: %.1f %% of the speed\n", jobs, whole / 1e3 / (double)jobs, 100 * plain_us * (double)jobs / whole);
  }
  free(us);
}

static void together(void) {
  rz_cache *caches[TOGETHER];
  rz_job *jobs[TOGETHER];
  uint32_t tokens[TOGETHER];
  size_t i, t, round;
  for (i = 0; i < TOGETHER; i++) caches[i] = new_cache();
  for (round = 0; round < 2; round++) {
    double start;
    for (i = 0; i < TOGETHER; i++) {
      CALL(rz_cache_truncate(caches[i], 0, &err));
      CALL(rz_prefill(caches[i], prompt, n_prompt, NULL, &err));
      tokens[i] = expected[0];
    }
    start = now_us();
    for (t = 1; t < n_made; t++) {
      CALL(rz_decode_batch(caches, tokens, TOGETHER, NULL, tokens, &err));
      for (i = 0; i < TOGETHER; i++) CHECK(tokens[i] == expected[t]);
    }
    printf("rz_decode_batch: %.1f tokens/s\n", 1e6 * (double)(TOGETHER * (n_made - 1)) / (now_us() - start));
    for (i = 0; i < TOGETHER; i++) {
      CALL(rz_cache_truncate(caches[i], 0, &err));
      jobs[i] = new_job(caches[i], NULL);
      CALL(rz_job_step(jobs[i], RZ_NO_LIMIT, &err));
    }
    start = now_us();
    for (;;) {
      const rz_status status = rz_jobs_step((rz_job *const *)jobs, TOGETHER, round ? RZ_NO_LIMIT : 10000000, &err);
      CALL(status);
      if (status == RZ_DONE) break;
    }
    printf("rz_jobs_step:    %.1f tokens/s%s\n", 1e6 * (double)(TOGETHER * (n_made - 1)) / (now_us() - start),
           round ? ", a call a token" : "");
    for (i = 0; i < TOGETHER; i++) finish(jobs[i]);
  }
  for (i = 0; i < TOGETHER; i++) rz_cache_free(caches[i]);
}

int main(int argc, char **argv) {
  rz_model_info info = {0};
  static char *budgets[] = {"500", "1000", "2000", NULL};
  const size_t n = argc >= 4 ? (size_t)atol(argv[3]) : 0;
  if (n == 0) {
    fprintf(stderr, "usage: %s model.gguf cancels|overshoot|together N\n", argv[0]);
    return 2;
  }
  CALL(rz_model_load(argv[1], NULL, &model, &err));
  info.struct_size = sizeof info;
  CALL(rz_model_info_get(model, &info, &err));
  if (strcmp(argv[2], "cancels") == 0) {
    prepare(MOST_PROMPT, 50);
    cancels(n, plain_us < 2e4 ? plain_us / 8 : 3000);
  } else if (strcmp(argv[2], "overshoot") == 0) {
    prepare(MOST_PROMPT, MOST_MADE);
    overshoot(n, argc > 4 ? argv + 4 : budgets);
  } else {
    prepare(100, n < MOST_MADE ? n : MOST_MADE);
    together();
  }
  rz_model_free(model);
  return 0;
}
