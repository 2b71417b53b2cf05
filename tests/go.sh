#!/usr/bin/env bash
# Runs the tests of the Go package and the service: with cgo under the race detector, and without.
# tests/go.sh STAGE; GO is the command. MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1 go=${GO:-go}
MODEL=${MODEL:+$(realpath "$MODEL")}
export MODEL
cd "$(dirname "$0")/../bindings/go"
if ! printf '%s\n' go1.24 "$($go env GOVERSION 2>/dev/null)" | sort -VC; then
    echo "SKIPPED: the Go tests, because there is no Go 1.24 or newer"
    exit 0
fi
export PKG_CONFIG_PATH=$stage/lib/pkgconfig LD_LIBRARY_PATH=$stage/lib DYLD_LIBRARY_PATH=$stage/lib
if pkg-config --version >/dev/null 2>&1; then
    $go vet ./...
    $go test -race ./...
    if [ -e "$stage/lib/librealizar.so" ]; then
        . ../../tests/other-library.sh
        other_library "$stage" "$stage/../other"
        $go build -o "$stage/../other/chat" ./cmd/chat
        said=$(LD_LIBRARY_PATH=$stage/../other "$stage/../other/chat" model.gguf 2>&1 || true)
        [[ $said == *"the interface of librealizar 9.9 is 99; it must be 1"* ]] || { echo "FAILED: a library of another interface: $said"; exit 1; }
        ../../tests/devices.sh "$stage" "$stage/../devices" env LD_PRELOAD="$stage/../devices/librealizar.so" "$stage/../other/chat" -doctor
    fi
    said=$($go run ./cmd/chat -doctor ../../tests/data/stories260K-f32.gguf)
    [[ $said == *"loaded in "*"tokens per second" ]] || { echo "FAILED: the doctor: $said"; exit 1; }
    if (cd cmd/serve && $go mod download 2>/dev/null); then
        (cd cmd/serve && $go vet ./... && $go test -race ./...)
        GO=$go ../../tests/serve/clients.sh "$stage"
    else
        echo "SKIPPED: the tests of the service, because the modules of github.com/prometheus/client_golang cannot be fetched"
    fi
else
    echo "SKIPPED: the Go tests with cgo, because there is no pkg-config"
fi
if ! $go mod download 2>/dev/null; then
    echo "SKIPPED: the Go tests without cgo, because the module github.com/ebitengine/purego cannot be fetched"
    exit 0
fi
export CGO_ENABLED=0
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
# A library that is not realizar, and one of another interface, are named.
echo 'int other;' | ${CC:-cc} -shared -fPIC -x c -o "$temporary/foreign" -
echo 'unsigned rz_abi_version(void) { return 99; }' | ${CC:-cc} -shared -fPIC -x c -o "$temporary/other" -
REALIZAR_FOREIGN=$temporary/foreign REALIZAR_OTHER=$temporary/other $go test .
for system in linux/amd64 windows/amd64 darwin/arm64 linux/arm64; do
    GOOS=${system%/*} GOARCH=${system#*/} $go vet ./...
    if (cd cmd/serve && $go mod download 2>/dev/null); then
        (cd cmd/serve && GOOS=${system%/*} GOARCH=${system#*/} $go vet ./...)
    fi
done
if (cd cmd/serve && $go mod download 2>/dev/null); then
    (cd cmd/serve && $go vet . && $go test -run 'Answer|Stream|Embeddings|PicturesAreShown|AtOnce|TheEnd' .)
fi
