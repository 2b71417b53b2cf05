// A second file of a program with realizar.hpp, whose functions are defined once for both; it begins with the other
// header.
#include <realizar_types.hpp>

size_t tokens_by_the_second_file(const realizar::Model &model, std::string_view text);

size_t tokens_by_the_second_file(const realizar::Model &model, std::string_view text) { return model.tokenize(text).size(); }
