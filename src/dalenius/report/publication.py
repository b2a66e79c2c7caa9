"""What the twin says against publication, and what the publisher has to look at first."""

from __future__ import annotations

from typing import Any

from dalenius.audit.report import SOURCE
from dalenius.release.manifest import SEEDED
from dalenius.report.attackers import ORDER
from dalenius.report.exposed import exposures
from dalenius.report.shown import listed, plural

Twin = dict[str, Any]


def against_publication(twin: Twin) -> list[str]:
    """Why the release must not be published, as sentences; none if nothing was found."""
    found = []
    if not twin["verify"]["verified"]:
        found.append("It did not pass its checks.")
    if twin["release"] is not None and twin["release"]["randomness"] == SEEDED:
        found.append("It was made with a seed: whoever has the seed and the order of the table can undo it.")
    if twin["audit"] is not None and twin["audit"]["broken"]:
        found.append("A simulated attacker broke a promise.")
    return found


def warnings(twin: Twin) -> list[str]:
    """What forbids nothing and has to be looked at before publication, as sentences: found, or not looked for."""
    found = exposures(twin["release"]) if twin["release"] is not None else []
    if others := twin["other_files"]:
        them = "it" if others == 1 else "them"
        found.append(
            f"The folder of the release has {plural(others, 'other file')}, which nobody verified: whoever publishes "
            f"the folder publishes {them} as well."
        )
    if not compared(twin):
        found.append(
            "The records were not compared with the table that was published: whether the release has all of them, "
            "unchanged, is not known from this report."
        )
    if twin["audit"] is None:
        found.append(
            "No attack was played: what somebody gets out of the release who learns across buckets is not known."
        )
    elif spared := not_played(twin["audit"]):
        found.append(
            f"Every bucket is too large for these attackers, who were not played: {listed(spared)}. What they would "
            "get is not known."
        )
    return found


def compared(twin: Twin) -> bool:
    """Whether the records were held against the table that was published."""
    return any(check["check"] == SOURCE and check["outcome"] != "not-checked" for check in twin["verify"]["checks"])


def not_played(audit: Twin) -> list[str]:
    """Attackers that had nobody to be played against."""
    return [name for name in ORDER if name in audit and audit[name]["people"] == 0]
