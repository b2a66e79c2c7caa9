"""Which bucket sizes to look at, whether any setting exists, and whether the options make sense.

Lemma 1 with known records and fake values says whether any setting exists:

**Records alone.** With Q known records, some F'-private bucketization exists iff o_i <= floor(f'_i (n - Q)) for all i.
If: one bucket that holds everybody. Only if: bucket j holds at most f'_i (S_j - Q) records of value i (none at all if
S_j <= Q, so that every bucket is larger than Q). Over q >= 1 buckets that adds up to

    o_i  <=  sum_j f'_i (S_j - Q)  =  f'_i (n - q Q)  <=  f'_i (n - Q).

**Fakes in proportion.** By the same sum a setting whose fakes are in proportion exists iff one bucket of everybody is
one, o_i (n + sigma) <= floor(f'_i (n - Q)) n for all i: with c_j = floor(f'_i (S_j - Q)),

    o_i  <=  sum_j c_j S_j / (S_j + sigma)  <=  n / (n + sigma) sum_j c_j  <=  floor(f'_i (n - Q)) n / (n + sigma).

**Fakes that only fit.** If that fails, one bucket of everybody may still have room for sigma fakes of other values:
sum_i floor(f'_i (n - Q)) >= n + sigma. Otherwise there is nothing.

**Groups.** All of that holds of the records under a group with a limit as it holds of those of a value; and there is
room for fakes if the tree lets n + sigma through (`forest.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.errors import UsageError
from dalenius.model.plan import IneligibleValue, NoSolution, PlanOptions
from dalenius.model.problem import Problem
from dalenius.solve.caps import smallest_size
from dalenius.solve.forest import Forest

HIDING_SIZE = 2  # the smallest bucket in which a value can be hidden
USUAL_MAX_SIZE = 50  # the paper's M'
LARGEST_SIZE = 1_000_000  # sizes beyond this are not searched one by one
MOST_FAKES = 1000  # in a bucket: more fakes than that make a release of fakes


def least_min_size(limits: tuple[Fraction, ...], known_records: int = 0) -> int:
    """M = min_i ceil(1 / f'_i) + Q: no smaller bucket may hold any record."""
    return min(smallest_size(limit, known_records) for limit in limits)


def automatic_max_size(limits: tuple[Fraction, ...], total: int, known_records: int = 0) -> int:
    """The first largest size to try: every value fits in some bucket, and the usual sizes are included.

    At most n (if the limits are eligible, Lemma 1, then ceil(1 / f'_i) + Q <= n for every value that occurs), and at
    most `LARGEST_SIZE`.
    """
    needed = max(smallest_size(limit, known_records) for limit in limits)
    return min(total, LARGEST_SIZE, max(USUAL_MAX_SIZE, needed))


def larger_size(max_size: int, total: int) -> int | None:
    """The next largest size to try, or None if there is no more."""
    most = min(total, LARGEST_SIZE)
    return min(most, 2 * max_size) if max_size < most else None


def smallest_working_size(
    works: Callable[[int], bool | None], failed: int, total: int, deadline: float
) -> tuple[int | None, bool]:
    """The smallest largest size above `failed` that works, by doubling and bisection; and whether it is the smallest.

    More sizes never make a valid setting invalid, so `works` is monotone. It answers None where it does not know.
    Past the deadline the best so far is returned.
    """
    low, high, certain = failed, larger_size(failed, total), True
    while high is not None and not (answer := works(high)):
        certain = certain and answer is False
        if time.monotonic() > deadline:
            return None, False
        low, high = high, larger_size(high, total)
    if high is None:
        return None, certain
    while high - low > 1:
        if time.monotonic() > deadline:
            return high, False
        middle = (low + high) // 2
        answer = works(middle)
        certain = certain and answer is not None
        low, high = (low, middle) if answer else (middle, high)
    return high, certain


@dataclass(frozen=True)
class _Limited:
    """A value or a group with a limit, the records that have it, and how many of them one bucket of everybody may."""

    name: str
    count: int
    limit: Fraction
    most: int
    is_group: bool


def why_impossible(problem: Problem) -> NoSolution | None:
    """Why no setting of any sizes exists; None if one bucket that holds everybody is one."""
    limited = _all_limited(problem)
    ineligible = tuple(_ineligible(problem, one) for one in limited if one.most < one.count)
    if ineligible:
        return NoSolution("not-eligible", ineligible)
    if problem.fake_values and _room_in_one_bucket(problem, limited) < problem.total + problem.fake_values:
        return NoSolution("no-room-for-fakes")
    return None


def fakes_can_be_in_proportion(problem: Problem) -> bool:
    """Whether some setting has room for fakes in proportion to the records."""
    slots = problem.total + problem.fake_values
    return all(one.count * slots <= one.most * problem.total for one in _all_limited(problem))


def _all_limited(problem: Problem) -> list[_Limited]:
    """The values, and the groups that have a limit; at most floor(f' (n - Q)) of each go into one bucket."""
    unknown = max(0, problem.total - problem.known_records)

    def limited(name: str, count: int, limit: Fraction, *, is_group: bool) -> _Limited:
        return _Limited(name, count, limit, limit.numerator * unknown // limit.denominator, is_group)

    values = zip(problem.values, problem.counts, problem.limits, strict=True)
    found = [limited(*value, is_group=False) for value in values]
    if problem.groups is not None:
        sums = problem.groups.sums(problem.counts)
        for group, count in zip(problem.groups.groups, sums, strict=True):
            if group.limit is not None:
                found.append(limited(group.name, count, group.limit, is_group=True))
    return found


def most_in_one_bucket(problem: Problem) -> list[int]:
    """floor(f'_i (n - Q)): how often each value may be in one bucket that holds everybody."""
    return [one.most for one in _all_limited(problem) if not one.is_group]


def _room_in_one_bucket(problem: Problem, limited: Sequence[_Limited]) -> int:
    """How many values, records and fakes, one bucket of everybody may have under all limits together."""
    most = np.asarray([one.most for one in limited], dtype=np.int64)
    values, forest = len(problem.values), Forest.of(problem)
    if forest is None:
        return int(most.sum())
    unknown = max(0, problem.total - problem.known_records)
    groups = [limit.numerator * unknown // limit.denominator for limit in forest.limits]
    caps = np.concatenate([most[:values], np.asarray(groups, dtype=np.int64)])[:, None]
    return int(forest.most(np.ones(values, dtype=np.bool_), caps)[0])


def _ineligible(problem: Problem, one: _Limited) -> IneligibleValue:
    unknown = problem.total - problem.known_records
    return IneligibleValue(
        value=one.name,
        frequency=Fraction(one.count, problem.total),
        limit=one.limit,
        smallest_limit=Fraction(one.count, unknown) if one.count <= unknown else None,
        is_group=one.is_group,
    )


def check_options(options: PlanOptions, total: int) -> None:
    """Raise a `UsageError` for the first option that makes no sense for a table of `total` records."""
    _check_sizes(options.min_size, options.max_size, total)
    _check_attacker(options.known_records, options.fake_values, total)
    for name, number in (("gap", options.gap), ("time limit", options.time_limit)):
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise UsageError(f"the {name} must be a number, got {type(number).__name__}")
    if not 0 <= options.gap < 1:
        raise UsageError(f"the gap must be at least 0 and below 1, got {options.gap}")
    if not options.time_limit > 0:
        raise UsageError(f"the time limit must be above 0 seconds, got {options.time_limit}")


def _check_sizes(low: int | None, high: int | None, total: int) -> None:
    for name, size in (("smallest", low), ("largest", high)):
        if size is not None:
            _check_whole(f"the {name} bucket size", size, 1)
    if low is None and min(total, high or total) < HIDING_SIZE:
        raise UsageError(
            "a record that is alone in its bucket has its value published outright",
            "Allow larger buckets; or write --min-size 1, if that is meant.",
        )
    if low is not None and high is not None and low > high:
        raise UsageError(f"the smallest bucket size {low} is above the largest, {high}", "Swap them, or leave one out.")
    if low is not None and low > total:
        raise UsageError(
            f"the smallest bucket size {low} is above the number of records, {total}", "Give a smaller --min-size."
        )
    if high is not None and min(high, total) > LARGEST_SIZE:
        raise UsageError(
            f"the largest bucket size {high:,} is above {LARGEST_SIZE:,}, the largest that Dalenius searches",
            "Give a smaller --max-size, or leave it out.",
        )


def _check_attacker(known_records: int, fake_values: int, total: int) -> None:
    _check_whole("the number of known records", known_records, 0)
    _check_whole("the number of fake values", fake_values, 0)
    if known_records >= total and known_records:
        raise UsageError(
            f"an attacker who knows {known_records:,} records knows all {total:,} of the table",
            "Give a smaller --corrupted.",
        )
    if fake_values > MOST_FAKES:
        raise UsageError(
            f"{fake_values:,} fake values in a bucket are more than the {MOST_FAKES:,} allowed",
            "Give a smaller --fakes.",
        )


def _check_whole(name: str, number: object, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise UsageError(f"{name} must be a whole number, got {type(number).__name__}")
    if number < least:
        raise UsageError(f"{name} must be at least {least}, got {number}")
