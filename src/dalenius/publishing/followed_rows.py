"""What is kept of every row while a release of a chain is made: a number for its value, and its bucket."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import InputError, NullsError
from dalenius.place.columns import cast_to_published
from dalenius.place.domains import Integers, dictionary_of, listing_type
from dalenius.place.packed import read_at, write_at
from dalenius.place.sensitive import column_texts
from dalenius.tables.arrays import filled

_CHUNK = 2**18  # rows at a time
_NUMBER = 8  # bytes


class ValueTexts:
    """A number for the text of every sensitive value, in the order in which they came."""

    def __init__(self, name: str, null_name: str | None, missing: Sequence[str], texts: Sequence[str] = ()) -> None:
        self._name, self._null_name, self._missing = name, null_name, frozenset(missing)
        self._numbers = {text: number for number, text in enumerate(texts)}
        self.found_missing: set[str] = set()
        self._rows = self._nulls = 0
        self._lock = Lock()  # batches come from several threads

    @property
    def texts(self) -> list[str]:
        """All of them."""
        return list(self._numbers)

    def number(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def numbers(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """The numbers of some values, of which nulls and codes for what is missing are one."""
        coded = dictionary_of(values)
        with self._lock:
            return self._numbers_of(coded, values)

    def _numbers_of(self, coded: pa.DictionaryArray, values: pa.Array) -> npt.NDArray[np.int32]:
        found = []
        for text in column_texts(coded.dictionary.cast(listing_type(values.type)), values.type):
            if text in self._missing:
                self.found_missing.add(str(text))
                text = self._null_name
            found.append(-1 if text is None else self.number(text))
        nulls = coded.null_count
        found.append(-1 if self._null_name is None else self.number(self._null_name) if nulls else -1)
        self._rows, self._nulls = self._rows + len(values), self._nulls + nulls
        return np.asarray(found, np.int32).take(filled(coded.indices, len(coded.dictionary)))

    def refuse_nulls(self) -> None:
        """An error for nulls without a name."""
        if self._nulls and self._null_name is None:
            raise NullsError.in_column(self._name, self._nulls, self._rows)


class Whereabouts:
    """The bucket of every row, in a scratch file without a name, of which the system keeps in memory what it can."""

    def __init__(self, rows: int, scratch: Path) -> None:
        self.rows = rows
        self._file = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 (closed in close())
        self._file.truncate(_NUMBER * max(rows, 1))
        self._buckets = np.memmap(self._file, np.int64, "r+", shape=(rows,)) if rows else np.empty(0, np.int64)

    def read(self, start: int, rows: int) -> Integers:
        """The buckets of some rows that follow one another."""
        return np.array(self._buckets[start : start + rows])

    def write(self, start: int, buckets: Integers) -> None:
        """The buckets of some rows that follow one another, from now on."""
        self._buckets[start : start + len(buckets)] = buckets

    def take(self, rows: Integers) -> Integers:
        """The buckets of any rows."""
        return np.asarray(self._buckets[rows])

    def put(self, rows: Integers, buckets: Integers) -> None:
        """The buckets of any rows, from now on."""
        self._buckets[rows] = buckets

    def chunks(self) -> Iterator[tuple[int, Integers]]:
        """All of them, some at a time, each time with the first row."""
        for start in range(0, self.rows, _CHUNK):
            yield start, self.read(start, _CHUNK)

    def histogram(self, first_buckets: Integers) -> Integers:
        """How many rows are in the buckets from each of these up to the next; none of them is bucket 0."""
        of_bucket = np.bincount(self._buckets)  # eight bytes a bucket, of which each has several rows
        until = np.append(0, np.cumsum(of_bucket))
        ends = np.minimum(np.append(first_buckets, len(of_bucket)), len(of_bucket))
        found: Integers = np.diff(until[ends])
        return found

    def close(self) -> None:
        """Let go of the file."""
        del self._buckets
        self._file.close()


class Parts:
    """Records in parts, in memory or in a scratch file without a name: each part is read as a whole."""

    def __init__(self, kind: np.dtype[np.void], parts: int, scratch: Path | None) -> None:
        """`scratch` is a folder for the scratch file; None keeps everything in memory."""
        self._kind = kind
        self._pieces: list[list[npt.NDArray[np.void] | tuple[int, int]]] = [[] for _ in range(parts)]
        self._file: IO[bytes] | None = None
        if scratch is not None:
            self._file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115 (closed in close())
        self._end = 0

    def add(self, records: npt.NDArray[np.void], counts: Sequence[int]) -> None:
        """Records in the order of their parts, so many of each."""
        begun, first = self._end, 0
        self._keep(records)
        for part, rows in enumerate(counts):
            if rows:
                offset = begun + first * self._kind.itemsize
                self._pieces[part].append(records[first : first + rows] if self._file is None else (offset, rows))
                first += rows

    def append(self, part: int, records: npt.NDArray[np.void]) -> None:
        """Records of one part."""
        if len(records):
            self._keep(records)
            self._pieces[part].append(records if self._file is None else (self._end - records.nbytes, len(records)))

    def part(self, number: int) -> npt.NDArray[np.void]:
        """All records of a part."""
        return np.concatenate([np.empty(0, self._kind), *map(self._read, self._pieces[number])])

    def _read(self, piece: npt.NDArray[np.void] | tuple[int, int]) -> npt.NDArray[np.void]:
        if isinstance(piece, np.ndarray):
            return piece
        offset, rows = piece
        found = np.empty(rows, self._kind)
        if self._file is not None:
            read_at(self._file, offset, found.view(np.uint8).data)
        return found

    def _keep(self, records: npt.NDArray[np.void]) -> None:
        if self._file is not None:
            write_at(self._file, self._end, np.ascontiguousarray(records).view(np.uint8).data)
        self._end += records.nbytes

    def close(self) -> None:
        """Let go of memory and the file."""
        self._pieces = [[] for _ in self._pieces]
        if self._file is not None:
            self._file.close()


def taken(records: npt.NDArray[np.void], places: Integers) -> npt.NDArray[np.void]:
    """Some of many records, by their places: as words, which is several times faster than field by field."""
    words = np.ascontiguousarray(records).view(np.uint32).reshape(len(records), records.dtype.itemsize // 4)
    found: npt.NDArray[np.void] = words.take(places, axis=0).view(records.dtype).ravel()
    return found


def as_type(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column as it was published before; an error if it does not hold such values any more."""
    try:
        return cast_to_published(column, field.type)
    except InputError:
        raise InputError(
            f"the column {field.name!r} was {field.type} in the release before, and has other values now",
            "Give it the type that it had.",
        ) from None


def sum_of_pairs(buckets: Integers, values: Integers) -> int:
    """A sum that differs for other pairs, but for one chance in 2^64."""
    mixed = buckets.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + values.astype(np.uint64)
    for shift, factor in ((32, 0xD6E8FEB86659FD93), (29, 0xBF58476D1CE4E5B9)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return int(mixed.sum(dtype=np.uint64))
