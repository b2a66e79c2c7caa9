"""Figure 2 and Table 5: how often each sensitive value is, and how many values each column has."""

from __future__ import annotations

from collections.abc import Sequence

from paper.dataset import DOMAINS, FREQUENCIES
from paper.experiment import Claim, Context, Table, Verdict
from paper.figure import Axis, Bars, Rows

_LIKE = 2.0  # times as large or as small: still like the paper's


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
            found = context.dataset.counts(sensitive, context.settings.rows)
            context.progress.advance(1)
            ordered = sorted(zip(found.counts, found.values, strict=True), key=lambda pair: (-pair[0], pair[1]))
            rows += [
                {
                    "table": context.dataset.panel(sensitive),
                    "sensitive": sensitive,
                    "rank": rank,
                    "value": value,
                    "records": count,
                    "percent": 100 * count / found.total,
                }
                for rank, (count, value) in enumerate(ordered, 1)
            ]
        return rows

    def figure(self, rows: Rows, context: Context) -> Bars:  # noqa: ARG002
        """Bars by rank."""
        x = Axis("rank", "sensitive value, by rank of frequency", form="d")
        return Bars(rows, self.title, x, Axis("percent", "share of the records (%)", form=",~f"))

    def table(self, rows: Rows) -> Table | None:  # noqa: ARG002
        """The picture says it all."""
        return None

    def claims(self, rows: Rows, context: Context) -> Sequence[Claim]:
        """Smallest and largest frequencies, and domain sizes."""
        return [*_ranges(rows, context), *_domains(context)]


def _ranges(rows: Rows, context: Context) -> list[Claim]:
    names, said, like = [], [], []
    for sensitive, paper in FREQUENCIES.items():
        shares = [row["percent"] for row in rows if row["sensitive"] == sensitive]
        if not shares:
            continue
        names.append(f"{min(shares):.2f} % to {max(shares):.1f} % ({sensitive}, {len(shares)} values)")
        said.append(f"{100 * paper[0]:.2f} % to {100 * paper[1]:.1f} % ({sensitive})")
        ends = zip((min(shares), max(shares)), paper, strict=True)
        like += [1 / _LIKE <= share / (100 * theirs) <= _LIKE for share, theirs in ends]
    if not names:
        return []
    found = f"they are from {' and '.join(reversed(names))} in {context.settings.rows:,} records"
    return [
        Claim(
            "Section 7.1",
            f"sensitive values are from {' and '.join(reversed(said))} frequent in 300K records",
            f"{found}; like the paper's if within a factor of {_LIKE:g}",
            Verdict.of(like),
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
            "Table 5",
            f"the eight columns have {', '.join(map(str, DOMAINS.values()))} values ({', '.join(DOMAINS)})",
            f"{same} of 8 columns have as many values" + (f": {'; '.join(other)}" if other else ""),
            Verdict.of([ours[name] == size for name, size in DOMAINS.items()]),
        )
    ]
