#!/usr/bin/env bash
# Compiles the addon for Node and runs the tests of the package:  tests/js.sh STAGE
# MODEL=file.gguf tests on a real model too.
set -euo pipefail
stage=$1 MODEL=${MODEL:+$(realpath "$MODEL")}
export MODEL
cd "$(dirname "$0")/.."
skip() { echo "SKIPPED: $1"; }
package=$PWD/build/js/package
scripts/node-package "$stage" "$package" || { [ $? = 77 ] && exit 0; exit 1; }
for library in "$stage"/lib/librealizar.{so,dylib}; do [ ! -e "$library" ] || export REALIZAR_LIBRARY=$library; done
export REALIZAR_PACKAGE=$package
for tests in models conversations media options arguments closing; do
    node --expose-gc --test-reporter=spec "bindings/js/test/$tests.test.mjs"
done
if command -v python3 >/dev/null; then
    node --test-reporter=spec bindings/js/test/hub.test.mjs
else
    skip "models of the Hub in JavaScript, because there is no python3"
fi

# The error names a library that is not there, has another interface, or is none.
refused() { # library, why
    if said=$(REALIZAR_LIBRARY=$1 node -e "require('$package')" 2>&1); then exit 1; fi
    [[ $said == *"the library $1 $2"* ]] || { echo "FAILED: $said"; exit 1; }
}
refused /none/librealizar.so "cannot be loaded"
echo 'int rz_abi_version(void) { return 99; }' | ${CC:-cc} -shared -fPIC -x c -o build/js/other.so -
refused "$PWD/build/js/other.so" "has the interface 99, 1 is needed"
echo 'int other;' | ${CC:-cc} -shared -fPIC -x c -o build/js/foreign.so -
refused "$PWD/build/js/foreign.so" "has no function rz_abi_version"

REALIZAR_LIBRARY=$PWD/build/js/devices/librealizar.so tests/devices.sh "$stage" build/js/devices node "$package/bin/realizar.js" doctor

# A library in the package's own folder is found without REALIZAR_LIBRARY.
cp "$REALIZAR_LIBRARY" "$package/"
env -u REALIZAR_LIBRARY node -e "require('$package')"
rm "$package/$(basename "$REALIZAR_LIBRARY")"

# The declared types fit documented uses, by a compiler of TypeScript that npm has or can fetch.
mkdir -p build/js/types
if ! npm --prefix build/js/types install --silent --no-audit --no-fund typescript@5.9 @types/node@20 >/dev/null 2>&1; then
    skip "the types of the JavaScript package, because npm cannot fetch typescript"
    exit 0
fi
ln -sfn ../../package build/js/types/node_modules/realizar
cp bindings/js/test/types.ts build/js/types/
cd build/js/types
node_modules/.bin/tsc --noEmit --strict --target es2022 --module nodenext --types node types.ts
# Without the types of Node and of later standards too.
node_modules/.bin/tsc --noEmit --strict --target es2022 --lib es2022,dom --module nodenext --typeRoots none types.ts
