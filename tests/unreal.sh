#!/usr/bin/env bash
# Compiles the component for Unreal Engine against a stand-in for the engine's headers, as the engine does, without exceptions and
# run-time types, and runs it on the tiny model:  tests/unreal.sh STAGE.  MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1
real=${MODEL:+$(realpath "$MODEL")}
cd "$(dirname "$0")/.."
. tests/add-template.sh
out=build/unreal module=bindings/unreal/Source/Realizar
mkdir -p $out
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}' >$out/chat.gguf
found=
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || continue
    found=yes
    $compiler -std=c++17 -O1 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Werror -Itests/unreal/stub -I$module/Public -isystem "$stage/include" \
        -o $out/component tests/unreal/component.cpp $module/Private/*.cpp -L"$stage/lib" -lrealizar -Wl,-rpath,"$stage/lib"
done
[ -n "$found" ] || { echo "SKIPPED: the Unreal tests, because there is neither g++ nor clang++"; exit 0; }
$out/component $out/chat.gguf 'Once upon a time' ', there was a little girl named Lily.' 100 >$out/answer || { cat $out/answer; exit 1; }
[ -z "$real" ] || $out/component "$real" 'What is the capital of France, and what is it famous for?' Paris 2000
echo "ok: the component for Unreal"
if command -v mcs >/dev/null && command -v mono >/dev/null; then
    mcs -warnaserror -out:$out/rules.exe tests/unreal/UnrealBuildTool.cs $module/Realizar.Build.cs
    [ "$(mono $out/rules.exe | sed -n '3p;5p')" = "Linux: Plugin/Source/Realizar/../ThirdParty/realizar/Linux/include \
Plugin/Source/Realizar/../ThirdParty/realizar/Linux/lib/librealizar.so Plugin/Source/Realizar/../ThirdParty/realizar/Linux/lib/librealizar.so.1
Realizar has no library for Other" ] || { echo "FAILED: the rules of the module"; mono $out/rules.exe; exit 1; }
    echo "ok: the rules of the module for Unreal"
else
    echo "SKIPPED: the rules of the module for Unreal, because there is no mcs with mono"
fi
