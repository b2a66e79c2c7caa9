"""The attacker who asks why leaves were merged, against the enumeration of all matchings of small strata."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.attack.audit import audit, audit_object
from dalenius.attack.minimality_models import MODELS, MergedStratum, Suspicion, any_count, random_matching
from dalenius.cli.audit_command import show_audit
from dalenius.errors import ReleaseError
from dalenius.model.attack_result import Audit
from tests.effort import examples
from tests.handmade import Handmade, edit_manifest, hospital, in_strata

Table = tuple[tuple[int, ...], ...]
Event = tuple[int, tuple[int, ...]]  # a leaf and some values
Weighted = tuple[Fraction, dict[Table, Fraction]]


def tables(rows: list[int], slots: list[int]) -> dict[Table, int]:
    """All counts by leaf and value, slots that are left being fakes, each with the number of matchings that give it."""
    found: dict[Table, int] = {}

    def deal(leaf: int, left: tuple[int, ...], table: Table, ways: int) -> None:
        if leaf == len(rows):
            found[table] = ways
            return
        for counts in itertools.product(*(range(min(count, rows[leaf]) + 1) for count in left)):
            if sum(counts) == rows[leaf]:
                rest = tuple(slot - count for slot, count in zip(left, counts, strict=True))
                deal(leaf + 1, rest, (*table, counts), ways * math.prod(map(math.comb, left, counts)))

    deal(0, tuple(slots), (), 1)
    return found


def test_tables_are_those_of_the_matchings_one_by_one() -> None:
    """Each slot goes to one leaf or to none."""
    rows, slots = [2, 1, 2], [3, 1, 2]
    names = [value for value, count in enumerate(slots) for _ in range(count)]
    matchings: Counter[Table] = Counter()
    for leaves in itertools.product(range(len(rows) + 1), repeat=len(names)):
        if [leaves.count(leaf) for leaf in range(len(rows))] == rows:
            held = Counter(zip(leaves, names, strict=True))
            matchings[tuple(tuple(held[leaf, value] for value in range(len(slots))) for leaf in range(len(rows)))] += 1
    assert tables(rows, slots) == matchings


def share(held: Mapping[Table, int | Fraction], leaf: int, value: int, rows: int) -> Fraction:
    """The mean share of a value in a leaf."""
    summed = sum(Fraction(ways) * table[leaf][value] for table, ways in held.items())
    return Fraction(summed) / Fraction(rows * sum(held.values()))


def count(table: Table, event: Event) -> int:
    """What a leaf has of a value, or of the values of a group."""
    leaf, members = event
    return sum(table[leaf][value] for value in members)


def by_random_matching(held: dict[Table, int], every: dict[Table, int], event: Event) -> Weighted:
    """How probable the event is, and its tables, as likely as they are."""
    del event
    return Fraction(sum(held.values()), sum(every.values())), {table: Fraction(ways) for table, ways in held.items()}


def by_any_count(held: dict[Table, int], every: dict[Table, int], event: Event) -> Weighted:
    """How many counts the event has, and its tables, those of each count being together as likely."""
    del every
    ways_of: dict[int, int] = {}
    for table, ways in held.items():
        ways_of[count(table, event)] = ways_of.get(count(table, event), 0) + ways
    return Fraction(len(ways_of)), {table: Fraction(ways, ways_of[count(table, event)]) for table, ways in held.items()}


def by_likely_event(held: dict[Table, int], every: dict[Table, int], event: Event) -> Weighted:
    """How probable the event is, and its tables, those of each count being together as likely."""
    return by_random_matching(held, every, event)[0], by_any_count(held, every, event)[1]


ORACLES = {
    "random matching": by_random_matching,
    "any count": by_any_count,
    "likely event, any count": by_likely_event,
}


def mixture(
    model: str,
    rows: list[int],
    slots: list[int],
    limits: list[Fraction],
    margin: Fraction,
    groups: Sequence[tuple[int, ...]] = (),
) -> tuple[Any, Any]:
    """Weights of all events, and posterior shares, as the module's docstring has them: by enumeration."""
    every = tables(rows, slots)
    leaves, values = range(len(rows)), range(len(slots))
    sets = [*((value,) for value in values), *groups]
    events = {
        (leaf, place): {t: w for t, w in every.items() if count(t, (leaf, members)) > margin * limit * rows[leaf]}
        for leaf in leaves
        for place, (members, limit) in enumerate(zip(sets, limits, strict=True))
    }
    found = {event: ORACLES[model](held, every, (event[0], sets[event[1]])) for event, held in events.items()}
    weights = {event: weight for event, (weight, _) in found.items()}
    whole = sum(weights.values())
    if not whole:
        return None, [[share(every, leaf, value, rows[leaf]) for value in values] for leaf in leaves]
    posterior = [
        [
            sum(
                weights[event] / whole * share(held, leaf, value, rows[leaf])
                for event, (_, held) in found.items()
                if held
            )
            for value in values
        ]
        for leaf in leaves
    ]
    return {event: weight / whole for event, weight in weights.items()}, posterior


def stratum(rows: list[int], slots: list[int]) -> MergedStratum:
    return MergedStratum(0, np.arange(len(rows)), np.array(rows), np.arange(len(slots)), np.array(slots))


def concluded(
    model: str,
    rows: list[int],
    slots: list[int],
    limits: list[Fraction],
    margin: Fraction,
    groups: Sequence[tuple[int, ...]] = (),
) -> Suspicion:
    holding = [
        [place if value in members else -1 for place, members in enumerate(groups)] for value in range(len(slots))
    ]
    merged = replace(
        stratum(rows, slots), groups=len(slots) + np.arange(len(groups)), holding=np.array(holding, np.int64)
    )
    return MODELS[model](merged, [margin * limit for limit in limits])


@pytest.mark.parametrize("model", ORACLES)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_against_the_enumeration_of_all_matchings(model: str, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3).filter(lambda rows: sum(rows) <= 8))
    fakes = data.draw(st.integers(0, 2))
    slots = [1] * (sum(rows) + fakes)
    for _ in range(data.draw(st.integers(0, len(slots) - 1))):
        slots = sorted([slots[0] + slots[1], *slots[2:]])
    ratios = st.fractions(Fraction(1, 10), 1, max_denominator=10)
    within = data.draw(st.lists(st.sampled_from(range(len(slots))), unique=True).map(tuple))
    groups = [within, within[: data.draw(st.integers(1, len(within)))]] if within else []  # one in the other
    number = len(slots) + len(groups)
    limits = data.draw(st.lists(ratios, min_size=number, max_size=number))
    margin = data.draw(st.sampled_from([Fraction(1), Fraction(9, 10), Fraction(1, 2)]))
    found = concluded(model, rows, slots, limits, margin, groups)
    weights, posterior = mixture(model, rows, slots, limits, margin, groups)
    np.testing.assert_allclose(found.shares, np.array(posterior, np.float64), atol=1e-12)
    if weights is None:
        assert not found.weights.any()
    else:
        wanted = [[float(weights[leaf, place]) for place in range(number)] for leaf in range(len(rows))]
        np.testing.assert_allclose(found.weights, wanted, atol=1e-12)
    # every row has one value, and every leaf its part
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)


def test_taking_events_as_exclusive_is_close_where_they_are_improbable() -> None:
    """Against the posterior given that one of the events, or several, happened."""
    rows, slots, limits, margin = [4, 4], [3, 1, 1, 1, 1, 1], [Fraction(1, 2)] * 6, Fraction(1)
    every = tables(rows, slots)
    unfit = {t: w for t, w in every.items() if any(2 * count > 4 for leaf in t for count in leaf)}
    assert sum(unfit.values()) < 0.2 * sum(every.values())
    found = concluded("random matching", rows, slots, limits, margin)
    exact = [[float(share(unfit, leaf, value, 4)) for value in range(6)] for leaf in range(2)]
    np.testing.assert_allclose(found.shares, exact, atol=1e-12)


def test_a_leaf_far_above_the_limit() -> None:
    """600 of the 1,000 rows of a leaf have a value with a limit of 16 %; the other leaf, of 6,000, has none of it.

    Random matching puts the leaf just above what is fit, far below the truth and even below the limit.
    """
    limits = [Fraction(16, 100), Fraction(98, 100), Fraction(98, 100)]
    table = np.array([600, 800, 5600]) + np.array([700, 2440, 3860])
    most = [
        Fraction(int(count), 14000) * Fraction(1, 10) + limit * Fraction(9, 10)
        for count, limit in zip(table, limits, strict=True)
    ]
    merged = stratum([1000, 6000], [600, 800, 5600])
    assert 0.15 < random_matching(merged, most).shares[0, 0] < 0.16
    flat = any_count(merged, most)
    # 154 to 600 of the first value, or nearly all of the third; all else has too few records
    hiv, cold = 447, 1000 - int(most[2] * 1000)
    assert int(most[0] * 1000) == 153
    np.testing.assert_allclose(flat.weights, np.array([[hiv, 0.0, cold], [0.0, 0.0, 0.0]]) / (hiv + cold))
    third = int(most[2] * 1000) + 1
    given_third = (1000 - (third + 1000) / 2) * 600 / 1400 / 1000
    wanted = (hiv * 0.377 + cold * given_third) / (hiv + cold)
    assert flat.shares[0, 0] == pytest.approx(wanted)
    assert flat.shares[0, 0] > 2 * 0.16


def merged_hospital(margin: str = "1") -> Handmade:
    """The twelve who are young all have the flu; they are merged with others, of whom nobody else has it.

    No other value can be unfit among twelve rows: each has at most four records in the stratum, and the limit is 1/2.
    The young are spread over the buckets of the stratum, as placing at random would. The old are another stratum.
    """
    order = np.random.default_rng(1).permutation(120).tolist()
    rows = [(20 if place < 12 else 50, place) for place in order] + [(80, place) for place in range(120, 240)]
    values = ["Flu" if age == 20 else f"value {place % 30:02}" for age, place in rows]
    made = Handmade({"Age": pa.uint8(), "id": pa.int32()}, rows, values, [1] * 240)
    found = in_strata(made, [("Age", 30, 1, 2), 1, ("Age", 60, 3, 4), 1, 2], [4] * 29)
    return replace(found, limits=dict.fromkeys(values, "1/2"), margin=margin)


def by_model(details: Mapping[str, Any], name: str) -> dict[str, Any]:
    (found,) = [entry for entry in details["models"] if entry["model"] == name]
    return dict(found)


def played(folder: Path, **options: Any) -> Audit:
    return audit(folder, attacks=["minimality"], **options)


def test_a_small_leaf_that_can_only_be_unfit_by_one_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = merged_hospital()
    folder = made.write(tmp_path)
    found = played(folder, truth=made.source())["minimality"]
    details = found.details
    assert (details["strata"], details["merged_strata"], details["merged_leaves"]) == (2, 1, 2)
    assert details["merged_people"] == 120
    first = details["most_suspected"][0]
    assert (first["stratum"], first["leaf"], first["value"]) == (1, 1, "Flu")
    assert first["share"] > first["limit"]
    assert details["pairs_above_limit"] == 1
    assert details["people_in_leaves_above_limit"] == 12
    assert details["worst_ratio"] == pytest.approx(first["share"] / first["limit"])
    assert details["truth"] == {
        "suspected": 1,
        "suspected_unfit": 1,
        "suspected_above_limit": 1,
        "pairs_true": 1,
        "pairs_unfit": 1,
        "worst_true_ratio": 2.0,
    }
    # 7 to 12 of twelve are unfit: of these 9.5 are the middle
    assert details["model"] == "any count"
    assert details["worst_ratio"] == pytest.approx(9.5 / 12 / 0.5)
    assert [entry["model"] for entry in details["models"]] == list(MODELS)
    first_told, other = by_model(details, "any count"), by_model(details, "random matching")
    for key in ("pairs_above_limit", "leaves_above_limit", "people_in_leaves_above_limit", "worst_ratio", "truth"):
        assert first_told[key] == details[key]
    assert 1 < other["worst_ratio"] < first_told["worst_ratio"]
    assert other["truth"]["worst_true_ratio"] == 2.0
    assert found.success is not None
    assert found.success.share == pytest.approx(max(entry["success"] for entry in details["models"]))
    assert by_model(details, details["guesses_by"])["claims"] == found.claims
    assert found.people_above_limit is not None
    assert found.claims_right is not None
    assert found.claims_right > 0
    assert found.success is not None
    assert found.baseline is not None
    assert found.success.share > found.baseline.share
    assert found.broken == ()
    audited = played(folder, truth=made.source())
    show_audit(audited)
    shown = capsys.readouterr().out
    assert "1 of 2 strata were merged from 2 leaves" in shown
    assert "by the model any count, 1 pairs" in shown
    assert "1 are really above the limit" in shown
    assert "is 2.00 times its limit" in shown
    json.dumps(audit_object(audited))


def test_a_leaf_that_can_only_be_unfit_by_a_group(tmp_path: Path) -> None:
    """Half of the young have one flu, and half another: either is at its limit, and both together are far above."""
    whole = merged_hospital()
    flus = iter(["Flu A", "Flu B"] * 6)
    values = [next(flus) if value == "Flu" else value for value in whole.values]
    made = replace(
        whole,
        values=values,
        limits=dict.fromkeys(values, "1/2"),
        groups=[("any flu", None, "1/2"), ("any other", None, None)],
        group_of={value: "any flu" if value.startswith("Flu") else "any other" for value in values},
    )
    details = played(made.write(tmp_path), truth=made.source())["minimality"].details
    (suspected,) = details["most_suspected"]
    assert (suspected["leaf"], suspected["value"], suspected["is_group"]) == (1, "any flu", True)
    flat = by_model(details, "any count")
    assert flat["worst_ratio"] == pytest.approx(9.5 / 12 / 0.5)  # 7 to 12 of twelve are unfit
    assert (flat["pairs_above_limit"], flat["people_in_leaves_above_limit"]) == (1, 12)
    assert flat["truth"] == {
        "suspected": 1,
        "suspected_unfit": 1,
        "suspected_above_limit": 1,
        "pairs_true": 1,
        "pairs_unfit": 1,
        "worst_true_ratio": 2.0,
    }


def test_a_margin_keeps_what_is_concluded_below_the_limit_only_by_random_matching(tmp_path: Path) -> None:
    """Unfit are now five of twelve, which is below 1/2: so much is concluded by random matching, but 8.5 by any."""
    made = merged_hospital("4/5")
    details = played(made.write(tmp_path), truth=made.source())["minimality"].details
    random, flat = by_model(details, "random matching"), by_model(details, "any count")
    for one in (random, flat):
        assert one["most_suspected"][0]["value"] == "Flu"
        assert one["truth"]["suspected_unfit"] == 1
        assert one["truth"]["worst_true_ratio"] == 2.0
    assert 0.8 < random["worst_ratio"] < 0.9
    assert random["pairs_above_limit"] == 0
    assert flat["worst_ratio"] == pytest.approx(8.5 / 12 / 0.5)
    assert (flat["pairs_above_limit"], flat["people_in_leaves_above_limit"]) == (1, 12)
    assert flat["truth"]["pairs_true"] == 1
    assert details["model"] == "any count"
    assert details["pairs_above_limit"] == 1


def test_without_the_truth(tmp_path: Path) -> None:
    found = played(merged_hospital().write(tmp_path))["minimality"]
    assert found.success is None
    assert found.claims_right is None
    assert "truth" not in found.details
    assert found.details["pairs_above_limit"] == 1
    assert found.details["guesses_by"] == found.details["model"] == "any count"
    assert all(entry["success"] is None for entry in found.details["models"])
    assert found.claims


def test_of_a_sample_the_leaves_are_counted_in_all_of_the_release(tmp_path: Path) -> None:
    made = merged_hospital()
    folder = made.write(tmp_path)
    whole = played(folder, truth=made.source())["minimality"]
    some = played(folder, truth=made.source(), most_entries=300)
    assert some.sampled
    found = some["minimality"]
    assert found.people < whole.people
    assert found.details["truth"] is None
    assert any("sample" in note for note in found.notes)
    for key in ("merged_strata", "merged_people", "pairs_above_limit", "worst_ratio", "most_suspected"):
        assert found.details[key] == whole.details[key]


def test_strata_that_were_not_merged_tell_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = in_strata(hospital(limits={}), [("Age", 22, 1, 2), 1, ("Age", 43, 3, 4), 2, 3], [2])
    audited = played(made.write(tmp_path), truth=made.source())
    found = audited["minimality"]
    assert found.details["merged_strata"] == 0
    assert found.details["worst_ratio"] is None
    assert found.details["truth"]["worst_true_ratio"] is None
    assert found.claims == 0
    assert found.success is not None
    assert found.baseline is not None
    assert found.success.share == pytest.approx(found.baseline.share)
    show_audit(audited)
    assert "nothing to infer" in capsys.readouterr().out


def test_leaves_without_rows_do_not_count(tmp_path: Path) -> None:
    made = in_strata(hospital(limits={}), [("Age", 10, 1, 2), 1, ("Age", 43, 3, 4), 1, 2], [2])
    assert played(made.write(tmp_path))["minimality"].details["merged_strata"] == 0


def test_a_stratum_that_was_merged_for_another_reason(tmp_path: Path) -> None:
    """With limits of 1 no leaf is unfit: the posterior is the share of the stratum."""
    made = in_strata(hospital(limits={}), [("Age", 22, 1, 2), 1, ("Age", 43, 3, 4), 1, 2], [2])
    found = played(made.write(tmp_path), truth=made.source())["minimality"]
    assert found.details["merged_strata"] == 1
    assert found.details["pairs_above_limit"] == 0
    assert found.claims == 0


def test_without_strata_it_is_played_only_if_asked_for(tmp_path: Path) -> None:
    made = hospital()
    folder = made.write(tmp_path)
    assert "minimality" not in [attack.name for attack in audit(folder).attacks]
    (alone,) = played(folder).attacks
    assert "There are no strata" in alone.notes[0]


@pytest.mark.parametrize("change", [{"at_most": "young"}, {"below": 2}, {"column": "Height"}], ids=str)
def test_a_tree_that_is_none_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = merged_hospital().write(tmp_path)
    edit_manifest(folder, lambda m: m["strata"]["tree"][0].update(change))
    with pytest.raises(ReleaseError, match="cannot be followed"):
        played(folder)
