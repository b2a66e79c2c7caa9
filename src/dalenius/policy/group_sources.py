"""Groups as publishers say them: a job file's [groups], the option --groups, or a dict in Python.

groups = "icd10"                    # chapters and blocks; also "icd9"

[groups]                            # or one of these:
named = "icd10"
csv = "diagnoses.csv"               # columns: value, group, group of groups, ...
prefix = [1, 3]                     # groups of codes with the same first character, and the same first three
prefixes = {C = "any cancer", D0 = "any cancer"}
tree = {"any cancer" = ["C50", "C51"]}
cuts = [0, 10000, 25000]            # bands of numbers; or quantiles = 8; or width = 5000, and from = 0
cuts = [[0], [0, 10000, 25000]]     # bands in bands, the coarser first; quantiles = [2, 8]; width = [50000, 5000]
ungrouped = ["?"]                   # what is in no group
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dalenius.errors import PolicyError, did_you_mean
from dalenius.policy.bands import BandSpec
from dalenius.policy.exact import exact_fraction
from dalenius.policy.grouping import Grouping
from dalenius.policy.icd import SYSTEMS
from dalenius.tables.delimited import require_regular

_SOURCES = ("named", "csv", "prefix", "prefixes", "tree", "cuts", "quantiles", "width")
_KEYS = (*_SOURCES, "from", "ungrouped")
_WAYS = "Give icd9, icd10, a file that ends in .csv, prefix:3, cuts:0,10000, quantiles:8 or width:5000."
_LONGEST_PREFIX = 100
_DEEPEST = 20


def as_grouping(given: Grouping | str | Mapping[str, Any]) -> Grouping:
    """Groups as Python callers give them: a `Grouping`, a text such as "icd9", or a dict like a job file's [groups]."""
    if isinstance(given, Grouping):
        return given
    if isinstance(given, str):
        return grouping_of(parse_groups(given))
    if not isinstance(given, Mapping):
        raise PolicyError(f"groups must be a text or a dict, got {type(given).__name__}", _WAYS)
    return grouping_of(given)


def parse_groups(text: str) -> dict[str, Any]:
    """The keys of a [groups] section from one text: icd10, diagnoses.csv, prefix:1,3, cuts:0,10000, ...

    Between levels of bands are colons, the coarser first: quantiles:4:16. (1/3 is a number.)
    """
    if text.strip().casefold() in SYSTEMS:
        return {"named": text.strip().casefold()}
    if text.casefold().endswith(".csv"):
        return {"csv": text}
    key, colon, rest = text.partition(":")
    if colon and key == "prefix":
        return {key: _parts(rest, ",")}
    if colon and key in ("cuts", "quantiles", "width"):
        levels = [_parts(level, ",") if key == "cuts" else level for level in _parts(rest, ":")]
        return {key: levels if len(levels) > 1 else levels[0]}
    raise PolicyError(f"there are no groups {text!r}", _WAYS)


def _parts(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator)]


def grouping_of(section: Mapping[str, Any]) -> Grouping:
    """The grouping that a [groups] section describes. A file is read here, and everything is checked."""
    given = {key: value for key, value in section.items() if value is not None and value not in ([], {}, ())}
    unknown = next((key for key in given if key not in _KEYS), None)
    if unknown is not None:
        raise PolicyError(f"groups have no key {unknown!r}", did_you_mean(str(unknown), _KEYS))
    sources = [key for key in _SOURCES if key in given]
    if len(sources) != 1:
        raise PolicyError(
            f"groups come from {' and '.join(sources)}" if sources else "nothing says where the groups come from",
            f"Give one of {', '.join(_SOURCES)}.",
        )
    source, ungrouped = sources[0], _texts(given.get("ungrouped", []), "ungrouped")
    value = given[source]
    if source in ("cuts", "quantiles", "width"):
        spec = BandSpec.of(start=given.get("from"), **{source: value})
        return Grouping("bands", bands=spec, ungrouped=ungrouped)
    if "from" in given:
        raise PolicyError("from needs a width: bands of that width begin there", "Give a width, or leave out from.")
    if source == "named":
        if value not in SYSTEMS:
            raise PolicyError(f"there is no classification {value!r}", did_you_mean(str(value), SYSTEMS))
        return Grouping(str(value), ungrouped=ungrouped)
    if source == "prefix":
        return Grouping("prefix", prefix=_lengths(value), ungrouped=ungrouped)
    if source == "prefixes":
        return Grouping("prefixes", prefixes=_named_prefixes(value), ungrouped=ungrouped)
    if source == "csv":
        paths, levels = read_groups(Path(value))
    else:
        paths, levels = _of_tree(value)
    return Grouping(source, paths=paths, level_names=levels, ungrouped=ungrouped)


def read_groups(path: Path) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    """The groups of each value, from the top down, and the names of the levels: from a CSV file with a header line."""
    try:
        require_regular(path)
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.reader(lines, strict=True))
    except OSError as error:
        raise PolicyError(f"the file of groups cannot be read: {error.strerror}", f"Is it {str(path)!r}?") from None
    except UnicodeDecodeError:
        raise PolicyError("the file of groups is not UTF-8 text", "Save it as UTF-8.") from None
    except ValueError:
        raise PolicyError("the name of the file of groups has a null character", "Rename the file.") from None
    except csv.Error:
        raise PolicyError("the file of groups is not valid CSV", 'Double the quotes inside quoted names: "".') from None
    header = rows[0] if rows else []
    if len(header) < 2:
        raise PolicyError(
            f"the file of groups has {len(header)} columns, and needs at least 2",
            "Its header line names them: value, group, and what groups are in, if anything.",
        )
    if len(set(header)) < len(header) or not all(name.strip() for name in header):
        raise PolicyError("a column of the file of groups has no name, or that of another", "Name each in the header.")
    groups: dict[str, tuple[str, ...]] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        if len(row) != len(header):
            raise PolicyError(
                f"row {number} of the file of groups has {len(row)} fields, and the header line has {len(header)}",
                "Put names with commas in double quotes.",
            )
        if not all(cell.strip() for cell in row):
            raise PolicyError(f"row {number} of the file of groups has an empty field", "Fill it in.")
        path_down = tuple(reversed(row[1:]))
        if groups.setdefault(row[0], path_down) != path_down:
            raise PolicyError(
                f"{row[0]!r} is in {groups[row[0]][-1]!r} and, in row {number} of the file of groups, in "
                f"{' in '.join(repr(name) for name in row[1:])}",
                "Give each value once.",
            )
    return tuple(groups.items()), tuple(reversed(header[1:]))


def _of_tree(tree: Any) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[str, ...]]:
    paths: dict[str, tuple[str, ...]] = {}
    for value, path in _leaves(tree, ()):
        if paths.setdefault(value, path) != path:
            raise PolicyError(f"{value!r} is in {paths[value][-1]!r} and in {path[-1]!r}", "Keep one of them.")
    depth = max((len(path) for path in paths.values()), default=1)
    levels = ("group",) if depth == 1 else tuple(f"level {number}" for number in range(1, depth + 1))
    return tuple(paths.items()), levels


def _leaves(tree: Any, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if len(above) > _DEEPEST:
        raise PolicyError(f"groups are nested more than {_DEEPEST} deep", "Leave out some levels.")
    if isinstance(tree, Mapping):
        for name, below in tree.items():
            if not isinstance(name, str) or not name.strip():
                raise PolicyError("a group has no name", 'Write "any cancer" = ["C50", "C51"].')
            yield from _leaves(below, (*above, name))
    elif above and isinstance(tree, Sequence) and not isinstance(tree, str) and tree:
        yield from ((value, above) for value in _texts(tree, f"the group {above[-1]!r}"))
    else:
        what = f"the group {above[-1]!r}" if above else "a tree of groups"
        raise PolicyError(f"{what} must have values or further groups", 'Write "any cancer" = ["C50", "C51"].')


def _lengths(value: Any) -> tuple[int, ...]:
    several = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    lengths = [exact_fraction(length, "a length of prefixes") for length in several]
    wrong = next((n for n in lengths if n.denominator != 1 or not 1 <= n <= _LONGEST_PREFIX), None)
    if wrong is not None or len(set(lengths)) < len(lengths):
        raise PolicyError(
            f"prefix must be a length from 1 to {_LONGEST_PREFIX}, or several different ones", "Write prefix = [1, 3]."
        )
    return tuple(sorted(int(length) for length in lengths))


def _named_prefixes(value: Any) -> tuple[tuple[str, str], ...]:
    texts = isinstance(value, Mapping) and all(
        isinstance(part, str) and part.strip() for pair in value.items() for part in pair
    )
    if not texts:
        raise PolicyError("prefixes must give each prefix the name of a group", 'Write {C = "any cancer"}.')
    return tuple(value.items())


def _texts(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(text, str) for text in value):
        raise PolicyError(f"{what} must be a list of values", 'Write them as texts: ["?", "C50"].')
    return tuple(dict.fromkeys(value))
