"""The limits of groups: by name, by the rule of their level, or else by the policy's own rule."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dalenius.errors import PolicyError, did_you_mean
from dalenius.model.groups import Groups
from dalenius.model.problem import ValueCounts
from dalenius.policy.exact import format_fraction
from dalenius.policy.groups import Grouping, bands_of_values, resolve_groups
from dalenius.policy.icd import SYSTEMS, groups_of

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy


def limit_groups(policy: LimitPolicy, grouping: Grouping, counts: ValueCounts) -> tuple[Groups, list[str]]:
    """The tree above the values with the limit of each group, and notes for the publisher."""
    unknown = next((level for level in policy.levels if level not in grouping.levels), None)
    if unknown is not None:
        raise PolicyError(f"the groups have no level {unknown!r}", did_you_mean(unknown, grouping.levels))
    tree = resolve_groups(grouping, counts.values, counts.counts, policy.allow_absent)
    by_name, notes = _limits_by_name(policy, grouping, tree)
    limited = []
    for group, records in zip(tree.groups, tree.sums(counts.counts), strict=True):
        rule = policy.levels.get(group.level, policy)
        limit = by_name.get(group.name, rule.rule_limit(records, counts.total))
        if limit is not None and limit <= 0:
            raise PolicyError(
                f"the rule gives the group {group.name!r} the limit {format_fraction(limit)}; a limit must be above 0",
                "Give a floor or a base above 0.",
            )
        limited.append(replace(group, limit=limit))
    bands = bands_of_values(grouping, counts.values, counts.counts)
    return replace(tree, groups=tuple(limited)), [*notes, *(bands.notes if bands is not None else ())]


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
    """The groups of the data come first; those of a classification go by their codes too."""
    codes = [group.codes for group in groups_of(grouping.kind)] if grouping.kind in SYSTEMS else []
    return list(dict.fromkeys([*(group.name for group in tree.groups), *codes, *grouping.names]))
