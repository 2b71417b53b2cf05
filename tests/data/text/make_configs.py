"""Writes configs.json: tokenizer_config.json and the files beside it in the shapes in which families of models are
published, on one small tokenizer, and what transformers makes of them.  python3 make_configs.py  (transformers 5.24)

Lists of tokens are shortened; names, flags, kinds of values and keys are those of the families."""

import json
import pathlib
import tempfile

from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
BASE = "llama3"
TOKENIZER = next(
    t["tokenizer"] for t in json.loads((HERE / "huggingface.json").read_text())["tokenizers"] if t["name"] == BASE
)
FIRST = max([len(TOKENIZER["model"]["vocab"])] + [t["id"] + 1 for t in TOKENIZER["added_tokens"]])
HUGE = 1000000000000000019884624838656
PLAIN = {"clean_up_tokenization_spaces": False, "model_max_length": HUGE}


def flags(content, **more):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False} | more


def typed(content, **more):
    return {"__type": "AddedToken"} | flags(content, **more)


def decoder(*tokens):
    """Entries of added_tokens_decoder: texts of special tokens, or objects."""
    tokens = [flags(t, special=True) if isinstance(t, str) else t for t in tokens]
    return {"added_tokens_decoder": {str(FIRST + i): t for i, t in enumerate(tokens)}}


def tool(content):
    return flags(content, special=False)


IM = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
QWEN = IM + [
    "<|object_ref_start|>",
    "<|vision_start|>",
    "<|image_pad|>",
    tool("<tool_call>"),
    tool("</tool_call>"),
    tool("<think>"),
]
MISTRAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"]
DS = ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"]
DS_TOOLS = [flags("<\uff5cUser\uff5c>", normalized=False, special=False), flags("<think>", special=False)]
GEMMA = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>", tool("\n\n"), tool("<table>")]
SPM = {"sp_model_kwargs": {}, "spaces_between_special_tokens": False}

# Name, class, keys, files beside.
FAMILIES = [
    (
        "llama-2",
        "LlamaTokenizer",
        PLAIN
        | {
            "add_bos_token": True,
            "add_eos_token": False,
            "legacy": False,
            "pad_token": None,
            "padding_side": "right",
            "bos_token": typed("<s>"),
            "eos_token": typed("</s>"),
            "unk_token": typed("<unk>"),
            "sp_model_kwargs": {},
        },
        {
            "special_tokens_map.json": {
                k: flags(v) for k, v in [("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")]
            }
        },
    ),
    (
        "llama-2-resaved",
        "LlamaTokenizer",
        PLAIN
        | SPM
        | decoder("<unk>", "<s>", "</s>")
        | {
            "add_bos_token": True,
            "add_prefix_space": None,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "legacy": False,
            "use_default_system_prompt": False,
            "from_slow": True,
        },
        {"special_tokens_map.json": {"bos_token": flags("<s>"), "eos_token": flags("</s>")}},
    ),
    (
        "vicuna",
        "LlamaTokenizer",
        PLAIN
        | {
            "add_bos_token": True,
            "bos_token": typed("<s>", normalized=True),
            "eos_token": typed("</s>", normalized=True),
            "legacy": False,
            "pad_token": None,
            "sp_model_kwargs": {},
        },
        {"special_tokens_map.json": {"bos_token": flags("<s>"), "eos_token": flags("</s>"), "pad_token": "<unk>"}},
    ),
    (
        "alpaca",
        "LlamaTokenizer",
        PLAIN | {"bos_token": typed("<s>", normalized=True), "eos_token": typed("</s>", normalized=True)},
        {
            "added_tokens.json": {"[PAD]": 32000},
            "special_tokens_map.json": {
                "bos_token": "<s>",
                "eos_token": "</s>",
                "pad_token": "[PAD]",
                "unk_token": "<unk>",
            },
        },
    ),
    (
        "chatml-finetune",
        "LlamaTokenizer",
        PLAIN | {"bos_token": "<s>", "eos_token": "<|im_end|>", "trust_remote_code": False, "use_fast": True},
        {
            "added_tokens.json": {"<|im_end|>": 32000, "<|im_start|>": 32001},
            "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "</s>"},
        },
    ),
    (
        "code-llama",
        "CodeLlamaTokenizer",
        PLAIN
        | SPM
        | decoder("<unk>", "<s>", "</s>", "\u2581<PRE>", "\u2581<SUF>")
        | {
            "additional_special_tokens": ["\u2581<PRE>", "\u2581<SUF>"],
            "bos_token": "<s>",
            "eos_token": "</s>",
            "fill_token": "<FILL_ME>",
            "prefix_token": "\u2581<PRE>",
            "suffix_first": False,
        },
        {},
    ),
    (
        "llama-3",
        "PreTrainedTokenizerFast",
        decoder("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")
        | {
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|eot_id|>",
            "model_input_names": ["input_ids", "attention_mask"],
            "model_max_length": 131072,
        },
        {"special_tokens_map.json": {"bos_token": flags("<|begin_of_text|>"), "eos_token": flags("<|eot_id|>")}},
    ),
    (
        "llama-4",
        "PreTrainedTokenizer",
        decoder("<|begin_of_text|>", "<|eot|>", "<|image|>")
        | {
            "bos_token": "<|begin_of_text|>",
            "eos_token": "<|eot|>",
            "pad_token": "<|finetune_right_pad_id|>",
            "extra_special_tokens": {},
            "processor_class": "Llama4Processor",
        },
        {},
    ),
    (
        "mistral-0.1",
        "LlamaTokenizer",
        PLAIN
        | SPM
        | decoder("<unk>", "<s>", "</s>")
        | {
            "additional_special_tokens": [],
            "add_bos_token": True,
            "legacy": True,
            "bos_token": "<s>",
            "eos_token": "</s>",
        },
        {},
    ),
    (
        "mistral-0.3",
        "LlamaTokenizer",
        PLAIN
        | SPM
        | decoder(*MISTRAL)
        | {"add_prefix_space": True, "legacy": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        {},
    ),
    (
        "mistral-nemo",
        "PreTrainedTokenizerFast",
        decoder(*MISTRAL, "<SPECIAL_20>")
        | {"add_bos_token": True, "add_prefix_space": False, "bos_token": "<s>", "eos_token": "</s>"},
        {},
    ),
    (
        "mistral-small-3",
        "LlamaTokenizerFast",
        decoder(*MISTRAL)
        | {
            "legacy": True,
            "additional_special_tokens": ["<unk>", "[INST]", "[/INST]"],
            "bos_token": "<s>",
            "eos_token": "</s>",
            "extra_special_tokens": {},
            "processor_class": "PixtralProcessor",
        },
        {},
    ),
    (
        "ministral-3",
        "TokenizersBackend",
        {
            "backend": "tokenizers",
            "is_local": False,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "extra_special_tokens": ["[INST]", "[/INST]"],
            "processor_class": "PixtralProcessor",
            "model_max_length": HUGE,
        },
        {},
    ),
    (
        "mixtral",
        "LlamaTokenizer",
        PLAIN
        | SPM
        | decoder("<unk>", "<s>", "</s>")
        | {"additional_special_tokens": [], "bos_token": "<s>", "eos_token": "</s>"},
        {},
    ),
    (
        "zephyr",
        "LlamaTokenizer",
        PLAIN
        | decoder("<unk>", "<s>", "</s>")
        | {
            "additional_special_tokens": ["<unk>", "<s>", "</s>"],
            "pad_token": "</s>",
            "truncation_side": "left",
            "bos_token": "<s>",
            "eos_token": "</s>",
        },
        {"added_tokens.json": {"</s>": 2, "<s>": 1, "<unk>": 0}},
    ),
    (
        "qwen-2",
        "Qwen2Tokenizer",
        decoder(*IM)
        | {
            "add_prefix_space": False,
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "errors": "replace",
            "split_special_tokens": False,
            "unk_token": None,
        },
        {},
    ),
    (
        "qwen-2.5-vl",
        "Qwen2Tokenizer",
        decoder(*QWEN)
        | {
            "add_bos_token": False,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "unk_token": None,
        },
        {
            "added_tokens.json": {"<|endoftext|>": 151643},
            "special_tokens_map.json": {"eos_token": flags("<|im_end|>"), "pad_token": flags("<|endoftext|>")},
        },
    ),
    (
        "qwen-3",
        "Qwen2Tokenizer",
        decoder(*QWEN, tool("</think>"))
        | {
            "add_bos_token": False,
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "unk_token": None,
        },
        {},
    ),
    (
        "qwen-3.5",
        "TokenizersBackend",
        decoder(*QWEN)
        | {
            "audio_token": "<|audio_pad|>",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "image_token": "<|image_pad|>",
            "model_specific_special_tokens": {"audio_token": "<|audio_pad|>"},
            "pretokenize_regex": "x",
        },
        {},
    ),
    (
        "gemma-1",
        "GemmaTokenizer",
        PLAIN
        | SPM
        | decoder(*GEMMA)
        | {
            "add_bos_token": True,
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "additional_special_tokens": ["<start_of_turn>", "<end_of_turn>"],
            "use_default_system_prompt": False,
        },
        {},
    ),
    (
        "gemma-3",
        "GemmaTokenizer",
        PLAIN
        | decoder(*GEMMA)
        | {
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
            "extra_special_tokens": {
                "boi_token": "<start_of_image>",
                "eoi_token": "<end_of_image>",
                "image_token": "<image_soft_token>",
            },
            "sp_model_kwargs": None,
            "processor_class": "Gemma3Processor",
        },
        {},
    ),
    (
        "phi-1",
        "CodeGenTokenizer",
        {
            "add_prefix_space": False,
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "unk_token": "<|endoftext|>",
            "model_max_length": 2048,
        },
        {
            "added_tokens.json": {"\t\t": 50294, "  ": 50286, "   ": 50285},
            "special_tokens_map.json": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
        },
    ),
    (
        "phi-2",
        "CodeGenTokenizer",
        decoder(
            flags("<|endoftext|>", special=True),
            flags("  ", normalized=True, special=False),
            flags("\t\t", normalized=True, special=False),
        )
        | {
            "add_prefix_space": False,
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "return_token_type_ids": False,
        },
        {},
    ),
    (
        "phi-3",
        "LlamaTokenizer",
        PLAIN
        | decoder(
            "<unk>",
            "<s>",
            flags("</s>", rstrip=True, special=False),
            "<|endoftext|>",
            flags("<|assistant|>", rstrip=True, special=True),
            flags("<|end|>", rstrip=True, special=True),
        )
        | {
            "add_bos_token": False,
            "bos_token": "<s>",
            "eos_token": "<|endoftext|>",
            "legacy": False,
            "pad_token": "<|endoftext|>",
            "unk_token": "<unk>",
        },
        {},
    ),
    (
        "phi-4",
        "GPT2Tokenizer",
        decoder(
            flags("<|dummy_0|>", lstrip=True, rstrip=True, special=True),
            flags("<|im_start|>", lstrip=True, rstrip=True, special=True),
            flags("<|im_end|>", lstrip=True, rstrip=True, special=True),
            flags("<|endoftext|>", lstrip=True, rstrip=True, special=True),
        )
        | {
            "add_prefix_space": False,
            "bos_token": "<|endoftext|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|dummy_0|>",
            "extra_special_tokens": {},
            "unk_token": "\ufffd",
        },
        {},
    ),
    (
        "phi-4-mini",
        "GPT2Tokenizer",
        decoder(
            "<|endoftext|>", flags("<|end|>", rstrip=True, special=True), flags("<|tool|>", rstrip=True, special=False)
        )
        | {"add_bos_token": False, "add_eos_token": False, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
        {},
    ),
    (
        "deepseek-llm",
        "LlamaTokenizerFast",
        PLAIN
        | {
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": typed(DS[0], normalized=True),
            "eos_token": typed(DS[1], normalized=True),
            "pad_token": typed(DS[1], normalized=True),
            "legacy": True,
            "sp_model_kwargs": {},
            "unk_token": None,
        },
        {},
    ),
    (
        "deepseek-v3",
        "LlamaTokenizerFast",
        {
            "add_bos_token": True,
            "add_eos_token": False,
            "bos_token": typed(DS[0]),
            "eos_token": typed(DS[1]),
            "pad_token": typed(DS[1]),
            "legacy": True,
            "model_max_length": 131072,
            "sp_model_kwargs": {},
            "unk_token": None,
        },
        {},
    ),
    (
        "deepseek-r1-distill",
        "LlamaTokenizerFast",
        decoder(*DS, *DS_TOOLS)
        | {"add_bos_token": True, "bos_token": typed(DS[0]), "eos_token": typed(DS[1]), "legacy": True},
        {},
    ),
    (
        "command-r",
        "CohereTokenizerFast",
        PLAIN
        | decoder(
            "<PAD>",
            "<UNK>",
            "<BOS_TOKEN>",
            "<EOS_TOKEN>",
            tool("<|START_OF_TURN_TOKEN|>"),
            tool("<|END_OF_TURN_TOKEN|>"),
        )
        | {
            "add_bos_token": True,
            "add_prefix_space": False,
            "bos_token": "<BOS_TOKEN>",
            "eos_token": "<|END_OF_TURN_TOKEN|>",
            "legacy": True,
            "merges_file": None,
            "vocab_file": None,
            "cls_token": "<CLS>",
            "use_default_system_prompt": False,
        },
        {},
    ),
    (
        "granite-3",
        "GPT2Tokenizer",
        decoder("<|end_of_text|>", "<fim_prefix>", "<|start_of_role|>")
        | {
            "add_prefix_space": False,
            "additional_special_tokens": ["<|start_of_role|>"],
            "bos_token": "<|end_of_text|>",
            "eos_token": "<|end_of_text|>",
            "pad_token": "<|end_of_text|>",
            "vocab_size": 49152,
        },
        {},
    ),
    (
        "smollm-2",
        "GPT2Tokenizer",
        decoder(*IM)
        | {
            "add_prefix_space": False,
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "model_max_length": 8192,
            "vocab_size": 49152,
        },
        {},
    ),
    (
        "starcoder-2",
        "GPT2Tokenizer",
        PLAIN
        | decoder("<|endoftext|>", "<fim_prefix>", "<repo_name>")
        | {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "vocab_size": 49152},
        {"special_tokens_map.json": {"additional_special_tokens": ["<|endoftext|>", "<fim_prefix>"]}},
    ),
    ("gpt-2", "GPT2Tokenizer", {"model_max_length": 1024}, {}),
    (
        "gpt-j",
        "GPT2Tokenizer",
        {
            "bos_token": typed("<|endoftext|>", normalized=True),
            "eos_token": typed("<|endoftext|>", normalized=True),
            "errors": "replace",
            "special_tokens_map_file": None,
        },
        {"added_tokens.json": {"<|extratoken_1|>": 50257, "<|extratoken_2|>": 50258}},
    ),
    (
        "gpt-neox",
        "GPTNeoXTokenizer",
        {"add_prefix_space": False, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "name_or_path": "x"},
        {"special_tokens_map.json": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}},
    ),
    (
        "pythia",
        "GPTNeoXTokenizer",
        PLAIN
        | decoder("<|endoftext|>", "<|padding|>", flags("  ", normalized=True, special=False))
        | {"add_bos_token": False, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": None},
        {},
    ),
    (
        "olmo-2",
        "GPT2Tokenizer",
        decoder("<|endoftext|>", flags("|||IP_ADDRESS|||", normalized=True, special=False), "<|pad|>")
        | {
            "add_prefix_space": False,
            "bos_token": "<|endoftext|>",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|pad|>",
            "extra_special_tokens": {},
        },
        {},
    ),
    (
        "falcon",
        "PreTrainedTokenizerFast",
        decoder(">>TITLE<<", ">>ABSTRACT<<", "<|endoftext|>")
        | {
            "additional_special_tokens": [">>TITLE<<", ">>ABSTRACT<<"],
            "eos_token": "<|endoftext|>",
            "add_prefix_space": False,
        },
        {},
    ),
    (
        "falcon-3",
        "PreTrainedTokenizerFast",
        decoder(">>UNUSED_0<<", "<|endoftext|>", flags("<|user|>", rstrip=True, special=False))
        | {"bos_token": ">>UNUSED_0<<", "eos_token": "<|endoftext|>", "extra_special_tokens": {}},
        {},
    ),
    (
        "stablelm-2",
        "GPT2Tokenizer",
        decoder(*IM)
        | {
            "add_prefix_space": False,
            "bos_token": "<|endoftext|>",
            "eos_token": "<|im_end|>",
            "auto_map": {"AutoTokenizer": [None, None]},
        },
        {},
    ),
    (
        "internlm-2",
        "InternLM2Tokenizer",
        PLAIN
        | decoder("<unk>", "<s>", "</s>", "<|im_start|>", "<|action_end|>")
        | {
            "auto_map": {"AutoTokenizer": ["tokenization_internlm2.InternLM2Tokenizer", "x"]},
            "bos_token": "<s>",
            "eos_token": "</s>",
            "decode_with_prefix_space": False,
        },
        {},
    ),
    (
        "yi",
        "LlamaTokenizer",
        PLAIN
        | SPM
        | decoder("<unk>", "<|startoftext|>", "<|endoftext|>", "<|im_end|>")
        | {
            "add_bos_token": False,
            "bos_token": "<|startoftext|>",
            "eos_token": "<|im_end|>",
            "legacy": True,
            "padding_side": "right",
        },
        {},
    ),
    (
        "glm-4",
        "PreTrainedTokenizer",
        decoder("<|endoftext|>", "[MASK]", "<|user|>", "<|observation|>")
        | {
            "additional_special_tokens": ["<|user|>"],
            "eos_token": "<|endoftext|>",
            "do_lower_case": False,
            "remove_space": False,
        },
        {},
    ),
    (
        "glm-4.5",
        "PreTrainedTokenizer",
        decoder("<|endoftext|>", "[MASK]", "<|user|>", tool("<think>"), tool("<tool_call>"))
        | {"eos_token": "<|endoftext|>", "extra_special_tokens": {}, "do_lower_case": False},
        {},
    ),
    (
        "gpt-oss",
        "PreTrainedTokenizerFast",
        decoder(
            "<|startoftext|>",
            "<|endoftext|>",
            "<|return|>",
            "<|constrain|>",
            "<|channel|>",
            "<|start|>",
            "<|end|>",
            "<|message|>",
            "<|call|>",
        )
        | {"bos_token": "<|startoftext|>", "eos_token": "<|return|>", "extra_special_tokens": {}},
        {},
    ),
    (
        "exaone-4",
        "GPT2Tokenizer",
        decoder("[PAD]", "[BOS]", "[EOS]", "[UNK]", "[|endofturn|]", flags("<think>", special=False))
        | {"bos_token": "[BOS]", "eos_token": "[|endofturn|]", "pad_token": "[PAD]", "unk_token": "[UNK]"},
        {},
    ),
    (
        "minicpm-3",
        "LlamaTokenizerFast",
        PLAIN
        | decoder("<unk>", "<s>", "</s>", "<|im_end|>")
        | {"additional_special_tokens": ["<|im_end|>"], "bos_token": "<s>", "eos_token": "<|im_end|>", "legacy": True},
        {},
    ),
    (
        "baichuan",
        "BaichuanTokenizer",
        {
            "auto_map": {"AutoTokenizer": ["x.BaichuanTokenizer", None]},
            "bos_token": typed("<s>", normalized=True),
            "eos_token": typed("</s>", normalized=True),
            "use_fast": False,
        },
        {},
    ),
    (
        "bloom",
        "BloomTokenizerFast",
        {
            "unk_token": "<unk>",
            "eos_token": "</s>",
            "bos_token": "<s>",
            "pad_token": "<pad>",
            "special_tokens_map_file": None,
        },
        {"special_tokens_map.json": {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}},
    ),
    (
        "mpt",
        "GPTNeoXTokenizer",
        {"add_prefix_space": False, "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "trim_offsets": True},
        {},
    ),
    (
        "mamba",
        "GPTNeoXTokenizer",
        decoder("<|endoftext|>", flags("  ", normalized=True, special=False))
        | {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
        {},
    ),
    (
        "jamba",
        "LlamaTokenizer",
        PLAIN
        | SPM
        | decoder("<|pad|>", "<|startoftext|>", "<|endoftext|>")
        | {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "add_eos_token": False},
        {},
    ),
    (
        "lfm-2",
        "PreTrainedTokenizerFast",
        decoder("<|pad|>", "<|startoftext|>", "<|im_start|>", "<|im_end|>")
        | {
            "bos_token": "<|startoftext|>",
            "eos_token": "<|im_end|>",
            "legacy": False,
            "sp_model_kwargs": {},
            "use_default_system_prompt": False,
        },
        {},
    ),
    (
        "kimi-k2",
        "TikTokenTokenizer",
        decoder("[BOS]", "[EOS]", "<|im_end|>", tool("<|tool_call_begin|>"))
        | {
            "additional_special_tokens": ["<|im_end|>"],
            "bos_token": "[BOS]",
            "eos_token": "[EOS]",
            "auto_map": {"AutoTokenizer": ["x", None]},
        },
        {},
    ),
    (
        "hunyuan",
        "PreTrainedTokenizerFast",
        decoder("<|startoftext|>", "<|eos|>")
        | {"eos_token": "<|eos|>", "bos_token": "<|startoftext|>", "auto_map": None},
        {},
    ),
    (
        "minimax-m2",
        "GPT2Tokenizer",
        {
            "added_tokens_decoder": decoder("]~!b[", "[e~[", tool("<minimax:tool_call>"))["added_tokens_decoder"],
            "bos_token": "]~!b[",
            "eos_token": "[e~[",
        },
        {},
    ),
    (
        "seed-oss",
        "PreTrainedTokenizerFast",
        decoder("<seed:bos>", "<seed:eos>", tool("<seed:think>"))
        | {"bos_token": "<seed:bos>", "eos_token": "<seed:eos>"},
        {},
    ),
    (
        "nemotron-h",
        "PreTrainedTokenizerFast",
        decoder("<unk>", "<s>", "</s>", "<SPECIAL_12>")
        | {"bos_token": "<s>", "eos_token": "</s>", "model_input_names": ["input_ids"]},
        {},
    ),
    (
        "ernie-4.5",
        "Ernie4_5_Tokenizer",
        PLAIN
        | {
            "bos_token": "<s>",
            "eos_token": "</s>",
            "cls_token": "<|begin_of_sentence|>",
            "sep_token": "<|end_of_sentence|>",
            "mask_token": "<mask:1>",
            "sys_start_token": "<mask:4>",
            "additional_special_tokens": ["<|IMAGE_PLACEHOLDER|>"],
        },
        {
            "special_tokens_map.json": {
                "bos_token": "<s>",
                "eos_token": "</s>",
                "cls_token": "<|begin_of_sentence|>",
                "additional_special_tokens": ["<|IMAGE_PLACEHOLDER|>", "<|AUDIO_PLACEHOLDER|>"],
            },
            "added_tokens.json": {"<|IMAGE_PLACEHOLDER|>": 100295},
        },
    ),
    (
        "bert",
        "BertTokenizer",
        decoder("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        | {
            "cls_token": "[CLS]",
            "do_basic_tokenize": True,
            "do_lower_case": True,
            "mask_token": "[MASK]",
            "never_split": None,
            "sep_token": "[SEP]",
            "strip_accents": None,
            "tokenize_chinese_chars": True,
        },
        {},
    ),
    (
        "modern-bert",
        "PreTrainedTokenizerFast",
        decoder("[CLS]", "[SEP]", flags("[MASK]", lstrip=True, special=True))
        | {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "extra_special_tokens": {}},
        {},
    ),
    (
        "roberta",
        "RobertaTokenizer",
        {
            "bos_token": typed("<s>", normalized=True),
            "eos_token": typed("</s>", normalized=True),
            "mask_token": typed("<mask>", lstrip=True, normalized=True),
            "trim_offsets": True,
        },
        {},
    ),
    (
        "resaved-5",
        "TokenizersBackend",
        {
            "backend": "tokenizers",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "is_local": True,
            "local_files_only": False,
            "extra_special_tokens": ["<|x|>"],
            "model_specific_special_tokens": {"eot_token": "<|eot|>"},
        },
        {},
    ),
    (
        "peft",
        "LlamaTokenizer",
        PLAIN
        | decoder("<unk>", "<s>", "</s>", flags("<|pad|>", special=True))
        | {
            "pad_token": "<|pad|>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "max_length": 512,
            "stride": 0,
            "truncation_strategy": "longest_first",
        },
        {},
    ),
    ("no-class", None, {"bos_token": "<s>", "eos_token": "</s>"}, {}),
]

out = []
for name, cls, config, files in FAMILIES:
    config = ({"tokenizer_class": cls} if cls else {}) | config
    files = {"tokenizer_config.json": config} | files
    listed = [t["content"] for t in config.get("added_tokens_decoder", {}).values()] + list(
        files.get("added_tokens.json", {})
    )
    text = "x " + "  ".join(listed) + " <s>y</s> <think>"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content))
        t = PreTrainedTokenizerFast.from_pretrained(folder)
        ids = t(text, add_special_tokens=False)["input_ids"]
        result = {"bos": t.bos_token_id, "eos": t.eos_token_id, "size": len(t), "ids": ids}
    out.append({"family": name, "files": files, "text": text} | result)
lines = ",\n".join(json.dumps(entry) for entry in out)
(HERE / "configs.json").write_text(f"[\n{lines}]\n")
