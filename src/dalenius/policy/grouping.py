"""Which groups hold which sensitive values, and their limits.

A grouping comes from a classification (`icd9`, `icd10`), from the first characters of codes, from a file or a tree by
hand, or from bands of numbers. `policy.group_sources` reads one. Every value has to be in a group, or to be named under
`ungrouped`: a value that a grouping does not know may be a typing error, and would have no limit on its group.

The limit of a group is the one by its name, or that of the rule of its level, or else that of the policy's own rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dalenius.errors import PolicyError, did_you_mean
from dalenius.model.groups import LONGEST_NAME, MOST_LEVELS, NO_GROUP, Group, Groups
from dalenius.model.problem import ValueCounts
from dalenius.policy.bands import Bands, BandSpec, resolve_bands
from dalenius.policy.exact import exact_fraction, format_fraction, quote_names
from dalenius.policy.icd import LEVELS, SYSTEMS, groups_of, path_of

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy

Path = tuple[tuple[str, str], ...]  # the groups that hold a value, from the top down: the name and the level of each

_LISTED = ("csv", "tree", "prefixes")  # kinds whose groups are listed by hand: one without values is likely a mistake


@dataclass(frozen=True)
class Grouping:
    """Where groups come from. `kind` is icd9, icd10, csv, tree, prefix, prefixes or bands.

    `paths` has the groups of each value from the top down (csv, tree), and `level_names` what the groups of each depth
    are called. `prefix` has lengths, `prefixes` the group of each prefix. Bands have a specification, or, where the
    values are bands, `paths` to coarser ones. `ungrouped` values are in no group, and that is meant.
    """

    kind: str
    paths: tuple[tuple[str, tuple[str, ...]], ...] = ()
    level_names: tuple[str, ...] = ()
    prefix: tuple[int, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    bands: BandSpec | None = None
    ungrouped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a name for two groups, and a value that is in a group and in none."""
        parents: dict[str, str] = {}
        for value, path in self.paths:
            if value in self.ungrouped:
                raise PolicyError(f"{value!r} is under ungrouped, and in the group {path[-1]!r}", "Keep one of them.")
            for depth, name in enumerate(path if self.kind != "bands" else ()):  # which may be the same on two levels
                above = path[depth - 1] if depth else ""
                if name in path[:depth] or parents.setdefault(name, above) != above:
                    raise PolicyError(
                        f"the group {name!r} is in two places: {_place(parents[name])} and {_place(above)}",
                        "Give each group a name of its own.",
                    )

    @property
    def levels(self) -> tuple[str, ...]:
        """What its groups are called, from the top down."""
        if self.kind in SYSTEMS:
            return LEVELS
        if self.kind == "prefix":
            return tuple(f"prefix {length}" for length in self.prefix)
        if self.bands is not None:
            return self.bands.levels
        return ("group",) if self.kind == "prefixes" else self.level_names

    @property
    def names(self) -> tuple[str, ...]:
        """Every group that it knows without the data: none of prefixes and bands that the data make."""
        if self.kind in SYSTEMS:
            return tuple(group.name for group in groups_of(self.kind))
        listed = [name for _, path in self.paths for name in path] + [name for _, name in self.prefixes]
        return tuple(dict.fromkeys(listed))

    @property
    def goes_by_counts(self) -> bool:
        """Whether its groups depend on how many records have a value."""
        return self.bands is not None and self.bands.quantiles is not None

    def without(self, value: str) -> Grouping:
        """The same with one more value that is in no group, unless it is listed in one."""
        listed = value in self.ungrouped or any(value == one for one, _ in self.paths)
        return self if listed else replace(self, ungrouped=(*self.ungrouped, value))

    def full_name(self, name: str) -> str:
        """The name of a group of a classification by a part of it: "Neoplasms", or "C00-D49". Others as they are."""
        if self.kind not in SYSTEMS:
            return name
        wanted = name.strip().casefold()
        for group in groups_of(self.kind):
            parts = (group.name, group.title, group.codes, group.codes.split(",")[0])
            if wanted in (part.casefold() for part in parts):
                return group.name
        return name


def resolve_groups(
    grouping: Grouping, values: Sequence[str], counts: Sequence[int] | None = None, allow_absent: bool = False
) -> Groups:
    """The tree above the values, without limits. Quantiles go by `counts`, the records of each value.

    Groups of a classification that the data do not have are left out. A listed group without values is an error,
    unless `allow_absent`.
    """
    paths = paths_of(grouping, values, counts)
    refuse_unknown(grouping, values, paths)
    places: dict[str, int] = {}
    groups: list[Group] = []
    of_value: list[int] = []
    for value in values:
        place = NO_GROUP
        for name, level in paths[value] or ():
            if name not in places:
                places[name] = len(groups)
                groups.append(Group(name, parent=place, level=level))
            place = places[name]
        of_value.append(place)
    _refuse_unpublishable(groups, max((len(path) for path in paths.values() if path), default=0))
    absent = [name for name in grouping.names if name not in places]
    if grouping.kind in _LISTED and absent and not allow_absent:
        raise PolicyError(
            f"no value of the data is in {quote_names(absent)}",
            "Correct the groups. Where it is meant, say so: --allow-absent-values, or allow_absent = true in the job "
            "file's [limits].",
        )
    return Groups(tuple(groups), tuple(of_value))


def _refuse_unpublishable(groups: Sequence[Group], levels: int) -> None:
    """An error for names that are too long, or groups too deep, to be part of a release."""
    if levels > MOST_LEVELS:
        raise PolicyError(
            f"groups are {levels} levels deep, and at most {MOST_LEVELS} are allowed", "Leave some levels out."
        )
    long = next((text for group in groups for text in (group.name, group.level) if len(text) > LONGEST_NAME), None)
    if long is not None:
        raise PolicyError(
            f"the group {long[:40]!r}... has a name of {len(long)} characters, and at most {LONGEST_NAME} are allowed",
            "Give it a shorter one: names of groups are published.",
        )


def refuse_unknown(grouping: Grouping, values: Sequence[str], paths: Mapping[str, Path | None]) -> None:
    """An error if the grouping does not know some values."""
    unknown = _unknown(paths)
    if unknown:
        share = f"{len(unknown):,} of {len(values):,} sensitive values {'is' if len(unknown) == 1 else 'are'}"
        raise PolicyError(
            f"{share} {_no_group(grouping.kind)}: {quote_names(unknown)}",
            "Correct the data or the groups, or name what is in no group: --ungrouped VALUE, or ungrouped = [...] in "
            "the job file's [groups].",
        )


def unknown_values(grouping: Grouping, values: Sequence[str]) -> list[str]:
    """The values that the grouping does not know: they are in no group, and nobody has said that it is meant."""
    return _unknown(paths_of(grouping, values, None))


def _unknown(paths: Mapping[str, Path | None]) -> list[str]:
    return [value for value, path in paths.items() if path is None]


def limit_groups(policy: LimitPolicy, grouping: Grouping, counts: ValueCounts) -> tuple[Groups, list[str]]:
    """The tree above the values with the limit of each group, and notes for the publisher."""
    unknown = next((level for level in policy.levels if level not in grouping.levels), None)
    if unknown is not None:
        raise PolicyError(f"the groups have no level {unknown!r}", did_you_mean(unknown, grouping.levels))
    grouping, of_bands = settle_bands(grouping, counts.values, counts.counts)
    tree = resolve_groups(grouping, counts.values, counts.counts, policy.allow_absent)
    by_name, notes = _limits_by_name(policy, grouping, tree)
    limited, levels_of = [], _levels_of_bands(grouping)
    sums = tree.sums(counts.counts)
    if counts.in_groups is not None:
        sums = [counts.in_groups[group.name] for group in tree.groups]
    for group, records in zip(tree.groups, sums, strict=True):
        rules = [policy.levels.get(level, policy) for level in levels_of.get(group.name, [group.level])]
        ruled = [limit for rule in rules if (limit := rule.rule_limit(records, counts.total)) is not None]
        limit = by_name.get(group.name, min(ruled, default=None))
        if limit is not None and limit <= 0:
            raise PolicyError(
                f"the rule gives the group {group.name!r} the limit {format_fraction(limit)}; a limit must be above 0",
                "Give a floor or a base above 0.",
            )
        limited.append(replace(group, limit=limit))
    return replace(tree, groups=tuple(limited)), [*notes, *of_bands]


def _levels_of_bands(grouping: Grouping) -> dict[str, list[str]]:
    """The levels of each band: it may be one on several, and then the tightest of their rules is its rule."""
    if grouping.kind != "bands":
        return {}
    levels: dict[str, list[str]] = {}
    paths = [tuple(zip(path, grouping.level_names, strict=True)) for _, path in grouping.paths]
    paths = Bands.at(grouping.bands).paths if grouping.bands is not None else paths
    for name, level in dict.fromkeys(step for path in paths for step in path):
        levels.setdefault(name, []).append(level)
    return levels


def _limits_by_name(policy: LimitPolicy, grouping: Grouping, tree: Groups) -> tuple[dict[str, Fraction], list[str]]:
    """Limits by the full names of groups that the data have. Others are errors, or notes if that is allowed."""
    present = {group.name for group in tree.groups}
    limits: dict[str, Fraction] = {}
    notes: list[str] = []
    for given, limit in policy.groups.items():
        name = grouping.full_name(given)
        if name in limits:
            raise PolicyError(f"the group {name!r} has two limits", f"{given!r} is the same group: keep one of them.")
        if name in present:
            limits[name] = limit
            continue
        if name not in grouping.names and (grouping.names or not policy.allow_absent):
            raise PolicyError(f"there is no group {given!r}", did_you_mean(given, _names_to_suggest(grouping, tree)))
        if not policy.allow_absent:
            raise PolicyError(
                f"a limit is given for the group {given!r}, and no value of the data is in it",
                "Where it is meant, say so: --allow-absent-values, or allow_absent = true in the job file's [limits].",
            )
        notes.append(f"the policy names the group {given!r}, and no value of the data is in it")
    return limits, notes


def _names_to_suggest(grouping: Grouping, tree: Groups) -> list[str]:
    """The groups of the data come first; those of a classification go by their codes and titles too."""
    parts = [part for g in groups_of(grouping.kind) for part in (g.codes, g.title)] if grouping.kind in SYSTEMS else []
    return list(dict.fromkeys([*(group.name for group in tree.groups), *parts, *grouping.names]))


def settle_bands(
    grouping: Grouping, values: Sequence[str], counts: Sequence[int] | None = None
) -> tuple[Grouping, tuple[str, ...]]:
    """The same with the cuts that quantiles or a width come to for these values, and notes for the publisher.

    Values whose text is no number are left to `resolve_groups`. 1 and 1.0 are one number.
    """
    if grouping.bands is None or (grouping.bands.quantiles is None and grouping.bands.width is None):
        return grouping, ()
    total: dict[Fraction, int] = {}
    for value, count in zip(values, counts or [1] * len(values), strict=True):
        number = number_of(value) if value not in grouping.ungrouped else None
        if number is not None:
            total[number] = total.get(number, 0) + count
    different = sorted(total, key=lambda number: (float(number), number))  # floats are quick to compare
    bands = resolve_bands(grouping.bands, different, [total[number] for number in different])
    return replace(grouping, bands=bands.spec), bands.notes


def paths_of(grouping: Grouping, values: Sequence[str], counts: Sequence[int] | None) -> Mapping[str, Path | None]:
    """The path of each value: empty if it is in no group, and None if the grouping does not know it."""
    ungrouped = frozenset(grouping.ungrouped)
    known: dict[str, Path | None] = dict.fromkeys((value for value in values if value in ungrouped), ())
    path = _finder(settle_bands(grouping, values, counts)[0])
    return known | {value: path(value) for value in values if value not in ungrouped}


def _finder(grouping: Grouping) -> Callable[[str], Path | None]:
    """What finds the path of a value; None for one that the grouping does not know."""
    if grouping.kind in SYSTEMS:

        def of_code(value: str) -> Path | None:
            holders = path_of(grouping.kind, value)
            return None if holders is None else tuple((group.name, group.level) for group in holders)

        return of_code
    if grouping.bands is not None:
        return _band_finder(Bands.at(grouping.bands))
    if grouping.kind == "prefix":
        return lambda value: tuple((value[:n], f"prefix {n}") for n in grouping.prefix if n <= len(value)) or None
    if grouping.kind == "prefixes":
        longest_first = sorted(grouping.prefixes, key=lambda prefix: -len(prefix[0]))
        return lambda value: next(
            (((name, "group"),) for begun, name in longest_first if value.startswith(begun)), None
        )
    levels = grouping.level_names
    listed = {value: tuple(zip(names, levels, strict=False)) for value, names in grouping.paths}
    return listed.get


def _band_finder(bands: Bands) -> Callable[[str], Path | None]:
    paths = bands.paths

    def of_number(value: str) -> Path | None:
        number = number_of(value)
        return None if number is None else paths[bisect_right(bands.cuts, number)]

    return of_number


def number_of(value: str) -> Fraction | None:
    """The number that a text is; None if it is none."""
    try:
        return exact_fraction(value, "a value")
    except PolicyError:
        return None


def _no_group(kind: str) -> str:
    if kind in SYSTEMS:
        return f"unknown to {kind}"
    return "not numeric" if kind == "bands" else "in no group"


def _place(above: str) -> str:
    return f"in {above!r}" if above else "at the top"
