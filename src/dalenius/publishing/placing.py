"""The second half of publishing: every record to its bucket and into the tables."""

from __future__ import annotations

from dalenius.model.progress import Progress
from dalenius.place.marking import draw_marks
from dalenius.place.slots import Placement
from dalenius.processing.engine import Job, Output
from dalenius.protect.avoiding import MOST_ROUNDS, Avoiding
from dalenius.protect.partition import unprotected
from dalenius.publishing.preparing import Ready, random_bits
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.writing import Roles, Work, manifest_of, shapes


class Placing:
    """Places the records of one table into one output, again if need be."""

    def __init__(self, ready: Ready, roles: Roles, work: Work, output: Output) -> None:
        self._ready, self._roles, self._work, self._output = ready, roles, work, output

    def placed(self, key: bytes, told: Progress) -> tuple[Manifest, ReleaseFolder, tuple[str, ...]]:
        """The manifest, the release as it can be read back, and what to know about its fakes.

        Every record goes to its bucket; with fakes, again until none is ruled out, as far as possible.
        """
        parts, options = self._work.deal.parts, self._work.options
        marks = draw_marks(parts, key) if self._work.deal.fake_values else None
        made, folder = self._place(Placement(parts, key, marks), told)
        if marks is None:
            return made, folder, ()
        avoiding = Avoiding(parts, random_bits(options.seed), MOST_ROUNDS if options.avoid_ruled_out else 0)
        told.stage("Learning")
        while (marks := avoiding.improved(folder, marks)) is not None:
            made, folder = self._place(Placement(parts, key, marks), told)
            told.stage("Learning")
        return made, folder, (*unprotected(parts), *avoiding.sentences())

    def _place(self, placement: Placement, told: Progress) -> tuple[Manifest, ReleaseFolder]:
        """Place every record, write both tables, and read them back."""
        found, deal = self._work.survey, self._work.deal
        job = Job(found, deal.counted, deal.cutter, deal.parts, placement)
        with self._ready.opened.place(job, told) as placed:
            looks = shapes(self._roles, found, self._work.options.format or "parquet")
            qit, st = self._output.write(job, placed, looks.qit, looks.st, told)
        made = manifest_of(self._roles, self._work, looks, qit, st)
        return made, self._output.read_back(made)
