"""Writes added.json: folders whose tokens and special tokens are told by the files beside tokenizer.json, and what
transformers makes of texts with them.  python3 make_added.py  (transformers 5.24, tokenizers 0.23)"""

import json
import pathlib
import tempfile

from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
BASES = {t["name"]: t["tokenizer"] for t in json.loads((HERE / "huggingface.json").read_text())["tokenizers"]}


def token(content, **flags):
    plain = {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    return plain | {"special": True} | flags


TEXTS = [
    "Hello <x>  world<y> a<z>b",
    "one <word>two <word> three",
    "<s>Hello</s>  <pad>",
    " <x> <x>\n<x>",
    "[MORE] and <img>",
    "<Y>fine<y>",
    "H\u00e9llo the <tool>",
    "the token <a><b><c>",
]
X, Y, Z = token("<x>", lstrip=True), token("<y>", normalized=True, special=False), token("<z>", rstrip=True)
WORD = token("<word>", single_word=True, special=False)


def decoder(base, *tokens):
    first = max([len(BASES[base]["model"]["vocab"])] + [t["id"] + 1 for t in BASES[base]["added_tokens"]])
    return {str(first + i): t for i, t in enumerate(tokens)}


FOLDERS = []
for base in ["llama3", "llama2", "prefix+nfc", "unigram"]:
    config = {"tokenizer_class": "PreTrainedTokenizerFast"}
    first = {"bos_token": "<s>", "eos_token": "</s>"}
    FOLDERS += [
        (base, {"tokenizer_config.json": config | first | {"added_tokens_decoder": decoder(base, X, Y, Z, WORD)}}),
        # Ids that are not those of the list's order; a token of the vocabulary; flags of one that is known.
        (
            base,
            {
                "tokenizer_config.json": config
                | {"added_tokens_decoder": {"9000": X, "3": token("the", special=False), **decoder(base, Y), "700": Z}}
            },
        ),
        (
            base,
            {
                "tokenizer_config.json": config
                | {
                    "bos_token": token("<s>") | {"__type": "AddedToken"},
                    "added_tokens_decoder": decoder(base, Y, token("<s>", special=False, rstrip=True)),
                    "extra_special_tokens": ["<x>", "[MORE]"],
                }
            },
        ),
        (
            base,
            {
                "tokenizer_config.json": config
                | {
                    "added_tokens_decoder": decoder(base, Y),
                    "image_token": "<img>",
                    "extra_special_tokens": {"tool_token": "<tool>"},
                    "pad_token": "<pad>",
                }
            },
        ),
        # What has a name is special, what stands in a list is what its own flag says.
        (
            base,
            {
                "tokenizer_config.json": config
                | {
                    "added_tokens_decoder": decoder(
                        base, *(token(t, special=False) for t in ["<img>", "[MORE]", "<tool>"])
                    ),
                    "image_token": "<img>",
                    "extra_special_tokens": ["[MORE]"],
                    "pad_token": "<tool>",
                }
            },
        ),
        (
            base,
            {
                "tokenizer_config.json": config,
                "special_tokens_map.json": first
                | {"pad_token": "<pad>", "additional_special_tokens": ["<x>", "[MORE]"]},
            },
        ),
        (
            base,
            {
                "tokenizer_config.json": config | {"eos_token": "<x>"},
                "special_tokens_map.json": {
                    "bos_token": {k: v for k, v in token("<s>", lstrip=True).items() if k != "special"},
                    "eos_token": "</s>",
                },
            },
        ),
        (
            base,
            {
                "tokenizer_config.json": config | first,
                "added_tokens.json": {"<z>": 9001, "<x>": 9000, "</s>": 9002, "the": 4},
            },
        ),
        (
            base,
            {
                "tokenizer_config.json": config
                | first
                | {"additional_special_tokens": [X | {"__type": "AddedToken"}, "<c>"]},
                "added_tokens.json": {"<a>": 9000, "<c>": 9002, "<b>": 9001},
            },
        ),
    ]

out = []
for base, files in FOLDERS:
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer.json").write_text(json.dumps(BASES[base]))
        for name, content in files.items():
            (folder / name).write_text(json.dumps(content))
        t = PreTrainedTokenizerFast.from_pretrained(folder)
    cases = [t(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    out.append(
        {
            "base": base,
            "files": files,
            "bos": t.bos_token_id,
            "eos": t.eos_token_id,
            "size": len(t),
            "special": sorted(i for i, a in t.added_tokens_decoder.items() if a.special),
            "cases": cases,
        }
    )
lines = ",\n".join(json.dumps(folder) for folder in out)
(HERE / "added.json").write_text(f'{{"texts": {json.dumps(TEXTS)},\n"folders": [\n{lines}]}}\n')
