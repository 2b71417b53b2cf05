# shellcheck shell=bash
# Sourced by tests: find_jdk sets `jdk` to the home of a JDK 22 or newer, or to nothing.

find_jdk() {
    local home version
    jdk=
    for home in "${JAVA_HOME:-}" "$(dirname "$(dirname "$(readlink -f "$(command -v javac || echo /none)")")")" /usr/lib/jvm/*; do
        version=$("$home/bin/javac" -version 2>/dev/null | sed 's/javac \([0-9]*\).*/\1/') || continue
        if [ "${version:-0}" -ge 22 ]; then jdk=$home; return; fi
    done
}
