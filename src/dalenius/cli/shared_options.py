"""Options that several commands share: the job file, limits, solver and attacker; and how they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dalenius.cli.option_texts import column_names, first_given
from dalenius.errors import UsageError
from dalenius.model.plan import Method, PlanOptions
from dalenius.model.problem import name_of_nulls

if TYPE_CHECKING:
    from dalenius.model.problem import ValueCounts
    from dalenius.policy.limits import LimitPolicy
    from dalenius.policy.roles import Roles
    from dalenius.policy.sensitive_sets import Limits, SaidSets


Command = TypeVar("Command", bound=Callable[..., Any])


def quasi_identifiers_option(what: str) -> Callable[[Command], Command]:
    """Columns by name; `what` says what they are for."""
    return click.option(
        "--quasi-identifiers",
        multiple=True,
        metavar="A,B,...",
        help=f"{what} Repeatable; put names with commas in double quotes.",
    )


def strata_option(command: Command) -> Command:
    """How the table is cut."""
    return click.option(
        "--strata",
        metavar="auto|none|N|A,...",
        shell_complete=lambda _context, _option, begun: [word for word in ("auto", "none") if word.startswith(begun)],
        help="Cut the table by quasi-identifiers and give each part its own buckets: as many parts as help counts "
        "(auto, the default), no cut (none), at most N parts, or a cut by the named columns.",
    )(command)


def policy_options(command: Command) -> Command:
    """The job file, and the limits as options."""
    for option in reversed(
        [
            click.option(
                "--job",
                type=click.Path(path_type=Path),
                help="Job file (TOML) with roles, limits and solver settings; options override the job file.",
            ),
            click.option(
                "--odds",
                metavar="K",
                help="Limit for every value: nobody's odds of having it may exceed K times its odds in the table. "
                "2 is careful, 4 balanced, 8 open.",
            ),
            click.option(
                "--floor", metavar="NUMBER", help="Least limit of --odds, for rare values (default 0.02; 0 for none)."
            ),
            click.option(
                "--theta",
                metavar="NUMBER",
                help="Limit for every value: theta * frequency + base, at most 1.",
            ),
            click.option("--base", metavar="NUMBER", help="Base for --theta (default 0)."),
            click.option("--uniform", metavar="NUMBER", help="Limit for every value: this number."),
            click.option("--l-diversity", metavar="L", help="Limit for every value: 1/L."),
            click.option("--beta", metavar="NUMBER", help="Limit for every value: (1 + beta) * frequency, at most 1."),
            click.option(
                "--limit",
                "limits",
                multiple=True,
                metavar="VALUE=NUMBER",
                help="Limit for one value; overrides the rule. With several sensitive columns, name its column first: "
                "diag_1:HIV=0.02. Repeatable.",
            ),
            click.option(
                "--allow-absent-values",
                "allow_absent",
                is_flag=True,
                default=None,
                help="Allow limits for values and groups that the data does not have.",
            ),
        ]
    ):
        command = option(command)
    return command


def solver_options(command: Command) -> Command:
    """The method and its settings."""
    for option in reversed(
        [
            click.option(
                "--method",
                type=click.Choice([str(method) for method in Method]),
                help="Method that finds the bucket setting (default optimal).",
            ),
            click.option(
                "--min-size",
                type=int,
                metavar="N",
                help="Smallest bucket size (default 2, so that no record is alone in its bucket).",
            ),
            click.option("--max-size", type=int, metavar="N", help="Largest bucket size (default: automatic)."),
            click.option(
                "--gap",
                type=float,
                metavar="X",
                help="Stop once the loss is proven to be within this share of the optimum (default 0.001, with strata "
                "0.01; 0 asks for a full proof).",
            ),
            click.option(
                "--time-limit",
                type=float,
                metavar="SECONDS",
                help="Stop after this time, with the best setting so far and its true gap (default 60).",
            ),
        ]
    ):
        command = option(command)
    return command


def adversary_options(command: Command) -> Command:
    """What the attacker may know, and the fake values added against it."""
    for option in reversed(
        [
            click.option(
                "--corrupted",
                type=int,
                metavar="Q",
                help="Keep the limits against an attacker who knows any Q records of a bucket (default 0).",
            ),
            click.option(
                "--fakes",
                type=int,
                metavar="N",
                help="Add N fake sensitive values to every bucket (default 0).",
            ),
        ]
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class PlanRequest:
    """Options and job file, merged. `policy`, `null_value` and `missing` are those of the first sensitive set."""

    policy: LimitPolicy
    method: Method
    options: PlanOptions
    sensitive: str | None
    null_value: str | None
    missing: tuple[str, ...] = ()
    not_applicable: tuple[str, ...] = ()
    quasi_identifiers: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    strata: str | int | tuple[str, ...] | None = None
    avoid_ruled_out: bool = False
    in_the_clear: bool = False
    strict: bool = False
    said: SaidSets | None = None
    person: str | None = None
    most_rows: int | None = None
    keep_together: tuple[tuple[str, ...], ...] = ()

    def require_sensitive(self) -> str:
        """The sensitive column; an error if neither an option nor the job file names it."""
        if self.sensitive is None:
            raise UsageError(
                "the sensitive column is not named", "Name it with --sensitive COLUMN, or in the job file's [table]."
            )
        return self.sensitive

    @property
    def by_people(self) -> bool:
        """Whether people may have several rows or several sensitive values."""
        several = self.said is not None and sum(len(one.columns) for one in self.said.sets) > 1
        return several or self.person is not None

    def refuse_people(self, what: str) -> None:
        """An error if people count, and not rows, for something that is about rows."""
        if self.by_people:
            raise UsageError(
                f"{what} counts rows with one sensitive value each, and "
                + (f"{self.person!r} says that people have several rows" if self.person else "several are named"),
                "Give a table with one row a person, and name one sensitive column.",
            )

    def roles_and_limits(
        self, quasi_identifiers: tuple[str, ...], identifiers: tuple[str, ...]
    ) -> tuple[Roles, tuple[Limits, ...]]:
        """The roles of all columns, and the limits of each sensitive set where people count."""
        self.require_sensitive()
        if self.said is None:
            raise ValueError("a request with a sensitive column has sets")
        roles = self.said.roles(quasi_identifiers, identifiers, self.person, self.keep_together)
        return roles, self.said.limits_by_set(roles)


def read_request(arguments: dict[str, Any]) -> PlanRequest:
    """Merge options and job file; an option overrides the job file's key of the same name."""
    from dalenius.cli.set_options import kept_together, read_sets
    from dalenius.policy.together import in_order

    job = _job_sections(arguments.get("job"))
    solve, table, adversary = job["solve"], job["table"], job["adversary"]
    gap = first_given(arguments["gap"], solve.get("gap"))
    strata = table.get("strata")
    sets = read_sets(job, arguments)
    together = kept_together(arguments.get("keep_together"), table.get("keep_together"))
    in_order(together, sets.said.sets if sets.said is not None else ())
    return PlanRequest(
        policy=sets.policies[0],
        method=Method(first_given(arguments["method"], solve.get("method"), Method.OPTIMAL)),
        options=PlanOptions.of(
            min_size=first_given(arguments["min_size"], solve.get("min_size")),
            max_size=first_given(arguments["max_size"], solve.get("max_size")),
            gap=float(gap) if gap is not None else None,
            time_limit=float(first_given(arguments["time_limit"], solve.get("time_limit"), 60.0)),
            known_records=first_given(arguments.get("corrupted"), adversary.get("corrupted"), 0),
            fake_values=first_given(arguments.get("fakes"), adversary.get("fakes"), 0),
        ),
        sensitive=sets.said.sets[0].name if sets.said is not None else None,
        null_value=sets.null_value,
        missing=sets.missing,
        not_applicable=column_names(arguments.get("not_applicable") or ()) or tuple(table.get("not_applicable", ())),
        quasi_identifiers=tuple(table.get("quasi_identifiers", ())),
        identifiers=tuple(table.get("identifiers", ())),
        strata=tuple(strata) if isinstance(strata, list) else strata,
        avoid_ruled_out=bool(adversary.get("avoid_ruled_out")),
        in_the_clear=bool(job["limits"].get("publish_in_the_clear")),
        strict=bool(arguments.get("strict") or table.get("strict")),
        said=sets.said,
        person=first_given(arguments.get("person"), table.get("person")),
        most_rows=first_given(arguments.get("most_rows"), table.get("most_rows")),
        keep_together=together,
    )


def read_value_counts(
    table: Path | None,
    counts_file: Path | None,
    table_name: str | None,
    request: PlanRequest,
    arguments: dict[str, Any],
) -> ValueCounts:
    """How often each sensitive value occurs: read from a file of counts, or counted in a table on this machine."""
    if counts_file is not None:
        if table_name is not None or arguments["sensitive"] or arguments["null_value"]:
            raise UsageError("--counts has no columns to name", "Leave out --table, --sensitive and --null-value.")
        from dalenius.tables.delimited import read_counts

        return read_counts(counts_file)
    from dalenius.planning import count_values
    from dalenius.policy.limits import bands_in

    sensitive, bands = request.require_sensitive(), bands_in(request.policy)
    name, allow_absent = name_of_nulls(request.null_value, request.missing), request.policy.allow_absent
    return count_values(table, sensitive, name, table_name, request.missing, allow_absent, bands)


def _job_sections(path: Path | None) -> dict[str, dict[str, Any]]:
    """The job file as dicts. Without one there is nothing to check, and no need to load what checks it."""
    if path is None:
        return {"table": {}, "limits": {}, "solve": {}, "adversary": {}}
    from dalenius.policy.job import read_job

    job = read_job(path)
    table = {**job.table.model_dump(), "sensitive": job.sections()["table"].get("sensitive")}
    return {**job.model_dump(by_alias=True), "table": table, "limits": job.limits.entries()}


def parse_strata(text: str) -> str | tuple[str, ...]:
    """A single word as it is: auto, none, a number or a column. Several words, or one in quotes, are columns."""
    columns = column_names((text,))
    return text.strip() if columns == (text.strip(),) else columns
