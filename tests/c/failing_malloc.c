/* An allocator to preload: while it is armed, its n-th allocation fails, and optionally all later ones. Only for glibc.
 * It also counts the destructors of thread-locals that threads register: glibc terminates the process if it has no
 * memory for them, so the threads of the library's callers must not register any. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);

static atomic_int armed, for_good;
static atomic_long count, first, registered;
static __thread int exempt;
static int (*register_destructor)(void (*)(void *), void *, void *);

__attribute__((constructor)) static void find(void) {
  void *symbol = dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl");
  memcpy(&register_destructor, &symbol, sizeof symbol);
}

/* Begins to count, unarmed. */
void failing_malloc_begin(long n, int goes_on) {
  armed = 0;
  count = 0;
  first = n;
  for_good = goes_on;
}

void failing_malloc_arm(int on) { armed = on; }
long failing_malloc_count(void) { return count; }
/* Destructors that were asked for while armed, on threads that are not the library's own. */
long failing_malloc_registered(void) { return registered; }

static int fails(void) {
  long n;
  if (!armed || exempt) return 0;
  n = count++;
  if (n != first && !(n > first && for_good)) return 0;
  errno = ENOMEM;
  return 1;
}

int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library) {
  char name[16] = "";
  int result;
  prctl(PR_GET_NAME, name);
  if (armed && strncmp(name, "realizar-deep", 13) != 0 && strncmp(name, "realizar-load", 13) != 0) registered++;
  exempt++;
  result = register_destructor(destructor, object, library);
  exempt--;
  return result;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t size) { return fails() ? NULL : __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
void *memalign(size_t align, size_t n) { return fails() ? NULL : __libc_memalign(align, n); }
void *aligned_alloc(size_t align, size_t n) { return fails() ? NULL : __libc_memalign(align, n); }

int posix_memalign(void **out, size_t align, size_t n) {
  void *p = fails() ? NULL : __libc_memalign(align, n);
  if (p == NULL) return ENOMEM;
  *out = p;
  return 0;
}
