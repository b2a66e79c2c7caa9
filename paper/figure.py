"""How an experiment's rows are drawn, said in a few words: `pictures` does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Rows = list[dict[str, Any]]
Scale = Literal["linear", "log"]


@dataclass(frozen=True)
class Axis:
    """A column on an axis. `ticks` are marked as they are; `form` is how numbers are shown (d3-format)."""

    column: str
    title: str
    scale: Scale = "linear"
    base: int = 10
    ticks: tuple[float, ...] = ()
    form: str = "~s"


def theta_axis(rows: Rows) -> Axis:
    """The privacy coefficient, in powers of 2."""
    return Axis("theta", "privacy coefficient θ", "log", 2, tuple(sorted({row["theta"] for row in rows})), "d")


@dataclass(frozen=True)
class Lines:
    """A line for each value of `series`, in that order; a panel for each value of `panel`. `stopped` rows are hollow.

    `baselines` are series that are drawn dashed and in grey: what the others are compared with.
    """

    rows: Rows
    title: str
    x: Axis
    y: Axis
    series: str
    order: tuple[str, ...]
    panel: str = "table"
    baselines: tuple[str, ...] = ()
    dashed: tuple[str, ...] = ()  # each has the colour of the series before it
    stopped: str | None = None


@dataclass(frozen=True)
class Bars:
    """A bar for each row, in the order of the rows; a panel for each value of `panel`."""

    rows: Rows
    title: str
    x: Axis
    y: Axis
    panel: str = "table"  # without a title if that is blank
    named: bool = False  # whether bars have their names written under them
    marked: str | None = None  # a column: bars where it is true have another colour
    note: str | None = None  # a column of words over each bar


@dataclass(frozen=True)
class Bands:
    """A line with a band around it from simulation, and a dashed line from theory, for each panel."""

    rows: Rows
    title: str
    x: Axis
    y: Axis
    low: str
    high: str
    theory: str
    theory_low: str
    theory_high: str
    truth: float
    panel: str = "table"


Figure = Lines | Bars | Bands
