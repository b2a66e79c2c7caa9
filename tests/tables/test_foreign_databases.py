"""DuckDB files made by somebody else: nothing that they define runs in place of ours, and no other file is reached."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest

import dalenius
from dalenius.dp_risk.group_tables import open_groups
from dalenius.errors import InputError
from dalenius.query.count import Counter
from dalenius.query.true_count import true_count
from dalenius.query.workload import evaluate
from dalenius.release.folder import open_release
from dalenius.tables.compare import SourceTable
from dalenius.tables.describe import describe, tables_in
from dalenius.tables.open_table import open_table
from dalenius.tables.sources import open_source

SECRET = "hunter2"  # noqa: S105
ROWS = 100
REPLACED = ("upper", "count", "sum", "approx_count_distinct", "signbit", "hash", "any_value", "least")


def make(path: Path, *statements: str) -> Path:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def reading(folder: Path) -> str:
    """SQL for the text of another file."""
    (folder / "secret.txt").write_text(SECRET)
    return f"(SELECT content FROM read_text('{folder / 'secret.txt'}'))"  # noqa: S608


def sly_file(folder: Path) -> Path:
    """People with a computed column, in a file that gives built-in functions and our own names other meanings."""
    return make(
        folder / "sly.duckdb",
        "CREATE TABLE people (Age INT, City VARCHAR, Disease VARCHAR, Loud VARCHAR AS (upper(City)))",
        f"INSERT INTO people SELECT i % 4, 'c' || (i % 3), 'v' || (i % 5) FROM range({ROWS}) r(i)",  # noqa: S608
        *(f"CREATE MACRO {name}(x) AS {reading(folder)}" for name in REPLACED),
        *(f"CREATE VIEW {name} AS SELECT {reading(folder)} AS Disease" for name in ("source", "truth", "release")),
        *(f"CREATE SCHEMA {name}" for name in ("file", "memory")),
        "CREATE TYPE file.date AS ENUM ('a')",
    )


def honest_people() -> pandas.DataFrame:
    places = range(ROWS)
    return pandas.DataFrame(
        {
            "Age": pandas.Series([place % 4 for place in places], dtype="int32"),
            "City": [f"c{place % 3}" for place in places],
            "Disease": [f"v{place % 5}" for place in places],
            "Loud": [f"C{place % 3}" for place in places],
        }
    )


def test_functions_of_the_file_do_not_stand_in_for_built_in_ones(tmp_path: Path) -> None:
    path = sly_file(tmp_path)
    facts = describe(path, "people")
    assert facts == describe(honest_people())
    with open_table(path, "people") as table, open_table(honest_people()) as honest:
        for column in facts.columns:
            assert table.count_by_value(column.name) == honest.count_by_value(column.name)
    with open_source(path, "people") as source:
        (batch,) = source.batches(["Age", "City", "Disease", "Loud"])
        pandas.testing.assert_frame_equal(batch.to_pandas(), honest_people(), check_dtype=False)
    with open_groups(path, "Disease", table="people") as groups:
        groups.group_by(["Loud"])
        assert groups.sizes() == [(33, 2), (34, 1)]
        assert groups.group_where("upper(City) = 'C0' AND Loud = 'C0'").size == 34
    with SourceTable.open(path, "people", None) as source:
        assert source.counts_of_values("Loud", None) == {"C0": 34, "C1": 33, "C2": 33}


def test_whatever_reads_the_table_of_a_release(tmp_path: Path) -> None:
    path, honest = sly_file(tmp_path), honest_people()
    planned = [
        dalenius.plan(table, {"uniform": "1/2"}, sensitive="Loud", table=name)
        for table, name in ((path, "people"), (honest, None))
    ]
    assert planned[0].problem == planned[1].problem
    release = dalenius.publish(
        path,
        {"uniform": "1/2"},
        sensitive="Disease",
        quasi_identifiers=["Age", "Loud"],
        table_name="people",
        out=tmp_path / "release",
        seed=1,
    )
    assert set(release.qit["Loud"].to_pylist()) == {"C0", "C1", "C2"}
    folder = open_release(tmp_path / "release")
    for table, name in ((path, "people"), (honest, None)):
        assert release.verify(against=table, table=name).verified
        with Counter(folder) as counter:
            assert true_count(counter, table, "upper(Loud) = 'C0'", table=name) == 34
    assert release.audit(truth=path, table="people") == release.audit(truth=honest)
    errors = [evaluate(folder, table, table=name, queries=50) for table, name in ((path, "people"), (honest, None))]
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    "view",
    [
        "SELECT {secret} AS Disease",
        "SELECT Disease, {secret} AS Age FROM people",
        "SELECT upper(Disease) AS Disease FROM people",
        "SELECT content AS Disease FROM read_text('{folder}/*.txt')",
        "SELECT column0 AS Disease FROM read_csv('{folder}/secret.txt', header = false)",
        "SELECT * FROM '{folder}/other.parquet'",
    ],
)
def test_views_that_read_other_files_are_refused(view: str, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT '{SECRET}' AS Disease) TO '{tmp_path}/other.parquet'")
    path = sly_file(tmp_path)
    make(path, f"CREATE VIEW v AS {view.format(secret=reading(tmp_path), folder=tmp_path)}")
    with pytest.raises(InputError, match="reads another file") as error, open_table(path, "v") as table:
        table.count_by_value("Disease")
    assert str(tmp_path) not in str(error.value)
    with pytest.raises(InputError), open_source(path, "v") as source:
        list(source.batches(["Disease"]))


def test_views_of_the_files_own_tables_are_read(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t.duckdb",
        "CREATE TABLE source AS SELECT 'Flu' AS Disease",
        "CREATE MACRO doubled(x) AS x || x",
        "CREATE VIEW plain AS SELECT * FROM source",
        "CREATE VIEW named AS SELECT * FROM t.main.source",
        "CREATE VIEW computed AS SELECT doubled(Disease) AS Disease FROM source",
    )
    for view, value in (("source", "Flu"), ("plain", "Flu"), ("named", "Flu"), ("computed", "FluFlu")):
        with open_table(path, view) as table:
            assert table.count_by_value("Disease").values == (value,)
        assert describe(path, view).rows == 1


def test_computed_columns_with_functions_of_the_file_are_refused(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t.duckdb",
        "CREATE MACRO doubled(x) AS x || x",
        "CREATE TABLE t (Disease VARCHAR, Twice VARCHAR AS (doubled(Disease)))",
        "INSERT INTO t VALUES ('Flu')",
    )
    with pytest.raises(InputError, match="is computed from something") as error, open_table(path):
        pass
    assert "CREATE TABLE" in str(error.value)


def test_views_see_nothing_of_the_program(tmp_path: Path) -> None:
    people = pandas.DataFrame({"Disease": [SECRET]})
    path = make(tmp_path / "t.duckdb", "CREATE TABLE people AS SELECT 'Flu' AS Disease")
    make(path, "CREATE VIEW v AS SELECT * FROM people", "DROP TABLE people")
    with pytest.raises(InputError), open_table(path, "v") as table:
        table.count_by_value("Disease")
    assert len(people) == 1


def test_names_of_tables_as_before(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t.duckdb",
        "CREATE TABLE a AS SELECT 1 AS x",
        "CREATE SCHEMA file; CREATE TABLE file.file AS SELECT 2 AS x",
        "CREATE SCHEMA memory; CREATE TABLE memory.main AS SELECT 3 AS x",
    )
    assert sorted(tables_in(path)) == ["a", "file.file", "memory.main"]
    for name, value in (("a", "1"), ("file.file", "2"), ("memory.main", "3")):
        with open_table(path, name) as table:
            assert table.count_by_value("x").values == (value,)


@pytest.mark.parametrize("name", ["it's.duckdb", "a b.db", "[1]*?.ddb", "md:x.duckdb", 'q"q.duckdb'])
def test_files_of_every_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = make(tmp_path / "t.duckdb", "CREATE TABLE t AS SELECT 'Flu' AS Disease")
    made.rename(tmp_path / name)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link.duckdb").symlink_to(tmp_path / name)
    for path in (name, tmp_path / name, tmp_path / "sub" / ".." / name, "link.duckdb"):
        with open_table(path) as table:
            assert table.count_by_value("Disease").values == ("Flu",)


def test_a_log_beside_the_file_is_read(tmp_path: Path) -> None:
    """What was written to the file last may still be in its log."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x; CHECKPOINT; INSERT INTO t VALUES (2)")
        (tmp_path / "copy").mkdir()
        for file in ("t.duckdb", "t.duckdb.wal"):
            shutil.copy(tmp_path / file, tmp_path / "copy" / file)
    (tmp_path / "link.duckdb").symlink_to(tmp_path / "copy" / "t.duckdb")
    for path in (tmp_path / "copy" / "t.duckdb", tmp_path / "link.duckdb"):
        with open_table(path) as table:
            assert table.count_by_value("x").values == ("1", "2")


def test_a_file_is_opened_by_several_at_once(tmp_path: Path) -> None:
    path = sly_file(tmp_path)
    with ExitStack() as stack:
        tables = [stack.enter_context(open_table(path, "people")) for _ in range(3)]
        assert len({table.count_by_value("Disease") for table in tables}) == 1


def test_a_small_memory_spills(tmp_path: Path) -> None:
    path = make(
        tmp_path / "t.duckdb",
        "CREATE TABLE t AS SELECT md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS a FROM range(1000000) r(i)",
    )
    with open_table(path, memory=60_000_000) as table:
        found: Any = table.query("SELECT count(*) FROM (SELECT a, count(*) AS n FROM source GROUP BY a HAVING n = 1)")
        assert found.fetchall() == [(1_000_000,)]
