#!/usr/bin/env bash
# Compiles realizar.hpp, by its tests, with each compiler that is here, as C++17, C++20 and C++23, with exceptions and
# without, and each header alone:  tests/cpp.sh STAGE PROGRAMS
# MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1 programs=$(realpath "$2")
MODEL=${MODEL:+$(realpath "$MODEL")}
cd "$(dirname "$0")/.."
strict="-fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -I$stage/include"
for compiler in g++ clang++; do
    if ! command -v $compiler >/dev/null; then
        echo "SKIPPED: realizar.hpp with $compiler, which is not here"
        continue
    fi
    for standard in c++17 c++20 c++2b; do
        # shellcheck disable=SC2086 # words are meant to be split
        $compiler -std=$standard $strict tests/cpp/handles.cpp
        # shellcheck disable=SC2086
        $compiler -std=$standard $strict -Wshadow -Wsign-conversion tests/cpp/misuse.cpp
        # shellcheck disable=SC2086
        $compiler -std=$standard $strict -Wshadow -Wsign-conversion tests/cpp/second.cpp
        # shellcheck disable=SC2086
        $compiler -std=$standard $strict -Wshadow -fno-exceptions -fno-rtti tests/cpp/no_exceptions.cpp
        for header in realizar.h realizar.hpp realizar_types.hpp; do
            # shellcheck disable=SC2086
            echo "#include <$header>" | $compiler -std=$standard $strict -Wshadow -x c++ -
        done
        echo "ok: realizar.hpp with $compiler -std=$standard"
    done
done
if [ -n "${MODEL:-}" ]; then
    answer=$("$programs/example" "$MODEL" "What is the capital of France, and what is it famous for?")
    [[ $answer == *Paris* ]] || { echo "FAILED: a real model, C++: $answer"; exit 1; }
    echo "ok: a real model, C++"
fi
if [ -e "$stage/lib/librealizar.so" ]; then
    . tests/other-library.sh
    other_library "$stage" "$stage/../other"
    said=$(LD_LIBRARY_PATH=$stage/../other "$programs/example" model.gguf x 2>&1 || true)
    [[ $said == "RZ_ERR_VERSION: librealizar 9.9 has the interface 99, 1 is needed" ]] ||
        { echo "FAILED: a library of another interface: $said"; exit 1; }
    echo "ok: a library of another interface, C++"
fi
