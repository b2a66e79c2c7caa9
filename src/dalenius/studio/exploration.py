"""An exploration: what a set of limits costs, and the JSON object that Studio's pages read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dalenius.model.exposure import Exposure, GroupShare, TypicalError, exposure_sentence
from dalenius.model.groups import Groups
from dalenius.model.problem import BucketSetting, SizeGroup
from dalenius.policy.limits import LimitPolicy

if TYPE_CHECKING:  # importing publishing takes time, which exact answers do not have
    from dalenius.publishing.arrangement import StrataPrice

ExplorationStatus = Literal["optimal", "feasible", "infeasible", "undecided"]


@dataclass(frozen=True)
class ExploredGroup:
    """A size group, with the values that no smaller bucket of the setting may hold: a few names, and how many."""

    group: SizeGroup
    needed_by: tuple[str, ...]
    needed_by_number: int


@dataclass(frozen=True)
class Peer:
    """The result of another method under the same limits. `note` says why it has no private setting.

    An infeasible setting serves only to compare losses.
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
    """The value, or group, whose limit costs most, and the buckets that it needs: their size and share of the loss.

    `saves` is the share of the loss that is saved if its limit is raised to `relaxed_limit`; None if it is not known.
    """

    value: str
    size: int
    share_of_loss: float
    relaxed_limit: Fraction
    saves: float | None = None
    is_group: bool = False


@dataclass(frozen=True)
class Curve:
    """The rule by odds with any number: this policy with other odds. It has no limits by name."""

    policy: LimitPolicy


@dataclass(frozen=True)
class TradeOffPoint:
    """What the rule by odds shows of people, and what it costs in counts, for one number; the table as one.

    `exposure` is the mean exposure of a person, and `error` how far off a count typically is.
    """

    odds: str
    exposure: float
    error: float

    def as_object(self) -> dict[str, Any]:
        """As POST /api/trade-off has it."""
        return {"odds": self.odds, "exposure": self.exposure, "error": self.error}


@dataclass(frozen=True)
class Offer:
    """Changes that make the limits feasible: limits by name, as people write them, and solver options.

    Or that make groups fit the values: those that are in no group, and whether groups may have no values.
    """

    text: str
    values: Mapping[str, str] = field(default_factory=dict)
    solve: Mapping[str, int] | None = None
    groups: Mapping[str, str] = field(default_factory=dict)
    ungrouped: tuple[str, ...] = ()
    allow_absent: bool = False


@dataclass(frozen=True)
class Obstacle:
    """Why there is no setting, which values are the cause, and what would help."""

    kind: str
    message: str
    hint: str | None = None
    values: tuple[str, ...] = ()
    offer: Offer | None = None


@dataclass(frozen=True)
class ExploredTree:
    """The groups of the values, with their limits; all lists have a place for each group.

    `of_value` has the lowest group of each value, in the order of the page. `records` are those of the table. `shares`
    is the largest share of a bucket of the setting, if there is one. `smallest` is as in an exploration.
    """

    groups: Groups
    level_names: tuple[str, ...]
    of_value: tuple[int, ...]
    records: tuple[int, ...]
    smallest: tuple[Fraction | None, ...]
    eligible: tuple[bool, ...]
    shares: Mapping[str, GroupShare] = field(default_factory=dict)


@dataclass(frozen=True)
class Exploration:
    """Everything to show for one set of limits.

    `values`, `counts`, `limits`, `smallest` and `worst` are parallel: most records first, then by value. A limit is
    None if no rule covers its value. `smallest` is the smallest limit that can be kept, where the limit is below it.
    `worst` is the largest share of the value in a bucket of the setting, of the records that nobody knows. `exposure`
    and `count_error` are those of the table as one; the values of `exposure` are in the same order.

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
    exposure: Exposure | None = None
    count_error: TypicalError | None = None
    obstacle: Obstacle | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    tree: ExploredTree | None = None

    @property
    def setting(self) -> BucketSetting | None:
        """The bucket setting, if there is one."""
        return None if self.groups is None else BucketSetting(tuple(explored.group for explored in self.groups))


def exploration_object(exploration: Exploration) -> dict[str, Any]:
    """The whole exploration in JSON's terms, with limits both as floating point and exactly."""
    limits = exploration.limits
    return {
        "exact": exploration.exact,
        "status": exploration.status,
        "n": sum(exploration.counts),
        "m": len(exploration.values),
        "values": list(exploration.values),
        "counts": list(exploration.counts),
        "limits": [None if limit is None else limit.numerator / limit.denominator for limit in limits],
        "exact_limits": _texts(limits),
        "eligible": list(exploration.eligible),
        "smallest": _texts(exploration.smallest),
        "worst": list(exploration.worst),
        "groups": None if exploration.tree is None else _tree(exploration.tree),
        **_cost(exploration),
        **_comparison(exploration),
        "forcing": None if exploration.forcing is None else _forcing(exploration.forcing),
        "exposure": None if exploration.exposure is None else exposure_object(exploration.exposure),
        "count_error": None if exploration.count_error is None else exploration.count_error.as_object(),
        "problem": None if exploration.obstacle is None else _obstacle(exploration.obstacle),
        "notes": list(exploration.notes),
        "seconds": round(exploration.seconds, 6),
    }


def _texts(limits: tuple[Fraction | None, ...]) -> list[str | None]:
    return [None if limit is None else str(limit) for limit in limits]


def _tree(tree: ExploredTree) -> dict[str, Any]:
    groups = tree.groups.groups
    shares = [tree.shares.get(group.name) for group in groups]
    limits = tuple(group.limit for group in groups)
    return {
        "names": [group.name for group in groups],
        "levels": [group.level for group in groups],
        "parents": [group.parent for group in groups],
        "level_names": list(tree.level_names),
        "of_value": list(tree.of_value),
        "records": list(tree.records),
        "limits": [None if limit is None else float(limit) for limit in limits],
        "exact_limits": _texts(limits),
        "eligible": list(tree.eligible),
        "smallest": _texts(tree.smallest),
        "worst": [None if share is None else float(share.share) for share in shares],
    }


def _cost(exploration: Exploration) -> dict[str, Any]:
    """The setting, its loss, and how good that is proven to be."""
    setting, groups, bound = exploration.setting, exploration.groups, exploration.bound
    loss = None if setting is None else setting.loss
    return {
        "setting": None if groups is None else [_group(group) for group in groups],
        "loss": loss,
        "mse": None if setting is None else float(setting.mse),
        "bound": bound,
        "gap": _gap(loss, bound),
    }


def _comparison(exploration: Exploration) -> dict[str, Any]:
    """Other methods, and the price of protection."""
    setting, peers = exploration.setting, exploration.peers
    return {
        "peers": {name: None if peer is None else _peer(peer) for name, peer in peers.items()},
        "gain": {name: _gain(peer, setting) for name, peer in peers.items()},
        "price": _price(exploration.unprotected, setting),
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
    """The peer's loss as a multiple of ours; None if one of them is not known, or ours is 0."""
    if peer is None or peer.setting is None or ours is None or not ours.loss:
        return None
    return peer.setting.loss / ours.loss


def _price(without: Unprotected | None, setting: BucketSetting | None) -> dict[str, Any] | None:
    if without is None or setting is None:
        return None
    return {"loss": without.loss, "mse": without.mse, "ratio": setting.loss / without.loss if without.loss else None}


def _forcing(forcing: Forcing) -> dict[str, Any]:
    return {
        "value": forcing.value,
        "size": forcing.size,
        "share_of_loss": forcing.share_of_loss,
        "relaxed_limit": str(forcing.relaxed_limit),
        "saves": forcing.saves,
        "is_group": forcing.is_group,
    }


def price_object(price: StrataPrice) -> dict[str, Any]:
    """The price of strata, with the exposure as an exploration has it, and the largest share of each group by name."""
    shares = {share.name: float(share.share) for share in price.group_shares}
    return {**price.as_object(), "exposure": exposure_object(price.exposure), "groups": shares}


def exposure_object(exposure: Exposure) -> dict[str, Any]:
    """How exposed people are, all together and value by value. It is brief, since it goes out while a slider moves."""
    return {
        "people": exposure.people,
        "outright": exposure.outright,
        "mean": exposure.mean,
        "highest": float(exposure.highest),
        "bands": list(exposure.bands),
        "sentence": exposure_sentence(exposure),
        "by_value": {
            "outright": [value.outright for value in exposure.values],
            "mean": [round(value.mean, 6) for value in exposure.values],
            "highest": [round(float(value.highest), 6) for value in exposure.values],
        },
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
            "groups": dict(offer.groups),
            "ungrouped": list(offer.ungrouped),
            "allow_absent": offer.allow_absent,
            "solve": None if offer.solve is None else dict(offer.solve),
        },
    }
