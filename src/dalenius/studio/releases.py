"""The releases that Studio knows: those that it was given, and those that were made here."""

from __future__ import annotations

import re
import secrets
import shlex
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

from dalenius.attack.audit import audit_object
from dalenius.errors import UsageError
from dalenius.model.attack_result import ATTACKS
from dalenius.model.concern import Concern, advise, by_weight
from dalenius.model.groups import NO_GROUP, Group, Groups
from dalenius.policy.job import (
    AdversarySection,
    GroupsSection,
    Job,
    LimitsSection,
    ReportSection,
    TableSection,
    job_text,
)
from dalenius.policy.job_sections import SetLimits, SetSection
from dalenius.release.folder import open_release
from dalenius.release.manifest import Manifest
from dalenius.release.staging import abandon, is_staged, remove_left_behind
from dalenius.report.by_column import named
from dalenius.report.front_page import finding_in_words, front_page
from dalenius.studio.draft import Draft
from dalenius.studio.forms import PublishForm
from dalenius.studio.messages import not_found, on_a_page
from dalenius.studio.studio_release import StudioRelease
from dalenius.studio.table_entries import TableEntry
from dalenius.verify.findings import verdict_object

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}")


class Releases:
    """All releases, in order of arrival."""

    def __init__(self, out: Path | None, unsaved: Path, head: ReportSection) -> None:
        """New releases go into folders of their own under `out`, or under `unsaved` if there is no `out`.

        `head` is that of all reports until somebody writes another one.
        """
        self._out, self._unsaved, self._head = out, unsaved, head
        self._heads: dict[str, ReportSection] = {}  # by table
        self._lock = threading.Lock()
        self._releases: dict[str, StudioRelease] = {}
        self._target: Path | None = None  # of the release that was started last
        if out is not None:
            remove_left_behind(out)

    def target(self, name: str) -> Path:
        """Where to make a new release with this name; an error if the name is taken or not plain."""
        if not _PLAIN_NAME.fullmatch(name):
            raise UsageError(
                "the name of a release has 1 to 60 letters, digits, dots, hyphens and underscores, and no dot first",
                "Give it another name.",
            )
        taken = any(other.name.casefold() == name.casefold() for other in self.all() if other.table or not other.saved)
        path = self._out / name if self._out is not None else self._unsaved / secrets.token_hex(12)
        if taken or path.exists() or path.is_symlink():
            raise UsageError("there is a release with this name already", "Give it another name.")
        return path

    def begin(self, target: Path) -> None:
        """Note that a release is being made at this path."""
        self._target = target

    def add(self, release: StudioRelease) -> None:
        """Add a complete release."""
        release.set_head(self.head(release.table))
        with self._lock:
            self._releases[release.id] = release

    def head(self, table: TableEntry | None) -> ReportSection:
        """What reports about a table are headed with."""
        return self._heads.get(table.id, self._head) if table is not None else self._head

    def set_head(self, release: StudioRelease, head: ReportSection) -> None:
        """Another head for the report of a release, and of all that were or will be made from the same table."""
        table = release.table
        if table is not None:
            self._heads[table.id] = head
        for other in self.all():
            if other is release or (table is not None and other.table is not None and other.table.id == table.id):
                other.set_head(head)

    def open(self, path: Path) -> None:
        """Add a release that was made before."""
        folder = open_release(path)
        name = path.resolve().name or "release"
        self.add(StudioRelease(id=new_id(), name=name, folder=folder, saved=True))

    def get(self, identifier: str) -> StudioRelease:
        """The release with an ID."""
        with self._lock:
            release = self._releases.get(identifier)
        if release is None:
            raise not_found()
        return release

    def all(self) -> list[StudioRelease]:
        """Every release."""
        with self._lock:
            return list(self._releases.values())

    def forget_table(self, identifier: str) -> None:
        """A table is gone: releases that were made from it have no truth any more."""
        for release in self.all():
            if release.table is not None and release.table.id == identifier:
                release.table = None

    def abandon_unfinished(self) -> None:
        """The program ends in the middle of publishing: leave nothing beside the target."""
        if self._target is not None:
            abandon(self._target)

    def has_leftovers(self) -> bool:
        """Whether something is still beside the target of the release that was started last."""
        return self._target is not None and is_staged(self._target)


def new_id() -> str:
    """An ID that nobody can guess."""
    return secrets.token_urlsafe(12)


def card_object(release: StudioRelease) -> dict[str, Any]:
    """GET /api/releases/ID/outcomes: what is known about it, and the one verdict that follows; null before a check.

    The verdict and the words are those of the report. The findings have what the look at the table found as well.
    """
    known = release.knowledge()
    audit = audit_object(known.audited.audit) if known.audited is not None else None
    card = None
    if known.verdict is not None:
        twin = release.twin_of(known)
        findings = [one.as_object() for one in _every_concern(twin["findings"], release.concerns)]
        verdict = str(advise(map(Concern.of_object, findings)))
        front = front_page({**twin, "findings": findings, "verdict": verdict})
        card = {
            **{name: front[name] for name in ("verdict", "exposure", "bands", "attackers", "counts")},
            "advice": verdict,
            "people": twin["exposure"]["bands"] if twin["exposure"] is not None else None,
            "several": twin["exposure"] is not None and twin["exposure"]["several"],
            "findings": [on_card(finding, release.has_truth) for finding in findings],
        }
    return {
        "card": card,
        "verify": verdict_object(known.verdict) if known.verdict is not None else None,
        "own_groups": _own_groups(release.draft) if release.draft is not None else [],
        "audit": audit,
        "attackers": [{"name": name, "who": who} for name, who in ATTACKS.items() if audit and name in audit],
        "notes": list(release.notes),
    }


def _own_groups(draft: Draft) -> list[str]:
    """Groups with limits of their own, as a verdict names them: with several sensitive columns, behind the column's."""
    sets = draft.roles.all_sets
    if len(sets) < 2:
        return list(draft.limits.groups)
    return [named(one.called, name) for one in sets for name in draft.limits_of(one.called)[0].groups]


def on_card(finding: dict[str, Any], has_table: bool = True) -> dict[str, Any]:
    """A finding in words, for people who have pages instead of options."""
    answer = on_a_page(finding["answer"] or "", finding["code"], has_table)
    words = finding_in_words({**finding, "answer": answer})
    values = finding["values"] if finding["code"] == "missing-codes" else []  # the page offers to name them
    found = {name: finding[name] for name in ("code", "severity", "columns")}
    return {**found, "values": values, **words}


def _every_concern(found: list[dict[str, Any]], looked: tuple[Concern, ...]) -> tuple[Concern, ...]:
    """What was found, and what the look at the table said before: an audit with the table says some of it again."""
    concerns = [Concern.of_object(one) for one in found]
    again = {(one.code, one.severity) for one in concerns}
    return by_weight([*concerns, *(one for one in looked if (one.code, one.severity) not in again)])


def publish_command(table: TableEntry | None, form: PublishForm) -> str:
    """The command that makes the same release from a job file."""
    words = ["dalenius", "publish", table.file if table is not None else "TABLE"]
    words += ["--table", table.table] if table is not None and table.table is not None else []
    words += ["--job", "job.toml", "--out", form.name]
    words += ["--format", form.format] if form.format != "parquet" else []
    return "".join(c if c.isprintable() else "?" for c in shlex.join(words))


def job_of(release: StudioRelease) -> str:
    """The job file of a release: that of its draft, or one from the manifest, which does not have the rule."""
    return release.write_job() if release.write_job is not None else _job_of(release.manifest, release.head)


_NO_PERSON = (
    "# A release does not name the column that says whose rows they are: write it under [table], person = ...\n\n"
)


def _job_of(manifest: Manifest, head: ReportSection) -> str:
    """A job file from a manifest, with the limits one by one."""
    persons = manifest.persons
    job = Job(
        table=TableSection(
            sensitive=_sets_of(manifest) if not manifest.is_plain else manifest.columns.sensitive.name,
            keep_together=[list(one.columns) for one in manifest.together],
            quasi_identifiers=[column.name for column in manifest.columns.quasi_identifiers],
            null_value=manifest.null_value if manifest.is_plain else None,
            missing=list(manifest.missing) if manifest.is_plain else [],
            most_rows=persons.most_rows if persons is not None else None,
            not_applicable=[value.value for value in manifest.values if not value.applies],
            strata="auto" if manifest.strata is not None else "none",
        ),
        limits=LimitsSection(**_limits_of(manifest)) if manifest.is_plain else LimitsSection(),
        adversary=AdversarySection(corrupted=manifest.adversary.known_records, fakes=manifest.adversary.fake_values),
        report=head,
        groups=_groups_of(manifest) if manifest.is_plain else GroupsSection(),
    )
    return (_NO_PERSON if persons is not None else "") + job_text(job)


def _limits_of(manifest: Manifest) -> dict[str, Any]:
    """The limits of one sensitive column, but for those that follow from groups."""
    groups = manifest.groups or []
    tree = Groups(
        tuple(Group(group.name, _limit(group.limit), _place(group.parent)) for group in groups),
        tuple(_place(value.group) for value in manifest.values),
    )
    by_groups = tree.tightest([Fraction(1)] * len(manifest.values))
    own = [
        value
        for value, above in zip(manifest.values, by_groups, strict=True)
        if value.applies and (value.limit != "1" or above == 1)
    ]
    return {
        "values": {value.value: value.limit for value in own},
        "groups": {group.name: group.limit for group in groups if group.limit is not None},
    }


def _sets_of(manifest: Manifest) -> list[SetSection]:
    """The sensitive columns, each with its limits and codes."""
    sections = []
    for view in map(manifest.view, range(manifest.sets)):
        column = view.columns.sensitive
        alone = column.of == [column.name]
        sections.append(
            SetSection(
                columns=list(column.of),
                name=None if alone else column.name,
                null_value=view.null_value,
                missing=list(view.missing),
                limits=SetLimits(**_limits_of(view)),
                groups=_groups_of(view),
            )
        )
    return sections


def _groups_of(manifest: Manifest) -> GroupsSection:
    if manifest.bands is None:
        return _tree_by_hand(manifest) if manifest.groups else GroupsSection()
    cuts, ends = [list(manifest.bands)], set[str]()
    for level in dict.fromkeys(group.level for group in manifest.groups or []):  # coarser bands, named by their ends
        ends |= {word for group in manifest.groups or [] if group.level == level for word in group.name.split()}
        cuts.insert(-1, [cut for cut in manifest.bands if cut in ends])
    return GroupsSection.model_validate({"cuts": cuts if len(cuts) > 1 else cuts[0]})


def _tree_by_hand(manifest: Manifest) -> GroupsSection:
    """The groups as a tree. Values beside groups get a group of their own, without a limit: a tree has either."""
    groups = manifest.groups or []
    inside: dict[int | None, list[int]] = {}
    values: dict[int | None, list[str]] = {}
    for place, group in enumerate(groups):
        inside.setdefault(group.parent, []).append(place)
    for value in manifest.values:
        values.setdefault(value.group, []).append(value.value)
    taken = {group.name for group in groups}

    def below(place: int) -> dict[str, Any] | list[str]:
        if place not in inside:
            return values.get(place, [])
        name = f"{groups[place].name}: other values"
        while name in taken:
            name += "'"
        rest = {name: values[place]} if place in values else {}
        return {groups[at].name: below(at) for at in inside[place]} | rest

    top = {groups[at].name: below(at) for at in inside.get(None, [])}
    return GroupsSection(tree=top, ungrouped=values.get(None, []))


def _limit(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def _place(number: int | None) -> int:
    return NO_GROUP if number is None else number
