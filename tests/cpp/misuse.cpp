// What a program may do wrong with realizar.hpp, and what it is told: misuse model.gguf adapter.gguf
// model-with-a-template.gguf
#include <realizar.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#if __has_include(<span>) && __cplusplus >= 202002L
#include <span>
#endif

static int failures = 0;
#define EXPECT(condition) \
    if (!(condition)) failures++, std::cout << "FAILED: line " << __LINE__ << ": " << #condition << '\n'

size_t tokens_by_the_second_file(const realizar::Model &model, std::string_view text); // of second.cpp

/// What a call throws: the message of an `Expected`, or why it is none.
template <class Expected, class Call> std::string thrown(Call call) {
    try {
        call();
        return "nothing";
    } catch (const Expected &error) {
        return error.what();
    } catch (const std::exception &error) {
        return std::string("another exception: ") + error.what();
    }
}

template <class Call> std::string invalid(Call call) { return thrown<realizar::InvalidArgumentError>(call); }

static bool has(const std::string &text, std::string_view part) {
    if (text.find(part) != text.npos) return true;
    std::cout << "\"" << text << "\" has no \"" << part << "\"\n";
    return false;
}

static void options() {
    const std::string whole = "; it must be a whole number from 0 to ";
    realizar::ReplyOptions reply;
    EXPECT(invalid([&] { reply.max_tokens(-1); }) == "rz_reply_params.max_tokens is -1" + whole + "4294967295");
    EXPECT(invalid([&] { reply.max_tokens(1LL << 32); }) == "rz_reply_params.max_tokens is 4294967296" + whole + "4294967295");
    EXPECT(invalid([&] { reply.priority(1u << 31); }) == "rz_reply_params.priority is 2147483648; it must be a whole number from -2147483648 to 2147483647");
    EXPECT(invalid([&] { realizar::RuntimeOptions().memory_limit(-5); }) == "rz_runtime_params.memory_limit is -5" + whole + "18446744073709551615");
    EXPECT(invalid([&] { realizar::StoreOptions().max_entries(-1L); }) == "rz_store_params.max_entries is -1" + whole + "18446744073709551615");
    EXPECT(invalid([&] { realizar::SamplingOptions().seed(-1).top_k(2); }) == "rz_sampler_params.seed is -1" + whole + "18446744073709551615");
    EXPECT(has(invalid([&] { realizar::SamplingOptions().temperature(1e300); }), "rz_sampler_params.temperature is 1"));
    EXPECT(invalid([&] { realizar::LoadOptions().packed_path(std::string_view("a\0b", 3)); }) == "rz_model_params.packed_path has a NUL; it must have none");
    EXPECT(invalid([&] { reply.stops({"a", std::string("b\0", 2)}); }) == "rz_reply_params.stops has a NUL; it must have none");
    // What was refused has changed nothing, and what was given is there, in copies too.
    const rz_reply_params &plain = reply;
    EXPECT(plain.max_tokens == 0 && plain.priority == 0 && plain.struct_size == sizeof plain);
    realizar::ReplyOptions copy;
    {
        realizar::ReplyOptions first;
        first.max_tokens(7).priority(-3).keep().go_on().keep(false).stops({"one", "two"}).grammar("[\"a\"]").grammar_kind(RZ_GRAMMAR_CHOICES);
        first.sampler(realizar::SamplingOptions().temperature(0.5).top_k(4u).seed(UINT64_MAX));
        copy = first;
    }
    const rz_reply_params &raw = copy;
    EXPECT(raw.max_tokens == 7 && raw.priority == -3 && raw.flags == RZ_REPLY_CONTINUE && raw.n_stops == 2 && raw.stops[1] == std::string("two"));
    EXPECT(std::string_view(raw.grammar, raw.grammar_len) == "[\"a\"]" && raw.sampler->temperature == 0.5f && raw.sampler->seed == UINT64_MAX);
    copy->reasoning = RZ_REASONING_OFF;
    EXPECT(raw.reasoning == RZ_REASONING_OFF);
}

static void moved(const char *path) {
    realizar::Model model(path), taken = std::move(model);
    realizar::Cache cache(taken), kept = std::move(cache);
    realizar::Sampler sampler, other = std::move(sampler);
    realizar::Cancel cancel, fired = std::move(cancel);
    realizar::Store store(taken), stored = std::move(store);
    realizar::Adapter *none = nullptr;
    for (const std::string &message : {
             invalid([&] { (void)model.info(); }), invalid([&] { (void)model.tokenize("x"); }), invalid([&] { (void)model.embed_texts({"x"}); }),
             invalid([&] { realizar::Cache again(model); }), invalid([&] { cache.prefill({1}); }), invalid([&] { (void)cache.logits(); }),
             invalid([&] { (void)cache.fork(); }), invalid([&] { (void)cache.tokens(); }), invalid([&] { cache.save([](const void *, size_t) { return 0; }); }),
             invalid([&] { (void)cache.generate(1, 4); }), invalid([&] { realizar::Job job(cache, {1}); }), invalid([&] { cancel.deadline(std::chrono::seconds(1)); }),
             invalid([&] { store.put(kept); }), invalid([&] { (void)store.info(); }),
         })
        EXPECT(has(message, "is NULL"));
    // What may be left out is not left out in silence.
    kept.prefill({1, 403});
    for (const std::string &message : {
             invalid([&] { (void)kept.sample(&sampler); }), invalid([&] { kept.prefill({1}, &cancel); }), invalid([&] { kept.set_cancel(&cancel); }),
             invalid([&] { (void)realizar::Cache::decode({&kept}, {1}, {&sampler}); }), invalid([&] { (void)realizar::Cache::decode({&cache}, {1}); }),
             invalid([&] { (void)realizar::Cache::decode({nullptr}, {1}); }), invalid([&] { realizar::Job::step({nullptr}); }),
             invalid([&] { realizar::Conversation::step({nullptr}); }), invalid([&] { kept.set_adapters({{none, 1.0f}}); }),
             invalid([&] { (void)realizar::Prompt::of_chat(taken, "{\"messages\": []}", {nullptr}).value(); }),
         })
        EXPECT(has(message, "freed") || has(message, "NULL"));
    EXPECT(cache.size() == 0 && cache.capacity() == 0 && !model.is_end(2) && !cancel.is_fired());
    cancel.fire(), cancel.reset(), model.reset_metrics();
    EXPECT(kept.size() == 2);
}

static void texts(const realizar::Model &chatting) {
    const std::string_view user = "user", prompt = "Once upon a time";
    realizar::Conversation talk(chatting);
    std::string said;
    talk.say(prompt, [&](std::string_view piece) { said += piece; }, realizar::ReplyOptions().max_tokens(9));
    EXPECT(!said.empty());
    talk.rewind(0);
    talk.add({std::string(user), std::string("a\0b", 3)}); // the library takes the NUL of a content
    EXPECT(has(talk.messages(), "a\\u0000b"));
    talk.rewind(0);
    EXPECT(invalid([&] { talk.say(std::string_view("a\0b", 3), [](std::string_view) {}); }) == "text has a NUL; it must have none");
    EXPECT(invalid([&] { talk.say(static_cast<const char *>(nullptr), [](std::string_view) {}); }) == "text is null; it must be set");
    EXPECT(invalid([&] { realizar::Model none(std::string_view("a\0b", 3)); }) == "path has a NUL; it must have none");
    EXPECT(invalid([&] { realizar::Adapter none(chatting, std::string("a\0b", 3)); }) == "path has a NUL; it must have none");
    EXPECT(invalid([&] { realizar::Encoder none(chatting, static_cast<const char *>(nullptr)); }) == "path is null; it must be set");
    EXPECT(has(thrown<realizar::IoError>([] { realizar::Model none(std::filesystem::path("none.gguf")); }), "none.gguf"));
    EXPECT(has(thrown<realizar::NotFoundError>([&] { (void)chatting.meta(std::string_view("none")); }), "none"));
    EXPECT(tokens_by_the_second_file(chatting, prompt) == 5);
    // Lists of tokens in all their forms.
    realizar::Cache cache(chatting);
    const std::array<uint32_t, 2> two{1, 403};
    const uint32_t *pointer = two.data();
    cache.prefill(two), cache.prefill({407}), cache.prefill(std::vector<uint32_t>{261}), cache.prefill({pointer, 2});
#ifdef __cpp_lib_span
    cache.prefill(std::span(two));
#endif
    EXPECT(cache.size() == (__cplusplus >= 202002L ? 8u : 6u));
}

/// The chat that a program makes in a minute: cancelled, with a schema, with tools, four at once.
static void chats(const realizar::Model &chatting) {
    realizar::Conversation talk(chatting, "{\"messages\": []}");
    realizar::Cancel cancel;
    realizar::ReplyOptions options;
    options->cancel = cancel.get();
    std::string said;
    EXPECT(thrown<realizar::CancelledError>([&] { talk.say("Once upon a time", [&](std::string_view piece) { said += piece, cancel.fire(); }, options); }) == "cancelled");
    EXPECT(!said.empty() && has(talk.messages(), "\"finish_reason\":\"cancelled\""));
    talk.rewind(0);
    std::string json;
    talk.say("A number", [&](std::string_view piece) { json += piece; },
             realizar::ReplyOptions().grammar_kind(RZ_GRAMMAR_JSON_SCHEMA).grammar("{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 9}"));
    EXPECT(json.size() == 1 && json[0] >= '0' && json[0] <= '9');
    // A second reply in the middle of one is refused, and the first goes on.
    talk.rewind(0);
    std::string first, refusal;
    talk.say("Once upon a time", [&](std::string_view piece) {
        first += piece;
        if (refusal.empty()) refusal = thrown<realizar::BusyError>([&] { talk.say("And?", [](std::string_view) {}); });
    }, realizar::ReplyOptions().max_tokens(9));
    EXPECT(has(refusal, "conversation") && talk.info().n_messages == 2 && has(talk.messages(), first));
    struct Mine {};
    try { // an exception of the program's own passes through
        talk.rewind(0);
        talk.say("Once upon a time", [](std::string_view) { throw Mine(); });
        EXPECT(false);
    } catch (const Mine &) {
        EXPECT(talk.info().n_messages == 2);
    }
    talk.rewind(0), talk.add({"user", "Once upon a time"}), talk.reply();
    try { // out of a callback of parts too
        talk.run([](uint32_t, uint32_t, uint32_t, std::string_view) { throw Mine(); });
        EXPECT(false);
    } catch (const Mine &) {
    }
    talk.stop();
    std::vector<realizar::Conversation> four;
    std::vector<realizar::Conversation *> all;
    for (const char *question : {"One", "Two", "Three", "Four"}) {
        four.emplace_back(chatting).add({"user", question});
        four.back().reply(realizar::ReplyOptions().max_tokens(6));
    }
    for (realizar::Conversation &one : four) all.push_back(&one);
    EXPECT(realizar::Conversation::step(all));
    while (realizar::Conversation::step(four)) {}
    for (realizar::Conversation &one : four) {
        one.check();
        EXPECT(one.info().end_reason == RZ_END_LENGTH && one.info().n_messages == 2);
    }
    const auto mean = realizar::EmbedOptions().pooling(RZ_POOLING_MEAN);
    EXPECT(chatting.embed_texts({"one", "two"}, mean) == chatting.embed({chatting.tokenize("one"), chatting.tokenize("two")}, mean));
}

/// Kilobytes that the process has after so many chats; 0 where the system does not tell.
static long resident_after(const realizar::Model &chatting, int chats) {
    for (int i = 0; i < chats; i++) {
        realizar::Conversation talk(chatting);
        talk.say("Once upon a time", [](std::string_view) {}, realizar::ReplyOptions().max_tokens(3));
    }
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
    return 0;
}

/// Chats leave no memory behind; the KV cache of each takes half a megabyte.
static void memory(const realizar::Model &chatting) {
    const long before = resident_after(chatting, 100);
    EXPECT(resident_after(chatting, 200) - before < 16000);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    options();
    moved(argv[1]);
    const realizar::Model chatting(std::filesystem::path(argv[3]), realizar::LoadOptions().deterministic());
    texts(chatting);
    chats(chatting);
    memory(chatting);
    if (failures == 0) std::cout << "ok\n";
    return failures != 0;
}
