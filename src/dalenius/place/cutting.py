"""The stratum of every record, batch by batch: that of the leaf to which the tree leads its quasi-identifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.place.budget import in_parallel
from dalenius.place.columns import cast_to_published
from dalenius.place.domains import Domain, Integers, changed_table_error, codes_of
from dalenius.place.sensitive import SensitiveColumn
from dalenius.strata.tree import Tree, collapse_strata, remove_leaves
from dalenius.tables.arrays import texts
from dalenius.tables.arrow import Source

_NARROW = 2**16


class OrderedColumn:
    """A column as a tree sees it: codes in the order of the values, and one for nulls and NaN, above all others."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        values = domain.codes - domain.has_nulls
        last = domain.decode(np.asarray([max(values, 1) - 1], dtype=np.uint64)) if values else None
        has_nan = last is not None and pa.types.is_floating(last.type) and bool(np.isnan(last[0].as_py()))
        self._values = values - has_nan
        self.codes = self._values + (has_nan or domain.has_nulls)

    @classmethod
    def if_possible(cls, domain: Domain | None) -> OrderedColumn | None:
        """None if the column cannot be cut: its values are too many to be listed, or have no order or no exact text."""
        return cls(domain) if domain is not None and _can_be_cut(domain.data_type) else None

    def encode(self, array: pa.Array) -> npt.NDArray[np.integer]:
        """The codes of an array of the type that is published."""
        return self.order_codes(codes_of(self._domain, array))

    def order_codes(self, codes: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """The tree's codes for codes of the column's domain."""
        return codes if self.codes == self._domain.codes else np.minimum(codes, codes.dtype.type(self._values))

    def texts(self, codes: Integers) -> list[str]:
        """The texts of the values with these codes."""
        return [str(text) for text in texts(self._domain.decode(codes.astype(np.uint64)))]


def _can_be_cut(data_type: pa.DataType) -> bool:
    plain = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_date32,
        pa.types.is_timestamp,
        pa.types.is_time,
    )
    return any(test(plain) for test in tests)


class Cutter:
    """A tree over the codes of some columns, and the stratum of each of its leaves."""

    def __init__(
        self, tree: Tree, domains: Mapping[str, OrderedColumn], stratum_of_leaf: Integers | None = None
    ) -> None:
        """`domains` are the columns that the tree asks about, in its order. Without strata each leaf is one."""
        self._tree, self._domains = tree, domains
        self.strata = np.arange(tree.leaves) if stratum_of_leaf is None else stratum_of_leaf
        self.columns = tuple(domains)

    @property
    def number(self) -> int:
        """How many strata there are."""
        return int(self.strata.max()) + 1

    def merge(self, stratum_of_leaf: Integers) -> Cutter:
        """Leaves merged into strata: the tree asks no more than is needed to tell these."""
        tree, strata = collapse_strata(self._tree, stratum_of_leaf)
        return Cutter(tree, self._domains, strata)

    def remove_leaves(self, empty: npt.NDArray[np.bool_]) -> Cutter:
        """The tree without leaves that nobody is in, each other leaf a stratum."""
        return Cutter(remove_leaves(self._tree, empty), self._domains) if empty.any() else self

    def at_values(self, occurring: Mapping[str, npt.NDArray[np.integer]]) -> Cutter:
        """The same cuts, each at the largest of a column's occurring codes that is not above it."""
        at_most = self._tree.at_most.copy()
        for column, name in enumerate(self._domains):
            here = self._tree.column == column
            at_most[here] = occurring[name][np.searchsorted(occurring[name], at_most[here], side="right") - 1]
        return Cutter(replace(self._tree, at_most=at_most), self._domains, self.strata)

    def strata_of(self, columns: Mapping[str, pa.Array]) -> npt.NDArray[np.integer]:
        """The stratum of each record. The columns have the types that are published."""
        return self._of([domain.encode(columns[name]) for name, domain in self._domains.items()])

    def strata_of_codes(self, codes: Mapping[str, npt.NDArray[np.integer]]) -> npt.NDArray[np.integer]:
        """The same from the codes of columns."""
        return self._of([domain.order_codes(codes[name]) for name, domain in self._domains.items()])

    def _of(self, codes: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.integer]:
        return self.strata.take(self._tree.leaves_of(codes))

    def questions(self) -> list[tuple[str, str, int, int] | int]:
        """The tree from its root on: (column, text of a value, place if at most that, place if not), or a stratum."""
        tree, names = self._tree, list(self._domains)
        at_most = [""] * len(tree.column)
        for column, name in enumerate(names):  # all texts of a column at once: a single one may cost as much
            places = np.flatnonzero(tree.column == column)
            for place, text in zip(places.tolist(), self._domains[name].texts(tree.at_most[places]), strict=True):
                at_most[place] = text
        return [
            int(self.strata[tree.leaf[place]])
            if column < 0
            else (names[column], at_most[place], int(tree.below[place]), int(tree.above[place]))
            for place, column in enumerate(tree.column.tolist())
        ]


def sortable_type(numbers: int) -> type[np.integer]:
    """The type of that many different numbers that sorts fast."""
    return np.uint16 if numbers <= _NARROW else np.int64


class StratumValues:
    """Values as placement numbers them: each value of each stratum, stratum after stratum.

    Where records are placed (`apart`), those with values that do not apply are in a stratum behind all others.
    """

    def __init__(self, sensitive: SensitiveColumn, cutter: Cutter | None, apart: bool = False) -> None:
        self.sensitive, self._cutter = sensitive, cutter
        self._strata = cutter.number if cutter is not None else 1
        self._apart = apart and sensitive.apart > 0
        self.number = len(sensitive.counts) * (self._strata + self._apart)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns by which strata are told apart."""
        return self._cutter.columns if self._cutter is not None else ()

    def by_stratum(self, counts: Integers) -> Integers:
        """Counts by number as a table, a line for each stratum; an error if they are not those of the first reading."""
        table = counts.reshape(-1, len(self.sensitive.counts))
        if (table.sum(axis=0) != self.sensitive.counts).any():
            raise changed_table_error()
        return table

    def encode(self, values: pa.Array, columns: Mapping[str, pa.Array]) -> npt.NDArray[np.integer]:
        """The numbers of a batch, in the narrowest type that sorts fast."""
        codes = self.sensitive.encode(values)
        return self.of_codes(codes, self._cutter.strata_of(columns) if self._cutter is not None else None)

    def of_codes(
        self, codes: npt.NDArray[np.integer], strata: npt.NDArray[np.integer] | None
    ) -> npt.NDArray[np.integer]:
        """The same from the codes of values, and the strata to which the tree leads, if there is one."""
        if self._apart:
            strata = np.where(codes < self.sensitive.applying, 0 if strata is None else strata, self._strata)
        if strata is None:
            return codes
        numbers: npt.NDArray[np.integer] = strata.astype(np.int64, copy=False) * len(self.sensitive.counts) + codes
        return numbers.astype(sortable_type(self.number), copy=False)


def count_strata(
    source: Source,
    schema: pa.Schema,
    stratum_values: StratumValues,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
) -> Integers:
    """Read the table again and count every value in every stratum; an error if it is not the table of before.

    `schema` has the types that are published, the sensitive column last.
    """
    names = [*stratum_values.columns, schema.names[-1]]
    fields = [schema.field(name) for name in names]

    def work(batch: pa.RecordBatch) -> tuple[int, Integers]:
        columns = [cast_to_published(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
        numbers = stratum_values.encode(columns[-1], dict(zip(names, columns, strict=True)))
        return len(numbers), np.bincount(numbers, minlength=stratum_values.number)

    totals = np.zeros(stratum_values.number, dtype=np.int64)
    for rows, counts in in_parallel(work, source.batches(names, batch_rows), workers):
        totals += counts
        advance(rows)
    return stratum_values.by_stratum(totals)
