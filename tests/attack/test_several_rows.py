"""Rows of a person taken for people: what attackers get from a release by rows, and no more from one by people.

The tables have the shape of the two where this was found. Of visits, one person in four has several, and the diagnosis
of most stays the same. In quarterly data everybody has six rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.attack.audit import audit
from dalenius.model.attack_result import Attack

CODES, RARER = 40, 1.1
LIMITS = {"odds": 8, "floor": "0.05"}
ASKED: dict[str, Any] = {
    "sensitive": "diagnosis",
    "quasi_identifiers": ["age", "visit"],
    "strata": "none",
    "time_limit": 1,
}


def table(people: int, rows_each: list[int], stays: float, seed: int) -> pa.Table:
    """People with so many rows, all of them different, whose diagnosis is as before with probability `stays`."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, CODES + 1) ** RARER
    rows = np.array(rows_each)[rng.integers(len(rows_each), size=people)]
    person = np.repeat(np.arange(people), rows)
    own, others = (rng.choice(CODES, number, p=weights / weights.sum()) for number in (people, len(person)))
    codes = np.where(rng.random(len(person)) < stays, own[person], others)
    columns = {
        "person": pa.array([f"p{one}" for one in person.tolist()]),
        "age": pa.array(person.astype(np.int32)),
        "visit": pa.array(np.arange(len(person)).astype(np.int32)),
        "diagnosis": pa.array([f"code {code}" for code in codes.tolist()]),
    }
    return pa.table(columns).take(pa.array(rng.permutation(len(person))))


def visits() -> pa.Table:
    """As hospital visits are."""
    return table(1500, [1] * 9 + [2, 2, 3], 0.6, 1)


def quarters() -> pa.Table:
    """As quarterly data are."""
    return table(700, [6], 0.995, 2)


def play(folder: Path, truth: pa.Table) -> dict[str, Attack]:
    found = audit(folder, truth=truth, person="person", attacks=["intersection", "union"])
    return {attack.name: attack for attack in found.attacks}


def people_in(source: pa.Table) -> tuple[dict[str, set[str]], dict[str, list[int]]]:
    """What everybody has, and which visits are theirs."""
    has: dict[str, set[str]] = defaultdict(set)
    visits_of: dict[str, list[int]] = defaultdict(list)
    for row in source.to_pylist():
        has[row["person"]].add(row["diagnosis"])
        visits_of[row["person"]].append(row["visit"])
    return has, visits_of


def right_too_often(attack: Attack) -> bool:
    """Beyond what chance explains."""
    assert attack.right is not None
    assert attack.mean_limit is not None
    return attack.right.low > attack.mean_limit


@pytest.mark.parametrize("stays", [0.6, 0.995])
def test_rows_of_a_person_give_away_what_people_do_not(stays: float, tmp_path: Path) -> None:
    """Both attacks, on both tables: before, by rows, and after, by people."""
    source = visits() if stays < 0.9 else quarters()
    release = dalenius.publish(source, LIMITS, identifiers=["person"], out=tmp_path / "rows", seed=1, **ASKED)
    assert release.verify().verified, "every limit of rows is kept, and that is the trouble"
    before = play(tmp_path / "rows", source)
    rows = Counter(source["person"].to_pylist())
    several = sum(number > 1 for number in rows.values())
    intersection, union = before["intersection"], before["union"]
    assert intersection.people == union.people == several
    assert right_too_often(intersection)
    assert intersection.people_above_limit is not None
    assert intersection.people_above_limit > several / 5
    assert union.people_above_limit is not None
    assert union.people_above_limit > several / 3
    assert any(concern.code == "above-limit" for concern in intersection.concerns)
    assert intersection.control is not None
    assert intersection.success is not None
    assert intersection.success.low > intersection.control.high

    limits: dict[str, Any] = {**LIMITS, "odds": 20, "floor": "0.2"} if stays < 0.9 else LIMITS
    dalenius.publish(source, limits, person="person", out=tmp_path / "people", seed=1, **ASKED)
    after = play(tmp_path / "people", source)
    for attack in after.values():
        assert attack.people == len(rows)
        assert (attack.people_above_limit, attack.claims, attack.claims_right) == (0, 0, 0)
        assert not attack.concerns
        assert attack.success is not None
        assert attack.baseline is not None
        assert attack.success.share == pytest.approx(attack.baseline.share)


def test_quarters_are_pinned_by_rows_and_nobody_is_by_people(tmp_path: Path) -> None:
    """Plain sets, without the audit: what the buckets of a person's rows have in common."""
    source = quarters()
    release = dalenius.publish(source, LIMITS, identifiers=["person"], out=tmp_path / "rows", seed=1, **ASKED)
    true, rows_of = people_in(source)
    pinned, right = pinned_by(release, rows_of, true)
    found = play(tmp_path / "rows", source)["intersection"].details
    assert (found["pinned"], found["pinned_right"]) == (pinned, right)
    assert pinned > 200
    assert right > 0.9 * pinned

    by_people = dalenius.publish(source, LIMITS, person="person", out=tmp_path / "people", seed=1, **ASKED)
    assert pinned_by(by_people, rows_of, true) == (0, 0)


def pinned_by(release: dalenius.Release, rows_of: dict[str, list[int]], true: dict[str, set[str]]) -> tuple[int, int]:
    """How many people's buckets have one value in common, and of how many it is the right one."""
    values: dict[int, Counter[str]] = defaultdict(Counter)
    for row in release.st.to_pylist():
        values[row["bucket"]][row["diagnosis"]] += row.get("rows", 1)
    bucket_of = dict(zip(release.qit["visit"].to_pylist(), release.qit["bucket"].to_pylist(), strict=True))
    pinned = right = 0
    true_or_not = {value for own in values.values() for value in own}
    for person, visits_of in rows_of.items():
        buckets = Counter(bucket_of[visit] for visit in visits_of)  # with a row for each of the person's
        common = {value for value in true_or_not if all(values[one][value] >= n for one, n in buckets.items())}
        if len(common) == 1:
            pinned += 1
            right += common <= true[person]
    return pinned, right


@pytest.mark.parametrize("known", [0, 1])
def test_whoever_assumes_that_values_stay_is_right_no_more_often_than_limits_allow(known: int, tmp_path: Path) -> None:
    """By people: ST says in how many rows a value is, and the attacker keeps to those in all rows.

    Whatever is believed of everybody in a bucket is right for as many of them as have the value: a share that the
    limits bound, whichever values are claimed.
    """
    source = quarters()
    release = dalenius.publish(
        source, LIMITS, person="person", out=tmp_path / "people", seed=3, known_records=known, **ASKED
    )
    limits = {value.value: Fraction(value.limit) for value in release.manifest.values}
    has, rows_of = people_in(source)
    people_of: dict[int, list[str]] = defaultdict(list)
    bucket_of = dict(zip(release.qit["visit"].to_pylist(), release.qit["bucket"].to_pylist(), strict=True))
    for person, visits_of in rows_of.items():
        (bucket,) = {bucket_of[visit] for visit in visits_of}
        people_of[bucket].append(person)
    steady: dict[int, Counter[str]] = defaultdict(Counter)
    for row in release.st.to_pylist():
        if row["rows"] == 6:
            steady[row["bucket"]][row["diagnosis"]] += 1
    claims = 0
    for bucket, people in people_of.items():
        for value, count in steady[bucket].items():
            if Fraction(count, steady[bucket].total()) > limits[value]:
                claims += len(people)
            right = sum(value in has[person] for person in people)
            assert right <= limits[value] * (len(people) - known)
    assert claims, "there is something to be right about"
