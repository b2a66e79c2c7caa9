"""Text for the terminal: tables at their full width, pairs of name and number, and notes.

A narrow terminal may wrap the lines of a table, but no number is ever cut short. Colors are dropped where the output
is not a terminal, by `click.echo`.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import click

from dalenius.model.concern import Concern, Severity

LONGEST_NOTE = 2000
_LONGEST_NAME = 40


def printable(text: str, longest: int = _LONGEST_NAME) -> str:
    """Text from the data, safe for a terminal: control characters escaped, and cut at `longest` characters."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return escaped if len(escaped) <= longest else escaped[: longest - 3] + "..."


@dataclass
class TextTable:
    """A table with a title above and a caption below. Columns are aligned right, except those named in `left`."""

    columns: Sequence[str]
    left: Sequence[str] = ()
    title: str = ""
    caption: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)

    def show(self) -> None:
        """Print the table, with a blank line after it."""
        widths = [max(map(_width, cells)) for cells in zip(self.columns, *self.rows, strict=True)]
        if self.title:
            click.echo(self.title)
        click.echo(click.style(self._line(self.columns, widths), bold=True))
        click.echo(f" {_rule() * (sum(widths) + 3 * (len(widths) - 1))}")
        for row in self.rows:
            click.echo(self._line(row, widths))
        click.echo()
        if self.caption:
            click.echo(self.caption)

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = (
            cell + blanks if name in self.left else blanks + cell
            for name, cell, blanks in zip(self.columns, cells, _blanks(cells, widths), strict=True)
        )
        return f" {'   '.join(padded)}".rstrip()


def show_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Names with what they stand for, one pair a line."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        click.echo(f"{name:<{width}}  {text}")


def show_notes(notes: Iterable[str]) -> None:
    """What the publisher should know, one note a line."""
    for note in notes:
        click.echo(click.style(f"Note: {printable(note, LONGEST_NOTE)}.", fg="yellow"))


def show_concerns(concerns: Iterable[Concern]) -> None:
    """What a look at the table found, the heaviest first, each with what to do about it."""
    for one in concerns:
        text = f"{str(one.severity).capitalize()}: {printable(f'{one.message}. {one.answer}', LONGEST_NOTE).rstrip()}"
        click.echo(click.style(text, fg="red" if one.severity is Severity.STOP else "yellow"))


def number(count: int | None) -> str:
    """A count, or a dash where there is none."""
    return "-" if count is None else f"{count:,}"


def _blanks(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [" " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]


def _width(text: str) -> int:
    """The columns that a text takes in a terminal: two for wide characters, none for marks over the one before."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _rule() -> str:
    """A line, or dashes where the output has no such character."""
    try:
        "─".encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return "-"
    return "─"
