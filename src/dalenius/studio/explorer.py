"""One column's counts, and answers about them: what would these limits cost?

`quick` answers in some tens of milliseconds, however many values there are: with a valid setting, which is the one of
`dalenius plan` if the answer says `exact`, or within a few per cent of it; or with a proof that there is none and an
offer of limits that can be kept. `explore(..., exact=True)` answers what `plan` does, with what other methods find, in
as long as that takes: `worker.py` does that in a process of its own.

Quick answers learn from each other: cuts that mattered and settings that were good for similar limits are tried first.
So they depend on what was asked before, and exact ones never do.

What other methods find under the same limits: the paper's two sizes, and Anatomy.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from dalenius.errors import DaleniusError, UndecidedError
from dalenius.model.plan import Method, NoSolution, Plan, PlanOptions
from dalenius.model.problem import BucketSetting, Partition, Problem, ValueCounts
from dalenius.planning import plan_counts, plan_without_search, prepare_problem, with_notes
from dalenius.policy.limits import LimitPolicy
from dalenius.solve.anatomy import find_anatomy
from dalenius.solve.caps import Instance
from dalenius.solve.glance import Memory, glance, partition_of
from dalenius.solve.methods import infeasible_solution, one_bucket_solution, solution_with_proof, why_not_anatomy
from dalenius.solve.optimal import Optimum
from dalenius.solve.sizes import fakes_can_be_in_proportion, larger_size
from dalenius.solve.two_size import find_two_size_setting
from dalenius.studio.answering import Shown, forcing, of_error, tried_out
from dalenius.studio.exploration import Exploration, Peer, Unprotected
from dalenius.studio.offers import obstacle_of

TWO_SIZE, ANATOMY = "two-size", "anatomy"


def anatomy_peer(problem: Problem, max_size: int | None) -> Peer:
    """Anatomy's buckets of l and l + 1; its setting is told even where it is not private."""
    found = find_anatomy(problem)
    most = problem.total if max_size is None else max_size
    fits = found.setting is not None and found.setting.groups[-1].size <= most
    fits = fits and found.setting is not None and found.setting.groups[0].size >= problem.min_size
    if found.eligible and fits:
        return Peer("feasible", found.setting)
    return Peer("infeasible", found.setting, why_not_anatomy(found, problem))


def two_size_peer(problem: Problem, deadline: float, *, grow: bool) -> Peer:
    """The best of two sizes, in the range of the problem or, with `grow`, in the first larger one that has any."""
    if not fakes_can_be_in_proportion(problem):
        one = BucketSetting.of([(problem.total, 1)]) if grow else None
        note = None if grow else "two sizes have no setting within the largest size"
        return Peer("feasible" if grow else "infeasible", one, note)
    while True:
        try:
            found = find_two_size_setting(problem, deadline)
        except UndecidedError:
            return Peer("undecided", None, "looking for the best two sizes takes longer than a few seconds")
        if found is not None:
            return Peer("feasible", found)
        size = larger_size(problem.max_size, problem.total) if grow else None
        if size is None or time.monotonic() > deadline:
            break
        problem = replace(problem, max_size=size)
    if grow and size is None:
        return Peer(
            "feasible", BucketSetting.of([(problem.total, 1)]), "no two sizes were found; one bucket holds everybody"
        )
    return Peer("infeasible", None, "two sizes have no setting within the largest size")


_SECONDS = 0.045  # for a quick answer, and more for many values
_SECONDS_A_VALUE = 0.00012
_OFFER_SECONDS = 0.05
_EXACT_OFFER_SECONDS = 5.0
_PEER_SECONDS = 5.0
_QUICK_PEER_CELLS = 60_000  # values x sizes, up to which two sizes are looked for at once
_QUICK_PEER_SECONDS = 0.02
_KEPT_ANSWERS = 64  # at most, and fewer where there are many values
_KEPT_VALUES = 200_000
_KEPT_PRICES = 256
_KEPT_SETTINGS = 3


class Explorer:
    """Answers about one column's counts. Threads may share it."""

    def __init__(self, counts: ValueCounts) -> None:
        self._counts = counts
        self._shown = Shown.of(counts)
        self._lock = threading.Lock()
        self._memory = Memory()
        self._settings: list[BucketSetting] = []  # good ones, the latest first
        self._answers: OrderedDict[Hashable, Exploration] = OrderedDict()  # exact ones
        self._prices: OrderedDict[Hashable, Unprotected] = OrderedDict()  # of exact plans without protection

    def explore(self, policy: LimitPolicy, options: PlanOptions | None = None, *, exact: bool) -> Exploration:
        """The answer, quick or exact."""
        return self._exact(policy, options or PlanOptions()) if exact else self.quick(policy, options)

    def quick(self, policy: LimitPolicy, options: PlanOptions | None = None) -> Exploration:
        """A valid setting for these limits, or why there is none, at once."""
        started = time.monotonic()
        options = options or PlanOptions()
        known = self._known(policy, options)
        if known is not None:
            return replace(known, seconds=time.monotonic() - started)
        try:
            resolved, problem = prepare_problem(self._counts, policy, options)
            seconds = _SECONDS + _SECONDS_A_VALUE * len(problem.values)
            plan = plan_without_search(problem, Method.OPTIMAL, options)
            exact = plan is not None
            if plan is None:
                plan, exact = self._glanced(problem, options, started + seconds)
            plan = with_notes(plan, resolved)
        except DaleniusError as error:
            return self._shown.refused(of_error(error), policy, time.monotonic() - started)
        obstacle = obstacle_of(plan, options, _OFFER_SECONDS)
        answer = self._shown.explored(
            plan,
            exact=exact and (obstacle is None or obstacle.offer is not None or options.max_size is None),
            peers={TWO_SIZE: _quick_two_size(plan, options), ANATOMY: anatomy_peer(problem, options.max_size)},
            forcing=forcing(plan),
            unprotected=self._unprotected(policy, options),
            obstacle=obstacle,
        )
        if answer.exact and answer.setting is not None:
            self._keep_price(policy, options, answer.setting)
        return replace(answer, seconds=time.monotonic() - started)

    def refused(self, error: DaleniusError) -> Exploration:
        """The answer to a question that could not be asked: limits that are no numbers, and the like."""
        return self._shown.refused(of_error(error))

    def learn(self, answer: Exploration, policy: LimitPolicy, options: PlanOptions | None = None) -> None:
        """Remember an exact answer, from wherever it came."""
        options = options or PlanOptions()
        if not answer.exact or answer.values != tuple(self._counts.values[i] for i in self._shown.order):
            return
        with self._lock:
            self._answers[_key(policy, options)] = answer
            while len(self._answers) > min(_KEPT_ANSWERS, max(2, _KEPT_VALUES // len(self._counts))):
                self._answers.popitem(last=False)
        if answer.setting is not None:
            self._remember(answer.setting)
            self._keep_price(policy, options, answer.setting)

    def _exact(self, policy: LimitPolicy, options: PlanOptions) -> Exploration:
        """What `plan` answers, and what goes with it."""
        started = time.monotonic()
        known = self._known(policy, options)
        if known is not None:
            return known
        try:
            plan = plan_counts(self._counts, policy, Method.OPTIMAL, options)
        except UndecidedError:
            _, problem = prepare_problem(self._counts, policy, options)
            plan = Plan(problem, infeasible_solution(problem, Method.OPTIMAL), NoSolution("undecided"))
        except DaleniusError as error:
            return self._shown.refused(of_error(error), policy, time.monotonic() - started)
        without = plan.unprotected
        answer = self._shown.explored(
            plan,
            exact=True,
            peers={TWO_SIZE: _two_size(plan, options), ANATOMY: anatomy_peer(plan.problem, options.max_size)},
            forcing=tried_out(plan),
            unprotected=None if without is None or without.setting is None else _priced(without.setting),
            obstacle=obstacle_of(plan, options, _EXACT_OFFER_SECONDS),
            seconds=time.monotonic() - started,
        )
        self.learn(answer, policy, options)
        return answer

    def _glanced(self, problem: Problem, options: PlanOptions, deadline: float) -> tuple[Plan, bool]:
        """A plan that was found until the deadline, and whether it is the one that `plan` finds."""
        with self._lock:
            memory, settings = self._memory, list(self._settings)
        exact = True
        while True:
            found = glance(problem, options.gap, deadline, memory)
            exact = exact and found.finished
            partition = found.partition if found.finished else _best(problem, found.partition, settings)
            if partition is not None:
                self._remember(partition.setting, found.memory)
                proof = Optimum(partition.setting, found.bound, None)
                solution = solution_with_proof(problem, Method.OPTIMAL, partition, proof, options.gap, 0.0)
                return Plan(problem, solution), exact
            if options.max_size is not None:
                reason = "max-size" if found.finished else "undecided"
                return Plan(problem, infeasible_solution(problem, Method.OPTIMAL), NoSolution(reason)), False
            size = larger_size(problem.max_size, problem.total)
            if size is None:
                one = one_bucket_solution(problem, Method.OPTIMAL)
                return Plan(replace(problem, max_size=one.max_size), one), False
            problem = replace(problem, max_size=size)

    def _remember(self, setting: BucketSetting, memory: Memory | None = None) -> None:
        """Keep what the next quick answer may start from."""
        with self._lock:
            self._memory = memory or self._memory
            self._settings = [setting, *(other for other in self._settings if other != setting)][:_KEPT_SETTINGS]

    def _known(self, policy: LimitPolicy, options: PlanOptions) -> Exploration | None:
        with self._lock:
            return self._answers.get(_key(policy, options))

    def _keep_price(self, policy: LimitPolicy, options: PlanOptions, setting: BucketSetting) -> None:
        """What an unprotected plan costs: the price of protection under the same limits is known from it."""
        if options.known_records or options.fake_values:
            return
        with self._lock:
            self._prices[_key(policy, options)] = _priced(setting)
            while len(self._prices) > _KEPT_PRICES:
                self._prices.popitem(last=False)

    def _unprotected(self, policy: LimitPolicy, options: PlanOptions) -> Unprotected | None:
        """The loss without protection, if that was asked before."""
        if not (options.known_records or options.fake_values):
            return None
        with self._lock:
            return self._prices.get(_key(policy, replace(options, known_records=0, fake_values=0)))


def _best(problem: Problem, found: Partition | None, others: list[BucketSetting]) -> Partition | None:
    """What was found, or an earlier setting that is better and still valid."""
    better = [other for other in others if found is None or other.loss < found.setting.loss]
    for setting in sorted(better, key=lambda setting: setting.loss):
        if problem.min_size <= setting.groups[0].size and setting.groups[-1].size <= problem.max_size:
            partition = partition_of(Instance(problem), setting)
            if partition is not None:
                return partition
    return found


def _quick_two_size(plan: Plan, options: PlanOptions) -> Peer | None:
    """The best two sizes, if looking for them takes a few milliseconds."""
    problem = plan.problem
    sizes = min(problem.max_size, problem.total) - problem.min_size + 1
    if plan.no_solution is not None or sizes * len(problem.values) > _QUICK_PEER_CELLS:
        return None
    peer = two_size_peer(problem, time.monotonic() + _QUICK_PEER_SECONDS, grow=False)
    certain = peer.status == "feasible" or (peer.status == "infeasible" and options.max_size is not None)
    return peer if certain else None


def _two_size(plan: Plan, options: PlanOptions) -> Peer | None:
    if plan.no_solution is not None:
        return None
    return two_size_peer(plan.problem, time.monotonic() + _PEER_SECONDS, grow=options.max_size is None)


def _priced(setting: BucketSetting) -> Unprotected:
    return Unprotected(setting.loss, float(setting.mse))


def _key(policy: LimitPolicy, options: PlanOptions) -> Hashable:
    rule = (policy.theta, policy.base, policy.uniform, policy.l_diversity, policy.beta)
    return rule, tuple(sorted(policy.values.items())), options
