"""Releases of people made by hand: several rows a person, several sensitive columns, and columns of one kind as one.

A second, naive writer of the release format, for tests of whatever reads such releases. It goes by
docs/release-format.md and Python's loops, and shares nothing with the program but the names of types.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tests import naive_parquet
from tests.handmade import column, csv_cell, cut_text, edit_manifest, order, stated_column, text_of, write_manifest

Row = tuple[tuple[Any, ...], dict[str, Any]]  # quasi-identifiers, and sensitive cells by the column of the source
Person = Sequence[Row]


@dataclass(frozen=True)
class Sensitive:
    """A sensitive column: the values of some columns of the source. Groups are as those of `Handmade`."""

    name: str
    columns: Sequence[str]
    kind: pa.DataType = field(default_factory=pa.string)
    limits: Mapping[str, str] = field(default_factory=dict)
    null_value: str | None = None
    missing: Sequence[str] = ()
    groups: Sequence[tuple[str, str | None, str | None]] = ()
    group_of: Mapping[str, str] = field(default_factory=dict)

    def published(self, cell: Any) -> Any:
        """Nulls, and codes for them, have a name."""
        return self.null_value if cell is None or cell in self.missing else cell

    def items(self, person: Person) -> dict[Any, int]:
        """The values that somebody has, and in how many rows."""
        rows: Counter[Any] = Counter()
        for _, cells in person:
            rows.update({self.published(cells[column]) for column in self.columns})
        return dict(rows)

    def holding(self, text: str) -> list[str]:
        """The groups that hold a value, from the top down."""
        parents = {name: parent for name, parent, _ in self.groups}
        path: list[str] = []
        name = self.group_of.get(text)
        while name is not None:
            path, name = [name, *path], parents[name]
        return path

    def groups_of(self, person: Person) -> set[str | None]:
        """The groups that somebody has values of, and None for a value that is in none."""
        found: set[str | None] = set()
        for value in self.items(person):
            found.update(self.holding(text_of(value)) or [None])
        return found


@dataclass(frozen=True)
class HandmadePeople:
    """People, each with a bucket. `tree` is as that of `Handmade`; a cut by the number of rows has no column.

    People who are not `numbered` have one row each. Without a tree, all have as many rows.
    """

    types: Mapping[str, pa.DataType]
    people: Sequence[Person]
    buckets: Sequence[int]
    sets: Sequence[Sensitive]
    numbered: bool = True
    tree: Sequence[tuple[str | None, Any, int, int] | int] = ()
    known_records: int = 0
    most_rows: int | None = None
    dropped: int = 0
    together: Sequence[Sequence[str]] = ()

    @property
    def has_numbers(self) -> bool:
        """Whether people are numbered: not where everybody has one row and none was left out."""
        return self.numbered and (self.dropped > 0 or any(len(person) > 1 for person in self.people))

    def write(self, folder: Path, kind: str = "parquet") -> Path:
        """The release in a folder, with limits of 1 where none are given."""
        folder.mkdir(parents=True, exist_ok=True)
        write_manifest(folder, self.manifest(kind))
        self._write(folder / f"qit.{kind}", self.qit_types(), self.qit())
        for number, own in enumerate(self.sets):
            stem = "st" if number == 0 else f"st{number + 1}"
            self._write(folder / f"{stem}.{kind}", self.st_types(own), self.st(own))
            if self.has_group_table(own):
                types = {"bucket": pa.int64(), "group": pa.string()}
                self._write(folder / f"{stem}_groups.{kind}", types, self.group_lines(own))
        for number, names in enumerate(self.together, 1):
            path = folder / f"{together_stem(number)}.{kind}"
            self._write(path, self.together_types(names), self.together_lines(names))
        restate(folder)
        return folder

    def _write(self, path: Path, types: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]]) -> None:
        write_rows(path, types, rows, self.own_name("bucket"))

    def own_name(self, name: str) -> str:
        """The name of a column of the release's own."""
        taken = {other.casefold() for other in (*self.types, *(own.name for own in self.sets))}
        return next(free for free in (name, *(f"{name}_{n}" for n in range(2, 99))) if free not in taken)

    def qit_types(self) -> dict[str, pa.DataType]:
        number = {self.own_name("person"): pa.int64()} if self.has_numbers else {}
        return {**number, **self.types, self.own_name("bucket"): pa.int64()}

    def st_types(self, own: Sensitive) -> dict[str, pa.DataType]:
        rows = {self.own_name("rows"): pa.int64()} if self.has_numbers else {}
        return {self.own_name("bucket"): pa.int64(), own.name: own.kind, **rows}

    def qit(self) -> list[tuple[Any, ...]]:
        """People in the order of their rows, numbered in each bucket."""
        lines: list[tuple[Any, ...]] = []
        for bucket in sorted(set(self.buckets)):
            members = [
                sorted((row for row, _ in person), key=key_of)
                for person, own in zip(self.people, self.buckets, strict=True)
                if own == bucket
            ]
            members.sort(key=lambda rows: [key_of(row) for row in rows])
            for number, rows in enumerate(members, 1):
                lines += [(*([number] if self.has_numbers else []), *row, bucket) for row in rows]
        return lines

    def st(self, own: Sensitive) -> list[tuple[Any, ...]]:
        lines = [
            (bucket, value, *([rows] if self.has_numbers else []))
            for person, bucket in zip(self.people, self.buckets, strict=True)
            for value, rows in own.items(person).items()
        ]
        return sorted(lines, key=lambda line: (line[0], order(line[1]), line[2:]))

    def together_types(self, names: Sequence[str]) -> dict[str, pa.DataType]:
        rows = {self.own_name("rows"): pa.int64()} if self.has_numbers else {}
        kinds = {own.name: own.kind for own in self.sets if own.name in names}
        return {self.own_name("bucket"): pa.int64(), **kinds, **rows}

    def together_lines(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """What goes with what in a row: a line for each person and tuple."""
        own = [one for one in self.sets if one.name in names]
        lines: list[tuple[Any, ...]] = []
        for person, bucket in zip(self.people, self.buckets, strict=True):
            tuples = Counter(tuple(one.published(cells[one.name]) for one in own) for _, cells in person)
            lines += [(bucket, *cells, *([rows] if self.has_numbers else [])) for cells, rows in tuples.items()]
        return sorted(lines, key=lambda line: (line[0], [order(cell) for cell in line[1 : 1 + len(own)]], line[-1]))

    def has_group_table(self, own: Sensitive) -> bool:
        return bool(own.groups) and (self.has_numbers or len(own.columns) > 1)

    def group_lines(self, own: Sensitive) -> list[tuple[Any, ...]]:
        lines = [
            (bucket, group)
            for person, bucket in zip(self.people, self.buckets, strict=True)
            for group in own.groups_of(person)
        ]
        return sorted(lines, key=lambda line: (line[0], order(line[1])))

    def stratum(self, person: Person) -> int:
        """The stratum of a person, by their least values."""
        place = 0
        while not isinstance(node := (self.tree or [1])[place], int):
            name, value, below, above = node
            if name is None:
                place = below if len(person) <= value else above
                continue
            cell = min((row[list(self.types).index(name)] for row, _ in person), key=order)
            missing = cell is None or cell != cell
            place = below if not missing and order(cell) <= order(value) else above
        return node

    def strata(self) -> dict[str, Any] | None:
        if not self.tree and not self.has_numbers:
            return None
        sizes = Counter(self.buckets)
        of_bucket = {bucket: self.stratum(p) for p, bucket in zip(self.people, self.buckets, strict=True)}
        rows_of = {bucket: len(p) for p, bucket in zip(self.people, self.buckets, strict=True)}
        strata = []
        for number in sorted({node for node in self.tree or [1] if isinstance(node, int)}):
            mine = [bucket for bucket, own in of_bucket.items() if own == number]
            setting = sorted(Counter(sizes[bucket] for bucket in mine).items())
            rows = rows_of[mine[0]]
            strata.append(
                {
                    "rows": sum(sizes[bucket] for bucket in mine) * rows,
                    "setting": [{"size": size, "buckets": buckets} for size, buckets in setting],
                    "rows_each": rows,
                    "applies": True,
                    "since": 1,
                }
            )
        tree = [
            {"stratum": node}
            if isinstance(node, int)
            else {"column": node[0], "at_most": cut_text(node[1]), "below": node[2], "above": node[3]}
            for node in self.tree or [1]
        ]
        return {"tree": tree, "margin": "1", "strata": strata}

    def worst(self, held: Mapping[int, int]) -> dict[str, int]:
        """The worst case, given how many people of each bucket have something."""
        sizes = Counter(self.buckets)
        cases = [(Fraction(n, sizes[b] - self.known_records), n, sizes[b]) for b, n in held.items()]
        _, count, size = max(cases)
        return {"count": count, "size": size}

    def stated_groups(self, own: Sensitive) -> list[dict[str, Any]] | None:
        paths = sorted({tuple(path[: k + 1]) for path in map(own.holding, own.group_of) for k in range(len(path))})
        names = [path[-1] for path in paths]
        stated = []
        for path in paths:
            held = Counter(
                bucket
                for person, bucket in zip(self.people, self.buckets, strict=True)
                if path[-1] in own.groups_of(person)
            )
            if not held:
                continue
            limit = next(limit for name, _, limit in own.groups if name == path[-1])
            stated.append(
                {
                    "name": path[-1],
                    "level": f"level {len(path)}",
                    "parent": names.index(path[-2]) if len(path) > 1 else None,
                    "limit": None if limit is None else str(Fraction(limit)),
                    "count": held.total(),
                    "worst": self.worst(held),
                }
            )
        return stated or None

    def stated_values(self, own: Sensitive) -> list[dict[str, Any]]:
        groups = {group["name"]: place for place, group in enumerate(self.stated_groups(own) or ())}
        held: dict[Any, Counter[int]] = {}
        for person, bucket in zip(self.people, self.buckets, strict=True):
            for value in own.items(person):
                held.setdefault(value, Counter())[bucket] += 1
        return [
            {
                "value": text_of(value),
                "count": held[value].total(),
                "limit": str(Fraction(own.limits.get(text_of(value), "1"))),
                "worst": self.worst(held[value]),
                "group": groups.get(own.group_of.get(text_of(value), "")),
                "applies": True,
            }
            for value in sorted(held, key=order)
        ]

    def stated_set(self, own: Sensitive, stem: str, kind: str) -> dict[str, Any]:
        """What the manifest says of a sensitive column, in the order of its keys."""
        file = {"bytes": 1, "sha256": "0" * 64, "parts": None}
        lines = self.group_lines(own) if self.has_group_table(own) else []
        group_table = {"file": f"{stem}_groups.{kind}", "rows": len(lines), **file} if lines else None
        texts = {text_of(value) for person in self.people for value in own.items(person)}
        is_missing = own.null_value is not None and own.null_value in texts
        return {
            "table": {"file": f"{stem}.{kind}", "rows": len(self.st(own)), **file},
            "group_table": group_table,
            "column": {**stated_column(own.name, own.kind, [], 6), "of": list(own.columns)},
            "null_value": own.null_value if is_missing else None,
            "missing": sorted(own.missing) if is_missing else [],
            "groups": self.stated_groups(own),
            "bands": None,
            "values": self.stated_values(own),
        }

    def manifest(self, kind: str) -> dict[str, Any]:
        sizes = Counter(self.buckets)
        loss = sum((size - 1) ** 2 for size in sizes.values())
        rows = sum(len(person) for person in self.people)
        first, *others = [
            self.stated_set(own, "st" if number == 0 else f"st{number + 1}", kind)
            for number, own in enumerate(self.sets)
        ]
        persons = {
            "number": self.own_name("person"),
            "rows": self.own_name("rows"),
            "most_rows": self.most_rows,
            "dropped": self.dropped,
        }
        cells = {
            name: [row[place] for person in self.people for row, _ in person] for place, name in enumerate(self.types)
        }
        return {
            "format": 7,
            "program": {"name": "dalenius", "version": "0.1.0"},
            "randomness": "cryptographic",
            "tables": {
                "qit": {"file": f"qit.{kind}", "rows": rows, "bytes": 1, "sha256": "0" * 64, "parts": None},
                "st": first["table"],
            },
            "columns": {
                "bucket": self.own_name("bucket"),
                "quasi_identifiers": [stated_column(name, of, cells[name], 7) for name, of in self.types.items()],
                "sensitive": first["column"],
            },
            "null_value": first["null_value"],
            "missing": first["missing"],
            "rows": rows,
            "people": len(self.people),
            "persons": persons if self.has_numbers else None,
            "buckets": len(sizes),
            "setting": [{"size": size, "buckets": n} for size, n in sorted(Counter(sizes.values()).items())],
            "loss": loss,
            "mse": loss / max(1, len(self.people) - 1),
            "method": "optimal",
            "status": "feasible",
            "bound": None,
            "gap": None,
            "adversary": {"known_records": self.known_records, "fake_values": 0},
            "chain": None,
            "strata": self.strata(),
            "groups": first["groups"],
            "bands": None,
            "values": first["values"],
            "group_table": first["group_table"],
            "others": others,
            "together": [
                {
                    "table": {
                        "file": f"{together_stem(number)}.{kind}",
                        "rows": len(self.together_lines(names)),
                        "bytes": 1,
                        "sha256": "0" * 64,
                        "parts": None,
                    },
                    "columns": [own.name for own in self.sets if own.name in names],
                }
                for number, names in enumerate(self.together, 1)
            ],
        }

    def source(self, person: str = "id") -> pa.Table:
        """The table that was published, with a column that says whose row it is."""
        rows = [(number, row, cells) for number, person in enumerate(self.people) for row, cells in person]
        columns = {person: pa.array([f"p{number}" for number, _, _ in rows])}
        for place, (name, kind) in enumerate(self.types.items()):
            columns[name] = column(kind, [row[place] for _, row, _ in rows])
        for own in self.sets:
            for name in own.columns:
                columns[name] = column(own.kind, [cells[name] for _, _, cells in rows])
        return pa.table(columns)


def together_stem(number: int) -> str:
    """The name of a table of tuples, of which the first is number 1."""
    return "together" if number == 1 else f"together{number}"


def key_of(row: Sequence[Any]) -> list[Any]:
    """By which rows are in order."""
    return [order(cell) for cell in row]


def write_rows(path: Path, types: Mapping[str, pa.DataType], rows: Sequence[tuple[Any, ...]], bucket: str) -> None:
    """Rows in the order given, in several groups. A column has nulls if it has one."""
    if path.suffix == ".csv":
        cells = [[csv_cell(kind, cell) for kind, cell in zip(types.values(), row, strict=True)] for row in rows]
        lines = [",".join(csv_cell(pa.string(), name) for name in types), *map(",".join, cells)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
        return
    nulls = [name for place, name in enumerate(types) if any(row[place] is None for row in rows)]
    group = 2 ** (max(8, len(rows) // 8).bit_length() - 1)
    path.write_bytes(naive_parquet.parquet(types, rows, bucket=bucket, group=group, nulls=nulls))


def entries(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """What a manifest says of all tables."""
    found = [*manifest["tables"].values(), manifest["group_table"]]
    for other in manifest["others"]:
        found += [other["table"], other["group_table"]]
    found += [one["table"] for one in manifest["together"]]
    return [entry for entry in found if entry is not None]


def restate(folder: Path) -> None:
    """Make the manifest's lengths and hashes those of the files that are there."""

    def restated(manifest: dict[str, Any]) -> None:
        for entry in entries(manifest):
            content = (folder / entry["file"]).read_bytes()
            entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    edit_manifest(folder, restated)


def read_rows(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a Parquet table."""
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(folder / f"{table}.parquet").to_pylist()
    return rows


def change_rows(folder: Path, table: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the rows of a Parquet table; sizes and hashes of the manifest follow, and which columns have nulls."""
    path = folder / f"{table}.parquet"
    before = pyarrow.parquet.read_table(path)
    rows = before.to_pylist()
    changed = change(rows)
    rows = rows if changed is None else changed
    stated = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    kinds = {entry.name: entry.type for entry in before.schema}
    write_rows(path, kinds, [tuple(row.values()) for row in rows], stated["columns"]["bucket"])

    def say(manifest: dict[str, Any]) -> None:
        next(entry for entry in entries(manifest) if entry["file"] == path.name)["rows"] = len(rows)
        for entry in manifest["columns"]["quasi_identifiers"] if table == "qit" else ():
            entry["nulls"] = any(row[entry["name"]] is None for row in rows)

    edit_manifest(folder, say)
    restate(folder)


CLINIC_TYPES = {"Age": pa.uint8(), "Ward": pa.string()}


def visit(age: int | None, ward: str | None, first: str, second: str, insulin: str) -> Row:
    """A row of the clinic."""
    return ((age, ward), {"diag_1": first, "diag_2": second, "insulin": insulin})


def clinic(**changes: Any) -> HandmadePeople:
    """Twelve patients: six with one visit, in two buckets of three, and six with two, in one of two and one of four.

    Each visit has two diagnoses of one kind, and says how insulin was given.
    """
    one = [
        *[
            visit(30, "A", "flu", "cold", "no"),
            visit(31, "A", "gout", "cold", "up"),
            visit(32, "B", "hiv", "flu", "no"),
        ],
        *[
            visit(40, "B", "flu", "flu", "up"),
            visit(41, None, "cold", "gout", "no"),
            visit(42, "A", "cold", "cold", "up"),
        ],
    ]
    two = [
        [visit(50, "A", "flu", "cold", "no"), visit(51, "A", "flu", "flu", "no")],
        [visit(50, "A", "cold", "hiv", "up"), visit(50, "B", "cold", "cold", "no")],
        [visit(60, "A", "flu", "cold", "no"), visit(61, "A", "flu", "gout", "up")],
        [visit(60, "A", "gout", "gout", "up"), visit(60, "B", "cold", "cold", "no")],
        [visit(None, "A", "flu", "hiv", "no"), visit(62, "A", "gout", "gout", "up")],
        [visit(60, "A", "cold", "flu", "up"), visit(60, "B", "cold", "flu", "up")],
    ]
    parts: dict[str, Any] = {
        "types": CLINIC_TYPES,
        "people": [*([row] for row in one), *two],
        "buckets": [1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 4],
        "sets": [DIAGNOSIS, INSULIN],
        "tree": [(None, 1, 1, 2), 1, 2],
        **changes,
    }
    return HandmadePeople(**parts)


DIAGNOSIS = Sensitive(
    "diagnosis",
    ["diag_1", "diag_2"],
    limits={"hiv": "1/2"},
    groups=[("Chronic", None, "3/4"), ("Joints", "Chronic", None), ("Airways", None, None)],
    group_of={"hiv": "Chronic", "gout": "Joints", "flu": "Airways", "cold": "Airways"},
)
INSULIN = Sensitive("insulin", ["insulin"])
FIRST = Sensitive("diag_1", ["diag_1"], limits={"hiv": "1/2"})
