"""Recurrences, token by token with a state before and after, against their formulas in float64."""
import math
import random
from typing import Iterator, List, Tuple

from products import check, outputs, uniform
from twin import NONE, Area, Memory, Twin, compare, floats
from rows import sigmoid

# Errors grow with the tokens.
LIMIT = 2e-5


def state(what: str, memory: Memory, at: Area, right: List[float]) -> None:
    compare(f"{what}: the state", floats(memory.words["cache"][at.at : at.at + at.n]), right, [LIMIT * max(1.0, *map(abs, right))] * at.n)


def conv(twin: Twin, order: int) -> None:
    """A causal convolution with SiLU, in place."""
    rng = random.Random(1)
    memory = Memory()
    width, taps, n = 70, 4, 5
    kernel, bias = uniform(rng, taps * width), uniform(rng, width)
    at_kernel, at_bias = memory.add("vectors", kernel), memory.add("vectors", bias)
    past = uniform(rng, (taps - 1) * width)
    before, after = memory.add("cache", past), memory.room("cache", (taps - 1) * width)
    xs = [uniform(rng, width) for _ in range(n)]
    x = memory.add("scratch", sum(xs, []))
    words = [x.at, n, width, at_kernel.at, at_bias.at, 1, before.at, after.at, 0]
    twin.launch("conv_4", words, (-(-width // 64), 1, 1), memory, {"scratch": [x], "cache": [after]}, order)
    rows = [past[width * j : width * (j + 1)] for j in range(taps - 1)] + xs
    right = []
    for t in range(n):
        sums = [bias[i] + sum(kernel[j * width + i] * rows[t + j][i] for j in range(taps)) for i in range(width)]
        right.append([v * sigmoid(v) for v in sums])
    check("conv", memory, outputs(memory, x, width, width, n), right, [[LIMIT] * width] * n)
    state("conv", memory, after, sum(rows[n:], []))


def delta(twin: Twin, order: int, by_row: int) -> None:
    """S = exp(rate dt) S; S += k (beta (v - S^T k))^T; out = S^T q"""
    rng = random.Random(2)
    memory = Memory()
    heads, key_heads, key, width, n = 2, 1, 128, 16, 3
    rate = [-1.0, -0.5]
    at_rate = memory.add("vectors", rate)
    held = uniform(rng, heads * key * width)
    before, after = memory.add("cache", held), memory.room("cache", heads * key * width)
    small = lambda size: [v / 8 for v in uniform(rng, size)]
    q, k = small(n * key_heads * key), small(n * key_heads * key)
    v = uniform(rng, n * heads * width)
    dt = [abs(x) for x in uniform(rng, n * heads * (key if by_row else 1))]
    beta = [abs(x) for x in uniform(rng, n * heads)]
    at = [memory.add("scratch", own).at for own in (q, k, v, dt, beta)]
    out = memory.room("scratch", n * heads * width)
    words = [*at, at_rate.at, out.at, n, heads, key_heads, width, by_row, 0, before.at, after.at, 0]
    twin.launch("delta_128", words, (heads * width // 16, 1, 1), memory, {"scratch": [out], "cache": [after]}, order)
    right = []
    for t in range(n):
        row: List[float] = []
        for h in range(heads):
            own, of_key = t * heads + h, (t * key_heads + h * key_heads // heads) * key
            for c in range(width):
                s = lambda i: h * key * width + i * width + c
                for i in range(key):
                    held[s(i)] *= math.exp(rate[h] * dt[own * key + i if by_row else own])
                seen = sum(held[s(i)] * k[of_key + i] for i in range(key))
                change = beta[own] * (v[own * width + c] - seen)
                for i in range(key):
                    held[s(i)] += k[of_key + i] * change
                row.append(sum(held[s(i)] * q[of_key + i] for i in range(key)))
        right.append(row)
    check("delta", memory, outputs(memory, out, heads * width, heads * width, n), right, [[LIMIT] * heads * width] * n)
    state("delta", memory, after, held)


def scan(twin: Twin, order: int, size: int) -> None:
    """h = exp(rate dt) h + dt x b^T; out = h c + skip x"""
    rng = random.Random(size)
    memory = Memory()
    heads, width, groups, n = 2, 16, 1, 3
    channels = heads * width
    rate, skip = [-1.0, -0.25], uniform(rng, heads)
    at_rate, at_skip = memory.add("vectors", rate), memory.add("vectors", skip)
    held = uniform(rng, size * channels)
    before, after = memory.add("cache", held), memory.room("cache", size * channels)
    x, dt = uniform(rng, n * channels), [abs(v) for v in uniform(rng, n * heads)]
    b, c = ([v / 8 for v in uniform(rng, n * groups * size)] for _ in range(2))
    at = [memory.add("scratch", own).at for own in (x, dt, b, c)]
    out = memory.room("scratch", n * channels)
    words = [*at, at_rate.at, at_skip.at, out.at, n, heads, width, groups, 0, before.at, after.at, 0]
    twin.launch(f"scan_{size}", words, (channels // 16, 1, 1), memory, {"scratch": [out], "cache": [after]}, order)
    right = []
    for t in range(n):
        row = []
        for channel in range(channels):
            h = channel // width
            step, value = dt[t * heads + h], x[t * channels + channel]
            for i in range(size):
                at_i = i * channels + channel
                held[at_i] = math.exp(rate[h] * step) * held[at_i] + step * value * b[t * size + i]
            row.append(sum(held[i * channels + channel] * c[t * size + i] for i in range(size)) + skip[h] * value)
        right.append(row)
    check("scan", memory, outputs(memory, out, channels, channels, n), right, [[LIMIT] * channels] * n)
    state("scan", memory, after, held)


def wkv(twin: Twin, order: int) -> None:
    """S = diag(exp(-exp(dt))) S + b (S^T a)^T + k v^T; out = S^T r"""
    rng = random.Random(7)
    memory = Memory()
    heads, dim, n = 2, 64, 3
    width = heads * dim
    held = uniform(rng, heads * dim * dim)
    before, after = memory.add("cache", held), memory.room("cache", heads * dim * dim)
    r, k, v, dt, a, b = ([x / 8 for x in uniform(rng, n * width)] for _ in range(6))
    at = [memory.add("scratch", own).at for own in (r, k, v, dt, a, b)]
    out = memory.room("scratch", n * width)
    words = [*at, out.at, n, heads, heads, 0, 0.0, 0, 0, before.at, after.at, 0]
    twin.launch("wkv_64", words, (width // 16, 1, 1), memory, {"scratch": [out], "cache": [after]}, order)
    right = []
    for t in range(n):
        row = []
        for h in range(heads):
            own = t * width + h * dim
            for c in range(dim):
                s = lambda i: h * dim * dim + i * dim + c
                seen = sum(held[s(i)] * a[own + i] for i in range(dim))
                for i in range(dim):
                    decay = math.exp(-math.exp(dt[own + i]))
                    held[s(i)] = decay * held[s(i)] + k[own + i] * v[own + c] + b[own + i] * seen
                row.append(sum(held[s(i)] * r[own + i] for i in range(dim)))
        right.append(row)
    check("wkv", memory, outputs(memory, out, width, width, n), right, [[LIMIT] * width] * n)
    state("wkv", memory, after, held)


def cases() -> Iterator[Tuple[str, object, tuple]]:
    yield "conv", conv, ()
    yield "delta", delta, (0,)
    yield "delta by rows", delta, (1,)
    for size in (16, 128, 256):
        yield f"scan of {size}", scan, (size,)
    yield "wkv", wkv, ()
