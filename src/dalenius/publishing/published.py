"""A release in the hand: look at it, count from it, verify it, save it."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dalenius.errors import PolicyError, UsageError
from dalenius.model.concern import Advice, Concern, advise, by_weight
from dalenius.model.problem import ValueCounts
from dalenius.policy.limits import LimitPolicy, as_policy
from dalenius.publishing.analysing import Analyses
from dalenius.release.atomic import writable
from dalenius.release.folder import ReleaseFolder, open_release
from dalenius.release.manifest import FILE, SIGNATURE_FILE, Manifest
from dalenius.release.release_views import all_tables, in_a_few_words, sensitive_columns, together_of, view_of
from dalenius.release.staging import staging
from dalenius.release.store import LocalStore

if TYPE_CHECKING:
    import pyarrow

    from dalenius.model.attack_result import Audit
    from dalenius.model.exposure import Exposure, GroupShare, TypicalError
    from dalenius.model.verdict import Verdict
    from dalenius.policy.job import Job
    from dalenius.release.signature import PublicKey
    from dalenius.tables.killable import PrivateFolder


_CHUNK = 2**20

Limits = LimitPolicy | Mapping[Any, Any]


class Release(Analyses):
    """A published table. `notes` is what the publisher should know; it is not part of the release."""

    def __init__(
        self,
        folder: ReleaseFolder,
        notes: Sequence[str] = (),
        *,
        verdict: Verdict | None = None,
        concerns: Sequence[Concern] = (),
        error: TypicalError | None = None,
        temporary: PrivateFolder | None = None,
        followed: Mapping[str, int] | None = None,
    ) -> None:
        """`verdict` is that of verifying it while it was published, and `error` how far off counts from it will be.

        `concerns` are what was seen in the table before. `followed` says of a release of a chain how many people
        stayed, left, came back, are new or have another value than before.
        `temporary` is a folder that holds an unsaved release, and is removed with this object.
        """
        super().__init__(folder)
        self._verdict = verdict
        self._concerns = tuple(concerns)
        self.error = error
        self.followed = followed
        if temporary is not None:
            weakref.finalize(self, temporary.remove)
        self.notes = tuple(notes)

    def knowing(self, concerns: Sequence[Concern]) -> Release:
        """The same, with further concerns."""
        self._concerns = (*self._concerns, *concerns)
        return self

    @property
    def path(self) -> Path:
        """The folder of the release."""
        return self._folder.path

    @property
    def manifest(self) -> Manifest:
        """What the tables are, and under which limits they were made."""
        return self._folder.manifest

    @property
    def qit(self) -> pyarrow.Table:
        """The quasi-identifiers and the bucket, one row a record."""
        return self._folder.table("qit")

    @property
    def st(self) -> pyarrow.Table:
        """The bucket and the (first) sensitive value: one row a record and a fake value, or a person and a value."""
        return self._folder.table("st")

    @property
    def sensitive(self) -> tuple[str, ...]:
        """The names of the sensitive columns."""
        return sensitive_columns(self.manifest)

    def st_of(self, column: str) -> pyarrow.Table:
        """The same as `st` for any of the sensitive columns."""
        return view_of(self._folder, column).table("st")

    @property
    def together(self) -> tuple[tuple[str, ...], ...]:
        """Which sensitive columns are kept together."""
        return tuple(tuple(one.columns) for one in self.manifest.together)

    def together_of(self, *columns: str) -> pyarrow.Table:
        """What goes with what in sensitive columns that are kept together: a row for each person and tuple."""
        return together_of(self._folder, columns).table("together")

    def groups_of(self, column: str) -> pyarrow.Table:
        """Which groups of values people of each bucket have; a ReleaseError if there is no such table."""
        return view_of(self._folder, column).table("groups")

    @property
    def exposure(self) -> Exposure | None:
        """How much the release shows of the people in it; None if ST cannot be read."""
        return self._own_verdict.exposure

    @property
    def group_shares(self) -> tuple[GroupShare, ...]:
        """The largest share of a bucket that each group of values has; none if there are no groups."""
        return self._own_verdict.groups

    @property
    def concerns(self) -> tuple[Concern, ...]:
        """What to know before publication, the heaviest first: from the table, and from verifying the release."""
        return by_weight((*self._concerns, *self._own_verdict.concerns))

    @property
    def advice(self) -> Advice:
        """Whether to publish, by the worst of the concerns."""
        return advise(self.concerns)

    @property
    def _own_verdict(self) -> Verdict:
        if self._verdict is None:
            self._verdict = self.verify()
        return self._verdict

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Release:
        """Write the release to a folder, whole or not at all; `force` replaces a release that is there."""
        target = Path(path)
        with staging(target, force) as stage, writable():
            signed = SIGNATURE_FILE in (self._folder.store.names() or ())
            tables = (name for table in all_tables(self.manifest) for name in table.files)
            for name in (*tables, FILE, *([SIGNATURE_FILE] if signed else [])):
                into = stage.folder / name
                into.parent.mkdir(exist_ok=True)
                with self._folder.store.open(name) as file, into.open("xb") as copy:
                    shutil.copyfileobj(file, copy, _CHUNK)
            stage.commit(force)
        return load(target)

    def verify(
        self,
        *,
        limits: LimitPolicy | Mapping[Any, Any] | Sequence[LimitPolicy | Mapping[Any, Any] | None] | None = None,
        job: Job | str | os.PathLike[str] | None = None,
        against: Any = None,
        table: str | None = None,
        person: str | None = None,
        signed_by: PublicKey | str | os.PathLike[str] | None = None,
        previous: Release | str | os.PathLike[str] | None = None,
        memory: int | None = None,
    ) -> Verdict:
        """Judge the files alone: hashes, sizes, limits, order. `against` a table, its rows and values as well.

        `limits` are a rule, or a list with those of each sensitive column. All of a `job` file is compared. `person`
        is the table's column that tells people apart. `signed_by` is the public key of whoever has to have signed it.
        `previous` is the release that it has to follow on, in a chain. `memory` is what the whole program may take, in
        bytes.
        """
        from dalenius.verify.judge import verify

        policy = _limits_by_column(limits, self.manifest) if limits is not None else None
        source: dict[str, Any] = {"against": against, "table": table, "person": person}
        before = previous._where if isinstance(previous, Release) else previous
        asked: dict[str, Any] = {"signed_by": signed_by, "previous": before, "memory": memory}
        return verify(self._where, policy=policy, job=job, **asked, **source)

    def audit(
        self,
        *,
        truth: Any = None,
        table: str | None = None,
        person: str | None = None,
        attacks: Sequence[str] | None = None,
        known: int | None = None,
        control: Any = None,
        memory: int | None = None,
    ) -> Audit:
        """Play simulated attackers against the release; with the table it was made of, say how often they are right.

        `person` is the column of that table that says whose rows are whose. `attacks` are some of `dalenius audit`'s,
        such as "learning"; `known` is how many records of a bucket the corrupting attacker knows; `control` is a table
        of people who are not in the release. `memory` is what the whole program may take, in bytes.
        """
        from dalenius.attack.audit import ATTACKS, audit

        names = tuple(ATTACKS) if attacks is None else attacks
        tables = {"truth": truth, "table": table, "person": person, "control": control}
        return audit(self._where, **tables, attacks=names, known=known, memory=memory)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        audit: bool = False,
        truth: Any = None,
        table: str | None = None,
        person: str | None = None,
        control: Any = None,
        previous: Sequence[Release | str | os.PathLike[str]] = (),
        force: bool = False,
        title: str | None = None,
        dataset: str | None = None,
        controller: str | None = None,
        purpose: str | None = None,
        memory: int | None = None,
    ) -> dict[str, Any]:
        """Write one HTML page about the release, with a JSON twin beside it, and give what the twin says.

        With `audit`, what simulated attackers get; with the table as `truth`, how often they are right (on people, if
        `person` says whose rows are whose) and how good counts are: such a page is for the publisher, not for
        publication. `previous` are earlier releases of its chain, which it names. `title`, `dataset`, `controller`
        (whose data this is) and `purpose` are the head of its first page. `memory` is what the whole program may take,
        in bytes.
        """
        from dalenius.policy.job import ReportSection
        from dalenius.report.report_files import make_report

        head = ReportSection().but(title=title, dataset=dataset, controller=controller, purpose=purpose)
        tables = {"truth": truth, "table": table, "person": person, "control": control}
        earlier = [one.path if isinstance(one, Release) else Path(one) for one in previous]
        asked: dict[str, Any] = {"audit": audit, "previous": earlier, **tables, "head": head, "memory": memory}
        return make_report(self.path, Path(path), force=force, **asked)

    @property
    def _where(self) -> Path | ReleaseFolder:
        """The folder, to be read as it is now; the release in the hand where it is not on this machine."""
        return self.path if isinstance(self._folder.store, LocalStore) else self._folder

    def __repr__(self) -> str:
        return f"<Release: {in_a_few_words(self.manifest)}>"


def load(path: str | os.PathLike[str]) -> Release:
    """The release in a folder."""
    folder = Path(path)
    if not folder.is_dir():
        raise UsageError("there is no folder at the path given", "Give the folder of a release.")
    return Release(open_release(folder))


def _limits_by_column(limits: Limits | Sequence[Limits | None], manifest: Manifest) -> list[LimitPolicy | None]:
    """One policy for each sensitive column. A list has them in order; anything else is a rule for all columns."""
    views = [manifest.view(number) for number in range(manifest.sets)]
    counts = [ValueCounts.of((value.value, value.count) for value in view.values) for view in views]
    if isinstance(limits, Sequence):
        if len(limits) != len(views):
            raise PolicyError(
                f"there are limits for {len(limits):,} sensitive columns, and the release has {len(views):,}",
                "Give one for each, in their order; None for those of the release.",
            )
        return [as_policy(own, held) if own is not None else None for own, held in zip(limits, counts, strict=True)]
    policies: list[LimitPolicy | None] = [as_policy(limits, held) for held in counts]
    if manifest.others and any(policy is not None and policy.values for policy in policies):
        raise PolicyError(
            f"limits of single values are given, and the release has {len(views):,} sensitive columns",
            "Give a list with the limits of each column, in their order; None for those of the release.",
        )
    return policies
