"""What publishing asks of an engine, in a few verbs. The rest of the program does not know which one answers.

survey      the columns and their types, what they hold, and how often the sensitive column has each value
sampled     some records, for finding strata
count       the records of each value in each stratum, by partition where the engine has partitions
place       every record to its bucket, by the placement that it is given
write       both tables, in the order of the release
read_back   the tables as anybody would read them, to be verified before they are published

An engine gives the same plan, the same quotas and the same buckets for the same counts. Only the order in which the
records of a value get their ranks is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.model.problem import Partition, SizeGroup
from dalenius.model.progress import Progress
from dalenius.place.cutting import Cutter
from dalenius.place.slots import Placement
from dalenius.place.survey import Survey
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.release.two_tables import TableFile

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer]


@dataclass(frozen=True)
class SampleWish:
    """A sample of so many records, or fewer if those would take more bytes; drawn by the key."""

    key: bytes
    rows: int
    bytes: int


@dataclass(frozen=True)
class Wanted:
    """Which columns are read, under which name nulls of the sensitive one count, and whether a sample is drawn."""

    sensitive: str
    quasi_identifiers: tuple[str, ...]
    null_value: str | None
    sample: SampleWish | None = None


@dataclass(frozen=True)
class Sampled:
    """Records of a sample: the codes of their sensitive values, and their codes in every column that has a domain."""

    values: Numbers
    codes: Mapping[str, Numbers]


class Counted(Protocol):
    """How many records each stratum has of each value, and what the engine needs besides to place them."""

    @property
    def totals(self) -> Integers:
        """A line for each stratum, a column for each value."""

    def renumbered(self, table: Numbers) -> Counted:
        """Strata merged: `table` gives for every number (stratum after stratum, value by value) the new one."""


@dataclass(frozen=True)
class Job:
    """All that is decided before records are placed. Without a cutter the table is one stratum."""

    survey: Survey
    counted: Counted
    cutter: Cutter | None
    parts: tuple[Partition, ...]
    placement: Placement

    @property
    def groups(self) -> tuple[SizeGroup, ...]:
        """All size groups, in the order of their buckets."""
        return tuple(group for part in self.parts for group in part.setting.groups)


@dataclass(frozen=True)
class TableSpec:
    """A table as it is to be written: its columns, those of few bits, and the rows of a row group."""

    schema: pa.Schema
    short: frozenset[str]
    group: int


class OpenTable(Protocol):
    """A table that can be read more than once, and must be the same each time."""

    @property
    def names(self) -> Sequence[str]:
        """All columns."""

    def survey(self, wanted: Wanted, progress: Progress) -> Survey:
        """Read the table for the first time."""

    def sampled(self, found: Survey) -> Sampled:
        """The sample that was wished for."""

    def count(self, found: Survey, cutter: Cutter | None, progress: Progress) -> Counted:
        """Count every value in every stratum; an error if this is not the table of before."""

    def place(self, job: Job, progress: Progress) -> AbstractContextManager[Any]:
        """Every record to its bucket, now or while it is written, as a stage of its own: "Placing"."""


class Output(Protocol):
    """Where a release is written: nobody sees it as a release before `commit`, and without it nothing is left."""

    def write(
        self, job: Job, placed: Any, qit: TableSpec, st: TableSpec, progress: Progress
    ) -> tuple[TableFile, TableFile]:
        """Both tables, in place of those of a `write` before, as a stage of its own: "Writing"."""

    def read_back(self, manifest: Manifest) -> ReleaseFolder:
        """What was written, as a release that is not published yet."""

    def commit(self, manifest: Manifest) -> ReleaseFolder:
        """Publish: all or nothing."""


class Engine(Protocol):
    """Opens tables, and makes places for releases."""

    def open(self, table: Any, name: str | None) -> AbstractContextManager[OpenTable]:
        """A table, by whatever means of naming one the engine has."""

    def output(self, out: str, force: bool) -> AbstractContextManager[Output]:
        """A place for a release; `force` if it may replace one."""

    @property
    def formats(self) -> Sequence[str]:
        """How tables can be written, the usual way first."""
