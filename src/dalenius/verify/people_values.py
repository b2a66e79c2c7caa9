"""ST where people can have several values: a line for each person and value, and in how many of their rows it is.

A bucket has P people with R rows each, as the setting and the strata say. So its lines are not counted against a size:

- h, the lines of a value, are the people who have it: at most P. The limit of the value bounds h, and P is the size.
- A line is about at least 1 and at most R rows. Every row has a value of one column, and of k columns between 1 and k
  different ones. So the rows of all lines add up to P R, or, of k columns, to P R at the least and k P R at the most.
  Without people's rows in the table, R is 1, and so is what each line is about.
- Of one column, whoever has a value in fewer than R rows has another one in others; so of the lines that are about
  fewer than R rows, at most half have the same value. And nobody has two lines that are about more than half of R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.release.manifest import Manifest
from dalenius.verify.bucket_shares import Scan, Shares
from dalenius.verify.buckets import BucketStream, Codes, Integers, WholeBuckets
from dalenius.verify.findings import SIZES, Report, plural
from dalenius.verify.people_rows import whole_numbers
from dalenius.verify.people_sizes import PeopleOfBuckets
from dalenius.verify.scan import Scanner, bucket_numbers
from dalenius.verify.stated_bands import value_codes

_MOST_ROWS = 2**31 - 2  # that a line is told to be about, before it is too many


def scan_people_values(scanner: Scanner, values: Sequence[str], limits: Sequence[Fraction] | None) -> Scan:
    """ST: layout, order, what people of each bucket can have, and every value against its limit, if there are any."""
    scan, manifest = Scan(), scanner.release.manifest
    people = PeopleOfBuckets(manifest)
    order, stream, lines = scanner.order("st"), BucketStream(), LinesOfBuckets(manifest, people)
    codes = value_codes(manifest, values, scanner.release.memory)
    shares = Shares(scanner.release, values, limits, None, with_largest=True)

    def take(whole: WholeBuckets) -> None:
        shares.add(lines.add(whole), len(codes.texts))

    with scanner.reading("st", scan):
        for batch in scanner.batches("st", scan.report):
            bucket, sensitive, *rows = batch.columns
            numbers, own = bucket_numbers(bucket), codes.of(sensitive)
            for whole in stream.add(numbers, own):
                take(whole)
            lines.add_rows(numbers, own, rows)
            order.add(batch.columns)
        take(stream.finish())
        lines.conclude(scanner.file("st"), scan.report)
        scanner.conclude_order("st", order, scan)
        scanner.conclude_values(codes, shares, scan)
    return scan


class LinesOfBuckets:
    """Counts the buckets whose lines no people of theirs can have."""

    def __init__(self, manifest: Manifest, people: PeopleOfBuckets) -> None:
        self._people, self._columns = people, len(manifest.columns.sensitive.of)
        self._stated = manifest.tables.st.rows
        self._sizes = people.sizes(rows=False)
        self._total = manifest.people
        self._rows, self._partial = BucketStream(), BucketStream()
        self._lines = 0
        self._outside = 0
        self._wrong = {
            "more people with a value than people": Buckets(),
            "fewer or more values than their people can have": Buckets(),
            "values that no people can share out": Buckets(),
        }
        self._too_often, self._too_many, self._impossible = self._wrong.values()

    def add(self, whole: WholeBuckets) -> WholeBuckets:
        """The next buckets. Gives the same with people as their sizes, and no more of a value than people."""
        if not len(whole.numbers):
            return whole
        self._lines += int(whole.sizes.sum())
        there = self._people.are_there(whole.numbers)
        people = np.where(there, self._people.people(whole.numbers), whole.sizes)
        whole = replace(whole, sizes=people)
        self._sizes.add(whole)
        of_runs = whole.of_runs(people)
        over = whole.counts > of_runs
        if over.any():
            self._too_often.add(whole.of_runs(whole.numbers)[over])
            whole = replace(whole, counts=np.minimum(whole.counts, of_runs))
        return whole

    def add_rows(self, numbers: Integers, values: Codes, rows: Sequence[pa.Array]) -> None:
        """The next lines: the bucket and the value of each, and the column of rows, if there is one."""
        if not len(numbers):
            return
        about = whole_numbers(rows[0]) if rows else np.ones(len(numbers), np.int64)
        each = self._people.rows_each(numbers)
        self._outside += int(np.count_nonzero((about < 1) | (about > each)))
        for whole in self._rows.add(numbers, np.clip(about, 0, _MOST_ROWS).astype(np.int32)):
            self._compare_rows(whole)
        if rows and self._columns == 1:
            partial = about < each
            for whole in self._partial.add(numbers[partial], values[partial]):
                self._compare_partial(whole)

    def _compare_rows(self, whole: WholeBuckets) -> None:
        """Buckets whose lines are by what they are about."""
        if not len(whole.numbers):
            return
        people, each = self._people.people(whole.numbers), self._people.rows_each(whole.numbers)
        total = np.add.reduceat(whole.codes.astype(np.int64) * whole.counts, whole.first_runs)
        of_one = people * each  # the least, and of each column the most
        self._too_many.add(whole.numbers[(total < of_one) | (-(-total // self._columns) > of_one)])
        if self._columns == 1:
            above = np.where(2 * whole.codes.astype(np.int64) > whole.of_runs(each), whole.counts, 0)
            self._impossible.add(whole.numbers[np.add.reduceat(above, whole.first_runs) > people])

    def _compare_partial(self, whole: WholeBuckets) -> None:
        if len(whole.numbers):
            largest = np.maximum.reduceat(whole.counts, whole.first_runs)
            self._impossible.add(whole.numbers[2 * largest > whole.sizes])

    def conclude(self, file: str, report: Report) -> None:
        """Add what was wrong to the report, after the last line."""
        self._compare_rows(self._rows.finish())
        self._compare_partial(self._partial.finish())
        if self._lines != self._stated:
            report.fail(SIZES, f"{file} has {plural(self._lines, 'row')}, and the manifest says {self._stated:,}")
        self._sizes.conclude(file, self._sizes.rows, report)
        if self._outside:
            lines = plural(self._outside, "line is", "lines are")
            report.fail(SIZES, f"in {file} {lines} about fewer than 1 or more than a person's rows", self._outside)
        for what, buckets in self._wrong.items():
            if buckets.count:
                has = plural(buckets.count, "bucket has", "buckets have")
                first = f"the first: bucket {buckets.first:,}"
                report.fail(SIZES, f"in {file} {has} {what}; {first}", buckets.count)


class Buckets:
    """Some buckets, of which the first is named and all are counted."""

    def __init__(self) -> None:
        self.count, self.first = 0, 0

    def add(self, numbers: npt.NDArray[np.int64]) -> None:
        """More of them, each as often as one likes, but none that was in an earlier call."""
        if len(numbers):
            self.first = self.first or int(numbers[0])
            self.count += len(np.unique(numbers))
