#!/usr/bin/env python3
"""Draws what `cargo bench --bench model -- FILE --peer LLAMA_BENCH` has printed, of one file or several, as bars beside the peer's:

    benches/chart.py bench.txt > bench.svg

Each test has a scale of its own, on which the faster of the two is the full width. Reads standard input without an argument."""

import re
import sys
from html import escape

HEAD = re.compile(r"^(\S+): \S+, .* threads, (.*)$")
TEST = re.compile(r"^(.*?)\s+([\d.]+) tok/s \(.*?\)(?:, (\d+) % of \d+)?, ([\d.]+) times the peer's ([\d.]+)")
WIDTH, LEFT, BAR, ROW, TOP = 860, 250, 11, 36, 64


def parsed(lines):
    """Files with the machine, and the tests of each: name, tokens a second, share of the roof, median ratio to the peer, the peer's."""
    files = []
    for line in lines:
        if head := HEAD.match(line):
            files.append((head[1], head[2], []))
        elif (test := TEST.match(line)) and files:
            files[-1][2].append((test[1], float(test[2]), test[3], float(test[4]), float(test[5])))
    return [file for file in files if file[2]]


def drawn(files):
    rows = [(name, test) for name, _, tests in files for test in tests]
    height, span = TOP + ROW * len(rows) + 8, WIDTH - LEFT - 230
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           f'<text x="12" y="22" font-size="15" font-weight="bold">Tokens a second, {escape(files[0][1])}</text>',
           '<rect x="12" y="36" width="11" height="11" fill="#2b6cb0"/><text x="28" y="46">realizar</text>',
           '<rect x="100" y="36" width="11" height="11" fill="#b8c2cc"/><text x="116" y="46">llama.cpp</text>']
    for i, (name, (test, ours, share, ratio, theirs)) in enumerate(rows):
        y, most = TOP + ROW * i, max(ours, theirs)
        out.append(f'<text x="{LEFT - 10}" y="{y + 10}" text-anchor="end">{escape(name.removesuffix(".gguf"))}</text>')
        out.append(f'<text x="{LEFT - 10}" y="{y + 24}" text-anchor="end" fill="#667">{escape(test)}</text>')
        note = f"{ours:,.4g}, {ratio:.2f} times" + (f", {share} % of the roof" if share and int(share) <= 100 else "")
        for n, (value, color, text) in enumerate(((ours, "#2b6cb0", note), (theirs, "#b8c2cc", f"{theirs:,.4g}"))):
            at, width = y + n * (BAR + 2), span * value / most
            out.append(f'<rect x="{LEFT}" y="{at}" width="{width:.1f}" height="{BAR}" fill="{color}"/>')
            out.append(f'<text x="{LEFT + width + 6:.1f}" y="{at + 10}" font-size="11">{text}</text>')
    return "\n".join(out + ["</svg>"])


def main():
    with open(sys.argv[1]) if len(sys.argv) > 1 else sys.stdin as file:
        files = parsed(file)
    if not files:
        sys.exit("no test beside a peer's")
    print(drawn(files))


if __name__ == "__main__":
    main()
