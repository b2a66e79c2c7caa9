"""Releases as a summary for people and as an object for scripts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dalenius.cli.render_plan import FORMAT_VERSION, gap_shown, print_whole, printable, show_notes
from dalenius.policy.limits import format_fraction
from dalenius.publishing.published import Release
from dalenius.release.manifest import SEEDED, Cut, Manifest, Value
from dalenius.release.two_tables import TableFile

_ROWS = 12


def release_object(release: Release, out: Path | str, seconds: float) -> dict[str, Any]:
    """The summary as one JSON object. The keys are a contract (docs/json.md)."""
    made = release.manifest
    return {
        "format": FORMAT_VERSION,
        "out": str(out),
        "rows": made.rows,
        "buckets": made.buckets,
        "setting": [{"size": group.size, "buckets": group.buckets} for group in made.setting],
        "loss": made.loss,
        "mse": made.mse,
        "method": str(made.method),
        "status": str(made.status),
        "bound": made.bound,
        "gap": made.gap,
        "known_records": made.adversary.known_records,
        "fake_values": made.adversary.fake_values,
        "strata": _strata_object(made),
        "values": [
            {
                "value": value.value,
                "count": value.count,
                "limit": value.limit,
                "worst": {"count": value.worst.count, "size": value.worst.size},
            }
            for value in made.values
        ],
        "randomness": made.randomness,
        "verified": True,
        "seconds": round(seconds, 3),
        "notes": list(release.notes),
    }


def show_release(console: Console, release: Release, out: Path | str, seconds: float) -> None:
    """The closing summary of publishing."""
    made = release.manifest
    print_whole(console, _values_table(made))
    grid = Table.grid(padding=(0, 2))
    setting = ", ".join(f"{group.buckets:,} of size {group.size}" for group in made.setting[:_ROWS])
    more = f" and {len(made.setting) - _ROWS} more sizes" if len(made.setting) > _ROWS else ""
    grid.add_row("records", f"{made.rows:,}")
    cut = _strata_object(made)
    if cut is not None:
        merged = f", of {cut['leaves']:,} leaves" if cut["leaves"] > cut["number"] else ""
        grid.add_row("strata", Text(f"{cut['number']:,}{merged}, by {', '.join(cut['columns'])}"))
    grid.add_row("buckets", Text(f"{made.buckets:,}: {setting}{more}"))
    proof = (
        ""
        if made.gap is None
        else ", proven optimal"
        if made.gap == 0
        else f", within {gap_shown(made.gap)} of optimal"
    )
    grid.add_row("loss", f"{made.loss:,} (MSE {made.mse:.4g}; method {made.method}{proof})")
    grid.add_row("verified", f"every value of every bucket is within its limit{_whatever(made)}")
    tables = made.tables
    grid.add_row("written", Text(f"{out}: {_written(tables.qit)}, {_written(tables.st)}, manifest.json"))
    grid.add_row("seconds", f"{seconds:.2f}")
    console.print(grid)
    notes = release.notes
    if made.randomness == SEEDED:
        notes = (*notes, "this release is seeded: not for publication")
    show_notes(console, notes)


def _strata_object(made: Manifest) -> dict[str, Any] | None:
    """How many strata there are, from how many leaves, and which columns cut them."""
    if made.strata is None:
        return None
    cuts = [node.column for node in made.strata.tree if isinstance(node, Cut)]
    return {
        "number": len(made.strata.strata),
        "leaves": len(made.strata.tree) - len(cuts),
        "columns": list(dict.fromkeys(cuts)),
    }


def _whatever(made: Manifest) -> str:
    """What else the limits hold against."""
    known, fakes = made.adversary.known_records, made.adversary.fake_values
    against = f", whichever {known} records of it are known" if known > 1 else ", whichever record of it is known"
    return (against if known else "") + (f"; {fakes} of the values of each bucket {_are(fakes)} fake" if fakes else "")


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _values_table(made: Manifest) -> Table:
    """The values that come nearest to their limits, first."""
    table = Table(
        title=f"{len(made.values):,} sensitive value{'s' if len(made.values) > 1 else ''}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("value")
    for name in ("values" if made.adversary.fake_values else "records", "worst inference", "limit"):
        table.add_column(name, justify="right")
    known = made.adversary.known_records
    nearest = sorted(made.values, key=lambda value: _worst(value, known) / Fraction(value.limit), reverse=True)
    for value in nearest[:_ROWS]:
        worst = f"{value.worst.count} of {value.worst.size - known} = {float(_worst(value, known)):.4f}"
        table.add_row(Text(printable(value.value)), f"{value.count:,}", worst, format_fraction(Fraction(value.limit)))
    if len(nearest) > _ROWS:
        table.add_row(f"and {len(nearest) - _ROWS:,} further from their limits", "", "", "")
    return table


def _worst(value: Value, known: int) -> Fraction:
    return Fraction(value.worst.count, value.worst.size - known)


def _written(table: TableFile) -> str:
    parts = len(table.parts or ())
    within = f" in {parts:,} part{'s' if parts > 1 else ''}" if parts else ""
    return f"{table.file} {_bytes(table.bytes)}{within}"


def _bytes(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size //= 1000
    return f"{size:,} GB"
