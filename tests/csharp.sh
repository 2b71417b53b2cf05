#!/usr/bin/env bash
# Compiles the C# package and its tests and runs them, with the SDK of scripts/dotnet-sdk:  tests/csharp.sh LIBRARY
# MODEL=file.gguf tests on a real model too.
set -euo pipefail
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
dotnet=$(scripts/dotnet-sdk) || { [ $? = 77 ] && exit 0; exit 1; }
out=build/csharp
rm -rf $out
mkdir -p $out
# Every public member has a comment; parameters need none where it says what they are.
scripts/compile-csharp library -unsafe -doc:$out/Realizar.xml -nowarn:1573 -out:$out/Realizar.dll bindings/csharp/Realizar/*.cs
scripts/compile-csharp program -r:$out/Realizar.dll -out:$out/Tests.dll bindings/csharp/Tests/{Tests,MisuseTests,UnityStub}.cs bindings/csharp/Unity/*.cs
scripts/compile-csharp program -unsafe -out:$out/HubTests.dll bindings/csharp/Tests/HubTests.cs bindings/csharp/Realizar/*.cs
scripts/compile-csharp program -r:$out/Realizar.dll -out:$out/Chat.dll bindings/csharp/Chat/Chat.cs
scripts/compile-csharp program -r:$out/Realizar.dll -out:$out/Guides.dll docs/snippets/Guides.cs
scripts/compile-csharp program -r:$out/Realizar.dll -out:$out/Start.dll docs/snippets/start/Chat.cs
# The adventure for Unity, with the package's own copy of the binding. The csc.rsp of the package has the same option.
rm -rf $out/adventure
examples/adventure/build unity "$(dirname "$library")/.." $out/adventure
story=$out/adventure/Runtime/Resources/adventure.json
sed -i.whole '/"name": "stay"/d' $story # The tiny model would do nothing else.
scripts/compile-csharp program -unsafe -nullable:annotations -out:$out/Player.dll tests/unity/Player.cs bindings/csharp/Tests/UnityStub.cs $out/adventure/Runtime/{,Realizar/}*.cs
for program in Tests HubTests Chat Guides Start Player; do
    echo '{"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}}}' >$out/$program.runtimeconfig.json
done
cp "$library" $out/
. tests/add-template.sh
# The form of calls is read off the template.
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}' \
    '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}' \
    >$out/chat.gguf
"$dotnet" $out/Tests.dll tests/data/stories260K-f32.gguf $out/chat.gguf ${MODEL:+"$MODEL"}
for _ in 1 2 3; do
    code=0
    "$dotnet" $out/Tests.dll exit tests/data/stories260K-f32.gguf || code=$?
    [ $code = 7 ] || { echo "FAILED: the end of a process while threads compute: $code"; exit 1; }
done
# Models of the Hub, with a disk that is full where one can be mounted.
hub() { "$dotnet" $out/HubTests.dll "$@"; }
mkfifo $out/hub
exec 3> >(exec python3 tests/hub/server.py >$out/hub) # which ends with this script
read -r address <$out/hub
mkdir $out/disk
if unshare -m mount -t tmpfs none $out/disk 2>/dev/null; then
    export -f hub
    export dotnet out address
    unshare -m bash -ec 'mount -t tmpfs -o size=1200k none $out/disk; hub tests/data/hub.json $address $PWD/$out/disk'
else
    echo "SKIPPED: a full disk in C#, because none can be mounted"
    hub tests/data/hub.json "$address"
fi
path=$(HF_HOME=$out/cache HF_ENDPOINT=http://hub.invalid/ok http_proxy=$address hub fetch hf:tests/many:Q4_K_M)
form='^realizar [^ ]+, .*
device 1: .*, [0-9.]+ of [0-9.]+ GB of memory free
(device .*
)*takes [0-9.]+ MB of memory, [0-9.]+ MB of GPUs, with one conversation
loaded in [0-9]+ ms: llama on device 1, no chat template
[0-9.]+ tokens per second$'
said=$(HF_HOME=$out/cache HF_ENDPOINT=$address/ok "$dotnet" $out/Chat.dll doctor hf:tests/story)
[[ $said =~ $form ]] || { echo "FAILED: the doctor: $said"; exit 1; }
tests/devices.sh "$(dirname "$library")/.." $out "$dotnet" $out/Chat.dll doctor
cp "$library" $out/
[[ $path == $out/cache/hub/*/many-Q4_K_M.gguf ]] || { echo "FAILED: a proxy of the environment: $path"; exit 1; }
story_of_hub "$PWD/$out/story"
said=$(echo "Once upon a time" | "$dotnet" $out/Guides.dll $out/chat.gguf tests/data/story-adapter.gguf $out/store 2>&1) ||
    { echo "FAILED: the guides: $said"; exit 1; }
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% set messages = messages[-1:] %}' >$out/last.gguf
said=$(echo "Once upon a time" | "$dotnet" $out/Start.dll $out/last.gguf)
[[ $said == ", there was a little girl named Lily."* ]] || { echo "FAILED: the first program: $said"; exit 1; }
echo "ok: the guides, C#"
count=()
if [ "$(uname -s)" = Linux ] && command -v cc >/dev/null; then
    # In place of the library, which it needs and finds beside it.
    cp "$library" $out/librealizar.so.1
    rm $out/librealizar.so
    cc -shared -fPIC -Wall -Wextra -Werror -o $out/librealizar.so tests/count_steps.c -I"$(dirname "$library")/../include" -ldl \
        -Wl,--no-as-needed $out/librealizar.so.1 -Wl,-rpath,'$ORIGIN'
    count=($out/counted 100)
fi
COUNTED=$out/counted "$dotnet" $out/Player.dll $out/chat.gguf $out/adventure/Runtime/Resources 100 1000 >$out/transcript ||
    { cat $out/transcript; exit 1; }
said=$(python3 tests/adventure.py $story "${count[@]}" <$out/transcript)
cp "$library" $out/
echo "ok: the adventure for Unity: $said"
# A library that is not there, one of another interface, and what is none are named.
refused() { # why
    said=$("$dotnet" $out/Tests.dll load)
    [[ $said == "the library realizar $1"* ]] || { echo "FAILED: $said"; exit 1; }
}
mv "$out/$(basename "$library")" $out/kept
refused "cannot be loaded: "
if command -v cc >/dev/null; then
    echo 'int rz_abi_version(void) { return 99; }' | cc -shared -fPIC -x c -o "$out/$(basename "$library")" -
    refused "has the interface 99, 1 is needed"
    echo 'int other;' | cc -shared -fPIC -x c -o "$out/$(basename "$library")" -
    refused "lacks a function: "
fi
mv $out/kept "$out/$(basename "$library")"
