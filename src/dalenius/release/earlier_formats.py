"""Manifests of earlier formats, as manifests of this one, and back where the format has one spelling."""

from __future__ import annotations

from typing import Any

from dalenius.errors import ReleaseError

_SINCE_5: dict[str, Any] = {"groups": None, "bands": None, "missing": []}


def in_this_format(document: dict[str, Any], this: int) -> dict[str, Any]:
    """A manifest of an earlier format, with what that format did not have: strata (format 2), parts (format 3), which
    columns have nulls (format 4), which nobody goes by then, and groups of values, bands of numbers, codes for what is
    missing and values that do not apply (format 5).

    The validation finds keys that are missing or of a wrong type.
    """
    version, tables, strata = document["format"], document.get("tables"), document.get("strata")
    if version == 1:
        if strata != []:  # where columns would have been named: no table was cut
            raise ReleaseError("the manifest's strata: there are none in format 1")
        strata = None
    if version < 3 and isinstance(tables, dict):
        entries = [entry for entry in tables.values() if isinstance(entry, dict)]
        if any("parts" in entry for entry in entries):
            raise ReleaseError(f"the manifest's tables: there are no parts in format {version}")
        tables = {name: {**entry, "parts": None} if entry in entries else entry for name, entry in tables.items()}
    columns = document.get("columns")
    if version < 4 and isinstance(columns, dict):
        columns = {role: _with_nulls(column) for role, column in columns.items()}
    changed = {"format": this, "tables": tables, "columns": columns}
    return {**document, **changed, **_since_5(document, strata)}


def in_its_own_format(document: dict[str, Any], version: int) -> dict[str, Any]:
    """What `in_this_format` made of a manifest of format 4, as it was; one of this format is left as it is."""
    if version != 4:
        return document
    own = {key: document[key] for key in document if key not in _SINCE_5} | {"format": version}
    own["values"] = [_without(entry, "group", "applies") for entry in document["values"]]
    if document["strata"] is not None:
        strata = [_without(stratum, "applies") for stratum in document["strata"]["strata"]]
        own["strata"] = {**document["strata"], "strata": strata}
    return own


def _without(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: entry[key] for key in entry if key not in keys}


def _since_5(document: dict[str, Any], strata: Any) -> dict[str, Any]:
    """Neither groups nor codes for what is missing, and every value applies."""
    new = next((key for key in _SINCE_5 if key in document), None)
    if new is not None:
        raise ReleaseError(f"the manifest's {new}: there are none before format 5")
    values = _add(document.get("values"), {"group": None, "applies": True})
    if isinstance(strata, dict):
        strata = {**strata, "strata": _add(strata.get("strata"), {"applies": True})}
    return {**_SINCE_5, "values": values, "strata": strata}


def _add(entries: Any, keys: dict[str, Any]) -> Any:
    """A list of objects with some keys more, which they must not have; it may be anything."""
    if not isinstance(entries, list):
        return entries
    if any(key in entry for entry in entries if isinstance(entry, dict) for key in keys):
        raise ReleaseError(f"the manifest: there is no {' or '.join(keys)} before format 5")
    return [{**entry, **keys} if isinstance(entry, dict) else entry for entry in entries]


def _with_nulls(column: Any) -> Any:
    """A column, or several, of an earlier format; it may be anything."""
    if isinstance(column, list):
        return [_with_nulls(one) for one in column]
    if isinstance(column, dict):
        if "nulls" in column:
            raise ReleaseError("the manifest's columns: it is not said before format 4 which have nulls")
        return {**column, "nulls": True}
    return column
