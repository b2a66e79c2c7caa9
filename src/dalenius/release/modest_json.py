"""A manifest before it is parsed: JSON that would take much more memory than its length is refused."""

from __future__ import annotations

import re

from dalenius.errors import ReleaseError
from dalenius.model.memory import ReadingMemory

LARGEST = 256 * 2**20  # bytes of a manifest: 100,000 values need about 20 MB, and as many groups 30 MB
_BRANCHES = b"{[,"  # each is followed by something that takes memory
_BRANCH_BYTES = 400  # in memory at the most
_TEXT_GROWS = 8  # bytes in memory for each byte of text
_SPARSE = 4  # bytes of a manifest for each branch at the least; {"stratum":1}, has 7
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def require_modest(content: bytes, memory: ReadingMemory | None = None) -> None:
    """Refuse JSON that would take much more memory than its length, or than there is, before it is parsed.

    A document of {} takes some 300 times its length.
    """
    if len(content) > LARGEST:
        raise ReleaseError(f"the manifest is larger than {LARGEST:,} bytes")
    branches = _branches(content)
    if branches * _SPARSE > len(content):
        branches = _branches(_STRING.sub(b'""', content))  # those within text do not count
        if branches * _SPARSE > len(content):
            raise ReleaseError(f"the manifest has {branches:,} lists, objects and entries, more than a release has")
    memory = memory or ReadingMemory.of(None)
    memory.require(branches * _BRANCH_BYTES + len(content) * _TEXT_GROWS, memory.spare // 2, "the manifest")


def _branches(content: bytes) -> int:
    return sum(content.count(mark) for mark in _BRANCHES)
