// program.c in C++.
#include <realizar.hpp>

#include <iostream>

int main(int argc, char **argv) try {
    if (argc != 2) return 2;
    realizar::Model model(argv[1]);
    realizar::Cache cache(model);
    cache.prefill(model.tokenize("Once upon a time"));
    std::vector<uint32_t> tokens{cache.sample()};
    for (uint32_t token : cache.generate(tokens[0], 26)) tokens.push_back(token);
    std::cout << model.detokenize(tokens) << '\n';
    return 0;
} catch (const realizar::Error &error) {
    std::cerr << rz_status_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
