#!/usr/bin/env python3
"""Writes the GGUF file of a small encoder for the tests of bindings:  tests/encoder.py vision/llava FILE
Or the folder of a model that reads videos, with its encoder:  tests/encoder.py videos/qwen25 FOLDER

Keys, names and shapes are those of tests/data/vision/llava.json; the weights are waves.
"""
import json
import math
import os
import struct
import sys

BOOL, STRING, LIST, UINT32, FLOAT32 = 7, 8, 9, 4, 6
FLOATS = ("epsilon", "image_mean", "image_std")


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(name, x):
    """The type of a value, and its bytes."""
    if isinstance(x, bool):
        return BOOL, struct.pack("<?", x)
    if isinstance(x, str):
        return STRING, text(x)
    if isinstance(x, list):
        kinds, parts = zip(*(value(name, one) for one in x))
        return LIST, struct.pack("<IQ", kinds[0], len(x)) + b"".join(parts)
    if any(part in name for part in FLOATS):
        return FLOAT32, struct.pack("<f", x)
    return UINT32, struct.pack("<I", x)


def waves(i, shape):
    n = math.prod(shape)
    return struct.pack(f"<{n}f", *(math.sin(7 * i + j * j % 1009) / 4 for j in range(n)))


def gguf(family):
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(family["gguf"]), len(family["keys"]))
    for name, x in sorted(family["keys"].items()):
        kind, data = value(name, x)
        head += text(name) + struct.pack("<I", kind) + data
    weights = b""
    for i, (name, _, _, shape) in enumerate(family["gguf"]):
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", 0, len(weights))
        weights += waves(i, shape)
        weights += bytes(-len(weights) % 32)
    return head + bytes(-len(head) % 32) + weights


def safetensors(family):
    shapes = [(row[0], row[-1]) for row in family["folder"] + family["text"]]
    head, weights = {}, b""
    for i, (name, shape) in enumerate(shapes):
        begin = len(weights)
        weights += waves(i, shape)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(weights)]}
    head = json.dumps(head).encode()
    return struct.pack("<Q", len(head)) + head + weights


def read(name):
    data = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", name + ".json")
    with open(data, encoding="utf-8") as f:
        return json.load(f)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


if __name__ == "__main__":
    kind, name = sys.argv[1].split("/")
    if kind == "videos":
        family, videos = read("vision/" + name), read("vision/videos")
        os.makedirs(sys.argv[2], exist_ok=True)
        files = {"config": family["config"], "preprocessor_config": family["pixels"], "tokenizer": videos["tokenizer"],
                 "video_preprocessor_config": videos[name]["video"]}
        for file, data in files.items():
            write(os.path.join(sys.argv[2], file + ".json"), json.dumps(data).encode())
        write(os.path.join(sys.argv[2], "model.safetensors"), safetensors(family))
    else:
        write(sys.argv[2], gguf(read(sys.argv[1])))
