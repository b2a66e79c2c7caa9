"""Plans as tables for people and as objects for scripts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from dalenius.cli.text_table import (
    LONGEST_NOTE,
    TextTable,
    number,
    printable,
    show_exposure,
    show_groups,
    show_notes,
    show_pairs,
)
from dalenius.model.exposure import TypicalError
from dalenius.model.groups import NO_GROUP, Group
from dalenius.model.plan import Certificate, NoSolution, Plan, Solution, Status
from dalenius.policy.exact import format_fraction

if TYPE_CHECKING:
    from dalenius.publishing.arrangement import StrataPrice

FORMAT_VERSION = 2
_CERTIFICATE_FORMAT = 1
_GROUPED_CERTIFICATE_FORMAT = 2
_NAMES = 3


def plan_object(plan: Plan, price: StrataPrice | None = None) -> dict[str, Any]:
    """The plan as one JSON object. The keys are a contract (docs/json.md).

    With the price of strata, exposure, error of counts and shares of groups are those of the strata.
    """
    solution = plan.solution
    setting = solution.setting
    exposure, error = (price.exposure, price.error) if price is not None else (plan.exposure, plan.error)
    result: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "method": str(solution.method),
        "status": str(solution.status),
        "n": plan.problem.total,
        "m": len(plan.problem.values),
        "min_size": solution.min_size,
        "max_size": solution.max_size,
        "known_records": plan.problem.known_records,
        "fake_values": plan.problem.fake_values,
        "exposure": exposure.as_object() if exposure is not None else None,
        "count_error": error.as_object() if error is not None else None,
        "groups": [group.as_object() for group in (plan if price is None else price).group_shares],
        "strata": _strata_object(price) if price is not None else None,
        "setting": [{"size": g.size, "buckets": g.buckets} for g in setting.groups] if setting is not None else None,
        "loss": solution.loss,
        "mse": solution.mse,
        "bound": solution.bound,
        "gap": solution.gap,
        "price": _price_object(plan),
        "seconds": round(solution.seconds, 6),
        "notes": list(plan.notes),
    }
    if plan.no_solution is not None:
        result["reason"] = no_solution_object(plan.no_solution)
    return result


def _strata_object(price: StrataPrice) -> dict[str, Any]:
    return {"number": price.strata, "columns": list(price.columns), "loss": price.loss, "mse": price.mse}


def _price_object(plan: Plan) -> dict[str, Any] | None:
    """What the loss would be without known records and fake values, and how many times as much it is with them."""
    without = plan.unprotected
    if without is None or without.loss is None or plan.solution.loss is None:
        return None
    ratio = plan.solution.loss / without.loss if without.loss else None
    return {"loss": without.loss, "mse": without.mse, "ratio": ratio}


def no_solution_object(why: NoSolution) -> dict[str, Any]:
    """Why there is no setting."""
    return {
        "kind": why.reason,
        "values": [
            {
                "value": v.value,
                "is_group": v.is_group,
                "frequency": float(v.frequency),
                "limit": str(v.limit),
                "smallest_limit": None if v.smallest_limit is None else str(v.smallest_limit),
            }
            for v in why.ineligible
        ],
        "smallest_max_size": why.smallest_max_size,
        "is_smallest": why.is_smallest,
    }


def certificate_object(plan: Plan, certificate: Certificate) -> dict[str, Any]:
    """A certificate with all that is needed to check it: values, counts, limits, groups, sizes and the adversary."""
    problem = plan.problem
    values: list[dict[str, Any]] = [
        {"value": value, "count": count, "limit": str(limit)}
        for value, count, limit in zip(problem.values, problem.counts, problem.limits, strict=True)
    ]
    groups: dict[str, Any] = {}
    if problem.groups is not None:
        groups = {"groups": [_group_object(group) for group in problem.groups.groups]}
        for value, place in zip(values, problem.groups.of_value, strict=True):
            value["group"] = None if place == NO_GROUP else place
    return {
        "format": _GROUPED_CERTIFICATE_FORMAT if groups else _CERTIFICATE_FORMAT,
        "min_size": plan.solution.min_size,
        "max_size": plan.solution.max_size,
        "known_records": problem.known_records,
        "fake_values": problem.fake_values,
        "units": certificate.units,
        **groups,
        "values": values,
        "proves": certificate.proves,
        "bound": str(certificate.bound),
        "rows": [
            {
                "multiplier": str(row.multiplier),
                "values": list(row.values),
                "sizes": [list(span) for span in row.sizes],
            }
            for row in certificate.rows
        ],
    }


def _group_object(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "parent": None if group.parent == NO_GROUP else group.parent,
        "limit": None if group.limit is None else str(group.limit),
    }


def show_plan(plan: Plan, strata: StrataPrice | None = None) -> None:
    """Print one plan for people, as it would be published: in strata, if their price is given."""
    if plan.no_solution is not None:
        click.echo(_no_solution(plan, plan.no_solution))
    elif plan.solution.setting is not None:
        exposure, error = (strata.exposure, strata.error) if strata is not None else (plan.exposure, plan.error)
        if exposure is not None and error is not None:
            show_exposure(exposure)
            click.echo(count_sentence(error) + "\n")
        show_groups((plan if strata is None else strata).group_shares)
        _setting_table(plan).show()
        _show_adversary(plan)
        show_pairs(_outcome(plan.solution))
        if (price := _price(plan)) is not None:
            click.echo(price)
    show_notes(plan.notes if strata is None else (*plan.notes, *strata.sentences))


def count_sentence(error: TypicalError) -> str:
    """What the error of counts comes to, as a sentence that stands alone."""
    sentence = printable(error.sentence(), LONGEST_NOTE)
    return f"{sentence[0].upper()}{sentence[1:]}."


def show_comparison(plans: list[Plan]) -> None:
    """Print several methods side by side."""
    columns = ("method", "status", "buckets", "loss", "/ best", "MSE", "gap", "seconds")
    table = TextTable(columns, left=("method", "status"), title=_title(plans[0]))
    losses = [p.solution.loss for p in plans if p.status is not Status.INFEASIBLE and p.solution.loss is not None]
    best = min(losses, default=None)
    for plan in plans:
        s = plan.solution
        table.add(
            str(s.method),
            str(s.status),
            number(s.setting.buckets if s.setting is not None else None),
            number(s.loss),
            f"{s.loss / best:.2f}" if s.loss is not None and best else "-",
            _mse(s.mse),
            gap_text(s.gap),
            f"{s.seconds:.3f}",
        )
    table.show()
    _show_adversary(plans[0])
    for plan in plans:
        if plan.no_solution is not None:
            click.echo(_no_solution(plan, plan.no_solution))
    show_notes(dict.fromkeys(note for plan in plans for note in plan.notes))


def _title(plan: Plan) -> str:
    problem, solution = plan.problem, plan.solution
    sizes = f"bucket sizes {solution.min_size} to {solution.max_size}"
    return f"{problem.total:,} records, {len(problem.values):,} sensitive values, {sizes}"


def _show_adversary(plan: Plan) -> None:
    known, fakes = plan.problem.known_records, plan.problem.fake_values
    if known or fakes:
        added = f"{fakes:,} of its values {'is' if fakes == 1 else 'are'} fake" if fakes else "no value is fake"
        click.echo(f"The attacker may know any {known:,} of a bucket's records; {added}")


def _setting_table(plan: Plan) -> TextTable:
    last = "values that need buckets this large"
    table = TextTable(("size", "buckets", "records", "loss", last), left=(last,), title=_title(plan))
    for group, values in plan.needed_by().items():
        names = ", ".join(printable(value) for value in values[:_NAMES])
        if len(values) > _NAMES:
            names += f" and {len(values) - _NAMES} more"
        table.add(str(group.size), f"{group.buckets:,}", f"{group.records:,}", f"{group.loss:,}", names)
    return table


def _outcome(solution: Solution) -> list[tuple[str, str]]:
    pairs = [
        ("method", f"{solution.method}, {_proof(solution)}"),
        ("loss", number(solution.loss)),
        ("MSE", _mse(solution.mse)),
    ]
    if solution.bound is not None:
        pairs.append(("bound", f"{solution.bound:,}  (no valid setting of these sizes loses less)"))
        pairs.append(("gap", gap_text(solution.gap)))
    return [*pairs, ("seconds", f"{solution.seconds:.3f}")]


def _price(plan: Plan) -> str | None:
    """The loss without known records and fake values, and with them."""
    solution, without = plan.solution, plan.unprotected
    if without is None or without.loss is None or solution.loss is None:
        return None
    times = f" (x {solution.loss / without.loss:.2f})" if without.loss else ""
    loss = f"loss {number(without.loss)} -> {number(solution.loss)}{times}"
    return f"Price of protection: {loss}; MSE {_mse(without.mse)} -> {_mse(solution.mse)}"


def _proof(solution: Solution) -> str:
    if solution.status is not Status.OPTIMAL:
        return "valid, not proven optimal"
    return "proven optimal" if solution.gap == 0 else f"proven optimal to within {gap_text(solution.gap)}"


def _no_solution(plan: Plan, why: NoSolution) -> str:
    if why.reason == "not-eligible":
        return _not_eligible(plan, why)
    if why.reason == "no-room-for-fakes":
        return (
            f"No setting exists: {plan.problem.fake_values:,} fake values beside {plan.problem.total:,} records are "
            "more than all limits together have room for, even in one bucket.\nRaise the limits, or lower --fakes."
        )
    method = plan.solution.method
    if why.reason == "max-size":
        return f"{method} finds no setting with bucket sizes {_range(plan)}.\n{_max_size_advice(why)}"
    if why.reason == "undecided":
        return f"{method} did not finish."
    return f"{method} has no private setting under these limits; another method may."


def _not_eligible(plan: Plan, why: NoSolution) -> str:
    known = plan.problem.known_records
    against = f" when {known:,} records of a bucket are known" if known else ""
    groups = plan.problem.groups.groups if plan.problem.groups is not None else ()
    limited = sum(1 for group in groups if group.limit is not None)
    parts = (
        (sum(1 for v in why.ineligible if not v.is_group), f"of {len(plan.problem.values)} values"),
        (sum(1 for v in why.ineligible if v.is_group), f"of {limited} groups of values"),
    )
    share = " and ".join(f"{count} {of}" for count, of in parts if count)
    values = (
        f"  {'group ' if v.is_group else ''}{printable(v.value)}: frequency {float(v.frequency):.6g}, "
        f"limit {format_fraction(v.limit)}; "
        f"{_smallest_limit(v.smallest_limit)}"
        for v in why.ineligible
    )
    advice = "Raise these limits, or lower --corrupted." if known else "Raise these limits."
    first = f"No setting exists: {share} are more frequent than their limit allows{against}."
    return "\n".join([first, *values, advice])


def _smallest_limit(limit: Fraction | None) -> str:
    if limit is None:
        return "no limit works"
    return f"the smallest limit that works is {limit} ({_rounded_up(limit)})"


def _range(plan: Plan) -> str:
    low, high = plan.solution.min_size, plan.solution.max_size
    return f"{low} to {high}" if low <= high else f"up to {high}, and the smallest that any limit allows is {low}"


def _max_size_advice(why: NoSolution) -> str:
    if why.smallest_max_size is None:
        return "No larger --max-size was found to work; raise the limits, or lower --min-size."
    if why.is_smallest:
        return f"The smallest --max-size that works is {why.smallest_max_size}."
    return f"A --max-size of {why.smallest_max_size} works; a smaller one may."


def _rounded_up(number: Fraction) -> str:
    """A decimal of six digits that is not below the number."""
    return f"{Decimal(-(-number.numerator * 10**6 // number.denominator)) / 10**6:f}"


def _mse(mse: float | None) -> str:
    return "-" if mse is None else f"{mse:.4g}"


def gap_text(gap: float | None) -> str:
    """A gap as a percentage, or in powers of ten where that would round it to nothing."""
    if gap is None or gap == 0:
        return "-" if gap is None else "0"
    return f"{gap:.1%}" if gap >= 0.001 else f"{gap:.1e}"
