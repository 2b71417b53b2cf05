/* A library in somebody else's process reads no environment variable, sets no signal handler and leaves the calling
 * thread's mask as it was: this program takes the place of the functions that would do so, and counts their calls.
 * argv[1]: a model. */
#include <realizar.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;

char *getenv(const char *name) {
  fprintf(stderr, "getenv(%s)\n", name);
  calls++;
  return NULL;
}

int setenv(const char *name, const char *value, int overwrite) {
  fprintf(stderr, "setenv(%s, %s, %d)\n", name, value, overwrite);
  calls++;
  return 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  fprintf(stderr, "sigaction(%d, %s, %s)\n", number, action ? "set" : "ask", before ? "get" : "forget");
  calls++;
  return 0;
}

int main(int argc, char **argv) {
  rz_error err;
  rz_runtime *runtime = NULL;
  rz_runtime_params runtime_params = {0};
  rz_model *model = NULL;
  rz_model_params params = {0};
  rz_cache *cache = NULL;
  rz_sampler *sampler = NULL;
  rz_sampler_params sampler_params = {0};
  rz_device_info device = {0};
  uint32_t tokens[32];
  char text[512];
  sigset_t before, after;
  size_t n = 0, len = 0;
  int i;

  if (argc != 2) return 2;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  device.struct_size = sizeof device;
  runtime_params.struct_size = sizeof runtime_params;
  runtime_params.threads = 4;
  params.struct_size = sizeof params;
  sampler_params.struct_size = sizeof sampler_params;
  sampler_params.temperature = 0.8f;
  sampler_params.top_k = 40;
  if (rz_device_info_get(1, &device, &err) < 0) goto fail;
  if (rz_runtime_new(&runtime_params, &runtime, &err) < 0) goto fail;
  params.runtime = runtime;
  if (rz_model_load("/nowhere", &params, &model, &err) != RZ_ERR_IO) goto fail;
  if (rz_model_load(argv[1], &params, &model, &err) < 0) goto fail;
  if (rz_cache_new(model, NULL, &cache, &err) < 0) goto fail;
  if (rz_sampler_new(&sampler_params, &sampler, &err) < 0) goto fail;
  if (rz_tokenize_into(model, "Once upon", 9, RZ_TOKENIZE_ADD_SPECIAL, tokens, 32, &n, NULL, &err) < 0) goto fail;
  if (rz_prefill(cache, tokens, n, NULL, &err) < 0) goto fail;
  if (rz_generate_into(cache, tokens[0], sampler, tokens, 32, &n, NULL, &err) < 0) goto fail;
  if (rz_detokenize_into(model, tokens, n, 0, text, sizeof text, &len, &err) < 0) goto fail;
  rz_sampler_free(sampler);
  rz_cache_free(cache);
  rz_model_free(model);
  rz_runtime_free(runtime);

  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (i = 1; i < 32; i++) calls += sigismember(&before, i) != sigismember(&after, i);
  return calls;

fail:
  fprintf(stderr, "%s: %s\n", rz_status_name(err.code), err.message);
  return 1;
}
