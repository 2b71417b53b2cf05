#!/usr/bin/env bash
# Reads the header with tools that bind other languages to C, and compares what they see with bindings/header.json.
# tests/binders.sh [HEADER]: include/realizar.h. Tools that are not here are named, and skipped.
# PYTHON: of cffi, ctypesgen and ziglang.
set -euo pipefail
cd "$(dirname "$0")/.."
header=$(realpath "${1:-include/realizar.h}") names=$PWD/bindings/header.json python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$header" "$folder/realizar.h"
cd "$folder"

# The names of one kind in the list of the build; constants that stay macros are told by an argument.
list() { # kind
    python3 - "$names" "$1" <<'P'
import json, sys

for group in json.load(open(sys.argv[1]))["groups"]:
    for item in group["items"]:
        if item["kind"] == sys.argv[2]:
            print(item["name"])
P
}
list constant >constants
list function >functions
[ "$(wc -l <constants)" -gt 150 ] && [ "$(wc -l <functions)" -gt 140 ]

compare() { # tool, what, the file of what it has to see, the file of what it sees
    missing=$(sort "$3" | comm -23 - <(sort -u "$4") | head -5 | tr '\n' ' ')
    [ -z "$missing" ] || { echo "FAILED: $1 does not see the $2 $missing"; exit 1; }
    echo "ok: $1 sees all $(wc -l <"$3") $2"
}

# What readers without a preprocessor are given: no system headers, no attributes; macros that have a number.
${CC:-cc} -E -P -x c realizar.h >preprocessed.h
${CC:-cc} -E -dD -P -x c realizar.h | grep -E '^#define RZ_[A-Z0-9_]+ -?[0-9]' >macros.h || true
python3 - <<'P'
import re

text = open("preprocessed.h").read()
text = text[text.rindex("typedef", 0, text.index("rz_status;")) :]
open("plain.h", "w").write(re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text))
P

if "$python" -c 'import cffi' 2>/dev/null; then
    "$python" - <<'P'
import cffi

ffi = cffi.FFI()
ffi.cdef(open("plain.h").read() + open("macros.h").read())
library = ffi.dlopen(None)
names = open("constants").read().split()
open("seen", "w").write("".join(f"{name}\n" for name in names if hasattr(library, name)))
P
    compare "cffi (ABI mode)" constants constants seen
else
    echo "SKIPPED: cffi, because $python has no module of that name"
fi

if command -v luajit >/dev/null; then
    cat >read.lua <<'P'
local ffi = require 'ffi'
ffi.cdef(io.open('plain.h'):read('*a'))
for name in io.lines('constants') do
  if pcall(function() return ffi.C[name] end) then print(name) end
end
P
    luajit read.lua >seen
    # It knows no macros, which are few: versions, and sentinels that are no int.
    [ "$(wc -l <macros.h)" -le 10 ]
    sed -E 's/^#define ([A-Z0-9_]+) .*/\1/' macros.h | sort | comm -23 <(sort constants) - >enumerated
    compare "LuaJIT (ffi.cdef)" "constants that are enumerated" enumerated seen
else
    echo "SKIPPED: LuaJIT, because there is no luajit"
fi

if "$python" -c 'import ctypesgen' 2>/dev/null; then
    "$python" -c 'from ctypesgen.main import main; main()' realizar.h -o bound.py >log 2>&1 || { cat log; exit 1; }
    sed -nE 's/^ *(RZ_[A-Z0-9_]+) = .*/\1/p' bound.py >seen
    compare ctypesgen constants constants seen
else
    echo "SKIPPED: ctypesgen, because $python has no module of that name"
fi

if "$python" -c 'import ziglang' 2>/dev/null; then
    "$python" -m ziglang translate-c realizar.h -lc >bound.zig
    sed -nE 's/^pub const (RZ_[A-Z0-9_]+)( *:[^=]*)? = .*/\1/p' bound.zig >seen
    compare "zig translate-c" constants constants seen
    sed -nE 's/^pub extern fn (rz_[a-z0-9_]+)\(.*/\1/p' bound.zig >seen
    compare "zig translate-c" functions functions seen
else
    echo "SKIPPED: zig translate-c, because $python has no module ziglang"
fi

if command -v bindgen >/dev/null; then
    bindgen realizar.h --allowlist-file '.*realizar[.]h' >bound.rs
    sed -nE 's/^ *pub const (rz_[a-z0-9_]+_)?(RZ_[A-Z0-9_]+): .*/\2/p' bound.rs >seen
    compare bindgen constants constants seen
    sed -nE 's/^ *pub fn (rz_[a-z0-9_]+)\(.*/\1/p' bound.rs >seen
    compare bindgen functions functions seen
else
    echo "SKIPPED: bindgen, because there is none"
fi

# Compilers, on a program that uses every name.
{
    echo '#include "realizar.h"'
    echo 'int main(void) { unsigned long long sum = 0;'
    awk '{ print "sum += (unsigned long long)" $0 ";" }' constants
    awk '{ print "sum += " $0 " != 0;" }' functions
    echo 'return (int)sum; }'
} >all.c
for compiler in gcc clang; do
    if command -v $compiler >/dev/null; then
        $compiler -std=c99 -fsyntax-only -w all.c
        echo "ok: $compiler takes all constants and functions"
    else
        echo "SKIPPED: $compiler, because there is none"
    fi
done
