"""The report's charts as SVG, drawn by Vega-Lite. Only this module knows Altair.

Colours are custom properties of the page, so one drawing serves light mode, dark mode and paper. The tables and
sentences beside a chart say the same, so screen readers skip the drawing. Names reach Vega through `visible` only: some
control characters would crash the whole process there.
"""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

from dalenius.errors import MissingExtraError
from dalenius.report.formatting import SPACE, number, percent, share_of_limit, tenths, visible

MOST_VALUES = 60
_MOST_NAMED_SIZES = 40
_WIDEST_BAR = 90
_MOST_NUMBERS = 12  # bars with their numbers above them
_LARGEST = 2**53  # beyond it, floating point has no whole numbers
_WIDTH = 750  # of a whole chart, so that letters are of one size in all of them
_ROW = 13.5
_LABEL = 26  # characters of a name beside the axis
_LETTER = 7.3  # pixels that a letter takes in the widest of the fonts that a browser may have
_INK, _MUTED, _LINE, _ACCENT, _LIMIT, _BAD = (
    f"var(--{name})" for name in ("ink", "muted", "line", "accent", "limit", "bad")
)
_STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 6, 8), tuple(step / 10 for step in range(10, 100, 2)))
_MOST_DRAWINGS = 32  # kept for the next report
_FEWEST_TICKS, _MOST_TICKS = 5, 14
_NARROWEST = 1.2  # factor that an axis spans
_PERCENT = f"format(100 * datum.value, '.3~g') + '{SPACE}%'"  # in Vega's language
_ID = re.compile(r'(\bid="|url\(#|href="#)([^")]+)')
_SIZE = re.compile(r'^(<svg\b[^>]*?) width="([0-9.]+)" height="[0-9.]+"')


def require_altair() -> Any:
    """Altair, or an error that says what to install."""
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("Altair, which draws the charts,", "report") from None
    return altair


def exposure_chart(exposure: dict[str, Any]) -> str | None:
    """People by the probability of their own value, in tenths; those whose value is published outright in red."""
    altair = require_altair()
    last = len(exposure["bands"]) - 1
    rows = [
        {
            "band": place,
            "people": people,
            "note": f"{number(round(people))}\n{tenths(people / exposure['people'])}" if people else "",
            "outright": place == last,
        }
        for place, people in enumerate(exposure["bands"])
    ]
    if not any(exposure["bands"]):
        return None
    names = [*(f"{10 * place} to {10 * place + 10}" for place in range(last)), f"100{SPACE}%"]
    which = "the value that a person has most likely" if exposure["several"] else "a person's own value"
    axis = altair.Axis(
        title=f"Probability of {which}, in percent; 100{SPACE}% is published outright",
        labelExpr=f"{json.dumps(names)}[datum.value]",
        labelAngle=0,
        grid=False,
        ticks=False,
        labelLimit=0,
    )
    x = altair.X("band:O", axis=axis)
    y = altair.Y("people:Q", axis=None)
    base = altair.Chart(altair.InlineData(values=rows)).encode(x=x, y=y)
    colours = altair.Scale(domain=[False, True], range=[_ACCENT, _BAD])
    bars = base.mark_bar(width={"band": 0.8}).encode(color=altair.Color("outright:N", scale=colours, legend=None))
    notes = base.mark_text(baseline="bottom", dy=-17, color=_INK, fontSize=11, lineBreak="\n", lineHeight=13)
    chart = altair.layer(bars, notes.encode(text=altair.Text("note:N")))
    return _svg(chart.properties(width=_WIDTH - 12, height=84), "exposure")


def values_chart(release: dict[str, Any], name: str = "values") -> str | None:
    """The worst cases and limits of the values nearest to their limits; None if none can be drawn.

    `name` is one that no other chart of the page has.

    The axis is logarithmic: the same distance between a dot and its limit is the same factor, for rare and frequent
    values alike.
    """
    rows: list[dict[str, Any]] = [
        {
            "row": place,
            "probability": float(Fraction(value["probability"])),
            "limit": float(Fraction(value["limit"])),
            "used": "no limit" if Fraction(value["limit"]) == 1 else share_of_limit(value["share_of_limit"]),
        }
        for place, value in enumerate(drawn_values(release))
    ]
    if not rows:
        return None
    altair = require_altair()
    names = [visible(value["value"], _LABEL) for value in drawn_values(release)]
    width = _WIDTH - _room(names) - 66
    ticks = _ticks([row[name] for row in rows for name in ("probability", "limit")])
    scale = altair.Scale(type="log", domain=[ticks[0], ticks[-1]], nice=False)
    title = "Probability (the same distance is the same factor)"
    axis = altair.Axis(title=title, values=ticks, labelExpr=_PERCENT, orient="top")
    rank = altair.Y(
        "row:O",
        title=None,
        axis=altair.Axis(labelExpr=f"{json.dumps(names)}[datum.value]", **_names_axis(names)),
    )
    base = altair.Chart(altair.InlineData(values=rows)).encode(y=rank)
    x = altair.X("probability:Q", scale=scale, axis=axis)
    lines = base.mark_rule(color=_MUTED, strokeWidth=1.2).encode(x=x, x2="limit:Q")
    limits = base.mark_tick(color=_LIMIT, thickness=3, size=_ROW - 2).encode(x=altair.X("limit:Q", scale=scale))
    dots = base.mark_point(shape="circle", color=_ACCENT, fill=_ACCENT, filled=True, size=46, opacity=1).encode(x=x)
    used = base.mark_text(align="left", color=_MUTED, fontSize=11).encode(
        x=altair.value(width + 12), text=altair.Text("used:N")
    )
    chart = altair.layer(lines, limits, dots, used).properties(width=width, height=altair.Step(_ROW))
    return _svg(chart, name)


def drawn_values(release: dict[str, Any], most: int = MOST_VALUES) -> list[dict[str, Any]]:
    """The values in the chart: those nearest to their limits, without impossible ones."""
    possible = (
        value for value in release["values"] if value["probability"] is not None and Fraction(value["probability"]) <= 1
    )
    return list(islice(possible, most))


def sizes_chart(release: dict[str, Any]) -> str | None:
    """How many records, or people, are in buckets of each size; None if the numbers are impossible."""
    setting, what = release["setting"], "people" if release["by_people"] else "records"
    if any(group["records"] > _LARGEST for group in setting):
        return None
    altair = require_altair()
    few = len(setting) <= _MOST_NAMED_SIZES
    title = f"{what.capitalize()} in a bucket"
    if few:
        x = altair.X("size:O", title=title, axis=altair.Axis(labelAngle=0, grid=False, labelOverlap=True))
    else:
        smallest, largest = setting[0]["size"], setting[-1]["size"]
        kind = "log" if largest > 40 * smallest else "linear"
        scale = altair.Scale(type=kind, nice=False, zero=False, padding=8)
        x = altair.X("size:Q", title=title, scale=scale, axis=altair.Axis(grid=False, format=",d", tickCount=8))
    whose = f"{what.capitalize()} in buckets of this size"
    y = altair.Y(f"{what}:Q", title=whose, axis=altair.Axis(format=",d", tickCount=5))
    base = altair.Chart(altair.InlineData(values=setting)).encode(x=x, y=y)
    # without a width of its own, a bar is thin where there are many sizes
    chart = base.mark_bar(color=_ACCENT, width={"band": 0.7}) if few else base.mark_bar(color=_ACCENT, width=2.5)
    if len(setting) <= _MOST_NUMBERS:
        rows = [{**group, "note": number(group[what])} for group in setting]
        notes = altair.Chart(altair.InlineData(values=rows)).encode(x=x, y=y, text=altair.Text("note:N"))
        chart += notes.mark_text(dy=-7, color=_INK, fontSize=11)
    width = _WIDTH - 70
    return _svg(chart.properties(width=min(width, _WIDEST_BAR * len(setting)) if few else width, height=180), "sizes")


def audit_chart(played: dict[str, dict[str, Any]], approximate: bool) -> str | None:
    """The success of every attacker beside baseline and control, by what they are called; None if nothing is known."""
    rows = []
    attacks = list(played)
    for name, attack in played.items():
        for kind in ("success", "baseline", "control"):
            share, ends = attack[kind], attack[f"{kind}_interval"]
            if share is not None:
                low, high = ends if ends is not None and not approximate else (share, share)
                rows.append({"attack": name, "kind": kind, "share": share, "low": low, "high": high})
    if not rows:
        return None
    altair = require_altair()
    kinds = ["success", "baseline", "control"]
    largest = max(row["high"] for row in rows)
    scale = altair.Scale(domain=[0, min(1.0, math.ceil(largest * 20 + 0.5) / 20)], nice=False)
    axis = altair.Axis(title="Share of people whose value is guessed", labelExpr=_PERCENT, tickCount=6)
    lanes = altair.YOffset("kind:N", scale=altair.Scale(domain=kinds))
    y = altair.Y("attack:N", title=None, sort=attacks, axis=altair.Axis(**_names_axis(attacks)))
    base = altair.Chart(altair.InlineData(values=rows)).encode(y=y, yOffset=lanes)
    colours = altair.Scale(domain=kinds, range=[_ACCENT, _LIMIT, _MUTED])
    shapes = altair.Scale(domain=kinds, range=["circle", "diamond", "square"])
    colour = altair.Color("kind:N", scale=colours, legend=None)
    x = altair.X("share:Q", scale=scale, axis=axis)
    low = altair.X("low:Q", scale=scale, axis=axis)
    whiskers = base.mark_rule(strokeWidth=1.6).encode(x=low, x2="high:Q", color=colour)
    points = base.mark_point(filled=True, size=64, opacity=1).encode(
        x=x, color=colour, shape=altair.Shape("kind:N", scale=shapes, legend=None)
    )
    texts = [{**row, "note": percent(row["share"])} for row in rows]
    notes = altair.Chart(altair.InlineData(values=texts)).encode(
        y=y, yOffset=lanes, x=altair.X("high:Q", scale=scale, axis=axis), text=altair.Text("note:N")
    )
    chart = altair.layer(whiskers, points, notes.mark_text(align="left", dx=9, color=_INK, fontSize=11))
    return _svg(chart.properties(width=_WIDTH - _room(attacks) - 50, height=altair.Step(15)), "audit")


def _names_axis(names: list[str]) -> dict[str, Any]:
    """Names beside rows, with room for any browser font: Vega measures in a font of its own."""
    return {
        "labelLimit": 0,
        "minExtent": _room(names),
        "labelPadding": 8,
        "domain": False,
        "ticks": False,
    }


def _room(names: list[str]) -> int:
    return round(_LETTER * max(map(len, names)) + 8)


def _ticks(shares: list[float]) -> list[float]:
    """Round numbers around the shares on a logarithmic axis: about five to ten, as far apart as possible."""
    low, high = min(shares), max(shares)
    if high < _NARROWEST * low:
        low, high = low / _NARROWEST, min(1.0, high * _NARROWEST)
    ticks: list[float] = []
    for steps in _STEPS:
        ticks = _ticks_between(low, high, steps)
        if len(ticks) >= _FEWEST_TICKS:
            break
    return ticks if len(ticks) <= _MOST_TICKS else [ticks[0], ticks[-1]]


def _ticks_between(low: float, high: float, steps: tuple[float, ...]) -> list[float]:
    """Multiples of powers of ten by these steps: those inside, and the nearest at or beyond each end."""
    powers = range(math.floor(math.log10(low) + 1e-9) - 1, math.ceil(math.log10(high) - 1e-9) + 1)
    every = [round(step * 10.0**power, 12 - power) for power in powers for step in steps]
    inside = [tick for tick in every if low < tick < high]
    below = [tick for tick in every if tick <= low * (1 + 1e-9)]
    above = [tick for tick in every if tick >= high * (1 - 1e-9)]
    return sorted({*below[-1:], *inside, *above[:1]})


def _svg(chart: Any, name: str) -> str:
    """The drawing, as wide as the page lets it be; the IDs of its parts are unique on the page."""
    chart = chart.configure(background="transparent", font="sans-serif", aria=False, padding=4)
    chart = chart.configure_view(stroke=None)
    chart = chart.configure_axis(
        labelColor=_INK,
        titleColor=_MUTED,
        domainColor=_MUTED,
        tickColor=_MUTED,
        gridColor=_LINE,
        labelFontSize=11.5,
        titleFontSize=12,
        titleFontWeight="normal",
    )
    drawn = _draw(json.dumps(chart.to_dict(validate=False)))
    drawn = _ID.sub(rf"\g<1>{name}-\g<2>", drawn)
    # the page decides how far it may shrink and grow
    return _SIZE.sub(r'\1 aria-hidden="true" focusable="false" style="--width:\2px"', drawn, count=1)


@lru_cache(maxsize=_MOST_DRAWINGS)
def _draw(specification: str) -> str:
    """The SVG of a Vega-Lite specification. The same report is often made again, and drawing takes most of its time."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(specification))
