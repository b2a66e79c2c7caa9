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

from dalenius.attack.exchanges import link
from dalenius.attack.linking import Bits, Items, Linked, Room, surplus
from dalenius.attack.records import Records, Rows, read_records, read_rows
from dalenius.attack.same_table import (
    LeftOut,
    check_classes,
    check_linked,
    check_room,
    check_values,
    expected_left_out,
    values_left_out,
    with_rows_left_out,
)
from dalenius.attack.shown_counts import BucketSizes, ShownCounts, read_counts
from dalenius.infer.candidates import Integers
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Persons

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

    `rows` are the rows, or the people where the release tells them apart; with the truth, those who were found.
    `people` are the people of the table with all their rows, if it was said which column tells them; else None.
    `left_out` is about rows that are not in the release, if there are any and the truth is known.
    """

    sizes: BucketSizes
    shown: tuple[ShownCounts, ...]
    rows: Holders
    people: Holders | None
    left_out: LeftOut | None = None
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
    """Records linked with rows: every row is somebody, and with the column of a person so are all rows of one.

    Nobody knows what people would be seen to have whose rows found no room: they are left out.
    """
    check_classes(records.row_classes, records.record_classes, "rows of quasi-identifiers")
    items = _items(records, np.arange(rows), rows, shown)
    check_values(items, shown, fakes=bool((shown[0].sizes.slots > shown[0].sizes.people).any()))
    linked = _link(records.row_classes, buckets, records.record_classes, items, shown)
    right = np.flatnonzero(~linked.wrong)
    own = tuple(Items.of(*one.take(linked.units[right]), len(right), one.kinds) for one in items)
    everybody = Holders(np.arange(len(right) + 1), buckets[right], own)
    people, scored = None, f"these {rows - len(right):,} rows are"
    if with_people:
        owners = records.people[linked.units]
        number = int(records.people.max(initial=-1)) + 1
        held = _items(records, records.people, number, shown)
        wrong = np.bincount(owners[linked.wrong], minlength=number) > 0
        order = np.lexsort((buckets, owners))
        all_people = Holders(_ends(np.bincount(owners, minlength=number)), buckets[order], held)
        people = all_people.take(np.flatnonzero(~wrong)) if wrong.any() else all_people
        scored = f"the {int(wrong.sum()):,} people with such rows are"
    notes = []
    if linked.certain < rows:
        notes.append(
            f"Which rows of the release are whose is certain for {linked.certain:,} of {rows:,}; the others are linked "
            "with the table in one of the ways that are possible"
        )
    if len(right) < rows:
        notes.append(
            f"For {rows - len(right):,} of {rows:,} rows no bucket with room for their values was found; {scored} left "
            "out where attackers on people are scored"
        )
    return Whereabouts(shown[0].sizes, tuple(shown), everybody, people, notes=tuple(notes))


def _by_people(
    release: ReleaseFolder, rows: Rows, records: Records | None, shown: Sequence[ShownCounts], places: Integers
) -> Whereabouts:
    """People of the table linked with those of the release, by all their rows.

    How many people of a bucket have a value is plain from the release: that needs no link. So the link shows that the
    table fits, and who has what together.
    """
    sizes, persons = shown[0].sizes, release.manifest.persons
    width = int(sizes.people.max(initial=0)) + 1
    keys, owners = np.unique(places * width + rows.numbers, return_inverse=True)
    buckets = keys // width
    if records is None or persons is None:
        everybody = Holders(np.arange(len(keys) + 1), buckets, None)
        return Whereabouts(sizes, tuple(shown), everybody, everybody)
    number = int(records.people.max(initial=-1)) + 1
    classes, unit_classes = _signatures(owners, records.row_classes, records.people, records.record_classes)
    incomplete = with_rows_left_out(persons, records, len(rows.numbers))
    check_classes(classes, unit_classes, "people", incomplete)
    items = _items(records, records.people, number, shown)
    check_values(items, shown, left_out=incomplete is not None)
    linked = _link(classes, buckets, unit_classes, items, shown)
    found = np.flatnonzero((linked.units >= 0) & ~linked.wrong)
    own = tuple(Items.of(*one.take(linked.units[found]), len(found), one.kinds) for one in items)
    everybody = Holders(np.arange(len(found) + 1), buckets[found], own)
    left_out = None
    if incomplete is not None:
        left_out = LeftOut(expected_left_out(classes, unit_classes, buckets, incomplete), items)
    notes = _notes_by_people(linked, shown, persons, incomplete, items)
    return Whereabouts(sizes, tuple(shown), everybody, everybody, left_out, notes)


def _notes_by_people(
    linked: Linked, shown: Sequence[ShownCounts], persons: Persons, incomplete: Bits | None, items: Sequence[Items]
) -> tuple[str, ...]:
    """How far the table agrees with the release, and what is not in it."""
    fits = "fit into the buckets with all their values"
    if linked.misplaced:
        fits = (
            f"fit into the buckets but for {linked.misplaced:,} of their {linked.held:,} values "
            f"({linked.misplaced / linked.held:.2%}), for which no room was found; the attackers 'intersection' and "
            "'union' are scored without regard to that"
        )
    shows = "How many people of a bucket have a value is what the release shows of it"
    if incomplete is None:
        return (f"{shows}. The people of the table {fits}",)
    values = sum(int(values_left_out(own, one).sum()) for own, one in zip(items, shown, strict=True))
    return (
        f"{persons.dropped:,} rows of {int(incomplete.sum()):,} people are not in the release. The {values:,} values "
        "that these people have in such rows alone count in favour of the attackers, spread evenly over the places "
        "where these people may be",
        f"{shows}, apart from that. The other people of the table {fits}",
    )


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
    check_room(surplus(classes, buckets, unit_classes, together, room))
    linked = link(classes, buckets, unit_classes, together, room, np.random.default_rng(0))  # nothing secret
    check_linked(linked)
    return linked


def _ends(lengths: Integers) -> Integers:
    return np.concatenate(([0], np.cumsum(lengths)))
