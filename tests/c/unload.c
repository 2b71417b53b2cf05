/* Loads the library at run time, uses it and lets it go, several times over.
 * argv[1]: the library; argv[2]: a model, with which the whole path is taken. */
#include <dlfcn.h>
#include <realizar.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                            \
  do {                                                              \
    if (!(condition)) {                                             \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                     \
    }                                                               \
  } while (0)

/* ISO C has no conversion from an object pointer to a function pointer; POSIX asks for one that is copied like this. */
#define LOOK_UP(name)                                     \
  do {                                                    \
    void *symbol = dlsym(library, #name);                 \
    CHECK(symbol != NULL);                                \
    memcpy(&name##_, &symbol, sizeof symbol);             \
  } while (0)

static int round_trip(const char *path, const char *model_path, uint32_t *last) {
  uint32_t (*rz_abi_version_)(void);
  rz_status (*rz_model_load_)(const char *, const rz_model_params *, rz_model **, rz_error *);
  void (*rz_model_free_)(rz_model *);
  rz_status (*rz_cache_new_)(const rz_model *, const rz_cache_params *, rz_cache **, rz_error *);
  void (*rz_cache_free_)(rz_cache *);
  rz_status (*rz_decode_token_)(rz_cache *, uint32_t, rz_sampler *, uint32_t *, rz_error *);
  rz_error err;
  rz_model *model = NULL;
  rz_cache *cache = NULL;
  uint32_t token = 1;
  int i;

  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  LOOK_UP(rz_abi_version);
  LOOK_UP(rz_model_load);
  LOOK_UP(rz_model_free);
  LOOK_UP(rz_cache_new);
  LOOK_UP(rz_cache_free);
  LOOK_UP(rz_decode_token);

  CHECK(rz_abi_version_() == RZ_ABI_VERSION);
  CHECK(rz_model_load_("/nowhere.gguf", NULL, &model, &err) == RZ_ERR_IO);
  CHECK(rz_model_load_(model_path, NULL, &model, &err) == RZ_OK);
  CHECK(rz_cache_new_(model, NULL, &cache, &err) == RZ_OK);
  for (i = 0; i < 8; i++) CHECK(rz_decode_token_(cache, token, NULL, &token, &err) == RZ_OK);
  rz_model_free_(model);
  rz_cache_free_(cache);
  CHECK(dlclose(library) == 0);
  *last = token;
  return 0;
}

int main(int argc, char **argv) {
  uint32_t first = 0, token = 0;
  int i;
  CHECK(argc == 3);
  CHECK(round_trip(argv[1], argv[2], &first) == 0);
  for (i = 0; i < 9; i++) {
    CHECK(round_trip(argv[1], argv[2], &token) == 0);
    CHECK(token == first);
  }
  return 0;
}
