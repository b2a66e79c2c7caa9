"""Options that several commands share: where the data is, the limits, the solver, the adversary.

The options that say who does the work: this machine, or Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dalenius.errors import PolicyError, UsageError
from dalenius.model.plan import Method, PlanOptions

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy


Command = TypeVar("Command", bound=Callable[..., Any])

_RULES = ("theta", "uniform", "l_diversity", "beta")


def quasi_identifiers_option(what: str) -> Callable[[Command], Command]:
    """Columns by name; `what` says what they are for."""
    return click.option(
        "--quasi-identifiers",
        multiple=True,
        metavar="A,B,...",
        help=f"{what} Repeatable; names with commas go in double quotes.",
    )


def policy_options(command: Command) -> Command:
    """The job file, and the limits as options."""
    for option in reversed(
        [
            click.option(
                "--job",
                type=click.Path(path_type=Path),
                help="Job file (TOML) with roles, limits and solver settings; options go before it.",
            ),
            click.option(
                "--theta",
                metavar="NUMBER",
                help="Limit theta * frequency + base, at most 1, for every value.",
            ),
            click.option("--base", metavar="NUMBER", help="The base that goes with --theta (default 0)."),
            click.option("--uniform", metavar="NUMBER", help="The same limit for every value."),
            click.option("--l-diversity", metavar="L", help="The limit 1/L for every value."),
            click.option("--beta", metavar="NUMBER", help="Limit (1 + beta) * frequency, at most 1, for every value."),
            click.option(
                "--limit",
                "limits",
                multiple=True,
                metavar="VALUE=NUMBER",
                help="The limit of one value, before any rule. Repeatable.",
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
                help="How to find the bucket setting (default optimal).",
            ),
            click.option(
                "--min-size",
                type=int,
                metavar="N",
                help="Smallest bucket size; 2 keeps any value from being published outright.",
            ),
            click.option("--max-size", type=int, metavar="N", help="Largest bucket size (default: automatic)."),
            click.option(
                "--gap",
                type=float,
                metavar="X",
                help="Stop at a loss proven to be within this share of the optimum (default 1e-4, with strata 0.01; "
                "0: full proof).",
            ),
            click.option(
                "--time-limit",
                type=float,
                metavar="SECONDS",
                help="Return the best setting found by then, with its true gap (default 60).",
            ),
        ]
    ):
        command = option(command)
    return command


def adversary_options(command: Command) -> Command:
    """What the adversary may know, and what is added against it."""
    for option in reversed(
        [
            click.option(
                "--corrupted",
                type=int,
                metavar="Q",
                help="Keep the limits even for an adversary who knows any Q records of a bucket (default 0).",
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
    """What the options and the job file ask for together."""

    policy: LimitPolicy
    method: Method
    options: PlanOptions
    sensitive: str | None
    null_value: str | None
    quasi_identifiers: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    strata: str | int | tuple[str, ...] | None = None
    avoid_ruled_out: bool = False


def read_request(given: dict[str, Any]) -> PlanRequest:
    """Merge options and job file; an option overrides the job file's key of the same name."""
    job = _job_sections(given.get("job"))
    solve, table, adversary = job["solve"], job["table"], job["adversary"]
    gap = _first(given["gap"], solve.get("gap"))
    strata = table.get("strata")
    return PlanRequest(
        policy=_policy(job["limits"], given),
        method=Method(_first(given["method"], solve.get("method"), Method.OPTIMAL)),
        options=PlanOptions.of(
            min_size=_first(given["min_size"], solve.get("min_size")),
            max_size=_first(given["max_size"], solve.get("max_size")),
            gap=float(gap) if gap is not None else None,
            time_limit=float(_first(given["time_limit"], solve.get("time_limit"), 60.0)),
            known_records=_first(given.get("corrupted"), adversary.get("corrupted"), 0),
            fake_values=_first(given.get("fakes"), adversary.get("fakes"), 0),
        ),
        sensitive=_first(given.get("sensitive"), table.get("sensitive")),
        null_value=_first(given.get("null_value"), table.get("null_value")),
        quasi_identifiers=tuple(table.get("quasi_identifiers", ())),
        identifiers=tuple(table.get("identifiers", ())),
        strata=tuple(strata) if isinstance(strata, list) else strata,
        avoid_ruled_out=bool(adversary.get("avoid_ruled_out")),
    )


def _job_sections(path: Path | None) -> dict[str, dict[str, Any]]:
    """The job file as dicts. Without one there is nothing to check, and no need to load what checks it."""
    if path is None:
        return {"table": {}, "limits": {}, "solve": {}, "adversary": {}}
    from dalenius.policy.job import read_job

    return read_job(path).model_dump()


def _first(*candidates: Any) -> Any:
    return next((candidate for candidate in candidates if candidate is not None), None)


def _policy(limits: dict[str, Any], given: dict[str, Any]) -> LimitPolicy:
    """The job file's limits; a rule given as an option replaces its rule, and --limit adds to its exceptions."""
    from dalenius.policy.limits import LimitPolicy

    rule = {name: limits.get(name) for name in (*_RULES, "base")}
    if any(given[name] is not None for name in _RULES):
        rule = dict.fromkeys(rule)
    rule |= {name: given[name] for name in rule if given[name] is not None}
    values = {**limits.get("values", {}), **_value_limits(given["limits"])}
    if not values and all(number is None for number in rule.values()):
        raise PolicyError(
            "no limits are given",
            "Give a rule, such as --theta 8 --base 0.02 or --uniform 0.1, a --limit VALUE=NUMBER for every value, "
            "or a --job file.",
        )
    return LimitPolicy.of(**rule, values=values)


def _value_limits(texts: tuple[str, ...]) -> dict[str, str]:
    limits: dict[str, str] = {}
    for text in texts:
        value, equals, limit = text.rpartition("=")
        if not equals:
            raise UsageError(f"--limit wants VALUE=NUMBER, got {text!r}", "For example: --limit HIV=0.02")
        if value in limits:
            raise UsageError(f"--limit is given twice for {value!r}", "Keep one of them.")
        limits[value] = limit
    return limits


_NAMES = ("engine", "master", "spark_remote")


def engine_options(command: Command) -> Command:
    """The engine, and where its cluster is."""
    for option in reversed(
        [
            click.option(
                "--engine",
                type=click.Choice(["duckdb", "spark"]),
                default="duckdb",
                show_default=True,
                help="Who does the work: DuckDB on this machine, or Spark. With Spark, TABLE is whatever it reads: "
                "files of Parquet, ORC or text by path or URL, or a table of its catalog.",
            ),
            click.option("--master", metavar="URL", help="The master of the Spark cluster, such as spark://HOST:7077."),
            click.option("--spark-remote", metavar="URL", help="A Spark Connect server instead: sc://HOST:PORT."),
            click.option(
                "--conf",
                multiple=True,
                metavar="KEY=VALUE",
                help="A setting of Spark for the session. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def engine_fields(given: dict[str, Any]) -> dict[str, Any]:
    """The options as fields of `PublishOptions`."""
    return {name: given[name] for name in _NAMES} | {"spark_conf": tuple(_settings(given["conf"]).items())}


def is_local(given: dict[str, Any]) -> bool:
    """Whether nothing is said of another engine. Whether what is said goes together is checked later."""
    return given["engine"] == "duckdb" and given["master"] is given["spark_remote"] is None and not given["conf"]


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in texts:
        key, equals, setting = text.partition("=")
        if not key.strip() or not equals:
            raise UsageError(f"--conf wants KEY=VALUE, got {text!r}", "For example: --conf spark.executor.memory=8g")
        if key.strip() in settings:
            raise UsageError(f"--conf is given twice for {key.strip()!r}", "Keep one of them.")
        settings[key.strip()] = setting
    return settings
