"""How finely to cut: the rule behind automatic strata.

What was measured, at theta 8: with 300,000 people, 160 to 230 leaves took two thirds of the error of counts away, and
twice as many took little more; which cuts are worth making, the significance of their gain says (`growing`), and the
least rows of a leaf hardly matter between 200 and 800. With 20,000 and 48,000 people they do: leaves of 200 rows were
better than leaves of 1,000. With 5,000 people the error fell by a tenth or less, which is hardly more than chance, and
buckets got larger by a quarter to a half. Smaller tables were not tried, and are not cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

MARGIN = Fraction(9, 10)
SAMPLE_ROWS = 200_000  # on which a tree is grown: with fewer, fewer cuts are significant

_LEAST_TABLE = 5_000
_LEAST_LEAF = 200
_LEAF_SHARE = 750  # a leaf has at least this part of the rows: some hundred rows of a sample
_WITH_FAKES = 5  # times as many: fakes hide among the buckets of a size, and small strata have few of each
_MOST_LEAVES = 500  # each stratum is solved by itself, which takes milliseconds
_MOST_CELLS = 2**18  # leaves times values, which are counted


def automatic(rows: int, values: int, fake_values: int = 0) -> tuple[int, int]:
    """Rows of the table that a leaf has at least, and how many leaves there are at most.

    One leaf means that the table is not cut.
    """
    leaf_rows = max(_LEAST_LEAF, rows // _LEAF_SHARE) * (_WITH_FAKES if fake_values else 1)
    if rows < _LEAST_TABLE:
        return leaf_rows, 1
    return leaf_rows, max(1, min(_MOST_LEAVES, _MOST_CELLS // max(1, values)))


def least_stratum(leaf_rows: int) -> int:
    """Rows that a stratum must have: half of what a leaf was to have, since the sample counts only about right."""
    return max(1, leaf_rows // 2)


def most_shares(counts: Sequence[int], limits: Sequence[Fraction]) -> list[Fraction]:
    """The share up to which a value leaves a leaf as it is: f + margin (limit - f), with f its share in the table.

    So the table as a whole is always fit, and a leaf that is not need not be above a limit: that it was merged does not
    tell of a share that a limit forbids. A value that has no limit (1) gives no reason for merging.
    """
    total = sum(counts)
    shares = [Fraction(count, total) for count in counts]
    return [
        limit if limit == 1 else share + MARGIN * (limit - share) for share, limit in zip(shares, limits, strict=True)
    ]
