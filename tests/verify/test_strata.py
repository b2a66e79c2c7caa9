"""Releases in strata: every row is led through the tree as docs/release-format.md has it, whatever the columns."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.tables.arrays import texts
from dalenius.verify.judge import verify
from dalenius.verify.thresholds import Ranks, UnreadableError, can_be_cut, threshold
from tests.handmade import CATEGORY, Handmade, column, cut_text, hospital, in_strata, many_types, order, three_strata
from tests.verify.test_verify import failed

FLOATS = [-math.inf, -1.5, -0.0, 0.0, 5e-324, 0.5, 1e300, math.inf]
MOMENT = datetime.datetime(2020, 2, 29, 23, 59, 59, 1000)  # noqa: DTZ001
moments = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))  # noqa: DTZ001
recent = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))  # noqa: DTZ001
CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text("aé\U0001f600\uffff", max_size=2)),
    "large": (pa.large_string(), st.text("ab", max_size=3)),
    "category": (CATEGORY, st.sampled_from(["", "a", "é", "\U0001f600", "\uffff"])),
    "double": (pa.float64(), st.sampled_from([*FLOATS, math.nan])),
    "single": (pa.float32(), st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.5, math.nan])),
    "half": (pa.float16(), st.sampled_from([-1.5, -0.0, 0.0, 0.5, math.nan])),
    "decimal": (pa.decimal128(30, 1), st.decimals(-(10**25), 10**25, places=1)),
    "narrow": (pa.decimal64(12, 2), st.decimals(-10, 10, places=2)),
    "wide": (pa.decimal256(60, 0), st.integers(-(10**55), 10**55).map(Decimal)),
    "date": (pa.date32(), st.dates()),
    "moment": (pa.timestamp("us"), moments),
    "second": (pa.timestamp("ms"), moments.map(lambda moment: moment.replace(microsecond=0))),
    "nano": (pa.timestamp("ns"), recent),
    "zoned": (pa.timestamp("us", tz="UTC"), moments.map(lambda moment: moment.replace(tzinfo=datetime.UTC))),
    "time": (pa.time64("us"), st.times()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(2**64 - 3, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
}


def is_nan(cell: Any) -> bool:
    return isinstance(cell, float) and math.isnan(cell)


@given(st.sampled_from(sorted(CELLS)), st.data())
def test_ranks_are_counts_of_the_cuts_below(name: str, data: st.DataObject) -> None:
    kind, strategy = CELLS[name]
    cuts = data.draw(st.lists(strategy.filter(lambda cell: not is_nan(cell)), min_size=1, max_size=5))
    cells = data.draw(st.lists(st.none() | strategy | st.sampled_from(cuts), max_size=30))
    ranks = Ranks(kind, [cut_text(cut) for cut in cuts])
    different = sorted({order(cut) for cut in cuts})
    assert len(ranks) == len(different)
    assert ranks.places.tolist() == [different.index(order(cut)) for cut in cuts]
    expected = [
        len(different) if cell is None or is_nan(cell) else sum(cut < order(cell) for cut in different)
        for cell in cells
    ]
    whole = column(kind, cells * 7)
    for part in (whole, whole.slice(min(3, len(whole)))):
        assert ranks.of(part).tolist() == (expected * 7)[len(whole) - len(part) :]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
def test_ranks_at_the_ends_of_integers(kind: pa.DataType) -> None:
    width, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    ranks = Ranks(kind, [str(high), str(low), str(high - 1)])
    assert ranks.places.tolist() == [2, 0, 1]
    for cells in ([low, low + 1, high - 1, high], [high - 1, high] * 20, [low, low + 1] * 20):
        assert ranks.of(pa.array(cells, kind)).tolist() == [
            [low, high - 1, high].index(c) if c in (low, high - 1, high) else 1 for c in cells
        ]


@given(st.sampled_from(sorted(CELLS)), st.data())
def test_the_text_of_every_value_is_read_as_it(name: str, data: st.DataObject) -> None:
    """As the handmade writer spells it, and as the engine does for sensitive values, if it can."""
    kind, strategy = CELLS[name]
    cell = data.draw(strategy.filter(lambda cell: not is_nan(cell)))
    written = column(kind, [cell])
    plain = written.dictionary_decode() if kind == CATEGORY else written
    assert threshold(cut_text(cell), kind)[0].equals(plain[0])
    if name not in ("half", "wide"):
        (text,) = texts(plain)
        assert text is not None
        assert threshold(text, kind)[0].equals(plain[0])


@pytest.mark.parametrize("days", [-800_000, -719_529, -719_528, -719_163, -719_162, -1, 0, 59, 2_932_897, 4_000_000])
def test_dates_before_the_first_year_and_after_9999(days: int) -> None:
    written = pa.array([days], pa.int32()).view(pa.date32())
    (text,) = texts(written)
    assert text is not None
    assert threshold(text, pa.date32()).view(pa.int32()).to_pylist() == [days]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (pa.int8(), ["", "128", "007", "+1", "1.0", "0x10", " 1", "١", "1_0", "9" * 5000]),
        (pa.uint64(), ["-1", "-0", str(2**64)]),
        (pa.bool_(), ["1", "True", ""]),
        (pa.float64(), ["", "nan", "NaN", "-nan", "1e400", "one", " 1"]),
        (pa.float16(), ["1e6"]),
        (pa.decimal128(5, 2), ["1.234", "10000.00", "x", ""]),
        (
            pa.date32(),
            ["2020-1-1", "2021-02-29", "2020-13-01", "2020-00-01", "2020-01-00", "20200101", "9999999-01-01"],
        ),
        (pa.timestamp("us"), ["2020-01-01", "2020-01-01 00:00:00+00", "2020-01-01T00:00:00", "2020-01-01 00:60:00"]),
        (pa.timestamp("us", tz="UTC"), ["2020-01-01 00:00:00", "2020-01-01 00:00:00+01"]),
        (pa.timestamp("ms"), ["2020-01-01 00:00:00.0001"]),
        (pa.timestamp("ns"), ["2300-01-01 00:00:00"]),
        (pa.time64("us"), ["25:00:00", "1:00:00", "00:00:61", "00:00:00.0000001"]),
        (pa.string(), ["\ud800"]),
        (CATEGORY, ["\ud800"]),
    ],
    ids=str,
)
def test_texts_that_are_no_value(kind: pa.DataType, wrong: list[str]) -> None:
    assert can_be_cut(kind)
    for text in wrong:
        with pytest.raises(UnreadableError):
            threshold(text, kind)


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(3), pa.duration("us"), pa.null(), pa.date64()], ids=str)
def test_types_that_are_not_cut(kind: pa.DataType) -> None:
    assert not can_be_cut(kind)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 5, 1000])
def test_a_right_release_passes(tmp_path: Path, kind: str, batch_rows: int) -> None:
    merged = in_strata(
        hospital(limits={}), [("Age", 22, 1, 2), 1, ("Gender", "F", 3, 4), 2, ("Age", 42, 5, 6), 1, 2], [2]
    )
    whole = hospital(tree=[1])
    for made in (three_strata(), merged, whole):
        if kind == "csv":
            types = {name: pa.string() if pa.types.is_dictionary(t) else t for name, t in made.types.items()}
            made = hospital(types=types, tree=made.tree, buckets=made.buckets, limits={})
        verdict = verify(made.write(tmp_path / "release", kind), batch_rows=batch_rows)
        assert verdict.findings == ()
        assert verdict["strata"].passed
        assert verdict.notes == ()


def test_a_release_without_strata_has_no_such_check(tmp_path: Path) -> None:
    verdict = verify(hospital().write(tmp_path))
    assert "strata" not in {check.check for check in verdict.checks}


def test_strata_by_every_type_at_once(tmp_path: Path) -> None:
    made = many_types()
    cuts: list[tuple[str, Any]] = [
        ("name", "Zoë"),
        ("day", datetime.date(1950, 12, 31)),
        ("money", Decimal("0.01")),
        ("flag", False),
        ("ratio", -0.0),
        ("big", 0),
        ("small", 0.0),
        ("kind", "y"),
    ]
    for name, value in cuts:
        stratified = in_strata(made, [(name, value, 1, 2), 1, 2], [2])
        assert len(set(map(stratified.stratum, made.rows))) == 2
        assert verify(stratified.write(tmp_path), batch_rows=3).findings == ()


@st.composite
def trees(draw: st.DrawFn, columns: dict[str, st.SearchStrategy[Any]]) -> list[tuple[str, Any, int, int] | int]:
    """Any tree with up to seven cuts, its places in any order that is allowed, leaves with numbers up to 4."""
    tree: list[Any] = [None]
    open_places = [0]
    for _ in range(draw(st.integers(0, 7)) if columns else 0):
        place = open_places.pop(draw(st.integers(0, len(open_places) - 1)))
        name = draw(st.sampled_from(sorted(columns)))
        children = [len(tree), len(tree) + 1]
        if draw(st.booleans()):
            children.reverse()
        tree[place] = (name, draw(columns[name].filter(lambda cell: not is_nan(cell))), *children)
        tree += [None, None]
        open_places += children
    return [draw(st.integers(1, 4)) if node is None else node for node in tree]


@st.composite
def stratified(draw: st.DrawFn) -> Handmade:
    names = draw(st.lists(st.sampled_from(sorted(CELLS)), max_size=3))
    columns = {f"{name}_{place}": CELLS[name] for place, name in enumerate(names)}
    # cells and cuts are drawn from a few values, so that they meet
    pools = {
        name: draw(st.lists(strategy, min_size=1, max_size=4).filter(lambda pool: not all(map(is_nan, pool))))
        for name, (_, strategy) in columns.items()
    }
    number = draw(st.integers(1, 25))
    rows = [tuple(draw(st.none() | st.sampled_from(pool)) for pool in pools.values()) for _ in range(number)]
    values = draw(st.lists(st.sampled_from("abc"), min_size=number, max_size=number))
    made = Handmade({name: kind for name, (kind, _) in columns.items()}, rows, values, [1] * number)
    there = [{row[place] for row in rows} for place in range(len(pools))]
    cuts = {  # texts are those of some row
        name: [cell for cell in pool if not isinstance(cell, str) or cell in cells]
        for (name, pool), cells in zip(pools.items(), there, strict=True)
    }
    tree = draw(trees({name: st.sampled_from(pool) for name, pool in cuts.items() if pool}))
    return in_strata(made, tree, draw(st.lists(st.integers(1, 4), max_size=6)))


@pytest.mark.parametrize(("cut", "refused"), [("54322", False), ("54322, and Ann has HIV", True), ("", True)])
def test_a_column_of_text_is_cut_at_what_a_row_has(tmp_path: Path, cut: str, refused: bool) -> None:
    made = in_strata(hospital(limits={}), [("Zipcode", cut, 1, 2), 1, 2], [])
    assert failed(verify(made.write(tmp_path / "now"))) == ({"strata"} if refused else set())
    assert verify(made.write(tmp_path / "then", format=3)).verified


@given(stratified(), st.integers(1, 9))
def test_generated_strata_pass(made: Handmade, batch_rows: int) -> None:
    with TemporaryDirectory() as scratch:
        verdict = verify(made.write(Path(scratch)), batch_rows=batch_rows)
        assert verdict.findings == ()
        assert verdict.verified


@given(stratified(), st.integers(1, 9), st.data())
def test_rows_in_buckets_of_another_stratum_are_counted(made: Handmade, batch_rows: int, data: st.DataObject) -> None:
    """Rows are dealt to the buckets anew: sizes and order stay right, and the strata of rows do not."""
    stated = made.strata()
    shuffled = data.draw(st.permutations(list(made.rows)))
    by_bucket = {bucket: made.stratum(row) for row, bucket in zip(made.rows, made.buckets, strict=True)}
    wrong = sum(made.stratum(row) != by_bucket[bucket] for row, bucket in zip(shuffled, made.buckets, strict=True))

    class Stated(Handmade):
        def strata(self, format: int = 6) -> dict[str, Any] | None:
            return stated

    other = Stated(made.types, shuffled, made.values, made.buckets, tree=made.tree)
    with TemporaryDirectory() as scratch:
        verdict = verify(other.write(Path(scratch)), batch_rows=batch_rows)
        assert failed(verdict) == ({"strata"} if wrong else set())
        assert verdict["strata"].count == wrong


def test_many_strata_in_large_batches(tmp_path: Path) -> None:
    """Two hundred strata, some of leaves far apart, against the naive tree."""
    rng = np.random.default_rng(3)
    tree: list[Any] = []

    def grow(low: int, high: int) -> int:
        place = len(tree)
        tree.append(None)
        if high - low == 1:
            tree[place] = 1 + (low % 200 if low < 250 else low % 7)
            return place
        middle = (low + high) // 2
        tree[place] = ("a", middle - 1, grow(low, middle), grow(middle, high))
        return place

    grow(0, 300)
    rows = [(int(a), "xyz"[b]) for a, b in zip(rng.integers(0, 300, 5000), rng.integers(0, 3, 5000), strict=True)]
    made = Handmade({"a": pa.int32(), "b": pa.string()}, rows, ["v"] * 5000, [1] * 5000)
    assert verify(in_strata(made, tree, [3, 4, 5]).write(tmp_path)).findings == ()
