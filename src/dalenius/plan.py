"""What would it cost? Count, resolve the limits, solve: the first half of publishing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dalenius.engines.duckdb import open_table
from dalenius.errors import CountsError, PolicyError, UndecidedError, UsageError
from dalenius.model.plan import IneligibleValue, NoSolution, Plan, PlanOptions
from dalenius.model.problem import Problem, ValueCounts
from dalenius.model.solution import Method, Solution, Status
from dalenius.policy.exact import Number
from dalenius.policy.limits import LimitPolicy, ResolvedLimits, resolve_limits
from dalenius.solve.methods import solve
from dalenius.solve.sizes import automatic_max_size, larger, least_min_size, smallest_working

_RULE_KEYS = frozenset({"theta", "base", "uniform", "l_diversity", "beta", "values"})
_SEARCH_SECONDS = 5.0  # for each try at a larger max-size, when one has to be recommended


def plan(
    counts_or_table: Any,
    limits: LimitPolicy | Mapping[Any, Any],
    *,
    sensitive: str | None = None,
    method: Method | str = Method.OPTIMAL,
    min_size: int | None = None,
    max_size: int | None = None,
    gap: float = 1e-4,
    time_limit: float = 60.0,
    null_value: str | None = None,
) -> Plan:
    """The best bucket setting for a table, or for counts alone.

    `counts_or_table` is a dict of counts by value, or a table with its `sensitive` column named: a path, a pandas or
    polars DataFrame, a pyarrow Table or a DuckDB relation. `limits` is a `LimitPolicy`, a dict of limits by value, or
    a dict with the keys of a job file's [limits] section, such as {"theta": 8, "base": "0.02"}.

    >>> import dalenius
    >>> plan = dalenius.plan({"Flu": 90, "HIV": 10}, {"Flu": 1, "HIV": "0.2"})
    >>> str(plan.solution.setting), plan.solution.loss
    ('50 x 1 + 10 x 5', 160)
    """
    counts = count_values(counts_or_table, sensitive, null_value)
    return plan_counts(counts, as_policy(limits, counts), method, PlanOptions(min_size, max_size, gap, time_limit))


def count_values(counts_or_table: Any, sensitive: str | None, null_value: str | None = None) -> ValueCounts:
    """Counts from a dict, or counted in a table."""
    if isinstance(counts_or_table, ValueCounts):
        return counts_or_table
    if isinstance(counts_or_table, Mapping):
        return ValueCounts.of((_label(value), _whole(value, count)) for value, count in counts_or_table.items())
    if sensitive is None:
        raise UsageError("the sensitive column is not named", "Say which column is sensitive: sensitive='Disease'.")
    with open_table(counts_or_table) as table:
        return table.count_by_value(sensitive, null_value)


def as_policy(limits: LimitPolicy | Mapping[Any, Any], counts: ValueCounts) -> LimitPolicy:
    """Limits in any of the forms that `plan` takes."""
    if isinstance(limits, LimitPolicy):
        return limits
    if not isinstance(limits, Mapping):
        raise PolicyError(
            f"limits must be a LimitPolicy or a dict, got {type(limits).__name__}",
            "Give {'theta': 8, 'base': '0.02'}, or a limit a value.",
        )
    keys = {_label(key) for key in limits}
    if keys <= _RULE_KEYS and not keys <= set(counts.values):
        rule: Mapping[str, Any] = limits
        return LimitPolicy.of(
            **{key: limit for key, limit in rule.items() if key != "values"},
            values=_by_label(rule.get("values", {})),
        )
    return LimitPolicy.of(values=_by_label(limits))


def plan_counts(
    counts: ValueCounts,
    policy: LimitPolicy,
    method: Method | str = Method.OPTIMAL,
    options: PlanOptions | None = None,
) -> Plan:
    """Resolve the limits and solve with one method."""
    return compare_counts(counts, policy, [method], options)[0]


def compare_counts(
    counts: ValueCounts,
    policy: LimitPolicy,
    methods: Iterable[Method | str],
    options: PlanOptions | None = None,
) -> list[Plan]:
    """The plans of several methods, all over the same range of sizes: the one that the first of them needs."""
    options = options or PlanOptions()
    chosen = [_method(method) for method in methods]
    resolved = resolve_limits(policy, counts)
    problem = _problem(counts, resolved, options)
    not_eligible = _ineligible(problem)
    if not_eligible is not None:
        return [Plan(problem, _nothing(problem, method), not_eligible, resolved.notes) for method in chosen]
    plans: list[Plan] = []
    for method in chosen:
        solved = _solve_in_range(problem, method, options, may_grow=options.max_size is None)
        problem = replace(problem, max_size=max(problem.max_size, solved.problem.max_size))
        plans.append(replace(solved, notes=resolved.notes + solved.notes + _remarks(solved.solution)))
    return plans


def _problem(counts: ValueCounts, resolved: ResolvedLimits, options: PlanOptions) -> Problem:
    """The counts with their limits and the range of sizes that the options ask for."""
    _check_options(options, counts.total)
    min_size = max(least_min_size(resolved.limits), options.min_size or 1)
    max_size = options.max_size
    if max_size is None:
        max_size = max(min_size, automatic_max_size(resolved.limits, counts.total))
    return Problem(counts.values, counts.counts, resolved.limits, min_size, max_size)


def _solve_in_range(problem: Problem, method: Method, options: PlanOptions, may_grow: bool) -> Plan:
    """Solve; with an automatic largest size, let it grow until there is a setting."""
    while True:
        next_size = larger(problem.max_size, problem.total) if may_grow and method is not Method.ANATOMY else None
        try:
            solution = solve(problem, method, options.gap, options.time_limit)
        except UndecidedError:
            if next_size is None:
                raise
        else:
            if solution.status is not Status.INFEASIBLE:
                return Plan(problem, solution)
            if next_size is None:
                return Plan(problem, solution, _too_small(problem, method))
        problem = replace(problem, max_size=next_size)


def _too_small(problem: Problem, method: Method) -> NoSolution:
    """The largest size is too small: find the smallest one that is not."""
    if method is Method.ANATOMY:
        return NoSolution("not-l-diverse")

    def works(max_size: int) -> bool:
        try:
            tried = solve(replace(problem, max_size=max_size), method, gap=1.0, time_limit=_SEARCH_SECONDS)
        except UndecidedError:
            return False
        return tried.status is not Status.INFEASIBLE

    return NoSolution("max-size", smallest_max_size=smallest_working(works, problem.max_size, problem.total))


def _ineligible(problem: Problem) -> NoSolution | None:
    """Lemma 1: some bucketization exists iff f'_i >= o_i / n for all i."""
    total = problem.total
    values = tuple(
        IneligibleValue(value, Fraction(count, total), limit)
        for value, count, limit in zip(problem.values, problem.counts, problem.limits, strict=True)
        if limit * total < count
    )
    return NoSolution("not-eligible", values) if values else None


def _nothing(problem: Problem, method: Method) -> Solution:
    return Solution(method, Status.INFEASIBLE, problem.min_size, problem.max_size, None, None)


def _remarks(solution: Solution) -> tuple[str, ...]:
    notes = list(solution.notes)
    if (
        solution.status is not Status.INFEASIBLE
        and solution.setting is not None
        and solution.setting.groups[0].size == 1
    ):
        single = solution.setting.groups[0].buckets
        notes.append(
            f"{single:,} buckets hold a single record, whose value is then published outright, as a limit of 1 allows; "
            "--min-size 2 prevents it"
        )
    return tuple(notes)


def _check_options(options: PlanOptions, total: int) -> None:
    if options.min_size is not None and options.min_size < 1:
        raise UsageError(f"the smallest bucket size must be at least 1, got {options.min_size}")
    if options.max_size is not None and options.max_size < 1:
        raise UsageError(f"the largest bucket size must be at least 1, got {options.max_size}")
    if options.min_size is not None and options.max_size is not None and options.min_size > options.max_size:
        raise UsageError(
            f"the smallest bucket size {options.min_size} is above the largest, {options.max_size}",
            "Swap them, or leave one out.",
        )
    if options.min_size is not None and options.min_size > total:
        raise UsageError(
            f"the smallest bucket size {options.min_size} is more than the {total} records there are",
            "Give a smaller --min-size.",
        )
    if not 0 <= options.gap < 1:
        raise UsageError(f"the gap must be at least 0 and below 1, got {options.gap}")
    if not options.time_limit > 0:
        raise UsageError(f"the time limit must be above 0 seconds, got {options.time_limit}")


def _method(method: Method | str) -> Method:
    try:
        return Method(method)
    except ValueError:
        raise UsageError(f"there is no method {str(method)!r}", f"Known: {', '.join(Method)}.") from None


def _label(value: Any) -> str:
    """The text by which a value is known: the text that the table engine makes of it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _whole(value: Any, count: Any) -> int:
    """A count as a Python integer; numpy's integers are welcome, fractions are not."""
    if isinstance(count, bool):
        raise CountsError(f"the count of {_label(value)!r} is {count!r}, not a whole number")
    try:
        return int(count.__index__())
    except (AttributeError, TypeError):
        raise CountsError(f"the count of {_label(value)!r} is {count!r}, not a whole number") from None


def _by_label(limits: Mapping[Any, Number]) -> dict[str, Number]:
    labelled: dict[str, Number] = {}
    for value, limit in limits.items():
        if _label(value) in labelled:
            raise PolicyError(f"the value {_label(value)!r} has more than one limit", "Give each value once.")
        labelled[_label(value)] = limit
    return labelled
