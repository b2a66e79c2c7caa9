"""Tables from files and from Python, good and bad."""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

from dalenius.errors import CountsError, DaleniusError, InputError, NoSuchColumnError, NullsError, UsageError
from dalenius.model.problem import ValueCounts
from dalenius.tables.delimited import read_counts
from dalenius.tables.describe import describe
from dalenius.tables.open_table import open_table

ROWS = {"Gender": ["F", "M", "F", "M"], "Disease": ["Flu", "HIV", "Flu", "Cold"]}
COUNTS = ValueCounts(("Cold", "Flu", "HIV"), (1, 2, 1))


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def csv_file(folder: Path) -> Path:
    return write(folder / "t.csv", "Gender,Disease\nF,Flu\nM,HIV\nF,Flu\nM,Cold\n")


def semicolon_file(folder: Path) -> Path:
    return write(folder / "t.csv", "Gender;Disease\r\nF;Flu\r\nM;HIV\r\nF;Flu\r\nM;Cold")


def bom_file(folder: Path) -> Path:
    return write(folder / "t.csv", b"\xef\xbb\xbf" + b'"Disease","Gender"\n"Flu",F\nHIV,M\nFlu,F\nCold,M\n')


def tsv_file(folder: Path) -> Path:
    return write(folder / "t.tsv", "Gender\tDisease\nF\tFlu\nM\tHIV\nF\tFlu\nM\tCold\n")


def gz_file(folder: Path) -> Path:
    return write(folder / "t.csv.gz", gzip.compress(b"Gender,Disease\nF,Flu\nM,HIV\nF,Flu\nM,Cold\n"))


def starred_file(folder: Path) -> Path:
    csv_file(folder).rename(folder / "t[1]*?.csv")
    write(folder / "t1xx.csv", "Disease\nEbola\n")
    return folder / "t[1]*?.csv"


def parquet_file(folder: Path) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(ROWS), folder / "t.parquet")
    return folder / "t.parquet"


def duckdb_file(folder: Path) -> Path:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE \"odd \"\"name\" AS SELECT * FROM (VALUES ('Flu'), ('HIV'), ('Flu'), ('Cold')) t(Disease)"
        )
    return folder / "t.duckdb"


FILES = [csv_file, semicolon_file, bom_file, tsv_file, gz_file, starred_file, parquet_file, duckdb_file]


@pytest.mark.parametrize("make", FILES)
def test_files_of_every_kind(make: Callable[[Path], Path], tmp_path: Path) -> None:
    with open_table(make(tmp_path)) as table:
        assert table.count_by_value("Disease") == COUNTS


@pytest.mark.parametrize(
    "make",
    [
        pandas.DataFrame,
        lambda rows: pandas.DataFrame(rows).astype({"Disease": "category"}),
        polars.DataFrame,
        pyarrow.table,
        lambda rows: duckdb.connect().from_arrow(pyarrow.table(rows)),
    ],
)
def test_tables_from_python(make: Callable[[dict[str, list[str]]], Any]) -> None:
    with open_table(make(ROWS)) as table:
        assert table.count_by_value("Disease") == COUNTS


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1, 2, 10], ("1", "10", "2")),
        ([True, False, True], ("false", "true")),
        ([datetime.date(2020, 1, 2), datetime.date(2019, 1, 2)], ("2019-01-02", "2020-01-02")),
        ([Decimal("1.50"), Decimal("2.00")], ("1.50", "2.00")),
        (["a'b", 'a"b', "ä ñ 漢", "  x"], ("  x", 'a"b', "a'b", "ä ñ 漢")),
    ],
)
def test_values_of_other_types_are_known_by_their_text(values: list[Any], labels: tuple[str, ...]) -> None:
    with open_table(pyarrow.table({"x": values})) as table:
        assert table.count_by_value("x").values == labels


def test_text_stays_text(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "code\n007\n7\n7.0\n1e3\n")
    with open_table(path) as table:
        assert table.count_by_value("code").values == ("007", "1e3", "7", "7.0")


def test_hostile_column_names(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", '"select ""x"" from",bucket,a b\n1,2,3\n')
    with open_table(path) as table:
        assert table.count_by_value('select "x" from').values == ("1",)
        assert table.count_by_value("a b").values == ("3",)


def test_a_column_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    with open_table(csv_file(tmp_path)) as table:
        with pytest.raises(NoSuchColumnError, match="Did you mean 'Disease'"):
            table.count_by_value("disease")
        with pytest.raises(NoSuchColumnError, match="It has 2 columns") as error:
            table.count_by_value("xyz")
        assert "Gender" not in str(error.value)


def test_nulls_are_counted_and_refused_or_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "Gender,Disease\nF,Flu\nM,\nF,\n")
    with open_table(path) as table:
        with pytest.raises(NullsError, match="2 nulls in 3 rows") as error:
            table.count_by_value("Disease")
        assert "--null-value" in str(error.value)
        assert table.count_by_value("Disease", "unknown") == ValueCounts(("Flu", "unknown"), (1, 2))
        assert table.count_by_value("Disease", "Flu") == ValueCounts(("Flu",), (3,))


def test_lists_are_not_single_values() -> None:
    with open_table(pyarrow.table({"x": [[1], [2]]})) as table, pytest.raises(InputError, match="single values"):
        table.count_by_value("x")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "no header line"),
        ("t.csv", "a,a\n1,2\n", "same name"),
        ("t.csv", "a,\n1,2\n", "column 2 has no name"),
        ("t.csv", "a,Disease\n1,Flu\n1,secret,3\n", r"ragged at line 3: 3 fields where the header has 2"),
        ("t.csv", 'a,Disease\n1,"Flu\n', "quote"),
        ("t.csv", b"a,Disease\n1,caf\xe9\n", "UTF-8"),
        ("t.csv.gz", b"a,Disease\n", "cannot be read"),
        ("t.parquet", b"PAR1nonsense", "not a complete Parquet file"),
        ("t.duckdb", b"nonsense", "cannot be read"),
        ("t.xlsx", b"", "'.xlsx' are not read"),
        ("t", b"", "'' are not read"),
    ],
)
def test_damaged_files_are_refused(name: str, text: str | bytes, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(InputError, match=message) as error, open_table(path) as table:
        table.count_by_value("Disease")
    assert "secret" not in str(error.value)
    assert str(tmp_path) not in str(error.value)


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "Gender,Disease\n")
    with open_table(path) as table, pytest.raises(CountsError, match="the table is empty"):
        table.count_by_value("Disease")


def test_what_is_not_there_or_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.csv", tmp_path):
        with pytest.raises(InputError), open_table(path):
            pass


def test_duckdb_files_with_several_tables(tmp_path: Path) -> None:
    path = duckdb_file(tmp_path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE other AS SELECT 1 AS x")
    with pytest.raises(UsageError, match="2 tables"), open_table(path):
        pass
    with open_table(path, "other") as table:
        assert table.columns == ("x",)
    with pytest.raises(InputError, match="Did you mean 'other'"), open_table(path, "othr"):
        pass
    with pytest.raises(UsageError, match="only for DuckDB"), open_table(csv_file(tmp_path), "other"):
        pass


def test_other_python_objects_are_refused() -> None:
    with pytest.raises(InputError, match=r"builtins\.list"), open_table([1, 2]):
        pass


def test_too_many_values_are_refused() -> None:
    column = pyarrow.array(range(100_001))
    with open_table(pyarrow.table({"id": column})) as table, pytest.raises(InputError, match="more than 100,000"):
        table.count_by_value("id")


def test_counts_from_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", 'value,count\nFlu,2\n"Cold",1\nHIV, 1\n\n')
    assert read_counts(path) == COUNTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("secret,5\nx,1\n", "not its header"),
        ("value,count\nx\n", "line 2 .* 1 fields"),
        ("value,count\nx,1.5\n", "not a whole number"),
        ("value,count\nx,-1\n", "negative"),
        ("value,count\nx,1\nx,2\n", "more than one count"),
        ("value,count\n", "no records"),
        ("value,count\nx," + "9" * 40 + "\n", "can count exactly"),
    ],
)
def test_bad_counts_files(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DaleniusError, match=message) as error:
        read_counts(write(tmp_path / "c.csv", text))
    assert "secret" not in str(error.value)


def test_folders_that_look_like_partitions_add_no_columns(tmp_path: Path) -> None:
    for folder in ("Disease=Flu", "year=2020"):
        (tmp_path / folder).mkdir()
        with open_table(csv_file(tmp_path / folder)) as table:
            assert table.columns == ("Gender", "Disease")
            assert table.count_by_value("Disease") == COUNTS


def test_delimiters_inside_quoted_names(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", '"Last, First, Middle";Disease\n"a, b";Flu\n')
    with open_table(path) as table:
        assert table.columns == ("Last, First, Middle", "Disease")


def test_tables_in_other_schemas(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA s1; CREATE TABLE s1.visits AS SELECT 'Flu' AS Disease")
        connection.execute("CREATE TABLE visits AS SELECT 'HIV' AS Disease")
    with open_table(path, "s1.visits") as table:
        assert table.count_by_value("Disease").values == ("Flu",)
    with open_table(path, "visits") as table:
        assert table.count_by_value("Disease").values == ("HIV",)


def test_a_database_without_tables(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "t.duckdb")).close()
    with pytest.raises(InputError, match="no tables"), open_table(tmp_path / "t.duckdb"):
        pass


def test_columns_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    frame = pandas.DataFrame([[1, 2]], columns=["D", "d"])
    pyarrow.parquet.write_table(pyarrow.table({"D": [1], "d": [2]}), tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        with pytest.raises(InputError, match="same name"), open_table(source):
            pass


def test_python_objects_in_a_column_are_refused() -> None:
    frame = polars.DataFrame({"x": polars.Series([object(), object()], dtype=polars.Object)})
    with pytest.raises(InputError, match=r"type that cannot be read|Python objects"), open_table(frame) as table:
        table.count_by_value("x")


def test_lazy_frames_and_lists_of_decimals() -> None:
    with open_table(polars.LazyFrame(ROWS)) as table:
        assert table.count_by_value("Disease") == COUNTS
    lists = pyarrow.table({"x": pyarrow.array([[Decimal("1.50")]], pyarrow.list_(pyarrow.decimal128(9, 2)))})
    with open_table(lists) as table, pytest.raises(InputError, match="single values"):
        table.count_by_value("x")


@pytest.mark.parametrize("shadowed", ["upper", "approx_count_distinct", "count", "coalesce"])
def test_a_database_from_elsewhere_reads_no_other_file(tmp_path: Path, shadowed: str) -> None:
    secret, path = tmp_path / "secret.txt", tmp_path / "t.duckdb"
    secret.write_text("SECRET", encoding="utf-8")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE g (dis VARCHAR, shown VARCHAR AS (upper(dis)))")
        connection.execute("INSERT INTO g VALUES ('flu'), ('hiv'), ('flu')")
        connection.execute(f"CREATE MACRO {shadowed}(x) AS (SELECT content FROM read_text('{secret}'))")  # noqa: S608
    facts = describe(path)
    assert [column.distinct for column in facts.columns] == [2, 2]
    with open_table(path) as opened:
        assert opened.count_by_value("shown").values == ("FLU", "HIV")


def test_views_are_read_unless_they_reach_out_of_the_file(tmp_path: Path) -> None:
    secret, path = tmp_path / "secret.csv", tmp_path / "t.duckdb"
    secret.write_text("dis\nSECRET\n", encoding="utf-8")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE g AS SELECT 'flu' AS dis")
        connection.execute("CREATE VIEW inside AS SELECT upper(dis) AS dis FROM g")
        connection.execute(f"CREATE VIEW outside AS SELECT * FROM read_csv('{secret}')")  # noqa: S608
    with open_table(path, "inside") as opened:
        assert opened.count_by_value("dis").values == ("FLU",)
    with pytest.raises(InputError) as caught, open_table(path, "outside") as opened:
        opened.count_by_value("dis")
    assert "secret" not in str(caught.value).lower()


def test_a_database_that_does_not_fit_into_memory_spills(tmp_path: Path) -> None:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS a, md5(range::VARCHAR) AS b FROM range(1500000)")
    with open_table(path, memory=60_000_000) as opened:
        ordered = opened.relation.query("source", "SELECT b, count(*) FROM source GROUP BY b ORDER BY b LIMIT 1")
        assert ordered is not None
        assert len(ordered.fetchall()) == 1


def test_names_with_a_null_character_are_refused() -> None:
    for source in (pyarrow.table({"a\0b": [1]}), pandas.DataFrame({"a\0b": [1]})):
        with pytest.raises(InputError, match="column 1 has a null character"), open_table(source):
            pass


@pytest.mark.parametrize("make", [csv_file, gz_file, parquet_file])
@pytest.mark.parametrize(
    "name", ["it's", "a b", "[1]*?", "a[b", "x=1", "a?b", "a:b", "~t", "{a,b}", 'q"q', "ü漢", "a#b%41"]
)
def test_paths_of_every_spelling(
    name: str, make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = make(folder)
    suffixes = "".join(made.suffixes)
    for other in ("1xx", "b", "axb"):  # what the name means as a pattern
        write(folder / f"{other}{suffixes}", b"")
    made.rename(folder / f"{name}{suffixes}")
    (folder / f"link{suffixes}").symlink_to(folder / f"{name}{suffixes}")
    for path in (f"{name}{suffixes}", folder / f"{name}{suffixes}", f"../{name}/{name}{suffixes}", f"link{suffixes}"):
        with open_table(path) as table:
            assert table.count_by_value("Disease") == COUNTS


def test_a_link_to_a_file_of_another_name(tmp_path: Path) -> None:
    gz_file(tmp_path).rename(tmp_path / "data")
    (tmp_path / "t.csv.gz").symlink_to(tmp_path / "data")
    with open_table(tmp_path / "t.csv.gz") as table:
        assert table.count_by_value("Disease") == COUNTS
