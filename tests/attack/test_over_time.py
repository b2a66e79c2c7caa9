"""Releases of the same people, intersected: beliefs against all that is possible, chains, truths, and what it costs."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.attack.over_time import audit_releases, without_repeats
from dalenius.attack.over_time_result import OverTime
from dalenius.errors import DaleniusError, InputError, NoSuchColumnError, ReleaseError, UsageError
from tests.chains import begin_chain, follow
from tests.handmade import Handmade, edit_manifest

VALUES = ["ague", "bile", "cold", "dropsy"]
Shares = dict[str, Fraction]


def made(people: Sequence[int], values: Sequence[str], buckets: Sequence[int], limit: str = "2/5") -> Handmade:
    """A release in which everybody has a number."""
    return Handmade(
        types={"number": pa.int64()},
        rows=[(one,) for one in people],
        values=values,
        buckets=buckets,
        limits=dict.fromkeys(sorted(set(values)), limit),
    )


def slots(release: Handmade, person: int) -> list[str]:
    """All values of a person's bucket, fake ones too."""
    bucket = next(b for row, b in zip(release.rows, release.buckets, strict=True) if row[0] == person)
    own = [value for value, b in zip(release.values, release.buckets, strict=True) if b == bucket]
    return own + [value for b, value in release.fakes if b == bucket]


def possible(releases: Sequence[Handmade], person: int) -> Shares:
    """What the person has in all ways of choosing a place in each bucket with one value: each as likely."""
    chosen = itertools.product(*(slots(one, person) for one in releases))
    found = Counter(places[0] for places in chosen if len(set(places)) == 1)
    return {value: Fraction(count, found.total()) for value, count in found.items()}


def random_release(rng: np.random.Generator, values: Sequence[str], fakes: int) -> Handmade:
    order = rng.permutation(len(values))
    buckets = [0] * len(values)
    for place, person in enumerate(order.tolist()):
        buckets[person] = place // 4 + 1
    number = len(values) // 4
    limits = {value: f"{int(rng.integers(1, 5))}/7" for value in VALUES}
    own = [(bucket + 1, VALUES[int(rng.integers(4))]) for bucket in range(number) for _ in range(fakes)]
    there = sorted({*values, *(value for _, value in own)})
    return replace(
        made(range(len(values)), values, buckets), fakes=own, limits={value: limits[value] for value in there}
    )


def written(tmp_path: Path, releases: Sequence[Handmade]) -> list[Path]:
    return [one.write(tmp_path / f"r{place}") for place, one in enumerate(releases)]


def above(shares: Shares, limits: dict[str, Fraction]) -> set[str]:
    return {value for value, share in shares.items() if share > limits.get(value, 1)}


def limits_of(release: Handmade) -> dict[str, Fraction]:
    return {value: Fraction(limit) for value, limit in release.limits.items()}


class TestBeliefs:
    def test_a_product_of_shares_is_what_all_assignments_say(self, tmp_path: Path) -> None:
        """Person 0 is in two releases, with other people in each: all ways to deal the values of both buckets."""
        one = made([0, 1, 2, 3], ["ague", "ague", "bile", "cold"], [1] * 4, "1/2")
        two = made([0, 11, 12, 13, 14], ["ague", "bile", "bile", "dropsy", "dropsy"], [1] * 5, "1/2")
        dealt = Counter(
            first[0]
            for first in itertools.permutations(one.values)
            for second in itertools.permutations(two.values)
            if first[0] == second[0]
        )
        truth = {value: Fraction(count, dealt.total()) for value, count in dealt.items()}
        assert truth == possible([one, two], 0) == {"ague": Fraction(1, 2), "bile": Fraction(1, 2)}
        found = audit_releases(written(tmp_path, [one, two]))
        assert (dict(found.linked), found.intersection.expected, found.intersection.above) == ({2: 1}, 0.5, 0)
        assert found.intersection.ratio == pytest.approx(1.0)

    @pytest.mark.parametrize("seed", range(12))
    def test_people_above_limits_are_those_whom_enumeration_puts_there(self, tmp_path: Path, seed: int) -> None:
        rng = np.random.default_rng(seed)
        values = [VALUES[code] for code in rng.integers(0, 4, 16).tolist()]
        releases = [random_release(rng, values, int(rng.integers(0, 2))) for _ in range(2 + seed % 2)]
        if seed % 3 == 0:  # limits beyond 64 bits
            wide = dict.fromkeys(releases[-1].limits, f"{10**30 + 7}/{2 * 10**30 + 9}")
            releases[-1] = replace(releases[-1], limits=wide)
        found = audit_releases(written(tmp_path, releases), truth=releases[-1].source())
        limits = limits_of(releases[-1])
        shares = {person: possible(releases, person) for person in range(16)}
        alone = {person: possible(releases[-1:], person) for person in range(16)}
        claims = [(person, value) for person, own in shares.items() for value in above(own, limits)]
        sums = found.intersection
        assert sums.people == sums.known == 16
        assert sums.above == len({person for person, _ in claims})
        assert sums.values.claims == len(claims)
        assert sums.values.right == sum(values[person] == value for person, value in claims)
        assert sums.values.limits == pytest.approx(float(sum(limits[value] for _, value in claims)))
        assert sums.pinned == sum(len(own) == 1 for own in shares.values()) == sums.pinned_right
        assert sums.best == pytest.approx(float(sum(max(own.values()) for own in shares.values())))
        assert sums.right == pytest.approx(float(sum(guessed(own, values[person]) for person, own in shares.items())))
        assert found.baseline.right == pytest.approx(float(sum(guessed(own, values[p]) for p, own in alone.items())))
        assert found.baseline.above == sum(bool(above(own, limits)) for own in alone.values())
        assert found.releases[-1].above_alone == found.baseline.above
        ratios = [share / limits[value] for own in shares.values() for value, share in own.items() if limits[value] < 1]
        assert sums.ratio == pytest.approx(float(max(ratios)))

    def test_groups_have_limits_too(self, tmp_path: Path) -> None:
        grouped = {"groups": [("fevers", None, "1/2")], "group_of": {"ague": "fevers", "bile": "fevers"}}
        people = [range(4), [0, 11, 12, 13]]
        dealt = [["ague", "bile", "cold", "dropsy"], ["ague", "bile", "cold", "evil"]]
        one, two = (
            replace(made(numbers, values, [1] * 4, "2/3"), **grouped)  # type: ignore[arg-type]
            for numbers, values in zip(people, dealt, strict=True)
        )
        found = audit_releases(written(tmp_path, [one, two]), truth=two.source())
        groups = found.intersection.groups
        assert groups is not None
        assert (found.intersection.values.people, found.intersection.above) == (0, 1)  # 2/3 of the group, 1/3 each
        assert (groups.people, groups.claims, groups.right, groups.limits) == (1, 1, 1, 0.5)
        assert found.baseline.above == 0

    def test_whoever_has_nothing_in_common_is_not_claimed_to_have_anything(self, tmp_path: Path) -> None:
        one = made(range(6), ["ague", "bile", "cold", "dropsy", "evil", "flux"], [1, 1, 2, 2, 3, 3], "1/2")
        two = made(range(6), ["cold", "bile", "ague", "dropsy", "gout", "hives"], [1, 2, 1, 2, 3, 3], "1/2")
        found = audit_releases(written(tmp_path, [one, two]), truth=two.source())
        sums = found.intersection
        assert (sums.people, sums.nothing, sums.pinned, sums.above) == (6, 2, 4, 4)
        assert sums.pinned_right == 2  # of two others the value changed, and the attacker thinks of the old one
        assert sums.right == 3  # of the two with nothing in common, one by the last bucket alone

    def test_a_value_that_the_last_release_has_not_is_no_error(self, tmp_path: Path) -> None:
        one = made([0, 1, 2], ["ague", "bile", "cold"], [1] * 3, "1/2")
        two = made([0, 11, 12], ["ague", "dropsy", "evil"], [1] * 3, "1/2")
        assert audit_releases(written(tmp_path, [one, two])).intersection.pinned == 1


def guessed(shares: Shares, truth: str) -> float:
    """How far the likeliest values are the true one."""
    best = [value for value, share in shares.items() if share == max(shares.values())]
    return (truth in best) / len(best)


def chain(tmp_path: Path, left: Sequence[int] = (), new: Handmade | None = None) -> list[Path]:
    """A release of eight people in buckets of four, and one that follows on it."""
    first = made(range(8), [*VALUES, "ague", "ague", "bile", "cold"], [1] * 4 + [2] * 4, "1/2").write(tmp_path / "c1")
    begin_chain(first)
    added = new.write(tmp_path / "added") if new is not None else None
    follow(first, tmp_path / "c2", left, added)
    return [first, tmp_path / "c2"]


class TestChains:
    def test_a_bucket_of_a_chain_counts_once(self, tmp_path: Path) -> None:
        found = audit_releases(chain(tmp_path, left=[0]))
        assert (dict(found.linked), found.one_bucket, found.control) == ({2: 7}, 7, None)
        assert found.intersection.above == found.intersection.pinned == 0
        assert found.intersection.best == pytest.approx(3 / 4 + 4 * 2 / 4)  # c / S, and not its square
        assert found.intersection.best == found.baseline.best
        assert [one.follows for one in found.releases] == [None, 1]

    def test_a_release_that_is_missing_does_not_break_a_chain(self, tmp_path: Path) -> None:
        first, second = chain(tmp_path, left=[0])
        follow(second, tmp_path / "c3", left=[1], new=made(range(20, 24), VALUES, [1] * 4, "1/2").write(tmp_path / "n"))
        found = audit_releases([first, tmp_path / "c3"])
        assert [one.follows for one in found.releases] == [None, 1]
        assert (found.one_bucket, found.intersection.people) == (6, 6)
        every = audit_releases([first, second, tmp_path / "c3"])
        assert [one.follows for one in every.releases] == [None, 1, 2]
        assert dict(every.linked) == {2: 1, 3: 6}

    def test_two_releases_that_follow_on_one_share_its_buckets(self, tmp_path: Path) -> None:
        first, _ = chain(tmp_path, left=[0])
        new = [made(range(20, 24), VALUES, [1] * 4, "1/2"), made([20, 31, 32], ["ague", "evil", "flux"], [1] * 3)]
        for place, one in enumerate(new):
            follow(first, tmp_path / f"b{place}", new=one.write(tmp_path / f"n{place}"))
        found = audit_releases([tmp_path / "b0", tmp_path / "b1"])
        assert [one.follows for one in found.releases] == [None, None]
        alike = audit_releases([first, tmp_path / "b0", tmp_path / "b1"])
        assert [one.follows for one in alike.releases] == [None, 1, 1]
        assert alike.one_bucket == 8
        assert (alike.intersection.people, alike.intersection.pinned) == (9, 1)  # person 20, in two new buckets

    def test_another_chain_is_more_evidence(self, tmp_path: Path) -> None:
        first, second = chain(tmp_path)
        other = made(range(8), [*VALUES, "ague", "ague", "bile", "cold"], [1, 2] * 4, "1/2")
        found = audit_releases([first, second, other.write(tmp_path / "other")])
        releases = [made(range(8), other.values, [1] * 4 + [2] * 4), other]
        assert found.one_bucket == 0
        assert found.intersection.best == pytest.approx(
            float(sum(max(possible(releases, person).values()) for person in range(8)))
        )
        assert found.control is not None
        assert found.control.people == 8

    def test_a_chain_is_to_be_in_its_order(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="follows on release 2") as error:
            audit_releases(chain(tmp_path)[::-1])
        assert error.value.hint == "Give the releases oldest first."

    def test_old_buckets_with_other_values_are_an_error(self, tmp_path: Path) -> None:
        first, _ = chain(tmp_path)
        other = made(range(8), [*VALUES, "ague", "bile", "bile", "cold"], [1] * 4 + [2] * 4, "1/2")
        begin_chain(other.write(tmp_path / "c9"))
        follow(tmp_path / "c9", tmp_path / "c10")
        digest = dalenius.load(first).manifest.digest

        def claim(manifest: dict[str, Any]) -> None:
            manifest["chain"]["previous"] = digest

        edit_manifest(tmp_path / "c10", claim)
        with pytest.raises(ReleaseError, match="does not have the values of its buckets"):
            audit_releases([first, tmp_path / "c10"])

    def test_movers_have_two_different_values(self, tmp_path: Path) -> None:
        """Person 0 goes from a bucket of all values to a new one: all pairs of places with different values."""
        new = made([0, 20, 21, 22], ["bile", "bile", "cold", "evil"], [1] * 4, "1/2")
        found = audit_releases(chain(tmp_path, left=[0], new=new), truth=new.source())
        pairs = [(x, y) for x in VALUES for y in new.values if x != y]
        before, after = Counter(x for x, _ in pairs), Counter(y for _, y in pairs)
        worst = max(Fraction(count, len(pairs)) for count in (*before.values(), *after.values())) / Fraction(1, 2)
        movers = found.movers
        assert movers is not None
        assert movers.people == 1
        assert movers.largest_ratio == pytest.approx(float(worst))
        assert (movers.above_limit, movers.pinned, movers.contradicted) == (0, 0, 0)
        assert (found.intersection.people, dict(found.linked)) == (7, {2: 8})

    def test_a_mover_can_be_above_a_limit(self, tmp_path: Path) -> None:
        """Half of the new bucket has what takes up half of the old one: not both."""
        new = made([4, 20], ["ague", "bile"], [1] * 2, "1/2")
        found = audit_releases(chain(tmp_path, left=[4], new=new))
        assert found.movers is not None
        # before: ague twice, bile, cold; after: ague, bile. Five pairs differ of eight: bile three times after
        assert found.movers.above_limit == 1
        assert found.movers.largest_ratio == pytest.approx(6 / 5)
        assert found.intersection.above == 0
        assert {one.code: str(one.severity) for one in found.concerns} == {"moved": "look", "bystanders": "look"}
        assert str(found.advice) == "look at this first"

    def test_bystanders_of_movers_are_as_enumeration_has_them(self, tmp_path: Path) -> None:
        """Persons 4 to 7 have ague twice, bile and cold; 4 goes to ague and bile, beside person 20."""
        new = made([4, 20], ["ague", "bile"], [1] * 2, "1/2")
        movers = audit_releases(chain(tmp_path, left=[4], new=new)).movers
        old = ["ague", "ague", "bile", "cold"]
        worlds = [
            (before, after)
            for before in permutations(range(4))
            for after in permutations(range(2))
            if old[before[0]] != new.values[after[0]]
        ]
        shares = []
        for place in (1, 2, 3):  # who stayed with person 4
            of_old = Counter(old[before[place]] for before, _ in worlds)
            shares.append(max(Fraction(count, len(worlds)) for count in of_old.values()))
        of_new = Counter(new.values[after[1]] for _, after in worlds)
        shares.append(max(Fraction(count, len(worlds)) for count in of_new.values()))
        assert movers is not None
        assert movers.bystanders == 4
        assert movers.bystanders_above_limit == sum(share > Fraction(1, 2) for share in shares)
        assert movers.bystanders_largest_ratio == pytest.approx(float(max(shares) / Fraction(1, 2)))

    def test_a_mover_whose_buckets_have_one_value_is_somebody_else(self, tmp_path: Path) -> None:
        first = made([0, 1, 2, 3], ["ague", "ague", "bile", "cold"], [1, 1, 2, 2], "1").write(tmp_path / "c1")
        begin_chain(first)
        new = made([0, 20], ["ague", "ague"], [1, 1], "1").write(tmp_path / "n")
        follow(first, tmp_path / "c2", [0], new)
        found = audit_releases([first, tmp_path / "c2"]).movers
        assert found is not None
        assert (found.people, found.contradicted, found.above_limit, found.pinned) == (1, 1, 0, 0)

    def test_a_new_chain_is_estimated_as_enumeration_has_it(self, tmp_path: Path) -> None:
        found = audit_releases(chain(tmp_path), seed=1).new_chain
        values = [*VALUES, "ague", "ague", "bile", "cold"]
        buckets = [values[:4], values[4:]]
        over = pinned = best = Fraction(0)
        for person in range(8):
            own = buckets[person // 4]
            for value in own:
                for fresh in buckets:
                    likely = Fraction(fresh.count(value), values.count(value) * len(own))
                    both = {x: own.count(x) * fresh.count(x) for x in own if x in fresh}
                    shares = {x: Fraction(number, sum(both.values())) for x, number in both.items()}
                    over += likely * any(share > Fraction(1, 2) for share in shares.values())
                    pinned += likely * (len(shares) == 1)
                    best += likely * max(shares.values())
        assert found is not None
        assert found.people == 8
        assert found.people_above_limit == pytest.approx(float(over), abs=1)
        assert found.pinned == pytest.approx(float(pinned), abs=1)
        assert found.expected == pytest.approx(float(best / 8), abs=0.02)
        assert found == audit_releases(chain(tmp_path / "again"), seed=1).new_chain

    def test_the_audit_of_one_release_of_a_chain_says_what_a_new_chain_costs(self, tmp_path: Path) -> None:
        first = made(range(8), [*VALUES, *VALUES], [1] * 4 + [2] * 4, "1/2").write(tmp_path / "c1")
        assert dalenius.load(first).audit(attacks=["corruption"]).new_chain is None
        begin_chain(first)
        found = dalenius.load(first).audit(attacks=["corruption"]).new_chain
        assert found is not None
        assert (found.people, found.people_above_limit, found.pinned) == (8, 0, 0)
        assert found.expected == pytest.approx(0.25)


class TestLinks:
    def linked(self, tmp_path: Path, columns: Sequence[dict[str, Any]], **asked: Any) -> OverTime:
        """Releases with these columns, of two people in a bucket each."""
        found = []
        for place, own in enumerate(columns):
            rows = list(zip(*(cells for _, cells in own.values()), strict=True))
            one = Handmade(
                types={name: kind for name, (kind, _) in own.items()},
                rows=rows,
                values=["ague", "bile"] * (len(rows) // 2),
                buckets=[number // 2 + 1 for number in range(len(rows))],
            )
            found.append(one.write(tmp_path / f"l{place}"))
        return audit_releases(found, **asked)

    def test_only_those_who_are_alone_with_their_combination(self, tmp_path: Path) -> None:
        age = [30, 30, 40, None, 50, 50]
        sex = ["f", "f", "f", "m", "m", None]
        columns = {"age": (pa.int64(), age), "sex": (pa.string(), sex)}
        other = {"age": (pa.int16(), age[::-1]), "sex": (pa.string(), sex[::-1])}  # of another width
        found = self.linked(tmp_path, [columns, other])
        assert (found.columns, dict(found.linked)) == (("age", "sex"), {2: 4})

    def test_numbers_advance(self, tmp_path: Path) -> None:
        ages = [[20, 30, 40, 50], [22, 32, 42, 53], [24, 34, 44, 54]]
        columns = [{"age": (pa.int8(), own)} for own in ages]
        assert dict(self.linked(tmp_path / "a", columns).linked) == {2: 0, 3: 0}
        assert dict(self.linked(tmp_path / "b", columns, advance={"age": 2}).linked) == {2: 1, 3: 3}
        halves = [{"age": (pa.float64(), [age / 4 for age in own])} for own in ages]
        assert dict(self.linked(tmp_path / "c", halves, advance={"age": "0.5"}).linked) == {2: 1, 3: 3}

    def test_the_truth_is_found_at_its_time(self, tmp_path: Path) -> None:
        columns = [{"age": (pa.int64(), [20, 30])}, {"age": (pa.int64(), [21, 31])}]
        truth = pa.table({"age": ["21", "31"], "Disease": ["ague", "bile"]})  # as a text file has it
        found = self.linked(tmp_path, columns, advance={"age": 1}, truth=truth)
        assert (found.intersection.known, found.with_truth) == (2, True)

    def test_columns_of_other_types_are_left_out_unless_they_are_named(self, tmp_path: Path) -> None:
        zips = ["1", "2", "3", "4"]
        one = {"zip": (pa.string(), zips), "age": (pa.int64(), [1, 2, 3, 4]), "old": (pa.int64(), [1, 1, 1, 1])}
        two = {"zip": (pa.int64(), [1, 2, 3, 5]), "age": (pa.int64(), [1, 2, 3, 4])}
        found = self.linked(tmp_path / "a", [one, two])
        assert (found.columns, dict(found.linked)) == (("age",), {2: 4})
        assert "People are not linked by 'zip', 'old': not in every release, or not of one type" in found.notes
        named = self.linked(tmp_path / "b", [one, two], link=["zip"])
        assert (named.columns, dict(named.linked)) == (("zip",), {2: 3})

    def test_without_a_link_nobody_is_attacked(self, tmp_path: Path) -> None:
        found = self.linked(tmp_path, [{"age": (pa.int64(), [1, 2])}, {"age": (pa.int64(), [3, 4])}])
        sums = found.intersection
        assert (dict(found.linked), sums.people, sums.expected, found.control) == ({2: 0}, 0, None, None)
        assert found.best_single_release == 0
        assert [concern.code for concern in found.concerns] == ["nobody-linked"]
        assert str(found.advice) == "look at this first"

    def test_a_bucket_counts_once(self) -> None:
        people = np.array([[1, 5, 1], [2, -1, 2], [3, 3, 3]])
        assert without_repeats(people).tolist() == [[1, 5, -1], [2, -1, -1], [3, -1, -1]]

    def test_people_linked_by_chance_are_guessed_no_better_than_by_chance(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(3)
        table = pa.table({"number": range(600), "disease": [VALUES[code] for code in rng.integers(0, 4, 600).tolist()]})
        asked: dict[str, Any] = {"sensitive": "disease", "quasi_identifiers": ["number"], "limits": {"odds": 2}}
        releases = [dalenius.publish(table, **asked, strata="none") for _ in range(2)]
        found = dalenius.audit_releases(releases, truth=table)
        assert found.control is not None
        assert found.intersection.people == found.control.people == 600
        assert found.intersection.pinned == found.intersection.pinned_right
        assert found.intersection.nothing == 0  # nobody's value changed
        assert found.best_single_release == 0
        assert found.intersection.right > found.baseline.right
        assert found.control.right <= found.baseline.right + 3 * np.sqrt(600 / 4)
        assert found.intersection.above > 0
        assert [(one.code, one.people) for one in found.concerns] == [("across-releases", found.intersection.above)]


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "needs two or more": ("one", {}),
    "the same release is given twice": ("one one", {}),
    "not every release has a quasi-identifier 'nmber'": ("one two", {"link": ["nmber"]}),
    "people are not linked by 'numbr'": ("one two", {"advance": {"numbr": 1}}),
    "cannot advance by what is no number": ("one two", {"advance": {"number": "x"}}),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_be_asked(tmp_path: Path, words: str) -> None:
    for name, limit in (("one", "1/2"), ("two", "1")):
        made([0, 1], ["ague", "bile"], [1, 1], limit).write(tmp_path / name)
    names, asked = WRONG[words]
    with pytest.raises((UsageError, NoSuchColumnError), match=words) as error:
        audit_releases([tmp_path / name for name in names.split()], **asked)
    assert error.value.hint is not None
    assert ("Did you mean 'number'?" in error.value.hint) == (error.type is NoSuchColumnError)


def test_releases_that_do_not_go_together(tmp_path: Path) -> None:
    one = made([0, 1], ["ague", "bile"], [1, 1], "1/2")
    other = replace(one, name="Job").write(tmp_path / "job")
    strange = replace(one, types={"name": pa.string()}, rows=[("a",), ("b",)]).write(tmp_path / "strange")
    first = one.write(tmp_path / "one")
    texts = replace(one, types={"number": pa.string()}, rows=[("0",), ("1",)]).write(tmp_path / "texts")
    for folder, words in ((other, "different sensitive columns"), (strange, "no quasi-identifier in common")):
        with pytest.raises(UsageError, match=words):
            audit_releases([first, folder])
    with pytest.raises(UsageError, match="no numbers in every release"):
        audit_releases([first, texts], link=["number"], advance={"number": 1})


def test_people_with_several_rows_are_refused(tmp_path: Path) -> None:
    who, ills = [row // 2 for row in range(40)], [VALUES[row // 2 % 4] for row in range(40)]
    table = pa.table({"who": who, "age": range(40), "disease": ills})
    asked: dict[str, Any] = {"sensitive": "disease", "quasi_identifiers": ["age"], "person": "who", "strata": "none"}
    people = dalenius.publish(table, limits={"odds": 2}, **asked)
    rows = made([0, 1], ["ague", "bile"], [1, 1]).write(tmp_path / "rows")
    with pytest.raises(DaleniusError, match="everybody has one row and one sensitive value"):
        audit_releases([people, rows])


def test_a_table_of_other_people_or_values_is_refused(tmp_path: Path) -> None:
    one = made([0, 1, 2, 3], VALUES, [1, 1, 2, 2], "1/2")
    folders = written(tmp_path, [one, replace(one, buckets=[1, 2, 1, 2])])
    with pytest.raises(InputError, match="nobody who is linked is found in the table"):
        audit_releases(folders, truth=pa.table({"number": [7, 8], "Disease": ["ague", "bile"]}))
    others = pa.table({"number": range(4), "Disease": ["dropsy", "ague", "cold", "flux"]})
    with pytest.raises(InputError, match="3 people have values that their buckets have not"):
        audit_releases(folders, truth=others)


def test_a_release_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    one = made([0, 1, 2, 3], VALUES, [1, 1, 2, 2], "1/2")
    folders = written(tmp_path, [one, replace(one, buckets=[1, 2, 1, 2])])
    (folders[1] / "st.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReleaseError, match="release 2 does not hold together"):
        audit_releases(folders)


def test_a_release_that_does_not_verify_is_attacked_with_a_note(tmp_path: Path) -> None:
    one = made([0, 1, 2, 3], VALUES, [1, 1, 2, 2], "1/2")
    folders = written(tmp_path, [one, replace(one, buckets=[1, 2, 1, 2])])

    def loosen(manifest: dict[str, Any]) -> None:
        manifest["values"][0]["limit"] = "1/3"  # there is one of two

    edit_manifest(folders[1], loosen)
    found = audit_releases(folders)
    assert [note.split(":")[0] for note in found.notes] == ["dalenius verify does not pass release 2"]
    assert (found.intersection.pinned, found.releases[1].above_alone) == (4, 2)
    assert found.best_single_release == 2
