/* Loads the library at run time, uses it and lets it go, several times over, on a thread that ends and on one that lives
 * on: glibc keeps a library mapped for as long as a thread lives that has destructors of it to run.
 * Neither memory nor descriptors nor threads are left behind.
 * argv[1]: the library; argv[2]: a model with a chat template that begins with its first token; argv[3]: how often. */
#include <dirent.h>
#include <dlfcn.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>
#include <realizar.h>
#include <stdio.h>
#include <stdlib.h>
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

static void *library;
static const char *model_path;
static uint32_t last;

static int use(void) {
  uint32_t (*rz_abi_version_)(void);
  rz_status (*rz_model_load_)(const char *, const rz_model_params *, rz_model **, rz_error *);
  void (*rz_model_free_)(rz_model *);
  rz_status (*rz_cache_new_)(const rz_model *, const rz_cache_params *, rz_cache **, rz_error *);
  void (*rz_cache_free_)(rz_cache *);
  rz_status (*rz_tokenize_into_)(const rz_model *, const char *, size_t, uint32_t, uint32_t *, size_t, size_t *,
                                 const rz_cancel *, rz_error *);
  rz_status (*rz_chat_render_into_)(const rz_model *, const char *, size_t, uint32_t, char *, size_t, size_t *,
                                    const rz_cancel *, rz_error *);
  rz_status (*rz_decode_token_)(rz_cache *, uint32_t, rz_sampler *, uint32_t *, rz_error *);
  rz_error err;
  rz_model *model = NULL;
  rz_cache *cache = NULL;
  const char *chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"Once upon a time\"}]}";
  uint32_t token = 1, tokens[64];
  char text[256];
  size_t n = 0, len = 0;
  int i;

  LOOK_UP(rz_abi_version);
  LOOK_UP(rz_model_load);
  LOOK_UP(rz_model_free);
  LOOK_UP(rz_cache_new);
  LOOK_UP(rz_cache_free);
  LOOK_UP(rz_tokenize_into);
  LOOK_UP(rz_chat_render_into);
  LOOK_UP(rz_decode_token);

  CHECK(rz_abi_version_() == RZ_ABI_VERSION);
  CHECK(rz_model_load_("/nowhere.gguf", NULL, &model, &err) == RZ_ERR_IO);
  CHECK(rz_model_load_(model_path, NULL, &model, &err) == RZ_OK);
  CHECK(rz_chat_render_into_(model, chat, strlen(chat), 0, text, sizeof text, &len, NULL, &err) == RZ_OK);
  CHECK(rz_tokenize_into_(model, text, len, RZ_TOKENIZE_PARSE_SPECIAL, tokens, 64, &n, NULL, &err) == RZ_OK);
  CHECK(n == 5 && tokens[0] == 1);
  CHECK(rz_cache_new_(model, NULL, &cache, &err) == RZ_OK);
  for (i = 0; i < 8; i++) CHECK(rz_decode_token_(cache, token, NULL, &token, &err) == RZ_OK);
  rz_model_free_(model);
  rz_cache_free_(cache);
  last = token;
  return 0;
}

static void *use_in_thread(void *unused) {
  (void)unused;
  return use() == 0 ? NULL : (void *)"failed";
}

#if defined(__linux__) && defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
#define COUNTS 4
/* Bytes of the heap by which one count may be above another beside a heavy load; a leak grows with every cycle. */
#define SLACK 16384L
/* Entries of a folder of /proc. */
static long entries(const char *folder) {
  DIR *found = opendir(folder);
  long n = 0;
  while (found != NULL && readdir(found) != NULL) n++;
  if (found != NULL) closedir(found);
  return n;
}

/* Counts descriptors, threads, mappings and bytes of the heap; fails where a part of the library is still mapped. */
static int left_behind(long counts[COUNTS]) {
  const struct mallinfo2 heap = mallinfo2();
  char line[4096];
  FILE *file = fopen("/proc/self/maps", "r");
  CHECK(file != NULL);
  for (counts[2] = 0; fgets(line, sizeof line, file) != NULL; counts[2]++) CHECK(strstr(line, "librealizar") == NULL);
  fclose(file);
  counts[0] = entries("/proc/self/fd");
  counts[1] = entries("/proc/self/task");
  counts[3] = (long)(heap.uordblks + heap.hblkhd);
  return 0;
}
#endif

int main(int argc, char **argv) {
  uint32_t first = 0;
  int i, times;
  CHECK(argc == 4);
  model_path = argv[2];
  times = atoi(argv[3]);
#ifdef COUNTS
  CHECK(mallopt(M_ARENA_MAX, 1) == 1); /* Others come and go with threads, and are not counted. */
#endif
  for (i = 0; i < times; i++) {
    pthread_t thread;
    void *result = NULL;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL);
    if (i % 2) {
      CHECK(pthread_create(&thread, NULL, use_in_thread, NULL) == 0);
      CHECK(pthread_join(thread, &result) == 0);
      CHECK(result == NULL);
    } else {
      CHECK(use() == 0);
    }
    CHECK(dlclose(library) == 0);
#ifdef __GLIBC__ /* Others never unmap a library. */
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
#ifdef COUNTS
    {
      /* Since the middle; statics of rayon keep 10 KB each time, glibc and others half a KB, and stacks of threads for
       * the next ones. */
      static long before[COUNTS], counts[COUNTS];
      CHECK(left_behind(counts) == 0);
      if (i == times / 2) memcpy(before, counts, sizeof before);
      CHECK(i < times / 2 || (counts[0] == before[0] && counts[1] == before[1] && counts[2] <= before[2] + 16));
      if (i >= times / 2 && counts[3] > before[3] + SLACK + 12288L * (i - times / 2)) {
        fprintf(stderr, "cycle %d of %d: %ld bytes of the heap, %ld in the middle\n", i, times, counts[3], before[3]);
        return 1;
      }
    }
#endif
#endif
    if (i == 0) first = last;
    CHECK(last == first);
  }
  return 0;
}
