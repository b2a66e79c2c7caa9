"""Groups of sensitive values: a tree whose leaves are the values, with a limit wherever the publisher set one.

"Any cancer" is a group of codes, and "any disease of the blood" may be one of such groups. In a bucket of size S the
values under a group with limit f' are at most floor(f' (S - Q)), as if they were one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

NO_GROUP = -1
MOST_LEVELS = 16  # of groups within groups, in a release: whoever checks it goes through all of them
LONGEST_NAME = 300  # characters of a group's name, and of its level: they are published, and nothing else is to fit in


@dataclass(frozen=True)
class Group:
    """A node of the tree above the values. Without a limit it is only a name for its members.

    `level` is what groups of this kind are called: "chapter", say, or "block".
    """

    name: str
    limit: Fraction | None = None
    parent: int = NO_GROUP
    level: str = ""


@dataclass(frozen=True)
class Groups:
    """The tree above some values: groups after their parents, and for each value the lowest group that holds it.

    A value may be in no group (`NO_GROUP`), and a group may have no values here: a stratum lacks some.
    """

    groups: tuple[Group, ...]
    of_value: tuple[int, ...]

    def __post_init__(self) -> None:
        if any(not NO_GROUP <= group.parent < place for place, group in enumerate(self.groups)):
            raise ValueError("a group must come after its parent")
        if any(not NO_GROUP <= group < len(self.groups) for group in self.of_value):
            raise ValueError("a value is in a group that is not there")

    def take(self, values: Sequence[int]) -> Groups:
        """The tree above some of the values, in this order."""
        return replace(self, of_value=tuple(self.of_value[i] for i in values))

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """For each group the groups from the top down to it, itself included."""
        paths: list[tuple[int, ...]] = []
        for place, group in enumerate(self.groups):
            paths.append(((*paths[group.parent],) if group.parent != NO_GROUP else ()) + (place,))
        return tuple(paths)

    def path(self, value: int) -> tuple[int, ...]:
        """The groups that hold a value, from the top down."""
        group = self.of_value[value]
        return () if group == NO_GROUP else self.paths[group]

    def order(self) -> list[int]:
        """The values depth first: those of a group are neighbours, whichever group it is."""
        return sorted(range(len(self.of_value)), key=lambda value: (self._place(value), value))

    def _place(self, value: int) -> tuple[int, ...]:
        """A key by which depth-first order sorts: the path, and values in no further group after all groups."""
        return (*self.path(value), len(self.groups))

    def members(self) -> list[list[int]]:
        """For each group the values under it, in their order."""
        members: list[list[int]] = [[] for _ in self.groups]
        for value in range(len(self.of_value)):
            for group in self.path(value):
                members[group].append(value)
        return members

    def sums(self, counts: Sequence[int]) -> list[int]:
        """For each group the records under it, given those of each value."""
        sums = [0] * len(self.groups)
        for value, count in enumerate(counts):
            if self.of_value[value] != NO_GROUP:
                sums[self.of_value[value]] += count
        for place in range(len(self.groups) - 1, -1, -1):
            parent = self.groups[place].parent
            if parent != NO_GROUP:
                sums[parent] += sums[place]
        return sums

    def tightest(self, limits: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """For each value the smallest of its own limit and those of the groups that hold it."""
        least: list[Fraction | None] = []
        for group in self.groups:
            above = least[group.parent] if group.parent != NO_GROUP else None
            both = [limit for limit in (above, group.limit) if limit is not None]
            least.append(min(both, default=None))
        tightest = []
        for own, place in zip(limits, self.of_value, strict=True):
            above = least[place] if place != NO_GROUP else None
            tightest.append(own if above is None else min(own, above))
        return tuple(tightest)
