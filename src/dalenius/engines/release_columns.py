"""What there is to pick from in the columns of a release: their values if they are few, else the range they span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dalenius.engines.connections import quoted
from dalenius.engines.counting import ReleaseTables
from dalenius.engines.query_errors import release_errors
from dalenius.engines.sql_writer import literal
from dalenius.model.columns import Kind

MOST_LISTED = 500
_ROOM_FOR_ERROR = 2  # of approximate numbers of different values
_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
_FLOATING = {"FLOAT", "DOUBLE"}


@dataclass(frozen=True)
class PublishedColumn:
    """A column of QIT or ST. `values` are texts in the order of the type, nulls apart; None if there are too many.

    `literals` are the same values as a query writes them, and `sql` is the column's name as it does.
    """

    name: str
    type: str
    kind: Kind
    sql: str
    nulls: bool
    values: tuple[str, ...] | None
    literals: tuple[str, ...] | None
    smallest: str | None
    largest: str | None

    def literal(self, text: str) -> str:
        """A value of this column as a query writes it."""
        return _literal(text, self.type)


def published_columns(
    tables: ReleaseTables, names: Sequence[str], most: int = MOST_LISTED
) -> tuple[PublishedColumn, ...]:
    """The columns of these names, all of one table: a pass for all of them, and one for each that is listed."""
    identifiers = [tables.identifiers[name] for name in names]
    if not identifiers:
        return ()
    view = "st" if identifiers == ["s"] else "qit"
    asked = ", ".join(
        f"approx_count_distinct({c}), count({c}) < count(*), CAST(min({c}) AS VARCHAR), CAST(max({c}) AS VARCHAR)"
        for c in identifiers
    )
    with release_errors():
        (row,) = tables.connection.execute(f"SELECT {asked} FROM {view}").fetchall()  # noqa: S608
        found = []
        for place, (name, identifier) in enumerate(zip(names, identifiers, strict=True)):
            about, nulls, smallest, largest = row[4 * place : 4 * place + 4]
            values = _listed(tables, view, identifier, most) if about <= _ROOM_FOR_ERROR * most else None
            kind = tables.types[identifier]
            literals = None if values is None else tuple(_literal(text, kind) for text in values)
            ends = (None, None) if values is not None else (smallest, largest)
            found.append(
                PublishedColumn(name, kind, kind_of_type(kind), quoted(name), bool(nulls), values, literals, *ends)
            )
    return tuple(found)


def kind_of_type(kind: str) -> Kind:
    """What a type of DuckDB's holds."""
    if kind in _WHOLE or kind in _FLOATING or kind.startswith("DECIMAL"):
        return "number"
    if kind == "DATE" or kind.startswith("TIMESTAMP"):
        return "date"
    if kind == "BOOLEAN":
        return "boolean"
    return "text" if kind == "VARCHAR" or kind.startswith("ENUM") else "other"


def _listed(tables: ReleaseTables, view: str, identifier: str, most: int) -> tuple[str, ...] | None:
    query = f"""SELECT CAST(v AS VARCHAR) FROM (SELECT DISTINCT {identifier} AS v FROM {view}) WHERE v IS NOT NULL
        ORDER BY v LIMIT {most + 1}"""  # noqa: S608
    values = [text for (text,) in tables.connection.execute(query).fetchall()]
    return tuple(values) if len(values) <= most else None


def _literal(text: str, kind: str) -> str:
    if kind in _WHOLE or kind.startswith("DECIMAL") or kind == "BOOLEAN":
        return text
    if kind in _FLOATING:
        return f"CAST({literal(text)} AS {kind})"
    if kind == "DATE":
        return f"DATE {literal(text)}"
    if kind.startswith("TIMESTAMP"):
        return f"CAST({literal(text)} AS {'TIMESTAMPTZ' if 'ZONE' in kind else kind})"
    return literal(text)
