#!/usr/bin/env bash
# Has clang read the header by the module map of the Swift package, and builds the package and runs its tests where Swift is:
# tests/swift.sh STAGE.  MODEL=file.gguf tests on a real model too.  SWIFT_ROOT=folder runs all of it in a system with a
# Swift, which scripts/swift-root makes.
set -euo pipefail
stage=$1
MODEL=${MODEL:+$(realpath "$MODEL")}
export MODEL
cd "$(dirname "$0")/../bindings/swift"
if [ -n "${SWIFT_ROOT-}" ]; then
    # In a mount namespace of its own, so that nothing stays mounted. Debian's compiler finds its libraries by
    # LD_LIBRARY_PATH alone.
    root=$SWIFT_ROOT project=$(realpath ../..) swift=/usr/libexec/swift/lib/swift
    mkdir -p "$root$project"
    exec unshare -m --propagation private bash -euc '
        root=$1 project=$2
        mount -t proc proc "$root/proc"
        mount --bind /dev "$root/dev"
        mount --bind "$project" "$root$project"
        if [ -n "$MODEL" ] && [ ! -e "$root$MODEL" ]; then # it may be anywhere
            mount -t tmpfs tmpfs "$root/mnt"
            inside=/mnt/${MODEL##*/}
            if [ -d "$MODEL" ]; then mkdir "$root$inside"; else : >"$root$inside"; fi
            mount --bind "$MODEL" "$root$inside"
            MODEL=$inside
        fi
        shift 2
        exec chroot "$root" env -u SWIFT_ROOT "$@"' _ "$root" "$project" HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        LD_LIBRARY_PATH=$swift/linux:$swift/host "$project/tests/swift.sh" "$stage"
fi
if command -v clang >/dev/null; then
    echo '@import CRealizar; int main(void) { return (int)(rz_abi_version() - RZ_ABI_VERSION); }' |
        clang -fmodules -fmodule-map-file=Sources/CRealizar/module.modulemap -fmodules-cache-path="$stage/../modules" \
            -fsyntax-only -Wall -Wextra -Werror -x objective-c -I"$stage/include" -
    echo "ok: the header as a module"
else
    echo "SKIPPED: the header as a module, because there is no clang"
fi
if ! swift --version 2>/dev/null | grep -q "Swift version"; then
    echo "SKIPPED: the Swift tests, because there is no swift (Debian 13: swiftlang, or scripts/swift-root)"
    exit 0
fi
export PKG_CONFIG_PATH=$stage/lib/pkgconfig LD_LIBRARY_PATH=$stage/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} DYLD_LIBRARY_PATH=$stage/lib
. ../../tests/add-template.sh
# The forms of calls and of reasoning are read off the template, which leaves no messages to what is put behind it.
export CHAT=$stage/../chat.gguf
add_template ../../tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}'\
'{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or "" }}'\
'{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}'\
'{% endfor %}{% if add_generation_prompt and enable_thinking %}<think>{% endif %}{% set messages = [] %}' >"$CHAT"
# The folder of a package is not written to. Warnings, of data races too, are errors.
swift test --scratch-path "$stage/../swift" -Xswiftc -warnings-as-errors -Xswiftc -strict-concurrency=complete
# The blocks of the guides, as a package that uses this one.
guides=$stage/../guides
rm -rf "$guides"
mkdir -p "$guides/Sources/Guides"
cp ../../docs/snippets/guides.swift "$guides/Sources/Guides/main.swift"
mkdir -p "$guides/Sources/Start"
cp ../../docs/snippets/start/chat.swift "$guides/Sources/Start/main.swift"
cat >"$guides/Package.swift" <<END
// swift-tools-version: 5.9
import PackageDescription
let package = Package(
    name: "Guides", platforms: [.macOS(.v12)], dependencies: [.package(path: "$PWD")],
    targets: ["Guides", "Start"].map {
        .executableTarget(name: \$0, dependencies: [.product(name: "Realizar", package: "swift")])
    })
END
add_template ../../tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}' \
    '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}' \
    >"$guides/chat.gguf"
# The first program has a message of the system, with which the tiny model can do nothing.
add_template ../../tests/data/stories260K-f32.gguf '{{ bos_token }}{% set messages = messages[-1:] %}' >"$guides/last.gguf"
swift build --package-path "$guides" -Xswiftc -strict-concurrency=complete >"$guides/errors" 2>&1 || { echo "FAILED: the guides: $(cat "$guides/errors")"; exit 1; }
expected=', there was a little girl named Lily. She loved to play outside in the park.'
said=$("$guides/.build/debug/Guides" "$guides/chat.gguf" ../../tests/data/story-adapter.gguf "$guides/store" 2>"$guides/errors") &&
    [[ $said == "$expected"*"all ran" ]] || { echo "FAILED: the guides: $said $(cat "$guides/errors")"; exit 1; }
said=$(echo "Once upon a time" | "$guides/.build/debug/Start" "$guides/last.gguf" 2>"$guides/errors") &&
    [[ $said == "$expected"* ]] || { echo "FAILED: the first program: $said $(cat "$guides/errors")"; exit 1; }
echo "ok: the guides, Swift"
[ -e "$stage/lib/librealizar.so" ] || exit 0
../../tests/devices.sh "$stage" "$stage/../devices" env LD_PRELOAD="$stage/../devices/librealizar.so" "$stage/../swift/debug/Chat" doctor
# A library of another interface is named.
. ../../tests/other-library.sh
other_library "$stage" "$stage/../other"
error=$(LD_LIBRARY_PATH=$stage/../other:$LD_LIBRARY_PATH "$stage/../swift/debug/Chat" model.gguf 2>&1 </dev/null || true)
case $error in
*"librealizar 9.9 has the interface 99, 1 is needed"*) echo "ok: a library of another interface" ;;
*) echo "FAILED: a library of another interface: $error"; exit 1 ;;
esac
