from __future__ import annotations

import shlex

import pytest

from dalenius.policy.group_sources import as_grouping
from dalenius.policy.grouping import resolve_groups
from dalenius.policy.icd import SYSTEMS, IcdGroup, groups_of, groups_to_offer, path_of, system_of


def names(system: str, code: str) -> list[str] | None:
    path = path_of(system, code)
    return None if path is None else [group.codes for group in path]


@pytest.mark.parametrize(
    ("code", "groups"),
    [
        ("250.01", ["240-279", "249-259"]),
        ("25001", ["240-279", "249-259"]),
        ("38", ["001-139", "030-041"]),  # a zero that a spreadsheet has taken
        ("8.45", ["001-139", "001-009"]),
        ("0389", ["001-139", "030-041"]),
        ("174.9", ["140-239", "140-209", "170-176"]),
        ("211", ["140-239", "210-229"]),
        ("285.9", ["280-289"]),  # a chapter without blocks
        ("019", ["001-139"]),  # between two blocks
        ("V58.11", ["V01-V91", "V50-V59"]),
        ("v5811", ["V01-V91", "V50-V59"]),
        ("E9301", ["E000-E999", "E930-E949"]),
        ("E11", None),  # of ICD-10
        ("V92", None),
        ("000", None),
        ("?", None),
        ("", None),
        ("140-239", None),
    ],
)
def test_codes_of_icd_9(code: str, groups: list[str] | None) -> None:
    assert names("icd9", code) == groups


@pytest.mark.parametrize(
    ("code", "groups"),
    [
        ("C50", ["C00-D49", "C00-C97", "C50"]),
        ("c50.911", ["C00-D49", "C00-C97", "C50"]),
        ("C4A.0", ["C00-D49", "C00-C97", "C43-C44, C4A"]),
        ("C7B", ["C00-D49", "C00-C97", "C7A-C7B"]),
        ("C80", ["C00-D49", "C00-C97", "C76-C80"]),
        ("D3A", ["C00-D49", "D3A"]),
        ("D40", ["C00-D49", "D37-D48"]),
        ("D50.0", ["D50-D89", "D50-D53"]),
        ("E1165", ["E00-E90", "E08-E14"]),
        ("I5A", ["I00-I99", "I30-I5A"]),
        ("M1A.9XX0", ["M00-M99", "M05-M14, M1A"]),
        ("S72.001A", ["S00-T98", "S70-S79"]),
        ("X99", ["V00-Y99", "X85-Y09"]),  # a block of two letters
        ("Z3A", ["Z00-Z99", "Z30-Z3A"]),
        ("U07.1", ["U00-U99", "U00-U49"]),
        ("K15", ["K00-K95"]),
        ("D95", None),
        ("250", None),
        ("C5", None),
        ("C50.91111", None),
    ],
)
def test_codes_of_icd_10(code: str, groups: list[str] | None) -> None:
    assert names("icd10", code) == groups


def overlaps(one: IcdGroup, other: IcdGroup) -> bool:
    return any(a <= d and c <= b for a, b in one.ranges for c, d in other.ranges)


@pytest.mark.parametrize(("system", "chapters", "blocks"), [("icd9", 19, 156), ("icd10", 22, 280)])
def test_groups_part_those_above_them(system: str, chapters: int, blocks: int) -> None:
    """Groups side by side do not overlap but for the two of ICD-10-CM that lie in another; they lie in theirs."""
    groups = groups_of(system)
    assert [sum(group.level == level for group in groups) for level in ("chapter", "block")] == [chapters, blocks]
    assert len({group.title.casefold() for group in groups}) == len({group.codes for group in groups}) == len(groups)
    overlapping = set()
    for place, group in enumerate(groups):
        assert group.path[-1] == place
        assert (len(group.path) == 1) == (group.level == "chapter")
        if len(group.path) > 1:
            holder = groups[group.path[-2]]
            assert all(any(a <= c and d <= b for a, b in holder.ranges) for c, d in group.ranges), group
            assert group.width < holder.width
        for other in groups[place + 1 :]:
            if other.path[:-1] == group.path[:-1] and overlaps(group, other):
                overlapping.add((group.codes, other.codes))
    assert overlapping == ({("C76-C80", "C7A-C7B"), ("D37-D48", "D3A")} if system == "icd10" else set())


@pytest.mark.parametrize("system", SYSTEMS)
def test_blocks_begin_and_end_with_their_chapter(system: str) -> None:
    groups = groups_of(system)
    for place, chapter in enumerate(groups):
        inside = [group for group in groups if len(group.path) > 1 and group.path[0] == place]
        if inside:
            first = min(low for group in inside for low, _ in group.ranges)
            last = max(high for group in inside for _, high in group.ranges)
            assert first == chapter.ranges[0][0]
            assert last == chapter.ranges[-1][1] or chapter.codes == "U00-U99"


NINE = [f"{number}" for number in (8, 38, 162, 174, 250, 250.83, 276, 401, 410, 414, 427, 428, 434, 486, 491, 518, 562)]
TEN = [f"{letter}{number}" for letter in "ACEI" for number in ("10", "11.9", "20", "25", "50", "64", "79.1")]


@pytest.mark.parametrize(
    ("values", "system"),
    [
        ([*NINE, "V57", "V58", "E909"], "icd9"),
        ([*NINE, *NINE[3:6]], None),  # numbers alone could be anything
        ([str(number) for number in range(1, 133)], None),
        (TEN, "icd10"),
        ([*TEN, "?", "unknown"], "icd10"),
        (TEN[:15], None),  # too few to tell
        ([*TEN, *(f"value {k}" for k in range(9))], None),
        (["low", "high"] * 20, None),
    ],
)
def test_what_looks_like_codes(values: list[str], system: str | None) -> None:
    assert system_of(tuple(values)) == system


def test_groups_are_offered_with_what_is_in_none() -> None:
    assert groups_to_offer(TEN) == "let chapters and blocks of codes have limits too: --groups icd10"
    offer = groups_to_offer([*TEN, "?", "not known"])
    assert offer is not None
    assert offer.endswith("--groups icd10 --ungrouped '?' --ungrouped 'not known'")
    words = shlex.split(offer.partition(": ")[2])
    section = {"named": words[1], "ungrouped": [words[3], words[5]]}
    assert resolve_groups(as_grouping(section), [*TEN, "?", "not known"]).groups
