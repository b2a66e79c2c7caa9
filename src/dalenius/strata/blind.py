"""Trees that do not look at sensitive values, so that their strata tell nothing of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dalenius.errors import UsageError
from dalenius.strata.lookup import Codes
from dalenius.strata.nodes import Growing, Tree

MOST_COMBINATIONS = 2**16

Floats = npt.NDArray[np.float64]


def every_combination(kinds: Mapping[int, int]) -> Tree:
    """Every combination of codes has a leaf of its own, given how many codes each of the columns has.

    Leaves are in the order of codes, the first column being the slowest.
    """
    number = prod(kinds.values())
    if number > MOST_COMBINATIONS:
        raise UsageError(
            f"the columns of the strata have {number:,} combinations of values, more than {MOST_COMBINATIONS:,}",
            "Name fewer columns, or let the strata be found with --strata auto.",
        )
    nodes = Growing()
    open_leaves = [nodes.add()]
    for column, codes in kinds.items():
        open_leaves = [leaf for place in open_leaves for leaf in _every_code(nodes, place, column, codes)]
    return nodes.tree()


def _every_code(nodes: Growing, place: int, column: int, codes: int) -> list[int]:
    """Halve the range of codes until every code has a leaf; the leaves in the order of codes."""
    found, waiting = [], [(place, 0, codes - 1)]
    while waiting:
        place, low, high = waiting.pop()
        if low >= high:
            found.append(place)
            continue
        middle = (low + high) // 2
        below, above = nodes.cut(place, column, middle)
        waiting += [(above, middle + 1, high), (below, low, middle)]
    return found


def kd_tree(codes: Sequence[Codes], leaves: int) -> Tree:
    """A tree that looks at quasi-identifiers alone: the leaf with most rows is cut at a median, again and again.

    Codes count as ranks among all rows, so that columns can be compared: the column with the largest variance of ranks
    within the leaf is cut. A leaf whose rows are all alike stays.
    """
    growing = Growing()
    rows = len(codes[0]) if len(codes) else 0
    waiting = [(-rows, growing.add(), np.arange(rows))]
    columns = [column.view(np.int64) if column.dtype == np.uint64 else column for column in codes]
    ranks = [_ranks(column) for column in columns]
    while waiting and growing.leaves < leaves:
        _, place, part = heappop(waiting)
        spreads = [_spread(rank[part]) for rank in ranks]
        column = int(np.argmax(spreads)) if spreads else 0
        if not spreads or not spreads[column] > 0:
            continue
        at_most = _median(columns[column][part])
        goes_below = columns[column][part] <= at_most
        for child, side in zip(growing.cut(place, column, at_most), (goes_below, ~goes_below), strict=True):
            heappush(waiting, (-int(side.sum()), child, part[side]))
    return growing.tree()


def _ranks(column: npt.NDArray[Any]) -> Floats:
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - counts / 2)[inverse] / max(1, len(column))
    return ranks


def _spread(ranks: Floats) -> float:
    """Their variance; exactly 0 if there is one rank alone, whatever floating point makes of it."""
    return float(ranks.var()) if len(ranks) and ranks.min() < ranks.max() else 0.0


def _median(codes: npt.NDArray[Any]) -> int:
    """The threshold that halves the rows best; there are two codes at least."""
    used, counts = np.unique(codes, return_counts=True)
    return int(used[np.abs(2 * np.cumsum(counts)[:-1] - len(codes)).argmin()])
