"""A page as a test reads it: elements with their attributes, tables as lists of cells, and what a reader sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_EMPTY = {"meta", "br", "link", "img", "hr", "input"}
_UNSEEN = {"style", "script", "title"}


@dataclass
class Read(HTMLParser):
    """Parses a page as it is fed."""

    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    by_id: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[tuple[str, str | None]] = []
        self._table: list[list[str]] | None = None
        self._cell: list[str] | None = None
        self._part: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag == "section":
            self._part = given.get("aria-labelledby")
        elif tag == "table":
            self._table = self.tables.setdefault(given.get("id", ""), [])
        elif tag == "tr" and self._table is not None:
            self._table.append([])
        elif tag in ("td", "th"):
            self._cell = []
        elif tag == "br" and self._cell is not None:
            self._cell.append("\n")
        if tag not in _EMPTY:
            self._open.append((tag, given.get("id")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open[-1][0] == tag, (tag, self._open[-3:])  # everything is closed, in order
        self._open.pop()
        if tag in ("td", "th") and self._cell is not None and self._table:
            self._table[-1].append("".join(self._cell))
            self._cell = None
        elif tag == "table":
            self._table = None
        elif tag == "section":
            self._part = None

    def handle_data(self, data: str) -> None:
        if any(tag in _UNSEEN for tag, _ in self._open):
            return
        if self._cell is not None:
            self._cell.append(data)
        self.texts.append(data)
        if self._part is not None:
            self.parts[self._part] = self.parts.get(self._part, "") + data
        for _, name in self._open:
            if name is not None:
                self.by_id[name] = self.by_id.get(name, "") + data

    @property
    def text(self) -> str:
        """All that is seen, with single spaces."""
        return _plain("".join(self.texts))

    def section(self, name: str) -> str:
        """What is seen of the section with a heading of this id, with single spaces."""
        return _plain(self.parts[name])

    def attributes(self, name: str) -> list[str]:
        """The values of an attribute, wherever it is."""
        return [given[name] for _, given in self.elements if name in given]


def _plain(text: str) -> str:
    """Single spaces, and no marks of direction around names."""
    return " ".join(text.replace("\u2068", "").replace("\u2069", "").split())


def read(html: str) -> Read:
    """The page, which has to be well-formed."""
    found = Read()
    found.feed(html)
    found.close()
    return found
