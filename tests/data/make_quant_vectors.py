"""Writes quant_vectors.bin: blocks of every type with the values that the gguf package reads from them, and rows of
values with the blocks that it makes of them. Usage: pip install numpy gguf; python make_quant_vectors.py

All numbers little-endian. First u32 number of types, then for each type
    u32 dtype, block length L, block bytes B, number of blocks N; N * B bytes; N * L f32
    u32 number of offsets; u32 offsets of the bytes of a block that are masked with 0xBF (the upper bytes of f16
    scales, so that they are finite); u64 hash of the values of HASHED blocks drawn from `random_bytes(dtype)`
then u32 number of rows R; R * 32 f32; u32 number of types; for each u32 dtype, u32 bytes, the R rows encoded.
"""

import struct
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

HASHED = 128

# Offsets of f16 scales in a block.
SCALES = {
    T.F32: [2], T.F16: [0], T.BF16: [0],
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ3_XXS: [0], T.IQ1_S: [0], T.IQ4_NL: [0], T.IQ3_S: [0], T.IQ2_S: [0],
    T.IQ4_XS: [0], T.IQ1_M: [54], T.TQ1_0: [52], T.TQ2_0: [64], T.MXFP4: [],
}
# Negative, largest, subnormal and zero.
EDGES = [0xB800, 0x7BFF, 0x0203, 0x0000]


def random_bytes(seed, n):
    """SplitMix64 from state `seed`, its outputs as bytes."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, n // 8 + 2, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).astype("<u8").view(np.uint8)[:n].copy()


def fnv1a(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def read(blocks, t):
    with np.errstate(all="ignore"):
        return dequantize(blocks, t).astype("<f4")


def set_scale(block, t, bits):
    if t == T.MXFP4:
        block[0] = {0xB800: 120, 0x7BFF: 255, 0x0203: 1, 0x0000: 0}[bits]
    elif t == T.IQ1_M:
        for i in range(4):
            block[49 + 2 * i] = block[49 + 2 * i] & 0x0F | (bits >> 4 * i & 15) << 4
    else:
        for o in SCALES[t]:
            block[o:o + 2] = bits & 255, bits >> 8


out = bytearray(struct.pack("<I", len(SCALES)))
for t, offsets in SCALES.items():
    length, size = GGML_QUANT_SIZES[t]
    blocks = random_bytes(1000 + t, len(EDGES) * size).reshape(-1, size)
    for block, bits in zip(blocks, EDGES):
        set_scale(block, t, bits)
    out += struct.pack("<4I", t, length, size, len(blocks)) + blocks.tobytes() + read(blocks, t).tobytes()
    masked = [o + 1 for o in offsets]
    blocks = random_bytes(t, HASHED * size).reshape(-1, size)
    blocks[:, masked] &= 0xBF
    out += struct.pack(f"<I{len(masked)}IQ", len(masked), *masked, fnv1a(read(blocks, t).tobytes()))

rng = np.random.default_rng(1)
rows = rng.standard_normal((48, 32)) * 10.0 ** rng.integers(-4, 4, (48, 1))
rows[0] = 0
rows[1] = 0.37
rows[2] = -1.5
rows[3] = np.abs(rows[3])
rows[4] = -np.abs(rows[4])
rows[5, 7] *= 1e4
rows[6, 4:8] = np.max(np.abs(rows[6])) * np.array([2, -2, 2, -2])
rows[7] = np.arange(32)
rows[8] = np.arange(32) - 15.5
rows[9, 1:] = 0
rows[10] = rng.standard_normal(32) * 3e4
rows = rows.astype("<f4")
out += struct.pack("<I", len(rows)) + rows.tobytes()
encoded = [T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]
out += struct.pack("<I", len(encoded))
for t in encoded:
    b = quantize(rows, t).tobytes()
    out += struct.pack("<2I", t, len(b)) + b
Path(__file__).with_name("quant_vectors.bin").write_bytes(out)
