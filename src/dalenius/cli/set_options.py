"""The options for sensitive columns, and for whose rows they are; the limits of each column, merged with a job file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from dalenius.cli.group_options import group_fields, limits_by_name
from dalenius.cli.option_texts import about_set, column_names, first_given, named_columns, only_one
from dalenius.errors import PolicyError, UsageError, nearest_name
from dalenius.model.problem import name_of_nulls

if TYPE_CHECKING:
    from dalenius.policy.limits import LimitPolicy
    from dalenius.policy.sensitive_sets import SaidSets

Command = TypeVar("Command", bound=Callable[..., Any])

_RULES = ("odds", "theta", "uniform", "l_diversity", "beta")
_RULE = (*_RULES, "base", "floor")
_BY_SET = {  # options about the values of one sensitive set, and an example of each
    "limits": ("--limit", "VALUE=0.02"),
    "group_limits": ("--group-limit", "C00-D49=0.1"),
    "level_rules": ("--level-rule", "chapter:odds=4"),
    "grouping": ("--groups", "icd10"),
    "ungrouped": ("--ungrouped", "VALUE"),
}


def sensitive_option(what: str = "Sensitive column.") -> Callable[[Command], Command]:
    """The sensitive column, where there can be one."""
    return click.option("--sensitive", multiple=True, metavar="COLUMN", callback=_only_one, help=what)


def _only_one(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise click.BadParameter("here there is one sensitive column: name it once.")
    return given[0] if given else None


def person_option(what: str) -> Callable[[Command], Command]:
    """The one column that says whose rows are whose."""
    return click.option("--person", multiple=True, metavar="COLUMN", callback=_one_person, help=what)


def _one_person(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise click.BadParameter("one column says whose row it is. Make one of several first, a text of both say.")
    return given[0] if given else None


def chain_options(command: Command) -> Command:
    """Releases of the same people over time."""
    for option in reversed(
        [
            click.option(
                "--ledger",
                type=click.Path(),
                metavar="FILE",
                help="Publish as one of a chain of releases of the same people (with --person): nobody moves between "
                "buckets, so all releases together tell no more than one. FILE is private; it knows who is where. The "
                "first release makes it, and its key FILE.key, unless DALENIUS_LEDGER_KEY has that.",
            ),
            click.option(
                "--after",
                type=click.Path(),
                metavar="DIR",
                help="With --ledger: the latest release of the chain, on which this one follows.",
            ),
            click.option(
                "--hold-back",
                is_flag=True,
                help="With --after: if new people are too few for buckets of their own, they wait for the next "
                "release (without it, that is an error).",
            ),
            click.option(
                "--counterfeits",
                is_flag=True,
                help="With --after: if new people are too few, values that are nobody's fill their buckets up.",
            ),
            click.option(
                "--values-change",
                is_flag=True,
                help="With --after: publish even if most people have another value than before, or all who had one "
                "have the same other one (without it, that is an error).",
            ),
        ]
    ):
        command = option(command)
    return command


def chain_fields(arguments: dict[str, Any]) -> dict[str, Any]:
    """What `chain_options` gave, as fields of `PublishOptions`."""
    return {name: arguments.pop(name) for name in ("ledger", "after", "hold_back", "counterfeits", "values_change")}


def people_options(command: Command) -> Command:
    """The sensitive columns, and whose rows they are."""
    for option in reversed(
        [
            click.option(
                "--sensitive",
                multiple=True,
                metavar="COLUMN|NAME=A,B,...",
                help="Sensitive column. Repeatable: each has limits of its own. Columns of one kind can be one: "
                "diagnosis=diag_1,diag_2,diag_3. Put names with = in double quotes.",
            ),
            person_option(
                "Column that says whose row it is, where people have several rows, such as patient_nbr: limits "
                "are then about people. Never published.",
            ),
            click.option(
                "--most-rows",
                type=click.IntRange(min=1),
                metavar="K",
                help="With --person: of people with more than K rows, keep K at random. Without it, a number of rows "
                "that too few people have is an error.",
            ),
            click.option(
                "--keep-together",
                multiple=True,
                metavar="A,B,...",
                help="Sensitive columns whose values are published as tuples, too: without it, what goes with what is "
                "not published. Whoever knows one of somebody's values learns more of the others than limits say, and "
                "the summary says how much. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def kept_together(texts: Sequence[str] | None, in_job: Sequence[Sequence[str]] | None) -> tuple[tuple[str, ...], ...]:
    """The columns to keep together: a list from each option, or else those of the job file."""
    return tuple(column_names((text,)) for text in texts) if texts else tuple(map(tuple, in_job or ()))


class ReadSets(NamedTuple):
    """The sensitive sets, if any are named, with limits; and the codes of the first, or of one that is not named."""

    said: SaidSets | None
    policies: tuple[LimitPolicy, ...]
    null_value: str | None
    missing: tuple[str, ...]


def read_sets(job: dict[str, Any], arguments: dict[str, Any]) -> ReadSets:
    """What options and job file say of sensitive columns. Columns named by options replace those of the job file."""
    from dalenius.policy.sensitive_sets import SaidSets, sensitive_set

    given = _given_sets(arguments.get("sensitive"), job["table"].get("sensitive"))
    sets = [sensitive_set(one["columns"], one.get("name")) for one in given]
    names = [one.name for one in sets]
    if len(names) > 1:
        _refuse_general(job, names)
    codes, policies = [], []
    for name, entries in zip(names or [""], given or [{}], strict=True):
        own = _arguments_of(name, names, arguments) if len(names) > 1 else arguments
        codes.append(_codes(name, names, entries, job["table"], arguments))
        policy = _policy(_job_of(entries, job), _without_rule(own, entries, names))
        policies.append(policy.ungrouping(name_of_nulls(*codes[-1])))
    said = [sensitive_set(one.columns, one.name, *own) for one, own in zip(sets, codes, strict=False)]
    return ReadSets(SaidSets(tuple(said), tuple(policies)) if said else None, tuple(policies), *codes[0])


def _given_sets(texts: str | tuple[str, ...] | None, in_job: Any) -> list[dict[str, Any]]:
    """The sets as a job file has them: columns, and perhaps a name, limits, groups and codes."""
    if isinstance(texts, str):  # the only column that there can be
        return [{"columns": [texts]}]
    if texts:
        named = [named_columns(text) for text in texts]
        return [{"columns": list(columns)} | ({} if name is None else {"name": name}) for name, columns in named]
    listed = in_job if isinstance(in_job, list) else [] if in_job is None else [in_job]
    return [{"columns": [one]} if isinstance(one, str) else one for one in listed]


def _refuse_general(job: dict[str, Any], names: Sequence[str]) -> None:
    """An error if a job file's general limits name values or groups: nobody can say whose they are."""
    from dalenius.policy.limits import LimitPolicy
    from dalenius.policy.sensitive_sets import limits_of_sets

    limits = {key: value for key, value in job["limits"].items() if key != "publish_in_the_clear"}
    general = LimitPolicy.of(**limits, grouping=group_fields({"groups": job.get("groups", {})}, {})["grouping"])
    limits_of_sets(general, [None] * len(names), names)


def _arguments_of(name: str, names: Sequence[str], arguments: dict[str, Any]) -> dict[str, Any]:
    """The options with those that are about this set, without its name; an error if one does not say which it means."""
    own = dict(arguments)
    for key, (option, example) in _BY_SET.items():
        parts = [(text, *about_set(text, names)) for text in arguments.get(key) or ()]
        unclear = next((text for text, found, _ in parts if found is None), None)
        if unclear is not None:
            nearest = nearest_name(unclear.split(":")[0], names) if ":" in unclear else None
            rest = unclear.split(":", 1)[1] if nearest is not None else unclear or example
            raise UsageError(
                f"{option} {unclear} does not say which of {len(names)} sensitive columns it is about",
                f"Did you mean {option} {nearest}:{rest}?"
                if nearest is not None
                else f"Name the column first: {option} {names[0]}:{rest}",
            )
        own[key] = tuple(rest for _, found, rest in parts if found == name)
    return own


def _codes(
    name: str, names: Sequence[str], entries: dict[str, Any], table: dict[str, Any], arguments: dict[str, Any]
) -> tuple[str | None, tuple[str, ...]]:
    """What is missing in a set: what options say of it, or else the job file, or else what is said of all sets."""
    several = names if len(names) > 1 else []
    nulls = [about_set(text, several) for text in _listed(arguments.get("null_value"))]
    missing = [about_set(text, several) for text in _listed(arguments.get("missing"))]
    own, of_all = ([rest for found, rest in nulls if found == about] for about in (name, None))
    null_value = first_given(
        only_one("--null-value", own) if several else None,
        entries.get("null_value"),
        only_one("--null-value", of_all),
        table.get("null_value"),
    )
    own, of_all = (list(column_names([rest for found, rest in missing if found == about])) for about in (name, None))
    codes = first_given(
        own or None if several else None, entries.get("missing"), of_all or None, table.get("missing") or ()
    )
    return null_value, tuple(codes)


def _listed(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else given


def _job_of(entries: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """The job file's limits and groups for a set: its own, with the general rule if they have none."""
    own, groups = entries.get("limits", {}), entries.get("groups", {})
    if not own and not groups:
        return job
    general = {
        key: number
        for key, number in job["limits"].items()
        if key == "allow_absent" or (key in _RULE and not any(rule in own for rule in _RULES))
    }
    return {**job, "limits": {**general, **own}, "groups": groups}


def _without_rule(arguments: dict[str, Any], entries: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A rule in options is the general one: where there are several sets, one that has its own in the job keeps it."""
    if len(names) < 2 or not any(rule in entries.get("limits", {}) for rule in _RULES):
        return arguments
    return {**arguments, **dict.fromkeys(_RULE)}


def _policy(job: dict[str, dict[str, Any]], arguments: dict[str, Any]) -> LimitPolicy:
    """The job file's limits; a rule in the options replaces its rule, and --limit adds to its exceptions."""
    from dalenius.policy.limits import LimitPolicy

    limits, groups = job["limits"], group_fields(job, arguments)
    rule = {name: limits.get(name) for name in _RULE}
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
    absent = first_given(arguments["allow_absent"], limits.get("allow_absent"))
    return LimitPolicy.of(**rule, values=values, allow_absent=absent, **groups)
