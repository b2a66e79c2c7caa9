"""Equitable edge colouring: units with a value of each of two columns, dealt to buckets of one size.

Problem. Every unit has a value of column A and one of column B: it is an edge of a bipartite multigraph. Values of a
column may be in groups, and groups in groups. A node is a value, a group, or everything; h_v edges are at node v. Give
each edge one of b colours (buckets) so that every node has floor(h_v / b) or ceil(h_v / b) edges of every colour.

Guarantee. There always is such a colouring: D. de Werra, "Equitable colorations of graphs", Revue francaise
d'informatique et de recherche operationnelle 5 (1971), for values alone. `colour_edges` finds one. Everything is a
node too, so that buckets have floor(n / b) or ceil(n / b) units. With two columns and n = S b, buckets of one size S
are therefore possible if, and only if, h_x <= cap_x(S) b for all x of both columns: the condition of Lemma 2 for one
column.

Method. Divide and conquer: b' = floor(b / 2) colours get floor or ceil of h_v b' / b edges of every node v, the other
colours the rest. Taking every edge with weight b' / b is a fractional answer. The nodes of a column are a laminar
family, those of both columns two of them, whose incidence matrix is totally unimodular: the corners of the linear
program are whole numbers (a flow from one tree to the other). Parts of parts keep the promise: b' ceil(h / b) is
whole, so that

    h' <= ceil(h b' / b)  <=  b' ceil(h / b)    and    ceil(h' / b')  <=  ceil(h / b),     and as much for floors.

Edges between the same two values are alike, and only how many of them get a colour matters.
"""

from __future__ import annotations

import time

import numpy as np

from dalenius.errors import SolverError
from dalenius.solve.caps import Integers
from dalenius.solve.highs_sparse import whole_corner

_EDGE = 0.01  # how far from whole numbers a corner of a linear program may be


def colour_edges(numbers: Integers, nodes: Integers, colours: int, deadline: float = float("inf")) -> Integers | None:
    """How many edges of each kind (rows) get each colour (columns); None if the deadline comes first.

    `numbers[k]` edges are of kind k, at the nodes `nodes[k]`: a row of numbers of nodes from 0, filled up with -1. The
    kinds at the nodes of a column must be a laminar family.
    """
    found = np.zeros((len(numbers), colours), dtype=np.int64)
    everything = int(nodes.max(initial=-1)) + 1
    nodes = np.column_stack([nodes, np.full(len(numbers), everything)])
    pending = [(np.asarray(numbers, dtype=np.int64), np.arange(len(numbers)), 0, colours)]
    while pending:
        mine, kinds, first, many = pending.pop()
        if many == 1 or not len(kinds):
            found[kinds, first] = mine
            continue
        if time.monotonic() > deadline:
            return None
        half = many // 2
        taken = _split(mine, nodes[kinds], half, many)
        for part, start, number in ((taken, first, half), (mine - taken, first + half, many - half)):
            kept = np.flatnonzero(part)
            pending.append((part[kept], kinds[kept], start, number))
    return found


def _split(numbers: Integers, nodes: Integers, half: int, colours: int) -> Integers:
    """Of each kind some edges, so that every node has floor or ceil of half / colours of its own."""
    sure = numbers * half // colours
    open_ones = np.flatnonzero(numbers * half % colours)
    if not len(open_ones):
        return sure
    kind, column = np.nonzero(nodes >= 0)
    node = nodes[kind, column]
    size = int(nodes.max()) + 1
    edges = np.bincount(node, weights=numbers[kind], minlength=size).astype(np.int64)
    given = np.bincount(node, weights=sure[kind], minlength=size).astype(np.int64)
    low, high = edges * half // colours - given, -(-edges * half // colours) - given
    place = np.full(len(numbers), -1, dtype=np.int64)
    place[open_ones] = np.arange(len(open_ones))
    inside = place[kind] >= 0
    used, row = np.unique(node[inside], return_inverse=True)
    values = whole_corner(len(open_ones), row, place[kind][inside], low[used].astype(float), high[used].astype(float))
    whole = np.rint(values).astype(np.int64) if values is not None else np.zeros(len(open_ones), dtype=np.int64)
    sums = np.bincount(row, weights=whole[place[kind][inside]], minlength=len(used))
    if values is None or np.abs(values - whole).max() > _EDGE or (sums < low[used]).any() or (sums > high[used]).any():
        raise SolverError(
            "edges could not be split evenly although that is always possible",
            "This is probably a bug in Dalenius: please report it.",
        )
    sure[open_ones] += whole
    return sure
