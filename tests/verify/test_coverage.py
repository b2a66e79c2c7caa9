"""The bytes of a Parquet file, and the footer that accounts for them: by hand, and by hostile hands."""

from __future__ import annotations

import base64
import io
import tracemalloc
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.thrift import STRUCT, Compact
from dalenius.verify.findings import Report
from dalenius.verify.judge import verify
from dalenius.verify.parquet_bytes import check_coverage, read_footer
from tests.handmade import hospital, restate_hashes
from tests.parts import ElsewhereStore
from tests.verify.test_verify import failed

Fields = Mapping[int, Any]


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def value(cell: Any) -> tuple[int, bytes]:
    """Type and bytes of a value: an integer, bytes, a list of structures or a structure."""
    if isinstance(cell, int):
        return 6, varint((cell << 1) ^ (cell >> 63))
    if isinstance(cell, bytes):
        return 8, varint(len(cell)) + cell
    if isinstance(cell, list):
        items = b"".join(struct(item) for item in cell)
        return 9, (bytes([len(cell) << 4 | 12]) if len(cell) < 15 else b"\xfc" + varint(len(cell))) + items
    return 12, struct(cell)


def struct(fields: Fields) -> bytes:
    """A structure in Thrift's compact protocol; fields by their numbers."""
    found, last = b"", 0
    for number, cell in fields.items():
        kind, content = value(cell)
        step = number - last
        found += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + varint(number << 1)
        found, last = found + content, number
    return found + b"\0"


def parquet(
    body: bytes, chunks: Sequence[Sequence[Fields]], rows: Sequence[int] = (), file: Fields | None = None
) -> bytes:
    """A file with row groups of these chunks, and more fields of the footer."""
    groups: list[dict[int, Any]] = [
        {1: list(columns), 3: rows[place] if rows else 10} for place, columns in enumerate(chunks)
    ]
    footer = struct({1: 1, 2: [], 3: 10, 4: groups} | dict(file or {}))
    return b"PAR1" + body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def chunk(start: int, length: int, column: Fields | None = None, more: Fields | None = None) -> dict[int, Any]:
    """A column of a row group, with more fields of its description and of its own."""
    stated = {7: length, 9: start} | dict(column or {})
    return {2: 0, 3: dict(sorted(stated.items()))} | dict(more or {})


def checked(content: bytes) -> list[str]:
    """What is found in a file of these bytes."""

    class One:
        def open(self, name: str) -> io.BytesIO:
            assert name == "st.parquet"
            return io.BytesIO(content)

        def names(self) -> None:
            return None

        def local(self, name: str) -> None:
            assert name

    report = Report()
    folder = ReleaseFolder(Path("nowhere"), None, One())  # type: ignore[arg-type]
    check_coverage(folder, "st.parquet", report)
    return [finding.message for finding in report.findings]


INDEX = struct({1: b"aa", 2: [{1: 4}, {1: 5}]})
FILTER = struct({1: 32, 2: {1: {}}}) + bytes(32)
RIGHT: dict[str, bytes] = {
    "two columns": parquet(bytes(30), [[chunk(4, 10), chunk(14, 20)]]),
    "a dictionary first": parquet(bytes(30), [[chunk(9, 30, {11: 4})]]),
    "two groups": parquet(bytes(30), [[chunk(4, 10)], [chunk(14, 20)]], [7, 3]),
    "indexes": parquet(
        bytes(30) + INDEX * 2, [[chunk(4, 30, more={4: 34, 5: len(INDEX), 6: 34 + len(INDEX), 7: len(INDEX)})]]
    ),
    "a filter": parquet(bytes(30) + FILTER, [[chunk(4, 30, {14: 34, 15: len(FILTER)})]]),
    "a filter of no length": parquet(bytes(30) + FILTER, [[chunk(4, 30, {14: 34})]]),
    "a filter behind an index": parquet(
        bytes(30) + INDEX + FILTER, [[chunk(4, 30, {14: 34 + len(INDEX)}, more={4: 34, 5: len(INDEX)})]]
    ),
}
UNACCOUNTED: dict[str, bytes] = {
    "before the first column": parquet(bytes(30), [[chunk(5, 29)]]),
    "between columns": parquet(bytes(30), [[chunk(4, 10), chunk(15, 19)]]),
    "before the footer": parquet(bytes(30), [[chunk(4, 29)]]),
    "columns in another order": parquet(bytes(30), [[chunk(14, 20), chunk(4, 10)]]),
    "columns that overlap": parquet(bytes(30), [[chunk(4, 20), chunk(14, 20)]]),
    "a length below zero": parquet(bytes(30), [[chunk(4, 40), chunk(44, -10)]]),
    "before an index": parquet(bytes(31) + INDEX, [[chunk(4, 30, more={4: 35, 5: len(INDEX)})]]),
    "behind an index": parquet(bytes(30) + INDEX + b"x", [[chunk(4, 30, more={4: 34, 5: len(INDEX)})]]),
    "one index for two": parquet(
        bytes(30) + INDEX, [[chunk(4, 30, more={4: 34, 5: len(INDEX), 6: 34, 7: len(INDEX)})]]
    ),
    "an index of nothing, at the end": parquet(bytes(30), [[chunk(4, 30, more={4: 34, 5: 0})]]),
    "no columns at all": parquet(bytes(30), []),
}
NOT_READ: dict[str, bytes] = {
    "in an index": parquet(bytes(30) + INDEX + b"Ann", [[chunk(4, 30, more={4: 34, 5: len(INDEX) + 3})]]),
    "an index of nothing": parquet(bytes(30) + INDEX, [[chunk(4, 30, more={4: 34, 5: 0})]]),
    "an index without a length": parquet(bytes(30) + INDEX, [[chunk(4, 30, more={4: 34})]]),
    "behind a filter": parquet(bytes(30) + FILTER + b"x", [[chunk(4, 30, {14: 34, 15: len(FILTER) + 1})]]),
    "a filter beyond the file": parquet(bytes(30) + struct({1: 2**30}), [[chunk(4, 30, {14: 34})]]),
    "a column without a place": parquet(bytes(30), [[{2: 0, 3: {7: 30}}]]),
    "a text for a number": parquet(bytes(30), [[chunk(4, 30, more={4: b"Ann"})]]),
    "too short": b"PAR1PAR1",
    "nothing": b"",
    "a field twice": b"PAR1" + b"\x16\x02\x06\x02\x02\0" + (6).to_bytes(4, "little") + b"PAR1",
}
SAYS_MORE: dict[str, bytes] = {
    "metadata of a column": parquet(bytes(30), [[chunk(4, 30, {8: [{1: b"note", 2: b"Ann has HIV"}]})]]),
    "another file": parquet(bytes(30), [[{1: b"Ann", **chunk(4, 30)}]]),
    "a field of the file": parquet(bytes(30), [[chunk(4, 30)]], file={99: b"Ann has HIV"}),
    "a field of a column": parquet(bytes(30), [[chunk(4, 30, {99: {1: b"Ann has HIV"}})]]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    assert checked(RIGHT[name]) == []


@pytest.mark.parametrize("name", UNACCOUNTED)
def test_bytes_of_nobody(name: str) -> None:
    assert checked(UNACCOUNTED[name]) == ["st.parquet has bytes that belong to no column"]


@pytest.mark.parametrize("name", NOT_READ)
def test_what_cannot_be_read(name: str) -> None:
    assert checked(NOT_READ[name]) == ["st.parquet has a footer or indexes that cannot be read"]


@pytest.mark.parametrize("name", SAYS_MORE)
def test_fields_that_no_release_has(name: str) -> None:
    assert checked(SAYS_MORE[name]) == ["the footer of st.parquet says more than that of a release"]


@pytest.mark.parametrize("rows", [(4, 5, 4), (4, 4, 5), (4, 4, 0), (4, 4, -1)])
def test_row_groups_of_different_sizes(rows: tuple[int, ...]) -> None:
    content = parquet(bytes(30), [[chunk(4 + 10 * place, 10)] for place in range(3)], rows)
    assert checked(content) == ["the row groups of st.parquet are not all of one size"]


def test_entries_of_metadata_are_all_counted() -> None:
    twice = [{1: b"ARROW:schema", 2: b"x"}] * 2
    content = parquet(bytes(30), [[chunk(4, 30)]], file={5: twice})
    assert read_footer(io.BytesIO(content)).entries == 2


def test_an_entry_that_is_there_twice_is_found(tmp_path: Path) -> None:
    """Arrow shows one of them."""
    folder = hospital().write(tmp_path / "release", format=3)
    path = folder / "st.parquet"
    table = pq.read_table(path).replace_schema_metadata(None)
    stored = base64.b64encode(table.schema.serialize()).decode()
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": stored, "ARROW:schemb": stored[:-4] + "Ann="})
    path.write_bytes(path.read_bytes().replace(b"ARROW:schemb", b"ARROW:schema"))
    assert len(pq.read_metadata(path).metadata) == 1
    restate_hashes(folder)
    verdict = verify(folder)
    assert failed(verdict) == {"schema"}
    assert any("1 entries of metadata" in finding.message for finding in verdict["schema"].findings)


@given(st.binary(max_size=200))
def test_any_bytes_are_skipped_or_refused(data: bytes) -> None:
    reader = Compact(data)
    with suppress(ValueError):
        reader.skip(STRUCT)
    assert 0 <= reader.position <= len(data)


@given(st.binary(max_size=200), st.sampled_from(sorted(RIGHT)))
def test_any_footer_gives_a_finding_and_no_error(data: bytes, name: str) -> None:
    content = RIGHT[name][:40] + data + len(data).to_bytes(4, "little") + b"PAR1"
    assert isinstance(checked(content), list)


@given(st.sampled_from(sorted(RIGHT)), st.integers(0, 200), st.integers(0, 255))
def test_one_changed_byte_never_breaks_the_judge(name: str, place: int, byte: int) -> None:
    content = bytearray(RIGHT[name])
    content[place % len(content)] = byte
    assert isinstance(checked(bytes(content)), list)


def test_what_a_footer_says_of_itself_takes_no_memory() -> None:
    most = varint(2**62)
    claims = [b"\x49\xfc" + most, b"\x18" + most, b"\x1b" + most, b"\x19\xf6" + most, b"\x1c" * 100_000]
    tracemalloc.start()
    try:
        for claim in claims:
            footer = claim + bytes(8)
            content = b"PAR1" + bytes(30) + footer + len(footer).to_bytes(4, "little") + b"PAR1"
            assert checked(content) == ["st.parquet has a footer or indexes that cannot be read"]
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()


def test_files_of_arrow_are_covered_from_a_store_as_well(tmp_path: Path) -> None:
    folder = hospital().write(tmp_path / "release", format=3)
    table = pa.table({"bucket": pa.array(range(1000)), "Disease": [f"d{n % 7}" for n in range(1000)]})
    pq.write_table(table, folder / "st.parquet", row_group_size=100, write_page_index=True)
    for store in (None, ElsewhereStore(folder)):
        report = Report()
        check_coverage(ReleaseFolder(folder, open_release(folder).manifest, store), "st.parquet", report)
        assert report.findings == []
