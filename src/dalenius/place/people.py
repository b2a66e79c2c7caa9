"""Records by person: which rows are somebody's, and which sensitive values they have in any of them.

All of it is in arrays, some bytes a record. The quasi-identifiers of a record are one number, its key, and the order of
keys is the order of records in a release. A person's records are neighbours, in ascending order of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dalenius.errors import UsageError
from dalenius.place.columns import cast_to_published, published_field
from dalenius.place.domains import Codes, Domain, Integers, codes_of
from dalenius.place.items import Items as Items
from dalenius.place.items import Numbers as Numbers
from dalenius.place.items import Shortened, Tuples, items_of, tuples_of
from dalenius.place.numbering import number_people, persons_in
from dalenius.place.permutation import KeyStream, Purpose
from dalenius.place.sensitive import SensitiveColumn, SensitiveCounter
from dalenius.tables.arrays import arrow_array, require_utf8
from dalenius.tables.arrow import Source

if TYPE_CHECKING:
    from dalenius.place.survey import Survey

_MOST_KEYS = 2**63
_ODD = np.uint64(0x9E3779B97F4A7C15)  # to mix bits by


@dataclass(frozen=True)
class SetSpec:
    """A sensitive set that is to be read: its columns in the table, and what counts as missing there."""

    name: str
    columns: tuple[str, ...]
    null_value: str | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class People:
    """Everybody: the keys of their rows, and their items in each sensitive set. `dropped` rows were left out.

    `tuples` are those of sets that are kept together, and `shortened` the people whose rows were left out. `alike` are
    people who differ from others in spelling alone.
    """

    combinations: Combinations
    keys: Codes
    offsets: Integers
    columns: tuple[SensitiveColumn, ...]
    items: tuple[Items, ...]
    dropped: int = 0
    tuples: tuple[Tuples, ...] = ()
    shortened: Shortened | None = None
    alike: int = 0

    @property
    def number(self) -> int:
        """How many people there are."""
        return len(self.offsets) - 1

    @property
    def rows_each(self) -> Integers:
        """The number of rows of each person."""
        return np.diff(self.offsets)

    def alone(self) -> int:
        """How many people nobody else resembles in all of their rows; by hashes where they have several."""
        keys = self.keys
        if len(keys) != self.number:
            mixed = (keys + np.uint64(1)) * _ODD
            mixed ^= mixed >> np.uint64(32)
            mixed *= _ODD
            keys = np.add.reduceat(mixed, self.offsets[:-1])
        ordered = np.sort(keys)
        differ = np.concatenate(([True], ordered[1:] != ordered[:-1], [True]))
        return int(np.count_nonzero(differ[1:] & differ[:-1]))

    def least_codes(self, column: str) -> Codes:
        """For each person the least code of their rows in a column."""
        codes = self.combinations.codes(column, self.keys)
        return codes if len(codes) == self.number else np.minimum.reduceat(codes, self.offsets[:-1])


class Combinations:
    """Quasi-identifiers as one number: the digits are the codes of the columns, the first of them the highest.

    Where one number of 64 bits cannot hold them, they are several at first; the key is then the rank among those
    that occur (`settle`).
    """

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = dict(domains)
        self._words: list[list[str]] = []
        size = _MOST_KEYS
        for name, domain in domains.items():
            if size * domain.codes >= _MOST_KEYS:
                self._words.append([])
                size = 1
            self._words[-1].append(name)
            size *= max(1, domain.codes)
        self._occurring: list[Codes] | None = None

    def words(self, columns: Mapping[str, pa.Array]) -> list[Codes]:
        """The numbers of a batch of records."""
        numbers = []
        for first, *others in self._words:
            number = codes_of(self._domains[first], columns[first]).astype(np.uint64)
            for name in others:
                number *= np.uint64(self._domains[name].codes)
                number += codes_of(self._domains[name], columns[name]).astype(np.uint64, copy=False)
            numbers.append(number)
        return numbers

    def settle(self, words: Sequence[Codes]) -> Codes:
        """The keys of all records, given their numbers."""
        if len(words) == 1:
            return words[0]
        order = np.lexsort(tuple(reversed(words)))
        changes = np.zeros(len(order), dtype=np.bool_)
        for word in words:
            ordered = word[order]
            changes[1:] |= ordered[1:] != ordered[:-1]
        keys = np.empty(len(order), dtype=np.uint64)
        keys[order] = np.cumsum(changes).astype(np.uint64)
        firsts = order[np.flatnonzero(changes | (np.arange(len(order)) == 0))]
        self._occurring = [word[firsts] for word in words]
        return keys

    def codes(self, column: str, keys: Codes) -> Codes:
        """The codes of a column."""
        place = next(place for place, names in enumerate(self._words) if column in names)
        number = keys if self._occurring is None else self._occurring[place][keys]
        names = self._words[place]
        for name in reversed(names[names.index(column) + 1 :]):
            number = number // np.uint64(self._domains[name].codes)
        return number if column == names[0] else number % np.uint64(self._domains[column].codes)

    def decode(self, keys: Codes) -> list[pa.Array]:
        """The columns of records with these keys."""
        return [domain.decode(self.codes(name, keys)) for name, domain in self._domains.items()]


def count_sets(source: Source, sets: Sequence[SetSpec], batch_rows: int) -> tuple[SensitiveColumn, ...]:
    """Read the sensitive columns: what each set holds. The counts are of rows and columns, not of people."""
    names = list(dict.fromkeys(name for one in sets for name in one.columns))
    types = {field.name: published_field(field).type for field in source.schema(names)}
    for one in sets:
        other = next((name for name in one.columns if types[name] != types[one.columns[0]]), None)
        if other is not None:
            raise UsageError(
                f"the columns of {one.name!r} have different types: {one.columns[0]!r} has {types[one.columns[0]]}, "
                f"and {other!r} has {types[other]}",
                "Turn them into one type first, text for example.",
            )
    counters = [SensitiveCounter(one.name, types[one.columns[0]]) for one in sets]
    for batch in source.batches(names, batch_rows):
        columns = {
            name: cast_to_published(column, types[name]) for name, column in zip(names, batch.columns, strict=True)
        }
        for one, counter in zip(sets, counters, strict=True):
            for name in one.columns:
                require_utf8(name, columns[name])
                counter.add(columns[name])
    return tuple(counter.finish(one.null_value, one.missing) for one, counter in zip(sets, counters, strict=True))


def read_people(
    source: Source,
    survey: Survey,
    sets: Sequence[SetSpec],
    columns: Sequence[SensitiveColumn],
    person: str | None,
    most_rows: int | None,
    key: bytes,
    advance: Callable[[int], None],
    together: Sequence[Sequence[int]] = (),
) -> People:
    """Read all records and sort them by person. Whether there is room for them is for the caller to check.

    `together` are the numbers of sets, of one column each, whose values are wanted as tuples.
    """
    domains = _domains(survey)
    combinations = Combinations(domains)
    words, codes, persons = _read(source, survey, combinations, sets, columns, person, advance)
    keys = combinations.settle(words)
    rows = len(keys)
    numbers, alike = number_people(persons, person) if person is not None else (None, 0)
    del persons
    if numbers is None or int(numbers.max()) == rows - 1:  # nobody has several rows
        offsets, order, shortened = np.arange(rows + 1), None, None
    else:
        offsets, order, many = _sort_by_person(numbers, keys, most_rows, key)
        kinds = [len(column.texts) for column in columns]
        shortened = Shortened.of(numbers, many, most_rows, codes, kinds) if most_rows and len(many) else None
        keys = keys[order]
    del numbers
    if order is not None:
        codes = [[one[order] for one in of_set] for of_set in codes]
    pairs = zip(codes, columns, strict=True)
    items = [items_of(offsets, of_set, len(column.texts)) for of_set, column in pairs]
    if shortened is not None:
        whole = [own.only(np.unique(one.codes)) for own, one in zip(shortened.items, items, strict=True)]
        shortened = replace(shortened, items=tuple(whole))
    found = [only_present(column, one) for column, one in zip(columns, items, strict=True)]
    return People(
        combinations,
        keys,
        offsets,
        tuple(column for column, _ in found),
        tuple(items for _, items in found),
        rows - len(keys),
        tuple(tuples_of(offsets, numbers, [codes[number][0] for number in numbers]) for numbers in together),
        shortened,
        alike,
    )


def only_present(column: SensitiveColumn, items: Items) -> tuple[SensitiveColumn, Items]:
    """The same without values that nobody has: their rows were left out. Counts are of people from here on."""
    counts = np.bincount(items.codes, minlength=len(column.texts))
    present = np.flatnonzero(counts)
    if len(present) == len(counts):
        return replace(column, counts=tuple(counts.tolist())), items
    values = present[present < len(column.listing.values)]
    null_code = column.null_code
    if null_code is not None:
        null_code = int(np.searchsorted(present, null_code)) if counts[null_code] else None
    listing = replace(
        column.listing,
        values=column.listing.values.take(arrow_array(values)),
        has_nulls=column.listing.has_nulls and null_code is not None,
    )
    few = replace(
        column,
        listing=listing,
        texts=tuple(column.texts[code] for code in present.tolist()),
        counts=tuple(counts[present].tolist()),
        null_code=null_code,
    )
    return few, replace(items, codes=np.searchsorted(present, items.codes).astype(np.int32))


def _domains(survey: Survey) -> dict[str, Domain]:
    known = {name: domain for name, domain in survey.domains.items() if domain is not None}
    unknown = next((name for name in survey.domains if name not in known), None)
    if unknown is not None:
        raise UsageError(
            f"the column {unknown!r} has too many different values to publish it by people",
            "Leave it out, make it coarser, or give more --memory.",
        )
    return known


def _read(
    source: Source,
    survey: Survey,
    combinations: Combinations,
    sets: Sequence[SetSpec],
    columns: Sequence[SensitiveColumn],
    person: str | None,
    advance: Callable[[int], None],
) -> tuple[list[Codes], list[list[Numbers]], list[pa.Array]]:
    """The numbers of all records, the codes of their values by set and column, and what identifies their people."""
    quasi = list(survey.domains)
    sensitive = list(dict.fromkeys(name for one in sets for name in one.columns))
    types = {name: survey.schema.field(name).type for name in quasi}
    types |= {name: column.listing.data_type for one, column in zip(sets, columns, strict=True) for name in one.columns}
    names = [*quasi, *sensitive, *([person] if person is not None else [])]
    words: list[list[Codes]] = []
    codes: list[list[list[Numbers]]] = [[[] for _ in one.columns] for one in sets]
    persons: list[pa.Array] = []
    for batch in source.batches(names, survey.batch_rows):
        given = dict(zip(names, batch.columns, strict=True))
        typed = {name: cast_to_published(given[name], types[name]) for name in (*quasi, *sensitive)}
        words.append(combinations.words({name: typed[name] for name in quasi}))
        for one, column, of_set in zip(sets, columns, codes, strict=True):
            for name, of_column in zip(one.columns, of_set, strict=True):
                of_column.append(column.encode(typed[name]).astype(np.int32))
        if person is not None:
            persons.append(persons_in(given[person]))
        advance(batch.num_rows)
    together = [np.concatenate(parts) for parts in zip(*words, strict=True)]
    return together, [[np.concatenate(parts) for parts in of_set] for of_set in codes], persons


def _sort_by_person(
    persons: Integers, keys: Codes, most_rows: int | None, key: bytes
) -> tuple[Integers, Integers, Integers]:
    """Where the rows of each person begin, which rows those are, by key, and the rows of people who lose some."""
    counts = np.bincount(persons)
    rows = np.arange(len(persons))
    many = rows[:0]
    if most_rows is not None and (counts > most_rows).any():
        many = rows[counts[persons] > most_rows]
        random = KeyStream(key, Purpose.PEOPLE, 0).words(len(many))
        many = many[np.lexsort((random, persons[many]))]
        firsts = np.flatnonzero(np.diff(persons[many], prepend=-1))
        rank = np.arange(len(many)) - np.repeat(firsts, np.diff(firsts, append=len(many)))
        kept = np.ones(len(rows), dtype=np.bool_)
        kept[many[rank >= most_rows]] = False
        rows = rows[kept]
        counts = np.minimum(counts, most_rows)
    order = rows[np.lexsort((keys[rows], persons[rows]))]
    return np.concatenate(([0], np.cumsum(counts))), order, many
