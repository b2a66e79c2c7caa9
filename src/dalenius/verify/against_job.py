"""Whether a release is what a job asks for: every key of the job is compared, or a note says that nobody can see it.

`BY_MANIFEST`, `BY_LIMITS`, `BY_EXPOSURE` and `UNSEEN` have each key of a job exactly once. Only what a job says is
compared, and exactly: a release with more fake values than the job asks for is not what was asked for either. A job
that says nothing of known records and fake values asks for none; a release with some was made with options of
`publish`, which override the job, and protects nobody less. That is a note.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dalenius.model.exposure import Exposure
from dalenius.model.plan import Status
from dalenius.policy.job import Job, read_job
from dalenius.policy.limits import LimitPolicy
from dalenius.release.manifest import Cut, Manifest
from dalenius.verify.findings import JOB, Report, plural, quote
from dalenius.verify.job_people import (
    listed,
    most_rows_problems,
    person_problems,
    published_columns,
    sensitive_problems,
    together_problems,
    unasked_together,
)
from dalenius.verify.stated_people import about

_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_VALUES_NAMED = 3
_CODES = ("table.null_value", "table.missing")  # of each set, where there are several
_NOT_FOUND = "the time was too short for it, or the method finds nothing better"


def as_job(job: Job | str | os.PathLike[str]) -> Job:
    """A job, read from its file if it is given by a path."""
    return job if isinstance(job, Job) else read_job(Path(job))


def limits_of(job: Job, sets: int = 1) -> list[LimitPolicy | None]:
    """The limits that a job gives each of so many sensitive columns, and the groups; None for those of the manifest.

    A job that names other columns than the release is not what was published: its limits are not about them.
    """
    policies = job.policies()
    if job.table.sensitive is None:
        policies *= sets
    if len(policies) != sets:
        return [None] * sets
    return [one if one.has_limits or one.grouping is not None else None for one in policies]


def check_job(job: Job, manifest: Manifest, report: Report) -> None:
    """Compare what the job says with the manifest. The limits, and values in the clear, come when ST is read."""
    said = job.said()
    for key, asked in said.items():
        if key in BY_MANIFEST and not (key in _CODES and isinstance(job.table.sensitive, list)):
            for problem in BY_MANIFEST[key](asked, manifest):
                report.fail(JOB, problem)
    for problem in (*_codes_of_sets(job, manifest), *_not_applicable(job, manifest), *unasked_together(job, manifest)):
        report.fail(JOB, problem)
    unseen = [key for key in said if key in UNSEEN]
    if unseen:
        report.note(f"cannot be seen in a release, and was not compared with the job: {', '.join(unseen)}")
    _note_gap(said.get("solve.gap"), manifest, report)
    _note_adversary(job, manifest, report)
    seen = [key for key in said if key not in UNSEEN]
    holds = f"the release is what the job says: {', '.join(seen)}"
    report.holds[JOB] = holds if seen else "nothing that the job says can be seen in a release"


def check_clear_values(job: Job, manifest: Manifest, exposure: Exposure | None, report: Report) -> None:
    """Whose value is published outright, though the job does not ask for it.

    A limit of 1 for a value by its name asks for it, but not for buckets of a single record. A job without limits says
    nothing of this, unless it says so.
    """
    allowed = job.limits.publish_in_the_clear
    if not allowed and (any(one.has_limits for one in job.policies()) or allowed is not None):
        if exposure is None:
            report.not_checked([JOB], "the sensitive values cannot be read")
        else:
            for problem in _clear_values(job, manifest, exposure):
                report.fail(JOB, f"{problem}, and the job does not say publish_in_the_clear")
    if any(finding.check == JOB for finding in report.findings):
        report.note("options of publish override the job: if some were given and meant, write them into the job")


def _clear_values(job: Job, manifest: Manifest, exposure: Exposure) -> Iterator[str]:
    policies = job.policies() if len(job.policies()) == manifest.sets else job.policies()[:1] * manifest.sets
    by_name = {
        about(manifest, k) + value: limit for k, one in enumerate(policies) for value, limit in one.values.items()
    }
    clear = [value for value in exposure.values if value.outright and by_name.get(value.value) != 1]
    if clear:
        clear.sort(key=lambda value: -value.outright)
        people = max(1, round(sum(value.outright for value in clear)))
        names = ", ".join(quote(value.value) for value in clear[:_VALUES_NAMED])
        more = " and others" if len(clear) > _VALUES_NAMED else ""
        have = "person has" if people == 1 else "people have"
        yield f"{people:,} of {manifest.people:,} {have} their value published outright ({names}{more})"
    alone = sum(group.buckets for group in manifest.own_setting if group.size == 1)
    if alone:
        single = "person" if manifest.persons is not None else "record"
        yield f"{plural(alone, 'bucket holds', 'buckets hold')} a single {single}"


def _quasi_identifiers(asked: list[str], manifest: Manifest) -> Iterator[str]:
    names = [column.name for column in manifest.columns.quasi_identifiers]
    if names != asked:
        yield (
            f"the job says that the quasi-identifiers are {listed(asked)}, in this order, and the release has "
            f"{listed(names)}"
        )


def _identifiers(asked: list[str], manifest: Manifest) -> Iterator[str]:
    for name in asked:
        if name in published_columns(manifest):
            yield f"the job lists {quote(name)} under identifiers, and the release publishes it"


def _null_value(asked: str, manifest: Manifest) -> Iterator[str]:
    """A manifest has the name only if there are nulls."""
    if manifest.null_value not in (None, asked):
        has = quote(str(manifest.null_value))
        yield f"the job says that nulls count as {quote(asked)}, and the release counts them as {has}"


def _missing(asked: list[str], manifest: Manifest) -> Iterator[str]:
    """As with nulls, a manifest has the codes only if something is missing."""
    stated = set(manifest.missing)
    for code in asked:
        if manifest.null_value is not None and code not in stated:
            yield f"the job says that {quote(code)} stands for a missing value, and the release counts it as a value"
    others = sorted(stated - set(asked))
    if others:
        yield f"the release counts {listed(others)} as missing, and the job does not say so"


def _codes_of_sets(job: Job, manifest: Manifest) -> Iterator[str]:
    """What is missing in each of several sensitive columns: its own codes, or those of the whole table."""
    if not isinstance(job.table.sensitive, list) or len(job.table.sets) != manifest.sets:
        return
    for number, one in enumerate(job.table.sets):
        seen = manifest.view(number)
        problems = [*(_null_value(one.null_value, seen) if one.null_value is not None else ())]
        problems += _missing(list(one.missing), seen) if one.missing else ()
        for problem in problems:
            yield f"{quote(one.name)}: {problem}"


def _not_applicable(job: Job, manifest: Manifest) -> Iterator[str]:
    """A value that does not apply is published outright: the job has to name it, and what it names has to be marked."""
    named = set(job.table.not_applicable)
    unnamed = [value.value for value in manifest.values if not value.applies and value.value not in named]
    if unnamed:
        yield f"the release sets people with {listed(unnamed)} apart, and the job does not say not_applicable of it"
    kept = [value.value for value in manifest.values if value.applies and value.value in named]
    if kept:
        yield f"the job says that {listed(kept)} does not apply, and the release has it among the other values"


def _strata(asked: str | int | list[str], manifest: Manifest) -> Iterator[str]:
    """A table that cannot be cut is published as one, whatever was asked for.

    People with different numbers of rows are always apart: the job is about strata of those with equally many. So it is
    with those who came at different times, in a chain of releases.
    """
    word = asked.strip().casefold() if isinstance(asked, str) else ""
    if word == "auto" or manifest.strata is None:
        return
    own = [stratum for stratum in manifest.strata.strata if stratum.applies]
    number = max(Counter((stratum.since, stratum.rows_each) for stratum in own).values())
    most = 1 if word == "none" else int(word) if _NUMBER.fullmatch(word) else asked
    if isinstance(most, int):
        if number > max(1, most):
            said = "no strata" if most <= 1 else f"at most {most:,} strata"
            where = " of people with equally many rows" if manifest.persons is not None else ""
            yield f"the job says {said}, and the release has {number:,}{where}"
        return
    columns = [most] if isinstance(most, str) else most
    cuts = dict.fromkeys(node.column for node in manifest.strata.tree if isinstance(node, Cut))
    others = [column for column in cuts if column is not None and column not in columns]
    if others:
        yield f"the job says strata by {listed(columns)}, and the release is cut by {listed(others)} too"


def _method(asked: str, manifest: Manifest) -> Iterator[str]:
    if manifest.method != asked:
        yield f"the job says the method {asked}, and the release was made by {manifest.method}"


def _min_size(asked: int, manifest: Manifest) -> Iterator[str]:
    yield from _sizes(f"at least {asked:,}", sum(group.buckets for group in manifest.own_setting if group.size < asked))


def _max_size(asked: int, manifest: Manifest) -> Iterator[str]:
    yield from _sizes(f"at most {asked:,}", sum(group.buckets for group in manifest.own_setting if group.size > asked))


def _sizes(asked: str, others: int) -> Iterator[str]:
    if others:
        has = plural(others, "bucket of the release has", "buckets of the release have")
        yield f"the job says {asked} records to a bucket, and {has} another size"


def _gap(asked: Any, manifest: Manifest) -> Iterator[str]:
    """Optimal is a release whose gap is within the one that was asked for."""
    if manifest.status is Status.OPTIMAL and manifest.gap is not None and manifest.gap > float(asked):
        yield f"the job says a gap of {asked}, and the release has {manifest.gap:.6g} and says that it was reached"


def _note_gap(asked: Any, manifest: Manifest, report: Report) -> None:
    if asked is None or manifest.status is Status.OPTIMAL:
        return
    if manifest.gap is None or manifest.gap > float(asked):
        has = "unknown" if manifest.gap is None else f"{manifest.gap:.6g}"
        report.note(f"the gap of the release is {has}, and solve.gap in the job is {asked}: {_NOT_FOUND}")


def _corrupted(asked: int, manifest: Manifest) -> Iterator[str]:
    known = manifest.adversary.known_records
    if known != asked:
        yield f"the job says {plural(asked, 'known record')}, and the release was made against {known:,}"


def _fakes(asked: int, manifest: Manifest) -> Iterator[str]:
    fakes = manifest.adversary.fake_values
    if fakes != asked:
        yield f"the job says {plural(asked, 'fake value')} in every bucket, and the release has {fakes:,}"


def _note_adversary(job: Job, manifest: Manifest, report: Report) -> None:
    """More protection than the job asks for."""
    known, fakes = manifest.adversary.known_records, manifest.adversary.fake_values
    more = [plural(known, "known record")] if known and job.adversary.corrupted is None else []
    more += [plural(fakes, "fake value") + " in every bucket"] if fakes and job.adversary.fakes is None else []
    if manifest.groups is not None and all(one.grouping is None for one in job.policies()):
        more.append(plural(len(manifest.groups), "group") + " of values")
    if manifest.persons is not None and job.table.person is None:
        more.append("people who may have several rows")
    if manifest.missing and not (job.table.missing or isinstance(job.table.sensitive, list)):
        more.append(f"{listed(manifest.missing)} as missing values")
    if more:
        report.note(f"the job says nothing of it, and the release was made with {' and '.join(more)}")


# Problems that the manifest shows, from what the job says under a key.
BY_MANIFEST: dict[str, Callable[[Any, Manifest], Iterator[str]]] = {
    "table.sensitive": sensitive_problems,
    "table.quasi_identifiers": _quasi_identifiers,
    "table.identifiers": _identifiers,
    "table.person": person_problems,
    "table.most_rows": most_rows_problems,
    "table.keep_together": together_problems,
    "table.null_value": _null_value,
    "table.missing": _missing,
    "table.strata": _strata,
    "solve.method": _method,
    "solve.min_size": _min_size,
    "solve.max_size": _max_size,
    "solve.gap": _gap,
    "adversary.corrupted": _corrupted,
    "adversary.fakes": _fakes,
}
# What the check of the limits compares.
BY_LIMITS = (
    "limits.odds",
    "limits.floor",
    "limits.theta",
    "limits.base",
    "limits.uniform",
    "limits.l_diversity",
    "limits.beta",
    "limits.values",
    "limits.groups",
    "limits.levels",
    "limits.allow_absent",
    "groups.named",
    "groups.csv",
    "groups.prefix",
    "groups.prefixes",
    "groups.tree",
    "groups.cuts",
    "groups.quantiles",
    "groups.width",
    "groups.from",
    "groups.ungrouped",
)
BY_EXPOSURE = ("limits.publish_in_the_clear", "table.not_applicable")  # what is published outright
# What leaves no trace in a release, or is not for it.
UNSEEN = (
    "table.strict",
    "solve.time_limit",
    "adversary.avoid_ruled_out",
    "report.title",
    "report.dataset",
    "report.controller",
    "report.purpose",
)
