"""What the publisher should know about a release: it is not part of it."""

from __future__ import annotations

from collections.abc import Sequence

from dalenius.publishing.arrangement import Arrangement
from dalenius.publishing.options import PublishRequest


def release_notes(arrangement: Arrangement, request: PublishRequest, unused: Sequence[str]) -> tuple[str, ...]:
    """On the limits, the strata, and columns that are not what they were in the table."""
    plan, survey = arrangement.plan, arrangement.survey
    notes = list(plan.notes)
    if arrangement.cutter is not None:  # leave out remarks on the setting of one stratum
        notes = [note for note in notes if note not in plan.solution.notes]
    notes += arrangement.sentences()
    notes += not_cut(arrangement, request)
    if unused:
        named = ", ".join(repr(name) for name in unused[:12]) + (" and more" if len(unused) > 12 else "")
        have = "1 column has no role and is" if len(unused) == 1 else f"{len(unused)} columns have no role and are"
        notes.append(f"{have} not published: {named}")
    notes += [
        f"the order of the categories of {name!r} is not published: it may show the order of rows"
        for name in survey.unordered
    ]
    notes += [
        f"{name!r} has a different value for nearly every record; if it identifies people, name it an identifier"
        for name in survey.nearly_unique
    ]
    return tuple(notes)


def not_cut(arrangement: Arrangement, request: PublishRequest) -> tuple[str, ...]:
    """A sentence for those who asked for strata and get none."""
    if arrangement.cutter is not None or request.strata.kind not in ("number", "columns"):
        return ()
    return ("the table was not cut: no two parts of it differ beyond chance and can keep the limits",)
