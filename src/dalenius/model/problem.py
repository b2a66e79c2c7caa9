"""The problem that solvers solve, and what a solution is made of.

A problem is how often each sensitive value occurs, with the limit on inferring it. A bucket setting says how many
buckets there are of each size, and so what they lose; a partition says which records go to which size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from dalenius.errors import CountsError
from dalenius.model.groups import Groups

# numpy's int64 carries every count, and every product of a cap and a number of buckets (at most the total).
LARGEST_TOTAL = 2**53

# Limits are set value by value: a column with more values than this is an identifier or a measurement.
MOST_VALUES = 100_000

MISSING = "missing"  # the name of what is missing, where codes for it are given and no name
MOST_CODES = 100  # for what is missing: they are published, and nothing else is to fit in


def name_of_nulls(null_value: str | None, missing: Sequence[str]) -> str | None:
    """The name under which nulls count, and codes for what is missing; None if there is none, and nulls are errors."""
    return null_value if null_value is not None or not missing else MISSING


@dataclass(frozen=True)
class ValueCounts:
    """The sensitive values of a table and how many records carry each; sorted by value, so file order is gone.

    If they are bands of numbers, by which a table of numbers was counted, `cuts` has the cuts between them, after those
    between coarser bands, the outermost first.

    Where people are counted, who may have several values each, there are `people` of them, and `in_groups` says how
    many have a value of each group, by its name.
    """

    values: tuple[str, ...]
    counts: tuple[int, ...]
    cuts: tuple[tuple[Fraction, ...], ...] = ()
    people: int | None = None
    in_groups: Mapping[str, int] | None = None

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, int]], *, cuts: tuple[tuple[Fraction, ...], ...] = ()) -> ValueCounts:
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
                raise CountsError(f"the count of {value!r} is {count}; a count cannot be negative")
            seen[value] = count
        present = sorted((value, count) for value, count in seen.items() if count > 0)
        if not present:
            raise CountsError(
                "there are no records: the table is empty" if not seen else "there are no records: every count is 0",
                "Dalenius needs at least one record.",
            )
        total = sum(count for _, count in present)
        if total > LARGEST_TOTAL:
            raise CountsError(f"{total:,} records are more than the {LARGEST_TOTAL:,} that Dalenius can count exactly")
        return cls(tuple(value for value, _ in present), tuple(count for _, count in present), cuts)

    @property
    def are_bands(self) -> bool:
        """Whether a table of numbers was counted by bands."""
        return bool(self.cuts)

    @cached_property
    def total(self) -> int:
        """The number of records, |T|; of people, where these are counted."""
        return sum(self.counts) if self.people is None else self.people

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Problem:
    """Counts, the exact limit of each value, the bucket sizes that are allowed, and what the attacker may know.

    `known_records` (Q) records of every bucket may be known to the attacker; `fake_values` (sigma) fake values are
    added to every bucket. A bucket of size S holds S records and S + sigma values, of which, fakes included, at most
    floor(limit * (S - Q)) are the same: the limits hold even against somebody who can tell fakes from real values.
    With `groups`, the same holds of the values under each group that has a limit.
    """

    values: tuple[str, ...]
    counts: tuple[int, ...]
    limits: tuple[Fraction, ...]
    min_size: int
    max_size: int
    known_records: int = 0
    fake_values: int = 0
    groups: Groups | None = None

    @cached_property
    def total(self) -> int:
        """The number of records, |T|."""
        return sum(self.counts)

    @cached_property
    def tightest(self) -> tuple[Fraction, ...]:
        """For each value the smallest limit on it: its own, or that of a group that holds it."""
        return self.limits if self.groups is None else self.groups.tightest(self.limits)

    def with_limits(self, values: Mapping[str, Fraction], groups: Mapping[str, Fraction]) -> Problem:
        """The same with other limits for some values and some groups."""
        own = zip(self.values, self.limits, strict=True)
        limits = tuple(values.get(value, limit) for value, limit in own)
        tree = self.groups
        if tree is not None:
            changed = (replace(group, limit=groups.get(group.name, group.limit)) for group in tree.groups)
            tree = replace(tree, groups=tuple(changed))
        return replace(self, limits=limits, groups=tree)

    def take(self, values: Sequence[int], counts: Sequence[int] | None = None) -> Problem:
        """The same limits for some of the values, in this order, with their counts or with others."""
        return replace(
            self,
            values=tuple(self.values[i] for i in values),
            counts=tuple(self.counts[i] for i in values) if counts is None else tuple(counts),
            limits=tuple(self.limits[i] for i in values),
            groups=None if self.groups is None else self.groups.take(values),
        )


@dataclass(frozen=True)
class SizeGroup:
    """`buckets` buckets that hold `size` records each."""

    size: int
    buckets: int

    @property
    def records(self) -> int:
        """How many records the group holds."""
        return self.size * self.buckets

    @property
    def loss(self) -> int:
        """The group's share of the loss: (size - 1)^2 a bucket."""
        return self.buckets * (self.size - 1) ** 2


@dataclass(frozen=True)
class BucketSetting:
    """Size groups in ascending order of size, none of them empty."""

    groups: tuple[SizeGroup, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> BucketSetting:
        """A setting from (size, buckets) pairs in any order; equal sizes are added up, empty groups left out."""
        buckets: dict[int, int] = {}
        for size, number in pairs:
            if size < 1 or number < 0:
                raise ValueError(f"a size group needs size >= 1 and buckets >= 0, got size={size}, buckets={number}")
            buckets[int(size)] = buckets.get(int(size), 0) + int(number)
        return cls(tuple(SizeGroup(size, buckets[size]) for size in sorted(buckets) if buckets[size]))

    @property
    def records(self) -> int:
        """How many records the setting holds."""
        return sum(group.records for group in self.groups)

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return sum(group.buckets for group in self.groups)

    @property
    def loss(self) -> int:
        """Loss = the sum of (bucket size - 1)^2 over all buckets (the paper's Equation 2)."""
        return sum(group.loss for group in self.groups)

    @property
    def mse(self) -> Fraction:
        """MSE = Loss / (|T| - 1) (Definition 3); 0 for a single record, which loses nothing."""
        return Fraction(self.loss, self.records - 1) if self.records > 1 else Fraction(0)

    def __str__(self) -> str:
        return " + ".join(f"{group.buckets} x {group.size}" for group in self.groups) or "no buckets"


@dataclass(frozen=True)
class Partition:
    """How the records of each value are shared out between the size groups of a setting.

    `quotas[i][j]` records of value i go to size group j. Each row adds up to the value's count, each column to
    the group's records, and no quota exceeds what the value's limit allows in that group.

    `fakes[i][j]` fake values i go to size group j besides; each column adds up to the fake values of the group. It is
    empty where there are none.
    """

    setting: BucketSetting
    quotas: tuple[tuple[int, ...], ...]
    fakes: tuple[tuple[int, ...], ...] = ()

    @property
    def slots(self) -> tuple[tuple[int, ...], ...]:
        """Records and fake values together: what ST shows."""
        if not self.fakes:
            return self.quotas
        rows = zip(self.quotas, self.fakes, strict=True)
        return tuple(tuple(a + b for a, b in zip(own, fake, strict=True)) for own, fake in rows)

    @property
    def fake_values(self) -> int:
        """Fake values in every bucket."""
        return sum(row[0] for row in self.fakes) // self.setting.groups[0].buckets if self.fakes else 0


@dataclass(frozen=True)
class Violation:
    """Why a setting admits no valid record assignment: the constraint that fails, and where.

    `constraint` is "capacity" (the buckets do not hold exactly the records), "privacy" (some value has more
    records than its limit lets the buckets take), "fill" (some bucket sizes cannot be filled), "cut" (Gale's
    condition fails for a set of sizes that no single fill or privacy constraint covers) or "groups" (limits of groups
    leave no place for all records of some values). `have` falls short of `need`; `values` are indices into the
    problem's values.
    """

    constraint: str
    have: int
    need: int
    values: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
