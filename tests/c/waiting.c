/* How long calls wait for one another on one model.
 *
 *   waiting model.gguf SECONDS N...      the longest last
 *
 * measures, alone and beside one and seven threads that read prompts of N tokens: tokens, how late calls end after a
 * cancel and a deadline, and steps of 2 ms of a job; each for so many seconds. Every thread has to get on.
 *
 *   waiting model.gguf jobs JOBS LONG TOKENS [TEMPERATURE [BESIDE]]
 *
 * measures jobs that begin at once and are stepped together, to TOKENS tokens each: a quarter have prompts of LONG
 * tokens, the others of 50. With a temperature tokens are drawn by top_k 40 and top_p 0.95. BESIDE is
 * rz_model_params.mixed_prefill_tokens. Times are processor time; other work on the machine adds
 * little. */
#include <pthread.h>
#include <realizar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { MOST = 20000, MOST_THREADS = 16, MOST_PROMPT = 4096, MOST_JOBS = 256, SHORT_PROMPT = 50 };

static rz_model *model;
static uint32_t prompt[MOST_PROMPT];
static size_t n_prompt, most_prompt;
static volatile int stop;

static double clock_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double now_ms(void) { return clock_ms(CLOCK_MONOTONIC); }
static double worked_ms(void) { return clock_ms(CLOCK_PROCESS_CPUTIME_ID); }

static void sleep_ms(double ms) {
  struct timespec t;
  t.tv_sec = (time_t)(ms / 1e3);
  t.tv_nsec = (long)(1e6 * (ms - 1e3 * (double)t.tv_sec));
  nanosleep(&t, NULL);
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_times(const char *what, double *ms, size_t n, const char *more) {
  double sum = 0;
  size_t i;
  for (i = 0; i < n; i++) sum += ms[i];
  qsort(ms, n, sizeof *ms, compare);
  if (n > 0)
    printf("  %-34s %5zu: mean %7.1f ms, p95 %7.1f, most %7.1f%s\n", what, n, sum / (double)n, ms[n * 95 / 100], ms[n - 1], more);
  else
    printf("  %-34s none\n", what);
}

static rz_cache *new_cache(uint32_t capacity) {
  rz_error err;
  rz_cache_params params = {0};
  rz_cache *cache = NULL;
  params.struct_size = sizeof params;
  params.capacity = capacity;
  CALL(rz_cache_new(model, &params, &cache, &err));
  return cache;
}

static rz_job *new_job(rz_cache *cache, size_t n, uint32_t max_tokens, float temperature, uint64_t seed) {
  rz_error err;
  rz_sampler_params sampling = {0};
  rz_job_params params = {0};
  rz_sampler *sampler = NULL;
  rz_job *job = NULL;
  sampling.struct_size = sizeof sampling;
  sampling.temperature = temperature;
  sampling.top_k = 40;
  sampling.top_p = 0.95F;
  sampling.seed = seed;
  if (temperature > 0) CALL(rz_sampler_new(&sampling, &sampler, &err));
  params.struct_size = sizeof params;
  params.max_tokens = max_tokens;
  params.tokens = prompt;
  params.n_tokens = n;
  params.sampler = sampler;
  CALL(rz_job_new(cache, &params, &job, &err));
  rz_sampler_free(sampler);
  return job;
}

/* Reads prompts one after the other until `stop`; their number. */
static void *read_prompts(void *count) {
  rz_error err;
  rz_cache *cache = new_cache(MOST_PROMPT);
  while (!stop) {
    CALL(rz_cache_truncate(cache, 0, &err));
    CALL(rz_prefill(cache, prompt, n_prompt, NULL, &err));
    ++*(size_t *)count;
  }
  rz_cache_free(cache);
  return NULL;
}

/* Makes tokens until `stop`; their number. */
static void *make_tokens(void *count) {
  rz_error err;
  rz_cache *cache = new_cache(1024);
  uint32_t token = prompt[0];
  while (!stop) {
    if (rz_cache_len(cache) == 1000) CALL(rz_cache_truncate(cache, 0, &err));
    CALL(rz_decode_token(cache, token, NULL, &token, &err));
    ++*(size_t *)count;
  }
  rz_cache_free(cache);
  return NULL;
}

static pthread_t threads[MOST_THREADS];
static size_t counts[MOST_THREADS];

static void start(size_t n, void *(*work)(void *)) {
  size_t i;
  stop = 0;
  for (i = 0; i < n; i++) {
    counts[i] = 0;
    CHECK(pthread_create(&threads[i], NULL, work, &counts[i]) == 0);
  }
}

static void finish(size_t n) {
  size_t i;
  stop = 1;
  for (i = 0; i < n; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static double times[MOST], late[MOST];

static void tokens_alone(double seconds) {
  rz_error err;
  rz_cache *cache = new_cache(1024);
  const double end = now_ms() + 1e3 * seconds;
  uint32_t token = prompt[0];
  size_t n = 0;
  while (now_ms() < end && n < MOST) {
    const double began = now_ms();
    if (rz_cache_len(cache) == 1000) CALL(rz_cache_truncate(cache, 0, &err));
    CALL(rz_decode_token(cache, token, NULL, &token, &err));
    times[n++] = now_ms() - began;
  }
  CHECK(n > 0);
  print_times("tokens", times, n, "");
  rz_cache_free(cache);
}

/* A thread that fires a cancel after a while, and tells when. */
static rz_cancel *cancel;
static volatile double fired_at;

static void *fire(void *unused) {
  (void)unused;
  sleep_ms(30);
  fired_at = now_ms();
  rz_cancel_fire(cancel);
  return NULL;
}

static void stops(double seconds, int by_deadline) {
  rz_error err;
  rz_cache *cache = new_cache(MOST_PROMPT);
  const double end = now_ms() + 1e3 * seconds;
  size_t n = 0;
  CALL(rz_cancel_new(&cancel, &err));
  while (now_ms() < end && n < MOST) {
    pthread_t thread;
    rz_status status;
    if (by_deadline) {
      fired_at = now_ms() + 20;
      CALL(rz_cancel_deadline(cancel, 20000, &err));
    } else {
      CHECK(pthread_create(&thread, NULL, fire, NULL) == 0);
    }
    status = rz_prefill(cache, prompt, most_prompt, cancel, &err);
    if (!by_deadline) CHECK(pthread_join(thread, NULL) == 0);
    if (status < 0) {
      CHECK(status == (by_deadline ? RZ_ERR_DEADLINE : RZ_ERR_CANCELLED));
      late[n++] = now_ms() - fired_at;
    }
    CALL(rz_cache_truncate(cache, 0, &err));
    rz_cancel_reset(cancel);
  }
  print_times(by_deadline ? "after a deadline of 20 ms" : "after a cancel", late, n, "");
  rz_cancel_free(cancel);
  rz_cache_free(cache);
}

/* Steps of 2 ms of a job, one in every sixteen milliseconds or one behind the other; until there is a token at least,
 * however busy the machine is. */
static void frames(double seconds, double pause) {
  rz_error err;
  rz_cache *cache = new_cache(1024);
  const double end = now_ms() + 1e3 * seconds;
  size_t n = 0, made = 0, in_time = 0, len;
  char more[96];
  while ((now_ms() < end || made == 0) && n < MOST) {
    rz_job *job;
    rz_status status = RZ_AGAIN;
    uint32_t tokens[1024];
    CALL(rz_cache_truncate(cache, 0, &err));
    job = new_job(cache, 8, 0, 0, 0);
    while (status != RZ_DONE && (now_ms() < end || made == 0) && n < MOST) {
      const double began = now_ms();
      status = rz_job_step(job, 2000, &err);
      CALL(status);
      times[n] = now_ms() - began;
      in_time += times[n++] <= 6;
      if (pause > 0) sleep_ms(pause);
    }
    CALL(rz_job_tokens_into(job, tokens, 1024, &len, &err));
    made += len;
    rz_job_free(job);
  }
  CHECK(made > 0);
  snprintf(more, sizeof more, "; %.1f %% within 6 ms, %zu tokens", 100.0 * (double)in_time / (double)n, made);
  print_times(pause > 0 ? "steps of 2 ms, 60 a second" : "steps of 2 ms, back to back", times, n, more);
  rz_cache_free(cache);
}

static void beside(size_t n_threads, size_t tokens, double seconds) {
  size_t i, sum = 0;
  const double began = now_ms();
  n_prompt = tokens;
  printf("%zu threads that read prompts of %zu tokens, and:\n", n_threads, tokens);
  start(n_threads, read_prompts);
  sleep_ms(50);
  tokens_alone(seconds);
  stops(seconds, 0);
  stops(seconds, 1);
  frames(seconds, 0);
  frames(seconds, 14);
  finish(n_threads);
  for (i = 0; i < n_threads; i++) {
    CHECK(counts[i] > 0);
    sum += counts[i];
  }
  printf("  meanwhile %.0f tokens of prompts a second\n", 1e3 * (double)(sum * tokens) / (now_ms() - began));
}

static void fairness(size_t n_threads, double seconds) {
  size_t i, sum = 0, least = (size_t)-1, most = 0;
  start(n_threads, make_tokens);
  sleep_ms(1e3 * seconds);
  finish(n_threads);
  for (i = 0; i < n_threads; i++) {
    sum += counts[i];
    least = counts[i] < least ? counts[i] : least;
    most = counts[i] > most ? counts[i] : most;
  }
  printf("%zu threads that make tokens: %zu to %zu each, %.1f a second in all\n", n_threads, least, most, (double)sum / seconds);
  CHECK(least > 0);
}

static void make_prompt(size_t wanted) {
  const char *sentence = "Once there was a little girl who had a red ball. ";
  rz_error err;
  while (most_prompt < wanted) {
    uint32_t tokens[64];
    size_t len, i;
    if (rz_tokenize_into(model, sentence, strlen(sentence), 0, tokens, 64, &len, NULL, &err) == RZ_ERR_UNSUPPORTED) {
      for (len = 0; len < 64; len++) tokens[len] = (uint32_t)(most_prompt + len) % 1000; /* A model without texts. */
    } else {
      CALL(err.code);
    }
    for (i = 0; i < len && most_prompt < wanted; i++) prompt[most_prompt++] = tokens[i];
  }
}

/* Steps jobs that begin at once, and prints the times of their first and last tokens, and the longest between two
 * of one job. */
static void step_together(size_t n, size_t n_long, uint32_t max_tokens, float temperature) {
  static double first[2][MOST_JOBS], last[2][MOST_JOBS], before[MOST_JOBS];
  static uint32_t made[MOST_JOBS];
  static rz_cache *caches[MOST_JOBS];
  static rz_job *jobs[MOST_JOBS];
  size_t i, n_first[2] = {0, 0}, n_last[2] = {0, 0}, tokens = 0, read = 0;
  double gap = 0;
  const double began = worked_ms(), began_ms = now_ms();
  rz_status status = RZ_AGAIN;
  rz_error err;
  for (i = 0; i < n; i++) {
    const size_t length = i % 4 == 0 ? n_long : SHORT_PROMPT;
    caches[i] = new_cache((uint32_t)length + max_tokens);
    jobs[i] = new_job(caches[i], length, max_tokens, temperature, i + 1);
    made[i] = 0;
    read += length;
  }
  while (status != RZ_DONE) {
    status = rz_jobs_step(jobs, n, RZ_NO_LIMIT, &err);
    CALL(status);
    for (i = 0; i < n; i++) {
      const int is_long = i % 4 == 0;
      rz_job_info info = {0};
      info.struct_size = sizeof info;
      CALL(rz_job_info_get(jobs[i], &info, &err));
      if (info.n_tokens == made[i]) continue;
      if (made[i] == 0) {
        first[is_long][n_first[is_long]++] = worked_ms() - began;
      } else if (worked_ms() - before[i] > gap) {
        gap = worked_ms() - before[i];
      }
      if (info.end_reason != 0) last[is_long][n_last[is_long]++] = worked_ms() - began;
      tokens += info.n_tokens - made[i];
      made[i] = info.n_tokens;
      before[i] = worked_ms();
    }
  }
  CHECK(n_last[0] + n_last[1] == n);
  printf("%zu jobs, %zu tokens of prompts, %zu made, %.1f a second; longest time between two %.1f ms, of all %.0f ms of processors\n", n, read,
         tokens, 1e3 * (double)tokens / (now_ms() - began_ms), gap, worked_ms() - began);
  for (i = 0; i < 2; i++) {
    char more[96];
    qsort(first[i], n_first[i], sizeof **first, compare);
    qsort(last[i], n_last[i], sizeof **last, compare);
    if (n_first[i] == 0) continue;
    snprintf(more, sizeof more, ", median %.1f; last tokens %.1f to %.1f", first[i][n_first[i] / 2], last[i][0], last[i][n_last[i] - 1]);
    print_times(i == 0 ? "first tokens of short prompts" : "first tokens of long prompts", first[i], n_first[i], more);
  }
  for (i = 0; i < n; i++) {
    rz_job_free(jobs[i]);
    rz_cache_free(caches[i]);
  }
}

int main(int argc, char **argv) {
  rz_error err;
  double seconds;
  int i;
  if (argc < 4 || (strcmp(argv[2], "jobs") == 0 && argc < 6)) {
    fprintf(stderr, "usage: %s model.gguf SECONDS N... | jobs JOBS LONG TOKENS [TEMPERATURE [BESIDE]]\n", argv[0]);
    return 2;
  }
  if (strcmp(argv[2], "jobs") == 0) {
    rz_model_params params = {0};
    params.struct_size = sizeof params;
    params.device = 1;
    params.mixed_prefill_tokens = argc > 7 ? (uint32_t)atol(argv[7]) : 0;
    CHECK(atol(argv[3]) > 0 && atol(argv[3]) <= MOST_JOBS && atol(argv[4]) > 0 && atol(argv[4]) <= MOST_PROMPT);
    CALL(rz_model_load(argv[1], &params, &model, &err));
    make_prompt(MOST_PROMPT);
    step_together((size_t)atol(argv[3]), (size_t)atol(argv[4]), (uint32_t)atol(argv[5]), argc > 6 ? (float)atof(argv[6]) : 0);
    rz_model_free(model);
    return 0;
  }
  seconds = atof(argv[2]);
  CALL(rz_model_load(argv[1], NULL, &model, &err));
  for (i = 3; i < argc; i++) CHECK(atol(argv[i]) > 0 && atol(argv[i]) <= MOST_PROMPT);
  make_prompt((size_t)atol(argv[argc - 1]));
  printf("alone:\n");
  tokens_alone(seconds);
  frames(seconds, 0);
  for (i = 3; i < argc; i++) {
    CHECK((size_t)atol(argv[i]) <= most_prompt);
    beside(1, (size_t)atol(argv[i]), seconds);
    beside(7, (size_t)atol(argv[i]), seconds);
  }
  fairness(2, seconds);
  fairness(8, seconds);
  rz_model_free(model);
  return 0;
}
