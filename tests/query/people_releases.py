"""Releases of people with several rows and values, made by hand, and all truths that could be behind one.

Nothing of the publishing code is used. A row is its quasi-identifiers and, for every sensitive column, its values: one,
or several where the column stands for several of the source.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from dalenius.release.column_entries import GroupEntry, KeptTogether, SensitiveEntry, SensitiveSet
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import (
    FILE,
    FORMAT,
    Adversary,
    Column,
    Columns,
    Leaf,
    Manifest,
    Persons,
    Program,
    SizeGroupPart,
    Strata,
    Stratum,
    Value,
    Worst,
)
from dalenius.release.two_tables import TableFile, Tables
from tests.naive_parquet import parquet

Row = tuple[tuple[Any, ...], tuple[tuple[Any, ...], ...]]  # quasi-identifiers, and values by sensitive column
Line = tuple[Any, int]  # a value, and in how many rows of its person it is
Bundle = frozenset[Line]  # all that somebody has in a sensitive column


@dataclass(frozen=True)
class People:
    """What goes into a release: the rows of each person, and the person's bucket.

    `sets` are the sensitive columns, with the number of columns of the source that each stands for. `groups` are groups
    of the values of the first one, (name, parent, values that are in no smaller group).
    """

    people: Sequence[tuple[int, Sequence[Row]]]
    columns: Mapping[str, pa.DataType] = field(default_factory=lambda: {"Age": pa.int64()})
    sets: Mapping[str, int] = field(default_factory=lambda: {"Disease": 1})
    has_persons: bool = True
    groups: Sequence[tuple[str, str | None, Sequence[str]]] = ()
    dropped: int = 0
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    together: Sequence[Sequence[str]] = ()

    def bundle(self, rows: Sequence[Row], number: int) -> Bundle:
        """What somebody has in a sensitive column."""
        return frozenset(Counter(value for _, values in rows for value in set(values[number])).items())

    def lines(self, bucket: int, number: int) -> list[Line]:
        """The lines of a bucket."""
        bundles = [self.bundle(rows, number) for own, rows in self.people if own == bucket]
        return sorted((line for bundle in bundles for line in bundle), key=_in_order)

    def tuples(self, bucket: int, names: Sequence[str]) -> list[tuple[tuple[Any, ...], int]]:
        """The tuples of people of a bucket, and in how many of their rows each is."""
        places = [list(self.sets).index(name) for name in names]
        found: list[tuple[tuple[Any, ...], int]] = []
        for own, rows in self.people:
            if own == bucket:
                found += Counter(tuple(values[place][0] for place in places) for _, values in rows).items()
        return sorted(found, key=lambda line: (_in_order(line[0]), line[1]))

    @property
    def buckets(self) -> list[int]:
        return sorted({bucket for bucket, _ in self.people})

    def rows_of(self, bucket: int) -> list[list[tuple[Any, ...]]]:
        """The quasi-identifiers of the people of a bucket, in the order of their numbers."""
        return sorted(
            (sorted((cells for cells, _ in rows), key=_in_order) for own, rows in self.people if own == bucket),
            key=lambda rows: [_in_order(row) for row in rows],
        )

    def path_of(self, value: Any) -> list[str]:
        """The groups that hold a value of the first sensitive column."""
        parents = {name: parent for name, parent, _ in self.groups}
        name = next((name for name, _, values in self.groups if value in values), None)
        path = []
        while name is not None:
            path.append(name)
            name = parents[name]
        return path

    def write(self, folder: Path, kind: str = "parquet") -> ReleaseFolder:
        """The release in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        whole = pa.int64()
        number = {"person": whole} if self.has_persons else {}
        qit = [
            (*((p,) if self.has_persons else ()), *cells, bucket)
            for bucket in self.buckets
            for p, rows in enumerate(self.rows_of(bucket), 1)
            for cells in rows
        ]
        files = {"qit": _write(folder, f"qit.{kind}", {**number, **self.columns, "bucket": whole}, qit)}
        for k, name in enumerate(self.sets):
            rows = {"rows": whole} if self.has_persons else {}
            st = [(b, *(line if rows else line[:1])) for b in self.buckets for line in self.lines(b, k)]
            own = self.types.get(name, pa.string())
            files[f"st{k}"] = _write(folder, f"st{k + 1 if k else ''}.{kind}", {"bucket": whole, name: own, **rows}, st)
        for k, names in enumerate(self.together):
            own = {name: self.types.get(name, pa.string()) for name in names}
            tuples = [(b, *cells, *((r,) if rows else ())) for b in self.buckets for cells, r in self.tuples(b, names)]
            name = f"together{k + 1 if k else ''}.{kind}"
            files[f"together{k}"] = _write(folder, name, {"bucket": whole, **own, **rows}, tuples)
        if self.groups:
            files["groups"] = _write(folder, f"st_groups.{kind}", {"bucket": whole, "group": pa.string()}, self._held())
        manifest = self.manifest(files)
        (folder / FILE).write_text(manifest.to_json(), encoding="utf-8")
        return ReleaseFolder(folder, manifest)

    def _held(self) -> list[tuple[int, str | None]]:
        held: list[tuple[int, str | None]] = []
        for bucket, rows in self.people:
            paths = [self.path_of(value) for value, _ in self.bundle(rows, 0)]
            held += [(bucket, name) for name in {name for path in paths for name in path}]
            held += [(bucket, None)] if [] in paths else []
        return sorted(held, key=lambda line: (line[0], line[1] is None, line[1] or ""))

    def manifest(self, files: Mapping[str, TableFile]) -> Manifest:
        people = Counter(bucket for bucket, _ in self.people)
        setting = [SizeGroupPart(size=s, buckets=n) for s, n in sorted(Counter(people.values()).items())]
        rows = sum(len(rows) for _, rows in self.people)
        first, *others = (self._set(k, files) for k in range(len(self.sets)))
        cells = [row for _, rows in self.people for row, _ in rows]
        columns = [
            Column(name=name, type=str(kind), nulls=any(row[i] is None for row in cells))
            for i, (name, kind) in enumerate(self.columns.items())
        ]
        strata = Strata(
            tree=[Leaf(stratum=1)],
            margin="1",
            strata=[Stratum(rows=rows, setting=setting, rows_each=1, applies=True, since=1)],
        )
        return Manifest(
            format=FORMAT,
            program=Program(name="dalenius", version="0.1.0"),
            randomness="seeded: not for publication",
            tables=Tables(qit=files["qit"], st=first.table),
            columns=Columns(bucket="bucket", quasi_identifiers=columns, sensitive=first.column),
            null_value=None,
            missing=[],
            rows=rows,
            people=len(self.people),
            persons=Persons(number="person", rows="rows", most_rows=None, dropped=self.dropped)
            if self.has_persons
            else None,
            buckets=len(people),
            setting=setting,
            loss=0,
            mse=0.0,
            method="optimal",  # type: ignore[arg-type]
            status="feasible",  # type: ignore[arg-type]
            bound=None,
            gap=None,
            adversary=Adversary(known_records=0, fake_values=0),
            chain=None,
            strata=strata if self.has_persons else None,
            groups=first.groups,
            bands=None,
            values=first.values,
            group_table=first.group_table,
            others=others,
            together=[
                KeptTogether(table=files[f"together{k}"], columns=list(names)) for k, names in enumerate(self.together)
            ],
        )

    def _set(self, k: int, files: Mapping[str, TableFile]) -> SensitiveSet:
        name = list(self.sets)[k]
        values = sorted({v for b in self.buckets for v, _ in self.lines(b, k)}, key=lambda v: _in_order((v,)))
        worst = Worst(count=1, size=1)
        names = [group for group, _, _ in self.groups] if not k else []

        def group(value: Any) -> int | None:
            path = self.path_of(value) if not k else []
            return names.index(path[0]) if path else None

        groups = [
            GroupEntry(name=g, level="", parent=None if p is None else names.index(p), limit=None, count=1, worst=worst)
            for g, p, _ in self.groups
        ]
        source = [name] if self.sets[name] == 1 else [f"{name}_{i}" for i in range(self.sets[name])]
        kind = str(self.types.get(name, pa.string()))
        return SensitiveSet(
            table=files[f"st{k}"],
            group_table=files["groups"] if names else None,
            column=SensitiveEntry(name=name, type=kind, nulls=None in values, of=source),
            null_value=None,
            missing=[],
            groups=groups if names else None,
            bands=None,
            values=[Value(value=str(v), count=1, limit="1", worst=worst, group=group(v), applies=True) for v in values],
        )


def _in_order(cells: Any) -> Any:
    return [(cell is None, 0 if cell is None else cell) for cell in cells]


def _write(folder: Path, name: str, types: Mapping[str, pa.DataType], rows: Sequence[Sequence[Any]]) -> TableFile:
    if name.endswith(".csv"):
        columns = {key: pa.array([row[i] for row in rows], kind) for i, (key, kind) in enumerate(types.items())}
        pyarrow.csv.write_csv(pa.table(columns), folder / name, pyarrow.csv.WriteOptions(quoting_style="needed"))
    else:
        (folder / name).write_bytes(parquet(types, rows))
    return TableFile(file=name, rows=len(rows), bytes=1, sha256="0" * 64, parts=None)


# All truths behind a release: a bucket's lines, dealt to its people in every way, and each person's values to rows.


def dealings(lines: Sequence[Line], people: int, each: int, slots: int) -> Iterator[tuple[Bundle, ...]]:
    """All ways to deal lines to people: nobody has a value twice, and everybody has enough for their rows."""
    values: dict[Any, list[int]] = {}
    for value, rows in lines:
        values.setdefault(value, []).append(rows)

    def deal(left: list[Any], hands: tuple[tuple[Line, ...], ...]) -> Iterator[tuple[Bundle, ...]]:
        if any(sum(rows for _, rows in hand) > each * slots for hand in hands):
            return
        if not left:
            if all(sum(rows for _, rows in hand) >= each for hand in hands):
                yield tuple(frozenset(hand) for hand in hands)
            return
        value, *others = left
        counts = values[value] + [0] * (people - len(values[value]))
        for dealt in set(itertools.permutations(counts)):
            more = (((value, rows),) if rows else () for rows in dealt)
            yield from deal(others, tuple(hand + own for hand, own in zip(hands, more, strict=True)))

    yield from deal(list(values), ((),) * people)


def layouts(bundle: Bundle, each: int, slots: int) -> Iterator[tuple[frozenset[Any], ...]]:
    """All ways to lay somebody's values into their rows: 1 to `slots` different ones into each."""
    places = [list(itertools.combinations(range(each), rows)) for _, rows in bundle]
    for chosen in itertools.product(*places):
        cells = [
            frozenset(value for (value, _), own in zip(bundle, chosen, strict=True) if i in own) for i in range(each)
        ]
        if all(1 <= len(cell) <= slots for cell in cells):
            yield tuple(cells)


Marks = tuple[tuple[bool, ...], ...]  # for every person, what meets a part: the person, or each of their rows


def marks(
    people: People, bucket: int, number: int, meets: Callable[[Any], bool], unit: str, groups: bool = True
) -> Counter[Marks]:
    """In how many truths which people, or rows, of a bucket meet a condition on a sensitive column."""
    own = [rows for mine, rows in people.people if mine == bucket]
    each, slots = len(own[0]), list(people.sets.values())[number]
    stated = Counter(g for b, g in people._held() if b == bucket) if people.groups and not number else None
    found: Counter[Marks] = Counter()
    for hands in dealings(people.lines(bucket, number), len(own), each, slots):
        if groups and stated is not None and _groups_of(people, hands) != stated:
            continue
        ways = [Counter[tuple[bool, ...]]() for _ in hands]
        for way, hand in zip(ways, hands, strict=True):
            if unit == "people":
                way[(any(meets(value) for value, _ in hand),)] = sum(1 for _ in layouts(hand, each, slots))
            else:
                way.update(tuple(any(map(meets, cell)) for cell in cells) for cells in layouts(hand, each, slots))
        for chosen in itertools.product(*(way.items() for way in ways)):
            times = 1
            for _, number_of in chosen:
                times *= number_of
            found[tuple(mark for mark, _ in chosen)] += times
    return found


def _groups_of(people: People, hands: Sequence[Bundle]) -> Counter[str | None]:
    held: Counter[str | None] = Counter()
    for hand in hands:
        paths = [people.path_of(value) for value, _ in hand]
        held.update({name for path in paths for name in path})
        held.update([None] if [] in paths else [])
    return held


@dataclass(frozen=True)
class Truths:
    """What a count is over all truths behind a release, each equally likely."""

    low: int
    high: int
    mean: Fraction
    variance: Fraction


def truths(
    people: People,
    rows: Callable[[tuple[Any, ...]], bool],
    values: Mapping[int, Callable[[Any], bool]],
    unit: str,
) -> Truths:
    """All truths about a condition: how many people or rows meet it. Buckets are independent."""
    low, high, mean, variance = 0, 0, Fraction(0), Fraction(0)
    for bucket in people.buckets:
        certain: Counter[Marks] = Counter()
        of_rows = tuple(tuple(map(rows, own)) for own in people.rows_of(bucket))
        certain[of_rows if unit == "rows" else tuple((any(own),) for own in of_rows)] = 1
        parts = [certain, *(marks(people, bucket, number, meets, unit) for number, meets in values.items())]
        counts: Counter[int] = Counter()
        for chosen in itertools.product(*(part.items() for part in parts)):
            times = 1
            for _, number_of in chosen:
                times *= number_of
            units = zip(*(itertools.chain.from_iterable(mark) for mark, _ in chosen), strict=True)
            counts[sum(all(unit) for unit in units)] += times
        total = sum(counts.values())
        first = Fraction(sum(n * times for n, times in counts.items()), total)
        low, high, mean = low + min(counts), high + max(counts), mean + first
        variance += Fraction(sum(n * n * times for n, times in counts.items()), total) - first**2
    return Truths(low, high, mean, variance)
