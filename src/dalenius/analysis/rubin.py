"""Rubin's rules: one answer out of what was found in each of several completed tables.

With estimates q_l and their covariances U_l in m tables, the mean of estimates q, the mean U of U_l and the variance B
of the q_l between tables,

    T = U + (1 + 1/m) B

is the covariance of q (Rubin 1987). Let γ = (1 + 1/m) B / T for one coefficient. It has the t distribution with ν
degrees of freedom (Barnard and Rubin 1999),

    1 / ν = 1 / ν_m + 1 / ν_obs,     ν_m = (m - 1) / γ²,     ν_obs = (ν_c + 1) / (ν_c + 3) ν_c (1 - γ),

where ν_c are those of a whole table. Where the target is the table that was published, and not whatever it is a sample
of, U = 0 and ν = m - 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dalenius.errors import MissingExtraError, UsageError
from dalenius.infer.candidates import Floats

if TYPE_CHECKING:
    import pandas as pd

Target = Literal["population", "table"]  # what is estimated: whatever the people are a sample of, or the table of them
_ENDLESS = 1e9  # degrees of freedom, as good as infinitely many


def require_pandas() -> Any:
    """pandas, or an error that says how to install it."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError.of("pandas", "analysis") from None
    return pd


def statistics() -> Any:
    """The distributions of scipy, or an error that says how to install it."""
    try:
        from scipy import stats
    except ImportError:
        raise MissingExtraError.of("scipy", "analysis") from None
    return stats


def require_target(target: str) -> None:
    """Refuse what is no target."""
    if target not in get_args(Target):
        raise UsageError(f"there is no target {target!r}", "There are 'population' and 'table'.")


def t_quantile(share: float, freedom: Floats | float) -> Floats:
    """Quantiles of the t distribution."""
    found: Floats = np.asarray(statistics().t.ppf(share, np.minimum(freedom, _ENDLESS)))
    return found


@dataclass(frozen=True)
class Pooled:
    """Estimates by name, their covariance, degrees of freedom, and how much of the information is missing.

    `missing` is γ: which part of the variance is there because nobody knows who has what.
    """

    names: tuple[str, ...]
    estimates: Floats
    covariance: Floats
    freedom: Floats
    missing: Floats
    draws: int
    notes: tuple[str, ...] = ()

    @property
    def params(self) -> pd.Series:
        """The estimates."""
        return self._series(self.estimates)

    @property
    def bse(self) -> pd.Series:
        """Their standard errors."""
        return self._series(np.sqrt(np.diag(self.covariance)))

    @property
    def pvalues(self) -> pd.Series:
        """For each whether it is 0: the two-sided p-value."""
        errors = np.sqrt(np.diag(self.covariance))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.abs(self.estimates) / errors
        return self._series(2 * statistics().t.sf(ratios, np.minimum(self.freedom, _ENDLESS)))

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals that hold the truth with a probability of 1 - alpha."""
        pd = require_pandas()
        half = t_quantile(1 - alpha / 2, self.freedom) * np.sqrt(np.diag(self.covariance))
        return pd.DataFrame({"low": self.estimates - half, "high": self.estimates + half}, index=list(self.names))

    def summary(self, alpha: float = 0.05) -> pd.DataFrame:
        """A line for every estimate."""
        pd = require_pandas()
        return pd.DataFrame(
            {
                "estimate": self.estimates,
                "std_error": self.bse.to_numpy(),
                **{name: column.to_numpy() for name, column in self.conf_int(alpha).items()},
                "p_value": self.pvalues.to_numpy(),
                "df": self.freedom,
                "missing_information": self.missing,
            },
            index=list(self.names),
        )

    def __repr__(self) -> str:
        about = "\n".join([f"Pooled over {self.draws} completed tables.", *self.notes])
        return f"{self.summary().round(4).to_string()}\n{about}"

    def _series(self, numbers: Floats) -> pd.Series:
        return require_pandas().Series(numbers, index=list(self.names))


def pool_estimates(
    names: Sequence[str], estimates: Floats, within: Floats, freedom: float = math.inf, notes: tuple[str, ...] = ()
) -> Pooled:
    """Rubin's rules for a line of estimates for every table, and U; `freedom` is that of a whole table."""
    draws = len(estimates)
    if draws < 2:
        raise UsageError(
            "the results of one completed table cannot be pooled: how much they differ is what is unknown",
            "Give those of 5 or more; 20 are usual.",
        )
    apart = estimates - estimates.mean(axis=0)
    between = apart.T @ apart / (draws - 1)
    total = within + (1 + 1 / draws) * between
    variance = np.diag(total)
    extra = (1 + 1 / draws) * np.diag(between)
    missing = np.divide(extra, variance, out=np.zeros_like(extra), where=variance > 0)
    return Pooled(
        names=tuple(names),
        estimates=estimates.mean(axis=0),
        covariance=total,
        freedom=barnard_rubin(missing, draws, freedom),
        missing=missing,
        draws=draws,
        notes=notes,
    )


@dataclass(frozen=True)
class Each:
    """Many estimates by themselves: with standard errors and 95 % intervals, and without their covariance."""

    estimates: Floats
    errors: Floats
    low: Floats
    high: Floats


def pool_each(estimates: Floats, within: Floats | None) -> Each:
    """Rubin's rules for many estimates, a line for each table; `within` are their variances in a whole table, if any.

    Without them the table is all that there is.
    """
    draws = len(estimates)
    extra = (1 + 1 / draws) * estimates.var(axis=0, ddof=1)
    variance = extra if within is None else extra + within
    missing = np.divide(extra, variance, out=np.zeros_like(extra), where=variance > 0)
    freedom = barnard_rubin(missing, draws, 0.0 if within is None else math.inf)
    mean, errors = estimates.mean(axis=0), np.sqrt(variance)
    reach = t_quantile(0.975, freedom) * errors
    return Each(mean, errors, mean - reach, mean + reach)


def barnard_rubin(missing: Floats, draws: int, freedom: float) -> Floats:
    """ν for every γ. Without any `freedom` of a whole table, the table is all that there is: U = 0."""
    if not freedom:
        return np.full_like(missing, draws - 1)
    with np.errstate(divide="ignore"):
        of_draws = (draws - 1) / missing**2
    if not math.isfinite(freedom):
        return of_draws
    observed = (freedom + 1) / (freedom + 3) * freedom * (1 - missing)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = 1 / (1 / of_draws + 1 / observed)
    return np.where(observed > 0, found, np.minimum(of_draws, draws - 1))


def pool(results: Iterable[Any]) -> Pooled:
    """Put the results of one model on every completed table together, as statsmodels gives them.

    Whatever has `params` and `cov_params()` will do. The tables are those of `Release.complete` or `dalenius complete`.
    """
    every = list(results) if isinstance(results, Iterable) else []
    if not all(hasattr(one, "params") and hasattr(one, "cov_params") for one in every) or not every:
        raise UsageError(
            "there is a result without params and cov_params()",
            "Fit the same statsmodels model to every completed table, and give the list of results.",
        )
    params = [one.params for one in every]
    names = _names(every[0])
    if any(_names(one) != names for one in every):
        raise UsageError(
            "the results are not of one model: their coefficients have different names",
            "A category that no row of a table has takes its coefficient away: give all of them in the formula.",
        )
    lines = np.array([np.asarray(one, dtype=np.float64).ravel(order="F") for one in params])
    within: Floats = np.mean([np.asarray(one.cov_params(), dtype=np.float64) for one in every], axis=0)
    freedom = float(getattr(every[0], "df_resid", math.inf) or math.inf)
    return pool_estimates(names, lines, within, freedom)


def _names(result: Any) -> list[str]:
    params = result.params
    if hasattr(params, "columns"):  # of a multinomial model, a column for each outcome
        return [f"{column}: {row}" for column in params.columns for row in params.index]
    if hasattr(params, "index"):
        return [str(name) for name in params.index]
    return [f"x{place}" for place in range(np.asarray(params).size)]
