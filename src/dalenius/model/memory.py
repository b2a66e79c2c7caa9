"""How much memory the program may take, and what that leaves for whoever reads a release.

A release may come from anybody. Whoever reads it asks `ReadingMemory` before anything is allocated by what a file says
of itself, and stops with an error that names --memory rather than growing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dalenius.errors import MemoryLimitError, UsageError

MIB = 2**20
_MOST_MEMORY = 2**46
_DEFAULT_SHARE = 2  # half of the machine
_RESERVE = 64 * MIB  # that allocators keep, and that libraries take once they are used
_LEAST_SPARE = 96 * MIB
_LARGEST_BATCH = 64 * MIB


@dataclass(frozen=True)
class ReadingMemory:
    """Bytes that reading a release may take beyond what the program takes already, and how they are shared out."""

    total: int
    spare: int

    @classmethod
    def of(cls, total: int | None) -> ReadingMemory:
        """Of `total` bytes for the whole program; half of the machine's memory if None."""
        return cls(*spare_memory(total, _RESERVE, _LEAST_SPARE, more_if_unsaid=True))

    @property
    def batch(self) -> int:
        """Bytes of a batch of rows. Both tables are read at once, and a batch is worked on in several copies."""
        return min(self.spare // 16, _LARGEST_BATCH)

    @property
    def piece(self) -> int:
        """Bytes of what cannot be read in smaller pieces: a page, a dictionary, a footer."""
        return self.spare // 8

    @property
    def state(self) -> int:
        """Bytes of what is kept while a table is read: its different values, its buckets."""
        return self.spare // 4

    @property
    def engine(self) -> int:
        """Bytes for the embedded engine."""
        return self.spare // 2

    def require(self, needed: int, share: int, what: str) -> None:
        """Refuse what needs more bytes than its share; the hint says how much memory would do."""
        if needed > share:
            total = self.total - self.spare + needed * (self.spare // max(1, share) + 1)
            raise MemoryLimitError(
                f"{what} would not fit into a memory of {self.total // MIB:,} MiB",
                f"Give --memory {total // MIB + 1}MiB, if you trust whoever made the release.",
            )


def spare_memory(total: int | None, reserve: int, least: int, *, more_if_unsaid: bool = False) -> tuple[int, int]:
    """The memory of the whole program (half of the machine's if None), and what it leaves beyond what is taken already.

    Less than `least` besides the reserve is refused; with `more_if_unsaid` only if somebody said how much there is.
    """
    taken = resident_memory()
    needed = taken + reserve + least
    if total is None:
        half = machine_memory() // _DEFAULT_SHARE
        total = max(half, needed) if more_if_unsaid else half
    total = min(total, _MOST_MEMORY)
    if total < needed:
        raise UsageError(
            f"{total // MIB:,} MiB of memory are too little: the program alone takes {taken // MIB:,} MiB",
            f"Give --memory {-(-needed // (10 * MIB)) * 10}MiB or more.",
        )
    return total, total - taken - reserve


def resident_memory() -> int:
    """The memory that this process takes now."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 200 * MIB


def machine_memory() -> int:
    """The memory of the machine, or of the control group that the process is in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            memory = min(memory, int(Path(limit).read_text(encoding="ascii")))
    return memory
