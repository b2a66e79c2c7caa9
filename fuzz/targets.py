"""What is tried. A target makes an input, as bytes, from random numbers, and runs it."""

from __future__ import annotations

import csv
import io
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from click.testing import CliRunner

from dalenius.cli.main import main
from dalenius.errors import DaleniusError
from dalenius.query.sql import FUNCTIONS, TYPES
from fuzz.releases import Releases, junk, mutated_bytes

MEMORY = "1GiB"  # that commands are given
_FINE = (0, 1, 2, 3)


class FoundError(Exception):
    """Something that ended as it must not."""


@dataclass(frozen=True)
class Target:
    """Makes inputs and runs them, in a folder of its own."""

    make: Callable[[Random, Releases], bytes]
    run: Callable[[bytes, Releases], None]


def command(*words: str) -> str:
    """Run the program as its users do; what it prints."""
    result = CliRunner().invoke(main, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in _FINE:
        raise FoundError(f"exit code {result.exit_code}: {result.output[-300:]}")
    return result.output


# CSV files, against Python's own reader.

_CELLS = [
    "",
    "a",
    "007",
    " x",
    "x ",
    "é",
    "a,b",
    'say ""hi""',
    "l1\nl2",
    "l1\r\nl2",
    "-0.0",
    "NULL",
    "\t",
    "'",
    "\\",
    "\x00",
]


def _make_csv(random: Random, _releases: Releases) -> bytes:
    columns = random.randrange(1, 5)
    end = random.choice(["\n", "\n", "\n", "\r\n", "\r"])
    mark = random.choice([",", ",", ",", ";", "\t", "|"])
    quoting = random.random()
    lines = [mark.join(f"c{place}" for place in range(columns))]
    for _ in range(random.choice([0, 1, 2, 3, 5, 20, 300])):
        number = columns if random.random() > 0.02 else random.randrange(columns + 2)
        cells = [random.choice(_CELLS) for _ in range(number)]
        shown = [f'"{cell}"' if random.random() < quoting or set(cell) & set('",\n\r;\t|') else cell for cell in cells]
        lines.append(mark.join(shown))
    text = end.join(lines) + random.choice(["", end, end, end * 2])
    content = text.encode()
    if random.random() < 0.3:
        content = mutated_bytes(content, random)
    return (b"\xef\xbb\xbf" if random.random() < 0.03 else b"") + content


def _run_csv(content: bytes, releases: Releases) -> None:
    from dalenius.tables.delimited import read_header
    from dalenius.tables.open_table import open_table
    from dalenius.tables.table_errors import plain_errors

    path = releases.scratch / "table.csv"
    path.write_bytes(content)
    try:
        with open_table(path) as table, plain_errors():
            rows = table.relation.fetchall()
    except DaleniusError:
        return
    delimiter, header = read_header(path, ",;|\t")
    _compare(rows, delimiter, list(header), content)


def _compare(rows: list[tuple[Any, ...]], delimiter: str, header: list[str], content: bytes) -> None:
    text = content.decode("utf-8-sig")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        wanted = [row for row in reader if row]
    except csv.Error as error:
        raise FoundError(f"read what Python's csv does not: {error}") from None
    found = [list(header), *([cell or "" for cell in row] for row in rows)]
    single = len(header) == 1  # where a blank line may be an empty value
    if single:
        wanted, found = [row for row in wanted if row != [""]], [row for row in found if row != [""]]
    if found != wanted:
        raise FoundError("read otherwise than Python's csv")


# Job files.

_KEYS: dict[str, list[str]] = {
    "table": [
        "sensitive",
        "quasi_identifiers",
        "identifiers",
        "null_value",
        "strata",
        "strict",
        "missing",
        "not_applicable",
    ],
    "limits": [
        "odds",
        "floor",
        "theta",
        "base",
        "uniform",
        "l_diversity",
        "beta",
        "values",
        "allow_absent",
        "publish_in_the_clear",
        "groups",
        "levels",
    ],
    "groups": ["named", "csv", "prefix", "prefixes", "tree", "cuts", "quantiles", "width", "from", "ungrouped"],
    "solve": ["method", "min_size", "max_size", "gap", "time_limit"],
    "adversary": ["corrupted", "fakes", "avoid_ruled_out"],
    "report": ["title", "dataset", "controller", "purpose"],
}
_VALUES = [
    '"Disease"', '["Gender", "Age"]', '"auto"', "0", "1", "2", "-1", "0.5", "1e400", "-0.0", "nan", "inf", "true",
    '""', '"1/3"', '"0.1"', "[]", "{}", "{ HIV = 0.25, Flu = 1 }", '{ "" = "x" }', "1979-05-27", '"\\u0000"',
    "99999999999999999999",
    "[[1], [2]]", '"optimal"', '"two-size"', '"é"', "0x1f", "1_000", "1e-9", '"1e-5000"', "4", "8",
    '"icd9"', '["?"]', '{ virus = ["HIV", "Flu"] }', '{ a = { a = ["HIV"] } }', '{ virus = "none" }', "[3, 1]",
]  # fmt: skip


# What fits, so that not every case ends where the file is read.
_FITTING: dict[str, list[str]] = {
    "table.sensitive": ['"Disease"'],
    "table.quasi_identifiers": ['["Gender"]', '["Gender", "Age"]', '["Age"]'],
    "table.null_value": ['"unknown"'],
    "table.strata": ['"auto"', '"none"', "2", '["Gender"]'],
    "table.strict": ["true", "false"],
    "limits.odds": ["2", "4", "1.5", '"7/2"', "1e9", "1"],
    "limits.floor": ["0.02", '"1/50"', "0.5", "1"],
    "limits.theta": ["2", "8", "0.5"],
    "limits.base": ["0.01", '"1/3"', "0"],
    "limits.uniform": ["0.5", '"1/3"', "1", "0.01", "1e-9"],
    "limits.l_diversity": ["2", "3", "50"],
    "limits.beta": ["1", "0.1", "4"],
    "limits.values": ["{ HIV = 0.02 }", "{ HIV = 1, Flu = 0.9 }", '{ HIV = "1/7", Plague = 0.1 }', "{}"],
    "limits.groups": ["{ H = 0.5 }", "{ virus = 0.9 }", "{}"],
    "limits.levels": ['{ group = "none" }', '{ "prefix 1" = { odds = 3 } }', "{ band = { uniform = 0.5 } }"],
    "groups.prefix": ["1", "[1, 2]"],
    "groups.prefixes": ['{ H = "virus", F = "virus" }'],
    "groups.tree": ['{ virus = ["HIV", "Flu"], other = ["Cold", "Gout"] }'],
    "groups.ungrouped": ['["Gout", "Cold", "Flu", "HIV"]', '["?"]'],
    "limits.allow_absent": ["true", "false"],
    "limits.publish_in_the_clear": ["true", "false"],
    "solve.method": ['"optimal"', '"two-size"', '"multi-size"', '"anatomy"'],
    "solve.min_size": ["1", "2", "7"],
    "solve.max_size": ["2", "10", "50", "1000"],
    "solve.gap": ["0", "1e-3", "0.5"],
    "solve.time_limit": ["0.1", "1"],
    "adversary.corrupted": ["0", "1", "2", "9"],
    "adversary.fakes": ["0", "1", "3"],
    "adversary.avoid_ruled_out": ["true", "false"],
    "report.title": ['"A title"', '"é"'],
}
_RULES = ["odds", "theta", "uniform", "l_diversity", "beta"]
_WITH_RULES = {"odds": "floor", "theta": "base"}


def _make_job(random: Random, _releases: Releases) -> bytes:
    content = (_any_job(random) if random.random() < 0.4 else _fitting_job(random)).encode()
    return mutated_bytes(content, random) if random.random() < 0.2 else content


def _any_job(random: Random) -> str:
    lines = []
    for section in random.sample(list(_KEYS), random.randrange(1, len(_KEYS) + 1)):
        lines.append(f"[{section}]")
        keys = random.sample(_KEYS[section], random.randrange(len(_KEYS[section]) + 1))
        lines += [f"{key} = {random.choice(_VALUES)}" for key in keys]
        if random.random() < 0.1:
            lines.append(random.choice(["nonsense = 1", "[limits.values]", "HIV = 0.5", "= 3", "a.b.c = 1", '"""']))
    if random.random() < 0.7:
        lines += ["[table]\nsensitive = 'Disease'"] if "[table]" not in lines else []
    return "\n".join(lines)


def _fitting_job(random: Random) -> str:
    """Keys and values that go together, up to one or two."""
    rule = random.choice(_RULES)
    chosen = {"table.sensitive", "table.quasi_identifiers", f"limits.{rule}"}
    if rule in _WITH_RULES:
        chosen.add(f"limits.{_WITH_RULES[rule]}")
    others = [key for key in _FITTING if key.partition(".")[2] not in {*_RULES, *_WITH_RULES.values()}]
    chosen |= set(random.sample(others, random.randrange(6)))
    if random.random() < 0.2:
        chosen.add(random.choice(list(_FITTING)))
    wild = {random.choice(sorted(chosen)) for _ in range(random.choice([0, 0, 0, 1, 1, 2]))}
    lines = []
    for section in _KEYS:
        lines.append(f"[{section}]")
        for key in sorted(chosen):
            if key.startswith(f"{section}."):
                value = random.choice(_VALUES if key in wild else _FITTING[key])
                lines.append(f"{key.partition('.')[2]} = {value}")
    return "\n".join(lines)


def _run_job(content: bytes, releases: Releases) -> None:
    path = releases.scratch / "job.toml"
    path.write_bytes(content)
    words = [str(releases.table), "--job", str(path), "--time-limit", "1", "--json"]
    command("plan", *words)
    if zlib.crc32(content) % 16 == 0:
        command("publish", *words, "--out", str(releases.scratch / "published"), "--force")


# Manifests.


def _make_manifest(random: Random, releases: Releases) -> bytes:
    name = random.choice(list(releases.manifests))
    content = releases.manifests[name]
    if random.random() < 0.7:
        document = json.loads(content)
        for _ in range(random.choice((1, 1, 2, 5))):
            _change(document, random)
        written = json.dumps(document, indent=2, ensure_ascii=False) + "\n"  # any other spelling is refused at once
        content = written.encode("utf-8", "surrogatepass")
    if random.random() < 0.3:
        content = mutated_bytes(content, random)
    return name.encode() + b"\0" + content


def _change(document: Any, random: Random) -> None:
    """Replace, remove or repeat something somewhere."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            return
        key = random.choice(list(keys))
        if isinstance(place[key], dict | list) and place[key] and random.random() < 0.8:
            place = place[key]
            continue
        what = random.random()
        if what < 0.15:
            del place[key]
        elif what < 0.25 and isinstance(place, list):
            place.extend([place[key]] * random.choice((1, 2, 50)))
        elif what < 0.35 and isinstance(place, dict):
            place[random.choice(["", "format", "another", str(key) * 2])] = place[key]
        else:
            place[key] = junk(random, place[key])
        return


def _run_manifest(content: bytes, releases: Releases) -> None:
    name, _, manifest = content.partition(b"\0")
    folder = releases.copy(name.decode())
    (folder / "manifest.json").write_bytes(manifest)
    _read_all(folder, sum(manifest))


def _read_all(folder: Path, number: int) -> None:
    """Verify a release always, and count, attack and report now and then."""
    command("verify", str(folder), "--memory", MEMORY, "--json")
    if number % 4 == 0:
        command("query", str(folder), "Disease = 'Flu' AND Age > 30", "--no-learn", "--no-measure")
    if number % 16 == 1:
        command("audit", str(folder), "--memory", MEMORY, "--json")
    if number % 128 == 3:
        command("query", str(folder), "Disease = 'Flu' AND Age > 30", "--no-measure")


# Parquet files.


def _make_parquet(random: Random, releases: Releases) -> bytes:
    name = random.choice(releases.with_parquet)
    file, content = releases.mutated_parquet(name, random)
    return name.encode() + b"\0" + file.encode() + b"\0" + content


def _run_parquet(content: bytes, releases: Releases) -> None:
    name, file, body = content.split(b"\0", 2)
    folder = releases.copy(name.decode())
    (folder / file.decode()).write_bytes(body)
    releases.restate(folder, file.decode(), body)
    _read_all(folder, sum(body))


# Queries.

_COLUMNS = ["Gender", "Zipcode", "Age", "Disease", '"Age"', "DISEASE"]
_LITERALS = [
    "'Flu'",
    "''",
    "'é%_'",
    "30",
    "-1",
    "0",
    "1.5",
    "1e300",
    "NULL",
    "TRUE",
    "DATE '2020-02-29'",
    "'%Y-%m'",
    "9" * 40,
]
_UNITS = ["'year'", "'month'", "'day'", "'hour'", "'nonsense'"]
_PATTERNS = ["'F.*'", "'[a-'", "'(a|b)+'", "'\\d{2}'", "'^$'", "'(?i)flu'"]


def _make_query(random: Random, _releases: Releases) -> bytes:
    text = _condition(random, random.randrange(1, 5))
    content = text.encode("utf-8", "replace")
    return mutated_bytes(content, random) if random.random() < 0.1 else content


def _condition(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.2:
        return f"{random.choice(_COLUMNS)} = {random.choice(_LITERALS)}"
    kind = random.randrange(9)
    one = _scalar(random, depth - 1)
    if kind < 2:
        return f"({_condition(random, depth - 1)} {random.choice(['AND', 'OR'])} {_condition(random, depth - 1)})"
    if kind == 2:
        return f"NOT {_condition(random, depth - 1)}"
    if kind == 3:
        return f"{one} IS {random.choice(['', 'NOT '])}NULL"
    if kind == 4:
        return f"{one} IN ({', '.join(_scalar(random, 0) for _ in range(random.randrange(1, 4)))})"
    if kind == 5:
        return f"{one} BETWEEN {_scalar(random, 0)} AND {_scalar(random, 0)}"
    operator = random.choice(["=", "<>", "<", ">=", "LIKE", "ILIKE", "IS DISTINCT FROM", "GLOB", "SIMILAR TO"])
    return f"{one} {operator} {_scalar(random, depth - 1)}"


def _scalar(random: Random, depth: int) -> str:
    if depth <= 0 or random.random() < 0.3:
        return random.choice([random.choice(_COLUMNS), random.choice(_LITERALS)])
    kind = random.randrange(6)
    if kind == 0:
        return f"({_scalar(random, depth - 1)} {random.choice('+-*/%^')} {_scalar(random, depth - 1)})"
    if kind == 1:
        how = random.choice(["CAST", "TRY_CAST"])
        return f"{how}({_scalar(random, depth - 1)} AS {random.choice(sorted(TYPES))})"
    if kind == 2:
        one, other = _scalar(random, depth - 1), _scalar(random, depth - 1)
        return f"CASE WHEN {_condition(random, depth - 1)} THEN {one} ELSE {other} END"
    name = random.choice(sorted(FUNCTIONS))
    arguments = [_scalar(random, depth - 1) for _ in range(random.choice((1, 1, 1, 2, 2, 3)))]
    if name.startswith("date") and random.random() < 0.7:
        arguments[0] = random.choice(_UNITS)
    if name.startswith("regexp"):
        arguments = [arguments[0], random.choice(_PATTERNS)]
    return f"{name}({', '.join(arguments)})"


def _run_query(content: bytes, releases: Releases) -> None:
    text = content.decode("utf-8", "replace")
    try:
        if len(text) % 5 == 0:
            releases.counter.count_by(text, ["Gender"])
        else:
            releases.counter.count(text)
    except DaleniusError as error:
        if error.exit_code not in _FINE:
            raise FoundError(error.message) from error


TARGETS = {
    "csv": Target(_make_csv, _run_csv),
    "job": Target(_make_job, _run_job),
    "manifest": Target(_make_manifest, _run_manifest),
    "parquet": Target(_make_parquet, _run_parquet),
    "query": Target(_make_query, _run_query),
}
