from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dalenius.errors import PolicyError
from dalenius.model.groups import Groups
from dalenius.policy.group_sources import as_grouping, grouping_of, read_groups
from dalenius.policy.grouping import resolve_groups

CODES = ("A01", "C50", "C50.1", "D01", "E11")


def resolved(given: Any, values: Sequence[str] = CODES, counts: Sequence[int] | None = None, **how: Any) -> Groups:
    return resolve_groups(as_grouping(given), values, counts, **how)


def paths(groups: Groups, values: Sequence[str] = CODES) -> dict[str, list[str]]:
    return {value: [groups.groups[place].name for place in groups.path(i)] for i, value in enumerate(values)}


def levels(groups: Groups) -> dict[str, str]:
    return {group.name: group.level for group in groups.groups}


def test_prefixes_of_one_length_and_of_several() -> None:
    assert paths(resolved("prefix:3"))["C50.1"] == ["C50"]
    found = resolved({"prefix": [3, 1]})
    assert paths(found) == {
        "A01": ["A", "A01"],
        "C50": ["C", "C50"],
        "C50.1": ["C", "C50"],
        "D01": ["D", "D01"],
        "E11": ["E", "E11"],
    }
    assert levels(found)["C"] == "prefix 1"
    assert levels(found)["C50"] == "prefix 3"


def test_a_code_that_is_too_short_hangs_at_the_level_above() -> None:
    assert paths(resolved("prefix:1,4"), CODES)["C50"] == ["C"]
    with pytest.raises(PolicyError, match=r"4 of 5 sensitive values are in no group: 'A01'"):
        resolved("prefix:4")


def test_named_prefixes_and_the_longest_wins() -> None:
    given = {"prefixes": {"C": "any cancer", "D0": "any cancer", "C50": "breast", "A": "infection", "E": "hormones"}}
    found = resolved(given)
    assert paths(found) == {
        "A01": ["infection"],
        "C50": ["breast"],
        "C50.1": ["breast"],
        "D01": ["any cancer"],
        "E11": ["hormones"],
    }
    assert set(levels(found).values()) == {"group"}


def test_a_tree_by_hand() -> None:
    tree = {"any disease": {"any cancer": ["C50", "C50.1", "D01"], "other": ["A01"]}, "hormones": ["E11"]}
    found = resolved({"tree": tree})
    assert paths(found)["D01"] == ["any disease", "any cancer"]
    assert paths(found)["E11"] == ["hormones"]
    assert levels(found) == {
        "any disease": "level 1",
        "any cancer": "level 2",
        "other": "level 2",
        "hormones": "level 1",
    }


def test_chapters_and_blocks() -> None:
    found = resolved("ICD10")
    assert paths(found)["D01"] == ["Neoplasms (C00-D49)", "Carcinoma in situ (D00-D09)"]
    assert levels(found)["Neoplasms (C00-D49)"] == "chapter"
    assert len(found.groups) == 8  # groups that the data do not have are left out


def test_bands_of_numbers() -> None:
    values = ("-1", "0", "0.30", "1e2", "?")
    found = resolved({"cuts": ["0.3", 100], "ungrouped": ["?"]}, values)
    assert paths(found, values) == {
        "-1": ["below 0.3"],
        "0": ["below 0.3"],
        "0.30": ["0.3 to below 100"],
        "1e2": ["100 and above"],
        "?": [],
    }
    assert set(levels(found).values()) == {"band"}
    with pytest.raises(PolicyError, match=r"1 of 5 sensitive values is not numeric: '\?'"):
        resolved("cuts:0", values)


def test_quantiles_go_by_records_and_not_by_what_is_ungrouped() -> None:
    values, counts = ("1", "2", "3", "-99"), (1, 1, 8, 90)
    found = resolve_groups(as_grouping({"quantiles": 2, "ungrouped": ["-99"]}), values, counts)
    assert paths(found, values) == {"1": ["below 3"], "2": ["below 3"], "3": ["3 and above"], "-99": []}


def test_unknown_codes_are_listed_and_never_others() -> None:
    values = tuple(f"x{number:02}" for number in range(13))
    with pytest.raises(PolicyError) as error:
        resolved("icd9", (*values, "250"))
    assert error.value.message.startswith("13 of 14 sensitive values are unknown to icd9: 'x00', ")
    assert error.value.message.endswith("'x09' and 3 more")
    assert "ungrouped" in str(error.value.hint)
    found = resolved({"named": "icd9", "ungrouped": list(values)}, (*values, "250"))
    assert paths(found, (*values, "250"))["x00"] == []


def test_a_value_that_a_tree_does_not_have() -> None:
    with pytest.raises(PolicyError, match="are in no group: 'A01', 'E11'"):
        resolved({"tree": {"any cancer": ["C50", "C50.1", "D01"]}})


def test_a_listed_group_without_values_is_an_error_unless_it_is_meant() -> None:
    given = {"tree": {"all": list(CODES), "none": ["X"]}}
    with pytest.raises(PolicyError, match="no value of the data is in 'none'"):
        resolved(given)
    assert levels(resolved(given, allow_absent=True)) == {"all": "group"}
    with pytest.raises(PolicyError, match="is in 'nobody'"):
        resolved({"prefixes": {"Z": "nobody", "A": "a", "C": "c", "D": "d", "E": "e"}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tree": {"a": ["x"], "b": ["x"]}}, "'x' is in 'a' and in 'b'"),
        ({"tree": {"a": {"c": ["x"]}, "b": {"c": ["y"]}}}, "the group 'c' is in two places: in 'a' and in 'b'"),
        ({"tree": {"a": {"a": ["x"]}}}, "the group 'a' is in two places: at the top and in 'a'"),
        ({"tree": {"a": ["x"]}, "ungrouped": ["x"]}, "'x' is under ungrouped, and in the group 'a'"),
        ({"tree": {"a": "x"}}, "the group 'a' must have values"),
        ({"tree": {"a": []}}, "the group 'a' must have values"),
        ({"tree": {" ": ["x"]}}, "a group has no name"),
        ({"tree": {"a": [3]}}, "the group 'a' must be a list of values"),
        ({"prefix": 0}, "a length from 1 to 100"),
        ({"prefix": [3, 3]}, "several different ones"),
        ({"prefix": "1.5"}, "a length from 1 to 100"),
        ({"prefixes": {"C": 3}}, "the name of a group"),
        ({"prefixes": {"": "all"}}, "the name of a group"),
        ({"prefix": 1, "from": 3}, "from needs a width"),
        ({"nmed": "icd9"}, "groups have no key 'nmed'"),
        ({"ungrouped": "?"}, "nothing says where the groups come from"),
        ({"named": "icd9", "ungrouped": "?"}, "ungrouped must be a list"),
        (3, "must be a text or a dict"),
        ("prefix3", "there are no groups 'prefix3'"),
    ],
)
def test_groups_that_make_no_sense(given: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        as_grouping(given)


CSV = "code,block,chapter\nC50,breast,cancer\nD01,in situ,cancer\nA01,gut,infection\nC50,breast,cancer\n\n"


def test_a_file_of_groups(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.replace("in situ", '"in situ, early"').encode())
    found = resolved(str(path), ("A01", "C50", "D01"))
    assert paths(found, ("A01", "C50", "D01"))["D01"] == ["cancer", "in situ, early"]
    assert levels(found)["cancer"] == "chapter"
    assert levels(found)["breast"] == "block"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "has 0 columns, and needs at least 2"),
        (b"value\nC50\n", "has 1 columns"),
        (b"value,value\nC50,x\n", "has no name, or that of another"),
        (b"value,\nC50,x\n", "has no name, or that of another"),
        (b"value,group\nC50\n", "row 2 of the file of groups has 1 fields, and the header line has 2"),
        (b"value,group\nC50,a\nC51, \n", "row 3 of the file of groups has an empty field"),
        (b"value,group\nC50,a\nC50,b\n", "'C50' is in 'a' and, in row 3 of the file of groups, in 'b'"),
        (b"value,group\nC50,\xff\n", "not UTF-8"),
        (b'value,group\n"C50"x,a\n', "not valid CSV"),
        (b"v,g,h\nx,a,top\ny,a,other\n", "the group 'a' is in two places: in 'top' and in 'other'"),
        (b"v,g,h\nx,a,top\ny,top,a\n", "the group 'a' is in two places"),
    ],
)
def test_files_of_groups_that_are_wrong(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "groups.csv"
    path.write_bytes(text)
    with pytest.raises(PolicyError, match=message):
        as_grouping(str(path))


def test_a_file_of_groups_that_no_system_can_have() -> None:
    with pytest.raises(PolicyError, match="null character"):
        as_grouping("groups\0.csv")


def test_a_file_of_groups_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read: Is a directory"):
        read_groups(tmp_path)


def test_what_cannot_be_part_of_a_release_is_refused() -> None:
    deep = {"x": ["a"]}
    for level in range(17):
        deep = {f"level {level}": deep}  # type: ignore[dict-item]
    with pytest.raises(PolicyError, match="18 levels deep"):
        resolve_groups(grouping_of({"tree": deep}), ["a"])
    with pytest.raises(PolicyError, match="400 characters"):
        resolve_groups(grouping_of({"tree": {"n" * 400: ["a"]}}), ["a"])
