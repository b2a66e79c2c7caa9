"""Releases of a chain against a book that is kept beside it: who is where, and what of it stays as it was."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dalenius
from dalenius.errors import InputError, NoSolutionError
from dalenius.publishing import description, local_output
from dalenius.publishing.followed_rows import Parts
from dalenius.release.signature import write_new_key
from tests.over_time import Years, buckets_of, files_in, values_in

GROUPS = {"A": ["a1", "a2"], "B": ["b1", "b2", "b3"]}
VALUES, SHARES = ["a1", "a2", "b1", "b2", "b3"], [0.3, 0.25, 0.2, 0.15, 0.1]


class Population:
    """People of whom some leave, come back, join, and change their values, year by year, at random from a seed."""

    def __init__(self, seed: int, people: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.value: dict[int, str] = {}
        self.here: set[int] = set()
        self.year = 0
        self._join(people)

    def _join(self, number: int) -> None:
        first = len(self.value)
        for person, place in enumerate(self._rng.choice(len(VALUES), number, p=SHARES), first):
            self.value[person] = VALUES[place]
            self.here.add(person)

    def next_year(self) -> None:
        """A fifth leaves, half of those who are away come back, some change their values, and some join."""
        self.year += 1
        away = set(self.value) - self.here
        self.here -= {person for person in self.here if self._rng.random() < 0.2}
        self.here |= {person for person in away if self._rng.random() < 0.5}
        for person in sorted(self.here):
            if self._rng.random() < 0.1:
                self.value[person] = str(self._rng.choice(VALUES))
        self._join(len(self.value) // 5)

    @property
    def table(self) -> pa.Table:
        """Those who are here, in no order; all of them are a year older than the year before."""
        people = self._rng.permutation(sorted(self.here))
        return pa.table(
            {
                "person": people,
                "address": pa.array(people * 100 + self.year),
                "area": pa.array([f"area {person % 3}" for person in people]),
                "value": pa.array([self.value[person] for person in people]),
            }
        )

    def of_address(self, address: int) -> int:
        return address // 100


class Book:
    """What a publisher with pencil and paper would keep: the value and the bucket of everybody who ever had one."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[str, int]] = {}
        self.last: set[int] = set()
        self.buckets = 0

    def moves(self, now: Mapping[int, str]) -> dict[str, int]:
        known = {person for person in now if person in self.known}
        same = {person for person in known if self.known[person][0] == now[person]}
        return {
            "stayed": len(same & self.last),
            "returned": len(same - self.last),
            "left": len(self.last - known),
            "new": len(now) - len(known),
            "changed": len(known - same),
        }

    def enter(self, now: Mapping[int, str], where: Mapping[int, int], buckets: int) -> None:
        """Check where people are, and note it."""
        for person, bucket in where.items():
            value, old = self.known.get(person, (None, None))
            if value == now[person]:
                assert bucket == old
            else:
                assert self.buckets < bucket <= buckets
            self.known[person] = (now[person], bucket)
        self.last, self.buckets = set(where), buckets


def check_year(book: Book, years: Years, population: Population, **options: Any) -> dalenius.Release:
    """Publish a year, and compare everything with the book."""
    now = {person: population.value[person] for person in population.here}
    expected = book.moves(now)
    before = years.releases[-1] if years.releases else None
    table = population.table
    release = years.publish(table, **options)
    addresses = buckets_of(release, "address")
    assert all(address % 100 == population.year for address in addresses)  # quasi-identifiers are those of today
    where = {population.of_address(address): bucket for address, bucket in addresses.items()}
    book.enter(now, where, release.manifest.buckets)
    held, told, chain = values_in(release), release.followed, release.manifest.chain
    assert told is not None
    assert chain is not None
    assert {name: told[name] for name in expected} == expected
    assert (told["release"], chain.release) == (len(years.releases), len(years.releases))
    assert told["held_back"] == chain.held_back == len(now) - len(where)
    assert told["places"] - len(where) == told["surplus"] == chain.surplus
    for bucket, values in values_of_people(now, where).items():
        assert values <= held[bucket]
    assert set(held) == set(range(1, release.manifest.buckets + 1))
    if before is not None:
        assert release.st.slice(0, before.st.num_rows).to_pydict() == before.st.to_pydict()
        assert release.verify(previous=before).verified
    assert release.verify(against=table).verified or chain.held_back
    limits = {value.value: Fraction(value.limit) for value in release.manifest.values}
    known, fakes = release.manifest.adversary.known_records, release.manifest.adversary.fake_values
    for values in held.values():
        assert all(count <= limits[value] * (values.total() - fakes - known) for value, count in values.items())
    return release


def values_of_people(now: Mapping[int, str], where: Mapping[int, int]) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for person, bucket in where.items():
        found.setdefault(bucket, Counter())[now[person]] += 1
    return found


SETTINGS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "no strata": {"strata": None},
    "strata by column": {"strata": ["area"]},
    "at most five strata": {"strata": 5},
    "fakes": {"fake_values": 1},
    "known records": {"known_records": 1},
    "fakes and known records": {"fake_values": 1, "known_records": 1},
    "csv": {"format": "csv"},
    "parts": {"format": "parts"},
    "minimal sizes": {"min_size": 4},
    "two sizes": {"method": "two-size"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_four_years(name: str, tmp_path: Path) -> None:
    population, book = Population(seed=len(name), people=400), Book()
    years = Years(tmp_path, {"uniform": "1/2"}, quasi_identifiers=["address", "area"], **SETTINGS[name])
    for _ in range(4):
        check_year(book, years, population)
        population.next_year()
    last = years.releases[-1]
    assert last.followed is not None
    assert min(last.followed[name] for name in ("stayed", "returned", "left", "new", "changed")) > 0
    population.value[min(population.here)] += "?"
    assert not last.verify(against=population.table).verified


@pytest.mark.parametrize("few", ["hold_back", "counterfeits"])
@pytest.mark.parametrize("limits", [{"uniform": "1/2"}, {"odds": 2}], ids=str)
def test_a_few_people_over_six_years(few: str, limits: dict[str, Any], tmp_path: Path) -> None:
    population, book = Population(seed=3, people=40), Book()
    years = Years(tmp_path, limits, quasi_identifiers=["address", "area"])
    check_year(book, years, population)
    waited = filled = 0
    for _ in range(5):
        population.next_year()
        release = check_year(book, years, population, **{few: True})
        assert release.followed is not None
        waited += release.followed["held_back"]
        filled += release.followed["counterfeits"]
    if "odds" in limits:
        assert waited + filled > 0


@pytest.mark.parametrize(
    "of_groups", [{"groups": {"A": "0.8", "B": "0.9"}}, {"levels": {"group": {"odds": 4}}}], ids=["groups", "levels"]
)
def test_limits_of_groups(of_groups: dict[str, Any], tmp_path: Path) -> None:
    """Those of the first release hold in all, even where they go by counts."""
    population, book = Population(seed=6, people=400), Book()
    limits = {"odds": 3, "grouping": {"tree": GROUPS}, **of_groups}
    years = Years(tmp_path, limits, quasi_identifiers=["address", "area"])
    shown: list[dict[str, Any]] = []
    for _ in range(3):
        release = check_year(book, years, population)
        groups = release.manifest.groups or []
        shown.append({group.name: group.limit for group in groups})
        of = {name: group for group, names in GROUPS.items() for name in names}
        counted = Counter(of[value] for value in release.st["value"].to_pylist())
        assert {group.name: group.count for group in groups} == dict(counted)
        for held in values_in(release).values():
            for group in groups:
                inside = sum(count for value, count in held.items() if of[value] == group.name)
                assert group.limit is None or inside <= Fraction(group.limit) * held.total()
        population.next_year()
    assert shown[0] == shown[1] == shown[2]


class Few:
    """A chain of few people by name, of whom each year is written as `anna=flu bert=cold`."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.years = Years(folder, quasi_identifiers=["name"], person="id", seed=1, **options)

    def year(self, text: str, **options: Any) -> dict[str, int]:
        """Publish it: the bucket of everybody."""
        rows = [word.split("=") for word in text.split()]
        table = pa.table(
            {
                "id": [f"no. {name}" for name, _ in rows],
                "name": [name for name, _ in rows],
                "value": [value for _, value in rows],
            }
        )
        return buckets_of(self.years.publish(table, **options), "name")

    @property
    def followed(self) -> Mapping[str, int]:
        told = self.years.releases[-1].followed
        assert told is not None
        return told


FOUR = "anna=flu bert=cold carl=flu dora=cold"


def told(few: Few, *names: str) -> list[int]:
    return [few.followed[name] for name in names]


def test_who_changes_and_changes_back_is_new_each_time(tmp_path: Path) -> None:
    few = Few(tmp_path)
    first = few.year(FOUR)
    second = few.year("anna=cold bert=cold carl=flu dora=cold emil=flu")
    third = few.year("anna=flu bert=cold carl=flu dora=cold emil=flu fred=cold")
    assert (first["anna"] <= 2, second["anna"], third["anna"]) == (True, 3, 4)
    assert second["emil"] == third["emil"] == 3
    assert [third[name] for name in ("bert", "carl", "dora")] == [first[name] for name in ("bert", "carl", "dora")]
    assert told(few, "stayed", "changed", "new", "left") == [4, 1, 1, 0]
    codes = [[concern.code for concern in release.concerns] for release in few.years.releases]
    assert ["changed-values" in one for one in codes] == [False, True, True]
    assert few.years.releases[1].concerns[0].people == 1
    assert [str(concern.severity) for concern in few.years.releases[1].concerns[:1]] == ["look"]


def test_most_values_changed_may_mean_that_others_are_compared(tmp_path: Path) -> None:
    """As with a number of rows for a person: it is unique, and somebody else's each year."""
    few = Few(tmp_path)
    few.year(FOUR)
    few.year("anna=cold bert=flu carl=cold dora=cold emil=flu")
    found = next(one for one in few.years.releases[1].concerns if one.code == "changed-values")
    assert (found.people, str(found.severity)) == (3, "stop")
    assert "3 people have another value than in the release before, of 4 who were there" in found.message
    assert "Does --person name who people are?" in found.answer


def test_who_comes_back_has_the_old_bucket_or_a_new_one(tmp_path: Path) -> None:
    few = Few(tmp_path)
    first = few.year(FOUR)
    few.year("carl=flu dora=cold")
    assert told(few, "left", "surplus") == [2, 2]
    third = few.year("anna=flu bert=flu carl=flu dora=cold emil=cold")
    assert (third["anna"], third["bert"]) == (first["anna"], 3)
    assert told(few, "returned", "changed", "new", "stayed") == [1, 1, 1, 2]


def test_a_bucket_that_everybody_left_stays_in_st(tmp_path: Path) -> None:
    few = Few(tmp_path)
    first = few.year(FOUR)
    stay = [name for name, bucket in first.items() if bucket == 2]
    second = few.year(" ".join(word for word in FOUR.split() if word[:4] in stay))
    assert set(second.values()) == {2}
    release = few.years.releases[1]
    assert values_in(release) == {1: Counter(flu=1, cold=1), 2: Counter(flu=1, cold=1)}
    assert release.manifest.strata is not None
    assert release.manifest.strata.tree == []
    assert release.verify(previous=few.years.releases[0]).verified
    third = few.year(FOUR)
    assert third == first


def test_who_waits_is_published_when_there_are_enough(tmp_path: Path) -> None:
    few = Few(tmp_path)
    first = few.year(FOUR)
    with pytest.raises(NoSolutionError, match="1 of them has 'flu', whose limit 1/2 asks for 2"):
        few.year(FOUR + " emil=flu")
    assert few.year(FOUR + " emil=flu", hold_back=True) == first
    assert told(few, "held_back", "new", "places") == [1, 1, 4]
    assert few.year(FOUR + " emil=flu fred=flu", hold_back=True) == first
    assert told(few, "held_back", "new") == [2, 2]
    fourth = few.year(FOUR + " emil=flu fred=flu gina=cold hans=cold", hold_back=True)
    assert {fourth[name] for name in ("emil", "fred", "gina", "hans")} == {3, 4}
    assert told(few, "held_back", "new", "stayed", "surplus") == [0, 4, 4, 0]


def test_whose_changed_value_waits_is_in_no_bucket_meanwhile(tmp_path: Path) -> None:
    few = Few(tmp_path)
    first = few.year(FOUR)
    second = few.year(FOUR.replace("anna=flu", "anna=cold"), hold_back=True)
    assert second == {name: bucket for name, bucket in first.items() if name != "anna"}
    assert told(few, "changed", "held_back", "left") == [1, 1, 0]
    assert few.year(FOUR) == first  # it has the old value again, and so the old bucket
    assert told(few, "returned", "stayed") == [1, 3]


def test_counterfeits_fill_up(tmp_path: Path) -> None:
    few = Few(tmp_path)
    few.year(FOUR)
    second = few.year(FOUR + " emil=flu", counterfeits=True)
    release = few.years.releases[1]
    new = values_in(release)[second["emil"]]
    assert new["flu"] >= 1
    assert 2 * max(new.values()) <= new.total()
    assert told(few, "counterfeits", "surplus", "held_back") == [new.total() - 1] * 2 + [0]
    assert any("counterfeit" in note for note in release.notes)
    third = few.year(FOUR + " fred=cold gina=flu", counterfeits=True)  # which need none
    assert told(few, "counterfeits", "new", "left") == [0, 2, 1]
    assert third["fred"] == third["gina"] == release.manifest.buckets + 1


def test_as_many_counterfeits_and_new_people_as_the_table_has_rows(tmp_path: Path) -> None:
    """The quasi-identifiers of the old ones are looked at nonetheless."""
    few = Few(tmp_path)
    few.year("anna=flu bert=cold")
    second = few.year("zora=flu anna=flu bert=cold", counterfeits=True)
    assert set(second) == {"anna", "bert", "zora"}


def test_signed_and_saved_releases_follow(tmp_path: Path) -> None:
    """The chain is of manifests, so a copy of a release, or its signature, makes no difference."""
    few, key = Few(tmp_path), tmp_path / "key"
    write_new_key(key)
    few.year(FOUR, sign=key)
    few.years.releases[0] = few.years.releases[0].save(tmp_path / "copy")
    few.year(FOUR + " emil=flu fred=cold", sign=key)
    release = dalenius.load(few.years.releases[1].path)
    verdict = release.verify(previous=tmp_path / "r1", signed_by=tmp_path / "key.pub")
    assert verdict.verified
    assert {"chain", "signature"} <= {check.check for check in verdict.checks if check.passed}


@pytest.mark.parametrize("change", ["nobody new", "all of them new but one", "one stays and has another value"])
def test_extremes(change: str, tmp_path: Path) -> None:
    few = Few(tmp_path)
    first = few.year(FOUR)
    if change == "nobody new":
        assert few.year(FOUR) == first
        assert few.years.releases[1].qit.equals(few.years.releases[0].qit)
    elif change == "all of them new but one":
        second = few.year("anna=flu emil=cold fred=flu")
        assert second == {"anna": first["anna"], "emil": 3, "fred": 3}
    else:
        assert few.year("anna=cold emil=flu") == {"anna": 3, "emil": 3}
        assert told(few, "stayed", "left", "changed", "new", "surplus", "places") == [0, 3, 1, 1, 4, 6]


def test_everybody_leaves(tmp_path: Path) -> None:
    few = Few(tmp_path)
    few.year(FOUR)
    before = files_in(tmp_path)
    with pytest.raises(InputError, match="nobody would be in the release"):
        few.year("anna=cold", hold_back=True)  # the only one has to wait
    empty = pa.table({name: pa.array([], pa.string()) for name in ("id", "name", "value")})
    with pytest.raises(dalenius.DaleniusError):
        few.years.publish(empty)
    assert files_in(tmp_path) == before
    assert few.year(FOUR)


def test_new_values_come_with_limits_of_their_own(tmp_path: Path) -> None:
    few = Few(tmp_path, limits={"odds": 8})
    few.year("anna=flu bert=cold carl=flu dora=cold emil=gout fred=flu gina=cold hans=gout")
    few.year("anna=flu bert=cold carl=flu dora=cold ivan=rash jane=flu kurt=cold lars=gout mona=flu nina=cold")
    before, after = ({value.value: value.limit for value in one.manifest.values} for one in few.years.releases)
    assert set(after) == {*before, "rash"}
    assert {name: after[name] for name in before} == before


def test_nothing_that_was_not_asked_for_is_told_of_the_limits(tmp_path: Path) -> None:
    """Limits of the release before are not limits that somebody has named."""
    few = Few(tmp_path)
    few.year("anna=flu bert=cold carl=gout")
    few.year("anna=flu bert=cold carl=gout emil=flu fred=cold")
    assert [note for note in few.years.releases[1].notes if "policy" in note] == []


def test_what_is_told_of_each_release(tmp_path: Path) -> None:
    few = Few(tmp_path)
    few.year(FOUR)
    assert "this is the first release of a chain. Keep the ledger" in "\n".join(few.years.releases[0].notes)
    few.year("anna=flu bert=flu emil=cold")
    notes = "\n".join(few.years.releases[1].notes)
    assert (
        "release 2 of its chain: 1 people stay in their buckets, 2 left, 0 came back, 1 are new, and 1 have another "
        "value than before" in notes
    )
    assert "3 of 6 values (50%) are nobody's" in notes
    assert "consider a new chain" in notes


@pytest.mark.parametrize("options", [{}, {"fake_values": 1}], ids=str)
def test_several_parts_and_row_groups(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 and 256 rows, so that old buckets, and those of which rows are missing, begin and end anywhere."""
    monkeypatch.setattr(description, "_GROUP_BITS", 6)
    monkeypatch.setattr(local_output, "_PART_ROWS", 256)
    population, book = Population(seed=2, people=1_000), Book()
    years = Years(tmp_path, quasi_identifiers=["address", "area"], format="parts", **options)
    for _ in range(3):
        release = check_year(book, years, population)
        assert len(list((release.path / "qit").iterdir())) == -(-release.qit.num_rows // 256) > 3
        population.next_year()


MANY = """
import numpy as np
import pyarrow as pa
import dalenius

def table(people, seed):
    rng = np.random.default_rng(seed)
    values = np.array([f"value {number}" for number in range(20)])
    return pa.table({"person": pa.array(people).cast(pa.string()), "age": rng.integers(0, 100, len(people)),
                     "area": rng.integers(0, 2000, len(people)), "value": values[people * 7919 % 100_003 % 20]})

first = np.arange(300_000)
second = np.concatenate([first[first % 10 > 0], np.arange(300_000, 340_000)])[::-1].copy()
options = dict(sensitive="value", quasi_identifiers=["age", "area"], person="person", ledger="ledger", format="parts",
               memory=640 * 2**20)
one = dalenius.publish(table(first, 1), {"odds": 4}, out="r1", **options)
two = dalenius.publish(table(second, 2), {"odds": 4}, out="r2", after="r1", **options)
told = two.followed
assert (told["stayed"], told["left"], told["new"], told["changed"]) == (270_000, 30_000, 40_000, 0), told
assert two.verify(previous=one, against=table(second, 2), memory=640 * 2**20).verified
lines = open("/proc/self/status").read().splitlines()  # what getrusage says begins with what the parent takes
print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")))
"""


def test_many_people_in_little_memory(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", MANY], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 640
    assert (tmp_path / "ledger").stat().st_size < 330_000 * 30


@pytest.mark.parametrize("in_memory", [True, False])
def test_parts_are_given_back_whole(in_memory: bool, tmp_path: Path) -> None:
    """In memory or in a scratch file, whatever batches they come in."""
    kind = np.dtype([("key", "<u8"), ("row", "<i8")])
    rng = np.random.default_rng(3)
    parts = Parts(kind, 5, None if in_memory else tmp_path)
    expected: list[list[tuple[int, int]]] = [[] for _ in range(5)]
    for start, rows in ((0, 40), (40, 0), (40, 1), (41, 200)):
        of = np.sort(rng.integers(0, 4, rows))  # nobody is in the last part
        records = np.zeros(rows, kind)
        records["key"], records["row"] = rng.integers(0, 2**63, rows), np.arange(start, start + rows)
        parts.add(records, np.bincount(of, minlength=5).tolist())
        for part, record in zip(of.tolist(), records.tolist(), strict=True):
            expected[part].append(record)
    more = np.array([(7, 1000), (8, 1001)], kind)
    parts.append(2, more)
    parts.append(1, more[:0])
    expected[2] += more.tolist()
    assert [parts.part(number).tolist() for number in range(5)] == expected
    assert list(tmp_path.iterdir()) == []  # the file has no name
    parts.close()
