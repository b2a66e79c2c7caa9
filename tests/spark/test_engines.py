"""What publishing promises, whichever engine does the work: one suite for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.errors import (
    ChangedInputError,
    ConcernsError,
    InputError,
    NoSolutionError,
    NoSuchColumnError,
    NullsError,
    PolicyError,
    UsageError,
)
from dalenius.policy.roles import Roles
from dalenius.publishing.flow import inspect_table
from dalenius.publishing.options import PublishOptions, PublishRequest
from tests.effort import cases
from tests.publishing.test_faults import AtStage, interrupt
from tests.publishing.test_publishing import check_privacy
from tests.spark.tables import COLUMNS, LIMITS, TYPED, cells, check_release, publish, town, written

Publish = Callable[..., dalenius.Release]


@pytest.fixture(params=["duckdb", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def test_every_row_is_published_once(engine: str, tmp_path: Path) -> None:
    table = town()
    source = written(table, tmp_path / "table")
    release = publish(source, engine=engine, out=tmp_path / "release")
    assert release.manifest.rows == len(table)
    assert release.qit.column_names == [*COLUMNS, "bucket"]
    assert Counter(release.st["Disease"].to_pylist()) == Counter(table["Disease"].to_pylist())
    check_privacy(release)
    check_release(release, table)
    check_release(dalenius.load(tmp_path / "release"), table, against=source)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["release", "table"]


def test_a_value_that_a_third_of_the_people_have(engine: str, tmp_path: Path) -> None:
    table = town(2000, flu=0.3)
    release = publish(written(table, tmp_path / "table", files=5), engine=engine)
    check_privacy(release)
    check_release(release, table)


WIDE = [name for name in TYPED.column_names if name != "s"]


@pytest.mark.parametrize(
    "columns",
    cases(WIDE, ["byte", "boolean", "date", "string"], ["float", "small decimal"], ["local time"], usually=2),
    ids=lambda columns: "all, too wide for 64 bits" if columns == WIDE else ", ".join(columns),
)
def test_types_and_values_come_out_as_they_went_in(engine: str, columns: list[str], tmp_path: Path) -> None:
    source = written(TYPED, tmp_path / "table")
    release = dalenius.publish(source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=columns, engine=engine)
    for name in columns:
        assert release.qit.schema.field(name).type == TYPED.schema.field(name).type
    check_release(release, TYPED, against=source)
    check_release(release, TYPED)


ODD = ["bucket", "Bucket_2", 'quo"te', "select", "a b", "ünï", "semi;colon", "a.b", "`tick`", "%s", "{x}", "--", "'"]


def test_odd_names(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    table = pa.table({name: pa.array(rng.integers(0, 3, 30)) for name in ODD} | {"it's `a`.b": ["x", "y", "z"] * 10})
    source = written(table, tmp_path / "odd folder, [1] of {2}")
    release = dalenius.publish(
        source,
        {"uniform": "1/2"},
        sensitive="it's `a`.b",
        quasi_identifiers=ODD,
        engine=engine,
        out=tmp_path / "rélease of 100%",
        strata=["a.b"],
    )
    assert release.manifest.columns.bucket == "bucket_3"
    assert release.qit.column_names == [*ODD, "bucket_3"]
    check_release(release, table, against=source)


def test_names_that_differ_in_case_alone_are_refused(engine: str, tmp_path: Path) -> None:
    source = written(pa.table({"q": [1, 2], "Q": [3, 4], "s": ["a", "b"]}), tmp_path / "table", files=1)
    with pytest.raises(InputError, match="have the same name"):
        dalenius.publish(source, {"uniform": 1}, sensitive="s", quasi_identifiers=["q"], engine=engine)


def test_nulls_among_texts(engine: str, tmp_path: Path) -> None:
    table = pa.table({"q": [1, 2, 3, 4], "s": ["a", None, "unknown", "a"]})
    source = written(table, tmp_path / "table", files=2)
    asked: dict[str, Any] = {"limits": {"uniform": "1/2"}, "sensitive": "s", "quasi_identifiers": ["q"]}
    with pytest.raises(NullsError, match="1 nulls in 4 rows"):
        publish(source, **asked, engine=engine)
    release = publish(source, **asked, engine=engine, null_value="unknown")
    assert Counter(release.st["s"].to_pylist()) == {"a": 2, "unknown": 2}
    check_release(release, table)


@pytest.mark.parametrize(("name", "expected"), [("missing", {1: 2, 2: 1, None: 1}), ("2", {1: 2, 2: 2})])
def test_nulls_among_numbers(engine: str, name: str, expected: dict[int | None, int], tmp_path: Path) -> None:
    table = pa.table({"q": [1, 2, 3, 4], "s": [1, None, 2, 1]})
    source = written(table, tmp_path / "table", files=2)
    release = dalenius.publish(
        source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"], engine=engine, null_value=name
    )
    assert Counter(release.st["s"].to_pylist()) == expected
    assert {value.value for value in release.manifest.values} == {"1", "2", name}
    check_release(release, table)


@pytest.mark.parametrize("rows", [1, 5])
def test_one_value(engine: str, rows: int, tmp_path: Path) -> None:
    table = pa.table({"q": list(range(rows)), "s": ["a"] * rows})
    source = written(table, tmp_path / "table")  # of one row in three files, two are empty
    asked: dict[str, Any] = {"sensitive": "s", "quasi_identifiers": ["q"], "engine": engine, "min_size": 1}
    with pytest.raises(PolicyError, match="published outright"):
        dalenius.publish(source, {"uniform": 1}, **asked)
    release = dalenius.publish(source, {"uniform": 1}, **asked, publish_in_the_clear=True)
    assert [(group.size, group.buckets) for group in release.manifest.setting] == [(1, rows)]
    check_release(release, table)


def test_as_many_values_as_records(engine: str, tmp_path: Path) -> None:
    table = pa.table({"q": list(range(60)), "s": [f"v{k}" for k in range(60)]})
    source = written(table, tmp_path / "table")
    release = dalenius.publish(source, {"uniform": "1/3"}, sensitive="s", quasi_identifiers=["q"], engine=engine)
    check_privacy(release)
    check_release(release, table)


@pytest.mark.parametrize(("known", "fakes"), cases((2, 2), (1, 0), (0, 1), usually=1))
def test_known_records_and_fakes(engine: str, known: int, fakes: int, tmp_path: Path) -> None:
    table = town()
    source = written(table, tmp_path / "table")
    release = publish(source, engine=engine, known_records=known, fake_values=fakes)
    assert (release.manifest.adversary.known_records, release.manifest.adversary.fake_values) == (known, fakes)
    check_release(release, table)
    sizes = Counter(release.qit["bucket"].to_pylist())
    held = Counter(zip(release.st["bucket"].to_pylist(), release.st["Disease"].to_pylist(), strict=True))
    for (bucket, value), count in held.items():
        assert count <= Fraction(LIMITS[value]) * (sizes[bucket] - known)
    truth, shown = Counter(table["Disease"].to_pylist()), Counter(release.st["Disease"].to_pylist())
    assert truth <= shown
    assert sum((shown - truth).values()) == fakes * release.manifest.buckets


def test_fakes_that_are_ruled_out_are_exchanged(engine: str, tmp_path: Path) -> None:
    table = town(1000)
    release = publish(written(table, tmp_path / "table"), engine=engine, fake_values=1, avoid_ruled_out=True)
    check_release(release, table)


@pytest.mark.parametrize("strata", cases("auto", ["Gender", "Age"], 3, ["Gender"], usually=2), ids=str)
def test_strata(engine: str, strata: Any, tmp_path: Path) -> None:
    table = town(6000)
    release = publish(written(table, tmp_path / "table"), engine=engine, strata=strata)
    made = release.manifest.strata
    assert made is not None
    assert 1 < len(made.strata) <= (3 if strata == 3 else 240)
    check_privacy(release)
    check_release(release, table)
    if strata == ["Gender"]:
        held = set(zip(release.qit["bucket"].to_pylist(), release.qit["Gender"].to_pylist(), strict=True))
        assert len(held) == release.manifest.buckets  # no bucket has two


def test_strata_with_fakes_and_known_records(engine: str, tmp_path: Path) -> None:
    table = town(2000)
    release = publish(
        written(table, tmp_path / "table"), engine=engine, strata=["Gender"], fake_values=1, known_records=1
    )
    assert release.manifest.strata is not None
    check_release(release, table)


REFUSED: dict[str, tuple[type[dalenius.DaleniusError], str, dict[str, Any]]] = {
    "a column that is not there": (NoSuchColumnError, "no column 'age'", {"quasi_identifiers": ["age"]}),
    "a sensitive column that is not there": (NoSuchColumnError, "no column 'Disese'", {"sensitive": "Disese"}),
    "limits that nothing meets": (NoSolutionError, "no release exists", {"limits": {"uniform": "0.1"}}),
    "two roles": (UsageError, "more than one role", {"quasi_identifiers": ["Age", "Disease"]}),
    "a list": (InputError, "'list' has the type", {"quasi_identifiers": ["list"]}),
    "too many combinations": (UsageError, "cut by quasi-identifiers", {"strata": ["Disease"]}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(engine: str, what: str, tmp_path: Path) -> None:
    kind, message, changes = REFUSED[what]
    table = town(60).append_column("list", pa.array([[1]] * 60))
    source = written(table, tmp_path / "table")
    with pytest.raises(kind, match=message):
        publish(source, engine=engine, out=tmp_path / "deep" / "release", **changes)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


def test_no_rows_and_no_table(engine: str, tmp_path: Path) -> None:
    source = written(town(10).slice(0, 0), tmp_path / "table", files=2)
    with pytest.raises(InputError, match="the table is empty"):
        publish(source, engine=engine, out=tmp_path / "release")
    with pytest.raises(InputError) as error:
        publish(tmp_path / "nowhere", engine=engine, out=tmp_path / "release")
    assert str(tmp_path) not in str(error.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


def test_a_release_is_replaced_if_asked_for_and_nothing_else_is(engine: str, tmp_path: Path) -> None:
    out, first, second = tmp_path / "release", town(100), town(120, seed=2)
    sources = [written(table, tmp_path / f"table {number}") for number, table in enumerate((first, second))]
    publish(sources[0], engine=engine, out=out)
    with pytest.raises(UsageError, match="there already"):
        publish(sources[1], engine=engine, out=out)
    check_release(dalenius.load(out), first)
    publish(sources[1], engine=engine, out=out, force=True)
    check_release(dalenius.load(out), second)
    names = {name.split("/")[0] for name in _files(out)}
    assert names == {"manifest.json", *(table.file for _, table in dalenius.load(out).manifest.tables)}
    (out / "thesis.txt").write_text("draft", encoding="utf-8")
    with pytest.raises(UsageError, match="not a release"):
        publish(sources[0], engine=engine, out=out, force=True)
    assert (out / "thesis.txt").read_text(encoding="utf-8") == "draft"


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_nothing_but_the_release_is_written(engine: str, tmp_path: Path) -> None:
    """No checksums or markers beside the tables, and no name of a column that is not published."""
    table = town(200).append_column("Name", pa.array([f"Patient {k}" for k in range(200)]))
    publish(written(table, tmp_path / "table"), engine=engine, identifiers=["Name"], out=tmp_path / "release")
    made = dalenius.load(tmp_path / "release").manifest.tables
    parts = [f"{table.file}/{part.file}" for _, table in made if table.parts for part in table.parts]
    assert _files(tmp_path / "release") == sorted(["manifest.json", *(parts or [table.file for _, table in made])])
    for name in _files(tmp_path / "release"):
        content = (tmp_path / "release" / name).read_bytes()
        for hidden in (b"Name", b"Patient", str(tmp_path).encode()):
            assert hidden not in content


@pytest.mark.parametrize("stage", cases("Counting", "Writing", "Verifying", "Solving", "Placing", usually=3))
def test_an_interrupt_leaves_what_was_there(engine: str, stage: str, tmp_path: Path) -> None:
    out, table = tmp_path / "release", town(200)
    source = written(table, tmp_path / "table", files=2)
    with pytest.raises(KeyboardInterrupt):
        publish(source, engine=engine, out=out, progress=AtStage(stage, interrupt))
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


def test_an_interrupt_leaves_the_release_of_before(engine: str, tmp_path: Path) -> None:
    out, table = tmp_path / "release", town(200)
    publish(written(table, tmp_path / "table", files=2), engine=engine, out=out)
    before = _files(out)
    for stage in ("Writing", "Verifying"):
        other = written(town(100), tmp_path / stage, files=1)
        with pytest.raises(KeyboardInterrupt):
            publish(other, engine=engine, out=out, force=True, progress=AtStage(stage, interrupt))
        assert _files(out) == before
    check_release(dalenius.load(out), table)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file less": lambda folder: (folder / "000.parquet").unlink(),
    "other rows": lambda folder: _replace(folder, town(100, seed=4)),
    "as many rows": lambda folder: _replace(folder, town(200, seed=4)),
}


def _replace(folder: Path, table: pa.Table) -> None:
    for file in folder.iterdir():
        file.unlink()
    for file in written(table, folder / "new").iterdir():
        file.rename(folder / file.name)
    (folder / "new").rmdir()


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_changes_between_its_readings(engine: str, change: str, tmp_path: Path) -> None:
    source = written(town(200), tmp_path / "table")
    progress = AtStage("Placing", lambda: CHANGES[change](source))
    with pytest.raises(InputError) as error:
        publish(source, engine=engine, out=tmp_path / "release", progress=progress)
    if change != "a file less":
        assert isinstance(error.value, ChangedInputError)
    assert str(tmp_path) not in str(error.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table"]


def test_a_file_that_comes_later_is_an_error_or_not_part_of_the_table(engine: str, tmp_path: Path) -> None:
    """Spark lists the files once, when it opens the table; DuckDB's are compared at the end."""
    table, out = town(200), tmp_path / "release"
    source = written(table, tmp_path / "table")
    more = AtStage("Placing", lambda: pyarrow.parquet.write_table(town(10, seed=3), source / "900.parquet"))
    if engine == "spark":
        check_release(publish(source, engine=engine, out=out, progress=more), table)
    else:
        with pytest.raises(ChangedInputError):
            publish(source, engine=engine, out=out, progress=more)
        assert not out.exists()


def test_rows_are_in_random_order_and_not_in_that_of_the_table(engine: str, tmp_path: Path) -> None:
    """Without a seed no two releases are alike, and with one they are."""
    source = written(town(400), tmp_path / "table")
    runs = [publish(source, engine=engine, seed=seed).qit for seed in (None, None, 1, 1, 2)]
    assert not runs[0].equals(runs[1])
    assert runs[2].equals(runs[3])
    assert not runs[3].equals(runs[4])
    assert cells(runs[0], COLUMNS) == cells(runs[4], COLUMNS)


def test_a_look_at_the_table_says_the_same(engine: str, tmp_path: Path) -> None:
    """A column that determines the disease, patients who are there more than once, and people who are alone."""
    table, rng = town(3000), np.random.default_rng(2)
    codes = [f"{text}{rng.integers(0, 5)}" for text in table["Disease"].to_pylist()]
    table = table.append_column("code", pa.array(codes))
    table = table.append_column("patient_nbr", pa.array(rng.permutation(np.arange(len(table)) // 3).astype(str)))
    table = table.append_column("visit_id", pa.array([[number] for number in range(len(table))]))
    columns = ("Age", "Gender", "code")
    request = PublishRequest(
        table=written(table, tmp_path / "table"),
        roles=Roles("Disease", columns),
        limits=LIMITS,
        options=PublishOptions(engine=engine),
    )
    found = {one.code: one for one in reversed(inspect_table(request))}
    assert found["determining-column"].severity == "stop"
    assert found["determining-column"].columns == ("code",)
    assert "has 1,000 different values in 3,000 rows" in found["repeated-people"].message
    assert found["repeated-people"].people == 1000
    people = Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
    assert found["unique-people"].people == sum(number == 1 for number in people.values())


def test_people_who_are_alone_in_a_table_larger_than_the_sample(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dalenius.publishing.stratify.INSPECTED_ROWS", 200)
    table = town(1500)
    release = publish(written(table, tmp_path / "table"), engine=engine)
    alone = Counter(Counter(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True)).values())[1]
    (found,) = (one for one in release.concerns if one.code == "unique-people")
    assert found.people == alone


def test_strict_is_an_error_before_anything_is_written(engine: str, tmp_path: Path) -> None:
    table = town(3000)
    table = table.append_column("code", table["Disease"])
    source = written(table, tmp_path / "table")
    with pytest.raises(ConcernsError, match="'code' determines 'Disease'"):
        publish(source, engine=engine, quasi_identifiers=["Age", "code"], out=tmp_path / "release", strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
