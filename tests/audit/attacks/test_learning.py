"""The learning attacker must succeed where values go with quasi-identifiers, and must not where they do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dalenius.audit.audit import audit
from dalenius.model.attack import Attack
from tests.audit.attacks.tables import VALUES, add_fakes, table
from tests.handmade import Handmade


def learn(made: Handmade, folder: Path) -> Attack:
    found = audit(made.write(folder), truth=made.source(), attacks=["learning"])
    assert found.broken == ()  # F'-privacy does not cover learning
    return found["learning"]


def test_it_succeeds_where_a_column_tells_the_value(tmp_path: Path) -> None:
    found = learn(table(agree=1.0, with_id=True), tmp_path / "r")
    assert found.success is not None
    assert found.baseline is not None
    assert found.success.low > 0.95
    assert found.baseline.share == pytest.approx(1 / 3)
    assert found.people_above_limit is not None
    assert found.people_above_limit > 2900
    assert found.claims_right == pytest.approx(found.claims, rel=0.02)
    assert found.mean_limit == pytest.approx(0.4)
    assert any("does not cover" in note for note in found.notes)


def test_it_does_not_where_nothing_goes_together(tmp_path: Path) -> None:
    found = learn(table(agree=0.0, with_id=True), tmp_path / "r")
    assert found.success is not None
    assert found.baseline is not None
    assert abs(found.success.share - found.baseline.share) < 0.045  # five standard deviations


def test_the_alignment_estimates_what_the_exact_truth_shows(tmp_path: Path) -> None:
    """With a published number every row's truth is known; without it, it is estimated from margins."""
    exact = learn(table(agree=0.5, with_id=True), tmp_path / "exact")
    estimated = learn(table(agree=0.5), tmp_path / "estimated")
    assert exact.success is not None
    assert estimated.success is not None
    assert 0.4 < exact.success.share < 0.9
    assert estimated.success.share == pytest.approx(exact.success.share, abs=0.03)
    by_identifiers = exact.details["by_quasi_identifiers"]
    assert by_identifiers["success"] == pytest.approx(exact.success.share, abs=1e-6)  # the number gives away the row
    assert estimated.details["by_quasi_identifiers"]["success"] < estimated.success.share


def test_beliefs_are_calibrated_where_the_model_is_right(tmp_path: Path) -> None:
    found = learn(table(agree=0.5, with_id=True), tmp_path / "r")
    bins = found.details["calibration"]
    assert [entry["from"] for entry in bins] == [k / 10 for k in range(10)]
    assert sum(entry["candidates"] for entry in bins) == 9000
    for entry in bins:
        if entry["candidates"] > 300:
            assert entry["right"] == pytest.approx(entry["mean_belief"], abs=0.15)


def test_without_the_truth_it_says_what_is_believed(tmp_path: Path) -> None:
    found = audit(table().write(tmp_path / "r"), attacks=["learning"])["learning"]
    assert found.success is None
    assert found.claims_right is None
    assert found.control is None
    assert found.claims is not None
    assert found.claims > 2900
    assert found.details["mean_belief"] > 0.9
    assert found.baseline is not None
    assert found.baseline.share == pytest.approx(1 / 3)


def test_the_control_is_about_other_people(tmp_path: Path) -> None:
    made, others = table(agree=1.0, with_id=True), table(600, agree=1.0, with_id=True, seed=5)
    folder = made.write(tmp_path / "r")
    shuffled = audit(folder, truth=made.source(), attacks=["learning"])["learning"].control
    outside = audit(folder, truth=made.source(), control=others.source(), attacks=["learning"])["learning"].control
    assert shuffled is not None
    assert outside is not None
    assert shuffled.share == pytest.approx(1 / 6, abs=0.03)
    assert outside.share > 0.95  # what is learned is about anybody


def test_most_exposed_are_buckets(tmp_path: Path) -> None:
    exposed = learn(table(), tmp_path / "r").details["most_exposed"]
    assert len(exposed) == 10
    assert set(exposed[0]) == {"bucket", "size", "people_above_limit"}
    assert exposed[0]["people_above_limit"] == 3


def test_a_sample_of_a_large_release(tmp_path: Path) -> None:
    made = table(agree=1.0, with_id=True)
    found = audit(made.write(tmp_path / "r"), truth=made.source(), most_entries=6000)
    assert found.sampled
    assert 1000 < found.used < 2000
    learned = found["learning"]
    assert learned.people == found.used
    assert learned.success is not None
    assert learned.success.share > 0.95
    assert learned.details["by_quasi_identifiers"] is None
    assert any("sample" in note for note in found.notes)


def test_buckets_that_are_too_large_are_not_attacked(tmp_path: Path) -> None:
    made = table(60)
    found = audit(made.write(tmp_path / "r"), truth=made.source(), most_entries=2)
    assert found.used == 0
    assert found["corruption"].people_above_limit == 60
    assert found["learning"].claims is None
    assert "too many to attack" in found["learning"].notes[0]


def test_fakes_are_a_row_of_their_own(tmp_path: Path) -> None:
    made = table(agree=1.0, with_id=True, limit="1/2")
    folder = made.write(tmp_path / "r")
    rng = np.random.default_rng(3)
    add_fakes(folder, [VALUES[k] for k in rng.integers(0, 6, 1000).tolist()])
    found = audit(folder, truth=made.source())
    learned = found["learning"]
    assert learned.success is not None
    assert learned.success.share > 0.95
    assert found.fake_values == 1
    assert 0 < found["corruption"].success.share < 1  # type: ignore[union-attr]


def test_a_release_without_quasi_identifiers(tmp_path: Path) -> None:
    made = Handmade(types={}, rows=[()] * 6, values=["a", "b", "c"] * 2, buckets=[1, 1, 1, 2, 2, 2])
    found = audit(made.write(tmp_path / "r"), truth=pa.table({"Disease": ["a", "b", "c"] * 2}))
    learned = found["learning"]
    assert learned.success is not None
    assert learned.success.share == pytest.approx(1 / 3)
