"""Compiles Metal texts of kernels as C++, and runs launches of them with checked memory."""
import ctypes
import re
import struct
import subprocess
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Sequence, Tuple

HERE = Path(__file__).resolve().parent
NONE = 0xFFFFFFFF
# A NaN that no kernel computes: the contents of the gaps between the areas of a buffer.
POISON = 0x7FC0DEAD
GAP = 64
ORDERS = ("forward", "backward", "shuffled")

# Slots of the Metal text: immediates, then the buffers.
BUFFERS = ("weights", "vectors", "inputs", "scratch", "cache")


def adapt(text: str) -> str:
    """Changes Metal text to C++: arrays check their indices, and swizzles are functions."""
    text = re.sub(r"^typedef (.*) (\w+)\[1\];$", r"typedef runtime_array<\1> \2;", text, flags=re.M)
    text = re.sub(r"^    (.*) inner\[(\d+)\];$", r"    array<\1, \2> inner;", text, flags=re.M)
    return re.sub(r"(?<=[\w)\]])\.([xyzw]{2,4})\b", r".\1()", text)


def caller(name: str, text: str) -> str:
    """Returns the namespace of a kernel, with a function that runs one threadgroup."""
    entry = r"\[\[max_total_threads_per_threadgroup\((\d+)\)\]\] kernel void main_\((.*?)\n\) \{"
    threads, arguments = re.search(entry, text, re.S).groups()
    # Without the attributes, whose places were read.
    lines, passed = [], []
    for argument in arguments.strip().split("\n"):
        declared = re.match(r"(?:, )?(.*?)(?: \[\[(\w+)(?:\((\w+)\))?\]\])?$", argument.strip())
        kind, variable = re.match(r"(.*)\b(\w+)$", declared[1]).groups()
        if declared[2] == "thread_index_in_threadgroup":
            passed.append("l")
        elif declared[2] == "threadgroup_position_in_grid":
            passed.append("wg")
        elif declared[2] == "thread_position_in_grid":
            passed.append(f"metal::uint3(wg.x * {threads} + l, wg.y, wg.z)")
        elif declared[2] == "buffer" and variable == "_buffer_sizes":
            lines.append("_mslBufferSizes sizes{};")
            passed.append("sizes")
        elif declared[2] == "buffer" and declared[3] == "0":
            of = kind.replace("constant", "").replace("&", "").strip()
            lines.append(f"{of} words; std::memcpy((void*)&words, from.words, sizeof words);")
            passed.append("words")
        elif declared[2] == "buffer":
            of = re.search(r"\w*type_\d+", kind)[0]
            lines.append(f"{of} {variable}_ = bind<{of}>(from, {int(declared[3]) - 1});")
            passed.append(f"{variable}_")
        elif kind.startswith("threadgroup"):
            of = kind.replace("threadgroup", "").replace("&", "").strip()
            lines.append(f"static {of} {variable}_; std::memset((void*)&{variable}_, 0xff, sizeof {variable}_);")
            passed.append(f"{variable}_")
        else:
            raise SystemExit(f"{name}: an argument of another kind: {argument}")
    body = " ".join(lines)
    return f"""namespace {name} {{
#include "{name}.h"
static void group(const Buffers& from, metal::uint3 wg) {{ {body}
    run_group({threads}, [&](uint l) {{ main_({", ".join(passed)}); }}); }}
static const bool is_added = (kernels["{name}"] = {{{threads}, group}}, true);
}}
"""


def compiled(folder: Path, names: Sequence[str], parts: int) -> Path:
    """Compiles NAME.metal of a folder in `parts` files at the same time; returns the library."""
    for name in names:
        (folder / f"{name}.h").write_text(adapt((folder / f"{name}.metal").read_text()))
    folders = [f"-I{path}" for path in (HERE / "metal", folder, HERE)]
    flags = ["g++", "-std=c++20", "-O1", "-w", "-fPIC", "-fsingle-precision-constant", "-ffp-contract=off", *folders]

    def part(i: int) -> Path:
        source = folder / f"part{i}.cpp"
        own = [name for name in names[i::parts]]
        callers = "".join(caller(name, (folder / f"{name}.metal").read_text()) for name in own)
        source.write_text('#include "groups.h"\n' + ("#include \"run.h\"\n" if i == 0 else "") + callers)
        subprocess.run([*flags, "-c", "-o", source.with_suffix(".o"), source], check=True)
        return source.with_suffix(".o")

    with ThreadPoolExecutor(parts) as pool:
        objects = list(pool.map(part, range(parts)))
    library = folder / "twin.so"
    subprocess.run(["g++", "-shared", "-o", library, *objects], check=True)
    return library


class Area(NamedTuple):
    """Words of a buffer."""
    at: int
    n: int


class Memory:
    """The five buffers of a launch. Gaps of poison lie between areas of vectors, inputs, scratch and cache."""

    def __init__(self) -> None:
        self.words: Dict[str, array] = {name: array("I") for name in BUFFERS}

    def add(self, buffer: str, values: Iterable, align: int = 4) -> Area:
        """Adds floats, ints or bytes."""
        if isinstance(values, (bytes, bytearray)):
            new = array("I", bytes(values) + bytes(-len(values) % 4))
        else:
            values = list(values)
            is_float = bool(values) and isinstance(values[0], float)
            new = array("I", struct.pack(f"<{len(values)}{'f' if is_float else 'I'}", *values))
        words = self.words[buffer]
        if words and buffer != "weights":
            words.extend([POISON] * GAP)
        words.extend([POISON] * (-len(words) % align))
        words.extend(new)
        return Area(len(words) - len(new), len(new))

    def room(self, buffer: str, n: int, align: int = 4) -> Area:
        return self.add(buffer, [POISON] * n, align)


def floats(words: array) -> List[float]:
    return list(struct.unpack(f"<{len(words)}f", words.tobytes()))


class Wrong(Exception):
    """A wrong result of a kernel, or a fault."""


class Twin:
    def __init__(self, library: Path) -> None:
        self.run = ctypes.CDLL(str(library)).run
        self.run.restype = ctypes.c_char_p
        # Names of kernels with a planted fault, by the names of the kernels that they replace.
        self.instead: Dict[str, str] = {}

    def launch(
        self,
        kernel: str,
        words: Sequence,
        grid: Tuple[int, int, int],
        memory: Memory,
        outs: Dict[str, Sequence[Area]],
        order: int,
    ) -> None:
        """Runs a kernel; `outs` are the areas that it may write, by buffer."""
        name = self.instead.get(kernel, kernel)
        packed = b"".join(struct.pack("<f", w) if isinstance(w, float) else struct.pack("<I", int(w)) for w in words)
        if len(packed) > 128:
            raise Wrong(f"{kernel}: {len(packed)} bytes of immediates")
        # Bindings of these have whole vectors of four words; the others are as long as their contents.
        for buffer in ("weights", "scratch", "cache"):
            memory.words[buffer].extend([POISON] * (-len(memory.words[buffer]) % 4))
        before = {buffer: memory.words[buffer][:] for buffer in BUFFERS}
        at, sizes = (ctypes.c_void_p * 5)(), (ctypes.c_uint64 * 5)()
        for i, buffer in enumerate(BUFFERS):
            address, n = memory.words[buffer].buffer_info()
            at[i], sizes[i] = address, 4 * n
        error = self.run(name.encode(), (ctypes.c_uint32 * 3)(*grid), packed + bytes(128), at, sizes, order)
        if error:
            raise Wrong(error.decode())
        for buffer in BUFFERS:
            now, was = memory.words[buffer], before[buffer]
            for area in outs.get(buffer, ()):
                was[area.at : area.at + area.n] = now[area.at : area.at + area.n]
            if now != was:
                at = next(i for i in range(len(now)) if now[i] != was[i])
                raise Wrong(f"{kernel}: writes word {at} of {buffer}, which is not part of its results")


def compare(what: str, found: Sequence[float], expected: Sequence[float], limits: Sequence[float]) -> float:
    """The largest error as a part of its limit."""
    if len(found) != len(expected) or len(expected) != len(limits):
        raise Wrong(f"{what}: {len(found)} values; {len(expected)} were expected")
    worst = 0.0
    for i, (own, right, limit) in enumerate(zip(found, expected, limits)):
        error = abs(own - right) / limit if limit else float(own != right) * 2
        if not error <= 1:
            raise Wrong(f"{what}: value {i} is {own:.7g}; it must be {right:.7g}")
        worst = max(worst, error)
    return worst
