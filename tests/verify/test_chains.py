"""Releases that follow on others: their own statements, and whether the buckets that were there are the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dalenius.cli.main import main
from dalenius.errors import ReleaseError
from dalenius.policy.limits import LimitPolicy
from dalenius.publishing.published import load
from dalenius.release.folder import open_release
from dalenius.release.writer import TableWriter
from dalenius.verify.judge import verify
from tests.chains import begin_chain, follow
from tests.handmade import (
    FIRST,
    Handmade,
    edit_manifest,
    grouped_hospital,
    hospital,
    in_strata,
    next_hospital,
    restate_hashes,
    rewrite,
)
from tests.parts import into_parts
from tests.verify.test_verify import failed, not_made

Rows = list[dict[str, Any]]
Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return hospital(chain=FIRST).write(tmp_path / "first")


@pytest.fixture
def second(first: Path, tmp_path: Path) -> Path:
    folder = next_hospital(first).write(tmp_path / "second")
    assert verify(folder, previous=first)
    return folder


def edit_chain(**changes: Any) -> Edit:
    return lambda manifest: manifest["chain"].update(changes)


def edit_stratum(number: int, **changes: Any) -> Edit:
    return lambda manifest: manifest["strata"]["strata"][number - 1].update(changes)


def both(*edits: Edit) -> Edit:
    return lambda manifest: [edit(manifest) for edit in edits]


HASH = "0" * 64

# what is changed of the second release (strata: 4 buckets since 1 with 8 of 12 rows; 2 and 1 since 2, full), and which
# checks say so, without the release before
EDITS: dict[str, tuple[Edit, set[str]]] = {
    "no chain": (lambda m: m.update(chain=None), {"manifest", "sizes"}),
    "no word of a chain": (lambda m: m.pop("chain"), {"manifest"}),
    "the first, with one before": (edit_chain(release=1), {"manifest"}),
    "the first": (edit_chain(release=1, previous=None), {"manifest"}),
    "the second, with none before": (edit_chain(previous=None), {"manifest"}),
    "release 0": (edit_chain(release=0), {"manifest"}),
    "the third, with nothing new": (edit_chain(release=3), {"manifest"}),
    "a release beyond all numbers": (edit_chain(release=10**30), {"manifest"}),
    "a hash that is none": (edit_chain(previous="0" * 63), {"manifest"}),
    "less surplus": (edit_chain(surplus=3), {"manifest", "sizes"}),
    "more surplus": (edit_chain(surplus=5), {"manifest", "sizes"}),
    "no surplus": (edit_chain(surplus=0), {"manifest", "sizes"}),
    "a negative surplus": (edit_chain(surplus=-1), {"manifest"}),
    "a surplus beyond all numbers": (edit_chain(surplus=10**30), {"manifest"}),
    "a negative number held back": (edit_chain(held_back=-1), {"manifest"}),
    "no strata": (lambda m: m.update(strata=None), {"manifest"}),
    "an old stratum that is new": (edit_stratum(1, since=2), {"manifest"}),
    "a new stratum that is old": (edit_stratum(2, since=1), {"manifest"}),
    "all strata old": (both(edit_stratum(2, since=1), edit_stratum(3, since=1)), {"manifest"}),
    "a stratum of the future": (edit_stratum(3, since=3), {"manifest"}),
    "since 0": (edit_stratum(1, since=0), {"manifest"}),
    "since beyond all numbers": (edit_stratum(3, since=10**30), {"manifest"}),
    "rows of a stratum": (edit_stratum(1, rows=9), {"manifest", "sizes"}),
    "rows that add up": (both(edit_stratum(1, rows=9), edit_stratum(2, rows=3)), {"sizes"}),
    "rows beyond the places": (both(edit_stratum(1, rows=7), edit_stratum(2, rows=5)), {"manifest", "sizes"}),
    "rows beyond all numbers": (edit_stratum(1, rows=10**30), {"manifest"}),
    "a setting": (edit_stratum(1, setting=[{"size": 3, "buckets": 4}]), {"manifest", "sizes"}),
    "an empty tree": (lambda m: m["strata"].update(tree=[]), {"manifest"}),
    "a leaf of an old stratum": (lambda m: m["strata"]["tree"][1].update(stratum=1), {"manifest"}),
    "leaves exchanged": (
        lambda m: (m["strata"]["tree"][1].update(stratum=3), m["strata"]["tree"][2].update(stratum=2)),
        {"strata"},
    ),
    "another cut": (lambda m: m["strata"]["tree"][0].update(at_most="30"), {"strata"}),
    "several sensitive columns of one": (
        lambda m: m["columns"]["sensitive"].update(of=["Disease", "Second"]),
        {"manifest"},
    ),
    "bands": (lambda m: m.update(bands=["5"]), {"manifest"}),
    "people": (lambda m: m.update(people=15), {"manifest"}),
    "rows": (lambda m: m.update(rows=15), {"manifest", "sizes"}),
    "loss": (lambda m: m.update(loss=m["loss"] + 1), {"manifest"}),
    "mse by places": (lambda m: m.update(mse=m["loss"] / 17), {"manifest"}),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_statement_of_a_chain_is_checked(second: Path, name: str) -> None:
    change, wanted = EDITS[name]
    edit_manifest(second, change)
    assert failed(verify(second)) >= wanted
    assert not verify(second)


def numbers(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(node, dict | list):
        every = node.items() if isinstance(node, dict) else enumerate(node)
        return [found for key, child in every for found in numbers(child, (*path, key))]
    return [path] if isinstance(node, int | float) and not isinstance(node, bool) else []


def test_any_number_of_a_chain_but_what_is_the_publishers_word(first: Path, second: Path) -> None:
    """How many wait cannot be seen; without the release before and the table, neither can the number of the release."""
    whole = (second / "manifest.json").read_bytes()
    source = next_hospital(first).source()
    for path in numbers(json.loads(whole)):
        for more in (1, -1) if path[0] == "chain" else (1,):  # as any number of a manifest

            def changed(manifest: dict[str, Any], path: tuple[Any, ...] = path, more: int = more) -> None:
                node: Any = manifest
                for key in path[:-1]:
                    node = node[key]
                node[path[-1]] += more

            (second / "manifest.json").write_bytes(whole)
            edit_manifest(second, changed)
            assert verify(second).verified == (path == ("chain", "held_back") and more > 0), path
            assert not verify(second, against=source), path


def in_second(change: Callable[[Rows], Any]) -> Callable[[Path], None]:
    def edited(folder: Path) -> None:
        def sorted_again(rows: Rows) -> Rows:
            change(rows)
            return sorted(rows, key=lambda row: (row["bucket"], *list(row.values())[:-1]))

        rewrite(folder, "qit", sorted_again)
        restate_hashes(folder)

    return edited


def move(start: int, to: int) -> Callable[[Rows], None]:
    def moved(rows: Rows) -> None:
        next(row for row in rows if row["bucket"] == start)["bucket"] = to

    return moved


class TestRows:
    """Rows of QIT in buckets where they cannot be."""

    def test_a_row_of_an_old_bucket_in_another_that_has_a_free_place(self, second: Path) -> None:
        """Who is there could be there: nothing but the table, or the release before, tells."""
        in_second(move(4, 2))(second)
        assert verify(second)

    def test_more_rows_than_places(self, second: Path) -> None:
        in_second(move(4, 3))(second)
        verdict = verify(second)
        assert failed(verdict) == {"sizes"}
        assert verdict["sizes"].summary == (
            "qit.parquet has 1 bucket with more rows than the setting gives; the first: bucket 3 has 5 rows, not at "
            "most 4"
        )

    def test_a_new_row_in_an_old_bucket(self, second: Path) -> None:
        in_second(move(5, 2))(second)
        verdict = verify(second)
        assert failed(verdict) == {"sizes"}
        assert "2 strata have other rows than the manifest says; the first: 9 rows in stratum 1, not 8" in str(
            verdict["sizes"].summary
        )

    @pytest.mark.parametrize(("start", "to", "wanted"), [(7, 8, {"sizes"}), (1, 0, {"sizes"}), (6, 7, {"sizes"})])
    def test_a_bucket_that_is_none(self, second: Path, start: int, to: int, wanted: set[str]) -> None:
        in_second(move(start, to))(second)
        assert failed(verify(second)) >= wanted

    def test_a_new_row_that_the_tree_leads_elsewhere(self, second: Path) -> None:
        def aged(rows: Rows) -> None:
            next(row for row in rows if row["bucket"] == 5)["Age"] = 32

        in_second(aged)(second)
        verdict = verify(second)
        assert failed(verdict) == {"strata"}
        assert verdict["strata"].summary.endswith("a row of stratum 3 is in bucket 5, of stratum 2")

    def test_the_tree_says_nothing_of_those_who_were_there(self, second: Path) -> None:
        def aged(rows: Rows) -> None:
            for row in rows:
                if row["bucket"] < 5:
                    row["Age"] = 90 if row["Age"] < 50 else 10

        in_second(aged)(second)
        assert verify(second)

    def test_an_old_row_for_a_new_one(self, second: Path) -> None:
        def exchanged(rows: Rows) -> None:
            old, new = (next(row for row in rows if row["bucket"] == bucket) for bucket in (3, 7))
            old["bucket"], new["bucket"] = 7, 3

        in_second(exchanged)(second)
        assert failed(verify(second)) == {"strata"}

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_no_gap_in_st(self, second: Path, table: str) -> None:
        """Bucket 2, where nobody is left, is not in QIT; in ST it has to be."""
        assert 2 not in pq.read_table(second / "qit.parquet")["bucket"].to_pylist()

        def renumbered(rows: Rows) -> Rows:
            return [row for row in rows if row["bucket"] != (2 if table == "st" else 1)]

        rewrite(second, table, renumbered)
        count = pq.read_metadata(second / f"{table}.parquet").num_rows
        edit_manifest(second, lambda m: m["tables"][table].update(rows=count))
        restate_hashes(second)
        assert "sizes" in failed(verify(second))

    def test_a_limit_is_by_places(self, first: Path, tmp_path: Path) -> None:
        """Bucket 4 has three rows and four places: a quarter of them is HIV, as its limit says."""
        made = next_hospital(first)
        assert verify(made.write(tmp_path / "next"), policy=LimitPolicy.of(values=dict(made.limits) | {"Mumps": "1"}))
        tight = LimitPolicy.of(values=dict(made.limits) | {"HIV": "1/5", "Mumps": "1"})
        verdict = verify(tmp_path / "next", policy=tight)
        assert failed(verdict) == {"limits"}
        assert "'HIV' 1 of 4 in bucket 3" in verdict["limits"].summary

    def test_nothing_new(self, first: Path, tmp_path: Path) -> None:
        """People only left: then no tree leads anywhere, and there is none."""
        follow(first, tmp_path / "second", left=[0, 3])
        verdict = verify(tmp_path / "second", previous=first)
        assert verdict.verified, verdict.findings
        leaf = {"stratum": 1}
        edit_manifest(tmp_path / "second", lambda m: m["strata"].update(tree=[leaf]))
        assert failed(verify(tmp_path / "second", previous=first)) == {"manifest"}

    def test_places_of_new_buckets_that_are_filled_up(self, first: Path, tmp_path: Path) -> None:
        made = next_hospital(first)
        folder = next_hospital(first, left=[*made.left, (7, "Gout")]).write(tmp_path / "second")
        verdict = verify(folder, previous=first, against=made.source())
        assert verdict.verified, verdict.findings
        edit_manifest(folder, lambda m: m["strata"]["strata"][2].update(rows=3))
        assert failed(verify(folder)) == {"manifest", "sizes"}

    def test_fake_values_and_known_records_beside_those_who_left(self, tmp_path: Path) -> None:
        parts: dict[str, Any] = {"known_records": 1, "limits": {}}
        fakes = [(bucket, "Mumps") for bucket in range(1, 7)] + [(7, "HIV")]
        first = hospital(chain=FIRST, fakes=fakes[:4], **parts).write(tmp_path / "first")
        made = next_hospital(first, fakes=fakes, **parts)
        verdict = verify(made.write(tmp_path / "second"), previous=first, against=made.source())
        assert verdict.verified, verdict.findings
        assert verdict.exposure is not None
        assert verdict.exposure.people == pytest.approx(len(made.rows))
        fewer = next_hospital(first, fakes=[(b, "Cold" if b == 3 else v) for b, v in fakes], **parts)
        assert failed(verify(fewer.write(tmp_path / "other"), previous=first)) == {"chain"}

    def test_in_text_files(self, tmp_path: Path) -> None:
        text = hospital(types={"Gender": pa.string(), "Zipcode": pa.string(), "Age": pa.uint8()}, chain=FIRST)
        first = text.write(tmp_path / "first", "csv")
        second = next_hospital(first, types=text.types).write(tmp_path / "second", "csv")
        assert verify(second, previous=first)
        lines = (second / "st.csv").read_text().splitlines()
        lines[1], lines[2] = lines[1].replace("Cold", "Flu"), lines[2].replace("Flu", "Cold")
        (second / "st.csv").write_text("\n".join([lines[0], *sorted(lines[1:])]) + "\n")
        restate_hashes(second)


@pytest.mark.parametrize(("rows", "right"), [(8, True), (4, True), (2, True), (7, False), (12, False)])
def test_parts_of_a_chain_end_after_so_many_rows(first: Path, tmp_path: Path, rows: int, right: bool) -> None:
    """Of QIT: where the places of a bucket end, is not said by its rows."""
    folder = into_parts(next_hospital(first).write(tmp_path / "whole"), tmp_path / "parts", rows)
    verdict = verify(folder, previous=first)
    assert verdict.verified == right, verdict.findings
    if not right:
        assert "the parts of qit end where those of no release do" in {one.message for one in verdict.findings}


# what is changed of the release that follows, so that it is consistent, and what the check says
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "another hash": ({"chain": {"release": 2, "previous": HASH, "held_back": 0}}, "another release than the one given"),
    "known records": ({"known_records": 1, "limits": {}}, "known records or fake values"),
    "fake values": ({"fakes": [(bucket, "Flu") for bucket in range(1, 8)], "limits": {}}, "known records or fake"),
    "a limit": ({"limits": {**dict(hospital().limits), "Gout": "4/5"}}, "1 value has another limit or group"),
    "another name": ({"name": "Diagnosis"}, "columns, or their types"),
    "another type": ({"types": {**dict(hospital().types), "Age": pa.uint16()}}, "columns, or their types"),
    "another order of columns": (
        {
            "types": {name: hospital().types[name] for name in ("Zipcode", "Gender", "Age")},
            "rows": None,
        },
        "columns, or their types",
    ),
    "strata of its own for the old": ({"old": [(1, 2), (1, 2)], "tree": [("Age", 31, 1, 2), 3, 4]}, "do not begin"),
    "an old stratum too many": ({"old": [(1, 4), (1, 2)], "tree": [3]}, "strata of earlier releases"),
    "groups": (
        {"groups": [("All", None, None)], "group_of": dict.fromkeys(["Flu", "Cold", "Gout", "HIV", "Mumps"], "All")},
        "4 values have another limit or group",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_to_stay_is_compared(first: Path, tmp_path: Path, name: str) -> None:
    changes, said = OTHERS[name]
    if "rows" in changes:
        changes = {**changes, "rows": [(zipcode, gender, age) for gender, zipcode, age in next_hospital(first).rows]}
    folder = next_hospital(first, **changes).write(tmp_path / "second")
    assert not {"manifest", "strata", "sizes"} & failed(verify(folder))
    verdict = verify(folder, previous=first)
    assert "chain" in failed(verdict)
    assert said in verdict["chain"].summary


class TestPrevious:
    """A release beside the one that it says it follows on."""

    def test_it_follows(self, first: Path, second: Path) -> None:
        verdict = verify(second, previous=first)
        assert verdict["chain"].passed
        assert verdict.notes == ()
        assert load(second).verify(previous=load(first)).verified
        assert load(second).verify(previous=first).verified

    def test_without_it_a_note_says_so(self, first: Path, second: Path) -> None:
        (note,) = verify(second).notes
        assert "not compared with those of the release before" in note
        assert "chain" not in {check.check for check in verify(second).checks}
        assert verify(first).notes == ()

    def test_not_on_itself_nor_the_other_way_round(self, first: Path, second: Path) -> None:
        for release, before in ((first, first), (second, second), (first, second)):
            assert failed(verify(release, previous=before)) == {"chain"}

    def test_not_without_a_chain(self, first: Path, second: Path, tmp_path: Path) -> None:
        alone = hospital().write(tmp_path / "alone")
        assert failed(verify(alone, previous=first)) == {"chain"}
        assert "not one of a chain" in verify(alone, previous=first)["chain"].summary
        assert failed(verify(second, previous=alone)) == {"chain"}

    def test_every_byte_of_the_manifest_before_counts(self, first: Path, second: Path) -> None:
        edit_manifest(first, lambda m: m.update(method="two-size"))
        assert failed(verify(second, previous=first)) == {"chain"}

    def test_a_value_of_an_old_bucket_swapped(self, first: Path, second: Path) -> None:
        """For one of a new bucket, so that counts, worst cases and limits stay."""

        def swapped(rows: Rows) -> Rows:
            old = next(row for row in rows if row["bucket"] == 1 and row["Disease"] == "Cold")
            new = next(row for row in rows if row["bucket"] == 6 and row["Disease"] == "Gout")
            old["Disease"], new["Disease"] = new["Disease"], old["Disease"]
            return sorted(rows, key=lambda row: (row["bucket"], row["Disease"]))

        rewrite(second, "st", swapped)
        restate_hashes(second)
        assert verify(second)
        verdict = verify(second, previous=first)
        assert failed(verdict) == {"chain"}
        assert verdict["chain"].summary == (
            "st.parquet has other values than in the release before; the first: in bucket 1"
        )

    @pytest.mark.parametrize("keep", [True, False])
    def test_st_of_the_release_before_is_the_one_that_its_manifest_names(
        self, first: Path, second: Path, keep: bool
    ) -> None:
        """Else both tables could be changed."""
        whole = (first / "st.parquet").read_bytes()
        (first / "st.parquet").write_bytes(whole[:-1] + b"2")
        if not keep:
            (first / "st.parquet").unlink()
        verdict = verify(second, previous=first)
        assert failed(verdict) == {"chain"}
        assert verdict["chain"].summary.startswith("of the release before, ")

    def test_a_release_that_cannot_be_read_is_not_compared(self, first: Path, second: Path) -> None:
        (second / "st.parquet").write_bytes(b"PAR1")
        assert "chain" in not_made(verify(second, previous=first))
        (second / "manifest.json").unlink()
        assert "chain" in not_made(verify(second, previous=first))

    def test_a_release_before_that_cannot_be_read_is_wrong_use(self, first: Path, second: Path, tmp_path: Path) -> None:
        (first / "manifest.json").write_text("{}")
        with pytest.raises(ReleaseError, match="of the release before"):
            verify(second, previous=first)
        with pytest.raises(ReleaseError, match="no folder"):
            verify(second, previous=tmp_path / "nowhere")

    def test_groups_stay(self, tmp_path: Path) -> None:
        made = grouped_hospital(chain=FIRST)
        first = made.write(tmp_path / "first")
        grouped: dict[str, Any] = {"groups": made.groups, "group_of": {**made.group_of, "Mumps": "Airways"}}
        assert verify(next_hospital(first, **grouped).write(tmp_path / "right"), previous=first)
        other = [("Chronic", None, "2/3"), *made.groups[1:]]
        changed = next_hospital(first, **{**grouped, "groups": other}).write(tmp_path / "limit")
        assert "1 group has another level, limit or parent" in verify(changed, previous=first)["chain"].summary
        moved = {**grouped, "groups": made.groups[::2], "group_of": {**grouped["group_of"], "Gout": "Chronic"}}
        folder = next_hospital(first, **moved).write(tmp_path / "moved")
        summary = [finding.message for finding in verify(folder, previous=first)["chain"].findings]
        assert [text.partition(";")[0] for text in summary] == [
            "1 value has another limit or group than in the release before",
            "1 group of the release before is not listed",
        ]

    def test_nulls_keep_their_name(self, tmp_path: Path) -> None:
        values = [None if value == "Gout" else value for value in hospital().values]
        first = hospital(values=values, null_value="unknown", chain=FIRST).write(tmp_path / "first")
        parts = next_hospital(first)
        now: dict[str, Any] = {
            "values": [None if value == "Gout" else value for value in parts.values],
            "left": [(bucket, None if value == "Gout" else value) for bucket, value in parts.left],
            "limits": {**dict(parts.limits), "unknown": "1"},
        }
        assert verify(first)["manifest"].passed
        for name, right in (("unknown", True), ("missing", False)):
            folder = next_hospital(first, null_value=name, **now).write(tmp_path / name)
            assert verify(folder, previous=first)["chain"].passed == right

    @pytest.mark.parametrize("seed", range(8))
    def test_of_chains_at_random_any_other_value_is_found(self, tmp_path: Path, seed: int) -> None:
        draw = random.Random(seed)  # noqa: S311
        people = [(draw.choice("ab"), draw.randrange(50)) for _ in range(40)]
        kind = draw.choice([pa.string(), pa.int32(), pa.float64(), pa.dictionary(pa.int32(), pa.string())])
        pool: list[Any] = ["x", "y", "z"] if "string" in str(kind) else [0.0, -0.0, float("nan")]
        pool = [1, 2, 3] if kind == pa.int32() else pool

        def some(rows: list[tuple[str, int]]) -> Handmade:
            types = {"Sex": pa.string(), "Age": pa.uint8()}
            values = [draw.choice(pool) for _ in rows]
            made = Handmade(types, rows, values, [1] * len(rows), kind, limits={})
            return in_strata(made, [("Age", 24, 1, 2), 1, 2], [2, 3, 3])

        some(people).write(tmp_path / "1")
        begin_chain(tmp_path / "1")
        for number in (2, 3):
            gone = draw.sample(range(40), draw.randrange(12))
            some([(draw.choice("ab"), draw.randrange(50)) for _ in range(20)]).write(tmp_path / f"new {number}")
            follow(tmp_path / str(number - 1), tmp_path / str(number), gone, tmp_path / f"new {number}")
            verdict = verify(tmp_path / str(number), previous=tmp_path / str(number - 1))
            assert verdict.verified, verdict.findings
        verdict = verify(tmp_path / "3", previous=tmp_path / "1")
        assert failed(verdict) == {"chain"}
        old = pq.read_metadata(tmp_path / "2" / "st.parquet").num_rows
        place = draw.randrange(old)

        def changed(rows: Rows) -> None:
            own = repr(rows[place]["Disease"])
            rows[place]["Disease"] = draw.choice([value for value in pool if repr(value) != own])

        rewrite(tmp_path / "3", "st", changed)
        restate_hashes(tmp_path / "3")
        assert "chain" in failed(verify(tmp_path / "3", previous=tmp_path / "2"))


def in_groups_of(folder: Path, group: int, rows: Callable[[list[Any]], list[Any]] = lambda rows: rows) -> None:
    """Write ST again in row groups of so many rows, with other values."""
    release = open_release(folder)
    table = release.table("st")
    values = rows(table.column(1).to_pylist())
    table = table.set_column(1, table.schema.field(1), pa.array(values, table.schema.field(1).type))
    writer = TableWriter(folder / "st.parquet", table.schema, "parquet", group, release.manifest.columns.bucket)
    for batch in table.combine_chunks().to_batches():
        writer.write(batch.columns)
    writer.finish()
    restate_hashes(folder)


@pytest.mark.parametrize("groups", [(4, 4), (4, 8), (2, 2**17)])
@pytest.mark.parametrize("tampered", [None, 0, 7, -1])
def test_row_groups_that_are_the_same_byte_for_byte(
    first: Path, tmp_path: Path, groups: tuple[int, int], tampered: int | None
) -> None:
    """Whichever row of the release before it is, another value is found, however both files are grouped."""
    in_groups_of(first, groups[0])
    folder = next_hospital(first).write(tmp_path / "second")
    many = open_release(first).table("st").num_rows

    def other(values: list[Any]) -> list[Any]:
        if tampered is not None:
            place = range(many)[tampered]
            values[place] = next(value for value in values if value != values[place])
        return values

    in_groups_of(folder, groups[1], other)
    assert verify(folder, previous=first)["chain"].passed == (tampered is None)


def test_exposure_is_that_of_those_who_are_there(first: Path, tmp_path: Path) -> None:
    """Loops over buckets: of n people, c n / S are expected to have a value that c of S places have."""
    groups: dict[str, Any] = {"groups": [("Bad", None, None)], "group_of": {"HIV": "Bad", "Gout": "Bad"}}
    made = next_hospital(first, **groups)
    verdict = verify(made.write(tmp_path / "next"))
    assert verdict.exposure is not None
    assert verdict.exposure.people == pytest.approx(len(made.rows))
    held = Counter((bucket, made.text(value)) for bucket, value in made.shown())
    there, sizes = Counter(made.buckets), made.sizes()
    for own in verdict.exposure.values:
        mine = [(b, c) for (b, value), c in held.items() if value == own.value and there[b]]
        people = {b: c * there[b] / sizes[b] for b, c in mine}
        assert own.people == pytest.approx(sum(people.values()))
        assert own.highest == max((Fraction(c, sizes[b]) for b, c in mine), default=0)
        total = sum(people[b] * c / sizes[b] for b, c in mine)
        assert own.mean == pytest.approx(total / sum(people.values()))
    bad = Counter(b for b, value in made.shown() if made.text(value) in ("HIV", "Gout"))
    (group,) = verdict.groups
    assert group.exposure is not None
    assert group.exposure.people == pytest.approx(sum(c * there[b] / sizes[b] for b, c in bad.items()))


class TestPublisher:
    """What the publisher knows besides: limits, and the table."""

    def test_the_table(self, first: Path, second: Path) -> None:
        made = next_hospital(first)
        assert verify(second, against=made.source())
        assert failed(verify(second, against=hospital().source())) == {"source"}
        rows = made.source()
        assert failed(verify(second, against=rows.slice(1))) == {"source"}
        assert failed(verify(second, against=pa.concat_tables([rows, rows.slice(0, 1)]))) == {"source"}

    def test_values_of_nobody_are_as_many_as_the_manifest_says(self, first: Path, second: Path) -> None:
        rows = next_hospital(first).source()
        others = rows.set_column(3, "Disease", pa.array(["Plague", *rows["Disease"].to_pylist()[1:]]))
        verdict = verify(second, against=others)
        assert failed(verdict) == {"source"}
        assert verdict["source"].summary == (
            "the sensitive values in st.parquet are not those of the table and 4 values of nobody: 1 rows are missing, "
            "1 are too many"
        )

    def test_people_who_are_held_back(self, first: Path, tmp_path: Path) -> None:
        made = next_hospital(first)
        chain = {**dict(made.chain or {}), "held_back": 2}
        folder = next_hospital(first, chain=chain).write(tmp_path / "waiting")
        assert verify(folder, previous=first)
        waiting = pa.table({"Gender": ["M", "F"], "Zipcode": ["9", "9"], "Age": [1, 2], "Disease": ["Flu", "Plague"]})
        rows = made.source()
        waiting = waiting.cast(
            pa.schema(
                [pa.field(field.name, pa.string()) if "dict" in str(field.type) else field for field in rows.schema]
            )
        )
        rows = rows.cast(waiting.schema)
        whole = pa.concat_tables([rows, waiting])
        assert verify(folder, against=whole)["source"].passed
        for table in (rows, pa.concat_tables([rows, waiting.slice(1)]), pa.concat_tables([whole, waiting.slice(1)])):
            assert failed(verify(folder, against=table)) == {"source"}
        plague = waiting.set_column(3, "Disease", pa.array(["Plague"] * 2))
        assert verify(folder, against=pa.concat_tables([rows, plague]))["source"].passed
        another = rows.set_column(3, "Disease", pa.array(["Plague", *rows["Disease"].to_pylist()[1:]]))
        assert failed(verify(folder, against=pa.concat_tables([another, plague]))) == {"source"}

    def test_rules_by_counts_are_those_of_another_time(self, first: Path, tmp_path: Path) -> None:
        limits = {**dict(hospital().limits), "Gout": "9/10", "Mumps": "1"}
        folder = next_hospital(first, limits=limits).write(tmp_path / "second")
        for policy in (LimitPolicy.of(odds="4"), LimitPolicy.of(theta="2"), LimitPolicy.of(beta="3")):
            verdict = verify(folder, policy=policy, against=next_hospital(first).source())
            assert verdict.verified, verdict.findings
            assert "when it first came" in " ".join(verdict.notes)
        fixed = LimitPolicy.of(odds="4", values={"HIV": "1/5"})
        assert failed(verify(folder, policy=fixed)) == {"limits"}
        assert failed(verify(folder, policy=LimitPolicy.of(uniform="1/3"))) == {"limits"}

    def test_strata_of_a_job_are_those_of_one_release(self, first: Path, second: Path, tmp_path: Path) -> None:
        for strata, right in (("2", True), ("1", False), ('"none"', False), ('["Age"]', True), ('["Zipcode"]', False)):
            (tmp_path / "job.toml").write_text(f"[table]\nstrata = {strata}\n")
            assert verify(second, job=tmp_path / "job.toml")["job"].passed == right, strata


def test_the_command(first: Path, second: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from click.testing import CliRunner

    run = CliRunner().invoke
    done = run(main, ["verify", str(second), "--previous", str(first)])
    assert done.exit_code == 0
    assert "it follows on the release before" in done.output
    wrong = run(main, ["verify", str(second), "--previous", str(second), "--json"])
    assert wrong.exit_code == 1
    assert [check["outcome"] for check in json.loads(wrong.output)["checks"] if check["check"] == "chain"] == ["failed"]
    assert run(main, ["verify", str(second), "--previous", str(first / "nowhere")]).exit_code == 2
    assert run(main, ["verify", "--certificate", "proof.json", "--previous", str(first)]).exit_code == 2
