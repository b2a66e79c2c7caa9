"""What goes wrong on a cluster, as errors of ours: Spark's own messages may quote a path, a row or a plan."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from dalenius import errors
from dalenius.errors import ChangedInputError, DaleniusError, EngineError, InputError, OutputError

_CARRIED = re.compile(r"dalenius-failure:([A-Za-z0-9+/=]+):")
_NAMED = re.compile(r"(?:^\s*|(?:Exception|Error): )\[([A-Z][A-Z0-9_.]{2,80})\]")
_CONDITION = re.compile(r"[A-Z][A-Z0-9_.]{2,80}")
_MODULE = re.compile(r"No module named '([A-Za-z0-9_]{1,40})")
_LOG = (
    "Spark's own log says more, and may quote your data: --conf spark.log.level=ERROR shows it, and in a session of "
    "your own its log level."
)
_ONE_KIND = "Are all files of one kind, with the same columns and types?"


@dataclass(frozen=True)
class _Rule:
    """An error of ours, for a condition that begins like this, or for words that occur in Spark's own."""

    error: DaleniusError
    condition: str | None = None  # a regular expression
    words: tuple[str, ...] = ()

    def applies(self, condition: str | None, text: str) -> bool:
        begins = self.condition is not None and condition is not None and re.match(self.condition, condition)
        return bool(begins) or any(word in text for word in self.words)


_RULES = (  # the first that applies
    _Rule(
        InputError("there is no table at the path given", "Check the path, as the cluster sees it."),
        condition="PATH_NOT_FOUND",
    ),
    _Rule(
        InputError(
            "there is no table of that name in the catalog",
            "Check the name; a path has a slash in it, or a suffix such as .parquet.",
        ),
        condition="TABLE_OR_VIEW_NOT_FOUND",
    ),
    _Rule(
        InputError("there is no such catalog", "Check the table's name, and spark.sql.catalog in the settings."),
        condition="REQUIRES_SINGLE_PART_NAMESPACE",
    ),
    _Rule(
        InputError("there is no table at the path given", "Give a folder of Parquet files."),
        condition="UNABLE_TO_INFER_SCHEMA",
    ),
    _Rule(
        InputError("there is no such schema in the catalog", "Check the table's name."), condition="SCHEMA_NOT_FOUND"
    ),
    _Rule(OutputError("the output is there already", "Give another --out."), condition="PATH_ALREADY_EXISTS"),
    _Rule(
        InputError("a line of the text file has a cell too many or too few", "Mend the file, or its quotes."),
        words=("MALFORMED_CSV_RECORD", "MALFORMED_RECORD_IN_PARSING"),
    ),
    _Rule(
        InputError("the cluster knows no file system for the table's URL", "Check the URL, and the cluster."),
        words=("No FileSystem for scheme", "UnsupportedFileSystem"),
    ),
    _Rule(
        InputError(
            "the table has a column of a type that Spark does not read ({condition})",
            "Turn it into text first, or publish with --engine duckdb.",
        ),
        condition="PARQUET_TYPE_|UNSUPPORTED_TIME_TYPE|DECIMAL_PRECISION_EXCEEDS",
    ),
    _Rule(
        InputError("a file of the table cannot be read like the others ({condition})", _ONE_KIND),
        condition="CANNOT_READ_FILE_FOOTER|CANNOT_MERGE_SCHEMAS|FAILED_MERGE_SCHEMA|PARQUET_|_LEGACY_ERROR_TEMP_11",
    ),
    _Rule(
        ChangedInputError("a file of the table is gone", "Run again when nothing writes to the table."),
        condition=".*FILE_NOT_EXIST",
        words=("java.io.FileNotFoundException",),
    ),
    _Rule(InputError("a file of the table cannot be read", _ONE_KIND), words=("FAILED_READ_FILE",)),
    _Rule(
        OutputError("a disk of the cluster is full", "Make room there, or give another --out."),
        words=("No space left on device",),
    ),
    _Rule(
        EngineError(
            "the executors lack a library{module}",
            "They need numpy, pyarrow and cryptography, and the Python version of the driver.",
        ),
        words=("ModuleNotFoundError",),
    ),
    _Rule(EngineError("Spark could not do its part ({condition})", _LOG), words=("",)),
)


class CarriedError(Exception):
    """An error of ours on its way from an executor."""

    def __init__(self, error: DaleniusError) -> None:
        fields = json.dumps([type(error).__name__, error.message, error.hint])
        super().__init__(f"dalenius-failure:{base64.b64encode(fields.encode()).decode()}:")


def carry_errors(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A task whose errors of ours reach the driver as what they are."""

    @wraps(task)
    def run(*arguments: Any) -> Iterator[Any]:
        try:
            yield from task(*arguments)
        except DaleniusError as error:
            raise CarriedError(error) from None

    return run


@contextmanager
def plain_errors() -> Iterator[None]:
    """Spark's errors without what they quote."""
    try:
        yield
    except (DaleniusError, KeyboardInterrupt):
        raise
    except Exception as error:  # noqa: BLE001 (whatever it is, it is not shown)
        raise explain(error) from None


def start_error(error: BaseException) -> DaleniusError:
    """An error about a session that could not be started."""
    text = str(error)
    if "JAVA_GATEWAY_EXITED" in text or isinstance(error, FileNotFoundError):
        home = os.environ.get("JAVA_HOME")
        if shutil.which("java" if home is None else f"{home}/bin/java") is None:
            return EngineError("Java did not start", "Install a Java runtime, 17 or newer, or set JAVA_HOME to one.")
        return EngineError("Spark did not start", "Check --master and --conf, and that Java is of version 17 or newer.")
    return EngineError(
        f"no Spark session could be started ({_condition(error) or type(error).__name__})",
        "Check --master or --spark-remote, --conf, and that the cluster can be reached from here.",
    )


def explain(error: BaseException) -> DaleniusError:
    """An error of Spark's (or of its client) as one of ours."""
    text = str(error)
    carried = _CARRIED.search(text)
    if carried is not None:
        name, message, hint = json.loads(base64.b64decode(carried[1]))
        return _error_class(str(name))(message, hint)
    condition = _condition(error)
    rule = next(rule for rule in _RULES if rule.applies(condition, text))
    module = _MODULE.search(text)
    words = {"condition": condition or type(error).__name__, "module": f": {module[1]}" if module else ""}
    return type(rule.error)(rule.error.message.format(**words), rule.error.hint)


def _error_class(name: str) -> type[DaleniusError]:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, DaleniusError) else InputError


def _condition(error: BaseException) -> str | None:
    """The name that Spark gives to the condition, if it has one."""
    getter = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    condition = getter() if getter is not None else None
    if isinstance(condition, str) and _CONDITION.fullmatch(condition):
        return condition
    match = _NAMED.search(str(error))
    return match[1] if match else None
