"""Verdicts and audits as JSON objects, the same for the command line, the report and Studio."""

from __future__ import annotations

from typing import Any

from dalenius.model.attack import Attack, Audit, Share
from dalenius.model.finding import Verdict

_FORMAT = 1


def verdict_object(verdict: Verdict) -> dict[str, Any]:
    """The verdict as one JSON object. The keys are a contract (docs/json.md)."""
    return {
        "format": _FORMAT,
        "verified": verdict.verified,
        "rows": verdict.rows,
        "buckets": verdict.buckets,
        "checks": [
            {
                "check": check.check,
                "outcome": str(check.outcome),
                "passed": check.passed,
                "count": check.count,
                "message": check.summary,
                "findings": [{"count": found.count, "message": found.message} for found in check.findings],
            }
            for check in verdict.checks
        ],
        "notes": list(verdict.notes),
    }


def audit_object(found: Audit) -> dict[str, Any]:
    """The audit as one JSON object. The keys are a contract (docs/json.md)."""
    return {
        "format": _FORMAT,
        "rows": found.rows,
        "buckets": found.buckets,
        "known_records": found.known_records,
        "fake_values": found.fake_values,
        "sampled": {"rows": found.used, "of": found.rows} if found.sampled else None,
        "broken": list(found.broken),
        "notes": list(found.notes),
        **{attack.name: _attack_object(attack) for attack in found.attacks},
    }


def _attack_object(attack: Attack) -> dict[str, Any]:
    return {
        "people": attack.people,
        **_share_object("success", attack.success),
        **_share_object("baseline", attack.baseline),
        **_share_object("control", attack.control),
        "people_above_limit": attack.people_above_limit,
        "claims": attack.claims,
        "claims_right": attack.claims_right,
        "claims_right_interval": [attack.right.low, attack.right.high] if attack.right is not None else None,
        "mean_limit": attack.mean_limit,
        "details": dict(attack.details),
        "notes": list(attack.notes),
    }


def _share_object(name: str, share: Share | None) -> dict[str, Any]:
    return {
        name: share.share if share is not None else None,
        f"{name}_interval": [share.low, share.high] if share is not None else None,
    }
