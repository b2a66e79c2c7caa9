"""Small releases that inputs are made of, and ways to change bytes and values."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import shutil
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq

from dalenius.query.count import Counter
from dalenius.release.folder import open_release
from fuzz.thrift_tree import every_node, mutate, read_tree, write_tree
from tests.handmade import grouped_hospital, hospital, three_strata

_FORMATS = Path(__file__).parents[1] / "tests" / "release" / "formats"
_ENCODINGS = ["PLAIN", "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]
_JUNK: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 10**30, 0.5, -0.0, 1e308, "", "x", "1/3", "0/0", "1/0", "\x00", "é",
    "\ud800", "qit.parquet", "../qit", "a" * 1000, [], {}, [[]], [None], {"": {}}, "int64", "string", "date32[day]",
    "decimal128(38, 2)", "decimal256(76, 0)", "timestamp[ns, tz=UTC]", "timestamp[s, tz=Nowhere/City]", "null", "bool",
    "dictionary<values=string, indices=int32, ordered=0>", "fixed_size_binary[3]", "halffloat", "large_string",
    "struct<>", "list<item: int64>", "time64[us]", "duration[s]",
]  # fmt: skip


class Releases:
    """Some releases, and a folder to break them in."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        made = {
            "hospital": hospital().write(scratch / "made" / "hospital"),
            "text": hospital().write(scratch / "made" / "text", "csv"),
            "groups": grouped_hospital().write(scratch / "made" / "groups"),
            "strata": three_strata().write(scratch / "made" / "strata"),
            "fakes": hospital(fakes=[(bucket, "Flu") for bucket in (1, 2, 3, 4)]).write(scratch / "made" / "fakes"),
        }
        stored = {"-".join(path.parts[-2:]): path for path in sorted(_FORMATS.glob("*/*/"))}
        self.folders = made | stored
        self.manifests = {name: (path / "manifest.json").read_bytes() for name, path in self.folders.items()}
        self.with_parquet = [name for name, path in self.folders.items() if list(path.glob("**/*.parquet"))]
        self.table = scratch / "table.parquet"
        pq.write_table(hospital().source(), self.table)

    @cached_property
    def counter(self) -> Counter:
        """A release that is open for counting, as for a file of queries."""
        return Counter(open_release(self.folders["hospital"]))

    def copy(self, name: str) -> Path:
        """One of them, to be broken."""
        folder = self.scratch / "broken"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folders[name], folder)
        return folder

    def mutated_parquet(self, name: str, random: Random) -> tuple[str, bytes]:
        """A file of a release by its name, changed in one of several ways."""
        folder = self.folders[name]
        path = random.choice(sorted(folder.glob("**/*.parquet")))
        content = path.read_bytes()
        how = random.random()
        if how < 0.2:
            content = _written_otherwise(content, random)
        if how < 0.35:
            content = mutated_bytes(content, random)
        elif how < 0.85:
            content = _other_footer(content, random)
        else:
            content = _one_bit(content, random)
        return str(path.relative_to(folder)), content

    @staticmethod
    def restate(folder: Path, file: str, content: bytes) -> None:
        """Make the manifest's length and hash of one file those of these bytes."""
        path = folder / "manifest.json"
        manifest = json.loads(path.read_bytes())
        stated = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for entry in manifest["tables"].values():
            if entry["file"] == file:
                entry.update(stated)
            for part in entry.get("parts") or ():
                if f"{entry['file']}/{part['file']}" == file:
                    part.update(stated)
                    digests = "".join(one["sha256"] for one in entry["parts"])
                    entry["sha256"] = hashlib.sha256(digests.encode()).hexdigest()
                    entry["bytes"] = sum(one["bytes"] for one in entry["parts"])
        path.write_text(json.dumps(manifest), encoding="utf-8")


def junk(random: Random, value: Any) -> Any:
    """Something else in the place of a value."""
    if isinstance(value, int) and random.random() < 0.4:
        return value + random.choice((-1, 1, 2**31, -(2**33)))
    if isinstance(value, str) and random.random() < 0.3:
        return random.choice([value * 2, value[1:], value.upper(), value + "\n", f" {value}"])
    return copy.deepcopy(random.choice(_JUNK))


def mutated_bytes(content: bytes, random: Random) -> bytes:
    """Some bytes changed, removed, repeated or put elsewhere."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        place = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 8, 64))
        how = random.randrange(5)
        if how == 0 and place < len(data):
            data[place] = random.randrange(256)
        elif how == 1:
            del data[place : place + length]
        elif how == 2:
            data[place:place] = random.randbytes(length)
        elif how == 3:
            data[place:place] = data[place : place + length] * random.choice((1, 2, 9))
        else:
            data[place : place + length] = (
                random.choice((b"\0", b"\xff", b'"', b",", b"\n", b"\r", b"{", b"9")) * length
            )
    return bytes(data)


def _one_bit(content: bytes, random: Random) -> bytes:
    data = bytearray(content)
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _other_footer(content: bytes, random: Random) -> bytes:
    """The same columns under a footer of which some things are changed."""
    length = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - length
    tree = read_tree(content[start:-8])
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        mutate(random.choice(every_node(tree)), random)
    footer = write_tree(tree)
    return content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _written_otherwise(content: bytes, random: Random) -> bytes:
    """The same rows as another writer has them."""
    table = pq.read_table(io.BytesIO(content))
    written = io.BytesIO()
    encoded = random.random() < 0.3
    try:
        pq.write_table(
            table,
            written,
            compression=random.choice(["snappy", "none", "gzip", "zstd"]),
            row_group_size=random.choice([1, 3, 1000]),
            data_page_size=random.choice([1, 64, 2**20]),
            data_page_version=random.choice(["1.0", "2.0"]),
            use_dictionary=False if encoded else random.random() < 0.5,
            column_encoding=random.choice(_ENCODINGS) if encoded else None,
            write_page_index=random.random() < 0.3,
            store_schema=random.random() < 0.5,
        )
    except (OSError, pyarrow.ArrowException):  # an encoding that is not for one of the types
        return content
    return written.getvalue()
