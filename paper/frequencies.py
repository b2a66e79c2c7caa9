"""What Section 7.1 says about the table: its frequencies, its domains, and the l that l-diversity needs.

Figure 2 and Table 5 have how often each sensitive value is, and how many values each column has. Figure 3 has the l
that l-diversity needs for the limits of a theta, and whether the table can have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dalenius.solve.anatomy import find_anatomy
from dalenius.solve.two_size import find_two_size_setting
from paper.dataset import DOMAINS, FREQUENCIES
from paper.experiment import Claim, Context, Table, Verdict, span
from paper.pictures import Axis, Bars, Lines, Rows, theta_axis
from paper.problems import every_problem

_LIKE = 2.0  # times as large or as small: still like the paper's
_LARGE = 12  # the paper's own l, from the frequencies it gives: 12 to 43 for theta up to 16, and 13 and 7 for 32
NEEDED, POSSIBLE = "ℓ that the limits need", "largest ℓ that the table can have"


class Frequencies:
    """The distribution of each sensitive column, the most frequent value first."""

    name = "frequencies"
    title = "Frequency distribution of the sensitive attribute"
    about = "Frequencies in the rows used, the most frequent value first."

    def data(self, context: Context) -> str:
        """What the picture calls its data."""
        return context.data

    def steps(self, context: Context) -> int:
        """One a sensitive column."""
        return len(context.dataset.sensitive)

    def run(self, context: Context) -> Rows:
        """A row for each value of each sensitive column."""
        rows: Rows = []
        for sensitive in context.dataset.sensitive:
            counts = context.dataset.counts(sensitive, context.settings.rows)
            context.progress.advance(1)
            ordered = sorted(zip(counts.counts, counts.values, strict=True), key=lambda pair: (-pair[0], pair[1]))
            rows += [
                {
                    "table": context.dataset.panel(sensitive),
                    "sensitive": sensitive,
                    "rank": rank,
                    "value": value,
                    "records": count,
                    "percent": 100 * count / counts.total,
                }
                for rank, (count, value) in enumerate(ordered, 1)
            ]
        return rows

    def figure(self, rows: Rows, context: Context) -> Bars:  # noqa: ARG002
        """Bars by rank."""
        x = Axis("rank", "sensitive value, by rank of frequency", format="d")
        return Bars(rows=rows, title=self.title, x=x, y=Axis("percent", "share of the records (%)", format=",~f"))

    def table(self, rows: Rows) -> Table | None:  # noqa: ARG002
        """The picture says it all."""
        return None

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:
        """Smallest and largest frequencies, and domain sizes."""
        return [*_ranges(rows, context), *_domains(context)]


def _ranges(rows: Rows, context: Context) -> list[Claim]:
    names, papers, like = [], [], []
    for sensitive, paper in FREQUENCIES.items():
        shares = [row["percent"] for row in rows if row["sensitive"] == sensitive]
        if not shares:
            continue
        names.append(f"{min(shares):.2f} % to {max(shares):.1f} % ({sensitive}, {len(shares)} values)")
        papers.append(f"{100 * paper[0]:.2f} % to {100 * paper[1]:.1f} % ({sensitive})")
        ends = zip((min(shares), max(shares)), paper, strict=True)
        like += [1 / _LIKE <= share / (100 * theirs) <= _LIKE for share, theirs in ends]
    if not names:
        return []
    ranges = f"they are from {' and '.join(reversed(names))} in {context.settings.rows:,} records"
    return [
        Claim(
            where="Section 7.1",
            paper=f"sensitive values are from {' and '.join(reversed(papers))} frequent in 300K records",
            found=f"{ranges}; like the paper's if within a factor of {_LIKE:g}",
            verdict=Verdict.of(like),
        )
    ]


def _domains(context: Context) -> list[Claim]:
    table = context.dataset.table
    ours = {name: len(table[name].unique()) for name in DOMAINS if name in table.column_names}
    if len(ours) < len(DOMAINS):
        return []
    other = [f"{name} has {ours[name]}, not {size}" for name, size in DOMAINS.items() if ours[name] != size]
    same = len(ours) - len(other)
    return [
        Claim(
            where="Table 5",
            paper=f"the eight columns have {', '.join(map(str, DOMAINS.values()))} values ({', '.join(DOMAINS)})",
            found=f"{same} of 8 columns have as many values" + (f": {'; '.join(other)}" if other else ""),
            verdict=Verdict.of([ours[name] == size for name, size in DOMAINS.items()]),
        )
    ]


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
            baseline = find_anatomy(case)
            rows.append(
                {
                    "table": context.dataset.panel(sensitive),
                    "sensitive": sensitive,
                    "theta": theta,
                    "l": baseline.diversity,
                    "largest_l": int(1 / baseline.largest_frequency),
                    "possible": baseline.eligible,
                    "setting_up_to_50": find_two_size_setting(case) is not None,
                }
            )
            context.progress.advance(1)
        return rows

    def figure(self, rows: Rows, context: Context) -> Lines:  # noqa: ARG002
        """Two lines, needed and possible."""
        points = [{**row, "series": NEEDED} for row in rows]
        points += [{**row, "series": POSSIBLE, "l": row["largest_l"]} for row in rows]
        y = Axis("l", "ℓ of ℓ-diversity", format="d")
        return Lines(
            rows=points,
            title=self.title,
            x=theta_axis(rows),
            y=y,
            series="series",
            order=(NEEDED, POSSIBLE),
            baselines=(POSSIBLE,),
        )

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
        by_theta = "; ".join(_by_theta(rows, sensitive) for sensitive in context.dataset.sensitive)
        largest = ", ".join(
            f"{row['largest_l']} ({row['sensitive']})" for row in rows if row["theta"] == rows[0]["theta"]
        )
        return [
            Claim(
                where="Section 7.1",
                paper="an F'-private solution exists for every θ, even with buckets of at most 50 records",
                found=f"one exists, with two sizes up to 50, in {settings} of {cases} cases",
                verdict=Verdict.of([row["setting_up_to_50"] for row in rows]),
            ),
            Claim(
                where="Section 7.1",
                paper="except for θ = 32, a rather large ℓ is required to enforce F'-privacy by ℓ-diversity",
                found=f"ℓ is {by_theta}; the paper's own ℓ are {_LARGE} or more for θ up to 16, and that is called "
                "large here",
                verdict=Verdict.of(large),
            ),
            Claim(
                where="Section 7.1",
                paper="ℓ-diversity cannot be had for most of these limits: ℓ must be below 14 (OCC) and below 4 (EDU)",
                found=f"it cannot be had in {impossible} of {cases} cases; the largest possible ℓ is {largest}",
                verdict=Verdict.of([2 * impossible > cases]),
            ),
        ]


def _by_theta(rows: Rows, sensitive: str) -> str:
    mine = [row for row in rows if row["sensitive"] == sensitive]
    thetas = span([row["theta"] for row in mine], "d")
    return f"{', '.join(str(row['l']) for row in mine)} for θ = {thetas} ({sensitive})"
