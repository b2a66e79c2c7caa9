"""What the paper says without a table: the Differential Inference Theorem of Section 2, and the count of Remark 2.

Theorem 2 is about what noisy counts under differential privacy say about the ratio of the true ones. Remark 2 counts
the feasible two-size settings of a million records with sizes from 3 to 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd

import numpy as np

from dalenius.dp_risk import ratio
from dalenius.dp_risk.noise import Noise, scale
from dalenius.solve.two_size import feasible_positions
from paper.experiment import Claim, Context, Table, Verdict, span
from paper.pictures import Axis, Bands, Bars, Rows

EPSILONS = (0.1, 1.0)
SIZES = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SHARE = 0.5  # y/x
_NORMAL = 1.96
_SEED = 2012
_CLOSE = 0.05  # of the share: how near a median or the ends of an interval must be to count as the theorem's
PAPERS_COUNT = 2_077_869
TOTAL, FIRST, LAST = 1_000_000, 3, 20


class Inference:
    """The theorem's mean and spread of Y/X beside simulated quantiles, against the query size x."""

    name = "theorem"
    title = "The Differential Inference Theorem: the noisy ratio Y/X against the query size x"
    about = (
        "X = x + noise and Y = y + noise, Laplace of scale 1/ε each; y/x = 1/2. Theorem 2 gives a mean and a variance "
        "of Y/X: the dashed lines are that mean plus and minus 1.96 standard deviations. The band and the line in it "
        "are the central 95 % and the median of simulated ratios (numpy's generator, seeded: nothing is released "
        "here). The exact mean of Y/X does not exist, because X may be near 0; the theorem is a Taylor approximation."
    )

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return f"no table; y/x = {SHARE:g}, {context.settings.draws:,} simulated ratios for each point"

    def steps(self, context: Context) -> int:  # noqa: ARG002
        """One an epsilon."""
        return len(EPSILONS)

    def run(self, context: Context) -> Rows:
        """A row for each epsilon and x."""
        rows: Rows = []
        sizes = np.array(SIZES)
        counts = (sizes * SHARE).astype(np.int64)
        for epsilon in EPSILONS:
            chance = np.random.default_rng([_SEED, round(1000 * epsilon)])
            draws = context.settings.draws
            noise = Noise(epsilon, *(chance.laplace(0.0, scale(epsilon), draws) for _ in range(2)))
            low, median, high = ratio.quantiles(sizes, counts, noise)
            context.progress.advance(1)
            for place, (size, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True)):
                mean, spread = ratio.mean(size, count, epsilon), ratio.variance(size, count, epsilon) ** 0.5
                rows.append(
                    {
                        "table": f"ε = {epsilon:g}",
                        "epsilon": epsilon,
                        "x": size,
                        "y": count,
                        "mean_by_theorem": mean,
                        "factor_by_theorem": ratio.factor(size, epsilon),
                        "deviation_by_theorem": spread,
                        "low_by_theorem": mean - _NORMAL * spread,
                        "high_by_theorem": mean + _NORMAL * spread,
                        "low": float(low[place]),
                        "median": float(median[place]),
                        "high": float(high[place]),
                        "draws": draws,
                    }
                )
        return rows

    def figure(self, rows: Rows, context: Context) -> Bands:  # noqa: ARG002
        """A panel an epsilon."""
        x = Axis("x", "query size x (log scale)", "log", ticks=(10, 100, 1_000, 10_000), format="~s")
        y = Axis("median", "noisy ratio Y/X", format=",~f")
        names = ("low", "high", "mean_by_theorem", "low_by_theorem", "high_by_theorem")
        return Bands(rows, self.title, x, y, *names, truth=SHARE)

    def table(self, rows: Rows) -> Table:
        """Typical sizes."""
        columns = {
            "epsilon": ("ε", "g"),
            "x": ("x", ",d"),
            "factor_by_theorem": ("E[Y/X] / (y/x) by the theorem", ".5g"),
            "deviation_by_theorem": ("deviation by the theorem", ".4f"),
            "median": ("simulated median", ".4f"),
            "low": ("2.5 % quantile", ".4f"),
            "high": ("97.5 % quantile", ".4f"),
        }
        return Table.of(columns, [row for row in rows if row["x"] in (10, 100, 1_000, 10_000)])

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:  # noqa: ARG002
        """Theorem 2, its corollary and its example."""
        example = {row["x"]: row for row in rows if row["epsilon"] == EPSILONS[0]}
        factors = [example[100]["factor_by_theorem"], example[1_000]["factor_by_theorem"]]
        widths = {e: [row["high"] - row["low"] for row in rows if row["epsilon"] == e] for e in EPSILONS}
        shrinks = [all(a > b for a, b in pairwise(w)) for w in widths.values()]
        like = [_like(row) for row in rows]
        bad = [f"x = {row['x']} at ε = {row['epsilon']:g}" for row in rows if not _like(row)]
        return [
            Claim(
                where="Section 2.1",
                paper="for ε = 0.1, E[Y/X] is 1.02 times y/x at x = 100, and 1.0002 times at x = 1000",
                found=f"the theorem's formula gives {factors[0]:.4g} and {factors[1]:.5g} times; simulated medians are "
                f"{example[100]['median'] / SHARE:.4f} and {example[1_000]['median'] / SHARE:.4f} times",
                verdict=Verdict.of([abs(factors[0] - 1.02) < 1e-9, abs(factors[1] - 1.0002) < 1e-9]),
            ),
            Claim(
                where="Theorem 2",
                paper="E[Y/X] = (y/x)(1 + 2b²/x²) and var[Y/X] = (2b²/x²)(1 + (y/x)²)",
                found="neither exists, as X has a density at 0; as an approximation of the central 95 % it is good for "
                f"{sum(like)} of {len(like)} points (median and both ends within {_CLOSE:g}), and not for "
                f"{_list_names(bad)}",
                verdict=Verdict.of([False, *like]),
            ),
            Claim(
                where="Corollary 1",
                paper="as x grows, E[Y/X] gets arbitrarily close to y/x and var[Y/X] to zero",
                found="the simulated central 95 % narrows all the way: to "
                f"{span([w[-1] for w in widths.values()], '.4f')} wide at x = {SIZES[-1]:,}",
                verdict=Verdict.of(shrinks),
            ),
        ]


def _like(row: dict[str, float]) -> bool:
    pairs = (("median", "mean_by_theorem"), ("low", "low_by_theorem"), ("high", "high_by_theorem"))
    return all(abs(row[simulated] - row[theory]) <= _CLOSE for simulated, theory in pairs)


def _list_names(names: list[str]) -> str:
    return "none of them" if not names else ", ".join(names)


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
            {"reading": "the paper", "settings": PAPERS_COUNT, "paper": True},
            {"reading": "counted", "settings": count_settings(TOTAL, FIRST, LAST), "paper": False},
            {"reading": "both sizes used", "settings": count_settings(TOTAL, FIRST, LAST, 1), "paper": False},
            {"reading": "sizes coprime", "settings": count_settings(TOTAL, FIRST, LAST, coprime=True), "paper": False},
            {"reading": "sizes 4 to 20", "settings": count_settings(TOTAL, FIRST + 1, LAST), "paper": False},
            {"reading": "sizes 3 to 19", "settings": count_settings(TOTAL, FIRST, LAST - 1), "paper": False},
        ]

    def figure(self, rows: Rows, context: Context) -> Bars:  # noqa: ARG002
        """A bar a reading."""
        bars = [{**row, "table": " ", "words": f"{row['settings']:,}"} for row in rows]
        x, y = Axis("reading", "how it is counted"), Axis("settings", "feasible settings", format="~s")
        return Bars(rows=bars, title=self.title, x=x, y=y, has_names=True, highlight="paper", note="words")

    def table(self, rows: Rows) -> Table | None:  # noqa: ARG002
        """The picture has the numbers."""
        return None

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:  # noqa: ARG002
        """The count."""
        settings = {row["reading"]: row["settings"] for row in rows}
        return [
            Claim(
                where="Remark 2",
                paper=f"there are {PAPERS_COUNT:,} feasible settings",
                found=f"there are {settings['counted']:,}, or {settings['both sizes used']:,} if both sizes must be "
                "used; none of the other readings tried gives the paper's number either. That there are too many to "
                "try one by one holds all the more",
                verdict=Verdict.of([PAPERS_COUNT in (settings["counted"], settings["both sizes used"])]),
            )
        ]


def count_settings(total: int, first: int, last: int, least: int = 0, *, coprime: bool = False) -> int:
    """Settings with S_1 < S_2 in first..last that hold all records, with at least `least` buckets of each size."""
    sizes = [(a, b) for a in range(first, last) for b in range(a + 1, last + 1) if not coprime or gcd(a, b) == 1]
    small, large = (np.array(side, dtype=np.int64) for side in zip(*sizes, strict=True))
    # b buckets set aside of each size leave a problem of the same kind
    number = 0
    for a, b in zip(small, large, strict=True):
        rest = total - least * int(a + b)
        number += max(0, int(feasible_positions(np.array([a]), np.array([b]), rest).last[0]) + 1) if rest >= 0 else 0
    return number
