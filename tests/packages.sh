#!/usr/bin/env bash
# Makes the packages of a stage again and compares their bytes, then installs each in an empty place, from its file, and
# has it answer there:  tests/packages.sh PACKAGES STAGE
set -euo pipefail
packages=$(realpath "$1") stage=$(realpath "$2")
cd "$(dirname "$0")/.."
root=$PWD
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
temporary=$(mktemp -d)
trap 'chmod -R u+w "$temporary"; rm -rf "$temporary"' EXIT
. tests/add-template.sh
. tests/find-jdk.sh
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% set messages = messages[-1:] %}' >"$temporary/chat.gguf"
model=$temporary/chat.gguf
expected=", there was a little girl named Lily. She loved to play outside in the park."

skip() { echo "SKIPPED: the package for $1, because $2"; }
fail() { echo "FAILED: $1"; exit 1; }
# An empty folder, from which on time is taken.
place() { mkdir "$temporary/$1"; cd "$temporary/$1"; begun=$(date +%s%N); }
installed() { took=$((($(date +%s%N) - begun) / 1000000)); }
quietly() { "$@" >log 2>&1 || { cat log; fail "$*"; }; }
# answers NAME COMMAND...: the command continues the story of the model, as a chat or by itself.
answers() {
    local name=$1 said
    shift
    said=$(echo "Once upon a time" | timeout 60 "$@" 2>errors) || { cat errors; fail "$name: $*"; }
    [[ $said == *"$expected"* ]] || fail "$name says: $said"
    echo "ok: $name, installed after $took ms, answered after $((($(date +%s%N) - begun) / 1000000)) ms"
    cd "$root"
}
# shellcheck disable=SC2206 # a pattern
package() { local found=("$packages"/$1); [ -e "${found[0]}" ] && echo "${found[0]}"; }

# Once more, from a copy of the stage at another place, time and umask.
cp -r "$stage" "$temporary/stage"
(umask 077 && TZ=Asia/Tokyo LC_ALL=C scripts/package "$temporary/again" "$temporary/stage" >/dev/null)
diff "$packages/SHA256SUMS" "$temporary/again/SHA256SUMS" || fail "two runs make packages with other bytes"
(cd "$packages" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS is not of these packages"
[ "$(wc -l <"$packages/SHA256SUMS")" -ge 3 ] || fail "there are hardly any packages"
echo "ok: two runs make $(wc -l <"$packages/SHA256SUMS") files with the same bytes"

# The archive, with a list of what is inside that agrees with Cargo.lock.
place archive
quietly tar xzf "$(package "realizar-$version-*.tar.gz")" --strip-components 1
installed
quietly "${CC:-cc}" -o program "$root/tests/install/program.c" -Iinclude -Llib -lrealizar -Wl,-rpath,"$PWD/lib"
python3 - "$root/Cargo.lock" share/realizar/sbom.cdx.json share/licenses/realizar/THIRD-PARTY <<'END' || fail "the list of components"
import json, re, sys
lock, bom, notices = (open(path).read() for path in sys.argv[1:])
locked = set(re.findall(r'name = "(.*)"\nversion = "(.*)"', lock))
components = [(c["name"], c["version"]) for c in json.loads(bom)["components"] if "purl" in c]
assert len(components) > 20 and set(components) <= locked, set(components) - locked
assert all(f"\n{name} {version}: " in notices for name, version in components)
END
answers archive ./program "$model"

place debian
if runtime=$(package "librealizar1_${version}_*.deb"); then
    for file in "$runtime" "$(package "librealizar-dev_${version}_*.deb")"; do
        quietly dpkg-deb -x "$file" .
        [ "$(dpkg-deb -f "$file" Version)" = "$version" ] || fail "the version of $file"
    done
    installed
    PKG_CONFIG_PATH=$(echo "$PWD"/usr/lib/*/pkgconfig)
    export PKG_CONFIG_PATH
    # shellcheck disable=SC2046 # words are meant to be split
    quietly "${CC:-cc}" -o program "$root/tests/install/program.c" $(pkg-config --cflags --libs realizar)
    answers Debian env LD_LIBRARY_PATH="$(dirname "$PKG_CONFIG_PATH")" ./program "$model"
    unset PKG_CONFIG_PATH
    if cmake --version >/dev/null 2>&1; then
        cd "$temporary/debian"
        quietly cmake -S "$root/tests/install" -B build -DCMAKE_PREFIX_PATH="$PWD/usr"
        quietly cmake --build build
        answers "Debian by CMake" build/cpp "$model"
    fi
else
    skip Debian "it was not made"
fi

# Installed by apt and removed again, in a Debian of its own, of which nothing is kept.
place apt
in_debian() { # script
    mkdir upper work root
    mount -t tmpfs none upper && mkdir upper/files upper/work
    mount -t overlay none -o "lowerdir=$SWIFT_ROOT,upperdir=upper/files,workdir=upper/work" root
    mount --bind /dev root/dev
    mkdir -p root/packages && cp "$packages"/librealizar*.deb "$root/tests/install/program.c" "$model" root/packages/
    chroot root bash -ec "$1"
}
export -f in_debian
export packages root model
if [ ! -d "${SWIFT_ROOT:-/none}" ] || [ -z "${runtime-}" ]; then
    skip "Debian by apt" "SWIFT_ROOT names no Debian 13"
elif ! unshare -m bash -ec 'mkdir try && mount -t tmpfs none try' 2>/dev/null; then
    skip "Debian by apt" "nothing can be mounted here"
else
    rm -rf try
    installed
    # shellcheck disable=SC2016 # of the other shell
    answers "Debian by apt" unshare -m bash -ec 'in_debian "
        export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
        apt-get install -qq -y --no-install-recommends /packages/librealizar*.deb >/packages/log 2>&1 || { cat /packages/log >&2; exit 1; }
        cc -o /packages/program /packages/program.c -lrealizar
        /packages/program /packages/chat.gguf
        dpkg --purge librealizar-dev librealizar1 >/dev/null
        [ -z \"\$(find /usr/lib /usr/include /usr/share/doc -name \"*realizar*\")\" ]"'
fi

place pip
if wheel=$(package "realizar-$version-py3-*.whl") && python3 -m venv . >log 2>&1 && bin/pip install -q "$wheel" >>log 2>&1; then
    installed
    answers Python bin/python -m realizar chat "$model"
else
    grep -qs "No matching distribution found for numpy\|No module named" log || { cat log; fail "pip install"; }
    skip Python "there is no venv, or no network for numpy"
fi

# The hook of the build takes a library that is named in place of building one with cargo.
place sdist
for library in "$stage"/lib/librealizar.{so,dylib}; do [ ! -e "$library" ] || break; done
if python3 -m venv . >log 2>&1 && REALIZAR_LIBRARY=$library bin/pip install -q "$(package "realizar-$version.tar.gz")" >>log 2>&1; then
    installed
    answers "Python from the sources" bin/python -m realizar chat "$model"
else
    grep -qs "No matching distribution found\|No module named" log || { cat log; fail "pip install of the sources"; }
    skip "Python from the sources" "there is no venv, or no network for hatchling"
fi

place npm
cd "$root"
if package "realizar-$version-npm-*.tgz" >/dev/null && command -v npm >/dev/null; then
    tests/npm-clients.sh "$packages" "$version" "$model"
else
    skip JavaScript "it was not made, or there is no npm"
fi

place nuget
if ! file=$(package "Realizar.$version.nupkg"); then
    skip .NET "it was not made"
elif command -v dotnet >/dev/null && [ -n "$(dotnet --list-sdks)" ]; then
    quietly dotnet new console --no-restore -o .
    cp "$root/bindings/csharp/Chat/Chat.cs" Program.cs
    NUGET_PACKAGES=$PWD/packages quietly dotnet add package Realizar --version "$version" --source "$packages"
    installed
    answers .NET dotnet run "$model"
else
    python3 -m zipfile -e "$file" .
    cp lib/*/Realizar.dll runtimes/*/native/* .
    installed
    quietly "$root/scripts/compile-csharp" program -r:Realizar.dll -out:Chat.dll "$root/bindings/csharp/Chat/Chat.cs"
    echo '{"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}}}' >Chat.runtimeconfig.json
    answers .NET "$("$root/scripts/dotnet-sdk")" Chat.dll "$model"
fi

place maven
find_jdk
if jar=$(package "realizar-$version.jar") && [ -n "$jdk" ]; then
    installed
    mkdir unpacked
    answers Java env -u REALIZAR_LIBRARY "$jdk/bin/java" -Djava.io.tmpdir="$PWD/unpacked" -jar "$jar" chat "$model"
    [ -z "$(ls "$temporary/maven/unpacked")" ] || fail "the library of the jar was left behind"
    cd "$temporary/maven"
    "$root/tests/maven-consumer.sh" "$packages" "$version" "$jdk" "$model"
    cd "$root"
else
    skip Java "it was not made, or there is no JDK 22 or newer"
fi

place go
if proxy=$(package "realizar-$version-goproxy.zip") && printf '%s\n' go1.24 "$(go env GOVERSION 2>/dev/null)" | sort -VC; then
    python3 -m zipfile -e "$proxy" proxy
    GOPROXY="file://$PWD/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
    export GOPROXY GOMODCACHE=$PWD/modules GOBIN=$PWD/bin GONOSUMDB=realizar.dev GOFLAGS="-mod=mod -modcacherw"
    export CGO_LDFLAGS="-Wl,-rpath,$temporary/archive/lib"
    PKG_CONFIG_PATH=$temporary/archive/lib/pkgconfig quietly go install "realizar.dev/go/cmd/chat@v$version"
    installed
    answers Go "$GOBIN/chat" "$model"
    cd "$temporary/go"
    # The same program without cgo.
    quietly go mod init chat
    cp "$root/docs/snippets/start/chat.go" main.go
    if CGO_ENABLED=0 go get "realizar.dev/go@v$version" >log 2>&1; then
        CGO_ENABLED=0 quietly go build -o chat .
        installed
        answers "Go without cgo" env LD_LIBRARY_PATH="$temporary/archive/lib" ./chat "$model"
    else
        grep -q "dial\|lookup\|no such host" log || { cat log; fail "go get"; }
        cd "$root"
        skip "Go without cgo" "github.com/ebitengine/purego cannot be fetched"
    fi
    unset GOPROXY GOMODCACHE GOBIN GONOSUMDB GOFLAGS CGO_LDFLAGS
else
    skip Go "it was not made, or there is no Go 1.24 or newer"
fi

place swift
if swift --version 2>/dev/null | grep -q "Swift version"; then
    python3 -m zipfile -e "$(package "realizar-$version-swift.zip")" .
    installed
    PKG_CONFIG_PATH=$temporary/archive/lib/pkgconfig quietly swift build --package-path "realizar-$version-swift"
    answers Swift env LD_LIBRARY_PATH="$temporary/archive/lib" "realizar-$version-swift/.build/debug/Chat" "$model"
else
    skip Swift "there is no swift"
fi

# A program that CMake builds against what a package manager has installed in a folder.
cat >"$temporary/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(packaged C)
find_package(realizar REQUIRED)
add_executable(program $root/tests/install/program.c)
target_link_libraries(program PRIVATE realizar::realizar)
END
by_cmake() {
    mkdir source
    cp "$temporary/CMakeLists.txt" source/
    quietly cmake -S source -B built -DCMAKE_BUILD_TYPE=Release "$@"
    quietly cmake --build built
}

# Recipes fetch the archive from where a release has it, which here is the folder of the packages.
releases=https://realizar.dev/releases/v$version
tools=${CHECKERS:-$root/build/checkers}
[ -x "$tools/bin/conan" ] || tools=$root/build/conan-tools
place conan
if ! cmake --version >/dev/null 2>&1; then
    skip Conan "there is no cmake"
elif [ -x "$tools/bin/conan" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install -q conan==2.34.0; } >log 2>&1; then
    begun=$(date +%s%N)
    export CONAN_HOME=$PWD/home
    sed "s|$releases|file://$packages|" "$(package conanfile.py)" >conanfile.py
    quietly "$tools/bin/conan" profile detect
    quietly "$tools/bin/conan" create .
    quietly "$tools/bin/conan" install --requires "realizar/$version" -g CMakeDeps --output-folder found
    installed
    by_cmake -DCMAKE_PREFIX_PATH="$PWD/found"
    answers Conan env LD_LIBRARY_PATH="$(dirname "$(find "$CONAN_HOME/p" -path '*/p/lib/librealizar.so.1')")" built/program "$model"
else
    rm -rf "$tools"
    skip Conan "pip cannot fetch it"
fi

# vcpkg itself is not needed: the functions of it that the port calls stand in for it.
place vcpkg
if cmake --version >/dev/null 2>&1; then
    python3 -m zipfile -e "$(package "realizar-$version-vcpkg.zip")" .
    python3 -m json.tool realizar/vcpkg.json >/dev/null
    cat >port.cmake <<END
set(VCPKG_CMAKE_SYSTEM_NAME $(uname -s))
set(VCPKG_TARGET_ARCHITECTURE $(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/'))
set(CURRENT_PACKAGES_DIR $PWD/installed)
function(vcpkg_download_distfile out)
  cmake_parse_arguments(arg "" "FILENAME;SHA512" "URLS" \${ARGN})
  string(REPLACE "$releases" "$packages" path "\${arg_URLS}")
  file(SHA512 "\${path}" found)
  if(NOT found STREQUAL arg_SHA512)
    message(FATAL_ERROR "\${path} is another")
  endif()
  set(\${out} "\${path}" PARENT_SCOPE)
endfunction()
function(vcpkg_extract_source_archive out)
  cmake_parse_arguments(arg "" "ARCHIVE" "" \${ARGN})
  file(ARCHIVE_EXTRACT INPUT "\${arg_ARCHIVE}" DESTINATION $PWD/extracted)
  file(GLOB folder $PWD/extracted/*)
  set(\${out} "\${folder}" PARENT_SCOPE)
endfunction()
function(vcpkg_check_linkage)
endfunction()
function(vcpkg_install_copyright)
  file(WRITE "\${CURRENT_PACKAGES_DIR}/share/realizar/copyright" "\${ARGN}")
endfunction()
include($PWD/realizar/portfile.cmake)
END
    quietly cmake -P port.cmake
    installed
    grep -q THIRD-PARTY installed/share/realizar/copyright || fail "the licenses of the port"
    by_cmake -Drealizar_DIR="$PWD/installed/share/realizar"
    answers "vcpkg's port" built/program "$model"
else
    skip "vcpkg's port" "there is no cmake"
fi

# What a registry would refuse is found: a manifest without a license, a checksum of another file, a missing content
# type.
place spoiled
spoil() { # pattern of a package, what the checks have to say, script of Python on the package
    local file
    file=$(package "$1") || return 0
    rm -rf spoiled && mkdir spoiled
    cp "$packages"/realizar-"$version"{,-sources,-javadoc}.{jar,pom}{,.md5,.sha1} spoiled/ 2>/dev/null || true
    cp "$file" spoiled/
    python3 -c "$3" "spoiled/$(basename "$file")"
    if CHECKERS=/none "$root/scripts/check-packages" spoiled >log 2>&1; then fail "the checks accept: $2"; fi
    grep -qF "$2" log || { cat log; fail "the checks do not say: $2"; }
}
edited='import sys; path = sys.argv[1]; text = open(path).read(); assert "%s" in text; open(path, "w").write(text.replace("%s", "%s"))'
# shellcheck disable=SC2059 # a pattern
spoil "realizar-$version.pom" "the pom lacks licenses/license/name" "$(printf "$edited" licenses licenses other)"
spoil "realizar-$version-javadoc.jar" "realizar-$version-javadoc.jar.md5 is missing or is another file's" 'import sys; open(sys.argv[1], "ab").write(b" ")'
spoil "Realizar.$version.nupkg" "license of the manifest is" 'import sys, zipfile
old = zipfile.ZipFile(sys.argv[1]); parts = {name: old.read(name) for name in old.namelist()}
parts["Realizar.nuspec"] = parts["Realizar.nuspec"].replace(b"type=\"expression\"", b"type=\"file\"")
with zipfile.ZipFile(sys.argv[1], "w") as new: [new.writestr(name, data) for name, data in parts.items()]'
echo "ok: the checks find what registries refuse"
