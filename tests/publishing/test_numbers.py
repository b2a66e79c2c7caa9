"""Sensitive numbers: limits are on bands, numbers are published as they are, and every record takes its own along."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.errors import AbsentCodesError, InputError, PolicyError, UsageError
from dalenius.place.budget import Budget
from tests.effort import examples

CUTS = "cuts:-5,0,10.5,100"
POLICY = {"odds": 6, "grouping": CUTS}
ROWS = 600


def table(numbers: pa.Array, wide: bool = False) -> pa.Table:
    """Everybody has a key of their own, by which their number can be told again."""
    key = np.random.default_rng(1).permutation(len(numbers))
    columns: dict[str, Any] = {"key": pa.array(key), "number": numbers}
    if wide:  # does not fit into 64 bits
        columns["long"] = pa.array([f"{k * 7919:020d}" for k in key])
        columns["float"] = pa.array(key * 1.1)
    return pa.table(columns)


def whole(rows: int = ROWS) -> list[int]:
    return [int(n) for n in np.random.default_rng(2).normal(20, 60, rows)]


def kinds() -> dict[str, pa.Array]:
    numbers = whole()
    return {
        "int64": pa.array(numbers),
        "int16": pa.array([max(-300, min(300, n)) for n in numbers], pa.int16()),
        "uint64": pa.array([abs(n) for n in numbers], pa.uint64()),
        "double": pa.array([n / 8 for n in numbers[:-2]] + [-0.0, 0.0]),
        "float": pa.array([n / 10 for n in numbers], pa.float32()),
        "decimal": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(12, 3)),
        "nulls": pa.array([None if n % 7 == 0 else n for n in numbers]),
    }


def published(released: dalenius.Release) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    qit, st = (
        pyarrow.parquet.read_table(Path(released.path) / name).to_pylist() for name in ("qit.parquet", "st.parquet")
    )
    return qit, st


def by_bucket(rows: list[dict[str, Any]], value: Any) -> dict[int, list[Any]]:
    buckets: dict[int, list[Any]] = {}
    for row in rows:
        buckets.setdefault(row["bucket"], []).append(value(row))
    return buckets


def sorted_nulls_last(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value is None, value if value is not None else 0))


@pytest.mark.parametrize("kind", list(kinds()))
@pytest.mark.parametrize("wide", [False, True])
def test_every_bucket_has_the_numbers_of_its_records(kind: str, wide: bool, tmp_path: Path) -> None:
    made = table(kinds()[kind], wide)
    quasi = [name for name in made.column_names if name != "number"]
    released = dalenius.publish(
        made, sensitive="number", quasi_identifiers=quasi, limits=POLICY, out=tmp_path / "r", null_value="missing"
    )
    own = dict(zip(made["key"].to_pylist(), made["number"].to_pylist(), strict=True))
    qit, st = published(released)
    expected = by_bucket(qit, lambda row: own[row["key"]])
    found = by_bucket(st, lambda row: row["number"])
    assert found == {bucket: sorted_nulls_last(numbers) for bucket, numbers in expected.items()}
    assert released.verify(against=made).verified
    assert released.manifest.bands == ["-5", "0", "10.5", "100"]


def band(number: float | None) -> str:
    if number is None:
        return "missing"
    names = ["below -5", "-5 to below 0", "0 to below 10.5", "10.5 to below 100", "100 and above"]
    return names[sum(number >= cut for cut in (-5, 0, 10.5, 100))]


@pytest.mark.parametrize("kind", list(kinds()))
def test_no_bucket_has_more_of_a_band_than_its_limit(kind: str, tmp_path: Path) -> None:
    made = table(kinds()[kind])
    released = dalenius.publish(
        made, sensitive="number", quasi_identifiers=["key"], limits=POLICY, out=tmp_path / "r", null_value="missing"
    )
    numbers = made["number"].to_pylist()
    counted = {name: sum(band(n) == name for n in numbers) for name in {band(n) for n in numbers}}
    assert {value.value: value.count for value in released.manifest.values} == counted
    _, st = published(released)
    for values in by_bucket(st, lambda row: band(row["number"])).values():
        for name in set(values):
            share = counted[name] / len(numbers)
            limit = max(0.02, 6 * share / (1 - share + 6 * share))
            assert values.count(name) / len(values) <= limit + 1e-12


def test_a_little_memory_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(kinds()["int64"])
    options: dict[str, Any] = {"sensitive": "number", "quasi_identifiers": ["key"], "limits": POLICY}
    first = dalenius.publish(made, out=tmp_path / "a", seed=7, **options)
    monkeypatch.setattr(Budget, "copy_fits", lambda self, rows: False)
    monkeypatch.setattr(Budget, "keys_fit", lambda self, rows: False)
    second = dalenius.publish(made, out=tmp_path / "b", seed=7, **options)
    assert [value.worst for value in first.manifest.values] == [value.worst for value in second.manifest.values]
    assert sorted(row["number"] for row in published(second)[1]) == sorted(made["number"].to_pylist())


def test_a_text_file_has_numbers_too(tmp_path: Path) -> None:
    made = table(kinds()["int64"])
    pyarrow.csv.write_csv(made, tmp_path / "t.csv")
    released = dalenius.publish(
        tmp_path / "t.csv", sensitive="number", quasi_identifiers=["key"], limits=POLICY, out=tmp_path / "r"
    )
    assert released.manifest.columns.sensitive.type == "int64"
    assert sorted(row["number"] for row in published(released)[1]) == sorted(made["number"].to_pylist())
    assert released.verify(against=tmp_path / "t.csv").verified


def test_quantiles_and_widths_become_cuts(tmp_path: Path) -> None:
    made = table(kinds()["int64"])
    for grouping in ("quantiles:4", "width:50"):
        released = dalenius.publish(
            made,
            sensitive="number",
            quasi_identifiers=["key"],
            limits={"odds": 6, "grouping": grouping},
            out=tmp_path / grouping[:3],
        )
        plan = dalenius.plan(made, {"odds": 6, "grouping": grouping}, sensitive="number")
        assert {value.value: value.count for value in released.manifest.values} == dict(
            zip(plan.problem.values, plan.problem.counts, strict=True)
        )


def test_fewer_bands_than_were_asked_for_are_told() -> None:
    mostly_zero = table(pa.array([0] * 70 + [*range(1, 31)]))
    asked: dict[str, Any] = {"sensitive": "number", "limits": {"uniform": "0.9", "grouping": "quantiles:8"}}
    note = "there are 4 bands and not 8: too many records have the same number"
    assert note in dalenius.publish(mostly_zero, quasi_identifiers=["key"], **asked).notes
    assert note in dalenius.plan(mostly_zero, **asked).notes


def test_a_band_has_a_limit_by_its_name(tmp_path: Path) -> None:
    policy = {**POLICY, "groups": {"100 and above": "0.2"}}
    released = dalenius.publish(
        table(kinds()["int64"]), sensitive="number", quasi_identifiers=["key"], limits=policy, out=tmp_path / "r"
    )
    assert {value.value: value.limit for value in released.manifest.values}["100 and above"] == "1/5"


@pytest.mark.parametrize(
    ("numbers", "options", "error", "words"),
    [
        (pa.array(["a", "b"] * 20), {}, InputError, "text that is no number"),
        (pa.array([True, False] * 20), {}, InputError, "bool"),
        (pa.array([float("nan"), 1.0] * 20), {}, InputError, "NaN"),
        (pa.array([None, 1] * 20), {}, InputError, "null"),
        (pa.array([1, 2] * 20), {"fake_values": 1}, UsageError, "fake values"),
        (pa.array([1, 2] * 20), {"limits": {**POLICY, "groups": {"above 7": "0.2"}}}, PolicyError, "above 7"),
    ],
)
def test_what_cannot_be(
    numbers: pa.Array, options: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=words):
        dalenius.publish(
            table(numbers),
            sensitive="number",
            quasi_identifiers=["key"],
            **{"limits": POLICY, **options},
            out=tmp_path / "r",
        )
    assert not (tmp_path / "r").exists()


def test_codes_for_what_is_missing_and_people_set_apart(tmp_path: Path) -> None:
    """Numbers in a text file with a code, and a number that is a code: nulls in ST, which may be set apart."""
    numbers = whole()
    coded = [None if k % 9 == 0 else -99 if k % 9 == 1 else n for k, n in enumerate(numbers)]
    made = table(pa.array(coded))
    texts = made.set_column(1, "number", pa.array(["N" if n is None else str(n) for n in coded]))
    pyarrow.csv.write_csv(texts, tmp_path / "t.csv")
    absent = sum(n in (None, -99) for n in coded)
    asked: dict[str, Any] = {"sensitive": "number", "quasi_identifiers": ["key"], "limits": POLICY}
    for source, codes in ((tmp_path / "t.csv", ["N", "-99"]), (made, ["-99"])):
        for apart in ([], ["missing"]):
            out = tmp_path / f"{len(codes)}{len(apart)}"
            released = dalenius.publish(source, missing=codes, not_applicable=apart, out=out, **asked)
            st = [row["number"] for row in published(released)[1]]
            assert st.count(None) == absent
            assert sorted(n for n in st if n is not None) == sorted(n for n in coded if n not in (None, -99))
            stated = {value.value: (value.count, value.applies) for value in released.manifest.values}
            assert stated["missing"] == (absent, not apart)
            assert released.verify(against=source).verified
            plan = dalenius.plan(source, POLICY, sensitive="number", missing=codes, not_applicable=apart)
            assert ("missing" in plan.problem.values) is not bool(apart)
    with pytest.raises(UsageError, match="a band of numbers applies"):
        dalenius.publish(made, missing=["-99"], not_applicable=["100 and above"], **asked)
    with pytest.raises(AbsentCodesError, match="987654"):
        dalenius.publish(made, missing=["987654"], **asked)


@st.composite
def nested(draw: st.DrawFn) -> tuple[list[int | None], list[list[int]]]:
    """Some numbers, a few of them missing, and cuts of two or three levels."""
    numbers = draw(st.lists(st.none() | st.integers(0, 9), min_size=30, max_size=60))
    levels = [sorted(draw(st.sets(st.integers(1, 9), min_size=3, max_size=6)))]
    for _ in range(draw(st.integers(1, 2))):
        levels.insert(0, sorted(draw(st.sets(st.sampled_from(levels[0]), min_size=1, max_size=len(levels[0])))))
    return numbers, [cuts for place, cuts in enumerate(levels) if not place or cuts != levels[place - 1]]


@given(nested())
@settings(max_examples=examples(24))
def test_no_bucket_has_more_of_a_band_of_any_level_than_its_limit(
    case: tuple[list[int | None], list[list[int]]],
) -> None:
    """Against an oracle: every range between neighbouring cuts of every level, counted number by number."""
    numbers, levels = case
    asked: dict[str, Any] = {"sensitive": "number", "quasi_identifiers": ["key"], "null_value": "missing"}
    policy = {"odds": 3, "grouping": {"cuts": levels}}
    with tempfile.TemporaryDirectory() as folder:
        made = table(pa.array(numbers, pa.int64()))
        released = dalenius.publish(made, policy, out=f"{folder}/r", publish_in_the_clear=True, **asked)
        _, rows = published(released)
        assert released.verify(against=made).verified
    buckets = by_bucket(rows, lambda row: row["number"])
    stated = {group.name: group.count for group in released.manifest.groups or ()}
    for cuts in levels:
        ends = [-99, *cuts, 99]
        for low, high in pairwise(ends):
            inside = [low <= n < high for n in numbers if n is not None]
            share = Fraction(sum(inside), len(numbers))
            limit = max(Fraction(1, 50), 3 * share / (1 - share + 3 * share))
            name = f"{low} to below {high}" if low > -99 else f"below {high}"
            name = name if high < 99 else f"{low} and above"
            if cuts != levels[-1]:
                assert stated.get(name, 0) == sum(inside)
            for held in buckets.values():
                assert sum(n is not None and low <= n < high for n in held) <= limit * len(held)
