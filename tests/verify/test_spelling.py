"""Edits of every kind, with lengths, places and hashes that fit: every one is refused.

A release is a function of its rows and its limits. So whoever changes a byte has changed what it says, and the table
that it was made of shows it, or has spelled it in another way, and then it is no release.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import itertools
import json
import math
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from dalenius.errors import NoSuchColumnError, ReleaseError
from dalenius.model.verdict import Verdict
from dalenius.release.folder import ReleaseFolder, TableName
from dalenius.release.manifest import parse_manifest
from dalenius.verify.judge import verify
from dalenius.verify.strict_parquet import StrictFile
from tests.effort import PROFILE
from tests.handmade import CATEGORY, Handmade, edit_manifest, order, three_strata
from tests.naive_parquet import (
    LARGE,
    LIST,
    LONG,
    SMALL,
    STRUCT,
    TEXT,
    TRUE,
    Edit,
    Page,
    Raw,
    encoded,
    index_width,
    packed,
    parquet,
    run,
    varint,
)
from tests.parts import into_parts

ROUNDS = {"dalenius": 1, "thorough": 60}[PROFILE]  # of every edit that goes by chance
NOTE = b"Ann has HIV"


class MemoryStore:
    """The files of a release in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])

    def names(self) -> list[str]:
        return sorted(self.files)

    def local(self, name: str) -> Path | None:
        return None


Files = dict[str, bytes]


def judged(files: Files, against: pa.Table | None = None) -> Verdict | None:
    """The verdict, the manifest's hashes being those of the files; None if the manifest itself is refused."""
    try:
        manifest = parse_manifest(files["manifest.json"].decode("utf-8"))
    except (ReleaseError, UnicodeDecodeError):
        return None
    store = MemoryStore(files)
    return verify(ReleaseFolder(Path("nowhere"), manifest, store), against=against)


def restated(files: Files) -> Files:
    """With lengths and hashes that fit."""
    manifest = json.loads(files["manifest.json"])
    for entry in manifest["tables"].values():
        content = files[entry["file"]]
        entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    return {**files, "manifest.json": (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()}


def read(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def is_refused(files: Files, source: pa.Table) -> bool:
    """By the files alone, or by the table: most edits are refused by the files, which takes less."""
    verdict = judged(files)
    if verdict is None or not verdict.verified:
        return True
    try:
        verdict = judged(files, source)
    except NoSuchColumnError:  # it says that it is made of a column that the table has not
        return True
    return verdict is None or not verdict.verified


def people() -> Handmade:
    """Columns of every physical type, with and without nulls, in 12 rows and 4 buckets."""
    day = datetime.date(2020, 1, 1)
    rows = [
        (
            "MF"[place % 2],
            f"{54321 + place % 3}",
            40 + place % 5,
            [0.0, -0.0, 1.5, math.nan][place % 4],
            None if place == 5 else Decimal(place - 4).scaleb(-2),
            day + datetime.timedelta(days=place // 2),
            place % 3 == 0,
            None if place % 7 == 3 else f"note {place}",
        )
        for place in range(12)
    ]
    types = {
        "Gender": CATEGORY,
        "Zipcode": pa.string(),
        "Age": pa.uint8(),
        "Dose": pa.float64(),
        "Price": pa.decimal128(10, 2),
        "Day": pa.date32(),
        "Flag": pa.bool_(),
        "Note": pa.string(),
    }
    values = ["Flu", "Cold", "Flu", "Gout", "HIV", "Flu", "Flu", "Cold", "HIV", "Cold", "Gout", "Flu"]
    limits = {"HIV": "1/4", "Flu": "1/2", "Cold": "1/2", "Gout": "3/4"}
    return Handmade(types, rows, values, [1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4], limits=limits)


def as_text(made: Handmade) -> Handmade:
    """Categories as text, for text files."""
    return replace(made, types={name: pa.string() if kind == CATEGORY else kind for name, kind in made.types.items()})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return read(people().write(tmp_path_factory.mktemp("release")))


@pytest.fixture(scope="module")
def text_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return read(as_text(people()).write(tmp_path_factory.mktemp("release"), "csv"))


@pytest.fixture(scope="module")
def source() -> pa.Table:
    return people().source()


def test_the_releases_as_they_are_pass(files: Files, text_files: Files, source: pa.Table) -> None:
    for each in (files, text_files):
        assert restated(each) == each
        verdict = judged(each, source)
        assert verdict is not None
        assert verdict.findings == ()


def tables(edit: Callable[[], Edit]) -> Iterator[tuple[str, bytes]]:
    """Both tables, each with an edit."""
    for name, kinds, rows in written_rows(people()):
        yield f"{name}.parquet", parquet(kinds, rows, group=8, edit=edit())


def written_rows(made: Handmade) -> list[tuple[str, dict[str, pa.DataType], list[tuple[Any, ...]]]]:
    qit = sorted(zip(made.rows, made.buckets, strict=True), key=lambda r: (r[1], [order(cell) for cell in r[0]]))
    st = sorted(made.shown(), key=lambda r: (r[0], order(r[1])))
    return [
        ("qit", {**made.types, "bucket": pa.int64()}, [(*row, bucket) for row, bucket in qit]),
        ("st", {"bucket": pa.int64(), made.name: made.sensitive}, st),
    ]


def assert_all_refused(files: Files, edit: Callable[[], Edit], source: pa.Table) -> None:
    """The edit is made in each table alone."""
    for name, content in tables(Edit):
        assert content == files[name]
    changed = 0
    for name, content in tables(edit):
        if content == files[name]:
            continue
        changed += 1
        assert is_refused(restated({**files, name: content}), source)
    assert changed


# Thrift.


class Once:
    """Does something to one structure of a kind, the n-th of them."""

    def __init__(self, what: str, place: int, change: Callable[[dict[int, Any]], dict[int, Any]]) -> None:
        self._what, self._left, self._change = what, place, change

    def __call__(self, what: str, fields: dict[int, Any]) -> dict[int, Any]:
        if what != self._what:
            return fields
        self._left -= 1
        return self._change(dict(fields)) if self._left == -1 else fields


def with_fields(what: str, place: int, more: dict[int, Any]) -> Callable[[], Edit]:
    return lambda: Edit(Once(what, place, lambda fields: {**fields, **more}))


STRUCTURES = ["page", "of page", "chunk", "column", "group", "root", "element", "entry", "file"]
FIELDS: dict[str, dict[int, Any]] = {
    "an unknown text": {77: (TEXT, NOTE)},
    "an unknown number": {40: (LARGE, 12345)},
    "an unknown structure": {99: (STRUCT, {1: (TEXT, NOTE)})},
    "an unknown truth value": {30: (TRUE, None)},
    "an unknown list": {50: (LIST, (TEXT, [NOTE] * 20))},
}
KNOWN: dict[str, tuple[str, dict[int, Any]]] = {
    "the checksum of a page": ("page", {4: (SMALL, 12345)}),
    "another length when not compressed": ("page", {2: (SMALL, 7)}),
    "statistics of a page": ("of page", {5: (STRUCT, {5: (TEXT, b"z"), 6: (TEXT, b"a")})}),
    "sorted, or not": ("of page", {3: (TRUE, None)}),
    "a file path": ("chunk", {1: (TEXT, NOTE)}),
    "a file offset": ("chunk", {2: (LARGE, 4)}),
    "an offset index": ("chunk", {4: (LARGE, 4), 5: (SMALL, 10)}),
    "a column index": ("chunk", {6: (LARGE, 4), 7: (SMALL, 10)}),
    "encryption": ("chunk", {8: (STRUCT, {1: (STRUCT, {})})}),
    "encodings that are not there": ("column", {2: (LIST, (SMALL, [0, 3, 8, 9]))}),
    "encodings in another order": ("column", {2: (LIST, (SMALL, [8, 3, 0]))}),
    "another path in the schema": ("column", {3: (LIST, (TEXT, [NOTE]))}),
    "a longer path in the schema": ("column", {3: (LIST, (TEXT, [NOTE, NOTE]))}),
    "a codec": ("column", {4: (SMALL, 1)}),
    "another number of values": ("column", {5: (LARGE, 11)}),
    "another size": ("column", {6: (LARGE, 5000)}),
    "metadata of a column": ("column", {8: (LIST, (STRUCT, [{1: (TEXT, b"note"), 2: (TEXT, NOTE)}]))}),
    "an index page": ("column", {10: (LARGE, 4)}),
    "statistics": ("column", {12: (STRUCT, {3: (LARGE, 0), 5: (TEXT, b"z"), 6: (TEXT, b"a")})}),
    "statistics of encodings": ("column", {13: (LIST, (STRUCT, [{1: (SMALL, 0), 2: (SMALL, 8), 3: (SMALL, 1)}]))}),
    "a filter": ("column", {14: (LARGE, 4), 15: (SMALL, 10)}),
    "sizes": ("column", {16: (STRUCT, {1: (LARGE, 5)})}),
    "another size of a group": ("group", {2: (LARGE, 1)}),
    "another number of rows": ("group", {3: (LARGE, 9)}),
    "sorting columns": ("group", {4: (LIST, (STRUCT, [{1: (SMALL, 0), 2: (TRUE, None), 3: (TRUE, None)}]))}),
    "the offset of a group": ("group", {5: (LARGE, 4)}),
    "the compressed size of a group": ("group", {6: (LARGE, 1)}),
    "the ordinal of a group": ("group", {7: (4, Raw(b"\n"))}),
    "the name of the root": ("root", {4: (TEXT, NOTE)}),
    "the root is repeated": ("root", {3: (SMALL, 2)}),
    "the identity of a column": ("element", {9: (SMALL, 12345)}),
    "a length that none has": ("element", {2: (SMALL, 12345)}),
    "a scale that none has": ("element", {7: (SMALL, 12345)}),
    "the name of a column": ("element", {4: (TEXT, NOTE)}),
    "another key": ("entry", {1: (TEXT, NOTE)}),
    "no value": ("entry", {2: (TEXT, b"")}),
    "the version": ("file", {1: (SMALL, 1)}),
    "all rows": ("file", {3: (LARGE, 13)}),
    "who made it": ("file", {6: (TEXT, b"parquet-cpp-arrow version 21.0.0")}),
    "a megabyte of who made it": ("file", {6: (TEXT, NOTE * 100_000)}),
    "orders of columns": ("file", {7: (LIST, (STRUCT, [{1: (STRUCT, {})}]))}),
    "a signature": ("file", {9: (TEXT, NOTE)}),
}


@pytest.mark.parametrize("what", STRUCTURES)
@pytest.mark.parametrize("name", FIELDS)
def test_fields_that_nobody_knows(files: Files, source: pa.Table, what: str, name: str) -> None:
    there = {"root": 1, "entry": 1, "file": 1, "group": 2}.get(what, 4)  # of its kind, or more
    for place in range(min(ROUNDS, there)):
        assert_all_refused(files, with_fields(what, place, FIELDS[name]), source)


@pytest.mark.parametrize("name", KNOWN)
def test_fields_that_parquet_knows(files: Files, source: pa.Table, name: str) -> None:
    what, more = KNOWN[name]
    places = 1 if what in ("root", "entry", "file") else ROUNDS
    for place in range(min(places, 10)):
        assert_all_refused(files, with_fields(what, place % 2, more), source)


@pytest.mark.parametrize("what", STRUCTURES)
def test_numbers_and_headers_of_fields_in_another_form(files: Files, source: pa.Table, what: str) -> None:
    def longer(fields: dict[int, Any]) -> dict[int, Any]:
        """A varint of more bytes than it needs."""
        number = next(number for number, (kind, _) in sorted(fields.items()) if kind in (SMALL, LARGE))
        kind, value = fields[number]
        short = varint(2 * value)
        return {**fields, number: (kind, Raw(short[:-1] + bytes([short[-1] | 128, 0])))}

    def with_long_header(fields: dict[int, Any]) -> dict[int, Any]:
        number = max(fields)
        kind, value = fields[number]
        return {**fields, number: (kind + LONG, value)}

    assert_all_refused(files, lambda: Edit(Once(what, 0, with_long_header)), source)
    if what != "entry":
        assert_all_refused(files, lambda: Edit(Once(what, 0, longer)), source)


def test_a_longer_text_and_a_longer_list(files: Files, source: pa.Table) -> None:
    def longer_text(fields: dict[int, Any]) -> dict[int, Any]:
        content = fields[6][1]
        return {**fields, 6: (TEXT, Raw(bytes([len(content) | 128, 0]) + content))}

    def longer_list(fields: dict[int, Any]) -> dict[int, Any]:
        kinds = fields[2][1][1]
        return {
            **fields,
            2: (LIST, Raw(bytes([0xF0 | SMALL, len(kinds)]) + b"".join(varint(2 * one) for one in kinds))),
        }

    assert_all_refused(files, lambda: Edit(Once("file", 0, longer_text)), source)
    assert_all_refused(files, lambda: Edit(Once("column", 0, longer_list)), source)


# Pages.

PageEdit = Callable[[str, pa.DataType, Sequence[Any], bool, list[Page]], list[Page]]


def data(pages: list[Page], body: bytes) -> list[Page]:
    """The pages with another data page."""
    kind, number, _ = pages[-1]
    return [*pages[:-1], (kind, number, body)]


def before(cells: Sequence[Any], optional: bool) -> bytes:
    levels = run([int(cell is not None) for cell in cells], 1)
    return len(levels).to_bytes(4, "little") + levels if optional else b""


def places(kind: pa.DataType, cells: Sequence[Any], entries: list[tuple[Any, bytes]]) -> list[int]:
    return [entries.index(encoded(kind, cell)) for cell in cells if cell is not None]


def entries_of(kind: pa.DataType, cells: Sequence[Any]) -> list[tuple[Any, bytes]]:
    return sorted({encoded(kind, cell) for cell in cells if cell is not None})


def with_entries(change: Callable[[list[tuple[Any, bytes]]], list[tuple[Any, bytes]]], last: bool = False) -> PageEdit:
    """Another dictionary, and the places in it; of equal entries the last, if `last`."""

    def edited(_: str, kind: pa.DataType, cells: Sequence[Any], optional: bool, pages: list[Page]) -> list[Page]:
        if len(pages) == 1:
            return pages
        entries = change(entries_of(kind, cells))
        bits = index_width(len(entries))
        where = places(kind, cells, entries)
        if last:
            for at in range(len(where) - 1, -1, -1):
                again = [place for place, entry in enumerate(entries) if entry == entries[where[at]]]
                if len(again) > 1:
                    where[at] = again[-1]
                    break
        body = before(cells, optional) + bytes([bits]) + run(where, bits)
        return [(2, len(entries), b"".join(raw for _, raw in entries)), (0, len(cells), body)]

    return edited


def spelled(write: Callable[[list[int], int], bytes]) -> PageEdit:
    """Other bytes for the same places."""

    def edited(_: str, kind: pa.DataType, cells: Sequence[Any], optional: bool, pages: list[Page]) -> list[Page]:
        if len(pages) == 1:
            return pages
        entries = entries_of(kind, cells)
        return data(pages, before(cells, optional) + write(places(kind, cells, entries), index_width(len(entries))))

    return edited


def two_runs(numbers: list[int], bits: int) -> bytes:
    """A run of eight, and the rest."""
    return bytes([bits]) + run(numbers[:8], bits) + (run(numbers[8:], bits) if numbers[8:] else bytes([1]))


def repeated(numbers: list[int], bits: int) -> bytes:
    """Runs of equal numbers, as other writers have them."""
    written = bytes([bits])
    for number, group in itertools.groupby(numbers):
        written += varint(2 * len(list(group))) + number.to_bytes((bits + 7) // 8, "little")
    return written


def padded(numbers: list[int], bits: int) -> bytes:
    """Something behind the last number."""
    filled = [*numbers, *([1] * (-len(numbers) % 8))]
    return bytes([bits]) + run(filled, bits)


def nulls_otherwise(change: Callable[[list[int]], bytes]) -> PageEdit:
    def edited(_: str, kind: pa.DataType, cells: Sequence[Any], optional: bool, pages: list[Page]) -> list[Page]:
        if not optional:
            return pages
        rest = pages[-1][2][len(before(cells, True)) :]
        levels = change([int(cell is not None) for cell in cells])
        return data(pages, len(levels).to_bytes(4, "little") + levels + rest)

    return edited


def of_column(name: str, change: PageEdit) -> PageEdit:
    return lambda *args: change(*args) if args[0] == name else args[-1]


def a_page_a_row(_: str, kind: pa.DataType, cells: Sequence[Any], optional: bool, pages: list[Page]) -> list[Page]:
    if len(pages) == 1:
        return pages
    entries = entries_of(kind, cells)
    bits = index_width(len(entries))
    each = []
    for cell in cells:
        here = places(kind, [cell], entries)
        each.append((0, 1, before([cell], optional) + bytes([bits]) + run(here, bits)))
    return [pages[0], *each]


def whole_table(*_: Any) -> bytes:
    return zlib.compress(repr(people()).encode())


def out_of_range(*args: Any) -> list[Page]:
    """Ages in 8 bits, stored in 32, of which more than 8 are used."""
    (_, number, body), page = args[-1]
    return [(2, number, body[:-4] + struct.pack("<I", struct.unpack("<I", body[-4:])[0] + 256)), page]


def another_nan(*args: Any) -> list[Page]:
    (kind, number, body), page = args[-1]
    assert body.endswith(struct.pack("<Q", 0x7FF8 << 48))
    return [(kind, number, body[:-8] + struct.pack("<Q", (0x7FF8 << 48) + 12345)), page]


def steps_otherwise(change: Callable[[bytes], bytes]) -> PageEdit:
    return of_column("bucket", lambda *args: data(args[-1], change(args[-1][-1][2])))


PAGES: dict[str, PageEdit] = {
    "an unused value": with_entries(lambda entries: [*entries, (None, NOTE[:4].rjust(len(entries[0][1]), b"\xff"))]),
    "a value twice": with_entries(lambda entries: [*entries, entries[-1]]),
    "a value twice, both used": with_entries(lambda entries: [*entries, entries[-1]], last=True),
    "values in another order": with_entries(lambda entries: entries[::-1]),
    "two values exchanged": with_entries(lambda entries: [*entries[1:2], *entries[:1], *entries[2:]]),
    "wider places": spelled(lambda numbers, bits: bytes([bits + 1]) + run(numbers, bits + 1)),
    "much wider places": spelled(lambda numbers, _: bytes([32]) + run(numbers, 32)),
    "two runs": spelled(two_runs),
    "runs of equal numbers": spelled(repeated),
    "padding": spelled(padded),
    "one run more than there are rows": spelled(
        lambda n, bits: bytes([bits]) + run(n, bits) + bytes([3]) + bytes(bits)
    ),
    "a run of nothing at the end": spelled(lambda n, bits: bytes([bits]) + run(n, bits) + b"\1"),
    "eight rows too many": spelled(lambda n, bits: bytes([bits]) + run([*n, *[0] * (8 + -len(n) % 8)], bits)),
    "the length of a run in a longer form": spelled(
        lambda n, bits: bytes([bits, run(n, bits)[0] | 128, 0]) + run(n, bits)[1:]
    ),
    "bytes behind the places": spelled(lambda n, bits: bytes([bits]) + run(n, bits) + NOTE),
    "bytes behind a dictionary": lambda *args: [
        (kind, number, body + NOTE * (kind == 2)) for kind, number, body in args[-1]
    ],
    "bytes behind truth values": of_column("Flag", lambda *args: data(args[-1], args[-1][-1][2] + b"\0")),
    "padding behind truth values": of_column(
        "Flag",
        lambda *args: (
            data(args[-1], args[-1][-1][2][:-1] + bytes([args[-1][-1][2][-1] | 128])) if len(args[2]) % 8 else args[-1]
        ),
    ),
    "nulls in a run of equal ones": nulls_otherwise(
        lambda bits: b"".join(varint(2 * len(list(group))) + bytes([bit]) for bit, group in itertools.groupby(bits))
    ),
    "padding behind nulls": nulls_otherwise(lambda bits: run([*bits, *[1] * (-len(bits) % 8)], 1)),
    "bytes behind nulls": nulls_otherwise(lambda bits: run(bits, 1) + NOTE),
    "a page a row": a_page_a_row,
    "an empty page": lambda *args: [*args[-1], (0, 0, b"")],
    "a dictionary behind the values": lambda *args: args[-1][::-1],
    "the whole table in a page of an index": lambda *args: [*args[-1], (1, 0, whole_table())],
    "a page of an index first": lambda *args: [(1, 0, whole_table()), *args[-1]],
    "a narrow number out of its range": of_column("Age", out_of_range),
    "another NaN": of_column("Dose", another_nan),
    "steps with a number in a longer form": steps_otherwise(lambda body: bytes([body[0], body[1] | 128, 0]) + body[2:]),
    "steps of two bits": steps_otherwise(
        lambda body: body[:6] + bytes([2]) + packed([body[7 + at // 8] >> at % 8 & 1 for at in range(128)], 2)
    ),
    "a step behind the last row": steps_otherwise(lambda body: body[:-1] + bytes([body[-1] | 128])),
    "bytes behind the steps": steps_otherwise(lambda body: body + bytes(16)),
    "steps in two parts": steps_otherwise(lambda body: body[:2] + bytes([2]) + body[3:6] + b"\1\1" + body[7:]),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_in_another_spelling(files: Files, source: pa.Table, name: str) -> None:
    assert_all_refused(files, lambda: Edit(pages=PAGES[name]), source)
    columns = [*people().types, "Disease", "bucket"]
    for column in columns[:: 1 if PROFILE == "thorough" else 4]:
        for file, content in tables(partial(Edit, pages=of_column(column, PAGES[name]))):
            assert content == files[file] or is_refused(restated({**files, file: content}), source)


HEADERS: dict[str, tuple[str, Callable[[dict[int, Any]], dict[int, Any]]]] = {
    "a data page of the second version": (
        "page",
        lambda f: (
            {
                **{n: v for n, v in f.items() if n != 5},
                1: (SMALL, 3),
                8: (
                    STRUCT,
                    {
                        1: (SMALL, 8),
                        2: (SMALL, 0),
                        3: (SMALL, 8),
                        4: (SMALL, 8),
                        5: (SMALL, 0),
                        6: (SMALL, 0),
                        7: (2, None),
                    },
                ),
            }
            if 5 in f
            else f
        ),
    ),
    "an old encoding of the dictionary": ("of page", lambda f: {**f, 2: (SMALL, 2)}),
    "another encoding of nulls": ("of page", lambda f: {**f, 3: (SMALL, 4)} if len(f) > 2 else f),
    "no kind": ("page", lambda f: {n: v for n, v in f.items() if n != 1}),
    "another kind": ("page", lambda f: {**f, 1: (SMALL, 1)}),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_pages(files: Files, source: pa.Table, name: str) -> None:
    what, change = HEADERS[name]
    assert_all_refused(files, lambda: Edit(lambda w, fields: change(dict(fields)) if w == what else fields), source)


@pytest.mark.parametrize("group", [1, 2, 3, 4, 7, 11, 12, 13, 16])
def test_groups_of_other_lengths(files: Files, source: pa.Table, group: int) -> None:
    """Groups of a power of two are those of a release: how long they are follows from how long rows are."""
    for name, kinds, rows in written_rows(people()):
        verdict = judged(restated({**files, f"{name}.parquet": parquet(kinds, rows, group=group)}), source)
        assert verdict is not None
        assert verdict.verified == (group & (group - 1) == 0 or group >= len(rows))


@pytest.mark.parametrize("name", ["qit.parquet", "st.parquet"])
def test_bytes_between_and_behind(files: Files, source: pa.Table, name: str) -> None:
    content = files[name]
    footer = int.from_bytes(content[-8:-4], "little") + 8
    for place in (0, 4, len(content) - footer, len(content) - 8, len(content) - 4, len(content)):
        for more in (b"\0", NOTE):
            assert is_refused(restated({**files, name: content[:place] + more + content[place:]}), source)
    for cut in (1, 4, 8, footer):
        assert is_refused(restated({**files, name: content[:-cut]}), source)


def test_dictionaries_that_claim_much_cost_nothing(files: Files, source: pa.Table) -> None:
    """As many entries as a number holds: neither a loop over them nor room for them."""

    def claiming(entries: int) -> PageEdit:
        return lambda *args: [(kind, entries if kind == 2 else number, body) for kind, number, body in args[-1]]

    for claimed in (2**20, 2**31 - 1, 2**33, 2**62):
        assert_all_refused(files, partial(Edit, pages=claiming(claimed)), source)
        for column, file in (("Zipcode", "qit.parquet"), ("Disease", "st.parquet")):
            content = dict(tables(partial(Edit, pages=of_column(column, claiming(claimed)))))[file]
            assert is_refused(restated({**files, file: content}), source)


# Values.


def test_values_that_fit_their_spelling(files: Files, source: pa.Table) -> None:
    """Any other cell is for the table to notice, or for the order, or for the limits."""
    chance = random.Random(11)  # noqa: S311
    for _ in range(8 * ROUNDS):
        for name, kinds, rows in written_rows(people()):
            place, column = chance.randrange(len(rows)), chance.randrange(len(kinds))
            cells = [row[column] for row in rows if repr(row[column]) != repr(rows[place][column])]
            cells = [cell for cell in cells if cell is not None]
            if list(kinds)[column] == "bucket" or not cells:
                continue
            changed = [list(row) for row in rows]
            changed[place][column] = chance.choice(cells)
            nulls = ["Price", "Note"]
            content = parquet(kinds, changed, group=8, nulls=[one for one in nulls if one in kinds])
            assert content != files[f"{name}.parquet"]
            assert is_refused(restated({**files, f"{name}.parquet": content}), source)


# Text.

CSV: dict[str, Callable[[str, random.Random], str]] = {
    "a text without quotes": lambda text, _: text.replace('"Flu"', "Flu", 1).replace('"M"', "M", 1),
    "a name without quotes": lambda text, _: text.replace('"bucket"', "bucket", 1),
    "a number in quotes": lambda text, _: re.sub(r"(?<=,)(\d+)\n", r'"\1"\n', text, count=1).replace(
        '\n1,"', '\n"1","', 1
    ),
    "a number with zeros": lambda text, _: re.sub(r"(?<=,)(\d+)\n", r"00\1\n", text, count=1).replace(
        '\n1,"', '\n001,"', 1
    ),
    "a number with a sign": lambda text, _: re.sub(r"(?<=,)(\d+)\n", r"+\1\n", text, count=1).replace(
        '\n1,"', '\n+1,"', 1
    ),
    "a hexadecimal number": lambda text, _: re.sub(r"(?<=,)(\d)\n", r"0x\1\n", text, count=1).replace(
        '\n1,"', '\n0x1,"', 1
    ),
    "a fraction of nothing": lambda text, _: re.sub(r"(?<=,)(\d)\n", r"\1.0\n", text, count=1).replace(
        '\n1,"', '\n1.0,"', 1
    ),
    "a blank before": lambda text, _: text.replace(",", ", ", 1),
    "a blank behind": lambda text, _: text.replace("\n", " \n", 2),
    "a tab behind": lambda text, _: text.replace("\n", "\t\n", 2),
    "carriage returns": lambda text, _: text.replace("\n", "\r\n"),
    "a single carriage return": lambda text, chance: at_a_line(text, chance, "\r\n"),
    "old ends of lines": lambda text, _: text.replace("\n", "\r"),
    "a blank line": lambda text, chance: at_a_line(text, chance, "\n\n"),
    "a blank line first": lambda text, _: "\n" + text,
    "a blank line last": lambda text, _: text + "\n",
    "no end of the last line": lambda text, _: text[:-1],
    "a mark of the order of bytes": lambda text, _: "\ufeff" + text,
    "a field more": lambda text, chance: at_a_line(text, chance, ",\n"),
    "a row more": lambda text, _: text + text.splitlines()[-1] + "\n",
    "a row twice": lambda text, _: text.replace(text.splitlines()[3], text.splitlines()[2], 1),
    "a zero behind": lambda text, _: text + "\0",
    "a quote more": lambda text, _: text.replace('"\n', '""\n', 1).replace('"M"', '"M""', 1),
    "other names of columns": lambda text, _: text.replace('"bucket"', '"Bucket"', 1),
    "no names of columns": lambda text, _: text.partition("\n")[2],
    "the names twice": lambda text, _: text.partition("\n")[0] + "\n" + text,
    "semicolons": lambda text, _: text.replace(",", ";"),
    "a comment": lambda text, _: text + "# Ann has HIV\n",
    "a null in quotes": lambda text, _: text.replace(",,", ',"",', 1) if ",," in text else text + '"",""\n',
    "a null by name": lambda text, _: text.replace(",,", ",NULL,", 1) if ",," in text else text + "NULL,NULL\n",
}
SPELLINGS: dict[str, list[tuple[str, str]]] = {
    "nan": [(",nan,", ",NaN,"), (",nan,", ",NAN,"), (",nan,", ",-nan,"), (",nan,", ",nan(5),"), (",nan,", ",,")],
    "floating point": [
        (",1.5,", ",1.50,"),
        (",1.5,", ",15e-1,"),
        (",1.5,", ",+1.5,"),
        (",1.5,", ",1.5000000000000001,"),
    ],
    "zero": [(",-0,", ",-0.0,"), (",-0,", ",0,"), (",0,", ",0.0,"), (",0,", ",-0,"), (",0,", ",0e5,")],
    "decimals": [
        (",0.02,", ",.02,"),
        (",0.02,", ",2E-2,"),
        (",0.02,", ",0.020,"),
        (",0.02,", ",00.02,"),
        (",0.00,", ",-0.00,"),
    ],
    "days": [
        ("2020-01-01", "2020-1-1"),
        ("2020-01-01", "2020/01/01"),
        ("2020-01-01", "20200101"),
        ("2020-01-01", "+2020-01-01"),
    ],
    "truth values": [("true", "TRUE"), ("true", "True"), ("true", "1"), ("false", "0"), ("false", "FALSE")],
    "text": [
        ('"note 1"', '"note\u00a01"'),
        ('"note 1"', '"note 1 "'),
        ('"note 1"', "note 1"),
        ('"note 1"', '"note" 1'),
    ],
}


def at_a_line(text: str, chance: random.Random, end: str) -> str:
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    lines[place] = lines[place].removesuffix("\n") + end
    return "".join(lines)


@pytest.mark.parametrize("name", CSV)
@pytest.mark.parametrize("file", ["qit.csv", "st.csv"])
def test_text_in_another_spelling(text_files: Files, source: pa.Table, name: str, file: str) -> None:
    before = text_files[file].decode()
    for seed in range(ROUNDS):
        text = CSV[name](before, random.Random(seed))  # noqa: S311
        assert text != before
        assert is_refused(restated({**text_files, file: text.encode()}), source)


@pytest.mark.parametrize("name", SPELLINGS)
def test_cells_in_another_spelling(text_files: Files, source: pa.Table, name: str) -> None:
    before = text_files["qit.csv"].decode()
    for old, new in SPELLINGS[name]:
        assert old in before, old
        text = before.replace(old, new, 1)
        assert is_refused(restated({**text_files, "qit.csv": text.encode()}), source), new


def test_characters_put_anywhere_into_a_text_file(text_files: Files, source: pa.Table) -> None:
    chance = random.Random(5)  # noqa: S311
    for file in ("qit.csv", "st.csv"):
        before = text_files[file]
        for _ in range(25 * ROUNDS):
            place = chance.randrange(len(before) + 1)
            more = chance.choice([b" ", b"0", b'"', b"\n", b"\r", b",", b"\0", b"\t", b"\xff", b"x"])
            assert is_refused(restated({**text_files, file: before[:place] + more + before[place:]}), source)
            if place < len(before):
                assert is_refused(restated({**text_files, file: before[:place] + before[place + 1 :]}), source)


# The manifest.


def test_the_manifest_in_another_spelling(files: Files, source: pa.Table) -> None:
    before = files["manifest.json"].decode()
    document = json.loads(before)
    others = {
        "no blanks": json.dumps(document, ensure_ascii=False),
        "wider": json.dumps(document, ensure_ascii=False, indent=4) + "\n",
        "tabs": json.dumps(document, ensure_ascii=False, indent="\t") + "\n",
        "sorted": json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True) + "\n",
        "no end of the last line": before[:-1],
        "one end more": before + "\n",
        "megabytes of blanks": before + " " * 2**20,
        "carriage returns": before.replace("\n", "\r\n"),
        "one carriage return": before.replace("\n", "\r\n", 1),
        "old ends of lines": before.replace("\n", "\r"),
        "a mark of the order of bytes": "\ufeff" + before,
        "escapes": before.replace("Flu", "\\u0046lu", 1),
        "an escaped slash": before.replace("1/4", "1\\/4", 1),
        "a float for a number": before.replace('"rows": 12', '"rows": 12.0', 1),
        "an exponent for a number": before.replace('"rows": 12', '"rows": 12e0', 1),
        "another float": before.replace('"mse": ', '"mse": 0', 1),
        "a text for a number": before.replace('"rows": 12', '"rows": "12"', 1),
        "a key twice": before.replace('"rows": 12', '"rows": 12,\n  "rows": 12', 1),
        "a key more": before.replace('"rows": 12', '"person": "Ann",\n  "rows": 12', 1),
        "something behind": before + "{}",
        "a comment": before + "// Ann has HIV\n",
        "a limit with zeros": before.replace('"1/4"', '"01/4"', 1),
        "a limit that is not reduced": before.replace('"1/4"', '"2/8"', 1),
        "a limit of 1 as a ratio": before.replace('"3/4"', '"1/1"', 1),
        "digits of another script": before.replace('"1/4"', '"1/٤"', 1),
        "true for a number": before.replace('"fake_values": 0', '"fake_values": false', 1),
        "a number below zero": before.replace('"fake_values": 0', '"fake_values": -0', 1),
    }
    for name, text in others.items():
        assert text != before, name
        assert is_refused({**files, "manifest.json": text.encode()}, source), name
    for place in range(0, len(before), 17 if PROFILE == "dalenius" else 1):
        text = before[:place] + " " + before[place:]
        assert is_refused({**files, "manifest.json": text.encode()}, source)


def strings(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every text of a document, with the keys that lead to it."""
    if isinstance(node, str):
        yield path, node
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from strings(value, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def canonical(document: Any) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def test_free_text_in_any_text_of_a_manifest(tmp_path: Path) -> None:
    made = three_strata()
    files, source = read(made.write(tmp_path)), made.source()
    document = json.loads(files["manifest.json"])
    assert judged(files, source)
    for path, old in strings(document):
        for new in ("Ann has HIV", old + " ", " " + old, old + "0", "0" + old, old + "\u200b", old.upper() + "x", ""):
            changed = json.loads(files["manifest.json"])
            put(changed, path, new)
            assert is_refused({**files, "manifest.json": canonical(changed)}, source), (path, new)


def numbers(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if type(node) in (int, float):
        yield path, node
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from numbers(value, (*path, key))


def test_any_number_of_a_manifest(tmp_path: Path) -> None:
    made = replace(three_strata(), known_records=0)
    files, source = read(made.write(tmp_path)), made.source()
    for path, old in numbers(json.loads(files["manifest.json"])):
        near = math.nextafter(old, math.inf) if isinstance(old, float) else old + 1
        for new in (near, old - 1, -old, 10**30, 2**63):
            changed = json.loads(files["manifest.json"])
            put(changed, path, new)
            if canonical(changed) != files["manifest.json"]:
                assert is_refused({**files, "manifest.json": canonical(changed)}, source), (path, new)


def changed(files: Files, path: tuple[Any, ...], value: Any) -> Files:
    document = json.loads(files["manifest.json"])
    put(document, path, value)
    return {**files, "manifest.json": canonical(document)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("string", "utf8"),
        ("double", "float64"),
        ("bool", "boolean"),
        ("date32[day]", "date32"),
        ("decimal128(10, 2)", "decimal128(010, 2)"),
        ("decimal128(10, 2)", "decimal128(１０, 2)"),
    ],
)
def test_another_name_of_the_same_type(files: Files, old: str, new: str) -> None:
    for place, column in enumerate(json.loads(files["manifest.json"])["columns"]["quasi_identifiers"]):
        if column["type"] == old:
            verdict = judged(changed(files, ("columns", "quasi_identifiers", place, "type"), new))
            assert verdict is not None
            assert not verdict.verified


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00"])
def test_a_time_zone_is_one_that_there_is(tmp_path: Path, zone: str) -> None:
    when = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    for place, (named, right) in enumerate(((zone, True), ("Ann has HIV", False), ("Ann/HIV", False))):
        made = Handmade({"t": pa.timestamp("us", named)}, [(when,)] * 2, ["Flu", "HIV"], [1, 1])
        assert verify(made.write(tmp_path / str(place))).verified == right


def test_the_bucket_column_has_the_name_that_it_must_have(files: Files) -> None:
    renamed = changed(files, ("columns", "bucket"), NOTE.decode())
    for name, kinds, rows in written_rows(people()):
        types = {NOTE.decode() if column == "bucket" else column: kind for column, kind in kinds.items()}
        renamed[f"{name}.parquet"] = parquet(types, rows, group=8, bucket=NOTE.decode())
    verdict = judged(restated(renamed))
    assert verdict is not None
    assert [finding.message for finding in verdict.findings] == [
        "the bucket column has another name than that of a release"
    ]


def test_the_name_of_nulls_is_that_of_a_value(files: Files) -> None:
    assert is_refused(changed(files, ("null_value",), NOTE.decode()), people().source())


def test_of_equal_worst_cases_the_one_of_most_rows_is_stated(files: Files) -> None:
    """Flu is 1 of 2 and 2 of 4."""
    flu = next(
        place for place, value in enumerate(json.loads(files["manifest.json"])["values"]) if value["value"] == "Flu"
    )
    verdict = judged(changed(files, ("values", flu, "worst"), {"count": 1, "size": 2}))
    assert verdict is not None
    assert not verdict["values"].passed


@pytest.mark.parametrize(
    ("kind", "cut", "right", "wrong"),
    [
        (pa.float64(), 1.5, "1.5", ["1.50", "15e-1", "+1.5", "0x1.8p0", "1.5000000000000001"]),
        (pa.decimal128(5, 2), Decimal("1.50"), "1.50", ["1.5", "01.50", "+1.50", "150e-2", "1.500"]),
        (pa.date32(), datetime.date(2020, 1, 2), "2020-01-02", ["02020-01-02", "0002020-01-02"]),
        (
            pa.timestamp("us"),
            datetime.datetime(2020, 1, 2),  # noqa: DTZ001
            "2020-01-02 00:00:00",
            ["2020-01-02 00:00:00.0", "2020-01-01 24:00:00"],
        ),
    ],
    ids=str,
)
def test_a_cut_is_spelled_in_one_way(tmp_path: Path, kind: pa.DataType, cut: Any, right: str, wrong: list[str]) -> None:
    later = cut + (datetime.timedelta(days=1) if isinstance(cut, datetime.date) else 1)
    made = Handmade(
        {"q": kind}, [(cut,)] * 2 + [(later,)] * 2, ["a", "b"] * 2, [1, 1, 2, 2], tree=[("q", cut, 1, 2), 1, 2]
    )
    files = read(made.write(tmp_path))
    assert json.loads(files["manifest.json"])["strata"]["tree"][0]["at_most"] == right
    verdict = judged(files)
    assert verdict is not None
    assert verdict.findings == ()
    for text in wrong:
        verdict = judged(changed(files, ("strata", "tree", 0, "at_most"), text))
        assert verdict is not None
        assert not verdict["manifest"].passed


def test_parts_are_numbered(tmp_path: Path) -> None:
    folder = into_parts(people().write(tmp_path / "whole"), tmp_path / "parts", 4)
    assert verify(folder).verified
    (folder / "st" / "part-00001.parquet").rename(folder / "st" / "part-00001-Ann-has-HIV.parquet")
    edit_manifest(folder, lambda m: m["tables"]["st"]["parts"][1].update(file="part-00001-Ann-has-HIV.parquet"))
    assert [finding.message for finding in verify(folder).findings] == [
        "the parts of st are not numbered from 0 in the order of their rows"
    ]


def test_a_manifest_on_the_disk_has_its_ends_of_lines_as_they_are(tmp_path: Path) -> None:
    folder = people().write(tmp_path)
    before = (folder / "manifest.json").read_bytes()
    for other in (before.replace(b"\n", b"\r\n"), before.replace(b"\n", b"\r"), before.replace(b"\n", b"\r\n", 1)):
        (folder / "manifest.json").write_bytes(other)
        assert not verify(folder).verified


# Single bytes.


def small() -> Handmade:
    """Four people, with a null, a text and a number.

    All are different, and buckets have the same values. So there is no other release of the table with these buckets in
    which a row is elsewhere, which would be as good.
    """
    return Handmade(
        types={"Zip": pa.string(), "Age": pa.uint8()},
        rows=[("5", 40), ("6", None), ("7", 41), ("8", 42)],
        values=["Flu", "HIV", "Flu", "HIV"],
        buckets=[1, 1, 2, 2],
    )


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("table", ["qit", "st"])
def test_any_other_byte_is_refused(tmp_path: Path, kind: str, table: str) -> None:
    """Every byte of a table, with each of the 255 others when thorough, else with some of them."""
    files, source = read(small().write(tmp_path, kind)), small().source()
    assert judged(files, source)
    name = f"{table}.{kind}"
    content = files[name]
    digest = hashlib.sha256(content).hexdigest().encode()
    for place, byte in enumerate(content):
        few = {byte ^ 1, byte ^ (1 << place % 8), (byte + 1 + place * 37 % 255) % 256} - {byte}
        for other in set(range(256)) - {byte} if PROFILE == "thorough" else sorted(few)[:1]:
            changed = content[:place] + bytes([other]) + content[place + 1 :]
            if PROFILE == "thorough" and kind == "parquet" and cannot_be_read(changed, files, table):
                continue
            manifest = files["manifest.json"].replace(digest, hashlib.sha256(changed).hexdigest().encode())
            assert is_refused({**files, name: changed, "manifest.json": manifest}, source), (place, other)


def cannot_be_read(content: bytes, files: Files, table: str) -> bool:
    """Whether the judge's reader refuses a file: it takes a tenth of the time of a verdict, which it decides."""
    name: TableName = "qit" if table == "qit" else "st"
    schema = ReleaseFolder(Path("nowhere"), parse_manifest(files["manifest.json"].decode())).schema(name)
    try:
        list(StrictFile(io.BytesIO(content), schema, "bucket", len(small().rows)).batches())
    except (ValueError, OverflowError, pa.ArrowException):
        return True
    return False
