#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
  char *bytes;
  size_t len, capacity;
};

struct node {
  void (*emit)(void *object, int signal, const char *text, size_t len);
  void *object;
  rz_model *model;
  rz_cache *cache;
  rz_job *job;
  uint64_t budget; /* Microseconds of a frame. */
  uint32_t max_tokens;
  rz_sampler_params sampling;
  struct text conversation; /* JSON, but for the end of the list and the object. */
  struct text answer;
  rz_error error;
};

static const char no_memory[] = "there is no memory for the conversation";

/* Appends bytes and a NUL behind them. */
static int append(struct text *text, const char *bytes, size_t n) {
  if (text->capacity - text->len <= n) {
    size_t capacity = 2 * text->capacity + n + 64;
    char *grown = realloc(text->bytes, capacity);
    if (!grown) return 0;
    text->bytes = grown;
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->len, bytes, n);
  text->len += n;
  text->bytes[text->len] = 0;
  return 1;
}

/* Appends a message as JSON, or nothing. */
static int append_message(struct text *json, const char *role, const char *content) {
  const size_t before = json->len;
  int fine = append(json, before ? ", " : "{\"messages\": [", before ? 2 : 14) && append(json, "{\"role\": \"", 10) &&
             append(json, role, strlen(role)) && append(json, "\", \"content\": \"", 15);
  for (const char *c = content; fine && *c; c++) {
    char escaped[8];
    int n = 1;
    escaped[0] = *c;
    if ((unsigned char)*c < 0x20) n = snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*c);
    if (*c == '"' || *c == '\\') n = snprintf(escaped, sizeof escaped, "\\%c", *c);
    fine = append(json, escaped, (size_t)n);
  }
  fine = fine && append(json, "\"}", 2);
  if (!fine && json->bytes) json->bytes[json->len = before] = 0;
  return fine;
}

/* Ends the answer; what there is of it stays in the conversation. */
static void end(struct node *node, const char *why) {
  if (!node->job) return;
  rz_job_free(node->job);
  node->job = NULL;
  if (!append_message(&node->conversation, "assistant", node->answer.bytes ? node->answer.bytes : "")) why = no_memory;
  node->emit(node->object, 1, why, strlen(why));
}

static void load_model(struct node *node, const struct value *arguments, struct value *result) {
  rz_runtime_params threads = {0};
  rz_model_params params = {0};
  rz_runtime *runtime = NULL;
  rz_model *model = NULL;
  rz_cache *cache = NULL;
  result->text = "";
  threads.struct_size = sizeof threads;
  threads.threads = arguments[1].number > 0 ? (uint32_t)arguments[1].number : 0;
  params.struct_size = sizeof params;
  if (rz_abi_version() != RZ_ABI_VERSION) {
    snprintf(node->error.message, sizeof node->error.message, "librealizar %s has the interface %u, %u is needed", rz_version(),
             (unsigned)rz_abi_version(), (unsigned)RZ_ABI_VERSION);
    result->text = node->error.message;
    return;
  }
  if (rz_runtime_new(&threads, &runtime, &node->error) < 0) goto fail;
  params.runtime = runtime;
  if (rz_model_load(arguments[0].text, &params, &model, &node->error) < 0) goto fail;
  if (rz_cache_new(model, NULL, &cache, &node->error) < 0) goto fail;
  rz_runtime_free(runtime);
  end(node, "another model was loaded");
  rz_cache_free(node->cache);
  rz_model_free(node->model);
  node->model = model;
  node->cache = cache;
  if (node->conversation.bytes) node->conversation.bytes[node->conversation.len = 0] = 0;
  return;
fail:
  result->text = node->error.message;
  rz_model_free(model);
  rz_runtime_free(runtime);
}

/* Starts the answer to the conversation; 0 where there is an error. */
static int answer(struct node *node) {
  const char tail[] = "]}";
  struct text request = {NULL, 0, 0};
  uint32_t *tokens = NULL, common = 0;
  size_t n = 0;
  rz_sampler *sampler = NULL;
  rz_job_params params = {0};
  rz_error *e = &node->error;
  int fine = append(&request, node->conversation.bytes, node->conversation.len) && append(&request, tail, 2);
  if (!fine) {
    strcpy(e->message, no_memory);
    return 0;
  }
  rz_status status = rz_chat_tokenize_into(node->model, request.bytes, request.len, RZ_CHAT_ADD_GENERATION_PROMPT, NULL, 0, &n, e);
  fine = 0;
  if (status < 0 && status != RZ_ERR_BUFFER_TOO_SMALL) goto done;
  tokens = malloc((n + 1) * sizeof *tokens);
  if (!tokens) {
    strcpy(e->message, no_memory);
    goto done;
  }
  if (rz_chat_tokenize_into(node->model, request.bytes, request.len, RZ_CHAT_ADD_GENERATION_PROMPT, tokens, n, &n, e) < 0) goto done;
  if (rz_cache_match(node->cache, tokens, n, &common, e) < 0) goto done;
  if (common == n && n > 0) common--; /* The answer starts from the logits of the last token. */
  if (rz_cache_truncate(node->cache, common, e) < 0) goto done;
  node->sampling.struct_size = sizeof node->sampling;
  if (rz_sampler_new(&node->sampling, &sampler, e) < 0) goto done;
  params.struct_size = sizeof params;
  params.tokens = tokens + common;
  params.n_tokens = n - common;
  params.max_tokens = node->max_tokens;
  params.sampler = node->sampling.temperature > 0 ? sampler : NULL;
  fine = rz_job_new(node->cache, &params, &node->job, e) >= 0;
done:
  rz_sampler_free(sampler);
  free(tokens);
  free(request.bytes);
  return fine;
}

static void ask(struct node *node, const struct value *arguments, struct value *result) {
  result->text = "no model is loaded";
  if (!node->model) return;
  end(node, "another question was asked");
  const size_t before = node->conversation.len;
  result->text = no_memory;
  if (!append_message(&node->conversation, "user", arguments[0].text)) return;
  if (node->answer.bytes) node->answer.bytes[node->answer.len = 0] = 0;
  result->text = "";
  if (!answer(node)) {
    node->conversation.bytes[node->conversation.len = before] = 0;
    result->text = node->error.message;
  }
}

static void stop(struct node *node, const struct value *arguments, struct value *result) {
  (void)arguments, (void)result;
  end(node, "stopped");
}

static void is_answering(struct node *node, const struct value *arguments, struct value *result) {
  (void)arguments;
  result->number = node->job != NULL;
}

static void set_option(struct node *node, const struct value *arguments, struct value *result) {
  const char *name = arguments[0].text;
  const double number = arguments[1].number;
  result->text = "";
  if (!(number >= 0 && number <= 4294967295.0)) {
    result->text = "an option is a number from 0 to 2^32 - 1";
  } else if (!strcmp(name, "budget")) {
    node->budget = (uint64_t)number;
  } else if (!strcmp(name, "max_tokens")) {
    node->max_tokens = (uint32_t)number;
  } else if (!strcmp(name, "temperature")) {
    node->sampling.temperature = (float)number;
  } else if (!strcmp(name, "top_k")) {
    node->sampling.top_k = (uint32_t)number;
  } else if (!strcmp(name, "top_p")) {
    node->sampling.top_p = (float)number;
  } else if (!strcmp(name, "min_p")) {
    node->sampling.min_p = (float)number;
  } else if (!strcmp(name, "repeat_penalty")) {
    node->sampling.repeat_penalty = (float)number;
  } else if (!strcmp(name, "seed")) {
    node->sampling.seed = (uint64_t)number;
  } else {
    result->text = "an option is budget, max_tokens, temperature, top_k, top_p, min_p, repeat_penalty or seed";
  }
}

const struct method methods[] = {
    {"load_model", 2, {KIND_TEXT, KIND_INT}, {"path", "threads"}, KIND_TEXT, load_model},
    {"ask", 1, {KIND_TEXT, 0}, {"question", ""}, KIND_TEXT, ask},
    {"stop", 0, {0, 0}, {"", ""}, KIND_NONE, stop},
    {"is_answering", 0, {0, 0}, {"", ""}, KIND_BOOL, is_answering},
    {"set_option", 2, {KIND_TEXT, KIND_REAL}, {"name", "value"}, KIND_TEXT, set_option},
};
const int n_methods = sizeof methods / sizeof *methods;
const char *const signals[2] = {"text", "ended"};
const char *const signal_arguments[2] = {"piece", "error"};

struct node *node_new(void (*emit)(void *object, int signal, const char *text, size_t len), void *object) {
  struct node *node = calloc(1, sizeof *node);
  if (!node) return NULL;
  node->emit = emit;
  node->object = object;
  node->budget = 2000;
  return node;
}

void node_process(struct node *node) {
  char piece[512], *out = piece;
  size_t n = 0;
  rz_error error;
  rz_job *const job = node->job;
  if (!job) return;
  const rz_status status = rz_job_step(job, node->budget, &node->error);
  rz_status read = rz_job_text_into(job, piece, sizeof piece - 1, &n, &error);
  if (read == RZ_ERR_BUFFER_TOO_SMALL && (out = malloc(n + 1))) read = rz_job_text_into(job, out, n, &n, &error);
  if (read >= 0 && n > 0) {
    out[n] = 0;
    if (!append(&node->answer, out, n)) read = RZ_ERR_OUT_OF_MEMORY;
    node->emit(node->object, 0, out, n);
  }
  if (out != piece) free(out);
  if (node->job != job) return; /* A receiver has stopped it, or asked again. */
  if (status < 0) {
    end(node, node->error.message);
  } else if (read < 0) {
    end(node, read == RZ_ERR_OUT_OF_MEMORY || !out ? no_memory : error.message);
  } else if (status == RZ_DONE) {
    end(node, "");
  }
}

void node_free(struct node *node) {
  if (!node) return;
  rz_job_free(node->job);
  rz_cache_free(node->cache);
  rz_model_free(node->model);
  free(node->conversation.bytes);
  free(node->answer.bytes);
  free(node);
}
