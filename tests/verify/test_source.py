"""--against: the release has exactly the records of the table, counted as multisets."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import NoSuchColumnError
from dalenius.model.memory import resident_memory
from dalenius.tables.compare import SourceTable
from dalenius.verify.judge import verify
from tests.effort import examples
from tests.handmade import Handmade, hospital, many_types, restate_hashes, rewrite
from tests.verify.test_verify import failed


def text_hospital() -> Handmade:
    rows = [(gender, code, str(age)) for gender, code, age in hospital().rows]
    return hospital(types=dict.fromkeys(["Gender", "Zipcode", "Age"], pa.string()), rows=rows)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_same_table_in_every_form(tmp_path: Path, kind: str) -> None:
    folder = text_hospital().write(tmp_path / "release", kind)
    source = text_hospital().source().append_column("Name", pa.array([f"person {i}" for i in range(12)]))
    pyarrow.csv.write_csv(source, tmp_path / "t.csv")
    pyarrow.parquet.write_table(source, tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.register("source", source)
        connection.execute("CREATE TABLE patients AS FROM source")
        connection.execute("CREATE TABLE others (x int)")
    forms = [source, source.to_pandas(), *(str(tmp_path / name) for name in ("t.csv", "t.parquet"))]
    for form in forms:
        assert verify(folder, against=form)
    assert verify(folder, against=tmp_path / "t.duckdb", table="patients")
    with duckdb.connect() as connection:
        assert verify(folder, against=connection.from_arrow(source))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_columns_of_every_type(tmp_path: Path, kind: str) -> None:
    made = many_types()
    if kind == "csv":
        types = {name: pa.string() if pa.types.is_dictionary(t) else t for name, t in made.types.items()}
        made = Handmade(types, made.rows, made.values, made.buckets)
    folder = made.write(tmp_path / "release", kind)
    assert verify(folder, against=made.source()).findings == ()
    pyarrow.parquet.write_table(made.source(), tmp_path / "source.parquet")
    assert verify(folder, against=tmp_path / "source.parquet").findings == ()


def test_a_changed_cell_is_one_missing_and_one_too_many(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)

    def older(rows: list[dict[str, int]]) -> None:
        rows[-1]["Age"] += 1

    rewrite(folder, "qit", older)
    restate_hashes(folder)
    verdict = verify(folder, against=hospital().source())
    assert failed(verdict) == {"source"}
    assert verdict["source"].summary == (
        "the quasi-identifiers in qit.parquet are not those of the table: 1 rows are missing, 1 are too many"
    )


def test_duplicates_are_counted(tmp_path: Path) -> None:
    """Two patients are alike: a release with one of them twice more, and another missing, is not the table."""
    folder = hospital().write(tmp_path)
    source = hospital().source()
    tripled = pa.concat_tables([source, source.slice(4, 1), source.slice(4, 1)])
    verdict = verify(folder, against=tripled)
    assert failed(verdict) == {"source"}
    assert verdict["source"].count == 4
    assert "2 rows are missing, 0 are too many" in verdict["source"].summary


def test_sensitive_values_count_too(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    other = hospital(values=["Cold", *hospital().values[1:]]).source()
    verdict = verify(folder, against=other)
    assert failed(verdict) == {"source"}
    assert "sensitive values" in verdict["source"].summary


def test_named_nulls_are_the_tables_nulls(tmp_path: Path) -> None:
    values = ["Flu", "unknown", "Flu", "unknown"]
    rows, buckets = [(1,), (2,), (3,), (4,)], [1, 1, 2, 2]
    filled = Handmade({"q": pa.int64()}, rows, values, buckets, null_value="unknown")
    folder = filled.write(tmp_path / "text")
    source = Handmade({"q": pa.int64()}, rows, ["Flu", None, "Flu", None], buckets).source()
    assert verify(folder, against=source)
    numbers = Handmade({"q": pa.int64()}, rows, [1, None, 1, None], buckets, pa.int8(), null_value="it's unknown")
    assert verify(numbers.write(tmp_path / "numbers"), against=numbers.source())
    kept = Handmade({"q": pa.int64()}, rows, ["Flu", None, "Flu", None], buckets, null_value="unknown")
    assert failed(verify(kept.write(tmp_path / "kept"))) == {"values"}


def test_the_sign_of_zero_counts(tmp_path: Path) -> None:
    made = Handmade({"q": pa.float64()}, [(0.0,), (math.nan,)], ["a", "b"], [1, 1])
    folder = made.write(tmp_path)
    assert verify(folder, against=made.source())
    assert failed(verify(folder, against=pa.table({"q": [-0.0, math.nan], "Disease": ["a", "b"]}))) == {"source"}


def test_other_widths_of_integers_are_compared_exactly(tmp_path: Path) -> None:
    made = Handmade({"q": pa.int64()}, [(2**53,), (2**53 + 1,)], ["a", "b"], [1, 1])
    folder = made.write(tmp_path)
    assert verify(folder, against=pa.table({"q": pa.array([2**53, 2**53 + 1], pa.uint64()), "Disease": ["a", "b"]}))
    doubles = pa.table({"q": [float(2**53), float(2**53)], "Disease": ["a", "b"]})
    assert failed(verify(folder, against=doubles)) == {"source"}


def test_a_table_without_the_columns_is_wrong_use(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    with pytest.raises(NoSuchColumnError, match="'Age'"):
        verify(folder, against=hospital().source().drop_columns(["Age"]))
    with pytest.raises(NoSuchColumnError, match="'Gender'"):
        verify(folder, against=pd.DataFrame({"x": [1]}))


def test_a_table_that_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    (folder / "qit.parquet").write_bytes(b"garbage")
    verdict = verify(folder, against=hospital().source())
    assert failed(verdict) == {"hashes", "schema"}
    assert "qit.parquet" in verdict["source"].summary


def test_little_memory_is_enough(tmp_path: Path) -> None:
    rows = [(f"somebody {i}" * 4, i) for i in range(20_000)]
    made = Handmade({"name": pa.string(), "number": pa.int64()}, rows, ["a"] * len(rows), [1] * len(rows))
    folder = made.write(tmp_path)
    assert verify(folder, against=made.source(), memory=resident_memory() + 192 * 2**20)


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", None, "é"])), min_size=1, max_size=12), st.data())
def test_differences_are_those_of_multisets(rows: list[tuple[int, str | None]], data: st.DataObject) -> None:
    other = data.draw(st.lists(st.sampled_from(rows), min_size=len(rows), max_size=len(rows)))
    types = {"number": pa.int8(), "text": pa.string()}
    missing = sum((Counter(other) - Counter(rows)).values())
    with TemporaryDirectory() as scratch:
        folder = Handmade(types, rows, ["x"] * len(rows), [1] * len(rows)).write(Path(scratch))
        source = Handmade(types, other, ["x"] * len(rows), [1] * len(rows)).source()
        verdict = verify(folder, against=source)
        assert verdict["source"].count == 2 * missing
        assert verdict.verified == (missing == 0)


def test_every_nan_of_the_table_is_the_one_of_the_release(tmp_path: Path) -> None:
    """A NaN with a sign is `-nan` to DuckDB, and one value to a release."""
    made = Handmade({"q": pa.int16()}, [(i,) for i in range(6)], [1.5, math.nan] * 3, [1, 1, 2, 2, 3, 3], pa.float64())
    folder = made.write(tmp_path)
    patterns = [0x3FF8 << 48, 0xFFF8 << 48, 0x3FF8 << 48, 0x7FF8 << 48, 0x3FF8 << 48, 2**64 - 1]
    signed = pa.table({"q": made.source()["q"], "Disease": pa.array(patterns, pa.uint64()).view(pa.float64())})
    assert verify(folder, against=signed).findings == ()
    with SourceTable.open(signed, None, None) as source:
        assert source.counts_of_values("Disease", None) == {"1.5": 3, "nan": 3}
