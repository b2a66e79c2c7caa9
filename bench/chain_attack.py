"""Releases one after another, anew each time and as a chain, and what all of them together say of everybody.

Whoever publishes with a ledger can tell from it who is in which bucket. So each release that is made anew is the first
of a chain of its own, which is made as any release is.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet

import dalenius
from bench.chain_people import Integers, Setting, World
from dalenius.place.numbering import person_texts
from dalenius.query.bitsets import WorkloadQuery
from dalenius.query.workload import generate
from dalenius.release.ledger import open_ledger

Floats = npt.NDArray[np.float64]
ODDS = 4
QUERIES = 2000
ROUNDING = 1e-9
NOWHERE = -1


@dataclass(frozen=True)
class Made:
    """A release: the bucket of each person (0 for who waits), how many of each value are in each bucket, and limits."""

    release: dalenius.Release
    buckets: Integers
    counts: Floats
    limits: Floats
    seconds: float

    @property
    def shares(self) -> Floats:
        """Of the values of each bucket."""
        return np.asarray(self.counts / np.maximum(1, self.counts.sum(axis=1, keepdims=True)))


class Beliefs:
    """What an attacker believes of everybody who puts together all that was published about them.

    A bucket that somebody stays in is one piece of evidence. Who is in another bucket of the chain has another value
    than before, so what was known of them is put aside, and kept as what is known of their value before. It tells about
    the others of both buckets, too: what the mover hardly had, or has, is more likely theirs.
    """

    def __init__(self, people: int, values: int, is_chain: bool) -> None:
        self._is_chain = is_chain
        self._now = np.ones((people, values))
        self._buckets = np.full(people, NOWHERE, np.int64)
        self._old = np.full(people, NOWHERE, np.int64)  # the bucket before

    def see(self, made: Made, people: Integers, values: Integers) -> dict[str, Any]:
        """Look at a further release, and say of how many people which is believed above its limit."""
        there = made.buckets > 0
        people, buckets, values = people[there], made.buckets[there], values[there]
        shares = made.shares[buckets]
        if self._is_chain:
            self._follow(people, buckets, shares)
        else:
            self._now[people] *= shares
            self._now[people] /= np.maximum(self._now[people].max(axis=1, keepdims=True), 1e-300)
        moved = self._old[people] != NOWHERE
        found = _found(self._now[people[~moved]], made.limits, values[~moved])
        found |= {"people": len(people), "moved": int(moved.sum()), "moved_above": 0, "moved_one_value": 0}
        found |= {"beside": 0, "beside_above": 0}
        if moved.any():
            before = made.shares[self._old[people[moved]]]
            found |= _of_moved(before, self._now[people[moved]], made.limits)
            found |= self._beside(made, buckets[~moved])
        return found

    def _beside(self, made: Made, buckets: Integers) -> dict[str, int]:
        """Of the others, those in a bucket that somebody moved from or to, and those above a limit by one who moved."""
        movers = np.flatnonzero(self._old != NOWHERE)
        touched, above = np.zeros(len(made.counts), bool), np.zeros(len(made.counts), bool)
        for own, other in ((self._old, self._buckets), (self._buckets, self._old)):
            place = own[movers]
            weights = made.shares[place] * (1 - made.shares[other[movers]])
            mover = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
            size = made.counts[place].sum(axis=1, keepdims=True)
            beliefs = (made.counts[place] - mover) / np.maximum(1, size - 1)
            touched[place] = True
            above[place[(beliefs > made.limits + ROUNDING).any(axis=1)]] = True
        return {"beside": int(touched[buckets].sum()), "beside_above": int(above[buckets].sum())}

    def _follow(self, people: Integers, buckets: Integers, shares: Floats) -> None:
        came = self._buckets[people] == NOWHERE
        moved = ~came & (self._buckets[people] != buckets)
        self._old[people[moved]] = self._buckets[people[moved]]
        self._now[people[came | moved]] = shares[came | moved]
        self._buckets[people] = buckets


def _found(weights: Floats, limits: Floats, truth: Integers) -> dict[str, Any]:
    sums = weights.sum(axis=1)
    some = sums > 0
    beliefs = weights[some] / sums[some, None]
    claims = beliefs > limits + ROUNDING
    owners, values = np.nonzero(claims)
    alone = np.count_nonzero(beliefs, axis=1) == 1
    right = beliefs[alone, truth[some][alone]] > 0
    return {
        "above": int(claims.any(axis=1).sum()),
        "claims": len(owners),
        "claims_right": int((truth[some][owners] == values).sum()),
        "limits": float(limits[values].sum()),
        "pinned": int(alone.sum()),
        "pinned_right": int(right.sum()),
        "no_value": int((~some).sum()),
    }


def _of_moved(before: Floats, now: Floats, limits: Floats) -> dict[str, int]:
    """Two different values: the old one goes by the old bucket, the new one by the new bucket."""
    above, alone = np.zeros(len(now), bool), np.zeros(len(now), bool)
    for own, other in ((before, now), (now, before)):
        weights = own * (other.sum(axis=1, keepdims=True) - other)
        beliefs = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        above |= (beliefs > limits + ROUNDING).any(axis=1)
        alone |= np.count_nonzero(beliefs > ROUNDING, axis=1) == 1
    return {"moved_above": int(above.sum()), "moved_one_value": int(alone.sum())}


class Both:
    """A folder with releases that are made anew and a chain, or with chains that go on in different ways."""

    def __init__(self, setting: Setting, folder: Path, compared: int = 0) -> None:
        self._setting, self._folder, self._compared = setting, folder, compared
        ways = {"anew": None, "chain": setting.too_few[0]}
        if len(setting.too_few) > 1:
            ways = {f"--{way}": way for way in setting.too_few}
        self._ways: dict[str, str | None] = ways
        self._beliefs: dict[str, Beliefs] = {}
        self._holders: dict[str, list[Integers]] = {way: [] for way in ways}
        self._last: dict[str, list[Made]] = {way: [] for way in ways}

    def publish(self, number: int, world: World) -> Iterator[dict[str, Any]]:
        """One release of each kind, and what all of them so far say."""
        for method, way in self._ways.items():
            made = self._made(method, way, number, world)
            manifest, followed = made.release.manifest, made.release.followed or {}
            if method not in self._beliefs:
                everybody = 10**5 if self._setting.name.startswith("Adult") else 5 * 10**5
                self._beliefs[method] = Beliefs(everybody, len(world.texts), way is not None)
            row = {
                "method": method,
                **self._beliefs[method].see(made, world.people, world.values),
                "surplus": followed["surplus"] / followed["places"],
                "held_back": followed["held_back"],
                "counterfeits": followed["counterfeits"],
                "too_few": bool(followed["held_back"] or followed["counterfeits"]),
                "buckets": manifest.buckets,
                "mse": manifest.mse,
                "error": error_of_counts(made, world),
                "seconds": made.seconds,
            }
            if number <= self._compared:
                row |= self._audited(method, made, world)
            yield row

    def _made(self, method: str, way: str | None, number: int, world: World) -> Made:
        is_first = way is None or number == 1
        home = self._folder / (f"{method}-{number}" if way is None else method)
        home.mkdir(exist_ok=True)
        started = time.perf_counter()
        release = dalenius.publish(
            world.table,
            {"odds": ODDS},
            sensitive=self._setting.sensitive,
            quasi_identifiers=list(self._setting.quasi_identifiers),
            person="id",
            ledger=home / "ledger",
            after=None if is_first else home / str(number - 1),
            hold_back=not is_first and way == "hold-back",
            counterfeits=not is_first and way == "counterfeits",
            out=home / str(number),
            seed=number,
        )
        seconds = time.perf_counter() - started
        manifest = release.manifest
        numbers = {text: place for place, text in enumerate(world.texts)}
        st = pyarrow.parquet.read_table(home / str(number) / "st.parquet")
        listed = [numbers[str(value)] for value in st[self._setting.sensitive].to_pylist()]
        counts = np.zeros((manifest.buckets + 1, len(numbers)))
        np.add.at(counts, (st[manifest.columns.bucket].to_numpy(), np.array(listed)), 1)
        limits = np.ones(len(numbers))
        for value in manifest.values:
            limits[numbers[value.value]] = float(Fraction(value.limit))
        buckets = _buckets(home / "ledger", home / str(number), 1 if way is None else number, world)
        return Made(release, buckets, counts, limits, seconds)

    def _audited(self, method: str, made: Made, world: World) -> dict[str, Any]:
        """People who are linked as audit links them: by a combination that nobody shares, twice or more often."""
        _, place, often = np.unique(world.combinations, return_index=True, return_counts=True)
        alone = place[often == 1]
        holder = np.full(10**5, NOWHERE, np.int64)
        holder[world.combinations[alone]] = made.buckets[alone]
        self._holders[method].append(holder)
        self._last[method].append(made)
        if len(self._holders[method]) < 2:
            return {}
        seen = np.stack(self._holders[method], axis=1)
        linked = np.flatnonzero((seen > 0).sum(axis=1) > 1)
        if method != "anew":  # in two buckets of a chain: somebody else, or another value
            linked = linked[[len(set(own) - {0, NOWHERE}) == 1 for own in seen[linked].tolist()]]
        weights, last = np.ones((len(linked), len(world.texts))), np.zeros(len(linked), np.int64)
        for place_of, one in enumerate(self._last[method]):
            there = seen[linked, place_of] > 0
            if method == "anew":
                weights[there] *= one.shares[seen[linked[there], place_of]]
            else:  # a bucket that is seen again says nothing new
                weights[there] = one.shares[seen[linked[there], place_of]]
            last[seen[linked, place_of] > 0] = place_of
        found = [
            _found(weights[last == place_of], one.limits, np.zeros(int((last == place_of).sum()), np.int64))
            for place_of, one in enumerate(self._last[method])
        ]
        result = dalenius.audit_releases(
            [one.release.path for one in self._last[method]], advance={self._setting.age: 1}, seed=1
        ).intersection
        figures = [result.people, result.above, sum(one["above"] for one in found), result.pinned]
        figures.append(sum(one["pinned"] for one in found))
        return {"audit": {"method": method, "releases": len(self._last[method]), "figures": figures}}


def _buckets(ledger: Path, folder: Path, release: int, world: World) -> Integers:
    """The bucket of each person of a table, from the ledger; 0 for those who wait."""
    with open_ledger(ledger, folder) as opened:
        if opened.now is None:
            raise SystemExit("there is no ledger")
        entries = np.concatenate(list(opened.now.entries()))
        own = opened.key.pseudonyms(person_texts(world.table["id"].combine_chunks()))
    entries = entries[entries["seen"] == release]
    entries = entries[np.argsort(entries["high"])]
    place = np.minimum(np.searchsorted(entries["high"], own[:, 0]), len(entries) - 1)
    known = entries["high"][place] == own[:, 0]
    return np.where(known, entries["bucket"][place].astype(np.int64), 0)


def error_of_counts(made: Made, world: World) -> float:
    """The median relative error of counts on one to three quasi-identifiers and one value that somebody has."""
    domains = [int(column.max()) + 1 for column in world.columns]
    asked = generate(domains, len(world.texts), QUERIES, seed=7, selectivity=0.05, most_attributes=3, one_value=True)
    shares = made.shares
    errors = []
    for query in asked:
        chosen = _matching(query, world)
        value = int(query.sensitive[0])
        truth = int((world.values[chosen] == value).sum())
        if truth:
            estimate = float(shares[made.buckets[chosen], value].sum())
            errors.append(abs(estimate - truth) / truth)
    return float(np.median(errors))


def _matching(query: WorkloadQuery, world: World) -> Integers:
    chosen = np.ones(len(world.people), bool)
    for attribute, values in zip(query.attributes, query.values, strict=True):
        chosen &= np.isin(world.columns[attribute], values)
    return np.flatnonzero(chosen)
