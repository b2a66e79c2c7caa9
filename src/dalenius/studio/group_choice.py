"""Limits and groups of values in a draft: where groups come from, here and in job files that Studio reads and writes.

A form names a classification, lengths of prefixes or bands of numbers by itself. What does not fit into it, a file or
the tree of a job file, stays here, and pages know it by an ID. A file is read once, when it arrives.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dalenius.errors import JobFileError, PolicyError
from dalenius.policy.bands import exact_text
from dalenius.policy.exact import exact_fraction
from dalenius.policy.group_sources import grouping_of
from dalenius.policy.grouping import Grouping
from dalenius.policy.job import Job
from dalenius.policy.job_sections import GroupsSection, RuleSection, SetLimits
from dalenius.policy.limits import LimitPolicy
from dalenius.studio.forms import RULE_NUMBERS, GroupingForm, LevelRule, LimitsForm
from dalenius.studio.messages import not_found

_OF_THE_JOB = "job"  # the ID of what a job file brought along for its general limits: there is one job file
LEVELS = ":"  # what stands between levels of bands, the coarser first
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_BETWEEN_CUTS = re.compile(r"[\s,;]+")


@dataclass(frozen=True)
class GroupSource:
    """A file of groups, or the tree of a job file: its ID, its name for people, and its groups.

    `section` is what a job says of it on this machine. `written` is what a job file says that goes elsewhere: a file
    that was uploaded is looked for beside it.
    """

    id: str
    name: str
    grouping: Grouping
    section: GroupsSection
    written: GroupsSection

    def state(self) -> dict[str, str]:
        """As GET /api/state has it."""
        return {"id": self.id, "name": self.name}


def limits_of_job(job: Job) -> tuple[LimitsForm, GroupSource | None]:
    """The general limits of a job file as a draft has them, and the source of their groups if these fit into no form.

    Bands are the values of a draft: it has their limits under `values`, and their rule is the rule.
    """
    general = job.limits.policy(job.groups.grouping())  # refuses two rules, and texts that are not numbers
    limits, source = limits_of_section(job.limits, job.groups, general, _OF_THE_JOB)
    return limits.model_copy(update={"publish_in_the_clear": job.limits.publish_in_the_clear}), source


def limits_of_section(
    section: SetLimits, in_groups: GroupsSection, policy: LimitPolicy, identifier: str
) -> tuple[LimitsForm, GroupSource | None]:
    """The same of one section, whose policy this is. Pages know a tree of the job file by the identifier."""
    fields = dict[str, Any]()
    grouping, source = _groups_of(in_groups, identifier)
    rules: RuleSection = section.levels.get("band", section) if grouping.has_bands else section
    for rule in RULE_NUMBERS:
        number = getattr(rules, rule)
        if number is not None:
            fields[rule] = str(number)
            if rule not in ("floor", "base"):
                fields["rule"] = rule
    if "theta" in fields:
        fields.setdefault("base", "0")
    elif (section.values or section.groups or section.levels) and "rule" not in fields:
        fields["rule"] = "none"
    full_name = policy.grouping.full_name if policy.grouping is not None else str
    groups = {full_name(name): str(limit) for name, limit in section.groups.items()}
    if len(groups) < len(section.groups):
        raise JobFileError("the job file's limits.groups give one group two limits", "Keep one of them.")
    levels = {level: _rule_of(rule) for level, rule in section.levels.items()}
    fields["allow_absent"] = section.allow_absent
    values = {value: str(limit) for value, limit in section.values.items()}
    if grouping.has_bands and policy.grouping is not None:
        if levels.pop("band", None) is not None:  # it is the rule now, and coarser bands keep the one that was
            coarser = [level for level in policy.grouping.levels if level != "band"]
            levels = dict.fromkeys(coarser, _rule_of(section)) | levels
        twice = next((name for name in groups if name in values), None)
        if twice is not None:
            raise JobFileError(f"the job file gives the band {twice!r} two limits", "Keep one of them.")
        if LEVELS not in getattr(grouping, grouping.source):  # or a name may be that of a coarser band
            values, groups = values | groups, {}
    return LimitsForm(**fields, values=values, grouping=grouping, groups=groups, levels=levels), source


def _rule_of(rule: RuleSection) -> LevelRule:
    numbers = {name: getattr(rule, name) for name in RULE_NUMBERS}
    return {name: str(number) for name, number in numbers.items() if number is not None}


def _groups_of(section: GroupsSection, identifier: str) -> tuple[GroupingForm, GroupSource | None]:
    """The groups of a job file, as a draft has them."""
    grouping, ungrouped = section.grouping(), list(section.ungrouped)
    if grouping is None:
        return GroupingForm(), None
    if grouping.bands is not None:
        start = _as_text(section.start) if section.start is not None else ""
        by = next(key for key in ("cuts", "quantiles", "width") if getattr(section, key) not in (None, []))
        fields = {"source": by, by: _typed(by, getattr(section, by)), "start": start, "ungrouped": ungrouped}
        return GroupingForm.model_validate(fields), None
    if grouping.kind == "prefix":
        lengths = ", ".join(map(str, grouping.prefix))
        return GroupingForm(source="prefix", prefix=lengths, ungrouped=ungrouped), None
    if section.named is not None:
        return GroupingForm.model_validate({"source": grouping.kind, "ungrouped": ungrouped}), None
    name = Path(section.csv).name if section.csv is not None else "the job file"
    kept = section.model_copy(update={"ungrouped": []})
    source = GroupSource(identifier, name, replace(grouping, ungrouped=()), kept, kept)
    return GroupingForm(source="file", file=source.id, ungrouped=ungrouped), source


def _typed(by: str, given: Any) -> str:
    """Numbers of a job file as somebody would type them: cuts with commas, and levels of bands with colons."""
    levels = given if isinstance(given, list) and (by != "cuts" or isinstance(given[0], list)) else [given]
    return f" {LEVELS} ".join(", ".join(map(_as_text, one if isinstance(one, list) else [one])) for one in levels)


def _as_text(number: Any) -> str:
    return exact_text(exact_fraction(number, "a number"))


def grouping_in_force(form: GroupingForm, source: GroupSource | None) -> Grouping | None:
    """The groups of a draft; an error if they make no sense."""
    if form.source == "file" and source is not None:
        return replace(source.grouping, ungrouped=tuple(form.ungrouped))
    section = _section(form)
    return grouping_of(section) if section else None


def groups_section(form: GroupingForm, source: GroupSource | None, *, written: bool) -> GroupsSection:
    """What a job says of the groups: one for this machine, or one that is written to go elsewhere."""
    if form.source == "file" and source is not None:
        section = source.written if written else source.section
        return section.model_copy(update={"ungrouped": list(form.ungrouped)})
    return GroupsSection(**_section(form))


def _section(form: GroupingForm) -> Mapping[str, Any]:
    if form.source in ("icd9", "icd10"):
        return {"named": form.source, "ungrouped": list(form.ungrouped)}
    if form.source == "prefix":
        lengths = [int(part) if part.isdecimal() else part for part in map(str.strip, form.prefix.split(","))]
        return {"prefix": lengths, "ungrouped": list(form.ungrouped)}
    if form.has_bands:
        parts: list[Any] = [part.strip() for part in getattr(form, form.source).split(LEVELS)]
        if not all(parts):
            raise PolicyError("nothing says where bands begin", "Write where to cut: 0, 10000, 25000.")
        if form.source == "cuts":
            parts = [[_number(cut) for cut in _BETWEEN_CUTS.split(part) if cut] for part in parts]
        else:
            parts = [_number(part) for part in parts]
        section = {form.source: parts if len(parts) > 1 else parts[0], "ungrouped": list(form.ungrouped)}
        return {**section, "from": _number(form.start)} if form.source == "width" and form.start.strip() else section
    return {}


def _number(typed: str) -> str | int:
    """A number as a job file has it."""
    text = typed.strip()
    return int(text) if _WHOLE.fullmatch(text) else text


class GroupSources:
    """The files of groups that arrived, and what the job file brought along. Threads may share it."""

    def __init__(self, folder: Path, of_job: Iterable[GroupSource]) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._sources = {source.id: source for source in of_job}

    def receive(self, name: str, content: bytes) -> GroupSource:
        """Keep a CSV file with groups; an error if it is not one."""
        identifier = secrets.token_urlsafe(12)
        path = self._folder / f"{secrets.token_hex(12)}.csv"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
        try:
            grouping = grouping_of({"csv": str(path)})
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise
        source = GroupSource(identifier, name, grouping, GroupsSection(csv=str(path)), GroupsSection(csv=name))
        with self._lock:
            self._sources[identifier] = source
        return source

    def get(self, form: GroupingForm) -> GroupSource | None:
        """What a form names by its ID; None if it names nothing."""
        if form.source != "file":
            return None
        with self._lock:
            source = self._sources.get(form.file or "")
        if source is None:
            raise not_found()
        return source
