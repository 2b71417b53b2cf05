"""Stores to a KV cache, and attention, compared with float64 attention over the decoded contents of the cache."""
import math
import random
import struct
from operator import mul
from typing import Dict, Iterator, List, NamedTuple, Tuple

from kernels import CONSTANTS
from products import uniform
from twin import NONE, Area, Memory, Twin, Wrong, compare, floats


class Rows(NamedTuple):
    """Keys or values of all heads in a cache."""
    kind: str
    dim: int
    blocks: int
    row_words: int
    rows: Area
    scales: Area


# Words of a block of 32 values.
BLOCK_WORDS = {"f32": 32, "f16": 16, "q8": 8, "q4": 4}


def room(memory: Memory, kind: str, heads: int, kept: int, dim: int) -> Rows:
    blocks = -(-dim // 32)
    words = blocks * BLOCK_WORDS[kind]
    rows = memory.room("cache", heads * kept * words)
    scales = memory.room("cache", heads * kept * blocks) if kind.startswith("q") else Area(0, 0)
    return Rows(kind, dim, blocks, words, rows, scales)


def hadamard(values: List[float]) -> List[float]:
    far = 1
    values = values[:]
    while far < 32:
        for i in range(32):
            if not i & far:
                values[i], values[i + far] = values[i] + values[i + far], values[i] - values[i + far]
        far *= 2
    return [v / math.sqrt(32) for v in values]


def rotated(row: List[float]) -> List[float]:
    """Whole blocks of a row rotated."""
    whole = len(row) // 32 * 32
    return sum((hadamard(row[i : i + 32]) for i in range(0, whole, 32)), []) + row[whole:]


def read(memory: Memory, of: Rows, index: int) -> List[float]:
    """A row as it is in the cache, rotated or not."""
    raw = memory.words["cache"][of.rows.at + index * of.row_words :][: of.row_words].tobytes()
    if of.kind == "f32":
        return list(struct.unpack(f"<{32 * of.blocks}f", raw))[: of.dim]
    if of.kind == "f16":
        return list(struct.unpack(f"<{32 * of.blocks}e", raw))[: of.dim]
    scales = floats(memory.words["cache"][of.scales.at + index * of.blocks :][: of.blocks])
    if of.kind == "q8":
        quants = [(b ^ 128) - 128 for b in raw]
    else:
        quants = [n - 8 for b in raw for n in (b & 15, b >> 4)]
    return [q * scales[i // 32] for i, q in enumerate(quants)][: of.dim]


def store(twin: Twin, order: int, memory: Memory, of: Rows, xs: List[List[float]], shape: Tuple[int, int], positions: List[int]) -> None:
    """Stores rows of heads, and checks that each value is the nearest one of the cache type."""
    heads, kept = shape
    x = memory.add("scratch", sum(xs, []))
    at_positions = memory.add("inputs", positions)
    rotates = of.kind == "q4"
    words = [x.at, heads * of.dim, len(xs), heads, of.dim, at_positions.at, kept]
    words += [of.rows.at, of.row_words, of.scales.at, of.blocks, int(rotates), 0]
    grid = (-(-heads * of.blocks // 64), len(xs), 1)
    kernel = f"store_{of.kind}"
    twin.launch(kernel, words, grid, memory, {"cache": [of.rows, of.scales]}, order)
    for own, position in zip(xs, positions):
        for head in range(heads):
            values = own[head * of.dim : (head + 1) * of.dim]
            values = rotated(values) if rotates else values
            found = read(memory, of, head * kept + position % kept)
            if of.kind == "f32":
                limits = [0.0] * of.dim
            elif of.kind == "f16":
                values, limits = [struct.unpack("<e", struct.pack("<e", v))[0] for v in values], [0.0] * of.dim
            else:
                # Half a step, more for the scale's rounding to binary16; 4 bits have no step at the other end.
                steps, ends = (127, 0.57) if of.kind == "q8" else (8, 1.02)
                peaks = [max(map(abs, values[32 * b :][:32])) for b in range(of.blocks)]
                limits = [ends * peaks[i // 32] / steps for i in range(of.dim)]
            compare(kernel, found, values, limits)


def attend(twin: Twin, order: int, kernel: str, options: Dict[str, float]) -> None:
    """Grouped-query attention with a sliding window, in several parts, over a ring buffer of positions that has wrapped;
    options: softcap, slopes, distances, sinks."""
    key, value, keys, values = kernel.split("_")[1:]
    key, value = int(key), int(value)
    rows = CONSTANTS["attend"][kernel[len("attend_") :]]["ROWS"]
    rng = random.Random(key + value)
    memory = Memory()
    heads, kv_heads, n, kept, window, start, splits = 5, 2, 3, 96, 90, 105, 2
    group = -(-heads // kv_heads)
    k, v = room(memory, keys, kv_heads, kept, key), room(memory, values, kv_heads, kept, value)
    positions = list(range(start + n))
    for of in (k, v):
        for own in (positions[:kept], positions[kept:]):
            store(twin, order, memory, of, [uniform(rng, kv_heads * of.dim) for _ in own], (kv_heads, kept), own)
    qs = [[3 * x for x in uniform(rng, heads * key)] for _ in range(n)]
    q = memory.add("scratch", sum(qs, []))
    if keys == "q4":
        grid = (-(-heads * (key // 32) // 64), n, 1)
        twin.launch("rotate", [q.at, heads * key, heads, key], grid, memory, {"scratch": [q]}, order)
        qs = [sum((rotated(own[h * key : (h + 1) * key]) for h in range(heads)), []) for own in qs]
    own_positions = [start + t for t in range(n)]
    ranges = [(position + 1 - window, position + 1) for position in own_positions]
    at_ranges = memory.add("inputs", [end for own in ranges for end in own])
    at_positions = memory.add("inputs", own_positions)
    reach = 6
    vector = lambda name, size: uniform(rng, size) if options.get(name) else []
    slopes, distances, sinks = vector("slopes", heads), vector("distances", heads * (2 * reach + 1)), vector("sinks", heads)
    if sinks:
        sinks[0] = 100.0  # far above all scores
    at_slopes, at_distances, at_sinks = (
        memory.add("vectors", own).at if own else NONE for own in (slopes, distances, sinks)
    )
    scale, softcap = 1 / math.sqrt(key), options.get("softcap", 0.0)
    parts = memory.room("scratch", n * heads * splits * (2 + value))
    out = memory.room("scratch", n * heads * value)
    words = [q.at, heads * key, heads, kv_heads, n, at_ranges.at, at_positions.at, k.rows.at, k.row_words, k.scales.at, k.blocks]
    words += [v.rows.at, v.row_words, v.scales.at, v.blocks, kept, scale, float(softcap), at_slopes, at_distances]
    words += [reach, splits, parts.at, 0]
    twin.launch(kernel, words, (kv_heads, -(-n * group // rows), splits), memory, {"scratch": [parts]}, order)
    words = [parts.at, splits, out.at, heads * value, heads, value, at_sinks, 0]
    twin.launch("join", words, (heads, n, 1), memory, {"scratch": [out]}, order)
    found = floats(memory.words["scratch"][out.at : out.at + out.n])
    for t, (first, end) in enumerate(ranges):
        for h in range(heads):
            kv = h * kv_heads // heads
            scores = []
            for position in range(first, end):
                score = scale * sum(map(mul, qs[t][h * key : (h + 1) * key], read(memory, k, kv * kept + position % kept)))
                if softcap:
                    score = softcap * math.tanh(score / softcap)
                if slopes:
                    score -= slopes[h] * abs(position - own_positions[t])
                if distances:
                    apart = max(-reach, min(reach, position - own_positions[t]))
                    score += distances[h * (2 * reach + 1) + apart + reach]
                scores.append(score)
            sink = [sinks[h]] if sinks else []
            peak = max(scores + sink)
            weights = [math.exp(s - peak) for s in scores]
            total = sum(weights) + sum(math.exp(s - peak) for s in sink)
            right = [0.0] * value
            for position, weight in zip(range(first, end), weights):
                row = read(memory, v, kv * kept + position % kept)
                right = [r + weight / total * x for r, x in zip(right, row)]
            compare(kernel, found[(t * heads + h) * value :][:value], right, [2e-5] * value)


def cases() -> Iterator[Tuple[str, object, tuple]]:
    for name in CONSTANTS["attend"]:
        yield f"attend_{name}", attend, (f"attend_{name}", {})
    for option, amount in (("softcap", 2.0), ("slopes", 1.0), ("distances", 1.0), ("sinks", 1.0)):
        yield f"attend with {option}", attend, ("attend_64_64_f32_f32", {option: amount})
