"""What a solver answers: a setting, how good it is, and the proof of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Literal

from dalenius.model.setting import BucketSetting, Partition


class Method(StrEnum):
    """The ways to find a bucket setting."""

    OPTIMAL = "optimal"
    TWO_SIZE = "two-size"
    MULTI_SIZE = "multi-size"
    ANATOMY = "anatomy"


class Status(StrEnum):
    """How far the answer is proven, for the problem over all bucket settings in the range of sizes.

    `OPTIMAL`: the loss is within the requested gap of a proven lower bound. `FEASIBLE`: the setting is valid, and
    the gap is larger than requested or unknown. `INFEASIBLE`: the method has no valid setting.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"


@dataclass(frozen=True)
class CertificateRow:
    """One inequality that every valid setting satisfies, with its multiplier.

    Write b(S) for the number of buckets of size S, and
        cap(i, S) = ceil(K * floor(limit_i * max(0, S - known_records)) * S / (S + fake_values)),
    where K >= 1 is the certificate's `units`. Without known records and fake values, and with K = 1, that is
    floor(limit_i * S).
    With `sizes` empty the row is the privacy constraint of the one value in `values`:
        sum over S of cap(i, S) b(S)  >=  K count_i.
    Otherwise it is Gale's condition for the sizes in `sizes` (closed ranges) and the values in `values`:
        sum over S in `sizes` of (sum over i not in `values` of cap(i, S)  -  K S) b(S)
            >=  - sum over i in `values` of K count_i.
    """

    multiplier: Fraction
    values: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...] = ()


Proof = Literal["loss", "no-setting"]


@dataclass(frozen=True)
class Certificate:
    """A proof that anybody can check with exact arithmetic: a lower bound on the loss, or that no setting exists.

    The multipliers y are not negative, so each valid setting b loses at least
        sum of y_r * rhs_r  +  n * min over S of ((S - 1)^2 - sum of y_r * a_r(S)) / S,
    where a_r(S) and rhs_r are the coefficients and the right-hand side of row r. `bound` is that number.

    If `proves` is "no-setting", `bound` is the same formula without the (S - 1)^2: it is above 0, which no valid
    setting could be, so there is none.

    A setting is valid if its buckets can be filled so that at most a share limit_i of the records that are not known
    have value i, fake values included, each size's fakes in proportion to its records. The rows hold for every such
    setting whatever K = `units` is.
    """

    bound: Fraction
    rows: tuple[CertificateRow, ...]
    proves: Proof = "loss"
    units: int = 1


@dataclass(frozen=True)
class Solution:
    """The answer of one method to one problem.

    `partition` has the quotas of records alone: fake values are drawn for one release (`solve.fakes.with_fakes`).
    """

    method: Method
    status: Status
    min_size: int
    max_size: int
    setting: BucketSetting | None
    partition: Partition | None
    bound: int | None = None
    seconds: float = 0.0
    certificate: Certificate | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def loss(self) -> int | None:
        """The loss of the setting."""
        return None if self.setting is None else self.setting.loss

    @property
    def mse(self) -> float | None:
        """The mean squared error of the setting."""
        return None if self.setting is None else float(self.setting.mse)

    @property
    def gap(self) -> float | None:
        """(loss - bound) / loss: the largest share of the loss that any other setting could still save."""
        if self.loss is None or self.bound is None:
            return None
        return 0.0 if self.loss == 0 else (self.loss - self.bound) / self.loss
