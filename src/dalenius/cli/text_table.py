"""Text for the terminal: tables at their full width, pairs of name and number, notes, and sizes as they are typed.

A narrow terminal may wrap the lines of a table, but no number is ever cut short. Colors are dropped where the output
is not a terminal, by `click.echo`.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dalenius.errors import UsageError
from dalenius.model.concern import Advice, Concern, Severity
from dalenius.model.exposure import BANDS, Exposure, GroupShare, exposure_sentence

if TYPE_CHECKING:
    from dalenius.tables.killable import Allowance

Command = TypeVar("Command", bound=Callable[..., Any])

LONGEST_NOTE = 2000
_LONGEST_NAME = 40
_LONGEST_GROUP = 70  # names of groups end in their codes
_BAR = 30  # characters
_GROUPS = 12  # shown at most
_MARKS = {Severity.STOP: "STOP", Severity.LOOK: "Look", Severity.NOTE: "Note"}
_COLORS = {Severity.STOP: "red", Severity.LOOK: "yellow", Severity.NOTE: None}
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


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
    """What weighs against publication, the heaviest first, each with what to do about it."""
    for concern in concerns:
        mark = click.style(f"{_MARKS[concern.severity]:<5}", fg=_COLORS[concern.severity], bold=True)
        click.echo(f"{mark}  {_sentence(concern.message)}")
        if concern.answer:
            click.echo(f"       {concern.answer}")


def show_advice(advice: Advice) -> None:
    """The one verdict."""
    color = {Advice.PUBLISH: "green", Advice.LOOK_FIRST: "yellow", Advice.DO_NOT_PUBLISH: "red"}[advice]
    click.echo(click.style(f"Verdict: {advice}.", fg=color, bold=True))


def _sentence(text: str) -> str:
    return printable(f"{text[:1].upper()}{text[1:]}.", LONGEST_NOTE)


def show_exposure(exposure: Exposure) -> None:
    """The first thing to know: how many values are published outright, and people by their exposure."""
    clear = exposure.outright > 0
    click.echo(click.style(_sentence(exposure_sentence(exposure)), fg="red" if clear else None, bold=True))
    people = exposure.people or 1
    which = f"probability of their {'likeliest' if exposure.several else 'own'} value"
    table = TextTable((which, "people", "share", ""), left=(which, ""))
    bands = [f"{10 * band} to {10 * band + 10} %" for band in range(BANDS)] + ["100 %: published outright"]
    most = max(exposure.bands, default=0) or 1
    for band, number_of_people in zip(bands, exposure.bands, strict=True):
        if number_of_people:
            bar = _bar() * max(1, round(_BAR * number_of_people / most))
            table.add(band, f"{round(number_of_people):,}", f"{number_of_people / people:.1%}", bar)
    table.show()


def show_groups(groups: Iterable[GroupShare]) -> None:
    """The largest share of a bucket that each group with a limit takes, those nearest to their limits first."""
    limited = [(group, group.limit) for group in groups if group.limit is not None]
    if not limited:
        return
    title = f"{len(limited):,} group{'s' if len(limited) > 1 else ''} of values with a limit"
    table = TextTable(("group", "largest share of a bucket", "limit"), left=("group",), title=title)
    limited.sort(key=lambda one: one[0].share / one[1], reverse=True)
    for group, limit in limited[:_GROUPS]:
        share = f"{group.count:,} of {group.size - group.known:,} = {percent(group.share)}"
        table.add(printable(group.name, _LONGEST_GROUP), share, percent(limit))
    if len(limited) > _GROUPS:
        table.add(f"and {len(limited) - _GROUPS:,} further from their limits", "", "")
    table.show()


def percent(share: Fraction) -> str:
    """A share or a limit in four digits."""
    return f"{100 * float(share):.4g} %"


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
    return if_possible("─", "-")


def _bar() -> str:
    return if_possible("█", "#")


def if_possible(character: str, otherwise: str) -> str:
    """A character, or something plainer where the output does not have it."""
    try:
        character.encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return otherwise
    return character


def parse_size(text: str, option: str = "--memory") -> int:
    """A size such as 2GB (10^9 bytes each) or 512MiB (2^20 bytes each)."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} needs a size, got {text!r}", "Write 2GB, or 512MiB.")
    power = " kmgt".index(match[2].lower() or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def count_options(command: Command) -> Command:
    """What one count may take."""
    timeout = click.option(
        "--timeout",
        type=float,
        default=300.0,
        show_default="300",
        metavar="SECONDS",
        help="Stop a count that takes longer than this; 0 means no limit.",
    )
    memory = click.option(
        "--memory", metavar="SIZE", help="Memory that a count may use: 2GB, 512MiB (default: half of the machine's)."
    )
    return timeout(memory(command))


def count_allowance(timeout: float, memory: str | None) -> Allowance:
    """What one count may take, by these options."""
    from dalenius.model.memory import machine_memory
    from dalenius.tables.killable import LEAST_MEMORY, Allowance

    size = parse_size(memory) if memory is not None else max(LEAST_MEMORY, machine_memory() // 2)
    return Allowance.of(timeout, size)


def memory_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """What the whole program may take."""
    return click.option(
        "--memory",
        metavar="SIZE",
        callback=_size,
        help="Memory that the program may use: 2GB, 512MiB (default: half of the machine's).",
    )(command)


def _size(_context: click.Context, _option: click.Parameter, given: str | None) -> int | None:
    return parse_size(given) if given is not None else None
