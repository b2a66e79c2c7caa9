"""Plots of benchmark results, as SVG and PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair

Rows = list[dict[str, Any]]


def line_chart(rows: Rows, x: str, title: str, y_title: str = "seconds") -> Any:
    """What is under `seconds` against x, a line a method, both axes logarithmic; unfinished runs are triangles."""
    base = altair.Chart(altair.InlineData(values=rows)).encode(
        x=altair.X(f"{x}:Q", scale=altair.Scale(type="log", nice=False, padding=12), axis=_axis(x)),
        y=altair.Y("seconds:Q", scale=altair.Scale(type="log", padding=12), axis=_axis(y_title)),
        color=altair.Color("method:N", title=None, sort=[r["method"] for r in rows]),
    )
    points = base.mark_point(filled=True, size=45).transform_filter("datum.finished")
    stopped = base.mark_point(shape="triangle-up", size=70).transform_filter("!datum.finished")
    return (base.mark_line() + points + stopped).properties(title=title, width=330, height=240)


def _axis(title: str) -> altair.Axis:
    return altair.Axis(title=title, format="~s", tickCount=6, gridOpacity=0.4, labelOverlap="greedy")


def save(charts: list[Any], path: Path) -> None:
    """Write the charts, two a row, next to the results."""
    rows = [
        altair.hconcat(*charts[k : k + 2]).resolve_scale(color="independent", shape="independent")
        for k in range(0, len(charts), 2)
    ]
    chart = (
        altair.vconcat(*rows).resolve_scale(color="independent", shape="independent").configure_legend(orient="right")
    )
    chart.save(path.with_suffix(".svg"))
    chart.save(path.with_suffix(".png"), scale_factor=1.5)
