"""Which slots are fake, and which are left for records. `fakes/marking.py` draws them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dalenius.place.domains import Integers
from dalenius.place.permutation import Unsigned, narrow_type

_STEPS = 3  # from the beginning of a block to a slot in it


class Marks:
    """The fake slots of every value, and the slots that are left for its records.

    Slot x of value i has the number first_i + x, with first_i the slots of all earlier values. With the fake numbers
    m_0 < m_1 < ..., real slot u (counted from 0) has the number u + #{k : m_k - k <= u}. The m_k - k are kept, with an
    index: at most 8 bytes a fake value, and 32 while they are drawn (16 and 48 from 2^30 slots on).
    """

    def __init__(self, slots: Integers, numbers: Integers) -> None:
        """`slots[i]` slots of value i, of which the ascending `numbers` are fake."""
        dtype = narrow_type(2 * int(slots.sum()))
        first = np.concatenate(([0], np.cumsum(slots)))
        self._first: Unsigned = first.astype(dtype)
        self._first_real: Unsigned = (first - np.searchsorted(numbers, first)).astype(dtype)
        self._reals_before: Unsigned = np.full(len(numbers) + 1, np.iinfo(dtype).max, dtype=dtype)
        self._reals_before[:-1] = numbers
        self._reals_before[:-1] -= np.arange(len(numbers), dtype=dtype)
        self._shift = dtype((int(first[-1]) // max(len(numbers), 1)).bit_length())  # one or two fakes to a block
        block = (self._reals_before[:-1] >> self._shift).astype(np.intp)
        block += 1
        before = np.bincount(block, minlength=int(self._first_real[-1] >> self._shift) + 1)
        self._index: Unsigned = np.cumsum(before, out=before).astype(dtype)  # fakes before each block
        self._left: Unsigned = np.empty(0, dtype=dtype)  # real slots by these marks whose record has another slot now,
        self._taken: Unsigned = np.empty(0, dtype=dtype)  # namely this

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        parts = (self._reals_before, self._index, self._left, self._taken)
        return sum(int(part.nbytes) for part in parts)

    def real_slots(self, values: npt.NDArray[np.integer] | int, ranks: npt.NDArray[np.integer]) -> Unsigned:
        """The slots that are not fake, of each value (or of one for all) the one of each rank."""
        numbers: Unsigned = ranks.astype(self._first.dtype)
        numbers += self._first_real[values]
        numbers += self._fakes_before(numbers)
        if len(self._left):
            place = np.minimum(np.searchsorted(self._left, numbers), len(self._left) - 1)
            numbers = np.where(self._left[place] == numbers, self._taken[place], numbers)
        numbers -= self._first[values]
        return numbers

    def _fakes_before(self, reals: Unsigned) -> Unsigned:
        """#{k : m_k - k <= u}: looked up for the block of u, then a few steps, then by binary search where needed."""
        before: Unsigned = self._index.take(reals >> self._shift)
        for _ in range(_STEPS):
            before += self._reals_before.take(before) <= reals
        far = np.flatnonzero(self._reals_before.take(before) <= reals)
        before[far] = np.searchsorted(self._reals_before, reals[far], side="right")
        return before

    def fake_slots(self) -> tuple[Integers, Integers]:
        """The fake slots as they are now: value and slot of each, by value and then by slot."""
        numbers = self._numbers()
        values = np.searchsorted(self._first, numbers, side="right").astype(np.int64) - 1
        return values, numbers.astype(np.int64) - self._first[values].astype(np.int64)

    def move(self, moves: npt.ArrayLike) -> Marks:
        """These marks after some moves, all made at once: rows of value, a fake slot, and a real slot of that value.

        The fake slot becomes real and the real one fake. The record that had the one has the other, and no other record
        moves. A slot can be named once only. Margins are the caller's business.
        """
        rows = np.asarray(moves, dtype=np.int64).reshape(-1, 3)
        first = self._first.astype(np.int64)
        wide = first[1:] - first[:-1]
        values, slots = rows[:, 0], rows[:, 1:]
        if ((values < 0) | (values >= len(wide))).any() or ((slots < 0) | (slots >= wide[values][:, None])).any():
            raise ValueError("a move names a slot that its value does not have")
        fake, real = (first[values][:, None] + slots).T
        if len(np.unique(np.concatenate((fake, real)))) < 2 * len(rows):
            raise ValueError("a slot is named twice in one set of moves")
        now = self._numbers()
        if not np.isin(fake, now).all() or np.isin(real, now).any():
            raise ValueError("a move goes from a fake slot to a real one")
        dtype = self._first.dtype
        left, taken = self._left.astype(np.int64), self._taken.astype(np.int64)
        # a record that had moved already keeps the slot by which it is known, and only takes another
        order = np.argsort(taken)
        place = np.minimum(np.searchsorted(taken[order], real), max(len(taken) - 1, 0))
        again = taken[order][place] == real if len(taken) else np.zeros(len(real), dtype=bool)
        taken[order[place[again]]] = fake[again]
        left, taken = np.concatenate((left, real[~again])), np.concatenate((taken, fake[~again]))
        moved_records = np.flatnonzero(left != taken)
        moved_records = moved_records[np.argsort(left[moved_records])]
        after = Marks.__new__(Marks)
        after.__dict__.update(self.__dict__)
        after._left, after._taken = left[moved_records].astype(dtype), taken[moved_records].astype(dtype)
        return after

    def _numbers(self) -> Unsigned:
        numbers: Unsigned = self._reals_before + np.arange(len(self._reals_before), dtype=self._first.dtype)
        numbers = numbers[:-1]
        if not len(self._left):
            return numbers
        return np.setdiff1d(np.union1d(numbers, self._left), self._taken)
