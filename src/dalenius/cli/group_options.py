"""The options for values that are missing and for groups of values, and how they are merged with a job file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dalenius.cli.option_texts import only_one
from dalenius.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

_BEGINNINGS = ("icd9", "icd10", "prefix:", "cuts:", "quantiles:", "width:")


def null_options(command: Command) -> Command:
    """What is missing in the sensitive column."""
    for option in reversed(
        [
            click.option(
                "--null-value",
                multiple=True,
                metavar="NAME",
                help="Count nulls in the sensitive column as this value (with several: diag_1:NAME, for one of them).",
            ),
            click.option(
                "--missing",
                multiple=True,
                metavar="CODE,...",
                help="Values of the sensitive column that stand for a missing one, such as ?: they count as nulls do, "
                "under the name of --null-value (default missing). With several sensitive columns, diag_1:? is for "
                "one of them. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def apart_option(command: Command) -> Command:
    """What does not apply."""
    return click.option(
        "--not-applicable",
        multiple=True,
        metavar="VALUE,...",
        help="Values that say that the question does not apply, such as no income for a child: published outright, "
        "without a limit, in buckets of their own. Repeatable.",
    )(command)


def group_options(command: Command) -> Command:
    """Where groups come from, and their limits."""
    for option in reversed(
        [
            click.option(
                "--groups",
                "grouping",
                multiple=True,
                metavar="SPEC",
                shell_complete=lambda _context, _option, begun: [w for w in _BEGINNINGS if w.startswith(begun)],
                help="Limit groups of values too: icd9 or icd10 (chapters and blocks), a .csv file (columns value, "
                "group, ...), codes by their first characters (prefix:3, prefix:1,3), or bands of numbers "
                "(cuts:0,10000 or quantiles:8 or width:5000), also in coarser bands (quantiles:4:16). With several "
                "sensitive columns, name the column first: diag_1:icd9. So it is with the next three options.",
            ),
            click.option(
                "--group-limit",
                "group_limits",
                multiple=True,
                metavar="NAME=NUMBER",
                help="Limit for one group, by its name or its codes (C00-D49=0.1); overrides the rule. Repeatable.",
            ),
            click.option(
                "--level-rule",
                "level_rules",
                multiple=True,
                metavar="LEVEL:RULE",
                help="Other rule for the groups of a level: chapter:odds=4, block:none. Repeatable.",
            ),
            click.option(
                "--ungrouped",
                multiple=True,
                metavar="VALUE",
                help="Value that is in no group, such as a code for missing values. Repeatable.",
            ),
        ]
    ):
        command = option(command)
    return command


def group_fields(job: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Job file and options as fields of `LimitPolicy.of`: --groups replaces the file's groups, the others add to it."""
    section = {key: value for key, value in job.get("groups", {}).items() if value is not None and value != []}
    grouping = only_one("--groups", arguments.get("grouping") or ())
    if grouping is not None:
        from dalenius.policy.group_sources import parse_groups

        section = {**parse_groups(grouping), "ungrouped": section.get("ungrouped", [])}
    section["ungrouped"] = [*section.get("ungrouped", []), *arguments.get("ungrouped", ())]
    limits = job.get("limits", {})
    return {
        "grouping": section if any(value not in ([], {}) for value in section.values()) else None,
        "groups": {**limits.get("groups", {}), **limits_by_name("--group-limit", arguments.get("group_limits", ()))},
        "levels": {**limits.get("levels", {}), **_rules_of_levels(arguments.get("level_rules", ()))},
    }


def limits_by_name(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The limits that an option gives as NAME=NUMBER."""
    limits: dict[str, str] = {}
    for text in texts:
        name, equals, limit = text.rpartition("=")
        if not equals:
            what = "VALUE" if option == "--limit" else "NAME"
            raise UsageError(f"{option} needs {what}=NUMBER, got {text!r}", f"For example: {option} HIV=0.02")
        if name in limits:
            raise UsageError(f"{option} is given twice for {name!r}", "Keep one of them.")
        limits[name] = limit
    return limits


def _rules_of_levels(texts: tuple[str, ...]) -> dict[str, str | dict[str, str]]:
    rules: dict[str, str | dict[str, str]] = {}
    for text in texts:
        level, colon, rule = text.rpartition(":")
        pairs = [part.partition("=") for part in rule.split(",")]
        if not colon or not level or (rule != "none" and not all(key and number for key, _, number in pairs)):
            raise UsageError(
                f"--level-rule needs LEVEL:RULE, got {text!r}",
                "For example: --level-rule chapter:odds=4 or --level-rule block:none",
            )
        if level in rules:
            raise UsageError(f"--level-rule is given twice for {level!r}", "Keep one of them.")
        rules[level] = "none" if rule == "none" else {key.strip(): number.strip() for key, _, number in pairs}
    return rules
