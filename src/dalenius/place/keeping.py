"""All records in memory, where there is room for them: read once, and then sampled, cut and placed from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.arrow import Source
from dalenius.place.cutting import Cutter, Integers, narrow
from dalenius.place.domains import changed
from dalenius.place.in_parallel import in_parallel
from dalenius.place.packed import Codes, Layout
from dalenius.place.published_types import as_published
from dalenius.place.sample import smallest_numbers
from dalenius.place.sensitive import SensitiveColumn

Numbers = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Kept:
    """The records batch by batch: the code of the sensitive value (or a number that goes beyond), and packed codes."""

    layout: Layout
    batches: list[tuple[Numbers, Codes]]

    def sampled(self, key: bytes, wanted: int) -> tuple[Numbers, dict[str, Codes]]:
        """A sample of the records: their values, and their codes in every column."""
        rows = smallest_numbers(key, [len(values) for values, _ in self.batches], wanted)
        values = np.concatenate([values[some] for (values, _), some in zip(self.batches, rows, strict=True)])
        codes = np.concatenate([codes[some] for (_, codes), some in zip(self.batches, rows, strict=True)])
        return values, self.layout.columns(codes)

    def cut(self, cutter: Cutter, values: int, workers: Executor) -> tuple[Integers, Kept]:
        """The records of each of so many values in each stratum; and the records, numbered by stratum and value."""
        total = cutter.number * values
        kind = narrow(total)

        def work(batch: tuple[Numbers, Codes]) -> tuple[Numbers, Integers]:
            strata = cutter.of_codes(self.layout.columns(batch[1], cutter.columns))
            numbers = (strata * values + batch[0]).astype(kind)
            return numbers, np.bincount(numbers, minlength=total)

        found = np.zeros(total, dtype=np.int64)
        numbered = []
        for (numbers, counts), (_, codes) in zip(in_parallel(work, self.batches, workers), self.batches, strict=True):
            found += counts
            numbered.append((numbers, codes))
        return found.reshape(cutter.number, values), Kept(self.layout, numbered)

    def renumbered(self, table: Numbers) -> Kept:
        """The records with other numbers, by a table of old ones."""
        return Kept(self.layout, [(table.take(numbers), codes) for numbers, codes in self.batches])


def keep(
    source: Source,
    fields: Sequence[pa.Field],
    sensitive: SensitiveColumn,
    layout: Layout,
    workers: Executor,
    batch_rows: int,
    advance: Callable[[int], None],
) -> Kept:
    """Read all columns, the sensitive one last; an error if this is not the table of the first reading."""

    def work(batch: pa.RecordBatch) -> tuple[Numbers, Codes]:
        *columns, last = (as_published(one, field.type) for one, field in zip(batch.columns, fields, strict=True))
        return sensitive.encode(last), layout.codes(columns)

    batches = []
    counts = np.zeros(len(sensitive.counts), dtype=np.int64)
    for values, codes in in_parallel(work, source.batches([field.name for field in fields], batch_rows), workers):
        counts += np.bincount(values, minlength=len(counts))
        batches.append((values, codes))
        advance(len(values))
    if (counts != sensitive.counts).any():
        raise changed()
    return Kept(layout, batches)
