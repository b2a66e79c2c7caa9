"""The second half of publishing: every record to its bucket and into the tables."""

from __future__ import annotations

import pyarrow as pa

from dalenius.model.progress import Progress
from dalenius.place.cutting import Virtual
from dalenius.place.marking import draw_marks
from dalenius.place.packed import PackedRecords
from dalenius.place.pieces import Pieces
from dalenius.place.slots import Placement
from dalenius.place.stream import Records, place_kept, place_records
from dalenius.place.wide import WideRecords
from dalenius.protect.avoiding import MOST_ROUNDS, Avoiding
from dalenius.protect.partition import unprotected
from dalenius.publishing.preparing import Ready, random_bits
from dalenius.release.folder import ReleaseFolder
from dalenius.release.manifest import Manifest
from dalenius.writing import Roles, Work, write_release


def placed(ready: Ready, roles: Roles, work: Work, key: bytes, told: Progress) -> tuple[Manifest, tuple[str, ...]]:
    """Every record to its bucket and into the tables; with fakes, again until none is ruled out, as far as possible."""
    parts = work.deal.parts
    marks = draw_marks(parts, key) if work.deal.fake_values else None
    made = _place(ready, roles, work, Placement(parts, key, marks), told)
    if marks is None:
        return made, ()
    rounds = MOST_ROUNDS if work.options.avoid_ruled_out else 0
    avoiding = Avoiding(parts, random_bits(work.options.seed), rounds)
    told.stage("Learning")
    while (marks := avoiding.improved(ReleaseFolder(work.stage.folder, made), marks)) is not None:
        made = _place(ready, roles, work, Placement(parts, key, marks), told)
        told.stage("Learning")
    return made, (*unprotected(parts), *avoiding.sentences())


def _place(ready: Ready, roles: Roles, work: Work, placement: Placement, told: Progress) -> Manifest:
    """Read the table, place every record, and write the release."""
    told.stage("Placing", work.survey.rows)
    records = _records(roles, work)
    try:
        deal, found, workers = work.deal, work.survey, ready.workers
        if deal.kept is not None and isinstance(records, PackedRecords):
            place_kept(deal.kept, placement, deal.counts, records, workers, told.advance)
        else:
            schema = pa.schema([found.schema.field(name) for name in roles.quasi_identifiers])
            numbers = Virtual(found.sensitive, deal.cutter)
            place_records(
                ready.source, schema, numbers, deal.counts, placement, records, workers, found.batch_rows, told.advance
            )
        told.stage("Writing", work.survey.rows)
        return write_release(roles, work, records, workers, told)
    finally:
        records.close()


def _records(roles: Roles, work: Work) -> Records:
    groups, found = work.deal.groups, work.survey
    layout = found.layout(work.deal.setting.buckets)
    if layout is not None:
        pieces = Pieces.of(groups, work.budget.piece_rows(groups))
        return PackedRecords(layout, pieces, None if work.budget.keys_fit(found.rows) else work.stage.folder)
    schema = pa.schema([*(found.schema.field(name) for name in roles.quasi_identifiers), ("bucket", pa.int64())])
    pieces = Pieces.of(groups, work.budget.piece_rows(groups, 6 * found.row_bytes + 40))
    return WideRecords(schema, found.domains, pieces, work.stage.folder)
