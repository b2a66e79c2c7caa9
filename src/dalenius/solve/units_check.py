"""Does a bucketization of units keep every cap? Counted from the units anew, in integers, without the search's code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dalenius.errors import SolverError
from dalenius.solve.unit_problem import UnitProblem

_PIECE = 4_000_000  # items of units that are counted at once


def check_buckets(problem: UnitProblem, bucket_of: npt.NDArray[np.int32]) -> None:
    """Raise a `SolverError` unless every unit is in a bucket, every bucket large enough, and every cap kept."""
    if len(bucket_of) != problem.units or bucket_of.min(initial=0) < 0:
        raise _wrong("a unit has no bucket")
    sizes = np.bincount(bucket_of)
    if sizes.min() < problem.first_size:
        raise _wrong(f"a bucket has {sizes.min()} units, and the smallest may have {problem.first_size}")
    broken = count_broken(problem, bucket_of)
    if broken:
        raise _wrong(f"{broken} caps of items are broken")


def count_broken(problem: UnitProblem, bucket_of: npt.NDArray[np.int32]) -> int:
    """How many pairs of a bucket and an item are above their cap."""
    sizes = np.bincount(bucket_of)
    order = np.argsort(bucket_of, kind="stable")
    numbers = np.diff(problem.offsets)
    ends = np.cumsum(numbers[order])
    broken = start = 0
    while start < len(order):
        stop = int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _PIECE, side="right"))
        stop = max(stop, start + 1)
        last = bucket_of[order[stop - 1]]
        stop += int(np.searchsorted(bucket_of[order[stop:]], last, side="right"))  # whole buckets
        broken += _count_piece(problem, bucket_of, order[start:stop], numbers, sizes)
        start = stop
    return broken


def _count_piece(
    problem: UnitProblem,
    bucket_of: npt.NDArray[np.int32],
    chosen: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> int:
    own = numbers[chosen]
    first = np.repeat(problem.offsets[chosen] - (np.cumsum(own) - own), own)
    items = problem.items[first + np.arange(len(first))].astype(np.int64)
    pairs, counts = np.unique(
        np.repeat(bucket_of[chosen], own) * np.int64(len(problem.limits)) + items, return_counts=True
    )
    buckets, items = np.divmod(pairs, len(problem.limits)) if len(pairs) else (pairs, pairs)
    sized = np.unique(sizes[buckets] * np.int64(len(problem.limits)) + items, return_inverse=True)
    most = [problem.most(key % len(problem.limits), key // len(problem.limits)) for key in sized[0].tolist()]
    return int((counts > np.asarray(most, dtype=np.int64)[sized[1]]).sum()) if most else 0


def _wrong(what: str) -> SolverError:
    return SolverError(
        f"the buckets found are not valid: {what}", "This is probably a bug in Dalenius: please report it."
    )
