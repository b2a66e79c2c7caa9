from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import SelfCheckError
from dalenius.fakes.marking import draw_marks
from dalenius.model.problem import Partition
from dalenius.place.marks import Marks
from dalenius.place.slots import Placement, SlotMap, values_by_bucket
from tests.effort import examples
from tests.fakes.grids import deal, marked_partitions, markings, partition_of

KEY = bytes(range(32))


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def dealt(partition: Partition) -> list[tuple[int, int, int]]:
    """(bucket, value, slot) of every slot, dealt out one by one."""
    found, first = [], 1
    numbers: Counter[int] = Counter()
    for j, group in enumerate(partition.setting.groups):
        turn = 0
        for value, row in enumerate(partition.slots):
            for _ in range(row[j]):
                found.append((first + turn % group.buckets, value, numbers[value]))
                numbers[value] += 1
                turn += 1
        first += group.buckets
    return found


def fake_slots(marks: Marks) -> list[tuple[int, int]]:
    values, slots = marks.fake_slots()
    return list(zip(values.tolist(), slots.tolist(), strict=True))


def group_of(partition: Partition, bucket: int) -> int:
    for j, group in enumerate(partition.setting.groups):
        if bucket <= group.buckets:
            return j
        bucket -= group.buckets
    raise AssertionError


def assert_margins(partition: Partition, marks: Marks) -> None:
    fake = fake_slots(marks)
    assert fake == sorted(set(fake))
    bucket = {(value, slot): number for number, value, slot in dealt(partition)}
    held = Counter(bucket[mark] for mark in fake)
    assert held == dict.fromkeys(range(1, partition.setting.buckets + 1), partition.fake_values)
    totals = Counter((value, group_of(partition, bucket[value, slot])) for value, slot in fake)
    for i, row in enumerate(partition.fakes):
        assert tuple(totals[i, j] for j in range(len(row))) == row


def records(partition: Partition) -> tuple[np.ndarray, np.ndarray]:
    """A record for every (value, rank), value by value, and the number that came before: none."""
    counts = [sum(row) for row in partition.quotas]
    return np.repeat(np.arange(len(counts)), counts).astype(np.uint16), np.zeros(len(counts), dtype=np.int64)


def places(partition: Partition, marks: Marks) -> list[int]:
    """The bucket of every record, value by value and rank by rank."""
    order, buckets = Placement([partition], KEY, marks).buckets(*records(partition))
    return [int(bucket) for _, bucket in sorted(zip(order.tolist(), buckets.tolist(), strict=True))]


def contents(partition: Partition) -> Counter[tuple[int, int]]:
    """What ST shows."""
    shown: Counter[tuple[int, int]] = Counter()
    for buckets, values in values_by_bucket([partition], 50):
        shown.update(zip(buckets.tolist(), values.tolist(), strict=True))
    return shown


@settings(max_examples=examples(50))
@given(partition=marked_partitions(4), number=st.integers(0, 2**32))
def test_the_margins_are_exact(partition: Partition, number: int) -> None:
    assert_margins(partition, draw_marks([partition], key(number)))


@settings(max_examples=examples(50))
@given(partition=marked_partitions(), number=st.integers(0, 2**32))
def test_records_and_fake_values_together_are_what_st_shows(partition: Partition, number: int) -> None:
    marks = draw_marks([partition], key(number))
    shown = contents(partition)
    assert shown == Counter((bucket, value) for bucket, value, _ in dealt(partition))
    values, _ = records(partition)
    placed = places(partition, marks)
    bucket = {(value, slot): number for number, value, slot in dealt(partition)}
    fakes = Counter((bucket[value, slot], value) for value, slot in fake_slots(marks))
    assert Counter(zip(placed, values.tolist(), strict=True)) + fakes == shown
    sizes = Counter(placed)
    for number in range(1, partition.setting.buckets + 1):
        assert sizes[number] == partition.setting.groups[group_of(partition, number)].size


@settings(max_examples=examples(50))
@given(partition=marked_partitions())
def test_real_slots_are_the_others_in_ascending_order(partition: Partition) -> None:
    marks = draw_marks([partition], KEY)
    fake = set(fake_slots(marks))
    for value, row in enumerate(partition.slots):
        real = [slot for slot in range(sum(row)) if (value, slot) not in fake]
        assert marks.real_slots(value, np.arange(len(real))).tolist() == real
        assert marks.real_slots(np.full(len(real), value), np.arange(len(real))).tolist() == real


@settings(max_examples=examples(50))
@given(partition=marked_partitions())
def test_the_buckets_of_slots(partition: Partition) -> None:
    numbers, values, slots = (np.asarray(column) for column in zip(*dealt(partition), strict=True))
    assert SlotMap([partition]).bucket_of(values, slots).tolist() == numbers.tolist()


GRIDS = [  # quotas, fakes, buckets; the number of markings
    ((4, 3, 2), (1, 1, 1), 3, 14),
    ((5, 3, 1), (2, 1, 0), 3, 22),  # one value is never fake
    ((3, 2, 1), (3, 2, 1), 3, 48),  # a bucket of 2 records has 2 fakes
    ((1, 1), (3, 3), 2, 8),  # more fakes than records
    ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), 5, 2),  # a cycle through all buckets, or nothing
    ((3, 2), (1, 1), 1, 12),  # a single bucket
]


@pytest.mark.parametrize(("quotas", "fakes", "buckets", "number"), GRIDS)
def test_all_markings_with_the_margins_are_equally_likely(
    quotas: tuple[int, ...], fakes: tuple[int, ...], buckets: int, number: int
) -> None:
    slots = [own + fake for own, fake in zip(quotas, fakes, strict=True)]
    grid, sigma = deal(slots, buckets), sum(fakes) // buckets
    every = markings(grid, sigma, fakes)
    assert len(every) == number
    partition = partition_of([(sum(quotas) // buckets, buckets)], zip(quotas), zip(fakes))
    first = np.cumsum(slots) - slots
    draws = 8 * number + 200
    seen: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for seed in range(draws):
        values, numbers = draw_marks([partition], key(seed)).fake_slots()
        turns, held = np.divmod(first[values] + numbers, buckets)
        seen[tuple(tuple(sorted(turns[held == bucket].tolist())) for bucket in range(buckets))] += 1
    assert set(seen) <= set(every)
    expected = draws / number
    distance = sum((seen[marking] - expected) ** 2 / expected for marking in every)
    freedom = number - 1
    assert distance < freedom * (1 - 2 / (9 * freedom) + 3.1 * (2 / (9 * freedom)) ** 0.5) ** 3  # p = 0.001


def test_margins_that_no_marking_has_are_refused() -> None:
    """Values 0 and 2 have their one slot in the first bucket, and both are to be fake."""
    partition = partition_of([(2, 3)], [(0,), (2,), (0,), (1,), (3,)], [(1,), (0,), (1,), (1,), (0,)])
    with pytest.raises(SelfCheckError, match="no choice of 1 fake slots in each of 3 buckets"):
        draw_marks([partition], KEY)


@settings(max_examples=examples(60))
@given(
    buckets=st.integers(1, 5),
    counts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=8),
)
def test_marks_are_found_if_and_only_if_there_are_any(buckets: int, counts: list[tuple[int, int]]) -> None:
    """The oracle is a maximum flow from values to buckets, by another implementation."""
    quotas, fakes = [own for own, _ in counts], [fake for _, fake in counts]
    quotas.append(-sum(quotas) % buckets or buckets)  # one more value fills the buckets
    fakes.append(-sum(fakes) % buckets or buckets)
    sigma = sum(fakes) // buckets
    network = nx.DiGraph()
    for bucket, held in enumerate(deal([own + fake for own, fake in zip(quotas, fakes, strict=True)], buckets)):
        network.add_edge(f"bucket {bucket}", "sink", capacity=sigma)
        for value, number in Counter(held).items():
            network.add_edge("source", value, capacity=fakes[value])
            network.add_edge(value, f"bucket {bucket}", capacity=number)
    partition = partition_of([(sum(quotas) // buckets, buckets)], zip(quotas), zip(fakes))
    if nx.maximum_flow_value(network, "source", "sink") == sigma * buckets:
        assert_margins(partition, draw_marks([partition], KEY))
    else:
        with pytest.raises(SelfCheckError):
            draw_marks([partition], KEY)


def test_fake_values_that_do_not_fill_the_buckets_are_refused() -> None:
    with pytest.raises(SelfCheckError, match="3 fake values and 7 slots for 2 buckets"):
        draw_marks([partition_of([(2, 2)], [(2,), (2,)], [(2,), (1,)])], KEY)


def test_no_fake_values_no_marks() -> None:
    partition = partition_of([(2, 2)], [(2,), (2,)], [])
    marks = draw_marks([partition], KEY)
    assert fake_slots(marks) == []
    assert places(partition, marks) == [int(b) for b in Placement([partition], KEY).buckets(*records(partition))[1]]


def test_fake_values_without_marks_are_refused() -> None:
    with pytest.raises(ValueError, match="1 fake values in every bucket, and no marks"):
        Placement([partition_of([(2, 2)], [(2,), (2,)], [(1,), (1,)])], KEY)


def test_marks_use_no_numbers_that_the_order_uses() -> None:
    """Another key gives other marks, and the marks of two groups alike are not the same."""
    partition = partition_of([(3, 1000), (6, 1000)], [(2000, 4000), (1000, 2000)], [(500, 500), (500, 500)])
    values, slots = draw_marks([partition], KEY).fake_slots()
    own = {(value, slot) for value, slot in zip(values.tolist(), slots.tolist(), strict=True)}
    assert own == set(fake_slots(draw_marks([partition], KEY)))
    assert len(own & set(fake_slots(draw_marks([partition], key(7))))) < 1000


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[Partition, list[tuple[int, int]]]:
    return draw(marked_partitions()), draw(
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=12)
    )


@given(case=exchanges())
def test_after_exchanges_the_margins_hold_and_only_their_records_have_moved(
    case: tuple[Partition, list[tuple[int, int]]],
) -> None:
    """Mark v in bucket g and w in h; then w in g and v in h. Repeated, on marks that have been moved before."""
    partition, choices = case
    marks = draw_marks([partition], KEY)
    bucket = {(value, slot): number for number, value, slot in dealt(partition)}
    for one, other in choices:
        fake = fake_slots(marks)
        (v, x), (w, y) = fake[one % len(fake)], fake[other % len(fake)]
        g, h = bucket[v, x], bucket[w, y]
        free = sorted(set(bucket) - set(fake))
        to_v = [slot for value, slot in free if value == v and bucket[v, slot] == h]
        to_w = [slot for value, slot in free if value == w and bucket[w, slot] == g]
        if v == w or group_of(partition, g) != group_of(partition, h) or not to_v or not to_w:
            continue
        before = slots_of_records(partition, marks)
        marks = marks.move([(v, x, to_v[0]), (w, y, to_w[0])])
        assert_margins(partition, marks)
        expected = {(v, to_v[0]): (v, x), (w, to_w[0]): (w, y)}
        assert slots_of_records(partition, marks) == [expected.get(held, held) for held in before]


def slots_of_records(partition: Partition, marks: Marks) -> list[tuple[int, int]]:
    return [
        (value, int(slot))
        for value, row in enumerate(partition.quotas)
        for slot in marks.real_slots(value, np.arange(sum(row)))
    ]


def test_a_record_that_moves_there_and_back_is_where_it_was() -> None:
    partition = partition_of([(3, 40)], [(80,), (40,)], [(20,), (20,)])
    marks = draw_marks([partition], KEY)
    fake = {slot for value, slot in fake_slots(marks) if value == 0}
    real = min(set(range(100)) - fake)
    there = marks.move([(0, min(fake), real)])
    further = there.move([(0, max(fake), min(fake))])
    back = further.move([(0, real, max(fake))])
    assert slots_of_records(partition, back) == slots_of_records(partition, marks)
    assert fake_slots(back) == fake_slots(marks)
    assert back.nbytes == marks.nbytes
    changed = np.asarray(places(partition, marks)) != np.asarray(places(partition, further))
    assert changed.sum() <= 1


@pytest.mark.parametrize(
    ("value", "fake", "real", "complaint"),
    [
        (0, "fake", 1000, "does not have"),
        (5, "fake", "real", "does not have"),
        (0, "real", "real", "named twice"),
        (0, "real", "fake", "from a fake slot to a real one"),
    ],
)
def test_moves_that_make_no_sense_are_refused(value: int, fake: str, real: str | int, complaint: str) -> None:
    marks = draw_marks([partition_of([(3, 40)], [(80,), (40,)], [(20,), (20,)])], KEY)
    first = min(slot for value, slot in fake_slots(marks) if value == 0)
    other = min(set(range(100)) - {slot for value, slot in fake_slots(marks) if value == 0})
    known: dict[str | int, int] = {"fake": first, "real": other, 1000: 1000}
    with pytest.raises(ValueError, match=complaint):
        marks.move([(value, known[fake], known[real])])


@pytest.mark.parametrize(
    ("size", "buckets", "quotas", "fakes"),
    [
        (1, 6000, (3000, 2000, 1000), (2000, 3000, 1000)),  # buckets of one record
        (2, 3000, (5000, 990, 9, 1), (2498, 497, 4, 1)),  # rare values
        (4, 500, (1000, 1000), (0, 500)),  # one value takes all the marks
        (5, 1, (3, 1, 1), (10, 20, 30)),  # one bucket, and more fakes than values
        (1, 3, (1, 1, 1), (30, 30, 30)),
    ],
)
def test_odd_shapes(size: int, buckets: int, quotas: tuple[int, ...], fakes: tuple[int, ...]) -> None:
    partition = partition_of([(size, buckets)], zip(quotas), zip(fakes))
    assert_margins(partition, draw_marks([partition], KEY))
