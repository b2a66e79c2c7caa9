"""Pictures of results as SVG and PNG: a `Figure` says how rows are drawn, and Vega-Lite draws them.

This is the only module that knows Altair.
"""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass
from typing import Any, Literal

from dalenius.errors import MissingExtraError

Rows = list[dict[str, Any]]
Scale = Literal["linear", "log"]

# Okabe and Ito's colours, which colour-blind people can tell apart; their yellow is too pale for lines.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#56B4E9")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
_GREY, _OURS, _OTHER = "#666666", "#0072B2", "#D55E00"
_WIDTH, _HEIGHT = 340, 250
_PNG_SCALE = 2


@dataclass(frozen=True)
class Axis:
    """A column on an axis. `ticks` are marked as they are; `format` is how numbers are shown (d3-format)."""

    column: str
    title: str
    scale: Scale = "linear"
    base: int = 10
    ticks: tuple[float, ...] = ()
    format: str = "~s"


def theta_axis(rows: Rows) -> Axis:
    """The privacy coefficient, in powers of 2."""
    return Axis(
        column="theta",
        title="privacy coefficient θ",
        scale="log",
        base=2,
        ticks=tuple(sorted({row["theta"] for row in rows})),
        format="d",
    )


@dataclass(frozen=True)
class Lines:
    """A line for each value of `series`, in that order; a panel for each value of `panel`.

    Rows where the column `hollow` is true have hollow points.

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
    hollow: str | None = None


@dataclass(frozen=True)
class Bars:
    """A bar for each row, in the order of the rows; a panel for each value of `panel`."""

    rows: Rows
    title: str
    x: Axis
    y: Axis
    panel: str = "table"  # without a title if that is blank
    has_names: bool = False  # whether bars have their names written under them
    highlight: str | None = None  # a column: bars where it is true have another colour
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


def picture(figure: Figure, data: str) -> dict[str, bytes]:
    """The figure by file suffix; `data` is what the subtitle calls the table."""
    altair = require_altair()
    draw = {Lines: _lines, Bars: _bars, Bands: _bands}[type(figure)]
    panels = [draw(altair, figure, rows, name) for name, rows in _panels(figure).items()]  # type: ignore[operator]
    title = altair.TitleParams(
        figure.title, subtitle=data, anchor="start", fontSize=15, subtitleFontSize=12, subtitleColor="#444", offset=14
    )
    chart = altair.hconcat(*panels, spacing=34).properties(title=title)
    chart = chart.configure(background="white", font="sans-serif").configure_view(stroke=None)
    chart = chart.configure_axis(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor="#e4e4e4")
    chart = chart.configure_legend(
        orient="bottom", columns=3, labelFontSize=12, labelLimit=320, symbolSize=110, symbolStrokeWidth=2, title=None
    )
    files = {}
    for kind, options in (("svg", {}), ("png", {"scale_factor": _PNG_SCALE})):
        out: Any = io.StringIO() if kind == "svg" else io.BytesIO()
        chart.save(out, format=kind, **options)
        files[kind] = out.getvalue().encode() if kind == "svg" else out.getvalue()
    return files


def require_altair() -> Any:
    """Altair; an error that says what to install if it is not there."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("Altair, which draws the pictures,", "report") from None
    return altair


def _panels(figure: Figure) -> dict[str, Rows]:
    panels: dict[str, Rows] = {}
    for row in figure.rows:
        panels.setdefault(row[figure.panel], []).append(row)
    return panels


def _lines(altair: Any, figure: Lines, rows: Rows, panel: str) -> Any:
    """Lines with points; stopped runs are hollow, and the legend is shared by all panels."""
    drawn = [row | {"_stopped": bool(figure.hollow and row[figure.hollow])} for row in rows]
    drawn = [row for row in drawn if _can_be_shown(row[figure.y.column], figure.y)]
    names = [name for name in figure.order if any(row[figure.series] == name for row in figure.rows)]
    numbers = [row[figure.y.column] for row in figure.rows if _can_be_shown(row[figure.y.column], figure.y)]
    scale = {"domain": names, "range": [_colour(figure, name) for name in names]}
    shapes = [_SHAPES[names.index(name) % len(_SHAPES)] for name in names]
    base = altair.Chart(altair.InlineData(values=drawn)).encode(
        x=_x(altair, figure.x),
        y=_y(altair, figure.y, numbers),
        color=altair.Color(f"{figure.series}:N", scale=altair.Scale(**scale)),
    )
    dashed = json.dumps([*figure.baselines, *figure.dashed])
    in_dashes = f"indexof({dashed}, datum['{figure.series}']) >= 0"
    lines = base.transform_filter(f"!({in_dashes})").mark_line(strokeWidth=2)
    lines += base.transform_filter(in_dashes).mark_line(strokeWidth=2, strokeDash=[5, 4])
    shape = altair.Shape(f"{figure.series}:N", scale=altair.Scale(domain=names, range=shapes))
    points = base.transform_filter("!datum._stopped").mark_point(filled=True, size=60, opacity=1).encode(shape=shape)
    hollow = base.transform_filter("datum._stopped").mark_point(
        filled=False, fill="white", size=80, strokeWidth=2, opacity=1
    ).encode(shape=shape)  # fmt: skip
    return (lines + points + hollow).properties(title=panel, width=_WIDTH, height=_HEIGHT)


def _bars(altair: Any, figure: Bars, rows: Rows, panel: str) -> Any:
    """Bars in the order of the rows."""
    kind = "N" if figure.has_names else "O"
    axis = altair.Axis(
        title=figure.x.title,
        labelAngle=0,
        labelLimit=130,
        grid=False,
        **({} if figure.has_names else {"values": _some([row[figure.x.column] for row in rows])}),
    )
    width = 110 * len(rows) if figure.has_names else _WIDTH
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        x=altair.X(f"{figure.x.column}:{kind}", sort=None, axis=axis),
        y=_y(altair, figure.y, [row[figure.y.column] for row in rows]),
    )
    colour = altair.value(_OURS)
    if figure.highlight is not None:
        colour = altair.condition(f"datum.{figure.highlight}", altair.value(_OTHER), altair.value(_OURS))
    chart = base.mark_bar(width={"band": 0.75}).encode(color=colour)
    if figure.note is not None:
        chart += base.mark_text(dy=-7, fontSize=11).encode(text=f"{figure.note}:N")
    chart = chart.properties(width=width, height=_HEIGHT)
    return chart.properties(title=panel) if panel.strip() else chart


def _bands(altair: Any, figure: Bands, rows: Rows, panel: str) -> Any:
    """The band and its median, theory dashed, the truth dotted; what is outside the frame is cut off."""
    low, high = -1.0, 2.0
    names = ["simulated median and central 95 %", "theorem's mean ± 1.96 deviations", "true ratio y/x"]
    colours = altair.Scale(domain=names, range=[_OURS, _OTHER, "#000000"])
    drawn = [row | {"_truth": figure.truth, **dict(zip(("_a", "_b", "_c"), names, strict=True))} for row in rows]
    base = altair.Chart(altair.InlineData(values=drawn)).encode(x=_x(altair, figure.x))
    scale = altair.Scale(domain=[low, high], clamp=False, nice=False)

    def y(column: str) -> Any:
        axis = altair.Axis(title=figure.y.title, format=figure.y.format, tickCount=7)
        return altair.Y(f"{column}:Q", scale=scale, axis=axis)

    def colour(name: str) -> Any:
        return altair.Color(f"{name}:N", scale=colours)

    band = base.mark_area(opacity=0.22, clip=True, color=_OURS).encode(
        y=y(figure.low), y2=altair.Y2(f"{figure.high}:Q")
    )
    median = base.mark_line(strokeWidth=2, clip=True, point={"size": 40}).encode(
        y=y(figure.y.column), color=colour("_a")
    )
    theory = [
        base.mark_line(strokeWidth=1.8, strokeDash=[6, 4], clip=True).encode(y=y(column), color=colour("_b"))
        for column in (figure.theory, figure.theory_low, figure.theory_high)
    ]
    truth = base.mark_line(strokeWidth=1, strokeDash=[1, 3]).encode(y=y("_truth"), color=colour("_c"))
    return altair.layer(band, truth, *theory, median).properties(title=panel, width=_WIDTH, height=_HEIGHT)


def _colour(figure: Lines, name: str) -> str:
    if name in figure.baselines:
        return _GREY
    coloured = [other for other in figure.order if other not in figure.baselines]
    place = coloured.index(name)
    if figure.dashed:  # pairs of a full and a dashed line share a colour
        place //= 2
    return _COLOURS[place % len(_COLOURS)]


def _x(altair: Any, axis: Axis) -> Any:
    options: dict[str, Any] = {"title": axis.title, "format": axis.format}
    if axis.ticks:
        options["values"] = list(axis.ticks)
    scale = altair.Scale(type="log", base=axis.base, nice=False, padding=14) if axis.scale == "log" else (
        altair.Scale(zero=False, nice=False, padding=14)
    )  # fmt: skip
    return altair.X(f"{axis.column}:Q", scale=scale, axis=altair.Axis(**options))


def _can_be_shown(number: float | None, axis: Axis) -> bool:
    return number is not None and (axis.scale == "linear" or number > 0)


def _y(altair: Any, axis: Axis, numbers: list[float]) -> Any:
    """All panels have the same scale: from 0 up, or whole powers of ten if it is logarithmic."""
    options: dict[str, Any] = {"title": axis.title, "format": axis.format}
    numbers = numbers or [1.0]
    if axis.scale == "log":
        low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
        low, high = (low, high) if high > low else (low, low + 1)
        options["values"] = [10.0**k for k in range(low, high + 1)]
        scale = altair.Scale(type="log", domain=[10.0**low, 10.0**high], nice=False)
    else:
        scale = altair.Scale(domain=[0, 1.05 * max(numbers)], nice=True)
    return altair.Y(f"{axis.column}:Q", scale=scale, axis=altair.Axis(**options))


def _some(places: list[int]) -> list[int]:
    """About ten of the ranks, from the first on."""
    step = max(1, round(len(places) / 10))
    return places if len(places) <= 14 else [places[0], *(p for p in places if p % step == 0)]
