"""A release that is one of a chain: the people of the release before stay where they were, and new ones come behind.

next_release.py      one run: where people are, the buckets of new ones, and the tables
followed_people.py   who of the table was in the release before, with which value
new_people.py        the limits and the buckets of who is new, or has another value than before
followed_tables.py   which rows are read, and what the manifest says

Whoever was there and has the same value stays in the same bucket, whose values stay what they are. Who left leaves the
value behind. So all releases of a chain together say no more of anybody than one of them: in a bucket of S values, each
remaining person has a value that c of them are with the probability c / S. Who is new, or has another value than
before, goes into new buckets, which are solved, cut and placed as any release is.

The release and the ledger that knows who is where change together (`release.ledger`).
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path

from dalenius.errors import LedgerError, ReleaseError, SelfCheckError, UsageError
from dalenius.model.progress import LAST_STAGE, Progress, Silent
from dalenius.policy.limits import LimitPolicy
from dalenius.publishing.counting import find_columns
from dalenius.publishing.engine import open_engine
from dalenius.publishing.followed_people import FollowedPeople
from dalenius.publishing.followed_table import FollowedTable
from dalenius.publishing.local_output import LocalOutput
from dalenius.publishing.next_release import NextRelease
from dalenius.publishing.options import PublishRequest
from dalenius.publishing.placements import check
from dalenius.publishing.published import Release
from dalenius.release.folder import BATCH_ROWS, ReleaseFolder, open_release
from dalenius.release.ledger import OpenLedger, digest_of_release, open_ledger
from dalenius.release.ledger_file import Belongs
from dalenius.release.manifest import FILE, Manifest
from dalenius.release.neighbours import releases_in


def publish_following(
    request: PublishRequest, out: str | os.PathLike[str], progress: Progress | None = None
) -> Release:
    """Publish a release of a chain to a folder, and the ledger that belongs to it."""
    progress = progress or Silent()
    options, target = request.options, Path(os.path.abspath(out))  # noqa: PTH100 (links are not followed)
    after = Path(options.after) if options.after is not None else None
    private = Path(os.path.realpath(options.ledger or ""))
    if target in (private, *private.parents) or any((parent / FILE).exists() for parent in private.parents):
        raise UsageError("the ledger is private, and would be in the folder of a release", "Give another --ledger.")
    before = open_release(after) if after is not None else None
    if before is not None and before.manifest.chain is None:
        raise UsageError(
            "the release to follow on is not one of a chain: it was published without --ledger",
            "Begin a chain now, without --after. If nobody has that release, replace it by the first of the chain.",
        )
    _refuse_neighbours(after, target)
    with (
        open_ledger(private, after) as ledger,
        open_engine(request.table, options, request.budget) as engine,
        engine.output(str(target), options.force) as output,
    ):
        if not isinstance(output, LocalOutput):
            raise SelfCheckError("a chain is published by the local engine alone")
        if before is not None:
            _check_before(before, request)
        with ExitStack() as stack:
            with engine.open(request.table, options.table) as opened:
                unused, table = find_columns(opened, request.roles), FollowedTable.of(opened)
                people = FollowedPeople(output.scratch, ledger.key, request.budget, table.source.rows)
                stack.enter_context(closing(people))
                following = NextRelease(request, before, ledger, people, progress)
                following.find(table)
                following.place_new(output.scratch)
                stack.enter_context(ledger.part())
                writing = stack.enter_context(ThreadPoolExecutor(1))
                known: Future[Belongs] = Future()
                stack.callback(known.cancel)  # so that nobody waits for it after an error
                written = writing.submit(ledger.write, known.result, following.entries())
                manifest = following.write(output)
                known.set_result(following.belongs(manifest, target))
            folder = output.read_back(manifest)
            limits = LimitPolicy(values={value.value: Fraction(value.limit) for value in manifest.values})
            verdict = check(folder, limits, BATCH_ROWS, progress, before)
            written.result()
            progress.stage(LAST_STAGE)
            published = _commit(output, ledger, manifest, request, target)
    return Release(
        published,
        following.notes(unused, following.followed(manifest)),
        verdict=verdict,
        concerns=following.concerns,
        error=following.error,
        followed=following.followed(manifest).as_object(),
    )


def _commit(
    output: LocalOutput, ledger: OpenLedger, manifest: Manifest, request: PublishRequest, target: Path
) -> ReleaseFolder:
    """The release takes its place, and then the ledger; or neither does."""
    try:
        ledger.wait()
        published = output.commit(manifest, request.signature(manifest))
    except BaseException:
        if digest_of_release(target) != manifest.digest:
            ledger.withdraw()
        else:
            ledger.settle()
        raise
    ledger.settle()
    return published


def _refuse_neighbours(after: Path | None, target: Path) -> None:
    """An error if another release follows already on the one given, as far as anybody can see."""
    if after is None:
        return
    place = Path(os.path.realpath(after))
    if place == Path(os.path.realpath(target)):
        raise UsageError(
            "the release would replace the one that it follows on",
            "Give another --out, and keep the release before: the chain is verified with it.",
        )
    digest = digest_of_release(place)
    for folder in {place.parent, target.parent}:
        if digest is not None and any(one.previous == digest for one in releases_in(folder)):
            raise LedgerError(
                "another release follows already on the one given; two that do can be compared with each other",
                "Give the latest release of the chain as --after, with its ledger. Was that one never given to "
                "anybody? Then remove its folder, and restore the ledger of the release before.",
            )


def _check_before(before: ReleaseFolder, request: PublishRequest) -> None:
    """An error if the release before is not one that this one can follow on, or has been changed."""
    said, roles = before.manifest, request.roles
    named = [column.name for column in said.columns.quasi_identifiers]
    if named != list(roles.quasi_identifiers) or said.columns.sensitive.name != roles.sensitive:
        raise UsageError(
            "the release before has other columns: " + ", ".join([*named, said.columns.sensitive.name]),
            "All releases of a chain have the same quasi-identifiers, in their order, and the same sensitive column.",
        )
    adversary, solving = said.adversary, request.solving
    if (adversary.known_records, adversary.fake_values) != (solving.known_records, solving.fake_values):
        raise UsageError(
            f"the release before was made with --corrupted {adversary.known_records} and --fakes "
            f"{adversary.fake_values}",
            "Give the same: all releases of a chain protect against the same adversary.",
        )
    if request.options.null_name is not None and said.null_value not in (None, request.options.null_name):
        raise UsageError(
            f"nulls were called {said.null_value!r} in the release before", f"Say --null-value {said.null_value}."
        )
    for name, digest in said.tables.st.digests.items():
        found = hashlib.sha256()
        try:
            with before.store.open(name) as file:
                while chunk := file.read(2**20):
                    found.update(chunk)
        except OSError:
            raise ReleaseError("a file of the release before cannot be read", "Restore the release.") from None
        if found.hexdigest() != digest:
            raise ReleaseError(f"{name} of the release before was changed", "Restore the release as it was published.")
