"""Releases that say much more of themselves than they are: a few bytes that readers would take for gigabytes.

Run as a program, with a folder, it makes all of them there, and runs commands on each within an address space that is
little larger than what the program takes anyway. It prints what came of each, as one JSON object.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.handmade import hospital, restate_hashes
from tests.verify.test_coverage import varint

BYTES, INT64 = 6, 2
UNCOMPRESSED, SNAPPY = 0, 1
PLAIN, DELTA_TEXT, DICTIONARY = 0, 7, 8
ADDRESSES = 2 * 2**30  # beyond what libraries take
COMMANDS = {"verify": ["verify"], "audit": ["audit"], "query": ["query", "Disease = 'flu'", "--no-learn"]}


class Wide(int):
    """A number of 64 bits; others have 32."""


def struct(fields: Mapping[int, Any]) -> bytes:
    """A structure in Thrift's compact protocol; fields by their numbers, in ascending order."""
    found, last = b"", 0
    for number, cell in fields.items():
        kind, content = value(cell)
        found, last = found + bytes([(number - last) << 4 | kind]) + content, number
    return found + b"\0"


def value(cell: Any) -> tuple[int, bytes]:
    """Type and bytes of a number, of bytes, of a list of numbers or structures, or of a structure."""
    if isinstance(cell, int):
        return 6 if isinstance(cell, Wide) else 5, varint(cell << 1)
    if isinstance(cell, bytes):
        return 8, varint(len(cell)) + cell
    if isinstance(cell, list):
        kinds, items = zip(*map(value, cell), strict=True)
        return 9, bytes([len(cell) << 4 | kinds[0]]) + b"".join(items)
    return 12, struct(cell)


def page(header: Mapping[int, Any], body: bytes, size: int | None = None) -> bytes:
    """A page with its header; `size` is what it says it expands to."""
    kind = {7: 2, 5: 0, 8: 3}[max(header)]
    return struct({1: kind, 2: len(body) if size is None else size, 3: len(body), **header}) + body


def in_turns(rows: int) -> bytes:
    """References to the only entry of a dictionary, as one run."""
    return b"\x01" + varint(rows << 1) + b"\0"


def repeated(entry: bytes, rows: int, stated: int | None = None) -> bytes:
    """A column of one value, by a dictionary and a run."""
    first = page({7: {1: 1, 2: PLAIN}}, entry)
    return first + page({5: {1: rows, 2: DICTIONARY, 3: 3, 4: 3}}, in_turns(rows), stated)


def text_again(text: bytes, rows: int) -> bytes:
    """A column of one text, each going on from the start of the one before."""
    width = (len(text) + 1).bit_length()
    blocks = -(-(rows - 1) // 128)

    def deltas(first: int, least: int, packed: Sequence[int]) -> bytes:
        bits = sum(number << place * width for place, number in enumerate(packed))
        head = varint(128) + varint(4) + varint(rows) + varint(first << 1)
        start = varint(least << 1 if least >= 0 else (-least << 1) - 1) + bytes([width] * 4)
        return head + start + bits.to_bytes(16 * width, "little") + bytes(5) * (blocks - 1)

    prefixes = deltas(0, 0, [len(text), *[0] * 127])
    suffixes = deltas(len(text), -len(text), [0, *[len(text)] * 127])
    return page({8: {1: rows, 2: 0, 3: rows, 4: DELTA_TEXT, 5: 0, 6: 0}}, prefixes + suffixes + text)


def by_hand(columns: Mapping[str, tuple[int, bytes]], rows: int, codec: int = UNCOMPRESSED) -> bytes:
    """A Parquet file of one row group: columns by name, with their types and their pages."""
    place, body, chunks = 4, b"", []
    for name, (kind, pages) in columns.items():
        sizes = {5: Wide(rows), 6: Wide(len(pages)), 7: Wide(len(pages))}
        meta = {1: kind, 2: [0, 3, 8], 3: [name.encode()], 4: codec, **sizes, 9: Wide(place)}
        chunks.append({2: Wide(0), 3: meta | ({11: Wide(place)} if pages[1] == 4 else {})})
        body, place = body + pages, place + len(pages)
    leaves = [
        {1: kind, 3: 0, 4: name.encode()} | ({6: 0} if kind == BYTES else {}) for name, (kind, _) in columns.items()
    ]
    schema = [{4: b"schema", 5: len(columns)}, *leaves]
    group = {1: chunks, 2: Wide(len(body)), 3: Wide(rows)}
    footer = struct({1: 1, 2: schema, 3: Wide(rows), 4: [group], 6: b"hostile"})
    return b"PAR1" + body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def with_st(folder: Path, content: bytes, rows: int) -> None:
    """A release of one quasi-identifier whose ST is this, and which says that it has so many rows."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / manifest["tables"]["st"]["file"]).write_bytes(content)
    manifest["rows"] = manifest["tables"]["qit"]["rows"] = manifest["tables"]["st"]["rows"] = rows
    manifest |= {"buckets": 1, "setting": [{"size": rows, "buckets": 1}], "loss": (rows - 1) ** 2, "mse": rows - 1.0}
    worst = {"count": rows, "size": rows}
    manifest["values"] = [{"value": "flu", "count": rows, "limit": "1", "worst": worst}]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    restate_hashes(folder)


def run_lengths(folder: Path) -> None:
    rows = 2**30
    bucket, value = repeated((1).to_bytes(8, "little"), rows), repeated(b"\3\0\0\0flu", rows)
    with_st(folder, by_hand({"bucket": (INT64, bucket), "Disease": (BYTES, value)}, rows), rows)


def long_dictionary(folder: Path) -> None:
    """A text of a megabyte or so, in Snappy, and rows that refer to it."""
    rows = 2**17
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * 1_000_000]))
    content = io.BytesIO()
    pq.write_table(pa.table({"bucket": pa.array([1] * rows), "Disease": text}), content, store_schema=False)
    with_st(folder, content.getvalue(), rows)


def long_and_short(folder: Path) -> None:
    """The same among so many texts that rows are compared by what they refer to."""
    rows, short = 8192, [f"{number:04}" for number in range(600)]
    places = pa.array([*range(600), *[600] * (rows - 600)], pa.int32())
    text = pa.DictionaryArray.from_arrays(places, pa.array([*short, "a" * 700_000]))
    content = io.BytesIO()
    pq.write_table(pa.table({"bucket": pa.array([1] * rows), "Disease": text}), content, store_schema=False)
    with_st(folder, content.getvalue(), rows)


def many_dictionaries(folder: Path) -> None:
    """A text of a megabyte or so in each of many row groups, which differ."""
    content = io.BytesIO()
    schema = pa.schema([("bucket", pa.int64()), ("Disease", pa.string())])
    with pq.ParquetWriter(content, schema, store_schema=False) as writer:
        for number in range(100):
            rows = {"bucket": [1] * 2, "Disease": [f"{number}" + "a" * 900_000] * 2}
            writer.write_table(pa.table(rows, schema=schema))
    with_st(folder, content.getvalue(), 200)


def one_after_the_other(folder: Path) -> None:
    rows = 20_000
    bucket, value = repeated((1).to_bytes(8, "little"), rows), text_again(b"a" * 500_000, rows)
    with_st(folder, by_hand({"bucket": (INT64, bucket), "Disease": (BYTES, value)}, rows), rows)


def large_page(folder: Path) -> None:
    bucket = repeated((1).to_bytes(8, "little"), 10, stated=2**31 - 1)
    content = by_hand({"bucket": (INT64, bucket), "Disease": (BYTES, repeated(b"\3\0\0\0flu", 10))}, 10, SNAPPY)
    with_st(folder, content, 10)


def many_entries(folder: Path) -> None:
    dictionary = page({7: {1: 2**30, 2: PLAIN}}, b"\3\0\0\0flu")
    value = dictionary + page({5: {1: 10, 2: DICTIONARY, 3: 3, 4: 3}}, in_turns(10))
    bucket = repeated((1).to_bytes(8, "little"), 10)
    with_st(folder, by_hand({"bucket": (INT64, bucket), "Disease": (BYTES, value)}, 10), 10)


def braces(folder: Path) -> None:
    """Millions of empty objects, each of which takes some 300 times its length."""
    manifest = (folder / "manifest.json").read_text(encoding="utf-8")
    text = manifest.replace('"values": [', '"values": [' + "{}," * 4_000_000)
    assert len(text) > 11_000_000
    (folder / "manifest.json").write_text(text, encoding="utf-8")


def many_values(folder: Path) -> None:
    """Values as a manifest has them, more than there can be."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["values"] = [manifest["values"][0] | {"value": f"value {number}"} for number in range(150_000)]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def many_keys(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    keys = {f"another key {number}": 1 for number in range(200_000)}
    (folder / "manifest.json").write_text(json.dumps(manifest | keys), encoding="utf-8")


def long_cell(folder: Path) -> None:
    content = (folder / "st.csv").read_bytes() + b'1,"' + b"a" * 20_000_000 + b'"\n'
    (folder / "st.csv").write_bytes(content)
    restate_hashes(folder)


def many_columns(folder: Path) -> None:
    content = (folder / "st.csv").read_bytes()
    head, _, rest = content.partition(b"\n")
    (folder / "st.csv").write_bytes(head + b"," * 1_000_000 + b"\n" + (b"," * 1_000_000 + b"\n") * 3 + rest)
    restate_hashes(folder)


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    case.__name__: (case, kind)
    for kind, cases in {
        "parquet": [
            run_lengths,
            long_dictionary,
            long_and_short,
            many_dictionaries,
            one_after_the_other,
            large_page,
            many_entries,
            braces,
            many_values,
            many_keys,
        ],
        "csv": [long_cell, many_columns],
    }.items()
    for case in cases
}


def make(name: str, folder: Path) -> Path:
    """The release of that name."""
    case, kind = CASES[name]
    hospital().write(folder, kind, 3)  # later formats have one spelling, and no room for such things
    case(folder)
    return folder


def _run(words: Sequence[str]) -> dict[str, Any]:
    from click.testing import CliRunner

    from dalenius.cli.main import main

    start = time.monotonic()
    result = CliRunner().invoke(main, words)
    return {"code": result.exit_code, "output": result.output, "seconds": time.monotonic() - start}


def _program(folder: Path, names: Sequence[str]) -> None:
    import duckdb

    duckdb.connect().execute("SELECT 1").fetchall()
    for name in names:
        make(name, folder / name)
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES, taken + ADDRESSES))
    results = {}
    for name in names:
        for command, (word, *options) in COMMANDS.items():
            memory = ["--memory", "1GiB"] if command != "query" else []
            results[f"{name} {command}"] = _run([word, str(folder / name), *options, *memory])
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    _program(Path(sys.argv[1]), sys.argv[2:] or list(CASES))
