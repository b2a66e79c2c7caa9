"""Theorem 2 of Section 2: what noisy counts under differential privacy say about the ratio of the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dalenius.dp_risk import ratio
from dalenius.dp_risk.noise import Noise, scale
from paper.experiment import Claim, Context, Table, Verdict, span
from paper.figure import Axis, Bands, Rows

EPSILONS = (0.1, 1.0)
SIZES = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SHARE = 0.5  # y/x
_NORMAL = 1.96
_SEED = 2012
_CLOSE = 0.05  # of the share: how near a median or the ends of an interval must be to count as the theorem's


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
        x = Axis("x", "query size x (log scale)", "log", ticks=(10, 100, 1_000, 10_000), form="~s")
        y = Axis("median", "noisy ratio Y/X", form=",~f")
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
                "Section 2.1",
                "for ε = 0.1, E[Y/X] is 1.02 times y/x at x = 100, and 1.0002 times at x = 1000",
                f"the theorem's formula gives {factors[0]:.4g} and {factors[1]:.5g} times; simulated medians are "
                f"{example[100]['median'] / SHARE:.4f} and {example[1_000]['median'] / SHARE:.4f} times",
                Verdict.of([abs(factors[0] - 1.02) < 1e-9, abs(factors[1] - 1.0002) < 1e-9]),
            ),
            Claim(
                "Theorem 2",
                "E[Y/X] = (y/x)(1 + 2b²/x²) and var[Y/X] = (2b²/x²)(1 + (y/x)²)",
                "neither exists, as X has a density at 0; as an approximation of the central 95 % it is good for "
                f"{sum(like)} of {len(like)} points (median and both ends within {_CLOSE:g}), and not for "
                f"{_listed(bad)}",
                Verdict.of([False, *like]),
            ),
            Claim(
                "Corollary 1",
                "as x grows, E[Y/X] gets arbitrarily close to y/x and var[Y/X] to zero",
                "the simulated central 95 % narrows all the way: to "
                f"{span([w[-1] for w in widths.values()], '.4f')} wide at x = {SIZES[-1]:,}",
                Verdict.of(shrinks),
            ),
        ]


def _like(row: dict[str, float]) -> bool:
    pairs = (("median", "mean_by_theorem"), ("low", "low_by_theorem"), ("high", "high_by_theorem"))
    return all(abs(row[simulated] - row[said]) <= _CLOSE for simulated, said in pairs)


def _listed(names: list[str]) -> str:
    return "none of them" if not names else ", ".join(names)
