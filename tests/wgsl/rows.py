"""Norms, RoPE, argmax, top-k and MoE routing, compared with their formulas in float64."""
import math
import random
from typing import Dict, Iterator, List, Tuple

from products import LIMIT, check, outputs, uniform
from twin import NONE, Area, Memory, Twin, Wrong, compare, floats


def norm(twin: Twin, order: int, kind: int) -> None:
    """RMS norm (kind 0) and layer norm (kind 1) of two groups per row."""
    rng = random.Random(kind)
    memory = Memory()
    group, n, eps = 150, 3, 1e-5
    xs = [[v + 0.5 for v in uniform(rng, 2 * group)] for _ in range(n)]
    weight, bias = uniform(rng, 2 * group), uniform(rng, 2 * group)
    at_weight, at_bias = memory.add("vectors", weight), memory.add("vectors", bias)
    x = memory.add("scratch", sum(xs, []))
    out = memory.room("scratch", n * 2 * group)
    words = [x.at, 2 * group, out.at, 2 * group, group, at_weight.at, group, at_bias.at, group, kind, eps]
    twin.launch("norm", words, (2, n, 1), memory, {"scratch": [out]}, order)
    right = []
    for own in xs:
        row: List[float] = []
        for g in range(2):
            values = own[group * g : group * (g + 1)]
            mean = sum(values) / group if kind == 1 else 0.0
            factor = 1 / math.sqrt(sum((v - mean) ** 2 for v in values) / group + eps)
            row += [(v - mean) * factor * weight[group * g + i] + bias[group * g + i] for i, v in enumerate(values)]
        right.append(row)
    check("norm", memory, outputs(memory, out, 2 * group, 2 * group, n), right, [[1e-5] * 2 * group] * n)


def rope(twin: Twin, order: int, is_adjacent: int) -> None:
    """Rotates some pairs of heads; other values stay."""
    rng = random.Random(3)
    memory = Memory()
    heads, dim, first, pairs, n = 3, 20, 2, 7, 2
    xs = [uniform(rng, heads * dim) for _ in range(n)]
    angles = [rng.uniform(-3, 3) for _ in range(n * pairs)]
    at_angles = memory.add("inputs", [f(a) for a in angles for f in (math.cos, math.sin)])
    x = memory.add("scratch", sum(xs, []))
    words = [x.at, heads * dim, heads, dim, first, pairs, is_adjacent, at_angles.at]
    twin.launch("rope", words, (-(-heads * pairs // 64), n, 1), memory, {"scratch": [x]}, order)
    right = []
    for t, own in enumerate(xs):
        row = own[:]
        for h in range(heads):
            for i in range(pairs):
                a = h * dim + first + (2 * i if is_adjacent else i)
                b = a + (1 if is_adjacent else pairs)
                turned = complex(own[a], own[b]) * complex(math.cos(angles[t * pairs + i]), math.sin(angles[t * pairs + i]))
                row[a], row[b] = turned.real, turned.imag
        right.append(row)
    check("rope", memory, outputs(memory, x, heads * dim, heads * dim, n), right, [[1e-6] * heads * dim] * n)


def argmax(twin: Twin, order: int) -> None:
    """The first of equal logits; NOT_A_NUMBER if a logit is NaN."""
    for width in (5, 1000):
        rng = random.Random(width)
        memory = Memory()
        rows = [[rng.randrange(-40, 40) / 4 - 20 for _ in range(width)] for _ in range(4)]
        rows[1] = [-3.0] * width
        rows[2][width - 1] = 50.0
        rows[3][width // 2] = float("nan")
        x = memory.add("scratch", sum(rows, []))
        out = memory.room("scratch", 4)
        twin.launch("argmax", [x.at, width, out.at], (1, 4, 1), memory, {"scratch": [out]}, order)
        expected = [row.index(max(row)) for row in rows[:3]] + [0xFFFFFFFD]
        found = list(memory.words["scratch"][out.at : out.at + 4])
        if found != expected:
            raise Wrong(f"argmax: {found}; it must be {expected}")


def top(twin: Twin, order: int) -> None:
    """The `count` largest allowed logits of each part, the first ones of equal logits; and logits by id."""
    rng = random.Random(4)
    memory = Memory()
    width, span, count = 1700, 900, 40
    logits = [rng.randrange(-60, 60) / 8 for _ in range(width)]
    allowed = [rng.getrandbits(32) for _ in range(-(-width // 32))]
    masks = [NONE, memory.add("inputs", allowed).at]
    ids = [1699, 0, 77]
    at_ids = memory.add("inputs", ids)
    x = memory.add("scratch", logits)
    for mask in masks:
        out, picked = memory.room("scratch", 2 * (1 + 2 * count)), memory.room("scratch", len(ids))
        twin.launch("top", [x.at, width, span, count, out.at, 1 + 2 * count, mask], (2, 1, 1), memory, {"scratch": [out]}, order)
        twin.launch("pick", [x.at, at_ids.at, len(ids), picked.at], (1, 1, 1), memory, {"scratch": [picked]}, order)
        for part in range(2):
            here = [i for i in range(part * span, min(width, (part + 1) * span)) if mask == NONE or allowed[i // 32] >> i % 32 & 1]
            right = sorted(sorted(here, key=lambda i: (-logits[i], i))[:count])
            words = memory.words["scratch"][out.at + part * (1 + 2 * count) :][: 1 + 2 * count]
            found = dict(zip(words[1::2], floats(words[2::2])))
            if words[0] != count or sorted(found) != right or any(found[i] != logits[i] for i in right):
                raise Wrong(f"top: {sorted(found)}; it must be {right}")
        compare("pick", floats(memory.words["scratch"][picked.at : picked.at + picked.n]), [logits[i] for i in ids], [0.0] * len(ids))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def route(twin: Twin, order: int, score: int, options: Dict[str, int]) -> None:
    """MoE routing by a score (0: softmax, 1: softmax of the chosen, 2: sigmoid, 3: root of softplus), optionally with a
    bias, groups and renormalized weights."""
    rng = random.Random(score)
    memory = Memory()
    experts, used, n, scale = 72, 5, 3, 1.5
    groups, groups_used = options.get("groups", 1), options.get("groups_used", 1)
    rows = [[4 * v for v in uniform(rng, experts)] for _ in range(n)]
    # A score that exceeds the range of e^x; the best expert in the worst of the groups; NaN.
    rows[0][20] = 150.0
    rows[1][45:54] = [-9.0] * 8 + [6.0]
    rows[2][40] = float("nan")
    bias = [v / 8 for v in uniform(rng, experts)]
    at_bias = memory.add("vectors", bias).at if options.get("bias") else NONE
    scores = memory.add("scratch", sum(rows, []))
    picks, weights = memory.room("scratch", n * used), memory.room("scratch", n * used)
    words = [scores.at, experts, experts, used, picks.at, weights.at, score, at_bias, groups, groups_used]
    words += [options.get("renormalize", 0), scale, 1, NONE, NONE, 0]
    twin.launch("route", words, (n, 1, 1), memory, {"scratch": [picks, weights]}, order)
    for t, own in enumerate(rows):
        numbers = floats(memory.words["scratch"][weights.at + used * t :][:used])
        if t == 2:
            if any(v == v for v in numbers):
                raise Wrong(f"route: weights {numbers} of scores with NaN; they must be NaN")
            continue
        exps = [math.exp(s) for s in own]
        weight = [[e / sum(exps) for e in exps], exps, [sigmoid(s) for s in own], [math.sqrt(math.log1p(e)) for e in exps]][score]
        rank = [w + b for w, b in zip(weight, bias)] if options.get("bias") else weight if groups > 1 else own
        size = experts // groups
        best = lambda g: sum(sorted(rank[size * g : size * (g + 1)])[-2:])
        kept = sorted(range(groups), key=lambda g: -best(g))[:groups_used]
        right = sorted((e for e in range(experts) if e // size in kept), key=lambda e: -rank[e])[:used]
        if score == 1:
            weight = [e / sum(exps[i] for i in right) for e in exps]
        total = sum(weight[e] for e in right) if options.get("renormalize") else 1.0
        found = list(memory.words["scratch"][picks.at + used * t :][:used])
        if found != right:
            raise Wrong(f"route: experts {found}; they must be {right}")
        compare("route: weights", numbers, [scale * weight[e] / total for e in right], [1e-5] * used)


def combine(twin: Twin, order: int) -> None:
    rng = random.Random(6)
    memory = Memory()
    width, used, n = 70, 3, 2
    xs = [uniform(rng, width) for _ in range(n * used)]
    weights = uniform(rng, n * used)
    x, at_weights = memory.add("scratch", sum(xs, [])), memory.add("scratch", weights)
    before = [uniform(rng, width) for _ in range(n)]
    out = memory.add("scratch", sum(before, []))
    words = [width, used, x.at, width, at_weights.at, out.at, width, 1, 0.5]
    twin.launch("combine", words, (-(-width // 64), n, 1), memory, {"scratch": [out]}, order)
    right = [
        [before[t][i] + 0.5 * sum(weights[t * used + j] * xs[t * used + j][i] for j in range(used)) for i in range(width)]
        for t in range(n)
    ]
    check("combine", memory, outputs(memory, out, width, width, n), right, [[LIMIT] * width] * n)


def cases() -> Iterator[Tuple[str, object, tuple]]:
    yield "norm", norm, (0,)
    yield "layer norm", norm, (1,)
    yield "rope of halves", rope, (0,)
    yield "rope of neighbors", rope, (1,)
    yield "argmax", argmax, ()
    yield "top and pick", top, ()
    for score in range(4):
        yield f"route by score {score}", route, (score, {})
    yield "route with a bias and groups", route, (2, {"bias": 1, "groups": 8, "groups_used": 3, "renormalize": 1})
    yield "combine", combine, ()
