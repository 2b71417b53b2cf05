#!/usr/bin/env bash
# Compiles the component for Unreal Engine against a stand-in for the engine's headers, as the engine does, without exceptions and
# run-time types, and runs it on the tiny model, where the example program in C is the measure, and in the adventure:
# tests/unreal.sh STAGE.  MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1
real=${MODEL:+$(realpath "$MODEL")}
cd "$(dirname "$0")/.."
. tests/program.sh
out=build/unreal module=bindings/unreal/Source/Realizar
mkdir -p $out
game=$out/adventure
rm -rf $game
examples/adventure/build unreal "$stage" $game
story=$game/Content/Adventure/adventure.json
sed -i.whole '/"name": "stay"/d' $story # The tiny model would do nothing else.
found=
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    found=yes
    $compiler -std=c++17 -O1 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Werror -Itests/unreal/stub -I$module/Public -isystem "$stage/include" \
        -o $out/component tests/unreal/component.cpp $module/Private/*.cpp -L"$stage/lib" -lrealizar -Wl,-rpath,"$stage/lib"
    $compiler -std=c++17 -O1 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Werror -Itests/unreal/stub -I$module/Public -I$game/Source/Adventure \
        -isystem "$stage/include" -o $out/game tests/unreal/adventure.cpp $game/Source/Adventure/*.cpp $module/Private/RealizarChatComponent.cpp \
        -L"$stage/lib" -lrealizar -Wl,-rpath,"$stage/lib" -pthread
done
[ -n "$found" ] || { echo "SKIPPED: the Unreal tests, because there is neither g++ nor clang++"; exit 0; }
program_models $out "$stage"
question='Once upon a time'
component() { # its arguments, see component.cpp
    $out/component "$@" >$out/answer || { cat $out/answer; exit 1; }
}
ENCODER=$PWD/$out/mmproj.gguf
python3 tests/encoder.py vision/llava "$ENCODER"
export ENCODER
component $out/chat.gguf "$question" ', there was a little girl named Lily.' 100 '' -1 -1 story
component $out/advised.gguf "$question" "$(program $out/advised.gguf "$question")" 100 '' -1 -1
component $out/advised.gguf "$question" "$(program $out/chat.gguf "$question")" 100 '' -1 0
component $out/thoughts.gguf ', there' "$(program $out/thoughts.gguf ', there' -s "$question" --think 5)" 100 "$question" 5 -1
component $out/thoughts.gguf ', there' "$(program $out/thoughts.gguf ', there' -s "$question" --think 0)" 100 "$question" 0 -1
[ -z "$real" ] || component "$real" 'What is the capital of France, and what is it famous for?' Paris 2000 '' -1 0
echo "ok: the component for Unreal"
preload=
if [ "$(uname -s)" = Linux ]; then
    ${CC:-cc} -shared -fPIC -Wall -Wextra -Werror -o $out/count.so tests/count_steps.c -I"$stage/include" -ldl
    preload=$PWD/$out/count.so
fi
COUNTED=$out/counted LD_PRELOAD=$preload $out/game $out/chat.gguf $game/Content 100 1000 >$out/transcript || { cat $out/transcript; exit 1; }
said=$(python3 tests/adventure.py $story ${preload:+$out/counted 100} <$out/transcript)
echo "ok: the adventure for Unreal: $said"
if command -v mcs >/dev/null && command -v mono >/dev/null; then
    mcs -warnaserror -out:$out/rules.exe tests/unreal/UnrealBuildTool.cs $module/Realizar.Build.cs $game/Source/*.cs $game/Source/Adventure/*.cs
    [ "$(mono $out/rules.exe | sed -n '3p;5p')" = "Linux: Plugin/Source/Realizar/../ThirdParty/realizar/Linux/include \
Plugin/Source/Realizar/../ThirdParty/realizar/Linux/lib/librealizar.so Plugin/Source/Realizar/../ThirdParty/realizar/Linux/lib/librealizar.so.1
Realizar has no library for Other" ] || { echo "FAILED: the rules of the module"; mono $out/rules.exe; exit 1; }
    echo "ok: the rules of the module for Unreal"
else
    echo "SKIPPED: the rules of the module for Unreal, because there is no mcs with mono"
fi
