"""One side of a formula: the columns that it names, and what it gives for rows.

A side is evaluated for rows that differ, each once, and some at a time: neither how many people are alike nor who else
is there may matter. It may to what formulaic itself keeps from everybody, such as the mean in `scale(age)`. Anything
else that looks at the whole column, as `I(age > np.median(age))` does, would give wrong numbers, and is refused.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dalenius.analysis.rubin import require_pandas
from dalenius.errors import MissingExtraError, UsageError
from dalenius.infer.candidates import Floats, Integers

if TYPE_CHECKING:
    import pandas as pd

_BACKTICKS = re.compile("`([^`]+)`")
_MOST_LINES = 2**12  # among which those that are tried are found
_AROUND, _COPIES = 32, 2**11  # lines of a crowd that differ, and how often the one is in it that nearly all are like
_CLOSE = 1e-6


def sides_of(formula: str) -> tuple[str, str]:
    """What is left of the ~, and what is right."""
    left, mark, right = formula.partition("~")
    if not mark or not left.strip() or not right.strip():
        raise UsageError("a formula has an outcome, a ~ and what explains it", "Write 'disease ~ age + C(gender)'.")
    return left.strip(), right.strip()


def quoted(name: str) -> str:
    """A column as formulas have it."""
    return name if name.isidentifier() else f"`{name}`"


def names_in(side: str, columns: Sequence[str]) -> list[str]:
    """What a side of a formula needs: columns, and names that are nothing that formulas know."""
    found: set[str] = set()
    for factor in factors_of(side):
        if factor.eval_method.value == "lookup":
            found.add(str(factor.expr))
        elif factor.eval_method.value == "python":
            found |= _names_of_code(str(factor.expr), columns)
    return sorted(found)


def _names_of_code(code: str, columns: Sequence[str]) -> set[str]:
    """The names in code that are not those of functions; names in backticks can be any."""
    from formulaic.transforms import TRANSFORMS

    odd = {f"_odd_{place}": name for place, name in enumerate(dict.fromkeys(_BACKTICKS.findall(code)))}
    for place, name in odd.items():
        code = code.replace(f"`{name}`", place)
    with plain_errors():
        nodes = list(ast.walk(ast.parse(code.strip(), mode="eval")))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = {odd.get(node.id, node.id) for node in nodes if isinstance(node, ast.Name) and id(node) not in called}
    return {name for name in names if name in columns or name not in {"np", *TRANSFORMS, *dir(builtins)}}


def factors_of(side: str) -> list[Any]:
    """The factors of all terms, such as columns and calls of functions."""
    return [factor for term in _parsed(f"0 + {side}") for factor in term.factors]


def _parsed(side: str) -> Any:
    formulaic = _formulaic()
    with plain_errors():
        formula = formulaic.Formula(side)
    if not isinstance(formula, formulaic.SimpleFormula):
        raise UsageError("the formula has parts that are no sum of terms", "Write one ~, and neither | nor [ ].")
    return formula


def _formulaic() -> Any:
    try:
        import formulaic
    except ImportError:
        raise MissingExtraError.of("formulaic, which reads formulas,", "analysis") from None
    return formulaic


class plain_errors:  # noqa: N801 (it is used as a function is)
    """Errors of a formula as ours, without what they quote from the data."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None or not issubclass(kind, Exception) or issubclass(kind, MissingExtraError):
            return
        said = type(error).__name__
        raise UsageError(
            f"the formula cannot be evaluated ({said})",
            "It is written as for statsmodels or R: 'age + C(gender) + np.log(income)'. Put odd names in backticks.",
        ) from None


class Side:
    """A side whose levels, and what its functions keep, were found on whole columns."""

    def __init__(self, side: str, frame: pd.DataFrame) -> None:
        formula = _parsed(side)
        with plain_errors():
            found = formula.get_model_matrix(frame, context={"np": np}, output="sparse", na_action="ignore")
        self._spec = found.model_spec.update(output="numpy")
        self.names = [str(name) for name in self._spec.column_names]
        self.keeps = bool(self._spec.transform_state)  # something of the columns that it was found on, besides levels

    def of(self, frame: pd.DataFrame) -> Floats:
        """Its columns for some rows."""
        with plain_errors():
            return np.asarray(self._spec.get_model_matrix(frame), dtype=np.float64)

    def require_each_by_itself(self, frame: pd.DataFrame) -> None:
        """Refuse a side that says of a line something else when other lines are there.

        Lines are tried alone, and in crowds of which nearly all are like one of them. So every mean, median, extreme,
        rank and number of rows becomes another.
        """
        frame = frame.iloc[_spread(np.arange(len(frame)), _MOST_LINES)]
        found = self.of(frame)
        close = _CLOSE * np.abs(found).max(axis=0, where=np.isfinite(found), initial=0.0)
        for tried in _trials(frame):
            if not _agree(self.of, frame.iloc[tried].reset_index(drop=True), found[tried], close):
                raise looks_around()


def looks_around() -> UsageError:
    """The error for what looks at the whole column."""
    return UsageError(
        "the formula has something that depends on other people's rows, such as a mean, a median or a rank",
        "Work it out first and write the number: I(income > 31000). On the right side scale(), center(), poly() and "
        "bs() may look at the whole column.",
    )


def _agree(of: Callable[[pd.DataFrame], Floats], frame: pd.DataFrame, before: Floats, close: Floats) -> bool:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a line alone has no standard deviation, for example
        try:
            after = of(frame)
        except UsageError:
            return False
    if after.shape != before.shape:
        return False
    odd = ~np.isfinite(before)
    same = np.where(odd, ~np.isfinite(after), np.abs(np.where(odd, 0.0, after) - np.where(odd, 0.0, before)) <= close)
    return bool(same.all())


def _trials(frame: pd.DataFrame) -> Iterator[Integers]:
    """The first and the last line by every column, alone; and as what nearly all of a crowd are like."""
    for name in frame.columns:
        order = np.argsort(require_pandas().factorize(frame[name], sort=True)[0], kind="stable")
        around = _spread(order, _AROUND)[::-1]
        for one in (order[0], order[-1]):
            yield np.array([one])
            yield np.append(around, np.repeat(one, _COPIES))


def _spread(places: Integers, most: int) -> Integers:
    """So many of them at most, from the first to the last."""
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.int64)]
