/* Threads of the library, with a runtime of one thread: the load of a model with a tokenizer makes one, no other call
 * makes any, and where the system gives none the load fails. The program's own pthread_create counts and refuses.
 * argv[1]: a model with a chat template that writes tools and calls of them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check.h"

#ifdef __linux__

static int made, refuses;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
  int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  void *found = dlsym(RTLD_NEXT, "pthread_create");
  memcpy(&real, &found, sizeof real);
  if (refuses) return EAGAIN;
  made++;
  return real(thread, attributes, start, argument);
}

/* Threads of this process. */
static int threads(void) {
  DIR *folder = opendir("/proc/self/task");
  struct dirent *entry;
  int n = 0;
  CHECK(folder != NULL);
  while ((entry = readdir(folder)) != NULL) n += entry->d_name[0] != '.';
  closedir(folder);
  return n;
}

static const char CHAT[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [{\"type\": \"function\", \"function\": "
    "{\"name\": \"look\", \"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": "
    "{\"type\": \"string\"}}}}}]}";
static const char SCHEMA[] = "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}}";

/* Every call that renders a template or compiles a grammar, and some that compute. */
static void use(rz_model *model) {
  rz_error err;
  rz_grammar *grammar = NULL;
  rz_chat_parser *parser = NULL;
  rz_conversation *chat = NULL;
  rz_conversation_params params = {0};
  rz_reply_params reply = {0};
  rz_model_info info = {0};
  rz_cache *cache = NULL;
  char text[4096];
  uint32_t tokens[1024];
  size_t n = 0;
  info.struct_size = sizeof info;
  CALL(rz_model_info_get(model, &info, &err));
  CHECK(info.chat_template & RZ_TEMPLATE_PRESENT);
  CHECK((info.capabilities & (RZ_CAN_GENERATE | RZ_CAN_TOOLS)) == (RZ_CAN_GENERATE | RZ_CAN_TOOLS));
  CALL(rz_chat_render_into(model, CHAT, strlen(CHAT), 1, text, sizeof text, &n, NULL, &err));
  CALL(rz_chat_tokenize_into(model, CHAT, strlen(CHAT), 1, tokens, 1024, &n, NULL, &err));
  CALL(rz_chat_parser_new(model, CHAT, strlen(CHAT), NULL, &parser, &err));
  rz_chat_parser_free(parser);
  CALL(rz_grammar_new(model, RZ_GRAMMAR_JSON_SCHEMA, 0, SCHEMA, strlen(SCHEMA), NULL, &grammar, &err));
  rz_grammar_free(grammar);
  CALL(rz_grammar_new(model, RZ_GRAMMAR_TOOLS, 0, CHAT, strlen(CHAT), NULL, &grammar, &err));
  rz_grammar_free(grammar);
  params.struct_size = sizeof params;
  params.json = CHAT;
  params.json_len = strlen(CHAT);
  CALL(rz_conversation_new(model, &params, &chat, &err));
  reply.struct_size = sizeof reply;
  reply.max_tokens = 4;
  reply.grammar_kind = RZ_GRAMMAR_REGEX;
  reply.grammar = "[a-z ]*";
  reply.grammar_len = strlen(reply.grammar);
  CALL(rz_conversation_reply(chat, &reply, &err));
  while (rz_conversation_step(chat, RZ_NO_LIMIT, &err) == RZ_AGAIN) continue;
  rz_conversation_free(chat);
  CALL(rz_cache_new(model, NULL, &cache, &err));
  CALL(rz_generate_into(cache, 1, NULL, tokens, 8, &n, NULL, &err));
  rz_cache_free(cache);
}

int main(int argc, char **argv) {
  rz_error err;
  rz_runtime_params runtime_params = {0};
  rz_model_params params = {0};
  rz_runtime *runtime = NULL;
  rz_model *model = NULL;
  CHECK(argc == 2);
  runtime_params.struct_size = sizeof runtime_params;
  runtime_params.threads = 1;
  refuses = 1;
  CALL(rz_runtime_new(&runtime_params, &runtime, &err));
  params.struct_size = sizeof params;
  params.runtime = runtime;
  CHECK(rz_model_load(argv[1], &params, &model, &err) == RZ_ERR_RESOURCES);
  CHECK(model == NULL && err.system_code == EAGAIN && strstr(err.message, "chat templates") != NULL);
  refuses = 0;
  CALL(rz_model_load(argv[1], &params, &model, &err));
  CHECK(made == 1 && threads() == 2);
  refuses = 1;
  use(model);
  CHECK(made == 1 && threads() == 2);
  rz_model_free(model);
  /* The runtime keeps its thread for the next load. */
  CALL(rz_model_load(argv[1], &params, &model, &err));
  use(model);
  rz_model_free(model);
  rz_runtime_free(runtime);
  CHECK(made == 1 && threads() == 1);
  return 0;
}

#else

int main(void) { return 0; }

#endif
