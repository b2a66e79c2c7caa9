"""From the text of a query to SQL that can only be a condition on the columns it may name.

1. The text is scanned. Comments, semicolons, unpaired brackets and deep nesting are refused here.
2. DuckDB's own parser turns it into a tree.
3. `sql` walks the tree, and writes new SQL from the nodes, functions and types that are allowed.

The text itself is never executed. The new SQL consists of quoted literals, operators and functions from the lists in
`sql`, and identifiers that this program chose. Anything else in the tree, known or not, is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from dalenius.errors import QueryError
from dalenius.query.sql import DEEPEST, HINT, QUOTES_HINT, Names, Node, Writer, too_deep

LONGEST = 100_000  # characters
MOST_PARTS = 500  # each has its type checked separately

_BEFORE = "SELECT ("
_TOKEN = re.compile(
    r"""(?P<quoted>[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<comment>--|/\*) | (?P<end>;) | (?P<open>[(\[{]) | (?P<close>[)\]}]) | (?P<loose>['"])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Condition:
    """Checked SQL, and the columns that it names."""

    sql: str
    columns: frozenset[str]


def conjuncts(connection: duckdb.DuckDBPyConnection, text: str, names: Names) -> tuple[Condition, ...]:
    """Conditions that are all true exactly where the expression is true, in the three-valued logic of SQL.

    AND is true iff all its parts are; NOT (a OR b) is true iff NOT a and NOT b are. So splitting loses nothing.
    """
    parts = list(_split(_parse(connection, text)))
    if len(parts) > MOST_PARTS:
        raise QueryError(f"the query has {len(parts):,} parts joined by AND; at most {MOST_PARTS:,} are allowed")
    return tuple(_condition(part, names) for part in parts)


def _parse(connection: duckdb.DuckDBPyConnection, text: str) -> Node:
    _scan(text)
    wrapped = f"{_BEFORE}{text}\n)"
    node, bare = (_statement(connection, sql) for sql in (wrapped, f"{_BEFORE}TRUE)"))
    parts = node.pop("select_list", None)
    bare.pop("select_list")
    same = _without_places(node) == _without_places(bare)
    if not same or not isinstance(parts, list) or len(parts) != 1:
        raise QueryError("the query is more than one expression", HINT)
    tree: Node = parts[0]
    return tree


def _scan(text: str) -> None:
    """Refuse what the tree would not show, and what would keep the parser busy for too long."""
    if not text.strip():
        raise QueryError("the query is empty", HINT)
    if len(text) > LONGEST:
        raise QueryError(f"the query has {len(text):,} characters; at most {LONGEST:,} are allowed")
    if "\0" in text:
        raise QueryError("the query has a null character")
    depth = 0
    for token in _TOKEN.finditer(text):
        if token["comment"]:
            raise QueryError("comments are not allowed in a query", HINT)
        if token["end"]:
            raise QueryError("a semicolon is not allowed in a query", HINT)
        if token["loose"]:
            raise QueryError("the query has a quote that is not closed", "Double the quotes inside quotes: ''.")
        depth += bool(token["open"]) - bool(token["close"])
        if depth < 0:
            raise QueryError("the query has a closing bracket without an opening one")
        if depth > DEEPEST:
            raise too_deep()
    if depth > 0:
        raise QueryError("the query has an opening bracket without a closing one")


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """The tree of a text that must be a single SELECT."""
    try:
        ((serialized,),) = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [sql]).fetchall()
        answer = json.loads(serialized)
    except (duckdb.Error, UnicodeError):
        raise QueryError("the query cannot be parsed", HINT) from None
    except RecursionError:
        raise too_deep() from None
    if answer.get("error"):
        message = str(answer.get("error_message", ""))
        if "depth" in message:
            raise too_deep()
        raise QueryError(f"the query is not valid SQL{_place(answer)}: {message[:200]}", QUOTES_HINT)
    statements = answer.get("statements") or []
    if len(statements) != 1 or not isinstance(statements[0].get("node"), dict):
        raise QueryError("the query is more than one expression", HINT)
    node: Node = statements[0]["node"]
    return node


def _place(answer: Node) -> str:
    place = int(answer.get("position") or 0) - len(_BEFORE) + 1
    return f" at character {place}" if place > 0 else ""


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(inner) for key, inner in value.items() if not key.startswith("query_location")}
    return [_without_places(inner) for inner in value] if isinstance(value, list) else value


def _split(node: Node, negated: bool = False, depth: int = 0) -> Iterator[Node]:
    """The parts of a conjunction, of any depth."""
    if depth > DEEPEST:
        raise too_deep()
    kind, children = node.get("type"), node.get("children") or []
    if kind == ("CONJUNCTION_OR" if negated else "CONJUNCTION_AND"):
        for child in children:
            yield from _split(child, negated, depth + 1)
    elif kind == "OPERATOR_NOT" and len(children) == 1:
        yield from _split(children[0], not negated, depth + 1)
    elif negated:
        yield {"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [node]}
    else:
        yield node


def _condition(node: Node, names: Names) -> Condition:
    writer = Writer(names)
    sql = writer.write(node)
    return Condition(sql, frozenset(writer.columns))
