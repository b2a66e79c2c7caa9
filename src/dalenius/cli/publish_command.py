"""dalenius publish: read a table, find the buckets, write and verify the release. dalenius sign: sign one."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from dalenius.cli.engine_options import engine_fields, engine_options
from dalenius.cli.failures import NO_SOLUTION, report_errors
from dalenius.cli.group_options import apart_option, group_options, null_options
from dalenius.cli.option_texts import column_names
from dalenius.cli.set_options import chain_fields, chain_options, people_options
from dalenius.cli.shared_options import (
    PlanRequest,
    adversary_options,
    parse_strata,
    policy_options,
    quasi_identifiers_option,
    read_request,
    solver_options,
    strata_option,
)
from dalenius.cli.text_table import parse_size
from dalenius.errors import NoSolutionError, UsageError

if TYPE_CHECKING:
    from dalenius.model.plan import Plan
    from dalenius.publishing.options import PublishOptions, PublishRequest
    from dalenius.publishing.published import Release
    from dalenius.release.signature import SigningKey
    from dalenius.release.writer import Format


_EPILOG = """\b
Examples:
  dalenius publish hospital.csv --sensitive Disease --quasi-identifiers Age,Gender,Zipcode \\
      --identifiers Name --odds 8 --out release
  dalenius publish hospital.parquet --job job.toml --out release --force
  dalenius publish store.duckdb --table visits --job job.toml --out release --format csv --json
  dalenius publish hospital.csv --job job.toml --corrupted 1 --fakes 1 --out release
  dalenius publish hospital.csv --job job.toml --groups diagnoses.csv --level-rule chapter:odds=4 --out release
  dalenius publish hospital.csv --job job.toml --strata Gender,Zipcode --out release
  dalenius publish visits.parquet --person patient_nbr --sensitive diagnosis=diag_1,diag_2,diag_3 \\
      --sensitive insulin --quasi-identifiers race,gender,age --odds 8 --limit insulin:Up=0.3 --out release
  dalenius publish hospital.csv --job job.toml --sign publisher --out release
  dalenius publish 2025.csv --job job.toml --person id --ledger ledger --out release-2025
  dalenius publish 2026.csv --job job.toml --person id --ledger ledger --after release-2025 --out release-2026
  dalenius publish s3a://hospital/visits --job job.toml --out s3a://public/visits \\
      --engine spark --master spark://cluster:7077 --conf spark.executor.memory=8g
"""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_PLENTY = 15 * 10**8  # bytes


@click.command("publish", epilog=_EPILOG)
@click.argument("table", type=click.Path(), metavar="TABLE")
@people_options
@chain_options
@quasi_identifiers_option("Columns to publish along with it.")
@click.option(
    "--identifiers",
    multiple=True,
    metavar="N,...",
    help="Columns that identify people; never published. Repeatable.",
)
@click.option("--out", type=click.Path(), required=True, metavar="DIR", help="Folder to create for the release.")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "csv", "parts"]),
    help="Write each table as one Parquet or CSV file, or as a folder of Parquet files (default parquet; "
    "always parts with Spark).",
)
@click.option("--force", is_flag=True, help="Replace the release in DIR once the new one is complete and verified.")
@click.option(
    "--sign",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Private key (PEM) to sign the release with; 'dalenius sign --new-key KEY' makes one.",
)
@click.option("--table", "table_name", metavar="NAME", help="Table to read from a DuckDB file.")
@null_options
@apart_option
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory that the program may use: 2GB, 512MiB (default: half of the machine's).",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Make a reproducible release for tests; its manifest says that it is not for publication.",
)
@strata_option
@click.option(
    "--strict",
    is_flag=True,
    help="Make concerns about the table errors: columns that determine the sensitive one, repeated people, ...",
)
@policy_options
@group_options
@solver_options
@adversary_options
@click.option(
    "--avoid-ruled-out",
    is_flag=True,
    help="Exchange fake values that an attacker could rule out; this has a price (see the documentation).",
)
@click.option(
    "--publish-in-the-clear",
    "in_the_clear",
    is_flag=True,
    help="Publish even if somebody's value is then published outright.",
)
@engine_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
def publish_command(
    table: str,
    quasi_identifiers: tuple[str, ...],
    identifiers: tuple[str, ...],
    out: str,
    file_format: Format | None,
    force: bool,
    sign: Path | None,
    table_name: str | None,
    memory: str | None,
    seed: int | None,
    strata: str | None,
    avoid_ruled_out: bool,
    in_the_clear: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Publish TABLE as tables, linked only by bucket, that keep your limits on what anybody can infer.

    Reads TABLE (a CSV, TSV, Parquet or DuckDB file, or a folder of Parquet files), cuts it into strata, finds the best
    bucket sizes, places every record at random within its stratum, writes qit, st and manifest.json to DIR, and
    verifies them. Columns without a role are left out. DIR appears only when all of this is done. With --engine spark,
    a cluster does the work, and TABLE and DIR may be URLs.
    """
    started = time.perf_counter()
    with report_errors(as_json):
        size = parse_size(memory) if memory is not None else None
        if size is None or size >= _PLENTY:
            _keep_freed_memory()
        from dalenius.publishing.options import PublishOptions

        key = _signing_key(sign) if sign is not None else None
        chain = chain_fields(arguments)
        plan = read_request(arguments)
        cut = parse_strata(strata) if strata is not None else plan.strata
        options = PublishOptions(
            null_value=plan.null_value,
            missing=plan.missing,
            not_applicable=plan.not_applicable,
            table=table_name,
            format=file_format,
            force=force,
            memory=size,
            seed=seed,
            avoid_ruled_out=avoid_ruled_out or plan.avoid_ruled_out,
            strata=cut if cut is not None else "auto",
            in_the_clear=in_the_clear or plan.in_the_clear,
            strict=plan.strict,
            sign=key,
            most_rows=plan.most_rows,
            **chain,
            **engine_fields(arguments),
        )
        if options.engine == "duckdb":
            table, out = str(Path(table)), str(Path(out))
        columns = column_names(quasi_identifiers), column_names(identifiers)
        _run(_request(table, plan, options, *columns), out, started, as_json)


def _request(
    table: str,
    plan: PlanRequest,
    options: PublishOptions,
    quasi_identifiers: tuple[str, ...],
    identifiers: tuple[str, ...],
) -> PublishRequest:
    """The whole request; columns named in options override those of the job file."""
    roles, set_limits = plan.roles_and_limits(
        quasi_identifiers or plan.quasi_identifiers, identifiers or plan.identifiers
    )
    if options.avoid_ruled_out and not plan.options.fake_values:
        raise UsageError(
            "there are no fake values to exchange",
            "Give --fakes N as well, or leave out --avoid-ruled-out (in a job file: avoid_ruled_out).",
        )
    from dalenius.publishing.options import PublishRequest

    return PublishRequest(
        table=table,
        roles=roles,
        limits=plan.policy,
        set_limits=set_limits,
        method=plan.method,
        solving=plan.options,
        options=options,
    )


def _run(request: PublishRequest, out: str, started: float, as_json: bool) -> None:
    """Publish, and print the summary or why there is no release. Neither can be interrupted halfway."""
    from dalenius.cli.progress_bar import protect_last_stage, show_progress
    from dalenius.publishing.flow import publish_request

    with protect_last_stage() as protect:
        try:
            with show_progress(as_json) as progress:
                release = publish_request(request, out, protect(progress))
        except NoSolutionError as error:
            if error.plan is None:
                raise  # its message says it all
            _print_no_solution(cast("Plan", error.plan), as_json)
            sys.exit(NO_SOLUTION)
        key = request.signing_key.public_key.fingerprint if request.signing_key is not None else None
        _print(release, out, time.perf_counter() - started, key, as_json)


def _keep_freed_memory() -> None:
    """Make the C library reuse freed memory instead of giving it back, because every new page has to be cleared.

    Batches and pieces come and go by the hundred; without this, a fifth of the time goes into clearing pages.
    """
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_TRIM_THRESHOLD, 64 * 2**20)


def _print(release: Release, out: str, seconds: float, key: str | None, as_json: bool) -> None:
    from dalenius.cli.render_release import release_object, show_release

    if as_json:
        click.echo(json.dumps({**release_object(release, out, seconds), "signed_by": key}))
        return
    show_release(release, out, seconds)
    if key is not None:
        click.echo(f"Signed: manifest.sig, with the key whose SHA-256 is {key}")


def _print_no_solution(plan: Plan, as_json: bool) -> None:
    from dalenius.cli.render_plan import plan_object, show_plan

    if as_json:
        click.echo(json.dumps(plan_object(plan)))
    else:
        show_plan(plan)


_SIGN_EPILOG = """\b
Examples:
  dalenius sign --new-key publisher
  dalenius sign release --key publisher
  dalenius sign release --key publisher --force --json
"""
_SIGN_FORMAT = 1


@click.command("sign", epilog=_SIGN_EPILOG)
@click.argument("folder", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--key", type=click.Path(path_type=Path), metavar="KEY", help="Private key (PEM) to sign with.")
@click.option(
    "--new-key",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="Make a new key instead: the private key in KEY, and the public one in KEY.pub.",
)
@click.option(
    "--passphrase",
    "encrypt",
    is_flag=True,
    help="With --new-key: encrypt the private key with a passphrase.",
)
@click.option("--force", is_flag=True, help="Replace a signature that the release has.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def sign_command(
    folder: Path | None, key: Path | None, new_key: Path | None, encrypt: bool, force: bool, as_json: bool
) -> None:
    """Sign the release in DIR: write manifest.sig, which says that its manifest is yours.

    Nothing else is checked: verify the release first. Whoever has your public key can then check that the release is
    the one that you signed (verify --signed-by). The passphrase of a key is taken from the environment variable
    DALENIUS_KEY_PASSPHRASE, or asked for.
    """
    with report_errors(as_json):
        if new_key is not None:
            if folder is not None or key is not None or force:
                raise UsageError("--new-key makes a key and signs nothing", "Give it alone, and sign after that.")
            _make_key(new_key, encrypt, as_json)
            return
        if folder is None or key is None or encrypt:
            raise UsageError(
                "a release is signed with a key", "Give its folder and --key KEY; or make a key with --new-key KEY."
            )
        from dalenius.release.signature import sign_release

        signing = sign_release(folder, _signing_key(key), force=force)
        _tell(as_json, "signed", str(folder), signing, f"Signed: {folder}")


def _make_key(path: Path, encrypt: bool, as_json: bool) -> None:
    from dalenius.release.signature import PASSPHRASE, write_new_key

    passphrase = os.environ.get(PASSPHRASE) or (_ask(new=True) if encrypt else None)
    if encrypt and not passphrase:
        raise UsageError("there is no passphrase for the new key", f"Set the environment variable {PASSPHRASE}.")
    key = write_new_key(path, passphrase)
    how = "encrypted" if passphrase else "not encrypted: whoever can read it can sign as you"
    _tell(as_json, "new_key", str(path), key, f"Written: {path} ({how}), {path}.pub (to give away)")


def _tell(as_json: bool, what: str, path: str, key: SigningKey, sentence: str) -> None:
    fingerprint = key.public_key.fingerprint
    if as_json:
        click.echo(json.dumps({"format": _SIGN_FORMAT, what: path, "key": fingerprint}))
    else:
        click.echo(f"{sentence}\nSHA-256 of the public key: {fingerprint}")


def _signing_key(path: Path) -> SigningKey:
    from dalenius.release.signature import read_signing_key

    return read_signing_key(path, ask=_ask)


def _ask(new: bool = False) -> str | None:
    """A passphrase from the terminal; None if there is nobody to ask."""
    if not sys.stdin.isatty():
        return None
    return str(click.prompt("Passphrase of the key", hide_input=True, confirmation_prompt=new, err=True))
