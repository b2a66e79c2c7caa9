"""Figure 5: the relative error of count queries against theta (Section 7.2.2), beside that of one single bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper.experiment import Claim, Context, Table, Verdict, cases, percents, span
from paper.pictures import Axis, Lines, Rows, theta_axis
from paper.releases import MULTI_SIZE, ONE_BUCKET, OPTIMAL, STRATA, TWO_SIZE, relative_error

_PAPERS = (TWO_SIZE, MULTI_SIZE, OPTIMAL)
_ORDER = (*_PAPERS, STRATA, ONE_BUCKET)
_OVER_TEN = 12.0  # "slightly over 10 %": at most
_CLOSE = 2.0  # "relatively close": within so many percentage points
_ABOUT_TWO = (1.0, 3.0)  # "by about 2 %": between so many percentage points
_ALMOST = 0.75  # "almost as well": this share of the error of one bucket, or more


class RelativeError:
    """Mean relative error by method, sensitive column and theta."""

    name = "relative-error"
    title = "Relative error of count queries against the privacy coefficient θ"
    about = (
        "The mean of |act - est| / act over random count queries of 1 to all quasi-identifiers and the sensitive "
        "column, with an expected selectivity of 1 %. Queries that match nobody have no relative error and are left "
        "out. The dashed line is a single bucket that holds everybody: whoever publishes it publishes the two margins "
        "and nothing of the association between them."
    )

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return f"{context.data}, {context.settings.queries:,} queries"

    def steps(self, context: Context) -> int:
        """One for each method, theta and sensitive column."""
        return len(context.dataset.sensitive) * len(context.settings.thetas) * len(_ORDER)

    def run(self, context: Context) -> Rows:
        """A row a point."""
        return [_row(context, *point) for point in context.points(_ORDER)]

    def figure(self, rows: Rows, context: Context) -> Lines:  # noqa: ARG002
        """A line a method."""
        y = Axis("percent", "mean relative error (%)", format=",~f")
        return Lines(
            rows=rows, title=self.title, x=theta_axis(rows), y=y, series="method", order=_ORDER, baselines=(ONE_BUCKET,)
        )

    def table(self, rows: Rows) -> Table:
        """A row for each theta, a column for each method."""
        lines = [
            {"sensitive": sensitive, "θ": theta, **errors}
            for (sensitive, theta), errors in cases(rows, "percent").items()
        ]
        forms = {"sensitive": "s", "θ": "d"}
        heading = "{}, %".format
        return Table.of({n: (n if n in forms else heading(n), forms.get(n, ".1f")) for n in lines[0]}, lines)

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:  # noqa: ARG002
        """Section 7.2.2, and what its numbers are worth."""
        by_case = {case: errors for case, errors in cases(rows, "percent").items() if None not in errors.values()}
        occupation = [errors for (sensitive, _), errors in by_case.items() if sensitive == "Occupation"]
        education = [errors for (sensitive, _), errors in by_case.items() if sensitive == "Education"]
        claims = [*_occupation(occupation), *_education(education)] if occupation and education else []
        return [*claims, *_worth(by_case, rows)]


def _occupation(by_case: list[dict[str, float]]) -> list[Claim]:
    worst = max(errors[method] for errors in by_case for method in _PAPERS)
    spreads = [max(errors[m] for m in _PAPERS) - min(errors[m] for m in _PAPERS) for errors in by_case]
    return [
        Claim(
            where="Section 7.2.2",
            paper="for OCC the largest relative error is slightly over 10 %",
            found=f"it is {worst:.1f} %; up to {_OVER_TEN:g} % is taken as slightly over",
            verdict=Verdict.of([worst <= _OVER_TEN]),
        ),
        Claim(
            where="Section 7.2.2",
            paper="for OCC the errors of TwoSize, MultiSize and Optimal are relatively close to each other",
            found=f"the largest and the smallest of the three are {span(spreads, '.1f')} percentage points apart; up "
            f"to {_CLOSE:g} is taken as close",
            verdict=Verdict.of([spread <= _CLOSE for spread in spreads]),
        ),
    ]


def _education(by_case: list[dict[str, float]]) -> list[Claim]:
    errors = [case[method] for case in by_case for method in _PAPERS]
    multi = [case[TWO_SIZE] - case[MULTI_SIZE] for case in by_case]
    best = [case[MULTI_SIZE] - case[OPTIMAL] for case in by_case]
    low, high = _ABOUT_TWO
    return [
        Claim(
            where="Section 7.2.2",
            paper="for EDU all relative errors are no more than 10 %",
            found=f"they are {span(errors, '.1f')} %",
            verdict=Verdict.of([error <= 10 for error in errors]),
        ),
        Claim(
            where="Section 7.2.2",
            paper="for EDU MultiSize improves on TwoSize by about 2 %, and Optimal on MultiSize by about 2 %",
            found=f"MultiSize improves on TwoSize by {span(multi, '.1f')} percentage points, and Optimal on MultiSize "
            f"by {span(best, '.1f')}; {low:g} to {high:g} is taken as about 2",
            verdict=Verdict.of([low <= gain <= high for gain in (*multi, *best)]),
        ),
    ]


def _worth(by_case: dict[Any, dict[str, float]], rows: Rows) -> list[Claim]:
    errors = [case[method] for case in by_case.values() for method in (TWO_SIZE, MULTI_SIZE)]
    below = sum(error < 10 for error in errors)
    shares = [case[method] / case[ONE_BUCKET] for case in by_case.values() for method in (TWO_SIZE, MULTI_SIZE)]
    low = [share for (_, theta), case in by_case.items() if theta <= 8 for share in _shares(case)]
    strata = [case[STRATA] / case[ONE_BUCKET] for case in by_case.values()]
    one = span([case[ONE_BUCKET] for case in by_case.values()], ".1f")
    empty = sum(row["empty"] or 0 for row in rows if row["method"] == OPTIMAL)
    queries = sum(row["queries"] or 0 for row in rows if row["method"] == OPTIMAL)
    return [
        Claim(
            where="Section 7.2.2",
            paper="TwoSize and MultiSize have relative errors below 10 % for most F'-privacy considered",
            found=f"they do in {below} of {len(errors)} cases ({empty:,} of {queries:,} queries match nobody)",
            verdict=Verdict.of([2 * below > len(errors)]),
        ),
        Claim(
            where="Section 7.2.2",
            paper="so these solutions are highly accurate for count queries: the relative error is evidence of utility",
            found=f"one bucket that holds everybody, that is no association at all, has errors of {one} %, and TwoSize "
            f"and MultiSize have {percents(shares)} of that ({percents(low)} for θ up to 8); {percents([_ALMOST])} or "
            f"more is taken as almost the same, which tells an analyst little. Optimal in strata has "
            f"{percents(strata)} of it",
            verdict=Verdict.of([share < _ALMOST for share in shares]),
        ),
    ]


def _shares(case: dict[str, float]) -> list[float]:
    return [case[method] / case[ONE_BUCKET] for method in (TWO_SIZE, MULTI_SIZE)]


def _row(context: Context, sensitive: str, theta: int, method: str) -> dict[str, Any]:
    errors = relative_error(context, sensitive, theta, method) or {}
    mean, median = errors.get("mean"), errors.get("median")
    return {
        "table": context.dataset.panel(sensitive),
        "sensitive": sensitive,
        "theta": theta,
        "method": method,
        "percent": None if mean is None else 100 * mean,
        "median_percent": None if median is None else 100 * median,
        "queries": errors.get("queries"),
        "empty": errors.get("empty"),
    }
