"""Releases by people, read back with plain loops: who is in them, what they have, and whether every limit is kept."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.errors import ClearValuesError, ConcernsError, NoSolutionError, UsageError
from dalenius.model.concern import Severity
from dalenius.model.memory import MIB, resident_memory
from dalenius.model.plan import PlanOptions
from dalenius.model.progress import Silent
from dalenius.policy.sensitive_sets import read_sets
from dalenius.publishing.options import PublishOptions, PublishRequest
from dalenius.publishing.people_flow import plan_people
from dalenius.release.manifest import Cut, Manifest
from tests.effort import cases, examples

DISEASES, DRUGS = ("Flu", "Cold", "Gout", "HIV"), ("none", "some")


def visits(people: int, seed: int, most: int = 3) -> pa.Table:
    """People with one to `most` rows, whose disease mostly persists, and two sensitive columns more."""
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for who in range(people):
        disease = random.choice(4, p=[0.4, 0.3, 0.2, 0.1])
        age, city = int(random.integers(20, 60)), ["Rome", "Oslo"][int(random.integers(2))]
        for visit in range(int(random.integers(1, most + 1))):
            here = disease if random.random() < 0.8 else random.integers(4)
            row = {"Person": f"p{who}", "Age": age + visit, "City": city, "Disease": DISEASES[here]}
            rows.append({**row, "Second": DISEASES[random.integers(4)], "Drug": DRUGS[random.integers(2)]})
    order = random.permutation(len(rows))
    return pa.Table.from_pylist([rows[place] for place in order])


def source_people(table: pa.Table, columns: dict[str, tuple[str, ...]]) -> Counter[Any]:
    """Everybody's rows of quasi-identifiers."""
    by_person = defaultdict(list)
    for row in table.to_pylist():
        by_person[row["Person"]].append((row["Age"], row["City"]))
    return Counter(tuple(sorted(rows)) for rows in by_person.values())


def source_lines(table: pa.Table, columns: tuple[str, ...]) -> Counter[tuple[str, int]]:
    """How many people have a value in so many rows."""
    rows_with: Counter[tuple[str, str]] = Counter()
    for row in table.to_pylist():
        rows_with.update({(row["Person"], row[column]) for column in columns})
    return Counter((value, rows) for (_, value), rows in rows_with.items())


class Read:
    """A release with persons, as anybody can read it."""

    def __init__(self, folder: Path) -> None:
        self.manifest: Manifest = dalenius.load(folder).manifest
        self.people: dict[int, dict[int, list[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(list))
        for row in pyarrow.parquet.read_table(folder / "qit.parquet").to_pylist():
            self.people[row["bucket"]][row.get("person", len(self.people[row["bucket"]]) + 1)].append(
                (row["Age"], row["City"])
            )
        self.lines: list[list[tuple[int, str, int]]] = []
        for number in range(self.manifest.sets):
            view = self.manifest.view(number)
            rows = pyarrow.parquet.read_table(folder / view.tables.st.file).to_pylist()
            name = view.columns.sensitive.name
            self.lines.append([(row["bucket"], row[name], row.get("rows", 1)) for row in rows])

    def check_limits(self) -> None:
        for number, lines in enumerate(self.lines):
            view = self.manifest.view(number)
            limits = {value.value: Fraction(value.limit) for value in view.values}
            held = Counter((bucket, value) for bucket, value, _ in lines)
            known = view.adversary.known_records
            for (bucket, value), count in held.items():
                assert count <= limits[value] * (len(self.people[bucket]) - known)

    def check_numbers(self) -> None:
        """People of a bucket have equally many rows, are numbered from 1, and are in the order of their rows."""
        for people in self.people.values():
            assert list(people) == list(range(1, len(people) + 1))
            assert len({len(rows) for rows in people.values()}) == 1
            ordered = list(people.values())
            assert all(rows == sorted(rows) for rows in ordered)
            assert ordered == sorted(ordered)

    def check_strata(self) -> None:
        strata = self.manifest.strata
        if strata is None:
            return
        last = np.cumsum([stratum.buckets for stratum in strata.strata])
        for bucket, people in self.people.items():
            stratum = int(np.searchsorted(last, bucket))
            for rows in people.values():
                least = {"Age": min(row[0] for row in rows), "City": min(row[1] for row in rows)}
                place = 0
                while isinstance(cut := strata.tree[place], Cut):
                    own = len(rows) if cut.column is None else least[cut.column]
                    at_most: Any = cut.at_most if cut.column == "City" else int(cut.at_most)
                    place = cut.below if own <= at_most else cut.above
                assert cut.stratum == stratum + 1
                assert len(rows) == strata.strata[stratum].rows_each


SETS: list[Any] = [{"columns": ["Disease", "Second"], "name": "Illness"}, "Drug"]
LIMITS = {"odds": 12, "floor": "0.2"}


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(30, 90), st.integers(0, 10**6), st.integers(0, 1), st.sampled_from(["none", "auto", 3]))
def test_everybody_is_there_with_all_they_have_and_within_the_limits(
    people: int, seed: int, known: int, strata: str | int
) -> None:
    table = visits(people, seed)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "release"
        try:
            dalenius.publish(
                table,
                {**LIMITS, "odds": 40},
                sensitive=SETS,
                quasi_identifiers=["Age", "City"],
                person="Person",
                known_records=known,
                strata=strata,
                out=out,
                time_limit=2,
            )
        except NoSolutionError:
            return  # somebody has a number of rows that is too rare
        read = Read(out)
    assert Counter(tuple(rows) for people in read.people.values() for rows in people.values()) == source_people(
        table, {}
    )
    assert Counter((value, rows) for _, value, rows in read.lines[0]) == source_lines(table, ("Disease", "Second"))
    assert Counter((value, rows) for _, value, rows in read.lines[1]) == source_lines(table, ("Drug",))
    read.check_limits()
    read.check_numbers()
    read.check_strata()


def test_a_number_of_rows_that_is_too_rare_says_whom_it_concerns_and_what_helps(tmp_path: Path) -> None:
    rows = [{"Person": f"p{k}", "Age": k % 7, "Disease": DISEASES[k % 4]} for k in range(60)]
    rows += [{"Person": "p0", "Age": 1, "Disease": "Flu"}] * 4
    table = pa.Table.from_pylist(rows)
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "person": "Person"}
    with pytest.raises(NoSolutionError, match="for 1 of 60 people their number of rows tells too much") as caught:
        dalenius.publish(table, {"uniform": "1/2"}, out=tmp_path / "release", **asked)
    assert caught.value.hint is not None
    assert "--most-rows" in caught.value.hint
    release = dalenius.publish(table, {"uniform": "1/2"}, most_rows=1, **asked)
    assert release.manifest.people == release.manifest.rows == 60
    assert release.manifest.persons is not None  # though everybody has one row: it says what was left out
    assert (release.manifest.persons.most_rows, release.manifest.persons.dropped) == (1, 4)
    assert any("4 rows were left out" in note for note in release.notes)
    assert release.verify(against=table, person="Person").verified


def test_numbers_of_rows_that_tell_too_much_are_named_at_once_with_limits_that_would_do(tmp_path: Path) -> None:
    """Of 100 people with one row 10 have gout, of 60 with two 50, and there is one person with nine rows."""
    rows: list[dict[str, Any]] = [
        {"Person": f"a{who}", "Age": who % 7, "Disease": "Gout" if who < 10 else DISEASES[who % 2]}
        for who in range(100)
    ]
    for who in range(60):
        own = ["Gout" if who < 50 else "Flu", "Cold"]
        rows += [{"Person": f"b{who}", "Age": who % 7, "Disease": one} for one in own]
    rows += [{"Person": "c", "Age": 1, "Disease": "Flu"}] * 9
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "person": "Person"}
    with pytest.raises(NoSolutionError) as caught:
        dalenius.publish(pa.Table.from_pylist(rows), {"uniform": "3/5"}, out=tmp_path / "release", **asked)
    first, two, nine = caught.value.message.splitlines()
    assert first.startswith("for 61 of 161 people their number of rows tells too much")
    assert two.strip() == (
        "2 rows: 60 people, 60 of them (100.0%) with 'Cold' of 'Disease', whose limit is 60.0%; "
        "1 more is above its limit"
    )
    assert nine.strip() == "9 rows: 1 person, too few for a bucket of 2"
    assert caught.value.hint is not None
    raise_them, fewer = caught.value.hint.splitlines()
    assert raise_them == (
        "Raise what is too low: --limit Cold=0.984 --limit Gout=0.82 --most-rows 2, which leaves out 7 rows."
    )
    assert fewer == "Or keep fewer rows of a person, chosen at random: --most-rows 1, which leaves out 68 rows."
    higher = {"uniform": "3/5", "values": {"Gout": "0.82", "Cold": "0.984"}}
    release = dalenius.publish(pa.Table.from_pylist(rows), higher, most_rows=2, **asked)
    assert release.manifest.persons is not None
    assert release.manifest.persons.dropped == 7


@pytest.mark.parametrize("seed", cases(*range(6), usually=2))
def test_limits_that_would_do_still_do_when_other_rows_are_left_out(seed: int) -> None:
    """Whoever has more rows than are kept loses others the next time. What was advised has to hold then, too."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = [
        {"Person": f"a{who}", "Age": who % 7, "Disease": DISEASES[who % 4]} for who in range(300)
    ]
    for who in range(120):
        own = ["Gout" if number < 2 else DISEASES[who % 2] for number in rng.permutation(4)]
        rows += [{"Person": f"b{who}", "Age": who % 7, "Disease": one} for one in own]
    table = pa.Table.from_pylist(rows)
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "person": "Person", "most_rows": 2}
    with pytest.raises(NoSolutionError) as caught:
        dalenius.publish(table, {"uniform": "7/10"}, seed=seed, **asked)
    advised = re.findall(r"--limit (\w+)=(0\.[0-9]+)", caught.value.hint or "")
    assert [value for value, _ in advised] == ["Gout"]
    assert Fraction(advised[0][1]) < 1
    for again in range(examples(20)):
        limits = {"uniform": "7/10", "values": dict(advised)}
        release = dalenius.publish(table, limits, seed=1000 + 20 * seed + again, time_limit=1, **asked)
        assert release.manifest.persons is not None
        assert release.manifest.persons.dropped == 240


def test_one_person_with_very_many_rows_may_be_nobody() -> None:
    rows = [{"Person": f"p{k % 30}", "Age": k % 7, "Disease": DISEASES[k % 4]} for k in range(60)]
    rows += [{"Person": "0", "Age": k % 7, "Disease": DISEASES[k % 4]} for k in range(15)]
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "person": "Person"}
    with pytest.raises(NoSolutionError, match="15 rows: 1 person, too few") as caught:
        dalenius.publish(pa.Table.from_pylist(rows), {"uniform": "3/4"}, **asked)
    assert (caught.value.hint or "").startswith(
        "If the person with 15 rows stands for a missing one, give each of these rows a person, or leave them out.\n"
    )


def test_people_who_are_spelled_in_several_ways_are_told_and_so_is_who_is_alone() -> None:
    """Thirty people with two rows each, ten of them with a blank behind the name once; every other one is alone."""
    rows: list[dict[str, Any]] = [
        {
            "Person": f"p{who} " if who < 10 and visit else f"p{who}",
            "Age": 20 + visit * (who % 2) * who,
            "Disease": "Flu",
        }
        for visit in range(2)
        for who in range(30)
    ]
    for place, row in enumerate(rows):
        row["Disease"] = DISEASES[place % 4]
    table = pa.Table.from_pylist(rows)
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age"], "person": "Person"}
    release = dalenius.publish(table, {"uniform": "1"}, publish_in_the_clear=True, **asked)
    (alike,) = [one for one in release.concerns if one.code == "alike-people"]
    assert (alike.severity, alike.people, alike.columns) == (Severity.LOOK, 10, ("Person",))
    assert "10 of 40 people in 'Person' differ from others in case, blanks or '.0' alone" in alike.message
    by_person = defaultdict(list)
    for row in rows:
        by_person[row["Person"]].append(row["Age"])
    lists = Counter(tuple(sorted(own)) for own in by_person.values())
    (alone,) = [one for one in release.concerns if one.code == "unique-people"]
    assert alone.people == sum(times == 1 for times in lists.values())
    assert "with their quasi-identifiers of all their rows" in alone.message
    with pytest.raises(ConcernsError, match="'Person' differ from others"):
        dalenius.publish(table, {"uniform": "1"}, publish_in_the_clear=True, strict=True, **asked)


def test_limits_that_are_too_low_for_everybody_say_how_low_they_can_be() -> None:
    rows = [{"Age": k % 7, "Disease": DISEASES[k % 4], "Drug": DRUGS[k % 5 == 0]} for k in range(60)]
    asked: dict[str, Any] = {"sensitive": ["Disease", "Drug"], "quasi_identifiers": ["Age"]}
    with pytest.raises(NoSolutionError, match="for 60 of 60 people no buckets keep the limits") as caught:
        dalenius.publish(pa.Table.from_pylist(rows), {"uniform": "1/10"}, **asked)
    assert caught.value.hint == "Relax the limits: one for all values works from 0.8 on (--uniform 0.8)."
    assert dalenius.publish(pa.Table.from_pylist(rows), {"uniform": "8/10"}, **asked).verify().verified


def test_too_little_memory_is_refused_before_rows_are_read_and_what_is_said_would_do(tmp_path: Path) -> None:
    rows = 1_000_000
    table = pa.table({name: pa.array(np.zeros(rows, dtype=np.int8)) for name in ("Age", "Disease", "Drug")})
    asked: dict[str, Any] = {"sensitive": ["Disease", "Drug"], "quasi_identifiers": ["Age"], "out": tmp_path / "out"}
    read = ReadRows()
    memory = resident_memory() + 330 * MIB
    with pytest.raises(UsageError, match="1,000,000 records by person do not fit") as caught:
        dalenius.publish(table, {"odds": 4}, memory=memory, progress=read, **asked)
    assert read.rows == 0
    assert caught.value.hint is not None
    enough = re.fullmatch(r"Give --memory (\d+)MiB\.", caught.value.hint)
    assert enough is not None
    with pytest.raises(NoSolutionError):  # everybody has the same value: that is read, and then said
        dalenius.publish(table, {"uniform": "1/2"}, memory=(int(enough[1]) + 50) * MIB, progress=read, **asked)
    assert read.rows >= rows


class ReadRows(Silent):
    """How many rows were read."""

    rows = 0

    def advance(self, number: int) -> None:
        self.rows += number


def test_a_value_that_everybody_in_a_bucket_would_have_is_refused(tmp_path: Path) -> None:
    table = visits(40, 3, most=1)
    asked: dict[str, Any] = {"sensitive": ["Disease", "Drug"], "quasi_identifiers": ["Age"]}
    limits = {"theta": 4, "base": "0.1"}  # limits of 1 for what is frequent
    with pytest.raises(ClearValuesError, match="published outright"):
        dalenius.publish(table, limits, out=tmp_path / "release", **asked)
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("rows_each", [1, 2, 3])
def test_whoever_knows_everything_but_who_has_what_believes_in_the_share_of_the_bucket(rows_each: int) -> None:
    """All worlds that a bucket allows: each line is somebody's, nobody has a value twice, and rows add up."""
    lines = {
        1: [("a", 1), ("a", 1), ("b", 1)],
        2: [("a", 2), ("a", 1), ("b", 1), ("b", 2)],
        3: [("a", 2), ("b", 1), ("a", 1), ("c", 2), ("b", 3)],
    }[rows_each]
    people = sum(rows for _, rows in lines) // rows_each
    worlds = 0
    has: Counter[tuple[int, str]] = Counter()
    for owners in itertools.product(range(people), repeat=len(lines)):
        held = [[line for owner, line in zip(owners, lines, strict=True) if owner == who] for who in range(people)]
        values = [[value for value, _ in own] for own in held]
        if any(sum(rows for _, rows in own) != rows_each for own in held):
            continue
        if any(len(set(own)) < len(own) for own in values):
            continue
        worlds += 1
        has.update((who, value) for who in range(people) for value in values[who])
    assert worlds
    for value in {value for value, _ in lines}:
        shown = sum(1 for own, _ in lines if own == value)
        for who in range(people):
            assert Fraction(has[who, value], worlds) == Fraction(shown, people)


def test_people_with_different_numbers_of_rows_would_not_be_alike() -> None:
    """Why the number of rows is part of the stratum: whoever has more rows would be likelier to have a value."""
    rows_of, lines = (1, 3), [("a", 1), ("b", 2), ("c", 1)]
    has: Counter[int] = Counter()
    worlds = 0
    for owners in itertools.product(range(2), repeat=len(lines)):
        sums = [sum(rows for owner, (_, rows) in zip(owners, lines, strict=True) if owner == who) for who in range(2)]
        if tuple(sums) == rows_of:
            worlds += 1
            has[owners[1]] += 1
    assert (has[0], has[1]) == (0, worlds), "the person with three rows has b for certain"


def test_people_with_the_same_values_go_to_every_bucket_alike() -> None:
    """Twelve people, four of each disease, buckets of three: anybody is as likely to be with anybody else."""
    table = pa.table({"Age": list(range(12)), "Disease": ["a", "b", "c", "d"] * 3, "Drug": ["x", "y"] * 6})
    together: Counter[tuple[int, int]] = Counter()
    runs = 200
    for seed in range(runs):
        release = dalenius.publish(
            table,
            {"uniform": "2/3"},
            sensitive=["Disease", "Drug"],
            quasi_identifiers=["Age"],
            seed=seed,
            strata="none",
            min_size=3,
            max_size=3,
        )
        buckets = dict(zip(release.qit["Age"].to_pylist(), release.qit["bucket"].to_pylist(), strict=True))
        together.update(pair for pair in itertools.combinations(range(12), 2) if buckets[pair[0]] == buckets[pair[1]])
    alike = [together[a, b] for a in range(12) for b in range(a + 1, 12) if (b - a) % 4 == 0]
    mean = sum(alike) / len(alike)
    assert all(abs(count - mean) < 5 * (mean + 1) ** 0.5 for count in alike)
    others = [together[a, b] for a in range(12) for b in range(a + 1, 12) if (b - a) % 4 == 1]
    mean = sum(others) / len(others)
    assert all(abs(count - mean) < 5 * mean**0.5 for count in others)


def test_people_with_one_row_and_one_value_are_published_as_rows_are() -> None:
    table = visits(50, 2, most=1)
    asked: dict[str, Any] = {"sensitive": "Disease", "quasi_identifiers": ["Age", "City"], "seed": 4}
    plain = dalenius.publish(table, {"odds": 4}, identifiers=["Person"], **asked)
    by_people = dalenius.publish(table, {"odds": 4}, person="Person", **asked)
    assert by_people.manifest == plain.manifest


def test_a_plan_says_how_exposed_people_will_be_as_the_judge_finds_it() -> None:
    """The judge counts what is written; the plan counts what would be."""
    table = visits(150, 9)
    sets = ({"columns": ["Disease", "Second"], "name": "illness"}, "Drug")
    asked: dict[str, Any] = {"sensitive": sets, "quasi_identifiers": ["Age", "City"], "person": "Person"}
    release = dalenius.publish(table, {"uniform": "19/20"}, seed=4, gap=0.5, **asked)
    said = read_sets(sets, {"uniform": "19/20"})
    roles = said.roles(("Age", "City"), (), "Person")
    request = PublishRequest(
        table=table,
        roles=roles,
        limits={"uniform": "19/20"},
        set_limits=said.limits_by_set(roles),
        options=PublishOptions(seed=4),
        solving=PlanOptions(strata_gap=0.5),
    )
    assert plan_people(request).exposure == release.exposure
