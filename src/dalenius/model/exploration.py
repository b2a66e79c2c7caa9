"""What limits cost, as far as it is known so soon: the answer to one move of a slider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from dalenius.model.setting import BucketSetting, SizeGroup

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
