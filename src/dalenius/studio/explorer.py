"""Answers about the counts of one column: what would these limits cost?

`quick` answers in some tens of milliseconds, however many values there are. Its setting is valid: it is the one of
`dalenius plan` if the answer says `exact`, or within a few per cent of it. If there is none, the answer proves it, and
offers limits that can be kept. `explore(..., exact=True)` answers what `plan` does, and what two other methods find
under the same limits: the paper's two sizes, and Anatomy. It takes as long as that takes, so `worker` does it in a
process of its own.

Quick answers learn from each other: they first try cuts that mattered, and settings that were good, for similar limits.
So quick answers depend on earlier questions. Exact answers never do.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from fractions import Fraction

from dalenius.errors import DaleniusError, PolicyError, UndecidedError
from dalenius.model.plan import Method, NoSolution, Plan, PlanOptions
from dalenius.model.problem import BucketSetting, Partition, Problem, ValueCounts
from dalenius.planning import plan_counts, plan_without_search, prepare_problem, with_notes
from dalenius.policy.banding import with_bands_as_values
from dalenius.policy.bands import BandSpec
from dalenius.policy.limits import LimitPolicy
from dalenius.policy.not_applicable import without_not_applicable
from dalenius.solve.anatomy import find_anatomy
from dalenius.solve.caps import Instance
from dalenius.solve.glance import Memory, glance, partition_of
from dalenius.solve.methods import infeasible_solution, one_bucket_solution, solution_with_proof, why_not_anatomy
from dalenius.solve.optimal import Optimum
from dalenius.solve.sizes import fakes_can_be_in_proportion, larger_size
from dalenius.solve.two_size import find_two_size_setting
from dalenius.studio.answering import ValueOrder, best_relaxation, forcing_value
from dalenius.studio.exploration import Curve, Exploration, Peer, TradeOffPoint, Unprotected
from dalenius.studio.offers import obstacle_of, obstacle_of_error

TWO_SIZE, ANATOMY = "two-size", "anatomy"
CURVE = ("1.5", "2", "3", "4", "6", "8", "12", "16")  # odds, of the trade-off between exposure and error


def anatomy_peer(problem: Problem, max_size: int | None) -> Peer:
    """Anatomy's buckets of l and l + 1. Its setting is given even where it is not private."""
    result = find_anatomy(problem)
    most = problem.total if max_size is None else max_size
    sizes = [group.size for group in result.setting.groups] if result.setting is not None else []
    fits = bool(sizes) and problem.min_size <= sizes[0] and sizes[-1] <= most
    if result.eligible and fits:
        return Peer("feasible", result.setting)
    return Peer("infeasible", result.setting, why_not_anatomy(result, problem))


def two_size_peer(problem: Problem, deadline: float, *, grow: bool) -> Peer:
    """The best of two sizes, in the range of the problem or, with `grow`, in the first larger range that has any."""
    if not fakes_can_be_in_proportion(problem):
        return _one_bucket(problem) if grow else _NO_TWO_SIZES
    while True:
        try:
            setting = find_two_size_setting(problem, deadline)
        except UndecidedError:
            return Peer("undecided", None, "the search for the best two sizes takes longer than a few seconds")
        if setting is not None:
            return Peer("feasible", setting)
        if not grow:
            return _NO_TWO_SIZES
        size = larger_size(problem.max_size, problem.total)
        if size is None:
            return _one_bucket(problem, "no two sizes were found; one bucket holds everybody")
        if time.monotonic() > deadline:
            return _NO_TWO_SIZES
        problem = replace(problem, max_size=size)


_NO_TWO_SIZES = Peer("infeasible", None, "two sizes have no setting within the largest size")


def _one_bucket(problem: Problem, note: str | None = None) -> Peer:
    return Peer("feasible", BucketSetting.of([(problem.total, 1)]), note)


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
_KEPT_CURVES = 32
_KEPT_EXPLORERS = 4


class Explorer:
    """Answers about one column's counts. Threads may share it."""

    def __init__(self, counts: ValueCounts, not_applicable: tuple[str, ...] = ()) -> None:
        """`counts` are everybody's; people whose values do not apply are set apart."""
        self.everybody, self.not_applicable = counts, not_applicable
        self.counts = without_not_applicable(counts, not_applicable)
        self._order = ValueOrder.of(self.counts)
        self._lock = threading.Lock()
        self._memory = Memory()
        self._settings: list[BucketSetting] = []  # good ones, the latest first
        self._answers: OrderedDict[Hashable, Exploration] = OrderedDict()  # exact ones
        self._prices: OrderedDict[Hashable, Unprotected] = OrderedDict()  # of exact plans without protection
        self._curves: OrderedDict[Hashable, tuple[TradeOffPoint, ...]] = OrderedDict()

    @property
    def in_order(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The values and their counts, in the order of the page."""
        order = self._order.order
        return tuple(self.counts.values[i] for i in order), tuple(self.counts.counts[i] for i in order)

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
            resolved, problem = prepare_problem(self.everybody, policy, options, self.not_applicable)
            seconds = _SECONDS + _SECONDS_A_VALUE * len(problem.values)
            plan = plan_without_search(problem, Method.OPTIMAL, options)
            exact = plan is not None
            if plan is None:
                plan, exact = self._glance_until(problem, options, started + seconds)
            plan = with_notes(plan, resolved)
        except DaleniusError as error:
            return self.refusal(error, policy, time.monotonic() - started)
        obstacle = obstacle_of(plan, options, _OFFER_SECONDS)
        answer = self._order.exploration(
            plan,
            exact=exact and (obstacle is None or obstacle.offer is not None or options.max_size is None),
            peers={TWO_SIZE: _quick_two_size(plan, options), ANATOMY: anatomy_peer(problem, options.max_size)},
            forcing=forcing_value(plan),
            unprotected=self._unprotected(policy, options),
            obstacle=obstacle,
        )
        if answer.exact and answer.setting is not None:
            self._keep_price(policy, options, answer.setting)
        return replace(answer, seconds=time.monotonic() - started)

    def refusal(self, error: DaleniusError, policy: LimitPolicy | None = None, seconds: float = 0.0) -> Exploration:
        """The answer to an invalid question, such as limits that are not numbers, or groups of other values."""
        if policy is not None and self.counts.are_bands:
            policy = _by_band(policy, self.counts)
        return self._order.refusal(obstacle_of_error(error, policy, self.counts), policy, seconds)

    def learn(self, answer: Exploration, policy: LimitPolicy, options: PlanOptions | None = None) -> None:
        """Remember an exact answer, wherever it came from."""
        options = options or PlanOptions()
        if not answer.exact or answer.values != self.in_order[0]:
            return
        with self._lock:
            self._answers[_key(policy, options)] = answer
            while len(self._answers) > min(_KEPT_ANSWERS, max(2, _KEPT_VALUES // len(self.counts))):
                self._answers.popitem(last=False)
        if answer.setting is not None:
            self._remember(answer.setting)
            self._keep_price(policy, options, answer.setting)

    def trade_off(self, curve: Curve, options: PlanOptions) -> tuple[TradeOffPoint, ...]:
        """Exposure against error for the rule by odds, for a few numbers. It takes as long as as many quick answers."""
        points = []
        for odds in CURVE:
            answer = self.quick(replace(curve.policy, odds=Fraction(odds)), options)
            if answer.exposure is not None and answer.count_error is not None:
                points.append(TradeOffPoint(odds, answer.exposure.mean, answer.count_error.typical))
        return tuple(points)

    def known_trade_off(self, curve: Curve, options: PlanOptions) -> tuple[TradeOffPoint, ...] | None:
        """The trade-off, if somebody has found it before."""
        with self._lock:
            return self._curves.get(_key(curve.policy, options))

    def learn_trade_off(self, curve: Curve, options: PlanOptions, points: tuple[TradeOffPoint, ...]) -> None:
        """Remember a trade-off, wherever it came from."""
        with self._lock:
            self._curves[_key(curve.policy, options)] = points
            while len(self._curves) > _KEPT_CURVES:
                self._curves.popitem(last=False)

    def _exact(self, policy: LimitPolicy, options: PlanOptions) -> Exploration:
        """The answer of `plan`, with other methods and the best relaxation."""
        started = time.monotonic()
        known = self._known(policy, options)
        if known is not None:
            return known
        try:
            plan = plan_counts(self.everybody, policy, Method.OPTIMAL, options, self.not_applicable)
        except UndecidedError:
            _, problem = prepare_problem(self.everybody, policy, options, self.not_applicable)
            plan = Plan(problem, infeasible_solution(problem, Method.OPTIMAL), NoSolution("undecided"))
        except DaleniusError as error:
            return self.refusal(error, policy, time.monotonic() - started)
        without = plan.unprotected
        answer = self._order.exploration(
            plan,
            exact=True,
            peers={TWO_SIZE: _two_size(plan, options), ANATOMY: anatomy_peer(plan.problem, options.max_size)},
            forcing=best_relaxation(plan),
            unprotected=None if without is None or without.setting is None else _priced(without.setting),
            obstacle=obstacle_of(plan, options, _EXACT_OFFER_SECONDS),
            seconds=time.monotonic() - started,
        )
        self.learn(answer, policy, options)
        return answer

    def _glance_until(self, problem: Problem, options: PlanOptions, deadline: float) -> tuple[Plan, bool]:
        """The best plan until the deadline, and whether it is the one that `plan` finds."""
        with self._lock:
            memory, settings = self._memory, list(self._settings)
        exact = True
        while True:
            result = glance(problem, options.gap, deadline, memory)
            exact = exact and result.finished
            partition = result.partition if result.finished else _best(problem, result.partition, settings)
            if partition is not None:
                self._remember(partition.setting, result.memory)
                proof = Optimum(partition.setting, result.bound, None)
                solution = solution_with_proof(problem, Method.OPTIMAL, partition, proof, options.gap, 0.0)
                return Plan(problem, solution), exact
            if options.max_size is not None:
                reason = "max-size" if result.finished else "undecided"
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
        """Keep the cost of an unprotected plan, which gives the price of protection under the same limits."""
        if options.known_records or options.fake_values:
            return
        with self._lock:
            self._prices[_key(policy, options)] = _priced(setting)
            while len(self._prices) > _KEPT_PRICES:
                self._prices.popitem(last=False)

    def _unprotected(self, policy: LimitPolicy, options: PlanOptions) -> Unprotected | None:
        """The loss without protection, if it is known."""
        if not (options.known_records or options.fake_values):
            return None
        with self._lock:
            return self._prices.get(_key(policy, replace(options, known_records=0, fake_values=0)))


def _by_band(policy: LimitPolicy, counts: ValueCounts) -> LimitPolicy | None:
    """A policy about bands as one about values; None if it makes no sense."""
    try:
        return with_bands_as_values(policy, counts)[0]
    except PolicyError:
        return None


class Explorers:
    """Those of one column: by value or by bands of numbers, for everybody or for those whose values apply.

    Threads may share it. The last few are kept, and with them what their quick answers have learned.
    """

    def __init__(self, count: Callable[[BandSpec | None], ValueCounts]) -> None:
        """`count` gives the records of each value, or of each band."""
        self._count = count
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Explorer] = OrderedDict()

    def get(self, bands: BandSpec | None, not_applicable: tuple[str, ...]) -> Explorer:
        """The one for these bands, if there are any, and for people whose values are none of these."""
        key = (bands, not_applicable)
        with self._lock:
            explorer = self._kept.pop(key, None) or Explorer(self._count(bands), not_applicable)
            self._kept[key] = explorer
            while len(self._kept) > _KEPT_EXPLORERS:
                self._kept.popitem(last=False)
        return explorer


def _best(problem: Problem, partition: Partition | None, others: list[BucketSetting]) -> Partition | None:
    """The partition, or one of an earlier setting that is better and still valid."""
    better = [other for other in others if partition is None or other.loss < partition.setting.loss]
    for setting in sorted(better, key=lambda setting: setting.loss):
        if problem.min_size <= setting.groups[0].size and setting.groups[-1].size <= problem.max_size:
            earlier = partition_of(Instance(problem), setting)
            if earlier is not None:
                return earlier
    return partition


def _quick_two_size(plan: Plan, options: PlanOptions) -> Peer | None:
    """The best two sizes, if the search takes only a few milliseconds."""
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
    levels = tuple((level, _rule(rule)) for level, rule in sorted(policy.levels.items()))
    by_name = tuple(tuple(sorted(limits.items())) for limits in (policy.values, policy.groups))
    return _rule(policy), by_name, policy.allow_absent, policy.grouping, levels, options


def _rule(policy: LimitPolicy) -> Hashable:
    return policy.odds, policy.floor, policy.theta, policy.base, policy.uniform, policy.l_diversity, policy.beta
