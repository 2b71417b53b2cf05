/* Conversations: their messages, and replies, a step and the parts that it made at a time. */

#include "internal.h"
#include <string.h>

static const choice OVERFLOWS[] = {{"fail", RZ_OVERFLOW_FAIL}, {"forget", RZ_OVERFLOW_FORGET}, {NULL, 0}};
static const choice PARTS[] = {{"reasoning", RZ_CHAT_EVENT_REASONING},
                               {"content", RZ_CHAT_EVENT_CONTENT},
                               {"toolId", RZ_CHAT_EVENT_TOOL_ID},
                               {"toolName", RZ_CHAT_EVENT_TOOL_NAME},
                               {"toolArguments", RZ_CHAT_EVENT_TOOL_ARGUMENTS},
                               {"end", RZ_CHAT_EVENT_END},
                               {NULL, 0}};

/* Arguments of a conversation, or of the load of a conversation or a session from bytes. */
typedef struct opening {
    const rz_model *model;
    rz_conversation_params params;
    rz_cache_params cache;
    kind kind;
    const char *bytes;
    size_t len, at;
} opening;

static opening *opening_arguments(task *t, napi_value model, napi_value options) {
    opening *o = task_alloc(t, sizeof *o);
    if (!o) return NULL;
    o->model = task_use(t, model, MODEL);
    o->cache = cache_params(t, options);
    rz_conversation_params *params = &o->params;
    params->struct_size = sizeof *params;
    params->cache = &o->cache;
    params->overflow = choice_member(t, options, "overflow", OVERFLOWS);
    params->json = string_member(t, options, "json", &params->json_len);
    params->store = task_use_optional(t, member_of(t, options, "store"), STORE);
    params->adapters = adapter_params(t, options, &params->scales, &params->n_adapters);
    t->made_bytes = (int64_t)uint_member(t, options, "bytes", 1ull << 53);
    return o;
}

/* conversation(model, options): one with the messages of a JSON. */
static napi_value call_conversation(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    opening *o = opening_arguments(&t, arguments[0], arguments[1]);
    rz_conversation *made = NULL;
    if (t.status >= 0) t.status = t.lib->rz_conversation_new(o->model, &o->params, &made, &t.error);
    t.made = made;
    t.made_kind = CONVERSATION;
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

static int32_t on_read(void *out, size_t n, void *user) {
    opening *o = user;
    if (n > o->len - o->at) return RZ_ERR_FORMAT;
    memcpy(out, o->bytes + o->at, n);
    o->at += n;
    return 0;
}

static void run_restore(task *t) {
    opening *o = t->data;
    rz_conversation *conversation = NULL;
    rz_cache *cache = NULL;
    t->status = o->kind == CONVERSATION
                    ? t->lib->rz_conversation_load(o->model, &o->params, on_read, o, &conversation, &t->error)
                    : t->lib->rz_cache_load(o->model, &o->cache, on_read, o, NULL, &cache, &t->error);
    t->made = conversation ? (void *)conversation : (void *)cache;
    t->made_kind = o->kind;
}

static napi_value restore(napi_env env, napi_callback_info info, kind k) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    opening *o = t.data = opening_arguments(&t, arguments[0], arguments[2]);
    if (o) o->bytes = bytes_of(&t, arguments[1], "bytes", &o->len);
    if (o) o->kind = k;
    return task_start(&t, run_restore, task_made);
}

/* restoreConversation(model, bytes, options) and restoreSession: promises. */
static napi_value call_restore_conversation(napi_env env, napi_callback_info info) {
    return restore(env, info, CONVERSATION);
}

static napi_value call_restore_session(napi_env env, napi_callback_info info) { return restore(env, info, SESSION); }

/* add(conversation, json, media): a message, or a list of them, whose parts have numbers of media if some are given. */
static napi_value call_add(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    size_t len;
    char *json = string_of(&t, arguments[1], "messages", &len);
    uint32_t n = is_given(env, arguments[2]) ? count_of(&t, arguments[2], "media") : 0;
    rz_media **media = task_alloc(&t, n * sizeof *media);
    for (uint32_t i = 0; i < n && t.status >= 0; i++) media[i] = task_use(&t, element_of(&t, arguments[2], i), MEDIA);
    if (t.status >= 0)
        t.status = t.lib->rz_conversation_add(conversation, json, len, media, n, &t.error);
    return task_return(&t, NULL);
}

/* mediaOf(conversation, number): a medium that its messages name. */
static napi_value call_media_of(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    uint32_t number = (uint32_t)uint_of(&t, arguments[1], "number", UINT32_MAX);
    rz_media *media = NULL;
    if (t.status >= 0) t.status = t.lib->rz_conversation_media(conversation, number, &media, &t.error);
    t.made = media;
    t.made_kind = MEDIA;
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

/* addText(conversation, role, text). */
static napi_value call_add_text(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    size_t len;
    char *role = terminated_of(&t, arguments[1], "role"), *text = string_of(&t, arguments[2], "text", &len);
    if (t.status >= 0) t.status = t.lib->rz_conversation_add_text(conversation, role, text, len, &t.error);
    return task_return(&t, NULL);
}

static napi_value call_rewind(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    uint32_t n = (uint32_t)uint_of(&t, arguments[1], "count", UINT32_MAX);
    if (t.status >= 0) t.status = t.lib->rz_conversation_rewind(conversation, n, &t.error);
    return task_return(&t, NULL);
}

static napi_value call_release(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    if (t.status >= 0) t.status = t.lib->rz_conversation_release(conversation, &t.error);
    return task_return(&t, NULL);
}

/* setCapacity(conversation, tokens). */
static napi_value call_set_capacity(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    uint32_t capacity = (uint32_t)uint_of(&t, arguments[1], "tokens", UINT32_MAX);
    if (t.status >= 0) t.status = t.lib->rz_conversation_capacity_set(conversation, capacity, &t.error);
    return task_return(&t, NULL);
}

/* setOverflow(conversation, name). */
static napi_value call_set_overflow(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    uint32_t mode = choice_of(&t, arguments[1], "overflow", OVERFLOWS);
    if (t.status >= 0) t.status = t.lib->rz_conversation_overflow_set(conversation, mode, &t.error);
    return task_return(&t, NULL);
}

/* setAdapters(conversation, {adapters, scales}). */
static napi_value call_set_adapters(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    const float *scales;
    size_t n;
    rz_adapter *const *adapters = adapter_params(&t, arguments[1], &scales, &n);
    if (t.status >= 0) t.status = t.lib->rz_conversation_adapters_set(conversation, adapters, scales, n, &t.error);
    return task_return(&t, NULL);
}

/* setStore(conversation, store): none if it is not given. */
static napi_value call_set_store(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    const rz_store *store = task_use_optional(&t, arguments[1], STORE);
    if (t.status >= 0) t.status = t.lib->rz_conversation_store_set(conversation, store, &t.error);
    return task_return(&t, NULL);
}

/* messages(conversation, first): JSON. */
static napi_value call_messages(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    uint32_t first = (uint32_t)uint_of(&t, arguments[1], "first", UINT32_MAX);
    char *text;
    size_t capacity = 4096, len = 0;
    do {
        text = task_alloc(&t, capacity);
        if (t.status >= 0)
            t.status = t.lib->rz_conversation_json_into(conversation, first, text, capacity, &len, &t.error);
    } while (task_repeats(&t, &capacity, len));
    return task_return(&t, t.status < 0 ? NULL : string_value(env, text, len));
}

/* logprobs(conversation): {tokens, logprobs}, rows of what is new. */
static napi_value call_logprobs(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], object = NULL;
    task t = task_begin(env, info, arguments);
    rz_conversation *conversation = task_use(&t, arguments[0], CONVERSATION);
    uint32_t *tokens;
    float *logprobs;
    size_t capacity = 64, n = 0;
    do {
        tokens = task_alloc(&t, capacity * sizeof *tokens);
        logprobs = task_alloc(&t, capacity * sizeof *logprobs);
        if (t.status >= 0)
            t.status = t.lib->rz_conversation_logprobs_into(conversation, tokens, logprobs, capacity, &n, &t.error);
    } while (task_repeats(&t, &capacity, n));
    if (t.status >= 0 && napi_create_object(env, &object) == napi_ok) {
        set_member(env, object, "tokens", tokens_value(env, tokens, n));
        set_member(env, object, "logprobs", floats_value(env, logprobs, n));
    }
    return task_return(&t, object);
}

typedef struct reply {
    rz_conversation *conversation;
    rz_reply_params params;
} reply;

static void run_reply(task *t) {
    reply *r = t->data;
    t->status = t->lib->rz_conversation_reply(r->conversation, &r->params, &t->error);
}

static void run_read(task *t) {
    reply *r = t->data;
    t->status = t->lib->rz_conversation_read(r->conversation, &r->params, &t->error);
}

/* The arguments that replies and reading ahead have in common: conversation, options, cancel. */
static reply *reply_arguments(task *t, napi_value arguments[MAX_ARGUMENTS]) {
    reply *r = t->data = task_alloc(t, sizeof *r);
    if (!r) return NULL;
    napi_value options = arguments[1];
    rz_reply_params *params = &r->params;
    r->conversation = task_use(t, arguments[0], CONVERSATION);
    set_rz_reply_params(t, options, params);
    params->cancel = task_use(t, arguments[2], CANCEL);
    params->json = string_member(t, options, "json", &params->json_len);
    return r;
}

/* read(conversation, options, cancel): begins to read the messages, which steps do; a promise. */
static napi_value call_read(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    return reply_arguments(&t, arguments) ? task_start(&t, run_read, NULL) : task_return(&t, NULL);
}

/* reply(conversation, options, cancel): begins a reply; a promise, because a grammar takes a while. */
static napi_value call_reply(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    reply *r = reply_arguments(&t, arguments);
    if (!r) return task_return(&t, NULL);
    napi_value options = arguments[1];
    rz_reply_params *params = &r->params;
    params->sampler = sampler_params(&t, member_of(&t, options, "sampling"));
    params->grammar_kind = grammar_params(&t, member_of(&t, options, "grammar"), &params->grammar_flags,
                                          &params->grammar, &params->grammar_len);
    params->draft = choice_member(&t, options, "draft", DRAFTS);
    params->draft_model = task_use_optional(&t, member_of(&t, options, "draft_model"), MODEL);
    params->stops = stop_params(&t, options, &params->n_stops);
    return task_start(&t, run_reply, NULL);
}

/* A part of a reply. */
typedef struct part {
    struct part *next;
    uint32_t kind, flags, index;
    char *text;
    size_t len;
} part;

/* The parts of a reply that a step has made, and its failure. */
typedef struct made {
    part *first;
    bool more;
    rz_status status;
    rz_error error;
} made;

/* A step of the replies of conversations of one model, in common. */
typedef struct step {
    uint32_t n;
    rz_conversation **conversations;
    made *replies;
    uint64_t budget_us;
} step;

static void take_parts(task *t, rz_conversation *conversation, part **last) {
    size_t capacity = 256;
    part *p = NULL;
    for (;;) {
        if (!p) p = task_alloc(t, sizeof *p);
        if (p) p->text = task_alloc(t, capacity);
        if (!p || !p->text) return;
        rz_status status =
            t->lib->rz_conversation_next_into(conversation, &p->kind, &p->flags, &p->index, p->text, capacity, &p->len,
                                              &t->error);
        if (status == RZ_ERR_BUFFER_TOO_SMALL) {
            capacity = p->len;
        } else if (status == RZ_OK) {
            *last = p;
            last = &p->next;
            p = NULL;
        } else {
            if (status < 0) t->status = status;
            return;
        }
    }
}

/* Finds out whether a reply goes on after a step that several took part in, each of which may have failed alone. */
static void take_outcome(task *t, rz_conversation *conversation, const rz_conversation_info *info, made *reply) {
    reply->more = info->state == RZ_STATE_PROMPT || info->state == RZ_STATE_TOKENS;
    /* A step ends so where those that were left over are asked to stop: others have ended well. */
    if (reply->status == RZ_ERR_CANCELLED || reply->status == RZ_ERR_DEADLINE) reply->status = RZ_OK;
    if (reply->status >= 0 && (info->end_reason == RZ_END_FAILED || info->stopped))
        reply->status = t->lib->rz_conversation_step(conversation, 0, &reply->error);
}

static void run_step(task *t) {
    step *s = t->data;
    const library *lib = t->lib;
    rz_conversation_info info = {.struct_size = sizeof info};
    rz_error error;
    uint64_t budget_us = s->budget_us;
    for (uint32_t i = 0; i < s->n && t->status >= 0; i++) {
        t->status = lib->rz_conversation_info_get(s->conversations[i], &info, &t->error);
        /* A budget would be filled with tokens, which are to come one by one. */
        if (info.state == RZ_STATE_TOKENS) budget_us = RZ_NO_LIMIT;
    }
    if (t->status < 0) return;
    rz_status stepped = s->n == 1 ? lib->rz_conversation_step(s->conversations[0], budget_us, &error)
                                  : lib->rz_conversations_step(s->conversations, s->n, budget_us, &error);
    for (uint32_t i = 0; i < s->n && t->status >= 0; i++) {
        made *reply = &s->replies[i];
        reply->status = stepped;
        reply->error = error;
        take_parts(t, s->conversations[i], &reply->first);
        if (t->status >= 0) t->status = lib->rz_conversation_info_get(s->conversations[i], &info, &t->error);
        if (t->status >= 0) take_outcome(t, s->conversations[i], &info, reply);
    }
}

static napi_value parts_value(napi_env env, const part *first) {
    napi_value parts, value, unparsed;
    uint32_t n = 0;
    if (napi_create_array(env, &parts) != napi_ok) return NULL;
    for (const part *p = first; p; p = p->next) {
        if (napi_create_object(env, &value) != napi_ok) return NULL;
        set_member(env, value, "kind", string_value(env, choice_name(PARTS, p->kind), NAPI_AUTO_LENGTH));
        set_member(env, value, "text", string_value(env, p->text, p->len));
        set_member(env, value, "call", number_value(env, p->index));
        napi_get_boolean(env, p->flags & RZ_CHAT_EVENT_FLAG_UNPARSED, &unparsed);
        set_member(env, value, "unparsed", unparsed);
        napi_set_element(env, parts, n++, value);
    }
    return parts;
}

static napi_value finish_step(task *t) {
    step *s = t->data;
    napi_value list, object, more;
    if (napi_create_array_with_length(t->env, s->n, &list) != napi_ok) return NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        const made *reply = &s->replies[i];
        if (napi_create_object(t->env, &object) != napi_ok) return NULL;
        napi_get_boolean(t->env, reply->more, &more);
        set_member(t->env, object, "more", more);
        set_member(t->env, object, "parts", parts_value(t->env, reply->first));
        if (reply->status < 0) set_member(t->env, object, "error", error_value(t, reply->status, &reply->error));
        napi_set_element(t->env, list, i, object);
    }
    return list;
}

/* step(conversations, microseconds): a promise of a {more, parts, error} each, after so long a time of prompts, or when
 * one of them has made a token. */
static napi_value call_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    step *s = t.data = task_alloc(&t, sizeof *s);
    if (!s) return task_return(&t, NULL);
    s->n = count_of(&t, arguments[0], "conversations");
    s->budget_us = uint_of(&t, arguments[1], "the budget", 1ull << 53);
    s->conversations = task_alloc(&t, s->n * sizeof *s->conversations);
    s->replies = task_alloc(&t, s->n * sizeof *s->replies);
    for (uint32_t i = 0; i < s->n && t.status >= 0; i++)
        s->conversations[i] = task_use(&t, element_of(&t, arguments[0], i), CONVERSATION);
    return task_start(&t, run_step, finish_step);
}

void export_conversations(napi_env env, napi_value exports) {
    export_function(env, exports, "conversation", call_conversation);
    export_function(env, exports, "restoreConversation", call_restore_conversation);
    export_function(env, exports, "restoreSession", call_restore_session);
    export_function(env, exports, "add", call_add);
    export_function(env, exports, "addText", call_add_text);
    export_function(env, exports, "mediaOf", call_media_of);
    export_function(env, exports, "rewind", call_rewind);
    export_function(env, exports, "release", call_release);
    export_function(env, exports, "setCapacity", call_set_capacity);
    export_function(env, exports, "setOverflow", call_set_overflow);
    export_function(env, exports, "setAdapters", call_set_adapters);
    export_function(env, exports, "setStore", call_set_store);
    export_function(env, exports, "messages", call_messages);
    export_function(env, exports, "logprobs", call_logprobs);
    export_function(env, exports, "read", call_read);
    export_function(env, exports, "reply", call_reply);
    export_function(env, exports, "step", call_step);
}
