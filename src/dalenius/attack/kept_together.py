"""What goes with what in columns that are kept together: for whoever knows one of them, the release says it.

Of the h people of a bucket with value y, n have the tuple (x, y): so p(x | bucket, y) = n / h, and nothing has to be
learned. If people have several rows, these are the people with both in one row. Others may have both in different
rows, so the belief is the least that there is.
"""

from __future__ import annotations

import numpy as np

from dalenius.attack.linking import Items
from dalenius.attack.reading import value_codes_of
from dalenius.attack.shown_counts import ShownCounts
from dalenius.infer.candidates import Floats, Integers
from dalenius.release.folder import ReleaseFolder
from dalenius.verify.row_order import integers

_ROWS_AT_ONCE = 2**17


def table_of(release: ReleaseFolder, one: int, other: int) -> int | None:
    """The number of the table of tuples that has two sensitive columns, by their numbers; None if they are apart."""
    names = release.manifest.sensitive_names
    kept = (
        number
        for number, table in enumerate(release.manifest.together)
        if {names[one], names[other]} <= {*table.columns}
    )
    return next(kept, None)


def tuples_of_pairs(
    release: ReleaseFolder,
    places: tuple[int, int],
    shown: tuple[ShownCounts, ShownCounts],
    cells: tuple[Integers, Integers],
) -> Floats:
    """How many people have both values in one row, for pairs of cells of two columns, whose numbers are `places`.

    `cells` are in ascending order, the first column's before the second's.
    """
    number = table_of(release, *places)
    if number is None:
        raise ValueError("these columns are apart")
    folder, views = release.kept_together(number), [release.view(place) for place in places]
    names = [view.manifest.columns.sensitive.name for view in views]
    codes = [value_codes_of(view) for view in views]
    width = len(shown[1].values)
    wanted = cells[0] * width + cells[1]
    counts = np.zeros(len(wanted), np.int64)
    columns = [release.manifest.columns.bucket, *names]
    for batch in folder.batches("together", columns, rows=_ROWS_AT_ONCE, coded=True):
        bucket, *values = batch.columns
        buckets = np.searchsorted(shown[0].sizes.numbers, integers(bucket).view(np.int64))
        mine = []
        for own, code, column in zip(shown, codes, values, strict=True):
            place = np.searchsorted(own.keys, buckets * own.kinds + code.of(column))
            mine.append(np.minimum(place, len(own.keys) - 1))
        keys = mine[0] * width + mine[1]
        place = np.minimum(np.searchsorted(wanted, keys), max(0, len(wanted) - 1))
        there = wanted[place] == keys if len(wanted) else np.zeros(len(keys), bool)
        counts += np.bincount(place[there], minlength=len(counts))
    return counts.astype(np.float64)


def with_both(
    known: Items, asked: Items, buckets: Integers, shown: tuple[ShownCounts, ShownCounts]
) -> tuple[Integers, Integers]:
    """The cells of both columns of every pair of values that somebody really has."""
    people = np.repeat(np.arange(len(known.first) - 1), np.diff(known.first))
    places, asked_codes = asked.take(people)
    found = []
    for own, codes in zip(shown, (known.codes[places], asked_codes), strict=True):
        place = np.searchsorted(own.keys, buckets[people[places]] * own.kinds + codes)
        found.append(np.minimum(place, len(own.keys) - 1))
    return found[0], found[1]
