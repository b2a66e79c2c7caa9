"""dalenius verify: check a release against its limits and its manifest, or a certificate against its bound."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dalenius.cli.failures import CHECK_FAILED, report_errors
from dalenius.cli.group_options import group_options
from dalenius.cli.set_options import person_option, sensitive_option
from dalenius.cli.shared_options import policy_options, read_request, read_value_counts
from dalenius.cli.text_table import (
    LONGEST_NOTE,
    memory_option,
    printable,
    show_advice,
    show_concerns,
    show_exposure,
    show_groups,
    show_notes,
)
from dalenius.errors import PolicyError, UsageError
from dalenius.model.verdict import Check, Outcome, Verdict

if TYPE_CHECKING:
    from dalenius.policy.job import Job
    from dalenius.verify.proof import ProofVerdict


_EPILOG = """\b
Examples:
  dalenius verify release
  dalenius verify release --job job.toml
  dalenius verify release --against hospital.parquet --json
  dalenius verify release --against visits.parquet --person patient
  dalenius verify release --signed-by publisher.pub
  dalenius verify june --previous may
  dalenius verify --certificate proof.json --counts counts.csv --uniform 0.1
  dalenius verify --certificate proof.json hospital.csv --job job.toml
"""
_FORMAT = 1  # of the object about a certificate
_MARKS = {Outcome.PASSED: ("ok", "green"), Outcome.FAILED: ("FAILED", "red"), Outcome.NOT_CHECKED: ("?", "yellow")}


@click.command("verify", epilog=_EPILOG)
@click.argument("path", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="Table that was published: check that the release has exactly its records.",
)
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
@person_option(
    "With --against: its column that says whose row it is. Needed if people have several rows, and not in --job."
)
@click.option(
    "--signed-by",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Public key (PEM): check that the release was signed with the private key that belongs to it.",
)
@click.option(
    "--previous",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Release that this one follows on, in a chain: check that it keeps its buckets.",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check this certificate from 'dalenius plan' instead of a release. Give the limits, and --counts or a table "
    "in place of DIR.",
)
@click.option(
    "--counts",
    "counts_file",
    type=click.Path(path_type=Path),
    help="With --certificate: CSV file with the header value,count, instead of a table.",
)
@sensitive_option("With --certificate and a table: the sensitive column.")
@click.option(
    "--null-value", metavar="NAME", help="With --certificate and a table: count nulls in that column as this value."
)
@policy_options
@group_options
@click.option("--min-size", type=int, metavar="N", help="With --certificate: smallest bucket size (default: its own).")
@click.option("--max-size", type=int, metavar="N", help="With --certificate: largest bucket size (default: its own).")
@click.option(
    "--corrupted",
    type=int,
    metavar="Q",
    help="With --certificate: records of a bucket that the attacker knows (default 0).",
)
@click.option("--fakes", type=int, metavar="N", help="With --certificate: fake values in every bucket (default 0).")
@memory_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify_command(
    path: Path | None,
    against: Path | None,
    table_name: str | None,
    person: str | None,
    signed_by: Path | None,
    previous: Path | None,
    certificate: Path | None,
    counts_file: Path | None,
    memory: int | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Check the release in DIR from its files alone: every bucket against every limit, and the whole manifest.

    With --job, compare everything that the job file says, and use its limits instead of the manifest's. With
    --certificate, compute in exact fractions which bound on the loss a certificate proves for your own counts and
    limits.

    Shares no code with planning and publishing. Writes nothing. Exit code 0 if every check passed, 1 if not.
    """
    with report_errors(as_json):
        if certificate is not None:
            of_release = {
                "--against": against,
                "--person": person,
                "--signed-by": signed_by,
                "--previous": previous,
                "--memory": memory,
            }
            for option, given in of_release.items():
                if given is not None:
                    raise UsageError(f"{option} is for a release, and a certificate is given", "Leave one of them out.")
            verified = _check_certificate(certificate, path, counts_file, table_name, arguments, as_json)
        else:
            _refuse_certificate_options(arguments, counts_file)
            source = (against, table_name, person)
            others = (signed_by, previous)
            verified = _check_release(path, arguments["job"], source, others, memory, as_json)
        if not verified:
            sys.exit(CHECK_FAILED)


def _refuse_certificate_options(arguments: dict[str, Any], counts_file: Path | None) -> None:
    """The limits of a release come from its manifest or from a job file."""
    spelling = {parameter.name: parameter.opts[0] for parameter in verify_command.params}
    for name, setting in {"counts_file": counts_file, **arguments}.items():
        if name != "job" and setting not in (None, ()):
            raise UsageError(
                f"{spelling[name]} goes with --certificate", "Give the limits of a release in a --job file."
            )


def _check_release(
    folder: Path | None,
    job: Path | None,
    source: tuple[Path | None, str | None, str | None],
    others: tuple[Path | None, Path | None],
    memory: int | None,
    as_json: bool,
) -> bool:
    """`source` is the table, its name in a DuckDB file, and the column that tells people apart.

    `others` are the public key, and the release before.
    """
    against, table_name, person = source
    signed_by, previous = others
    if folder is None:
        raise UsageError("no release is given", "Give its folder, or a --certificate to check instead.")
    if table_name is not None and against is None:
        raise UsageError("--table is for a DuckDB file given as --against", "Give --against, or leave it out.")
    if person is not None and against is None:
        raise UsageError("--person is a column of a table given as --against", "Give --against, or leave it out.")
    asked = _job(job) if job is not None else None
    from dalenius.cli.progress_bar import show_progress
    from dalenius.verify.judge import verify

    with show_progress(as_json, lines=False) as progress:
        verdict = verify(
            folder,
            job=asked,
            against=against,
            table=table_name,
            person=person,
            signed_by=signed_by,
            previous=previous,
            memory=memory,
            progress=progress,
        )
    if as_json:
        from dalenius.verify.findings import verdict_object

        click.echo(json.dumps(verdict_object(verdict)))
    else:
        _show(verdict)
    return verdict.verified


def _check_certificate(
    certificate: Path,
    table: Path | None,
    counts_file: Path | None,
    table_name: str | None,
    arguments: dict[str, Any],
    as_json: bool,
) -> bool:
    from dalenius.policy.banding import with_bands_as_values
    from dalenius.policy.limits import resolve_limits
    from dalenius.policy.not_applicable import without_not_applicable
    from dalenius.verify.certificate_file import read_certificate
    from dalenius.verify.proof import check_certificate

    chosen = read_request({**arguments, "method": None, "gap": None, "time_limit": None})
    chosen.refuse_people("a certificate")
    claim = read_certificate(certificate)
    if (table is None) == (counts_file is None):
        raise UsageError(
            "a certificate is checked with the counts that it is about",
            "Give either --counts FILE, or a table with --sensitive COLUMN.",
        )
    read = read_value_counts(table, counts_file, table_name, chosen, arguments)
    policy, counts, _ = with_bands_as_values(chosen.policy, without_not_applicable(read, chosen.not_applicable))
    resolved = resolve_limits(policy, counts)
    verdict = check_certificate(
        claim,
        counts,
        resolved.limits,
        groups=resolved.groups,
        known_records=chosen.options.known_records,
        fake_values=chosen.options.fake_values,
        min_size=chosen.options.min_size,
        max_size=chosen.options.max_size,
    )
    if as_json:
        click.echo(json.dumps(_proof_object(verdict)))
    else:
        _show_proof(verdict)
    return verdict.verified


def _show_proof(verdict: ProofVerdict) -> None:
    for finding in verdict.findings:
        click.echo(click.style("FAILED", fg="red") + f"  {printable(finding, LONGEST_NOTE)}.")
    proven = _proof_sentence(verdict)
    if verdict.verified:
        click.echo(click.style("Verified", fg="green", bold=True) + f": {proven}.")
    else:
        click.echo(click.style("NOT verified", fg="red", bold=True) + f". What it does prove: {proven}.")


def _proof_sentence(verdict: ProofVerdict) -> str:
    """What is proven, in words, whether or not the certificate says something else."""
    problem = verdict.problem
    sizes = f"bucket sizes from {problem.min_size:,} to {min(problem.max_size, problem.total):,}"
    if verdict.least_loss is not None:
        return f"no valid setting with {sizes} has a loss below {verdict.least_loss:,}"
    if verdict.proven > 0:
        return f"there is no valid setting with {sizes}"
    return f"nothing is proven about settings with {sizes}"


def _proof_object(verdict: ProofVerdict) -> dict[str, Any]:
    """The verdict as one JSON object. The keys are a contract (docs/json.md)."""
    problem = verdict.problem
    return {
        "format": _FORMAT,
        "verified": verdict.verified,
        "proves": verdict.proves,
        "stated_bound": str(verdict.stated),
        "proven_bound": str(verdict.proven),
        "least_loss": verdict.least_loss,
        "n": problem.total,
        "m": len(problem.values),
        "min_size": problem.min_size,
        "max_size": problem.max_size,
        "known_records": problem.known_records,
        "fake_values": problem.fake_values,
        "findings": list(verdict.findings),
    }


def _job(path: Path) -> Job:
    from dalenius.policy.job import read_job

    job = read_job(path)
    if not job.said():
        raise PolicyError("the job file says nothing to compare", "Give it some keys, or leave --job out.")
    return job


def _show(verdict: Verdict) -> None:
    longest = max(len(check.check) for check in verdict.checks)
    for check in verdict.checks:
        mark, color = _MARKS[check.outcome]
        lines = [found.message for found in check.findings] or [check.summary]
        start = f"{check.check:<{longest}}  {click.style(f'{mark:<6}', fg=color)}  "
        for line in lines:
            click.echo(start + printable(line, LONGEST_NOTE))
            start = " " * (longest + 10)
    show_notes(verdict.notes)
    click.echo(_sentence(verdict))
    if verdict.verified and verdict.exposure is not None:
        click.echo()
        show_exposure(verdict.exposure)
        show_groups(verdict.groups)
        show_concerns(verdict.concerns)
        if verdict.concerns:
            show_advice(verdict.advice)


def _sentence(verdict: Verdict) -> str:
    if verdict.verified:
        by_people = verdict.people not in (None, verdict.rows)
        people = f"{verdict.people:,} people with " if by_people else ""
        size = f"{people}{verdict.rows:,} rows in {verdict.buckets:,} buckets"
        condition = "" if by_people else ", each row counted as one person"
        return click.style("Verified", fg="green", bold=True) + f": {size} keep every limit{condition}."
    failed = _number(verdict.checks, Outcome.FAILED)
    skipped = _number(verdict.checks, Outcome.NOT_CHECKED)
    rest = f", {skipped} could not be made" if skipped else ""
    return (
        click.style("NOT verified", fg="red", bold=True) + f": {failed} of {len(verdict.checks)} checks failed{rest}."
    )


def _number(checks: tuple[Check, ...], outcome: Outcome) -> int:
    return sum(1 for check in checks if check.outcome is outcome)
