#!/usr/bin/env bash
# Installs into an empty folder, moves the tree elsewhere, and builds and runs programs against it as a stranger would.
set -euo pipefail
cd "$(dirname "$0")/.."

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
[[ $(make -n -W src/lib.rs install) == *"build --release --lib"* ]] ||
    { echo "FAILED: an older library than the sources would be installed"; exit 1; }
make -s install DESTDIR="$temporary/staged" PREFIX=/opt/realizar
mv "$temporary/staged/opt/realizar" "$temporary/moved"
root=$temporary/moved
model=$PWD/tests/data/stories260K-f32.gguf
expected=", there was a little girl named Lily. She loved to play outside in the park."

run() {
    local name=$1 answer
    shift
    answer=$("$@" "$model")
    [ "$answer" = "$expected" ] || { printf 'FAILED: %s printed "%s"\n' "$name" "$answer"; exit 1; }
    echo "ok: $name"
}

for file in include/realizar.h include/realizar.hpp include/realizar_types.hpp lib/librealizar.a share/licenses/realizar/LICENSE-MIT share/realizar/valgrind.supp; do
    [ -f "$root/$file" ] || { echo "FAILED: $file is missing"; exit 1; }
done
if command -v nm >/dev/null && [ -f "$root/lib/librealizar.so" ]; then
    foreign=$(nm -D --defined-only "$root/lib/librealizar.so" | awk '$2 != "A" && $3 !~ /^rz_/ { print $3 }')
    [ -z "$foreign" ] || { printf 'FAILED: exported beside rz_*: %s\n' "$foreign"; exit 1; }
    echo "ok: only rz_* is exported"
fi
if command -v objdump >/dev/null && [ -f "$root/lib/librealizar.so" ]; then
    symbols=$(objdump -T "$root/lib/librealizar.so" | grep ' rz_')
    if [ -z "$symbols" ] || grep -v ' REALIZAR_0\.1 ' <<<"$symbols"; then
        echo "FAILED: exported without a version"
        exit 1
    fi
    abi=$(sed -n 's/^#define RZ_ABI_VERSION //p' "$root/include/realizar.h")
    [[ $(objdump -p "$root/lib/librealizar.so") =~ SONAME\ +librealizar\.so\.$abi[[:space:]] ]] && [ -e "$root/lib/librealizar.so.$abi" ] ||
        { echo "FAILED: the SONAME is not that of interface $abi"; exit 1; }
    echo "ok: symbols have versions, and the library the number of its interface"
fi

tests/static.sh "$root"

cc=${CC:-cc} cxx=${CXX:-c++}
if pkg-config --version >/dev/null 2>&1; then
    export PKG_CONFIG_PATH=$root/lib/pkgconfig
    [ "$(pkg-config --modversion realizar)" = "$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)" ]
    # shellcheck disable=SC2046 # words are meant to be split
    $cc -o "$temporary/shared" tests/install/program.c $(pkg-config --cflags --libs realizar) -Wl,-rpath,"$root/lib"
    run "pkg-config, shared library" "$temporary/shared"
    # shellcheck disable=SC2046
    $cxx -std=c++17 -o "$temporary/cpp" tests/install/program.cpp $(pkg-config --cflags --libs realizar) -Wl,-rpath,"$root/lib"
    run "pkg-config, C++" "$temporary/cpp"
    # Without the shared library beside it, -lrealizar is the archive.
    mkdir "$temporary/archive"
    cp "$root/lib/librealizar.a" "$temporary/archive"
    # shellcheck disable=SC2046
    $cc -o "$temporary/static" tests/install/program.c $(pkg-config --static --cflags --libs realizar |
        sed "s|-L$(pkg-config --variable=libdir realizar)|-L$temporary/archive|")
    run "pkg-config, static library" "$temporary/static"
    if command -v readelf >/dev/null && readelf -d "$temporary/static" | grep librealizar >/dev/null; then
        echo "FAILED: the static program needs the shared library"
        exit 1
    fi
else
    echo "SKIPPED: pkg-config, which is not here"
fi

if cmake --version >/dev/null 2>&1; then
    cmake -S tests/install -B "$temporary/cmake" -DCMAKE_PREFIX_PATH="$root" >"$temporary/log" 2>&1 &&
        cmake --build "$temporary/cmake" >>"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
    run "cmake, shared library" "$temporary/cmake/shared"
    run "cmake, static library" "$temporary/cmake/static"
    run "cmake, C++" "$temporary/cmake/cpp"
else
    echo "SKIPPED: cmake, which is not here"
fi

# A library folder that is named as a whole, below the prefix and elsewhere, and nothing left behind.
for libdir in /opt/realizar/lib64 /other/lib64; do
    make -s install DESTDIR="$temporary/whole" PREFIX=/opt/realizar LIBDIR=$libdir
    [ -e "$temporary/whole$libdir/librealizar.a" ] || { echo "FAILED: LIBDIR=$libdir"; exit 1; }
    if pkg-config --version >/dev/null 2>&1; then
        said=$(PKG_CONFIG_PATH=$temporary/whole$libdir/pkgconfig pkg-config --variable=libdir realizar)
        [[ $(realpath -m "$said") == *"$libdir" ]] || { echo "FAILED: LIBDIR=$libdir, pkg-config: $said"; exit 1; }
    fi
    make -s uninstall DESTDIR="$temporary/whole" PREFIX=/opt/realizar LIBDIR=$libdir >/dev/null
    [ -z "$(find "$temporary/whole" -type f -o -type l)" ] || { echo "FAILED: make uninstall"; exit 1; }
done
echo "ok: absolute library folders, and make uninstall"
[[ $(make help) == *"make test-aarch64"* ]] || { echo "FAILED: make help hides a target"; exit 1; }
# Cargo gets the features of make and of scripts/dist.
[[ $(make -n lib FEATURES=wgpu) == *"build --release --lib --features wgpu"* ]] || { echo "FAILED: make lib FEATURES=wgpu"; exit 1; }
if python3 --version >/dev/null 2>&1; then
    mkdir "$temporary/stubs"
    printf '#!/bin/sh\necho "$@" >>"$LOG"\n' >"$temporary/stubs/cargo"
    printf '#!/bin/sh\necho /\n' >"$temporary/stubs/rustc"
    chmod +x "$temporary/stubs"/*
    said=$(LOG=$temporary/cargo PATH=$temporary/stubs:$PATH REALIZAR_FEATURES=wgpu CARGO_TARGET_DIR=$temporary/stubs \
        scripts/dist --check i686-unknown-linux-gnu wasm32-wasip1 aarch64-apple-darwin)
    [[ $(<"$temporary/cargo") == $'check --lib --features wgpu\ncheck --lib' && $said == *"SKIPPED: aarch64-apple-darwin, because wgpu"* ]] ||
        { echo "FAILED: scripts/dist with features: $said $(<"$temporary/cargo")"; exit 1; }
fi
# What is missing is said ahead of minutes of building, and deletes nothing.
mkdir -p "$temporary/tools" build/dist
touch build/dist/kept
for tool in bash sh sed head uname find make touch; do ln -s "$(command -v $tool)" "$temporary/tools/"; done
if PATH=$temporary/tools make -s dist CARGO=false >"$temporary/log" 2>&1 || [ ! -e build/dist/kept ] || ! grep -q "need python3" "$temporary/log"; then
    echo "FAILED: make dist without python3"
    cat "$temporary/log"
    exit 1
fi
rm build/dist/kept
if make -s serve CARGO=false GO=/none/go >"$temporary/log" 2>&1 || ! grep -q "needs Go" "$temporary/log"; then
    echo "FAILED: make serve without Go"
    cat "$temporary/log"
    exit 1
fi
# A tree in a folder with a space, with the library of this one.
if [ "$(uname -s)" = Linux ]; then
    tree="$temporary/a tree"
    mkdir -p "$tree/target/release" "$tree/build"
    tar --exclude=./target --exclude=./build --exclude=./.git -cf - . | tar -C "$tree" -xf -
    ln -s "$PWD/${CARGO_TARGET_DIR:-target}"/release/librealizar.a "$PWD/${CARGO_TARGET_DIR:-target}"/release/librealizar.so "$tree/target/release/"
    touch "$tree/target/release/realizar.stamp"
    cd "$tree"
    env -u CARGO_TARGET_DIR make -s demo CARGO=false MODEL="$model" PROMPT="Once upon a time" ARGS= >"$temporary/log" 2>&1 </dev/null || true
    grep -q "RZ_ERR_UNSUPPORTED\|Lily" "$temporary/log" || { echo "FAILED: make demo in a folder with a space"; cat "$temporary/log"; exit 1; }
    if python3 --version >/dev/null 2>&1; then
        env -u CARGO_TARGET_DIR make -s wheel CARGO=false >"$temporary/log" 2>&1 && compgen -G 'build/wheels/*.whl' >/dev/null ||
            { echo "FAILED: make wheel in a folder with a space"; cat "$temporary/log"; exit 1; }
    fi
    if pkg-config --version >/dev/null 2>&1 && (cd bindings/go/cmd/serve && go mod download) >/dev/null 2>&1; then
        env -u CARGO_TARGET_DIR make -s build/bin/serve CARGO=false >"$temporary/log" 2>&1 && build/bin/serve -h 2>&1 | grep slots >/dev/null ||
            { echo "FAILED: make serve in a folder with a space"; cat "$temporary/log"; exit 1; }
    fi
    echo "ok: a tree in a folder with a space"
fi
