#!/usr/bin/env bash
# Spoils a copy of the tree in each way that scripts/release has to find, and has it tag one that is as it should be:
# tests/release.sh
set -euo pipefail
cd "$(dirname "$0")/.."
git rev-parse --git-dir >/dev/null 2>&1 || { echo "SKIPPED: the checklist of releases, because this is no git repository"; exit 0; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
git clone -q --no-tags . "$temporary/tree"
cp scripts/release "$temporary/tree/scripts/"
cd "$temporary/tree"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
edit() { sed "$1" "$2" >edited && mv edited "$2"; }
commit() { git add -A && git commit -qm "$1"; }

# A tree that may be released.
cp include/realizar.h "packaging/abi/realizar-${version%.*}.h"
printf '## [Unreleased]\n\n## [%s] - 2026-01-31\n' "$version" >CHANGELOG.md
commit "ready"
git tag ready

export REALIZAR_MAINTAINER="Test <test@localhost>" REALIZAR_SCM=https://example.org/realizar
refused() { # what it says, and with which make
    local said
    if said=$(MAKE=${2:-true} scripts/release 2>&1); then echo "FAILED: released in spite of: $1"; exit 1; fi
    [[ $(tail -n 1 <<<"$said") == "FAILED: $1"* ]] || { printf 'FAILED: expected "%s":\n%s\n' "$1" "$said"; exit 1; }
    git reset -q --hard ready
    git clean -qfd
}
touch more
refused "the tree is clean: ?? more"
(unset REALIZAR_MAINTAINER && refused 'the packages name their maintainer and their sources: set REALIZAR_MAINTAINER="Name <mail>"')
(unset REALIZAR_MAINTAINER REALIZAR_SCM &&
    refused 'the packages name their maintainer and their sources: set REALIZAR_MAINTAINER="Name <mail>" and REALIZAR_SCM=https://...')
git tag "v$version"
refused "the tag is new: v$version"
git tag -d "v$version" >/dev/null
edit 's/"VersionName": ".*"/"VersionName": "9.9.9"/' bindings/unreal/Realizar.uplugin
commit "another version"
refused "manifests have one version: bindings/unreal/Realizar.uplugin"
edit 's/ - 2026-01-31/ - unreleased/' CHANGELOG.md
commit "no date"
refused "CHANGELOG.md has the version and its date"
edit 's/^## \[Unreleased\]/&\n\n- More./' CHANGELOG.md
commit "something unreleased"
refused "CHANGELOG.md has the version and its date: there is something unreleased"
edit 's/^.*rz_device_count(void);/&\nvoid rz_more(void);/' include/realizar.h
commit "a function that the history lacks"
refused "headers of releases are as they were released: packaging/abi/realizar-${version%.*}.h is not include/realizar.h"
git tag v0.0.1
cp include/realizar.h packaging/abi/realizar-0.0.h
commit "a header for a release that had none"
echo >>"packaging/abi/realizar-${version%.*}.h"
commit "a header that was released"
refused "headers of releases are as they were released: packaging/abi/realizar-${version%.*}.h is another than in v0.0.1"
git tag -d v0.0.1 >/dev/null
refused "make lint" false
MAKE=true scripts/release >/dev/null
[ "$(git rev-parse "v$version^{commit}")" = "$(git rev-parse HEAD)" ]
echo "ok: the checklist of releases"
