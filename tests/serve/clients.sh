#!/usr/bin/env bash
# Starts the service with a tiny model and tests it with the official clients:  tests/serve/clients.sh STAGE
# GO and PYTHON are the commands. Python has the packages openai and anthropic, or the tests say that they are skipped.
set -euo pipefail
stage=$(realpath "$1")
cd "$(dirname "$0")/../.."
if ! ${PYTHON:-python3} -c 'import anthropic, openai' 2>/dev/null; then
    echo "SKIPPED: the tests of the service with clients, because Python has no packages openai and anthropic"
    exit 0
fi
export PKG_CONFIG_PATH=$stage/lib/pkgconfig LD_LIBRARY_PATH=$stage/lib
out=$(mktemp -d) server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$out"' EXIT
(cd bindings/go/cmd/serve && ${GO:-go} build -o "$out/serve" .)
. tests/add-template.sh
add_template tests/data/stories260K-f32.gguf '{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}' \
    '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}' >"$out/chat.gguf"
echo key >"$out/keys"
python3 tests/encoder.py sound/ultravox "$out/mmproj.gguf"
"$out/serve" -m chat="$out/chat.gguf" -mmproj chat="$out/mmproj.gguf" -threads 2 -slots 4 -queue 16 -context 4096 -keys "$out/keys" -a 127.0.0.1:0 2>"$out/log" &
server=$!
for _ in $(seq 100); do
    url=$(sed -n 's/.*listening at //p' "$out/log")
    if [ "$url" ] && grep -q 'was loaded' "$out/log"; then break; fi
    sleep 0.1
done
${PYTHON:-python3} tests/serve/clients.py "$url" chat --key key --flood 40 --hears || { cat "$out/log"; exit 1; }
