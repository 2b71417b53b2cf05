#!/usr/bin/env bash
# Runs the example programs, found in the folder given, on a tiny model and compares what they print. RUNNER and SUFFIX, of
# scripts/for-target, are for programs of another system.
set -euo pipefail
programs=$(cd "$1" && pwd)
cd "$(dirname "$0")"

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
story=data/stories260K-f32.gguf
adapter=data/story-adapter.gguf
chat=$temporary/chat.gguf
expected='Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball. She wanted to play with it, but it was too high.'

. ./add-template.sh
add_template $story "{{ bos_token }}" >"$chat"
add_template $story "" >"$temporary/without.gguf"
add_template $story "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}" \
    '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}' \
    >"$temporary/tools.gguf"

run() { # program, arguments; Windows ends lines its own way
    local program=$programs/$1${SUFFIX:-}
    shift
    ${RUNNER:-} "$program" "$@" | tr -d '\r'
}

expect() { # name, wanted beginning, what came
    case "$3" in
    "$2"*) echo "ok: $1" ;;
    *) printf 'FAILED: %s\n  wanted: %s\n  came:   %s\n' "$1" "$2" "$3"; exit 1 ;;
    esac
}

prompt='Once upon a time'
expect "chat, a question" "${expected#"$prompt"}" "$(run chat -m "$chat" -p "$prompt" --greedy -n 120 2>"$temporary/statistics")"
expect "chat, statistics" "prompt 5 tokens" "$(tail -n 1 "$temporary/statistics")"
expect "chat, a question from a pipe" "${expected#"$prompt"}" "$(echo -n "$prompt" | run chat -m "$chat" --greedy -n 120 -t 2 2>/dev/null)"
for draft in lookup $story; do
    expect "chat, an answer drafted by $draft" "${expected#"$prompt"}" \
        "$(run chat -m "$chat" -p "$prompt" --greedy -n 120 --draft $draft 2>/dev/null)"
    expect "chat, a seed with drafts by $draft" "$(run chat -m "$chat" -p "$prompt" --seed 7 -n 60 2>/dev/null)" \
        "$(run chat -m "$chat" -p "$prompt" --seed 7 -n 60 --draft $draft 2>/dev/null)"
done
expect "chat, a seed repeats itself" "$(run chat -m "$chat" -p "$prompt" --seed 7 -n 60 2>/dev/null)" \
    "$(run chat -m "$chat" -p "$prompt" --seed 7 -n 60 2>/dev/null)"
expect "minimal" "${expected#"$prompt"}" "$(run minimal "$chat" "$prompt" 2>/dev/null || true)"
expect "minimal, a template that leaves the first token to the tokenizer" "${expected#"$prompt"}" \
    "$(run minimal "$temporary/without.gguf" "$prompt" 2>/dev/null || true)"
expect "minimal, an answer that goes on with the prompt" " time, there was a little girl" "$(run minimal "$chat" "Once upon a" 2>/dev/null || true)"
expect "minimal, a missing file" "RZ_ERR_IO: " "$(run minimal "$temporary/none.gguf" x 2>&1 || true)"
expect "see, an encoder that is none" "RZ_ERR_UNSUPPORTED: " "$(run see "$chat" "$chat" "$chat" x 2>&1 || true)"
expect "example" "," "$(run example "$chat" "$prompt" 2>/dev/null || true)"

expect "the C++ handles" ok "$(run handles $story $adapter "$temporary/tools.gguf")"
expect "C++, misused" ok "$(run misuse $story $adapter "$temporary/tools.gguf")"
expect "C++ without exceptions" ok "$(run no_exceptions $story)"

[ -z "${RUNNER:-}" ] || exit 0

# The same text as that of merged weights in an independent float64 implementation.
adapted=', there was a little girl named Lily. She loved to draw animals with her family. One day, she went to the park with her mommy.'
with() { "$programs/chat" -m "$chat" -p "$prompt" --greedy -n 120 "$@" 2>/dev/null; }
expect "chat, an adapter" "$adapted" "$(with --adapter $adapter)"
expect "chat, an adapter with a scale" "$adapted" "$(with --adapter $adapter:0.5 --adapter $adapter:.5)"
expect "chat, an adapter of no weight" "${expected#"$prompt"}" "$(with --adapter $adapter:0)"
expect "chat, a model for an adapter" "RZ_ERR_FORMAT: no adapter" "$("$programs/chat" -m "$chat" -p x --adapter $story 2>&1 || true)"

cat >"$temporary/schema.json" <<'END'
{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0,
 "maximum": 99}, "pet": {"enum": ["cat", "dog"]}}, "required": ["name", "age", "pet"], "additionalProperties": false,
 "x-guidance": {"whitespace_flexible": false}}
END
of_schema() { # name, what came
    if tr -d ' \n\t\r' <<<"$2" | grep -Eq '^\{"name":"[^"]*","age":[0-9]{1,2},"pet":"(cat|dog)"\}$'; then
        echo "ok: $1"
    else
        printf 'FAILED: %s\n  came: %s\n' "$1" "$2"; exit 1
    fi
}
of_schema "extract" "$(echo "Lily is five and has a dog.</s>" | "$programs/extract" "$chat" "$temporary/schema.json")"
of_schema "chat, an answer by a schema" \
    "$("$programs/chat" -m "$chat" -p "$prompt" --greedy --schema "$temporary/schema.json" 2>/dev/null)"
echo '[{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"by": {"enum": ["car", "bus"]},
 "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["by", "n"], "additionalProperties": false,
 "x-guidance": {"whitespace_flexible": false}}}}]' >"$temporary/tools.json"
expect "chat, tools that the template leaves out" "RZ_ERR_UNSUPPORTED: the chat template leaves out tools[0]" \
    "$("$programs/chat" -m "$chat" -p "$prompt" --greedy -n 120 --tools "$temporary/tools.json" 2>&1 >/dev/null | grep RZ_ERR)"
call=$("$programs/chat" -m "$temporary/tools.gguf" -p "$prompt" --greedy -n 60 --tools "$temporary/tools.json" --call 2>/dev/null)
if grep -Eq '^go\(\{"by": *"(car|bus)", *"n": *[0-9]\}\)' <<<"$call"; then echo "ok: chat, a call"; else echo "FAILED: chat, a call: $call"; exit 1; fi
expect "extract, a bad schema" "RZ_ERR_INVALID_ARGUMENT: " "$("$programs/extract" "$chat" "$temporary/tools.json" </dev/null 2>&1 || true)"
expect "frame" "${expected#"$prompt"}" "$("$programs/frame" $story "$prompt" 600 2>"$temporary/frames")"
expect "frame, a histogram" "  in time" "$(grep "in time" "$temporary/frames")"
expect "serve" "16 conversations together: " "$("$programs/serve" $story 24)"

# The programs that readers see first, in the README and at the top of the header. The former has a system message.
awk '/^```/ { inside = $0 == "```c"; next } inside' ../README.md >"$temporary/README.c"
sed -n '1,/Rules for every function/s/^ \*   //p' ../include/realizar.h >"$temporary/realizar.h.c"
first() { # name, wanted beginning
    ${CC:-cc} -Wall -Wextra -Werror -o "$temporary/first" "$temporary/$1.c" -I"$programs/stage/include" -L"$programs/stage/lib" \
        -lrealizar -Wl,-rpath,"$programs/stage/lib"
    expect "the program in $1" "$2" "$(echo -n "$prompt" | "$temporary/first" "$chat")"
}
briefly=$("$programs/chat" -m "$chat" -s "Be brief." -p "$prompt" --greedy -n 120 2>/dev/null)
expect "chat, a system message" ", there was a little girl named Lily." "$briefly"
first README "$briefly"
first realizar.h "${expected#"$prompt"}"

if [ "$(uname -s)" = Linux ]; then
    # Built against the first release: against its header, and a library that has its functions alone, under the versions they
    # had. All of them are asked for when the program starts.
    functions=$(grep -o 'rz_[a-z0-9_]*(' ../packaging/abi/realizar-0.1.h | sort -u | tr -d '(')
    abi=$(sed -n 's/^#define RZ_ABI_VERSION //p' ../packaging/abi/realizar-0.1.h)
    printf 'void %s(void) {}\n' $functions >"$temporary/library.c"
    { printf 'extern void %s(void);\n' $functions; echo 'void (*all[])(void) = {'; printf '%s,\n' $functions; echo '};'; } >"$temporary/all.c"
    echo 'REALIZAR_0.1 { global: rz_*; local: *; };' >"$temporary/map"
    ${CC:-cc} -shared -fPIC -o "$temporary/librealizar.so.$abi" "$temporary/library.c" \
        -Wl,-soname,"librealizar.so.$abi" -Wl,--version-script="$temporary/map"
    ${CC:-cc} -std=c99 -Wall -Wextra -Werror -o "$temporary/first" c/first.c "$temporary/all.c" -I../packaging/abi \
        "$temporary/librealizar.so.$abi" -Wl,-z,now
    expect "a program of the first release" ", there was a little girl named Lily." \
        "$(LD_LIBRARY_PATH=$programs/stage/lib "$temporary/first" $story)"
fi

if [ "$(uname -s)" = Linux ]; then
    passes() { # name, program, arguments
        if "$temporary/${@:2:1}" "${@:3}" >"$temporary/said" 2>&1; then
            echo "ok: $1"
        else
            printf 'FAILED: %s\n' "$1"; cat "$temporary/said"; exit 1
        fi
    }
    for program in unload process interrupt waiting; do
        ${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror -pthread -o "$temporary/$program" c/$program.c \
            -I"$programs/stage/include" $([ $program = unload ] || echo "-L$programs/stage/lib -lrealizar -Wl,-rpath,$programs/stage/lib") -ldl
    done
    passes "the library loaded, used and let go 1,000 times" unload "$programs/stage/lib/librealizar.so" "$chat" 1000
    passes "children and signals" process "$chat" 1000
    passes "cancels, deadlines and jobs freed midway" interrupt "$chat" cancels 500
    passes "slices of time" interrupt "$chat" overshoot 300
    passes "conversations together" interrupt "$chat" together 20
    passes "calls that wait for one another" waiting "$chat" 0.1 40 400
    passes "jobs that are stepped together" waiting "$chat" jobs 12 100 5 0.8
fi

if [ "$(uname -s)" = Linux ] && script --version >/dev/null 2>&1; then
    # Standard input is a terminal only inside script(1).
    talk=$(printf '%s\n' "$prompt" "The end." /stats /reset "$prompt" /stats /quit |
        script -qec "$programs/chat -m $chat --greedy -n 50" /dev/null | tr -d '\r')
    expect "chat, a conversation" ", there was a little girl named Lily." "$(grep -o -m1 ', there was.*' <<<"$talk")"
    # With the last token of the answer.
    expect "chat, the second turn reads only what is new" "prompt 6 tokens" \
        "$(grep -o -m1 'prompt .* more were in the cache' <<<"$talk")"
else
    echo "SKIPPED: a conversation with chat, because script(1) of util-linux is not here"
fi
