"""numpy to Arrow and back without a copy, and the texts by which sensitive values are known.

`pyarrow.array`, `pyarrow.scalar` and `Array.to_numpy` import pandas if it is there, which takes longer than publishing
a small table. So none of them is used here.

The text of a value is what DuckDB's CAST to VARCHAR makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dalenius.errors import InputError
from dalenius.tables.delimited import not_utf8_column

MOST_DIGITS = 38  # of a decimal, in DuckDB and Spark


@contextmanager
def plain_arrow_errors() -> Iterator[None]:
    """Arrow's errors without what they quote from the data."""
    try:
        yield
    except pa.ArrowException as error:
        raise InputError(
            f"the table has a column that Arrow cannot handle ({type(error).__name__})",
            "Turn columns of unusual types into text, or leave them out.",
        ) from None


def arrow_array(
    values: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None = None, kind: pa.DataType | None = None
) -> pa.Array:
    """An Arrow array of numbers, null where `nulls` says; `kind` may be another type of the same width."""
    data = np.ascontiguousarray(values)
    validity = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    plain = pa.from_numpy_dtype(data.dtype) if kind is None else kind
    return pa.Array.from_buffers(plain, len(data), [validity, pa.py_buffer(data)])


def numpy_array(array: pa.Array) -> npt.NDArray[Any]:
    """The numbers or booleans of an array, read-only; what stands where a null is means nothing."""
    if pa.types.is_boolean(array.type):
        return numpy_array(array.cast(pa.uint8())).view(np.bool_)
    kind = np.dtype(array.type.to_pandas_dtype())
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(len(array), dtype=kind)
    return np.frombuffer(data, dtype=kind)[array.offset : array.offset + len(array)]


def filled(array: pa.Array, value: int) -> npt.NDArray[Any]:
    """The numbers of an array, with `value` where it is null."""
    nulls = null_mask(array)
    if nulls is None:
        return numpy_array(array)
    numbers = numpy_array(array).astype(np.int64)  # `value` may not fit into the type of the array
    numbers[nulls] = value
    return numbers


def null_mask(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Where an array is null; None if it is so nowhere."""
    return numpy_array(array.is_null()) if array.null_count else None


def require_utf8(name: str, column: pa.Array) -> None:
    """Refuse text that is not UTF-8. Parquet files and Spark may have it, and many readers fail on it."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    kind = values.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise InputError(*not_utf8_column(name)) from None


def widened(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values of a type that DuckDB, or a function of Arrow's, does not take, in a wider one that all of them take."""
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return values.cast(pa.large_string())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind) and kind.precision <= MOST_DIGITS:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values


def texts(values: pa.Array) -> list[str | None]:
    """The text of each value; a null has none. DuckDB is loaded only for types whose text is not obvious."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(values.to_pylist())
    if pa.types.is_integer(kind):
        return [None if value is None else str(value) for value in values.to_pylist()]
    from dalenius.tables.open_table import cast_to_text

    return cast_to_text(widened(values))


def distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The different ones of many numbers, ascending. NumPy's `unique` is up to 60 times slower if most differ."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]
