"""The tiny model of the tests, with a chat template where one asks for it, and one that takes long to load."""

import os
import struct
import unittest

import numpy as np

import realizar

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
STORY = os.path.join(ROOT, "tests", "data", "stories260K-f32.gguf")
ADAPTER = os.path.join(ROOT, "tests", "data", "story-adapter.gguf")
PROMPT = "Once upon a time"
# The greedy text of weights that have the adapter merged in, of an independent float64 implementation.
ADAPTED = ", there was a little girl named Lily. She loved to draw animals with her family."
EXPECTED = ", there was a little girl named Lily. She loved to play outside in the park."


CALLS = (
    "{% for c in m.tool_calls or [] %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</call>{% endfor %}"
)
TOOLS = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
# Texts alone; and roles, with reasoning.
PLAIN = "{{ bos_token }}{% for m in messages %}{{ m.content or '' }}" + CALLS + "{% endfor %}" + TOOLS
REASONS = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content or '' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}"
)
GO = {"type": "function", "function": {"name": "go", "parameters": {
    "type": "object", "properties": {"by": {"enum": ["car", "bus"]}}, "required": ["by"], "additionalProperties": False}}}  # fmt: skip
DIGIT = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": False}


def chat_model(folder, template=PLAIN):
    """The tiny model with a chat template."""
    key, template = b"tokenizer.chat_template", template.encode() + b"{#"
    # A multiple of 32 bytes, so that what is behind keeps its alignment.
    template += b" " * (-(8 + len(key) + 4 + 8 + len(template) + 2) % 32) + b"#}"
    with open(STORY, "rb") as file:
        data = file.read()
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(template)) + template
    path = os.path.join(folder, "chat.gguf")
    with open(path, "wb") as file:
        file.write(data[:16] + struct.pack("<Q", struct.unpack("<Q", data[16:24])[0] + 1) + entry + data[24:])
    return path


def large_model(folder):
    """A model of zeros that takes seconds to convert, most of it a hole in its file."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    layers, width, vocab = 24, 2048, 64
    numbers = {"block_count": layers, "context_length": 512, "embedding_length": width, "feed_forward_length": 8192,
               "attention.head_count": 16, "attention.head_count_kv": 16, "vocab_size": vocab}  # fmt: skip
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama")]
    keys += [text("llama." + name) + struct.pack("<II", 4, number) for name, number in numbers.items()]
    keys.append(text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5))
    tensors = {"token_embd.weight": (width, vocab), "output.weight": (width, vocab), "output_norm.weight": (width,)}
    for i in range(layers):
        shapes = {"attn_norm": (width,), "ffn_norm": (width,), "attn_q": (width, width), "attn_k": (width, width), "attn_v": (width, width),
                  "attn_output": (width, width), "ffn_gate": (width, 8192), "ffn_up": (width, 8192), "ffn_down": (8192, width)}  # fmt: skip
        tensors.update({f"blk.{i}.{name}.weight": shape for name, shape in shapes.items()})
    data, offset = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys), 0
    for name, shape in tensors.items():
        data += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += 4 * int(np.prod(shape))
    path = os.path.join(folder, "large.gguf")
    with open(path, "wb") as file:
        file.write(data)
        file.truncate((len(data) + 31) // 32 * 32 + offset)
    return path


class Tiny(unittest.TestCase):
    """Tests of the tiny model."""

    @classmethod
    def setUpClass(cls):
        cls.model = realizar.Model(STORY, threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
