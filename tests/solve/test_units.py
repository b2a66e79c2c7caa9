"""Buckets for units with sets of items, against all ways there are to put a few units into buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.plan import Status
from dalenius.solve import units_repair
from dalenius.solve.units import IneligibleItems, UnitProblem, UnitSolution, solve_units
from tests.effort import examples

merge_many = units_repair._merge_many
Sets = list[frozenset[int]]
Buckets = list[list[int]]


def problem_of(sets: Sets, limits: list[Fraction], smallest: int, largest: int, known: int) -> UnitProblem:
    return UnitProblem(
        offsets=np.cumsum([0, *map(len, sets)]),
        items=np.array([item for own in sets for item in sorted(own)], dtype=np.int32),
        limits=tuple(limits),
        min_size=smallest,
        max_size=largest,
        known_records=known,
    )


def all_buckets(units: int) -> Iterator[Buckets]:
    """All ways to put units into buckets."""
    if not units:
        yield []
        return
    for before in all_buckets(units - 1):
        for place, bucket in enumerate(before):
            yield [*before[:place], [*bucket, units - 1], *before[place + 1 :]]
        yield [*before, [units - 1]]


def is_valid(buckets: Buckets, sets: Sets, limits: list[Fraction], smallest: int, known: int) -> bool:
    """By the definition, in fractions."""
    for bucket in buckets:
        if len(bucket) < max(smallest, known + 1):
            return False
        held = Counter(item for unit in bucket for item in sets[unit])
        if any(count > limits[item] * (len(bucket) - known) for item, count in held.items()):
            return False
    return True


def loss_of(buckets: Buckets) -> int:
    return sum((len(bucket) - 1) ** 2 for bucket in buckets)


def solved(problem: UnitProblem, seed: int) -> UnitSolution:
    return solve_units(problem, gap=0.0, time_limit=0.5, random=np.random.default_rng(seed))


@st.composite
def small(draw: st.DrawFn) -> tuple[Sets, list[Fraction], int, int]:
    items = draw(st.integers(1, 4))
    limits = draw(st.lists(st.fractions("1/4", 1, max_denominator=6), min_size=items, max_size=items))
    least = draw(st.integers(0, 1))
    own = st.frozensets(st.integers(0, items - 1), min_size=least, max_size=draw(st.integers(1, 3)))
    sets = draw(st.lists(own, min_size=2, max_size=7))
    return sets, limits, draw(st.integers(1, 2)), draw(st.integers(0, 1))


@settings(max_examples=examples(600), deadline=None)
@given(small(), st.integers(0, 9))
def test_buckets_are_valid_and_bounds_are_bounds(made: tuple[Sets, list[Fraction], int, int], seed: int) -> None:
    sets, limits, smallest, known = made
    if len(sets) < max(smallest, known + 1):
        return
    problem = problem_of(sets, limits, smallest, max(smallest, 3), known)
    ways = [ways for ways in all_buckets(len(sets)) if is_valid(ways, sets, limits, smallest, known)]
    if not ways:
        with pytest.raises(IneligibleItems):
            solved(problem, seed)
        return
    solution = solved(problem, seed)
    number = int(solution.bucket_of.max()) + 1
    buckets = [np.flatnonzero(solution.bucket_of == bucket).tolist() for bucket in range(number)]
    assert is_valid(buckets, sets, limits, smallest, known)
    sizes = Counter(map(len, buckets))
    assert {group.size: group.buckets for group in solution.setting.groups} == sizes
    assert list(map(len, buckets)) == sorted(map(len, buckets))
    assert solution.setting.loss == loss_of(buckets)
    assert max(sizes) <= solution.max_size
    best = min(loss_of(way) for way in ways if max(map(len, way)) <= solution.max_size)
    assert solution.bound <= best <= solution.setting.loss
    if solution.status is Status.OPTIMAL:
        assert solution.setting.loss == best
    else:
        assert solution.bound < solution.setting.loss


def test_without_any_time_buckets_are_valid_all_the_same() -> None:
    """No exchange is tried: thousands of buckets that break limits are merged with others, many at once."""
    random = np.random.default_rng(7)
    share = np.arange(1, 41) ** -0.8
    codes = random.choice(40, (2, 20_000), p=share / share.sum())
    sets = [frozenset({int(one), 40 + int(other)}) for one, other in codes.T]
    counts = Counter(item for own in sets for item in own)
    limits = [6 * Fraction(counts[item], 20_000) / (1 + 5 * Fraction(counts[item], 20_000)) for item in range(80)]
    merged = []

    def merging(*given: Any) -> Any:
        merged.append(len(given[1]))
        return merge_many(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(units_repair, "_merge_many", merging)
        solution = solve_units(
            problem_of(sets, limits, 2, 40, 0), gap=0.0, time_limit=0.0, random=np.random.default_rng(1)
        )
    order = np.argsort(solution.bucket_of, kind="stable")
    ends = np.cumsum(np.bincount(solution.bucket_of))[:-1]
    assert is_valid([part.tolist() for part in np.split(order, ends)], sets, limits, 2, 0)
    assert len(merged) > 1
    assert solution.setting.buckets > 500
    assert solution.bound <= solution.setting.loss


@pytest.mark.parametrize("known", [0, 1])
def test_many_units_of_two_columns_are_within_their_limits(known: int) -> None:
    """Counted by hand, not by the solver's own check; and the bound of one column alone is not above the loss."""
    random = np.random.default_rng(5)
    shares = [(np.arange(1, 13) ** -0.9), (np.arange(1, 6) ** -1.2)]
    columns = [random.choice(len(share), 3000, p=share / share.sum()) for share in shares]
    sets = [frozenset({int(one), 12 + int(other)}) for one, other in zip(*columns, strict=True)]
    counts = Counter(item for own in sets for item in own)
    limits = [8 * Fraction(counts[item], 3000) / (1 + 7 * Fraction(counts[item], 3000)) for item in range(17)]
    solution = solve_units(
        problem_of(sets, limits, 2, 30, known), gap=0.02, time_limit=3, random=np.random.default_rng(1)
    )
    buckets = [np.flatnonzero(solution.bucket_of == b).tolist() for b in range(solution.setting.buckets)]
    assert is_valid(buckets, sets, limits, 2, known)
    assert 0 < solution.bound <= solution.setting.loss == loss_of(buckets)
    of_one_column = [frozenset({min(own)}) for own in sets]
    alone = solve_units(
        problem_of(of_one_column, limits, 2, solution.max_size, known),
        gap=0.0,
        time_limit=3,
        random=np.random.default_rng(1),
    )
    assert alone.bound <= solution.setting.loss
