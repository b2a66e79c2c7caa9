"""A release as attackers read it: every bucket once in passing, and the rows of all buckets, or of a random sample.

`Target` is what every attacker is given: what was read, and the truth where it is known.

A row with d candidate values takes d places in memory. Where the release has more of them than there is room for,
buckets are drawn at random until the room is full; every bucket is equally likely to be in the sample but for those
that alone have too many candidates, of which there is little to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import ReleaseError
from dalenius.infer.candidates import Candidates, Column, Floats, encode_column, make_blocks
from dalenius.model.groups import MOST_LEVELS
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.verify.buckets import BucketStream, Integers, NotAscendingError, WholeBuckets
from dalenius.verify.row_order import OrderOfRows, as_arrow, integers
from dalenius.verify.sensitive_values import ValueCodes
from dalenius.verify.stated_bands import value_codes

if TYPE_CHECKING:  # they read what is defined here
    from dalenius.attack.aligned_rows import People
    from dalenius.attack.claims import LimitedGroups
    from dalenius.attack.corruption import ChosenGroups, ChosenRecords
    from dalenius.attack.dealing import SlotCounts

MOST_ENTRIES = 4_000_000  # of (row, candidate value)
_ROWS_AT_ONCE = 2**17
_BUCKET_BYTES = 100  # kept of every bucket
_ENTRY_BYTES = 400  # for each row and value that it may have
_PAIR_BYTES = 32  # kept of every value of every size and stratum
_VERIFY = "Run dalenius verify on the release."

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Outline:
    """All buckets: numbers in ascending order, how many people each is for, how many different values, and its stratum.

    `rows` are the people who are there, fewer where some left. Buckets of a size in a stratum are a group. Strata count
    from 0; a release without any is one.
    """

    numbers: Integers
    sizes: Integers
    different: Integers
    in_order: bool  # whether ST is in the canonical order
    strata: Integers
    rows: Integers

    @cached_property
    def group_of(self) -> Integers:
        """The group of each bucket, as a place in `groups`."""
        keys = self.strata * (int(self.sizes.max()) + 1) + self.sizes
        places: Integers = np.unique(keys, return_inverse=True)[1]
        return places

    def groups(self) -> dict[tuple[int, int], Integers]:
        """By stratum and size, the places of the buckets."""
        order = np.argsort(self.group_of, kind="stable")
        starts = np.flatnonzero(np.diff(self.group_of[order], prepend=-1))
        parts = np.split(order, starts[1:])
        return {(int(self.strata[part[0]]), int(self.sizes[part[0]])): part for part in parts}


@dataclass(frozen=True)
class Sample:
    """The rows of some buckets, or of all: quasi-identifiers, and the places of the rows in the published file."""

    candidates: Candidates
    rows: pa.Table
    places: Integers
    whole: bool
    in_order: bool  # whether QIT is in the canonical order


@dataclass(frozen=True)
class Control:
    """People who are not in the release: their values, -1 for one that it has not, and their strata, from 0."""

    values: Integers
    strata: Integers


@dataclass(frozen=True)
class Target:
    """What every attacker is given.

    `limits` and `frequencies` are those of all values in the manifest's order; frequencies are as the release shows
    them, or as the truth has them. `slots` are the values of groups of buckets, and `exposure` is what is seen of all
    buckets in passing. `known` is how many records of a bucket the corrupting attacker knows. `groups` are the groups
    of values with a limit, and `group_exposure` is what is seen of them; both are None if there are none. `people` says
    who really has what, and is None without the truth. `control` are the values of people who are not in the release,
    whose quasi-identifiers are coded behind the rows; -1 for a value that the release has not.
    """

    release: ReleaseFolder
    outline: Outline
    sample: Sample
    limits: Sequence[Fraction]
    frequencies: Floats
    slots: SlotCounts
    exposure: ChosenRecords
    known: int
    groups: LimitedGroups | None
    group_exposure: ChosenGroups | None
    people: People | None
    control: Control | None
    progress: Progress

    @property
    def candidates(self) -> Candidates:
        """The values that rows may have."""
        return self.sample.candidates

    @property
    def bucket_strata(self) -> Integers:
        """The stratum of every bucket of the sample."""
        return strata_of(last_buckets(self.release.manifest), self.candidates.numbers)


def entries_that_fit(folder: ReleaseFolder) -> int:
    """How many candidates there is room for. An error if even what is kept of every bucket would be too much."""
    manifest = folder.manifest
    sizes = len({group.size for group in manifest.setting})
    groups = sum(len(stratum.setting) for stratum in manifest.strata.strata) if manifest.strata is not None else sizes
    values, slots = len(manifest.values), manifest.slots
    needed = manifest.buckets * _BUCKET_BYTES + sizes * values * 8 + min(groups * values, slots) * _PAIR_BYTES
    if manifest.groups is not None:  # their counts by size, and where each value is
        needed += (sizes * len(manifest.groups) + MOST_LEVELS * values) * 8
    folder.memory.require(needed, folder.memory.state, "what attackers keep of every bucket")
    return folder.memory.engine // _ENTRY_BYTES


def limits_of(folder: ReleaseFolder) -> list[Fraction]:
    """The limits of all values, in the manifest's order."""
    return [Fraction(entry.limit) for entry in folder.manifest.values]


def read_outline(
    folder: ReleaseFolder,
    watch: Callable[[WholeBuckets], None],
    step: Callable[[int], None],
    rows: Integers | None = None,
) -> Outline:
    """Every bucket of ST, shown to `watch` in passing. `rows` are those of buckets by number, if people left."""
    fakes = folder.manifest.adversary.fake_values
    parts: list[tuple[Integers, Integers, Integers]] = []
    order = OrderOfRows()
    for whole in _whole_buckets(folder, order, step):
        watch(whole)
        different = np.diff(np.append(whole.first_runs, len(whole.counts)))
        parts.append((whole.numbers, whole.sizes - fakes, different))
    numbers, sizes, different = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(numbers) or (sizes < 1).any():
        raise ReleaseError("there are buckets without a row", _VERIFY)
    if rows is not None and (not 0 < numbers[0] <= numbers[-1] < len(rows) or (rows[numbers] > sizes).any()):
        raise ReleaseError("there are buckets with more rows than values", _VERIFY)
    return Outline(
        numbers=numbers,
        sizes=sizes,
        different=different,
        in_order=order.falls == 0,
        strata=strata_of(last_buckets(folder.manifest), numbers),
        rows=sizes if rows is None else rows[numbers],
    )


def last_buckets(manifest: Manifest) -> Integers:
    """The last bucket of each stratum; a release without strata is one."""
    parts = [part.buckets for part in manifest.strata.strata] if manifest.strata is not None else [manifest.buckets]
    return np.cumsum(parts, dtype=np.int64)


def strata_of(last: Integers, numbers: Integers) -> Integers:
    """The stratum of each bucket, from 0; a number beyond all of them counts to the last."""
    strata: Integers = np.minimum(np.searchsorted(last, numbers), len(last) - 1)
    return strata


def draw_buckets(buckets: Outline, most: int, rng: np.random.Generator) -> Integers:
    """The places of the buckets to look at, ascending: all that have rows, or as many as there is room for."""
    entries = np.where(buckets.rows > 0, (buckets.rows + 1) * buckets.different, 0)
    if int(entries.sum()) <= most:
        return np.flatnonzero(entries)
    order = rng.permutation(np.flatnonzero((entries > 0) & (entries <= most)))
    taken = order[np.cumsum(entries[order]) <= most]
    return np.sort(taken)


def read_sample(
    folder: ReleaseFolder,
    every: Outline,
    chosen: Integers,
    step: Callable[[int], None],
    others: pa.Table | None = None,
) -> tuple[Sample, tuple[str, ...]]:
    """The chosen buckets with their rows. `others` are people who are not in the release, coded as its rows."""
    manifest = folder.manifest
    names = [column.name for column in manifest.columns.quasi_identifiers]
    numbers = every.numbers[chosen]
    rows, buckets, places, in_order = _rows_of(folder, names, numbers, step)
    order = np.argsort(buckets, kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        rows, buckets, places = rows.take(as_arrow(order)), buckets[order], places[order]
    bucket_of = np.searchsorted(numbers, buckets)
    if not np.array_equal(np.bincount(bucket_of, minlength=len(numbers)), every.rows[chosen]):
        raise ReleaseError("there are buckets with more rows than values, or fewer", _VERIFY)
    cells = cells_of(folder, numbers, step)
    columns, notes = _columns(rows, others, len(manifest.values))
    candidates = Candidates(
        numbers=numbers,
        bucket_of=bucket_of,
        blocks=make_blocks(bucket_of, *cells),
        values=len(manifest.values),
        columns=tuple(columns),
    )
    whole = len(numbers) == int((every.rows > 0).sum())
    return Sample(candidates=candidates, rows=rows, places=places, whole=whole, in_order=in_order), notes


def values_in_file_order(folder: ReleaseFolder, numbers: Integers) -> tuple[Integers, Codes]:
    """The places in `numbers` of the buckets of ST's rows, and the values, both in the order of the file."""
    codes = value_codes_of(folder)
    buckets, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for batch in _st_batches(folder):
        bucket, sensitive = batch.columns
        place, there = _places(numbers, integers(bucket).view(np.int64))
        values.append(codes.of(sensitive)[there])
        buckets.append(place[there])
    return np.concatenate(buckets), np.concatenate(values)


def published_rows(folder: ReleaseFolder, most: int, numbers: Integers | None = None) -> tuple[Integers, Integers]:
    """The first rows of QIT's file, of some buckets or of all: their places in it, and their buckets."""
    places, buckets, first, left = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0, most
    for batch in folder.batches("qit", [folder.manifest.columns.bucket], rows=_ROWS_AT_ONCE):
        numbered = integers(batch.column(0)).view(np.int64)
        wanted = np.ones(len(numbered), bool) if numbers is None else _places(numbers, numbered)[1]
        there = np.flatnonzero(wanted)[:left]
        places.append(first + there)
        buckets.append(numbered[there])
        first += batch.num_rows
        left -= len(there)
        if not left:
            break
    return np.concatenate(places), np.concatenate(buckets)


def value_codes_of(folder: ReleaseFolder) -> ValueCodes:
    """Gives rows of ST, or of tuples, the places of their values in the manifest."""
    manifest = folder.manifest
    listed = [entry.value for entry in manifest.values]
    return value_codes(manifest, listed, folder.memory)


def _st_batches(folder: ReleaseFolder) -> Iterator[pa.RecordBatch]:
    columns = folder.manifest.columns
    for batch in folder.batches("st", [columns.bucket, columns.sensitive.name], rows=_ROWS_AT_ONCE, coded=True):
        if batch.num_rows:
            if batch.column(0).null_count:
                raise ReleaseError("the bucket column has nulls", _VERIFY)
            yield batch


def _whole_buckets(
    folder: ReleaseFolder, order: OrderOfRows | None, step: Callable[[int], None]
) -> Iterator[WholeBuckets]:
    codes, stream = value_codes_of(folder), BucketStream()
    try:
        for batch in _st_batches(folder):
            bucket, sensitive = batch.columns
            yield from stream.add(integers(bucket).view(np.int64), codes.of(sensitive))
            if order is not None:
                order.add([bucket, sensitive])
            step(batch.num_rows)
        yield stream.finish()
    except NotAscendingError:
        raise ReleaseError("the buckets of the sensitive values are not in ascending order", _VERIFY) from None
    if len(codes.texts) > codes.listed:
        raise ReleaseError("there are sensitive values that the manifest does not list", _VERIFY)


def _rows_of(
    folder: ReleaseFolder, names: Sequence[str], numbers: Integers, step: Callable[[int], None]
) -> tuple[pa.Table, Integers, Integers, bool]:
    bucket = folder.manifest.columns.bucket
    order, first = OrderOfRows(), 0
    kept: list[pa.RecordBatch] = []
    buckets, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batch in folder.batches("qit", [*names, bucket], rows=_ROWS_AT_ONCE, coded=True):
        *others, numbered = batch.columns
        if numbered.null_count:
            raise ReleaseError("the bucket column has nulls", _VERIFY)
        order.add([numbered, *others])
        place, there = _places(numbers, integers(numbered).view(np.int64))
        wanted = np.flatnonzero(there)
        kept.append(batch.select(list(names)).take(as_arrow(wanted)) if len(wanted) < batch.num_rows else batch)
        buckets.append(numbers[place[there]])
        places.append(first + wanted)
        first += batch.num_rows
        step(batch.num_rows)
    tables = [pa.Table.from_batches([batch.select(list(names))]) for batch in kept]
    rows = pa.concat_tables(tables).unify_dictionaries() if names else pa.table({})
    return rows, np.concatenate(buckets), np.concatenate(places), order.falls == 0


def cells_of(
    folder: ReleaseFolder, numbers: Integers, step: Callable[[int], None]
) -> tuple[Integers, Integers, Integers]:
    """Bucket (its place in `numbers`), value and count of every run of ST in one of these buckets."""
    parts: list[tuple[Integers, Integers, Integers]] = []
    for whole in _whole_buckets(folder, None, step):
        place, there = _places(numbers, whole.of_runs(whole.numbers))
        parts.append((place[there], whole.codes[there].astype(np.int64), whole.counts[there]))
    buckets, values, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return buckets, values, counts


def _places(numbers: Integers, buckets: Integers) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Where each bucket is in a sorted list, and whether it is."""
    if not len(numbers):
        return np.zeros(len(buckets), np.int64), np.zeros(len(buckets), bool)
    place = np.minimum(np.searchsorted(numbers, buckets), len(numbers) - 1)
    return place, numbers[place] == buckets


def _columns(rows: pa.Table, others: pa.Table | None, values: int) -> tuple[list[Column], tuple[str, ...]]:
    columns, left_out = [], []
    for name in rows.schema.names:
        coded = encode_column(name, rows.column(name), values, others.column(name) if others is not None else None)
        if coded is None:
            left_out.append(name)
        else:
            columns.append(coded)
    note = f"Nearly every row has a value of its own in {', '.join(map(repr, left_out))}, so nothing is learned of it"
    return columns, (note,) if left_out else ()
