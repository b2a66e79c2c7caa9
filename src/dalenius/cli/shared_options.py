"""Options that several commands share: the job file, limits, solver, attacker and engine; and how they are read."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dalenius.cli.group_options import group_fields, limits_by_name
from dalenius.errors import PolicyError, UsageError
from dalenius.model.plan import Method, PlanOptions
from dalenius.model.problem import name_of_nulls

if TYPE_CHECKING:
    from dalenius.model.problem import ValueCounts
    from dalenius.policy.limits import LimitPolicy


Command = TypeVar("Command", bound=Callable[..., Any])

_RULES = ("odds", "theta", "uniform", "l_diversity", "beta")


def sensitive_option(what: str = "Sensitive column.") -> Callable[[Command], Command]:
    """The sensitive column, which there is one of."""
    return click.option("--sensitive", multiple=True, metavar="COLUMN", callback=_only_one, help=what)


def _only_one(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise click.BadParameter("a release has one sensitive column: name the one to protect, once.")
    return given[0] if given else None


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
                help="Limit for one value; overrides the rule. Repeatable.",
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
    """Options and job file, merged."""

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

    def require_sensitive(self) -> str:
        """The sensitive column; an error if neither an option nor the job file names it."""
        if self.sensitive is None:
            raise UsageError(
                "the sensitive column is not named", "Name it with --sensitive COLUMN, or in the job file's [table]."
            )
        return self.sensitive


def read_request(arguments: dict[str, Any]) -> PlanRequest:
    """Merge options and job file; an option overrides the job file's key of the same name."""
    job = _job_sections(arguments.get("job"))
    solve, table, adversary = job["solve"], job["table"], job["adversary"]
    gap = _first(arguments["gap"], solve.get("gap"))
    strata = table.get("strata")
    null_value = _first(arguments.get("null_value"), table.get("null_value"))
    missing = column_names(arguments.get("missing") or ()) or tuple(table.get("missing", ()))
    return PlanRequest(
        policy=_policy(job, arguments).ungrouping(name_of_nulls(null_value, missing)),
        method=Method(_first(arguments["method"], solve.get("method"), Method.OPTIMAL)),
        options=PlanOptions.of(
            min_size=_first(arguments["min_size"], solve.get("min_size")),
            max_size=_first(arguments["max_size"], solve.get("max_size")),
            gap=float(gap) if gap is not None else None,
            time_limit=float(_first(arguments["time_limit"], solve.get("time_limit"), 60.0)),
            known_records=_first(arguments.get("corrupted"), adversary.get("corrupted"), 0),
            fake_values=_first(arguments.get("fakes"), adversary.get("fakes"), 0),
        ),
        sensitive=_first(arguments.get("sensitive"), table.get("sensitive")),
        null_value=null_value,
        missing=missing,
        not_applicable=column_names(arguments.get("not_applicable") or ()) or tuple(table.get("not_applicable", ())),
        quasi_identifiers=tuple(table.get("quasi_identifiers", ())),
        identifiers=tuple(table.get("identifiers", ())),
        strata=tuple(strata) if isinstance(strata, list) else strata,
        avoid_ruled_out=bool(adversary.get("avoid_ruled_out")),
        in_the_clear=bool(job["limits"].get("publish_in_the_clear")),
        strict=bool(arguments.get("strict") or table.get("strict")),
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
        if table_name is not None or arguments["sensitive"] is not None or arguments["null_value"] is not None:
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
    return {**job.model_dump(by_alias=True), "limits": job.limits.entries()}


def _first(*candidates: Any) -> Any:
    return next((candidate for candidate in candidates if candidate is not None), None)


def _policy(job: dict[str, dict[str, Any]], arguments: dict[str, Any]) -> LimitPolicy:
    """The job file's limits; a rule in the options replaces its rule, and --limit adds to its exceptions."""
    from dalenius.policy.limits import LimitPolicy

    limits, groups = job["limits"], group_fields(job, arguments)
    rule = {name: limits.get(name) for name in (*_RULES, "base", "floor")}
    if any(arguments[name] is not None for name in _RULES):
        rule = dict.fromkeys(rule)
    rule |= {name: arguments[name] for name in rule if arguments[name] is not None}
    values = {**limits.get("values", {}), **limits_by_name("--limit", arguments["limits"])}
    by_group = groups["groups"] or groups["levels"]
    if not values and not by_group and all(number is None for number in rule.values()):
        raise PolicyError(
            "no limits are given",
            "Give a rule, such as --odds 8 or --uniform 0.1, a --limit VALUE=NUMBER for every value, or a --job file.",
        )
    absent = _first(arguments["allow_absent"], limits.get("allow_absent"))
    return LimitPolicy.of(**rule, values=values, allow_absent=absent, **groups)


_NAMES = ("engine", "master", "spark_remote")


def engine_options(command: Command) -> Command:
    """The engine, and where to find its cluster."""
    for option in reversed(
        [
            click.option(
                "--engine",
                type=click.Choice(["duckdb", "spark"]),
                default="duckdb",
                show_default=True,
                help="Engine that does the work: DuckDB on this machine, or Spark. With Spark, TABLE is anything Spark "
                "reads: Parquet, ORC or text files by path or URL, or a table of its catalog.",
            ),
            click.option("--master", metavar="URL", help="Master of the Spark cluster, such as spark://HOST:7077."),
            click.option("--spark-remote", metavar="URL", help="Spark Connect server to use instead: sc://HOST:PORT."),
            click.option(
                "--conf",
                multiple=True,
                metavar="KEY=VALUE",
                help="Spark setting for this session. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def engine_fields(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of `PublishOptions`."""
    return {name: arguments[name] for name in _NAMES} | {"spark_conf": tuple(_settings(arguments["conf"]).items())}


def is_local(arguments: dict[str, Any]) -> bool:
    """Whether no option names another engine. Whether the options fit together is checked later."""
    of_spark = (arguments["master"], arguments["spark_remote"], *arguments["conf"])
    return arguments["engine"] == "duckdb" and all(option is None for option in of_spark)


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, setting = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--conf needs KEY=VALUE, got {text!r}", "For example: --conf spark.executor.memory=8g")
        if key.strip() in settings:
            raise UsageError(f"--conf is given twice for {key.strip()!r}", "Keep one of them.")
        settings[key.strip()] = setting
    return settings


def column_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Column names from comma-separated lists; double quotes as in CSV."""
    names: list[str] = []
    for text in texts:
        try:
            fields = next(csv.reader([text], skipinitialspace=True, strict=True), [])
        except csv.Error:
            raise UsageError(f"the list of columns {text!r} has a quote out of place", 'Write "A, B",C.') from None
        names += [name for name in fields if name]
    return tuple(names)


def parse_strata(text: str) -> str | tuple[str, ...]:
    """A single word as it is: auto, none, a number or a column. Several words, or one in quotes, are columns."""
    columns = column_names((text,))
    return text.strip() if columns == (text.strip(),) else columns
