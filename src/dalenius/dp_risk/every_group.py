"""Every group, one row for each value in it and each epsilon, in memory that does not grow with their number.

What is simulated depends on (x, y, v) alone, so it is computed once for each such triple and kept beside the groups
under DuckDB, which spills; the rows are then made by a join there, and go to the file in batches.

A file of the publisher's own, Parquet or CSV by its suffix, written batch by batch: whole, or not at all.

It is made beside its target under another name, which nobody else may read, and takes the target's place when it is
complete. Whatever goes wrong, what was there before is still there.
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

from dalenius.dp_risk.groups import GroupTables
from dalenius.dp_risk.noise import Floats, Noise
from dalenius.dp_risk.ratio import Integers, mean, quantiles, variance
from dalenius.dp_risk.released import Released
from dalenius.dp_risk.tally import Triples
from dalenius.errors import UsageError
from dalenius.model.problem import Problem
from dalenius.release.atomic import whole_file, writable

_SUFFIXES = (".parquet", ".csv")
_WORDS = ("the file of groups", "--groups")  # for errors


class GroupFile:
    """A file to write batches into."""

    def __init__(self, file: IO[bytes], suffix: str) -> None:
        self.rows = 0
        self._file, self._suffix = file, suffix
        self._writer: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows. The first batch says which columns there are."""
        with writable(*_WORDS):
            if self._writer is None:
                kind = pyarrow.parquet.ParquetWriter if self._suffix == ".parquet" else pyarrow.csv.CSVWriter
                self._writer = kind(self._file, batch.schema)
            self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def finish(self) -> None:
        """Write what is still to be written."""
        with writable(*_WORDS):
            self.close()

    def close(self) -> None:
        """Let go of the file, complete or not."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


@contextmanager
def group_file(path: str | Path, replace: bool, source: Any) -> Iterator[GroupFile]:
    """A file to write into, in its place at the end. `source` is the table that is read: it is never replaced."""
    target = Path(os.path.abspath(path))  # noqa: PTH100 (resolve() would follow links)
    if target.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"groups are not written to files of the kind {target.suffix!r}", "Name it .parquet or .csv.")
    with whole_file(target, lambda path: _check(path, replace, source), *_WORDS) as file:
        writing = GroupFile(file, target.suffix.lower())
        try:
            yield writing
            writing.finish()
        finally:
            with suppress(OSError, pa.ArrowException):  # the first error is the one to tell
                writing.close()


def _check(target: Path, replace: bool, source: Any) -> None:
    """Refuse a target that is in the way."""
    try:
        target.lstat()
    except FileNotFoundError:
        return
    if target.is_dir():
        raise UsageError("the file of groups would be where a folder is", "Give --groups another name.")
    if isinstance(source, str | os.PathLike) and target.exists() and Path(source).exists() and target.samefile(source):
        raise UsageError("the file of groups would take the place of the table itself", "Give --groups another name.")
    if not replace:
        raise UsageError("the file of groups is there already", "Give --groups another name, or --force to replace it.")


_CELLS_OF_A_BLOCK = 2**21  # pairs (x, y) times draws at once


class EveryGroup:
    """Add all triples, then write."""

    def __init__(self, tables: GroupTables, noises: Sequence[Noise]) -> None:
        self._tables, self._noises = tables, noises

    def add(self, triples: Triples, codes: Integers, chances: Floats) -> None:
        """Triples with their values' codes, and the chances that their people are pinned, a row an epsilon."""
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
        self, file: GroupFile, columns: Sequence[str], problem: Problem, release: Released | None, least_shown: int
    ) -> None:
        """All rows. `columns` are the names of the quasi-identifiers."""
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
