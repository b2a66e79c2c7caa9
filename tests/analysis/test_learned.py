"""What is learned from a release, apart from the regression: kinds of values, strata, samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dalenius.analysis import kinds as module
from dalenius.analysis.completing import Completion
from dalenius.analysis.kinds import Kinds
from dalenius.analysis.learned import Lesson, confused_ways, last_buckets
from dalenius.analysis.pieces import slot_tables
from dalenius.infer.features import Singles, frequent_kinds
from dalenius.model.progress import Silent
from dalenius.release.folder import open_release
from tests.analysis.tables import DISEASES, patients, released
from tests.handmade import hospital, three_strata
from tests.infer.designs import candidates_of


def test_frequent_values_are_kinds_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = open_release(hospital().write(tmp_path))
    st = folder.table("st").drop_columns(["bucket"])
    held = st["Disease"].to_pylist()
    kinds = Kinds(slot_tables(folder)[0])
    found = kinds.learn(st).tolist()
    assert kinds.number == len(set(held)) == len(set(zip(found, held, strict=True)))
    monkeypatch.setattr("dalenius.analysis.kinds.frequent_kinds", partial(frequent_kinds, most=2))
    rough = Kinds(slot_tables(folder)[0])
    of_slots = dict(zip(held, rough.learn(st).tolist(), strict=True))
    assert rough.number == 2
    assert [value for value, kind in of_slots.items() if kind != of_slots["Gout"]] == ["Flu"]
    assert rough.of(st).tolist() == [of_slots[value] for value in held]


def test_values_that_were_not_in_the_sample_are_rare(tmp_path: Path) -> None:
    folder = open_release(hospital().write(tmp_path))
    kinds = Kinds(slot_tables(folder)[0])
    of_some = kinds.learn(pa.table({"Disease": ["Flu", "Flu", "Cold"]}))
    assert len(set(of_some.tolist())) == 2
    assert kinds.of(pa.table({"Disease": ["Gout", "HIV"]})).tolist() == [kinds.number - 1] * 2


def test_numbers_are_ranges_with_as_many_slots_each(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    income = random.permutation(400) * 3
    table = patients(400).drop_columns(["disease"]).append_column("income", pa.array(income.tolist(), pa.int64()))
    folder = released(table, tmp_path / "r", "income", strata=None)
    st = folder.table("st").drop_columns(["bucket"])
    kinds = Kinds(slot_tables(folder)[0])
    found = kinds.learn(st)
    assert kinds.number == module._MOST_RANGES
    assert (np.bincount(found) == 400 / module._MOST_RANGES).all()
    order = np.argsort(st["income"].to_numpy())
    assert (np.diff(found[order]) >= 0).all()


def test_numbers_that_were_not_in_the_sample_are_of_the_range_around_them(tmp_path: Path) -> None:
    table = patients(600).drop_columns(["disease"]).append_column("income", pa.array(range(600), pa.int64()))
    folder = released(table, tmp_path / "r", "income", strata=None)
    kinds = Kinds(slot_tables(folder)[0])
    ofsample = kinds.learn(pa.table({"income": pa.array(range(5, 600, 3), pa.int64())}))
    found = kinds.of(pa.table({"income": pa.array(range(600), pa.int64())}))
    assert found[5::3].tolist() == ofsample.tolist()
    assert (np.diff(found) >= 0).all()
    assert np.bincount(found).max() < 2 * 600 / kinds.number


def test_nulls_are_no_large_numbers(tmp_path: Path) -> None:
    income = [*range(580), *[None] * 20]
    table = patients(600).drop_columns(["disease"]).append_column("income", pa.array(income, pa.int64()))
    folder = released(table, tmp_path / "r", "income", strata=None, null_value="unknown")
    kinds = Kinds(slot_tables(folder)[0])
    st = folder.table("st").drop_columns(["bucket"])
    found, null = kinds.learn(st), st["income"].is_null().to_numpy(zero_copy_only=False)
    assert set(found[null].tolist()) == {kinds.number - 1}
    assert kinds.number - 1 not in found[~null]
    standing = kinds.standing(st)
    assert standing.above is not None
    place = standing.kinds + standing.above
    assert (place[null] == kinds.number - 1).all()
    assert place[~null].max() <= kinds.number - 2 + 0.5


def test_numbers_stand_between_the_middles_of_their_ranges(tmp_path: Path) -> None:
    """By ranks: a range of many has its middle in the middle, its ends half way to the next ones."""
    table = patients(600).drop_columns(["disease"]).append_column("income", pa.array(range(600), pa.int64()))
    folder = released(table, tmp_path / "r", "income", strata=None)
    kinds = Kinds(slot_tables(folder)[0])
    numbers = pa.table({"income": pa.array(range(600), pa.int64())})
    of_numbers = kinds.learn(numbers)
    standing = kinds.standing(numbers)
    assert standing.above is not None
    place = standing.kinds + standing.above
    assert (np.diff(place) > 0).all()
    assert (np.abs(place - of_numbers) <= 0.5).all()
    for kind in range(kinds.number):
        own = np.flatnonzero(of_numbers == kind)
        expected = kind + (np.arange(len(own)) + 0.5) / len(own) - 0.5
        np.testing.assert_allclose(place[own], expected, atol=1e-5)
    # a model that is straight across kinds is straight across numbers, beyond the outermost middles as well
    table_of_model = np.outer([0.0, 1.0, -2.0], np.arange(kinds.number)).astype(np.float32)
    said = standing.logits(table_of_model, np.ones(600, np.int64), standing.codes)
    np.testing.assert_allclose(said, place, atol=1e-4)


def test_strata_are_those_of_the_manifest(tmp_path: Path) -> None:
    made = three_strata()
    folder = open_release(made.write(tmp_path))
    assert folder.manifest.strata is not None
    lesson = Lesson(folder, slot_tables(folder), Silent())
    of_bucket = {bucket: made.stratum(row) - 1 for row, bucket in zip(made.rows, made.buckets, strict=True)}
    buckets = np.array(sorted(of_bucket))
    assert lesson.strata(buckets).tolist() == [of_bucket[bucket] for bucket in buckets.tolist()]
    assert last_buckets(folder)[-1] == folder.manifest.buckets


def test_a_sample_has_whole_buckets_and_is_repeatable(tmp_path: Path) -> None:
    folder = released(patients(900), tmp_path / "r")
    tables = slot_tables(folder)
    one, same, other = (
        Lesson(folder, tables, Silent(), most_cells=len(DISEASES) * 300, seed=seed) for seed in (1, 1, 2)
    )
    assert not one.whole
    assert one.sample.buckets.tolist() == same.sample.buckets.tolist() != other.sample.buckets.tolist()
    whole = np.bincount(folder.table("qit")["bucket"].to_numpy())
    own = np.bincount(one.sample.buckets, minlength=len(whole))
    assert set(zip(own.tolist(), whole.tolist(), strict=True)) <= {(count, count) for count in whole.tolist()} | {
        (0, count) for count in whole.tolist()
    }
    assert 200 < one.rows < 400
    everything = Lesson(folder, tables, Silent())
    assert everything.whole
    assert everything.rows == 900


class Asked:
    """Forty features that are asked for."""

    width = 40

    def __call__(self, rows: pa.Table) -> Singles:
        return np.zeros((rows.num_rows, self.width), np.float32)


def test_a_sample_is_smaller_for_many_kinds_and_many_features(tmp_path: Path) -> None:
    """Tuples are of more kinds than the values of their first column."""
    random = np.random.default_rng(0)
    drugs = pa.array([f"drug {place}" for place in random.integers(0, 30, 1500).tolist()])
    table = patients(1500).append_column("drug", drugs)
    columns = ["disease", "drug"]
    folder = released(table, tmp_path / "r", columns, quasi_identifiers=["age", "ward"], keep_together=[columns])
    most = 64 * 300
    for asked, kinds, further in (("disease", 64, None), (columns, 64, None), (columns, 64, Asked())):
        tables = slot_tables(folder, asked)
        lesson = Lesson(folder, tables, Silent(), further, most_cells=most)
        width = further.width if further is not None else 0
        assert lesson.rows * (kinds + width) == pytest.approx(most, rel=0.35)
        assert max(one.kinds.number for one in lesson.learned) <= kinds
    single = released(patients(1500), tmp_path / "s", quasi_identifiers=["age", "ward"])
    lesson = Lesson(single, slot_tables(single), Silent(), Asked(), most_cells=300 * 45)
    assert lesson.rows == pytest.approx(300, rel=0.35)


def test_unknown_strata_weigh_strata_by_their_rows(tmp_path: Path) -> None:
    """As the regression does for people whom it has not seen."""
    folder = released(patients(2000, strength=2.5), tmp_path / "r", strata=5)
    lesson = Lesson(folder, slot_tables(folder), Silent())
    own = lesson.learned[0]
    assert own.regression is not None
    assert len(set(own.regression.design.stratum_rows.tolist())) > 1
    rows = folder.table("qit").drop_columns(["bucket"])
    columns, nowhere = lesson.columns_of(rows), np.full(rows.num_rows, 99)
    features = own.coding.dense(columns, slice(0, rows.num_rows))
    expected = own.regression.logits_of(features, nowhere)
    assert own.logits(columns, nowhere, None, None) == pytest.approx(expected, abs=1e-5)


def test_rows_of_strata_that_are_not_in_the_sample_have_the_level_of_all(tmp_path: Path) -> None:
    folder = released(patients(400, strength=2.0), tmp_path / "r", strata=None)
    lesson = Lesson(folder, slot_tables(folder), Silent())
    own = lesson.learned[0]
    assert own.regression is not None
    rows = folder.table("qit").drop_columns(["bucket"])
    columns = lesson.columns_of(rows)
    here = own.logits(columns, np.zeros(400, np.int64), None, None)
    elsewhere = own.logits(columns, np.full(400, 5), None, None)
    assert elsewhere == pytest.approx(here, abs=1e-5)  # there is but one stratum
    assert own.shares(np.array([0, 7])) == pytest.approx(np.tile(own.shares(np.array([0])), (2, 1)))
    counts = folder.table("st")["disease"].value_counts().to_pylist()
    expected = sorted(one["counts"] / 400 for one in counts)
    assert sorted(own.shares(np.array([0]))[0].tolist()) == pytest.approx(expected, abs=1e-6)


def test_buckets_that_are_all_alike_are_told(tmp_path: Path) -> None:
    """Nearly every bucket has one "yes": a bucket does not show which of its people it goes with."""
    random = np.random.default_rng(0)
    age = random.integers(18, 90, 2000)
    ill = np.where(random.random(2000) < 0.25, "yes", "no")
    alike = released(pa.table({"age": age, "ill": ill}), tmp_path / "alike", "ill", strata="none")
    learned = Lesson(alike, slot_tables(alike), Silent()).learned[0]
    assert learned.confused == 1
    assert any("Buckets are nearly all alike" in note for note in Completion(alike, 2).notes)
    differ = released(patients(3000).drop_columns(["name"]), tmp_path / "differ", strata="none")
    assert Lesson(differ, slot_tables(differ), Silent()).learned[0].confused == 0
    assert Completion(differ, 2).notes == []


def test_ways_that_buckets_do_not_show_are_counted_against_a_simulation() -> None:
    """Of four values the first two always come together, and so do the others: of three ways one is shown."""
    random = np.random.default_rng(1)
    pairs = random.random(400) < 0.5
    held = [[0, 1] if pair else [2, 3] for pair in pairs]
    none = np.zeros(400, np.int64)
    assert confused_ways(candidates_of(held, [2] * 400, 4, []), none) == 2
    dealt = random.permutation(np.repeat(np.arange(4), 200)).reshape(400, 2).tolist()
    assert confused_ways(candidates_of(dealt, [2] * 400, 4, []), none) == 0
    assert confused_ways(candidates_of(held, [2] * 400, 4, []), np.arange(400) // 20) == 0  # strata differ


def test_a_sample_has_a_bucket_however_little_it_may_be(tmp_path: Path) -> None:
    folder = released(patients(300).drop_columns(["name"]), tmp_path / "r", strata="none")
    for seed in range(10):
        lesson = Lesson(folder, slot_tables(folder), Silent(), most_cells=1, seed=seed)
        assert lesson.rows > 0
        assert not lesson.whole


def test_a_column_of_names_is_told_and_not_learned_from(tmp_path: Path) -> None:
    table = patients(300)
    assert "name" in table.column_names
    folder = released(table, tmp_path / "r")
    lesson = Lesson(folder, slot_tables(folder), Silent())
    assert "name" not in {column.name for column in lesson.columns}
    assert any("a text of their own in 'name'," in note for note in lesson.notes)
