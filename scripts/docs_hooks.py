"""Hooks of MkDocs: adds pages generated from the sources, and tabs of snippets in every language.

A line "[code: NAME](../snippets) in [C](../snippets/guides.c), ..." of a page becomes a tab for each file of
docs/snippets or examples/adventure that has a section of that name, in the order of LANGUAGES. Readers of the plain
Markdown see links to these files; a page whose links differ from the files fails the build with the line to write.
"[code: NAME in FILE](...)" becomes one block. "[package sizes](...)" becomes a table of the packages in build/dist. The C tab of "start" is the program of the README.
"""

import os
import re
import sys
import textwrap
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import header_reference  # noqa: E402
import supported_models  # noqa: E402

FOLDERS = [ROOT / "docs/snippets", ROOT / "docs/snippets/start", ROOT / "examples/adventure"]
LANGUAGES = [("C", "guides.c", "c"), ("C++", "guides.cpp", "cpp"), ("Go", "guides.go", "go"), ("Python", "guides.py", "python"),
             ("C#", "Guides.cs", "csharp"), ("Swift", "guides.swift", "swift"), ("Java", "Guides.java", "java"),
             ("Kotlin", "Guides.kt", "kotlin"), ("JavaScript", "guides.mjs", "javascript")]  # fmt: skip
BINDINGS = [("cpp", "C++"), ("go", "Go"), ("python", "Python"), ("csharp", "C#"), ("swift", "Swift"), ("java", "Java"), ("kotlin", "Kotlin"),
            ("js", "JavaScript"), ("godot", "Godot"), ("unreal", "Unreal Engine"), ("go/cmd/serve", "HTTP server")]  # fmt: skip

# Factors on the scores of pages in the search, by the beginning of their paths: plain words find guides before the
# reference (tests/data/searches.txt).
BOOSTS = {"reference/header": 0.3, "reference/bindings/serve": 1, "reference/bindings": 0.5, "reference/statuses": 3,
          "guides/troubleshooting": 3, "guides/threads": 1.5}  # fmt: skip

# The first program of each language, as a whole.
LANGUAGES += [("C++", "chat.cpp", "cpp"), ("Go", "chat.go", "go"), ("Python", "chat.py", "python"), ("C#", "Chat.cs", "csharp"),
              ("Swift", "chat.swift", "swift"), ("Java", "Chat.java", "java"), ("Kotlin", "Chat.kt", "kotlin"),
              ("JavaScript", "chat.mjs", "javascript")]  # fmt: skip
LANGUAGES += [("Python", "web.py", "python")]
LANGUAGES += [("Godot 4", "godot/main.gd", "gdscript"), ("Godot 4", "godot/adventure.gd", "gdscript"),
              ("Unity", "unity/Runtime/Adventure.cs", "csharp"),
              ("Unreal Engine", "unreal/Source/Adventure/AdventureActor.cpp", "cpp")]  # fmt: skip


def _page_of(binding):
    return f"reference/bindings/{Path(binding).name}.md"


def _path(file):
    return next(folder / file for folder in FOLDERS if (folder / file).exists())


def sections(file):
    return set(re.findall(r"--8<-- \[start:([\w-]+)\]", _path(file).read_text()))


_used = {}


def _block(file, name, language, indent=""):
    if name not in sections(file):
        raise PluginError(f"{file} has no section {name}")
    _used.setdefault(file, set()).add(name)
    lines = [f"```{language}", f'--8<-- "{file}:{name}"', "```"]
    return "\n".join(indent + line for line in lines)


def _readme():
    """The C program of the README, whose test is tests/programs.sh."""
    return re.search(r"^```c\n.*?^```$", (ROOT / "README.md").read_text(), re.S | re.M)[0]


def _found(name):
    found = [(title, file, language) for title, file, language in LANGUAGES if name in sections(file)]
    if not found:
        raise PluginError(f"no language has the snippet {name}")
    return found


def _links(name, page):
    """The links to the files of a snippet that follow its line in the Markdown of a page."""
    files = [(title, _path(file)) for title, file, _ in _found(name)]
    if name == "start":
        files.insert(0, ("C", ROOT / "README.md"))
    folder = (ROOT / "docs" / page).parent
    return " in " + ", ".join(f"[{title}]({os.path.relpath(path, folder)})" for title, path in files)


def _tabs(name):
    found = _found(name)
    tabs = [(title, _block(file, name, language, "    ")) for title, file, language in found]
    if name == "start":
        tabs.insert(0, ("C", textwrap.indent(_readme(), "    ")))
    return "\n\n".join(f'=== "{title}"\n\n{block}' for title, block in tabs) + "\n"


PACKAGES = [("Python", "*.whl"), ("JavaScript", "*-npm-*.tgz"), ("C#", "*.nupkg"), ("Java", "realizar-[0-9.]*[0-9].jar"), ("Go", "*-goproxy.zip"),
            ("Swift", "*-swift.zip"), ("Debian", "*.deb"), ("C, Conan, Homebrew, vcpkg", "*-*-*-*.tar.gz"), ("C on Windows", "*-windows-*.zip"),
            ("iOS, macOS", "*.xcframework.zip")]  # fmt: skip


def _sizes():
    """A table of the packages that were made before the site; without them, how they are made."""
    rows = []
    if (ROOT / "build/dist/SHA256SUMS").exists():  # which is written last
        for title, pattern in PACKAGES:
            files = sorted((ROOT / "build/dist").glob(pattern))
            rows += [f"| {title} | `{file.name}` | {file.stat().st_size / 1e6:.1f} MB |" for file in files]
    if not rows:
        return "`make dist` prints the size of each package; this page was built without packages."
    return "\n".join(["| for | package | size |", "|---|---|---:|", *rows])


def on_config(config):
    """Fills in the pages that are made."""
    _used.clear()
    made = {"HEADER": header_reference.nav(), "BINDINGS": [{title: _page_of(name)} for name, title in BINDINGS]}

    def filled(entry):
        if isinstance(entry, dict):
            return {title: filled(pages) for title, pages in entry.items()}
        if isinstance(entry, list):
            return made[entry[0]] if len(entry) == 1 and entry[0] in made else [filled(page) for page in entry]
        return entry

    config.nav = filled(config.nav)
    return config


def on_files(files, config):
    pages = {f"reference/{name}": text for name, text in header_reference.pages().items()}
    pages["reference/supported.md"] = supported_models.page()
    # Files that READMEs link to are pages next to the READMEs' pages.
    link = lambda found: f"]({Path(found[1]).name}.md)"  # noqa: E731
    for name, _ in BINDINGS:
        pages[_page_of(name)] = re.sub(r"\]\(([\w./-]+)/README\.md\)", link, (ROOT / f"bindings/{name}/README.md").read_text())
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    files.append(File.generated(config, "zen5.svg", content=(ROOT / "benches/zen5.svg").read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    languages = {file: language for _, file, language in LANGUAGES}
    boosts = [boost for prefix, boost in BOOSTS.items() if page.file.src_path.startswith(prefix)]
    page.meta["search"] = {"boost": boosts[0] if boosts else 1}

    def replaced(found):
        name, file, links = found.groups()
        if file:
            return _block(file, name, languages[file])
        if links != _links(name, page.file.src_path):
            raise PluginError(f"{page.file.src_path}: write [code: {name}](...){_links(name, page.file.src_path)}")
        return _tabs(name)

    markdown = re.sub(r"^\[package sizes\]\([./\w]*\)$", lambda _: _sizes(), markdown, flags=re.M)
    return re.sub(r"^\[code: ([\w-]+)(?: in (\S+))?\]\([./\w]*\)(.*)$", replaced, markdown, flags=re.M)


def on_post_build(config):
    """Every section is on a page, and so is every status."""
    shown = (ROOT / "docs/reference/statuses.md").read_text()
    for name, number, _ in header_reference.statuses():
        if f"| `{name}` | {number} |" not in shown:
            raise PluginError(f"statuses.md lacks {name}, {number}")
    for _, file, _ in LANGUAGES:
        unused = sections(file) - _used.get(file, set())
        if unused:
            raise PluginError(f"no page shows {', '.join(sorted(unused))} of {file}")
