"""Values that a record cannot have: pairs made by hand, and those that are learned."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from dalenius.attack.audit import audit
from dalenius.attack.people import align
from dalenius.attack.reading import draw, outline, sample
from dalenius.attack.ruled_out import negative
from dalenius.attack.truth import truth_classes
from dalenius.infer.negative import NegativePair
from dalenius.model.attack_result import Attack
from dalenius.release.folder import open_release
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


def attacked(folder: Path, source: pa.Table, pairs: Known) -> Attack:
    release = open_release(folder)
    found = outline(release, lambda _: None, lambda _: None)
    drawn, _ = sample(release, found, draw(found, 10**6, np.random.default_rng(0)), lambda _: None)
    rows = drawn.rows.cast(
        pa.schema([(name, release.schema("qit").field(name).type) for name in drawn.rows.schema.names])
    )
    classes = truth_classes(source, None, rows, rows.num_rows, "Disease", VALUES, None)
    people = align(drawn.candidates, classes, True, release.manifest.rows)
    limits = [Fraction(2, 5)] * len(VALUES)
    return negative(drawn.candidates, drawn.rows, pairs, limits, people, np.full(6, 1 / 6))


def test_it_succeeds_where_everything_else_is_ruled_out(tmp_path: Path) -> None:
    made = table(600, agree=1.0)
    found = attacked(made.write(tmp_path / "r"), made.source(), Known(everything=True))
    assert found.success is not None
    assert found.success.share == pytest.approx(1.0)
    assert found.details["left_with_one"] == 600
    assert found.details["mean_ruled_out"] == pytest.approx(2.0)
    assert found.people_above_limit == 600
    assert found.claims_right == found.claims == 600


def test_nothing_ruled_out_is_the_baseline(tmp_path: Path) -> None:
    made = table(600, agree=1.0)
    found = attacked(made.write(tmp_path / "r"), made.source(), Known(everything=False))
    assert found.success == found.baseline
    assert found.people_above_limit == 0
    assert found.details["strongest"] == []


def test_if_all_are_ruled_out_none_is(tmp_path: Path) -> None:
    """Kinds that say nothing: where the bucket lacks the value that the kind names, all candidates stay."""
    made = table(600, agree=0.0)
    found = attacked(made.write(tmp_path / "r"), made.source(), Known(everything=True))
    assert 0 < found.details["mean_ruled_out"] < 2
    assert sum(entry["candidates"] for entry in found.details["calibration"]) == 1800


def test_fakes_that_quasi_identifiers_rule_out(tmp_path: Path) -> None:
    made = table(600, agree=1.0, with_id=True)
    folder = made.write(tmp_path / "r")
    held: dict[int, set[str]] = {}
    for bucket, value in zip(made.buckets, made.values, strict=True):
        held.setdefault(bucket, set()).add(value)
    add_fakes(folder, [next(value for value in VALUES if value not in held[bucket]) for bucket in sorted(held)])
    found = attacked(folder, made.source(), Known(everything=True))
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
