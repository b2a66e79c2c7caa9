"""What a solver is given: how often each sensitive value occurs, and the limit on inferring it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dalenius.errors import CountsError

# numpy's int64 carries every count, and every product of a cap and a number of buckets (at most the total).
LARGEST_TOTAL = 2**53

# Limits are set value by value: a column with more values than this is an identifier or a measurement.
MOST_VALUES = 100_000


@dataclass(frozen=True)
class ValueCounts:
    """The sensitive values of a table and how many records carry each; sorted by value, so file order is gone."""

    values: tuple[str, ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, int]]) -> ValueCounts:
        """Counts from (value, count) pairs: checked, sorted by value, values without records left out."""
        seen: dict[str, int] = {}
        for value, count in pairs:
            if value in seen:
                raise CountsError(
                    f"the value {value!r} has more than one count",
                    "Give each sensitive value once, with its total.",
                )
            if isinstance(count, bool) or not isinstance(count, int):
                raise CountsError(f"the count of {value!r} is {count!r}, not a whole number")
            if count < 0:
                raise CountsError(f"the count of {value!r} is {count}, and a count cannot be negative")
            seen[value] = count
        kept = sorted((value, count) for value, count in seen.items() if count > 0)
        if not kept:
            raise CountsError(
                "there are no records: the table is empty" if not seen else "there are no records: every count is 0",
                "Dalenius needs at least one record.",
            )
        total = sum(count for _, count in kept)
        if total > LARGEST_TOTAL:
            raise CountsError(f"{total:,} records are more than the {LARGEST_TOTAL:,} that Dalenius can count exactly")
        return cls(tuple(value for value, _ in kept), tuple(count for _, count in kept))

    @cached_property
    def total(self) -> int:
        """The number of records, |T|."""
        return sum(self.counts)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Problem:
    """Counts, the exact limit of each value, the bucket sizes that are allowed, and what the adversary may know.

    `known_records` (Q) records of every bucket may be known to the adversary; `fake_values` (sigma) fake values are
    added to every bucket. A bucket of size S holds S records and S + sigma values, of which, fakes included, at most
    floor(limit * (S - Q)) are the same: the limits hold even against somebody who can tell fakes from real values.
    """

    values: tuple[str, ...]
    counts: tuple[int, ...]
    limits: tuple[Fraction, ...]
    min_size: int
    max_size: int
    known_records: int = 0
    fake_values: int = 0

    @cached_property
    def total(self) -> int:
        """The number of records, |T|."""
        return sum(self.counts)
