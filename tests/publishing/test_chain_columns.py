"""What chains are made of: types of columns, files, spellings of persons, and what is missing, from year to year."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dalenius.errors import AbsentCodesError, DaleniusError, InputError, NullsError, UsageError
from tests.effort import cases
from tests.over_time import Years, buckets_of

KINDS = {
    "integers": pa.array([1, 2] * 4),
    "decimals": pa.array([Decimal("1.50"), Decimal("2.25")] * 4, pa.decimal128(5, 2)),
    "numbers": pa.array([0.5, 1.5] * 4),
    "truths": pa.array([True, False] * 4),
    "dates": pa.array([datetime.date(2020, 1, 1), datetime.date(2021, 12, 31)] * 4),
    "moments": pa.array([1577836800000000, 1640908812345678] * 4, pa.timestamp("us")),
    "texts": pa.array(["Grippe", "Süß, 'und' \"anders\""] * 4),
    "wide texts": pa.array(["x", "y"] * 4, pa.large_string()),
    "categories": pa.array(["x", "y"] * 4).dictionary_encode(),
}


@pytest.mark.parametrize("form", cases("parquet", "csv", "parts", usually=2))
@pytest.mark.parametrize("role", ["place", "value"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_column(kind: str, role: str, form: Any, tmp_path: Path) -> None:
    columns = {"person": pa.array(list("abcdefgh")), "number": pa.array(range(8)), "place": KINDS["texts"]}
    table = pa.table({**columns, "value": KINDS["texts"], role: KINDS[kind]})
    years = Years(tmp_path, quasi_identifiers=["number", "place"], format=form)
    first = years.publish(table.slice(0, 4))
    second = years.publish(table.slice(1))
    assert second.followed is not None
    assert (second.followed["stayed"], second.followed["new"]) == (3, 4)
    assert second.verify(previous=first, against=table.slice(1)).verified
    types = [[column.type for column in one.manifest.columns.quasi_identifiers] for one in (first, second)]
    assert types[0] == types[1]
    assert first.manifest.columns.sensitive.type == second.manifest.columns.sensitive.type
    old, new = buckets_of(first, "number"), buckets_of(second, "number")
    assert {number: new[number] for number in (1, 2, 3)} == {number: old[number] for number in (1, 2, 3)}


WHOLE = pa.table(
    {
        "person": list("abcdef"),
        "number": range(6),
        "code": ["01", "02", "03", "04", "05", "06"],
        "day": [datetime.date(2000, 1, day) for day in range(1, 7)],
        "value": [1, 2, 1, 2, 1, 2],
    }
)


def as_source(table: pa.Table, kind: str, folder: Path) -> Any:
    path = folder / f"table.{kind}"
    if kind == "csv":
        pyarrow.csv.write_csv(table, path)
        return path
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path)
        return path
    if kind == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("whole", table)
            connection.execute("create or replace table visits as select * from whole")
        return path
    return table.to_pandas() if kind == "pandas" else polars.from_arrow(table)


@pytest.mark.parametrize("then", ["csv", "parquet", "duckdb", "pandas", "polars"])
@pytest.mark.parametrize("now", cases("csv", "parquet", "polars", usually=2))
def test_years_come_from_any_source(now: str, then: str, tmp_path: Path) -> None:
    """A text file has no types of its own: it has those of the release before."""
    years = Years(tmp_path, quasi_identifiers=["number", "code", "day"])
    first = years.publish(as_source(WHOLE.slice(0, 4), now, tmp_path))
    source = as_source(WHOLE, then, tmp_path)
    second = years.publish(source)
    assert second.followed is not None
    assert (second.followed["stayed"], second.followed["new"]) == (4, 2)
    assert [column.type for column in first.manifest.columns.quasi_identifiers] == [
        column.type for column in second.manifest.columns.quasi_identifiers
    ]
    assert second.verify(previous=first, against=source).verified
    assert sorted(second.qit["code"].to_pylist()) == WHOLE["code"].to_pylist()


def test_odd_names_of_columns(tmp_path: Path) -> None:
    names = {"person": 'the "who"', "number": "bucket", "code": "naïve, 'q'", "value": "a=b"}
    table = WHOLE.select(list(names)).rename_columns(list(names.values()))
    years = Years(tmp_path, quasi_identifiers=["bucket", "naïve, 'q'"], sensitive=["a=b"], person='the "who"')
    first, second = years.publish(table.slice(0, 4)), years.publish(table)
    assert second.manifest.columns.bucket == "bucket_2"
    assert second.verify(previous=first, against=table).verified
    assert 'the "who"' not in second.qit.column_names


IDS = [str(uuid.UUID(int=2**100 + number)) for number in range(4)]
SAME: dict[str, tuple[list[Any], list[Any]]] = {
    "numbers and texts": ([1, 2, 3, 4], ["1", "2 ", "3.0", "4.00"]),
    "texts and numbers": ([" 1", "2.0", "3", "4"], [1, 2, 3, 4]),
    "numbers and floats": ([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0]),
    "numbers and decimals": ([1, 2, 3, 4], [Decimal(number) for number in ("1.00", "2.00", "3.00", "4.00")]),
    "large numbers": ([2**60 + n for n in range(4)], [str(2**60 + n) for n in range(4)]),
    "case and blanks": (["Ann", "bob", "Ché", "ÄÖ"], ["ANN", " Bob ", "CHÉ", "äö\t"]),
    "unique identifiers": (IDS, [one.upper() for one in IDS]),
    "dates": ([datetime.date(2000, 1, day) for day in range(1, 5)], [f"2000-01-0{day}" for day in range(1, 5)]),
}


def four(persons: Sequence[Any], values: Sequence[str | None] = ("x", "y", "x", "y")) -> pa.Table:
    return pa.table({"person": persons, "age": range(len(persons)), "value": pa.array(values, pa.string())})


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("encode", [False, True], ids=["plain", "dictionary"])
def test_the_same_person_in_another_spelling(name: str, encode: bool, tmp_path: Path) -> None:
    before, now = SAME[name]
    years = Years(tmp_path)
    first = years.publish(four(before))
    second = years.publish(four(pa.array(now).dictionary_encode() if encode else now))
    assert second.followed is not None
    assert second.followed["stayed"] == 4
    assert buckets_of(first) == buckets_of(second)


@pytest.mark.parametrize(
    ("now", "error", "says"),
    [
        (["a", "b", "c", None], InputError, "1 of 4 rows have no person"),
        (["a", "b", "c", "  "], InputError, "1 of 4 rows have no person"),
        (["a", "b", "c", "C "], UsageError, "1 of 4 rows are of a person who has another one"),
        (["a", "a", "a", "b"], UsageError, "2 of 4 rows are of a person who has another one"),
        (["e", "f", "g", "h"], UsageError, "nobody of the table was in a release of the chain before"),
    ],
)
def test_persons_who_are_nobody_or_several_or_others(
    now: list[str | None], error: type[DaleniusError], says: str, tmp_path: Path
) -> None:
    years = Years(tmp_path)
    years.publish(four(list("abcd")))
    with pytest.raises(error, match=says):
        years.publish(four(now))
    if "nobody of" not in says:
        with pytest.raises(error, match=says):
            Years(tmp_path / "other").publish(four(now))
        assert not (tmp_path / "other").exists()


def test_numbers_that_are_written_with_zeros_before_them_are_other_persons(tmp_path: Path) -> None:
    years = Years(tmp_path)
    years.publish(four(["007", "008", "9", "10"]))
    second = years.publish(four(["7", "8", "9", "10"]))
    assert second.followed is not None
    assert (second.followed["stayed"], second.followed["new"], second.followed["left"]) == (2, 2, 2)


PEOPLE = "abcdefgh"
MISSING: dict[str, tuple[Sequence[str | None], dict[str, Any], Sequence[str | None], dict[str, Any], str | None]] = {
    "the same name": (["x", None] * 2, {"null_value": "n"}, ["x", None] * 2, {"null_value": "n"}, "n"),
    "the name of before": (["x", None] * 2, {"null_value": "n"}, ["x", None] * 3, {}, "n"),
    "nulls for the first time": (["x", "y"] * 2, {}, ["x", "y", "x", "y", None, "x"], {"null_value": "n"}, "n"),
    "nulls left": (["x", None] * 2, {"null_value": "n"}, ["x", None], {}, "n"),
    "nulls that are nobody's": (["x", None] * 2, {"null_value": "n"}, ["x"], {}, "n"),
    "the code of before": (["x", "?"] * 2, {"missing": ["?"]}, ["x", None, "x", "?", "x", "?"], {}, "missing"),
    "a code that is gone": (["x", "?"] * 2, {"missing": ["?"]}, ["x", None] * 2, {"missing": ["?"]}, "missing"),
    "a new code": (["x", "y"] * 2, {}, ["x", "y", "x", "y", "x", "?"], {"missing": ["?"]}, "missing"),
    "no nulls at all": (["x", "y"] * 2, {}, ["x", "y"], {"null_value": "n"}, None),
}


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing(name: str, form: Any, tmp_path: Path) -> None:
    before, options, now, others, called = MISSING[name]
    years = Years(tmp_path, format=form)
    table = four(list(PEOPLE[: len(now)]), now)
    first, second = years.publish(four(list(PEOPLE[: len(before)]), before), **options), years.publish(table, **others)
    assert second.followed is not None
    assert (second.followed["stayed"], second.followed["changed"]) == (min(len(before), len(now)), 0)
    assert second.verify(previous=first, against=table).verified
    if called is not None:
        assert second.manifest.null_value == called
        assert called in {value.value for value in second.manifest.values}


def test_what_is_missing_under_another_name(tmp_path: Path) -> None:
    years = Years(tmp_path)
    years.publish(four(list("abcd"), ["x", None] * 2), null_value="n")
    with pytest.raises(UsageError, match="nulls were called 'n'") as error:
        years.publish(four(list("abcd"), ["x", None] * 2), null_value="m")
    assert error.value.hint == "Say --null-value n."
    other = Years(tmp_path / "other")
    other.publish(four(list("abcd")))
    with pytest.raises(NullsError):
        other.publish(four(list("abcdef"), ["x", "y", "x", "y", "x", None]))
    with pytest.raises(AbsentCodesError, match="'!'"):
        other.publish(four(list("abcd")), missing=["!"])
