"""Remark 2: how many feasible two-size settings there are for a million records and sizes from 3 to 20."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from dalenius.solve.two_size import feasible_positions
from paper.experiment import Claim, Context, Table, Verdict
from paper.figure import Axis, Bars, Rows

SAID = 2_077_869
TOTAL, FIRST, LAST = 1_000_000, 3, 20


class Remark:
    """Several readings of "feasible setting", counted."""

    name = "remark-2"
    title = "Remark 2: feasible two-size settings of 1,000,000 records, sizes 3 to 20"
    about = (
        "Settings (S₁, b₁), (S₂, b₂) with 3 ≤ S₁ < S₂ ≤ 20 and S₁ b₁ + S₂ b₂ = 1,000,000, counted by Lemma 5 and "
        "checked by enumeration. It does not depend on the table."
    )

    def data(self, context: Context) -> str:  # noqa: ARG002
        """What the picture calls its data."""
        return "no table: a count of integer solutions"

    def steps(self, context: Context) -> int:  # noqa: ARG002
        """One."""
        return 1

    def run(self, context: Context) -> Rows:
        """A row a reading."""
        context.progress.advance(1)
        return [
            {"reading": "the paper", "settings": SAID, "paper": True},
            {"reading": "counted", "settings": counted(TOTAL, FIRST, LAST), "paper": False},
            {"reading": "both sizes used", "settings": counted(TOTAL, FIRST, LAST, 1), "paper": False},
            {"reading": "sizes coprime", "settings": counted(TOTAL, FIRST, LAST, coprime=True), "paper": False},
            {"reading": "sizes 4 to 20", "settings": counted(TOTAL, FIRST + 1, LAST), "paper": False},
            {"reading": "sizes 3 to 19", "settings": counted(TOTAL, FIRST, LAST - 1), "paper": False},
        ]

    def figure(self, rows: Rows, context: Context) -> Bars:  # noqa: ARG002
        """A bar a reading."""
        drawn = [{**row, "table": " ", "words": f"{row['settings']:,}"} for row in rows]
        x, y = Axis("reading", "how it is counted"), Axis("settings", "feasible settings", form="~s")
        return Bars(drawn, self.title, x, y, named=True, marked="paper", note="words")

    def table(self, rows: Rows) -> Table | None:  # noqa: ARG002
        """The picture has the numbers."""
        return None

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:  # noqa: ARG002
        """The count."""
        settings = {row["reading"]: row["settings"] for row in rows}
        return [
            Claim(
                "Remark 2",
                f"there are {SAID:,} feasible settings",
                f"there are {settings['counted']:,}, or {settings['both sizes used']:,} if both sizes must be used; "
                "none of the other readings tried gives the paper's number either. That there are too many to try one "
                "by one holds all the more",
                Verdict.of([SAID in (settings["counted"], settings["both sizes used"])]),
            )
        ]


def counted(total: int, first: int, last: int, least: int = 0, *, coprime: bool = False) -> int:
    """Settings with S_1 < S_2 in first..last that hold all records, with at least `least` buckets of each size."""
    sizes = [(a, b) for a in range(first, last) for b in range(a + 1, last + 1) if not coprime or gcd(a, b) == 1]
    small, large = (np.array(side, dtype=np.int64) for side in zip(*sizes, strict=True))
    # b buckets set aside of each size leave a problem of the same kind
    found = 0
    for a, b in zip(small, large, strict=True):
        rest = total - least * int(a + b)
        found += max(0, int(feasible_positions(np.array([a]), np.array([b]), rest).last[0]) + 1) if rest >= 0 else 0
    return found
