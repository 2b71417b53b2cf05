/* Encoders of pictures, media and prompts. */

#include "internal.h"
#include <string.h>

static const choice KINDS[] = {{"image", RZ_MEDIA_IMAGE}, {"audio", RZ_MEDIA_AUDIO}, {"text", RZ_MEDIA_TEXT},
                               {"vector", RZ_MEDIA_VECTOR}, {"video", RZ_MEDIA_VIDEO}, {NULL, 0}};
static const choice ENCODERS[] = {{"image", RZ_ENCODER_IMAGE}, {"audio", RZ_ENCODER_AUDIO}, {NULL, 0}};
static const choice PIXELS[] = {{"rgb8", RZ_PIXELS_RGB8},
                                {"rgba8", RZ_PIXELS_RGBA8},
                                {"bgra8", RZ_PIXELS_BGRA8},
                                {"gray8", RZ_PIXELS_GRAY8},
                                {NULL, 0}};

/* Arguments of an encoder, and of its plan. */
typedef struct load {
    const rz_model *model;
    const char *path; /* NULL where the bytes of the file are given. */
    rz_source source;
    rz_encoder_params params;
    rz_encoder_plan plan;
} load;

static load *load_arguments(task *t, napi_value arguments[]) {
    load *l = task_alloc(t, sizeof *l);
    if (!l) return NULL;
    rz_encoder_params *params = &l->params;
    l->model = task_use(t, arguments[0], MODEL);
    napi_valuetype type = napi_undefined;
    napi_typeof(t->env, arguments[1], &type);
    if (type == napi_string) {
        l->path = terminated_of(t, arguments[1], "file");
    } else {
        size_t n = 0;
        l->source = (rz_source){.struct_size = sizeof l->source, .kind = RZ_SOURCE_MEMORY};
        l->source.data = bytes_of(t, arguments[1], "file", &n);
        l->source.size = n;
    }
    set_rz_encoder_params(t, arguments[2], params);
    params->flags = is_given(t->env, member_of(t, arguments[2], "kind")) ? choice_member(t, arguments[2], "kind", ENCODERS) : 0;
    if (bool_member(t, arguments[2], "allow_unknown")) params->flags |= RZ_MODEL_ALLOW_UNKNOWN;
    return l;
}

static void run_encoder(task *t) {
    load *l = t->data;
    rz_encoder *encoder = NULL;
    t->status = l->path ? t->lib->rz_encoder_load(l->model, l->path, &l->params, &encoder, &t->error)
                        : t->lib->rz_encoder_load_from(l->model, &l->source, 1, &l->params, &encoder, &t->error);
    t->made = encoder;
    t->made_kind = ENCODER;
}

/* encoder(model, path or bytes, options, cancel): a promise of an encoder. */
static napi_value call_encoder(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    load *l = t.data = load_arguments(&t, arguments);
    if (l) l->params.cancel = task_use(&t, arguments[3], CANCEL);
    if (l && t.status >= 0) {
        l->params.progress = on_progress;
        l->params.progress_user = t.uses[t.n_uses - 1].handle;
    }
    return task_start(&t, run_encoder, task_made);
}

static void run_plan(task *t) {
    load *l = t->data;
    l->plan.struct_size = sizeof l->plan;
    t->status = t->lib->rz_encoder_plan_get(l->model, l->path, NULL, 0, &l->params, &l->plan, &t->error);
}

static napi_value finish_plan(task *t) { return fields_value(t->env, NULL, "rz_encoder_plan", &((load *)t->data)->plan); }

/* encoderPlan(model, path, options): a promise of the bytes that an encoder will take. */
static napi_value call_encoder_plan(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    t.data = load_arguments(&t, arguments);
    return task_start(&t, run_plan, finish_plan);
}

static rz_media_params media_params(task *t, napi_value options) {
    rz_media_params params = {0};
    set_rz_media_params(t, options, &params);
    params.flags = bool_member(t, options, "in_steps") ? RZ_ENCODE_STEPS : 0;
    return params;
}

/* A picture, a video, a sound, or rows, or what was saved of a medium. */
typedef struct source {
    const rz_encoder *encoder;
    const rz_model *model;
    rz_media_params params;
    rz_pixels pixels; /* Of a picture in memory. */
    rz_pixels *frames; /* Of a video. */
    const double *times;
    size_t n_frames;
    uint32_t channels, rate; /* Of samples. */
    const char *bytes;
    size_t len, at;
} source;

/* The parameters of a call, with what stops and tells of it; steps have neither. */
static void watch(task *t, source *s, napi_value options, napi_value cancel) {
    s->params = media_params(t, options);
    const rz_cancel *stops = task_use(t, cancel, CANCEL);
    if (t->status < 0 || s->params.flags) return;
    s->params.cancel = stops;
    s->params.progress = on_progress;
    s->params.progress_user = t->uses[t->n_uses - 1].handle;
}

/* The garbage collector is told of the bytes of a medium. */
static void end_media(task *t, rz_media *media) {
    rz_media_info info = {.struct_size = sizeof info};
    t->made = media;
    t->made_kind = MEDIA;
    if (t->status >= 0 && t->lib->rz_media_info_get(media, &info, &t->error) >= 0) t->made_bytes = (int64_t)info.bytes;
}

static void run_encode(task *t) {
    source *s = t->data;
    rz_media *media = NULL;
    t->status = s->pixels.format ? t->lib->rz_media_from_pixels(s->encoder, &s->pixels, &s->params, &media, &t->error)
                                 : t->lib->rz_media_from_image(s->encoder, s->bytes, s->len, &s->params, &media, &t->error);
    end_media(t, media);
}

static void run_encode_sound(task *t) {
    source *s = t->data;
    rz_media *media = NULL;
    const float *samples = (const float *)(const void *)s->bytes;
    size_t n = s->len / sizeof *samples;
    t->status = s->rate ? t->lib->rz_media_from_samples(s->encoder, samples, n, s->channels, s->rate, &s->params, &media, &t->error)
                        : t->lib->rz_media_from_audio(s->encoder, s->bytes, s->len, &s->params, &media, &t->error);
    end_media(t, media);
}

/* encodeSound(encoder, bytes, options, cancel): a promise of a medium, of a file or, if there is a rate, of samples. */
static napi_value call_encode_sound(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    source *s = t.data = task_alloc(&t, sizeof *s);
    if (!s) return task_return(&t, NULL);
    s->encoder = task_use(&t, arguments[0], ENCODER);
    s->bytes = bytes_of(&t, arguments[1], "sound", &s->len);
    U32(&t, arguments[2], s, channels);
    U32(&t, arguments[2], s, rate);
    watch(&t, s, arguments[2], arguments[3]);
    return task_start(&t, run_encode_sound, task_made);
}

/* Reads format, width and height. Returns the bytes of a row of pixels without gaps. */
static uint64_t read_pixels(task *t, napi_value value, rz_pixels *pixels) {
    pixels->struct_size = sizeof *pixels;
    pixels->format = choice_member(t, value, "format", PIXELS);
    pixels->width = (uint32_t)uint_member(t, value, "width", 65535);
    pixels->height = (uint32_t)uint_member(t, value, "height", 65535);
    uint64_t bytes = pixels->format == RZ_PIXELS_RGB8 ? 3 : pixels->format == RZ_PIXELS_GRAY8 ? 1 : 4;
    return bytes * pixels->width;
}

/* encode(encoder, bytes, pixels or undefined, options, cancel): a promise of a medium, of a file or of pixels. */
static napi_value call_encode(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    source *s = t.data = task_alloc(&t, sizeof *s);
    if (!s) return task_return(&t, NULL);
    s->encoder = task_use(&t, arguments[0], ENCODER);
    s->bytes = bytes_of(&t, arguments[1], "image", &s->len);
    if (is_given(env, arguments[2])) {
        rz_pixels *pixels = &s->pixels;
        uint64_t row = read_pixels(&t, arguments[2], pixels), stride;
        pixels->stride = uint_member(&t, arguments[2], "stride", INT32_MAX);
        pixels->data = s->bytes;
        stride = pixels->stride ? pixels->stride : row;
        /* The library cannot see where the bytes end. */
        if (!pixels->width || !pixels->height || stride < row || stride * (pixels->height - 1) + row > s->len)
            task_fail(&t, RZ_ERR_INVALID_ARGUMENT, "%zu bytes are no %u x %u pixels", s->len, pixels->width, pixels->height);
    }
    watch(&t, s, arguments[3], arguments[4]);
    return task_start(&t, run_encode, task_made);
}

static void run_encode_video(task *t) {
    source *s = t->data;
    rz_media *media = NULL;
    t->status = t->lib->rz_media_from_frames(s->encoder, s->frames, s->times, s->n_frames, &s->params, &media, &t->error);
    end_media(t, media);
}

/* encodeVideo(encoder, bytes of all frames, times, pixels, options, cancel): a promise of a medium. */
static napi_value call_encode_video(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    source *s = t.data = task_alloc(&t, sizeof *s);
    if (!s) return task_return(&t, NULL);
    s->encoder = task_use(&t, arguments[0], ENCODER);
    s->bytes = bytes_of(&t, arguments[1], "frames", &s->len);
    size_t len = 0;
    s->times = (const double *)(const void *)bytes_of(&t, arguments[2], "times", &len);
    s->n_frames = len / sizeof *s->times;
    rz_pixels frame = {0};
    uint64_t size = read_pixels(&t, arguments[3], &frame) * frame.height;
    /* The library cannot see where the bytes end. */
    if (!size || s->len % size || s->len / size != s->n_frames)
        task_fail(&t, RZ_ERR_INVALID_ARGUMENT, "%zu bytes are no %zu frames of %u x %u", s->len, s->n_frames, frame.width, frame.height);
    if (t.status >= 0) s->frames = task_alloc(&t, (s->n_frames ? s->n_frames : 1) * sizeof frame);
    for (size_t i = 0; s->frames && i < s->n_frames; i++) {
        s->frames[i] = frame;
        s->frames[i].data = s->bytes + size * i;
    }
    watch(&t, s, arguments[4], arguments[5]);
    return task_start(&t, run_encode_video, task_made);
}

static int32_t on_read(void *out, size_t n, void *user) {
    source *s = user;
    if (n > s->len - s->at) return RZ_ERR_FORMAT;
    memcpy(out, s->bytes + s->at, n);
    s->at += n;
    return 0;
}

static void run_restore(task *t) {
    source *s = t->data;
    rz_media *media = NULL;
    t->status = t->lib->rz_media_load(s->model, on_read, s, NULL, &media, &t->error);
    end_media(t, media);
}

/* A step of a medium. */
typedef struct media_step {
    rz_media *media;
    uint64_t budget_us;
} media_step;

static void run_media_step(task *t) {
    media_step *s = t->data;
    t->status = t->lib->rz_media_step(s->media, s->budget_us, &t->error);
}

static napi_value finish_media_step(task *t) {
    napi_value more = NULL;
    napi_get_boolean(t->env, t->status == RZ_AGAIN, &more);
    return more;
}

/* stepMedia(media, microseconds): a promise of whether there is more to do. */
static napi_value call_step(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    media_step *s = t.data = task_alloc(&t, sizeof *s);
    if (!s) return task_return(&t, NULL);
    s->media = task_use(&t, arguments[0], MEDIA);
    s->budget_us = uint_of(&t, arguments[1], "milliseconds", 1ull << 53);
    return task_start(&t, run_media_step, finish_media_step);
}

/* restoreMedia(model, bytes): a promise of the medium that was saved. */
static napi_value call_restore(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    source *s = t.data = task_alloc(&t, sizeof *s);
    if (s && (s->model = task_use(&t, arguments[0], MODEL)))
        s->bytes = bytes_of(&t, arguments[1], "bytes", &s->len);
    return task_start(&t, run_restore, task_made);
}

/* mediaOfRows(model, bytes of a Float32Array, {kind, rowDim, columns, lines}). */
static napi_value call_rows(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    rz_media *media = NULL;
    size_t len;
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    const float *rows = bytes_of(&t, arguments[1], "rows", &len);
    uint32_t kind = choice_member(&t, arguments[2], "kind", KINDS);
    rz_media_info shape = {0};
    U32(&t, arguments[2], &shape, row_dim);
    U32(&t, arguments[2], &shape, columns);
    U32(&t, arguments[2], &shape, lines);
    size_t n = len / sizeof *rows;
    if (!shape.row_dim || n % shape.row_dim)
        task_fail(&t, RZ_ERR_INVALID_ARGUMENT, "%zu numbers are no rows of %u", n, shape.row_dim);
    if (t.status >= 0)
        t.status = t.lib->rz_media_from_rows(model, kind, rows, n / shape.row_dim, shape.row_dim, shape.columns,
                                             shape.lines, &media, &t.error);
    end_media(&t, media);
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

/* rowsOf(media): a Float32Array. */
static napi_value call_rows_of(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_media *media = task_use(&t, arguments[0], MEDIA);
    size_t capacity = 0, n = 0;
    float *rows;
    do {
        rows = task_alloc(&t, capacity * sizeof *rows);
        if (t.status >= 0) t.status = t.lib->rz_media_rows_into(media, rows, capacity, &n, &t.error);
    } while (task_repeats(&t, &capacity, n));
    return task_return(&t, t.status < 0 ? NULL : floats_value(env, rows, n));
}

static void media_members(task *t, napi_value object, const rz_media_info *info) {
    napi_env env = t->env;
    napi_value hash;
    void *bytes;
    fields_value(env, object, "rz_media_info", info);
    set_member(env, object, "kind", string_value(env, choice_name(KINDS, info->kind), NAPI_AUTO_LENGTH));
    set_member(env, object, "has_overview", bool_value(env, info->has_overview));
    if (napi_create_buffer_copy(env, sizeof info->hash, info->hash, &bytes, &hash) == napi_ok)
        set_member(env, object, "hash", hash);
}

void encoder_info(task *t, napi_value object, const void *encoder) {
    rz_encoder_info info = {.struct_size = sizeof info};
    t->status = t->lib->rz_encoder_info_get(encoder, &info, &t->error);
    if (t->status < 0) return;
    fields_value(t->env, object, "rz_encoder_info", &info);
    set_member(t->env, object, "is_mutual", bool_value(t->env, info.is_mutual));
    set_member(t->env, object, "hears", bool_value(t->env, info.kinds & RZ_MEDIA_AUDIO));
    set_member(t->env, object, "kinds", names_value(t->env, KINDS, info.kinds));
}

void media_info(task *t, napi_value object, const void *media) {
    rz_media_info info = {.struct_size = sizeof info};
    t->status = t->lib->rz_media_info_get(media, &info, &t->error);
    if (t->status >= 0) media_members(t, object, &info);
}

/* measure(encoder, width, height, options): the info of a picture of so many pixels. */
static napi_value call_measure(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS], object = NULL;
    task t = task_begin(env, info, arguments);
    const rz_encoder *encoder = task_use(&t, arguments[0], ENCODER);
    uint32_t width = (uint32_t)uint_of(&t, arguments[1], "width", UINT32_MAX);
    uint32_t height = (uint32_t)uint_of(&t, arguments[2], "height", UINT32_MAX);
    rz_media_params params = media_params(&t, arguments[3]);
    rz_media_info measured = {.struct_size = sizeof measured};
    if (t.status >= 0) t.status = t.lib->rz_media_measure(encoder, width, height, &params, &measured, &t.error);
    if (t.status >= 0 && napi_create_object(env, &object) == napi_ok) media_members(&t, object, &measured);
    return task_return(&t, object);
}

/* prompt(model, tokens and media, {bare}). */
static napi_value call_prompt(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    uint32_t n = count_of(&t, arguments[1], "parts");
    rz_part *parts = task_alloc(&t, n * sizeof *parts);
    for (uint32_t i = 0; i < n && t.status >= 0; i++) {
        napi_value part = element_of(&t, arguments[1], i);
        bool is_list = false, is_typed = false;
        if (part) napi_is_array(env, part, &is_list);
        if (part) napi_is_typedarray(env, part, &is_typed);
        if (is_list || is_typed) parts[i].tokens = tokens_of(&t, part, "a part", &parts[i].n_tokens);
        else parts[i].media = task_use(&t, part, MEDIA);
    }
    uint32_t flags = bool_member(&t, arguments[2], "bare") ? RZ_PROMPT_BARE : 0;
    rz_prompt *prompt = NULL;
    if (t.status >= 0) t.status = t.lib->rz_prompt_new(model, parts, n, flags, &prompt, &t.error);
    t.made = prompt;
    t.made_kind = PROMPT;
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

/* chatPrompt(model, json, media): a prompt of a conversation, whose parts have numbers of media. */
static napi_value call_chat_prompt(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_model *model = task_use(&t, arguments[0], MODEL);
    size_t len;
    char *json = string_of(&t, arguments[1], "the conversation", &len);
    uint32_t n = count_of(&t, arguments[2], "media");
    rz_media **media = task_alloc(&t, n * sizeof *media);
    for (uint32_t i = 0; i < n && t.status >= 0; i++) media[i] = task_use(&t, element_of(&t, arguments[2], i), MEDIA);
    rz_prompt *prompt = NULL;
    if (t.status >= 0)
        t.status = t.lib->rz_prompt_from_chat(model, json, len, RZ_CHAT_ADD_GENERATION_PROMPT, media, n, NULL, &prompt, &t.error);
    t.made = prompt;
    t.made_kind = PROMPT;
    return task_return(&t, t.status < 0 ? NULL : task_made(&t));
}

/* promptTokens(prompt): a Uint32Array. */
static napi_value call_prompt_tokens(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_prompt *prompt = task_use(&t, arguments[0], PROMPT);
    size_t n = prompt ? t.lib->rz_prompt_len(prompt) : 0;
    uint32_t *tokens = task_alloc(&t, n * sizeof *tokens);
    if (t.status >= 0) t.status = t.lib->rz_prompt_tokens_into(prompt, tokens, n, &n, &t.error);
    return task_return(&t, t.status < 0 ? NULL : tokens_value(env, tokens, n));
}

/* matchPrompt(session, prompt): how many of the first tokens need not be computed again. */
static napi_value call_match_prompt(napi_env env, napi_callback_info info) {
    napi_value arguments[MAX_ARGUMENTS];
    task t = task_begin(env, info, arguments);
    const rz_cache *cache = task_use(&t, arguments[0], SESSION);
    const rz_prompt *prompt = task_use(&t, arguments[1], PROMPT);
    uint32_t common = 0;
    if (t.status >= 0) t.status = t.lib->rz_cache_match_prompt(cache, prompt, &common, &t.error);
    return task_return(&t, number_value(env, common));
}

void export_media(napi_env env, napi_value exports) {
    export_function(env, exports, "encoder", call_encoder);
    export_function(env, exports, "encoderPlan", call_encoder_plan);
    export_function(env, exports, "encode", call_encode);
    export_function(env, exports, "encodeVideo", call_encode_video);
    export_function(env, exports, "encodeSound", call_encode_sound);
    export_function(env, exports, "stepMedia", call_step);
    export_function(env, exports, "restoreMedia", call_restore);
    export_function(env, exports, "mediaOfRows", call_rows);
    export_function(env, exports, "rowsOf", call_rows_of);
    export_function(env, exports, "measure", call_measure);
    export_function(env, exports, "prompt", call_prompt);
    export_function(env, exports, "chatPrompt", call_chat_prompt);
    export_function(env, exports, "promptTokens", call_prompt_tokens);
    export_function(env, exports, "matchPrompt", call_match_prompt);
}
