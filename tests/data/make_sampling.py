"""Writes sampling.json: parameters of samplers, tokens so far, logits, and the probabilities of the next token.
Usage: pip install numpy torch transformers; python make_sampling.py

Bans and the filters that `transformers` has are its own, in floats of 64 bits. Those that it lacks are written here after
their definitions: top-n-sigma (Tang et al., 2024), DRY and XTC as their author proposed them for text-generation-webui,
the dynamic temperature of llama.cpp, and algorithm 2 of Mirostat (Basu et al., 2021), whose bound stays where it starts.
"""

import json
from pathlib import Path
from random import Random

import numpy as np
import torch
from transformers.generation import logits_process as hf

N = 24
NAMES = {1: "top_n_sigma", 2: "top_k", 3: "typical_p", 4: "top_p", 5: "min_p", 6: "xtc_probability", 7: "temperature"}
DEFAULT_ORDER = [1, 2, 3, 4, 5, 6, 7]
DEFAULTS = {"xtc_threshold": 0.1, "temperature_exponent": 1.0, "dry_base": 1.75, "dry_allowed_length": 2}


def transformers(processor, logits, history=()):
    ids = torch.tensor([list(history)], dtype=torch.long)
    return processor(ids, torch.tensor(logits[None]))[0].numpy()


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def without(logits, dropped):
    return np.where(dropped, -np.inf, logits)


def entropy(logits):
    p = softmax(logits)
    p = p[p > 0]
    return -(p * np.log(p)).sum()


def dry(p, logits, history):
    seen = history[-p["dry_window"] :] if p.get("dry_window") else history
    behind = len(seen)
    for breaker in p.get("dry_breakers", []):
        ends = [i for i in range(len(breaker), len(seen) + 1) if seen[i - len(breaker) : i] == breaker]
        behind = min([behind] + [len(seen) - end for end in ends])
    logits = logits.copy()
    for token in range(N):
        lengths = [0]
        for at in [i for i, other in enumerate(seen) if other == token]:
            n = 0
            while n < min(at, behind) and seen[at - 1 - n] == seen[-1 - n]:
                n += 1
            lengths.append(n)
        if max(lengths) >= p["dry_allowed_length"] and [token] not in p.get("dry_breakers", []):
            logits[token] -= p["dry_multiplier"] * p["dry_base"] ** (max(lengths) - p["dry_allowed_length"])
    return logits


def top_n_sigma(n, logits):
    left = logits[np.isfinite(logits)]
    return without(logits, logits < left.max() - n * left.std())


def xtc(threshold, logits):
    p = softmax(logits)
    top = np.flatnonzero(p >= threshold)
    keep = top[np.argmin(p[top])] if len(top) else -1
    return without(logits, [i in top and i != keep for i in range(N)])


def temperature(p, logits):
    t, r = p["temperature"], p.get("temperature_range", 0.0)
    left = np.isfinite(logits).sum()
    if r and left > 1:
        least = max(0.0, t - r)
        t = least + (t + r - least) * (entropy(logits) / np.log(left)) ** p["temperature_exponent"]
    return logits / t


def mirostat(tau, logits):
    p = softmax(logits)
    return without(logits, (-np.log2(p, out=np.full(N, np.inf), where=p > 0) > 2 * tau) & (logits < logits.max()))


def probabilities(p, history, logits):
    p = {name: value for name, value in p.items() if value} | {k: v for k, v in DEFAULTS.items() if not p.get(k)}
    if p.get("dry_multiplier"):
        logits = dry(p, logits, history)
    if n := p.get("no_repeat_ngram_size"):
        logits = transformers(hf.NoRepeatNGramLogitsProcessor(n), logits, history)
    if words := p.get("banned_sequences"):
        logits = transformers(hf.NoBadWordsLogitsProcessor(words), logits, history)
    both = [(1.0, logits)]
    for number in p.get("order", DEFAULT_ORDER):
        value = p.get(NAMES[number])
        if not value:
            continue
        one = {
            1: lambda l: top_n_sigma(value, l),
            2: lambda l: transformers(hf.TopKLogitsWarper(value), l),
            3: lambda l: transformers(hf.TypicalLogitsWarper(value), l),
            4: lambda l: transformers(hf.TopPLogitsWarper(value), l),
            5: lambda l: transformers(hf.MinPLogitsWarper(value), l),
            6: lambda l: xtc(p["xtc_threshold"], l),
            7: lambda l: temperature(p, l),
        }[number]
        if number == 6:
            both = [(share * (1 - value), l) for share, l in both] + [(share * value, one(l)) for share, l in both]
        else:
            both = [(share, one(l)) for share, l in both]
    if tau := p.get("mirostat_tau"):
        both = [(share, mirostat(tau, l)) for share, l in both]
    return sum(share * softmax(l) for share, l in both)


def single(value):
    return float(np.float32(value))


def cases():
    rng = Random(33)
    new = lambda: [round(rng.gauss(0, 2) * 1024) / 1024 for _ in range(N)]
    tokens = lambda n, kinds: [rng.randrange(kinds) for _ in range(n)]
    order = lambda: rng.sample(DEFAULT_ORDER, 7)
    first = [7, 1, 2, 3, 4, 5, 6]
    for value in [0.05, 0.2, 0.5, 0.9, 0.99]:
        yield {"typical_p": value}, [], new()
        yield {"typical_p": value, "temperature": 1.7, "order": first}, [], new()
        yield {"typical_p": value, "temperature": 0.6}, [], new()
    for value in [0.3, 1.0, 1.5, 2.5]:
        yield {"top_n_sigma": value}, [], new()
        yield {"top_n_sigma": value, "top_k": 9, "temperature": 2.0, "order": [2, 1, 7]}, [], new()
        yield {"top_n_sigma": value, "temperature": 3.0, "order": first}, [], new()
    for chance in [1.0, 0.3]:
        for threshold in [0.0, 0.04, 0.2, 0.5, 0.9]:
            yield {"xtc_probability": chance, "xtc_threshold": threshold}, [], new()
        yield {"xtc_probability": chance, "temperature": 1.5, "min_p": 0.1, "order": [7, 6, 5]}, [], new()
    for spread, exponent in [(0.5, 0.0), (0.5, 2.0), (1.0, 0.5), (1.5, 1.0)]:
        yield {"temperature_range": spread, "temperature_exponent": exponent}, [], new()
        yield {"temperature": 1.3, "temperature_range": spread, "temperature_exponent": exponent, "top_k": 7}, [], new()
        yield {"temperature_range": spread, "top_p": 0.8, "order": [7, 4]}, [], new()
    for tau in [0.3, 1.0, 1.5, 3.0]:
        yield {"mirostat_tau": tau, "mirostat_eta": 1e-30}, [], new()
        yield {"mirostat_tau": tau, "mirostat_eta": 1e-30, "temperature": 1.4, "top_k": 12}, [], new()
    for size in [1, 2, 3, 5]:
        for length in [0, 3, 12, 60]:
            yield {"no_repeat_ngram_size": size}, tokens(length, 4 if size > 1 else 20), new()
    yield {"banned_sequences": [[3], [5, 6], [1, 2, 3, 4], [5, 5, 7]]}, [9, 9, 5], new()
    yield {"banned_sequences": [[3], [5, 6], [1, 2, 3, 4], [5, 5, 7]]}, [1, 2, 3], new()
    yield {"banned_sequences": [[3], [5, 6], [1, 2, 3, 4], [5, 5, 7]]}, [], new()
    yield {"dry_multiplier": 0.8}, [1, 2, 3, 4, 9, 1, 2, 3], new()
    yield {"dry_multiplier": 0.8}, [1, 2, 3, 4, 9, 1, 2, 3, 5, 9, 1, 2, 3], new()
    yield {"dry_multiplier": 0.8, "dry_breakers": [[4]]}, [1, 2, 3, 4, 9, 1, 2, 3], new()
    yield {"dry_multiplier": 0.8, "dry_breakers": [[1, 2]], "dry_allowed_length": 1}, [1, 2, 3, 4, 9, 1, 2, 3], new()
    for _ in range(30):
        p = {"dry_multiplier": rng.choice([0.2, 0.8, 1.5]), "dry_base": rng.choice([0.0, 1.0, 1.2, 2.0])}
        p["dry_allowed_length"] = rng.choice([0, 1, 2, 3])
        p["dry_window"] = rng.choice([0, 0, 7, 15])
        p["dry_breakers"] = [tokens(n, 3) for n in rng.choice([[], [1], [2], [1, 2], [3, 3]])]
        yield p, tokens(rng.randrange(40), 3), new()
    for _ in range(60):
        p = {"temperature": rng.choice([0.5, 1.0, 1.6]), "order": order() if rng.random() < 0.7 else []}
        values = {
            "top_k": [3, 8, 15], "top_p": [0.6, 0.9, 0.97], "min_p": [0.02, 0.1], "typical_p": [0.4, 0.8, 0.95],
            "top_n_sigma": [1.0, 2.0], "xtc_probability": [0.5, 1.0], "temperature_range": [0.4],
            "no_repeat_ngram_size": [2, 3], "dry_multiplier": [0.8],
        }
        for name in rng.sample(sorted(values), 4):
            p[name] = rng.choice(values[name])
        yield p, tokens(30, 5), new()


def main():
    lines = []
    for p, history, logits in cases():
        p.setdefault("temperature", 1.0)
        exact = {name: single(value) if isinstance(value, float) else value for name, value in p.items() if value != []}
        expected = probabilities(exact, history, np.array(logits, dtype=np.float64))
        values = {"params": p, "history": history, "logits": logits, "probabilities": [float(f"{x:.9g}") for x in expected]}
        lines.append(json.dumps(values))
    Path(__file__).with_name("sampling.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


main()
