#!/usr/bin/env python3
"""Writes videos.json: what transformers 5.24 makes of videos with the models of qwen2.json, qwen25.json, qwen3.json and
qwen35.json, in 64-bit floats: rows, tokens and logits. Frames are resized by its video processors, with torchvision 0.29. `frames` are
hashes of frames that torchvision resizes.

Positions of Qwen2-VL and Qwen2.5-VL behind a video follow the last of its own in all three directions, as in the authors'
code, the paper (arXiv 2409.12191, 2.1) and transformers' Qwen2.5-Omni; its Qwen2-VL goes on behind rows and columns alone.
The tokens around pairs of Qwen3-VL replace those that templates write around a video, as in the authors' code.
"""
import json, os, sys, tempfile, warnings

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.argv[1:] = []
import numpy as np
import torch
import xxhash
from make import Float64, frames as two_frames, picture, weights
from make_chats import tokenizer
from safetensors.torch import save_file
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tvF
from transformers import AutoModelForImageTextToText
from transformers.models.qwen2_vl import video_processing_qwen2_vl as two
from transformers.models.qwen3_vl import video_processing_qwen3_vl as three
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.video_utils import VideoMetadata

BEFORE, AFTER = [5 + 40, 49, 43, 60], [47, 42, 51, 44]


def video(n, w, h):
    """Frames that follow from their number and size, (frame, channel, row, column)."""
    first = np.asarray(picture(w, h)).astype(int).transpose(2, 0, 1)
    return torch.from_numpy(np.stack([first + 13 * i & 255 for i in range(n)]).astype(np.uint8))


def base(data, name):
    shape, scale, offset = next(row[1:] for row in data["base"] if row[0] == name)
    return (offset + scale * weights(name, shape).astype(np.float64)).astype(np.float32)


def model(data):
    tensors = {name: weights(name, shape) for name, shape in data["text"]}
    for name, ours, op, shape in data["folder"]:
        values = base(data, ours)
        values = two_frames(values, base(data, ours + ".1")) if op == "frames" else values
        tensors[name] = values.reshape(shape)
    with tempfile.TemporaryDirectory() as folder:
        json.dump(data["config"], open(os.path.join(folder, "config.json"), "w"))
        save_file({name: torch.from_numpy(np.array(a, order="C")) for name, a in tensors.items()},
                  os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        loaded, info = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                                   output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    with Float64():
        made = AutoModelForImageTextToText.from_config(loaded.config, attn_implementation="eager").eval()
        made.load_state_dict(loaded.state_dict())
    return made


def positions(model, tokens, kinds, start, n, grid, seconds):
    """The positions that transformers gives, with the text behind the video where the authors have it."""
    more = {} if seconds is None else {"second_per_grid_ts": torch.tensor([seconds])}
    places, _ = model.model.get_rope_index(tokens, mm_token_type_ids=kinds, video_grid_thw=grid, **more)
    if model.config.model_type not in ("qwen3_vl", "qwen3_5"):
        theirs = start + int(max(grid[0, 1:])) // 2
        places[:, :, start + n:] += places[:, :, start:start + n].max() + 1 - theirs
    return places


def resized():
    made = []
    for w, h, W, H in ((90, 70, 84, 56), (60, 60, 56, 56), (33, 17, 112, 196), (90, 70, 90, 56), (90, 70, 84, 70), (640, 480, 28, 56), (1, 9, 28, 28)):
        for name, mode in (("bilinear", InterpolationMode.BILINEAR), ("bicubic", InterpolationMode.BICUBIC)):
            frame = tvF.resize(video(1, w, h), [H, W], interpolation=mode, antialias=True)[0]
            made.append([w, h, W, H, name, xxhash.xxh64_hexdigest(frame.permute(1, 2, 0).numpy().tobytes(), seed=0)])
    return made


FAMILIES = {
    "qwen2": ({"shortest_edge": 3136, "longest_edge": 9408}, [([4, 90, 70], 2.0), ([5, 60, 60], 1.0), ([12, 40, 30], 2.0), ([3, 84, 56], 2.0)]),
    "qwen25": ({"shortest_edge": 3136, "longest_edge": 18816}, [([4, 190, 137], 2.0), ([5, 90, 70], 1.0), ([9, 60, 60], 0.7), ([6, 56, 84], 3.0)]),
    "qwen3": ({"shortest_edge": 8192, "longest_edge": 40960}, [([4, 90, 70], 2.0), ([5, 151, 90], 3.0), ([2, 20, 90], 1.0), ([7, 40, 30], 0.5), ([4, 96, 64], 2.0)]),
    "qwen35": ({"shortest_edge": 8192, "longest_edge": 40960}, [([4, 90, 70], 2.0), ([3, 96, 64], 1.0)]),
}
out, texts = {"tokenizer": json.loads(tokenizer([], 293).backend_tokenizer.to_str())}, tokenizer([], 293)
for family, (size, cases) in FAMILIES.items():
    data = json.load(open(os.path.join(HERE, family + ".json")))
    pixels, net, made, is_apart = data["pixels"], model(data), [], family in ("qwen3", "qwen35")
    pad = data["config"]["video_token_id"]
    of = three.Qwen3VLVideoProcessor if is_apart else two.Qwen2VLVideoProcessor
    config = {"size": size, "patch_size": pixels["patch_size"], "temporal_patch_size": 2, "merge_size": 2,
              "image_mean": pixels["image_mean"], "image_std": pixels["image_std"]}
    processor = of(**config, do_sample_frames=False)
    for (n, w, h), fps in cases:
        inputs = processor([video(n, w, h)], return_tensors="pt")
        values, grid = inputs["pixel_values_videos"].double(), inputs["video_grid_thw"]
        with Float64(), torch.no_grad():
            found = net.model.get_video_features(values, grid, return_dict=True)
            parts = [torch.cat(list(found.pooler_output))]
            if family == "qwen3":
                parts += [torch.cat(list(part)) if isinstance(part, (tuple, list)) else part for part in found.deepstack_features]
            rows = torch.cat(parts, 1).numpy()
        if is_apart:
            metadata = VideoMetadata(total_num_frames=n, fps=fps, frames_indices=list(range(n)))
            words = type("", (Qwen3VLProcessor,), {"__init__": lambda self: None})()
            words.video_processor, words.video_token = processor, "<|video_pad|>"
            words.vision_start_token, words.vision_end_token = "<|vision_start|>", "<|vision_end|>"
            text = words.replace_video_token({"video_grid_thw": grid, "video_metadata": [metadata]}, 0)
            tokens = [pad if id == 6 else id for id in texts(text)["input_ids"]]
        else:
            tokens = [3, *[pad] * len(rows), 4]
        ids = torch.tensor([BEFORE + tokens + AFTER])
        kinds = (ids == pad).long() * 2
        start = int((ids[0] == pad).nonzero()[0])
        with Float64(), torch.no_grad():
            places = positions(net, ids, kinds, start, len(rows), grid, 2 / fps if family == "qwen25" else None)
            logits = net(input_ids=ids, pixel_values_videos=values, video_grid_thw=grid, position_ids=places,
                         mm_token_type_ids=kinds).logits[0, -1].tolist()
        at = sorted({round(j * (len(rows) - 1) / 7) for j in range(8)})
        made.append({"frames": n, "size": [w, h], "fps": fps, "tokens": [-1 if id == pad else id for id in tokens], "n_rows": len(rows),
                     "at": at, "rows": [[float("%.7g" % x) for x in rows[j]] for j in at], "logits": [float("%.7g" % x) for x in logits]})
        print(family, n, (w, h), grid.tolist(), len(tokens), places[0, 0].max().item())
    out[family] = {"video": config | {"video_processor_type": of.__name__}, "videos": made}
out |= {"before": BEFORE, "after": AFTER, "frames": resized()}
with open(os.path.join(HERE, "videos.json"), "w") as f:
    f.write(json.dumps(out, separators=(",", ":")) + "\n")
