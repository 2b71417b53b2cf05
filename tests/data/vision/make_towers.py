#!/usr/bin/env python3
"""Writes clip.json, siglip.json, siglip2.json, clip_tokenizer.json and qwen3_embedding.json of this folder: vectors of pictures and
of texts by small models of the authors' code (transformers 5.24, torch 2.15, Pillow 12), computed in 64-bit floats, with
weights that follow from names; and tokens of CLIP."""
import json, os, tempfile
import numpy as np
import torch
from make import CLIP, HERE, PIXELS, Float64, picture, weights
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel, Siglip2Config, Siglip2Model, SiglipConfig, SiglipModel

HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
TOWER = {"intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 3}
EYES = TOWER | {"hidden_size": 48, "image_size": 32, "patch_size": 8}
READS = TOWER | {"hidden_size": 36, "vocab_size": 99, "bos_token_id": 0, "eos_token_id": 98}
FAMILIES = {
    "clip": (CLIPConfig, CLIPModel, {"projection_dim": 24, "text_config": READS | {"max_position_embeddings": 12}, "vision_config": EYES},
             PIXELS | CLIP | {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32},
                              "do_center_crop": True, "resample": 3}),
    "siglip": (SiglipConfig, SiglipModel, {"text_config": READS | {"max_position_embeddings": 10, "hidden_size": 48, "projection_size": 48, "pad_token_id": 5},
                                           "vision_config": EYES},
               PIXELS | HALF | {"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32}, "resample": 3}),
    "siglip2": (Siglip2Config, Siglip2Model,
                {"text_config": READS | {"max_position_embeddings": 10, "hidden_size": 48, "projection_size": 48, "pad_token_id": 5},
                 "vision_config": TOWER | {"hidden_size": 48, "num_patches": 16, "patch_size": 8}},
                PIXELS | HALF | {"image_processor_type": "Siglip2ImageProcessor", "max_num_patches": 30, "patch_size": 8, "resample": 2}),
}
SIZES = [[32, 32], [70, 45], [20, 61]]
TEXTS = [[0, 17, 4, 98], [0, 98], [0, 3, 50, 61, 20, 7, 33, 98]]


def processor(name, pixels):
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
    from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil
    made = {"clip": CLIPImageProcessorPil, "siglip": SiglipImageProcessorPil, "siglip2": Siglip2ImageProcessorPil}[name]
    return made(**{k: v for k, v in pixels.items() if k != "image_processor_type"})


def unit(vector):
    vector = getattr(vector, "pooler_output", vector)[0].double()
    return [float("%.9g" % x) for x in vector / vector.norm()]


def write(name):
    config_class, model_class, config, pixels = FAMILIES[name]
    config = config_class(**config)
    with tempfile.TemporaryDirectory() as folder:
        model_class(config).save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        with safe_open(path, "np") as f:
            shapes = {key: list(f.get_slice(key).get_shape()) for key in f.keys()}
        save_file({key: torch.from_numpy(weights(key, shape)) for key, shape in shapes.items()}, path, metadata={"format": "pt"})
        saved = json.load(open(os.path.join(folder, "config.json")))
        loaded = model_class.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    with Float64(), torch.no_grad():
        model = model_class._from_config(loaded.config, attn_implementation="eager").eval()
        model.load_state_dict(loaded.state_dict())
        pictures, texts = [], []
        for size in SIZES:
            inputs = processor(name, pixels)(picture(*size), return_tensors="np")
            inputs = {key: torch.from_numpy(np.asarray(value, np.float64 if key == "pixel_values" else None)) for key, value in inputs.items()}
            pictures.append({"size": size, "vector": unit(model.get_image_features(**inputs))})
        for tokens in TEXTS:
            padded = tokens + [5] * (10 - len(tokens)) if name != "clip" else tokens
            texts.append({"tokens": tokens, "vector": unit(model.get_text_features(torch.tensor([padded])))})
    out = {"config": saved, "pixels": pixels, "tensors": list(shapes.items()), "pictures": pictures, "texts": texts}
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        f.write(json.dumps(out, separators=(",", ":")) + "\n")


def write_tokenizer():
    """A tokenizer as folders of CLIP have it, trained on a line."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix=""))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    cut = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(cut), behavior="removed", invert=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate(alphabet + [c + "</w>" for c in alphabet])}
    merges = [("t", "h"), ("th", "e</w>"), ("c", "a"), ("ca", "t</w>"), ("d", "o"), ("do", "g</w>"), ("i", "n</w>"), ("o", "f</w>"), ("a", "t</w>"), ("s", "i"),
              ("si", "t"), ("c", "at</w>")]
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    t.model = models.BPE(vocab=vocab, merges=merges, unk_token="<|endoftext|>", end_of_word_suffix="</w>", continuing_subword_prefix="")
    t.add_special_tokens(["<|startoftext|>", "<|endoftext|>"])
    ids = {name: t.token_to_id(name) for name in ["<|startoftext|>", "<|endoftext|>"]}
    t.post_processor = processors.RobertaProcessing(*[(token, ids[token]) for token in ["<|endoftext|>", "<|startoftext|>"]], False, False)
    texts = ["a photo of a cat", "The  CAT sits,\nin the dog's 12 at", "caté \u65e5\u672c!? a", "", "x<|endoftext|>the"]
    out = {"tokenizer": json.loads(t.to_str()), "texts": [{"text": text, "tokens": t.encode(text).ids} for text in texts]}
    with open(os.path.join(HERE, "clip_tokenizer.json"), "w") as f:
        f.write(json.dumps(out, separators=(",", ":")) + "\n")


def write_embedding():
    """The model of qwen3.json as Qwen3-VL-Embedding has it: the last hidden state of a prompt with a picture."""
    from make import blocks, frames, normalized
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
    data = json.load(open(os.path.join(HERE, "qwen3.json")))
    base = {row[0]: (row[2] * weights(row[0], row[1]).astype(np.float64) + row[3]).astype(np.float32) for row in data["base"]}
    tensors = {name: weights(name, shape) for name, shape in data["text"]}
    for name, ours, op, shape in data["folder"]:
        values = frames(base[ours].reshape(shape[0], 3, *shape[3:]), base[ours + ".1"].reshape(shape[0], 3, *shape[3:])) if op == "frames" else base[ours]
        tensors[name] = values.reshape(shape)
    with Float64(), torch.no_grad():
        config = Qwen3VLConfig(**{k: v for k, v in data["config"].items() if k != "torch_dtype"})
        model = Qwen3VLForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
        model.load_state_dict({name: torch.from_numpy(np.array(a, np.float64)) for name, a in tensors.items()})
        image = picture(*data["pictures"][0]["size"])
        H, W = smart_resize(image.size[1], image.size[0], 32, 8192, 4194304)
        a, grid = blocks(normalized(data["pixels"], np.asarray(image.resize((W, H), 3)).transpose(2, 0, 1)), 16, 2)
        values = torch.from_numpy(np.stack([a.reshape(len(a), 3, -1)] * 2, 2).reshape(len(a), -1))
        start, n, end = data["pictures"][0]["runs"]
        before, after = [9, 8, 20] + start, end + [7, 2, 11]
        tokens = before + [config.image_token_id] * n + after
        kinds = [0] * len(before) + [1] * n + [0] * len(after)
        out = model.model(input_ids=torch.tensor([tokens]), mm_token_type_ids=torch.tensor([kinds]), pixel_values=values, image_grid_thw=grid)
        vector = out.last_hidden_state[0, -1:]
    with open(os.path.join(HERE, "qwen3_embedding.json"), "w") as f:
        f.write(json.dumps({"vector": unit(vector)}, separators=(",", ":")) + "\n")


write("clip")
write("siglip")
write("siglip2")
write_tokenizer()
write_embedding()
