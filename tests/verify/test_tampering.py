"""Releases broken on purpose: verify must reject every one, and the right check must say so.

Wherever possible hashes (and more of the manifest) are made to fit the change, so that only the check under test is
left to notice it.
"""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dalenius.verify.judge import verify
from tests.handmade import (
    edit_manifest,
    hospital,
    in_strata,
    many_types,
    restate_hashes,
    rewrite,
    three_strata,
    write_table,
)
from tests.verify.test_verify import failed, not_made

Rows = list[dict[str, Any]]


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = hospital().write(tmp_path / "release")
    assert verify(folder)
    return folder


def change_cell(rows: Rows) -> None:
    rows[0]["Age"] += 1


def swap_values(rows: Rows) -> None:
    """A 'Flu' of bucket 3 for the 'HIV' of bucket 4: then bucket 3 has two cases of HIV."""
    flu = next(row for row in rows if row["bucket"] == 3 and row["Disease"] == "Flu")
    hiv = next(row for row in rows if row["bucket"] == 4 and row["Disease"] == "HIV")
    flu["Disease"], hiv["Disease"] = "HIV", "Flu"
    rows.sort(key=lambda row: (row["bucket"], row["Disease"]))


def move_row(rows: Rows) -> None:
    rows[-1]["bucket"] = 3
    rows.sort(key=lambda row: row["bucket"])


class TestTables:
    """A table is changed."""

    @pytest.mark.parametrize(("table", "change"), [("qit", change_cell), ("qit", move_row), ("st", swap_values)])
    def test_without_new_hashes_the_hashes_say_so(
        self, release: Path, table: str, change: Callable[[Rows], None]
    ) -> None:
        rewrite(release, table, change)
        assert "hashes" in failed(verify(release))

    def test_values_swapped_between_buckets(self, release: Path) -> None:
        rewrite(release, "st", swap_values)
        restate_hashes(release)
        verdict = verify(release)
        assert failed(verdict) == {"limits", "values"}
        assert verdict["limits"].summary == (
            "1 bucket holds more of a value than its limit allows; the worst: 'HIV' 2 of 4 in bucket 3, limit 1/4"
        )
        edit_manifest(release, lambda m: m["values"][3].update(worst={"count": 2, "size": 4}))
        assert "limits" in failed(verify(release))

    @pytest.mark.parametrize("batch_rows", [1, 2, 5, 100])
    def test_a_value_that_is_hidden_by_disorder(self, release: Path, batch_rows: int) -> None:
        """The two cases of HIV in bucket 3 are not next to each other: they count together all the same."""

        def hidden(rows: Rows) -> None:
            swap_values(rows)
            inside = [row for row in rows if row["bucket"] == 3]
            places = [place for place, row in enumerate(rows) if row["bucket"] == 3]
            inside = [inside[3], inside[0], inside[2], inside[1]]
            for place, row in zip(places, inside, strict=True):
                rows[place] = row

        rewrite(release, "st", hidden)
        restate_hashes(release)
        verdict = verify(release, batch_rows=batch_rows)
        assert failed(verdict) == {"limits", "values", "order"}
        assert "'HIV' 2 of 4 in bucket 3" in verdict["limits"].summary

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_a_row_in_another_bucket(self, release: Path, table: str) -> None:
        rewrite(release, table, move_row)
        restate_hashes(release)
        verdict = verify(release)
        assert "sizes" in failed(verdict)
        assert verdict["sizes"].count == 2
        assert "bucket 3 has 5 rows, not 4" in verdict["sizes"].summary

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_a_row_less_and_a_row_more(self, release: Path, table: str) -> None:
        rewrite(release, table, lambda rows: rows[:-1])
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}  # no file of so many rows is spelled so
        hospital().write(release, format=3)
        before = (release / f"{table}.parquet").read_bytes()
        rewrite(release, table, lambda rows: rows[:-1])
        restate_hashes(release)
        assert "has 11 rows, and the manifest says 12" in verify(release)["sizes"].summary
        (release / f"{table}.parquet").write_bytes(before)
        rewrite(release, table, lambda rows: [*rows, rows[-1]])
        restate_hashes(release)
        assert "has 13 rows" in verify(release)["sizes"].summary

    def test_one_cell_is_for_the_source_to_notice(self, release: Path) -> None:
        rewrite(release, "qit", change_cell)
        restate_hashes(release)
        assert verify(release)
        assert failed(verify(release, against=hospital().source())) == {"source"}

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_neighbours_swapped(self, release: Path, table: str) -> None:
        def swapped(rows: Rows) -> None:
            rows[8], rows[9] = rows[9], rows[8]

        rewrite(release, table, swapped)
        restate_hashes(release)
        for batch_rows in (1, 9, 100):
            verdict = verify(release, batch_rows=batch_rows)
            assert failed(verdict) == {"order"}
            assert verdict["order"].count == 1

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_buckets_reversed(self, release: Path, table: str) -> None:
        hospital().write(release, format=3)  # later ones cannot say it
        rewrite(release, table, lambda rows: rows[::-1])
        restate_hashes(release)
        verdict = verify(release)
        assert failed(verdict) == {"order"}
        assert not_made(verdict) >= {"sizes"}
        assert not verdict

    @pytest.mark.parametrize("number", [0, 5, -(2**63), 2**63 - 1])
    def test_bucket_numbers_with_holes(self, release: Path, number: int) -> None:
        def renumbered(rows: Rows) -> None:
            for row in rows:
                if row["bucket"] == 2:
                    row["bucket"] = number
            rows.sort(key=lambda row: row["bucket"])

        hospital().write(release, format=3)  # later ones cannot say it
        for table in ("qit", "st"):
            rewrite(release, table, renumbered)
        restate_hashes(release)
        verdict = verify(release, batch_rows=3)
        assert "sizes" in failed(verdict)
        assert "qit.parquet lacks 1 of the buckets 1 to 4" in verdict["sizes"].summary

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_a_null_bucket(self, release: Path, table: str) -> None:
        def without(rows: Rows) -> None:
            rows[-1]["bucket"] = None

        hospital().write(release, format=3)  # later ones cannot say it
        rewrite(release, table, without)
        restate_hashes(release)
        verdict = verify(release)
        assert failed(verdict) == {"schema"}
        assert "nulls" in verdict["schema"].summary

    def test_sizes_that_are_not_in_the_order_of_sizes(self, tmp_path: Path) -> None:
        made = hospital(buckets=[3, 3, 2, 2, 1, 1, 1, 1, 4, 4, 4, 4])
        assert failed(verify(made.write(tmp_path))) == {"sizes"}

    def test_a_value_that_the_manifest_does_not_list(self, release: Path) -> None:
        def renamed(rows: Rows) -> None:
            for row in rows:
                row["Disease"] = row["Disease"].replace("HIV", "ZZZ")

        rewrite(release, "st", renamed)
        restate_hashes(release)
        verdict = verify(release)
        assert failed(verdict) == {"limits", "values"}
        assert "1 value has no limit" in verdict["limits"].summary


class TestFiles:
    """A file is missing, damaged, or something else."""

    @pytest.mark.parametrize("name", ["qit.parquet", "st.parquet", "manifest.json"])
    def test_missing(self, release: Path, name: str) -> None:
        (release / name).unlink()
        verdict = verify(release)
        assert failed(verdict) == {"files"}
        assert name in verdict["files"].summary
        assert not_made(verdict)

    @pytest.mark.parametrize("name", ["qit.parquet", "st.parquet", "manifest.json"])
    def test_a_folder_or_a_pipe_in_its_place(self, release: Path, name: str) -> None:
        (release / name).unlink()
        os.mkfifo(release / name)
        assert failed(verify(release)) == {"files"}
        (release / name).unlink()
        (release / name).mkdir()
        assert failed(verify(release)) == {"files"}

    @pytest.mark.parametrize("name", ["qit.parquet", "st.parquet"])
    @pytest.mark.parametrize("content", [b"", b"PAR1", b"garbage" * 1000, None])
    @pytest.mark.parametrize("fits", [True, False])
    def test_garbage_and_half_a_file(self, release: Path, name: str, content: bytes | None, fits: bool) -> None:
        path = release / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if content is None else content)
        if fits and path.stat().st_size:
            restate_hashes(release)
        verdict = verify(release)
        assert "schema" in failed(verdict)
        assert ("hashes" in failed(verdict)) == (not fits or not path.stat().st_size)
        assert "sizes" in not_made(verdict)

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b"[]", b"\xff\xfe", b'{"format": 2}', b"{" * 10_000, b'{"format": 3}']
    )
    def test_a_manifest_that_is_none(self, release: Path, content: bytes) -> None:
        (release / "manifest.json").write_bytes(content)
        verdict = verify(release)
        assert failed(verdict) == {"manifest"}
        assert "limits" in not_made(verdict)

    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    def test_flipped_bits_never_pass_and_never_break_the_judge(self, tmp_path: Path, kind: str) -> None:
        random_places = random.Random(7)  # noqa: S311
        made = hospital(types={"Gender": pa.string(), "Zipcode": pa.string(), "Age": pa.uint8()})
        folder = made.write(tmp_path, kind)
        stated = json.loads((folder / "manifest.json").read_text())
        for name in (f"qit.{kind}", f"st.{kind}"):
            whole = (folder / name).read_bytes()
            for _ in range(60):
                damaged = bytearray(whole)
                damaged[random_places.randrange(len(whole))] ^= 1 << random_places.randrange(8)
                (folder / name).write_bytes(damaged)
                assert "hashes" in failed(verify(folder))
                restate_hashes(folder)
                assert "hashes" not in failed(verify(folder))
                edit_manifest(folder, lambda m: m.update(stated))
            (folder / name).write_bytes(whole)
        assert verify(folder)

    def test_the_two_tables_swapped(self, release: Path) -> None:
        (release / "qit.parquet").rename(release / "x")
        (release / "st.parquet").rename(release / "qit.parquet")
        (release / "x").rename(release / "st.parquet")
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}


class TestSchema:
    """Columns, types and whatever else travels in the files of format 3, which other programs may have written."""

    @pytest.fixture
    def release(self, tmp_path: Path) -> Path:
        folder = hospital().write(tmp_path / "release", format=3)
        assert verify(folder)
        return folder

    def rewrite_table(self, release: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
        path = release / f"{table}.parquet"
        pq.write_table(change(pq.read_table(path)), path)
        restate_hashes(release)

    @pytest.mark.parametrize("table", ["qit", "st"])
    def test_metadata_of_the_schema(self, release: Path, table: str) -> None:
        self.rewrite_table(release, table, lambda t: t.replace_schema_metadata({"source": "/home/ann/hiv.csv"}))
        verdict = verify(release)
        assert failed(verdict) == {"schema"}
        assert "metadata" in verdict["schema"].summary
        assert "ann" not in verdict["schema"].summary

    def test_metadata_of_a_column(self, release: Path) -> None:
        def commented(table: pa.Table) -> pa.Table:
            columns = [field.with_metadata({"comment": "x"}) for field in table.schema]
            return table.cast(pa.schema(columns))

        self.rewrite_table(release, "qit", commented)
        assert failed(verify(release)) == {"schema"}

    def test_fields_in_the_stored_schema_that_are_no_columns(self, release: Path) -> None:
        table = pq.read_table(release / "st.parquet")
        more = table.schema.append(pa.field("Ann has HIV", pa.null()))
        with pq.ParquetWriter(release / "st.parquet", table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(more.serialize().to_pybytes()).decode()})
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}

    def test_bytes_between_the_columns_and_the_footer(self, release: Path) -> None:
        whole = (release / "st.parquet").read_bytes()
        footer = int.from_bytes(whole[-8:-4], "little") + 8
        (release / "st.parquet").write_bytes(whole[:-footer] + b"Ann has HIV" + whole[-footer:])
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}

    def test_row_groups_of_different_sizes(self, release: Path) -> None:
        table = pq.read_table(release / "qit.parquet")
        with pq.ParquetWriter(release / "qit.parquet", table.schema) as writer:
            for first, count in ((0, 2), (2, 1), (3, len(table) - 3)):
                writer.write_table(table.slice(first, count))
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}

    @pytest.mark.parametrize("text", ['"randomness": "Ann=HIV",', '"rows": 1,', '"null_value": "x",'])
    def test_a_key_that_is_there_twice(self, release: Path, text: str) -> None:
        whole = (release / "manifest.json").read_text(encoding="utf-8")
        (release / "manifest.json").write_text(whole.replace("{", "{" + text, 1), encoding="utf-8")
        assert failed(verify(release)) == {"manifest"}

    def test_a_link_in_the_place_of_a_table(self, release: Path, tmp_path: Path) -> None:
        (release / "st.parquet").rename(tmp_path / "elsewhere")
        (release / "st.parquet").symlink_to(tmp_path / "elsewhere")
        assert "files" in failed(verify(release))

    def test_metadata_in_the_stored_schema_alone(self, release: Path) -> None:
        """As a writer does that copies the source's Arrow schema into the file."""
        table = pq.read_table(release / "st.parquet")
        stored = base64.b64encode(table.schema.with_metadata({"pandas": "index"}).serialize().to_pybytes())
        with pq.ParquetWriter(release / "st.parquet", table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({"ARROW:schema": stored.decode()})
        restate_hashes(release)
        assert failed(verify(release)) == {"schema"}

    def test_categories_that_no_row_has(self, release: Path) -> None:
        def with_more(table: pa.Table) -> pa.Table:
            column = table["Gender"].combine_chunks().dictionary_encode()
            entries = pa.array([*column.dictionary.to_pylist(), "left out"])
            more = pa.DictionaryArray.from_arrays(column.indices, entries)
            return table.set_column(0, "Gender", more)

        self.rewrite_table(release, "qit", with_more)
        for batch_rows in (1, 100):
            verdict = verify(release, batch_rows=batch_rows)
            assert failed(verdict) == {"schema"}
            assert verdict["schema"].summary == "qit.parquet spells out 1 value of 'Gender' that no row has"

    def test_a_category_may_be_unused_in_part_of_the_file(self, tmp_path: Path) -> None:
        folder = many_types().write(tmp_path, format=3)
        table = pq.read_table(folder / "qit.parquet")
        pq.write_table(table.unify_dictionaries(), folder / "qit.parquet", row_group_size=2)
        restate_hashes(folder)
        assert verify(folder)

    def test_sensitive_values_that_no_row_has(self, release: Path) -> None:
        def with_more(table: pa.Table) -> pa.Table:
            column = table["Disease"].combine_chunks().dictionary_encode()
            entries = pa.array([*column.dictionary.to_pylist(), "Ebola"])
            return table.set_column(1, "Disease", pa.DictionaryArray.from_arrays(column.indices, entries))

        self.rewrite_table(release, "st", with_more)
        assert failed(verify(release)) == {"schema"}

    @pytest.mark.parametrize(
        "change",
        [
            lambda t: t.append_column("Name", pa.array(["x"] * 12)),
            lambda t: t.drop_columns(["Age"]),
            lambda t: t.select(["Zipcode", "Gender", "Age", "bucket"]),
            lambda t: t.rename_columns(["Gender", "Zipcode", "AGE", "bucket"]),
            lambda t: t.set_column(2, "Age", t["Age"].cast(pa.int64())),
            lambda t: t.set_column(3, "bucket", t["bucket"].cast(pa.int32())),
            lambda t: t.set_column(3, "bucket", t["bucket"].cast(pa.string())),
        ],
    )
    def test_other_columns(self, release: Path, change: Callable[[pa.Table], pa.Table]) -> None:
        self.rewrite_table(release, "qit", change)
        assert failed(verify(release)) == {"schema"}

    def test_other_columns_in_csv(self, tmp_path: Path) -> None:
        made = hospital(types={"Gender": pa.string(), "Zipcode": pa.string(), "Age": pa.uint8()})
        folder = made.write(tmp_path, "csv")
        before = (folder / "qit.csv").read_text()
        for other in (
            before.replace("Age", "age"),
            before.replace("\n", ',"x"\n'),
            "",
            before.replace(",40,", ",abc,"),
        ):
            (folder / "qit.csv").write_text(other or '"')
            restate_hashes(folder)
            assert failed(verify(folder)) == {"schema"}


MANIFEST_EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], set[str]]] = {
    "rows": (lambda m: m.update(rows=13), {"manifest", "sizes"}),
    "qit rows": (lambda m: m["tables"]["qit"].update(rows=13), {"manifest", "schema"}),
    "st rows": (lambda m: m["tables"]["st"].update(rows=11), {"manifest", "schema"}),
    "st file": (lambda m: m["tables"]["st"].update(file="qit.parquet"), {"manifest", "hashes", "schema"}),
    "bytes": (lambda m: m["tables"]["st"].update(bytes=7), {"hashes"}),
    "sha256": (lambda m: m["tables"]["qit"].update(sha256="0" * 64), {"hashes"}),
    "buckets": (lambda m: m.update(buckets=5), {"manifest"}),
    "setting": (lambda m: m.update(setting=[{"size": 3, "buckets": 4}]), {"manifest", "sizes"}),
    "setting not ascending": (lambda m: m["setting"].reverse(), {"manifest", "sizes"}),
    "setting twice": (
        lambda m: m.update(setting=[{"size": s, "buckets": 1} for s in (2, 2, 4, 4)]),
        {"manifest"},
    ),
    "setting huge": (lambda m: m["setting"][0].update(size=10**30), {"manifest"}),
    "rows huge": (lambda m: m.update(rows=10**400), {"manifest"}),
    "loss": (lambda m: m.update(loss=21), {"manifest"}),
    "mse": (lambda m: m.update(mse=1.8), {"manifest"}),
    "mse is not a number": (lambda m: m.update(mse=float("nan")), {"manifest"}),
    "bound": (lambda m: m.update(bound=21, gap=0.0), {"manifest"}),
    "bound without gap": (lambda m: m.update(bound=20), {"manifest"}),
    "gap": (lambda m: m.update(bound=18, gap=0.2), {"manifest"}),
    "optimal without bound": (lambda m: m.update(status="optimal"), {"manifest"}),
    "infeasible": (lambda m: m.update(status="infeasible"), {"manifest"}),
    "fake values": (lambda m: m["adversary"].update(fake_values=1), {"manifest", "sizes", "limits", "values"}),
    "known records": (lambda m: m["adversary"].update(known_records=1), {"manifest", "limits", "values"}),
    "known records of a whole bucket": (
        lambda m: m["adversary"].update(known_records=2),
        {"manifest", "limits", "values"},
    ),
    "fake values huge": (lambda m: m["adversary"].update(fake_values=2**31), {"manifest"}),
    "known records huge": (lambda m: m["adversary"].update(known_records=2**31), {"manifest"}),
    "strata": (lambda m: m.update(strata=["Name"]), {"manifest"}),
    "no word on strata": (lambda m: m.pop("strata"), {"manifest"}),
    "bucket": (lambda m: m["columns"].update(bucket="AGE"), {"manifest", "schema"}),
    "column twice": (lambda m: m["columns"]["quasi_identifiers"][0].update(name="Age"), {"manifest", "schema"}),
    "sensitive twice": (lambda m: m["columns"]["sensitive"].update(name="Age"), {"manifest", "schema"}),
    "type": (lambda m: m["columns"]["quasi_identifiers"][2].update(type="int8"), {"schema"}),
    "no such type": (lambda m: m["columns"]["quasi_identifiers"][2].update(type="uint9"), {"schema"}),
    "type of the sensitive": (lambda m: m["columns"]["sensitive"].update(type="large_string"), {"schema"}),
    "limit": (lambda m: m["values"][3].update(limit="1/5"), {"manifest", "limits"}),
    "limit hidden": (
        lambda m: m["values"][3].update(limit="1/5", worst={"count": 1, "size": 5}),
        {"manifest", "limits", "values"},
    ),
    "worst": (lambda m: m["values"][1].update(worst={"count": 1, "size": 4}), {"values"}),
    "worst that cannot be": (lambda m: m["values"][0].update(worst={"count": 4, "size": 2}), {"manifest", "values"}),
    "count": (lambda m: m["values"][0].update(count=4), {"manifest", "values"}),
    "counts that add up": (
        lambda m: (m["values"][0].update(count=2), m["values"][1].update(count=6)),
        {"values"},
    ),
    "a value less": (lambda m: m["values"].pop(), {"manifest", "values", "limits"}),
    "a value twice": (lambda m: m["values"].append(m["values"][0]), {"manifest", "values"}),
    "a value too many": (
        lambda m: m["values"].append({**m["values"][0], "value": "Ebola"}),
        {"manifest", "values"},
    ),
    "values out of order": (lambda m: m["values"].reverse(), {"values"}),
    "unknown key": (lambda m: m.update(person=1), {"manifest"}),
    "no rows": (lambda m: m.pop("rows"), {"manifest"}),
    "format": (lambda m: m.update(format=2), {"manifest"}),
}


@pytest.mark.parametrize("name", MANIFEST_EDITS)
def test_every_statement_of_the_manifest_is_checked(release: Path, name: str) -> None:
    change, wanted = MANIFEST_EDITS[name]
    edit_manifest(release, change)
    verdict = verify(release)
    assert failed(verdict) == wanted
    assert not verdict


@pytest.fixture
def in_three(tmp_path: Path) -> Path:
    """Ages around 40 in buckets 1 and 2, around 20 in bucket 3, around 60 in bucket 4: strata 1, 2 and 3."""
    folder = three_strata().write(tmp_path / "strata")
    assert verify(folder)
    return folder


def exchange(rows: Rows) -> None:
    """One row of bucket 3 for one of bucket 4, and the order made right: every bucket keeps its size."""
    young = next(row for row in rows if row["bucket"] == 3)
    old = next(row for row in rows if row["bucket"] == 4)
    young["bucket"], old["bucket"] = 4, 3
    rows.sort(key=lambda row: (row["bucket"], row["Gender"], row["Zipcode"], row["Age"]))


class TestRowsInStrata:
    """A row is in a bucket of another stratum than its own."""

    @pytest.mark.parametrize("batch_rows", [1, 2, 7, 100])
    def test_two_rows_exchanged(self, in_three: Path, batch_rows: int) -> None:
        rewrite(in_three, "qit", exchange)
        assert failed(verify(in_three)) == {"hashes", "strata"}
        restate_hashes(in_three)
        verdict = verify(in_three, batch_rows=batch_rows)
        assert failed(verdict) == {"strata"}
        assert verdict["strata"].count == 2
        assert verdict["strata"].summary == (
            "in qit.parquet 2 rows are in a bucket of another stratum; the first: a row of stratum 3 is in bucket 3, "
            "of stratum 2"
        )

    def test_within_a_stratum_rows_may_be_anywhere(self, in_three: Path) -> None:
        def dealt(rows: Rows) -> None:
            first, second = (next(row for row in rows if row["bucket"] == bucket) for bucket in (1, 2))
            first["bucket"], second["bucket"] = 2, 1
            rows.sort(key=lambda row: (row["bucket"], row["Gender"], row["Zipcode"], row["Age"]))

        rewrite(in_three, "qit", dealt)
        restate_hashes(in_three)
        assert verify(in_three)

    def test_a_cell_that_leads_elsewhere(self, in_three: Path) -> None:
        def older(rows: Rows) -> None:
            rows[-1]["Age"] = None

        def younger(rows: Rows) -> None:
            rows[0]["Age"] = 22

        rewrite(in_three, "qit", older)  # a null goes above, where the row is
        restate_hashes(in_three)
        assert verify(in_three)
        rewrite(in_three, "qit", younger)
        restate_hashes(in_three)
        verdict = verify(in_three)
        assert failed(verdict) == {"strata"}
        assert verdict["strata"].count == 1

    def test_a_row_in_the_other_leaf_of_a_merged_stratum(self, tmp_path: Path) -> None:
        tree: list[Any] = [("Age", 22, 1, 2), 1, ("Age", 43, 3, 4), 2, 1]
        folder = in_strata(hospital(limits={}), tree, [2, 2]).write(tmp_path)
        assert verify(folder)

        def changed(rows: Rows) -> None:
            inside = next(row for row in rows if row["Age"] == 60 and row["Zipcode"] == "71234")
            inside["Age"] = 22
            rows.sort(key=lambda row: (row["bucket"], row["Gender"], row["Zipcode"], row["Age"]))

        rewrite(folder, "qit", changed)
        restate_hashes(folder)
        assert verify(folder)

    def test_what_cannot_be_read_is_not_checked(self, in_three: Path) -> None:
        three_strata().write(in_three, format=3)
        rewrite(in_three, "qit", lambda rows: rows[::-1])
        restate_hashes(in_three)
        verdict = verify(in_three)
        assert "strata" in not_made(verdict)
        (in_three / "qit.parquet").unlink()
        assert "strata" in not_made(verify(in_three))


def edit_tree(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: change(manifest["strata"]["tree"])


def edit_strata(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: change(manifest["strata"]["strata"])


ONE_LEAF = {"tree": [{"stratum": 1}], "margin": "1"}


def one_stratum(manifest: dict[str, Any]) -> dict[str, Any]:
    """Everybody in one stratum."""
    return {"rows": 12, "setting": manifest["setting"], "rows_each": 1, "applies": True, "since": 1}


# what is changed of three strata (0: Age <= 22 ? 1 : 2; 1: stratum 2; 2: Age <= 43 ? 3 : 4; 3: stratum 1; 4: stratum 3)
# and which checks say so; with an ill-formed tree, strata cannot be checked
STRATA_EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], set[str]]] = {
    "no strata": (lambda m: m.update(strata=None), set()),
    "no tree": (lambda m: m["strata"].pop("tree"), {"manifest"}),
    "an empty tree": (edit_tree(list.clear), {"manifest"}),
    "no margin": (lambda m: m["strata"].pop("margin"), {"manifest"}),
    "a margin of nothing": (lambda m: m["strata"].update(margin="0"), {"manifest"}),
    "a margin above 1": (lambda m: m["strata"].update(margin="3/2"), {"manifest"}),
    "a margin that is no ratio": (lambda m: m["strata"].update(margin=0.5), {"manifest"}),
    "unknown key": (edit_tree(lambda t: t[0].update(person=1)), {"manifest"}),
    "a place of both kinds": (edit_tree(lambda t: t[1].update(t[0])), {"manifest"}),
    "a stratum 0": (edit_tree(lambda t: t[1].update(stratum=0)), {"manifest"}),
    "a way back to the start": (edit_tree(lambda t: t[2].update(below=0)), {"manifest"}),
    "a way back": (edit_tree(lambda t: t[2].update(below=1)), {"manifest"}),
    "a cycle": (edit_tree(lambda t: t[2].update(below=2)), {"manifest"}),
    "nowhere": (edit_tree(lambda t: t[2].update(below=5)), {"manifest"}),
    "a place that no answer leads to": (edit_tree(lambda t: t.append({"stratum": 1})), {"manifest"}),
    "a place that two answers lead to": (edit_tree(lambda t: t[2].update(below=4)), {"manifest"}),
    "the same for both answers": (edit_tree(lambda t: t[0].update(below=2)), {"manifest"}),
    "unknown column": (edit_tree(lambda t: t[0].update(column="Height")), {"manifest"}),
    "the sensitive column": (edit_tree(lambda t: t[0].update(column="Disease")), {"manifest"}),
    "the bucket column": (edit_tree(lambda t: t[0].update(column="bucket")), {"manifest"}),
    "another type": (edit_tree(lambda t: t[0].update(at_most="young")), {"manifest"}),
    "out of the type's range": (edit_tree(lambda t: t[0].update(at_most="256")), {"manifest"}),
    "no text": (edit_tree(lambda t: t[0].update(at_most=22)), {"manifest"}),
    "a null": (edit_tree(lambda t: t[0].update(at_most=None)), {"manifest"}),
    "another column": (edit_tree(lambda t: t[0].update(column="Zipcode", at_most="54321")), {"strata"}),
    "another cut": (edit_tree(lambda t: t[0].update(at_most="21")), {"strata"}),
    "answers exchanged": (edit_tree(lambda t: t[2].update(below=4, above=3)), {"strata"}),
    "strata exchanged": (edit_tree(lambda t: (t[3].update(stratum=3), t[4].update(stratum=1))), {"strata"}),
    "a stratum out of range": (edit_tree(lambda t: t[4].update(stratum=4)), {"manifest"}),
    "a stratum without a leaf": (edit_tree(lambda t: t[4].update(stratum=1)), {"manifest"}),
    "a stratum too many": (edit_strata(lambda s: s.append(s[1])), {"manifest", "sizes"}),
    "a stratum less": (edit_strata(lambda s: s.pop()), {"manifest", "sizes"}),
    "no setting": (edit_strata(lambda s: s[0].update(setting=[])), {"manifest"}),
    "rows of a stratum": (edit_strata(lambda s: s[0].update(rows=5)), {"manifest"}),
    "rows that add up": (edit_strata(lambda s: (s[0].update(rows=5), s[1].update(rows=3))), {"manifest"}),
    "a setting": (
        edit_strata(lambda s: s[0].update(setting=[{"size": 4, "buckets": 1}])),
        {"manifest", "sizes", "strata"},
    ),
    "settings that add up": (edit_strata(lambda s: s.insert(0, s.pop(1))), {"sizes", "strata"}),
    "settings out of order": (
        edit_strata(lambda s: s[0].update(setting=[{"size": 2, "buckets": 1}, {"size": 2, "buckets": 1}])),
        {"manifest"},
    ),
    "a setting beyond all numbers": (
        edit_strata(lambda s: s[0].update(setting=[{"size": 2**62, "buckets": 2**62}])),
        {"manifest"},
    ),
    "the total": (lambda m: m.update(setting=[{"size": 2, "buckets": 4}, {"size": 4, "buckets": 1}]), {"manifest"}),
    "one leaf for three strata": (lambda m: m["strata"].update(ONE_LEAF), {"manifest"}),
    "one stratum of all": (
        lambda m: m.update(strata={**ONE_LEAF, "strata": [one_stratum(m)]}),
        set(),
    ),
}


@pytest.mark.parametrize("name", STRATA_EDITS)
def test_every_statement_on_strata_is_checked(in_three: Path, name: str) -> None:
    change, wanted = STRATA_EDITS[name]
    edit_manifest(in_three, change)
    verdict = verify(in_three)
    assert failed(verdict) == wanted
    assert verdict.verified == (not wanted)


def test_a_large_tree_that_is_a_line(tmp_path: Path) -> None:
    """Every cut has a leaf on one side: as deep as there are cuts."""
    made = hospital(types={"n": pa.int32()}, rows=[(i,) for i in range(12)], limits={})
    tree: list[Any] = []
    for number in range(2000):
        tree += [("n", number - 1000, 2 * number + 1, 2 * number + 2), 1 + number % 2]
    folder = in_strata(made, [*tree, 3], [2]).write(tmp_path)
    assert verify(folder).findings == ()
    edit_manifest(folder, lambda m: m["strata"]["tree"][2010].update(at_most="7"))
    assert failed(verify(folder)) == {"strata"}


def test_a_proven_bound_is_consistent(release: Path) -> None:
    edit_manifest(release, lambda m: m.update(bound=18, gap=0.1, status="optimal"))
    assert verify(release)


def test_values_of_a_table_as_one_bucket(tmp_path: Path) -> None:
    """A bucket as large as the table, over many batches."""
    values = [f"value {i % 5}" for i in range(500)]
    made = hospital(
        rows=[("M", "1", i % 256) for i in range(500)], values=values, buckets=[1] * 500, limits={"value 3": "1/5"}
    )
    folder = made.write(tmp_path)
    assert verify(folder, batch_rows=7)
    edit_manifest(folder, lambda m: m["values"][3].update(limit="199/1000"))
    verdict = verify(folder, batch_rows=7)
    assert "'value 3' 100 of 500 in bucket 1, limit 199/1000" in verdict["limits"].summary


def test_nothing_of_the_quasi_identifiers_is_ever_said(tmp_path: Path) -> None:
    person = "Ann-Louise"
    made = hospital(
        types={"Name": pa.string()},
        rows=[(f"{person} {i}",) for i in range(12)],
        buckets=[9, 8, 7, 6, 5, 4, 3, 2, 1, 1, 1, 1],
    )
    folder = made.write(tmp_path)
    write_table(folder / "qit.parquet", {"Name": pa.string(), "bucket": pa.int64()}, [(person, 1)] * 3)
    verdict = verify(folder, against=hospital(types={"Name": pa.string()}, rows=[(person,)] * 12).source())
    assert not verdict
    assert person not in repr(verdict)
