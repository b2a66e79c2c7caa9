"""Policies about bands of numbers: counts by band, and limits on bands as limits on values.

The finest bands are values, once numbers are counted by them. Coarser ones are groups of these.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dalenius.errors import PolicyError, did_you_mean, nearest_name
from dalenius.model.problem import ValueCounts
from dalenius.policy.bands import Bands, exact_text, notes_on_quantiles, suggest_bands
from dalenius.policy.grouping import Grouping, number_of, paths_of, refuse_unknown, settle_bands

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy


def count_by_band(grouping: Grouping, counts: ValueCounts) -> tuple[Bands, ValueCounts]:
    """The bands of numbers that are given as texts, and the records of each; `ungrouped` values stay what they are."""
    settled, notes = settle_bands(grouping, counts.values, counts.counts)
    if settled.bands is None:
        raise ValueError(f"{grouping.kind} has no bands")
    bands = replace(Bands.at(settled.bands), notes=notes)
    totals: dict[str, int] = {}
    paths = paths_of(settled, counts.values, counts.counts)
    refuse_unknown(grouping, counts.values, paths)
    for value, count in zip(counts.values, counts.counts, strict=True):
        path = paths[value]
        name = path[-1][0] if path else value
        totals[name] = totals.get(name, 0) + count
    return bands, ValueCounts.of(totals.items(), cuts=bands.levels)


@lru_cache(maxsize=4)  # Studio asks again for every limit that moves
def bands_to_offer(counts: ValueCounts, about: str = "") -> str | None:
    """How to put the numbers of a column into bands, cut at round ones; None if not all values are numbers.

    `about` is what the option begins with where there are several sensitive columns.
    """
    totals: dict[Fraction, int] = {}
    for value, count in zip(counts.values, counts.counts, strict=True):
        number = number_of(value)
        if number is None:
            return None
        totals[number] = totals.get(number, 0) + count
    different = sorted(totals)
    cuts = suggest_bands(different, [totals[number] for number in different]).cuts
    if not cuts:
        return None
    spec = shlex.quote(f"{about}cuts:{','.join(map(exact_text, cuts))}")
    return f"let limits be on bands of numbers, and publish exact numbers all the same: --groups {spec}"


def with_bands_as_values(policy: LimitPolicy, counts: ValueCounts) -> tuple[LimitPolicy, ValueCounts, tuple[str, ...]]:
    """A policy about bands as one about values, the counts by band, and notes; any other policy as it is."""
    if policy.grouping is None or policy.grouping.bands is None:
        return policy, counts, ()
    if counts.are_bands:
        *coarser, finest = counts.cuts
        notes = notes_on_quantiles(policy.grouping.bands.quantiles, len(finest) + 1)
        return policy_of_bands(policy, Bands(finest, coarser=tuple(coarser))), counts, notes
    bands, counts = count_by_band(policy.grouping, counts)
    return policy_of_bands(policy, bands), counts, bands.notes


def policy_of_bands(policy: LimitPolicy, bands: Bands) -> LimitPolicy:
    """A policy about bands as one about values, the finest bands, and about groups of them, the coarser ones.

    A band may have its limit under `groups` or under `values`. The rule of the level "band" is the rule for values,
    and levels above without a rule of their own keep the policy's.
    """
    grouping = policy.grouping
    if grouping is None:
        raise ValueError("the policy has no bands")
    twice = next((name for name in policy.groups if name in policy.values), None)
    if twice is not None:
        raise PolicyError(f"the band {twice!r} has two limits", "Keep one of them.")
    unknown = next((level for level in policy.levels if level not in grouping.levels), None)
    if unknown is not None:
        raise PolicyError(f"the groups have no level {unknown!r}", did_you_mean(unknown, grouping.levels))
    *above, _ = (level for level, cuts in zip(grouping.levels, bands.levels, strict=True) if cuts or level == "band")
    paths = tuple((path[-1][0], tuple(name for name, _ in path[:-1])) for path in bands.paths)
    coarse = {name for _, path in paths for name in path}
    by_name = {**policy.values, **policy.groups}
    is_coarse = {name: name in coarse or _is_meant(name, policy, bands, coarse) for name in by_name}
    own_rule = replace(policy, values={}, groups={}, levels={}, grouping=None, allow_absent=False)
    return replace(
        policy.levels.get("band", own_rule),
        values={name: limit for name, limit in by_name.items() if name in bands.names or not is_coarse[name]},
        allow_absent=policy.allow_absent,
        grouping=Grouping("bands", paths, tuple(above), ungrouped=_no_band(grouping, bands)) if above else None,
        groups={name: limit for name, limit in by_name.items() if is_coarse[name]},
        levels={level: policy.levels.get(level, own_rule) for level in above if policy.levels},
    )


def _is_meant(name: str, policy: LimitPolicy, bands: Bands, coarse: Collection[str]) -> bool:
    """Whether a name that no band has is nearest to a coarser one: then the error should be about groups."""
    known = name in bands.names or name in policy.values or policy.allow_absent
    return not known and nearest_name(name, [*bands.names, *sorted(coarse)]) in coarse


def _no_band(grouping: Grouping, bands: Bands) -> tuple[str, ...]:
    return tuple(value for value in grouping.ungrouped if value not in bands.names)
