#!/usr/bin/env bash
# Makes the archive for Android and tests what it can here:  tests/android.sh LIBRARY
# The archive gets this machine's library, and its classes run the tests of the Java package on this machine. They may
# use what Android 8 has, and are compiled by the compiler of Android. With an NDK the real archive is made too.
set -euo pipefail
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
. tests/find-jdk.sh
find_jdk
if [ -z "$jdk" ] || [ ! -e "$jdk/include/jni.h" ] || ! command -v cc >/dev/null; then
    echo "SKIPPED: the archive for Android, because there is no JDK 22 or newer, or no cc"
    exit 0
fi
out=$PWD/build/android
rm -rf "$out"
mkdir -p "$out/libraries/here" "$out/unpacked"
cp "$library" "$out/libraries/here/"
scripts/jni "$library" "$jdk/include" "$out/libraries/here/librealizar_jni.so"
scripts/aar "$jdk" "$out/made" "$out/libraries"
(cd "$out/unpacked" && "$jdk/bin/jar" --extract --file "$out/made/realizar.aar")
"$jdk/bin/javac" --release 22 -cp "$out/unpacked/classes.jar" -d "$out/tests" bindings/java/tests/Tests.java bindings/java/tests/ClosingTests.java
. tests/add-template.sh
# As in tests/java.sh.
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}'\
'{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or "" }}'\
'{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}'\
'{% endfor %}{% if add_generation_prompt and enable_thinking %}<think>{% endif %}{% set messages = [] %}' >"$out/chat.gguf"
# The libraries are found as on Android, by their names. The property has the tests leave segments of memory out.
"$jdk/bin/java" --enable-native-access=ALL-UNNAMED -Drealizar.jni=true -Djava.library.path="$out/unpacked/jni/here" \
    -cp "$out/unpacked/classes.jar:$out/tests" Tests tests/data/stories260K-f32.gguf "$out/chat.gguf"

maven() { mvn -q -B -f bindings/java/android/pom.xml "$@" >"$out/log" 2>&1; }
if ! command -v mvn >/dev/null || ! maven dependency:build-classpath -Dmdep.outputFile="$out/path"; then
    echo "SKIPPED: the compiler of Android, because there is no mvn or it cannot fetch that"
else
    maven animal-sniffer:check -Dclasses="$out/made/classes" || { echo "FAILED: Android 8 lacks classes or methods"; cat "$out/log"; exit 1; }
    mkdir "$out/dex"
    kotlin=$(grep -o '[^:]*kotlin-stdlib[^:]*' "$out/made/kotlin.path" 2>/dev/null || true)
    "$jdk/bin/java" -cp "$(cat "$out/path")" com.android.tools.r8.D8 --release --min-api 26 --lib "$jdk" \
        ${kotlin:+--classpath "$kotlin"} --output "$out/dex" "$out/made/classes.jar" 2>&1 | tee "$out/log"
    [ -s "$out/dex/classes.dex" ] && [ ! -s "$out/log" ] || { echo "FAILED: the compiler of Android"; exit 1; }
    echo "ok: the compiler of Android"
fi
scripts/aar "$jdk" "$out/ndk" || [ $? = 77 ]
