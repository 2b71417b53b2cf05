// Asks a model one question:  example model.gguf "a question"
#include <realizar.hpp>

#include <iostream>

int main(int argc, char **argv) try {
    if (argc != 3) {
        std::cerr << "usage: " << argv[0] << " model.gguf \"a question\"\n";
        return 2;
    }
    realizar::Model model(argv[1]);
    realizar::Conversation conversation(model);
    conversation.say(argv[2], [](std::string_view piece) { std::cout << piece << std::flush; });
    std::cout << '\n';
} catch (const realizar::Error &error) {
    std::cerr << rz_status_name(error.code()) << ": " << error.what() << '\n';
    return 1;
}
