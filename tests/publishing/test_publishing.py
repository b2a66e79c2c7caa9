from __future__ import annotations

import datetime as dt
import json
import os
import string
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.errors import InputError, NoSolutionError, NullsError, UsageError
from dalenius.model.memory import resident_memory
from dalenius.release.manifest import SEEDED
from tests.effort import examples

PEOPLE = pa.table(
    {
        "Name": ["Alice", "Bob", "Carl", "Dora", "Eve", "Finn", "Gail", "Hugo"],
        "Gender": ["F", "M", "M", "F", "F", "M", "F", "M"],
        "Zipcode": ["04321", "04322", "04322", "54324", "54325", "04321", "54327", "04321"],
        "Disease": ["HIV", "Flu", "Flu", "Flu", "Cold", "Cold", "Flu", "Cold"],
    }
)
LIMITS = {"HIV": "1/4", "Flu": "0.9", "Cold": "0.9"}


def publish(table: Any, **changes: Any) -> dalenius.Release:
    given: dict[str, Any] = {
        "limits": LIMITS,
        "sensitive": "Disease",
        "quasi_identifiers": ["Gender", "Zipcode"],
        "identifiers": ["Name"],
    }
    return dalenius.publish(table, **(given | changes))


def rows(table: pa.Table, columns: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))


def check_privacy(release: dalenius.Release) -> None:
    """F'-privacy by hand, from the two tables, with the limits of the manifest."""
    made = release.manifest
    limits = {value.value: Fraction(value.limit) for value in made.values}
    qit, st_ = release.qit, release.st
    sizes = Counter(qit[made.columns.bucket].to_pylist())
    held = Counter(zip(st_[made.columns.bucket].to_pylist(), st_[made.columns.sensitive.name].to_pylist(), strict=True))
    assert sizes == Counter(st_[made.columns.bucket].to_pylist())
    for (bucket, value), count in held.items():
        name = made.null_value if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        assert name is not None
        assert Fraction(count, sizes[bucket]) <= limits[name]


def test_the_hospital_of_the_paper(tmp_path: Path) -> None:
    """Table 1 and Example 2: two buckets of two, and Alice (F, 61434) has each disease of hers with probability 1/2."""
    rows_of_t = "M,54321,Brain Tumor\nM,54322,Indigestion\nF,61234,Cancer\nF,61434,HIV\n"
    (tmp_path / "t.csv").write_text("Gender,Zipcode,Disease\n" + rows_of_t, encoding="utf-8")
    release = dalenius.publish(
        tmp_path / "t.csv", {"uniform": "1/2"}, sensitive="Disease", quasi_identifiers=["Gender", "Zipcode"]
    )
    assert [(group.size, group.buckets) for group in release.manifest.setting] == [(2, 2)]
    assert release.verify(against=tmp_path / "t.csv").verified
    check_privacy(release)
    alice = release.count("Gender = 'F' AND Zipcode = 61434", group_by="Disease", learn=False, measure=False)
    assert sorted(group.estimate.estimate for group in alice) == [0, 0, 0.5, 0.5]
    assert sorted(group.estimate.bounds for group in alice) == [(0, 0), (0, 0), (0, 1), (0, 1)]


def test_a_hospital_from_table_to_folder_and_back(tmp_path: Path) -> None:
    release = publish(PEOPLE, out=tmp_path / "release")
    assert sorted(p.name for p in (tmp_path / "release").iterdir()) == ["manifest.json", "qit.parquet", "st.parquet"]
    assert release.qit.column_names == ["Gender", "Zipcode", "bucket"]
    assert release.st.column_names == ["bucket", "Disease"]
    assert rows(release.qit, ["Gender", "Zipcode"]) == rows(PEOPLE, ["Gender", "Zipcode"])
    assert rows(release.st, ["Disease"]) == rows(PEOPLE, ["Disease"])
    check_privacy(release)
    assert release.verify(against=PEOPLE).verified
    hiv = next(value for value in release.manifest.values if value.value == "HIV")
    assert (hiv.worst.count, hiv.worst.size, hiv.limit) == (1, 4, "1/4")
    again = dalenius.load(tmp_path / "release")
    assert again.manifest == release.manifest
    assert again.qit.equals(release.qit)


def test_nothing_of_the_source_but_the_columns_is_published(tmp_path: Path) -> None:
    frame = pd.DataFrame(PEOPLE.to_pydict(), index=[f"row {k}" for k in range(8)])
    release = publish(frame, out=tmp_path / "release", identifiers=())
    text = (tmp_path / "release" / "manifest.json").read_text(encoding="utf-8")
    for hidden in ("Name", "Alice", "row 0", str(tmp_path), "pandas"):
        assert hidden not in text
        for file in ("qit.parquet", "st.parquet"):
            assert hidden.encode() not in (tmp_path / "release" / file).read_bytes()
    assert any("'Name'" in note for note in release.notes)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_source_gives_the_same_release(form: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame(PEOPLE.to_pydict())
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_csv(tmp_path / "people.tsv.gz", index=False, sep="\t")
    pyarrow.parquet.write_table(PEOPLE, tmp_path / "people.parquet")
    with duckdb.connect(tmp_path / "people.duckdb") as connection:
        connection.from_arrow(PEOPLE).create("people")
    sources = [
        PEOPLE,
        PEOPLE.to_batches()[0],
        frame,
        pl.DataFrame(PEOPLE.to_pydict()),
        pl.DataFrame(PEOPLE.to_pydict()).lazy(),
        duckdb.sql("SELECT * FROM frame"),
        tmp_path / "people.csv",
        str(tmp_path / "people.tsv.gz"),
        tmp_path / "people.parquet",
        tmp_path / "people.duckdb",
    ]
    releases = [publish(source, seed=7, format=form) for source in sources]
    for source, release in zip(sources, releases, strict=True):
        assert release.qit.to_pydict() == releases[0].qit.to_pydict()
        assert release.st.to_pydict() == releases[0].st.to_pydict()
        assert release.manifest.randomness == SEEDED
        assert release.verify(against=source).verified


def test_two_runs_differ_and_two_seeded_runs_do_not() -> None:
    table = pa.table({"id": list(range(400)), "s": ["a", "b"] * 200})
    runs = [
        dalenius.publish(table, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["id"], seed=seed).qit.to_pydict()
        for seed in (None, None, 1, 1, 2)
    ]
    assert runs[0] != runs[1]
    assert runs[2] == runs[3] != runs[4]


TYPED = pa.table(
    {
        "strings": ["Zoë", "", "naïve \U0001f600", None, 'quo"te', "line\nbreak", "a,b", "0x00\x01"],
        "dates": [dt.date(1900, 1, 1), None, dt.date(2024, 2, 29), dt.date(1969, 12, 31)] * 2,
        "decimals": pa.array(
            [Decimal("1.10"), Decimal("-7.00"), None, Decimal("99999999.99")] * 2, pa.decimal128(10, 2)
        ),
        "long decimals": pa.array([Decimal("1" * 30), None] * 4, pa.decimal128(38, 0)),
        "booleans": [True, False, None, True] * 2,
        "big": pa.array([2**64 - 1, 0, 2**63, None] * 2, pa.uint64()),
        "small": pa.array([-128, 127, None, 0] * 2, pa.int8()),
        "floats": [0.1, -0.0, 0.0, float("nan"), None, float("inf"), 1e-310, -1.5],
        "categories": pa.array(["x", "y", None, "x"] * 2).dictionary_encode(),
        "instants": pa.array([0, 1, None, -1] * 2, pa.timestamp("us", tz="Europe/Berlin")),
        "local": pa.array([0, 10**18 + 1, None, 5] * 2, pa.timestamp("ns")),
        "nothing": pa.nulls(8),
        "s": ["a", "b"] * 4,
    }
)
CSV_TYPES = [name for name in TYPED.column_names if name != "nothing"]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_types_and_values_come_out_as_they_went_in(form: Any, tmp_path: Path) -> None:
    table = TYPED if form == "parquet" else TYPED.select(CSV_TYPES)
    columns = [name for name in table.column_names if name != "s"]
    pyarrow.parquet.write_table(table, tmp_path / "typed.parquet")
    instants = table.column("instants").cast(pa.timestamp("us", tz="UTC" if form == "csv" else "Europe/Berlin"))
    expected = table.set_column(table.column_names.index("instants"), "instants", instants)
    for source in (table, tmp_path / "typed.parquet"):
        for chosen in (columns, *([name] for name in columns)):  # all together are too wide to be packed
            release = dalenius.publish(
                source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=chosen, format=form, identifiers=()
            )
            qit = release.qit
            for name in chosen:
                assert qit.schema.field(name).type == expected.schema.field(name).type
            assert Counter(map(repr, qit.select(chosen).to_pylist())) == Counter(
                map(repr, expected.select(chosen).to_pylist())
            )
            assert release.verify(against=source).verified


def test_the_order_of_categories_is_not_published(tmp_path: Path) -> None:
    """It may be the order of the rows: pandas users write categories=x.unique(), and Parquet files can do the same."""
    seen = ["middle", "low", "high", "low"]
    frame = pd.DataFrame({"level": pd.Categorical(seen, ["middle", "low", "high", "unused"], ordered=True)})
    frame["s"] = pd.Categorical(list("baba"), list("ba"), ordered=True)
    pyarrow.parquet.write_table(pa.Table.from_pandas(frame), tmp_path / "levels.parquet", use_dictionary=False)
    for source in (frame, tmp_path / "levels.parquet"):
        release = dalenius.publish(source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["level"])
        column = release.qit["level"].combine_chunks()
        assert not column.type.ordered
        assert column.dictionary.to_pylist() == ["high", "low", "middle"]
        assert release.st["s"].combine_chunks().dictionary.to_pylist() == ["a", "b"]
        assert Counter(column.to_pylist()) == Counter(seen)
        assert len([note for note in release.notes if "order of the categories" in note]) == 2


@pytest.mark.parametrize("count", [127, 128, 256, 257])
@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int16()])
def test_null_categories_stay_null_when_categories_fill_their_type(count: int, index: pa.DataType) -> None:
    if count > 2 ** (index.bit_width - pa.types.is_signed_integer(index)):
        return
    names = [f"c{k:03d}" for k in range(count)]
    codes = pa.array([*range(count), None, None], index)
    table = pa.table(
        {"q": pa.DictionaryArray.from_arrays(codes, names), "s": ["a", "b"] * (count // 2 + 1) + ["a"] * (count % 2)}
    )
    release = dalenius.publish(table, {"uniform": "0.6"}, sensitive="s", quasi_identifiers=["q"])
    assert release.qit["q"].null_count == 2
    assert release.verify(against=table).verified


def texts_of(column: pa.Array) -> Counter[str]:
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return Counter(map(repr, column.to_pylist()))


def test_categories_that_are_null_themselves() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 4), pa.array(["x", None]))
    release = dalenius.publish(
        pa.table({"q": column, "s": ["a", "b"] * 4}), {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"]
    )
    assert Counter(release.qit["q"].to_pylist()) == {"x": 4, None: 4}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5, -0.0, 0.0, None] * 2).dictionary_encode(),
        pa.array([2**64 - 1, 0, 2**63, None] * 2, pa.uint64()).dictionary_encode(),
        pa.array([dt.date(2020, 1, 1), None] * 4).dictionary_encode(),
        pa.array(["x", None] * 4, pa.string_view()),
        pa.array([b"ab", b"cd"] * 4, pa.binary(2)),
        pa.array([2**53 + 1, 2**53, 2**63, None] * 2, pa.uint64()),
        pa.array([-(2**63), 2**63 - 1, None, 0] * 2, pa.int64()),
        pa.array([10_000_000, -5_000_000] * 4, pa.date32()),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("wide", [False, True])
def test_unusual_columns(column: pa.Array, wide: bool, tmp_path: Path) -> None:
    table = pa.table({"q": column, "n": pa.array([k * 2**58 for k in range(-4, 4)]), "s": ["a", "b"] * 4})
    names = ["q", "n"] if wide else ["q"]
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        release = dalenius.publish(source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=names)
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        assert texts_of(release.qit["q"].cast(plain.type).combine_chunks()) == texts_of(plain)


def test_nothing_tells_equal_rows_apart_in_the_wide_path() -> None:
    """All NaNs are one; and among rows that are equal, the order is not that of their sensitive values."""
    rows = 40_000
    values = np.arange(rows) % 4
    table = pa.table(
        {
            "a": pa.array(np.asarray([0x7FF8 << 48], np.uint64).repeat(rows) | np.arange(rows, dtype=np.uint64)).view(
                pa.float64()
            ),
            "b": pa.array(np.random.default_rng(0).standard_normal(rows).round(2)),
            "c": pa.array(np.random.default_rng(1).integers(-(2**62), 2**62, rows)),
            "s": pa.array(values),
        }
    )
    release = dalenius.publish(table, {"uniform": "1/4"}, sensitive="s", quasi_identifiers=["a", "b", "c"])
    bits = release.qit["a"].combine_chunks().view(pa.int64())
    assert len(bits.unique()) == 1


def test_row_groups_and_bytes_do_not_depend_on_memory_or_unpublished_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    columns = {f"c{k}": pa.array(rng.integers(-(2**62), 2**62, 150_000)) for k in range(3)}
    columns["t"] = pa.array([f"text {k}" for k in rng.integers(0, 10**9, 150_000)])
    columns["s"] = pa.array(rng.integers(0, 9, 150_000))
    made = []
    for memory, more in ((700 * 2**20, {}), (2 * 2**30, {"secret": pa.array(rng.integers(0, 9, 150_000))})):
        release = dalenius.publish(
            pa.table(columns | more),
            {"uniform": "1/4"},
            sensitive="s",
            quasi_identifiers=["c0", "c1", "c2", "t"],
            seed=1,
            memory=memory + resident_memory(),
        )
        made.append((release.path / "qit.parquet").read_bytes())
        metadata = pyarrow.parquet.read_metadata(release.path / "qit.parquet")
        assert metadata.num_row_groups > 1
    assert made[0] == made[1]


def test_long_texts_stay_within_memory(tmp_path: Path) -> None:
    code = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq, dalenius
with pq.ParquetWriter("long.parquet", pa.schema([("t", pa.string()), ("s", pa.int64())]), compression="none") as writer:
    for k in range(40):
        text = pa.array([f"{k}-{j} " * 300 for j in range(2000)])
        writer.write_table(pa.table({"t": text, "s": pa.array(np.arange(2000) % 5)}))
del text, writer
from dalenius.model.memory import resident_memory
import dalenius.publishing
limit = resident_memory() + 400 * 2**20
dalenius.publish("long.parquet", {"uniform": "1/4"}, sensitive="s", quasi_identifiers=["t"], out="r", memory=limit)
# the peak of this program alone: getrusage would begin with that of the process from which it was started
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak * 1024 < limit)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_texts_of_instants_do_not_depend_on_where_the_program_runs(zone: str, tmp_path: Path) -> None:
    table = pa.table({"q": [1, 2], "s": pa.array([0, 3600], pa.timestamp("s", tz="Europe/Berlin"))})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    code = (
        "import dalenius; r = dalenius.publish('t.parquet', {'uniform': '1/2'}, sensitive='s', quasi_identifiers=['q'],"
        " out='release'); print([v.value for v in r.manifest.values], r.verify(against='t.parquet').verified)"
    )
    environment = os.environ | {"TZ": zone}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "['1970-01-01 00:00:00+00', '1970-01-01 01:00:00+00'] True\n"


HOSTILE = ["bucket", "Bucket_2", 'quo"te', "select", "a b", "ünï", "semi;colon", "a.b", "%s", "{x}", "--", "'"]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_hostile_column_names(form: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    table = pa.table({name: pa.array(rng.integers(0, 3, 30)) for name in HOSTILE} | {"it's": ["x", "y", "z"] * 10})
    pd.DataFrame(table.to_pydict()).to_csv(tmp_path / "hostile file [1].csv", index=False)
    for source in (table, tmp_path / "hostile file [1].csv"):
        release = dalenius.publish(
            source,
            {"uniform": "1/3"},
            sensitive="it's",
            quasi_identifiers=HOSTILE,
            out=tmp_path / form,
            force=True,
            format=form,
        )
        assert release.manifest.columns.bucket == "bucket_3"
        assert release.qit.column_names == [*HOSTILE, "bucket_3"]
        assert release.verify(against=source).verified


def table_of(counts: list[int]) -> pa.Table:
    values = [f"v{i}" for i, count in enumerate(counts) for _ in range(count)]
    return pa.table({"q": [k % 7 for k in range(len(values))], "s": pa.array(values, pa.string())})


@pytest.mark.parametrize("counts", [[1], [2], [1, 1], [4], [2, 2], [1, 1, 1, 1], [9], [1] * 60, [3] * 400])
def test_small_tables_one_value_and_all_values_distinct(counts: list[int]) -> None:
    table = table_of(counts)
    clear: dict[str, Any] = {"min_size": 1, "publish_in_the_clear": True}
    release = dalenius.publish(table, {"beta": 1}, sensitive="s", quasi_identifiers=["q"], **clear)
    assert release.manifest.rows == sum(counts)
    check_privacy(release)
    assert release.verify(against=table).verified


def test_three_thousand_two_hundred_values() -> None:
    rng = np.random.default_rng(2)
    table = pa.table({"q": pa.array(rng.integers(0, 90, 40_000)), "s": pa.array(rng.integers(0, 3200, 40_000))})
    release = dalenius.publish(table, {"theta": 8, "base": "0.02"}, sensitive="s", quasi_identifiers=["q"])
    assert len(release.manifest.values) == len(set(table["s"].to_pylist()))
    check_privacy(release)
    assert release.verify(against=table).verified


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the table is empty"):
        dalenius.publish(table_of([]), {"uniform": 1}, sensitive="s", quasi_identifiers=["q"], out=tmp_path / "r")
    assert list(tmp_path.iterdir()) == []


def test_nulls_in_the_sensitive_column() -> None:
    text = pa.table({"q": [1, 2, 3, 4], "s": ["a", None, "unknown", "a"]})
    with pytest.raises(NullsError, match="1 nulls in 4 rows"):
        dalenius.publish(text, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"])
    release = dalenius.publish(text, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"], null_value="unknown")
    assert Counter(release.st["s"].to_pylist()) == {"a": 2, "unknown": 2}
    assert release.verify(against=text).verified
    numbers = pa.table({"q": [1, 2, 3, 4], "s": [1, None, 2, 1]})
    for name, expected in (("missing", {1: 2, 2: 1, None: 1}), ("2", {1: 2, 2: 2})):
        release = dalenius.publish(numbers, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"], null_value=name)
        assert Counter(release.st["s"].to_pylist()) == expected
        assert {v.value for v in release.manifest.values} == {"1", "2", name}
        assert release.verify(against=numbers).verified


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 1, 3],
        [True, False, True, False],
        [dt.date(2020, 1, 1), dt.date(2021, 1, 1)] * 2,
        [1.5, -0.0, 0.0, float("nan")],
        [Decimal("1.0"), Decimal("2.5")] * 2,
    ],
)
def test_sensitive_values_of_any_type(values: list[Any]) -> None:
    table = pa.table({"q": [1, 2, 3, 4], "s": values})
    release = dalenius.publish(table, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"])
    assert release.st.schema.field("s").type == table.schema.field("s").type
    assert Counter(map(repr, release.st["s"].to_pylist())) == Counter(map(repr, values))
    assert release.verify(against=table).verified


def test_no_solution_says_why(tmp_path: Path) -> None:
    with pytest.raises(NoSolutionError, match="no release exists"):
        publish(PEOPLE, limits={"uniform": "0.1"}, out=tmp_path / "release")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quasi_identifiers": []}, "no quasi-identifiers"),
        ({"quasi_identifiers": ["Gender", "Gender"]}, "'Gender' has more than one role"),
        ({"quasi_identifiers": ["Gender", "Disease"]}, "'Disease' has more than one role"),
        ({"quasi_identifiers": ["gender"]}, "no column 'gender'"),
        ({"identifiers": ["Nam"]}, "no column 'Nam'"),
        ({"format": "xml"}, "no format 'xml'"),
        ({"memory": 10**6}, "too little"),
        ({"seed": "1"}, "seed must be a whole number"),
        ({"table_name": "x"}, "table name is only for DuckDB"),
    ],
)
def test_wrong_use_is_told(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(PEOPLE, tmp_path / "people.parquet")
    with pytest.raises(dalenius.DaleniusError, match=message):
        publish(tmp_path / "people.parquet", out=tmp_path / "release", **changes)
    assert [p.name for p in tmp_path.iterdir()] == ["people.parquet"]


def test_nested_columns_and_mixed_objects_are_refused() -> None:
    nested = pa.table({"q": [[1], [2]], "s": ["a", "b"]})
    with pytest.raises(InputError, match="'q' has the type list"):
        dalenius.publish(nested, {"uniform": 1}, sensitive="s", quasi_identifiers=["q"])
    mixed = pd.DataFrame({"q": [1, "x"], "s": ["a", "b"]})
    with pytest.raises(InputError, match="'q' holds values of more than one type"):
        dalenius.publish(mixed, {"uniform": 1}, sensitive="s", quasi_identifiers=["q"])
    stream = pa.RecordBatchReader.from_batches(PEOPLE.schema, PEOPLE.to_batches())
    with pytest.raises(InputError, match="only once"):
        publish(stream)


@pytest.mark.parametrize("kind", ["UHUGEINT", "TIMETZ", "BIT"])
def test_types_that_arrow_does_not_have_are_refused(kind: str) -> None:
    value = "'101'" if kind == "BIT" else "'10:00:00+01'" if kind == "TIMETZ" else "1"
    relation = duckdb.sql(f"SELECT {value}::{kind} AS q, 'a' AS s")
    with pytest.raises(InputError, match="'q' has the type"):
        dalenius.publish(relation, {"uniform": 1}, sensitive="s", quasi_identifiers=["q"])


def test_python_objects_are_refused_and_columns_without_a_role_are_not_looked_at() -> None:
    frame = pl.DataFrame({"q": [1, 2], "s": ["a", "b"], "o": pl.Series([object(), object()], dtype=pl.Object)})
    assert dalenius.publish(frame, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"]).manifest.rows == 2
    with pytest.raises(InputError, match="'o' holds values"):
        dalenius.publish(frame, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["o"])


def test_what_arrow_cannot_handle_is_told_without_its_content() -> None:
    frame = pl.DataFrame({"q": pl.Series([2**100, 5], dtype=pl.Int128), "s": ["a", "b"]})
    with pytest.raises(InputError) as error:
        dalenius.publish(frame, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["q"])
    assert str(2**100) not in str(error.value)


def test_nearly_unique_columns_draw_a_note() -> None:
    table = pa.table(
        {"number": [f"P{k}" for k in range(100)], "age": [k % 9 for k in range(100)], "s": ["a", "b"] * 50}
    )
    release = dalenius.publish(table, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=["number", "age"])
    assert [note for note in release.notes if "'number'" in note]
    assert not [note for note in release.notes if "'age'" in note]


def test_save_and_replace(tmp_path: Path) -> None:
    release = publish(PEOPLE)
    first = release.save(tmp_path / "deep" / "release")
    assert first.verify(against=PEOPLE).verified
    with pytest.raises(UsageError, match="there already"):
        release.save(tmp_path / "deep" / "release")
    other = publish(PEOPLE, quasi_identifiers=["Gender"])
    replaced = other.save(tmp_path / "deep" / "release", force=True)
    assert replaced.qit.column_names == ["Gender", "bucket"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["release"]
    assert repr(replaced).startswith("<Release: 8 records in")


def test_force_replaces_releases_only(tmp_path: Path) -> None:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("draft", encoding="utf-8")
    with pytest.raises(UsageError, match="not a release"):
        publish(PEOPLE, out=folder, force=True)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="not a folder"):
        publish(PEOPLE, out=tmp_path / "file", force=True)
    assert (folder / "thesis.txt").read_text(encoding="utf-8") == "draft"
    (tmp_path / "empty").mkdir()
    assert publish(PEOPLE, out=tmp_path / "empty", force=True).path == tmp_path / "empty"


def test_the_manifest_is_what_its_schema_says(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "manifest.schema.json"
    schema = json.loads(page.read_text(encoding="utf-8"))
    publish(PEOPLE, out=tmp_path / "release")
    made = json.loads((tmp_path / "release" / "manifest.json").read_text(encoding="utf-8"))
    assert set(made) == set(schema["properties"]) == set(schema["required"])


@pytest.mark.parametrize(
    ("sensitive", "limits"),
    [("Disease", {"uniform": "1/2"}), ("Income", {"uniform": "1/2", "grouping": {"cuts": [20, 30]}})],
)
def test_pandas_is_not_imported_for_files(sensitive: str, limits: Any, tmp_path: Path) -> None:
    people = PEOPLE.append_column("Income", pa.array(range(10, 10 + 5 * len(PEOPLE), 5)))
    pyarrow.parquet.write_table(people, tmp_path / "people.parquet")
    code = (
        f"import dalenius, sys; dalenius.publish('people.parquet', {limits!r}, sensitive={sensitive!r},"
        " quasi_identifiers=['Gender', 'Zipcode'], out='release'); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(1, 40))
    text = st.text(string.printable + "äß€\U0001f600\x00"[:-1], max_size=3) | st.none()
    return pa.table(
        {
            "n": pa.array(draw(st.lists(st.integers(-5, 5) | st.none(), min_size=count, max_size=count)), pa.int64()),
            "t": pa.array(draw(st.lists(text, min_size=count, max_size=count)), pa.string()),
            "f": pa.array(draw(st.lists(st.floats() | st.none(), min_size=count, max_size=count)), pa.float64()),
            "s": pa.array(draw(st.lists(st.sampled_from("abcdef"), min_size=count, max_size=count))),
        }
    )


@settings(max_examples=examples(60))
@given(table=tables(), slack=st.fractions(0, 3), columns=st.sampled_from([["n"], ["t", "n"], ["n", "t", "f"]]))
def test_any_table_under_any_feasible_policy(table: pa.Table, slack: Fraction, columns: list[str]) -> None:
    counts = Counter(table["s"].to_pylist())
    limits = {value: min(Fraction(1), Fraction(count, len(table)) * (1 + slack)) for value, count in counts.items()}
    clear: dict[str, Any] = {"min_size": 1, "publish_in_the_clear": True}
    release = dalenius.publish(table, limits, sensitive="s", quasi_identifiers=columns, time_limit=60, **clear)
    check_privacy(release)
    verdict = release.verify(against=table, limits=limits)
    assert verdict.verified, [check for check in verdict.checks if not check.passed]


TEXTS = {
    "age": (["7", "42", "0", "-3"], pa.int64()),
    "zip": (["00501", "10115", "20095", "80331"], pa.string()),
    "born": (["1999-12-31", "2024-02-29", "1900-01-01", "1970-01-01"], pa.date32()),
    "fever": (["36.6", "37.0", "41.2", "-0.5"], pa.decimal128(18, 1)),
    "price": (["7.5", "7.50", "1.0", "2.0"], pa.string()),
    "smokes": (["true", "false", "true", "true"], pa.bool_()),
    "answer": (["True", "False", "True", "True"], pa.string()),
    "huge": (["9223372036854775808", "1", "2", "3"], pa.string()),
    "signed": (["+5", "5", "6", "7"], pa.string()),
    "spaced": ([" 5", "5", "6", "7"], pa.string()),
    "gaps": (["5", "", "6", "7"], pa.int64()),
    "none": (["", "", "", ""], pa.string()),
}


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_columns_of_text_files_get_a_type_where_that_loses_nothing(form: Any, tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    columns = {name: texts for name, (texts, _) in TEXTS.items()} | {"s": ["a", "b", "a", "b"]}
    pd.DataFrame(columns).to_csv(source, index=False)
    release = dalenius.publish(
        source, {"uniform": "1/2"}, sensitive="s", quasi_identifiers=list(TEXTS), out=tmp_path / "r", format=form
    )
    types = {column.name: column.type for column in release.manifest.columns.quasi_identifiers}
    assert types == {name: str(kind) for name, (_, kind) in TEXTS.items()}
    for name, (texts, kind) in TEXTS.items():
        published = [
            None if v is None else json.dumps(v) if v in (True, False) and kind == pa.bool_() else str(v)
            for v in release.qit[name].to_pylist()
        ]
        assert Counter(published) == Counter(text or None for text in texts)
    assert release.verify(against=source).verified
    if form == "csv":
        back = pd.read_csv(tmp_path / "r" / "qit.csv", dtype=str, keep_default_na=False)
        assert Counter(zip(*(back[name] for name in TEXTS), strict=True)) == Counter(
            zip(*(columns[name] for name in TEXTS), strict=True)
        )
    assert release.count("age >= 7 AND born < DATE '2000-01-01'").exact


def test_conditions_and_groups_see_nan() -> None:
    rng = np.random.default_rng(6)
    numbers = np.where(rng.random(3000) < 0.3, np.nan, rng.integers(0, 4, 3000) / 2)
    table = pa.table({"q": pa.array(numbers), "s": pa.array(rng.integers(0, 5, 3000))})
    release = dalenius.publish(table, {"theta": 3, "base": "0.1"}, sensitive="s", quasi_identifiers=["q"])
    assert release.count("isnan(q)").bounds == (int(np.isnan(numbers).sum()),) * 2
    groups = release.count("s = 1", group_by="q", learn=False, measure=False)
    assert len(groups) == 5
    assert sum(group.estimate.estimate for group in groups) == pytest.approx(int((table["s"].to_numpy() == 1).sum()))
