"""What a release would cost: count, resolve the limits, solve. That is the first half of publishing."""

from __future__ import annotations

import numbers
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dalenius.errors import CountsError, NullsError, UndecidedError, UsageError
from dalenius.model.plan import Method, NoSolution, Plan, PlanOptions, Solution, Status
from dalenius.model.problem import Problem, ValueCounts, name_of_nulls
from dalenius.policy.banding import bands_to_offer, with_bands_as_values
from dalenius.policy.bands import BandSpec, resolve_bands
from dalenius.policy.exact import label
from dalenius.policy.icd import groups_to_offer
from dalenius.policy.limits import LimitPolicy, ResolvedLimits, as_policy, bands_in, resolve_limits
from dalenius.policy.not_applicable import (
    apart_sentence,
    refuse_fakes,
    refuse_not_applicable,
    without_not_applicable,
)
from dalenius.solve.foresight import foresee_error, foresee_exposure, foresee_groups
from dalenius.solve.methods import MOMENT, infeasible_solution, solve, solve_and_grow
from dalenius.solve.sizes import (
    HIDING_SIZE,
    LARGEST_SIZE,
    automatic_max_size,
    check_options,
    fakes_can_be_in_proportion,
    least_min_size,
    smallest_working_size,
    why_impossible,
)

if TYPE_CHECKING:
    from dalenius.tables.number_counts import NumberCounts

MANY_NUMBERS = 200  # different ones, from which on bands are offered
_REASONS = ("numbers says little", "codes is none on a chapter")
_ADVICE_SECONDS = 20.0  # at most, for finding a max-size to recommend


def plan(
    counts_or_table: Any,
    limits: LimitPolicy | Mapping[Any, Any],
    *,
    sensitive: str | None = None,
    table: str | None = None,
    method: Method | str = Method.OPTIMAL,
    min_size: int | None = None,
    max_size: int | None = None,
    gap: float = 1e-3,
    time_limit: float = 60.0,
    null_value: str | None = None,
    missing: Sequence[str] = (),
    not_applicable: Sequence[str] = (),
    known_records: int = 0,
    fake_values: int = 0,
) -> Plan:
    """The best bucket setting for a table, or for counts alone.

    `counts_or_table` is a dict of counts by value, or a table with its `sensitive` column named: a path (and the name
    of the `table`, for a DuckDB file that has several), a pandas or polars DataFrame, a pyarrow Table or a DuckDB
    relation. `limits` is a `LimitPolicy`, a dict of limits by value, or a dict with the keys of a job file's [limits]
    section, such as {"odds": 8}. {"odds": 8, "grouping": "icd10"} is for groups of values too: `grouping` says where
    they come from, as a job file's `groups` does.

    The limits hold even for an attacker who knows any `known_records` records of a bucket, and `fake_values` fake
    values go into every bucket. The plan then has the solution without either as `unprotected`: their difference is
    the price.

    Nulls count as `null_value`, and so do texts that are `missing`. Records whose values are `not_applicable` are set
    apart: the plan is for the others.

    >>> import dalenius
    >>> plan = dalenius.plan({"Flu": 90, "HIV": 10}, {"Flu": 1, "HIV": "0.2"})
    >>> str(plan.solution.setting), plan.solution.loss
    ('25 x 2 + 10 x 5', 185)
    """
    missing = (missing,) if isinstance(missing, str) else tuple(missing)
    null_name, bands = name_of_nulls(null_value, missing), bands_in(limits)
    counts = count_values(counts_or_table, sensitive, null_name, table, missing, _allows_absent(limits), bands)
    options = PlanOptions(
        min_size=min_size,
        max_size=max_size,
        gap=gap,
        time_limit=time_limit,
        known_records=known_records,
        fake_values=fake_values,
    )
    apart = (not_applicable,) if isinstance(not_applicable, str) else tuple(not_applicable)
    policy = as_policy(limits, without_not_applicable(counts, apart)).ungrouping(null_name)
    return plan_counts(counts, policy, method, options, apart)


def _allows_absent(limits: LimitPolicy | Mapping[Any, Any]) -> bool:
    """Whether limits as Python callers give them allow what the table does not have."""
    if isinstance(limits, LimitPolicy):
        return limits.allow_absent
    return isinstance(limits, Mapping) and limits.get("allow_absent") is True


def count_values(
    counts_or_table: Any,
    sensitive: str | None,
    null_value: str | None = None,
    table: str | None = None,
    missing: Sequence[str] = (),
    allow_absent: bool = False,
    bands: BandSpec | None = None,
) -> ValueCounts:
    """Counts from a dict, or counted in a table: by value, or by bands of numbers."""
    if isinstance(counts_or_table, ValueCounts):
        return counts_or_table
    if isinstance(counts_or_table, Mapping):
        return ValueCounts.of((label(value), _whole(value, count)) for value, count in counts_or_table.items())
    if not isinstance(sensitive, str):
        raise UsageError("the sensitive column is not named", "Say which column is sensitive: sensitive='Disease'.")
    if null_value is not None and not isinstance(null_value, str):
        raise UsageError(f"null_value must be text, got {type(null_value).__name__}")
    from dalenius.tables.open_table import open_table  # publishing counts for itself, and may do without DuckDB

    with open_table(counts_or_table, table) as opened:
        if bands is None:
            return opened.count_by_value(sensitive, null_value, missing, allow_absent)
        from dalenius.tables.number_counts import count_numbers

        return count_in_bands(count_numbers(opened, sensitive, missing), bands, sensitive, null_value)


def count_in_bands(found: NumberCounts, spec: BandSpec, column: str, null_value: str | None) -> ValueCounts:
    """The records of each band, and of nulls under their name."""
    bands = resolve_bands(spec, found.numbers, found.counts)
    totals = np.bincount(bands.of(found.numbers), weights=found.counts, minlength=len(bands.names))
    pairs = [(name, int(total)) for name, total in zip(bands.names, totals.tolist(), strict=True)]
    if found.nulls and null_value is None:
        raise NullsError.in_column(column, found.nulls, found.nulls + sum(count for _, count in pairs))
    if found.nulls and null_value is not None:
        pairs.append((null_value, found.nulls))
    return ValueCounts.of(pairs, cuts=bands.levels)


def plan_counts(
    counts: ValueCounts,
    policy: LimitPolicy,
    method: Method | str = Method.OPTIMAL,
    options: PlanOptions | None = None,
    not_applicable: Sequence[str] = (),
) -> Plan:
    """Resolve the limits and solve with one method. Records with values that do not apply are set apart."""
    return compare_counts(counts, policy, [method], options, not_applicable, undecided=False)[0]


def compare_counts(
    counts: ValueCounts,
    policy: LimitPolicy,
    methods: Iterable[Method | str],
    options: PlanOptions | None = None,
    not_applicable: Sequence[str] = (),
    undecided: bool = True,
) -> list[Plan]:
    """The plans of several methods. If the largest size has to grow for one of them, it has grown for the next.

    A method that comes to no end in time is one of them, or, unless `undecided`, an error.
    """
    options = options or PlanOptions()
    resolved, problem = prepare_problem(counts, policy, options, not_applicable)
    plans: list[Plan] = []
    for method in [_method(name) for name in methods]:
        try:
            plans.append(_add_unprotected(_solve(problem, method, options, resolved), options, resolved))
        except UndecidedError as error:
            if not undecided:
                raise
            notes = (*resolved.notes, f"{method}: {error.message}")
            plans.append(
                Plan(problem, infeasible_solution(problem, method), no_solution=NoSolution("undecided"), notes=notes)
            )
        if method is not Method.ANATOMY:
            problem = replace(problem, max_size=max(problem.max_size, plans[-1].problem.max_size))
    return plans


def prepare_problem(
    counts: ValueCounts, policy: LimitPolicy, options: PlanOptions, not_applicable: Sequence[str] = ()
) -> tuple[ResolvedLimits, Problem]:
    """The limits of the counts, and the problem with the range of sizes; an error if the options make no sense.

    Records with values that do not apply are set apart: the problem is that of the others.
    """
    refuse_fakes(not_applicable, options.fake_values)
    refuse_not_applicable(policy, counts.values, not_applicable)
    apart = apart_sentence(counts, not_applicable)
    counts = without_not_applicable(counts, not_applicable)
    check_options(options, counts.total)
    was_grouped = policy.grouping is not None
    policy, counts, notes = with_bands_as_values(policy, counts)
    if not was_grouped:
        notes = _offers_of_groups(counts)
    resolved = resolve_limits(policy, counts)
    resolved = replace(resolved, notes=(*([apart] if apart is not None else []), *notes, *resolved.notes))
    return resolved, _problem(counts.values, counts.counts, resolved, options)


def _offers_of_groups(counts: ValueCounts) -> tuple[str, ...]:
    bands = bands_to_offer(counts) if len(counts) > MANY_NUMBERS else None
    codes = groups_to_offer(counts.values) if bands is None else None
    offers = zip(_REASONS, (bands, codes), strict=True)
    return tuple(f"a limit on each of {len(counts):,} {why}: {offer}" for why, offer in offers if offer is not None)


def offers_groups(note: str) -> bool:
    """Whether a note of a plan offers bands of numbers or groups of codes, for those who do it in another way."""
    return any(f" {why}: " in note for why in _REASONS)


def _problem(
    values: tuple[str, ...], counts: tuple[int, ...], resolved: ResolvedLimits, options: PlanOptions
) -> Problem:
    known = options.known_records
    min_size = max(least_min_size(resolved.tightest, known), options.min_size or HIDING_SIZE)
    max_size = options.max_size
    if max_size is None:
        max_size = max(min_size, automatic_max_size(resolved.tightest, sum(counts), known))
    return Problem(
        values=values,
        counts=counts,
        limits=resolved.limits,
        min_size=min_size,
        max_size=max_size,
        known_records=known,
        fake_values=options.fake_values,
        groups=resolved.groups,
    )


def _solve(problem: Problem, method: Method, options: PlanOptions, resolved: ResolvedLimits) -> Plan:
    plan = plan_without_search(problem, method, options)
    if plan is None and options.max_size is not None:
        plan = _solve_in(problem, method, options)
    elif plan is None:
        solution = solve_and_grow(problem, method, options.gap, options.time_limit)
        plan = _plan_of(replace(problem, max_size=solution.max_size), solution)
    return with_notes(plan, resolved)


def plan_without_search(problem: Problem, method: Method, options: PlanOptions) -> Plan | None:
    """The plan where no search is needed: there is no setting at all, or one bucket that holds everybody."""
    impossible = why_impossible(problem)
    if impossible is not None:
        return Plan(problem, infeasible_solution(problem, method), impossible)
    if method is Method.ANATOMY or fakes_can_be_in_proportion(problem):
        return None
    if options.max_size is None or options.max_size >= problem.total:
        one_bucket = solve_and_grow(problem, method, options.gap, options.time_limit)
        return Plan(replace(problem, max_size=problem.total), one_bucket)
    smallest = problem.total if problem.total <= LARGEST_SIZE else None
    return Plan(problem, infeasible_solution(problem, method), NoSolution("max-size", smallest_max_size=smallest))


def with_notes(plan: Plan, resolved: ResolvedLimits) -> Plan:
    """The plan with what it shows and costs, and with notes for the publisher on its limits and its buckets."""
    partition, problem = plan.solution.partition, plan.problem
    notes = resolved.notes + plan.solution.notes
    if partition is None or plan.status is Status.INFEASIBLE:
        return replace(plan, notes=notes)
    return replace(
        plan,
        exposure=foresee_exposure(problem.values, [partition], problem.fake_values),
        error=foresee_error(problem.values, [partition], problem.fake_values),
        group_shares=foresee_groups(problem.groups, [partition], problem.known_records, problem.fake_values),
        notes=notes,
    )


def _add_unprotected(plan: Plan, options: PlanOptions, resolved: ResolvedLimits) -> Plan:
    """The plan with the solution without known records and fake values, found in what is left of the time."""
    protected = plan.problem
    if plan.no_solution is not None or not (protected.known_records or protected.fake_values):
        return plan
    left = max(MOMENT, options.time_limit - plan.solution.seconds)
    open_options = replace(options, known_records=0, fake_values=0, time_limit=left)
    problem = _problem(protected.values, protected.counts, resolved, open_options)
    try:
        open_plan = _solve(problem, plan.solution.method, open_options, resolved)
    except UndecidedError:
        return plan
    return replace(plan, unprotected=open_plan.solution) if open_plan.no_solution is None else plan


def _solve_in(problem: Problem, method: Method, options: PlanOptions) -> Plan:
    """Solve in the range of sizes that the user gave."""
    plan = _plan_of(problem, solve(problem, method, options.gap, options.time_limit))
    if plan.status is not Status.INFEASIBLE or method is Method.ANATOMY:
        return plan
    return replace(plan, no_solution=_too_small(problem, method, options.time_limit))


def _plan_of(problem: Problem, solution: Solution) -> Plan:
    """The plan of a solution. If there is none, Anatomy is the method whose reason is known."""
    infeasible = solution.status is Status.INFEASIBLE
    return Plan(problem, solution, NoSolution("not-l-diverse") if infeasible else None)


def _too_small(problem: Problem, method: Method, time_limit: float) -> NoSolution:
    """The largest size is too small: find the smallest one that is not, in about the time that solving may take."""
    seconds = min(_ADVICE_SECONDS, time_limit)

    def works(max_size: int) -> bool | None:
        try:
            solution = solve(replace(problem, max_size=max_size), method, gap=1.0, time_limit=seconds / 4)
        except UndecidedError:
            return None
        return solution.status is not Status.INFEASIBLE

    deadline = time.monotonic() + seconds
    smallest, certain = smallest_working_size(works, problem.max_size, problem.total, deadline)
    return NoSolution("max-size", smallest_max_size=smallest, is_smallest=certain)


def _method(method: Method | str) -> Method:
    try:
        return Method(method)
    except ValueError:
        raise UsageError(f"there is no method {str(method)!r}", f"The methods are {', '.join(Method)}.") from None


def _whole(value: object, count: object) -> int:
    """A count as a Python integer; numpy's integers are welcome, fractions are not."""
    if "bool" in type(count).__name__ or not isinstance(count, numbers.Integral):
        raise CountsError(
            f"the count of {label(value)!r} has the type {type(count).__name__}, and a whole number is needed",
            "Give a dict of counts by value; for a dict of columns, make a DataFrame of it.",
        )
    return int(count)
