"""Numbers for people, against dictionaries of Python; also where hashes lie."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.place.numbering import all_differ, keys_of, number_rows

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "text": (pa.string(), st.text(max_size=3)),
    "long text": (pa.large_string(), st.text(max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "small": (pa.int8(), st.integers(-3, 3)),
    "large": (pa.uint64(), st.sampled_from([0, 1, 2**63, 2**64 - 1])),
    "day": (pa.date32(), st.dates(datetime.date(2020, 1, 1), datetime.date(2020, 1, 9))),
    "decimal": (pa.decimal128(30, 2), st.sampled_from([decimal.Decimal(10**25), decimal.Decimal("1.50")])),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows_of_one_person_and_no_others_have_the_same_number(kind: str, data: st.DataObject) -> None:
    data_type, values = KINDS[kind]
    chunks = data.draw(st.lists(st.lists(values, max_size=8), min_size=1, max_size=3))
    arrays = [pa.array(chunk, data_type) for chunk in chunks]
    numbers = number_rows(arrays)
    persons = [person for chunk in chunks for person in chunk]
    assert len(numbers) == len(persons)
    assert sorted(set(numbers.tolist())) == list(range(len(set(persons))))
    assert len(set(zip(numbers.tolist(), persons, strict=True))) == len(set(persons))
    assert all_differ([keys_of(array) for array in arrays]) == (len(set(persons)) == len(persons))


def test_people_whose_hashes_are_equal_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if somebody had chosen names that have the hash of others: by their length."""

    def by_length(values: pa.Array) -> Any:
        return np.array([len(text) for text in values.to_pylist()], dtype=np.uint64)

    monkeypatch.setattr("dalenius.tables.open_table.hash_values", by_length)
    names = ["ann", "bob", "ann", "eve", "x", "bob", "ann", "x"]
    numbers = number_rows([pa.array(names[:3]), pa.array(names[3:])]).tolist()
    assert len(set(zip(names, numbers, strict=True))) == len(set(names)) == len(set(numbers))


def test_slices_and_arrays_without_rows() -> None:
    whole = pa.array(["a", "b", "c", "b"])
    assert len(set(number_rows([whole.slice(1, 3), whole.slice(0, 0)]).tolist())) == 2
    assert number_rows([]).tolist() == []
    assert all_differ([])
