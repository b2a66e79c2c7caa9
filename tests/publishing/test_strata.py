"""Releases in strata, from table to verdict. `verify` reads the tree of the manifest with code of its own."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.errors import ChangedInputError, PolicyError, UndecidedError, UsageError
from dalenius.fakes.quotas import draw_fakes
from dalenius.model.memory import resident_memory
from dalenius.place.budget import Budget
from dalenius.place.survey import Sample, smallest_numbers
from dalenius.publishing import stratify as stratifying
from dalenius.publishing.options import StrataChoice
from dalenius.tables.open_table import cast_to_text
from tests.effort import examples
from tests.publishing.test_publishing import check_privacy, tables

KEY = bytes(range(32))


@pytest.fixture
def small_strata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stratifying, "least_stratum_rows", lambda _leaf_rows: 1)
    monkeypatch.setattr(stratifying, "automatic_leaves", lambda _rows, _values, fake_values=0: (2, 6))


def town(rows: int = 4000, seed: int = 1) -> pa.Table:
    """Old people have other diseases than young ones, and what women have differs from what men have."""
    rng = np.random.default_rng(seed)
    age, woman = rng.integers(0, 80, rows), rng.random(rows) < 0.5
    shares = np.array([[6, 3, 2, 1], [1, 4, 3, 2], [2, 2, 2, 4], [1, 1, 5, 3]])
    kind = 2 * (age >= 40) + woman
    disease = (rng.random(rows)[:, None] > np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)[kind]).sum(1)
    names = np.array(["Flu", "Cold", "Gout", "HIV"])
    return pa.table({"Age": age, "Gender": np.where(woman, "F", "M"), "id": np.arange(rows), "Disease": names[disease]})


LIMITS = {"Flu": "0.9", "Cold": "0.8", "Gout": "0.8", "HIV": "0.6"}


def publish(table: Any, **changes: Any) -> dalenius.Release:
    given: dict[str, Any] = {"limits": LIMITS, "sensitive": "Disease", "quasi_identifiers": ["Age", "Gender", "id"]}
    return dalenius.publish(table, **(given | changes))


def number_of_strata(release: dalenius.Release) -> int:
    return len(release.manifest.strata.strata) if release.manifest.strata is not None else 1


@pytest.mark.parametrize("strata", ["auto", 3, ["Gender"], ["Gender", "Age"]], ids=str)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_record_is_in_its_stratum_and_within_the_limits(strata: Any, form: Any) -> None:
    table = town(20_000)
    release = publish(table, strata=strata, format=form)
    assert 1 < number_of_strata(release) <= (3 if strata == 3 else 160)
    check_privacy(release)
    verdict = release.verify(against=table, limits=LIMITS)
    assert verdict.verified, [check for check in verdict.checks if not check.passed]
    assert "strata" in [check.check for check in verdict.checks]


def test_no_bucket_holds_both_genders_if_gender_cuts() -> None:
    release = publish(town(), strata=["Gender"])
    held: dict[int, set[str]] = {}
    for gender, bucket in zip(*(release.qit[name].to_pylist() for name in ("Gender", "bucket")), strict=True):
        held.setdefault(bucket, set()).add(gender)
    assert all(len(genders) == 1 for genders in held.values())
    assert release.manifest.strata is not None
    rows = [stratum.rows for stratum in release.manifest.strata.strata]
    assert rows == [town()["Gender"].to_pylist().count(gender) for gender in "FM"]


def test_strata_are_found_where_the_values_differ() -> None:
    """The id says nothing, so nothing is cut by it."""
    release = publish(town(20_000), strata="auto")
    assert release.manifest.strata is not None
    cut = {node.column for node in release.manifest.strata.tree if hasattr(node, "column")}
    assert cut == {"Age", "Gender"}


@pytest.mark.parametrize("known_records", [0, 1])
@pytest.mark.parametrize("fake_values", [0, 1])
@pytest.mark.parametrize("method", ["optimal", "two-size", "multi-size"])
def test_strata_with_known_records_and_fakes(known_records: int, fake_values: int, method: str) -> None:
    table = town(2000)
    asked = {"known_records": known_records, "fake_values": fake_values}
    release = publish(table, strata=["Gender"], method=method, **asked)
    assert number_of_strata(release) == 2
    assert release.verify(against=table, limits=LIMITS).verified
    sizes = Counter(release.qit["bucket"].to_pylist())
    shown = Counter(release.st["bucket"].to_pylist())
    assert shown == {bucket: size + fake_values for bucket, size in sizes.items()}
    held = Counter(zip(release.st["bucket"].to_pylist(), release.st["Disease"].to_pylist(), strict=True))
    assert all(
        Fraction(count, sizes[bucket] - known_records) <= Fraction(LIMITS[value])
        for (bucket, value), count in held.items()
    )


def test_fakes_that_are_ruled_out_are_exchanged_within_strata() -> None:
    table = town(6000)
    release = publish(table, strata=["Gender"], fake_values=1, avoid_ruled_out=True)
    assert release.verify(against=table, limits=LIMITS).verified


@pytest.mark.usefixtures("small_strata")
@settings(max_examples=examples(60))
@given(
    table=tables(),
    slack=st.fractions(0, 3),
    columns=st.sampled_from([["n"], ["t", "n"], ["n", "t", "f"]]),
    strata=st.sampled_from(["auto", 2, 5, ["n"]]),
    protection=st.sampled_from([{}, {"known_records": 1}, {"fake_values": 1}]),
)
def test_any_table_in_any_strata(
    table: pa.Table, slack: Fraction, columns: list[str], strata: Any, protection: dict[str, int]
) -> None:
    counts = Counter(table["s"].to_pylist())
    limits = {value: min(Fraction(1), Fraction(count, len(table)) * (1 + slack)) for value, count in counts.items()}
    asked = {"strata": strata, "time_limit": 60, "min_size": 1, "publish_in_the_clear": True, **protection}
    try:
        release = dalenius.publish(table, limits, sensitive="s", quasi_identifiers=columns, **asked)
    except dalenius.DaleniusError as error:
        assert protection  # which may leave no room
        assert error.kind in ("no-solution", "undecided", "usage")  # noqa: PT017
        return
    verdict = release.verify(against=table, limits=limits)
    assert verdict.verified, [check for check in verdict.checks if not check.passed]


CUTS: dict[str, list[Any]] = {
    "int8": [-3, -1, 0, 7],
    "uint64": [0, 5, 2**63, 2**64 - 1],
    "float64": [-1.5, -0.0, 0.0, 2.25, float("inf"), float("nan")],
    "bool": [False, True],
    "string": ["", "a", "b'\"\n", "ä", "\U0001f600"],
    "large_string": ["x", "y"],
    "date32": [dt.date(1901, 2, 3), dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    "timestamp[us]": [dt.datetime.fromisoformat(text) for text in ("1969-12-31T23:59:59.999999", "2024-01-01")],
    "timestamp[ns, tz=UTC]": [dt.datetime(1999, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 1, tzinfo=dt.UTC)],
    "time64[us]": [dt.time(1, 2, 3, 4), dt.time(23)],
    "decimal128(9, 2)": [Decimal("-1.50"), Decimal("0.00"), Decimal("7.25")],
}
KINDS: dict[str, pa.DataType] = {
    "timestamp[us]": pa.timestamp("us"),
    "timestamp[ns, tz=UTC]": pa.timestamp("ns", "UTC"),
    "time64[us]": pa.time64("us"),
    "decimal128(9, 2)": pa.decimal128(9, 2),
}


@pytest.mark.usefixtures("small_strata")
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (kind, form)
        for kind in (*CUTS, "categories")
        for form in ("parquet", "csv")
        if (kind, form) != ("time64[us]", "csv")
    ],
)
def test_every_type_can_be_cut(kind: str, form: Any) -> None:
    """Every value has its stratum, and nulls and NaN have one together."""
    cells = CUTS.get(kind, CUTS["string"])
    column = pa.array([*cells, None] * 8, KINDS.get(kind) or pa.type_for_alias("string" if kind not in CUTS else kind))
    column = column.dictionary_encode() if kind not in CUTS else column
    table = pa.table({"q": column, "s": [letter for letter in "abcdabcd" for _ in (*cells, None)]})
    release = dalenius.publish(
        table, {"uniform": "9/10"}, sensitive="s", quasi_identifiers=["q"], strata=["q"], format=form
    )
    verdict = release.verify(against=table)
    assert verdict.verified, [check for check in verdict.checks if not check.passed]
    assert number_of_strata(release) == 1 + sum(cell == cell for cell in cells)  # NaN is not


def test_a_seed_gives_the_same_strata_and_none_gives_others() -> None:
    first, again = (publish(town(20_000), seed=5, strata="auto") for _ in range(2))
    assert (first.path / "manifest.json").read_bytes() == (again.path / "manifest.json").read_bytes()
    assert first.qit.equals(again.qit)
    assert not publish(town(), strata=["Gender"]).qit.equals(publish(town(), strata=["Gender"]).qit)


@pytest.mark.usefixtures("small_strata")
def test_records_are_placed_at_random_within_their_stratum() -> None:
    """Four women and four men, in pairs: over many releases every woman is with every other as often as with any."""
    table = pa.table({"Gender": list("FFFFMMMM"), "id": list(range(8)), "s": list("aabbaabb")})
    met: Counter[tuple[int, int]] = Counter()
    runs = 100
    for _ in range(runs):
        release = dalenius.publish(
            table,
            {"uniform": "3/4"},
            sensitive="s",
            quasi_identifiers=["Gender", "id"],
            strata=["Gender"],
            min_size=2,
            max_size=2,
        )
        buckets: dict[int, list[int]] = {}
        for person, bucket in zip(release.qit["id"].to_pylist(), release.qit["bucket"].to_pylist(), strict=True):
            buckets.setdefault(bucket, []).append(person)
        met.update(tuple(sorted(pair)) for pair in buckets.values())  # type: ignore[misc]
    # a pair is one with value a and one with value b: 0 or 1 with 2 or 3, and 4 or 5 with 6 or 7
    assert set(met) == {(a, b) for a in (0, 1) for b in (2, 3)} | {(a, b) for a in (4, 5) for b in (6, 7)}
    assert all(abs(number - runs / 2) < 5 * (runs / 4) ** 0.5 for number in met.values())


def test_leaves_that_cannot_keep_the_limits_are_merged() -> None:
    """Every woman has one of two diseases, above the limit of one of them: no stratum of women alone can be."""
    rng = np.random.default_rng(2)
    gender = np.array(["F"] * 500 + ["M"] * 1000 + ["X"] * 1000)
    disease = np.concatenate([["HIV"] * 400 + ["Flu"] * 100, rng.choice(["Flu", "Cold", "Gout"], 2000)])
    table = pa.table({"Gender": gender, "Disease": disease})
    asked: dict[str, Any] = {"quasi_identifiers": ["Gender"], "limits": {**LIMITS, "HIV": "1/2"}, "strata": ["Gender"]}
    release = publish(table, **asked)
    assert number_of_strata(release) == 2
    assert release.manifest.strata is not None
    leaves = [node.stratum for node in release.manifest.strata.tree if hasattr(node, "stratum")]
    assert sorted(leaves) in ([1, 1, 2], [1, 2, 2])
    assert release.verify(against=table, limits=asked["limits"]).verified
    one = publish(table, **(asked | {"limits": {**LIMITS, "HIV": "0.17"}}))
    assert number_of_strata(one) == 1


def test_a_table_that_changes_while_strata_are_counted(tmp_path: Path) -> None:
    table = town()
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(table, path)

    class Change:
        def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
            if name == "Solving" and unit == "rows":
                pyarrow.parquet.write_table(table.slice(1), path)

        def advance(self, number: int) -> None:
            """Nothing."""

        def tell(self, sentence: str) -> None:
            """Nothing."""

    with pytest.raises(ChangedInputError):
        publish(path, strata=["Gender"], out=tmp_path / "release", progress=Change())
    assert not (tmp_path / "release").exists()


def test_small_tables_are_not_cut() -> None:
    assert number_of_strata(publish(town(150), strata="auto")) == 1


def test_strata_that_were_asked_for_and_not_made_are_mentioned() -> None:
    table = town(1000).append_column("one", pa.array(["x"] * 1000))
    release = publish(table, quasi_identifiers=["one"], strata=["one"])
    assert number_of_strata(release) == 1
    assert any(note.startswith("the table was not cut") for note in release.notes)


def test_thousands_of_cuts_take_no_time() -> None:
    """Texts are made for a whole column at once."""
    table = town(3000).append_column("fever", pa.array(np.random.default_rng(1).random(3000)))
    with patch("dalenius.tables.open_table.cast_to_text", wraps=cast_to_text) as asked:
        release = publish(table, quasi_identifiers=["fever"], strata=["fever"])
    assert release.verify(against=table).verified
    assert asked.call_count < 20


def test_too_many_combinations_and_columns_without_order_are_refused() -> None:
    table = town(100).append_column("bytes", pa.array([b"x", b"y"] * 50))
    with pytest.raises(UsageError, match="no strata can be made of the column 'bytes'"):
        publish(table, quasi_identifiers=["bytes"], strata=["bytes"])
    with pytest.raises(UsageError, match="combinations of values"):
        publish(town(70_000), strata=["id", "Gender"])
    with pytest.raises(UsageError, match="cut by quasi-identifiers"):
        publish(town(100), strata=["Disease"])
    with pytest.raises(UsageError, match="Did you mean 'Gender'"):
        publish(town(100), strata="gender")


@pytest.mark.parametrize("asked", [0, -1, "-3", True, 1.5, [], "", ["", " "], [1], {"Age": 1}], ids=str)
def test_wishes_that_make_no_sense(asked: Any) -> None:
    with pytest.raises(UsageError):
        StrataChoice.of(asked, ["Age"])


def test_wishes() -> None:
    columns = ["Age", "none"]
    assert StrataChoice.of("auto", columns).kind == "auto"
    assert StrataChoice.of(None, columns) == StrataChoice.of("none", columns) == StrataChoice.of(1, columns)
    assert StrataChoice.of(" 12", columns) == StrataChoice("number", 12)
    assert StrataChoice.of("AUTO ", columns) == StrataChoice("auto")
    assert StrataChoice.of(["12"], ["12"]) == StrataChoice("columns", columns=("12",))
    assert StrataChoice.of("Age", columns) == StrataChoice("columns", columns=("Age",))
    assert StrataChoice.of(["none"], columns) == StrataChoice("columns", columns=("none",))


def batches(rows: int, length: int) -> list[pa.RecordBatch]:
    text = pa.array([f"t{k % 7}" for k in range(rows)]).dictionary_encode()
    return list(pa.table({"k": np.arange(rows), "t": text}).to_batches(max_chunksize=length))


def kept(rows: int, length: int, wanted: int, key: bytes = KEY) -> list[int]:
    sample = Sample(key, wanted)
    for batch in batches(rows, length):
        sample.add(batch)
    found = [k for batch in sample.batches() for k in batch["k"].to_pylist()]
    texts = [text for batch in sample.batches() for text in batch["t"].to_pylist()]
    assert texts == [f"t{k % 7}" for k in found]
    return found


def test_a_sample_does_not_depend_on_batches_and_is_uniform() -> None:
    assert kept(1000, 64, 1000) == list(range(1000))
    found = kept(20_000, 1000, 500)
    assert found == kept(20_000, 20_000, 500) == kept(20_000, 77, 500)
    assert len(found) == 500
    rows = smallest_numbers(KEY, [7_000, 1, 12_999], 500)
    assert found == [int(k) + first for first, some in zip((0, 7_000, 7_001), rows, strict=True) for k in some]
    assert found != kept(20_000, 1000, 500, bytes(32))
    often = Counter(k // 2000 for number in range(40) for k in kept(20_000, 5000, 500, number.to_bytes(32, "big")))
    mean = sum(often.values()) / 10
    assert all(abs(count - mean) < 6 * mean**0.5 for count in often.values())


def test_the_manifest_says_how_the_table_was_cut() -> None:
    release = publish(town(), strata=["Gender"])
    found = json.loads((release.path / "manifest.json").read_text(encoding="utf-8"))["strata"]
    assert found["tree"] == [
        {"column": "Gender", "at_most": "F", "below": 1, "above": 2},
        {"stratum": 1},
        {"stratum": 2},
    ]
    assert Fraction(found["margin"]) < 1


def test_the_publisher_is_told_the_price_and_whether_limits_are_tight() -> None:
    loose = publish(town(20_000), strata="auto").notes
    assert any(" strata the loss is " in note for note in loose)
    assert not any("tight" in note for note in loose)
    tight = publish(town(20_000), strata=["Age", "Gender"], limits={"beta": "0.5"})
    assert number_of_strata(tight) > 1
    assert any(note.startswith("the limits are tight") for note in tight.notes)


def test_buckets_of_one_record_are_those_of_the_strata() -> None:
    asked = {"strata": ["Gender"], "limits": {**LIMITS, "Flu": 1}, "min_size": 1}
    with pytest.raises(PolicyError, match="published outright"):
        publish(town(20_000), **asked)
    release = publish(town(20_000), **asked, publish_in_the_clear=True)
    sizes = Counter(release.qit["bucket"].to_pylist())
    values: dict[int, set[str]] = {}
    for bucket, value in zip(release.st["bucket"].to_pylist(), release.st["Disease"].to_pylist(), strict=True):
        values.setdefault(bucket, set()).add(value)
    assert 1 in sizes.values()
    outright = sum(size for bucket, size in sizes.items() if len(values[bucket]) == 1)
    assert release.exposure is not None
    assert release.exposure.outright == outright
    (concern,) = [concern for concern in release.concerns if concern.code == "in-the-clear"]
    assert (concern.people, str(concern.severity)) == (outright, "stop")


@pytest.mark.parametrize("strata", ["auto", ["Gender"]], ids=str)
@pytest.mark.parametrize("form", ["parquet", "table", "csv"])
def test_records_that_are_kept_and_records_that_are_read_again(
    strata: Any, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room for all records they are read three times, with the same result."""
    table: Any = town(12_000)
    if form == "parquet":
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=5000)
        table = tmp_path / "t.parquet"
    elif form == "csv":
        pyarrow.csv.write_csv(table, tmp_path / "t.csv")
        table = tmp_path / "t.csv"
    made = []
    for fits in (True, False):
        monkeypatch.setattr(Budget, "copy_fits", lambda _self, _rows, fits=fits: fits)
        release = publish(table, strata=strata, seed=3, quasi_identifiers=["Age", "Gender"])
        assert number_of_strata(release) > 1
        made.append([(release.path / name).read_bytes() for name in ("qit.parquet", "st.parquet", "manifest.json")])
    assert made[0] == made[1]


def test_wide_records_in_strata() -> None:
    """Columns that do not fit into 64 bits together: nothing is kept, and the table is sampled by itself."""
    table = town(12_000)
    far = pa.array([2**62 if person % 2 else -(2**62) for person in table["id"].to_pylist()])
    large = pa.array([person * 10**14 for person in table["id"].to_pylist()])
    table = table.append_column("far", far).append_column("large", large)
    release = publish(table, quasi_identifiers=["Age", "Gender", "far", "large"], strata="auto")
    assert number_of_strata(release) > 1
    assert release.verify(against=table, limits=LIMITS).verified


def test_memory_does_not_show_in_the_strata(tmp_path: Path) -> None:
    made = []
    for memory in (500 * 2**20, 3 * 2**30):
        release = publish(town(30_000), strata="auto", seed=1, memory=memory + resident_memory())
        assert number_of_strata(release) > 1
        made.append((release.path / "manifest.json").read_bytes())
    assert made[0] == made[1]


def test_long_records_are_sampled_alike_whether_they_are_kept_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    table = town(6000).append_column("Life", pa.array([f"{'x' * 300}{k % 5}" for k in range(6000)]))
    monkeypatch.setattr(stratifying, "_SAMPLE_BYTES", 2**18)
    made = []
    for fits in (True, False):
        monkeypatch.setattr(Budget, "copy_fits", lambda _self, _rows, fits=fits: fits)
        release = publish(table, strata="auto", seed=3, quasi_identifiers=["Age", "Gender", "Life"])
        made.append((release.path / "manifest.json").read_bytes())
    assert made[0] == made[1]


def test_columns_are_cut_at_values_that_somebody_has() -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"Age": rng.choice([10, 11, 1000], 3000), "Disease": rng.choice(list(LIMITS), 3000)})
    release = publish(table, quasi_identifiers=["Age"], strata=["Age"])
    assert release.manifest.strata is not None
    cuts = {node.at_most for node in release.manifest.strata.tree if hasattr(node, "at_most")}
    assert cuts == {"10", "11"}
    assert number_of_strata(release) == 3


def test_strata_without_a_setting_are_joined_with_the_largest_other() -> None:
    rows = np.array([5, 9, 7])
    leaves = np.array([0, 1, 2, 1])
    assert stratifying._join(leaves, [0], rows).tolist() == [0, 0, 1, 0]
    assert stratifying._join(leaves, [1], rows).tolist() == [0, 1, 1, 1]
    assert stratifying._join(leaves, [0, 1, 2], rows).tolist() == [0, 0, 0, 0]
    release = publish(town(3000), strata=["Gender", "Age"], max_size=3, limits={**LIMITS, "HIV": "1/2"})
    assert release.verify(against=town(3000)).verified
    assert max(group.size for group in release.manifest.setting) <= 3


def test_too_little_memory_for_strata_is_said() -> None:
    with pytest.raises(UsageError, match="--strata none"):
        Budget(10**9, 10**8).check_cells(50_000, 10**8)
    with pytest.raises(UsageError, match="fewer strata"):
        Budget(10**12, 10**12).check_cells(2**18 + 1, 10**6)


def test_the_same_seed_gives_the_same_fakes_in_strata() -> None:
    first, again = (publish(town(12_000), strata="auto", fake_values=1, seed=4) for _ in range(2))
    assert number_of_strata(first) > 1
    assert first.st.equals(again.st)
    assert first.qit.equals(again.qit)


def test_a_stratum_with_no_place_for_its_fakes_is_joined_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def none_for_the_first(*words: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise UndecidedError("no place", "")
        return draw_fakes(*words)

    monkeypatch.setattr(stratifying, "draw_fakes", none_for_the_first)
    table = town(12_000)
    release = publish(table, strata=["Gender", "Age"], fake_values=1)
    assert calls > 2
    assert number_of_strata(release) > 1
    assert release.verify(against=table, limits=LIMITS).verified
