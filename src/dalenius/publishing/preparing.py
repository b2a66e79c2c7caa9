"""The first half of publishing: the table is read and counted, the limits resolved, the setting found, strata cut.

Nothing is placed or written yet. What is left to do needs the table again, so it stays open as long as it takes.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dalenius.dealing import Deal, whole
from dalenius.engines.delimited import missing_column
from dalenius.errors import NoSolutionError, UsageError
from dalenius.model.plan import Plan, PlanOptions
from dalenius.model.progress import Progress
from dalenius.model.solution import Method, Status
from dalenius.place.budget import Budget
from dalenius.place.permutation import KEY_BYTES
from dalenius.place.survey import Survey
from dalenius.planning import plan_counts
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.policy.strata import StrataWish
from dalenius.processing.engine import Engine, OpenTable, Wanted
from dalenius.protect.partition import price
from dalenius.stratifying import Stratifier
from dalenius.writing import PublishOptions, Roles


@dataclass(frozen=True)
class Ready:
    """A table that is open, counted, planned and cut, and what is known of it."""

    opened: OpenTable
    survey: Survey
    policy: LimitPolicy
    plan: Plan
    deal: Deal
    left_out: tuple[str, ...]


class Preparation:
    """What was asked for, checked before anything is read or written.

    `key` is that of everything random in a release but fakes; it is forgotten at the end.
    """

    def __init__(
        self,
        roles: Roles,
        limits: LimitPolicy | Mapping[Any, Any],
        method: Method | str,
        solving: PlanOptions,
        options: PublishOptions,
    ) -> None:
        _check(roles, options)
        self.budget = Budget.of(options.memory)
        self.key = _key(options.seed)
        self.wish = StrataWish.of(options.strata, roles.quasi_identifiers)
        self._roles, self._limits, self._method = roles, limits, method
        self._solving, self._options = solving, options

    @contextmanager
    def ready(self, engine: Engine, table: Any, told: Progress) -> Iterator[Ready]:
        """Count, resolve the limits, solve and cut; the table is open until the end of the context."""
        roles, options, budget = self._roles, self._options, self.budget
        stratifier = Stratifier(self.wish, self._solving, budget, self.key) if self.wish.kind != "none" else None
        with engine.open(table, options.table) as opened:
            left_out = _left_out(opened, roles)
            told.stage("Counting")
            sample = stratifier.sample if stratifier is not None else None
            found = opened.survey(Wanted(roles.sensitive, roles.quasi_identifiers, options.null_value, sample), told)
            budget.check_values(len(found.sensitive.texts))
            if stratifier is not None:
                stratifier.check(found)
            told.stage("Solving")
            counts = found.sensitive.value_counts
            policy = as_policy(self._limits, counts)
            plan = _solved(plan_counts(counts, policy, self._method, self._solving))
            for sentence in price(plan):
                told.tell(sentence)
            rng = random_bits(options.seed)
            if stratifier is None:
                deal = whole(plan, found, opened.count(found, None, told), rng)
            else:
                deal = stratifier.cut(opened, found, plan, rng, told)
            for sentence in deal.sentences(plan)[:1]:  # the price, before anything is placed
                told.tell(sentence)
            yield Ready(opened, found, policy, plan, deal, left_out)


def _check(roles: Roles, options: PublishOptions) -> None:
    if not roles.quasi_identifiers:
        raise UsageError("no quasi-identifiers are named", "Say which columns to publish beside the sensitive one.")
    named = [*roles.quasi_identifiers, *roles.identifiers, roles.sensitive]
    if not all(isinstance(name, str) and name for name in named):
        raise UsageError("column names must be text")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the column {twice!r} has more than one role", "Name each column once.")
    if options.seed is not None and (isinstance(options.seed, bool) or not isinstance(options.seed, int)):
        raise UsageError(f"the seed must be a whole number, got {type(options.seed).__name__}")
    if options.seed is not None and options.seed < 0:
        raise UsageError(f"the seed must not be negative, got {options.seed}")
    if options.memory is not None and (isinstance(options.memory, bool) or not isinstance(options.memory, int)):
        raise UsageError(f"memory is a number of bytes, got {type(options.memory).__name__}", "Give 2 * 10**9.")


def _left_out(opened: OpenTable, roles: Roles) -> tuple[str, ...]:
    """The columns in no role, once every named one is known to be there."""
    named = [roles.sensitive, *roles.quasi_identifiers, *roles.identifiers]
    for name in named:
        if name not in opened.names:
            raise missing_column(name, opened.names)
    return tuple(name for name in opened.names if name not in named)


def _solved(plan: Plan) -> Plan:
    if plan.status is Status.INFEASIBLE or plan.solution.partition is None:
        reason = plan.no_solution.reason if plan.no_solution is not None else "infeasible"
        raise NoSolutionError(f"no release exists under these limits ({reason})", "See 'dalenius plan'.", plan)
    return plan


def random_bits(seed: int | None) -> random.Random:
    """Where fakes come from: the operating system, or, for tests, a seed."""
    return secrets.SystemRandom() if seed is None else random.Random(f"dalenius seed {seed}")  # noqa: S311 (for tests)


def _key(seed: int | None) -> bytes:
    """The key of everything that is random in a release but fakes; it is forgotten at the end."""
    return secrets.token_bytes(KEY_BYTES) if seed is None else hashlib.sha256(f"dalenius seed {seed}".encode()).digest()
