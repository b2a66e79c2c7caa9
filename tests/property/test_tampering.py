"""For any published release: change one thing, make the hashes fit again, and `verify` says what is wrong.

Two values that swap buckets may give another release that is as valid as the first; that one is for the hashes to find.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dalenius
from dalenius.verify.judge import verify
from tests.effort import examples
from tests.handmade import Handmade, edit_manifest, restate_hashes, write_table
from tests.naive_parquet import BucketsError

LIMITS = {"uniform": "0.6"}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows that are all different, with sensitive values no more than 60 % of which are alike."""
    count = draw(st.integers(6, 30))
    values = draw(st.lists(st.sampled_from("abcd"), min_size=count, max_size=count))
    assume(max(values.count(value) for value in values) <= 0.6 * count)
    ages = draw(st.lists(st.integers(0, 10**6), min_size=count, max_size=count, unique=True))
    return pa.table({"age": ages, "name": [f"n{age % 7}" for age in ages], "s": values})


def rewrite(folder: Path, table: str, change: Callable[[pa.Table], pa.Table], restate: bool = True) -> None:
    """Change a table as its own writer would have written it, and state its rows, its new length and its hash."""
    path = folder / f"{table}.parquet"
    whole = pq.read_table(path)
    changed = change(whole)
    assume(not changed.equals(whole))
    rows = [tuple(row.values()) for row in changed.to_pylist()]
    try:
        write_table(path, dict(zip(changed.schema.names, changed.schema.types, strict=True)), rows)
    except BucketsError:
        assume(False)
    if restate:
        edit_manifest(folder, lambda made: made["tables"][table].update(rows=len(rows)))
        restate_hashes(folder)


def replaced(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    place = table.column_names.index(column)
    cells = table[column].to_pylist()
    cells[row] = value
    return table.set_column(place, table.schema.field(place), pa.array(cells, table.schema.field(place).type))


def a_cell(folder: Path, row: int) -> None:
    rewrite(folder, "qit", lambda t: replaced(t, "age", row % len(t), 10**6 + 1))


def a_row_in_another_bucket(folder: Path, row: int) -> None:
    def moved(t: pa.Table) -> pa.Table:
        buckets = t["bucket"].to_pylist()
        other = next(b for b in buckets if b != buckets[row % len(t)])
        return replaced(t, "bucket", row % len(t), other).sort_by([("bucket", "ascending"), ("age", "ascending")])

    rewrite(folder, "qit", moved)


def two_values_swapped(folder: Path, row: int) -> None:
    def swapped(t: pa.Table) -> pa.Table:
        rows = t.to_pylist()
        one = rows[row % len(rows)]
        others = [r for r in rows if r["bucket"] != one["bucket"] and r["s"] != one["s"]]
        assume(others)
        other = others[0]
        one["s"], other["s"] = other["s"], one["s"]
        return pa.Table.from_pylist(sorted(rows, key=lambda r: (r["bucket"], r["s"])), t.schema)

    rewrite(folder, "st", swapped, restate=False)


def a_bucket_of_another_size(folder: Path, row: int) -> None:
    for table in ("qit", "st"):
        rewrite(folder, table, lambda t: t.slice(0, len(t) - 1))


def another_order(folder: Path, row: int) -> None:
    rewrite(folder, "qit", lambda t: t.sort_by([("bucket", "ascending"), ("age", "descending")]))


def a_lower_limit(folder: Path, row: int) -> None:
    edit_manifest(folder, lambda made: made["values"][row % len(made["values"])].update(limit="1/1000"))


def more_known_records(folder: Path, row: int) -> None:
    edit_manifest(folder, lambda made: made["adversary"].update(known_records=made["setting"][0]["size"] + row % 3))


def one_fake_value_more(folder: Path, row: int) -> None:
    def more(t: pa.Table) -> pa.Table:
        rows = [*t.to_pylist(), t.to_pylist()[row % len(t)]]
        return pa.Table.from_pylist(sorted(rows, key=lambda r: (r["bucket"], r["s"])), t.schema)

    rewrite(folder, "st", more)


def one_fake_value_less(folder: Path, row: int) -> None:
    place = row % 6
    rewrite(folder, "st", lambda t: pa.concat_tables([t.slice(0, place), t.slice(place + 1)]))


def fake_values_denied(folder: Path, row: int) -> None:
    edit_manifest(folder, lambda made: made["adversary"].update(fake_values=0))


def another_count(folder: Path, row: int) -> None:
    def more(made: dict[str, Any]) -> None:
        made["values"][row % len(made["values"])]["count"] += 1

    edit_manifest(folder, more)


TAMPERINGS: dict[Callable[[Path, int], None], set[str]] = {
    a_cell: {"source"},
    a_row_in_another_bucket: {"sizes"},
    two_values_swapped: {"hashes"},
    a_bucket_of_another_size: {"sizes"},
    another_order: {"order"},
    a_lower_limit: {"limits"},
    another_count: {"values"},
}


# What can be done to any release, and to those with fake values.
WITH_AN_ADVERSARY = {
    **TAMPERINGS,
    more_known_records: {"manifest", "limits"},
    one_fake_value_more: {"sizes", "values"},
    one_fake_value_less: {"sizes", "values"},
    fake_values_denied: {"manifest", "sizes"},
}


@st.composite
def with_an_adversary(draw: st.DrawFn) -> Handmade:
    """Buckets of three and four records, with one to three fake values each, and up to two records that are known."""
    table = draw(tables())
    count = len(table) - len(table) % 3
    buckets = [place % (count // 3) + 1 for place in range(count)]
    last = count // 3
    buckets += [last - place for place in range(len(table) - count)]  # the last ones are the larger ones
    fakes = draw(st.integers(1, 3))
    columns = table.to_pydict()
    numbers = sorted(Counter(buckets).items(), key=lambda entry: (entry[1], entry[0]))
    assert [number for number, _ in numbers] == list(range(1, last + 1))
    return Handmade(
        {"age": pa.int64(), "name": pa.string()},
        list(zip(columns["age"], columns["name"], strict=True)),
        columns["s"],
        buckets,
        name="s",
        fakes=[(bucket, draw(st.sampled_from("efgh"))) for bucket in range(1, last + 1) for _ in range(fakes)],
        known_records=draw(st.integers(0, 2)),
    )


@pytest.mark.parametrize("tampering", WITH_AN_ADVERSARY, ids=lambda tampering: tampering.__name__)
@settings(max_examples=examples(20))
@given(made=with_an_adversary(), row=st.integers(0, 1000))
def test_one_change_is_found_where_there_are_fakes(
    tampering: Callable[[Path, int], None], made: Handmade, row: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        saved = made.write(Path(folder, "release"))
        assume(verify(saved).verified)  # where a bucket is of one value, somebody may know too much
        tampering(saved, row)
        verdict = verify(saved, against=made.source() if tampering is a_cell else None)
    failed = {check.check for check in verdict.checks if not check.passed}
    assert not verdict.verified
    assert failed >= WITH_AN_ADVERSARY[tampering], failed
    assert ("hashes" in failed) == (tampering is two_values_swapped)


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.__name__)
@settings(max_examples=examples(25))
@given(table=tables(), row=st.integers(0, 1000))
def test_one_change_is_found_and_named(tampering: Callable[[Path, int], None], table: pa.Table, row: int) -> None:
    release = dalenius.publish(table, LIMITS, sensitive="s", quasi_identifiers=["age", "name"])
    assume(release.manifest.buckets > 1)
    assert release.verify(against=table).verified
    with tempfile.TemporaryDirectory() as folder:
        saved = release.save(Path(folder, "release"))
        tampering(saved.path, row)
        verdict = dalenius.load(saved.path).verify(against=table)
    failed = {check.check for check in verdict.checks if not check.passed}
    assert not verdict.verified
    assert failed >= TAMPERINGS[tampering], failed
    assert ("hashes" in failed) == (tampering is two_values_swapped)
