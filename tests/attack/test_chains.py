"""Attacks on chained releases: people who are there are attacked, and limits are about the places of a bucket."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dalenius.attack.audit import audit
from dalenius.errors import InputError
from dalenius.infer.candidates import make_blocks
from dalenius.infer.naive_bayes import exact_beliefs
from dalenius.infer.negative import negative_pairs
from dalenius.release.folder import ReleaseFolder
from dalenius.verify.judge import verify
from tests.attack.tables import named, table
from tests.chains import begin_chain, follow
from tests.handmade import Handmade, edit_manifest

OTHERS = replace(
    named(table(300, 0.7, seed=5)),
    rows=[(*row[:-1], f"{row[-1]} of the others") for row in named(table(300, 0.7, seed=5)).rows],
)


def left_of(made: Handmade, share: float) -> list[int]:
    """Places in QIT of those who leave, some buckets altogether."""
    buckets = np.sort(np.array(made.buckets))
    chance = np.random.default_rng(0).random(len(buckets))
    return [int(place) for place in np.flatnonzero((chance < share) | (buckets % 50 == 7))]


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReleaseFolder, pa.Table]:
    """The second release of a chain, and the table of those who are in it."""
    path, made = tmp_path_factory.mktemp("chain"), named(table(1500, 0.7))
    begin_chain(made.write(path / "first"))
    OTHERS.write(path / "others")
    folder = follow(path / "first", path / "second", left_of(made, 0.3), path / "others")
    there = set(pyarrow.parquet.read_table(path / "second" / "qit.parquet")["name"].to_pylist())
    whole = pa.concat_tables([made.source(), OTHERS.source()])
    return folder, whole.filter(pa.array([name in there for name in whole["name"].to_pylist()]))


def shown(folder: ReleaseFolder) -> tuple[Counter[int], dict[int, Counter[str]]]:
    """How many people are in each bucket, and which values it has."""
    people = Counter(folder.table("qit")["bucket"].to_pylist())
    values: dict[int, Counter[str]] = {}
    st = folder.table("st")
    for bucket, value in zip(st["bucket"].to_pylist(), st["Disease"].to_pylist(), strict=True):
        values.setdefault(bucket, Counter())[value] += 1
    return people, values


def test_everybody_who_is_there_is_attacked(chained: tuple[ReleaseFolder, pa.Table]) -> None:
    folder, there = chained
    assert verify(folder.path).verified
    result = audit(folder.path, truth=there)
    people, values = shown(folder)
    assert result.rows == result.used == folder.manifest.rows == there.num_rows
    assert not result.broken
    by_name = {attack.name: attack for attack in result.attacks}
    assert by_name["minimality"].not_played is not None
    expected = sum(
        Fraction(number * max(values[bucket].values()), values[bucket].total()) for bucket, number in people.items()
    )
    for name in ("negative", "learning", "order"):
        attack = by_name[name]
        assert attack.people == there.num_rows
        assert attack.baseline is not None
        assert abs(attack.baseline.share - float(expected) / there.num_rows) < 0.05
    learning = by_name["learning"].success
    assert learning is not None
    assert learning.share > 0.7  # the column `kind` tells most values
    assert by_name["order"].success is not None
    assert by_name["order"].success.share < 0.4


def test_without_the_truth_the_baseline_is_the_share_of_places(chained: tuple[ReleaseFolder, pa.Table]) -> None:
    folder, _ = chained
    people, values = shown(folder)
    expected = sum(
        Fraction(number * max(values[bucket].values()), values[bucket].total()) for bucket, number in people.items()
    )
    for attack in audit(folder.path, attacks=["learning", "negative", "order"]).attacks:
        assert attack.baseline is not None
        assert attack.baseline.share == pytest.approx(float(expected / folder.manifest.rows))


def test_chosen_records_put_nobody_above_who_left(chained: tuple[ReleaseFolder, pa.Table]) -> None:
    """With q of the S - 1 others known, those who have x are above f iff c / (S - q) > f: at most all who are there."""
    folder, _ = chained
    people, values = shown(folder)
    (attack,) = audit(folder.path, attacks=["corruption"], known=1).attacks
    limit, above, promised = Fraction(2, 5), 0, 0
    for bucket, number in people.items():
        size = values[bucket].total()
        for q in (0, 1):
            left = size - min(q, size - 1)
            having = sum(count for count in values[bucket].values() if Fraction(min(count, left), left) > limit)
            everybody = any(Fraction(min(count, left - 1), left) > limit for count in values[bucket].values())
            exposed = number if everybody else min(having, number)
            above, promised = (above + exposed, promised) if q else (above, promised + exposed)
    assert promised == 0
    assert attack.broken == ()
    assert attack.people == folder.manifest.rows
    assert attack.people_above_limit == above > 0
    assert any("people who left" in note for note in attack.notes)


def test_a_limit_that_the_places_break_is_found(tmp_path: Path) -> None:
    """Two of three places have the value, and somebody is there; where nobody is, nothing is broken."""
    made = Handmade(
        types={"a": pa.int64()},
        rows=[(number,) for number in range(6)],
        values=["x", "x", "y", "x", "y", "z"],
        buckets=[1, 1, 1, 2, 2, 2],
        limits=dict.fromkeys("xyz", "1/2"),
    )
    begin_chain(made.write(tmp_path / "first"))
    for left, number in (([0], 2), ([0, 1], 1), ([0, 1, 2], 0)):
        folder = follow(tmp_path / "first", tmp_path / f"without {len(left)}", left)
        (attack,) = audit(folder.path, attacks=["corruption"], known=0).attacks
        assert attack.people_above_limit == number
        assert bool(attack.broken) == (number > 0)


def test_who_knows_the_table_is_told_whom_it_holds_back(
    chained: tuple[ReleaseFolder, pa.Table], tmp_path: Path
) -> None:
    folder, there = chained
    more = pa.concat_tables([there, there.slice(0, 2).set_column(2, "name", pa.array(["new", "newer"]))])
    with pytest.raises(InputError, match="rows and the release"):
        audit(folder.path, truth=more, attacks=["learning"])
    waiting = shutil.copytree(folder.path, tmp_path / "waiting")
    edit_manifest(waiting, lambda manifest: manifest["chain"].update(held_back=2))
    with pytest.raises(InputError, match="2 rows more than the release, which held back as many"):
        audit(waiting, truth=more, attacks=["learning"])
    assert audit(waiting, truth=there, attacks=["learning"]).used == there.num_rows


def test_beliefs_of_buckets_that_people_left_are_those_of_all_assignments() -> None:
    """Rows are given values in every way; what is left is anybody's."""
    random = np.random.default_rng(4)
    bucket_of = np.array([0, 0, 1, 2, 2, 2])
    held = [[0, 0, 1, 2], [1, 2, 2], [0, 1, 2]]
    cells = [(b, v, own.count(v)) for b, own in enumerate(held) for v in sorted(set(own))]
    buckets, values, counts = np.array(cells, np.int64).T
    blocks = make_blocks(bucket_of, buckets, values, counts)
    assert sorted((int(block.buckets[0]), block.size, block.fakes) for block in blocks) == [
        (0, 2, 2),
        (1, 1, 2),
        (2, 3, 0),
    ]
    for block in blocks:
        own = held[int(block.buckets[0])]
        weights = random.random(block.shape)
        expected = np.zeros((len(own), block.shape[2]))
        places = {int(value): place for place, value in enumerate(block.values[0])}
        for order in permutations(own):
            rows = [*range(block.size), *[block.size] * block.fakes]
            chance = np.prod([weights[0, row, places[value]] for row, value in zip(rows, order, strict=True)])
            for row, value in zip(rows, order, strict=True):
                expected[row, places[value]] += chance
        expected = expected[: block.shape[1]] / expected[0].sum()
        assert exact_beliefs(block, weights)[0] == pytest.approx(expected)
        alike = exact_beliefs(block, np.ones(block.shape))[0]
        assert alike == pytest.approx(block.shares()[0])


def test_negative_pairs_are_found_among_those_who_are_there(tmp_path: Path) -> None:
    """Nobody of kind 0 has the value 0: found with all people, and without a third of them."""
    random = np.random.default_rng(3)
    kinds, values = random.integers(0, 4, 6000), random.integers(0, 4, 6000)
    values[(kinds == 0) & (values == 0)] = 1
    order = random.permutation(6000)
    made = Handmade(
        types={"kind": pa.string()},
        rows=[(f"kind {kind}",) for kind in kinds[order].tolist()],
        values=[f"value {value}" for value in values[order].tolist()],
        buckets=(np.arange(6000) // 3 + 1).tolist(),
    )
    begin_chain(made.write(tmp_path / "first"))
    left = np.flatnonzero(random.random(6000) < 0.3).tolist()
    folder = follow(tmp_path / "first", tmp_path / "second", left)
    pairs = negative_pairs(folder).pairs
    assert ("kind 0", "value 0") in {(pair.value, pair.sensitive) for pair in pairs}
    expected = sum(pair.expected for pair in pairs if (pair.value, pair.sensitive) == ("kind 0", "value 0"))
    there = Counter(row["kind"] for row in folder.table("qit").to_pylist())
    assert expected == pytest.approx(there["kind 0"] * (values == 0).mean(), rel=0.05)


def test_attackers_on_people_know_places_from_rows(chained: tuple[ReleaseFolder, pa.Table]) -> None:
    """With a column of people: who has several rows, and whose buckets have more values than rows."""
    folder, there = chained
    owners = pa.array(np.arange(there.num_rows) // 2)
    result = audit(
        folder.path, truth=there.append_column("who", owners), person="who", attacks=["intersection", "union"]
    )
    for attack in result.attacks:
        assert attack.people == there.num_rows // 2
        assert attack.success is not None
