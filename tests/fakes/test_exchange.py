"""Exchanges: margins stay, nothing that is ruled out is proposed, and one is found whenever there is one."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.fakes.avoiding import Avoidance
from dalenius.fakes.exchange import RuledOut, find_exchanges
from dalenius.fakes.marking import draw_marks
from dalenius.model.problem import Partition
from dalenius.place.marks import Marks
from dalenius.place.slots import SlotMap, values_by_bucket
from tests.fakes.grids import marked_partitions, partition_of

Booleans = npt.NDArray[np.bool_]


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def ruled_out(table: Booleans) -> RuledOut:
    """From buckets x values, fewer than 64."""
    words = (table * 2 ** np.arange(table.shape[1])).sum(axis=1).astype(np.uint64)[:, None]
    return RuledOut(table.shape[1], np.arange(table.shape[1]), words)


def fakes_by_bucket(partition: Partition, marks: Marks) -> dict[int, Counter[int]]:
    """The values of the fakes of each bucket."""
    found: dict[int, Counter[int]] = {bucket: Counter() for bucket in range(1, partition.setting.buckets + 1)}
    values, slots = marks.fake_slots()
    for value, bucket in zip(values.tolist(), SlotMap([partition]).bucket_of(values, slots).tolist(), strict=True):
        found[bucket][value] += 1
    return found


def shown_by_bucket(partition: Partition) -> dict[int, Counter[int]]:
    """What ST shows."""
    found: dict[int, Counter[int]] = {bucket: Counter() for bucket in range(1, partition.setting.buckets + 1)}
    for buckets, values in values_by_bucket([partition], 1000):
        for bucket, value in zip(buckets.tolist(), values.tolist(), strict=True):
            found[bucket][value] += 1
    return found


def group_of(partition: Partition, bucket: int) -> int:
    ends = np.cumsum([group.buckets for group in partition.setting.groups])
    return int(np.searchsorted(ends, bucket))


def some_exchange(partition: Partition, marks: Marks, table: Booleans) -> bool:
    """By trying everything."""
    fakes, shown = fakes_by_bucket(partition, marks), shown_by_bucket(partition)
    real = {bucket: shown[bucket] - fakes[bucket] for bucket in shown}
    return any(
        table[g1 - 1, x]
        and not table[g2 - 1, x]
        and real[g2][x] > 0
        and any(real[g1][y] > 0 and not table[g1 - 1, y] for y in fakes[g2])
        for g1 in shown
        for x in fakes[g1]
        for g2 in shown
        if group_of(partition, g1) == group_of(partition, g2)
    )


@given(marked_partitions(), st.integers(0, 2**32), st.floats(0, 0.9))
def test_a_round_of_exchanges(partition: Partition, seed: int, share: float) -> None:
    marks = draw_marks([partition], seed.to_bytes(32, "little"))
    shape = (partition.setting.buckets, len(partition.quotas))
    table = np.random.default_rng(seed).random(shape) < share
    before = fakes_by_bucket(partition, marks)
    found = find_exchanges([partition], marks, ruled_out(table), seeded(seed))
    after_marks = marks.move(found.moves)
    after = fakes_by_bucket(partition, after_marks)

    def bad(fakes: dict[int, Counter[int]]) -> dict[int, int]:
        return {g: sum(n for x, n in held.items() if table[g - 1, x]) for g, held in fakes.items()}

    # margins
    assert [held.total() for held in after.values()] == [held.total() for held in before.values()]
    for j in range(len(partition.setting.groups)):
        own = [bucket for bucket in before if group_of(partition, bucket) == j]
        assert sum((after[b] for b in own), Counter()) == sum((before[b] for b in own), Counter())
    # what becomes fake is not ruled out
    for bucket in before:
        assert not any(table[bucket - 1, x] for x in after[bucket] - before[bucket])
    # what is reported
    assert found.bad_before == sum(bad(before).values())
    assert found.unresolved == sum(bad(after).values())
    assert found.buckets_left == sum(number > 0 for number in bad(after).values())
    # the moves, two for each exchange
    assert len(found.moves) % 2 == 0
    assert found.bad_before - found.unresolved <= len(found.moves)
    assert (len(found.moves) > 0) == some_exchange(partition, marks, table)


def test_the_only_exchange_there_is() -> None:
    """Buckets {a, b, c} and {a, b, c}, the fakes a and b: they can only be exchanged with each other."""
    partition = partition_of([(2, 2)], [[1], [1], [2]], [[1], [1], [0]])
    marks = draw_marks([partition], bytes(32))
    (where,) = (bucket for bucket, held in fakes_by_bucket(partition, marks).items() if held[0])
    table = np.zeros((2, 3), dtype=bool)
    table[where - 1, 0] = True
    found = find_exchanges([partition], marks, ruled_out(table), seeded(0))
    assert (found.bad_before, found.unresolved, found.buckets_left, len(found.moves)) == (1, 0, 0, 2)
    assert fakes_by_bucket(partition, marks.move(found.moves))[where] == Counter({1: 1})
    table[:, 0] = True  # the fake a is nowhere admissible: it stays
    found = find_exchanges([partition], marks, ruled_out(table), seeded(0))
    assert (found.bad_before, found.unresolved, found.buckets_left, len(found.moves)) == (1, 1, 1, 0)
    table[:, 0] = False
    table[where - 1, :] = [True, True, False]  # b may not come in its place
    found = find_exchanges([partition], marks, ruled_out(table), seeded(0))
    assert (found.bad_before, found.unresolved, found.buckets_left, len(found.moves)) == (1, 1, 1, 0)


def test_an_exchange_may_settle_two_bad_fakes() -> None:
    partition = partition_of([(2, 2)], [[1], [1], [2]], [[1], [1], [0]])
    marks = draw_marks([partition], bytes(32))
    fakes = fakes_by_bucket(partition, marks)
    table = np.array([[x in fakes[bucket] for x in range(3)] for bucket in (1, 2)])
    found = find_exchanges([partition], marks, ruled_out(table), seeded(0))
    assert (found.bad_before, found.unresolved, len(found.moves)) == (2, 0, 2)


def test_nothing_bad_nothing_moved() -> None:
    partition = partition_of([(2, 2)], [[1], [1], [2]], [[1], [1], [0]])
    marks = draw_marks([partition], bytes(32))
    found = find_exchanges([partition], marks, ruled_out(np.zeros((2, 3), dtype=bool)), seeded(0))
    assert (found.bad_before, found.unresolved, found.moves.shape) == (0, 0, (0, 3))
    assert [part.tolist() for part in marks.move(found.moves).fake_slots()] == [
        part.tolist() for part in marks.fake_slots()
    ]


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (Avoidance(0, 0, 10, 0, 0, 0), ["no negative association"]),
        (Avoidance(0, 2, 10, 4, 4, 3), ["2 negative associations were", "of 10 fake values, 4 are ruled out"]),
        (Avoidance(1, 0, 10, 4, 0, 0), ["0 negative associations were", "0 are after 1 round"]),
        (
            Avoidance(2, 3, 10, 4, 0, 0),
            ["3 negative associations were", "of 10 fake values, 4 were", "0 are after 2 rounds"],
        ),
        (Avoidance(2, 3, 10, 4, 1, 1, ("A note.",)), ["A note.", "1 are after", "in 1 buckets", "stay as they are"]),
    ],
)
def test_what_the_publisher_is_told(report: Avoidance, words: list[str]) -> None:
    text = " ".join(report.sentences())
    assert all(word in text for word in words)
    assert report.complete == (report.ruled_out_after == 0)


def test_exchanges_stay_within_their_stratum() -> None:
    """Two strata of the same sizes and values: what each would do by itself is what is done to both."""
    part = partition_of([(2, 6), (3, 4)], [(6, 6), (4, 3), (2, 3)], [(3, 2), (2, 1), (1, 1)])
    parts = [part, part]
    marks = draw_marks(parts, bytes(32))
    buckets, values = part.setting.buckets, len(part.quotas)
    table = np.random.default_rng(5).random((2 * buckets, values)) < 0.4
    found = find_exchanges(parts, marks, ruled_out(table), seeded(1))
    assert len(found.moves) > 0

    def fakes(now: Marks) -> Counter[tuple[int, int, int]]:
        """By stratum, size group and value."""
        virtual, slots = now.fake_slots()
        where = SlotMap(parts).bucket_of(virtual, slots) - 1
        assert ((where // buckets) == virtual // values).all()
        return Counter(
            (bucket // buckets, group_of(part, bucket % buckets + 1), value % values)
            for bucket, value in zip(where.tolist(), virtual.tolist(), strict=True)
        )

    assert fakes(marks.move(found.moves)) == fakes(marks)
    bad = ruled_out(table).of(SlotMap(parts).bucket_of(*marks.fake_slots()), marks.fake_slots()[0] % values)
    assert found.bad_before == int(bad.sum())
