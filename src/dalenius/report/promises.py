"""The table of checks: every promise that a check is about, with its outcome, and those that no check can see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dalenius.report.by_column import all_at_once
from dalenius.report.formatting import sentence

Twin = dict[str, Any]
_PROMISES = {
    "files": "The manifest and both tables are there.",
    "manifest": "The manifest is consistent: rows, sizes, counts, columns and worst cases agree.",
    "hashes": "Both tables are, byte for byte, the files that the manifest names.",
    "schema": "The tables have only the named columns, and carry no metadata of the source.",
    "sizes": "Every bucket has its stated size.",
    "strata": "The quasi-identifiers of a record determine its stratum.",
    "limits": "In every bucket, every value keeps its limit",
    "values": "The counts and worst cases of all values are as stated.",
    "order": "The published data determine the order of rows, so it reveals nothing about the order of the source.",
    "source": "Every record of the table is in the release exactly once.",
    "chain": "The buckets of the release before are the same in this one, with the same values.",
    "job": "The release is what the job file asks for.",
}
_WITH_GROUPS = {
    "limits": "In every bucket, every value keeps its limit, and so does every group of values",
    "values": "The counts and worst cases of all values and groups are as stated.",
}
_OF_PEOPLE = {
    "files": "The manifest and all tables are there.",
    "manifest": "The manifest is consistent: people, rows, sizes, counts, columns and worst cases agree.",
    "hashes": "All tables are, byte for byte, the files that the manifest names.",
    "sizes": "Every bucket has its stated number of people, with equally many rows each.",
    "strata": "The rows of a person determine the person's stratum.",
    "limits": "In every bucket, every value of every sensitive column keeps its limit: people who have it are counted",
    "order": "The published data determine the order of rows and the numbers of people within a bucket, so neither "
    "reveals anything.",
    "source": "Everybody of the table is in the release exactly once, with all rows that were not left out.",
}
_OF_CHAINS = {
    "sizes": "No bucket has more people than its stated size; where nobody left, it has as many.",
    "strata": "The quasi-identifiers of a new record determine its stratum.",
}
_SOURCE = "Not checked here: this needs the table that was published."
_SEPARATELY = "Rows and sensitive values were compared separately, not which value is in which row's bucket."
_PLACEMENT = (
    "Records are placed at random, with a key that is then forgotten: within a bucket, no order and no number links "
    "rows to values."
)
_RESULTS = {"passed": "passed", "failed": "FAILED", "not-checked": "not checked"}


@dataclass(frozen=True)
class Promise:
    """A row of the table of checks: the promise, and the outcome of its check."""

    promise: str
    outcome: str
    result: str
    remarks: tuple[str, ...] = ()


def promises(twin: dict[str, Any]) -> list[Promise]:
    """Every check, and the promises that no check can see."""
    checks = twin["verify"]["checks"]
    promises = [_checked_promise(check, twin["release"]) for check in checks]
    if all(check["check"] != "source" for check in checks):
        promises.append(_unchecked(_promise("source", twin["release"]), _SOURCE))
    if twin["release"] is not None:
        promises.append(_placement(twin["release"]))
    return promises


def _unchecked(promise: str, remark: str) -> Promise:
    outcome = "not-checked"
    return Promise(promise=promise, outcome=outcome, result=_RESULTS[outcome], remarks=(remark,))


def _promise(check: str, release: Twin | None) -> str:
    """The promise that a check is about."""
    promise = _PROMISES.get(check, check)
    if release is not None and release["by_people"]:
        promise = _OF_PEOPLE.get(check, promise)
    if release is not None and release["chain"] is not None and release["chain"]["release"] > 1:
        promise = _OF_CHAINS.get(check, promise)
    if release is not None and all_at_once(release)["groups"]:
        if check == "limits" and release["by_people"]:
            return f"{promise}, and so does every group of values"
        promise = _WITH_GROUPS.get(check, promise)
    return promise


def _checked_promise(check: dict[str, Any], release: dict[str, Any] | None) -> Promise:
    promise = _promise(check["check"], release)
    if check["check"] == "limits":
        known = release["known_records"] if release is not None else 0
        if known:
            one, many = ("person", "people") if release is not None and release["by_people"] else ("record", "records")
            these = f"{one} of the bucket is" if known == 1 else f"{known:,} {many} of the bucket are"
            promise += f", whichever other {these} known"
        promise += "."
    outcome = check["outcome"]
    remarks = tuple(sentence(finding["message"]) for finding in check["findings"]) or (sentence(check["message"]),)
    if outcome == "passed":
        remarks = (_SEPARATELY,) if check["check"] == "source" else ()
    return Promise(promise=promise, outcome=outcome, result=_RESULTS[outcome], remarks=remarks)


def _placement(release: dict[str, Any]) -> Promise:
    if release["randomness"] == "cryptographic":
        return _unchecked(_PLACEMENT, "The manifest says so. The files cannot show it.")
    remark = "The manifest says that the order came from a seed: not for publication."
    return Promise(promise=_PLACEMENT, outcome="failed", result="not kept", remarks=(remark,))
