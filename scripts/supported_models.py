#!/usr/bin/env python3
"""Generates the page of supported models from tables in the sources: architectures, families of folders, block formats,
pre-tokenizers. Fails if a table has an unknown form.

As a program, prints the page:  scripts/supported_models.py
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = ROOT / "src/model/arch"
FAMILIES = ROOT / "src/format/hf/family"
FORMATS = ROOT / "src/quant/mod.rs"
QUANTIZED = ROOT / "src/format/hf/quantized.rs"
PLANES = ROOT / "src/gpu/planes.rs"
PRETOKENIZERS = ROOT / "src/text/tokenizer/pretokenizer.rs"


def _strings(text):
    return re.findall(r'"([^"]*)"', text)


def _some(found, what):
    if not found:
        raise SystemExit(f"{what}: nothing was read")
    return found


def architectures():
    """Rows: names in GGUF files, and what the first comment of the architecture's file says."""
    table = (ARCHITECTURES / "mod.rs").read_text().split("ARCHITECTURES: &[Row] = &[")[1].split("\n];")[0]
    for names, file in _some(re.findall(r"\(&\[([^\]]*)\], (\w+)::build", table), "architectures"):
        comment = re.match(r"(?://!.*\n)+", (ARCHITECTURES / f"{file}.rs").read_text())
        yield _strings(names), " ".join(line[3:].strip() for line in comment[0].splitlines())


def families():
    """Returns the `model_type`s of the folders that each architecture runs. A row has what its base has, unless it says
    otherwise."""
    text = "\n".join(path.read_text() for path in sorted(FAMILIES.glob("*.rs")))
    bases = {name: (arch, base) for name, arch, base in
             ((name, re.search(r'arch: "([^"]*)"', body), re.search(r"\.\.(\w+)", body))
              for name, body in re.findall(r"const (\w+): Family =\s+Family \{(.*?)\};", text, re.S))}  # fmt: skip

    def inherited(base):
        arch, above = bases[base]
        return arch[1] if arch else inherited(above[1])

    found = {}
    rows = re.findall(r"Family \{\s*model_types: &\[([^\]]+)\],(.*?)\.\.(\w+),?\s*\}", text, re.S)
    for types, body, base in _some(rows, "families"):
        arch = re.search(r'\barch: "([^"]*)"', body)
        found.setdefault(arch[1] if arch else inherited(base), []).extend(_strings(types))
    return found


def formats():
    """Rows: the name of a block format, its GGML number, whether matrices can be converted to it, whether a GPU has
    kernels for it."""
    text = FORMATS.read_text()
    numbers = dict(re.findall(r"pub const (\w+): DType = DType\(([^)]+)\);", text))
    on_gpu = set(re.findall(r"quant::(\w+)", PLANES.read_text().split("pub fn planes")[1].split("\n}")[0]))
    rows = re.findall(r"Format::(plain|encoded|decoded)(?:::<[^>]*>)?\((\w+), \"(\w+)\"", text)
    for kind, name, shown in _some(rows, "block formats"):
        number = numbers[name]
        yield shown, number if number.isdigit() else "", kind != "decoded", name in on_gpu


def quantized():
    """Rows: names of a method of quantized folders, and what is read of it."""
    table = QUANTIZED.read_text().split("const FORMATS: &[(Format, &str)] = &[")[1].split("\n];")[0]
    rows = re.findall(r"methods: &\[([^\]]*)\], gather: \w+::gather \},\s*\"([^\"]*)\"", table)
    for names, what in _some(rows, "quantized folders"):
        yield _strings(names), what


def pretokenizers():
    text = PRETOKENIZERS.read_text()
    names = [name for row in re.findall(r"\brow\(\s*&\[([^\]]*)\]", text) for name in _strings(row)]
    return sorted({name for name in _some(names, "pre-tokenizers") if name})


def _code(names):
    return ", ".join(f"`{name}`" for name in names)


def page():
    folders = families()
    rows = list(architectures())
    known = {name for names, _ in rows for name in names}
    unknown = set(folders) - known
    if unknown:
        raise SystemExit(f"families of no architecture: {unknown}")
    count = sum(len(names) for names, _ in rows)
    text = f"""# Supported models

Supported model architectures, Hugging Face folders (`model_type`), quantization formats and tokenizers, generated from the
tables that the library reads. Anything else is rejected by name with [`RZ_ERR_UNSUPPORTED`](statuses.md).

## Architectures

{count} architectures by their names in GGUF files (`general.architecture`), or by a name of this project if no GGUF file has
one, such as the towers of CLIP and SigLIP. Hugging Face folders (`config.json` with safetensors) load if the last column has
their `model_type`.

<div class="stacked" markdown>

| GGUF architecture | network | `model_type` of folders |
|---|---|---|
"""
    for names, what in rows:
        types = [type for name in names for type in folders.get(name, [])]
        text += f"| {_code(names)} | {what.replace('|', '/')} | {_code(types)} |\n"
    text += """
</div>

## Quantization formats (block formats of GGUF)

*Quantize to*: `rz_model_params.quantize` accepts its number, for float weights. *On a GPU*: the format in GPU memory; in
host memory a matrix keeps its format.

| format | GGML type | quantize to | on a GPU |
|---|---:|---|---|
"""
    for name, number, encoded, on_gpu in formats():
        converted, stored = "yes" if encoded and number else "", "the same" if on_gpu else "F16"
        text += f"| {name} | {number} | {converted} | {stored} |\n"
    text += """
## Quantized folders (safetensors)

Safetensors files hold F64, F32, F16, BF16 and 8-bit floats, or matrices quantized by a method of the configuration
(`quantization_config`, `quantization` of MLX). Quants, scales and offsets are kept as they are; nothing is quantized again.

- 8-bit floats become BF16 if rows are not a multiple of 32 long, and in the KV matrix of latent attention.
- HQQ quants in groups down columns (axis 0) become F32, which `rz_model_params.quantize` can quantize.
- On a GPU quantized matrices are F16.
- Permuted inputs (`desc_act` of GPTQ, `actorder`) are permuted before a product; LoRA adapters of such matrices are rejected.
- Other rows that are not a multiple of 32 long, and groups of unequal sizes, are rejected by name.

| method | read |
|---|---|
"""
    for names, what in quantized():
        text += f"| {_code(names)} | {what} |\n"
    text += f"""
## Tokenizers and chat templates

Byte-level BPE, SentencePiece, WordPiece and Unigram, from the GGUF file, `tokenizer.json`, `tokenizer.model`, `tekken.json`,
`vocab.json` with `merges.txt`, or `vocab.txt`. Pre-tokenizers of GGUF files (`tokenizer.ggml.pre`):
{_code(pretokenizers())}.

Chat templates have the semantics of Jinja2, for any model. The format of reasoning and tool calls is inferred from the
template; there is no list of models. A template with unimplemented features is rejected with its line.
"""
    return text


if __name__ == "__main__":
    print(page())
