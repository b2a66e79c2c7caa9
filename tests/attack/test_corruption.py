"""Known records: against all that can be known of small buckets, tried one by one, and against what is promised."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dalenius
from dalenius.attack.audit import audit
from dalenius.attack.corruption import ChosenRecords
from dalenius.model.attack_result import Attack
from dalenius.verify.buckets import BucketStream
from tests.attack.tables import VALUES, add_fakes, table
from tests.handmade import Handmade, edit_manifest, hospital


def by_trying(slots: list[int], fakes: tuple[int, ...], limits: list[Fraction], known: int) -> int:
    """People of one bucket for whom some choice of known records of others leaves some value above its limit.

    A person's own record and those that are not known have what is left of the slots, fakes among them.
    """
    people = [place for place in range(len(slots)) if place not in fakes]
    found = 0
    for person in people:
        others = [other for other in people if other != person]
        for chosen in combinations(others, min(known, len(others))):
            left = Counter(value for place, value in enumerate(slots) if place not in chosen)
            if any(Fraction(count, left.total()) > limits[value] for value, count in left.items()):
                found += 1
                break
    return found


def exposed(buckets: list[list[int]], limits: list[Fraction], fakes: int = 0, promised: int = 0) -> list[ChosenRecords]:
    """What is found for 0 to 6 known records, each."""
    numbers = np.repeat(np.arange(len(buckets)) + 1, [len(bucket) for bucket in buckets])
    codes = np.array([code for bucket in buckets for code in sorted(bucket)], dtype=np.int32)
    found = []
    for known in range(7):
        exposure, stream = ChosenRecords(limits, fakes, promised, known, range(7)), BucketStream()
        for whole in [*stream.add(numbers, codes), stream.finish()]:
            exposure.add(whole)
        found.append(exposure)
    return found


@example([[3, 3]], [Fraction(1)] * 4)  # a probability of 1 is not above a limit of 1
@example([[0, 1, 2]] * 2, [Fraction(1, 2), Fraction(1), Fraction(1), Fraction(1)])  # who does not have it is not above
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.fractions(min_value="1/20", max_value=1, max_denominator=60), min_size=4, max_size=4),
)
def test_people_above_their_limit_are_those_found_by_trying(buckets: list[list[int]], limits: list[Fraction]) -> None:
    for known, exposure in enumerate(exposed(buckets, limits)):
        people = [by_trying(bucket, (), limits, known) for bucket in buckets]
        assert exposure.people_above(known) == sum(people)
        assert exposure.rows == sum(map(len, buckets))
        assert (exposure.worst_ratio(known) > 1 + 1e-9) == (sum(people) > 0)
        expected = sorted([(-number, bucket + 1) for bucket, number in enumerate(people) if number])
        shown = [(-entry["people_above_limit"], entry["bucket"]) for entry in exposure.most_exposed()]
        assert shown == expected


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=6),
    st.lists(st.fractions(min_value="1/20", max_value=1, max_denominator=60), min_size=4, max_size=4),
    st.integers(1, 2),
)
def test_with_fakes_they_are_the_most_that_may_be(slots: list[int], limits: list[Fraction], fakes: int) -> None:
    for known, exposure in enumerate(exposed([slots], limits, fakes, promised=-1)):
        worlds = [by_trying(slots, chosen, limits, known) for chosen in combinations(range(len(slots)), fakes)]
        assert max(worlds) <= exposure.people_above(known) <= len(slots) - fakes
        assert (exposure.people_above(known) > 0) == (max(worlds) > 0)
    told = exposed([slots], limits, fakes, promised=6)  # who can tell fakes from others
    for chosen in combinations(range(len(slots)), fakes):
        real = [value for place, value in enumerate(slots) if place not in chosen]
        for known, exposure in enumerate(told):
            assert by_trying(real, (), limits, known) <= exposure.people_above(known) <= len(slots) - fakes


def corrupted(folder: Path, known: int | None = None) -> Attack:
    return audit(folder, attacks=["corruption"], known=known)["corruption"]


def test_it_succeeds_where_nobody_counted_on_it(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "r")
    found = corrupted(folder)
    assert found.details["known"] == 1
    assert found.people_above_limit == 12
    assert found.success is not None
    assert found.baseline is not None
    assert found.success.share > found.baseline.share
    assert audit(folder, attacks=["corruption"]).broken == ()  # nothing was promised against it
    assert "promises nothing" in found.notes[0]
    by_known = found.details["by_known"]
    assert [entry["known"] for entry in by_known] == [0, 1, 2, 3]
    assert by_known[0]["people_above_limit"] == 0
    assert by_known[3]["success"] == pytest.approx(1.0)
    assert found.details["chosen"] == {
        "people": 12,
        "people_above_limit": 12,
        "worst_ratio": by_known[1]["worst_ratio"],
    }


def test_only_who_has_the_value_is_above_its_limit(tmp_path: Path) -> None:
    """Two of three are known: whoever has x, with a limit of 1/2, is known to have it; the others not to."""
    made = Handmade(
        types={"id": pa.int64()},
        rows=[(k,) for k in range(300)],
        values=["x", "y", "z"] * 100,
        buckets=[k // 3 + 1 for k in range(300)],
        limits={"x": "1/2", "y": "1", "z": "1"},
    )
    found = audit(made.write(tmp_path / "r"), truth=made.source(), attacks=["corruption"], known=2)["corruption"]
    assert found.people_above_limit == 100
    assert found.details["most_exposed"][0] == {"bucket": 1, "size": 3, "people_above_limit": 1}


def test_more_known_records_than_there_are(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "r")
    many, all_others = corrupted(folder, 10**12), corrupted(folder, 3)
    assert many.success == all_others.success
    assert many.people_above_limit == all_others.people_above_limit


def test_a_promise_that_does_not_hold_is_broken(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "r")
    edit_manifest(folder, lambda manifest: manifest["adversary"].update(known_records=1))
    found = audit(folder, attacks=["corruption"])
    assert found.known_records == 1
    (sentence,) = found.broken
    assert sentence.startswith("12 people")
    edit_manifest(folder, lambda manifest: manifest["values"][0].update(limit="1/5"))
    edit_manifest(folder, lambda manifest: manifest["adversary"].update(known_records=0))
    assert "knows no record" in audit(folder, attacks=["corruption"]).broken[0]


def test_it_does_not_succeed_where_sizes_allow_for_it(tmp_path: Path) -> None:
    """Five different values in each bucket of five: one known leaves 1/4, which is the limit exactly; two leave 1/3."""
    made = Handmade(
        types={"z": pa.int32()},
        rows=[(k,) for k in range(20)],
        values=VALUES[:5] * 4,
        buckets=[k // 5 + 1 for k in range(20)],
        limits=dict.fromkeys(VALUES, "1/4"),
    )
    folder = made.write(tmp_path / "r")
    edit_manifest(folder, lambda manifest: manifest["adversary"].update(known_records=1))
    found = audit(folder, attacks=["corruption"], known=1)
    assert found.broken == ()
    assert found["corruption"].people_above_limit == 0
    assert found["corruption"].claims == 0
    assert found["corruption"].success is not None
    assert found["corruption"].success.share == pytest.approx(1 / 4)
    more = audit(folder, attacks=["corruption"], known=2)
    assert more["corruption"].people_above_limit == 20
    assert more["corruption"].details["by_known"][2]["worst_ratio"] == pytest.approx(4 / 3)
    assert more.broken == ()


def test_random_records_known_give_the_hypergeometric_success(tmp_path: Path) -> None:
    """Buckets of a, a, b, c: with one known at random, a is known half of the time (1/3 left), else 2/3 are a."""
    made = Handmade(
        types={"z": pa.int32()},
        rows=[(k,) for k in range(2000)],
        values=["a", "a", "b", "c"] * 500,
        buckets=[k // 4 + 1 for k in range(2000)],
    )
    found = corrupted(made.write(tmp_path / "r"), 1)
    assert found.people == found.details["chosen"]["people"] == 2000
    assert found.details["random"] == {"people": 1500, "rows": 2000}
    assert found.success is not None
    assert found.success.share == pytest.approx(1 / 2, abs=0.04)
    assert found.baseline is not None
    assert found.baseline.share == pytest.approx(1 / 2)


@pytest.mark.parametrize(("known", "fakes"), [(1, 0), (2, 0), (0, 2), (1, 1)])
def test_published_releases_keep_what_they_promise(known: int, fakes: int, tmp_path: Path) -> None:
    source = table(3000, agree=0.3, with_id=True).source()
    release = dalenius.publish(
        source,
        {"uniform": "1/3"},
        sensitive="Disease",
        quasi_identifiers=["kind", "id"],
        known_records=known,
        fake_values=fakes,
    )
    found = release.audit(truth=source, attacks=["corruption"], known=known)
    assert found.broken == ()
    assert found["corruption"].people_above_limit == 0
    by_known = found["corruption"].details["by_known"]
    assert by_known[known]["worst_ratio"] <= 1
    most = found["corruption"].details["by_known"][-1]["success"]
    assert most == pytest.approx(1 / (1 + fakes), abs=0.07)  # all others known: one value left, and the fakes


def test_fakes_count_only_beyond_what_is_promised(tmp_path: Path) -> None:
    made = table(600, with_id=True, limit="1/3")
    folder = made.write(tmp_path / "r")
    held: dict[int, set[str]] = {}
    for bucket, value in zip(made.buckets, made.values, strict=True):
        held.setdefault(bucket, set()).add(value)
    add_fakes(folder, [next(value for value in VALUES if value not in held[bucket]) for bucket in sorted(held)])
    found = corrupted(folder, 1)
    assert found.people_above_limit == 0  # 1 / (3 + 1 - 1), if nobody can tell fake from real
    assert found.details["most_exposed"] == []
    assert corrupted(folder, 2).people_above_limit == 600
    edit_manifest(folder, lambda manifest: manifest["adversary"].update(known_records=1))
    assert corrupted(folder, 1).people_above_limit == 600  # 1 / (3 - 1), whatever the fakes are
    assert audit(folder, attacks=["corruption"]).broken
