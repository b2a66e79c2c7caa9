"""Bands of numbers: [10000, 25000) is a group of incomes.

Cut points c_1 < ... < c_k part the numbers into k + 1 bands: below c_1, c_i to below c_(i+1), and c_k and above. They
are exact, and so is every comparison: a float is the decimal that it prints as, and 0.3 is not below a cut at 0.3.

Bands may be parts of coarser ones: [10000, 25000) of [0, 50000). Every cut between coarser bands is one between finer
ones too, so each band is in exactly one band of every level above. Levels are given from the outermost to the finest,
which is called "band"; those above it are "level 1", "level 2" and so on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from dalenius.errors import PolicyError
from dalenius.policy.exact import Number, exact_fraction

if TYPE_CHECKING:  # most policies have no bands, and need no numpy
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.integer[Any]] | NDArray[np.floating[Any]] | Sequence[Fraction]
    Counts = Sequence[int] | NDArray[np.int64]

MOST_BANDS = 1000
_SUGGESTED = 8


@dataclass(frozen=True)
class BandSpec:
    """How numbers are parted: at `cuts`, into `quantiles` bands of about as many records, or every `width`.

    Bands of one width begin at multiples of it, or at `start`, below which everything is one band. `coarser` says the
    same of the levels above, each by itself and the outermost first.
    """

    cuts: tuple[Fraction, ...] = ()
    quantiles: int | None = None
    width: Fraction | None = None
    start: Fraction | None = None
    coarser: tuple[BandSpec, ...] = ()

    @classmethod
    def of(
        cls,
        cuts: Sequence[Number] | Sequence[Sequence[Number]] | None = None,
        quantiles: Number | Sequence[Number] | None = None,
        width: Number | Sequence[Number] | None = None,
        start: Number | None = None,
    ) -> BandSpec:
        """A specification from numbers as people write them, checked. Several levels are a list, outermost first."""
        if sum(given is not None for given in (cuts, quantiles, width)) != 1:
            raise PolicyError("bands need cuts, quantiles or a width, and one of them only", "Write cuts = [0, 10000].")
        if start is not None and width is None:
            raise PolicyError("from needs a width: bands of that width begin there", "Give a width too.")
        first = exact_fraction(start, "from") if start is not None else None
        if cuts is not None:
            levels = [cls(cuts=_ascending(some)) for some in _lists_of_cuts(cuts)]
        elif quantiles is not None:
            levels = [cls(quantiles=_number_of_bands(number)) for number in _listed(quantiles, "quantiles")]
        else:
            levels = [cls(width=_positive(number), start=first) for number in _listed(width, "width")]
        for place, (coarse, fine) in enumerate(pairwise(levels), 1):
            _refuse_crossing(coarse, fine, place)
        return replace(levels[-1], coarser=tuple(levels[:-1]))

    @property
    def levels(self) -> tuple[str, ...]:
        """What the bands of each level are called, from the outermost on."""
        return (*(f"level {number}" for number in range(1, len(self.coarser) + 1)), "band")


@dataclass(frozen=True)
class Bands:
    """Bands by their cut points, in ascending order, and what the publisher should know about them.

    `coarser` has the cuts of the levels above, the outermost first: all of them are among `cuts`.
    """

    cuts: tuple[Fraction, ...]
    notes: tuple[str, ...] = ()
    coarser: tuple[tuple[Fraction, ...], ...] = ()

    @classmethod
    def at(cls, spec: BandSpec) -> Bands:
        """The bands of a specification by cuts."""
        return cls(spec.cuts, coarser=tuple(above.cuts for above in spec.coarser))

    @property
    def levels(self) -> tuple[tuple[Fraction, ...], ...]:
        """The cuts of every level, the finest last."""
        return (*self.coarser, self.cuts)

    @property
    def spec(self) -> BandSpec:
        """The cuts as a specification."""
        return BandSpec(cuts=self.cuts, coarser=tuple(BandSpec(cuts=cuts) for cuts in self.coarser))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the bands, in ascending order."""
        if not self.cuts:
            return ("any number",)
        texts = [exact_text(cut) for cut in self.cuts]
        between = [f"{low} to below {high}" for low, high in pairwise(texts)]
        return (f"below {texts[0]}", *between, f"{texts[-1]} and above")

    @property
    def paths(self) -> list[tuple[tuple[str, str], ...]]:
        """For each band the coarser ones that hold it, from the outermost on, and itself: the name and level of each.

        A band with the same ends on several levels is named on each of them. Levels above without a cut are left out.
        """
        paths: list[list[tuple[str, str]]] = [[] for _ in self.names]
        for number, cuts in enumerate(self.coarser, 1):
            names = Bands(cuts).names
            for band, path in enumerate(paths if cuts else []):
                place = bisect_right(cuts, self.cuts[band - 1]) if band else 0  # where its lower end is
                path.append((names[place], f"level {number}"))
        return [(*path, (name, "band")) for path, name in zip(paths, self.names, strict=True)]

    def of(self, numbers: Numbers) -> NDArray[np.intp]:
        """For each number the place of its band in `names`."""
        import numpy as np

        if not isinstance(numbers, np.ndarray):
            return np.array([bisect_right(self.cuts, number) for number in numbers], dtype=np.intp)
        if numbers.dtype.kind in "iu":
            return self._places(numbers, _integer_threshold)
        if np.isnan(numbers).any():
            raise PolicyError("a number is NaN, which is in no band", "Make nulls of what is not a number.")
        return self._places(numbers, _float_threshold)

    def _places(self, numbers: NDArray[Any], threshold: Any) -> NDArray[np.intp]:
        """How many cuts are at or below each number, by the smallest number of its type that reaches each cut."""
        import numpy as np

        reached = [least for cut in self.cuts if (least := threshold(cut, numbers.dtype)) is not None]
        return np.searchsorted(np.array(reached, dtype=numbers.dtype), numbers, side="right")


def resolve_bands(spec: BandSpec, numbers: Numbers, counts: Counts) -> Bands:
    """The bands for a column, from its different numbers in ascending order and how many records have each."""
    *above, finest = [_resolved(level, numbers, counts) for level in (*spec.coarser, replace(spec, coarser=()))]
    notes = [f"on level {number} {note}" for number, level in enumerate(above, 1) for note in level.notes]
    return Bands(finest.cuts, (*finest.notes, *notes), tuple(level.cuts for level in above))


def _resolved(spec: BandSpec, numbers: Numbers, counts: Counts) -> Bands:
    """The bands of one level. A cut of quantiles, or of a width, depends on where it should be and on nothing else of
    its level, so the coarser of two levels has no cut that the finer one has not."""
    if not len(numbers):
        return Bands(spec.cuts)
    if spec.quantiles is not None:
        return _by_quantiles(spec.quantiles, numbers, counts)
    if spec.width is not None:
        return Bands(_by_width(spec.width, spec.start, _exact(numbers[0]), _exact(numbers[-1])))
    return Bands(spec.cuts)


def suggest_bands(numbers: Numbers, counts: Counts) -> BandSpec:
    """About eight bands with about as many records each, cut at round numbers: for columns that hardly repeat."""
    cuts = _by_quantiles(_SUGGESTED, numbers, counts).cuts
    ends = (_exact(numbers[0]), *cuts, _exact(numbers[-1]))
    rounded = {
        _roundest(cut, min(cut - below, above - cut) / 3 if above > cut else (cut - below) / 3)
        for below, cut, above in zip(ends, cuts, ends[2:], strict=False)
    }
    return BandSpec(cuts=tuple(sorted(rounded)))


def exact_text(number: Fraction) -> str:
    """A number as text from which it can be read back: a decimal where there is one, else a ratio."""
    digits, rest = 0, number.denominator
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest, power = rest // prime, power + 1
        digits = max(digits, power)
    if rest != 1:
        return f"{number.numerator}/{number.denominator}"
    if not digits:
        return str(number.numerator)
    scaled = abs(number.numerator) * 10**digits // number.denominator
    whole, part = divmod(scaled, 10**digits)
    return f"{'-' if number < 0 else ''}{whole}.{part:0{digits}d}"


def _by_quantiles(bands: int, numbers: Numbers, counts: Counts) -> Bands:
    """Cut j is the number with about j / bands of the records below it; equal cuts are one."""
    below = [0, *accumulate(map(int, counts))]
    cuts: set[Fraction] = set()
    for j in range(1, bands):
        wanted = Fraction(j * below[-1], bands)
        above = bisect_left(below, wanted)
        near = [place for place in (above - 1, above) if 0 < place < len(numbers)]
        if near:
            cuts.add(_exact(numbers[min(near, key=lambda place: abs(below[place] - wanted))]))
    return Bands(tuple(sorted(cuts)), notes_on_quantiles(bands, len(cuts) + 1))


def notes_on_quantiles(asked: int | None, found: int) -> tuple[str, ...]:
    """What to say if there are fewer bands than were asked for, if so many were."""
    if asked is None or asked == found:
        return ()
    return (f"there are {found} bands and not {asked}: too many records have the same number",)


def _by_width(width: Fraction, start: Fraction | None, least: Fraction, greatest: Fraction) -> tuple[Fraction, ...]:
    first = start if start is not None else (math.floor(least / width) + 1) * width
    number = max(0, math.floor((greatest - first) / width) + 1)
    if number >= MOST_BANDS:
        raise PolicyError(
            f"a width of {exact_text(width)} makes {number + 1:,} bands, and at most {MOST_BANDS:,} are allowed",
            "Give a larger width, or quantiles = 8.",
        )
    return tuple(first + place * width for place in range(number))


def _roundest(number: Fraction, slack: Fraction) -> Fraction:
    """The nearest multiple of the largest of 1, 2, 5, 10, 20, ... (or 0.5, 0.2, ...) that moves it by at most this."""
    if slack <= 0:
        return number
    power = Fraction(10) ** (math.floor(math.log10(float(slack))) + 1)
    steps = (power * step / scale for scale in (1, 10) for step in (5, 2, 1))
    step = next(step for step in steps if step / 2 <= slack)
    return round(number / step) * step


def _exact(number: Any) -> Fraction:
    """A number of an array, or a fraction, as a fraction; a float is the decimal that it prints as."""
    if isinstance(number, Fraction):
        return number
    if not math.isfinite(number):
        raise PolicyError("a number is infinite, and bands cannot be worked out from it", "Give cuts.")
    return Fraction(str(number))


def _integer_threshold(cut: Fraction, kind: np.dtype[Any]) -> int | None:
    import numpy as np

    limits = np.iinfo(kind)
    least = math.ceil(cut)
    return None if least > limits.max else max(least, int(limits.min))


def _float_threshold(cut: Fraction, kind: np.dtype[Any]) -> Any:
    """The smallest float of this type that prints as a decimal of at least the cut."""
    import numpy as np

    with np.errstate(over="ignore"):
        near = kind.type(float(cut))
    if not np.isfinite(near):
        return near if cut > 0 else np.finfo(kind).min
    return near if Fraction(str(near)) >= cut else np.nextafter(near, kind.type(np.inf))


def _lists_of_cuts(cuts: Any) -> list[Any]:
    """The cuts of each level: one list of numbers is one level."""
    lists = [_is_list(some) for some in cuts] if _is_list(cuts) else []
    if any(lists) and not all(lists):
        raise PolicyError("cuts have numbers beside lists", "Write a list for each level: cuts = [[50], [10, 50]].")
    return list(cuts) if lists and lists[0] else [cuts]


def _listed(numbers: Any, name: str) -> list[Any]:
    """The number of each level: one number is one level."""
    if _is_list(numbers) and not numbers:
        raise PolicyError(f"{name} is an empty list", f"Write {name} = 8, or a number for each level.")
    return list(numbers) if _is_list(numbers) else [numbers]


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str)


def _refuse_crossing(coarse: BandSpec, fine: BandSpec, number: int) -> None:
    """An error if a cut of the coarser level is none of the next finer one, or if both are the same."""
    if coarse == fine:
        raise PolicyError(f"level {number} has the same bands as the finer level after it", "Leave one of them out.")
    lost = next((cut for cut in coarse.cuts if cut not in fine.cuts), None)
    if lost is not None:
        raise PolicyError(
            f"the cut {exact_text(lost)} of level {number} is none of the finer level after it",
            "Every level needs the cuts of the levels before it, and more: cuts = [[50], [10, 50]].",
        )
    if coarse.quantiles is not None and fine.quantiles is not None and fine.quantiles % coarse.quantiles:
        raise PolicyError(
            f"{coarse.quantiles} quantiles cannot be cut into {fine.quantiles}, which is no multiple",
            f"Give the coarser level first, and multiples: quantiles = [{coarse.quantiles}, {2 * coarse.quantiles}].",
        )
    if coarse.width is not None and fine.width is not None and (coarse.width / fine.width).denominator != 1:
        raise PolicyError(
            f"bands of width {exact_text(coarse.width)} cannot be cut into bands of width {exact_text(fine.width)}",
            "Give the coarser level first, and divisors: width = [50000, 10000].",
        )


def _ascending(cuts: Sequence[Number]) -> tuple[Fraction, ...]:
    if not _is_list(cuts) or not cuts:
        raise PolicyError("cuts must be a list of numbers in ascending order", "Write cuts = [0, 10000, 25000].")
    exact = tuple(exact_fraction(cut, "a cut") for cut in cuts)
    wrong = next(((low, high) for low, high in pairwise(exact) if low >= high), None)
    if wrong is not None:
        raise PolicyError(
            f"cuts must ascend, and {exact_text(wrong[1])} comes after {exact_text(wrong[0])}", "Sort them."
        )
    if len(exact) >= MOST_BANDS:
        raise PolicyError(f"{len(exact):,} cuts are too many; at most {MOST_BANDS - 1:,} are allowed")
    return exact


def _number_of_bands(number: Number) -> int:
    exact = exact_fraction(number, "quantiles")
    if exact.denominator != 1 or not 2 <= exact <= MOST_BANDS:
        raise PolicyError(
            f"quantiles must be a whole number from 2 to {MOST_BANDS:,}, got {exact_text(exact)}",
            "Write quantiles = 8.",
        )
    return int(exact)


def _positive(number: Number) -> Fraction:
    width = exact_fraction(number, "width")
    if width <= 0:
        raise PolicyError(f"width must be above 0, got {exact_text(width)}", "Write width = 5000.")
    return width
