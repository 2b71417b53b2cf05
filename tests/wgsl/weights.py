"""Matrices of each weight type: blocks, the values that the gguf package has read from the blocks (tests/data), and the
planes that src/gpu/planes.rs makes of the blocks."""
import random
import struct
from typing import Callable, Dict, List, NamedTuple, Tuple

from kernels import ROOT
from twin import Memory

# Type codes of GGUF.
CODES = {"f32": 0, "f16": 1, "bf16": 30, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14}
FLOATS = ("f32", "f16", "bf16")
BLOCKS = tuple(name for name in CODES if name not in FLOATS)


Block = Tuple[bytes, List[float]]

# The first block of a type has scales of -0.5; powers of two change its values exactly.
FACTORS = (1, -1, 1 / 4, -1 / 8, 1 / 32)


class Type(NamedTuple):
    length: int
    # Bytes and values of blocks with scales of a usual size.
    usual: List[Block]
    # With negative, largest, subnormal and zero scales.
    edges: List[Block]


def scaled(block: bytes, values: List[float], scales: Tuple[int, ...], factor: float) -> Block:
    """The block with each scale, whose upper byte is at an offset of `scales`, multiplied by a power of two."""
    made = bytearray(block)
    for at in scales:
        if len(block) > 4:
            made[at - 1 : at + 1] = struct.pack("<e", struct.unpack("<e", block[at - 1 : at + 1])[0] * factor)
    return bytes(made), [v * factor for v in values]


def read_types() -> Dict[str, Type]:
    data = (ROOT / "tests/data/quant_vectors.bin").read_bytes()
    at = 4
    found = {}
    for _ in range(struct.unpack_from("<I", data)[0]):
        code, length, size, n = struct.unpack_from("<4I", data, at)
        at += 16
        blocks = [data[at + size * i : at + size * (i + 1)] for i in range(n)]
        at += size * n
        values = struct.unpack_from(f"<{n * length}f", data, at)
        at += 4 * n * length
        n_scales = struct.unpack_from("<I", data, at)[0]
        scales = struct.unpack_from(f"<{n_scales}I", data, at + 4)
        at += 4 + 4 * n_scales + 8
        read = [(block, list(values[length * i : length * (i + 1)])) for i, block in enumerate(blocks)]
        found[code] = Type(length, [scaled(*read[0], scales, factor) for factor in FACTORS], read)
    return {name: found[code] for name, code in CODES.items()}


def gather(n: int, width: int, bits: Callable[[int], int]) -> bytes:
    """Byte k has the bits of columns 4i + k."""
    return bytes(sum(bits(4 * i + k) << (width * i) for i in range(n // 4)) for k in range(4))


def nibbles(block: bytes) -> bytes:
    out = b""
    for i in range(0, 128, 32):
        q = block[i : i + 32]
        out += bytes(q[j] & 15 | (q[16 + j] & 15) << 4 for j in range(16)) + bytes(q[j] >> 4 | q[16 + j] & 0xF0 for j in range(16))
    return out


def planes(name: str, b: bytes) -> List[bytes]:
    """The planes' parts of a block."""
    fifth = lambda at: gather(32, 1, lambda c: b[at + c // 8] >> c % 8 & 1)
    if name in FLOATS:
        return [b]
    if name in ("q4_0", "q8_0"):
        return [b[2:], b[:2]]
    if name == "q4_1":
        return [b[4:], b[:4]]
    if name == "q5_0":
        return [b[6:], b[:2], fifth(2)]
    if name == "q5_1":
        return [b[8:], b[:4], fifth(4)]
    if name == "q4_k":
        return [nibbles(b[16:]), b[:16]]
    if name == "q5_k":
        return [nibbles(b[48:]), b[:16], b"".join(gather(32, 1, lambda c: b[16 + c] >> n & 1) for n in range(8))]
    low, high = b"", b""
    for half in range(2):
        q, upper = b[64 * half :][:64], b[128 + 32 * half :][:32]
        for n in range(4):
            own = [q[32 * (n % 2) + i] >> 4 * (n // 2) & 15 for i in range(32)]
            low += bytes(own[i] | own[16 + i] << 4 for i in range(16))
            for part in range(2):
                bits = lambda c: upper[16 * part + c] >> 2 * n & 3
                high += gather(16, 2, bits)
    return [low, b[192:208], high, b[208:]]


class Matrix(NamedTuple):
    rows: int
    cols: int
    values: List[List[float]]
    # Offsets in the buffer of weights.
    planes: List[int]


def matrix(types: Dict[str, Type], name: str, rows: int, width: int, memory: Memory, seed: int = 1) -> Matrix:
    """A matrix of random blocks, with columns padded to a multiple of 32, in exactly as much memory as it needs."""
    rng = random.Random(seed)
    of = types[name]
    cols = -(-width // 32) * 32
    values, parts = [], []
    for nth in range(rows):
        row, of_row = [], []
        # Few rows have large blocks, because these would hide errors in other blocks.
        from_blocks = of.edges if nth % 8 == 7 else of.edges[2:] if nth % 8 == 3 else of.usual + of.edges[3:]
        if of.length == 1:
            # Columns beyond the width are zero.
            codes = {"f32": "<f", "f16": "<e", "bf16": "<f"}
            for i in range(cols):
                v = rng.uniform(-1, 1) if i < width else 0.0
                packed = struct.pack(codes[name], v)
                packed = packed[2:] if name == "bf16" else packed
                v = struct.unpack(codes[name], (bytes(2) if name == "bf16" else b"") + packed)[0]
                row.append(v)
                of_row.append([packed])
        else:
            for _ in range(cols // of.length):
                block, v = rng.choice(from_blocks)
                row += v
                of_row.append(planes(name, block))
        values.append(row)
        parts.append([b"".join(part) for part in zip(*of_row)])
    if not memory.words["weights"]:
        memory.room("weights", 64)  # so that the first plane has an offset
    at = []
    for plane in range(len(parts[0])):
        area = memory.add("weights", b"".join(row[plane] for row in parts), align=64)
        at.append(area.at)
    return Matrix(rows, cols, values, at + [0] * (4 - len(at)))
