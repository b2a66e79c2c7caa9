"""Relative error and the learning adversary against theta, with and without strata: what the paper does not measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paper.experiment import Claim, Context, Table, Verdict, cases, percents, span
from paper.pictures import Axis, Lines, Rows, theta_axis
from paper.releases import OPTIMAL, STRATA, learning_attack, relative_error

_METHODS = {OPTIMAL: "none", STRATA: "auto"}
_LINES = {
    (OPTIMAL, "top1"): "learning adversary, no strata",
    (OPTIMAL, "baseline"): "buckets alone, no strata",
    (STRATA, "top1"): "learning adversary, strata",
    (STRATA, "baseline"): "buckets alone, strata",
}
_NOT_MORE = 0.01  # beyond what the buckets alone give: so much is taken as nothing


class Adversary:
    """Top-1 accuracy beside relative error, for the exact optimum with and without strata."""

    name = "adversary"
    title = "Right guesses of the learning adversary against the privacy coefficient θ"
    about = (
        "Top-1 is the share of people whose sensitive value is guessed right by the learning adversary of "
        "`dalenius audit`, who learns across buckets what goes together and uses it within them; of its two learners "
        "the better one counts. Its baseline is the best guess from the person's bucket alone, which is what "
        "F'-privacy limits. Both releases are exact optima; one is of the whole table, as in the paper, and one of "
        "strata."
    )

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return context.data

    def steps(self, context: Context) -> int:
        """Two for each theta, sensitive column and kind of release."""
        return len(context.dataset.sensitive) * len(context.settings.thetas) * len(_METHODS) * 2

    def run(self, context: Context) -> Rows:
        """A row for each release."""
        return [_row(context, *point) for point in context.points(_METHODS)]

    def figure(self, rows: Rows, context: Context) -> Lines:  # noqa: ARG002
        """Accuracy and baseline, a colour for each kind of release."""
        points = [
            {**row, "series": line, "percent": row[column] and 100 * row[column]}
            for row in rows
            for (method, column), line in _LINES.items()
            if row["method"] == method
        ]
        y = Axis("percent", "people guessed right (%)", format=",~f")
        dashed = tuple(line for (_, column), line in _LINES.items() if column == "baseline")
        return Lines(
            rows=points,
            title=self.title,
            x=theta_axis(rows),
            y=y,
            series="series",
            order=tuple(_LINES.values()),
            dashed=dashed,
        )

    def table(self, rows: Rows) -> Table:
        """All of it."""
        columns = {
            "sensitive": ("sensitive", "s"),
            "theta": ("θ", "d"),
            "strata": ("strata", "s"),
            "relative_error": ("relative error", ".3f"),
            "top1": ("top-1", ".3f"),
            "baseline": ("its baseline", ".3f"),
            "guessing": ("guessing", ".3f"),
        }
        return Table.of(columns, rows)

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:  # noqa: ARG002
        """What bucketization is for, against somebody who learns; and what strata change."""
        top, base, error = (cases(rows, column) for column in ("top1", "baseline", "relative_error"))
        known = [case for case, methods in top.items() if None not in (*methods.values(), *base[case].values())]
        above = [top[case][OPTIMAL] - base[case][OPTIMAL] for case in known]
        in_strata = [top[case][STRATA] - base[case][STRATA] for case in known]
        errors = [error[case][STRATA] / error[case][OPTIMAL] for case in known]
        return [
            Claim(
                where="Section 3.1",
                paper="an adversary who knows a person's quasi-identifiers infers a value with its share of the "
                "bucket, |g, x| / |g|",
                found=f"one who learns across buckets guesses {span([100 * a for a in above], '.1f')} percentage "
                f"points more people right than that, without strata, and {span([100 * a for a in in_strata], '.1f')} "
                f"with strata; up to {100 * _NOT_MORE:g} point is taken as no more. Strata have {percents(errors)} of "
                "the relative error",
                verdict=Verdict.of([gain <= _NOT_MORE for gain in above]),
            )
        ]


def _row(context: Context, sensitive: str, theta: int, method: str) -> dict[str, Any]:
    error = relative_error(context, sensitive, theta, method) or {}
    attack = learning_attack(context, sensitive, theta, method) or {}
    return {
        "table": context.dataset.panel(sensitive),
        "sensitive": sensitive,
        "theta": theta,
        "method": method,
        "strata": _METHODS[method],
        "relative_error": error.get("mean"),
        "top1": attack.get("top1"),
        "baseline": attack.get("baseline"),
        "guessing": attack.get("guessing"),
        "learner": attack.get("learner"),
    }
