# shellcheck shell=bash
# Sourced by the tests of the components for game engines: what the example program in C says is the measure of what they
# say. Of the tiny model there is one file with a template, one with advice for sampling too, and one whose template has
# reasoning.
. tests/add-template.sh

program_models() { # folder, folder of an installation
    local story=tests/data/stories260K-f32.gguf think
    think='{% endfor %}{% if add_generation_prompt and enable_thinking is not false %}<think>{% endif %}{% for m in [] %}</think>'
    program=$1/chat
    add_template $story '{{ bos_token }}' >"$1/chat.gguf"
    add_template $story '{{ bos_token }}' '' advice >"$1/advised.gguf"
    add_template $story '{{ bos_token }}' "$think" >"$1/thoughts.gguf"
    ${CC:-cc} -std=gnu11 -o "$program" bindings/c/chat.c -I"$2/include" -L"$2/lib" -lrealizar -Wl,-rpath,"$2/lib"
    [[ $(program "$1/thoughts.gguf" x) != *'reasoning: ""' ]] || { echo "FAILED: the tiny model has no thought"; exit 1; }
    [ "$(program "$1/advised.gguf" x)" != "$(program "$1/chat.gguf" x)" ] || { echo "FAILED: advice changes nothing"; exit 1; }
}

# What a component prints of the answer to a question; other arguments are options of the program.
program() { # model, question, options
    local answer
    answer=$("$program" -m "$1" -p "$2" -n 60 "${@:3}" 2>"$program.errors")
    echo "answer: \"$answer\""
    echo "reasoning: \"$(sed '1,2d;s/prompt [0-9]* tokens, .*//' "$program.errors")\""
}
