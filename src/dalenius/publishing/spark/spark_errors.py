"""What goes wrong on a cluster, as errors of ours: Spark's own words may quote a path, a row or a plan."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from dalenius import errors
from dalenius.errors import ChangedInputError, DaleniusError, EngineError, InputError, OutputError

_CARRIED = re.compile(r"dalenius-failure:([A-Za-z0-9+/=]+):")
_NAMED = re.compile(r"(?:^\s*|(?:Exception|Error): )\[([A-Z][A-Z0-9_.]{2,80})\]")
_CONDITION = re.compile(r"[A-Z][A-Z0-9_.]{2,80}")
_KNOWN = {
    "PATH_NOT_FOUND": InputError("there is no table at the path given", "Check the path, as the cluster sees it."),
    "TABLE_OR_VIEW_NOT_FOUND": InputError(
        "there is no table of that name in the catalog",
        "Check the name; a path has a slash in it, or a suffix such as .parquet.",
    ),
    "REQUIRES_SINGLE_PART_NAMESPACE": InputError(
        "there is no such catalog", "Check the table's name, and spark.sql.catalog in the cluster's settings."
    ),
    "UNABLE_TO_INFER_SCHEMA": InputError("there is no table at the path given", "Give a folder of Parquet files."),
    "SCHEMA_NOT_FOUND": InputError("there is no such schema in the catalog", "Check the table's name."),
    "PATH_ALREADY_EXISTS": OutputError("the output is there already", "Give another --out."),
}
_UNLIKE = (
    "CANNOT_READ_FILE_FOOTER",
    "CANNOT_MERGE_SCHEMAS",
    "FAILED_MERGE_SCHEMA",
    "PARQUET_",
    "_LEGACY_ERROR_TEMP_11",
)
_LOST = (
    "Spark's own log says more, and may quote your data: --conf spark.log.level=ERROR shows it, and in a session of "
    "your own its log level."
)


class CarriedError(Exception):
    """An error of ours on its way from an executor."""

    def __init__(self, error: DaleniusError) -> None:
        told = json.dumps([type(error).__name__, error.message, error.hint])
        super().__init__(f"dalenius-failure:{base64.b64encode(told.encode()).decode()}:")


def carrying(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
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
        raise explained(error) from None


def not_started(error: BaseException) -> DaleniusError:
    """A session that could not be begun."""
    text = str(error)
    if "JAVA_GATEWAY_EXITED" in text or isinstance(error, FileNotFoundError):
        home = os.environ.get("JAVA_HOME")
        if shutil.which("java" if home is None else f"{home}/bin/java") is None:
            return EngineError("Java did not start", "Install a Java runtime, 17 or newer, or set JAVA_HOME to one.")
        return EngineError("Spark did not start", "Check --master and --conf, and that Java is of version 17 or newer.")
    return EngineError(
        f"no session of Spark could be begun ({_condition(error) or type(error).__name__})",
        "Check --master or --spark-remote, --conf, and that the cluster can be reached from here.",
    )


def explained(error: BaseException) -> DaleniusError:
    """An error of Spark's (or of its client) as one of ours."""
    text = str(error)
    carried = _CARRIED.search(text)
    if carried is not None:
        name, message, hint = json.loads(base64.b64decode(carried[1]))
        kind = getattr(errors, str(name), None)
        ours: Any = kind if isinstance(kind, type) and issubclass(kind, DaleniusError) else InputError
        found: DaleniusError = ours(message, hint)
        return found
    condition = _condition(error)
    for known, told in _KNOWN.items():
        if condition is not None and condition.startswith(known):
            return type(told)(told.message, told.hint)
    if "MALFORMED_CSV_RECORD" in text or "MALFORMED_RECORD_IN_PARSING" in text:
        return InputError("a line of the text file has a cell too many or too few", "Mend the file, or its quotes.")
    if "No FileSystem for scheme" in text or "UnsupportedFileSystem" in text:
        return InputError("the cluster knows no file system of the table's scheme", "Check the URL, and the cluster.")
    if condition is not None and condition.startswith(_UNLIKE):
        return InputError(
            f"a file of the table cannot be read as the others are ({condition})",
            "Are all files of one kind, with the same columns and types?",
        )
    if "FILE_NOT_EXIST" in (condition or "") or "java.io.FileNotFoundException" in text:
        return ChangedInputError("a file of the table is gone", "Run again when nothing writes to the table.")
    if "FAILED_READ_FILE" in text:
        return InputError(
            "a file of the table cannot be read", "Are all files of one kind, with the same columns and types?"
        )
    if "No space left on device" in text:
        return OutputError("a disk of the cluster is full", "Make room there, or give another --out.")
    if "ModuleNotFoundError" in text:
        missing = re.search(r"No module named '([A-Za-z0-9_]{1,40})", text)
        return EngineError(
            f"the executors lack a library{f': {missing[1]}' if missing else ''}",
            "They need numpy, pyarrow and cryptography, and the Python version of the driver.",
        )
    what = condition or type(error).__name__
    return EngineError(f"Spark could not do its part ({what})", _LOST)


def _condition(error: BaseException) -> str | None:
    """The name that Spark gives to the condition, if it has one."""
    asked = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    found = asked() if asked is not None else None
    if isinstance(found, str) and _CONDITION.fullmatch(found):
        return found
    match = _NAMED.search(str(error))
    return match[1] if match else None
