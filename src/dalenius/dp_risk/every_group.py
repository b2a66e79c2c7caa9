"""Every group in a file: one row for each value in it and each epsilon, in memory that does not grow with their number.

What is simulated depends on (x, y, v) alone. So it is computed once for each such triple and kept beside the groups
under DuckDB, which spills. A join there makes the rows, which go to the file in batches.

The file is the publisher's own, Parquet or CSV by its suffix. It is written under another name that nobody else may
read, and takes the place of the target when it is complete. If anything fails, what was there before stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dalenius.dp_risk.group_tables import GroupTables
from dalenius.dp_risk.noise import Floats, Noise
from dalenius.dp_risk.ratio import Integers, mean, quantiles, variance
from dalenius.dp_risk.release_shares import ReleaseView
from dalenius.dp_risk.tally import Triples
from dalenius.errors import UsageError
from dalenius.model.problem import Problem
from dalenius.release.atomic import whole_file, writable

_SUFFIXES = (".parquet", ".csv")
_CELLS_OF_A_BLOCK = 2**21  # pairs (x, y) times draws at once
_WORDS = ("the file of groups", "--groups")  # for errors


class EveryGroup:
    """Collects all triples, then writes."""

    def __init__(self, tables: GroupTables, noises: Sequence[Noise]) -> None:
        self._tables, self._noises = tables, noises

    def add(self, triples: Triples, codes: Integers, chances: Floats) -> None:
        """Add triples with the codes of their values, and the chances of being pinned, with a row per epsilon."""
        pairs, which = np.unique(np.stack([triples.sizes, triples.counts]), axis=1, return_inverse=True)
        which = which.ravel()
        x, y = triples.sizes.astype(np.float64), triples.counts.astype(np.float64)
        for number, noise in enumerate(self._noises):
            low, median, high = self._quantiles(pairs, noise)[:, which]
            columns = {
                "x": triples.sizes,
                "y": triples.counts,
                "v": codes,
                "e": np.full(len(x), number),
                "epsilon": np.full(len(x), noise.epsilon),
                "above": triples.above,
                "theorem_mean": mean(x, y, noise.epsilon),
                "theorem_variance": variance(x, y, noise.epsilon),
                "low": low,
                "median": median,
                "high": high,
                "pinned": chances[number],
            }
            self._tables.keep(pa.table(columns))

    def _quantiles(self, pairs: Integers, noise: Noise) -> Floats:
        rows = max(1, _CELLS_OF_A_BLOCK // len(noise.of_size))
        starts = range(0, pairs.shape[1], rows)
        return np.hstack(
            [quantiles(pairs[0, start : start + rows], pairs[1, start : start + rows], noise) for start in starts]
        )

    def write(
        self, file: GroupFile, columns: Sequence[str], problem: Problem, release: ReleaseView | None, least_shown: int
    ) -> None:
        """Write all rows. `columns` are the names of the quasi-identifiers."""
        values = len(problem.values)
        mean = [float(own.mean) for own in release.own] if release is not None else [None] * values
        largest = [float(own.largest) for own in release.own] if release is not None else [None] * values
        listing = {
            "v": pa.array(range(values), pa.int32()),
            "value": pa.array(problem.values, pa.string()),
            "limit": pa.array(map(float, problem.limits), pa.float64()),
            "release_mean_share": pa.array(mean, pa.float64()),
            "release_largest_share": pa.array(largest, pa.float64()),
        }
        names = ["group", "named", *(f"qi_{column}" for column in columns)]
        for batch in self._tables.every_row(pa.table(listing), least_shown):
            file.write(batch.rename_columns([*names, *batch.schema.names[len(names) :]]))


class GroupFile:
    """A file to write batches into."""

    def __init__(self, file: IO[bytes], suffix: str) -> None:
        self.rows = 0
        self._file, self._suffix = file, suffix
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. The first batch determines the columns."""
        with writable(*_WORDS):
            if self._writer is None:
                writer = pyarrow.parquet.ParquetWriter if self._suffix == ".parquet" else pyarrow.csv.CSVWriter
                self._writer = writer(self._file, batch.schema)
            self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> None:
        """Write the rest."""
        with writable(*_WORDS):
            self.close()

    def close(self) -> None:
        """Close the file, complete or not."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


@contextmanager
def group_file(path: str | Path, replace: bool, source: Any) -> Iterator[GroupFile]:
    """A file to write into. It takes its place at the end, but never that of `source`, the table that is read."""
    target = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow links)
    if target.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"groups cannot be written to a {target.suffix!r} file", "Give it a name that ends in .parquet or .csv."
        )
    with whole_file(target, lambda path: _check(path, replace, source), *_WORDS) as file:
        writing = GroupFile(file, target.suffix.lower())
        try:
            yield writing
            writing.finish()
        finally:
            with suppress(OSError, pa.ArrowException):  # the first error is the one to report
                writing.close()


def _check(target: Path, replace: bool, source: Any) -> None:
    """Refuse a target that must not be replaced."""
    try:
        target.lstat()
    except FileNotFoundError:
        return
    if target.is_dir():
        raise UsageError("there is a folder with the name of the file of groups", "Give --groups another name.")
    if isinstance(source, str | os.PathLike) and target.exists() and Path(source).exists() and target.samefile(source):
        raise UsageError("the file of groups would replace the table itself", "Give --groups another name.")
    if not replace:
        raise UsageError("the file of groups already exists", "Give --groups another name, or --force to replace it.")
