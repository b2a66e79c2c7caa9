"""How much memory the whole program may take, what that leaves for each stage, and work on all cores within it.

A budget covers everything: the interpreter and its libraries, what Arrow and the Parquet writer allocate for
themselves, and the arrays of the stages. Nothing in publishing grows with the number of records beyond it.
`in_parallel` keeps results in order, and bounds how many are in memory.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TypeVar

from dalenius.errors import UsageError
from dalenius.model.memory import MIB, spare_memory
from dalenius.model.problem import SizeGroup

Item = TypeVar("Item")
Result = TypeVar("Result")

_LEAST_SPARE = 160 * MIB  # for batches under way, writers and verification
_RESERVE = 150 * MIB  # that allocators keep, and that nobody can give back
_KEY_BYTES = 8
_COPY_BYTES = 16  # its quasi-identifiers, its value and its stratum
_UNPACKED = 40  # bytes of working arrays for each record of a piece, of which a few are under way
_PLACING = 64  # bytes of working arrays for each record that is being placed
_LONGEST_LIST = 64 * MIB
_FAKE_BYTES = 48  # for each fake value while marks are drawn, at most
_IDENTIFIER_BYTES = 32  # to find out whether anybody has several records, however they are spelled
_PERSON_BYTES = 120  # of arrays for each record by person, while buckets are found, ...
_PERSON_VALUE_BYTES = 60  # ... and for each of its sensitive values
_VALUE_BYTES = 4500  # that solving, and describing in the manifest, take for each sensitive value
_CELL_BYTES = 400  # for each value of each stratum, besides its order
MOST_CELLS = 2**18
_MOST_BATCH_ROWS = 2**18
_LEAST_BATCH_ROWS = 2**8
_MOST_PIECE_ROWS = 2**19
_LEAST_PIECE_ROWS = 2**8
_AHEAD = 3  # batches or pieces in the works at a time


@dataclass(frozen=True)
class Budget:
    """Bytes that the stages may take beyond what the program takes already."""

    total: int
    spare: int

    @classmethod
    def of(cls, total: int | None) -> Budget:
        """A budget of `total` bytes; half of the machine's memory if None."""
        return cls(*spare_memory(total, _RESERVE, _LEAST_SPARE))

    def lists(self, columns: int) -> int:
        """Bytes for the list of distinct values of one of so many columns."""
        return min(self.spare // 8 // columns, _LONGEST_LIST)

    @property
    def engine(self) -> int:
        """Bytes for the embedded engine, while it reads."""
        return self.spare // 2

    def batch_rows(self, row_bytes: int) -> int:
        """How many records are read and placed at a time: a few such batches are under way, with working arrays."""
        return max(min(self.spare // 8 // (2 * row_bytes + _PLACING), _MOST_BATCH_ROWS), _LEAST_BATCH_ROWS)

    def check_values(self, values: int) -> None:
        """Refuse more sensitive values than the solver and the manifest have room for."""
        needed = values * _VALUE_BYTES
        if needed > self.spare:
            raise UsageError(
                f"{values:,} sensitive values do not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {(self.total - self.spare + needed) // MIB + 1}MiB, or group the values.",
            )

    def check_people(self, rows: int, values: int) -> None:
        """Refuse more records by person than there is room for, each with so many sensitive values: all are in memory
        until they are written."""
        needed = rows * (_PERSON_BYTES + _PERSON_VALUE_BYTES * values)
        if needed > self.spare:
            raise UsageError(
                f"{rows:,} records by person do not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {(self.total - self.spare + needed) // MIB + 1}MiB.",
            )

    def check_identifiers(self, rows: int) -> None:
        """Refuse more records than there is room to compare by what identifies their people."""
        needed = rows * _IDENTIFIER_BYTES
        if needed > self.spare:
            raise UsageError(
                f"whose {rows:,} records are does not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {(self.total - self.spare + needed) // MIB + 1}MiB.",
            )

    def check_fakes(self, fakes: int) -> None:
        """Refuse more fake values than there is room for: their slots are drawn for all of them at once."""
        needed = fakes * _FAKE_BYTES
        if needed > self.spare // 4:
            raise UsageError(
                f"{fakes:,} fake values do not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {(self.total - self.spare + 4 * needed) // MIB + 1}MiB, or have fewer fake values.",
            )

    def check_cells(self, cells: int, rows: int) -> None:
        """Refuse more values of strata than there is room for: each has quotas and a random order (permutation.py)."""
        if cells > MOST_CELLS:
            raise UsageError(
                f"the leaves of the strata times the sensitive values are {cells:,}, more than {MOST_CELLS:,}",
                "Ask for fewer strata, or group the values.",
            )
        needed = 4 * min(rows, 1024 * cells) + 40 * math.isqrt(rows * cells) + _CELL_BYTES * cells
        if needed > self.spare // 2:
            raise UsageError(
                f"strata of {rows:,} records do not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {(self.total - self.spare + 2 * needed) // MIB + 1}MiB, or --strata none.",
            )

    def copy_fits(self, rows: int) -> bool:
        """Whether there is room for all records as codes, besides their keys."""
        return rows * _COPY_BYTES <= self.spare // 4

    def keys_fit(self, rows: int) -> bool:
        """Whether packed records can stay in memory."""
        return rows * _KEY_BYTES <= self.spare // 4

    def piece_rows(self, groups: Sequence[SizeGroup], row_bytes: int = _UNPACKED) -> int:
        """How many records are sorted and written at a time. A bucket cannot be split, so the largest has to fit."""
        most = self.spare // 4 // max(row_bytes, _UNPACKED)
        largest = max(group.size for group in groups)
        if largest > most:
            raise UsageError(
                f"a bucket of {largest:,} records does not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {(self.total + 4 * largest * row_bytes) // MIB:,}MiB, or a smaller --max-size.",
            )
        return max(min(most, _MOST_PIECE_ROWS), _LEAST_PIECE_ROWS)


def in_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], workers: Executor, ahead: int = _AHEAD
) -> Iterator[Result]:
    """The results of `work` in the order of the items, with at most `ahead` of them under way at any time."""
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(workers.submit(work, item))
            if len(under_way) >= ahead:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for future in under_way:
            future.cancel()
