"""An oracle for small tables: every setting, every assignment. Slow, obvious, and shares nothing with the solvers."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

Sizes = tuple[int, ...]


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


def assignable(counts: tuple[int, ...], limits: tuple[Fraction, ...], sizes: Sizes) -> bool:
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
                if Fraction(take, size) <= limit:
                    step(index + 1, left - take, take, (*done, (size, room - take)))

        step(0, records, records, ())
        return outcomes

    return place(0, tuple(sorted((size, size) for size in sizes)))


def best(
    counts: tuple[int, ...], limits: tuple[Fraction, ...], low: int, high: int, most_sizes: int | None = None
) -> Sizes | None:
    """The valid setting of least loss, with at most `most_sizes` different sizes; None if there is none."""
    candidates = [
        sizes for sizes in settings(sum(counts), low, high) if most_sizes is None or len(set(sizes)) <= most_sizes
    ]
    return next((sizes for sizes in sorted(candidates, key=loss) if assignable(counts, limits, sizes)), None)
