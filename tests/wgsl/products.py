"""Matrix products and embeddings of each weight type, compared with float64 sums of the values that the gguf package
reads from the blocks."""
import random
from operator import mul
from typing import Iterator, List, Sequence, Tuple

from twin import NONE, Area, Memory, Twin, Wrong, compare, floats
from weights import BLOCKS, CODES, FLOATS, Matrix, matrix, read_types

TYPES = read_types()
# Relative to the sum of the absolute values of all terms.
LIMIT = 4e-6


def uniform(rng: random.Random, n: int) -> List[float]:
    """Random numbers that are float32 exactly."""
    return [rng.randrange(-(1 << 20), 1 << 20) / (1 << 20) for _ in range(n)]


def products(rows: Sequence[Sequence[float]], xs: Sequence[Sequence[float]]) -> Tuple[List[List[float]], List[List[float]]]:
    """Returns the products of each x with all rows, and the allowed differences."""
    absolute = [[abs(v) for v in row] for row in rows]
    right = [[sum(map(mul, row, x)) for row in rows] for x in xs]
    sizes = [[LIMIT * sum(map(mul, row, [abs(v) for v in x])) for row in absolute] for x in xs]
    return right, sizes


def quantized(memory: Memory, rng: random.Random, n: int, cols: int) -> Tuple[Area, Area, List[List[float]]]:
    """Rows of signed bytes with a scale and a scaled sum per 32 columns, and their values."""
    quants, groups, rows = bytearray(), [], []
    for _ in range(n):
        row: List[float] = []
        for _ in range(cols // 32):
            own = [rng.randrange(-127, 128) for _ in range(32)]
            scale = 2.0 ** rng.randrange(-9, -5)
            quants += bytes(q & 255 for q in own)
            groups += [scale, scale * sum(own)]
            row += [q * scale for q in own]
        rows.append(row)
    return memory.add("scratch", quants), memory.add("scratch", groups), rows


def outputs(memory: Memory, at: Area, row: int, width: int, n: int) -> List[Area]:
    return [Area(at.at + row * t, width) for t in range(n)]


def check(what: str, memory: Memory, outs: Sequence[Area], right: Sequence[Sequence[float]], sizes: Sequence[Sequence[float]]) -> None:
    for out, own, limits in zip(outs, right, sizes):
        compare(what, floats(memory.words["scratch"][out.at : out.at + out.n]), own, limits)


def multiply(twin: Twin, order: int, kernel: str, name: str, shape: Tuple[int, int, int], tokens: int) -> None:
    """y = W x + bias by `gemv` or `tile`; `shape`: rows of W, width of x, rows of x."""
    rows, width, n = shape
    rng = random.Random(rows + n)
    memory = Memory()
    w = matrix(TYPES, name, rows, width, memory)
    bias = uniform(rng, rows)
    at_bias = memory.add("vectors", bias).at if n > 1 else NONE
    if name in FLOATS:
        # NaN after each row: the zero weights of padded columns must not be multiplied by the next row.
        xs, rest = [uniform(rng, width) for _ in range(n)], [float("nan")] * (-width % 4)
        x = memory.add("scratch", sum((own + rest for own in xs), []))
        at = [x.at, width + len(rest)]
    else:
        quants, groups, xs = quantized(memory, rng, n, w.cols)
        at = [quants.at, groups.at]
    row = rows + 5
    y = memory.room("scratch", n * row)
    outs = outputs(memory, y, row, rows, n)
    per_group = 64 if tokens == 64 else 4
    grid = (-(-rows // per_group), -(-n // tokens), 1)
    twin.launch(kernel, [rows, w.cols, n, *w.planes, *at, y.at, row, at_bias, width], grid, memory, {"scratch": outs}, order)
    right, sizes = products(w.values, xs)
    if n > 1:
        right = [[v + b for v, b in zip(own, bias)] for own in right]
        sizes = [[s + LIMIT for s in own] for own in sizes]
    check(kernel, memory, outs, right, sizes)


def experts(twin: Twin, order: int, kernel: str, name: str) -> None:
    """GEMV of MoE experts; the rows of the experts' matrices are in two parts."""
    rng = random.Random(5)
    memory = Memory()
    n_experts, rows, used, n = 3, 10, 2, 3
    width = 301 if name in FLOATS else 512
    parts = [matrix(TYPES, name, part, width, memory, seed) for seed, part in ((1, 13), (2, n_experts * rows - 13))]
    cols, all_rows = parts[0].cols, parts[0].values + parts[1].values
    picks = [rng.randrange(n_experts) for _ in range(n * used)]
    at_picks = memory.add("scratch", picks)
    bias, scales, factors = uniform(rng, n_experts * rows), uniform(rng, n_experts), uniform(rng, n * used)
    at_bias, at_scales = memory.add("vectors", bias), memory.add("vectors", scales)
    at_factors = memory.add("scratch", factors)
    if name in FLOATS:
        xs = [uniform(rng, width) for _ in range(n)]
        at = [memory.add("scratch", sum(xs, [])).at, width]
    else:
        quants, groups, xs = quantized(memory, rng, n, cols)
        at = [quants.at, groups.at]
    row = rows + 1
    y = memory.room("scratch", n * used * row)
    outs = outputs(memory, y, row, rows, n * used)
    first = 0
    for part in parts:
        words = [rows, cols, *part.planes, first, part.rows, at_picks.at, used, *at, y.at, row]
        words += [at_bias.at, at_scales.at, at_factors.at, width]
        twin.launch(kernel, words, (-(-rows // 4), n * used, 1), memory, {"scratch": outs}, order)
        first += part.rows
    right, sizes = [], []
    for i, expert in enumerate(picks):
        own = range(expert * rows, (expert + 1) * rows)
        [values], [limits] = products([all_rows[r] for r in own], [xs[i // used]])
        factor = scales[expert] * factors[i]
        right.append([v * factor + bias[r] for v, r in zip(values, own)])
        sizes.append([abs(limit * factor) + LIMIT for limit in limits])
    check(kernel, memory, outs, right, sizes)


def embed(twin: Twin, order: int, kernel: str, name: str) -> None:
    """Embedding lookup in a part of a table; rows of ids outside the part must stay unchanged."""
    memory = Memory()
    width = 70 if name in FLOATS else 512
    first = 4
    table = matrix(TYPES, name, 8, width, memory)
    ids = [11, 3, 4, 12, 7]
    at_ids = memory.add("inputs", ids)
    out = memory.room("scratch", len(ids) * width)
    here = [(Area(out.at + width * t, width), table.values[i - first][:width]) for t, i in enumerate(ids) if 0 <= i - first < 8]
    words = [8, table.cols, *table.planes, first, width, len(ids), at_ids.at, out.at, 0.75]
    twin.launch(kernel, words, (-(-width // 2048), len(ids), 1), memory, {"scratch": [area for area, _ in here]}, order)
    right = [[0.75 * v for v in row] for _, row in here]
    # Relative to the largest value, because a value is a difference of two.
    sizes = [[LIMIT * max(map(abs, row))] * width for row in right]
    check(kernel, memory, [area for area, _ in here], right, sizes)


def heads(twin: Twin, order: int, kernel: str, name: str) -> None:
    """A product per head, followed by the other values of the head; then the same product, scaled and added."""
    rng = random.Random(9)
    memory = Memory()
    n_heads, rows, n, rest = 2, 10, 5, 3
    width = 301 if name in FLOATS else 512
    w = matrix(TYPES, name, n_heads * rows, width, memory)
    x_head, out_head = width + rest, rows + rest
    xs = [uniform(rng, x_head) for _ in range(n * n_heads)]
    x = memory.add("scratch", sum(xs, []))
    out = memory.room("scratch", n * n_heads * out_head)
    grid = (-(-rows // 8), n_heads, -(-n // 4))
    for factor, adds in ((1.0, 0), (0.5, 1)):
        words = [rows, w.cols, n, *w.planes, 0, n_heads * rows, x.at, x_head, out.at, out_head, n_heads, width, factor, adds]
        twin.launch(kernel, words, grid, memory, {"scratch": [out]}, order)
    right, sizes = [], []
    for i, own in enumerate(xs):
        first = i % n_heads * rows
        [values], [limits] = products([row[:width] for row in w.values[first : first + rows]], [own[:width]])
        right.append([1.5 * v for v in values] + own[width:])
        sizes.append([2 * limit for limit in limits] + [LIMIT] * rest)
    check(kernel, memory, outputs(memory, out, out_head, out_head, n * n_heads), right, sizes)


def prepare(twin: Twin, order: int) -> None:
    """Quantization of activations: nearest bytes; a NaN scale for a group with infinity."""
    rng = random.Random(2)
    memory = Memory()
    width, n = 299, 3
    cols, row = 320, 301
    xs = [uniform(rng, width) for _ in range(n)]
    xs[1][40] = float("inf")
    xs[2][64:96] = [0.0] * 32
    x = memory.add("scratch", sum((own + [9.0] * (row - width) for own in xs), []))
    quants, groups = memory.room("scratch", n * cols // 4), memory.room("scratch", n * cols // 16)
    words = [width, cols, x.at, row, quants.at, groups.at, 0]
    twin.launch("prepare", words, (-(-cols // 256), n, 1), memory, {"scratch": [quants, groups]}, order)
    found = memory.words["scratch"][quants.at : quants.at + quants.n].tobytes()
    scales = floats(memory.words["scratch"][groups.at : groups.at + groups.n])
    for t, own in enumerate(xs):
        own = own + [0.0] * (cols - width)
        for g in range(cols // 32):
            values, bytes_ = own[32 * g :][:32], [(q ^ 128) - 128 for q in found[cols * t + 32 * g :][:32]]
            scale, total = scales[2 * (t * cols // 32 + g) :][:2]
            if float("inf") in values:
                if scale == scale:
                    raise Wrong(f"prepare: a group with infinity has the scale {scale}")
                continue
            peak = max(map(abs, values))
            compare("prepare: scales and sums", [scale, total], [peak / 127, peak / 127 * sum(bytes_)], [1e-6 * peak, 1e-3 * peak])
            compare("prepare: bytes", bytes_, [v * 127 / peak if peak else 0.0 for v in values], [0.5001] * 32)


def cases() -> Iterator[Tuple[str, object, tuple]]:
    """Name of a case, its function, and arguments after the twin and the order of threads."""
    yield "prepare", prepare, ()
    for name in CODES:
        is_float = name in FLOATS
        own = f"_float_{name}" if is_float else f"_{name}"
        # More columns than 64 threads have in one iteration; rows and tokens that do not fill workgroups.
        few = 301 if is_float else 2304
        yield f"gemv{own}_1", multiply, (f"gemv{own}_1", name, (10, 304 if is_float else 2304, 1), 1)
        yield f"gemv{own}_4", multiply, (f"gemv{own}_4", name, (10, few, 6), 4)
        yield f"tile{own}", multiply, (f"tile{own}", name, (70, 45 if is_float else 256, 67), 64)
        yield f"expert_gemv{own}", experts, (f"expert_gemv{own}", name)
        yield f"embed{own}", embed, (f"embed{own}", name)
        yield f"project_heads_{name}", heads, (f"project_heads_{name}", name)
