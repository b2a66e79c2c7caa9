"""The limits of each sensitive set in a draft that has several, here and in job files.

As in a job file, the general limits are a rule, and what names single values or groups belongs to a set. A set follows
the general rule unless it has a rule of its own. With one set, the general limits are all that there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dalenius.errors import JobFileError, PolicyError
from dalenius.policy.job import Job
from dalenius.policy.job_sections import SetLimits, SetSection
from dalenius.policy.limits import RULE, LimitPolicy
from dalenius.policy.roles import Roles, SensitiveSet
from dalenius.studio.forms import ExploreForm, LimitsForm
from dalenius.studio.group_choice import GroupSource, grouping_in_force, groups_section, limits_of_section
from dalenius.studio.role_forms import RolesForm, SetForm

_RULE = ("rule", *RULE)  # what of a form is about no value by name


@dataclass(frozen=True)
class OwnLimits:
    """What a set has for itself: limits by name, groups and, unless it `follows` the general rule, a rule."""

    limits: LimitsForm
    follows: bool = True
    source: GroupSource | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether the set might as well not be mentioned."""
        return self.follows and without_names(self.limits) == self.limits and not self.limits.allow_absent


def without_names(limits: LimitsForm) -> LimitsForm:
    """Limits without what names single values or groups."""
    nothing = LimitsForm()
    names = ("values", "grouping", "groups", "levels")
    return limits.model_copy(update={name: getattr(nothing, name) for name in names})


def with_rule_of(limits: LimitsForm, general: LimitsForm) -> LimitsForm:
    """The same limits under another rule."""
    return limits.model_copy(update={name: getattr(general, name) for name in _RULE})


def in_effect(general: LimitsForm, own: OwnLimits | None) -> LimitsForm:
    """The limits that a set comes to."""
    if own is None:
        return general
    limits = with_rule_of(own.limits, general) if own.follows else own.limits
    return limits.model_copy(update={"allow_absent": own.limits.allow_absent or general.allow_absent})


def apart(
    general: LimitsForm, before: OwnLimits | None, form: ExploreForm, source: GroupSource | None
) -> tuple[LimitsForm, OwnLimits]:
    """The general limits and those of a set, after a page has sent what the set comes to.

    What may be absent may be so everywhere: a code for what is missing is named once, for all columns.
    """
    given, was = form.limits, bool(before is not None and before.limits.allow_absent)
    if form.own_rule and given.rule == "none" and general.rule != "none":
        raise PolicyError(
            f"{form.of_set!r} has no rule of its own, so the general rule holds for it",
            "Choose a rule, or let it have the rule of all sensitive columns.",
        )
    follows = not form.own_rule or given.rule == "none"
    if not form.own_rule:
        general = with_rule_of(general, given)
    if given.allow_absent and not was:
        general = general.model_copy(update={"allow_absent": True})
    mine = given.model_copy(update={"publish_in_the_clear": None, "allow_absent": was or None})
    return general, OwnLimits(mine, follows, source)


def moved(before: RolesForm, after: RolesForm, general: LimitsForm, own: Mapping[str, OwnLimits]) -> LimitsForm:
    """The general limits once there are other sets: of one set they have everything, of several only a rule.

    What names values of a set that is no longer alone has to be kept elsewhere: `kept_apart`.
    """
    names = [one.called for one in after.all_sets]
    was = [one.called for one in before.all_sets]
    if names == was and _columns(before) == _columns(after):
        return general
    if len(names) == 1 and len(was) > 1:
        return in_effect(general, own.get(names[0]))
    update: dict[str, str | None] = {"publish_in_the_clear": None}
    if len(names) > 1 and len(was) < 2 and general.rule == "none":
        update |= {"rule": "odds"}  # or values of the other columns would have no limits
    return without_names(general).model_copy(update=update)


def kept_apart(
    before: RolesForm,
    after: RolesForm,
    general: LimitsForm,
    source: GroupSource | None,
    own: Mapping[str, OwnLimits],
) -> dict[str, OwnLimits]:
    """What each of several sets keeps for itself once there are other sets."""
    if len(after.all_sets) < 2:
        return {}
    columns = {one.called: one.columns for one in after.all_sets}
    if len(before.all_sets) == 1:
        own = {before.all_sets[0].called: OwnLimits(general, True, source)}
    same = {one.called for one in before.all_sets if columns.get(one.called) == one.columns}
    return {name: one for name, one in own.items() if name in same and not one.says_nothing}


def _columns(roles: RolesForm) -> list[list[str]]:
    return [one.columns for one in roles.all_sets]


def roles_of(form: RolesForm) -> Roles:
    """The roles as publishing takes them; a plain request names no sets."""
    sets = tuple(sensitive_set(one, form) for one in form.all_sets) if form.by_people else ()
    return Roles(form.sensitive or "", tuple(form.quasi_identifiers), tuple(form.identifiers), form.person, sets)


def sensitive_set(one: SetForm, roles: RolesForm) -> SensitiveSet:
    """A set with its codes, or else those of the table."""
    null_value = one.null_value if one.null_value is not None else roles.null_value
    missing = one.missing if one.missing is not None else roles.missing
    return SensitiveSet(one.called, tuple(one.columns), null_value, tuple(missing))


def policy_of(limits: LimitsForm, source: GroupSource | None, null_name: str | None) -> LimitPolicy:
    """Limits, checked."""
    return limits.policy(grouping_in_force(limits.grouping, source)).ungrouping(null_name)


def set_sections(roles: RolesForm, own: Mapping[str, OwnLimits], *, written: bool) -> list[SetSection]:
    """The sets as a job file names them."""
    sections = []
    for one in roles.all_sets:
        section = SetSection(columns=list(one.columns), name=one.name, null_value=one.null_value, missing=one.missing)
        mine = own.get(one.called)
        if mine is not None and not mine.says_nothing:
            said = mine.limits if not mine.follows else mine.limits.model_copy(update={"rule": "none"})
            section = section.model_copy(
                update={
                    "limits": SetLimits(**said.in_force()),
                    "groups": groups_section(mine.limits.grouping, mine.source, written=written),
                }
            )
        sections.append(section)
    return sections


def own_of_job(job: Job) -> dict[str, OwnLimits]:
    """What each of several sets of a job file has for itself."""
    sensitive = job.table.sensitive
    if not isinstance(sensitive, list) or len(sensitive) < 2:
        return {}
    found = {}
    for number, (one, policy) in enumerate(zip(sensitive, job.policies(), strict=True)):
        limits, source = limits_of_section(one.limits, one.groups, policy, f"job-{number}")
        follows = not any(getattr(one.limits, name) is not None for name in RULE)
        found[one.called] = OwnLimits(limits, follows, source)
    return {name: own for name, own in found.items() if not own.says_nothing}


def only_set_of_job(job: Job) -> Job:
    """A job with one sensitive set has the limits of that set as its general ones."""
    sensitive = job.table.sensitive
    if not isinstance(sensitive, list) or len(sensitive) != 1:
        return job
    (one,) = sensitive
    if not one.limits.entries() and one.groups.grouping() is None:
        return job
    general = job.limits.model_dump(include=set(RULE)) if not _has_rule(one.limits) else {}
    absent = one.limits.allow_absent or job.limits.allow_absent
    limits = job.limits.model_copy(
        update={
            **dict.fromkeys(RULE),
            **general,
            **{name: getattr(one.limits, name) for name in ("values", "groups", "levels")},
            **{name: getattr(one.limits, name) for name in RULE if getattr(one.limits, name) is not None},
            "allow_absent": absent,
        }
    )
    plain = one.model_copy(update={"limits": SetLimits(), "groups": type(one.groups)()})
    table = job.table.model_copy(update={"sensitive": [plain]})
    return job.model_copy(update={"limits": limits, "groups": one.groups, "table": table})


def _has_rule(limits: SetLimits) -> bool:
    return any(getattr(limits, name) is not None for name in RULE)


def refuse_together(job: Job) -> None:
    """An error for columns that are to be published as tuples, which no page shows."""
    if job.table.keep_together:
        raise JobFileError(
            "Studio keeps no columns together, and this job file says keep_together",
            "Use the command line: dalenius publish TABLE --job FILE --out DIR.",
        )


def refuse_bands(limits: LimitsForm, of_set: str) -> None:
    """An error for bands of numbers where people count, which no page can show."""
    if limits.grouping.has_bands:
        raise PolicyError(
            f"numbers of {of_set!r} cannot count by bands: people may have several values here",
            "Use no bands on the limits page, or put the band into the table as a column of text, and publish that.",
        )


def only_columns(roles: RolesForm, columns: Sequence[str]) -> RolesForm:
    """What fits a table with these columns: a set loses the columns that are not there."""
    sets = []
    for one in roles.all_sets:
        there = [name for name in one.columns if name in columns]
        if there:
            name = one.name if len(there) > 1 else None
            sets.append(one.model_copy(update={"columns": there, "name": name}))
    fits = bool(sets)
    person = roles.person if roles.person in columns else None
    update = {
        "sensitive": sets[0].called if fits else None,
        "sets": sets,
        "person": person,
        "most_rows": roles.most_rows if person is not None else None,
        "quasi_identifiers": [name for name in roles.quasi_identifiers if name in columns],
        "identifiers": [name for name in roles.identifiers if name in columns],
        "null_value": roles.null_value if fits else None,
        "missing": roles.missing if fits else [],
        "not_applicable": roles.not_applicable if fits else [],
    }
    return roles.model_copy(update=update).plainly()
