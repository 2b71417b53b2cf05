// --8<-- [start:start]
// c++ -std=c++17 chat.cpp $(pkg-config --cflags --libs realizar) -Wl,-rpath,"$HOME/.local/lib" -o chat &&
//     ./chat model.gguf
#include <realizar.hpp>

#include <iostream>
#include <string>

int main(int argc, char **argv) try {
    realizar::Model model(argc > 1 ? argv[1] : "model.gguf");
    realizar::Conversation chat(model);
    chat.add({"system", "Be brief."});
    for (std::string line; std::getline(std::cin, line); std::cout << '\n')
        chat.say(line, [](std::string_view piece) { std::cout << piece << std::flush; });
} catch (const realizar::Error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
// --8<-- [end:start]
