#!/usr/bin/env python3
"""Writes rwkv.json: a part of the vocabulary of RWKV World, as GGUF files spell it, and the ids that the tokenizer of
the package `rwkv` (Apache-2.0) makes of some texts with it.

  make_rwkv.py        needs: pip download --no-deps rwkv; unpacked beside it or on the path
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.environ.get("RWKV", "."))
from rwkv.rwkv_tokenizer import TRIE_TOKENIZER  # noqa: E402
import rwkv.rwkv_tokenizer as package  # noqa: E402

TEXTS = ["User: Hi there!\n\nAssistant: Hello.\n\n", "a\tb\r\nc  d", "naïve “café” 日本語 🙂\x00", "'\"\\ \\n \\x41", "", "    indented\n\n\n"]
whole = TRIE_TOKENIZER(os.path.join(os.path.dirname(package.__file__), "rwkv_vocab_v20230424.txt"))
used = sorted({i for text in TEXTS for i in whole.encode(text)} | set(range(1, 257)))
tokens = [whole.idx2token[i] for i in used]
with tempfile.NamedTemporaryFile("w", encoding="utf-8") as small:
    small.writelines(f"{i} {token!r} {len(token)}\n" for i, token in enumerate(tokens, 1))
    small.flush()
    tokenizer = TRIE_TOKENIZER(small.name)
data = {
    # Spelled like the output of convert_hf_to_gguf.py of llama.cpp: `repr` of the bytes without quotes, behind token 0.
    "tokens": ["<s>"] + [repr(token)[2:-1] for token in tokens],
    "texts": TEXTS,
    "cases": [tokenizer.encode(text) for text in TEXTS],
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rwkv.json"), "w") as out:
    json.dump(data, out)
    out.write("\n")
