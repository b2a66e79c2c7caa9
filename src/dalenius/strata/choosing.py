"""How finely to cut: the rule behind automatic strata.

What was measured, on tables of 5,000 to 300,000 people with 14 to 50 sensitive values: a few hundred leaves take most
of the error and of what can be learned away, and each further hundred takes little; which cuts are worth making is for
the significance of their gain to say (`growing`), and the least number of rows hardly matters between 200 and 1,000.
Below 5,000 rows counts get no better by cutting, and buckets get larger.
"""

from __future__ import annotations

SAMPLE_ROWS = 200_000  # on which a tree is grown: with fewer, fewer cuts are significant

_LEAST_TABLE = 5_000
_LEAST_LEAF = 200
_LEAF_SHARE = 750  # a leaf has at least this part of the rows: some hundred rows of a sample
_MOST_LEAVES = 500  # each stratum is solved by itself, which takes milliseconds
_MOST_CELLS = 2**18  # leaves times values, which are counted


def automatic(rows: int, values: int) -> tuple[int, int]:
    """Rows of the table that a leaf has at least, and how many leaves there are at most.

    One leaf means that the table is not cut.
    """
    leaf_rows = max(_LEAST_LEAF, rows // _LEAF_SHARE)
    if rows < _LEAST_TABLE:
        return leaf_rows, 1
    return leaf_rows, max(1, min(_MOST_LEAVES, _MOST_CELLS // max(1, values)))


def least_stratum(leaf_rows: int) -> int:
    """Rows that a stratum must have: half of what a leaf was to have, since the sample counts only about right."""
    return max(1, leaf_rows // 2)
