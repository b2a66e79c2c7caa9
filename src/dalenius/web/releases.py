"""The releases that Studio knows: those it made, and those it was given."""

from __future__ import annotations

import re
import secrets
import threading
from pathlib import Path

from dalenius.errors import UsageError
from dalenius.policy.job import AdversarySection, Job, LimitsSection, TableSection
from dalenius.release.folder import open_release
from dalenius.release.manifest import Manifest
from dalenius.release.staging import abandon, is_staged, remove_left_behind
from dalenius.web.failures import not_found
from dalenius.web.release import StudioRelease

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,59}")


class Releases:
    """All releases, in the order in which they came."""

    def __init__(self, out: Path | None, unsaved: Path) -> None:
        """New ones go into folders of their own under `out`, or, if there is none, under `unsaved`."""
        self._out, self._unsaved = out, unsaved
        self._lock = threading.Lock()
        self._releases: dict[str, StudioRelease] = {}
        self._target: Path | None = None  # of the release that was begun last
        if out is not None:
            remove_left_behind(out)

    def target(self, name: str) -> Path:
        """Where a new release of this name is to be made; an error if the name is taken, or not a plain one."""
        if not _PLAIN_NAME.fullmatch(name):
            raise UsageError(
                "the name of a release is 1 to 60 letters, digits, dots, hyphens and underscores, a dot not first",
                "Give it another name.",
            )
        taken = any(other.name.casefold() == name.casefold() for other in self.all() if other.table or not other.saved)
        path = self._out / name if self._out is not None else self._unsaved / secrets.token_hex(12)
        if taken or path.exists() or path.is_symlink():
            raise UsageError("there is a release of this name already", "Give it another name.")
        return path

    def begin(self, target: Path) -> None:
        """A release is being made there."""
        self._target = target

    def add(self, release: StudioRelease) -> None:
        """A release that is complete."""
        with self._lock:
            self._releases[release.id] = release

    def open(self, path: Path) -> None:
        """A release that was made before."""
        folder = open_release(path)
        name = path.resolve().name or "release"
        self.add(StudioRelease(new_id(), name, folder, saved=True, job_text=_job_of(folder.manifest)))

    def get(self, identifier: str) -> StudioRelease:
        """The release with an ID."""
        with self._lock:
            found = self._releases.get(identifier)
        if found is None:
            raise not_found()
        return found

    def all(self) -> list[StudioRelease]:
        """Every release."""
        with self._lock:
            return list(self._releases.values())

    def without_table(self, identifier: str) -> None:
        """A table is gone: what was made of it has no truth any more."""
        for release in self.all():
            if release.table is not None and release.table.id == identifier:
                release.table = None

    def abandon_unfinished(self) -> None:
        """The program is about to end in the middle of publishing: leave nothing of it beside the target."""
        if self._target is not None:
            abandon(self._target)

    def leave_something(self) -> bool:
        """Whether there is still something beside the target of the release that was begun last."""
        return self._target is not None and is_staged(self._target)

    def close(self) -> None:
        """Let go of all files."""
        for release in self.all():
            release.close()


def new_id() -> str:
    """A name that nobody can guess."""
    return secrets.token_urlsafe(12)


def _job_of(made: Manifest) -> str:
    """A job file from what a manifest says: its limits one by one, for the rule they came from is not in it."""
    from dalenius.policy.job_writer import job_text

    return job_text(
        Job(
            table=TableSection(
                sensitive=made.columns.sensitive.name,
                quasi_identifiers=[column.name for column in made.columns.quasi_identifiers],
                null_value=made.null_value,
                strata="auto" if made.strata is not None else "none",
            ),
            limits=LimitsSection(values={value.value: value.limit for value in made.values}),
            adversary=AdversarySection(corrupted=made.adversary.known_records, fakes=made.adversary.fake_values),
        )
    )
