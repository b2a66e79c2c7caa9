"""Units with sets of items: bounds and bucketizations against all partitions of a few units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from dalenius.model.plan import Status
from dalenius.solve.unit_kinds import kinds_of, least_sizes
from dalenius.solve.unit_problem import UnitProblem, is_eligible
from dalenius.solve.units import solve_units
from dalenius.solve.units_bound import bound_units
from dalenius.solve.units_check import check_buckets
from dalenius.solve.units_prices import bound_by_prices
from dalenius.solve.units_sharing import Sharing
from dalenius.solve.units_two_columns import best_one_size, colour_units, sides_of
from tests.clocks import Clock
from tests.effort import examples


def _problem(sets: Sequence[Sequence[int]], limits: Sequence[Fraction], max_size: int, known: int = 0) -> UnitProblem:
    lengths = [len(one) for one in sets]
    return UnitProblem(
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        items=np.asarray([x for one in sets for x in sorted(one)], dtype=np.int32),
        limits=tuple(limits),
        min_size=2,
        max_size=max_size,
        known_records=known,
    )


def _random_problem(seed: int) -> UnitProblem:
    """Seven units or fewer with up to three of five items; some have none, some items have known units against them."""
    random = np.random.default_rng(seed)
    units, number = int(random.integers(3, 8)), int(random.integers(2, 6))
    sets = [random.choice(number, int(random.integers(0, min(number, 3) + 1)), replace=False) for _ in range(units)]
    limits = [Fraction(int(random.integers(1, 8)), 8) for _ in range(number)]
    return _problem([one.tolist() for one in sets], limits, units, int(random.integers(2)))


def _partitions(units: int) -> Iterator[list[int]]:
    """The bucket of each unit, for every way to part the units."""

    def extend(parts: list[int], most: int) -> Iterator[list[int]]:
        if len(parts) == units:
            yield parts
            return
        for bucket in range(most + 2):
            yield from extend([*parts, bucket], max(most, bucket))

    return extend([], -1)


def _least_loss(problem: UnitProblem) -> int | None:
    """The least loss of all valid bucketizations, by looking at each; None if there is none."""
    sets = [problem.items[a:b].tolist() for a, b in zip(problem.offsets[:-1], problem.offsets[1:], strict=True)]
    best = None
    for parts in _partitions(problem.units):
        buckets = [[u for u in range(problem.units) if parts[u] == bucket] for bucket in range(max(parts) + 1)]
        if min(map(len, buckets)) < problem.first_size:
            continue
        valid = all(
            sum(x in sets[u] for u in bucket) <= limit * max(0, len(bucket) - problem.known_records)
            for bucket in buckets
            for x, limit in enumerate(problem.limits)
        )
        loss = sum((len(bucket) - 1) ** 2 for bucket in buckets)
        if valid and (best is None or loss < best):
            best = loss
    return best


@pytest.mark.parametrize("seed", range(examples(160)))
def test_no_bucketization_beats_the_bounds_and_the_one_that_comes_out_is_valid(seed: int, clock: Clock) -> None:
    problem = _random_problem(seed)
    if is_eligible(problem) or problem.units < problem.first_size:
        assert _least_loss(problem) is None
        return
    least = _least_loss(problem)
    assert least is not None
    random = np.random.default_rng(seed)
    bound = bound_units(problem, 0.0, clock() + 5)
    sharing = Sharing(problem, bound.promising, problem.units, random, clock() + 5)
    assert bound.bound <= least
    assert sharing.bound <= least
    solution = solve_units(problem, gap=0.0, time_limit=1.0, random=random)
    check_buckets(problem, solution.bucket_of)
    assert solution.bound <= least <= solution.setting.loss
    if solution.status is Status.OPTIMAL:
        assert solution.setting.loss == least


@pytest.mark.parametrize("seed", range(examples(120)))
def test_whatever_the_prices_are_they_prove_a_bound(seed: int) -> None:
    """The bound rests on no linear program: prices at random, of some items by size and of the others in all sizes."""
    problem = _random_problem(1000 + seed)
    least = _least_loss(problem)
    if least is None:
        return
    random = np.random.default_rng(seed)
    pressed = np.flatnonzero(random.random(len(problem.limits)) < 0.6)
    sizes = np.arange(problem.first_size, problem.units + 1)
    caps = np.asarray([[problem.most(x, int(size)) for size in sizes] for x in range(len(problem.limits))])
    kinds = kinds_of(problem, pressed, random, problem.units)
    prices = 4 * random.random((len(pressed), len(sizes)))
    others = 4 * random.random(len(problem.limits) - len(pressed))
    assert bound_by_prices(problem, kinds, sizes, caps, prices, others) <= least


def test_prices_prove_more_than_representatives(clock: Clock) -> None:
    """Everybody has one of a and b and one of c and d, in all four ways: representatives are of one column alone."""
    sets = [[a, 2 + c] for a in (0, 1) for c in (0, 1) for _ in range(30)] + [[4, 5]] * 30
    half, rare = Fraction(1, 2), Fraction(1, 4)
    problem = _problem(sets, [half, half, half, half, rare, rare], 40)
    bound = bound_units(problem, 0.0, clock() + 5)
    sharing = Sharing(problem, bound.promising, 40, np.random.default_rng(0), clock() + 5)
    assert sharing.bound >= bound.bound


def test_kinds_are_units_that_share_pressed_items_and_a_least_size() -> None:
    problem = _problem(
        [[0, 1], [0, 2], [0, 1], [0, 3], [], [3]], [Fraction(1, 2), Fraction(1, 3), Fraction(1, 3), Fraction(1, 5)], 6
    )
    assert least_sizes(problem).tolist() == [2, 3, 3, 5]
    kinds = kinds_of(problem, np.asarray([0]), np.random.default_rng(0), 6)
    of_unit = kinds.of_unit
    assert of_unit[0] == of_unit[1] == of_unit[2]
    assert len({of_unit[0], of_unit[3], of_unit[4], of_unit[5]}) == 4
    assert kinds.least[of_unit].tolist() == [3, 3, 3, 5, 2, 5]
    assert kinds.numbers.sum() == 6


def _two_columns(random: np.random.Generator, units: int) -> UnitProblem:
    first, second = random.integers(5, size=units), 5 + random.integers(3, size=units)
    limits = [Fraction(1, 2)] * 5 + [Fraction(4, 5)] * 3
    return _problem(list(zip(first.tolist(), second.tolist(), strict=True)), limits, units)


@pytest.mark.parametrize("seed", range(examples(40)))
def test_two_columns_in_one_size_are_valid_exactly_if_the_counts_fit(seed: int, clock: Clock) -> None:
    random = np.random.default_rng(seed)
    problem = _two_columns(random, int(random.integers(12, 90)))
    one, side = best_one_size(problem), sides_of(problem)
    assert side is not None
    if one is None:
        assert is_eligible(problem)
        return
    bucket_of = colour_units(problem, one, side, random, clock() + 20)
    assert bucket_of is not None
    check_buckets(problem, bucket_of)
    sizes = np.bincount(bucket_of)
    assert sizes.max() - sizes.min() <= 1
    assert int(((sizes - 1) ** 2).sum()) == one.loss
    solution = solve_units(problem, gap=0.0, time_limit=1.0, random=random)
    assert solution.setting.loss <= one.loss


def test_sides_need_two_columns() -> None:
    third = Fraction(1, 3)
    triangle = _problem([[0, 1], [1, 2], [0, 2]], [third] * 3, 3)
    assert sides_of(triangle) is None
    assert sides_of(_problem([[0, 1, 2]], [third] * 3, 3)) is None
    path = sides_of(_problem([[0, 1], [1, 2], [2, 3], [4]], [third] * 5, 4))
    assert path is not None
    assert path[0] == path[2] != path[1] == path[3]
