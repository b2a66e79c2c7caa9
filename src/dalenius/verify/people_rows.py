"""QIT where people may have several rows: is everybody told apart, in the one way there is, and in the right stratum?

In a bucket of P people with R rows each, the rows 1 to R are those of person 1, the next R those of person 2, and so on
up to person P. So the number of a row follows from its place in the bucket (`NumbersOfPeople`).

Which person is the first is a function of the rows, too: each person's rows are in order, and the people of a bucket in
the order of their lists of rows, compared row by row (`OrderOfPeople`). Else the numbers could say something: who has
which value, for example.

A cut of the tree asks for the least value of a person's rows, nulls and NaN being more than everything, or for how many
rows there are. The rank of a value among the cuts of a column never falls as the value grows, so the rank of the least
value is the least rank (`StrataOfPeople`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.model.memory import ReadingMemory
from dalenius.release.manifest import Strata
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.buckets import BucketStream, Integers
from dalenius.verify.findings import ORDER, SIZES, STRATA, Report, plural
from dalenius.verify.people_sizes import PeopleOfBuckets
from dalenius.verify.row_order import AnyIntegers, as_arrow, falls, integers, is_bytes
from dalenius.verify.scan import Scanner, bucket_numbers
from dalenius.verify.stated_tree import StrataOfRows, Tree


def scan_people_rows(scanner: Scanner) -> Scan:
    """QIT: layout, sizes, people's numbers, strata and order."""
    scan, manifest = Scan(), scanner.release.manifest
    people = PeopleOfBuckets(manifest)
    sizes, order, stream = people.sizes(rows=True), scanner.order("qit"), BucketStream()
    numbers, listed = NumbersOfPeople(people), OrderOfPeople(scanner.is_ranked("qit"), scanner.release.memory)
    strata: StrataOfPeople | None = None
    with scanner.reading("qit", scan):
        for batch in scanner.batches("qit", scan.report):
            person, *others, bucket = batch.columns
            buckets = bucket_numbers(bucket)
            for whole in stream.add(buckets):
                sizes.add(whole)
            order.add([bucket, person, *others])
            places = numbers.add(buckets, whole_numbers(person))
            if numbers.are_lost:
                continue  # people without all of their rows, which is a wrong size
            each = people.rows_each(buckets)
            listed.add([bucket, *others], places, each)
            if manifest.strata is not None and scanner.has_tree:
                types = dict(zip(batch.schema.names, batch.schema.types, strict=True))
                strata = strata or StrataOfPeople(manifest.strata, Tree.of(manifest.strata, types))
                strata.add_rows(batch, buckets, places, each)
        sizes.add(stream.finish())
        scanner.conclude("qit", sizes, order, scan)
        numbers.conclude(scanner.file("qit"), scan.report)
        listed.conclude(scanner.file("qit"), scan.report)
        if strata is not None:
            strata.conclude(scanner.file("qit"), manifest.is_strict, scan.report)
    return scan


def whole_numbers(column: pa.Array) -> Integers:
    """A column of whole numbers, which strict files have as references to the different ones."""
    if pa.types.is_dictionary(column.type):
        entries = integers(column.dictionary).astype(np.int64)
        return entries[integers(column.indices)] if len(entries) else np.empty(0, np.int64)
    return integers(column).astype(np.int64)


class NumbersOfPeople:
    """Counts the rows whose person has another number than the place of the row in its bucket says."""

    def __init__(self, people: PeopleOfBuckets) -> None:
        self._people = people
        self._wrong = 0
        self._last = 0  # the bucket that may go on, and the rows that it has so far
        self._open = 0
        self.are_lost = False

    def add(self, buckets: Integers, numbers: Integers) -> Integers:
        """The next rows. Gives the place of each among the rows of its person, from 0."""
        if not len(buckets):
            return np.empty(0, np.int64)
        starts = np.append(0, np.flatnonzero(buckets[1:] != buckets[:-1]) + 1)
        lengths = np.diff(starts, append=len(buckets))
        places = np.arange(len(buckets)) - np.repeat(starts, lengths)
        if buckets[0] == self._last:
            places[: lengths[0]] += self._open
        each = self._people.rows_each(buckets)
        self._wrong += int(np.count_nonzero(numbers != places // each + 1))
        within: Integers = places % each
        ends = np.append(starts[1:], len(buckets)) - 1
        whole = within[ends[:-1]] + 1 == each[ends[:-1]]
        unfinished = buckets[0] != self._last and self._is_unfinished()
        if unfinished or not whole.all() or not self._people.are_there(buckets[starts]).all():
            self.are_lost = True
        self._last, self._open = int(buckets[-1]), int(places[-1]) + 1
        return within

    def _is_unfinished(self) -> bool:
        """Whether the last person of the last bucket has fewer rows than the others."""
        return self._open % int(self._people.rows_each(np.array([self._last]))[0]) > 0

    def conclude(self, file: str, report: Report) -> None:
        """Add what was wrong to the report."""
        if self._wrong:
            rows = plural(self._wrong, "row has", "rows have")
            report.fail(SIZES, f"in {file} {rows} another person's number than their place in the bucket", self._wrong)
        if self.are_lost or self._is_unfinished():
            report.not_checked([STRATA, ORDER], "people do not have the rows that their strata say")


@dataclass(frozen=True)
class _People:
    """Rows of people: the columns to compare them by, and of each row its place in its person, and that one's rows."""

    columns: list[pa.Array]
    places: Integers
    each: Integers

    def starts(self) -> Integers:
        """The first rows of people with all of their rows here."""
        return _whole_people(self.places, self.each)

    def followed_by(self, other: _People) -> _People:
        """These rows, and then those."""
        pairs = zip(self.columns, other.columns, strict=True)
        joined = [pa.concat_arrays([before, after]) for before, after in pairs]
        return _People(joined, np.append(self.places, other.places), np.append(self.each, other.each))

    def part(self, start: int) -> _People:
        """The rows from a place on."""
        return _People([column.slice(start) for column in self.columns], self.places[start:], self.each[start:])


def _whole_people(places: Integers, each: Integers) -> Integers:
    starts = np.flatnonzero(places == 0)
    return starts[starts + each[starts] <= len(places)]


class OrderOfPeople:
    """Counts the people whose rows come before those of the person above them in the bucket.

    Most people are compared within a batch. `_before` has the last person of the batches so far with all of their rows,
    and what there is of the next.
    """

    def __init__(self, ranked: bool, memory: ReadingMemory) -> None:
        self._ranked, self._memory = ranked, memory
        self._wrong = 0
        self._before: _People | None = None

    def add(self, columns: Sequence[pa.Array], places: Integers, each: Integers) -> None:
        """The next rows: bucket and quasi-identifiers, the place of each in its person, and that person's rows."""
        starts = _whole_people(places, each)
        self._wrong += self._count(columns, starts, each, self._ranked)
        end = int(starts[0] + each[starts[0]]) if len(starts) else len(places)
        between = _People([_part(column, 0, end) for column in columns], places[:end], each[:end])
        if self._before is not None:
            between = self._before.followed_by(between)
            own = between.starts()
            self._wrong += self._count(between.columns, own, between.each, False)
            between = between.part(int(own[-1]) if len(own) else 0)
        if len(starts):
            first = int(starts[-1])
            between = _People([_part(column, first) for column in columns], places[first:], each[first:])
        self._before = between
        held = sum(int(column.nbytes) for column in between.columns)
        self._memory.require(2 * held, self._memory.state, "the rows of a person")

    def _count(self, columns: Sequence[pa.Array], starts: Integers, each: Integers, ranked: bool) -> int:
        """People with as many rows follow each other; with fewer or more, they are in another bucket."""
        if not len(starts):
            return 0
        rows = each[starts]
        changes = np.flatnonzero(rows[1:] != rows[:-1]) + 1
        stretches = np.split(starts, changes)
        return sum(falls(_rows_of(columns, own, int(each[own[0]])), ranked) for own in stretches)

    def conclude(self, file: str, report: Report) -> None:
        """Add what was wrong to the report."""
        if self._wrong:
            people = plural(self._wrong, "person comes", "people come")
            report.fail(ORDER, f"in {file} {people} before the person above, whose rows are less", self._wrong)


def _rows_of(columns: Sequence[pa.Array], starts: Integers, rows: int) -> Iterator[pa.Array]:
    """What people are compared by: their bucket, then the columns of their first row, then of their second."""
    bucket, *others = columns
    yield bucket.take(as_arrow(starts))
    for place in range(rows):
        at = as_arrow(starts + place)
        for column in others:
            yield column.take(at)


def _part(column: pa.Array, start: int, end: int | None = None) -> pa.Array:
    """Some rows of a column, without whatever else the dictionary of its batch has; never a text spelled out twice."""
    part = column.slice(start) if end is None else column.slice(start, end - start)
    if not pa.types.is_dictionary(part.type):
        return part
    if not is_bytes(part.type.value_type):
        return part.dictionary_decode()
    used = pc.unique(part.indices.drop_null())
    return pa.DictionaryArray.from_arrays(pc.index_in(part.indices, value_set=used), part.dictionary.take(used))


class StrataOfPeople(StrataOfRows):
    """Counts the people in buckets of another stratum than theirs, batch by batch."""

    what = ("person", "people")

    def __init__(self, strata: Strata, tree: Tree) -> None:
        super().__init__(strata, tree)
        self._open: list[AnyIntegers] = [np.empty(0, np.int64) for _ in tree.columns]  # the least ranks so far

    def add_rows(self, batch: pa.RecordBatch, buckets: Integers, places: Integers, each: Integers) -> None:
        """The next rows, each with its place in its person, and the rows of that person."""
        starts = np.flatnonzero(places == 0)
        if len(buckets) and (not len(starts) or starts[0] > 0):
            starts = np.append(0, starts)  # somebody whose first rows are in batches before
        if not len(starts):
            return
        ranks = [np.minimum.reduceat(own, starts) for own in self._tree.rank(batch)]
        if places[0] > 0:
            for own, before in zip(ranks, self._open, strict=True):
                own[0] = min(own[0], before[0])
        is_whole = bool(places[-1] + 1 == each[-1])
        self._open = [own[-1:] for own in ranks] if not is_whole else []
        people = len(starts) if is_whole else len(starts) - 1
        if people:
            least = [own[:people] for own in ranks]
            if self._tree.row_ranks is not None:
                least.append(self._tree.row_ranks.of(as_arrow(each[starts[:people]])))
            self.add_ranked(least, buckets[starts[:people]])
