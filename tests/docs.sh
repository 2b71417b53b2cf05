#!/usr/bin/env bash
# Compiles and runs the code that the pages of docs/ show: the programs of docs/snippets, on a tiny model.
# tests/docs.sh STAGE
# C#, Swift and Kotlin are compiled where their packages are: tests/csharp.sh, tests/swift.sh, tests/kotlin.sh.
set -euo pipefail
stage=$(realpath "$1") go=${GO:-go}
cd "$(dirname "$0")/.."
library=$stage/lib/librealizar.so
[ -e "$library" ] || library=$stage/lib/librealizar.dylib
root=$PWD out=$PWD/build/snippets
rm -rf "$out"
mkdir -p "$out/folder"
. tests/add-template.sh
. tests/find-jdk.sh

# Nothing that could be compiled stands in a page itself.
if grep -nE '^ *```+ *(c|cpp|go|python|csharp|swift|java|kotlin|javascript)\b' docs/*.md docs/{guides,reference,explanation}/*.md; then
    echo "FAILED: code in a page belongs into docs/snippets"
    exit 1
fi

# Pages have the field's terms, in American spelling.
if grep -nEi '\b(tokens a second|ahead of|makers|refuse[sd]?|refusing|neighbours?|colours?|behaviours?|[a-z]+(alise|imise|antise)[ds]?|licence)\b' \
    README.md docs/*.md docs/{guides,reference,explanation}/*.md; then
    echo "FAILED: a page has a word for which there is a common term (CONTRIBUTING.md, style)"
    exit 1
fi

# Files and tests that pages name are there.
for file in $(grep -ohE '`(tests|scripts|benches|bindings|examples|docs)/[A-Za-z0-9_./-]+`' README.md docs/*.md \
    docs/{guides,reference,explanation}/*.md | tr -d '`' | sort -u); do
    [ -e "$file" ] || { echo "FAILED: a page names $file, which is not there"; exit 1; }
done
for test in $(grep -oE '`[a-z0-9]+(_[a-z0-9]+){3,}`' docs/explanation/guarantees.md | tr -d '`'); do
    grep -rqE "fn $test\b" tests || { echo "FAILED: a page names the test $test, which is not there"; exit 1; }
done

for link in $(grep -ohE '\]\([A-Za-z][^):# ]*' README.md SECURITY.md SUPPORT.md BREAKING.md CONTRIBUTING.md ARCHITECTURE.md | cut -c 3-); do
    [ -e "$link" ] || { echo "FAILED: a document links to $link, which is not there"; exit 1; }
done

story_of_hub "$out/hub"

# The forms of calls and of reasoning are read off the template.
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}' \
    '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}' \
    >"$out/chat.gguf"
# The first programs have a message of the system, with which the tiny model can do nothing.
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% set messages = messages[-1:] %}' >"$out/last.gguf"
expected=', there was a little girl named Lily. She loved to play outside in the park.'
runs() { # language, command
    said=$(echo "Once upon a time" | "${@:2}" "$out/chat.gguf" tests/data/story-adapter.gguf "$out/folder" 2>"$out/errors") ||
        { echo "FAILED: the guides, $1"; cat "$out/errors"; exit 1; }
    [[ $said == "$expected"*"all ran" ]] || { echo "FAILED: the guides, $1: $said"; exit 1; }
    echo "ok: the guides, $1"
}
begins() { # language, command: the first program says the same
    said=$(echo "Once upon a time" | "${@:2}" "$out/last.gguf" 2>"$out/errors") && [[ $said == "$expected"* ]] ||
        { echo "FAILED: the first program, $1: $said"; cat "$out/errors"; exit 1; }
}
link=(-I"$stage/include" -L"$stage/lib" -lrealizar -Wl,-rpath,"$stage/lib")

${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror -o "$out/c" docs/snippets/guides.c "${link[@]}"
runs C "$out/c"

if command -v "${CXX:-c++}" >/dev/null; then
    ${CXX:-c++} -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$stage/include" docs/snippets/guides.cpp
    ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$out/cpp" docs/snippets/guides.cpp "${link[@]}"
    runs C++ "$out/cpp"
    ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -o "$out/chat" docs/snippets/start/chat.cpp "${link[@]}"
    begins C++ "$out/chat"
else
    echo "SKIPPED: the guides in C++, because there is no ${CXX:-c++}"
fi

if pkg-config --version >/dev/null 2>&1 && printf '%s\n' go1.24 "$($go env GOVERSION 2>/dev/null)" | sort -VC; then
    mkdir "$out/go"
    cp docs/snippets/{guides,start/chat}.go "$out/go"
    printf 'module guides\n\ngo 1.24\n\nrequire realizar.dev/go v0.0.0\n\nreplace realizar.dev/go => %s/bindings/go\n' "$root" >"$out/go/go.mod"
    (cd "$out/go" && PKG_CONFIG_PATH=$stage/lib/pkgconfig $go build -o ../guides guides.go && PKG_CONFIG_PATH=$stage/lib/pkgconfig $go build -o .. chat.go)
    LD_LIBRARY_PATH=$stage/lib DYLD_LIBRARY_PATH=$stage/lib runs Go "$out/guides"
    LD_LIBRARY_PATH=$stage/lib DYLD_LIBRARY_PATH=$stage/lib begins Go "$out/chat"
else
    echo "SKIPPED: the guides in Go, because there is no Go 1.24 or newer, or no pkg-config"
fi

if python3 -c 'import numpy' 2>/dev/null; then
    mkdir "$out/python"
    cp -r bindings/python/realizar "$out/python"
    cp "$library" "$out/python/realizar"
    PYTHONPATH=$out/python PYTHONDONTWRITEBYTECODE=1 runs Python python3 docs/snippets/guides.py
    PYTHONPATH=$out/python PYTHONDONTWRITEBYTECODE=1 begins Python python3 docs/snippets/start/chat.py
    said=$(PYTHONPATH=$out/python PYTHONDONTWRITEBYTECODE=1 python3 docs/snippets/web.py "$out/chat.gguf") && [[ $said == "$expected"* ]] ||
        { echo "FAILED: replies in asyncio: $said"; exit 1; }
else
    echo "SKIPPED: the guides in Python, because there is no python3 with numpy"
fi

find_jdk
if [ -n "$jdk" ]; then
    "$jdk/bin/javac" --release 22 -Xlint:all,-restricted,-serial,-try -Werror -sourcepath bindings/java/jspecify -implicit:none \
        -d "$out/java" bindings/java/realizar/*.java docs/snippets/Guides.java
    runs Java "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -cp "$out/java" \
        -Drealizar.library="$library" Guides
    begins Java "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -cp "$out/java" \
        -Drealizar.library="$library" docs/snippets/start/Chat.java
else
    echo "SKIPPED: the guides in Java, because there is no JDK 22 or newer"
fi

if scripts/node-package "$stage" "$out/node_modules/realizar"; then
    cp docs/snippets/{guides,start/chat}.mjs "$out"
    REALIZAR_LIBRARY=$library runs JavaScript node "$out/guides.mjs"
    REALIZAR_LIBRARY=$library begins JavaScript node "$out/chat.mjs"
elif [ $? != 77 ]; then
    exit 1
fi
