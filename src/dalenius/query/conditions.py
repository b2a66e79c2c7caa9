"""From the text of a query to SQL that can only be a condition on the columns it may name.

1. The text is scanned. Comments, semicolons, unpaired brackets and deep nesting are refused here.
2. DuckDB's own parser turns it into a tree.
3. `sql` walks the tree, and writes new SQL from the nodes, functions and types that are allowed.
4. The text that the condition can make, and the size of its regular expressions, are estimated from above. What could
   be too much is refused before anything is executed.

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
    _length(node)
    return Condition(sql, frozenset(writer.columns))


MOST_TIMES = 64  # that text may become as long as the texts of a row
MOST_CHARACTERS = LONGEST  # beside that
LARGEST_PATTERN = 1_000  # characters of a regular expression, with its repetitions written out

# How functions of text grow it. All others make numbers, dates, truth values or a few characters.
_FIRST = """
    lower lcase upper ucase substr substring left right trim ltrim rtrim reverse split_part regexp_extract translate
"""
_NO_LONGER = frozenset(_FIRST.split())
_AS_LONG_AS_ONE = frozenset(["nullif", "if", "greatest", "least"])
_AS_LONG_AS_ALL = frozenset(["concat", "||"])
_TIMES = {"strip_accents": 4, "strftime": 16}  # at most, for a letter of several parts, and for %c
_PATTERNS = frozenset(["regexp_matches", "regexp_full_match", "regexp_extract"])
_SHORT = 100  # characters of a number, a date or an interval, at most

_ATOM = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|$) | \\[pPx]\{[^}]*\} | \\. | \[\^?\]?(?:\[:\^?\w+:\] | \\. | [^\]\\])*\]
    | (?P<open>\((?:\?(?:P?<\w+>|[a-zA-Z-]*:?))?) | (?P<close>\))
    | \{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\} | (?P<mark>[*+?|^$]) | .""",
    re.VERBOSE | re.DOTALL,
)

Length = tuple[int, int]  # at most so many times the texts of a row, and so many characters more


def _length(node: Node) -> Length:
    """How long the text can be that a node makes, in characters; an error where that is too long.

    The node has been written by `Writer`, so nothing in it is unknown.
    """
    lengths = [_length(child) for child in _children(node)]
    times, more = _made(node, lengths)
    if times > MOST_TIMES:
        raise QueryError(
            f"the query may make text more than {MOST_TIMES} times as long as in the table",
            "Use fewer functions that make text longer (||, concat, replace, strftime), one inside the other.",
        )
    if more > MOST_CHARACTERS:
        raise QueryError(
            f"the query may make text of more than {MOST_CHARACTERS:,} characters",
            "Use shorter texts, or fewer functions that make text longer (||, concat, replace, strftime).",
        )
    return times, more


def _children(node: Node) -> list[Node]:
    if node["class"] == "FUNCTION":
        return [argument["expression"] for argument in node["arguments"]]
    if node["class"] == "CASE":
        checks = [check[part] for check in node["case_checks"] for part in ("when_expr", "then_expr")]
        return [*checks, node["else_expr"]]
    names = ("left", "right", "input", "lower", "upper", "child")
    return [node[name] for name in names if name in node] + list(node.get("children") or [])


def _made(node: Node, lengths: list[Length]) -> Length:
    kind = node["class"]
    if kind == "CONSTANT":
        return 0, len(str(node["literal"]["text"]))
    if kind == "COLUMN_REF":
        return 1, _SHORT
    if kind in ("CASE", "CAST") or node["type"] == "OPERATOR_COALESCE":
        return _longest([*lengths, (0, _SHORT)])
    if kind == "FUNCTION":
        return _made_by(str(node["function_name"]).lower(), _children(node), lengths)
    return 0, _SHORT


def _made_by(name: str, arguments: list[Node], lengths: list[Length]) -> Length:
    if name in _PATTERNS:
        _require_small_pattern(name, arguments)
    if name in _NO_LONGER:
        return lengths[0] if lengths else (0, 0)
    if name in _AS_LONG_AS_ONE:
        return _longest(lengths)
    if name in _AS_LONG_AS_ALL:
        return sum(times for times, _ in lengths), sum(more for _, more in lengths)
    if name in _TIMES:  # the format of strftime may be either argument
        return _times(_TIMES[name], _longest(lengths))
    if name == "replace":
        return _times(_growth(arguments), _longest(lengths[:1]))
    return 0, _SHORT


def _longest(lengths: list[Length]) -> Length:
    return max((times for times, _ in lengths), default=0), max((more for _, more in lengths), default=0)


def _times(factor: int, length: Length) -> Length:
    return factor * length[0], factor * length[1]


def _growth(arguments: list[Node]) -> int:
    """By how much a replacement can make text longer."""
    texts = [_text(argument) for argument in arguments[1:]]
    if len(texts) != 2 or texts[0] is None or texts[1] is None:
        raise QueryError("the second and third argument of replace must be text in quotes")
    before, after = (len(text or "") for text in texts)
    return max(1, -(-after // max(1, before)))


def _text(node: Node) -> str | None:
    literal = node.get("literal") or {}
    return str(literal["text"]) if literal.get("kind") == "STRING" else None


def _require_small_pattern(name: str, arguments: list[Node]) -> None:
    pattern = _text(arguments[1]) if len(arguments) > 1 else ""
    if pattern is None:
        raise QueryError(f"the pattern of {name} must be text in quotes", "LIKE and contains take any text.")
    if (size := pattern_size(pattern)) > LARGEST_PATTERN:
        raise QueryError(
            f"the regular expression is as long as {size:,} characters with its repetitions written out; "
            f"at most {LARGEST_PATTERN:,} are allowed",
            "Write * or + instead of a large {m,n}, or IN (...) instead of many alternatives.",
        )


def pattern_size(pattern: str) -> int:
    """The characters, classes and anchors of a regular expression, with its {m,n} written out n times."""
    groups, last = [0], 0  # what open groups have so far without their last part, and the last part
    for atom in _ATOM.finditer(pattern):
        if atom["least"] is not None:
            last *= max(1, int(atom["least"]), int(atom["most"] or 0))
        elif atom["open"] is not None:
            groups[-1] += last
            groups.append(0)
            last = 0
        elif atom["close"] is not None and len(groups) > 1:
            last += groups.pop()
        elif atom["mark"] in ("*", "+", "?"):
            continue
        else:
            groups[-1] += last
            last = 1 if atom["quoted"] is None else len(atom["quoted"])
    return sum(groups) + last
