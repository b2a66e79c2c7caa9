"""Several sensitive columns, as people write them, and the limits of each.

A publisher names one column, several, or sets of columns of one kind, each with limits, groups and codes of its own:

    sensitive = ["diag_1", "insulin"]
    sensitive = [{columns = ["diag_1", "diag_2"], name = "diagnosis", limits = {odds = 4}}, {columns = ["insulin"]}]

A set without limits of its own has the general ones. One that has limits but no rule has the general rule. What names
single values or groups is never general where there are several sets: nobody could say whose values they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dalenius.errors import PolicyError, UsageError, did_you_mean
from dalenius.policy.limits import RULE, RULE_KEYS, LimitPolicy
from dalenius.policy.roles import Roles, SensitiveSet, check_set

Limits = LimitPolicy | Mapping[Any, Any]
Sensitive = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]

_KEYS = ("columns", "name", "limits", "groups", "null_value", "missing")
_BY_NAME = ("values", "grouping", "groups", "levels")
_EXAMPLE = 'Write sensitive=["diag_1", {"columns": ["diag_2", "diag_3"], "name": "others"}].'


class SaidSets(NamedTuple):
    """The sensitive sets that somebody asks for, and the limits of each."""

    sets: tuple[SensitiveSet, ...]
    limits: tuple[Limits, ...]

    def roles(
        self,
        quasi_identifiers: tuple[str, ...],
        identifiers: tuple[str, ...],
        person: str | None,
        keep_together: tuple[tuple[str, ...], ...] = (),
    ) -> Roles:
        """With the roles of the other columns. A plain request names no sets."""
        roles = Roles(self.sets[0].name, quasi_identifiers, identifiers, person, self.sets, keep_together)
        return roles if roles.by_people else replace(roles, sets=())

    def limits_by_set(self, roles: Roles) -> tuple[Limits, ...]:
        """The limits of each set; none for a plain request, which has but one."""
        return self.limits if roles.sets else ()


def read_sets(
    sensitive: Sensitive, limits: Limits, null_value: str | None = None, missing: tuple[str, ...] = ()
) -> SaidSets:
    """The sets that a Python caller names. Codes for what is missing are those of each set without its own."""
    given = [sensitive] if isinstance(sensitive, str | Mapping) else sensitive
    if not isinstance(given, Sequence) or not given:
        raise UsageError("nothing says which column is sensitive", _EXAMPLE)
    sets, own = [], []
    for one in given:
        said = {"columns": one} if isinstance(one, str) else one
        if not isinstance(said, Mapping):
            raise UsageError(f"a sensitive set must be a name or a dict, got {type(said).__name__}", _EXAMPLE)
        unknown = next((key for key in said if key not in _KEYS), None)
        if unknown is not None:
            raise UsageError(f"a sensitive set has no {str(unknown)!r}", did_you_mean(str(unknown), _KEYS))
        codes = said.get("missing", missing)
        sets.append(
            sensitive_set(
                _texts(said.get("columns", ())),
                said.get("name"),
                said.get("null_value", null_value),
                _texts(codes) if codes is not None else missing,
            )
        )
        own.append(_own_limits(said))
    return SaidSets(tuple(sets), limits_of_sets(limits, own, [one.name for one in sets]))


def sensitive_set(
    columns: Sequence[str], name: str | None = None, null_value: str | None = None, missing: Sequence[str] = ()
) -> SensitiveSet:
    """A set, checked. One of a single column needs no name."""
    chosen = name if name is not None else columns[0] if len(columns) == 1 else ""
    made = SensitiveSet(chosen, tuple(columns), null_value, tuple(missing))
    check_set(made)
    return made


def limits_of_sets(general: Limits, own: Sequence[Limits | None], names: Sequence[str]) -> tuple[Limits, ...]:
    """The limits of each set: its own, with the general rule if they have none, or the general ones."""
    if len(own) == 1 and own[0] is None:
        return (general,)
    rule = _general_rule(general, names)
    absent = general.allow_absent if isinstance(general, LimitPolicy) else general.get("allow_absent", False)
    return tuple(general if one is None else _with_rule(one, rule, absent) for one in own)


def _general_rule(general: Limits, names: Sequence[str]) -> dict[str, Any]:
    """The general rule as the keys of one; an error if the general limits are about single values or groups."""
    if isinstance(general, LimitPolicy):
        by_name = next((key for key in _BY_NAME if getattr(general, key)), None)
        rule = {key: getattr(general, key) for key in RULE if getattr(general, key) is not None}
    elif isinstance(general, Mapping):
        by_name = next((str(key) for key in general if key not in RULE and key != "allow_absent"), None)
        rule = {str(key): number for key, number in general.items() if key in RULE}
    else:
        raise PolicyError(f"limits must be a LimitPolicy or a dict, got {type(general).__name__}", "Give {'odds': 8}.")
    if by_name is not None:
        what = "groups" if by_name in _BY_NAME[1:] else "single values"
        raise PolicyError(
            f"the general limits are about {what}, and there are {len(names)} sensitive sets: whose {what}?"
            if len(names) > 1
            else f"the general limits are about {what}, and the sensitive set {names[0]!r} has limits of its own",
            "Write them in the limits of the set that they are about (on the command line, after its name: "
            f"{names[0]}:VALUE=0.02).",
        )
    return rule


def _with_rule(own: Limits, rule: Mapping[str, Any], absent: object) -> Limits:
    """Limits of a set with the general rule, if they have none; limits by value alone are all that there is."""
    if isinstance(own, LimitPolicy):
        own = replace(own, allow_absent=own.allow_absent or absent is True)
        filling = LimitPolicy.of(**rule)
        return own if own.rule is not None else replace(own, **{key: getattr(filling, key) for key in RULE})
    if not isinstance(own, Mapping):
        raise PolicyError(f"limits must be a LimitPolicy or a dict, got {type(own).__name__}", "Give {'odds': 8}.")
    if not all(key in RULE_KEYS for key in own):
        return own
    allowed = {"allow_absent": absent} if absent else {}
    return {**allowed, **({} if any(key in RULE for key in own) else rule), **own}


def _own_limits(said: Mapping[str, Any]) -> Limits | None:
    """The limits of a set as a Python caller gives them; `groups` says where its groups come from, as in a job file."""
    own, groups = said.get("limits"), said.get("groups")
    if groups is None:
        return own
    if isinstance(own, LimitPolicy):
        return replace(own, grouping=LimitPolicy.of(grouping=groups).grouping)
    return {**(own or {}), "grouping": groups}


def _texts(names: object) -> tuple[str, ...]:
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError("columns and codes of a sensitive set must be texts", _EXAMPLE)
    return tuple(names)
