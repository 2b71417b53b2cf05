#!/usr/bin/env bash
# Compiles realizar.hpp, by its tests and its example, with each compiler that is here, as C++17 and C++20, with exceptions and
# without:  tests/cpp.sh INCLUDE
set -euo pipefail
include=$1
cd "$(dirname "$0")/.."
strict="-fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Werror -I$include"
for compiler in g++ clang++; do
    if ! command -v $compiler >/dev/null; then
        echo "SKIPPED: realizar.hpp with $compiler, which is not here"
        continue
    fi
    for standard in c++17 c++20; do
        # shellcheck disable=SC2086 # words are meant to be split
        for file in tests/cpp/handles.cpp bindings/cpp/example.cpp; do $compiler -std=$standard $strict "$file"; done
        # shellcheck disable=SC2086
        $compiler -std=$standard $strict -fno-exceptions -fno-rtti tests/cpp/no_exceptions.cpp
        echo "ok: realizar.hpp with $compiler -std=$standard"
    done
done
