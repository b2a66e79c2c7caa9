"""The encoder against a naive one, byte for byte, and against the readers of others."""

from __future__ import annotations

import decimal
import io
import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.release.parquet_file import index_width
from dalenius.release.parquet_pages import FileWriter, pack, steps_page
from dalenius.verify.strict_parquet import StrictFile, unpack
from tests import naive_parquet as naive
from tests.effort import cases, examples
from tests.handmade import csv_cell
from tests.naive_parquet import Bits

Cells = st.SearchStrategy[Any]


def whole_numbers(bits: int, signed: bool) -> Cells:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.sampled_from([low, low + 1, high, high - 1, 0, 1]) | st.integers(low, high)


def patterns(bits: int, often: list[int]) -> Cells:
    return (st.sampled_from(often) | st.integers(0, 2**bits - 1)).map(Bits)


def decimals(kind: pa.DataType) -> Cells:
    most = 10**kind.precision - 1
    digits = st.sampled_from([0, 1, -1, most, -most, most - 1]) | st.integers(-most, most)
    with decimal.localcontext(prec=100):
        return digits.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -kind.scale)))


ODD_TEXTS = ["", " ", "\0", "a", "A", "ä", "a\u0308", "\n", '"', "😀", "\uffff", "\U00010000", "z" * 130]
TEXTS: Cells = st.sampled_from(ODD_TEXTS) | st.text(max_size=6)
BYTES: Cells = st.sampled_from([b"", b"\0", b"\xff", b"\xff\0"]) | st.binary(max_size=6)
DAYS: Cells = st.integers(-(2**31), 2**31 - 1) | st.integers(-20_000, 40_000)
TIMES: Cells = st.integers(-(10**10), 10**10) | st.sampled_from([-(2**63), 2**63 - 1])
HALF = [0x8000, 0, 0x7E00, 0xFE00, 0x7C01, 0xFFFF, 0x7C00, 0xFC00]
SINGLE = [0x80000000, 0, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x3F800000]
DOUBLE = [1 << 63, 0, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, 2**64 - 1, 0x7FF0 << 48, 0xFFF0 << 48]

KINDS: dict[pa.DataType, Cells] = {
    **{pa.type_for_alias(f"int{bits}"): whole_numbers(bits, True) for bits in (8, 16, 32, 64)},
    **{pa.type_for_alias(f"uint{bits}"): whole_numbers(bits, False) for bits in (8, 16, 32, 64)},
    pa.float16(): patterns(16, HALF),
    pa.float32(): patterns(32, SINGLE),
    pa.float64(): patterns(64, DOUBLE),
    pa.bool_(): st.booleans(),
    **dict.fromkeys((pa.string(), pa.large_string()), TEXTS),
    **dict.fromkeys((pa.binary(), pa.large_binary()), BYTES),
    **{pa.binary(size): st.binary(min_size=size, max_size=size) for size in (1, 3, 16)},
    pa.date32(): DAYS,
    pa.time32("ms"): st.integers(0, 86_399_999),
    **{pa.time64(unit): st.integers(0, 86_399_999_999) for unit in ("us", "ns")},
    **{pa.timestamp(unit): TIMES for unit in ("ms", "us", "ns")},
    **{pa.timestamp(unit, "Europe/Berlin"): TIMES for unit in ("ms", "us", "ns")},
    **{pa.duration(unit): TIMES for unit in ("s", "ms", "us", "ns")},
    **{
        kind: decimals(kind)
        for kind in (
            *(pa.decimal32(precision, 2) for precision in (2, 9)),
            *(pa.decimal64(precision, 3) for precision in (10, 18)),
            *(pa.decimal128(precision, 4) for precision in (4, 9, 19, 38)),
            *(pa.decimal256(precision, 5) for precision in (5, 39, 76)),
        )
    },
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.dictionary(pa.int8(), pa.string()): TEXTS,
    pa.null(): st.none(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, pa.DataType], list[tuple[Any, ...]], int]:
    """Types, rows with their buckets, and how many rows a group has."""
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    count = draw(st.integers(1, 40) | st.sampled_from([1, 2, 7, 8, 9, 127, 128, 129, 130, 300]))
    columns: list[list[Any]] = []
    for kind in kinds:
        pool = draw(st.lists(KINDS[kind], min_size=1, max_size=12))
        if draw(st.booleans()):
            pool = [*pool, None]
        if draw(st.integers(0, 9)) == 0:
            pool = [None]
        places = draw(st.randoms(use_true_random=False))
        columns.append([places.choice(pool) for _ in range(count)])
    start = draw(st.integers(1, 2**40) | st.just(1))
    steps = draw(st.randoms(use_true_random=False))
    largest = draw(st.sampled_from([1, 1, 2, 3, 4, 100, 2**20 - 1, 2**32, 2**53]))
    buckets = [start]
    while len(buckets) < count:
        buckets.append(buckets[-1] + steps.choice([0, 0, 1, steps.randint(0, largest)]))
    types = {f"c{place}, ä": kind for place, kind in enumerate(kinds)}
    group = 2 ** draw(st.integers(0, 8))
    where = draw(st.integers(0, len(kinds)))
    named = list(types.items())
    every = {**dict(named[:where]), "bucket": pa.int64(), **dict(named[where:])}
    columns.insert(where, buckets)
    return every, list(zip(*columns, strict=True)), group


def arrow(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    """Cells in their type, each bit as it is."""
    if str(kind) in naive.FLOATS:
        octets, _ = naive.FLOATS[str(kind)]
        bits = [None if cell is None else cell.pattern for cell in cells]
        return pa.array(bits, pa.type_for_alias(f"uint{8 * octets}")).view(kind)
    if pa.types.is_temporal(kind):
        return pa.array(cells, pa.type_for_alias(f"int{kind.bit_width}")).view(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(cells, kind)


def written(types: dict[str, pa.DataType], rows: list[tuple[Any, ...]], group: int, codes: bool = False) -> bytes:
    """By the program; with `codes`, text comes as dictionaries."""
    columns = [arrow(kind, [row[place] for row in rows]) for place, kind in enumerate(types.values())]
    nulls = [any(row[place] is None for row in rows) for place in range(len(types))]
    schema = pa.schema([pa.field(name, kind, of) for (name, kind), of in zip(types.items(), nulls, strict=True)])
    if codes:
        columns = [one.dictionary_encode() if naive.physical(naive.stored(one.type)) == 6 else one for one in columns]
    file = io.BytesIO()
    writer = FileWriter(file, schema, "bucket")
    for start in range(0, len(rows), group):
        writer.write_group([column.slice(start, group) for column in columns])
    writer.finish()
    return file.getvalue()


def plain(kind: pa.DataType, cells: list[Any]) -> list[Any]:
    """Cells to be compared: floating point by its bits, with one NaN."""
    kind = naive.stored(kind)
    if str(kind) in naive.FLOATS:
        return [None if cell is None else naive.bits_of(kind, cell) for cell in cells]
    return cells


def cells_of(column: pa.Array) -> list[Any]:
    """What was read, in the same terms."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if str(kind) in naive.FLOATS:
        return list(column.view(pa.type_for_alias(f"uint{kind.bit_width}")).to_pylist())
    if pa.types.is_temporal(kind):
        return list(column.view(pa.type_for_alias(f"int{kind.bit_width}")).to_pylist())
    return list(column.to_pylist())


@settings(max_examples=examples(400))
@given(tables(), st.booleans())
def test_every_byte_is_that_of_the_naive_writer(
    table: tuple[dict[str, pa.DataType], list[tuple[Any, ...]], int], codes: bool
) -> None:
    types, rows, group = table
    content = written(types, rows, group, codes)
    assert content == naive.parquet(types, rows, group=group)
    wanted = {name: plain(kind, [row[place] for row in rows]) for place, (name, kind) in enumerate(types.items())}
    read = pq.read_table(io.BytesIO(content))
    assert {name: read.schema.field(name).type for name in types} == types
    for name in types:
        assert cells_of(read[name].combine_chunks()) == wanted[name]
    nullable = [name for name in types if None in wanted[name]]
    schema = pa.schema([pa.field(name, kind, name in nullable) for name, kind in types.items()])
    batches = list(StrictFile(io.BytesIO(content), schema, "bucket", len(rows)).batches())
    assert [batch.num_rows for batch in batches[:-1]] == [group] * (len(batches) - 1)
    for name in types:
        assert [cell for batch in batches for cell in cells_of(batch.column(name))] == wanted[name]


KNOWN_TO_DUCKDB = [
    kind
    for kind in KINDS
    if (naive.physical(naive.stored(kind)) in (0, 1, 2, 4, 5, 6) and not pa.types.is_temporal(kind))
    or pa.types.is_decimal128(kind)
]


@pytest.mark.parametrize("kind", KNOWN_TO_DUCKDB, ids=str)
def test_duckdb_reads_the_same(kind: pa.DataType, tmp_path: Path) -> None:
    examples_of: list[Any] = []

    @settings(max_examples=8, database=None)
    @given(st.lists(st.none() | KINDS[kind], min_size=1, max_size=6))
    def collect(cells: list[Any]) -> None:
        examples_of.extend(cells)

    collect()
    types = {"c": kind, "bucket": pa.int64()}
    rows = [(cell, 1 + place // 2) for place, cell in enumerate(examples_of)]
    path = tmp_path / "qit.parquet"
    path.write_bytes(written(types, rows, 8))
    with duckdb.connect() as connection:
        read = connection.execute("SELECT c, bucket FROM read_parquet(?)", [str(path)]).fetchall()
    assert [bucket for _, bucket in read] == [bucket for _, bucket in rows]
    wanted = plain(kind, examples_of)
    assert [bits(kind, cell) if cell is not None else None for cell, _ in read] == wanted


def bits(kind: pa.DataType, cell: Any) -> Any:
    return naive.bits_of(kind, cell) if str(kind) in naive.FLOATS else cell


DAYS_AND_TIMES = [pa.date32(), pa.time64("us"), *(pa.timestamp(unit) for unit in ("ms", "us", "ns"))]


@pytest.mark.parametrize("kind", DAYS_AND_TIMES, ids=str)
def test_duckdb_reads_the_same_days_and_times(kind: pa.DataType, tmp_path: Path) -> None:
    cells = [0, 1, None, 20_000, 518_400, None, 0] if pa.types.is_date32(kind) else [0, 10**9, None, 86_399_999_000]
    types = {"c": kind, "bucket": pa.int64()}
    path = tmp_path / "qit.parquet"
    path.write_bytes(written(types, [(cell, 1) for cell in cells], 2))
    with duckdb.connect() as connection:
        read = connection.execute("SELECT c FROM read_parquet(?)", [str(path)]).fetchall()
    assert [cell for (cell,) in read] == arrow(kind, cells).to_pylist()


@pytest.mark.parametrize("entries", cases(2, 200, 300, 5_000, 70_000, 1, 3, 5, 9, 17, 33, 65, 129, 257, usually=5))
def test_every_width_of_places(entries: int) -> None:
    """More different values than the generated tables have, in the narrow way and in the other."""
    for spread in (1, 10**9):
        rows = [((7 * place % entries) * spread, 1) for place in range(entries + 3)]
        types = {"n": pa.int64(), "bucket": pa.int64()}
        content = written(types, rows, 2**17)
        if entries <= 5_000:
            assert content == naive.parquet(types, rows)
        assert pq.read_table(io.BytesIO(content))["n"].to_pylist() == [number for number, _ in rows]


@pytest.mark.parametrize("width", naive.WIDTHS)
def test_packing_is_that_of_loops_and_comes_back(width: int) -> None:
    numbers = np.random.default_rng(width).integers(0, 2**width, 40, dtype=np.uint64)
    for count in (0, 1, 7, 8, 9, 40):
        packed = pack(numbers[:count].astype(np.uint32), width)
        assert packed == naive.packed([int(number) for number in numbers[:count]], width)
        back = unpack(np.frombuffer(packed, np.uint8), width)
        assert back[:count].tolist() == numbers[:count].tolist()
        assert not back[count:].any()


def test_widths_are_the_smallest_that_there_are() -> None:
    for entries in (0, 1, 2, 3, 4, 5, 255, 256, 257, 513, 1024, 1025, 4097, 2**16, 2**16 + 1, 2**20 + 1, 2**32):
        assert index_width(entries) == naive.index_width(entries)


def test_buckets_that_do_not_ascend_are_not_written() -> None:
    writer = FileWriter(io.BytesIO(), pa.schema([pa.field("bucket", pa.int64(), False)]), "bucket")
    with pytest.raises(ValueError, match="ascending"):
        writer.write_group([pa.array([2, 1])])


@pytest.mark.parametrize("count", [2, 128, 129, 130, 300])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 20, 62, 63])
def test_steps_take_the_bits_of_the_largest(count: int, width: int) -> None:
    """And no more, so that there is one spelling; without gaps they are a bit each, as ever."""
    few = np.random.default_rng(width).integers(0, 2, count - 1).tolist()
    few[-1] = 2**width - 1
    buckets = [-(2**63) if width == 63 else 1]
    for step in few:
        buckets.append(buckets[-1] + step)
    page = steps_page(np.array(buckets, np.int64))
    assert page == naive.steps(buckets)
    head = len(naive.varint(-(-(count - 1) // 128) * 128) + b"\1" + naive.varint(count) + naive.zigzag(buckets[0]))
    assert page[head : head + 2] == bytes([0, width])
    schema = pa.schema([pa.field("bucket", pa.int64(), False)])

    def read(steps: bytes) -> list[int]:
        edit = naive.Edit(pages=lambda *_: [(0, count, steps)])
        content = naive.parquet({"bucket": pa.int64()}, [(bucket,) for bucket in buckets], edit=edit)
        batches = StrictFile(io.BytesIO(content), schema, "bucket", count).batches()
        return [number for batch in batches for number in batch.column(0).to_pylist()]

    assert read(page) == buckets
    if width < 63:
        wider = page[: head + 1] + bytes([width + 1]) + naive.packed(few, width + 1, 128)
        with pytest.raises(ValueError, match="more bits than they need"):
            read(wider)
    for wrong in (
        page[: head + 1] + bytes([64]) + naive.packed(few, 64, 128),
        page[: head + 1] + bytes([0]),
        page + bytes(16),
        page[:-1],
        *([page[:-1] + bytes([page[-1] | 128])] if (count - 1) % 128 else []),
    ):
        with pytest.raises(ValueError, match=r"buckets are told in another way|behind the last row"):
            read(wrong)


def test_a_null_where_there_are_none_is_not_written() -> None:
    schema = pa.schema([pa.field("bucket", pa.int64(), False), pa.field("t", pa.string(), False)])
    writer = FileWriter(io.BytesIO(), schema, "bucket")
    with pytest.raises(ValueError, match="without nulls"):
        writer.write_group([pa.array([1]), pa.array([None], pa.string())])


def test_all_nans_become_one() -> None:
    types = {"f": pa.float64(), "bucket": pa.int64()}
    nans = [Bits(int.from_bytes(struct.pack("<d", math.nan), "little") + number) for number in range(5)]
    content = written(types, [(nan, 1) for nan in nans], 8)
    assert content == written(types, [(nans[0], 1)] * 5, 8)


TEXT_KINDS: list[tuple[pa.DataType, Cells]] = [
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.int64(), whole_numbers(64, True)),
    (pa.decimal128(19, 4), decimals(pa.decimal128(19, 4))),
    (pa.date32(), st.dates()),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
]


@pytest.mark.parametrize(("kind", "cells"), TEXT_KINDS, ids=[str(kind) for kind, _ in TEXT_KINDS])
def test_text_files_are_those_of_the_naive_writer(kind: pa.DataType, cells: Cells) -> None:
    @settings(max_examples=examples(100))
    @given(st.lists(st.none() | cells, min_size=1, max_size=20))
    def check(column: list[Any]) -> None:
        written = io.BytesIO()
        pyarrow.csv.write_csv(pa.table({"c": pa.array(column, kind), "bucket": [1] * len(column)}), written)
        wanted = "".join(f"{csv_cell(kind, cell)},1\n" for cell in column)
        assert written.getvalue().decode() == '"c","bucket"\n' + wanted

    check()
