"""What a query may be made of. Whatever is not on these lists is refused, so they are the whole attack surface.

Every function here is a pure function of its arguments: it reads no file, setting, variable, clock or random number.
"""

from __future__ import annotations

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
