// Asks a model one question:  example model.gguf "a question"
#include <realizar.hpp>

#include <iostream>

int main(int argc, char **argv) try {
    if (argc != 3) {
        std::cerr << "usage: " << argv[0] << " model.gguf \"a question\"\n";
        return 2;
    }
    realizar::Model model(argv[1]);
    realizar::Cache cache(model);
    realizar::TextStream text(model);

    auto sampling = realizar::params<rz_sampler_params>();
    sampling.temperature = 0.7f;
    sampling.seed = 1;
    realizar::Sampler sampler(sampling);

    const auto prompt = model.tokenize_messages({{"user", argv[2]}});
    cache.prefill(prompt);
    text.follow(prompt); // so that what the answer begins with is written as it goes on with that
    for (uint32_t token = cache.sample(&sampler); !model.is_end(token); token = cache.decode(token, &sampler))
        std::cout << text.push(token) << std::flush;
    std::cout << text.flush() << '\n';
} catch (const realizar::Error &error) {
    std::cerr << rz_status_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
