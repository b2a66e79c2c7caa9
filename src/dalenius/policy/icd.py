"""Chapters and blocks of ICD-9-CM and ICD-10 diagnosis codes, by the first part of a code: its category.

`icd9.txt` and `icd10.txt` have a line for each group: the categories that it holds, and a short name. Indented lines
are blocks of the chapter, or of the block, above them. ICD-10 is the union of the WHO's edition of 2019 and of
ICD-10-CM, whose blocks differ little. A category that two blocks seem to hold is in the narrower one: C7A is in
C7A-C7B, and not in C76-C80.

Codes may have their dot or not, and letters may be small. The zeros with which a code of ICD-9 begins may be missing
if it has its dot or no more than three digits: "8.45" and "38" are 008.45 and 038; "0389" is 038.9.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

SYSTEMS = ("icd9", "icd10")
LEVELS = ("chapter", "block")

_ICD9 = re.compile(r"(?P<number>\d{1,3})(\.\d{0,2})?|(?P<long>\d{3})\d{1,2}|V(?P<v>\d\d)\.?\d{0,2}|E(?P<e>\d{3})\.?\d?")
_ICD10 = re.compile(r"(?P<letter>[A-Z])(?P<tens>\d)(?P<ones>[0-9AB])(\.?[0-9A-Z]{1,4})?[+*!†]?")
_MANY, _NEARLY_ALL, _SOME = 20, 0.9, 3
_LETTER, _TENS = 1000, 20  # how far apart categories with other letters are, and with other tens


@dataclass(frozen=True)
class IcdGroup:
    """A chapter, or a block. `codes` are its categories as they are written, `path` leads to it from the top."""

    title: str
    codes: str
    level: str
    ranges: tuple[tuple[int, int], ...]
    path: tuple[int, ...]

    @property
    def name(self) -> str:
        """The title and the codes."""
        return f"{self.title} ({self.codes})"

    @property
    def width(self) -> int:
        """How much of the order of all categories it takes."""
        return sum(last - first + 1 for first, last in self.ranges)


def path_of(system: str, code: str) -> tuple[IcdGroup, ...] | None:
    """The groups that hold a code, from the chapter down; None for a text that is no code of the system."""
    category = category_of(system, code)
    return _path_of_category(system, category) if category is not None else None


@cache
def _path_of_category(system: str, category: int) -> tuple[IcdGroup, ...] | None:
    groups = groups_of(system)
    holders = [group for group in groups if any(first <= category <= last for first, last in group.ranges)]
    if not holders:
        return None
    return tuple(groups[place] for place in min(holders, key=lambda group: group.width).path)


@cache
def groups_of(system: str) -> tuple[IcdGroup, ...]:
    """Every group of a system, after the group that holds it."""
    groups: list[IcdGroup] = []
    above: list[int] = []
    for line in files(__package__).joinpath(f"{system}.txt").read_text(encoding="utf-8").splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        codes, title = line.strip().split(" ", 1)
        ranges = tuple(_range(system, part) for part in codes.split(","))
        above[depth:] = [len(groups)]
        codes = codes.replace(",", ", ")
        groups.append(IcdGroup(title, codes, LEVELS[min(depth, 1)], ranges, tuple(above)))
    return tuple(groups)


def category_of(system: str, code: str) -> int | None:
    """Where the category of a code stands in the order of all categories; None for a text that is no code."""
    text = code.strip().upper()
    if system == "icd9":
        found = _ICD9.fullmatch(text)
        if found is None:
            return None
        number = found["number"] or found["long"]
        if number is not None:
            return int(number)
        return 22 * _LETTER + int(found["v"]) if found["v"] else 5 * _LETTER + int(found["e"])
    found = _ICD10.fullmatch(text)
    if found is None:
        return None
    return (ord(found["letter"]) - ord("A")) * _LETTER + int(found["tens"]) * _TENS + int(found["ones"], 12)


@lru_cache(maxsize=4)  # Studio asks again for every limit that moves
def system_of(values: tuple[str, ...]) -> str | None:
    """The system whose codes nearly all of the values are, if they are many; None if there is none.

    Most whole numbers are codes of ICD-9, so that some have to begin with V or E.
    """
    for system in SYSTEMS:
        codes = [value for value in values if path_of(system, value) is not None]
        lettered = sum(code.strip()[0] in "VvEe" for code in codes) if system == "icd9" else len(codes)
        if len(codes) >= max(_MANY, _NEARLY_ALL * len(values)) and lettered >= _SOME:
            return system
    return None


def groups_to_offer(values: Sequence[str], about: str = "") -> str | None:
    """How to let groups of codes have limits, where the values are codes; None if they are not.

    `about` is what options begin with where there are several sensitive columns.
    """
    system = system_of(tuple(values))
    if system is None:
        return None
    others = [value for value in values if path_of(system, value) is None]
    besides = "".join(f" --ungrouped {shlex.quote(about + other)}" for other in others if len(others) <= _SOME)
    return f"let chapters and blocks of codes have limits too: --groups {shlex.quote(about + system)}{besides}"


def _range(system: str, text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    low, high = category_of(system, first), category_of(system, last or first)
    if low is None or high is None or high < low:
        raise ValueError(f"{text} is no range of {system}")
    return low, high
