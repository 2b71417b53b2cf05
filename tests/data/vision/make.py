#!/usr/bin/env python3
"""Writes encoders of pictures of this folder: small models in the authors' code (transformers 5.24, torch 2.15, Pillow
12), computed in 64-bit floats, with weights that follow from names.

  make.py FAMILY...        writes FAMILY.json

`float32` is taken for `float64` all over, so that nothing in between is rounded.
"""
import json, math, os, sys, tempfile, warnings
import numpy as np
import torch

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "folders"))
HERE = os.path.dirname(os.path.abspath(__file__))
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
import transformers
from transformers import AutoConfig, AutoModelForImageTextToText


def weights(name, shape):
    """Uniform numbers from a counter and the name, as folders/make.py has them."""
    seed = np.uint64(14695981039346656037)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            seed = (seed ^ np.uint64(byte)) * np.uint64(1099511628211)
        x = np.arange(int(np.prod(shape)) if shape else 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + seed
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    u = (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if len(shape) < 2:
        is_norm = name.endswith("weight") and any(part in name.lower() for part in ["norm", "ln_", "ln."])
        values = 1 + 0.25 * u if is_norm else 0.25 * u
    else:
        values = u * math.sqrt(3 / shape[-1])
    return values.astype(np.float32).reshape(shape)


def picture(w, h):
    """The picture that tests make again."""
    y, x = np.mgrid[:h, :w]
    spot = (x // 9 + y // 7) % 5 == 0
    planes = [x * (3 + c) + y * (5 - c) + x * y // (7 + c) % 41 + np.where(spot, 90 * (c + 1), 0) for c in range(3)]
    return Image.fromarray((np.stack(planes, -1) & 255).astype(np.uint8))


VOCABULARY = json.load(open(os.path.join(HERE, "vocabulary.json")))
PROMPT = [[5, 9, 3, 20], [7, 2, 11, 4]]


def ids(*tokens):
    return [VOCABULARY.index(token) for token in tokens]


# ---- the way from base tensors to both forms
def frames(a, b):
    return np.stack([a, b], 2)


def made(op, values, shape):
    """The same as `tensors` of the test."""
    op, *n = op.split() or [""]
    if op == "last":                                         # channels last
        values = values.reshape(*shape[:-1], 3, -1).swapaxes(-1, -2)
    elif op == "turned":
        values = values.T
    elif op == "axes":                                       # two tables, alternating
        values = values.reshape(2, shape[0], -1).transpose(1, 0, 2)
    elif op == "part":
        values = np.split(values.reshape(-1), 3)[int(n[0])]
    return np.array(values).reshape(shape)


class Family:
    """`names`: (ending of a checkpoint's name, GGUF name, way to the folder's form, shape in the GGUF file)."""
    scale = {"attn_q.weight": 2.0, "attn_k.weight": 2.0, "ffn_up.weight": 1.5, "position_embd.weight": 6.0,
             "input_min": (0.4, -0.7), "input_max": (0.4, 0.7), "output_min": (0.4, -0.9), "output_max": (0.4, 0.9)}
    gelu = True

    def gguf_op(self, ours):
        return ""

    def base(self, name, shape):
        """Scale and offset of the values."""
        for end, by in self.scale.items():
            if name.endswith(end):
                return by if isinstance(by, tuple) else (by, 0.0)
        vector = len(shape) == 1 and name.endswith(".weight")
        is_norm = any(part in name for part in ["norm", "ln_", "ln."])
        return (1.0, 1.0) if vector and not is_norm else (1.0, 0.0)

    def write(self):
        with tempfile.TemporaryDirectory() as folder:
            config = AutoConfig.for_model(self.config["model_type"], **{k: v for k, v in self.config.items() if k != "model_type"})
            model = AutoModelForImageTextToText.from_config(config)
            model.save_pretrained(folder)
            path = os.path.join(folder, "model.safetensors")
            with safe_open(path, "np") as f:
                shapes = {self.renamed(name): list(f.get_slice(name).get_shape()) for name in f.keys()}
            self.saved = json.load(open(os.path.join(folder, "config.json")))
            base, gguf, in_folder, text, tensors = [], [], [], [], {}
            for name, shape in shapes.items():
                found = self.named(name, shape)
                if found is None:
                    text.append([name, shape])
                    tensors[name] = weights(name, shape)
                    continue
                parts = found if isinstance(found, list) else [found]
                for ours, op, ours_shape in parts:
                    scale, offset = self.base(ours, ours_shape)
                    if not any(row[0] == ours for row in base):
                        base.append([ours, ours_shape, scale, offset])
                    gguf.append([ours, ours, self.gguf_op(ours), ours_shape])
                ours, op, ours_shape = parts[0]
                scale, offset = self.base(ours, ours_shape)
                values = (offset + scale * weights(ours, ours_shape).astype(np.float64)).astype(np.float32)
                if op == "frames":
                    other, _, _ = parts[1]
                    scale, offset = self.base(other, ours_shape)
                    second = (offset + scale * weights(other, ours_shape).astype(np.float64)).astype(np.float32)
                    tensors[name] = frames(values, second)
                else:
                    tensors[name] = made(op, values, shape)
                in_folder.append([name, ours, op, shape])
            save_file({name: torch.from_numpy(np.array(a, order="C")) for name, a in tensors.items()}, path, metadata={"format": "pt"})
            loaded, info = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager",
                                                                       output_loading_info=True)
            assert not info["missing_keys"] and not info["unexpected_keys"], info
            single = torch.float32
            with Float64():
                # Frequencies are computed anew.
                self.model = AutoModelForImageTextToText.from_config(loaded.config, attn_implementation="eager", experts_implementation="eager").eval()
                self.model.load_state_dict(loaded.state_dict())
                assert all(p.dtype != single for p in [*self.model.buffers(), *self.model.parameters()])
                with torch.no_grad():
                    cases = [self.case(i, size) for i, size in enumerate(self.sizes)]
                    prompts = self.prompts()
        out = {"family": self.name, "keys": self.keys(), "config": self.saved, "pixels": self.pixels, "base": base, "gguf": gguf,
               "folder": in_folder, "text": text, "pictures": cases}
        out |= {"prompts": prompts} if prompts else {}
        self.published(out)
        with open(os.path.join(HERE, self.name + ".json"), "w") as f:
            f.write(json.dumps(out, separators=(",", ":")) + "\n")
        print(self.name, os.path.getsize(os.path.join(HERE, self.name + ".json")), [(c["size"], c["n_rows"]) for c in cases])

    def prompts(self):
        """Logits of prompts: numbers of pictures between tokens."""

    def renamed(self, name):
        """The name of a tensor in published checkpoints."""
        return name

    def published(self, out):
        """Puts what transformers saves in the form that the authors published."""

    def case(self, i, size):
        rows, runs, logits = self.run(picture(*size), i == 0)
        rows = rows.reshape(-1, rows.shape[-1]).double().numpy()
        n = len(rows)
        at = sorted({round(j * (n - 1) / min(5, n - 1)) for j in range(min(6, n))}) if n > 1 else [0]
        case = {"size": size, "runs": runs, "at": at, "n_rows": n, "rows": [[float("%.7g" % x) for x in rows[j]] for j in at]}
        if logits is not None:
            case["logits"] = [float("%.7g" % x) for x in logits]
        return case

    def keys(self):
        v = self.vision()
        out = {"general.architecture": "clip", "general.type": "mmproj", "clip.projector_type": self.projector, "clip.has_vision_encoder": True}
        for key, value in v.items():
            out["clip.vision." + key] = float(np.float32(value)) if isinstance(value, float) else value
        if self.gelu:
            out["clip.use_gelu"] = True
        return out


class Float64:
    def __enter__(self):
        self.old = (torch.Tensor.float, torch.float, torch.float32, torch.get_default_dtype(), torch.nn.functional.softmax)
        torch.Tensor.float = lambda self: self.double()
        torch.float = torch.float32 = torch.float64
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.Tensor.float, torch.float, torch.float32, dtype, _ = self.old
        torch.set_default_dtype(dtype)


def lookup(table, name):
    """The GGUF name of a checkpoint's: rows of (from, to), with N for the number of a layer."""
    module, _, leaf = name.rpartition(".")
    layer = next((part for part in module.split(".") if part.isdigit()), None)
    for theirs, ours in table:
        if theirs == (module.replace(f".{layer}.", ".N.") if layer else module):
            return ours.replace("N", layer or "") + "." + leaf
        if theirs == name:
            return ours
    return None


# ---------------------------------------------------------------------------------------------- Gemma 4
class Gemma4(Family):
    name, projector, gelu = "gemma4", "gemma4v", False
    sizes = [[90, 70], [130, 33], [120, 84]]
    pixels = {"do_convert_rgb": True, "do_normalize": False, "do_rescale": True, "do_resize": True, "image_mean": [0.0, 0.0, 0.0],
              "image_processor_type": "Gemma4ImageProcessor", "image_seq_length": 70, "image_std": [1.0, 1.0, 1.0], "max_soft_tokens": 70,
              "patch_size": 4, "pooling_kernel_size": 3, "resample": 3, "rescale_factor": 0.00392156862745098}
    text = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
            "head_dim": 16, "global_head_dim": 32, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 96, "sliding_window": 24,
            "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "use_bidirectional_attention": None, "max_position_embeddings": 4096,
            "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2, "pad_token_id": 0, "final_logit_softcapping": 30.0,
            "tie_word_embeddings": True}
    encoder = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
               "head_dim": 24, "patch_size": 4, "pooling_kernel_size": 3, "position_embedding_size": 220, "use_clipped_linears": True}
    special = {"boi_token_id": 90, "eoi_token_id": 91, "image_token_id": 92, "boa_token_id": 93, "eoa_token_id": 94, "audio_token_id": 95,
               "video_token_id": 89}

    @property
    def config(self):
        return {"model_type": "gemma4", "text_config": self.text, "vision_config": self.encoder, "audio_config": None, **self.special}

    def vision(self):
        e = self.encoder
        return {"image_size": 224, "patch_size": e["patch_size"], "embedding_length": e["hidden_size"],
                "feed_forward_length": e["intermediate_size"], "block_count": e["num_hidden_layers"], "projection_dim": 64,
                "attention.head_count": e["num_attention_heads"], "attention.layer_norm_epsilon": 1e-6, "max_rows": 70,
                "image_mean": [0.0] * 3, "image_std": [1.0] * 3}

    names = [("model.vision_tower.patch_embedder.input_proj", "v.patch_embd"),
             ("model.vision_tower.patch_embedder.position_embedding_table", "v.position_embd.weight"),
             ("model.vision_tower.std_bias", "v.std_bias"), ("model.vision_tower.std_scale", "v.std_scale"),
             ("model.embed_vision.embedding_projection", "mm.input_projection"),
             *((f"model.vision_tower.encoder.layers.N.{theirs}", f"v.blk.N.{ours}") for theirs, ours in
               [("input_layernorm", "ln1"), ("post_attention_layernorm", "attn_post_norm"), ("pre_feedforward_layernorm", "ln2"),
                ("post_feedforward_layernorm", "ffn_post_norm"), ("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm"),
                *((a + b, c) for b in ("", ".linear") for a, c in
                  [("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
                   ("self_attn.o_proj", "attn_out"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")])])]

    def named(self, name, shape):
        ours = lookup(self.names, name)
        if ours == "v.patch_embd.weight":
            p = self.encoder["patch_size"]
            return ours, "last", [shape[0], 3, p, p]
        return ours and (ours, "", shape or [1])

    def base(self, name, shape):
        return {"v.std_scale": (1.0, 1.0), "v.std_bias": (4.0, 0.0)}.get(name) or super().base(name, shape)

    def processed(self, image):
        from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil as P
        p = P(**{k: v for k, v in self.pixels.items() if k not in ("image_processor_type", "image_seq_length")})
        got = p(image, do_rescale=False, return_tensors="np")
        return torch.from_numpy(got["pixel_values"].astype(np.float64) / 255), torch.from_numpy(got["image_position_ids"])

    def run(self, image, with_logits):
        pixels, places = self.processed(image)
        rows = self.model.model.get_image_features(pixels, places, return_dict=True).pooler_output[0]
        n, logits = len(rows), None
        if with_logits:
            before, after = PROMPT
            tokens = torch.tensor([before + [self.special["image_token_id"]] * n + after])
            kinds = (tokens == self.special["image_token_id"]).long()
            # The masks of `generate`: those of the 12B's `forward` alone are others.
            masks = self.model.create_masks_for_generate(
                config=self.model.config, inputs_embeds=torch.zeros(*tokens.shape, 64), attention_mask=None, cache=None,
                position_ids=torch.arange(tokens.shape[1])[None], mm_token_type_ids=kinds)
            logits = self.model(input_ids=tokens, pixel_values=pixels, image_position_ids=places, mm_token_type_ids=kinds,
                                attention_mask=masks).logits[0, -1].tolist()
        return rows, [ids("<|image>"), n, ids("<image|>")], logits


class Gemma4Large(Gemma4):
    """The 26B and the 31B: a standard deviation and a mean of rows, which see one another; no limits."""
    name = "gemma4-31b"
    text = Gemma4.text | {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "use_double_wide_mlp": False,
                          "use_bidirectional_attention": "vision", "attention_k_eq_v": True, "num_global_key_value_heads": 1}
    encoder = Gemma4.encoder | {"use_clipped_linears": False, "standardize": True}


class Gemma4Unified(Gemma4):
    """The 12B."""
    name, projector = "gemma4-12b", "gemma4uv"
    text = {k: v for k, v in Gemma4Large.text.items() if k not in ("hidden_size_per_layer_input", "vocab_size_per_layer_input")} | {
        "num_global_key_value_heads": 2, "attention_k_eq_v": False}
    encoder = {"patch_size": 4, "pooling_kernel_size": 3, "mm_embed_dim": 64, "mm_posemb_size": 70, "output_proj_dims": 64}
    names = [("model.vision_embedder.patch_ln1", "v.patch_norm.1"), ("model.vision_embedder.patch_dense", "v.patch_embd"),
             ("model.vision_embedder.patch_ln2", "v.patch_norm.2"), ("model.vision_embedder.pos_norm", "v.patch_norm.3"),
             ("model.vision_embedder.pos_embedding", "v.position_embd.weight"),
             ("model.embed_vision.embedding_projection", "mm.input_projection")]

    @property
    def config(self):
        return super().config | {"model_type": "gemma4_unified"}

    def vision(self):
        return {"image_size": 224, "patch_size": 4, "embedding_length": 64, "feed_forward_length": 0, "block_count": 0, "projection_dim": 64,
                "attention.head_count": 0, "attention.layer_norm_epsilon": 1e-6, "max_rows": 70, "image_mean": [0.0] * 3, "image_std": [1.0] * 3}

    def named(self, name, shape):
        ours = lookup(self.names, name)
        if ours in ("v.patch_embd.weight", "v.patch_norm.1.weight", "v.patch_norm.1.bias"):
            return ours, "last", shape
        if ours == "v.position_embd.weight":
            return ours, "axes", [shape[1], shape[0], shape[2]]
        return ours and (ours, "", shape)

    def processed(self, image):
        """The pixels of the other processor in blocks of patches, as `patches_merge` has them."""
        pixels, places = super().processed(image)
        seen = (places[0] != -1).all(-1)
        w, h = (int(places[0, :, i].max()) + 1 for i in (0, 1))
        p, m = self.encoder["patch_size"], self.encoder["pooling_kernel_size"]
        a = pixels[0, seen].reshape(h // m, m, w // m, m, p, p, 3).permute(0, 2, 1, 4, 3, 5, 6)
        y, x = np.mgrid[:h // m, :w // m]
        return a.reshape(1, h * w // m // m, -1), torch.from_numpy(np.stack([x, y], -1).reshape(1, -1, 2))


# ---------------------------------------------------------------------------------------------- others
LLAMA_LIKE = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 4096, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
              "tie_word_embeddings": False}
SIGLIP = [("embeddings.patch_embedding", "v.patch_embd"), ("embeddings.position_embedding", "v.position_embd"), ("post_layernorm", "v.post_ln"),
          *((f"encoder.layers.N.{theirs}", f"v.blk.N.{ours}") for theirs, ours in
            [("layer_norm1", "ln1"), ("layer_norm2", "ln2"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
             ("self_attn.v_proj", "attn_v"), ("self_attn.out_proj", "attn_out"), ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down")])]
CLIP = {"image_mean": [0.48, 0.46, 0.41], "image_std": [0.27, 0.26, 0.28]}
PIXELS = {"do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True, "rescale_factor": 0.00392156862745098}


def normalized(pixels, raw):
    """Pixels in 64 bits, channels on axis 0."""
    mean, std = (np.array(pixels[k], np.float32).astype(np.float64)[:, None, None] for k in ("image_mean", "image_std"))
    return (raw.astype(np.float64) / 255 - mean) / std


class Plain(Family):
    """Encoders with one medium in the text."""
    with_logits = True

    def vision(self):
        e = self.encoder
        return {"image_size": self.image_size, "patch_size": e["patch_size"], "embedding_length": e["hidden_size"],
                "feed_forward_length": e["intermediate_size"], "block_count": e.get("num_hidden_layers", e.get("depth")), "projection_dim": 64,
                "attention.head_count": e.get("num_attention_heads", e.get("num_heads")), "attention.layer_norm_epsilon": self.epsilon,
                "image_mean": [float(np.float32(x)) for x in self.pixels["image_mean"]],
                "image_std": [float(np.float32(x)) for x in self.pixels["image_std"]], **self.more}

    def logits(self, n, **inputs):
        before, after = PROMPT
        tokens = torch.tensor([before + [self.image_token] * n + after])
        if "image_grid_thw" in inputs:
            inputs["mm_token_type_ids"] = (tokens == self.image_token).long()
        return self.model(input_ids=tokens, **inputs).logits[0, -1].tolist()


class Lfm2(Plain):
    """Tiles of 16 patches; an overview or a picture of 4 to 16 rows."""
    name, projector, epsilon, image_size, image_token = "lfm2", "lfm2", 1e-6, 256, 92
    sizes = [[130, 61], [48, 32], [75, 50], [120, 20]]
    encoder = {"model_type": "siglip2_vision_model", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 2,
               "patch_size": 8, "num_patches": 16, "vision_use_head": False}
    config = {"model_type": "lfm2_vl", "image_token_id": 92, "projector_hidden_size": 56, "downsample_factor": 2, "vision_config": encoder,
              "text_config": {"model_type": "lfm2", **LLAMA_LIKE, "tie_word_embeddings": True, "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}}
    pixels = PIXELS | {"image_processor_type": "Lfm2VlImageProcessorFast", "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2,
                       "downsample_factor": 2, "do_image_splitting": True, "min_tiles": 2, "max_tiles": 6, "use_thumbnail": True,
                       "min_image_tokens": 4, "max_image_tokens": 16, "encoder_patch_size": 8, "tile_size": 32, "max_pixels_tolerance": 1.5}
    more = {"projector.scale_factor": 2, "image_min_pixels": 1024, "image_max_pixels": 4096, "split_pixels": 6144, "preproc_image_size": 32,
            "preproc_min_tiles": 2, "preproc_max_tiles": 6}
    names = [*((f"model.vision_tower{v}.{theirs}", ours) for v in ("", ".vision_model") for theirs, ours in SIGLIP),
             ("model.multi_modal_projector.layer_norm", "mm.input_norm"), ("model.multi_modal_projector.linear_1", "mm.1"),
             ("model.multi_modal_projector.linear_2", "mm.2")]

    def named(self, name, shape):
        ours = lookup(self.names, name)
        return ours and ((ours, "last", [shape[0], 3, 8, 8]) if ours == "v.patch_embd.weight" else (ours, "", shape))

    def run(self, image, with_logits):
        from transformers.models.lfm2_vl.image_processing_lfm2_vl import Lfm2VlImageProcessor, convert_image_to_patches
        p = Lfm2VlImageProcessor(**{k: v for k, v in self.pixels.items() if k != "image_processor_type"})
        w, h = image.size
        args = dict(min_image_tokens=4, max_image_tokens=16, encoder_patch_size=8, downsample_factor=2)
        W, H = p.smart_resize(h, w, **args)
        large = p._is_image_too_large(h, w, 16, 8, 2, 1.5)
        tiles = []
        if large:
            columns, lines, tw, th, _ = p._get_grid_layout(h, w, 2, 6, 32)
            whole = image.resize((tw, th), 2)
            tiles = [whole.crop((32 * x, 32 * y, 32 * x + 32, 32 * y + 32)) for y in range(lines) for x in range(columns)]
        tiles.append(image.resize((W, H), 2))
        arrays = [torch.from_numpy(normalized(self.pixels, np.asarray(t).transpose(2, 0, 1)))[None] for t in tiles]
        patches = [convert_image_to_patches(a, 8)[0] for a in arrays]
        most = max(len(a) for a in patches)
        values = torch.stack([torch.cat([a, torch.zeros(most - len(a), a.shape[1])]) for a in patches])
        mask = torch.tensor([[1] * len(a) + [0] * (most - len(a)) for a in patches])
        shapes = torch.tensor([[t.size[1] // 8, t.size[0] // 8] for t in tiles])
        inputs = dict(pixel_values=values, spatial_shapes=shapes, pixel_attention_mask=mask)
        parts = self.model.model.get_image_features(**inputs, return_dict=True).pooler_output
        runs = []
        for i, part in enumerate(parts):
            if large:
                name = "<|img_thumbnail|>" if i + 1 == len(parts) else f"<|img_row_{i // columns + 1}_col_{i % columns + 1}|>"
                runs.append((ids("<|image_start|>") if i == 0 else []) + ids(name))
            else:
                runs.append(ids("<|image_start|>"))
            runs.append(len(part))
        runs.append(ids("<|image_end|>"))
        rows = torch.cat(list(parts))
        return rows, runs, self.logits(len(rows), **inputs) if with_logits else None


class LightOnOcr(Plain):
    name, projector, epsilon, image_size, image_token, gelu = "lightonocr", "lightonocr", 1e-5, 70, 92, False
    sizes = [[90, 70], [64, 48]]
    encoder = {"model_type": "pixtral", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 2, "head_dim": 24,
               "patch_size": 8, "image_size": 70, "hidden_act": "silu", "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}
    config = {"model_type": "lighton_ocr", "image_token_id": 92, "spatial_merge_size": 2, "vision_config": encoder,
              "text_config": {"model_type": "qwen3", **LLAMA_LIKE, "tie_word_embeddings": True}}
    pixels = PIXELS | CLIP | {"image_processor_type": "PixtralImageProcessorFast", "resample": 3, "size": {"longest_edge": 70}, "patch_size": 16}
    more = {"spatial_merge_size": 2}
    names = [("model.vision_encoder.patch_conv", "v.patch_embd"), ("model.vision_encoder.ln_pre", "v.pre_ln"),
             ("model.vision_projection.norm", "mm.input_norm"), ("model.vision_projection.patch_merger.merging_layer", "mm.patch_merger"),
             ("model.vision_projection.linear_1", "mm.1"), ("model.vision_projection.linear_2", "mm.2"),
             *((f"model.vision_encoder.transformer.layers.N.{theirs}", f"v.blk.N.{ours}") for theirs, ours in
               [("attention_norm", "ln1"), ("ffn_norm", "ln2"), ("attention.q_proj", "attn_q"), ("attention.k_proj", "attn_k"),
                ("attention.v_proj", "attn_v"), ("attention.o_proj", "attn_out"), ("feed_forward.gate_proj", "ffn_gate"),
                ("feed_forward.up_proj", "ffn_up"), ("feed_forward.down_proj", "ffn_down")])]

    def keys(self):
        return super().keys() | {"clip.use_silu": True}

    def named(self, name, shape):
        ours = lookup(self.names, name)
        return ours and (ours, "", shape)

    def gguf_op(self, ours):
        return "pairs 2" if ours.endswith(("attn_q.weight", "attn_k.weight")) else ""

    def run(self, image, with_logits):
        from transformers.models.pixtral.image_processing_pil_pixtral import get_resize_output_image_size
        H, W = get_resize_output_image_size(np.zeros((3, image.size[1], image.size[0]), np.uint8), 70, 16, "channels_first")
        raw = np.asarray(image.resize((W, H), 3)).transpose(2, 0, 1)
        values = torch.from_numpy(normalized(self.pixels, raw))[None]
        inputs = dict(pixel_values=values, image_sizes=[(H, W)])
        rows = self.model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
        return rows, [len(rows)], self.logits(len(rows), **inputs) if with_logits else None


def blocks(values, p, m):
    """Patches of [3, H, W] in blocks of m by m, and the grid."""
    _, H, W = values.shape
    a = values.reshape(3, H // p // m, m, p, W // p // m, m, p).transpose(1, 4, 2, 5, 0, 3, 6)
    return a.reshape(-1, 3, p, p), torch.tensor([[1, H // p, W // p]])


class Glm4v(Plain):
    name, projector, epsilon, image_size, image_token, gelu = "glm4v", "glm4v", 1e-5, 32, 92, False
    sizes = [[90, 70], [64, 48], [200, 9]]
    encoder = {"model_type": "glm4v_vision", "hidden_size": 48, "intermediate_size": 80, "depth": 2, "num_heads": 2, "patch_size": 8, "image_size": 32,
               "out_hidden_size": 64, "spatial_merge_size": 2, "temporal_patch_size": 2}
    config = {"model_type": "glm4v", "image_token_id": 92, "video_token_id": 93, "image_start_token_id": 90, "image_end_token_id": 91,
              "vision_config": encoder, "text_config": {"model_type": "glm4v_text", **{k: v for k, v in LLAMA_LIKE.items() if k != "head_dim"},
              "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1], "partial_rotary_factor": 0.5}}}
    pixels = PIXELS | CLIP | {"image_processor_type": "Glm4vImageProcessor", "resample": 3, "patch_size": 8, "temporal_patch_size": 2, "merge_size": 2,
                              "size": {"shortest_edge": 8192, "longest_edge": 10240}}
    more = {"spatial_merge_size": 2, "image_min_pixels": 4096, "image_max_pixels": 5120}
    names = [(f"model.visual.{theirs}", ours) for theirs, ours in
             [("patch_embed.proj", "v.patch_embd"), ("post_conv_layernorm", "v.norm_embd"), ("embeddings.position_embedding", "v.position_embd"),
              ("post_layernorm", "v.post_ln"), ("downsample", "mm.patch_merger"), ("merger.proj", "mm.model.fc"),
              ("merger.post_projection_norm", "mm.post_norm"), ("merger.gate_proj", "mm.gate"), ("merger.up_proj", "mm.up"),
              ("merger.down_proj", "mm.down"), *((f"blocks.N.{a}", f"v.blk.N.{b}") for a, b in
              [("norm1", "ln1"), ("norm2", "ln2"), ("attn.qkv", "attn_qkv"), ("attn.proj", "attn_out"), ("mlp.gate_proj", "ffn_gate"),
               ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down")])]]
    around = ("<|begin_of_image|>", "<|end_of_image|>")

    def keys(self):
        return super().keys() | {"clip.use_silu": True}

    def named(self, name, shape):
        ours = lookup(self.names, name)
        if ours == "v.patch_embd.weight":
            one = [shape[0], 3, 8, 8]
            return [(ours, "frames", one), (ours + ".1", "frames", one)]
        return ours and (ours, "", shape)

    def run(self, image, with_logits):
        from transformers.models.glm4v.image_processing_pil_glm4v import smart_resize
        H, W = smart_resize(2, image.size[1], image.size[0], 2, 16, 8192, 10240)
        a, grid = blocks(normalized(self.pixels, np.asarray(image.resize((W, H), 3)).transpose(2, 0, 1)), 8, 2)
        values = torch.from_numpy(np.stack([a, a], 2).reshape(len(a), -1))
        rows = self.model.model.get_image_features(pixel_values=values, image_grid_thw=grid, return_dict=True).pooler_output[0]
        runs = [ids(self.around[0]), len(rows), ids(self.around[1])]
        return rows, runs, self.logits(len(rows), pixel_values=values, image_grid_thw=grid) if with_logits else None


class Glm5Next(Glm4v):
    """GLM 5 Next, with the text model of folders/glm-5.3-flash.json. The size is that of its processor, in which pictures are padded."""
    name, projector = "glm5_next", "glm5v"
    sizes = [[90, 70], [64, 48], [200, 9], [30, 41]]
    encoder = {"model_type": "glm5_next_vision", "hidden_size": 48, "intermediate_size": 80, "depth": 2, "num_heads": 2, "patch_size": 8, "image_size": 32,
               "out_hidden_size": 64, "projection_intermediate_size": 96, "spatial_merge_size": 2, "temporal_patch_size": 2, "swiglu_limit": 0.75}
    published_text = json.load(open(os.path.join(HERE, "..", "folders", "glm-5.3-flash.json")))["config"]
    config = {"model_type": "glm5_next", "image_token_id": 92, "video_token_id": 93, "image_start_token_id": 90, "image_end_token_id": 91,
              "vision_config": encoder, "text_config": json.loads(published_text)["text_config"] | {"vocab_size": 293}}
    pixels = PIXELS | CLIP | {"image_processor_type": "Glm5NextImageProcessor", "resample": 3, "patch_size": 8, "temporal_patch_size": 2, "merge_size": 2,
                              "patch_expand_factor": 1, "min_image_tokens": 12, "max_image_tokens": 20}
    more = {"spatial_merge_size": 2, "image_min_pixels": 3072, "image_max_pixels": 5120, "swiglu_clamp": 0.75}
    names = Glm4v.names + [(f"model.visual.blocks.N.attn.{part}", f"v.blk.N.attn_{part}") for part in ("q_norm", "k_norm")]

    def run(self, image, with_logits):
        from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil
        processor = Glm5NextImageProcessorPil(**self.pixels)
        padded = processor.resize(np.asarray(image).transpose(2, 0, 1), resample=3, factor=16, temporal_factor=2, min_image_tokens=12, max_image_tokens=20)
        a, grid = blocks(normalized(self.pixels, padded), 8, 2)
        values = torch.from_numpy(np.stack([a, a], 2).reshape(len(a), -1))
        rows = self.model.model.get_image_features(pixel_values=values, image_grid_thw=grid, return_dict=True).pooler_output[0]
        runs = [ids(self.around[0]), len(rows), ids(self.around[1])]
        return rows, runs, self.logits(len(rows), pixel_values=values, image_grid_thw=grid) if with_logits else None


class Qwen35(Plain):
    """Qwen 3.5, the encoder of Qwen3-VL without deeper states, before a model most of whose layers are recurrent."""
    name, projector, epsilon, image_size, image_token = "qwen35", "qwen3vl_merger", 1e-6, 64, 92
    sizes = [[151, 90], [64, 96], [200, 31]]
    encoder = {"model_type": "qwen3_5_vision", "depth": 2, "hidden_size": 48, "hidden_act": "gelu_pytorch_tanh", "in_channels": 3,
               "intermediate_size": 80, "num_heads": 3, "num_position_embeddings": 16, "out_hidden_size": 64, "patch_size": 16,
               "spatial_merge_size": 2, "temporal_patch_size": 2, "initializer_range": 0.02}
    config = {"model_type": "qwen3_5", "image_token_id": 92, "video_token_id": 93, "vision_start_token_id": 90, "vision_end_token_id": 91,
              "tie_word_embeddings": False, "vision_config": encoder,
              "text_config": {"model_type": "qwen3_5_text", "vocab_size": 293, "hidden_size": 64, "intermediate_size": 96,
                              "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
                              "hidden_act": "silu", "rms_norm_eps": 1e-6, "attention_bias": False, "attn_output_gate": True,
                              "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
                              "linear_num_key_heads": 2, "linear_num_value_heads": 4, "full_attention_interval": 4,
                              "max_position_embeddings": 4096, "tie_word_embeddings": False,
                              "layer_types": ["linear_attention"] * 3 + ["full_attention"],
                              "rope_parameters": {"mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25,
                                                  "rope_theta": 10000.0, "rope_type": "default"}}}
    pixels = PIXELS | {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "image_processor_type": "Qwen2VLImageProcessorFast", "resample": 3,
                       "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "size": {"shortest_edge": 4096, "longest_edge": 16384}}
    more = {"spatial_merge_size": 2, "image_min_pixels": 4096, "image_max_pixels": 16384}
    names = [(f"model.visual.{theirs}", ours) for theirs, ours in
             [("patch_embed.proj", "v.patch_embd"), ("pos_embed", "v.position_embd"), ("merger.norm", "v.post_ln"), ("merger.linear_fc1", "mm.0"),
              ("merger.linear_fc2", "mm.2"), *((f"blocks.N.{a}", f"v.blk.N.{b}") for a, b in
              [("norm1", "ln1"), ("norm2", "ln2"), ("attn.qkv", "attn_qkv"), ("attn.proj", "attn_out"), ("mlp.linear_fc1", "ffn_up"),
               ("mlp.linear_fc2", "ffn_down")])]]

    def named(self, name, shape):
        ours = lookup(self.names, name)
        if ours == "v.patch_embd.weight":
            one = [shape[0], 3, 16, 16]
            return [(ours, "frames", one), (ours + ".1", "frames", one)]
        return ours and (ours, "", shape)

    def run(self, image, with_logits):
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
        H, W = smart_resize(image.size[1], image.size[0], 32, 4096, 16384)
        a, grid = blocks(normalized(self.pixels, np.asarray(image.resize((W, H), 3)).transpose(2, 0, 1)), 16, 2)
        values = torch.from_numpy(np.stack([a, a], 2).reshape(len(a), -1))
        rows = self.model.model.get_image_features(pixel_values=values, image_grid_thw=grid, return_dict=True).pooler_output[0]
        runs = [ids("<|vision_start|>"), len(rows), ids("<|vision_end|>")]
        return rows, runs, self.logits(len(rows), pixel_values=values, image_grid_thw=grid) if with_logits else None


class PaddleOcr(Plain):
    name, projector, epsilon, image_size, image_token = "paddleocr", "paddleocr", 1e-6, 40, 92
    sizes = [[90, 70], [64, 48], [200, 9], [9, 100]]
    encoder = {"model_type": "paddleocr_vl_vision", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 2,
               "patch_size": 8, "image_size": 40, "spatial_merge_size": 2}
    config = {"model_type": "paddleocr_vl", "tie_word_embeddings": False, "image_token_id": 92, "video_token_id": 93, "vision_start_token_id": 90, "vision_end_token_id": 91,
              "vision_config": encoder, "text_config": {"model_type": "paddleocr_vl_text", **LLAMA_LIKE, "head_dim": 16,
              "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0, "mrope_section": [2, 3, 3]}}}
    pixels = PIXELS | CLIP | {"image_processor_type": "PaddleOCRVLImageProcessor", "resample": 3, "patch_size": 8, "temporal_patch_size": 1,
                              "merge_size": 2, "min_pixels": 4096, "max_pixels": 5120}
    more = {"image_min_pixels": 4096, "image_max_pixels": 5120}
    names = [*((f"{m}visual.vision_model.{theirs}", ours) for m in ("", "model.") for theirs, ours in SIGLIP),
             *((f"{p}.{theirs}", ours) for p in ("mlp_AR", "model.projector", "model.mlp_AR") for theirs, ours in
               [("pre_norm", "mm.input_norm"), ("linear_1", "mm.1"), ("linear_2", "mm.2")])]

    def named(self, name, shape):
        ours = lookup(self.names, name)
        return ours and (ours, "", shape)

    def run(self, image, with_logits):
        from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import smart_resize
        H, W = smart_resize(image.size[1], image.size[0], 16, 4096, 5120)
        a, grid = blocks(normalized(self.pixels, np.asarray(image.resize((W, H), 3)).transpose(2, 0, 1)), 8, 1)
        inputs = dict(pixel_values=torch.from_numpy(a), image_grid_thw=grid)
        rows = self.model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
        runs = [ids("<|IMAGE_START|>"), len(rows), ids("<|IMAGE_END|>")]
        return rows, runs, self.logits(len(rows), **inputs) if with_logits else None


class Llava16(Plain):
    """Tiles of 16 patches; the layer ahead of the last."""
    name, projector, epsilon, image_size, image_token, gelu = "llava16", "mlp", 1e-5, 32, 92, False
    sizes = [[90, 70], [100, 31], [40, 64], [64, 64]]
    encoder = {"model_type": "clip_vision_model", "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 2,
               "patch_size": 8, "image_size": 32, "projection_dim": 48}
    pinpoints = [[32, 64], [64, 32], [64, 64], [96, 32], [32, 96]]
    config = {"model_type": "llava_next", "image_token_id": 92, "image_token_index": 92, "image_grid_pinpoints": pinpoints, "vision_config": encoder,
              "vision_feature_layer": -2, "text_config": {"model_type": "llama", **LLAMA_LIKE}}
    pixels = PIXELS | CLIP | {"image_processor_type": "LlavaNextImageProcessorFast", "resample": 3, "size": {"shortest_edge": 32},
                              "crop_size": {"height": 32, "width": 32}, "do_center_crop": True, "do_pad": True, "image_grid_pinpoints": pinpoints}
    more = {"feature_layer": [2], "image_grid_pinpoints": [x for h, w in pinpoints for x in (w, h)], "mm_patch_merge_type": "spatial_unpad"}
    names = [*((f"vision_tower{v}.{theirs}", ours) for v in ("", ".vision_model") for theirs, ours in
               [*SIGLIP, ("embeddings.class_embedding", "v.class_embd"), ("pre_layrnorm", "v.pre_ln")]),
             ("image_newline", "v.image_newline"), ("multi_modal_projector.linear_1", "mm.0"), ("multi_modal_projector.linear_2", "mm.2")]

    def named(self, name, shape):
        ours = lookup(self.names, name)
        return ours and (ours, "", shape)

    def run(self, image, with_logits):
        from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil as P
        p = P(**{k: v for k, v in self.pixels.items() if k != "image_processor_type"})
        got = p(image, do_rescale=False, do_normalize=False, return_tensors="np")
        values = torch.from_numpy(np.stack([normalized(self.pixels, a) for a in got["pixel_values"][0]]))[None]
        inputs = dict(pixel_values=values, image_sizes=torch.tensor([[image.size[1], image.size[0]]]))
        rows = self.model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
        return rows, [len(rows)], self.logits(len(rows), **inputs) if with_logits else None


class Llama4(Plain):
    """Tiles of 16 patches, at most 6 of them."""
    name, projector, epsilon, image_size, image_token = "llama4", "llama4", 1e-5, 32, 92
    sizes = [[90, 70], [20, 30], [200, 31], [40, 64], [64, 64]]
    encoder = {"model_type": "llama4_vision_model", "hidden_size": 48, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 2,
               "patch_size": 8, "image_size": 32, "vision_output_dim": 56, "projector_input_dim": 56, "projector_output_dim": 56,
               "pixel_shuffle_ratio": 0.5, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    config = {"model_type": "llama4", "image_token_index": 92, "boi_token_index": 90, "eoi_token_index": 91, "vision_config": encoder,
              "text_config": {"model_type": "llama4_text", **LLAMA_LIKE, "intermediate_size_mlp": 96, "num_local_experts": 2,
                              "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}}
    pixels = PIXELS | {"image_processor_type": "Llama4ImageProcessorFast", "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2,
                       "size": {"height": 32, "width": 32}, "max_patches": 6, "resize_to_max_canvas": False}
    more = {"projector.scale_factor": 2, "preproc_max_tiles": 6}
    names = [(f"vision_model.{theirs}", ours) for theirs, ours in
             [("patch_embedding.linear", "v.patch_embd"), ("class_embedding", "v.class_embd"), ("positional_embedding_vlm", "v.position_embd.weight"),
              ("layernorm_pre", "v.pre_ln"), ("layernorm_post", "v.post_ln"), ("vision_adapter.mlp.fc1", "mm.model.mlp.1"),
              ("vision_adapter.mlp.fc2", "mm.model.mlp.2"), *((f"model.layers.N.{a}", f"v.blk.N.{b}") for a, b in
              [("input_layernorm", "ln1"), ("post_attention_layernorm", "ln2"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
               ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_out"), ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down")])]]
    names.append(("multi_modal_projector.linear_1", "mm.model.fc"))

    def named(self, name, shape):
        ours = lookup(self.names, name)
        return ours and (ours, "", shape)

    def processed(self, image):
        from transformers.models.llama4.image_processing_llama4 import Llama4ImageProcessor

        class Pillow(Llama4ImageProcessor):
            def resize(self, image, size, resample=None, **_):
                pictures = [Image.fromarray(a.permute(1, 2, 0).numpy()).resize((size.width, size.height), 2) for a in image]
                return torch.stack([torch.from_numpy(np.array(p)).permute(2, 0, 1) for p in pictures])

        got = Pillow(**{k: v for k, v in self.pixels.items() if k != "image_processor_type"})(image, return_tensors="pt")
        return got["pixel_values"].double(), [int(n) for n in got["aspect_ratios"][0]]

    def write(self):
        self.seen = [self.processed(picture(*size)) for size in self.sizes]
        super().write()

    def run(self, image, with_logits):
        values, (lines, columns) = self.seen[self.sizes.index(list(image.size))]
        rows = self.model.multi_modal_projector(self.model.get_image_features(pixel_values=values, return_dict=True).last_hidden_state)
        n, runs = rows.shape[1], [ids("<|image_start|>")]
        for y in range(lines if len(rows) > 1 else 0):
            for x in range(columns):
                runs += [n, ids("<|tile_x_separator|>" if x + 1 < columns else "<|tile_y_separator|>")]
        runs = [*runs[:-1], runs[-1] + ids("<|image|>"), n, ids("<|image_end|>")]
        rows = rows.reshape(-1, rows.shape[-1])
        return rows, runs, self.logits(rows) if with_logits else None

    def logits(self, rows):
        """Asks the decoder itself, because the `forward` around it fails in this version."""
        before, after = (self.model.get_input_embeddings()(torch.tensor(tokens)) for tokens in PROMPT)
        return self.model.language_model(inputs_embeds=torch.cat([before, rows, after])[None]).logits[0, -1].tolist()


class MiniCpm(Plain):
    """MiniCPM-V 2.6 to 4.5, which transformers does not have: the formulas of its authors' code in 64-bit floats."""
    name, projector, epsilon, image_size = "minicpm", "resampler", 1e-6, 40
    sizes = [[90, 70], [30, 22], [70, 40], [44, 200], [61, 61]]
    encoder = {"hidden_size": 48, "image_size": 48, "intermediate_size": 80, "model_type": "siglip", "num_attention_heads": 2,
               "num_hidden_layers": 2, "patch_size": 8}
    saved = {"architectures": ["MiniCPMV"], "model_type": "minicpmv", "version": 2.6, "batch_vision_input": True, "drop_vision_last_layer": False,
             "hidden_size": 128, "query_num": 5, "slice_mode": True, "use_image_id": True, "vision_config": encoder}
    pixels = {"image_processor_type": "MiniCPMVImageProcessor", "max_slice_nums": 4, "scale_resolution": 40, "patch_size": 8, "use_image_id": True,
              "image_feature_size": 5, "im_start": "<image>", "im_end": "</image>", "slice_start": "<slice>", "slice_end": "</slice>",
              "unk": "<unk>", "im_id_start": "<image_id>", "im_id_end": "</image_id>", "slice_mode": True, "norm_mean": [0.5] * 3,
              "norm_std": [0.5] * 3, "version": 2.6, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    more = {"preproc_image_size": 40, "preproc_max_tiles": 4}
    scale = Family.scale | {"attn.q.weight": 2.0, "attn.k.weight": 2.0, "query": 3.0}

    def keys(self):
        return super().keys() | {"clip.minicpmv_version": 3, "clip.minicpmv_query_num": 5, "clip.has_minicpmv_projector": True}

    def write(self):
        d, h, n, p = 48, 128, 5, 8
        linear = lambda name, rows, cols: {name + ".weight": [rows, cols], name + ".bias": [rows]}
        norm = lambda name, width: {name + ".weight": [width], name + ".bias": [width]}
        shapes = {"v.patch_embd.weight": [d, 3, p, p], "v.patch_embd.bias": [d], "v.position_embd.weight": [36, d], **norm("v.post_ln", d)}
        for i in range(2):
            b = f"v.blk.{i}."
            shapes |= norm(b + "ln1", d) | norm(b + "ln2", d) | linear(b + "ffn_up", 80, d) | linear(b + "ffn_down", d, 80)
            for part in ("q", "k", "v", "out"):
                shapes |= linear(b + "attn_" + part, d, d)
        shapes |= {"resampler.query": [n, h], "resampler.kv.weight": [h, d], "resampler.proj.weight": [h, h]}
        for part in ("ln_q", "ln_kv", "ln_post"):
            shapes |= norm("resampler." + part, h)
        for part in ("q", "k", "v", "out"):
            shapes |= linear("resampler.attn." + part, h, h)
        names = {ours: "vpm." + theirs for theirs, ours in SIGLIP} | {"resampler.kv": "resampler.kv_proj", "resampler.attn.out": "resampler.attn.out_proj"}
        base, folder, self.w = [], [], {}
        for name, shape in shapes.items():
            scale, offset = self.base(name, shape)
            base.append([name, shape, scale, offset])
            values = (offset + scale * weights(name, shape).astype(np.float64)).astype(np.float32)
            self.w[name] = torch.from_numpy(values).double()
            module, _, leaf = name.rpartition(".")
            layer = module.split(".")[2] if ".blk." in module else ""
            theirs = names.get(module.replace(f".{layer}.", ".N.") if layer else module, module).replace(".N.", f".{layer}.")
            if module == "resampler.attn.q":
                folder.append([f"resampler.attn.in_proj_{leaf}", name, "qkv", [3 * shape[0], *shape[1:]]])
            elif name == "resampler.proj.weight":
                folder.append(["resampler.proj", name, "turned", shape])
            elif module not in ("resampler.attn.k", "resampler.attn.v"):
                folder.append([f"{theirs}.{leaf}" if module != "resampler" else name, name, "", shape])
        cases = [self.case(i, size) for i, size in enumerate(self.sizes)]
        pixels = {k: v for k, v in self.pixels.items() if k not in ("image_mean", "image_std")}
        out = {"family": self.name, "keys": self.keys(), "config": self.saved, "pixels": pixels, "base": base,
               "gguf": [[name, name, "", shape] for name, shape in shapes.items()], "folder": folder, "text": [], "pictures": cases}
        with open(os.path.join(HERE, self.name + ".json"), "w") as f:
            f.write(json.dumps(out, separators=(",", ":")) + "\n")
        print(self.name, [(c["size"], c["n_rows"], c["runs"]) for c in cases])

    def tiles(self, image):
        """The overview, slices, and the columns and lines of these."""
        w, h = image.size
        side, patch, most = (self.pixels[k] for k in ("scale_resolution", "patch_size", "max_slice_nums"))
        columns, lines = minicpm_grid(w, h, side, most)
        if columns * lines == 1:
            return [image.resize(minicpm_size(w, h, side, patch, True), 3)], 1, 1
        tw, th = minicpm_size(max(round(w / columns), 1), max(round(h / lines), 1), side, patch, True)
        whole = image.resize((tw * columns, th * lines), 3)
        slices = [whole.crop((tw * x, th * y, tw * x + tw, th * y + th)) for y in range(lines) for x in range(columns)]
        return [image.resize(minicpm_size(w, h, side, patch, False), 3), *slices], columns, lines

    def run(self, image, with_logits):
        tiles, columns, lines = self.tiles(image)
        rows = torch.cat([self.rows(normalized(self.pixels, np.asarray(t).transpose(2, 0, 1))) for t in tiles])
        n, text = len(self.w["resampler.query"]), ids("<image>")
        runs = []
        for i in range(len(tiles)):
            if i:
                text += (ids("\u010a") if i > 1 and (i - 1) % columns == 0 else []) + ids("<slice>")
            runs += [text, n]
            text = ids("</slice>" if i else "</image>")
        return rows, runs + [text], None

    def rows(self, values):
        F, w, patch = torch.nn.functional, self.w, 8
        linear = lambda x, name: x @ w[name + ".weight"].T + w.get(name + ".bias", 0)
        norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-6)
        x = F.conv2d(torch.from_numpy(values)[None], w["v.patch_embd.weight"], w["v.patch_embd.bias"], patch)[0]
        lines, columns = x.shape[1:]
        x = x.flatten(1).T
        bounds = torch.arange(1 / 6, 1.0, 1 / 6)
        row, column = (torch.bucketize(torch.arange(0, 1 - 1e-6, 1 / torch.tensor(n)), bounds, right=True) for n in (lines, columns))
        x = x + w["v.position_embd.weight"][(row[:, None] * 6 + column).flatten()]
        heads = lambda x, n: x.reshape(len(x), n, -1).transpose(0, 1)
        attend = lambda q, k, v, n: F.softmax(heads(q, n) @ heads(k, n).transpose(1, 2) / (q.shape[1] / n) ** 0.5, -1).matmul(heads(v, n)).transpose(0, 1).flatten(1)
        for i in range(2):
            b = f"v.blk.{i}."
            h = norm(x, b + "ln1")
            x = x + linear(attend(*(linear(h, b + "attn_" + part) for part in "qkv"), 2), b + "attn_out")
            x = x + linear(F.gelu(linear(norm(x, b + "ln2"), b + "ffn_up"), approximate="tanh"), b + "ffn_down")
        x = norm(linear(norm(x, "v.post_ln"), "resampler.kv"), "resampler.ln_kv")
        quarter = x.shape[1] // 4
        freq = 10000.0 ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
        wave = lambda n: torch.cat([f(torch.arange(n, dtype=torch.float64)[:, None] * freq) for f in (torch.sin, torch.cos)], 1)
        places = torch.cat([wave(columns).repeat(lines, 1), wave(lines).repeat_interleave(columns, 0)], 1)
        q, k, v = (linear(a, "resampler.attn." + part) for a, part in ((norm(w["resampler.query"], "resampler.ln_q"), "q"), (x + places, "k"), (x, "v")))
        x = norm(linear(attend(q, k, v, 1), "resampler.attn.out"), "resampler.ln_post")
        return linear(x, "resampler.proj")


def minicpm_grid(w, h, side, most):
    """Columns and lines of slices."""
    n = min(math.ceil(w * h / (side * side)), most)
    grids = [(x, i // x) for i in (n - 1, n, n + 1) if 1 < i <= most for x in range(1, i + 1) if i % x == 0]
    return min(grids, key=lambda g: abs(math.log(w / h) - math.log(g[0] / g[1]))) if n > 1 else (1, 1)


def minicpm_size(w, h, side, patch, enlarge):
    if w * h > side * side or enlarge:
        ratio = w / h
        h = int(side / math.sqrt(ratio))
        w = int(h * ratio)
    return tuple(max(round(x / patch) * patch, patch) for x in (w, h))


class KimiK25(Plain):
    """Kimi K2.5, of at most 64 patches, 16 of a side."""
    name, projector, epsilon, image_size, image_token = "kimi_k25", "kimik25", 1e-5, 64, 92
    sizes = [[90, 70], [64, 48], [64, 64], [50, 30], [200, 9], [5, 40]]
    scale = Family.scale | {"attn_qkv.weight": 2.0}
    encoder = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 8, "pos_emb_height": 8,
               "pos_emb_width": 8, "pos_emb_time": 4, "merge_kernel_size": [2, 2]}
    config = {"model_type": "kimi_k25", "tie_word_embeddings": False, "image_token_id": 92, "video_token_id": 93, "vision_start_token_id": 90,
              "vision_end_token_id": 91, "projection_hidden_size": 48, "projection_layer_norm_eps": 1e-5, "vision_config": encoder,
              "text_config": {"model_type": "deepseek_v3", **LLAMA_LIKE, "num_key_value_heads": 4, "head_dim": 8, "moe_intermediate_size": 32,
                              "n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
                              "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.446, "kv_lora_rank": 32,
                              "q_lora_rank": None, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}}
    pixels = {"media_proc_cfg": {"in_patch_limit": 64, "patch_size": 8, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "merge_kernel_size": 2,
                                 "fixed_output_tokens": None, "patch_limit_on_one_side": 16, "in_patch_limit_each_frame": 32,
                                 "in_patch_limit_video": None, "sample_fps": 2.0, "max_num_frames_each_video": None,
                                 "temporal_merge_kernel_size": 4, "timestamp_mode": "hh:mm:ss.fff"}}
    normal = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    more = {"projector.scale_factor": 2, "image_min_pixels": 512, "image_max_pixels": 4096, "max_side_patches": 16}
    names = [("patch_embed.proj", "v.patch_embd"), ("patch_embed.pos_emb", "v.position_embd"), ("encoder.final_layernorm", "v.post_ln"),
             *((f"encoder.blocks.N.{a}", f"v.blk.N.{b}") for a, b in
               [("norm0", "ln1"), ("norm1", "ln2"), ("wqkv", "attn_qkv"), ("wo", "attn_out"), ("mlp.fc0", "ffn_up"), ("mlp.fc1", "ffn_down")])]
    names = [*((f"vision_tower.{theirs}", ours) for theirs, ours in names), ("mm_projector.pre_norm", "mm.input_norm"),
             ("mm_projector.proj.0", "mm.1"), ("mm_projector.proj.2", "mm.2")]
    start = "<|media_begin|>"

    def renamed(self, name):
        """transformers 5.24 saves some names in none of the forms that it reads."""
        for wrong, right in [("model.blocks", "model.layers"), ("self_wqkv", "self_attn.q_proj"), ("model.mm_projector", "mm_projector"),
                             ("tower.encoder.patch_embed", "tower.patch_embed")]:
            name = name.replace(wrong, right)
        return name

    def vision(self):
        self_pixels, self.pixels = self.pixels, self.normal
        out = super().vision()
        self.pixels = self_pixels
        return out

    def keys(self):
        return super().keys() | {"vision.pos_emb_height": 8, "vision.pos_emb_width": 8, "vision.pos_emb_time": 4}

    def named(self, name, shape):
        ours = lookup(self.names, name)
        return ours and (ours, "", shape)

    def gguf_op(self, ours):
        return "apart 2" if ".attn_qkv." in ours else ""

    def processed(self, image):
        from transformers.models.kimi_k25.image_processing_kimi_k25 import navit_resize
        (h, w), (H, W) = navit_resize(image.size[1], image.size[0], 8, 2, 64, 16)
        padded = Image.new("RGB", (W, H))
        padded.paste(image.resize((w, h), 3), (0, 0))
        a, grid = blocks(normalized(self.normal, np.asarray(padded).transpose(2, 0, 1)), 8, 1)
        return dict(pixel_values=torch.from_numpy(a), image_grid_thw=grid)

    def run(self, image, with_logits):
        inputs = self.processed(image)
        rows = self.model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
        runs = [ids(self.start, *"image", "<|media_content|>"), len(rows), ids("<|media_end|>")]
        return rows, runs, self.logits(len(rows), **inputs) if with_logits else None

    def logits(self, n, **inputs):
        before, after = PROMPT
        tokens = before + [self.image_token] * n + after
        return self.model(input_ids=torch.tensor([tokens]), **inputs).logits[0, -1].tolist()

    def prompts(self):
        both = [self.processed(picture(*size)) for size in self.sizes[:2]]
        a, b = (int(inputs["image_grid_thw"].prod()) // 4 for inputs in both)
        before, after = PROMPT
        out = []
        for parts, tokens, inputs in [([before, 0, [33], 1, after], [*before, *[92] * a, 33, *[92] * b, *after],
                                       {key: torch.cat([one[key] for one in both]) for key in both[0]}), ([before + after], before + after, {})]:
            logits = self.model(input_ids=torch.tensor([tokens]), **inputs).logits[0, -1].tolist()
            out.append({"parts": parts, "logits": [float("%.7g" % x) for x in logits]})
        return out

    def published(self, out):
        vision = self.encoder
        out["config"]["vision_config"] = {
            "_attn_implementation": "flash_attention_2", "init_pos_emb_height": 8, "init_pos_emb_time": 4, "init_pos_emb_width": 8,
            "merge_kernel_size": [2, 2], "merge_type": "sd2_tpool", "mm_hidden_size": 48, "mm_projector_type": "patchmerger", "patch_size": 8,
            "pos_emb_type": "divided_fixed", "projector_hidden_act": "gelu", "projector_ln_eps": 1e-05, "text_hidden_size": 64,
            "video_attn_type": "spatial_temporal", "vt_hidden_size": 48, "vt_intermediate_size": 80, "vt_num_attention_heads": 2,
            "vt_num_hidden_layers": 2}
        out["config"] |= {"media_placeholder_token_id": 92, "use_unified_vision_chunk": True, "ignore_index": -100,
                          "video_placeholder": "<|kimi_k25_video_placeholder|>"}


class KimiVl(KimiK25):
    """Kimi-VL, the network of Kimi K2.5 under other names, after its authors' code (modeling_kimi_vl.py)."""
    name, projector, start = "kimi_vl", "kimivl", "<|media_start|>"
    pixels = CLIP | {"auto_map": {}, "image_processor_type": "KimiVLImageProcessor", "in_token_limit": 64, "patch_size": 8, "num_pooled_tokens": 1024,
                     "pad_input": True, "merge_kernel_size": [2, 2]}
    normal = CLIP
    sizes = [[90, 70], [64, 48], [64, 64], [50, 30], [5, 40]]
    more = {"projector.scale_factor": 2, "image_max_pixels": 4096}

    def keys(self):
        return {name: value for name, value in super().keys().items() if not name.startswith("vision.")}

    def gguf_op(self, ours):
        return ""

    def published(self, out):
        names = {"mm_projector.pre_norm": "multi_modal_projector.pre_norm", "mm_projector.proj.0": "multi_modal_projector.linear_1",
                 "mm_projector.proj.2": "multi_modal_projector.linear_2"}
        for row in out["folder"]:
            module, _, leaf = row[0].rpartition(".")
            row[0] = f"{names.get(module, module)}.{leaf}"
        gguf = []
        for name, ours, op, shape in out["gguf"]:
            if ".attn_qkv." in name:
                gguf += [[name.replace("qkv", part), ours, f"part {i}", [shape[0] // 3, *shape[1:]]] for i, part in enumerate("qkv")]
            else:
                gguf.append([name, ours, op, [64, 48] if ours == "v.position_embd.weight" else shape])
        out["gguf"] = gguf
        out["config"] = {"architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "ignore_index": -100,
                         "media_placeholder_token_id": 92, "tie_word_embeddings": False, "text_config": out["config"]["text_config"],
                         "vision_config": {"model_type": "moonvit", "hidden_size": 48, "init_pos_emb_height": 8, "init_pos_emb_width": 8,
                                           "intermediate_size": 80, "merge_kernel_size": [2, 2], "num_attention_heads": 2,
                                           "num_hidden_layers": 2, "patch_size": 8}}


class Dots(Plain):
    """dots.ocr, which transformers does not have: the formulas of its authors' code (modeling_dots_vision.py) in 64-bit floats, and
    the authors' Qwen 2 behind them."""
    name, projector, epsilon, image_size, gelu = "dots", "dots_ocr", 1e-5, 0, False
    sizes = [[90, 70], [80, 64], [64, 48], [200, 9]]
    encoder = {"attn_implementation": "flash_attention_2", "embed_dim": 48, "gradient_checkpointing": False, "hidden_size": 64,
               "init_merger_std": 0.02, "initializer_range": 0.02, "intermediate_size": 80, "is_causal": False, "num_attention_heads": 2,
               "num_channels": 3, "num_hidden_layers": 2, "patch_size": 8, "post_norm": True, "rms_norm_eps": 1e-5, "spatial_merge_size": 2,
               "temporal_patch_size": 1, "use_bias": False}
    text = {key: value for key, value in LLAMA_LIKE.items() if key != "head_dim"} | {"rms_norm_eps": 1e-6, "rope_theta": 1000000}
    config = {"architectures": ["DotsOCRForCausalLM"], "model_type": "dots_ocr", "auto_map": {}, "attention_bias": True, "attention_dropout": 0.0,
              "hidden_act": "silu", "image_token_id": 92, "video_token_id": 93, "max_window_layers": 28, "sliding_window": 131072,
              "use_sliding_window": False, "use_cache": True, **text, "vision_config": encoder}
    pixels = PIXELS | CLIP | {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 4096, "max_pixels": 5120, "merge_size": 2, "patch_size": 8,
                              "temporal_patch_size": 1, "resample": 3, "size": {"min_pixels": 4096, "max_pixels": 5120}}
    more = {"projector.scale_factor": 2, "image_min_pixels": 4096, "image_max_pixels": 5120}
    scale = Family.scale | {"attn_qkv.weight": 2.0}

    def vision(self):
        self.encoder = self.encoder | {"hidden_size": 48}
        return super().vision()

    def keys(self):
        return super().keys() | {"clip.use_silu": True}

    def write(self):
        d, p = 48, 8
        linear = lambda name, rows, cols: {name + ".weight": [rows, cols], name + ".bias": [rows]}
        shapes = {"v.patch_embd.weight": [d, 3, p, p], "v.patch_embd.bias": [d], "v.pre_ln.weight": [d], "mm.post_norm.weight": [d],
                  "mm.input_norm.weight": [d], "mm.input_norm.bias": [d], **linear("mm.0", 4 * d, 4 * d), **linear("mm.2", 64, 4 * d)}
        theirs = {"v.patch_embd": "patch_embed.patchifier.proj", "v.pre_ln": "patch_embed.patchifier.norm", "mm.post_norm": "post_trunk_norm",
                  "mm.input_norm": "merger.ln_q", "mm.0": "merger.mlp.0", "mm.2": "merger.mlp.2"}
        for i in range(2):
            b = f"v.blk.{i}."
            shapes |= {b + "ln1.weight": [d], b + "ln2.weight": [d], b + "attn_qkv.weight": [3 * d, d], b + "attn_out.weight": [d, d],
                       b + "ffn_gate.weight": [80, d], b + "ffn_up.weight": [80, d], b + "ffn_down.weight": [d, 80]}
            parts = {"ln1": "norm1", "ln2": "norm2", "attn_qkv": "attn.qkv", "attn_out": "attn.proj", "ffn_gate": "mlp.fc1", "ffn_up": "mlp.fc3",
                     "ffn_down": "mlp.fc2"}
            theirs |= {b + ours: f"blocks.{i}.{part}" for ours, part in parts.items()}
        base, folder, self.w = [], [], {}
        for name, shape in shapes.items():
            scale, offset = self.base(name, shape)
            base.append([name, shape, scale, offset])
            self.w[name] = torch.from_numpy((offset + scale * weights(name, shape).astype(np.float64)).astype(np.float32)).double()
            module, _, leaf = name.rpartition(".")
            folder.append([f"vision_tower.{theirs[module]}.{leaf}", name, "", shape])
        with Float64(), torch.no_grad():
            self.qwen = transformers.Qwen2ForCausalLM._from_config(transformers.Qwen2Config(**self.text), attn_implementation="eager").eval()
            text = [[name, list(tensor.shape)] for name, tensor in self.qwen.state_dict().items()]
            self.qwen.load_state_dict({name: torch.from_numpy(weights(name, shape)).double() for name, shape in text})
            cases = [self.case(i, size) for i, size in enumerate(self.sizes)]
        out = {"family": self.name, "keys": self.keys(), "config": self.config, "pixels": self.pixels, "base": base,
               "gguf": [[name, name, "", shape] for name, shape in shapes.items()], "folder": folder, "text": text, "pictures": cases}
        with open(os.path.join(HERE, self.name + ".json"), "w") as f:
            f.write(json.dumps(out, separators=(",", ":")) + "\n")
        print(self.name, [(c["size"], c["n_rows"], c["runs"]) for c in cases])

    def run(self, image, with_logits):
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize
        F, w = torch.nn.functional, self.w
        H, W = smart_resize(image.size[1], image.size[0], 16, 4096, 5120)
        a, grid = blocks(normalized(self.pixels, np.asarray(image.resize((W, H), 3)).transpose(2, 0, 1)), 8, 2)
        rms = lambda x, name: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w[name + ".weight"]
        linear = lambda x, name: x @ w[name + ".weight"].T + w.get(name + ".bias", 0)
        x = rms(torch.from_numpy(a).flatten(1) @ w["v.patch_embd.weight"].flatten(1).T + w["v.patch_embd.bias"], "v.pre_ln")
        _, lines, columns = grid[0].tolist()
        order = lambda places: places.reshape(lines // 2, 2, columns // 2, 2).transpose(1, 2).flatten().double()
        row, column = torch.meshgrid(torch.arange(lines), torch.arange(columns), indexing="ij")
        freq = 10000.0 ** (-torch.arange(0, 12, 2, dtype=torch.float64) / 12)
        angles = torch.cat([order(row)[:, None] * freq, order(column)[:, None] * freq], 1)
        cos, sin = (torch.cat([f(angles)] * 2, 1)[:, None] for f in (torch.cos, torch.sin))
        turn = lambda x: x * cos + torch.cat([-x[..., 12:], x[..., :12]], -1) * sin
        for i in range(2):
            b = f"v.blk.{i}."
            q, k, v = linear(rms(x, b + "ln1"), b + "attn_qkv").reshape(-1, 3, 2, 24).unbind(1)
            scores = torch.einsum("ihd,jhd->hij", turn(q), turn(k)) / 24 ** 0.5
            x = x + linear(torch.einsum("hij,jhd->ihd", F.softmax(scores, -1), v).flatten(1), b + "attn_out")
            h = rms(x, b + "ln2")
            x = x + linear(F.silu(linear(h, b + "ffn_gate")) * linear(h, b + "ffn_up"), b + "ffn_down")
        x = F.layer_norm(rms(x, "mm.post_norm"), [48], w["mm.input_norm.weight"], w["mm.input_norm.bias"], 1e-6)
        rows = linear(F.gelu(linear(x.reshape(-1, 192), "mm.0")), "mm.2")
        logits = None
        if with_logits:
            before, after = (self.qwen.get_input_embeddings()(torch.tensor(tokens)) for tokens in PROMPT)
            logits = self.qwen(inputs_embeds=torch.cat([before, rows, after])[None]).logits[0, -1].tolist()
        return rows, [ids("<|img|>"), len(rows), ids("<|endofimg|>")], logits


FAMILIES = [MiniCpm(), KimiK25(), KimiVl(), Dots(), Llama4(), Llava16(), Gemma4(), Gemma4Large(), Gemma4Unified(), Lfm2(), LightOnOcr(), Glm4v(), Glm5Next(), Qwen35(), PaddleOcr()]

for name in sys.argv[1:]:
    next(family for family in FAMILIES if family.name == name).write()
