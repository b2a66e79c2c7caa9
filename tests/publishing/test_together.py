"""Publishing sensitive columns that are kept together: the table of tuples, beside tables that stay what they were."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dalenius
from dalenius.errors import UsageError
from dalenius.model.concern import Advice
from dalenius.place import items
from dalenius.place.items import tuples_of
from dalenius.publishing.published import Release
from dalenius.release.release_views import all_tables

SENSITIVE = ["Disease", "Drug", "Ward"]
SETS: list[Any] = ["Disease", "Drug", {"columns": ["Ward"], "null_value": "unknown", "missing": ["?"]}]


def visits(people: int = 240, most: int = 1) -> pa.Table:
    """People with ages of their own, whose drug mostly goes with their disease; some wards are not known."""
    random = np.random.default_rng(5)
    rows: list[dict[str, Any]] = []
    for who in range(people):
        for _ in range(1 + who % most):
            disease = int(random.choice(4, p=[0.4, 0.3, 0.2, 0.1]))
            drug = disease % 3 if random.random() < 0.7 else int(random.integers(3))
            ward = [None, "?", "A", "B", "C", "D"][int(random.integers(6))]
            row = {"Person": f"p{who}", "Age": who, "Disease": ["flu", "cold", "gout", "hiv"][disease]}
            rows.append({**row, "Drug": "xyz"[drug], "Ward": ward})
    return pa.Table.from_pylist([rows[place] for place in random.permutation(len(rows))])


def publish(table: pa.Table, out: Path, **options: Any) -> Release:
    chosen: dict[str, Any] = {"sensitive": SETS, "seed": 1, **options}
    return dalenius.publish(table, {"odds": 8, "floor": "0.3"}, quasi_identifiers=["Age"], out=out, **chosen)


def held(table: pa.Table, release: Release, names: list[str]) -> dict[int, Counter[Any]]:
    """What goes with what for the people of each bucket, whom their ages tell apart."""
    bucket_of = dict(zip(release.qit["Age"].to_pylist(), release.qit["bucket"].to_pylist(), strict=True))
    people: dict[int, Counter[Any]] = defaultdict(Counter)
    for row in table.to_pylist():
        ward = None if row["Ward"] in (None, "?") else row["Ward"]
        people[row["Age"]][tuple({**row, "Ward": ward}[name] for name in names)] += 1
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    for age, tuples in people.items():
        found[bucket_of[age]].update(tuples.items())
    return found


def shown(table: pa.Table, names: list[str]) -> dict[int, Counter[Any]]:
    found: dict[int, Counter[Any]] = defaultdict(Counter)
    for row in table.to_pylist():
        cells = tuple(None if row[name] == "unknown" else row[name] for name in names)
        found[row["bucket"]][(cells, row.get("rows", 1))] += 1
    return found


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("kept", [["Drug", "Disease"], ["Ward", "Disease", "Drug"]])
def test_the_tuples_are_those_of_the_people(kept: list[str], most: int, tmp_path: Path) -> None:
    table = visits(most=most)
    person: dict[str, Any] = {"person": "Person"} if most > 1 else {}
    release = publish(table, tmp_path / "kept", keep_together=kept, **person)
    names = [name for name in SENSITIVE if name in kept]
    assert release.together == (tuple(names),)
    tuples = release.together_of(*kept)
    assert tuples.column_names == ["bucket", *names, *(["rows"] if most > 1 else [])]
    assert shown(tuples, names) == held(table, release, names)
    keys = [tuple("~" if cell is None else cell for cell in row.values()) for row in tuples.to_pylist()]
    assert keys == sorted(keys)
    apart = publish(table, tmp_path / "apart", **person)
    for entry in all_tables(apart.manifest):  # limits, buckets and all other tables are what they were
        assert (release.path / entry.file).read_bytes() == (apart.path / entry.file).read_bytes()
    assert release.verify(against=table, **person)
    assert release.advice is Advice.LOOK_FIRST or most > 1
    assert [one.columns for one in release.concerns if one.code == "kept-together"] == [tuple(names)]
    assert [one for one in apart.concerns if one.code == "kept-together"] == []
    saved = release.save(tmp_path / "saved")
    assert saved.verify().known_columns == release.verify().known_columns
    assert len(saved.verify().known_columns) == len(names) * (len(names) - 1)
    forced = publish(table, tmp_path / "kept", force=True, **person)
    assert forced.together == ()
    assert not (tmp_path / "kept" / "together.parquet").exists()


def test_text_and_several_lists(tmp_path: Path) -> None:
    table = visits().append_column("Copy", pa.array(range(240), pa.int64()))
    table = table.set_column(5, "Copy", pa.array([value % 3 for value in range(240)]))
    lists = [["Copy", "Drug"], ["Ward", "Disease"]]
    release = publish(table, tmp_path / "r", sensitive=[*SETS, "Copy"], keep_together=lists, format="csv")
    assert release.together == (("Disease", "Ward"), ("Drug", "Copy"))
    assert [one.table.file for one in release.manifest.together] == ["together.csv", "together2.csv"]
    assert (tmp_path / "r" / "together2.csv").read_text(encoding="utf-8").startswith('"bucket","Drug","Copy"')
    for names in (["Disease", "Ward"], ["Drug", "Copy"]):
        assert shown(release.together_of(*names), names) == held(table, release, names)
    assert release.verify(against=table)


def test_rows_that_are_left_out_have_no_tuple(tmp_path: Path) -> None:
    table = visits(most=3)
    release = publish(table, tmp_path / "r", person="Person", most_rows=1, keep_together=["Disease", "Drug"])
    assert release.manifest.persons is None or release.manifest.persons.dropped
    assert release.together_of("Drug").num_rows == 240
    assert release.verify(against=table, person="Person" if release.manifest.persons is not None else None)


def test_a_plan_is_that_of_columns_apart(tmp_path: Path) -> None:
    from dalenius.policy.roles import Roles, SensitiveSet
    from dalenius.publishing.options import PublishOptions, PublishRequest
    from dalenius.publishing.people_flow import plan_people

    sets = tuple(SensitiveSet(name, (name,)) for name in ("Disease", "Drug"))
    plans = [
        plan_people(
            PublishRequest(
                table=visits(),
                roles=Roles("Disease", ("Age",), sets=sets, keep_together=kept),
                limits={"odds": 8, "floor": "0.3"},
                options=PublishOptions(seed=1),
            )
        )
        for kept in ((), (("Disease", "Drug"),))
    ]
    apart, together = [plan.as_object() for plan in plans]
    assert {key: value for key, value in together.items() if key != "notes"} == {
        key: value for key, value in apart.items() if key != "notes"
    }
    assert any("published together" in note for note in together["notes"])


@pytest.mark.parametrize(
    ("kept", "said", "hint"),
    [
        (["Disease", "Drugs"], "'Drugs' is to be kept together with others, and is not a sensitive", "mean 'Drug'"),
        (["Disease", "Age"], "'Age' is to be kept together with others, and is not", "--sensitive"),
        (["Disease"], "'Disease' is to be kept together with nothing", "two columns"),
        (["Drug", "Drug"], "'Drug' is to be kept together with itself", "once"),
        ([["Disease", "Drug"], ["Drug", "Ward"]], "'Drug' is kept together with two lists", "one list"),
        ([[]], "no columns are to be kept together", "two columns"),
        ("Disease", "must be a list of names", "Name sensitive columns"),
        ([["Disease", 3]], "must be text", ""),
        ([["Disease", "Drug"], "Ward"], "lists of names", ""),
    ],
)
def test_what_cannot_be_kept_together(kept: Any, said: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        publish(visits(), tmp_path / "r", keep_together=kept)
    assert hint in str(raised.value.hint)
    assert not (tmp_path / "r").exists()


def test_columns_of_a_set_and_a_single_column(tmp_path: Path) -> None:
    both: Any = [{"columns": ["Disease", "Drug"], "name": "Both"}, "Ward"]
    for name in ("Disease", "Both"):
        with pytest.raises(UsageError, match=f"'{name}' cannot be kept together.*'Both' has 2 columns") as raised:
            publish(visits(), tmp_path / "r", sensitive=both, keep_together=[name, "Ward"])
        assert "sensitive by itself" in str(raised.value.hint)
    with pytest.raises(UsageError, match="fewer than two are sensitive"):
        publish(visits(), tmp_path / "r", sensitive="Disease", keep_together=["Disease", "Drug"])


def test_tuples_are_ranked_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fits into one number; a value that is in no row is not counted."""
    random = np.random.default_rng(3)
    columns = [random.choice([0, 1, 4, 7], 400).astype(np.int32) for _ in range(4)]
    offsets = np.arange(0, 401, 2)
    whole = tuples_of(offsets, range(4), columns)
    monkeypatch.setattr(items, "_MOST_KEYS", 20)
    parts = tuples_of(offsets, range(4), columns)
    rank = {0: 0, 1: 1, 4: 2, 7: 3}
    rows = [tuple(rank[int(column[row])] for column in columns) for row in range(400)]
    for found in (whole, parts):
        listed = [tuple(values) for values in found.values.tolist()]
        assert listed == sorted(set(rows))
        for person in range(200):
            part = slice(found.items.offsets[person], found.items.offsets[person + 1])
            codes, times = found.items.codes[part].tolist(), found.items.rows[part].tolist()
            own = {listed[code]: number for code, number in zip(codes, times, strict=True)}
            assert own == Counter(rows[2 * person : 2 * person + 2])
