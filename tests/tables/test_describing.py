"""What is said of columns, against pandas."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius.tables.describe as describing
from dalenius.errors import InputError
from dalenius.tables.describe import ColumnFacts, describe, tables_in

FRAME = pd.DataFrame(
    {
        "Age": [31, 31, 45, None, 60] * 40,
        "Zip code": [f"{number % 90:05d}" for number in range(200)],
        'odd "name"': ["x", "<b>", None, "", "x"] * 40,
        "Born": [datetime.date(1990, 1, 1 + number % 28) for number in range(200)],
        "Alive": [True, False] * 100,
    }
)


def by_name(source: object) -> dict[str, ColumnFacts]:
    return {column.name: column for column in describe(source).columns}


def test_counts_are_those_of_pandas() -> None:
    facts = describe(pa.Table.from_pandas(FRAME))
    assert facts.rows == 200
    for column in facts.columns:
        assert column.distinct == FRAME[column.name].nunique()
        assert column.nulls == FRAME[column.name].isna().sum()
        assert column.distinct_is_exact


def test_kinds_of_typed_columns() -> None:
    kinds = {name: column.kind for name, column in by_name(pa.Table.from_pandas(FRAME)).items()}
    assert kinds == {
        "Age": "number",
        "Zip code": "number",
        'odd "name"': "text",
        "Born": "date",
        "Alive": "boolean",
    }


def test_text_files_are_text_that_looks_like_something(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    FRAME.to_csv(path, index=False)
    found = by_name(path)
    assert {column.type for column in found.values()} == {"VARCHAR"}
    assert [found[name].kind for name in ("Age", "Zip code", 'odd "name"', "Born")] == [
        "number",
        "number",
        "text",
        "date",
    ]
    assert found["Age"].nulls == 40


def test_a_few_codes_among_numbers_and_dates_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    lines = [f"{number},2020-01-{1 + number % 28:02d} 10:00:00,{number if number % 2 else 'x'}" for number in range(97)]
    path.write_text("\n".join(["a,b,c", *lines, *["N/A,unknown,x"] * 3]) + "\n", encoding="utf-8")
    assert [column.kind for column in describe(path).columns] == ["number", "date", "text"]


def test_identifiers_of_the_database_are_single_values() -> None:
    with duckdb.connect() as connection:
        facts = describe(connection.sql("SELECT uuid() AS u, [1] AS nested FROM range(50)"))
    assert [(column.kind, column.distinct) for column in facts.columns] == [("text", 50), ("other", 1)]


def test_columns_of_many_values_are_not_counted_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_EXACT_VALUES", 1000)
    found = by_name(pa.table({"many": list(range(5000)) * 2, "few": [1, 2] * 5000}))
    assert (found["few"].distinct, found["few"].distinct_is_exact) == (2, True)
    assert not found["many"].distinct_is_exact
    assert 4000 < found["many"].distinct < 6000


def test_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n", encoding="utf-8")
    facts = describe(path)
    assert facts.rows == 0
    assert [(column.distinct, column.nulls, column.kind) for column in facts.columns] == [(0, 0, "text")] * 2


def test_nested_columns_are_of_another_kind() -> None:
    found = by_name(pa.table({"visits": [[1, 2], [3], [1, 2]]}))
    assert (found["visits"].kind, found["visits"].distinct) == ("other", 2)


def test_large_tables_are_counted_about_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "EXACT_ROWS", 1000)
    found = by_name(pa.table({"a": list(range(5000)) * 4}))["a"]
    assert not found.distinct_is_exact
    assert 4000 < found.distinct < 6000


def test_tables_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS a")
        connection.execute("CREATE SCHEMA old")
        connection.execute("CREATE TABLE old.visits AS SELECT 2 AS a")
        connection.execute('CREATE TABLE "old.visits" AS SELECT 3 AS a')
        connection.execute("CREATE VIEW everything AS SELECT * FROM visits")
    assert sorted(set(tables_in(path))) == ["everything", "old.visits", "visits"]
    assert tables_in(path, views=False) == ["visits"]
    assert tables_in(tmp_path / "table.csv") == []
    assert describe(path, "visits").rows == 1


def test_errors_have_no_cells(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\nSECRET,3,4\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        describe(path)
    assert "SECRET" not in str(caught.value)
    assert "ragged" in str(caught.value)


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"a": [1]}), path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InputError):
        describe(path)
