"""Figure 3: the l that l-diversity needs for the limits of a theta, and whether the table can have it."""

from __future__ import annotations

from collections.abc import Sequence

from dalenius.solve.anatomy import find_anatomy
from dalenius.solve.two_size import find_two_size_setting
from paper.experiment import Claim, Context, Table, Verdict, span
from paper.figure import Axis, Lines, Rows, theta_axis
from paper.problems import every_problem

_LARGE = 12  # the paper's own l, from the frequencies it gives: 12 to 43 for theta up to 16, and 13 and 7 for 32
NEEDED, POSSIBLE = "ℓ that the limits need", "largest ℓ that the table can have"


class Diversity:
    """l = ceil(1 / min f') against theta."""

    name = "diversity"
    title = "The ℓ of ℓ-diversity against the privacy coefficient θ"
    about = (
        "ℓ = ⌈1 / min f'⌉ is the smallest ℓ whose ℓ-diversity enforces the limits (Remark 1). A table can be made "
        "ℓ-diverse only if no value is more frequent than 1/ℓ: the dashed line is the largest such ℓ."
    )

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return context.data

    def steps(self, context: Context) -> int:
        """One for each theta and sensitive column."""
        return len(context.dataset.sensitive) * len(context.settings.thetas)

    def run(self, context: Context) -> Rows:
        """l, the largest possible l, and whether two sizes up to 50 suffice for the limits themselves."""
        rows: Rows = []
        for sensitive, theta, case in every_problem(context):
            found = find_anatomy(case)
            rows.append(
                {
                    "table": context.dataset.panel(sensitive),
                    "sensitive": sensitive,
                    "theta": theta,
                    "l": found.diversity,
                    "largest_l": int(1 / found.largest_frequency),
                    "possible": found.eligible,
                    "setting_up_to_50": find_two_size_setting(case) is not None,
                }
            )
            context.progress.advance(1)
        return rows

    def figure(self, rows: Rows, context: Context) -> Lines:  # noqa: ARG002
        """Two lines, needed and possible."""
        points = [{**row, "series": NEEDED} for row in rows]
        points += [{**row, "series": POSSIBLE, "l": row["largest_l"]} for row in rows]
        y = Axis("l", "ℓ of ℓ-diversity", form="d")
        return Lines(points, self.title, theta_axis(rows), y, "series", (NEEDED, POSSIBLE), baselines=(POSSIBLE,))

    def table(self, rows: Rows) -> Table | None:  # noqa: ARG002
        """The picture says it all."""
        return None

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:
        """Section 7.1."""
        cases = len(rows)
        settings = sum(row["setting_up_to_50"] for row in rows)
        impossible = sum(not row["possible"] for row in rows)
        last = max(row["theta"] for row in rows)
        large = [row["l"] >= _LARGE for row in rows if row["theta"] < last or last < 32]
        found = "; ".join(_by_theta(rows, sensitive) for sensitive in context.dataset.sensitive)
        largest = ", ".join(
            f"{row['largest_l']} ({row['sensitive']})" for row in rows if row["theta"] == rows[0]["theta"]
        )
        return [
            Claim(
                "Section 7.1",
                "an F'-private solution exists for every θ, even with buckets of at most 50 records",
                f"one exists, with two sizes up to 50, in {settings} of {cases} cases",
                Verdict.of([row["setting_up_to_50"] for row in rows]),
            ),
            Claim(
                "Section 7.1",
                "except for θ = 32, a rather large ℓ is required to enforce F'-privacy by ℓ-diversity",
                f"ℓ is {found}; the paper's own ℓ are {_LARGE} or more for θ up to 16, and that is called large here",
                Verdict.of(large),
            ),
            Claim(
                "Section 7.1",
                "ℓ-diversity cannot be had for most of these limits: ℓ must be below 14 (OCC) and below 4 (EDU)",
                f"it cannot be had in {impossible} of {cases} cases; the largest possible ℓ is {largest}",
                Verdict.of([2 * impossible > cases]),
            ),
        ]


def _by_theta(rows: Rows, sensitive: str) -> str:
    mine = [row for row in rows if row["sensitive"] == sensitive]
    thetas = span([row["theta"] for row in mine], "d")
    return f"{', '.join(str(row['l']) for row in mine)} for θ = {thetas} ({sensitive})"
