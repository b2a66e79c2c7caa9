"""What a manifest could say in several ways, though a release has one: names, digits, and where parts end.

That its text is the one that Dalenius writes is seen when it is read (`release.manifest`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from dalenius.model.problem import LARGEST_TOTAL
from dalenius.release.manifest import Manifest, SizeGroupPart
from dalenius.release.two_tables import TableFile, named_type
from dalenius.verify.findings import plural
from dalenius.verify.stated_people import about, name_problems

_LARGEST_PART = 2**20  # rows
_MOST_CUTS = 2**20
_NUMBER = r"(0|[1-9][0-9]{0,3})"
_VERSION = re.compile(rf"{_NUMBER}(\.{_NUMBER}){{1,2}}((a|b|rc){_NUMBER})?(\.dev{_NUMBER})?")
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}", re.ASCII)


def spelling_problems(manifest: Manifest) -> Iterator[str]:
    """What else can be said in several ways, of which a release has one."""
    columns = manifest.columns
    if not _VERSION.fullmatch(manifest.program.version):
        yield "the program's version is none that Dalenius has"
    yield from name_problems(manifest)
    sensitive = [other.column for other in manifest.others]
    every = (*columns.quasi_identifiers, columns.sensitive, *sensitive)
    if other := sum(1 for column in every if not _is_plain_type(column.type)):
        yield f"{plural(other, 'type is', 'types are')} not named as Arrow names them"
    settings = _settings(manifest)
    yield from _parts(manifest.tables.qit, settings if not manifest.surplus else [], 0)
    yield from _parts(manifest.tables.st, settings, manifest.adversary.fake_values)
    if manifest.mse != float(Fraction(manifest.loss, max(1, manifest.people - 1))):
        yield "mse has other digits than loss / (people - 1)"
    if manifest.bound is not None and manifest.gap != float(
        Fraction(manifest.loss - manifest.bound, max(1, manifest.loss))
    ):
        yield "gap has other digits than (loss - bound) / loss"
    for number in range(manifest.sets):
        for problem in _missing(manifest.view(number)):
            yield about(manifest, number) + problem


def _missing(manifest: Manifest) -> Iterator[str]:
    """The name of nulls, and the codes that count as such, of one sensitive column."""
    if manifest.null_value is not None and manifest.null_value not in {value.value for value in manifest.values}:
        yield "nulls have a name, and no value has it"
    if manifest.missing != sorted(set(manifest.missing)) or (manifest.missing and manifest.null_value is None):
        yield "codes for what is missing are not in order, or nothing is missing"


def _is_plain_type(name: str) -> bool:
    """Whether this is Arrow's name of the type, and its time zone one that there is."""
    try:
        data_type = named_type(name)
    except ValueError:
        return True  # the check of the schema says so
    zone = getattr(data_type, "tz", None)
    return str(data_type) == name and (zone is None or _is_zone(zone))


def _is_zone(name: str) -> bool:
    if _OFFSET.fullmatch(name):
        return True
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return False
    return True


def _parts(table: TableFile, setting: Sequence[SizeGroupPart], fakes: int) -> Iterator[str]:
    """Parts are numbered, and end where a multiple of a power of two lies: after that row, or before its bucket.

    Without a setting, from which it is known where buckets begin, they end after the row.
    """
    parts = table.parts or []
    if [part.file for part in parts] != [f"part-{number:05d}.parquet" for number in range(len(parts))]:
        yield f"the parts of {table.file} are not numbered from 0 in the order of their rows"
    rows = [part.rows for part in parts]
    if len(rows) > 1 and not _is_cut_by_rule(rows, setting, fakes):
        yield f"the parts of {table.file} end where those of no release do"


def _settings(manifest: Manifest) -> list[SizeGroupPart]:
    """The buckets in the order of their numbers."""
    settings = [part.setting for part in manifest.strata.strata] if manifest.strata is not None else [manifest.setting]
    return [group for setting in settings for group in setting]


def _is_cut_by_rule(rows: list[int], setting: Sequence[SizeGroupPart], fakes: int) -> bool:
    total = sum(rows)
    if not setting:
        return (
            rows[0] <= _LARGEST_PART and rows[0].bit_count() == 1 and {*rows[:-1]} == {rows[0]} and rows[-1] <= rows[0]
        )
    sizes = np.array([group.size + fakes for group in setting])
    buckets = np.array([group.buckets for group in setting])
    if total > LARGEST_TOTAL or int((sizes * buckets).sum()) != total:
        return True  # what adds up wrongly is said elsewhere
    firsts = np.cumsum(sizes * buckets) - sizes * buckets
    for bits in range(_LARGEST_PART.bit_length()):
        if total >> bits > max(_MOST_CUTS, 2 * len(rows)):
            continue  # so many parts are not listed
        starts = np.arange(0, total, 2**bits)
        group = np.searchsorted(firsts, starts, side="right") - 1
        in_buckets = np.unique(firsts[group] + (starts - firsts[group]) // sizes[group] * sizes[group])
        if any(np.array_equal(np.diff(np.append(cuts, total)), rows) for cuts in (starts, in_buckets)):
            return True
    return False
