#!/usr/bin/env python3
"""Measures how long encoders of sound take for 30 seconds of it, on random weights in published shapes.

    make edit && mkdir -p build/hear && cp -r bindings/python/realizar build/hear
    cp build/edit/librealizar.so.1 build/hear/realizar/librealizar.so
    PYTHONPATH=build/hear benches/hear.py [SHAPE...] [--type F16] [--threads N] [--runs N]

The projector is Ultravox's, with rows for the tiny model of the tests, which needs no tokens around them and takes next
to no time. Needs numpy; a file of the largest shape has 1.3 GB in F16.
"""
import argparse
import os
import struct
import tempfile

import numpy as np

import realizar

# Width, feed-forward width, layers, heads, bins.
SHAPES = {
    "whisper-tiny": (384, 1536, 4, 6, 80),
    "whisper-base": (512, 2048, 6, 8, 80),
    "qwen2-audio": (1280, 5120, 32, 20, 128),
}
TYPES = {"F32": (0, np.float32), "F16": (1, np.float16)}
PLACES, STACK, INNER, ROWS = 1500, 8, 64, 64


def tensors(shape):
    """Names and shapes, those of matrices with two sides or more."""
    d, ffn, layers, _, bins = shape
    yield from (("a.conv1d.1.weight", (d, bins, 3)), ("a.conv1d.1.bias", (d,)), ("a.conv1d.2.weight", (d, d, 3)), ("a.conv1d.2.bias", (d,)))
    yield from (("a.position_embd.weight", (PLACES, d)), ("a.post_ln.weight", (d,)), ("a.post_ln.bias", (d,)))
    for i in range(layers):
        for part in ("ln1", "ln2"):
            yield from ((f"a.blk.{i}.{part}.weight", (d,)), (f"a.blk.{i}.{part}.bias", (d,)))
        for part, rows, cols in [(f"attn_{part}", d, d) for part in ("q", "k", "v", "out")] + [("ffn_up", ffn, d), ("ffn_down", d, ffn)]:
            yield from ((f"a.blk.{i}.{part}.weight", (rows, cols)), (f"a.blk.{i}.{part}.bias", (rows,)))
    yield from (("mm.a.norm_pre.weight", (STACK * d,)), ("mm.a.mlp.1.weight", (2 * INNER, STACK * d)))
    yield from (("mm.a.norm_mid.weight", (INNER,)), ("mm.a.mlp.2.weight", (ROWS, INNER)))


def write(path, shape, kind):
    d, ffn, layers, heads, bins = shape
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    numbers = {"embedding_length": d, "feed_forward_length": ffn, "block_count": layers, "attention.head_count": heads, "num_mel_bins": bins,
               "projector.stack_factor": STACK}
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("clip"), text("clip.projector_type") + struct.pack("<I", 8) + text("ultravox"),
            text("clip.has_audio_encoder") + struct.pack("<I?", 7, True),
            text("clip.audio.attention.layer_norm_epsilon") + struct.pack("<If", 6, 1e-5)]
    keys += [text(f"clip.audio.{key}") + struct.pack("<II", 4, n) for key, n in numbers.items()]
    listed, at = [], 0
    random = np.random.default_rng(1)
    for name, sides in tensors(shape):
        number, dtype = TYPES["F32" if len(sides) == 1 or "conv" in name or "position" in name else kind]
        listed.append((name, sides, dtype))
        size = int(np.prod(sides)) * dtype().itemsize
        keys.append(text(name) + struct.pack(f"<I{len(sides)}QIQ", len(sides), *reversed(sides), number, at))
        at += size + -size % 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(keys) - len(listed)) + b"".join(keys)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for name, sides, dtype in listed:
            values = random.standard_normal(sides, np.float32) * sides[-1] ** -0.5 if len(sides) > 1 else np.ones(sides, np.float32)
            data = values.astype(dtype).tobytes()
            file.write(data + bytes(-len(data) % 32))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", default=["whisper-tiny", "qwen2-audio"])
    parser.add_argument("--type", choices=TYPES, default="F16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    tiny = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/stories260K-f32.gguf")
    model = realizar.Model(tiny, threads=args.threads)
    sound = np.random.default_rng(2).standard_normal(30 * 16000).astype(np.float32) * 0.1
    for name in args.shapes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mmproj.gguf")
            write(path, SHAPES[name], args.type)
            encoder = realizar.Encoder(model, path)
        times = sorted(encoder.encode_sound(sound, 16000).info.encode_ns / 1e6 for _ in range(args.runs))
        print(f"{name} {args.type}: 30 s of sound in {times[0]:.0f} to {times[-1]:.0f} ms, {len(times)} runs", flush=True)


if __name__ == "__main__":
    main()
