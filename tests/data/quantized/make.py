#!/usr/bin/env python3
"""Makes `folders.json`: a matrix or two in each format of quantized folders, and the values that they are.

    make.py WRITERS FORMS

WRITERS is a module with `FORMATS` (writers of such folders), `read_folder` (their values in float64) and `write_st`,
each checked against the code of the format's owner. FORMS are names of FORMATS, or "all".
"""
import base64
import importlib.util
import json
import os
import sys
import tempfile

import numpy as np


def fnv1a(values):
    hash = 0xCBF29CE484222325
    for byte in values.astype("<f4").tobytes():
        hash = (hash ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{hash:016x}"


def plain(writers, folder):
    """A matrix whose width is no multiple of 128, and one of two experts."""
    random = np.random.default_rng(7)

    def matrix(rows, cols):
        return writers.bf16(random.standard_normal((rows, cols)) * 0.1 * np.exp(random.standard_normal((rows, 1))))

    tensors = {
        "model.layers.0.self_attn.q_proj.weight": matrix(8, 192),
        "model.layers.1.mlp.experts.0.down_proj.weight": matrix(8, 64),
        "model.layers.1.mlp.experts.1.down_proj.weight": matrix(8, 64),
    }
    os.makedirs(folder)
    writers.write_st(os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})
    config = {"model_type": "qwen3_moe", "tie_word_embeddings": True, "mlp_only_layers": [0], "decoder_sparse_step": 1}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def main(path, names):
    spec = importlib.util.spec_from_file_location("writers", path)
    writers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writers)
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        source = os.path.join(temporary, "plain")
        plain(writers, source)
        for name in writers.FORMATS if names == ["all"] else names:
            folder = os.path.join(temporary, name)
            try:
                writers.write_folder(source, folder, name)
            except (ValueError, KeyError) as error:
                print(f"{name}: {error}")
                continue
            values = {}
            for tensor, exact in writers.read_folder(folder).items():
                flat = np.asarray(exact, np.float64).astype(np.float32).reshape(-1)
                values[tensor] = {"shape": list(np.shape(exact)), "hash": fnv1a(flat),
                                  "samples": [float(x) for x in flat[:: len(flat) // 16]]}  # fmt: skip
            files = {}
            for file in sorted(os.listdir(folder)):
                with open(os.path.join(folder, file), "rb") as bytes:
                    files[file] = base64.b64encode(bytes.read()).decode()
            found[name] = {"files": files, "values": values}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "folders.json"), "w") as file:
        json.dump(found, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
