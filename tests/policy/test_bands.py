from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalenius.errors import PolicyError
from dalenius.policy.bands import Bands, BandSpec, exact_text, resolve_bands, suggest_bands


def bands(*cuts: str) -> Bands:
    return Bands(tuple(Fraction(cut) for cut in cuts))


def test_the_names_say_where_a_band_ends() -> None:
    assert bands("-0.5", "0", "10000").names == ("below -0.5", "-0.5 to below 0", "0 to below 10000", "10000 and above")
    assert bands().names == ("any number",)


@pytest.mark.parametrize(
    ("number", "text"),
    [("1/3", "1/3"), ("0.29", "0.29"), ("-12.5", "-12.5"), ("0.0001220703125", "0.0001220703125"), ("7", "7")],
)
def test_texts_are_exact(number: str, text: str) -> None:
    assert exact_text(Fraction(number)) == text


_decimals = st.decimals(-1000, 1000, places=2).map(Fraction)


@given(st.sets(_decimals, min_size=1, max_size=6), st.lists(_decimals, min_size=1, max_size=20))
def test_floats_are_the_decimals_that_they_print_as(cuts: set[Fraction], numbers: list[Fraction]) -> None:
    """Against an oracle: the exact decimals, compared one by one."""
    parted = Bands(tuple(sorted(cuts)))
    wanted = [sum(cut <= number for cut in cuts) for number in numbers]
    assert parted.of(np.array([float(number) for number in numbers])).tolist() == wanted
    assert parted.of(np.array([float(number) for number in numbers], dtype=np.float32)).tolist() == wanted
    assert parted.of(numbers).tolist() == wanted


def test_integers_that_no_cut_reaches() -> None:
    most = 2**63 - 1
    parted = bands(str(-(2**70)), "0.5", str(2**70))
    assert parted.of(np.array([-(2**63), 0, 1, most])).tolist() == [1, 1, 2, 2]
    assert bands(str(most)).of(np.array([most - 1, most])).tolist() == [0, 1]


def test_cuts_beyond_all_floats_of_a_type() -> None:
    numbers = np.array([-np.inf, 0, 3e38, np.inf], dtype=np.float32)
    assert bands("-1e50", "1e50").of(numbers).tolist() == [0, 1, 1, 2]


def test_nan_is_in_no_band() -> None:
    with pytest.raises(PolicyError, match="NaN"):
        bands("0").of(np.array([1.0, np.nan]))


def cuts_of(found: Bands) -> list[str]:
    return [exact_text(cut) for cut in found.cuts]


def resolved(numbers: list[int], counts: list[int], **spec: Any) -> Bands:
    return resolve_bands(BandSpec.of(**spec), np.array(numbers), counts)


def test_quantiles_have_about_as_many_records() -> None:
    assert cuts_of(resolved(list(range(100)), [1] * 100, quantiles=4)) == ["25", "50", "75"]
    assert cuts_of(resolved([1, 2, 3], [1, 1, 8], quantiles=2)) == ["3"]


def test_quantiles_that_fall_together_are_one_and_a_note() -> None:
    found = resolved([1, 2, 3], [98, 1, 1], quantiles=4)
    assert cuts_of(found) == ["2"]
    assert found.notes == ("there are 2 bands and not 4: too many records have the same number",)


@given(
    st.dictionaries(st.integers(-99, 99), st.integers(1, 50), min_size=1, max_size=30),
    st.integers(2, 9),
)
def test_quantiles_are_never_off_by_more_than_one_number(counted: dict[int, int], number: int) -> None:
    """Every band but the last has a quantile within it or at its end: no two cuts pass each other."""
    numbers = sorted(counted)
    found = resolved(numbers, [counted[number] for number in numbers], quantiles=number)
    assert list(found.cuts) == sorted(set(found.cuts))
    assert set(found.cuts) <= set(numbers[1:])
    sizes = np.bincount(found.of(np.array(numbers)), weights=[counted[n] for n in numbers])
    assert all(size > 0 for size in sizes)
    assert max(sizes) <= sum(sizes) / number + 2 * max(counted.values())


@pytest.mark.parametrize(
    ("spec", "cuts"),
    [
        ({"width": 10}, ["10", "20"]),
        ({"width": "2.5"}, ["5", "7.5", "10", "12.5", "15", "17.5", "20", "22.5", "25"]),
        ({"width": 10, "start": 5}, ["5", "15", "25"]),
        ({"width": 10, "start": 30}, []),
        ({"width": 100}, []),
    ],
)
def test_bands_of_one_width(spec: dict[str, Any], cuts: list[str]) -> None:
    assert cuts_of(resolved([3, 10, 25], [1, 1, 1], **spec)) == cuts


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "cuts, quantiles or a width"),
        ({"cuts": [1], "width": 2}, "one of them only"),
        ({"cuts": [1, 3, 2]}, "2 comes after 3"),
        ({"cuts": []}, "a list of numbers"),
        ({"cuts": ["x"]}, "a cut must be a decimal"),
        ({"quantiles": 1}, "from 2 to"),
        ({"quantiles": "2.5"}, "got 2.5"),
        ({"width": 0}, "above 0"),
        ({"cuts": [1], "start": 0}, "from needs a width"),
        ({"cuts": 5}, "a list of numbers"),
        ({"cuts": [5, [1, 5]]}, "numbers beside lists"),
        ({"cuts": [[5], []]}, "a list of numbers"),
        ({"cuts": [[[5]]]}, "a cut must be a number"),
        ({"cuts": [[5, 7], [4, 5, 6]]}, "the cut 7 of level 1 is none"),
        ({"cuts": [[5], [5, "1/3"]]}, "1/3 comes after 5"),
        ({"cuts": [[5], [5]]}, "level 1 has the same bands"),
        ({"quantiles": [2, 8, 12]}, "8 quantiles cannot be cut into 12"),
        ({"quantiles": [8, 2]}, "8 quantiles cannot be cut into 2"),
        ({"quantiles": []}, "quantiles is an empty list"),
        ({"width": [50, 20]}, "bands of width 50 cannot be cut into bands of width 20"),
        ({"width": [10, 50]}, "bands of width 10 cannot be cut"),
    ],
)
def test_specifications_that_make_no_sense(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        BandSpec.of(**spec)


def test_a_width_that_makes_too_many_bands() -> None:
    with pytest.raises(PolicyError, match="at most 1,000"):
        resolved([0, 10**6], [1, 1], width=1)


def test_suggested_bands_are_round_and_even() -> None:
    incomes = np.unique((np.random.default_rng(5).lognormal(10, 0.8, 5000)).astype(np.int64))
    spec = suggest_bands(incomes, [1] * len(incomes))
    assert 6 <= len(spec.cuts) <= 7
    assert all(cut % 500 == 0 for cut in spec.cuts)
    sizes = np.bincount(resolve_bands(spec, incomes, [1] * len(incomes)).of(incomes))
    assert min(sizes) > max(sizes) / 2


def test_suggested_bands_for_shares() -> None:
    shares = [Fraction(number, 997) for number in range(998)]
    cuts = suggest_bands(shares, [1] * 998).cuts
    assert len(cuts) == 7
    assert all((20 * cut).denominator == 1 for cut in cuts)


def names_of(found: Bands) -> list[tuple[str, ...]]:
    return [tuple(name for name, _ in path) for path in found.paths]


def test_bands_within_bands() -> None:
    found = resolved([], [], cuts=[[50], [50, 100], [10, 50, 100]])
    assert names_of(found) == [
        ("below 50", "below 50", "below 10"),
        ("below 50", "below 50", "10 to below 50"),
        ("50 and above", "50 to below 100", "50 to below 100"),
        ("50 and above", "100 and above", "100 and above"),
    ]
    assert [level for _, level in found.paths[0]] == ["level 1", "level 2", "band"]


@given(
    st.dictionaries(st.integers(-99, 99), st.integers(1, 50), min_size=1, max_size=30),
    st.sampled_from([{"quantiles": [2, 4, 12]}, {"width": [60, 20, 5]}, {"width": [60, 20, 5], "start": -7}]),
)
def test_coarser_cuts_are_among_the_finer(counted: dict[int, int], spec: dict[str, Any]) -> None:
    """Also where cuts fall together; and every level is what it would be by itself."""
    numbers = sorted(counted)
    records = [counted[number] for number in numbers]
    found = resolved(numbers, records, **spec)
    for coarse, fine in pairwise(found.levels):
        assert set(coarse) <= set(fine)
    (several,) = (given for key, given in spec.items() if key != "start")
    for alone, cuts in zip(several, found.levels, strict=True):
        assert resolved(numbers, records, **{key: alone if key != "start" else spec[key] for key in spec}).cuts == cuts


def test_a_level_whose_cuts_fall_together_is_left_out() -> None:
    found = resolved([1, 2, 3], [98, 1, 1], quantiles=[2, 4])
    assert names_of(found) == [("below 2", "below 2"), ("2 and above", "2 and above")]
    assert found.notes == ("there are 2 bands and not 4: too many records have the same number",)
    assert names_of(resolved([5], [9], quantiles=[2, 4])) == [("any number",)]
