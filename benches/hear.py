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
import tempfile

import numpy as np

import realizar
import synthetic

# Width, feed-forward width, layers, heads, bins.
SHAPES = {
    "whisper-tiny": (384, 1536, 4, 6, 80),
    "whisper-base": (512, 2048, 6, 8, 80),
    "qwen2-audio": (1280, 5120, 32, 20, 128),
}
PLACES, STACK, INNER, ROWS = 1500, 8, 64, 64


def describe(shape, kind):
    width, ffn, layers, heads, bins = shape
    f = synthetic.File("clip", {}, kind)
    for name, value in ((".general.architecture", "clip"), ("projector_type", "ultravox"), ("has_audio_encoder", True),
                        ("audio.embedding_length", width), ("audio.feed_forward_length", ffn), ("audio.block_count", layers),
                        ("audio.attention.head_count", heads), ("audio.attention.layer_norm_epsilon", 1e-5),
                        ("audio.num_mel_bins", bins), ("audio.projector.stack_factor", STACK)):
        f.key(name, value)
    for i, inputs in ((1, bins), (2, width)):
        f.vector(f"a.conv1d.{i}.weight", 3, inputs, width)
        f.vector(f"a.conv1d.{i}.bias", width)
    f.vector("a.position_embd.weight", width, PLACES)
    norms = ["a.post_ln"]
    for p in (f"a.blk.{i}." for i in range(layers)):
        norms += [p + "ln1", p + "ln2"]
        matrices = [(f"attn_{part}", width, width) for part in ("q", "k", "v", "out")]
        for name, rows, cols in matrices + [("ffn_up", ffn, width), ("ffn_down", width, ffn)]:
            f.matrix(p + name, rows, cols)
            f.vector(f"{p}{name}.bias", rows)
    for name in norms:
        f.vector(name + ".weight", width)
        f.vector(name + ".bias", width)
    f.norms("mm.a.", STACK * width, "norm_pre")
    f.norms("mm.a.", INNER, "norm_mid")
    f.matrix("mm.a.mlp.1", 2 * INNER, STACK * width)
    f.matrix("mm.a.mlp.2", ROWS, INNER)
    return f


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", default=["whisper-tiny", "qwen2-audio"])
    parser.add_argument("--type", choices=["F32", "F16"], default="F16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    tiny = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/stories260K-f32.gguf")
    model = realizar.Model(tiny, threads=args.threads)
    sound = np.random.default_rng(2).standard_normal(30 * 16000).astype(np.float32) * 0.1
    for name in args.shapes:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mmproj.gguf")
            synthetic.write(describe(SHAPES[name], args.type), path, 1)
            encoder = realizar.Encoder(model, path)
        times = sorted(encoder.encode_sound(sound, 16000).info.encode_ns / 1e6 for _ in range(args.runs))
        print(f"{name} {args.type}: 30 s of sound in {times[0]:.0f} to {times[-1]:.0f} ms, {len(times)} runs", flush=True)


if __name__ == "__main__":
    main()
