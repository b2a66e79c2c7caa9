"""Whether a release of people is valid, by plain loops over its tables: what `verify` has to come to.

It goes by docs/release-format.md. Bytes, hashes and the text of the manifest are not looked at: whoever edits a release
in tests restates them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.handmade import cut_text, order, text_of
from tests.handmade_people import key_of, read_rows


def problems(folder: Path) -> list[str]:
    """Whatever is wrong with a release in Parquet files."""
    stated = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found = [*_rows(folder, stated)]
    first = {
        "table": stated["tables"]["st"],
        "column": stated["columns"]["sensitive"],
        **{key: stated[key] for key in ("group_table", "groups", "values")},
    }
    for own in (first, *stated["others"]):
        found += _values(folder, stated, own)
    return found


def _buckets(stated: dict[str, Any]) -> dict[int, tuple[int, int, int]]:
    """People, rows of each, and stratum of every bucket."""
    strata = stated["strata"]
    settings = [(0, 1, stated["setting"])]
    if strata is not None:
        settings = [(k, part["rows_each"], part["setting"]) for k, part in enumerate(strata["strata"], 1)]
    sizes = [(group["size"], rows, k) for k, rows, own in settings for group in own for _ in range(group["buckets"])]
    return dict(enumerate(sizes, 1))


def _rows(folder: Path, stated: dict[str, Any]) -> Iterator[str]:
    buckets = _buckets(stated)
    names = [column["name"] for column in stated["columns"]["quasi_identifiers"]]
    bucket, persons = stated["columns"]["bucket"], stated["persons"]
    rows = read_rows(folder, "qit")
    held: dict[int, dict[int, list[tuple[Any, ...]]]] = {}
    keys = []
    for place, row in enumerate(rows):
        number = row[persons["number"]] if persons else place
        own = tuple(row[name] for name in names)
        held.setdefault(row[bucket], {}).setdefault(number, []).append(own)
        keys.append((row[bucket], number if persons else 0, key_of(own)))
    if keys != sorted(keys):
        yield "order of rows"
    if set(held) != set(buckets):
        yield "buckets"
        return
    for number, people in held.items():
        size, each, stratum = buckets[number]
        if len(people) != size or any(len(own) != each for own in people.values()):
            yield f"sizes of bucket {number}"
        if persons and sorted(people) != list(range(1, len(people) + 1)):
            yield f"numbers in bucket {number}"
        lists = [[key_of(row) for row in people[one]] for one in sorted(people)]
        if persons and lists != sorted(lists):
            yield f"order of people in bucket {number}"
        for one in people.values():
            if stated["strata"] is not None and _stratum(stated, names, one) != stratum:
                yield f"stratum of somebody in bucket {number}"


def _stratum(stated: dict[str, Any], names: list[str], rows: list[tuple[Any, ...]]) -> int:
    place, tree = 0, stated["strata"]["tree"]
    while "stratum" not in tree[place]:
        cut = tree[place]
        if cut["column"] is None:
            low = len(rows) <= int(cut["at_most"])
        else:
            least = min((row[names.index(cut["column"])] for row in rows), key=order)
            at = type(least)(cut["at_most"]) if least is not None else None
            low = least is not None and least == least and order(least) <= order(at)
            assert at is None or cut_text(at) == cut["at_most"]
        place = cut["below"] if low else cut["above"]
    number: int = tree[place]["stratum"]
    return number


def _values(folder: Path, stated: dict[str, Any], own: dict[str, Any]) -> Iterator[str]:
    buckets, bucket = _buckets(stated), stated["columns"]["bucket"]
    name, k = own["column"]["name"], len(own["column"]["of"])
    lines = read_rows(folder, own["table"]["file"].removesuffix(".parquet"))
    rows = stated["persons"]["rows"] if stated["persons"] else None
    keys = [(line[bucket], order(line[name]), line[rows] if rows else 1) for line in lines]
    if keys != sorted(keys):
        yield "order of ST"
    if {line[bucket] for line in lines} != set(buckets):
        yield "buckets of ST"
        return
    held: dict[int, list[tuple[str, int]]] = {number: [] for number in buckets}
    for line in lines:
        held[line[bucket]].append((text_of(line[name]), line[rows] if rows else 1))
    for number, mine in held.items():
        size, each, _ = buckets[number]
        if any(not 1 <= about <= each for _, about in mine):
            yield f"rows of a line in bucket {number}"
        if not size * each <= sum(about for _, about in mine) <= size * each * k:
            yield f"rows in bucket {number}"
        if max(Counter(text for text, _ in mine).values()) > size:
            yield f"people with a value in bucket {number}"
        if k == 1 and rows:
            partial = Counter(text for text, about in mine if about < each)
            if partial and 2 * max(partial.values()) > partial.total():
                yield f"nobody to share with in bucket {number}"
            if sum(2 * about > each for _, about in mine) > size:
                yield f"more than half of the rows in bucket {number}"
    counts = {number: Counter(text for text, _ in mine) for number, mine in held.items()}
    yield from _numbers(stated, own["values"], "value", counts)
    if own["group_table"] is not None:
        yield from _groups(folder, stated, own, counts)
        yield from _groups_by_rows(folder, stated, own, held)
    elif own["groups"] is not None:
        of = {value["value"]: _path(own, value["group"]) for value in own["values"]}
        together = {
            number: Counter(group for text in mine.elements() for group in of.get(text, []))
            for number, mine in counts.items()
        }
        yield from _numbers(stated, own["groups"], "name", together)


def _groups_by_rows(
    folder: Path, stated: dict[str, Any], own: dict[str, Any], held: dict[int, list[tuple[str, int]]]
) -> Iterator[str]:
    """Whether the lines of a group are about so many rows that more people must have it than are said to."""
    k, bucket = len(own["column"]["of"]), stated["columns"]["bucket"]
    people: Counter[Any] = Counter()
    for line in read_rows(folder, own["group_table"]["file"].removesuffix(".parquet")):
        people[line[bucket], line["group"]] += 1
    of: dict[str, list[Any]] = {value["value"]: _path(own, value["group"]) or [None] for value in own["values"]}
    for number, mine in held.items():
        size, each, _ = _buckets(stated)[number]
        for name in (*(group["name"] for group in own["groups"]), None):
            under = [about for text, about in mine if name in of.get(text, [])]
            others = sum(about for text, about in mine if name not in of.get(text, []))
            enough = people[number, name] * k * each >= sum(under)
            enough &= (size - people[number, name]) * each <= others
            if k == 1:
                enough &= people[number, name] >= sum(2 * about > each for about in under)
            if not enough:
                yield f"too few people of {name} in bucket {number}"


def _path(own: dict[str, Any], group: int | None) -> list[str]:
    path = []
    while group is not None:
        path.append(own["groups"][group]["name"])
        group = own["groups"][group]["parent"]
    return path


def _numbers(
    stated: dict[str, Any], listed: list[dict[str, Any]], key: str, counts: dict[int, Counter[str]]
) -> Iterator[str]:
    """Counts, worst cases and limits of what the manifest lists."""
    known, buckets = stated["adversary"]["known_records"], _buckets(stated)
    if {entry[key] for entry in listed} != {name for mine in counts.values() for name in mine}:
        yield f"every {key} is listed"
        return
    for entry in listed:
        cases = [
            (Fraction(mine[entry[key]], buckets[number][0] - known), mine[entry[key]], buckets[number][0])
            for number, mine in counts.items()
            if mine[entry[key]]
        ]
        if sum(count for _, count, _ in cases) != entry["count"]:
            yield f"count of {entry[key]}"
        if max(cases)[1:] != (entry["worst"]["count"], entry["worst"]["size"]):
            yield f"worst case of {entry[key]}"
        if entry["limit"] is not None and max(cases)[0] > Fraction(entry["limit"]):
            yield f"limit of {entry[key]}"


def _groups(
    folder: Path, stated: dict[str, Any], own: dict[str, Any], counts: dict[int, Counter[str]]
) -> Iterator[str]:
    buckets, bucket = _buckets(stated), stated["columns"]["bucket"]
    lines = read_rows(folder, own["group_table"]["file"].removesuffix(".parquet"))
    keys = [(line[bucket], order(line["group"])) for line in lines]
    if keys != sorted(keys):
        yield "order of groups"
    if {line[bucket] for line in lines} != set(buckets):
        yield "buckets of groups"
        return
    people: dict[int, Counter[Any]] = {number: Counter() for number in buckets}
    for line in lines:
        people[line[bucket]][line["group"]] += 1
    names = [group["name"] for group in own["groups"]]
    parts: dict[Any, list[tuple[str, str]]] = {name: [] for name in (*names, None)}
    for group in own["groups"]:
        if group["parent"] is not None:
            parts[names[group["parent"]]].append(("group", group["name"]))
    for value in own["values"]:
        parts[names[value["group"]] if value["group"] is not None else None].append(("value", value["value"]))
    for number, mine in people.items():
        size = buckets[number][0]
        for name, under in parts.items():
            held = [mine[part] if kind == "group" else counts[number][part] for kind, part in under]
            if not max(held, default=0) <= mine[name] <= min(size, sum(held)):
                yield f"people of {name} in bucket {number}"
        tops = [group["name"] for group in own["groups"] if group["parent"] is None]
        if sum(mine[name] for name in (*tops, None)) < size:
            yield f"people without a group in bucket {number}"
    without = {number: Counter({k: n for k, n in mine.items() if k is not None}) for number, mine in people.items()}
    yield from _numbers(stated, own["groups"], "name", without)
