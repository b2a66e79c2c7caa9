"""Tables of tuples: what goes with what in sensitive columns that are kept together.

A line is about a person and a tuple, and in how many of the person's rows it is: in one, if people have one row each.
The table has to be one of the same people as the tables of its columns. In a bucket, for each value of a column:

- its tuples are in as many rows as the value is, since each row has one value and one tuple;
- it has at least as many lines as the value, since whoever has the value has a tuple with it;
- lines of one tuple are different people, each with the value in at least as many rows: so of these lines, by rows in
  descending order, the first is about no more rows than the first line of the value, and so on.

Where people have one row each this means: the same lines. Both tables are read side by side, bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dalenius.model.known_column import KnownColumn
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.buckets import Codes, Integers, NotAscendingError
from dalenius.verify.findings import SIZES, VALUES, Report, plural
from dalenius.verify.known_sums import KnownSums, ranks_of
from dalenius.verify.people_rows import whole_numbers
from dalenius.verify.people_sizes import PeopleOfBuckets
from dalenius.verify.scan import Scanner, bucket_numbers
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_bands import value_codes

_LAST = 2**63 - 1  # a bucket that no table has


@dataclass
class TogetherScan(Scan):
    """What reading a table of tuples showed."""

    known: tuple[KnownColumn, ...] = ()


@dataclass(frozen=True)
class _Lines:
    """Some lines: the bucket of each, the codes of its values, and the rows that it is about."""

    buckets: Integers
    codes: tuple[Codes, ...]
    rows: Integers

    def part(self, start: int, end: int) -> _Lines:
        return _Lines(self.buckets[start:end], tuple(own[start:end] for own in self.codes), self.rows[start:end])

    def followed_by(self, other: _Lines) -> _Lines:
        pairs = zip(self.codes, other.codes, strict=True)
        return _Lines(
            np.append(self.buckets, other.buckets),
            tuple(np.append(own, more) for own, more in pairs),
            np.append(self.rows, other.rows),
        )

    @property
    def size(self) -> int:
        return int(self.buckets.nbytes) + int(self.rows.nbytes) + sum(int(own.nbytes) for own in self.codes)


class _Reader:
    """Gives the lines of a table up to a bucket. Buckets have to ascend."""

    def __init__(self, release: ReleaseFolder, batches: Iterator[_Lines], columns: int) -> None:
        self._memory, self._batches = release.memory, batches
        nothing = np.empty(0, np.int64)
        self._open = _Lines(nothing, tuple(np.empty(0, np.int32) for _ in range(columns)), nothing)
        self._ended = False

    def next_whole(self) -> tuple[int, _Lines]:
        """The last bucket that is whole after the next batch, and the lines that have not been given, up to it."""
        self._read()
        open_bucket = int(self._open.buckets[-1]) if len(self._open.buckets) else 1
        last = _LAST if self._ended else open_bucket - 1
        return last, self._take(last)

    def until(self, last: int) -> _Lines:
        """All further lines up to a bucket."""
        while not self._ended and (not len(self._open.buckets) or int(self._open.buckets[-1]) <= last):
            self._read()
        return self._take(last)

    def _read(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            self._ended = True
            return
        joined = self._open.followed_by(batch)
        if (np.diff(joined.buckets) < 0).any():
            raise NotAscendingError
        self._memory.require(3 * joined.size, self._memory.state, "the lines of a bucket")
        self._open = joined

    def _take(self, last: int) -> _Lines:
        end = int(np.searchsorted(self._open.buckets, last, side="right"))
        taken, self._open = self._open.part(0, end), self._open.part(end, len(self._open.buckets))
        return taken


def scan_together(scanner: Scanner, number: int) -> TogetherScan:
    """Table of tuples `number` against the tables of its columns, which have to be readable."""
    scan, whole = TogetherScan(), scanner.release
    names = list(whole.manifest.sensitive_names)
    columns = [names.index(name) for name in whole.manifest.together[number].columns]
    views = [whole.view(place) for place in columns]
    codes = [_codes(view) for view in views]
    own = Scanner(whole.kept_together(number), scanner.watch, scanner.rows)
    compared = _Compared(whole.manifest, own.file("together"), views, codes)
    order = own.order("together")

    def tuples() -> Iterator[_Lines]:
        for batch in own.batches("together", scan.report):
            order.add(batch.columns)
            bucket, *cells = batch.columns
            numbers = bucket_numbers(bucket)
            rows = whole_numbers(cells.pop()) if len(cells) > len(columns) else np.ones(len(numbers), np.int64)
            lines = _Lines(numbers, tuple(one.of(cell) for one, cell in zip(codes, cells, strict=True)), rows)
            compared.look(lines)
            yield lines

    with own.reading("together", scan):
        reader = _Reader(whole, tuples(), len(columns))
        values = [_Reader(whole, _values(view, one), 1) for view, one in zip(views, codes, strict=True)]
        last = 0
        while last < _LAST:
            last, lines = reader.next_whole()
            compared.add(lines, [one.until(last) for one in values])
        compared.conclude(scan.report)
        own.conclude_order("together", order, scan)
        scan.known = compared.known()
    return scan


def _codes(view: ReleaseFolder) -> ValueCodes:
    return value_codes(view.manifest, [value.value for value in view.manifest.values], view.memory)


def _values(view: ReleaseFolder, codes: ValueCodes) -> Iterator[_Lines]:
    """The lines of ST, which was judged already."""
    persons = view.manifest.persons
    for batch in view.batches("st", coded=True):
        bucket, sensitive, *_ = batch.columns
        numbers = bucket_numbers(bucket)
        rows = whole_numbers(batch.column(2)) if persons is not None else np.ones(len(numbers), np.int64)
        yield _Lines(numbers, (codes.of(sensitive),), rows)


@dataclass
class _Wrong:
    """Buckets in which something is wrong, of which the first is named."""

    count: int = 0
    first: int = 0

    def add(self, buckets: Integers) -> None:
        if len(buckets):
            self.first = self.first or int(buckets[0])
            self.count += len(np.unique(buckets))


class _Compared:
    """Tuples with the values of their columns, bucket by bucket."""

    def __init__(
        self, manifest: Manifest, file: str, views: Sequence[ReleaseFolder], codes: Sequence[ValueCodes]
    ) -> None:
        self._file, self._codes = file, codes
        self._files = [view.name("st") for view in views]
        self._names = [view.manifest.columns.sensitive.name for view in views]
        self._people = PeopleOfBuckets(manifest)
        self._stated = next(one.table.rows for one in manifest.together if one.table.file == file)
        strata = manifest.strata.strata if manifest.strata is not None else []
        self._several = manifest.persons is not None and any(stratum.rows_each > 1 for stratum in strata)
        self._limits = [[Fraction(value.limit) for value in view.manifest.values] for view in views]
        self._lines, self._outside = 0, 0
        self._other_rows, self._other_people = [_Wrong() for _ in views], [_Wrong() for _ in views]
        self._pairs = {(known, asked): KnownSums() for known in range(len(views)) for asked in range(len(views))}

    def look(self, lines: _Lines) -> None:
        """Every line by itself."""
        self._lines += len(lines.buckets)
        self._outside += int(np.count_nonzero((lines.rows < 1) | (lines.rows > self._people.rows_each(lines.buckets))))

    def add(self, lines: _Lines, values: Sequence[_Lines]) -> None:
        """Whole buckets: their tuples, and their values of each column."""
        alike = ranks_of([lines.buckets, *lines.codes])
        held = []
        for place, own in enumerate(values):
            many = len(self._codes[place].texts)
            of_tuples, of_values = _keys(lines, place, many), _keys(own, 0, many)
            different, counts, rows = _count(of_values, own.rows)
            self._compare(place, many, (of_tuples, lines.rows), (different, counts, rows))
            place_of = np.minimum(np.searchsorted(different, of_tuples), max(0, len(different) - 1))
            there = different[place_of] == of_tuples if len(different) else np.zeros(len(of_tuples), bool)
            if self._several:
                self._compare_people(place, lines, alike, there, place_of, (of_values, own.rows, counts))
            held.append(np.where(there, counts[place_of], 0) if len(different) else np.zeros(len(of_tuples), np.int64))
        for (known, asked), sums in self._pairs.items():
            if known != asked and len(lines.buckets):
                sums.add(lines.buckets, lines.codes[known], lines.codes[asked], held[known], self._limits[asked])

    def _compare(
        self,
        place: int,
        many: int,
        tuples: tuple[Integers, Integers],
        values: tuple[Integers, Integers, Integers],
    ) -> None:
        """In how many rows each value is by the one table and by the other, and in how many lines."""
        different, counts, rows = values
        mine, my_counts, my_rows = _count(*tuples)
        if np.array_equal(mine, different) and np.array_equal(my_rows, rows) and bool((my_counts >= counts).all()):
            return
        every = np.union1d(mine, different)
        sums = []
        for keys, numbers in ((mine, my_rows), (different, rows), (mine, my_counts), (different, counts)):
            at = np.zeros(len(every), np.int64)
            at[np.searchsorted(every, keys)] = numbers
            sums.append(at)
        self._other_rows[place].add(every[(sums[0] != sums[1]) | (sums[2] < sums[3])] // many)

    def _compare_people(
        self,
        place: int,
        lines: _Lines,
        alike: Integers,
        there: np.ndarray,
        place_of: Integers,
        values: tuple[Integers, Integers, Integers],
    ) -> None:
        """Lines of one tuple are different people with the value, in as many rows or more."""
        keys, rows, counts = values
        ascending = rows[np.lexsort((rows, keys))]
        ends = np.cumsum(counts)
        order = np.lexsort((lines.rows, alike))
        group = alike[order]
        lasts = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)
        from_the_end = lasts[np.searchsorted(group[lasts], group)] - np.arange(len(group)) if len(group) else group
        of = place_of[order]
        enough = there[order] & (from_the_end < counts[of]) if len(counts) else np.zeros(len(group), bool)
        least = np.where(enough, ascending[(ends[of] - 1 - from_the_end) * enough], 0) if len(counts) else group * 0
        self._other_people[place].add(np.sort(lines.buckets[order][least < lines.rows[order]]))

    def conclude(self, report: Report) -> None:
        """Add what was wrong to the report, after the last line."""
        if self._lines != self._stated:
            report.fail(SIZES, f"{self._file} has {plural(self._lines, 'row')}, and the manifest says {self._stated:,}")
        if self._outside:
            lines = plural(self._outside, "line is", "lines are")
            report.fail(
                SIZES, f"in {self._file} {lines} about fewer than 1 or more than a person's rows", self._outside
            )
        for file, rows, people in zip(self._files, self._other_rows, self._other_people, strict=True):
            wrong, other = (rows, "others") if rows.count else (people, "more people with them")
            if wrong.count:
                has = plural(wrong.count, "bucket has other values", "buckets have other values")
                if other != "others":
                    has = plural(wrong.count, "bucket has more of a tuple", "buckets have more of a tuple")
                report.fail(
                    VALUES, f"in {self._file} {has} than {file}; the first: bucket {wrong.first:,}", wrong.count
                )

    def known(self) -> tuple[KnownColumn, ...]:
        """What somebody gets who knows one of two columns."""
        return tuple(
            KnownColumn(
                self._names[known],
                self._names[asked],
                sums.people,
                sums.above,
                sums.pinned,
                sums.largest,
                self._several,
            )
            for (known, asked), sums in self._pairs.items()
            if known != asked
        )


def _keys(lines: _Lines, place: int, many: int) -> Integers:
    return lines.buckets * many + lines.codes[place]


def _count(keys: Integers, rows: Integers) -> tuple[Integers, Integers, Integers]:
    """The different keys in order, how many lines each has, and in how many rows they are."""
    different, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    sums = np.zeros(len(different), np.int64)
    np.add.at(sums, places, rows)
    return different, counts, sums
