"""One rule for every sensitive value, and exceptions by value.

With f_i = o_i / |T|, the rules are
    theta, base    f'_i = min(1, theta f_i + base)      (Section 7 of the paper)
    uniform        f'_i = uniform
    l_diversity    f'_i = 1 / l_diversity
    beta           f'_i = min(1, (1 + beta) f_i)

Numbers in policies are exact: "0.29" is 29/100, never the nearest binary fraction. A sensitive value is known by its
text, whatever its type: the same text that reading the table makes of it.
"""

from __future__ import annotations

import numbers
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dalenius.errors import InputError, PolicyError, did_you_mean, nearest_name
from dalenius.model.problem import ValueCounts

Number = str | int | float | Decimal | Fraction

_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")
_RATIO = re.compile(r"([+-]?\d+)\s*/\s*(\d+)")
_LONGEST = 100
_MOST_LISTED = 10
_RULE_KEYS = ("theta", "base", "uniform", "l_diversity", "beta", "values")


@dataclass(frozen=True)
class LimitPolicy:
    """The publisher's limits: at most one rule, and limits for single values, which override the rule."""

    theta: Fraction | None = None
    base: Fraction | None = None
    uniform: Fraction | None = None
    l_diversity: int | None = None
    beta: Fraction | None = None
    values: Mapping[str, Fraction] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        theta: Number | None = None,
        base: Number | None = None,
        uniform: Number | None = None,
        l_diversity: Number | None = None,
        beta: Number | None = None,
        values: Mapping[str, Number] | None = None,
    ) -> LimitPolicy:
        """A policy from numbers as people write them; each of them is checked here."""
        if base is not None and theta is None:
            raise PolicyError("base needs theta: f'_i = min(1, theta * f_i + base)", "Give theta too.")
        rules = {"theta": theta, "uniform": uniform, "l_diversity": l_diversity, "beta": beta}
        names = [name for name, number in rules.items() if number is not None]
        if len(names) > 1:
            raise PolicyError(f"only one rule is allowed, got {' and '.join(names)}", "Keep one of them.")
        return cls(
            theta=None if theta is None else _not_negative(theta, "theta"),
            base=None if theta is None else _not_negative(0 if base is None else base, "base"),
            uniform=None if uniform is None else exact_limit(uniform, "uniform"),
            l_diversity=None if l_diversity is None else _exact_diversity(l_diversity),
            beta=None if beta is None else _not_negative(beta, "beta"),
            values={
                str(value): exact_limit(limit, f"the limit of {str(value)!r}")
                for value, limit in (values or {}).items()
            },
        )

    def __post_init__(self) -> None:
        """Refuse what `of` would refuse in a policy that was made without it."""
        limits = [("uniform", self.uniform), *self.values.items()]
        rates = [("theta", self.theta), ("base", self.base), ("beta", self.beta)]
        for name, number in [*limits, *rates]:
            if number is not None and not isinstance(number, Fraction):
                raise PolicyError(f"{name} must be a Fraction here, got {type(number).__name__}", "Use LimitPolicy.of.")
        for name, limit in limits:
            if limit is not None:
                exact_limit(limit, name)
        for name, rate in rates:
            if rate is not None:
                _not_negative(rate, name)

    def rule_limit(self, count: int, total: int) -> Fraction | None:
        """The rule's limit for a value with this count; None without a rule."""
        frequency = Fraction(count, total)
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
    """One limit for each value, in the order of the counts, and notes for the publisher."""

    limits: tuple[Fraction, ...]
    notes: tuple[str, ...]


def as_policy(limits: LimitPolicy | Mapping[Any, Any], counts: ValueCounts) -> LimitPolicy:
    """Limits as Python callers give them: a policy, a dict with the keys of a rule, or a dict of limits by value."""
    if isinstance(limits, LimitPolicy):
        return limits
    if not isinstance(limits, Mapping):
        raise PolicyError(
            f"limits must be a LimitPolicy or a dict, got {type(limits).__name__}",
            "Give {'theta': 8, 'base': '0.02'}, or a limit for each value.",
        )
    by_value = _by_label(limits)
    present = set(counts.values)
    if present.issuperset(by_value):
        return LimitPolicy.of(values=by_value)
    rules = [key for key in by_value if key in _RULE_KEYS and key not in present]
    others = [key for key in by_value if key not in rules]
    if not rules and (present.intersection(others) or not any(nearest_name(key, _RULE_KEYS) for key in others)):
        return LimitPolicy.of(values=by_value)
    if others:
        raise PolicyError(
            f"{others[0]!r} is not a rule; limits of single values go under 'values'",
            did_you_mean(others[0], _RULE_KEYS),
        )
    values = limits.get("values", {})
    if not isinstance(values, Mapping):
        raise PolicyError(f"values must be a dict of limits by value, got {type(values).__name__}")
    return LimitPolicy.of(**{key: limits[key] for key in rules if key != "values"}, values=_by_label(values))


def resolve_limits(policy: LimitPolicy, counts: ValueCounts) -> ResolvedLimits:
    """The exact limit of every value that occurs."""
    total = counts.total
    limits: list[Fraction] = []
    uncovered: list[str] = []
    for value, count in zip(counts.values, counts.counts, strict=True):
        limit = policy.values.get(value, policy.rule_limit(count, total))
        if limit is None:
            uncovered.append(value)
        else:
            limits.append(limit)
    if uncovered:
        raise PolicyError(
            f"no limit covers {len(uncovered)} of {len(counts)} sensitive values: {_quote_names(uncovered)}",
            "Give each of them a limit, or a rule for all values (theta, uniform, l_diversity or beta).",
        )
    for value, limit in zip(counts.values, limits, strict=True):
        if limit <= 0:
            raise PolicyError(
                f"the rule gives {value!r} the limit {format_fraction(limit)}; a limit must be above 0",
                "Give a base above 0.",
            )
    return ResolvedLimits(tuple(limits), (*_absent_notes(policy, counts), *look_alikes(counts)))


def look_alikes(counts: ValueCounts) -> list[str]:
    """Notes on values that differ only in case, blanks or character encoding: perhaps one value written in two ways."""
    groups: dict[str, list[str]] = {}
    for value in counts.values:
        folded = " ".join(unicodedata.normalize("NFKC", value).casefold().split())
        groups.setdefault(folded, []).append(value)
    return [
        f"{_quote_names(alike)} differ only in case or blanks, and count as different values"
        for alike in groups.values()
        if len(alike) > 1
    ]


def exact_fraction(number: Number, name: str) -> Fraction:
    """A number as an exact fraction: integers, decimals ("0.02") and ratios ("17/100").

    A Python float is read as the decimal that it prints as. `name` says in errors what the number is.
    """
    if "bool" in type(number).__name__ or not isinstance(number, str | Decimal | numbers.Real):
        raise PolicyError(f"{name} must be a number, got the type {type(number).__name__}")
    if isinstance(number, numbers.Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    text = str(number).strip()
    if len(text) > _LONGEST:
        raise PolicyError(f"{name} is {len(text)} characters long, and at most {_LONGEST} are allowed")
    ratio = _RATIO.fullmatch(text)
    if ratio and int(ratio[2]):
        return Fraction(int(ratio[1]), int(ratio[2]))
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    raise PolicyError(f"{name} must be a decimal, an integer or a ratio, got {text!r}", 'Write 0.02, 1 or "17/100".')


def exact_limit(number: Number, name: str) -> Fraction:
    """A limit: an exact fraction in (0, 1]."""
    limit = exact_fraction(number, name)
    if not 0 < limit <= 1:
        raise PolicyError(
            f"{name} must be above 0 and at most 1, got {format_fraction(limit)}",
            "A limit is the largest probability with which the value may be inferred; 1 means no limit.",
        )
    return limit


def format_fraction(number: Fraction) -> str:
    """A fraction for people to read: as a decimal where that is exact and short, else as a ratio."""
    reduced = number.denominator
    for prime in (2, 5):
        while reduced % prime == 0:
            reduced //= prime
    if reduced == 1 and number.denominator <= 10**8:
        text = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    ratio = f"{number.numerator}/{number.denominator}"
    if number.denominator <= 1000 or Fraction(f"{float(number):.6g}") == round(float(number)):
        return ratio
    return f"{float(number):.6g}"


def label(value: object) -> str:
    """The text of a value; nulls have none."""
    if value is None or value != value:
        raise InputError("a sensitive value is null", "Give it a name, such as 'unknown'.")
    if "bool" in type(value).__name__:
        return str(value).lower()
    return str(value)


def _by_label(limits: Mapping[Any, Number]) -> dict[str, Number]:
    labelled: dict[str, Number] = {}
    for value, limit in limits.items():
        if label(value) in labelled:
            raise PolicyError(f"the value {label(value)!r} has more than one limit", "Give each value once.")
        labelled[label(value)] = limit
    return labelled


def _absent_notes(policy: LimitPolicy, counts: ValueCounts) -> list[str]:
    present = set(counts.values)
    notes = []
    for value in policy.values:
        if value not in present:
            close = nearest_name(value, counts.values)
            hint = f"; did you mean {close!r}?" if close is not None else ""
            notes.append(f"the policy names {value!r}, which does not occur in the data{hint}")
    return notes


def _quote_names(values: list[str]) -> str:
    listed = ", ".join(repr(value) for value in values[:_MOST_LISTED])
    return listed + (f" and {len(values) - _MOST_LISTED} more" if len(values) > _MOST_LISTED else "")


def _not_negative(number: Number, name: str) -> Fraction:
    value = exact_fraction(number, name)
    if value < 0:
        raise PolicyError(f"{name} must not be negative, got {format_fraction(value)}")
    return value


def _exact_diversity(number: Number) -> int:
    value = exact_fraction(number, "l_diversity")
    if value.denominator != 1 or value < 1:
        raise PolicyError(f"l_diversity must be a whole number of at least 1, got {format_fraction(value)}")
    return value.numerator
