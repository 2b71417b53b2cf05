#!/usr/bin/env bash
# Compiles the Kotlin package, its tests, its example and the guides, on top of the Java package, and runs them:
# tests/kotlin.sh LIBRARY
# MODEL=file.gguf tests on a real model too.
set -euo pipefail
library=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/.."
. tests/find-jdk.sh
find_jdk
[ -n "$jdk" ] || { echo "SKIPPED: the Kotlin tests, because there is no JDK 22 or newer"; exit 0; }
out=$PWD/build/kotlin
rm -rf "$out"
mkdir -p "$out"
"$jdk/bin/javac" --release 22 -sourcepath bindings/java/jspecify -implicit:none -d "$out/java" bindings/java/realizar/*.java
scripts/kotlinc "$jdk" "$out/package" "$out/java" bindings/kotlin/realizar/*.kt || { [ $? = 77 ] && exit 0; exit 1; }
scripts/kotlinc "$jdk" "$out/programs" "$out/java:$out/package" bindings/kotlin/Chat.kt bindings/kotlin/tests/Tests.kt docs/snippets/Guides.kt
run() {
    "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -Drealizar.library="$library" \
        -cp "$out/java:$out/package:$out/programs:$(cat "$out/package.path")" "$@"
}
# A null where the Java package has none does not compile, nor does a use of what may be null.
wrong=('model.tokenize(null)' 'Conversation(model, null as String?)' 'chat.add("user", null)' 'Options().stops("a", null)'
    'model.embed(listOf("a", null))' 'chat.reply().error().message' 'model.advisedSampling().copy()' 'chat.info().end().name')
{ printf 'import realizar.*\n\nfun wrong(model: Model, chat: Conversation) {\n'; printf '    %s\n' "${wrong[@]}"; echo '}'; } >"$out/wrong.kt"
said=$(scripts/kotlinc "$jdk" "$out/wrong" "$out/java:$out/package" "$out/wrong.kt" 2>&1) && { echo "FAILED: a null compiles"; exit 1; }
for i in "${!wrong[@]}"; do
    grep -Eq "wrong.kt:$((i + 4)):[0-9]+: error: .*(null|only safe|type mismatch|candidates is applicable)" <<<"$said" || { echo "FAILED: ${wrong[i]} compiles: $said"; exit 1; }
done
. tests/add-template.sh
# The form of calls is read off the template.
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}' \
    '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}' \
    >"$out/chat.gguf"
story_of_hub "$out/hub"
run TestsKt tests/data/stories260K-f32.gguf "$out/chat.gguf" ${MODEL:+"$MODEL"}
said=$(echo "Once upon a time" | run ChatKt "$out/chat.gguf")
[[ $said == "> , there was a little girl named Lily."*"> " ]] || { echo "FAILED: the example: $said"; exit 1; }
said=$(echo "Once upon a time" | run GuidesKt "$out/chat.gguf" tests/data/story-adapter.gguf "$out/store" 2>"$out/errors") ||
    { echo "FAILED: the guides, Kotlin"; cat "$out/errors"; exit 1; }
expected=', there was a little girl named Lily. She loved to play outside in the park.'
[[ $said == "$expected"*"all ran" ]] || { echo "FAILED: the guides, Kotlin: $said"; exit 1; }
scripts/kotlinc "$jdk" "$out/start" "$out/java:$out/package" docs/snippets/start/Chat.kt
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% set messages = messages[-1:] %}' >"$out/last.gguf"
said=$(echo "Once upon a time" | "$jdk/bin/java" --enable-native-access=ALL-UNNAMED -Drealizar.library="$library" \
    -cp "$out/java:$out/package:$out/start:$(cat "$out/package.path")" ChatKt "$out/last.gguf")
[[ $said == "$expected"* ]] || { echo "FAILED: the first program: $said"; exit 1; }
echo "ok: the guides, Kotlin"
