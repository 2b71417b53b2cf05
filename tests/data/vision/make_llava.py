#!/usr/bin/env python3
"""Writes the rows of llava.json and llava_siglip.json anew: LLaVA 1.5 with CLIP and with SigLIP, written down here in 64-bit
floats, of pictures that the processor of transformers 5.24 pads, and of CLIP also those that it crops. Needs numpy,
pillow 12 and transformers.
"""
import json, math, os
import numpy as np
from PIL import Image
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

HERE = os.path.dirname(os.path.abspath(__file__))


def functions(path, *names):
    """Functions of make.py, which asks for torch where it is imported."""
    source, found = open(os.path.join(HERE, path)).read(), {"np": np, "math": math, "Image": Image}
    for name in names:
        begin = source.index(f"def {name}(")
        exec(source[begin : source.index("\n\n\n", begin)], found)
    return [found[name] for name in names]


weights, picture = functions("make.py", "weights", "picture")


def norm(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + w["epsilon"])
    return x * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def rows(data, pixels):
    """The rows of a tile, [3, side, side]."""
    w = {r[0]: (r[2] * weights(r[0], r[1]).astype(np.float64) + r[3]).astype(np.float32).astype(np.float64) for r in data["base"]}
    keys, vision = data["keys"], data["config"]["vision_config"]
    w["epsilon"] = vision["layer_norm_eps"]
    patch, heads, side = vision["patch_size"], vision["num_attention_heads"], pixels.shape[1] // vision["patch_size"]
    x = pixels.reshape(3, side, patch, side, patch).transpose(1, 3, 0, 2, 4).reshape(side * side, -1)
    x = x @ w["v.patch_embd.weight"].reshape(-1, x.shape[1]).T
    is_clip = vision["model_type"] == "clip_vision_model"
    if is_clip:
        x = np.concatenate([w["v.class_embd"][None], x]) + w["v.position_embd.weight"]
        x = norm(x, w, "v.pre_ln")
    else:
        x = x + w["v.patch_embd.bias"] + w["v.position_embd.weight"]
    for i in range(keys["clip.vision.feature_layer"][0]):
        p, n = f"v.blk.{i}.", len(x)
        h = norm(x, w, p + "ln1")
        q, k, v = (linear(h, w, p + f"attn_{c}").reshape(n, heads, -1).transpose(1, 0, 2) for c in "qkv")
        a = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        a = np.exp(a - a.max(-1, keepdims=True))
        a = (a / a.sum(-1, keepdims=True)) @ v
        x = x + linear(a.transpose(1, 0, 2).reshape(n, -1), w, p + "attn_out")
        h = linear(norm(x, w, p + "ln2"), w, p + "ffn_up")
        h = h / (1 + np.exp(-1.702 * h)) if is_clip else 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + linear(h, w, p + "ffn_down")
    x = linear(x[int(is_clip):], w, "mm.0")
    x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return linear(x, w, "mm.2")


def case(data, size, processor):
    pixels = np.asarray(processor(picture(*size), return_tensors="np")["pixel_values"][0], np.float64)
    found = rows(data, pixels)
    at = [0, *(len(found) * i // 5 for i in range(1, 5)), len(found) - 1]
    return {"size": size, "n_rows": len(found), "runs": [len(found)], "at": at, "rows": [[float("%.9g" % x) for x in found[i]] for i in at]}


def read(name):
    return json.load(open(os.path.join(HERE, name + ".json")))


def write(name, data):
    with open(os.path.join(HERE, name + ".json"), "w") as f:
        f.write(json.dumps(data, separators=(",", ":")) + "\n")


def kept(pixels):
    return {k: v for k, v in pixels.items() if k != "image_processor_type"}


data = read("llava")
data["pixels"].update(image_processor_type="LlavaImageProcessor", do_pad=True)
for name, pads in (("pictures", True), ("cropped", False)):
    data[name] = [case(data, size, LlavaImageProcessorPil(**{**kept(data["pixels"]), "do_pad": pads})) for size in ([90, 70], [64, 64], [23, 120])]
write("llava", data)

# SigLIP has no class token and no norm ahead of its layers; all patches are rows.
named = lambda name: name in ("v.class_embd",) or name.startswith("v.pre_ln")
data = {**data, "family": "llava_siglip"}
shapes = {r[0]: list(r) for r in data["base"] if not named(r[0])}
shapes["v.position_embd.weight"][1] = [64, 48]
shapes["v.patch_embd.bias"] = ["v.patch_embd.bias", [48], 1.0, 0.0]
data["base"] = list(shapes.values())
data["gguf"] = [[r[0], r[1], r[2], shapes[r[1]][1]] for r in data["gguf"] if not named(r[1])] + [["v.patch_embd.bias", "v.patch_embd.bias", "", [48]]]
data["folder"] = [[r[0], r[1], r[2], shapes[r[1]][1]] for r in data["folder"] if not named(r[1])]
patches = next(r[0] for r in data["folder"] if r[1] == "v.patch_embd.weight")
data["folder"].append([patches.replace("weight", "bias"), "v.patch_embd.bias", "", [48]])
data["keys"] = {**data["keys"], "clip.use_gelu": True}
data["config"] = {**data["config"], "vision_feature_select_strategy": "full"}
data["config"]["vision_config"] = {**data["config"]["vision_config"], "model_type": "siglip_vision_model", "hidden_act": "gelu_pytorch_tanh"}
del data["cropped"]
data["pictures"] = [case(data, size, LlavaImageProcessorPil(**kept(data["pixels"]))) for size in ([90, 70], [64, 64], [23, 120])]
data["stretching"] = {**data["pixels"], "image_processor_type": "SiglipImageProcessor", "size": {"height": 64, "width": 64}}
for name in ("crop_size", "do_center_crop", "do_pad"):
    del data["stretching"][name]
data["stretched"] = [case(data, size, SiglipImageProcessorPil(**kept(data["stretching"]))) for size in ([90, 70], [64, 64], [23, 120])]
write("llava_siglip", data)
