"""What all releases of a chain tell together, against an oracle that lists every world that is consistent with them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import dalenius
from dalenius.errors import NoSolutionError
from tests.effort import examples
from tests.over_time import People, Years, buckets_of, table_of, values_in

Age = int  # which tells everybody apart, and never changes here
Key = tuple[int, int]  # the release in which a bucket was made, and its number; 0 for all releases of a chain
Weighted = tuple[int, dict[tuple[Age, Key], str]]  # in how many arrangements who has which value


class Seen(NamedTuple):
    """What anybody can read in some releases: who was ever in which bucket, and its values."""

    people: Mapping[Key, Sequence[Age]]
    values: Mapping[Key, Counter[str]]
    buckets_of: Mapping[Age, Sequence[Key]]  # in the order in which somebody was there


def seen(releases: Sequence[dalenius.Release], chained: bool) -> Seen:
    people: dict[Key, list[Age]] = {}
    values: dict[Key, Counter[str]] = {}
    where: dict[Age, list[Key]] = defaultdict(list)
    for number, release in enumerate(releases, 1):
        for bucket, held in values_in(release).items():
            key = (0 if chained else number, bucket)
            assert values.setdefault(key, held) == held  # what was published of a bucket never changes
            people.setdefault(key, [])
        for age, bucket in buckets_of(release).items():
            key = (0 if chained else number, bucket)
            if key not in where[age]:
                where[age].append(key)
                people[key].append(age)
    return Seen(people, values, where)


def ways(people: Sequence[Age], values: Counter[str]) -> dict[tuple[str, ...], int]:
    """The values that some people of a bucket can have, and in how many arrangements of all its values they do."""
    return Counter(arranged[: len(people)] for arranged in set(permutations(values.elements())))


def worlds(found: Seen, chained: bool) -> Iterator[Weighted]:
    """Every world that is consistent with what was seen, and its weight: arrangements are equally likely.

    Releases that know nothing of each other show one value of a person each time. In a chain, whoever is in another
    bucket than before has another value than before.
    """
    keys = list(found.people)

    def is_consistent(world: dict[tuple[Age, Key], str], ages: Sequence[Age]) -> bool:
        for age in ages:
            held = [world[age, key] for key in found.buckets_of[age] if (age, key) in world]
            if any((one == other) == chained for one, other in pairwise(held)):
                return False
        return True

    def grow(number: int, weight: int, world: dict[tuple[Age, Key], str]) -> Iterator[Weighted]:
        if number == len(keys):
            yield weight, world
            return
        key = keys[number]
        ages = found.people[key]
        for values, times in ways(ages, found.values[key]).items():
            wider = {**world, **{(age, key): value for age, value in zip(ages, values, strict=True)}}
            if is_consistent(wider, ages):
                yield from grow(number + 1, weight * times, wider)

    return grow(0, 1, {})


def posteriors(releases: Sequence[dalenius.Release], chained: bool) -> dict[tuple[Age, Key], dict[str, Fraction]]:
    """With which probability each person of a bucket has each of its values, given all releases."""
    found = seen(releases, chained)
    weights: dict[tuple[Age, Key], Counter[str]] = defaultdict(Counter)
    total = 0
    for weight, world in worlds(found, chained):
        total += weight
        for place, value in world.items():
            weights[place][value] += weight
    return {
        place: {value: Fraction(number, total) for value, number in held.items()} for place, held in weights.items()
    }


def shares(values: Counter[str]) -> dict[str, Fraction]:
    """What one bucket alone says of each person in it."""
    return {value: Fraction(count, values.total()) for value, count in values.items()}


def people(text: str) -> People:
    """`ax by`: the person a has x, and b has y."""
    return {word[0]: (ord(word[0]), word[1:]) for word in text.split()}


HISTORIES = {
    "nobody changes": ["ax bx cy dy ez fz"] * 3,
    "some leave": ["ax bx cy dy ez fz", "ax cy ez fz", "ax fz"],
    "all of a bucket may leave": ["ax by cx dy", "ax", "ax ez fx"],
    "some join": ["ax by cz", "ax by cz dx ey", "ax by cz dx ey fx gz"],
    "some leave and join": ["ax bx cy dy", "bx dy ex fz", "bx fz gy hx"],
    "some come back": ["ax bx cy dy ez fz", "ax cy ez", "ax bx cy dy ez fz"],
    "come back while others join": ["ax bx cy dy", "cy dy ex fy", "ax cy dy ex gz hx"],
    "join, leave and come back": ["ax by", "ax by cx dz", "ax by"],
    "one is there for a year": ["ax by", "by cx dz", "by dz ex fy"],
}
WITH_FAKES = {  # where there is room for them
    "some leave": ["ax bx cy dy ez fz", "ax cy ez fz", "ax fz"],
    "some join": ["ax by cz", "ax by cz dx ey fz", "ax by cz dx ey fz gx hy iz"],
    "come back while others join": ["ax by cz dx ey fz", "cz dx gz hx iy", "ax by cz gz hx jy kz lx"],
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=list(HISTORIES))
def test_all_releases_tell_no_more_of_anybody_than_their_bucket(history: list[str], tmp_path: Path) -> None:
    years = Years(tmp_path, {"uniform": "1/2"}, seed=len(history[0]))
    check_worlds(years, history, Fraction(1, 2))


@pytest.mark.parametrize("history", WITH_FAKES.values(), ids=list(WITH_FAKES))
def test_the_same_where_values_of_each_bucket_are_fake(history: list[str], tmp_path: Path) -> None:
    years = Years(tmp_path, {"uniform": "2/3"}, seed=2, fake_values=1)
    check_worlds(years, history, Fraction(2, 3))
    assert all(held.total() >= 3 for held in values_in(years.releases[-1]).values())


def check_worlds(years: Years, history: list[str], limit: Fraction) -> None:
    """Whoever sees all releases infers of each person what their bucket says, and no more than the limit."""
    for text in history:
        years.follow(people(text))
    found = seen(years.releases, chained=True)
    assert all(len(keys) == 1 for keys in found.buckets_of.values())
    told = posteriors(years.releases, chained=True)
    assert {age for age, _ in told} == {age for text in history for age, _ in people(text).values()}
    for (_, key), told_of in told.items():
        assert told_of == shares(found.values[key])
        assert max(told_of.values()) <= limit


def random_history(draw: random.Random) -> list[People]:
    """Up to eight people, each there in some of three years; all of the first year are of two values or more."""
    everybody = {chr(97 + k): (97 + k, "xyz"[k % 3] if k < 3 else draw.choice("xyz")) for k in range(8)}
    years = [{name: one for name, one in everybody.items() if draw.random() < 2 / 3} for _ in range(3)]
    first = {**years[0], **{name: everybody[name] for name in "abc"}}
    return [first, {**years[1], "a": everybody["a"]}, {**years[2], "b": everybody["b"]}]


@pytest.mark.parametrize("few", ["hold_back", "counterfeits"])
@pytest.mark.parametrize("new", [1, 2])
def test_few_new_people_wait_or_are_filled_up_whatever_their_values_are(tmp_path: Path, few: str, new: int) -> None:
    """Else whoever sees that they had to would know that one of them has a rare value."""
    values = ["flu"] * 12 + ["cold"] * 6 + ["gout"] * 2
    limits = {"values": {"flu": "3/4", "cold": "1/2", "gout": "1/4"}}
    first = {f"p{number}": (number, value) for number, value in enumerate(values)}
    shown = defaultdict(set)
    for number, chosen in enumerate(product(["flu", "cold", "gout"], repeat=new)):
        years = Years(tmp_path / str(number), limits, seed=number)
        years.follow(first)
        added = {f"q{place}": (100 + place, value) for place, value in enumerate(chosen)}
        manifest = years.follow({**first, **added}, **{few: True}).manifest
        assert manifest.chain is not None
        counts = tuple((value.value, value.count, value.worst.count, value.worst.size) for value in manifest.values)
        fit = all(chosen.count(value) <= many for value, many in {"flu": 3, "cold": 2, "gout": 1}.items())
        is_usual = few == "hold_back" or fit  # among so many that the rarest value is there once
        shown[is_usual].add((counts, manifest.chain.held_back, manifest.chain.surplus, str(manifest.setting)))
    assert len(shown[True]) == 1
    assert shown[False].isdisjoint(shown[True])


@pytest.mark.parametrize("seed", range(examples(15)))
@pytest.mark.parametrize("few", ["hold_back", "counterfeits"])
def test_random_histories(seed: int, few: str, tmp_path: Path) -> None:
    """Whatever people do but change their values, and whether those who are too few wait or are filled up."""
    history = random_history(random.Random(f"histories {seed}"))  # noqa: S311 (a test)
    years = Years(tmp_path, {"uniform": "1/2"}, seed=seed)
    try:
        years.follow(history[0])
    except NoSolutionError:
        return  # more than half of these people have one value
    for one in history[1:]:
        years.follow(one, **{few: True})
    found = seen(years.releases, chained=True)
    told = posteriors(years.releases, chained=True)
    for (_, key), told_of in told.items():
        assert told_of == shares(found.values[key])
    for one, release in zip(history, years.releases, strict=True):
        waiting = release.followed["held_back"] if release.followed else 0
        assert len(buckets_of(release)) == len(one) - waiting


def test_the_oracle_sees_what_releases_tell_that_know_nothing_of_each_other(tmp_path: Path) -> None:
    """The same people published twice without a ledger: the intersection pins some of them."""
    once = table_of(people("ax bx cy dy ez fz"))
    releases = [
        dalenius.publish(
            once,
            {"uniform": "1/2"},
            sensitive="value",
            quasi_identifiers=["age"],
            seed=seed,
            out=tmp_path / f"r{seed}",
        )
        for seed in range(4)
    ]
    pairs = [(one, other) for one, other in pairwise(releases) if buckets_of(one) != buckets_of(other)]
    assert pairs
    largest = []
    for pair in pairs:
        alone = [max(max(told.values()) for told in posteriors([one], chained=False).values()) for one in pair]
        assert alone == [Fraction(1, 2)] * 2
        largest.append(max(max(told.values()) for told in posteriors(pair, chained=False).values()))
    assert max(largest) == 1
    truth = dict(people("ax bx cy dy ez fz").values())
    for pair in pairs:
        for (age, _), told in posteriors(pair, chained=False).items():
            assert truth[age] in told
            if len(told) == 1:
                assert told[truth[age]] == 1


def test_a_changed_value_tells_that_it_is_another(tmp_path: Path) -> None:
    """The one thing that a chain gives away, which its concern says: old and new value differ."""
    years = Years(tmp_path, seed=1)
    years.follow(people("ax by"))
    release = years.follow(people("az by cx"))
    assert [concern.code for concern in release.concerns if concern.code == "changed-values"] == ["changed-values"]
    found, told = seen(years.releases, chained=True), posteriors(years.releases, chained=True)
    first, second = found.buckets_of[ord("a")]
    assert (dict(found.values[first]), dict(found.values[second])) == ({"x": 1, "y": 1}, {"x": 1, "z": 1})
    third = Fraction(1, 3)  # of (x, z), (y, x), (y, z)
    assert told[ord("a"), first] == {"x": third, "y": 2 * third}
    assert told[ord("a"), second] == {"z": 2 * third, "x": third}
    assert told[ord("b"), first] == {"x": 2 * third, "y": third}  # and so of whoever else is in these buckets
    assert told[ord("c"), second] == {"x": 2 * third, "z": third}


def test_the_people_of_a_bucket_have_its_values_in_any_order(tmp_path: Path) -> None:
    """Which of its values somebody has does not depend on their place in QIT, nor on how often they were published."""
    rng = np.random.default_rng(5)
    count = 6_000
    value = rng.choice(list("wxyz"), count, p=[0.4, 0.3, 0.2, 0.1])
    whole = pa.table({"person": np.arange(count), "age": rng.permutation(count), "value": value})
    years = Years(tmp_path, {"odds": 4}, seed=11)
    first = whole.slice(0, 4_000)
    years.publish(first)
    second = whole.filter(pa.array(np.arange(count) % 5 > 0))
    release = years.publish(second)
    has = dict(zip(second["age"].to_pylist(), second["value"].to_pylist(), strict=True))
    by_bucket: dict[int, list[int]] = defaultdict(list)
    for age, bucket in buckets_of(release).items():
        by_bucket[bucket].append(age)
    held = values_in(release)
    old = max(buckets_of(years.releases[0]).values())
    for generation in (range(1, old + 1), range(old + 1, max(held) + 1)):
        least, others = np.zeros(4), np.zeros(4)  # the first in the bucket, by age: expected, and found
        for bucket in generation:
            ages = sorted(by_bucket[bucket])
            for place, name in enumerate("wxyz"):
                if ages:
                    least[place] += held[bucket][name] / held[bucket].total()
                    others[place] += has[ages[0]] == name
        assert others.sum() > 100
        assert chisquare(others, least * (others.sum() / least.sum())).pvalue > 0.001


def test_each_arrangement_of_a_tiny_bucket_comes_equally_often(tmp_path: Path) -> None:
    """Four people, two of each value, published with many keys: each value for each of them in half of the releases."""
    once = people("ax bx cy dy")
    together: Counter[frozenset[Age]] = Counter()
    number = 40
    for seed in range(number):
        folder = tmp_path / str(seed)
        release = Years(folder, seed=seed).follow(once)
        assert all(held == Counter("xy") for held in values_in(release).values())
        by_bucket: dict[int, set[Age]] = defaultdict(set)
        for age, bucket in buckets_of(release).items():
            by_bucket[bucket].add(age)
        together[frozenset(next(pair for pair in by_bucket.values() if ord("a") in pair))] += 1
    a, c, d = ord("a"), ord("c"), ord("d")
    assert set(together) == {frozenset({a, c}), frozenset({a, d})}
    assert chisquare(list(together.values())).pvalue > 0.001


def test_counterfeits_tell_of_no_stratum_who_has_what(tmp_path: Path) -> None:
    """New buckets that are filled up are not cut: how many counterfeits go where would depend on who is there."""
    values = ["flu"] * 24 + ["cold"] * 12 + ["gout"] * 4
    limits = {"values": {"flu": "3/4", "cold": "1/2", "gout": "1/5"}}
    shown = set()
    for number, chosen in enumerate(product(["flu", "cold", "gout"], repeat=2)):
        people = [(f"p{place}", place, value) for place, value in enumerate(values)]
        years = Years(tmp_path / str(number), limits, seed=number, strata=["age"])
        table = pa.table(dict(zip(("person", "age", "value"), map(list, zip(*people, strict=True)), strict=True)))
        age = pa.array([place % 2 for place in range(len(people))])
        years.publish(table.set_column(1, "age", age))
        people += [(f"q{place}", place, value) for place, value in enumerate(chosen)]
        table = pa.table(dict(zip(("person", "age", "value"), map(list, zip(*people, strict=True)), strict=True)))
        age = pa.array([place % 2 for place in range(len(values))] + [0, 1])
        manifest = years.publish(table.set_column(1, "age", age), counterfeits=True).manifest
        assert manifest.strata is not None
        new = [stratum for stratum in manifest.strata.strata if stratum.since == 2]
        assert len(new) == 1
        if chosen != ("gout", "gout"):
            shown.add(str([value.count for value in manifest.values]))
    assert len(shown) == 1


@pytest.mark.parametrize("new", [1, 2])
def test_no_counterfeits_hide_a_value_that_was_never_there(tmp_path: Path, new: int) -> None:
    years = Years(tmp_path, {"uniform": "2/5"})
    first = {f"p{number}": (number, ["flu", "cold", "gout"][number % 3]) for number in range(12)}
    years.follow(first)
    added = {f"q{number}": (100 + number, "ebola" if number == 0 else "flu") for number in range(new)}
    with pytest.raises(NoSolutionError, match="'ebola', which was in no release of the chain"):
        years.follow({**first, **added}, counterfeits=True)
    held = years.follow({**first, **added}, hold_back=True)
    assert held.manifest.chain is not None
    assert held.manifest.chain.held_back == new
