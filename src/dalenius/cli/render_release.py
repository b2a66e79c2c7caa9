"""Releases as a summary for people and as an object for scripts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from dalenius.cli.render_plan import FORMAT_VERSION, count_sentence, gap_text
from dalenius.cli.text_table import (
    TextTable,
    percent,
    printable,
    show_concerns,
    show_exposure,
    show_groups,
    show_notes,
    show_pairs,
)
from dalenius.publishing.published import Release
from dalenius.release.manifest import SEEDED, Cut, Manifest, Value
from dalenius.release.release_views import all_tables
from dalenius.release.two_tables import TableFile

_ROWS = 12


def release_object(release: Release, out: Path | str, seconds: float) -> dict[str, Any]:
    """The summary as one JSON object. The keys are a contract (docs/json.md)."""
    manifest = release.manifest
    return {
        "format": FORMAT_VERSION,
        "out": str(out),
        "rows": manifest.rows,
        "people": manifest.people,
        "dropped_rows": manifest.persons.dropped if manifest.persons is not None else 0,
        "buckets": manifest.buckets,
        "exposure": release.exposure.as_object() if release.exposure is not None else None,
        "count_error": release.error.as_object() if release.error is not None else None,
        "setting": [{"size": group.size, "buckets": group.buckets} for group in manifest.setting],
        "loss": manifest.loss,
        "mse": manifest.mse,
        "method": str(manifest.method),
        "status": str(manifest.status),
        "bound": manifest.bound,
        "gap": manifest.gap,
        "known_records": manifest.adversary.known_records,
        "fake_values": manifest.adversary.fake_values,
        "strata": _strata_object(manifest),
        "values": _value_objects(manifest),
        "others": [
            {"column": view.columns.sensitive.name, "values": _value_objects(view)} for view in _views(manifest)[1:]
        ],
        "groups": [group.as_object() for group in release.group_shares],
        "randomness": manifest.randomness,
        "verified": True,
        "findings": [concern.as_object() for concern in release.concerns],
        "seconds": round(seconds, 3),
        "notes": list(release.notes),
        "chain": dict(release.followed) if release.followed is not None else None,
    }


def _value_objects(manifest: Manifest) -> list[dict[str, Any]]:
    return [
        {
            "value": value.value,
            "count": value.count,
            "limit": value.limit,
            "worst": {"count": value.worst.count, "size": value.worst.size},
        }
        for value in manifest.values
    ]


def _views(manifest: Manifest) -> list[Manifest]:
    """The release as it is for each of its sensitive columns."""
    return [manifest.view(number) for number in range(manifest.sets)]


def show_release(release: Release, out: Path | str, seconds: float) -> None:
    """Print the closing summary of publishing."""
    manifest = release.manifest
    if release.exposure is not None:
        show_exposure(release.exposure)
    for view in _views(manifest):
        _values_table(view, named=not manifest.is_plain).show()
    show_groups(release.group_shares)
    pairs = [
        ("people", _people_text(manifest)),
        ("records", f"{manifest.rows:,}"),
        ("chain", _chain_text(manifest)),
        ("counts", count_sentence(release.error) if release.error is not None else None),
        ("strata", _strata_text(manifest)),
        ("buckets", _buckets_text(manifest)),
        ("loss", f"{manifest.loss:,} (MSE {manifest.mse:.4g}; {_method(manifest)}{_proof(manifest)})"),
        ("verified", f"{_within_limits(manifest)}{_protection(manifest)}"),
        ("written", f"{out}: {', '.join(map(_size_text, all_tables(manifest)))}, manifest.json"),
        ("seconds", f"{seconds:.2f}"),
    ]
    show_pairs((name, text) for name, text in pairs if text is not None)
    show_concerns(release.concerns)
    show_notes(release.notes)
    if manifest.randomness == SEEDED:
        show_notes(["this release is seeded: not for publication"])


def _people_text(manifest: Manifest) -> str | None:
    """Where people may have several rows, how many there are, and what was left out."""
    if manifest.persons is None:
        return None
    dropped = manifest.persons.dropped
    kept = f"; {dropped:,} rows left out, at most {manifest.persons.most_rows:,} a person kept" if dropped else ""
    return f"{manifest.people:,}{kept}"


def _chain_text(manifest: Manifest) -> str | None:
    """Which release of a chain it is, how many places are nobody's, and who waits."""
    chain = manifest.chain
    if chain is None:
        return None
    places = manifest.rows + chain.surplus
    left = f"; {chain.surplus:,} of {places:,} places in buckets are nobody's" if chain.surplus else ""
    return f"release {chain.release:,}{left}" + (f"; {chain.held_back:,} people held back" if chain.held_back else "")


def _strata_text(manifest: Manifest) -> str | None:
    strata = _strata_object(manifest)
    if strata is None:
        return None
    merged = f", merged from {strata['leaves']:,} leaves" if strata["leaves"] > strata["number"] else ""
    columns = [printable(name) if name is not None else "number of rows" for name in strata["columns"]]
    return f"{strata['number']:,}{merged}" + (f", by {', '.join(columns)}" if columns else "")


def _buckets_text(manifest: Manifest) -> str:
    setting = ", ".join(f"{group.buckets:,} of size {group.size}" for group in manifest.setting[:_ROWS])
    more = f" and {len(manifest.setting) - _ROWS} more sizes" if len(manifest.setting) > _ROWS else ""
    return f"{manifest.buckets:,}: {setting}{more}"


def _method(manifest: Manifest) -> str:
    """Buckets of people with several values are searched for; the bound is that of the method."""
    return f"method {manifest.method}" if manifest.is_plain else "found by exchanging people"


def _proof(manifest: Manifest) -> str:
    if manifest.gap is None:
        return ""
    return ", proven optimal" if manifest.gap == 0 else f", within {gap_text(manifest.gap)} of optimal"


def _strata_object(manifest: Manifest) -> dict[str, Any] | None:
    """How many strata there are, from how many leaves, and which columns cut them."""
    strata = manifest.strata
    if strata is None or (manifest.apart is not None and len(strata.strata) == 2):  # people who are set apart
        return None
    cuts = [node.column for node in strata.tree if isinstance(node, Cut)]
    return {
        "number": sum(1 for stratum in strata.strata if stratum.applies),
        "leaves": len(strata.tree) - len(cuts),
        "columns": list(dict.fromkeys(cuts)),
    }


def _within_limits(manifest: Manifest) -> str:
    limited = any(group.limit is not None for group in manifest.groups or ())
    also = ", and every group of values that has a limit," if limited else ""
    return f"every value{also} of every bucket is within its limit"


def _protection(manifest: Manifest) -> str:
    """What the limits hold against beyond the release itself."""
    known, fakes = manifest.adversary.known_records, manifest.adversary.fake_values
    against = ""
    if known:
        against = f", whichever {f'{known} records' if known > 1 else 'record'} of it an attacker knows"
    return against + (f"; {fakes} of the values of each bucket {'is' if fakes == 1 else 'are'} fake" if fakes else "")


def _values_table(manifest: Manifest, *, named: bool = False) -> TextTable:
    """The values that come nearest to their limits, first. Where people have several, the table has its column's
    name."""
    records = "values" if manifest.adversary.fake_values or manifest.surplus else "people" if named else "records"
    title = f"{len(manifest.values):,} sensitive value{'s' if len(manifest.values) > 1 else ''}"
    title += f" of {printable(manifest.columns.sensitive.name)}" if named else ""
    table = TextTable(("value", records, "worst inference", "limit"), left=("value",), title=title)
    known = manifest.adversary.known_records
    own, apart = ([value for value in manifest.values if value.applies is applies] for applies in (True, False))
    nearest = sorted(own, key=lambda value: _worst(value, known) / Fraction(value.limit), reverse=True)
    for value in nearest[:_ROWS]:
        worst = f"{value.worst.count} of {value.worst.size - known} = {percent(_worst(value, known))}"
        table.add(printable(value.value), f"{value.count:,}", worst, percent(Fraction(value.limit)))
    if len(nearest) > _ROWS:
        table.add(f"and {len(nearest) - _ROWS:,} further from their limits", "", "", "")
    for value in apart[:_ROWS]:
        table.add(printable(value.value), f"{value.count:,}", "", "does not apply")
    return table


def _worst(value: Value, known: int) -> Fraction:
    return Fraction(value.worst.count, value.worst.size - known)


def _size_text(table: TableFile) -> str:
    parts = len(table.parts or ())
    within = f" in {parts:,} part{'s' if parts > 1 else ''}" if parts else ""
    return f"{table.file} {_bytes(table.bytes)}{within}"


def _bytes(size: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size //= 1000
    return f"{size:,} GB"
