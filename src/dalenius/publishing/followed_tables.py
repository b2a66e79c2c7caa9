"""The tables of a release that follows on another: which rows are read, and what the manifest says.

Old buckets keep their numbers and their values; the rows of those who left are missing. The buckets of the new people
come behind them, as strata of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import SelfCheckError
from dalenius.model import VERSION
from dalenius.model.plan import Method, Status
from dalenius.model.problem import BucketSetting, SizeGroup
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.description import setting_entries
from dalenius.publishing.followed_rows import Whereabouts, as_type
from dalenius.release import manifest
from dalenius.release.two_tables import Tables, named_type
from dalenius.tables.arrays import arrow_array
from dalenius.tables.arrow import BATCH_ROWS, Batches, Source, bare_schema

Integers = npt.NDArray[np.int64]
_PROVEN = (Status.OPTIMAL, Status.FEASIBLE)


class TypedSource:
    """A table whose columns have the types of the release before."""

    untyped = False

    def __init__(self, source: Source, before: manifest.Manifest) -> None:
        self._source = source
        self.names: Sequence[str] = source.names
        self.rows: int | None = source.rows
        columns = (*before.columns.quasi_identifiers, before.columns.sensitive)
        self._fields = {column.name: pa.field(column.name, named_type(column.type)) for column in columns}

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of the release before where it has the column."""
        others = [name for name in columns if name not in self._fields]
        own = self._source.schema(others) if others else pa.schema([])
        return pa.schema([self._fields[name] if name in self._fields else own.field(name) for name in columns])

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows in the order of the table."""
        for batch in self._source.batches(columns, rows):
            typed = [
                as_type(column, self._fields[name]) if name in self._fields else column
                for name, column in zip(columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(typed, names=list(columns))

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:
        """That of the table, if it has the type already."""
        if column in self._fields and self._source.schema([column]).field(0).type != self._fields[column].type:
            return None
        return self._source.known_range(column)


class SomeRows:
    """The rows of a table that are in a bucket, or those that are in none yet."""

    def __init__(self, source: Source, where: Whereabouts, *, placed: bool, rows: int) -> None:
        self._source, self._where, self._placed = source, where, placed
        self.untyped = source.untyped
        self.names: Sequence[str] = source.names
        self.rows: int | None = rows

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of the table."""
        return self._source.schema(columns)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows in the order of the table."""
        start = 0
        for batch in self._source.batches(columns, rows):
            chosen = (self._where.read(start, batch.num_rows) > 0) == self._placed
            start += batch.num_rows
            if chosen.all():
                yield batch
            elif chosen.any():
                yield batch.take(arrow_array(np.flatnonzero(chosen)))

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:
        """That of the whole table, if all of it is meant."""
        return self._source.known_range(column) if self.rows == self._where.rows else None

    def in_memory(self, columns: Sequence[str], rows: int) -> pa.Table:
        """The rows as a table."""
        batches = [_plain(batch) for batch in self.batches(columns, rows)]
        schema = batches[0].schema if batches else bare_schema(self.schema(columns), columns)
        return pa.Table.from_batches(batches, schema)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without dictionaries that a reader made, which differ from batch to batch."""
    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class WithCounterfeits:
    """A table of new people, and behind them values that are nobody's, on rows that look like theirs."""

    def __init__(self, source: Source, columns: Sequence[str], counterfeits: pa.Array) -> None:
        """The last of the columns is the sensitive one."""
        self._source, self._counterfeits, self._columns = source, counterfeits, list(columns)
        self.untyped = source.untyped
        self.names: Sequence[str] = source.names
        self.rows: int | None = None if source.rows is None else source.rows + len(counterfeits)

    def schema(self, columns: Sequence[str]) -> pa.Schema:
        """The types of the table."""
        return self._source.schema(columns)

    def batches(self, columns: Sequence[str], rows: int = BATCH_ROWS) -> Batches:
        """The rows of the table, and the counterfeits."""
        yield from self._source.batches(columns, rows)
        first = _plain(next(self._source.batches(self._columns, rows)))
        for start in range(0, len(self._counterfeits), rows):
            values = self._counterfeits.slice(start, rows)
            like = arrow_array(np.arange(start, start + len(values)) % first.num_rows)
            batch = first.take(like).set_column(len(self._columns) - 1, self._columns[-1], values)
            yield batch.select([name for name in columns if name in self._columns])

    def known_range(self, column: str) -> tuple[Any, Any, int] | None:  # noqa: ARG002
        """Nothing is known without looking."""
        return None


def sizes_of(before: manifest.Manifest | None, arrangement: Arrangement | None) -> list[SizeGroup]:
    """All size groups in the order of their buckets."""
    old = [SizeGroup(group.size, group.buckets) for one in strata_of(before) for group in one.setting]
    return [*old, *(arrangement.groups if arrangement is not None else ())]


def strata_of(release: manifest.Manifest | None) -> list[manifest.Stratum]:
    """The strata of a release; of one that was not cut, all of it."""
    if release is None:
        return []
    if release.strata is not None:
        return list(release.strata.strata)
    return [manifest.Stratum(rows=release.rows, setting=release.setting, rows_each=1, applies=True, since=1)]


def describe_next(
    before: manifest.Manifest | None,
    fresh: manifest.Manifest | None,
    margin: str,
    tables: Tables,
    columns: manifest.Columns,
    texts: Mapping[str, int],
    where: Whereabouts,
    held_back: int,
) -> manifest.Manifest:
    """The manifest of a release that follows on another, or is the first of a chain.

    `fresh` is that of the buckets of new people by themselves, if there are any. `texts` are the values of ST in their
    order, each with its rows.
    """
    template = before or fresh
    if template is None:
        raise SelfCheckError("a release of nobody")
    number = before.chain.release + 1 if before is not None and before.chain is not None else 1
    old, new = strata_of(before), [one.model_copy(update={"since": number}) for one in strata_of(fresh)]
    firsts = np.cumsum([1, *(one.buckets for one in (*old, *new))])[:-1]
    rows = where.histogram(firsts).tolist()
    strata = [one.model_copy(update={"rows": count}) for one, count in zip([*old, *new], rows, strict=True)]
    setting = BucketSetting.of((group.size, group.buckets) for one in strata for group in one.setting)
    present = sum(rows)
    if present + held_back != where.rows or tables.qit.rows != present:
        raise SelfCheckError(f"{where.rows:,} records went in, and {tables.qit.rows:,} came out")
    method, status, bound = _quality(before, fresh)
    groups = _groups(before, fresh)
    place_of = {group.name: place for place, group in enumerate(groups)}
    listed = {
        value.value: (value, release) for release in (fresh, before) if release is not None for value in release.values
    }
    worst = _worst([one.values for one in (before, fresh) if one is not None], template.adversary.known_records)
    values = []
    for text, count in texts.items():
        value, release = listed[text]
        group = None if value.group is None else place_of[(release.groups or [])[value.group].name]
        values.append(value.model_copy(update={"count": count, "worst": worst[text], "group": group}))
    codes = {code for one in (before, fresh) if one is not None for code in one.missing}
    null_value = next(
        (one.null_value for one in (before, fresh) if one is not None and one.null_value is not None), None
    )
    is_cut = before is not None or (fresh is not None and fresh.strata is not None)
    return replace_entries(
        template,
        format=manifest.FORMAT,
        randomness=manifest.SEEDED if _seeded(before, fresh) else manifest.CRYPTOGRAPHIC,
        program=manifest.Program(name="dalenius", version=VERSION),
        tables=tables,
        columns=columns,
        null_value=null_value,
        missing=sorted(codes) if null_value is not None else [],
        rows=present,
        people=present,
        buckets=setting.buckets,
        setting=setting_entries(setting),
        loss=setting.loss,
        mse=float(Fraction(setting.loss, max(1, present - 1))),
        method=method,
        status=status,
        bound=bound,
        gap=None if bound is None else float(Fraction(setting.loss - bound, max(1, setting.loss))),
        chain=manifest.Chain(
            release=number,
            previous=before.digest if before is not None else None,
            surplus=setting.records - present,
            held_back=held_back,
        ),
        strata=manifest.Strata(tree=_tree(fresh, len(old)), margin=margin, strata=strata) if is_cut else None,
        groups=groups or None,
        values=values,
    )


def replace_entries(template: manifest.Manifest, **entries: Any) -> manifest.Manifest:
    """The same with other entries, of this format."""
    return manifest.Manifest.model_validate(
        {name: entries.get(name, getattr(template, name)) for name in type(template).model_fields}
    )


def _seeded(*releases: manifest.Manifest | None) -> bool:
    return any(one is not None and one.randomness == manifest.SEEDED for one in releases)


def _tree(fresh: manifest.Manifest | None, strata: int) -> list[manifest.Cut | manifest.Leaf]:
    """The tree of the new people, whose strata come behind so many others."""
    if fresh is None:
        return []
    if fresh.strata is None:
        return [manifest.Leaf(stratum=strata + 1)]
    return [
        manifest.Leaf(stratum=node.stratum + strata) if isinstance(node, manifest.Leaf) else node
        for node in fresh.strata.tree
    ]


def _quality(before: manifest.Manifest | None, fresh: manifest.Manifest | None) -> tuple[Method, Status, int | None]:
    """No bucket of the old ones can be another: what is known of both adds up."""
    both = [one for one in (before, fresh) if one is not None]
    last = both[-1]
    bounds = [one.bound for one in both]
    bound = None if None in bounds else sum(bound for bound in bounds if bound is not None)
    return last.method, max((one.status for one in both), key=_PROVEN.index), bound


def _worst(lists: Sequence[Sequence[manifest.Value | manifest.GroupEntry]], known: int) -> dict[str, manifest.Worst]:
    """The worse of two worst cases."""
    found: dict[str, manifest.Worst] = {}
    for one in (one for some in lists for one in some):
        name = one.value if isinstance(one, manifest.Value) else one.name
        both = [found[name], one.worst] if name in found else [one.worst]
        found[name] = max(both, key=lambda case: (Fraction(case.count, case.size - known), case.count))
    return found


def _groups(before: manifest.Manifest | None, fresh: manifest.Manifest | None) -> list[manifest.GroupEntry]:
    """The groups of both, in the order of their paths; the limits are those of the release before."""
    by_path: dict[tuple[str, ...], manifest.GroupEntry] = {}
    lists = [one.groups or [] for one in (before, fresh) if one is not None]
    known = next(one.adversary.known_records for one in (before, fresh) if one is not None)
    worst = _worst(lists, known)
    for groups in lists:
        for group in groups:
            path, above = [group.name], group.parent
            while above is not None:
                path, above = [groups[above].name, *path], groups[above].parent
            own = by_path.get(tuple(path))
            count = group.count + (own.count if own is not None else 0)
            by_path[tuple(path)] = (own or group).model_copy(update={"count": count, "worst": worst[group.name]})
    paths = sorted(by_path)
    places = {path: place for place, path in enumerate(paths)}
    return [by_path[path].model_copy(update={"parent": places.get(path[:-1])}) for path in paths]
