#!/usr/bin/env python3
"""Makes the pages of the C interface from include/realizar.h: a page a group, with constants, structs by field, types
and functions, whose names are links to one another. The header is generated, so that its form is known; what has
another form ends this with an error.

As a program it writes the pages below the folder given:  scripts/header_reference.py FOLDER
"""

import html
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include/realizar.h"
GROUP = re.compile(r"/\* -{60,}\n \* (.+)\n \* -{60,} \*/\n")
NAME = re.compile(r"\b(?:rz_[a-z0-9_]+(?:\.[a-z0-9_]+)?|RZ_[A-Z0-9_]+)\b")


def _text(comment):
    """The text of a comment, without its frame."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip()[2:-2].split("\n")]
    return "\n".join(line.rstrip() for line in lines).strip()


def _slug(title):
    return re.sub(r"[^a-z]+", "-", title.lower().split(":")[0]).strip("-")


class _Item:
    """A declaration: its kind, its name, its code and its comment; fields of a struct are (name, code, comment)."""

    def __init__(self, kind, name, code, comment, fields=()):
        self.kind, self.name, self.code, self.comment, self.fields = kind, name, code, comment, list(fields)


COMMENT = r"/\*(?:[^*]|\*(?!/))*\*/"
DECLARATION = re.compile(
    rf"\s*(?P<comment>{COMMENT})?\s*(?:"
    rf"\#define\s+(?P<define>RZ_\w+)\s+(?P<value>[^\n]*?)[ \t]*(?P<after>/\*[^\n]*\*/)?\n"
    rf"|typedef\s+struct\s+(?P<struct>\w+)\s*\{{(?P<body>(?:{COMMENT}|[^}}])*)\}}\s*\w+;"
    rf"|typedef\s+struct\s+(?P<opaque>\w+)\s+\w+;"
    rf"|(?P<typedef>typedef\s[^;{{]+;)"
    rf"|(?P<function>(?:const\s+)?\w+\s+\*?(?P<fname>rz_\w+)\([^;]*\);)"
    rf")"
)
FIELD = re.compile(rf"\s*(?P<before>{COMMENT})?\s*(?P<code>[^;/]+;)[ \t]*(?P<after>/\*[^\n]*\*/)?")


def _fields(body):
    for found in FIELD.finditer(body):
        code = " ".join(found["code"].split())
        name = re.search(r"(\w+)(?:\[\d+\])?;$", code)
        comment = found["after"] or found["before"]
        yield name[1], code, _text(comment) if comment else ""
    rest = FIELD.sub("", body).strip()
    if rest:
        raise SystemExit(f"{HEADER}: not read: {rest}")


def _items(text):
    at = 0
    while text[at:].strip():
        found = DECLARATION.match(text, at)
        if not found:
            raise SystemExit(f"{HEADER}: not read: {text[at:].strip()[:200]}")
        at = found.end()
        comment = _text(found["after"] or found["comment"] or "/* */")
        if found["define"]:
            yield _Item("constant", found["define"], found["value"], comment)
        elif found["struct"]:
            yield _Item("struct", found["struct"], "", comment, _fields(found["body"]))
        elif found["opaque"]:
            yield _Item("handle", found["opaque"], "", comment)
        elif found["typedef"]:
            name = re.search(r"\(\*(\w+)\)", found["typedef"]) or re.search(r"(\w+);$", found["typedef"])
            yield _Item("type", name[1], found["typedef"], comment)
        else:
            yield _Item("function", found["fname"], found["function"], comment)


def read():
    """The comment at the head of the header, and its groups: title and items."""
    text = HEADER.read_text()
    head = _text(re.match(COMMENT, text)[0])
    parts = GROUP.split(text[: text.rindex("#ifdef __cplusplus")])
    return head, [(title, list(_items(body))) for title, body in zip(parts[1::2], parts[2::2])]


class _Links:
    """Knows the place of each name, and makes links of the names in a text, as seen from a page."""

    def __init__(self, groups):
        self.places = {}
        for title, items in groups:
            for item in items:
                self.places[item.name] = (_slug(title), item.name)
                for name, *_ in item.fields:
                    self.places[f"{item.name}.{name}"] = (_slug(title), f"{item.name}.{name}")

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
        f'<tr id="{item.name}"><td><code>{item.name}</code></td><td><code>{links.linked(item.code.strip("()"), page)}</code></td>'
        f"<td>{links.prose(' '.join(item.comment.split()), page)}</td></tr>\n"
        for item in items
    )
    return f"## Constants\n\n<table class=\"constants\"><thead><tr><th>name</th><th>value</th><th></th></tr></thead><tbody>\n{rows}</tbody></table>\n\n"


def _described(item, links, page):
    out = f"### {item.name} {{#{item.name}}}\n\n"
    if item.code:
        out += f'<pre class="declaration"><code>{links.linked(item.code, page)}</code></pre>\n\n'
    out += links.paragraphs(item.comment, page) + "\n\n"
    if item.fields:
        rows = "".join(
            f'<tr id="{item.name}.{name}"><td><code>{links.linked(code.rstrip(";"), page)}</code></td>'
            f"<td>{links.paragraphs(comment, page)}</td></tr>\n"
            for name, code, comment in item.fields
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
        text = f"# {title}\n\n" + _constants([item for item in items if item.kind == "constant"], links, page)
        for kinds, heading in (({"handle", "type", "struct"}, "Types"), ({"function"}, "Functions")):
            chosen = [item for item in items if item.kind in kinds]
            if chosen:
                text += f"## {heading}\n\n" + "".join(_described(item, links, page) for item in chosen)
        made[f"header/{page}.md"] = text
    made["header/index.md"] = _overview(head, groups, links)
    return made


def _overview(head, groups, links):
    """The page of the rules that hold for every function, and of all functions by group."""
    rules = head[head.index("What holds for every function:") :]
    fix = lambda text: re.sub(r'href="\.\./', 'href="', text)  # noqa: E731 the index lies above its groups
    rules = fix(links.paragraphs(re.sub(r"\n+- ", "\n- ", rules).replace("function:\n- ", "function:\n\n- "), ""))
    text = "# The C header\n\n`include/realizar.h` is the reference of every language. It is shown here group by group.\n\n" + rules
    text += "\n\n## All functions\n\n"
    for title, items in groups:
        names = [item.name for item in items if item.kind == "function"]
        if names:
            text += f"**[{title}]({_slug(title)}.md)**: " + ", ".join(f"[`{name}`]({_slug(title)}.md#{name})" for name in names) + "\n\n"
    return text


def nav():
    return ["reference/header/index.md"] + [{title: f"reference/header/{_slug(title)}.md"} for title, _ in read()[1]]


def statuses():
    """Names, numbers and comments of the statuses."""
    items = next(items for title, items in read()[1] if title.startswith("Status"))
    return [(item.name, int(item.code.strip("()")), item.comment) for item in items if item.kind == "constant"]


if __name__ == "__main__":
    for path, text in pages().items():
        target = Path(sys.argv[1]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
