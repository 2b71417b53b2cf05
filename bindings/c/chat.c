/*
 * Talks with a model.
 *
 *   chat -m model.gguf -p "a question"    streams one answer
 *   chat -m model.gguf                    holds a conversation, or reads the one question from a pipe
 *   chat ... --schema schema.json         answers in JSON that is valid by the schema
 *   chat ... --tools tools.json           may call these tools, and shows the calls
 *   chat ... --adapter lora.gguf:0.5      with half of what a low-rank adapter changes
 *   chat ... --draft lookup               drafts the answer out of the text so far, which makes it faster and nothing else
 *   chat ... --draft mtp                  drafts it with the layer that the model has for it (multi-token prediction)
 *   chat ... --draft small.gguf           drafts it with a small model of the same vocabulary
 *
 * Answers go to standard output, everything else to standard error. Ctrl-C ends an answer, not the program.
 */
#include <realizar.h>

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_MESSAGES = 1024, MAX_LINE = 1 << 16, MAX_ADAPTERS = 16 };

struct options {
    const char *model, *prompt, *system, *schema, *tools, *draft;
    const char *adapters[MAX_ADAPTERS];
    size_t n_adapters;
    uint32_t max_tokens, threads;
    float temperature;
    uint64_t seed;
    int must_call;
};

struct chat {
    rz_model *model, *draft_model; /* the latter may be NULL */
    rz_cache *cache;
    rz_grammar *grammar; /* of answers, or NULL; of each answer where there are tools */
    rz_job *job;         /* the turn that is being taken */
    char *tools;         /* JSON, or NULL */
    const struct options *options;

    /* The conversation as texts, the system message first where there is one. */
    rz_chat_message messages[MAX_MESSAGES];
    size_t n_messages, n_turns;
    int has_template;

    /* The conversation as tokens: held[0 .. rz_cache_len(cache)] are in the cache. One more than its capacity fits. */
    uint32_t *held, *wanted;
    size_t capacity;

    char *answer;
    size_t answer_len;
    int in_call; /* the arguments of a call are being written */

    /* Of the last turn, for /stats. */
    size_t n_kept, n_prompt, n_answer;
    uint32_t n_drafted, n_accepted;
    double prompt_seconds, answer_seconds;
};

/* The handler may only touch these two; rz_cancel_fire is safe in a signal handler. */
static rz_cancel *cancel;
static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
    rz_cancel_fire(cancel);
#ifdef _WIN32
    signal(SIGINT, on_interrupt); /* there a handler serves once */
#endif
}

static void catch_interrupts(void) {
#ifdef _WIN32
    signal(SIGINT, on_interrupt);
#else
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt; /* no SA_RESTART, so that Ctrl-C also ends a read */
    sigaction(SIGINT, &action, NULL);
#endif
}

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

static void check(rz_status status, const rz_error *err) {
    if (status < 0)
        die("%s: %s", rz_status_name(status), err->message);
}

static void *allocate(void *old, size_t bytes) {
    void *memory = realloc(old, bytes);
    if (!memory)
        die("out of memory");
    return memory;
}

static char *copy_of(const char *text) {
    return strcpy(allocate(NULL, strlen(text) + 1), text);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* --- the conversation ------------------------------------------------------------------------------------------- */

static void add_message(struct chat *chat, const char *role, const char *content) {
    chat->messages[chat->n_messages].role = role;
    chat->messages[chat->n_messages].content = copy_of(content);
    chat->n_messages++;
}

static void remove_messages(struct chat *chat, size_t from, size_t n) {
    for (size_t i = from; i < from + n; i++)
        free((char *)chat->messages[i].content);
    chat->n_messages -= n;
    memmove(chat->messages + from, chat->messages + from + n, (chat->n_messages - from) * sizeof *chat->messages);
}

static size_t n_system(const struct chat *chat) {
    return chat->options->system ? 1 : 0;
}

/* Forgets the oldest question and its answer; 0 where only the newest question is left. */
static int forget_oldest(struct chat *chat) {
    size_t first = n_system(chat);
    if (chat->n_messages < first + 3)
        return 0;
    remove_messages(chat, first, 2);
    return 1;
}

struct text {
    char *bytes;
    size_t len, capacity;
};

static void append(struct text *text, const char *bytes, size_t len) {
    if (text->len + len > text->capacity)
        text->bytes = allocate(text->bytes, text->capacity = 2 * (text->len + len));
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

static void append_quoted(struct text *text, const char *content) {
    char escaped[8];
    append(text, "\"", 1);
    for (const char *c = content; *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
            append(text, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*c & 0xffu));
        else
            append(text, c, 1);
    append(text, "\"", 1);
}

static void append_member(struct text *text, const char *before, const char *content) {
    append(text, before, strlen(before));
    append_quoted(text, content);
}

/* The conversation in JSON. */
static struct text conversation(const struct chat *chat) {
    struct text json = {0};
    append(&json, "{\"messages\": [", 14);
    for (size_t i = 0; i < chat->n_messages; i++) {
        append_member(&json, i ? ", {\"role\": " : "{\"role\": ", chat->messages[i].role);
        append_member(&json, ", \"content\": ", chat->messages[i].content);
        append(&json, "}", 1);
    }
    append(&json, "]", 1);
    if (chat->tools) {
        append(&json, ", \"tools\": ", 11);
        append(&json, chat->tools, strlen(chat->tools));
    }
    if (chat->options->must_call)
        append_member(&json, ", \"tool_choice\": ", "required");
    append(&json, "}", 1);
    return json;
}

/* The conversation as the tokens that the model wants to read. */
static rz_status tokenize(const struct chat *chat, size_t *n, rz_error *err) {
    if (!chat->has_template) {
        const char *text = chat->messages[chat->n_messages - 1].content;
        return rz_tokenize_into(chat->model, text, strlen(text), RZ_TOKENIZE_ADD_SPECIAL | RZ_TOKENIZE_PARSE_SPECIAL,
                                chat->wanted, chat->capacity, n, err);
    }
    /* Whatever was typed is plain text to the model, though it spell special tokens. */
    struct text json = conversation(chat);
    rz_status status = rz_chat_tokenize_into(chat->model, json.bytes, json.len, RZ_CHAT_ADD_GENERATION_PROMPT,
                                             chat->wanted, chat->capacity, n, err);
    free(json.bytes);
    return status;
}

/* Lets calls be such as the tools take. */
static void expect_calls(struct chat *chat, struct text json, rz_error *err) {
    rz_grammar_free(chat->grammar);
    check(rz_grammar_new(chat->model, RZ_GRAMMAR_TOOLS, json.bytes, json.len, &chat->grammar, err), err);
}

static uint32_t draft_kind(const char *draft) {
    if (strcmp(draft, "lookup") == 0)
        return RZ_DRAFT_LOOKUP;
    return strcmp(draft, "mtp") == 0 ? RZ_DRAFT_MTP : RZ_DRAFT_MODEL;
}

/*
 * Begins a job with the newest question. The whole conversation is rendered again, but what the cache holds of it stays
 * there: only the tokens behind the first difference are computed, which is the new turn.
 */
static rz_status read_question(struct chat *chat, rz_error *err) {
    rz_status status;
    size_t n, keep, limit = chat->capacity - chat->capacity / 4;
    do {
        status = tokenize(chat, &n, err);
        if (status < 0 && status != RZ_ERR_BUFFER_TOO_SMALL)
            return status;
        if (n <= limit)
            break;
        /* To forget means to read the rest again, so it is done seldom and then for much. */
        limit = chat->capacity / 2;
    } while (forget_oldest(chat));
    if (status < 0)
        return RZ_ERR_CONTEXT_FULL;

    for (keep = 0; keep + 1 < n && keep < rz_cache_len(chat->cache) && chat->held[keep] == chat->wanted[keep];)
        keep++;
    check(rz_cache_truncate(chat->cache, (uint32_t)keep, err), err);
    memcpy(chat->held, chat->wanted, n * sizeof *chat->held);

    chat->n_kept = keep;
    chat->n_prompt = n - keep;
    chat->n_answer = 0;
    struct text json = {0};
    if (chat->has_template || chat->tools)
        json = conversation(chat);
    if (chat->tools)
        expect_calls(chat, json, err);
    rz_sampler *sampler = NULL;
    if (chat->options->temperature > 0) {
        rz_sampler_params choice = {.struct_size = sizeof choice,
                                    .temperature = chat->options->temperature,
                                    .top_p = 0.95f,
                                    .seed = chat->options->seed + chat->n_turns++};
        check(rz_sampler_new(&choice, &sampler, err), err);
    }
    rz_job_params params = {.struct_size = sizeof params,
                            .max_tokens = chat->options->max_tokens,
                            .tokens = chat->held + keep,
                            .n_tokens = n - keep,
                            .sampler = sampler,
                            .grammar = chat->grammar,
                            .cancel = cancel,
                            .draft_model = chat->draft_model,
                            .chat = json.bytes, /* the answer comes in parts */
                            .chat_len = json.len};
    if (chat->options->draft)
        params.draft = draft_kind(chat->options->draft);
    status = rz_job_new(chat->cache, &params, &chat->job, err);
    rz_sampler_free(sampler);
    free(json.bytes);
    return status;
}

/* Writes a piece of the answer and keeps it. */
static void write_piece(struct chat *chat, const char *piece, size_t len) {
    fwrite(piece, 1, len, stdout);
    fflush(stdout);
    chat->answer = allocate(chat->answer, chat->answer_len + len + 1);
    memcpy(chat->answer + chat->answer_len, piece, len);
    chat->answer[chat->answer_len += len] = '\0';
}

/* Writes the parts of an answer that are there: thoughts to standard error, calls as name(arguments). */
static void write_parts(struct chat *chat, rz_error *err) {
    static char *text;
    static size_t capacity;
    uint32_t kind, call;
    size_t len;
    rz_status status;
    while ((status = rz_job_next_into(chat->job, &kind, &call, text, capacity, &len, err)) != RZ_DONE) {
        if (status == RZ_ERR_BUFFER_TOO_SMALL) {
            text = allocate(text, capacity = 2 * len);
            continue;
        }
        check(status, err);
        if (kind != RZ_CHAT_EVENT_TOOL_ARGUMENTS && chat->in_call) {
            write_piece(chat, ")", 1);
            chat->in_call = 0;
        }
        if (kind == RZ_CHAT_EVENT_REASONING) {
            fwrite(text, 1, len, stderr);
            continue;
        }
        if (kind == RZ_CHAT_EVENT_TOOL_NAME && chat->answer_len)
            write_piece(chat, "\n", 1);
        write_piece(chat, text, len);
        if (kind == RZ_CHAT_EVENT_TOOL_NAME) {
            write_piece(chat, "(", 1);
            chat->in_call = 1;
        }
    }
}

/* Writes what the job has made since the last call. */
static void write_news(struct chat *chat, rz_error *err) {
    char piece[512];
    size_t len = 0, n, first = chat->n_kept + chat->n_prompt + chat->n_answer;
    if (chat->has_template) {
        write_parts(chat, err);
    } else {
        while (rz_job_text_into(chat->job, piece, sizeof piece, &len, err) == RZ_ERR_BUFFER_TOO_SMALL) {
            char *longer = allocate(NULL, len);
            check(rz_job_text_into(chat->job, longer, len, &len, err), err);
            write_piece(chat, longer, len);
            free(longer);
            len = 0;
        }
        write_piece(chat, piece, len);
    }
    check(rz_job_tokens_into(chat->job, chat->held + first, chat->capacity + 1 - first, &n, err), err);
    chat->n_answer += n;
}

/* Streams the answer and adds it to the conversation, also where it was cut short. */
static rz_status write_answer(struct chat *chat, rz_error *err) {
    rz_error ignored;
    rz_status status;
    chat->answer = allocate(chat->answer, 1);
    chat->answer[chat->answer_len = 0] = '\0';
    do {
        status = rz_job_step(chat->job, RZ_NO_LIMIT, err);
        write_news(chat, &ignored);
    } while (status == RZ_AGAIN);

    rz_job_info info = {.struct_size = sizeof info};
    check(rz_job_info_get(chat->job, &info, &ignored), &ignored);
    rz_job_free(chat->job);
    chat->prompt_seconds = 1e-9 * (double)info.prompt_ns;
    chat->answer_seconds = 1e-9 * (double)info.tokens_ns;
    chat->n_drafted = info.drafted;
    chat->n_accepted = info.accepted;
    if (chat->in_call) /* that was cut short */
        write_piece(chat, ")", 1);
    chat->in_call = 0;
    putchar('\n');
    fflush(stdout);
    if (status == RZ_ERR_CANCELLED && info.state == RZ_JOB_STATE_PROMPT)
        remove_messages(chat, chat->n_messages - 1, 1);
    else if (chat->has_template)
        add_message(chat, "assistant", chat->answer);
    return status == RZ_DONE && info.end == RZ_JOB_CONTEXT ? RZ_ERR_CONTEXT_FULL : status;
}

/* One question and its answer. 0, or the status that cut it short. */
static rz_status take_turn(struct chat *chat, const char *question) {
    rz_error err;
    if (!chat->has_template)
        remove_messages(chat, 0, chat->n_messages);
    else if (chat->n_messages + 2 > MAX_MESSAGES)
        forget_oldest(chat);
    add_message(chat, "user", question);

    rz_cancel_reset(cancel);
    rz_status status = read_question(chat, &err);
    if (status == RZ_OK)
        status = write_answer(chat, &err);
    else
        remove_messages(chat, chat->n_messages - 1, 1);

    if (status == RZ_ERR_CANCELLED)
        fprintf(stderr, "(cancelled)\n");
    else if (status == RZ_ERR_CONTEXT_FULL)
        fprintf(stderr, "(the context of %zu tokens is full)\n", chat->capacity);
    else if (status < 0)
        fprintf(stderr, "%s: %s\n", rz_status_name(status), err.message);
    return status < 0 ? status : RZ_OK;
}

static double rate(size_t n, double seconds) {
    return seconds > 0 ? (double)n / seconds : 0;
}

static void print_statistics(const struct chat *chat) {
    fprintf(stderr, "prompt %zu tokens, %.0f tok/s", chat->n_prompt, rate(chat->n_prompt, chat->prompt_seconds));
    if (chat->n_kept)
        fprintf(stderr, " (%zu more were in the cache)", chat->n_kept);
    fprintf(stderr, "  |  answer %zu tokens, %.0f tok/s", chat->n_answer, rate(chat->n_answer, chat->answer_seconds));
    if (chat->n_drafted)
        fprintf(stderr, "  |  %u of %u drafted tokens were right", chat->n_accepted, chat->n_drafted);
    fputc('\n', stderr);
}

/* --- the terminal ----------------------------------------------------------------------------------------------- */

static void converse(struct chat *chat) {
    static char line[MAX_LINE];
    fprintf(stderr, "Ctrl-C ends an answer, Ctrl-D the conversation; /reset /stats /quit\n");
    for (;;) {
        fprintf(stderr, "\n> ");
        interrupted = 0;
        if (!fgets(line, sizeof line, stdin)) {
            fputc('\n', stderr);
            if (!interrupted)
                return;
            clearerr(stdin);
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "/quit") == 0)
            return;
        else if (strcmp(line, "/reset") == 0)
            remove_messages(chat, n_system(chat), chat->n_messages - n_system(chat));
        else if (strcmp(line, "/stats") == 0)
            print_statistics(chat);
        else if (line[0] == '/')
            fprintf(stderr, "/reset forgets the conversation, /stats shows the speed of the last answer, /quit ends\n");
        else if (line[0])
            take_turn(chat, line);
    }
}

static char *read_all(FILE *file) {
    size_t len = 0, capacity = 1 << 12, n;
    char *text = allocate(NULL, capacity);
    while ((n = fread(text + len, 1, capacity - 1 - len, file)) > 0)
        if ((len += n) == capacity - 1)
            text = allocate(text, capacity *= 2);
    text[len] = '\0';
    return text;
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        die("%s: %s", path, strerror(errno));
    char *text = read_all(file);
    fclose(file);
    return text;
}

static void print_usage(FILE *file) {
    fprintf(file, "usage: chat -m model [options]\n"
                  "  -m FILE       the model: .gguf, .safetensors, or a folder with config.json\n"
                  "  -p TEXT       the question; without it a conversation, or the question from a pipe\n"
                  "  -s TEXT       the system message\n"
                  "  --schema FILE answers are JSON of this JSON schema\n"
                  "  --tools FILE  answers may call the tools of this JSON array\n"
                  "  --call        answers are calls\n"
                  "  --adapter FILE[:SCALE]  a low-rank adapter: .gguf, or a folder of PEFT; may be repeated\n"
                  "  --draft FILE  a small model of the same vocabulary that drafts answers; \"lookup\": out of the text,\n"
                  "                \"mtp\": by a layer of the model\n"
                  "  -n N          tokens of an answer at most\n"
                  "  -t N          threads\n"
                  "  --temp T      temperature, 0.7 by default\n"
                  "  --seed N      of the random choice\n"
                  "  --greedy      always the most likely token\n");
}

static unsigned long long number(const char *option, const char *text) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        die("%s: \"%s\" is no number", option, text);
    return value;
}

static struct options parse(int argc, char **argv) {
    struct options options = {.temperature = 0.7f, .max_tokens = UINT32_MAX};
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (strcmp(option, "-h") == 0 || strcmp(option, "--help") == 0) {
            print_usage(stdout);
            exit(0);
        }
        if (strcmp(option, "--greedy") == 0) {
            options.temperature = 0;
            continue;
        }
        if (strcmp(option, "--call") == 0) {
            options.must_call = 1;
            continue;
        }
        if (++i == argc) {
            print_usage(stderr);
            exit(2);
        }
        if (strcmp(option, "-m") == 0)
            options.model = argv[i];
        else if (strcmp(option, "-p") == 0)
            options.prompt = argv[i];
        else if (strcmp(option, "-s") == 0)
            options.system = argv[i];
        else if (strcmp(option, "--schema") == 0)
            options.schema = argv[i];
        else if (strcmp(option, "--tools") == 0)
            options.tools = argv[i];
        else if (strcmp(option, "--adapter") == 0) {
            if (options.n_adapters == MAX_ADAPTERS)
                die("more than %d adapters", MAX_ADAPTERS);
            options.adapters[options.n_adapters++] = argv[i];
        } else if (strcmp(option, "-n") == 0)
            options.max_tokens = (uint32_t)number(option, argv[i]);
        else if (strcmp(option, "--draft") == 0)
            options.draft = argv[i];
        else if (strcmp(option, "-t") == 0)
            options.threads = (uint32_t)number(option, argv[i]);
        else if (strcmp(option, "--seed") == 0)
            options.seed = number(option, argv[i]);
        else if (strcmp(option, "--temp") == 0)
            options.temperature = strtof(argv[i], NULL);
        else {
            print_usage(stderr);
            exit(2);
        }
    }
    if (!options.model) {
        print_usage(stderr);
        exit(2);
    }
    return options;
}

/* Has the cache use the adapters of the options: FILE or FILE:SCALE. */
static void use_adapters(struct chat *chat, const struct options *options) {
    rz_adapter *adapters[MAX_ADAPTERS];
    float scales[MAX_ADAPTERS];
    rz_error err;
    for (size_t i = 0; i < options->n_adapters; i++) {
        char *path = copy_of(options->adapters[i]), *colon = strrchr(path, ':'), *end = NULL;
        scales[i] = 1;
        if (colon && colon[1]) {
            float scale = strtof(colon + 1, &end);
            if (*end == '\0') { /* otherwise the colon is one of the path */
                scales[i] = scale;
                *colon = '\0';
            }
        }
        check(rz_adapter_load(chat->model, path, &adapters[i], &err), &err);
        free(path);
    }
    check(rz_cache_adapters_set(chat->cache, (const rz_adapter *const *)adapters, scales, options->n_adapters, &err), &err);
    for (size_t i = 0; i < options->n_adapters; i++)
        rz_adapter_free(adapters[i]); /* the cache keeps them */
}

int main(int argc, char **argv) {
    static struct chat chat;
    struct options options = parse(argc, argv);
    rz_runtime *runtime;
    rz_error err;

    check(rz_cancel_new(&cancel, &err), &err);
    catch_interrupts();

    rz_runtime_params runtime_params = {.struct_size = sizeof runtime_params, .threads = options.threads};
    check(rz_runtime_new(&runtime_params, &runtime, &err), &err);
    rz_model_params model_params = {.struct_size = sizeof model_params, .runtime = runtime, .cancel = cancel};
    if (options.draft && draft_kind(options.draft) == RZ_DRAFT_MTP)
        model_params.flags = RZ_MODEL_MTP;
    double start = now();
    check(rz_model_load(options.model, &model_params, &chat.model, &err), &err);
    double load_seconds = now() - start;
    model_params.flags = 0;
    if (options.draft && draft_kind(options.draft) == RZ_DRAFT_MODEL)
        check(rz_model_load(options.draft, &model_params, &chat.draft_model, &err), &err);
    check(rz_cache_new(chat.model, NULL, &chat.cache, &err), &err);
    use_adapters(&chat, &options);
    if (options.schema) {
        char *schema = read_file(options.schema);
        check(rz_grammar_new(chat.model, RZ_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &chat.grammar, &err), &err);
        free(schema);
    }
    if (options.tools && options.schema)
        die("--tools and --schema exclude one another");
    if (options.tools)
        chat.tools = read_file(options.tools);

    chat.options = &options;
    chat.capacity = rz_cache_capacity(chat.cache);
    chat.held = allocate(NULL, (chat.capacity + 1) * sizeof *chat.held);
    chat.wanted = allocate(NULL, (chat.capacity + 1) * sizeof *chat.wanted);
    rz_model_info info = {.struct_size = sizeof info};
    check(rz_model_info_get(chat.model, &info, &err), &err);
    chat.has_template = info.chat_template != 0;
    if (options.system)
        add_message(&chat, "system", options.system);

    rz_device_info device = {.struct_size = sizeof device};
    check(rz_device_info_get(info.device, &device, &err), &err);
    const char *slash = strrchr(options.model, '/');
    fprintf(stderr, "%s: %s, %.*f M parameters, on %s (%s), loaded in %.2f s\n\n",
            slash ? slash + 1 : options.model, info.architecture, info.n_params < 10000000 ? 2 : 0,
            (double)info.n_params / 1e6, device.name, device.isa, load_seconds);

    rz_status status = RZ_OK;
    if (options.prompt || !isatty(STDIN_FILENO)) {
        char *question = options.prompt ? copy_of(options.prompt) : read_all(stdin);
        status = take_turn(&chat, question);
        fputc('\n', stderr);
        print_statistics(&chat);
        free(question);
    } else {
        converse(&chat);
    }

    remove_messages(&chat, 0, chat.n_messages);
    free(chat.held);
    free(chat.wanted);
    free(chat.answer);
    free(chat.tools);
    rz_model_free(chat.draft_model);
    rz_grammar_free(chat.grammar);
    rz_cache_free(chat.cache);
    rz_model_free(chat.model);
    rz_runtime_free(runtime);
    rz_cancel_free(cancel);
    return status < 0;
}
