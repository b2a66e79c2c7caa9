"""What analysts do with a release beyond counting: weights, completed tables, models, cross-tabs and tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from dalenius.errors import MissingExtraError, UsageError
from dalenius.model.progress import Progress, Silent
from dalenius.publishing.answers import Answers

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dalenius.analysis.cross_tabs import CrossTab, Independence
    from dalenius.analysis.draw_files import Format
    from dalenius.analysis.generalised import Family
    from dalenius.analysis.groupings import Bins, Levels, Names
    from dalenius.analysis.learned import Lesson
    from dalenius.analysis.rubin import Pooled, Target
    from dalenius.analysis.weighing import Weights

_DRAWS = 20
Kind = Literal["pandas", "polars", "arrow"]


class Analyses(Answers):
    """A release that is analysed. What is learned of its sensitive columns is kept, for the next question."""

    _lessons: dict[tuple[str, ...], Lesson] | None = None

    def to_arrow(
        self, weights: Weights = "learned", column: str | None = None, *, progress: Progress | None = None
    ) -> pa.Table:
        """A row for every person and every value that they may have, with its probability.

        "learned" weights are what all buckets together show; "bucket" weights are those of each bucket by itself, and
        wrong wherever quasi-identifiers and values go together. `column` is one of several sensitive columns.
        """
        table: pa.Table = self._weighted("arrow", weights, column, progress)
        return table

    def to_pandas(
        self, weights: Weights = "learned", column: str | None = None, *, progress: Progress | None = None
    ) -> pd.DataFrame:
        """The same as a DataFrame of pandas, where decimals are floating-point numbers."""
        frame: pd.DataFrame = self._weighted("pandas", weights, column, progress)
        return frame

    def to_polars(
        self, weights: Weights = "learned", column: str | None = None, *, progress: Progress | None = None
    ) -> pl.DataFrame:
        """The same as a DataFrame of Polars."""
        frame: pl.DataFrame = self._weighted("polars", weights, column, progress)
        return frame

    def _weighted(self, kind: Kind, weights: Weights, column: str | None, progress: Progress | None) -> Any:
        import pyarrow as pa

        from dalenius.analysis.weighing import Weighing

        lesson = self._lesson(column, progress) if weights == "learned" else None
        weighing = Weighing(self._folder, weights, column, lesson=lesson, progress=progress)
        weighing.require_room()
        table = pa.concat_tables(weighing.pieces()).unify_dictionaries()
        return _as(kind, table, weighing.warning, weighing.notes)

    def export(
        self,
        path: str | os.PathLike[str],
        weights: Weights = "learned",
        column: str | None = None,
        *,
        force: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """The same as a .parquet or .csv file, piece by piece; gives how many rows it has."""
        from dalenius.analysis.draw_files import write_weights
        from dalenius.analysis.weighing import Weighing

        lesson = self._lesson(column, progress) if weights == "learned" else None
        weighing = Weighing(self._folder, weights, column, lesson=lesson, progress=progress)
        return write_weights(weighing, Path(path), force=force)

    def complete(
        self,
        draws: int = _DRAWS,
        *,
        columns: Sequence[str] | None = None,
        to: Kind = "pandas",
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> list[Any]:
        """Plain tables, one row a person with a value, each a possible truth: draws, not the data.

        Fit a model to each of them, and put the results together with `dalenius.pool`. `columns` are some of several
        sensitive columns. Which program they are for is `to`.
        """
        from dalenius.analysis.completing import NOT_DATA, Completion
        from dalenius.analysis.draw_files import tables_of

        if to not in get_args(Kind):
            raise UsageError(f"there are no tables of {to!r}", "There are 'pandas', 'polars' and 'arrow'.")
        lesson = self._lesson_to_draw(columns, progress)
        completion = Completion(self._folder, draws, columns=columns, seed=seed, lesson=lesson, progress=progress)
        completion.require_room()
        return [_as(to, table, NOT_DATA, completion.notes) for table in tables_of(completion)]

    def write_completed(
        self,
        path: str | os.PathLike[str],
        draws: int = _DRAWS,
        *,
        format: Format = "parquet",
        columns: Sequence[str] | None = None,
        seed: int | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write such tables into a folder, piece by piece, and give the names of the files.

        The formats are "parquet", "csv", "dta" (Stata) and "sav" (SPSS).
        """
        from dalenius.analysis.completing import Completion
        from dalenius.analysis.draw_files import write_draws

        lesson = self._lesson_to_draw(columns, progress)
        completion = Completion(self._folder, draws, columns=columns, seed=seed, lesson=lesson, progress=progress)
        return write_draws(completion, Path(path), format, force=force)

    @overload
    def fit(
        self,
        model: str,
        family: Family,
        *,
        target: Target = "population",
        draws: int = _DRAWS,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Pooled: ...

    @overload
    def fit(self, model: Any, *, column: str | None = None, progress: Progress | None = None) -> Any: ...

    def fit(
        self,
        model: Any,
        family: Family | None = None,
        *,
        column: str | None = None,
        target: Target | None = None,
        draws: int | None = None,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Fit a model: a formula such as "disease ~ age + C(gender)", or one of scikit-learn's classifiers.

        A formula needs a `family`: "logit", "multinomial" or "linear" (for numbers). Its coefficients have standard
        errors that account for what is unknown, for whatever the people are a sample of ("population") or for the
        published "table" alone. A classifier gives a fitted copy that predicts the sensitive `column` from
        quasi-identifiers; notes of what was learned are in its `dalenius_notes_`, and each is a `UserWarning`. A
        formula is code: do not take it from somebody whom you do not trust.
        """
        if not isinstance(model, str):
            from dalenius.analysis.classifiers import fit_classifier

            if (family, target, draws, seed) != (None, None, None, None):
                raise UsageError("family, target, draws and seed are for formulas", "Leave them out for a classifier.")
            return fit_classifier(self._folder, model, column, lesson=self._lesson(column, progress), progress=progress)
        from dalenius.analysis.formulas import fit_formula

        if column is not None:
            raise UsageError("column is for classifiers", "A formula names the sensitive column: 'disease ~ age'.")
        if family is None:
            raise UsageError(
                "a formula needs a family", "Give family='logit' for two outcomes, 'multinomial', or 'linear'."
            )
        return fit_formula(
            self._folder,
            model,
            family,
            target=target or "population",
            draws=_DRAWS if draws is None else draws,
            seed=seed,
            progress=progress,
        )

    def crosstab(
        self,
        rows: Names,
        columns: Names,
        *,
        bins: Bins | None = None,
        levels: Levels | None = None,
        target: Target = "table",
        draws: int = _DRAWS,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> CrossTab:
        """How many people have each value of some columns and each of some others, with 95 % intervals.

        `bins` put numbers into ranges: how many, or where all but the first begin. `levels` put sensitive values into
        the groups that they were released with: {"diagnosis": "chapter"}. `target` is the "table" that was
        published, or whatever its people are a sample of ("population").
        """
        from dalenius.analysis.cross_tabs import cross_tab

        lesson = self._lesson_of([rows, columns], progress)
        how: dict[str, Any] = {"draws": draws, "seed": seed, "progress": progress}
        return cross_tab(self._folder, rows, columns, bins=bins, levels=levels, target=target, lesson=lesson, **how)

    def chi2(
        self,
        rows: Names,
        columns: Names,
        *,
        bins: Bins | None = None,
        levels: Levels | None = None,
        draws: int = _DRAWS,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Independence:
        """Whether some columns go together with some others: a chi-square test that accounts for what is unknown."""
        how: dict[str, Any] = {"draws": draws, "seed": seed, "progress": progress}
        found = self.crosstab(rows, columns, bins=bins, levels=levels, **how).chi2
        if found is None:
            raise UsageError(
                "the cross-tab has one row or one column with people, so there is nothing to test",
                "Choose columns with two values or more.",
            )
        return found

    def describe(
        self,
        column: str | None = None,
        by: Names = (),
        *,
        quantiles: float | Sequence[float] = (0.25, 0.5, 0.75),
        bins: Bins | None = None,
        target: Target = "table",
        draws: int = _DRAWS,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> pd.DataFrame:
        """Mean and quantiles of a numeric sensitive column by quasi-identifiers: a line for each group and figure."""
        from dalenius.analysis.describing import describe

        lesson = self._lesson(column, progress)
        how: dict[str, Any] = {"draws": draws, "seed": seed, "progress": progress}
        return describe(self._folder, column, by, quantiles=quantiles, bins=bins, target=target, lesson=lesson, **how)

    def _lesson(self, column: str | None, progress: Progress | None) -> Lesson | None:
        names = self._folder.manifest.sensitive_names
        return self._lesson_of([names[0] if column is None and len(names) == 1 else column or ()], progress)

    def _lesson_to_draw(self, columns: Sequence[str] | None, progress: Progress | None) -> Lesson | None:
        return self._lesson_of([self._folder.manifest.sensitive_names if columns is None else columns], progress)

    def _lesson_of(self, asked: Sequence[Names], progress: Progress | None) -> Lesson | None:
        """What is learned of the sensitive ones among some columns; None if none of them is."""
        from dalenius.analysis.learned import Lesson
        from dalenius.analysis.pieces import slot_tables

        named = {name for one in asked for name in ([one] if isinstance(one, str) else one)}
        key = tuple(name for name in self._folder.manifest.sensitive_names if name in named)
        if not key:
            return None
        self._lessons = self._lessons if self._lessons is not None else {}
        if key not in self._lessons:
            self._lessons[key] = Lesson(self._folder, slot_tables(self._folder, key), progress or Silent())
        return self._lessons[key]


def _as(kind: Kind, table: pa.Table, warning: str, notes: list[str]) -> Any:
    """A table for a program, with a warning and notes where it can carry them."""
    if kind == "arrow":
        return table.replace_schema_metadata({"dalenius": " ".join([warning, *notes])})
    if kind == "polars":
        try:
            import polars
        except ImportError:
            raise MissingExtraError("polars is not installed", "Install it with: pip install polars") from None
        return polars.from_arrow(table)
    from dalenius.analysis.outcomes import with_floats
    from dalenius.analysis.rubin import require_pandas

    require_pandas()
    frame = with_floats(table).to_pandas()
    frame.attrs.update(warning=warning, notes=notes)
    return frame
