"""The two tables as the manifest has them: a file or a folder of parts each, and the Arrow types of their columns.

The manifest names a type by Arrow's own text for it, such as int64 or timestamp[us, tz=UTC]. `named_type` reads these
names, and `text_can_carry` says which types a CSV file can hold.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dalenius.model.problem import MOST_VALUES

if TYPE_CHECKING:
    import pyarrow as pa

Count = Annotated[int, Field(ge=1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

_DECIMAL = re.compile(r"decimal(32|64|128|256)\(([0-9]+), ([0-9]+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")
_FIXED = re.compile(r"fixed_size_binary\[([0-9]+)\]")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=([01])>")
_LONGEST_NAME = 80  # of a type, in messages


def _is_limit(text: str) -> str:
    numerator, _, denominator = text.partition("/")
    if int(denominator or 1) == 0 or not 0 < Fraction(int(numerator), int(denominator or 1)) <= 1:
        raise ValueError("a limit is above 0 and at most 1")
    return text


Ratio = Annotated[str, Field(pattern=r"^[0-9]{1,200}(/[0-9]{1,200})?$"), AfterValidator(_is_limit)]
Place = Annotated[int, Field(ge=0, lt=MOST_VALUES)]


class Entry(BaseModel):
    """A part of a manifest: no more keys than it has, each of its very type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_enum_values=False)


class TablePart(Entry):
    """A file of a table in parts."""

    file: Annotated[
        str,
        Field(pattern=r"^part-[0-9]{5,}(-[0-9A-Za-z.-]+)?\.parquet$", description="Its name in the table's folder."),
    ]
    rows: Count
    bytes: Count
    sha256: Digest


class TableFile(Entry):
    """One of the two tables: a file, or a folder of Parquet files."""

    file: Annotated[
        str,
        Field(
            pattern=r"^(qit|st([2-9]|[1-9][0-9]{1,2})?(_groups)?|together([2-9]|[1-9][0-9])?)(\.parquet|\.csv|(-[0-9a-f]{16})?)$",
            description="Its name in the folder; without a suffix, that of a folder of parts.",
        ),
    ]
    rows: Count
    bytes: Count
    sha256: Annotated[
        Digest, Field(description="Of a table in parts: the SHA-256 of their digests, as hexadecimal text in a row.")
    ]
    parts: Annotated[
        Annotated[list[TablePart], Field(min_length=1, fail_fast=True)] | None,
        Field(description="The parts in the order of their rows; null for a file."),
    ]

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if ("." in self.file) != (self.parts is None):
            raise ValueError("a folder has parts, and a file has none")
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its files in the folder of the release, in the order of their rows."""
        return (self.file,) if self.parts is None else tuple(f"{self.file}/{part.file}" for part in self.parts)

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of every file, by its name in the folder of the release."""
        stated = [self.sha256] if self.parts is None else [part.sha256 for part in self.parts]
        return dict(zip(self.files, stated, strict=True))

    @classmethod
    def of_parts(cls, folder: str, parts: Iterable[TablePart]) -> TableFile:
        """A table in parts, in the order given."""
        listed = list(parts)
        return cls(
            file=folder,
            rows=sum(part.rows for part in listed),
            bytes=sum(part.bytes for part in listed),
            sha256=digest_of_parts(part.sha256 for part in listed),
            parts=listed,
        )


def digest_of_parts(digests: Iterable[str]) -> str:
    """The SHA-256 of a table in parts, from those of the parts."""
    return hashlib.sha256("".join(digests).encode("ascii")).hexdigest()


class Tables(Entry):
    """The two tables, joined by the bucket column."""

    qit: Annotated[TableFile, Field(description="The quasi-identifiers and the bucket: one row a record.")]
    st: Annotated[TableFile, Field(description="The bucket and the sensitive value: one row a record or fake value.")]


def named_type(name: str) -> pa.DataType:
    """The Arrow type whose text is `name`; ValueError if there is none that a table may publish."""
    try:
        found = _type_called(name)
    except Exception:  # noqa: BLE001 (Arrow fails in many ways on numbers and names that nobody foresaw)
        raise ValueError(f"there is no type {_shown(name)}") from None
    if str(found) != name:
        raise ValueError(f"there is no type {_shown(name)}")
    return found


def _type_called(name: str) -> pa.DataType:
    import pyarrow as pa  # here and below, because a query reads the manifest and needs no Arrow

    dictionary = _DICTIONARY.fullmatch(name)
    if dictionary is None:
        return _simple_type(name)
    return pa.dictionary(pa.type_for_alias(dictionary[2]), _simple_type(dictionary[1]), ordered=dictionary[3] == "1")


def _simple_type(name: str) -> pa.DataType:
    import pyarrow as pa

    if decimal := _DECIMAL.fullmatch(name):
        make = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}[decimal[1]]
        precision, scale = int(decimal[2]), int(decimal[3])
        if scale > precision:
            raise ValueError("more digits behind the point than there are digits")
        return make(precision, scale)
    if zoned := _ZONED.fullmatch(name):
        if not _can_locate(zoned[2]) and _can_locate("UTC"):  # on a machine without zones any name has to do
            raise ValueError("an unknown time zone")
        return pa.timestamp(zoned[1], tz=zoned[2])
    if fixed := _FIXED.fullmatch(name):
        return pa.binary(int(fixed[1]))
    return pa.type_for_alias(name)


@lru_cache(maxsize=64)
def _can_locate(zone: str) -> bool:
    """Whether Arrow, and Python for it, know a time zone: they look only when they have to show a time of that zone."""
    import pyarrow as pa

    moment = pa.Array.from_buffers(pa.timestamp("s", tz=zone), 1, [None, pa.py_buffer(bytes(8))])
    try:
        moment.cast(pa.string())
        moment.to_pylist()
    except (pa.ArrowException, LookupError, ValueError, OSError):
        return False
    return True


def _shown(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "...")


def is_text(data_type: pa.DataType) -> bool:
    """Strings of any layout."""
    from dalenius.release import parquet_types  # here, since it loads Arrow

    return parquet_types.is_text(data_type)


def text_can_carry(data_type: pa.DataType) -> bool:
    """Whether a value of this type comes back unchanged from a CSV file."""
    import pyarrow as pa

    if pa.types.is_dictionary(data_type):
        return is_text(data_type.value_type)
    return bool(
        is_text(data_type)
        or pa.types.is_boolean(data_type)
        or pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_date(data_type)
        or pa.types.is_timestamp(data_type)
    )
