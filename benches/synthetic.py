#!/usr/bin/env python3
"""Writes a GGUF file of random weights in the shapes and tensor types of a well-known model.

Speed does not depend on what weights say, so such a file stands in for a model that no package registry has:

    benches/synthetic.py llama-3.2-1b Q4_K_M model.gguf [--layers N]

A mix named Q4_K_M has Q6_K for the output, and for the values and the last product of the feed-forward block in half of
the layers, else Q4_K; any other name is the type of all matrices. Needs numpy. The same arguments give the same bytes.
"""
import argparse
import struct

import numpy as np

# Type: number in GGUF, weights and bytes of a block, offsets of its 16-bit scales, root mean square of a weight over a scale.
TYPES = {
    "F32": (0, 1, 4, (), 0), "F16": (1, 1, 2, (), 0), "BF16": (30, 1, 2, (), 0),
    "Q4_0": (2, 32, 18, (0,), 4.6), "Q4_1": (3, 32, 20, (0, 2), 8.8), "Q5_0": (6, 32, 22, (0,), 9.2),
    "Q5_1": (7, 32, 24, (0, 2), 18.0), "Q8_0": (8, 32, 34, (0,), 74.0), "Q2_K": (10, 256, 84, (80, 82), 16.0),
    "Q3_K": (11, 256, 110, (108,), 45.0), "Q4_K": (12, 256, 144, (0, 2), 300.0), "Q5_K": (13, 256, 176, (0, 2), 600.0),
    "Q6_K": (14, 256, 210, (208,), 1400.0), "MXFP4": (39, 32, 17, (), 0),
}
# What quantizers write where rows are no whole number of blocks.
FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "Q3_K": "Q4_0", "Q2_K": "Q4_0"}


def dense(layers, hidden, ffn, heads, kv_heads, dim, vocab, tied, base, context, **more):
    return dict(layers=layers, hidden=hidden, ffn=ffn, heads=heads, kv_heads=kv_heads, dim=dim, vocab=vocab, tied=tied,
                base=base, context=context, **more)


MODELS = {
    "smollm2-135m": ("llama", dense(30, 576, 1536, 9, 3, 64, 49152, True, 1e5, 8192)),
    "llama-3.2-1b": ("llama", dense(16, 2048, 8192, 32, 8, 64, 128256, True, 5e5, 131072)),
    "llama-3.2-3b": ("llama", dense(28, 3072, 8192, 24, 8, 128, 128256, True, 5e5, 131072)),
    "llama-3.1-8b": ("llama", dense(32, 4096, 14336, 32, 8, 128, 128256, False, 5e5, 131072)),
    "qwen2.5-0.5b": ("qwen2", dense(24, 896, 4864, 14, 2, 64, 151936, True, 1e6, 32768)),
    "qwen3-0.6b": ("qwen3", dense(28, 1024, 3072, 16, 8, 128, 151936, True, 1e6, 40960)),
    "qwen3-8b": ("qwen3", dense(36, 4096, 12288, 32, 8, 128, 151936, False, 1e6, 40960)),
    "qwen3-30b-a3b": ("qwen3moe", dense(48, 2048, 6144, 32, 4, 128, 151936, False, 1e6, 40960, experts=128, used=8, expert_ffn=768)),
    "qwen3.5-0.8b": ("qwen35", dense(24, 1024, 3584, 8, 2, 256, 248320, True, 1e7, 262144)),
    "lfm2-1.2b": ("lfm2", dense(16, 2048, 8192, 32, 8, 64, 65536, True, 1e6, 128000)),
    "gpt-oss-20b": ("gpt-oss", dense(24, 2880, 2880, 64, 8, 64, 201088, False, 1.5e5, 131072, experts=32, used=4, expert_ffn=2880)),
    "gemma-4-e2b": ("gemma4", dense(35, 1536, 6144, 8, 1, 512, 262144, True, 1e6, 131072)),
}


class File:
    """Keys and tensors of a file, in order. Keys without a dot in front belong to the architecture."""

    def __init__(self, arch, shape, recipe):
        self.arch, self.shape, self.mixed = arch, shape, recipe == "Q4_K_M"
        self.base = "Q4_K" if self.mixed else recipe
        self.better = "Q6_K" if self.mixed else recipe
        self.keys, self.tensors = {}, []

    def key(self, name, value):
        self.keys[name[1:] if name.startswith(".") else f"{self.arch}.{name}"] = value

    def matrix(self, name, rows, cols, kind=None, experts=0):
        kind = kind or self.base
        if cols % TYPES[kind][1]:
            kind = FALLBACK.get(kind, "F16")
        self.tensors.append((name + ".weight", (cols, rows) + ((experts,) if experts else ()), kind))

    def vector(self, name, n, *more):
        self.tensors.append((name, (n,) + more, "F32"))

    def norms(self, prefix, n, *names):
        for name in names:
            self.vector(f"{prefix}{name}.weight", n)

    def up(self, i):
        """The type of what a mix keeps better: first and last eighth of the layers, and each third between them."""
        n = self.shape["layers"]
        return self.better if i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2 else self.base


def attention(f, p, i, dim=None, names=("attn_q", "attn_k", "attn_v", "attn_output"), q_width=None, bias=False):
    s = f.shape
    dim = dim or s["dim"]
    q, kv = s["heads"] * dim, s["kv_heads"] * dim
    for name, rows, cols, kind in ((names[0], q_width or q, s["hidden"], None), (names[1], kv, s["hidden"], None),
                                   (names[2], kv, s["hidden"], f.up(i)), (names[3], s["hidden"], q, None)):
        f.matrix(p + name, rows, cols, kind)
        if bias is True or (bias and name in bias):
            f.vector(p + name + ".bias", rows)


def feed_forward(f, p, i, ffn=None):
    ffn, hidden = ffn or f.shape["ffn"], f.shape["hidden"]
    f.matrix(p + "ffn_gate", ffn, hidden)
    f.matrix(p + "ffn_up", ffn, hidden)
    f.matrix(p + "ffn_down", hidden, ffn, f.up(i))


def experts(f, p, i, kind=None, bias=False):
    s = f.shape
    n, ffn, hidden = s["experts"], s["expert_ffn"], s["hidden"]
    f.vector(p + "ffn_gate_inp.weight", hidden, n)
    if bias:
        f.vector(p + "ffn_gate_inp.bias", n)
    for name, rows, cols, better in (("gate", ffn, hidden, None), ("up", ffn, hidden, None), ("down", hidden, ffn, f.up(i))):
        f.matrix(f"{p}ffn_{name}_exps", rows, cols, kind or better, n)
        if bias:
            f.vector(f"{p}ffn_{name}_exps.bias", rows, n)


def plain_layer(f, p, i):
    s = f.shape
    f.norms(p, s["hidden"], "attn_norm", "ffn_norm")
    attention(f, p, i, bias=("attn_q", "attn_k", "attn_v") if f.arch == "qwen2" else False)
    if f.arch.startswith("qwen3"):
        f.norms(p, s["dim"], "attn_q_norm", "attn_k_norm")
    if "experts" in s:
        experts(f, p, i)
    else:
        feed_forward(f, p, i)


def qwen35_layer(f, p, i):
    s, heads, state = f.shape, 16, 128
    inner = heads * state
    f.norms(p, s["hidden"], "attn_norm", "post_attention_norm")
    if i % 4 == 3:
        attention(f, p, i, q_width=2 * s["heads"] * s["dim"])
        f.norms(p, s["dim"], "attn_q_norm", "attn_k_norm")
    else:
        f.matrix(p + "attn_qkv", 3 * inner, s["hidden"])
        f.matrix(p + "attn_gate", inner, s["hidden"])
        f.vector(p + "ssm_conv1d.weight", 4, 3 * inner)
        f.vector(p + "ssm_dt.bias", heads)
        f.vector(p + "ssm_a", heads)
        f.matrix(p + "ssm_beta", heads, s["hidden"])
        f.matrix(p + "ssm_alpha", heads, s["hidden"])
        f.norms(p, state, "ssm_norm")
        f.matrix(p + "ssm_out", s["hidden"], inner, f.up(i))
    feed_forward(f, p, i)


def lfm2_layer(f, p, i):
    s = f.shape
    f.norms(p, s["hidden"], "attn_norm", "ffn_norm")
    if i in (2, 5, 8, 10, 12, 14):
        attention(f, p, i)
        f.norms(p, s["dim"], "attn_q_norm", "attn_k_norm")
    else:
        f.matrix(p + "shortconv.in_proj", 3 * s["hidden"], s["hidden"])
        f.vector(p + "shortconv.conv.weight", 3, s["hidden"])
        f.matrix(p + "shortconv.out_proj", s["hidden"], s["hidden"])
    feed_forward(f, p, i)


def gpt_oss_layer(f, p, i):
    s = f.shape
    f.norms(p, s["hidden"], "attn_norm", "post_attention_norm")
    attention(f, p, i, bias=True)
    f.vector(p + "attn_sinks.weight", s["heads"])
    experts(f, p, i, kind="MXFP4", bias=True)


def gemma4_layer(f, p, i):
    s, inputs = f.shape, 256
    dim = 512 if i % 5 == 4 else 256
    f.norms(p, s["hidden"], "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm")
    attention(f, p, i, dim=dim)
    f.norms(p, dim, "attn_q_norm", "attn_k_norm")
    feed_forward(f, p, i, ffn=s["ffn"] * (2 if i >= 15 else 1))
    f.matrix(p + "inp_gate", inputs, s["hidden"])
    f.matrix(p + "proj", s["hidden"], inputs)
    f.vector(p + "layer_output_scale.weight", 1)


LAYERS = {"qwen35": qwen35_layer, "lfm2": lfm2_layer, "gpt-oss": gpt_oss_layer, "gemma4": gemma4_layer}


def describe(arch, shape, recipe):
    f = File(arch, shape, recipe)
    s = shape
    for name, value in ((".general.architecture", arch), (".general.quantization_version", 2), ("block_count", s["layers"]),
                        ("context_length", s["context"]), ("embedding_length", s["hidden"]), ("attention.head_count", s["heads"]),
                        ("attention.key_length", s["dim"]), ("attention.value_length", s["dim"]), ("rope.freq_base", float(s["base"])),
                        ("attention.layer_norm_rms_epsilon", 1e-6), ("vocab_size", s["vocab"])):
        f.key(name, value)
    if arch == "lfm2":
        f.key("attention.head_count_kv", [s["kv_heads"] if i in (2, 5, 8, 10, 12, 14) else 0 for i in range(s["layers"])])
        f.key("shortconv.l_cache", 3)
    else:
        f.key("attention.head_count_kv", s["kv_heads"])
    if arch == "gemma4":
        f.key("feed_forward_length", [s["ffn"] * (2 if i >= 15 else 1) for i in range(s["layers"])])
        for name, value in (("attention.sliding_window", 512), ("attention.key_length_swa", 256), ("attention.value_length_swa", 256),
                            ("rope.freq_base_swa", 10000.0), ("rope.dimension_count", 512), ("rope.dimension_count_swa", 256),
                            ("attention.shared_kv_layers", 20), ("embedding_length_per_layer_input", 256),
                            ("final_logit_softcapping", 30.0), ("attention.sliding_window_pattern", [i % 5 != 4 for i in range(s["layers"])])):
            f.key(name, value)
    else:
        f.key("feed_forward_length", s["ffn"])
        f.key("rope.dimension_count", 64 if arch == "qwen35" else s["dim"])
    if arch == "qwen35":
        for name, value in (("rope.dimension_sections", [11, 11, 10, 0]), ("ssm.conv_kernel", 4), ("ssm.inner_size", 2048),
                            ("ssm.state_size", 128), ("ssm.time_step_rank", 16), ("ssm.group_count", 16), ("full_attention_interval", 4)):
            f.key(name, value)
    if "experts" in s:
        for name, value in (("expert_count", s["experts"]), ("expert_used_count", s["used"]), ("expert_feed_forward_length", s["expert_ffn"])):
            f.key(name, value)
    if arch == "gpt-oss":
        f.key("attention.sliding_window", 128)
    tokens = [f"<{i}>" for i in range(s["vocab"])]
    for b in range(256):
        kept = 33 <= b < 127 or 161 <= b < 173 or b >= 174
        # Bytes that cannot be printed are the characters from 256 on, in their order.
        tokens[b] = chr(b if kept else 256 + b - (0 if b < 33 else 94 if b < 161 else 106))
    for name, value in (("model", "gpt2"), ("pre", "smollm"), ("tokens", tokens), ("token_type", [1] * 256 + [3] * (s["vocab"] - 256)),
                        ("merges", ["a b"]), ("bos_token_id", 256), ("eos_token_id", 256), ("add_bos_token", False)):
        f.key(f".tokenizer.ggml.{name}", value)

    f.matrix("token_embd", s["vocab"], s["hidden"], f.better if s["tied"] else f.base)
    if arch == "gemma4":
        f.matrix("per_layer_token_embd", s["vocab"], 256 * s["layers"])
        f.matrix("per_layer_model_proj", 256 * s["layers"], s["hidden"], "BF16")
        f.norms("", 256, "per_layer_proj_norm")
        f.vector("rope_freqs.weight", 256)
    f.norms("", s["hidden"], "token_embd_norm" if arch == "lfm2" else "output_norm")
    if not s["tied"]:
        f.matrix("output", s["vocab"], s["hidden"], f.better)
    for i in range(s["layers"]):
        LAYERS.get(arch, plain_layer)(f, f"blk.{i}.", i)
    return f


def block_bytes(kind, count):
    _, weights, size, _, _ = TYPES[kind]
    return count // weights * size


def random_bytes(rng, name, kind, shape):
    """Weights with a standard deviation of 1/sqrt(columns); norms and divisors of one; decay rates below zero."""
    count = int(np.prod(shape, dtype=np.int64))
    std = np.float32(shape[0] ** -0.5)
    if kind in ("F32", "F16", "BF16"):
        if "norm" in name or name.startswith("rope_freqs") or name.endswith("layer_output_scale.weight"):
            values = np.ones(count, np.float32)
        else:
            values = rng.standard_normal(count, dtype=np.float32) * std
        if name.endswith("ssm_a"):
            values = -np.abs(values) - np.float32(0.1)
        if kind == "BF16":
            return (values.view(np.uint32) >> 16).astype("<u2").tobytes()
        return values.astype({"F32": "<f4", "F16": "<f2"}[kind]).tobytes()
    _, weights, size, scales, spread = TYPES[kind]
    blocks = rng.integers(0, 256, size=(count // weights, size), dtype=np.uint8)
    if kind == "MXFP4":
        blocks[:, 0] = 127 - 8
    for at in scales:
        blocks[:, at:at + 2] = np.frombuffer(np.float16(std / spread).tobytes(), np.uint8)
    return blocks.tobytes()


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value):
    for kind, number, form in ((bool, 7, "<IB"), (int, 4, "<II"), (float, 6, "<If")):
        if type(value) is kind:
            return struct.pack(form, number, value)
    if type(value) is str:
        return struct.pack("<I", 8) + string(value)
    head = {bool: 7, int: 5, str: 8}[type(value[0])]
    form = {bool: "<B", int: "<i"}.get(type(value[0]))
    return struct.pack("<IIQ", 9, head, len(value)) + b"".join(struct.pack(form, v) if form else string(v) for v in value)


def write(f, path, seed):
    head = bytearray(struct.pack("<4sIQQ", b"GGUF", 3, len(f.tensors), len(f.keys)))
    for name, value in f.keys.items():
        head += string(name) + value_bytes(value)
    offset = 0
    for name, shape, kind in f.tensors:
        head += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, TYPES[kind][0], offset)
        offset += -(-block_bytes(kind, int(np.prod(shape, dtype=np.int64))) // 32) * 32
    rng = np.random.default_rng(seed)
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32))
        for name, shape, kind in f.tensors:
            # Experts one after the other, so that memory stays small.
            for _ in range(shape[2] if len(shape) > 2 else 1):
                out.write(random_bytes(rng, name, kind, shape[:2]))
            out.write(b"\0" * (-out.tell() % 32))
        return out.tell()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("recipe", choices=["Q4_K_M", *TYPES])
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, help="the first N layers alone")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    arch, shape = MODELS[args.model]
    f = describe(arch, dict(shape, layers=args.layers or shape["layers"]), args.recipe)
    size = write(f, args.out, args.seed)
    print(f"{args.out}: {args.model} {args.recipe}, {len(f.tensors)} tensors, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
