"""The nearest limits that can be kept, where the given ones cannot, and groups that fit the values.

1. A value or a group that is more frequent than its limit gets the smallest limit that can be kept (Lemma 1):
   o_i / (n - Q).
2. If the limits of all values together leave no room for the fake values, they all rise by the smallest factor that
   makes room.
3. If no setting has buckets within the largest size, that size grows. If larger buckets do not help either, all limits
   rise.

Limits are offered as short decimals, rounded up; as an exact ratio where the decimal would be 1, which is no limit.
Every offer has been tried: there is a setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from dalenius.errors import DaleniusError, PolicyError
from dalenius.model.plan import Method, NoSolution, Plan, PlanOptions
from dalenius.model.problem import Problem, ValueCounts
from dalenius.planning import plan_without_search, prepare_problem
from dalenius.policy.grouping import unknown_values
from dalenius.policy.limits import LimitPolicy, resolve_limits
from dalenius.solve.glance import glance
from dalenius.solve.sizes import HIDING_SIZE, LARGEST_SIZE, least_min_size, why_impossible
from dalenius.studio.exploration import Obstacle, Offer

_DIGITS = 3
_FACTOR_DIGITS = 100  # factors are multiples of 1/100
_NAMES = 3
_LARGEST_FACTOR = 1 << 40
_START_SECONDS = 1.0
_STEPS = 1000  # of a uniform limit
_WORD = {"not-eligible": "Raise these limits.", "no-room-for-fakes": "Raise the limits, or use fewer fake values."}


@dataclass(frozen=True)
class _Raised:
    """Higher limits of values and of groups, as people write them."""

    values: dict[str, str] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values) + len(self.groups)

    def and_more(self, other: _Raised) -> _Raised:
        return _Raised(self.values | other.values, self.groups | other.groups)


def obstacle_of_error(error: DaleniusError, policy: LimitPolicy | None, counts: ValueCounts) -> Obstacle:
    """An error as the reason why there is no setting. Groups that do not fit the values can be made to."""
    if policy is None or not isinstance(error, PolicyError):
        return Obstacle(error.kind, error.message, error.hint)
    unknown = [] if policy.grouping is None else unknown_values(policy.grouping, counts.values)
    if not unknown:
        return Obstacle(error.kind, error.message, error.hint, offer=_offer_without_values(policy, counts))
    if 2 * len(unknown) > len(counts):
        return Obstacle(
            error.kind, error.message, "Choose other groups: these are not for such values.", tuple(unknown)
        )
    text = "Correct the data or the groups. If these values belong to no group, set them apart: then only their own "
    text += "limits hold for them."
    return Obstacle(error.kind, error.message, None, tuple(unknown), Offer(text, ungrouped=tuple(unknown)))


def _offer_without_values(policy: LimitPolicy, counts: ValueCounts) -> Offer | None:
    """Limits and groups that the data have no values for may stay, if that is all that is wrong with them."""
    if policy.allow_absent:
        return None
    try:
        resolve_limits(replace(policy, allow_absent=True), counts)
    except PolicyError:
        return None
    return Offer("They may stay, if that is meant. They have no effect on this table.", allow_absent=True)


def obstacle_of(plan: Plan, options: PlanOptions, seconds: float) -> Obstacle | None:
    """Why the plan has no setting, and what would help, if that can be found in this many seconds."""
    why = plan.no_solution
    if why is None:
        return None
    problem = plan.problem
    names = tuple(one.value for one in why.ineligible)
    offer = _offer(problem, why, options, time.monotonic() + seconds)
    return Obstacle(
        kind=why.reason, message=_message(problem, why), hint=_hint(problem, why), values=names, offer=offer
    )


def first_number(
    rule: Literal["uniform", "l_diversity"],
    number: str,
    policy: Callable[[str], LimitPolicy],
    counts: ValueCounts,
    options: PlanOptions,
) -> str:
    """The number with which a rule begins: this one if it can be kept, or the strictest one that can.

    `policy` gives the limits for a number. If no number can be kept, it is this one all the same: the page says why.
    """
    deadline = time.monotonic() + _START_SECONDS

    def works(text: str) -> bool:
        try:
            _, problem = prepare_problem(counts, policy(text), options)
            return _works(problem, options, deadline)
        except DaleniusError:
            return False

    own = policy(number if rule == "l_diversity" else "1").values
    most = max(
        (count for value, count in zip(counts.values, counts.counts, strict=True) if value not in own), default=1
    )
    unknown = counts.total - options.known_records
    if works(number) or most > unknown:
        return number
    if rule == "l_diversity":
        largest = unknown // most  # a smaller l is a higher limit
        less = _least(lambda less: works(str(largest + 1 - less)), 0, deadline, largest)
        return number if less is None else str(largest + 1 - less)
    if works(tightest := rounded_up(Fraction(most, unknown))):
        return tightest
    steps = _least(lambda steps: works(rounded_up(Fraction(steps, _STEPS))), _STEPS * most // unknown, deadline, _STEPS)
    return number if steps is None else rounded_up(Fraction(steps, _STEPS))


def rounded_up(limit: Fraction) -> str:
    """The limit as a short decimal that is not below it; as a ratio where that would be 1, which is no limit."""
    exponent = 0
    while limit * 10 ** (exponent + 1) < 10**_DIGITS:
        exponent += 1
    number = -(-limit.numerator * 10**exponent // limit.denominator)
    if number == 10**exponent:
        return str(limit)
    text = f"{number:0{exponent + 1}d}"
    decimal = f"{text[:-exponent]}.{text[-exponent:]}" if exponent else text
    return decimal.rstrip("0").rstrip(".") if "." in decimal else decimal


def _message(problem: Problem, why: NoSolution) -> str:
    if why.reason == "not-eligible":
        number, of = len(why.ineligible), len(problem.values)
        names = ", ".join(repr(one.value) for one in why.ineligible[:_NAMES])
        more = f" and {number - _NAMES:,} more" if number > _NAMES else ""
        known = f", if {problem.known_records:,} records of a bucket are known" if problem.known_records else ""
        groups = sum(one.is_group for one in why.ineligible)
        parts = [f"{number - groups:,} of {of:,} value{'s' if of > 1 else ''}"] if number > groups else []
        parts += [f"{groups:,} group{'s' if groups > 1 else ''}"] if groups else []
        verb = "is" if number == 1 else "are"
        return f"{' and '.join(parts)} {verb} more frequent than the limit allows{known}: {names}{more}"
    if why.reason == "no-room-for-fakes":
        return (
            f"the limits of all values together have no room for {problem.fake_values:,} fake values beside "
            f"{problem.total:,} records, even in one bucket"
        )
    if why.reason == "max-size":
        return f"no setting has buckets of at most {problem.max_size:,} records under these limits"
    return "no setting was found yet, and there is no proof that none exists"


def _hint(problem: Problem, why: NoSolution) -> str:
    if why.reason == "not-eligible" and problem.known_records:
        return "Raise these limits, or allow fewer known records."
    if why.reason == "max-size":
        return "Allow larger buckets, or raise the limits."
    return _WORD.get(why.reason, "Wait for the exact answer, or allow larger buckets.")


def _offer(problem: Problem, why: NoSolution, options: PlanOptions, deadline: float) -> Offer | None:
    if why.reason == "undecided":
        return None
    if why.reason == "max-size" and why.smallest_max_size is not None:
        most = why.smallest_max_size
        return Offer(f"Buckets of up to {most:,} records are enough.", {}, {"max_size": most})
    raised = _eligible(why)
    if raised is None:
        return None
    relaxed = _with_limits(problem, raised, options)
    if raised and _works(relaxed, options, deadline):
        return Offer(_sentence(raised), raised.values, groups=raised.groups)
    if why_impossible(relaxed) is None and (size := _working_size(relaxed, options, deadline)) is not None:
        needed = f"Buckets of up to {size:,} records are needed."
        text = f"{_sentence(raised)} {needed}" if raised else needed
        return Offer(text, raised.values, {"max_size": size}, raised.groups)
    if (factored := _raise_all(relaxed, options, deadline)) is not None:
        factor, limits = factored
        every = raised.and_more(limits)
        text = f"All limits times {float(factor):g}, with none above 1, can be kept."
        return Offer(text, every.values, groups=every.groups)
    return None


def _eligible(why: NoSolution) -> _Raised | None:
    """The smallest limits of what is too frequent; None if even 1 is too small for one of them."""
    raised = _Raised()
    for one in why.ineligible:
        if one.smallest_limit is None:
            return None
        (raised.groups if one.is_group else raised.values)[one.value] = rounded_up(one.smallest_limit)
    return raised


def _sentence(raised: _Raised) -> str:
    if len(raised) > _NAMES:
        things = "values" if not raised.groups else "values and groups" if raised.values else "groups"
        return f"The smallest change that works: higher limits for these {len(raised):,} {things}."
    listed = ", ".join(f"{limit} for {name!r}" for name, limit in [*raised.values.items(), *raised.groups.items()])
    return f"The smallest limits that can be kept: {listed}."


def _with_limits(problem: Problem, raised: _Raised, options: PlanOptions) -> Problem:
    """The problem under other limits, with the range of sizes that they need."""
    values, groups = ({name: Fraction(text) for name, text in one.items()} for one in (raised.values, raised.groups))
    changed = problem.with_limits(values, groups)
    least = max(least_min_size(changed.tightest, problem.known_records), options.min_size or HIDING_SIZE)
    return replace(changed, min_size=least)


def _works(problem: Problem, options: PlanOptions, deadline: float) -> bool:
    """Whether there is a setting. Without a largest size arithmetic decides; with one, a search."""
    at_once = plan_without_search(problem, Method.OPTIMAL, options)
    if at_once is not None:
        return at_once.no_solution is None
    if options.max_size is None:
        return True
    if options.max_size < problem.min_size:
        return False
    try:
        return glance(replace(problem, max_size=options.max_size), 1.0, deadline).partition is not None
    except DaleniusError:
        return False


def _raise_all(problem: Problem, options: PlanOptions, deadline: float) -> tuple[Fraction, _Raised] | None:
    """The smallest factor, in few digits, by which all limits must rise, and the new limits; None if none works."""

    def limits(factor: int) -> _Raised:
        times = Fraction(factor, _FACTOR_DIGITS)

        def raised(limit: Fraction) -> str:
            return rounded_up(min(Fraction(1), limit * times))

        values = {value: raised(limit) for value, limit in zip(problem.values, problem.limits, strict=True)}
        groups = problem.groups.groups if problem.groups is not None else ()
        return _Raised(values, {group.name: raised(group.limit) for group in groups if group.limit is not None})

    def works(factor: int) -> bool:
        return _works(_with_limits(problem, limits(factor), options), options, deadline)

    factor = _least(works, _FACTOR_DIGITS, deadline)
    return None if factor is None else (Fraction(factor, _FACTOR_DIGITS), limits(factor))


def _working_size(problem: Problem, options: PlanOptions, deadline: float) -> int | None:
    """The smallest value for the largest size that works."""
    failed = options.max_size or problem.min_size

    def works(size: int) -> bool:
        return _works(replace(problem, max_size=size), replace(options, max_size=size), deadline)

    return _least(works, failed, deadline, min(problem.total, LARGEST_SIZE))


def _least(works: Callable[[int], bool], failed: int, deadline: float, most: int = _LARGEST_FACTOR) -> int | None:
    """The smallest number above `failed` that works, by doubling and bisection; some working one if time runs out."""
    low, high = failed, min(most, max(1, 2 * failed))
    while not works(high):
        if high >= most or time.monotonic() > deadline:
            return None
        low, high = high, min(most, 2 * high)
    while high - low > 1 and time.monotonic() <= deadline:
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high
