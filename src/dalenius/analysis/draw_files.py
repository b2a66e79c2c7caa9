"""Completed and weighted tables as files: Parquet, CSV, and those of Stata and SPSS.

Every draw is a file of its own. All of them are written beside their place, and take it together.
"""

from __future__ import annotations

import os
import re
import resource
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from dalenius.analysis.completing import NOT_DATA, Completion
from dalenius.analysis.outcomes import plain_values
from dalenius.analysis.rubin import require_pandas
from dalenius.analysis.weighing import Weighing
from dalenius.errors import InputError, MissingExtraError, UsageError
from dalenius.release.atomic import whole_file, writable
from dalenius.release.manifest import FILE as MANIFEST
from dalenius.release.manifest import tables_of_release
from dalenius.release.staging import staging

Format = Literal["parquet", "csv", "dta", "sav"]
README = "README.txt"
_DRAW = re.compile(rf"draw-\d+\.({'|'.join(get_args(Format))})")
_LONGEST_NAME = 32  # in Stata
_RESERVED = {
    "aggregate", "array", "boolean", "break", "byte", "case", "catch", "class", "colvector", "complex", "const",
    "continue", "default", "delegate", "delete", "do", "double", "else", "eltypedef", "end", "enum", "explicit",
    "export", "external", "float", "for", "friend", "function", "global", "goto", "if", "in", "inline", "int", "local",
    "long", "NULL", "pragma", "protected", "quad", "rowvector", "short", "typedef", "typename", "using", "virtual",
    "with", "_all", "_b", "_coef", "_cons", "_n", "_N", "_pi", "_pred", "_rc", "_skip", "_se",
}  # fmt: skip
_LINE = 80  # of a note in SPSS
_EXACT = 2**53  # whole numbers up to it are floating-point numbers, which is what these programs have
_SPARE_FILES = 64  # that libraries and the release itself open meanwhile
_MOST_ROWS = 20_000_000  # of a table that Stata's or SPSS's file is made of: in memory as a whole


class _Writer(Protocol):
    def write_table(self, table: pa.Table) -> None: ...
    def close(self) -> None: ...


def write_draws(completion: Completion, target: Path, kind: Format, *, force: bool = False) -> list[str]:
    """Write every draw into a folder, with a file that says what they are; gives the names of the files."""
    require_format(kind, completion.names, completion.rows)
    digits = max(2, len(str(completion.draws)))
    plain: Literal["parquet", "csv"] = "csv" if kind == "csv" else "parquet"
    stems = [f"draw-{number + 1:0{digits}d}" for number in range(completion.draws)]
    _require_outside(target)
    with _open_files(completion.draws), staging(target, force, is_draws) as stage:
        with ExitStack() as stack:
            writers: list[_Writer] = []
            for tables in completion.pieces():
                tables = [plain_values(table) for table in tables]
                with writable():
                    if not writers:
                        for stem, table in zip(stems, tables, strict=True):
                            writers.append(_open(stage.folder / f"{stem}.{plain}", table.schema))
                            stack.callback(_close, writers[-1])
                    for writer, table in zip(writers, tables, strict=True):
                        writer.write_table(table)
        with writable():
            if kind in ("dta", "sav"):
                for stem in stems:
                    _convert_or_refuse(stage.folder / f"{stem}.parquet", kind)
            names = [f"{stem}.{kind}" for stem in stems]
            (stage.folder / README).write_text(_readme(completion, names), encoding="utf-8")
            stage.commit(force)
    return [*names, README]


def require_format(kind: str, names: list[str], rows: int) -> None:
    """Refuse a format that there is not, or that cannot have these columns or so many rows."""
    if kind not in get_args(Format):
        raise UsageError(f"there is no format {kind!r}", f"There are {', '.join(get_args(Format))}.")
    if kind in ("dta", "sav"):
        require_pandas()
        _require_names(names, kind)
        if kind == "sav":
            _pyreadstat()
        if rows > _MOST_ROWS:
            raise UsageError(
                f"{rows:,} rows are too many for a .{kind} file, which is made in memory",
                "Write --format parquet or csv.",
            )


def write_weights(weighing: Weighing, target: Path, *, force: bool = False) -> int:
    """Write weighted rows into a .parquet or .csv file; gives how many there are."""
    if target.suffix not in (".parquet", ".csv"):
        raise UsageError(
            "weights are written as Parquet or CSV, by what the name of the file ends in",
            "Give --out FILE.parquet or FILE.csv.",
        )
    rows = 0
    with _new_file(target, force) as file:
        writer: _Writer | None = None
        for table in weighing.pieces():
            table = plain_values(table)
            with writable():
                if writer is None:
                    writer = _open(file, table.schema, weighing.warning, csv=target.suffix == ".csv")
                writer.write_table(table)
            rows += table.num_rows
        if writer is not None:
            _close(writer)
    return rows


def write_results(content: bytes, target: Path, *, force: bool = False) -> None:
    """Write a table of results, which is no draw, into a file."""
    with _new_file(target, force) as file, writable():
        file.write(content)


def _new_file(target: Path, force: bool) -> AbstractContextManager[IO[bytes]]:
    """A file that takes its place at the end; with `force` that of another file."""

    return whole_file(target, lambda path: require_free(path, force), "the output", "--out")


def require_free(path: Path, force: bool) -> None:
    """Refuse to write where a file is, unless it may be replaced, and into a release."""
    if path.exists() and not (force and path.is_file()):
        raise UsageError("the output file is there already", "Give another --out, or --force to replace it.")
    _require_outside(path)


def _require_outside(path: Path) -> None:
    """Refuse a place in a release, or in a folder within one: whatever else is there, it is no release any more."""
    parent, *further = Path(os.path.abspath(path)).parents  # noqa: PTH100 (resolve() would follow links)
    if (parent / MANIFEST).exists() or any(tables_of_release(folder) is not None for folder in further):
        raise UsageError("the output is in the folder of a release, which it would damage", "Give another --out.")


@contextmanager
def _open_files(number: int) -> Iterator[None]:
    """So many files more may be open at once; a UsageError if the system does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = number + _open_now() + _SPARE_FILES
    if soft == resource.RLIM_INFINITY or needed <= soft:
        yield
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UsageError(
            f"{number:,} draws are as many open files, and the system allows {hard:,} at once",
            "Ask for fewer draws, or have the limit of open files raised (ulimit -n).",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _open_now() -> int:
    """How many files the program has open."""
    with suppress(OSError):
        return len(list(Path("/proc/self/fd").iterdir()))
    return 0


def is_draws(folder: Path) -> bool:
    """Whether a folder holds completed tables and nothing else."""
    readme = folder / README
    return (
        all((path == readme or _DRAW.fullmatch(path.name)) and path.is_file() for path in folder.iterdir())
        and readme.exists()
        and readme.read_bytes().startswith(NOT_DATA.encode())
    )


def _open(path: Any, schema: pa.Schema, warning: str = NOT_DATA, csv: bool | None = None) -> _Writer:
    csv = str(path).endswith(".csv") if csv is None else csv
    writer: _Writer = (
        pyarrow.csv.CSVWriter(path, schema)
        if csv
        else pyarrow.parquet.ParquetWriter(path, schema.with_metadata({"dalenius": warning}), compression="zstd")
    )
    return writer


def _close(writer: _Writer) -> None:
    """Close a file, which writes what it still holds back."""
    with writable():
        writer.close()


def _convert_or_refuse(path: Path, kind: str) -> None:
    """The same as `_convert`; an InputError, which quotes nothing, if the format cannot hold what is in the table."""
    wrong: tuple[type[Exception], ...] = (ValueError, TypeError, NotImplementedError)
    if kind == "sav":
        wrong += (_pyreadstat().ReadstatError, _pyreadstat().PyreadstatError)
    try:
        _convert(path, kind)
    except wrong as error:
        raise InputError(
            f"there are names or values that a .{kind} file cannot have ({type(error).__name__})",
            "Write --format parquet or csv instead.",
        ) from None


def _convert(path: Path, kind: str) -> None:
    """The file of another program out of one of Parquet, which is removed."""
    table = pyarrow.parquet.read_table(path)
    _require_exact(table, kind)
    frame = table.to_pandas()
    for name in frame.columns:
        if frame[name].dtype == bool:
            frame[name] = frame[name].astype("int8")
        elif frame[name].isna().all():  # of no type that these programs have
            frame[name] = float("nan")
        elif frame[name].dtype == object and not all(isinstance(cell, str) or cell is None for cell in frame[name]):
            frame[name] = _of_objects(frame[name])
    if kind == "dta":
        with path.with_suffix(".dta").open("xb") as file:
            frame.to_stata(file, write_index=False, version=118, data_label="Drawn by Dalenius: a guess, not the data")
    else:
        _pyreadstat().write_sav(
            frame,
            str(path.with_suffix(".sav")),
            file_label="Drawn by Dalenius: not the data",
            note=textwrap.wrap(NOT_DATA, _LINE),
        )
    path.unlink()


def _require_exact(table: pa.Table, kind: str) -> None:
    """Refuse numbers that would be rounded: codes, mostly, which would then be those of others."""
    for column in table.columns:
        if pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
            ends = pc.min_max(column).as_py()
            if any(end is not None and abs(end) > _EXACT for end in ends.values()):
                raise InputError(
                    f"there are whole numbers beyond 2^53, which a .{kind} file cannot have as they are",
                    "Write --format parquet or csv instead.",
                )


def _of_objects(column: Any) -> Any:
    """Dates as dates, decimals as numbers, and whatever else as text."""
    pd = require_pandas()
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        pass
    try:
        return pd.to_datetime(column)
    except (ValueError, TypeError):
        return column.map(str, na_action="ignore")


def _require_names(names: list[str], kind: str) -> None:
    wrong = [name for name in names if not name.isidentifier() or len(name) > _LONGEST_NAME or not name.isascii()]
    if kind == "dta":
        wrong += [name for name in names if name in _RESERVED or (name.startswith("str") and name[3:].isdecimal())]
    if wrong:
        raise InputError(
            f"the column {wrong[0]!r} cannot have this name in a .{kind} file",
            "It may have letters, digits and _, 32 at most, and be no word of Stata's own. Write --format parquet or "
            "csv instead.",
        )


def _pyreadstat() -> Any:
    try:
        import pyreadstat
    except ImportError:
        raise MissingExtraError.of("pyreadstat, which writes .sav files,", "analysis") from None
    return pyreadstat


def _readme(completion: Completion, names: list[str]) -> str:
    return f"""{NOT_DATA}

{completion.draws} files, {names[0]} to {names[-1]}, of {completion.rows:,} rows each.
Row k is the same person in all of them. {completion.mark} is the number of the draw.
Fit your model to each, and put the results together by Rubin's rules: dalenius.pool in Python,
mice or mitools in R, mi estimate in Stata, MULTIPLE IMPUTATION in SPSS.
""" + "".join(f"\n{note}\n" for note in completion.notes)


def tables_of(completion: Completion) -> list[pa.Table]:
    """All draws in memory."""
    parts: Iterator[list[pa.Table]] = completion.pieces()
    return [pa.concat_tables(one).unify_dictionaries() for one in zip(*parts, strict=True)]
