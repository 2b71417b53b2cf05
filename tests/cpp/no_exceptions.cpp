// realizar.hpp in a program that is compiled without exceptions and run-time types: no_exceptions model.gguf
#include <realizar.hpp>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (realizar::Model::load("no such file.gguf").status() != RZ_ERR_IO) return 1;
    auto model = realizar::Model::load(argv[1]);
    if (!model) return std::fprintf(stderr, "%s\n", model.error().message), 1;
    auto info = model->try_info();
    auto keys = model->try_meta_keys();
    auto devices = realizar::try_devices();
    if (!info || info->n_layers != 5 || !keys || keys->empty() || !devices || devices->empty()) return 1;
    if (!model->try_metrics() || model->try_metrics(99).status() != RZ_ERR_INVALID_ARGUMENT) return 1;
    auto begin = model->try_token_bytes(info->bos_token);
    if (!begin || *begin != "<s>" || model->try_token_bytes(info->vocab_size)) return 1;

    auto cache_params = realizar::params<rz_cache_params>();
    cache_params.capacity = 8;
    auto cache = realizar::Cache::make(*model, cache_params);
    auto tokens = model->try_tokenize("Once upon a time");
    if (!cache || !tokens || !cache->try_prefill(*tokens)) return 1;
    auto first = cache->try_sample();
    if (!first) return 1;
    // The tokens made ahead of an error are there.
    const auto made = cache->try_generate(*first, 9);
    if (made.status != RZ_ERR_CONTEXT_FULL || made.tokens.size() != 3 || !model->try_detokenize(made.tokens)) return 1;

    if (!cache->try_truncate(0)) return 1;
    auto job = realizar::Job::make(*cache, *tokens);
    if (!job) return 1;
    size_t bytes = 0;
    for (;;) {
        auto piece = job->try_next();
        if (!piece) return 1;
        if (!*piece) break;
        bytes += (*piece)->size();
    }
    auto state = job->try_info();
    if (bytes == 0 || !state || state->end_reason != RZ_END_CONTEXT) return 1;
    std::puts("ok");
}
