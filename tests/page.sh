#!/usr/bin/env bash
# Tests the page of the HTTP server in a headless Chromium, with tiny models:  tests/page.sh STAGE
# GO is the command. CHROMIUM: the browser. TESTS: a pattern of names of tests. PAGE_SHOTS=folder keeps screenshots.
set -euo pipefail
stage=$(realpath "$1")
cd "$(dirname "$0")/.."
skip() { echo "SKIPPED: the tests of the page, because $1"; exit 0; }
CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ "$CHROMIUM" ] || skip "there is no chromium"
[ -d build/page/node_modules/playwright-core ] || skip "the packages of the page are missing, as scripts/page says"
printf '%s\n' go1.24 "$(${GO:-go} env GOVERSION 2>/dev/null)" | sort -VC || skip "there is no Go 1.24 or newer"
pkg-config --version >/dev/null 2>&1 || skip "there is no pkg-config"
(cd bindings/go/cmd/serve && ${GO:-go} mod download 2>/dev/null) || skip "the modules of the service cannot be fetched"
export CHROMIUM PKG_CONFIG_PATH=$stage/lib/pkgconfig LD_LIBRARY_PATH=$stage/lib DYLD_LIBRARY_PATH=$stage/lib
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
(cd bindings/go/cmd/serve && ${GO:-go} build -o "$out/serve" .)
if python3 --version >/dev/null 2>&1; then
    python3 tests/encoder.py vision/llava "$out/image.gguf"
    python3 tests/encoder.py sound/ultravox "$out/audio.gguf"
fi
cp bindings/go/cmd/serve/page/test/*.mjs build/page/ # where its packages are
SERVE=$out node --test --test-reporter=spec ${TESTS:+--test-name-pattern="$TESTS"} build/page/page.test.mjs
