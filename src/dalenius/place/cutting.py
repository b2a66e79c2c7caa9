"""Records to their strata, batch by batch: the leaf of the tree in which a record's quasi-identifiers end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.arrow import Source
from dalenius.engines.texts import texts
from dalenius.place.domains import Domain, changed, codes_of
from dalenius.place.in_parallel import in_parallel
from dalenius.place.published_types import as_published
from dalenius.place.sensitive import SensitiveColumn
from dalenius.strata.tree import Tree

Integers = npt.NDArray[np.int64]

_NARROW = 2**16


class Cutter:
    """A tree over the codes of some columns, and the stratum of each of its leaves."""

    def __init__(self, tree: Tree, domains: Mapping[str, Domain], stratum_of_leaf: Integers | None = None) -> None:
        """`domains` are those of the columns that the tree is about, in its order. Without strata, leaves are."""
        self._tree, self._domains = tree, domains
        self.strata = np.arange(tree.leaves) if stratum_of_leaf is None else stratum_of_leaf
        self.columns = tuple(domains)

    @property
    def number(self) -> int:
        """How many strata there are."""
        return int(self.strata.max()) + 1

    def merged(self, stratum_of_leaf: Integers) -> Cutter:
        """The same tree with other strata."""
        return Cutter(self._tree, self._domains, stratum_of_leaf)

    def of(self, columns: Mapping[str, pa.Array]) -> npt.NDArray[np.integer]:
        """The stratum of each record. The columns have the types that are published."""
        codes = [codes_of(domain, columns[name]) for name, domain in self._domains.items()]
        return self.strata.take(self._tree.leaves_of(codes))

    def questions(self) -> list[tuple[str, str, int, int] | int]:
        """The tree from its root on: (column, text of a value, place if at most that, place if not), or a stratum."""
        tree, names = self._tree, list(self._domains)
        found: list[tuple[str, str, int, int] | int] = []
        for place, column in enumerate(tree.column.tolist()):
            if column < 0:
                found.append(int(self.strata[tree.leaf[place]]))
            else:
                value = self._domains[names[column]].decode(tree.at_most[place : place + 1].astype(np.uint64))
                found.append((names[column], str(texts(value)[0]), int(tree.below[place]), int(tree.above[place])))
        return found


class Virtual:
    """What placement calls a value: a value in a stratum, numbered stratum after stratum."""

    def __init__(self, sensitive: SensitiveColumn, cutter: Cutter | None) -> None:
        self._sensitive, self._cutter = sensitive, cutter
        self.number = len(sensitive.counts) * (cutter.number if cutter is not None else 1)

    def encode(self, values: pa.Array, columns: Mapping[str, pa.Array]) -> npt.NDArray[np.integer]:
        """The numbers of a batch, in the narrowest type that sorts fast."""
        codes = self._sensitive.encode(values)
        if self._cutter is None:
            return codes
        virtual: npt.NDArray[np.integer] = self._cutter.of(columns) * len(self._sensitive.counts) + codes
        return virtual.astype(np.uint16 if self.number <= _NARROW else np.int64, copy=False)


def count_strata(
    source: Source,
    schema: pa.Schema,
    sensitive: SensitiveColumn,
    cutter: Cutter,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
) -> Integers:
    """Read the table again and count every value in every stratum; an error if it is not the table of before.

    `schema` has the types that are published.
    """
    fields: Sequence[pa.Field] = [schema.field(name) for name in (*cutter.columns, sensitive.name)]
    virtual = Virtual(sensitive, cutter)

    def work(batch: pa.RecordBatch) -> tuple[int, Integers]:
        columns = [as_published(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
        codes = virtual.encode(columns[-1], dict(zip(cutter.columns, columns, strict=False)))
        return len(codes), np.bincount(codes, minlength=virtual.number)

    found = np.zeros(virtual.number, dtype=np.int64)
    for rows, counts in in_parallel(work, source.batches([field.name for field in fields], batch_rows), workers):
        found += counts
        advance(rows)
    by_stratum = found.reshape(cutter.number, len(sensitive.counts))
    if (by_stratum.sum(axis=0) != sensitive.counts).any():
        raise changed()
    return by_stratum
