"""Does a page of the built site load anything from another host when it is opened? Links to click are fine.

``python docs/check_offline.py docs/_build/html`` prints what it looked at, and every address that would be loaded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

LOADED = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
}
RELATIONS = {"stylesheet", "icon", "shortcut icon", "preload", "prefetch", "preconnect", "dns-prefetch", "manifest"}
ELSEWHERE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:@import\s+|url\()\s*(?:url\()?["']?\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
IN_SCRIPT = re.compile(
    r"""(?:\bimport\s*\(?|\bfetch\(|\.src\s*=|\.open\(\s*["'][A-Z]+["']\s*,)\s*["'`]((?:https?:)?//[^"'`]+)"""
)


class Loads(HTMLParser):
    """The addresses that a browser fetches for a page by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._inside = tag if tag in ("style", "script") else ""
        values = [given.get(name, "") for name in LOADED.get(tag, ())]
        if tag == "link" and given.get("rel", "").lower() in RELATIONS:
            values.append(given.get("href", ""))
        if tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            values.append(given.get("content", "").partition("url=")[2])
        self.addresses += [value for value in values if ELSEWHERE.match(value)]
        self.addresses += IN_STYLE.findall(given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.addresses += IN_STYLE.findall(data)
        if self._inside == "script":
            self.addresses += IN_SCRIPT.findall(data)


def loaded_from_elsewhere(text: str, suffix: str) -> list[str]:
    """What a file of this kind would load from another host.

    >>> loaded_from_elsewhere('<a href="https://a.b">a link</a><img src="x.png">', ".html")
    []
    >>> loaded_from_elsewhere('<script src="https://a.b/c.js"></script>', ".html")
    ['https://a.b/c.js']
    >>> loaded_from_elsewhere("@import url('https://a.b/font.css');", ".css")
    ['https://a.b/font.css']
    """
    if suffix == ".css":
        return IN_STYLE.findall(text)
    if suffix == ".js":
        return IN_SCRIPT.findall(text)
    parser = Loads()
    parser.feed(text)
    return parser.addresses


def findings(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css", ".js"):
            for address in loaded_from_elsewhere(path.read_text(errors="replace"), path.suffix):
                yield path.relative_to(folder), address


def main(folder: Path) -> int:
    pages = list(folder.rglob("*.html"))
    if not pages:
        print(f"there are no pages in {folder}; run make docs first", file=sys.stderr)
        return 2
    elsewhere = list(findings(folder))
    for path, address in elsewhere:
        print(f"{path} loads {address}", file=sys.stderr)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{len(pages)} pages, {size / 1e6:.1f} MB, {len(elsewhere)} requests to other hosts: {folder / 'index.html'}")
    return 1 if elsewhere else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
