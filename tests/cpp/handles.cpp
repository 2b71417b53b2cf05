// Every member of realizar.hpp once, on the tiny model: handles model.gguf adapter.gguf model-with-a-template.gguf
#include <realizar.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#if __cplusplus >= 202002L
#include <ranges>
#include <stdexcept>
#endif

static int failures = 0;
#define EXPECT(condition) \
    if (!(condition)) failures++, std::cout << "FAILED: line " << __LINE__ << ": " << #condition << '\n'

template <class T>
constexpr bool move_only = std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                           !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(move_only<realizar::Runtime> && move_only<realizar::Model> && move_only<realizar::Cache>);
static_assert(move_only<realizar::Grammar> && move_only<realizar::Adapter> && move_only<realizar::Sampler> && move_only<realizar::TextStream> && move_only<realizar::ChatParser> && move_only<realizar::Cancel>);
static_assert(move_only<realizar::Job> && move_only<realizar::Store>);
static_assert(move_only<realizar::Encoder> && move_only<realizar::Media> && move_only<realizar::Prompt>);
#ifdef __cpp_lib_ranges
static_assert(std::ranges::input_range<realizar::Job> && std::input_iterator<realizar::Job::Iterator>);
#endif

template <class Call> rz_status failure(Call call) {
    try {
        call();
        return RZ_OK;
    } catch (const realizar::Error &error) {
        return *error.what() ? error.code() : RZ_OK;
    }
}

static realizar::Model load(const char *path) {
    auto runtime_params = realizar::params<rz_runtime_params>();
    runtime_params.threads = 2;
    realizar::Runtime runtime(runtime_params);
    auto params = realizar::params<rz_model_params>();
    params.runtime = runtime.get();
    return realizar::Model(path, params); // keeps the runtime alive
}

/// Rows of media that are the embeddings of tokens, the first tensor of the tiny model, give what these tokens give.
static void media(const realizar::Model &model, const char *path, const std::vector<uint32_t> &tokens) {
    std::ifstream file(path, std::ios::binary);
    std::vector<float> table(512 * 64), rows;
    file.seekg(14176);
    file.read(reinterpret_cast<char *>(table.data()), std::streamsize(table.size() * sizeof(float)));
    for (size_t i = 1; i < 4; i++) rows.insert(rows.end(), &table[tokens[i] * 64], &table[tokens[i] * 64] + 64);
    const realizar::Media media = realizar::Media::from_rows(model, RZ_MEDIA_IMAGE, rows.data(), 3, 64).value();
    EXPECT(media.info().n_rows == 3 && media.info().columns == 3 && media.rows() == rows);
    const std::vector<uint32_t> rest(tokens.begin() + 4, tokens.end());
    const realizar::Prompt prompt(model, {realizar::part({tokens[0]}), realizar::part(media), realizar::part(rest)}, RZ_PROMPT_BARE);
    std::vector<uint32_t> expected = tokens;
    std::fill(expected.begin() + 1, expected.begin() + 4, RZ_TOKEN_MEDIA);
    EXPECT(prompt.size() == tokens.size() && prompt.tokens() == expected);
    realizar::Cache plain(model), cache(model);
    plain.prefill(tokens);
    cache.prefill_prompt(prompt);
    EXPECT(plain.logits() == cache.logits() && cache.tokens() == expected);
    EXPECT(cache.match_prompt(prompt) == tokens.size() && cache.match(tokens) == 1);
    auto raw = realizar::params<rz_embed_params>();
    raw.pooling = RZ_POOLING_MEAN;
    EXPECT(realizar::Prompt::embed(model, {&prompt}, raw).value() == model.embed({tokens}, raw));
    auto kept = realizar::params<rz_store_params>();
    kept.min_tokens = 2;
    const realizar::Store store(model, kept);
    EXPECT(store.take(prompt).size() == 0);
    store.put(cache);
    EXPECT(store.take(prompt).size() == tokens.size() - 1);
    EXPECT(realizar::Encoder::load_from(model, nullptr, 0).status() == RZ_ERR_INVALID_ARGUMENT);
    cache.truncate(2);
    auto params = realizar::params<rz_job_params>();
    params.max_tokens = 20;
    plain.truncate(0);
    realizar::Job said(plain, tokens, params), seen(cache, prompt, 2, params);
    while (said.step()) {}
    while (seen.step()) {}
    EXPECT(said.text() == seen.text() && !said.tokens().empty());

    std::vector<char> saved;
    media.save([&](const void *data, size_t n) {
        saved.insert(saved.end(), static_cast<const char *>(data), static_cast<const char *>(data) + n);
        return 0;
    });
    size_t at = 0;
    const realizar::Media again = realizar::Media::load(model, [&](void *out, size_t n) {
        if (saved.size() - at < n) return 5;
        std::memcpy(out, saved.data() + at, n);
        at += n;
        return 0;
    }).value();
    EXPECT(!std::memcmp(again.info().hash, media.info().hash, 32) && again.rows() == rows);
    realizar::Media done = realizar::Media::from_rows(model, RZ_MEDIA_IMAGE, rows.data(), 3, 64).value();
    EXPECT(done.step(1) == RZ_DONE);

    EXPECT(realizar::Media::from_rows(model, RZ_MEDIA_IMAGE, rows.data(), 1, 63).status() == RZ_ERR_INVALID_ARGUMENT);
    EXPECT(realizar::Prompt::make(model, {realizar::part({512})}).status() == RZ_ERR_INVALID_ARGUMENT);
    EXPECT(failure([&] { realizar::Encoder(model, path); }) == RZ_ERR_UNSUPPORTED);
    const char *chat = "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}]}]}";
    EXPECT(realizar::Prompt::of_chat(model, chat, {&media}).status() == RZ_ERR_UNSUPPORTED); // no template
    EXPECT(realizar::Encoder::plan(model, "no such file.gguf").status() == RZ_ERR_IO);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const std::string prompt = "Once upon a time";
    const std::string story = ", there was a little girl named Lily. She loved to play outside in the park.";

    EXPECT(!realizar::devices().empty() && realizar::devices()[0].kind == RZ_DEVICE_CPU);
    EXPECT(failure([] { realizar::Model("no such file.gguf"); }) == RZ_ERR_IO);

    realizar::Model model = load(argv[1]);
    EXPECT(model.info().architecture == std::string_view("llama") && model.info().n_layers == 5);
    EXPECT(model.meta("general.architecture") == "llama");
    EXPECT(failure([&] { realizar::hub_choose("hf:o/n", ""); }) == RZ_ERR_FORMAT && failure([&] { realizar::hub_choose("o/n", ""); }) == RZ_ERR_INVALID_ARGUMENT);
    EXPECT(realizar::hub_choose("hf:o/n", "{\"siblings\": [{\"rfilename\": \"m.gguf\", \"size\": 5}]}", 0, RZ_HUB_CACHED).find("\"m.gguf\"") != std::string::npos);
    EXPECT(failure([&] { model.meta("none"); }) == RZ_ERR_NOT_FOUND);
    EXPECT(failure([&] { model.render_chat({{"user", "x"}}); }) == RZ_ERR_UNSUPPORTED);
    const std::vector<uint32_t> tokens = model.tokenize(prompt);
    EXPECT(tokens.size() == 5 && model.detokenize(tokens) == prompt);
    media(model, argv[1], tokens);

    const char *hello = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}";
    EXPECT(failure([&] { model.render_chat_json(hello); }) == RZ_ERR_UNSUPPORTED);
    EXPECT(failure([&] { model.tokenize_chat("{}"); }) == RZ_ERR_INVALID_ARGUMENT);
    EXPECT(failure([&] { model.tokenize_chat("{"); }) == RZ_ERR_INVALID_ARGUMENT);
    EXPECT(model.try_tokenize_messages({{"user", "x"}, {"assistant", "y"}}).status() == RZ_ERR_UNSUPPORTED);
    std::string quoted;
    realizar::detail::quote(quoted, std::string_view("a\"\\\n\x1f\0\xc3\xa9/", 9));
    EXPECT(quoted == "\"a\\\"\\\\\\u000a\\u001f\\u0000\xc3\xa9/\"");

    // The tiny model has no template that would tell the form of replies.
    const auto take_apart = [](realizar::ChatParser &parser) {
        std::string all;
        const auto each = [&](uint32_t, uint32_t, uint32_t, std::string_view text) { all += text; };
        parser.push(1, each);
        parser.end(each);
        return all;
    };
    EXPECT(failure([&] { realizar::ChatParser parser(model, hello); take_apart(parser); }) == RZ_ERR_UNSUPPORTED);

    auto embed_params = realizar::params<rz_embed_params>();
    EXPECT(failure([&] { model.embed({tokens}); }) == RZ_ERR_UNSUPPORTED);
    embed_params.pooling = RZ_POOLING_MEAN;
    EXPECT(model.embed({tokens, {1}}, embed_params).size() == 2 * model.info().hidden_dim);

    auto cache_params = realizar::params<rz_cache_params>();
    cache_params.capacity = 40;
    realizar::Cache cache(model, cache_params);
    EXPECT(cache.capacity() == 40 && failure([&] { cache.logits(); }) == RZ_ERR_NOT_READY);

    realizar::Cancel cancel;
    cancel.fire();
    const auto refused = cache.try_prefill(tokens, &cancel);
    EXPECT(!refused && refused.status() == RZ_ERR_CANCELLED && *refused.error().message && cache.size() == 0);
    EXPECT(failure([&] { cache.prefill(tokens, &cancel); }) == RZ_ERR_CANCELLED);
    cache.set_cancel(&cancel);
    EXPECT(cache.try_prefill(tokens).status() == RZ_ERR_CANCELLED);
    cache.set_cancel(nullptr);
    cancel.reset();
    cache.prefill(tokens, &cancel);
    const std::vector<float> logits = cache.logits();
    const uint32_t first = cache.sample();
    EXPECT(cache.size() == 5 && logits.size() == model.info().vocab_size);
    EXPECT(std::max_element(logits.begin(), logits.end()) - logits.begin() == first);

    // A cache that is saved goes on as the one it was.
    std::vector<char> saved;
    cache.save([&](const void *data, size_t n) {
        saved.insert(saved.end(), static_cast<const char *>(data), static_cast<const char *>(data) + n);
        return 0;
    });
    size_t at = 0;
    auto read = [&](void *out, size_t n) {
        if (saved.size() - at < n) return 5;
        std::memcpy(out, saved.data() + at, n);
        at += n;
        return 0;
    };
    realizar::Cache loaded = realizar::Cache::load(model, read).value();
    EXPECT(loaded.logits() == logits && loaded.tokens() == tokens && loaded.match(tokens) == 5);
    EXPECT(realizar::Cache::load(model, read).status() == RZ_ERR_IO);
    EXPECT(loaded.logprobs(1).front().first == first && loaded.logprobs(600).size() == logits.size());
    // Memory is asked for what there is, not for what was asked for.
    EXPECT(loaded.logprobs(UINT32_MAX).size() == logits.size());
    EXPECT(failure([&] { realizar::Cache(model).logprobs(UINT32_MAX); }) == RZ_ERR_NOT_READY);
    {
        auto small = realizar::params<rz_cache_params>();
        small.capacity = 16;
        realizar::Cache full(model, small);
        full.prefill(tokens);
        const realizar::Generated made = full.try_generate(full.sample(), SIZE_MAX);
        EXPECT(made.status == RZ_ERR_CONTEXT_FULL && made.tokens.size() + tokens.size() == 16);
    }
    loaded.release();
    loaded.shift(1, 1);
    EXPECT(loaded.size() == 4 && loaded.score({7, 8}).size() == 2 && loaded.size() == 6);

    // A model is the same from memory and from a function.
    std::ifstream file(argv[1], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const rz_source in_memory = realizar::memory_source(bytes.data(), bytes.size());
    EXPECT(realizar::Model::load_from(&in_memory, 1).value().tokenize(prompt) == tokens);
    auto copy = [&](uint64_t offset, void *out, size_t n) {
        std::memcpy(out, bytes.data() + offset, n);
        return 0;
    };
    const rz_source behind_reader = realizar::reader_source(copy, bytes.size());
    EXPECT(realizar::Model::load_from(&behind_reader, 1).value().tokenize(prompt) == tokens);
    EXPECT(realizar::set_allocator(realizar::params<rz_allocator>()).status() == RZ_ERR_INVALID_ARGUMENT);

    // A fork and a rewound cache go the same way, token by token and in one call.
    realizar::Cache fork = cache.fork();
    realizar::TextStream stream(model);
    std::string text;
    uint32_t token = first;
    for (size_t i = 0; i < 27; i++, token = fork.decode(token)) text += stream.push(token);
    text += stream.flush();
    EXPECT(text == story);
    std::vector<uint32_t> all{first};
    for (uint32_t next : cache.generate(first, 26)) all.push_back(next);
    EXPECT(model.detokenize(all) == story && cache.size() == 31);
    cache.truncate(4);
    cache.prefill(std::array<uint32_t, 1>{tokens[4]});
    EXPECT(cache.logits() == logits);

    // Under a grammar a text is one of the choices, and ends.
    const realizar::Grammar grammar(model, RZ_GRAMMAR_CHOICES, "[\" red\", \" blue\"]");
    EXPECT(failure([&] { realizar::Grammar(model, RZ_GRAMMAR_REGEX, "("); }) == RZ_ERR_INVALID_ARGUMENT);
    realizar::Sampler constrained;
    constrained.set_grammar(&grammar);
    std::vector<uint32_t> chosen{cache.sample(&constrained)};
    for (uint32_t next : cache.generate(chosen[0], 8, &constrained)) chosen.push_back(next);
    const std::string color = model.detokenize(chosen);
    EXPECT((color == "red" || color == "blue" || color == " red" || color == " blue") && rz_token_is_end(model.get(), chosen.back()));
    constrained.set_grammar(nullptr);
    cache.truncate(4);
    cache.prefill(std::array<uint32_t, 1>{tokens[4]});
    EXPECT(cache.sample(&constrained) == first);

    // With an adapter a text is another one, with its opposite beside it the same.
    const realizar::Adapter adapter(model, argv[2]);
    EXPECT(realizar::Adapter::make(model, "no such file.gguf").status() == RZ_ERR_IO);
    cache.set_adapters({{&adapter, 1.0f}});
    EXPECT(cache.size() == 0);
    cache.prefill(tokens);
    EXPECT(cache.logits() != logits);
    EXPECT(!cache.try_set_adapters({{&adapter, std::numeric_limits<float>::infinity()}}) && cache.size() == tokens.size());
    cache.set_adapters({{&adapter, 1.0f}, {&adapter, -1.0f}});
    cache.prefill(tokens);
    EXPECT(cache.sample() == first);
    cache.set_adapters({});
    cache.prefill(tokens);
    EXPECT(cache.logits() == logits);

    // A list in braces is the tokens in it, of one, two or three.
    cache.truncate(0);
    for (uint32_t n : {1u, 2u, 3u}) {
        if (n == 1) cache.prefill({1});
        if (n == 2) cache.prefill({0, 1});
        if (n == 3) cache.prefill({1, 2, 3});
        EXPECT(cache.size() == n);
        cache.truncate(0);
    }
    EXPECT(model.detokenize({tokens[1], tokens[2]}) == model.detokenize(std::vector(tokens.begin() + 1, tokens.begin() + 3)));

    // Tokens made before a failure are kept, and all but the last are in the cache.
    cache.prefill(tokens);
    const realizar::Generated made = cache.try_generate(first, 64);
    EXPECT(made.status == RZ_ERR_CONTEXT_FULL && made.error.code == made.status && made.tokens.size() == 35);
    EXPECT(cache.size() == 40);
    cache.truncate(5);
    try {
        (void)cache.generate(first, 64);
        EXPECT(false && "it failed");
    } catch (const realizar::GenerateError &error) {
        EXPECT(error.code() == RZ_ERR_CONTEXT_FULL && error.tokens() == made.tokens && error.needed() > made.tokens.size());
    }
    EXPECT(cache.try_generate(first, 1).status == RZ_ERR_CONTEXT_FULL && cache.try_fork() && !cache.try_decode(first));
    EXPECT(realizar::Model::load("no such file.gguf").status() == RZ_ERR_IO);

    uint32_t attributes = 0;
    EXPECT(model.token_bytes(1, &attributes) == "<s>" && attributes == RZ_ATTR_CONTROL);
    EXPECT(model.meta_keys().size() > 5 && model.chat_flags() == (RZ_TOKENIZE_PARSE_SPECIAL | RZ_TOKENIZE_ADD_SPECIAL));

    auto sampling = realizar::params<rz_sampler_params>();
    sampling.temperature = 1;
    sampling.seed = 7;
    realizar::Sampler one(sampling), two(sampling);
    cache.truncate(0);
    cache.prefill(tokens);
    realizar::Cache moved = std::move(cache);
    fork = moved.fork();
    EXPECT(fork.generate(first, 20, &one) == moved.generate(first, 20, &two));
    EXPECT(model.metrics(RZ_DEVICE_CPU).dispatches > 0 && model.metrics().prefill.count > 0);

    // A job makes the same tokens in slices, and the cache is free again when it is gone.
    {
        realizar::Cache sliced(model, cache_params);
        auto job_params = realizar::params<rz_job_params>();
        job_params.max_tokens = 27;
        realizar::Job job(sliced, tokens, job_params);
        EXPECT(failure([&] { sliced.prefill(tokens); }) == RZ_ERR_BUSY);
        std::string sliced_text;
        while (job.step(std::chrono::microseconds(50))) sliced_text += job.text();
        sliced_text += job.text();
        EXPECT(sliced_text == story && job.tokens() == all && job.info().end_reason == RZ_END_LENGTH && job.text().empty());
        EXPECT(!realizar::Job::step({&job}, std::chrono::microseconds(0)) && !realizar::Job::step(std::vector<realizar::Job *>()));
    }
    // Its text is a range of pieces, which ends with a stop string or by an error; text made ahead of that has been given.
    {
        realizar::Cache ranged(model, cache_params);
        auto job_params = realizar::params<rz_job_params>();
        const char *stop = " She";
        job_params.stops = &stop, job_params.n_stops = 1;
        realizar::Job job(ranged, tokens, job_params);
        std::string pieces;
        size_t n = 0;
        for (std::string_view piece : job) pieces += piece, n++;
        EXPECT(pieces == story.substr(0, story.find(stop)) && n > 3 && !job.next() && job.begin() == job.end());
        EXPECT(job.info().end_reason == RZ_END_STOP);
    }
    {
        realizar::Cache stopped(model, cache_params);
        realizar::Cancel stopper;
        auto job_params = realizar::params<rz_job_params>();
        job_params.cancel = stopper.get(), job_params.max_tokens = 27;
        realizar::Job job(stopped, tokens, job_params);
        std::string pieces;
        EXPECT(failure([&] {
                   for (std::string_view piece : job) {
                       pieces += piece;
                       if (pieces.size() > 20) stopper.fire();
                   }
               }) == RZ_ERR_CANCELLED);
        EXPECT(pieces.size() > 20 && story.compare(0, pieces.size(), pieces) == 0 && pieces.size() < story.size());
        EXPECT(job.try_next().status() == RZ_ERR_CANCELLED);
        stopper.reset();
        for (std::string_view piece : job) pieces += piece;
        EXPECT(pieces == story);
    }
    EXPECT(!realizar::Job::make(fork, {}));
    // The likeliest tokens in the place of each one: greedily the first is the one that was made.
    {
        realizar::Cache measured(model, cache_params);
        auto job_params = realizar::params<rz_job_params>();
        job_params.max_tokens = 6, job_params.logprobs = 2;
        realizar::Job job(measured, tokens, job_params);
        job.step();
        std::vector<realizar::TokenLogprobs> rows = job.logprobs();
        EXPECT(rows.size() == 1 && job.logprobs().empty());
        while (job.step()) {}
        for (realizar::TokenLogprobs &row : job.logprobs()) rows.push_back(std::move(row));
        EXPECT(rows.size() == 6 && job.tokens() == std::vector<uint32_t>(all.begin(), all.begin() + 6));
        for (size_t i = 0; i < rows.size(); i++) {
            const auto &likeliest = rows[i].likeliest;
            EXPECT(rows[i].token == all[i] && likeliest.size() == 2 && likeliest[0] == std::make_pair(all[i], rows[i].logprob));
            EXPECT(likeliest[1].second <= likeliest[0].second);
        }
        realizar::Cache again(model, cache_params);
        again.prefill(tokens);
        EXPECT(again.logprobs(2) == rows[0].likeliest);
        EXPECT(failure([&] { realizar::Job(again, {1}).logprobs(); }) == RZ_ERR_INVALID_ARGUMENT);
    }
    // A function of the program edits the logits; an exception that it throws fails the choice.
    {
        size_t n_seen = 0;
        auto edit = [&](float *logits, size_t n_logits, const uint32_t *before, size_t n_before) -> int32_t {
            if (n_seen == 3) throw std::runtime_error("enough");
            EXPECT(n_logits == 512 && before[n_before - 1] == (n_seen == 0 ? tokens.back() : 42u));
            logits[42] = std::numeric_limits<float>::infinity();
            n_seen++;
            return 0;
        };
        auto editing = realizar::params<rz_sampler_params>();
        realizar::edit_logits(editing, edit);
        realizar::Sampler own(editing);
        realizar::Cache edited(model, cache_params);
        edited.prefill(tokens);
        EXPECT(edited.sample(&own) == 42 && edited.generate(42, 2, &own) == std::vector<uint32_t>({42, 42}));
        EXPECT(edited.try_sample(&own).status() == RZ_ERR_INVALID_ARGUMENT);
    }
    // A job that fails ends alone, and says why.
    {
        std::vector<rz_logit_bias> all_forbidden;
        for (uint32_t i = 0; i < 512; i++) all_forbidden.push_back({i, -std::numeric_limits<float>::infinity()});
        auto forbidding = realizar::params<rz_sampler_params>();
        forbidding.biases = all_forbidden.data(), forbidding.n_biases = all_forbidden.size();
        const realizar::Sampler none(forbidding);
        auto job_params = realizar::params<rz_job_params>();
        job_params.sampler = none.get(), job_params.max_tokens = 3;
        realizar::Cache one_cache(model, cache_params), other_cache(model, cache_params);
        realizar::Job failing(one_cache, tokens, job_params);
        job_params.sampler = nullptr;
        realizar::Job going(other_cache, tokens, job_params);
        while (realizar::Job::step({&failing, &going})) {}
        EXPECT(failing.info().end_reason == RZ_END_FAILED && going.info().end_reason == RZ_END_LENGTH && going.tokens().size() == 3);
        EXPECT(failure([&] { failing.check(); }) == failure([&] { failing.step(); }) && failing.try_check().status() < 0);
        going.check();
    }
    EXPECT(failure([&] { realizar::Conversation(model, hello); }) == RZ_ERR_UNSUPPORTED);
    EXPECT(realizar::conversation({{"user", "x"}}) == hello);
    // Several caches in one pass; what a model will take, and what its authors advise.
    {
        realizar::Cache left(model, cache_params), right(model, cache_params);
        left.prefill(tokens), right.prefill(tokens);
        const std::vector<uint32_t> next = realizar::Cache::decode({&left, &right}, {first, first}, {nullptr, &constrained});
        EXPECT(next.size() == 2 && next[0] == all[1] && next[1] == all[1] && left.size() == 6);
        EXPECT(realizar::Cache::try_decode({&left}, {1, 2}).status() == RZ_ERR_INVALID_ARGUMENT);
    }
    // What a store knows is not computed again.
    {
        auto store_params = realizar::params<rz_store_params>();
        store_params.min_tokens = 3;
        realizar::Store store(model, store_params);
        for (size_t known : {size_t(0), size_t(4)}) {
            realizar::Cache taken = store.take(tokens, cache_params);
            EXPECT(taken.size() == known);
            taken.prefill(realizar::Tokens(tokens.data() + known, tokens.size() - known));
            EXPECT(taken.logits() == logits);
            store.put(taken);
        }
        EXPECT(store.info().n_entries == 1 && store.info().hits == 1 && store.info().reused_tokens == 4);
        store.clear();
        EXPECT(store.info().n_entries == 0 && store.take(tokens, cache_params).size() == 0);
        EXPECT(failure([&] { store.put(realizar::Cache(load(argv[1]))); }) == RZ_ERR_MISMATCH);
        store_params.path = argv[1]; // no folder
        EXPECT(realizar::Store::make(model, store_params).status() == RZ_ERR_IO);
    }
    const rz_model_plan plan = realizar::Model::plan(argv[1]);
    EXPECT(plan.weights_host >= model.info().weight_bytes / 2 && plan.total_host > plan.weights_host && plan.total_device == 0);
    EXPECT(realizar::Model::plan(argv[1], realizar::params<rz_model_params>(), cache_params, 3).cache_host < plan.cache_host);
    EXPECT(realizar::Model::try_plan(nullptr, &in_memory, 1)->weights_host == plan.weights_host);
    EXPECT(realizar::Model::try_plan("no such file.gguf", nullptr, 0).status() == RZ_ERR_IO);
    EXPECT(model.sampling().advised == 0 && model.sampling().temperature == 1);
    const rz_sampler_params advised = realizar::sampler_params(model.sampling());
    EXPECT(advised.temperature == 1 && advised.top_k == 0 && advised.flags == RZ_SAMPLER_TEMPERATURE_FIRST);
    realizar::Sampler as_advised(advised);
    EXPECT(failure([&] { model.meta_list("tokenizer.ggml.tokens"); }) == RZ_ERR_UNSUPPORTED);
    EXPECT(failure([&] { model.meta_list("none"); }) == RZ_ERR_NOT_FOUND);
    model.reset_metrics();
    EXPECT(model.metrics().prefill.count == 0);
    try {
        realizar::Model("no such file.gguf");
    } catch (const realizar::Error &error) {
        EXPECT(error.name() == std::string_view("RZ_ERR_IO"));
    }
    // A reply comes in parts: the name of a tool and its arguments; or content, in which alone a stop string counts.
    {
        const realizar::Model chatting(argv[3]);
        const std::string tools = "{\"messages\": [{\"role\": \"user\", \"content\": \"Once upon a time\"}], \"tool_choice\": \"required\", "
                                  "\"parallel_tool_calls\": false, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"go\", "
                                  "\"parameters\": {\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, "
                                  "\"required\": [\"by\"], \"additionalProperties\": false}}}]}";
        const realizar::Grammar calls(chatting, RZ_GRAMMAR_TOOLS, tools);
        realizar::Conversation calling(chatting, tools);
        std::string name, arguments;
        uint32_t last = 0;
        calling.reply();
        calling.run([&](uint32_t kind, uint32_t, uint32_t index, std::string_view part) {
            if (kind == RZ_CHAT_EVENT_TOOL_NAME) name += part;
            if (kind == RZ_CHAT_EVENT_TOOL_ARGUMENTS) arguments += part;
            EXPECT(index == 0);
            last = kind;
        });
        arguments.erase(std::remove_if(arguments.begin(), arguments.end(), [](char c) { return c == ' ' || c == '\n'; }), arguments.end());
        EXPECT(name == "go" && last == RZ_CHAT_EVENT_END);
        EXPECT(arguments == "{\"by\":\"car\"}" || arguments == "{\"by\":\"bus\"}");
        EXPECT(calling.messages(1).find("\"finish_reason\":\"tool_calls\"") != std::string::npos);
        // Tools of one reply work like tools of a conversation, and a prompt that was read ahead is not computed again.
        const std::string of_reply = "{\"tool_choice\": \"required\", " + tools.substr(tools.find("\"parallel"));
        realizar::Conversation once(chatting);
        once.add(realizar::Message{"user", "Once upon a time"});
        auto with_tools = realizar::params<rz_reply_params>();
        with_tools.json = of_reply.data(), with_tools.json_len = of_reply.size();
        once.read(with_tools);
        while (once.step()) {}
        EXPECT(once.info().n_messages == 1 && once.info().n_tokens == 0 && once.info().cache_len == once.info().prompt_tokens);
        const auto ignore = [](uint32_t, uint32_t, uint32_t, std::string_view) {};
        once.reply(with_tools), once.run(ignore);
        EXPECT(once.messages() == calling.messages() && once.info().reused_tokens + 1 == once.info().prompt_tokens);
        EXPECT(once.try_read(realizar::params<rz_reply_params>()) && once.try_release().status() == RZ_ERR_BUSY);
        once.rewind(1), once.release();
        EXPECT(once.info().cache_len == 0);
        once.set_capacity(300), once.set_overflow(RZ_OVERFLOW_FORGET), once.set_adapters({}), once.set_store(nullptr);
        EXPECT(once.info().cache_capacity == 300 && once.try_set_overflow(9).status() == RZ_ERR_INVALID_ARGUMENT);
        realizar::Cancel fired;
        once.set_cancel(&fired), once.reply(with_tools), fired.fire();
        EXPECT(once.try_step().status() == RZ_ERR_CANCELLED && once.try_set_cancel(nullptr).status() == RZ_ERR_BUSY);
        once.rewind(1), once.set_cancel(nullptr), once.reply(with_tools), once.run(ignore);
        EXPECT(once.messages() == calling.messages());
        // A reply that is stopped keeps what it has said.
        once.rewind(1), once.reply();
        EXPECT(once.step() && once.step());
        once.stop(), once.check();
        EXPECT(once.info().end_reason == RZ_END_CANCELLED && once.messages(1).find("\"cancelled\"") != std::string::npos && !once.step());

        realizar::Conversation talk(chatting);
        const char *stop = " She";
        auto reply = realizar::params<rz_reply_params>();
        reply.stops = &stop, reply.n_stops = 1, reply.logprobs = 2;
        std::string content;
        const auto add = [&](uint32_t kind, uint32_t, uint32_t, std::string_view part) {
            if (kind == RZ_CHAT_EVENT_CONTENT) content += part;
        };
        talk.add({"user", prompt});
        realizar::Conversation other = talk.fork();
        talk.reply(reply), talk.run(add);
        EXPECT(content == story.substr(0, story.find(stop)) && talk.info().end_reason == RZ_END_STOP && talk.info().n_messages == 2);
        EXPECT(failure([&] { talk.logprobs(1); }) == RZ_ERR_INVALID_ARGUMENT);
        EXPECT(talk.logprobs(2).size() == talk.info().n_tokens && talk.logprobs(2).empty());
        other.add_json("[]"), other.reply(reply);
        while (realizar::Conversation::step({&talk, &other})) {}
        EXPECT(other.messages() == talk.messages());
        auto store_params = realizar::params<rz_store_params>();
        store_params.min_tokens = 3;
        const realizar::Store store(chatting, store_params);
        auto sharing = realizar::params<rz_conversation_params>();
        sharing.store = store.get();
        for (bool known : {false, true}) {
            realizar::Conversation shared(chatting, sharing);
            shared.add({"user", prompt}), shared.reply(reply), shared.run([](uint32_t, uint32_t, uint32_t, std::string_view) {});
            EXPECT(shared.messages() == talk.messages() && (shared.info().reused_tokens > 0) == known);
        }
        EXPECT(failure([&] { realizar::Conversation(realizar::Model(argv[3]), sharing); }) == RZ_ERR_MISMATCH);
        std::vector<char> file;
        talk.save([&](const void *data, size_t n) {
            file.insert(file.end(), static_cast<const char *>(data), static_cast<const char *>(data) + n);
            return 0;
        });
        size_t at = 0;
        auto loaded = realizar::Conversation::load(chatting, [&](void *out, size_t n) {
            std::memcpy(out, file.data() + at, n);
            at += n;
            return 0;
        });
        EXPECT(loaded && loaded->messages() == talk.messages());
        // Of the same messages nothing but the last token is computed again; a reply that is stopped keeps what was said.
        loaded->rewind(0);
        std::string said;
        loaded->say(prompt, [&](std::string_view piece) { said += piece; return said.size() < 20; });
        EXPECT(story.compare(0, said.size(), said) == 0 && said.size() >= 20 && said.size() < 40);
        EXPECT(loaded->info().prompt_tokens == loaded->info().reused_tokens + 1);
        // With parameters of a reply.
        loaded->rewind(0);
        std::string two;
        auto few = realizar::params<rz_reply_params>();
        few.max_tokens = 2;
        loaded->say(prompt, [&](std::string_view piece) { two += piece; }, few);
        EXPECT(!two.empty() && story.compare(0, two.size(), two) == 0 && loaded->info().n_tokens == 2);
        loaded->rewind(0);
        EXPECT(loaded->try_say(prompt, [&](std::string_view piece) { return two += piece, false; }).value() == RZ_OK);
        // An exception of a callback is rethrown after the call, and the messages so far stay. A text is not cut at a
        // NUL.
        struct Thrown {};
        const auto throws = [](auto call) {
            try {
                call();
                return false;
            } catch (const Thrown &) {
                return true;
            }
        };
        const uint32_t before = loaded->info().n_messages;
        EXPECT(throws([&] { loaded->say(prompt, [](std::string_view) { throw Thrown(); }); }) && loaded->info().n_messages == before + 2);
        EXPECT(throws([&] { loaded->say(prompt, [](std::string_view) -> bool { throw Thrown(); }); }));
        const auto spill = [](const void *, size_t) -> int { throw Thrown(); };
        const auto refill = [](void *, size_t) -> int { throw Thrown(); };
        EXPECT(throws([&] { loaded->save(spill); }) && throws([&] { realizar::Cache(chatting).save(spill); }));
        EXPECT(throws([&] { (void)realizar::Conversation::load(chatting, refill); }) && throws([&] { (void)realizar::Cache::load(chatting, refill); }));
        EXPECT(throws([&] { (void)realizar::Media::load(chatting, refill); }));
        auto unread = [](uint64_t, void *, size_t) -> int { throw Thrown(); };
        const rz_source source = realizar::reader_source(unread, 1 << 20);
        EXPECT(realizar::Model::load_from(&source, 1).status() == RZ_ERR_IO);
        const std::string cut("a\0b", 3);
        const uint32_t kept = loaded->info().n_messages;
        EXPECT(failure([&] { loaded->say(cut, [](std::string_view) {}); }) == RZ_ERR_INVALID_ARGUMENT && loaded->info().n_messages == kept);
        EXPECT(failure([&] { loaded->add({cut, "x"}); }) == RZ_ERR_INVALID_ARGUMENT && failure([&] { (void)chatting.meta(cut); }) == RZ_ERR_INVALID_ARGUMENT);
        EXPECT(failure([&] { realizar::Model model(cut); }) == RZ_ERR_INVALID_ARGUMENT && failure([&] { realizar::Model::plan(cut); }) == RZ_ERR_INVALID_ARGUMENT);
        EXPECT(chatting.render_chat({{"user", cut}}).find(cut) != std::string::npos);
        loaded->rewind(before);
        EXPECT(loaded->messages(1).find("cancelled") != std::string::npos);
        EXPECT(failure([&] { loaded->rewind(9); }) == RZ_ERR_INVALID_ARGUMENT && failure([&] { loaded->add_json("{}"); }) == RZ_ERR_INVALID_ARGUMENT);
        EXPECT(failure([&] { realizar::Job(cache, {1}).parts(add); }) == RZ_ERR_INVALID_ARGUMENT);
    }
    // A deadline that has passed fires at once, whatever it is counted in.
    const auto passed = [&](realizar::Limit from_now) {
        cancel.deadline(from_now);
        return fork.try_prefill(tokens, &cancel).status() == RZ_ERR_DEADLINE;
    };
    const auto now = std::chrono::steady_clock::now();
    EXPECT(passed(now - std::chrono::steady_clock::now()) && passed(std::chrono::hours(-1)) && passed(std::chrono::seconds(0)));
    cancel.deadline(std::chrono::hours(1));
    EXPECT(realizar::Limit(std::chrono::nanoseconds(1)).us() == 1 && realizar::Limit(std::chrono::nanoseconds(2001)).us() == 3);
    EXPECT(realizar::Limit(std::chrono::duration<double>(0.25)).us() == 250000 && realizar::Limit().us() == RZ_NO_LIMIT);
    EXPECT(realizar::Limit(std::chrono::duration<double>(1e300)).us() == RZ_NO_LIMIT - 1);
    cancel.deadline(realizar::no_limit);
    auto forwards = [](uint32_t n, auto share) {
        for (uint32_t i = 0; i < n; i++) share(i);
    };
    auto hosted = realizar::params<rz_runtime_params>();
    hosted.threads = 3;
    realizar::set_parallel(hosted, forwards);
    realizar::Runtime runtime(hosted);
    runtime.set_threads(2);
    auto on_host = realizar::params<rz_model_params>();
    on_host.runtime = runtime.get();
    realizar::Model again(argv[1], on_host);
    realizar::Cache other(again, cache_params);
    other.prefill(tokens);
    EXPECT(other.logits() == logits);

    if (failures == 0) std::cout << "ok\n";
    return failures != 0;
}
