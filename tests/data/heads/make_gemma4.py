#!/usr/bin/env python3
"""Writes a small Gemma 4 and its assistants beside it, with what these draft.

Both networks are those of transformers (`Gemma4ForCausalLM`, `Gemma4AssistantForCausalLM`), in 64-bit floats where they
do not narrow them. Keys and values are handed over as the target would see them itself: those of the tokens that it has
computed, in layers with a window the newest that the position behind them sees. `generate` of transformers, whose loop
is the same otherwise, also hands over a token that was not accepted, and more than a window of keys. Weights follow
from the names of tensors, as in `make.py`; rows of an assistant's embedding are in an order in which some drafts are
right.

usage: make_gemma4.py
"""
import json
import torch
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM, Gemma4TextConfig

from make import MADE, MOST, PROMPT, tensor, write

import numpy as np

V = 32
COMMON = {
    "attention_bias": False, "attention_k_eq_v": False, "enable_moe_block": False, "head_dim": 16, "global_head_dim": 32,
    "hidden_activation": "gelu_pytorch_tanh", "max_position_embeddings": 512, "model_type": "gemma4_text",
    "rms_norm_eps": 1e-06, "sliding_window": 8, "tie_word_embeddings": True, "use_double_wide_mlp": False,
    "vocab_size": V, "num_key_value_heads": 2, "num_global_key_value_heads": None,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}}
Q_NORMS = 0.25
S, F = "sliding_attention", "full_attention"
# The two last layers read the keys and values of the two before them.
TARGET = COMMON | {
    "architectures": ["Gemma4ForCausalLM"], "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
    "num_hidden_layers": 6, "layer_types": [S, F, S, F, S, F], "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": V, "final_logit_softcapping": 30.0}
LAYERS = COMMON | {
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_hidden_layers": 4,
    "layer_types": [S, S, S, F], "num_kv_shared_layers": 4, "hidden_size_per_layer_input": 0,
    "vocab_size_per_layer_input": 0, "final_logit_softcapping": None}
ASSISTANTS = {
    "gemma4-assistant": {"use_ordered_embeddings": False, "num_centroids": 2048, "centroid_intermediate_top_k": 32},
    "gemma4-assistant-clusters": {"use_ordered_embeddings": True, "num_centroids": 8, "centroid_intermediate_top_k": 3}}


def fill(model, prefix):
    """Gives a model its weights; the shapes of the tensors of its file."""
    shapes = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if name == "lm_head.weight" or name.endswith("token_ordering") or not value.is_floating_point():
            continue
        if any(part in name for part in ("rotary_emb", "embed_scale", "inv_freq")):
            continue
        # Scores that are no larger than those of a model keep the text from depending on the last bits of keys.
        factor = Q_NORMS if name.endswith("q_norm.weight") else 1
        value.data.copy_(factor * tensor(prefix + name, tuple(value.shape)))
        shapes[name] = list(value.shape)
    return shapes


def target():
    model = Gemma4ForCausalLM(Gemma4TextConfig(**TARGET, attn_implementation="eager")).double().eval()
    return model, fill(model, "target.")


def states_of(of, ids):
    """The hidden states of a text, and the keys and values of its last layers of both kinds."""
    out = of.model(torch.tensor([ids]), return_shared_kv_states=True)
    return out.last_hidden_state[0], {k: out.shared_kv_states[k] for k in (F, S)}


class Assistant:
    def __init__(self, name):
        self.config = {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant",
                       "backbone_hidden_size": TARGET["hidden_size"], "tie_word_embeddings": True,
                       "text_config": LAYERS} | ASSISTANTS[name]
        config = Gemma4AssistantConfig(**json.loads(json.dumps(self.config)), attn_implementation="eager")
        self.model = Gemma4AssistantForCausalLM(config).double().eval()
        self.shapes = fill(self.model, "")
        self.integers, self.rows = {}, list(range(V))
        if self.model.masked_embedding is not None:
            ordering = np.random.default_rng(5).permutation(V).tolist()
            self.model.masked_embedding.token_ordering = torch.tensor(ordering)
            self.integers["masked_embedding.token_ordering"] = ordering
            self.shapes["masked_embedding.token_ordering"] = [V]

    def drafts(self, of, states, kv, tokens, most):
        """Tokens behind `tokens`, of which the last is not computed yet."""
        n, window = len(tokens) - 1, LAYERS["sliding_window"]
        seen = {F: [x[:, :, :n] for x in kv[F]], S: [x[:, :, max(0, n + 1 - window):n] for x in kv[S]]}
        state, token, made, logits, normed = states[n - 1].view(1, 1, -1), tokens[-1], [], [], []
        for _ in range(most):
            embedding = of.model.embed_tokens(torch.tensor([[token]]))
            out = self.model(inputs_embeds=torch.cat([embedding, state], -1), position_ids=torch.tensor([[n]]),
                             shared_kv_states=seen)
            state, token = out.last_hidden_state, int(out.logits[0, -1].argmax())
            made.append(token)
            logits.append(out.logits[0, -1])
        return made, logits

    def order_rows(self, of, states, kv, ids):
        """Orders the rows of the embedding so that the most frequent greatest one is the token that comes then."""
        table = self.model.model.embed_tokens.weight
        ordered, self.model.masked_embedding = self.model.masked_embedding, None
        self.model.config.use_ordered_embeddings = False
        counts = np.zeros((V, V))
        for n in range(2, len(ids)):
            row = self.drafts(of, states, kv, ids[:n], 1)[0][0]
            counts[row, ids[n]] += 1
        row_of, free = [None] * V, set(range(V))
        for at in np.argsort(-counts, axis=None, kind="stable"):
            row, token = divmod(int(at), V)
            if row_of[token] is None and row in free:
                row_of[token] = row
                free.remove(row)
        table.data.copy_(table.data[row_of].clone())
        self.rows = row_of
        self.model.masked_embedding = ordered
        self.model.config.use_ordered_embeddings = ordered is not None


def make(name, of, ids, states, kv):
    assistant, n = Assistant(name), len(PROMPT)
    assistant.order_rows(of, states, kv, ids)
    # The choice of the first token has no draft.
    drafts, logits = assistant.drafts(of, states, kv, ids[:n + 1], MOST)
    gaps, passes, at = [], [], n + 1
    while at < n + MADE:
        guessed, each = assistant.drafts(of, states, kv, ids[:at], min(MOST, n + MADE - at - 1))
        gaps += [float(-torch.diff(row.topk(2).values)[0]) for row in each]
        right = 0
        while right < len(guessed) and guessed[right] == ids[at + right]:
            right += 1
        passes.append([len(guessed), right])
        at += right + 1
    print(name, sum(right for _, right in passes), "of", sum(n for n, _ in passes), "smallest gap", min(gaps))
    result = {"name": name, "config": json.dumps(assistant.config), "tensors": assistant.shapes,
              "q_norms": Q_NORMS, "rows": assistant.rows, "integers": assistant.integers, "drafts": drafts,
              "logits": [[float(f"{x:.7g}") for x in row.tolist()] for row in logits], "passes": passes}
    return result


if __name__ == "__main__":
    with torch.no_grad():
        of, shapes = target()
        ids = list(PROMPT)
        while len(ids) < len(PROMPT) + MADE:
            ids.append(int(of(torch.tensor([ids])).logits[0, -1].argmax()))
        gaps = of(torch.tensor([ids])).logits[0].topk(2).values
        print("smallest gap", float((gaps[:, 0] - gaps[:, 1]).min()), ids)
        write("gemma4", {"config": json.dumps(TARGET), "prompt": PROMPT, "made": ids[len(PROMPT):], "q_norms": Q_NORMS,
                         "tensors": shapes})
        states, kv = states_of(of, ids)
        for name in ASSISTANTS:
            write(name, make(name, of, ids, states, kv))
