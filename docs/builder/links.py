"""Every page that was built, checked: its links, its anchors, and that it loads nothing from afar.

Links to other sites are not followed. Links out of the site must lead to a file of the repository.
"""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

LOADS = {  # tag -> the attribute that makes a browser fetch something
    "script": "src",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "embed": "src",
    "object": "data",
    "video": "src",
    "audio": "src",
    "image": "href",
}
LINKED = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "manifest", "preconnect"}
IN_CSS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
ELSEWHERE = re.compile(r"(https?:)?//", re.IGNORECASE)


logger = logging.getLogger(__name__)


class Page(HTMLParser):
    """What a page names, links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.names |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if (address := given.get(LOADS.get(tag, ""))) and not address.startswith("data:"):
            self.loads.append(address)
        if tag == "link" and LINKED & set((given.get("rel") or "").split()):
            self.loads.append(given["href"] or "")
        self.loads += of_css(given.get("style") or "")


def of_css(text: str) -> list[str]:
    """What a style sheet loads."""
    found = (a or b for a, b in IN_CSS.findall(text))
    return [address for address in found if not address.startswith(("data:", "#"))]


def faults(folder: Path) -> list[str]:
    """What is wrong in a folder of built pages: a line each, none if all is well."""
    wrong = []

    @cache
    def page(path: Path) -> Page:
        return Page(path.read_text())

    def lead(path: Path, address: str) -> Path:
        return (path.parent / unquote(urlsplit(address).path)).resolve() if address else path

    for path in sorted(folder.rglob("*.html")):
        here = path.relative_to(folder)
        for address in page(path).loads:
            if ELSEWHERE.match(address):
                wrong.append(f"{here}: loads {address} from another site")
            elif not lead(path, address).is_file():
                wrong.append(f"{here}: loads {address}, which is not there")
        for address in page(path).links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = lead(path, address) if parts.path else path
            if not target.exists():
                wrong.append(f"{here}: links to {address}, which is not there")
            elif parts.fragment and target.suffix == ".html":
                if unquote(parts.fragment) not in page(target).names:
                    wrong.append(f"{here}: links to {address}, which has no such anchor")
    for path in sorted(folder.rglob("*.css")):
        for address in of_css(path.read_text()):
            if ELSEWHERE.match(address) or not lead(path, address).is_file():
                wrong.append(f"{path.relative_to(folder)}: loads {address}, which is not there")
    return wrong


def check(app: Sphinx, failure: Exception | None) -> None:
    """Name every fault of the pages that were made, and fail the build."""
    if failure is None and app.builder.format == "html":
        for fault in faults(Path(app.outdir)):
            logger.warning("%s", fault)
            app.statuscode = 1  # also without -W
