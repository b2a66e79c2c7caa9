"""One rule for every sensitive value and every group of values, and exceptions by value, by group and by level.

With f_i = o_i / |T|, the rules are
    odds, floor    f'_i = max(floor, K f_i / (1 - f_i + K f_i)),  K = odds
    theta, base    f'_i = min(1, theta f_i + base)      (Section 7 of the paper)
    uniform        f'_i = uniform
    l_diversity    f'_i = 1 / l_diversity
    beta           f'_i = min(1, (1 + beta) f_i)

The rule by odds is the one to choose. A value that a share f of the table has has the odds f / (1 - f). A belief at the
limit has the odds f' / (1 - f') = K f / (1 - f): nobody's odds of having a value exceed K times its odds in the table,
or those of the floor, where a value is so rare that this would be less. From f < 1 follows f' < 1 (if the floor is),
and from K >= 1 follows f' >= f, since f' - f = (K - 1) f (1 - f) / (1 - f + K f). So no value is published outright,
and one bucket of everybody keeps all limits: there is always a release.

The rule gives every group a limit of its own, by the frequency of its values together. Without one, "any cancer" could
be inferred where no single cancer can be.

A sensitive value is known by its text, whatever its type: the same text that reading the table makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dalenius.errors import PolicyError, did_you_mean, nearest_name
from dalenius.model.groups import Groups
from dalenius.model.problem import ValueCounts
from dalenius.policy.bands import BandSpec
from dalenius.policy.exact import (
    Number,
    exact_fraction,
    exact_limit,
    format_fraction,
    label,
    look_alikes,
    not_negative,
    quote_names,
)
from dalenius.policy.group_sources import as_grouping
from dalenius.policy.grouping import Grouping, limit_groups

FLOOR = Fraction(1, 50)  # of the rule by odds, unless another one is given
RULE = ("odds", "floor", "theta", "base", "uniform", "l_diversity", "beta")
RULE_KEYS = (*RULE, "values", "allow_absent", "grouping", "groups", "levels")
NO_RULE = "none"  # of a level whose groups have no limits but those by name


@dataclass(frozen=True)
class LimitPolicy:
    """The publisher's limits: at most one rule, and limits for single values, which override the rule.

    With a `grouping`, the rule is for groups too. `levels` has other rules for the groups of a level (a policy of a
    rule alone, or of nothing for no limits), and `groups` limits for single groups, which override both.

    A limit for a value or a group that the table does not have is an error, since it is likely a typing error, unless
    `allow_absent` says that it is meant.
    """

    odds: Fraction | None = None
    floor: Fraction | None = None
    theta: Fraction | None = None
    base: Fraction | None = None
    uniform: Fraction | None = None
    l_diversity: int | None = None
    beta: Fraction | None = None
    values: Mapping[str, Fraction] = field(default_factory=dict)
    allow_absent: bool = False
    grouping: Grouping | None = None
    groups: Mapping[str, Fraction] = field(default_factory=dict)
    levels: Mapping[str, LimitPolicy] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        odds: Number | None = None,
        floor: Number | None = None,
        theta: Number | None = None,
        base: Number | None = None,
        uniform: Number | None = None,
        l_diversity: Number | None = None,
        beta: Number | None = None,
        values: Mapping[str, Number] | None = None,
        allow_absent: bool | None = None,
        grouping: Grouping | str | Mapping[str, Any] | None = None,
        groups: Mapping[str, Number] | None = None,
        levels: Mapping[str, str | Mapping[str, Number] | LimitPolicy] | None = None,
    ) -> LimitPolicy:
        """A policy from numbers as people write them; each of them is checked here."""
        if base is not None and theta is None:
            raise PolicyError("base needs theta: f'_i = min(1, theta * f_i + base)", "Give theta too.")
        if floor is not None and odds is None:
            raise PolicyError("floor needs odds: it is the least limit that odds give a rare value", "Give odds too.")
        rules = {"odds": odds, "theta": theta, "uniform": uniform, "l_diversity": l_diversity, "beta": beta}
        names = [name for name, number in rules.items() if number is not None]
        if len(names) > 1:
            raise PolicyError(f"only one rule is allowed, got {' and '.join(names)}", "Keep one of them.")
        return cls(
            odds=None if odds is None else _exact_odds(odds),
            floor=None if odds is None else _exact_floor(FLOOR if floor is None else floor),
            theta=None if theta is None else not_negative(theta, "theta"),
            base=None if theta is None else not_negative(0 if base is None else base, "base"),
            uniform=None if uniform is None else exact_limit(uniform, "uniform"),
            l_diversity=None if l_diversity is None else _exact_diversity(l_diversity),
            beta=None if beta is None else not_negative(beta, "beta"),
            values={
                str(value): exact_limit(limit, f"the limit of {str(value)!r}")
                for value, limit in (values or {}).items()
            },
            allow_absent=bool(allow_absent),
            grouping=as_grouping(grouping) if grouping is not None else None,
            groups={
                str(name): exact_limit(limit, f"the limit of the group {str(name)!r}")
                for name, limit in (groups or {}).items()
            },
            levels={str(level): _level_rule(str(level), rule) for level, rule in (levels or {}).items()},
        )

    def __post_init__(self) -> None:
        """Refuse what `of` would refuse in a policy that was made without it."""
        limits = [("uniform", self.uniform), *self.values.items(), *self.groups.items()]
        rates = [("theta", self.theta), ("base", self.base), ("beta", self.beta)]
        rates += [("odds", self.odds), ("floor", self.floor)]
        for name, number in [*limits, *rates]:
            if number is not None and not isinstance(number, Fraction):
                raise PolicyError(f"{name} must be a Fraction here, got {type(number).__name__}", "Use LimitPolicy.of.")
        for name, limit in limits:
            if limit is not None:
                exact_limit(limit, name)
        for name, rate in rates:
            if rate is not None:
                not_negative(rate, name)
        if self.odds is not None:
            _exact_odds(self.odds)
        if self.floor is not None:
            _exact_floor(self.floor)
        if any(rule.values or rule.grouping or rule.levels for rule in self.levels.values()):
            raise PolicyError("the rule of a level must be a rule alone", "Give limits by name in the policy itself.")
        if self.grouping is None and (self.groups or self.levels):
            raise PolicyError(
                "limits are given for groups, and nothing says what the groups are",
                'Say it: --groups icd10, or groups = "icd10" in the job file.',
            )

    @property
    def goes_by_counts(self) -> bool:
        """Whether a limit, or what is in a group, depends on how many records have a value."""
        rules = (self, *self.levels.values())
        quantiles = self.grouping is not None and self.grouping.goes_by_counts
        return quantiles or any(rule.rule in ("odds", "theta", "beta") for rule in rules)

    @property
    def rule(self) -> str | None:
        """The name of its rule, if it has one."""
        rules = ("odds", "theta", "uniform", "l_diversity", "beta")
        return next((name for name in rules if getattr(self, name) is not None), None)

    @property
    def has_limits(self) -> bool:
        """Whether it limits anything, or only says what the groups are."""
        return bool(self.rule or self.values or self.groups or self.levels)

    def ungrouping(self, value: str | None) -> LimitPolicy:
        """The same, with one value in no group: that of nulls and of codes for what is missing, if there is one."""
        if self.grouping is None or value is None:
            return self
        return replace(self, grouping=self.grouping.without(value))

    def rule_limit(self, count: int, total: int) -> Fraction | None:
        """The rule's limit for a value with this count; None without a rule."""
        frequency = Fraction(count, total)
        if self.odds is not None:
            return max(self.floor or Fraction(0), self.odds * frequency / (1 - frequency + self.odds * frequency))
        if self.theta is not None:
            return min(Fraction(1), self.theta * frequency + (self.base or 0))
        if self.uniform is not None:
            return self.uniform
        if self.l_diversity is not None:
            return Fraction(1, self.l_diversity)
        if self.beta is not None:
            return min(Fraction(1), (1 + self.beta) * frequency)
        return None


@dataclass(frozen=True)
class ResolvedLimits:
    """One limit for each value, in the order of the counts, notes for the publisher, and the groups with their limits.

    A limit of 1 is none of its own: the value has that of a group, or its value may be published.
    """

    limits: tuple[Fraction, ...]
    notes: tuple[str, ...]
    groups: Groups | None = None

    @property
    def tightest(self) -> tuple[Fraction, ...]:
        """For each value the smallest limit on it: its own, or that of a group that holds it."""
        return self.limits if self.groups is None else self.groups.tightest(self.limits)


def as_policy(limits: LimitPolicy | Mapping[Any, Any], counts: ValueCounts) -> LimitPolicy:
    """Limits as Python callers give them: a policy, a dict with the keys of a rule, or a dict of limits by value."""
    if isinstance(limits, LimitPolicy):
        return limits
    if not isinstance(limits, Mapping):
        raise PolicyError(
            f"limits must be a LimitPolicy or a dict, got {type(limits).__name__}",
            "Give {'odds': 8}, or a limit for each value.",
        )
    by_value = _by_label(limits)
    present = set(counts.values)
    if present.issuperset(by_value):
        return LimitPolicy.of(values=by_value)
    rules = [key for key in by_value if key in RULE_KEYS and key not in present]
    others = [key for key in by_value if key not in rules]
    if not rules and (present.intersection(others) or not any(nearest_name(key, RULE_KEYS) for key in others)):
        return LimitPolicy.of(values=by_value)
    if others:
        raise PolicyError(
            f"{others[0]!r} is not a rule; limits of single values go under 'values'",
            did_you_mean(others[0], RULE_KEYS),
        )
    values = limits.get("values", {})
    if not isinstance(limits.get("allow_absent", False), bool):
        raise PolicyError("allow_absent must be True or False")
    for key in ("values", "groups", "levels"):
        if not isinstance(limits.get(key, {}), Mapping):
            raise PolicyError(f"{key} must be a dict, got {type(limits[key]).__name__}", "Give a limit for each name.")
    return LimitPolicy.of(**{key: limits[key] for key in rules if key != "values"}, values=_by_label(values))


def grouping_in(limits: LimitPolicy | Mapping[Any, Any]) -> Grouping | None:
    """Where the groups come from that limits, as Python callers give them, are about."""
    grouping = limits.grouping if isinstance(limits, LimitPolicy) else None
    if isinstance(limits, Mapping) and isinstance(limits.get("grouping"), Grouping | str | Mapping):
        grouping = as_grouping(limits["grouping"])
    return grouping


def bands_in(limits: LimitPolicy | Mapping[Any, Any]) -> BandSpec | None:
    """The bands that limits are about; None if they are about other groups, or none."""
    grouping = grouping_in(limits)
    return grouping.bands if grouping is not None else None


def resolve_limits(policy: LimitPolicy, counts: ValueCounts) -> ResolvedLimits:
    """The exact limit of every value and group that occurs; an error for one that does not, unless that is meant.

    A value that has no limit is covered by that of a group that holds it, if that is below 1.
    """
    refuse_absent(policy, counts)
    groups, notes = limit_groups(policy, policy.grouping, counts) if policy.grouping is not None else (None, [])
    none = [Fraction(1)] * len(counts)
    by_groups = groups.tightest(none) if groups is not None else none
    limits: list[Fraction] = []
    uncovered: list[str] = []
    for value, count, by_group in zip(counts.values, counts.counts, by_groups, strict=True):
        limit = policy.values.get(value, policy.rule_limit(count, counts.total))
        if limit is None and by_group == 1:
            uncovered.append(value)
        limits.append(Fraction(1) if limit is None else limit)
    if uncovered:
        raise PolicyError(
            f"no limit covers {len(uncovered)} of {len(counts)} sensitive values: {quote_names(uncovered)}",
            "Give each of them a limit, or a rule for all values, such as odds = 8.",
        )
    for value, limit in zip(counts.values, limits, strict=True):
        if limit <= 0:
            raise PolicyError(
                f"the rule gives {value!r} the limit {format_fraction(limit)}; a limit must be above 0",
                "Give a floor above 0." if policy.odds is not None else "Give a base above 0.",
            )
    return ResolvedLimits(tuple(limits), (*_absent_notes(policy, counts), *notes, *look_alikes(counts)), groups)


def _level_rule(level: str, rule: Any) -> LimitPolicy:
    """The rule of a level: "none", or the keys of a rule."""
    if isinstance(rule, LimitPolicy):
        return rule
    if rule == NO_RULE:
        return LimitPolicy()
    if not isinstance(rule, Mapping) or not rule:
        raise PolicyError(f"the level {level!r} must have a rule, or 'none'", f"Write {{odds = 8}} or {NO_RULE!r}.")
    unknown = next((key for key in rule if key not in RULE), None)
    if unknown is not None:
        raise PolicyError(f"the level {level!r}: {unknown!r} is not a rule", did_you_mean(str(unknown), RULE))
    return LimitPolicy.of(**rule)


def _by_label(limits: Mapping[Any, Number]) -> dict[str, Number]:
    labelled: dict[str, Number] = {}
    for value, limit in limits.items():
        if label(value) in labelled:
            raise PolicyError(f"the value {label(value)!r} has more than one limit", "Give each value once.")
        labelled[label(value)] = limit
    return labelled


def _absent(policy: LimitPolicy, counts: ValueCounts) -> list[str]:
    present = set(counts.values)
    return [value for value in policy.values if value not in present]


def refuse_absent(policy: LimitPolicy, counts: ValueCounts) -> None:
    """An error if there is a limit for a value that does not occur, unless that is meant."""
    absent = _absent(policy, counts)
    if not absent or policy.allow_absent:
        return
    close = nearest_name(absent[0], counts.values)
    occur = "does not occur in the data" if len(absent) == 1 else "do not occur in the data"
    raise PolicyError(
        f"a limit is given for {quote_names(absent)}, which {occur}",
        (f"Did you mean {close!r}? " if close is not None else "")
        + "Where it is meant, say so: --allow-absent-values, or allow_absent = true in the job file's [limits].",
    )


def _absent_notes(policy: LimitPolicy, counts: ValueCounts) -> list[str]:
    return [f"the policy names {value!r}, which does not occur in the data" for value in _absent(policy, counts)]


def _exact_odds(number: Number) -> Fraction:
    odds = exact_fraction(number, "odds")
    if odds < 1:
        raise PolicyError(
            f"odds must be at least 1, got {format_fraction(odds)}",
            "1 lets nobody believe more than the table as a whole shows; 8 lets the odds grow eightfold.",
        )
    return odds


def _exact_floor(number: Number) -> Fraction:
    floor = exact_fraction(number, "floor")
    if not 0 <= floor < 1:
        raise PolicyError(f"floor must be at least 0 and below 1, got {format_fraction(floor)}", "Write 0.02.")
    return floor


def _exact_diversity(number: Number) -> int:
    value = exact_fraction(number, "l_diversity")
    if value.denominator != 1 or value < 1:
        raise PolicyError(f"l_diversity must be a whole number of at least 1, got {format_fraction(value)}")
    return value.numerator
