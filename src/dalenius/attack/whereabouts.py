"""Who is where in a release: the people of the table, the buckets that their rows are in, and what they have.

Whoever attacks people knows which rows are theirs. In a release by rows the table says so: its records are linked with
rows (`linking`), and the column of a person with each other. In a release by people QIT says so; people of the table
are linked with them by all their rows, to know who really has what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dalenius.attack.linking import Items, Linked, Room, link
from dalenius.attack.people import OTHER_VALUES, SAME_TABLE, TOO_FAR
from dalenius.attack.records import Records, Rows, read_records, read_rows
from dalenius.attack.shown_counts import BucketSizes, ShownCounts, read_counts
from dalenius.errors import InputError
from dalenius.infer.candidates import Integers
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder

_ROW_BYTES = 200  # of arrays for each row, with one sensitive column


@dataclass(frozen=True)
class Holders:
    """People, with the places of the buckets that their rows are in: `buckets[first[u]:first[u + 1]]`, ascending.

    `items` are the values that each really has, sensitive column by column; None without the truth.
    """

    first: Integers
    buckets: Integers
    items: tuple[Items, ...] | None

    @property
    def number(self) -> int:
        """How many people there are."""
        return len(self.first) - 1

    @property
    def rows(self) -> Integers:
        """How many buckets each person is in, the same one several times if several rows are there."""
        return np.diff(self.first)

    def take(self, chosen: Integers) -> Holders:
        """Some of the people."""
        rows = Items(self.first, self.buckets, 0).take(chosen)[1]
        items = None
        if self.items is not None:
            items = tuple(Items.of(*one.take(chosen), len(chosen), one.kinds) for one in self.items)
        return Holders(_ends(self.rows[chosen]), rows, items)


@dataclass(frozen=True)
class Whereabouts:
    """The buckets of a release, what they show of each sensitive column, and who is in them.

    `rows` are the rows, or the people where the release tells them apart. `people` are the people of the table with
    all their rows, if it was said which column tells them; else None.
    """

    sizes: BucketSizes
    shown: tuple[ShownCounts, ...]
    rows: Holders
    people: Holders | None
    notes: tuple[str, ...] = ()


def find_people(
    release: ReleaseFolder, truth: Any, table: str | None, person: str | None, progress: Progress
) -> Whereabouts:
    """Read all buckets; with the truth, find who is in them."""
    manifest = release.manifest
    needed = manifest.rows * _ROW_BYTES * manifest.sets
    release.memory.require(needed, release.memory.engine, "what is kept of everybody's rows")
    progress.stage("Finding people")
    memory = min(2**30, release.memory.engine // 2)
    rows, records = (
        read_records(truth, table, release, person, memory) if truth is not None else (read_rows(release), None)
    )
    sizes = BucketSizes.of(release, rows)
    shown = tuple(read_counts(release.view(number), sizes) for number in range(manifest.sets))
    places = np.searchsorted(sizes.numbers, rows.buckets)
    if manifest.persons is not None:
        return _by_people(release, rows, records, shown, places)
    if records is None:
        return Whereabouts(sizes, shown, Holders(np.arange(len(places) + 1), places, None), None)
    return _by_rows(records, shown, places, manifest.rows, person is not None)


def _by_rows(
    records: Records, shown: Sequence[ShownCounts], buckets: Integers, rows: int, with_people: bool
) -> Whereabouts:
    """Records linked with rows: every row is somebody, and with the column of a person so are all rows of one."""
    _check(records.row_classes, records.record_classes, "rows of quasi-identifiers", rows)
    units = np.arange(len(records.people))
    items = _items(records, units, len(units), shown)
    linked = _link(records.row_classes, buckets, records.record_classes, items, shown)
    sizes = shown[0].sizes
    own = tuple(Items.of(*one.take(linked.units), rows, one.kinds) for one in items)
    everybody = Holders(np.arange(rows + 1), buckets, own)
    people = None
    if with_people:
        owners = records.people[linked.units]
        number = int(records.people.max(initial=-1)) + 1
        order = np.lexsort((buckets, owners))
        held = _items(records, records.people, number, shown)
        people = Holders(_ends(np.bincount(owners, minlength=number)), buckets[order], held)
    return Whereabouts(sizes, tuple(shown), everybody, people, _notes(linked, rows, "rows"))


def _by_people(
    release: ReleaseFolder, rows: Rows, records: Records | None, shown: Sequence[ShownCounts], places: Integers
) -> Whereabouts:
    """People of the table linked with those of the release, by all their rows."""
    sizes = shown[0].sizes
    width = int(sizes.people.max(initial=0)) + 1
    keys, owners = np.unique(places * width + rows.numbers, return_inverse=True)
    buckets = keys // width
    if records is None:
        everybody = Holders(np.arange(len(keys) + 1), buckets, None)
        return Whereabouts(sizes, tuple(shown), everybody, everybody)
    number = int(records.people.max(initial=-1)) + 1
    classes, unit_classes = _signatures(owners, records.row_classes, records.people, records.record_classes)
    persons = release.manifest.persons
    whole = persons is None or not persons.dropped
    if whole:
        _check(classes, unit_classes, "people", len(keys))
    items = _items(records, records.people, number, shown)
    linked = _link(classes, buckets, unit_classes, items, shown)
    found = np.flatnonzero(linked.units >= 0)
    own = tuple(Items.of(*one.take(linked.units[found]), len(found), one.kinds) for one in items)
    everybody = Holders(np.arange(len(found) + 1), buckets[found], own)
    notes = _notes(linked, len(keys), "people")
    if len(found) < len(keys):
        notes += (
            f"{len(keys) - len(found):,} of {len(keys):,} people have rows that were left out of the release, and are "
            "not found in the table: the attackers on people are not scored on them",
        )
    return Whereabouts(sizes, tuple(shown), everybody, everybody, notes)


def _signatures(
    owners: Integers, classes: Integers, people: Integers, record_classes: Integers
) -> tuple[Integers, Integers]:
    """Classes of people: those with the same rows have the same number, in the release and in the table.

    Of the table, people with a row that the release has not have -1.
    """
    number, width = int(owners.max(initial=-1)) + 1, int(classes.max(initial=-1)) + 1
    everybody = np.concatenate([owners, people + number])
    everything = np.concatenate([classes, record_classes])
    order = np.lexsort((everything, everybody))
    lengths = np.bincount(everybody)
    first = np.cumsum(lengths) - lengths
    sorted_classes = everything[order]
    signatures, last = np.full(len(lengths), -1), 0
    for length in np.unique(lengths[lengths > 0]).tolist():
        mine = np.flatnonzero(lengths == length)
        codes = np.zeros(len(mine), np.int64)
        for place in range(length):
            codes = np.unique(codes * (width + 1) + sorted_classes[first[mine] + place] + 1, return_inverse=True)[1]
        signatures[mine] = codes + last
        last += int(codes.max()) + 1
    signatures[number:][np.unique(people[record_classes < 0])] = -1
    return signatures[:number], signatures[number:]


def _items(records: Records, owners: Integers, number: int, shown: Sequence[ShownCounts]) -> tuple[Items, ...]:
    """The values of owners of records, set by set."""
    return tuple(
        Items.of(np.tile(owners, len(codes)), np.concatenate(codes), number, one.kinds)
        for codes, one in zip(records.values, shown, strict=True)
    )


def _link(
    classes: Integers, buckets: Integers, unit_classes: Integers, items: Sequence[Items], shown: Sequence[ShownCounts]
) -> Linked:
    """Link with all sensitive columns at once: their values are one list."""
    starts = np.cumsum([0, *(one.kinds for one in items)]).tolist()
    kinds, units = starts[-1], len(unit_classes)
    owners = [np.repeat(np.arange(units), np.diff(one.first)) for one in items]
    codes = [one.codes + start for one, start in zip(items, starts, strict=False)]
    together = Items.of(np.concatenate(owners), np.concatenate(codes), units, kinds)
    keys = [one.buckets * kinds + one.values + start for one, start in zip(shown, starts, strict=False)]
    order = np.argsort(np.concatenate(keys), kind="stable")
    room = Room(np.concatenate(keys)[order], np.concatenate([one.counts for one in shown])[order])
    linked = link(classes, buckets, unit_classes, together, room, np.random.default_rng(0))  # nothing secret
    if linked.misplaced > TOO_FAR * len(classes):
        raise InputError(OTHER_VALUES, SAME_TABLE)
    return linked


def _check(classes: Integers, unit_classes: Integers, what: str, number: int) -> None:
    """The table and the release as multisets of rows, or of people."""
    if len(unit_classes) != number:
        raise InputError(
            f"the table is not that of the release: it has {len(unit_classes):,} {what}, and the release {number:,}",
            SAME_TABLE,
        )
    kinds = int(max(classes.max(initial=-1), unit_classes.max(initial=-1))) + 1
    there = np.bincount(unit_classes[unit_classes >= 0], minlength=kinds)
    differ = int(np.abs(np.bincount(classes, minlength=kinds) - there).sum()) + int((unit_classes < 0).sum())
    if differ:
        raise InputError(f"the table is not that of the release: {differ:,} {what} differ", SAME_TABLE)


def _notes(linked: Linked, number: int, what: str) -> tuple[str, ...]:
    notes = []
    if linked.certain < number:
        notes.append(
            f"Which {what} of the release are whose is certain for {linked.certain:,} of {number:,}; the others are "
            "linked with the table in one of the ways that are possible"
        )
    if linked.misplaced:
        notes.append(f"{linked.misplaced:,} values of the table could not be linked with a bucket that has them")
    return tuple(notes)


def _ends(lengths: Integers) -> Integers:
    return np.concatenate(([0], np.cumsum(lengths)))
