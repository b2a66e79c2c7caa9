"""An oracle for small tables: every setting, every assignment. Slow, obvious, and shares nothing with the solvers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations

from dalenius.model.problem import Problem

Sizes = tuple[int, ...]
State = tuple[tuple[int, int, tuple[int, ...]], ...]  # (size, room left, room left in each open group)


def settings(total: int, low: int, high: int) -> Iterator[Sizes]:
    """Every multiset of bucket sizes between low and high that adds up to total, in ascending order."""
    if total == 0:
        yield ()
        return
    for size in range(low, min(high, total) + 1):
        for rest in settings(total - size, size, high):
            yield (size, *rest)


def loss(sizes: Sizes) -> int:
    return sum((size - 1) ** 2 for size in sizes)


def private(count: int, size: int, limit: Fraction, known: int) -> bool:
    """Whoever knows any `known` records of the bucket cannot say of another, above the limit, that it has the value.

    The worst is to know records with other values, as far as there are any.
    """
    if size <= known:
        return count == 0
    worst = max(Fraction(count - mine, size - known) for mine in range(min(count, known) + 1) if known - mine <= size)
    return worst <= limit


def assignable(counts: tuple[int, ...], limits: tuple[Fraction, ...], sizes: Sizes, known: int = 0) -> bool:
    """Is there any way to put the records into buckets of these sizes that keeps every limit?"""
    if sum(counts) != sum(sizes):
        return False

    @cache
    def place(value: int, buckets: tuple[tuple[int, int], ...]) -> bool:
        """Place the values from `value` on; `buckets` are (size, room left) in sorted order."""
        if value == len(counts):
            return True
        return any(place(value + 1, after) for after in spread(counts[value], limits[value], buckets))

    def spread(records: int, limit: Fraction, buckets: tuple[tuple[int, int], ...]) -> set[tuple[tuple[int, int], ...]]:
        outcomes: set[tuple[tuple[int, int], ...]] = set()

        def step(index: int, left: int, before: int, done: tuple[tuple[int, int], ...]) -> None:
            """Buckets that are alike take in descending order: any other order is the same outcome."""
            if index == len(buckets):
                if left == 0:
                    outcomes.add(tuple(sorted(done)))
                return
            size, room = buckets[index]
            alike = index > 0 and buckets[index - 1] == buckets[index]
            for take in range(min(left, room, before if alike else left) + 1):
                if private(take, size, limit, known):
                    step(index + 1, left - take, take, (*done, (size, room - take)))

        step(0, records, records, ())
        return outcomes

    return place(0, tuple(sorted((size, size) for size in sizes)))


def in_proportion(counts: tuple[int, ...], limits: tuple[Fraction, ...], sizes: Sizes, known: int, fakes: int) -> bool:
    """Can buckets of these sizes be filled, in fractions, with fakes in proportion? Gale's condition for every subset.

    a records of a value in b buckets of size S come with a * fakes / S fakes, and both together are at most
    floor(limit * (S - known)) * b.
    """
    if sum(counts) != sum(sizes):
        return False
    groups = Counter(sizes).items()

    def room(limit: Fraction, size: int, buckets: int) -> Fraction:
        return Fraction(max(0, math.floor(limit * (size - known))) * buckets * size, size + fakes)

    return all(
        sum(
            min(Fraction(count), sum((room(limit, *group) for group in chosen), Fraction(0)))
            for count, limit in zip(counts, limits, strict=True)
        )
        >= sum(size * buckets for size, buckets in chosen)
        for number in range(1, len(groups) + 1)
        for chosen in combinations(groups, number)
    )


def best(
    counts: tuple[int, ...],
    limits: tuple[Fraction, ...],
    low: int,
    high: int,
    most_sizes: int | None = None,
    known: int = 0,
) -> Sizes | None:
    """The valid setting of least loss, with at most `most_sizes` different sizes; None if there is none."""
    return first_of_least_loss(
        sum(counts), low, high, most_sizes, lambda sizes: assignable(counts, limits, sizes, known)
    )


def first_of_least_loss(
    total: int, low: int, high: int, most_sizes: int | None, valid: Callable[[Sizes], bool]
) -> Sizes | None:
    """The setting of least loss that is valid."""
    candidates = [sizes for sizes in settings(total, low, high) if most_sizes is None or len(set(sizes)) <= most_sizes]
    return next((sizes for sizes in sorted(candidates, key=loss) if valid(sizes)), None)


def assignable_in_groups(problem: Problem, sizes: Sizes) -> bool:
    """The same where groups of values have limits too: values depth first, every bucket with its open groups."""
    assert problem.groups is not None
    if problem.total != sum(sizes):
        return False
    tree = problem.groups
    order = tree.order()
    paths = [tuple(g for g in tree.path(i) if tree.groups[g].limit is not None) for i in order]
    known = problem.known_records

    def allowed(size: int, limit: Fraction | None) -> int:
        assert limit is not None
        return max(count for count in range(size + 1) if private(count, size, limit, known))

    @cache
    def place(index: int, path: tuple[int, ...], buckets: State) -> bool:
        """Place the values from `index` on."""
        if index == len(order):
            return True
        value, own = order[index], paths[index]
        same = next((k for k, pair in enumerate(zip(path, own, strict=False)) if pair[0] != pair[1]), len(path))
        same = min(same, len(own))
        new = [tree.groups[g].limit for g in own[same:]]
        opened = sorted((s, r, (*rooms[:same], *(allowed(s, limit) for limit in new))) for s, r, rooms in buckets)
        limit = problem.limits[value]
        return any(place(index + 1, own, after) for after in spread(problem.counts[value], limit, tuple(opened)))

    def spread(records: int, limit: Fraction, buckets: State) -> set[State]:
        outcomes: set[State] = set()

        def step(index: int, left: int, before: int, done: State) -> None:
            if index == len(buckets):
                if left == 0:
                    outcomes.add(tuple(sorted(done)))
                return
            size, room, rooms = buckets[index]
            alike = index > 0 and buckets[index - 1] == buckets[index]
            for take in range(min(left, room, *rooms, before if alike else left) + 1):
                if private(take, size, limit, known):
                    rest = (size, room - take, tuple(r - take for r in rooms))
                    step(index + 1, left - take, take, (*done, rest))

        step(0, records, records, ())
        return outcomes

    return place(0, (), tuple(sorted((size, size, ()) for size in sizes)))


def best_in_groups(problem: Problem, most_sizes: int | None = None) -> Sizes | None:
    """The valid setting of least loss where groups have limits."""
    return first_of_least_loss(
        problem.total, problem.min_size, problem.max_size, most_sizes, lambda s: assignable_in_groups(problem, s)
    )
