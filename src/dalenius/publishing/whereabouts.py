"""What is kept of every row while a release of a chain is made: a number for its value, and its bucket."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

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
    """The bucket of every row, in a scratch file without a name."""

    def __init__(self, rows: int, scratch: Path) -> None:
        self.rows = rows
        self._file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115 (closed in close())
        self._file.truncate(_NUMBER * rows)

    def read(self, start: int, rows: int) -> Integers:
        """The buckets of some rows."""
        found = np.empty(rows, np.int64)
        if rows:
            read_at(self._file, _NUMBER * start, found.view(np.uint8).data)
        return found

    def write(self, start: int, buckets: Integers) -> None:
        """The buckets of some rows, from now on."""
        write_at(self._file, _NUMBER * start, np.ascontiguousarray(buckets, np.int64).view(np.uint8).data)

    def chunks(self) -> Iterator[tuple[int, Integers]]:
        """All of them, some at a time, each time with the first row."""
        for start in range(0, self.rows, _CHUNK):
            yield start, self.read(start, min(_CHUNK, self.rows - start))

    def histogram(self, first_buckets: Integers) -> Integers:
        """How many rows are in the buckets from each of these up to the next; none of them is bucket 0."""
        counts = np.zeros(len(first_buckets) + 1, np.int64)
        for _, buckets in self.chunks():
            counts += np.bincount(np.searchsorted(first_buckets, buckets, side="right"), minlength=len(counts))
        return counts[1:]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def as_type(column: pa.Array, field: pa.Field) -> pa.Array:
    """A column as it was published before; an error if it does not hold such values any more."""
    try:
        return cast_to_published(column, field.type)
    except InputError:
        raise InputError(
            f"the column {field.name!r} was {field.type} in the release before, and has other values now",
            "Give it the type that it had.",
        ) from None
