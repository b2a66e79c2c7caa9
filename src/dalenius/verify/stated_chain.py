"""What a manifest says of a chain of releases: does it agree with itself, and does it follow on the release before?

The buckets of a release of a chain stay in all later ones, with their numbers and their rows of ST, whoever leaves.
`chain_problems` compares what one manifest says, before any table is read. `check_chain` compares a release with the
one that it follows on: that manifest, and row by row the buckets of ST that were there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from dalenius.errors import InputError
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import FILE, Manifest, Stratum
from dalenius.verify.findings import CHAIN, Report, plural, quote
from dalenius.verify.release_files import Watch, check_hashes, table_is_there

_BEFORE = "the release before"
_CHUNK = 2**20


def chain_problems(manifest: Manifest) -> Iterator[str]:
    """Statements on a chain that contradict each other, or are there without a chain."""
    since = [stratum.since for stratum in manifest.strata.strata] if manifest.strata is not None else []
    chain = manifest.chain
    if chain is None:
        if any(release != 1 for release in since):
            yield "buckets of a stratum are from another release, and there is no chain of releases"
        return
    if (chain.release == 1) != (chain.previous is None):
        yield "the first release of a chain follows on none, and every other one on one"
    if since and (since[0] != 1 or since[-1] > chain.release or any(later < one for one, later in pairwise(since))):
        yield "the strata of a chain are not in the order of the releases in which their buckets were made"
    if chain.release > 1 and not since:
        yield "a release follows on another, and no strata say which buckets were there"
    if not manifest.is_plain or manifest.persons is not None:
        yield "there is a chain of releases, and people have several rows or sensitive values"
    if manifest.bands is not None:
        yield "there is a chain of releases, and numbers count by bands"
    if manifest.apart is not None or any(not value.applies for value in manifest.values):
        yield "there is a chain of releases, and values that do not apply"


def note_chain(manifest: Manifest, report: Report) -> None:
    """Note that nobody looked at the release before."""
    if manifest.chain is not None and manifest.chain.release > 1:
        report.note("the release follows on another: its buckets were not compared with those of the release before")


def check_chain(release: ReleaseFolder, before: ReleaseFolder, is_readable: bool, watch: Watch, report: Report) -> None:
    """Whether a release follows on the one before it. ST is compared if all statements agree, and it `is_readable`."""
    problems = list(_problems(release, before))
    for problem in problems:
        report.fail(CHAIN, problem)
    if problems:
        return
    if not is_readable:
        report.not_checked([CHAIN], f"{release.name('st')} cannot be read")
        return
    own = Report()
    if table_is_there(before, "st", own):
        own.add(check_hashes(before, ["st"], watch))
    for finding in own.findings:
        report.fail(CHAIN, f"of {_BEFORE}, {finding.message}")
    if not own.findings:
        _compare_rows(release, before, watch, report)


def _problems(release: ReleaseFolder, before: ReleaseFolder) -> Iterator[str]:
    """What the two manifests say otherwise."""
    now, then = release.manifest, before.manifest
    if now.chain is None:
        yield "the release is not one of a chain: it follows on none"
        return
    if then.chain is None:
        yield "the release before is not one of a chain: none follows on it"
        return
    try:
        with before.store.open(FILE) as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        yield f"{FILE} of {_BEFORE} cannot be read: {error.strerror or 'the store failed'}"
        return
    if now.chain.previous != digest:
        yield "it follows on another release than the one given: the SHA-256 of that manifest is another"
    if now.chain.release != then.chain.release + 1:
        yield f"it is release {now.chain.release:,} of its chain, and the one given is release {then.chain.release:,}"
    yield from _other_columns(now, then)
    if now.adversary != then.adversary:
        yield f"known records or fake values are not those of {_BEFORE}"
    yield from _other_values(now, then)
    yield from _other_groups(now, then)
    yield from _other_strata(now, then)


def _other_columns(now: Manifest, then: Manifest) -> Iterator[str]:
    def columns(manifest: Manifest) -> list[tuple[str, str]]:
        every = [*manifest.columns.quasi_identifiers, manifest.columns.sensitive]
        return [(manifest.columns.bucket, "int64"), *((column.name, column.type) for column in every)]

    if columns(now) != columns(then):
        yield f"its columns, or their types, are not those of {_BEFORE}"
    if then.null_value not in (None, now.null_value):
        yield f"nulls have another name than in {_BEFORE}, or none"
    if lost := sorted({*then.missing} - {*now.missing}):
        codes = plural(len(lost), "code counts", "codes count")
        yield f"{codes} as missing no longer; the first: {quote(lost[0])}"


def _other_values(now: Manifest, then: Manifest) -> Iterator[str]:
    """Values that were there stay, with their limits and in their groups."""

    def values(manifest: Manifest) -> dict[str, tuple[str, str | None]]:
        names = [group.name for group in manifest.groups or ()]
        return {value.value: (value.limit, _named(names, value.group)) for value in manifest.values}

    yield from _differences(values(now), values(then), "value", "limit or group")


def _other_groups(now: Manifest, then: Manifest) -> Iterator[str]:
    """The same of groups."""

    def groups(manifest: Manifest) -> dict[str, tuple[str, str | None, str | None]]:
        listed = manifest.groups or []
        names = [group.name for group in listed]
        return {group.name: (group.level, group.limit, _named(names, group.parent)) for group in listed}

    yield from _differences(groups(now), groups(then), "group", "level, limit or parent")


def _named(names: Sequence[str], place: int | None) -> str | None:
    """The group at a place. That there is none is told elsewhere."""
    return names[place] if place is not None and place < len(names) else None


def _differences(now: Mapping[str, Any], then: Mapping[str, Any], what: str, said: str) -> Iterator[str]:
    if lost := [name for name in then if name not in now]:
        are = plural(len(lost), f"{what} of {_BEFORE} is", f"{what}s of {_BEFORE} are")
        yield f"{are} not listed; the first: {quote(lost[0])}"
    if other := [name for name in then if name in now and now[name] != then[name]]:
        has = plural(len(other), f"{what} has", f"{what}s have")
        yield f"{has} another {said} than in {_BEFORE}; the first: {quote(other[0])}"


def _other_strata(now: Manifest, then: Manifest) -> Iterator[str]:
    """The buckets that were there come first, in the strata that they were in; all others are of this release."""

    def made(strata: list[Stratum]) -> list[tuple[int, list[tuple[int, int]]]]:
        return [(one.since, [(group.size, group.buckets) for group in one.setting]) for one in strata]

    if then.strata is not None:
        old = made(then.strata.strata)
    else:
        old = [(1, [(group.size, group.buckets) for group in then.setting])]
    strata = made(now.strata.strata) if now.strata is not None else []
    if strata[: len(old)] != old:
        yield f"its strata do not begin with those of {_BEFORE}"
    elif any(since != now.newest for since, _ in strata[len(old) :]):
        yield f"it has strata of earlier releases that are not of {_BEFORE}"


def _compare_rows(release: ReleaseFolder, before: ReleaseFolder, watch: Watch, report: Report) -> None:
    """Row by row, as long as there are rows in the release before; the first that differs is told by its bucket."""
    names = release.schema("st").names
    file, bucket = release.name("st"), release.manifest.columns.bucket
    try:
        same = _same_groups(release, before)
        now = _Rows(_columns(release, same))
        for batch in _columns(before, same):
            watch.step(batch.num_rows)
            for part in now.as_many(batch.num_rows):
                watch.step(part.num_rows)
                old = batch.slice(0, part.num_rows)
                batch = batch.slice(part.num_rows)
                if any(not old.column(name).equals(part.column(name)) for name in names):
                    number = old.column(bucket)[_first_other(old, part)].as_py()
                    other = f"{file} has other values than in {_BEFORE}; the first: in bucket {number:,}"
                    report.fail(CHAIN, other)
                    return
            if batch.num_rows:
                report.fail(CHAIN, f"{file} has fewer rows than that of {_BEFORE}")
                return
    except InputError as error:
        report.fail(CHAIN, error.message)
    except (OSError, pa.ArrowException, ValueError):
        report.fail(CHAIN, f"{before.name('st')} of {_BEFORE} is damaged, or not what its manifest says it is")


class _Rows:
    """Batches, given out in as many rows as are asked for."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def as_many(self, rows: int) -> Iterator[pa.RecordBatch]:
        """So many rows, or those that there are, in one or several batches."""
        while rows:
            if self._rest is None or not self._rest.num_rows:
                self._rest = next(self._batches, None)
                if self._rest is None:
                    return
            part = self._rest.slice(0, rows)
            self._rest = self._rest.slice(part.num_rows)
            rows -= part.num_rows
            yield part


def _same_groups(release: ReleaseFolder, before: ReleaseFolder) -> int:
    """How many row groups at the beginning of ST are the same, byte for byte: then so are their rows."""
    names = [one.files("st")[0] for one in (release, before)]
    if any(len(one.files("st")) > 1 for one in (release, before)) or not all(map(_is_parquet, names)):
        return 0
    ends = [_ends_of_groups(one, name) for one, name in zip((release, before), names, strict=True)]
    same = next((place for place, (one, other) in enumerate(zip(*ends, strict=False)) if one != other), len(ends[1]))
    same = min(same, len(ends[0]))
    if not same:
        return 0
    last = max(end for _, _, end in ends[1][same - 1])
    with release.store.open(names[0]) as one, before.store.open(names[1]) as other:
        at = 0
        while at < last:
            wanted = min(_CHUNK, last - at)
            if (content := one.read(wanted)) != other.read(wanted) or len(content) < wanted:
                return 0  # the rows tell where
            at += wanted
    return same


def _is_parquet(name: str) -> bool:
    return name.endswith(".parquet")


def _ends_of_groups(release: ReleaseFolder, name: str) -> list[list[tuple[int, int, int]]]:
    """Of each row group, the rows, the first byte and the end of each column."""
    import pyarrow.parquet  # here, because few releases need it

    with release.open_file("st", name) as source:
        metadata = pyarrow.parquet.read_metadata(source)
    found = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        begins = [one.dictionary_page_offset or one.data_page_offset for one in chunks]
        found.append(
            [(group.num_rows, at, at + one.total_compressed_size) for at, one in zip(begins, chunks, strict=True)]
        )
    return found


def _columns(release: ReleaseFolder, first_group: int) -> Iterator[pa.RecordBatch]:
    """ST with the values of categories, and floating point by its bits, of which every NaN has the same."""
    files = release.files("st")
    for batch in (batch for name in files for batch in release.batches_of("st", name, first_group=first_group)):
        columns = []
        for column in batch.columns:
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if pa.types.is_floating(column.type):
                column = column.view(pa.type_for_alias(f"int{column.type.bit_width}"))
            columns.append(column)
        yield pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _first_other(one: pa.RecordBatch, other: pa.RecordBatch) -> int:
    """The first of the rows in which two batches of equally many differ."""
    low, high = 0, one.num_rows - 1
    while low < high:
        half = (low + high) // 2 + 1
        low, high = (half, high) if one.slice(0, half).equals(other.slice(0, half)) else (low, half - 1)
    return low
