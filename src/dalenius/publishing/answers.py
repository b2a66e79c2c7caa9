"""What can be asked of a release: counts, means, sums and quantiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dalenius.errors import MissingExtraError, UsageError
from dalenius.release.folder import ReleaseFolder
from dalenius.release.store import LocalStore

if TYPE_CHECKING:
    import pandas as pd

    from dalenius.model.estimate import Estimate, Figure, GroupEstimate, GroupFigure, Unit
    from dalenius.query.calibration import Calibration

Result = TypeVar("Result")
Group = TypeVar("Group", "GroupEstimate", "GroupFigure")
Names = str | Sequence[str]


class Groups(list[Group]):
    """One answer for each group."""

    def to_pandas(self) -> pd.DataFrame:
        """A tidy DataFrame: a line for each group, with its values, the estimate, its interval and its bounds."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError.of("pandas", "analysis") from None
        return pd.DataFrame([one.as_row() for one in self])


class Answers:
    """A release that answers questions."""

    def __init__(self, folder: ReleaseFolder) -> None:
        self._folder = folder
        self._calibration: Calibration | dict[int, Calibration] | None = None  # kept, once it was measured

    @overload
    def count(
        self,
        expression: str,
        *,
        learn: bool = True,
        measure: bool = True,
        count: Unit = "people",
        timeout: float | None = None,
    ) -> Estimate: ...

    @overload
    def count(
        self,
        expression: str,
        group_by: str | Sequence[str],
        *,
        learn: bool = True,
        measure: bool = True,
        count: Unit = "people",
        timeout: float | None = None,
    ) -> Groups[GroupEstimate]: ...

    def count(
        self,
        expression: str,
        group_by: str | Sequence[str] = (),
        *,
        learn: bool = True,
        measure: bool = True,
        count: Unit = "people",
        timeout: float | None = None,
    ) -> Estimate | Groups[GroupEstimate]:
        """How many people, or rows, satisfy an SQL expression: an estimate with certain bounds and an interval.

        It is learned from all buckets together where that is possible, unless `learn` is False; what single buckets
        give is beside it in `at_random`. `measure` is how often intervals hold: on simulated truths, once for this
        object, in some seconds. Without it `coverage` is None, and learned intervals are not widened. With a `timeout`
        in seconds, a process of its own counts; if it takes longer than that, a `TimeLimitError` is raised.
        """
        from dalenius.query.count import count_once

        columns = [group_by] if isinstance(group_by, str) else list(group_by)
        question = self._folder, expression, columns, learn, measure, self._calibration, count
        answer, self._calibration = self._run(timeout, count_once, *question)
        return Groups(answer) if isinstance(answer, list) else answer

    @overload
    def mean(self, expression: str = "TRUE", *, learn: bool = True, timeout: float | None = None) -> Figure: ...

    @overload
    def mean(
        self, expression: str, group_by: Names, *, learn: bool = True, timeout: float | None = None
    ) -> Groups[GroupFigure]: ...

    def mean(
        self, expression: str = "TRUE", group_by: Names = (), *, learn: bool = True, timeout: float | None = None
    ) -> Figure | Groups[GroupFigure]:
        """The mean of the sensitive numbers of the records that satisfy an SQL expression, with certain bounds.

        Estimate and interval are learned if the numbers are in bands, unless `learn` is False. A condition that ties
        quasi-identifiers to the sensitive column is refused, and so is one that nobody meets. With `group_by`, some
        quasi-identifiers, there is a figure for every group that has numbers. `timeout` is as for `count`.
        """
        return self._figure({"mean": True}, expression, group_by, learn, timeout)

    @overload
    def sum(self, expression: str = "TRUE", *, learn: bool = True, timeout: float | None = None) -> Figure: ...

    @overload
    def sum(
        self, expression: str, group_by: Names, *, learn: bool = True, timeout: float | None = None
    ) -> Groups[GroupFigure]: ...

    def sum(
        self, expression: str = "TRUE", group_by: Names = (), *, learn: bool = True, timeout: float | None = None
    ) -> Figure | Groups[GroupFigure]:
        """Their sum. The bounds of whole numbers and decimals are exact."""
        return self._figure({"sum": True}, expression, group_by, learn, timeout)

    @overload
    def quantile(
        self, level: float, expression: str = "TRUE", *, learn: bool = True, timeout: float | None = None
    ) -> Figure: ...

    @overload
    def quantile(
        self, level: float, expression: str, group_by: Names, *, learn: bool = True, timeout: float | None = None
    ) -> Groups[GroupFigure]: ...

    def quantile(
        self,
        level: float,
        expression: str = "TRUE",
        group_by: Names = (),
        *,
        learn: bool = True,
        timeout: float | None = None,
    ) -> Figure | Groups[GroupFigure]:
        """A quantile of them, by its level from 0 to 1: the smallest number x such that this share of them is <= x."""
        return self._figure({"quantiles": (float(level),)}, expression, group_by, learn, timeout)

    def _figure(
        self, asked: dict[str, Any], expression: str, group_by: Names, learn: bool, timeout: float | None
    ) -> Figure | Groups[GroupFigure]:
        from dalenius.model.estimate import Asked, GroupFigure
        from dalenius.query.figures import figures_once

        columns = [group_by] if isinstance(group_by, str) else list(group_by)
        answers = self._run(timeout, figures_once, self._folder, expression, Asked(**asked), columns, learn)
        found = [GroupFigure(a.group, next(f for f in (a.mean, a.sum, *a.quantiles.values()) if f)) for a in answers]
        return Groups(found) if columns else found[0].figure

    def _run(self, timeout: float | None, function: Callable[..., Result], *arguments: Any) -> Result:
        """What a function of a module returns: here or, with a timeout, in a process of its own."""
        if timeout is None:
            return function(*arguments)
        if not isinstance(self._folder.store, LocalStore):
            raise UsageError("timeout is for releases on this machine", "Leave it out.")
        from dalenius.tables.killable import Allowance, in_new_process

        return in_new_process(function, *arguments, allowance=Allowance.of(timeout, None))
