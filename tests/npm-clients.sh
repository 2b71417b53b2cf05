#!/usr/bin/env bash
# Installs the npm packages from a registry on this machine with each client that is here, and runs and compiles
# programs that use them:  tests/npm-clients.sh PACKAGES VERSION MODEL
# CHECKERS is a folder whose node_modules may have pnpm, yarn and typescript.
set -euo pipefail
packages=$(realpath "$1") version=$2 model=$(realpath "$3")
cd "$(dirname "$0")/.."
root=$PWD checkers=${CHECKERS:-$PWD/build/checkers}
export PATH=$PATH:$checkers/node_modules/.bin
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
fail() { echo "FAILED: $1"; exit 1; }
cd "$temporary"
mkfifo address
exec 3> >(exec python3 "$root/tests/npm-registry.py" "$packages"/realizar-"$version"-npm*.tgz >address) # ends with this script
read -r registry <address

cat >main.mjs <<'END'
import { Conversation, Model, version } from "realizar";
import realizar from "realizar";
if (realizar.version !== version || realizar.Model !== Model) throw new Error("the default export is another");
const conversation = new Conversation(await Model.load(process.argv[2]));
for await (const text of conversation.say("Once upon a time")) process.stdout.write(text);
END
cat >main.cjs <<'END'
const { Conversation, Model } = require("realizar");
(async () => {
  const conversation = new Conversation(await Model.load(process.argv[2]));
  for await (const text of conversation.say("Once upon a time")) process.stdout.write(text);
})();
END
for client in npm pnpm yarn; do
    command -v $client >/dev/null || { echo "SKIPPED: the npm packages with $client, which is not here"; continue; }
    mkdir $client
    echo '{"private": true}' >$client/package.json
    cp main.* $client/
    cd $client
    export npm_config_registry=$registry YARN_REGISTRY=$registry
    case $client in
    npm) command=(npm install --no-audit --no-fund --cache "$temporary/cache" realizar) ;;
    pnpm) command=(pnpm add --registry "$registry" --store-dir "$temporary/store" realizar) ;;
    yarn) mkdir ../yarn-cache && command=(yarn add --no-progress --non-interactive --registry "$registry" --cache-folder "$temporary/yarn-cache" realizar) ;;
    esac
    "${command[@]}" >log 2>&1 </dev/null || { cat log; fail "${command[*]}"; }
    for program in main.mjs main.cjs; do
        said=$(node $program "$model" 2>&1) || fail "$client: $program: $said"
        [[ $said == *"there was a little girl named Lily."* ]] || fail "$client: $program says: $said"
    done
    cd ..
    echo "ok: $client installs the package for this system alone, ESM and CommonJS use it"
done

# Without the package for this system, its name is in the error.
rm -rf npm/node_modules/realizar-*
if said=$(cd npm && node main.cjs "$model" 2>&1); then fail "loaded without an addon"; fi
[[ $said == *"the package realizar-"*" is missing; realizar needs it"* ]] || fail "$said"

command -v tsc >/dev/null || { echo "SKIPPED: the npm packages with TypeScript, which is not here"; exit 0; }
cd npm
cat >use.mts <<'END'
import { Conversation, Model, version } from "realizar";
import realizar from "realizar";
const conversation: Conversation = new Conversation(await Model.load("model.gguf"));
for await (const text of conversation.say("Hello")) text.trim();
const same: string = realizar.version;
// @ts-expect-error
const other: number = version;
END
cat >use.cts <<'END'
import { Model, version } from "realizar";
import realizar = require("realizar");
const same: typeof Model = realizar.Model;
// @ts-expect-error
const other: number = version;
END
options=(--noEmit --strict --target es2022 --lib "es2022,dom" --typeRoots none)
tsc "${options[@]}" --module node16 --moduleResolution node16 use.mts use.cts || fail "TypeScript, node16"
tsc "${options[@]}" --module nodenext --moduleResolution nodenext use.mts use.cts || fail "TypeScript, nodenext"
tsc "${options[@]}" --module esnext --moduleResolution bundler use.mts || fail "TypeScript, bundler"
echo "ok: TypeScript finds the types, node16, nodenext and bundler"
