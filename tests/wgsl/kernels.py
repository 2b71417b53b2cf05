"""The kernels of the wgpu backend, with the fragments that src/wgpu/kernels.rs concatenates.

The fragments are read from the calls in src/wgpu/lower. Only the values of constants are listed here.
"""
import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

ROOT = Path(__file__).resolve().parent.parent.parent
WGSL = ROOT / "kernels/wgsl"

CACHE_TYPES = {"f32": 0, "f16": 1, "q4": 4, "q8": 8}


def attend(key: int, value: int, keys: str, values: str) -> Dict[str, int]:
    """The constants that src/wgpu/lower/attention.rs computes for widths and cache types."""
    rows = 4 if max(key, value) > 256 else 8
    lanes = 128 if rows == 4 else 32 if value <= 64 else 64 if value <= 128 else 128
    return {"KEY": key, "VALUE": value, "ROWS": rows, "LANES": lanes, "K_TYPE": CACHE_TYPES[keys], "V_TYPE": CACHE_TYPES[values]}


# Values of the constants of each kernel that has some. Attention: each cache type; common head widths, the widest ones,
# and the width of a latent cache.
CONSTANTS: Dict[str, Dict[str, Dict[str, int]]] = {
    "gemv": {"1": {"T": 1}, "4": {"T": 4}},
    "gemv_float": {"1": {"T": 1}, "4": {"T": 4}},
    "store": {name: {"TYPE": code} for name, code in CACHE_TYPES.items()},
    "attend": {f"{k}_{v}_{a}_{b}": attend(k, v, a, b) for k, v, a, b in [
        (64, 64, "f32", "f32"), (64, 64, "f16", "f16"), (64, 64, "q8", "q8"), (64, 64, "q4", "q4"), (80, 80, "f16", "f16"),
        (128, 128, "f16", "f16"), (128, 128, "q8", "q4"), (192, 128, "f16", "f16"), (256, 256, "f16", "f16"),
        (576, 512, "f16", "f16"), (768, 768, "f16", "f16")]},
    "conv": {"4": {"TAPS": 4}},
    "delta": {"128": {"KEY": 128}},
    "scan": {"16": {"STATE": 16}, "128": {"STATE": 128}, "256": {"STATE": 256}},
    "wkv": {"64": {"DIM": 64}},
}


class Kernel(NamedTuple):
    name: str
    source: str


def names(pattern: str, text: str) -> List[Tuple[str, ...]]:
    found = re.findall(pattern, text)
    if not found:
        raise SystemExit(f"src/wgpu has nothing like {pattern}, by which {Path(__file__).name} finds kernels")
    return found


def fragments() -> Dict[str, Dict[str, List[str]]]:
    """The fragments of each kernel, per weight type ("" for none)."""
    text = "".join(path.read_text() for path in sorted((ROOT / "src/wgpu/lower").glob("*.rs")))
    own = (ROOT / "src/wgpu/kernels.rs").read_text()
    words = lambda text: re.findall(r'"(\w+)"', text)
    plain = words(names(r"let fragments = \[&\[(.*?)\], fragments, &\[name\]\]", own)[0])
    of_cache = words(names(r"let fragments = vec!\[(.*?), name\]", own)[0])
    types = names(r'quant::\w+ => \("(\w+)", (true|false)\)', text)
    found: Dict[str, Dict[str, List[str]]] = {}
    for name, before in names(r'Kernel::new\("(\w+)", &\[(.*?)\]\)', text):
        found[name] = {"": plain + words(before) + [name]}
    for name in names(r'Kernel::of_cache\("(\w+)"', text):
        found[name] = {"": of_cache + [name]}
    heads = "project_heads"
    for of_blocks, of_floats in names(rf'"(\w+)", "(\w+_float|{heads})"', text):
        for reader, has_blocks in types:
            name = of_blocks if has_blocks == "true" else of_floats
            before = ["blocks", "dot"] if has_blocks == "true" else ["floats"]
            if name in (heads, "embed", "embed_float"):
                before = [f for f in before if f not in ("dot", "floats")]
            before.append(reader)
            if reader in ("q4_k", "q5_k"):
                before.append("scales_of_k")
            if name == heads:
                before.append("columns_of_blocks" if has_blocks == "true" else "columns_of_floats")
            found.setdefault(name, {})[reader] = plain + before + [name]
    return found


def all_kernels(replaced: Dict[str, str] = {}) -> List[Kernel]:
    """All kernels; `replaced` has other texts for some fragments."""
    texts = {path.stem: path.read_text() for path in WGSL.glob("*.wgsl")}
    texts.update(replaced)
    found, used = [], set()
    for name, by_type in sorted(fragments().items()):
        for reader, parts in by_type.items():
            used.update(parts)
            for suffix, constants in CONSTANTS.get(name, {"": {}}).items():
                source = "".join(f"const {constant}: u32 = {value}u;\n" for constant, value in constants.items())
                source += "".join(texts[part] for part in parts)
                found.append(Kernel("_".join(word for word in (name, reader, suffix) if word), source))
    unused = sorted(set(texts) - used)
    if unused:
        raise SystemExit(f"kernels/wgsl/{unused[0]}.wgsl is in no kernel that {Path(__file__).name} finds in src/wgpu")
    return found
