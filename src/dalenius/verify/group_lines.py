"""The table of groups, where people can have several values: a line for each person and group of their values.

How many people of a bucket have a value under a group g cannot be counted from ST, where somebody with two of them has
two lines. So a table of its own has the people, h(g), and they are compared with the limit of g as those of a value
are. A line without a group is that of somebody who has a value in no group.

The lines must be such that people can have them. In a bucket of P people, let the parts of g be the groups and the
values that are directly under it. Whoever has one of g has one of a part, so

    max over parts of h(part)  <=  h(g)  <=  min(P, sum over parts of h(part)),

likewise of the people without a group and the values that are in none. And everybody has a value: over the top of the
tree, with the values in no group, the h add up to P at the least.

ST also says in how many rows values are. Let each of the P people have R rows of k columns, let the lines of ST under g
be about w rows together, and all other lines of the bucket about v. A person's lines are about at most k R rows, and
whoever has none of g has R rows that the other lines are about. So

    h(g)  >=  w / (k R)   and   P - h(g)  <=  v / R.

And if k is 1, nobody has two lines that are about more than half of R: h(g) is at least the number of those under g.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dalenius.release.manifest import Manifest
from dalenius.verify.bucket_limits import ExposureOfBuckets, LimitsOfBuckets
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.buckets import BucketStream, Codes, Integers, WholeBuckets
from dalenius.verify.findings import SIZES, VALUES, Report, plural, quote
from dalenius.verify.people_rows import whole_numbers
from dalenius.verify.people_sizes import PeopleOfBuckets
from dalenius.verify.people_values import Buckets
from dalenius.verify.row_order import OrderOfRows
from dalenius.verify.scan import Scanner, bucket_numbers
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_bands import value_codes
from dalenius.verify.stated_groups import StatedGroups, compare_groups

_NONE = ""  # the name under which lines without a group are counted, which no group has
_MOST_CODES = 2**31


def scan_group_lines(scanner: Scanner, groups: StatedGroups) -> Scan:
    """The table of groups, beside ST, which can be read to its end."""
    scan, manifest = Scan(), scanner.release.manifest
    people, known = PeopleOfBuckets(manifest), manifest.adversary.known_records
    exposure = ExposureOfBuckets(0, scanner.release.memory)
    limits = LimitsOfBuckets(groups.limits, known, 0, exposure, "a group of values")
    with scanner.reading("groups", scan):
        table = _GroupTable(scanner, groups, scan)
        parts = _Parts(groups, scanner.release.manifest, people)
        for values, by_rows in _values(scanner, parts):
            listed = table.up_to(int(values.numbers[-1]))
            parts.compare(values, by_rows, listed)
            limits.add(_of_people(listed, people, groups), len(groups.names) + 1)
        rest = table.up_to(None)
        limits.add(_of_people(rest, people, groups), len(groups.names) + 1)
        table.conclude(scan)
        parts.conclude(scanner.file("groups"), scanner.file("st"), groups, scan.report)
        limits.conclude([*groups.names, None], scan.report)
        compare_groups(
            manifest,
            groups,
            table.people(),
            limits.worst(len(groups.names) + 1)[:-1],
            exposure.conclude(groups.names).values,
            scan.report,
        )
    return scan


def _values(scanner: Scanner, parts: _Parts) -> Iterator[tuple[WholeBuckets, WholeBuckets]]:
    """The buckets of ST once more: as people with each value, and as lines by group and what they are about."""
    manifest = scanner.release.manifest
    codes = value_codes(manifest, [value.value for value in manifest.values], scanner.release.memory)
    by_value, by_rows = BucketStream(), BucketStream()
    for batch in scanner.batches("st", Report()):
        bucket, sensitive, *rows = batch.columns
        numbers, values = bucket_numbers(bucket), codes.of(sensitive)
        about = whole_numbers(rows[0]) if rows else np.ones(len(numbers), np.int64)
        lines = parts.lines_of(values, about)
        for whole, same in zip(by_value.add(numbers, values), by_rows.add(numbers, lines), strict=True):
            if len(whole.numbers):
                yield whole, same
    last = by_value.finish(), by_rows.finish()
    if len(last[0].numbers):
        yield last


def _of_people(listed: WholeBuckets, people: PeopleOfBuckets, groups: StatedGroups) -> WholeBuckets:
    """Buckets by their people, with no more people of a group than that, and none of a group that nobody knows."""
    there = people.are_there(listed.numbers)
    sizes = np.where(there, people.people(listed.numbers), listed.sizes) if len(there) else listed.sizes
    codes = np.minimum(listed.codes, len(groups.names))
    return replace(listed, sizes=sizes, codes=codes, counts=np.minimum(listed.counts, listed.of_runs(sizes)))


class _GroupTable:
    """The lines of the table, as buckets, as far as they are asked for."""

    def __init__(self, scanner: Scanner, groups: StatedGroups, scan: Scan) -> None:
        self._scanner, self._groups = scanner, groups
        self._order: OrderOfRows = scanner.order("groups")
        self._codes = ValueCodes("group", [*groups.names, _NONE], _NONE, scanner.release.memory)
        self._sizes = PeopleOfBuckets(scanner.release.manifest).sizes(rows=False)
        self._people = PeopleOfBuckets(scanner.release.manifest)
        self._coming = self._read(scan.report)
        self._waiting: list[WholeBuckets] = []

    def up_to(self, number: int | None) -> WholeBuckets:
        """The buckets that were not given yet, up to this one, or all."""
        while number is None or not self._waiting or self._waiting[-1].numbers[-1] < number:
            following = next(self._coming, None)
            if following is None:
                break
            self._waiting.append(following)
        together = _together(self._waiting)
        cut = len(together.numbers) if number is None else int(np.searchsorted(together.numbers, number, "right"))
        given, rest = _split(together, cut)
        self._waiting = [rest] if len(rest.numbers) else []
        return given

    def _read(self, report: Report) -> Iterator[WholeBuckets]:
        stream = BucketStream()
        for batch in self._scanner.batches("groups", report):
            bucket, group = batch.columns
            self._order.add([bucket, group])
            for whole in stream.add(bucket_numbers(bucket), self._codes.of(group)):
                if len(whole.numbers):
                    yield self._counted(whole)
        last = stream.finish()
        if len(last.numbers):
            yield self._counted(last)

    def _counted(self, whole: WholeBuckets) -> WholeBuckets:
        there = self._people.are_there(whole.numbers)
        self._sizes.add(replace(whole, sizes=np.where(there, self._people.people(whole.numbers), whole.sizes)))
        return whole

    def people(self) -> list[int]:
        """The lines of each group."""
        counted = dict(self._codes.counts)
        return [counted.get(name, 0) for name in self._groups.names]

    def conclude(self, scan: Scan) -> None:
        """Add what was wrong to the report."""
        file, stated = self._scanner.file("groups"), self._scanner.release.entry("groups").rows
        counted = dict(self._codes.counts)
        lines = sum(counted.values())
        if lines != stated:
            scan.report.fail(SIZES, f"{file} has {plural(lines, 'row')}, and the manifest says {stated:,}")
        self._sizes.conclude(file, self._sizes.rows, scan.report)
        self._scanner.conclude_order("groups", self._order, scan)
        unknown = [text for text in counted if text is not None and text not in {*self._groups.names, _NONE}]
        if unknown:
            are = plural(len(unknown), "group is", "groups are")
            first = quote(unknown[0])
            scan.report.fail(VALUES, f"in {file} {are} not in the manifest; the first: {first}", len(unknown))
        if counted.get(_NONE, 0) != self._codes.nulls:
            scan.report.fail(VALUES, f"in {file} a group has an empty name")


class _Parts:
    """Compares the people of every group with those of its parts, and with the lines under it, bucket by bucket."""

    def __init__(self, groups: StatedGroups, manifest: Manifest, people: PeopleOfBuckets) -> None:
        self._people, self._none = people, len(groups.names)
        self._columns, self._width = len(manifest.columns.sensitive.of), len(groups.names) + 1
        self._most_rows = min(people.most_rows, _MOST_CODES // self._width - 2)
        paths = [groups.path_of(value.value) for value in manifest.values]
        lowest = [*(path[-1] if path else self._none for path in paths), self._none]  # the last: of unknown values
        self._lowest: Codes = np.array(lowest, np.int32)
        parents = [path[-2] if len(path) > 1 else -1 for path in groups.paths]
        self._parent: Integers = np.array([*parents, -1], np.int64)
        self._wrong, self._lacking = Buckets(), Buckets()
        self._first: tuple[int, int, int, int, int] | None = None

    def lines_of(self, values: Codes, about: Integers) -> Codes:
        """One code for the lowest group of a line's value and for what the line is about."""
        rows = np.clip(about, 0, self._most_rows).astype(np.int32)
        codes: Codes = self._group_of(values) * np.int32(self._most_rows + 1) + rows
        return codes

    def _group_of(self, values: Codes) -> Codes:
        group: Codes = self._lowest[np.minimum(values, len(self._lowest) - 1)]
        return group

    def compare(self, values: WholeBuckets, by_rows: WholeBuckets, listed: WholeBuckets) -> None:
        """The same buckets of both tables; one that only one of them has is found by the sizes."""
        width = self._width
        at = np.searchsorted(values.numbers, listed.of_runs(listed.numbers))
        inside = np.flatnonzero(
            (values.numbers.take(np.minimum(at, len(values.numbers) - 1)) == listed.of_runs(listed.numbers))
            & (listed.codes <= self._none)
        )
        at, codes, counts = at[inside], listed.codes[inside].astype(np.int64), listed.counts[inside]
        of_values = values.of_runs(np.arange(0, len(values.numbers) * width, width)) + self._group_of(values.codes)
        parent = self._parent[codes]
        below = np.flatnonzero(parent >= 0)
        of_lines, least = self._least(by_rows)
        keys = np.concatenate((of_values, at[below] * width + parent[below], of_lines))
        shares = np.concatenate((values.counts, counts[below]))
        stated = at * width + codes
        every, place = np.unique(np.concatenate((stated, keys)), return_inverse=True)
        of_shares = place[len(stated) : len(stated) + len(shares)]
        held, most, total = np.zeros((3, len(every)), np.int64)
        held[place[: len(stated)]] = counts
        np.maximum.at(most, of_shares, shares)
        np.maximum.at(most, place[len(stated) + len(shares) :], least)
        np.add.at(total, of_shares, shares)
        people = self._people.people(values.numbers)
        highest = np.minimum(total, people[every // width])
        wrong = np.flatnonzero((held < most) | (held > highest))
        if len(wrong):
            first = wrong[0]
            number, group = int(values.numbers[every[first] // width]), int(every[first] % width)
            self._first = self._first or (number, group, int(held[first]), int(most[first]), int(highest[first]))
            self._wrong.add(values.numbers[every[wrong] // width])
        top = np.flatnonzero(parent < 0)
        covered = np.bincount(at[top], counts[top], len(values.numbers))
        self._lacking.add(values.numbers[covered < people])

    def _least(self, lines: WholeBuckets) -> tuple[Integers, Integers]:
        """How many people of a group there are at least, by what the lines under it are about.

        Groups are numbered as in `compare`: bucket times width, and the group.
        """
        group, about = np.divmod(lines.codes.astype(np.int64), self._most_rows + 1)
        people, each = self._people.people(lines.numbers), self._people.rows_each(lines.numbers)
        rows, large = about * lines.counts, np.where(2 * about > lines.of_runs(each), lines.counts, 0)
        every_row = np.add.reduceat(rows, lines.first_runs)
        bucket = lines.of_runs(np.arange(len(lines.numbers)))
        parts = []
        while len(group):
            parts.append((bucket * self._width + group, rows, large))
            group = self._parent[group]
            up = np.flatnonzero(group >= 0)
            group, bucket, rows, large = group[up], bucket[up], rows[up], large[up]
        keys, rows, large = (np.concatenate(column) for column in zip(*parts, strict=True))
        different, place = np.unique(keys, return_inverse=True)
        under, halves = np.zeros((2, len(different)), np.int64)
        np.add.at(under, place, rows)
        np.add.at(halves, place, large)
        of = different // self._width
        least = np.maximum(-((-under // self._columns) // each[of]), people[of] - (every_row[of] - under) // each[of])
        return different, np.maximum(least, halves) if self._columns == 1 else least

    def conclude(self, file: str, values: str, groups: StatedGroups, report: Report) -> None:
        """Add what was wrong to the report."""
        if self._first is not None:
            bucket, group, held, least, most = self._first
            name = quote(groups.names[group]) if group < self._none else "no group"
            are = plural(self._wrong.count, "bucket has", "buckets have")
            report.fail(
                VALUES,
                f"in {file} {are} other people of a group than the values in {values} allow; the first: bucket "
                f"{bucket:,} has {held:,} of {name}, not {least:,} to {most:,}",
                self._wrong.count,
            )
        if self._lacking.count:
            lack = plural(self._lacking.count, "bucket has", "buckets have")
            report.fail(VALUES, f"in {file} {lack} fewer lines than people", self._lacking.count)


def _together(parts: list[WholeBuckets]) -> WholeBuckets:
    """Buckets that follow each other, as one."""
    if len(parts) == 1:
        return parts[0]
    nothing = np.empty(0, np.int64)
    starts = np.cumsum([0, *(len(part.counts) for part in parts)])
    return WholeBuckets(
        np.concatenate([nothing, *(part.numbers for part in parts)]),
        np.concatenate([nothing, *(part.sizes for part in parts)]),
        np.concatenate([nothing, *(part.first_runs + start for part, start in zip(parts, starts, strict=False))]),
        np.concatenate([np.empty(0, np.int32), *(part.codes for part in parts)]),
        np.concatenate([nothing, *(part.counts for part in parts)]),
    )


def _split(whole: WholeBuckets, cut: int) -> tuple[WholeBuckets, WholeBuckets]:
    """The first buckets, and the others."""
    run = int(whole.first_runs[cut]) if cut < len(whole.first_runs) else len(whole.counts)
    return (
        WholeBuckets(
            whole.numbers[:cut], whole.sizes[:cut], whole.first_runs[:cut], whole.codes[:run], whole.counts[:run]
        ),
        WholeBuckets(
            whole.numbers[cut:], whole.sizes[cut:], whole.first_runs[cut:] - run, whole.codes[run:], whole.counts[run:]
        ),
    )
