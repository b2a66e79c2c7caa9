"""The people of a chain of releases who are new, or have another value than before: their limits and their buckets."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from dalenius.errors import NoSolutionError, SelfCheckError, UsageError
from dalenius.model.concern import Concern
from dalenius.model.plan import Status
from dalenius.model.problem import ValueCounts
from dalenius.model.progress import Progress
from dalenius.place.sensitive import SensitiveCounter
from dalenius.place.survey import Survey, first_row_bytes
from dalenius.planning import plan_counts
from dalenius.policy.grouping import Grouping
from dalenius.policy.limits import RULE, LimitPolicy, as_policy, resolve_limits
from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.counting import count
from dalenius.publishing.flow import cut, solve
from dalenius.publishing.followed_rows import Whereabouts
from dalenius.publishing.followed_table import FollowedTable
from dalenius.publishing.followed_tables import SomeRows, WithCounterfeits
from dalenius.publishing.inspection import look
from dalenius.publishing.options import PublishRequest
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.release.two_tables import named_type
from dalenius.solve.sizes import HIDING_SIZE
from dalenius.tables.arrow import Source, TableSource

_SAME = (
    "All releases of a chain have the same limits. Others need a new chain, without --after; 'dalenius audit' of both "
    "says what they give away."
)
_BY_COUNTS = ("odds", "theta", "beta")  # rules whose limits are those of the first release that has the value
_IN_MEMORY = 8  # this part of the budget, at most, for the rows of new people
_ROW_BYTES = 2**7  # beside its columns
_GROWTH = Fraction(5, 4)  # of counterfeits, until there are enough
_MOST_TIMES = 4  # the values of the release before


@dataclass(frozen=True)
class NewBuckets:
    """The buckets of new people, and the table that they were made from."""

    table: FollowedTable
    survey: Survey
    policy: LimitPolicy
    arrangement: Arrangement
    concerns: tuple[Concern, ...]
    counterfeits: int


def of_rows(request: PublishRequest, said: Manifest | None) -> PublishRequest:
    """The request for the new rows alone; what is missing, and how nulls are called, is as in the release before."""
    options = request.options
    codes = tuple(dict.fromkeys([*options.missing, *(said.missing if said is not None else ())]))
    null_value = said.null_value if options.null_value is None and said is not None else options.null_value
    plain = replace(
        options,
        ledger=None,
        after=None,
        hold_back=False,
        counterfeits=False,
        values_change=False,
        missing=codes,
        null_value=null_value,
    )
    roles = replace(request.roles, person=None, sets=(), identifiers=request.roles.all_identifiers)
    return replace(request, roles=roles, set_limits=(), options=plain)


class NewPeople:
    """The rows of a table whose people have no bucket yet, and how many of them have each value."""

    def __init__(
        self,
        request: PublishRequest,
        before: ReleaseFolder | None,
        counts: Mapping[str, int],
        table: FollowedTable,
        where: Whereabouts,
        progress: Progress,
        rule: str,
    ) -> None:
        """`rule` is the one by which limits were made at first."""
        self._before, self._table, self._where, self._progress = before, table, where, progress
        self._counts, self._number = counts, sum(counts.values())
        self._policy: LimitPolicy | None = None
        if before is not None:
            self._policy = limits_of_new(request, before.manifest, counts, rule)
        self._request = request

    @property
    def are_few(self) -> bool:
        """Whether they are so few that it would say too much of each if somebody knew that one of them has a value.

        Then they wait, or are filled up, whatever their values are: that they are says nothing.
        """
        if self._before is None:
            return False
        said = self._before.manifest
        limits = [entry.limit for entry in (*said.values, *(said.groups or ())) if entry.limit is not None]
        return self._number < max(1 / Fraction(limit) for limit in limits)

    def buckets(self) -> NewBuckets:
        """The best buckets of these people alone."""
        if self._before is not None and self._number < self._least:
            raise self.too_few()
        return self._arrange(self._rows(), 0, self._counts)

    def buckets_with_counterfeits(self) -> NewBuckets:
        """The same with values that are nobody's, so many that all values together are in the shares of the release
        before: so many in any case that the rarest of them is there, and more if that is not enough.

        What the new buckets hold then depends on who is new through one number at most, how many values there are. So
        they are not cut into strata, and a value that nobody had before cannot be hidden: an error if that would tell.
        """
        if self._before is None or self._policy is None:
            raise SelfCheckError("counterfeits are made from a release before")
        said = self._before.manifest
        shares = {value.value: Fraction(value.count, said.slots) for value in said.values}
        total = max(Fraction(max(self._least, self._number)), 1 / (2 * min(shares.values())))
        others = {text: many for text, many in self._counts.items() if text not in shares}
        for text, many in others.items():
            if many > self._policy.values[text] * self._number:
                raise NoSolutionError(
                    f"{many:,} of {self._number:,} new people {'has' if many == 1 else 'have'} {text!r}, which was in "
                    "no release of the chain: no counterfeits hide who that is",
                    "They can wait for the next release (--hold-back).",
                    None,
                )
        while total <= _MOST_TIMES * max(said.slots, self._number):
            wanted = {text: math.floor(total * share + Fraction(1, 2)) for text, share in shares.items()}
            total *= _GROWTH
            if any(self._counts.get(text, 0) > many for text, many in wanted.items()):
                continue
            table = ValueCounts.of([*wanted.items(), *others.items()])
            plan = plan_counts(table, self._policy, self._request.method, self._request.solving)
            if plan.status is not Status.INFEASIBLE and plan.solution.partition is not None:
                added = {text: many - self._counts.get(text, 0) for text, many in wanted.items()}
                return self._arrange(*self._filled_up(added), table.values)
        raise self.too_few()

    def too_few(self) -> NoSolutionError:
        """Why these people cannot have buckets of their own, with the numbers."""
        limits = self._policy.values if self._policy is not None else {}
        needed, text, many, limit = max(
            (-(-many // limits[text]), text, many, limits[text]) for text, many in self._counts.items()
        )
        reason = (
            f": {many:,} of them {'has' if many == 1 else 'have'} {text!r}, whose limit {limit} asks for {needed:,}"
            if needed > self._number
            else ""
        )
        people = "1 person is new, or has" if self._number == 1 else f"{self._number:,} people are new, or have"
        return NoSolutionError(
            f"{people} another value than before, and no buckets of them alone keep the limits{reason}",
            "They can wait for the next release (--hold-back), or values that are nobody's can fill their buckets up "
            "(--counterfeits). Whichever it is, give it from now on, whether there is a need or not.",
            None,
        )

    @property
    def _least(self) -> int:
        """So few rows no bucket has."""
        solving = self._request.solving
        return max(HIDING_SIZE if solving.min_size is None else solving.min_size, solving.known_records + 1)

    def _rows(self) -> FollowedTable:
        """Their rows as a table, in memory if there is room."""
        source, budget = self._table.source, self._request.budget
        if self._number == self._where.rows:
            return self._table
        chosen = SomeRows(source, self._where, placed=False, rows=self._number)
        row_bytes = _ROW_BYTES + first_row_bytes(source, self._names)
        found: Source = chosen
        if self._number * row_bytes <= budget.spare // _IN_MEMORY:
            found = TableSource(chosen.in_memory(self._names, budget.batch_rows(row_bytes)))
        return self._table.wrapped(lambda _: found)

    @property
    def _names(self) -> list[str]:
        """The columns that are read, the sensitive one last."""
        roles = self._request.roles
        return [*roles.quasi_identifiers, *roles.identifiers, roles.sensitive]

    def _filled_up(self, added: Mapping[str, int]) -> tuple[FollowedTable, int]:
        """Their rows, with so many values of nobody behind them."""
        if self._before is None:
            raise SelfCheckError("counterfeits are made from a release before")
        manifest = self._before.manifest
        sensitive = manifest.columns.sensitive
        counter = SensitiveCounter(sensitive.name, named_type(sensitive.type))
        for batch in self._before.batches("st", [sensitive.name], coded=True):
            counter.add(batch.column(0))
        column = counter.finish(manifest.null_value)
        values = column.decode(np.repeat(np.arange(len(column.texts)), [added.get(text, 0) for text in column.texts]))
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        rows = self._rows()
        return rows.wrapped(lambda source: WithCounterfeits(source, self._names, plain)), len(plain)

    def _arrange(self, table: FollowedTable, counterfeits: int, values: Collection[str]) -> NewBuckets:
        """Everything that is decided before they are placed; the others of the limits were not named by anybody."""
        request, progress, policy = self._request, self._progress, self._policy
        if policy is not None:
            own = {text: limit for text, limit in policy.values.items() if text in values}
            request = request.limited(replace(policy, values=own), cut=not counterfeits)
        survey, policy = count(table, request, progress)
        concerns = look(table, survey, request, progress) if not counterfeits else ()
        arrangement = cut(table, survey, solve(survey, policy, request, progress), request, progress)
        if not request.options.in_the_clear:
            arrangement.refuse_clear_values(policy)
        return NewBuckets(table, survey, policy, arrangement, concerns, counterfeits)


def rule_of(policy: LimitPolicy) -> str:
    """The rules by which limits are made, in a few words."""
    rules = {"": policy, **policy.levels}
    texts = []
    for level, rule in rules.items():
        numbers = ((name, getattr(rule, name)) for name in RULE)
        text = ", ".join(f"{name} {number}" for name, number in numbers if number is not None) or "none"
        texts.append(f"{level}: {text}" if level else text)
    return "; ".join(texts)


def limits_of_new(request: PublishRequest, said: Manifest, counts: Mapping[str, int], rule: str) -> LimitPolicy:
    """A limit for every value and group: that of the release before where it has one, and else the one asked for.

    A rule goes by the rows of ST and by those who are new. An error if a limit is asked for that is another than that
    of the release before: all releases of a chain have the same limits.
    """
    shown = {value.value: value.count for value in said.values}
    together = ValueCounts.of(
        (text, shown.get(text, 0) + counts.get(text, 0)) for text in dict.fromkeys([*shown, *counts])
    )
    policy = as_policy(request.limits, together).ungrouping(request.options.null_name)
    if rule_of(policy) != rule:
        raise UsageError(f"limits were made by the rule {rule!r} at first, and {rule_of(policy)!r} is asked for", _SAME)
    resolved = resolve_limits(policy, together)
    limits = dict(zip(together.values, resolved.limits, strict=True))
    for value in said.values:
        is_fixed = value.value in policy.values or policy.rule not in _BY_COUNTS
        _keep(limits, value.value, Fraction(value.limit), is_fixed, repr(value.value))
    grouping = policy.grouping
    if (grouping is None) != (said.groups is None):
        raise UsageError(
            f"the release before has {'no ' if said.groups is None else ''}groups of values",
            "All releases of a chain have the same groups.",
        )
    if grouping is None or resolved.groups is None:
        return LimitPolicy(values=limits, allow_absent=True)
    groups = {group.name: group.limit for group in resolved.groups.groups}
    named = {grouping.full_name(name) for name in policy.groups}
    for group in said.groups or ():
        is_fixed = group.name in named or policy.levels.get(group.level, policy).rule not in _BY_COUNTS
        limit = None if group.limit is None else Fraction(group.limit)
        _keep(groups, group.name, limit, is_fixed, f"the group {group.name!r}")
    return _explicit(limits, groups, grouping)


def _explicit(limits: Mapping[str, Fraction], groups: Mapping[str, Fraction | None], grouping: Grouping) -> LimitPolicy:
    return LimitPolicy(
        values=limits,
        grouping=grouping,
        groups={name: limit for name, limit in groups.items() if limit is not None},
        levels=dict.fromkeys(grouping.levels, LimitPolicy()),
        allow_absent=True,
    )


def _keep(
    limits: dict[str, Fraction] | dict[str, Fraction | None], name: str, before: Fraction | None, fixed: bool, what: str
) -> None:
    """The limit of the release before, which a fixed one must not contradict."""
    if fixed and limits.get(name) != before:
        now = limits.get(name)
        raise UsageError(
            f"the limit of {what} was {before or 'none'} in the release before, and {now or 'none'} is asked for",
            _SAME,
        )
    limits[name] = before  # type: ignore[assignment]
