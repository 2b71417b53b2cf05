#!/usr/bin/env python3
"""Writes a GGUF file of random weights in the shapes and tensor types of a well-known model.

Speed does not depend on what weights say, so such a file stands in for a model that no package registry has:

    benches/synthetic.py llama-3.2-1b Q4_K_M model.gguf [--layers N]

A mix named Q4_K_M has Q6_K for the output, and for the values and the last product of the feed-forward block in half of
the layers, else Q4_K; MLX and AWQ write folders of safetensors of Llama's shapes with codes of 4 bits, in groups of 64
and 128; any other name is the type of all matrices. Needs numpy. The same arguments give the same bytes.
"""
import argparse
import json
import os
import struct

import numpy as np

# Type: number in GGUF, weights and bytes of a block, offsets of its 16-bit scales, root mean square of a weight over a scale.
TYPES = {
    "F32": (0, 1, 4, (), 0), "F16": (1, 1, 2, (), 0), "BF16": (30, 1, 2, (), 0),
    "Q4_0": (2, 32, 18, (0,), 4.6), "Q4_1": (3, 32, 20, (0, 2), 8.8), "Q5_0": (6, 32, 22, (0,), 9.2),
    "Q5_1": (7, 32, 24, (0, 2), 18.0), "Q8_0": (8, 32, 34, (0,), 74.0), "Q2_K": (10, 256, 84, (80, 82), 16.0),
    "Q3_K": (11, 256, 110, (108,), 45.0), "Q4_K": (12, 256, 144, (0, 2), 300.0), "Q5_K": (13, 256, 176, (0, 2), 600.0),
    "Q6_K": (14, 256, 210, (208,), 1400.0), "MXFP4": (39, 32, 17, (), 0),
    "NVFP4": (40, 64, 36, (), 0), "Q1_0": (41, 128, 18, (0,), 1.0),
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
    "rwkv7-1.5b": ("rwkv7", dense(24, 2048, 8192, 0, 0, 64, 65536, False, 1e4, 4096)),
    "gemma-3n-e2b": ("gemma3n", dense(30, 2048, 8192, 8, 2, 256, 262144, True, 1e6, 32768)),
    "glm-5": ("glm-dsa", dense(78, 6144, 12288, 64, 1, 576, 154880, False, 1e6, 202752, experts=256, used=8, expert_ffn=2048)),
    "smolvlm-256m": ("llama", dense(30, 576, 1536, 9, 3, 64, 49280, True, 1e5, 8192, names=[
        "\n\n", "<fake_token_around_image>", "<global-img>", "<image>", *(f"<row_{i}_col_{j}>" for i in range(1, 7) for j in range(1, 7))])),
    "qwen3-vl-2b": ("qwen3vl", dense(28, 2048, 6144, 16, 8, 128, 151936, True, 5e6, 262144, names=[
        "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"])),
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


def rwkv7_layer(f, p, i):
    hidden, ffn = f.shape["hidden"], f.shape["ffn"]
    for name in ("attn_norm", "attn_norm_2", "time_mix_ln"):
        f.vector(f"{p}{name}.weight", hidden)
        f.vector(f"{p}{name}.bias", hidden)
    for name, rank, kind in (("w", 96, "F32"), ("a", 96, "F16"), ("v", 64 if i else 96, "F16"), ("g", 256, "F16")):
        if name != "g":
            f.vector(f"{p}time_mix_{name}0.weight", hidden)
        f.matrix(f"{p}time_mix_{name}1", rank, hidden, kind)
        f.matrix(f"{p}time_mix_{name}2", hidden, rank, kind)
    f.vector(p + "time_mix_lerp_fused.weight", hidden, 1, 1, 6)
    for name in ("time_mix_k_k", "time_mix_k_a", "time_mix_r_k"):
        f.vector(f"{p}{name}.weight", hidden)
    f.vector(p + "channel_mix_lerp_k.weight", hidden, 1, 1)
    for name, rows, cols in (("time_mix_key", hidden, hidden), ("time_mix_value", hidden, hidden),
                             ("time_mix_receptance", hidden, hidden), ("time_mix_output", hidden, hidden),
                             ("channel_mix_key", ffn, hidden), ("channel_mix_value", hidden, ffn)):  # fmt: skip
        f.matrix(p + name, rows, cols)


def gemma3n_layer(f, p, i):
    hidden, dim = f.shape["hidden"], f.shape["dim"]
    f.norms(p, hidden, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm", "laurel_post_norm",
            "altup_router_norm", "altup_correct_scale")
    attention(f, p, i)
    f.norms(p, dim, "attn_q_norm", "attn_k_norm")
    feed_forward(f, p, i)
    for name, rows, cols in (("inp_gate", 256, hidden), ("proj", hidden, 256), ("laurel_l", 64, hidden), ("laurel_r", hidden, 64)):
        f.matrix(p + name, rows, cols)
    for name, rows, cols in (("altup_correct_coef", 4, 4), ("altup_predict_coef", 16, 4), ("altup_router", 4, hidden)):
        f.matrix(p + name, rows, cols, "F32")


def glm_layer(f, p, i):
    s, hidden, heads, narrow, wide = f.shape, f.shape["hidden"], f.shape["heads"], 512, 2048
    f.norms(p, hidden, "attn_norm", "ffn_norm")
    f.norms(p, narrow, "attn_kv_a_norm")
    f.norms(p, wide, "attn_q_a_norm")
    f.matrix(p + "attn_q_a", wide, hidden)
    f.matrix(p + "attn_q_b", heads * 256, wide)
    f.matrix(p + "attn_kv_a_mqa", narrow + 64, hidden)
    f.matrix(p + "attn_k_b", narrow, 192, "Q8_0", heads)
    f.matrix(p + "attn_v_b", 256, narrow, "Q8_0", heads)
    f.matrix(p + "attn_output", hidden, heads * 256)
    f.norms(p, 128, "indexer.k_norm")
    f.vector(p + "indexer.k_norm.bias", 128)
    f.matrix(p + "indexer.proj", 32, hidden)
    f.matrix(p + "indexer.attn_k", 128, hidden)
    f.matrix(p + "indexer.attn_q_b", 32 * 128, wide)
    if i < s["dense_layers"]:
        return feed_forward(f, p, i)
    experts(f, p, i)
    f.vector(p + "exp_probs_b.bias", s["experts"])
    for name, rows, cols in (("gate", s["expert_ffn"], hidden), ("up", s["expert_ffn"], hidden), ("down", hidden, s["expert_ffn"])):
        f.matrix(f"{p}ffn_{name}_shexp", rows, cols)


LAYERS = {"qwen35": qwen35_layer, "lfm2": lfm2_layer, "gpt-oss": gpt_oss_layer, "gemma4": gemma4_layer, "rwkv7": rwkv7_layer,
          "gemma3n": gemma3n_layer, "glm-dsa": glm_layer}


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
    if arch == "rwkv7":
        for name, value in (("attention.layer_norm_epsilon", 1e-5), ("wkv.head_size", 64), ("attention.decay_lora_rank", 96),
                            ("attention.iclr_lora_rank", 96), ("attention.value_residual_mix_lora_rank", 64),
                            ("attention.gate_lora_rank", 256)):
            f.key(name, value)
    if arch == "gemma3n":
        for name, value in (("attention.sliding_window", 512), ("embedding_length_per_layer_input", 256), ("altup.num_inputs", 4),
                            ("rope.freq_base_swa", 10000.0)):
            f.key(name, value)
    if arch == "glm-dsa":
        for name, value in (("attention.key_length_mla", 256), ("attention.value_length_mla", 256), ("attention.kv_lora_rank", 512),
                            ("attention.value_length", 512), ("attention.q_lora_rank", 2048), ("rope.dimension_count", 64),
                            ("attention.indexer.head_count", 32), ("attention.indexer.key_length", 128),
                            ("attention.indexer.top_k", 2048), ("leading_dense_block_count", s["dense_layers"]),
                            ("expert_shared_count", 1), ("expert_gating_func", 2), ("expert_weights_norm", True),
                            ("expert_weights_scale", 2.5)):
            f.key(name, value)
    if arch == "qwen3vl":
        f.key("rope.dimension_sections", [24, 20, 20, 0])
        f.key("n_deepstack_layers", 3)
    tokens = [f"<{i}>" for i in range(s["vocab"])]
    for b in range(256):
        kept = 33 <= b < 127 or 161 <= b < 173 or b >= 174
        # Bytes that cannot be printed are the characters from 256 on, in their order.
        tokens[b] = chr(b if kept else 256 + b - (0 if b < 33 else 94 if b < 161 else 106))
    tokens[257:257 + len(s.get("names", ()))] = s.get("names", ())
    for name, value in (("model", "gpt2"), ("pre", "smollm"), ("tokens", tokens), ("token_type", [1] * 256 + [3] * (s["vocab"] - 256)),
                        ("merges", ["a b"]), ("bos_token_id", 256), ("eos_token_id", 256), ("add_bos_token", False)):
        f.key(f".tokenizer.ggml.{name}", value)

    f.matrix("token_embd", s["vocab"], s["hidden"], f.better if s["tied"] else f.base)
    if arch == "gemma4":
        f.matrix("per_layer_token_embd", s["vocab"], 256 * s["layers"])
        f.matrix("per_layer_model_proj", 256 * s["layers"], s["hidden"], "BF16")
        f.norms("", 256, "per_layer_proj_norm")
        f.vector("rope_freqs.weight", 256)
    if arch == "rwkv7":
        f.vector("token_embd_norm.weight", s["hidden"])
        f.vector("token_embd_norm.bias", s["hidden"])
        f.vector("output_norm.bias", s["hidden"])
    if arch == "gemma3n":
        f.matrix("altup_proj", s["hidden"], s["hidden"], experts=3)
        f.matrix("altup_unembd_proj", s["hidden"], s["hidden"], experts=3)
        f.matrix("per_layer_token_embd", s["vocab"], 256 * s["layers"])
        f.matrix("per_layer_model_proj", 256 * s["layers"], s["hidden"], "BF16")
        f.norms("", 256, "per_layer_proj_norm")
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
    if kind == "NVFP4":
        # A float of 8 bits, 2^-7.
        blocks[:, :4] = 4
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
    head = {bool: 7, int: 5, float: 6, str: 8}[type(value[0])]
    form = {bool: "<B", int: "<i", float: "<f"}.get(type(value[0]))
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
            for _ in range(int(np.prod(shape[2:], dtype=np.int64))):
                out.write(random_bytes(rng, name, kind, shape[:2]))
            out.write(b"\0" * (-out.tell() % 32))
        return out.tell()


def write_folder(shape, kind, path, seed):
    """A folder of Llama as mlx-lm or AutoAWQ write it: all matrices with codes, or all but the embeddings."""
    s, rng, parts, start = shape, np.random.default_rng(seed), {}, 0
    group = 64 if kind == "MLX" else 128
    matrices, norms = [], []
    for i in range(s["layers"]):
        p, kv = f"model.layers.{i}.", s["kv_heads"] * s["dim"]
        for name, rows, cols in (("self_attn.q_proj", s["hidden"], s["hidden"]), ("self_attn.k_proj", kv, s["hidden"]),
                                 ("self_attn.v_proj", kv, s["hidden"]), ("self_attn.o_proj", s["hidden"], s["hidden"]),
                                 ("mlp.gate_proj", s["ffn"], s["hidden"]), ("mlp.up_proj", s["ffn"], s["hidden"]),
                                 ("mlp.down_proj", s["hidden"], s["ffn"])):  # fmt: skip
            matrices.append((p + name, rows, cols))
        norms += [p + "input_layernorm", p + "post_attention_layernorm"]
    tensors = [(name + ".weight", "F16", (s["hidden"],), 1.0) for name in norms + ["model.norm"]]
    if kind == "MLX":
        matrices.append(("model.embed_tokens", s["vocab"], s["hidden"]))
    else:
        tensors.append(("model.embed_tokens.weight", "F16", (s["vocab"], s["hidden"]), None))
    for name, rows, cols in matrices:
        scale = cols**-0.5 / 4.6
        if kind == "MLX":
            tensors += [(name + ".weight", "U32", (rows, cols // 8), None), (name + ".scales", "F16", (rows, cols // group), scale),
                        (name + ".biases", "F16", (rows, cols // group), -7.5 * scale)]
        else:
            tensors += [(name + ".qweight", "I32", (cols, rows // 8), None), (name + ".qzeros", "I32", (cols // group, rows // 8), 0x77777777),
                        (name + ".scales", "F16", (cols // group, rows), scale)]
    for name, dtype, dims, _ in tensors:
        end = start + int(np.prod(dims)) * (2 if dtype == "F16" else 4)
        parts[name], start = {"dtype": dtype, "shape": dims, "data_offsets": [start, end]}, end
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": s["hidden"], "intermediate_size": s["ffn"],
              "num_hidden_layers": s["layers"], "num_attention_heads": s["heads"], "num_key_value_heads": s["kv_heads"],
              "head_dim": s["dim"], "vocab_size": s["vocab"], "rope_theta": s["base"], "rms_norm_eps": 1e-5, "hidden_act": "silu",
              "max_position_embeddings": s["context"], "tie_word_embeddings": s["tied"], "bos_token_id": 256, "eos_token_id": 256}
    if kind == "MLX":
        config["quantization"] = {"group_size": group, "bits": 4}
    else:
        config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump(config, file)
    tokens = {f"<{i}>": i for i in range(s["vocab"])}
    with open(os.path.join(path, "tokenizer.json"), "w") as file:
        json.dump({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                   "decoder": None, "model": {"type": "BPE", "vocab": tokens, "merges": []}}, file)  # fmt: skip
    head = json.dumps(parts).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(head)) + head)
        for _, dtype, dims, value in tensors:
            if dtype == "F16":
                values = rng.standard_normal(dims, dtype=np.float32) * s["hidden"] ** -0.5 if value is None else np.full(dims, value)
                out.write(values.astype("<f2").tobytes())
            else:
                values = rng.integers(0, 1 << 32, size=dims, dtype=np.uint32) if value is None else np.full(dims, value, np.uint32)
                out.write(values.tobytes())
        return out.tell()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("recipe", choices=["Q4_K_M", "MLX", "AWQ", *TYPES])
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, help="the first N layers alone")
    parser.add_argument("--experts", type=int, help="so many experts, of which as many are used as of all")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    arch, shape = MODELS[args.model]
    shape = dict(shape, layers=args.layers or shape["layers"])
    if args.experts:
        shape["experts"] = args.experts
    # Models that begin with dense layers keep one layer of experts, however few there are.
    shape["dense_layers"] = min(3, shape["layers"] - 1)
    if args.recipe in ("MLX", "AWQ"):
        size = write_folder(shape, args.recipe, args.out, args.seed)
        return print(f"{args.out}: {args.model} {args.recipe}, {size / 1e6:.1f} MB")
    f = describe(arch, shape, args.recipe)
    size = write(f, args.out, args.seed)
    print(f"{args.out}: {args.model} {args.recipe}, {len(f.tensors)} tensors, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
