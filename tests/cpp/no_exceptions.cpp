// realizar.hpp in a program that is compiled without exceptions: no_exceptions model.gguf
#include <realizar.hpp>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (realizar::Model::load("no such file.gguf").status() != RZ_ERR_IO) return 1;
    auto model = realizar::Model::load(argv[1]);
    if (!model) return std::fprintf(stderr, "%s\n", model.error().message), 1;
    auto cache = realizar::Cache::make(*model);
    auto tokens = model->try_tokenize("Once upon a time");
    if (!cache || !tokens || !cache->try_prefill(*tokens)) return 1;
    auto first = cache->try_sample();
    if (!first) return 1;
    const auto made = cache->try_generate(*first, 3);
    if (made.status < 0 || made.tokens.size() != 3 || !model->try_detokenize(made.tokens)) return 1;
    std::puts("ok");
}
