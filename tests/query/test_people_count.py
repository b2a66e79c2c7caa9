"""Counts of people and of rows against all truths that could be behind a release."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.estimate import Estimate, Unit
from dalenius.query.people_count import PeopleCounter
from dalenius.release.folder import ReleaseFolder
from tests.effort import examples
from tests.query.people_releases import People, truths

VALUES = "abcdef"


def made_up(
    seed: int,
    sets: dict[str, int],
    each: Sequence[int],
    most: int,
    *,
    persons: bool = True,
    kinds: int = 4,
    groups: Any = (),
) -> People:
    """A release of buckets with 1 to `most` people; those of bucket i have `each[i]` rows."""
    draw = random.Random(seed)  # noqa: S311 (a test)

    def row() -> Any:
        own = [tuple(draw.choice(VALUES[:kinds]) for _ in range(slots)) for slots in sets.values()]
        return (draw.randint(1, 3),), tuple(own)

    people = [
        (bucket, [row() for _ in range(rows)])
        for bucket, rows in enumerate(each, 1)
        for _ in range(draw.randint(1, most))
    ]
    return People(people, sets=sets, has_persons=persons, groups=groups)


def counted(folder: ReleaseFolder, expression: str, unit: Unit = "people") -> Estimate:
    with PeopleCounter(folder, unit=unit) as counter:
        return counter.count(expression)


def agree(people: People, unit: Unit, values: dict[int, str], age: int | None) -> Estimate:
    """Count, and compare with all truths. `values` has the values that are asked for, by sensitive column."""
    names = list(people.sets)
    parts = [f"{names[k]} IN ({', '.join(map(repr, chosen))})" for k, chosen in values.items()]
    parts += [f"Age <= {age}"] if age is not None else []
    with tempfile.TemporaryDirectory() as folder:
        found = counted(people.write(Path(folder)), " AND ".join(parts), unit)
    meets: dict[int, Callable[[Any], bool]] = {k: set(chosen).__contains__ for k, chosen in values.items()}
    truth = truths(people, lambda row: age is None or row[0] <= age, meets, unit)
    low, high = found.bounds
    assert low <= truth.low
    assert truth.high <= high
    if found.tight:
        assert found.bounds == (truth.low, truth.high)
    if all(len(chosen) == 1 or _has_one(people, k) for k, chosen in values.items()):
        assert found.estimate == pytest.approx(float(truth.mean), abs=1e-9)
        assert found.standard_error**2 == pytest.approx(float(truth.variance), abs=1e-9)
    assert low <= found.interval[0] <= found.estimate <= found.interval[1] <= high
    return found


def _has_one(people: People, number: int) -> bool:
    """Whether everybody has one value of a column."""
    return list(people.sets.values())[number] == 1 and all(len(rows) == 1 for _, rows in people.people)


SEEDS = st.integers(0, 10**6)
CHOSEN = st.sets(st.sampled_from(VALUES[:4]), min_size=1, max_size=4).map(lambda chosen: "".join(sorted(chosen)))
AGES = st.sampled_from([None, 1, 2])
UNITS: Any = st.sampled_from(["people", "rows"])


@settings(max_examples=examples(240))
@given(SEEDS, CHOSEN, AGES, UNITS, st.lists(st.integers(1, 2), min_size=1, max_size=3))
def test_people_with_one_or_two_rows(seed: int, chosen: str, age: int | None, unit: Unit, each: list[int]) -> None:
    found = agree(made_up(seed, {"Disease": 1}, each, 4), unit, {0: chosen}, age)
    assert found.tight or unit == "rows"
    assert found.tight or len(chosen) > 1


@settings(max_examples=examples(160))
@given(SEEDS, CHOSEN, AGES, UNITS)
def test_people_with_three_rows(seed: int, chosen: str, age: int | None, unit: Unit) -> None:
    found = agree(made_up(seed, {"Disease": 1}, [3], 3), unit, {0: chosen}, age)
    assert found.tight or len(chosen) > 1


@settings(max_examples=examples(160))
@given(SEEDS, CHOSEN, AGES, st.sampled_from([2, 3]), st.booleans())
def test_several_columns_of_one_kind(seed: int, chosen: str, age: int | None, slots: int, persons: bool) -> None:
    people = made_up(seed, {"Disease": slots}, [1], 4 if slots == 2 else 3, persons=persons)
    assert agree(people, "people", {0: chosen}, age).tight


@settings(max_examples=examples(120))
@given(SEEDS, CHOSEN, AGES, UNITS)
def test_several_columns_of_one_kind_and_two_rows(seed: int, chosen: str, age: int | None, unit: Unit) -> None:
    found = agree(made_up(seed, {"Disease": 2}, [2], 3, kinds=3), unit, {0: chosen}, age)
    assert found.tight or len(chosen) > 1


@settings(max_examples=examples(160))
@given(SEEDS, CHOSEN, CHOSEN, AGES, UNITS, st.integers(1, 2))
def test_two_sensitive_columns(seed: int, one: str, other: str, age: int | None, unit: Unit, each: int) -> None:
    found = agree(made_up(seed, {"Disease": 1, "Drug": 1}, [each], 3, kinds=3), unit, {0: one, 1: other}, age)
    assert found.tight or (unit == "rows" and each == 2)


@settings(max_examples=examples(80))
@given(SEEDS, CHOSEN, CHOSEN, CHOSEN, AGES)
def test_three_sensitive_columns_of_people_with_one_row(
    seed: int, one: str, other: str, third: str, age: int | None
) -> None:
    people = made_up(seed, {"Disease": 1, "Drug": 1, "Test": 1}, [1, 1], 3, persons=False, kinds=3)
    assert agree(people, "people", {0: one, 1: other, 2: third}, age).tight


@settings(max_examples=examples(120))
@given(SEEDS, CHOSEN, AGES, st.integers(1, 2), st.integers(1, 2))
def test_groups_of_values_say_more(seed: int, chosen: str, age: int | None, each: int, slots: int) -> None:
    groups = [("ab", None, ["b"]), ("a", "ab", ["a"]), ("c", None, ["c"])]
    people = made_up(seed, {"Disease": slots}, [each], 3, groups=groups)
    held = {value for bucket in people.buckets for value, _ in people.lines(bucket, 0)}
    people = People(
        people.people,
        sets=people.sets,
        groups=[group for group in groups if group[2][0] in held or (group[0] == "ab" and "a" in held)],
    )
    found = agree(people, "people", {0: chosen}, age)
    if set(chosen) & held in ({"a", "b"} & held, {"c"} & held, {"d"} & held):
        assert found.tight
        assert found.exact or age is not None
