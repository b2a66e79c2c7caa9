"""What a manifest says of people and of several sensitive columns, before any table is read: can all of it be?

A person has one row, or as many as their stratum says, and one value of a sensitive column, or several: because of
several rows, or because the column is made of several columns of the source. What follows from that is forced, names of
files and columns included, so that nothing can be hidden in a choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dalenius.release.manifest import Cut, Manifest, Persons, Strata
from dalenius.release.two_tables import TableFile
from dalenius.verify.findings import plural, quote

PERSON, ROWS, BUCKET = "person", "rows", "bucket"


def about(manifest: Manifest, number: int) -> str:
    """Which of several sensitive columns something is about, for the beginning of a sentence."""
    return f"{quote(manifest.view(number).columns.sensitive.name)}: " if manifest.others else ""


def people_problems(manifest: Manifest) -> Iterator[str]:
    """Whatever cannot be."""
    yield from _set_problems(manifest)
    if not manifest.is_plain:
        yield from _unsupported(manifest)
    if manifest.persons is None:
        yield from _single_row_problems(manifest)
    else:
        yield from _persons_problems(manifest, manifest.persons)
    for number in range(manifest.sets):
        for problem in _view_problems(manifest.view(number)):
            yield about(manifest, number) + problem
    yield from together_problems(manifest)
    for one in manifest.together:
        if not manifest.people <= one.table.rows <= manifest.rows:
            are = plural(manifest.people, "person has", "people have")
            yield f"{are} {_short(one.table.rows)} tuples in {_short(manifest.rows)} rows, which cannot be"


def file_problems(manifest: Manifest) -> Iterator[str]:
    """Tables that are not called after what they hold, or are of different kinds."""
    tables = _expected_files(manifest)
    kinds = {table.file.partition(".")[2] for _, table in tables}
    stems = [table.file.partition(".")[0].partition("-")[0] for _, table in tables]
    if len(kinds) > 1 or stems != [stem for stem, _ in tables]:
        are = " and ".join(table.file for _, table in tables[:3]) + (" and more" if len(tables) > 3 else "")
        yield f"the tables are {are}, not {' and '.join(stem for stem, _ in tables[:3])} of one kind"


def all_tables(manifest: Manifest) -> list[TableFile]:
    """Every table that there is."""
    return [table for _, table in _expected_files(manifest)]


def _expected_files(manifest: Manifest) -> list[tuple[str, TableFile]]:
    """The tables, with the names that they should have, without the suffix."""
    tables = [("qit", manifest.tables.qit)]
    for number in range(manifest.sets):
        view = manifest.view(number)
        name = "st" if number == 0 else f"st{number + 1}"
        tables.append((name, view.tables.st))
        if view.group_table is not None:
            tables.append((f"{name}_groups", view.group_table))
    for number, kept in enumerate(manifest.together):
        tables.append(("together" if number == 0 else f"together{number + 1}", kept.table))
    return tables


def published_names(manifest: Manifest) -> list[str]:
    """Quasi-identifiers and sensitive columns, by which the columns of the release's own must not be called."""
    sensitive = [manifest.view(number).columns.sensitive.name for number in range(manifest.sets)]
    return [*(column.name for column in manifest.columns.quasi_identifiers), *sensitive]


def free_name(name: str, taken: Sequence[str]) -> str:
    """`name`, or `name_2` and so on if a published column has that name; case does not count."""
    folded = {other.casefold() for other in taken}
    names = (name, *(f"{name}_{number}" for number in range(2, len(folded) + 3)))
    return next(free for free in names if free not in folded)


def name_problems(manifest: Manifest) -> Iterator[str]:
    """Columns of the release's own have one name each."""
    taken, persons = published_names(manifest), manifest.persons
    if manifest.columns.bucket != free_name(BUCKET, taken):
        yield "the bucket column has another name than that of a release"
    if persons is not None and persons.number != free_name(PERSON, taken):
        yield "the column of people's numbers has another name than that of a release"
    if persons is not None and persons.rows != free_name(ROWS, taken):
        yield "the column of numbers of rows has another name than that of a release"


def _set_problems(manifest: Manifest) -> Iterator[str]:
    """Where the values of the sensitive columns come from."""
    quasi = {column.name for column in manifest.columns.quasi_identifiers}
    before: set[str] = set()
    for number in range(manifest.sets):
        sensitive = manifest.view(number).columns.sensitive
        of = sensitive.of
        if again := len(before.intersection(of)):
            yield f"{about(manifest, number)}{plural(again, 'column')} of the source in several sensitive columns"
        before.update(of)
        if len(of) == 1 and of[0] != sensitive.name:
            yield f"{about(manifest, number)}made of one column of another name"
        twice = sum(count - 1 for count in Counter(of).values())
        if twice:
            yield f"{about(manifest, number)}{plural(twice, 'column')} of the source listed more than once"
        if both := sum(1 for name in set(of) if name in quasi):
            yield f"{about(manifest, number)}{plural(both, 'column')} of the source also among the quasi-identifiers"


def _unsupported(manifest: Manifest) -> Iterator[str]:
    """What there is only where everybody has one row and one value."""
    if manifest.adversary.fake_values:
        yield "there are fake values, and people with several rows or sensitive values"
    if any(not value.applies for number in range(manifest.sets) for value in manifest.view(number).values):
        yield "there are values that do not apply, and people with several rows or sensitive values"
    if any(table.parts is not None for table in all_tables(manifest)):
        yield "there are parts, and people with several rows or sensitive values"


def _single_row_problems(manifest: Manifest) -> Iterator[str]:
    """Where people have no numbers, each has a row."""
    if manifest.people != manifest.rows:
        yield f"there are {_short(manifest.people)} people, and {_short(manifest.rows)} rows of one each"
    strata = manifest.strata
    if strata is not None and any(stratum.rows_each != 1 for stratum in strata.strata):
        yield "people of a stratum have several rows, and nothing tells them apart"
    if strata is not None and _cuts_by_rows(strata):
        yield "the tree asks for a number of rows, and everybody has one"


def _persons_problems(manifest: Manifest, persons: Persons) -> Iterator[str]:
    """Where people have numbers, the strata say how many rows they have."""
    strata = manifest.strata
    if strata is None:
        yield "people may have several rows, and no stratum says how many"
        return
    most = max(stratum.rows_each for stratum in strata.strata)
    if persons.most_rows is None and persons.dropped:
        yield f"{plural(persons.dropped, 'row was', 'rows were')} left out, and there is no most"
    if persons.most_rows is not None and most > persons.most_rows:
        yield f"people have {_short(most)} rows, and at most {_short(persons.most_rows)} were kept"
    if most == 1 and not persons.dropped:
        yield "people have numbers, though everybody has one row and none was left out"
    yield from _number_cuts(strata)
    if persons.dropped and persons.most_rows is not None and most < persons.most_rows:
        yield "rows were left out, and nobody has as many as were kept"


def _number_cuts(strata: Strata) -> Iterator[str]:
    """Questions about the number of rows ask for the largest number below them, and there are larger ones above."""
    reached: dict[int, tuple[int, int]] = {}  # the smallest and the largest number of rows under a place of the tree
    for place in range(len(strata.tree) - 1, -1, -1):  # what a question leads to is behind it
        node = strata.tree[place]
        if isinstance(node, Cut):
            both = [reached[way] for way in (node.below, node.above) if way in reached]
            if len(both) < 2:
                return  # the tree is wrong, which is told elsewhere
            (low, most), (least, high) = both
            if node.column is None and not (node.at_most == str(most) and most < least):
                yield "the tree asks for a number of rows that nobody has, or that does not tell people apart"
                return
            reached[place] = min(low, least), max(most, high)
        elif 1 <= node.stratum <= len(strata.strata):
            rows = strata.strata[node.stratum - 1].rows_each
            reached[place] = rows, rows


def _cuts_by_rows(strata: Strata) -> list[Cut]:
    return [node for node in strata.tree if isinstance(node, Cut) and node.column is None]


def _view_problems(view: Manifest) -> Iterator[str]:
    """One sensitive column, of which people may have several values."""
    wants_table = view.has_several_values and view.groups is not None
    if wants_table != (view.group_table is not None):
        yield "there is no table of groups" if wants_table else "there is a table of groups, and none is called for"
    if not view.has_several_values:
        return
    if view.bands is not None:
        yield "numbers count by bands, and people can have several of them"
    lines, columns = view.tables.st.rows, len(view.columns.sensitive.of)
    if not view.people <= lines <= columns * view.rows:
        are = plural(view.people, "person has", "people have")
        yield f"{are} {_short(lines)} values in {_short(view.rows)} rows, which cannot be"
    frequent = sum(1 for value in view.values if value.count > view.people)
    if frequent:
        yield f"{plural(frequent, 'value has', 'values have')} more people than there are"


def together_problems(manifest: Manifest) -> Iterator[str]:
    """Tables of tuples: columns of which a row has one value, each in one tuple, in their one order."""
    places: list[list[int]] = []
    for one in manifest.together:
        names = [name for name in one.columns if name in manifest.sensitive_names]
        if len(names) < len(one.columns):
            yield f"{plural(len(one.columns) - len(names), 'column')} kept together with others, and not sensitive"
            return
        places.append([manifest.sensitive_names.index(name) for name in names])
        if any(len(manifest.view(place).columns.sensitive.of) > 1 for place in places[-1]):
            yield "a column is kept together with others, and a row has several values of it"
    every = [place for own in places for place in own]
    if len(set(every)) < len(every):
        yield "a column is kept together with others more than once"
    if any(sorted(own) != own for own in places) or sorted(places) != places:
        yield "columns that are kept together are in another order than the sensitive columns"


def _short(number: int) -> str:
    text = f"{number:,}"
    return text if len(text) <= 60 else text[:57] + "..."
