"""Plans as tables for people and as objects for scripts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dalenius.model.plan import Certificate, NoSolution, Plan, Solution, Status
from dalenius.policy.limits import format_fraction

FORMAT_VERSION = 1
_NAMES = 3
_LONGEST_NAME = 40
_LONGEST_NOTE = 2000


def printable(text: str, longest: int = _LONGEST_NAME) -> str:
    """Text from the data as a terminal may have it: control characters escaped, and not too long."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return escaped if len(escaped) <= longest else escaped[: longest - 3] + "..."


def plan_object(plan: Plan) -> dict[str, Any]:
    """The plan as one JSON object. The keys are a contract (docs/json.md)."""
    solution = plan.solution
    setting = solution.setting
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
    """A certificate with all that is needed to check it: values, counts, limits, sizes and the adversary."""
    problem = plan.problem
    return {
        "format": FORMAT_VERSION,
        "min_size": plan.solution.min_size,
        "max_size": plan.solution.max_size,
        "known_records": problem.known_records,
        "fake_values": problem.fake_values,
        "units": certificate.units,
        "values": [
            {"value": value, "count": count, "limit": str(limit)}
            for value, count, limit in zip(problem.values, problem.counts, problem.limits, strict=True)
        ],
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


def show_plan(console: Console, plan: Plan) -> None:
    """One plan, for people."""
    solution = plan.solution
    if plan.no_solution is not None:
        console.print(_no_solution(plan, plan.no_solution))
    elif solution.setting is not None:
        print_whole(console, _setting_table(plan))
        _show_adversary(console, plan)
        console.print(_verdict(solution))
        if (price := _price(plan)) is not None:
            console.print(price)
    show_notes(console, plan.notes)


def show_comparison(console: Console, plans: list[Plan]) -> None:
    """Several methods side by side."""
    table = Table(title=_title(plans[0]), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=0)
    for name in ("method", "status"):
        table.add_column(name, no_wrap=True)
    for name in ("buckets", "loss", "/ best", "MSE", "gap", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    losses = [p.solution.loss for p in plans if p.status is not Status.INFEASIBLE and p.solution.loss is not None]
    best = min(losses, default=None)
    for plan in plans:
        s = plan.solution
        times = f"{s.loss / best:.2f}" if s.loss is not None and best else "-"
        table.add_row(
            str(s.method),
            str(s.status),
            _number(s.setting.buckets if s.setting is not None else None),
            _number(s.loss),
            times,
            _mse(s.mse),
            gap_shown(s.gap),
            f"{s.seconds:.3f}",
        )
    print_whole(console, table)
    _show_adversary(console, plans[0])
    for plan in plans:
        if plan.no_solution is not None:
            console.print(_no_solution(plan, plan.no_solution))
    seen: dict[str, None] = {}
    for plan in plans:
        seen.update(dict.fromkeys(plan.notes))
    show_notes(console, tuple(seen))


def print_whole(console: Console, table: Table) -> None:
    """Print a table at its own width: a narrow terminal may wrap its lines, but no number is ever cut short."""
    own = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    before = console.width
    console.width = max(before, own)
    console.print(table)
    console.width = before


def _title(plan: Plan) -> str:
    problem, solution = plan.problem, plan.solution
    sizes = f"bucket sizes {solution.min_size} to {solution.max_size}"
    return f"{problem.total:,} records, {len(problem.values):,} sensitive values, {sizes}"


def _show_adversary(console: Console, plan: Plan) -> None:
    known, fakes = plan.problem.known_records, plan.problem.fake_values
    if known or fakes:
        number = f"{fakes:,} of its values {'is' if fakes == 1 else 'are'} fake" if fakes else "no value is fake"
        console.print(Text(f"Any {known:,} of a bucket's records may be known; {number}"))


def _setting_table(plan: Plan) -> Table:
    table = Table(title=_title(plan), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("size", "buckets", "records", "loss"):
        table.add_column(name, justify="right")
    table.add_column("values that need buckets this large")
    for group, values in plan.needed_by().items():
        names = ", ".join(printable(value) for value in values[:_NAMES])
        if len(values) > _NAMES:
            names += f" and {len(values) - _NAMES} more"
        table.add_row(str(group.size), f"{group.buckets:,}", f"{group.records:,}", f"{group.loss:,}", Text(names))
    return table


def _verdict(solution: Solution) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_row("method", f"{solution.method}, {_proof(solution)}")
    grid.add_row("loss", _number(solution.loss))
    grid.add_row("MSE", _mse(solution.mse))
    if solution.bound is not None:
        grid.add_row("bound", f"{solution.bound:,}  (no valid setting of these sizes loses less)")
        grid.add_row("gap", gap_shown(solution.gap))
    grid.add_row("seconds", f"{solution.seconds:.3f}")
    return grid


def _price(plan: Plan) -> Text | None:
    """The loss without known records and fake values, and with them."""
    solution, without = plan.solution, plan.unprotected
    if without is None or without.loss is None or solution.loss is None:
        return None
    times = f" (x {solution.loss / without.loss:.2f})" if without.loss else ""
    loss = f"loss {_number(without.loss)} -> {_number(solution.loss)}{times}"
    return Text(f"Price of protection: {loss}; MSE {_mse(without.mse)} -> {_mse(solution.mse)}")


def _proof(solution: Solution) -> str:
    if solution.status is not Status.OPTIMAL:
        return "valid, not proven optimal"
    return "proven optimal" if solution.gap == 0 else f"proven optimal to within {gap_shown(solution.gap)}"


def _no_solution(plan: Plan, why: NoSolution) -> Text:
    if why.reason == "not-eligible":
        known = " with so many records known" if plan.problem.known_records else ""
        share = f"{len(why.ineligible)} of {len(plan.problem.values)} values"
        lines = [
            f"No setting exists: {share} are more frequent than their limit allows{known}.",
            *(
                f"  {printable(v.value)}: frequency {float(v.frequency):.6g}, limit {format_fraction(v.limit)}; "
                f"{_what_would_do(v.smallest_limit)}"
                for v in why.ineligible
            ),
            "Raise these limits, or lower --corrupted." if plan.problem.known_records else "Raise these limits.",
        ]
        return Text("\n".join(lines))
    if why.reason == "no-room-for-fakes":
        fakes = plan.problem.fake_values
        return Text(
            f"No setting exists: {fakes:,} fake values beside {plan.problem.total:,} records are more than the limits "
            "of all values together have room for, even in one bucket.\nRaise the limits, or lower --fakes."
        )
    method = plan.solution.method
    if why.reason == "max-size":
        return Text(f"{method} finds no setting with bucket sizes {_range(plan)}.\n{_max_size_advice(why)}")
    if why.reason == "undecided":
        return Text(f"{method} did not finish.")
    return Text(f"{method} has no private setting under these limits; another method may.")


def _what_would_do(limit: Fraction | None) -> str:
    if limit is None:
        return "no limit would do"
    return f"the smallest limit that would do is {limit} ({_rounded_up(limit)})"


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


def show_notes(console: Console, notes: tuple[str, ...]) -> None:
    """What the publisher should know, one note a line."""
    for note in notes:
        console.print(Text(f"Note: {printable(note, _LONGEST_NOTE)}.", style="yellow"))


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _mse(mse: float | None) -> str:
    return "-" if mse is None else f"{mse:.4g}"


def gap_shown(gap: float | None) -> str:
    """A gap as a percentage, or in powers of ten where that would round it to nothing."""
    if gap is None or gap == 0:
        return "-" if gap is None else "0"
    return f"{gap:.1%}" if gap >= 0.001 else f"{gap:.1e}"
