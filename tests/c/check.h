/* Ends the program where a condition or a call fails. */
#include <realizar.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

/* A call that succeeds. */
#define CALL(call)                                                                                   \
  do {                                                                                               \
    if ((call) < 0) {                                                                                \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, rz_status_name(err.code), err.message); \
      exit(1);                                                                                       \
    }                                                                                                \
  } while (0)
