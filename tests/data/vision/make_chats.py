#!/usr/bin/env python3
"""Writes chats.json: conversations with pictures, the templates of their models, and the tokens that the processors of
transformers 5.24 make of them, -1 for each row. Of dots.ocr it has no processor: the authors' is that of Qwen2.5-VL with
another token, by which pictures of Qwen2.5-Omni are replaced as well. Templates are those that the authors publish; of Kimi K2.5's the part without tools and reasoning.
"""
import json, os, warnings

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
HERE = os.path.dirname(os.path.abspath(__file__))
import numpy as np
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.models.kimi_k25.image_processing_kimi_k25 import Kimi_K25ImageProcessor
from transformers.models.kimi_k25.processing_kimi_k25 import Kimi_K25Processor
from transformers.models.kimi_k25.video_processing_kimi_k25 import Kimi_K25VideoProcessor
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

KIMI_VL = (
    "{%- for message in messages -%}{%- if loop.first and messages[0]['role'] != 'system' -%}"
    "{{'<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|>'}}{%- endif -%}"
    "{%- if message['role'] == 'system' -%}{{'<|im_system|>'}}{%- endif -%}"
    "{%- if message['role'] == 'user' -%}{{'<|im_user|>'}}{%- endif -%}"
    "{%- if message['role'] == 'assistant' -%}{{'<|im_assistant|>'}}{%- endif -%}"
    "{{- message['role'] -}}{{'<|im_middle|>'}}"
    "{%- if message['content'] is string -%}{{- message['content'] + '<|im_end|>' -}}{%- else -%}"
    "{%- for content in message['content'] -%}"
    "{%- if content['type'] == 'image' or 'image' in content or 'image_url' in content -%}"
    "{{'<|media_start|>image<|media_content|><|media_pad|><|media_end|>'}}{%- else -%}{{content['text']}}{%- endif -%}"
    "{%- endfor -%}{{'<|im_end|>'}}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{'<|im_assistant|>assistant<|im_middle|>'}}{%- endif -%}")
KIMI_K25 = """{%- macro render_content(msg) -%}
    {%- set c = msg.get('content') -%}
    {%- if c is string -%}
      {{ c }}
    {%- elif c is not none -%}
      {% for content in c -%}
        {% if content['type'] == 'image' or content['type'] == 'image_url' -%}
          <|media_begin|>image<|media_content|><|media_pad|><|media_end|>
        {% elif content['type'] == 'video' or content['type']== 'video_url'-%}
          <|kimi_k25_video_placeholder|>
        {% else -%}
          {{ content['text'] }}
        {%- endif -%}
      {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}

{%- macro set_roles(message) -%}
  {%- set role_name =  message.get('name') or  message['role'] -%}
  {%- if message['role'] == 'user' -%}
    <|im_user|>{{role_name}}<|im_middle|>
  {%- elif message['role'] == 'assistant' -%}
    <|im_assistant|>{{role_name}}<|im_middle|>
  {%- else -%}
    <|im_system|>{{role_name}}<|im_middle|>
  {%- endif -%}
{%- endmacro -%}

{%- for message in messages -%}
  {{set_roles(message)}}
  {{render_content(message)}}
  <|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}
  <|im_assistant|>assistant<|im_middle|>
{%- endif -%}"""
DOTS = (
    "{%- for m in messages %}{%- if m.role == 'system' %}{{- '<|system|>' + m.content + '<|endofsystem|>\\n' }}"
    "{%- elif m.role == 'user' %}{% if m.content is string %}{{- '<|user|>' + m.content + '<|endofuser|>' }}{% else %} "
    "{% for content in m.content %}{% if content.type == 'image' or 'image' in content or 'image_url' in content %}"
    "<|img|><|imgpad|><|endofimg|>{% elif content.type == 'video' or 'video' in content %}<|img|><|video_pad|><|endofimg|>"
    "{% elif 'text' in content %}{{ content.text }}{% endif %}{%- endfor -%}{%- endif %}"
    "{%- elif m.role == 'assistant' %}{{- '<|assistant|>' + m.content }}{%- if not loop.last %}{{- '<|endofassistant|>' }}"
    "{%- endif %}{%- endif %}{%- endfor %}{%- if messages[-1].role != 'assistant' %}{{- '<|assistant|>' }}{%- endif %}")
QWEN = (
    "{% set image_count = namespace(value=0) %}{% set video_count = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}Picture {{ image_count.value }}: {% endif %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif content['type'] == 'video' or 'video' in content %}"
    "{% set video_count.value = video_count.value + 1 %}{% if add_vision_id %}Video {{ video_count.value }}: {% endif %}"
    "<|vision_start|><|video_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}"
    "<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
KIMI_TOKENS = ["<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>"]
OMNI_TOKENS = ["<|vision_bos|>", "<|IMAGE|>", "<|vision_eos|>"]
OMNI = ("<|vision_start|><|image_pad|><|vision_end|>", "".join(OMNI_TOKENS))
DOTS_TOKENS = ["<|user|>", "<|endofuser|>", "<|assistant|>", "<|endofassistant|>"]


def tokenizer(more, n=None):
    """That of the model of the tests, of which `n`: the first tokens: bytes, two line breaks, and control tokens."""
    vocabulary = json.load(open(os.path.join(HERE, "vocabulary.json")))[:n] + more
    is_control = lambda token: len(token) > 2 and token[0] in "<["
    bpe = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, [("\u010a", "\u010a")]))
    bpe.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)])
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken(token, normalized=False) for token in vocabulary if is_control(token)])
    return PreTrainedTokenizerFast(tokenizer_object=bpe)


def qwen(token, pixels):
    def make(tokenizer):
        tokenizer.image_token, tokenizer.video_token = token, "<|video_pad|>"
        of_videos = Qwen2VLVideoProcessor(patch_size=pixels["patch_size"])
        return Qwen2_5_VLProcessor(Qwen2VLImageProcessor(**pixels), tokenizer, of_videos)
    return make


def kimi(tokenizer):
    pixels = {"patch_size": 8, "max_patches": 64, "size": {"max_height": 16, "max_width": 16}}
    tokenizer.image_token, tokenizer.video_token = "<|media_pad|>", "<|kimi_k25_video_placeholder|>"
    return Kimi_K25Processor(Kimi_K25ImageProcessor(**pixels), tokenizer, Kimi_K25VideoProcessor())


DOTS_PIXELS = {"patch_size": 8, "temporal_patch_size": 1, "size": {"shortest_edge": 4096, "longest_edge": 5120}}
QWEN_PIXELS = {"patch_size": 14, "size": {"shortest_edge": 3136, "longest_edge": 12845056}}
FAMILIES = [("kimi_vl", KIMI_VL, KIMI_TOKENS, kimi), ("kimi_k25", KIMI_K25, KIMI_TOKENS, kimi),
            ("dots", DOTS, DOTS_TOKENS, qwen("<|imgpad|>", DOTS_PIXELS)), ("qwen25", QWEN, [], qwen("<|image_pad|>", QWEN_PIXELS)),
            ("qwen2.5o", QWEN.replace(*OMNI), OMNI_TOKENS, qwen("<|IMAGE|>", QWEN_PIXELS))]
IMAGE = {"type": "image"}
CHATS = [[[IMAGE, "What is this?"]], [["Compare", IMAGE, IMAGE]], [[IMAGE, "One."], "Yes", ["And", IMAGE, "here?"]], ["No picture"]]
SIZES = [[90, 70], [64, 48]]

def write():
    out = {}
    for name, template, more, make in FAMILIES:
        processor = make(tokenizer(more))
        cases = []
        for chat in CHATS:
            part = lambda part: part if part is IMAGE else {"type": "text", "text": part}
            messages = [{"role": ["user", "assistant"][i % 2], "content": text if isinstance(text, str) else [part(p) for p in text]}
                        for i, text in enumerate(chat)]
            n = sum(part is IMAGE for text in chat for part in text if not isinstance(text, str))
            text = processor.apply_chat_template(messages, chat_template=template, add_generation_prompt=True, tokenize=False)
            pictures = [Image.fromarray(np.zeros((h, w, 3), np.uint8)) for w, h in SIZES[:n]]
            pictures = {"images": pictures} if n else {}
            tokens = processor(text=[text], **pictures)["input_ids"][0]
            rows = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
            cases.append({"messages": messages, "tokens": [-1 if id == rows else int(id) for id in tokens]})
        out[name] = {"template": template, "tokens": more, "sizes": SIZES, "chats": cases}
    with open(os.path.join(HERE, "chats.json"), "w") as f:
        f.write(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write()
