"""Order-preserving integers for fixed-width types: Arrow array to int64 and back, nothing lost.

Numbers, dates, times and booleans become integers whose order is the order of the values: floating point by its bits
(-0.0 before 0.0, and NaN, of which there is one, after everything), unsigned 64-bit numbers shifted by 2^63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.engines.arrays import arrow_array

Integers = npt.NDArray[np.int64]

_TOP = np.uint64(2**63)
_FLOATS: dict[int, tuple[Any, Any]] = {
    16: (np.int16, np.float16),
    32: (np.int32, np.float32),
    64: (np.int64, np.float64),
}


def is_integer_like(kind: pa.DataType) -> bool:
    """Whether the values of a type are integers of at most 64 bits in disguise."""
    t = pa.types
    if t.is_decimal(kind):
        return bool(kind.precision <= 18 and kind.bit_width <= 128)
    return bool(
        t.is_boolean(kind)
        or t.is_integer(kind)
        or t.is_floating(kind)
        or (t.is_temporal(kind) and not _is_interval(kind))
    )


def _is_interval(kind: pa.DataType) -> bool:
    return bool(pa.types.is_interval(kind))


def to_integers(array: pa.Array) -> npt.NDArray[Any]:
    """The values as integers of some width, in the order of the values; what stands where a null is means nothing."""
    kind, count = array.type, len(array)
    if count == 0:
        return np.empty(0, dtype=np.int64)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
        kind = array.type
    data = array.buffers()[1]
    if data is None:
        return np.zeros(count, dtype=np.int64)
    if pa.types.is_decimal(kind) and kind.bit_width == 128:
        return np.frombuffer(data, dtype="<i8")[2 * array.offset : 2 * (array.offset + count) : 2]
    raw = np.frombuffer(data, dtype=_raw_type(kind))[array.offset : array.offset + count]
    if pa.types.is_floating(kind):
        return _float_order(raw, kind.bit_width)
    if pa.types.is_uint64(kind):
        return (raw ^ _TOP).view(np.int64)
    return raw


def from_integers(integers: Integers, kind: pa.DataType, nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The array whose integers these are, with nulls where `nulls` says."""
    if pa.types.is_boolean(kind):
        return arrow_array(integers.astype(np.uint8), nulls).cast(kind)
    if pa.types.is_decimal(kind) and kind.bit_width == 128:
        raw = np.stack((integers, integers >> 63), axis=1)
    elif pa.types.is_floating(kind):
        raw = _float_bits(integers, kind.bit_width)
    elif pa.types.is_uint64(kind):
        raw = integers.view(np.uint64) ^ _TOP
    else:
        raw = integers.astype(_raw_type(kind), copy=False)
    return arrow_array(raw, nulls, kind)


def _raw_type(kind: pa.DataType) -> np.dtype[Any]:
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"<{sign}{kind.bit_width // 8}")


def _float_order(raw: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    integer, real = _FLOATS[width]
    canonical = raw.copy()
    canonical[np.isnan(raw.view(real))] = np.asarray(np.nan, dtype=real).view(integer)
    return np.where(canonical < 0, canonical ^ np.iinfo(integer).max, canonical)


def _float_bits(integers: Integers, width: int) -> npt.NDArray[Any]:
    integer, _ = _FLOATS[width]
    narrow = integers.astype(integer)
    return np.where(narrow < 0, narrow ^ np.iinfo(integer).max, narrow)
