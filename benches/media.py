#!/usr/bin/env python3
"""Measures what pictures and sounds cost, on random weights in published shapes: tokens, milliseconds, bytes.

    make edit && mkdir -p build/media && cp -r bindings/python/realizar build/media
    cp build/edit/librealizar.so.1 build/media/realizar/librealizar.so
    PYTHONPATH=build/media benches/media.py [SHAPE...] [--size 1024x768] [--first-token] [--peer llama-mtmd-cli]

A picture is noise of `--size`, a sound 30 seconds of it. Products are counted from the shapes, those of attention and
the projector with them; their roof is `--roof PROGRAM`, the built benches/matmul.rs: half of the rate of 8-bit numbers.
The model behind a picture has the published width, names in its vocabulary and, with `--first-token`, layers (in
Q4_K_M); else a few layers, which are not run. `--first-token` reads the picture and a question, then a second question
on the same picture. A peer, llama.cpp's llama-mtmd-cli, reads the same files and the same picture in turns with it; its
times are those that it prints, without resizing and without the question. `--files FOLDER` keeps the files. Needs
numpy.
"""
import argparse
import os
import re
import struct
import subprocess
import tempfile
import time

import numpy as np

import realizar
import synthetic

# Width, feed-forward width, layers, heads, bins.
SOUNDS = {
    "whisper-tiny": (384, 1536, 4, 6, 80),
    "whisper-base": (512, 2048, 6, 8, 80),
    "qwen2-audio": (1280, 5120, 32, 20, 128),
}
PLACES, STACK, INNER, ROWS = 1500, 8, 64, 64


def picture(projector, width, ffn, layers, heads, patch, side, hidden, merge=1, parts="", names=(), text=None, **keys):
    """`side`: of a tile or of the table of places; `parts`: what else layers and their ends have; `text`: the model."""
    return dict(projector=projector, width=width, ffn=ffn, layers=layers, heads=heads, patch=patch, side=side, hidden=hidden,
                merge=merge, parts=parts.split(), names=names, text=text, keys=keys)


PICTURES = {
    "smolvlm-256m": picture("idefics3", 768, 3072, 12, 12, 16, 512, 576, 4, "post_ln", text="smolvlm-256m",
                            preproc_image_size=2048, **{"projector.scale_factor": 4}),
    "qwen3-vl-2b": picture("qwen3vl_merger", 1024, 4096, 24, 16, 16, 768, 2048, 2, "frames qkv post_ln", text="qwen3-vl-2b",
                           spatial_merge_size=2, is_deepstack_layers=[i in (5, 11, 17) for i in range(24)]),
    "gemma-3-4b": picture("gemma3", 1152, 4304, 27, 16, 14, 896, 2560, 4, "post_ln", ["<start_of_image>", "<end_of_image>"]),
    "llava-1.5-7b": picture("mlp", 1024, 4096, 23, 16, 14, 336, 4096, 1, "class pre_ln"),
    "internvl3-1b": picture("internvl", 1024, 4096, 24, 16, 14, 448, 896, 2, "class scales", ["<img>", "</img>"],
                            **{"projector.scale_factor": 2}),
    "pixtral-12b": picture("pixtral", 1024, 4096, 24, 16, 16, 1024, 5120, 1, "gate rms", ["[IMG_BREAK]", "[IMG_END]"]),
}


def keys(f, kind, shape):
    f.key(".general.architecture", "clip")
    f.key(f"has_{kind}_encoder", True)
    for name, value in shape.items():
        f.key(f"{kind}.{name}", value)


def biased(f, name, rows, cols):
    f.matrix(name, rows, cols)
    f.vector(name + ".bias", rows)


def describe_sound(shape, kind):
    width, ffn, layers, heads, bins = shape
    f = synthetic.File("clip", {}, kind)
    keys(f, "audio", {"embedding_length": width, "feed_forward_length": ffn, "block_count": layers,
                      "attention.head_count": heads, "attention.layer_norm_epsilon": 1e-5, "num_mel_bins": bins,
                      "projector.stack_factor": STACK})
    f.key("projector_type", "ultravox")
    for i, inputs in ((1, bins), (2, width)):
        f.vector(f"a.conv1d.{i}.weight", 3, inputs, width)
        f.vector(f"a.conv1d.{i}.bias", width)
    f.vector("a.position_embd.weight", width, PLACES)
    norms = ["a.post_ln"]
    for p in (f"a.blk.{i}." for i in range(layers)):
        norms += [p + "ln1", p + "ln2"]
        matrices = [(f"attn_{part}", width, width) for part in ("q", "k", "v", "out")]
        for name, rows, cols in matrices + [("ffn_up", ffn, width), ("ffn_down", width, ffn)]:
            biased(f, p + name, rows, cols)
    for name in norms:
        f.vector(name + ".weight", width)
        f.vector(name + ".bias", width)
    f.norms("mm.a.", STACK * width, "norm_pre")
    f.norms("mm.a.", INNER, "norm_mid")
    f.matrix("mm.a.mlp.1", 2 * INNER, STACK * width)
    f.matrix("mm.a.mlp.2", ROWS, INNER)
    return f


def describe_picture(s, kind):
    f = synthetic.File("clip", {}, kind)
    width, ffn, hidden, block, parts = s["width"], s["ffn"], s["hidden"], s["width"] * s["merge"] ** 2, s["parts"]
    f.key("projector_type", s["projector"])
    f.key("use_silu" if "gate" in parts else "use_gelu", True)
    keys(f, "vision", {"embedding_length": width, "feed_forward_length": ffn, "block_count": s["layers"],
                       "attention.head_count": s["heads"], "attention.layer_norm_epsilon": 1e-6, "image_size": s["side"],
                       "patch_size": s["patch"], "projection_dim": hidden, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
                       **s["keys"]})

    def norm(name, n=width):
        f.vector(name + ".weight", n)
        if "rms" not in parts:
            f.vector(name + ".bias", n)

    for frame in (".weight", ".weight.1") if "frames" in parts else (".weight",):
        f.vector("v.patch_embd" + frame, s["patch"], s["patch"], 3, width)
    if "class" in parts:
        f.vector("v.class_embd", width)
    elif "rms" not in parts:
        f.vector("v.patch_embd.bias", width)
    if "rms" not in parts:
        f.vector("v.position_embd.weight", width, (s["side"] // s["patch"]) ** 2 + ("class" in parts))
    for name in ("pre_ln", "post_ln"):
        if name in parts or name == "pre_ln" and "rms" in parts:
            norm("v." + name)
    matrix = f.matrix if "rms" in parts else lambda *of: biased(f, *of)
    for p in (f"v.blk.{i}." for i in range(s["layers"])):
        norm(p + "ln1")
        norm(p + "ln2")
        for part in ("qkv",) if "qkv" in parts else ("q", "k", "v"):
            matrix(f"{p}attn_{part}", len(part) * width, width)
        matrix(p + "attn_out", width, width)
        for part in ("gate", "up") if "gate" in parts else ("up",):
            matrix(f"{p}ffn_{part}", ffn, width)
        matrix(p + "ffn_down", width, ffn)
        if "scales" in parts:
            f.vector(p + "ls1.weight", width)
            f.vector(p + "ls2.weight", width)
    projector = s["projector"]
    if projector == "idefics3":
        f.matrix("mm.model.fc", hidden, block)
    elif projector == "gemma3":
        f.matrix("mm.input_projection", width, hidden)
        f.norms("mm.", width, "soft_emb_norm")
    elif projector == "qwen3vl_merger":
        biased(f, "mm.0", block, block)
        biased(f, "mm.2", hidden, block)
        for p in (f"v.deepstack.{i}." for i, deep in enumerate(s["keys"]["is_deepstack_layers"]) if deep):
            norm(p + "norm", block)
            biased(f, p + "fc1", block, block)
            biased(f, p + "fc2", hidden, block)
    else:
        if projector == "internvl":
            norm("mm.model.mlp.0", block)
        if projector == "pixtral":
            f.vector("v.token_embd.img_break", hidden)
        ends = {"internvl": ("model.mlp.1", "model.mlp.3"), "pixtral": ("1", "2"), "mlp": ("0", "2")}[projector]
        biased(f, f"mm.{ends[0]}", hidden, block)
        biased(f, f"mm.{ends[1]}", hidden, hidden)
    return f


def describe_model(s, layers):
    """The model behind an encoder; `layers`: all that it has, else a few."""
    if s["text"]:
        arch, shape = synthetic.MODELS[s["text"]]
        return synthetic.describe(arch, dict(shape, layers=shape["layers"] if layers else 3), "Q4_K_M")
    shape = synthetic.dense(1, s["hidden"], 256, 4, 4, 64, 1024, True, 1e4, 8192, names=s["names"])
    return synthetic.describe("llama", shape, "Q8_0")


def n_tiles(info):
    return max(1, info.tile_columns * info.tile_lines + info.has_overview)


def products(f, s, info):
    """Multiplications of the encoder and the projector for a picture, class tokens left out."""
    any_size = s["projector"] in ("qwen3vl_merger", "pixtral")
    n = (info.seen_width * info.seen_height if any_size else s["side"] ** 2) // s["patch"] ** 2
    rows = n // s["merge"] ** 2
    weights = sum((n if name.startswith("v.blk.") else rows) * shape[0] * shape[1] for name, shape, _ in f.tensors
                  if name.endswith("weight") and len(shape) == 2 and "position" not in name)
    return n_tiles(info) * (weights + 3 * s["patch"] ** 2 * s["width"] * n + 2 * n * n * s["width"] * s["layers"])


def bmp(pixels):
    """A BMP file, whose rows go upwards, blue first."""
    height, width, _ = pixels.shape
    rows = np.zeros((height, (3 * width + 3) // 4 * 4), np.uint8)
    rows[:, :3 * width] = pixels[::-1, :, ::-1].reshape(height, -1)
    head = struct.pack("<2sIHHI", b"BM", 54 + rows.size, 0, 0, 54)
    return head + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, rows.size, 0, 0, 0, 0) + rows.tobytes()


def spread(times):
    times = sorted(times)
    return f"{times[len(times) // 2]:.0f} ms ({times[0]:.0f} to {times[-1]:.0f})"


def ask(model, session, media, question):
    """Reads a picture and a question up to the first token, but for what the session has read before."""
    prompt = realizar.Prompt(model, [media, model.tokenize(question)])
    common = session.match(prompt)
    session.truncate(common)
    session.prefill(prompt, first=common)
    session.sample()


def of_peer(args, model, encoder, image):
    """Milliseconds in which the peer encodes a picture, and in which it reads the rows."""
    command = [args.peer, "-m", model, "--mmproj", encoder, "--image", image, "-p", "x", "-n", "1", "-c", "8192",
               "--chat-template", "chatml", "-t", str(args.threads or os.cpu_count()), "--temp", "0", "-lv", "4"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    told = ("encoding done in", r"decoded \(batch \d+/\d+\) in")
    found = [sum(map(int, re.findall(of + r" (\d+) ms", ran.stdout))) for of in told]
    if ran.returncode or not all(found):
        raise SystemExit(ran.stdout[-2000:])
    return found


def roof(args):
    if not args.roof:
        return None
    ran = subprocess.run([args.roof, "--threads", str(args.threads or os.cpu_count()), "--hot", "--shape", "64x64", "F32"],
                         capture_output=True, text=True, check=True)
    return float(re.search(r"dot products (\d+) GMAC/s", ran.stdout).group(1)) / 2


def measure_picture(args, name, folder):
    s, parts = PICTURES[name], ("text" if args.first_token else "model", f"mmproj-{args.type}")
    paths, f = [os.path.join(folder, f"{name}-{part}.gguf") for part in parts], describe_picture(s, args.type)
    for path, what in zip(paths, (describe_model(s, args.first_token), f)):
        if not os.path.exists(path):
            synthetic.write(what, path, 1)
    model = realizar.Model(paths[0], threads=args.threads)
    encoder = realizar.Encoder(model, paths[1])
    width, height = map(int, args.size.split("x"))
    pixels = np.random.default_rng(2).integers(0, 256, (height, width, 3), np.uint8)
    encoded, read, again, theirs, info, most = [], [], [], [], None, roof(args)
    for _ in range(args.runs):
        began = time.perf_counter()
        media = encoder.encode(pixels, max_tiles=args.max_tiles)
        info = media.info
        encoded.append(info.encode_ns / 1e6)
        if args.first_token:
            with model.session() as session:
                ask(model, session, media, "What is this?")
                read.append((time.perf_counter() - began) * 1e3)
                ask(model, session, media, "And what is that?")
                again.append((time.perf_counter() - began) * 1e3 - read[-1])
        if args.peer:
            image = os.path.join(folder, "picture.bmp")
            with open(image, "wb") as out:
                out.write(bmp(pixels))
            theirs.append(of_peer(args, *paths, image))
    tiles, rate = n_tiles(info), products(f, s, info) / min(encoded) / 1e6
    scratch = encoder.plan(model, paths[1], max_rows=info.n_rows // tiles).scratch_host
    print(f"{name} {args.type}, {args.size}: {info.n_tokens} tokens of {tiles} tiles, encoded in {spread(encoded)}, "
          f"{rate:.0f} G products a second{f', {100 * rate / most:.0f} % of {most:.0f}' if most else ''}; "
          f"weights {encoder.info.weight_bytes / 1e6:.0f} MB, scratch {scratch / 1e6:.0f} MB, "
          f"rows {info.bytes / 1e6:.2f} MB", flush=True)
    if read:
        print(f"  first token in {spread(read)}, of another question {spread(again)}", flush=True)
    if theirs:
        encoded, read = zip(*theirs)
        print(f"  peer: encoded in {spread(encoded)}, first token in {spread(map(sum, theirs))}", flush=True)


def measure_sound(args, name, folder):
    tiny = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/data/stories260K-f32.gguf")
    sound = np.random.default_rng(2).standard_normal(30 * 16000).astype(np.float32) * 0.1
    path = os.path.join(folder, f"{name}-mmproj-{args.type}.gguf")
    # The projector is Ultravox's, with rows for the tiny model of the tests, which needs no tokens around them and
    # takes next to no time.
    if not os.path.exists(path):
        synthetic.write(describe_sound(SOUNDS[name], args.type), path, 1)
    encoder = realizar.Encoder(realizar.Model(tiny, threads=args.threads), path)
    times = [encoder.encode_sound(sound, 16000).info.encode_ns / 1e6 for _ in range(args.runs)]
    print(f"{name} {args.type}: 30 s of sound in {spread(times)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", default=["smolvlm-256m", "whisper-tiny"],
                        help=", ".join([*PICTURES, *SOUNDS]))
    parser.add_argument("--type", choices=["F32", "F16", "Q8_0"], default="F16")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", default="1024x768")
    parser.add_argument("--max-tiles", type=int, default=0)
    parser.add_argument("--first-token", action="store_true")
    parser.add_argument("--peer")
    parser.add_argument("--roof")
    parser.add_argument("--files")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.files or temporary
        os.makedirs(folder, exist_ok=True)
        for name in args.shapes:
            (measure_picture if name in PICTURES else measure_sound)(args, name, folder)


if __name__ == "__main__":
    main()
