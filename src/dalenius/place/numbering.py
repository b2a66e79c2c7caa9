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

from dalenius.errors import InputError
from dalenius.model.entries import MISSING_TEXTS, may_be_alike
from dalenius.place.domains import Integers, is_integer_like, to_integers
from dalenius.tables.arrays import arrow_array, distinct, numpy_array, widened
from dalenius.tables.arrow import Source

Keys = npt.NDArray[np.uint64]

_PIECE = 2**20  # rows that are compared at a time
_PEOPLE_TO_COMPARE, _MANY_ROWS, _MANY_TIMES = 20, 200, 50
_LAST_ASCII = 127
_UNSEEN = "[\u00ad\u200b-\u200f\u2060\ufeff]"
_EXACT = 2.0**53  # from here on not every whole number is a floating-point number
_GIVE_THEM_ONE = "Give each of these rows a person, or leave them out."


def number_people(persons: Sequence[pa.Array], column: str) -> tuple[Integers, int]:
    """A number for each person, for every row; nobody is to be taken for somebody else.

    And how many people there are less if case, blanks around a text and ".0" behind a number made no difference.
    """
    _refuse_nulls(column, sum(one.null_count for one in persons), sum(map(len, persons)))
    numbers = number_rows(persons)
    rows = np.bincount(numbers)
    _refuse_no_person(rows, column)
    missing, is_folded = 0, True
    for one in persons:  # of which there is no second copy
        folded = _folded(one)
        missing += _codes_for_nobody(folded)
        is_folded &= folded.equals(one)
    _refuse_codes(column, missing, len(numbers))
    if is_folded:
        return numbers, 0
    return numbers, len(rows) - len(distinct(np.concatenate([keys_of(_folded(one)) for one in persons])))


def nobody_repeats(source: Source, column: str, batch_rows: int) -> bool:
    """Whether every row is a person's only one, but for a few that differ in spelling; an error for no person."""
    folded = _keys_in(source, column, batch_rows, fold=True)
    rows = sum(map(len, folded))
    alike = rows - len(distinct(np.concatenate(folded))) if rows else 0
    if alike == 0 or may_be_alike(alike, rows):
        return alike == 0
    return all_differ(_keys_in(source, column, batch_rows, fold=False))


def _keys_in(source: Source, column: str, batch_rows: int, *, fold: bool) -> list[Keys]:
    """The keys of the people of all rows, as they are written or folded; an error for rows without a person."""
    keys: list[Keys] = []
    rows = nulls = 0
    for batch in source.batches([column], batch_rows):
        persons = persons_in(batch.columns[0])
        rows, nulls = rows + len(persons), nulls + persons.null_count
        if not nulls:
            keys.append(keys_of(_folded(persons) if fold else persons))
    _refuse_nulls(column, nulls, rows)
    return keys


def persons_in(column: pa.Array) -> pa.Array:
    """What identifies the people of some rows: null where nothing does."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_floating(column.type):
        nothing = pc.is_nan(column)
    elif _is_text(column.type):
        if column.null_count == 0 and _all_have_letters(column):
            return column
        nothing = pc.or_(pc.utf8_is_space(column), pc.equal(pc.binary_length(column), 0))
    else:
        return column
    if not pc.any(nothing).as_py():
        return column
    return pc.if_else(nothing, pa.scalar(None, column.type), column)


def _all_have_letters(texts: pa.Array) -> bool:
    """Whether no text is empty or has a blank, seen at once; if not, some may."""
    lengths = pc.binary_length(texts)
    data = _bytes_of(texts)
    return bool(pc.min(lengths).as_py()) and not ((data <= ord(" ")) | (data > _LAST_ASCII)).any()


def person_texts(column: pa.Array) -> pa.Array:
    """A text for what identifies the people of some rows, the same for all ways to write it; null where nothing does.

    Case, blanks around it and ".0" behind a number make no difference, nor whether a number is stored as text, nor how
    Unicode composes a letter, or what it has that nobody sees.
    """
    persons = persons_in(column)
    if pa.types.is_floating(persons.type):
        persons = _whole(persons)
    if pa.types.is_integer(persons.type):
        return persons.cast(pa.string())
    if not _is_text(persons.type):
        persons = persons.cast(pa.string())
    if (_bytes_of(persons) > _LAST_ASCII).any():
        persons = pc.utf8_normalize(pc.replace_substring_regex(persons, _UNSEEN, ""), form="NFKC")
        persons = pc.utf8_trim_whitespace(persons)
    return _folded(persons).cast(pa.string())


def _whole(persons: pa.Array) -> pa.Array:
    """Whole numbers that are stored as floating point, as whole numbers; an error for others."""
    values = persons.cast(pa.float64())
    if pc.any(pc.or_(pc.not_equal(pc.floor(values), values), pc.greater_equal(pc.abs(values), _EXACT))).as_py():
        raise InputError(
            "people are identified by floating-point numbers that are no whole numbers, or too large to be exact",
            "Turn the column into text, or into whole numbers, as it was written at first.",
        )
    return values.cast(pa.int64())


def refuse_nobody(column: str, nulls: int, rows: int) -> None:
    """An error for rows that are nobody's."""
    _refuse_nulls(column, nulls, rows)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _folded(persons: pa.Array) -> pa.Array:
    """Texts in lower case, without blanks around them, and without ".0" behind a number; other types as they are."""
    if not _is_text(persons.type):
        return persons
    data = _bytes_of(persons)
    is_ascii = not (data > _LAST_ASCII).any()
    text = persons
    if not is_ascii or (data <= ord(" ")).any():
        text = pc.ascii_trim_whitespace(text)
    if not is_ascii or ((data >= ord("A")) & (data <= ord("Z"))).any():
        text = pc.ascii_lower(text) if is_ascii else pc.utf8_lower(text)
    if (data == ord(".")).any() and pc.any(pc.match_substring(text, ".0")).as_py():
        text = pc.replace_substring_regex(text, r"^([0-9]+)\.0+$", r"\1")
    return text


def _bytes_of(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of some texts, and maybe of others that share their buffer."""
    data = texts.buffers()[2]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def _refuse_nulls(column: str, nulls: int, rows: int) -> None:
    if nulls:
        raise InputError(
            f"{nulls:,} of {rows:,} rows have no person: the column {column!r} is null or blank there", _GIVE_THEM_ONE
        )


def _codes_for_nobody(folded: pa.Array) -> int:
    """How many rows have a text that stands for a missing person."""
    if not _is_text(folded.type):
        return 0
    codes = pa.array(sorted(MISSING_TEXTS), folded.type)
    return int(pc.sum(pc.is_in(folded, value_set=codes)).as_py() or 0)


def _refuse_codes(column: str, missing: int, rows: int) -> None:
    if missing > 1:
        raise InputError(
            f"{missing:,} of {rows:,} rows have no person: the column {column!r} has a code for a missing one there, "
            "such as '?' or 'unknown'",
            _GIVE_THEM_ONE,
        )


def _refuse_no_person(rows: Integers, column: str) -> None:
    """An error if one person has so many more rows than anybody else that it must be a code for a missing one."""
    if len(rows) < _PEOPLE_TO_COMPARE:
        return
    second, most = np.partition(rows, -2)[-2:].tolist()
    if most >= _MANY_ROWS and most > _MANY_TIMES * second:
        raise InputError(
            f"one person in {column!r} has {most:,} of {int(rows.sum()):,} rows, and nobody else more than {second:,}: "
            "it looks like a code for a missing person",
            _GIVE_THEM_ONE,
        )


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
