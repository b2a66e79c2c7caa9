"""Whose rows are whose: numbers for people instead of what identifies them.

What identifies a person becomes a key of 64 bits: integers are their own, and everything else has a hash. Sorted keys
show which rows are alike, in a few bytes a row where a dictionary takes hundreds. Two people may have the same hash, so
rows with equal hashes are compared; if any of them differ, which is next to impossible unless somebody means it, a
dictionary tells people apart. So nobody is taken for somebody else, whatever the hashes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.place.domains import Integers, is_integer_like, to_integers
from dalenius.tables.arrays import arrow_array, numpy_array, widened

Keys = npt.NDArray[np.uint64]

_PIECE = 2**20  # rows that are compared at a time


def number_rows(chunks: Sequence[pa.Array]) -> Integers:
    """A number from 0 on for each row: that of its person. There are no nulls."""
    if not sum(map(len, chunks)):
        return np.empty(0, dtype=np.int64)
    keys = np.concatenate([keys_of(chunk) for chunk in chunks])
    order = np.argsort(keys)
    keys = keys[order]
    again = np.empty(len(keys), dtype=np.bool_)  # the person of the row before, in this order
    again[0] = False
    np.equal(keys[1:], keys[:-1], out=again[1:])
    del keys
    if not (is_integer_like(chunks[0].type) or _are_equal(chunks, order, np.flatnonzero(again))):
        return _by_dictionary(chunks)
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(~again)
    numbers -= 1
    return numbers


def all_differ(keys: Iterable[Keys]) -> bool:
    """Whether all keys are different: then so is whatever they are of."""
    together = np.concatenate([np.empty(0, dtype=np.uint64), *keys])
    together.sort()
    return not bool((together[1:] == together[:-1]).any())


def keys_of(persons: pa.Array) -> Keys:
    """Equal ones have equal keys; of integers and the like, different ones have different keys."""
    if is_integer_like(persons.type):
        return to_integers(persons).astype(np.int64).view(np.uint64)
    from dalenius.tables.open_table import hash_values  # here, since executors of Spark have no DuckDB

    hashes: Keys = hash_values(widened(persons))
    return hashes


def _are_equal(chunks: Sequence[pa.Array], order: Integers, places: Integers) -> bool:
    """Whether at these places of the order is what is at the place before."""
    if not len(places):
        return True
    persons = pa.concat_arrays([_long(chunk) for chunk in chunks])
    for start in range(0, len(places), _PIECE):
        mine = places[start : start + _PIECE]
        one, other = (persons.take(arrow_array(order[where])) for where in (mine, mine - 1))
        if not pc.all(pc.equal(one, other)).as_py():
            return False
    return True


def _long(chunk: pa.Array) -> pa.Array:
    """With room for more than 2^31 bytes of text."""
    if pa.types.is_string(chunk.type) or pa.types.is_string_view(chunk.type):
        return chunk.cast(pa.large_string())
    return chunk.cast(pa.large_binary()) if pa.types.is_binary(chunk.type) else chunk


def _by_dictionary(chunks: Sequence[pa.Array]) -> Integers:
    coded = pa.chunked_array(chunks).dictionary_encode().unify_dictionaries()
    return np.concatenate([numpy_array(chunk.indices) for chunk in coded.chunks]).astype(np.int64)
