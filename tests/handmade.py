"""Releases made by hand: a second, naive writer of the release format, for tests of whatever reads releases.

It goes by docs/release-format.md and Python's loops, and shares nothing with the program but the names of types.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tests import naive_parquet

CATEGORY = pa.dictionary(pa.int32(), pa.string())
CHAIN = ("release", "previous", "surplus", "held_back")


@dataclass(frozen=True)
class Handmade:
    """What goes into a release: rows of quasi-identifiers, one sensitive value a row, and the bucket of each.

    `fakes` are (bucket, value) pairs that ST has besides, as many in every bucket. `tree` cuts the table into strata:
    its places are cuts, (column, value, below, above), and leaves, the numbers of their strata. Buckets are to be
    numbered stratum after stratum. `groups` are groups of values, (name, parent, limit), and `group_of` has the lowest
    group of each value, by its name; `levels` are what the groups of each depth are called, instead of numbers.

    In a chain of releases, `chain` is what the manifest says of it, but for the surplus: `left` are (bucket, value)
    pairs of those who left. `old` are the strata of earlier releases, (since, buckets) pairs, for which there is no
    tree; its leaves have the numbers after theirs.
    """

    types: Mapping[str, pa.DataType]
    rows: Sequence[tuple[Any, ...]]
    values: Sequence[Any]
    buckets: Sequence[int]
    sensitive: pa.DataType = field(default_factory=pa.string)
    name: str = "Disease"
    limits: Mapping[str, str] = field(default_factory=dict)
    null_value: str | None = None
    fakes: Sequence[tuple[int, Any]] = ()
    known_records: int = 0
    tree: Sequence[tuple[str, Any, int, int] | int] = ()
    margin: str = "1"
    groups: Sequence[tuple[str, str | None, str | None]] = ()
    group_of: Mapping[str, str] = field(default_factory=dict)
    levels: Sequence[str] = ()
    missing: Sequence[str] = ()
    not_applicable: Sequence[str] = ()
    chain: Mapping[str, Any] | None = None
    left: Sequence[tuple[int, Any]] = ()
    old: Sequence[tuple[int, int]] = ()

    def write(self, folder: Path, kind: str = "parquet", format: int = 7) -> Path:
        """The release in a folder, with limits of 1 where none are given; in format 3, Parquet as Arrow writes it."""
        folder.mkdir(parents=True, exist_ok=True)
        qit = sorted(zip(self.rows, self.buckets, strict=True), key=lambda r: (r[1], [order(cell) for cell in r[0]]))
        st = sorted(self.shown(), key=lambda r: (r[0], order(r[1])))
        kinds = {**self.types, "bucket": pa.int64()}
        write_manifest(folder, self.manifest(kind, format))
        write_table(folder / f"qit.{kind}", kinds, [(*row, bucket) for row, bucket in qit])
        write_table(folder / f"st.{kind}", {"bucket": pa.int64(), self.name: self.sensitive}, st)
        restate_hashes(folder)
        return folder

    def shown(self) -> list[tuple[int, Any]]:
        """What ST has rows for."""
        return [*zip(self.buckets, self.values, strict=True), *self.left, *self.fakes]

    def sizes(self) -> Counter[int]:
        """The places of each bucket."""
        return Counter([*self.buckets, *(bucket for bucket, _ in self.left)])

    def source(self) -> pa.Table:
        """The table that was published."""
        columns = {
            name: column(kind, [row[i] for row in self.rows]) for i, (name, kind) in enumerate(self.types.items())
        }
        return pa.table({**columns, self.name: column(self.sensitive, list(self.values))})

    def text(self, value: Any) -> str:
        """The name of a sensitive value."""
        return self.null_value or "?" if value is None else text_of(value)

    def leaf(self, row: tuple[Any, ...]) -> int:
        """The place in the tree where a row arrives."""
        place = 0
        while not isinstance(node := self.tree[place], int):
            column, value, below, above = node
            cell = row[list(self.types).index(column)]
            missing = cell is None or (isinstance(cell, float) and math.isnan(cell))
            place = below if not missing and order(cell) <= order(value) else above
        return place

    def stratum(self, row: tuple[Any, ...]) -> int:
        """The stratum of a row, from 1."""
        number = self.tree[self.leaf(row)]
        assert isinstance(number, int)
        return number

    def strata(self, format: int = 7) -> dict[str, Any] | None:
        """What the manifest says of the strata; those of the buckets are those of their rows."""
        if not self.tree and not self.old:
            return None
        numbers = {node for node in self.tree if isinstance(node, int)} | {*range(1, len(self.old) + 1)}
        earlier = [number for number, (_, buckets) in enumerate(self.old, 1) for _ in range(buckets)]
        of_bucket = dict(enumerate(earlier, 1))
        for row, value, bucket in zip(self.rows, self.values, self.buckets, strict=True):
            if bucket > len(earlier):
                applies = self.text(value) not in self.not_applicable
                of_bucket[bucket] = self.stratum(row) if applies else max(numbers) + 1
        sizes, there = self.sizes(), Counter(self.buckets)
        newest = self.chain["release"] if self.chain is not None else 1
        strata = []
        for number in sorted(numbers | set(of_bucket.values())):
            mine = Counter(sizes[bucket] for bucket, stratum in of_bucket.items() if stratum == number)
            setting = [{"size": size, "buckets": buckets} for size, buckets in sorted(mine.items())]
            new = {
                **({"rows_each": 1} if format > 5 else {}),
                **({"applies": number in numbers} if format > 4 else {}),
                **({"since": dict(enumerate((s for s, _ in self.old), 1)).get(number, newest)} if format > 6 else {}),
            }
            strata.append(
                {
                    "rows": sum(there[bucket] for bucket, stratum in of_bucket.items() if stratum == number),
                    "setting": setting,
                    **new,
                }
            )
        tree = [
            {"stratum": node}
            if isinstance(node, int)
            else {"column": node[0], "at_most": cut_text(node[1]), "below": node[2], "above": node[3]}
            for node in self.tree
        ]
        return {"tree": tree, "margin": self.margin, "strata": strata}

    def holding(self, text: str) -> list[str]:
        """The groups that hold a value, from the top down."""
        parents = {name: parent for name, parent, _ in self.groups}
        path: list[str] = []
        name = self.group_of.get(text)
        while name is not None:
            path, name = [name, *path], parents[name]
        return path

    def stated_groups(self) -> list[dict[str, Any]] | None:
        """What the manifest says of the groups: depth first, siblings by name, a level called by its number."""
        sizes = self.sizes()
        paths = sorted({tuple(path[: k + 1]) for path in map(self.holding, self.group_of) for k in range(len(path))})
        names = [path[-1] for path in paths]
        stated = []
        for path in paths:
            held = Counter(b for b, value in self.shown() if path[-1] in self.holding(self.text(value)))
            _, count, size = max((Fraction(n, sizes[b] - self.known_records), n, sizes[b]) for b, n in held.items())
            limit = next(limit for name, _, limit in self.groups if name == path[-1])
            entry: dict[str, Any] = {
                "name": path[-1],
                "level": (self.levels or [f"level {n}" for n in range(1, 40)])[len(path) - 1],
            }
            entry["parent"] = names.index(path[-2]) if len(path) > 1 else None
            entry["limit"] = None if limit is None else str(Fraction(limit))
            stated.append({**entry, "count": held.total(), "worst": {"count": count, "size": size}})
        return stated or None

    def manifest(self, kind: str, format: int = 7) -> dict[str, Any]:
        sizes = self.sizes()
        chain = {**self.chain, "surplus": len(self.left)} if self.chain is not None else None
        setting = sorted(Counter(sizes.values()).items())
        loss = sum((size - 1) ** 2 for size in sizes.values())
        held = Counter((bucket, self.text(value)) for bucket, value in self.shown())
        worst: dict[str, tuple[Fraction, int, int]] = {}
        for (bucket, text), count in held.items():
            known, size = self.known_records if text not in self.not_applicable else 0, sizes[bucket]
            case = Fraction(count, size - known), count, size
            worst[text] = max(worst.get(text, case), case)
        shown = [value for _, value in self.shown()]
        counts = Counter(map(self.text, shown))
        texts = list(dict.fromkeys(map(self.text, sorted(shown, key=order))))
        since_5 = {"groups": self.stated_groups(), "bands": None} if format > 4 else {}
        place = {group["name"]: number for number, group in enumerate(since_5.get("groups") or ())}
        file = {"bytes": 1, "sha256": "0" * 64, "parts": None}
        cells = {name: [row[place] for row in self.rows] for place, name in enumerate(self.types)}
        return {
            "format": format,
            "program": {"name": "dalenius", "version": "0.1.0"},
            "randomness": "cryptographic",
            "tables": {
                "qit": {"file": f"qit.{kind}", "rows": len(self.rows), **file},
                "st": {"file": f"st.{kind}", "rows": len(shown), **file},
            },
            "columns": {
                "bucket": "bucket",
                "quasi_identifiers": [
                    stated_column(name, kind, cells[name], format) for name, kind in self.types.items()
                ],
                "sensitive": {
                    **stated_column(self.name, self.sensitive, shown, format),
                    **({"of": [self.name]} if format > 5 else {}),
                },
            },
            "null_value": self.null_value,
            **({"missing": sorted(self.missing)} if format > 4 else {}),
            "rows": len(self.rows),
            **({"people": len(self.rows), "persons": None} if format > 5 else {}),
            "buckets": len(sizes),
            "setting": [{"size": size, "buckets": number} for size, number in setting],
            "loss": loss,
            "mse": loss / max(1, len(self.rows) - 1),
            "method": "optimal",
            "status": "feasible",
            "bound": None,
            "gap": None,
            "adversary": {"known_records": self.known_records, "fake_values": len(self.fakes) // len(sizes)},
            **({"chain": chain and {k: chain[k] for k in CHAIN}} if format > 6 else {}),
            "strata": self.strata(format),
            **since_5,
            "values": [
                {
                    "value": text,
                    "count": counts[text],
                    "limit": str(Fraction(self.limits.get(text, "1"))),
                    "worst": {"count": worst[text][1], "size": worst[text][2]},
                    **(
                        {"group": place.get(self.group_of.get(text, "")), "applies": text not in self.not_applicable}
                        if format > 4
                        else {}
                    ),
                }
                for text in texts
            ],
            **({"group_table": None, "others": [], "together": []} if format > 5 else {}),
        }


def stated_column(name: str, kind: pa.DataType, cells: Sequence[Any], format: int) -> dict[str, Any]:
    """A column in the manifest; whether it has nulls is said since format 4."""
    nulls = {"nulls": any(cell is None for cell in cells)} if format > 3 else {}
    return {"name": name, "type": str(kind), **nulls}


def order(cell: Any) -> tuple[Any, ...]:
    """A key by which cells of one column are in the canonical order."""
    if cell is None:
        return (1,)
    if isinstance(cell, float):
        return (
            0,
            math.isnan(cell),
            0.0 if math.isnan(cell) else cell,
            0 if math.isnan(cell) else math.copysign(1, cell),
        )
    return (0, cell.encode() if isinstance(cell, str) else cell)


def text_of(value: Any) -> str:
    """The text by which a sensitive value is known."""
    return str(value).lower() if isinstance(value, bool | float) else str(value)


def cut_text(value: Any) -> str:
    """The text of a value at which a column is cut; fractions of a second have as many digits as needed."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return f"{cut_text(value.astimezone(datetime.UTC).replace(tzinfo=None))}+00"
    if isinstance(value, datetime.datetime | datetime.time) and value.microsecond:
        return str(value).rstrip("0")
    return format(value, "f") if isinstance(value, Decimal) else text_of(value)


def in_strata(made: Handmade, tree: Sequence[tuple[str, Any, int, int] | int], sizes: Sequence[int]) -> Handmade:
    """The rows in strata, with buckets of these sizes in turn as far as there are rows for them, else one bucket.

    Leaves are where `tree` has numbers: the strata are numbered anew, in the order of these, without those that nobody
    is in. A leaf without rows joins the first stratum.
    """
    whole = replace(made, tree=tree)
    wanted = [whole.stratum(row) for row in made.rows]
    number = {old: new for new, old in enumerate(sorted(set(wanted)), 1)}
    held: list[int] = [0] * len(made.rows)
    last = 0
    for old in sorted(set(wanted)):
        rows = [place for place, stratum in enumerate(wanted) if stratum == old]
        parts: list[list[int]] = []
        for size in sizes:
            if len(rows) > size:
                parts, rows = [*parts, rows[:size]], rows[size:]
        for part in sorted([*parts, rows], key=len):
            last += 1
            for place in part:
                held[place] = last
    numbered = [number.get(node, 1) if isinstance(node, int) else node for node in tree]
    return replace(made, tree=numbered, buckets=held)


def column(kind: pa.DataType, cells: list[Any]) -> pa.Array:
    """An Arrow column; categories in the order of first appearance."""
    return pa.array(cells, pa.string()).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(cells, kind)


def write_table(
    path: Path, types: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]], group: int | None = None
) -> None:
    """Rows in the order given, as the format of the manifest beside it has them."""
    stated = stated_beside(path)
    if path.suffix == ".csv":
        cells = [[csv_cell(kind, cell) for kind, cell in zip(types.values(), row, strict=True)] for row in rows]
        lines = [",".join(csv_cell(pa.string(), name) for name in types), *map(",".join, cells)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    elif stated["format"] < 4:
        columns = [column(kind, [row[i] for row in rows]) for i, kind in enumerate(types.values())]
        group = group or max(7, len(rows) // 8)  # several row groups in any table, and few in a large one, for speed
        pyarrow.parquet.write_table(pa.Table.from_arrays(columns, list(types)), path, row_group_size=group)
    else:
        group = group or 2 ** (max(8, len(rows) // 8).bit_length() - 1)
        bucket = stated["columns"]["bucket"]
        path.write_bytes(naive_parquet.parquet(types, rows, bucket=bucket, group=group, nulls=with_nulls(stated)))


def with_nulls(stated: dict[str, Any]) -> list[str]:
    """The columns that a manifest says have nulls."""
    columns = [*stated["columns"]["quasi_identifiers"], stated["columns"]["sensitive"]]
    return [entry["name"] for entry in columns if entry["nulls"]]


def stated_beside(path: Path) -> dict[str, Any]:
    """The manifest of the release that a file, or a part, is in."""
    folder = next(folder for folder in path.parents if (folder / "manifest.json").exists())
    stated: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return stated


def csv_cell(kind: pa.DataType, cell: Any) -> str:
    """A cell as text files have it."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return '"' + cell.replace('"', '""') + '"'
    if isinstance(cell, datetime.datetime):
        zone = ("Z" if kind.tz == "UTC" else cell.strftime("%z")) if kind.tz else ""
        fraction = {"s": "", "ms": f".{cell.microsecond // 1000:03}", "us": f".{cell.microsecond:06}"}[kind.unit]
        return f"{cell:%Y-%m-%d %H:%M:%S}{fraction}{zone}"
    if isinstance(cell, float):
        return csv_float(cell, np.float32 if str(kind) == "float" else np.float64)
    return text_of(cell)


def csv_float(number: float, width: type[np.floating[Any]]) -> str:
    """The fewest digits that give the number back; with an exponent from 1e+10 on, and below 1e-6."""
    if not math.isfinite(number):
        return str(number)
    shortest = np.format_float_scientific(width(number), trim="-")
    digits, _, exponent = shortest.partition("e")
    if -6 <= int(exponent) < 10:
        return format(Decimal(f"{digits}e{exponent}"), "f").removesuffix(".0")
    return f"{digits}e{int(exponent):+}"


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest as an object."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    change(manifest)
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """In the one spelling there is since format 4."""
    written = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (folder / "manifest.json").write_bytes(written.encode("utf-8", "surrogatepass"))


def restate_hashes(folder: Path) -> None:
    """Make the manifest's lengths and hashes those of the files that are there."""

    def restated(manifest: dict[str, Any]) -> None:
        for entry in manifest["tables"].values():
            place = folder / entry["file"]
            for part in entry["parts"] or ():
                content = (place / part["file"]).read_bytes()
                part.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
            if entry["parts"] is None:
                content = place.read_bytes()
                entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
            else:
                digests = "".join(part["sha256"] for part in entry["parts"])
                entry.update(bytes=sum(part["bytes"] for part in entry["parts"]))
                entry.update(rows=sum(part["rows"] for part in entry["parts"]))
                entry.update(sha256=hashlib.sha256(digests.encode()).hexdigest())

    edit_manifest(folder, restated)


def rewrite(folder: Path, table: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the rows of a Parquet table as a list of dicts. The manifest is left, but for the nulls it states."""
    path = folder / f"{table}.parquet"
    before = pyarrow.parquet.read_table(path)
    rows = before.to_pylist()
    changed = change(rows)
    rows = rows if changed is None else changed
    if stated_beside(path)["format"] > 3:
        edit_manifest(folder, lambda manifest: restate_nulls(manifest, rows))
    kinds = {entry.name: entry.type for entry in before.schema}
    write_table(path, kinds, [tuple(row.values()) for row in rows])


def restate_nulls(manifest: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Say which columns have nulls, of those that these rows have."""
    for entry in (*manifest["columns"]["quasi_identifiers"], manifest["columns"]["sensitive"]):
        if rows and entry["name"] in rows[0]:
            entry["nulls"] = any(row[entry["name"]] is None for row in rows)


def hospital(**changes: Any) -> Handmade:
    """Twelve patients in two buckets of two, and two of four."""
    parts: dict[str, Any] = {
        "types": {"Gender": CATEGORY, "Zipcode": pa.string(), "Age": pa.uint8()},
        "rows": [
            *[("M", "54321", 40), ("F", "54322", 41), ("M", "54323", 42), ("F", "54321", 43)],
            *[("M", "61234", 20), ("M", "61234", 20), ("F", "61235", 21), ("F", "61236", 22)],
            *[("M", "71234", 60), ("M", "71235", 60), ("F", "71236", 61), ("F", "71236", 62)],
        ],
        "values": ["Flu", "Cold", "Flu", "Gout", "HIV", "Flu", "Flu", "Cold", "HIV", "Cold", "Gout", "Flu"],
        "buckets": [1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4],
        "limits": {"HIV": "1/4", "Flu": "1/2", "Cold": "1/2", "Gout": "3/4"},
    }
    return Handmade(**{**parts, **changes})


def grouped_hospital(**changes: Any) -> Handmade:
    """The same patients. Gout is a disease of the joints, which is chronic, as HIV is; flu and cold are not."""
    parts: dict[str, Any] = {
        "groups": [("Chronic", None, "1/2"), ("Joints", "Chronic", None), ("Airways", None, None)],
        "group_of": {"HIV": "Chronic", "Gout": "Joints", "Flu": "Airways", "Cold": "Airways"},
        **changes,
    }
    return hospital(**parts)


def three_strata(**changes: Any) -> Handmade:
    """The hospital's patients by age: around 40 in buckets 1 and 2, around 20 in the third, around 60 in the last."""
    return hospital(tree=[("Age", 22, 1, 2), 2, ("Age", 43, 3, 4), 1, 3], **changes)


def next_hospital(first: Path, **changes: Any) -> Handmade:
    """The release after that of the hospital, which is the first of a chain, in a folder.

    One patient of bucket 1 and everybody of bucket 2 left, and one of bucket 4. Six are new, in two strata by age:
    buckets 5 and 6 of the young, 7 of the old.
    """
    before, stay = hospital(), [1, *range(4, 11)]
    young = [("F", "1", 30), ("M", "1", 31), ("F", "2", 30), ("M", "2", 31)]
    parts: dict[str, Any] = {
        "rows": [*(before.rows[k] for k in stay), *young, ("F", "1", 70), ("M", "2", 71)],
        "values": [*(before.values[k] for k in stay), "Flu", "Cold", "Gout", "Flu", "Cold", "Mumps"],
        "buckets": [*(before.buckets[k] for k in stay), 5, 5, 6, 6, 7, 7],
        "left": [(before.buckets[k], before.values[k]) for k in range(12) if k not in stay],
        "old": [(1, 4)],
        "tree": [("Age", 31, 1, 2), 2, 3],
        "chain": {
            "release": 2,
            "previous": hashlib.sha256((first / "manifest.json").read_bytes()).hexdigest(),
            "held_back": 0,
        },
    }
    return hospital(**{**parts, **changes})


FIRST = {"release": 1, "previous": None, "held_back": 0}  # of a chain


def many_types() -> Handmade:
    """Every kind of column, with the cells that are easily got wrong."""
    days = [datetime.date(2020, 1, 1), datetime.date(1950, 12, 31), None, datetime.date(2020, 1, 1)]
    rows = [
        ("Ünal", days[0], Decimal("12345678901234567890.10"), True, -0.0, 2**63 - 1, 1.5, "x"),
        ("Zoë", days[1], Decimal("-12345678901234567890.10"), False, 0.0, -(2**63), None, None),
        (None, days[2], None, None, math.nan, None, math.inf, "é"),
        ("Ünal", days[3], Decimal("0.01"), True, 0.0, 0, -math.inf, "z"),
        ('a "quoted", name\nof two lines', days[0], Decimal("-0.01"), False, -1e300, 1, -0.0, "x"),
        ("", days[1], Decimal("0.00"), None, math.nan, 2, math.nan, "y"),
        ("😀", days[3], Decimal("99999999999999999999.99"), True, -0.0, -1, 0.0, "\U00010000"),
        ("\uffff", None, Decimal("0.01"), True, 5e-324, -1, 2.5, "\uffff"),
    ]
    return Handmade(
        types={
            "name": pa.string(),
            "day": pa.date32(),
            "money": pa.decimal128(22, 2),
            "flag": pa.bool_(),
            "ratio": pa.float64(),
            "big": pa.int64(),
            "small": pa.float32(),
            "kind": CATEGORY,
        },
        rows=rows,
        values=["b", "ä", "a", "b", "a", "", "ä", "b"],
        buckets=[1, 1, 1, 1, 2, 2, 2, 2],
    )
