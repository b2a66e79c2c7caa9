"""Small filled grids with fake values, for tests: what round-robin deals, and every way of marking it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from hypothesis import strategies as st

from dalenius.model.problem import BucketSetting, Partition

Marking = tuple[tuple[int, ...], ...]  # for each bucket, the places of its fake slots


def deal(counts: Sequence[int], buckets: int) -> list[list[int]]:
    """The values of each bucket: round-robin, one value after the other."""
    grid: list[list[int]] = [[] for _ in range(buckets)]
    for turn, value in enumerate(value for value, count in enumerate(counts) for _ in range(count)):
        grid[turn % buckets].append(value)
    return grid


def markings(grid: Sequence[Sequence[int]], fakes: int, totals: Sequence[int] | None = None) -> list[Marking]:
    """Every way to mark so many places in each bucket, all or those with the given total of each value."""
    choices = [list(itertools.combinations(range(len(held)), fakes)) for held in grid]
    found = []
    for marking in itertools.product(*choices):
        count = Counter(held[place] for held, places in zip(grid, marking, strict=True) for place in places)
        if totals is None or all(count[value] == total for value, total in enumerate(totals)):
            found.append(marking)
    return found


def partition_of(setting: Sequence[tuple[int, int]], quotas: object, fakes: object) -> Partition:
    """Rows of numbers of any kind, as a partition."""

    def rows(table: object) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(int(number) for number in row) for row in table)  # type: ignore[attr-defined]

    return Partition(BucketSetting.of(setting), rows(quotas), rows(fakes))


@st.composite
def marked_partitions(draw: st.DrawFn, most_fakes: int = 2) -> Partition:
    """Partitions whose fake values can be marked: deal slots at random, mark some, and count both."""
    fakes = draw(st.integers(1, most_fakes))
    pairs = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 25)), min_size=1, max_size=2))
    setting = BucketSetting.of(pairs)
    values = draw(st.integers(1, 7))
    random = draw(st.randoms(use_true_random=False))
    kept, fake = [[0] * len(setting.groups) for _ in range(values)], [[0] * len(setting.groups) for _ in range(values)]
    for j, group in enumerate(setting.groups):
        total = group.buckets * (group.size + fakes)
        cuts = sorted(random.randint(0, total) for _ in range(values - 1))
        counts = [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
        for held in deal(counts, group.buckets):
            places = random.sample(range(len(held)), fakes)
            for place, value in enumerate(held):
                (fake if place in places else kept)[value][j] += 1
    present = [i for i in range(values) if sum(kept[i]) or sum(fake[i])]
    return partition_of(pairs, [kept[i] for i in present], [fake[i] for i in present])
