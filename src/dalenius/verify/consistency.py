"""Whether what the manifest says agrees: with itself, before any table is read, and with what ST holds.

`check_consistency` compares the statements with each other. `compare_values` compares what it says of each sensitive
value with the scan of ST: names, counts and worst cases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from dalenius.model.plan import Status
from dalenius.model.problem import LARGEST_TOTAL
from dalenius.release.manifest import SEEDED, Manifest, Strata, Value
from dalenius.release.two_tables import TableFile, digest_of_parts, is_text, named_type
from dalenius.verify.bucket_shares import Scan
from dalenius.verify.findings import LIMITS, MANIFEST, VALUES, Report, plural, quote
from dalenius.verify.manifest_spelling import spelling_problems
from dalenius.verify.stated_chain import chain_problems
from dalenius.verify.stated_people import about, all_tables, file_problems, people_problems, published_names

_ROUNDING = Fraction(1, 2**50)  # four units in the last place of a double


def check_consistency(manifest: Manifest, report: Report) -> None:
    """Add a finding for every two statements that contradict each other."""
    for problem in (
        *_files(manifest),
        *_columns(manifest),
        *_totals(manifest),
        *_quality(manifest),
        *_adversary(manifest),
        *_each_set(manifest),
        *people_problems(manifest),
        *(_strata(manifest, manifest.strata) if manifest.strata is not None else ()),
        *_apart(manifest),
        *chain_problems(manifest),
        *(spelling_problems(manifest) if manifest.is_strict else ()),
    ):
        report.fail(MANIFEST, problem)
    if manifest.randomness == SEEDED:
        report.note("SEEDED: the order of records came from a seed, so this release is not for publication")


def is_countable(manifest: Manifest) -> bool:
    """Whether the numbers are small enough to be compared with the tables: 64 bits carry every sum."""
    return _largest(manifest) <= LARGEST_TOTAL


def _largest(manifest: Manifest) -> int:
    """The largest number of rows that it speaks of, records and fake values together."""
    fakes = manifest.adversary.fake_values
    strata = manifest.strata.strata if manifest.strata is not None else []
    of_strata = sum((group.size * part.rows_each + fakes) * group.buckets for part in strata for group in part.setting)
    rows = max(sum((group.size + fakes) * group.buckets for group in manifest.setting), of_strata)
    rows = max(rows, *(part.rows for part in strata), 0)
    tables = [table.rows for table in all_tables(manifest)]
    return max(rows, manifest.rows, manifest.people, manifest.slots, manifest.buckets, *tables)


def _files(manifest: Manifest) -> Iterator[str]:
    yield from file_problems(manifest)
    for table in all_tables(manifest):
        yield from _parts(table)


def _parts(table: TableFile) -> Iterator[str]:
    """The parts of a table, which add up to it."""
    if table.parts is None:
        return
    names = {part.file.casefold() for part in table.parts}  # some file systems do not tell cases apart
    if len(names) < len(table.parts):
        yield f"{plural(len(table.parts) - len(names), 'part')} of {table.file} listed more than once"
    for what, stated in (("rows", table.rows), ("bytes", table.bytes)):
        total = sum(getattr(part, what) for part in table.parts)
        if total != stated:
            yield f"the {what} of the parts of {table.file} add up to {_format(total)}, and it says {_format(stated)}"
    if digest_of_parts(part.sha256 for part in table.parts) != table.sha256:
        yield f"the SHA-256 of {table.file} is not that of the digests of its parts"


def _columns(manifest: Manifest) -> Iterator[str]:
    published = published_names(manifest)
    twice = sum(count - 1 for count in Counter(published).values())
    if twice:
        yield f"{plural(twice, 'column')} named for more than one role"
    if manifest.columns.bucket.lower() in {name.lower() for name in published}:
        yield "the bucket column has the name of a published column"


def _each_set(manifest: Manifest) -> Iterator[str]:
    """What is said of every sensitive column."""
    for number in range(manifest.sets):
        for problem in _values(manifest.view(number)):
            yield about(manifest, number) + problem


def _totals(manifest: Manifest) -> Iterator[str]:
    sizes = [group.size for group in manifest.setting]
    if sorted(set(sizes)) != sizes:
        yield "the setting's sizes are not ascending"
    records = sum(group.size * group.buckets for group in manifest.setting)
    places = "records" if manifest.chain is None else "places, less those of nobody,"
    buckets = sum(group.buckets for group in manifest.setting)
    loss = sum(group.buckets * (group.size - 1) ** 2 for group in manifest.setting)
    stated = {
        "qit's rows": (manifest.tables.qit.rows, manifest.rows),
        f"the setting's {places}": (records - manifest.surplus, manifest.people),
        "the setting's buckets": (buckets, manifest.buckets),
        "the setting's loss": (loss, manifest.loss),
    }
    for what, (total, number) in stated.items():
        if total != number:
            yield f"{what} add up to {_format(total)}, and the manifest says {_format(number)}"
    if _largest(manifest) > LARGEST_TOTAL:
        yield f"it speaks of more than {LARGEST_TOTAL:,} rows, the most that can be counted exactly"
    if not _is_rounded(manifest.mse, Fraction(manifest.loss, max(1, manifest.people - 1))):
        yield "mse is not loss / (people - 1)"


def _quality(manifest: Manifest) -> Iterator[str]:
    loss, bound, gap = manifest.loss, manifest.bound, manifest.gap
    if manifest.status is Status.INFEASIBLE:
        yield "the status is infeasible, and a release is feasible"
    if (bound is None) != (gap is None):
        yield "of bound and gap, one is given and the other is not"
    if bound is None and manifest.status is Status.OPTIMAL:
        yield "the status is optimal, and no bound is given"
    if bound is not None and not 0 <= bound <= loss:
        yield f"the bound is {_format(bound)}, and the loss is {_format(loss)}"
    if bound is not None and gap is not None and not _is_rounded(gap, Fraction(loss - bound, max(1, loss))):
        yield "gap is not (loss - bound) / loss"


def _adversary(manifest: Manifest) -> Iterator[str]:
    known, sizes = manifest.adversary.known_records, [group.size for group in manifest.own_setting]
    smallest = min(sizes, default=known + 1)
    if smallest <= known:
        has = plural(smallest, "record")
        yield f"a bucket has {_shorten(has)}, and the adversary may know {known:,}: nothing is left to hide in"


def _values(manifest: Manifest) -> Iterator[str]:
    known, fakes = manifest.adversary.known_records, manifest.adversary.fake_values
    sizes = {group.size for group in manifest.setting}
    counted = sum(value.count for value in manifest.values)
    for what, total in (("st's rows", manifest.tables.st.rows), ("the values' counts", counted)):
        if total != manifest.slots:
            yield f"{what} add up to {_format(total)}, and the manifest says {_format(manifest.slots)}"
    repeated = len(manifest.values) - len({value.value for value in manifest.values})
    if repeated:
        yield f"{plural(repeated, 'value')} listed more than once"
    codes = {*manifest.missing} - {manifest.null_value}
    listed = sum(1 for value in manifest.values if value.value in codes)
    if listed:
        yield f"{plural(listed, 'value is', 'values are')} also listed as codes for what is missing"
    for value in manifest.values:
        worst = value.worst
        case = f"the worst case of {quote(value.value)}, {_format(worst.count)} of {_format(worst.size)}"
        if worst.count > min(value.count, worst.size + fakes) or worst.size not in sizes:
            yield f"{case}, cannot be"
        if worst.count > Fraction(value.limit) * (worst.size - known) and value.applies:
            less = f" less {known:,} known" if known else ""
            yield f"{case}{less}, is above its limit {_format(Fraction(value.limit))}"


def _strata(manifest: Manifest, strata: Strata) -> Iterator[str]:
    """Rows and settings of the strata, which add up to those of the release; the tree is looked at by itself."""
    disordered, other = 0, 0
    together: Counter[int] = Counter()
    for stratum in strata.strata:
        sizes = [group.size for group in stratum.setting]
        disordered += sorted(set(sizes)) != sizes
        people = sum(group.size * group.buckets for group in stratum.setting)
        full = people * stratum.rows_each
        other += full < stratum.rows if manifest.chain is not None else full != stratum.rows
        for group in stratum.setting:
            together[group.size] += group.buckets
    if disordered:
        yield f"the sizes of {plural(disordered, 'stratum', 'strata')} are not ascending"
    if other:
        than = "other rows than" if manifest.chain is None else "more rows than"
        yield f"{plural(other, 'stratum has', 'strata have')} {than} their settings add up to"
    rows = sum(stratum.rows for stratum in strata.strata)
    if rows != manifest.rows:
        yield f"the strata's rows add up to {_format(rows)}, and the manifest says {_format(manifest.rows)}"
    stated: Counter[int] = Counter()
    for group in manifest.setting:
        stated[group.size] += group.buckets
    if together != stated:
        yield "the strata's settings do not add up to the setting"


def _apart(manifest: Manifest) -> Iterator[str]:
    """Values that do not apply, and the last stratum, which has the records with them and nobody else."""
    others = [value for value in manifest.values if not value.applies]
    strata = manifest.strata.strata if manifest.strata is not None else []
    if any(not stratum.applies for stratum in strata[:-1]):
        yield "a stratum of values that do not apply comes before others"
    if bool(others) != (manifest.apart is not None):
        yield "there are values that do not apply and no stratum for them, or such a stratum and no such values"
    if manifest.apart is None or not others:
        return
    if len(others) == len(manifest.values) or len(strata) == 1:
        yield "no value applies to anybody"
    if any(value.limit != "1" or value.group is not None for value in others):
        yield "a value that does not apply has a limit, or a group"
    rows, stated = sum(value.count for value in others), manifest.apart.rows
    if rows != stated:
        yield f"{_format(rows)} rows have values that do not apply, and their stratum has {_format(stated)}"
    if manifest.adversary.fake_values:
        yield "there are fake values, and values that do not apply"


def note_other_limits(manifest: Manifest, limits: Sequence[Fraction], report: Report) -> None:
    """Note where the manifest's limits are not those that the release is checked against."""
    pairs = zip(manifest.values, limits, strict=True)
    other = [(value, limit) for value, limit in pairs if Fraction(value.limit) != limit]
    if other:
        value, limit = other[0]
        report.note(
            f"{plural(len(other), 'value has', 'values have')} another limit in the manifest than in the limits "
            f"given; the first: {quote(value.value)}, {Fraction(value.limit)} and {limit}"
        )


def compare_values(manifest: Manifest, scan: Scan, limited_by_manifest: bool, report: Report) -> None:
    """Add what differs. Where the manifest's limits are those that count, a value it does not list has none."""
    counted = dict(scan.counts)
    nulls = counted.get(None, 0)
    listed = {value.value for value in manifest.values}
    unlisted = [text for text in counted if text is not None and text not in listed]
    if nulls:
        are = plural(nulls, "sensitive value is", "sensitive values are")
        report.fail(VALUES, f"{are} null, and the manifest has no name for nulls", nulls)
    elif scan.nulls and is_text(named_type(manifest.columns.sensitive.type)):
        are = plural(scan.nulls, "sensitive value is", "sensitive values are")
        report.fail(VALUES, f"{are} null, and text is to hold the name of nulls", scan.nulls)
    if unlisted:
        are = plural(len(unlisted), "value is", "values are")
        report.fail(VALUES, f"{are} not in the manifest; the first: {quote(unlisted[0])}", len(unlisted))
    if limited_by_manifest and (unlisted or nulls):
        without = len(unlisted) + bool(nulls)
        report.fail(LIMITS, f"{plural(without, 'value has', 'values have')} no limit", without)
    _compare_counts(manifest, counted, report)
    _compare_worst(manifest, scan, report)
    if not scan.values_in_order:
        report.fail(VALUES, "the manifest's values are not in the order of the sensitive column's type")


def _compare_counts(manifest: Manifest, counted: dict[str | None, int], report: Report) -> None:
    other = [value for value in manifest.values if counted.get(value.value, 0) != value.count]
    if other:
        first = other[0]
        report.fail(
            VALUES,
            f"{plural(len(other), 'value has', 'values have')} another count than the manifest says; the first: "
            f"{quote(first.value)} {counted.get(first.value, 0):,}, not {first.count:,}",
            len(other),
        )


def _compare_worst(manifest: Manifest, scan: Scan, report: Report) -> None:
    known = manifest.adversary.known_records

    def differs(value: Value) -> bool:
        count, size = scan.worst[value.value]
        if manifest.is_strict:
            return (count, size) != (value.worst.count, value.worst.size)
        return count * (value.worst.size - known) != value.worst.count * (size - known)

    other = [value for value in manifest.values if differs(value)]
    if other:
        first = other[0]
        count, size = scan.worst[first.value]
        report.fail(
            VALUES,
            f"{plural(len(other), 'value has', 'values have')} another worst case than the manifest says; the "
            f"first: {quote(first.value)} {count:,} of {size:,}, not {first.worst.count:,} of {first.worst.size:,}",
            len(other),
        )


def _is_rounded(number: float, exact: Fraction) -> bool:
    return math.isfinite(number) and abs(Fraction(number) - exact) <= _ROUNDING * exact


def _format(number: int | Fraction) -> str:
    return _shorten(f"{number:,}" if isinstance(number, int) else str(number))


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
