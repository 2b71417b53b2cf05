#!/usr/bin/env bash
# Has mypy, and pyright where it is on the path, check uses of the Python package:  tests/python-types.sh PACKAGE
# PACKAGE is the folder that holds the package. mypy is taken from the system, or fetched by pip.
set -euo pipefail
package=$(realpath "$1")
cd "$(dirname "$0")/../bindings/python/tests/types"
tools=$package/../python-types
if ! python3 -c 'import mypy' 2>/dev/null && [ ! -e "$tools/mypy" ] &&
    ! python3 -m pip install --quiet --disable-pip-version-check --target "$tools" mypy >/dev/null 2>&1; then
    echo "SKIPPED: the types of the Python package, because pip cannot fetch mypy"
    exit 0
fi
export MYPYPATH=$package PYTHONPATH=$tools${PYTHONPATH:+:$PYTHONPATH}
wanted=$(grep -n '# wrong$' wrong.py | cut -d: -f1)

# The lines in which a checker finds errors are those that are wrong.
check() { # checker, its output
    found=$(sed -n 's/.*wrong\.py:\([0-9]*\).* error:\{0,1\} .*/\1/p' <<<"$2" | sort -nu)
    if grep -q 'right\.py:.*error' <<<"$2" || [ "$found" != "$wanted" ]; then
        echo "FAILED: the types of the Python package by $1: $2"
        exit 1
    fi
    echo "ok: the types of the Python package by $1"
}
check mypy "$(python3 -m mypy --strict --cache-dir "$tools/cache" right.py wrong.py || true)"
if command -v pyright >/dev/null; then
    mkdir -p "$tools/check"
    cp right.py wrong.py "$tools/check"
    printf '{"typeCheckingMode": "strict", "reportUnknownMemberType": false, "extraPaths": ["%s"]}\n' "$package" >"$tools/check/pyrightconfig.json"
    check pyright "$(pyright -p "$tools/check" || true)"
fi
