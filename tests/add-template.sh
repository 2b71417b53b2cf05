# shellcheck shell=bash
# Sourced by tests. The tiny model has no chat template; add_template writes its file with one, as the first of its
# metadata, and with an advised temperature of 2 where that is asked for. What is put in is a multiple of 32 bytes long, so
# that everything behind keeps its alignment.

u64() { printf "\\x$(printf %02x $(($1 % 256)))\\x$(printf %02x $(($1 / 256)))\\0\\0\\0\\0\\0\\0"; }

add_template() { # file, beginning of the template, what it writes of a message beside its content, "advice" or nothing
    local key=tokenizer.chat_template advice=${4:+general.sampling.temp}
    local template="$2{% for m in messages %}{{ m['content'] or '' }}${3:-}{% endfor %}{#"
    local more=${advice:+$((8 + ${#advice} + 4 + 4))}
    while [ $(((8 + ${#key} + 4 + 8 + ${#template} + 2 + more) % 32)) -ne 0 ]; do template+=' '; done
    template+='#}'
    head -c 16 "$1"
    u64 $(($(od -An -tu1 -j16 -N1 "$1") + 1${advice:+ + 1}))
    if [ "$advice" ]; then
        u64 ${#advice}
        printf '%s\6\0\0\0\0\0\0\100' "$advice"
    fi
    u64 ${#key}
    printf '%s\10\0\0\0' "$key"
    u64 ${#template}
    printf %s "$template"
    tail -c +25 "$1"
}

# hf:tests/story in a cache of models of the Hub, which no connection is needed for:  story_of_hub FOLDER
story_of_hub() {
    export HF_HUB_CACHE=$1 HF_HUB_OFFLINE=1
    mkdir -p "$1/models--tests--story/refs" "$1/models--tests--story/snapshots/1"
    echo 1 >"$1/models--tests--story/refs/main"
    cp tests/data/stories260K-f32.gguf "$1/models--tests--story/snapshots/1/"
}
