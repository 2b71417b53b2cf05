/*
 * Talks with a model.
 *
 *   chat -m model.gguf -p "a question"    streams one answer
 *   chat -m model.gguf                    holds a conversation, or reads the one question from a pipe
 *
 * Answers go to standard output, everything else to standard error. Ctrl-C ends an answer, not the program.
 */
#include <realizar.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: chat -m model [options]\n"
                            "  -m FILE       the model: .gguf, .safetensors, or a folder with config.json\n"
                            "  -p TEXT       the question; without it a conversation, or the question from a pipe\n"
                            "  -s TEXT       the system message\n"
                            "  -n N          tokens of an answer at most\n"
                            "  -t N          threads\n"
                            "  --temp T      temperature; without it, --seed and --greedy, as the model's makers advise\n"
                            "  --seed N      of the random choice\n"
                            "  --greedy      always the most likely token\n"
                            "  --schema FILE answers are JSON of this JSON schema\n"
                            "  --tools FILE  answers may call the tools of this JSON array\n"
                            "  --call        answers are calls\n"
                            "  --think N     at most N tokens of reasoning; 0: none\n"
                            "  --adapter FILE[:SCALE]  a low-rank adapter: .gguf, or a folder of PEFT; may be repeated\n"
                            "  --draft FILE  a small model of the same vocabulary that drafts answers; \"lookup\": out of the\n"
                            "                text, \"mtp\": by a layer of the model. Faster, and the same answers\n";

enum { MAX_ADAPTERS = 16, MAX_LINE = 1 << 16 };

static rz_error err;
static rz_model *model;
static rz_conversation *conversation;
static rz_cancel *cancel;
static rz_reply_params reply = {.struct_size = sizeof reply, .flags = RZ_REPLY_KEEP};
static rz_sampler_params sampler = {.struct_size = sizeof sampler, .temperature = 0.7f, .top_p = 0.95f};

static void on_interrupt(int signal_number) {
    (void)signal_number;
    rz_cancel_fire(cancel); /* which is safe in a signal handler */
#ifdef _WIN32
    signal(SIGINT, on_interrupt); /* there a handler serves once */
#endif
}

static int check(rz_status status) {
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", rz_status_name(status), err.message);
        exit(1);
    }
    return status;
}

static char *read_all(FILE *file) {
    size_t len = 0, capacity = 1 << 12, n;
    char *text = malloc(capacity);
    while (text && (n = fread(text + len, 1, capacity - 1 - len, file)) > 0)
        if ((len += n) == capacity - 1)
            text = realloc(text, capacity *= 2);
    if (!text)
        exit(1);
    text[len] = '\0';
    return text;
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        exit((fprintf(stderr, "%s: %s\n", path, strerror(errno)), 1));
    return read_all(file);
}

/* Writes the parts of an answer that are there: thoughts to standard error, calls as name(arguments). */
static void write_parts(uint32_t *last) {
    static char *text;
    static size_t capacity;
    uint32_t kind, call;
    size_t len;
    rz_status status;
    while ((status = rz_conversation_next_into(conversation, &kind, &call, text, capacity, &len, &err)) != RZ_DONE) {
        if (status == RZ_ERR_BUFFER_TOO_SMALL) {
            if (!(text = realloc(text, capacity = 2 * len)))
                exit(1);
            continue;
        }
        check(status);
        if (*last == RZ_CHAT_EVENT_TOOL_ARGUMENTS && kind != *last)
            putchar(')');
        if (kind == RZ_CHAT_EVENT_TOOL_NAME && *last)
            putchar('\n');
        fwrite(text, 1, len, kind == RZ_CHAT_EVENT_REASONING ? stderr : stdout);
        if (kind == RZ_CHAT_EVENT_TOOL_NAME)
            putchar('(');
        fflush(stdout);
        *last = kind;
    }
}

/* One question and its answer. 0, or the status that cut it short. */
static rz_status take_turn(const char *question) {
    rz_conversation_info info = {.struct_size = sizeof info};
    uint32_t last = 0;
    rz_cancel_reset(cancel);
    check(rz_conversation_info_get(conversation, &info, &err));
    uint32_t before = info.n_messages;
    check(rz_conversation_add_text(conversation, "user", question, strlen(question), &err));
    rz_status status = rz_conversation_reply(conversation, &reply, &err);
    sampler.seed++;
    while (status >= 0 && (status = rz_conversation_step(conversation, RZ_NO_LIMIT, &err)) == RZ_AGAIN)
        write_parts(&last);
    rz_error why = err;
    write_parts(&last);
    putchar('\n');
    check(rz_conversation_info_get(conversation, &info, &err));
    if (status == RZ_DONE && info.end == RZ_JOB_CONTEXT)
        fprintf(stderr, "(the context of %u tokens is full)\n", info.cache_capacity);
    if (status >= 0)
        return RZ_OK;
    fprintf(stderr, "%s: %s\n", rz_status_name(status), why.message);
    if (info.n_tokens == 0) /* nothing was said: the question goes too */
        check(rz_conversation_rewind(conversation, before, &err));
    return status;
}

static void print_statistics(void) {
    rz_conversation_info info = {.struct_size = sizeof info};
    check(rz_conversation_info_get(conversation, &info, &err));
    uint32_t read = info.prompt_tokens - info.reused_tokens;
    double prompt = 1e-9 * (double)info.prompt_ns, answer = 1e-9 * (double)info.tokens_ns;
    fprintf(stderr, "prompt %u tokens, %.0f tok/s", read, prompt > 0 ? read / prompt : 0);
    if (info.reused_tokens)
        fprintf(stderr, " (%u more were in the cache)", info.reused_tokens);
    fprintf(stderr, "  |  answer %u tokens, %.0f tok/s", info.n_tokens, answer > 0 ? info.n_tokens / answer : 0);
    if (info.drafted)
        fprintf(stderr, "  |  %u of %u drafted tokens were right", info.accepted, info.drafted);
    fputc('\n', stderr);
}

static void converse(uint32_t n_system) {
    static char line[MAX_LINE];
    fprintf(stderr, "Ctrl-C ends an answer, Ctrl-D the conversation; /reset /stats /quit\n");
    for (;;) {
        fprintf(stderr, "\n> ");
        errno = 0;
        if (!fgets(line, sizeof line, stdin)) {
            fputc('\n', stderr);
            if (errno != EINTR)
                return;
            clearerr(stdin);
            continue;
        }
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "/quit") == 0)
            return;
        else if (strcmp(line, "/reset") == 0)
            check(rz_conversation_rewind(conversation, n_system, &err));
        else if (strcmp(line, "/stats") == 0)
            print_statistics();
        else if (line[0] == '/')
            fprintf(stderr, "/reset forgets the conversation, /stats shows the speed of the last answer, /quit ends\n");
        else if (line[0])
            take_turn(line);
    }
}

/* --- options ---------------------------------------------------------------------------------------------------- */

static char **arguments;

/* The value of option number `n` of this name, or the name of one without a value; NULL where there is none. */
static char *option(const char *name, int has_value, int n) {
    for (char **a = arguments; *a; a++)
        if (strcmp(*a, name) == 0 && n-- == 0)
            return a[has_value];
    return NULL;
}

static char *text(const char *name) {
    return option(name, 1, 0);
}

static double number(const char *name, double otherwise) {
    char *value = text(name), *end = value;
    double number = value ? strtod(value, &end) : otherwise;
    if (value && (end == value || *end || number < 0)) {
        fprintf(stderr, "%s: \"%s\" is no number\n", name, value);
        exit(2);
    }
    return number;
}

static void check_options(void) {
    static const char with_values[] = " -m -p -s -n -t --temp --seed --schema --tools --think --adapter --draft ";
    for (char **a = arguments; *a; a++) {
        char name[32];
        int is_known = snprintf(name, sizeof name, " %s ", *a) < (int)sizeof name && strstr(with_values, name) && *++a;
        if (!is_known && strcmp(*a, "--greedy") != 0 && strcmp(*a, "--call") != 0) {
            int is_asked = strcmp(*a, "-h") == 0 || strcmp(*a, "--help") == 0;
            fputs(usage, is_asked ? stdout : stderr);
            exit(is_asked ? 0 : 2);
        }
    }
}

/* The adapter of FILE or FILE:SCALE. */
static const rz_adapter *load_adapter(char *path, float *scale) {
    char *colon = strrchr(path, ':'), *end = NULL;
    rz_adapter *adapter;
    *scale = colon && colon[1] ? strtof(colon + 1, &end) : 1;
    if (end && *end)
        *scale = 1; /* the colon is one of the path */
    else if (end)
        *colon = '\0';
    check(rz_adapter_load(model, path, &adapter, &err));
    return adapter;
}

int main(int argc, char **argv) {
    rz_runtime *runtime;
    (void)argc;
    arguments = argv + 1;
    check_options();
    check(rz_cancel_new(&cancel, &err));
    signal(SIGINT, on_interrupt);

    rz_runtime_params threads = {.struct_size = sizeof threads, .threads = (uint32_t)number("-t", 0)};
    check(rz_runtime_new(&threads, &runtime, &err));
    rz_model_params load = {.struct_size = sizeof load, .runtime = runtime, .cancel = cancel};
    char *draft = text("--draft");
    if (draft && strcmp(draft, "lookup") == 0)
        reply.draft = RZ_DRAFT_LOOKUP;
    else if (draft && strcmp(draft, "mtp") == 0)
        reply.draft = RZ_DRAFT_MTP, load.flags = RZ_MODEL_MTP;
    check(rz_model_load(text("-m"), &load, &model, &err));
    if (draft && !reply.draft) {
        reply.draft = RZ_DRAFT_MODEL;
        check(rz_model_load(draft, &load, (rz_model **)&reply.draft_model, &err));
    }

    /* The conversation begins with tools, and with the system message. */
    rz_conversation_params params = {.struct_size = sizeof params, .overflow = RZ_OVERFLOW_FORGET, .cancel = cancel};
    const rz_adapter *adapters[MAX_ADAPTERS];
    float scales[MAX_ADAPTERS];
    for (char *path; params.n_adapters < MAX_ADAPTERS && (path = option("--adapter", 1, (int)params.n_adapters));)
        adapters[params.n_adapters] = load_adapter(path, &scales[params.n_adapters]), params.n_adapters++;
    params.adapters = adapters, params.scales = scales;
    char *tools = text("--tools") ? read_file(text("--tools")) : NULL, json[1 << 16];
    if (tools) {
        int n = snprintf(json, sizeof json, "{\"tools\": %s, \"tool_choice\": \"%s\"}", tools,
                         option("--call", 0, 0) ? "required" : "auto");
        params.json = json, params.json_len = n < (int)sizeof json ? (size_t)n : sizeof json - 1;
    }
    check(rz_conversation_new(model, &params, &conversation, &err));
    char *system = text("-s"), *schema = text("--schema");
    if (system)
        check(rz_conversation_add_text(conversation, "system", system, strlen(system), &err));

    reply.max_tokens = (uint32_t)number("-n", 0);
    reply.reasoning_tokens = (uint32_t)number("--think", 0);
    reply.reasoning = text("--think") && !reply.reasoning_tokens ? RZ_REASONING_OFF : RZ_REASONING_MODEL;
    sampler.seed = (uint64_t)number("--seed", 0);
    sampler.temperature = option("--greedy", 0, 0) ? 0 : (float)number("--temp", sampler.temperature);
    if (option("--greedy", 0, 0) || text("--temp") || text("--seed"))
        reply.sampler = &sampler;
    if (schema) {
        reply.grammar_kind = RZ_GRAMMAR_JSON_SCHEMA, reply.grammar = schema = read_file(schema);
        reply.grammar_len = strlen(schema);
    }

    rz_model_info info = {.struct_size = sizeof info};
    check(rz_model_info_get(model, &info, &err));
    rz_device_info device = {.struct_size = sizeof device};
    check(rz_device_info_get(info.device, &device, &err));
    fprintf(stderr, "%s: %s, %.*f M parameters, on %s (%s)\n\n", text("-m"), info.architecture, info.n_params < 10000000 ? 2 : 0,
            (double)info.n_params / 1e6, device.name, device.isa);

    rz_status status = RZ_OK;
    if (text("-p") || !isatty(STDIN_FILENO)) {
        char *question = text("-p") ? text("-p") : read_all(stdin);
        status = take_turn(question);
        print_statistics();
    } else {
        converse(system ? 1 : 0);
    }
    rz_conversation_free(conversation);
    rz_model_free((rz_model *)reply.draft_model);
    rz_model_free(model);
    rz_runtime_free(runtime);
    rz_cancel_free(cancel);
    return status < 0;
}
