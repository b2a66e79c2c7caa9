"""Every group, one row for each value in it and each epsilon, in memory that does not grow with their number.

What is simulated depends on (x, y, v) alone, so it is computed once for each such triple and kept beside the groups
under DuckDB, which spills; the rows are then made by a join there, and go to the file in batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dalenius.engines.groups import GroupTables
from dalenius.model.problem import Problem
from dalenius.ratio import theorem
from dalenius.ratio.group_file import GroupFile
from dalenius.ratio.noise import Floats, Noise
from dalenius.ratio.released import Released
from dalenius.ratio.simulate import Integers, quantiles
from dalenius.ratio.tally import Triples

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
                "theorem_mean": theorem.mean(x, y, noise.epsilon),
                "theorem_variance": theorem.variance(x, y, noise.epsilon),
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
