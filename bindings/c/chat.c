/* Talks with a model. Answers go to standard output, everything else to standard error; Ctrl-C ends an answer. */
#define _GNU_SOURCE
#include <realizar.h>

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: chat -m model [options]\n"
                            "  -m FILE       the model: .gguf, .safetensors, or a folder with config.json\n"
                            "  -p TEXT       the question; without it a conversation, or the question from a pipe\n"
                            "  -s TEXT       the system message;  -n N: tokens of an answer at most;  -t N: threads\n"
                            "  --temp T, --seed N, --greedy   sampling; default: the model's recommendation\n"
                            "  --schema FILE answers are JSON of this JSON schema\n"
                            "  --tools FILE  answers may call the tools of this JSON array, and have to with --call\n"
                            "  --think N     at most N tokens of reasoning; 0: none\n"
                            "  --adapter FILE[:SCALE]  a low-rank adapter: .gguf, or a folder of PEFT; may be repeated\n"
                            "  --draft FILE  a small model of the same vocabulary that drafts answers; \"lookup\": out of the\n"
                            "                text, \"mtp\": by a layer of the model. Faster, and the same answers\n";
static const struct option names[] = {
    {"temp", 1, NULL, 'T'},   {"seed", 1, NULL, 'S'},   {"greedy", 0, NULL, 'g'},  {"schema", 1, NULL, 'j'},
    {"tools", 1, NULL, 'f'},  {"call", 0, NULL, 'c'},   {"think", 1, NULL, 'r'},   {"adapter", 1, NULL, 'a'},
    {"draft", 1, NULL, 'd'},  {"help", 0, NULL, 'h'},   {NULL, 0, NULL, 0},
};

enum { MAX_ADAPTERS = 16, MAX_TEXT = 1 << 20 };

static rz_error err;
static rz_conversation *conversation;
static rz_cancel *cancel;
static rz_reply_params reply = {.struct_size = sizeof reply, .flags = RZ_REPLY_KEEP};
static rz_sampler_params sampler = {.struct_size = sizeof sampler, .temperature = 0.7f, .top_p = 0.95f};

static void on_interrupt(int signal_number) {
    (void)signal_number;
    rz_cancel_fire(cancel); /* which is safe in a signal handler */
    signal(SIGINT, on_interrupt);
}

static int check(rz_status status) {
    if (status < 0)
        exit((fprintf(stderr, "%s: %s\n", rz_status_name(status), err.message), 1));
    return status;
}

/* The text of a file, of standard input without a path. */
static char *read_all(const char *path) {
    FILE *file = path ? fopen(path, "rb") : stdin;
    char *text = calloc(1, MAX_TEXT);
    if (!file || !text || (fread(text, 1, MAX_TEXT - 1, file), ferror(file)) || !feof(file))
        exit((fprintf(stderr, "%s: %s\n", path ? path : "the question", errno ? strerror(errno) : "too long"), 1));
    return text;
}

static double number(const char *text) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || number < 0)
        exit((fprintf(stderr, "\"%s\" is no number\n", text), 2));
    return number;
}

/* Writes the parts of an answer that are there: thoughts to standard error, calls as name(arguments). */
static void write_parts(uint32_t *last) {
    static char text[MAX_TEXT];
    uint32_t kind, flags, call;
    size_t len;
    while (check(rz_conversation_next_into(conversation, &kind, &flags, &call, text, sizeof text, &len, &err)) == RZ_OK) {
        if (kind == RZ_CHAT_EVENT_TOOL_ID)
            continue;
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

static rz_conversation_info state(void) {
    rz_conversation_info info = {.struct_size = sizeof info};
    check(rz_conversation_info_get(conversation, &info, &err));
    return info;
}

/* One question and its answer. Non-zero where something cut it short. */
static int take_turn(const char *question) {
    uint32_t last = 0, before = state().n_messages;
    rz_cancel_reset(cancel);
    check(rz_conversation_add_text(conversation, "user", question, strlen(question), &err));
    rz_status status = rz_conversation_reply(conversation, &reply, &err);
    sampler.seed++;
    while (status >= 0 && (status = rz_conversation_step(conversation, RZ_NO_LIMIT, &err)) == RZ_AGAIN)
        write_parts(&last);
    rz_error why = err;
    write_parts(&last);
    putchar('\n');
    fflush(stdout); /* ahead of what goes to stderr */
    rz_conversation_info info = state();
    if (status == RZ_DONE && info.end_reason == RZ_END_CONTEXT)
        fprintf(stderr, "(the context of %u tokens is full)\n", info.cache_capacity);
    if (status < 0)
        fprintf(stderr, "%s: %s\n", rz_status_name(status), why.message);
    if (status < 0 && info.n_tokens == 0) /* nothing was said: the question goes too */
        check(rz_conversation_rewind(conversation, before, &err));
    return status < 0;
}

static void print_statistics(void) {
    rz_conversation_info info = state();
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

static void converse(void) {
    static char line[1 << 16];
    uint32_t n_system = state().n_messages;
    fprintf(stderr, "Ctrl-C ends an answer, Ctrl-D the conversation; /reset forgets it, /stats shows the speed, /quit\n");
    for (;;) {
        fprintf(stderr, "\n> ");
        errno = 0;
        if (!fgets(line, sizeof line, stdin) && errno != EINTR)
            break;
        clearerr(stdin);
        line[errno == EINTR ? 0 : strcspn(line, "\n")] = '\0';
        if (strcmp(line, "/quit") == 0)
            break;
        else if (strcmp(line, "/reset") == 0)
            check(rz_conversation_rewind(conversation, n_system, &err));
        else if (strcmp(line, "/stats") == 0)
            print_statistics();
        else if (line[0] == '/')
            fprintf(stderr, "/reset, /stats or /quit\n");
        else if (line[0])
            take_turn(line);
    }
}

/* The adapter of FILE or FILE:SCALE. */
static rz_adapter *load_adapter(const rz_model *model, char *path, float *scale) {
    char *colon = strrchr(path, ':'), *end = NULL;
    rz_adapter *adapter;
    float told = colon && colon[1] ? strtof(colon + 1, &end) : 1;
    *scale = end && !*end ? told : 1;
    if (end && !*end) /* else the colon is one of the path */
        *colon = '\0';
    check(rz_adapter_load(model, path, NULL, &adapter, &err));
    return adapter;
}

int main(int argc, char **argv) {
    rz_runtime_params threads = {.struct_size = sizeof threads};
    rz_model_params load = {.struct_size = sizeof load};
    rz_conversation_params begin = {.struct_size = sizeof begin, .overflow = RZ_OVERFLOW_FORGET};
    char *paths[MAX_ADAPTERS], *path = NULL, *question = NULL, *system = NULL, *tools = NULL, *draft = NULL;
    const char *choice = "auto";
    int limits_reasoning = 0, failed = 0;
    for (int o; (o = getopt_long(argc, argv, "m:p:s:n:t:h", names, NULL)) != -1;) {
        switch (o) {
        case 'm': path = optarg; break;
        case 'p': question = optarg; break;
        case 's': system = optarg; break;
        case 'n': reply.max_tokens = (uint32_t)number(optarg); break;
        case 't': threads.threads = (uint32_t)number(optarg); break;
        case 'T': sampler.temperature = (float)number(optarg), reply.sampler = &sampler; break;
        case 'S': sampler.seed = (uint64_t)number(optarg), reply.sampler = &sampler; break;
        case 'g': sampler.temperature = 0, reply.sampler = &sampler; break;
        case 'j': reply.grammar_kind = RZ_GRAMMAR_JSON_SCHEMA, reply.grammar = read_all(optarg); break;
        case 'f': tools = read_all(optarg); break;
        case 'c': choice = "required"; break;
        case 'r': reply.reasoning_tokens = (uint32_t)number(optarg), limits_reasoning = 1; break;
        case 'a': paths[begin.n_adapters++ % MAX_ADAPTERS] = optarg; break;
        case 'd': draft = optarg; break;
        default: exit((fputs(usage, o == 'h' ? stdout : stderr), o == 'h' ? 0 : 2));
        }
    }
    if (!path || optind < argc || begin.n_adapters > MAX_ADAPTERS)
        exit((fputs(usage, stderr), 2));
    reply.reasoning = limits_reasoning && reply.reasoning_tokens == 0 ? RZ_REASONING_OFF : RZ_REASONING_MODEL;
    reply.grammar_len = reply.grammar ? strlen(reply.grammar) : 0;
    check(rz_cancel_new(&cancel, &err));
    signal(SIGINT, on_interrupt);

    rz_runtime *runtime;
    rz_model *model, *small = NULL;
    check(rz_runtime_new(&threads, &runtime, &err));
    load.runtime = runtime, load.cancel = begin.cancel = cancel;
    if (draft)
        reply.draft = !strcmp(draft, "lookup") ? RZ_DRAFT_LOOKUP : !strcmp(draft, "mtp") ? RZ_DRAFT_MTP : RZ_DRAFT_MODEL;
    if (reply.draft == RZ_DRAFT_MODEL)
        check(rz_model_load(draft, &load, &small, &err));
    reply.draft_model = small;
    load.flags = reply.draft == RZ_DRAFT_MTP ? RZ_MODEL_MTP : 0;
    check(rz_model_load(path, &load, &model, &err));

    rz_adapter *adapters[MAX_ADAPTERS];
    float scales[MAX_ADAPTERS];
    for (uint32_t i = 0; i < begin.n_adapters; i++)
        adapters[i] = load_adapter(model, paths[i], &scales[i]);
    begin.adapters = adapters, begin.scales = scales;
    char json[1 << 16];
    int n = tools ? snprintf(json, sizeof json, "{\"tools\": %s, \"tool_choice\": \"%s\"}", tools, choice) : 0;
    begin.json = tools ? json : NULL, begin.json_len = n < (int)sizeof json ? (size_t)n : sizeof json - 1;
    check(rz_conversation_new(model, &begin, &conversation, &err));
    if (system)
        check(rz_conversation_add_text(conversation, "system", system, strlen(system), &err));

    rz_model_info info = {.struct_size = sizeof info};
    rz_device_info device = {.struct_size = sizeof device};
    check(rz_model_info_get(model, &info, &err));
    check(rz_device_info_get(info.device, &device, &err));
    fprintf(stderr, "%s: %s, %.*f M parameters, on %s (%s)\n\n", path, info.architecture, info.n_params < 10000000 ? 2 : 0,
            (double)info.n_params / 1e6, device.name, device.isa);
    if (question || !isatty(STDIN_FILENO)) {
        failed = take_turn(question ? question : read_all(NULL));
        print_statistics();
    } else {
        converse();
    }
    rz_conversation_free(conversation);
    rz_model_free(small);
    rz_model_free(model);
    rz_runtime_free(runtime);
    rz_cancel_free(cancel);
    return failed;
}
