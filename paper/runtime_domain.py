"""Figure 7: runtime against the scale-up of the sensitive domain (Section 7.3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from paper.experiment import Claim, Context, Table, Verdict, span
from paper.pictures import Axis, Lines, Rows
from paper.problems import THETA, scale_domain
from paper.runtimes import (
    CLOSED,
    EXACT,
    FULL,
    HOW,
    ILP,
    LOSS,
    NONE,
    ORDER,
    grows,
    growth,
    is_slower,
    measure_case,
    seconds_axis,
    seconds_by,
    seconds_table,
    steps,
)

_QUICKLY = 4.0  # "increases quickly": so many times or more from the smallest domain to the largest
_LITTLE = 2.0  # "increases little": at most so many times
_SCALABLE = 10.0  # seconds
_FEASIBLE = 1.0  # percent between a setting and what is proven


class RuntimeDomain:
    """Seconds by algorithm and gamma."""

    name = "runtime-domain"
    title = "Runtime against the scale-up factor γ of the sensitive domain"
    about = (
        f"{HOW} Every record's value v becomes γ v + r with r random in 0..γ-1, so that the domain is γ times as large."
    )

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return f"{context.dataset.title}; {context.settings.sizes[-1]:,} records, θ = {THETA}"

    def steps(self, context: Context) -> int:
        """One for each algorithm, gamma and sensitive column."""
        return steps(len(context.dataset.sensitive) * len(context.settings.gammas))

    def run(self, context: Context) -> Rows:
        """A row a point."""
        return [
            row
            for number, sensitive in enumerate(context.dataset.sensitive)
            for counts in [context.dataset.counts(sensitive, context.settings.sizes[-1])]
            for gamma in context.settings.gammas
            for row in measure_case(context, scale_domain(counts, gamma, number), sensitive, gamma=gamma)
        ]

    def figure(self, rows: Rows, context: Context) -> Lines:  # noqa: ARG002
        """A line an algorithm."""
        x = Axis(
            column="gamma",
            title="scale-up factor γ",
            scale="log",
            base=2,
            ticks=tuple(sorted({row["gamma"] for row in rows})),
            format="d",
        )
        return Lines(rows=rows, title=self.title, x=x, y=seconds_axis(), series="method", order=ORDER, hollow="stopped")

    def table(self, rows: Rows) -> Table:
        """Seconds by algorithm."""
        return seconds_table(rows, "gamma", "γ", "d")

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:
        """Section 7.3.2."""
        limit = context.settings.limit
        return [
            _integer_program_grows(rows, limit),
            _searches_grow_little(rows),
            _no_pruning_shrinks(rows),
            _lists_shrink(rows),
            _integer_program_takes_longer(rows),
            _any_sizes_are_feasible(rows, limit),
            _searches_scale(rows),
        ]


def _integer_program_grows(rows: Rows, limit: float) -> Claim:
    cases = seconds_by(rows, "gamma")
    stopped = sum(not row["finished"] for row in rows if row["method"] == ILP)
    stops = f"; {stopped} of {len(cases)} runs were stopped after {limit:g} s" if stopped else ""
    return Claim(
        where="Section 7.3.2",
        paper="the time of Optimal increases quickly with γ",
        found=f"from the smallest γ to the largest it grows {span(growth(cases, ILP), '.1f')} times{stops}; "
        f"{_QUICKLY:g} times or more is taken as quickly",
        verdict=Verdict.of(grows(rows, ILP, _QUICKLY, "gamma")),
    )


def _searches_grow_little(rows: Rows) -> Claim:
    cases = seconds_by(rows, "gamma")
    ratios = {method: growth(cases, method) for method in (LOSS, FULL)}
    listed = "; ".join(f"{method} {span(of_method, '.1f')} times" for method, of_method in ratios.items())
    return Claim(
        where="Section 7.3.2",
        paper="the times of the other algorithms increase little, being linear in the domain",
        found=f"from the smallest γ to the largest they grow: {listed}; up to {_LITTLE:g} times is taken as little",
        verdict=Verdict.of([ratio <= _LITTLE for of_method in ratios.values() for ratio in of_method]),
    )


def _no_pruning_shrinks(rows: Rows) -> Claim:
    ratios = growth(seconds_by(rows, "gamma"), NONE)
    return Claim(
        where="Section 7.3.2",
        paper="the time of No-pruning decreases as γ increases",
        found=f"at the largest γ it takes {span(ratios, '.2f')} times what it takes at the smallest. Here every value "
        "of a pair is validated, whether or not one has failed",
        verdict=Verdict.of([ratio < 1 for ratio in ratios]),
    )


def _lists_shrink(rows: Rows) -> Claim:
    ratios = _shrinking(rows)
    return Claim(
        where="Section 7.3.2",
        paper="that is because limits become smaller, M becomes larger and the list of feasible pairs shorter",
        found=f"from the smallest γ to the largest the list falls to {span(ratios, '.3f')} times its length",
        verdict=Verdict.of([ratio < 1 for ratio in ratios]),
    )


def _integer_program_takes_longer(rows: Rows) -> Claim:
    cases = seconds_by(rows, "gamma")
    largest = max(row["gamma"] for row in rows)
    longer = [is_slower(rows, case, ILP, NONE, "gamma") for case in cases if case[1] == largest]
    return Claim(
        where="Section 7.3.1, 7.3.2",
        paper="for a large domain Optimal takes more time than No-pruning",
        found=f"at the largest γ it does in {longer.count(True)} of {len(longer)} cases",
        verdict=Verdict.of(longer),
    )


def _any_sizes_are_feasible(rows: Rows, limit: float) -> Claim:
    exact = [row for row in rows if row["method"] == EXACT]
    proven = [row["finished"] for row in exact]
    gaps = [100 * row.get("gap", 0.0) for row in exact]
    times = [1000 * row["seconds"] for row in exact if row["finished"]]
    return Claim(
        where="Section 7.2",
        paper="the optimum over any number of sizes is feasible only for a small domain",
        found=f"with up to {max(row['values'] for row in rows):,} values our exact method proves its setting to within "
        f"0.01 % of the optimum in {sum(proven)} of {len(proven)} cases ({span(times, ',.0f')} ms), and to within "
        f"{max(gaps):.2g} % in all of them in {limit:g} s; {_FEASIBLE:g} % is taken as feasible. It may be so of the "
        "direct integer program, and is not of the problem",
        verdict=Verdict.of([gap > _FEASIBLE for gap in gaps]),
    )


def _searches_scale(rows: Rows) -> Claim:
    cases = seconds_by(rows, "gamma")
    full = [case[FULL] for case in cases.values()]
    closed = [1000 * case[CLOSED] for case in cases.values()]
    return Claim(
        where="Section 7, summary",
        paper="the solution is scalable for large data sets",
        found=f"Full-pruning takes {span(full, '.2f')} s in Python and our closed form {span(closed, '.1f')} ms; up to "
        f"{_SCALABLE:g} s is taken as scalable",
        verdict=Verdict.of([seconds <= _SCALABLE for seconds in full]),
    )


def _shrinking(rows: Rows) -> list[float]:
    """How long the list of feasible pairs is at the largest gamma, in terms of the smallest, by sensitive column."""
    ratios = []
    for sensitive in dict.fromkeys(row["sensitive"] for row in rows):
        mine = {row["gamma"]: row["feasible_pairs"] for row in rows if row["sensitive"] == sensitive}
        ratios.append(mine[max(mine)] / mine[min(mine)])
    return ratios
