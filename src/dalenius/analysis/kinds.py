"""Slots as kinds of values, of which the model learns, and where sensitive numbers stand among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dalenius.analysis.pieces import SlotTable
from dalenius.infer.candidates import Floats, Integers
from dalenius.infer.features import MOST_KINDS, Singles, frequent_kinds
from dalenius.release.two_tables import is_text, named_type
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_bands import value_codes

_MOST_RANGES = 16  # of numbers that are not in bands
_MOST_KNOTS = 2**12  # at which it is known where numbers stand among their kinds


@dataclass(frozen=True)
class Standing:
    """Where slots stand: in a kind, or, if they are numbers, as far as `above` from there to the next kind.

    Kinds of numbers are ranges that follow each other, and stand for the number in their middle. What the model says of
    a number is between what it says of the kinds around it; below the first middle and above the last it goes on
    straight.
    """

    kinds: Integers
    above: Singles | None

    @property
    def codes(self) -> Integers:
        """A number for every slot, the same only for slots that stand at the same place."""
        return self.kinds if self.above is None else np.arange(len(self.kinds))

    def logits(self, table: Singles, rows: Integers, codes: Integers) -> Singles:
        """What a table of rows by kinds says of some rows and slots; of the latter it takes the codes."""
        flat, kinds = table.ravel(), codes if self.above is None else self.kinds[codes]
        places = rows * table.shape[1] + kinds
        found: Singles = flat.take(places)
        if self.above is not None:
            found += self.above[codes] * (flat.take(places + 1, mode="clip") - found)
        return found


class Kinds:
    """Slots as kinds of values: frequent values or tuples are told apart, and ranges of numbers that are not in bands.

    `of` may be asked of slots that were not there when kinds were made: they are of the last kind, or in a range.
    """

    def __init__(self, slots: SlotTable) -> None:
        self._codes: list[ValueCodes] = []
        manifest = slots.folder.manifest
        names = manifest.sensitive_names
        for name in slots.names:
            view = manifest.view(names.index(name)) if name in names else manifest
            listed = [entry.value for entry in view.values]
            self._codes.append(value_codes(view, listed, slots.folder.memory))
        column = manifest.columns.sensitive
        kind = named_type(column.type)
        numeric = not (is_text(kind) or pa.types.is_boolean(kind))
        null = manifest.null_value
        self._null = [entry.value for entry in manifest.values].index(null) if null is not None else -1
        self._banded = manifest.bands is not None
        self._ranges = numeric and len(slots.names) == 1 and not self._banded
        self._keys, self._kinds = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ranged, self.number = False, 0
        self._knots: tuple[Floats, Floats] | None = None  # numbers, and where they stand

    def learn(self, table: pa.Table) -> Integers:
        """Make kinds of what is there, and give those of the slots."""
        keys, places, counts = np.unique(self._key(table), return_inverse=True, return_counts=True)
        self._ranged = self._ranges and len(keys) > MOST_KINDS
        if self._ranged:
            there = np.where(keys == self._null, 0, counts)
            middles = np.cumsum(there) - there / 2
            ranges = np.minimum(middles * _MOST_RANGES / there.sum(), _MOST_RANGES - 1).astype(np.int64)
            ranges[keys == self._null] = _MOST_RANGES  # a kind of its own, and none of numbers
            kinds = np.unique(ranges, return_inverse=True)[1].astype(np.int64)
            self.number = int(kinds.max()) + 1
        else:
            kinds, self.number = frequent_kinds(counts.astype(np.float64))
        self._keys, self._kinds = keys, kinds
        of_slots: Integers = kinds[places]
        if self._ranged or (self._banded and self.number == len(keys)):
            self._knots = _knots(_as_numbers(table), of_slots)
        return of_slots

    def standing(self, table: pa.Table) -> Standing:
        """Where slots stand."""
        kinds = self.of(table)
        if self._knots is None:
            return Standing(kinds, None)
        numbers, places = self._knots
        last = max(0, round(places[-1]) - 1)  # the last kind that has a next one
        found = np.interp(_as_numbers(table), numbers, places)
        at = np.where(np.isnan(found), kinds, np.clip(np.floor(found), 0, last)).astype(np.int64)
        return Standing(at, np.nan_to_num(found - at).astype(np.float32))

    def of(self, table: pa.Table) -> Integers:
        """The kinds of slots."""
        keys = self._key(table)
        place = np.maximum(np.searchsorted(self._keys, keys, side="right") - 1, 0)
        known = self._ranged | (self._keys[place] == keys)  # the manifest has numbers in their order
        kinds: Integers = np.where(known, self._kinds[place], self.number - 1)
        return kinds

    def _key(self, table: pa.Table) -> Integers:
        """One number for each slot, by the places of its values in the manifest."""
        key = np.zeros(table.num_rows, np.int64)
        for codes, column in zip(self._codes, table.columns, strict=True):
            parts = [codes.of(chunk) for chunk in column.chunks] or [np.zeros(0, np.int32)]
            key = key * (len(codes.texts) + 1) + np.concatenate(parts)
        return key


def _as_numbers(table: pa.Table) -> Floats:
    """The only column of a table as floating-point numbers, where a null is no number."""
    column = table.column(0)
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_temporal(plain.type):
        plain = plain.cast(pa.int32() if plain.type.bit_width == 32 else pa.int64())
    numbers: Floats = plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return numbers


def _knots(numbers: Floats, kinds: Integers) -> tuple[Floats, Floats] | None:
    """Where numbers stand: in kind k, from k - 1/2 for the smallest to k + 1/2 for the largest, by their ranks there.

    None if all numbers are of one kind.
    """
    some = np.isfinite(numbers)
    different, firsts, counts = np.unique(numbers[some], return_index=True, return_counts=True)
    if not len(different):
        return None
    of_numbers = kinds[some][firsts]
    if of_numbers[0] == of_numbers[-1]:
        return None
    middles = np.cumsum(counts) - counts / 2
    before = np.searchsorted(of_numbers, of_numbers)
    ends = np.append(0, np.cumsum(counts))
    first, last = ends[before], ends[np.searchsorted(of_numbers, of_numbers, side="right")]
    stands = of_numbers + (middles - first) / (last - first) - 0.5
    chosen = np.unique(np.linspace(0, len(different) - 1, _MOST_KNOTS).astype(np.int64))
    return different[chosen], stands[chosen]
