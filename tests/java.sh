#!/usr/bin/env bash
# Compiles the Java package, its tests and its example, and runs the tests:  tests/java.sh LIBRARY
# MODEL=file.gguf tests on a real model too.
set -euo pipefail
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
. tests/find-jdk.sh
find_jdk
if [ -z "$jdk" ]; then
    echo "SKIPPED: the Java tests, because there is no JDK 22 or newer"
    exit 0
fi
out=build/java
rm -rf $out
mkdir -p $out
# Annotations of nullness are compiled against, and are in no package; tests read them.
nullness=(-sourcepath bindings/java/jspecify -implicit:none)
"$jdk/bin/javac" -d $out/jspecify bindings/java/jspecify/org/jspecify/annotations/*.java
"$jdk/bin/javac" --release 22 -Xlint:all,-restricted,-serial -Werror -parameters "${nullness[@]}" -d $out bindings/java/realizar/*.java
"$jdk/bin/javac" --release 22 -Xlint:all,-try -Werror -cp $out:$out/jspecify -d $out bindings/java/Chat.java bindings/java/tests/*.java
classes=$out
# Comments have no error, and every public name has one. Tags that repeat names and results are not asked for.
"$jdk/bin/javadoc" -quiet -Xdoclint:all -Xmaxwarns 10000 --release 22 -sourcepath bindings/java/jspecify -d $out/doc bindings/java/realizar/*.java \
    >$out/doc.log 2>&1 || { cat $out/doc.log; exit 1; }
if grep -E "warning: " $out/doc.log | grep -Ev "warning: no @(param|return|throws)"; then echo "FAILED: the documentation"; exit 1; fi
run() { "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -cp $classes ${options[@]+"${options[@]}"} "$@"; }
options=()
. tests/add-template.sh
# The forms of calls and of reasoning are read off the template, which leaves no messages to what is put behind it.
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}'\
'{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or "" }}'\
'{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}'\
'{% endfor %}{% if add_generation_prompt and enable_thinking %}<think>{% endif %}{% set messages = [] %}' >$out/chat.gguf
# Virtual threads have one processor, which none of them may keep.
virtual() { run -Djdk.virtualThreadScheduler.parallelism=1 -Djdk.virtualThreadScheduler.maxPoolSize=1 -Drealizar.library="$library" "$@"; }
tests() {
    virtual Tests tests/data/stories260K-f32.gguf $out/chat.gguf ${MODEL:+"$MODEL"}
    virtual -Xms96m -Xmx96m -XX:+AlwaysPreTouch UseTests $out/chat.gguf
}
tests
run -Drealizar.library="$library" realizar.OptionsTests
sees=()
if command -v python3 >/dev/null; then
    rm -rf $out/sees
    python3 tests/encoder.py videos/qwen25 $out/sees
    sees=($out/sees)
fi
classes=$out:$out/jspecify run -Drealizar.library="$library" realizar.ArgumentTests $out/chat.gguf $out ${sees[@]+"${sees[@]}"}
if command -v python3 >/dev/null; then
    rm -f $out/hub
    mkfifo $out/hub
    exec 3> >(exec python3 tests/hub/server.py >$out/hub) # which ends with this script
    read -r address <$out/hub
    run -Drealizar.library="$library" realizar.HubTests tests/data/hub.json "$address"
    export HF_HOME=$out/cache HF_ENDPOINT=$address/ok
    said=$(run -Drealizar.library="$library" realizar.Main doctor hf:tests/story)
    form='^realizar [^ ]+, Java .*
device 1: .*, [0-9.]+ of [0-9.]+ GB of memory free
(device .*
)*takes [0-9.]+ MB of memory, [0-9.]+ MB of GPUs, with one conversation
loaded in [0-9]+ ms: llama on device 1, no chat template
[0-9.]+ tokens per second$'
    [[ $said =~ $form ]] || { echo "FAILED: the doctor: $said"; exit 1; }
    said=$(run -Drealizar.library="$library" realizar.Main chat hf:tests/absent 2>&1 </dev/null) && exit 1
    [[ $said == "RZ_ERR_IO: there is no tests/absent at $address/ok: check the name" ]] || { echo "FAILED: an error: $said"; exit 1; }
    said=$(echo "Once upon a time" | run -Drealizar.library="$library" realizar.Main chat $out/chat.gguf)
    [[ $said == "> , there was a little girl named Lily."*"> " ]] || { echo "FAILED: the command line: $said"; exit 1; }
else
    echo "SKIPPED: models of the Hub in Java, because there is no python3"
fi
tests/devices.sh "$(dirname "$library")/.." $out/devices "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -cp $classes \
    -Drealizar.library=$out/devices/librealizar.so realizar.Main doctor
# A library that is not there is named, and so are one of another interface and what is none.
refused() { # library, why
    if run -Drealizar.library="$1" Tests tests/data/stories260K-f32.gguf 2>$out/error; then exit 1; fi
    grep -q "the library $1 $2" $out/error || { cat $out/error; exit 1; }
}
refused /none/librealizar.so "cannot be loaded"
if command -v cc >/dev/null; then
    echo 'int rz_abi_version(void) { return 99; }' | cc -shared -fPIC -x c -o $out/other.so -
    refused "$PWD/$out/other.so" "has the interface 99, 1 is needed"
    echo 'int other;' | cc -shared -fPIC -x c -o $out/foreign.so -
    refused "$PWD/$out/foreign.so" "has no function rz_abi_version"
fi

# A program that ends in the middle of calls ends as it says.
run -Drealizar.library="$library" UseTests $out/chat.gguf exit && exit 1 || [ $? = 7 ] || { echo "FAILED: the end of a program"; exit 1; }

# The same tests by JNI, as on Android.
if ! command -v cc >/dev/null || [ ! -e "$jdk/include/jni.h" ]; then
    echo "SKIPPED: the Java tests by JNI, because there is no cc or no jni.h"
    exit 0
fi
options=(-Drealizar.jni=true -Djava.library.path=$out -Xcheck:jni)
if run -Drealizar.library="$library" Tests tests/data/stories260K-f32.gguf 2>$out/error; then exit 1; fi
grep -q "UnsatisfiedLinkError: the library librealizar_jni.so cannot be loaded: put its folder into the property java.library.path" $out/error ||
    { cat $out/error; exit 1; }
scripts/jni "$library" "$jdk/include" $out/librealizar_jni.so
tests
refused /none/librealizar.so "cannot be loaded"
