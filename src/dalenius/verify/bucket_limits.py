"""The buckets of a table: does each keep every limit, and does each have the size that the setting gives it?

The promise (`LimitsOfBuckets`). In every bucket, count(value) / (size - known) <= the value's limit, and likewise of a
group of values (`stated_groups`), whose count is that of all values under it. On integers, never rounded. `size` is the
number of records in the bucket, of which the adversary may know `known`; the others are left to guess. A bucket of ST
has `fakes` rows more than records, and every row with the value counts, whether real or fake. So the promise holds even
against somebody who can tell which are fake.

For a limit p/q, count / left <= p/q holds iff count <= cap = floor(p * left / q). The caps are made of Python's
integers, which have no largest; being at most the size, they fit into 64 bits, and the counts are compared with them.

The exposure (`ExposureOfBuckets`). Of the people of a bucket, how many have a value that the bucket shows with which
probability (`model.exposure`).

The sizes (`SizesOfTable`). Buckets are numbered from 1 without holes, and by size. Both tables are compared with the
same setting, bucket by bucket: QIT has a row for each record, ST one more for each fake value. So if both pass, they
fit together in every bucket, and neither table has to wait for the other. In a chain of releases the sizes are those of
places, and QIT may have fewer rows (`people_sizes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.model.exposure import BANDS, Exposure
from dalenius.model.memory import ReadingMemory
from dalenius.verify.buckets import Codes, Integers, PresentRows, WholeBuckets
from dalenius.verify.findings import LIMITS, SIZES, Report, plural, quote

Floats = npt.NDArray[np.float64]

_SAFE_PRODUCT = 2**31  # two numbers below this have a product below 2^62
_NO_CAP = 2**63 - 1
_LEVEL_BYTES = 256  # in memory, for a count of a value in a bucket of some size


@dataclass(frozen=True)
class Excess:
    """A bucket that holds more of a value than the limit allows. `left` records are not known to the adversary."""

    bucket: int
    code: int
    count: int
    left: int


class Caps:
    """How many rows of each value a bucket may hold, by the records left. A value without a limit has no cap."""

    def __init__(self, limits: Sequence[Fraction | None]) -> None:
        self.limits = list(limits)
        different = list(dict.fromkeys(limit for limit in limits if limit is not None))
        places: dict[Fraction | None, int] = {limit: place for place, limit in enumerate(different)}
        self._different = different
        self._place = np.array([places.get(limit, len(different)) for limit in limits], dtype=np.int64)
        self._left = -1
        self._caps: Integers = np.empty(0, np.int64)

    def of(self, left: int, values: int) -> Integers:
        """The caps of `values` values, those beyond the limits given included. The last size is remembered."""
        if left != self._left or len(self._caps) != values:
            exact = [limit.numerator * left // limit.denominator for limit in self._different]
            listed = np.array([*exact, _NO_CAP], dtype=np.int64)[self._place]
            self._caps = np.append(listed, np.full(values - len(listed), _NO_CAP, np.int64))
            self._left = left
        return self._caps


class LimitsOfBuckets:
    """Compares every bucket of ST with the limits, and remembers the worst case of every value, or of every group.

    What the buckets show of people goes to `exposure`, if anybody asks for it. `what` has a limit, in a sentence.
    """

    def __init__(
        self,
        limits: Sequence[Fraction | None],
        known: int = 0,
        fakes: int = 0,
        exposure: ExposureOfBuckets | None = None,
        what: str = "a value",
    ) -> None:
        self._caps = Caps(limits)
        self._known, self._fakes = known, fakes
        self._buckets_over = 0
        self._worst: Excess | None = None
        self._left = 1
        self._most: Integers = np.zeros(0, np.int64)  # the largest count in a bucket with `_left` left, by value
        self._shares = (np.zeros(0, np.int64), np.ones(0, np.int64))  # the worst count and what is left, by value
        self._exposure, self._what = exposure, what

    def add(self, buckets: WholeBuckets, values: int) -> None:
        """The next buckets; `values` is how many values are known by now."""
        if not len(buckets.sizes):
            return
        self._most = _extend(self._most, values, 0)
        smallest, largest = int(buckets.sizes.min()), int(buckets.sizes.max())
        if smallest == largest:
            self._add_of_size(smallest, buckets.codes, buckets.counts, buckets, slice(None))
            return
        sizes = buckets.of_runs(buckets.sizes)
        for rows in np.unique(buckets.sizes).tolist():
            runs = np.flatnonzero(sizes == rows)
            self._add_of_size(rows, buckets.codes[runs], buckets.counts[runs], buckets, runs)

    def worst(self, values: int) -> list[tuple[int, int]]:
        """The worst case of each value in any bucket, as (count, size); (0, known + 1) where there is none."""
        self._fold()
        counts, left = (_extend(self._shares[0], values, 0), _extend(self._shares[1], values, 1))
        return list(zip(counts.tolist(), (left + self._known).tolist(), strict=True))

    def conclude(self, texts: Sequence[str | None], report: Report) -> None:
        """Add the buckets that exceed a limit to the report."""
        if self._worst is None:
            return
        worst, text = self._worst, texts[self._worst.code]
        limit = self._caps.limits[worst.code]
        verb = "holds" if self._buckets_over == 1 else "hold"
        size = f"{worst.left + self._known:,}" + (f" less {self._known:,} known" if self._known else "")
        report.fail(
            LIMITS,
            f"{plural(self._buckets_over, 'bucket')} {verb} more of {self._what} than its limit allows; the worst: "
            f"{'null' if text is None else quote(text)} {worst.count:,} of {size} in bucket {worst.bucket:,}, "
            f"limit {_short(limit)}",
            self._buckets_over,
        )

    def _add_of_size(
        self, rows: int, codes: Codes, counts: Integers, buckets: WholeBuckets, runs: slice | npt.NDArray[np.intp]
    ) -> None:
        """Buckets that all have so many rows in ST."""
        left = max(0, rows - self._fakes - self._known)  # 0 in a bucket that is too small: nothing is allowed there
        if left != self._left:
            self._fold()
            self._left = left
        if self._exposure is not None:
            numbers = buckets.of_runs(buckets.numbers)[runs] if self._exposure.is_by_bucket else None
            self._exposure.add(rows, codes, counts, len(self._most), numbers)
        more = np.flatnonzero(counts > self._most.take(codes))
        if len(more):
            np.maximum.at(self._most, codes[more], counts[more])
        caps = self._caps.of(left, len(self._most))
        if np.any(self._most > caps):
            over = np.flatnonzero(counts > caps.take(codes))
            numbers = buckets.of_runs(buckets.numbers)[runs][over]
            self._buckets_over += len(np.unique(numbers))
            self._keep_worst(left, codes[over], counts[over], numbers)

    def _keep_worst(self, left: int, codes: Codes, counts: Integers, numbers: Integers) -> None:
        """Of these, and of what was worst so far, the one that exceeds its limit by the largest factor."""
        largest_first = np.argsort(-counts, kind="stable")
        _, firsts = np.unique(codes[largest_first], return_index=True)
        for at in largest_first[firsts].tolist():
            excess = Excess(bucket=int(numbers[at]), code=int(codes[at]), count=int(counts[at]), left=left)
            if self._worst is None or self._factor(excess) > self._factor(self._worst):
                self._worst = excess

    def _factor(self, excess: Excess) -> tuple[bool, Fraction]:
        limit = self._caps.limits[excess.code] or 1
        return excess.left == 0, Fraction(excess.count, max(1, excess.left)) / limit

    def _fold(self) -> None:
        """Take the largest counts of the size that is done over into the worst shares."""
        values = len(self._most)
        counts, left = _extend(self._shares[0], values, 0), _extend(self._shares[1], values, 1)
        largest = max(self._left, *(int(array.max(initial=1)) for array in (self._most, counts, left)))
        kind: type = np.int64 if largest < _SAFE_PRODUCT else object
        here: npt.NDArray[Any] = self._most.astype(kind) * left.astype(kind)
        before: npt.NDArray[Any] = counts.astype(kind) * self._left
        larger = (here > before) | ((here == before) & (self._most > counts))  # of equal shares, that of more rows
        self._shares = (np.where(larger, self._most, counts), np.where(larger, self._left, left))
        self._most = np.zeros(values, np.int64)


class ExposureOfBuckets:
    """Adds up how exposed the people of all buckets are, `fakes` of whose values are fake.

    Values that do not apply, by their codes, are nobody's exposure. Where buckets have places that are free, `present`
    gives how many people each has, by the numbers of the buckets.
    """

    def __init__(
        self,
        fakes: int,
        memory: ReadingMemory | None = None,
        left_out: Sequence[int] = (),
        present: PresentRows | None = None,
    ) -> None:
        self._fakes, self._memory, self._left_out, self._present = fakes, memory, list(left_out), present
        self._bands: Floats = np.zeros((0, BANDS + 1))
        self._sums: Floats = np.zeros(0)
        self._highest: Floats = np.zeros(0)
        self._highest_of: dict[int, tuple[int, int]] = {}
        self._levels: dict[tuple[int, int], float] = {}

    @property
    def is_by_bucket(self) -> bool:
        """Whether it asks for the numbers of buckets."""
        return self._present is not None

    def add(self, rows: int, codes: Codes, counts: Integers, values: int, numbers: Integers | None = None) -> None:
        """Buckets of so many rows each, run by run; `values` is how many values are known by now.

        `numbers` has the bucket of every run.
        """
        of_run: Floats = np.full(len(counts), max(0, rows - self._fakes) / rows)
        if self._present is not None and numbers is not None:
            present = self._present.of(numbers)
            own = np.flatnonzero(present)  # in an empty bucket nobody is exposed
            codes, counts, of_run = codes[own], counts[own], present[own] / rows
        if self._left_out:
            own = np.flatnonzero(np.isin(codes, self._left_out, invert=True))
            codes, counts, of_run = codes[own], counts[own], of_run[own]
        missing = max(0, values - len(self._sums))
        if missing:
            self._bands = np.concatenate((self._bands, np.zeros((missing, BANDS + 1))))
            self._sums, self._highest = (np.append(old, np.zeros(missing)) for old in (self._sums, self._highest))
        people: Floats = counts * of_run
        cells = codes.astype(np.int64) * (BANDS + 1) + BANDS * counts // rows
        self._bands += np.bincount(cells, people, self._bands.size).reshape(self._bands.shape)
        self._sums += np.bincount(codes, people * counts / rows, len(self._sums))
        for place in np.flatnonzero(counts > self._highest.take(codes) * rows).tolist():
            code, share = int(codes[place]), int(counts[place]) / rows
            if share > self._highest[code]:
                self._highest[code], self._highest_of[code] = share, (int(counts[place]), rows)
        for count, with_it in _added_up(counts, people):
            self._levels[count, rows] = self._levels.get((count, rows), 0.0) + with_it
        if self._memory is not None:
            needed = len(self._levels) * _LEVEL_BYTES
            self._memory.require(needed, self._memory.state, "how often values are in buckets of how many sizes")

    def conclude(self, texts: Sequence[str | None]) -> Exposure:
        """What it comes to."""
        own = [place for place in range(len(texts)) if place not in self._left_out]
        return Exposure.of(
            [texts[place] or ("null" if texts[place] is None else "") for place in own],
            self._bands[own].tolist(),
            self._sums[own].tolist(),
            [self._highest_of.get(place, (0, 1)) for place in own],
            ((count, rows, people) for (count, rows), people in self._levels.items()),
        )


class SizesOfTable:
    """Counts the buckets of a table that are not as the setting, (size, buckets) pairs, and the fake values say."""

    _what: tuple[str, str] = ("bucket of another size", "buckets of another size")  # one and several that are wrong
    _bound: str = ""

    def __init__(self, setting: Sequence[tuple[int, int]], fakes: int = 0) -> None:
        self._sizes = np.array([size + fakes for size, _ in setting], dtype=np.int64)
        self._last_numbers = np.cumsum([buckets for _, buckets in setting], dtype=np.int64)
        self._wrong = 0
        self._first_wrong: tuple[int, int, int] | None = None
        self._inside = 0
        self._outside = 0
        self.rows = 0

    def add(self, buckets: WholeBuckets) -> None:
        """The next buckets, their numbers ascending."""
        numbers, sizes = buckets.numbers, buckets.sizes
        self.rows += int(sizes.sum())
        known = (numbers >= 1) & (numbers <= self._last_numbers[-1])
        if not known.all():
            self._outside += int(np.count_nonzero(~known))
            numbers, sizes = numbers[known], sizes[known]
        self._inside += len(numbers)
        if len(numbers):
            stated = self._stated(numbers)
            wrong = self._wrong_ones(sizes, stated)
            self._wrong += len(wrong)
            if len(wrong) and self._first_wrong is None:
                at = wrong[0]
                self._first_wrong = (int(numbers[at]), int(sizes[at]), int(stated[at]))

    def conclude(self, file: str, rows: int, report: Report) -> None:
        """Add what was wrong to the report. `rows` is what follows from the manifest."""
        if self.rows != rows:
            report.fail(SIZES, f"{file} has {plural(self.rows, 'row')}, and the manifest says {rows:,}")
        total = int(self._last_numbers[-1])
        self._conclude_present(file, report)
        if self._outside:
            outside = plural(self._outside, "bucket")
            report.fail(SIZES, f"{file} has {outside} with numbers outside 1 to {total:,}", self._outside)
        if self._first_wrong is not None:
            number, size, stated = self._first_wrong
            wrong = plural(self._wrong, *self._what)
            report.fail(
                SIZES,
                f"{file} has {wrong} than the setting gives; the first: bucket {number:,} has "
                f"{plural(size, 'row')}, not {self._bound}{stated:,}",
                self._wrong,
            )

    def _conclude_present(self, file: str, report: Report) -> None:
        """Add the buckets that are not there."""
        total = int(self._last_numbers[-1])
        if self._inside != total:
            missing = total - self._inside
            report.fail(SIZES, f"{file} lacks {missing:,} of the buckets 1 to {total:,}", missing)

    def _wrong_ones(self, sizes: Integers, stated: Integers) -> npt.NDArray[np.intp]:
        return np.flatnonzero(sizes != stated)

    def _stated(self, numbers: Integers) -> Integers:
        first, last = np.searchsorted(self._last_numbers, numbers[[0, -1]])
        if first == last:
            return np.broadcast_to(self._sizes[first], numbers.shape)
        return self._sizes[np.searchsorted(self._last_numbers, numbers)]


def _extend(array: Integers, length: int, filler: int) -> Integers:
    missing = length - len(array)
    return np.append(array, np.full(missing, filler, np.int64)) if missing > 0 else array


def _added_up(counts: Integers, people: npt.NDArray[np.floating[Any]]) -> Iterator[tuple[int, float]]:
    """The different counts, and the people of each."""
    if int(counts.max(initial=0)) <= 2 * len(counts):  # a table of all counts is small, and far faster than sorting
        different, with_it = np.flatnonzero(np.bincount(counts)), np.bincount(counts, people)
        yield from zip(different.tolist(), with_it[different].tolist(), strict=True)
        return
    different, place_of = np.unique(counts, return_inverse=True)
    yield from zip(different.tolist(), np.bincount(place_of, people).tolist(), strict=True)


def _short(limit: Fraction | None) -> str:
    text = str(limit)
    return text if len(text) <= 40 else f"about {float(limit or 0):.6g}"
