"""Tables and releases as arrays of codes, and the answer to one query of a workload from both.

Value j of an attribute is the integer j, and -1 is a null, which matches nothing. For every value the rows that have it
are a string of bits. So "A is one of b values" takes b ORs, a query is an AND, and its count is the number of ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.errors import UsageError

_MOST_BYTES = 2**29  # of bits for one column; a larger column is looked up row by row

Codes = npt.NDArray[np.integer[Any]]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class WorkloadQuery:
    """One query: positions of QI attributes, the values of each, and the sensitive values."""

    attributes: tuple[int, ...]
    values: tuple[Integers, ...]
    sensitive: Integers


@dataclass(frozen=True)
class CodedTable:
    """The table: codes of each QI attribute, and of the sensitive one, row by row; and the sizes of the domains."""

    attributes: tuple[Codes, ...]
    sensitive: Codes
    domains: tuple[int, ...]
    sensitive_domain: int


@dataclass(frozen=True)
class CodedRelease:
    """QIT as codes and a bucket for each row, ST as a bucket and a code for each value, in any order.

    A bucket may have more values than rows: some are nobody's. Those of buckets without rows count for nothing. A
    stratum begins at each bucket in `cuts`, in ascending order; the first stratum is not listed.
    """

    attributes: tuple[Codes, ...]
    buckets: Integers
    value_buckets: Integers
    values: Codes
    cuts: Sequence[int] | Integers = ()


class Answerer:
    """A table and its release, ready for many queries."""

    def __init__(self, table: CodedTable, release: CodedRelease) -> None:
        numbers, self._bucket_of_row, rows = np.unique(release.buckets, return_inverse=True, return_counts=True)
        filled = np.isin(release.value_buckets, numbers)
        value_numbers, bucket_of_value, slots = np.unique(
            release.value_buckets[filled], return_inverse=True, return_counts=True
        )
        if not np.array_equal(numbers, value_numbers):
            raise UsageError("there are buckets in QIT that are not in ST")
        if (slots < rows).any():
            raise UsageError("there are buckets with fewer values than rows")
        self._slots = slots.astype(np.float64)
        self._truth = [_Column(codes, size) for codes, size in zip(table.attributes, table.domains, strict=True)]
        self._sensitive = _Column(table.sensitive, table.sensitive_domain)
        self._rows = [_Column(codes, size) for codes, size in zip(release.attributes, table.domains, strict=True)]
        values = release.values[filled]
        by_value = np.argsort(values, kind="stable")
        ends = np.searchsorted(values[by_value], np.arange(table.sensitive_domain + 1))
        self._buckets_of_value = [bucket_of_value[by_value[i:j]] for i, j in pairwise(ends)]

    def answer(self, query: WorkloadQuery) -> tuple[int, float, float, float, float]:
        """The count from the table; the mean, the variance and the bounds from the release."""
        return self._answer(query)[0]

    def answer_by_class(
        self, query: WorkloadQuery, classes: Integers, number: int
    ) -> tuple[tuple[int, float, float, float, float], Integers]:
        """The same, and the matching rows by class. `classes` has one for every bucket, by bucket number."""
        answer, matching = self._answer(query)
        some = np.flatnonzero(matching)
        return answer, np.bincount(classes[some], weights=matching[some], minlength=number).astype(np.int64)

    def _answer(self, query: WorkloadQuery) -> tuple[tuple[int, float, float, float, float], Integers]:
        predicates = list(zip(query.attributes, query.values, strict=True))
        truth = _all(
            [*(self._truth[a].rows(values) for a, values in predicates), self._sensitive.rows(query.sensitive)]
        )
        actual = int(np.bitwise_count(truth).sum())
        rows = _all([self._rows[a].rows(values) for a, values in predicates])
        mask = np.unpackbits(rows.view(np.uint8), count=len(self._bucket_of_row)).view(np.bool_)
        places = np.flatnonzero(mask)  # ten times faster on booleans than on bytes
        matching = np.bincount(self._bucket_of_row[places], minlength=len(self._slots))
        owners = np.concatenate([self._buckets_of_value[value] for value in query.sensitive])
        values = np.bincount(owners, minlength=len(self._slots))
        some = np.flatnonzero((matching > 0) & (values > 0))
        a, c, size = matching[some].astype(np.float64), values[some].astype(np.float64), self._slots[some]
        product = a * c
        spread = product * (size - a) * (size - c) / (size * size * np.maximum(size - 1, 1))
        low = np.maximum(0, a + c - size).sum()
        high = np.minimum(a, c).sum()
        return (actual, float((product / size).sum()), float(spread.sum()), float(low), float(high)), matching


class _Column:
    """The rows that have each value of a column."""

    def __init__(self, codes: Codes, domain: int) -> None:
        self._codes, self._domain, self._words = codes, domain, -(-len(codes) // 64)
        self._bits: Words | None = None
        if domain * self._words * 8 <= _MOST_BYTES:
            self._bits = np.zeros((domain, self._words), dtype=np.uint64)
            for value in range(domain):
                self._bits[value] = self._pack(codes == value)

    def rows(self, values: Integers) -> Words:
        """The rows that have one of the values, as bits."""
        if self._bits is not None:
            rows: Words = self._bits[values[0]].copy()
            for value in values[1:]:
                rows |= self._bits[value]
            return rows
        accepted = np.zeros(self._domain + 1, dtype=np.bool_)  # one more for nulls, at -1
        accepted[values] = True
        return self._pack(np.take(accepted, self._codes))

    def _pack(self, mask: npt.NDArray[np.bool_]) -> Words:
        words: Words = np.zeros(self._words, dtype=np.uint64)
        packed = np.packbits(mask)
        words.view(np.uint8)[: len(packed)] = packed
        return words


def _all(parts: Sequence[Words]) -> Words:
    rows = parts[0]
    for part in parts[1:]:
        rows &= part
    return rows
