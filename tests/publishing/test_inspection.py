"""What a look at a table says before it is published: every kind of concern, no false alarms, and what strict does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dalenius
from dalenius.errors import ConcernsError
from dalenius.model.concern import Concern, Severity
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.roles import Roles, SensitiveSet
from dalenius.publishing.flow import inspect_table
from dalenius.publishing.options import PublishOptions, PublishRequest

ROWS = 3000
CODES = (
    "determining-column",
    "repeated-people",
    "few-people",
    "nearly-all-different",
    "codes-without-groups",
    "unique-people",
    "missing-codes",
)


def hospital(**columns: Any) -> pa.Table:
    """Chapters that have nothing to do with age or sex; a code that says the chapter; two visits of every patient."""
    rng = np.random.default_rng(7)
    chapter = rng.integers(0, 6, ROWS)
    made: dict[str, Any] = {
        "age": rng.integers(0, 9, ROWS),
        "sex": rng.choice(["f", "m"], ROWS),
        "code": [f"{one}{rng.integers(0, 30):02d}" for one in chapter],
        "chapter": [f"chapter {one}" for one in chapter],
        "visit_id": rng.permutation(ROWS),
        "patient_nbr": rng.permutation(np.arange(ROWS) // 2) + 10**6,
    }
    return pa.table(made | columns)


def concerns(
    table: pa.Table,
    quasi_identifiers: tuple[str, ...],
    identifiers: tuple[str, ...] = (),
    limits: Mapping[str, Any] | None = None,
    person: str | None = None,
    **options: Any,
) -> dict[str, list[Concern]]:
    """By code, after a look alone."""
    request = PublishRequest(
        table=table,
        roles=Roles("chapter", quasi_identifiers, identifiers, person),
        limits={"theta": 2, "base": "0.1"} | dict(limits or {}),
        options=PublishOptions(**options),
    )
    found = inspect_table(request)
    weights = [list(Severity).index(one.severity) for one in found]
    assert weights == sorted(weights, reverse=True)
    assert {one.code for one in found} <= set(CODES)
    assert all(one.answer.endswith(".") and not one.message.endswith(".") for one in found)
    return {code: [one for one in found if one.code == code] for code in {one.code for one in found}}


def plain() -> pa.Table:
    return hospital().drop_columns(["visit_id", "patient_nbr"])


def test_a_table_without_faults_gives_no_reason_to_look() -> None:
    assert concerns(plain(), ("age", "sex")) == {}


@pytest.mark.parametrize("strata", ["auto", "none", ["sex"]])
def test_a_column_that_determines_the_value(strata: Any) -> None:
    (found,) = concerns(plain(), ("age", "code", "sex"), strata=strata)["determining-column"]
    assert found.severity is Severity.STOP
    assert found.columns == ("code",)
    assert found.people == ROWS
    assert "guesses 100 % of the people right, and 1" in found.message
    assert "--quasi-identifiers" in found.answer


def test_several_such_columns_are_one_concern() -> None:
    table = plain()
    table = table.append_column("chapter_number", pa.array([int(text[-1]) for text in table["chapter"].to_pylist()]))
    (found,) = concerns(table, ("code", "sex", "chapter_number"))["determining-column"]
    assert set(found.columns) == {"code", "chapter_number"}
    assert found.message.startswith("2 quasi-identifiers determine 'chapter', each by itself")


def test_columns_that_determine_the_value_only_together() -> None:
    rng = np.random.default_rng(3)
    one, two = rng.integers(0, 6, (2, ROWS))
    table = plain().drop_columns(["chapter"])
    table = table.append_column("one", pa.array(one)).append_column("two", pa.array(two))
    table = table.append_column("chapter", pa.array((one + two) % 6))
    (found,) = concerns(table, ("one", "two"))["determining-column"]
    assert found.severity is Severity.STOP
    assert found.columns == ("one", "two")
    assert "together determine" in found.message


def test_a_column_that_nearly_determines_the_value() -> None:
    rng = np.random.default_rng(5)
    table = plain()
    chapters = np.asarray(table["chapter"].to_pylist())
    near = np.where(rng.random(ROWS) < 0.35, rng.permutation(chapters), chapters)
    (found,) = concerns(table.append_column("ward", pa.array(near)), ("age", "ward"))["determining-column"]
    assert found.severity is Severity.LOOK
    assert "nearly determines" in found.message


def test_a_sex_that_cannot_have_a_value_is_told_until_strata_answer_it() -> None:
    table = plain()
    sexes = np.asarray(table["sex"].to_pylist())
    chapters = np.where(sexes == "m", "heart", np.asarray(table["chapter"].to_pylist()))
    rng = np.random.default_rng(6)
    chapters = np.where((sexes == "f") & (rng.random(ROWS) < 0.1), "pregnancy", chapters)
    chapters = np.where(chapters == "heart", np.asarray(table["chapter"].to_pylist()), chapters)
    table = table.set_column(table.column_names.index("chapter"), "chapter", pa.array(chapters))
    (found,) = concerns(table, ("age", "sex"))["determining-column"]
    assert found.severity is Severity.LOOK
    assert (found.columns, found.values) == (("sex",), ("pregnancy",))
    assert found.people == (chapters == "pregnancy").sum()
    assert "--strata sex" in found.answer
    assert "determining-column" not in concerns(table, ("age", "sex"), strata=["sex"])


def test_a_ward_that_gives_a_rare_value_away() -> None:
    rng = np.random.default_rng(8)
    rare = rng.random(ROWS) < 0.05
    table = plain()
    chapters = np.where(rare, "hiv", np.asarray(table["chapter"].to_pylist()))
    ward = np.where(rare, "nine", rng.choice(["one", "two", "three"], ROWS))
    table = table.set_column(table.column_names.index("chapter"), "chapter", pa.array(chapters))
    found = concerns(table.append_column("ward", pa.array(ward)), ("age", "ward"))["determining-column"]
    given = next(one for one in found if "away" in one.message)
    assert given.severity is Severity.LOOK
    assert given.values == ("hiv",)
    assert given.people == rare.sum()


@pytest.mark.parametrize("identifiers", [("patient_nbr",), ("visit_id", "patient_nbr"), ()], ids=["one", "two", "none"])
def test_people_who_repeat(identifiers: tuple[str, ...]) -> None:
    """Also if nobody said that the column identifies people: it is in the table, and its name says so."""
    (found,) = concerns(hospital(), ("age", "sex"), identifiers)["repeated-people"]
    assert found.severity is (Severity.STOP if identifiers else Severity.LOOK)  # everybody has two rows
    assert found.columns == ("patient_nbr",)
    assert found.people == ROWS // 2
    assert "'patient_nbr' has 1,500 different values in 3,000 rows" in found.message
    assert "--person patient_nbr" in found.answer


def test_every_sensitive_column_is_looked_at() -> None:
    """The code says the chapter, the second of the sensitive columns."""
    rng = np.random.default_rng(8)
    amounts = 20_000 + rng.permutation(ROWS)
    icd = [f"V{number % 10}{number % 3}" if number < 30 else f"{number + 140}" for number in rng.integers(0, 120, ROWS)]
    table = hospital(drug=rng.choice(["none", "some"], ROWS), amount=amounts, icd=icd).drop_columns(["patient_nbr"])
    sets = tuple(SensitiveSet(name, (name,)) for name in ("drug", "chapter", "amount", "icd"))
    roles = Roles("drug", ("age", "sex", "code"), (), None, sets)
    limits = LimitPolicy.of(odds=4)
    request = PublishRequest(table=table, roles=roles, limits=limits, set_limits=(limits,) * 4)
    found = inspect_table(request)
    assert {(one.code, one.columns) for one in found if one.severity is not Severity.NOTE} == {
        ("determining-column", ("code",)),
        ("nearly-all-different", ("amount",)),
        ("codes-without-groups", ("icd",)),
    }
    (given,) = [one for one in found if one.code == "determining-column"]
    assert "'code' determines 'chapter'" in given.message
    answers = {one.code: one.answer for one in found}
    assert "--groups icd:icd9" in answers["codes-without-groups"]
    assert "into the table as a column of text" in answers["nearly-all-different"]  # bands are for a single column


def test_people_who_repeat_are_no_news_where_they_are_named() -> None:
    assert concerns(hospital(), ("age", "sex"), person="patient_nbr") == {}
    (found,) = concerns(hospital(), ("age", "sex"), person="visit_id")[
        "repeated-people"
    ]  # which says nothing of people
    assert found.columns == ("patient_nbr",)


def test_a_column_that_hardly_says_whose_rows_they_are() -> None:
    """Thirty wards are no people, and another column is likelier; of people, somebody may have very many rows."""
    wards = np.arange(ROWS) % 30
    (found,) = concerns(hospital(ward=wards), ("age", "sex"), person="ward")["few-people"]
    assert (found.severity, found.columns, found.people) == (Severity.LOOK, ("ward",), 30)
    assert "'ward' has 30 different values in 3,000 rows" in found.message
    assert found.answer == "Name the column that says whose rows they are: --person patient_nbr."
    (found,) = concerns(hospital(ward=wards).drop_columns(["patient_nbr"]), ("age", "sex"), person="ward")["few-people"]
    assert found.answer.endswith(": --person COLUMN.")
    assert "few-people" not in concerns(hospital(ward=np.arange(ROWS) % 31), ("age", "sex"), person="ward")


def test_visits_that_are_taken_for_people() -> None:
    """Visits are said to tell people apart, and a few of them have two rows. Another column has fewer entries."""
    visits = np.where(np.arange(ROWS) % 10 == 1, np.arange(ROWS) - 1, np.arange(ROWS))
    table = hospital(visit_id=visits, patient_nbr=np.arange(ROWS) // 4)
    for identifiers in ((), ("patient_nbr",)):
        (found,) = concerns(table, ("age", "sex"), identifiers, person="visit_id")["repeated-people"]
        assert (found.severity, found.columns, found.people) == (Severity.LOOK, ("patient_nbr",), 2700 - 750)
        assert "'patient_nbr' has 750 different values, and 'visit_id'" in found.message
        assert found.answer == "If so, say whose rows they are: --person patient_nbr."
    table = table.rename_columns(["age", "sex", "code", "chapter", "visit_id", "key"])
    assert "repeated-people" not in concerns(table, ("age", "sex"), person="visit_id")  # nothing says what a key is of
    assert concerns(table, ("age", "sex"), ("key",), person="visit_id")["repeated-people"][0].columns == ("key",)
    doctors = hospital(doctor=np.arange(ROWS) % 50, visit_id=visits).drop_columns(["patient_nbr"])
    assert concerns(doctors, ("age", "sex"), ("doctor",), person="visit_id") == {}


def test_rows_that_agree_in_an_identifier_and_all_quasi_identifiers() -> None:
    """A last name is shared by many, but not by many of one age and sex: these are the same people."""
    rng = np.random.default_rng(1)
    sizes = {"last_name": 300, "age": 90, "sex": 2}
    twice = {name: np.repeat(rng.integers(0, size, ROWS // 2), 2).astype(str) for name, size in sizes.items()}
    (found,) = concerns(hospital(**twice).drop_columns(["patient_nbr"]), ("age", "sex"), ("last_name",))[
        "repeated-people"
    ]
    rows = list(zip(*(twice[name] for name in sizes), strict=True))
    again = len(rows) - len(set(rows))
    assert again > 1400
    assert f"{again:,} of 3,000 rows agree with an earlier one in 'last_name'" in found.message
    assert found.severity is Severity.LOOK
    assert found.people == sum(1 for count in Counter(rows).values() if count > 1)
    once = {name: rng.integers(0, size, ROWS).astype(str) for name, size in sizes.items()}
    assert concerns(hospital(**once).drop_columns(["patient_nbr"]), ("age", "sex"), ("last_name",)) == {}


def test_identifiers_that_are_different_or_shared_say_nothing() -> None:
    rng = np.random.default_rng(1)
    table = hospital(last_name=rng.integers(0, 50, ROWS).astype(str), admission_type_id=rng.integers(0, 900, ROWS))
    table = table.drop_columns(["patient_nbr"])
    assert concerns(table, ("age", "sex"), ("visit_id", "last_name")) == {}


def test_identifiers_of_any_type_do_no_harm() -> None:
    table = hospital(person_id=[[1, 2]] * ROWS, other_id=pa.nulls(ROWS), a_uuid=[b"x"] * ROWS)
    found = concerns(table, ("age", "sex"), ("person_id", "other_id", "a_uuid"))
    assert found["repeated-people"][0].people is not None


def test_values_that_are_nearly_all_different() -> None:
    amounts = np.random.default_rng(2).permutation(ROWS) + 20_000
    (found,) = concerns(hospital(chapter=amounts), ("age", "sex"))["nearly-all-different"]
    assert found.severity is Severity.STOP
    assert found.people == ROWS
    (found,) = concerns(hospital(chapter=amounts // 12), ("age", "sex"))["nearly-all-different"]
    assert found.severity is Severity.LOOK
    assert "nearly-all-different" not in concerns(hospital(chapter=amounts // 100), ("age", "sex"))


def test_codes_without_limits_on_their_chapters() -> None:
    codes = [f"{letter}{10 * k + letter_place}" for letter_place, letter in enumerate("CEI") for k in range(1, 9)]
    table = hospital(chapter=np.random.default_rng(3).choice([*codes, "?"], ROWS))
    (found,) = concerns(table, ("age", "sex"))["codes-without-groups"]
    assert found.severity is Severity.LOOK
    assert "25 values that look like diagnosis codes" in found.message
    assert found.answer == "Let chapters and blocks of codes have limits too: --groups icd10 --ungrouped '?'."
    limits = {"grouping": {"named": "icd10", "ungrouped": ["?"]}}
    assert "codes-without-groups" not in concerns(table, ("age", "sex"), limits=limits)


def test_people_who_are_alone() -> None:
    street = np.arange(ROWS) // 2
    street[:100] = np.arange(100) + 10**6
    table = plain().append_column("street", pa.array(street))
    (found,) = concerns(table, ("street",))["unique-people"]
    assert found.severity is Severity.NOTE
    assert found.people == 100
    assert found.message.startswith("100 people (3.3 %) are alone")


def test_codes_for_what_is_missing() -> None:
    rng = np.random.default_rng(9)
    table = hospital(
        chapter=rng.choice(["a", "b", "c", "Unknown"], ROWS),
        sex=rng.choice(["f", "m", "?"], ROWS, p=[0.5, 0.49, 0.01]),
        age=np.where(rng.random(ROWS) < 0.01, 999, rng.integers(0, 99, ROWS)),
        hours=rng.integers(0, 100, ROWS),
        rooms=np.where(rng.random(ROWS) < 0.1, -1, rng.integers(0, 9, ROWS)),
    ).drop_columns(["visit_id", "patient_nbr"])
    (found,) = concerns(table, ("age", "sex", "hours", "rooms"))["missing-codes"]
    assert found.severity is Severity.NOTE
    assert found.columns == ("chapter", "age", "sex", "rooms")
    assert found.values == ("Unknown",)
    assert "'chapter' ('Unknown'), 'age' ('999'), 'sex' ('?') and 1 more" in found.message
    assert "--missing 'Unknown'" in found.answer
    assert "In 'age', 'sex' and 'rooms', turn them into nulls first." in found.answer


@given(st.integers(0, 2**32), st.sampled_from([30, 300, 3000]), st.sampled_from([2, 30, 10**6]))
def test_chance_alone_is_never_a_reason_to_look(seed: int, rows: int, different: int) -> None:
    rng = np.random.default_rng(seed)
    columns = {name: pa.array(rng.integers(0, different, rows)) for name in ("a", "b")}
    table = pa.table(columns | {"row": rng.permutation(rows), "chapter": rng.choice(["x", "y", "z"], rows)})
    assert set(concerns(table, ("a", "b", "row"))) <= {"unique-people", "missing-codes"}


def test_a_release_is_the_same_after_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sample is drawn for changes neither how the table is cut nor where records go."""
    given = {"limits": {"theta": 2, "base": "0.1"}, "sensitive": "chapter", "quasi_identifiers": ["age", "sex"]}
    for strata in ("auto", "none", 3, ["sex"]):
        made = []
        for rows in (50_000, 10):
            monkeypatch.setattr("dalenius.publishing.stratify.INSPECTED_ROWS", rows)
            made.append(dalenius.publish(hospital(), strata=strata, seed=4, **given))  # type: ignore[arg-type]
        assert made[0].qit.equals(made[1].qit)
        assert made[0].st.equals(made[1].st)


def publish_careless(table: Any, out: Path, **options: Any) -> dalenius.Release:
    return dalenius.publish(
        table,
        {"theta": 2, "base": "0.1"},
        sensitive="chapter",
        quasi_identifiers=["age", "code"],
        identifiers=["patient_nbr"],
        out=out,
        **options,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Told:
    """A progress that remembers what it was told, and between which stages."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        self.log.append(name)

    def advance(self, number: int) -> None:
        pass

    def tell(self, sentence: str) -> None:
        self.log.append(sentence)


def test_concerns_are_told_before_anything_is_solved_and_stay_with_the_release(tmp_path: Path) -> None:
    told = Told()
    release = publish_careless(hospital(), tmp_path / "release", progress=told)
    first = told.log.index("Solving")
    assert told.log[:2] == ["Counting", "Looking"]
    assert [text[:5] for text in told.log[2:first]] == ["STOP:", "STOP:"]
    assert [one.code for one in release.concerns if one.code in CODES][:2] == ["determining-column", "repeated-people"]
    assert "patient_nbr" not in release.manifest.to_json()


def test_strict_writes_nothing_and_leaves_the_earlier_release(tmp_path: Path) -> None:
    out = tmp_path / "release"
    with pytest.raises(ConcernsError, match=r"errors of 2 concerns about the table\nSTOP: 'code' determines") as raised:
        publish_careless(hospital(), out, strict=True)
    assert raised.value.exit_code == 2
    assert "Leave it out of the quasi-identifiers" in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    publish_careless(hospital(), out)
    before = contents(out)
    with pytest.raises(ConcernsError):
        publish_careless(hospital(), out, strict=True, force=True)
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_strict_publishes_what_has_notes_alone(tmp_path: Path) -> None:
    release = dalenius.publish(
        plain(),
        {"theta": 2, "base": "0.1"},
        sensitive="chapter",
        quasi_identifiers=["age", "sex"],
        out=tmp_path / "release",
        strict=True,
    )
    assert release.manifest.rows == ROWS


@pytest.mark.parametrize("kind", ["csv", "parquet", "wide", "little memory"])
def test_wherever_the_table_comes_from(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text files, records too wide to be kept as codes, and tables too large to be kept at all."""
    table, columns = hospital(), ["age", "code"]
    if kind == "wide":
        names = [f"wide {number}" for number in range(6)]
        rng = np.random.default_rng(1)
        for name in names:
            table = table.append_column(name, pa.array(rng.integers(-(2**62), 2**62, ROWS)))
        columns = [*columns, *names]
    if kind == "little memory":
        monkeypatch.setattr("dalenius.place.budget.Budget.copy_fits", lambda *_: False)
    path = tmp_path / ("table.csv" if kind == "csv" else "table.parquet")
    if kind == "csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    found = dalenius.publish(
        path, {"theta": 2, "base": "0.1"}, sensitive="chapter", quasi_identifiers=columns, strata=None
    ).concerns
    codes = [one.code for one in found if one.code in CODES]
    assert codes[:2] == ["determining-column", "repeated-people"]
    (alone,) = (one for one in found if one.code == "unique-people")
    assert alone.people is not None
