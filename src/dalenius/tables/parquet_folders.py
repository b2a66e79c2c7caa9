"""A folder of Parquet files as one table, as Spark and others write tables.

Its files are all that have a Parquet suffix, in folders below as well, in the order of their names; what begins with an
underscore or a dot is of the writer's own. Folders called `name=value` below it are columns. DuckDB would take a column
that differs between files for what the first file says, and folders above for columns too: neither is let through.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dalenius.errors import InputError
from dalenius.tables.delimited import FileState, check_names, readable

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET_SUFFIXES = {".parquet", ".pq"}
_DEEPEST = 50
_MANIFEST, _LARGEST = "manifest.json", 256 * 2**20  # bytes


@dataclass(frozen=True)
class ParquetFolder:
    """The files of a table, its columns in the files, and those that folders name."""

    files: tuple[Path, ...]
    columns: tuple[str, ...]
    keys: tuple[str, ...]


class FolderState:
    """Which files a folder has, and what they look like from outside."""

    def __init__(self, folder: Path) -> None:
        self._states = {path: FileState(path) for path in table_files(folder)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FolderState) and self._states == other._states

    def __hash__(self) -> int:
        return hash(frozenset(self._states.items()))


def state_of(path: Path) -> FileState | FolderState:
    """What a table looks like from outside."""
    return FolderState(path) if path.is_dir() else FileState(path)


def parquet_folder(folder: Path) -> ParquetFolder:
    """The table in a folder: its files have the same columns, and lie in folders of the same names."""
    files = table_files(folder)
    keys = _keys(folder, files[0])
    if any(_keys(folder, path) != keys for path in files):
        raise InputError(
            "the folder's files lie in folders of different names",
            "Give a folder in which every file is as deep, below folders such as year=2024.",
        )
    columns = _columns(files)
    check_names([*columns, *keys])
    above = {_key(part).casefold() for part in folder.parts if "=" in part} if keys else set()
    if above & {name.casefold() for name in (*columns, *keys)}:
        raise InputError(
            "a folder above the table is called as one of its columns, as in year=2024",
            "Move the table, or give the file or the folder by a path without such a name.",
        )
    return ParquetFolder(files, columns, keys)


def table_files(folder: Path) -> tuple[Path, ...]:
    """The Parquet files below a folder, in the order of their names."""
    if _is_release(folder):
        raise InputError(
            "the folder given is a release, and a table is wanted",
            "Give the table that it was made of; or one of its two tables, such as its st.parquet, or its folder st.",
        )
    with readable():
        files = tuple(sorted(_below(folder, set())))
    if not files:
        raise InputError("the folder has no Parquet files", "Give a folder of .parquet files, or a single file.")
    return files


def _below(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    state = folder.stat()
    if (state.st_dev, state.st_ino) in seen:
        raise InputError("the folder has a link that leads to a folder above it", "Remove the link.")
    if len(seen) > _DEEPEST:
        raise InputError(f"the folder has folders that are more than {_DEEPEST} deep", "Give the folder of one table.")
    for entry in folder.iterdir():
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            yield from _below(entry, {*seen, (state.st_dev, state.st_ino)})
        elif entry.suffix.lower() in PARQUET_SUFFIXES:
            if not stat.S_ISREG(entry.stat().st_mode):
                raise InputError("the folder has something that is not a regular file", "Give files alone.")
            yield entry


def _keys(folder: Path, file: Path) -> tuple[str, ...]:
    """The columns that the folders between say."""
    named = [part for part in file.relative_to(folder).parts[:-1] if "=" in part]
    if any(part.count("=") > 1 or "\\" in part or "?" in part or not _key(part) for part in named):
        raise InputError("a folder of the table has a name that cannot be read as name=value", "Rename it.")
    return tuple(_key(part) for part in named)


def _key(part: str) -> str:
    return part.partition("=")[0]


def _columns(files: tuple[Path, ...]) -> tuple[str, ...]:
    """The columns of the files, which all have the same, with the same types and in the same order."""
    import pyarrow as pa
    import pyarrow.parquet  # a fifth of a second that only Parquet files need

    first: list[tuple[str, pa.DataType]] | None = None
    for path in files:
        try:
            schema = pyarrow.parquet.read_schema(path)
        except (pa.ArrowException, OSError):
            raise InputError("a file of the folder is not a complete Parquet file") from None
        columns = [(field.name, _plain(field.type)) for field in schema]
        if first is None:
            first = columns
        elif columns != first:
            raise InputError(
                "the folder's files have not all the same columns, with the same types, in the same order",
                "Write the table anew, or give a folder with files of one table.",
            )
    return tuple(name for name, _ in first or ())


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Categories are stored as what they stand for."""
    import pyarrow as pa

    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _is_release(folder: Path) -> bool:
    path = folder / _MANIFEST
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return False
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        return bool(document["program"]["name"] == "dalenius" and "tables" in document)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return False
