"""Releases that are right pass, whatever their columns and however the batches cut them."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.errors import ReleaseError
from dalenius.model.progress import Silent
from dalenius.model.verdict import Outcome, Verdict
from dalenius.policy.limits import LimitPolicy
from dalenius.verify.judge import verify
from tests.handmade import CATEGORY, Handmade, edit_manifest, hospital, many_types, order, restate_hashes, write_table
from tests.verify.generated import assert_passes_and_lower_limits_fail


def failed(verdict: Verdict) -> set[str]:
    """The checks that failed."""
    return {check.check for check in verdict.checks if check.outcome is Outcome.FAILED}


def not_made(verdict: Verdict) -> set[str]:
    """The checks that could not be made."""
    return {check.check for check in verdict.checks if check.outcome is Outcome.NOT_CHECKED}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 5, 1000])
def test_a_right_release_passes(tmp_path: Path, kind: str, batch_rows: int) -> None:
    for made in (hospital(), many_types()):
        if kind == "csv":
            types = {name: pa.string() if pa.types.is_dictionary(t) else t for name, t in made.types.items()}
            made = Handmade(types, made.rows, made.values, made.buckets, limits=made.limits)
        verdict = verify(made.write(tmp_path / "release", kind), batch_rows=batch_rows)
        assert verdict.findings == ()
        assert verdict
        assert verdict.notes == ()
        assert (verdict.rows, verdict.buckets) == (len(made.rows), len(set(made.buckets)))


SENSITIVE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "uint8": (pa.uint8(), [9, 10, 100]),
    "int64": (pa.int64(), [-(2**63), -5, 2**63 - 1]),
    "date32": (pa.date32(), [datetime.date(1999, 12, 31), datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]),
    "decimal": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("10.25")]),
    "decimal32": (pa.decimal32(9, 1), [Decimal("-1.5"), Decimal("0.0"), Decimal("10.2")]),
    "bool": (pa.bool_(), [False, True, True]),
    "double": (pa.float64(), [-0.0, 0.0, math.nan]),
    "float": (pa.float32(), [-2.5, 0.5, 1.5]),
    "large_string": (pa.large_string(), ["a", "b", "é"]),
    "category": (CATEGORY, ["b", "z", "ä"]),
}


@pytest.mark.parametrize("name", SENSITIVE)
@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_sensitive_values_of_every_type(tmp_path: Path, name: str, batch_rows: int) -> None:
    kind, (low, middle, high) = SENSITIVE[name]
    values = [low, high, middle, middle, high, low, low, middle, high, high]
    made = Handmade({"q": pa.int16()}, [(i,) for i in range(10)], values, [1, 1, 2, 2, 2, 2, 3, 3, 3, 3], kind)
    verdict = verify(made.write(tmp_path), batch_rows=batch_rows)
    assert verdict.findings == ()
    assert verdict.verified


def test_no_quasi_identifiers_and_a_single_record(tmp_path: Path) -> None:
    made = Handmade({}, [()], ["Flu"], [1])
    assert verify(made.write(tmp_path))


def test_nulls_count_under_their_name(tmp_path: Path) -> None:
    numbers = Handmade({"q": pa.int8()}, [(0,)] * 4, [1, None, None, 2], [1, 1, 2, 2], pa.int64(), null_value="unknown")
    assert verify(numbers.write(tmp_path / "a"), batch_rows=1)
    edit_manifest(tmp_path / "a", lambda m: m["values"][2].update(limit="1/3"))
    verdict = verify(tmp_path / "a")
    assert failed(verdict) == {"manifest", "limits"}
    assert "'unknown' 1 of 2" in verdict["limits"].summary


def test_nulls_without_a_name_fail(tmp_path: Path) -> None:
    made = hospital(values=["Flu", None, "Flu", "Gout", "HIV", "Flu", "Flu", "Cold", "HIV", "Cold", "Gout", "Flu"])
    verdict = verify(made.write(tmp_path))
    assert failed(verdict) == {"limits", "values"}
    assert "null" in verdict["values"].summary


def test_a_folder_that_is_none_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="no folder"):
        verify(tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReleaseError, match="not a folder"):
        verify(tmp_path / "file")


def test_other_files_and_seeds_are_notes(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path)
    (folder / "source.csv").write_text("secret")
    edit_manifest(folder, lambda m: m.update(randomness="seeded: not for publication"))
    verdict = verify(folder)
    assert verdict.verified
    assert "SEEDED" in verdict.notes[0]
    assert "'source.csv'" in verdict.notes[1]


class Steps(Silent):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int | None]] = []
        self.steps: list[int] = []

    def stage(self, name: str, total: int | None = None, unit: str = "rows") -> None:
        self.stages.append((name, total))

    def advance(self, number: int) -> None:
        self.steps.append(number)


def test_progress_reaches_its_end(tmp_path: Path) -> None:
    progress = Steps()
    verify(hospital().write(tmp_path), progress=progress, batch_rows=5)
    assert progress.stages == [("Verifying", 24)]
    assert sum(progress.steps) == 24
    assert min(progress.steps) > 0


def test_whoever_watches_can_call_it_off(tmp_path: Path) -> None:
    class Interrupted(Steps):
        def advance(self, number: int) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(hospital().write(tmp_path), progress=Interrupted(), batch_rows=1)


def test_names_of_columns_that_look_like_paths(tmp_path: Path) -> None:
    rows = [(1, 2, "x"), (1, 3, "y")]
    made = Handmade({"a": pa.int8(), "a.b": pa.int8(), 'c"d\n': pa.string()}, rows, ["Flu", "HIV"], [1, 1])
    for kind in ("parquet", "csv"):
        assert verify(made.write(tmp_path / kind, kind), against=made.source()).findings == ()


def test_huge_denominators_are_exact(tmp_path: Path) -> None:
    half_less = f"{10**199 // 2 - 1}/{10**199}"
    half_more = f"{10**199 // 2 + 1}/{10**199}"
    limits = {"HIV": "1/4", "Flu": half_more, "Cold": half_more, "Gout": half_more}
    folder = hospital(limits=limits).write(tmp_path)
    assert verify(folder)
    edit_manifest(folder, lambda m: m["values"][1].update(limit=half_less))
    verdict = verify(folder)
    assert failed(verdict) == {"limits", "manifest"}
    assert verdict["limits"].count == 3  # 'Flu' is half of buckets 1, 2 and 3


class TestPublishersLimits:
    """Limits from a job file go before the manifest's."""

    def test_the_same_limits(self, tmp_path: Path) -> None:
        policy = LimitPolicy.of(uniform="3/4", values={"HIV": "1/4", "Flu": "1/2", "Cold": "0.5"})
        verdict = verify(hospital().write(tmp_path), policy=policy)
        assert verdict.verified
        assert verdict.notes == ()

    def test_other_limits_are_noted(self, tmp_path: Path) -> None:
        verdict = verify(hospital().write(tmp_path), policy=LimitPolicy.of(uniform="1/2"))
        assert verdict.verified
        assert "2 values have another limit" in verdict.notes[0]

    def test_tighter_limits_fail(self, tmp_path: Path) -> None:
        verdict = verify(hospital().write(tmp_path), policy=LimitPolicy.of(uniform="0.49"))
        assert failed(verdict) == {"limits"}
        assert verdict["limits"].count == 3

    def test_limits_that_follow_the_counts(self, tmp_path: Path) -> None:
        """HIV has 2 of 12 records: 3/2 of that is the 1/4 that it has in its buckets."""
        folder = hospital().write(tmp_path)
        others = {"Flu": 1, "Cold": 1, "Gout": 1}
        assert verify(folder, policy=LimitPolicy.of(theta="3/2", values=others))
        assert failed(verify(folder, policy=LimitPolicy.of(theta="1.49", values=others))) == {"limits"}

    def test_counts_are_those_of_the_table_and_not_the_manifests(self, tmp_path: Path) -> None:
        folder = hospital().write(tmp_path)
        edit_manifest(folder, lambda m: m["values"][2].update(count=200))
        others = {"Flu": 1, "Cold": 1, "Gout": 1}
        verdict = verify(folder, policy=LimitPolicy.of(theta="1.49", values=others))
        assert failed(verdict) == {"manifest", "limits", "values"}
        assert "'HIV'" in verdict["limits"].summary
        assert failed(verify(folder, policy=LimitPolicy.of(theta="3/2", values=others))) == {"manifest", "values"}

    def test_a_value_that_no_limit_covers(self, tmp_path: Path) -> None:
        verdict = verify(hospital().write(tmp_path), policy=LimitPolicy.of(values={"HIV": "1/4"}))
        assert failed(verdict) == {"limits"}
        assert "no limit covers 3 of 4" in verdict["limits"].summary


CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text("aé\U0001f600\uffff", max_size=2)),
    "category": (CATEGORY, st.sampled_from(["a", "é", "\U0001f600"])),
    "double": (pa.float64(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 1e-300, math.nan])),
    "half": (pa.float32(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.5, math.nan])),
    "decimal": (pa.decimal128(30, 1), st.decimals(-(10**25), 10**25, places=1)),
    "wide": (pa.decimal256(60, 0), st.integers(-(10**55), 10**55).map(Decimal)),
    "date": (pa.date32(), st.dates()),
    "int": (pa.int8(), st.integers(-128, 127)),
    "bool": (pa.bool_(), st.booleans()),
}


@st.composite
def releases(draw: st.DrawFn) -> Handmade:
    """Tables with any columns, cut into buckets of any sizes, with the tightest limits that they keep."""
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=3))
    sizes = sorted(draw(st.lists(st.integers(1, 7), min_size=1, max_size=8)))
    buckets = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    cells = [st.none() | CELLS[kind][1] for kind in kinds]
    rows = [tuple(draw(cell) for cell in cells) for _ in buckets]
    values = draw(st.lists(st.sampled_from(["a", "b", "é", "HIV"]), min_size=len(buckets), max_size=len(buckets)))
    types = {f"{kind}_{place}": CELLS[kind][0] for place, kind in enumerate(kinds)}
    limits: dict[str, str] = {}
    for bucket, size in enumerate(sizes, 1):
        held = Counter(value for number, value in zip(buckets, values, strict=True) if number == bucket)
        for value, count in held.items():
            limits[value] = str(max(Fraction(limits.get(value, "0")), Fraction(count, size)))
    return Handmade(types, rows, values, buckets, limits=limits)


@given(releases(), st.integers(1, 9), st.data())
def test_generated_releases_pass_and_lower_limits_fail(made: Handmade, batch_rows: int, data: st.DataObject) -> None:
    assert_passes_and_lower_limits_fail(made, batch_rows, data)


@given(releases(), st.data())
def test_rows_in_any_other_order_fail(made: Handmade, data: st.DataObject) -> None:
    kinds = {**made.types, "bucket": pa.int64()}
    rows = data.draw(st.permutations([(*row, bucket) for row, bucket in zip(made.rows, made.buckets, strict=True)]))
    ordered = [[order(row[-1]), *map(order, row[:-1])] for row in rows]
    falls = sum(1 for above, below in itertools.pairwise(ordered) if below < above)
    with TemporaryDirectory() as scratch:
        steps = {below[-1] - above[-1] for above, below in itertools.pairwise(rows)}
        folder = made.write(Path(scratch), format=7 if steps <= {0, 1} else 3)  # which alone can say others
        write_table(folder / "qit.parquet", kinds, rows)
        restate_hashes(folder)
        verdict = verify(folder, batch_rows=data.draw(st.integers(1, 9)))
        assert failed(verdict) == ({"order"} if falls else set())
        if falls and not_made(verdict) == set():
            assert verdict["order"].count == falls
