#!/usr/bin/env python3
"""Writes the small heads beside it, which draft for one small Llama, with what they draft.

The Llama is that of transformers, in 64-bit floats: its hidden states and its choices. The heads are written down after
their authors' definitions: SafeAILab/EAGLE (eagle/model/cnets.py), SpecForge (specforge/modeling/draft/llama3_eagle.py)
and speculators (src/speculators/models/eagle3). Weights follow from the names of tensors, as `weights` of
`../folders/make.py` has them, those of the target behind "target.".

usage: make.py
"""
import json
import math
import os
import sys
import types

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def weights_of_folders():
    """The function `weights` of the script that makes folders, without the models that it imports."""
    source = open(os.path.join(HERE, "../folders/make.py")).read()
    start = source.index("def weights")
    module = types.ModuleType("weights")
    module.__dict__.update(np=np, math=math)
    exec(source[start:source.index("\n\n\n", start)], module.__dict__)
    return module.weights


weights = weights_of_folders()
PROMPT = [1, 5, 9, 3, 7, 2, 11, 4, 8, 6, 5, 9, 3, 30, 31, 22]
MADE, MOST = 60, 4
TARGET = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 96, "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 8,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False,
    "vocab_size": 32}
D, V, N = TARGET["hidden_size"], TARGET["vocab_size"], TARGET["num_hidden_layers"]


def tensor(name, shape):
    return torch.from_numpy(weights(name, shape)).double()


def target():
    with torch.no_grad():
        model = LlamaForCausalLM(LlamaConfig(**TARGET, attn_implementation="eager")).double().eval()
        for name, parameter in model.named_parameters():
            parameter.copy_(tensor("target." + name, tuple(parameter.shape)))
    return model


LAYER = {
    "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 80, "max_position_embeddings": 512,
    "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05, "rope_theta": 500.0, "vocab_size": V}
# Number of logits where not every token has one.
FEW = 24
OWN = ["lm_head.weight", "embed_tokens.weight"]


# Configuration, the head's number of logits that stand for chosen tokens, its own ends, the beginning of the names of
# its first layer.
HEADS = {
    "eagle": (LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": FEW, "bias": False,
                       "pad_token_id": 0, "torch_dtype": "float16", "transformers_version": "4.28.1"},
              FEW, OWN[:1], "midlayer."),
    "specforge": (LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": V, "head_dim": 32,
                           "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 2, 4],
                                            "use_aux_hidden_state": True},
                           "fc_norm": True, "norm_output": True, "tie_word_embeddings": False},
                  V, OWN, "midlayer."),
    "speculators": ({"architectures": ["Eagle3Speculator"], "draft_vocab_size": FEW,
                     "eagle_aux_hidden_state_layer_ids": [1, 2, 3, 5], "embed_requires_grad": False,
                     "norm_before_fc": True, "norm_before_residual": True, "target_hidden_size": None,
                     "speculators_config": {"algorithm": "eagle3"}, "speculators_model_type": "eagle3",
                     "speculators_version": "0.5.0", "tie_word_embeddings": False, "transformers_version": "4.57.0",
                     "transformer_layer_config": LAYER | {"model_type": "qwen3", "num_hidden_layers": 2,
                                                          "head_dim": 16, "tie_word_embeddings": True}},
                    FEW, OWN, "layers.0."),
    "shared": (LAYER | {"architectures": ["Eagle3LlamaForCausalLM"], "draft_vocab_size": V}, None, [], "midlayer."),
    "narrow": (LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": FEW,
                        "hidden_size": 32, "head_dim": 16, "target_hidden_size": D, "norm_before_fc": True,
                        "eagle_aux_hidden_state_layer_ids": [5, 3, 0]}, FEW, OWN, "midlayer."),
}


def norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def rotated(x, base):
    n, _, width = x.shape
    angles = torch.arange(n).double()[:, None] * base ** (-torch.arange(0, width, 2).double() / width)
    cos, sin = [torch.cat([f(angles)] * 2, -1)[:, None] for f in (torch.cos, torch.sin)]
    return x * cos + torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1) * sin


class Head:
    def __init__(self, config, n_logits, own, first):
        self.c = {k: v for k, v in config.items() if k != "transformer_layer_config"}
        self.c = self.c | config.get("transformer_layer_config", {})
        self.n_logits, self.vocabulary, c = n_logits, None, self.c
        nested = c.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids")
        self.layers = c.get("eagle_aux_hidden_state_layer_ids") or [2, N // 2, N - 3]
        self.layers = [layer + 1 for layer in nested] if nested else self.layers
        d, f = c["hidden_size"], c["intermediate_size"]
        heads, kv, width = c["num_attention_heads"], c["num_key_value_heads"], c.get("head_dim")
        width, n = width or d // heads, len(self.layers)
        self.shape = heads, kv, width
        shapes = {"fc.weight": (d, n * D), "norm.weight": (d,)}
        if c.get("norm_before_fc"):
            shapes["input_norm.weight"] = (n * D,)
        if c.get("fc_norm"):
            shapes |= {f"fc_norm.{i}.weight": (D,) for i in range(n)}
        if not own:
            shapes["fc.bias"] = (d,)
        for i in range(c["num_hidden_layers"]):
            p = first if i == 0 else f"layers.{i}."
            wide = 2 * d if i == 0 else d
            shapes |= {
                p + "self_attn.q_proj.weight": (heads * width, wide), p + "self_attn.k_proj.weight": (kv * width, wide),
                p + "self_attn.v_proj.weight": (kv * width, wide), p + "self_attn.o_proj.weight": (d, heads * width),
                p + "input_layernorm.weight": (d,), p + "post_attention_layernorm.weight": (d,),
                p + "mlp.gate_proj.weight": (f, d), p + "mlp.up_proj.weight": (f, d), p + "mlp.down_proj.weight": (d, f)}
            if i == 0:
                shapes[p + "hidden_norm.weight"] = (d,)
            if c["model_type"] == "qwen3":
                shapes |= {p + f"self_attn.{x}_norm.weight": (width,) for x in "qk"}
        rows = {"lm_head.weight": n_logits, "embed_tokens.weight": V}
        shapes |= {name: (rows[name], d) for name in own}
        self.first, self.shapes = first, shapes
        self.w = {name: tensor(name, shape) for name, shape in shapes.items()}

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def fused(self, states):
        eps, w = self.c["rms_norm_eps"], self.w
        if self.c.get("norm_before_fc"):
            states = norm(states, w["input_norm.weight"], eps)
        if self.c.get("fc_norm"):
            parts = states.chunk(len(self.layers), -1)
            states = torch.cat([norm(x, w[f"fc_norm.{i}.weight"], eps) for i, x in enumerate(parts)], -1)
        return self.linear("fc", states)

    def block(self, i, x, token):
        p = self.first if i == 0 else f"layers.{i}."
        eps, w = self.c["rms_norm_eps"], self.w
        normed = norm(x, w[p + ("hidden_norm.weight" if i == 0 else "input_layernorm.weight")], eps)
        h = normed
        if i == 0:
            h = torch.cat([norm(token, w[p + "input_layernorm.weight"], eps), normed], -1)
            x = normed if self.c.get("norm_before_residual") else x
        heads, kv, width = self.shape
        q, k, v = [self.linear(f"{p}self_attn.{part}_proj", h).view(len(h), -1, width) for part in "qkv"]
        if p + "self_attn.q_norm.weight" in w:
            q, k = [norm(x, w[f"{p}self_attn.{part}_norm.weight"], eps) for part, x in (("q", q), ("k", k))]
        q, k = [rotated(part, self.c["rope_theta"]) for part in (q, k)]
        k, v = [part.repeat_interleave(heads // kv, 1) for part in (k, v)]
        scores = torch.einsum("qhd,khd->hqk", q, k) / math.sqrt(width)
        scores = scores.masked_fill(torch.ones(len(h), len(h)).triu(1).bool(), -math.inf)
        a = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(len(h), -1)
        x = x + self.linear(p + "self_attn.o_proj", a)
        h = norm(x, w[p + "post_attention_layernorm.weight"], eps)
        gate = torch.nn.functional.silu(self.linear(p + "mlp.gate_proj", h))
        return x + self.linear(p + "mlp.down_proj", gate * self.linear(p + "mlp.up_proj", h))

    def run(self, fused, tokens, of):
        table = self.w.get("embed_tokens.weight", of.model.embed_tokens.weight)
        x, token = fused, table[torch.tensor(tokens)]
        for i in range(self.c["num_hidden_layers"]):
            x = self.block(i, x, token)
        normed = norm(x, self.w["norm.weight"], self.c["rms_norm_eps"])
        logits = normed @ self.w.get("lm_head.weight", of.lm_head.weight).T
        return (normed if self.c.get("norm_output") else x), logits

    def choose_tokens(self, states, tokens, of):
        """Has each logit stand for the token that comes most often where it is the greatest, as far as there is one."""
        _, logits = self.run(self.fused(states), tokens[1:-1], of)
        counts = np.zeros((self.n_logits, V))
        for best, token in zip(logits.argmax(-1).tolist(), tokens[2:]):
            counts[best, token] += 1
        self.vocabulary = [None] * self.n_logits
        free = set(range(V))
        for at in np.argsort(-counts, axis=None, kind="stable"):
            logit, token = divmod(int(at), V)
            if self.vocabulary[logit] is None and token in free:
                self.vocabulary[logit] = token
                free.remove(token)

    def drafts(self, states, tokens, most, of):
        """Tokens behind `tokens`, of which all but the first follow states, and the logits of each."""
        fused, tokens, made, all_logits = self.fused(states), list(tokens[1:]), [], []
        for _ in range(most):
            results, logits = self.run(fused, tokens, of)
            best = int(logits[-1].argmax())
            made.append(self.vocabulary[best] if self.vocabulary else best)
            all_logits.append(logits[-1])
            fused = torch.cat([fused, results[-1:]])
            tokens.append(made[-1])
        return made, all_logits


def make(name, of, ids, states):
    config, n_logits, own, first = HEADS[name]
    head = Head(config, n_logits, own, first)
    n = len(PROMPT)
    together = lambda upto: torch.cat([states[layer][:upto] for layer in head.layers], -1)
    if n_logits:
        head.choose_tokens(together(len(ids) - 2), ids, of)
    drafts, logits = head.drafts(together(n - 1), ids[:n], MOST, of)
    passes, at = [], n + 1
    # The choice of the first token has no draft.
    while at < n + MADE:
        guessed, _ = head.drafts(together(at - 1), ids[:at], min(MOST, n + MADE - at - 1), of)
        right = 0
        while right < len(guessed) and guessed[right] == ids[at + right]:
            right += 1
        passes.append([len(guessed), right])
        at += right + 1
    result = {"name": name, "config": json.dumps(config), "layers": head.layers,
              "tensors": {name: list(shape) for name, shape in head.shapes.items()}, "drafts": drafts,
              "logits": [[float(f"{x:.7g}") for x in row.tolist()] for row in logits], "passes": passes}
    if n_logits:
        result["tensors"] |= {"d2t": [n_logits], "t2d": [V]}
        result["integers"] = {"d2t": [token - i for i, token in enumerate(head.vocabulary)]}
    print(name, sum(right for _, right in passes), "of", sum(n for n, _ in passes))
    return result


def write(name, result):
    lines = ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in result.items())
    with open(os.path.join(HERE, f"{name}.json"), "w") as f:
        f.write("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    with torch.no_grad():
        of = target()
        ids = list(PROMPT)
        while len(ids) < len(PROMPT) + MADE:
            ids.append(int(of(torch.tensor([ids])).logits[0, -1].argmax()))
        out = of(torch.tensor([ids]), output_hidden_states=True)
        states = [x[0] for x in out.hidden_states]
        gaps = out.logits[0].topk(2).values
        print("smallest gap", float((gaps[:, 0] - gaps[:, 1]).min()), ids)
        write("target", {"config": json.dumps(TARGET), "prompt": PROMPT, "made": ids[len(PROMPT):],
                         "tensors": {name: list(p.shape) for name, p in of.named_parameters()}})
        for name in HEADS:
            write(name, make(name, of, ids, states))
