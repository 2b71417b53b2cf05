"""Writes quant_vectors.bin: blocks of every type with the values that the gguf package reads from them, and rows of
values with the blocks that it makes of them. Of the types that the package lacks, Q1_0 and Q2_0 of ggml and two of a
fork, values are computed here by their definition. Usage: pip install numpy gguf; python make_quant_vectors.py

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
    T.IQ4_XS: [0], T.IQ1_M: [54], T.TQ1_0: [52], T.TQ2_0: [64], T.MXFP4: [], T.NVFP4: [],
    41: [0], 42: [0], 142: [0], 143: [26],
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


def half(bytes_):
    return np.ascontiguousarray(bytes_).view("<f2").astype("<f4")


def bits_of(x):  # 41: d, then a bit a value: d or -d
    return np.where(np.unpackbits(x[:, 2:], axis=1, bitorder="little"), np.float32(1), np.float32(-1)) * half(x[:, :2])


def pairs_of(x):  # 42, 142: d, then two bits a value: (q - 1) d
    q = x[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8) & 3
    return (q.reshape(len(x), -1).astype(np.float32) - 1) * half(x[:, :2])


def trits_of(x):  # 143: trit 0 of the bytes of a run, then trit 1, ...: runs of 16, 8 and 2 bytes; then d
    runs = []
    for run, digits in (x[:, :16], 5), (x[:, 16:24], 5), (x[:, 24:26], 4):
        for n in range(digits):
            fraction = run.astype(np.uint32) * 3 ** n & 255
            runs.append((fraction * 3 >> 8).astype(np.float32) - 1)
    return np.concatenate(runs, 1) * half(x[:, 26:])


# Types that the package lacks: values and bytes of a block, reader.
OTHERS = {41: (128, 18, bits_of), 42: (64, 18, pairs_of), 142: (128, 34, pairs_of), 143: (128, 28, trits_of)}


def read(blocks, t):
    with np.errstate(all="ignore"):
        values = OTHERS[t][2](blocks) if t in OTHERS else dequantize(blocks, t)
        return values.astype("<f4")


def set_scale(block, t, bits):
    if t == T.MXFP4:
        block[0] = {0xB800: 120, 0x7BFF: 255, 0x0203: 1, 0x0000: 0}[bits]
    elif t == T.NVFP4:
        block[:4] = {0xB800: 0x39, 0x7BFF: 0x7E, 0x0203: 0x03, 0x0000: 0x7F}[bits]
    elif t == T.IQ1_M:
        for i in range(4):
            block[49 + 2 * i] = block[49 + 2 * i] & 0x0F | (bits >> 4 * i & 15) << 4
    else:
        for o in SCALES[t]:
            block[o:o + 2] = bits & 255, bits >> 8


out = bytearray(struct.pack("<I", len(SCALES)))
for t, offsets in SCALES.items():
    length, size = OTHERS[t][:2] if t in OTHERS else GGML_QUANT_SIZES[t]
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
