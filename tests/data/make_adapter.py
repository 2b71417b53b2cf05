#!/usr/bin/env python3
"""Writes story-adapter.gguf: a low-rank adapter of stories260K with small whole numbers, divided by 16, as factors."""
import pathlib, struct

SHAPES = {"blk.0.attn_q": (64, 64), "blk.2.ffn_down": (64, 172), "blk.4.attn_output": (64, 64), "output": (512, 64)}
RANK = 2


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def key(name, value):
    kind = struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<If", 6, value)
    return text(name) + kind


state = 1


def values(n):
    global state
    out = []
    for _ in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        out.append((state >> 16) % 7 - 3)
    return struct.pack(f"<{n}f", *(v / 16 for v in out))


keys = [key("general.type", "adapter"), key("general.architecture", "llama"), key("adapter.type", "lora"),
        key("adapter.lora.alpha", 3.0)]
infos, data = b"", b""
for name, (rows, cols) in SHAPES.items():
    for ending, dims in (("a", (RANK, cols)), ("b", (rows, RANK))):
        infos += text(f"{name}.weight.lora_{ending}") + struct.pack("<IQQIQ", 2, dims[1], dims[0], 0, len(data))
        data += values(dims[0] * dims[1])
        data += bytes(-len(data) % 32)
head = b"GGUF" + struct.pack("<IQQ", 3, 2 * len(SHAPES), len(keys)) + b"".join(keys) + infos
path = pathlib.Path(__file__).parent / "story-adapter.gguf"
path.write_bytes(head + bytes(-len(head) % 32) + data)
