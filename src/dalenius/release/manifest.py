"""The manifest of a release: what the two tables are, and under which limits they were made.

It holds nothing that the tables do not show, beyond the limits themselves, what the adversary may know, how good the
setting is, and how the table was cut into strata: no path, no time, no seed, no order of a file. Counts of values are
those of the rows of ST: with fake values, how many records a value has is not stated. (A limit that a rule makes of
frequencies is made of that number.)
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from dalenius.errors import MemoryLimitError, ReleaseError
from dalenius.model.memory import ReadingMemory
from dalenius.model.plan import Method, Status
from dalenius.model.problem import MOST_VALUES
from dalenius.release.admission import LARGEST_MANIFEST, require_modest
from dalenius.release.column_entries import (
    BandList,
    Codes,
    GroupList,
    KeptTogether,
    SensitiveEntry,
    SensitiveSet,
    ValueList,
)
from dalenius.release.column_entries import Column as Column
from dalenius.release.column_entries import GroupEntry as GroupEntry
from dalenius.release.column_entries import Value as Value
from dalenius.release.column_entries import Worst as Worst
from dalenius.release.earlier_formats import in_its_own_format, in_this_format
from dalenius.release.strata_entries import Adversary as Adversary
from dalenius.release.strata_entries import Chain as Chain
from dalenius.release.strata_entries import Cut as Cut
from dalenius.release.strata_entries import Leaf as Leaf
from dalenius.release.strata_entries import SizeGroupPart as SizeGroupPart
from dalenius.release.strata_entries import Strata as Strata
from dalenius.release.strata_entries import Stratum as Stratum
from dalenius.release.two_tables import Count, Entry, TableFile, Tables
from dalenius.tables.delimited import require_regular

FORMAT: Literal[7] = 7
FILE = "manifest.json"
SIGNATURE_FILE = "manifest.sig"  # of the publisher, if there is one
CRYPTOGRAPHIC: Literal["cryptographic"] = "cryptographic"
SEEDED: Literal["seeded: not for publication"] = "seeded: not for publication"
MOST_SETS = 100  # sensitive columns beside the first
_OF_A_SET = ("group_table", "null_value", "missing", "groups", "bands", "values")  # what a view takes from it
_FIRST_STRICT = 4  # the format since which there is one spelling
_MOST_KEYS = 64  # of an object: each that is too many would be an error of its own


class Program(Entry):
    """What made the release."""

    name: Literal["dalenius"]
    version: Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+){1,2}([a-z.+-][0-9a-z.+-]{0,30})?$")]


class Columns(Entry):
    """The published columns by role. Columns in no role, and identifiers, are not named."""

    bucket: Annotated[str, Field(description="The name of the bucket column in both tables; int64, numbered from 1.")]
    quasi_identifiers: Annotated[list[Column], Field(fail_fast=True)]
    sensitive: SensitiveEntry


class Persons(Entry):
    """Where people have several rows: how the tables tell them apart, and what was left out."""

    number: Annotated[
        str, Field(description="The name of QIT's first column: the number of a person in their bucket, from 1.")
    ]
    rows: Annotated[
        str, Field(description="The name of ST's last column: in how many rows of the person the value is.")
    ]
    most_rows: Annotated[Count | None, Field(description="The most rows that a person has kept, if there is a most.")]
    dropped: Annotated[int, Field(ge=0, description="Rows of the source that were left out because of it.")]


class Manifest(Entry):
    """A whole manifest. The JSON schema in the documentation is made from this class."""

    format: Annotated[Literal[7], Field(description="The version of the release format.")]
    program: Program
    randomness: Annotated[
        Literal["cryptographic", "seeded: not for publication"],
        Field(description="Where the random order of records came from."),
    ]
    tables: Tables
    columns: Columns
    null_value: Annotated[str | None, Field(description="The name under which nulls of the sensitive column count.")]
    missing: Codes
    rows: Annotated[Count, Field(description="Records: the rows of QIT.")]
    people: Annotated[Count, Field(description="Whoever the records are about: as many, unless people have several.")]
    persons: Annotated[Persons | None, Field(description="How people are told apart, if they may have several rows.")]
    buckets: Count
    setting: Annotated[
        list[SizeGroupPart], Field(min_length=1, fail_fast=True, description="In ascending order of size.")
    ]
    loss: Annotated[int, Field(ge=0, description="The sum of (bucket size - 1)^2.")]
    mse: Annotated[float, Field(ge=0, strict=False, description="loss / (people - 1).")]
    method: Annotated[Method, Field(strict=False)]
    status: Annotated[Status, Field(strict=False)]
    bound: Annotated[
        int | None,
        Field(description="No setting of these sizes (with strata: of these strata) has a smaller loss, if known."),
    ]
    gap: Annotated[float | None, Field(strict=False, description="(loss - bound) / loss.")]
    adversary: Adversary
    chain: Annotated[Chain | None, Field(description="What the release follows on, if people are followed.")]
    strata: Annotated[Strata | None, Field(description="How the table was cut into strata, if it was.")]
    groups: GroupList
    bands: BandList
    values: ValueList
    group_table: Annotated[
        TableFile | None,
        Field(
            description="The groups that people have values of, a row for each: only where there are groups, and a "
            "person can have several values."
        ),
    ]
    others: Annotated[
        list[SensitiveSet], Field(max_length=MOST_SETS, fail_fast=True, description="Further sensitive columns.")
    ]
    together: Annotated[
        list[KeptTogether],
        Field(
            max_length=MOST_SETS,
            fail_fast=True,
            description="Tables of what goes with what: of sensitive columns that are kept together.",
        ),
    ]

    _made_in: int = PrivateAttr(default=FORMAT)

    @property
    def made_in(self) -> int:
        """The format that it was written in, which may be an earlier one."""
        return self._made_in

    @property
    def is_strict(self) -> bool:
        """Whether every byte of the release follows from what it says, which can be asked of formats from 4 on."""
        return self._made_in >= _FIRST_STRICT

    @property
    def slots(self) -> int:
        """What ST has rows for: records, values that are nobody's, fakes; where people have several values, those."""
        if self.has_several_values:
            return self.tables.st.rows
        return self.rows + self.surplus + self.adversary.fake_values * self.buckets

    @property
    def surplus(self) -> int:
        """Values of ST that are nobody's, fake values aside: then buckets have fewer rows than their size says."""
        return self.chain.surplus if self.chain is not None else 0

    @property
    def newest(self) -> int:
        """The number of this release in its chain, by which its own buckets are known; 1 if there is no chain."""
        return self.chain.release if self.chain is not None else 1

    @property
    def digest(self) -> str:
        """The SHA-256 of its text, by which the next release of a chain knows it."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def has_several_values(self) -> bool:
        """Whether a person can have several values of the (first) sensitive column."""
        return self.persons is not None or len(self.columns.sensitive.of) > 1

    @property
    def is_plain(self) -> bool:
        """Whether each person has one row and one sensitive value."""
        return not self.has_several_values and not self.others

    @property
    def sets(self) -> int:
        """How many sensitive columns there are."""
        return 1 + len(self.others)

    def view(self, number: int) -> Manifest:
        """The same release with one of its sensitive columns alone, of which the first is number 0."""
        if number == 0:
            seen = self.model_copy(update={"others": [], "together": []})
        else:
            chosen = self.others[number - 1]
            seen = self.model_copy(
                update={
                    "tables": Tables(qit=self.tables.qit, st=chosen.table),
                    "columns": self.columns.model_copy(update={"sensitive": chosen.column}),
                    "others": [],
                    "together": [],
                    **{name: getattr(chosen, name) for name in _OF_A_SET},
                }
            )
        seen._made_in = self._made_in
        return seen

    @property
    def sensitive_names(self) -> tuple[str, ...]:
        """The names of the sensitive columns, in their order."""
        return (self.columns.sensitive.name, *(other.column.name for other in self.others))

    @property
    def apart(self) -> Stratum | None:
        """The last stratum, if it has the records whose values do not apply."""
        last = self.strata.strata[-1] if self.strata is not None else None
        return last if last is not None and not last.applies else None

    @property
    def own_setting(self) -> list[SizeGroupPart]:
        """The buckets of all other records, stratum by stratum."""
        if self.strata is None or self.apart is None:
            return self.setting
        return [group for stratum in self.strata.strata if stratum.applies for group in stratum.setting]

    def to_json(self) -> str:
        """The text of manifest.json; of an earlier format that has one spelling, in that."""
        document = self.model_dump(mode="json")
        if self.is_strict:
            document = in_its_own_format(document, self._made_in)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON schema of manifest.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Manifest.model_json_schema()}


def parse_manifest(text: str) -> Manifest:
    """Check the text of a manifest."""
    try:
        document = json.loads(text, object_pairs_hook=_without_twice)
    except (ValueError, RecursionError):
        raise ReleaseError("the manifest is not valid JSON, or has a key twice") from None
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is not int or version not in range(1, FORMAT + 1):
        raise ReleaseError(
            f"the manifest's format is not one of 1 to {FORMAT}, which this program reads",
            "Is it a release of Dalenius, and is this program as new as the one that made it?",
        )
    for name in ("values", "groups"):
        listed = document.get(name)
        if isinstance(listed, list) and len(listed) > MOST_VALUES:
            raise ReleaseError(f"the manifest has {len(listed):,} {name}, more than {MOST_VALUES:,}")
    try:
        manifest = Manifest.model_validate_json(
            text if version == FORMAT else json.dumps(in_this_format(document, FORMAT))
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReleaseError(f"the manifest's {where}: {first['msg']}") from None
    manifest._made_in = version
    if manifest.is_strict:
        _check_spelling(manifest, text)
    return manifest


def _check_spelling(manifest: Manifest, text: str) -> None:
    """There is one text for what a manifest says: any other could say more."""
    sets: list[Manifest | SensitiveSet] = [manifest, *manifest.others]
    ratios = {value.limit for one in sets for value in one.values}
    ratios |= {group.limit for one in sets for group in one.groups or () if group.limit is not None}
    ratios |= {manifest.strata.margin} if manifest.strata is not None else set()
    if manifest.to_json() != text or any(str(Fraction(ratio)) != ratio for ratio in ratios):
        raise ReleaseError(
            "the manifest is not spelled as Dalenius spells it: blanks, digits or the order of keys differ",
            "Was it edited? Publish again.",
        )


def _without_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different: readers disagree about which of two counts."""
    document = dict(pairs)
    if len(document) < len(pairs) or len(pairs) > _MOST_KEYS:
        raise ValueError("a key is there twice")
    return document


def tables_of_release(folder: Path) -> list[str] | None:
    """The files of the tables of the release in a folder, of this format or an earlier one; None without a release."""
    path = folder / FILE
    try:
        require_regular(path)
        return tables_in(path.read_bytes()) if path.stat().st_size <= LARGEST_MANIFEST else None
    except OSError:
        return None


def tables_in(manifest: bytes) -> list[str] | None:
    """The same from the content of the manifest."""
    try:
        require_modest(manifest)
        document = json.loads(manifest)
        if document["program"]["name"] != "dalenius" or document["format"] not in range(1, FORMAT + 1):
            return None
        entries = [document["tables"]["qit"], document["tables"]["st"], document.get("group_table")]
        for other in document.get("others", []):
            entries += [other["table"], other["group_table"]]
        entries += [one["table"] for one in document.get("together", [])]
        return [name for entry in entries if entry is not None for name in _files(entry)]
    except (ValueError, RecursionError, KeyError, TypeError, ReleaseError, MemoryLimitError):
        return None


def _files(entry: dict[str, Any]) -> list[str]:
    """The files of one table, whatever the format."""
    name = str(entry["file"])
    parts = entry.get("parts")
    return [name] if parts is None else [f"{name}/{part['file']}" for part in parts]


def read_manifest(folder: Path, memory: ReadingMemory | None = None) -> Manifest:
    """The manifest of the release in a folder."""
    path = folder / FILE
    try:
        require_regular(path)
        with path.open("rb") as file:
            content = file.read(LARGEST_MANIFEST + 1)
        require_modest(content, memory)
        return parse_manifest(content.decode("utf-8"))
    except OSError as error:
        raise ReleaseError(
            f"the folder has no manifest that can be read: {error.strerror}", "Give the folder of a release."
        ) from None
    except UnicodeDecodeError:
        raise ReleaseError("the manifest is not UTF-8 text") from None
