"""Learning from chained releases, where people left and their values stay: tables, weights and cross-tabs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dalenius.analysis.completing import Completion
from dalenius.analysis.cross_tabs import cross_tab
from dalenius.analysis.draw_files import tables_of
from dalenius.analysis.formulas import fit_formula
from dalenius.analysis.pieces import read_pieces, slot_tables
from dalenius.analysis.weighing import Weighing
from dalenius.release.folder import ReleaseFolder
from tests.analysis.tables import by_bucket, lines, patients, released
from tests.analysis.test_weighing import left_over, shares, weighed
from tests.chains import begin_chain, follow


def chained(table: pa.Table, path: Path, share: float = 0.3, **options: object) -> ReleaseFolder:
    """The second release of a chain, which so many left; everybody left the first bucket and the last."""
    before = begin_chain(released(table, path / "first", **options).path)
    buckets = before.table("qit")["bucket"].to_numpy()
    chance = np.random.default_rng(0).random(len(buckets))
    left = np.flatnonzero((chance < share) | (buckets == 1) | (buckets == buckets.max()))
    return follow(path / "first", path / "second", left.tolist())


@pytest.fixture(scope="module", params=[0, 1])
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ReleaseFolder:
    return chained(patients(400), tmp_path_factory.mktemp("chain"), fake_values=request.param)


def test_whole_buckets_are_read_and_none_without_people(folder: ReleaseFolder) -> None:
    for rows in (7, 10_000):
        parts = list(read_pieces(folder, slot_tables(folder), rows))
        assert sum(len(part) for part in parts) == folder.manifest.rows
        for part in parts:
            assert set(part.slot_buckets[0].tolist()) == set(part.buckets.tolist())
    held = by_bucket(folder.table("st")["bucket"].to_pylist(), folder.table("st")["disease"].to_pylist())
    there = {number for part in parts for number in part.buckets.tolist()}
    read = by_bucket(
        parts[0].slot_buckets[0].tolist(), [str(value) for value in parts[0].slots[0]["disease"].to_pylist()]
    )
    assert read == {number: held[number] for number in there}
    assert len(there) <= len(held) - 2


def test_draws_leave_over_what_is_nobodys(folder: ReleaseFolder) -> None:
    """QIT's rows with values of their bucket, none of them given twice."""
    qit, st = folder.table("qit"), folder.table("st")
    held = by_bucket(st["bucket"].to_pylist(), st["disease"].to_pylist())
    buckets = qit["bucket"].to_pylist()
    completion = Completion(folder, 3, seed=2)
    for table in tables_of(completion):
        assert lines(table, ["age", "ward", "name"]) == lines(qit, ["age", "ward", "name"])
        for number, cells in by_bucket(buckets, table["disease"].to_pylist()).items():
            assert cells <= held[number]
    assert any("people who left" in note for note in completion.notes)


def test_weights_of_buckets_are_shares_of_all_places(folder: ReleaseFolder) -> None:
    st = folder.table("st")
    held = by_bucket(st["bucket"].to_pylist(), st["disease"].to_pylist())
    found = shares(weighed(folder, "bucket"))
    for bucket, own in zip(folder.table("qit")["bucket"].to_pylist(), found.values(), strict=True):
        assert own == {value: count / held[bucket].total() for value, count in held[bucket].items()}


def test_learned_weights_are_the_sum_over_all_truths(tmp_path: Path) -> None:
    """Given the logits: over all ways to give a bucket's values to those who are there and to those who left."""
    folder = chained(patients(200, strength=3.0), tmp_path, strata=None)
    weighing = Weighing(folder, "learned")
    assert weighing.lesson is not None
    found = shares(pa.concat_tables(list(weighing.pieces())))
    lesson, learned = weighing.lesson, weighing.lesson.learned[0]
    qit, st = folder.table("qit"), folder.table("st")
    numbers, names = qit["bucket"].to_numpy(), [str(one.value) for one in folder.manifest.values]
    strata = lesson.strata(numbers)
    logits = learned.logits(lesson.columns_of(qit.drop_columns(["bucket"])), strata, None, None).astype(np.float64)
    kinds = learned.kinds.of(pa.table({"disease": names})).tolist()
    slots = [(bucket, value) for bucket, value in lines(st, ["bucket", "disease"]) if bucket in set(numbers.tolist())]
    whole = [sum(value == name for _, value in slots) for name in names]
    fake, surplus = [count / sum(whole) for count in whole], set()
    for bucket in sorted(set(numbers.tolist())):
        own = np.flatnonzero(numbers == bucket)
        held = [names.index(value) for where, value in slots if where == bucket]
        surplus.add(len(held) - len(own))
        ways = [[logits[row, kind] for kind in kinds] for row in own]
        expected = left_over(ways, held, fake, len(held) - len(own))
        for row, line in zip(own.tolist(), expected, strict=True):
            assert found[row + 1] == pytest.approx({names[value]: share for value, share in line.items()}, abs=1e-5)
    assert len(surplus) > 2


def test_associations_are_found_in_who_is_there(tmp_path: Path) -> None:
    """Cold goes with the first ward: as much in draws of those who stayed as in the truth of them."""
    table = patients(3000, strength=2.0).drop_columns(["age"])
    folder = chained(table, tmp_path)
    truth = dict(zip(table["name"].to_pylist(), table["disease"].to_pylist(), strict=True))
    rows = folder.table("qit").to_pylist()
    found = cross_tab(folder, "ward", "disease", draws=20, seed=1)
    for ward in ("north", "south"):
        cold = sum(row["ward"] == ward and truth[row["name"]] == "cold" for row in rows)
        assert abs(found.table.loc[ward, "cold"] - cold) < 4 * found.std_error.loc[ward, "cold"] + 5
        assert found.low.loc[ward, "cold"] <= cold <= found.high.loc[ward, "cold"]


def test_a_formula_is_fitted_to_who_is_there(tmp_path: Path) -> None:
    folder = chained(patients(1500, strength=2.0).drop_columns(["name"]), tmp_path)
    fitted = fit_formula(folder, "I(disease == 'gout') ~ age", "logit", draws=5, seed=1)
    slope = fitted.estimates[list(fitted.names).index("age")]
    assert 0.03 < slope < 0.25
