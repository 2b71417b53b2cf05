#include "chat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes for the first part of a reply. */
#define FIRST_PART 256

struct node {
  void (*emit)(void *object, int signal, const char *text, size_t len);
  void *object;
  int users;    /* Calls that use the node; it is freed after the last one. */
  int is_freed; /* The engine has freed its object. */
  rz_model *model;
  rz_conversation *conversation;
  rz_encoder *encoder; /* The vision encoder; NULL: none is loaded. */
  rz_media *media;     /* The image of a question while it is encoded, before the answer. */
  char *message;       /* That question. */
  rz_grammar *schema; /* `reply` points to it. */
  int is_answering;
  uint32_t turn;   /* Number of the answer; a frame detects by it that the receiver of a signal has ended it. */
  uint32_t before; /* Messages before the question. */
  uint32_t budget; /* Microseconds per frame. */
  uint32_t seed;
  uint32_t device; /* As in rz_model_params. */
  rz_reply_params reply;
  rz_sampler_params sampling; /* Its temperature is negative until one is set. */
  char *part;
  size_t capacity;
  rz_error error;
};

static void forget_picture(struct node *node) {
  rz_media_free(node->media);
  free(node->message);
  node->media = NULL;
  node->message = NULL;
}

/* Ends the answer. What there is of it becomes a message with the next question. Where there is nothing the question
 * goes too, because templates want questions and answers in turn. */
static void end(struct node *node, const char *why) {
  rz_conversation_info info = {.struct_size = sizeof info};
  if (!node->is_answering) return;
  node->is_answering = 0;
  node->turn++;
  const int is_known = rz_conversation_info_get(node->conversation, &info, NULL) >= 0;
  /* A question with an image becomes a message after the image is encoded. */
  if (is_known && !node->media && (info.n_tokens == 0 || info.end_reason == RZ_END_FAILED))
    rz_conversation_rewind(node->conversation, node->before, NULL);
  forget_picture(node);
  node->emit(node->object, SIGNAL_ENDED, why, strlen(why));
}

/* Writes the condition of a value as the result. */
static void refuse(struct node *node, struct value *result, const char *name, double number, const char *condition) {
  snprintf(node->error.message, sizeof node->error.message, "%s is %.15g; it must be %s", name, number, condition);
  result->text = node->error.message;
}

static int is_whole(double number) { return number >= 0 && number <= 4294967295.0 && number == floor(number); }

static rz_status load(struct node *node, const char *path, uint32_t threads, rz_model **model, rz_conversation **out) {
  rz_runtime_params runtime_params = {.struct_size = sizeof runtime_params, .threads = threads};
  rz_model_params model_params = {.struct_size = sizeof model_params, .device = node->device};
  rz_conversation_params params = {.struct_size = sizeof params, .overflow = RZ_OVERFLOW_FORGET};
  rz_runtime *runtime = NULL;
  rz_error *const error = &node->error;
  rz_status status = rz_runtime_new(&runtime_params, &runtime, error);
  model_params.runtime = runtime;
  if (status >= 0) status = rz_model_load(path, &model_params, model, error);
  if (status >= 0) status = rz_conversation_new(*model, &params, out, error);
  if (status < 0) rz_model_free(*model);
  rz_runtime_free(runtime); /* The model keeps it alive. */
  return status;
}

static void load_model(struct node *node, const struct value *arguments, struct value *result) {
  rz_model *model = NULL;
  rz_conversation *conversation = NULL;
  if (!is_whole(arguments[1].number)) {
    refuse(node, result, "threads", arguments[1].number, "a whole number from 0 to 4294967295");
    return;
  }
  const uint32_t threads = (uint32_t)arguments[1].number;
  result->text = node->error.message;
  if (rz_abi_version() != RZ_ABI_VERSION) {
    snprintf(node->error.message, sizeof node->error.message, "librealizar %s has the interface %u, %u is needed",
             rz_version(), (unsigned)rz_abi_version(), (unsigned)RZ_ABI_VERSION);
    return;
  }
  if (load(node, arguments[0].text, threads, &model, &conversation) < 0) return;
  result->text = "";
  rz_grammar_free(node->schema); /* It would keep the other model alive. */
  rz_encoder_free(node->encoder);
  rz_conversation_free(node->conversation);
  rz_model_free(node->model);
  node->schema = NULL;
  node->reply.compiled_grammar = NULL;
  node->encoder = NULL;
  node->conversation = conversation;
  node->model = model;
  end(node, "another model was loaded");
}

/* Returns the name of a device, followed by the reason if it cannot be used; empty beyond the last device. */
static void device_name(struct node *node, const struct value *arguments, struct value *result) {
  const double index = arguments[0].number;
  rz_device_info info = {.struct_size = sizeof info};
  result->text = "";
  if (rz_abi_version() != RZ_ABI_VERSION || !is_whole(index) || index == 0) return;
  if (rz_device_info_get((uint32_t)index, &info, &node->error) < 0) return;
  snprintf(node->error.message, sizeof node->error.message, "%s%s%s", info.name, info.available ? "" : ": ", info.unavailable);
  result->text = node->error.message;
}

/* Ends the answer for a call that changes the conversation; returns 0 if the call must not continue. */
static int interrupt(struct node *node, const char *why, struct value *result) {
  result->text = "no model is loaded";
  if (!node->conversation) return 0;
  end(node, why);
  result->text = node->is_freed ? "the node was freed" : node->is_answering ? why : node->error.message;
  return !node->is_answering && !node->is_freed; /* A receiver may have asked again, or freed the node. */
}

static void begin(struct node *node, const struct value *arguments, struct value *result) {
  const char *const system = arguments[0].text;
  if (!interrupt(node, "a new conversation was begun", result)) return;
  rz_status status = rz_conversation_rewind(node->conversation, 0, &node->error);
  if (status >= 0 && *system)
    status = rz_conversation_add_text(node->conversation, "system", system, strlen(system), &node->error);
  if (status >= 0) result->text = "";
}

/* Begins the answer to the last message; returns 0 and the error if that fails. */
static int answer(struct node *node) {
  rz_conversation_info info = {.struct_size = sizeof info};
  if (rz_conversation_info_get(node->conversation, &info, &node->error) < 0) return 0;
  node->before = info.n_messages - 1;
  node->reply.sampler = node->sampling.temperature < 0 ? NULL : &node->sampling;
  node->sampling.seed = node->seed++;
  if (rz_conversation_reply(node->conversation, &node->reply, &node->error) < 0) {
    rz_conversation_rewind(node->conversation, node->before, NULL);
    return 0;
  }
  return 1;
}

static void ask(struct node *node, const struct value *arguments, struct value *result) {
  const char *const question = arguments[0].text;
  if (!interrupt(node, "another question was asked", result)) return;
  if (rz_conversation_add_text(node->conversation, "user", question, strlen(question), &node->error) < 0) return;
  if (!answer(node)) return;
  node->is_answering = 1;
  result->text = "";
}

static void load_encoder(struct node *node, const struct value *arguments, struct value *result) {
  const rz_encoder_params params = {.struct_size = sizeof params, .flags = RZ_ENCODER_IMAGE};
  rz_encoder *encoder = NULL;
  result->text = node->model ? node->error.message : "no model is loaded";
  if (!node->model || rz_encoder_load(node->model, arguments[0].text, &params, &encoder, &node->error) < 0) return;
  rz_encoder_free(node->encoder);
  node->encoder = encoder;
  result->text = "";
}

/* Decodes base64, with or without padding; returns the number of bytes, or SIZE_MAX if it is invalid. */
static size_t from_base64(const char *text, unsigned char *out) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = 0, n_bits = 0;
  size_t n = 0;
  for (const char *at; *text && (at = strchr(alphabet, *text)); text++) {
    bits = bits << 6 | (uint32_t)(at - alphabet);
    n_bits += 6;
    if (n_bits >= 8) out[n++] = (unsigned char)(bits >> (n_bits -= 8));
  }
  while (*text == '=') text++;
  return *text ? SIZE_MAX : n;
}

/* Returns a question about an image as a message in JSON; the caller must free() it. */
static char *message_of(const char *question) {
  static const char head[] = "{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}, {\"type\": \"text\", \"text\": \"";
  static const char tail[] = "\"}]}";
  char *const message = malloc(sizeof head + sizeof tail + 6 * strlen(question)), *out = message;
  if (!message) return NULL;
  memcpy(out, head, sizeof head - 1);
  for (out += sizeof head - 1; *question; question++) {
    const unsigned char c = (unsigned char)*question;
    if (c < 0x20) out += sprintf(out, "\\u%04x", c);
    else if (c == '"' || c == '\\') *out++ = '\\', *out++ = (char)c;
    else *out++ = (char)c;
  }
  memcpy(out, tail, sizeof tail);
  return message;
}

/* The picture is a file in base 64, in which both engines write an image of theirs. It is encoded in the frames that
   follow. */
static void ask_about(struct node *node, const struct value *arguments, struct value *result) {
  const rz_media_params params = {.struct_size = sizeof params, .flags = RZ_ENCODE_STEPS};
  if (!interrupt(node, "another question was asked", result)) return;
  result->text = "no encoder of pictures is loaded";
  if (!node->encoder) return;
  unsigned char *const file = malloc(strlen(arguments[1].text) / 4 * 3 + 3);
  node->message = message_of(arguments[0].text);
  result->text = "there is no memory for the picture";
  if (file && node->message) {
    const size_t n = from_base64(arguments[1].text, file);
    const rz_status status = n == SIZE_MAX ? RZ_ERR_INVALID_ARGUMENT : rz_media_from_image(node->encoder, file, n, &params, &node->media, &node->error);
    result->text = n == SIZE_MAX ? "picture has a character that is not of base64" : status < 0 ? node->error.message : "";
    node->is_answering = status >= 0;
  }
  free(file);
  if (!node->is_answering) forget_picture(node);
}

/* Asks the question whose image is encoded; returns 0 and the error if that fails. */
static int show(struct node *node) {
  rz_media *media = node->media;
  const size_t len = strlen(node->message);
  const rz_status status = rz_conversation_add(node->conversation, node->message, len, &media, 1, &node->error);
  const int is_asked = status >= 0 && answer(node);
  if (is_asked) forget_picture(node);
  return is_asked;
}

static void stop(struct node *node, const struct value *arguments, struct value *result) {
  (void)arguments, (void)result;
  end(node, "stopped");
}

static void is_answering(struct node *node, const struct value *arguments, struct value *result) {
  (void)arguments;
  result->number = node->is_answering;
}

static void set_schema(struct node *node, const struct value *arguments, struct value *result) {
  const char *const text = arguments[0].text;
  const size_t len = strlen(text);
  rz_grammar *grammar = NULL;
  result->text = node->model ? node->error.message : "no model is loaded";
  if (!node->model) return;
  if (len > 0 && rz_grammar_new(node->model, RZ_GRAMMAR_JSON_SCHEMA, 0, text, len, NULL, &grammar, &node->error) < 0) return;
  rz_grammar_free(node->schema);
  node->schema = grammar;
  node->reply.compiled_grammar = grammar;
  result->text = "";
}

static void set_option(struct node *node, const struct value *arguments, struct value *result) {
  const double number = arguments[1].number;
  const struct { const char *name; uint32_t *whole; float *real; } options[] = {
      {"budget", &node->budget, NULL},
      {"device", &node->device, NULL},
      {"max_tokens", &node->reply.max_tokens, NULL},
      {"reasoning_tokens", &node->reply.reasoning_tokens, NULL},
      {"temperature", NULL, &node->sampling.temperature},
      {"top_k", &node->sampling.top_k, NULL},
      {"top_p", NULL, &node->sampling.top_p},
      {"min_p", NULL, &node->sampling.min_p},
      {"repeat_penalty", NULL, &node->sampling.repeat_penalty},
      {"seed", &node->seed, NULL},
  };
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    const char *const name = options[i].name;
    if (strcmp(arguments[0].text, name)) continue;
    const int is_budget = options[i].whole == &node->budget;
    if (options[i].whole && (!is_whole(number) || (is_budget && number == 0))) {
      refuse(node, result, name, number, is_budget ? "a whole number from 1 to 4294967295" : "a whole number from 0 to 4294967295");
      return;
    }
    if (options[i].real && !(number >= 0 && number <= 3e38)) {
      refuse(node, result, name, number, "finite and not negative");
      return;
    }
    if (options[i].whole) *options[i].whole = (uint32_t)number;
    if (options[i].real) *options[i].real = (float)number;
    if (options[i].whole == &node->reply.reasoning_tokens)
      node->reply.reasoning = node->reply.reasoning_tokens == 0 ? RZ_REASONING_OFF : RZ_REASONING_MODEL;
    result->text = "";
    return;
  }
  snprintf(node->error.message, sizeof node->error.message,
           "option is \"%.60s\"; it must be budget, device, max_tokens, reasoning_tokens, temperature, top_k, "
           "top_p, min_p, repeat_penalty or seed",
           arguments[0].text);
  result->text = node->error.message;
}

const struct method methods[] = {
    {"load_model", 2, {KIND_TEXT, KIND_INT}, {"path", "threads"}, KIND_TEXT, load_model},
    {"device_name", 1, {KIND_INT, 0}, {"index", ""}, KIND_TEXT, device_name},
    {"begin", 1, {KIND_TEXT, 0}, {"system_message", ""}, KIND_TEXT, begin},
    {"ask", 1, {KIND_TEXT, 0}, {"question", ""}, KIND_TEXT, ask},
    {"load_encoder", 1, {KIND_TEXT, 0}, {"path", ""}, KIND_TEXT, load_encoder},
    {"ask_about", 2, {KIND_TEXT, KIND_TEXT}, {"question", "picture"}, KIND_TEXT, ask_about},
    {"stop", 0, {0, 0}, {"", ""}, KIND_NONE, stop},
    {"is_answering", 0, {0, 0}, {"", ""}, KIND_BOOL, is_answering},
    {"set_schema", 1, {KIND_TEXT, 0}, {"schema", ""}, KIND_TEXT, set_schema},
    {"set_option", 2, {KIND_TEXT, KIND_REAL}, {"name", "value"}, KIND_TEXT, set_option},
};
const int n_methods = sizeof methods / sizeof *methods;
const char *const signals[N_SIGNALS] = {"text", "ended", "reasoning"};
const char *const signal_arguments[N_SIGNALS] = {"piece", "error", "piece"};

struct node *node_new(void (*emit)(void *object, int signal, const char *text, size_t len), void *object) {
  struct node *node = calloc(1, sizeof *node);
  if (!node) return NULL;
  node->emit = emit;
  node->object = object;
  node->budget = 2000;
  node->reply.struct_size = sizeof node->reply;
  node->reply.flags = RZ_REPLY_KEEP;
  node->sampling.struct_size = sizeof node->sampling;
  node->sampling.temperature = -1;
  return node;
}

static void work(struct node *node) {
  const uint32_t turn = node->turn;
  uint32_t kind, flags, call;
  size_t n;
  rz_conversation *const conversation = node->conversation;
  rz_error error;
  rz_status next;
  if (!node->is_answering) return;
  if (node->media) {
    const rz_status made = rz_media_step(node->media, node->budget, &node->error);
    if (made < 0 || (made == RZ_DONE && !show(node))) end(node, node->error.message);
    return;
  }
  const rz_status status = rz_conversation_step(conversation, node->budget, &node->error);
  if (!node->part) { /* Without memory, the call would return only the size of a part. */
    if (!(node->part = malloc(FIRST_PART))) {
      end(node, "there is no memory for the answer");
      return;
    }
    node->capacity = FIRST_PART;
  }
  while ((next = rz_conversation_next_into(conversation, &kind, &flags, &call, node->part, node->capacity, &n, &error)) <=
         RZ_OK) {
    char *const grown = next == RZ_ERR_BUFFER_TOO_SMALL ? realloc(node->part, n) : NULL;
    if (grown) node->part = grown, node->capacity = n;
    if (next < 0 && !grown) break;
    if (next < 0) continue;
    if (kind == RZ_CHAT_EVENT_CONTENT) node->emit(node->object, SIGNAL_TEXT, node->part, n);
    if (kind == RZ_CHAT_EVENT_REASONING) node->emit(node->object, SIGNAL_REASONING, node->part, n);
    if (node->turn != turn || node->is_freed) return; /* A receiver has stopped it, asked again, or freed the node. */
  }
  if (status < 0) {
    end(node, node->error.message);
  } else if (next < 0) {
    end(node, next == RZ_ERR_BUFFER_TOO_SMALL ? "there is no memory for the answer" : error.message);
  } else if (status == RZ_DONE) {
    end(node, "");
  }
}

void node_enter(struct node *node) { node->users++; }

void node_leave(struct node *node) {
  if (--node->users == 0 && node->is_freed) node_free(node);
}

void node_process(struct node *node) {
  node_enter(node);
  work(node);
  node_leave(node);
}

void node_free(struct node *node) {
  if (!node) return;
  node->is_freed = 1;
  if (node->users > 0) return;
  forget_picture(node);
  rz_encoder_free(node->encoder);
  rz_conversation_free(node->conversation);
  rz_model_free(node->model);
  rz_grammar_free(node->schema);
  free(node->part);
  free(node);
}
