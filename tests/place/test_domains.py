"""Codes keep the order of values and give back what was put in, for every type that can be published."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.errors import ChangedInputError
from dalenius.place.budget import Budget
from dalenius.place.columns import cast_to_published
from dalenius.place.domains import Domain, Listing, Range, codes_of
from dalenius.place.survey import survey
from dalenius.place.wide import in_release_order
from dalenius.tables.arrow import TableSource

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "near": (pa.int32(), st.integers(40, 60)),
    "double": (pa.float64(), st.floats()),
    "float": (pa.float32(), st.floats(width=32)),
    "halffloat": (pa.float16(), st.floats(width=16)),
    "decimal": (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    "long decimal": (pa.decimal128(30, 2), st.decimals(-(10**25), 10**25, places=2)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("ns", tz="Europe/Berlin"), st.integers(-(2**62), 2**62)),
    "time": (pa.time64("us"), st.times()),
    "duration": (pa.duration("ms"), st.integers(-(10**9), 10**9)),
    "string": (pa.string(), st.text(max_size=3)),
    "large string": (pa.large_string(), st.text(max_size=3)),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "fixed binary": (pa.binary(2), st.binary(min_size=2, max_size=2)),
    "category": (pa.dictionary(pa.int8(), pa.string()), st.text(max_size=2)),
}


def rank(value: Any) -> Any:
    """What the documented order sorts by, in plain Python: nulls last, then NaN, then the value itself."""
    if value is None:
        return (2,)
    if isinstance(value, float):
        if math.isnan(value):
            return (1,)
        return (0, value, struct.pack(">d", value) == struct.pack(">d", 0.0))
    return (0, value.encode() if isinstance(value, str) else value)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other) or (math.isnan(one) and math.isnan(other))
    return bool(one == other and type(one) is type(other))


def array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_float16(kind):
        return pa.array([None if v is None else np.float16(v) for v in values], kind)
    return pa.array(values, kind)


def domain_of(array: pa.Array) -> Domain:
    table = pa.table({"column": array, "s": pa.array(["x"] * len(array))})
    found = survey(TableSource(table), "s", ["column"], None, Budget.of(None), lambda _: None)
    domain = found.domains["column"]
    assert domain is not None
    return domain


def plain(array: pa.Array) -> list[Any]:
    if pa.types.is_dictionary(array.type):
        return [None if v is None else v for v in array.cast(array.type.value_type).to_pylist()]
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        return list(array.cast(pa.int64()).to_pylist())
    return [float(v) if isinstance(v, np.float16) else v for v in array.to_pylist()]


@pytest.mark.parametrize("name", [name for name in TYPES if name != "duration"])  # which are not published
@given(data=st.data())
def test_codes_keep_order_and_values(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    array = array_of(data.draw(st.lists(values | st.none(), min_size=1, max_size=12)), kind)
    domain = domain_of(array)
    codes = codes_of(domain, cast_to_published(array, domain.data_type))
    assert codes.dtype == np.uint64
    assert all(int(code) < domain.codes for code in codes)
    before = plain(array)
    for i, one in enumerate(before):
        for j, other in enumerate(before):
            assert (int(codes[i]) < int(codes[j])) == (rank(one) < rank(other)), (one, other)
    after = plain(domain.decode(codes.copy()).cast(array.type))
    assert all(same(one, other) for one, other in zip(before, after, strict=True)), (before, after)


@pytest.mark.parametrize("name", [name for name in TYPES if name != "category"])
@given(data=st.data())
def test_wide_records_are_sorted_in_the_same_order(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    rows = data.draw(st.lists(st.tuples(st.integers(1, 3), values | st.none()), min_size=1, max_size=12))
    buckets = pa.array([bucket for bucket, _ in rows], pa.int64())
    column = array_of([value for _, value in rows], kind)
    order = in_release_order([buckets, column])
    shown = plain(column)
    sorted_rows = [(rows[i][0], rank(shown[i])) for i in order]
    assert sorted_rows == sorted(sorted_rows)
    assert sorted(order.tolist()) == list(range(len(rows)))


def test_many_wide_columns_need_several_words() -> None:
    rng = np.random.default_rng(3)
    columns = [rng.integers(-(2**62), 2**62, 200) for _ in range(4)]
    columns[0] = rng.integers(0, 3, 200)
    columns[1] = rng.choice([-(2**62), 2**62], 200)
    order = in_release_order([pa.array(c) for c in columns])
    rows = list(zip(*(c.tolist() for c in columns), strict=True))
    assert [rows[i] for i in order] == sorted(rows)


def test_a_sparse_range_is_listed_and_a_dense_one_is_not() -> None:
    sparse = domain_of(pa.array([10**6, 5, 10**12]))
    assert isinstance(sparse, Listing)
    assert sparse.codes == 3
    assert isinstance(domain_of(pa.array([7, 5, 9])), Range)
    assert domain_of(pa.array([7, 5, None])).codes == 4


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1, 2]), pa.array([3])),
        (pa.array([1, 2]), pa.array([None], pa.int64())),
        (pa.array(["a"]), pa.array(["b"])),
        (pa.array(["a"]), pa.array([None], pa.string())),
        (pa.array(["a", None]), pa.array(["b"])),
        (pa.array([1, None, 10**9]), pa.array([5])),
    ],
)
def test_a_value_that_was_not_there_before_is_noticed(first: pa.Array, second: pa.Array) -> None:
    with pytest.raises(ChangedInputError, match="changed between"):
        codes_of(domain_of(first), second)


def test_slices_and_unused_categories() -> None:
    whole = pa.array(["b", "c", "a", "b"]).dictionary_encode()
    part = whole.slice(1, 3)
    domain = domain_of(part)
    assert isinstance(domain, Listing)
    assert domain.values.to_pylist() == ["a", "b", "c"]
    assert codes_of(domain, part).tolist() == [2, 0, 1]
    assert domain_of(whole.slice(2, 2)).codes == 2
    assert codes_of(domain_of(pa.array([5, 6, 7, 8]).slice(2)), pa.array([5, 7, 8]).slice(1)).tolist() == [0, 1]
