"""Counts over columns that are kept together, against all truths that could be behind a release."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.errors import NoSuchColumnError, QueryError
from dalenius.model.estimate import Estimate, Unit
from dalenius.query.people_count import PeopleCounter
from tests.effort import examples
from tests.query.people_releases import People, Truths, dealings, layouts

Part = tuple[str, Callable[[Any, Any], bool]]  # in SQL, and of the two values of a row

KINDS = "abc"


def made_up(seed: int, each: Sequence[int], most: int, *, persons: bool = True) -> People:
    """Buckets of 1 to `most` people with `each[i]` rows, and two columns that go together more often than not."""
    draw = random.Random(seed)  # noqa: S311

    def row() -> Any:
        one = draw.choice(KINDS)
        return (draw.randint(1, 3),), ((one,), (draw.choice([one, *KINDS[:2]]),))

    people = [
        (bucket, [row() for _ in range(rows)])
        for bucket, rows in enumerate(each, 1)
        for _ in range(draw.randint(1, most))
    ]
    return People(people, sets={"Disease": 1, "Drug": 1}, has_persons=persons, together=[["Disease", "Drug"]])


def worlds(people: People, bucket: int) -> Iterator[tuple[list[list[Any]], int]]:
    """All that the rows of the people of a bucket can have, given all tables, and in how many ways."""
    own = [rows for mine, rows in people.people if mine == bucket]
    each = len(own[0])
    lines = people.tuples(bucket, ["Disease", "Drug"])
    for hands in dealings(lines, len(own), each, 1):
        held = [Counter(cells[k] for cells, rows in hand for _ in range(rows)) for hand in hands for k in (0, 1)]
        columns = [sorted(line for counter in held[k::2] for line in counter.items()) for k in (0, 1)]
        if columns != [sorted(people.lines(bucket, k)) for k in (0, 1)]:
            continue
        for chosen in itertools.product(*(list(layouts(hand, each, 1)) for hand in hands)):
            yield [[next(iter(cell)) for cell in cells] for cells in chosen], 1


def truths(people: People, parts: Sequence[Part], age: int | None, unit: str) -> Truths:
    low, high, mean, variance = 0, 0, Fraction(0), Fraction(0)
    for bucket in people.buckets:
        ages = [[age is None or row[0] <= age for row in rows] for rows in people.rows_of(bucket)]
        counts: Counter[int] = Counter()
        for world, times in worlds(people, bucket):
            if unit == "rows":
                cells = [
                    (a, row) for own, rows in zip(ages, world, strict=True) for a, row in zip(own, rows, strict=True)
                ]
                number = sum(a and all(meets(*row) for _, meets in parts) for a, row in cells)
            else:
                number = sum(
                    any(own) and all(any(meets(*row) for row in rows) for _, meets in parts)
                    for own, rows in zip(ages, world, strict=True)
                )
            counts[number] += times
        total = sum(counts.values())
        first = Fraction(sum(n * times for n, times in counts.items()), total)
        low, high, mean = low + min(counts), high + max(counts), mean + first
        variance += Fraction(sum(n * n * times for n, times in counts.items()), total) - first**2
    return Truths(low, high, mean, variance)


def count(people: People, condition: str, unit: Unit) -> Estimate:
    with tempfile.TemporaryDirectory() as folder, PeopleCounter(people.write(Path(folder)), unit=unit) as counter:
        return counter.count(condition)


def agree(people: People, parts: Sequence[Part], age: int | None, unit: Unit) -> Estimate:
    """Count, and compare with all truths, and with the same release whose columns are apart."""
    condition = " AND ".join([sql for sql, _ in parts] + ([f"Age <= {age}"] if age is not None else []))
    found = count(people, condition, unit)
    truth = truths(people, parts, age, unit)
    low, high = found.bounds
    assert low <= truth.low
    assert truth.high <= high
    assert low <= found.interval[0] <= found.estimate <= found.interval[1] <= high
    if found.tight:
        assert found.bounds == (truth.low, truth.high)
    if all(len(rows) == 1 for _, rows in people.people):
        assert found.tight
        assert found.estimate == pytest.approx(float(truth.mean), abs=1e-9)
        assert found.standard_error**2 == pytest.approx(float(truth.variance), abs=1e-9)
    if all(" OR " not in sql and "=" not in sql for sql, _ in parts):
        apart = count(replace(people, together=()), condition, unit)
        assert apart.bounds[0] <= low
        assert high <= apart.bounds[1]
    return found


SEEDS = st.integers(0, 10**6)
CHOSEN = st.sets(st.sampled_from(KINDS), min_size=1, max_size=2).map(sorted)
AGES = st.sampled_from([None, 1, 2])
UNITS: Any = st.sampled_from(["people", "rows"])


def among(column: str, chosen: Sequence[str]) -> Part:
    place = ["Disease", "Drug"].index(column)
    return f"{column} IN ({', '.join(map(repr, chosen))})", lambda *row: row[place] in chosen


TIED: list[Part] = [
    ("Disease = Drug", lambda one, other: one == other),
    ("(Disease = 'a' OR Drug = 'b')", lambda one, other: one == "a" or other == "b"),
]


@settings(max_examples=examples(24))
@given(SEEDS, CHOSEN, CHOSEN, AGES, st.booleans())
def test_people_with_one_row_are_their_tuples(
    seed: int, one: list[str], other: list[str], age: int | None, persons: bool
) -> None:
    people = made_up(seed, [1, 1], 4, persons=persons)
    found = agree(people, [among("Disease", one), among("Drug", other)], age, "people")
    assert found.exact or age is not None


@settings(max_examples=examples(36))
@given(SEEDS, CHOSEN, CHOSEN, AGES, UNITS, st.sampled_from([[2], [1, 2], [3]]))
def test_people_with_several_rows(
    seed: int, one: list[str], other: list[str], age: int | None, unit: Unit, each: list[int]
) -> None:
    people = made_up(seed, each, 3 if each != [3] else 2)
    found = agree(people, [among("Disease", one), among("Drug", other)], age, unit)
    assert found.exact or age is not None or unit == "people"


@settings(max_examples=examples(24))
@given(SEEDS, st.sampled_from(TIED), st.none() | CHOSEN, AGES, UNITS, st.sampled_from([[1], [2], [1, 2]]))
def test_a_part_may_tie_columns(
    seed: int, tied: Part, other: list[str] | None, age: int | None, unit: Unit, each: list[int]
) -> None:
    parts = [tied, among("Drug", other)] if other is not None else [tied]
    found = agree(made_up(seed, each, 3), parts, age, unit)
    assert found.exact or age is not None or each != [1]


@pytest.mark.parametrize("each", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_beside_tuples(seed: int, each: int) -> None:
    """For whoever knows no value, everybody in a bucket has x with the probability h / P, whatever goes with it.

    For whoever knows that somebody has a, b is as probable as its tuples say, or more where rows are several.
    """
    people = made_up(seed, [each], 4 if each < 3 else 2)
    every = [world for world, _ in worlds(people, 1)]
    number = len(every[0])
    for place in (0, 1):
        for value, held in Counter(value for value, _ in people.lines(1, place)).items():
            for person in range(number):
                has = sum(any(row[place] == value for row in world[person]) for world in every)
                assert Fraction(has, len(every)) == Fraction(held, number)
    have = Counter(value for value, _ in people.lines(1, 0))
    for (one, other), both in Counter(cells for cells, _ in people.tuples(1, ["Disease", "Drug"])).items():
        known = [world for world in every if any(row[0] == one for row in world[0])]
        right = sum(any(row[1] == other for row in world[0]) for world in known)
        share = Fraction(both, have[one])
        assert Fraction(right, len(known)) == share if each == 1 else Fraction(right, len(known)) >= share


def test_what_goes_with_what_is_known(tmp_path: Path) -> None:
    rows = [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]
    people = People(
        [(1, [((1,), ((one,), (other,)))]) for one, other in rows for _ in range(3 if one == other else 1)],
        sets={"Disease": 1, "Drug": 1},
        has_persons=False,
        together=[["Disease", "Drug"]],
    )
    release = dalenius.load(people.write(tmp_path / "together").path)
    apart = dalenius.load(replace(people, together=()).write(tmp_path / "apart").path)
    assert release.count("Disease = 'a' AND Drug = 'a'").bounds == (3, 3)
    assert apart.count("Disease = 'a' AND Drug = 'a'").bounds == (0, 4)
    assert release.count("Disease = Drug").bounds == (6, 6)
    with pytest.raises(QueryError, match="ties 'Disease' to another sensitive column"):
        apart.count("Disease = Drug")
    with pytest.raises(QueryError, match="ties 'Disease' to quasi-identifiers"):
        release.count("Disease = Drug OR Age > 1")
    text = dalenius.load(people.write(tmp_path / "text", "csv").path)
    assert text.count("Disease = Drug") == release.count("Disease = Drug")
    assert release.together == (("Disease", "Drug"),)
    assert release.together_of("Drug").num_rows == 8
    with pytest.raises(NoSuchColumnError, match=r"'Disease' and 'Drug'.*\nIt keeps together: none"):
        apart.together_of("Disease", "Drug")
    by_both = {tuple(g.group.values()): g.estimate.bounds for g in release.count("TRUE", ["Disease", "Drug"])}
    assert by_both == {(one, other): (3, 3) if one == other else (1, 1) for one, other in rows}


@pytest.mark.parametrize("unit", ["people", "rows"])
@pytest.mark.parametrize("columns", [["Disease", "Drug"], ["Drug", "Age"]])
@pytest.mark.parametrize("where", ["Drug <> 'b'", "Disease = Drug AND Age < 3"])
def test_a_group_is_a_condition(unit: Unit, columns: list[str], where: str, tmp_path: Path) -> None:
    with PeopleCounter(made_up(7, [1, 2, 2], 4).write(tmp_path), unit=unit) as counter:
        groups = counter.count_by(where, columns)
        assert len(groups) >= 2
        for group in groups:
            same = [f"{name} = {cell!r}" for name, cell in group.group.items()]
            assert counter.count(" AND ".join([where, *same])) == group.estimate


def test_a_third_column_stays_apart(tmp_path: Path) -> None:
    draw = random.Random(4)  # noqa: S311
    people = People(
        [(1 + i // 4, [((draw.randint(1, 3),), tuple((draw.choice("ab"),) for _ in range(3)))]) for i in range(40)],
        sets={"Disease": 1, "Drug": 1, "Test": 1},
        has_persons=False,
        together=[["Disease", "Test"]],
    )
    with PeopleCounter(people.write(tmp_path)) as counter:
        assert counter.count("Disease = 'a' AND Test = 'b'").exact
        low, high = counter.count("Disease = 'a' AND Test = 'b' AND Drug = 'a'").bounds
        assert low < high
        with pytest.raises(QueryError, match="ties 'Disease' to another"):
            counter.count("Disease = Drug")
