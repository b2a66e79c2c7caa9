"""Numbers of rows that tell too much: people who have as many rows, and no buckets that keep the limits.

People of a bucket have equally many rows. So a bucket can hide a value among those with r rows only if few enough of
them have it: h_x(r) <= f'_x n(r), where n(r) people have r rows (without the Q that somebody may know). Where it is
not so, the publisher is told all at once: for which numbers of rows, because of which values, and what would help.

`--most-rows K` puts people with more than K rows among those with K. They lose rows at random, so no more than the
people with at least K rows who have a value now can have it then: limits that are above that share are high enough.
Where rows were left out already, others are left out the next time. Advice is for nearly every time: for as many people
with a value as are expected to have it, and four standard deviations more.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dalenius.errors import NoSolutionError
from dalenius.place.domains import Integers
from dalenius.place.items import Items, Shortened
from dalenius.publishing.people_limits import AllItems, LimitedSet, items_of_groups

_MOST_LINES = 6
_MOST_LIMITS = 3  # that somebody is advised to raise
_MOST_CELLS = 2**24  # of numbers of rows and items
_DEVIATIONS = 4
_MANY_ROWS, _MANY_TIMES = 10, 5


@dataclass(frozen=True)
class _Held:
    """How many people have each number of rows, ascending, and each item."""

    numbers: tuple[int, ...]
    people: tuple[int, ...]
    counts: Integers  # number of rows x item
    items: AllItems
    least: int
    known: int
    more: Integers  # of those with the largest number, who may have an item if other rows are left out

    def above(self, people: int, counts: Integers) -> dict[int, Fraction]:
        """The items of so many people that exceed their limits, with the limits that would do."""
        left = people - self.known
        if people < self.least or left < 1:
            return {int(item): Fraction(1) for item in np.flatnonzero(counts)}
        shares = {int(item): Fraction(int(counts[item]), left) for item in np.flatnonzero(counts)}
        return {item: share for item, share in shares.items() if share > self.items.limits[item]}

    def with_most(self, place: int) -> dict[int, Fraction] | None:
        """The limits that are too low if nobody keeps more rows than the number at a place, and what would do.

        None if no limits below 1 would do: somebody is alone, or everybody has a value.
        """
        wanted: dict[int, Fraction] = {}
        for lower in range(place):
            _raise(wanted, self.above(self.people[lower], self.counts[lower]))
        people = sum(self.people[place:])
        _raise(wanted, self.above(people, np.minimum(self.counts[place:].sum(axis=0) + self.more, people)))
        return wanted if all(share < 1 for share in wanted.values()) else None

    def left_out(self, place: int) -> int:
        """How many rows people lose who keep no more than the number at a place."""
        most = self.numbers[place]
        return sum((self.numbers[k] - most) * self.people[k] for k in range(place + 1, len(self.numbers)))


def refuse_telling_numbers(
    rows_each: Integers, items: AllItems, least: int, known: int, more: Callable[[], Integers] | None = None
) -> None:
    """An error if people with some number of rows have no buckets, whatever their sizes.

    `more` says how many more of those with the largest number may have each item the next time (`more_by_chance`).
    """
    numbers, place = np.unique(rows_each, return_inverse=True)
    many = len(items.limits)
    owner = np.repeat(place, np.diff(items.offsets))
    if len(numbers) * many > _MOST_CELLS:  # all of those with the largest numbers are too few anyway
        raise NoSolutionError(
            f"people have {len(numbers):,} different numbers of rows, from {numbers[0]:,} to {numbers[-1]:,}, and "
            "people of a bucket have equally many",
            "Keep fewer rows of a person: --most-rows 5.",
            most_rows=5,
        )
    counts = np.zeros(len(numbers) * many, dtype=np.int64)
    keys = owner * many + items.items
    np.add(counts, np.bincount(keys, minlength=len(counts)), out=counts)
    people = tuple(np.bincount(place).tolist())
    none = np.zeros(many, dtype=np.int64)
    held = _Held(tuple(numbers.tolist()), people, counts.reshape(len(numbers), many), items, least, known, none)
    failed = {k: over for k in range(len(numbers)) if (over := held.above(people[k], held.counts[k]))}
    if failed:
        raise _error(held if more is None else replace(held, more=more()), failed)


def more_by_chance(shortened: Shortened, sets: Sequence[LimitedSet]) -> Integers:
    """How many more people may have each of `AllItems` if other rows are left out; of a group, rather too many."""
    parts = []
    for one, whole in zip(sets, shortened.items, strict=True):
        parts.append(_more(shortened, whole, one.items, len(one.limits)))
        if one.in_groups is not None:
            groups = len(one.groups)
            in_groups = items_of_groups(whole, one.holders, groups, add_rows=True)
            limited = [place for place, limit in enumerate(one.group_limits) if limit < 1]
            parts.append(_more(shortened, in_groups, one.in_groups, groups + 1)[limited])
    return np.concatenate(parts)


def _more(shortened: Shortened, whole: Items, kept: Items, kinds: int) -> Integers:
    chances = shortened.chances(whole.people, np.minimum(whole.rows, shortened.rows[whole.people]))
    expected = np.bincount(whole.codes, chances, kinds)
    deviation = np.sqrt(np.bincount(whole.codes, chances * (1 - chances), kinds))
    likely = np.minimum(np.ceil(expected + _DEVIATIONS * deviation), np.bincount(whole.codes, minlength=kinds))
    now = np.bincount(kept.take(shortened.people).codes, minlength=kinds)
    more: Integers = np.maximum(0, likely.astype(np.int64) - now)
    return more


def _error(held: _Held, failed: dict[int, dict[int, Fraction]]) -> NoSolutionError:
    concerned = sum(held.people[place] for place in failed)
    everybody = len(failed) == len(held.numbers)
    tells = "no buckets keep the limits" if everybody else "their number of rows tells too much"
    lines = [f"for {concerned:,} of {sum(held.people):,} people {tells}. People of a bucket have equally many rows"]
    lines += [f"  {line}" for line in _lines(held, failed)]
    advice, most_rows = _advice(held, failed)
    if _is_hardly_a_person(held):
        advice = (
            f"If the person with {_rows(held.numbers[-1])} stands for a missing one, give each of these rows a person, "
            f"or leave them out.\n{advice}"
        )
    return NoSolutionError("\n".join(lines), advice, most_rows=most_rows)


def _is_hardly_a_person(held: _Held) -> bool:
    """Whether one person has many more rows than anybody else."""
    alone = len(held.numbers) > 1 and held.people[-1] == 1
    return alone and held.numbers[-1] >= max(_MANY_ROWS, _MANY_TIMES * held.numbers[-2])


def _lines(held: _Held, failed: dict[int, dict[int, Fraction]]) -> Iterator[str]:
    for place in sorted(failed)[:_MOST_LINES]:
        people, over = held.people[place], failed[place]
        with_rows = f"{_rows(held.numbers[place])}: {people:,} {'people' if people > 1 else 'person'}"
        if people < held.least:
            yield f"{with_rows}, too few for a bucket of {held.least:,}"
            continue
        worst = max(over, key=lambda item: over[item] / held.items.limits[item])
        count = int(held.counts[place][worst])
        others = len(over) - 1
        more = f"; {others:,} more {'are above their limits' if others > 1 else 'is above its limit'}" if others else ""
        yield (
            f"{with_rows}, {count:,} of them ({count / people:.1%}) with {_name(held.items, worst)}, whose limit is "
            f"{float(held.items.limits[worst]):.1%}{more}"
        )
    if len(failed) > _MOST_LINES:
        rest = sorted(failed)[_MOST_LINES:]
        yield (
            f"{held.numbers[rest[0]]:,} to {held.numbers[rest[-1]]:,} rows: "
            f"{sum(held.people[place] for place in rest):,} people more"
        )


def _advice(held: _Held, failed: dict[int, dict[int, Fraction]]) -> tuple[str, int | None]:
    """Two ways out: higher limits for a few values with as many rows as possible, or fewer rows; and how many."""
    last = len(held.numbers) - 1
    wanted = [held.with_most(place) for place in range(last + 1)]
    raised = next((k for k in range(last, -1, -1) if 0 < len(wanted[k] or ()) <= _MOST_LIMITS), None)
    kept = next((k for k in range(last - 1, -1, -1) if wanted[k] == {}), None)
    ways, most_rows = [], None
    if raised is not None and (kept is None or raised > kept):
        limits = " ".join(_option(held.items, item, share) for item, share in (wanted[raised] or {}).items())
        rows = f" --most-rows {held.numbers[raised]}" if raised < last else ""
        left = f", which leaves out {held.left_out(raised):,} rows" if raised < last else ""
        ways.append(f"Raise what is too low: {limits}{rows}{left}.")
    if kept is not None or min(failed) > 0:
        place = kept if kept is not None else min(failed) - 1
        most_rows = held.numbers[place]
        ways.append(
            f"{'Or keep' if ways else 'Keep'} fewer rows of a person, chosen at random: "
            f"--most-rows {most_rows}, which leaves out {held.left_out(place):,} rows."
        )
    return "\n".join(ways) if ways else _one_for_all(failed), most_rows


def _one_for_all(failed: dict[int, dict[int, Fraction]]) -> str:
    """How low a limit for all values can be."""
    least = max(share for over in failed.values() for share in over.values())
    lowest = Fraction(math.ceil(1000 * least), 1000)
    if lowest >= 1:
        return "Relax the limits, or keep fewer rows of a person: --most-rows 1."
    return f"Relax the limits: one for all values works from {float(lowest):g} on (--uniform {float(lowest):g})."


def _raise(wanted: dict[int, Fraction], more: dict[int, Fraction]) -> None:
    for item, share in more.items():
        wanted[item] = max(share, wanted.get(item, share))


def _option(items: AllItems, item: int, share: Fraction) -> str:
    """The option that gives an item a limit that is high enough, to three digits."""
    name, value = items.names[item]
    several = len({one for one, _ in items.names}) > 1
    limit = Fraction(math.ceil(1000 * share), 1000)
    text = f"{value}={float(limit):g}"
    option = "--group-limit" if items.is_group[item] else "--limit"
    return f"{option} {shlex.quote(f'{name}:{text}' if several else text)}"


def _name(items: AllItems, item: int) -> str:
    name, value = items.names[item]
    return f"{value!r} of {name!r}"


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def too_few(rows_each: int, people: int) -> NoSolutionError:
    """The error for people with as many rows who have no buckets after all."""
    return NoSolutionError(
        f"no buckets keep the limits of {people:,} people with {_rows(rows_each)} each",
        "Relax the limits, or give fewer --corrupted.",
    )
