"""Records by person: compared with what dictionaries of Python make of the same rows."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import InputError, UsageError
from dalenius.place.budget import Budget
from dalenius.place.items import Shortened
from dalenius.place.people import People, SetSpec, count_sets, read_people
from dalenius.place.survey import survey
from dalenius.tables.arrow import TableSource
from tests.effort import examples

KEY = bytes(range(32))
DIAGNOSES = SetSpec("diagnosis", ("first", "second"), None)
DRUG = SetSpec("drug", ("drug",), "nothing")

Row = tuple[str, int | None, str, str, str, str | None]
rows_of_people = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from([None, -5, 3, 2**40]),
        st.sampled_from(["x", "y"]),
        st.sampled_from("PQR"),
        st.sampled_from("PQR"),
        st.sampled_from(["up", "down", None]),
    ),
    min_size=1,
    max_size=20,
)


def table(rows: list[Row]) -> pa.Table:
    names = ("person", "age", "city", "first", "second", "drug")
    types = (pa.string(), pa.int64(), pa.string(), pa.string(), pa.string(), pa.string())
    columns = zip(*rows, strict=True)
    arrays = [pa.array(list(column), kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip(names, arrays, strict=True)))


def read(
    rows: list[Row],
    person: str | None = "person",
    most_rows: int | None = None,
    sets: tuple[SetSpec, ...] = (DIAGNOSES, DRUG),
) -> People:
    source = TableSource(table(rows))
    found = survey(source, "first", ["age", "city"], None, Budget.of(None), lambda _: None)
    columns = count_sets(source, sets, 7)
    return read_people(source, found, sets, columns, person, most_rows, KEY, lambda _: None)


def as_objects(people: People) -> list[tuple[tuple[tuple[Any, ...], ...], tuple[frozenset[tuple[str, int]], ...]]]:
    """Everybody as their rows and their items with numbers of rows."""
    columns = [column.to_pylist() for column in people.combinations.decode(people.keys)]
    rows = list(zip(*columns, strict=True))
    everybody = []
    for who in range(people.number):
        own = tuple(rows[people.offsets[who] : people.offsets[who + 1]])
        sets = []
        for column, items in zip(people.columns, people.items, strict=True):
            mine = slice(int(items.offsets[who]), int(items.offsets[who + 1]))
            pairs = zip(items.codes[mine].tolist(), items.rows[mine].tolist(), strict=True)
            sets.append(frozenset((column.texts[code], number) for code, number in pairs))
        everybody.append((own, tuple(sets)))
    return everybody


def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((cell is None, cell) if cell is not None else (True,) for cell in row)


@settings(max_examples=examples(200))
@given(rows_of_people)
def test_people_have_their_rows_and_whatever_is_in_any_of_them(rows: list[Row]) -> None:
    by_person: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_person[row[0]].append(row)
    expected = Counter(
        (
            tuple(sorted(((row[1], row[2]) for row in own), key=order)),
            (
                frozenset(Counter(value for row in own for value in {row[3], row[4]}).items()),
                frozenset(Counter(row[5] or "nothing" for row in own).items()),
            ),
        )
        for own in by_person.values()
    )
    people = read(rows)
    assert Counter(as_objects(people)) == expected
    assert people.dropped == 0
    for column, items in zip(people.columns, people.items, strict=True):
        assert sum(column.counts) == len(items.codes)
    least = people.least_codes("age")
    for code, (own, _) in zip(least.tolist(), as_objects(people), strict=True):
        assert people.combinations.codes("age", people.keys).min() <= code
        assert own[0] == min(own, key=order)


@settings(max_examples=examples(100))
@given(rows_of_people, st.integers(1, 3))
def test_nobody_keeps_more_rows_than_the_most(rows: list[Row], most: int) -> None:
    people = read(rows, most_rows=most)
    counts = Counter(row[0] for row in rows)
    assert sorted(people.rows_each.tolist()) == sorted(min(most, count) for count in counts.values())
    assert people.dropped == sum(max(0, count - most) for count in counts.values())
    kept = Counter(row for own, _ in as_objects(people) for row in own)
    assert not kept - Counter((row[1], row[2]) for row in rows)
    for column in people.columns:
        assert all(column.counts), "a value that nobody has any more is not listed"
        assert column.decode(np.arange(len(column.texts))).to_pylist() == list(column.texts)


def test_without_a_person_every_row_is_one() -> None:
    rows: list[Row] = [("a", 3, "x", "P", "Q", "up"), ("a", 3, "x", "P", "P", "up"), ("b", None, "y", "R", "Q", None)]
    people = read(rows, person=None)
    assert people.number == 3
    assert as_objects(people)[1] == (((3, "x"),), (frozenset({("P", 1)}), frozenset({("up", 1)})))


def test_which_rows_are_kept_is_random() -> None:
    rows: list[Row] = [("a", 3, "x", "P", "P", "up"), ("a", 3, "x", "Q", "Q", "up"), ("a", 3, "x", "R", "R", "up")]
    kept = set()
    source = TableSource(table(rows))
    for number in range(40):
        found = survey(source, "first", ["age", "city"], None, Budget.of(None), lambda _: None)
        columns = count_sets(source, (DIAGNOSES,), 7)
        key = number.to_bytes(32, "big")
        people = read_people(source, found, (DIAGNOSES,), columns, "person", 1, key, lambda _: None)
        kept |= {text for column in people.columns for text in column.texts}
    assert kept == {"P", "Q", "R"}


def test_rows_without_a_person_are_refused() -> None:
    source = TableSource(table([("a", 3, "x", "P", "P", "up"), (None, 3, "x", "P", "P", "up")]))  # type: ignore[list-item]
    found = survey(source, "first", ["age"], None, Budget.of(None), lambda _: None)
    columns = count_sets(source, (DRUG,), 7)
    with pytest.raises(InputError, match="1 of 2 rows have no person"):
        read_people(source, found, (DRUG,), columns, "person", None, KEY, lambda _: None)


def test_columns_of_a_set_have_one_type() -> None:
    source = TableSource(pa.table({"one": ["P"], "two": [1]}))
    with pytest.raises(UsageError, match="different types"):
        count_sets(source, (SetSpec("both", ("one", "two"), None),), 7)


def test_many_wide_columns_still_make_one_key_each() -> None:
    rows = 300
    random = np.random.default_rng(5)
    columns = {f"c{k}": random.integers(-(2**40), 2**40, rows) for k in range(4)}
    source = TableSource(pa.table({**columns, "s": ["a"] * rows}))
    found = survey(source, "s", list(columns), None, Budget.of(None), lambda _: None)
    sets = (SetSpec("s", ("s",), None),)
    people = read_people(source, found, sets, count_sets(source, sets, 7), None, None, KEY, lambda _: None)
    decoded = [column.to_numpy() for column in people.combinations.decode(people.keys)]
    for given_column, own in zip(columns.values(), decoded, strict=True):
        assert (own == given_column).all()
    by_key = np.argsort(people.keys)
    assert by_key.tolist() == np.lexsort(tuple(reversed(list(columns.values())))).tolist()


def test_a_code_for_a_missing_person_is_nobody() -> None:
    rows: list[Row] = [(f"p{k // 2}", k % 5, "x", "P", "Q", "up") for k in range(60)]
    missing: list[Row] = [("0", k % 5, "y", "P", "R", "up") for k in range(250)]
    with pytest.raises(InputError, match="one person in 'person' has 250 of 310 rows, and nobody else more than 2"):
        read(rows + missing)
    assert read(rows + missing[:99]).number == 31  # who is there every week


def test_the_chance_that_a_value_is_kept_is_that_of_all_ways_to_keep_rows() -> None:
    asked = [(rows, own, most) for rows in range(1, 7) for own in range(1, rows + 1) for most in range(1, rows + 1)]
    for rows, own, most in asked:
        shortened = Shortened(np.array([0]), np.array([rows]), most, ())
        ways = list(itertools.combinations(range(rows), most))
        kept = sum(any(row < own for row in way) for way in ways)
        assert shortened.chances(np.array([0]), np.array([own])) == pytest.approx([kept / len(ways)])


@settings(max_examples=examples(60), deadline=None)
@given(rows_of_people)
def test_who_is_alone_is_alone_with_all_of_their_rows(rows: list[Row]) -> None:
    by_person = defaultdict(list)
    for person, age, city, *_ in rows:
        by_person[person].append((str(age), city))
    lists = Counter(tuple(sorted(own)) for own in by_person.values())
    assert read(rows).alone() == sum(times == 1 for times in lists.values())
    assert read(rows, person=None).alone() == sum(n == 1 for n in Counter(row[1:3] for row in rows).values())


@settings(max_examples=examples(60), deadline=None)
@given(rows_of_people, st.integers(1, 3))
def test_whoever_loses_rows_is_known_with_all_they_had(rows: list[Row], most: int) -> None:
    people = read(rows, most_rows=most)
    by_person = defaultdict(list)
    for row in rows:
        by_person[row[0]].append(row)
    expected = []
    texts = [column.texts for column in people.columns]
    for own in by_person.values():
        if len(own) > most:
            diagnoses = Counter(text for row in own for text in {row[3], row[4]} if text in texts[0])
            drugs = Counter("nothing" if row[5] is None else row[5] for row in own)
            kept = {text: times for text, times in drugs.items() if text in texts[1]}
            expected.append((len(own), sorted(diagnoses.items()), sorted(kept.items())))
    shortened = people.shortened
    assert (shortened is None) == (not expected) == (people.dropped == 0)
    if shortened is not None:
        found = []
        for place, number in enumerate(shortened.rows.tolist()):
            sets = []
            for items, names in zip(shortened.items, texts, strict=True):
                mine = slice(items.offsets[place], items.offsets[place + 1])
                pairs = zip(items.codes[mine].tolist(), items.rows[mine].tolist(), strict=True)
                sets.append(sorted((names[code], times) for code, times in pairs))
            found.append((number, *sets))
        assert sorted(found) == sorted(expected)
