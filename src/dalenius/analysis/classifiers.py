"""Any of scikit-learn's classifiers, fitted to a release: by expectation and maximisation, with weights.

Everybody is there once with each value that they may have, weighted by its probability. These weights are what the
release's own regression (`learned`) leaves open within buckets. Then, in turn,

    M   the classifier is fitted to the weighted rows;
    E   the weights become what it leaves open: its p(value | quasi-identifiers), matched within buckets.

A flexible classifier believes what it was told. So in every round but the last, buckets are put into two halves, and
the weights of each come from a classifier that was fitted to the other. The last one is fitted to all of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dalenius.analysis.learned import Lesson, candidates_of
from dalenius.analysis.outcomes import plain_values, with_floats
from dalenius.analysis.pieces import distinct_rows, slot_tables
from dalenius.analysis.rubin import require_pandas
from dalenius.errors import MissingExtraError, UsageError
from dalenius.infer.candidates import Block, Candidates, Floats, Integers
from dalenius.infer.features import Singles
from dalenius.infer.regression import matched
from dalenius.model.memory import ReadingMemory
from dalenius.model.progress import Progress, Silent
from dalenius.release.folder import ReleaseFolder

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = 2
_LEAST = 1e-6  # of a weight that is worth a row
_MOST_VALUES = 200
_MOST_CATEGORIES = 100  # of a column of text that a classifier without a pipeline of its own gets
_HALVES = 2
_FEW = 20  # buckets, of which a half is too little to learn from
_NULL = "null"
_PREDICTED = 2**22  # cells of features and probabilities at a time
_CELL = 8  # bytes
_TABLES = 3  # of lines by values that are there at once


def fit_classifier(
    folder: ReleaseFolder,
    classifier: Any,
    column: str | None = None,
    *,
    lesson: Lesson | None = None,
    rounds: int = ROUNDS,
    progress: Progress | None = None,
) -> Any:
    """A fitted copy of a classifier, which takes quasi-identifiers as a DataFrame and predicts the sensitive value.

    A pipeline is taken as it is. Anything else gets one: texts are one-hot, and numbers scaled. What to know of what
    was learned is in `dalenius_notes_`, and a warning each.
    """
    _require_classifier(classifier)
    names = folder.manifest.sensitive_names
    if column is None and len(names) > 1:
        raise UsageError(
            f"the release has {len(names):,} sensitive columns, and a classifier predicts one of them",
            f"Say which: column={names[0]!r}.",
        )
    progress = progress or Silent()
    lesson = lesson or Lesson(folder, slot_tables(folder, [column or names[0]]), progress)
    weighted = _Weighted(lesson, column or names[0], folder.memory)
    model = _with_pipeline(classifier, weighted.people)
    needed = weighted.most_rows * _bytes_of_row(classifier, weighted.people)
    folder.memory.require(needed, folder.memory.engine, "the rows for a classifier")
    progress.stage("Fitting", rounds, "rounds")
    for number in range(rounds):
        if number < rounds - 1:
            weighted.learn(model)
        else:
            model = weighted.fitted(model, None)
        progress.advance(1)
    model.dalenius_notes_ = tuple(lesson.notes)
    for note in lesson.notes:
        warnings.warn(note, UserWarning, stacklevel=3)  # where the release is asked
    return model


class _Weighted:
    """People of a release who differ in quasi-identifiers, and the weights of the values that rows may have."""

    def __init__(self, lesson: Lesson, column: str, memory: ReadingMemory) -> None:
        sample, learned = lesson.sample, lesson.learned[0]
        place = sample.slots[0].column_names.index(column)
        different, places = distinct_rows(sample.slots[0].select([place]))
        self._values, of_values = _classes(different.column(0).to_pylist())
        of_slots = of_values[places]
        if len(self._values) < 2:
            raise UsageError(f"{column!r} is the same for everybody, so there is nothing to predict", "Choose another.")
        if len(self._values) > _MOST_VALUES:
            raise UsageError(
                f"{column!r} has {len(self._values):,} values, more than the {_MOST_VALUES} of a classifier here",
                "For numbers use family='linear'; for codes fit a condition: 'I(column == value) ~ ...'.",
            )
        lines, self._line_of = distinct_rows(sample.rows)
        needed = lines.num_rows * (_CELL * lines.num_columns + _TABLES * _CELL * len(self._values))
        memory.require(needed, memory.engine, "what is predicted with a classifier")
        self.people: pd.DataFrame = with_floats(plain_values(lines)).to_pandas()
        self._candidates = candidates_of(sample, 0, of_slots, len(self._values), ())
        self._half = np.random.default_rng(0).permutation(len(self._candidates.numbers)) % _HALVES
        self._totals = _frequencies(self._candidates, lesson)
        kind_of = learned.kinds.of(sample.slots[0])[np.unique(of_slots, return_index=True)[1]]
        logits = learned.logits(lesson.columns, lesson.strata(sample.buckets), None, lesson.further_of(sample.rows))
        logits -= logits.max(axis=1, keepdims=True)
        self._weights = self._beliefs(
            lambda block: np.exp(logits[block.rows[:, :, None], kind_of[block.values][:, None, :]])
        )

    @property
    def most_rows(self) -> int:
        """How many rows with a weight there are at most: lines with a value that somebody of them may have."""
        pairs = sum(block.rows.size * block.values.shape[1] for block in self._candidates.blocks)
        return min(int(pairs), len(self.people) * len(self._values))

    def learn(self, model: Any) -> None:
        """The weights of each half from a classifier that was fitted to the other, unless there is too little of it."""
        from sklearn.base import clone

        if len(self._half) < _FEW or any(self._different(half) < 2 for half in range(_HALVES)):
            return
        shares = [self._predicted(self.fitted(clone(model), 1 - half)) for half in range(_HALVES)]
        self._weights = self._beliefs(
            lambda block: np.where(
                (self._half[block.buckets] == 0)[:, None, None],
                *(own[self._line_of[block.rows][:, :, None], block.values[:, None, :]] for own in shares),
            )
        )

    def _different(self, half: int) -> int:
        """How many values the buckets of a half have."""
        there = [block.values[self._half[block.buckets] == half].ravel() for block in self._candidates.blocks]
        return len(np.unique(np.concatenate(there)))

    def fitted(self, model: Any, half: int | None) -> Any:
        """The classifier, fitted to the buckets of a half, or to all."""
        number = len(self._values)
        total = np.zeros(len(self.people) * number)
        for block, weights in zip(self._candidates.blocks, self._weights, strict=True):
            own = weights * (self._half[block.buckets] == half)[:, None, None] if half is not None else weights
            keys = self._line_of[block.rows][:, :, None] * number + block.values[:, None, :]
            total += np.bincount(keys.ravel(), weights=own.ravel(), minlength=len(total))
        used = np.flatnonzero(total > _LEAST)
        lines, values = np.divmod(used, number)
        name = f"{model.steps[-1][0]}__sample_weight"
        return model.fit(self.people.iloc[lines], self._values[values], **{name: total[used]})

    def _predicted(self, model: Any) -> Floats:
        """How probable each value is for each line of people."""
        number = len(self._values)
        table = np.full((len(self.people), number), _LEAST)
        places = [int(np.flatnonzero(self._values == one)[0]) for one in model.classes_]
        step = max(1, _PREDICTED // (number + _features(self.people)))
        for start in range(0, len(self.people), step):
            table[start : start + step, places] = model.predict_proba(self.people.iloc[start : start + step])
        return table

    def _beliefs(self, shares: Callable[[Block], Floats | Singles]) -> list[Floats]:
        found = []
        for block in self._candidates.blocks:
            totals = np.take_along_axis(self._totals[block.buckets], block.values, axis=1)
            found.append(matched(block, shares(block), totals))
        return found


def _classes(values: list[Any]) -> tuple[Any, Integers]:
    """Values as scikit-learn takes them, and the place of each: whole numbers as they are, whatever else as text."""
    if all(isinstance(value, bool | int) for value in values):
        return np.array(values), np.arange(len(values))
    null = _NULL if _NULL not in values else f"{_NULL} (no value)"
    texts = [null if value is None or value != value else str(value) for value in values]
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # None and NaN are both null
    return np.array(list(places), dtype=object), np.array([places[text] for text in texts])


def _frequencies(candidates: Candidates, lesson: Lesson) -> Floats:
    """How frequent each value is in the stratum of each bucket: what a fake value is taken for."""
    strata = lesson.strata(candidates.numbers)
    totals = np.zeros((int(strata.max(initial=0)) + 1, candidates.values))
    for block in candidates.blocks:
        np.add.at(totals, (strata[block.buckets][:, None], block.values), block.counts)
    found: Floats = totals[strata]
    return found


def _require_classifier(classifier: Any) -> None:
    try:
        from sklearn.base import is_classifier
        from sklearn.utils.validation import has_fit_parameter
    except ImportError:
        raise MissingExtraError.of("scikit-learn", "analysis") from None
    require_pandas()
    if isinstance(classifier, type) or not hasattr(classifier, "fit"):
        raise UsageError(
            "a model is a formula, or one of scikit-learn's classifiers",
            "Write release.fit('disease ~ age', family='logit'), or release.fit(LogisticRegression()).",
        )
    last = classifier.steps[-1][1] if hasattr(classifier, "steps") else classifier
    if not is_classifier(last) or not hasattr(last, "predict_proba"):
        raise UsageError(
            f"{type(last).__name__} is no classifier that gives probabilities, which are needed here",
            "For numbers fit a formula with family='linear'.",
        )
    if not has_fit_parameter(last, "sample_weight"):
        raise UsageError(
            f"{type(last).__name__} takes no sample_weight, by which it would learn from a release",
            "LogisticRegression, HistGradientBoostingClassifier and RandomForestClassifier do, for example.",
        )


def _with_pipeline(classifier: Any, people: pd.DataFrame) -> Any:
    """A copy of a classifier behind steps that turn columns into numbers, unless it has such steps itself."""
    from sklearn.base import clone
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    own = clone(classifier)
    if isinstance(own, Pipeline):
        return own
    numbers = list(people.select_dtypes("number").columns)
    texts = [name for name in people.columns if name not in numbers]
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        max_categories=_MOST_CATEGORIES,
        sparse_output=_takes_sparse(own),
        dtype=np.float32,
    )
    plain = make_pipeline(FunctionTransformer(_as_texts), encoder)
    whole = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_pipeline(ColumnTransformer([("texts", plain, texts), ("numbers", whole, numbers)]), own)


def _takes_sparse(classifier: Any) -> bool:
    """Whether a classifier says that it takes sparse matrices."""
    try:
        from sklearn.utils import get_tags

        return bool(get_tags(classifier).input_tags.sparse)
    except (ImportError, AttributeError):  # an older scikit-learn, or a classifier made for one
        return False


def _bytes_of_row(classifier: Any, people: pd.DataFrame) -> int:
    """What a row takes that a classifier is fitted to: as it is, and as the numbers that its pipeline makes of it."""
    plain = _CELL * (len(people.columns) + 2)  # with its value and its weight
    if hasattr(classifier, "steps") or _takes_sparse(classifier):
        return 2 * plain
    return plain + _CELL * _features(people)


def _features(people: pd.DataFrame) -> int:
    """How many numbers become of a row, at most."""
    texts = people.select_dtypes(exclude="number")
    categories = sum(min(_MOST_CATEGORIES, int(texts[name].nunique()) + 1) for name in texts.columns)
    return categories + 2 * (len(people.columns) - len(texts.columns))  # numbers come with whether there is one


def _as_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns as texts, whatever pandas took them for; a null is one as well."""
    return frame.astype(object).where(frame.notna(), _NULL).astype(str)
