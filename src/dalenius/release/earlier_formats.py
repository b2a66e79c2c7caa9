"""Manifests of earlier formats, as manifests of this one, and back where the format has one spelling."""

from __future__ import annotations

from typing import Any

from dalenius.errors import ReleaseError


def in_this_format(document: dict[str, Any], this: int) -> dict[str, Any]:
    """A manifest of an earlier format, with what that format did not have: strata (format 2), parts (format 3), which
    columns have nulls (format 4), which nobody goes by then, groups of values and bands of numbers (format 5).

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
    changed = {"format": this, "tables": tables, "strata": strata, "columns": columns}
    return {**document, **changed, **_without_groups(document)}


def in_its_own_format(document: dict[str, Any], version: int) -> dict[str, Any]:
    """What `in_this_format` made of a manifest of format 4, as it was; one of this format is left as it is."""
    if version != 4:
        return document
    values = [{key: entry[key] for key in entry if key != "group"} for entry in document["values"]]
    kept = {key: document[key] for key in document if key not in ("groups", "bands")}
    return kept | {"format": version, "values": values}


def _without_groups(document: dict[str, Any]) -> dict[str, Any]:
    values = document.get("values")
    entries = [entry for entry in values if isinstance(entry, dict)] if isinstance(values, list) else []
    if "groups" in document or "bands" in document or any("group" in entry for entry in entries):
        raise ReleaseError("the manifest's groups: there are none before format 5")
    if isinstance(values, list):
        values = [{**entry, "group": None} if isinstance(entry, dict) else entry for entry in values]
    return {"groups": None, "bands": None, "values": values}


def _with_nulls(column: Any) -> Any:
    """A column, or several, of an earlier format; it may be anything."""
    if isinstance(column, list):
        return [_with_nulls(one) for one in column]
    if isinstance(column, dict):
        if "nulls" in column:
            raise ReleaseError("the manifest's columns: it is not said before format 4 which have nulls")
        return {**column, "nulls": True}
    return column
