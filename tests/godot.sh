#!/usr/bin/env bash
# Builds the add-on for Godot 3 and 4 and asks the tiny model through its node: in Godot 3 where it is here, and in a stand-in for
# what Godot 4 has to do with it.  tests/godot.sh STAGE.  MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1
real=${MODEL:+$(realpath "$MODEL")}
cd "$(dirname "$0")/.."
[ -e "$stage/lib/librealizar.so" ] || { echo "SKIPPED: the Godot tests, because they are for Linux"; exit 0; }
. tests/add-template.sh
out=build/godot
rm -rf $out
bindings/godot/build "$stage" $out/project/addons/realizar
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}' >$out/chat.gguf
cp tests/godot/chat.gd $out/project/
printf 'config_version=4\n' >$out/project/project.godot
${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -o $out/host4 tests/godot/host4.c -ldl

ask() { # model, question, wanted in the answer, microseconds of a frame
    local answer
    export BUDGET=$4
    answer=$(MODEL=$1 QUESTION=$2 $out/host4 $out/project/addons/realizar/librealizar_godot4.so) || { echo "$answer"; exit 1; }
    [[ $answer == *"$3"* ]] || { echo "FAILED: Godot 4: $answer"; exit 1; }
    echo "ok: the node in what stands for Godot 4"
    if ! command -v godot3-server >/dev/null; then
        echo "SKIPPED: the node in Godot 3, because there is no godot3-server (Debian: godot3-server)"
        return
    fi
    answer=$(HOME=$PWD/$out MODEL=$1 QUESTION=$2 timeout 60 godot3-server --path $out/project -s chat.gd 2>$out/errors) || true
    [[ $answer == *"answer: "*"$3"* && $answer != *FAILED* ]] || { echo "FAILED: Godot 3: $answer"; cat $out/errors; exit 1; }
    echo "ok: the node in Godot 3, $(grep -o 'first piece after .*' $out/errors)"
}
. tests/other-library.sh
other_library "$stage" $out/other
said=$(LD_LIBRARY_PATH=$out/other ONLY_LOAD=1 MODEL=$out/chat.gguf QUESTION=x BUDGET=1 $out/host4 $out/project/addons/realizar/librealizar_godot4.so | tail -n 1)
[ "$said" = "librealizar 9.9 has the interface 99, 1 is needed" ] || { echo "FAILED: a library of another interface: $said"; exit 1; }
ask "$PWD/$out/chat.gguf" 'Once upon a time' ', there was a little girl named Lily. She loved to play outside in the park.' 100
[ -z "$real" ] || ask "$real" 'What is the capital of France, and what is it famous for?' Paris 2000
