"""The decoding attacker against a release in the order of its file, and against one that says nothing by order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dalenius
from dalenius.attack.audit import audit
from dalenius.attack.dealing import Windows, deal_to_run
from dalenius.attack.reading import Outline
from dalenius.model.attack_result import Audit
from tests.attack.tables import VALUES, table
from tests.handmade import Handmade, rewrite

COUNTS = [590, 560, 530, 480, 450, 390]
SIZE = 5


def in_file_order() -> Handmade:
    """People numbered in the order of the file, dealt out in turn in that order: nobody shuffled."""
    values = np.random.default_rng(0).permutation(np.repeat(np.arange(6), COUNTS))
    number = len(values) // SIZE
    start, seen = np.cumsum(COUNTS) - COUNTS, np.zeros(6, dtype=int)
    buckets = []
    for value in values.tolist():
        buckets.append(int((start[value] + seen[value]) % number + 1))
        seen[value] += 1
    numbers = np.arange(len(values)).tolist()
    return Handmade({"id": pa.int64()}, [(n,) for n in numbers], [VALUES[v] for v in values.tolist()], buckets)


def decoded(folder: Path, truth: Any) -> Audit:
    return audit(folder, truth=truth, attacks=["order"])


def test_it_decodes_a_file_that_was_left_in_its_order(tmp_path: Path) -> None:
    made = in_file_order()
    folder = made.write(tmp_path / "r", format=3)
    rewrite(folder, "qit", lambda rows: rows.sort(key=lambda row: row["id"]))
    found = decoded(folder, made.source())
    order = found["order"]
    assert order.success is not None
    assert order.baseline is not None
    assert order.success.low > 0.6
    assert order.baseline.high < 0.4
    assert not order.details["canonical"]
    assert any("decoded" in sentence for sentence in found.broken)


def test_it_decodes_ranks_of_the_file_though_the_rows_are_sorted(tmp_path: Path) -> None:
    made = in_file_order()
    found = decoded(made.write(tmp_path / "r"), made.source())
    assert found["order"].details["canonical"]
    assert found["order"].details["decoder"].startswith("rows by 'id'")
    assert found["order"].success is not None
    assert found["order"].success.low > 0.6
    assert found.broken


def in_file_order_by_strata() -> Handmade:
    """The same in two strata, each dealt out by itself, to buckets of the same sizes."""
    rng, rows, values, buckets = np.random.default_rng(4), list[tuple[int, int]](), list[str](), list[int]()
    last = 0
    for side in (0, 1):
        order = rng.permutation(np.repeat(np.arange(6), COUNTS if side else COUNTS[::-1]))
        ends = np.cumsum(COUNTS if side else COUNTS[::-1])
        dealt_to = [int(ends[value - 1]) if value else 0 for value in range(6)]
        number = len(order) // SIZE
        for value in order.tolist():
            rows.append((side, len(rows)))
            values.append(VALUES[value])
            buckets.append(last + dealt_to[value] % number + 1)
            dealt_to[value] += 1
        last += number
    types = {"side": pa.int8(), "id": pa.int64()}
    return Handmade(types, rows, values, buckets, tree=[("side", 0, 1, 2), 1, 2])


@pytest.mark.parametrize("sorted_rows", [True, False])
def test_strata_are_decoded_one_by_one(tmp_path: Path, sorted_rows: bool) -> None:
    made = in_file_order_by_strata()
    folder = made.write(tmp_path / "r", format=3)
    if not sorted_rows:
        rewrite(folder, "qit", lambda rows: rows.sort(key=lambda row: row["id"]))
    found = decoded(folder, made.source())
    order = found["order"]
    assert order.details["canonical"] == sorted_rows
    assert order.success is not None
    assert order.baseline is not None
    assert order.success.low > 0.6
    assert order.baseline.high < 0.4
    assert found.broken


def test_it_finds_nothing_in_a_published_release(tmp_path: Path) -> None:
    source = in_file_order().source()
    release = dalenius.publish(
        source, {"uniform": "1/5"}, sensitive="Disease", quasi_identifiers=["id"], max_size=SIZE, out=tmp_path / "r"
    )
    found = release.audit(truth=source, attacks=["order"])
    order = found["order"]
    assert found.broken == ()
    assert order.details["canonical"]
    assert [decoder["decoder"] for decoder in order.details["decoders"]] == [
        "values in random order",
        "rows by 'id', values by count",
        "rows by 'id', values by value",
    ]
    for decoder in order.details["decoders"]:
        assert decoder["success"] < decoder["baseline"] + 0.04, decoder["decoder"]


def test_values_that_go_with_the_sorting_break_no_promise(tmp_path: Path) -> None:
    """Sorted rows beside sorted values agree where kinds tell values: no secret of the order, and no success of it."""
    made = table(agree=1.0)
    found = decoded(made.write(tmp_path / "r"), made.source())
    assert found["order"].details["canonical"]
    for decoder in found["order"].details["decoders"]:
        assert decoder["success"] < decoder["baseline"] + 0.04, decoder["decoder"]
    assert found["order"].claims == 0
    assert found.broken == ()


def test_rows_left_with_their_values_in_place(tmp_path: Path) -> None:
    """Rows and values of a bucket in one order, which is not the canonical one."""
    made = table(agree=0.0, with_id=True)
    folder = made.write(tmp_path / "r")
    value_of = dict(zip((row[2] for row in made.rows), made.values, strict=True))
    rewrite(folder, "qit", lambda rows: rows.sort(key=lambda row: (row["bucket"], value_of[row["id"]])))
    found = decoded(folder, made.source())
    assert found["order"].details["decoder"] == "the k-th row has the k-th value"
    assert found["order"].success is not None
    assert found["order"].success.share == pytest.approx(1.0)
    assert found["order"].claims == found["order"].claims_right == found["order"].people_above_limit == len(made.rows)
    assert found.broken


def test_without_the_truth_nobody_can_tell(tmp_path: Path) -> None:
    made = in_file_order()
    folder = made.write(tmp_path / "r")
    order = decoded(folder, None)["order"]
    assert (order.success, order.control) == (None, None)
    assert (order.people_above_limit, order.claims, order.claims_right) == (None, None, None)
    assert "truth" in order.notes[0]
    assert order.people == len(made.rows)
    assert order.baseline is not None
    with_truth = audit(folder, truth=made.source(), attacks=["learning"])["learning"].baseline
    assert with_truth is not None
    assert order.baseline.share == pytest.approx(with_truth.share, abs=0.01)
    assert order.details["canonical"]
    assert order.details["decoder"] is None
    assert [(entry["decoder"], entry["success"]) for entry in order.details["decoders"]] == [
        ("values in random order", None),
        ("rows by 'id', values by count", None),
        ("rows by 'id', values by value", None),
    ]


@pytest.mark.parametrize("as_published", [True, False])
def test_the_first_rows_are_decoded_as_all_are(
    as_published: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dalenius.attack.order._ROWS", 1000)
    made = in_file_order()
    folder = made.write(tmp_path / "r", format=3)
    if as_published:
        rewrite(folder, "qit", lambda rows: rows.sort(key=lambda row: row["id"]))
    found = decoded(folder, made.source())
    order = found["order"]
    assert any("walks 1,000 rows" in note for note in order.notes)
    assert order.people == 1000
    assert order.success is not None
    assert order.success.low > 0.6
    assert found.broken


@pytest.mark.parametrize("most", [10**6, 9000])
def test_a_run_of_buckets_is_decoded_as_all_are(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by bucket, and within it in the order of values: the first 1,000 would be those of the first size alone."""
    sizes = {3: 500, 5: 300}
    rng, values, buckets = np.random.default_rng(0), list[str](), list[int]()
    for size, number in sizes.items():
        first = max(buckets, default=0)
        dealt_out = np.sort(rng.integers(0, 6, size * number))
        values += [VALUES[value] for value in dealt_out.tolist()]
        buckets += [first + k % number + 1 for k in range(size * number)]
    rows = [(int(name),) for name in rng.permutation(len(values))]
    made = Handmade({"id": pa.int64()}, rows, values, buckets)
    value_of = dict(zip((row[0] for row in rows), values, strict=True))
    folder = made.write(tmp_path / "r")
    rewrite(folder, "qit", lambda kept: kept.sort(key=lambda row: (row["bucket"], value_of[row["id"]])))
    monkeypatch.setattr("dalenius.attack.order._ROWS", 1000)
    found = audit(folder, truth=made.source(), attacks=["order"], most_entries=most)["order"]
    by_value = next(entry for entry in found.details["decoders"] if entry["decoder"].endswith("values by value"))
    assert by_value["success"] > 0.95
    drawn = found.details["decoders"][0]["people"]
    assert by_value["people"] == pytest.approx(drawn / 3, rel=0.01 if drawn == 3000 else 0.2)
    assert (drawn == 3000) == (most == 10**6)


def test_runs_have_all_sizes_in_proportion() -> None:
    sizes = np.repeat([2, 3, 7], [3000, 2000, 100])
    found = Outline(np.arange(len(sizes)) + 1, sizes, sizes, True, np.zeros_like(sizes), sizes)
    windows = Windows.draw(found, 1270, np.random.default_rng(0))
    assert {group: number for group, (_, number) in windows.runs.items()} == {(0, 2): 300, (0, 3): 200, (0, 7): 10}
    for (_, size), (first, number) in windows.runs.items():
        group = np.flatnonzero(sizes == size)
        np.testing.assert_array_equal(np.flatnonzero(windows.inside & (sizes == size)), group[first : first + number])
    assert Windows.draw(found, 10**6, np.random.default_rng(0)).inside.all()


def test_runs_of_many_strata_leave_some_out() -> None:
    """A bucket of each of a thousand strata would be more than there is room for."""
    sizes = np.full(10_000, 5)
    found = Outline(np.arange(len(sizes)) + 1, sizes, sizes, True, np.arange(len(sizes)) // 10, sizes)
    windows = Windows.draw(found, 1000, np.random.default_rng(0))
    assert 100 < len(windows.runs) < 300
    assert windows.inside.sum() == len(windows.runs)
    for (stratum, _), (first, number) in windows.runs.items():
        assert number == 1
        assert windows.inside[stratum * 10 + first]


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=6),
    st.integers(1, 12),
    st.integers(0, 11),
    st.integers(1, 12),
)
def test_what_a_run_of_buckets_is_dealt(counts: list[int], number: int, first: int, length: int) -> None:
    """Against dealing the values out one by one."""
    first %= number
    length = min(length, number - first)
    held, turn = deal_to_run(np.array(counts), number, first, length)
    at = 0
    for value, count in enumerate(counts):
        hit = [(at + k) % number - first for k in range(count) if 0 <= (at + k) % number - first < length]
        at += count
        assert held[value] == len(hit)
        if hit:
            assert turn[value] == hit[0]


def test_claims_go_by_the_success_of_each_value(tmp_path: Path) -> None:
    """The k-th row has the k-th value for a and b; c and d are the other way round."""
    values, buckets = [], []
    for bucket in range(300):
        for value in "abcd":
            values.append(value)
            buckets.append(bucket + 1)
    rows = [(int(name),) for name in np.random.default_rng(0).permutation(1200)]
    value_of = {row[0]: value for row, value in zip(rows, values, strict=True)}
    made = Handmade({"id": pa.int64()}, rows, values, buckets, limits=dict.fromkeys("abcd", "1/4"))
    folder = made.write(tmp_path / "r")
    place = {"a": 0, "b": 1, "d": 2, "c": 3}
    rewrite(folder, "qit", lambda kept: kept.sort(key=lambda row: (row["bucket"], place[value_of[row["id"]]])))
    order = decoded(folder, made.source())["order"]
    assert order.details["decoder"] == "the k-th row has the k-th value"
    assert order.success is not None
    assert order.success.share == pytest.approx(1 / 2)
    assert order.claims == order.claims_right == order.people_above_limit == 600
