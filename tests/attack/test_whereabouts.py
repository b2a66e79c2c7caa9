"""Attackers on people, scored by the table: what is known of them without linking is what is found by linking."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dalenius
from dalenius.attack.audit import audit
from dalenius.errors import InputError
from dalenius.model.attack_result import Audit

DISEASES = ["ague", "bile", "cold", "dropsy", "evil", "flux", "gout", "hives"]
DRUGS = ["none", "some", "much"]
LINKED = ["intersection", "union"]
BOTH = ["intersection", "union", "other-column"]


def visits(people: int, most: int, seed: int = 0, persist: float = 0.7) -> pa.Table:
    """Visits of people, each with 1 to `most`; diseases often stay, and some have many people."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for person in range(people):
        usual, age, sex = rng.integers(0, 8) * rng.integers(0, 2), int(rng.integers(0, 6)), int(rng.integers(0, 2))
        for _ in range(int(rng.integers(1, most + 1))):
            disease = usual if rng.random() < persist else rng.integers(0, 8)
            drug = min(int(disease) // 3, 2) if rng.random() < 0.5 else int(rng.integers(0, 3))
            rows.append(
                {"Person": f"p{person}", "Visit": len(rows), "Age": age, "Sex": "fm"[sex]}
                | {"Disease": DISEASES[int(disease)], "Drug": DRUGS[drug]}
            )
    return pa.Table.from_pylist(rows).take(pa.array(rng.permutation(len(rows))))


def published(table: pa.Table, folder: Path, limits: Any, **asked: Any) -> Path:
    asked = {"sensitive": ["Disease", "Drug"], "quasi_identifiers": ["Age", "Sex"], "strata": "none", **asked}
    dalenius.publish(table, limits, out=folder, **asked)
    return folder


def with_other(table: pa.Table, name: str, change: Callable[[list[Any]], list[Any]]) -> pa.Table:
    values = pa.array(change(table[name].to_pylist()), table[name].type)
    return table.set_column(table.column_names.index(name), name, values)


def lines(folder: Path, stem: str, column: str) -> dict[int, Counter[str]]:
    """By bucket, how many people have a value."""
    found: dict[int, Counter[str]] = {}
    for line in pyarrow.parquet.read_table(folder / f"{stem}.parquet").to_pylist():
        found.setdefault(line["bucket"], Counter())[line[column]] += 1
    return found


def sizes(folder: Path) -> dict[int, int]:
    """By bucket, how many people are there."""
    rows = pyarrow.parquet.read_table(folder / "qit.parquet").to_pylist()
    return Counter(bucket for bucket, _ in {(row["bucket"], row["person"]) for row in rows})


def share(found: Audit, name: str, column: str | None = None) -> float:
    attack = next(one for one in found.attacks if one.name == name and one.column == column)
    assert attack.success is not None
    return attack.success.share


def test_people_with_many_like_them_are_scored_as_if_everybody_were_known(tmp_path: Path) -> None:
    """The same buckets with the number of the visit, which tells whose each row is, and without it."""
    table = visits(3000, 3)
    asked: dict[str, Any] = {"sensitive": "Disease", "seed": 1}
    known = published(table, tmp_path / "known", {"odds": 3}, quasi_identifiers=["Age", "Sex", "Visit"], **asked)
    plain = published(table, tmp_path / "plain", {"odds": 3}, **asked)
    assert lines(known, "st", "Disease") == lines(plain, "st", "Disease")
    exact = audit(known, truth=table, person="Person", attacks=LINKED)
    found = audit(plain, truth=table, person="Person", attacks=LINKED)
    assert not any("linked with the table" in note for note in exact.notes)
    assert any("linked with the table in one of the ways that are possible" in note for note in found.notes)
    for name in LINKED:
        one, other = exact[name], found[name]
        assert one.right is not None
        assert other.right is not None
        assert one.claims is not None
        assert one.claims > 500
        assert other.people >= 0.99 * one.people
        assert other.claims == pytest.approx(one.claims, rel=0.03)
        assert other.right.share == pytest.approx(one.right.share, abs=0.01)
        assert share(found, name) == pytest.approx(share(exact, name), abs=0.01)


def test_people_in_one_bucket_are_scored_by_what_it_shows(tmp_path: Path) -> None:
    table = visits(600, 2)
    folder = published(table, tmp_path / "r", {"odds": 12, "floor": "0.3"}, person="Person")
    found = audit(folder, truth=table, person="Person", attacks=BOTH)
    (note,) = found.notes
    assert note.startswith("How many people of a bucket have a value is what the release shows of it. The people of")
    for stem, column in (("st", "Disease"), ("st2", "Drug")):
        right = sum(max(counts.values()) for counts in lines(folder, stem, column).values())
        for name in LINKED:
            attack = next(one for one in found.attacks if (one.name, one.column) == (name, column))
            assert (attack.people, attack.claims) == (600, 0)
            assert share(found, name, column) == pytest.approx(right / 600)
            assert attack.baseline is not None
            assert attack.baseline.share == pytest.approx(right / 600)


@pytest.mark.parametrize("most_rows", [1, 2])
def test_rows_that_were_left_out_count_for_the_attackers(most_rows: int, tmp_path: Path) -> None:
    """By bucket, the people of whom rows are missing are what is left of each combination of rows, evenly."""
    table = visits(900, 4)
    asked: dict[str, Any] = {"person": "Person", "most_rows": most_rows}
    folder = published(table, tmp_path / "r", {"odds": 30, "floor": "0.3"}, **asked)
    found = audit(folder, truth=table, person="Person", attacks=BOTH)
    people: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        people.setdefault(row["Person"], []).append(row)
    missing = {person for person, rows in people.items() if len(rows) > most_rows}
    dropped = sum(len(people[person]) - most_rows for person in missing)

    def key(rows: list[dict[str, Any]]) -> Any:
        return tuple(sorted((row["Age"], row["Sex"]) for row in rows))

    released: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in pyarrow.parquet.read_table(folder / "qit.parquet").to_pylist():
        released.setdefault((row["bucket"], row["person"]), []).append(row)
    there = Counter(key(rows) for rows in released.values())
    whole = Counter(key(rows) for person, rows in people.items() if person not in missing)
    expected: dict[int, Fraction] = {}
    for (bucket, _), rows in released.items():
        free = Fraction(there[key(rows)] - whole[key(rows)], there[key(rows)])
        expected[bucket] = expected.get(bucket, Fraction(0)) + free
    assert sum(expected.values()) == len(missing)
    alone = 0
    for stem, column in (("st", "Disease"), ("st2", "Drug")):
        shown = lines(folder, stem, column)
        having = Counter(value for rows in people.values() for value in {row[column] for row in rows})
        more = having - sum((counts for counts in shown.values()), Counter())
        alone += more.total()
        right = Fraction(0)
        for bucket, counts in shown.items():
            best = [value for value, count in counts.items() if count == max(counts.values())]
            for value in best:
                raised = counts[value] + more[value] * expected[bucket] / len(missing)
                right += min(raised, Fraction(sizes(folder)[bucket])) / len(best)
        for name in LINKED:
            assert share(found, name, column) == pytest.approx(float(right / 900))
    assert found.notes[0].startswith(
        f"{dropped:,} rows of {len(missing):,} people are not in the release. The {alone:,} "
    )
    other = next(one for one in found.attacks if one.name == "other-column")
    # who is whole is known, and somebody is counted for each value of the column that is known
    whole_values = sum(len({row["Drug"] for row in rows}) for person, rows in people.items() if person not in missing)
    shown_values = sum(counts.total() for counts in lines(folder, "st2", "Drug").values())
    assert 0.9 * whole_values <= other.people <= whole_values
    assert any(f"{shown_values - other.people:,} people are not scored" in note for note in other.notes)


def swapped(values: list[Any]) -> list[Any]:
    return [*values[1:], values[0]]


WRONG: Mapping[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "fewer people": (
        lambda t: t.filter(pa.compute.not_equal(t["Person"], "p0")),
        "it has 599 people, and the release 600",
    ),
    "other ages": (lambda t: with_other(t, "Age", lambda ages: [ages[0] + 1, *ages[1:]]), "people differ"),
    "other diseases": (
        lambda t: with_other(t, "Disease", lambda v: ["ague"] * len(v)),
        "the sensitive values are others",
    ),
    "a disease that is not there": (lambda t: with_other(t, "Disease", lambda v: ["zoster", *v[1:]]), "1 rows of the"),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_table(name: str, tmp_path: Path) -> None:
    table = visits(600, 2)
    folder = published(table, tmp_path / "r", {"odds": 12, "floor": "0.3"}, person="Person")
    change, message = WRONG[name]
    with pytest.raises(InputError, match=message):
        audit(folder, truth=change(table), person="Person", attacks=LINKED)


def test_values_of_others(tmp_path: Path) -> None:
    """Those of one row a person, who have many quasi-identifiers: values cannot be where others are."""
    table = visits(900, 1)
    folder = published(table, tmp_path / "r", {"odds": 3}, quasi_identifiers=["Age", "Sex", "Visit"])
    audit(folder, truth=table, person="Person", attacks=BOTH)
    other = with_other(with_other(table, "Disease", swapped), "Drug", swapped)
    with pytest.raises(InputError, match=r"cannot have given this release: .* no room for [1-9]\d* of their values"):
        audit(folder, truth=other, person="Person", attacks=BOTH)


def test_another_number_of_rows_was_left_out(tmp_path: Path) -> None:
    table = visits(900, 4)
    folder = published(table, tmp_path / "r", {"odds": 30, "floor": "0.3"}, person="Person", most_rows=1)
    longer = pa.concat_tables([table, with_other(table.slice(0, 3), "Visit", lambda values: [-1, -2, -3])])
    dropped = table.num_rows - 900
    with pytest.raises(
        InputError, match=rf"{dropped:,} of its rows were left out, and this one has {dropped + 3:,} more"
    ):
        audit(folder, truth=longer, person="Person", attacks=LINKED)


def test_people_whose_rows_find_no_bucket_are_not_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is given up early: those who are wrong would make the attackers look weaker than they are."""
    table = visits(3000, 3)
    asked: dict[str, Any] = {"sensitive": "Disease", "seed": 1}
    known = published(table, tmp_path / "known", {"odds": 3}, quasi_identifiers=["Age", "Sex", "Visit"], **asked)
    plain = published(table, tmp_path / "plain", {"odds": 3}, **asked)
    exact = audit(known, truth=table, person="Person", attacks=LINKED)
    monkeypatch.setattr("dalenius.attack.exchanges._ROUNDS", 12)
    found = audit(plain, truth=table, person="Person", attacks=LINKED)
    (left_out,) = [note for note in found.notes if "no bucket with room" in note]
    number = int(re.findall(r"the ([\d,]+) people with such rows are left out", left_out)[0].replace(",", ""))
    assert 100 < exact["union"].people - found["union"].people <= number
    for name in LINKED:
        right = [one.right.share for one in (exact[name], found[name]) if one.right is not None]
        assert right[1] > right[0] - 0.005
    monkeypatch.setattr("dalenius.attack.exchanges._ROUNDS", 0)
    with pytest.raises(InputError, match="hardly that of the release: no buckets with room were found for"):
        audit(plain, truth=table, person="Person", attacks=LINKED)
