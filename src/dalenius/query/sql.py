"""Writes the tree of an expression as SQL, from what is allowed and nothing else.

The lists here say what a query may consist of. Everything else is refused, so they are the whole attack surface. Every
function on them is pure: it depends on its arguments alone, and reads no file, setting, variable, clock or random
number. How much text they can make is bounded in `conditions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dalenius.errors import NoSuchColumnError, QueryError, did_you_mean, nearest_name
from dalenius.tables.connections import literal

COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}

# Operators that the parser gives as functions: LIKE is ~~, ILIKE ~~*, GLOB ~~~, "starts with" ^@.
INFIX = frozenset(["+", "-", "*", "/", "//", "%", "**", "^", "||", "~~", "!~~", "~~*", "!~~*", "~~~", "^@"])
PREFIX = frozenset(["+", "-"])

_TEXT = """
    lower lcase upper ucase length len char_length character_length strlen substr substring left right trim ltrim rtrim
    contains starts_with ends_with prefix suffix concat replace reverse position strpos instr split_part
    regexp_matches regexp_full_match regexp_extract like_escape not_like_escape ilike_escape
    not_ilike_escape translate strip_accents ascii unicode ord chr
"""
_NUMBERS = """
    abs round floor ceil ceiling trunc sign sqrt exp ln log log2 log10 power pow mod greatest least isnan isinf isfinite
"""
_DATES = """
    year month day quarter week isoyear isodow dayofweek dayofmonth dayofyear weekday weekofyear yearweek hour minute
    second millisecond microsecond era decade century date_part datepart date_trunc datetrunc date_diff datediff
    date_add date_sub datesub last_day make_date dayname monthname epoch strftime strptime try_strptime
    to_years to_months to_weeks to_days to_hours to_minutes to_seconds
"""
_ANY = "nullif if"

FUNCTIONS = frozenset(f"{_TEXT} {_NUMBERS} {_DATES} {_ANY}".split())

_TYPES = """
    boolean bool logical tinyint int1 smallint int2 short integer int int4 signed bigint int8 long hugeint utinyint
    usmallint uinteger ubigint uhugeint float float4 real double float8 decimal numeric dec varchar text string char
    bpchar date time timestamp datetime timestamp_s timestamp_ms timestamp_us timestamp_ns timestamptz interval uuid
"""
TYPES = frozenset([*_TYPES.split(), "timestamp with time zone"])

WITH_DIGITS = frozenset(["decimal", "numeric", "dec"])  # types that take numbers in brackets

REFUSED = {
    "SUBQUERY": "a subquery",
    "WINDOW": "a window function",
    "LAMBDA": "a lambda or an arrow",
    "PARAMETER": "a parameter",
    "STAR": "a star",
    "DEFAULT": "DEFAULT",
    "COLLATE": "COLLATE",
    "POSITIONAL_REFERENCE": "a positional reference",
    "LAMBDA_REF": "a lambda",
    "TYPE": "a type",
}

HINT = (
    "A query is one SQL condition over the published columns: comparisons, AND, OR, NOT, IN (...), BETWEEN, LIKE, "
    "IS NULL, arithmetic, CASE, CAST, and functions of text, numbers and dates."
)


DEEPEST = 100  # levels of nesting
QUOTES_HINT = "Put text in single quotes ('HIV'), and names in double quotes or none."

_NUMBER = re.compile(r"-?(?=\.?[0-9])[0-9_]*(\.[0-9_]*)?([eE][+-]?[0-9]+)?")
_QUIET = frozenset(["class", "type", "query_location", "query_location_length"])

Node = dict[str, Any]


@dataclass(frozen=True)
class Names:
    """The columns that a query may name, with their identifiers in SQL, and the bucket column."""

    identifiers: Mapping[str, str]
    bucket: str

    def column(self, name: str) -> str:
        """The column with a name. As in SQL, case does not matter."""
        for known in self.identifiers:
            if known == name or known.casefold() == name.casefold():
                return known
        if name.casefold() == self.bucket.casefold():
            raise QueryError(
                f"{self.bucket!r} is the bucket column, which a query cannot use",
                "A bucket says how the release was made. It says nothing about people.",
            )
        close = nearest_name(name, self.identifiers)
        hint = did_you_mean(name, self.identifiers)
        raise NoSuchColumnError(f"the release has no column {name!r}", hint if close else f"{hint} {QUOTES_HINT}")


def too_deep() -> QueryError:
    """The error for a tree that is too deep to walk."""
    return QueryError(
        f"the query is nested more than {DEEPEST} levels deep", "IN (...) and OR can be as long as needed."
    )


class Writer:
    """Writes a tree as SQL, and collects its columns. Every compound gets brackets."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.columns: set[str] = set()
        self.depth = 0

    def write(self, node: Node) -> str:
        """The SQL of a node; QueryError if it contains anything that is not allowed."""
        self.depth += 1
        if self.depth > DEEPEST + 2:
            raise too_deep()
        kind = str(node.get("class"))
        write = getattr(self, f"_{kind.lower()}", None) if kind in _KEYS else None
        if write is None:
            raise QueryError(f"{REFUSED.get(kind, kind)} is not allowed in a query", HINT)
        extra = {key: value for key, value in node.items() if key not in _QUIET | _KEYS[kind]}
        if any(extra.values()):
            raise QueryError(f"{', '.join(sorted(extra))} of {kind} is not allowed in a query", HINT)
        sql: str = write(node)
        self.depth -= 1
        return sql

    def _all(self, nodes: Iterable[Node]) -> list[str]:
        return [self.write(node) for node in nodes]

    def _constant(self, node: Node) -> str:
        kind, text = node["literal"]["kind"], str(node["literal"]["text"])
        if kind == "STRING":
            return literal(text)
        if kind in ("INTEGER", "NUMERIC") and _NUMBER.fullmatch(text):
            return f"({text})"
        if kind == "BOOLEAN" and text in ("true", "false"):
            return text
        if kind == "NULL_LITERAL":
            return "NULL"
        raise QueryError(f"a constant of the kind {kind} is not allowed in a query", HINT)

    def _column_ref(self, node: Node) -> str:
        parts = node["column_names"]
        if len(parts) != 1:
            dotted = ".".join(map(str, parts))
            hint = f'A name with a dot is written in double quotes: "{dotted}".'
            raise QueryError(
                f"{dotted[:80]} is not the name of a column", hint if dotted in self.names.identifiers else HINT
            )
        column = self.names.column(str(parts[0]))
        self.columns.add(column)
        return self.names.identifiers[column]

    def _comparison(self, node: Node) -> str:
        operator = _allowed(COMPARISONS, node["type"], "the comparison")
        return f"({self.write(node['left'])} {operator} {self.write(node['right'])})"

    def _conjunction(self, node: Node) -> str:
        word = _allowed({"CONJUNCTION_AND": "AND", "CONJUNCTION_OR": "OR"}, node["type"], "the operator")
        return "(" + f" {word} ".join(self._all(node["children"])) + ")"

    def _between(self, node: Node) -> str:
        value, low, high = self._all([node["input"], node["lower"], node["upper"]])
        return f"({value} BETWEEN {low} AND {high})"

    def _operator(self, node: Node) -> str:
        kind = node["type"]
        first, *rest = self._all(node["children"])
        if kind in ("COMPARE_IN", "COMPARE_NOT_IN") and rest:
            return f"({first} {'IN' if kind == 'COMPARE_IN' else 'NOT IN'} ({', '.join(rest)}))"
        if kind == "OPERATOR_COALESCE":
            return f"COALESCE({', '.join([first, *rest])})"
        texts = {
            "OPERATOR_NOT": f"(NOT {first})",
            "OPERATOR_IS_NULL": f"({first} IS NULL)",
            "OPERATOR_IS_NOT_NULL": f"({first} IS NOT NULL)",
        }
        return _allowed(texts, kind if not rest else f"{kind} of several values", "the operator")

    def _case(self, node: Node) -> str:
        checks = [
            f"WHEN {self.write(check['when_expr'])} THEN {self.write(check['then_expr'])}"
            for check in node["case_checks"]
        ]
        return f"(CASE {' '.join(checks)} ELSE {self.write(node['else_expr'])} END)"

    def _cast(self, node: Node) -> str:
        kind, word = node["type_expr"], "TRY_CAST" if node["try_cast"] else "CAST"
        name = str(kind.get("type_name", "")).lower()
        digits = [child.get("literal", {}).get("text", "") for child in kind.get("children") or []]
        plain = kind.get("qualified_name") == {"path": [kind.get("type_name")]} and not kind.get("schema")
        if name not in TYPES or not plain or not all(re.fullmatch(r"[0-9]{1,3}", digit) for digit in digits):
            raise QueryError(
                f"CAST to the type {name[:40]!r} is not allowed in a query", "Cast to a single value's type."
            )
        brackets = f"({', '.join(digits)})" if digits and name in WITH_DIGITS else ""
        return f"{word}({self.write(node['child'])} AS {name}{brackets})"

    def _function(self, node: Node) -> str:
        name = str(node["function_name"])
        _require_plain_call(node, name)
        arguments = self._all(argument["expression"] for argument in node["arguments"])
        if name in INFIX and len(arguments) == 2:
            return f"({arguments[0]} {name} {arguments[1]})"
        if name in PREFIX and len(arguments) == 1:
            return f"({name} {arguments[0]})"
        if name.lower() not in FUNCTIONS:
            raise QueryError(f"the operator {name!r} in this form is not allowed in a query", HINT)
        return f'"{name.lower()}"({", ".join(arguments)})'


_KEYS = {
    "CONSTANT": frozenset(["literal"]),
    "COLUMN_REF": frozenset(["column_names"]),
    "COMPARISON": frozenset(["left", "right"]),
    "CONJUNCTION": frozenset(["children"]),
    "BETWEEN": frozenset(["input", "lower", "upper"]),
    "OPERATOR": frozenset(["children"]),
    "CASE": frozenset(["case_checks", "else_expr"]),
    "CAST": frozenset(["child", "try_cast", "type_expr"]),
    "FUNCTION": frozenset(["function_name", "order_bys", "is_operator", "arguments", "qualified_name"]),
}


def _require_plain_call(node: Node, name: str) -> None:
    """Refuse a function that is not on the list, and everything in a call but a name and arguments."""
    order = node.get("order_bys") or {}
    if order.get("orders") or node.get("qualified_name") != {"path": [name]}:
        raise QueryError(f"the function {name[:40]!r} in this form is not allowed in a query", HINT)
    operators = INFIX | PREFIX if node["is_operator"] else frozenset[str]()
    if name.lower() not in FUNCTIONS | operators:
        raise QueryError(f"the function {name[:40]!r} is not allowed in a query", HINT)
    if any(argument.get("name") for argument in node["arguments"]):
        raise QueryError("named arguments are not allowed in a query", HINT)


def _allowed(known: Mapping[str, str], kind: str, what: str) -> str:
    if kind not in known:
        raise QueryError(f"{what} {kind} is not allowed in a query", HINT)
    return known[kind]
