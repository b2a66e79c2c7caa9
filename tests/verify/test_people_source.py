"""Releases of people against the table that they were made of: person by person, value by value, group by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import UsageError
from dalenius.model.concern import Advice, Severity
from dalenius.model.verdict import Verdict
from dalenius.policy.job import parse_job
from dalenius.verify.judge import verify
from tests.effort import examples
from tests.handmade_people import DIAGNOSIS, FIRST, INSULIN, HandmadePeople, Person, Sensitive, clinic, visit
from tests.verify.test_people import MADE, releases

Rows = list[dict[str, Any]]


def judged(folder: Path, made: HandmadePeople, source: pa.Table) -> Verdict:
    return verify(folder, against=source, person="id" if made.numbered else None)


def edited(table: pa.Table, change: Callable[[Rows], Any]) -> pa.Table:
    rows = table.to_pylist()
    changed = change(rows)
    return pa.Table.from_pylist(rows if changed is None else changed, table.schema)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", sorted(name for name in MADE if not MADE[name].dropped))
def test_the_table_itself(name: str, kind: str, tmp_path: Path) -> None:
    made = MADE[name]
    folder = made.write(tmp_path / "release", kind)
    source = made.source()
    verdict = judged(folder, made, source.slice(3).filter(pa.array([True] * (len(source) - 3))))
    assert not verdict["source"].passed
    backwards = source.take(list(range(len(source)))[::-1])
    verdict = judged(folder, made, backwards)
    assert verdict.verified, verdict.findings


def test_who_has_which_rows_must_be_said(tmp_path: Path) -> None:
    folder = clinic().write(tmp_path / "people")
    with pytest.raises(UsageError, match="--person"):
        verify(folder, against=clinic().source())


def test_where_every_row_is_a_person_nobody_has_several(tmp_path: Path) -> None:
    made = MADE["one row each, without numbers"]
    folder = made.write(tmp_path / "release")
    assert verify(folder, against=made.source(), person="id").verified
    same = edited(made.source(), lambda rows: rows[0].update(id="p1"))
    assert "1 person has several rows in the table" in verify(folder, against=same, person="id")["source"].summary


def patients(rows: int, different: int) -> tuple[HandmadePeople, pa.Table]:
    """A release in which every row is a person, and its table with a column that says whose the rows are."""
    people: list[Person] = [[visit(20 + k, "A", f"f{k % 2}", "g", "no")] for k in range(rows)]
    made = clinic(people=people, buckets=[1 + k // 4 for k in range(rows)], tree=[], sets=[FIRST], numbered=False)
    numbers = pa.array([f"x{k % different}" for k in range(rows)])
    return made, made.source().drop_columns("id").append_column("patient_id", numbers)


@pytest.mark.parametrize(("different", "concerns"), [(24, 0), (16, 1)])
def test_a_table_that_says_whose_the_rows_are_is_never_silently_one_of_rows(
    different: int, concerns: int, tmp_path: Path
) -> None:
    """Of 16 people, 8 have two of 24 rows: the limits are kept, and of rows. The verdict says so."""
    made, source = patients(24, different)
    folder = made.write(tmp_path / "release")
    alone, beside = verify(folder), verify(folder, against=source)
    assert (alone.verified, beside.verified) == (True, True)
    assert [one.code for one in alone.concerns] == []
    assert [(one.code, one.severity, one.people, one.columns) for one in beside.concerns] == [
        ("repeated-people", Severity.LOOK, 8, ("patient_id",))
    ] * concerns
    assert beside.advice is (Advice.LOOK_FIRST if concerns else Advice.PUBLISH)
    if concerns:
        assert "16 different values in 24 rows" in beside.concerns[0].message
        assert "--person patient_id" in beside.concerns[0].answer


def test_whoever_says_whose_the_rows_are_is_told_as_a_failure_and_not_twice(tmp_path: Path) -> None:
    made, source = patients(24, 16)
    verdict = verify(made.write(tmp_path / "release"), against=source, person="patient_id")
    assert {check.check for check in verdict.checks if not check.passed} == {"source"}
    assert [one.code for one in verdict.concerns] == ["source"]


def test_an_identifier_that_a_job_names_weighs_more(tmp_path: Path) -> None:
    """Most people have several rows, and the publisher said that the column identifies them."""
    made, source = patients(24, 10)
    folder = made.write(tmp_path / "release")
    job = parse_job("[table]\nidentifiers = ['patient_id', 'name']")
    (one,) = verify(folder, against=source, job=job).concerns
    assert (one.code, one.severity, one.people) == ("repeated-people", Severity.STOP, 10)


EDITS: dict[str, Callable[[Rows], Any]] = {
    "a row of somebody else": lambda rows: rows[-1].update(id="p6"),
    "rows of two people exchanged": lambda rows: [rows[6].update(id="p7"), rows[8].update(id="p6"), *rows][2:],
    "another age": lambda rows: rows[7].update(Age=99),
    "another diagnosis": lambda rows: rows[7].update(diag_2="hiv"),
    "another insulin": lambda rows: rows[7].update(insulin="up"),
    "a diagnosis less": lambda rows: rows[0].update(diag_2="flu"),
    "a row less": lambda rows: rows.pop(7) and None,
    "a row more": lambda rows: rows.append(dict(rows[7])),
    "one person more": lambda rows: rows.append({**rows[7], "id": "new"}),
}


@pytest.mark.parametrize("name", EDITS)
def test_another_table(name: str, tmp_path: Path) -> None:
    made = clinic()
    verdict = judged(made.write(tmp_path / "release"), made, edited(made.source(), EDITS[name]))
    assert {check.check for check in verdict.checks if not check.passed} == {"source"}


def test_rows_that_are_alike_in_multisets_and_not_by_person(tmp_path: Path) -> None:
    """Four rows of two people: as rows the tables are the same, and the people have others of them."""
    people: list[Person] = [
        [visit(1, "A", "f", "f", "no"), visit(2, "A", "g", "g", "no")],
        [visit(3, "A", "f", "f", "no"), visit(4, "A", "g", "g", "no")],
    ]
    made = clinic(people=people, buckets=[1, 1], tree=[], sets=[FIRST])
    folder = made.write(tmp_path / "release")
    assert judged(folder, made, made.source()).verified
    other = edited(made.source(), lambda rows: [rows[1].update(id="p1"), rows[3].update(id="p0"), *rows][2:])
    assert "the people in qit.parquet" in judged(folder, made, other)["source"].summary


def test_groups_are_counted_from_the_table(tmp_path: Path) -> None:
    """People of a group that fit the values of the bucket, and are not those of the table."""
    people: list[Person] = [
        [visit(n, "A", one, two, "no")] for n, (one, two) in enumerate([("f", "g"), ("c", "h"), ("c", "h")])
    ]
    own = replace(DIAGNOSIS, groups=[("G", None, None), ("H", None, None)], limits={})
    own = replace(own, group_of={"f": "G", "g": "G", "c": "H", "h": "H"})
    made = clinic(people=people, buckets=[1, 1, 1], tree=[], sets=[own])
    folder = made.write(tmp_path / "release")
    other = [[visit(n, "A", one, two, "no")] for n, (one, two) in enumerate([("f", "c"), ("g", "h"), ("c", "h")])]
    others = clinic(people=other, buckets=[1, 1, 1], tree=[], sets=[own])
    assert judged(folder, made, made.source()).verified
    verdict = judged(folder, made, others.source())
    assert {check.check for check in verdict.checks if not check.passed} == {"source"}
    assert "groups of values in st_groups.parquet" in verdict["source"].summary


def test_nulls_and_codes_for_them(tmp_path: Path) -> None:
    people: list[Person] = [
        [visit(1, "A", "?", "f", "no"), visit(2, "A", "g", "g", "no")],
        [visit(3, "A", "f", None, "no"), visit(4, "A", "g", "g", "no")],  # type: ignore[arg-type]
    ]
    own = Sensitive("diagnosis", ["diag_1", "diag_2"], null_value="missing", missing=["?"])
    made = clinic(people=people, buckets=[1, 1], tree=[], sets=[INSULIN, own])
    verdict = judged(made.write(tmp_path / "release"), made, made.source())
    assert verdict.verified, verdict.findings


def left_out() -> tuple[HandmadePeople, pa.Table]:
    """People of whom at most two rows were kept, and their table."""
    made = clinic(most_rows=2, dropped=3)
    rows = made.source().to_pylist()
    more = [{**rows[-1], "Age": 99}, {**rows[-1], "Age": 98, "diag_1": "x"}, {**rows[-3], "Ward": "C"}]
    return made, pa.Table.from_pylist([*rows, *more], made.source().schema)


def test_rows_that_were_left_out(tmp_path: Path) -> None:
    made, source = left_out()
    folder = made.write(tmp_path / "release")
    verdict = judged(folder, made, source)
    assert verdict.verified, verdict.findings
    wrong: dict[str, Callable[[Rows], Any]] = {
        "one more of those who have more": lambda rows: rows.append(dict(rows[-1])),
        "one less of them": lambda rows: rows.pop() and None,
        "of somebody who has fewer": lambda rows: rows[-1].update(id="p0"),
        "another row of somebody who has no more": lambda rows: rows[7].update(Age=98),
        "a row that is there was not": lambda rows: rows[17].update(Age=77),
        "a person more": lambda rows: rows[-1].update(id="new"),
        "a value that nobody has": lambda rows: (
            [row.update(diag_1="x") for row in rows if row["diag_1"] == "gout"] and None
        ),
    }
    for name, change in wrong.items():
        verdict = judged(folder, made, edited(source, change))
        assert not verdict["source"].passed, name


@given(releases(), st.randoms(use_true_random=False))
@settings(max_examples=examples(25))
def test_whatever_was_written_is_of_its_table(made: HandmadePeople, random: Any) -> None:
    with TemporaryDirectory() as scratch:
        folder = made.write(Path(scratch) / "release")
        rows = made.source().to_pylist()
        random.shuffle(rows)
        source = pa.Table.from_pylist(rows, made.source().schema)
        verdict = judged(folder, made, source)
        assert verdict.verified, verdict.findings
        rows[0]["Age"] = 77
        assert not judged(folder, made, pa.Table.from_pylist(rows, made.source().schema)).verified
