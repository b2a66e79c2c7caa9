"""The attacker who knows another column, where it has to be learned what goes with what."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dalenius.attack.audit import audit
from dalenius.attack.other_column import Pairs
from dalenius.attack.shown_counts import BucketSizes, ShownCounts
from dalenius.model.attack_result import Attack
from tests.handmade_people import HandmadePeople, Person, Sensitive

DISEASES = ["flu", "gout", "hiv", "mumps"]
DRUG_FOR = {"flu": "a", "gout": "b", "hiv": "y", "mumps": "z"}
DISEASE = Sensitive("Disease", ["Disease"])
DRUG = Sensitive(
    "Drug",
    ["Drug"],
    limits=dict.fromkeys("abyz", "2/3"),
    groups=[("early", None, "4/5"), ("late", None, "4/5")],
    group_of={"a": "early", "b": "early", "y": "late", "z": "late"},
)


def patients(each: int, seed: int, people: int = 600) -> HandmadePeople:
    """People with `each` rows and ages of their own, eight in a bucket; nine in ten rows have the drug of the disease.

    The diseases of a person are different, so that everybody has `each` of them.
    """
    draw = random.Random(seed)  # noqa: S311

    def person(who: int) -> Person:
        own = draw.sample(DISEASES, each)
        return [
            ((who,), {"Disease": disease, "Drug": DRUG_FOR[disease] if draw.random() < 0.9 else draw.choice("abyz")})
            for disease in own
        ]

    return HandmadePeople(
        {"Age": pa.int64()},
        [person(who) for who in range(people)],
        [1 + who // 8 for who in range(people)],
        [DISEASE, DRUG],
        numbered=each > 1,
    )


def attack(made: HandmadePeople, folder: Path, *, truth: bool = True) -> Attack:
    """On the drug, by somebody who knows the diseases."""
    release = folder if folder.exists() else made.write(folder)
    source = {"truth": made.source(), "person": "id"} if truth else {}
    (found,) = audit(release, attacks=["other-column"], **source).of("Drug")
    return found


@pytest.mark.parametrize("each", [1, 2])
def test_what_goes_with_what_is_learned_from_all_buckets(each: int, tmp_path: Path) -> None:
    made = patients(each, 3)
    found = attack(made, tmp_path / "release")
    assert found.not_played is None
    assert found.details["known_column"] == "Disease"
    assert found.people == each * 600  # for each disease that may be known
    assert found.success is not None
    assert found.baseline is not None
    assert found.control is not None
    assert found.success.low > found.baseline.high
    assert found.success.low > found.control.high
    # whoever knows which drug a disease is mostly treated with
    ideal = sum(
        any(cells["Drug"] == DRUG_FOR[row["Disease"]] for _, cells in person)
        for person in made.people
        for _, row in person
    )
    assert found.success.share > 0.8 * ideal / (each * 600)
    assert found.claims is not None
    assert found.claims_right is not None
    assert found.claims_right <= found.claims
    assert found.groups is not None
    assert found.groups.claims_right is not None
    assert found.groups.claims is not None
    assert found.groups.claims_right <= found.groups.claims
    assert found.concerns, "claims are right far more often than limits allow"
    assert attack(made, tmp_path / "release", truth=False).claims == found.claims


def test_columns_that_have_nothing_to_do_with_each_other_say_nothing(tmp_path: Path) -> None:
    made = patients(2, 4)
    drugs = [cells["Drug"] for person in made.people for _, cells in person]
    random.Random(5).shuffle(drugs)  # noqa: S311
    dealt = iter(drugs)
    people = [[(row, {**cells, "Drug": next(dealt)}) for row, cells in person] for person in made.people]
    found = attack(
        HandmadePeople(made.types, people, made.buckets, [DISEASE, DRUG], numbered=True), tmp_path / "release"
    )
    assert found.success is not None
    assert found.baseline is not None
    assert abs(found.success.share - found.baseline.share) < 0.06


def test_matches_have_as_many_pairs_as_people_can_have() -> None:
    """Of each value in each bucket: as many as people have it, times the values that people have of the other."""
    draw = np.random.default_rng(6)
    buckets, people = 30, 10
    sizes = BucketSizes(*(np.full(buckets, number) for number in (0, people, people, 2)))
    both = [_counts(sizes, draw.integers(0, 8, size=(buckets, 5))) for _ in range(2)]
    pairs = Pairs.of(*both)
    matched = pairs.match()
    assert ((pairs.shares(matched) >= 0) & (pairs.shares(matched) <= 1)).all()
    of_known = Counter[int]()
    for cell, number in zip(pairs.known_cells.tolist(), matched.tolist(), strict=True):
        of_known[cell] += number
    for cell, number in of_known.items():
        bucket = int(both[0].buckets[cell])
        values = both[1].counts[both[1].buckets == bucket].sum()
        assert number == pytest.approx(both[0].counts[cell] * values / people)


def _counts(sizes: BucketSizes, counts: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> ShownCounts:
    bucket, value = np.nonzero(counts)
    return ShownCounts.of(sizes, counts.shape[1], bucket, value, counts[bucket, value])
