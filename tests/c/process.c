/* A process that goes on living beside the library: children that are forked while other threads compute with another model, and a signal each
 * millisecond whose handler does not ask for calls to be restarted. Every call succeeds, and says what it says
 * undisturbed. argv[1]: a model with a chat template; argv[2]: for how many milliseconds each. */
#include <errno.h>
#include <pthread.h>
#include <realizar.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MADE = 24 };

static const char *path;
static rz_model *model;
static uint32_t expected[MADE];
static volatile sig_atomic_t signals, stop;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void on_signal(int number) {
  (void)number;
  signals++;
}

/* The tokens that follow the first one, by a cache of its own. */
static void generate(rz_model *of, uint32_t *tokens) {
  rz_error err;
  rz_cache *cache = NULL;
  size_t n = 0;
  CALL(rz_cache_new(of, NULL, &cache, &err));
  CALL(rz_generate_into(cache, 1, NULL, tokens, MADE, &n, NULL, &err));
  CHECK(n == MADE);
  rz_cache_free(cache);
}

static void check_generate(rz_model *of) {
  uint32_t tokens[MADE];
  generate(of, tokens);
  CHECK(memcmp(tokens, expected, sizeof tokens) == 0);
}

static void *compute(void *of) {
  while (!stop) check_generate(of);
  return NULL;
}

enum { PUT = 4, PREFIX = 40 };

/* A prompt that begins with its number. */
static void prompt(uint32_t *tokens, uint32_t number) {
  uint32_t i;
  for (i = 0; i < PREFIX; i++) tokens[i] = 3 + (i * 37 + number) % 400;
}

/* Forks until the time is over, while three threads compute with another model and the thread of a store writes. */
static void fork_during_use(rz_model *busy, double ms) {
  const double until = now_ms() + ms;
  char folder[] = "/tmp/realizar-process-XXXXXX";
  rz_store *store = NULL;
  rz_store_params store_params = {0};
  rz_cache *caches[PUT] = {0};
  uint32_t tokens[PREFIX];
  rz_error err;
  pthread_t threads[3];
  int i;
  CHECK(mkdtemp(folder) != NULL);
  store_params.struct_size = sizeof store_params;
  store_params.min_tokens = PREFIX / 2;
  store_params.memory_limit = 1;
  store_params.path = folder;
  CALL(rz_store_new(model, &store_params, &store, &err));
  for (i = 0; i < PUT; i++) {
    prompt(tokens, (uint32_t)i);
    CALL(rz_cache_new(model, NULL, &caches[i], &err));
    CALL(rz_prefill(caches[i], tokens, PREFIX, NULL, &err));
  }
  for (i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, compute, busy) == 0);
  while (now_ms() < until) {
    int ended;
    pid_t child;
    for (i = 0; i < PUT; i++) CALL(rz_store_put(store, caches[i], &err));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      rz_model *other = NULL;
      rz_cache *taken = NULL;
      uint32_t common = 0;
      alarm(20); /* one that waits for ever ends by it */
      check_generate(model);
      CALL(rz_model_load(path, NULL, &other, &err));
      check_generate(other);
      rz_model_free(other);
      CALL(rz_store_take(store, tokens, PREFIX, NULL, NULL, &taken, &common, &err));
      rz_cache_free(taken);
      CALL(rz_store_put(store, caches[0], &err));
      _exit(0);
    }
    check_generate(model);
    CHECK(waitpid(child, &ended, 0) == child);
    CHECK(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
  }
  stop = 1;
  for (i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (i = 0; i < PUT; i++) rz_cache_free(caches[i]);
  CALL(rz_store_clear(store, &err));
  rz_store_free(store);
  CHECK(rmdir(folder) == 0);
}

static int32_t write_to(const void *data, size_t n, void *user) { return fwrite(data, 1, n, user) == n ? 0 : EIO; }

static int32_t read_from(void *out, size_t n, void *user) {
  return fread(out, 1, n, user) == n ? 0 : feof(user) ? RZ_ERR_FORMAT : EIO;
}

/* Each kind of call once; what they say is written to `said`, always the same. */
static void every_call(char said[4096]) {
  rz_error err;
  rz_runtime *runtime = NULL;
  rz_runtime_params runtime_params = {0};
  rz_model *own = NULL, *again = NULL;
  rz_model_params params = {0};
  rz_cache *cache = NULL, *loaded = NULL;
  rz_job *job = NULL;
  rz_job_params job_params = {0};
  rz_grammar *grammar = NULL;
  rz_sampler *sampler = NULL;
  rz_sampler_params sampler_params = {0};
  rz_model_plan plan = {0};
  rz_embed_params embed_params = {0};
  rz_source source = {0};
  const char *chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"Once upon a time\"}]}";
  uint32_t tokens[64], made[MADE];
  const uint32_t *texts[1] = {tokens};
  float numbers[512];
  char text[512];
  size_t n = 0, len = 0;
  FILE *file = fopen(path, "rb"), *saved = tmpfile();
  rz_status status;

  memset(said, 0, 4096);
  CHECK(file != NULL && saved != NULL);
  runtime_params.struct_size = sizeof runtime_params;
  runtime_params.threads = 3;
  CALL(rz_runtime_new(&runtime_params, &runtime, &err));
  params.struct_size = sizeof params;
  params.runtime = runtime;
  plan.struct_size = sizeof plan;
  CALL(rz_model_plan_get(path, NULL, 0, &params, NULL, 1, &plan, NULL, 0, NULL, &err));
  CALL(rz_model_load(path, &params, &own, &err));
  source.struct_size = sizeof source;
  source.kind = RZ_SOURCE_FD;
  source.name = "model.gguf";
  source.fd = fileno(file);
  fseek(file, 0, SEEK_END);
  source.size = (uint64_t)ftell(file);
  CALL(rz_model_load_from(&source, 1, &params, &again, &err));
  CALL(rz_runtime_threads_set(runtime, 2, &err));
  CALL(rz_chat_render_into(own, chat, strlen(chat), 0, text, sizeof text, &len, NULL, &err));
  CALL(rz_tokenize_into(own, text, len, RZ_TOKENIZE_PARSE_SPECIAL, tokens, 64, &n, NULL, &err));
  embed_params.struct_size = sizeof embed_params;
  embed_params.pooling = RZ_POOLING_MEAN;
  CALL(rz_embed_into(own, &embed_params, texts, &n, 1, numbers, 512, &len, NULL, &err));
  memcpy(said, numbers, len * sizeof *numbers);
  CALL(rz_cache_new(own, NULL, &cache, &err));
  CALL(rz_prefill(cache, tokens, n, NULL, &err));
  sampler_params.struct_size = sizeof sampler_params;
  sampler_params.temperature = 0.8f;
  CALL(rz_sampler_new(&sampler_params, &sampler, &err));
  CALL(rz_decode_token(cache, 7, sampler, &made[0], &err));
  CALL(rz_cache_save(cache, write_to, saved, NULL, &err));
  rewind(saved);
  CALL(rz_cache_load(again, NULL, read_from, saved, NULL, &loaded, &err));
  CALL(rz_generate_into(loaded, made[0], sampler, made, MADE, &n, NULL, &err));
  memcpy(said + 2048, made, n * sizeof *made);
  CALL(rz_grammar_new(own, RZ_GRAMMAR_REGEX, 0, "[a-z ]{4,12}", 12, NULL, &grammar, &err));
  job_params.struct_size = sizeof job_params;
  job_params.tokens = tokens;
  job_params.n_tokens = 3;
  job_params.max_tokens = MADE;
  job_params.grammar = grammar;
  CALL(rz_job_new(loaded, &job_params, &job, &err));
  do CALL(status = rz_job_step(job, 100, &err)); while (status != RZ_DONE);
  CALL(rz_job_text_into(job, said + 3072, 512, &len, &err));
  rz_model_free(own);
  rz_model_free(again);
  rz_job_free(job);
  rz_grammar_free(grammar);
  rz_sampler_free(sampler);
  rz_cache_free(cache);
  rz_cache_free(loaded);
  rz_runtime_free(runtime);
  fclose(file);
  fclose(saved);
}

/* Every call, over and over, with a signal each millisecond. */
static void signals_during_use(double ms) {
  static char undisturbed[4096], said[4096];
  const struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
  struct sigaction action;
  double until;
  every_call(undisturbed);
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &each, NULL) == 0);
  for (until = now_ms() + ms; now_ms() < until;) {
    every_call(said);
    CHECK(memcmp(said, undisturbed, sizeof said) == 0);
  }
  CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
  CHECK(signals > 10);
}

/* A model with three threads of its own. */
static rz_model *load(void) {
  rz_error err;
  rz_runtime *runtime = NULL;
  rz_runtime_params runtime_params = {0};
  rz_model *loaded = NULL;
  rz_model_params params = {0};
  runtime_params.struct_size = sizeof runtime_params;
  runtime_params.threads = 3;
  params.struct_size = sizeof params;
  CALL(rz_runtime_new(&runtime_params, &runtime, &err));
  params.runtime = runtime;
  CALL(rz_model_load(path, &params, &loaded, &err));
  rz_runtime_free(runtime);
  return loaded;
}

int main(int argc, char **argv) {
  rz_model *busy;
  const double ms = argc == 3 ? atof(argv[2]) : 0;
  if (ms <= 0) return 2;
  path = argv[1];
  model = load();
  busy = load();
  generate(model, expected);
  fork_during_use(busy, ms);
  signals_during_use(ms);
  rz_model_free(model);
  rz_model_free(busy);
  return 0;
}
