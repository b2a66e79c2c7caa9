"""What limits cost, as far as it is known so soon: the answer to one move of a slider.

An exploration as the JSON object that Studio's pages read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from dalenius.model.problem import BucketSetting, SizeGroup

ExplorationStatus = Literal["optimal", "feasible", "infeasible", "undecided"]


@dataclass(frozen=True)
class ExploredGroup:
    """A size group, and the values that no smaller bucket of the setting may hold: a few names, and how many."""

    group: SizeGroup
    needed_by: tuple[str, ...]
    needed_by_number: int


@dataclass(frozen=True)
class Peer:
    """What another method finds under the same limits. `note` says why it has no private setting.

    An infeasible setting is only good for comparing losses.
    """

    status: ExplorationStatus
    setting: BucketSetting | None
    note: str | None = None


@dataclass(frozen=True)
class Unprotected:
    """The loss without known records and fake values."""

    loss: int
    mse: float


@dataclass(frozen=True)
class Forcing:
    """The value whose limit costs most, and the buckets that it needs: of this `size`, with a share of the loss.

    `saves` is the share of the loss that is saved if its limit is raised to `relaxed_limit`; None if it is not known.
    """

    value: str
    size: int
    share_of_loss: float
    relaxed_limit: Fraction
    saves: float | None = None


@dataclass(frozen=True)
class QueryErrors:
    """Relative standard errors of counting one value among a random `share` of the records, value by value."""

    share: float
    by_value: tuple[float, ...]
    median: float
    worst: float
    worst_value: str


@dataclass(frozen=True)
class Offer:
    """Changes that make the limits feasible: limits of single values, as people write them, and solver's options."""

    text: str
    values: Mapping[str, str] = field(default_factory=dict)
    solve: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Obstacle:
    """Why there is no setting, which values are to blame, and what would do."""

    kind: str
    message: str
    hint: str | None = None
    values: tuple[str, ...] = ()
    offer: Offer | None = None


@dataclass(frozen=True)
class Exploration:
    """Everything that is shown for one set of limits.

    `values`, `counts`, `limits`, `smallest` and `worst` are parallel: most records first, then by value. A limit is
    None if no rule covers its value; `smallest` is the smallest limit that could be kept, where the limit is below it;
    `worst` is the largest share of the value in a bucket of the setting, of the records that nobody knows.

    `exact` says that the setting is the one that `dalenius plan` finds. `peers` has None for a method that was not
    asked yet.
    """

    exact: bool
    status: ExplorationStatus
    values: tuple[str, ...]
    counts: tuple[int, ...]
    limits: tuple[Fraction | None, ...]
    eligible: tuple[bool, ...]
    smallest: tuple[Fraction | None, ...]
    worst: tuple[float | None, ...]
    groups: tuple[ExploredGroup, ...] | None = None
    bound: int | None = None
    peers: Mapping[str, Peer | None] = field(default_factory=dict)
    unprotected: Unprotected | None = None
    forcing: Forcing | None = None
    query_errors: QueryErrors | None = None
    obstacle: Obstacle | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def setting(self) -> BucketSetting | None:
        """The bucket setting, if there is one."""
        return None if self.groups is None else BucketSetting(tuple(explored.group for explored in self.groups))


def exploration_object(found: Exploration) -> dict[str, Any]:
    """All of it, with numbers that JSON has: limits both as floating point and exactly."""
    setting = found.setting
    loss = None if setting is None else setting.loss
    peers = {name: None if peer is None else _peer(peer) for name, peer in found.peers.items()}
    return {
        "exact": found.exact,
        "status": found.status,
        "n": sum(found.counts),
        "m": len(found.values),
        "values": list(found.values),
        "counts": list(found.counts),
        "limits": [None if limit is None else limit.numerator / limit.denominator for limit in found.limits],
        "exact_limits": [None if limit is None else str(limit) for limit in found.limits],
        "eligible": list(found.eligible),
        "smallest": [None if limit is None else str(limit) for limit in found.smallest],
        "worst": list(found.worst),
        "setting": None if found.groups is None else [_group(group) for group in found.groups],
        "loss": loss,
        "mse": None if setting is None else float(setting.mse),
        "bound": found.bound,
        "gap": _gap(loss, found.bound),
        "peers": peers,
        "gain": {name: _gain(peer, setting) for name, peer in found.peers.items()},
        "price": _price(found, loss),
        "forcing": None if found.forcing is None else _forcing(found.forcing),
        "query_error": None if found.query_errors is None else _query_errors(found.query_errors),
        "problem": None if found.obstacle is None else _obstacle(found.obstacle),
        "notes": list(found.notes),
        "seconds": round(found.seconds, 6),
    }


def _group(explored: ExploredGroup) -> dict[str, Any]:
    group = explored.group
    return {
        "size": group.size,
        "buckets": group.buckets,
        "records": group.records,
        "loss": group.loss,
        "needed_by": list(explored.needed_by),
        "needed_by_number": explored.needed_by_number,
    }


def _gap(loss: int | None, bound: int | None) -> float | None:
    if loss is None or bound is None:
        return None
    return (loss - bound) / loss if loss else 0.0


def _peer(peer: Peer) -> dict[str, Any]:
    setting = peer.setting
    groups = None if setting is None else [{"size": g.size, "buckets": g.buckets} for g in setting.groups]
    return {
        "status": peer.status,
        "loss": None if setting is None else setting.loss,
        "mse": None if setting is None else float(setting.mse),
        "setting": groups,
        "note": peer.note,
    }


def _gain(peer: Peer | None, ours: BucketSetting | None) -> float | None:
    """How many times our loss the peer's is; None where one of the two is not known, or ours is 0."""
    if peer is None or peer.setting is None or ours is None or not ours.loss:
        return None
    return peer.setting.loss / ours.loss


def _price(found: Exploration, loss: int | None) -> dict[str, Any] | None:
    without = found.unprotected
    if without is None or loss is None:
        return None
    return {"loss": without.loss, "mse": without.mse, "ratio": loss / without.loss if without.loss else None}


def _forcing(forcing: Forcing) -> dict[str, Any]:
    return {
        "value": forcing.value,
        "size": forcing.size,
        "share_of_loss": forcing.share_of_loss,
        "relaxed_limit": str(forcing.relaxed_limit),
        "saves": forcing.saves,
    }


def _query_errors(errors: QueryErrors) -> dict[str, Any]:
    return {
        "share": errors.share,
        "median": errors.median,
        "worst": errors.worst,
        "worst_value": errors.worst_value,
        "by_value": list(errors.by_value),
    }


def _obstacle(obstacle: Obstacle) -> dict[str, Any]:
    offer = obstacle.offer
    return {
        "kind": obstacle.kind,
        "message": obstacle.message,
        "hint": obstacle.hint,
        "values": list(obstacle.values),
        "offer": None
        if offer is None
        else {
            "text": offer.text,
            "values": dict(offer.values),
            "solve": None if offer.solve is None else dict(offer.solve),
        },
    }
