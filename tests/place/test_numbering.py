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

from dalenius.errors import InputError
from dalenius.place.numbering import (
    all_differ,
    keys_of,
    nobody_repeats,
    number_people,
    number_rows,
    person_texts,
    persons_in,
)
from dalenius.tables.arrow import TableSource

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


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_a_blank_text_is_nobody(kind: pa.DataType) -> None:
    column = pa.array(["a", "", "b", " \t", None, "a "]).cast(kind)
    assert persons_in(column).to_pylist() == ["a", None, "b", None, None, "a "]
    with pytest.raises(InputError, match="3 of 6 rows have no person: the column 'p' is null or blank there"):
        number_people([persons_in(column)], "p")
    with pytest.raises(InputError, match="3 of 6 rows have no person"):
        nobody_repeats(TableSource(pa.table({"p": column})), "p", 2)


def test_what_is_not_a_number_is_nobody() -> None:
    assert persons_in(pa.array([1.0, float("nan"), None, 2.5])).to_pylist() == [1.0, None, None, 2.5]


@pytest.mark.parametrize("code", ["?", "NaN", " unknown", "N/A"])
def test_a_code_for_a_missing_person_that_several_rows_have_is_refused(code: str) -> None:
    with pytest.raises(InputError, match="2 of 5 rows have no person: the column 'p' has a code for a missing one"):
        number_people([pa.array(["a", code, "b"]), pa.array(["a", code])], "p")
    assert len(set(number_people([pa.array(["a", code, "b", "a"])], "p")[0].tolist())) == 3  # of nobody but one row


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans(), st.sampled_from(["", ".0", ".00"])), min_size=1)
)
def test_people_who_differ_in_spelling_alone_are_counted(rows: list[tuple[int, bool, bool, str]]) -> None:
    names = [("AB" if upper else "ab") + str(who) + " " * blank for who, upper, blank, _ in rows]
    assert number_people([pa.array(names)], "p")[1] == len(set(names)) - len({who for who, *_ in rows})
    numbers = [" " * blank + str(who) + zeros for who, _, blank, zeros in rows]
    assert number_people([pa.array(numbers)], "p")[1] == len(set(numbers)) - len({who for who, *_ in rows})
    plain = nobody_repeats(TableSource(pa.table({"p": names})), "p", 3)
    assert plain == (len({who for who, *_ in rows}) == len(rows))
    assert number_people([pa.array([who for who, *_ in rows])], "p")[1] == 0  # numbers have one spelling


@pytest.mark.parametrize(
    "spellings",
    [
        ["josé", "José", "jose\u0301", " José\u00a0", "\ufeffJosé", "jo\u200bsé", "ＪＯＳＥ\u0301"],
        ["12345678901", "12345678901.0", " 12345678901 ", "１２３４５６７８９０１"],
    ],
)
def test_one_text_for_all_ways_to_write_a_person(spellings: list[str]) -> None:
    assert len(set(person_texts(pa.array(spellings)).to_pylist())) == 1
    assert len({person_texts(pa.array([one])).to_pylist()[0] for one in spellings}) == 1  # whoever is beside them


def test_one_text_for_all_types_of_a_person() -> None:
    number = 2**53 - 1
    columns = [pa.array([number]), pa.array([float(number)]), pa.array([str(number)]), pa.array([f"{number}.0"])]
    columns += [pa.array([str(number)], pa.large_string()), pa.array([str(number)]).dictionary_encode()]
    columns += [pa.array([str(number)], pa.string_view()), pa.array([number], pa.uint64())]
    assert {person_texts(column).to_pylist()[0] for column in columns} == {str(number)}
    assert person_texts(pa.array([None, float("nan"), 3.0])).to_pylist() == [None, None, "3"]


@pytest.mark.parametrize("number", [0.5, 2.0**53, -1e300])
def test_floating_point_that_is_not_exact_names_nobody(number: float) -> None:
    with pytest.raises(InputError, match="floating-point"):
        person_texts(pa.array([1.0, number]))
