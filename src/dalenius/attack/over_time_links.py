"""Several releases of the same people side by side: who is in which bucket of each, and what these buckets hold.

Somebody is linked whose combination of quasi-identifiers exactly one row has in each of two or more of the releases.

Within a chain, buckets of a release are buckets of those that follow on it: they are the same, and have one number
here. A release follows on another by its hash, or, where releases between the two are missing, if the values of all
buckets of the other are those of its own first buckets. Whoever is in another bucket there has moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dalenius.attack.over_time_scores import NOWHERE, Buckets, Cells, number_buckets
from dalenius.attack.reading import cells_of
from dalenius.attack.truth import BATCH_ROWS, integers_of, known_values, open_truth, others_of, value_text
from dalenius.errors import NoSuchColumnError, ReleaseError, UsageError, did_you_mean
from dalenius.infer.candidates import Integers
from dalenius.model.progress import Progress
from dalenius.release.folder import ReleaseFolder
from dalenius.release.release_views import require_plain
from dalenius.tables.arrays import arrow_array
from dalenius.tables.connections import connect, named_nulls, quote_name
from dalenius.tables.killable import scratch_folder
from dalenius.tables.table_errors import plain_errors
from dalenius.verify.row_order import integers

_BUCKET_BYTES = 100  # kept of every bucket
_CELL_BYTES = 200  # kept of every value of a bucket, while they are put in order
_ROW_BYTES = 40  # kept of everybody, in each release
_WHOLE, _NUMBER = "whole numbers", "numbers"  # kinds of columns that can advance


@dataclass(frozen=True)
class SideBySide:
    """Releases, the values of all of them by their texts, their buckets, and the people who are linked.

    `people` has for each person and release the bucket, or -1. `truth` is the value that each really has, -1 where
    nobody knows. `alone` are the buckets of all rows of the last release whose combination nobody else has there.
    `follows` is the place of the release on which each follows, -1 if it is none of these.
    """

    releases: tuple[ReleaseFolder, ...]
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    buckets: Buckets
    own: tuple[Integers, ...]
    follows: tuple[int, ...]
    people: Integers
    truth: Integers | None
    alone: Integers
    notes: tuple[str, ...] = ()

    def before(self, place: int) -> Iterator[int]:
        """The releases on which one follows, the nearest first."""
        while (place := self.follows[place]) != NOWHERE:
            yield place


@dataclass(frozen=True)
class Asked:
    """How people are linked, and with which truth: the columns (None: all that there are), and how much they grow."""

    link: Sequence[str] | None
    advance: Mapping[str, Fraction]
    truth: Any
    table: str | None


def read_side_by_side(releases: Sequence[ReleaseFolder], asked: Asked, progress: Progress) -> SideBySide:
    """Read the buckets, and link the rows."""
    check_alike(releases)
    columns, notes = _columns(releases, asked)
    texts = tuple(dict.fromkeys(entry.value for one in releases for entry in one.manifest.values))
    progress.stage("Reading", sum(one.manifest.tables.st.rows for one in releases))
    cells = [_cells(one, texts, progress) for one in releases]
    follows = tuple(_follows(releases, cells, place) for place in range(len(releases)))
    buckets, own = number_buckets(cells, follows, len(texts))
    progress.stage("Linking", sum(one.manifest.rows for one in releases))
    found, truth = _link(releases, columns, asked, texts, progress)
    for place, numbers in enumerate(own):
        found[:, place] = np.append(numbers, NOWHERE)[found[:, place]]
    linked = (found >= 0).sum(axis=1) > 1
    alone = found[found[:, -1] >= 0, -1]
    known = truth[linked] if truth is not None else None
    names = tuple(column.name for column in columns)
    return SideBySide(tuple(releases), names, texts, buckets, own, follows, found[linked], known, alone, notes)


def check_alike(releases: Sequence[ReleaseFolder]) -> None:
    """Refuse releases that are not about the same value of people, or that are the same."""
    first = releases[0].manifest
    digests = [one.manifest.digest for one in releases]
    if len(set(digests)) < len(digests):
        raise UsageError("the same release is given twice", "Give each release once, the oldest first.")
    for one in releases:
        require_plain(one.manifest, "the intersection of releases")
        sensitive = one.manifest.columns.sensitive
        if sensitive.name != first.columns.sensitive.name or sensitive.of != first.columns.sensitive.of:
            raise UsageError(
                f"the releases have different sensitive columns: {first.columns.sensitive.name!r} and "
                f"{sensitive.name!r}",
                "Give releases of one sensitive column.",
            )
        if one.manifest.bands != first.bands:
            raise UsageError(
                "the releases have different bands of numbers", "Give releases whose numbers are in the same bands."
            )


@dataclass(frozen=True)
class _Column:
    """A column by which people are linked: what it has, and by how much it grows from one release to the next."""

    name: str
    kind: str
    step: Fraction

    @property
    def sql_type(self) -> str:
        """What is compared: whole numbers where it stays at these, else nearly, and else texts."""
        if self.kind == _WHOLE and self.step.denominator == 1:
            return "HUGEINT"
        return "DOUBLE" if self.kind in (_WHOLE, _NUMBER) else "VARCHAR"

    def key(self, name: str, place: int, cast: str) -> str:
        """SQL for what is compared, of a column of the release at a place: what it would be in the first."""
        number = f"{cast}({name} AS {self.sql_type})"
        grown = place * self.step
        if self.sql_type == "HUGEINT":
            return f"{number} - ({grown.numerator})"
        return f"round({number} - ({float(grown)!r}), 9) + 0.0" if self.sql_type == "DOUBLE" else number


def _kind(data_type: pa.DataType) -> str:
    """What is in a column: columns of one kind can be compared whatever their widths."""
    kind = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    if pa.types.is_integer(kind):
        return _WHOLE
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _NUMBER
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    return str(kind)


def _columns(releases: Sequence[ReleaseFolder], asked: Asked) -> tuple[list[_Column], tuple[str, ...]]:
    """The columns by which people are linked."""
    kinds = [
        {
            column.name: _kind(one.schema("qit").field(column.name).type)
            for column in one.manifest.columns.quasi_identifiers
        }
        for one in releases
    ]
    shared = [name for name in kinds[0] if all(name in of_one for of_one in kinds)]
    alike = [name for name in shared if len({of_one[name] for of_one in kinds}) == 1]
    names = alike if asked.link is None else list(dict.fromkeys(asked.link))
    for name in names:
        if name not in shared:
            raise NoSuchColumnError(f"not every release has a quasi-identifier {name!r}", did_you_mean(name, shared))
    if not names:
        raise UsageError(
            "the releases have no quasi-identifier in common by which people could be linked",
            "Give releases with a common column of one type, or name columns with --link.",
        )
    for name in asked.advance:
        if name not in names:
            raise NoSuchColumnError(f"people are not linked by {name!r}", did_you_mean(name, names))
        if name not in alike or kinds[0][name] not in (_WHOLE, _NUMBER):
            raise UsageError(f"{name!r} has no numbers in every release", "Only numbers can advance: --advance age=1.")
    chosen = [
        _Column(name, kinds[0][name] if name in alike else "", asked.advance.get(name, Fraction(0))) for name in names
    ]
    every = dict.fromkeys(name for of_one in kinds for name in of_one)
    without = [name for name in every if name not in names] if asked.link is None else []
    note = f"People are not linked by {', '.join(map(repr, without))}: not in every release, or not of one type"
    return chosen, (note,) if without else ()


def _cells(release: ReleaseFolder, texts: Sequence[str], progress: Progress) -> Cells:
    manifest = release.manifest
    needed = (
        manifest.buckets * _BUCKET_BYTES + min(manifest.slots, manifest.buckets * len(manifest.values)) * _CELL_BYTES
    )
    release.memory.require(needed, release.memory.engine, "what is kept of every bucket")
    number = {text: place for place, text in enumerate(texts)}
    codes = np.array([number[entry.value] for entry in manifest.values], np.int64)
    numbers = np.arange(1, manifest.buckets + 1)
    buckets, values, counts = cells_of(release, numbers, progress.advance)
    values = codes[values]
    order = np.lexsort((values, buckets))
    return Cells(buckets[order], values[order], counts[order], manifest.buckets)


def _follows(releases: Sequence[ReleaseFolder], cells: Sequence[Cells], place: int) -> int:
    """The place of the nearest release of the same chain that is before one, among those given; -1 if there is none."""
    chain = releases[place].manifest.chain
    if chain is None:
        return NOWHERE
    found = NOWHERE
    for other, one in enumerate(releases):
        before = one.manifest.chain
        if before is None or other == place:
            continue
        if one.manifest.digest == chain.previous:
            if not cells[place].begins_with(cells[other]):
                raise ReleaseError(
                    "a release follows on another, and does not have the values of its buckets",
                    "Run 'dalenius verify' on it, with --previous.",
                )
            found = other
            break
        nearer = found == NOWHERE or before.release > (releases[found].manifest.chain or before).release
        if before.release < chain.release - 1 and nearer and cells[place].begins_with(cells[other]):
            found = other
    if found > place:
        raise UsageError(
            f"release {place + 1} follows on release {found + 1} of those given", "Give the releases oldest first."
        )
    return found


def _link(
    releases: Sequence[ReleaseFolder],
    columns: Sequence[_Column],
    asked: Asked,
    texts: Sequence[str],
    progress: Progress,
) -> tuple[Integers, Integers | None]:
    """By combination the place of the bucket of the one row that has it in each release, or -1; and the true value.

    The combinations are those of people who are linked, or who are alone with theirs in the last release.
    """
    memory, rows = releases[0].memory, sum(one.manifest.rows for one in releases)
    memory.require(rows * _ROW_BYTES, memory.engine, "what is kept of everybody's rows")
    engine = min(2**30, memory.engine // 2)
    with ExitStack() as stack:
        stack.enter_context(plain_errors())
        manifest, relation = releases[-1].manifest, None
        sensitive = manifest.columns.sensitive.of[0]
        if asked.truth is None:
            connection = connect(stack.enter_context(scratch_folder()), stack, engine)
        else:
            wanted = [*(column.name for column in columns), sensitive]
            connection, relation = stack.enter_context(open_truth(asked.truth, asked.table, wanted, engine))
        keys = [f"k{number}" for number in range(len(columns))]
        kinds = "".join(f", {key} {column.sql_type}" for key, column in zip(keys, columns, strict=True))
        connection.execute(f"CREATE TEMP TABLE placed (side INTEGER, bucket BIGINT{kinds})")
        for place, one in enumerate(releases):
            connection.register("rows", pa.RecordBatchReader.from_batches(*_rows(one, columns, progress)))
            own = "".join(f", {column.key(key, place, 'CAST')}" for key, column in zip(keys, columns, strict=True))
            connection.execute(f"INSERT INTO placed SELECT {place}, bucket{own} FROM rows")  # noqa: S608
            connection.unregister("rows")
        if relation is None:
            return _ones(connection, keys, len(releases), len(releases)), None
        missing, bands = others_of(manifest)
        text = named_nulls(value_text(sensitive, bands, missing), manifest.null_value, missing)
        parts = [f"{quote_name(column.name)} AS {key}" for key, column in zip(keys, columns, strict=True)]
        source = relation.project(", ".join([*parts, f"{text} AS s"]))
        connection.register("source", source.to_arrow_reader(BATCH_ROWS))
        connection.register("known", known_values(texts))
        last, strange = len(releases) - 1, len(texts)
        own = "".join(f", {column.key(key, last, 'TRY_CAST')}" for key, column in zip(keys, columns, strict=True))
        connection.execute(
            f"""INSERT INTO placed SELECT {last + 1}, coalesce(code, {strange}){own} FROM source
            LEFT JOIN known ON source.s = known.s"""  # noqa: S608
        )
        found = _ones(connection, keys, len(releases), len(releases) + 1)
        return found[:, :-1], found[:, -1]


def _ones(connection: duckdb.DuckDBPyConnection, keys: Sequence[str], releases: int, sides: int) -> Integers:
    """What the one row of a combination has on each side, in ascending order; -1 where there is none, or several."""
    each = [f"count(*) FILTER (side = {side})" for side in range(sides)]
    picked = ", ".join(
        f"CASE WHEN {number} = 1 THEN any_value(bucket) FILTER (side = {side}) ELSE {NOWHERE} END AS b{side}"
        for side, number in enumerate(each)
    )
    several = " + ".join(f"({number} = 1)::INTEGER" for number in each[:releases])
    found = connection.sql(
        f"SELECT {picked} FROM placed GROUP BY {', '.join(keys)} HAVING {several} > 1 OR {each[releases - 1]} = 1"  # noqa: S608
    ).to_arrow_table()
    columns = [integers_of(column) for column in found.columns]
    order = np.lexsort(columns[::-1])
    return np.stack([column[order] for column in columns], axis=1)


def _rows(
    release: ReleaseFolder, columns: Sequence[_Column], progress: Progress
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows of a release: the columns by which people are linked, and the place of the bucket."""
    names, bucket = [column.name for column in columns], release.manifest.columns.bucket
    kinds = [release.schema("qit").field(name).type for name in names]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    schema = pa.schema([*((f"k{number}", kind) for number, kind in enumerate(plain)), ("bucket", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in release.batches("qit", [*names, bucket], rows=BATCH_ROWS):
            numbers = integers(batch.column(len(names))).view(np.int64)
            if batch.column(len(names)).null_count or ((numbers < 1) | (numbers > release.manifest.buckets)).any():
                raise ReleaseError("there are rows in buckets that are not there", "Run 'dalenius verify' on it.")
            own = [batch.column(number).cast(kind) for number, kind in enumerate(plain)]
            yield pa.RecordBatch.from_arrays([*own, arrow_array(numbers - 1)], schema=schema)
            progress.advance(batch.num_rows)

    return schema, batches()
