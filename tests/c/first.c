/* A program of the first release, compiled with its header: tells a story, and what it sees of structs and statuses has to stay.
 * argv[1]: the tiny model. */
#include "realizar-0.1.h"
#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                                                                        \
  do {                                                                                                                     \
    if ((call) < 0) {                                                                                                      \
      fprintf(stderr, "%s: %s: %s\n", #call, rz_status_name(err.code), err.message);                                       \
      return 1;                                                                                                            \
    }                                                                                                                      \
  } while (0)

int main(int argc, char **argv) {
  rz_error err;
  rz_runtime *runtime = NULL;
  rz_model *model = NULL;
  rz_cache *cache = NULL, *fork = NULL;
  rz_sampler *sampler = NULL;
  rz_textstream *stream = NULL;
  rz_runtime_params runtime_params = {0};
  rz_model_params params = {0};
  rz_cache_params cache_params = {0};
  rz_sampler_params sampler_params = {0};
  rz_embed_params embed_params = {0};
  rz_model_info info;
  rz_metrics metrics;
  uint32_t tokens[64], token, other;
  const uint32_t *texts[1] = {tokens};
  float vectors[4096];
  char piece[256];
  size_t n, len, i;

  if (argc != 2 || rz_abi_version() != RZ_ABI_VERSION)
    return 2;
  memset(&info, 0xee, sizeof info); /* an output may be uninitialized */
  memset(&metrics, 0xee, sizeof metrics);
  runtime_params.struct_size = sizeof runtime_params;
  runtime_params.threads = 2;
  params.struct_size = sizeof params;
  cache_params.struct_size = sizeof cache_params;
  cache_params.capacity = 200;
  sampler_params.struct_size = sizeof sampler_params;
  embed_params.struct_size = sizeof embed_params;
  embed_params.pooling = RZ_POOLING_MEAN;
  info.struct_size = sizeof info;
  metrics.struct_size = sizeof metrics;

  CHECK(rz_runtime_new(&runtime_params, &runtime, &err));
  params.runtime = runtime;
  if (rz_model_load("/none", &params, &model, &err) != RZ_ERR_IO || err.code != RZ_ERR_IO || !err.message[0])
    return 3;
  CHECK(rz_model_load(argv[1], &params, &model, &err));
  CHECK(rz_model_info_get(model, &info, &err));
  if (strcmp(info.architecture, "llama") != 0 || info.vocab_size != 512 || info.gpu_layers != 0)
    return 4;
  CHECK(rz_cache_new(model, &cache_params, &cache, &err));
  CHECK(rz_sampler_new(&sampler_params, &sampler, &err));
  CHECK(rz_textstream_new(model, &stream, &err));
  CHECK(rz_tokenize_into(model, "Once upon a time", 16, RZ_TOKENIZE_ADD_SPECIAL, tokens, 64, &n, NULL, &err));
  CHECK(rz_embed_into(model, &embed_params, texts, &n, 1, vectors, 4096, &len, NULL, &err));
  if (len != info.hidden_dim)
    return 5;
  CHECK(rz_prefill(cache, tokens, n, NULL, &err));
  CHECK(rz_sample(cache, sampler, &token, &err));
  for (i = 0; i < 25; i++) {
    CHECK(rz_textstream_push_into(stream, token, piece, sizeof piece, &len, &err));
    fwrite(piece, 1, len, stdout);
    CHECK(rz_cache_fork(cache, &fork, &err));
    CHECK(rz_generate_into(fork, token, NULL, &other, 1, &n, NULL, &err));
    rz_cache_free(fork);
    CHECK(rz_decode_token(cache, token, sampler, &token, &err));
    if (token != other)
      return 6;
  }
  CHECK(rz_metrics_get(model, &metrics, &err));
  if (metrics.prefill.count != 1 || metrics.gpu_other.count != 0)
    return 7;
  putchar('\n');
  rz_textstream_free(stream);
  rz_sampler_free(sampler);
  rz_model_free(model);
  rz_runtime_free(runtime);
  rz_cache_free(cache);
  return 0;
}
