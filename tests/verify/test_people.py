"""People with several rows and several sensitive columns: what is right verifies, and each broken rule is found."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.verdict import Outcome, Verdict
from dalenius.verify.judge import verify
from tests.effort import examples
from tests.handmade import edit_manifest, order
from tests.handmade_people import (
    CLINIC_TYPES,
    DIAGNOSIS,
    FIRST,
    INSULIN,
    HandmadePeople,
    Person,
    Sensitive,
    change_rows,
    clinic,
    read_rows,
    restate,
    visit,
    write_rows,
)
from tests.verify.people_oracle import problems

Rows = list[dict[str, Any]]

PAIRS = [("f", "c"), ("g", "c"), ("h", "f")]
SINGLE = [visit(30 + n, "AB"[n % 2], d, e, "no" if n % 3 else "up") for n, (d, e) in enumerate([*PAIRS, *PAIRS])]


def singles(**changes: Any) -> HandmadePeople:
    """Six people with one row each, who have no numbers, in two buckets."""
    parts: dict[str, Any] = {
        "types": CLINIC_TYPES,
        "people": [[row] for row in SINGLE],
        "buckets": [1, 1, 1, 2, 2, 2],
        "sets": [Sensitive("diagnosis", ["diag_1", "diag_2"]), INSULIN],
        "numbered": False,
        **changes,
    }
    return HandmadePeople(**parts)


def failed(verdict: Verdict) -> set[str]:
    return {check.check for check in verdict.checks if check.outcome is Outcome.FAILED}


MADE = {
    "a set of two columns with groups, and another": clinic(),
    "one column": clinic(sets=[FIRST]),
    "two columns": clinic(sets=[INSULIN, FIRST]),
    "one column with groups": clinic(sets=[replace(DIAGNOSIS, name="diag_1", columns=["diag_1"])]),
    "the set as the second": clinic(sets=[INSULIN, DIAGNOSIS]),
    "values in no group": clinic(sets=[replace(DIAGNOSIS, group_of={"hiv": "Chronic", "gout": "Joints"})]),
    "known people": clinic(
        people=[[row] for row in SINGLE], buckets=[1, 1, 1, 2, 2, 2], tree=[], sets=[FIRST], known_records=1
    ),
    "cut by least ages": clinic(
        buckets=[1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4], tree=[(None, 1, 1, 2), 1, ("Age", 50, 3, 4), 2, 3]
    ),
    "rows that were left out": clinic(most_rows=2, dropped=3),
    "a name that is taken": clinic(types={"person": pa.uint8(), "Rows": pa.string()}),
    "one row each, without numbers": singles(),
    "one row each, three columns": singles(sets=[FIRST, INSULIN, Sensitive("diag_2", ["diag_2"])]),
    "one row each, in strata": singles(tree=[("Age", 32, 1, 2), 1, 2]),
    "all have one row, and others were left out": clinic(
        people=[[row] for row in SINGLE], buckets=[1, 1, 1, 2, 2, 2], tree=[], sets=[FIRST], most_rows=1, dropped=2
    ),
}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", MADE)
def test_what_is_right_verifies(name: str, kind: str, tmp_path: Path) -> None:
    folder = MADE[name].write(tmp_path / "release", kind)
    for batch_rows in (1, 2**17):
        verdict = verify(folder, batch_rows=batch_rows)
        assert verdict.verified, verdict.findings
        assert verdict.notes == ()
    if kind == "parquet":
        assert problems(folder) == []


def test_exposure_is_that_of_the_likeliest_value(tmp_path: Path) -> None:
    made = clinic(sets=[FIRST, INSULIN])
    exposure = verify(made.write(tmp_path / "release")).exposure
    assert exposure is not None
    assert exposure.people == len(made.people)
    wanted: dict[Fraction, int] = {}
    for bucket in set(made.buckets):
        members = [person for person, own in zip(made.people, made.buckets, strict=True) if own == bucket]
        shares = [
            sum(value in own.items(person) for person in members)
            for own in made.sets
            for value in {value for person in members for value in own.items(person)}
        ]
        share = Fraction(max(shares), len(members))
        wanted[share] = wanted.get(share, 0) + len(members)
    assert dict(exposure.levels) == wanted
    assert sum(exposure.bands) == len(made.people)
    assert {value.value for value in exposure.values} >= {"'diag_1': flu", "'insulin': no"}


def test_groups_of_all_columns_are_listed_with_their_parents(tmp_path: Path) -> None:
    verdict = verify(clinic(sets=[INSULIN, DIAGNOSIS]).write(tmp_path / "release"))
    names = {group.name: group.parent for group in verdict.groups}
    assert names == {"'diagnosis': Airways": None, "'diagnosis': Chronic": None, "'diagnosis': Joints": 1}


def test_findings_say_which_column_they_are_about(tmp_path: Path) -> None:
    folder = clinic(sets=[FIRST, INSULIN]).write(tmp_path / "release")
    edit_manifest(folder, lambda m: m["others"][0]["values"][0].update(limit="1/5"))
    messages = [finding.message for finding in verify(folder).findings]
    assert messages
    assert all(message.startswith("'insulin': ") for message in messages)


def swap(name: str, first: int, second: int) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[first][name], rows[second][name] = rows[second][name], rows[first][name]

    return change


def put(row: int, **cells: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[row].update(cells)


def sort_st(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: tuple(row.values()))


def put_sorted(row: int, **cells: Any) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        rows[row].update(cells)
        return sort_st(rows)

    return change


def swap_people(rows: Rows) -> Rows:
    """The first two people of bucket 3 change their numbers, and places."""
    mine = [row for row in rows if row["bucket"] == 3]
    for row in mine:
        row["person"] = 3 - row["person"]
    place = rows.index(mine[0])
    return [*rows[:place], *mine[2:], *mine[:2], *rows[place + 4 :]]


def at(rows: Rows, **cells: Any) -> int:
    """The place of the first row with these cells."""
    return next(place for place, row in enumerate(rows) if cells.items() <= row.items())


# what is changed in which table of `clinic()`, and which checks must say so
EDITS: dict[str, tuple[str, Callable[[Rows], Any], set[str]]] = {
    "a person counts from 0": ("qit", put(0, person=0), {"sizes"}),
    "two people with one number": ("qit", put(1, person=1), {"sizes"}),
    "numbers that go on from bucket to bucket": (
        "qit",
        lambda rows: [row.update(person=row["person"] + 3) for row in rows if row["bucket"] == 2] and None,
        {"sizes"},
    ),
    "a row of one person given to another": ("qit", put(7, person=2), {"sizes", "order"}),
    "a row less": ("qit", lambda rows: rows.pop(7) and None, {"sizes", "manifest"}),
    "a row more": ("qit", lambda rows: rows.insert(7, dict(rows[7])), {"sizes", "manifest"}),
    "numbers in another order": ("qit", swap_people, {"order"}),
    "rows of a person in another order": ("qit", lambda rows: rows.insert(6, rows.pop(7)), {"order"}),
    "a value less": ("st", lambda rows: rows.pop(3) and None, {"manifest", "values"}),
    "more rows than a person has": ("st", put_sorted(0, rows=2), {"sizes"}),
    "no rows": ("st", put_sorted(0, rows=0), {"sizes"}),
    "lines in another order": ("st", lambda rows: rows.insert(0, rows.pop(3)), {"order"}),
    "rows in another order": (
        "st",
        lambda rows: rows.sort(key=lambda row: (row["bucket"], row["diagnosis"], -row["rows"])),
        {"order"},
    ),
    "another insulin": ("st2", put_sorted(0, insulin="up"), {"values"}),
    "rows that do not add up": (
        "st2",
        lambda rows: put_sorted(at(rows, bucket=3), rows=2)(rows),
        {"sizes"},
    ),
    "a bucket beyond the last": ("st2", put(-1, bucket=5), {"sizes", "values"}),
    "fewer people of a group": (
        "st_groups",
        lambda rows: rows.pop(at(rows, bucket=4, group="Chronic")) and None,
        {"values"},
    ),
    "a group of another name": ("st_groups", put(0, group="Aaa"), {"values"}),
    "a group that nobody in the bucket has": ("st_groups", put_sorted(3, group="Joints"), {"values"}),
    "groups in another order": ("st_groups", lambda rows: rows.insert(0, rows.pop(4)), {"order"}),
    "a bucket less of groups": (
        "st_groups",
        lambda rows: [row for row in rows if row["bucket"] != 4],
        {"sizes", "values"},
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_table_that_breaks_a_rule_is_refused(name: str, tmp_path: Path) -> None:
    folder = clinic().write(tmp_path / "release")
    table, change, wanted = EDITS[name]
    change_rows(folder, table, change)
    verdict = verify(folder)
    assert wanted <= failed(verdict), verdict.findings
    assert problems(folder)


def misplaced(made: HandmadePeople, **changes: Any) -> HandmadePeople:
    """The same with something changed, and what the manifest says of strata as it was."""
    right = made.strata()

    class Misplaced(HandmadePeople):
        def strata(self) -> dict[str, Any] | None:
            return copy.deepcopy(right)

    return Misplaced(**{**vars(made), **changes})


def test_somebody_in_a_bucket_of_another_stratum(tmp_path: Path) -> None:
    """Two people of strata by their least ages change places: every other rule is kept."""
    made = MADE["cut by least ages"]
    buckets = [*made.buckets]
    buckets[6], buckets[8] = buckets[8], buckets[6]
    verdict = verify(misplaced(made, buckets=buckets, sets=[INSULIN]).write(tmp_path / "release"))
    assert failed(verdict) == {"strata"}
    assert "2 people are in a bucket of another stratum" in verdict["strata"].summary


def test_it_is_the_least_value_that_counts(tmp_path: Path) -> None:
    """Cut at 50, somebody of 50 and 51 is below it; a null is above whatever else the person has."""
    tree = [("Age", 50, 1, 2), 1, 2]
    people: list[Person] = [
        [visit(51, "A", "f", "f", "no"), visit(50, "A", "c", "c", "no")],
        [visit(50, "A", "c", "c", "up"), visit(None, "A", "f", "f", "up")],
        [visit(None, "A", "f", "f", "no"), visit(None, "A", "f", "f", "up")],
        [visit(51, "A", "f", "f", "up"), visit(None, "B", "c", "c", "no")],
    ]
    made = clinic(people=people, buckets=[1, 1, 2, 2], tree=tree, sets=[FIRST])
    assert verify(made.write(tmp_path / "right")).verified
    for place in (2, 3):
        buckets = [1, 2, 2, 2]
        buckets[place] = 1
        folder = misplaced(made, buckets=buckets).write(tmp_path / f"wrong {place}")
        assert failed(verify(folder)) == {"strata"}


def test_a_limit_that_rows_keep_and_people_do_not(tmp_path: Path) -> None:
    """Two of two people have flu, in one of their three rows each: 1/3 of the rows, and all people."""
    people: list[Person] = [
        [visit(30 + n, "A", "flu", "x", "no"), *(visit(40 + n, "A", f"d{n}{k}", "x", "no") for k in range(2))]
        for n in range(2)
    ]
    own = replace(FIRST, limits={"flu": "1/2"})
    made = clinic(people=people, buckets=[1, 1], tree=[], sets=[own])
    verdict = verify(made.write(tmp_path / "release"))
    assert "limits" in failed(verdict)
    assert "'flu' 2 of 2" in verdict["limits"].summary
    assert verify(replace(made, sets=[FIRST]).write(tmp_path / "without")).verified


def test_a_limit_of_a_group_that_values_keep_and_people_do_not(tmp_path: Path) -> None:
    own = replace(DIAGNOSIS, groups=[("Chronic", None, "1/2"), ("Joints", "Chronic", None), ("Airways", None, None)])
    verdict = verify(clinic(sets=[own, INSULIN]).write(tmp_path / "release"))
    assert failed(verdict) == {"limits", "manifest"}
    assert "'Chronic' 3 of 4" in verdict["limits"].summary


def test_a_table_of_groups_that_hides_people(tmp_path: Path) -> None:
    """A group's people are said to be fewer than those of its values, with counts and worst cases that fit."""
    folder = clinic(sets=[DIAGNOSIS]).write(tmp_path / "release")

    def drop(rows: Rows) -> None:
        del rows[at(rows, bucket=4, group="Chronic")]
        del rows[at(rows, bucket=4, group="Chronic")]

    change_rows(folder, "st_groups", drop)

    def restated(manifest: dict[str, Any]) -> None:
        chronic = next(group for group in manifest["groups"] if group["name"] == "Chronic")
        chronic.update(count=chronic["count"] - 2, worst={"count": 2, "size": 3})

    edit_manifest(folder, restated)
    verdict = verify(folder)
    assert failed(verdict) == {"values"}
    assert "bucket 4 has 1 of 'Chronic', not 3 to 4" in verdict["values"].summary


@pytest.mark.parametrize(
    ("columns", "people"),
    [
        (["diag_1"], [["lung", "lung"], ["skin", "skin"], ["flu", "burn"], ["flu", "burn"]]),
        (["diag_1", "diag_2"], [["lung skin"], ["gut eye"], ["flu burn"], ["flu cut"]]),
    ],
)
def test_a_table_of_groups_with_fewer_people_than_rows_need(
    tmp_path: Path, columns: list[str], people: list[list[str]]
) -> None:
    """Two of four people have a cancer. No value says so, but the rows that all of them are in do."""
    cancers = ("lung", "skin", "gut", "eye")
    present = {value for own in people for cell in own for value in cell.split()}
    own = Sensitive(
        "diagnosis" if len(columns) > 1 else "diag_1",
        columns,
        groups=[("Cancer", None, "1/2"), ("Other", None, None)],
        group_of={value: "Cancer" if value in cancers else "Other" for value in present},
    )
    rows = [
        [((30 + place, "A"), dict(zip(columns, cell.split(), strict=True))) for place, cell in enumerate(cells)]
        for cells in people
    ]
    made = HandmadePeople(CLINIC_TYPES, rows, [1] * 4, [own], len(people[0]) > 1, [1] if len(people[0]) > 1 else [])
    folder = made.write(tmp_path / "release")
    assert verify(folder).verified
    change_rows(
        folder, "st_groups", lambda rows: [{**row, "group": "Other" if k else "Cancer"} for k, row in enumerate(rows)]
    )

    def restated(manifest: dict[str, Any]) -> None:
        for group, count in zip(manifest["groups"], (1, 3), strict=True):
            group.update(count=count, worst={"count": count, "size": 4})

    edit_manifest(folder, restated)
    restate(folder)
    assert problems(folder) == ["too few people of Cancer in bucket 1"]
    verdict = verify(folder)
    assert failed(verdict) == {"values"}
    assert "bucket 1 has 1 of 'Cancer', not 2 to" in verdict["values"].summary


def test_files_that_are_missing_swapped_or_too_many(tmp_path: Path) -> None:
    whole = clinic().write(tmp_path / "release")
    for name in ("st.parquet", "st2.parquet", "st_groups.parquet", "qit.parquet"):
        folder = Path(shutil.copytree(whole, tmp_path / f"without {name}"))
        (folder / name).unlink()
        verdict = verify(folder)
        assert "files" in failed(verdict)
        assert not verdict["limits"].passed or name == "qit.parquet"
    swapped = Path(shutil.copytree(whole, tmp_path / "swapped"))
    (swapped / "st.parquet").rename(swapped / "x")
    (swapped / "st2.parquet").rename(swapped / "st.parquet")
    (swapped / "x").rename(swapped / "st2.parquet")
    assert {"hashes", "schema"} <= failed(verify(swapped))
    restate(swapped)
    assert "schema" in failed(verify(swapped))
    more = Path(shutil.copytree(whole, tmp_path / "more"))
    shutil.copy(more / "st2.parquet", more / "st3.parquet")
    assert any("'st3.parquet'" in note for note in verify(more).notes)
    less = Path(shutil.copytree(whole, tmp_path / "less"))
    edit_manifest(less, lambda manifest: manifest.update(others=[]))
    assert any("'st2.parquet'" in note for note in verify(less).notes)


def persons(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: manifest["persons"].update(changes)


def strata_of(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: change(manifest["strata"]["strata"])


def swap_sets(manifest: dict[str, Any]) -> None:
    """The first column's table is said to be the second's."""
    tables, other = manifest["tables"], manifest["others"][0]
    tables["st"]["file"], other["table"]["file"] = other["table"]["file"], tables["st"]["file"]


STATEMENTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "people": lambda m: m.update(people=m["people"] + 1),
    "people as rows": lambda m: m.update(people=m["rows"]),
    "mse by rows": lambda m: m.update(mse=m["loss"] / (m["rows"] - 1)),
    "no persons": lambda m: m.update(persons=None),
    "another name of people's numbers": persons(number="person_2"),
    "another name of rows": persons(rows="Rows"),
    "fewer rows than the most": persons(most_rows=1),
    "rows left out without a most": persons(dropped=5),
    "rows left out, and nobody has the most": persons(most_rows=3, dropped=5),
    "no strata": lambda m: m.update(strata=None),
    "other rows each": strata_of(lambda strata: strata[1].update(rows_each=3)),
    "rows each of one": strata_of(lambda strata: [stratum.update(rows_each=1) for stratum in strata]),
    "rows of a stratum": strata_of(lambda strata: strata[1].update(rows=strata[1]["rows"] // 2)),
    "a cut by 2 rows": lambda m: m["strata"]["tree"][0].update(at_most="2"),
    "a cut by 01 rows": lambda m: m["strata"]["tree"][0].update(at_most="01"),
    "a cut by text": lambda m: m["strata"]["tree"][0].update(at_most="one"),
    "fake values": lambda m: m["adversary"].update(fake_values=1),
    "values that do not apply": lambda m: m["others"][0]["values"][0].update(applies=False),
    "bands": lambda m: m["others"][0].update(bands=[]),
    "no table of groups": lambda m: m.update(group_table=None),
    "a table of groups too many": lambda m: m["others"][0].update(group_table=m["group_table"]),
    "a column of the source twice": lambda m: m["columns"]["sensitive"].update(of=["diag_1", "diag_1"]),
    "a quasi-identifier as a source": lambda m: m["others"][0]["column"].update(of=["Age"]),
    "a column of the source in two sets": lambda m: m["columns"]["sensitive"].update(of=["diag_1", "insulin"]),
    "a set of one column with another name": lambda m: m["others"][0]["column"].update(of=["Insulin"]),
    "two columns of one name": lambda m: m["others"][0]["column"].update(name="diagnosis"),
    "a sensitive column called bucket": lambda m: m["others"][0]["column"].update(name="Bucket"),
    "one column of two": lambda m: m["columns"]["sensitive"].update(of=["diag_1"]),
    "two columns of one": lambda m: m["others"][0]["column"].update(of=["insulin", "insulin"]),
    "files of other numbers": lambda m: m["others"][0]["table"].update(file="st3.parquet"),
    "files changed": swap_sets,
    "files called qit": lambda m: m["others"][0]["table"].update(file="qit.parquet"),
    "a column twice": lambda m: m["others"].append(m["others"][0]),
    "a value of more people": lambda m: m["others"][0]["values"][0].update(count=m["people"] + 1),
    "a worst case by rows": lambda m: m["values"][0]["worst"].update(size=8),
    "people of a group": lambda m: m["groups"][0].update(count=m["groups"][0]["count"] + 1),
    "a group of another limit": lambda m: m["groups"][1].update(limit="1/4"),
    "no name of nulls that are there": lambda m: m["others"][0].update(null_value="none"),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_on_people_is_checked(name: str, tmp_path: Path) -> None:
    folder = clinic().write(tmp_path / "release")
    edit_manifest(folder, STATEMENTS[name])
    assert not verify(folder).verified


@pytest.mark.parametrize("most", [4, 6])
def test_a_cut_by_a_number_of_rows_that_nobody_has(most: int, tmp_path: Path) -> None:
    """It tells people apart as it should, and is not the number that a release says."""
    made = clinic(tree=[(None, 1, 1, 2), 1, 2])
    people = [[*person] * (most // len(person)) if len(person) > 1 else person for person in made.people]
    folder = replace(made, people=people).write(tmp_path / "release")
    edit_manifest(folder, lambda m: m["strata"]["tree"][0].update(at_most=str(most - 1)))
    verdict = verify(folder)
    assert failed(verdict) == {"manifest"}
    assert "asks for a number of rows that nobody has" in verdict["manifest"].summary


def test_numbers_of_people_who_have_one_row_each(tmp_path: Path) -> None:
    made = clinic(people=[[row] for row in SINGLE], buckets=[1, 1, 1, 2, 2, 2], tree=[], sets=[FIRST])
    folder = replace(made, most_rows=1, dropped=2).write(tmp_path / "release")
    assert verify(folder).verified
    edit_manifest(folder, lambda m: m["persons"].update(dropped=0))
    verdict = verify(folder)
    assert failed(verdict) == {"manifest"}
    assert "everybody has one row" in verdict["manifest"].summary


def test_a_cut_by_rows_where_people_have_no_numbers(tmp_path: Path) -> None:
    folder = MADE["one row each, in strata"].write(tmp_path / "release")
    edit_manifest(folder, lambda m: m["strata"]["tree"][0].update(column=None, at_most="1"))
    assert "manifest" in failed(verify(folder))


def test_tables_of_people_in_parts_are_refused(tmp_path: Path) -> None:
    folder = singles().write(tmp_path / "release")

    def in_parts(manifest: dict[str, Any]) -> None:
        entry = manifest["tables"]["qit"]
        part = {"file": "part-00000.parquet", **{key: entry[key] for key in ("rows", "bytes", "sha256")}}
        entry.update(file="qit", parts=[part])

    (folder / "qit").mkdir()
    (folder / "qit.parquet").rename(folder / "qit" / "part-00000.parquet")
    edit_manifest(folder, in_parts)
    assert "there are parts" in verify(folder)["manifest"].summary


def test_a_column_that_should_not_be_there(tmp_path: Path) -> None:
    for table in ("qit", "st", "st2", "st_groups"):
        folder = clinic().write(tmp_path / table)
        rows = [(*row.values(), "Ann") for row in read_rows(folder, table)]
        types = {f.name: f.type for f in pyarrow.parquet.read_schema(folder / f"{table}.parquet")}
        write_rows(folder / f"{table}.parquet", {**types, "note": pa.string()}, rows, "bucket")
        restate(folder)
        assert "schema" in failed(verify(folder))


@st.composite
def releases(draw: st.DrawFn) -> HandmadePeople:
    """Small releases: up to three numbers of rows, a stratum or two for each, sets of one or two columns."""
    numbered = draw(st.booleans())
    ages, words = st.sampled_from([None, 20, 30, 40]), st.sampled_from(["a", "b", "é"])
    values = st.sampled_from("fgch")
    tree: list[Any] = []
    people: list[Person] = []
    buckets: list[int] = []
    rows_each = sorted(draw(st.sets(st.integers(1, 4), min_size=1, max_size=3))) if numbered else [1]
    for number, each in enumerate(rows_each, 1):
        for size in sorted(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))):
            bucket = max(buckets, default=0) + 1
            for _ in range(size):
                row = st.builds(visit, ages, words, values, values, values)
                people.append(draw(st.lists(row, min_size=each, max_size=each)))
                buckets.append(bucket)
        last = number == len(rows_each)
        tree += [number] if last else [(None, each, len(tree) + 1, len(tree) + 2), number]
    groups: dict[str, Any] = {}
    if draw(st.booleans()):
        groups = {
            "groups": [("G", None, None), ("H", "G", None)],
            "group_of": draw(st.sampled_from([{"f": "H", "g": "G"}, {"f": "G", "g": "G", "c": "H", "h": "H"}])),
        }
    two = draw(st.booleans())
    first = Sensitive("diagnosis" if two else "diag_1", ["diag_1", "diag_2"] if two else ["diag_1"], **groups)
    made = HandmadePeople(CLINIC_TYPES, people, buckets, [first, INSULIN], numbered, tree if numbered else [])
    present = {value for person in people for value in first.items(person)}
    kept = {name for value in present for name in first.holding(value)}
    first = replace(first, groups=[g for g in first.groups if g[0] in kept])
    first = replace(first, group_of={v: g for v, g in first.group_of.items() if v in present})
    return replace(made, sets=draw(st.permutations([first, INSULIN]))[: draw(st.integers(1, 2))])


@given(releases(), st.integers(1, 9))
@settings(max_examples=examples(80))
def test_whatever_is_written_by_the_rules_verifies(made: HandmadePeople, batch_rows: int) -> None:
    with TemporaryDirectory() as scratch:
        folder = made.write(Path(scratch) / "release")
        assert problems(folder) == []
        verdict = verify(folder, batch_rows=batch_rows)
        assert verdict.verified, verdict.findings
        assert verify(made.write(Path(scratch) / "csv", "csv")).verified


@given(releases(), st.data())
@settings(max_examples=examples(150))
def test_a_changed_cell_is_found_if_and_only_if_it_breaks_a_rule(made: HandmadePeople, data: st.DataObject) -> None:
    with TemporaryDirectory() as scratch:
        folder = made.write(Path(scratch) / "release")
        tables = sorted(path.stem for path in folder.glob("*.parquet"))
        table = data.draw(st.sampled_from(tables))
        rows = read_rows(folder, table)
        row = data.draw(st.integers(0, len(rows) - 1))
        name = data.draw(st.sampled_from([*rows[0]]))
        cells = sorted({other[name] for other in rows if other[name] is not None} or {0})
        near = [cells[-1] + 1, cells[0] - 1] if isinstance(cells[0], int) else []
        near = [cell for cell in near if name != "Age" or 0 <= cell < 256]
        cell = data.draw(st.sampled_from([*cells, *near]))
        if name == "bucket" and not _climbs(rows, row, cell):
            return  # which no file of a release can say
        sort = data.draw(st.booleans())

        def change(rows: Rows) -> Rows:
            rows[row][name] = cell
            return sorted(rows, key=lambda own: [order(v) for v in own.values()]) if sort and table != "qit" else rows

        change_rows(folder, table, change)
        found = problems(folder)
        verdict = verify(folder)
        assert verdict.verified == (not found), (found, verdict.findings)


def _climbs(rows: Rows, row: int, bucket: int) -> bool:
    buckets = [own["bucket"] for own in rows]
    buckets[row] = bucket
    return all(0 <= after - before <= 1 for before, after in pairwise(buckets))
