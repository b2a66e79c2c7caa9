"""Releases of a chain, made by hand: a release from which people left, and one whose buckets are added to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE, Chain, Manifest, Strata, Stratum, Value, Worst
from dalenius.release.two_tables import TableFile, Tables
from dalenius.release.writer import TableWriter


def begin_chain(folder: Path) -> ReleaseFolder:
    """Make the release in a folder the first of a chain; it is changed in its place."""
    release = open_release(folder)
    first = release.manifest.model_copy(update={"chain": Chain(release=1, previous=None, surplus=0, held_back=0)})
    return _write_manifest(folder, first)


def follow(folder: Path, out: Path, left: Collection[int] = (), new: Path | None = None) -> ReleaseFolder:
    """The next release of a chain: without some rows of QIT, and with the buckets of a release of its own, if given.

    `left` has the places of rows in QIT, from 0. Both releases are of one limit for each value and have no groups.
    """
    before = open_release(folder)
    chain = before.manifest.chain
    assert chain is not None
    manifest, added = before.manifest, open_release(new) if new is not None else None
    bucket = manifest.columns.bucket
    gone = set(left)
    own = before.table("qit")
    kept = own.take([row for row in range(own.num_rows) if row not in gone])
    strata = _strata(manifest, Counter(kept[bucket].to_pylist()))
    values = before.table("st")
    if added is not None:
        kept = _joined(kept, _shifted(added.table("qit"), bucket, manifest.buckets))
        values = _joined(values, _shifted(added.table("st"), bucket, manifest.buckets))
        others = Counter(added.table("qit")[bucket].to_pylist())
        shift, since = len(strata), chain.release + 1
        strata += [one.model_copy(update={"since": since}) for one in _strata(added.manifest, others)]
        tree: list[Any] = [{"stratum": shift + 1}]
        if added.manifest.strata is not None:
            tree = [
                {**node.model_dump(), "stratum": node.stratum + shift} if hasattr(node, "stratum") else node
                for node in added.manifest.strata.tree
            ]
    else:
        tree = []
    kept, values = _with_nulls(kept), _with_nulls(values)
    setting = Counter[int]()
    for one in strata:
        for group in one.setting:
            setting[group.size] += group.buckets
    loss = sum(number * (size - 1) ** 2 for size, number in setting.items())
    places = sum(size * number for size, number in setting.items())
    out.mkdir(parents=True)
    update = {
        "tables": Tables(
            qit=_write(out / manifest.tables.qit.file, kept, bucket),
            st=_write(out / manifest.tables.st.file, values, bucket),
        ),
        "columns": {
            **manifest.columns.model_dump(),
            "quasi_identifiers": [
                {**column.model_dump(), "nulls": kept.schema.field(column.name).nullable}
                for column in manifest.columns.quasi_identifiers
            ],
            "sensitive": {
                **manifest.columns.sensitive.model_dump(),
                "nulls": values.schema.field(manifest.columns.sensitive.name).nullable,
            },
        },
        "rows": kept.num_rows,
        "people": kept.num_rows,
        "buckets": sum(setting.values()),
        "setting": [{"size": size, "buckets": number} for size, number in sorted(setting.items())],
        "loss": loss,
        "mse": float(Fraction(loss, max(1, kept.num_rows - 1))),
        "status": "feasible",
        "bound": None,
        "gap": None,
        "chain": Chain(
            release=chain.release + 1, previous=manifest.digest, surplus=places - kept.num_rows, held_back=0
        ),
        "strata": Strata.model_validate({"tree": tree, "margin": "1", "strata": strata}),
        "values": _values(manifest, added.manifest if added is not None else None),
    }
    following = Manifest.model_validate({**manifest.model_dump(), **{k: _plain(v) for k, v in update.items()}})
    return _write_manifest(out, following)


def _plain(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_plain(one) for one in entry]
    return entry.model_dump() if hasattr(entry, "model_dump") else entry


def _strata(manifest: Manifest, rows: Counter[int]) -> list[Stratum]:
    strata = manifest.strata.strata if manifest.strata is not None else None
    if strata is None:
        strata = [Stratum(rows=manifest.rows, setting=manifest.setting, rows_each=1, applies=True, since=1)]
    first, found = 1, []
    for one in strata:
        last = first + one.buckets
        found.append(one.model_copy(update={"rows": sum(rows[bucket] for bucket in range(first, last))}))
        first = last
    return found


def _values(manifest: Manifest, added: Manifest | None) -> list[Value]:
    """Counts add up, and the worse of two cases counts; limits are those of the first that has the value."""
    known = manifest.adversary.known_records
    found = {value.value: value for value in manifest.values}
    for value in added.values if added is not None else ():
        own = found.setdefault(value.value, value)
        if own is value:
            continue
        worst = max((own.worst, value.worst), key=lambda one: (Fraction(one.count, one.size - known), one.count))
        found[value.value] = own.model_copy(
            update={"count": own.count + value.count, "worst": Worst(count=worst.count, size=worst.size)}
        )
    return [found[text] for text in sorted(found)]


def _joined(one: pa.Table, other: pa.Table) -> pa.Table:
    optional = pa.schema([field.with_nullable(True) for field in one.schema])
    return pa.concat_tables([one.cast(optional), other.cast(optional)])


def _with_nulls(table: pa.Table) -> pa.Table:
    """Columns are optional if they have nulls."""
    fields = [field.with_nullable(table[field.name].null_count > 0) for field in table.schema]
    return table.cast(pa.schema(fields))


def _shifted(table: pa.Table, bucket: str, by: int) -> pa.Table:
    place = table.schema.get_field_index(bucket)
    moved = pa.array([number + by for number in table[bucket].to_pylist()], pa.int64())
    return table.set_column(place, table.schema.field(place), moved)


def _write(path: Path, table: pa.Table, bucket: str) -> TableFile:
    writer = TableWriter(path, table.schema, "parquet", 2**17, bucket)
    for batch in table.combine_chunks().to_batches():
        writer.write(batch.columns)
    return writer.finish()


def _write_manifest(folder: Path, manifest: Manifest) -> ReleaseFolder:
    (folder / FILE).write_text(manifest.to_json(), encoding="utf-8")
    return open_release(folder)
