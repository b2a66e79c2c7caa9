"""What dp-risk found, as tables for people and as an object for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dalenius.cli.text_table import TextTable, printable, show_notes
from dalenius.dp_risk.results import (
    PROMISE,
    DpRisk,
    EpsilonRisk,
    GroupRisk,
    Ratio,
    ReleaseRisk,
    ReleaseShares,
    SizeRisk,
    ValueRisk,
)

FORMAT_VERSION = 1


def risk_object(risk: DpRisk) -> dict[str, Any]:
    """The answer as one JSON object. The keys are a contract (docs/json.md)."""
    release = risk.release
    return {
        "format": FORMAT_VERSION,
        "people": risk.people,
        "groups": risk.groups,
        "draws": risk.draws,
        "least_shown": risk.least_shown,
        "exact": risk.exact,
        "mean_share": risk.mean_share,
        "noise_alone": risk.noise_alone,
        "epsilons": [_epsilon_object(entry) for entry in risk.epsilons],
        "sizes": [
            {
                "least": entry.least,
                "most": entry.most,
                "groups": entry.groups,
                "people": entry.people,
                "exact": entry.exact,
                "noise_alone": entry.noise_alone,
                "release": _shares_object(entry.release),
                "epsilons": [_epsilon_object(inner) for inner in entry.epsilons],
            }
            for entry in risk.sizes
        ],
        "top": [_group_object(group) for group in risk.top],
        "where": _group_object(risk.predicate) if risk.predicate is not None else None,
        "theorem": [
            {"size": point.size, "count": point.count, "factor": point.factor, **_ratio_object(point.ratio)}
            for point in risk.theorem
        ],
        "release": _release_object(release) if release is not None else None,
        "group_rows": risk.group_rows,
        "notes": list(risk.notes),
    }


def _epsilon_object(entry: EpsilonRisk) -> dict[str, Any]:
    return {
        "epsilon": entry.epsilon,
        "pinned": entry.pinned,
        "pinned_standard_error": entry.pinned_error,
        "pinned_rightly": entry.pinned_rightly,
        "pinned_rightly_standard_error": entry.pinned_rightly_error,
        "mean_estimate": entry.mean_estimate,
        "median_relative_error": entry.median_relative_error,
    }


def _ratio_object(ratio: Ratio) -> dict[str, Any]:
    return {
        "epsilon": ratio.epsilon,
        "mean": ratio.mean,
        "variance": ratio.variance,
        "median": ratio.median,
        "interval": list(ratio.interval),
    }


def _group_object(group: GroupRisk) -> dict[str, Any]:
    return {
        "size": group.size,
        "group": group.group,
        "pinned": list(group.pinned),
        "pinned_rightly": list(group.pinned_rightly),
        "release": _shares_object(group.release),
        "values": [_value_object(value) for value in group.values],
        "more_values": group.more_values,
    }


def _value_object(value: ValueRisk) -> dict[str, Any]:
    return {
        "value": value.value,
        "count": value.count,
        "limit": str(value.limit),
        "above": value.above,
        "released": str(value.released) if value.released is not None else None,
        "released_mean": value.released_mean,
        "ratios": [
            {**_ratio_object(ratio), "pinned": chance} for ratio, chance in zip(value.ratios, value.pinned, strict=True)
        ],
    }


def _shares_object(shares: ReleaseShares | None) -> dict[str, Any] | None:
    if shares is None:
        return None
    return {
        "mean_share": shares.mean_share,
        "largest_share": shares.largest_share,
        "above_limit": shares.above_limit,
    }


def _release_object(release: ReleaseRisk) -> dict[str, Any]:
    return {
        "status": release.status,
        "buckets": release.buckets,
        "mse": release.mse,
        "above_limit": release.above_limit,
        "mean_share": release.mean_share,
        "largest_share": release.largest_share,
    }


def show_risk(risk: DpRisk, file: Path | None = None) -> None:
    """Print the answer for people; `file` has all groups."""
    if risk.epsilons:
        _by_epsilon(risk).show()
        for place in range(len(risk.epsilons)):
            _by_size(risk.sizes, place).show()
        if risk.top:
            _top(risk).show()
        elif not any(entry.pinned_rightly for entry in risk.epsilons):
            click.echo("No group has anybody above a limit, so nobody is pinned rightly.\n")
    if risk.predicate is not None:
        _predicate(risk.predicate).show()
    _theorem(risk).show()
    show_notes(risk.notes)
    if file is not None:
        click.echo(_about_file(risk, file))
    click.echo(PROMISE)
    if risk.release is not None:
        click.echo(_RELEASE)


def _about_file(risk: DpRisk, file: Path) -> str:
    unnamed = f"It does not name groups of fewer than {risk.least_shown:,} people."
    rows = f"{printable(str(file))} has {risk.group_rows:,} rows on all groups: not for publication."
    return f"{rows} {unnamed if risk.least_shown > 1 else 'It names all groups.'}"


_RELEASE = (
    "The release keeps the limits against an observer of buckets. Somebody who learns across buckets may know more. "
    "Unlike differential privacy, it gives no guarantee for several releases together."
)


_SHARES = ("release: mean share of own value", "largest in any bucket")


def _shares_cells(shares: ReleaseShares | None) -> tuple[str, str]:
    return (f"{shares.mean_share:.4f}", f"{shares.largest_share:.4f}") if shares is not None else ("-", "-")


def _by_epsilon(risk: DpRisk) -> TextTable:
    title = f"{risk.people:,} people in {risk.groups:,} groups; share pinned above the limit ({risk.draws:,} draws)"
    columns = ("observer sees", "pinned", "rightly", "mean estimate", "median relative error")
    table = TextTable(columns, left=("observer sees",), title=title)
    for entry in risk.epsilons:
        table.add(
            f"noisy counts, epsilon {entry.epsilon:g}",
            f"{entry.pinned:.2%} ± {entry.pinned_error:.2%}",
            f"{entry.pinned_rightly:.2%} ± {entry.pinned_rightly_error:.2%}",
            f"{entry.mean_estimate:.4f}",
            f"{entry.median_relative_error:.3g}",
        )
    if risk.noise_alone is not None:
        table.add("noise and no counts", f"{risk.noise_alone:.2%}", "-", "-", "-")
    if risk.exact is not None and risk.mean_share is not None:
        table.add("exact counts", f"{risk.exact:.2%}", f"{risk.exact:.2%}", f"{risk.mean_share:.4f}", "0")
    if (release := risk.release) is not None:
        above = f"{release.above_limit / risk.people:.2%}"
        table.add("F'-private release", above, above, f"{release.mean_share:.4f}", "-")
    return table


def _by_size(sizes: Sequence[SizeRisk], number: int) -> TextTable:
    title = f"By size of the group, epsilon {sizes[0].epsilons[number].epsilon:g}"
    columns = ("noise alone", "pinned", "rightly", "mean estimate", "median relative error")
    first = ("people in group", "groups", "people", "exact")
    table = TextTable((*first, *columns, *_SHARES, "above limit"), title=title)
    for entry in sizes:
        e = entry.epsilons[number]
        cells = [f"{e.pinned:.1%}", f"{e.pinned_rightly:.1%}", f"{e.mean_estimate:.4f}"]
        cells += [f"{e.median_relative_error:.3g}", *_shares_cells(entry.release)]
        cells.append(f"{entry.release.above_limit:,}" if entry.release is not None else "-")
        span = f"{entry.least:,}" if entry.least == entry.most else f"{entry.least:,} to {entry.most:,}"
        numbers = (f"{entry.groups:,}", f"{entry.people:,}", f"{entry.exact:.1%}", f"{entry.noise_alone:.1%}")
        table.add(span, *numbers, *cells)
    return table


def _top(risk: DpRisk) -> TextTable:
    """A row for each epsilon, about the value that most people are pinned rightly to."""
    title = "Groups with most people pinned rightly (at the smallest epsilon), and the value that is pinned on most"
    columns = ("y", "limit", "epsilon", "theorem: mean", "variance", "median", "95 % interval", "pinned", "rightly")
    caption = f"Groups of fewer than {risk.least_shown:,} people are not named."
    table = TextTable(("x", "value", *columns, *_SHARES, "group"), ("value", "group"), title, caption)
    for group in risk.top:
        value, pairs = group.values[0], (group.group or {}).items()
        shown = ", ".join(f"{printable(k)}={'null' if v is None else printable(v)}" for k, v in pairs)
        first = (f"{group.size:,}", printable(value.value), f"{value.count:,}", f"{float(value.limit):.4f}")
        last = (*_shares_cells(group.release), shown or "-")
        for number, (ratio, chance) in enumerate(zip(value.ratios, value.pinned, strict=True)):
            cells = (*_ratio_cells(ratio), f"{chance:.1%}", f"{group.pinned_rightly[number]:,.1f}")
            table.add(*(("",) * len(first) if number else first), *cells, *(("",) * len(last) if number else last))
    return table


def _predicate(group: GroupRisk) -> TextTable:
    title = f"Who meets the condition: x = {group.size:,} people; Y/X, and the chance that it is above the limit"
    columns = ("y", "y/x", "limit", "epsilon", "theorem: mean", "variance", "median", "95 % interval", "pinned")
    table = TextTable(("value", *columns, *_SHARES), left=("value",), title=title)
    if (shares := group.release) is not None:
        table.caption = (
            f"All {group.size:,} people together: {_SHARES[0]} {shares.mean_share:.4f}, "
            f"{_SHARES[1]} {shares.largest_share:.4f}, people above their limit {shares.above_limit:,}."
        )
    if group.more_values:
        table.caption = f"{table.caption} {group.more_values:,} more values are left out.".lstrip()
    for value in group.values:
        for ratio, chance in zip(value.ratios, value.pinned, strict=True):
            table.add(
                printable(value.value),
                f"{value.count:,}",
                f"{value.count / group.size:.4f}",
                f"{float(value.limit):.4f}",
                *_ratio_cells(ratio),
                f"{chance:.1%}",
                f"{value.released_mean:.4f}" if value.released_mean is not None else "-",
                f"{float(value.released):.4f}" if value.released is not None else "-",
            )
    return table


def _theorem(risk: DpRisk) -> TextTable:
    title = "Theorem 2 and the simulation, where half of a group carry the value (y/x = 0.5)"
    columns = ("x", "factor", "epsilon", "theorem: mean", "variance", "median", "95 % interval")
    table = TextTable(columns, title=title)
    for point in risk.theorem:
        table.add(f"{point.size:,}", f"{point.factor:.8g}", *_ratio_cells(point.ratio))
    return table


def _ratio_cells(ratio: Ratio) -> tuple[str, ...]:
    low, high = ratio.interval
    numbers = (f"{ratio.mean:.4g}", f"{ratio.variance:.3g}", f"{ratio.median:.4g}", f"{low:.3g} to {high:.3g}")
    return (f"{ratio.epsilon:g}", *numbers)
