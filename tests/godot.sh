#!/usr/bin/env bash
# Builds the add-on for Godot 3 and 4 and asks the tiny model through its node: in Godot 3 where it is here, and in a stand-in for
# what Godot 4 has to do with it. Of the same questions the example program in C is the measure.
# tests/godot.sh STAGE.  MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1
real=${MODEL:+$(realpath "$MODEL")}
cd "$(dirname "$0")/.."
[ -e "$stage/lib/librealizar.so" ] || { echo "SKIPPED: the Godot tests, because they are for Linux"; exit 0; }
. tests/program.sh
out=build/godot
rm -rf $out
bindings/godot/build "$stage" $out/project/addons/realizar
program_models $out "$stage"
cp tests/godot/chat.gd $out/project/
printf 'config_version=4\n' >$out/project/project.godot
${CC:-cc} -std=c99 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -o $out/host4 tests/godot/host4.c -ldl

ask() { # file of the model, question, wanted in what is printed, system message, options; BUDGET: microseconds of a frame
    local answer
    export MODEL=$1 QUESTION=$2 SYSTEM=${4:-} OPTIONS=${5:-}
    answer=$($out/host4 $out/project/addons/realizar/librealizar_godot4.so) || { echo "$answer"; exit 1; }
    [[ $answer == *"$3"* ]] || { echo "FAILED: Godot 4: $answer"; exit 1; }
    echo "ok: the node in what stands for Godot 4"
    if ! command -v godot3-server >/dev/null; then
        echo "SKIPPED: the node in Godot 3, because there is no godot3-server (Debian: godot3-server)"
        return
    fi
    answer=$(HOME=$PWD/$out timeout 60 godot3-server --path $out/project -s chat.gd 2>$out/errors) || true
    [[ $answer == *"$3"* && $answer != *FAILED* ]] || { echo "FAILED: Godot 3: $answer"; cat $out/errors; exit 1; }
    echo "ok: the node in Godot 3, $(grep -o 'first piece after .*' $out/errors)"
}
. tests/other-library.sh
other_library "$stage" $out/other
said=$(LD_LIBRARY_PATH=$out/other ONLY_LOAD=1 MODEL=$out/chat.gguf QUESTION=x SYSTEM= OPTIONS= BUDGET=1 $out/host4 $out/project/addons/realizar/librealizar_godot4.so | tail -n 1)
[ "$said" = "librealizar 9.9 has the interface 99, 1 is needed" ] || { echo "FAILED: a library of another interface: $said"; exit 1; }
question='Once upon a time' tiny=$PWD/$out
export BUDGET=100
# A picture in base 64, as an engine writes an image of its own, and an encoder for the tiny model.
PICTURE=$(base64 -w 0 tests/data/media/rgb.png) ENCODER=$PWD/$out/mmproj.gguf
python3 tests/encoder.py vision/llava "$ENCODER"
export PICTURE ENCODER
TALK=yes ask "$tiny/chat.gguf" "$question" ', there was a little girl named Lily. She loved to play outside in the park.'
! command -v godot3-server >/dev/null || grep -q '^an image was shown$' $out/errors || { echo "FAILED: an image in Godot 3"; cat $out/errors; exit 1; }
ask "$tiny/advised.gguf" "$question" "$(program $out/advised.gguf "$question")"
ask "$tiny/advised.gguf" "$question" "$(program $out/chat.gguf "$question")" '' temperature=0
ask "$tiny/thoughts.gguf" ', there' "$(program $out/thoughts.gguf ', there' -s "$question" --think 5)" "$question" reasoning_tokens=5
ask "$tiny/thoughts.gguf" ', there' "$(program $out/thoughts.gguf ', there' -s "$question" --think 0)" "$question" reasoning_tokens=0
[ -z "$real" ] || BUDGET=2000 ask "$real" 'What is the capital of France, and what is it famous for?' Paris

# The adventure: its rules and its node are those of Godot 4, and Godot 3 runs them but for the name of a clock.
# "stay" is left out, because the tiny model would do nothing else.
cp tests/godot/adventure3.gd $out/project/
sed '/"name": "stay"/d' examples/adventure/adventure.json >$out/project/adventure.json
sed 's/\bTime\./OS./' examples/adventure/godot/adventure.gd >$out/project/adventure.gd
if command -v gdparse >/dev/null; then
    gdparse examples/adventure/godot/*.gd
    echo "ok: the scripts of the adventure are GDScript of Godot 4"
else
    echo "SKIPPED: the grammar of the adventure's scripts, because there is no gdparse (pip install gdtoolkit)"
fi
if command -v godot3-server >/dev/null; then
    ${CC:-cc} -shared -fPIC -Wall -Wextra -Werror -o $out/count.so tests/count_steps.c -I"$stage/include" -ldl
    HOME=$PWD/$out COUNTED=$PWD/$out/counted LD_PRELOAD=$PWD/$out/count.so MODEL=$tiny/chat.gguf BUDGET=100 FPS=0 timeout 60 \
        godot3-server --path $out/project -s adventure3.gd 2>$out/errors | grep -E '^([><!?=] |shown |[0-9]+ frames)' >$out/transcript || true
    said=$(python3 tests/adventure.py $out/project/adventure.json $out/counted 100 <$out/transcript) || { cat $out/transcript $out/errors; exit 1; }
    echo "ok: the adventure in Godot 3: $said"
else
    echo "SKIPPED: the adventure in Godot 3, because there is no godot3-server (Debian: godot3-server)"
fi
