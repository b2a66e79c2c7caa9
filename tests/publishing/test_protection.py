"""Known records and fake values, from a table to a release and back."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.errors import NoSolutionError, UsageError
from dalenius.infer.negative import negative_pairs
from dalenius.release.folder import open_release
from tests.effort import cases

LIMITS = {"Flu": "0.8", "Asthma": "0.5", "Cancer": "0.25", "HIV": "0.1"}
COUNTS = {"Flu": 130, "Asthma": 70, "Cancer": 30, "HIV": 10}


def people(seed: int = 0, **columns: Any) -> pa.Table:
    values = np.random.default_rng(seed).permutation(np.repeat(list(COUNTS), list(COUNTS.values())))
    return pa.table({"id": np.arange(len(values)), "Disease": values, **columns})


def publish(table: pa.Table, quasi: tuple[str, ...] = ("id",), **options: Any) -> Any:
    return dalenius.publish(table, LIMITS, sensitive="Disease", quasi_identifiers=quasi, **options)


def by_bucket(release: Any) -> dict[int, tuple[list[int], list[str]]]:
    """The ids and the values of each bucket."""
    found: dict[int, tuple[list[int], list[str]]] = {}
    for row in release.qit.to_pylist():
        found.setdefault(row["bucket"], ([], []))[0].append(row["id"])
    for row in release.st.to_pylist():
        found[row["bucket"]][1].append(row["Disease"])
    return found


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("method", ["optimal", "two-size", "multi-size"])
@pytest.mark.parametrize(("known", "fakes"), cases((3, 0), (0, 3), (2, 2), (1, 0), (0, 1), usually=3))
def test_every_bucket_keeps_the_limits_with_records_known(known: int, fakes: int, method: str, form: str) -> None:
    table = people()
    release = publish(table, known_records=known, fake_values=fakes, method=method, format=form)
    truth = dict(zip(table["id"].to_pylist(), table["Disease"].to_pylist(), strict=True))
    placed: list[int] = []
    for ids, values in by_bucket(release).values():
        assert len(values) == len(ids) + fakes
        held, shown = Counter(truth[person] for person in ids), Counter(values)
        assert held <= shown  # every record's value is there, and the rest is fake
        for value, count in shown.items():
            assert count <= Fraction(LIMITS[value]) * (len(ids) - known)
        placed += ids
    assert sorted(placed) == sorted(truth)
    assert release.verify(against=table, limits=LIMITS).verified
    assert (release.manifest.adversary.known_records, release.manifest.adversary.fake_values) == (known, fakes)


def test_fakes_are_drawn_for_the_order_in_which_values_are_dealt() -> None:
    """Whole numbers are dealt by size, not as text: 9 before 10. With few buckets not every order can be marked."""
    counts = {1: 1, 2: 1, 3: 1, 4: 3, 5: 3, 6: 2, 7: 1, 8: 4, 9: 1, 10: 1, 11: 17, 12: 1, 13: 1, 14: 1, 15: 1, 16: 9}
    counts |= {17: 1, 18: 10, 19: 5, 20: 1, 21: 1, 22: 1, 23: 1, 24: 1, 25: 1, 26: 2, 27: 2, 28: 1, 29: 8}
    values = np.repeat(list(counts), list(counts.values()))
    table = pa.table({"id": np.arange(len(values)), "Disease": values})
    limits = {"theta": 5, "base": "0.2"}
    for seed in range(15):
        release = dalenius.publish(
            table, limits, sensitive="Disease", quasi_identifiers=["id"], fake_values=1, seed=seed
        )
        assert release.manifest.tables.st.rows == len(values) + release.manifest.buckets


@pytest.mark.parametrize("fakes", [2, 3, 4])
def test_as_many_values_as_records_take_fakes(fakes: int) -> None:
    """Fakes drawn at random can hardly ever be marked here: each has two buckets to go to, and all want as many."""
    table = pa.table({"id": range(500), "Disease": [f"D{number:03d}" for number in range(500)]})
    release = dalenius.publish(
        table, {"uniform": "0.3"}, sensitive="Disease", quasi_identifiers=["id"], fake_values=fakes, gap=0.1
    )
    assert release.verify(against=table).verified


def test_the_publisher_is_told_whom_fakes_do_not_help() -> None:
    table = pa.table({"id": range(6), "Disease": ["Flu"] * 3 + ["Asthma"] * 2 + ["HIV"]})
    release = dalenius.publish(
        table, {"uniform": "9/10"}, sensitive="Disease", quasi_identifiers=["id"], fake_values=1, min_size=6
    )
    shown = Counter(release.st["Disease"].to_pylist())
    truth = Counter(table["Disease"].to_pylist())
    helped = next(iter(shown - truth))
    (note,) = [note for note in release.notes if note.startswith("fakes do not help")]
    assert note.startswith(f"fakes do not help {6 - truth[helped]} records")


def test_wide_records_take_fakes_too() -> None:
    table = people()
    far = pa.array([2**62 if person % 2 else -(2**62) for person in table["id"].to_pylist()])
    large = pa.array([person * 10**14 for person in table["id"].to_pylist()])
    table = table.append_column("far", far).append_column("large", large)
    release = publish(table, ("far", "large", "id"), known_records=1, fake_values=1)
    assert release.verify(against=table, limits=LIMITS).verified


def test_a_theta_policy_is_verified_although_fakes_hide_the_counts() -> None:
    table = people()
    limits = {"theta": 3, "base": "0.1"}
    release = dalenius.publish(table, limits, sensitive="Disease", quasi_identifiers=["id"], fake_values=1)
    assert release.verify(against=table, limits=limits).verified


def test_the_same_seed_gives_the_same_fakes_and_another_seed_others() -> None:
    first, again, other = (publish(people(), fake_values=1, seed=seed) for seed in (5, 5, 6))
    assert first.qit.equals(again.qit)
    assert first.st.equals(again.st)
    assert not first.qit.equals(other.qit)


def test_without_a_seed_no_two_releases_are_alike() -> None:
    assert not publish(people(), fake_values=1).qit.equals(publish(people(), fake_values=1).qit)


@pytest.mark.parametrize("limits", [LIMITS, dict.fromkeys(LIMITS, "3/5")], ids=["unequal", "uniform"])
@pytest.mark.parametrize(("known", "fakes"), cases((2, 1), (1, 0), usually=1))
def test_who_knows_some_records_of_a_bucket_is_right_no_more_often_than_the_limit(
    known: int, fakes: int, limits: dict[str, str]
) -> None:
    """Over many releases: of the claims about neighbours of known records, no more are right than is promised."""
    table = people(3)
    truth = dict(zip(table["id"].to_pylist(), table["Disease"].to_pylist(), strict=True))
    claims: Counter[str] = Counter()
    right: Counter[str] = Counter()
    chance = np.random.default_rng(4)
    for seed in range(40):
        release = dalenius.publish(
            table,
            limits,
            sensitive="Disease",
            quasi_identifiers=["id"],
            known_records=known,
            fake_values=fakes,
            avoid_ruled_out=False,
            gap=0.5,
            seed=seed,
        )
        for ids, values in by_bucket(release).values():
            seen = chance.permutation(ids)
            left = Counter(values) - Counter(truth[person] for person in seen[:known].tolist())
            for value, count in left.items():  # the claim with the highest posterior, for each value
                if count == Counter(values)[value]:
                    claims[value] += len(seen) - known
                    right[value] += sum(truth[person] == value for person in seen[known:].tolist())
    for value, limit in limits.items():
        rate, number = right[value] / claims[value], claims[value]
        allowed = float(Fraction(limit))
        assert number > 200
        assert rate <= allowed + 4 * (allowed / number) ** 0.5


def test_fakes_that_the_release_rules_out_are_exchanged_or_counted() -> None:
    """Men never have endometriosis: no bucket with a man in it should have it as a fake, where that can be."""
    rng = np.random.default_rng(7)
    number = 100_000
    male = rng.random(number) < 0.5
    woman = rng.choice(["Endometriosis", "Flu", "Asthma", "Gout"], number, p=[0.2, 0.4, 0.3, 0.1])
    man = rng.choice(["Flu", "Asthma", "Gout"], number, p=[0.4, 0.2, 0.4])
    table = pa.table(
        {"Gender": np.where(male, "M", "F"), "id": np.arange(number), "Disease": np.where(male, man, woman)}
    )
    found = {}
    for avoid in (False, True):
        release = dalenius.publish(
            table,
            {"uniform": "4/5", "values": {"Endometriosis": "1/3"}},
            sensitive="Disease",
            quasi_identifiers=["Gender", "id"],
            fake_values=1,
            avoid_ruled_out=avoid,
            seed=3,
            strata="none",
        )
        pairs = negative_pairs(open_release(release.path)).pairs
        assert ("M", "Endometriosis") in {(pair.value, pair.sensitive) for pair in pairs}
        found[avoid] = _ruled_out_fakes(release, table)
        if avoid:
            said = next(note for note in release.notes if "negative association" in note)
            assert f" and {found[True]:,} are after " in said
    assert found[True] < found[False]


def _ruled_out_fakes(release: Any, table: pa.Table) -> int:
    """Fake endometriosis in buckets with a man in them, by the truth and not by what the publisher says."""
    truth = dict(zip(table["id"].to_pylist(), table["Disease"].to_pylist(), strict=True))
    gender = dict(zip(table["id"].to_pylist(), table["Gender"].to_pylist(), strict=True))
    count = 0
    for ids, values in by_bucket(release).values():
        fakes = Counter(values) - Counter(truth[person] for person in ids)
        count += fakes["Endometriosis"] * any(gender[person] == "M" for person in ids)
    return count


def test_no_release_where_the_limits_leave_no_room() -> None:
    table = pa.table({"id": range(8), "Disease": ["Flu", "Asthma"] * 4})
    limits = {"Flu": "1/2", "Asthma": "1/2"}
    with pytest.raises(NoSolutionError):
        dalenius.publish(table, limits, sensitive="Disease", quasi_identifiers=["id"], fake_values=1)
    with pytest.raises(NoSolutionError):
        dalenius.publish(table, limits, sensitive="Disease", quasi_identifiers=["id"], known_records=1)


@pytest.mark.parametrize("options", [{"known_records": -1}, {"fake_values": -1}, {"fake_values": 1.5}])
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        publish(people(), **options)


def test_too_little_memory_for_the_fakes_is_said() -> None:
    with pytest.raises(UsageError, match="memory"):
        publish(people(), fake_values=10**6, memory=450 * 2**20)
