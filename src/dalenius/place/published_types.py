"""The types that columns are published with: those of the source, but for a few that say too much or too little.

Categories lose the order of their levels, which may be that in which they first occur in the table; categories of
anything but text are published as what they stand for. Columns of text files, which have no types, become numbers,
dates or truth values where that loses nothing: if every text is exactly what the typed value is written as. 007, 1e3,
+5 or 7.50 beside 7.5 keep a column text. So what was put in can always be read back, letter by letter.
"""

from __future__ import annotations

import pyarrow as pa

from dalenius.errors import InputError
from dalenius.place.domains import Domain, Listing, changed
from dalenius.place.integers import is_integer_like

_DIGITS = 18  # decimals of more do not fit into 64 bits


def published_field(field: pa.Field) -> pa.Field:
    """A column with the type that it is published with; an error if it does not hold single values."""
    kind = _plain(field.type)
    t = pa.types
    if t.is_dictionary(kind):
        value = _plain(kind.value_type)
        kind = pa.dictionary(kind.index_type, value) if _is_bytes(value) else value
    inner = kind.value_type if t.is_dictionary(kind) else kind
    if not (_is_bytes(inner) or t.is_null(inner) or t.is_decimal(inner) or is_integer_like(inner)):
        raise InputError(
            f"the column {field.name!r} has the type {field.type}, and single values are wanted",
            "Unnest it, turn it into text, or leave it out.",
        )
    return field.with_type(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    text = t.is_string(kind) or t.is_large_string(kind)
    return bool(text or t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind))


def lossless_type(values: pa.Array) -> pa.DataType:
    """The type in which texts can be kept without loss: text itself if no other will do."""
    if not len(values):
        return values.type
    places = len(values[0].as_py().partition(".")[2])
    decimal = [pa.decimal128(_DIGITS, places)] if 0 < places < _DIGITS else []
    for kind in (pa.int64(), *decimal, pa.date32(), pa.bool_()):
        try:
            if values.cast(kind).cast(values.type).equals(values):
                return kind
        except pa.ArrowException:
            continue
    return values.type


def lossless_types(schema: pa.Schema, domains: dict[str, Domain | None]) -> pa.Schema:
    """The schema with the types that text columns can have; a column whose values were not all listed stays text."""
    for place, field in enumerate(schema):
        domain = domains.get(field.name)
        if isinstance(domain, Listing) and pa.types.is_string(field.type):
            schema = schema.set(place, field.with_type(lossless_type(domain.values)))
    return schema


def as_published(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of the source in the type that it is published with. Text may stay coded."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        if _is_bytes(inner) and column.type.value_type == inner:
            return column
    try:
        return column.cast(kind)
    except pa.ArrowException:
        raise changed() from None
