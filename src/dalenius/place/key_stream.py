"""Random numbers from a key: AES-256 in counter mode, one stream a purpose and number.

The counter block of a stream begins with its purpose (1 byte) and its number (7 bytes), and the rest counts: streams of
one key never meet. One that is made again gives the same numbers, for the same purpose.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR


class Purpose(IntEnum):
    """What the numbers of a stream decide."""

    ORDER = 0  # of the records of every value in every stratum: one stream
    MARKS = 1  # which slots are fake: one stream a size group
    SAMPLE = 2  # which records strata are made of: one stream


class KeyStream:
    """The key stream of one purpose and number."""

    def __init__(self, key: bytes, purpose: Purpose, number: int) -> None:
        block = purpose.to_bytes(1, "big") + number.to_bytes(7, "big") + bytes(8)
        self._encryptor = Cipher(AES256(key), CTR(block)).encryptor()

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """The next 64-bit numbers."""
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype="<u8").astype(np.uint64, copy=False)

    def halves(self, count: int) -> npt.NDArray[np.uint32]:
        """The next 32-bit numbers."""
        return np.frombuffer(self._encryptor.update(bytes(4 * count)), dtype="<u4").astype(np.uint32, copy=False)

    def below(self, bound: int, count: int) -> npt.NDArray[np.uint64]:
        """Uniform integers in 0 .. bound-1: words beyond the last whole multiple of the bound are thrown away."""
        last = np.uint64(2**64 // bound * bound - 1)
        kept = self.words(count)
        while True:
            kept = kept[kept <= last]
            if len(kept) == count:
                return kept % np.uint64(bound)
            kept = np.concatenate((kept, self.words(count - len(kept))))
