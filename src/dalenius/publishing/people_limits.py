"""The limits of people's values, and of groups of them: frequencies are of people, not of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dalenius.model.groups import NO_GROUP, Group
from dalenius.model.problem import ValueCounts
from dalenius.place.domains import Integers
from dalenius.place.people import Items, Numbers
from dalenius.place.sensitive import SensitiveColumn
from dalenius.policy.grouping import resolve_groups
from dalenius.policy.limits import LimitPolicy, as_policy, resolve_limits
from dalenius.tables.arrays import distinct


@dataclass(frozen=True)
class LimitedSet:
    """A sensitive set with its limits: those of values by code, and those of groups, which are in a manifest's order.

    `holders` has for each code the places of the groups that hold it, from the top down. `in_groups` are the groups
    that people have a value of; None if there are no groups. The last of them, if anybody has a value in no group, is
    not a group of the list: its place is the number of groups.
    """

    column: SensitiveColumn
    policy: LimitPolicy
    limits: tuple[Fraction, ...]
    groups: tuple[Group, ...]
    holders: tuple[tuple[int, ...], ...]
    items: Items
    in_groups: Items | None
    notes: tuple[str, ...] = ()

    @property
    def group_limits(self) -> tuple[Fraction, ...]:
        """The limit of each group, 1 where there is none."""
        return tuple(Fraction(1) if group.limit is None else group.limit for group in self.groups)


def limit_set(
    column: SensitiveColumn, items: Items, limits: LimitPolicy | Mapping[Any, Any], null_name: str | None
) -> LimitedSet:
    """Resolve the limits of a set from how many people have each value, and some value of each group."""
    people = len(items.offsets) - 1
    by_code = np.bincount(items.codes, minlength=len(column.texts))
    counts = replace(ValueCounts.of(zip(column.texts, by_code.tolist(), strict=True)), people=people)
    policy = as_policy(limits, counts).ungrouping(null_name)
    code_of = {text: code for code, text in enumerate(column.texts)}
    codes = [code_of[value] for value in counts.values]
    groups: tuple[Group, ...] = ()
    holders: list[tuple[int, ...]] = [()] * len(column.texts)
    in_groups = None
    if policy.grouping is not None:
        tree = resolve_groups(policy.grouping, counts.values, counts.counts, policy.allow_absent)
        places = _in_order([tuple(tree.groups[above].name for above in path) for path in tree.paths])
        for value, code in enumerate(codes):
            holders[code] = tuple(places[place] for place in tree.path(value))
        in_groups = items_of_groups(items, holders, len(places))
        held = np.bincount(in_groups.codes, minlength=len(places))
        counts = replace(counts, in_groups={group.name: int(held[places[k]]) for k, group in enumerate(tree.groups)})
    resolved = resolve_limits(policy, counts)
    if resolved.groups is not None:
        groups = _reordered(resolved.groups.groups, places)
    by_value = dict(zip(codes, resolved.limits, strict=True))
    return LimitedSet(
        column=column,
        policy=policy,
        limits=tuple(by_value.get(code, Fraction(1)) for code in range(len(column.texts))),
        groups=groups,
        holders=tuple(holders),
        items=items,
        in_groups=in_groups,
        notes=resolved.notes,
    )


def _in_order(paths: Sequence[tuple[str, ...]]) -> list[int]:
    """The place of each group in the order of a manifest: that of the paths, name by name."""
    order = sorted(range(len(paths)), key=lambda place: paths[place])
    places = [0] * len(paths)
    for number, place in enumerate(order):
        places[place] = number
    return places


def _reordered(groups: Sequence[Group], places: Sequence[int]) -> tuple[Group, ...]:
    ordered: list[Group] = list(groups)
    for group, place in zip(groups, places, strict=True):
        ordered[place] = replace(group, parent=places[group.parent] if group.parent != NO_GROUP else NO_GROUP)
    return tuple(ordered)


def items_of_groups(items: Items, holders: Sequence[Sequence[int]], groups: int, *, add_rows: bool = False) -> Items:
    """The groups that each person has a value of, each once; behind all groups, whether one of them is in none.

    The rows of a group, if they are wanted, are those of its values added up, though a row may have several of them.
    """
    of_code = [path or (groups,) for path in holders]
    lengths = np.array([len(path) for path in of_code])
    flat = np.array([group for path in of_code for group in path], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    repeats = lengths[items.codes]
    ends = np.cumsum(repeats)
    places = np.repeat(starts[items.codes] - (ends - repeats), repeats) + np.arange(ends[-1] if len(ends) else 0)
    pairs = np.repeat(items.people, repeats) * (groups + 1) + flat[places]
    if add_rows:
        pairs, inverse = np.unique(pairs, return_inverse=True)
        rows = np.bincount(inverse, np.repeat(items.rows, repeats)).astype(np.int32)
    else:
        pairs = distinct(pairs)
        rows = np.ones(len(pairs), dtype=np.int32)
    counts = np.bincount(pairs // (groups + 1), minlength=len(items.offsets) - 1)
    codes = (pairs % (groups + 1)).astype(np.int32)
    return Items(np.concatenate(([0], np.cumsum(counts))), codes, rows)


@dataclass(frozen=True)
class AllItems:
    """The items of all sets, and groups that have limits, under numbers of their own, as solvers take them."""

    offsets: Integers
    items: Numbers
    limits: tuple[Fraction, ...]
    names: tuple[tuple[str, str], ...]  # of each item: its set, and the value or group
    is_group: tuple[bool, ...]

    def take(self, people: Integers) -> tuple[Integers, Numbers]:
        """Offsets and items of some people, in this order."""
        starts = self.offsets[people]
        lengths = self.offsets[people + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        starts -= offsets[:-1]
        places = np.repeat(starts, lengths)
        places += np.arange(len(places))
        return offsets, self.items[places]


def all_items(people: int, sets: Sequence[LimitedSet]) -> AllItems:
    """Put the items of so many people in all sets together. A group is an item of whoever has a value of it."""
    parts: list[tuple[Items, Integers]] = []  # items, and for each code its number, or -1
    limits: list[Fraction] = []
    names: list[tuple[str, str]] = []
    is_group: list[bool] = []
    for one in sets:
        parts.append((one.items, len(limits) + np.arange(len(one.limits))))
        limits += one.limits
        names += [(one.column.name, text) for text in one.column.texts]
        is_group += [False] * len(one.limits)
        if one.in_groups is not None:
            numbers = np.full(len(one.groups) + 1, -1)
            for place, limit in enumerate(one.group_limits):
                if limit < 1:
                    numbers[place] = len(limits)
                    limits.append(limit)
                    names.append((one.column.name, one.groups[place].name))
                    is_group.append(True)
            parts.append((one.in_groups, numbers))
    if len(parts) == 1:
        items = parts[0][0]
        return AllItems(items.offsets, items.codes, tuple(limits), tuple(names), tuple(is_group))
    offsets, together = _put_together(parts, people)
    return AllItems(offsets, together, tuple(limits), tuple(names), tuple(is_group))


def _put_together(parts: Sequence[tuple[Items, Integers]], people: int) -> tuple[Integers, Numbers]:
    """Offsets and numbers of what each person has in all parts, where each part has larger numbers than those before.

    Nothing is sorted, and there are a few bytes for each item: this is done for everybody at once.
    """
    pieces: list[tuple[Numbers, Numbers]] = []  # how many items each person has, and their numbers
    offsets = np.zeros(people + 1, dtype=np.int64)
    for items, numbers in parts:
        found = numbers.astype(np.int32)[items.codes]
        ends = items.offsets
        if (found < 0).any():
            kept = found >= 0
            ends = np.concatenate(([0], np.cumsum(kept)))[ends]
            found = found[kept]
        lengths = np.diff(ends).astype(np.int32)
        pieces.append((lengths, found))
        offsets[1:] += lengths
    np.cumsum(offsets, out=offsets)
    together = np.empty(int(offsets[-1]), dtype=np.int32)
    free = offsets[:-1].copy()  # the first place of each person that is not taken
    for lengths, found in pieces:
        if (lengths == 1).all():
            together[free] = found
        else:
            firsts = np.cumsum(lengths, dtype=np.int64)
            firsts -= lengths
            places = np.repeat(free - firsts, lengths)
            places += np.arange(len(places))
            together[places] = found
        free += lengths
    return offsets, together
