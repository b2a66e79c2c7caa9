"""The learning attacker must succeed where values go with quasi-identifiers, and must not where they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dalenius.attack.audit import audit
from dalenius.model.attack_result import Attack
from tests.attack.tables import VALUES, add_fakes, named, published, table
from tests.handmade import Handmade, in_strata


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
    found = learn(named(table(9000, agree=0.5)), tmp_path / "r")
    bins = found.details["calibration"]
    assert [entry["from"] for entry in bins] == [k / 10 for k in range(10)]
    assert sum(entry["candidates"] for entry in bins) == 27000
    assert sum(entry["right"] * entry["candidates"] for entry in bins) == pytest.approx(9000)
    checked = [entry for entry in bins if entry["candidates"] > 300]
    assert len(checked) >= 8
    for entry in checked:
        # learning from 9,000 people leaves an error of its own, beside that of counting
        deviation = (entry["mean_belief"] * (1 - entry["mean_belief"]) / entry["candidates"]) ** 0.5
        assert entry["right"] == pytest.approx(entry["mean_belief"], abs=4 * deviation + 0.03)


def test_texts_of_single_people_do_not_hide_what_the_others_tell(tmp_path: Path) -> None:
    """One person in five has a kind that nobody else has: the others are found out as before."""
    made = named(table(3000, agree=1.0))
    rows = [(f"other {place}", *row[1:]) if place % 5 == 0 else row for place, row in enumerate(made.rows)]
    found = learn(replace(made, rows=rows), tmp_path / "r")
    assert found.success is not None
    # who has a kind is certain; the one or two others of a bucket share what is left
    assert found.success.low > 0.9
    assert "kind" in found.details["columns"]


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


def test_the_control_changes_nothing_else(tmp_path: Path) -> None:
    """People from elsewhere, with texts and numbers that nobody in the release has."""
    made = table(agree=0.7, with_id=True)
    folder, source = made.write(tmp_path / "r"), made.source()
    others = pa.table(
        {
            "kind": [f"elsewhere {k}" for k in range(5000)],
            "noise": pa.array([k % 2000 for k in range(5000)], pa.int16()),
            "id": pa.array([k * 1000 for k in range(5000)], pa.int64()),
            "Disease": ["bile"] * 5000,
        }
    )
    alone = audit(folder, truth=source, attacks=["learning"])["learning"]
    beside = audit(folder, truth=source, attacks=["learning"], control=others)["learning"]
    assert beside.control != alone.control
    assert replace(beside, control=None) == replace(alone, control=None)


def test_a_large_control_is_a_random_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted: first 2,000 whose values go with kinds, then 2,000 for whom they do not."""
    monkeypatch.setattr("dalenius.attack.target_reader._MOST_CONTROL", 1000)
    made = table(agree=1.0)
    parts = [table(2001, agree=1.0, seed=5).source(), table(2001, agree=0.0, seed=6).source()]
    found = audit(made.write(tmp_path / "r"), attacks=["learning"], control=pa.concat_tables(parts))
    assert found["learning"].control is not None
    assert found["learning"].control.share == pytest.approx((1 + 1 / 6) / 2, abs=0.07)  # four standard deviations
    assert "The control is a random sample of 1,000 of 4,002 people" in found.notes


def test_a_null_is_not_the_empty_text(tmp_path: Path) -> None:
    made = table(600, agree=1.0)
    values = ["" if value == "ague" else value for value in made.values]
    folder = replace(made, values=values, limits={}).write(tmp_path / "r")
    others = replace(made, values=values).source()
    nulls = others.set_column(2, "Disease", pa.array([None if value == "" else value for value in values], pa.string()))
    shares = [audit(folder, control=people, attacks=["learning"])["learning"].control for people in (others, nulls)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[0].share > 0.95
    assert shares[1].share == pytest.approx(1 - values.count("") / 600, abs=0.05)


def test_most_exposed_are_buckets(tmp_path: Path) -> None:
    exposed = learn(table(), tmp_path / "r").details["most_exposed"]
    assert len(exposed) == 10
    assert set(exposed[0]) == {"bucket", "size", "people_above_limit"}
    assert exposed[0]["people_above_limit"] == 3


def test_a_sample_of_a_large_release(tmp_path: Path) -> None:
    made = table(agree=1.0, with_id=True)
    found = audit(made.write(tmp_path / "r"), truth=made.source(), most_entries=6000)
    assert found.sampled
    assert not found.approximate  # the number tells every row's truth
    assert 1000 < found.used < 2000
    learned = found["learning"]
    assert learned.people == found.used
    assert learned.success is not None
    assert learned.success.share > 0.95
    assert learned.details["by_quasi_identifiers"] is None
    assert any("sample" in note for note in found.notes)


@pytest.mark.parametrize(("agree", "fakes"), [(0.3, 0), (0.8, 0), (0.6, 1)])
def test_the_alignment_against_the_truth_of_every_row(agree: float, fakes: int, tmp_path: Path) -> None:
    """One release with and without names: whole, and a sample of it.

    Learner by learner: which of the two is the better one may turn on a handful of people.
    """
    made = published(4500, agree, fakes)
    assert len(made.fakes) == fakes * max(made.buckets)
    folders = {name: way.write(tmp_path / name) for name, way in (("names", named(made)), ("none", made))}
    for most, near in ((10**7, 0.01), (10_000, 0.03)):
        exact = audit(folders["names"], truth=named(made).source(), attacks=["learning"], most_entries=most)
        fitted = audit(folders["none"], truth=made.source(), attacks=["learning"], most_entries=most)
        assert fitted.sampled == (most < 10**7)
        assert (exact.approximate, fitted.approximate) == (False, fitted.sampled)
        assert any("approximate" in note for note in fitted.notes) == fitted.sampled
        known, estimated = exact["learning"], fitted["learning"]
        assert known.details["columns"] == estimated.details["columns"] == ["kind", "noise"]
        for right, near_it in zip(known.details["learners"], estimated.details["learners"], strict=True):
            assert (right["learner"], right["claims"]) == (near_it["learner"], near_it["claims"])
            assert near_it["success"] == pytest.approx(right["success"], abs=near)
        assert known.baseline is not None
        assert estimated.baseline is not None
        assert estimated.baseline.share == pytest.approx(known.baseline.share, abs=near)


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


def by_school(kind: str, rows: int = 4000) -> Handmade:
    """A table in strata by `school`, in buckets of four.

    One where the value goes with `school` alone, with which `age` goes: within a stratum neither tells anything. And
    one where it goes with `age` alone: within a stratum of schools, age tells as much as anywhere.
    """
    rng = np.random.default_rng(8)
    age = rng.integers(0, 6, rows)
    school = np.clip(age + rng.integers(-1, 2, rows), 0, 5)
    told = school if kind == "school" else age
    values = np.where(rng.random(rows) < 0.6, told, rng.integers(0, 6, rows))
    made = Handmade(
        types={"age": pa.int16(), "school": pa.int16(), "id": pa.int64()},
        rows=list(zip(age.tolist(), school.tolist(), range(rows), strict=True)),
        values=[VALUES[value] for value in values.tolist()],
        buckets=[1] * rows,
        limits=dict.fromkeys(VALUES, "1"),
    )
    tree: list[Any] = []
    for cut in range(5):
        tree += [("school", cut, 2 * cut + 1, 2 * cut + 2), cut + 1]
    return in_strata(made, [*tree, 6], [4] * (rows // 4))


@pytest.mark.parametrize("kind", ["school", "age"])
def test_with_strata_nothing_is_counted_twice_and_nothing_left_out(kind: str, tmp_path: Path) -> None:
    found = learn(by_school(kind), tmp_path / "r")
    assert found.success is not None
    assert found.baseline is not None
    learners = {entry["learner"]: entry["success"] for entry in found.details["learners"]}
    assert set(learners) == {"naive Bayes", "columns fitted together", "regression"}
    assert found.success.share == pytest.approx(max(learners.values()))
    together = learners["regression"]
    if kind == "school":
        assert together > found.baseline.share - 0.03
        assert together > learners["naive Bayes"]
    else:
        assert together > found.baseline.share + 0.02


def test_without_the_truth_the_last_learner_is_shown(tmp_path: Path) -> None:
    found = audit(by_school("age", 600).write(tmp_path), attacks=["learning"])["learning"]
    assert found.details["learner"] == "regression"
    assert [entry["success"] for entry in found.details["learners"]] == [None, None, None]


def test_where_there_is_no_room_a_sample_is_learned_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = by_school("age", 6000)
    whole = learn(made, tmp_path / "whole")
    monkeypatch.setattr("dalenius.attack.learning._MOST_CELLS", len(VALUES) * 3000)
    found = learn(made, tmp_path / "sample")
    learners = {entry["learner"]: entry["success"] for entry in found.details["learners"]}
    assert set(learners) == {"naive Bayes", "regression"}
    assert any("too large" in note for note in found.notes)
    all_of_it = {entry["learner"]: entry["success"] for entry in whole.details["learners"]}
    assert found.baseline is not None
    assert learners["regression"] > found.baseline.share + 0.02
    assert learners["regression"] == pytest.approx(all_of_it["regression"], abs=0.02)
    assert learners["regression"] != all_of_it["regression"]
