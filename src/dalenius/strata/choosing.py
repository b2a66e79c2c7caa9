"""How finely to cut: the rule behind automatic strata."""

from __future__ import annotations

_LEAF_ROWS = 400
_MOST_LEAVES = 500
_MOST_CELLS = 2**18  # leaves times values


def automatic(rows: int, values: int) -> tuple[int, int]:
    """Rows that a leaf has at least, and how many leaves there are at most, for a table of so many rows and values."""
    leaves = max(1, min(_MOST_LEAVES, _MOST_CELLS // max(1, values), rows // _LEAF_ROWS))
    return _LEAF_ROWS, leaves
