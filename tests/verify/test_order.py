"""The canonical order against Python's own sorting, on columns long enough for every way of comparing."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.verify.row_order import OrderOfRows, falls
from tests.effort import examples
from tests.handmade import order

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "few texts": (pa.string(), ["a", "é", "\uffff", "\U0001f600"]),
    "many texts": (pa.string(), [chr(97 + i % 26) * (i % 7) + chr(200 + i) for i in range(60)]),
    "views": (pa.string_view(), ["a", "é", "a very long text that is not kept in line", "\U0001f600"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
    "fixed bytes": (pa.binary(2), [b"ab", b"\x00\x00", b"\xff\xff"]),
    "double": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 5e-324, math.inf, math.nan]),
    "float": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 0.5, math.inf, math.nan]),
    "half": (pa.float16(), [-math.inf, -1.5, -0.0, 0.0, 0.5, math.inf, math.nan]),
    "wide": (pa.decimal256(60, 0), [Decimal(i * 10**50 + i) for i in range(-5, 6)]),
    "decimal": (pa.decimal128(25, 1), [Decimal(i * 10**20) / 10 for i in range(-5, 6)]),
    "decimal32": (pa.decimal32(5, 1), [Decimal(i) / 10 for i in range(-5, 6)]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "bool": (pa.bool_(), [False, True]),
    "timestamp": (pa.timestamp("us", "UTC"), [-(2**40), 0, 2**40]),
    "time": (pa.time64("ns"), [0, 1, 10**12]),
    "duration": (pa.duration("s"), [-5, 0, 5]),
    "null": (pa.null(), []),
}


def array(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    if pa.types.is_float16(kind):
        return pa.array([None if cell is None else np.float16(cell) for cell in cells], kind)
    return pa.array(cells, kind)


def expected(*columns: list[Any]) -> int:
    rows = [[order(cell) for cell in row] for row in zip(*columns, strict=True)]
    return sum(1 for above, below in itertools.pairwise(rows) if below < above)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("coded", [False, True])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_falls_are_counted_as_python_counts_them(name: str, coded: bool, data: st.DataObject) -> None:
    kind, cells = COLUMNS[name]
    row = st.tuples(st.integers(0, 2), st.sampled_from([None, *cells]), st.integers(0, 1))
    rows = data.draw(st.lists(row, min_size=2, max_size=120))
    if data.draw(st.booleans()):
        rows.sort(key=lambda cells: [order(cell) for cell in cells])
        place = data.draw(st.integers(0, len(rows) - 2))
        rows[place], rows[place + 1] = rows[place + 1], rows[place]
    first, second, third = (list(column) for column in zip(*rows, strict=True))
    column = array(kind, second)
    if coded and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        column = column.dictionary_encode()
    columns = [pa.array(first), column, pa.array(third, pa.uint8())]
    assert falls(columns) == expected(first, second, third)
    middle = data.draw(st.integers(0, len(rows)))
    batches = OrderOfRows()
    batches.add([part.slice(0, middle) for part in columns])
    batches.add([part.slice(middle) for part in columns])
    assert batches.falls == expected(first, second, third)


def test_dictionaries_may_change_from_batch_to_batch_and_repeat_themselves() -> None:
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a", "b"]))
    rows = OrderOfRows()
    rows.add([twice])
    rows.add([pa.array(["b", "c"]).dictionary_encode()])
    assert rows.falls == 0
    rows.add([twice])
    assert rows.falls == 1
    long = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int32()), pa.array(["a", "a", None]))
    assert falls([long]) == 0


def test_negative_nans_are_last_too() -> None:
    pattern = np.array([0x7FF0000000000000, 0xFFF8000000000001, 0x7FF8000000000000], np.uint64)
    assert falls([pa.array(pattern.view(np.float64))]) == 0
