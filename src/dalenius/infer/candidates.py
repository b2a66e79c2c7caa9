"""The candidates that a release leaves open: the rows of buckets, and the values that each row may have.

Buckets with the same number S of rows, d of different values and σ of values that are nobody's are a `Block`, in which
everything is a dense array: bucket b of the block has the values v[b, 1..d] with counts c[b, 1..d], and the rows
first[b] ... first[b] + S - 1. What an attacker believes is for every block an array p[b, r, j], the probability that
row r of bucket b has value v[b, j].

The counts add up to S + σ, and where there is any, p has one more row, of mass σ, for what is nobody's: fake values,
and those of people who left. They are called fakes here; how many there are differs by bucket only where people left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dalenius.release.two_tables import is_text
from dalenius.tables.arrays import filled, widened

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Beliefs = list[Floats]

_BLOCK_ENTRIES = 2**18  # of a block: what is worked out for it stays small
_MOST_KINDS = 200  # values of an ordered column that are told apart; where there are more, ranges are
_RANGES = 50
_CELLS = 2**20  # of a table of sensitive values by values of a column
_FEW_TEXTS = 20  # that a column of text may have, however few the rows
_FEW_ROWS = 5  # with a text, that it is told apart if there are many texts
_OWN_TEXTS = 0.9  # of the rows, whose texts are too rare, that nothing is learned of the column


@dataclass(frozen=True)
class Block:
    """Buckets with as many rows, different values and fakes each. `buckets` are places in `Candidates.numbers`."""

    buckets: Integers
    first_rows: Integers
    size: int
    fakes: int
    values: Integers
    counts: Integers

    @property
    def rows(self) -> Integers:
        """The rows of each bucket: buckets x size."""
        return self.first_rows[:, None] + np.arange(self.size)

    @property
    def slots(self) -> int:
        """How many values each bucket has, fakes included."""
        return self.size + self.fakes

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of beliefs; the fakes are their last row."""
        return len(self.buckets), self.size + (self.fakes > 0), self.values.shape[1]

    @property
    def masses(self) -> Floats:
        """What the rows of a belief add up to."""
        return np.array([1.0] * self.size + [float(self.fakes)] * (self.fakes > 0))

    def shares(self) -> Floats:
        """Beliefs of somebody who knows nothing but the bucket: count / slots."""
        plain = (self.counts / self.slots)[:, None, :]
        shares: Floats = plain * self.masses[:, None]
        return shares


@dataclass(frozen=True)
class Column:
    """A quasi-identifier as codes from 0 to kinds - 1; people outside of the release may have the code kinds.

    If it is ordered, a larger value has a larger code, and nulls have the largest.
    """

    name: str
    codes: npt.NDArray[np.int32]
    kinds: int
    ordered: bool = False


@dataclass(frozen=True)
class Candidates:
    """Buckets and their rows, which are numbered in the order of buckets, and the quasi-identifiers as codes.

    `values` is the number of sensitive values. Codes may go on beyond the rows: with people who are not in the release.
    """

    numbers: Integers
    bucket_of: Integers
    blocks: tuple[Block, ...]
    values: int
    columns: tuple[Column, ...] = ()

    @property
    def rows(self) -> int:
        """How many people there are."""
        return len(self.bucket_of)

    @property
    def fakes(self) -> int:
        """How many values are nobody's, in all buckets."""
        return sum(block.fakes * len(block.buckets) for block in self.blocks)

    def shares(self) -> Beliefs:
        """The beliefs that follow from the buckets alone."""
        return [block.shares() for block in self.blocks]

    def counts(self) -> Floats:
        """How often each value is there."""
        counts = np.zeros(self.values)
        for block in self.blocks:
            np.add.at(counts, block.values, block.counts)
        return counts


def make_blocks(
    bucket_of: Integers, cell_buckets: Integers, cell_values: Integers, cell_counts: Integers
) -> tuple[Block, ...]:
    """The blocks, from the bucket of every row, ascending from 0, and bucket, value and count of every cell.

    Every bucket has a row, and at least as many values as rows.
    """
    number = int(bucket_of[-1]) + 1 if len(bucket_of) else 0
    sizes = np.bincount(bucket_of, minlength=number)
    different = np.bincount(cell_buckets, minlength=number)
    first_rows, first_cells = np.cumsum(sizes) - sizes, np.cumsum(different) - different
    slots = np.bincount(cell_buckets, weights=cell_counts, minlength=number).astype(np.int64)
    fakes = slots - sizes
    shapes = (sizes * (int(fakes.max(initial=0)) + 1) + fakes) * (int(different.max(initial=0)) + 1) + different
    order = np.argsort(shapes, kind="stable")
    ends = np.flatnonzero(np.diff(shapes[order])) + 1
    blocks = []
    for alike in np.split(order, ends):
        for buckets in _split(alike, int(sizes[alike[0]]) + 1, int(different[alike[0]])) if len(alike) else ():
            cells = first_cells[buckets][:, None] + np.arange(different[buckets[0]])
            blocks.append(
                Block(
                    buckets=buckets,
                    first_rows=first_rows[buckets],
                    size=int(sizes[buckets[0]]),
                    fakes=int(fakes[buckets[0]]),
                    values=cell_values[cells].astype(np.int64),
                    counts=cell_counts[cells].astype(np.int64),
                )
            )
    return tuple(blocks)


def with_kinds(candidates: Candidates, kind_of: Integers, kinds: int) -> Candidates:
    """The same with `kinds` of values instead of values; `kind_of` has that of every value."""
    cells, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for block in candidates.blocks:
        cells.append((block.buckets[:, None] * kinds + kind_of[block.values]).ravel())
        counts.append(block.counts.ravel())
    keys, places = np.unique(np.concatenate(cells), return_inverse=True)
    totals = np.zeros(len(keys), np.int64)
    np.add.at(totals, places, np.concatenate(counts))
    buckets, values = np.divmod(keys, kinds)
    blocks = make_blocks(candidates.bucket_of, buckets, values, totals)
    return replace(candidates, blocks=blocks, values=kinds)


def of_buckets(candidates: Candidates, chosen: Integers) -> Candidates:
    """The same with some of its buckets alone: their places, ascending. People who are not in the release stay."""
    place = np.full(len(candidates.numbers), -1)
    place[chosen] = np.arange(len(chosen))
    rows = place[candidates.bucket_of] >= 0
    cells: list[list[Integers]] = [[np.zeros(0, np.int64)] for _ in range(3)]
    for block in candidates.blocks:
        there = place[block.buckets] >= 0
        values, counts = block.values[there], block.counts[there]
        for part, own in zip(
            cells, (np.repeat(place[block.buckets[there]], values.shape[1]), values, counts), strict=True
        ):
            part.append(own.ravel())
    buckets, values, counts = (np.concatenate(part) for part in cells)
    order = np.argsort(buckets, kind="stable")
    bucket_of = place[candidates.bucket_of[rows]]
    beyond = np.append(
        rows, np.ones(max(0, len(candidates.columns[0].codes) - len(rows)) if candidates.columns else 0, bool)
    )
    return Candidates(
        numbers=candidates.numbers[chosen],
        bucket_of=bucket_of,
        blocks=make_blocks(bucket_of, buckets[order], values[order], counts[order]),
        values=candidates.values,
        columns=tuple(replace(column, codes=column.codes[beyond]) for column in candidates.columns),
    )


def _split(alike: Integers, rows: int, different: int) -> Iterator[Integers]:
    step = max(1, _BLOCK_ENTRIES // max(1, rows * different))
    for start in range(0, len(alike), step):
        yield alike[start : start + step]


@dataclass(frozen=True)
class Coder:
    """How the cells of a column are coded: the code of every entry and, after them, of a null."""

    _entries: pa.Array
    _code_of: Integers
    kinds: int
    ranged: bool

    def of(self, column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """The codes of other cells. A new one has that of the last entry before it in ranges, and else `kinds`."""
        entries, kinds = self._entries, self.kinds
        indices, everything = _indices(pa.chunked_array([entries, *column.cast(entries.type).chunks]))
        codes = np.full(len(everything) + 1, kinds)
        codes[indices[: len(entries)]] = self._code_of[:-1]
        codes[-1] = self._code_of[-1]
        if self.ranged:
            order = filled(pc.sort_indices(everything), 0).astype(np.int64)
            known = np.flatnonzero(codes[order] < kinds)
            last = np.searchsorted(known, np.arange(len(order)), side="right") - 1
            codes[order] = codes[order][known[np.maximum(last, 0)]]
        found: npt.NDArray[np.int32] = codes[indices[len(entries) :]].astype(np.int32)
        return found


def encode_column(
    name: str, column: pa.ChunkedArray, values: int, others: pa.ChunkedArray | None = None
) -> Column | None:
    """A quasi-identifier as codes; None if nearly every row has a text of its own, of which nothing can be learned.

    Ordered columns with many values are cut into ranges with about as many rows each; of texts the most frequent are
    told apart, as far as a table of them by sensitive values has room. Where there are many texts, those that fewer
    than five rows have are as one. `others` are the cells of people who are not in the release. They are coded as its
    rows are and have no say in it; what no row has is the code after the last.
    """
    found = code_column(name, column, values)
    if found is None or others is None:
        return found[0] if found is not None else None
    coded, coder = found
    return replace(coded, codes=np.append(coded.codes, coder.of(others)))


def code_column(name: str, column: pa.ChunkedArray, values: int) -> tuple[Column, Coder] | None:
    """The same, and how other cells are coded."""
    if not len(column):
        return Column(name, np.zeros(0, np.int32), 1), Coder(pa.nulls(0, column.type), np.zeros(1, np.int64), 1, False)
    indices, entries = _indices(column)
    used, rows = np.unique(indices, return_inverse=True)
    counts = np.bincount(rows)
    codes: Integers | None
    most = max(2, min(_CELLS // max(1, values), 2**15))
    ranges = 0
    ordered = _is_ordered(entries.type)
    if ordered:
        if len(used) > min(_MOST_KINDS, most):
            ranges = min(_RANGES, most - 1)
            codes = _ranges(used, counts, entries, ranges)
        else:
            codes = np.empty(len(used), np.int64)
            codes[np.argsort(_ranks(entries)[used])] = np.arange(len(used))
    else:
        codes = _frequent(counts, most)
    if codes is None:
        return None
    kinds = int(codes.max()) + 1
    code_of = np.full(len(entries) + 1, kinds)
    code_of[used] = codes
    return Column(name, codes[rows].astype(np.int32), kinds, ordered), Coder(entries, code_of, kinds, ranges > 0)


def _indices(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.integer], pa.Array]:
    """Places in a list of different entries; a null has the place after its end."""
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        whole = pa.concat_arrays(column.unify_dictionaries().chunks)
    else:
        whole = pa.concat_arrays(widened(column).dictionary_encode().unify_dictionaries().chunks)
    return filled(whole.indices, len(whole.dictionary)), whole.dictionary


def _is_ordered(data_type: pa.DataType) -> bool:
    return not (
        is_text(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
    )


def _frequent(counts: Integers, most: int) -> Integers | None:
    """A code for every frequent text, and one for all others together; None if nearly all rows have rare ones."""
    if len(counts) > max(_FEW_TEXTS, counts.sum() / 10):
        rare = counts < _FEW_ROWS
        if counts[rare].sum() > _OWN_TEXTS * counts.sum():
            return None
        most = min(most, len(counts) - int(rare.sum()) + 1)
    codes = np.arange(len(counts))
    if len(counts) > most:
        codes[np.argsort(-counts, kind="stable")] = np.minimum(np.arange(len(counts)), most - 1)
    return codes


def _ranks(entries: pa.Array) -> Integers:
    """The rank of every entry; after the last that of a null."""
    ranks = np.empty(len(entries) + 1, np.int64)
    ranks[filled(pc.sort_indices(entries), 0).astype(np.int64)] = np.arange(len(entries))
    ranks[-1] = len(entries)
    return ranks


def _ranges(used: npt.NDArray[np.integer], counts: Integers, entries: pa.Array, ranges: int) -> Integers:
    """The range of every used entry by the middle of its rows; nulls have a code of their own, the last."""
    order = np.argsort(_ranks(entries)[used], kind="stable")
    middles = np.cumsum(counts[order]) - counts[order] / 2
    place = np.empty(len(used), np.int64)
    there = max(1, int(counts[used < len(entries)].sum()))
    place[order] = np.minimum(middles * ranges / there, ranges - 1).astype(np.int64)
    place[used == len(entries)] = ranges
    range_of_entry: Integers = np.unique(place, return_inverse=True)[1]
    return range_of_entry
