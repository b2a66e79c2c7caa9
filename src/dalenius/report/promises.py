"""What a release promises, how that was checked, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dalenius.report.shown import sentence

_PROMISES = {
    "files": "The manifest and both tables are there.",
    "manifest": "What the manifest says is of one piece: rows, sizes, counts, columns and worst cases agree.",
    "hashes": "Both tables are the files that the manifest names, byte by byte.",
    "schema": "Only the named columns are in the tables, and no metadata of the source travels with them.",
    "sizes": "Every bucket has the size that is stated.",
    "strata": "The stratum of a record follows from its quasi-identifiers.",
    "limits": "In every bucket, every value keeps its limit",
    "values": "Counts and worst cases of all values are as stated.",
    "order": "The order of rows follows from what is published: it says nothing about the order of the source.",
    "source": "Every record of the table is in the release, exactly once.",
}
_SOURCE = "Not checked here: it needs the table that was published."
_APART = "Rows and sensitive values were compared apart from each other, not which value is in which row's bucket."
_PLACED = (
    "Records are placed at random, with a key that is forgotten: within a bucket, no order and no number links rows to "
    "values."
)
_RESULTS = {"passed": "passed", "failed": "FAILED", "not-checked": "not checked"}


@dataclass(frozen=True)
class Promise:
    """One line of the table; `outcome` is that of the check."""

    promise: str
    outcome: str
    result: str
    told: tuple[str, ...] = ()


def promises(twin: dict[str, Any]) -> list[Promise]:
    """Every check, and what no check can see."""
    checks = twin["verify"]["checks"]
    found = [_checked(check, twin["release"]) for check in checks]
    if all(check["check"] != "source" for check in checks):
        found.append(Promise(_PROMISES["source"], "not-checked", _RESULTS["not-checked"], (_SOURCE,)))
    if twin["release"] is not None:
        found.append(_placed(twin["release"]))
    return found


def _checked(check: dict[str, Any], release: dict[str, Any] | None) -> Promise:
    promise = _PROMISES.get(check["check"], check["check"])
    if check["check"] == "limits":
        known = release["known_records"] if release is not None else 0
        if known:
            records = "record of the bucket is" if known == 1 else f"{known:,} records of the bucket are"
            promise += f", whichever other {records} known"
        promise += "."
    outcome = check["outcome"]
    told = tuple(sentence(found["message"]) for found in check["findings"]) or (sentence(check["message"]),)
    if outcome == "passed":
        told = (_APART,) if check["check"] == "source" else ()
    return Promise(promise, outcome, _RESULTS[outcome], told)


def _placed(release: dict[str, Any]) -> Promise:
    if release["randomness"] == "cryptographic":
        told = "The manifest says so. It cannot be seen from the files."
        return Promise(_PLACED, "not-checked", _RESULTS["not-checked"], (told,))
    told = "The manifest says that the order came from a seed: not for publication."
    return Promise(_PLACED, "failed", "not kept", (told,))
