// The C++ code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
// guides MODEL ADAPTER FOLDER
#include <realizar.hpp>

#include <cstring>
#include <fstream>
#include <iostream>
#include <numeric>
#include <sstream>
#include <thread>

using namespace std::chrono_literals;

// --8<-- [start:chat]
static void chat(const realizar::Model &model) {
    realizar::Conversation chat(model);
    chat.add({"system", ""});
    chat.say("Once upon a time", [](std::string_view piece) { std::cout << piece << std::flush; });
}
// --8<-- [end:chat]

// --8<-- [start:options]
static void options(const realizar::Model &model) {
    realizar::Conversation chat(model, realizar::ConversationOptions().overflow(RZ_OVERFLOW_FORGET));
    const auto sampling = realizar::SamplingOptions().temperature(0.7).top_p(0.9).seed(42);
    const auto reply = realizar::ReplyOptions().max_tokens(60).sampler(sampling).stops({"\n\n"});
    chat.say("Once upon a time", [](std::string_view piece) { std::cout << piece; }, reply);
}
// --8<-- [end:options]

// --8<-- [start:streaming]
static void streaming(const realizar::Model &model) {
    realizar::Conversation chat(model);
    chat.add({"user", "Once upon a time"});
    chat.reply(realizar::ReplyOptions().max_tokens(60));
    chat.run([](uint32_t kind, uint32_t, uint32_t, std::string_view text) {
        if (kind == RZ_CHAT_EVENT_CONTENT) std::cout << text << std::flush;
        if (kind == RZ_CHAT_EVENT_REASONING) std::cerr << text;
    });
}
// --8<-- [end:streaming]

// --8<-- [start:stopping]
static void stopping(const realizar::Model &model) {
    realizar::Cancel cancel;
    auto options = realizar::ReplyOptions().keep(); // a discarded reply keeps its text
    options->cancel = cancel.get();
    realizar::Conversation chat(model);
    chat.add({"user", "Once upon a time"});
    chat.reply(options);
    cancel.deadline(20ms); // or cancel.fire() from any thread
    try {
        while (chat.step()) continue;
    } catch (const realizar::DeadlineError &) { // after cancel.fire(): CancelledError
        cancel.reset(); // resumes the paused reply
        while (chat.step()) continue;
    }
}
// --8<-- [end:stopping]

// --8<-- [start:structured]
static std::string structured(const realizar::Model &model) {
    const std::string schema = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"], "additionalProperties": false})";
    realizar::Conversation chat(model);
    std::string json;
    chat.say("Lily is five.", [&](std::string_view piece) { json += piece; },
             realizar::ReplyOptions().grammar_kind(RZ_GRAMMAR_JSON_SCHEMA).grammar(schema));
    return json;
}
// --8<-- [end:structured]

// --8<-- [start:tools]
static std::string tools(const realizar::Model &model) {
    realizar::Conversation chat(model, R"({"tools": [{"type": "function", "function": {"name": "weather",
        "description": "The weather of a city", "parameters": {"type": "object",
        "properties": {"city": {"enum": ["Paris", "Tokyo"]}}, "required": ["city"],
        "additionalProperties": false}}}], "parallel_tool_calls": false,
        "tool_choice": "required"})"); // "auto": the model decides
    chat.add({"user", "Is it warm in Paris?"});
    chat.reply(realizar::ReplyOptions().max_tokens(100));
    std::string id, name, arguments;
    chat.run([&](uint32_t kind, uint32_t, uint32_t, std::string_view text) {
        if (kind == RZ_CHAT_EVENT_TOOL_ID) id = text;
        if (kind == RZ_CHAT_EVENT_TOOL_NAME) name = text;
        if (kind == RZ_CHAT_EVENT_TOOL_ARGUMENTS) arguments += text;
    });
    // The tool call is a message with an id, to which the result refers.
    chat.add_json(R"({"role": "tool", "tool_call_id": ")" + id + R"(", "content": "21 C"})");
    return name + arguments; // the next chat.reply() answers with the result
}
// --8<-- [end:tools]

// --8<-- [start:embeddings]
static double embeddings(const realizar::Model &model) {
    const auto options = realizar::EmbedOptions().pooling(RZ_POOLING_MEAN); // default: the model's own pooling
    const std::vector<float> vectors = model.embed_texts({"a small girl", "a little girl"}, options);
    const auto second = vectors.begin() + static_cast<std::ptrdiff_t>(vectors.size() / 2);
    return std::inner_product(vectors.begin(), second, second, 0.0); // normalized, so this is the cosine
}
// --8<-- [end:embeddings]

// --8<-- [start:pictures]
static void pictures(const realizar::Model &model, const char *projector, const std::string &file) {
    realizar::Encoder encoder(model, projector); // "mmproj-....gguf", or the folder of the model
    realizar::Media media = encoder.encode(file.data(), file.size());
    auto prompt = realizar::Prompt::of_chat(model, R"({"messages": [{"role": "user", "content": [
        {"type": "image", "media": 0}, {"type": "text", "text": "What is this?"}]}]})", {&media}).value();
    realizar::Cache cache(model);
    realizar::Job job(cache, prompt, 0, realizar::JobOptions().max_tokens(200));
    while (auto piece = job.next()) std::cout << *piece << std::flush;
}
// --8<-- [end:pictures]

// --8<-- [start:adapters]
static void adapters(const realizar::Model &model, const char *path) {
    realizar::Adapter adapter(model, path);
    rz_adapter *used[] = {adapter.get()};
    const float scales[] = {1.0f};
    auto params = realizar::params<rz_conversation_params>();
    params.adapters = used, params.scales = scales, params.n_adapters = 1;
    realizar::Conversation chat(model, params);
    chat.say("Once upon a time", [](std::string_view piece) { std::cout << piece; });
}
// --8<-- [end:adapters]

// --8<-- [start:saving]
static void saving(const realizar::Model &model) {
    std::stringstream file; // or a file, opened with std::ios::binary
    realizar::Conversation chat(model);
    chat.say("Once upon a time", [](std::string_view) {});
    chat.save([&](const void *data, size_t n) {
        return file.write(static_cast<const char *>(data), static_cast<std::streamsize>(n)) ? 0 : EIO;
    });
    realizar::Conversation later = realizar::Conversation::load(model, [&](void *out, size_t n) {
        return file.read(static_cast<char *>(out), static_cast<std::streamsize>(n)) ? 0 : file.eof() ? RZ_ERR_FORMAT : EIO;
    }).value(); // continues bit-identically
}
// --8<-- [end:saving]

// --8<-- [start:store]
static uint64_t prefixes(const realizar::Model &model, const char *folder) {
    // Without a folder the prefixes are freed with the store.
    realizar::Store store(model, realizar::StoreOptions().min_tokens(4).path(folder));
    realizar::ConversationOptions options;
    options->store = store.get();
    for (int i = 0; i < 2; i++) { // the second conversation reuses the prompt
        realizar::Conversation chat(model, options);
        chat.say("Once upon a time there was a long instruction", [](std::string_view) {});
    }
    return store.info().hits;
}
// --8<-- [end:store]

// --8<-- [start:batches]
static void batches(const realizar::Model &model) {
    const auto options = realizar::ReplyOptions().max_tokens(40);
    std::vector<realizar::Conversation> chats;
    for (const char *question : {"Once upon a time", "The little dog", "One day"}) {
        chats.emplace_back(model);
        chats.back().add({"user", question});
        chats.back().reply(options);
    }
    // Each step decodes a token of every conversation.
    while (realizar::Conversation::step(chats)) continue; // take parts here: chat.parts(each)
    for (realizar::Conversation &chat : chats) chat.check(); // throws the error of this conversation only
}
// --8<-- [end:batches]

// --8<-- [start:frames]
// Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the end of the reply.
static bool frame(realizar::Conversation &chat) {
    const bool more = chat.step(2ms);
    chat.parts([](uint32_t kind, uint32_t, uint32_t, std::string_view text) {
        if (kind == RZ_CHAT_EVENT_CONTENT) std::cout << text;
    });
    return more;
}
// --8<-- [end:frames]

// --8<-- [start:plan]
static void plan(const char *path) {
    const auto room = realizar::CacheOptions().capacity(4096);
    // The memory of one model and four conversations of 4,096 tokens each; no weight is read.
    const rz_model_plan plan = realizar::Model::plan(path, realizar::LoadOptions(), room, 4);
    std::cout << "weights " << (plan.weights_host >> 20) << " MB, each conversation " << (plan.cache_host >> 20)
              << " MB, all " << (plan.total_host >> 20) << " MB\n";
}
// --8<-- [end:plan]

// --8<-- [start:memory]
static void memory(const char *path) {
    realizar::Runtime runtime(realizar::RuntimeOptions().threads(2).memory_limit(512 << 20)); // above it: LimitError
    realizar::LoadOptions load;
    load->runtime = runtime.get();
    realizar::Model model(path, load);
    const auto small = realizar::CacheOptions().capacity(2048).k_type(RZ_TYPE_Q8_0).v_type(RZ_TYPE_Q8_0);
    realizar::Conversation chat(model, realizar::ConversationOptions().cache(small));
}
// --8<-- [end:memory]

// --8<-- [start:gpus]
static void gpus(const char *path) {
    for (const rz_device_info &device : realizar::devices())
        std::cout << device.index << ": " << device.name << ", " << (device.available ? device.isa : device.unavailable) << '\n';
    // 0: the library chooses. Or set the index of a device, or LoadOptions()->devices for several.
    realizar::Model model(path, realizar::LoadOptions().device(0));
    std::cout << "on device " << model.info().device << ", " << model.info().gpu_layers << " layers on GPUs\n";
}
// --8<-- [end:gpus]

// --8<-- [start:determinism]
// For tests: returns a reply, which is the same for every number of threads.
static std::string said(const char *path, uint32_t threads) {
    realizar::Runtime runtime(realizar::RuntimeOptions().threads(threads));
    realizar::LoadOptions load;
    load->runtime = runtime.get();
    realizar::Model model(path, load);
    realizar::Conversation chat(model);
    chat.say("Once upon a time", [](std::string_view) {});
    return chat.messages(1);
}
// --8<-- [end:determinism]

// --8<-- [start:errors]
static void load_or_explain(const char *path) {
    try {
        realizar::Model model(path);
    } catch (const realizar::IoError &error) {
        std::cerr << "fetch the model first: " << error.what() << '\n';
    } catch (const realizar::Error &error) {
        std::cerr << error.name() << ": " << error.what() << '\n';
    }
    // Without exceptions: a Result, which is true if there is a value.
    auto model = realizar::Model::load(path);
    if (!model) std::cerr << model.error().message << '\n';
}
// --8<-- [end:errors]

static int fail(const char *what) {
    std::cerr << "FAILED: " << what << '\n';
    return 1;
}

int main(int argc, char **argv) try {
    if (argc < 4) return 2;
    realizar::Model model(argv[1]);
    chat(model);
    std::cout << '\n';
    options(model);
    streaming(model);
    stopping(model);
    if (structured(model).rfind("{\"name\":", 0) != 0) return fail("structured");
    if (tools(model).rfind("weather{\"city\":", 0) != 0) return fail("tools");
    if (!(embeddings(model) > 0.5)) return fail("embeddings");
    try {
        pictures(model, argv[1], "");
        return fail("an encoder");
    } catch (const realizar::Error &error) {
        if (error.code() != RZ_ERR_UNSUPPORTED) return fail("pictures");
    }
    adapters(model, argv[2]);
    saving(model);
    if (prefixes(model, argv[3]) == 0) return fail("store");
    batches(model);
    realizar::Conversation chat(model);
    chat.add({"user", "Once upon a time"});
    chat.reply(realizar::ReplyOptions().max_tokens(40));
    while (frame(chat)) continue;
    plan(argv[1]);
    memory(argv[1]);
    gpus(argv[1]);
    if (said(argv[1], 1) != said(argv[1], 3)) return fail("determinism");
    load_or_explain("none.gguf");
    std::cout << "all ran\n";
} catch (const std::exception &error) {
    return fail(error.what());
}
