"""DuckDB's errors in our words, while it reads a table or evaluates a query: its own messages may quote the data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from dalenius.errors import InputError, MemoryLimitError, QueryError, ReleaseError
from dalenius.tables.delimited import (
    Explanation,
    at_line,
    bad_quote,
    not_csv,
    not_utf8,
    not_utf8_column,
    ragged,
    too_long,
)

_COMPARED = re.compile(r"compare values of type (\w+)[^ ]* and (?:values of )?(?:type )?(\w+)", re.IGNORECASE)
_CAST_HINT = (
    "Text is written '30', a number 30, a date DATE '2024-12-31'. CAST(... AS type) turns one into the other; "
    "TRY_CAST gives NULL where that cannot be done."
)
_NUMBERS = ("INT", "BIGINT", "SMALLINT", "TINYINT", "HUGEINT", "U", "DECIMAL", "DOUBLE", "FLOAT", "NUMERIC")


@contextmanager
def plain_errors() -> Iterator[None]:
    """DuckDB's errors without what they quote from the data; an interrupted query is an interrupt."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise InputError(*explain(str(error), type(error).__name__)) from None
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


def explain(message: str, error: str) -> Explanation:
    """What DuckDB complains about, in our words. Its advice and its list of options come after, and are cut off."""
    message = message.split("Possible fixes:")[0].split("\n  file = ")[0]
    place = re.search(r"CSV Error on Line: (\d+)", message)
    line = int(place[1]) if place else None
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if "nvalid unicode" in message or "not UTF-8" in message or "utf-8 encoded" in message:
        return not_utf8(line)
    if "Invalid string encoding" in message:
        return not_utf8_column(None)
    if columns:
        return ragged(line, int(columns[2]), int(columns[1]))
    if "quote found" in message:
        return bad_quote(line)
    if "aximum line size" in message:
        return too_long(line)
    if "disabled by configuration" in message:
        return (
            "the table reads another file, and a DuckDB file may only read itself",
            "Copy it in DuckDB (CREATE TABLE copied AS FROM ...), and give the copy.",
        )
    if "state machine" in message:
        return not_csv(line)
    return f"the table cannot be read{at_line(line)} ({error})", "Is the file complete, and of the kind its name says?"


@contextmanager
def naming_column(find: Callable[[], str | None]) -> Iterator[None]:
    """Say which column has bytes that are not UTF-8: DuckDB does not."""
    try:
        yield
    except InputError as error:
        if error.message != not_utf8_column(None)[0]:
            raise
        raise InputError(*not_utf8_column(find())) from None


@contextmanager
def query_errors() -> Iterator[None]:
    """Errors of a query as QueryError, those of files as ReleaseError; an interrupted query is an interrupt."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.IOException, duckdb.PermissionException, duckdb.SerializationException):
        raise _damaged() from None
    except duckdb.Error as error:
        raise QueryError(*_explain_query(error)) from None
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


@contextmanager
def release_errors() -> Iterator[None]:
    """Errors while a release is opened: no query is involved."""
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.OutOfMemoryException:
        raise out_of_memory() from None
    except (duckdb.Error, UnicodeDecodeError):
        raise _damaged() from None
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


def out_of_memory() -> MemoryLimitError:
    """The engine has no more, though it spills what it can."""
    return MemoryLimitError("reading the tables takes more memory than the program may have", "Give it more: --memory.")


def _damaged() -> ReleaseError:
    return ReleaseError("the tables of the release are damaged, or not what the manifest says they are")


def _explain_query(error: duckdb.Error) -> Explanation:
    compared = _COMPARED.search(str(error))
    if compared:
        one, other = map(_type_in_words, compared.groups())
        return f"the query compares {one} with {other}", _CAST_HINT
    if isinstance(error, duckdb.ConversionException):
        return "the query turns a value into a type that it does not fit", _CAST_HINT
    if isinstance(error, duckdb.BinderException | duckdb.CatalogException | duckdb.ParserException):
        return "the query gives an operator or a function values of a type that it does not take", _CAST_HINT
    if isinstance(error, duckdb.OutOfRangeException):
        return "the query computes a number that is out of range", "Cast to a wider type, such as DOUBLE."
    if isinstance(error, duckdb.OutOfMemoryException):
        return (
            "the query needs more memory than it may have",
            "Ask for fewer groups, or for less text in one value, or give a larger --memory.",
        )
    return f"the query cannot be evaluated ({type(error).__name__})", "Is every argument one that its function takes?"


def _type_in_words(name: str) -> str:
    name = name.upper()
    if name.startswith(("VARCHAR", "STRING")):
        return "text"
    if name.startswith(_NUMBERS):
        return "a number"
    return f"a {name.split('_')[0].lower()}"
