"""Manifests of earlier formats, as manifests of this one, and back where the format has one spelling."""

from __future__ import annotations

from typing import Any

from dalenius.errors import ReleaseError

_SINCE_5: dict[str, Any] = {"groups": None, "bands": None, "missing": []}
_SINCE_6: dict[str, Any] = {"persons": None, "group_table": None, "others": [], "together": []}
_SINCE_7: dict[str, Any] = {"chain": None}


def in_this_format(document: dict[str, Any], this: int) -> dict[str, Any]:
    """A manifest of an earlier format, with what that format did not have: strata (format 2), parts (format 3), which
    columns have nulls (format 4), which nobody goes by then, groups of values, bands of numbers, codes for what is
    missing and values that do not apply (format 5), people with several rows and further sensitive columns (format 6),
    and chains of releases (format 7).

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
    document = {**document, "format": this, "tables": tables, "columns": columns, "strata": strata}
    if version < 5:
        document |= _since_5(document, strata)
    if version < 6:
        document |= _since_6(document)
    return document | _since_7(document)


def in_its_own_format(document: dict[str, Any], version: int) -> dict[str, Any]:
    """What `in_this_format` made of a manifest of format 4 to 6, as it was; one of this format is left as it is."""
    if version not in (4, 5, 6):
        return document
    own = _without_in_strata(_without(document, *_SINCE_7), "since") | {"format": version}
    if version == 6:
        return own
    own = _without(own, *_SINCE_6, "people")
    own["columns"] = {**document["columns"], "sensitive": _without(document["columns"]["sensitive"], "of")}
    own = _without_in_strata(own, "rows_each")
    if version == 5:
        return own
    own = _without_in_strata(_without(own, *_SINCE_5), "applies")
    own["values"] = [_without(entry, "group", "applies") for entry in document["values"]]
    return own


def _without(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: entry[key] for key in entry if key not in keys}


def _without_in_strata(document: dict[str, Any], key: str) -> dict[str, Any]:
    strata = document["strata"]
    if strata is None:
        return document
    return {**document, "strata": {**strata, "strata": [_without(stratum, key) for stratum in strata["strata"]]}}


def _since_5(document: dict[str, Any], strata: Any) -> dict[str, Any]:
    """Neither groups nor codes for what is missing, and every value applies."""
    _refuse(document, _SINCE_5, 5)
    values = _add(document.get("values"), {"group": None, "applies": True}, 5)
    if isinstance(strata, dict):
        strata = {**strata, "strata": _add(strata.get("strata"), {"applies": True}, 5)}
    return {**_SINCE_5, "values": values, "strata": strata}


def _since_6(document: dict[str, Any]) -> dict[str, Any]:
    """Every row is a person's only one, and there is one sensitive column."""
    _refuse(document, (*_SINCE_6, "people"), 6)
    changed: dict[str, Any] = {**_SINCE_6, "people": document.get("rows")}
    strata, columns = document["strata"], document["columns"]
    if isinstance(strata, dict):
        places = strata.get("tree")
        cuts = [place for place in places if isinstance(place, dict)] if isinstance(places, list) else []
        if any("column" in cut and cut["column"] is None for cut in cuts):
            raise ReleaseError("the manifest's strata: no cut is by a number of rows before format 6")
        changed["strata"] = {**strata, "strata": _add(strata.get("strata"), {"rows_each": 1}, 6)}
    sensitive = columns.get("sensitive") if isinstance(columns, dict) else None
    if isinstance(sensitive, dict):
        _refuse(sensitive, ("of",), 6)
        changed["columns"] = {**columns, "sensitive": {**sensitive, "of": [sensitive.get("name")]}}
    return changed


def _since_7(document: dict[str, Any]) -> dict[str, Any]:
    """Nothing follows on anything."""
    _refuse(document, _SINCE_7, 7)
    strata = document["strata"]
    if isinstance(strata, dict):
        strata = {**strata, "strata": _add(strata.get("strata"), {"since": 1}, 7)}
    return {**_SINCE_7, "strata": strata}


def _refuse(document: dict[str, Any], keys: Any, version: int) -> None:
    new = next((key for key in keys if key in document), None)
    if new is not None:
        raise ReleaseError(f"the manifest's {new}: there is none before format {version}")


def _add(entries: Any, keys: dict[str, Any], version: int) -> Any:
    """A list of objects with some keys more, which they must not have; it may be anything."""
    if not isinstance(entries, list):
        return entries
    if any(key in entry for entry in entries if isinstance(entry, dict) for key in keys):
        raise ReleaseError(f"the manifest: there is no {' or '.join(keys)} before format {version}")
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
