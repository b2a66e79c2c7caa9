"""Records as 64-bit numbers: the bucket in the upper bits, then the code of each quasi-identifier from left to right.

The order of the numbers is the order of the release, so sorting them is all there is to do. They are stored in pieces,
ranges of buckets that are small enough to be sorted in memory: in memory if they fit, and in a nameless scratch file if
not, to which several threads may write and read at once. A record takes eight bytes either way.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.model.problem import SizeGroup
from dalenius.place.domains import Domain, Integers, changed_table_error, codes_of
from dalenius.tables.arrays import arrow_array

Keys = npt.NDArray[np.uint64]
Codes = npt.NDArray[Any]  # of 32 bits if that is enough for all columns, else of 64

_KEY_BITS = 64
_NETWORK = 16  # up to this size of a bucket
_FEW_ROWS = 64


class PackedRecords:
    """The records of a release while they are being placed."""

    def __init__(self, layout: Layout, pieces: Pieces, scratch: Path | None) -> None:
        """`scratch` is a folder for the scratch file; None keeps everything in memory."""
        self.layout, self._pieces = layout, pieces
        self._starts = np.cumsum(pieces.rows) - pieces.rows
        self._fill = PieceFill(pieces)
        total = int(pieces.rows.sum())
        self._memory: Keys | None = None if scratch is not None else np.empty(total, dtype=np.uint64)
        self._file: IO[bytes] | None = None
        if scratch is not None:
            self._file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115 (closed in close())

    def part(self, columns: Sequence[pa.Array], order: Integers, buckets: Integers) -> Keys:
        """A batch, ready to be stored. May run in any thread."""
        return self.part_of_codes(self.layout.codes(columns), order, buckets)

    def part_of_codes(self, codes: Codes, order: Integers, buckets: Integers) -> Keys:
        """A batch of which the codes are known already."""
        return self.layout.keys(codes, order, buckets)

    def store(self, keys: Keys) -> None:
        """Put a batch where it belongs. One thread at a time."""
        for piece, held, where in self._fill.add(self.layout.buckets(keys)):
            self._put(int(self._starts[piece]) + held, keys[where])

    def pieces(self) -> Iterator[int]:
        """The numbers of the pieces, once every record is stored."""
        return self._fill.full_pieces()

    def piece(self, number: int) -> list[pa.Array]:
        """The columns of QIT for one piece, in the order of the release. May run in any thread."""
        keys = self._get(int(self._starts[number]), int(self._pieces.rows[number]))
        keys.sort()
        return self.layout.unpack(keys)

    def piece_with_numbers(self, number: int) -> tuple[list[pa.Array], list[pa.Array]]:
        """The columns of QIT and of ST for one piece, where the last column of each record is its sensitive number."""
        keys = self._get(int(self._starts[number]), int(self._pieces.rows[number]))
        keys.sort()
        return self.layout.unpack(keys, -1), self.layout.unpack_last(keys)

    def close(self) -> None:
        """Let go of the scratch file, which has no name and so is gone."""
        if self._file is not None:
            self._file.close()
        self._memory = None

    def _put(self, start: int, keys: Keys) -> None:
        if self._memory is not None:
            self._memory[start : start + len(keys)] = keys
        elif self._file is not None:
            write_at(self._file, 8 * start, keys.view(np.uint8).data)

    def _get(self, start: int, count: int) -> Keys:
        if self._memory is not None:
            return self._memory[start : start + count]
        keys = np.empty(count, dtype=np.uint64)
        if self._file is not None:
            read_at(self._file, 8 * start, keys.view(np.uint8).data)
        return keys


class Layout:
    """Which bits hold what. `buckets` may come later: the codes of quasi-identifiers do not depend on them."""

    def __init__(self, domains: Mapping[str, Domain], buckets: int = 1) -> None:
        self._domains = domains
        bits = [(domain.codes - 1).bit_length() if domain.codes else 0 for domain in domains.values()]
        ends = np.cumsum([0, *reversed(bits)])
        self._shifts = [int(shift) for shift in ends[-2::-1]] if bits else []
        self._widths = bits
        self._bucket_shift = np.uint64(ends[-1]) if ends[-1] < _KEY_BITS else np.uint64(0)
        self._narrow: Any = np.uint32 if ends[-1] <= 32 else np.uint64  # half the work where all codes fit
        self.fits = int(ends[-1]) + buckets.bit_length() <= _KEY_BITS

    def codes(self, columns: Sequence[pa.Array]) -> Codes:
        """All quasi-identifiers of each record in one number: the lower bits of its key."""
        codes, constant = np.zeros(len(columns[0]), dtype=self._narrow), 0
        for column, domain, width in zip(columns, self._domains.values(), self._widths, strict=True):
            codes <<= self._narrow(width)
            constant = (constant << width) + domain.add_codes(column, codes)
        codes -= self._narrow(constant % 2 ** (8 * codes.itemsize))
        return codes

    @property
    def shifts(self) -> dict[str, int]:
        """For every column how far its code is from the lowest bit."""
        return dict(zip(self._domains, self._shifts, strict=True))

    def codes_beside(self, begun: Integers, columns: Mapping[str, pa.Array]) -> Codes:
        """All quasi-identifiers of each record in one number, of which other columns are there already."""
        codes: Codes = begun.astype(self._narrow)
        for name, column in columns.items():
            codes |= codes_of(self._domains[name], column).astype(self._narrow) << self._narrow(self.shifts[name])
        return codes

    def columns(self, codes: Codes, names: Sequence[str] | None = None) -> dict[str, Codes]:
        """The codes of single columns, of those named or of all."""
        names_of_columns = set(self._domains if names is None else names)
        return {
            name: _field(codes, shift, width)
            for name, shift, width in zip(self._domains, self._shifts, self._widths, strict=True)
            if name in names_of_columns
        }

    def keys(self, codes: Codes, order: Integers, buckets: Integers) -> Keys:
        """Sorted keys: record order[k] of the batch is in bucket buckets[k]."""
        keys = buckets.view(np.uint64) << self._bucket_shift
        keys |= codes.take(order)
        keys.sort()
        return keys

    def buckets(self, keys: Keys) -> Integers:
        """The bucket of each key."""
        return (keys >> self._bucket_shift).view(np.int64)

    @property
    def code_type(self) -> np.dtype[Any]:
        """The type of codes."""
        code_type: np.dtype[Any] = np.dtype(self._narrow)
        return code_type

    def unpack(self, keys: Keys, columns: int | None = None) -> list[pa.Array]:
        """The quasi-identifiers, or the first so many columns, and the bucket of each key."""
        lower = keys.astype(self._narrow)
        fields = list(zip(self._domains.values(), self._shifts, self._widths, strict=True))[:columns]
        unpacked = [domain.decode(_field(lower, shift, width)) for domain, shift, width in fields]
        return [*unpacked, arrow_array(self.buckets(keys))]

    def unpack_last(self, keys: Keys) -> list[pa.Array]:
        """The bucket and the last column, by bucket and then by value: nothing is left of the other columns' order."""
        buckets = self.buckets(keys)
        codes = _sorted_within(buckets, _field(keys, 0, self._widths[-1]))
        *_, domain = self._domains.values()
        return [arrow_array(buckets), domain.decode(codes)]

    def with_last(self, codes: Codes, last: Codes) -> Codes:
        """Codes of the other columns, with that of the last one added."""
        added: Codes = codes.astype(self._narrow) << self._narrow(self._widths[-1])
        added |= last.astype(self._narrow, copy=False)
        return added


def _sorted_within(buckets: Integers, codes: Codes) -> Codes:
    """Codes in ascending order within each bucket; the buckets themselves are in order.

    Neighbouring buckets of one size are rows of a matrix, and all rows are sorted at once: for small ones by a network,
    whose comparisons are between whole columns.
    """
    starts = np.append(0, np.flatnonzero(buckets[1:] != buckets[:-1]) + 1)
    sizes = np.diff(starts, append=len(buckets))
    changes = np.append(0, np.flatnonzero(sizes[1:] != sizes[:-1]) + 1)
    codes = codes.copy()
    for first, last in zip(changes, np.append(changes[1:], len(starts)), strict=True):
        size, number = int(sizes[first]), int(last - first)
        where = slice(int(starts[first]), int(starts[first]) + size * number)
        rows = codes[where].reshape(number, size)
        if size > _NETWORK or number < _FEW_ROWS:
            rows.sort(axis=1)
            continue
        columns = np.ascontiguousarray(rows.T)
        for low, high in _network(size):
            larger = np.maximum(columns[low], columns[high])
            np.minimum(columns[low], columns[high], out=columns[low])
            columns[high] = larger
        rows[:] = columns.T
    return codes


@cache
def _network(size: int) -> tuple[tuple[int, int], ...]:
    """Batcher's network of comparisons, which sorts so many numbers whatever they are."""
    pairs: list[tuple[int, int]] = []
    merged = 1
    while merged < size:
        apart = merged
        while apart >= 1:
            firsts = (j + i for j in range(apart % merged, size - apart, 2 * apart) for i in range(apart))
            pairs += [
                (first, first + apart)
                for first in firsts
                if first + apart < size and first // (2 * merged) == (first + apart) // (2 * merged)
            ]
            apart //= 2
        merged *= 2
    return tuple(pairs)


def _field(codes: Codes, shift: int, width: int) -> Codes:
    """Some bits of each number, in a type that is wide enough for them."""
    bits: Codes = (codes >> codes.dtype.type(shift)).astype(np.min_scalar_type(2**width - 1))
    bits &= bits.dtype.type(2**width - 1)
    return bits


@dataclass(frozen=True)
class Pieces:
    """Piece k holds the buckets from `first_buckets[k]` up to the next piece, and `rows[k]` records exactly."""

    first_buckets: Integers
    rows: Integers

    @classmethod
    def of(cls, groups: Sequence[SizeGroup], rows: int) -> Pieces:
        """Pieces of about `rows` records; a bucket is never split."""
        sizes = np.asarray([group.size for group in groups])
        buckets = np.asarray([group.buckets for group in groups])
        records = int((sizes * buckets).sum())
        group_rows = np.cumsum(sizes * buckets) - sizes * buckets
        group_buckets = np.cumsum(buckets) - buckets
        starts = np.arange(0, records, rows)
        group = np.searchsorted(group_rows, starts, side="right") - 1
        firsts = np.unique(group_buckets[group] + (starts - group_rows[group]) // sizes[group])
        group = np.searchsorted(group_buckets, firsts, side="right") - 1
        before = group_rows[group] + (firsts - group_buckets[group]) * sizes[group]
        return cls(firsts + 1, np.diff(np.append(before, records)))

    def __len__(self) -> int:
        return len(self.rows)

    def cut(self, sorted_buckets: npt.NDArray[np.integer]) -> Integers:
        """Where each piece starts in buckets in ascending order, and, last, where the last one ends."""
        inner = np.searchsorted(sorted_buckets, self.first_buckets[1:])
        return np.concatenate(([0], inner, [len(sorted_buckets)]))


class PieceFill:
    """How full each piece is. Every bucket has an exact number of records, so a table that changed cannot pass."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._filled = np.zeros(len(pieces), dtype=np.int64)

    def add(self, sorted_buckets: npt.NDArray[np.integer]) -> Iterator[tuple[int, int, slice]]:
        """Where a batch in the order of its buckets goes: the piece, what it held before, and which records of it."""
        cuts = self._pieces.cut(sorted_buckets)
        counts = np.diff(cuts)
        if (self._filled + counts > self._pieces.rows).any():
            raise changed_table_error()
        for piece in np.flatnonzero(counts).tolist():
            yield piece, int(self._filled[piece]), slice(int(cuts[piece]), int(cuts[piece + 1]))
        self._filled += counts

    def full_pieces(self) -> Iterator[int]:
        """The numbers of the pieces, all of them full."""
        if (self._filled != self._pieces.rows).any():
            raise changed_table_error()
        return iter(range(len(self._pieces)))


def write_at(file: IO[bytes], offset: int, rest: memoryview) -> None:
    """Write all bytes to a place in a file, whatever other threads do with it."""
    while rest:
        written = os.pwrite(file.fileno(), rest, offset)
        rest, offset = rest[written:], offset + written


def read_at(file: IO[bytes], offset: int, rest: memoryview) -> None:
    """Fill a buffer from a place in a file, whatever other threads do with it."""
    while rest:
        read = os.preadv(file.fileno(), [rest], offset)
        if not read:
            raise OSError("the scratch file was cut short")
        rest, offset = rest[read:], offset + read
