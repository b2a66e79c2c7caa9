"""Policies about bands of numbers: counts by band, and limits on bands as limits on values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dalenius.errors import PolicyError, did_you_mean
from dalenius.model.problem import ValueCounts
from dalenius.policy.bands import Bands, exact_text, suggest_bands
from dalenius.policy.grouping import Grouping, number_of, paths_of, refuse_unknown, settle_bands

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy


def count_by_band(grouping: Grouping, counts: ValueCounts) -> tuple[Bands, ValueCounts]:
    """The bands of numbers that are given as texts, and the records of each; `ungrouped` values stay what they are."""
    settled, notes = settle_bands(grouping, counts.values, counts.counts)
    if settled.bands is None:
        raise ValueError(f"{grouping.kind} has no bands")
    bands = Bands(settled.bands.cuts, notes)
    totals: dict[str, int] = {}
    paths = paths_of(settled, counts.values, counts.counts)
    refuse_unknown(grouping, counts.values, paths)
    for value, count in zip(counts.values, counts.counts, strict=True):
        path = paths[value]
        name = path[-1][0] if path else value
        totals[name] = totals.get(name, 0) + count
    return bands, ValueCounts.of(totals.items(), are_bands=True)


@lru_cache(maxsize=4)  # Studio asks again for every limit that moves
def bands_to_offer(counts: ValueCounts) -> str | None:
    """How to put the numbers of a column into bands, cut at round ones; None if not all values are numbers."""
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
    listed = ",".join(map(exact_text, cuts))
    return f"let limits be on bands of numbers, and publish exact numbers all the same: --groups cuts:{listed}"


def with_bands_as_values(policy: LimitPolicy, counts: ValueCounts) -> tuple[LimitPolicy, ValueCounts, tuple[str, ...]]:
    """A policy about bands as one about values, the counts by band, and notes; any other policy as it is."""
    if policy.grouping is None or policy.grouping.bands is None:
        return policy, counts, ()
    notes: tuple[str, ...] = ()
    if not counts.are_bands:
        bands, counts = count_by_band(policy.grouping, counts)
        notes = bands.notes
    return policy_of_bands(policy), counts, notes


def policy_of_bands(policy: LimitPolicy) -> LimitPolicy:
    """A policy about bands as one about values, which bands are once numbers are counted by them.

    A band may have its limit under `groups` or under `values`, and the rule of the level "band" is the rule.
    """
    twice = next((name for name in policy.groups if name in policy.values), None)
    if twice is not None:
        raise PolicyError(f"the band {twice!r} has two limits", "Keep one of them.")
    unknown = next((level for level in policy.levels if level != "band"), None)
    if unknown is not None:
        raise PolicyError(f"the groups have no level {unknown!r}", did_you_mean(unknown, ["band"]))
    rule = policy.levels.get("band", policy)
    values = {**policy.values, **policy.groups}
    return replace(rule, grouping=None, groups={}, levels={}, values=values, allow_absent=policy.allow_absent)
