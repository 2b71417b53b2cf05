/* The C code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
 * guides MODEL ADAPTER FOLDER */
#include <realizar.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --8<-- [start:failed] */
/* Prints why a call failed, and returns its status. */
static rz_status failed(const rz_error *err) {
    fprintf(stderr, "%s: %s\n", rz_status_name(err->code), err->message);
    return err->code;
}
/* --8<-- [end:failed] */

/* --8<-- [start:chat] */
static int32_t print(const char *text, size_t len, void *user) {
    fwrite(text, 1, len, user);
    return 0; /* another value ends the reply */
}

static rz_status chat(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    if (rz_conversation_new(model, NULL, &chat, &err) < 0 ||
        rz_conversation_add_text(chat, "system", "", 0, &err) < 0 ||
        rz_conversation_say(chat, "Once upon a time", NULL, print, stdout, &err) < 0)
        failed(&err);
    rz_conversation_free(chat);
    return err.code;
}
/* --8<-- [end:chat] */

/* --8<-- [start:options] */
static rz_status options(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    const rz_conversation_params forgetful = {.struct_size = sizeof forgetful, .overflow = RZ_OVERFLOW_FORGET};
    const rz_sampler_params sampler = {.struct_size = sizeof sampler, .temperature = 0.7f, .top_p = 0.9f, .seed = 42};
    const char *stops[] = {"\n\n"};
    const rz_reply_params params = {
        .struct_size = sizeof params, .max_tokens = 60, .sampler = &sampler, .stops = stops, .n_stops = 1};
    if (rz_conversation_new(model, &forgetful, &chat, &err) < 0 ||
        rz_conversation_say(chat, "Once upon a time", &params, print, stdout, &err) < 0)
        failed(&err);
    rz_conversation_free(chat);
    return err.code;
}
/* --8<-- [end:options] */

/* --8<-- [start:streaming] */
static rz_status streaming(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    const rz_reply_params params = {.struct_size = sizeof params, .max_tokens = 60};
    rz_status status;
    uint32_t kind, flags, call;
    char text[4096]; /* one or a few tokens; if too small: RZ_ERR_BUFFER_TOO_SMALL */
    size_t len;
    if (rz_conversation_new(model, NULL, &chat, &err) < 0 ||
        rz_conversation_add_text(chat, "user", "Once upon a time", 16, &err) < 0 ||
        rz_conversation_reply(chat, &params, &err) < 0)
        goto end;
    do {
        status = rz_conversation_step(chat, RZ_NO_LIMIT, &err);
        while (status >= 0 && rz_conversation_next_into(chat, &kind, &flags, &call, text, sizeof text, &len, &err) == RZ_OK)
            if (kind == RZ_CHAT_EVENT_CONTENT)
                printf("%.*s", (int)len, text);
            else if (kind == RZ_CHAT_EVENT_REASONING)
                fprintf(stderr, "%.*s", (int)len, text);
    } while (status == RZ_AGAIN && err.code >= 0);
end:
    if (err.code < 0)
        failed(&err);
    rz_conversation_free(chat);
    return err.code;
}
/* --8<-- [end:streaming] */

/* --8<-- [start:stopping] */
static rz_status stopping(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    rz_cancel *cancel = NULL;
    rz_status status = RZ_OK;
    if (rz_cancel_new(&cancel, &err) < 0)
        return failed(&err);
    /* RZ_REPLY_KEEP: a discarded reply keeps its text. */
    const rz_reply_params params = {.struct_size = sizeof params, .flags = RZ_REPLY_KEEP, .cancel = cancel};
    if (rz_conversation_new(model, NULL, &chat, &err) < 0 ||
        rz_conversation_add_text(chat, "user", "Once upon a time", 16, &err) < 0 ||
        rz_conversation_reply(chat, &params, &err) < 0 ||
        rz_cancel_deadline(cancel, 20 * 1000, &err) < 0) /* or rz_cancel_fire from any thread */
        status = failed(&err);
    while (status >= 0 && (status = rz_conversation_step(chat, RZ_NO_LIMIT, &err)) == RZ_AGAIN)
        ;
    if (status == RZ_ERR_DEADLINE || status == RZ_ERR_CANCELLED) {
        /* The reply is paused: reset the cancel, then step to resume. */
        rz_cancel_reset(cancel);
        while ((status = rz_conversation_step(chat, RZ_NO_LIMIT, &err)) == RZ_AGAIN)
            ;
    }
    rz_conversation_free(chat);
    rz_cancel_free(cancel);
    return status;
}
/* --8<-- [end:stopping] */

/* --8<-- [start:speculative] */
static rz_status speculative(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    rz_conversation_info info = {.struct_size = sizeof info};
    /* Or RZ_DRAFT_MODEL with a `draft_model`; or RZ_DRAFT_MTP with a model that was loaded with RZ_MODEL_MTP. */
    const rz_reply_params params = {.struct_size = sizeof params, .max_tokens = 60, .draft = RZ_DRAFT_LOOKUP};
    if (rz_conversation_new(model, NULL, &chat, &err) < 0 ||
        rz_conversation_say(chat, "Once upon a time", &params, print, stdout, &err) < 0 ||
        rz_conversation_info_get(chat, &info, &err) < 0)
        failed(&err);
    printf("\n%u of %u draft tokens accepted\n", info.accepted, info.drafted);
    rz_conversation_free(chat);
    return err.code;
}
/* --8<-- [end:speculative] */

/* --8<-- [start:structured] */
static rz_status structured(const rz_model *model) {
    static const char schema[] =
        "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 20},"
        " \"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 150}},"
        " \"required\": [\"name\", \"age\"], \"additionalProperties\": false}";
    rz_error err;
    rz_conversation *chat = NULL;
    const rz_reply_params params = {.struct_size = sizeof params, .grammar_kind = RZ_GRAMMAR_JSON_SCHEMA,
                                    .grammar = schema, .grammar_len = sizeof schema - 1};
    if (rz_conversation_new(model, NULL, &chat, &err) < 0 ||
        rz_conversation_say(chat, "Lily is five.", &params, print, stdout, &err) < 0)
        failed(&err);
    rz_conversation_free(chat);
    return err.code;
}
/* --8<-- [end:structured] */

/* --8<-- [start:tools] */
static const char weather[] =
    "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\","
    " \"description\": \"The weather of a city\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"city\": {\"enum\": [\"Paris\", \"Tokyo\"]}}, \"required\": [\"city\"],"
    " \"additionalProperties\": false}}}], \"parallel_tool_calls\": false,"
    " \"tool_choice\": \"required\"}"; /* "auto": the model decides */

static rz_status tools(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    const rz_conversation_params begun = {.struct_size = sizeof begun, .json = weather, .json_len = sizeof weather - 1};
    const rz_reply_params params = {.struct_size = sizeof params, .max_tokens = 100};
    uint32_t kind, flags, call;
    char text[1024], messages[4096], result[256];
    size_t len;
    if (rz_conversation_new(model, &begun, &chat, &err) < 0 ||
        rz_conversation_add_text(chat, "user", "Is it warm in Paris?", 20, &err) < 0 ||
        rz_conversation_reply(chat, &params, &err) < 0)
        failed(&err);
    while (err.code >= 0 && rz_conversation_step(chat, RZ_NO_LIMIT, &err) == RZ_AGAIN)
        ;
    while (err.code >= 0 && rz_conversation_next_into(chat, &kind, &flags, &call, text, sizeof text, &len, &err) == RZ_OK)
        if (kind == RZ_CHAT_EVENT_TOOL_NAME || kind == RZ_CHAT_EVENT_TOOL_ARGUMENTS)
            printf("%.*s", (int)len, text); /* weather{"city":"Paris"} */
    /* The tool call is a message with an id, to which the result refers. */
    if (err.code >= 0 && rz_conversation_json_into(chat, 1, messages, sizeof messages - 1, &len, &err) >= 0) {
        messages[len] = '\0';
        const char *id = strstr(messages, "\"id\":\"");
        int n = snprintf(result, sizeof result, "{\"role\": \"tool\", \"tool_call_id\": \"%.*s\", \"content\": \"21 C\"}",
                         id ? (int)strcspn(id + 6, "\"") : 0, id ? id + 6 : "");
        rz_conversation_add(chat, result, (size_t)n, NULL, 0, &err); /* read by the next rz_conversation_reply */
    }
    rz_conversation_free(chat);
    return err.code;
}
/* --8<-- [end:tools] */

/* --8<-- [start:embeddings] */
static rz_status embeddings(const rz_model *model) {
    static const char *const texts[] = {"a small girl", "a little girl"};
    rz_error err;
    uint32_t tokens[2][64];
    const uint32_t *const lists[] = {tokens[0], tokens[1]};
    size_t lengths[2], n;
    float vectors[8192]; /* [2][dims] */
    const rz_embed_params params = {.struct_size = sizeof params, .pooling = RZ_POOLING_MEAN}; /* 0: the model's own */
    for (int i = 0; i < 2; i++)
        if (rz_tokenize_into(model, texts[i], strlen(texts[i]), RZ_TOKENIZE_ADD_SPECIAL, tokens[i], 64, &lengths[i], NULL, &err) < 0)
            return failed(&err);
    if (rz_embed_into(model, &params, lists, lengths, 2, vectors, 8192, &n, NULL, &err) < 0)
        return failed(&err);
    double similarity = 0; /* vectors are normalized, so the dot product is the cosine */
    for (size_t i = 0; i < n / 2; i++)
        similarity += (double)vectors[i] * vectors[n / 2 + i];
    printf("%.2f\n", similarity);
    return RZ_OK;
}
/* --8<-- [end:embeddings] */

/* --8<-- [start:sources] */
/* Flan-T5 and other encoder-decoder models. */
static rz_status sources(const rz_model *model, const char *text) {
    rz_error err;
    uint32_t tokens[512];
    size_t n;
    rz_media *source = NULL;
    rz_prompt *prompt = NULL;
    rz_cache *cache = NULL;
    rz_job *job = NULL;
    rz_job_params params = {.struct_size = sizeof params, .max_tokens = 200};
    rz_status status = rz_tokenize_into(model, text, strlen(text), RZ_TOKENIZE_ADD_SPECIAL, tokens, 512, &n, NULL, &err);
    if (status >= 0)
        status = rz_media_from_tokens(model, tokens, n, NULL, &source, &err); /* runs the encoder */
    const rz_part part = {.media = source};
    if (status >= 0)
        status = rz_prompt_new(model, &part, 1, 0, &prompt, &err);
    params.prompt = prompt; /* the source, and the decoder's start token */
    if (status >= 0)
        status = rz_cache_new(model, NULL, &cache, &err);
    if (status >= 0)
        status = rz_job_new(cache, &params, &job, &err);
    while (status >= 0) {
        char piece[4096];
        size_t len;
        status = rz_job_step(job, RZ_NO_LIMIT, &err);
        if (status < 0 || rz_job_text_into(job, piece, sizeof piece, &len, &err) < 0)
            break;
        fwrite(piece, 1, len, stdout);
        if (status == RZ_DONE)
            break;
    }
    rz_job_free(job);
    rz_cache_free(cache);
    rz_prompt_free(prompt);
    rz_media_free(source);
    return status < 0 ? failed(&err) : RZ_OK;
}
/* --8<-- [end:sources] */

/* --8<-- [start:pictures] */
/* `file`: the bytes of a PNG, JPEG, WebP, GIF or BMP file. */
static rz_status pictures(const rz_model *model, const char *projector, const void *file, size_t size) {
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}, "
                               "{\"type\": \"text\", \"text\": \"What is this?\"}]}]}";
    rz_error err;
    rz_encoder *encoder = NULL;
    rz_media *media[1] = {NULL};
    rz_prompt *prompt = NULL;
    rz_cache *cache = NULL;
    rz_job *job = NULL;
    rz_job_params params = {.struct_size = sizeof params, .max_tokens = 200};
    rz_status status = rz_encoder_load(model, projector, NULL, &encoder, &err);
    if (status >= 0)
        status = rz_media_from_image(encoder, file, size, NULL, &media[0], &err);
    if (status >= 0)
        status = rz_prompt_from_chat(model, json, strlen(json), RZ_CHAT_ADD_GENERATION_PROMPT, media, 1, NULL,
                                     &prompt, &err);
    params.prompt = prompt;
    if (status >= 0)
        status = rz_cache_new(model, NULL, &cache, &err);
    if (status >= 0)
        status = rz_job_new(cache, &params, &job, &err);
    while (status >= 0) {
        char text[4096];
        size_t len;
        status = rz_job_step(job, RZ_NO_LIMIT, &err);
        if (status < 0 || rz_job_text_into(job, text, sizeof text, &len, &err) < 0)
            break;
        fwrite(text, 1, len, stdout);
        if (status == RZ_DONE)
            break;
    }
    rz_job_free(job);
    rz_cache_free(cache);
    rz_prompt_free(prompt);
    rz_media_free(media[0]);
    rz_encoder_free(encoder);
    return status < 0 ? failed(&err) : RZ_OK;
}
/* --8<-- [end:pictures] */

/* --8<-- [start:towers] */
/* CLIP and SigLIP. `folder` has both towers; `file`: the bytes of a PNG, JPEG, WebP, GIF or BMP file. */
static rz_status towers(const char *folder, const void *file, size_t size, const char *text) {
    rz_error err;
    rz_model *model = NULL;     /* the text tower */
    rz_encoder *encoder = NULL; /* the image tower */
    rz_media *media = NULL;
    uint32_t tokens[77];
    const uint32_t *const list = tokens;
    float picture[2048], vector[2048];
    size_t length, n_picture, n_vector = 0;
    double similarity = 0; /* both vectors are normalized, so the dot product is the cosine */
    rz_status status = rz_model_load(folder, NULL, &model, &err);
    if (status >= 0)
        status = rz_encoder_load(model, folder, NULL, &encoder, &err);
    if (status >= 0)
        status = rz_media_from_image(encoder, file, size, NULL, &media, &err);
    if (status >= 0)
        status = rz_media_rows_into(media, picture, 2048, &n_picture, &err);
    if (status >= 0)
        status = rz_tokenize_into(model, text, strlen(text), RZ_TOKENIZE_ADD_SPECIAL, tokens, 77, &length, NULL, &err);
    if (status >= 0)
        status = rz_embed_into(model, NULL, &list, &length, 1, vector, 2048, &n_vector, NULL, &err);
    for (size_t i = 0; i < n_vector; i++) /* n_vector equals n_picture */
        similarity += (double)picture[i] * vector[i];
    if (status >= 0)
        printf("%.2f\n", similarity);
    rz_media_free(media);
    rz_encoder_free(encoder);
    rz_model_free(model);
    return status < 0 ? failed(&err) : RZ_OK;
}
/* --8<-- [end:towers] */

/* --8<-- [start:rerank] */
static rz_status rerank(const rz_model *reranker, const uint32_t *pair, size_t n, float *score) {
    rz_error err;
    size_t written;
    const rz_embed_params params = {.struct_size = sizeof params, .pooling = RZ_POOLING_RANK};
    if (rz_embed_into(reranker, &params, &pair, &n, 1, score, 1, &written, NULL, &err) < 0)
        return failed(&err); /* RZ_ERR_UNSUPPORTED: the model has no classifier */
    return RZ_OK;
}
/* --8<-- [end:rerank] */

/* --8<-- [start:adapters] */
static rz_status adapters(const rz_model *model, const char *path) {
    rz_error err;
    rz_adapter *adapter = NULL;
    rz_conversation *chat = NULL;
    if (rz_adapter_load(model, path, NULL, &adapter, &err) < 0)
        return failed(&err);
    rz_adapter *const used[] = {adapter};
    const float scales[] = {1.0f};
    const rz_conversation_params params = {.struct_size = sizeof params, .adapters = used, .scales = scales, .n_adapters = 1};
    if (rz_conversation_new(model, &params, &chat, &err) < 0 ||
        rz_conversation_say(chat, "Once upon a time", NULL, print, stdout, &err) < 0)
        failed(&err);
    rz_conversation_free(chat);
    rz_adapter_free(adapter);
    return err.code;
}
/* --8<-- [end:adapters] */

/* --8<-- [start:saving] */
static int32_t to_file(const void *data, size_t n, void *user) { return fwrite(data, 1, n, user) == n ? 0 : EIO; }
static int32_t from_file(void *out, size_t n, void *user) {
    return fread(out, 1, n, user) == n ? 0 : feof(user) ? RZ_ERR_FORMAT : EIO;
}

static rz_status saving(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL, *later = NULL;
    FILE *file = tmpfile();
    if (!file)
        return RZ_ERR_IO;
    int is_saved = rz_conversation_new(model, NULL, &chat, &err) >= 0 &&
                   rz_conversation_say(chat, "Once upon a time", NULL, NULL, NULL, &err) >= 0 &&
                   rz_conversation_save(chat, to_file, file, NULL, &err) >= 0;
    rewind(file);
    /* The loaded conversation continues bit-identically. */
    if (!is_saved || rz_conversation_load(model, NULL, from_file, file, &later, &err) < 0)
        failed(&err);
    fclose(file);
    rz_conversation_free(chat);
    rz_conversation_free(later);
    return err.code;
}
/* --8<-- [end:saving] */

/* --8<-- [start:store] */
static rz_status prefixes(const rz_model *model, const char *folder) {
    rz_error err;
    rz_store *store = NULL;
    rz_store_info info = {.struct_size = sizeof info};
    /* Without a folder the prefixes are freed with the store. */
    const rz_store_params kept = {.struct_size = sizeof kept, .min_tokens = 4, .path = folder};
    if (rz_store_new(model, &kept, &store, &err) < 0)
        return failed(&err);
    const rz_conversation_params params = {.struct_size = sizeof params, .store = store};
    for (int i = 0; i < 2 && err.code >= 0; i++) { /* the second conversation reuses the prompt */
        rz_conversation *chat = NULL;
        if (rz_conversation_new(model, &params, &chat, &err) < 0 ||
            rz_conversation_say(chat, "Once upon a time there was a long instruction", NULL, NULL, NULL, &err) < 0)
            failed(&err);
        rz_conversation_free(chat);
    }
    if (err.code >= 0 && rz_store_info_get(store, &info, &err) >= 0)
        printf("%" PRIu64 " hits, %" PRIu64 " tokens that were not computed\n", info.hits, info.reused_tokens);
    rz_store_free(store);
    return err.code < 0 ? err.code : info.hits ? RZ_OK : RZ_ERR_PANIC;
}
/* --8<-- [end:store] */

/* --8<-- [start:batches] */
static rz_status batches(const rz_model *model) {
    static const char *const questions[] = {"Once upon a time", "The little dog", "One day"};
    rz_error err = {0};
    rz_conversation *chats[3] = {NULL};
    const rz_reply_params params = {.struct_size = sizeof params, .max_tokens = 40};
    for (int i = 0; i < 3 && err.code >= 0; i++)
        if (rz_conversation_new(model, NULL, &chats[i], &err) < 0 ||
            rz_conversation_add_text(chats[i], "user", questions[i], strlen(questions[i]), &err) < 0 ||
            rz_conversation_reply(chats[i], &params, &err) < 0)
            failed(&err);
    /* Each step decodes a token of every conversation. They join and leave between any two calls. */
    while (err.code >= 0 && rz_conversations_step(chats, 3, RZ_NO_LIMIT, &err) == RZ_AGAIN)
        ; /* take parts here: rz_conversation_next_into */
    for (int i = 0; i < 3; i++)
        rz_conversation_free(chats[i]);
    return err.code;
}
/* --8<-- [end:batches] */

/* --8<-- [start:frames] */
/* Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the end of the reply. */
static int frame(rz_conversation *chat) {
    rz_error err;
    uint32_t kind, flags, call;
    char text[1024];
    size_t len;
    const rz_status status = rz_conversation_step(chat, 2000, &err);
    if (status < 0)
        failed(&err);
    while (rz_conversation_next_into(chat, &kind, &flags, &call, text, sizeof text, &len, NULL) == RZ_OK)
        if (kind == RZ_CHAT_EVENT_CONTENT)
            printf("%.*s", (int)len, text);
    return status == RZ_AGAIN;
}
/* --8<-- [end:frames] */

static rz_status frames(const rz_model *model) {
    rz_error err;
    rz_conversation *chat = NULL;
    const rz_reply_params params = {.struct_size = sizeof params, .max_tokens = 40};
    if (rz_conversation_new(model, NULL, &chat, &err) < 0 ||
        rz_conversation_add_text(chat, "user", "Once upon a time", 16, &err) < 0 ||
        rz_conversation_reply(chat, &params, &err) < 0) {
        rz_conversation_free(chat);
        return failed(&err);
    }
    while (frame(chat))
        ;
    rz_conversation_free(chat);
    return RZ_OK;
}

/* --8<-- [start:plan] */
static rz_status plan(const char *path) {
    rz_error err;
    rz_model_plan plan = {.struct_size = sizeof plan};
    const rz_cache_params room = {.struct_size = sizeof room, .capacity = 4096};
    /* The memory of one model and four conversations of 4,096 tokens each; no weight is read. */
    if (rz_model_plan_get(path, NULL, 0, NULL, &room, 4, &plan, NULL, 0, NULL, &err) < 0)
        return failed(&err);
    printf("weights %" PRIu64 " MB, each conversation %" PRIu64 " MB, all %" PRIu64 " MB\n", plan.weights_host >> 20,
           plan.cache_host >> 20, plan.total_host >> 20);
    return RZ_OK;
}
/* --8<-- [end:plan] */

/* --8<-- [start:memory] */
static rz_status memory(const char *path) {
    rz_error err;
    rz_runtime *runtime = NULL;
    rz_model *model = NULL;
    rz_conversation *chat = NULL;
    /* A call that would exceed 512 MB (weights, caches, scratch memory) fails with RZ_ERR_LIMIT. */
    const rz_runtime_params limits = {.struct_size = sizeof limits, .threads = 2, .memory_limit = UINT64_C(512) << 20};
    const rz_cache_params small = {
        .struct_size = sizeof small, .capacity = 2048, .k_type = RZ_TYPE_Q8_0, .v_type = RZ_TYPE_Q8_0};
    const rz_conversation_params params = {.struct_size = sizeof params, .cache = &small};
    if (rz_runtime_new(&limits, &runtime, &err) >= 0) {
        const rz_model_params load = {.struct_size = sizeof load, .runtime = runtime};
        if (rz_model_load(path, &load, &model, &err) < 0 || rz_conversation_new(model, &params, &chat, &err) < 0)
            failed(&err);
    } else {
        failed(&err);
    }
    rz_conversation_free(chat);
    rz_model_free(model);
    rz_runtime_free(runtime);
    return err.code;
}
/* --8<-- [end:memory] */

/* --8<-- [start:packed] */
static rz_status packed(const char *path, const char *file) {
    rz_error err;
    rz_model *model = NULL;
    /* The first load writes the file. Later loads map it, and processes share one copy. */
    const rz_model_params params = {.struct_size = sizeof params, .packed_path = file};
    if (rz_model_load(path, &params, &model, &err) < 0)
        return failed(&err);
    rz_model_free(model);
    return RZ_OK;
}
/* --8<-- [end:packed] */

/* --8<-- [start:gpus] */
static rz_status gpus(const char *path) {
    rz_error err;
    rz_model *model = NULL;
    rz_model_info info = {.struct_size = sizeof info};
    for (uint32_t i = 1; i <= rz_device_count(); i++) {
        rz_device_info device = {.struct_size = sizeof device};
        if (rz_device_info_get(i, &device, &err) < 0)
            return failed(&err);
        printf("%u: %s, %s\n", i, device.name, device.available ? device.isa : device.unavailable);
    }
    /* 0: the library chooses. Or set the index of a device, or rz_model_params.devices for several. */
    const rz_model_params params = {.struct_size = sizeof params, .device = 0};
    if (rz_model_load(path, &params, &model, &err) < 0 || rz_model_info_get(model, &info, &err) < 0)
        return failed(&err);
    printf("on device %u, %u layers on GPUs\n", info.device, info.gpu_layers);
    rz_model_free(model);
    return RZ_OK;
}
/* --8<-- [end:gpus] */

/* --8<-- [start:determinism] */
/* For tests: returns a reply, which is the same for every number of threads. */
static rz_status said(const char *path, uint32_t threads, char *text, size_t capacity, size_t *len) {
    rz_error err;
    rz_runtime *runtime = NULL;
    rz_model *model = NULL;
    rz_conversation *chat = NULL;
    const rz_runtime_params params = {.struct_size = sizeof params, .threads = threads};
    if (rz_runtime_new(&params, &runtime, &err) >= 0) {
        const rz_model_params load = {.struct_size = sizeof load, .runtime = runtime};
        if (rz_model_load(path, &load, &model, &err) < 0 || rz_conversation_new(model, NULL, &chat, &err) < 0 ||
            rz_conversation_say(chat, "Once upon a time", NULL, NULL, NULL, &err) < 0 ||
            rz_conversation_json_into(chat, 1, text, capacity, len, &err) < 0)
            failed(&err);
    }
    rz_conversation_free(chat);
    rz_model_free(model);
    rz_runtime_free(runtime);
    return err.code;
}

static int is_deterministic(const char *path) {
    char one[4096], three[4096];
    size_t n, m;
    return said(path, 1, one, sizeof one, &n) >= 0 && said(path, 3, three, sizeof three, &m) >= 0 && n == m &&
           memcmp(one, three, n) == 0;
}
/* --8<-- [end:determinism] */

/* --8<-- [start:errors] */
static void load_or_explain(const char *path) {
    rz_error err;
    rz_model *model = NULL;
    switch (rz_model_load(path, NULL, &model, &err)) {
    case RZ_OK:
        break;
    case RZ_ERR_IO: /* missing or unreadable; system_code is the errno */
        fprintf(stderr, "fetch the model first: %s\n", err.message);
        break;
    case RZ_ERR_UNSUPPORTED: /* unknown to this release; the message names the feature */
    case RZ_ERR_FORMAT:      /* damaged file; the message names the position */
        fprintf(stderr, "another file is needed: %s\n", err.message);
        break;
    default:
        failed(&err);
    }
    rz_model_free(model);
}
/* --8<-- [end:errors] */

/* --8<-- [start:upgrading] */
static int fits(void) {
    if (rz_abi_version() != RZ_ABI_VERSION) {
        fprintf(stderr, "librealizar %s has another interface than this program was built for\n", rz_version());
        return 0;
    }
    return 1;
}
/* --8<-- [end:upgrading] */

#define RUN(what, wanted)                                               \
    do {                                                                \
        if ((what) != (wanted)) {                                       \
            fprintf(stderr, "FAILED: %s is not %s\n", #what, #wanted);  \
            return 1;                                                   \
        }                                                               \
        fputc('\n', stdout);                                            \
    } while (0)

int main(int argc, char **argv) {
    rz_error err;
    rz_model *model;
    char path[4096];
    uint32_t pair[] = {1, 2, 3};
    float score;
    if (argc != 4 || !fits())
        return 2;
    snprintf(path, sizeof path, "%s/packed", argv[3]);
    if (rz_model_load(argv[1], NULL, &model, &err) < 0)
        return failed(&err), 1;
    RUN(chat(model), RZ_OK);
    RUN(options(model) < 0, 0);
    RUN(streaming(model) < 0, 0);
    RUN(stopping(model), RZ_DONE);
    RUN(speculative(model), RZ_OK);
    RUN(structured(model) < 0, 0);
    RUN(tools(model), RZ_OK);
    RUN(embeddings(model), RZ_OK);
    RUN(rerank(model, pair, 3, &score), RZ_ERR_UNSUPPORTED);
    RUN(sources(model, "a small girl"), RZ_ERR_UNSUPPORTED);
    RUN(pictures(model, argv[1], "", 0), RZ_ERR_UNSUPPORTED);
    RUN(towers(argv[1], "", 0, "a small girl"), RZ_ERR_UNSUPPORTED);
    RUN(adapters(model, argv[2]), RZ_OK);
    RUN(saving(model), RZ_OK);
    RUN(prefixes(model, argv[3]), RZ_OK);
    RUN(batches(model) < 0, 0);
    RUN(frames(model), RZ_OK);
    RUN(plan(argv[1]), RZ_OK);
    RUN(memory(argv[1]), RZ_OK);
    RUN(packed(argv[1], path), RZ_OK);
    RUN(gpus(argv[1]), RZ_OK);
    RUN(is_deterministic(argv[1]), 1);
    load_or_explain("none.gguf");
    rz_model_free(model);
    puts("all ran");
    return 0;
}
