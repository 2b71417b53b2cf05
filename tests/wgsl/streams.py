"""Element-wise operations, copies, and operations on parallel streams, against the formulas in float64."""
import math
import random
from typing import Callable, Iterator, List, Tuple

from products import LIMIT, check, outputs, uniform
from rows import sigmoid
from twin import NONE, Memory, Twin

WIDTH, N = 70, 3
# Numbers of `map`.
A, B, C, D = 0.5, 0.75, 0.25, -0.125


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


# The codes of `activate` in map.wgsl.
ACTIVATIONS = {
    1: sigmoid,
    3: lambda x: math.log1p(math.exp(x)),
    4: math.tanh,
    5: lambda x: x * sigmoid(x),
    6: lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    7: gelu,
    8: lambda x: x * sigmoid(1.702 * x),
    9: lambda x: max(x, 0.0),
    10: lambda x: max(x, 0.0) ** 2,
}

# Codes 11 to 14, with the numbers of `mapped`.
GATED = {
    11: lambda g, u: min(g, 7) * sigmoid(1.702 * min(g, 7)) * (max(-7, min(7, u)) + 1),
    12: lambda g, u: min(g, A) * sigmoid(min(g, A)) * max(-A, min(A, u)),
    13: lambda g, u: min(g * sigmoid(g), A) * max(-A, min(A, u)),
    14: lambda g, u: A * math.tanh(g / A) * sigmoid(g) * B * math.tanh(u / B),
}


def mapped(twin: Twin, order: int, mode: int, activation: int, of: Callable) -> None:
    """An operation on each value of x, with the value of y."""
    rng = random.Random(mode + activation)
    memory = Memory()
    xs, ys = ([[3 * v for v in uniform(rng, WIDTH)] for _ in range(N)] for _ in range(2))
    vector = uniform(rng, WIDTH)
    at_vector = memory.add("vectors", vector)
    x, y = memory.add("scratch", sum(xs, [])), memory.add("scratch", sum(ys, []))
    words = [mode, WIDTH, x.at, WIDTH, y.at, WIDTH, at_vector.at, 1, A, B, C, D, 0, activation, 1, 0, 0]
    twin.launch("map", words, (-(-WIDTH // 64), N, 1), memory, {"scratch": [x]}, order)
    right = [[of(a, b, v) for a, b, v in zip(own, other, vector)] for own, other in zip(xs, ys)]
    check("map", memory, outputs(memory, x, WIDTH, WIDTH, N), right, [[4e-6 * max(1.0, *map(abs, row))] * WIDTH for row in right])


def moved(twin: Twin, order: int) -> None:
    """A slice, the columns that a vector names, rows, and means of groups."""
    rng = random.Random(8)
    xs = [uniform(rng, 3 * WIDTH) for _ in range(N)]
    columns = [rng.randrange(3 * WIDTH) for _ in range(WIDTH)]
    rows = [2, 0, 2]
    for mode, right in (
        (0, [own[5 : 5 + WIDTH] for own in xs]),
        (2, [[own[c] for c in columns] for own in xs]),
        (3, [xs[row][:WIDTH] for row in rows]),
        (4, [[(own[i] + own[WIDTH + i] + own[2 * WIDTH + i]) / 3 for i in range(WIDTH)] for own in xs]),
    ):
        memory = Memory()
        vector, at_rows = memory.add("vectors", [float(c) for c in columns]), memory.add("inputs", rows)
        x = memory.add("scratch", sum(xs, []))
        out = memory.room("scratch", N * WIDTH)
        words = [mode, WIDTH, x.at, 3 * WIDTH, 0, 0, out.at, WIDTH, 5, 3, vector.at, at_rows.at, 1 / 3]
        twin.launch("move", words, (-(-WIDTH // 64), N, 1), memory, {"scratch": [out]}, order)
        check("move", memory, outputs(memory, out, WIDTH, WIDTH, N), right, [[LIMIT] * WIDTH] * N)


def dot_heads(twin: Twin, order: int) -> None:
    rng = random.Random(9)
    memory = Memory()
    heads, width = 3, 100
    xs, ys = ([uniform(rng, heads * width) for _ in range(N)] for _ in range(2))
    x, y = memory.add("scratch", sum(xs, [])), memory.add("scratch", sum(ys, []))
    out = memory.room("scratch", N * heads)
    words = [x.at, heads * width, y.at, heads * width, out.at, heads, heads, width]
    twin.launch("dot_heads", words, (heads, N, 1), memory, {"scratch": [out]}, order)
    right = [[sum(a * b for a, b in zip(own[width * h :][:width], other[width * h :][:width])) for h in range(heads)] for own, other in zip(xs, ys)]
    check("dot_heads", memory, outputs(memory, out, heads, heads, N), right, [[1e-4] * heads] * N)


def mix(twin: Twin, order: int) -> None:
    rng = random.Random(10)
    memory = Memory()
    streams, made = 4, 2
    xs, by = [uniform(rng, streams * WIDTH) for _ in range(N)], [uniform(rng, made * streams) for _ in range(N)]
    before = [uniform(rng, made * WIDTH) for _ in range(N)]
    x, at_by, out = (memory.add("scratch", sum(own, [])) for own in (xs, by, before))
    words = [x.at, streams * WIDTH, at_by.at, made * streams, out.at, made * WIDTH, WIDTH, streams, made * WIDTH, 1]
    twin.launch("mix", words, (-(-made * WIDTH // 64), N, 1), memory, {"scratch": [out]}, order)
    right = [
        [before[t][i] + sum(by[t][i // WIDTH * streams + k] * xs[t][k * WIDTH + i % WIDTH] for k in range(streams)) for i in range(made * WIDTH)]
        for t in range(N)
    ]
    check("mix", memory, outputs(memory, out, made * WIDTH, made * WIDTH, N), right, [[LIMIT] * made * WIDTH] * N)


def mix_by_score(twin: Twin, order: int) -> None:
    rng = random.Random(11)
    memory = Memory()
    streams, eps = 3, 1e-6
    xs, by = [uniform(rng, streams * WIDTH) for _ in range(N)], uniform(rng, WIDTH)
    at_by, x = memory.add("vectors", by), memory.add("scratch", sum(xs, []))
    out = memory.room("scratch", N * WIDTH)
    twin.launch("mix_by_score", [x.at, at_by.at, out.at, WIDTH, streams, eps, 0], (N, 1, 1), memory, {"scratch": [out]}, order)
    right = []
    for own in xs:
        each = [own[WIDTH * k :][:WIDTH] for k in range(streams)]
        scores = [sum(a * b for a, b in zip(s, by)) / math.sqrt(sum(v * v for v in s) / WIDTH + eps) for s in each]
        weights = [math.exp(s - max(scores)) for s in scores]
        right.append([sum(w * s[i] for w, s in zip(weights, each)) / sum(weights) for i in range(WIDTH)])
    check("mix_by_score", memory, outputs(memory, out, WIDTH, WIDTH, N), right, [[2e-5] * WIDTH] * N)


def sinkhorn(twin: Twin, order: int) -> None:
    rng = random.Random(12)
    memory = Memory()
    size, rounds, eps = 5, 3, 1e-4
    xs = [uniform(rng, size * size) for _ in range(N)]
    x = memory.add("scratch", sum(xs, []))
    twin.launch("sinkhorn", [x.at, size, rounds, eps, 0], (N, 1, 1), memory, {"scratch": [x]}, order)
    right = []
    for own in xs:
        m = [[math.exp(v) for v in own[size * i :][:size]] for i in range(size)]
        m = [[v / sum(row) + eps for v in row] for row in m]
        for turn in range(rounds):
            if turn > 0:
                m = [[v / (sum(row) + eps) for v in row] for row in m]
            sums = [sum(row[j] for row in m) + eps for j in range(size)]
            m = [[v / sums[j] for j, v in enumerate(row)] for row in m]
        right.append([m[i][j] for j in range(size) for i in range(size)])
    check("sinkhorn", memory, outputs(memory, x, size * size, size * size, N), right, [[1e-5] * size * size] * N)


def rescale(twin: Twin, order: int, has_like: bool) -> None:
    """Parts of rows with the mean square of another row, or what exceeds a number of deviations."""
    rng = random.Random(13)
    memory = Memory()
    parts = 2 if has_like else 1
    xs, likes = [uniform(rng, parts * WIDTH) for _ in range(N)], [uniform(rng, WIDTH) for _ in range(N)]
    x, like = memory.add("scratch", sum(xs, [])), memory.add("scratch", sum(likes, []))
    words = [x.at, parts * WIDTH, WIDTH, like.at if has_like else NONE, 0.5, 0]
    twin.launch("rescale", words, (parts, N, 1), memory, {"scratch": [x]}, order)
    right = []
    for own, other in zip(xs, likes):
        row: List[float] = []
        for part in range(parts):
            values = own[WIDTH * part :][:WIDTH]
            mean = sum(values) / WIDTH
            least = mean + 0.5 * math.sqrt(sum((v - mean) ** 2 for v in values) / WIDTH)
            factor = math.sqrt(sum(v * v for v in other) / sum(v * v for v in values))
            row += [v * factor for v in values] if has_like else [max(v - least, 0.0) for v in values]
        right.append(row)
    check("rescale", memory, outputs(memory, x, parts * WIDTH, parts * WIDTH, N), right, [[1e-5] * parts * WIDTH] * N)


def cases() -> Iterator[Tuple[str, object, tuple]]:
    yield "add", mapped, (0, 0, lambda x, y, v: x + A * y)
    yield "scale", mapped, (1, 0, lambda x, y, v: A * x)
    yield "scale columns", mapped, (2, 0, lambda x, y, v: x * v)
    yield "clamp", mapped, (4, 0, lambda x, y, v: max(A, min(B, x)))
    xielu = lambda x: A * x * x + C * x if x > 0 else B * (math.exp(min(x, D)) - 1 - x) + C * x
    yield "xIELU", mapped, (5, 0, lambda x, y, v: xielu(x))
    yield "gate", mapped, (6, 0, lambda x, y, v: x * y)
    yield "sigmoid gate", mapped, (7, 0, lambda x, y, v: x * sigmoid(y))
    yield "softcap", mapped, (12, 0, lambda x, y, v: B * math.tanh(A * x / B))
    for code, of in ACTIVATIONS.items():
        yield f"activation {code}", mapped, (9, code, lambda x, y, v, of=of: of(x))
        yield f"GLU {code}", mapped, (8, code, lambda x, y, v, of=of: of(x) * y)
    for code, of in GATED.items():
        yield f"GLU {code}", mapped, (8, code, lambda x, y, v, of=of: of(x, y))
    yield "move", moved, ()
    yield "dot_heads", dot_heads, ()
    yield "mix", mix, ()
    yield "mix_by_score", mix_by_score, ()
    yield "sinkhorn", sinkhorn, ()
    yield "rescale", rescale, (True,)
    yield "threshold", rescale, (False,)
