/* Sixteen threads with one model: each with a cache of its own, all with one cache that belongs to one call at a time;
 * a cancel fired from a signal handler; a child process that goes on with the model. argv[1]: a model. */
#include <pthread.h>
#include <realizar.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return (void *)"failed";                                        \
    }                                                                 \
  } while (0)

enum { THREADS = 16, STEPS = 24 };

static rz_model *model;
static rz_cache *shared;
static rz_cancel *cancel;

static void on_signal(int number) {
  (void)number;
  rz_cancel_fire(cancel);
}

/* Writes the tokens that follow the first one to `argument`. */
static void *own_cache(void *argument) {
  uint32_t *tokens = argument;
  rz_error err;
  rz_cache *cache = NULL;
  uint32_t token = 1;
  int i;
  CHECK(rz_cache_new(model, NULL, &cache, &err) == RZ_OK);
  for (i = 0; i < STEPS; i++) {
    CHECK(rz_decode_token(cache, token, NULL, &token, &err) == RZ_OK);
    tokens[i] = token;
  }
  rz_cache_free(cache);
  return NULL;
}

/* A call on the shared cache works or says that it is in use; nothing else. */
static void *shared_cache(void *argument) {
  uint32_t *done = argument;
  rz_error err;
  uint32_t token;
  int i;
  *done = 0;
  for (i = 0; i < STEPS; i++) {
    rz_status status = rz_decode_token(shared, 1, NULL, &token, &err);
    CHECK(status == RZ_OK || status == RZ_ERR_BUSY);
    CHECK(err.code == status);
    CHECK(status != RZ_ERR_BUSY || strstr(err.message, "in use") != NULL);
    *done += status == RZ_OK;
    CHECK(rz_cache_len(shared) <= rz_cache_capacity(shared));
  }
  return NULL;
}

static void *run(void) {
  static uint32_t tokens[THREADS][STEPS];
  static uint32_t done[THREADS];
  pthread_t threads[THREADS];
  rz_error err;
  rz_cache_params params = {0};
  void *result;
  uint32_t sum = 0, many[256];
  size_t n = 0;
  pid_t child;
  int i, ended;

  params.struct_size = sizeof params;
  params.capacity = THREADS * STEPS;
  CHECK(rz_cache_new(model, &params, &shared, &err) == RZ_OK);
  CHECK(rz_cancel_new(&cancel, &err) == RZ_OK);

  for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, own_cache, tokens[i]) == 0);
  for (i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], &result) == 0);
    CHECK(result == NULL);
    CHECK(memcmp(tokens[0], tokens[i], sizeof tokens[0]) == 0);
  }

  for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, shared_cache, &done[i]) == 0);
  for (i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], &result) == 0);
    CHECK(result == NULL);
    sum += done[i];
  }
  CHECK(sum > 0);
  CHECK(rz_cache_len(shared) == sum);

  CHECK(rz_cache_truncate(shared, 0, &err) == RZ_OK);
  CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
  CHECK(raise(SIGUSR1) == 0);
  CHECK(rz_generate_into(shared, 1, NULL, many, 256, &n, cancel, &err) == RZ_ERR_CANCELLED);
  CHECK(n == 0 && rz_cache_len(shared) == 0);
  rz_cancel_reset(cancel);
  CHECK(rz_generate_into(shared, 1, NULL, many, STEPS, &n, cancel, &err) >= 0);
  CHECK(n == STEPS && memcmp(many, tokens[0], sizeof tokens[0]) == 0);

  /* The workers stay behind in a child; the calls go on without them and say the same. */
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    rz_status status = rz_cache_truncate(shared, 0, &err);
    if (status == RZ_OK) status = rz_generate_into(shared, 1, NULL, many, STEPS, &n, NULL, &err);
    rz_cache_free(shared);
    rz_model_free(model);
    _exit(status < 0 || memcmp(many, tokens[0], sizeof tokens[0]) != 0);
  }
  CHECK(waitpid(child, &ended, 0) == child);
  CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);

  rz_cancel_free(cancel);
  rz_cache_free(shared);
  return NULL;
}

int main(int argc, char **argv) {
  rz_error err;
  if (argc != 2 || rz_model_load(argv[1], NULL, &model, &err) != RZ_OK) return 2;
  if (run() != NULL) return 1;
  rz_model_free(model);
  return 0;
}
