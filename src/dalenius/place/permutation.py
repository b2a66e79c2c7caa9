"""Random orders that need no list, and the random numbers from a key that they are made of.

There is a keyed permutation of 0 .. N-1 for every sensitive value. Which record of a value goes to which of its slots
must look uniformly random to anybody without the key, and be a function of (value, rank) alone, so that batches can be
placed in any order, by any number of workers, in bounded memory.

N > 1024: a Feistel network on pairs. With a = ceil(sqrt(N)), write x = L a + R and repeat ten times
    (L, R) <- (R, (L + F_r(R)) mod a),
a permutation of 0 .. a^2 - 1 for any functions F_r. Results of N or more are sent through again until they are below N
(cycle walking), which keeps it a permutation. The F_r are independent uniformly random tables of a entries, drawn from
the AES-256 key stream: the network of Luby and Rackoff with true tables in place of a cipher in each round, so that a
round is one look-up. All tables together have 10 sqrt(N) entries a value.

N <= 1024: too small for the network to be trusted, so the permutation is a table: 0 .. N-1 sorted by random numbers of
54 bits. Two of them are equal for one value in 10^11, which then has these two in their order.

Random numbers are AES-256 in counter mode, with one stream for each purpose and number. The counter block of a stream
begins with its purpose (1 byte) and its number (7 bytes), and the rest counts: streams of one key never meet. A stream
that is made again gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

Unsigned = npt.NDArray[Any]  # of the type that narrow_type says

KEY_BYTES = 32
ROUNDS = 10
LARGEST_TABLE = 1024
_INDEX = np.uint64(LARGEST_TABLE - 1)  # the bits of a place in the table, below its random number
_AT_ONCE = 2**20  # numbers that are sorted together


class KeyedPermutations:
    """One pseudorandom permutation of 0 .. sizes[i]-1 for every i, all from one key."""

    def __init__(self, key: bytes, sizes: Sequence[int]) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
        self.dtype = narrow_type(max(sizes, default=0))
        sides = [0 if size <= LARGEST_TABLE else math.isqrt(size - 1) + 1 for size in sizes]
        lengths = [side * ROUNDS or size for side, size in zip(sides, sizes, strict=True)]
        self._sizes = np.asarray(sizes, dtype=self.dtype)
        self._sides = np.asarray(sides, dtype=self.dtype)
        index = np.int64 if self.dtype is np.uint32 else np.uint64  # int64 + uint64 would be floating point
        self._starts = np.cumsum([0, *lengths]).astype(index)
        self._tables = np.empty(int(self._starts[-1]), dtype=self.dtype)
        stream = KeyStream(key, Purpose.ORDER, 0)
        self._draw_small(stream)
        for number, side in enumerate(sides):
            if side:
                table = self._tables[int(self._starts[number]) : int(self._starts[number + 1])]
                table[:] = stream.below(side, len(table))

    def _draw_small(self, stream: KeyStream) -> None:
        """The tables of up to 1024 entries, many at a time: rows of equal width, each sorted by itself."""
        sizes = np.where(self._sides == 0, self._sizes, 0).astype(np.int64)
        width = 1
        while width <= LARGEST_TABLE:
            among = np.flatnonzero((sizes > width // 2) & (sizes <= width))
            for first in range(0, len(among), _AT_ONCE // width):
                part = among[first : first + _AT_ONCE // width]
                there = np.arange(width) < sizes[part][:, None]
                numbers = stream.words(len(part) * width).reshape(len(part), width)
                numbers = (numbers & ~_INDEX) | np.arange(width, dtype=np.uint64)
                numbers[~there] = np.iinfo(np.uint64).max
                numbers.sort(axis=1)
                places = self._starts[part].astype(np.int64)[:, None] + np.arange(width)
                self._tables[places[there]] = (numbers[there] & _INDEX).astype(self.dtype)
            width *= 2

    @property
    def nbytes(self) -> int:
        """The memory that the tables take."""
        return int(self._tables.nbytes)

    def __call__(self, which: npt.NDArray[np.integer], ranks: npt.NDArray[np.integer]) -> Unsigned:
        """The images of `ranks`, each under the permutation that `which` says."""
        ranks = ranks.astype(self.dtype, copy=False)
        sides = self._sides.take(which)
        small = sides == 0
        if small.all():
            images: Unsigned = self._tables.take(self._starts.take(which) + ranks)
            return images
        if not small.any():
            return self._walk(which, ranks, sides)
        images = np.empty(len(ranks), dtype=self.dtype)
        images[small] = self._tables.take(self._starts.take(which[small]) + ranks[small])
        large = ~small
        images[large] = self._walk(which[large], ranks[large], sides[large])
        return images

    def run(self, which: int, first: int, count: int) -> Unsigned:
        """The images of `count` ranks from `first` on, all under one permutation: the same, at half the cost."""
        start, side = int(self._starts[which]), int(self._sides[which])
        if not side:
            return self._tables[start + first : start + first + count]
        tables = self._tables[start : start + side * ROUNDS].reshape(ROUNDS, side)
        images: Unsigned = _network(tables, np.arange(first, first + count, dtype=self.dtype))
        outside = np.flatnonzero(images >= self._sizes[which])
        while outside.size:
            images[outside] = _network(tables, images[outside])
            outside = outside[images[outside] >= self._sizes[which]]
        return images

    def _walk(self, which: npt.NDArray[np.integer], ranks: Unsigned, sides: Unsigned) -> Unsigned:
        images = self._network(self._starts.take(which), ranks, sides)
        outside = np.flatnonzero(images >= self._sizes.take(which))
        while outside.size:
            again = which[outside]
            images[outside] = self._network(self._starts.take(again), images[outside], sides[outside])
            outside = outside[images[outside] >= self._sizes.take(again)]
        return images

    def _network(self, table: npt.NDArray[Any], ranks: Unsigned, sides: Unsigned) -> Unsigned:
        left, right = np.divmod(ranks, sides)
        place, drawn = np.empty(len(ranks), dtype=np.intp), np.empty_like(left)
        for _ in range(ROUNDS):
            np.add(table, right, out=place, casting="unsafe")
            np.take(self._tables, place, out=drawn, mode="clip")  # clip: without it, numpy takes a copy first
            left += drawn
            np.subtract(left, sides, out=drawn)
            np.minimum(left, drawn, out=left)  # mod sides: a difference below 0 wraps around
            left, right = right, left
            table += sides
        left *= sides
        left += right
        return left


def _network(tables: Unsigned, ranks: Unsigned) -> Unsigned:
    """The rounds of one permutation: row k of `tables` is F_k."""
    side = tables.dtype.type(tables.shape[1])
    left: Unsigned = ranks // side
    right = ranks - left * side
    drawn = np.empty_like(left)
    for table in tables:
        np.take(table, right, out=drawn, mode="clip")  # clip: without it, numpy takes a copy first
        left += drawn
        np.subtract(left, side, out=drawn)
        np.minimum(left, drawn, out=left)  # mod side: a difference below 0 wraps around
        left, right = right, left
    left *= side
    left += right
    return left


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
        words = self.words(count)
        while True:
            words = words[words <= last]
            if len(words) == count:
                return words % np.uint64(bound)
            words = np.concatenate((words, self.words(count - len(words))))


class Purpose(IntEnum):
    """What the numbers of a stream decide."""

    ORDER = 0  # of the records of every value in every stratum: one stream
    MARKS = 1  # which slots are fake: one stream a size group
    SAMPLE = 2  # which records strata are made of: one stream
    PEOPLE = 3  # in which order people are dealt, and which of their rows are kept: one stream each


def narrow_type(largest: int) -> type[np.uint32] | type[np.uint64]:
    """The unsigned type in which two numbers up to `largest` can be added; the narrow one is twice as fast."""
    return np.uint32 if largest < 2**31 else np.uint64
