"""Values that a record cannot have: pairs made by hand, and those that are learned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from dalenius.attack.audit import audit
from dalenius.infer.negative import NegativePair
from dalenius.model.attack_result import Attack
from tests.attack.tables import VALUES, add_fakes, table


class Known:
    """Pairs that somebody knows: all values but the one that the kind names are ruled out, or none."""

    columns = ("kind",)
    notes = ()

    def __init__(self, everything: bool) -> None:
        self._everything = everything
        pair = NegativePair("kind", "kind 0", "bile", 500.0, 0.0, 0.0, 1e-9)
        self.pairs = (pair,) * (1 if everything else 0)

    def ruled_out(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        kinds = np.array([int(text.split()[1]) for text in batch["kind"].to_pylist()])
        found: npt.NDArray[np.bool_] = np.arange(len(VALUES)) != kinds[:, None]
        return found


Play = Callable[[Path, pa.Table, Known], Attack]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    """Play the attacker who knows these pairs, against the truth."""

    def played(folder: Path, source: pa.Table, pairs: Known) -> Attack:
        monkeypatch.setattr("dalenius.attack.ruled_out.negative_pairs", lambda release: pairs)
        return audit(folder, truth=source, attacks=["negative"])["negative"]

    return played


def test_it_succeeds_where_everything_else_is_ruled_out(play: Play, tmp_path: Path) -> None:
    made = table(600, agree=1.0)
    found = play(made.write(tmp_path / "r"), made.source(), Known(everything=True))
    assert found.success is not None
    assert found.success.share == pytest.approx(1.0)
    assert found.details["left_with_one"] == 600
    assert found.details["mean_ruled_out"] == pytest.approx(2.0)
    assert found.people_above_limit == 600
    assert found.claims_right == found.claims == 600


def test_nothing_ruled_out_is_the_baseline(play: Play, tmp_path: Path) -> None:
    made = table(600, agree=1.0)
    found = play(made.write(tmp_path / "r"), made.source(), Known(everything=False))
    assert found.success == found.baseline
    assert found.people_above_limit == 0
    assert found.details["strongest"] == []


def test_if_all_are_ruled_out_none_is(play: Play, tmp_path: Path) -> None:
    """Kinds that say nothing: where the bucket lacks the value that the kind names, all candidates stay."""
    made = table(600, agree=0.0)
    found = play(made.write(tmp_path / "r"), made.source(), Known(everything=True))
    assert 0 < found.details["mean_ruled_out"] < 2
    assert sum(entry["candidates"] for entry in found.details["calibration"]) == 1800


def test_fakes_that_quasi_identifiers_rule_out(play: Play, tmp_path: Path) -> None:
    made = table(600, agree=1.0, with_id=True)
    folder = made.write(tmp_path / "r")
    held: dict[int, set[str]] = {}
    for bucket, value in zip(made.buckets, made.values, strict=True):
        held.setdefault(bucket, set()).add(value)
    add_fakes(folder, [next(value for value in VALUES if value not in held[bucket]) for bucket in sorted(held)])
    found = play(folder, made.source(), Known(everything=True))
    assert found.details["fakes_ruled_out"] == pytest.approx(1.0)
    assert found.details["slots_ruled_out"] == pytest.approx(3 / 4)


def test_pairs_are_learned_from_a_release(tmp_path: Path) -> None:
    """Buckets of different compositions, and kinds that exclude values."""
    made = table(3000, agree=1.0)
    found = audit(made.write(tmp_path / "r"), truth=made.source(), attacks=["negative"])["negative"]
    assert found.baseline is not None
    assert found.success is not None
    assert found.details["pairs"] > 0
    assert found.success.low > found.baseline.high


def test_none_are_learned_where_there_are_none(tmp_path: Path) -> None:
    made = table(3000, agree=0.0)
    found = audit(made.write(tmp_path / "r"), truth=made.source(), attacks=["negative"])["negative"]
    assert found.details["pairs"] == 0
    assert found.success == found.baseline
