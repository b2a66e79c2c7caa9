"""Only a condition over the published columns gets through, and nothing else can be reached."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dalenius.errors import DaleniusError
from dalenius.query.conditions import LARGEST_PATTERN, LONGEST, MOST_PARTS, _length, _parse, conjuncts, pattern_size
from dalenius.query.count import Counter
from dalenius.query.sql import FUNCTIONS, INFIX, Names
from tests.effort import examples
from tests.query.releases import BOMB, write_release

NAMES = Names({"A": "q0", "B": "q1", "X": "s"}, "bucket")

HOSTILE = [
    "1=1) UNION SELECT (1",
    "1=1 UNION SELECT 1",
    "1=1; DROP TABLE qit",
    "1=1;",
    "1=1 -- more",
    "1=1 /* more */",
    "1=1 FROM read_text('{canary}')",
    "1=1 WHERE TRUE",
    "1=1 LIMIT 1",
    "1=1 ORDER BY 1",
    "1=1 AS truth",
    "1=1, 2=2",
    "SELECT 1",
    "FROM st",
    "TABLE st",
    "VALUES (1)",
    "PRAGMA version",
    "COPY st TO '{canary}'",
    "ATTACH '{canary}'",
    "DISTINCT A = 'a'",
    "ALL A = 'a'",
    "(SELECT count(*) FROM read_text('{canary}')) > 0",
    "(SELECT content FROM '{canary}') = 'x'",
    "EXISTS (SELECT 1 FROM st)",
    "A IN (SELECT content FROM read_text('{canary}'))",
    "A = ANY (SELECT s FROM st)",
    "A IN (FROM st)",
    "read_text('{canary}') IS NULL",
    "read_csv('{canary}') IS NULL",
    "glob('{canary}') IS NULL",
    "A GLOB (SELECT 'a')",
    "getenv('HOME') = 'x'",
    "current_setting('temp_directory') = 'x'",
    "set_config('threads', '1', false) = 'x'",
    "getvariable('x') = 1",
    "random() > 0.5",
    "setseed(0.5) IS NULL",
    "uuid() = 'x'",
    "gen_random_uuid() IS NULL",
    "now() > DATE '2020-01-01'",
    "current_date > DATE '2020-01-01'",
    "current_timestamp IS NULL",
    "today() IS NULL",
    "current_user = 'x'",
    "version() = 'x'",
    "txid_current() = 1",
    "nextval('x') = 1",
    "pg_sleep(100) IS NULL",
    "sleep(100) IS NULL",
    "query('SELECT 1') IS NULL",
    "query_table('st') IS NULL",
    "json_execute_serialized_sql('x') IS NULL",
    "json_serialize_sql('SELECT 1') IS NULL",
    "write_log('x') IS NULL",
    "error('x') IS NULL",
    "count(*) > 1",
    "sum(length(A)) > 1",
    "max(A) = 'a'",
    "count(*) OVER () > 1",
    "row_number() OVER () = 1",
    "lower(A) OVER () = 'a'",
    "lower(DISTINCT A) = 'a'",
    "lower(A ORDER BY A) = 'a'",
    "lower(A) FILTER (WHERE TRUE) = 'a'",
    "main.lower(A) = 'a'",
    "pg_catalog.lower(A) = 'a'",
    "A OPERATOR(pg_catalog.||) A = 'aa'",
    "repeat('a', 1000000000) = A",
    "lpad(A, 1000000000, 'x') = A",
    "range(1000000000) IS NULL",
    "unnest([1]) = 1",
    "generate_series(1, 10) IS NULL",
    "[1, 2] IS NULL",
    "{'a': 1} IS NULL",
    "MAP {'a': 1} IS NULL",
    "(A, B) = ('a', 'b')",
    "row(A) IS NULL",
    "A[1] = 'a'",
    "A[1:2] = 'a'",
    "list_transform([1], x -> x) IS NULL",
    "list_transform([1], lambda x: x) IS NULL",
    "A -> 'x' IS NULL",
    "A ->> 'x' IS NULL",
    "A COLLATE nocase = 'a'",
    "A::JSON IS NULL",
    "A::VARCHAR[] IS NULL",
    "A::STRUCT(x INTEGER) IS NULL",
    "A::ENUM('a') IS NULL",
    "A::BLOB IS NULL",
    "A::main.VARCHAR IS NULL",
    'A::"my type" IS NULL',
    "$1 = A",
    "$name = A",
    "? = A",
    "* IS NULL",
    "COLUMNS('A') = 'a'",
    "COLUMNS(*) = 'a'",
    "qit.A = 'a'",
    "st.s = 'x'",
    "q0 = 'a'",
    "s = 'x'",
    "b = 1",
    "bucket = 1",
    "rowid = 1",
    "DEFAULT IS NULL",
    "#1 = 'a'",
    "lower(text := A) = 'a'",
    "struct_pack(a := 1) IS NULL",
    "try(A = 'a')",
    "A = 'a' USING SAMPLE 1",
    "A = 'a' QUALIFY TRUE",
    "grouping(A) = 1",
    "A = 'unclosed",
    '"unclosed = 1',
    "(A = 'a'",
    "A = 'a')",
    "A = 'a\0'",
    "'\ud800' = A",
    "(" * 5000,
    "(" * 5000 + "A = 'a'" + ")" * 5000,
    "NOT " * 5000 + "TRUE",
    "A = 'a' AND (" * 500 + "TRUE" + ")" * 500,
    "1 = 1" + " + 1" * 500,
    "A" + " IS NULL" * 500,
    "CASE WHEN " * 150 + "TRUE" + " THEN TRUE END" * 150,
    "A = '" + "a" * LONGEST + "'",
    " AND ".join(["A = 'a'"] * (MOST_PARTS + 1)),
    "replace(" * 7 + "A" + ", 'a', 'aa')" * 7 + " = 'x'",
    "replace(A, 'a', B) = 'x'",
    "regexp_replace(A, 'a', 'aa') = 'x'",
    BOMB,
    "strftime(translate(strftime(translate(A, 'ab', '%A'), DATE '2024-05-01'), 'Wy', '%A'), DATE '2024-05-01') = 'x'",
    "strftime(DATE '2024-05-01', strftime(DATE '2024-05-01', A)) = 'x'",
    "strftime(DATE '2024-05-01', '" + "%c" * 5000 + "') = A",
    "strip_accents(" * 4 + "A" + ")" * 4 + " = 'x'",
    "length(" + " || ".join(["A"] * 65) + ") > 1",
    "length(concat(" + ", ".join(["A"] * 65) + ")) > 1",
    "length(concat("
    + ", ".join(["upper(lower(A))", "coalesce(B, A)", "CASE WHEN A = B THEN B ELSE A END"] * 22)
    + ")) > 1",
    f"regexp_matches(A, '{'a{0,500}' * 20}')",
    f"A ~ '{'a{0,500}' * 3}'",
    "A SIMILAR TO '((a{0,30}){0,30}){2}'",
    "regexp_extract(A, '(a|bc){400}') = 'x'",
    "regexp_full_match(A, '" + "a?" * 1001 + "')",
    "regexp_matches(A, B)",
    "regexp_matches(A, 'a{0,5' || '00}')",
    r"regexp_matches(A, '\\Q[\\E(a[)]b{0,40}){0,40}')",
    "   ",
]


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elsewhere") / "canary.txt"
    path.write_text("the canary sings")
    return path


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    table = pa.table({"A": ["a", "b"], "B": ["c", "d"], "X": ["x", "y"]})
    with Counter(write_release(tmp_path_factory.mktemp("release"), table, "X", [1, 1])) as opened:
        yield opened


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:40]))
def test_what_is_no_condition_is_refused(counter: Counter, canary: Path, text: str) -> None:
    with pytest.raises(DaleniusError) as caught:
        counter.count(text.replace("{canary}", str(canary)))
    assert caught.value.exit_code == 2
    assert "sings" not in str(caught.value)
    assert canary.read_text() == "the canary sings"
    assert counter.count("A = 'a'").bounds == (1, 1)


def test_the_connection_reaches_no_other_file(counter: Counter, canary: Path) -> None:
    connection = counter._tables.connection
    for sql in (
        f"SELECT * FROM read_text('{canary}')",  # noqa: S608
        f"COPY (SELECT 1) TO '{canary}'",
        f"ATTACH '{canary.parent}/new.duckdb'",
        f"SELECT * FROM read_csv('{canary.parent}/*')",  # noqa: S608
        "SET enable_external_access = true",
        "SET allowed_paths = ['/']",
        "SET lock_configuration = false",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(sql)
    assert sorted(path.name for path in canary.parent.iterdir()) == [canary.name]


def test_allowed_functions_are_pure() -> None:
    rows = duckdb.execute(
        "SELECT function_name, function_type, stability, internal FROM duckdb_functions() WHERE schema_name = 'main'"
    ).fetchall()
    for name in FUNCTIONS | INFIX:
        kinds = {row[1:] for row in rows if row[0] == name}
        assert kinds, name
        assert kinds <= {("scalar", "CONSISTENT", True), ("macro", None, True)}, name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = 'a' AND X = 'x'", [{"A"}, {"X"}]),
        ("A = 'a' AND (B = 'b' AND (X = 'x' AND A = B))", [{"A"}, {"B"}, {"X"}, {"A", "B"}]),
        ("NOT (A = 'a' OR X = 'x')", [{"A"}, {"X"}]),
        ("NOT (NOT (A = 'a' AND X = 'x'))", [{"A"}, {"X"}]),
        ("A = 'a' OR X = 'x'", [{"A", "X"}]),
        ("NOT (A = 'a' AND X = 'x')", [{"A", "X"}]),
        ("1 = 1", [set()]),
    ],
)
def test_splitting(text: str, expected: list[set[str]]) -> None:
    found = conjuncts(duckdb.connect(), text, NAMES)
    assert [set(part.columns) for part in found] == expected


def test_what_is_executed_is_written_anew() -> None:
    (part,) = conjuncts(duckdb.connect(), "a   in('it''s',$$b$$)", NAMES)
    assert part.sql == "(q0 IN ('it''s', 'b'))"


def test_a_tree_of_an_unknown_shape_is_refused() -> None:
    class Changed:
        """A parser of the future, which adds something to a node."""

        def execute(self, sql: str, parameters: list[str]) -> duckdb.DuckDBPyConnection:
            serialized = duckdb.connect().execute(sql, parameters).fetchall()[0][0]
            changed = serialized.replace('"column_names"', '"surprise":{"x":1},"column_names"')
            return duckdb.connect().execute("SELECT ?", [changed])

    with pytest.raises(DaleniusError, match="surprise"):
        conjuncts(Changed(), "A = 'a'", NAMES)  # type: ignore[arg-type]


def test_the_parser_needs_no_extension_from_elsewhere(tmp_path: Path) -> None:
    code = (
        "import duckdb; from dalenius.query.conditions import Names, conjuncts\n"
        "c = duckdb.connect(config={'autoinstall_known_extensions': 'false', 'autoload_known_extensions': 'false'})\n"
        "c.execute('SET enable_external_access = false')\n"
        "print(conjuncts(c, 'A = 1', Names({'A': 'q0'}, 'b'))[0].sql)"
    )
    environment = {"HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "(q0 = (1))"


_TEXT = """
    lower lcase upper ucase substr substring left right trim ltrim rtrim reverse split_part regexp_extract translate
    nullif if greatest least concat || strip_accents strftime replace
"""
TEXT_MAKERS = frozenset(_TEXT.split())
SHORT = frozenset(["chr", "dayname", "monthname", "+", "date_add"])  # of these, no text is longer than a date


def test_every_function_that_makes_text_is_known_to_the_estimate() -> None:
    """So that a function which is added to the list cannot be forgotten."""
    rows = duckdb.execute(
        "SELECT DISTINCT function_name, return_type FROM duckdb_functions() WHERE schema_name = 'main'"
    ).fetchall()
    fixed = re.compile(
        r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*|DATE|TIME.*|INTERVAL|BIGNUM|STRUCT.*|BIT"
    )
    makers = {name for name, kind in rows if name in FUNCTIONS | INFIX and not fixed.fullmatch(str(kind))}
    assert makers <= TEXT_MAKERS | SHORT


TEXTS = st.sampled_from(["A", "B", "'x'", "'%A %c'", "'ab'", "CAST(N AS VARCHAR)"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Text that is made of other text, in every way that may make it longer."""
    return st.one_of(
        st.builds("({} || {})".format, inner, inner),
        st.builds("concat({}, {}, {})".format, inner, inner, inner),
        st.builds(
            "replace({}, '{}', '{}')".format, inner, st.sampled_from(["a", "ab", "%", ""]), st.text("a%bc", max_size=5)
        ),
        st.builds("strftime(DATE '2024-05-01', {})".format, inner),
        st.builds("strftime({}, TIMESTAMP '290000-09-25 10:11:12.123456')".format, inner),
        st.builds("translate({}, 'abcdefgWd', '{}')".format, inner, st.text("%AcBxé", max_size=9)),
        st.builds("{}({})".format, st.sampled_from(["upper", "lower", "reverse", "trim", "strip_accents"]), inner),
        st.builds("coalesce({}, {})".format, inner, inner),
        st.builds("CASE WHEN length({}) > 3 THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("greatest({}, nullif({}, 'x'))".format, inner, inner),
    )


@settings(max_examples=examples(200))
@given(st.recursive(TEXTS, grown, max_leaves=12))
def test_no_text_is_longer_than_estimated(text: str) -> None:
    connection = duckdb.connect(config={"threads": 1})
    try:
        times, more = _length(_parse(connection, text))
    except DaleniusError:
        return
    row = ("각" * 40, "%c%c%c%A", 2.0**-1074)
    longest = max(len(cell) for cell in row[:2])
    query = f"SELECT {text} FROM (SELECT CAST(? AS VARCHAR), CAST(? AS VARCHAR), CAST(? AS DOUBLE)) AS t(A, B, N)"  # noqa: S608
    try:
        ((made,),) = connection.execute(query, list(row)).fetchall()
    except duckdb.Error:  # a format that is none
        return
    assert made is None or len(made) <= times * longest + more


def expanded(parsed: Any) -> int:
    """The size of a regular expression by Python's own parser."""
    total = 0
    for operator, argument in parsed:
        name = str(operator)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = argument
            counted = most if most < 10**6 else least
            total += max(1, counted) * expanded(inner)
        elif name == "SUBPATTERN":
            total += expanded(argument[3])
        elif name == "BRANCH":
            total += sum(expanded(branch) for branch in argument[1])
        else:
            total += 1
    return total


ATOMS = st.sampled_from(
    ["a", "b", ".", r"\d", r"\.", r"\(", "[ab]", "[^)]", "[](]", "[(){2}]", r"[\]{3}]", "{", "x{,3}"]
)


def repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["", "*", "+", "?", "{0,3}", "{2}", "{4,}", "{1,5}"])
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}){}".format, inner, counts),
        st.builds("(?:{}){}".format, inner, counts),
        st.builds("(?P<n>{}){}".format, ATOMS, counts),
        st.builds("({}|{}){}".format, inner, inner, counts),
        st.builds("{}{}".format, st.sampled_from(["a", "[b-d)]", r"\w"]), counts),
    )


@settings(max_examples=examples(400))
@given(st.recursive(ATOMS, repeated, max_leaves=10))
def test_the_size_of_a_pattern_is_that_of_another_parser(pattern: str) -> None:
    try:
        parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]
    except re.error:  # two groups of one name
        return
    assert expanded(parsed) <= pattern_size(pattern)
    if "|" not in pattern:  # of alternatives, Python's parser takes out what they have in common
        assert pattern_size(pattern) <= 2 * expanded(parsed) + len(pattern)


@pytest.mark.parametrize(
    "text",
    [
        r"A ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'",
        r"regexp_matches(A, '(\d{1,3}\.){3}\d{1,3}')",
        f"A SIMILAR TO '.{{0,{LARGEST_PATTERN}}}'",
        "strftime(TRY_CAST(A AS DATE), '%Y-%m') = '2024-05'",
        "strftime(TRY_CAST(A AS DATE), '%d.%m.%Y') || ' ' || upper(A) || replace(B, 'a', 'bc') = 'x'",
        "translate(strip_accents(lower(A)), ' -', '') LIKE 'a%' AND concat(A, ', ', B) = 'a, c'",
        "A IN (" + ", ".join(f"'value {number}'" for number in range(5000)) + ")",
    ],
    ids=lambda text: text[:30],
)
def test_what_people_ask_is_not_too_much(counter: Counter, text: str) -> None:
    low, high = counter.count(text).bounds
    assert 0 <= low <= high
