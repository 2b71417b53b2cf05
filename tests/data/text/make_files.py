"""Writes files.json: small tokenizers in the files that folders have in place of tokenizer.json, and what the
libraries of their owners make of texts.  python3 make_files.py
(sentencepiece 0.2.3, transformers 5.24, mistral_common 1.13, tiktoken 0.14)"""

import base64
import io
import json
import pathlib
import tempfile

import sentencepiece
import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizers import ByteLevelBPETokenizer
from transformers import BertTokenizer, GPT2Tokenizer, Qwen2Tokenizer
from transformers.convert_slow_tokenizer import TikTokenConverter, bytes_to_unicode

HERE = pathlib.Path(__file__).parent
CORPUS = (
    json.loads((HERE / "huggingface.json").read_text())["texts"] * 3
    + [
        "Once upon a time there was a little girl who lived in a village near the forest.",
        "The girl went to the village.",
        "There was once a time when the little forest was near.",
        "A time, a village, a girl: the forest lived there.",
    ]
    * 4
)
# The cut of tokenization_kimi.py of moonshotai/Kimi-K2-Instruct.
HAN = r"[\p{Han}]+"
CASED = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
]
REST = [r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"]
KIMI = "|".join([HAN] + [cased + "(?i:'s|'t|'re|'ve|'m|'ll|'d)?" for cased in CASED] + REST)
TEXTS = [
    "Once upon a time",
    "  two  spaces and a tail  ",
    "",
    " ",
    "na\u00efve caf\u00e9 e\u0301 \u1e0d\u0323",
    "the village\nnear\n\n the\tforest",
    "\u65e5\u672c\u8a9e \U0001f600 \u2581x\u2581",
    "a<sym>b <sym> <sym><sym2>the",
    "I'LL be there, we've 12345",
    "ab  ba\u00a0 c",
    "\u2160\u2161 \ufb01ne",
]


def kimi(keep, lines):
    """Ranks under the name, and with the cut, of Kimi's tokenizer. `lines`: those of tokenizer.model. A further token
    tells the cut from Llama 3's."""
    lines += base64.b64encode(b"I'") + b" %d\n" % len(lines.splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines.splitlines())}
    named = ["[BOS]", "[EOS]"]
    t = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens={})
    decoder = {str(len(ranks) + i): {"content": text, "special": True} for i, text in enumerate(named)}
    config = {
        "tokenizer_class": "TikTokenTokenizer",
        "bos_token": named[0],
        "eos_token": named[1],
        "added_tokens_decoder": decoder,
    }
    files = {"tiktoken.model": lines, "tokenizer_config.json": json.dumps(config)}
    keep("kimi", files, [t.encode(text) for text in TEXTS], bos=len(ranks), eos=len(ranks) + 1)


def b64(data):
    return base64.b64encode(data).decode()


def train(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=out,
        minloglevel=2,
        num_threads=1,
        hard_vocab_limit=False,
        **options,
    )
    return out.getvalue()


out = []


def keep(name, files, cases, decoded=None, bos=None, eos=None):
    texts = [b64(content) if isinstance(content, bytes) else content for content in files.values()]
    out.append(
        {
            "name": name,
            "files": dict(zip(files, texts)),
            "binary": [n for n, c in files.items() if isinstance(c, bytes)],
            "cases": cases,
            "decoded": decoded,
            "bos": bos,
            "eos": eos,
        }
    )


with tempfile.TemporaryDirectory() as folder:
    rules = pathlib.Path(folder) / "rules.tsv"
    rules.write_text("FB01\t66 69\n2160\t49\n2161\t49 49\n65 301\tE9\n")
    models = {
        "bpe with bytes": dict(
            model_type="bpe",
            vocab_size=500,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            split_digits=True,
        ),
        "bpe with symbols": dict(
            model_type="bpe",
            vocab_size=500,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            user_defined_symbols=["<sym>", "<sym2>"],
        ),
        "bpe without a prefix": dict(
            model_type="bpe",
            vocab_size=500,
            byte_fallback=True,
            add_dummy_prefix=False,
            pad_id=0,
            eos_id=1,
            bos_id=2,
            unk_id=3,
            remove_extra_whitespaces=False,
            normalization_rule_name="identity",
            user_defined_symbols=["<sym>", "<sym2>", "\n\n"],
        ),
        "bpe that trims": dict(model_type="bpe", vocab_size=300, normalization_rule_tsv=str(rules)),
        "unigram": dict(model_type="unigram", vocab_size=300, normalization_rule_tsv=str(rules)),
        "unigram with bytes": dict(
            model_type="unigram",
            vocab_size=500,
            byte_fallback=True,
            normalization_rule_name="identity",
            user_defined_symbols=["<sym>"],
        ),
    }
    for name, options in models.items():
        model = train(**options)
        sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = [sp.encode(text) for text in TEXTS]
        keep(name, {"tokenizer.model": model}, ids, [sp.decode(i) for i in ids], bos=sp.bos_id(), eos=sp.eos_id())

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(
        CORPUS, vocab_size=400, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False
    )
    bpe.save_model(folder)
    files = {name: (pathlib.Path(folder) / name).read_text() for name in ["vocab.json", "merges.txt"]}
    for cls, more in [(GPT2Tokenizer, {}), (GPT2Tokenizer, {"add_prefix_space": True}), (Qwen2Tokenizer, {})]:
        config = {"tokenizer_class": cls.__name__, "added_tokens_decoder": {}} | more
        (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
        t = cls.from_pretrained(folder)
        ids = [t(text)["input_ids"] for text in TEXTS]
        keep(
            f"{cls.__name__} {more}",
            files | {"tokenizer_config.json": json.dumps(config)},
            ids,
            bos=t.bos_token_id,
            eos=t.eos_token_id,
        )
        for name in ["tokenizer_config.json"]:
            (pathlib.Path(folder) / name).unlink()

    # Its tokens as bytes, in the order of their ranks, for the two kinds of file that have those.
    code = {c: b for b, c in bytes_to_unicode().items()}
    vocab = json.loads(files["vocab.json"])
    ranked = [bytes(code[c] for c in token) for token, _ in sorted(vocab.items(), key=lambda item: item[1])[1:]]
    ranked = [bytes([i]) for i in range(256)] + [token for token in ranked if len(token) > 1]
    pattern = (
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
        "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
        "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    )
    special = [
        {"rank": i, "token_str": t, "is_control": True}
        for i, t in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])
    ]
    for version, listed in [("v3", None), ("v7", special)]:
        tekken = {
            "config": {
                "pattern": pattern,
                "num_vocab_tokens": len(ranked),
                "default_vocab_size": len(ranked) + 14 if listed else len(ranked) + 20,
                "default_num_special_tokens": 24,
                "version": version,
            },
            "vocab": [{"rank": i, "token_bytes": b64(t), "token_str": None} for i, t in enumerate(ranked)],
        }
        if listed:
            tekken["special_tokens"] = listed
        path = pathlib.Path(folder) / "tekken.json"
        path.write_text(json.dumps(tekken))
        t = Tekkenizer.from_file(path)
        ids = [t.encode(text, bos=True, eos=False) for text in TEXTS]
        keep(f"tekken {version}", {"tekken.json": path.read_text()}, ids, bos=t.bos_id, eos=t.eos_id)

    lines = b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(ranked))
    path = pathlib.Path(folder) / "tokenizer.model"
    path.write_bytes(lines)
    named = ["<|begin|>", "<|end|>"]
    t = TikTokenConverter(vocab_file=str(path), extra_special_tokens=named).converted()
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": named[0],
        "eos_token": named[1],
        "added_tokens_decoder": {
            str(len(ranked) + i): {
                "content": n,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for i, n in enumerate(named)
        },
    }
    keep(
        "tiktoken",
        {"tokenizer.model": lines, "tokenizer_config.json": json.dumps(config)},
        [t.encode(text).ids for text in TEXTS],
        bos=len(ranked),
        eos=len(ranked) + 1,
    )
    kimi(keep, lines)

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "once",
        "up",
        "##on",
        "a",
        "time",
        "the",
        "village",
        "near",
        "forest",
        "two",
        "space",
        "##s",
        "naive",
        "cafe",
        "and",
        ",",
        "'",
        "i",
        "##ll",
        "##nd",
        "tail",
        "日",
        "本",
        "語",
        "b",
        "12",
        "##34",
        "##5",
        "Once",
        "caf\u00e9",
    ]
    path = pathlib.Path(folder) / "vocab.txt"
    path.write_text("\n".join(words) + "\n")
    for more in [{}, {"do_lower_case": False}]:
        config = {"tokenizer_class": "BertTokenizer"} | more
        t = BertTokenizer(str(path), **more)
        keep(
            f"BertTokenizer {more}",
            {"vocab.txt": path.read_text(), "tokenizer_config.json": json.dumps(config)},
            [t(text)["input_ids"] for text in TEXTS],
        )

lines = ",\n".join(json.dumps(entry) for entry in out)
(HERE / "files.json").write_text(f'{{"texts": {json.dumps(TEXTS)},\n"tokenizers": [\n{lines}]}}\n')
