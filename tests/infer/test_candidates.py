"""Blocks put together again, and columns as codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from dalenius.infer.candidates import Column, encode_column, make_blocks, of_buckets
from tests.infer.designs import candidates_of


def test_blocks_hold_every_bucket_once() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 6, 200)
    bucket_of = np.repeat(np.arange(200), sizes)
    values = rng.integers(0, 7, len(bucket_of))
    held: dict[int, dict[int, int]] = {}
    for bucket, value in zip(bucket_of.tolist(), values.tolist(), strict=True):
        held.setdefault(bucket, {})[value] = held.get(bucket, {}).get(value, 0) + 1
    cells = np.array([(b, v, c) for b, counts in sorted(held.items()) for v, c in sorted(counts.items())])
    seen: dict[int, dict[int, int]] = {}
    rows: list[int] = []
    for block in make_blocks(bucket_of, cells[:, 0], cells[:, 1], cells[:, 2]):
        for place, bucket in enumerate(block.buckets.tolist()):
            seen[bucket] = dict(zip(block.values[place].tolist(), block.counts[place].tolist(), strict=True))
            rows += block.rows[place].tolist()
            assert set(bucket_of[block.rows[place]]) == {bucket}
    assert seen == held
    assert sorted(rows) == list(range(len(bucket_of)))


def codes(cells: Sequence[object], kind: pa.DataType | None = None, values: int = 5) -> np.ndarray | None:
    column = encode_column("c", pa.chunked_array([pa.array(list(cells), kind)]), values)
    return None if column is None else column.codes


def test_equal_cells_have_equal_codes_and_nulls_their_own() -> None:
    found = codes(["a", None, "b", "a", None])
    assert found is not None
    assert found[0] == found[3]
    assert found[1] == found[4]
    assert len(set(found.tolist())) == 3


def test_many_numbers_are_cut_into_ranges_in_their_order() -> None:
    numbers = np.random.default_rng(0).permutation(1000)
    found = codes([*numbers.tolist(), None], pa.float64())
    assert found is not None
    by_number = found[:-1][np.argsort(numbers)]
    assert (np.diff(by_number) >= 0).all()
    assert np.bincount(by_number).tolist() == [20] * 50
    assert found[-1] not in by_number


@pytest.mark.parametrize(
    "kind",
    [pa.decimal128(15, 2), pa.date32(), pa.time32("s"), pa.float32(), pa.uint8(), pa.bool_(), pa.decimal64(15, 2)],
)
def test_types(kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array([0, 1, None, 1], pa.int32()).cast(kind)])
    found = encode_column("c", column, 5)
    assert found is not None
    assert found.codes[1] == found.codes[3]
    assert len(set(found.codes.tolist())) == 3


def test_categories_of_batches_with_other_dictionaries() -> None:
    chunks = [pa.array(cells).dictionary_encode() for cells in (["x", "y"], ["y", "z", None])]
    found = encode_column("c", pa.chunked_array(chunks), 5)
    assert found is not None
    assert found.codes[1] == found.codes[2]
    assert len(set(found.codes.tolist())) == 4


def test_texts_that_are_nearly_keys_are_left_out_and_rare_ones_put_together() -> None:
    assert codes([f"person {i}" for i in range(100)]) is None
    many = [f"town {i % 90}" for i in range(1000)]
    assert len(set(np.asarray(codes(many)).tolist())) == 90
    assert len(set(np.asarray(codes(many, values=2**17)).tolist())) == 8


def test_names_of_a_few_do_not_take_the_others_away() -> None:
    """Three towns of most people are told apart, however many villages of one person there are."""
    cells = [f"town {i % 3}" for i in range(700)] + [f"village {i}" for i in range(300)]
    found = np.asarray(codes(cells))
    assert len(set(found[:700].tolist())) == 3
    assert len(set(found[700:].tolist())) == 1
    assert not set(found[:700].tolist()) & set(found[700:].tolist())


def coded_with(
    cells: Sequence[object], others: Sequence[object], kind: pa.DataType | None = None
) -> tuple[Column, Column]:
    """The column by itself, and with people who are not in the release."""
    column = pa.chunked_array([pa.array(list(cells), kind)])
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    alone = encode_column("c", column, 5)
    both = encode_column("c", column, 5, pa.chunked_array([pa.array(list(others), plain)]))
    assert alone is not None
    assert both is not None
    assert both.kinds == alone.kinds
    np.testing.assert_array_equal(both.codes[: len(cells)], alone.codes)
    return alone, both


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_other_people_are_coded_by_what_the_release_has(kind: pa.DataType) -> None:
    alone, both = coded_with(["x", "y", "x", "z"], ["elsewhere", "z", None, "x", "nowhere"], kind)
    unknown = alone.kinds
    assert both.codes[4:].tolist() == [unknown, alone.codes[3], unknown, alone.codes[0], unknown]
    assert coded_with(["x", None], [None], kind)[1].codes[2] == coded_with(["x", None], [], kind)[0].codes[1]


def test_texts_of_other_people_drop_no_column() -> None:
    cells = [f"town {i % 15}" for i in range(100)]
    alone, both = coded_with(cells, [f"elsewhere {i}" for i in range(3000)])
    assert set(both.codes[100:].tolist()) == {alone.kinds}  # all of them unknown to the release


@pytest.mark.parametrize("kind", [pa.float64(), pa.int32(), pa.date32(), pa.decimal64(12, 2), pa.decimal128(15, 2)])
def test_numbers_of_other_people_go_by_the_edges_of_the_release(kind: pa.DataType) -> None:
    """Even numbers are there: an odd one is in the range of the even one below, whatever others there are."""
    cells = pa.array((np.random.default_rng(0).permutation(1000) * 2).tolist(), pa.int32()).cast(kind)
    others = pa.array([-5, 0, 1, 777, 1998, 1999, 5000], pa.int32()).cast(kind)
    alone, both = coded_with(cells.to_pylist(), others.to_pylist(), kind)
    code = dict(zip(cells.to_pylist(), alone.codes.tolist(), strict=True))
    below = pa.array([0, 0, 0, 776, 1998, 1998, 1998], pa.int32()).cast(kind).to_pylist()
    assert both.codes[1000:].tolist() == [code[number] for number in below]


def test_a_number_that_is_not_a_kind_is_unknown() -> None:
    alone, both = coded_with([1, 3, 1], [2, 3], pa.int16())
    assert both.codes[3:].tolist() == [alone.kinds, alone.codes[1]]


def test_some_buckets_are_as_they_were_among_all() -> None:
    random = np.random.default_rng(3)
    sizes = random.integers(1, 5, 40)
    held = [random.integers(0, 4, size).tolist() for size in sizes]
    codes = random.integers(0, 7, int(sizes.sum()) + 5).astype(np.int32)  # five people are not in the release
    every = candidates_of(held, sizes.tolist(), 4, [Column("q", codes, 7)])
    chosen = np.flatnonzero(random.random(40) < 0.5)
    some = of_buckets(every, chosen)
    assert some.numbers.tolist() == every.numbers[chosen].tolist()
    firsts = np.cumsum(sizes) - sizes
    rows = [row for bucket in chosen for row in range(firsts[bucket], firsts[bucket] + sizes[bucket])]
    assert some.columns[0].codes.tolist() == [*codes[rows].tolist(), *codes[-5:].tolist()]
    seen: dict[int, list[int]] = {}
    for block in some.blocks:
        for place, values, counts, own in zip(block.buckets, block.values, block.counts, block.rows, strict=True):
            seen[int(place)] = np.repeat(values, counts).tolist()
            assert (some.bucket_of[own] == place).all()
    assert seen == {place: sorted(held[bucket]) for place, bucket in enumerate(chosen.tolist())}
