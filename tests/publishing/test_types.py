"""Every type that a table can have: published and read back by every command, or refused by name beforehand."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.cli.main import main
from dalenius.errors import InputError, OutputError
from dalenius.place.domains import span_of
from dalenius.release.writer import Format
from dalenius.tables.open_table import cast_to_text
from tests.effort import cases, examples

BERLIN = "Europe/Berlin"
SECOND, DAY = 10**6, 86_400
ROWS = 12


def integers(kind: pa.DataType, *values: int) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).view(kind)


def numbers(kind: pa.DataType, *values: str) -> pa.Array:
    return pa.array([Decimal(value) for value in values], kind)


def categories(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), values)


def plain(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(values, kind)


# two values of each type, which every format can carry unless `PARQUET_ONLY` has it
TYPES: dict[str, pa.Array] = {
    "float16": plain(pa.float16(), np.float16(-1.5), np.float16(65504)),
    "decimal32": numbers(pa.decimal32(9, 2), "-1.50", "9999999.99"),
    "decimal256": numbers(pa.decimal256(38, 3), "-1.500", "9" * 35 + ".999"),
    "time64 ns": integers(pa.time64("ns"), 0, 86_400 * 10**9 - 1),
    "binary": plain(pa.binary(), b"a", b"\xff\x00"),
    "timestamp of a zone": integers(pa.timestamp("us", BERLIN), -62_135_596_800 * SECOND, 253_402_300_800 * SECOND - 1),
    "float64": plain(pa.float64(), math.nan, -math.inf),
    "string_view": plain(pa.string_view(), "a", " b,\n"),
    "category of float16": categories(plain(pa.float16(), np.float16(1), np.float16(2))),
    "date32": integers(pa.date32(), -719_162, 2_932_896),
    "date64": plain(pa.date64(), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    "decimal64": numbers(pa.decimal64(18, 0), "-1", "9" * 18),
    "decimal128": numbers(pa.decimal128(38, 38), "-0." + "9" * 38, "0." + "0" * 37 + "1"),
    "float32": plain(pa.float32(), 1.1754943508222875e-38, 3.4028234663852886e38),
    "float64 ends": plain(pa.float64(), 5e-324, 1.7976931348623157e308),
    "zeros": plain(pa.float64(), -0.0, 0.0),
    "bool": plain(pa.bool_(), False, True),
    "int8": plain(pa.int8(), -128, 127),
    "int64": plain(pa.int64(), -(2**63), 2**63 - 1),
    "uint64": plain(pa.uint64(), 0, 2**64 - 1),
    "timestamp s": integers(pa.timestamp("s"), -719_162 * DAY, 2_932_897 * DAY - 1),
    "timestamp ns": integers(pa.timestamp("ns"), -106_751 * DAY * 10**9, 9_223_372_036 * 10**9 - 1),
    "timestamp by hours": integers(pa.timestamp("ms", "+05:30"), -719_162 * DAY * 1000, 1),
    "time32 s": integers(pa.time32("s"), 0, 86_399),
    "large_string": plain(pa.large_string(), "", "b"),
    "large_binary": plain(pa.large_binary(), b"", b"\xff"),
    "binary_view": plain(pa.binary_view(), b"", b"\xff"),
    "fixed binary": plain(pa.binary(2), b"ab", b"\xff\x00"),
    "category": categories(plain(pa.string(), "a", "b")),
    "category of bytes": categories(plain(pa.binary(), b"a", b"\xff")),
    "category of dates": categories(integers(pa.date32(), 0, 1)),
}
PARQUET_ONLY = {
    *("time64 ns", "binary", "time32 s", "large_binary", "binary_view", "fixed binary", "category of bytes"),
}
WIDE = {  # which Parquet files carry, and CSV files do not
    "dates": integers(pa.date32(), 2 - 2**31, 2**31 - 2),
    "moments": integers(pa.timestamp("us"), -106_751_991 * DAY * SECOND, 9_223_372_036_854 * SECOND - 1),
    "zoned": integers(pa.timestamp("ms", "UTC"), -106_751_991 * DAY * 1000, 9_223_372_036_854 * 1000 - 1),
    "BC": integers(pa.date32(), -719_163, 0),
    "10000": integers(pa.timestamp("s", BERLIN), 0, 2_932_897 * DAY),
}
REFUSED = {
    "duration": integers(pa.duration("s"), 1, 2),
    "category of durations": categories(integers(pa.duration("s"), 1, 2)),
    "long decimal": numbers(pa.decimal256(39, 0), "1", "9" * 39),
    "negative scale": numbers(pa.decimal128(5, -2), "1E+2", "2E+2"),
    "unknown zone": integers(pa.timestamp("us", "Nowhere/City"), 0, 1),
    "times before a day": integers(pa.time32("ms"), -1, 0),
    "times after a day": integers(pa.time64("us"), 0, DAY * SECOND),
    "infinite dates": integers(pa.date32(), 0, 2**31 - 1),
    "infinite moments": integers(pa.timestamp("us"), -(2**63) + 1, 0),
    "far moments": integers(pa.timestamp("s", "UTC"), 0, 2**62),
    "early nanoseconds": integers(pa.timestamp("ns"), -(2**63) + 1, 0),
    "dates with hours": integers(pa.date64(), 1, 86_400_001),
    "intervals": plain(pa.month_day_nano_interval(), (1, 2, 3), (4, 5, 6)),
    "lists": plain(pa.list_(pa.int8()), [1], [2]),
    "structs": plain(pa.struct({"a": pa.int8()}), {"a": 1}, {"a": 2}),
    "UUIDs": pa.ExtensionArray.from_storage(pa.uuid(), plain(pa.binary(16), b"a" * 16, b"b" * 16)),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([1, 2])),
    "no text": pa.Array.from_buffers(pa.string(), 2, plain(pa.binary(), b"a", b"\xff").buffers()),
    "no text in categories": categories(
        pa.Array.from_buffers(pa.string(), 2, plain(pa.binary(), b"a", b"\xff").buffers())
    ),
}


def column(values: pa.Array, shift: int = 0) -> pa.Array:
    """Both values many times."""
    repeated = [values.slice((place + shift) // 2 % 2, 1) for place in range(ROWS)]
    return pa.concat_arrays(repeated)


def publish(table: Any, out: Path, form: Format = "parquet") -> dalenius.Release:
    names = [name for name in table.schema.names if name != "s"]
    return dalenius.publish(
        table,
        {"uniform": 1},
        sensitive="s",
        quasi_identifiers=names,
        out=out,
        format=form,
        strata=None,
        publish_in_the_clear=True,
    )


def every_command(out: Path, source: Path, columns: list[str]) -> None:
    """What all of the commands say; none of them ends with an error."""
    nothing_missing = " AND ".join(f'"{name}" IS NOT NULL' for name in columns)
    for words in (
        ["verify", out, "--against", source],
        ["query", out, nothing_missing, "--group-by", f'"{columns[0]}"', "--no-measure"],
        ["audit", out, "--truth", source],
    ):
        result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
        assert result.exit_code == 0, (words[0], result.output)


def read_back(release: dalenius.Release, name: str, table: pa.Table) -> None:
    """The values of a column are those of the table, as DuckDB writes them."""
    shown = release.st if name == "s" else release.qit
    there = [shown.column(name).combine_chunks(), table.column(name).combine_chunks()]
    plain_ones = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in there]
    casted = plain_ones[1].cast(plain_ones[0].type) if plain_ones[1].type != plain_ones[0].type else plain_ones[1]
    texts = [cast_to_text(a) for a in (plain_ones[0], casted)]
    assert sorted(map(str, texts[0])) == sorted(map(str, texts[1]))


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_type_as_a_quasi_identifier(form: Format, tmp_path: Path) -> None:
    carried = {name: values for name, values in TYPES.items() if form == "parquet" or name not in PARQUET_ONLY} | (
        WIDE | {"nulls": pa.nulls(2)} if form == "parquet" else {}
    )
    table = pa.table({name: column(values, place % 4) for place, (name, values) in enumerate(carried.items())})
    table = table.append_column("s", pa.array(["x", "y"] * (ROWS // 2)))
    source = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table, source)
    release = publish(table, tmp_path / "release", form)
    assert release.verify(against=table).verified
    for name in carried:
        read_back(release, name, table)
    every_command(release.path, source, list(carried))


@pytest.mark.parametrize(
    ("name", "form"),
    cases(
        ("float16", "csv"),
        ("decimal256", "parquet"),
        ("decimal32", "csv"),
        ("binary", "parquet"),
        ("timestamp of a zone", "csv"),
        *((name, "parquet") for name in TYPES),
        *((name, "csv") for name in TYPES if name not in PARQUET_ONLY),
        usually=5,
    ),
)
def test_every_type_as_the_sensitive_column(name: str, form: Format, tmp_path: Path) -> None:
    table = pa.table({"q": pa.array([1, 2, 3] * (ROWS // 3)), "s": column(TYPES[name])})
    source = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(table, source)
    release = publish(table, tmp_path / "release", form)
    assert len(release.manifest.values) == 2
    assert release.verify(against=table).verified
    read_back(release, "s", table)
    every_command(release.path, source, ["q", "s"])


@pytest.mark.parametrize("role", ["q", "s"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_some_reader_could_not_read_is_refused(name: str, role: str, tmp_path: Path) -> None:
    try:
        odd = column(REFUSED[name])
    except pa.ArrowNotImplementedError:
        odd = pa.concat_arrays([REFUSED[name]] * (ROWS // 2))
    table = pa.table({"q": pa.array([1, 2] * (ROWS // 2)), "s": pa.array(["x", "y"] * (ROWS // 2))})
    table = table.set_column(table.schema.names.index(role), role, odd)
    with pytest.raises(InputError) as caught:
        publish(table, tmp_path / "release")
    assert repr(role) in caught.value.message or name == "dates with hours"
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("role", ["q", "s"])
@pytest.mark.parametrize("name", WIDE)
def test_dates_that_a_csv_file_cannot_carry_are_refused_there(name: str, role: str, tmp_path: Path) -> None:
    table = pa.table({"q": pa.array([1, 2] * (ROWS // 2)), "s": pa.array(["x", "y"] * (ROWS // 2))})
    table = table.set_column(table.schema.names.index(role), role, column(WIDE[name]))
    with pytest.raises(OutputError, match=f"'{role}' has dates outside of the years 1 to 9999") as caught:
        publish(table, tmp_path / "release", "csv")
    assert "Parquet" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["file.parquet", "folder"])
def test_plan_and_publish_name_the_column_with_bytes_that_are_no_text(where: str, tmp_path: Path) -> None:
    """Arrow reads a file, and DuckDB a folder of them: it does not say which column."""
    table = pa.table({"q": pa.array(["x", "y"] * (ROWS // 2)), "s": column(REFUSED["no text"])})
    path = tmp_path / where
    if where == "folder":
        path.mkdir()
    pyarrow.parquet.write_table(table, path / "part.parquet" if where == "folder" else path)
    for words in (
        ["plan", path, "--sensitive", "s", "--odds", "4"],
        ["publish", path, "--sensitive", "q", "--quasi-identifiers", "s", "--odds", "4", "--out", tmp_path / "out"],
    ):
        result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
        assert result.exit_code == 2
        assert "the text column 's' has bytes that are not UTF-8\nWrite the table anew" in result.output


def test_a_year_0_in_a_text_file_stays_text(tmp_path: Path) -> None:
    source = tmp_path / "table.csv"
    source.write_text("q,s\n" + "0000-01-01,x\n2000-01-01,y\n" * 4)
    release = dalenius.publish(
        source, {"uniform": 1}, sensitive="s", quasi_identifiers=["q"], out=tmp_path / "release", format="csv"
    )
    assert release.manifest.columns.quasi_identifiers[0].type == "string"
    assert release.verify(against=source).verified


KINDS = [pa.date32(), *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC"))]


@settings(max_examples=examples(60))
@given(kind=st.sampled_from(KINDS), data=st.data())
def test_texts_of_dates_and_times_in_the_span_of_text_give_them_back(kind: pa.DataType, data: st.DataObject) -> None:
    """What is written to a CSV file by Arrow is read back by Arrow unchanged."""
    span = span_of(kind, as_text=True)
    assert span is not None
    values = integers(kind, *data.draw(st.lists(st.integers(*span), min_size=1)), *span)
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table({"v": values}), sink)
    options = pyarrow.csv.ConvertOptions(column_types={"v": pa.string()})
    read = pyarrow.csv.read_csv(pa.BufferReader(sink.getvalue()), convert_options=options)
    assert read.column("v").combine_chunks().cast(kind).equals(values)


NUMBERS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.decimal128(38, 19), st.decimals(-(10**18), 10**18, places=19)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
]


@settings(max_examples=examples(20))
@given(chosen=st.sampled_from(NUMBERS), data=st.data())
def test_numbers_come_back_from_a_csv_release(
    chosen: tuple[pa.DataType, st.SearchStrategy[Any]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kind, numbers_of = chosen
    values = pa.array(data.draw(st.lists(numbers_of, min_size=4, max_size=8)), kind)
    table = pa.table({"q": values, "s": pa.array(["x", "y"] * len(values))[: len(values)]})
    release = publish(table, tmp_path_factory.mktemp("csv") / "release", "csv")
    assert release.verify(against=table).verified
    assert release.count("q IS NULL", learn=False, measure=False).estimate == 0
