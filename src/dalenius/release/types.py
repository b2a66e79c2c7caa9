"""Arrow types by the names that the manifest gives them, and what text can carry."""

from __future__ import annotations

import re

import pyarrow as pa

_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")
_FIXED = re.compile(r"fixed_size_binary\[(\d+)\]")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=([01])>")


def named_type(name: str) -> pa.DataType:
    """The Arrow type whose text is `name`; ValueError if there is none that a table may publish."""
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        make = {"32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256}[decimal[1]]
        return make(int(decimal[2]), int(decimal[3]))
    zoned = _ZONED.fullmatch(name)
    if zoned:
        return pa.timestamp(zoned[1], tz=zoned[2])
    dictionary = _DICTIONARY.fullmatch(name)
    if dictionary:
        return pa.dictionary(named_type(dictionary[2]), named_type(dictionary[1]), ordered=dictionary[3] == "1")
    fixed = _FIXED.fullmatch(name)
    if fixed:
        return pa.binary(int(fixed[1]))
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise ValueError(f"there is no type {name!r}") from None


def is_text(kind: pa.DataType) -> bool:
    """Strings of any layout."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def text_can_carry(kind: pa.DataType) -> bool:
    """Whether a value of this type comes back unchanged from a CSV file."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return bool(
        is_text(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )
