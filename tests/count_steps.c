/* Stands between a component for a game engine and the library, and counts the steps of replies: at the end of the
 * process it writes "STEPS BUDGET", their number and the longest time that one was given, to the file of $COUNTED. */
#include <dlfcn.h>
#include <realizar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long steps, longest;

rz_status rz_conversation_step(rz_conversation *conversation, uint64_t budget, rz_error *err) {
  static rz_status (*step)(rz_conversation *, uint64_t, rz_error *);
  if (!step) {
    void *const library = dlopen("librealizar.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *const found = library ? dlsym(library, "rz_conversation_step") : NULL;
    if (!found) abort();
    memcpy(&step, &found, sizeof step);
  }
  steps++;
  if (budget > longest) longest = budget;
  return step(conversation, budget, err);
}

__attribute__((destructor)) static void write_count(void) {
  const char *const path = getenv("COUNTED");
  FILE *const file = path && steps > 0 ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%llu %llu\n", steps, longest);
  fclose(file);
}
