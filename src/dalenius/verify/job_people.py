"""What a job says of people and of sensitive columns, compared with a release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from dalenius.policy.job import Job
from dalenius.release.manifest import Manifest
from dalenius.verify.findings import JOB, Report, plural, quote

if TYPE_CHECKING:
    from dalenius.tables.compare import SourceTable

_NAMED = 12  # columns, in a sentence


def check_person(job: Job, manifest: Manifest, source: SourceTable | None, report: Report) -> None:
    """Whether rows may count where the job says that people do: only if nobody has several, which the table shows."""
    person = job.table.person
    if person is None or manifest.persons is not None:
        return
    if source is None:
        report.note(
            f"the job says that {quote(person)} tells people apart, and in the release every row is a person: that is "
            "the same if nobody has several rows, which verifying against the table shows"
        )
        return
    source.require_columns([person])
    several = source.occurrences(person).several
    if several:
        have = plural(several, "of them has several rows", "of them have several rows")
        report.fail(
            JOB,
            f"the job says that {quote(person)} tells people apart, {have}, and in the release every row is a person",
            several,
        )


def sensitive_problems(asked: str | list[str | dict[str, Any]], manifest: Manifest) -> Iterator[str]:
    """The sensitive sets by their names and columns, in their order."""
    entries = [manifest.columns.sensitive, *(one.column for one in manifest.others)]
    has = [(entry.name, entry.of) for entry in entries]
    given = [asked] if isinstance(asked, str) else asked
    sets: list[dict[str, Any]] = [{"columns": [one]} if isinstance(one, str) else one for one in given]
    said = [(one.get("name", one["columns"][0]), one["columns"]) for one in sets]
    if said != has:
        plain = len(said) == 1 and len(said[0][1]) == 1
        which = "sensitive column is" if plain else "sensitive columns are"
        yield f"the job says that the {which} {_sets(said)}, and the release has {_sets(has)}"


def _sets(sets: list[tuple[str, list[str]]]) -> str:
    """In words; a set of several columns, or of one with another name, with its columns."""
    words = [quote(name) if columns == [name] else f"{quote(name)} ({listed(columns)})" for name, columns in sets]
    return ", ".join(words[:_NAMED]) + (" and more" if len(words) > _NAMED else "")


def person_problems(asked: str, manifest: Manifest) -> Iterator[str]:
    """That rows are counted by people is for `check_person`."""
    if asked in published_columns(manifest):
        yield f"the job says that {quote(asked)} tells people apart, and the release publishes it"


def most_rows_problems(asked: int, manifest: Manifest) -> Iterator[str]:
    """Where every row is a person, nobody has more than one."""
    most = manifest.persons.most_rows if manifest.persons is not None else asked
    if most != asked:
        has = "the release does not limit them" if most is None else f"the release has {most:,}"
        yield f"the job says that people have at most {plural(asked, 'row')}, and {has}"


def together_problems(asked: list[list[str]], manifest: Manifest) -> Iterator[str]:
    """Columns that are kept together, in any order."""
    has = [one.columns for one in manifest.together]
    if {frozenset(columns) for columns in asked} != {frozenset(columns) for columns in has}:
        kept = f"keeps {_lists(has)} together" if has else "keeps no columns together"
        yield f"the job says that {_lists(asked)} are kept together, and the release {kept}"


def unasked_together(job: Job, manifest: Manifest) -> Iterator[str]:
    """Columns that are kept together though the job, which names them, does not say so: that protects people less."""
    if manifest.together and not job.table.keep_together and job.table.sensitive is not None:
        yield f"the release keeps {_lists(one.columns for one in manifest.together)} together, and the job does not"


def _lists(lists: Iterable[list[str]]) -> str:
    return "; ".join([listed(columns) for columns in lists][:_NAMED])


def published_columns(manifest: Manifest) -> set[str]:
    """All columns of the table that the release has."""
    entries = [manifest.columns.sensitive, *(one.column for one in manifest.others)]
    return {column.name for column in manifest.columns.quasi_identifiers}.union(*(entry.of for entry in entries))


def listed(names: Iterable[str]) -> str:
    """The first few of some names, in a sentence."""
    quoted = [quote(name) for name in names]
    return ", ".join(quoted[:_NAMED]) + (" and more" if len(quoted) > _NAMED else "")
