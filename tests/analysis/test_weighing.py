"""Weights of people and values: their sums, the plain ones exactly, and learned ones against all truths."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import permutations
from math import exp, prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dalenius.analysis import pieces, weighing
from dalenius.analysis.weighing import Weighing, Weights
from dalenius.errors import NoSuchColumnError, UsageError
from dalenius.release.folder import ReleaseFolder, open_release
from tests.analysis.tables import by_bucket, lines, patients, released, truth_of
from tests.handmade import hospital

BOTH: tuple[Weights, ...] = ("learned", "bucket")


@pytest.fixture(scope="module", name="folder")
def made(tmp_path_factory: pytest.TempPathFactory) -> ReleaseFolder:
    return released(patients(400, strength=2.5), tmp_path_factory.mktemp("made") / "release")


def weighed(folder: ReleaseFolder, weights: Weights, column: str | None = None) -> pa.Table:
    return pa.concat_tables(list(Weighing(folder, weights, column).pieces()))


def shares(table: pa.Table, column: str = "disease") -> dict[int, dict[Any, float]]:
    """The weight of every value for every person, by number."""
    found: dict[int, dict[Any, float]] = defaultdict(dict)
    for person, value, weight in lines(table, ["person", column, "weight"]):
        assert value not in found[person]
        found[person][value] = weight
    return found


@pytest.mark.parametrize("rows", [5, 2**16])
@pytest.mark.parametrize("weights", BOTH)
def test_weights_add_up(folder: ReleaseFolder, monkeypatch: pytest.MonkeyPatch, weights: Weights, rows: int) -> None:
    """Those of a person to 1, and those of a value in a bucket to how often the bucket has it."""
    monkeypatch.setattr(weighing, "_ROWS", rows)
    monkeypatch.setattr(pieces, "_BATCH", 64)
    table = weighed(folder, weights)
    qit, st = folder.table("qit"), folder.table("st")
    found, buckets = shares(table), qit["bucket"].to_pylist()
    held = by_bucket(st["bucket"].to_pylist(), st["disease"].to_pylist())
    assert list(found) == list(range(1, len(buckets) + 1))
    totals: dict[tuple[int, str], float] = defaultdict(float)
    for bucket, own in zip(buckets, found.values(), strict=True):
        assert set(own) == set(held[bucket])
        assert sum(own.values()) == pytest.approx(1)
        assert all(weight >= 0 for weight in own.values())
        for value, weight in own.items():
            totals[bucket, value] += weight
    for bucket, counts in held.items():
        for value, count in counts.items():
            assert totals[bucket, value] == pytest.approx(count, abs=1e-6)


def test_rows_are_those_of_the_release(folder: ReleaseFolder) -> None:
    table, qit = weighed(folder, "bucket"), folder.table("qit")
    assert table.column_names == ["person", "age", "ward", "name", "disease", "weight"]
    by_person = lines(qit, ["age", "ward", "name"])
    for person, *cells in lines(table, ["person", "age", "ward", "name"]):
        assert tuple(cells) == by_person[person - 1]


@pytest.mark.parametrize("fakes", [0, 2])
def test_weights_of_buckets_are_shares_exactly(tmp_path: Path, fakes: int) -> None:
    folder = released(patients(150), tmp_path / "r", fake_values=fakes)
    st = folder.table("st")
    held = by_bucket(st["bucket"].to_pylist(), st["disease"].to_pylist())
    buckets = folder.table("qit")["bucket"].to_pylist()
    for bucket, own in zip(buckets, shares(weighed(folder, "bucket")).values(), strict=True):
        whole = held[bucket].total()
        assert own == {value: float(Fraction(count, whole)) for value, count in held[bucket].items()}


def left_over(logits: list[list[float]], held: list[int], fake: list[float], fakes: int) -> list[dict[int, float]]:
    """What is left for the rows of a bucket, over all ways to give its values to them and to its fakes."""
    found: list[dict[int, float]] = [defaultdict(float) for _ in logits]
    whole = 0.0
    for given in set(permutations(held)):
        own, of_fakes = given[: len(logits)], given[len(logits) :]
        weight = exp(sum(row[value] for row, value in zip(logits, own, strict=True)))
        weight *= prod(fake[value] for value in of_fakes)
        whole += weight
        for row, value in enumerate(own):
            found[row][value] += weight
    assert len(held) - len(logits) == fakes
    return [{value: weight / whole for value, weight in own.items()} for own in found]


@pytest.mark.parametrize("fakes", [0, 1])
def test_learned_weights_are_the_sum_over_all_truths(tmp_path: Path, fakes: int) -> None:
    """Of a release that is learned from as a whole, given its logits."""
    folder = released(patients(200, strength=3.0), tmp_path / "r", fake_values=fakes)
    weighing = Weighing(folder, "learned")
    assert weighing.lesson is not None
    found = shares(pa.concat_tables(list(weighing.pieces())))
    lesson, learned = weighing.lesson, weighing.lesson.learned[0]
    qit, st = folder.table("qit"), folder.table("st")
    numbers, names = qit["bucket"].to_numpy(), [str(one.value) for one in folder.manifest.values]
    rows = qit.drop_columns(["bucket"])
    strata = lesson.strata(numbers)
    logits = learned.logits(lesson.columns_of(rows), strata, None, None).astype(np.float64)
    kinds = learned.kinds.of(pa.table({"disease": names})).tolist()
    whole = np.zeros((strata.max() + 1, len(names)))
    for bucket, value in lines(st, ["bucket", "disease"]):
        whole[int(lesson.strata(np.array([bucket]))[0]), names.index(value)] += 1
    for bucket in sorted(set(numbers.tolist())):
        own = np.flatnonzero(numbers == bucket)
        held = [names.index(value) for where, value in lines(st, ["bucket", "disease"]) if where == bucket]
        fake = (whole[strata[own[0]]] / whole[strata[own[0]]].sum()).tolist()
        expected = left_over([[logits[row, kind] for kind in kinds] for row in own], held, fake, fakes)
        for row, line in zip(own.tolist(), expected, strict=True):
            assert found[row + 1] == pytest.approx({names[value]: share for value, share in line.items()}, abs=1e-5)


def test_learned_weights_say_more_of_people(folder: ReleaseFolder) -> None:
    truth = truth_of(patients(400, strength=2.5), folder)
    means = []
    for weights in BOTH:
        found = shares(weighed(folder, weights))
        means.append(np.mean([np.log(found[number][value]) for number, value in enumerate(truth, 1)]))
    assert means[0] > means[1] + 0.05


def test_weights_of_several_columns_are_asked_for_by_name(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    table = patients(200).append_column("person", pa.array(random.integers(0, 5, 200).tolist(), pa.int32()))
    folder = released(table, tmp_path / "r", ["disease", "person"])
    with pytest.raises(UsageError, match="2 sensitive columns"):
        Weighing(folder, "bucket")
    with pytest.raises(NoSuchColumnError):
        Weighing(folder, "bucket", "diseases")
    weighing = Weighing(folder, "bucket", "person")
    assert weighing.names == ["person_2", "age", "ward", "name", "person", "weight"]
    assert pa.concat_tables(list(weighing.pieces())).column_names == weighing.names


def test_columns_that_are_kept_together_have_weights_in_common(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    drugs = [f"drug {place}" for place in random.integers(0, 4, 200).tolist()]
    table = patients(200).append_column("drug", pa.array(drugs))
    folder = released(table, tmp_path / "r", ["disease", "drug"], keep_together=[["disease", "drug"]])
    found = weighed(folder, "bucket", "drug")
    together = folder.kept_together(0).table("together")
    held = by_bucket(together["bucket"].to_pylist(), lines(together, ["disease", "drug"]))
    buckets = folder.table("qit")["bucket"].to_pylist()
    by_person: dict[int, dict[Any, float]] = defaultdict(dict)
    for person, disease, drug, weight in lines(found, ["person", "disease", "drug", "weight"]):
        by_person[person][disease, drug] = weight
    for person, own in by_person.items():
        counts = held[buckets[person - 1]]
        assert own == pytest.approx({pair: count / counts.total() for pair, count in counts.items()})


def test_nulls_and_numbers_are_values(tmp_path: Path) -> None:
    table = patients(120)
    stay = pa.array([None if place % 6 == 0 else place % 6 for place in range(120)], pa.int32())
    folder = released(table.append_column("stay", stay).drop_columns(["disease"]), tmp_path / "r", "stay",
                      null_value="unknown")  # fmt: skip
    for weights in BOTH:
        found = weighed(folder, weights)
        assert found.schema.field("stay").type == pa.int32()
        own = shares(found, "stay")
        total = sum(line.get(None, 0.0) for line in own.values())
        assert total == pytest.approx(20)


def test_unknown_weights_are_refused(tmp_path: Path) -> None:
    folder = open_release(hospital().write(tmp_path))
    with pytest.raises(UsageError, match="no weights 'buckets'"):
        Weighing(folder, "buckets")  # type: ignore[arg-type]


def test_pieces_with_buckets_of_any_size_have_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets of more than eight are matched in single precision; a piece may have nothing else."""
    monkeypatch.setattr("dalenius.analysis.weighing._ROWS", 60)
    table = patients(900, strength=2.5)
    folder = released(table, tmp_path / "release", min_size=12, strata=None)
    pieces = list(Weighing(folder, "learned").pieces())
    assert len(pieces) > 5
    assert {piece.schema.field("weight").type for piece in pieces} == {pa.float64()}
    whole = pa.concat_tables(pieces).to_pandas()
    assert whole.groupby("person")["weight"].sum().to_numpy() == pytest.approx(1.0, abs=1e-5)
    buckets = folder.table("qit")[folder.manifest.columns.bucket].to_numpy()
    totals = whole.groupby([buckets[whole["person"] - 1], "disease"], observed=True)["weight"].sum()
    held = folder.table("st").to_pandas().groupby([folder.manifest.columns.bucket, "disease"], observed=True).size()
    assert totals.to_numpy() == pytest.approx(held.to_numpy(), abs=0.01)
