"""The decoding attacker against a release in the order of its file, and against one that says nothing by order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.audit.audit import audit
from dalenius.model.attack import Audit
from tests.audit.attacks.tables import VALUES, table
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
    folder = made.write(tmp_path / "r")
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


def test_it_finds_nothing_in_a_published_release(tmp_path: Path) -> None:
    source = in_file_order().source()
    release = dalenius.publish(
        source, {"uniform": "1/5"}, sensitive="Disease", quasi_identifiers=["id"], max_size=SIZE, out=tmp_path / "r"
    )
    found = release.audit(truth=source, attacks=["order"])
    order = found["order"]
    assert found.broken == ()
    assert order.details["canonical"]
    assert len(order.details["decoders"]) == 5
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
    order = decoded(in_file_order().write(tmp_path / "r"), None)["order"]
    assert (order.success, order.baseline, order.control) == (None, None, None)
    assert "truth" in order.notes[0]
