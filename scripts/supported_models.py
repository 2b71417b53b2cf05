#!/usr/bin/env python3
"""Makes the page of supported models out of the tables in the sources: architectures, families of folders, block
formats, pre-tokenizers. A table that has another form than this reads ends it with an error.

As a program it prints the page:  scripts/supported_models.py
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURES = ROOT / "src/model/arch"
FAMILIES = ROOT / "src/format/hf/family"
FORMATS = ROOT / "src/quant/mod.rs"
QUANTISED = ROOT / "src/format/hf/quantised.rs"
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


def quantised():
    """Rows: names of a method of quantised folders, and what is read of it."""
    table = QUANTISED.read_text().split("const FORMATS: &[(Format, &str)] = &[")[1].split("\n];")[0]
    rows = re.findall(r"methods: &\[([^\]]*)\], gather: \w+::gather \},\s*\"([^\"]*)\"", table)
    for names, what in _some(rows, "quantised folders"):
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

This page is made from the tables that the library itself reads. What is not here is refused by name, with
[`RZ_ERR_UNSUPPORTED`](statuses.md).

## Networks

{count} architectures, by their names in GGUF files (`general.architecture`); those that no GGUF file has, such as the
towers of CLIP and SigLIP, by names of our own. Folders of Hugging Face (`config.json` beside safetensors) are read where the last
column names their `model_type`.

<div class="stacked" markdown>

| in GGUF files | network | `model_type` of folders |
|---|---|---|
"""
    for names, what in rows:
        types = [type for name in names for type in folders.get(name, [])]
        text += f"| {_code(names)} | {what.replace('|', '/')} | {_code(types)} |\n"
    text += """
</div>

## Block formats

*Converted to*: `rz_model_params.quantize` may name its number, for a file of floats. *On a GPU*: what a matrix is
stored as there; in memory of the host it keeps its format.

| format | GGML type | converted to | on a GPU |
|---|---:|---|---|
"""
    for name, number, encoded, on_gpu in formats():
        converted, stored = "yes" if encoded and number else "", "the same" if on_gpu else "F16"
        text += f"| {name} | {number} | {converted} | {stored} |\n"
    text += """
## Quantised folders

Safetensors hold F64, F32, F16, BF16 and 8-bit floats, or matrices that a method of the configuration
(`quantization_config`, `quantization` of MLX) has quantised. Codes, scales and offsets are kept as they are; nothing is
quantised again. 8-bit floats become BF16 where rows are no multiple of 32 long, and in the matrix of keys and values of
latent attention, and codes of HQQ in groups down columns (axis 0) become F32, which `rz_model_params.quantize` makes
small again. On a GPU quantised matrices are F16. Inputs in an order of their own (`desc_act` of GPTQ, `actorder`) are put
in that order before a product; experts that have them run on the CPU, and low-rank adapters of such matrices are refused.
Other rows that are no multiple of 32 long, and groups of unequal sizes, are refused by name.

| method | read |
|---|---|
"""
    for names, what in quantised():
        text += f"| {_code(names)} | {what} |\n"
    text += f"""
## Text

Tokenizers: byte-level BPE, SentencePiece, WordPiece and Unigram, from the GGUF file, `tokenizer.json`,
`tokenizer.model`, `tekken.json`, `vocab.json` with `merges.txt`, or `vocab.txt`. Pre-tokenizers that GGUF files name
(`tokenizer.ggml.pre`):
{_code(pretokenizers())}.

Chat templates are run as Jinja2 runs them, whatever model they are of. The form of reasoning and of calls is read off
the template itself; there is no list of models for it. A template that uses what is not implemented is refused, with
its line.
"""
    return text


if __name__ == "__main__":
    print(page())
