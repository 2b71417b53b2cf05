#!/usr/bin/env python3
"""Generates the pages of the C interface from bindings/header.json: one page per group, with constants, structs by
field, types and functions, whose names are links.

As a program, writes the pages below a folder:  scripts/header_reference.py FOLDER
"""

import html
import json
import re
import sys
from pathlib import Path

HEADER = Path(__file__).resolve().parent.parent / "bindings/header.json"
NAME = re.compile(r"\b(?:rz_[a-z0-9_]+(?:\.[a-z0-9_]+)?|RZ_[A-Z0-9_]+)\b")
TYPES = ("handle", "struct", "alias", "callback")


def read():
    """The comment at the head of the header, and its groups: title and items."""
    header = json.loads(HEADER.read_text())
    return header["overview"], [(group["title"], group["items"]) for group in header["groups"]]


def _slug(title):
    return re.sub(r"[^a-z]+", "-", title.lower().split(":")[0]).strip("-")


def _code(item):
    """The declaration of an item; of what has fields or none there is nothing to show."""
    return item.get("code") or (f"typedef {item['of']} {item['name']};" if item["kind"] == "alias" else "")


def _field(field):
    """The declaration of a field."""
    space = "" if field["type"].endswith("*") else " "
    length = f"[{field['array']}]" if "array" in field else ""
    return f"{field['type']}{space}{field['name']}{length}"


class _Links:
    """Knows the place of each name, and makes links of the names in a text, as seen from a page."""

    def __init__(self, groups):
        self.places = {}
        for title, items in groups:
            for item in items:
                name = item["name"]
                for anchor in [name] + [f"{name}.{field['name']}" for field in item.get("fields", [])]:
                    self.places[anchor] = (_slug(title), anchor)

    def link(self, name, page):
        """A name as a link; one of a field that is not there links to its struct, and others stay text."""
        known = name if name in self.places else name.split(".")[0]
        if known not in self.places:
            return html.escape(name)
        at, anchor = self.places[known]
        url = f"#{anchor}" if at == page else f"../{at}/#{anchor}"
        return f'<a href="{url}">{html.escape(known)}</a>{html.escape(name[len(known):])}'

    def linked(self, text, page):
        at, out = 0, []
        for found in NAME.finditer(text):
            out += [html.escape(text[at : found.start()]), self.link(found[0], page)]
            at = found.end()
        return "".join(out) + html.escape(text[at:])

    def prose(self, text, page):
        """Text with code between backticks."""
        parts = text.split("`")
        return "".join(f"<code>{self.linked(part, page)}</code>" if i % 2 else self.linked(part, page) for i, part in enumerate(parts))

    def paragraphs(self, text, page):
        out = []
        for part in re.split(r"\n\s*\n", text):
            if part.startswith("- "):
                entries = "".join(f"<li>{self.prose(' '.join(entry.split()), page)}</li>" for entry in re.split(r"(?:^|\n)- ", part)[1:])
                out.append(f"<ul>{entries}</ul>")
            elif part.startswith("{"):
                out.append(f"<pre><code>{self.linked(part, page)}</code></pre>")
            elif part.strip():
                out.append(f"<p>{self.prose(' '.join(part.split()), page)}</p>")
        return "\n".join(out)


def _constants(items, links, page):
    if not items:
        return ""
    rows = "".join(
        f'<tr id="{item["name"]}"><td><code>{item["name"]}</code></td><td><code>{links.linked(item["value"], page)}</code></td>'
        f"<td>{links.prose(' '.join(item['doc'].split()), page)}</td></tr>\n"
        for item in items
    )
    return f"## Constants\n\n<table class=\"constants\"><thead><tr><th>name</th><th>value</th><th></th></tr></thead><tbody>\n{rows}</tbody></table>\n\n"


def _described(item, links, page):
    name, code = item["name"], _code(item)
    out = f"### {name} {{#{name}}}\n\n"
    if code:
        out += f'<pre class="declaration"><code>{links.linked(code, page)}</code></pre>\n\n'
    out += links.paragraphs(item["doc"], page) + "\n\n"
    if item.get("fields"):
        rows = "".join(
            f'<tr id="{name}.{field["name"]}"><td><code>{links.linked(_field(field), page)}</code></td>'
            f"<td>{links.paragraphs(field.get('doc', ''), page)}</td></tr>\n"
            for field in item["fields"]
        )
        out += f"<table class=\"fields\"><thead><tr><th>field</th><th></th></tr></thead><tbody>\n{rows}</tbody></table>\n\n"
    return out


def pages():
    """Paths below the reference, and their texts."""
    head, groups = read()
    links = _Links(groups)
    made = {}
    for title, items in groups:
        page = _slug(title)
        text = f"# {title}\n\n" + _constants([item for item in items if item["kind"] == "constant"], links, page)
        for kinds, heading in ((TYPES, "Types"), (("function",), "Functions")):
            chosen = [item for item in items if item["kind"] in kinds]
            if chosen:
                text += f"## {heading}\n\n" + "".join(_described(item, links, page) for item in chosen)
        made[f"header/{page}.md"] = text
    made["header/index.md"] = _overview(head, groups, links)
    return made


def _overview(head, groups, links):
    """The page of the rules that hold for every function, and of all functions by group."""
    rules = head[head.index("Rules for every function:") :]
    fix = lambda text: re.sub(r'href="\.\./', 'href="', text)  # noqa: E731 the index lies above its groups
    rules = fix(links.paragraphs(re.sub(r"\n+- ", "\n- ", rules).replace("function:\n- ", "function:\n\n- "), ""))
    text = "# The C header\n\nFunctions, structs and constants of `include/realizar.h` by group. Bindings expose them under the names of their\n"
    text += "language; `tests/data/bindings.txt` lists what they leave out, and why.\n\n" + rules
    text += "\n\n## All functions\n\n"
    for title, items in groups:
        names = [item["name"] for item in items if item["kind"] == "function"]
        if names:
            text += f"**[{title}]({_slug(title)}.md)**: " + ", ".join(f"[`{name}`]({_slug(title)}.md#{name})" for name in names) + "\n\n"
    return text


def nav():
    return ["reference/header/index.md"] + [{title: f"reference/header/{_slug(title)}.md"} for title, _ in read()[1]]


def statuses():
    """Names, numbers and comments of the statuses."""
    items = next(items for title, items in read()[1] if title.startswith("Status"))
    return [(item["name"], int(item["value"]), item["doc"]) for item in items if item.get("enum") == "rz_status_code"]


if __name__ == "__main__":
    for path, text in pages().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
