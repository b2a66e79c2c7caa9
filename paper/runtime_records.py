"""Figure 6: runtime against the number of records (Section 7.3.1)."""

from __future__ import annotations

from collections.abc import Sequence

from paper.experiment import Claim, Context, Table, Verdict, span
from paper.pictures import Axis, Lines, Rows
from paper.problems import THETA
from paper.runtimes import (
    CLOSED,
    FULL,
    HOW,
    ILP,
    LOSS,
    NONE,
    ORDER,
    growth,
    is_slower,
    measure_case,
    seconds_axis,
    seconds_by,
    seconds_table,
    steps,
)

_SIGNIFICANT = 2.0  # "significantly reduces": to a half or less
_NOT_MUCH = 1.5  # "does not affect much": at most so many times, from the smallest table to the largest
_INCREASES = 1.5  # "an increasing trend": so many times or more, from the smallest table to the largest


class RuntimeRecords:
    """Seconds by algorithm and |T|."""

    name = "runtime-records"
    title = "Runtime against the number of records |T|"
    about = HOW

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return f"{context.dataset.title}; θ = {THETA}"

    def steps(self, context: Context) -> int:
        """One for each algorithm, size and sensitive column."""
        return steps(len(context.dataset.sensitive) * len(context.settings.sizes))

    def run(self, context: Context) -> Rows:
        """A row a point."""
        return [
            row
            for sensitive in context.dataset.sensitive
            for size in context.settings.sizes
            for row in measure_case(context, context.dataset.counts(sensitive, size), sensitive)
        ]

    def figure(self, rows: Rows, context: Context) -> Lines:  # noqa: ARG002
        """A line an algorithm."""
        x = Axis("records", "number of records |T|", ticks=tuple(sorted({row["records"] for row in rows})), format="~s")
        return Lines(rows=rows, title=self.title, x=x, y=seconds_axis(), series="method", order=ORDER, hollow="stopped")

    def table(self, rows: Rows) -> Table:
        """Seconds by algorithm."""
        return seconds_table(rows, "records", "records", ",d")

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:  # noqa: ARG002
        """Section 7.3.1."""
        cases = seconds_by(rows, "records")
        paper = (NONE, LOSS, FULL, ILP)
        least = [min(paper, key=lambda method, c=case: c[method]) == FULL for case in cases.values()]  # type: ignore[misc]
        most = [max(paper, key=lambda method, c=case: c[method]) == NONE for case in cases.values()]  # type: ignore[misc]
        searches = [case[NONE] >= max(case[LOSS], case[FULL]) for case in cases.values()]
        reduced = [case[NONE] / case[LOSS] for case in cases.values()]
        loss_growth, full_growth = growth(cases, LOSS), growth(cases, FULL)
        faster = [is_slower(rows, place, ILP, NONE) for place in cases]
        faster = [None if answer is None else not answer for answer in faster]
        ours = [case[FULL] / case[CLOSED] for case in cases.values()]
        return [
            Claim(
                where="Section 7.3.1",
                paper="Full-pruning takes the least time and No-pruning the most",
                found=f"of the paper's four, Full-pruning takes the least in {sum(least)} of {len(cases)} cases and "
                f"No-pruning the most in {sum(most)}; among the three searches No-pruning takes the most in "
                f"{sum(searches)}. Our closed form is {span(ours, ',.0f')} times as fast as Full-pruning",
                verdict=Verdict.of([*least, *most]),
            ),
            Claim(
                where="Section 7.3.1",
                paper="Loss-pruning significantly reduces the time compared to No-pruning",
                found=f"No-pruning takes {span(reduced, '.1f')} times as long; {_SIGNIFICANT:g} times or more is taken "
                "as significant",
                verdict=Verdict.of([ratio >= _SIGNIFICANT for ratio in reduced]),
            ),
            Claim(
                where="Section 7.3.1",
                paper="the time of Loss-pruning has an increasing trend as |T| increases",
                found=f"from the smallest table to the largest it grows {span(loss_growth, '.1f')} times; "
                f"{_INCREASES:g} times or more is taken as a trend",
                verdict=Verdict.of([ratio >= _INCREASES for ratio in loss_growth]),
            ),
            Claim(
                where="Section 7.3.1",
                paper="a larger |T| does not affect Full-pruning much",
                found=f"from the smallest table to the largest its time grows {span(full_growth, '.2f')} times; up to "
                f"{_NOT_MUCH:g} times is taken as not much",
                verdict=Verdict.of([ratio <= _NOT_MUCH for ratio in full_growth]),
            ),
            Claim(
                where="Section 7.3.1",
                paper="Optimal takes less time than No-pruning, because the domain is relatively small",
                found=f"it does in {faster.count(True)} of {len(cases)} cases: "
                f"{span([c[ILP] for c in cases.values()], '.1f')} s against "
                f"{span([c[NONE] for c in cases.values()], '.1f')} s",
                verdict=Verdict.of(faster),
            ),
        ]
