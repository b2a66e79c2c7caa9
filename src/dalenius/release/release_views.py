"""Releases with several sensitive columns or several rows a person: all their tables, one column, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence

from dalenius.errors import NoSuchColumnError, UsageError
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.release.two_tables import TableFile


def all_tables(manifest: Manifest) -> list[TableFile]:
    """QIT, for each sensitive column ST and, if there is one, its table of groups, and the tables of tuples."""
    views = [manifest.view(number) for number in range(manifest.sets)]
    of_columns = [table for view in views for table in (view.tables.st, view.group_table) if table is not None]
    return [manifest.tables.qit, *of_columns, *(one.table for one in manifest.together)]


def sensitive_columns(manifest: Manifest) -> tuple[str, ...]:
    """The names of the sensitive columns, in their order."""
    return manifest.sensitive_names


def in_a_few_words(manifest: Manifest) -> str:
    """How much there is in a release."""
    who = f"{manifest.people:,} people with " if manifest.persons is not None else ""
    values = sum(len(manifest.view(number).values) for number in range(manifest.sets))
    return f"{who}{manifest.rows:,} records in {manifest.buckets:,} buckets, {values:,} sensitive values"


def view_of(release: ReleaseFolder, column: str) -> ReleaseFolder:
    """The release with one of its sensitive columns alone."""
    names = sensitive_columns(release.manifest)
    if column not in names:
        raise NoSuchColumnError(
            f"the release has no sensitive column {column!r}", f"It has {', '.join(map(repr, names))}."
        )
    return release.view(names.index(column))


def together_of(release: ReleaseFolder, columns: Sequence[str]) -> ReleaseFolder:
    """The release with the table of tuples that has all of these columns."""
    kept = [one.columns for one in release.manifest.together]
    number = next((place for place, names in enumerate(kept) if set(columns) <= set(names)), None)
    if number is None or not columns:
        listed = "; ".join(", ".join(map(repr, names)) for names in kept) or "none"
        raise NoSuchColumnError(
            f"the release does not keep {' and '.join(map(repr, columns)) or 'these columns'} together",
            f"It keeps together: {listed}.",
        )
    return release.kept_together(number)


def require_plain(manifest: Manifest, what: str) -> None:
    """Refuse a release in which people have several rows or values, for code that takes a row for a person.

    `what` does not do that, and begins the sentence.
    """
    if not manifest.is_plain:
        raise UsageError(
            f"{what} is for releases in which everybody has one row and one sensitive value; {_why_not(manifest)}",
            "Publish a table with one row a person and one sensitive column to use it.",
        )


def _why_not(manifest: Manifest) -> str:
    """What this release has instead."""
    if manifest.persons is not None:
        return f"in this one {manifest.people:,} people have {manifest.rows:,} rows"
    if manifest.others:
        return f"this one has {manifest.sets:,} sensitive columns"
    return f"in this one the sensitive column is made of {len(manifest.columns.sensitive.of):,} columns"
