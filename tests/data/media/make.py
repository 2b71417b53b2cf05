#!/usr/bin/env python3
"""Writes the pictures of this folder and pictures.json: what Pillow 12 and the processors of transformers make of them.

Needs numpy, xxhash, pillow 12, torch, torchvision and transformers 5.24.
"""
import io, json, math, os, struct, zlib
import numpy as np, torch, xxhash
from PIL import Image, ImageOps, PngImagePlugin
from transformers.image_processing_utils import select_best_resolution
from transformers.image_utils import SizeDict
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma4.image_processing_pil_gemma4 import get_aspect_ratio_preserving_size
from transformers.models.glm4v.image_processing_pil_glm4v import smart_resize as smart_resize_glm4v
from transformers.models.glm5_next.image_processing_pil_glm5_next import Glm5NextImageProcessorPil, smart_resize as smart_resize_glm5
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil, get_optimal_tiled_canvas
from transformers.models.idefics3 import image_processing_pil_idefics3 as idefics3
from transformers.models.kimi_k25.image_processing_kimi_k25 import navit_resize
from transformers.models.lfm2_vl.image_processing_lfm2_vl import Lfm2VlImageProcessor
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.llama4 import image_processing_llama4 as llama4
from transformers.models.paddleocr_vl.image_processing_pil_paddleocr_vl import smart_resize as smart_resize_paddleocr
from transformers.models.pixtral import image_processing_pil_pixtral as pixtral
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize
from transformers.models.siglip2.image_processing_pil_siglip2 import get_image_size_for_max_num_patches

HERE = os.path.dirname(os.path.abspath(__file__))
FILTERS = {"bilinear": 2, "bicubic": 3, "lanczos": 1, "nearest": 0, "box": 4, "hamming": 5}


def noise(w, h, channels=3):
    """The picture that tests make again: bytes by their places, a third of them black or white."""
    x = np.arange(w * h * channels, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(w * 31 + h)
    x ^= x >> np.uint32(15)
    x *= np.uint32(2246822519)
    x = (x >> np.uint32(24)).astype(np.uint8)
    x[x < 43] = 0
    x[x > 212] = 255
    return x.reshape(h, w, channels)


def smooth(w, h):
    """A picture that lossy formats keep."""
    y, x = np.mgrid[:h, :w].astype(float)
    a = np.stack([255 * x / max(w - 1, 1), 255 * y / max(h - 1, 1), 128 + 100 * np.sin(x / 5) * np.cos(y / 7)], -1)
    a[(x - w / 2) ** 2 + (y - h / 2) ** 2 < (min(w, h) / 4) ** 2] = (250, 40, 60)
    return a.astype(np.uint8)


def xx(a):
    return "%016x" % xxhash.xxh64(np.ascontiguousarray(a, np.uint8).tobytes(), seed=0).intdigest()


def resized():
    out = []
    for f, code in FILTERS.items():
        for w, h, W, H in ((37, 23, 64, 64), (200, 150, 31, 77), (64, 64, 64, 20), (64, 64, 20, 64), (5, 300, 17, 9), (300, 5, 9, 17),
                           (1, 1, 8, 8), (2, 1, 7, 5), (160, 120, 112, 84), (97, 89, 96, 90), (1, 700, 30, 30), (50, 50, 50, 50), (999, 3, 1, 1)):
            out.append([w, h, W, H, f, xx(Image.fromarray(noise(w, h)).resize((W, H), code))])
    return out


class Shape:
    """A picture of which functions only ask the size."""

    def __init__(self, w, h):
        self.shape, self.ndim = (3, h, w), 3


def split_longest(w, h, longest, tile):
    H, W = idefics3._resize_output_size_rescale_to_max_len(h, w, max_len=longest)
    H, W = idefics3._resize_output_size_scale_below_upper_bound(H, W, max_len=idefics3.MAX_IMAGE_SIZE)
    p = idefics3.Idefics3ImageProcessorPil()
    p.resize = lambda image, size, resample: size
    s = p.resize_for_vision_encoder(Shape(W, H), tile)
    return [tile, tile, s.width // tile, s.height // tile]


def minicpm_grid(w, h, side, most):
    """Columns and lines of MiniCPM-V's slices, after its authors' processor, which transformers does not have."""
    n = min(math.ceil(w * h / (side * side)), most)
    grids = [(x, i // x) for i in (n - 1, n, n + 1) if 1 < i <= most for x in range(1, i + 1) if i % x == 0]
    return min(grids, key=lambda g: abs(math.log(w / h) - math.log(g[0] / g[1]))) if n > 1 else (1, 1)


def minicpm_size(w, h, side, patch, enlarge):
    if w * h > side * side or enlarge:
        ratio = w / h
        h = int(side / math.sqrt(ratio))
        w = int(h * ratio)
    return tuple(max(round(x / patch) * patch, patch) for x in (w, h))


def sizes():
    rng = np.random.default_rng(7)
    given = [(1, 1), (1, 2), (2, 1), (1, 65535), (65535, 1), (65535, 65535), (327, 65535), (65535, 328), (14, 14), (28, 28), (42, 42), (27, 5400),
             (336, 336), (335, 337), (448, 448), (896, 448), (448, 896), (512, 512), (513, 512), (512, 513), (1024, 1024), (1025, 1024), (1540, 1539),
             (2048, 1), (1, 2048), (3, 400), (640, 480), (480, 640), (1920, 1080), (1080, 1920), (4032, 3024), (3000, 4000), (700, 500), (98, 98)]
    given += [tuple(int(x) for x in 2 ** rng.uniform(0, 13, 2)) for _ in range(100)]
    given += [(int(w), int(w * r)) for w, r in zip(rng.integers(50, 3000, 60), rng.uniform(0.3, 3, 60))]

    def area(grain, least, most):
        def f(w, h):
            H, W = smart_resize(h, w, grain, least, most)
            return [W, H, 1, 1]
        return f

    def narrow_area(grain, least, most, narrow):
        def f(w, h):
            if narrow == "cut":                              # of two frames
                H, W = smart_resize_glm4v(2, h, w, 2, grain, 2 * least, 2 * most)
            else:
                H, W = smart_resize_paddleocr(h, w, grain, least, most)
            return [W, H, 1, 1]
        return f

    def pinpoints(tile, grids):
        def f(w, h):
            H, W = select_best_resolution((h, w), [(tile * y, tile * x) for x, y in grids])
            return [tile, tile, W // tile, H // tile]
        return f

    def canvas(tile, max_tiles):
        grids = torch.tensor(llama4.find_supported_resolutions(max_tiles, SizeDict(height=tile, width=tile)))

        def f(w, h):
            H, W = llama4.get_best_fit((h, w), grids)
            return [tile, tile, W // tile, H // tile]
        return f

    def slices(side, patch, max_tiles):
        def f(w, h):
            columns, lines = minicpm_grid(w, h, side, max_tiles)
            if columns * lines > 1:
                w, h = (max(round(w / columns), 1), max(round(h / lines), 1))
            return [*minicpm_size(w, h, side, patch, True), columns, lines]
        return f

    def rows(grain, n):
        def f(w, h):
            H, W = get_aspect_ratio_preserving_size(h, w, grain // 3, 9 * n, 3)
            return [W, H, 1, 1]
        return f

    def split_large(grain, patch, least, most, large, tile, min_tiles, max_tiles):
        p = Lfm2VlImageProcessor()
        args = dict(encoder_patch_size=patch, downsample_factor=grain // patch, max_image_tokens=most // grain ** 2)

        def f(w, h):
            if p._is_image_too_large(h, w, max_pixels_tolerance=large / most, **args):
                return [tile, tile, *p._get_grid_layout(h, w, min_tiles, max_tiles, tile)[:2]]
            return [*p.smart_resize(h, w, min_image_tokens=least // grain ** 2, **args), 1, 1]
        return f

    def longest_edge(longest, grain):
        def f(w, h):
            H, W = pixtral.get_resize_output_image_size(np.broadcast_to(np.uint8(0), (3, h, w)), longest, grain, "channels_first")
            return [W, H, 1, 1]
        return f

    def padded(patch, grain, most, longest):
        def f(w, h):
            _, (H, W) = navit_resize(h, w, patch, grain // patch, most, longest // patch)
            return [W, H, 1, 1]
        return f

    def fitted(grain, least, most):
        def f(w, h):
            H, W = smart_resize_glm5(2, h, w, 2, grain, least // grain ** 2, most // grain ** 2)
            return [W, H, 1, 1]
        return f

    def filled(patch, most):
        def f(w, h):
            H, W = get_image_size_for_max_num_patches(h, w, patch, most)
            return [W, H, 1, 1]
        return f

    rules = [
        ({"rule": "area", "grain": 28, "least": 3136, "most": 12845056}, area),
        ({"rule": "area", "grain": 32, "least": 65536, "most": 16777216}, area),
        ({"rule": "area", "grain": 28, "least": 784, "most": 100352}, area),
        ({"rule": "area", "grain": 28, "least": 6272, "most": 5880000, "narrow": "cut"}, narrow_area),
        ({"rule": "area", "grain": 28, "least": 147384, "most": 2822400, "narrow": "rounded"}, narrow_area),
        ({"rule": "pinpoints", "tile": 336, "grids": [[2, 1], [1, 2], [2, 2], [1, 3], [3, 1]]}, pinpoints),
        ({"rule": "canvas", "tile": 336, "max_tiles": 16}, canvas),
        ({"rule": "canvas", "tile": 28, "max_tiles": 5}, canvas),
        ({"rule": "slices", "side": 448, "patch": 14, "max_tiles": 9}, slices),
        ({"rule": "slices", "side": 70, "patch": 14, "max_tiles": 12}, slices),
        ({"rule": "padded", "patch": 14, "grain": 28, "most": 16384, "longest": 7168}, padded),
        ({"rule": "padded", "patch": 14, "grain": 28, "most": 100, "longest": 210}, padded),
        ({"rule": "fitted", "grain": 28, "least": 12544, "most": 6272000}, fitted),
        ({"rule": "fitted", "grain": 16, "least": 3072, "most": 5120}, fitted),
        ({"rule": "filled", "patch": 16, "most": 256}, filled),
        ({"rule": "filled", "patch": 14, "most": 1000}, filled),
        ({"rule": "rows", "grain": 48, "rows": 280}, rows),
        ({"rule": "rows", "grain": 48, "rows": 1120}, rows),
        ({"rule": "split_large", "grain": 32, "patch": 16, "least": 65536, "most": 262144, "large": 524288, "tile": 512, "min_tiles": 2,
          "max_tiles": 10}, split_large),
        ({"rule": "longest_edge", "longest": 1024, "grain": 16}, longest_edge),
        ({"rule": "longest_edge", "longest": 1540, "grain": 28}, longest_edge),
        ({"rule": "split_longest", "longest": 2048, "tile": 512}, lambda l, t: lambda w, h: split_longest(w, h, l, t)),
        ({"rule": "split_longest", "longest": 1456, "tile": 364}, lambda l, t: lambda w, h: split_longest(w, h, l, t)),
        ({"rule": "split_longest", "longest": 101, "tile": 7}, lambda l, t: lambda w, h: split_longest(w, h, l, t)),
        ({"rule": "split_longest", "longest": 5001, "tile": 512}, lambda l, t: lambda w, h: split_longest(w, h, l, t)),
        ({"rule": "split_ratio", "tile": 448, "min_tiles": 1, "max_tiles": 12},
         lambda t, a, b: lambda w, h: [t, t, *get_optimal_tiled_canvas((h, w), (t, t), a, b)]),
        ({"rule": "split_ratio", "tile": 384, "min_tiles": 3, "max_tiles": 7},
         lambda t, a, b: lambda w, h: [t, t, *get_optimal_tiled_canvas((h, w), (t, t), a, b)]),
    ]
    out = []
    for rule, make in rules:
        f, results = make(*list(rule.values())[1:]), []
        for w, h in given:
            try:
                r = [int(x) for x in f(w, h)]
            except (ValueError, ZeroDivisionError):
                r = None
            results.append(r if r and all(r) else None)
        out.append({**rule, "results": results})
    return {"given": given, "rules": out}


def tiles():
    """Bytes of tiles, by the whole processors."""
    raw = dict(do_rescale=False, do_normalize=False)
    out = []

    def case(rule, w, h, found):
        out.append({**rule, "filter": rule["filter"], "width": w, "height": h, "tiles": [[a.shape[1], a.shape[0], xx(a)] for a in found]})

    hwc = lambda a: np.asarray(a).transpose(1, 2, 0)
    for w, h in ((100, 75), (75, 100), (61, 61), (40, 200), (300, 20), (7, 9), (1, 30), (250, 249)):
        image = Image.fromarray(noise(w, h))
        p = Gemma3ImageProcessorPil(size={"height": 70, "width": 70}, do_pan_and_scan=False, **raw)
        case({"rule": "square", "side": 70, "filter": "bilinear"}, w, h, [hwc(x) for x in p(image)["pixel_values"]])
        p = CLIPImageProcessorPil(size={"shortest_edge": 42}, crop_size={"height": 42, "width": 42}, **raw)
        case({"rule": "shortest_edge", "side": 42, "filter": "bicubic"}, w, h, [hwc(x) for x in p(image)["pixel_values"]])
        p = LlavaImageProcessorPil(size={"shortest_edge": 42}, crop_size={"height": 42, "width": 42}, do_pad=True, **raw)
        color = [int(x * 255) for x in p.image_mean]
        case({"rule": "expanded", "side": 42, "color": color, "filter": "bicubic"}, w, h, [hwc(x) for x in p(image)["pixel_values"]])
        p = pixtral.PixtralImageProcessorPil(size={"longest_edge": 90}, patch_size={"height": 16, "width": 16}, **raw)
        case({"rule": "longest_edge", "longest": 90, "grain": 16, "filter": "bicubic"}, w, h, [hwc(x) for x in p([image])["pixel_values"]])
        p = idefics3.Idefics3ImageProcessorPil(size={"longest_edge": 130}, max_image_size={"longest_edge": 64}, do_pad=False, **raw)
        case({"rule": "split_longest", "longest": 130, "tile": 64, "filter": "lanczos"}, w, h, [hwc(x) for x in p(image)["pixel_values"][0]])
        p = GotOcr2ImageProcessorPil(size={"height": 56, "width": 56}, crop_to_patches=True, min_patches=1, max_patches=6, **raw)
        case({"rule": "split_ratio", "tile": 56, "min_tiles": 1, "max_tiles": 6, "filter": "bicubic"}, w, h, [hwc(x) for x in p(image)["pixel_values"]])
        p = Qwen2VLImageProcessorPil(size={"shortest_edge": 3136, "longest_edge": 28224}, patch_size=14, merge_size=2, temporal_patch_size=2, **raw)
        got = p(image)
        _, H, W = got["image_grid_thw"][0]
        # Patches in blocks of 2 x 2, two frames each, back into a picture.
        a = np.asarray(got["pixel_values"]).reshape(H // 2, W // 2, 2, 2, 3, 2, 14, 14)[:, :, :, :, :, 0].transpose(0, 2, 5, 1, 3, 6, 4)
        case({"rule": "area", "grain": 28, "least": 3136, "most": 28224, "filter": "bicubic"}, w, h, [a.reshape(H * 14, W * 14, 3)])
        p = Glm5NextImageProcessorPil(patch_size=14, min_image_tokens=4, max_image_tokens=36)
        a = p.resize(noise(w, h).transpose(2, 0, 1), resample=3, factor=28, temporal_factor=2, min_image_tokens=4, max_image_tokens=36)
        case({"rule": "fitted", "grain": 28, "least": 3136, "most": 28224, "filter": "bicubic"}, w, h, [hwc(a)])
    return out


def normalized():
    """Patches of a tile that needs no resizing, every 97th number."""
    p = Qwen2VLImageProcessorPil(size={"shortest_edge": 3136, "longest_edge": 12845056}, patch_size=14, merge_size=2, temporal_patch_size=2)
    a = np.asarray(p(Image.fromarray(noise(112, 84)))["pixel_values"], np.float32).reshape(-1, 3, 2, 14 * 14)[:, :, 0].reshape(-1)
    return {"width": 112, "height": 84, "patch": 14, "merge": 2, "mean": list(p.image_mean), "std": list(p.image_std), "numbers": len(a),
            "every": 97, "values": [round(float(x), 7) for x in a[::97]]}


# ---------------------------------------------------------------------------------------------- files
def write(name, data):
    open(os.path.join(HERE, name), "wb").write(data)


def png(w, h, bits, color, rows, before=b"", interlaced=False):
    chunk = lambda n, d: struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d))
    head = struct.pack(">IIBBBBB", w, h, bits, color, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def without_end(data):
    return data[:-12]


def adam7(a):
    rows = b""
    for y, x, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        part = a[y::dy, x::dx]
        rows += b"".join(b"\0" + line.tobytes() for line in part) if part.size else b""
    return rows


def bmp(a, bits, palette=b"", top_down=False):
    """`a`: rows of bytes as they stand in the file, upwards."""
    h = len(a)
    w = a.shape[1] * 8 // bits
    data = b"".join(line.tobytes() + b"\0" * (-a.shape[1] % 4) for line in (a if top_down else a[::-1]))
    head = struct.pack("<IiiHHIIiiII", 40, w, -h if top_down else h, 1, bits, 0, 0, 0, 0, len(palette) // 4, 0)
    at = 54 + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(data), 0, 0, at) + head + palette + data


def masked(a, bits, masks, header=40):
    """`a`: rows of pixels, by masks of red, green and blue, and of alpha."""
    h, w = a.shape
    data = b"".join(line.astype(f"<u{bits // 8}").tobytes() + b"\0" * (-w * bits // 8 % 4) for line in a[::-1])
    head = struct.pack("<IiiHHIIiiII", header, w, h, 1, bits, 3 if masks else 0, 0, 0, 0, 0, 0)
    head += struct.pack(f"<{len(masks)}I", *masks)
    head += bytes(max(0, header - len(head)))
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(data), 0, 0, 14 + len(head)) + head + data


def runs(w, h, bits, palette, codes):
    head = struct.pack("<IiiHHIIiiII", 40, w, h, 1, bits, 1 if bits == 8 else 2, len(codes), 0, 0, len(palette) // 4, 0)
    at = 54 + len(palette)
    return b"BM" + struct.pack("<IHHI", at + len(codes), 0, 0, at) + head + palette + codes


def run_codes(bits):
    """Rows of 11 pixels: runs, single pixels, a row that is cut by its end, one too long. Pillow misreads jumps."""
    one = lambda *x: bytes(x) if bits == 8 else bytes(a << 4 | b for a, b in zip(x[::2], (*x[1::2], 0)[:len(x[::2])]))
    pair = lambda a, b: a if bits == 8 else a << 4 | b
    even = lambda data: data + b"\0" * (len(data) % 2)
    rows = bytes([11, pair(3, 5), 0, 0])
    rows += bytes([4, pair(1, 1), 0, 6]) + even(one(2, 3, 4, 5, 6, 7)) + bytes([1, pair(9, 9), 0, 0])
    rows += bytes([5, pair(2, 8), 0, 0])
    rows += bytes([2, pair(7, 7), 0, 0]) + bytes([4, pair(6, 4), 0, 0])
    rows += bytes([20, pair(4, 2), 0, 0, 0, 8]) + even(one(1, 2, 3, 4, 5, 6, 7, 8)) + bytes([3, pair(0, 1), 0, 1])
    return rows


def save(image, name, **options):
    b = io.BytesIO()
    image.save(b, **options)
    write(name, b.getvalue())


def exif(orientation):
    e = Image.Exif()
    e[0x112] = orientation
    e[0x10f] = "maker"
    return e


def files():
    a = smooth(41, 29)
    rgb, n = Image.fromarray(a), Image.fromarray(noise(13, 9))
    alpha = Image.fromarray(np.dstack([a, (a[..., 0] // 2 + 60)]))
    save(n, "rgb.png", format="PNG")
    save(alpha, "rgba.png", format="PNG")
    save(n.convert("L"), "gray.png", format="PNG")
    save(alpha.convert("LA"), "gray-alpha.png", format="PNG")
    save(rgb.quantize(60), "palette.png", format="PNG")
    save(rgb.quantize(3), "palette2.png", format="PNG", bits=2)
    save(rgb.quantize(30), "palette-alpha.png", format="PNG", transparency=3)
    save(n.convert("1"), "bits.png", format="PNG")
    wide = noise(11, 7, 6)
    write("rgb16.png", png(11, 7, 16, 2, b"".join(b"\0" + line.tobytes() for line in wide)))
    write("gray16.png", png(11, 7, 16, 0, b"".join(b"\0" + line.tobytes() for line in wide.reshape(7, 11, 6)[..., :2])))
    write("interlaced.png", png(13, 9, 8, 2, adam7(noise(13, 9)), interlaced=True))
    save(rgb, "animated.png", format="PNG", save_all=True, append_images=[Image.fromarray(255 - a)])
    for i in range(1, 9):
        save(Image.fromarray(noise(5, 3)), f"turned{i}.png", format="PNG", exif=exif(i))
        save(Image.fromarray(smooth(16, 8)), f"turned{i}.jpg", format="JPEG", quality=90, subsampling=0, exif=exif(i))
    told = lambda n: (f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="{n}"/></x:xmpmeta>').encode()
    save(Image.fromarray(smooth(16, 8)), "told6.jpg", format="JPEG", quality=90, subsampling=0, xmp=told(6))
    save(n, "told5.webp", format="WEBP", lossless=True, xmp=told(5))
    data = exif(8).tobytes()
    lines = [data.hex()[i : i + 72] for i in range(0, 2 * len(data), 72)]
    profile = "\n".join(["", "exif", f"{len(data):8}", *lines, ""])
    for name, keyword, text, packed in (("told7.png", "XML:com.adobe.xmp", told(7).decode(), False), ("told3.png", "XML:com.adobe.xmp", told(3).decode(), True),
                                        ("profile.png", "Raw profile type exif", profile, False), ("profile-packed.png", "Raw profile type exif", profile, True)):
        info = PngImagePlugin.PngInfo()
        if keyword.startswith("XML"):
            info.add_itxt(keyword, text, zip=packed)
        else:
            info.add_text(keyword, text, zip=packed)
        save(n, name, format="PNG", pnginfo=info)
    save(rgb, "444.jpg", format="JPEG", quality=90, subsampling=0)
    save(rgb, "422.jpg", format="JPEG", quality=90, subsampling=1)
    save(rgb, "420.jpg", format="JPEG", quality=75, subsampling=2)
    save(rgb, "progressive.jpg", format="JPEG", quality=80, progressive=True)
    save(rgb, "restarts.jpg", format="JPEG", quality=80, restart_marker_blocks=2)
    save(rgb.convert("L"), "gray.jpg", format="JPEG", quality=90)
    save(rgb.convert("CMYK"), "cmyk.jpg", format="JPEG", quality=90)
    save(Image.fromarray(smooth(1, 1)), "one.jpg", format="JPEG", quality=90)
    save(rgb, "lossy.webp", format="WEBP", quality=80)
    save(n, "lossless.webp", format="WEBP", lossless=True)
    save(alpha, "lossy-alpha.webp", format="WEBP", quality=80)
    save(alpha, "lossless-alpha.webp", format="WEBP", lossless=True, exact=True)
    save(rgb, "animated.webp", format="WEBP", save_all=True, append_images=[Image.fromarray(255 - a)], quality=80)
    save(rgb, "turned6.webp", format="WEBP", lossless=True, exif=exif(6))
    save(n, "rgb.bmp", format="BMP")
    save(alpha, "rgba.bmp", format="BMP")
    save(n.convert("L"), "gray.bmp", format="BMP")
    save(n.quantize(20), "palette.bmp", format="BMP")
    save(n.convert("1"), "bits.bmp", format="BMP")
    write("top-down.bmp", bmp(noise(13, 9)[..., ::-1].reshape(9, 39), 24, top_down=True))
    colors = noise(16, 1, 4).tobytes()
    write("four-bits.bmp", bmp(noise(7, 9, 1)[..., 0], 4, colors))
    lines = lambda a: b"".join(b"\0" + line.tobytes() for line in a)
    write("rgba16.png", png(9, 7, 16, 6, lines(noise(9, 7, 8))))
    write("gray-alpha16.png", png(9, 7, 16, 4, lines(noise(9, 7, 4))))
    chunk = lambda n, d: struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d))
    spotted = noise(13, 9) // 86 * 86
    write("clear-color.png", png(13, 9, 8, 2, lines(spotted), chunk(b"tRNS", struct.pack(">HHH", *(int(x) for x in spotted[4, 6])))))
    write("clear-gray.png", png(13, 9, 8, 0, lines(spotted[..., 0]), chunk(b"tRNS", struct.pack(">H", int(spotted[4, 6, 0])))))
    several = b"".join(bytes([i * 9, 255 - i * 7, i * 5 % 256]) for i in range(20))
    write("clear-palette.png", png(13, 9, 8, 3, lines(noise(13, 9, 1)[..., 0] % 20),
                                   chunk(b"PLTE", several) + chunk(b"tRNS", bytes(i * 25 for i in range(10)))))
    save(alpha, "clear.webp", format="WEBP", lossless=True, exact=True)
    write("without-end.png", without_end(png(13, 9, 8, 2, lines(noise(13, 9)))))
    write("short-palette.png", png(13, 9, 8, 3, lines(noise(13, 9, 1)[..., 0] % 30), chunk(b"PLTE", several)))
    write("short-palette.bmp", bmp(noise(13, 9, 1)[..., 0] % 30, 8, colors))
    write("555.bmp", masked(noise(9, 7, 2).view("<u2")[..., 0], 16, ()))
    write("565.bmp", masked(noise(9, 7, 2).view("<u2")[..., 0], 16, (0xf800, 0x7e0, 0x1f)))
    write("masks.bmp", masked(noise(9, 7, 4).view("<u4")[..., 0], 32, (0xff000000, 0xff0000, 0xff00)))
    write("masks-alpha.bmp", masked(noise(9, 7, 4).view("<u4")[..., 0], 32, (0xff, 0xff00, 0xff0000, 0xff000000), 108))
    write("runs8.bmp", runs(11, 7, 8, colors, run_codes(8)))
    write("runs4.bmp", runs(11, 7, 4, colors, run_codes(4)))
    few = rgb.quantize(60)
    save(few, "palette.gif", format="GIF", interlace=0)
    save(few, "interlaced.gif", format="GIF", interlace=1)
    save(few, "clear.gif", format="GIF", transparency=7)
    save(few, "animated.gif", format="GIF", save_all=True, append_images=[Image.fromarray(255 - a).quantize(9)])
    palette = open(os.path.join(HERE, "palette.gif"), "rb").read()
    at = palette.index(b"\x2c", 13 + 3 * (2 << (palette[10] & 7)))
    placed = lambda w, h, x, y: palette[:6] + struct.pack("<HH", w, h) + palette[10:at + 1] + struct.pack("<HH", x, y) + palette[at + 5:]
    write("placed.gif", placed(60, 40, 9, 3))
    write("reaching.gif", placed(20, 10, 0, 0))
    whole = open(os.path.join(HERE, "progressive.jpg"), "rb").read()
    ahead = [i for i in range(2, whole.index(b"\xff\xda") + 1) if whole[i] == 255 and whole[i + 1] in (0xc4, 0xdb, 0xc2, 0xda)]
    for i in reversed(ahead):
        whole = whole[:i] + b"\x01\x02\xff\0between" + whole[i:]
    write("gaps.jpg", whole)


def on_white(image):
    """As `convert_to_rgb` of transformers."""
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image).convert("RGB")


def decoded():
    out = []
    for name in sorted(n for n in os.listdir(HERE) if n.endswith((".png", ".jpg", ".webp", ".bmp", ".gif")) and not n.endswith(".jpg.png")):
        image = on_white(ImageOps.exif_transpose(Image.open(os.path.join(HERE, name))))
        a = np.asarray(image)
        if name == "gray-alpha16.png":                       # which Pillow does not read as such
            image = Image.fromarray(np.ascontiguousarray(noise(9, 7, 4)[..., ::2]), "LA")
            a = np.asarray(on_white(image))
        if name == "gray16.png":                             # Pillow cuts at 255 here and takes the high byte of all others
            a = np.repeat(noise(11, 7, 6)[..., :1], 3, -1)
        if name.endswith(".jpg"):
            save(image, name + ".png", format="PNG", optimize=True)
        out.append([name, a.shape[1], a.shape[0], xx(a)])
    return out


files()
json_text = lambda o: json.dumps(o, separators=(",", ":"))
parts = {"resized": resized(), "sizes": sizes(), "tiles": tiles(), "normalized": normalized(), "files": decoded()}
with open(os.path.join(HERE, "pictures.json"), "w") as f:
    f.write("{\n" + ",\n".join(f'"{k}": {json_text(v)}' for k, v in parts.items()) + "\n}\n")
