"""Tables of tuples: what is right verifies, each broken rule is found, and what somebody gets who knows one column."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.model.concern import Severity
from dalenius.model.known_column import KnownColumn, together_concerns
from dalenius.verify.judge import verify
from tests.effort import examples
from tests.handmade import edit_manifest
from tests.handmade_people import (
    CLINIC_TYPES,
    FIRST,
    INSULIN,
    HandmadePeople,
    Sensitive,
    change_rows,
    clinic,
    read_rows,
    visit,
)
from tests.verify.test_people import failed, releases

Rows = list[dict[str, Any]]

SECOND = Sensitive("diag_2", ["diag_2"])
KEPT = clinic(sets=[FIRST, INSULIN], together=[["diag_1", "insulin"]])
SINGLES = clinic(
    people=[[row] for person in KEPT.people for row in person],
    buckets=[1] * 9 + [2] * 9,
    sets=[FIRST, SECOND, INSULIN],
    tree=[],
    numbered=False,
    together=[["diag_1", "insulin"]],
)


def many(seed: int, people: int = 90) -> HandmadePeople:
    """People with one or two rows in buckets of three or more: tables of several row groups."""
    draw = random.Random(seed)  # noqa: S311
    kinds = ["flu", "gout", "hiv"]
    rows = [1] * (people // 2) + [2] * (people - people // 2)
    sizes = [3] * (people // 6) + [5] * 3
    buckets = [place for place, size in enumerate(sizes, 1) for _ in range(size)][: people // 2]
    buckets = [min(own, people // 6) for own in buckets]
    last = max(buckets)
    buckets += [last + 1 + (k // 3 if k < 42 else 14) for k in range(people - people // 2)]
    made = [
        [
            visit(30 + k % 7, "AB"[k % 2], draw.choice(kinds), "cold", draw.choice(["no", "no", "up", "down"]))
            for _ in range(each)
        ]
        for k, each in enumerate(rows)
    ]
    return HandmadePeople(
        CLINIC_TYPES, made, buckets, [FIRST, INSULIN], tree=[(None, 1, 1, 2), 1, 2], together=[["diag_1", "insulin"]]
    )


def limited(made: HandmadePeople) -> HandmadePeople:
    """The same with limits that its buckets just keep."""
    sizes, sets = Counter(made.buckets), []
    for own in made.sets:
        held = Counter(
            (value, bucket)
            for person, bucket in zip(made.people, made.buckets, strict=True)
            for value in own.items(person)
        )
        shares: dict[str, Fraction] = {}
        for (value, bucket), count in held.items():
            shares[value] = max(shares.get(value, Fraction(0)), Fraction(count, sizes[bucket]))
        sets.append(replace(own, limits={value: str(share) for value, share in shares.items()}))
    return replace(made, sets=sets)


MADE = {
    "one and two rows": KEPT,
    "one row each": SINGLES,
    "three columns": replace(SINGLES, together=[["diag_1", "diag_2", "insulin"]]),
    "two lists": replace(
        SINGLES,
        sets=[FIRST, SECOND, INSULIN, Sensitive("copy", ["copy"])],
        people=[[(row, {**cells, "copy": cells["insulin"]})] for ((row, cells),) in SINGLES.people],
        together=[["diag_1", "copy"], ["diag_2", "insulin"]],
    ),
    "nulls": replace(
        SINGLES,
        sets=[FIRST, replace(INSULIN, null_value="unknown")],
        people=[
            [(row, {**cells, "insulin": None if cells["insulin"] == "up" else "no"})]
            for ((row, cells),) in SINGLES.people
        ],
    ),
    "many": limited(many(1)),
    "two large buckets": limited(replace(many(2), buckets=[1] * 45 + [2] * 45)),
}


def known_by_loops(made: HandmadePeople, known: Sensitive, asked: Sensitive) -> KnownColumn:
    """What somebody gets, by plain loops over people."""
    people = above = pinned = 0
    largest = Fraction(0)
    for bucket in set(made.buckets):
        members = [p for p, own in zip(made.people, made.buckets, strict=True) if own == bucket]
        for value in {value for person in members for value in known.items(person)}:
            have = [person for person in members if value in known.items(person)]
            both = Counter(
                other
                for person in have
                for other in {
                    asked.published(cells[asked.name])
                    for _, cells in person
                    if known.published(cells[known.name]) == value
                }
            )
            limits = {other: Fraction(asked.limits.get(str(other), "1")) for other in both}
            shares = {other: Fraction(n, len(have)) for other, n in both.items() if limits[other] < 1}
            people += len(have)
            above += len(have) * any(share > limits[other] for other, share in shares.items())
            pinned += len(have) * (1 in shares.values())
            largest = max([largest, *shares.values()])
    return KnownColumn(known.name, asked.name, people, above, pinned, largest, made.numbered)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("name", MADE)
def test_what_is_right_verifies(name: str, kind: str, tmp_path: Path) -> None:
    made = MADE[name]
    folder = made.write(tmp_path / "release", kind)
    verdict = verify(folder, against=made.source(), person="id" if made.numbered else None)
    assert verdict.verified, verdict.findings
    assert "tuples have the values that their columns have" in verdict["values"].summary
    sets = {own.name: own for own in made.sets}
    wanted = [
        known_by_loops(made, sets[known], sets[asked])
        for names in made.together
        for known in names
        for asked in names
        if known != asked
    ]
    assert sorted(verdict.known_columns, key=str) == sorted(wanted, key=str)
    concerns = [one for one in verdict.concerns if one.code == "kept-together"]
    assert len(concerns) == len(made.together)
    assert {one.severity for one in concerns} == {Severity.LOOK}


def test_what_is_said_of_it(tmp_path: Path) -> None:
    made = limited(SINGLES)
    (concern,) = [one for one in verify(made.write(tmp_path)).concerns if one.code == "kept-together"]
    known = known_by_loops(made, FIRST, made.sets[2])
    assert 0 < known.pinned < known.above < 18
    assert f"is above the limit of a value of 'insulin' for {known.above} of 18 people, and gets it outright" in (
        concern.message
    )
    assert "leave out --keep-together" in concern.answer
    assert concern.columns == ("diag_1", "insulin")
    several = replace(known, several=True)
    assert f"for at least {known.above} of 18 people with a value" in several.sentence()
    nothing = replace(known, above=0, pinned=0, largest=Fraction(1, 2))
    assert "is above no limit of 'insulin': the largest probability of a value is 50 %" in nothing.sentence()
    assert together_concerns([["a", "b"]], [])[0].message == "'a' and 'b' are kept together"


def swap(rows: Rows) -> None:
    rows[0]["insulin"], rows[1]["insulin"] = rows[1]["insulin"], rows[0]["insulin"]


def another_value(rows: Rows) -> None:
    row = next(row for row in rows if row["insulin"] == "no")
    row["insulin"] = "up"


def split(rows: Rows) -> Rows:
    """Somebody's two rows as if they were two people's."""
    place = next(place for place, row in enumerate(rows) if row["rows"] == 2)
    return [*rows[:place], *[{**rows[place], "rows": 1}] * 2, *rows[place + 1 :]]


CHANGES: dict[str, tuple[HandmadePeople, Callable[[Rows], Any], set[str]]] = {
    "another value": (SINGLES, another_value, {"values", "order"}),
    "an unknown value": (SINGLES, lambda rows: rows[-1].update(insulin="zz"), {"values"}),
    "another bucket": (SINGLES, lambda rows: rows[8].update(bucket=2), {"values", "order"}),
    "a bucket that is not there": (SINGLES, lambda rows: rows[-1].update(bucket=3), {"values"}),
    "a line less": (SINGLES, lambda rows: rows[:-1], {"manifest", "values"}),
    "a line more": (SINGLES, lambda rows: [*rows, rows[-1]], {"manifest", "values"}),
    "another order": (SINGLES, lambda rows: rows[:9][::-1] + rows[9:], {"order"}),
    "more rows than a person has": (KEPT, lambda rows: rows[-1].update(rows=3), {"sizes", "values"}),
    "other rows": (KEPT, lambda rows: next(row for row in rows if row["rows"] == 2).update(rows=1), {"values"}),
    "somebody as two": (KEPT, split, {"values"}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_table_that_does_not_fit_is_found(name: str, tmp_path: Path) -> None:
    made, change, checks = CHANGES[name]
    folder = made.write(tmp_path / "release")
    change_rows(folder, "together", change)
    verdict = verify(folder)
    assert failed(verdict) <= checks
    assert failed(verdict) & (checks - {"order", "manifest"} or checks)
    assert verdict.known_columns == ()


def test_another_truth_is_found_by_the_table_alone(tmp_path: Path) -> None:
    """Tuples with the right values of each column, but not those of the people."""
    folder = SINGLES.write(tmp_path / "release")

    def exchange(rows: Rows) -> Rows:
        one, other = next(
            (one, other)
            for one in rows[:9]
            for other in rows[:9]
            if one["diag_1"] < other["diag_1"] and one["insulin"] != other["insulin"]
        )
        one["insulin"], other["insulin"] = other["insulin"], one["insulin"]
        return sorted(rows, key=lambda row: (row["bucket"], row["diag_1"], row["insulin"]))

    change_rows(folder, "together", exchange)
    assert verify(folder).verified
    verdict = verify(folder, against=SINGLES.source())
    assert failed(verdict) == {"source"}
    assert "the tuples of sensitive values in together.parquet are not those of the table" in verdict["source"].summary


def test_files_and_what_the_manifest_says(tmp_path: Path) -> None:
    def broken(name: str, change: Callable[[dict[str, Any]], Any], made: HandmadePeople = SINGLES) -> set[str]:
        folder = made.write(tmp_path / name)
        edit_manifest(folder, change)
        verdict = verify(folder)
        assert verdict.known_columns == ()
        return failed(verdict)

    def columns(*names: str) -> Callable[[dict[str, Any]], Any]:
        return lambda manifest: manifest["together"][0].update(columns=list(names))

    assert "manifest" in broken("unknown", columns("diag_1", "diag_3"))
    assert "manifest" in broken("order", columns("insulin", "diag_1"))
    assert "manifest" in broken("twice", columns("diag_1", "diag_1"))
    assert "schema" in broken("other", columns("diag_1", "diag_2"))
    twice = {**MADE["two lists"].manifest("parquet")["together"][1], "columns": ["diag_1", "diag_2"]}
    assert "manifest" in broken("both", lambda manifest: manifest["together"].__setitem__(1, twice), MADE["two lists"])
    sets = [replace(FIRST, name="both", columns=["diag_1", "diag_2"]), SECOND, INSULIN]
    several = replace(SINGLES, sets=[sets[0], INSULIN], together=[])
    of_set = SINGLES.manifest("parquet")["together"]
    of_set[0]["columns"] = ["both", "insulin"]
    assert "manifest" in broken("set", lambda manifest: manifest.update(together=of_set), several)

    folder = SINGLES.write(tmp_path / "gone")
    (folder / "together.parquet").unlink()
    verdict = verify(folder)
    assert failed(verdict) == {"files"}
    assert not verdict.verified
    assert "together.parquet is not there" in verdict["files"].summary
    folder = SINGLES.write(tmp_path / "damaged")
    content = bytearray((folder / "together.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "together.parquet").write_bytes(content)
    assert "hashes" in failed(verify(folder))
    folder = SINGLES.write(tmp_path / "st")
    (folder / "st.parquet").write_bytes(b"")
    assert not verify(folder).verified  # nothing to compare tuples with


def test_columns_apart_have_no_such_table(tmp_path: Path) -> None:
    folder = replace(SINGLES, together=[]).write(tmp_path / "apart")
    verdict = verify(folder)
    assert verdict.verified
    assert verdict.known_columns == ()
    assert not any(one.code == "kept-together" for one in verdict.concerns)
    left_over = SINGLES.write(tmp_path / "left over")
    edit_manifest(left_over, lambda manifest: manifest.update(together=[]))
    assert any("other file" in note or "together.parquet" in note for note in verify(left_over).notes)


def rules(made: HandmadePeople, folder: Path) -> bool:
    """Whether a table of tuples fits the people, by plain loops: rows of values, people with them, and order."""
    rows = read_rows(folder, "together")
    keys = [(row["bucket"], row["diag_1"], row["insulin"], row.get("rows", 1)) for row in rows]
    each = {bucket: len(person) for person, bucket in zip(made.people, made.buckets, strict=True)}
    if keys != sorted(keys) or any(bucket not in each or not 1 <= r <= each[bucket] for bucket, _, _, r in keys):
        return False
    for own in made.sets:
        st = read_rows(folder, "st" if own is made.sets[0] else "st2")
        held: dict[Any, list[int]] = {}
        for row in st:
            held.setdefault((row["bucket"], row[own.name]), []).append(row.get("rows", 1))
        tuples: dict[Any, list[int]] = {}
        kinds: dict[Any, dict[Any, list[int]]] = {}
        for row in rows:
            key = row["bucket"], row[own.name]
            tuples.setdefault(key, []).append(row.get("rows", 1))
            kinds.setdefault(key, {}).setdefault((row["diag_1"], row["insulin"]), []).append(row.get("rows", 1))
        if {key: sum(own) for key, own in held.items()} != {key: sum(own) for key, own in tuples.items()}:
            return False
        if any(len(tuples[key]) < len(held[key]) for key in held):
            return False
        for key, mine in kinds.items():
            most = sorted(held[key], reverse=True)
            for lines in mine.values():
                if len(lines) > len(most) or any(a > b for a, b in zip(sorted(lines)[::-1], most, strict=False)):
                    return False
    return True


@given(releases(), st.data())
@settings(max_examples=examples(40))
def test_verify_finds_what_does_not_fit(made: HandmadePeople, data: st.DataObject) -> None:
    sets = [Sensitive("diag_1", ["diag_1"]), Sensitive("insulin", ["insulin"])]
    made = replace(made, sets=sets, together=[["diag_1", "insulin"]])
    with TemporaryDirectory() as scratch:
        folder = made.write(Path(scratch) / "release")
        assert rules(made, folder)
        verdict = verify(folder)
        assert verdict.verified, verdict.findings

        def change(rows: Rows) -> Rows:
            for _ in range(data.draw(st.integers(1, 2))):
                one, other = (data.draw(st.integers(0, len(rows) - 1)) for _ in range(2))
                name = data.draw(st.sampled_from(list(rows[0])))
                rows[one][name], rows[other][name] = rows[other][name], rows[one][name]
            whole = data.draw(st.booleans())
            rows.sort(key=lambda row: tuple(row.values()) if whole else row["bucket"])
            return rows

        change_rows(folder, "together", change)
        verdict = verify(folder)
        assert failed(verdict) <= {"values", "order", "sizes"}
        assert verdict.verified == rules(made, folder), verdict.findings


def test_rows_that_were_left_out(tmp_path: Path) -> None:
    """Of somebody with three rows, two are kept: then no tuple is anybody's who has it not."""
    made = replace(KEPT, most_rows=2, dropped=1)
    folder = made.write(tmp_path / "release")
    source = made.source()
    longer = pa.concat_tables([source, source.slice(source.num_rows - 1)])
    assert verify(folder, against=longer, person="id").verified
    rows = longer.to_pylist()
    one, other = (row for row in rows if row["id"] == "p10")  # flu without insulin, and gout with it
    one["insulin"], other["insulin"] = other["insulin"], one["insulin"]
    verdict = verify(folder, against=pa.Table.from_pylist(rows, longer.schema), person="id")
    assert "the tuples of sensitive values in together.parquet are not those of the table: 0 rows are missing, 2" in (
        verdict["source"].summary
    )
