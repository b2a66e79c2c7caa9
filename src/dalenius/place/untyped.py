"""Columns of text files, which have no types: numbers and dates where that loses nothing.

A column becomes integers, decimals, dates or truth values if every text in it is exactly what the typed value is
written as: 007, 1e3, +5 or 7.50 beside 7.5 keep a column text. So what was put in can always be read back, letter by
letter.
"""

from __future__ import annotations

import pyarrow as pa

from dalenius.place.domains import Domain, Listing, changed

_DIGITS = 18  # decimals of more do not fit into 64 bits


def lossless_type(values: pa.Array) -> pa.DataType:
    """The type in which texts can be kept without loss: text itself if no other will do."""
    if not len(values):
        return values.type
    first = values[0].as_py()
    places = len(first.partition(".")[2])
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


def as_typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of a text file in the type that was found for it."""
    if pa.types.is_string(column.type) and not pa.types.is_string(kind):
        try:
            return column.cast(kind)
        except pa.ArrowException:
            raise changed() from None
    return column
