"""What cannot be asked for together with people who have several rows or several sensitive values, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dalenius.errors import UsageError
from dalenius.model.plan import Method
from dalenius.policy.limits import bands_in

if TYPE_CHECKING:
    from dalenius.model.plan import PlanOptions
    from dalenius.policy.roles import Roles
    from dalenius.policy.sensitive_sets import Limits
    from dalenius.publishing.options import PublishOptions


def check_most_rows(roles: Roles, most_rows: int | None) -> None:
    """An error if nothing says whose rows these are, or if the number is none."""
    if most_rows is None:
        return
    if isinstance(most_rows, bool) or not isinstance(most_rows, int) or most_rows < 1:
        raise UsageError(f"most_rows must be a whole number of at least 1, got {most_rows!r}")
    if roles.person is None:
        raise UsageError("most_rows is about people with several rows", "Say who they are: --person COLUMN.")


def check_chain(roles: Roles, limits: Limits, options: PublishOptions) -> None:
    """An error for what cannot be asked for together with a chain of releases of the same people."""
    if options.ledger is None:
        of_chains = {"after": options.after, "hold-back": options.hold_back, "values-change": options.values_change}
        for name, given in of_chains.items():
            if given:
                raise UsageError(
                    f"--{name} is about a chain of releases", "Give its private file as well: --ledger FILE."
                )
        if options.counterfeits:
            raise UsageError(
                "--counterfeits are for new people of a chain of releases", "Leave it out, or give --ledger FILE."
            )
        return
    if roles.person is None:
        raise UsageError(
            "a chain of releases follows people, and nothing says who they are",
            "Name the column that says it: --person COLUMN. It is never published.",
        )
    if options.engine == "spark":
        raise UsageError(
            "Spark does not publish chains of releases: the ledger is a file of this machine",
            "Publish on one machine: leave out --engine spark.",
        )
    if len(roles.sensitive_columns) > 1 or options.most_rows is not None or roles.keep_together:
        raise UsageError(
            "a chain of releases follows people with one row and one sensitive column each",
            "Leave --ledger out, and publish such a table once; or publish one sensitive column.",
        )
    if options.not_applicable:
        raise UsageError(
            "in a chain of releases nobody is set apart: whether the question applies to somebody may change",
            "Leave out --not-applicable, and give such values a limit of 1: --limit VALUE=1.",
        )
    if bands_in(limits) is not None:
        raise UsageError(
            "in a chain of releases numbers do not count by bands: a number that changes moves its person, and that "
            "tells what it was not",
            "Publish bands as text instead of numbers, or leave --ledger out.",
        )
    if options.avoid_ruled_out:
        raise UsageError("fakes are not exchanged in a chain of releases", "Leave out --avoid-ruled-out, or --ledger.")
    if options.hold_back and options.counterfeits:
        raise UsageError("new people are held back, or counterfeits fill their buckets up", "Keep one of them.")


def check_people(roles: Roles, set_limits: Sequence[Limits], options: PublishOptions, solving: PlanOptions) -> None:
    """An error for what is not built where people count, and not rows."""
    what = _what(roles)
    if options.engine == "spark":
        raise UsageError(
            f"Spark does not publish {what}: the rows of a person are spread over the cluster, and nothing brings them "
            "together yet",
            "Publish on one machine: leave out --engine spark.",
        )
    if solving.fake_values:
        raise UsageError(
            f"fake values are not made for {what}: a fake is one value, and a person has a set of them",
            "Leave out --fakes. --corrupted Q protects against an attacker who knows Q people of a bucket.",
        )
    if options.not_applicable:
        raise UsageError(
            f"with {what}, nobody is set apart: a question may apply to one row or column of a person and not to "
            "another",
            "Leave out --not-applicable, and give such values a limit of 1: --limit VALUE=1.",
        )
    if options.format == "parts":
        raise UsageError(
            f"releases of {what} are not written in parts: these tables are written whole",
            "Leave out --format, or say parquet or csv.",
        )
    for one, limits in zip(roles.all_sets, set_limits, strict=True):
        if bands_in(limits) is not None:
            several = "there are several sensitive columns"
            if roles.person is not None or len(one.columns) > 1:
                several = "a person can have several of them"
            raise UsageError(
                f"numbers of {one.name!r} cannot count by bands: {several}",
                "Put the band into the table as a column of text, and publish that.",
            )


def check_method(roles: Roles, method: Method) -> None:
    """An error for methods that are about one value a person; known once it is clear that this is about more."""
    if method is not Method.OPTIMAL:
        raise UsageError(
            f"the method {method!s} is for one value a person, and {_what(roles)} have a method of their own",
            "Leave out --method.",
        )


def _what(roles: Roles) -> str:
    """In a sentence: what is special about such a request."""
    return "people with several rows" if roles.person is not None else "several sensitive columns"
