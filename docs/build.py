"""Build the documentation site: `./scripts/docs`, or `python docs/build.py [FOLDER]`.

Every warning of Sphinx is an error. Then every page that was made is read: links inside the site must lead to a page
and a place that exist, and nothing may be loaded from elsewhere, so that the site works without a network. Links to
other sites are not followed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DOCS = Path(__file__).parent


class Page(HTMLParser):
    """The places of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element's name, and where it leads."""
        given = dict(attrs)
        self.places |= {value for key in ("id", "name") if (value := given.get(key))}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        elif tag in ("img", "script", "link", "iframe", "source"):
            self.loads += [value for key in ("src", "href") if (value := given.get(key))]


def dead_links(folder: Path) -> list[str]:
    """Links of the pages in a folder that lead nowhere, and what they load from other places."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                wrong += [f"{where}: loads {link}"] if link in page.loads and parts.scheme != "data" else []
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                wrong.append(f"{where}: there is no {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                wrong.append(f"{where}: there is no place {link}")
    return wrong


def main(folder: Path) -> int:
    """Build, check, and say where it is; the exit code."""
    from sphinx.cmd.build import build_main

    code = build_main(["-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(folder)])
    wrong = [] if code else dead_links(folder)
    for line in wrong:
        print(line, file=sys.stderr)
    if not code and not wrong:
        print(f"{len(list(folder.rglob('*.html')))} pages: {folder / 'index.html'}")
    return code or int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS.parent / "build" / "docs"))
