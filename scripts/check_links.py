#!/usr/bin/env python3
"""Finds broken links, images and fragments within a site, duplicate names in a page, and everything that a page would
load from another site:  scripts/check_links.py FOLDER"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if "id" in named:
            self.ids.append(named["id"])
        if tag == "a" and named.get("href"):
            self.links.append(named["href"])
        source = named.get("src") or (named.get("href") if tag == "link" and named.get("rel") != "canonical" else None)
        if source:
            self.loaded.append(source)


def main(folder):
    folder = folder.resolve()
    pages = {path: Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        place = path.relative_to(folder)
        wrong += [f"{place}: the name {name} twice" for name in {name for name in page.ids if page.ids.count(name) > 1}]
        for url in page.links + page.loaded:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                if url in page.loaded and parts.scheme != "data":
                    wrong.append(f"{place}: loads {url}")
                continue
            target = path if not parts.path else (folder / parts.path.lstrip("/") if url[0] == "/" else path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                wrong.append(f"{place}: {url}")
            elif parts.fragment and not (target in pages and unquote(parts.fragment) in pages[target].ids):
                wrong.append(f"{place}: {url}, which has no such place")
    for line in wrong:
        print(line)
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links, {len(wrong)} wrong")
    return 1 if wrong or len(pages) < 10 else 0


sys.exit(main(Path(sys.argv[1])))
