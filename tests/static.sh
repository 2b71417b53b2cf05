#!/usr/bin/env bash
# Links an installed librealizar.a next to other Rust libraries, in both orders, by the linkers that are here, and into a
# shared library:  tests/static.sh FOLDER, which has lib/ and include/.
set -euo pipefail
root=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
[ "$(uname -s)" = Linux ] || { echo "SKIPPED: static linking, because this is not Linux"; exit 0; }
# Panics are part of the test.
export RUST_BACKTRACE=0
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
archive=$root/lib/librealizar.a model=$PWD/tests/data/stories260K-f32.gguf
expected=", there was a little girl named Lily. She loved to play outside in the park."
cc=${CC:-cc} cxx=${CXX:-c++}

defined=$(nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort)
[ "$defined" = "$(sed -n 's/^ *\(rz_[a-z0-9_]*\);$/\1/p' packaging/realizar.map | sort)" ] ||
    { echo "FAILED: librealizar.a does not define what packaging/realizar.map lists: $(wc -w <<<"$defined") symbols"; exit 1; }
if readelf -SW "$archive" | grep '\.llvm\(bc\|cmd\)' >/dev/null; then echo "FAILED: librealizar.a has bitcode"; exit 1; fi
echo "ok: librealizar.a defines the functions of the header, and nothing else"

compile=("${RUSTC:-rustc}" --edition 2024 -O --crate-type staticlib -C panic=unwind)
"${compile[@]}" --crate-name other -o "$temporary/libother.a" tests/install/other.rs
"${compile[@]}" --crate-name second --cfg second -o "$temporary/second.a" tests/install/other.rs
echo "  second_run;" >"$temporary/map"
scripts/static-library "$temporary/second.a" "$temporary/libsecond.a" "$temporary/map"
others=("$temporary/libother.a" "$temporary/libsecond.a")

$cc -fPIC -Dmain=story -c -o "$temporary/c.o" tests/install/program.c -I"$root/include"
$cxx -std=c++17 -fPIC -Dmain=story -c -o "$temporary/cpp.o" tests/install/program.cpp -I"$root/include"
$cc -c -o "$temporary/beside-c.o" tests/install/beside.c
$cxx -x c++ -c -o "$temporary/beside-cpp.o" tests/install/beside.c
$cc -fPIC -DSHARED -c -o "$temporary/beside-shared.o" tests/install/beside.c

libraries=(-lpthread -ldl -lm) # Libs.private of realizar.pc
run() { # name, program
    local answer
    answer=$("$2" "$model" 2>"$temporary/errors") || { echo "FAILED: $1"; cat "$temporary/errors"; exit 1; }
    [ "$answer" = "$expected" ] || { printf 'FAILED: %s printed "%s"\n' "$1" "$answer"; exit 1; }
    echo "ok: $1"
}
link() { # name, compiler, language, arguments
    "$2" -o "$temporary/program" "$temporary/beside-$3.o" "$temporary/$3.o" "${@:4}" "${libraries[@]}"
    run "$1" "$temporary/program"
}
link "static, before other Rust libraries" "$cc" c "$archive" "${others[@]}"
link "static, after other Rust libraries, C++" "$cxx" cpp "${others[@]}" "$archive"
link "static, without unused sections" "$cc" c -Wl,--gc-sections "${others[@]}" "$archive"
for linker in lld mold; do
    if command -v "ld.$linker" >/dev/null; then
        link "static, by $linker" "$cxx" cpp "-fuse-ld=$linker" -Wl,--gc-sections "$archive" "${others[@]}"
    fi
done
# The header has nothing that a plugin would export, and --exclude-libs hides what archives define.
$cc -shared -o "$temporary/libhost.so" "$temporary/beside-shared.o" "$temporary/c.o" "$archive" "${others[@]}" \
    "${libraries[@]}" -Wl,--exclude-libs,ALL -Wl,-z,defs
if nm -D --defined-only "$temporary/libhost.so" | grep ' rz_'; then echo "FAILED: exported by a shared library"; exit 1; fi
$cc -o "$temporary/program" tests/install/host.c "$temporary/libhost.so" -Wl,-rpath,"$temporary"
run "static, in a shared library" "$temporary/program"
