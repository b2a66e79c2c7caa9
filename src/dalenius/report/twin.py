"""The report as one JSON object: its twin. The page is made from this object alone, so that both say the same."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

from dalenius.attack.audit import audit_object
from dalenius.model import VERSION
from dalenius.model.attack_result import Audit
from dalenius.model.concern import Concern, advise, by_weight
from dalenius.model.exposure import TypicalError
from dalenius.query.workload import workload_object
from dalenius.release.manifest import FILE, Cut, GroupEntry, Leaf, Manifest, Strata, Value
from dalenius.release.release_views import all_tables
from dalenius.release.strata_entries import MOST_SURPLUS
from dalenius.report.facts import Facts
from dalenius.report.statements import NOT_MEASURED, own_concerns
from dalenius.verify.findings import verdict_object
from dalenius.verify.stated_people import about

FORMAT = 2
_ONCE = frozenset({"exposure", "verdict", "findings"})  # of the whole report; those of its parts would contradict them


def report_object(facts: Facts) -> dict[str, Any]:
    """The twin. The keys are a contract (docs/json.md). It has no path, and no value of a quasi-identifier."""
    facts_object = {
        "release": _release_object(facts.manifest, facts.manifest_sha256) if facts.manifest is not None else None,
        "other_files": facts.other_files,
        "verify": {key: value for key, value in verdict_object(facts.verdict).items() if key not in _ONCE},
        "audit": _audit_object(facts.audit) if facts.audit is not None else None,
        "audit_note": facts.audit_note,
        "workload": _workload_object(facts),
        "workload_note": facts.workload_note,
        "earlier": _earlier_objects(facts),
    }
    concerns = _concerns(facts, own_concerns(facts_object))
    error = TypicalError.of(facts.verdict.exposure) if facts.verdict.exposure is not None else None
    return {
        "format": FORMAT,
        "program": {"name": "dalenius", "version": VERSION},
        **facts.head.model_dump(),
        "made_on": facts.made_on.isoformat(),
        "verdict": str(advise(concerns)),
        "findings": [concern.as_object() for concern in concerns],
        "exposure": _exposure_object(facts),
        "count_error": error.as_object() if error is not None else None,
        "from_raw_table": facts.from_raw_table,
        "with_control": facts.with_control,
        "holds": facts.holds,
        **facts_object,
    }


def _concerns(facts: Facts, own: list[Concern]) -> tuple[Concern, ...]:
    """All of them, once each: from the attacks, from verifying, and from what else the report looks at.

    Of two that say the same, the heavier is kept, or that of the attacks, which knows more to do.
    """
    attacks = [one for one in facts.audit.concerns if one.code != NOT_MEASURED] if facts.audit is not None else []
    found: dict[str, Concern] = {}
    for one in by_weight((*attacks, *facts.verdict.concerns, *own)):
        found.setdefault(one.message, one)
    return tuple(found.values())


def twin_text(twin: dict[str, Any]) -> str:
    """The text of the twin's file, whose SHA-256 the page states."""
    return json.dumps(twin, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _release_object(manifest: Manifest, digest: str | None) -> dict[str, Any]:
    known = manifest.adversary.known_records
    tables = [table.model_dump(mode="json") for table in all_tables(manifest)]
    return {
        "format": manifest.made_in,
        "program": {"name": manifest.program.name, "version": manifest.program.version},
        "randomness": manifest.randomness,
        "files": [{"file": FILE, "sha256": digest}, *tables],
        "columns": manifest.columns.model_dump(mode="json"),
        "null_value": manifest.null_value,
        "rows": manifest.rows,
        "people": manifest.people,
        "by_people": not manifest.is_plain,
        "persons": _persons_object(manifest),
        "buckets": manifest.buckets,
        "known_records": known,
        "fake_values": manifest.adversary.fake_values,
        "chain": _chain_object(manifest),
        "setting": _setting_object(manifest),
        "loss": manifest.loss,
        "mse": _finite(manifest.mse),
        "method": str(manifest.method),
        "status": str(manifest.status),
        "bound": manifest.bound,
        "gap": _finite(manifest.gap),
        "strata": _strata_object(manifest.strata) if manifest.strata is not None and _is_cut(manifest) else None,
        "groups": _groups_object(manifest),
        "values": _nearest_first(manifest),
        "not_applicable": [{"value": one.value, "count": one.count} for one in _set_apart(manifest)],
        "others": [_column_object(manifest.view(number)) for number in range(1, manifest.sets)],
        "together": [one.columns for one in manifest.together],
    }


def _chain_object(manifest: Manifest) -> dict[str, Any] | None:
    """Where the release is one of a chain: how many places of its buckets are nobody's, and if that is too many."""
    chain, places = manifest.chain, manifest.rows + manifest.surplus
    if chain is None:
        return None
    return {
        **chain.model_dump(mode="json"),
        "places": places,
        "surplus_share": chain.surplus / places,
        "advises_new_chain": Fraction(chain.surplus, places) > MOST_SURPLUS,
    }


def _earlier_objects(facts: Facts) -> list[dict[str, Any]]:
    """Earlier releases, and whether the hashes of manifests lead from this one back to each."""
    known = {one.sha256: one.manifest.chain for one in facts.earlier}
    chain, preceding = facts.manifest.chain if facts.manifest is not None else None, list[str]()
    while chain is not None and chain.previous in known and chain.previous not in preceding:
        number, chain = chain.release, known[chain.previous]
        if chain is None or chain.release != number - 1:
            break
        preceding.append(next(digest for digest, own in known.items() if own is chain))
    return [
        {
            "release": one.manifest.chain.release if one.manifest.chain is not None else None,
            "rows": one.manifest.rows,
            "buckets": one.manifest.buckets,
            "sha256": one.sha256,
            "precedes": one.sha256 in preceding,
        }
        for one in facts.earlier
    ]


def _column_object(view: Manifest) -> dict[str, Any]:
    """A sensitive column beside the first."""
    return {
        "column": view.columns.sensitive.model_dump(mode="json"),
        "null_value": view.null_value,
        "groups": _groups_object(view),
        "values": _nearest_first(view),
    }


def _persons_object(manifest: Manifest) -> dict[str, Any] | None:
    """How many people have how many rows, and what was left out; None if everybody has one row."""
    if manifest.persons is None:
        return None
    people = Counter[int]()
    for stratum in manifest.strata.strata if manifest.strata is not None else ():
        people[stratum.rows_each] += sum(group.size * group.buckets for group in stratum.setting)
    return {
        **manifest.persons.model_dump(mode="json"),
        "rows_each": [{"rows": rows, "people": people[rows]} for rows in sorted(people)],
    }


def _setting_object(manifest: Manifest) -> list[dict[str, int]]:
    """Buckets, people and records by size. With several rows a person, the strata say how many each has."""
    records = Counter({group.size: group.size * group.buckets for group in manifest.setting})  # places, in a chain
    if manifest.persons is not None and manifest.strata is not None:
        records = Counter()
        for stratum in manifest.strata.strata:
            for group in stratum.setting:
                records[group.size] += group.size * group.buckets * stratum.rows_each
    return [
        {
            "size": group.size,
            "buckets": group.buckets,
            "people": group.size * group.buckets,
            "records": records[group.size],
        }
        for group in manifest.setting
    ]


def _nearest_first(manifest: Manifest) -> list[dict[str, Any]]:
    return sorted(_values_object(manifest), key=_nearness, reverse=True)


def _exposure_object(facts: Facts) -> dict[str, Any] | None:
    """How exposed people are, and by value, with the sensitive column of each."""
    exposure, manifest = facts.verdict.exposure, facts.manifest
    if exposure is None:
        return None
    listed = exposure.as_object()
    names: list[tuple[str | None, str]] = [(None, value["value"]) for value in listed["values"]]
    if manifest is not None:
        stated = [
            (view.columns.sensitive.name, value.value, about(manifest, number) + value.value)
            for number, view in enumerate(map(manifest.view, range(manifest.sets)))
            for value in view.values
            if value.applies
        ]
        if [name for _, _, name in stated] == [name for _, name in names]:  # else the release is not what it says
            names = [(column, value) for column, value, _ in stated]
    values = [
        {**entry, "column": column, "value": value}
        for entry, (column, value) in zip(listed["values"], names, strict=True)
    ]
    return {**listed, "values": values}


def _values_object(manifest: Manifest) -> list[dict[str, Any]]:
    """Every value that applies with its worst case, and the smallest limit of the groups that hold it."""
    known, tightest = manifest.adversary.known_records, list[Fraction | None]()
    for place, group in enumerate(manifest.groups or ()):
        limits = [Fraction(group.limit)] if group.limit is not None else []
        if group.parent is not None and group.parent < place and (above := tightest[group.parent]) is not None:
            limits.append(above)
        tightest.append(min(limits, default=None))
    found, apart = [], _set_apart(manifest)
    for value in manifest.values:
        if value in apart:
            continue
        limit = tightest[value.group] if value.group is not None and value.group < len(tightest) else None
        named = {"value": value.value, "count": value.count, "limit": value.limit, "group": value.group}
        found.append({**named, "group_limit": None if limit is None else str(limit), **_worst_object(value, known)})
    return found


def _set_apart(manifest: Manifest) -> list[Value]:
    """The values that do not apply; of a manifest without any that does, which is broken, none."""
    apart = [value for value in manifest.values if not value.applies]
    return apart if len(apart) < len(manifest.values) else []


def _worst_object(entry: Value | GroupEntry, known: int) -> dict[str, Any]:
    """The worst case as an exact probability, and the share of the limit that it uses, if there is a limit.

    The manifest of a broken release may state an impossible case; then both are None.
    """
    left = entry.worst.size - known
    probability = Fraction(entry.worst.count, left) if left > 0 else None
    limit = Fraction(entry.limit) if entry.limit is not None else None
    return {
        "worst": {"count": entry.worst.count, "size": entry.worst.size},
        "probability": str(probability) if probability is not None else None,
        "share_of_limit": _float(probability / limit) if probability is not None and limit is not None else None,
    }


def _groups_object(manifest: Manifest) -> list[dict[str, Any]]:
    """The groups of values in the order of the manifest, each followed by those within it."""
    known = manifest.adversary.known_records
    groups = manifest.groups or []
    values = Counter(value.group for value in manifest.values)
    for place in range(len(groups) - 1, -1, -1):  # a group comes after the one that it is part of
        if (parent := groups[place].parent) is not None and parent < place:
            values[parent] += values[place]
    return [
        {
            "name": group.name,
            "level": group.level,
            "parent": group.parent,
            "limit": group.limit,
            "count": group.count,
            "values": values[place],
            **_worst_object(group, known),
        }
        for place, group in enumerate(groups)
    ]


def _nearness(value: dict[str, Any]) -> float:
    share = value["share_of_limit"]
    return math.inf if share is None else float(share)


def _is_cut(manifest: Manifest) -> bool:
    """Whether there is more than one stratum beside that of people who are set apart."""
    if manifest.persons is not None:  # there are always strata then
        return manifest.strata is not None and len(manifest.strata.tree) > 1
    return manifest.strata is not None and (manifest.apart is None or len(manifest.strata.strata) > 2)


def _strata_object(strata: Strata) -> dict[str, Any]:
    """How many strata there are and which columns cut them; the manifest has the cuts themselves."""
    leaves = Counter(node.stratum for node in strata.tree if isinstance(node, Leaf))
    rows = [stratum.rows for stratum in strata.strata if stratum.applies]
    people = [sum(group.size * group.buckets for group in stratum.setting) for stratum in strata.strata]
    cuts = dict.fromkeys(node.column for node in strata.tree if isinstance(node, Cut))
    merged = [number for number, of in leaves.items() if of > 1 and number <= len(rows)]
    return {
        "number": len(rows),
        "leaves": leaves.total(),
        "columns": [name for name in cuts if name is not None],
        "by_number_of_rows": None in cuts,
        "merged": sum(1 for number in leaves.values() if number > 1),
        "merged_records": sum(rows[number - 1] for number in merged),
        "merged_people": sum(people[number - 1] for number in merged),
        "smallest_people": min(people[: len(rows)]),
        "largest_people": max(people[: len(rows)]),
        "smallest": min(rows),
        "largest": max(rows),
    }


def _audit_object(audit: Audit) -> dict[str, Any]:
    """As in `audit --json`, without the quasi-identifiers that hardly ever occur with some value.

    Its verdict and findings are among those of the report.
    """
    result = {key: value for key, value in audit_object(audit).items() if key not in _ONCE}
    result["approximate"] = audit.approximate
    result["other_columns"] = [dict(other) for other in result["other_columns"]]
    for part in (result, *result["other_columns"]):
        if "negative" in part:
            attack = part["negative"]
            details = {key: value for key, value in attack["details"].items() if key != "strongest"}
            part["negative"] = {**attack, "details": details}
    return result


def _workload_object(facts: Facts) -> dict[str, Any] | None:
    workload = facts.workload
    if workload is None:
        return None
    return workload_object(workload.result, workload.selectivity, workload.seed, workload.seconds, learn=True)


def _float(number: Fraction) -> float | None:
    """None beyond the range of floating point."""
    try:
        return float(number)
    except OverflowError:
        return None


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None
