"""Arrow's types in Parquet. Numbers of types and fields are those of the format's parquet.thrift."""

from __future__ import annotations

import pyarrow as pa

from dalenius.release.thrift import BINARY, FALSE, I8, I32, STRUCT, TRUE, Field, struct, text, whole, whole_fields

BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTES, FIXED = 0, 1, 2, 4, 5, 6, 7

_TIMES = {"ms": 1, "us": 2, "ns": 3}
_CONVERTED_TIMES = {"ms": 9, "us": 10}  # of time stamps in universal time


def stored_type(data_type: pa.DataType) -> pa.DataType:
    """Categories are stored as what they stand for."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def decimal_bytes(precision: int) -> int:
    """The bytes of a decimal of so many digits."""
    return int((10**precision - 1).bit_length() + 8) // 8


def physical_type(data_type: pa.DataType) -> int:
    """Parquet's own type; ValueError if a release has no such column."""
    t = pa.types
    if t.is_boolean(data_type):
        return BOOLEAN
    if t.is_float16(data_type) or t.is_decimal(data_type) or t.is_fixed_size_binary(data_type):
        return FIXED
    if t.is_floating(data_type):
        return FLOAT if t.is_float32(data_type) else DOUBLE
    if is_variable(data_type):
        return BYTES
    if t.is_null(data_type):
        return INT32
    if t.is_integer(data_type) or t.is_date32(data_type) or t.is_time(data_type):
        return INT64 if data_type.bit_width == 64 else INT32
    if t.is_timestamp(data_type) or t.is_duration(data_type):
        return INT64
    raise ValueError(f"no release has a column of the type {data_type}")


def is_text(data_type: pa.DataType) -> bool:
    """Strings of any layout."""
    t = pa.types
    return bool(t.is_string(data_type) or t.is_large_string(data_type) or t.is_string_view(data_type))


def is_variable(data_type: pa.DataType) -> bool:
    """Text, or bytes of any length."""
    t = pa.types
    return bool(
        is_text(data_type) or t.is_binary(data_type) or t.is_large_binary(data_type) or t.is_binary_view(data_type)
    )


def value_bytes(data_type: pa.DataType) -> int:
    """The bytes of a value where all are of one length; 0 for text, bytes and truth values."""
    if pa.types.is_decimal(data_type):
        return decimal_bytes(data_type.precision)
    physical = physical_type(data_type)
    if physical == FIXED:
        return int(data_type.bit_width) // 8
    return {INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8}.get(physical, 0)


def schema_element(name: str, data_type: pa.DataType, has_nulls: bool) -> bytes:
    """A column in the schema of a file."""
    physical = physical_type(data_type)
    fields: list[Field] = [(1, I32, whole(physical))]
    if physical == FIXED:
        fields.append((2, I32, whole(value_bytes(data_type))))
    fields += [(3, I32, whole(int(has_nulls))), (4, BINARY, text(name.encode()))]
    converted = _converted_type(data_type)
    if converted is not None:
        fields.append((6, I32, whole(converted)))
    if pa.types.is_decimal(data_type):
        fields += [(7, I32, whole(data_type.scale)), (8, I32, whole(data_type.precision))]
    logical = _logical_type(data_type)
    if logical is not None:
        fields.append((10, STRUCT, struct([logical])))
    return struct(fields)


def _converted_type(data_type: pa.DataType) -> int | None:
    """What older readers go by."""
    t = pa.types
    if is_text(data_type):
        return 0
    if t.is_decimal(data_type):
        return 5
    if t.is_date32(data_type):
        return 6
    if t.is_timestamp(data_type) and data_type.tz is not None:
        return _CONVERTED_TIMES.get(data_type.unit)
    if t.is_integer(data_type) and not (t.is_int32(data_type) or t.is_int64(data_type)):
        return (15 if t.is_signed_integer(data_type) else 11) + {8: 0, 16: 1, 32: 2, 64: 3}[data_type.bit_width]
    return None


def _logical_type(data_type: pa.DataType) -> Field | None:
    """What readers go by, as a field of the union of such types."""
    t = pa.types
    if is_text(data_type):
        return 1, STRUCT, struct()
    if t.is_decimal(data_type):
        return 5, STRUCT, whole_fields(data_type.scale, data_type.precision)
    if t.is_date32(data_type):
        return 6, STRUCT, struct()
    if t.is_time(data_type):
        return 7, STRUCT, _time(data_type.unit, False)
    if t.is_timestamp(data_type):
        return 8, STRUCT, _time(data_type.unit, data_type.tz is not None)
    if t.is_integer(data_type) and not (t.is_int32(data_type) or t.is_int64(data_type)):
        signed = TRUE if t.is_signed_integer(data_type) else FALSE
        return 10, STRUCT, struct([(1, I8, bytes([data_type.bit_width])), (2, signed, b"")])
    if t.is_null(data_type):
        return 11, STRUCT, struct()
    if t.is_float16(data_type):
        return 15, STRUCT, struct()
    return None


def _time(unit: str, is_universal: bool) -> bytes:
    of_unit = struct([(_TIMES[unit], STRUCT, struct())])
    return struct([(1, TRUE if is_universal else FALSE, b""), (2, STRUCT, of_unit)])
