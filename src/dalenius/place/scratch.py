"""Places in a scratch file, which several threads may write and read at once."""

from __future__ import annotations

import os
from typing import IO


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
